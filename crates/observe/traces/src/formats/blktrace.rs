//! The kernel's binary event records, as `blktrace` and the `blk` tracer write
//! them (public header `include/uapi/linux/blktrace_api.h`).
//!
//! A file is a sequence of records, in the byte order of the machine that wrote them. A record is a head of 48 bytes
//! (version 7) or 64 bytes (version 8), followed by as many bytes as the head's length field says. There is one file
//! per processor, or one stream in which the records of the processors alternate.

use diskwright_base::Operation;
use diskwright_logs::InputHead;

use super::{TraceFormat, TraceShape};
use crate::events::{MAX_SECTOR, TraceEvent, TraceEventKind};

pub(super) const FORMAT: TraceFormat = TraceFormat {
    id: "blktrace",
    title: "blktrace binary events (NAME.blktrace.CPU, or the stream of `blktrace -o -`)",
    explain: "Arrival is Q, issue is D, completion is C of the same sectors; merged requests stay separate, as they \
              arrived. A request that LVM, md or a partition passes on counts once, at the last device. Name one \
              file of a set to read those of all processors. Record with `blktrace -d /dev/sdX`, or with the \
              kernel's `blk` tracer and its options `bin` and `nocontext-info`.",
    matches_head,
    wall_clock: false,
    shape: TraceShape::EventRecords,
};

fn matches_head(head: &InputHead<'_>) -> bool {
    matches!(read_header(head.bytes), BlktraceHeader::Record { .. })
}

/// Number of bytes at the beginning of a record that identify it and show its byte order and version.
pub(crate) const MAGIC_BYTES: usize = 4;
/// Upper 24 bits of a record's first word; the lower 8 are the version.
const MAGIC: u32 = 0x6561_7400;
/// Position of the category bits in a record's action.
const CATEGORY_SHIFT: u32 = 16;

/// The beginning of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlktraceHeader {
    /// No record begins here.
    NotARecord,
    /// A record begins here.
    Record { big_endian: bool, version: u8, length: usize },
}

/// Reads the beginning of a record.
pub(crate) fn read_header(bytes: &[u8]) -> BlktraceHeader {
    let Some(word) = bytes.first_chunk::<4>() else { return BlktraceHeader::NotARecord };
    for (number, big_endian) in [(u32::from_le_bytes(*word), false), (u32::from_be_bytes(*word), true)] {
        let version = (number & 0xff) as u8;
        if number & !0xff == MAGIC && (version == 7 || version == 8) {
            return BlktraceHeader::Record { big_endian, version, length: if version == 7 { 48 } else { 64 } };
        }
    }
    BlktraceHeader::NotARecord
}

/// Fields of a record, as far as they are needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlktraceRecord {
    pub(crate) time_ns: u64,
    sector: u64,
    length_bytes: u32,
    action: u64,
    device: u32,
    /// Number of bytes after the head.
    pub(crate) extra_bytes: u16,
    big_endian: bool,
}

/// Meaning of a record for the requests of a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RecordMeaning {
    /// Not needed for requests.
    Nothing,
    /// Time of day at the record's time, nanoseconds since 1970.
    WallClock(i64),
    /// An event of a request.
    Event(TraceEvent),
    /// Not usable, for this reason.
    Unusable(&'static str),
}

// categories
const READ: u64 = 1 << 0;
const WRITE: u64 = 1 << 1;
const FLUSH: u64 = 1 << 2;
const PASSED_THROUGH: u64 = 1 << 9;
const NOTIFY: u64 = 1 << 10;
const DISCARD: u64 = 1 << 13;
/// Flag in the action: the id of a cgroup (8 bytes) follows the head.
const CGROUP_FLAG: u64 = 1 << 8;

