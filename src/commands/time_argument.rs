//! Times on the command line and in answers.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

pub use diskwright_base::timestamp::format_rfc3339_ms as rfc3339;
use diskwright_base::units::parse_duration;

use super::Failure;

/// Parses `2026-11-21T22:15:00Z`, `2026-11-21 22:15` (local time), `22:15` (the day of the log's end, local time) or
/// `-10m` (before the log's end) as nanoseconds since 1970 UTC.
pub fn parse_time(text: &str, end_ns: i64) -> Result<i64, Failure> {
    if let Some(before) = text.strip_prefix('-') {
        let span = parse_duration(before).map_err(|e| Failure::Usage(e.to_string()))?;
        return Ok(end_ns.saturating_sub(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)));
    }
    if let Ok(stamp) = text.parse::<Timestamp>() {
        return Ok(to_unix_ns(stamp));
    }
    let zone = TimeZone::system();
    let day = Timestamp::from_nanosecond(i128::from(end_ns)).map(|t| t.to_zoned(zone.clone()).date());
    let with_day = || day.ok().map(|d| format!("{d}T{text}"));
    let civil: Option<DateTime> = text.parse().ok().or_else(|| with_day()?.parse().ok());
    let error = || {
        let forms = "write 2026-11-21T22:15:00Z, 2026-11-21 22:15, 22:15 or -10m";
        Failure::Usage(format!("`{text}` is not a time: {forms}"))
    };
    let zoned = civil.ok_or_else(error)?.to_zoned(zone).map_err(|_| error())?;
    Ok(to_unix_ns(zoned.timestamp()))
}

fn to_unix_ns(stamp: Timestamp) -> i64 {
    i64::try_from(stamp.as_nanosecond()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_times() {
        let end = 1_795_300_000_000_000_000;
        assert_eq!(parse_time("1970-01-01T00:00:01Z", end).unwrap(), 1_000_000_000);
        assert_eq!(parse_time("-10m", end).unwrap(), end - 600_000_000_000);
        let today = parse_time("22:15", end).unwrap();
        assert!((end - today).abs() < 86_400_000_000_000 && today % 60_000_000_000 == 0);
        for wrong in ["soon", "-5x", "25:99", ""] {
            let failure = parse_time(wrong, end).unwrap_err();
            assert_eq!(failure.exit_code(), 2, "{wrong}");
        }
    }
}
