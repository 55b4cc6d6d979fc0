//! The machine's storage stack: devices, the devices below them, filesystems and swap areas, and what a
//! write to an array costs its members.

use serde::{Deserialize, Serialize};

use crate::cloud_volume::{CloudInstance, CloudVolume};
use crate::name_limit::limit_name;

/// The machine's storage and size, as far as visible.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Topology {
    /// Host name, where known.
    pub host: String,
    /// Kernel release, where known.
    pub kernel: String,
    /// Online processors; 0 is unknown.
    pub processors: u32,
    /// Physical memory, bytes; 0 is unknown.
    pub memory_bytes: u64,
    /// Bytes of a page of memory; 0 is unknown.
    #[serde(skip_serializing_if = "is_unknown")]
    pub page_bytes: u64,
    /// The type of the instance, where this is a machine of a cloud that told it, with its limits for all volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_instance: Option<CloudInstance>,
    /// Block devices and sets (md, dm, btrfs).
    pub devices: Vec<Device>,
    /// Mounted filesystems that have a device.
    pub filesystems: Vec<Filesystem>,
    /// Swap areas.
    pub swaps: Vec<Swap>,
}

/// Size of a page where it is unknown, bytes; kernels for ARM and POWER may use larger pages.
pub const DEFAULT_PAGE_BYTES: f64 = 4096.0;

fn is_unknown(bytes: &u64) -> bool {
    *bytes == 0
}

/// A swap area.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Swap {
    /// Path as the kernel prints it.
    pub path: String,
    /// The block device that holds it, empty where unknown.
    pub device: String,
    /// Size, bytes.
    pub bytes: u64,
}

/// A mounted filesystem.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filesystem {
    /// Mount point.
    pub mount: String,
    /// Filesystem type, such as `ext4`.
    pub kind: String,
    /// Device or set that holds it (a name in `devices`), empty where unknown.
    pub device: String,
}

/// Kind of a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A whole disk or a hardware array shown as one.
    #[default]
    Disk,
    /// A partition of a disk.
    Partition,
    /// A Linux software array.
    Md,
    /// Device mapper: LVM, crypt, dm-multipath.
    Dm,
    /// A loop device.
    Loop,
    /// Compressed memory.
    Zram,
    /// A multipath node over several paths (NVMe native multipath).
    Multipath,
    /// A btrfs volume, which is not itself a block device; named `btrfs:UUID-or-label`.
    Btrfs,
    /// A ZFS pool.
    Zfs,
}

/// Class of a device, which determines the performance to expect of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceClass {
    /// Hard disk.
    Rotational,
    /// SATA or SAS flash.
    Flash,
    /// NVMe flash.
    Nvme,
    /// A virtual machine's disk or a cloud volume: the storage behind it is hidden.
    Virtual,
    /// Over a network (NBD, iSCSI, FUSE).
    Network,
    /// Memory.
    Memory,
    /// Could not be determined.
    #[default]
    Unknown,
}

/// Level of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RaidLevel {
    /// Disks end to end; each request goes to one member.
    Linear,
    /// Striped, no redundancy.
    Raid0,
    /// Every member holds a copy.
    Raid1,
    /// Dedicated parity disk.
    Raid4,
    /// Rotating parity.
    Raid5,
    /// Two rotating parities.
    Raid6,
    /// Striped mirrors.
    Raid10,
}

impl RaidLevel {
    /// All levels, for lists.
    pub const ALL: [RaidLevel; 7] = [
        RaidLevel::Linear,
        RaidLevel::Raid0,
        RaidLevel::Raid1,
        RaidLevel::Raid4,
        RaidLevel::Raid5,
        RaidLevel::Raid6,
        RaidLevel::Raid10,
    ];

    /// The level's name in data and on screen.
    pub fn name(self) -> &'static str {
        match self {
            RaidLevel::Linear => "linear",
            RaidLevel::Raid0 => "raid0",
            RaidLevel::Raid1 => "raid1",
            RaidLevel::Raid4 => "raid4",
            RaidLevel::Raid5 => "raid5",
            RaidLevel::Raid6 => "raid6",
            RaidLevel::Raid10 => "raid10",
        }
    }

    /// Parses a level's name: `raid5`, `5`, `RAID 10`, `single`.
    pub fn parse(text: &str) -> Option<RaidLevel> {
        let plain: String = text.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
        match plain.strip_prefix("raid").unwrap_or(&plain) {
            "linear" | "single" => Some(RaidLevel::Linear),
            "0" => Some(RaidLevel::Raid0),
            "1" | "1c3" | "1c4" | "dup" => Some(RaidLevel::Raid1),
            "4" => Some(RaidLevel::Raid4),
            "5" => Some(RaidLevel::Raid5),
            "6" => Some(RaidLevel::Raid6),
            "10" => Some(RaidLevel::Raid10),
            _ => None,
        }
    }

    /// Member operations that one small write to the array costs. NT Magazine 1998:
    /// two for a mirror, four for RAID 5; RAID 6 reads and writes two
    /// parities and the data, six. `members` is used only for RAID 1, where
    /// every member is written.
    pub fn write_factor(self, members: usize) -> f64 {
        match self {
            RaidLevel::Linear | RaidLevel::Raid0 => 1.0,
            RaidLevel::Raid1 => members.max(1) as f64,
            RaidLevel::Raid10 => 2.0,
            RaidLevel::Raid4 | RaidLevel::Raid5 => 4.0,
            RaidLevel::Raid6 => 6.0,
        }
    }
}

