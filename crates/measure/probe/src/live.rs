//! Progress of a run: counters that workers keep for others to read, and the timeline of the run
//! made of them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one worker so far, ramp included. Only the worker writes, so it needs no atomic
/// read-modify-write; each worker has its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Live {
    requests: AtomicU64,
    bytes: AtomicU64,
    latency_ns: AtomicU64,
    longest_ns: AtomicU64,
    in_flight: AtomicU64,
    since_ns: AtomicU64,
}

/// Totals of completed requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveTotals {
    /// Requests.
    pub requests: u64,
    /// Bytes that they transferred.
    pub bytes: u64,
    /// Sum of their latencies, nanoseconds.
    pub latency_ns: u64,
    /// The longest of them, nanoseconds.
    pub longest_ns: u64,
}

impl LiveTotals {
    /// Adds one completed request.
    #[inline]
    pub fn answer(&mut self, bytes: u32, latency_ns: u64) {
        self.requests += 1;
        self.bytes += u64::from(bytes);
        self.latency_ns = self.latency_ns.wrapping_add(latency_ns);
        self.longest_ns = self.longest_ns.max(latency_ns);
    }

    pub(crate) fn join(&mut self, other: &LiveTotals) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.latency_ns = self.latency_ns.wrapping_add(other.latency_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    /// Returns the mean latency, seconds; `None` if nothing was completed.
    pub fn mean_s(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.latency_ns as f64 / self.requests as f64 * 1e-9)
    }
}

impl Live {
    /// Adds what the worker just counted.
    #[inline]
    pub fn add(&self, seen: LiveTotals) {
        let more = |to: &AtomicU64, by: u64| to.store(to.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
        more(&self.requests, seen.requests);
        more(&self.bytes, seen.bytes);
        more(&self.latency_ns, seen.latency_ns);
        if seen.longest_ns > self.longest_ns.load(Ordering::Relaxed) {
            self.longest_ns.store(seen.longest_ns, Ordering::Relaxed);
        }
    }

    /// Notes that the worker now waits for `in_flight` completions, since `since_ns` of its
    /// engine's clock.
    #[inline]
    pub fn waits(&self, in_flight: u32, since_ns: u64) {
        self.since_ns.store(since_ns, Ordering::Relaxed);
        self.in_flight.store(in_flight.into(), Ordering::Relaxed);
    }

    /// Returns the number of requests in flight, and the time since which the worker waits for the
    /// next completion.
    pub fn waiting(&self) -> (u64, u64) {
        (self.in_flight.load(Ordering::Relaxed), self.since_ns.load(Ordering::Relaxed))
    }

    /// Returns the totals so far; the longest latency is that since the last call.
    fn look(&self) -> LiveTotals {
        LiveTotals {
            requests: self.requests.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            latency_ns: self.latency_ns.load(Ordering::Relaxed),
            // a value that a worker stores at this very moment shows in the next sample
            longest_ns: self.longest_ns.swap(0, Ordering::Relaxed),
        }
    }
}

/// Work done in one interval of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LiveInterval {
    /// Length, seconds.
    pub seconds: f64,
    /// Requests completed in it.
    pub seen: LiveTotals,
}

/// Largest number of intervals kept of a run; longer runs have longer intervals.
pub const MOST_STRETCHES: usize = 600;

/// A sample after less than this is merged with the next, seconds.
const LEAST_S: f64 = 0.05;

/// Follows a run by sampling its workers now and then.
#[derive(Debug, Default)]
pub struct LiveTimeline {
    /// Time of the last sample, seconds since the run began, and the totals of all workers then.
    last: (f64, LiveTotals),
    stretches: Vec<LiveInterval>,
    /// The interval into which samples are being merged.
    open: LiveInterval,
    /// Number of samples in an interval.
    length: u32,
    looks: u32,
}

