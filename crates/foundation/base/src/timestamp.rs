//! Conversion of UTC timestamps and calendar days to text and back: everything that this program does
//! with dates without a time zone.

use jiff::civil::{Date, date};
use jiff::{SignedDuration, Timestamp};

/// Formats nanoseconds since 1970 as `2026-11-21T22:30:58Z`; with milliseconds where there is
/// a fraction of a second.
pub fn format_rfc3339(time_ns: i64) -> String {
    let is_whole_second = time_ns.div_euclid(1_000_000).rem_euclid(1000) == 0;
    if is_whole_second { format!("{:.0}", timestamp_from_ns(time_ns)) } else { format_rfc3339_ms(time_ns) }
}

/// Formats nanoseconds since 1970 as `2026-11-21T22:30:58.250Z`: always to the millisecond, truncated.
pub fn format_rfc3339_ms(time_ns: i64) -> String {
    format!("{:.3}", timestamp_from_ns(time_ns))
}

/// The timestamp, truncated to the millisecond so that formatting does not round it up.
fn timestamp_from_ns(time_ns: i64) -> Timestamp {
    let millis = SignedDuration::from_millis(time_ns.div_euclid(1_000_000));
    Timestamp::from_duration(millis).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns the time of the machine's clock, nanoseconds since 1970 UTC.
pub fn now_ns() -> i64 {
    i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}

/// Parses an RFC 3339 time to nanoseconds since 1970 UTC; `None` where it is not one.
pub fn parse_rfc3339(rfc3339: &str) -> Option<i64> {
    let time: Timestamp = rfc3339.parse().ok()?;
    i64::try_from(time.as_nanosecond()).ok()
}

/// Formats a day counted from 1970-01-01 as `2026-11-21`.
pub fn format_day(day: i64) -> String {
    let hours = day.checked_mul(24).map(SignedDuration::from_hours);
    let date = hours.and_then(|hours| EPOCH.checked_add(hours).ok());
    date.unwrap_or(EPOCH).to_string()
}

/// Returns the number of days from 1970-01-01 to a date; `None` where the calendar has no such day.
pub fn day_number(year: i32, month: u32, day: u32) -> Option<i64> {
    let date = Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?).ok()?;
    Some(days_since_1970(date))
}

/// Parses the date at the start of a text (`2026-11-21`, `2026-11-21T22:30:58Z`) to days since 1970-01-01.
pub fn parse_leading_day(text: &str) -> Option<i64> {
    text.get(..10)?.parse().ok().map(days_since_1970)
}

const EPOCH: Date = date(1970, 1, 1);

fn days_since_1970(date: Date) -> i64 {
    date.duration_since(EPOCH).as_hours() / 24
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn timestamps_are_formatted_in_utc() {
        assert_eq!(format_rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(format_rfc3339(951_782_400 * SECOND), "2000-02-29T00:00:00Z");
        assert_eq!(format_rfc3339(1_795_300_258 * SECOND + 250_000_000), "2026-11-21T22:30:58.250Z");
        // less than a millisecond is cut off, not rounded
        assert_eq!(format_rfc3339(SECOND - 1), "1970-01-01T00:00:00.999Z");
        assert_eq!(format_rfc3339(-SECOND), "1969-12-31T23:59:59Z");
        assert_eq!(format_rfc3339(SECOND + 999_999), "1970-01-01T00:00:01Z");
        assert_eq!(format_rfc3339_ms(SECOND), "1970-01-01T00:00:01.000Z");
        assert_eq!((parse_rfc3339("1970-01-01T00:00:01+00:00"), parse_rfc3339("1970-01-01")), (Some(SECOND), None));
    }

    #[test]
    fn days_are_counted_as_unix_does() {
        assert_eq!(
            (day_number(1970, 1, 1), day_number(2000, 3, 1), day_number(2026, 11, 21)),
            (Some(0), Some(11_017), Some(20_778))
        );
        assert_eq!(day_number(2024, 2, 29).map(|day| day + 1), day_number(2024, 3, 1));
        assert_eq!((day_number(2023, 2, 29), day_number(2024, 4, 31), day_number(2024, 13, 1)), (None, None, None));
        for day in [-106_752, -1, 0, 11_016, 20_778, 106_751] {
            assert_eq!(parse_leading_day(&format_day(day)), Some(day));
        }
        assert_eq!(parse_leading_day("2026-01-01T12:00:00Z"), Some(20_454));
        for wrong in ["", "now", "2026-13-01", "2026-01", "99999999999-01-01", "2026-02-30"] {
            assert_eq!(parse_leading_day(wrong), None, "{wrong}");
        }
    }
}
