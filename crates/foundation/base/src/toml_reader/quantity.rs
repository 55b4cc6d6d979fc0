//! Parsing of quantities as people write them: a number and its unit in one text.

use crate::byte_size::{CAPACITY_UNITS, MEMORY_UNITS};
use crate::units::BLOCK_BYTES;

/// Longest time, seconds: a hundred years.
const MAX_TIME_S: f64 = 100.0 * 365.25 * 86_400.0;
/// Largest size or rate, bytes: an exbibyte, far beyond any device.
const MAX_BYTES: f64 = (1_u64 << 60) as f64;

/// A kind of quantity: description, examples, units with their factors, and range.
#[derive(Clone, Copy, Debug)]
pub struct QuantityKind {
    /// Description with its article: "a time".
    pub description: &'static str,
    /// Valid example: `"0.3ms"`.
    pub example: &'static str,
    /// Units and their size in base units.
    units: &'static [(&'static str, f64)],
    /// Smallest and largest value, base units.
    range: (f64, f64),
    /// The range, for messages: "1 B/s to 1 EiB/s".
    range_text: &'static str,
    /// True if a byte rate is accepted too: `200MB/s` is 5 ns per byte.
    accepts_rate: bool,
}

/// The binary prefix Ki.
const KI: f64 = 1024.0;

/// A length of time; the base unit is the nanosecond.
pub const TIME: QuantityKind = QuantityKind {
    description: "a time",
    example: "\"0.3ms\" or \"7s\"",
    units: &[
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("μs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("min", 60e9),
        ("m", 60e9),
        ("h", 3600e9),
        ("d", 86_400e9),
    ],
    range: (0.0, MAX_TIME_S * 1e9),
    range_text: "0 to 100 years",
    accepts_rate: false,
};

/// A size of memory or of a request: KB is 1024 bytes, which is what
/// people mean who write "64KB records".
pub const SIZE: QuantityKind = QuantityKind {
    description: "a size",
    example: "\"64KB\" or \"16MB\"",
    units: MEMORY_UNITS,
    range: (0.0, MAX_BYTES),
    range_text: "0 to 1 EiB",
    accepts_rate: false,
};

/// A capacity of a drive or of an area on it: KB is 1000 bytes, as drives
/// are sold.
pub const CAPACITY: QuantityKind = QuantityKind {
    description: "a capacity",
    example: "\"9.1GB\" or \"4TB\"",
    units: CAPACITY_UNITS,
    range: (0.0, MAX_BYTES),
    range_text: "0 to 1 EiB",
    accepts_rate: false,
};

/// Bytes a second, decimal as links and drives are sold.
pub const RATE: QuantityKind = QuantityKind {
    description: "a byte rate",
    example: "\"20MB/s\" or \"6Gbit/s\"",
    units: &[
        ("b/s", 1.0),
        ("kb/s", 1e3),
        ("kib/s", KI),
        ("mb/s", 1e6),
        ("mib/s", KI * KI),
        ("gb/s", 1e9),
        ("gib/s", KI * KI * KI),
        ("kbit/s", 1e3 / 8.0),
        ("mbit/s", 1e6 / 8.0),
        ("gbit/s", 1e9 / 8.0),
    ],
    range: (1.0, MAX_BYTES),
    range_text: "1 B/s to 1 EiB/s",
    accepts_rate: false,
};

/// A frequency; the base unit is once per second.
pub const FREQUENCY: QuantityKind = QuantityKind {
    description: "a rate per second",
    example: "\"3000/s\"",
    units: &[("/s", 1.0), ("k/s", 1e3), ("/min", 1.0 / 60.0), ("/h", 1.0 / 3600.0)],
    range: (0.0, 1e12),
    range_text: "0 to 1e12/s",
    accepts_rate: false,
};

/// Time per byte; the base unit is the picosecond. A byte rate is accepted too. The KB in `us/KB` is that of a
/// request's size, so binary.
pub const TIME_PER_BYTE: QuantityKind = QuantityKind {
    description: "a time per byte",
    example: "\"5ns/B\" or \"200MB/s\"",
    units: &[
        ("ps/b", 1.0),
        ("ns/b", 1e3),
        ("us/b", 1e6),
        ("ns/kb", 1e3 / KI),
        ("us/kb", 1e6 / KI),
        ("ms/kb", 1e9 / KI),
        ("us/mb", 1e6 / (KI * KI)),
        ("ms/mb", 1e9 / (KI * KI)),
    ],
    range: (0.0, 1e12),
    range_text: "0 to 1 s/B",
    accepts_rate: true,
};

/// Rotation speed, revolutions a minute.
pub const ROTATION_SPEED: QuantityKind = QuantityKind {
    description: "a rotation speed",
    example: "\"7200rpm\"",
    units: &[("rpm", 1.0)],
    range: (1.0, 1e6),
    range_text: "1 to 1,000,000 rpm",
    accepts_rate: false,
};

/// Reason why a text is not a valid quantity, worded to follow "is".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuantityError {
    /// Not a number with a unit of this kind.
    Unreadable(String),
    /// Outside the range of this kind.
    OutOfRange(String),
}

