//! The trace formats, each in its own file.

mod blkparse;
mod blktrace;
mod clouds;
mod disksim;
mod five_columns;
mod mqsim;
mod msr;
mod requests;
mod spc;
mod validation;
mod vscsi;

pub(crate) use blkparse::parse_line as blkparse_line;
pub(crate) use blktrace::{BlktraceHeader, BlktraceRecord, MAGIC_BYTES, RecordMeaning, read_header};
pub use requests::{CSV_HEADING, write_csv_line};

use diskwright_logs::InputHead;

use crate::line_trace::{FixedRecords, LineParser};

/// One trace format.
pub struct TraceFormat {
    /// Short name, lower case with hyphens.
    pub id: &'static str,
    /// Title for lists.
    pub title: &'static str,
    /// Description: the fields that are read, and what the times count from.
    pub explain: &'static str,
    /// Returns true if the beginning of a file has this format. It examines the
    /// content, never the name.
    pub matches_head: fn(&InputHead<'_>) -> bool,
    /// True if its times are times of day. A blktrace may contain the time of day too.
    pub(crate) wall_clock: bool,
    pub(crate) shape: TraceShape,
}

/// Structure of a trace.
pub(crate) enum TraceShape {
    /// One request per line.
    Lines(LineParser),
    /// One request per binary record of fixed length.
    Fixed(FixedRecords),
    /// Events of requests, as the kernel's binary records.
    EventRecords,
    /// Events of requests, as text.
    EventLines,
}

/// All formats, in the order in which they are tried.
pub const FORMATS: &[&TraceFormat] = &[
    &blktrace::FORMAT,
    &blkparse::FORMAT,
    &msr::FORMAT,
    &requests::FORMAT,
    &validation::FORMAT,
    &disksim::FORMAT,
    &mqsim::FORMAT,
    &spc::FORMAT,
    &clouds::ALIBABA,
    &clouds::TENCENT,
    &clouds::SYSTOR,
    &vscsi::FORMAT,
];

/// Recognizes the format by the beginning of a file.
pub fn recognise_format(head: &InputHead<'_>) -> Option<&'static TraceFormat> {
    FORMATS.iter().find(|format| (format.matches_head)(head)).copied()
}

/// Returns the two formats that a file could have, if its beginning is ambiguous.
pub fn ambiguous_formats(head: &InputHead<'_>) -> Option<[&'static str; 2]> {
    (recognise_format(head).is_none() && five_columns::detect_unit(head) == Some(five_columns::ArrivalUnit::Unknown))
        .then_some([disksim::FORMAT.id, mqsim::FORMAT.id])
}

/// Describes the assumption about the unit of arrivals, as a sentence, if one was needed.
pub(crate) fn describe_assumption(format: &TraceFormat, head: &InputHead<'_>) -> Option<String> {
    let (unit, alternative, per_s) = match five_columns::detect_unit(head)? {
        five_columns::ArrivalUnit::WholeMilliseconds(per_s) if format.id == disksim::FORMAT.id => {
            ("milliseconds (DiskSim)", "nanoseconds (MQSim) they would be", per_s)
        }
        five_columns::ArrivalUnit::WholeNanoseconds(seconds) if format.id == mqsim::FORMAT.id => {
            let seconds = diskwright_base::units::format_significant(seconds);
            return Some(format!(
                "arrivals are whole numbers, read as nanoseconds (MQSim, SSDSim): as milliseconds (DiskSim) they \
                 would be {seconds} s apart"
            ));
        }
        _ => return None,
    };
    let per_s = diskwright_base::units::format_value(per_s, "per_s");
    Some(format!("arrivals are whole numbers, read as {unit}: as {alternative} {per_s}"))
}

/// Number of lines by which a format is recognized.
const PROBED_LINES: usize = 20;

/// Largest number of foreign lines before a trace, for example output of a shell.
const MAX_LEADING_LINES: usize = 8;

/// Returns true if most of the first lines (at most `max_lines`, blank ones not counted) have a format. A few bad lines
/// among them or before them are accepted. A line that may be truncated at the end of the head is ignored.
fn most_lines_match(head: &InputHead<'_>, max_lines: usize, is_match: impl Fn(&[u8]) -> bool) -> bool {
    let Some(lines) = complete_lines(head) else { return false };
    let lines: Vec<&[u8]> = lines.take(MAX_LEADING_LINES + max_lines).collect();
    let leading_lines = lines.iter().take(MAX_LEADING_LINES + 1).position(|line| is_match(line)).unwrap_or(0);
    let (mut examined, mut matching) = (0, 0);
    for line in lines.into_iter().skip(leading_lines).take(max_lines) {
        examined += 1;
        matching += usize::from(is_match(line));
    }
    matching * 2 > examined
}

/// Returns the lines of a head, except blank ones and a truncated last one; `None` if no line is complete.
fn complete_lines<'a>(head: &InputHead<'a>) -> Option<impl Iterator<Item = &'a [u8]>> {
    let is_truncated = head.bytes.len() >= diskwright_logs::MAX_HEAD_BYTES;
    let complete = match head.bytes.iter().rposition(|b| *b == b'\n') {
        Some(end) if is_truncated => &head.bytes[..end],
        None if is_truncated => return None,
        _ => head.bytes,
    };
    Some(complete.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()))
}
