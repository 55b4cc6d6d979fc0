//! Sizes of requests.

use std::collections::BTreeMap;

use diskwright_base::Operation;

/// Largest size in whole sectors with its own counter.
const MAX_COUNTED_SECTORS: usize = 2048;
/// Largest number of other sizes that are counted separately.
const MAX_OTHER_SIZES: usize = 4096;

/// Counts of reads and writes by size.
#[derive(Clone, Debug)]
pub struct SizeCounts {
    /// Reads and writes by the smallest power of two that is at least the size:
    /// `by_power[12]` counts 2049 to 4096 bytes, `by_power[0]` 0 and 1.
    pub by_power: [(u64, u64); 33],
    /// Number of requests by their number of sectors.
    by_sectors: Box<[u64]>,
    /// Number of requests of other sizes, by bytes.
    other_sizes: BTreeMap<u32, u64>,
    /// Number of requests with sizes that are not counted separately.
    pub further_size_requests: u64,
}

impl Default for SizeCounts {
    fn default() -> SizeCounts {
        let by_sectors = vec![0; MAX_COUNTED_SECTORS + 1].into_boxed_slice();
        SizeCounts { by_power: [(0, 0); 33], by_sectors, other_sizes: BTreeMap::new(), further_size_requests: 0 }
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
        self.add_count(bytes, 1);
    }

    fn add_count(&mut self, bytes: u32, requests: u64) {
        let sectors = (bytes / 512) as usize;
        if bytes.is_multiple_of(512) && sectors <= MAX_COUNTED_SECTORS {
            self.by_sectors[sectors] += requests;
        } else if self.other_sizes.len() < MAX_OTHER_SIZES || self.other_sizes.contains_key(&bytes) {
            *self.other_sizes.entry(bytes).or_default() += requests;
        } else {
            self.further_size_requests += requests;
        }
    }

    pub(super) fn merge_counts(&mut self, other: &SizeCounts) {
        for ((reads, writes), (more_reads, more_writes)) in self.by_power.iter_mut().zip(&other.by_power) {
            *reads += more_reads;
            *writes += more_writes;
        }
        for (bytes, requests) in other.exact_counts() {
            self.add_count(bytes, requests);
        }
        self.further_size_requests += other.further_size_requests;
    }

    /// Returns every exact size with its number of requests.
    fn exact_counts(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let counted = self.by_sectors.iter().enumerate().filter(|(_, requests)| **requests > 0);
        let in_sectors = counted.map(|(sectors, requests)| (sectors as u32 * 512, *requests));
        in_sectors.chain(self.other_sizes.iter().map(|(bytes, requests)| (*bytes, *requests)))
    }

    /// Returns the most common exact sizes in bytes with their number of requests, the most
    /// common first, at most `count`.
    pub fn most_common(&self, count: usize) -> Vec<(u32, u64)> {
        let mut counts: Vec<(u32, u64)> = self.exact_counts().collect();
        counts.sort_by_key(|(bytes, requests)| (std::cmp::Reverse(*requests), *bytes));
        counts.truncate(count);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counted_by_the_power_of_two_above() {
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
        assert_eq!(sizes.most_common(2), [(4096, 2), (0, 1)]);
    }

    #[test]
    fn memory_is_bounded_with_many_sizes() {
        let mut sizes = SizeCounts::default();
        for bytes in 0..20_000 {
            sizes.push(bytes * 3 + 1, Operation::Write);
        }
        assert!(sizes.other_sizes.len() <= MAX_OTHER_SIZES);
        let counted: u64 = sizes.exact_counts().map(|(_, times)| times).sum();
        assert_eq!(counted + sizes.further_size_requests, 20_000);
        let mut twice = sizes.clone();
        twice.merge_counts(&sizes);
        let counted: u64 = twice.exact_counts().map(|(_, times)| times).sum();
        assert_eq!(counted + twice.further_size_requests, 40_000);
    }
}
