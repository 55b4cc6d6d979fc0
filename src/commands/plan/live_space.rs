//! Space in use on this machine as `df` shows it, for a log of this machine that has no sizes of filesystems.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use diskwright_base::Topology;
use diskwright_base::byte_size::ByteSize;
use diskwright_counters::live::sources::{mounts, topology};
use diskwright_counters::live::{Roots, mountinfo};
use diskwright_hostfiles::deadline::collect_within;
use diskwright_planner::series::FrontLoad;
use diskwright_planner::series::space::FilesystemSpace;

/// Share by which the space in a log and that of `df` may differ without a remark.
const MAX_DIFFERENCE: f64 = 0.1;
/// Time limit for all filesystems together: one on a device in trouble may not respond.
const DEADLINE: Duration = Duration::from_secs(1);

/// Returns the filesystems on the devices of a load, with their space now; none if one of them does not respond.
/// Network filesystems are never accessed.
pub fn read_filesystems(fronts: &[FrontLoad]) -> Vec<FilesystemSpace> {
    let roots = Roots::default();
    let topology = topology::read_topology(&roots);
    let mounted = mountinfo::parse_mounts(&fs::read(roots.proc.join("self/mountinfo")).unwrap_or_default());
    let points: Vec<String> = mounts::local_mounts(&mounted).iter().map(|mount| mount.point.clone()).collect();
    let found: Vec<FilesystemSpace> =
        points.into_iter().filter_map(|mount| place_filesystem(mount, fronts, &topology)).collect();
    let paths = found.iter().map(|filesystem| roots.resolve_path(&filesystem.mount)).collect();
    let Some(spaces) = query_with_deadline(paths) else { return Vec::new() };
    let with_space =
        |(filesystem, (total_bytes, used_bytes))| FilesystemSpace { total_bytes, used_bytes, ..filesystem };
    found.into_iter().zip(spaces).map(with_space).collect()
}

/// Describes by how much `df` of this machine differs from the space in a log of it.
pub fn describe_difference(logged: &[FilesystemSpace], live: &[FilesystemSpace]) -> Option<String> {
    let pairs = logged.iter().filter_map(|log| Some((log, live.iter().find(|now| now.mount == log.mount)?)));
    let far = |(log, now): &(&FilesystemSpace, &FilesystemSpace)| {
        (now.used_bytes / log.used_bytes - 1.0).abs() > MAX_DIFFERENCE || log.total_bytes != now.total_bytes
    };
    let different: Vec<String> = pairs
        .filter(far)
        .map(|(log, now)| {
            let [used, total] = [now.used_bytes, now.total_bytes].map(ByteSize::capacity);
            format!("{used} of {total} on {} (in the log: {})", log.mount, ByteSize::capacity(log.used_bytes))
        })
        .collect();
    (!different.is_empty())
        .then(|| format!("the log differs from what `df` on this machine shows now: {}", different.join(", ")))
}

/// Returns the filesystem at a mount point if it is on a device of the load.
fn place_filesystem(mount: String, fronts: &[FrontLoad], topology: &Topology) -> Option<FilesystemSpace> {
    let device = topology.filesystems.iter().find(|filesystem| filesystem.mount == mount)?.device.clone();
    let holders = fronts.iter().filter(|front| front.serves_device(&device, topology));
    let fronts: Vec<String> = holders.map(|front| front.name.clone()).collect();
    (!fronts.is_empty()).then(|| FilesystemSpace { mount, device: Some(device), fronts, ..FilesystemSpace::default() })
}

/// Reads the size and the used bytes of filesystems; `None` if one does not respond.
fn query_with_deadline(paths: Vec<PathBuf>) -> Option<Vec<(f64, f64)>> {
    let count = paths.len();
    let (spaces, _) = collect_within(DEADLINE, move |sender| {
        for path in paths {
            let Ok(space) = rustix::fs::statvfs(&path) else { return };
            let bytes = |blocks: u64| blocks as f64 * space.f_frsize as f64;
            let space = (bytes(space.f_blocks), bytes(space.f_blocks) - bytes(space.f_bfree));
            if sender.send(space).is_err() {
                return;
            }
        }
    });
    (spaces.len() == count).then_some(spaces)
}

#[cfg(test)]
mod tests {
    use diskwright_base::{Device, DeviceKind, Filesystem};

    use super::*;

    /// Of a mirror that is measured itself, on one partition each of two disks, the other partitions are not part.
    #[test]
    fn a_filesystem_beside_an_array_on_its_disks_is_not_on_the_array() {
        let device = |name: &str, kind, below: &[&str]| Device {
            name: name.into(),
            kind,
            below: below.iter().map(|name| (*name).to_owned()).collect(),
            ..Device::default()
        };
        let mounted = |mount: &str, device: &str| Filesystem {
            mount: mount.into(),
            device: device.into(),
            ..Filesystem::default()
        };
        let topology = Topology {
            devices: vec![
                device("sda", DeviceKind::Disk, &[]),
                device("sdb", DeviceKind::Disk, &[]),
                device("sda1", DeviceKind::Partition, &["sda"]),
                device("sda2", DeviceKind::Partition, &["sda"]),
                device("sdb1", DeviceKind::Partition, &["sdb"]),
                device("md0", DeviceKind::Md, &["sda1", "sdb1"]),
                device("dm-0", DeviceKind::Dm, &["md0"]),
            ],
            filesystems: vec![mounted("/", "sda2"), mounted("/data", "md0"), mounted("/home", "dm-0")],
            ..Topology::default()
        };
        let front = |name: &str, leaves: &[&str], counts_all_disk_requests| FrontLoad {
            name: name.into(),
            leaves: leaves.iter().map(|name| (*name).to_owned()).collect(),
            counts_all_disk_requests,
            ..FrontLoad::default()
        };
        let fronts = |mount: &str, loads: &[FrontLoad]| {
            place_filesystem(mount.into(), loads, &topology).map(|filesystem| filesystem.fronts)
        };
        let on = |name: &str| Some(vec![name.to_owned()]);
        let mirror = [front("md0", &["sda", "sdb"], false)];
        assert_eq!(
            [fronts("/", &mirror), fronts("/data", &mirror), fronts("/home", &mirror)],
            [None, on("md0"), on("md0")]
        );
        // where only the disks are measured, all that is on them counts
        let computed = [front("md0", &["sda", "sdb"], true)];
        assert_eq!([fronts("/", &computed), fronts("/home", &computed)], [on("md0"), on("md0")]);
    }

    #[test]
    fn a_log_that_differs_from_df_is_told() {
        let filesystem = |mount: &str, total_bytes: f64, used_bytes: f64| FilesystemSpace {
            mount: mount.into(),
            total_bytes,
            used_bytes,
            ..FilesystemSpace::default()
        };
        let logged = [filesystem("/", 100e9, 60e9), filesystem("/old", 50e9, 1e9)];
        assert_eq!(describe_difference(&logged, &[filesystem("/", 100e9, 57e9)]), None);
        let text = describe_difference(&logged, &[filesystem("/", 100e9, 20e9)]).expect("a difference");
        assert!(text.contains("20 GB of 100 GB on / (in the log: 60 GB)") && !text.contains("/old"), "{text}");
        assert!(describe_difference(&logged, &[filesystem("/", 200e9, 60e9)]).is_some());
    }
}
