//! Writing and reading of single bits, low bits first.

/// Collects bits into bytes.
#[derive(Debug, Default)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    pending: u64,
    pending_bits: u32,
}

impl BitWriter {
    /// Removes all bits and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.pending = 0;
        self.pending_bits = 0;
    }

    /// Appends the lowest `count` bits of `value`; at most 64.
    pub fn put_bits(&mut self, value: u64, count: u32) {
        if count > 32 {
            self.put_bits(value & 0xffff_ffff, 32);
            return self.put_bits(value >> 32, count - 32);
        }
        debug_assert!(self.pending_bits < 32, "{} bits wait for their word", self.pending_bits);
        self.pending |= (value & ((1u64 << count) - 1)) << self.pending_bits;
        self.pending_bits += count;
        if self.pending_bits >= 32 {
            self.bytes.extend_from_slice(&(self.pending as u32).to_le_bytes());
            self.pending >>= 32;
            self.pending_bits -= 32;
        }
    }

    /// Appends the Elias gamma code of `value + 1`, which has twice as many bits as the number, minus one.
    pub fn put_gamma(&mut self, value: u64) {
        let value = value.saturating_add(1);
        let bits = value.ilog2();
        self.put_bits(0, bits);
        self.put_bits(1, 1);
        self.put_bits(value & !(1 << bits), bits);
    }

    /// Appends a number of any size: its length in 7 bits, then its bits.
    pub fn put_sized(&mut self, value: u64) {
        let bits = 64 - value.leading_zeros();
        self.put_bits(u64::from(bits), 7);
        // The highest bit is always 1, so it is not written.
        self.put_bits(value, bits.saturating_sub(1));
    }

    /// Appends all bytes to `out`; the last may contain fewer than eight bits.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let pending_bytes = self.pending_bits.div_ceil(8) as usize;
        self.bytes.extend_from_slice(&self.pending.to_le_bytes()[..pending_bytes]);
        out.extend_from_slice(&self.bytes);
        self.clear();
    }
}

/// Reads the bits of a [`BitWriter`]. Past the end it reads zeros; `is_overrun` reports that.
#[derive(Clone, Copy, Debug)]
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    position_bits: usize,
}

impl<'a> BitReader<'a> {
    /// Creates a reader before the first bit.
    pub fn new(bytes: &'a [u8]) -> BitReader<'a> {
        BitReader { bytes, position_bits: 0 }
    }

    /// Returns true if more bits were read than there are.
    pub fn is_overrun(&self) -> bool {
        self.position_bits > self.bytes.len() * 8
    }

    /// Returns at least 57 bits from the position on, with zeros after the end.
    #[inline(always)]
    fn peek_window(&self) -> u64 {
        let byte = self.position_bits >> 3;
        let word = match self.bytes.get(byte..byte + 8) {
            Some(eight) => {
                u64::from_le_bytes([eight[0], eight[1], eight[2], eight[3], eight[4], eight[5], eight[6], eight[7]])
            }
            None => self.last_window(byte),
        };
        word >> (self.position_bits & 7)
    }

    /// The window at the last bytes, where fewer than eight are left.
    #[cold]
    fn last_window(&self, byte: usize) -> u64 {
        let mut eight = [0; 8];
        let rest = self.bytes.get(byte..).unwrap_or(&[]);
        let count = rest.len().min(8);
        eight[..count].copy_from_slice(&rest[..count]);
        u64::from_le_bytes(eight)
    }

    /// Reads the next `count` bits; at most 56.
    #[inline(always)]
    pub fn read_few_bits(&mut self, count: u32) -> u64 {
        debug_assert!(count <= 56, "{count} bits may be more than a window has");
        let value = self.peek_window() & !(u64::MAX << (count & 63));
        self.position_bits += count as usize;
        value
    }

    /// Reads the next `count` bits; at most 64.
    pub fn read_bits(&mut self, count: u32) -> u64 {
        if count <= 56 {
            return self.read_few_bits(count);
        }
        let low = self.read_few_bits(32);
        low | self.read_few_bits(count - 32) << 32
    }

    /// Reads the next bit.
    pub fn read_bit(&mut self) -> bool {
        self.read_few_bits(1) == 1
    }

    /// Reads a number written by [`BitWriter::put_gamma`]; `None` if there is none.
    #[inline]
    pub fn read_gamma(&mut self) -> Option<u64> {
        let window = self.peek_window();
        let bits = window.trailing_zeros();
        // 27 zeros, the one and 27 bits are in any window
        if bits <= 27 {
            self.position_bits += 2 * bits as usize + 1;
            return Some((1 << bits | window >> (bits + 1) & ((1 << bits) - 1)) - 1);
        }
        self.read_long_gamma()
    }

    /// Reads a number whose code does not fit into one window.
    #[cold]
    fn read_long_gamma(&mut self) -> Option<u64> {
        let mut bits = 0;
        while !self.read_bit() {
            bits += 1;
            if bits > 63 || self.is_overrun() {
                return None;
            }
        }
        Some((1 << bits | self.read_bits(bits)) - 1)
    }

    /// Reads a number written by [`BitWriter::put_sized`]; `None` if there is none.
    pub fn read_sized(&mut self) -> Option<u64> {
        match self.read_few_bits(7) as u32 {
            0 => Some(0),
            bits @ 1..=64 => Some(1 << (bits - 1) | self.read_bits(bits - 1)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_round_trip() {
        let values = [0, 1, 2, 3, 7, 8, 255, 256, 1 << 31, (1 << 32) + 5, 1 << 55, u64::MAX >> 1, u64::MAX - 1];
        let mut writer = BitWriter::default();
        for value in values {
            writer.put_gamma(value);
            writer.put_sized(value);
            writer.put_bits(value, 64 - value.leading_zeros());
            writer.put_bits(1, 1);
        }
        let mut bytes = Vec::new();
        writer.finish(&mut bytes);
        let mut reader = BitReader::new(&bytes);
        for value in values {
            assert_eq!(reader.read_gamma(), Some(value));
            assert_eq!(reader.read_sized(), Some(value));
            assert_eq!(reader.read_bits(64 - value.leading_zeros()), value);
            assert!(reader.read_bit());
        }
        assert!(!reader.is_overrun());
        reader.read_bits(60);
        assert!(reader.is_overrun());
    }

    #[test]
    fn rejects_bits_that_hold_no_number() {
        assert_eq!(BitReader::new(&[]).read_gamma(), None);
        assert_eq!(BitReader::new(&[0; 20]).read_gamma(), None);
        assert_eq!(BitReader::new(&[0x7f, 0, 0]).read_sized(), None);
    }
}
