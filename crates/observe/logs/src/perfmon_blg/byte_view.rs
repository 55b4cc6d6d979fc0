//! Little-endian numbers and UTF-16 texts at an offset in bytes; `None` if they reach beyond the end.

/// View of the bytes.
#[derive(Clone, Copy)]
pub(super) struct ByteView<'a>(pub &'a [u8]);

impl<'a> ByteView<'a> {
    /// Reads a `u16`.
    pub fn read_u16(self, offset: usize) -> Option<u16> {
        self.0.get(offset..)?.first_chunk().map(|b| u16::from_le_bytes(*b))
    }

    /// Reads a `u32`.
    pub fn read_u32(self, offset: usize) -> Option<u32> {
        self.0.get(offset..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
    }

    /// Reads an `i32`.
    pub fn read_i32(self, offset: usize) -> Option<i32> {
        self.read_u32(offset).map(u32::cast_signed)
    }

    /// Reads a `u64`.
    pub fn read_u64(self, offset: usize) -> Option<u64> {
        self.0.get(offset..)?.first_chunk().map(|b| u64::from_le_bytes(*b))
    }

    /// Reads a length or offset that is stored as a number.
    pub fn read_size(self, offset: usize) -> Option<usize> {
        self.read_u32(offset).and_then(|v| usize::try_from(v).ok())
    }

    /// Returns `length` bytes from `offset` on.
    pub fn slice(self, offset: usize, length: usize) -> Option<ByteView<'a>> {
        self.0.get(offset..offset.checked_add(length)?).map(ByteView)
    }

    /// Returns all bytes from `offset` on.
    pub fn tail(self, offset: usize) -> Option<ByteView<'a>> {
        self.0.get(offset..).map(ByteView)
    }

    /// Reads UTF-16 up to a zero or the end.
    pub fn read_text(self, offset: usize) -> Option<String> {
        let units = self.0.get(offset..)?.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
        let text = char::decode_utf16(units.take_while(|&u| u != 0)).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
        Some(text.collect())
    }
}
