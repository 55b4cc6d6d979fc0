//! The log's format, version 1.
//!
//! A log is a directory:
//!
//! ```text
//! 00000001.dwlog, 00000002.dwlog, ...   segments; each can be read without the others
//! tail                                  ticks that are not in a block yet
//! marks.dwlog                           bookmarks, which any process may add
//! ledger                                the number of ticks; see `ledger.rs`
//! lock                                  locked while a recorder runs; contains its pid
//! ```
//!
//! Every file but `lock` is a sequence of records, to which records are only
//! appended. There are two exceptions: `tail` is cut back when a block contains
//! its ticks, and `ledger` is one record that is overwritten in place. Numbers are little-endian. A
//! record is a header of 16 bytes and a payload:
//!
//! ```text
//! 0   4  sync mark D1 5C 3A 7E
//! 4   1  kind: 1 head, 2 schema, 3 block, 4 notes, 5 tick, 6 end, 7 ledger
//! 5   3  length of the payload, bytes
//! 8   4  CRC-32 of the payload
//! 12  4  CRC-32 of bytes 0 to 11
//! ```
//!
//! If a payload is damaged and its header is not, only that record is lost. If
//! a header is damaged, the reader searches for the next sync mark that starts
//! a record with two valid checksums. In both cases it reports what it skipped.
//!
//! - **head** opens a file: 15 bytes `diskwright log\n`, version u16, role u8
//!   (0 segment, 1 tail, 2 marks), segment number u32, number of the next tick
//!   u64, number of the next note u64.
//! - **schema**: id u64, then (zstd) the names of the series; see `schema.rs`.
//!   Blocks and ticks refer to their schema by its id. A schema is written before
//!   its blocks and again at the segment's end.
//! - **block**: the ticks of a minute or two, in columns: number of the first
//!   tick u64, first and last wall time i64 (nanoseconds; within a
//!   block, times never go back), number of the next note u64, ticks u16, columns u32, parts u16,
//!   for each part schema id u64 and ticks u16, then the code of `codec`, or of
//!   `codec/plain`, which bulk imports write. The columns are the union of those
//!   of the parts' schemas (`union.rs`). A reader can skip a block by its times
//!   without decoding it.
//! - **notes**: number of the first note u64, then (zstd) the notes; see `notes.rs`.
//! - **tick**: one tick, only in `tail`; see `tail.rs`.
//! - **end** closes a segment: number of the next tick u64, smallest and largest
//!   wall time i64 (smallest above largest: no tick), total running time of its
//!   ticks u64, nanoseconds (absent in logs of earlier releases).
//! - **ledger**: see `ledger.rs`.
//!
//! Ticks and notes are numbered from 0 over the life of the log. So a reader
//! knows how many ticks a damaged part contained, and it returns a tick once that
//! is both in a block and in the tail (the recorder was killed after it wrote the
//! block and before it cut the tail). Segments are read in the order of the
//! numbers in their heads; ticks that were read already (a copied file) are
//! skipped. The ledger shows losses that these numbers cannot: ticks cut from
//! the log's end, and whether retention removed those before its start.
//!
//! A tick is in the tail when `push` returns, so a killed recorder loses none.
//! The next recorder moves the ticks of the tail into the first block of a new
//! segment. An import writes no tail: if it is killed, the ticks that are not yet
//! in a block are lost, and its last segment has no end record. A segment starts
//! with its schema and the notes that describe the machine, so that the oldest
//! segments can be deleted and a single segment can be sent to somebody.
//!
//! **Power cuts.** The tail is synced to the device (fdatasync) every 10
//! seconds of running time (`record --sync`), a block and the directory as soon
//! as the block is written; the tail is cut only when the device has the block,
//! and old segments are deleted only when it has the ledger that counts them as
//! removed. A separate thread waits for the device, so that a tick never waits. A
//! power cut or a kernel crash costs at most the ticks since the last sync: by
//! default those of 10 seconds, and of the time that the device needs for the
//! sync in flight. A closed log and a finished import lose nothing.
//!
//! **Age** is running time: the sum of the ticks' own lengths, which is not
//! affected by steps of the wall clock, suspension or restarts. A segment may be
//! deleted when the segments after it cover the retention time.

