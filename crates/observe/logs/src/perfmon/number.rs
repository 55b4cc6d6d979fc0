//! Conversion of decimal text to the nearest `f64`, straight from a buffer. Most of a PerfMon log is numbers of 15 to
//! 20 digits, so most of the time of reading one is spent here: eight digits at once are parsed in a machine word, and
//! the conversion is that of Lemire (Number Parsing at a Gigabyte per Second, 2021): one or two products with a power
//! of five of 128 bits. Numbers that it does not cover are left to the standard library.

/// Bytes that must lie behind any number in the buffer, so that a word can be loaded anywhere in it.
pub(crate) const PADDING_BYTES: usize = 16;

/// Reads the number at `index`, and returns it with the index behind it. `POINT` is the decimal point. `None` if
/// there is no number.
#[inline(always)]
pub(crate) fn read_number<const POINT: u8>(bytes: &[u8], index: usize) -> Option<(f64, usize)> {
    let first = load_word(bytes, index)?;
    let mut count = count_digits(first);
    if count == 0 {
        return read_any_number::<POINT>(bytes, index);
    }
    let mut integer = parse_leading_digits(first, count);
    if count == 8 {
        let next = load_word(bytes, index + 8)?;
        let more_digits = count_digits(next);
        integer = append_digits(integer, next, more_digits);
        count += more_digits;
    }
    let end = index + count;
    let next = *bytes.get(end)?;
    if count > 15 || next | 0x20 == b'e' {
        return read_any_number::<POINT>(bytes, index);
    }
    if next != POINT {
        return Some((integer as f64, end));
    }
    read_fraction::<POINT>(bytes, index, integer, count)
}

/// Continues behind the point of a number whose integer part has `count` digits, 15 at most.
#[inline(always)]
fn read_fraction<const POINT: u8>(bytes: &[u8], index: usize, integer: u64, count: usize) -> Option<(f64, usize)> {
    debug_assert!((1..=15).contains(&count), "an integer part of {count} digits");
    let start = index + count + 1;
    let first = load_word(bytes, start)?;
    let mut places = count_digits(first);
    let mut wide = None;
    let mut mantissa = 0;
    if places == 8 {
        let next = load_word(bytes, start + 8)?;
        let more_digits = count_digits(next);
        let fraction = append_digits(parse_eight_digits(first), next, more_digits);
        places += more_digits;
        if places == 16 {
            let last = load_word(bytes, start + 16)?;
            let more_digits = count_digits(last);
            if more_digits == 8 {
                return read_any_number::<POINT>(bytes, index);
            }
            let upper = u128::from(integer) * 10_000_000_000_000_000 + u128::from(fraction);
            places += more_digits;
            wide = Some(if more_digits == 0 {
                upper
            } else {
                upper * u128::from(POWERS_OF_TEN[more_digits]) + u128::from(parse_leading_digits(last, more_digits))
            });
        } else if count + places > 19 {
            wide = Some(
                u128::from(integer) * u128::from(POWERS_OF_TEN[8] * POWERS_OF_TEN[more_digits]) + u128::from(fraction),
            );
        } else {
            mantissa = integer * (POWERS_OF_TEN[8] * POWERS_OF_TEN[more_digits]) + fraction;
        }
    } else {
        // 15 and 7 digits make up to 22, of which a word holds 19
        if count + places > 19 {
            return read_any_number::<POINT>(bytes, index);
        }
        mantissa = append_digits(integer, first, places);
    }
    let end = start + places;
    if places == 0 || *bytes.get(end)? | 0x20 == b'e' {
        return read_any_number::<POINT>(bytes, index);
    }
    let value = match wide {
        Some(wide) => nearest_f64_of_wide(wide, -(places as i64)),
        None => nearest_f64(mantissa, -(places as i64)),
    };
    Some((value.unwrap_or_else(|| parse_by_library::<POINT>(bytes, index, end)), end))
}

/// Appends a word's first `count` digits to a number.
#[inline(always)]
fn append_digits(number: u64, word: u64, count: usize) -> u64 {
    debug_assert!(count <= 8, "a word has {count} digits");
    // a shift by all 64 bits would overflow
    let digits = if count == 0 { 0 } else { parse_leading_digits(word, count) };
    number.wrapping_mul(POWERS_OF_TEN[count]).wrapping_add(digits)
}

