//! Lines of five numbers, which DiskSim, MQSim and SSDSim share:
//!
//! ```text
//! 938513 0 264719 16 0
//! ```
//!
//! The columns are arrival, device, first block (512 bytes), number of blocks, and a number of which bit 0 means a
//! read. Only the unit of the arrival differs: milliseconds for DiskSim, nanoseconds for the others. Only DiskSim has
//! decimals; for whole numbers the interval between requests decides, and if both units are plausible, the format is
//! ambiguous.

use diskwright_base::{Operation, Request};
use diskwright_logs::InputHead;

use super::complete_lines;
use crate::line_trace::LineContext;
use crate::summary::DeviceTable;
use crate::text_fields::{parse_nanoseconds, parse_whole, sectors_to_bytes, split_fields};

/// Smallest mean interval between arrivals that can be in nanoseconds: below it there would be more than ten million
/// requests/s, which no disk handles.
const MIN_INTERVAL_AS_NS: f64 = 100.0;
/// Mean interval between arrivals from which milliseconds are implausible: ten seconds.
const MAX_INTERVAL_AS_MS: f64 = 10_000.0;
/// Largest number of lines that are examined.
const MAX_PROBED_LINES: usize = 2000;
/// Largest last column: DiskSim's flags are a few bits.
const MAX_FLAGS: u64 = 0xff;
/// Largest device number. Devices are numbered from 0, so a table of five numbers with larger ones is not a trace.
const MAX_DEVICE: u64 = 1 << 16;
/// Largest number of blocks of a request, 1 GiB.
const MAX_BLOCKS: u64 = 1 << 21;

/// Unit of a file's arrivals, as the beginning of the file shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ArrivalUnit {
    /// Arrivals have decimals, or the flags are DiskSim's.
    Milliseconds,
    /// Arrivals are whole numbers of milliseconds: as nanoseconds, they would mean this many requests/s.
    WholeMilliseconds(f64),
    /// Arrivals are whole numbers of nanoseconds: as milliseconds, they would be this many seconds apart.
    WholeNanoseconds(f64),
    /// Both units are plausible, or there are too few lines.
    Unknown,
}

/// Determines the unit from the first lines; `None` if they do not have this form.
pub(super) fn detect_unit(head: &InputHead<'_>) -> Option<ArrivalUnit> {
    // lines that were examined, have the form, have more flags than bit 0, and are in order of arrival
    let (mut lines, mut good_lines, mut flagged_lines, mut ordered_lines) = (0, 0_usize, 0, 0_usize);
    let (mut has_decimals, mut first_arrival, mut last_arrival) = (false, None, 0);
    for line in complete_lines(head)?.take(MAX_PROBED_LINES) {
        lines += 1;
        let fields: Vec<&[u8]> = split_fields(line).take(6).collect();
        // as nanoseconds, because hours in nanoseconds would be out of range if parsed as milliseconds
        let Some(numbers) = parse_numbers(&fields, 1) else { continue };
        if fields[0].contains(&b'.') {
            has_decimals = true;
            good_lines += 1;
            continue;
        }
        let is_plausible = numbers.device < MAX_DEVICE && numbers.flags <= MAX_FLAGS;
        if !is_plausible || numbers.length == 0 || u64::from(numbers.length / 512) > MAX_BLOCKS {
            continue;
        }
        good_lines += 1;
        flagged_lines += usize::from(numbers.flags > 1);
        let arrival = parse_whole(fields[0])?;
        ordered_lines += usize::from(arrival >= last_arrival);
        last_arrival = last_arrival.max(arrival);
        first_arrival.get_or_insert(arrival);
    }
    if good_lines * 2 <= lines || good_lines == 0 {
        return None;
    }
    let Some(first_arrival) = first_arrival.filter(|_| !has_decimals) else { return Some(ArrivalUnit::Milliseconds) };
    // a table of whole numbers is a trace only if its first column is nearly in order
    if good_lines < 2 || ordered_lines * 10 < good_lines * 9 {
        return (good_lines == 1).then_some(ArrivalUnit::Unknown);
    }
    // few lines with flags may be damaged ones
    if flagged_lines * 20 > good_lines {
        return Some(ArrivalUnit::Milliseconds);
    }
    let mean_interval = (last_arrival - first_arrival) as f64 / (good_lines - 1) as f64;
    Some(match mean_interval {
        0.0 => ArrivalUnit::Unknown,
        interval if interval < MIN_INTERVAL_AS_NS => ArrivalUnit::WholeMilliseconds(1e9 / interval),
        interval if interval >= MAX_INTERVAL_AS_MS => ArrivalUnit::WholeNanoseconds(interval / 1e3),
        _ => ArrivalUnit::Unknown,
    })
}

/// The numbers of a line.
struct FiveNumbers {
    arrival_ns: i64,
    device: u64,
    offset: u64,
    length: u32,
    flags: u64,
}

/// Parses the fields of a line, with arrivals in units of `unit_ns` nanoseconds; `None` unless they are five numbers in
/// range.
fn parse_numbers(fields: &[&[u8]], unit_ns: u64) -> Option<FiveNumbers> {
    let [arrival, device, block, blocks, flags] = fields else { return None };
    let length = parse_whole(blocks).and_then(sectors_to_bytes).and_then(|l| u32::try_from(l).ok())?;
    let flags = std::str::from_utf8(flags).ok()?;
    let flags = u64::from_str_radix(flags.trim_start_matches("0x"), 16).ok()?;
    let (device, offset) = (parse_whole(device)?, sectors_to_bytes(parse_whole(block)?)?);
    Some(FiveNumbers { arrival_ns: parse_nanoseconds(arrival, unit_ns)?, device, offset, length, flags })
}

/// Parses a line whose arrival is in units of `unit_ns` nanoseconds.
pub(super) fn parse_five(
    line: &[u8],
    unit_ns: u64,
    context: &mut LineContext<'_>,
) -> Result<Option<Request>, &'static str> {
    let mut fields = [&[][..]; 5];
    let mut count = 0;
    for field in split_fields(line) {
        *fields.get_mut(count).ok_or("more than five columns")? = field;
        count += 1;
    }
    match count {
        0 => return Ok(None),
        5 => {}
        _ => return Err("fewer than five columns"),
    }
    let numbers = parse_numbers(&fields, unit_ns).ok_or("a column is not a number in range")?;
    let name = || numbers.device.to_string();
    let device = context.devices.number_for(fields[1], name).ok_or(DeviceTable::TOO_MANY)?;
    let operation = if numbers.flags & 1 == 1 { Operation::Read } else { Operation::Write };
    Ok(Some(Request::new(numbers.arrival_ns, device, operation, numbers.offset, numbers.length)))
}
