//! Speed of the link that a device is attached to, where sysfs shows it: PCI Express lanes, SAS and SATA phys, Fibre
//! Channel ports, USB. All speeds are in bytes per second after the line code, before protocol overhead.

use std::path::{Path, PathBuf};

use crate::live::open_file::read_text;
use crate::live::watched_read::{canonicalize, watch_read};

/// Walks up from the device's folder in sysfs to the nearest link with a known speed.
pub(super) fn link_bytes_per_s(device: &Path) -> Option<f64> {
    let is_nvme = device.file_name()?.to_str()?.starts_with("nvme");
    let start = if is_nvme { nvme_controller(device) } else { None };
    for folder in start.as_deref().unwrap_or(device).ancestors() {
        let name = folder.file_name()?.to_str()?;
        if folder.join("current_link_width").exists() {
            // the link of a controller with many disks is not the link of a single disk
            return if is_nvme { pcie_bytes_per_s(folder) } else { None };
        }
        // the top of the tree of devices
        if name == "devices" {
            return None;
        }
        let found = if name.starts_with("port-") {
            sas_bytes_per_s(folder)
        } else if is_numbered(name, "ata") {
            sata_bytes_per_s(folder)
        } else if is_numbered(name, "host") {
            fibre_channel_bytes_per_s(folder, name)
        } else if folder.join("busnum").exists() {
            usb_bytes_per_s(folder)
        } else {
            None
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Finds a controller of a multipath node, which is attached to a virtual subsystem with links to the controllers.
pub(super) fn nvme_controller(device: &Path) -> Option<PathBuf> {
    let subsystem = device.parent().filter(|p| p.to_string_lossy().contains("/nvme-subsystem/"))?;
    let entries = watch_read(subsystem, || std::fs::read_dir(subsystem)).ok()?.flatten();
    let is_controller = |name: &str| is_numbered(name, "nvme");
    let found = entries.filter(|e| e.file_name().to_str().is_some_and(is_controller)).map(|e| e.path()).min()?;
    canonicalize(&found).ok()
}

fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Parses the number at the start of `6.0 Gbps`, `8.0 GT/s PCIe`, `16 Gbit`.
fn parse_giga(text: &str) -> Option<f64> {
    let value: f64 = text.split_whitespace().next()?.parse().ok()?;
    (value > 0.0 && text.contains('G')).then_some(value * 1e9)
}

/// Bytes per second after the line code: eight of ten bits up to 5 GT/s, 128 of 130 above.
fn pcie_bytes_per_s(folder: &Path) -> Option<f64> {
    let transfers = parse_giga(&read_text(&folder.join("current_link_speed"))?)?;
    let lanes: f64 = read_text(&folder.join("current_link_width"))?.parse().ok()?;
    let code = if transfers <= 5e9 { 0.8 } else { 128.0 / 130.0 };
    (lanes > 0.0).then_some(transfers * lanes * code / 8.0)
}

fn sata_bytes_per_s(folder: &Path) -> Option<f64> {
    let links = watch_read(folder, || std::fs::read_dir(folder)).ok()?.flatten();
    let speed = |link: &Path| {
        let name = link.file_name()?.to_str()?.to_owned();
        parse_giga(&read_text(&link.join("ata_link").join(name).join("sata_spd"))?)
    };
    links.map(|e| e.path()).find_map(|link| speed(&link)).map(|bits| bits * 0.8 / 8.0)
}

/// Bytes per second of a SAS port; a wide port adds up its phys.
fn sas_bytes_per_s(folder: &Path) -> Option<f64> {
    let phys = watch_read(folder, || std::fs::read_dir(folder)).ok()?.flatten();
    let speed = |phy: &Path| {
        let name = phy.file_name()?.to_str()?.to_owned();
        parse_giga(&read_text(&phy.join("sas_phy").join(name).join("negotiated_linkrate"))?)
    };
    let bits: f64 = phys.filter_map(|e| speed(&e.path())).sum();
    // the line code of SAS-4 (22.5 Gbit/s) has 128 data bits in 150, all earlier ones eight in ten
    let code = if bits > 0.0 && bits % 22.5e9 == 0.0 { 128.0 / 150.0 } else { 0.8 };
    (bits > 0.0).then_some(bits * code / 8.0)
}

/// Bytes per second of a Fibre Channel port: a tenth of its nominal gigabits, by the standard's naming.
fn fibre_channel_bytes_per_s(folder: &Path, host: &str) -> Option<f64> {
    parse_giga(&read_text(&folder.join("fc_host").join(host).join("speed"))?).map(|bits| bits / 10.0)
}

/// Bytes per second of a USB device. `speed` is in megabits per second; USB 3 at 5000 has eight data bits in ten,
/// faster USB 3 has 128 in 132, and USB 2 has no such line code.
fn usb_bytes_per_s(folder: &Path) -> Option<f64> {
    let megabits: f64 = read_text(&folder.join("speed"))?.parse().ok()?;
    let code = match megabits {
        m if m >= 10_000.0 => 128.0 / 132.0,
        m if m >= 5000.0 => 0.8,
        _ => 1.0,
    };
    (megabits > 0.0).then_some(megabits * 1e6 * code / 8.0)
}
