//! Progress of a run: counters that workers keep up to date for other threads, and the timeline of the
//! run that is sampled from them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one worker since the run began, ramp included. Only the worker adds to them, so it needs
/// no atomic read-modify-write. The alignment gives each worker its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct LiveCounters {
    requests: AtomicU64,
    bytes: AtomicU64,
    latency_ns: AtomicU64,
    /// Longest latency since the last sample.
    longest_ns: AtomicU64,
    in_flight: AtomicU64,
    /// Time since which the worker waits for its next completion, on its engine's clock.
    waiting_since_ns: AtomicU64,
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
    pub fn add_completion(&mut self, bytes: u32, latency_ns: u64) {
        self.requests += 1;
        self.bytes += u64::from(bytes);
        self.latency_ns = self.latency_ns.wrapping_add(latency_ns);
        self.longest_ns = self.longest_ns.max(latency_ns);
    }

    pub(crate) fn merge_totals(&mut self, other: &LiveTotals) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.latency_ns = self.latency_ns.wrapping_add(other.latency_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    /// Returns the mean latency, seconds; `None` if nothing was completed.
    pub fn mean_latency_s(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.latency_ns as f64 / self.requests as f64 * 1e-9)
    }
}

impl LiveCounters {
    /// Adds requests that the worker just completed.
    #[inline]
    pub fn add_totals(&self, completed: LiveTotals) {
        let add = |counter: &AtomicU64, value: u64| {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
        };
        add(&self.requests, completed.requests);
        add(&self.bytes, completed.bytes);
        add(&self.latency_ns, completed.latency_ns);
        if completed.longest_ns > self.longest_ns.load(Ordering::Relaxed) {
            self.longest_ns.store(completed.longest_ns, Ordering::Relaxed);
        }
    }

    /// Notes that the worker waits for `in_flight` completions since `since_ns` on its engine's clock.
    #[inline]
    pub fn set_in_flight(&self, in_flight: u32, since_ns: u64) {
        self.waiting_since_ns.store(since_ns, Ordering::Relaxed);
        self.in_flight.store(in_flight.into(), Ordering::Relaxed);
    }

    /// Returns the number of requests in flight, and the time since which the worker waits for the
    /// next completion, nanoseconds on its engine's clock.
    pub fn in_flight_since(&self) -> (u64, u64) {
        (self.in_flight.load(Ordering::Relaxed), self.waiting_since_ns.load(Ordering::Relaxed))
    }