impl QuantityError {
    /// The reason, in words that follow "is".
    pub fn message(&self) -> &str {
        match self {
            QuantityError::Unreadable(message) | QuantityError::OutOfRange(message) => message,
        }
    }
}

/// Splits a text into number and unit: `20 MB/s`, `1_000/s`, `1.5e3ns`.
fn split_number_and_unit(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let is_digit = |c: char| c.is_ascii_digit() || matches!(c, '.' | '_');
    let mut end = text.find(|c| !is_digit(c)).unwrap_or(text.len());
    // `e` is an exponent only where digits follow it
    let after_number = &text[end..];
    if let Some(exponent) = after_number.strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let digits = exponent[sign..].chars().take_while(char::is_ascii_digit).count();
        end += if digits > 0 { 1 + sign + digits } else { 0 };
    }
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    let unit = text[end..].trim().replace(' ', "");
    number.is_finite().then_some((number, unit))
}

/// Parses a quantity of a kind, in its base unit.
pub fn parse_quantity(kind: &QuantityKind, text: &str) -> Result<f64, QuantityError> {
    let unreadable = |found: &str| {
        QuantityError::Unreadable(format!("{found}; expected {}, such as {}", kind.description, kind.example))
    };
    let Some((number, unit)) = split_number_and_unit(text) else {
        return Err(unreadable(&format!("`{}`", truncate_for_message(text))));
    };
    if unit.is_empty() {
        return Err(unreadable(&format!("`{}` without a unit", truncate_for_message(text))));
    }
    let value = match unit_factor(kind, &unit) {
        Some(factor) => number * factor,
        None => match time_per_byte_from_rate(kind, number, &unit) {
            Some(value) => value,
            None => {
                let known: Vec<&str> = kind.units.iter().map(|(name, _)| *name).filter(|n| n.is_ascii()).collect();
                let known = known.join(", ");
                return Err(unreadable(&format!(
                    "`{}` with the unknown unit `{}` (known are {known})",
                    truncate_for_message(text),
                    truncate_for_message(&unit)
                )));
            }
        },
    };
    let (min, max) = kind.range;
    if !(value >= min && value <= max) {
        let expected = format!("expected {} of {}", kind.description, kind.range_text);
        return Err(QuantityError::OutOfRange(format!("`{}`; {expected}", truncate_for_message(text))));
    }
    Ok(value)
}

/// Returns the size of a unit in base units; case does not matter, except that `Mb/s` may be meant
/// as bits or as bytes and is refused.
fn unit_factor(kind: &QuantityKind, unit: &str) -> Option<f64> {
    if ["Kb/s", "Mb/s", "Gb/s"].contains(&unit) {
        return None;
    }
    let unit = unit.to_lowercase();
    kind.units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}

/// Converts a byte rate to a time per byte, where the kind accepts one.
fn time_per_byte_from_rate(kind: &QuantityKind, number: f64, unit: &str) -> Option<f64> {
    if !kind.accepts_rate {
        return None;
    }
    // a rate of 0 becomes an infinite time, which is out of range
    Some(1e12 / (number * unit_factor(&RATE, unit)?))
}

/// Cuts a foreign text to 40 characters for a message.
fn truncate_for_message(text: &str) -> String {
    crate::text::truncate_text(text, 40)
}

