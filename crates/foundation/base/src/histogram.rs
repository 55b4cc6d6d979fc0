//! Histogram of latencies, sizes or distances in fixed memory.
//!
//! Values are whole numbers (nanoseconds, bytes). Those below 128 are counted
//! exactly; above, each doubling is cut into 64 equal steps, so that a value
//! is known to within one step, 1/64 of it, and the middle of its step is
//! never more than 0.8 % off. All of `u64` fits: nothing is clipped.

/// Steps in a doubling.
const STEPS_PER_DOUBLING: u64 = 64;
/// log2 of [`STEPS_PER_DOUBLING`].
const STEP_BITS: u32 = STEPS_PER_DOUBLING.trailing_zeros();
/// Values below this have a bucket each.
const EXACT_LIMIT: u64 = 2 * STEPS_PER_DOUBLING;
/// Number of buckets: the exact ones, and 64 for each doubling above them.
const BUCKET_COUNT: usize = EXACT_LIMIT as usize + ((64 - (STEP_BITS as usize + 1)) * STEPS_PER_DOUBLING as usize);

/// Fewest values that must lie above a percentile for it to be shown.
const MIN_VALUES_ABOVE: f64 = 10.0;

/// A histogram of 30 KB. Recording is a few instructions and never allocates;
/// histograms of the same quantity can be merged. Count, mean, minimum and maximum
/// are exact, percentiles within 0.8 %.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl Histogram {
    /// Creates an empty histogram; this is the only allocation.
    pub fn new() -> Histogram {
        Histogram { buckets: vec![0; BUCKET_COUNT].into_boxed_slice(), count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Counts a value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts a value that was seen `times` times.
    #[inline]
    pub fn record_many(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        self.buckets[bucket_index(value)] += times;
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        assert_eq!(self.buckets.len(), other.buckets.len(), "every histogram has the same buckets");
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        debug_assert_eq!(self.buckets.iter().sum::<u64>(), self.count, "each value is in one bucket");
    }

    /// Removes all values and keeps the memory.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        (self.count, self.sum, self.min, self.max) = (0, 0, u64::MAX, 0);
    }

    /// Number of values counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// True when nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Sum of all values, exact.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Smallest value, exact.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Largest value, exact.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The mean, exact but for the rounding of the division.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The value that `share` of all values do not exceed (0.5 is the median,
    /// 0.99999 the 99.999th percentile), within 0.8 %; exact at 0 and 1.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        if self.count == 0 || share.is_nan() {
            return None;
        }
        let rank = (share.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        if share <= 0.0 {
            return Some(self.min as f64);
        }
        if rank >= self.count {
            return Some(self.max as f64);
        }
        let mut below = 0;
        for (index, &count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= rank {
                let (from, to) = bucket_bounds(index);
                let middle = from as f64 + (to - from) as f64 / 2.0;
                return Some(middle.clamp(self.min as f64, self.max as f64));
            }
        }
        debug_assert!(below >= rank, "the buckets hold {below} of {} values", self.count);
        Some(self.max as f64)
    }

    /// Returns true where a percentile of `count` values is worth showing: ten values lie above it, or it is at most
    /// the median. With fewer it is just one of the largest values and predicts nothing.
    pub fn is_percentile_meaningful(count: u64, share: f64) -> bool {
        // 1 - 0.99 is a little less than 0.01
        share <= 0.5 || (1.0 - share) * count as f64 >= MIN_VALUES_ABOVE - 1e-6
    }

    /// [`Histogram::quantile`], or `None` where it is not worth showing.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        self.quantile(share).filter(|_| Histogram::is_percentile_meaningful(self.count, share))
    }

    /// The nonempty buckets: smallest and largest value that fall
    /// into each, and the count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let counted = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(index, &count)| {
            let (from, to) = bucket_bounds(index);
            (from, to, count)
        })
    }
}

/// Index of the bucket that a value falls into.
#[inline]
fn bucket_index(value: u64) -> usize {
    if value < EXACT_LIMIT {
        return value as usize;
    }
    // value = 1xxxxxxyyy…: the leading one gives the doubling, the six bits after it the step
    let doubling = 63 - value.leading_zeros() - STEP_BITS;
    // 64 to 127, the leading one included: so the first of these buckets follows the exact ones
    let step = value >> doubling;
    debug_assert!((STEPS_PER_DOUBLING..EXACT_LIMIT).contains(&step), "step {step} of the doubling of {value}");
    let bucket = (u64::from(doubling) * STEPS_PER_DOUBLING + step) as usize;
    debug_assert!(bucket < BUCKET_COUNT, "bucket {bucket} of {BUCKET_COUNT}");
    bucket
}

