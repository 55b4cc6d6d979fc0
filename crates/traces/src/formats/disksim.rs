//! DiskSim's own ASCII traces:
//!
//! ```text
//! 0.000000 0 2905854 8 1
//! ```
//!
//! arrival in milliseconds since the start, device number, block (512 bytes),
//! blocks, flags in hexadecimal, of which 1 means a read.

use diskwright_base::{Operation, Request};
use diskwright_logs::InputHead;

use super::{FEW, TraceFormat, TraceShape, first_lines};
use crate::lines::Context;
use crate::summary::DeviceTable;
use crate::text::{fields, nanoseconds, sectors, whole};

pub(super) const FORMAT: TraceFormat = TraceFormat {
    id: "disksim",
    title: "DiskSim ASCII trace: arrivals only",
    explain: "Lines of `arrival_ms device block blocks flags`; a block is 512 bytes, and bit 0 of the hexadecimal \
              flags means a read. Times count from the start of the trace, which holds no completions.",
    recognise,
    wall_clock: false,
    shape: TraceShape::Lines(line),
};

fn recognise(head: &InputHead<'_>) -> bool {
    first_lines(head, FEW, |line| {
        let found: Vec<&[u8]> = fields(line).take(6).collect();
        found.len() == 5 && found[0].contains(&b'.') && numbers(&found).is_some()
    })
}

/// Arrival in nanoseconds, device, offset, length, and whether it reads.
fn numbers(found: &[&[u8]]) -> Option<(i64, u64, u64, u32, bool)> {
    let [arrival, device, block, blocks, flags] = found else { return None };
    let length = whole(blocks).and_then(sectors).and_then(|l| u32::try_from(l).ok())?;
    let flags = std::str::from_utf8(flags).ok()?;
    let flags = u64::from_str_radix(flags.trim_start_matches("0x"), 16).ok()?;
    Some((nanoseconds(arrival, 1_000_000)?, whole(device)?, sectors(whole(block)?)?, length, flags & 1 == 1))
}

fn line(line: &[u8], context: &mut Context<'_>) -> Result<Option<Request>, &'static str> {
    let mut found = [&[][..]; 5];
    let mut count = 0;
    for field in fields(line) {
        *found.get_mut(count).ok_or("more than five columns")? = field;
        count += 1;
    }
    match count {
        0 => return Ok(None),
        5 => {}
        _ => return Err("fewer than five columns"),
    }
    let (arrival, number, offset, length, reads) = numbers(&found).ok_or("a column is not a number in range")?;
    let device = context.devices.number(found[1], || number.to_string()).ok_or(DeviceTable::TOO_MANY)?;
    let operation = if reads { Operation::Read } else { Operation::Write };
    Ok(Some(Request::new(arrival, device, operation, offset, length)))
}