/// Reads a number of any shape: sign, any count of digits, exponent.
#[inline(never)]
fn read_any_number<const POINT: u8>(bytes: &[u8], start: usize) -> Option<(f64, usize)> {
    let is_negative = *bytes.get(start)? == b'-';
    let mut index = start + usize::from(is_negative || bytes[start] == b'+');
    let mut mantissa = 0u128;
    let mut dropped = 0i64;
    let first = index;
    index = read_digits(bytes, index, &mut mantissa, &mut dropped);
    let mut count = index - first;
    let mut exponent = dropped;
    if bytes.get(index) == Some(&POINT) {
        let fraction = index + 1;
        index = read_digits(bytes, fraction, &mut mantissa, &mut dropped);
        count += index - fraction;
        // dropped digits are not in the mantissa, so they do not lower the exponent
        exponent = dropped - (index - fraction) as i64;
    }
    if count == 0 {
        return None;
    }
    if has_exponent(bytes, index) {
        let (power, end) = read_exponent(bytes, index);
        exponent = exponent.saturating_add(power);
        index = end;
    }
    let value = if dropped == 0 { nearest_f64_of_wide(mantissa, exponent) } else { None };
    let value = match value {
        Some(value) if is_negative => -value,
        Some(value) => value,
        None => parse_by_library::<POINT>(bytes, start, index),
    };
    // beyond the range of doubles: no value
    value.is_finite().then_some((value, index))
}

/// Reads digits into a mantissa of up to 38; the number of further digits is added to `dropped`.
fn read_digits(bytes: &[u8], mut index: usize, mantissa: &mut u128, dropped: &mut i64) -> usize {
    const FULL_MANTISSA: u128 = 10u128.pow(30);
    while let Some(next) = load_word(bytes, index) {
        let count = count_digits(next);
        if count == 0 {
            break;
        }
        if *mantissa < FULL_MANTISSA {
            *mantissa = *mantissa * u128::from(POWERS_OF_TEN[count]) + u128::from(parse_leading_digits(next, count));
        } else {
            *dropped += count as i64;
        }
        index += count;
        if count < 8 {
            break;
        }
    }
    index
}

/// Reads the power of ten behind an `e`, which [`has_exponent`] has found; returns it with the index behind it.
fn read_exponent(bytes: &[u8], e: usize) -> (i64, usize) {
    debug_assert!(has_exponent(bytes, e), "an exponent has a digit");
    let sign = bytes[e + 1];
    let mut index = e + 1 + usize::from(matches!(sign, b'+' | b'-'));
    let mut power = 0i64;
    while let Some(digit) = bytes.get(index).filter(|b| b.is_ascii_digit()) {
        power = (power * 10 + i64::from(digit - b'0')).min(1_000_000);
        index += 1;
    }
    (if sign == b'-' { -power } else { power }, index)
}

/// Returns true if an `e` with a number behind it stands at `index`.
#[inline(always)]
fn has_exponent(bytes: &[u8], index: usize) -> bool {
    let Some(&[e, next, after]) = bytes.get(index..index + 3) else { return false };
    (e | 0x20) == b'e' && (next.is_ascii_digit() || matches!(next, b'+' | b'-') && after.is_ascii_digit())
}

#[cold]
fn parse_by_library<const POINT: u8>(bytes: &[u8], start: usize, end: usize) -> f64 {
    let text: String = bytes[start..end].iter().map(|&b| if b == POINT { '.' } else { char::from(b) }).collect();
    text.parse().unwrap_or(f64::NAN)
}

#[inline(always)]
fn load_word(bytes: &[u8], index: usize) -> Option<u64> {
    let word: &[u8; 8] = bytes.get(index..index + 8)?.try_into().ok()?;
    Some(u64::from_le_bytes(*word))
}

/// Counts a word's leading bytes that are digits.
#[inline(always)]
fn count_digits(word: u64) -> usize {
    let values = word ^ 0x3030_3030_3030_3030;
    // a carry affects only bytes behind one that is not a digit anyway
    let non_digits = (values | values.wrapping_add(0x7676_7676_7676_7676)) & 0x8080_8080_8080_8080;
    (non_digits.trailing_zeros() / 8) as usize
}

