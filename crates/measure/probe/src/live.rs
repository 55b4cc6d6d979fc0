//! What goes on while a run goes on: counters that lanes keep for others to
//! read, and the run's course made of them.

use std::sync::atomic::{AtomicU64, Ordering};

/// What one lane has done so far, ramp included. Only the lane writes, so it
/// needs no locked instruction; each has cache lines of its own.
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

/// Requests that were answered, counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveTotals {
    /// Requests.
    pub requests: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Sum of their latencies, nanoseconds.
    pub latency_ns: u64,
    /// The longest of them, nanoseconds.
    pub longest_ns: u64,
}

impl LiveTotals {
    /// One more.
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

    /// Mean latency, seconds; `None` where nothing was answered.
    pub fn mean_s(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.latency_ns as f64 / self.requests as f64 * 1e-9)
    }
}

impl Live {
    /// Adds what the lane just counted.
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

    /// The lane waits for so many answers now, since this moment of its engine's clock.
    #[inline]
    pub fn waits(&self, in_flight: u32, since_ns: u64) {
        self.since_ns.store(since_ns, Ordering::Relaxed);
        self.in_flight.store(in_flight.into(), Ordering::Relaxed);
    }

    /// Requests without an answer, and since when it waits for the next.
    pub fn waiting(&self) -> (u64, u64) {
        (self.in_flight.load(Ordering::Relaxed), self.since_ns.load(Ordering::Relaxed))
    }

    /// All so far; the longest latency is that since the last look.
    fn look(&self) -> LiveTotals {
        LiveTotals {
            requests: self.requests.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            latency_ns: self.latency_ns.load(Ordering::Relaxed),
            // a lane that stores at this very moment shows in the next look
            longest_ns: self.longest_ns.swap(0, Ordering::Relaxed),
        }
    }
}

/// What was done in one stretch of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LiveInterval {
    /// Its length, seconds.
    pub seconds: f64,
    /// What was answered in it.
    pub seen: LiveTotals,
}

/// Stretches that are kept of a run at most; longer runs have longer ones.
pub const MOST_STRETCHES: usize = 600;

/// A look after less than this goes with the next, seconds.
const LEAST_S: f64 = 0.05;

/// Follows a run by looking at its lanes now and then.
#[derive(Debug, Default)]
pub struct LiveTimeline {
    /// When it was last looked, seconds since the run began, and what all lanes had done.
    last: (f64, LiveTotals),
    stretches: Vec<LiveInterval>,
    /// The stretch that looks are gathered into.
    open: LiveInterval,
    /// Looks that make a stretch.
    length: u32,
    looks: u32,
}

impl LiveTimeline {
    /// Looks at the lanes, `now_s` seconds after the run began, and gives what
    /// was done since the last look. Looks that began before `ramp_s` or after
    /// `whole_s` are not kept.
    pub fn look(&mut self, now_s: f64, (ramp_s, whole_s): (f64, f64), lanes: &[Live]) -> LiveInterval {
        let mut all = LiveTotals::default();
        lanes.iter().for_each(|lane| all.join(&lane.look()));
        let (then_s, before) = self.last;
        let seen = LiveTotals {
            requests: all.requests.saturating_sub(before.requests),
            bytes: all.bytes.saturating_sub(before.bytes),
            latency_ns: all.latency_ns.wrapping_sub(before.latency_ns),
            longest_ns: all.longest_ns,
        };
        self.last = (now_s, all);
        let stretch = LiveInterval { seconds: now_s - then_s, seen };
        if then_s >= ramp_s && then_s < whole_s && stretch.seconds > 0.0 {
            self.keep(&stretch);
        }
        stretch
    }

    /// Keeps a stretch of the measured time.
    pub(crate) fn keep(&mut self, stretch: &LiveInterval) {
        self.open.seconds += stretch.seconds;
        self.open.seen.join(&stretch.seen);
        // the moment between the ramp's end and the next look is no stretch of its own
        self.looks += u32::from(stretch.seconds >= LEAST_S);
        if self.looks >= self.length.max(1) {
            self.stretches.push(std::mem::take(&mut self.open));
            self.looks = 0;
        }
        if self.stretches.len() >= 2 * MOST_STRETCHES {
            self.stretches = self.stretches.chunks(2).map(joined).collect();
            self.length = self.length.max(1) * 2;
        }
    }

    /// The stretches of the measured time, at most [`MOST_STRETCHES`].
    pub fn finish(mut self) -> Vec<LiveInterval> {
        if self.open.seconds > 0.0 {
            self.stretches.push(self.open);
        }
        let per = self.stretches.len().div_ceil(MOST_STRETCHES).max(1);
        self.stretches.chunks(per).map(joined).collect()
    }
}

fn joined(stretches: &[LiveInterval]) -> LiveInterval {
    let mut one = LiveInterval::default();
    for stretch in stretches {
        one.seconds += stretch.seconds;
        one.seen.join(&stretch.seen);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_is_what_was_done_between_looks() {
        let lanes = [Live::default(), Live::default()];
        let mut course = LiveTimeline::default();
        let work = |lane: &Live, latency_ns| {
            let mut seen = LiveTotals::default();
            (0..10).for_each(|_| seen.answer(4096, latency_ns));
            lane.add(seen);
        };
        work(&lanes[0], 1000);
        let measured = (1.0, 2.0);
        assert_eq!(course.look(1.0, measured, &lanes).seen.requests, 10);
        work(&lanes[0], 1000);
        work(&lanes[1], 3000);
        let stretch = course.look(1.5, measured, &lanes);
        assert_eq!((stretch.seconds, stretch.seen.requests, stretch.seen.bytes), (0.5, 20, 81_920));
        assert_eq!((stretch.seen.latency_ns, stretch.seen.longest_ns), (40_000, 3000));
        assert!((stretch.seen.mean_s().unwrap() - 2e-6).abs() < 1e-15);
        // the longest is forgotten, the ramp is not kept
        assert_eq!(course.look(2.0, measured, &lanes).seen.longest_ns, 0);
        // what comes after the end is not kept either
        work(&lanes[1], 3000);
        assert_eq!(course.look(2.5, measured, &lanes).seen.requests, 10);
        assert_eq!(course.finish().iter().map(|s| s.seen.requests).collect::<Vec<_>>(), [20, 0]);
    }

    #[test]
    fn a_long_run_has_no_more_stretches_than_a_short_one() {
        for looks in [1, 599, 600, 601, 1199, 1200, 18_000, 20_001] {
            let (lane, mut course) = ([Live::default()], LiveTimeline::default());
            for index in 1..=looks {
                lane[0].add(LiveTotals { requests: 1, ..LiveTotals::default() });
                course.look(index as f64, (0.0, f64::MAX), &lane);
            }
            let stretches = course.finish();
            assert!(stretches.len() <= MOST_STRETCHES, "{looks}: {}", stretches.len());
            assert_eq!(stretches.iter().map(|s| s.seen.requests).sum::<u64>(), looks as u64, "{looks}");
            assert!((stretches.iter().map(|s| s.seconds).sum::<f64>() - looks as f64).abs() < 1e-6);
        }
    }
}
