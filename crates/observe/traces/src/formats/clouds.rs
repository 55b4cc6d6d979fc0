//! Block traces published by cloud providers as CSV, distinguished by their columns.

use diskwright_base::{Operation, Request};

use super::{PROBED_LINES, TraceFormat, TraceShape, most_lines_match};
use crate::line_trace::LineContext;
use crate::summary::DeviceTable;
use crate::text_fields::{parse_nanoseconds, parse_whole, sectors_to_bytes};

/// Lines such as `419,W,8792731648,16384,1577808144360767` (README.md of alibaba/block-traces): device, `R` or `W`,
/// offset and length in bytes, microseconds since 1970.
pub(super) const ALIBABA: TraceFormat = TraceFormat {
    id: "alibaba-block",
    title: "Alibaba block traces: arrivals only",
    explain: "Lines of `device_id,opcode,offset,length,timestamp`: R or W, bytes, microseconds since 1970. The \
              trace holds no completions.",
    matches_head: |head| {
        most_lines_match(head, PROBED_LINES, |line| is_alibaba_heading(line) || can_parse(parse_alibaba, line))
    },
    wall_clock: true,
    shape: TraceShape::Lines(|line, context| skip_heading(line, is_alibaba_heading, context, parse_alibaba)),
};

/// Lines such as `1538323200,12910952128,8,0,1283` (README of the Tencent CBS traces, SNIA IOTTA): seconds since 1970,
/// offset and size in sectors of 512 bytes, 0 for a read and 1 for a write, volume.
pub(super) const TENCENT: TraceFormat = TraceFormat {
    id: "tencent-cbs",
    title: "Tencent cloud block storage traces: arrivals only",
    explain: "Lines of `Timestamp,Offset,Size,IOType,VolumeID`: whole seconds since 1970, sectors of 512 bytes, 0 \
              for a read and 1 for a write. All requests of a second have the same arrival, so distances within it \
              are not known; the trace holds no completions.",
    matches_head: |head| {
        most_lines_match(head, PROBED_LINES, |line| is_tencent_heading(line) || can_parse(parse_tencent, line))
    },
    wall_clock: true,
    shape: TraceShape::Lines(|line, context| skip_heading(line, is_tencent_heading, context, parse_tencent)),
};

/// Lines such as `1456135200.013118000,0.000806,R,4,899056122368,131072` (README of the SYSTOR '17 traces, SNIA IOTTA
/// 4928): seconds since 1970, response in seconds, `R` or `W`, LUN, offset and size in bytes.
pub(super) const SYSTOR: TraceFormat = TraceFormat {
    id: "systor17",
    title: "SYSTOR '17 traces: arrival and response of each request",
    explain: "Lines of `Timestamp,Response,IOType,LUN,Offset,Size`: seconds since 1970, seconds, R or W, bytes. A \
              blank type means that no response was captured: such lines are left out and counted. The trace has \
              no issue times.",
    matches_head: |head| {
        most_lines_match(head, PROBED_LINES, |line| is_systor_heading(line) || can_parse(parse_systor, line))
    },
    wall_clock: true,
    shape: TraceShape::Lines(|line, context| skip_heading(line, is_systor_heading, context, parse_systor)),
};

/// Parser of a line of one of the formats.
type CloudParser = fn(&[u8], &mut DeviceTable) -> Result<Request, &'static str>;

/// Returns true if the parser accepts the line.
fn can_parse(parse: CloudParser, line: &[u8]) -> bool {
    parse(line, &mut DeviceTable::default()).is_ok()
}

/// Parses a line unless it is blank or a heading.
fn skip_heading(
    line: &[u8],
    is_heading: fn(&[u8]) -> bool,
    context: &mut LineContext<'_>,
    parse: CloudParser,
) -> Result<Option<Request>, &'static str> {
    if line.trim_ascii().is_empty() || is_heading(line) {
        return Ok(None);
    }
    parse(line, context.devices).map(Some)
}

fn is_alibaba_heading(line: &[u8]) -> bool {
    line.starts_with(b"device_id,opcode,")
}

fn is_tencent_heading(line: &[u8]) -> bool {
    line.starts_with(b"Timestamp,Offset,Size,")
}

fn is_systor_heading(line: &[u8]) -> bool {
    line.starts_with(b"Timestamp,Response,")
}

/// Splits a line into exactly `N` columns.
fn split_columns<const N: usize>(line: &[u8]) -> Result<[&[u8]; N], &'static str> {
    let mut columns = [&[][..]; N];
    let mut count = 0;
    for column in line.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
        *columns.get_mut(count).ok_or("more columns than the format has")? = column;
        count += 1;
    }
    if count < N { Err("fewer columns than the format has") } else { Ok(columns) }
}

/// Accepted times of day: 2000 to 2100, in seconds since 1970.
const WALL_CLOCK_S: std::ops::Range<i64> = 946_684_800..4_102_444_800;

/// Returns the time if it is an accepted time of day.
fn check_wall_clock(ns: i64) -> Option<i64> {
    WALL_CLOCK_S.contains(&(ns / 1_000_000_000)).then_some(ns)
}

