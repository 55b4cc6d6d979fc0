//! Pages of the kernel's ring buffer, as read from `trace_pipe_raw`.
//!
//! A page begins with the time of its first event and a word with the number of bytes that follow
//! (`include/linux/ring_buffer.h`, `kernel/trace/ring_buffer.c`). A record begins with a word: 5 bits hold its type or
//! length, 27 bits the time since the previous record. Types above 28 are padding, a long time difference, and an
//! absolute time; all others are events.

use crate::layout::PageLayout;

/// Flag in a page's word: events were missed before the page.
const MISSED_FLAG: u64 = 1 << 31;
/// Flag in a page's word: the number of missed events follows the events.
const MISSED_STORED_FLAG: u64 = 1 << 30;
/// Mask of the number of used bytes in a page's word, up to 128 MiB.
const USED_BYTES_MASK: u64 = (1 << 27) - 1;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of time in an event's first word.
const TIME_BITS: u32 = 27;
/// Mask of the 59 bits of an absolute time; the higher bits are those of the page's time.
const ABSOLUTE_TIME_MASK: u64 = (1 << 59) - 1;

/// Result of reading a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageSummary {
    /// Number of events read.
    pub events: u64,
    /// Events were missed before this page.
    pub is_after_loss: bool,
    /// Number of missed events, where the kernel stores it.
    pub missed_events: Option<u64>,
    /// The page ended in the middle of an event, or was invalid.
    pub is_truncated: bool,
}

/// Splits the first word of an event into type or length, and time since the previous event.
fn split_header(word: u32) -> (u32, u32) {
    // the kernel's bit fields start at the lowest bit on little-endian machines, at the highest on big-endian ones
    if cfg!(target_endian = "little") {
        (word & 31, word >> 5)
    } else {
        (word >> TIME_BITS, word & ((1 << TIME_BITS) - 1))
    }
}

fn read_u32(page: &[u8], offset: usize) -> Option<u32> {
    page.get(offset..)?.first_chunk::<4>().map(|b| u32::from_ne_bytes(*b))
}

fn read_u64(page: &[u8], offset: usize) -> Option<u64> {
    page.get(offset..)?.first_chunk::<8>().map(|b| u64::from_ne_bytes(*b))
}

/// Passes every event of a page, with its time in nanoseconds, to `each`. Never reads beyond the page, whatever its
/// contents.
pub fn read_events(page: &[u8], layout: &PageLayout, mut each: impl FnMut(u64, &[u8])) -> PageSummary {
    let mut summary = PageSummary::default();
    let commit = match layout.commit.size {
        4 => read_u32(page, layout.commit.offset).map(u64::from),
        _ => read_u64(page, layout.commit.offset),
    };
    let (Some(start), Some(commit)) = (read_u64(page, 0), commit) else {
        summary.is_truncated = !page.is_empty();
        return summary;
    };
    summary.is_after_loss = commit & MISSED_FLAG != 0;
    let used = layout.data.saturating_add((commit & USED_BYTES_MASK) as usize);
    if summary.is_after_loss && commit & MISSED_STORED_FLAG != 0 {
        summary.missed_events = match layout.commit.size {
            4 => read_u32(page, used).map(u64::from),
            _ => read_u64(page, used),
        };
    }
    summary.is_truncated = used > page.len();
    let page = &page[..used.min(page.len())];
    let mut offset = layout.data;
    let mut time = start;
    while offset < page.len() {
        let Some(length) = read_record(page, offset, &mut time, &mut summary, &mut each) else {
            summary.is_truncated = true;
            break;
        };
        if length == 0 {
            break;
        }
        debug_assert!(length >= 8, "a record of {length} bytes; each has at least two words");
        offset += length;
    }
    summary
}

