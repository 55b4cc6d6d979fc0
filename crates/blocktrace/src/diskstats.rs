//! What the kernel counts of block devices anyway: `/proc/diskstats`. It tells how much is asked
//! before anything is traced, and how much of it a trace has seen.

use std::collections::HashMap;
use std::fs;

use crate::devices::device_number;

/// Requests that were done since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTotals {
    /// Reads.
    pub reads: u64,
    /// Writes, callers' flushes among them.
    pub writes: u64,
    /// Discards (4.18 and later).
    pub discards: u64,
    /// The device's own flushes (5.5 and later).
    pub flushes: u64,
}

impl RequestTotals {
    /// All of them.
    pub fn total(self) -> u64 {
        self.reads + self.writes + self.discards + self.flushes
    }

    /// What came since.
    pub fn since(self, before: RequestTotals) -> RequestTotals {
        RequestTotals {
            reads: self.reads.saturating_sub(before.reads),
            writes: self.writes.saturating_sub(before.writes),
            discards: self.discards.saturating_sub(before.discards),
            flushes: self.flushes.saturating_sub(before.flushes),
        }
    }
}

/// The table by device; empty where it cannot be read.
pub fn read() -> HashMap<u32, RequestTotals> {
    parse(&fs::read_to_string("/proc/diskstats").unwrap_or_default())
}

/// Fields by Documentation/admin-guide/iostats.rst: 1 reads, 5 writes, 12 discards, 16 flushes.
pub fn parse(text: &str) -> HashMap<u32, RequestTotals> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|f| f.parse::<u64>().ok());
        let device = device_number(u32::try_from(number(0)?).ok()?, u32::try_from(number(1)?).ok()?);
        let totals = RequestTotals {
            reads: number(3)?,
            writes: number(7)?,
            discards: number(14).unwrap_or(0),
            flushes: number(18).unwrap_or(0),
        };
        Some((device, totals))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_in_lines_of_old_and_new_kernels() {
        let table = parse(
            "   8       0 sda 10 1 80 5 20 2 160 9 0 7 14 3 0 24 1 4 6\n 8 1 sda1 1 0 8 5 2 0 16 9 0 7 14\nnonsense\n",
        );
        let sda = RequestTotals { reads: 10, writes: 20, discards: 3, flushes: 4 };
        assert_eq!(table[&device_number(8, 0)], sda);
        assert_eq!(table[&device_number(8, 1)], RequestTotals { reads: 1, writes: 2, discards: 0, flushes: 0 });
        assert_eq!((table.len(), sda.total()), (2, 37));
        assert_eq!(sda.since(RequestTotals { reads: 4, writes: 99, ..sda }).total(), 6);
    }
}