/// Smallest and largest value of a bucket.
fn bucket_bounds(bucket: usize) -> (u64, u64) {
    debug_assert!(bucket < BUCKET_COUNT, "bucket {bucket} of {BUCKET_COUNT}");
    let bucket = bucket as u64;
    if bucket < EXACT_LIMIT {
        return (bucket, bucket);
    }
    let doubling = bucket / STEPS_PER_DOUBLING - 1;
    let from = (bucket - doubling * STEPS_PER_DOUBLING) << doubling;
    (from, from + ((1 << doubling) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values around every power of two, where steps change.
    fn corners() -> impl Iterator<Item = u64> {
        (0..64).flat_map(|bits| {
            let power = 1u64 << bits;
            [power.wrapping_sub(1), power, power + 1, power + power / 3]
        })
    }

    #[test]
    fn every_value_lies_within_its_bucket() {
        for value in corners().chain([u64::MAX]) {
            let bucket = bucket_index(value);
            assert!(bucket < BUCKET_COUNT, "{value}");
            let (from, to) = bucket_bounds(bucket);
            assert!(from <= value && value <= to, "{value}: {from} to {to}");
            assert!((to - from) as f64 <= from as f64 / 64.0, "{value}: {from} to {to}");
        }
        assert_eq!(bucket_index(u64::MAX), BUCKET_COUNT - 1);
    }

    #[test]
    fn buckets_are_adjacent() {
        for bucket in 1..BUCKET_COUNT {
            assert_eq!(bucket_bounds(bucket).0, bucket_bounds(bucket - 1).1 + 1, "{bucket}");
        }
    }

    #[test]
    fn count_mean_min_and_max_are_exact() {
        let mut histogram = Histogram::new();
        assert_eq!((histogram.mean(), histogram.min(), histogram.quantile(0.5)), (None, None, None));
        for value in [1_000_003, 17, 999_999_999_999] {
            histogram.record(value);
        }
        assert_eq!(histogram.count(), 3);
        assert_eq!(histogram.sum(), 1_000_001_000_019);
        assert_eq!((histogram.min(), histogram.max()), (Some(17), Some(999_999_999_999)));
        assert_eq!(histogram.mean(), Some(1_000_001_000_019.0 / 3.0));
        assert_eq!((histogram.quantile(0.0), histogram.quantile(1.0)), (Some(17.0), Some(999_999_999_999.0)));
    }

    #[test]
    fn quantiles_are_within_one_per_cent() {
        let mut histogram = Histogram::new();
        for value in 1..=1_000_000u64 {
            histogram.record(value * 10);
        }
        for share in [0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999] {
            let (found, truth) = (histogram.quantile(share).unwrap(), share * 1e7);
            assert!((found / truth - 1.0).abs() < 0.008, "{share}: {found} for {truth}");
        }
        // few values: the median of three is the second
        let mut few = Histogram::new();
        (5..8).for_each(|v| few.record(v));
        assert_eq!(few.quantile(0.5), Some(6.0));
    }

    #[test]
    fn a_percentile_is_shown_where_ten_values_lie_above_it() {
        let mut histogram = Histogram::new();
        histogram.record_many(7, 999);
        assert_eq!((histogram.percentile(0.5), histogram.percentile(0.99)), (Some(7.0), None));
        histogram.record(7);
        assert_eq!((histogram.percentile(0.99), histogram.percentile(0.999)), (Some(7.0), None));
        assert!(
            Histogram::is_percentile_meaningful(1, 0.5)
                && Histogram::is_percentile_meaningful(100_000, 0.9999)
                && !Histogram::is_percentile_meaningful(199, 0.95)
        );
    }

    #[test]
    fn merging_equals_recording_together() {
        let (mut one, mut two, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for value in corners() {
            let part = if value % 2 == 0 { &mut one } else { &mut two };
            part.record(value);
            both.record(value);
        }
        one.merge(&two);
        assert_eq!(one, both);
        one.clear();
        assert_eq!(one, Histogram::new());
        one.record_many(9, 0);
        assert!(one.is_empty());
    }

    #[test]
    fn the_largest_values_do_not_overflow() {
        let mut histogram = Histogram::new();
        histogram.record_many(u64::MAX, 1 << 40);
        assert_eq!(histogram.mean(), Some(u64::MAX as f64));
        assert_eq!(histogram.quantile(0.5), Some(u64::MAX as f64));
        assert_eq!(histogram.buckets().map(|b| b.2).sum::<u64>(), 1 << 40);
    }
}
