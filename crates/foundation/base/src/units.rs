//! Parsing of durations and shares that people type, and formatting of values for people.

use std::fmt::Display;

use thiserror::Error;

use crate::byte_size::{ByteSize, CAPACITY_UNIT};

/// Size of a block, bytes: disks are addressed in units of 512, whatever the size of their sectors.
pub const BLOCK_BYTES: u64 = 512;

/// A duration or size that could not be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum UnitError {
    /// Not a duration.
    #[error("invalid duration `{0}`: write a number and one of ms, s, m, h, d (such as 30s, 5m, 14d)")]
    Duration(String),
    /// A well-formed duration outside the range that commands accept.
    #[error("invalid duration `{0}`: it must be between 1 ms and 100000 d")]
    DurationRange(String),
    /// Not a size.
    #[error(
        "`{0}` is not a size: write a number and one of B, K, KB, KiB, M, MB, MiB, G, GB, GiB, T, TB, TiB, P, PB, PiB"
    )]
    Size(String),
    /// Not a share.
    #[error("`{0}` is not a share: write a percentage or a fraction (such as 5% or 0.05)")]
    Share(String),
    /// Not a percentage.
    #[error("`{0}` is not a percentage: write a number (such as 95 or 95%)")]
    Percentage(String),
}

/// Splits a text into number and unit: `64 KiB`.
pub(crate) fn split_number_and_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then_some((number, text[end..].trim()))
}

/// Shortest duration, seconds: neither an interval nor a window can be 0.
const MIN_DURATION_S: f64 = 1e-3;
/// Longest duration, seconds: 100,000 days, because the nanoseconds of 106,752 days overflow a signed 64-bit number.
const MAX_DURATION_S: f64 = 8.64e9;

/// Parses `250ms`, `30s`, `5m`, `2h`, `14d`. A unit is required.
pub fn parse_duration(text: &str) -> Result<std::time::Duration, UnitError> {
    let wrong = || UnitError::Duration(text.to_owned());
    let (number, unit) = split_number_and_unit(text).ok_or_else(wrong)?;
    let unit_s = match unit {
        "ms" => 1e-3,
        "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let seconds = number * unit_s;
    if !(MIN_DURATION_S..=MAX_DURATION_S).contains(&seconds) {
        return Err(UnitError::DurationRange(text.to_owned()));
    }
    Ok(std::time::Duration::from_secs_f64(seconds))
}

/// Parses `5%` or `0.05` as 0.05, for every option that is a share. It is at least 0. The caller sets an upper
/// limit, because a share of some quantities may exceed 1.
pub fn parse_share(text: &str) -> Result<f64, UnitError> {
    let (number, divisor) = text.trim().strip_suffix('%').map_or((text, 1.0), |percent| (percent, 100.0));
    let share = number.trim().parse().ok().map(|number: f64| number / divisor);
    share.filter(|share| share.is_finite() && *share >= 0.0).ok_or_else(|| UnitError::Share(text.to_owned()))
}

/// Parses a share of at most 1.
pub fn parse_share_of_whole(text: &str) -> Result<f64, UnitError> {
    parse_share(text).ok().filter(|share| *share <= 1.0).ok_or_else(|| UnitError::Share(text.to_owned()))
}

/// Parses `95` or `95%` as 95, for every option whose unit is per cent.
pub fn parse_percentage(text: &str) -> Result<f64, UnitError> {
    let trimmed = text.trim();
    let percent =
        trimmed.strip_suffix('%').unwrap_or(trimmed).trim().parse().ok().filter(|percent: &f64| percent.is_finite());
    percent.ok_or_else(|| UnitError::Percentage(text.to_owned()))
}

/// Formats a value with its unit for people. `bytes` are sizes of memory and requests, so KiB;
/// capacities are of [`CAPACITY_UNIT`].
///
/// ```
/// use diskwright_base::units::format_value;
/// assert_eq!(format_value(0.0012, "s"), "1.2 ms");
/// assert_eq!(format_value(35e6, "bytes_per_s"), "35 MB/s");
/// ```
pub fn format_value(value: f64, unit: &str) -> String {
    if value.is_nan() {
        return "no data".into();
    }
    match unit {
        "s" => format_seconds(value),
        "bytes" => ByteSize::memory(value).to_string(),
        CAPACITY_UNIT => ByteSize::capacity(value).to_string(),
        "bytes_per_s" => format!("{}B/s", format_with_prefix(value)),
        "fraction" => format!("{} %", format_significant(value * 100.0)),
        "per_s" => format!("{}/s", format_with_prefix(value).trim_end()),
        "count" | "" => format_significant(value),
        "celsius" => format!("{} °C", format_significant(value)),
        "watts" => format!("{} W", format_significant(value)),
        other => format!("{} {}", format_significant(value), other.replace("_per_s", "/s").replace('_', " ")),
    }
}

fn format_seconds(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 {
        "0 s".into()
    } else if magnitude < 1e-6 {
        format!("{} ns", format_significant(value * 1e9))
    } else if magnitude < 1e-3 {
        format!("{} us", format_significant(value * 1e6))
    } else if magnitude < 1.0 {
        format!("{} ms", format_significant(value * 1e3))
    } else {
        format!("{} s", format_significant(value))
    }
}

/// Formats a duration in its two largest units: `30 s`, `5 min`, `2 h 30 min`, `14 d`.
pub fn format_duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "an unknown time".into();
    }
    if seconds < 90.0 {
        return format!("{} s", format_significant(seconds));
    }
    let units = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let mut remaining_s = seconds.round() as u64;
    let mut parts = Vec::new();
    for (unit_s, name) in units {
        if remaining_s >= unit_s && parts.len() < 2 {
            parts.push(format!("{} {name}", remaining_s / unit_s));
            remaining_s %= unit_s;
        } else if !parts.is_empty() {
            break;
        }
    }
    parts.join(" ")
}

