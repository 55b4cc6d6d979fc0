//! Scans the records of a file and continues after damage. No length is used
//! before it is checked against the size of the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use diskwright_hostfiles::holes;

use crate::damage::Loss;
use crate::error::StoreError;
use crate::format::{END_KIND, EndRecord, HEAD_KIND, HEADER_BYTES, HeadRecord, RecordHeader, SYNC_MARK};

/// Source of the bytes of records.
#[derive(Debug)]
pub(crate) enum RecordSource {
    /// A file, which may grow.
    File(File),
    /// Bytes in memory.
    Bytes(Vec<u8>),
}

impl RecordSource {
    fn length_bytes(&self) -> io::Result<u64> {
        match self {
            RecordSource::File(file) => Ok(file.metadata()?.len()),
            RecordSource::Bytes(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Returns the end of the hole that contains `from`; `from` if there is none.
    fn next_data(&self, from: u64) -> u64 {
        match self {
            RecordSource::File(file) => holes::next_data_offset(file, from),
            RecordSource::Bytes(_) => from,
        }
    }

    /// Fills `into` as far as the source has bytes; returns the count.
    fn read_at(&self, mut into: &mut [u8], mut offset: u64) -> io::Result<usize> {
        let requested = into.len();
        while !into.is_empty() {
            let read = match self {
                RecordSource::File(file) => match file.read_at(into, offset) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    other => other?,
                },
                RecordSource::Bytes(bytes) => {
                    let available = bytes.get(offset as usize..).unwrap_or(&[]);
                    let count = available.len().min(into.len());
                    into[..count].copy_from_slice(&available[..count]);
                    count
                }
            };
            if read == 0 {
                break;
            }
            offset += read as u64;
            into = &mut into[read..];
        }
        Ok(requested - into.len())
    }
}

/// Result of looking at the scanner's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peek {
    /// A record that lies wholly in the file; its payload is not checked yet.
    Record(RecordHeader),
    /// Bytes that are not a record. Damaged bytes were skipped; at an unfinished
    /// record the scanner stays, because the file may grow.
    Lost { offset: u64, bytes: u64, loss: Loss },
    /// The end of the file.
    End,
}

/// Scanner over the records of a file.
#[derive(Debug)]
pub(crate) struct RecordScanner {
    source: RecordSource,
    path: PathBuf,
    length: u64,
    offset: u64,
    /// Bytes of the file from offset `buffer_offset` on.
    buffer: Vec<u8>,
    buffer_offset: u64,
    chunk_bytes: usize,
}

/// Read size when whole files are read, bytes.
pub(crate) const READ_AHEAD_BYTES: usize = 1 << 17;
/// Largest number of sound headers with damaged payloads that a search skips.
const MAX_FALSE_HEADERS: u32 = 64;
/// Read size when only headers are read, bytes.
pub(crate) const HEADER_READ_BYTES: usize = 64;

impl RecordScanner {
    /// Creates a scanner at the start of `source` that reads `chunk_bytes` at a time.
    pub fn new(source: RecordSource, path: &Path, chunk_bytes: usize) -> Result<RecordScanner, StoreError> {
        let length = source.length_bytes().map_err(|e| StoreError::from_io(path, e))?;
        Ok(RecordScanner {
            source,
            path: path.to_owned(),
            length,
            offset: 0,
            buffer: Vec::new(),
            buffer_offset: 0,
            chunk_bytes,
        })
    }

    /// Opens a regular file; links are not followed.
    pub fn open(path: &Path, chunk_bytes: usize) -> Result<RecordScanner, StoreError> {
        let file = diskwright_hostfiles::private_files::open_for_reading(path)
            .map_err(|e| StoreError::from_distrust(path, e))?;
        RecordScanner::new(RecordSource::File(file), path, chunk_bytes)
    }

