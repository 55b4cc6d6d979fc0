//! Traces of MQSim (its README.md, "Defining a Trace-based Workload") and SSDSim
//! (`get_requests` of its ssd.c):
//!
//! ```text
//! 48513000 0 9025768 8 1
//! ```
//!
//! The columns are arrival in nanoseconds, device, first sector (512 bytes), number of sectors, and 1 for a read or 0
//! for a write. DiskSim's traces have the same columns; `five_columns.rs`
//! distinguishes them.

use diskwright_base::Request;
use diskwright_logs::InputHead;

use super::five_columns::{ArrivalUnit, detect_unit, parse_five};
use super::{TraceFormat, TraceShape};
use crate::line_trace::LineContext;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    id: "mqsim",
    title: "MQSim and SSDSim trace: arrivals in nanoseconds",
    explain: "Lines of `arrival_ns device sector sectors type`; a sector is 512 bytes, type 1 is a read and 0 a \
              write. Times count from the trace's own zero; it holds no completions. MQSim can be set to read \
              arrivals as microseconds or picoseconds: the trace does not say so, and it is read as nanoseconds.",
    matches_head,
    wall_clock: false,
    shape: TraceShape::Lines(parse_line),
};

fn matches_head(head: &InputHead<'_>) -> bool {
    matches!(detect_unit(head), Some(ArrivalUnit::WholeNanoseconds(_)))
}

fn parse_line(line: &[u8], context: &mut LineContext<'_>) -> Result<Option<Request>, &'static str> {
    // the last column is a type, 0 or 1; DiskSim's flags may have more bits
    let kind = line.trim_ascii_end().rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
    if !line.trim_ascii().is_empty() && !matches!(kind, b"0" | b"1") {
        return Err("column 5: expected 0 or 1");
    }
    parse_five(line, 1, context)
}
