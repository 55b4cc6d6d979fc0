//! Times of messages, and their place beside what other logs measured: an event outside of the measured time is
//! history.

use crate::sysstat::clock::ZoneHint;
use crate::sysstat::time::{self, DAY_S, NumericDateOrder};
use crate::{MeasuredTime, stamp_line};

const SECOND_NS: i64 = 1_000_000_000;
/// Longest time between an event and a measurement that still may show its effect.
const MAX_DISTANCE_NS: i64 = 10 * 60 * SECOND_NS;
/// Farthest that the kernel's times are from those of the measurements, nanoseconds: `dmesg -T` counts from the start.
const MAX_CLOCK_ERROR_NS: i64 = 5 * SECOND_NS;
/// Farthest that a clock on the wall is from UTC.
const MAX_ZONE_NS: i64 = 14 * 3600 * SECOND_NS;
/// A leap year, for dates without a year.
const ANY_YEAR: i64 = 1972;

/// Time of a message as its line gives it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EventTime {
    /// Date and time as printed.
    pub stamp: String,
    /// Seconds since the machine started.
    pub boot_s: Option<f64>,
}

/// Place of an event beside the measured time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    /// While something was measured, at this time.
    Inside(i64),
    /// Before or after.
    Outside,
    Unknown,
}

impl EventTime {
    /// Seconds on a clock that all messages of the log share, as far as one is there.
    pub fn clock_s(&self) -> Option<f64> {
        self.boot_s.or_else(|| self.local_s(None).map(|(local_s, _)| local_s as f64))
    }

    /// How the message's time is told; empty if it has none.
    pub fn to_text(&self) -> String {
        match self.boot_s {
            _ if !self.stamp.is_empty() => self.stamp.clone(),
            Some(seconds) => format!("{seconds:.0} s after the start"),
            None => String::new(),
        }
    }

    /// Seconds since 1970 of the printed date and time, and its zone. A date without a year is the last one before
    /// `latest_s`.
    fn local_s(&self, latest_s: Option<i64>) -> Option<(i64, Option<i64>)> {
        let dated = |text: &str| {
            let stamp = stamp_line::parse_stamp(text, NumericDateOrder::MonthFirst)?;
            let offset_s = match stamp.zone {
                ZoneHint::Offset(offset_s) => Some(offset_s),
                ZoneHint::Name(name) => time::zone_offset_s(&name),
                ZoneHint::Missing => None,
            };
            (!stamp.has_no_date).then_some((stamp.local_s, offset_s))
        };
        let text = spread_date(&self.stamp);
        if let Some(found) = dated(&text) {
            return Some(found);
        }
        let Some(latest_s) = latest_s else { return dated(&format!("{text} {ANY_YEAR}")) };
        let year = 1970 + latest_s.div_euclid(DAY_S) * 400 / 146_097;
        let years = [year + 1, year, year - 1].into_iter().filter_map(|year| dated(&format!("{text} {year}")));
        years.into_iter().find(|(local_s, _)| *local_s <= latest_s + DAY_S)
    }

    /// True for a date that cannot be read, or cannot be: the 30th of February.
    pub fn is_unreadable(&self) -> bool {
        let text = spread_date(&self.stamp);
        let is_date = self.stamp.contains([' ', 'T']) && self.stamp.contains(':');
        let parse = |text: &str| stamp_line::parse_stamp(text, NumericDateOrder::MonthFirst);
        is_date && parse(&text).is_none() && parse(&format!("{text} {ANY_YEAR}")).is_none()
    }

    /// False for an event that is known to be from another time than what was measured.
    pub fn may_be_within(&self, measured: Option<&MeasuredTime>) -> bool {
        let Some(measured) = measured else { return true };
        let margin_ns = measured.step_ns.saturating_add(MAX_CLOCK_ERROR_NS);
        match (self.place(Some(measured)), self.exact_ns(Some(measured))) {
            (Place::Outside, _) => false,
            (Place::Unknown, _) | (_, None) => true,
            (Place::Inside(_), Some(time_ns)) => {
                let ranges = if measured.ranges.is_empty() { &[measured.whole][..] } else { &measured.ranges };
                place_between(time_ns, ranges, margin_ns) != Place::Outside
            }
        }
    }

