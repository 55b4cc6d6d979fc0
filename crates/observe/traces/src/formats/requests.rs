//! Our own format: requests as CSV, as `show TRACE --as csv` writes them, so that other tools can filter and change any
//! trace, which can then be read again. Times are seconds with nine decimals; unknown times are empty cells.

use std::fmt::Write;

use diskwright_base::text::{quote_csv_cell, unescape_formula};
use diskwright_base::{Operation, Request};
use diskwright_logs::InputHead;

use super::{TraceFormat, TraceShape};
use crate::line_trace::LineContext;
use crate::summary::DeviceTable;
use crate::text_fields::{parse_nanoseconds, parse_whole};

pub(super) const FORMAT: TraceFormat = TraceFormat {
    id: "requests-csv",
    title: "requests as `show TRACE --as csv` writes them",
    explain: "A heading `arrival_s,device,operation,offset_bytes,length_bytes,issued_s,completion_s`, then one request \
              per line; times in seconds on one clock, empty where unknown.",
    matches_head,
    wall_clock: false,
    shape: TraceShape::Lines(parse_line),
};

/// First line of requests as CSV.
pub const CSV_HEADING: &str = "arrival_s,device,operation,offset_bytes,length_bytes,issued_s,completion_s\n";

/// Appends a request as a line of CSV. Times before the clock's zero are written with a sign; such lines cannot be read
/// again.
pub fn write_csv_line(out: &mut String, request: &Request, device: &str) {
    let Request { operation, offset_bytes, length_bytes, .. } = request;
    write_seconds(out, Some(request.arrival_ns));
    out.push(',');
    // quotes in names are replaced, so that the parser needs no escaped quotes
    out.push_str(&quote_csv_cell(&device.replace('"', "'").replace(['\n', '\r'], " ")));
    // writing to a string cannot fail
    let _ = write!(out, ",{},{offset_bytes},{length_bytes},", operation.name());
    write_seconds(out, request.issue_time_ns());
    out.push(',');
    write_seconds(out, request.completion_time_ns());
    out.push('\n');
}

/// Appends a time in seconds, or nothing if it is unknown.
fn write_seconds(out: &mut String, time_ns: Option<i64>) {
    if let Some(ns) = time_ns {
        let sign = if ns < 0 { "-" } else { "" };
        let ns = ns.unsigned_abs();
        let _ = write!(out, "{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    }
}

fn matches_head(head: &InputHead<'_>) -> bool {
    super::most_lines_match(head, 1, |line| line == CSV_HEADING.trim_ascii_end().as_bytes())
}

fn parse_line(line: &[u8], context: &mut LineContext<'_>) -> Result<Option<Request>, &'static str> {
    if line.is_empty() || line == CSV_HEADING.trim_ascii_end().as_bytes() {
        return Ok(None);
    }
    let comma = line.iter().position(|b| *b == b',').ok_or("only one column")?;
    let arrival_ns = parse_nanoseconds(&line[..comma], 1_000_000_000).ok_or("column 1: expected seconds")?;
    let (device, tail) = split_device(&line[comma + 1..]).ok_or("column 2: expected a device")?;
    let mut columns = tail.split(|b| *b == b',');
    let mut next = || columns.next();
    let operation = next().and_then(|f| Operation::from_name(std::str::from_utf8(f).ok()?));
    let operation = operation.ok_or("column 3: expected read, write, flush or discard")?;
    let offset = next().and_then(parse_whole).ok_or("column 4: expected an offset")?;
    let length =
        next().and_then(parse_whole).and_then(|l| u32::try_from(l).ok()).ok_or("column 5: expected a length")?;
    let mut next_time = |because| match next() {
        Some(b"") => Ok(Request::UNKNOWN_NS),
        field => field.and_then(|f| parse_nanoseconds(f, 1_000_000_000)).ok_or(because),
    };
    let issued_ns = next_time("column 6: expected seconds")?;
    let completion_ns = next_time("column 7: expected seconds")?;
    let name = || unescape_formula(&String::from_utf8_lossy(device)).to_owned();
    let number = context.devices.number_for(device, name).ok_or(DeviceTable::TOO_MANY)?;
    let request = Request::new(arrival_ns, number, operation, offset, length);
    Ok(Some(Request { issued_ns, completion_ns, ..request }))
}

/// Splits a text into the device, without its quotes, and the columns after it.
fn split_device(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = match text.strip_prefix(b"\"") {
        Some(quoted) => quoted.windows(2).position(|w| w == b"\",")? + 2,
        None => text.iter().position(|b| *b == b',')?,
    };
    let device = &text[..end];
    let device = device.strip_prefix(b"\"").and_then(|d| d.strip_suffix(b"\"")).unwrap_or(device);
    Some((device, &text[end + 1..]))
}
