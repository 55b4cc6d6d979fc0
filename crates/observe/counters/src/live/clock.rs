//! Time: three clocks read together; their differences reveal sleep and clock steps.

use rustix::time::{ClockId, clock_gettime};

/// Reading of the three clocks, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// Wall clock, since 1970 UTC. People and NTP step it.
    pub wall_ns: i64,
    /// Running time: never steps, stands still while the machine sleeps.
    pub running_ns: u64,
    /// Time since boot, sleep included.
    pub since_boot_ns: u64,
}

/// A source of time. The second implementation is the fake of the tests.
pub trait Clock: Send {
    /// Reads the clocks.
    fn read_clocks(&self) -> ClockReading;
}

/// The kernel's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn read_clocks(&self) -> ClockReading {
        let ns = |id| {
            let time = clock_gettime(id);
            time.tv_sec * 1_000_000_000 + time.tv_nsec
        };
        ClockReading {
            // whole microseconds, as a log keeps times, so that live data and their replay have notes at the same ticks
            wall_ns: (ns(ClockId::Realtime) + 500).div_euclid(1000) * 1000,
            running_ns: ns(ClockId::Monotonic).max(0) as u64,
            since_boot_ns: ns(ClockId::Boottime).max(0) as u64,
        }
    }
}

/// Difference between two readings of the clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ClockDelta {
    /// Running time, nanoseconds; 0 at the first reading, else at least 1.
    pub elapsed_ns: u64,
    /// Time that the machine slept, seconds; 0 where it did not.
    pub slept_s: f64,
    /// Step of the wall clock, seconds; 0 where it was not stepped.
    pub stepped_s: f64,
}

/// Smallest difference that counts as a step, seconds.
const MIN_STEP_S: f64 = 1.0;
/// Tolerated drift of the wall clock: NTP slews it by at most 500 millionths, which is not a step.
const MAX_SLEW: f64 = 0.001;
/// Smallest difference that counts as sleep, seconds: the clocks are read one after the other.
const MIN_SLEEP_S: f64 = 0.5;

/// Compares a reading with the one before.
pub(crate) fn compare_readings(before: Option<ClockReading>, now: ClockReading) -> ClockDelta {
    let Some(before) = before else { return ClockDelta::default() };
    let seconds = |ns: i128| ns as f64 / 1e9;
    let running = i128::from(now.running_ns) - i128::from(before.running_ns);
    let boot = i128::from(now.since_boot_ns) - i128::from(before.since_boot_ns);
    let wall = i128::from(now.wall_ns) - i128::from(before.wall_ns);
    let slept = seconds(boot - running);
    // sleep moves the wall clock too, so a step is the part that the boot clock does not explain
    let stepped = seconds(wall - boot);
    ClockDelta {
        elapsed_ns: running.clamp(1, i128::from(u64::MAX)) as u64,
        slept_s: if slept >= MIN_SLEEP_S { slept } else { 0.0 },
        stepped_s: if stepped.abs() >= MIN_STEP_S + MAX_SLEW * seconds(boot) { stepped } else { 0.0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn reading_at(wall_s: i64, running_s: u64, boot_s: u64) -> ClockReading {
        ClockReading { wall_ns: wall_s * S as i64, running_ns: running_s * S, since_boot_ns: boot_s * S }
    }

    #[test]
    fn a_late_tick_is_only_late() {
        let passed = compare_readings(Some(reading_at(100, 10, 10)), reading_at(107, 17, 17));
        assert_eq!(passed, ClockDelta { elapsed_ns: 7 * S, slept_s: 0.0, stepped_s: 0.0 });
    }

    #[test]
    fn sleep_is_neither_a_step_nor_elapsed_time() {
        let passed = compare_readings(Some(reading_at(100, 10, 10)), reading_at(3701, 11, 3611));
        assert_eq!(passed, ClockDelta { elapsed_ns: S, slept_s: 3600.0, stepped_s: 0.0 });
    }

    #[test]
    fn a_step_back_is_seen_and_elapsed_stays_right() {
        let passed = compare_readings(Some(reading_at(100, 10, 10)), reading_at(71, 11, 11));
        assert_eq!(passed, ClockDelta { elapsed_ns: S, slept_s: 0.0, stepped_s: -30.0 });
    }

    #[test]
    fn slewing_over_a_long_tick_is_no_step() {
        let mut now = reading_at(3700, 3610, 3610);
        now.wall_ns += 1_700_000_000;
        assert_eq!(compare_readings(Some(reading_at(100, 10, 10)), now).stepped_s, 0.0);
    }

    #[test]
    fn the_first_reading_covers_nothing_and_a_repeated_one_something() {
        assert_eq!(compare_readings(None, reading_at(1, 1, 1)).elapsed_ns, 0);
        assert_eq!(compare_readings(Some(reading_at(1, 1, 1)), reading_at(1, 1, 1)).elapsed_ns, 1);
    }

    #[test]
    fn the_system_clocks_run() {
        let (a, b) = (SystemClock.read_clocks(), SystemClock.read_clocks());
        assert!(b.running_ns >= a.running_ns);
        assert!(a.since_boot_ns >= a.running_ns / 2 && a.wall_ns > 0);
    }
}
