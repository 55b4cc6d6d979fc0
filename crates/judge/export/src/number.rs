//! Formats numbers as the shortest text that is read back to the same bits.

/// Limit below which whole numbers are written without an exponent.
const MAX_PLAIN_NUMBER: f64 = 1e15;

/// Appends a number that is neither a gap nor infinite.
pub(crate) fn write_number(out: &mut Vec<u8>, value: f64) {
    let integer = value as i64;
    // -0 has other bits than 0 and is written below, with its sign
    if value.abs() < MAX_PLAIN_NUMBER && (integer as f64).to_bits() == value.to_bits() {
        out.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes());
        return;
    }
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value);
    out.extend_from_slice(text.strip_suffix(".0").unwrap_or(text).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back_and_are_short() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (17.0, "17"),
            (-1e14, "-100000000000000"),
            (0.1, "0.1"),
            (0.30000000000000004, "0.30000000000000004"),
            (1e300, "1e+300"),
            (5e-324, "5e-324"),
            (9007199254740993.0, "9007199254740992"),
        ];
        for (value, expected) in cases {
            let mut out = Vec::new();
            write_number(&mut out, value);
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text, expected);
            assert_eq!(text.parse::<f64>().unwrap().to_bits(), value.to_bits());
        }
    }
}
