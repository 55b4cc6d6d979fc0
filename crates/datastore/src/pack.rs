//! Texts, compressed where that helps.

/// Level that zstd works at. Texts are small and few.
const LEVEL: i32 = 12;

/// Appends `plain` compressed, or as it is after a 0 where that is shorter.
/// A dictionary is what the reader has already; it may be empty.
pub(crate) fn pack(plain: &[u8], dictionary: &[u8], out: &mut Vec<u8>) {
    let packed = zstd::bulk::Compressor::with_dictionary(LEVEL, dictionary).and_then(|mut zstd| zstd.compress(plain));
    match packed {
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

/// What `pack` made, if it is exactly `length` bytes long.
pub(crate) fn unpack(packed: &[u8], length: usize, dictionary: &[u8]) -> Option<Vec<u8>> {
    let (form, bytes) = packed.split_first()?;
    let plain = match form {
        0 if bytes.len() == length => bytes.to_owned(),
        1 => {
            let mut zstd = zstd::bulk::Decompressor::with_dictionary(dictionary).ok()?;
            zstd.decompress(bytes, length).ok()?
        }
        _ => return None,
    };
    (plain.len() == length).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_length_is_refused() {
        let mut packed = Vec::new();
        pack(&[7; 1000], &[], &mut packed);
        assert!(packed.len() < 100);
        assert_eq!(unpack(&packed, 1000, &[]), Some(vec![7; 1000]));
        assert_eq!(unpack(&packed, 999, &[]), None);
        assert_eq!(unpack(&packed, 1001, &[]), None);
    }
}
