//! Moments as text: RFC 3339 in UTC, to the millisecond where there is a part of a second.

/// `2026-11-21T22:30:58Z` from nanoseconds since 1970.
pub(crate) fn rfc3339(time_ns: i64) -> String {
    let ms = time_ns.div_euclid(1_000_000);
    let (seconds, ms) = (ms.div_euclid(1000), ms.rem_euclid(1000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let part = if ms == 0 { String::new() } else { format!(".{ms:03}") };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{part}Z")
}

/// Year, month and day from days since 1970. Years begin in March here, so
/// that the leap day comes last; 400 years have 146 097 days.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + 400 * era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        let second = 1_000_000_000;
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_400 * second), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_795_300_258 * second + 250_000_000), "2026-11-21T22:30:58.250Z");
        assert_eq!(rfc3339(-second), "1969-12-31T23:59:59Z");
    }
}
