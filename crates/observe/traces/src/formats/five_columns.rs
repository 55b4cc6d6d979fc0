//! Lines of five numbers, which DiskSim, MQSim and SSDSim share:
//!
//! ```text
//! 938513 0 264719 16 0
//! ```
//!
//! arrival, device, first block (512 bytes), blocks, and a number of which bit 0
//! means a read. Only the unit of the arrival differs: milliseconds for DiskSim,
//! nanoseconds for the others. Only DiskSim has decimals; for whole numbers the interval
//! between requests decides, and if both units are plausible the format is ambiguous.

use diskwright_base::{Operation, Request};
use diskwright_logs::InputHead;

use super::complete_lines;
use crate::line_trace::LineContext;
use crate::summary::DeviceTable;
use crate::text_fields::{parse_nanoseconds, parse_whole, sectors_to_bytes, split_fields};

/// Smallest mean interval that can be nanoseconds: below it there would be more than ten
/// million requests/s, which no disk handles.
const MIN_INTERVAL_AS_NS: f64 = 100.0;
/// Mean interval from which milliseconds are implausible: ten seconds between requests.
const MAX_INTERVAL_AS_MS: f64 = 10_000.0;
/// Largest number of lines that are examined.
const MAX_PROBED_LINES: usize = 2000;
/// Largest last column: DiskSim's flags are a few bits.
const MAX_FLAGS: u64 = 0xff;
/// Largest device number: devices are numbered from 0, so other tables of five
/// numbers are not traces.
const MAX_DEVICE: u64 = 1 << 16;
/// Largest number of blocks of a request, 1 GiB.
const MAX_BLOCKS: u64 = 1 << 21;

/// Unit of a file's arrivals, by the beginning of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ArrivalUnit {
    /// Arrivals have decimals, or the flags are DiskSim's.
    Milliseconds,
    /// Whole numbers that are milliseconds: as nanoseconds they would be this many requests/s.
    WholeMilliseconds(f64),
    /// Whole numbers that are nanoseconds: as milliseconds they would be this many seconds apart.
    WholeNanoseconds(f64),
    /// Both units are plausible, or there are too few lines.
    Unknown,
}

/// Examines the first lines; `None` if they do not have this form.
pub(super) fn detect_unit(head: &InputHead<'_>) -> Option<ArrivalUnit> {
    let (mut seen, mut good, mut decimals, mut flagged) = (0, 0_usize, false, 0);
    let (mut first, mut last, mut ordered) = (None, 0, 0_usize);
    for line in complete_lines(head)?.take(MAX_PROBED_LINES) {
        seen += 1;
        let found: Vec<&[u8]> = split_fields(line).take(6).collect();
        // parsed as nanoseconds: hours in nanoseconds would be out of range as milliseconds
        let Some(numbers) = parse_numbers(&found, 1) else { continue };
        if found[0].contains(&b'.') {
            decimals = true;
            good += 1;
            continue;
        }
        let plausible = numbers.device < MAX_DEVICE && numbers.flags <= MAX_FLAGS;
        if !plausible || numbers.length == 0 || u64::from(numbers.length / 512) > MAX_BLOCKS {
            continue;
        }
        good += 1;
        flagged += usize::from(numbers.flags > 1);
        let arrival = parse_whole(found[0])?;
        ordered += usize::from(arrival >= last);
        last = last.max(arrival);
        first.get_or_insert(arrival);
    }
    if good * 2 <= seen || good == 0 {
        return None;
    }
    let Some(first) = first.filter(|_| !decimals) else { return Some(ArrivalUnit::Milliseconds) };
    // whole numbers could be any table, but times must be nearly in order
    if good < 2 || ordered * 10 < good * 9 {
        return (good == 1).then_some(ArrivalUnit::Unknown);
    }
    // a single line with flags may be damaged
    if flagged * 20 > good {
        return Some(ArrivalUnit::Milliseconds);
    }
    let between = (last - first) as f64 / (good - 1) as f64;
    Some(match between {
        0.0 => ArrivalUnit::Unknown,
        b if b < MIN_INTERVAL_AS_NS => ArrivalUnit::WholeMilliseconds(1e9 / b),
        b if b >= MAX_INTERVAL_AS_MS => ArrivalUnit::WholeNanoseconds(b / 1e3),
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

/// Parses the fields of a line; `None` if one is not a number in range.
fn parse_numbers(found: &[&[u8]], unit_ns: u64) -> Option<FiveNumbers> {
    let [arrival, device, block, blocks, flags] = found else { return None };
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
    let mut found = [&[][..]; 5];
    let mut count = 0;
    for field in split_fields(line) {
        *found.get_mut(count).ok_or("more than five columns")? = field;
        count += 1;
    }
    match count {
        0 => return Ok(None),
        5 => {}
        _ => return Err("fewer than five columns"),
    }
    let numbers = parse_numbers(&found, unit_ns).ok_or("a column is not a number in range")?;
    let name = || numbers.device.to_string();
    let device = context.devices.number_for(found[1], name).ok_or(DeviceTable::TOO_MANY)?;
    let operation = if numbers.flags & 1 == 1 { Operation::Read } else { Operation::Write };
    Ok(Some(Request::new(numbers.arrival_ns, device, operation, numbers.offset, numbers.length)))
}
