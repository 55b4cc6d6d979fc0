//! Block devices from their folders in sysfs.

use std::path::{Path, PathBuf};

use diskwright_base::{Device, DeviceClass, DeviceKind, RaidLevel};

use crate::live::Roots;
use crate::live::mountinfo::parse_device_number;
use crate::live::open_file::{read_bytes, read_number, read_text};
use crate::live::watched_read::{canonicalize, watch_read};

use super::device_class::{self, DeviceTraits};
use super::links;

/// A device and the names by which the stack refers to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockDevice {
    pub device: Device,
    pub number: Option<(u64, u64)>,
    /// Name from the device mapper.
    pub mapper: Option<String>,
}

/// Reads all block devices and their partitions, in the order of their names.
pub(crate) fn read_block_devices(roots: &Roots) -> Vec<BlockDevice> {
    let mut found = Vec::new();
    for name in sorted_names(&roots.sys.join("block")) {
        let folder = roots.sys.join("block").join(&name);
        // unbound, as most loop devices are: nothing else need be read
        if read_number(&folder.join("size")) == Some(0) && has_no_devices_below(&name, &folder) {
            continue;
        }
        // the hidden paths of an NVMe multipath node are not disks: their requests count at the node
        // (diskstats/multipath.rs)
        if read_number(&folder.join("hidden")) == Some(1) {
            continue;
        }
        let block = read_whole_device(&name, &folder);
        for part in sorted_names(&folder).into_iter().filter(|part| folder.join(part).join("partition").exists()) {
            found.push(read_partition(&part, &folder.join(&part), &block));
        }
        found.push(block);
    }
    found.sort_by(|a, b| a.device.name.cmp(&b.device.name));
    found
}

/// Returns true if no devices are below the device, and none can be added.
fn has_no_devices_below(name: &str, folder: &Path) -> bool {
    let is_loop = name.strip_prefix("loop").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    is_loop || !folder.join("md").is_dir() && sorted_names(&folder.join("slaves")).is_empty()
}

