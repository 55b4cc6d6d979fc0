//! Sets of cells: a bit per cell; if few bits are set, only the nonzero bytes are stored.
//!
//! First a byte: 0, then all bytes of bits; or 1, then a bit for each byte
//! of bits (1: it is not 0) and the nonzero bytes.

use crate::varint::ByteCursor;

/// Bits in order, low bits first.
#[derive(Debug, Default)]
pub(super) struct BitPositions {
    words: Vec<u64>,
    length: usize,
}

impl BitPositions {
    /// Sets the `length` bits from a function of the index.
    pub fn set(&mut self, length: usize, mut bit: impl FnMut(usize) -> bool) {
        self.length = length;
        self.words.clear();
        for start in (0..length).step_by(64) {
            let mut word = 0;
            for index in start..length.min(start + 64) {
                word |= u64::from(bit(index)) << (index - start);
            }
            self.words.push(word);
        }
    }

    /// Counts the bits that are set.
    pub fn count_ones(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Calls `bit` with the index and value of each bit, in order.
    #[inline(always)]
    pub fn for_each_bit(&self, mut bit: impl FnMut(usize, bool)) {
        for (start, &word) in (0..self.length).step_by(64).zip(&self.words) {
            let mut word = word;
            for index in start..self.length.min(start + 64) {
                bit(index, word & 1 == 1);
                word >>= 1;
            }
        }
    }

    /// Calls `bit` with the index and value of each bit, from last to first.
    #[inline(always)]
    pub fn for_each_bit_reversed(&self, mut bit: impl FnMut(usize, bool)) {
        for (start, &word) in (0..self.length).step_by(64).zip(&self.words).rev() {
            for index in (start..self.length.min(start + 64)).rev() {
                bit(index, word >> (index - start) & 1 == 1);
            }
        }
    }

    fn bytes(&self) -> impl Iterator<Item = u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).take(self.length.div_ceil(8))
    }

    /// Appends the bits to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let length = self.length.div_ceil(8);
        let nonzero_bytes = self.bytes().filter(|byte| *byte != 0).count();
        if nonzero_bytes + length.div_ceil(8) >= length {
            out.push(0);
            out.extend(self.bytes());
            return;
        }
        out.push(1);
        for word in &self.words {
            let byte = |(bit, byte): (usize, u8)| u8::from(byte != 0) << bit;
            out.push(word.to_le_bytes().into_iter().enumerate().map(byte).sum());
        }
        out.extend(self.bytes().filter(|byte| *byte != 0));
    }

    /// Reads `length` bits; `None` if the bytes are invalid.
    pub fn read(&mut self, code: &mut ByteCursor, length: usize) -> Option<()> {
        self.length = length;
        self.words.clear();
        let count = length.div_ceil(8);
        match code.read_byte()? {
            0 => {
                for eight in code.read_bytes(count)?.chunks(8) {
                    let mut word = [0; 8];
                    word[..eight.len()].copy_from_slice(eight);
                    self.words.push(u64::from_le_bytes(word));
                }
            }
            1 => {
                for &mask in code.read_bytes(count.div_ceil(8))? {
                    let mut word = [0; 8];
                    for (index, byte) in word.iter_mut().enumerate() {
                        if mask >> index & 1 == 1 {
                            *byte = code.read_byte()?;
                        }
                    }
                    self.words.push(u64::from_le_bytes(word));
                }
            }
            _ => return None,
        }
        // Bits after the end must be 0, because `count_ones` counts them.
        let unused_bits = self.words.len() * 64 - length;
        let last = self.words.last().copied().unwrap_or(0);
        (unused_bits == 0 || last.leading_zeros() as usize >= unused_bits).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_round_trip_and_sparse_bits_are_short() {
        for length in [0usize, 1, 8, 63, 64, 65, 127, 953, 1024] {
            for every in [1usize, 2, 9, 100, 5000] {
                let mut places = BitPositions::default();
                places.set(length, |index| index % every == 0);
                let mut code = Vec::new();
                places.write(&mut code);
                let count = length.div_ceil(every);
                assert_eq!(places.count_ones(), count);
                assert!(code.len() <= 1 + length.div_ceil(8).min(length.div_ceil(64) + count));
                let mut back = BitPositions::default();
                let mut cursor = ByteCursor::new(&code);
                assert_eq!(back.read(&mut cursor, length), Some(()));
                assert!(cursor.is_empty());
                back.for_each_bit(|index, bit| assert_eq!(bit, index % every == 0));
                assert_eq!(back.words, places.words);
            }
        }
        assert_eq!(BitPositions::default().read(&mut ByteCursor::new(&[2, 0]), 8), None);
        assert_eq!(BitPositions::default().read(&mut ByteCursor::new(&[0, 0x10]), 4), None, "a bit behind the end");
        assert_eq!(BitPositions::default().read(&mut ByteCursor::new(&[0]), 4), None);
    }
}
