//! Pace of a worker: it does small steps, and rests while it is ahead of its schedule.
//!
//! A worker makes up for delays, so that the mean rate is held, not the momentary rate. A worker that is never ahead
//! never rests: that is 100 %.

use std::time::Duration;

/// Longest rest, so that a worker notices soon that it should stop.
const MAX_REST: Duration = Duration::from_millis(20);

/// Schedule of a worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkPace {
    /// Target rate, units per second; infinite for the maximum.
    pub target_per_s: f64,
    /// True if a step counts when it starts, not when it ends. This is necessary below 100 %: otherwise all workers
    /// would start a step as soon as one is due, and many slow workers would be far ahead before the first step ended.
    /// At 100 % all workers work at once.
    pub counts_started_steps: bool,
}

impl WorkPace {
    /// No limit: as fast as possible.
    pub const UNLIMITED: WorkPace = WorkPace { target_per_s: f64::INFINITY, counts_started_steps: false };

    /// Creates the pace for a rate that is this share of the maximum.
    #[must_use]
    pub fn at_share(per_s: f64, share: f64) -> WorkPace {
        WorkPace { target_per_s: per_s, counts_started_steps: share < 1.0 }
    }

    /// Returns the rest before the next step, if any, given the work done and the elapsed time.
    #[must_use]
    pub fn rest_before_step(self, done: f64, elapsed: Duration) -> Option<Duration> {
        let ahead = done - self.target_per_s * elapsed.as_secs_f64();
        if ahead.is_nan() || ahead <= 0.0 {
            return None;
        }
        Some(Duration::from_secs_f64((ahead / self.target_per_s).min(MAX_REST.as_secs_f64())))
    }
}

/// Returns the deviation of a reached share from the requested one, relative to the requested one.
#[must_use]
pub fn relative_error(requested: f64, reached: f64) -> f64 {
    (reached - requested).abs() / requested
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates steps of a fixed length, and returns the mean rate.
    fn mean_rate(per_s: f64, step_units: f64, step_s: f64, lasts: f64) -> f64 {
        let (mut done, mut time) = (0.0, 0.0);
        while time < lasts {
            match WorkPace::at_share(per_s, 0.5).rest_before_step(done, Duration::from_secs_f64(time)) {
                Some(rest) => time += rest.as_secs_f64().max(1e-5),
                None => (done, time) = (done + step_units, time + step_s),
            }
        }
        done / time
    }

    #[test]
    fn holds_a_share_and_catches_up_delays() {
        // a host that does 1,000 units per second, in steps of 1 ms
        for share in [0.1, 0.5, 0.95] {
            assert!(relative_error(share * 1e3, mean_rate(share * 1e3, 1.0, 1e-3, 10.0)) < 0.01, "{share}");
        }
        // steps of 90 ms hold a mean of 50 % too
        assert!(relative_error(500.0, mean_rate(500.0, 90.0, 0.09, 20.0)) < 0.01);
        assert!((mean_rate(f64::INFINITY, 1.0, 1e-3, 1.0) - 1e3).abs() < 2.0);
        // a target above the maximum gives the maximum
        assert!((mean_rate(5e3, 1.0, 1e-3, 1.0) - 1e3).abs() < 2.0);
    }

    #[test]
    fn rests_are_short() {
        let rest = WorkPace::at_share(1.0, 0.5).rest_before_step(100.0, Duration::ZERO);
        assert_eq!(rest, Some(MAX_REST));
        assert_eq!(WorkPace::at_share(10.0, 0.5).rest_before_step(5.0, Duration::from_secs(1)), None);
    }
}