    /// Returns the totals since the run began, but the longest latency since the last call.
    fn take_totals(&self) -> LiveTotals {
        LiveTotals {
            requests: self.requests.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            latency_ns: self.latency_ns.load(Ordering::Relaxed),
            // a value that the worker stores right after this swap is in the next sample
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
    pub totals: LiveTotals,
}

/// Largest number of intervals kept of a run; longer runs have longer intervals.
pub const MAX_INTERVALS: usize = 600;

/// A sample that follows the previous one after less time is merged with the next, seconds.
const MIN_INTERVAL_S: f64 = 0.05;

/// Timeline of a run, made by sampling its workers at intervals.
#[derive(Debug, Default)]
pub struct LiveTimeline {
    /// Time of the last sample, seconds since the run began, and the totals of all workers then.
    last_sample: (f64, LiveTotals),
    intervals: Vec<LiveInterval>,
    /// The interval into which samples are being merged.
    current: LiveInterval,
    /// Number of samples that make an interval.
    samples_per_interval: u32,
    samples_in_current: u32,
}

impl LiveTimeline {
    /// Samples the workers, `now_s` seconds after the run began, and returns the work done since the
    /// last sample. An interval that began in the ramp, or at `end_s` or later, is not kept.
    pub fn sample_workers(
        &mut self,
        now_s: f64,
        (ramp_s, end_s): (f64, f64),
        workers: &[LiveCounters],
    ) -> LiveInterval {
        let mut current = LiveTotals::default();
        workers.iter().for_each(|worker| current.merge_totals(&worker.take_totals()));
        let (previous_s, previous) = self.last_sample;
        let totals = LiveTotals {
            requests: current.requests.saturating_sub(previous.requests),
            bytes: current.bytes.saturating_sub(previous.bytes),
            latency_ns: current.latency_ns.wrapping_sub(previous.latency_ns),
            longest_ns: current.longest_ns,
        };
        self.last_sample = (now_s, current);
        let interval = LiveInterval { seconds: now_s - previous_s, totals };
        if previous_s >= ramp_s && previous_s < end_s && interval.seconds > 0.0 {
            self.add_interval(&interval);
        }
        interval
    }

    /// Adds an interval of the measured time.
    pub(crate) fn add_interval(&mut self, interval: &LiveInterval) {
        self.current.seconds += interval.seconds;
        self.current.totals.merge_totals(&interval.totals);
        // a short time, such as that between the ramp's end and the next sample, makes no interval of its own
        self.samples_in_current += u32::from(interval.seconds >= MIN_INTERVAL_S);
        if self.samples_in_current >= self.samples_per_interval.max(1) {
            self.intervals.push(std::mem::take(&mut self.current));
            self.samples_in_current = 0;
        }
        if self.intervals.len() >= 2 * MAX_INTERVALS {
            self.intervals = self.intervals.chunks(2).map(merge_intervals).collect();
            self.samples_per_interval = self.samples_per_interval.max(1) * 2;
        }
    }

    /// Returns the intervals of the measured time, at most [`MAX_INTERVALS`].
    pub fn into_intervals(mut self) -> Vec<LiveInterval> {
        if self.current.seconds > 0.0 {
            self.intervals.push(self.current);
        }
        let group_size = self.intervals.len().div_ceil(MAX_INTERVALS).max(1);
        self.intervals.chunks(group_size).map(merge_intervals).collect()
    }
}

fn merge_intervals(intervals: &[LiveInterval]) -> LiveInterval {
    let mut merged = LiveInterval::default();
    for interval in intervals {
        merged.seconds += interval.seconds;
        merged.totals.merge_totals(&interval.totals);
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_hold_what_was_done_between_samples() {
        let workers = [LiveCounters::default(), LiveCounters::default()];
        let mut timeline = LiveTimeline::default();
        let work = |worker: &LiveCounters, latency_ns| {
            let mut totals = LiveTotals::default();
            (0..10).for_each(|_| totals.add_completion(4096, latency_ns));
            worker.add_totals(totals);
        };
        work(&workers[0], 1000);
        let measured = (1.0, 2.0);
        assert_eq!(timeline.sample_workers(1.0, measured, &workers).totals.requests, 10);
        work(&workers[0], 1000);
        work(&workers[1], 3000);
        let interval = timeline.sample_workers(1.5, measured, &workers);
        assert_eq!((interval.seconds, interval.totals.requests, interval.totals.bytes), (0.5, 20, 81_920));
        assert_eq!((interval.totals.latency_ns, interval.totals.longest_ns), (40_000, 3000));
        assert!((interval.totals.mean_latency_s().unwrap() - 2e-6).abs() < 1e-15);
        // the longest latency is reset, the ramp is not kept
        assert_eq!(timeline.sample_workers(2.0, measured, &workers).totals.longest_ns, 0);
        // what comes after the end is not kept either
        work(&workers[1], 3000);
        assert_eq!(timeline.sample_workers(2.5, measured, &workers).totals.requests, 10);
        assert_eq!(timeline.into_intervals().iter().map(|s| s.totals.requests).collect::<Vec<_>>(), [20, 0]);
    }

    #[test]
    fn a_long_run_keeps_a_bounded_number_of_intervals() {
        for samples in [1, 599, 600, 601, 1199, 1200, 18_000, 20_001] {
            let (worker, mut timeline) = ([LiveCounters::default()], LiveTimeline::default());
            for index in 1..=samples {
                worker[0].add_totals(LiveTotals { requests: 1, ..LiveTotals::default() });
                timeline.sample_workers(index as f64, (0.0, f64::MAX), &worker);
            }
            let intervals = timeline.into_intervals();
            assert!(intervals.len() <= MAX_INTERVALS, "{samples}: {}", intervals.len());
            assert_eq!(intervals.iter().map(|s| s.totals.requests).sum::<u64>(), samples as u64, "{samples}");
            assert!((intervals.iter().map(|s| s.seconds).sum::<f64>() - samples as f64).abs() < 1e-6);
        }
    }
}
