//! Self-describing pages: each has a number, a version and a checksum, so that a lost, torn or misplaced write is found
//! when the page is read.

/// Size of the header, bytes: number, version, checksum.
const HEADER_BYTES: usize = 24;
/// A multiplier whose bits are well spread (SplitMix64's increment).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Fault of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFault {
    /// Its bytes come from different writes.
    Torn,
    /// Another page, with this number, is in its place.
    WrongPage(u64),
}

impl std::fmt::Display for PageFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PageFault::Torn => f.write_str("its bytes come from different writes (a torn page)"),
            PageFault::WrongPage(number) => write!(f, "page {number} is there instead"),
        }
    }
}

/// Reads the 64-bit word number `index` of a page.
fn read_word(page: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(page[index * 8..index * 8 + 8].try_into().expect("eight bytes"))
}

/// Computes the checksum over all words except the checksum itself.
fn checksum(page: &[u8]) -> u64 {
    let words = (0..page.len() / 8).filter(|index| *index != 2);
    words.fold(MULTIPLIER, |sum, index| (sum ^ read_word(page, index)).wrapping_mul(MULTIPLIER).rotate_left(23))
}

/// Fills a page with number, version, content that follows from both, and the checksum.
pub fn fill_page(page: &mut [u8], number: u64, version: u64) {
    assert!(page.len() > HEADER_BYTES && page.len().is_multiple_of(8), "a page of {} bytes", page.len());
    let mut state = number.wrapping_mul(MULTIPLIER) ^ version;
    for word in page[HEADER_BYTES..].chunks_exact_mut(8) {
        state = (state ^ (state >> 29)).wrapping_mul(MULTIPLIER).wrapping_add(1);
        word.copy_from_slice(&state.to_le_bytes());
    }
    stamp_page(page, number, version);
}

/// Writes number, version and checksum for the current content of a page.
pub fn stamp_page(page: &mut [u8], number: u64, version: u64) {
    page[..8].copy_from_slice(&number.to_le_bytes());
    page[8..16].copy_from_slice(&version.to_le_bytes());
    let sum = checksum(page);
    page[16..24].copy_from_slice(&sum.to_le_bytes());
}

/// Returns the version of a page, if it is intact and in its place.
///
/// # Errors
/// The fault of the page.
pub fn check_page(page: &[u8], number: u64) -> Result<u64, PageFault> {
    if read_word(page, 2) != checksum(page) {
        return Err(PageFault::Torn);
    }
    if read_word(page, 0) != number {
        return Err(PageFault::WrongPage(read_word(page, 0)));
    }
    Ok(read_word(page, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_and_misplaced_pages_are_found() {
        let mut page = vec![0; 8192];
        fill_page(&mut page, 7, 3);
        assert_eq!(check_page(&page, 7), Ok(3));
        assert_eq!(check_page(&page, 8), Err(PageFault::WrongPage(7)));
        let mut newer = vec![0; 8192];
        fill_page(&mut newer, 7, 4);
        // half of a newer page over an older one
        newer[4096..].copy_from_slice(&page[4096..]);
        assert_eq!(check_page(&newer, 7), Err(PageFault::Torn));
        for place in [0, 9, 17, 24, 8191] {
            let mut wrong = page.clone();
            wrong[place] ^= 4;
            assert!(check_page(&wrong, 7).is_err(), "{place}");
        }
        assert!(check_page(&[0; 8192], 0).is_err(), "zeros are no page");
    }
}
