//! Traces as Microsoft Research Cambridge published them, one request per line:
//!
//! ```text
//! 128166372003061629,hm,1,Read,383496192,32768,413
//! ```
//!
//! The columns are arrival (a Windows file time: 100 ns since 1601), host, disk, `Read` or `Write`, offset and size in
//! bytes, and response time in 100 ns.

use diskwright_base::{Operation, Request};
use diskwright_logs::InputHead;

use super::{PROBED_LINES, TraceFormat, TraceShape, most_lines_match};
use crate::line_trace::LineContext;
use crate::summary::DeviceTable;
use crate::text_fields::parse_whole;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    id: "msr-cambridge",
    title: "MSR Cambridge CSV: arrival and response of each request",
    explain: "Lines of `file_time,host,disk,Read|Write,offset,size,response`, times in 100 ns. The trace has \
              no issue times, so response times are known, but queue and service times are not.",
    matches_head,
    wall_clock: true,
    shape: TraceShape::Lines(parse_line),
};

/// Windows file time of 1970, in 100 ns since 1601.
const UNIX_EPOCH_TICKS: i64 = 116_444_736_000_000_000;

fn matches_head(head: &InputHead<'_>) -> bool {
    most_lines_match(head, PROBED_LINES, |line| {
        is_heading(line) || parse_request(line, &mut DeviceTable::default()).is_ok()
    })
}

/// Returns true for a heading, which copies have and the originals do not.
fn is_heading(line: &[u8]) -> bool {
    line.starts_with(b"Timestamp,")
}

fn parse_line(line: &[u8], context: &mut LineContext<'_>) -> Result<Option<Request>, &'static str> {
    if line.is_empty() || is_heading(line) {
        return Ok(None);
    }
    parse_request(line, context.devices).map(Some)
}

/// Converts a file time to nanoseconds since 1970.
fn file_time_to_unix_ns(ticks: u64) -> Option<i64> {
    i64::try_from(ticks).ok()?.checked_sub(UNIX_EPOCH_TICKS)?.checked_mul(100)
}

fn parse_request(line: &[u8], devices: &mut DeviceTable) -> Result<Request, &'static str> {
    let mut columns = line.split(|b| *b == b',');
    let mut next = || columns.next();
    let file_time = next().unwrap_or_default();
    let arrival_ns =
        parse_whole(file_time).and_then(file_time_to_unix_ns).ok_or("column 1: expected a Windows file time")?;
    let host = next().filter(|host| !host.is_empty()).ok_or("column 2: expected a host")?;
    let disk = next().filter(|disk| parse_whole(disk).is_some()).ok_or("column 3: expected a disk number")?;
    let operation = match next() {
        Some(word) if word.eq_ignore_ascii_case(b"read") => Operation::Read,
        Some(word) if word.eq_ignore_ascii_case(b"write") => Operation::Write,
        _ => return Err("column 4: expected Read or Write"),
    };
    let offset = next().and_then(parse_whole).ok_or("column 5: expected an offset")?;
    let length = next().and_then(parse_whole).and_then(|l| u32::try_from(l).ok()).ok_or("column 6: expected a size")?;
    let response_ticks =
        next().map(<[u8]>::trim_ascii_end).and_then(parse_whole).ok_or("column 7: expected a response time")?;
    if next().is_some() {
        return Err("more than seven columns");
    }
    let response_ns = i64::try_from(response_ticks).ok().and_then(|ticks| ticks.checked_mul(100));
    let completion_ns = response_ns.and_then(|response_ns| arrival_ns.checked_add(response_ns));
    // host and disk are adjacent in the line, so one slice is the key of both: it begins after the first comma, and
    // includes the second
    let start = file_time.len() + 1;
    let key = &line[start..start + host.len() + 1 + disk.len()];
    debug_assert!(key.starts_with(host) && key.ends_with(disk), "the key consists of columns 2 and 3");
    let name = || format!("{}_{}", String::from_utf8_lossy(host), String::from_utf8_lossy(disk));
    let device = devices.number_for(key, name).ok_or(DeviceTable::TOO_MANY)?;
    let request = Request::new(arrival_ns, device, operation, offset, length);
    Ok(Request { completion_ns: completion_ns.ok_or("column 7: the time is out of range")?, ..request })
}
