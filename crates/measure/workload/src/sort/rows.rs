//! Rows of a sort: their format, creation, order and checksum.
//!
//! A row is a line of text of fixed length, so that other programs can sort the same file: the key, a space, the row's
//! number (16 hexadecimal digits), a space and filler, and a line end. Rows are ordered by the bytes of the key.

use std::cmp::Ordering;

use diskwright_base::Rng;

/// Smallest number of bytes of a row in addition to its key: a space, the number, the line end.
const MIN_BYTES_BESIDE_KEY: usize = 18;
/// Letters of keys and filler: 64, so that each holds six random bits.
const LETTERS: &[u8; 64] = b"+/0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// A multiplier whose bits are well spread (SplitMix64's increment).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Sizes of a row, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowShape {
    /// Bytes of a whole row, including its line end.
    pub row_bytes: usize,
    /// Bytes of the key, which is at the beginning of the row.
    pub key_bytes: usize,
}

impl RowShape {
    /// Checks that rows of this shape can be made.
    ///
    /// # Errors
    /// Says which size is impossible.
    pub fn check_sizes(self) -> Result<(), String> {
        if !(1..=4096).contains(&self.key_bytes) {
            return Err(format!("a key of {} bytes; expected 1 to 4096", self.key_bytes));
        }
        let min_bytes = self.key_bytes + MIN_BYTES_BESIDE_KEY;
        if !(min_bytes..=1 << 20).contains(&self.row_bytes) {
            return Err(format!(
                "a row of {} bytes; expected {min_bytes} (the key and {MIN_BYTES_BESIDE_KEY}) to 1 MiB",
                self.row_bytes
            ));
        }
        Ok(())
    }

    /// Makes the rows `first`, `first + 1`, … of a seed, as many as the buffer holds.
    pub fn make_rows(self, seed: u64, first: u64, buffer: &mut [u8]) {
        for (number, row) in (first..).zip(buffer.chunks_exact_mut(self.row_bytes)) {
            self.make_row(seed, number, row);
        }
    }

    fn make_row(self, seed: u64, number: u64, row: &mut [u8]) {
        let mut rng = Rng::new(seed, number);
        // a random number of 64 bits gives ten letters
        let (mut bits, mut letters_left) = (0, 0);
        let mut draw_letter = || {
            if letters_left == 0 {
                (bits, letters_left) = (rng.next_u64(), 10);
            }
            let letter = LETTERS[(bits & 63) as usize];
            (bits, letters_left) = (bits >> 6, letters_left - 1);
            letter
        };
        row[..self.key_bytes].fill_with(&mut draw_letter);
        row[self.key_bytes] = b' ';
        for (index, digit) in row[self.key_bytes + 1..self.key_bytes + 17].iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(number >> (60 - 4 * index) & 15) as usize];
        }
        let end = self.row_bytes - 1;
        if end > self.key_bytes + 17 {
            row[self.key_bytes + 17] = b' ';
            row[self.key_bytes + 18..end].fill_with(&mut draw_letter);
        }
        row[end] = b'\n';
    }

    /// Returns the first eight bytes of a row's key as a number that orders rows as these bytes do; [`Self::key_rest`]
    /// returns the remaining bytes.
    #[inline]
    #[must_use]
    pub fn key_prefix(self, row: &[u8]) -> u64 {
        if self.key_bytes >= 8 {
            return u64::from_be_bytes(row[..8].try_into().expect("eight bytes"));
        }
        let mut bytes = [0; 8];
        bytes[..self.key_bytes].copy_from_slice(&row[..self.key_bytes]);
        u64::from_be_bytes(bytes)
    }

    /// Returns the key after its first eight bytes.
    #[inline]
    #[must_use]
    pub fn key_rest(self, row: &[u8]) -> &[u8] {
        &row[self.key_bytes.min(8)..self.key_bytes]
    }
}

/// Checksum of a set of rows, independent of their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowSum {
    /// Number of rows.
    pub rows: u64,
    /// Sum of the rows' hashes.
    hash_sum: u64,
}

impl RowSum {
    /// Adds whole rows.
    pub fn add_rows(&mut self, shape: RowShape, rows: &[u8]) {
        for row in rows.chunks_exact(shape.row_bytes) {
            self.rows += 1;
            self.hash_sum = self.hash_sum.wrapping_add(hash_row(row));
        }
    }

    /// Adds another sum.
    pub fn add_sum(&mut self, other: RowSum) {
        self.rows += other.rows;
        self.hash_sum = self.hash_sum.wrapping_add(other.hash_sum);
    }
}

