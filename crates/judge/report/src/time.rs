//! Formatting of times in a time zone, and the marks of a time axis.

pub use diskwright_base::timestamp::parse_rfc3339;
pub use diskwright_base::units::format_duration;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};

/// The zone that times are shown in.
#[derive(Clone, Debug)]
pub struct DisplayZone(TimeZone);

const SECOND_NS: i64 = 1_000_000_000;
const MINUTE_NS: i64 = 60 * SECOND_NS;
const HOUR_NS: i64 = 60 * MINUTE_NS;
const DAY_NS: i64 = 24 * HOUR_NS;

/// Possible distances between the marks of an axis.
const STEPS_NS: &[i64] = &[
    SECOND_NS / 10,
    SECOND_NS / 5,
    SECOND_NS / 2,
    SECOND_NS,
    2 * SECOND_NS,
    5 * SECOND_NS,
    10 * SECOND_NS,
    15 * SECOND_NS,
    30 * SECOND_NS,
    MINUTE_NS,
    2 * MINUTE_NS,
    5 * MINUTE_NS,
    10 * MINUTE_NS,
    15 * MINUTE_NS,
    30 * MINUTE_NS,
    HOUR_NS,
    2 * HOUR_NS,
    3 * HOUR_NS,
    6 * HOUR_NS,
    12 * HOUR_NS,
    DAY_NS,
    2 * DAY_NS,
    7 * DAY_NS,
    14 * DAY_NS,
    28 * DAY_NS,
    91 * DAY_NS,
    364 * DAY_NS,
];

/// A mark of a time axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeMark {
    /// Nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Label of the mark.
    pub label: String,
}

impl DisplayZone {
    /// Returns coordinated universal time.
    pub fn utc() -> DisplayZone {
        DisplayZone(TimeZone::UTC)
    }

    /// Returns the machine's zone; UTC if it has none.
    pub fn local() -> DisplayZone {
        DisplayZone(TimeZone::try_system().unwrap_or(TimeZone::UTC))
    }

    /// Makes a zone from its POSIX rule, such as `CET-1CEST,M3.5.0,M10.5.0/3`; `None`
    /// if the rule is invalid.
    pub fn from_posix_rule(posix: &str) -> Option<DisplayZone> {
        TimeZone::posix(posix).ok().map(DisplayZone)
    }

    fn to_zoned(&self, time_ns: i64) -> Zoned {
        // the calendar covers all times that an i64 of nanoseconds can express
        Timestamp::from_nanosecond(time_ns.into()).unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(self.0.clone())
    }

    /// Formats a time of day: `22:20:11`.
    pub fn format_clock(&self, time_ns: i64) -> String {
        self.to_zoned(time_ns).strftime("%H:%M:%S").to_string()
    }

    /// Formats a time with date and zone: `2026-11-21 22:20:11 UTC`.
    pub fn format_moment(&self, time_ns: i64) -> String {
        self.to_zoned(time_ns).strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
    }

    /// Formats a range: `2026-11-21 22:20:11 to 22:20:41 UTC`, with the second date if it differs, and with both zones
    /// if the clock changes between winter and summer time in the range.
    pub fn format_range(&self, from_ns: i64, to_ns: i64) -> String {
        let (from, to) = (self.to_zoned(from_ns), self.to_zoned(to_ns));
        let start = if from.offset() == to.offset() { "%Y-%m-%d %H:%M:%S" } else { "%Y-%m-%d %H:%M:%S %Z" };
        let end = if from.date() == to.date() { "%H:%M:%S %Z" } else { "%Y-%m-%d %H:%M:%S %Z" };
        format!("{} to {}", from.strftime(start), to.strftime(end))
    }

    /// Formats an RFC 3339 time as a time of day; a string that is no such time is kept unchanged.
    pub fn format_time(&self, time: &str) -> String {
        parse_rfc3339(time).map_or_else(|| time.to_owned(), |time_ns| self.format_clock(time_ns))
    }

