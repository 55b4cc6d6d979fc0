//! Streams of 64-bit numbers, in groups of [`GROUP_NUMBERS`]: each group with its
//! smallest number, the low bits that all share, and as many bits per number as its
//! range needs; or, if that is shorter, as differences from number to number.
//!
//! A group: a byte (bits per number, 0 to 64, plus 128 for differences); then,
//! unless differences are stored, the count of shared low bits u8 and the smallest
//! number i64; then the numbers, low bits first, padded to a whole byte.

use crate::varint::{ByteCursor, unzigzag, zigzag};

/// Numbers in a group.
pub(super) const GROUP_NUMBERS: usize = 128;
/// Bit of a group's first byte: differences are stored.
const DIFFERENCES_FLAG: u8 = 0x80;
/// Bytes before the numbers of a group that does not store differences.
const FIXED_BYTES: u32 = 1 + 1 + 8;

/// Appends the numbers. Differences are tried only if `tries_differences` is true: those of
/// the bits of floats are never short.
pub(super) fn write_numbers(out: &mut Vec<u8>, numbers: &[i64], tries_differences: bool) {
    let mut before = 0;
    for group in numbers.chunks(GROUP_NUMBERS) {
        let differences_width = tries_differences.then(|| {
            let mut used_bits = 0;
            let mut previous = before;
            for &number in group {
                used_bits |= zigzag(number.wrapping_sub(previous));
                previous = number;
            }
            64 - used_bits.leading_zeros()
        });
        write_group(out, group, before, differences_width);
        before = group.last().copied().unwrap_or(before);
    }
}

/// Appends a group. `before` is the number before it; `differences_width` is the number of bits that each of its
/// differences needs, if they may be stored.
fn write_group(out: &mut Vec<u8>, group: &[i64], before: i64, differences_width: Option<u32>) {
    let first = group.first().copied().unwrap_or(0);
    let (mut min, mut max, mut different_bits) = (first, first, 0);
    for &number in group {
        min = min.min(number);
        max = max.max(number);
        different_bits |= number ^ first;
    }
    let range = max.wrapping_sub(min) as u64;
    let shift = if different_bits == 0 { 0 } else { different_bits.trailing_zeros() };
    let width = 64 - (range >> shift).leading_zeros();
    let length = group.len() as u32;
    let max_differences_bits = width * length + (FIXED_BYTES - 1) * 8;
    if let Some(differences_width) = differences_width.filter(|width| width * length <= max_differences_bits) {
        out.push(DIFFERENCES_FLAG | differences_width as u8);
        let mut previous = before;
        let difference = |number: &i64| {
            let difference = zigzag(number.wrapping_sub(previous));
            previous = *number;
            difference
        };
        return pack_bits(out, group.iter().map(difference), differences_width);
    }
    out.push(width as u8);
    out.push(shift as u8);
    out.extend_from_slice(&min.to_le_bytes());
    pack_bits(out, group.iter().map(|number| (number.wrapping_sub(min) as u64) >> shift), width);
}

/// Appends the low `width` bits of each of at most [`GROUP_NUMBERS`] numbers, whose
/// other bits must be 0.
#[inline(always)]
fn pack_bits(out: &mut Vec<u8>, numbers: impl ExactSizeIterator<Item = u64>, width: u32) {
    assert!(numbers.len() <= GROUP_NUMBERS && width <= 64, "{} numbers of {width} bits", numbers.len());
    let bytes = (numbers.len() * width as usize).div_ceil(8);
    let mut words = [0u64; GROUP_NUMBERS + 1];
    let (mut word, mut filled, mut index) = (0u64, 0u32, 0usize);
    for number in numbers {
        debug_assert_eq!(number.checked_shr(width).unwrap_or(0), 0, "{number:#x} has at most {width} bits");
        word |= number << (filled & 63);
        filled += width;
        // Written each time, counted only when full: no branch to mispredict.
        words[index.min(GROUP_NUMBERS)] = word;
        let is_full = filled >= 64;
        index += usize::from(is_full);
        filled &= 63;
        let carried_bits = number.checked_shr(width.wrapping_sub(filled)).unwrap_or(0);
        word = if is_full { carried_bits } else { word };
    }
    debug_assert!(index <= GROUP_NUMBERS, "a word for each number, at most");
    words[index.min(GROUP_NUMBERS)] = word;
    let start = out.len();
    out.resize(start + bytes.next_multiple_of(8), 0);
    for (eight, word) in out[start..].chunks_exact_mut(8).zip(&words) {
        eight.copy_from_slice(&word.to_le_bytes());
    }
    out.truncate(start + bytes);
}