use std::path::Path;

use crate::error::StoreError;

/// Returns the description of the format that the program prints: the documentation of this module.
pub fn describe_format() -> String {
    let text = include_str!("format.rs");
    let description = text.lines().take_while(|l| l.starts_with("//!"));
    description.map(|l| l.trim_start_matches("//!").strip_prefix(' ').unwrap_or("").to_owned() + "\n").collect()
}

pub(crate) const VERSION: u16 = 1;
pub(crate) const MAGIC: &[u8; 15] = b"diskwright log\n";
pub(crate) const SYNC_MARK: [u8; 4] = [0xD1, 0x5C, 0x3A, 0x7E];
pub(crate) const HEADER_BYTES: usize = 16;
/// Longest payload whose length fits into the header.
pub(crate) const MAX_PAYLOAD_BYTES: usize = (1 << 24) - 1;
/// Largest number of series in a schema.
pub(crate) const MAX_SERIES: usize = 1 << 17;
/// Largest number of ticks in a block.
pub(crate) const MAX_BLOCK_TICKS: usize = 1024;
/// Largest number of cells in a block. Limits what a damaged block can make a reader allocate (8 bytes per cell).
pub(crate) const MAX_BLOCK_CELLS: usize = 1 << 20;

pub(crate) const HEAD_KIND: u8 = 1;
pub(crate) const SCHEMA_KIND: u8 = 2;
pub(crate) const BLOCK_KIND: u8 = 3;
pub(crate) const NOTES_KIND: u8 = 4;
pub(crate) const TICK_KIND: u8 = 5;
pub(crate) const END_KIND: u8 = 6;
pub(crate) const LEDGER_KIND: u8 = 7;

/// Length of a head record, header included.
pub(crate) const HEAD_RECORD_BYTES: u64 = (HEADER_BYTES + 15 + 2 + 1 + 4 + 8 + 8) as u64;
/// Length of a block's payload before its parts.
pub(crate) const BLOCK_HEAD_BYTES: usize = 8 * 4 + 2 + 4 + 2;
/// Length of a part's entry: schema id and ticks.
pub(crate) const PART_BYTES: usize = 8 + 2;
/// Largest number of parts in a block.
pub(crate) const MAX_BLOCK_PARTS: usize = 64;
/// Largest number of cells that a writer buffers for a block (8 bytes each).
pub(crate) const MAX_BUFFERED_CELLS: usize = MAX_BLOCK_CELLS;

/// A header with a valid checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub kind: u8,
    pub payload_bytes: usize,
    pub payload_crc: u32,
}

impl RecordHeader {
    /// Parses a header; `None` if its sync mark or checksum is wrong.
    pub fn parse(bytes: &[u8]) -> Option<RecordHeader> {
        let bytes: &[u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        if bytes[..4] != SYNC_MARK || u32_at(bytes, 12)? != crc32fast::hash(&bytes[..12]) {
            return None;
        }
        let length = u32::from_le_bytes([bytes[5], bytes[6], bytes[7], 0]) as usize;
        Some(RecordHeader { kind: bytes[4], payload_bytes: length, payload_crc: u32_at(bytes, 8)? })
    }

    /// Length of the whole record, bytes.
    pub fn record_bytes(&self) -> u64 {
        (HEADER_BYTES + self.payload_bytes) as u64
    }
}

/// Starts a record at the end of `out`; `close_record` completes it. Returns its start.
pub(crate) fn open_record(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    start
}

/// Completes the record that begins at `start`. If its payload is too long
/// for a record, removes it and returns false.
pub(crate) fn close_record(out: &mut Vec<u8>, start: usize, kind: u8) -> bool {
    let (header, payload) = out[start..].split_at_mut(HEADER_BYTES);
    if payload.len() > MAX_PAYLOAD_BYTES {
        out.truncate(start);
        return false;
    }
    header[..4].copy_from_slice(&SYNC_MARK);
    header[4] = kind;
    header[5..8].copy_from_slice(&(payload.len() as u32).to_le_bytes()[..3]);
    header[8..12].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    let crc = crc32fast::hash(&header[..12]);
    header[12..].copy_from_slice(&crc.to_le_bytes());
    true
}

/// Content of a head record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadRecord {
    pub role: FileRole,
    pub segment: u32,
    pub next_tick: u64,
    pub next_note: u64,
}

