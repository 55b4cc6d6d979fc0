//! Compression of texts with zstd, where it makes them shorter.

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::CParameter;

/// Compression level of zstd. It can be high, because texts are small and few.
const ZSTD_LEVEL: i32 = 12;
/// Sizes of zstd's tables and window, as powers of two. The defaults of this level would
/// need more memory than the rest of a recorder, and save only 1 % more.
const ZSTD_SIZES: [CParameter; 3] = [CParameter::HashLog(16), CParameter::ChainLog(16), CParameter::WindowLog(18)];

/// Compressor that reuses zstd's memory from one text to the next.
#[derive(Default)]
pub(crate) struct Packer {
    zstd: Option<Compressor<'static>>,
}

impl Packer {
    /// Appends a 1 and `plain` compressed, or a 0 and `plain` unchanged if that is shorter.
    /// The dictionary is text that the reader already has; it may be empty.
    pub fn pack(&mut self, plain: &[u8], dictionary: &[u8], out: &mut Vec<u8>) {
        match self.compress(plain, dictionary) {
            Ok(packed) if packed.len() < plain.len() => {
                out.push(1);
                out.extend_from_slice(&packed);
            }
            _ => {
                out.push(0);
                out.extend_from_slice(plain);
            }
        }
    }

    fn compress(&mut self, plain: &[u8], dictionary: &[u8]) -> std::io::Result<Vec<u8>> {
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => none.insert(Compressor::new(ZSTD_LEVEL)?),
        };
        zstd.set_dictionary(ZSTD_LEVEL, dictionary)?;
        for size in ZSTD_SIZES {
            zstd.set_parameter(size)?;
        }
        zstd.compress(plain)
    }
}

/// Decompressor that reuses zstd's memory from one text to the next.
#[derive(Default)]
pub(crate) struct Unpacker {
    zstd: Option<Decompressor<'static>>,
    plain: Vec<u8>,
}

impl Unpacker {
    /// Reverses [`Packer::pack`]; `None` if the result is not exactly `length` bytes long.
    pub fn unpack(&mut self, packed: &[u8], length: usize, dictionary: &[u8]) -> Option<&[u8]> {
        let (form, bytes) = packed.split_first()?;
        self.plain.clear();
        match form {
            0 if bytes.len() == length => self.plain.extend_from_slice(bytes),
            1 => {
                let zstd = match &mut self.zstd {
                    Some(zstd) => zstd,
                    none => none.insert(Decompressor::new().ok()?),
                };
                zstd.set_dictionary(dictionary).ok()?;
                self.plain.reserve(length);
                zstd.decompress_to_buffer(bytes, &mut self.plain).ok()?;
            }
            _ => return None,
        }
        (self.plain.len() == length).then_some(&self.plain)
    }
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Packer")
    }
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unpacker")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_length_is_refused() {
        let mut packed = Vec::new();
        Packer::default().pack(&[7; 1000], &[], &mut packed);
        assert!(packed.len() < 100);
        let mut unpacker = Unpacker::default();
        assert_eq!(unpacker.unpack(&packed, 1000, &[]), Some(&[7; 1000][..]));
        assert_eq!(unpacker.unpack(&packed, 999, &[]), None);
        assert_eq!(unpacker.unpack(&packed, 1001, &[]), None);
    }

    #[test]
    fn a_dictionary_is_needed_once_it_was_used_and_not_after() {
        let text = "a text that is no part of itself: 0123456789 abcdefghij klmnopqrst".as_bytes();
        let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
        for dictionary in [text, &[], text] {
            let mut packed = Vec::new();
            packer.pack(text, dictionary, &mut packed);
            assert_eq!(packed.len() < 40, !dictionary.is_empty());
            assert_eq!(unpacker.unpack(&packed, text.len(), dictionary), Some(text));
        }
    }
}