/// Fills `numbers`; `None` if the bytes end too early or [`write_numbers`] cannot have
/// written them.
pub(super) fn read_numbers(code: &mut ByteCursor, numbers: &mut [i64]) -> Option<()> {
    let mut before = 0i64;
    let mut packed = [0u8; GROUP_NUMBERS * 8 + 16];
    for group in numbers.chunks_mut(GROUP_NUMBERS) {
        let head = code.read_byte()?;
        let width = u32::from(head & !DIFFERENCES_FLAG);
        if width > 64 {
            return None;
        }
        let has_differences = head & DIFFERENCES_FLAG != 0;
        let (shift, min) = match has_differences {
            true => (0, 0),
            false => (u32::from(code.read_byte()?), code.read_u64()? as i64),
        };
        let bytes = (group.len() * width as usize).div_ceil(8);
        packed[..bytes].copy_from_slice(code.read_bytes(bytes)?);
        packed[bytes..bytes + 16].fill(0);
        if shift > 63 {
            return None;
        }
        let to_number = |bits: u64| min.wrapping_add((bits << shift) as i64);
        match (has_differences, width) {
            (true, _) => {
                let mut number = before;
                unpack_bits(&packed, width, group, |bits| {
                    number = number.wrapping_add(unzigzag(bits));
                    number
                });
            }
            (false, 0) => group.fill(min),
            (false, _) => unpack_bits(&packed, width, group, to_number),
        }
        before = group.last().copied().unwrap_or(before);
    }
    Some(())
}

/// Reads `width` bits for each number of the group and converts them with `to_number`.
#[inline(always)]
fn unpack_bits(
    packed: &[u8; GROUP_NUMBERS * 8 + 16],
    width: u32,
    group: &mut [i64],
    mut to_number: impl FnMut(u64) -> i64,
) {
    debug_assert!(width <= 64 && group.len() <= GROUP_NUMBERS, "{} numbers of {width} bits", group.len());
    let mask = u64::MAX.checked_shr(64 - width).unwrap_or(0);
    let word = |index: usize| {
        let eight = packed.get(index..).and_then(|rest| rest.first_chunk::<8>());
        eight.map_or(0, |eight| u64::from_le_bytes(*eight))
    };
    let mut bit = 0;
    if width <= 57 {
        for number in group {
            *number = to_number(word(bit >> 3) >> (bit & 7) & mask);
            bit += width as usize;
        }
    } else {
        for number in group {
            let low = word(bit >> 3) >> (bit & 7);
            // Bits of the ninth byte. Two shifts, by 1 and by up to 63, because a shift by 64 is not allowed.
            let high = word((bit >> 3) + 8) << 1 << (63 - (bit & 7));
            *number = to_number((low | high) & mask);
            bit += width as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(numbers: &[i64]) -> usize {
        let mut length = 0;
        for steps in [true, false] {
            let mut code = Vec::new();
            write_numbers(&mut code, numbers, steps);
            length = code.len();
            let mut back = vec![0; numbers.len()];
            let mut cursor = ByteCursor::new(&code);
            assert_eq!(read_numbers(&mut cursor, &mut back), Some(()));
            assert!(cursor.is_empty());
            assert_eq!(back, numbers, "steps {steps}");
            for cut in 0..code.len() {
                assert_eq!(read_numbers(&mut ByteCursor::new(&code[..cut]), &mut back), None, "cut at {cut}");
            }
        }
        length
    }

    #[test]
    fn numbers_of_every_width_round_trip() {
        for width in 0..=64u32 {
            let mask = u64::MAX.checked_shr(64 - width).unwrap_or(0);
            let number = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask) as i64;
            for length in [0, 1, 2, 127, 128, 129, 200] {
                round_trip(&(0..length).map(number).collect::<Vec<i64>>());
                round_trip(&(0..length).map(|i| number(i).wrapping_neg()).collect::<Vec<i64>>());
            }
        }
        round_trip(&[i64::MIN, i64::MAX, 0, -1, 1]);
    }

    #[test]
    fn shared_bits_are_stored_once() {
        let large: Vec<i64> = (0..128).map(|i| (1 << 60) + (i * 37 % 16) * 4096).collect();
        assert!(round_trip(&large) <= 10 + 64, "4 bits a number");
        let steady: Vec<i64> = (0..128).map(|i| i * 3).collect();
        let mut code = Vec::new();
        write_numbers(&mut code, &steady, true);
        assert!(code.len() <= 1 + 48, "3 bits a step: {}", code.len());
    }
}
