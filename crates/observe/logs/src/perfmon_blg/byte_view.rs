//! Little-endian numbers and UTF-16 texts at an index of bytes; `None` where the bytes end before.

/// View of the bytes.
#[derive(Clone, Copy)]
pub(super) struct ByteView<'a>(pub &'a [u8]);

impl<'a> ByteView<'a> {
    /// Reads a `u16`.
    pub fn read_u16(self, index: usize) -> Option<u16> {
        self.0.get(index..)?.first_chunk().map(|b| u16::from_le_bytes(*b))
    }

    /// Reads a `u32`.
    pub fn read_u32(self, index: usize) -> Option<u32> {
        self.0.get(index..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
    }

    /// Reads an `i32`.
    pub fn read_i32(self, index: usize) -> Option<i32> {
        self.read_u32(index).map(u32::cast_signed)
    }

    /// Reads a `u64`.
    pub fn read_u64(self, index: usize) -> Option<u64> {
        self.0.get(index..)?.first_chunk().map(|b| u64::from_le_bytes(*b))
    }

    /// Reads a length or index that is stored as a number.
    pub fn read_size(self, index: usize) -> Option<usize> {
        self.read_u32(index).and_then(|v| usize::try_from(v).ok())
    }

    /// Returns `length` bytes from index `from` on.
    pub fn slice(self, from: usize, length: usize) -> Option<ByteView<'a>> {
        self.0.get(from..from.checked_add(length)?).map(ByteView)
    }

    /// Returns all bytes from index `from` on.
    pub fn tail(self, from: usize) -> Option<ByteView<'a>> {
        self.0.get(from..).map(ByteView)
    }

    /// Reads UTF-16 up to a zero or the end.
    pub fn read_text(self, index: usize) -> Option<String> {
        let units = self.0.get(index..)?.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
        let text = char::decode_utf16(units.take_while(|&u| u != 0)).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
        Some(text.collect())
    }
}
