//! DiskSim's own ASCII traces:
//!
//! ```text
//! 0.000000 0 2905854 8 1
//! ```
//!
//! The columns are arrival in milliseconds since the start, device number, first block (512 bytes), number of blocks,
//! and flags in hexadecimal, of which 1 means a read. Arrivals without decimals look like those of `mqsim.rs`;
//! `five_columns.rs` distinguishes them.

use diskwright_base::Request;
use diskwright_logs::InputHead;

use super::five_columns::{ArrivalUnit, detect_unit, parse_five};
use super::{TraceFormat, TraceShape};
use crate::line_trace::LineContext;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    id: "disksim",
    title: "DiskSim ASCII trace: arrivals only",
    explain: "Lines of `arrival_ms device block blocks flags`; a block is 512 bytes, and bit 0 of the hexadecimal \
              flags means a read. Times count from the start of the trace, which holds no completions. Arrivals \
              without decimals are taken for milliseconds where nanoseconds would be beyond any disk.",
    matches_head,
    wall_clock: false,
    shape: TraceShape::Lines(parse_line),
};

fn matches_head(head: &InputHead<'_>) -> bool {
    matches!(detect_unit(head), Some(ArrivalUnit::Milliseconds | ArrivalUnit::WholeMilliseconds(_)))
}

fn parse_line(line: &[u8], context: &mut LineContext<'_>) -> Result<Option<Request>, &'static str> {
    parse_five(line, 1_000_000, context)
}