/// Purpose of a file, stored in its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileRole {
    Segment = 0,
    Tail = 1,
    Marks = 2,
}

impl HeadRecord {
    /// Appends the head as a record.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = open_record(out);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.push(self.role as u8);
        out.extend_from_slice(&self.segment.to_le_bytes());
        out.extend_from_slice(&self.next_tick.to_le_bytes());
        out.extend_from_slice(&self.next_note.to_le_bytes());
        close_record(out, start, HEAD_KIND);
    }

    /// Parses a head's payload; `None` if it is not one. A later version is an
    /// error, because the meaning of the rest of the file is then unknown.
    pub fn parse(payload: &[u8], file: &Path) -> Result<Option<HeadRecord>, StoreError> {
        let Some(version) = payload.strip_prefix(MAGIC).and_then(|rest| u16_at(rest, 0)) else {
            return Ok(None);
        };
        if version != VERSION {
            let offset = (HEADER_BYTES + MAGIC.len()) as u64;
            return Err(StoreError::NewerVersion { path: file.to_owned(), offset, found: version, known: VERSION });
        }
        Ok(HeadRecord::parse_fields(&payload[MAGIC.len() + 2..]))
    }

    fn parse_fields(bytes: &[u8]) -> Option<HeadRecord> {
        let role = match bytes.first()? {
            0 => FileRole::Segment,
            1 => FileRole::Tail,
            2 => FileRole::Marks,
            _ => return None,
        };
        Some(HeadRecord {
            role,
            segment: u32_at(bytes, 1)?,
            next_tick: u64_at(bytes, 5)?,
            next_note: u64_at(bytes, 13)?,
        })
    }
}

/// Fixed part of a block's payload, before the parts and the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHead {
    pub first_tick: u64,
    pub first_time_ns: i64,
    pub last_time_ns: i64,
    pub next_note: u64,
    pub ticks: usize,
    pub columns: usize,
    pub parts: usize,
}

impl BlockHead {
    /// Appends the head to an open record.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.first_tick.to_le_bytes());
        out.extend_from_slice(&self.first_time_ns.to_le_bytes());
        out.extend_from_slice(&self.last_time_ns.to_le_bytes());
        out.extend_from_slice(&self.next_note.to_le_bytes());
        out.extend_from_slice(&(self.ticks as u16).to_le_bytes());
        out.extend_from_slice(&(self.columns as u32).to_le_bytes());
        out.extend_from_slice(&(self.parts as u16).to_le_bytes());
    }

    /// Parses the head; `None` for sizes that no writer produces.
    pub fn parse(payload: &[u8]) -> Option<BlockHead> {
        let head = BlockHead {
            first_tick: u64_at(payload, 0)?,
            first_time_ns: u64_at(payload, 8)? as i64,
            last_time_ns: u64_at(payload, 16)? as i64,
            next_note: u64_at(payload, 24)?,
            ticks: usize::from(u16_at(payload, 32)?),
            columns: u32_at(payload, 34)? as usize,
            parts: usize::from(u16_at(payload, 38)?),
        };
        let cells = head.ticks.checked_mul(head.columns)?;
        let is_valid =
            head.ticks > 0 && head.ticks <= MAX_BLOCK_TICKS && head.columns <= MAX_SERIES && cells <= MAX_BLOCK_CELLS;
        (is_valid && head.parts > 0 && head.parts <= MAX_BLOCK_PARTS).then_some(head)
    }
}

