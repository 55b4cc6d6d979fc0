//! Traces in the format of the Storage Performance Council, as the University of Massachusetts publishes them:
//!
//! ```text
//! 0,20941264,8192,W,0.551706
//! ```
//!
//! The columns are application unit, block (512 bytes), size in bytes, `R` or `W`, and seconds since the start. Further
//! columns are optional and not read.

use diskwright_base::{Operation, Request};
use diskwright_logs::InputHead;

use super::{PROBED_LINES, TraceFormat, TraceShape, most_lines_match};
use crate::line_trace::LineContext;
use crate::summary::DeviceTable;
use crate::text_fields::{parse_nanoseconds, parse_whole, sectors_to_bytes};

pub(super) const FORMAT: TraceFormat = TraceFormat {
    id: "spc",
    title: "Storage Performance Council trace: arrivals only",
    explain: "Lines of `unit,block,bytes,R|W,seconds`; a block is 512 bytes. Times count from the start of the \
              trace, which holds no completions.",
    matches_head,
    wall_clock: false,
    shape: TraceShape::Lines(parse_line),
};

fn matches_head(head: &InputHead<'_>) -> bool {
    most_lines_match(head, PROBED_LINES, |line| parse_request(line, &mut DeviceTable::default()).is_ok())
}

fn parse_line(line: &[u8], context: &mut LineContext<'_>) -> Result<Option<Request>, &'static str> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    parse_request(line, context.devices).map(Some)
}

fn parse_request(line: &[u8], devices: &mut DeviceTable) -> Result<Request, &'static str> {
    let mut columns = line.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    let mut next = || columns.next();
    let unit = next().filter(|unit| parse_whole(unit).is_some()).ok_or("column 1: expected a unit number")?;
    let offset = next().and_then(parse_whole).and_then(sectors_to_bytes).ok_or("column 2: expected a block number")?;
    let length = next().and_then(parse_whole).and_then(|l| u32::try_from(l).ok()).ok_or("column 3: expected a size")?;
    let operation = match next() {
        Some(b"R" | b"r") => Operation::Read,
        Some(b"W" | b"w") => Operation::Write,
        _ => return Err("column 4: expected R or W"),
    };
    let arrival_ns = next().and_then(|f| parse_nanoseconds(f, 1_000_000_000)).ok_or("column 5: expected seconds")?;
    let name = || String::from_utf8_lossy(unit).into_owned();
    let device = devices.number_for(unit, name).ok_or(DeviceTable::TOO_MANY)?;
    Ok(Request::new(arrival_ns, device, operation, offset, length))
}
