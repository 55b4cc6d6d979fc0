//! Records of the SCSI commands of one virtual disk, as CloudPhysics published them and libCacheSim reads them
//! (`traceReader/customizedReader/vscsi.h` there). Fields are little-endian; their sizes are in bytes:
//!
//! | version | fields |
//! |---|---|
//! | 1 | sequence 4, length 4, segments 4, command 2, version 2, block 8, time 8 |
//! | 2 | command 2, version 2, sequence 4, length 4, segments 4, block 8, time 8, response 8 |
//!
//! The version is in the upper byte of its field, a block is 512 bytes, the length
//! is in bytes, and times are microseconds since the host started. The reference time of
//! version 2's response is not published, so it is not read.

use diskwright_base::{Operation, Request};
use diskwright_logs::InputHead;

use super::{TraceFormat, TraceShape};
use crate::line_trace::{FixedRecords, LineContext};
use crate::summary::DeviceTable;
use crate::text_fields::sectors_to_bytes;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    id: "vscsi",
    title: "vSCSI records of a virtual disk (CloudPhysics): arrivals only",
    explain: "Binary records of 32 (version 1) or 40 bytes (version 2), one SCSI command each; reads, writes and \
              flushes are taken, other commands are counted. Times are microseconds since the host started; \
              completions are not read. One disk a file, named by the file.",
    matches_head,
    wall_clock: false,
    shape: TraceShape::Fixed(FixedRecords { record_bytes: record_length, is_record, parse: parse_record }),
};

/// Length of a record by version, bytes.
const RECORD_BYTES: [usize; 2] = [32, 40];
/// Offset of the command by version; the version field follows it.
const COMMAND_OFFSET: [usize; 2] = [12, 0];
/// Offset of the length by version.
const LENGTH_OFFSET: [usize; 2] = [4, 8];
/// Other commands that disks receive: test unit ready, request sense, inquiry, reserve and
/// release, mode sense, start stop unit, read capacity, verify, write same, unmap, log sense,
/// persistent reserve in and out, compare and write, service action in, report LUNs.
const OTHER_COMMANDS: &[u16] = &[
    0x00, 0x03, 0x12, 0x15, 0x16, 0x17, 0x1a, 0x1b, 0x1e, 0x25, 0x2f, 0x41, 0x42, 0x4d, 0x55, 0x56, 0x57, 0x5a, 0x5e,
    0x5f, 0x89, 0x8f, 0x93, 0x9e, 0xa0, 0xa3,
];
/// Number of consecutive records that suffice to recognize a file.
const PROBED_RECORDS: usize = 8;

fn matches_head(head: &InputHead<'_>) -> bool {
    let length = record_length(head.bytes);
    let good = head.bytes.chunks_exact(length).take(PROBED_RECORDS).take_while(|record| is_record(record)).count();
    good >= 2 && good == (head.bytes.len() / length).min(PROBED_RECORDS)
}

/// Determines the length of a record from the beginning of the file.
fn record_length(begin: &[u8]) -> usize {
    let record_count = |length: usize| begin.chunks_exact(length).take(2).filter(|record| is_record(record)).count();
    if record_count(RECORD_BYTES[1]) > record_count(RECORD_BYTES[0]) { RECORD_BYTES[1] } else { RECORD_BYTES[0] }
}

fn read_field<const N: usize>(record: &[u8], offset: usize) -> Option<[u8; N]> {
    record.get(offset..).and_then(|bytes| bytes.first_chunk::<N>()).copied()
}

fn is_record(record: &[u8]) -> bool {
    let Some(version) = RECORD_BYTES.iter().position(|length| *length == record.len()) else { return false };
    let version_field = read_field::<2>(record, COMMAND_OFFSET[version] + 2).map(u16::from_le_bytes);
    let Some(command) = read_field::<2>(record, COMMAND_OFFSET[version]).map(u16::from_le_bytes) else { return false };
    let length = read_field::<4>(record, LENGTH_OFFSET[version]).map_or(0, u32::from_le_bytes);
    // the version alone proves little: at a wrong offset, halves of two records could look like a record
    version_field.is_some_and(|field| usize::from(field >> 8) == version + 1)
        && match parse_operation(command) {
            Some(Operation::Read | Operation::Write) => length > 0 && length.is_multiple_of(512),
            Some(_) => true,
            None => OTHER_COMMANDS.contains(&command),
        }
}

fn parse_operation(command: u16) -> Option<Operation> {
    match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Operation::Read),
        // 2e, ae and 8e write and verify
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Some(Operation::Write),
        0x35 | 0x91 => Some(Operation::Flush),
        _ => None,
    }
}

fn parse_record(record: &[u8], context: &mut LineContext<'_>) -> Result<Option<Request>, &'static str> {
    const TRUNCATED: &str = "a truncated record";
    let version = RECORD_BYTES.iter().position(|length| *length == record.len()).ok_or(TRUNCATED)?;
    let read_u32 = |offset| read_field::<4>(record, offset).map(u32::from_le_bytes).ok_or(TRUNCATED);
    let read_u64 = |offset| read_field::<8>(record, offset).map(u64::from_le_bytes).ok_or(TRUNCATED);
    let command = read_field::<2>(record, COMMAND_OFFSET[version]).map(u16::from_le_bytes).ok_or(TRUNCATED)?;
    let length = read_u32(LENGTH_OFFSET[version])?;
    // the length of an unmap is that of its list of ranges, and other commands transfer no data of the disk
    let operation = parse_operation(command).ok_or("a SCSI command that is not a read, write or flush")?;
    let (block, length) = if operation == Operation::Flush { (0, 0) } else { (read_u64(16)?, length) };
    let offset = sectors_to_bytes(block).filter(|offset| offset.checked_add(length.into()).is_some());
    let offset = offset.ok_or("a block number beyond any disk")?;
    let time = i64::try_from(read_u64(24)?).ok().and_then(|us| us.checked_mul(1000)).ok_or("a time out of range")?;
    let name = || context.stem.to_owned();
    let device = context.devices.number_for(context.stem.as_bytes(), name).ok_or(DeviceTable::TOO_MANY)?;
    Ok(Some(Request::new(time, device, operation, offset, length)))
}