/// Content of an end record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndRecord {
    pub next_tick: u64,
    pub min_time_ns: i64,
    pub max_time_ns: i64,
    /// Running time of all ticks; `None` in logs of earlier releases.
    pub covered_ns: Option<u64>,
}

impl EndRecord {
    /// Length of the whole record: as written now, and as written by earlier releases.
    pub const RECORD_BYTES: [u64; 2] = [HEADER_BYTES as u64 + 32, HEADER_BYTES as u64 + 24];

    /// Appends the end as a record.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = open_record(out);
        out.extend_from_slice(&self.next_tick.to_le_bytes());
        out.extend_from_slice(&self.min_time_ns.to_le_bytes());
        out.extend_from_slice(&self.max_time_ns.to_le_bytes());
        if let Some(covered) = self.covered_ns {
            out.extend_from_slice(&covered.to_le_bytes());
        }
        close_record(out, start, END_KIND);
    }

    /// Parses the payload of an end record.
    pub fn parse(payload: &[u8]) -> Option<EndRecord> {
        Some(EndRecord {
            next_tick: u64_at(payload, 0)?,
            min_time_ns: u64_at(payload, 8)? as i64,
            max_time_ns: u64_at(payload, 16)? as i64,
            covered_ns: u64_at(payload, 24),
        })
    }
}

pub(crate) fn u16_at(bytes: &[u8], index: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(index..index + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], index: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(index..index + 4)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], index: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(index..index + 8)?.try_into().ok()?))
}

/// Formats the file name of a segment.
pub(crate) fn segment_file_name(number: u32) -> String {
    format!("{number:08}.dwlog")
}

/// Parses the number of a segment from its file name; `None` for other files.
pub(crate) fn parse_segment_number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".dwlog")?;
    let is_number = digits.len() >= 8 && digits.bytes().all(|b| b.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

pub(crate) const TAIL_FILE: &str = "tail";
pub(crate) const MARKS_FILE: &str = "marks.dwlog";
pub(crate) const LOCK_FILE: &str = "lock";
pub(crate) const LEDGER_FILE: &str = "ledger";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_with_any_flipped_bit_is_refused() {
        let mut record = Vec::new();
        HeadRecord { role: FileRole::Segment, segment: 7, next_tick: 8, next_note: 9 }.write(&mut record);
        let header = RecordHeader::parse(&record).expect("just written");
        assert_eq!(header.record_bytes() as usize, record.len());
        for bit in 0..HEADER_BYTES * 8 {
            let mut flipped = record.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(RecordHeader::parse(&flipped), None, "bit {bit}");
        }
        let head = HeadRecord::parse(&record[HEADER_BYTES..], Path::new("x")).expect("our version").expect("a head");
        assert_eq!((head.segment, head.next_tick, head.next_note), (7, 8, 9));
    }

    #[test]
    fn segment_names_are_numbers_and_nothing_else() {
        assert_eq!(parse_segment_number(&segment_file_name(12)), Some(12));
        assert_eq!(parse_segment_number("123456789.dwlog"), Some(123456789));
        for other in ["marks.dwlog", "0000001.dwlog", "+0000001.dwlog", "00000001.dwlog.gz", "tail"] {
            assert_eq!(parse_segment_number(other), None, "{other}");
        }
    }

    #[test]
    fn the_description_is_the_module_documentation() {
        let text = describe_format();
        assert!(text.starts_with("The log's format, version 1."));
        assert!(text.contains("sync mark D1 5C 3A 7E") && !text.contains("use std"));
    }
}
