//! The trace formats, one file each.

mod blkparse;
mod blktrace;
mod clouds;
mod disksim;
mod five;
mod mqsim;
mod msr;
mod requests;
mod spc;
mod validation;
mod vscsi;

pub(crate) use blkparse::line as blkparse_line;
pub(crate) use blktrace::{BlktraceHeader, BlktraceRecord, MAGIC_BYTES, Meaning, header};
pub use requests::{CSV_HEADING, csv_line};

use diskwright_logs::InputHead;

use crate::lines::{FixedRecords, LineParser};

/// One trace format.
pub struct TraceFormat {
    /// Short name, lower case with hyphens.
    pub id: &'static str,
    /// What it is, for lists.
    pub title: &'static str,
    /// What is read of it, and what the moments mean.
    pub explain: &'static str,
    /// True when the beginning of a file is of this format. It looks at
    /// content, never at the name.
    pub recognise: fn(&InputHead<'_>) -> bool,
    /// True where its moments are of the time of day; blktrace may bring it.
    pub(crate) wall_clock: bool,
    pub(crate) shape: TraceShape,
}

/// How a trace is built.
pub(crate) enum TraceShape {
    /// A request a line.
    Lines(LineParser),
    /// A request a binary record of one length.
    Fixed(FixedRecords),
    /// Events of requests, as the kernel's binary records.
    Records,
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

/// The format of a file's beginning.
pub fn recognise(head: &InputHead<'_>) -> Option<&'static TraceFormat> {
    FORMATS.iter().find(|format| (format.recognise)(head)).copied()
}

/// The formats that a file could be of alike, where its beginning cannot tell.
pub fn ambiguous(head: &InputHead<'_>) -> Option<[&'static str; 2]> {
    (recognise(head).is_none() && five::unit(head) == Some(five::ArrivalUnit::Unknown))
        .then_some([disksim::FORMAT.id, mqsim::FORMAT.id])
}

/// What was taken for granted to read a file of this beginning, as a sentence.
pub(crate) fn assumption(format: &TraceFormat, head: &InputHead<'_>) -> Option<String> {
    let (unit, other, per_s) = match five::unit(head)? {
        five::ArrivalUnit::WholeMilliseconds(per_s) if format.id == disksim::FORMAT.id => {
            ("milliseconds (DiskSim)", "nanoseconds (MQSim) they would be", per_s)
        }
        five::ArrivalUnit::WholeNanoseconds(seconds) if format.id == mqsim::FORMAT.id => {
            let seconds = diskwright_base::units::digits(seconds);
            return Some(format!(
                "arrivals are whole numbers, read as nanoseconds (MQSim, SSDSim): as milliseconds (DiskSim) they \
                 would be {seconds} s apart"
            ));
        }
        _ => return None,
    };
    let per_s = diskwright_base::units::display(per_s, "per_s");
    Some(format!("arrivals are whole numbers, read as {unit}: as {other} {per_s}"))
}

/// Lines that a format is recognised by.
const FEW: usize = 20;

/// Lines of something else that may stand before a trace: what a shell printed, a command.
const BEFORE: usize = 8;

/// True where most of the first lines (blank ones aside, at most `most`) are of
/// a format; a bad one among them is no reason to refuse a file, nor are a few before
/// them. A line that may be cut at the end of the head is not judged.
fn first_lines(head: &InputHead<'_>, most: usize, is_one: impl Fn(&[u8]) -> bool) -> bool {
    let Some(lines) = head_lines(head) else { return false };
    let lines: Vec<&[u8]> = lines.take(BEFORE + most).collect();
    let before = lines.iter().take(BEFORE + 1).position(|line| is_one(line)).unwrap_or(0);
    let (mut seen, mut good) = (0, 0);
    for line in lines.into_iter().skip(before).take(most) {
        seen += 1;
        good += usize::from(is_one(line));
    }
    good * 2 > seen
}

/// The lines of a head but for blank ones and one that is cut; `None` where there is no whole one.
fn head_lines<'a>(head: &InputHead<'a>) -> Option<impl Iterator<Item = &'a [u8]>> {
    let cut = head.bytes.len() >= diskwright_logs::HEAD;
    let whole = match head.bytes.iter().rposition(|b| *b == b'\n') {
        Some(end) if cut => &head.bytes[..end],
        None if cut => return None,
        _ => head.bytes,
    };
    Some(whole.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()))
}
