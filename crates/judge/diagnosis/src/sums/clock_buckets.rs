//! Buckets of clock time for trends. Their width doubles as the window grows, so that a series never has more than
//! [`MAX_BUCKETS`]. Buckets are cut by the clock and not by the number of ticks, so that a gap keeps its length.

use diskwright_base::Frame;

use crate::sums::lane_sums::LaneSums;

/// Largest number of buckets of a series, for trends.
const MAX_BUCKETS: i64 = 1024;
/// Largest number of buckets of a series whose changes of level are looked for: ticks of a second are told apart for an
/// hour, and pairs of them for four.
pub(crate) const MAX_CHANGE_BUCKETS: i64 = 8192;
/// Initial doublings of the smallest width for trends: an hour then fills all buckets, and shorter windows have no
/// trends.
const TREND_DOUBLINGS: u32 = 3;
/// Smallest width: an hour halved thirteen times (0.44 s, as often as nanoseconds allow), so that widths divide hours
/// and whole days.
const MIN_WIDTH_NS: i64 = 3_600_000_000_000 / 8192;

/// Windows shorter than this have no trends, seconds.
pub const MIN_WINDOW_S: f64 = 3600.0;

/// True where a window, nanoseconds since 1970, is long enough for trends. A recording of an hour may lack a tick.
pub(crate) fn is_long_enough((from_ns, to_ns): (i64, i64)) -> bool {
    (to_ns as f64 - from_ns as f64) / 1e9 >= MIN_WINDOW_S * 0.99
}

/// Width and range of the buckets of all series.
#[derive(Clone, Debug)]
pub(crate) struct ClockTimeline {
    max_buckets: i64,
    doublings: u32,
    /// First and last bucket in use.
    range: Option<(i64, i64)>,
}

/// Ticks of a chunk that fall into one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockBucketTicks {
    pub start: usize,
    pub end: usize,
    /// Number of the bucket, counted from 1970 in the present width.
    pub bucket: i64,
    pub doublings: u32,
    /// Limit of the timeline that cut them.
    pub max_buckets: i64,
}

impl Default for ClockTimeline {
    fn default() -> Self {
        ClockTimeline { doublings: TREND_DOUBLINGS, ..ClockTimeline::with_max_buckets(MAX_BUCKETS) }
    }
}

impl ClockTimeline {
    /// Creates a timeline of at most this many buckets.
    pub fn with_max_buckets(max_buckets: i64) -> ClockTimeline {
        ClockTimeline { max_buckets, doublings: 0, range: None }
    }

    /// Widens the buckets for a window that is known beforehand, so that they need not be widened later.
    pub fn reserve_window(&mut self, (from_ns, to_ns): (i64, i64)) {
        if to_ns >= from_ns {
            self.bucket_at(from_ns);
            self.bucket_at(to_ns);
        }
    }

    /// The width in use, doubled until it is at least `min_ns`.
    pub fn width_at_least(&self, min_ns: i64) -> i64 {
        let mut width = MIN_WIDTH_NS << self.doublings;
        while width < min_ns {
            width = width.saturating_mul(2);
        }
        width
    }

    /// The bucket of a time; widens all buckets where that bucket is too far from the others.
    fn bucket_at(&mut self, time_ns: i64) -> i64 {
        let narrow = time_ns.div_euclid(MIN_WIDTH_NS);
        loop {
            let bucket = narrow >> self.doublings;
            let (low, high) = self.range.map_or((bucket, bucket), |(low, high)| (low.min(bucket), high.max(bucket)));
            if high - low < self.max_buckets {
                self.range = Some((low, high));
                return bucket;
            }
            self.doublings += 1;
            self.range = self.range.map(|(low, high)| (low >> 1, high >> 1));
        }
    }

    /// Cuts the ticks `range` of a frame by bucket: each tick belongs to the bucket of its middle.
    pub fn cut_ticks(&mut self, frame: &Frame, range: std::ops::Range<usize>, stretches: &mut Vec<ClockBucketTicks>) {
        stretches.clear();
        for (index, tick) in frame.ticks()[range].iter().enumerate() {
            let start = tick.start_ns();
            let bucket = self.bucket_at(start + (tick.time_ns.saturating_sub(start)) / 2);
            let doublings = self.doublings;
            match stretches.last_mut() {
                Some(last) if last.bucket == bucket && last.doublings == doublings => last.end = index + 1,
                _ => stretches.push(ClockBucketTicks {
                    start: index,
                    end: index + 1,
                    bucket,
                    doublings,
                    max_buckets: self.max_buckets,
                }),
            }
        }
    }
}

/// Sums of one series by bucket.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockBuckets {
    /// Number of the first cell's bucket.
    first: i64,
    doublings: u32,
    /// For each bucket, the sum of values times weights, and the sum of weights.
    cells: Vec<(f64, f64)>,
    /// Sums of the bucket that receives ticks at present.
    current: LaneSums,
    /// Number of that bucket.
    bucket: Option<i64>,
}

/// Time, mean and weight of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BucketPoint {
    /// Middle of the bucket, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    pub value: f64,
    pub weight: f64,
}