    /// Formats a range between two RFC 3339 times; strings that are not such times are kept unchanged.
    pub fn format_range_between(&self, from: &str, to: &str) -> String {
        match (parse_rfc3339(from), parse_rfc3339(to)) {
            (Some(from_ns), Some(to_ns)) => self.format_range(from_ns, to_ns),
            _ => format!("{from} to {to}"),
        }
    }

    /// Returns the marks of an axis over the window: at most `max_count`, at round local times.
    pub fn axis_marks(&self, from_ns: i64, to_ns: i64, max_count: usize) -> Vec<TimeMark> {
        let span = to_ns.saturating_sub(from_ns);
        if span <= 0 || max_count == 0 {
            return Vec::new();
        }
        let has_few_marks = |step: &&i64| ((span / **step) as usize) < max_count;
        let step = STEPS_NS.iter().find(has_few_marks).or(STEPS_NS.last()).copied().unwrap_or(DAY_NS);
        let mut marks = Vec::new();
        let mut day = Some(self.to_zoned(from_ns).date());
        for time_ns in self.round_times(from_ns, to_ns, step) {
            let zoned = self.to_zoned(time_ns);
            let is_new_day = day.replace(zoned.date()).is_some_and(|d| d != zoned.date());
            let format = match step {
                s if s >= DAY_NS => "%-d %b",
                _ if is_new_day => "%-d %b %H:%M",
                s if s >= MINUTE_NS => "%H:%M",
                s if s >= SECOND_NS => "%H:%M:%S",
                _ => "%H:%M:%S%.1f",
            };
            marks.push(TimeMark { time_ns, label: zoned.strftime(format).to_string() });
        }
        marks.truncate(max_count.max(1));
        marks
    }

    /// Returns the multiples of `step` in local time. Steps of an hour and more follow
    /// wall-clock time, so that marks stay at round hours across a change to summer time.
    fn round_times(&self, from_ns: i64, to_ns: i64, step: i64) -> Vec<i64> {
        let start = self.to_zoned(from_ns);
        let mut times = Vec::new();
        if step < HOUR_NS {
            let offset = i64::from(start.offset().seconds()) * SECOND_NS;
            let mut time_ns = (from_ns + offset).div_euclid(step) * step - offset;
            while time_ns <= to_ns {
                times.push(time_ns);
                time_ns += step;
            }
        } else {
            let midnight = if step >= 7 * DAY_NS { monday_before(&start) } else { start.datetime().start_of_day() };
            for count in 0..100_000_i64 {
                let Some(wall) = count.checked_mul(step).map(SignedDuration::from_nanos) else { break };
                let Ok(wall) = midnight.checked_add(wall) else { break };
                let Ok(timestamp) = self.0.to_timestamp(wall) else { break };
                let time_ns = i64::try_from(timestamp.as_nanosecond()).unwrap_or(i64::MAX);
                if time_ns > to_ns {
                    break;
                }
                times.push(time_ns);
            }
        }
        times.retain(|&time_ns| time_ns >= from_ns);
        // the hour that a change to summer time skips would otherwise appear twice
        times.dedup();
        times
    }
}

