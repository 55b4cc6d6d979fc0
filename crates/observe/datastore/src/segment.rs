//! Walks over the records of a file, past damage, without ever trusting a
//! length before it is checked against what the file holds.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::damage::Loss;
use diskwright_hostfiles::holes;

use crate::error::StoreError;
use crate::format::{END, EndRecord, HEAD, HEADER, HeadRecord, RecordHeader, SYNC};

/// Where records are read from.
#[derive(Debug)]
pub(crate) enum SegmentSource {
    /// A file, possibly growing.
    File(File),
    /// A snapshot in memory.
    Bytes(Vec<u8>),
}

impl SegmentSource {
    fn length(&self) -> io::Result<u64> {
        match self {
            SegmentSource::File(file) => Ok(file.metadata()?.len()),
            SegmentSource::Bytes(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Behind the hole that begins at `from` or holds it; `from` where there is none.
    fn next_data(&self, from: u64) -> u64 {
        match self {
            SegmentSource::File(file) => holes::next_data(file, from),
            SegmentSource::Bytes(_) => from,
        }
    }

    /// Fills `into` as far as there is anything.
    fn read_at(&self, mut into: &mut [u8], mut offset: u64) -> io::Result<usize> {
        let wanted = into.len();
        while !into.is_empty() {
            let read = match self {
                SegmentSource::File(file) => match file.read_at(into, offset) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    other => other?,
                },
                SegmentSource::Bytes(bytes) => {
                    let from = bytes.get(offset as usize..).unwrap_or(&[]);
                    let count = from.len().min(into.len());
                    into[..count].copy_from_slice(&from[..count]);
                    count
                }
            };
            if read == 0 {
                break;
            }
            offset += read as u64;
            into = &mut into[read..];
        }
        Ok(wanted - into.len())
    }
}

/// What stands at the scanner's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peek {
    /// A record that lies wholly in the file; its payload is not yet checked.
    Record(RecordHeader),
    /// Bytes that are no record. Damaged ones were passed over; an unfinished
    /// record is stayed at, for the file may grow.
    Lost { offset: u64, bytes: u64, loss: Loss },
    /// The end of the file.
    End,
}

/// A place in a file of records.
#[derive(Debug)]
pub(crate) struct RecordScanner {
    source: SegmentSource,
    path: PathBuf,
    length: u64,
    offset: u64,
    /// Bytes of the file from `start` on.
    buffer: Vec<u8>,
    start: u64,
    chunk: usize,
}

/// How much is read ahead when whole files are read.
pub(crate) const AHEAD: usize = 1 << 17;
/// How many sound headers with damaged payloads are passed over in a search.
const MOST_DOUBTS: u32 = 64;
/// How much is read ahead when only headers are looked at.
pub(crate) const GLANCE: usize = 64;

impl RecordScanner {
    /// Starts at the beginning of `source`, reading `chunk` bytes at a time.
    pub fn new(source: SegmentSource, path: &Path, chunk: usize) -> Result<RecordScanner, StoreError> {
        let length = source.length().map_err(|e| StoreError::io(path, e))?;
        Ok(RecordScanner { source, path: path.to_owned(), length, offset: 0, buffer: Vec::new(), start: 0, chunk })
    }

    /// Opens a regular file; a link is not followed.
    pub fn open(path: &Path, chunk: usize) -> Result<RecordScanner, StoreError> {
        let file = diskwright_hostfiles::private::read(path).map_err(|e| StoreError::distrust(path, e))?;
        RecordScanner::new(SegmentSource::File(file), path, chunk)
    }

