//! The kernel's own counts of block devices: `/proc/diskstats`. They give the rate of requests
//! before anything is traced, and the share of requests that a trace has seen.

use std::collections::HashMap;
use std::fs;

use diskwright_base::diskstats::parse_nvme_path;

use crate::devices::{BlockDeviceNames, device_number};

/// Requests completed since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTotals {
    /// Reads.
    pub reads: u64,
    /// Writes, callers' flushes among them.
    pub writes: u64,
    /// Discards; `None` where the kernel does not count them (before 4.18).
    pub discards: Option<u64>,
    /// The device's own flushes; `None` where the kernel does not count them (before 5.5).
    pub flushes: Option<u64>,
}

impl RequestTotals {
    /// Number of all requests.
    pub fn total(self) -> u64 {
        self.reads + self.writes + self.discards.unwrap_or(0) + self.flushes.unwrap_or(0)
    }

    /// Adds the totals of another path to the same disk; a count that one of them lacks is missing from the sum.
    fn add_totals(self, other: RequestTotals) -> RequestTotals {
        let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
        RequestTotals {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            discards: sum(self.discards, other.discards),
            flushes: sum(self.flushes, other.flushes),
        }
    }

    /// Returns the requests since `before`; `None` if a count fell: another device now has the number.
    pub fn difference_since(self, before: RequestTotals) -> Option<RequestTotals> {
        // a device that appeared after `before` was read had no requests then
        let increase = |now: Option<u64>, before: Option<u64>| match now {
            Some(now) => increase_since(now, before.unwrap_or(0)).map(Some),
            None => Some(None),
        };
        Some(RequestTotals {
            reads: increase_since(self.reads, before.reads)?,
            writes: increase_since(self.writes, before.writes)?,
            discards: increase(self.discards, before.discards)?,
            flushes: increase(self.flushes, before.flushes)?,
        })
    }
}

/// Returns the increase of a count; `None` if it fell. On 32-bit kernels counts wrap at 2^32: a fall by more than half
/// of that is taken as a wrap.
fn increase_since(now: u64, before: u64) -> Option<u64> {
    now.checked_sub(before).or_else(|| (now + (1 << 32)).checked_sub(before).filter(|increase| *increase < 1 << 31))
}

/// Returns the number of requests of these devices since `before`; a device that is missing from a table counts 0.
pub fn requests_since(now: &HashMap<u32, RequestTotals>, before: &HashMap<u32, RequestTotals>, devices: &[u32]) -> u64 {
    let since = |device: &u32| Some(now.get(device)?.difference_since(*before.get(device)?)?.total());
    devices.iter().filter_map(since).sum()
}

/// Returns the number of requests of these disks, or of all disks if none is named, between two tables. A partition has
/// its own row, but its disk's row already counts its requests.
pub fn requests_of_disks(
    names: &BlockDeviceNames,
    disks: &[u32],
    before: &HashMap<u32, RequestTotals>,
    now: &HashMap<u32, RequestTotals>,
) -> u64 {
    match disks {
        [] => requests_since(now, before, &names.disks()),
        named => requests_since(now, before, named),
    }
}

/// Reads the totals of each device; empty if the file cannot be read.
pub fn read_totals() -> HashMap<u32, RequestTotals> {
    parse_totals(&fs::read_to_string("/proc/diskstats").unwrap_or_default())
}

/// Parses the totals of each device. An NVMe multipath disk that counts nothing itself (before Linux 6.4) gets the
/// sums of its paths.
pub fn parse_totals(text: &str) -> HashMap<u32, RequestTotals> {
    let mut table = HashMap::new();
    let mut disks: HashMap<&str, u32> = HashMap::new();
    let mut paths: HashMap<String, RequestTotals> = HashMap::new();
    for (device, name, totals) in text.lines().filter_map(parse_row) {
        table.insert(device, totals);
        if let Some((disk, _)) = parse_nvme_path(name) {
            paths.entry(disk).and_modify(|sum| *sum = sum.add_totals(totals)).or_insert(totals);
        } else if name.starts_with("nvme") {
            disks.insert(name, device);
        }
    }
    for (disk, sum) in paths {
        let Some(device) = disks.get(disk.as_str()) else { continue };
        let disk_totals: RequestTotals = table[device];
        if disk_totals.total() == 0 {
            table.insert(*device, sum);
        }
    }
    table
}