impl ClockBuckets {
    /// Adds a chunk's columns; `number` is that of the chunk's first tick.
    pub fn add_chunk(&mut self, number: usize, stretches: &[ClockBucketTicks], values: &[f64], weights: &[f64]) {
        for stretch in stretches {
            if self.bucket != Some(stretch.bucket) || self.doublings != stretch.doublings {
                self.flush_current();
                self.widen_buckets(stretch.doublings);
                assert!(self.cells.len() as i64 <= stretch.max_buckets, "{} buckets of a series", self.cells.len());
                self.bucket = Some(stretch.bucket);
            }
            let range = stretch.start..stretch.end;
            self.current.add_ticks(number + stretch.start, &values[range.clone()], &weights[range]);
        }
    }

    /// Adds the current sums to their bucket.
    fn flush_current(&mut self) {
        let sums = std::mem::take(&mut self.current);
        let Some(bucket) = self.bucket.take().filter(|_| sums.total_weight() > 0.0) else { return };
        if self.cells.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            // a second log may start before the first
            let missing = (self.first - bucket) as usize;
            self.cells.splice(..0, std::iter::repeat_n((0.0, 0.0), missing));
            self.first = bucket;
        }
        let index = (bucket - self.first) as usize;
        if self.cells.len() <= index {
            self.cells.resize(index + 1, (0.0, 0.0));
        }
        let (product, weight) = &mut self.cells[index];
        *product += sums.weighted_sum();
        *weight += sums.total_weight();
    }

    /// Joins buckets in pairs until they have this width.
    fn widen_buckets(&mut self, doublings: u32) {
        while self.doublings < doublings {
            // pairs begin at even numbers, so an odd first bucket stays alone
            let unpaired = (self.first & 1) as usize;
            let add = |pair: &[(f64, f64)]| pair.iter().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
            let (head, pairs) = self.cells.split_at(unpaired.min(self.cells.len()));
            self.cells = head.iter().copied().chain(pairs.chunks(2).map(add)).collect();
            self.first >>= 1;
            self.doublings += 1;
        }
    }

    /// The buckets with a value, in the order of time.
    pub fn filled_buckets(&self) -> Vec<BucketPoint> {
        let mut complete = self.clone();
        complete.flush_current();
        let width = MIN_WIDTH_NS << complete.doublings;
        let filled = complete.cells.iter().enumerate().filter(|(_, (_, weight))| *weight > 0.0);
        filled
            .map(|(index, (product, weight))| BucketPoint {
                time_ns: (complete.first + index as i64).saturating_mul(width).saturating_add(width / 2),
                value: product / weight,
                weight: *weight,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use diskwright_base::{Schema, Tick};

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn frame(times: &[i64]) -> Frame {
        let mut frame = Frame::new(Arc::new(Schema::default()), times.len());
        times.iter().for_each(|&time_ns| frame.push(Tick { time_ns, elapsed_ns: SECOND as u64 }, &[]));
        frame
    }

    fn run(times: &[i64], cut: usize, expected: Option<(i64, i64)>) -> ClockBuckets {
        let frame = frame(times);
        let (mut timeline, mut buckets, mut stretches) =
            (ClockTimeline::default(), ClockBuckets::default(), Vec::new());
        expected.into_iter().for_each(|e| timeline.reserve_window(e));
        for start in (0..times.len()).step_by(cut) {
            let end = (start + cut).min(times.len());
            timeline.cut_ticks(&frame, start..end, &mut stretches);
            let values: Vec<f64> = (start..end).map(|i| 1.0 / (i as f64 + 1.5)).collect();
            buckets.add_chunk(start, &stretches, &values, &vec![1.0; end - start]);
        }
        buckets
    }

    #[test]
    fn memory_is_bounded_and_buckets_are_bit_identical_however_ticks_are_cut() {
        let times: Vec<i64> = (0..50_000).map(|i| (i + 7) * SECOND + i * i / 9).collect();
        let uncut = run(&times, times.len(), None).filled_buckets();
        assert!((MAX_BUCKETS / 2..=MAX_BUCKETS).contains(&(uncut.len() as i64)), "{}", uncut.len());
        let all: f64 = uncut.iter().map(|f| f.weight).sum();
        assert_eq!(all, 50_000.0);
        for cut in [1, 3, 256, 9_999] {
            assert_eq!(run(&times, cut, None).filled_buckets(), uncut, "cut {cut}");
        }
    }

    #[test]
    fn a_gap_stays_as_long_as_it_was() {
        let times: Vec<i64> = (0..100).map(|i| if i < 50 { i * SECOND } else { (i + 500) * SECOND }).collect();
        let filled = run(&times, 64, Some((0, 600 * SECOND))).filled_buckets();
        let gap = filled.windows(2).map(|w| w[1].time_ns - w[0].time_ns).max().unwrap();
        assert!((gap - 501 * SECOND).abs() < 8 * SECOND, "{gap}");
    }

    #[test]
    fn time_may_go_back_and_far() {
        let there_and_back = [100, 101, 5, 6, 100, 3].map(|s| s * SECOND);
        let filled = run(&there_and_back, 2, None).filled_buckets();
        assert_eq!(filled.iter().map(|f| f.weight).sum::<f64>(), 6.0);
        assert!(filled.windows(2).all(|w| w[0].time_ns < w[1].time_ns));
        let wild = [i64::MAX, i64::MIN, 0, i64::MAX / 2, -1];
        let filled = run(&wild, 1, None).filled_buckets();
        assert_eq!(filled.iter().map(|f| f.weight).sum::<f64>(), 5.0);
    }

    #[test]
    fn buckets_divide_the_hour() {
        for doublings in 0..14 {
            assert_eq!(3600 * SECOND % (MIN_WIDTH_NS << doublings), 0);
        }
    }
}
