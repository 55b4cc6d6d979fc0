//! Virtual time beside the wall clock.

use std::time::{Duration, Instant};

use diskwright_simulator::Ns;

/// Virtual time that began with the server and runs `speed` times as fast as
/// the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct VirtualClock {
    start: Instant,
    speed: f64,
}

impl VirtualClock {
    /// A clock at moment 0, from now on.
    pub fn new(speed: f64) -> VirtualClock {
        VirtualClock { start: Instant::now(), speed }
    }

    /// How many times as fast as the wall clock it runs.
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// Virtual time now, ns.
    #[inline]
    pub fn now(&self) -> Ns {
        self.virtual_of(self.start.elapsed())
    }

    /// How long it is by the wall clock until a moment of virtual time; zero
    /// when it is past.
    #[inline]
    pub fn until(&self, moment: Ns) -> Duration {
        self.wall_of(moment).saturating_sub(self.start.elapsed())
    }

    /// By the wall clock, how long virtual time takes.
    pub fn wall_of(&self, time: Ns) -> Duration {
        if self.speed == 1.0 {
            return Duration::from_nanos(time);
        }
        Duration::from_nanos((time as f64 / self.speed) as u64)
    }

    /// How much virtual time goes by in a stretch of the wall clock.
    pub fn virtual_of(&self, time: Duration) -> Ns {
        let wall = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if self.speed == 1.0 { wall } else { (wall as f64 * self.speed) as Ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_times_as_fast() {
        let (clock, second) = (VirtualClock::new(10.0), Duration::from_secs(1));
        assert_eq!((clock.virtual_of(second), clock.wall_of(10_000_000_000)), (10_000_000_000, second));
        assert_eq!(clock.until(0), Duration::ZERO);
        let (before, until, after) = (clock.now(), clock.until(1 << 60), clock.now());
        assert!(until <= clock.wall_of((1 << 60) - before) && until >= clock.wall_of((1 << 60) - after - 100));
    }
}