/// Parses a line. Fields by Documentation/admin-guide/iostats.rst: 1 reads, 5 writes, 12 discards, 16 flushes.
fn parse_row(line: &str) -> Option<(u32, &str, RequestTotals)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|f| f.parse::<u64>().ok());
    let device = device_number(u32::try_from(number(0)?).ok()?, u32::try_from(number(1)?).ok()?);
    let totals = RequestTotals { reads: number(3)?, writes: number(7)?, discards: number(14), flushes: number(18) };
    Some((device, *fields.get(2)?, totals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_in_lines_of_old_and_new_kernels() {
        let table = parse_totals(
            "   8       0 sda 10 1 80 5 20 2 160 9 0 7 14 3 0 24 1 4 6\n 8 1 sda1 1 0 8 5 2 0 16 9 0 7 14\nnonsense\n",
        );
        let sda = RequestTotals { reads: 10, writes: 20, discards: Some(3), flushes: Some(4) };
        assert_eq!(table[&device_number(8, 0)], sda);
        assert_eq!(table[&device_number(8, 1)], RequestTotals { reads: 1, writes: 2, discards: None, flushes: None });
        assert_eq!((table.len(), sda.total()), (2, 37));
        assert_eq!(sda.difference_since(RequestTotals { reads: 4, ..sda }).map(RequestTotals::total), Some(6));
        let before = HashMap::from([(device_number(8, 0), RequestTotals { writes: 12, ..sda })]);
        assert_eq!(requests_since(&table, &before, &[device_number(8, 0), device_number(8, 1)]), 8);
    }

    /// Linux counts the requests of such a disk at its paths, and from 6.4 on at the disk as well.
    #[test]
    fn an_nvme_disk_without_counts_gets_those_of_its_paths() {
        let paths = "259 1 nvme0c0n1 5 0 40 1 7 0 56 1 0 2 2\n259 2 nvme0c1n1 3 0 24 1 0 0 0 0 0 1 1\n";
        let reads_and_writes = |line: &str| {
            let all = parse_totals(&format!("{paths}{line}\n259 3 nvme1n1 0 0 0 0 0 0 0 0 0 0 0\n"));
            let [disk, other] = [0, 3].map(|minor| all[&device_number(259, minor)]);
            assert_eq!(other.total(), 0, "no path leads there");
            (disk.reads, disk.writes)
        };
        assert_eq!(reads_and_writes("259 0 nvme0n1 0 0 0 0 0 0 0 0 0 0 0"), (8, 7));
        assert_eq!(reads_and_writes("259 0 nvme0n1 2 0 16 1 1 0 8 1 0 1 1"), (2, 1));
    }

    /// Six reads of a disk, all of them of its partition.
    #[test]
    fn requests_of_a_partition_count_once() {
        let root = std::env::temp_dir().join(format!("diskwright-disks-{}", std::process::id()));
        fs::create_dir_all(root.join("sys/block/sda/sda1")).expect("a folder");
        for (name, number) in [("sda", "8:0\n"), ("sda1", "8:1\n")] {
            fs::create_dir_all(root.join("sys/class/block").join(name)).expect("a folder");
            fs::write(root.join("sys/class/block").join(name).join("dev"), number).expect("a file");
        }
        let names = BlockDeviceNames::from_root(&root);
        let table = |reads| {
            let totals = RequestTotals { reads, ..RequestTotals::default() };
            HashMap::from([(device_number(8, 0), totals), (device_number(8, 1), totals)])
        };
        let of = |disks: &[u32]| requests_of_disks(&names, disks, &table(4), &table(10));
        assert_eq!((of(&[]), of(&[device_number(8, 0)])), (6, 6));
        fs::remove_dir_all(root).expect("ours");
    }

    /// 2^32 - 5 reads, and 7 after the count has wrapped: 12. A count that fell from 99 to 0 is of another device.
    #[test]
    fn counts_of_32_bits_wrap_and_falling_counts_mean_another_device() {
        let totals = |reads| RequestTotals { reads, ..RequestTotals::default() };
        assert_eq!(totals(7).difference_since(totals(u64::from(u32::MAX) - 4)), Some(totals(12)));
        assert_eq!(totals(0).difference_since(totals(99)), None);
        assert_eq!(totals(0).difference_since(totals(1 << 40)), None);
        assert_eq!(totals(1 << 40).difference_since(totals(5)), Some(totals((1 << 40) - 5)));
    }
}
