//! Binary logs of Windows Performance Monitor (.blg), without Windows.
//!
//! No description of the format was published. This reader is based on two real files, one of each generation: the file
//! is an event trace, whose structures are published; a sample holds raw counters as PDH has them or performance data
//! blocks as the registry supplies them, which are published too. Experimental: anything that is not understood is
//! counted, and never guessed.

mod byte_view;
mod counter_formula;
mod counter_list;
mod event_trace;
mod reader;
mod rows;
mod sample;

use crate::{FrameBatch, InputHead, LogError, LogFormat, LogInput, LogOptions};

/// The format of PerfMon's binary logs.
pub(crate) const FORMAT: LogFormat = LogFormat {
    id: "perfmon-blg",
    title: "Windows Performance Monitor, binary log (experimental)",
    explain: "EXPERIMENTAL: the format is not published. The reader was built from real files of 2007 (32-bit, whole \
              objects) and 2013 (64-bit, counter lists); it counts and reports what it does not understand. Values \
              follow the documented counter types. Times come from the log's UTC clock; names must be English or \
              numbered. For a reliable conversion, run `relog FILE.blg -f csv -o FILE.csv` on Windows.",
    recognize: |head: &InputHead<'_>| event_trace::read_header(head.bytes).is_some(),
    read,
};

fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let Some(header) = event_trace::read_header(input.head().bytes) else {
        return Err(input.error_at("byte 0", "no event trace file"));
    };
    reader::read(input, &header, options, batch)
}
