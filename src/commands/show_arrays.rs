//! `show` with declared arrays (`--array`, `--topology`): what each member does and how many requests it has in flight.

use diskwright_base::LogPiece;
use diskwright_base::units::format_value;
use diskwright_planner::series::{FrontLoad, LoadCollector};
use diskwright_report::{Align, Style, TextTable};
use serde::Serialize;

use super::Failure;
use super::log::Logs;
use super::plan::from_log::collect_piece;

/// Load of an array and of each of its members, means over the window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArrayLoad {
    name: String,
    level: Option<&'static str>,
    members: usize,
    requests_per_s: f64,
    /// Requests in flight; `None` if the log does not show them.
    queue: Option<f64>,
    /// I/Os per second of each member, by the level's factor for writes.
    member_transfers_per_s: f64,
    member_queue: Option<f64>,
}

/// Reads the load of the arrays of a log. A device with one member is not an array.
pub fn read_array_loads(logs: &Logs) -> Result<Vec<ArrayLoad>, Failure> {
    let mut collector = LoadCollector::default();
    logs.read::<Failure>(|piece: LogPiece<'_>| collect_piece(&mut collector, &piece))?;
    Ok(collector.finish().fronts.iter().filter(|front| front.members > 1).map(describe_array).collect())
}

fn describe_array(front: &FrontLoad) -> ArrayLoad {
    let sums = &front.sums;
    ArrayLoad {
        name: front.name.clone(),
        level: front.level.map(|level| level.name()),
        members: front.members,
        requests_per_s: sums.requests_per_s(),
        queue: front.queue(),
        member_transfers_per_s: front.member_load(sums.reads / sums.seconds, sums.writes / sums.seconds),
        member_queue: front.member_queue(),
    }
}

/// Draws the arrays with the load of each member.
pub fn draw_arrays(arrays: &[ArrayLoad], style: &Style) -> String {
    if arrays.is_empty() {
        return String::new();
    }
    let mut table = TextTable::new().with_text_column("array");
    for title in ["requests", "in flight", "transfers by member", "in flight by member"] {
        table = table.with_column(title, Align::Right);
    }
    let queue = |queue: Option<f64>| queue.map_or("no data".to_owned(), |queue| format_value(queue, "count"));
    for array in arrays {
        let level = array.level.map_or(String::new(), |level| format!("{level} of "));
        table.add_row([
            format!("{}: {level}{}", array.name, array.members),
            format_value(array.requests_per_s, "per_s"),
            queue(array.queue),
            format_value(array.member_transfers_per_s, "per_s"),
            queue(array.member_queue),
        ]);
    }
    format!("\n{}", table.render(style))
}
