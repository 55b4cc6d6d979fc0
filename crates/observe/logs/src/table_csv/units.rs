//! Units that people and dashboards write, as factors to a counter's own.

/// Quantity that a unit measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnitKind {
    Bytes,
    Time,
    Share,
    Count,
}

/// Units of bytes; those of bits have a small b.
const BYTE_UNITS: [(&str, f64); 22] = [
    ("B", 1.0),
    ("byte", 1.0),
    ("bytes", 1.0),
    ("Bytes", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("KiB", 1024.0),
    ("MB", 1e6),
    ("MiB", 1_048_576.0),
    ("GB", 1e9),
    ("GiB", 1_073_741_824.0),
    ("TB", 1e12),
    ("TiB", 1_099_511_627_776.0),
    ("b", 0.125),
    ("bit", 0.125),
    ("bits", 0.125),
    ("kb", 125.0),
    ("kbit", 125.0),
    ("Mb", 125e3),
    ("Mbit", 125e3),
    ("Gb", 125e6),
    ("Gbit", 125e6),
];
const TIME_UNITS: [(&str, f64); 10] = [
    ("s", 1.0),
    ("sec", 1.0),
    ("seconds", 1.0),
    ("ms", 1e-3),
    ("milliseconds", 1e-3),
    ("us", 1e-6),
    ("\u{b5}s", 1e-6),
    ("ns", 1e-9),
    ("min", 60.0),
    ("h", 3600.0),
];
const SHARE_UNITS: [(&str, f64); 4] = [("%", 0.01), ("percent", 0.01), ("fraction", 1.0), ("ratio", 1.0)];
/// Units of counts and counts per second; also the letters by which dashboards shorten any number.
const COUNT_UNITS: [(&str, f64); 13] = [
    ("count", 1.0),
    ("requests", 1.0),
    ("ops", 1.0),
    ("io", 1.0),
    ("reads", 1.0),
    ("writes", 1.0),
    ("iops", 1.0),
    ("IOPS", 1.0),
    ("K", 1e3),
    ("k", 1e3),
    ("Mil", 1e6),
    ("M", 1e6),
    ("Bil", 1e9),
];

fn find_factor(table: &[(&str, f64)], unit: &str) -> Option<f64> {
    table.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}

/// Parses a unit: its quantity, its factor to the base unit (per second for a rate), and whether it is a rate.
fn parse_unit(unit: &str) -> Option<(UnitKind, f64, bool)> {
    let unit = unit.trim();
    let ends = [
        ("/s", 1.0),
        ("/sec", 1.0),
        ("ps", 1.0),
        (" per second", 1.0),
        ("/min", 1.0 / 60.0),
        (" per minute", 1.0 / 60.0),
    ];
    let base_unit = |unit: &str| {
        find_factor(&BYTE_UNITS, unit)
            .map(|f| (UnitKind::Bytes, f))
            .or_else(|| find_factor(&TIME_UNITS, unit).map(|f| (UnitKind::Time, f)))
            .or_else(|| find_factor(&SHARE_UNITS, unit).map(|f| (UnitKind::Share, f)))
            .or_else(|| find_factor(&COUNT_UNITS, unit).map(|f| (UnitKind::Count, f)))
    };
    if let Some((kind, factor)) = base_unit(unit) {
        return Some((kind, factor, matches!(unit, "iops" | "IOPS")));
    }
    ends.into_iter().find_map(|(end, per)| {
        let head = unit.strip_suffix(end)?.trim();
        let (kind, factor) = if head.is_empty() { (UnitKind::Count, 1.0) } else { base_unit(head)? };
        Some((kind, factor * per, true))
    })
}

/// Returns the factor from a value in `unit` to a counter's own unit (that of the catalogue); `None` where they do not
/// fit.
pub fn unit_factor(unit: &str, own: &str) -> Option<f64> {
    let (kind, factor, is_rate) = parse_unit(unit)?;
    let fits = match own {
        "bytes_per_s" => kind == UnitKind::Bytes && is_rate,
        "bytes" => kind == UnitKind::Bytes && !is_rate,
        "s" => kind == UnitKind::Time && !is_rate,
        "fraction" => kind == UnitKind::Share,
        "per_s" => kind == UnitKind::Count && (is_rate || !matches!(unit.trim(), "count" | "requests")),
        // a foreign counter has no unit: any fits
        "" => true,
        _ => kind == UnitKind::Count && !is_rate,
    };
    fits.then_some(factor)
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
