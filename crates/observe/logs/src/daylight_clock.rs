//! Changes to and from summer time in logs whose local times use one offset throughout. A jump of an hour that fits is
//! taken for such a change: otherwise one sample would seem to cover more than an hour, or an hour of samples would
//! seem to go backwards.

use diskwright_base::Note;

use crate::batch::FrameBatch;

const SECOND_NS: i64 = 1_000_000_000;
const MINUTE_NS: i64 = 60 * SECOND_NS;
const HOUR_NS: i64 = 60 * MINUTE_NS;

/// Text of the note where the clocks changed.
pub(crate) const CLOCK_CHANGE_NOTE: &str = "the log's local time jumps by an hour where a sample was due; taken for \
                                            a change to or from summer time";

/// A jump of the local clock by an hour, as a change to or from summer time makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DaylightChange {
    /// Clocks were put back: what follows is an hour later than it says.
    Back,
    /// Clocks were put forward.
    Forward,
}

impl DaylightChange {
    /// Returns what must be added to times from here on, nanoseconds.
    pub fn shift_ns(self) -> i64 {
        match self {
            DaylightChange::Back => HOUR_NS,
            DaylightChange::Forward => -HOUR_NS,
        }
    }
}

/// Detects a change of the clocks between two ticks that are usually `usual_ns` apart. Back: the later time plus an
/// hour is when the next sample was due. Forward: the later time minus an hour is; this counts only in the small hours
/// of a Sunday, because a machine that slept for an hour looks much the same. `local_ns` is the later time as the log
/// wrote it.
pub(crate) fn detect_clock_change(before_ns: i64, now_ns: i64, local_ns: i64, usual_ns: u64) -> Option<DaylightChange> {
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
#[derive(Clone, Copy, Default)]
pub(crate) struct DaylightClock {
    /// Sum of the shifts because the clocks changed, nanoseconds.
    shift_ns: i64,
    /// Local time less UTC according to the log, minutes.
    zone_minutes: Option<i64>,
    /// Time of the latest sample.
    last_ns: Option<i64>,
    /// Usual time between two samples; 0 while unknown.
    usual_interval_ns: u64,
    /// Time before the latest sample, if it was much longer than usual; else 0.
    long_interval_ns: u64,
    /// Set while times are not past the latest: the clock was set back, or another log begins. The sample that catches
    /// up does not follow the latest.
    has_lost_track: bool,
}

impl DaylightClock {
    /// Returns the time of the next sample, and notes a change of the clocks: `time_ns` is UTC by the log's one zone,
    /// `local_ns` what its clock showed.
    pub fn resolve_time(&mut self, time_ns: i64, local_ns: i64, batch: &mut FrameBatch<'_>) -> i64 {
        self.resolve_covering_time(time_ns, local_ns, None, batch)
    }

    /// As [`DaylightClock::resolve_time`], for a sample that states how much time it covers, nanoseconds.
    pub fn resolve_covering_time(
        &mut self,
        time_ns: i64,
        local_ns: i64,
        covered_ns: Option<u64>,
        batch: &mut FrameBatch<'_>,
    ) -> i64 {
        let (now, is_changed) = self.follow_covering_sample(time_ns, local_ns, covered_ns);
        if is_changed {
            batch.push_note(Note::new(now, Note::CLOCK, CLOCK_CHANGE_NOTE));
        }
        now
    }

    /// Returns the time of the next sample, and whether the clocks changed since the one before, which the caller
    /// should note.
    pub fn follow_sample(&mut self, time_ns: i64, local_ns: i64) -> (i64, bool) {
        self.follow_covering_sample(time_ns, local_ns, None)
    }

    /// As [`DaylightClock::follow_sample`], for a sample that states how much time it covers, nanoseconds: if that is
    /// the time since the latest sample, the clocks did not change.
    pub fn follow_covering_sample(&mut self, time_ns: i64, local_ns: i64, covered_ns: Option<u64>) -> (i64, bool) {
        let zone = local_ns.saturating_sub(time_ns).saturating_add(MINUTE_NS / 2).div_euclid(MINUTE_NS);
        if self.zone_minutes.replace(zone).is_some_and(|before| before != zone) {
            // the log itself gives the new offset
            self.shift_ns = 0;
        }
        let mut now = time_ns.saturating_add(self.shift_ns);
        let mut is_changed = false;
        if let Some(last) = self.last_ns {
            let is_time_since_last = |covered: u64| {
                u64::try_from(now.saturating_sub(last)).is_ok_and(|since| since.abs_diff(covered) <= covered / 10)
            };
            if self.is_out_of_step(time_ns)
                && !self.has_lost_track
                && !covered_ns.is_some_and(is_time_since_last)
                && let Some(change) = detect_clock_change(last, now, local_ns, self.usual_interval_ns)
            {
                self.shift_ns += change.shift_ns();
                now = now.saturating_add(change.shift_ns());
                is_changed = true;
            }
            let since = u64::try_from(now.saturating_sub(last)).ok().filter(|since| *since > 0);
            since.into_iter().for_each(|since| self.learn_interval(since));
            // the same time again is another row of that sample
            self.has_lost_track = now < last || self.has_lost_track && now == last;
        }
        self.last_ns = self.last_ns.max(Some(now));
        (now, is_changed)
    }

    /// Learns the usual interval from the time between the latest two samples.
    fn learn_interval(&mut self, since: u64) {
        let is_short = self.usual_interval_ns == 0 || since < self.usual_interval_ns.saturating_mul(4);
        // a second interval of about the same length is no gap, but a recorder that became slower
        if is_short || since.abs_diff(self.long_interval_ns) <= since / 2 {
            (self.usual_interval_ns, self.long_interval_ns) = (since, 0);
        } else {
            self.long_interval_ns = since;
        }
    }

    /// Returns true if the next sample, at `time_ns` by the log's one zone, does not come after the latest, or comes
    /// much later than usual.
    pub fn is_out_of_step(&self, time_ns: i64) -> bool {
        let since = |last: i64| time_ns.saturating_add(self.shift_ns).saturating_sub(last);
        let is_late = |since: i64| since <= 0 || since.unsigned_abs() > self.usual_interval_ns.saturating_mul(4);
        self.usual_interval_ns > 0 && self.last_ns.is_some_and(|last| is_late(since(last)))
    }

    /// Returns the shift that is added to times, seconds.
    pub fn shift_s(&self) -> i64 {
        self.shift_ns / SECOND_NS
    }

    /// Forgets the latest sample, because the samples that come do not follow it: a table begins again.
    pub fn forget_last_sample(&mut self) {
        self.last_ns = None;
        self.has_lost_track = false;
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::timestamp;

    use super::*;

    fn parse_ns(text: &str) -> i64 {
        timestamp::parse_rfc3339(text).expect("a moment")
    }

    #[test]
    fn detects_a_change_of_the_clocks_in_an_hour_that_fits() {
        let detect = |before: &str, now: &str| {
            detect_clock_change(parse_ns(before), parse_ns(now), parse_ns(now), 15 * SECOND_NS as u64)
        };
        assert_eq!(detect("2022-10-30T02:59:50Z", "2022-10-30T02:00:05Z"), Some(DaylightChange::Back));
        assert_eq!(detect("2022-03-27T01:59:50Z", "2022-03-27T03:00:05Z"), Some(DaylightChange::Forward));
        // a Tuesday, or at noon, or not in step: the machine stood still
        assert_eq!(detect("2022-03-29T01:59:50Z", "2022-03-29T03:00:05Z"), None);
        assert_eq!(detect("2022-03-27T11:59:50Z", "2022-03-27T13:00:05Z"), None);
        assert_eq!(detect("2022-03-27T01:59:50Z", "2022-03-27T03:04:05Z"), None);
        assert_eq!(detect("2022-10-30T02:59:50Z", "2022-10-30T02:20:05Z"), None);
        // the last moment that can be counted
        assert_eq!(detect_clock_change(i64::MAX, i64::MAX, i64::MAX, 15), None);
    }

    /// True if a clock sees a change at a time of the last Sunday of October.
    fn shows(clock: &mut DaylightClock, time: &str) -> bool {
        let moment = parse_ns(&format!("2026-10-25T{time}Z"));
        clock.follow_sample(moment, moment).1
    }

    #[test]
    fn accepts_the_interval_of_a_recorder_that_became_slower() {
        let mut clock = DaylightClock::default();
        let mut shows_change = |time: &str| shows(&mut clock, time);
        for time in ["02:55:50", "02:56:00", "02:57:00", "02:58:00", "02:59:00"] {
            assert!(!shows_change(time), "{time}");
        }
        assert!(shows_change("02:00:00"));
        // a single gap does not make the recorder slower
        let mut clock = DaylightClock::default();
        let mut shows_change = |time: &str| shows(&mut clock, time);
        for time in ["02:55:50", "02:56:00", "02:59:00"] {
            assert!(!shows_change(time), "{time}");
        }
        assert!(!shows_change("02:02:00") && !shows_change("02:03:00"));
    }

    /// A step of an hour is a change of the clocks, one of three hours is not: the clock catches up row by row.
    #[test]
    fn a_clock_that_catches_up_after_it_was_set_back_has_not_changed() {
        let mut clock = DaylightClock::default();
        let minute_ns = |minute: i64| parse_ns("2026-06-10T00:00:00Z") + minute * MINUTE_NS;
        let mut follow = |minute: i64| clock.follow_sample(minute_ns(minute), minute_ns(minute));
        // to 05:00, then from 02:01 to 08:00
        for minute in (0..=300).chain(121..=480) {
            assert_eq!(follow(minute), (minute_ns(minute), false), "{minute}");
        }
    }

    #[test]
    fn a_sample_that_covers_the_hour_shows_that_none_is_missing() {
        let seen = |covered_s: u64| {
            let mut clock = DaylightClock::default();
            let mut follow = |time: &str, covered_s: u64| {
                let moment = parse_ns(&format!("2026-03-29T{time}Z"));
                clock.follow_covering_sample(moment, moment, Some(covered_s * SECOND_NS as u64)).1
            };
            let before = [follow("01:58:00", 60), follow("01:59:00", 60)];
            assert_eq!(before, [false; 2]);
            follow("03:00:00", covered_s)
        };
        assert_eq!([seen(60), seen(3660)], [true, false]);
    }

    #[test]
    fn a_zone_in_the_log_resets_the_shift() {
        let (hour, step) = (HOUR_NS, 10 * MINUTE_NS);
        let mut clock = DaylightClock::default();
        let mut follow = |local: &str, zone: i64| clock.follow_sample(parse_ns(local) - zone * hour, parse_ns(local));
        let first = follow("2026-10-25T02:40:00Z", 2).0;
        assert_eq!(follow("2026-10-25T02:50:00Z", 2), (first + step, false));
        assert_eq!(follow("2026-10-25T02:00:00Z", 2), (first + 2 * step, true));
        assert_eq!(follow("2026-10-25T02:10:00Z", 2), (first + 3 * step, false));
        // at the top of a page of rows: it is winter
        assert_eq!(follow("2026-10-25T02:20:00Z", 1), (first + 4 * step, false));
        assert_eq!(follow("2026-10-25T05:40:00Z", 1), (first + 4 * hour, false));
    }
}