/// A block device or a set of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// Kernel name (`sda`, `md0`, `loop3`), or `btrfs:…` for a volume.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// Its class, from the device itself or, for a stacked one, its members.
    pub class: DeviceClass,
    /// The devices directly below it: the disk of a partition, the members of an array,
    /// the disk under a loop device's file. Empty for a leaf.
    pub below: Vec<String>,
    /// Level, where it is an array.
    pub level: Option<RaidLevel>,
    /// Number of hidden disks behind it: the members of
    /// a hardware array, or 1 if it is known to be a single disk. `None` where
    /// unknown.
    pub members: Option<u32>,
    /// Stripe unit, bytes, where it is an array that has one.
    pub stripe_bytes: Option<u64>,
    /// Members that are failed or missing, where it is an array.
    pub missing: u32,
    /// `check`, `resync`, `recover`, `reshape`, `balance`, `scrub` while one runs.
    pub background: Option<String>,
    /// The kernel's flag for a rotating disk; wrong on many virtual disks.
    pub rotational: Option<bool>,
    /// Active I/O scheduler.
    pub scheduler: Option<String>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Maximum number of requests that the block layer queues.
    pub queue_requests: Option<u32>,
    /// Maximum number of requests that the device itself accepts at once: its queue depth.
    pub device_depth: Option<u32>,
    /// Largest request in bytes before the block layer splits it.
    pub max_request_bytes: Option<u64>,
    /// Size, bytes.
    pub bytes: Option<u64>,
    /// Model as the device reports it.
    pub model: Option<String>,
    /// Serial number or world-wide name as the device reports it.
    pub serial: Option<String>,
    /// Link speed, bytes a second, where shown (PCIe lanes, SAS or SATA phy).
    pub link_bytes_per_s: Option<f64>,
    /// Path of the attachment, without parts that are numbered in the order of discovery:
    /// two disks of one model differ in it. `None` for a device that is not attached anywhere.
    pub path: Option<String>,
    /// Backing file of a loop device.
    pub backing: Option<String>,
    /// The volume of a cloud that it is, where that is known, with its limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_volume: Option<CloudVolume>,
}

impl Topology {
    /// Cuts names that are too long, as a [`Schema`](crate::Schema) does.
    pub fn limit_names(&mut self) {
        limit_name(&mut self.host);
        self.devices.iter_mut().flat_map(|d| d.below.iter_mut().chain([&mut d.name])).for_each(limit_name);
        self.filesystems.iter_mut().flat_map(|f| [&mut f.mount, &mut f.device]).for_each(limit_name);
        self.swaps.iter_mut().for_each(|swap| limit_name(&mut swap.device));
    }

    /// Size of a page of memory, bytes, for counters of pages; the default where it is unknown or impossible.
    pub fn page_size_bytes(&self) -> f64 {
        let is_possible = self.page_bytes.is_power_of_two() && (4096..=1 << 20).contains(&self.page_bytes);
        if is_possible { self.page_bytes as f64 } else { DEFAULT_PAGE_BYTES }
    }

    /// Returns a device by name.
    pub fn find_device(&self, name: &str) -> Option<&Device> {
        self.devices.iter().find(|d| d.name == name)
    }

    /// Returns the devices that use up the instance's limit for volumes: those that are known to be volumes, and those
    /// whose model or name says so (AWS). Disks of the host itself do not count.
    pub fn cloud_volumes(&self) -> impl Iterator<Item = &Device> {
        let is_ebs = |device: &Device| {
            device.model.as_deref().is_some_and(|model| model.trim() == "Amazon Elastic Block Store")
                || device.kind == DeviceKind::Disk && device.name.starts_with("xvd")
        };
        self.devices.iter().filter(move |device| device.cloud_volume.is_some() || is_ebs(device))
    }

    /// Returns true if the limits of a cloud volume or of the instance are known.
    pub fn has_volume_limits(&self) -> bool {
        self.cloud_instance.is_some() || self.devices.iter().any(|device| device.cloud_volume.is_some())
    }

    /// Returns true if no visible device lies below this one. Unknown names are
    /// leaves: a foreign log shows no topology at all. A partition always has its disk
    /// below it.
    pub fn is_leaf(&self, name: &str) -> bool {
        self.find_device(name).is_none_or(|d| d.below.is_empty())
    }

