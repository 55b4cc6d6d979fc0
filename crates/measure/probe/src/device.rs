//! Facts about the device behind a target, as far as the kernel shows them: enough to repeat a
//! measurement, and to recognize the device later.

use std::fs;

use diskwright_base::{DeviceClass, DeviceKind, Topology, ceiling};
use diskwright_counters::live::{Roots, mountinfo};

use crate::facts::DeviceFacts;

/// Location of a target, in numbers of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct TargetPlace {
    /// Major and minor number of the device, or of the device below a file.
    pub device_number: (u64, u64),
    /// It is a file.
    pub is_file: bool,
    /// The mount through which a file was reached, if the kernel shows it.
    pub mount_id: Option<u64>,
}

/// Reads the facts about the device behind a target.
pub fn read_device_facts(roots: &Roots, topology: &Topology, place: TargetPlace) -> DeviceFacts {
    let number = place.device_number;
    let mount = if place.is_file { find_mount(roots, &place) } else { None };
    let name = match &mount {
        Some(mount) => filesystem_device(topology, mount).or_else(|| whole_disk_name(roots, number)),
        None => whole_disk_name(roots, number),
    };
    let name = name.unwrap_or_default();
    let device = topology.find_device(&name).cloned().unwrap_or_default();
    let class = serde_json::to_value(device.class).ok().and_then(|v| v.as_str().map(str::to_owned));
    let key = match (ceiling::device_keys(topology).remove(name.as_str()), &mount) {
        (Some(key), _) => key,
        (None, Some(mount)) if !mount.is_memory() && device.class != DeviceClass::Memory => {
            format!("filesystem:{}:{}@{}", mount.kind, mount.source, topology.host)
        }
        (None, _) => String::new(),
    };
    DeviceFacts {
        key,
        name,
        model: device.model,
        serial: device.serial,
        bytes: device.bytes,
        class: class.unwrap_or_default(),
        scheduler: device.scheduler,
        write_cache: device.write_cache,
        queue_requests: device.queue_requests,
        max_request_bytes: device.max_request_bytes,
        filesystem: mount.as_ref().map(|m| m.kind.clone()),
        mount: mount.as_ref().map(|m| m.point.clone()),
        options: mount.map(|m| m.options),
        host: topology.host.clone(),
        kernel: topology.kernel.clone(),
        processors: topology.processors,
    }
}

/// Returns the name of the whole disk with this number; for a partition, the name of its disk.
fn whole_disk_name(roots: &Roots, number: (u64, u64)) -> Option<String> {
    let folder = fs::canonicalize(roots.resolve_path(&format!("/sys/dev/block/{}:{}", number.0, number.1))).ok()?;
    let folder = if folder.join("partition").exists() { folder.parent()? } else { &folder };
    // sysfs writes a slash in a name as an exclamation mark
    folder.file_name().map(|name| name.to_string_lossy().replace('!', "/"))
}

/// Returns the device below a mounted filesystem: a disk, a mapped device, a btrfs volume.
/// Filesystems on several devices have numbers that no device has; only the topology knows them.
fn filesystem_device(topology: &Topology, mount: &mountinfo::Mount) -> Option<String> {
    // the last mount at a point hides the earlier ones
    let filesystem = topology.filesystems.iter().rev().find(|f| f.mount == mount.point && !f.device.is_empty())?;
    let partition = topology.find_device(&filesystem.device).filter(|d| d.kind == DeviceKind::Partition);
    Some(partition.and_then(|p| p.below.first()).unwrap_or(&filesystem.device).clone())
}

/// Finds the mount through which a file was reached. Files of btrfs have device numbers that no
/// mount has, so the id of the mount is tried first.
fn find_mount(roots: &Roots, place: &TargetPlace) -> Option<mountinfo::Mount> {
    let text = fs::read(roots.resolve_path("/proc/self/mountinfo")).ok()?;
    let mut mounts = mountinfo::parse_mounts(&text);
    let index = mounts.iter().position(|m| Some(m.id) == place.mount_id);
    // the last mount of a device hides the earlier ones
    let index = index.or_else(|| mounts.iter().rposition(|m| m.device == place.device_number));
    index.map(|index| mounts.swap_remove(index))
}

#[cfg(test)]
mod tests {
    use diskwright_base::{Device, Filesystem};

    use super::*;

    const MOUNTS: &str = "\
        22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        23 1 0:40 / /data rw - btrfs /dev/sdb rw\n\
        24 1 0:41 / /net rw - nfs4 server:/export rw\n\
        25 1 0:42 / /tmp rw - tmpfs tmpfs rw\n";

    #[test]
    fn finds_the_device_below_a_file() {
        let root = tempfile::tempdir().unwrap();
        let roots = Roots::from_root(root.path());
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/self/mountinfo"), MOUNTS).unwrap();
        let device = |name: &str, kind, below: &[&str], serial: Option<&str>| Device {
            name: name.into(),
            kind,
            class: DeviceClass::Flash,
            below: below.iter().map(|b| b.to_string()).collect(),
            serial: serial.map(str::to_owned),
            ..Device::default()
        };
        let filesystem = |mount: &str, device: &str| Filesystem {
            mount: mount.into(),
            device: device.into(),
            ..Filesystem::default()
        };
        let topology = Topology {
            host: "h".into(),
            devices: vec![
                device("sda", DeviceKind::Disk, &[], Some("A")),
                device("sda1", DeviceKind::Partition, &["sda"], None),
                device("sdb", DeviceKind::Disk, &[], Some("B")),
                device("btrfs:u", DeviceKind::Btrfs, &["sdb"], None),
            ],
            filesystems: vec![filesystem("/", "sda1"), filesystem("/data", "btrfs:u")],
            ..Topology::default()
        };
        for (number, mount, name, key) in [
            ((8, 1), None, "sda", "serial::A"),
            ((0, 40), None, "btrfs:u", "filesystem:btrfs:u@h"),
            ((0, 77), Some(23), "btrfs:u", "filesystem:btrfs:u@h"),
            ((0, 41), Some(24), "", "filesystem:nfs4:server:/export@h"),
            ((0, 42), None, "", ""),
            ((9, 9), None, "", ""),
        ] {
            let facts = read_device_facts(
                &roots,
                &topology,
                TargetPlace { device_number: number, is_file: true, mount_id: mount },
            );
            assert_eq!((facts.name.as_str(), facts.key.as_str()), (name, key), "{number:?}");
        }
    }
}
