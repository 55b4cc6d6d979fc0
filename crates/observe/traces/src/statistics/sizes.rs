//! Sizes of requests.

use std::collections::BTreeMap;

use diskwright_base::Operation;

/// Largest size in whole sectors with its own counter.
const DIRECT: usize = 2048;
/// Largest number of other sizes that are counted separately.
const MOST_OTHERS: usize = 4096;

/// Counts of reads and writes by size.
#[derive(Clone, Debug)]
pub struct SizeCounts {
    /// Reads and writes by the smallest power of two that is at least the size:
    /// `by_power[12]` counts 2049 to 4096 bytes, `by_power[0]` 0 and 1.
    pub by_power: [(u64, u64); 33],
    /// Number of requests by their number of sectors.
    direct: Box<[u64]>,
    others: BTreeMap<u32, u64>,
    /// Number of requests with sizes that are not counted separately.
    pub of_further_sizes: u64,
}

impl Default for SizeCounts {
    fn default() -> SizeCounts {
        let direct = vec![0; DIRECT + 1].into_boxed_slice();
        SizeCounts { by_power: [(0, 0); 33], direct, others: BTreeMap::new(), of_further_sizes: 0 }
    }
}

impl SizeCounts {
    pub(super) fn push(&mut self, bytes: u32, operation: Operation) {
        // for 2049 to 4096, the size minus 1 has 12 binary digits
        let power = (u32::BITS - bytes.saturating_sub(1).leading_zeros()) as usize;
        let (reads, writes) = &mut self.by_power[power];
        if operation == Operation::Read {
            *reads += 1
        } else {
            *writes += 1
        }
        self.count(bytes, 1);
    }

    fn count(&mut self, bytes: u32, times: u64) {
        let sectors = (bytes / 512) as usize;
        if bytes.is_multiple_of(512) && sectors <= DIRECT {
            self.direct[sectors] += times;
        } else if self.others.len() < MOST_OTHERS || self.others.contains_key(&bytes) {
            *self.others.entry(bytes).or_default() += times;
        } else {
            self.of_further_sizes += times;
        }
    }

    pub(super) fn add(&mut self, other: &SizeCounts) {
        for (mine, theirs) in self.by_power.iter_mut().zip(&other.by_power) {
            *mine = (mine.0 + theirs.0, mine.1 + theirs.1);
        }
        for (bytes, times) in other.exact() {
            self.count(bytes, times);
        }
        self.of_further_sizes += other.of_further_sizes;
    }

    /// Returns every exact size with its number of requests.
    fn exact(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let direct = self.direct.iter().enumerate().filter(|(_, times)| **times > 0);
        direct.map(|(sectors, times)| (sectors as u32 * 512, *times)).chain(self.others.iter().map(|(b, t)| (*b, *t)))
    }

    /// Returns the most common exact sizes in bytes with their number of requests, the most
    /// common first, at most `count`.
    pub fn common(&self, count: usize) -> Vec<(u32, u64)> {
        let mut all: Vec<(u32, u64)> = self.exact().collect();
        all.sort_by_key(|(bytes, times)| (std::cmp::Reverse(*times), *bytes));
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_hold_what_is_not_above_them() {
        let mut sizes = SizeCounts::default();
        for bytes in [0, 1, 2, 4095, 4096, 4097, u32::MAX] {
            sizes.push(bytes, Operation::Read);
        }
        sizes.push(4096, Operation::Write);
        assert_eq!(sizes.by_power[0], (2, 0));
        assert_eq!(sizes.by_power[1], (1, 0));
        assert_eq!(sizes.by_power[12], (2, 1));
        assert_eq!(sizes.by_power[13], (1, 0));
        assert_eq!(sizes.by_power[32], (1, 0));
        assert_eq!(sizes.common(2), [(4096, 2), (0, 1)]);
    }

    #[test]
    fn sizes_without_end_take_no_memory_without_end() {
        let mut sizes = SizeCounts::default();
        for bytes in 0..20_000 {
            sizes.push(bytes * 3 + 1, Operation::Write);
        }
        assert!(sizes.others.len() <= MOST_OTHERS);
        let told: u64 = sizes.exact().map(|(_, times)| times).sum();
        assert_eq!(told + sizes.of_further_sizes, 20_000);
        let mut twice = sizes.clone();
        twice.add(&sizes);
        let told: u64 = twice.exact().map(|(_, times)| times).sum();
        assert_eq!(told + twice.of_further_sizes, 40_000);
    }
}