    /// The event's time, nanoseconds since 1970, where the log tells it: with a zone, or beside measurements that are
    /// on the same clock.
    pub fn exact_ns(&self, measured: Option<&MeasuredTime>) -> Option<i64> {
        let Some(measured) = measured.filter(|measured| !measured.ranges.is_empty() || measured.boot_ns.is_some())
        else {
            let (local_s, offset_s) = self.local_s(None).filter(|_| self.has_year())?;
            return Some((local_s - offset_s?).saturating_mul(SECOND_NS));
        };
        let latest_s = measured.ranges.iter().map(|(_, to)| to.div_euclid(SECOND_NS)).max();
        if let Some((local_s, offset_s)) = latest_s.and_then(|latest_s| self.local_s(Some(latest_s))) {
            let local_ns = local_s.saturating_mul(SECOND_NS);
            let utc_ns = offset_s.map(|offset_s| local_ns - offset_s * SECOND_NS);
            let times = if measured.has_zone { [utc_ns, Some(local_ns)] } else { [Some(local_ns), utc_ns] };
            let is_near = |time_ns: &i64| place_between(*time_ns, &measured.ranges, MAX_DISTANCE_NS) != Place::Outside;
            return times.into_iter().flatten().find(is_near);
        }
        Some(measured.boot_ns?.saturating_add((self.boot_s? * 1e9) as i64))
    }

    /// True for a date with its year.
    fn has_year(&self) -> bool {
        stamp_line::parse_stamp(&spread_date(&self.stamp), NumericDateOrder::MonthFirst)
            .is_some_and(|stamp| !stamp.has_no_date)
    }

    /// Places the event.
    pub fn place(&self, measured: Option<&MeasuredTime>) -> Place {
        let Some(measured) = measured else { return Place::Unknown };
        let latest = measured.ranges.iter().chain(&measured.days).map(|(_, to)| to.div_euclid(SECOND_NS)).max();
        if let (Some((local_s, offset_s)), Some(_)) = (latest.and_then(|latest| self.local_s(Some(latest))), latest) {
            return place_dated(local_s.saturating_mul(SECOND_NS), offset_s, measured);
        }
        if latest.is_some() && self.is_unreadable() {
            return Place::Outside;
        }
        if let (Some(boot_ns), Some(seconds)) = (measured.boot_ns, self.boot_s) {
            let time_ns = boot_ns.saturating_add((seconds * 1e9) as i64);
            return place_between(time_ns, &[measured.whole], MAX_DISTANCE_NS);
        }
        Place::Unknown
    }
}

fn place_dated(local_ns: i64, offset_s: Option<i64>, measured: &MeasuredTime) -> Place {
    let utc_ns = offset_s.map(|offset_s| local_ns - offset_s * SECOND_NS);
    if measured.ranges.is_empty() {
        // the measurements have a day only
        let is_inside = place_between(local_ns, &measured.days, MAX_DISTANCE_NS) != Place::Outside;
        return if is_inside { Place::Unknown } else { Place::Outside };
    }
    // where the measurements name no zone, theirs is that of the messages
    let candidates =
        if measured.has_zone { [Some(utc_ns.unwrap_or(local_ns)), None] } else { [Some(local_ns), utc_ns] };
    let places = candidates.into_iter().flatten().map(|time| place_between(time, &measured.ranges, MAX_DISTANCE_NS));
    let is_near = |time_ns| place_between(time_ns, &measured.ranges, MAX_ZONE_NS) != Place::Outside;
    match places.into_iter().find(|place| *place != Place::Outside) {
        Some(place) => place,
        None if measured.has_zone && utc_ns.is_none() && is_near(local_ns) => Place::Unknown,
        None => Place::Outside,
    }
}

fn place_between(time_ns: i64, ranges: &[(i64, i64)], distance_ns: i64) -> Place {
    let near = ranges
        .iter()
        .find(|(from, to)| from.saturating_sub(distance_ns) <= time_ns && time_ns <= to.saturating_add(distance_ns));
    near.map_or(Place::Outside, |(from, to)| Place::Inside(time_ns.clamp(*from, *to)))
}

