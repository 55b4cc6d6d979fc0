//! Windows Performance Monitor's text logs: CSV and TSV of logman, PerfMon and
//! relog, what typeperf prints, what spreadsheets make of them, and VMware's
//! `esxtop -b`, which writes the same.
//!
//! The body of such a file is nothing but numbers, and there may be many
//! gigabytes of it: [`rows`] turns bytes into columns without anything in
//! between, [`number`] the digits.

pub(crate) mod buffer;
mod charset;
mod clock;
mod columns;
mod header;
pub(crate) mod number;
mod reader;
mod rows;

use crate::{FrameBatch, InputHead, LogError, LogFormat, LogInput, LogOptions};

/// PerfMon text.
pub(crate) const FORMAT: LogFormat = LogFormat {
    id: "perfmon-text",
    title: "Windows Performance Monitor text: CSV and TSV, typeperf, relog, esxtop -b",
    explain: "\
All columns of one machine, in English, German, Spanish, French, Italian, Portuguese, Russian and Swedish; unknown \
names stay as they are. ANSI code pages, UTF-8 and UTF-16. Times are local, with one UTC offset in the header; if it \
is missing, use --utc-offset. A clock change within the log is followed. Blank cells are gaps. _Total is a sum, not a \
disk: record PhysicalDisk(*). Record with: logman create counter NAME -f csv -si 15 \
-c \"\\PhysicalDisk(*)\\*\" \"\\LogicalDisk(*)\\*\" \"\\Memory\\*\" \"\\Paging File(*)\\*\" \"\\Processor(*)\\*\" \
\"\\System\\*\" \"\\Network Interface(*)\\*\" \"\\Process(*)\\*\"; then logman start NAME.",
    recognise,
    read,
};

/// Lines that may stand before the header: what a shell or typeperf prints.
const BEFORE: usize = 200;

fn recognise(head: &InputHead<'_>) -> bool {
    let mut lines = head.bytes.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty());
    // a header is at its best as the first line; behind others it must have the mark
    lines.next().is_some_and(header::is_header) || lines.take(BEFORE).any(header::is_marked)
}

fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    reader::PerfmonReader::new(input.name(), options, batch).read(input)
}
