//! Integers of variable length, and a cursor over bytes that never reads
//! past the end.

/// Maps numbers of small magnitude and either sign to small unsigned numbers.
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Reverses [`zigzag`].
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Appends a number with seven bits per byte, low bits first.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a slice from its start.
pub(crate) struct ByteCursor<'a> {
    remaining: &'a [u8],
}

impl<'a> ByteCursor<'a> {
    /// Creates a cursor before the first byte.
    pub fn new(bytes: &'a [u8]) -> ByteCursor<'a> {
        ByteCursor { remaining: bytes }
    }

    /// Returns true if every byte was read.
    pub fn is_empty(&self) -> bool {
        self.remaining.is_empty()
    }

    /// Reads a byte; `None` at the end. All methods that read return `None` if too few bytes are left.
    pub fn read_byte(&mut self) -> Option<u8> {
        let (first, remaining) = self.remaining.split_first()?;
        self.remaining = remaining;
        Some(*first)
    }

    /// Reads `count` bytes.
    pub fn read_bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, remaining) = self.remaining.split_at_checked(count)?;
        self.remaining = remaining;
        Some(taken)
    }

    /// Reads a number written by [`put_varint`].
    pub fn read_varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.read_byte()?;
            let seven_bits = u64::from(byte & 0x7f);
            if seven_bits << shift >> shift != seven_bits {
                return None;
            }
            value |= seven_bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Reads a number of eight bytes.
    pub fn read_u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.read_bytes(8)?.try_into().ok()?))
    }

    /// Reads a length, then as many bytes of text.
    pub fn read_text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.read_varint()?).ok()?;
        std::str::from_utf8(self.read_bytes(length)?).ok()
    }
}

/// Appends a text so that [`ByteCursor::read_text`] reads it.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip() {
        for value in [0, 1, -1, 63, -64, 64, 300, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            put_varint(&mut out, zigzag(value));
            let mut cursor = ByteCursor::new(&out);
            assert_eq!(cursor.read_varint().map(unzigzag), Some(value));
            assert!(cursor.is_empty());
            assert_eq!(ByteCursor::new(&out[..out.len() - 1]).read_varint(), None, "cut short");
        }
    }

    #[test]
    fn rejects_an_overlong_varint() {
        let mut bytes = vec![0xff; 9];
        bytes.push(0x02);
        assert_eq!(ByteCursor::new(&bytes).read_varint(), None);
    }
}
