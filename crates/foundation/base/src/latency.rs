//! Latencies in log-linear buckets, as the BPF program in the kernel counts them.
//!
//! Each doubling from 1.024 us (2^10 ns) to 68.7 s (2^36 ns) is cut into 16 equal buckets,
//! so that the width of a bucket is at most 1/16 of its lower edge (5.9 % of its upper edge), and the
//! middle of a bucket is at most 3.1 % off. Shorter latencies share one bucket, and so do longer ones.

use crate::Histogram;

/// log2 of the shortest latency that is resolved, nanoseconds.
pub const MIN_LATENCY_BITS: u32 = 10;
/// log2 of the longest latency that is resolved, nanoseconds.
pub const MAX_LATENCY_BITS: u32 = 36;
/// log2 of the buckets in a doubling.
pub const BUCKET_BITS: u32 = 4;
/// Number of buckets, with one for shorter and one for longer latencies.
pub const BUCKET_COUNT: usize = (((MAX_LATENCY_BITS - MIN_LATENCY_BITS) as usize) << BUCKET_BITS) + 2;
/// Fewest values that must lie above a percentile for it to be reported.
const MIN_VALUES_ABOVE: f64 = 10.0;

/// Index of the bucket that a latency falls into.
#[inline]
pub fn bucket_index(ns: u64) -> usize {
    if ns < 1 << MIN_LATENCY_BITS {
        return 0;
    }
    let bits = 63 - ns.leading_zeros();
    if bits >= MAX_LATENCY_BITS {
        return BUCKET_COUNT - 1;
    }
    // the bits behind the leading one
    let within = (ns >> (bits - BUCKET_BITS)) & ((1 << BUCKET_BITS) - 1);
    let bucket = (((bits - MIN_LATENCY_BITS) as usize) << BUCKET_BITS) + within as usize + 1;
    debug_assert!(bucket < BUCKET_COUNT - 1, "bucket {bucket} of {BUCKET_COUNT} is that of {ns} ns");
    bucket
}

/// Lower edge (included) and upper edge (excluded) of a bucket, nanoseconds; the last bucket has no end.
pub fn bucket_edges(bucket: usize) -> (u64, u64) {
    if bucket == 0 {
        return (0, 1 << MIN_LATENCY_BITS);
    }
    if bucket >= BUCKET_COUNT - 1 {
        return (1 << MAX_LATENCY_BITS, u64::MAX);
    }
    let (octave, within) = ((bucket - 1) >> BUCKET_BITS, ((bucket - 1) & ((1 << BUCKET_BITS) - 1)) as u64);
    let width = 1u64 << (octave as u32 + MIN_LATENCY_BITS - BUCKET_BITS);
    let from = (1u64 << (octave as u32 + MIN_LATENCY_BITS)) + within * width;
    (from, from + width)
}

/// Histogram of latencies. Mean and longest are exact where single values were
/// recorded, percentiles within 3.1 %. Histograms can be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyHistogram {
    counts: Box<[u64]>,
    count: u64,
    sum_ns: u128,
    longest_ns: u64,
}

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        LatencyHistogram { counts: vec![0; BUCKET_COUNT].into_boxed_slice(), count: 0, sum_ns: 0, longest_ns: 0 }
    }
}

impl LatencyHistogram {
    /// Converts a [`Histogram`] of nanoseconds with exact counts: each of its finer buckets lies within one bucket
    /// here.
    pub fn from_histogram(histogram: &Histogram) -> LatencyHistogram {
        let mut converted = LatencyHistogram::default();
        for (from, to, count) in histogram.buckets() {
            assert_eq!(bucket_index(from), bucket_index(to), "buckets of one lie within those of the other");
            converted.counts[bucket_index(from)] += count;
        }
        converted.count = histogram.count();
        converted.sum_ns = histogram.sum();
        converted.longest_ns = histogram.max().unwrap_or(0);
        converted
    }

    /// Counts a latency.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.counts[bucket_index(ns)] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// Adds buckets that were counted elsewhere, with their sum and the longest latency.
    pub fn add_buckets(&mut self, counts: impl Iterator<Item = (usize, u64)>, sum_ns: u64, longest_ns: u64) {
        for (bucket, count) in counts.filter(|(_, count)| *count > 0) {
            self.counts[bucket.min(BUCKET_COUNT - 1)] += count;
            self.count += count;
        }
        self.sum_ns += u128::from(sum_ns);
        self.longest_ns = self.longest_ns.max(longest_ns);
    }

    /// Adds the latencies of another histogram.
    pub fn merge(&mut self, other: &LatencyHistogram) {
        self.add_buckets(other.counts.iter().copied().enumerate(), 0, other.longest_ns);
        self.sum_ns += other.sum_ns;
    }

