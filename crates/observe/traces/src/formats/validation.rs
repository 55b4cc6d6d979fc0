//! Validation traces of DiskSim: one request per line, measured on a drive at queue depth 1.
//!
//! ```text
//! R Hit    7563004   4  14368.00000  28778.00000
//! ```
//!
//! The columns are `R` or `W`, the result in the drive's cache, first block (512 bytes), number of blocks, measured
//! response time, and the pause after the completion, both in microseconds.

use diskwright_base::{Operation, Request};
use diskwright_logs::InputHead;

use super::{PROBED_LINES, TraceFormat, TraceShape, most_lines_match};
use crate::line_trace::LineContext;
use crate::summary::DeviceTable;
use crate::text_fields::{parse_nanoseconds, parse_whole, sectors_to_bytes, split_fields};

pub(super) const FORMAT: TraceFormat = TraceFormat {
    id: "disksim-validation",
    title: "DiskSim validation trace: measured response time and pause of each request",
    explain: "Lines of `R|W Hit|Miss|Doub|Trip block blocks response_us pause_us`, one request at a time: each is \
              issued after the previous one has completed and its pause has passed. Times count from the first \
              request.",
    matches_head,
    wall_clock: false,
    shape: TraceShape::Lines(parse_line),
};

/// Results of a request in the cache.
const CACHE_WORDS: [&[u8]; 4] = [b"Hit", b"Miss", b"Doub", b"Trip"];

fn matches_head(head: &InputHead<'_>) -> bool {
    most_lines_match(head, PROBED_LINES, |line| {
        let mut fields = split_fields(line);
        matches!(fields.next(), Some(b"R" | b"W")) && fields.next().is_some_and(|word| CACHE_WORDS.contains(&word))
    })
}

fn parse_line(line: &[u8], context: &mut LineContext<'_>) -> Result<Option<Request>, &'static str> {
    let mut fields = split_fields(line);
    let operation = match fields.next() {
        None => return Ok(None),
        Some(b"R") => Operation::Read,
        Some(b"W") => Operation::Write,
        Some(_) => return Err("column 1: expected R or W"),
    };
    fields.next().filter(|word| CACHE_WORDS.contains(word)).ok_or("column 2: expected Hit, Miss, Doub or Trip")?;
    let offset =
        fields.next().and_then(parse_whole).and_then(sectors_to_bytes).ok_or("column 3: expected a block number")?;
    let length = fields.next().and_then(parse_whole).and_then(sectors_to_bytes).and_then(|l| u32::try_from(l).ok());
    let length = length.ok_or("column 4: expected a number of blocks")?;
    let response_ns =
        fields.next().and_then(|f| parse_nanoseconds(f, 1000)).ok_or("column 5: expected microseconds")?;
    let pause_ns = fields.next().and_then(|f| parse_nanoseconds(f, 1000)).ok_or("column 6: expected microseconds")?;
    if fields.next().is_some() {
        return Err("more than six columns");
    }
    let device =
        context.devices.number_for(context.stem.as_bytes(), || context.stem.to_owned()).ok_or(DeviceTable::TOO_MANY)?;
    let arrival_ns = *context.clock_ns;
    let completion_ns = arrival_ns.checked_add(response_ns).ok_or("column 5: the time is out of range")?;
    *context.clock_ns = completion_ns.checked_add(pause_ns).ok_or("column 6: the time is out of range")?;
    let request = Request::new(arrival_ns, device, operation, offset, length);
    Ok(Some(Request { issued_ns: arrival_ns, completion_ns, ..request }))
}
