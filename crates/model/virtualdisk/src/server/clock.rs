//! Virtual time relative to the wall clock.

use std::time::{Duration, Instant};

use diskwright_simulator::Ns;

/// Clock of virtual time that started with the server and runs `speed` times as fast as the wall
/// clock.
#[derive(Clone, Copy, Debug)]
pub struct VirtualClock {
    start: Instant,
    speed: f64,
}

impl VirtualClock {
    /// Creates a clock that is at 0 now.
    pub fn new(speed: f64) -> VirtualClock {
        VirtualClock { start: Instant::now(), speed }
    }

    /// Returns how many times as fast as the wall clock it runs.
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// Returns the current virtual time, ns.
    #[inline]
    pub fn now(&self) -> Ns {
        self.to_virtual_time(self.start.elapsed())
    }

    /// Returns the wall-clock time until a moment of virtual time; zero if it has passed.
    #[inline]
    pub fn wall_time_until(&self, moment: Ns) -> Duration {
        self.to_wall_time(moment).saturating_sub(self.start.elapsed())
    }

    /// Converts a duration of virtual time to wall-clock time.
    pub fn to_wall_time(self, time: Ns) -> Duration {
        if self.speed == 1.0 {
            return Duration::from_nanos(time);
        }
        Duration::from_nanos((time as f64 / self.speed) as u64)
    }

    /// Converts a wall-clock duration to virtual time.
    pub fn to_virtual_time(self, time: Duration) -> Ns {
        let wall = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if self.speed == 1.0 { wall } else { (wall as f64 * self.speed) as Ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_ten_times_as_fast() {
        let (clock, second) = (VirtualClock::new(10.0), Duration::from_secs(1));
        assert_eq!((clock.to_virtual_time(second), clock.to_wall_time(10_000_000_000)), (10_000_000_000, second));
        assert_eq!(clock.wall_time_until(0), Duration::ZERO);
        let (before, until, after) = (clock.now(), clock.wall_time_until(1 << 60), clock.now());
        assert!(
            until <= clock.to_wall_time((1 << 60) - before) && until >= clock.to_wall_time((1 << 60) - after - 100)
        );
    }
}