/// Parses a word of eight digits.
#[inline(always)]
fn parse_eight_digits(word: u64) -> u64 {
    let plain = word & 0x0f0f_0f0f_0f0f_0f0f;
    let pairs = (plain * 10 + (plain >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours * 10_000 + (fours >> 32)) & 0xffff_ffff
}

/// Parses a word's first `count` (1 to 8) digits.
#[inline(always)]
fn parse_leading_digits(word: u64, count: usize) -> u64 {
    debug_assert!((1..=8).contains(&count), "{count} digits of a word");
    parse_eight_digits(word << (64 - 8 * count as u32))
}

const POWERS_OF_TEN: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Largest power in the table, positive and negative.
const MAX_POWER: i64 = 54;
/// Upper 128 bits of the powers of five: positive powers are exact, negative ones are rounded up.
static POWERS_OF_FIVE: [(u64, u64); 2 * MAX_POWER as usize + 1] = power_of_five_table();

const fn power_of_five_table() -> [(u64, u64); 2 * MAX_POWER as usize + 1] {
    let mut table = [(0, 0); 2 * MAX_POWER as usize + 1];
    let mut five = 1u128;
    let mut n = 0;
    while n <= MAX_POWER as usize {
        let up = five << five.leading_zeros();
        table[MAX_POWER as usize + n] = ((up >> 64) as u64, up as u64);
        if n > 0 {
            let down = reciprocal_bits(five) + 1;
            table[MAX_POWER as usize - n] = ((down >> 64) as u64, down as u64);
        }
        five *= 5;
        n += 1;
    }
    table
}

/// Returns 2^k / five rounded down, for the k that gives 128 bits.
const fn reciprocal_bits(five: u128) -> u128 {
    let mut remainder = 1u128 << (127 - five.leading_zeros());
    let mut quotient = 0u128;
    let mut bit = 0;
    while bit < 128 {
        remainder <<= 1;
        quotient <<= 1;
        if remainder >= five {
            remainder -= five;
            quotient |= 1;
        }
        bit += 1;
    }
    quotient
}

/// Returns the `f64` nearest to mantissa x 10^exponent, ties to even. `None` if this algorithm cannot decide.
#[inline(always)]
fn nearest_f64(mantissa: u64, exponent: i64) -> Option<f64> {
    if mantissa == 0 || exponent == 0 {
        return Some(mantissa as f64);
    }
    if !(-MAX_POWER..=MAX_POWER).contains(&exponent) {
        return None;
    }
    let zeros = mantissa.leading_zeros();
    let scaled = mantissa << zeros;
    let (five, five_low) = POWERS_OF_FIVE[(exponent + MAX_POWER) as usize];
    let product = u128::from(scaled) * u128::from(five);
    let (mut high, mut low) = ((product >> 64) as u64, product as u64);
    // 55 bits are needed; only if all bits below them are ones can the lower half of the power carry into them
    if high & 0x1ff == 0x1ff {
        let carried = ((u128::from(scaled) * u128::from(five_low)) >> 64) as u64;
        let (sum, carry) = low.overflowing_add(carried);
        low = sum;
        high += u64::from(carry);
        if low == u64::MAX && !(-27..=55).contains(&exponent) {
            return None;
        }
    }
    let upper = (high >> 63) as u32;
    let shift = upper + 9;
    let mut bits = high >> shift;
    let power = ((exponent * 217_706) >> 16) + 63 + i64::from(upper) - i64::from(zeros) + 1023;
    // exactly halfway between two neighbors: round to the even one
    if low <= 1 && (-4..=23).contains(&exponent) && bits & 3 == 1 && bits << shift == high {
        bits &= !1;
    }
    bits = (bits + (bits & 1)) >> 1;
    debug_assert!((1..=0x7fd).contains(&power), "the power {power} is that of a normal double");
    debug_assert!(bits >> 53 <= 1, "the mantissa {bits:#x} has 53 bits, or is the next power of two");
    // a carry out of the mantissa by rounding up increments the exponent, which is correct
    Some(f64::from_bits(((power as u64 - 1) << 52) + bits))
}

/// As [`nearest_f64`], for a mantissa of more than 64 bits: there is a result if its upper 64 bits and their successor
/// give the same one.
fn nearest_f64_of_wide(mantissa: u128, exponent: i64) -> Option<f64> {
    if let Ok(narrow) = u64::try_from(mantissa) {
        return nearest_f64(narrow, exponent);
    }
    if exponent == 0 {
        return Some(mantissa as f64);
    }
    let shift = 64 - mantissa.leading_zeros();
    debug_assert!((1..=64).contains(&shift), "a mantissa of {} bits is wide", 64 + shift);
    let upper = (mantissa >> shift) as u64;
    let low = nearest_f64(upper, exponent)?;
    let is_exact = (upper as u128) << shift == mantissa;
    if !is_exact && nearest_f64(upper.checked_add(1)?, exponent)? != low {
        return None;
    }
    Some(low * f64::from_bits(u64::from(1023 + shift) << 52))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_whole(text: &str) -> Option<(f64, usize)> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(b'"');
        bytes.extend([0; PADDING_BYTES]);
        read_number::<b'.'>(&bytes, 0)
    }

    fn assert_agrees_with_library(text: &str) {
        let (value, end) = read_whole(text).unwrap_or_else(|| panic!("{text} was not read"));
        let expected: f64 = text.parse().unwrap();
        assert_eq!(end, text.len(), "{text}");
        assert_eq!(value.to_bits(), expected.to_bits(), "{text}: {value:e} for {expected:e}");
    }

    /// Xorshift: the same numbers in every run.
    struct Rng(u64);

    impl Rng {
        fn next_value(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }
    }

    #[test]
    fn reads_numbers_as_logs_write_them() {
        for text in [
            "0",
            "1",
            "7",
            "12345678",
            "123456789",
            "1000000000",
            "238132991823872",
            "18446744073709551615",
            "18446744073709551616",
            "99999999999999999999",
            "0.5",
            "0.0",
            "0.1",
            "0.3",
            "4096.000",
            "0.0033962159600104506463",
            "0.00017017433635980216728",
            "8.5699999999999996016e-005",
            "6.1447331737890964476",
            "104861.44932971142407",
            "99.534179835209144",
            "1.0",
            "1e5",
            "1E+005",
            "1e-5",
            "-1",
            "-0.25",
            "+3.5",
            "123456789012345678901234567890123456789012345",
            "0.000000000000000000000000001",
            "1.7976931348623157e308",
            "5e-324",
            "2.2250738585072011e-308",
            "1e-400",
            "0e999",
            "9007199254740993",
            "9007199254740993.0",
            "9007199254740992.5",
            "0.30000000000000004",
            "3.e5",
            "3.",
            "1.00000000000000011102230246251565404236316680908203125",
            "1.00000000000000011102230246251565404236316680908203124",
            "12345678.12345678",
            "1234567.12345678901",
            "8.12345678123456781234567812345678",
            "340282366920938463463374607431768211456.5",
        ] {
            assert_agrees_with_library(text);
        }
    }

    #[test]
    fn finds_the_end_of_a_number() {
        for (text, length) in
            [("1e", 1), ("1e+", 1), ("12,5", 2), ("1.5.2", 3), ("1 2", 1), ("1.5e-x", 3), ("1.#IND", 2)]
        {
            assert_eq!(read_whole(text).map(|(_, end)| end), Some(length), "{text}");
        }
        for text in ["1e400", "-1e309", "", " ", "-", "x", ".", "e5", "-.", "nan"] {
            assert_eq!(read_whole(text), None, "{text}");
        }
        assert_eq!(read_number::<b','>(b"12,5\"                ", 0), Some((12.5, 4)));
    }

    #[test]
    fn every_double_reads_back_as_itself_in_all_lengths() {
        let mut rng = Rng(0x9e37_79b9_7f4a_7c15);
        for _ in 0..60_000 {
            let value = f64::from_bits(rng.next_value() & 0x7fff_ffff_ffff_ffff);
            if !value.is_finite() {
                continue;
            }
            assert_agrees_with_library(&format!("{value:e}"));
            let near = 1e-6 + (rng.next_value() >> 11) as f64 / 2f64.powi(rng.next_value() as i32 % 64);
            for digits in [0, 1, 5, 10, 15, 17, 20, 25] {
                assert_agrees_with_library(&format!("{near:.digits$}"));
                assert_agrees_with_library(&format!("{near:.digits$e}"));
            }
        }
    }

    #[test]
    fn rounds_halves_to_the_even_double() {
        let mut rng = Rng(77);
        for _ in 0..60_000 {
            // 54 bits: the last one is exactly half of the distance
            let odd = (rng.next_value() >> 10 | 1 << 53) | 1;
            assert_agrees_with_library(&odd.to_string());
            assert_agrees_with_library(&format!("{odd}.0"));
            let down = rng.next_value() % 12;
            let exact = u128::from(odd) * 5u128.pow(down as u32);
            let text = exact.to_string();
            let (integer, fraction) = text.split_at(text.len() - down as usize);
            assert_agrees_with_library(&format!("{integer}.{fraction}0"));
            assert_agrees_with_library(&format!("{integer}.{fraction}000000001"));
            assert_agrees_with_library(&format!("{exact}e-{down}"));
            assert_agrees_with_library(&format!("{}e-{down}", exact - 1));
        }
    }

    #[test]
    fn reads_any_digits_at_any_place() {
        let mut rng = Rng(4711);
        for _ in 0..200_000 {
            let mut text = String::new();
            let length = 1 + rng.next_value() % 40;
            let point = rng.next_value() % 45;
            for index in 0..length {
                if index == point && index > 0 && index + 1 < length {
                    text.push('.');
                }
                text.push(char::from(b'0' + (rng.next_value() % 10) as u8));
            }
            if rng.next_value().is_multiple_of(4) {
                text += &format!("e{}", (rng.next_value() % 120) as i64 - 60);
            }
            assert_agrees_with_library(&text);
        }
    }
}
