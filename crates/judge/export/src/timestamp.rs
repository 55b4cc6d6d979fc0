//! Fast formatting of times as RFC 3339: the date is computed once per day.

use diskwright_base::timestamp::format_day;

/// One second, nanoseconds.
const SECOND_NS: i64 = 1_000_000_000;
const DAY_S: i64 = 86_400;

/// Formatter of times that caches the date of the last day.
#[derive(Debug, Default)]
pub(crate) struct TimeFormatter {
    day: Option<i64>,
    date: String,
}

impl TimeFormatter {
    /// Appends `2026-11-22T01:02:03.123456Z` (UTC, truncated to the
    /// microsecond).
    pub fn write_time(&mut self, out: &mut Vec<u8>, time_ns: i64) {
        let seconds = time_ns.div_euclid(SECOND_NS);
        let (day, second) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
        if self.day != Some(day) {
            self.day = Some(day);
            self.date = format_day(day);
        }
        out.extend_from_slice(self.date.as_bytes());
        out.push(b'T');
        let push_two_digits =
            |out: &mut Vec<u8>, number: i64| out.extend([b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
        push_two_digits(out, second / 3600);
        out.push(b':');
        push_two_digits(out, second / 60 % 60);
        out.push(b':');
        push_two_digits(out, second % 60);
        out.push(b'.');
        let micros = time_ns.rem_euclid(SECOND_NS) / 1000;
        for pair in [micros / 10_000, micros / 100 % 100, micros % 100] {
            push_two_digits(out, pair);
        }
        out.push(b'Z');
    }
}

/// Formats a time as RFC 3339, UTC, truncated to the microsecond.
pub fn format_rfc3339(time_ns: i64) -> String {
    let mut out = Vec::new();
    TimeFormatter::default().write_time(&mut out, time_ns);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_times_of_all_years() {
        for (time_ns, expected) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (1_709_210_096_123_456_789, "2024-02-29T12:34:56.123456Z"),
            (951_868_799_999_999_999, "2000-02-29T23:59:59.999999Z"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000000Z"),
            (i64::MAX, "2262-04-11T23:47:16.854775Z"),
            (i64::MIN, "1677-09-21T00:12:43.145224Z"),
        ] {
            assert_eq!(format_rfc3339(time_ns), expected);
        }
    }
}