fn parse_operation(column: &[u8]) -> Option<Operation> {
    match column {
        b"R" | b"r" => Some(Operation::Read),
        b"W" | b"w" => Some(Operation::Write),
        _ => None,
    }
}

fn length_u32(bytes: Option<u64>) -> Option<u32> {
    bytes.and_then(|bytes| u32::try_from(bytes).ok())
}

fn device_number(devices: &mut DeviceTable, column: &[u8]) -> Result<u16, &'static str> {
    devices.number_for(column, || String::from_utf8_lossy(column).into_owned()).ok_or(DeviceTable::TOO_MANY)
}

fn parse_alibaba(line: &[u8], devices: &mut DeviceTable) -> Result<Request, &'static str> {
    let [disk, opcode, offset, bytes, time] = split_columns::<5>(line)?;
    parse_whole(disk).ok_or("column 1: expected a device number")?;
    let operation = parse_operation(opcode).ok_or("column 2: expected R or W")?;
    let offset = parse_whole(offset).ok_or("column 3: expected an offset")?;
    let length = length_u32(parse_whole(bytes)).ok_or("column 4: expected a length")?;
    let time = parse_whole(time).and(parse_nanoseconds(time, 1000)).and_then(check_wall_clock);
    let arrival_ns = time.ok_or("column 5: expected microseconds since 1970")?;
    Ok(Request::new(arrival_ns, device_number(devices, disk)?, operation, offset, length))
}

fn parse_tencent(line: &[u8], devices: &mut DeviceTable) -> Result<Request, &'static str> {
    let [time, offset, count, kind, volume] = split_columns::<5>(line)?;
    let time = parse_whole(time).and(parse_nanoseconds(time, 1_000_000_000)).and_then(check_wall_clock);
    let arrival_ns = time.ok_or("column 1: expected seconds since 1970")?;
    let offset = parse_whole(offset).and_then(sectors_to_bytes).ok_or("column 2: expected a sector")?;
    let length =
        length_u32(parse_whole(count).and_then(sectors_to_bytes)).ok_or("column 3: expected a number of sectors")?;
    let operation = match kind {
        b"0" => Operation::Read,
        b"1" => Operation::Write,
        _ => return Err("column 4: expected 0 or 1"),
    };
    parse_whole(volume).ok_or("column 5: expected a volume number")?;
    Ok(Request::new(arrival_ns, device_number(devices, volume)?, operation, offset, length))
}

fn parse_systor(line: &[u8], devices: &mut DeviceTable) -> Result<Request, &'static str> {
    let [time, response, kind, lun, offset, bytes] = split_columns::<6>(line)?;
    let arrival_ns = parse_nanoseconds(time, 1_000_000_000)
        .and_then(check_wall_clock)
        .ok_or("column 1: expected seconds since 1970")?;
    if kind.is_empty() {
        return Err("column 3: blank, no response was captured");
    }
    let operation = parse_operation(kind).ok_or("column 3: expected R or W")?;
    let response_ns = parse_nanoseconds(response, 1_000_000_000).ok_or("column 2: expected seconds")?;
    parse_whole(lun).ok_or("column 4: expected a LUN")?;
    let offset = parse_whole(offset).ok_or("column 5: expected an offset")?;
    let length = length_u32(parse_whole(bytes)).ok_or("column 6: expected a size")?;
    let completion_ns = arrival_ns.checked_add(response_ns).ok_or("column 2: the time is out of range")?;
    let request = Request::new(arrival_ns, device_number(devices, lun)?, operation, offset, length);
    Ok(Request { completion_ns, ..request })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_has_its_own_units() {
        let read =
            |read: CloudParser, line: &str| read(line.as_bytes(), &mut DeviceTable::default()).expect("a request");
        let request = read(parse_alibaba, "419,W,8192,4096,1577808144360767");
        assert_eq!((request.arrival_ns, request.offset_bytes), (1_577_808_144_360_767_000, 8192));
        assert_eq!((request.operation, request.length_bytes), (Operation::Write, 4096));
        let request = read(parse_tencent, "1538323200,16,8,0,1283");
        assert_eq!((request.arrival_ns, request.offset_bytes), (1_538_323_200_000_000_000, 8192));
        assert_eq!((request.operation, request.length_bytes), (Operation::Read, 4096));
        let request = read(parse_systor, "1456135200.013118000,0.000806000,R,4,8192,4096");
        assert_eq!((request.arrival_ns, request.offset_bytes), (1_456_135_200_013_118_000, 8192));
        assert_eq!((request.response_ns(), request.length_bytes), (Some(806_000), 4096));
    }

    #[test]
    fn each_line_matches_one_format() {
        let lines = ["419,W,8192,4096,1577808144360767", "1538323200,16,8,0,1283", "1456135200.0,0.1,R,4,8192,4096"];
        for (index, line) in lines.iter().enumerate() {
            let accepted = [parse_alibaba as CloudParser, parse_tencent, parse_systor]
                .map(|read| can_parse(read, line.as_bytes()));
            assert!(accepted.iter().enumerate().all(|(i, is)| *is == (i == index)), "{line}: {accepted:?}");
        }
    }
}
