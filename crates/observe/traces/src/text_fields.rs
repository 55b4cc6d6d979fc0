//! Parsing of numbers and fields of text traces, without allocation.

/// Splits a line into its fields at blanks.
pub(crate) fn split_fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|b| b.is_ascii_whitespace()).filter(|field| !field.is_empty())
}

/// Parses a whole number in decimal digits.
pub(crate) fn parse_whole(field: &[u8]) -> Option<u64> {
    if field.is_empty() || field.len() > 20 {
        return None;
    }
    field.iter().try_fold(0u64, |sum, b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// Converts a number of time units of `unit_ns` nanoseconds, with or without decimals or an exponent, to nanoseconds.
/// Without an exponent, decimals beyond the nanosecond are cut, and the result is exact. `unit_ns` is a power of ten.
pub(crate) fn parse_nanoseconds(field: &[u8], unit_ns: u64) -> Option<i64> {
    let (whole, decimals) = match field.iter().position(|b| *b == b'.') {
        Some(point) => (&field[..point], &field[point + 1..]),
        None => (field, &[][..]),
    };
    if field.iter().any(|b| matches!(b, b'e' | b'E')) {
        let number: f64 = std::str::from_utf8(field).ok()?.parse().ok()?;
        let ns = number * unit_ns as f64;
        return (0.0..9e18).contains(&ns).then_some(ns as i64);
    }
    let whole_units = if whole.is_empty() && !decimals.is_empty() { 0 } else { parse_whole(whole)? };
    let mut ns = whole_units.checked_mul(unit_ns)?;
    let mut scale = unit_ns;
    for b in decimals {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        // exact until it is 0, because a unit is a power of ten
        scale /= 10;
        ns = ns.checked_add(digit * scale)?;
    }
    i64::try_from(ns).ok()
}

/// Converts a number of sectors of 512 bytes to bytes; `None` if it is too large.
pub(crate) fn sectors_to_bytes(count: u64) -> Option<u64> {
    count.checked_mul(512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers() {
        for (text, number) in [("0", Some(0)), ("18446744073709551615", Some(u64::MAX)), ("18446744073709551616", None)]
        {
            assert_eq!(parse_whole(text.as_bytes()), number);
        }
        for wrong in ["", "-1", "1.0", "1e3", " 1", "x"] {
            assert_eq!(parse_whole(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        let seconds = |text: &str| parse_nanoseconds(text.as_bytes(), 1_000_000_000);
        assert_eq!(seconds("12.000000007"), Some(12_000_000_007));
        assert_eq!(seconds("0.1234567899"), Some(123_456_789));
        assert_eq!(seconds(".5"), Some(500_000_000));
        assert_eq!(seconds("3."), Some(3_000_000_000));
        assert_eq!(seconds("1.5e-3"), Some(1_500_000));
        assert_eq!(parse_nanoseconds(b"1686.00000", 1000), Some(1_686_000));
        assert_eq!(parse_nanoseconds(b"14095.3709", 1000), Some(14_095_370));
        for wrong in ["", ".", "-1", "1.2.3", "nan", "inf", "1e99", "99999999999999", "0x10", "1,5"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn fields_stand_between_blanks() {
        let found: Vec<&[u8]> = split_fields(b"  R Hit\t 12  ").collect();
        assert_eq!(found, [&b"R"[..], b"Hit", b"12"]);
    }
}
