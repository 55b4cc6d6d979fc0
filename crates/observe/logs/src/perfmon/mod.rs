//! Text logs of Windows Performance Monitor: CSV and TSV of logman, PerfMon and relog, the output of typeperf, files
//! that spreadsheets rewrote, and VMware's `esxtop -b`, which writes the same.
//!
//! The body of such a file is all numbers, and may have many gigabytes: [`rows`] converts bytes to columns without an
//! intermediate form, [`number`] the digits.

mod charset;
mod clock;
mod columns;
mod header;
pub(crate) mod line_buffer;
pub(crate) mod number;
mod reader;
mod rows;

use crate::{FrameBatch, InputHead, LogError, LogFormat, LogInput, LogOptions};

/// The format of PerfMon's text logs.
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
    recognize: is_perfmon_text,
    read,
};

/// Largest number of lines before the header: output of a shell or typeperf.
const MAX_LINES_BEFORE_HEADER: usize = 200;

fn is_perfmon_text(head: &InputHead<'_>) -> bool {
    let mut lines = head.bytes.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty());
    // the first line may be any header; behind other lines it must have the format's mark
    lines.next().is_some_and(header::is_header) || lines.take(MAX_LINES_BEFORE_HEADER).any(header::has_format_mark)
}

fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    reader::PerfmonReader::new(input.name(), options, batch).read_all(input)
}
