//! The file cache's share of what programs read: the bytes of their read calls (`rchar`) compared with the bytes read
//! from disks for them (`read_bytes`), over all processes whose I/O counts can be read.
//!
//! The kernel does not count page cache lookups. So this is a share of bytes, not of accesses; it is exact for programs
//! that read ordinary files with read calls, and a bound otherwise. Reads from pipes, sockets and /proc are included.
//! Mapped files and io_uring need no read calls: for them, only the bytes from disk are known, and count as requested.

use diskwright_base::counter_ids::memory;

use crate::live::counter_table::{ABSENT, CounterTable, TableColumn, level_column};
use crate::live::tick_context::TickContext;

use super::process_rows::ProcessInterval;

/// Factor from the counter's cell to a fraction.
const CELL_SCALE: f64 = 1e-4;
/// Minimum number of bytes requested between two scans: a share of less means nothing.
const MIN_BYTES: u64 = 1 << 20;

const COLUMNS: [TableColumn; 2] =
    [level_column(memory::FILE_READ_HITS, CELL_SCALE), level_column(memory::REQUESTED_READ_BYTES_PER_S, 1.0)];

/// The shares of the last scan.
#[derive(Debug)]
pub(super) struct CacheHits {
    /// Share that needed no read from a disk; `None` if too little was read.
    share: Option<f64>,
    /// Bytes per second that programs requested.
    requested_per_s: Option<f64>,
}

impl CacheHits {
    /// Creates it with its table.
    pub fn new() -> (CacheHits, CounterTable) {
        (CacheHits { share: None, requested_per_s: None }, CounterTable::single_row(&COLUMNS))
    }

    /// Takes the activity of the processes since the scan before. The sampler itself reads much of /proc.
    pub fn update_shares(&mut self, spans: &[ProcessInterval], elapsed_s: f64, samplers: &[u32]) {
        let (mut requested, mut from_disk) = (0_u64, 0_u64);
        let others = spans.iter().filter(|span| !samplers.contains(&span.pid));
        for (before, now) in others.filter_map(|span| span.io_before.zip(span.io_now)) {
            let read = now.read_bytes.saturating_sub(before.read_bytes);
            let asked = now.requested_read.saturating_sub(before.requested_read);
            from_disk = from_disk.saturating_add(read);
            // more from disk than requested: mapped files, io_uring, or read-ahead
            requested = requested.saturating_add(asked.max(read));
        }
        let has_any = spans.iter().any(|span| span.io_before.is_some() && span.io_now.is_some());
        self.requested_per_s = (has_any && elapsed_s > 0.0).then(|| requested as f64 / elapsed_s);
        self.share = (requested >= MIN_BYTES).then(|| 1.0 - from_disk as f64 / requested as f64);
    }

    /// Computes the cells, which are those of the last scan until the next.
    pub fn compute_cells(&self, table: &mut CounterTable, context: &mut TickContext) {
        table.begin_tick();
        let cells = [self.share.map(|share| share / CELL_SCALE), self.requested_per_s];
        for (cell, value) in table.row_mut(0).iter_mut().zip(cells) {
            *cell = value.map_or(ABSENT, |value| value.round() as u64);
        }
        table.compute_cells(context);
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::{ProcessIo, ProcessStat};
    use super::*;

    fn interval(requested_read: u64, read_bytes: u64) -> ProcessInterval {
        let io_now = ProcessIo { requested_read, read_bytes, ..ProcessIo::default() };
        ProcessInterval {
            pid: 1,
            before: ProcessStat::default(),
            io_before: Some(ProcessIo::default()),
            now: ProcessStat::default(),
            io_now: Some(io_now),
            io_s: 5.0,
        }
    }

    fn shares(spans: &[ProcessInterval]) -> (Option<f64>, Option<f64>) {
        let mut hits = CacheHits::new().0;
        hits.update_shares(spans, 5.0, &[99]);
        (hits.share, hits.requested_per_s)
    }

    #[test]
    fn what_no_disk_was_read_for_came_from_the_cache() {
        assert_eq!(shares(&[interval(10_000_000, 2_500_000)]), (Some(0.75), Some(2e6)));
        // a mapped file is read without a read call, and does not count as a hit of another process
        assert_eq!(shares(&[interval(8_000_000, 0), interval(0, 8_000_000)]), (Some(0.5), Some(3.2e6)));
        assert_eq!(shares(&[interval(5_000_000, 5_000_000)]).0, Some(0.0));
    }

    #[test]
    fn little_or_unknown_reading_has_no_share() {
        assert_eq!(shares(&[interval(1000, 0)]), (None, Some(200.0)));
        assert_eq!(shares(&[ProcessInterval { io_now: None, ..interval(0, 0) }]), (None, None));
        assert_eq!(shares(&[]), (None, None));
        assert_eq!(
            shares(&[interval(8_000_000, 4_000_000), ProcessInterval { pid: 99, ..interval(9_000_000, 0) }]).0,
            Some(0.5)
        );
    }
}
