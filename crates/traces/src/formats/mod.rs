//! The trace formats, one file each.

mod blkparse;
mod blktrace;
mod disksim;
mod msr;
mod requests;
mod spc;
mod validation;

pub(crate) use blkparse::line as blkparse_line;
pub(crate) use blktrace::{BlktraceHeader, BlktraceRecord, MAGIC_BYTES, Meaning, header};
pub use requests::{CSV_HEADING, csv_line};

use diskwright_logs::InputHead;

use crate::lines::LineParser;

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
    &spc::FORMAT,
];

/// The format of a file's beginning.
pub fn recognise(head: &InputHead<'_>) -> Option<&'static TraceFormat> {
    FORMATS.iter().find(|format| (format.recognise)(head)).copied()
}

/// Lines that a format is recognised by.
const FEW: usize = 20;

/// Lines of something else that may stand before a trace: what a shell printed, a command.
const BEFORE: usize = 8;

/// True where most of the first lines (blank ones aside, at most `most`) are of
/// a format; a bad one among them is no reason to refuse a file, nor are a few before
/// them. A line that may be cut at the end of the head is not judged.
fn first_lines(head: &InputHead<'_>, most: usize, is_one: impl Fn(&[u8]) -> bool) -> bool {
    let cut = head.bytes.len() >= diskwright_logs::HEAD;
    let whole = match head.bytes.iter().rposition(|b| *b == b'\n') {
        Some(end) if cut => &head.bytes[..end],
        None if cut => return false,
        _ => head.bytes,
    };
    let lines = whole.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let before = lines.clone().take(BEFORE + 1).position(&is_one).unwrap_or(0);
    let (mut seen, mut good) = (0, 0);
    for line in lines.skip(before).take(most) {
        seen += 1;
        good += usize::from(is_one(line));
    }
    good * 2 > seen
}