    /// Opens a file that the user named: a link is followed.
    pub fn open_named(path: &Path, chunk: usize) -> Result<RecordScanner, StoreError> {
        let real = std::fs::canonicalize(path).map_err(|e| StoreError::io(path, e))?;
        let file = diskwright_hostfiles::private::read(&real).map_err(|e| StoreError::distrust(path, e))?;
        RecordScanner::new(SegmentSource::File(file), path, chunk)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// First byte not yet passed.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of the file as far as is known.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Takes the file for no longer than this.
    pub fn limit(&mut self, length: u64) {
        self.length = self.length.min(length);
    }

    /// Looks whether the file has grown, and forgets what was read of its end.
    pub fn refresh(&mut self) -> Result<(), StoreError> {
        self.length = self.source.length().map_err(|e| StoreError::io(&self.path, e))?;
        self.buffer.clear();
        self.start = self.offset;
        Ok(())
    }

    /// The bytes from `at` on, as many as asked for or as the file has.
    fn bytes(&mut self, offset: u64, count: usize) -> Result<&[u8], StoreError> {
        let left = self.length.saturating_sub(offset).min(count as u64) as usize;
        let held = offset >= self.start && offset + left as u64 <= self.start + self.buffer.len() as u64;
        if !held {
            let size = (left.max(self.chunk) as u64).min(self.length.saturating_sub(offset)) as usize;
            self.buffer.resize(size, 0);
            let read = self.source.read_at(&mut self.buffer, offset).map_err(|e| StoreError::io(&self.path, e))?;
            self.buffer.truncate(read);
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        let to = (from + left).min(self.buffer.len());
        Ok(&self.buffer[from..to])
    }

    /// What stands here. A record is then taken or passed.
    pub fn peek(&mut self) -> Result<Peek, StoreError> {
        let left = self.length.saturating_sub(self.offset);
        if left == 0 {
            return Ok(Peek::End);
        }
        let unfinished = Peek::Lost { offset: self.offset, bytes: left, loss: Loss::Unfinished };
        let header = RecordHeader::parse(self.bytes(self.offset, HEADER)?);
        match header {
            Some(header) if header.span() <= left => Ok(Peek::Record(header)),
            Some(_) => Ok(unfinished),
            None if left < HEADER as u64 => Ok(unfinished),
            None => {
                let offset = self.offset;
                self.offset = self.resync(offset + 1)?;
                Ok(Peek::Lost { offset, bytes: self.offset - offset, loss: Loss::Damaged })
            }
        }
    }

    /// The next place from `from` on where a sound record starts, or the end.
    fn resync(&mut self, mut from: u64) -> Result<u64, StoreError> {
        let mut doubts = 0;
        while from + HEADER as u64 <= self.length {
            from = self.source.next_data(from);
            let chunk = self.bytes(from, AHEAD)?;
            if chunk.len() < HEADER {
                break;
            }
            match chunk.windows(4).position(|w| w == SYNC) {
                None => from += chunk.len() as u64 - 3,
                Some(found) => {
                    from += found as u64;
                    if self.is_sound(from, &mut doubts)? {
                        return Ok(from);
                    }
                    from += 1;
                }
            }
        }
        Ok(self.length)
    }

    /// True where a whole record starts at `at`, or a sound header whose
    /// payload the file has not got yet.
    fn is_sound(&mut self, offset: u64, doubts: &mut u32) -> Result<bool, StoreError> {
        let Some(header) = RecordHeader::parse(self.bytes(offset, HEADER)?) else { return Ok(false) };
        // A file made of sound headers without payloads must not cost the
        // square of its length.
        if offset + header.span() > self.length || *doubts == MOST_DOUBTS {
            return Ok(true);
        }
        let record = self.bytes(offset, HEADER + header.length)?;
        let sound = record.get(HEADER..).is_some_and(|payload| crc32fast::hash(payload) == header.crc);
        *doubts += u32::from(!sound);
        Ok(sound)
    }

    /// Passes over the peeked record.
    pub fn pass(&mut self, header: &RecordHeader) {
        self.offset += header.span();
    }

    /// Passes over the peeked record and gives its payload; `None` where that
    /// is damaged.
    pub fn take(&mut self, header: &RecordHeader) -> Result<Option<&[u8]>, StoreError> {
        let offset = self.offset;
        self.offset += header.span();
        let record = self.bytes(offset, HEADER + header.length)?;
        let sound = |payload: &&[u8]| payload.len() == header.length && crc32fast::hash(payload) == header.crc;
        Ok(record.get(HEADER..).filter(sound))
    }

    /// The closing record, where the file has one; the place stays.
    pub fn closing(&mut self) -> Result<Option<EndRecord>, StoreError> {
        for span in EndRecord::SPANS {
            let Some(offset) = self.length.checked_sub(span) else { continue };
            let record = self.bytes(offset, span as usize)?;
            let Some(header) = RecordHeader::parse(record).filter(|h| h.kind == END && h.span() == span) else {
                continue;
            };
            let payload = record.get(HEADER..).filter(|p| crc32fast::hash(p) == header.crc);
            if let Some(end) = payload.and_then(EndRecord::parse) {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// Reads the head record, if the file starts with a sound one, and passes it.
    pub fn head(&mut self) -> Result<Option<HeadRecord>, StoreError> {
        let Peek::Record(header) = self.peek()? else { return Ok(None) };
        if header.kind != HEAD || self.offset != 0 {
            return Ok(None);
        }
        let path = self.path.clone();
        match self.take(&header)? {
            Some(payload) => HeadRecord::parse(payload, &path),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Role, close_record, open_record};

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

    fn walk(bytes: Vec<u8>) -> (Vec<u8>, u64) {
        let mut scanner = RecordScanner::new(SegmentSource::Bytes(bytes), Path::new("x"), GLANCE).expect("in memory");
        let (mut kinds, mut lost) = (Vec::new(), 0);
        loop {
            match scanner.peek().expect("in memory") {
                Peek::Record(header) => match scanner.take(&header).expect("in memory") {
                    Some(_) => kinds.push(header.kind),
                    None => lost += header.span(),
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
            let (kinds, lost) = walk(flipped);
            let rest: Vec<u8> = (10..13).filter(|k| *k != 10 + hit).collect();
            assert_eq!((kinds, lost), (rest, 116), "bit {bit}");
        }
    }

    #[test]
    fn a_cut_costs_the_record_it_goes_through() {
        let (bytes, starts) = three_records();
        for cut in 0..=bytes.len() {
            let whole = starts.iter().filter(|&&s| s <= cut as u64).count() - 1;
            let (kinds, lost) = walk(bytes[..cut].to_vec());
            assert_eq!((kinds.len(), lost), (whole, cut as u64 - starts[whole]), "cut at {cut}");
        }
    }

    #[test]
    fn a_closing_record_is_found_from_behind() {
        for covered_ns in [None, Some(77)] {
            let mut bytes = Vec::new();
            HeadRecord { role: Role::Segment, segment: 1, next_tick: 0, next_note: 0 }.write(&mut bytes);
            let end = EndRecord { next_tick: 5, least_ns: -3, most_ns: 9, covered_ns };
            end.write(&mut bytes);
            let mut scanner =
                RecordScanner::new(SegmentSource::Bytes(bytes), Path::new("x"), GLANCE).expect("in memory");
            assert_eq!(scanner.closing().expect("in memory"), Some(end));
            assert!(scanner.head().expect("our version").is_some());
        }
    }
}