    /// Opens a file that the user named: links are followed.
    pub fn open_named(path: &Path, chunk_bytes: usize) -> Result<RecordScanner, StoreError> {
        let real = std::fs::canonicalize(path).map_err(|e| StoreError::from_io(path, e))?;
        let file = diskwright_hostfiles::private_files::open_for_reading(&real)
            .map_err(|e| StoreError::from_distrust(path, e))?;
        RecordScanner::new(RecordSource::File(file), path, chunk_bytes)
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Offset of the next record.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Length of the file when it was last checked, bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Ignores the file beyond this length.
    pub fn limit_length(&mut self, length: u64) {
        self.length = self.length.min(length);
    }

    /// Updates the file's length, and drops the buffered bytes.
    pub fn refresh_length(&mut self) -> Result<(), StoreError> {
        self.length = self.source.length_bytes().map_err(|e| StoreError::from_io(&self.path, e))?;
        self.buffer.clear();
        self.buffer_offset = self.offset;
        Ok(())
    }

    /// Returns `count` bytes from `offset` on, or as many as the file has.
    fn read_bytes(&mut self, offset: u64, count: usize) -> Result<&[u8], StoreError> {
        let count = self.length.saturating_sub(offset).min(count as u64) as usize;
        let is_buffered =
            offset >= self.buffer_offset && offset + count as u64 <= self.buffer_offset + self.buffer.len() as u64;
        if !is_buffered {
            let size = (count.max(self.chunk_bytes) as u64).min(self.length.saturating_sub(offset)) as usize;
            self.buffer.resize(size, 0);
            let read = self.source.read_at(&mut self.buffer, offset).map_err(|e| StoreError::from_io(&self.path, e))?;
            self.buffer.truncate(read);
            self.buffer_offset = offset;
        }
        let start = (offset - self.buffer_offset) as usize;
        let end = (start + count).min(self.buffer.len());
        Ok(&self.buffer[start..end])
    }

    /// Looks at the current position. The caller then reads or skips a record.
    pub fn peek_record(&mut self) -> Result<Peek, StoreError> {
        let remaining = self.length.saturating_sub(self.offset);
        if remaining == 0 {
            return Ok(Peek::End);
        }
        let unfinished = Peek::Lost { offset: self.offset, bytes: remaining, loss: Loss::Unfinished };
        let header = RecordHeader::parse(self.read_bytes(self.offset, HEADER_BYTES)?);
        match header {
            Some(header) if header.record_bytes() <= remaining => Ok(Peek::Record(header)),
            Some(_) => Ok(unfinished),
            None if remaining < HEADER_BYTES as u64 => Ok(unfinished),
            None => {
                let offset = self.offset;
                self.offset = self.find_next_record(offset + 1)?;
                Ok(Peek::Lost { offset, bytes: self.offset - offset, loss: Loss::Damaged })
            }
        }
    }

    /// Finds the next offset from `from` on where a sound record starts, or the end.
    fn find_next_record(&mut self, mut from: u64) -> Result<u64, StoreError> {
        let mut false_headers = 0;
        while from + HEADER_BYTES as u64 <= self.length {
            from = self.source.next_data(from);
            let chunk = self.read_bytes(from, READ_AHEAD_BYTES)?;
            if chunk.len() < HEADER_BYTES {
                break;
            }
            match chunk.windows(4).position(|w| w == SYNC_MARK) {
                None => from += chunk.len() as u64 - 3,
                Some(found) => {
                    from += found as u64;
                    if self.is_record_sound(from, &mut false_headers)? {
                        return Ok(from);
                    }
                    from += 1;
                }
            }
        }
        Ok(self.length)
    }

    /// Returns true if a whole record starts at `offset`, or a sound header whose
    /// payload is not in the file yet.
    fn is_record_sound(&mut self, offset: u64, false_headers: &mut u32) -> Result<bool, StoreError> {
        let Some(header) = RecordHeader::parse(self.read_bytes(offset, HEADER_BYTES)?) else { return Ok(false) };
        // Limits the cost: a file of sound headers without payloads would
        // otherwise take time quadratic in its length.
        if offset + header.record_bytes() > self.length || *false_headers == MAX_FALSE_HEADERS {
            return Ok(true);
        }
        let record = self.read_bytes(offset, HEADER_BYTES + header.payload_bytes)?;
        let is_sound = record.get(HEADER_BYTES..).is_some_and(|payload| crc32fast::hash(payload) == header.payload_crc);
        *false_headers += u32::from(!is_sound);
        Ok(is_sound)
    }

    /// Skips the peeked record.
    pub fn skip_record(&mut self, header: &RecordHeader) {
        self.offset += header.record_bytes();
    }

    /// Skips the peeked record and returns its payload; `None` if that
    /// is damaged.
    pub fn read_payload(&mut self, header: &RecordHeader) -> Result<Option<&[u8]>, StoreError> {
        let offset = self.offset;
        self.offset += header.record_bytes();
        let record = self.read_bytes(offset, HEADER_BYTES + header.payload_bytes)?;
        let is_sound =
            |payload: &&[u8]| payload.len() == header.payload_bytes && crc32fast::hash(payload) == header.payload_crc;
        Ok(record.get(HEADER_BYTES..).filter(is_sound))
    }

    /// Returns the end record, if the file has one; the position does not change.
    pub fn read_end_record(&mut self) -> Result<Option<EndRecord>, StoreError> {
        for record_bytes in EndRecord::RECORD_BYTES {
            let Some(offset) = self.length.checked_sub(record_bytes) else { continue };
            let record = self.read_bytes(offset, record_bytes as usize)?;
            let is_end = |header: &RecordHeader| header.kind == END_KIND && header.record_bytes() == record_bytes;
            let Some(header) = RecordHeader::parse(record).filter(is_end) else { continue };
            let payload = record.get(HEADER_BYTES..).filter(|p| crc32fast::hash(p) == header.payload_crc);
            if let Some(end) = payload.and_then(EndRecord::parse) {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// Reads and skips the head record, if the file starts with a sound one.
    pub fn read_head(&mut self) -> Result<Option<HeadRecord>, StoreError> {
        let Peek::Record(header) = self.peek_record()? else { return Ok(None) };
        if header.kind != HEAD_KIND || self.offset != 0 {
            return Ok(None);
        }
        let path = self.path.clone();
        match self.read_payload(&header)? {
            Some(payload) => HeadRecord::parse(payload, &path),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{FileRole, close_record, open_record};

    fn three_records() -> (Vec<u8>, Vec<u64>) {
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        for kind in 10..13 {
            starts.push(bytes.len() as u64);
            let start = open_record(&mut bytes);
            bytes.extend(std::iter::repeat_n(kind, 100));
            close_record(&mut bytes, start, kind);
        }
        starts.push(bytes.len() as u64);
        (bytes, starts)
    }

    fn scan_kinds(bytes: Vec<u8>) -> (Vec<u8>, u64) {
        let mut scanner =
            RecordScanner::new(RecordSource::Bytes(bytes), Path::new("x"), HEADER_READ_BYTES).expect("in memory");
        let (mut kinds, mut lost) = (Vec::new(), 0);
        loop {
            match scanner.peek_record().expect("in memory") {
                Peek::Record(header) => match scanner.read_payload(&header).expect("in memory") {
                    Some(_) => kinds.push(header.kind),
                    None => lost += header.record_bytes(),
                },
                Peek::Lost { bytes, loss, .. } => {
                    lost += bytes;
                    if loss == Loss::Unfinished {
                        return (kinds, lost);
                    }
                }
                Peek::End => return (kinds, lost),
            }
        }
    }

    #[test]
    fn a_flipped_bit_costs_its_record_and_no_other() {
        let (bytes, starts) = three_records();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let hit = starts.iter().rposition(|&s| s <= bit as u64 / 8).expect("within") as u8;
            let (kinds, lost) = scan_kinds(flipped);
            let rest: Vec<u8> = (10..13).filter(|k| *k != 10 + hit).collect();
            assert_eq!((kinds, lost), (rest, 116), "bit {bit}");
        }
    }

    #[test]
    fn a_cut_costs_the_record_it_goes_through() {
        let (bytes, starts) = three_records();
        for cut in 0..=bytes.len() {
            let complete_records = starts.iter().filter(|&&s| s <= cut as u64).count() - 1;
            let (kinds, lost) = scan_kinds(bytes[..cut].to_vec());
            assert_eq!((kinds.len(), lost), (complete_records, cut as u64 - starts[complete_records]), "cut at {cut}");
        }
    }

    #[test]
    fn a_closing_record_is_found_from_behind() {
        for covered_ns in [None, Some(77)] {
            let mut bytes = Vec::new();
            HeadRecord { role: FileRole::Segment, segment: 1, next_tick: 0, next_note: 0 }.write(&mut bytes);
            let end = EndRecord { next_tick: 5, min_time_ns: -3, max_time_ns: 9, covered_ns };
            end.write(&mut bytes);
            let mut scanner =
                RecordScanner::new(RecordSource::Bytes(bytes), Path::new("x"), HEADER_READ_BYTES).expect("in memory");
            assert_eq!(scanner.read_end_record().expect("in memory"), Some(end));
            assert!(scanner.read_head().expect("our version").is_some());
        }
    }
}