/// Formats a count with its noun: `1 gap`, `2 gaps`.
pub fn format_count<N: Display + From<u8> + PartialEq>(count: N, singular: &str, plural: &str) -> String {
    let noun = if count == N::from(1) { singular } else { plural };
    format!("{count} {noun}")
}

/// Formats any number, to three significant digits, with its noun: `1 year`, `2.5 years`.
pub fn format_amount(value: f64, singular: &str, plural: &str) -> String {
    let shown = format_significant(value);
    let noun = if shown == "1" { singular } else { plural };
    format!("{shown} {noun}")
}

/// Formats a number with a decimal prefix: `35 M`, and `12 ` below a thousand.
fn format_with_prefix(value: f64) -> String {
    let magnitude = value.abs();
    let (scale, prefix) = match magnitude {
        s if s >= 1e12 => (1e12, "T"),
        s if s >= 1e9 => (1e9, "G"),
        s if s >= 1e6 => (1e6, "M"),
        s if s >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    format!("{} {}", format_significant(value / scale), prefix)
}

/// Formats a number to three significant digits, without an exponent.
pub fn format_significant(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = match magnitude {
        s if s == 0.0 || s >= 99.95 => 0,
        s if s >= 9.995 => 1,
        s if s >= 0.9995 => 2,
        s if s >= 0.09995 => 3,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_within_limits() {
        assert_eq!(parse_duration("30s").unwrap().as_secs(), 30);
        assert_eq!(parse_duration("14d").unwrap().as_secs(), 14 * 86_400);
        assert_eq!(parse_duration("250ms").unwrap().as_millis(), 250);
        for wrong in ["5x", "", "s", "5", "-3s", "1e9d", "nan s"] {
            assert_eq!(parse_duration(wrong), Err(UnitError::Duration(wrong.to_owned())));
        }
        assert_eq!(parse_duration("1ms").unwrap().as_millis(), 1);
        assert_eq!(parse_duration("100000d").unwrap().as_secs(), 8_640_000_000);
        for wrong in ["0s", "0.9ms", "100001d", "99999999999h"] {
            assert_eq!(parse_duration(wrong), Err(UnitError::DurationRange(wrong.to_owned())));
        }
    }

    #[test]
    fn shares_and_percentages_are_parsed() {
        for (text, share) in
            [("5%", 0.05), ("0.05", 0.05), (" 99.5 % ", 0.995), ("0", 0.0), ("150%", 1.5), ("1e-3", 1e-3)]
        {
            assert_eq!(parse_share(text), Ok(share), "{text}");
        }
        for wrong in ["", "%", "-5%", "NaN", "inf%", "half", "5%%", "5 percent"] {
            assert_eq!(parse_share(wrong), Err(UnitError::Share(wrong.to_owned())));
            assert_eq!(parse_share_of_whole(wrong), Err(UnitError::Share(wrong.to_owned())));
        }
        assert_eq!(
            (parse_share_of_whole("100%"), parse_share_of_whole("101%")),
            (Ok(1.0), Err(UnitError::Share("101%".into())))
        );
        assert_eq!((parse_percentage("95"), parse_percentage("99.5 %")), (Ok(95.0), Ok(99.5)));
        for wrong in ["", "%", "p95", "NaN", "95%%"] {
            assert_eq!(parse_percentage(wrong), Err(UnitError::Percentage(wrong.to_owned())));
        }
    }

    #[test]
    fn values_are_formatted_with_their_units() {
        assert_eq!(format_value(0.0012, "s"), "1.2 ms");
        assert_eq!(format_value(35e6, "bytes_per_s"), "35 MB/s");
        assert_eq!(format_value(65_536.0, "bytes"), "64 KiB");
        assert_eq!(format_value(36e9, CAPACITY_UNIT), "36 GB");
        assert_eq!(format_value(0.87, "fraction"), "87 %");
        assert_eq!(format_value(97.6, "per_s"), "97.6/s");
        assert_eq!(format_value(2.5e3, "per_s"), "2.5 k/s");
        assert_eq!(format_value(f64::NAN, "s"), "no data");
        assert_eq!(format_value(1.01, "requests"), "1.01 requests");
        assert_eq!(format_value(71.0, "celsius"), "71 °C");
    }

    #[test]
    fn one_is_singular() {
        assert_eq!([0_u32, 1, 2].map(|n| format_count(n, "gap", "gaps")), ["0 gaps", "1 gap", "2 gaps"]);
        let years = [0.5, 1.0, 1.001, 2.5].map(|n| format_amount(n, "year", "years"));
        assert_eq!(years, ["0.5 years", "1 year", "1 year", "2.5 years"]);
    }

    #[test]
    fn durations_have_at_most_two_units() {
        assert_eq!(format_duration(30.0), "30 s");
        assert_eq!(format_duration(0.25), "0.25 s");
        assert_eq!(format_duration(300.0), "5 min");
        assert_eq!(format_duration(9000.0), "2 h 30 min");
        assert_eq!(format_duration(14.0 * 86_400.0), "14 d");
        assert_eq!(format_duration(86_405.0), "1 d");
    }
}
