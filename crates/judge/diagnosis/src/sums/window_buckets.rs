//! State of the window, and buckets of its ticks for sparklines. A bucket takes more ticks as the window grows, so that
//! a log of a year needs no more memory than one of a minute.

use diskwright_base::Frame;

use crate::sums::clock_buckets::ClockBuckets;
use crate::sums::lane_sums::LaneSums;

/// Largest number of points of a sparkline.
pub(crate) const MAX_POINTS: usize = 60;

/// Extent of the window so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct WindowState {
    /// Start of the first tick, nanoseconds since 1970.
    pub from_ns: i64,
    /// End of the last tick.
    pub to_ns: i64,
    /// Running time covered, nanoseconds.
    pub elapsed_ns: u64,
    /// Number of ticks.
    pub ticks: u64,
    /// Number of ticks of known length before the present tick.
    timed: u64,
    /// A bucket holds two to this power of timed ticks.
    doublings: u32,
}

/// Ticks of a chunk that fall into one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowBucketTicks {
    pub start: usize,
    pub end: usize,
    pub bucket: usize,
    pub doublings: u32,
}

impl WindowState {
    /// Adds the ticks `range` of a frame and cuts them into segments by bucket.
    pub fn add_ticks(&mut self, frame: &Frame, range: std::ops::Range<usize>, segments: &mut Vec<WindowBucketTicks>) {
        segments.clear();
        for (index, tick) in frame.ticks()[range].iter().enumerate() {
            if self.ticks == 0 {
                self.from_ns = tick.start_ns();
            }
            self.ticks += 1;
            self.elapsed_ns += tick.elapsed_ns;
            self.to_ns = tick.time_ns;
            while self.current_bucket() >= 2 * MAX_POINTS {
                self.doublings += 1;
            }
            let (bucket, doublings) = (self.current_bucket(), self.doublings);
            match segments.last_mut() {
                Some(last) if last.bucket == bucket && last.doublings == doublings => last.end = index + 1,
                _ => segments.push(WindowBucketTicks { start: index, end: index + 1, bucket, doublings }),
            }
            self.timed += u64::from(tick.elapsed_ns > 0);
        }
        debug_assert!(segments.is_sorted_by(|one, next| one.end == next.start), "each tick falls into one bucket");
        debug_assert!(segments.iter().all(|segment| segment.bucket < 2 * MAX_POINTS), "doublings keep the buckets few");
    }

    fn current_bucket(&self) -> usize {
        // `add_ticks` raises the doublings so that this stays below 2 * MAX_POINTS
        (self.timed >> self.doublings) as usize
    }

    /// Seconds of running time covered.
    pub fn seconds(&self) -> f64 {
        self.elapsed_ns as f64 / 1e9
    }
}

/// A quantity's means by bucket.
#[derive(Clone, Debug, Default)]
pub(crate) struct BucketTrack {
    /// For each complete bucket, the sum of values times weights, and the sum of weights.
    done: Vec<(f64, f64)>,
    /// Sums of the bucket that receives ticks at present.
    current: LaneSums,
    /// Number of that bucket.
    bucket: usize,
    doublings: u32,
    /// Buckets by the clock, for trends; `None` for a series beyond the limit.
    pub buckets: Option<ClockBuckets>,
}

impl BucketTrack {
    /// Creates a track; with `has_trends`, it also keeps buckets for trends.
    pub fn new(has_trends: bool) -> BucketTrack {
        BucketTrack { buckets: has_trends.then(ClockBuckets::default), ..BucketTrack::default() }
    }

    /// Adds a chunk's columns; `number` is that of the chunk's first tick.
    pub fn add_chunk(&mut self, number: usize, segments: &[WindowBucketTicks], values: &[f64], weights: &[f64]) {
        for segment in segments {
            if segment.bucket != self.bucket || segment.doublings != self.doublings {
                self.advance_bucket(segment);
            }
            let range = segment.start..segment.end;
            self.current.add_ticks(number + segment.start, &values[range.clone()], &weights[range]);
        }
    }