impl LiveTimeline {
    /// Samples the workers, `now_s` seconds after the run began, and returns what was done since
    /// the last sample. Samples whose interval began before `ramp_s` or at `end_s` or later are not
    /// kept.
    pub fn look(&mut self, now_s: f64, (ramp_s, end_s): (f64, f64), workers: &[Live]) -> LiveInterval {
        let mut all = LiveTotals::default();
        workers.iter().for_each(|worker| all.join(&worker.look()));
        let (then_s, before) = self.last;
        let totals = LiveTotals {
            requests: all.requests.saturating_sub(before.requests),
            bytes: all.bytes.saturating_sub(before.bytes),
            latency_ns: all.latency_ns.wrapping_sub(before.latency_ns),
            longest_ns: all.longest_ns,
        };
        self.last = (now_s, all);
        let interval = LiveInterval { seconds: now_s - then_s, seen: totals };
        if then_s >= ramp_s && then_s < end_s && interval.seconds > 0.0 {
            self.keep(&interval);
        }
        interval
    }

    /// Adds an interval of the measured time.
    pub(crate) fn keep(&mut self, interval: &LiveInterval) {
        self.open.seconds += interval.seconds;
        self.open.seen.join(&interval.seen);
        // the short time between the ramp's end and the next sample is no interval by itself
        self.looks += u32::from(interval.seconds >= LEAST_S);
        if self.looks >= self.length.max(1) {
            self.stretches.push(std::mem::take(&mut self.open));
            self.looks = 0;
        }
        if self.stretches.len() >= 2 * MOST_STRETCHES {
            self.stretches = self.stretches.chunks(2).map(joined).collect();
            self.length = self.length.max(1) * 2;
        }
    }

    /// Returns the intervals of the measured time, at most [`MAX_INTERVALS`].
    pub fn finish(mut self) -> Vec<LiveInterval> {
        if self.open.seconds > 0.0 {
            self.stretches.push(self.open);
        }
        let per = self.stretches.len().div_ceil(MOST_STRETCHES).max(1);
        self.stretches.chunks(per).map(joined).collect()
    }
}

fn joined(intervals: &[LiveInterval]) -> LiveInterval {
    let mut merged = LiveInterval::default();
    for interval in intervals {
        merged.seconds += interval.seconds;
        merged.seen.join(&interval.seen);
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_is_what_was_done_between_looks() {
        let workers = [Live::default(), Live::default()];
        let mut timeline = LiveTimeline::default();
        let work = |worker: &Live, latency_ns| {
            let mut totals = LiveTotals::default();
            (0..10).for_each(|_| totals.answer(4096, latency_ns));
            worker.add(totals);
        };
        work(&workers[0], 1000);
        let measured = (1.0, 2.0);
        assert_eq!(timeline.look(1.0, measured, &workers).seen.requests, 10);
        work(&workers[0], 1000);
        work(&workers[1], 3000);
        let interval = timeline.look(1.5, measured, &workers);
        assert_eq!((interval.seconds, interval.seen.requests, interval.seen.bytes), (0.5, 20, 81_920));
        assert_eq!((interval.seen.latency_ns, interval.seen.longest_ns), (40_000, 3000));
        assert!((interval.seen.mean_s().unwrap() - 2e-6).abs() < 1e-15);
        // the longest latency is reset, the ramp is not kept
        assert_eq!(timeline.look(2.0, measured, &workers).seen.longest_ns, 0);
        // what comes after the end is not kept either
        work(&workers[1], 3000);
        assert_eq!(timeline.look(2.5, measured, &workers).seen.requests, 10);
        assert_eq!(timeline.finish().iter().map(|s| s.seen.requests).collect::<Vec<_>>(), [20, 0]);
    }

    #[test]
    fn a_long_run_has_no_more_stretches_than_a_short_one() {
        for samples in [1, 599, 600, 601, 1199, 1200, 18_000, 20_001] {
            let (worker, mut timeline) = ([Live::default()], LiveTimeline::default());
            for index in 1..=samples {
                worker[0].add(LiveTotals { requests: 1, ..LiveTotals::default() });
                timeline.look(index as f64, (0.0, f64::MAX), &worker);
            }
            let intervals = timeline.finish();
            assert!(intervals.len() <= MOST_STRETCHES, "{samples}: {}", intervals.len());
            assert_eq!(intervals.iter().map(|s| s.seen.requests).sum::<u64>(), samples as u64, "{samples}");
            assert!((intervals.iter().map(|s| s.seconds).sum::<f64>() - samples as f64).abs() < 1e-6);
        }
    }
}