/// Hashes a row; the hash depends on each byte and its position.
fn hash_row(row: &[u8]) -> u64 {
    let mix = |state: u64, word: u64| {
        let wide = u128::from(state ^ word) * u128::from(MULTIPLIER);
        (wide >> 64) as u64 ^ wide as u64
    };
    let words = row.chunks_exact(8);
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    let state =
        words.fold(MULTIPLIER, |state, word| mix(state, u64::from_le_bytes(word.try_into().expect("eight bytes"))));
    mix(mix(state, u64::from_le_bytes(last)), row.len() as u64 | 1 << 63)
}

/// Checks that rows are in order, to verify the result of a sort.
#[derive(Debug)]
pub struct OrderCheck {
    shape: RowShape,
    last_key: Vec<u8>,
    /// Checksum of the rows.
    pub sum: RowSum,
}

impl OrderCheck {
    /// Creates a check without any rows.
    #[must_use]
    pub fn new(shape: RowShape) -> OrderCheck {
        OrderCheck { shape, last_key: Vec::new(), sum: RowSum::default() }
    }

    /// Checks the next whole rows.
    ///
    /// # Errors
    /// The number (from 0) of the first row whose key is less than the key of the previous row.
    pub fn check_rows(&mut self, rows: &[u8]) -> Result<(), u64> {
        for row in rows.chunks_exact(self.shape.row_bytes) {
            let key = &row[..self.shape.key_bytes];
            if !self.last_key.is_empty() && self.last_key.as_slice().cmp(key) == Ordering::Greater {
                return Err(self.sum.rows);
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
            self.sum.add_rows(self.shape, row);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: RowShape = RowShape { row_bytes: 100, key_bytes: 10 };

    #[test]
    fn rows_are_lines_of_text_that_follow_from_the_seed() {
        let mut rows = vec![0; 300];
        SHAPE.make_rows(7, 40, &mut rows);
        let text = String::from_utf8(rows.clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() == 3 && lines.iter().all(|line| line.len() == 99), "{text}");
        assert_eq!(&lines[2][10..28], " 000000000000002a ");
        let mut other = vec![0; 100];
        SHAPE.make_rows(7, 41, &mut other);
        assert_eq!(other, rows[100..200]);
        SHAPE.make_rows(8, 41, &mut other);
        assert_ne!(other, rows[100..200]);
    }

    #[test]
    fn a_sum_ignores_only_the_order() {
        let mut rows = vec![0; 300];
        SHAPE.make_rows(1, 0, &mut rows);
        let sum = |rows: &[u8]| {
            let mut sum = RowSum::default();
            sum.add_rows(SHAPE, rows);
            sum
        };
        let turned: Vec<u8> = rows.chunks(100).rev().flatten().copied().collect();
        assert_eq!(sum(&rows), sum(&turned));
        for place in [0, 50, 98, 299] {
            let mut wrong = rows.clone();
            wrong[place] ^= 1;
            assert_ne!(sum(&rows), sum(&wrong), "{place}");
        }
        let twice: Vec<u8> = rows[..100].iter().chain(&rows[..100]).chain(&rows[200..]).copied().collect();
        assert_ne!(sum(&rows), sum(&twice));
    }

    #[test]
    fn finds_disorder_and_accepts_equal_keys() {
        let mut rows = vec![0; 300];
        SHAPE.make_rows(1, 0, &mut rows);
        let mut sorted: Vec<&[u8]> = rows.chunks(100).collect();
        sorted.sort_unstable();
        let check = |rows: &[&[u8]]| OrderCheck::new(SHAPE).check_rows(&rows.concat());
        assert_eq!(check(&sorted), Ok(()));
        assert_eq!(check(&[sorted[0], sorted[2], sorted[1]]), Err(2));
        assert_eq!(check(&[sorted[0], sorted[0]]), Ok(()));
    }

    #[test]
    fn short_keys_order_as_their_bytes() {
        let shape = RowShape { row_bytes: 30, key_bytes: 3 };
        shape.check_sizes().unwrap();
        let row = |key: &[u8]| [key, b"~~~~~~~~~~~~~~~~~~~~~~~~~~\n"].concat();
        assert!(shape.key_prefix(&row(b"abc")) < shape.key_prefix(&row(b"abd")));
        assert_eq!(shape.key_prefix(&row(b"abc")), shape.key_prefix(&row(b"abc")));
        assert!(shape.key_rest(&row(b"abc")).is_empty());
        assert_eq!(SHAPE.key_rest(b"abcdefghijklm"), b"ij");
        assert!(RowShape { row_bytes: 20, key_bytes: 3 }.check_sizes().is_err());
        assert!(RowShape { row_bytes: 20, key_bytes: 0 }.check_sizes().is_err());
    }
}