    fn advance_bucket(&mut self, segment: &WindowBucketTicks) {
        debug_assert!(segment.doublings >= self.doublings, "buckets only grow");
        self.close_bucket();
        while self.doublings < segment.doublings {
            let pair = |pair: &[(f64, f64)]| pair.iter().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
            self.done = self.done.chunks(2).map(pair).collect();
            self.doublings += 1;
        }
        self.bucket = segment.bucket;
    }

    /// Moves the current sums to the complete buckets.
    fn close_bucket(&mut self) {
        add_to_bucket(&mut self.done, self.bucket, std::mem::take(&mut self.current));
    }

    /// All buckets, the current one included.
    fn buckets_so_far(&self) -> Vec<(f64, f64)> {
        let mut done = self.done.clone();
        add_to_bucket(&mut done, self.bucket, self.current);
        done
    }

    /// Mean over the window; `None` where there was nothing to measure.
    pub fn mean(&self) -> Option<f64> {
        let buckets = self.buckets_so_far();
        let (product, weight) = buckets.iter().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        (weight > 0.0).then(|| product / weight)
    }

    /// Means of at most [`MAX_POINTS`] parts of the window; `None` for a gap.
    pub fn part_means(&self) -> Vec<Option<f64>> {
        let buckets = self.buckets_so_far();
        let step = buckets.len().div_ceil(MAX_POINTS).max(1);
        let mean = |part: &[(f64, f64)]| {
            let (product, weight) = part.iter().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
            (weight > 0.0).then(|| product / weight)
        };
        buckets.chunks(step).map(mean).collect()
    }
}

fn add_to_bucket(done: &mut Vec<(f64, f64)>, bucket: usize, sums: LaneSums) {
    if done.len() <= bucket {
        done.resize(bucket + 1, (0.0, 0.0));
    }
    let (product, weight) = &mut done[bucket];
    *product += sums.weighted_sum();
    *weight += sums.total_weight();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use diskwright_base::Schema;

    use super::*;
    use diskwright_base::Tick;

    const SECOND: i64 = 1_000_000_000;

    fn frame(ticks: usize) -> Frame {
        let mut frame = Frame::new(Arc::new(Schema::default()), ticks);
        for i in 0..ticks {
            frame.push(Tick { time_ns: (i as i64 + 1) * SECOND, elapsed_ns: SECOND as u64 }, &[]);
        }
        frame
    }

    fn run(ticks: usize, cut: usize) -> (WindowState, BucketTrack) {
        let frame = frame(ticks);
        let (mut window, mut track, mut segments) = (WindowState::default(), BucketTrack::default(), Vec::new());
        for start in (0..ticks).step_by(cut) {
            let end = (start + cut).min(ticks);
            window.add_ticks(&frame, start..end, &mut segments);
            let values: Vec<f64> = (start..end).map(|i| 1.0 / (i as f64 + 1.5)).collect();
            track.add_chunk(start, &segments, &values, &vec![1.0; end - start]);
        }
        (window, track)
    }

    #[test]
    fn a_short_window_gives_each_tick_its_point() {
        let (window, track) = run(7, 3);
        assert_eq!(window.seconds(), 7.0);
        let points = track.part_means();
        assert_eq!(points.len(), 7);
        assert_eq!(points[3], Some(1.0 / 4.5));
    }

    #[test]
    fn a_long_window_widens_its_buckets_and_cutting_changes_nothing() {
        let (_, uncut) = run(100_000, 100_000);
        assert!(uncut.done.len() <= 2 * MAX_POINTS);
        assert!((MAX_POINTS / 2..=MAX_POINTS).contains(&uncut.part_means().len()));
        for cut in [1, 3, 256, 9_999] {
            let (_, track) = run(100_000, cut);
            assert_eq!(track.part_means(), uncut.part_means(), "cut {cut}");
            assert_eq!(track.mean(), uncut.mean());
        }
    }
}
