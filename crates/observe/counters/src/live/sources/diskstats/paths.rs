//! Paths of NVMe native multipath: `nvme0c1n1` leads to the disk `nvme0n1`, and each has a line. A path is not a
//! disk. From Linux 6.4 on the disk counts its requests itself; before that its line stays at zero, and the sum of
//! its paths is used for it.

use diskwright_base::diskstats::{COMPLETED_POSITIONS, DISK_FIELDS, DiskstatsNumber, MAX_NUMBERS, parse_nvme_path};

use super::DiskstatsLine;
use crate::live::totals::{ABSENT, CounterTable};

/// A path with the numbers of its line at this tick.
#[derive(Debug)]
pub(super) struct DiskPath {
    name: Box<[u8]>,
    /// The disk that it leads to.
    head: String,
    /// `None` until its line comes.
    numbers: Option<[Option<u64>; MAX_NUMBERS]>,
}

/// Position of the busy time, the only number that cannot be summed: paths are busy at the same time.
const BUSY: usize = 9;

/// Stores the line of a path; returns false for all other lines.
pub(super) fn take(paths: &mut Vec<DiskPath>, line: &DiskstatsLine) -> bool {
    if !line.name.starts_with(b"nvme") {
        return false;
    }
    if let Some(known) = paths.iter_mut().find(|path| *path.name == *line.name) {
        known.numbers = Some(line.numbers);
        return true;
    }
    let Some((head, _)) = parse_nvme_path(&String::from_utf8_lossy(line.name)) else { return false };
    paths.push(DiskPath { name: line.name.into(), head, numbers: Some(line.numbers) });
    true
}

/// Gives disks that count nothing themselves the sums of their paths, and clears the paths for the next tick.
pub(super) fn carry(paths: &mut Vec<DiskPath>, disks: &mut CounterTable) {
    // paths without a line are gone
    paths.retain(|path| path.numbers.is_some());
    let all: &[DiskPath] = paths.as_slice();
    for (index, path) in all.iter().enumerate() {
        let is_first = !all[..index].iter().any(|before| before.head == path.head);
        let Some(row) = disks.find(&path.head).filter(|_| is_first) else { continue };
        let own = disks.fill(row);
        let counts = COMPLETED_POSITIONS.iter().any(|place| own[*place] != ABSENT && own[*place] > 0);
        if !counts {
            for (place, cell) in own.iter_mut().take(MAX_NUMBERS).enumerate() {
                *cell = together(all, &path.head, place);
            }
        }
    }
    paths.iter_mut().for_each(|path| path.numbers = None);
}

/// Combines a number of all paths to a disk into that of the disk.
fn together(paths: &[DiskPath], head: &str, place: usize) -> u64 {
    let (mut sum, mut count, mut busy) = (0_u64, 0_usize, 0_usize);
    for path in paths.iter().filter(|path| path.head == head) {
        if let Some(number) = path.numbers.and_then(|numbers| numbers[place]) {
            sum = sum.wrapping_add(number);
            count += 1;
            busy += usize::from(number > 0);
        }
    }
    match DISK_FIELDS[place].number {
        _ if count == 0 => ABSENT,
        // the busy time of paths that work at the same time overlaps by an unknown amount
        _ if place == BUSY && busy > 1 => ABSENT,
        DiskstatsNumber::Total32 => sum % (1 << 32),
        _ => sum,
    }
}
