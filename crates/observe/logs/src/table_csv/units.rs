//! Units that people and dashboards write, as factors to a counter's own.

/// Quantity that a unit measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnitKind {
    Bytes,
    Time,
    Share,
    Count,
}

use UnitKind::{Bytes, Count, Share, Time};

/// Known units: name, quantity, and factor to bytes, seconds, a fraction or a number. Capitals matter: `b` is a bit,
/// `B` a byte.
const UNITS: &[(&str, UnitKind, f64)] = &[
    ("B", Bytes, 1.0),
    ("byte", Bytes, 1.0),
    ("bytes", Bytes, 1.0),
    ("Bytes", Bytes, 1.0),
    ("kB", Bytes, 1e3),
    ("KB", Bytes, 1e3),
    ("KiB", Bytes, 1024.0),
    ("MB", Bytes, 1e6),
    ("MiB", Bytes, 1_048_576.0),
    ("GB", Bytes, 1e9),
    ("GiB", Bytes, 1_073_741_824.0),
    ("TB", Bytes, 1e12),
    ("TiB", Bytes, 1_099_511_627_776.0),
    ("b", Bytes, 0.125),
    ("bit", Bytes, 0.125),
    ("bits", Bytes, 0.125),
    ("kb", Bytes, 125.0),
    ("kbit", Bytes, 125.0),
    ("Mb", Bytes, 125e3),
    ("Mbit", Bytes, 125e3),
    ("Gb", Bytes, 125e6),
    ("Gbit", Bytes, 125e6),
    ("s", Time, 1.0),
    ("sec", Time, 1.0),
    ("seconds", Time, 1.0),
    ("ms", Time, 1e-3),
    ("milliseconds", Time, 1e-3),
    ("us", Time, 1e-6),
    ("\u{b5}s", Time, 1e-6),
    ("ns", Time, 1e-9),
    ("min", Time, 60.0),
    ("h", Time, 3600.0),
    ("%", Share, 0.01),
    ("percent", Share, 0.01),
    ("fraction", Share, 1.0),
    ("ratio", Share, 1.0),
    // counts, and the letters by which dashboards shorten any number
    ("count", Count, 1.0),
    ("requests", Count, 1.0),
    ("ops", Count, 1.0),
    ("io", Count, 1.0),
    ("reads", Count, 1.0),
    ("writes", Count, 1.0),
    ("iops", Count, 1.0),
    ("IOPS", Count, 1.0),
    ("K", Count, 1e3),
    ("k", Count, 1e3),
    ("Mil", Count, 1e6),
    ("M", Count, 1e6),
    ("Bil", Count, 1e9),
];

/// Endings that make a rate of a unit, and the factor to a rate per second.
const RATE_ENDINGS: &[(&str, f64)] =
    &[("/s", 1.0), ("/sec", 1.0), ("ps", 1.0), (" per second", 1.0), ("/min", 1.0 / 60.0), (" per minute", 1.0 / 60.0)];

/// Units of counts that are rates without an ending.
const RATE_UNITS: &[&str] = &["iops", "IOPS"];
/// Units of counts that are never meant as a rate.
const TOTAL_UNITS: &[&str] = &["count", "requests"];

/// A unit as it is written.
struct ParsedUnit {
    kind: UnitKind,
    /// Factor to the base unit; of a rate, to the base unit per second.
    factor: f64,
    is_rate: bool,
}

fn find_unit(name: &str) -> Option<(UnitKind, f64)> {
    UNITS.iter().find(|(known, ..)| *known == name).map(|(_, kind, factor)| (*kind, *factor))
}

fn parse_unit(text: &str) -> Option<ParsedUnit> {
    let text = text.trim();
    // the whole text first, because `ops` ends like a rate (`ps`) and is not one
    if let Some((kind, factor)) = find_unit(text) {
        return Some(ParsedUnit { kind, factor, is_rate: RATE_UNITS.contains(&text) });
    }
    for (ending, per_second) in RATE_ENDINGS {
        let Some(name) = text.strip_suffix(ending).map(str::trim) else { continue };
        // `/s` alone is a rate of whatever is counted
        let found = if name.is_empty() { Some((UnitKind::Count, 1.0)) } else { find_unit(name) };
        if let Some((kind, factor)) = found {
            return Some(ParsedUnit { kind, factor: factor * per_second, is_rate: true });
        }
    }
    None
}

