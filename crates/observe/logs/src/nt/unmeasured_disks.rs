//! Disk counters that Windows NT did not measure. While its driver Diskperf is off, as it is until somebody turns it
//! on, all counters of disks are 0. A log in which pages are read from disks that never had a request shows that.

use diskwright_base::counter_ids::{logical_disk, paging};
use diskwright_base::{Frame, Schema};

/// Remark on a log of such disks.
pub(crate) const UNMEASURED_DISKS: &str = concat!(
    "all disk counters are 0 although pages were read or written: the disks were not measured, and their zeros are ",
    "gaps here; on Windows NT, type `diskperf -y`, restart, and record again"
);

/// Counters of the machine that are above 0 only if a disk has requests.
const DISK_WORK: [&str; 5] = [
    paging::PAGE_READS_PER_S,
    paging::PAGE_WRITES_PER_S,
    paging::PAGES_INPUT_PER_S,
    paging::PAGES_OUTPUT_PER_S,
    paging::PAGES_PER_S,
];
/// Counters of disks that Windows has without Diskperf.
const SPACE: [&str; 2] = [logical_disk::FREE_BYTES, logical_disk::FREE_FRACTION];

/// What a log has shown of its disks so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DiskState {
    #[default]
    Unknown,
    Measured,
    Unmeasured,
}

/// Turns the zeros of disks that were not measured into gaps. A disk that once had a request is measured for good,
/// because Diskperf starts and stops with the machine.
#[derive(Debug, Default)]
pub(crate) struct UnmeasuredDisks {
    state: DiskState,
}

impl UnmeasuredDisks {
    /// Clears the disk counters of a frame if they were not measured. Returns true for the first such frame.
    pub fn clear_zeros(&mut self, frame: &mut Frame) -> bool {
        if self.state == DiskState::Measured {
            return false;
        }
        let columns_of = |schema: &Schema, is_chosen: fn(&str) -> bool| -> Vec<usize> {
            (0..schema.series.len()).filter(|column| is_chosen(&schema.series[*column].counter)).collect()
        };
        let disks = columns_of(frame.schema(), is_disk_work);
        let has_value = |column: &usize| frame.column(*column).iter().any(|cell| *cell != 0.0 && !cell.is_nan());
        if disks.iter().any(has_value) {
            self.state = DiskState::Measured;
            return false;
        }
        let work = columns_of(frame.schema(), |counter| DISK_WORK.contains(&counter));
        let is_first = self.state == DiskState::Unknown;
        if is_first && (disks.is_empty() || !work.iter().any(has_value)) {
            return false;
        }
        self.state = DiskState::Unmeasured;
        for column in disks {
            frame.column_mut(column).fill(f64::NAN);
        }
        is_first
    }
}

/// True for a counter of a disk's requests.
fn is_disk_work(counter: &str) -> bool {
    (counter.starts_with("physical_disk.") || counter.starts_with("logical_disk.")) && !SPACE.contains(&counter)
}
