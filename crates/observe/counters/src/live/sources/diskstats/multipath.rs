//! Paths of NVMe native multipath: `nvme0c1n1` leads to the disk `nvme0n1`, and each has a line. A path is not a
//! disk. Since Linux 6.4 the disk counts its requests itself; before that its line stays at zero, and the sum of its
//! paths replaces it.

use diskwright_base::diskstats::{COMPLETED_POSITIONS, DISK_FIELDS, DiskstatsNumber, MAX_NUMBERS, parse_nvme_path};

use super::{DISK_COLUMNS, DiskstatsLine};
use crate::live::counter_table::{ABSENT, CounterTable, column_index};

/// A path with the numbers of its line at this tick.
#[derive(Debug)]
pub(super) struct DiskPath {
    name: Box<[u8]>,
    /// The disk that it leads to.
    disk: String,
    /// `None` until its line comes.
    numbers: Option<[Option<u64>; MAX_NUMBERS]>,
}

impl DiskPath {
    /// Name of the path: `nvme0c1n1`.
    pub(super) fn name(&self) -> &str {
        std::str::from_utf8(&self.name).unwrap_or_default()
    }

    /// Its numbers at this tick; `None` without a line.
    pub(super) fn numbers(&self) -> Option<[Option<u64>; MAX_NUMBERS]> {
        self.numbers
    }
}

/// Position of the busy time, the only number that cannot be summed: paths are busy at the same time.
const BUSY_POSITION: usize = column_index(&DISK_COLUMNS, "physical_disk.busy_time_s");

/// Stores the line of a path; returns false for all other lines.
pub(super) fn record_path_line(paths: &mut Vec<DiskPath>, line: &DiskstatsLine) -> bool {
    if !line.name.starts_with(b"nvme") {
        return false;
    }
    if let Some(known) = paths.iter_mut().find(|path| *path.name == *line.name) {
        known.numbers = Some(line.numbers);
        return true;
    }
    let Some((head, _)) = parse_nvme_path(&String::from_utf8_lossy(line.name)) else { return false };
    paths.push(DiskPath { name: line.name.into(), disk: head, numbers: Some(line.numbers) });
    true
}

/// Gives disks that count nothing themselves the sums of their paths, and clears the paths for the next tick.
pub(super) fn credit_disks(paths: &mut Vec<DiskPath>, disks: &mut CounterTable) {
    // paths without a line are gone
    paths.retain(|path| path.numbers.is_some());
    let known_paths: &[DiskPath] = paths.as_slice();
    for (index, path) in known_paths.iter().enumerate() {
        let is_first = !known_paths[..index].iter().any(|before| before.disk == path.disk);
        let Some(row) = disks.find_row(&path.disk).filter(|_| is_first) else { continue };
        let cells = disks.row_mut(row);
        let has_counts = COMPLETED_POSITIONS.iter().any(|position| cells[*position] != ABSENT && cells[*position] > 0);
        if !has_counts {
            for (position, cell) in cells.iter_mut().take(MAX_NUMBERS).enumerate() {
                *cell = combine_paths(known_paths, &path.disk, position);
            }
        }
    }
    paths.iter_mut().for_each(|path| path.numbers = None);
}

/// Combines a number of all paths to a disk into that of the disk.
fn combine_paths(paths: &[DiskPath], head: &str, position: usize) -> u64 {
    let (mut sum, mut count, mut busy_count) = (0_u64, 0_usize, 0_usize);
    for path in paths.iter().filter(|path| path.disk == head) {
        if let Some(number) = path.numbers.and_then(|numbers| numbers[position]) {
            sum = sum.wrapping_add(number);
            count += 1;
            busy_count += usize::from(number > 0);
        }
    }
    match DISK_FIELDS[position].number {
        _ if count == 0 => ABSENT,
        // the busy time of paths that work at the same time overlaps by an unknown amount
        _ if position == BUSY_POSITION && busy_count > 1 => ABSENT,
        DiskstatsNumber::Total32 => sum % (1 << 32),
        _ => sum,
    }
}
