//! Self-describing pages: a number, a version and a checksum over the page, so that a lost, torn or misplaced write is
//! found whenever a page is read.

/// Size of the header: number, version, checksum.
const HEAD: usize = 24;
/// A multiplier whose bits are well spread (SplitMix64's increment).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Fault of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFault {
    /// Its bytes come from different writes.
    Torn,
    /// It is another page, with this number.
    Number(u64),
}

impl std::fmt::Display for PageFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PageFault::Torn => f.write_str("its bytes come from different writes (a torn page)"),
            PageFault::Number(number) => write!(f, "page {number} is there instead"),
        }
    }
}

/// Reads a 64-bit word of a page.
fn word(page: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(page[index * 8..index * 8 + 8].try_into().expect("eight bytes"))
}

/// Computes the checksum over all words except the checksum itself.
fn sum(page: &[u8]) -> u64 {
    let words = (0..page.len() / 8).filter(|index| *index != 2);
    words.fold(SPREAD, |sum, index| (sum ^ word(page, index)).wrapping_mul(SPREAD).rotate_left(23))
}

/// Fills a page with number, version, content that follows from both, and the checksum.
pub fn make(page: &mut [u8], number: u64, version: u64) {
    assert!(page.len() > HEAD && page.len().is_multiple_of(8), "a page of {} bytes", page.len());
    let mut state = number.wrapping_mul(SPREAD) ^ version;
    for part in page[HEAD..].chunks_exact_mut(8) {
        state = (state ^ (state >> 29)).wrapping_mul(SPREAD).wrapping_add(1);
        part.copy_from_slice(&state.to_le_bytes());
    }
    stamp(page, number, version);
}

/// Writes number, version and checksum for the present content of a page.
pub fn stamp(page: &mut [u8], number: u64, version: u64) {
    page[..8].copy_from_slice(&number.to_le_bytes());
    page[8..16].copy_from_slice(&version.to_le_bytes());
    let sum = sum(page);
    page[16..24].copy_from_slice(&sum.to_le_bytes());
}

/// Returns the version of a page, if it is intact and in its place.
///
/// # Errors
/// The fault of the page.
pub fn check(page: &[u8], number: u64) -> Result<u64, PageFault> {
    if word(page, 2) != sum(page) {
        return Err(PageFault::Torn);
    }
    if word(page, 0) != number {
        return Err(PageFault::Number(word(page, 0)));
    }
    Ok(word(page, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_and_misplaced_pages_are_found() {
        let mut page = vec![0; 8192];
        make(&mut page, 7, 3);
        assert_eq!(check(&page, 7), Ok(3));
        assert_eq!(check(&page, 8), Err(PageFault::Number(7)));
        let mut newer = vec![0; 8192];
        make(&mut newer, 7, 4);
        // half of a newer page over an older one
        newer[4096..].copy_from_slice(&page[4096..]);
        assert_eq!(check(&newer, 7), Err(PageFault::Torn));
        for place in [0, 9, 17, 24, 8191] {
            let mut wrong = page.clone();
            wrong[place] ^= 4;
            assert!(check(&wrong, 7).is_err(), "{place}");
        }
        assert!(check(&[0; 8192], 0).is_err(), "zeros are no page");
    }
}