    /// Returns the latencies counted since `before`, an earlier state of this histogram. The longest is exact if it
    /// was recorded since then, else it is the upper edge of the highest bucket.
    pub fn difference_since(&self, before: &LatencyHistogram) -> LatencyHistogram {
        let counts: Box<[u64]> =
            self.counts.iter().zip(&before.counts).map(|(now, old)| now.saturating_sub(*old)).collect();
        let highest_ns = counts.iter().rposition(|count| *count > 0).map_or(0, |bucket| bucket_edges(bucket).1 - 1);
        LatencyHistogram {
            count: counts.iter().sum(),
            sum_ns: self.sum_ns.saturating_sub(before.sum_ns),
            longest_ns: if self.longest_ns > before.longest_ns {
                self.longest_ns
            } else {
                highest_ns.min(self.longest_ns)
            },
            counts,
        }
    }

    /// Number of latencies counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean latency, nanoseconds.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// Longest latency, nanoseconds.
    pub fn longest_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.longest_ns)
    }

    /// Returns the latency that a fraction `share` of all do not exceed, nanoseconds: the middle of its bucket.
    /// `None` unless ten latencies lie above it, as everywhere in this program.
    pub fn percentile_ns(&self, share: f64) -> Option<f64> {
        // 1.0 - share may round below the exact tail: 1.0 - 0.9 is less than 0.1
        if (1.0 - share) * (self.count as f64) < MIN_VALUES_ABOVE - 1e-6 {
            return None;
        }
        debug_assert_eq!(self.counts.iter().sum::<u64>(), self.count, "each latency is in one bucket");
        let rank = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                let (from, to) = bucket_edges(bucket);
                // the last bucket is unbounded: the longest latency serves as its upper edge
                let to = to.min(self.longest_ns.saturating_add(1)).max(from);
                return Some((from as f64 + to as f64) / 2.0);
            }
        }
        None
    }

    /// The nonempty buckets, as (bucket, count).
    pub fn nonempty_buckets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finer_histogram_falls_into_the_same_buckets() {
        let (mut fine, mut own) = (Histogram::new(), LatencyHistogram::default());
        let mut ns = 1;
        while ns < 1 << 40 {
            for value in [ns - 1, ns, ns + 1, ns + ns / 3] {
                fine.record(value);
                own.record(value);
            }
            ns += ns / 37 + 1;
        }
        assert_eq!(LatencyHistogram::from_histogram(&fine), own);
        assert_eq!(LatencyHistogram::from_histogram(&Histogram::new()), LatencyHistogram::default());
    }

    #[test]
    fn buckets_are_adjacent_and_narrow() {
        for bucket in 1..BUCKET_COUNT - 1 {
            let (from, to) = bucket_edges(bucket);
            assert_eq!(bucket_edges(bucket - 1).1, from, "{bucket}");
            assert_eq!((bucket_index(from), bucket_index(to - 1), bucket_index(to)), (bucket, bucket, bucket + 1));
            assert!((to - from) as f64 / to as f64 <= 0.0589, "{bucket}: {from} to {to}");
        }
        assert_eq!(BUCKET_COUNT, 418);
        assert_eq!((bucket_index(0), bucket_index(1023), bucket_index(u64::MAX)), (0, 0, BUCKET_COUNT - 1));
        assert_eq!((bucket_edges(1), bucket_edges(BUCKET_COUNT - 1)), ((1024, 1088), (1 << 36, u64::MAX)));
    }

    /// 1 to 10,000 in steps of 10 us: the median is 50 ms, the 99th percentile 99 ms.
    #[test]
    fn percentiles_are_within_a_bucket_and_only_where_enough_lie_above() {
        let mut histogram = LatencyHistogram::default();
        (1..=10_000u64).for_each(|n| histogram.record(n * 10_000));
        for share in [0.01, 0.5, 0.9, 0.99, 0.999] {
            let (found, truth) = (histogram.percentile_ns(share).expect("enough"), share * 1e8);
            assert!((found / truth - 1.0).abs() < 0.032, "{share}: {found} for {truth}");
        }
        assert_eq!(histogram.percentile_ns(0.9999), None);
        assert_eq!((histogram.longest_ns(), histogram.mean_ns()), (Some(100_000_000), Some(50_005_000.0)));
        let mut few = LatencyHistogram::default();
        (0..999).for_each(|_| few.record(5_000_000));
        assert_eq!(few.percentile_ns(0.99), None);
        few.record(5_000_000);
        assert!(few.percentile_ns(0.99).is_some());
        assert_eq!(LatencyHistogram::default().percentile_ns(0.5), None);
        assert_eq!(LatencyHistogram::default().mean_ns(), None);
    }

    #[test]
    fn merging_equals_recording_together() {
        let (mut one, mut two, mut both) =
            (LatencyHistogram::default(), LatencyHistogram::default(), LatencyHistogram::default());
        for n in 0..2000u64 {
            let ns = n * n * n;
            if n % 3 == 0 {
                one.record(ns)
            } else {
                two.record(ns)
            }
            both.record(ns);
        }
        one.merge(&two);
        assert_eq!(one, both);
        assert_eq!(both.nonempty_buckets().map(|(_, count)| count).sum::<u64>(), 2000);
    }
}
