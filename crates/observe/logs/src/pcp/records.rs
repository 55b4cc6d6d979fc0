//! Records of the archive's files: a length, a body, the same length again. Everything is big-endian. A length is not
//! trusted: memory is used only as its bytes arrive.

use std::io::{self, Read};

/// Longest record: the largest real ones (tens of thousands of processes) stay far below.
const MAX_RECORD_BYTES: u32 = 64 << 20;

/// Reason why a record could not be read.
#[derive(Debug)]
pub(super) enum RecordFault {
    /// The file ended inside a record, as it does when the logger was killed.
    Cut,
    /// The file cannot be framed from here on.
    Broken(&'static str),
    /// Reading or unpacking failed.
    Io(io::Error),
}

impl RecordFault {
    /// Describes the fault.
    pub fn to_reason(&self) -> String {
        match self {
            RecordFault::Cut => "the file ends inside a record".into(),
            RecordFault::Broken(why) => (*why).into(),
            RecordFault::Io(e) => e.to_string(),
        }
    }
}

/// Reads records one by one.
pub(super) struct RecordReader<R> {
    inner: R,
    next_offset: u64,
    /// Byte at which the record in `body` begins.
    record_offset: u64,
    body: Vec<u8>,
}

impl<R: Read> RecordReader<R> {
    /// Makes a reader before the first record.
    pub fn new(inner: R) -> RecordReader<R> {
        RecordReader { inner, next_offset: 0, record_offset: 0, body: Vec::new() }
    }

    /// Returns the byte (unpacked) at which the last record began.
    pub fn record_offset(&self) -> u64 {
        self.record_offset
    }

    /// Returns the last record without its two lengths.
    pub fn body(&self) -> &[u8] {
        self.body.get(..self.body.len().saturating_sub(4)).unwrap_or_default()
    }

    /// Advances to the next record; returns false at the end.
    pub fn next(&mut self) -> Result<bool, RecordFault> {
        self.record_offset = self.next_offset;
        let mut length = [0; 4];
        match read_full(&mut self.inner, &mut length).map_err(RecordFault::Io)? {
            0 => return Ok(false),
            4 => {}
            _ => return Err(RecordFault::Cut),
        }
        let length = u32::from_be_bytes(length);
        if length < 8 {
            return Err(RecordFault::Broken("a record that is shorter than its own frame"));
        }
        if length > MAX_RECORD_BYTES {
            return Err(RecordFault::Broken("a record of impossible length"));
        }
        let body_bytes = u64::from(length - 4);
        self.body.clear();
        let read_bytes = (&mut self.inner).take(body_bytes).read_to_end(&mut self.body).map_err(RecordFault::Io)?;
        if read_bytes as u64 != body_bytes {
            return Err(RecordFault::Cut);
        }
        self.next_offset += u64::from(length);
        if !self.body.ends_with(&length.to_be_bytes()) {
            return Err(RecordFault::Broken("a record whose two lengths differ"));
        }
        Ok(true)
    }
}

/// Reads until the buffer is full or the input ends.
fn read_full(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read_bytes = 0;
    while read_bytes < buffer.len() {
        match input.read(&mut buffer[read_bytes..]) {
            Ok(0) => break,
            Ok(n) => read_bytes += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(read_bytes)
}

/// Reads numbers from the beginning of a body. They are `None` if it is too short.
#[derive(Clone, Copy)]
pub(super) struct BodyFields<'a>(pub &'a [u8]);

impl<'a> BodyFields<'a> {
    /// Takes `count` bytes.
    pub fn take_bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Takes a `u32`.
    pub fn take_u32(&mut self) -> Option<u32> {
        let (taken, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*taken))
    }

    /// Takes an `i32`.
    pub fn take_i32(&mut self) -> Option<i32> {
        self.take_u32().map(u32::cast_signed)
    }

    /// Takes an `i64`.
    pub fn take_i64(&mut self) -> Option<i64> {
        let (taken, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(i64::from_be_bytes(*taken))
    }

    /// Reads seconds and microseconds (version 2) or nanoseconds (version 3) since 1970, as nanoseconds; `None` if
    /// that is no time.
    ///
    /// The manual calls version 3's seconds a 64-bit number; real files hold
    /// its low word first. Until 2106 one of the words is zero, so both ways
    /// are read.
    pub fn take_time(&mut self, version: u8) -> Option<i64> {
        let (seconds, unit) = if version == 2 {
            (i64::from(self.take_u32()?), 1000)
        } else {
            let (first, second) = (i64::from(self.take_u32()?), i64::from(self.take_i32()?));
            (if first == 0 { second } else { second.checked_shl(32)? | first }, 1)
        };
        let fraction_ns = i64::from(self.take_u32()?) * unit;
        let seconds_ns = seconds.checked_mul(1_000_000_000)?;
        if fraction_ns < 1_000_000_000 { seconds_ns.checked_add(fraction_ns) } else { None }
    }
}

/// Label at the beginning of each file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArchiveLabel {
    /// 2 or 3.
    pub version: u8,
    /// Process id of the logger.
    pub pid: u32,
    /// Start of the archive, nanoseconds since 1970.
    pub start_ns: i64,
    /// Volume number; -1 in `.meta`, -2 in `.index`.
    pub volume: i32,
    /// Machine that the values come from.
    pub host: String,
}

/// Recognises a label's record by its length and its tag, and returns its version.
pub(super) fn label_version(head: &[u8]) -> Option<u8> {
    match (head.get(..4)?, head.get(4..8)?) {
        ([0, 0, 0, 0x84], [0x50, 0x05, 0x26, 0x02]) => Some(2),
        ([0, 0, 0x03, 0x28], [0x50, 0x05, 0x26, 0x03]) => Some(3),
        _ => None,
    }
}

/// Parses a label's record.
pub(super) fn parse_label(body: &[u8]) -> Option<ArchiveLabel> {
    let mut fields = BodyFields(body);
    let version = match fields.take_u32()? {
        0x5005_2602 => 2,
        0x5005_2603 => 3,
        _ => return None,
    };
    let pid = fields.take_u32()?;
    let start_ns = fields.take_time(version)?;
    let volume = fields.take_i32()?;
    if version == 3 {
        // feature bits and four bytes that are not used
        fields.take_bytes(8)?;
    }
    let host = fields.take_bytes(if version == 2 { 64 } else { 256 })?;
    let host = host.split(|&b| b == 0).next().unwrap_or_default();
    Some(ArchiveLabel { version, pid, start_ns, volume, host: String::from_utf8_lossy(host).into_owned() })
}

impl ArchiveLabel {
    /// Returns true if both labels belong to one archive.
    pub fn is_same_archive(&self, other: &ArchiveLabel) -> bool {
        (self.version, self.pid, self.start_ns, &self.host) == (other.version, other.pid, other.start_ns, &other.host)
    }
}