fn sorted_names(folder: &Path) -> Vec<String> {
    let Ok(entries) = watch_read(folder, || std::fs::read_dir(folder)) else { return Vec::new() };
    let mut names: Vec<String> = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

/// Returns the kernel name of a file in sysfs, which writes a slash in a name as an exclamation mark.
fn kernel_name(file: &str) -> String {
    file.replace('!', "/")
}

fn read_device_number(folder: &Path) -> Option<(u64, u64)> {
    parse_device_number(read_text(&folder.join("dev"))?.as_bytes())
}

fn read_partition(name: &str, folder: &Path, disk: &BlockDevice) -> BlockDevice {
    let device = Device {
        name: kernel_name(name),
        kind: DeviceKind::Partition,
        class: disk.device.class,
        below: vec![disk.device.name.clone()],
        bytes: read_number(&folder.join("size")).map(|sectors| sectors * 512),
        ..Device::default()
    };
    BlockDevice { device, number: read_device_number(folder), mapper: None }
}

fn read_whole_device(name: &str, folder: &Path) -> BlockDevice {
    let queue = |file: &str| read_text(&folder.join("queue").join(file));
    let text = |file: &str| read_text(&folder.join(file)).filter(|t| !t.is_empty());
    let sysfs_path = canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let model = read_model(folder);
    let mut device = Device {
        name: kernel_name(name),
        kind: device_kind(name, folder),
        below: sorted_names(&folder.join("slaves")).iter().map(|n| kernel_name(n)).collect(),
        rotational: queue("rotational").map(|t| t == "1"),
        scheduler: queue("scheduler").map(|t| active_scheduler(&t)),
        write_cache: queue("write_cache").filter(|t| !t.is_empty()),
        queue_requests: queue("nr_requests").and_then(|t| t.parse().ok()),
        device_depth: queue_depth(folder),
        max_request_bytes: queue("max_sectors_kb").and_then(|t| t.parse::<u64>().ok()).map(|kib| kib * 1024),
        bytes: read_number(&folder.join("size")).and_then(|sectors| sectors.checked_mul(512)),
        serial: read_serial(folder),
        path: attachment_path(&sysfs_path.to_string_lossy()),
        backing: text("loop/backing_file").map(|t| t.trim_end_matches(" (deleted)").to_owned()),
        ..Device::default()
    };
    match device.kind {
        DeviceKind::Md => add_md_array(&mut device, &folder.join("md")),
        DeviceKind::Disk | DeviceKind::Multipath => device.link_bytes_per_s = links::link_bytes_per_s(&sysfs_path),
        _ => {}
    }
    if device.below.is_empty() && device.kind != DeviceKind::Loop {
        // for a disk that NVMe controllers share, the path of a controller shows if it is on the network
        let attached_path = links::nvme_controller(&sysfs_path).unwrap_or(sysfs_path);
        let attached_path = attached_path.to_string_lossy();
        let model = model.as_deref().unwrap_or_default();
        device.class = device_class::class_of_leaf(&DeviceTraits {
            name,
            model,
            sysfs_path: &attached_path,
            rotational: device.rotational,
        });
        if device.kind == DeviceKind::Md || device.kind == DeviceKind::Dm {
            device.class = DeviceClass::Unknown;
        }
    }
    device.model = model;
    BlockDevice { device, number: read_device_number(folder), mapper: text("dm/name") }
}

fn device_kind(name: &str, folder: &Path) -> DeviceKind {
    let uuid = || read_text(&folder.join("dm/uuid")).unwrap_or_default();
    if folder.join("md").is_dir() {
        DeviceKind::Md
    } else if folder.join("dm").is_dir() {
        if uuid().starts_with("mpath-") { DeviceKind::Multipath } else { DeviceKind::Dm }
    } else if folder.join("multipath").is_dir() {
        DeviceKind::Multipath
    } else if name.starts_with("loop") {
        DeviceKind::Loop
    } else if name.starts_with("zram") {
        DeviceKind::Zram
    } else {
        DeviceKind::Disk
    }
}

/// Returns the scheduler in brackets: `none [mq-deadline] kyber`.
fn active_scheduler(schedulers: &str) -> String {
    let inner = schedulers.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(inner, _)| inner);
    inner.unwrap_or(schedulers).to_owned()
}

/// Reads vendor and model; the vendor of virtio is a number and is left out.
fn read_model(folder: &Path) -> Option<String> {
    let text = |file: &str| read_text(&folder.join("device").join(file)).filter(|t| !t.is_empty());
    let model = text("model").or_else(|| text("name"))?;
    Some(match text("vendor").filter(|v| !v.starts_with("0x") && v != "ATA") {
        Some(vendor) => format!("{vendor} {model}"),
        None => model,
    })
}

fn read_serial(folder: &Path) -> Option<String> {
    // mapped devices and sets have a UUID from their creation
    let files = ["device/serial", "serial", "device/wwid", "wwid", "dm/uuid", "md/uuid"];
    let found = files.iter().find_map(|file| read_text(&folder.join(file)).filter(|t| !t.is_empty()));
    found.or_else(|| {
        // SCSI page 80h: four bytes of header, then the number
        let page = read_bytes(&folder.join("device/vpd_pg80")).ok()?;
        let text = String::from_utf8_lossy(page.get(4..)?).trim_matches(['\0', ' ', '\n']).to_owned();
        (!text.is_empty()).then_some(text)
    })
}