/// Returns the factor from a value in `unit` to `counter_unit`, the counter's unit in the catalogue; `None` if they
/// do not fit.
pub fn unit_factor(unit: &str, counter_unit: &str) -> Option<f64> {
    let ParsedUnit { kind, factor, is_rate } = parse_unit(unit)?;
    let is_fitting = match counter_unit {
        "bytes_per_s" => kind == UnitKind::Bytes && is_rate,
        "bytes" => kind == UnitKind::Bytes && !is_rate,
        "s" => kind == UnitKind::Time && !is_rate,
        "fraction" => kind == UnitKind::Share,
        "per_s" => kind == UnitKind::Count && (is_rate || !TOTAL_UNITS.contains(&unit.trim())),
        // a foreign counter has no unit: any fits
        "" => true,
        _ => kind == UnitKind::Count && !is_rate,
    };
    is_fitting.then_some(factor)
}

/// Parses a number and the unit behind it: `12.3 MB/s`, `45%`, `1,234.5`.
pub fn parse_number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .char_indices()
        .find(|(index, c)| {
            let is_exponent = matches!(c, 'e' | 'E')
                && text[index + 1..].starts_with(|n: char| n.is_ascii_digit() || "+-".contains(n));
            let after_exponent = *index > 0 && matches!(text.as_bytes()[index - 1], b'e' | b'E');
            !(c.is_ascii_digit()
                || matches!(c, '.' | ',')
                || is_exponent
                || (matches!(c, '-' | '+') && (*index == 0 || after_exponent)))
        })
        .map_or(text.len(), |(index, _)| index);
    let (digits, unit) = text.split_at(end);
    let groups: Vec<&str> = digits.split(',').collect();
    let is_grouped = groups.len() > 1 && groups[1..].iter().all(|g| g.split('.').next().is_some_and(|w| w.len() == 3));
    let plain = match (is_grouped, groups.len()) {
        (true, 3..) => digits.replace(',', ""),
        // `1,234` is ambiguous; dashboards write groups
        (true, _) if digits.contains('.') || groups[0].len() <= 3 && groups[0] != "0" => digits.replace(',', ""),
        _ => digits.replacen(',', ".", 1),
    };
    let value = plain.parse::<f64>().ok().filter(|v| v.is_finite())?;
    Some((value, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_units_that_fit_their_counters() {
        for (unit, own, value) in [
            ("MB/s", "bytes_per_s", Some(1e6)),
            ("MiB/s", "bytes_per_s", Some(1_048_576.0)),
            ("Mbps", "bytes_per_s", Some(125e3)),
            ("KiB", "bytes", Some(1024.0)),
            ("KiB", "bytes_per_s", None),
            ("ms", "s", Some(1e-3)),
            ("ms", "fraction", None),
            ("%", "fraction", Some(0.01)),
            ("iops", "per_s", Some(1.0)),
            ("reads/s", "per_s", Some(1.0)),
            ("/min", "per_s", Some(1.0 / 60.0)),
            ("count", "count", Some(1.0)),
            ("furlongs", "count", None),
        ] {
            assert_eq!(unit_factor(unit, own), value, "{unit} of {own}");
        }
    }

    #[test]
    fn no_unit_is_listed_twice() {
        let names: std::collections::HashSet<&str> = UNITS.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names.len(), UNITS.len());
    }

    #[test]
    fn parses_numbers_with_units_and_groups() {
        for (text, value) in [
            ("12.3 MB/s", Some((12.3, "MB/s"))),
            ("45%", Some((45.0, "%"))),
            ("1,234.5", Some((1234.5, ""))),
            ("1,234,567", Some((1_234_567.0, ""))),
            ("0,5", Some((0.5, ""))),
            ("-2e-3 s", Some((-2e-3, "s"))),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(parse_number(text), value, "{text}");
        }
    }
}
