//! Changes to and from summer time in logs whose local times go by one zone all along. An hour
//! that fits is taken for such a change: else one sample would seem to cover an hour and more,
//! or an hour of samples would seem to go backwards.

use diskwright_base::Note;

use crate::batch::FrameBatch;

const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3_600 * SECOND_NS;

/// Said where the clocks changed.
pub(crate) const TOLD: &str = "the log's local time jumps by an hour where a sample was due; taken for a change to or \
                               from summer time";

/// An hour's jump of the local clock, in the way that the change to and from
/// summer time makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DaylightChange {
    /// Clocks were put back: what follows is an hour later than it says.
    Back,
    /// Clocks were put forward.
    Forward,
}

impl DaylightChange {
    /// What is to be added to times from here on.
    pub fn shift_ns(self) -> i64 {
        match self {
            DaylightChange::Back => HOUR_NS,
            DaylightChange::Forward => -HOUR_NS,
        }
    }
}

/// True change of the clocks between two ticks `usual_ns` apart as a rule?
/// Back, where the step back by an hour lands where the next sample was due.
/// Forward, where it does so, too, and in the small hours of a Sunday: a
/// machine that slept an hour looks much the same. `local_ns` is the later one
/// as the log wrote it.
pub(crate) fn change(before_ns: i64, now_ns: i64, local_ns: i64, usual_ns: u64) -> Option<DaylightChange> {
    let usual = i64::try_from(usual_ns).ok().filter(|ns| (1..HOUR_NS / 2).contains(ns))?;
    let is_due = |now: i64| now.saturating_sub(before_ns).saturating_sub(usual).saturating_abs() <= usual / 2;
    if now_ns <= before_ns {
        return is_due(now_ns.saturating_add(HOUR_NS)).then_some(DaylightChange::Back);
    }
    let day = local_ns.div_euclid(24 * HOUR_NS);
    let hour = local_ns.rem_euclid(24 * HOUR_NS) / HOUR_NS;
    // the first of January 1970 was a Thursday
    let is_sunday = (day + 4).rem_euclid(7) == 0;
    (is_sunday && (1..=4).contains(&hour) && is_due(now_ns.saturating_sub(HOUR_NS))).then_some(DaylightChange::Forward)
}

/// Follows the local clock of a log from sample to sample.
#[derive(Default)]
pub(crate) struct DaylightClock {
    /// Hours that are added because the clocks changed.
    shift_ns: i64,
    /// The latest sample.
    last_ns: Option<i64>,
    /// The time between two samples; 0 while unknown.
    usual_ns: u64,
}

impl DaylightClock {
    /// The moment of the next sample: `time_ns` is UTC by the log's one zone, `local_ns` what its clock showed.
    pub fn place(&mut self, time_ns: i64, local_ns: i64, batch: &mut FrameBatch<'_>) -> i64 {
        let mut now = time_ns.saturating_add(self.shift_ns);
        if let Some(last) = self.last_ns {
            let since = now.saturating_sub(last);
            let is_odd = since <= 0 || since.unsigned_abs() > self.usual_ns.saturating_mul(4);
            if is_odd && let Some(change) = change(last, now, local_ns, self.usual_ns) {
                self.shift_ns += change.shift_ns();
                now = now.saturating_add(change.shift_ns());
                batch.note(Note::new(now, Note::CLOCK, TOLD));
            }
            let since = now.saturating_sub(last);
            if since > 0 && (self.usual_ns == 0 || since.unsigned_abs() < self.usual_ns.saturating_mul(4)) {
                self.usual_ns = since.unsigned_abs();
            }
        }
        self.last_ns = self.last_ns.max(Some(now));
        now
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::moment;

    use super::*;

    fn at(text: &str) -> i64 {
        moment::parse(text).expect("a moment")
    }

    #[test]
    fn an_hour_that_fits_is_a_change_of_the_clocks() {
        let told = |before: &str, now: &str| change(at(before), at(now), at(now), 15 * SECOND_NS as u64);
        assert_eq!(told("2022-10-30T02:59:50Z", "2022-10-30T02:00:05Z"), Some(DaylightChange::Back));
        assert_eq!(told("2022-03-27T01:59:50Z", "2022-03-27T03:00:05Z"), Some(DaylightChange::Forward));
        // a Tuesday, or at noon, or not in step: the machine stood still
        assert_eq!(told("2022-03-29T01:59:50Z", "2022-03-29T03:00:05Z"), None);
        assert_eq!(told("2022-03-27T11:59:50Z", "2022-03-27T13:00:05Z"), None);
        assert_eq!(told("2022-03-27T01:59:50Z", "2022-03-27T03:04:05Z"), None);
        assert_eq!(told("2022-10-30T02:59:50Z", "2022-10-30T02:20:05Z"), None);
        // the last moment that can be counted
        assert_eq!(change(i64::MAX, i64::MAX, i64::MAX, 15), None);
    }
}