/// Reads the record at `offset`; returns its length, 0 for padding up to the end, `None` for a truncated record.
fn read_record(
    page: &[u8],
    offset: usize,
    time: &mut u64,
    summary: &mut PageSummary,
    each: &mut impl FnMut(u64, &[u8]),
) -> Option<usize> {
    let (kind, delta) = split_header(read_u32(page, offset)?);
    let delta = u64::from(delta);
    match kind {
        PADDING if delta == 0 => Some(0),
        PADDING => {
            // a discarded event; the time of the next record counts from it
            *time = time.wrapping_add(delta);
            let length = read_u32(page, offset + 4)? as usize;
            // the length counts from its own word
            (length >= 4).then(|| length.saturating_add(4))
        }
        TIME_EXTEND => {
            let high_bits = u64::from(read_u32(page, offset + 4)?) << TIME_BITS;
            *time = time.wrapping_add(high_bits + delta);
            Some(8)
        }
        TIME_STAMP => {
            let absolute = (u64::from(read_u32(page, offset + 4)?) << TIME_BITS) + delta;
            *time = (*time & !ABSOLUTE_TIME_MASK) | (absolute & ABSOLUTE_TIME_MASK);
            Some(8)
        }
        _ => {
            let (start, length) = match kind {
                // the length is in the second word, and counts from that word
                0 => (offset + 8, (read_u32(page, offset + 4)? as usize).checked_sub(4)?),
                kind => (offset + 4, kind as usize * 4),
            };
            let data = page.get(start..start.checked_add(length)?)?;
            *time = time.wrapping_add(delta);
            summary.events += 1;
            each(*time, data);
            Some(start + length.next_multiple_of(4) - offset)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::FieldPosition;

    const LAYOUT: PageLayout = PageLayout { commit: FieldPosition { offset: 8, size: 8 }, data: 16, bytes: 4096 };

    fn first(kind: u32, delta: u32) -> [u8; 4] {
        let word = if cfg!(target_endian = "little") { kind | delta << 5 } else { kind << 27 | delta };
        word.to_ne_bytes()
    }

    fn page(start: u64, flags: u64, parts: &[&[u8]]) -> Vec<u8> {
        let data = parts.concat();
        let mut page = start.to_ne_bytes().to_vec();
        page.extend((data.len() as u64 | flags).to_ne_bytes());
        page.extend(data);
        page
    }

    fn events(page: &[u8]) -> (Vec<(u64, Vec<u8>)>, PageSummary) {
        let mut found = Vec::new();
        let summary = read_events(page, &LAYOUT, |time, data| found.push((time, data.to_vec())));
        (found, summary)
    }

    #[test]
    fn times_add_up_over_every_kind_of_record() {
        let page = page(
            1000,
            0,
            &[
                &first(1, 0),
                b"aaaa",
                &first(2, 5),
                b"bbbbbbbb",
                // discarded: its time counts
                &first(29, 10),
                &8u32.to_ne_bytes(),
                b"xxxx",
                // 2 times 2^27 and 3
                &first(30, 3),
                &2u32.to_ne_bytes(),
                // of its own length
                &first(0, 1),
                &12u32.to_ne_bytes(),
                b"cccccccc",
                // absolute
                &first(31, 7),
                &1u32.to_ne_bytes(),
                &first(1, 1),
                b"dddd",
                &first(29, 0),
                b"the rest is never looked at",
            ],
        );
        let (found, summary) = events(&page);
        let long = 1015 + (2 << 27) + 3 + 1;
        let expected: [(u64, &[u8]); 4] =
            [(1000, b"aaaa"), (1005, b"bbbbbbbb"), (long, b"cccccccc"), ((1 << 27) + 8, b"dddd")];
        assert_eq!(found.len(), expected.len());
        for ((time, data), (expected_time, bytes)) in found.iter().zip(expected) {
            assert_eq!((*time, data.as_slice()), (expected_time, bytes));
        }
        assert_eq!(summary, PageSummary { events: 4, ..PageSummary::default() });
    }

    #[test]
    fn missed_events_are_counted_where_the_kernel_stores_them() {
        let counted =
            [&page(0, MISSED_FLAG | MISSED_STORED_FLAG, &[&first(1, 0), b"aaaa"])[..], &77u64.to_ne_bytes()].concat();
        let (found, summary) = events(&counted);
        assert_eq!((found.len(), summary.is_after_loss, summary.missed_events), (1, true, Some(77)));
        let uncounted = page(0, MISSED_FLAG, &[&first(1, 0), b"aaaa"]);
        assert_eq!(events(&uncounted).1.missed_events, None);
        assert!(events(&uncounted).1.is_after_loss);
    }

    #[test]
    fn a_truncated_page_gives_its_complete_events() {
        let full_page = page(9, 0, &[&first(1, 0), b"aaaa", &first(1, 1), b"bbbb", &first(1, 1), b"cccc"]);
        for cut in 0..full_page.len() {
            let (found, summary) = events(&full_page[..cut]);
            assert_eq!(found.len(), cut.saturating_sub(16) / 8, "{cut}");
            assert_eq!(summary.is_truncated, cut > 0, "{cut}");
        }
        // lengths that make no sense
        for bad in [[&first(0, 0)[..], &3u32.to_ne_bytes()], [&first(29, 1)[..], &0u32.to_ne_bytes()]] {
            assert!(events(&page(9, 0, &bad)).1.is_truncated);
        }
        let huge = page(9, 0, &[&first(0, 0), &u32::MAX.to_ne_bytes(), b"aaaa"]);
        assert_eq!(events(&huge).0.len(), 0);
        assert!(events(&huge).1.is_truncated);
    }
}
