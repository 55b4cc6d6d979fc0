//! The longest name of a counter or an instance. The kernel's paths have at most 4,096 bytes; a damaged or hostile log
//! may have names of megabytes, which every table, key and chart would copy.

use crate::checksum::hash_fnv1a;

/// Longest name, bytes.
pub const MAX_NAME_BYTES: usize = 4352;
/// Bytes of the mark at a cut name's end: an ellipsis, `#`, and the hash of the whole name.
const MARK_BYTES: usize = "…#".len() + 16;

/// Cuts a name that is too long. The hash of the whole name stands at its end, so that names which differ still do.
pub fn limit_name(name: &mut String) {
    if name.len() <= MAX_NAME_BYTES {
        return;
    }
    let hash = hash_fnv1a(name.as_bytes());
    let mut end = MAX_NAME_BYTES - MARK_BYTES;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    name.push_str(&format!("…#{hash:016x}"));
    name.shrink_to_fit();
}

/// True for a name that [`limit_name`] has cut.
pub fn is_cut_name(name: &str) -> bool {
    let is_long = name.len() > MAX_NAME_BYTES - MARK_BYTES && name.len() <= MAX_NAME_BYTES;
    let mark = name.rsplit_once("…#").map_or("", |(_, hash)| hash);
    is_long && mark.len() == 16 && mark.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited_copy(name: &str) -> String {
        let mut name = name.to_owned();
        limit_name(&mut name);
        name
    }

    #[test]
    fn names_within_the_limit_stay() {
        let longest = "x".repeat(MAX_NAME_BYTES);
        for name in ["", "sda", longest.as_str()] {
            assert_eq!(limited_copy(name), name);
            assert!(!is_cut_name(name));
        }
    }

    #[test]
    fn cut_names_still_differ() {
        let (one, other) = (limited_copy(&"x".repeat(1 << 20)), limited_copy(&format!("{}y", "x".repeat(1 << 20))));
        assert_ne!(one, other);
        for name in [&one, &other, &limited_copy(&"磁".repeat(5000))] {
            assert!(
                is_cut_name(name) && name.len() <= MAX_NAME_BYTES && limited_copy(name) == **name,
                "{} bytes",
                name.len()
            );
        }
    }
}
