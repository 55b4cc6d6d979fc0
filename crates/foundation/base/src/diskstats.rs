//! The numbers after the name on a line of `/proc/diskstats`, as current kernels print them
//! (Documentation/admin-guide/iostats.rst): one table for the live sampler, for dumps of the file
//! and for tools that print it. Times are milliseconds that the kernel prints with 32 bits.

/// Kind of a number of the line: level or total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskstatsNumber {
    /// Current value.
    Level,
    /// Total since boot.
    Total,
    /// Total since boot that wraps at 32 bits.
    Total32,
}

/// The counter that a number of the line belongs to.
#[derive(Clone, Copy, Debug)]
pub struct DiskstatsField {
    /// Counter id.
    pub counter: &'static str,
    /// Factor from the number to the counter's unit.
    pub scale: f64,
    /// Kind of the number.
    pub number: DiskstatsNumber,
}

/// Most numbers on a line; 11 before Linux 4.18, 15 before 5.5.
pub const MAX_NUMBERS: usize = 17;

const fn new_field(counter: &'static str, scale: f64, number: DiskstatsNumber) -> DiskstatsField {
    DiskstatsField { counter, scale, number }
}

use crate::counter_ids::{logical_disk, physical_disk};
use DiskstatsNumber::{Level, Total, Total32};

/// Fields of a disk, in the order of the line.
pub const DISK_FIELDS: [DiskstatsField; MAX_NUMBERS] = [
    new_field(physical_disk::READS, 1.0, Total),
    new_field(physical_disk::READS_MERGED, 1.0, Total),
    new_field(physical_disk::READ_BYTES, 512.0, Total),
    new_field(physical_disk::READ_TIME_S, 1e-3, Total32),
    new_field(physical_disk::WRITES, 1.0, Total),
    new_field(physical_disk::WRITES_MERGED, 1.0, Total),
    new_field(physical_disk::WRITE_BYTES, 512.0, Total),
    new_field(physical_disk::WRITE_TIME_S, 1e-3, Total32),
    new_field(physical_disk::CURRENT_QUEUE_LENGTH, 1.0, Level),
    new_field(physical_disk::BUSY_TIME_S, 1e-3, Total32),
    new_field(physical_disk::WEIGHTED_TIME_S, 1e-3, Total32),
    new_field(physical_disk::DISCARDS, 1.0, Total),
    new_field(physical_disk::DISCARDS_MERGED, 1.0, Total),
    new_field(physical_disk::DISCARD_BYTES, 512.0, Total),
    new_field(physical_disk::DISCARD_TIME_S, 1e-3, Total32),
    new_field(physical_disk::FLUSHES, 1.0, Total),
    new_field(physical_disk::FLUSH_TIME_S, 1e-3, Total32),
];

/// Fields of a partition that are kept.
pub const PARTITION_FIELDS: [DiskstatsField; 9] = [
    new_field(logical_disk::READS, 1.0, Total),
    new_field(logical_disk::READ_BYTES, 512.0, Total),
    new_field(logical_disk::READ_TIME_S, 1e-3, Total32),
    new_field(logical_disk::WRITES, 1.0, Total),
    new_field(logical_disk::WRITE_BYTES, 512.0, Total),
    new_field(logical_disk::WRITE_TIME_S, 1e-3, Total32),
    new_field(logical_disk::CURRENT_QUEUE_LENGTH, 1.0, Level),
    new_field(logical_disk::BUSY_TIME_S, 1e-3, Total32),
    new_field(logical_disk::WEIGHTED_TIME_S, 1e-3, Total32),
];
/// Position on the line of each of [`PARTITION_FIELDS`].
pub const PARTITION_POSITIONS: [usize; 9] = [0, 2, 3, 4, 6, 7, 8, 9, 10];

/// Position of the number of requests in flight.
pub const IN_FLIGHT_POSITION: usize = 8;
/// Positions of the numbers of completed requests: reads, writes, discards, flushes.
pub const COMPLETED_POSITIONS: [usize; 4] = [0, 4, 11, 15];