    /// Returns the leaves under a device (itself, where it is a leaf), each once.
    pub fn leaves_under<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        self.collect_end_devices(name, false)
    }

    /// Returns the disks under a device (itself, where it is a disk), each once: its leaves, except that the paths to
    /// one disk are not disks themselves. The multipath node is the disk.
    pub fn disks_under<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        self.collect_end_devices(name, true)
    }

    /// Returns true if `lower` is a leaf or a disk under `upper`, or is `upper` itself with nothing below it.
    pub fn stands_on(&self, upper: &str, lower: &str) -> bool {
        self.leaves_under(upper).contains(&lower) || self.disks_under(upper).contains(&lower)
    }

    /// Returns the leaves under a device; with `stop_at_multipath`, multipath nodes take the place of their paths.
    fn collect_end_devices<'a>(&'a self, name: &'a str, stop_at_multipath: bool) -> Vec<&'a str> {
        let mut leaves = Vec::new();
        let mut pending = vec![name];
        let mut seen: Vec<&str> = Vec::new();
        while let Some(next) = pending.pop() {
            if seen.contains(&next) {
                continue;
            }
            seen.push(next);
            match self.find_device(next) {
                Some(d) if stop_at_multipath && d.kind == DeviceKind::Multipath => leaves.push(next),
                Some(d) if !d.below.is_empty() => pending.extend(d.below.iter().map(String::as_str)),
                _ => leaves.push(next),
            }
        }
        leaves.sort_unstable();
        leaves
    }

    /// Number of spindles (or flash devices) that share the device's load, for
    /// the rule of two requests in flight per disk. The hidden members
    /// of hardware arrays count.
    pub fn spindle_count(&self, name: &str) -> usize {
        let disks_behind = |leaf: &&str| self.find_device(leaf).and_then(|d| d.members).unwrap_or(1) as usize;
        self.disks_under(name).iter().map(disks_behind).sum::<usize>().max(1)
    }

    /// Returns the arrays that have `name` among their leaves or disks.
    pub fn arrays_over<'a>(&'a self, name: &str) -> Vec<&'a Device> {
        self.devices.iter().filter(|d| d.level.is_some() && self.stands_on(&d.name, name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_go_through_partitions_and_are_counted_once() {
        let device = |name: &str, below: &[&str]| Device {
            name: name.into(),
            below: below.iter().map(|s| s.to_string()).collect(),
            ..Device::default()
        };
        let topology = Topology {
            devices: vec![
                device("sda", &[]),
                device("sdb", &[]),
                device("sda1", &["sda"]),
                device("sdb1", &["sdb"]),
                device("sda2", &["sda"]),
                device("md0", &["sda1", "sdb1"]),
                device("dm-0", &["md0", "sda2"]),
            ],
            ..Topology::default()
        };
        assert_eq!(topology.leaves_under("dm-0"), ["sda", "sdb"]);
        assert_eq!(topology.spindle_count("md0"), 2);
        assert!(topology.is_leaf("unheard-of"));
        assert!(!topology.is_leaf("sda1"));
    }

    #[test]
    fn paths_to_one_disk_are_no_spindles() {
        let device = |name: &str, kind, below: &[&str]| Device {
            name: name.into(),
            kind,
            below: below.iter().map(|s| s.to_string()).collect(),
            ..Device::default()
        };
        let devices = vec![
            device("sda", DeviceKind::Disk, &[]),
            device("sdb", DeviceKind::Disk, &[]),
            device("sdc", DeviceKind::Disk, &[]),
            device("dm-0", DeviceKind::Multipath, &["sda", "sdb"]),
            device("dm-1", DeviceKind::Dm, &["dm-0", "sdc"]),
        ];
        let topology = Topology { devices, ..Topology::default() };
        assert_eq!(topology.leaves_under("dm-1"), ["sda", "sdb", "sdc"]);
        assert_eq!(topology.disks_under("dm-1"), ["dm-0", "sdc"]);
        assert_eq!((topology.spindle_count("dm-0"), topology.spindle_count("dm-1")), (1, 2));
        for (lower, expected) in [("sda", true), ("dm-0", true), ("sdc", true), ("sdd", false)] {
            assert_eq!(topology.stands_on("dm-1", lower), expected, "{lower}");
        }
    }

    #[test]
    fn hidden_members_of_a_hardware_array_are_spindles() {
        let array = |name: &str, members| Device { name: name.into(), members, ..Device::default() };
        let over = Device { name: "md0".into(), below: vec!["sda".into(), "sdb".into()], ..Device::default() };
        let devices = vec![array("sda", Some(3)), array("sdb", None), over];
        let topology = Topology { devices, ..Topology::default() };
        assert_eq!(topology.spindle_count("sda"), 3);
        assert_eq!(topology.spindle_count("md0"), 4);
    }

    #[test]
    fn levels_are_read_as_people_write_them() {
        assert_eq!(RaidLevel::parse("RAID 10"), Some(RaidLevel::Raid10));
        assert_eq!(RaidLevel::parse("raid5"), Some(RaidLevel::Raid5));
        assert_eq!(RaidLevel::parse("single"), Some(RaidLevel::Linear));
        assert_eq!(RaidLevel::parse("raid7"), None);
        for level in RaidLevel::ALL {
            assert_eq!(RaidLevel::parse(level.name()), Some(level));
        }
    }
}