/// Parses a time to whole nanoseconds.
pub fn parse_time_ns(text: &str) -> Result<u64, QuantityError> {
    parse_quantity(&TIME, text).map(|ns| ns.round() as u64)
}

/// Parses a size to whole blocks; one that is not a multiple of 512 bytes is refused.
pub fn parse_blocks(text: &str) -> Result<u64, QuantityError> {
    let bytes = parse_quantity(&SIZE, text)?;
    if bytes % BLOCK_BYTES as f64 != 0.0 {
        let nearest_bytes = ((bytes / BLOCK_BYTES as f64).round().max(1.0) as u64) * BLOCK_BYTES;
        let message = format!(
            "`{}`, which is not a multiple of {BLOCK_BYTES} bytes; the nearest is \"{nearest_bytes}B\"",
            truncate_for_message(text)
        );
        return Err(QuantityError::OutOfRange(message));
    }
    Ok(bytes as u64 / BLOCK_BYTES)
}

/// Parses a capacity to the number of blocks that fit into it.
pub fn parse_capacity_blocks(text: &str) -> Result<u64, QuantityError> {
    parse_quantity(&CAPACITY, text).map(|bytes| bytes as u64 / BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_parsed_as_people_write_them() {
        let cases: [(&QuantityKind, &str, f64); 17] = [
            (&TIME, "0.3ms", 300_000.0),
            (&TIME, "7s", 7e9),
            (&TIME, "250 µs", 250_000.0),
            (&TIME, "2 min", 120e9),
            (&TIME, "1.5e3ns", 1500.0),
            (&SIZE, "64KB", 65_536.0),
            (&SIZE, "512 B", 512.0),
            (&SIZE, "8k", 8192.0),
            (&CAPACITY, "9.1GB", 9.1e9),
            (&CAPACITY, "16M", 16e6),
            (&CAPACITY, "1TiB", 1_099_511_627_776.0),
            (&RATE, "20MB/s", 20e6),
            (&RATE, "6Gbit/s", 750e6),
            (&FREQUENCY, "3_000/s", 3000.0),
            (&FREQUENCY, "16k/s", 16_000.0),
            (&TIME_PER_BYTE, "5ns/B", 5000.0),
            (&TIME_PER_BYTE, "200MB/s", 5000.0),
        ];
        for (kind, text, value) in cases {
            assert_eq!(parse_quantity(kind, text), Ok(value), "{text}");
        }
        assert_eq!(parse_time_ns("8.33ms"), Ok(8_330_000));
        assert_eq!(parse_blocks("64KB"), Ok(128));
        assert_eq!(parse_capacity_blocks("1000B"), Ok(1));
        assert_eq!(parse_quantity(&ROTATION_SPEED, "7200 rpm"), Ok(7200.0));
    }

    #[test]
    fn reports_an_invalid_quantity_with_an_example() {
        let cases: [(&QuantityKind, &str, &str); 12] = [
            (&TIME, "5", "`5` without a unit; expected a time, such as \"0.3ms\""),
            (&TIME, "5 KB", "unknown unit `KB` (known are ns, us, ms"),
            (&TIME, "fast", "`fast`; expected a time"),
            (&TIME, "-3ms", "`-3ms`; expected a time"),
            (&TIME, "1e30s", "`1e30s`; expected a time of 0 to 100 years"),
            (&TIME, "1e", "unknown unit `e`"),
            (&RATE, "20MB", "unknown unit `MB`"),
            (&RATE, "20Mb/s", "unknown unit `Mb/s` (known are b/s,"),
            (&RATE, "0MB/s", "`0MB/s`; expected a byte rate of 1 B/s to 1 EiB/s"),
            (&SIZE, "", "``; expected a size"),
            (&FREQUENCY, "nan/s", "`nan/s`"),
            (&TIME_PER_BYTE, "0MB/s", "`0MB/s`; expected a time per byte of 0 to 1 s/B"),
        ];
        for (kind, text, part) in cases {
            let wrong = parse_quantity(kind, text).unwrap_err();
            assert!(wrong.message().contains(part), "{text}: {}", wrong.message());
        }
        assert!(parse_blocks("1000B").unwrap_err().message().contains("the nearest is \"1024B\""));
        assert!(parse_quantity(&TIME, &"9".repeat(1000)).unwrap_err().message().len() < 200);
    }
}