fn monday_before(day: &Zoned) -> DateTime {
    let midnight = day.datetime().start_of_day();
    let days = i64::from(day.weekday().to_monday_zero_offset());
    midnight.checked_sub(days.days()).unwrap_or(midnight)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21 22:20:11 UTC.
    const NOW_NS: i64 = 1_795_299_611 * SECOND_NS;

    fn mark_labels(zone: &DisplayZone, from_ns: i64, to_ns: i64, max_marks: usize) -> Vec<String> {
        zone.axis_marks(from_ns, to_ns, max_marks).into_iter().map(|m| m.label).collect()
    }

    #[test]
    fn moments_and_ranges() {
        let utc = DisplayZone::utc();
        assert_eq!(utc.format_moment(NOW_NS), "2026-11-21 22:20:11 UTC");
        assert_eq!(utc.format_range(NOW_NS, NOW_NS + 30 * SECOND_NS), "2026-11-21 22:20:11 to 22:20:41 UTC");
        assert_eq!(utc.format_range(NOW_NS, NOW_NS + 2 * HOUR_NS), "2026-11-21 22:20:11 to 2026-11-22 00:20:11 UTC");
        let zone = DisplayZone::from_posix_rule("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        assert_eq!(zone.format_moment(NOW_NS), "2026-11-21 23:20:11 CET");
        // an hour and a half in the night in which three o'clock comes twice
        let autumn = parse_rfc3339("2026-10-25T00:30:00Z").unwrap();
        let range = zone.format_range(autumn, autumn + 90 * MINUTE_NS);
        assert_eq!(range, "2026-10-25 02:30:00 CEST to 03:00:00 CET");
    }

    #[test]
    fn reads_rfc3339_times() {
        assert_eq!(parse_rfc3339("2026-11-21T22:20:11Z"), Some(NOW_NS));
        assert_eq!(parse_rfc3339("2026-11-21T23:20:11.5+01:00"), Some(NOW_NS + SECOND_NS / 2));
        assert_eq!(parse_rfc3339("yesterday"), None);
        assert_eq!(
            DisplayZone::utc().format_range_between("2026-11-21T22:20:11Z", "never"),
            "2026-11-21T22:20:11Z to never"
        );
    }

    #[test]
    fn marks_stand_at_round_times() {
        let utc = DisplayZone::utc();
        assert_eq!(mark_labels(&utc, NOW_NS, NOW_NS + 30 * SECOND_NS, 4), ["22:20:20", "22:20:30", "22:20:40"]);
        assert_eq!(mark_labels(&utc, NOW_NS, NOW_NS + HOUR_NS, 5), ["22:30", "22:45", "23:00", "23:15"]);
        assert_eq!(mark_labels(&utc, NOW_NS, NOW_NS + 6 * HOUR_NS, 4), ["22 Nov 00:00", "02:00", "04:00"]);
        assert_eq!(mark_labels(&utc, NOW_NS, NOW_NS + 14 * DAY_NS, 3), ["23 Nov", "30 Nov"]);
    }

    #[test]
    fn a_new_day_is_named() {
        let labels = mark_labels(&DisplayZone::utc(), NOW_NS, NOW_NS + 4 * HOUR_NS, 5);
        assert_eq!(labels, ["23:00", "22 Nov 00:00", "01:00", "02:00"]);
    }

    #[test]
    fn marks_keep_local_hours_across_a_clock_change() {
        // summer time ends on 2026-10-25 at 03:00 CEST
        let zone = DisplayZone::from_posix_rule("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let from = 1_792_879_200 * SECOND_NS; // 2026-10-25 00:00 CEST
        assert_eq!(zone.format_moment(from), "2026-10-25 00:00:00 CEST");
        let labels = mark_labels(&zone, from, from + 25 * HOUR_NS, 6);
        assert_eq!(labels, ["00:00", "06:00", "12:00", "18:00", "26 Oct 00:00"]);
    }

    #[test]
    fn never_more_marks_than_fit() {
        for span in [1, 7, 31, 61, 3601, 90_000, 1_000_000, 40_000_000, 700_000_000] {
            for max_marks in 1..12 {
                let marks = DisplayZone::utc().axis_marks(NOW_NS, NOW_NS + span * SECOND_NS, max_marks);
                assert!(marks.len() <= max_marks, "{span} s, {max_marks}");
                assert!(marks.iter().all(|m| m.time_ns >= NOW_NS && m.time_ns <= NOW_NS + span * SECOND_NS));
            }
        }
        assert!(DisplayZone::utc().axis_marks(5, 5, 4).is_empty());
        assert!(DisplayZone::utc().axis_marks(i64::MIN, i64::MAX, 4).len() <= 4);
    }
}
