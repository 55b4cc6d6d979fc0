//! A checksum that tells texts and contents apart in names of files and in schemas. It is not safe against people who
//! look for two inputs with the same sum.

/// Computes the 64-bit FNV-1a hash of bytes (Fowler, Noll and Vo; RFC 9923).
pub fn hash_fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::hash_fnv1a;

    #[test]
    fn matches_the_published_test_vectors() {
        for (bytes, hash) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(hash_fnv1a(bytes.as_bytes()), hash, "{bytes}");
        }
    }
}