/// Returns the attachment of a disk: its path in sysfs without the parts that are numbered in the order of discovery
/// (`host3`, `virtio1`, `nvme0`), so that it is the same after a reboot.
fn attachment_path(sysfs_path: &str) -> Option<String> {
    let (_, device_path) = sysfs_path.split_once("/devices/")?;
    let (bus_path, name) = device_path.split_once("/block/").or_else(|| device_path.rsplit_once('/'))?;
    if bus_path == "virtual" {
        return None;
    }
    let is_numbered_on_discovery = |part: &str| {
        let stem = part.trim_end_matches(|c: char| c.is_ascii_digit() || c == ':');
        matches!(stem, "host" | "target" | "virtio" | "nvme" | "nvme-subsystem" | "session" | "vport")
    };
    let lasting_parts = bus_path.split('/').filter(|part| !is_numbered_on_discovery(part)).map(|part| {
        // host:channel:target:unit of SCSI: all but the host
        let is_address = part.split(':').count() == 4 && part.bytes().all(|b| b.is_ascii_digit() || b == b':');
        if is_address { part.split_once(':').map_or(part, |(_, rest)| rest) } else { part }
    });
    // the namespaces of one NVMe controller are separate disks
    let namespace = name.strip_prefix("nvme").and_then(|n| n.split_once('n')).map(|(_, number)| number);
    Some(lasting_parts.chain(namespace).collect::<Vec<_>>().join("/")).filter(|path| !path.is_empty())
}

/// Reads the queue depth: SCSI reports it; for NVMe it is the size of its queues except the admin queue.
fn queue_depth(folder: &Path) -> Option<u32> {
    let device = folder.join("device");
    if let Some(depth) = read_number(&device.join("queue_depth")) {
        return u32::try_from(depth).ok();
    }
    let entries = read_number(&device.join("sqsize"))?;
    let queues = read_number(&device.join("queue_count"))?.saturating_sub(1).max(1);
    u32::try_from(entries.checked_mul(queues)?).ok()
}

/// Reads an array's folder: level, members that carry data, background operation.
fn add_md_array(device: &mut Device, folder: &Path) {
    let text = |file: &str| read_text(&folder.join(file)).filter(|t| !t.is_empty());
    device.level = text("level").and_then(|t| RaidLevel::parse(&t));
    device.stripe_bytes = text("chunk_size").and_then(|t| t.parse().ok()).filter(|bytes| *bytes > 0);
    // a level without redundancy counts no lost member but reports a broken array (as in mdstat.rs)
    let broken_count = || u32::from(text("array_state").is_some_and(|t| t == "broken"));
    device.missing = text("degraded").and_then(|t| t.parse().ok()).unwrap_or_else(broken_count);
    device.background = text("sync_action").filter(|t| t != "idle" && t != "frozen");
    // spares and failed members take no part in the load
    let is_in_use = |member: &PathBuf| read_text(&member.join("slot")).is_some_and(|slot| slot != "none");
    let members: Vec<String> = sorted_names(folder)
        .into_iter()
        .filter(|n| n.starts_with("dev-") && is_in_use(&folder.join(n)))
        .map(|n| kernel_name(&n[4..]))
        .collect();
    if !members.is_empty() {
        device.below = members;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attachment_path_is_stable_across_boots() {
        let pci = "/sys/devices/pci0000:00/0000:00:1f.2";
        for (place, expected) in [
            (format!("{pci}/ata1/host0/target0:0:0/0:0:0:0/block/sda"), Some("pci0000:00/0000:00:1f.2/ata1/0:0:0")),
            (format!("{pci}/ata2/host5/target5:0:0/5:0:0:0/block/sdb"), Some("pci0000:00/0000:00:1f.2/ata2/0:0:0")),
            (format!("{pci}/virtio3/block/vda"), Some("pci0000:00/0000:00:1f.2")),
            (format!("{pci}/nvme/nvme1/nvme1n2"), Some("pci0000:00/0000:00:1f.2/2")),
            ("/sys/devices/virtual/block/loop0".into(), None),
            ("/somewhere/else".into(), None),
        ] {
            assert_eq!(attachment_path(&place).as_deref(), expected, "{place}");
        }
    }
}