/// Writes `Sep11 18:40` as `Sep 11 18:40:00`, and `一 9月 11 18:40:00` as `Sep 11 18:40:00`.
fn spread_date(stamp: &str) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = stamp.split_whitespace();
    let month = |word: &str| {
        let number = word.strip_suffix(['月', '월'])?.parse::<usize>().ok()?;
        MONTHS.get(number.checked_sub(1)?).copied()
    };
    if let Some(month) = words.by_ref().take(2).find_map(month) {
        return std::iter::once(month).chain(words).collect::<Vec<_>>().join(" ");
    }
    let Some((date, clock)) = stamp.split_once(' ') else { return stamp.to_owned() };
    let digits = date.find(|c: char| c.is_ascii_digit()).filter(|index| *index > 0);
    match digits {
        Some(index) if clock.matches(':').count() == 1 => format!("{} {} {clock}:00", &date[..index], &date[index..]),
        _ => stamp.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-25 10:00:00.
    const TEN: i64 = 1_795_600_800 * SECOND_NS;

    fn dated(stamp: &str) -> EventTime {
        EventTime { stamp: stamp.to_owned(), boot_s: None }
    }

    #[test]
    fn an_event_days_before_the_measurements_is_history() {
        let minutes = |count: i64| count * 60 * SECOND_NS;
        let range = (TEN, TEN + minutes(2));
        let measured = MeasuredTime { ranges: vec![range], whole: range, ..MeasuredTime::default() };
        for (stamp, is_history) in [
            ("Wed Nov 25 10:01:00 2026", false),
            ("Wed Nov 25 09:52:00 2026", false),
            ("Wed Nov 25 09:49:00 2026", true),
            ("Wed Nov 25 10:13:00 2026", true),
            ("Fri Nov 20 10:01:00 2026", true),
            ("Nov 25 10:01:00", false),
            ("Nov 20 10:01:00", true),
            ("Nov25 10:01", false),
            ("Nov20 10:01", true),
            ("Dec 24 10:01:00", true),
            ("2026-11-25T10:01:00+0100", false),
            ("2026-11-25T11:01:00+0100", false),
            ("2026-11-25T15:01:00+0100", true),
            ("Mi 25. Nov 10:01:00 2026", false),
            ("11月 20 10:01:00", true),
            ("11月 25 10:01:00", false),
            ("水 11月 20 10:01:00 2026", true),
            ("11월 20 10:01:00", true),
            ("nov. 20 10:01:00", true),
            ("ноя 25 10:01:00", false),
            ("Mon Nov 31 10:01:00 2026", true),
            ("Feb 30 10:01:00", true),
            ("Wed Nov 25 10:01:00 2199", true),
        ] {
            assert_eq!(dated(stamp).place(Some(&measured)) == Place::Outside, is_history, "{stamp}");
        }
        let boot = MeasuredTime { boot_ns: Some(TEN - minutes(3000)), ..measured };
        for (seconds, is_history) in [(3001.0 * 60.0, false), (2980.0 * 60.0, true), (12.0, true)] {
            let moment = EventTime { boot_s: Some(seconds), ..EventTime::default() };
            assert_eq!(moment.place(Some(&boot)) == Place::Outside, is_history, "{seconds}");
        }
        assert_eq!(dated("Nov 20 10:01:00").place(None), Place::Unknown);
    }

    #[test]
    fn only_a_time_that_is_told_is_known() {
        let minutes = |count: i64| count * 60 * SECOND_NS;
        let range = (TEN, TEN + minutes(2));
        let measured = MeasuredTime { ranges: vec![range], whole: range, ..MeasuredTime::default() };
        for (stamp, alone, beside, is_within) in [
            ("2026-11-25T10:01:00+0000", Some(TEN + minutes(1)), Some(TEN + minutes(1)), true),
            ("Wed Nov 25 10:01:00 2026", None, Some(TEN + minutes(1)), true),
            ("Nov 25 10:01:00", None, Some(TEN + minutes(1)), true),
            ("Nov 25 09:55:00", None, Some(TEN - minutes(5)), false),
            ("Nov 20 10:01:00", None, None, false),
            ("", None, None, true),
        ] {
            let moment = dated(stamp);
            assert_eq!((moment.exact_ns(None), moment.exact_ns(Some(&measured))), (alone, beside), "{stamp}");
            assert_eq!(moment.may_be_within(Some(&measured)), is_within, "{stamp}");
        }
        for (stamp, is_unreadable) in [
            ("Feb 30 10:01:00", true),
            ("2026-13-45T10:01:00Z", true),
            ("Mon Nov 31 10:01:00 2026", true),
            ("Feb 29 10:01:00", false),
            ("10:01:00", false),
            ("1709543575.250000", false),
            ("", false),
        ] {
            assert_eq!(dated(stamp).is_unreadable(), is_unreadable, "{stamp}");
        }
    }

    #[test]
    fn a_year_that_is_missing_is_the_last_one() {
        let range = (TEN - 325 * DAY_S * SECOND_NS, TEN - 325 * DAY_S * SECOND_NS);
        let measured = MeasuredTime { ranges: vec![range], whole: range, ..MeasuredTime::default() };
        // the measurements are of the fourth of January
        assert_eq!(dated("Jan  4 10:00:30").place(Some(&measured)), Place::Inside(range.1));
        assert_eq!(dated("Dec 31 10:00:30").place(Some(&measured)), Place::Outside);
    }

    #[test]
    fn times_without_a_zone_may_be_near_times_in_utc() {
        let measured = MeasuredTime { ranges: vec![(TEN, TEN)], has_zone: true, ..MeasuredTime::default() };
        assert_eq!(dated("2026-11-25 15:00:00").place(Some(&measured)), Place::Unknown);
        assert_eq!(dated("2026-11-25 15:00:00+05:00").place(Some(&measured)), Place::Inside(TEN));
        assert_eq!(dated("2026-11-20 15:00:00").place(Some(&measured)), Place::Outside);
    }
}
