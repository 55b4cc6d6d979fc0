//! Text that `blkparse` writes from a blktrace:
//!
//! ```text
//!   8,0    1       42     0.000034561 31365  D   R 31616 + 8 [fio]
//! ```
//!
//! The columns are device, processor, sequence, seconds, process, action, letters of the operation, first sector and
//! number of sectors. The summary after the events is not read.

use diskwright_base::Operation;
use diskwright_logs::InputHead;

use super::{TraceFormat, TraceShape, most_lines_match};
use crate::events::{MAX_SECTOR, TraceEvent, TraceEventKind};
use crate::text_fields::{parse_nanoseconds, parse_whole, split_fields};

pub(super) const FORMAT: TraceFormat = TraceFormat {
    id: "blkparse",
    title: "blkparse text: events of a blktrace",
    explain: "Default output of `blkparse -i NAME`. Q, D and C events form requests, as with blktrace, and \
              remaps are followed. Times count from the start of the trace.",
    matches_head,
    wall_clock: false,
    shape: TraceShape::EventLines,
};

fn matches_head(head: &InputHead<'_>) -> bool {
    // one line is enough, because a short trace has more lines of summary than of events
    most_lines_match(head, 1, |line| {
        let fields: Vec<&[u8]> = split_fields(line).take(7).collect();
        fields.len() == 7
            && parse_device(fields[0]).is_some()
            && parse_whole(fields[1]).is_some()
            && fields[3].contains(&b'.')
            && parse_nanoseconds(fields[3], 1_000_000_000).is_some()
            && fields[5].len() <= 2
            && fields[5].iter().all(u8::is_ascii_alphabetic)
    })
}

/// Parses `8,0` into the kernel's number of the device.
fn parse_device(field: &[u8]) -> Option<u32> {
    let comma = field.iter().position(|b| *b == b',')?;
    let (major, minor) = (parse_whole(&field[..comma])?, parse_whole(&field[comma + 1..])?);
    (major < 1 << 12 && minor < 1 << 20).then_some(((major << 20) | minor) as u32)
}

/// Parses a line into an event with its time, nanoseconds. Returns `None` for a line without an event of a request, and
/// the reason if the line is damaged.
pub(crate) fn parse_line(line: &[u8]) -> Result<Option<(i64, TraceEvent)>, &'static str> {
    let mut fields = split_fields(line);
    // the lines of the summary do not begin with a device
    let Some(device) = fields.next().and_then(parse_device) else { return Ok(None) };
    let seconds = fields.nth(2).ok_or("fewer than four columns")?;
    let time_ns = parse_nanoseconds(seconds, 1_000_000_000).ok_or("column 4: expected seconds")?;
    let action = fields.nth(1).ok_or("fewer than six columns")?;
    let kind = match action {
        b"Q" => TraceEventKind::Queue,
        b"A" => TraceEventKind::Remap,
        b"X" => TraceEventKind::Split,
        b"D" => TraceEventKind::Issue,
        b"R" => TraceEventKind::Requeue,
        b"C" => TraceEventKind::Complete,
        _ => return Ok(None),
    };
    let letters = fields.next().ok_or("fewer than seven columns")?;
    let (sector, sign, count) =
        (fields.next().and_then(parse_whole), fields.next(), fields.next().and_then(parse_whole));
    let mut source_device = 0;
    let (sector, sectors, mut other_sector) = match (sector, sign, count) {
        (Some(sector), Some(b"+"), Some(count)) if count < MAX_REQUEST_SECTORS => (sector, count as u32, 0),
        (Some(_), Some(b"+"), Some(_)) => return Err("column 10: a length of more than 4 GiB"),
        // a split has the sector of its second part instead of a length
        (Some(sector), Some(b"/"), Some(second)) => (sector, 1, second),
        _ => (0, 0, 0),
    };
    if sector >= MAX_SECTOR {
        return Err("a sector number beyond any disk");
    }
    if kind == TraceEventKind::Remap {
        (source_device, other_sector) = parse_remap_source(&mut fields).unwrap_or((device, sector));
    }
    let has_letter = |letter: u8| letters.contains(&letter);
    let operation = match sectors {
        0 if letters.first() == Some(&b'F') => Operation::Flush,
        0 => return Ok(None),
        _ if has_letter(b'D') => Operation::Discard,
        _ if has_letter(b'W') => Operation::Write,
        _ if has_letter(b'R') => Operation::Read,
        _ => return Err("column 7: expected a read, write, flush or discard"),
    };
    Ok(Some((time_ns, TraceEvent { device, kind, operation, sector, sectors, other_sector, source_device })))
}

/// Parses the source of a remap, `<- (8,5) 223488`: device and sector.
fn parse_remap_source<'a>(fields: &mut impl Iterator<Item = &'a [u8]>) -> Option<(u32, u64)> {
    fields.next().filter(|arrow| *arrow == b"<-")?;
    let device = fields.next()?.strip_prefix(b"(")?.strip_suffix(b")").and_then(parse_device)?;
    Some((device, fields.next().and_then(parse_whole)?))
}

/// Number of sectors from which the length of a request, in bytes, exceeds 32 bits.
const MAX_REQUEST_SECTORS: u64 = 1 << 23;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_events_and_ignores_other_lines() {
        let parsed = |text: &str| {
            parse_line(text.as_bytes()).map(|found| found.map(|(t, e)| (t, e.kind, e.operation, e.sector)))
        };
        let issue = "  7,16   1        0     0.000034561 31365  D   R 31616 + 8 [(null)]";
        assert_eq!(parsed(issue), Ok(Some((34_561, TraceEventKind::Issue, Operation::Read, 31616))));
        let flush = "  7,16   1        0     2.704687345 31377  Q FWS [(null)]";
        assert_eq!(parsed(flush), Ok(Some((2_704_687_345, TraceEventKind::Queue, Operation::Flush, 0))));
        let remap = "  8,0    3        1     0.000000000   697  A   W 223490 + 8 <- (8,5) 223488";
        assert_eq!(parsed(remap), Ok(Some((0, TraceEventKind::Remap, Operation::Write, 223_490))));
        let event = parse_line(remap.as_bytes()).unwrap().unwrap().1;
        assert_eq!((event.source_device, event.other_sector), ((8 << 20) | 5, 223_488));
        let split = parse_line(b"  8,0    3        1     0.000000000   697  X   W 0 / 64 [x]").unwrap().unwrap().1;
        assert_eq!((split.kind, split.other_sector), (TraceEventKind::Split, 64));
        for nothing in ["", "CPU0 (out):", " Reads Queued:        3165,    27360KiB", "  7,16 1 0 0.0 31365 P N [x]"] {
            assert_eq!(parsed(nothing), Ok(None), "{nothing}");
        }
        for wrong in ["8,0 1 0", "8,0 1 0 x 1 D R 0 + 8 [a]", "8,0 1 0 0.1 1 D N 0 + 8 [a]"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn parses_device_numbers() {
        assert_eq!(parse_device(b"8,3"), Some((8 << 20) | 3));
        for wrong in ["8", "8,", "4096,0", "1,1048576", "a,b"] {
            assert_eq!(parse_device(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
