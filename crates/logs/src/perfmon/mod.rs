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

fn recognise(head: &InputHead<'_>) -> bool {
    let narrow;
    let bytes = match charset::wide(head.bytes) {
        Some(encoding) => {
            narrow = encoding.decode_without_bom_handling(&head.bytes[..head.bytes.len() & !1]).0.into_owned();
            narrow.trim_start_matches('\u{feff}').as_bytes()
        }
        None => head.bytes,
    };
    // typeperf's output begins with an empty line
    let first = bytes.split_inclusive(|b| *b == b'\n').find(|line| !line.trim_ascii().is_empty());
    first.is_some_and(header::is_header)
}

fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let wide = charset::wide(input.head().bytes);
    let mut reader = reader::PerfmonReader::new(input.name(), options, batch);
    match wide {
        Some(encoding) => reader.read(&mut charset::Utf8Stream::new(input, encoding)),
        None => reader.read(input),
    }
}