/// Derives the disk from a partition's name: `sda1`, `nvme0n1p2`, `dev8-1`.
#[must_use]
pub fn disk_of_partition(name: &str) -> Option<String> {
    if let Some((major, minor)) = name.strip_prefix("dev").and_then(|n| n.split_once('-')) {
        let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
        // each SCSI disk has 16 minor numbers: its own and those of 15 partitions
        let is_scsi = matches!(major, 8 | 65..=71 | 128..=135);
        return (is_scsi && minor % 16 != 0).then(|| format!("dev{major}-{}", minor - minor % 16));
    }
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.len() == name.len() {
        return None;
    }
    if let Some(disk) = stem.strip_suffix('p')
        && disk.ends_with(|c: char| c.is_ascii_digit())
    {
        return Some(disk.to_owned());
    }
    let is_lettered_disk = |prefix: &str| {
        stem.strip_prefix(prefix).is_some_and(|s| !s.is_empty() && s.bytes().all(|b| b.is_ascii_lowercase()))
    };
    ["sd", "hd", "vd", "xvd"].into_iter().any(is_lettered_disk).then(|| stem.to_owned())
}

/// Parses major and minor number of a kernel release: 3 and 10 of `3.10.0-1160.el7.x86_64`.
#[must_use]
pub fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Returns true if an NVMe disk counts the requests of its paths: from Linux 6.4 on. `None` where the release has no
/// version.
#[must_use]
pub fn nvme_disk_counts_paths(release: &str) -> Option<bool> {
    kernel_version(release).map(|version| version >= (6, 4))
}

/// Parses the name of a path of NVMe native multipath into disk and controller: `nvme0n2` and `nvme1` of `nvme0c1n2`.
/// `None` for other names. Such a path has its own line. From Linux 6.4 on, its disk counts the same requests again;
/// before, the disk counted none.
#[must_use]
pub fn parse_nvme_path(name: &str) -> Option<(String, String)> {
    let (subsystem, rest) = name.strip_prefix("nvme")?.split_once('c')?;
    let (controller, namespace) = rest.split_once('n')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_path = is_number(subsystem) && is_number(controller) && is_number(namespace);
    is_path.then(|| (format!("nvme{subsystem}n{namespace}"), format!("nvme{controller}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalogue;
    use crate::catalogue::CounterKind;

    #[test]
    fn the_table_fits_the_catalogue_and_itself() {
        for field in DISK_FIELDS.iter().chain(&PARTITION_FIELDS) {
            let counter = Catalogue::builtin().get(field.counter).expect(field.counter);
            assert_eq!(counter.kind == CounterKind::Total, field.number != Level, "{}", field.counter);
            assert_eq!(field.scale == 1e-3, counter.unit == "s", "{}", field.counter);
            assert_eq!(field.scale == 512.0, counter.unit == "bytes", "{}", field.counter);
        }
        for (field, place) in PARTITION_FIELDS.iter().zip(PARTITION_POSITIONS) {
            let of_disk = DISK_FIELDS[place].counter.strip_prefix("physical_disk.");
            assert_eq!(field.counter.strip_prefix("logical_disk."), of_disk);
        }
        assert_eq!(DISK_FIELDS[IN_FLIGHT_POSITION].number, Level);
        assert_eq!(
            COMPLETED_POSITIONS.map(|place| DISK_FIELDS[place].counter.len() - "physical_disk.".len()),
            [5, 6, 8, 7]
        );
    }

    #[test]
    fn a_partition_name_gives_its_disk() {
        for (part, disk) in [("sda10", "sda"), ("nvme0n1p2", "nvme0n1"), ("md0p1", "md0"), ("dev8-17", "dev8-16")] {
            assert_eq!(disk_of_partition(part).as_deref(), Some(disk), "{part}");
        }
        // another disk whose name begins like one
        for other in ["sdaa", "sda", "nvme0n1", "nvme0n10", "md127", "dm-3"] {
            assert_eq!(disk_of_partition(other), None, "{other}");
        }
    }

    #[test]
    fn an_nvme_path_name_gives_its_disk_and_controller() {
        assert_eq!(parse_nvme_path("nvme0c1n2"), Some(("nvme0n2".to_owned(), "nvme1".to_owned())));
        for other in ["nvme0n1", "nvme0c1", "nvme0cn1", "nvmec1n1", "nvme0c1n", "nvme0c1n1p1", "nvme0", "cciss/c0d0"] {
            assert_eq!(parse_nvme_path(other), None, "{other}");
        }
    }
}
