//! Determines from /sys how a disk can be queried for its health. A disk behind a USB bridge or a RAID controller is
//! out of reach: the device may answer for another one, or may not tolerate the query.

use std::fs;
use std::path::Path;

/// How a disk is queried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveAccess {
    /// By NVMe admin commands.
    Nvme {
        /// It is a volume of Amazon EBS.
        is_volume: bool,
    },
    /// By ATA commands, passed through SCSI.
    Ata,
    /// By SCSI commands.
    Scsi,
    /// It cannot be queried: the reason, and a tool that reaches it.
    OutOfReach(&'static str),
}

/// Drivers of RAID controllers, by the name they give their hosts (`proc_name`). The disks that they show are
/// their volumes; the drives behind them answer only to vendor-specific tunnels.
const RAID_DRIVERS: &[&str] = &[
    "3w-9xxx",
    "3w-sas",
    "3w-xxxx",
    "aacraid",
    "arcmsr",
    "cciss",
    "dpt_i2o",
    "hpsa",
    "hptiop",
    "ips",
    "megaraid",
    "megaraid_sas",
    "mvumi",
    "smartpqi",
    "stex",
];

/// Returns true if the adapters of this driver are RAID controllers.
#[must_use]
pub fn is_raid_driver(name: &str) -> bool {
    RAID_DRIVERS.contains(&name)
}

fn read_trimmed(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Returns how the disk `name` can be queried; `None` for a device that records no health (a file, an array, memory,
/// a virtual disk). `sys` is the sys filesystem.
pub fn access_for_disk(sys: &Path, name: &str) -> Option<DriveAccess> {
    let folder = sys.join("block").join(name);
    // a path of an NVMe disk (nvme0c1n1 of nvme0n1) has no device file; the disk itself is queried
    if read_trimmed(&folder.join("hidden")).as_deref() == Some("1") {
        return None;
    }
    if name.starts_with("nvme") {
        let model = read_trimmed(&folder.join("device/model")).unwrap_or_default();
        return Some(DriveAccess::Nvme { is_volume: model.starts_with(crate::volume::EBS_MODEL) });
    }
    // SCSI device type 0 is a disk; CD drives and tapes have other numbers
    if !name.starts_with("sd") || read_trimmed(&folder.join("device/type")).is_some_and(|kind| kind != "0") {
        return None;
    }
    let device_path = fs::canonicalize(&folder).ok()?;
    let components: Vec<String> =
        device_path.iter().map(|component| component.to_string_lossy().into_owned()).collect();
    // usb1, usb2: the root hub on the way to the device
    let is_usb_hub =
        |component: &String| component.strip_prefix("usb").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    if components.iter().any(is_usb_hub) {
        return Some(DriveAccess::OutOfReach("it is behind a USB bridge; try `smartctl -d sat` yourself"));
    }
    let is_host = |component: &&String| component.strip_prefix("host").is_some_and(|n| n.parse::<u32>().is_ok());
    let host = components.iter().find(is_host)?;
    let driver = read_trimmed(&sys.join("class/scsi_host").join(host).join("proc_name")).unwrap_or_default();
    if is_raid_driver(&driver) {
        return Some(DriveAccess::OutOfReach(
            "it is behind a RAID controller; use its vendor's program to reach the drives",
        ));
    }
    match read_trimmed(&folder.join("device/vendor")).as_deref() {
        Some("ATA") => Some(DriveAccess::Ata),
        Some(_) => Some(DriveAccess::Scsi),
        None => None,
    }
}