impl BlktraceRecord {
    /// Reads the fields of a head in the byte order and version from [`read_header`]; `None` if `bytes` are too few.
    pub(crate) fn read(bytes: &[u8], big_endian: bool, version: u8) -> Option<BlktraceRecord> {
        let read_u16 = |offset: usize| {
            let two = *bytes.get(offset..)?.first_chunk::<2>()?;
            Some(if big_endian { u16::from_be_bytes(two) } else { u16::from_le_bytes(two) })
        };
        let read_u32 = |offset: usize| {
            let four = *bytes.get(offset..)?.first_chunk::<4>()?;
            Some(if big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
        };
        let read_u64 = |offset: usize| {
            let eight = *bytes.get(offset..)?.first_chunk::<8>()?;
            Some(if big_endian { u64::from_be_bytes(eight) } else { u64::from_le_bytes(eight) })
        };
        // offsets in `struct blk_io_trace` (version 7) and `struct blk_io_trace2` (version 8)
        let (time_ns, sector, length_bytes) = (read_u64(8)?, read_u64(16)?, read_u32(24)?);
        let (action, device, extra_bytes) = if version == 7 {
            (u64::from(read_u32(28)?), read_u32(36)?, read_u16(46)?)
        } else {
            (read_u64(32)?, read_u32(40)?, read_u16(50)?)
        };
        Some(BlktraceRecord { time_ns, sector, length_bytes, action, device, extra_bytes, big_endian })
    }

    /// Interprets the record; `extra` are the bytes after its head.
    pub(crate) fn interpret_record(&self, extra: &[u8]) -> RecordMeaning {
        let category = self.action >> CATEGORY_SHIFT;
        let code = self.action & 0xffff & !CGROUP_FLAG;
        let extra = if self.action & CGROUP_FLAG != 0 { extra.get(8..).unwrap_or_default() } else { extra };
        if category & NOTIFY != 0 {
            return if code == 1 { self.parse_wall_clock(extra) } else { RecordMeaning::Nothing };
        }
        let kind = match code {
            1 => TraceEventKind::Queue,
            6 => TraceEventKind::Requeue,
            7 => TraceEventKind::Issue,
            8 => TraceEventKind::Complete,
            13 => TraceEventKind::Split,
            15 => TraceEventKind::Remap,
            _ => return RecordMeaning::Nothing,
        };
        if category & PASSED_THROUGH != 0 {
            return RecordMeaning::Unusable("a pass-through command, not a read or write");
        }
        let operation = match (self.length_bytes, category) {
            (0, c) if c & FLUSH != 0 => Operation::Flush,
            // a second completion of a write or flush, after that of the flush that belongs to it
            (0, _) => return RecordMeaning::Nothing,
            (_, c) if c & DISCARD != 0 => Operation::Discard,
            (_, c) if c & WRITE != 0 => Operation::Write,
            (_, c) if c & READ != 0 => Operation::Read,
            _ => return RecordMeaning::Unusable("not a read, write, flush or discard"),
        };
        let (source_device, other_sector) = self.split_or_remap_data(kind, extra);
        // a flush has no sector; the kernel writes -1 or 0
        let sector = if operation == Operation::Flush { 0 } else { self.sector };
        if sector >= MAX_SECTOR {
            return RecordMeaning::Unusable("a sector number beyond any disk");
        }
        let sectors = self.length_bytes.div_ceil(512);
        RecordMeaning::Event(TraceEvent {
            device: self.device,
            kind,
            operation,
            sector,
            sectors,
            other_sector,
            source_device,
        })
    }

    /// Reads the data of a split or remap, which are always big-endian, and returns source device and other sector. A
    /// split has the sector of its second part (8 bytes); a remap has the device that the request came from, the device
    /// that it went to, and the sector on the first (4, 4 and 8 bytes).
    fn split_or_remap_data(&self, kind: TraceEventKind, extra: &[u8]) -> (u32, u64) {
        let eight_bytes = |offset: usize| extra.get(offset..).and_then(|b| b.first_chunk::<8>());
        let read_u64 = |offset: usize| eight_bytes(offset).map_or(0, |bytes| u64::from_be_bytes(*bytes));
        match kind {
            // a truncated record does not show the source of a remap: it gets the remap's own place
            TraceEventKind::Remap if eight_bytes(8).is_none() => (self.device, self.sector),
            TraceEventKind::Remap => ((read_u64(0) >> 32) as u32, read_u64(8)),
            _ => (0, read_u64(0)),
        }
    }

    /// Reads the time of day at the record's time, which is stored as seconds and nanoseconds.
    fn parse_wall_clock(&self, extra: &[u8]) -> RecordMeaning {
        let Some(eight) = extra.first_chunk::<8>() else { return RecordMeaning::Unusable("a truncated time of day") };
        let word = |four: [u8; 4]| if self.big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) };
        let [a, b, c, d, e, f, g, h] = *eight;
        let (seconds, nanoseconds) = (word([a, b, c, d]), word([e, f, g, h]));
        RecordMeaning::WallClock(i64::from(seconds) * 1_000_000_000 + i64::from(nanoseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(version: u8, big_endian: bool, action: u64) -> Vec<u8> {
        let word4 = |n: u32| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
        let word8 = |n: u64| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
        let word2 = |n: u16| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
        let mut out = Vec::new();
        out.extend(word4(MAGIC | u32::from(version)));
        out.extend(word4(1));
        out.extend(word8(1_000));
        out.extend(word8(2048));
        out.extend(word4(4096));
        if version == 7 {
            out.extend(word4(action as u32));
            out.extend(word4(99));
        } else {
            out.extend(word4(99));
            out.extend(word8(action));
        }
        out.extend(word4((8 << 20) | 3));
        out.extend(word4(1));
        out.extend(word2(0));
        out.extend(word2(0));
        out.resize(if version == 7 { 48 } else { 64 }, 0);
        out
    }

    #[test]
    fn both_versions_and_byte_orders_decode_alike() {
        for version in [7, 8] {
            for big_endian in [false, true] {
                let bytes = record(version, big_endian, 1 | (READ << CATEGORY_SHIFT));
                let length = bytes.len();
                assert_eq!(read_header(&bytes), BlktraceHeader::Record { big_endian, version, length });
                let read = BlktraceRecord::read(&bytes, big_endian, version).expect("whole");
                assert_eq!(read.time_ns, 1_000);
                let RecordMeaning::Event(event) = read.interpret_record(&[]) else { panic!("{read:?}") };
                assert_eq!((event.kind, event.operation), (TraceEventKind::Queue, Operation::Read));
                assert_eq!((event.sector, event.sectors, event.device), (2048, 8, (8 << 20) | 3));
                for cut in 0..length - 12 {
                    assert!(BlktraceRecord::read(&bytes[..cut], big_endian, version).is_none(), "{version} {cut}");
                }
            }
        }
        assert_eq!(read_header(b"\x09tae"), BlktraceHeader::NotARecord);
        assert_eq!(read_header(b"tae"), BlktraceHeader::NotARecord);
    }

    #[test]
    fn reads_the_split_position_after_a_cgroup_id() {
        let place = 2052u64.to_be_bytes();
        let with_cgroup = [[7; 8], place].concat();
        for (cgroup, behind) in [(0, &place[..]), (CGROUP_FLAG, &with_cgroup)] {
            let bytes = record(7, false, 13 | cgroup | (WRITE << CATEGORY_SHIFT));
            let read = BlktraceRecord::read(&bytes, false, 7).expect("whole");
            let RecordMeaning::Event(event) = read.interpret_record(behind) else { panic!("{read:?}") };
            assert_eq!((event.kind, event.other_sector), (TraceEventKind::Split, 2052));
        }
    }

    #[test]
    fn distinguishes_requests_from_other_records() {
        let meaning = |action: u64| {
            BlktraceRecord::read(&record(7, false, action), false, 7).expect("whole").interpret_record(&[0; 8])
        };
        assert!(matches!(meaning(9 | (READ << CATEGORY_SHIFT)), RecordMeaning::Nothing));
        assert!(matches!(meaning(2 | (NOTIFY << CATEGORY_SHIFT)), RecordMeaning::Nothing));
        assert!(matches!(meaning(1 | (NOTIFY << CATEGORY_SHIFT)), RecordMeaning::WallClock(0)));
        assert!(matches!(meaning(7 | (PASSED_THROUGH << CATEGORY_SHIFT)), RecordMeaning::Unusable(_)));
        assert!(matches!(meaning(7), RecordMeaning::Unusable(_)));
    }
}
