//! Sorts for people: one in detail, several as a table and a chart with the knee that SAS 1998's formula names.

use std::fmt::Write as _;

use diskwright_base::units::display;
use diskwright_report::curves::{Axis, AxisScale, ChartCurve, CurvePoint, Curves, binary};
use diskwright_report::{Align, Ink, TextTable, plot};
use diskwright_workload::sort::plan::published_memory;
use diskwright_workload::sort::rows::RowShape;
use diskwright_workload::sort::{SortOutcome, StageTime};

use super::sort::PlacedSort;
use crate::commands::output;

/// Bytes as memory is counted: `8 MiB`.
pub fn bytes(bytes: f64) -> String {
    let text = binary(bytes);
    match text.strip_suffix(['K', 'M', 'G']) {
        Some(number) => format!("{number} {}iB", &text[number.len()..]),
        None => display(bytes, "bytes"),
    }
}

/// The screen.
pub fn text(runs: &[PlacedSort]) -> String {
    let style = output::style();
    let Some(first) = runs.first() else { return String::new() };
    let outcome = &first.outcome;
    let data = (outcome.rows * outcome.row_bytes) as f64;
    let mut out = style.paint(Ink::Bold, &format!("Sort of {} rows, {}", outcome.rows, display(data, "bytes")));
    let _ = writeln!(
        out,
        "\n{} of {} with a key of {}; {}, {}",
        outcome.rows,
        display(outcome.row_bytes as f64, "bytes"),
        display(outcome.key_bytes as f64, "bytes"),
        if outcome.threads == 1 { "1 thread".into() } else { format!("{} threads", outcome.threads) },
        if first.options.direct { "direct, without the file cache" } else { "through the file cache" },
    );
    match runs {
        [run] => out += &one(&run.outcome),
        _ => {
            out += &format!("\n{}", several(runs).render(&style));
            out += &format!("\n{}", plot::draw(&chart(runs), &style, 10));
        }
    }
    out += "\nThe result was read back; order, number and content of the rows are correct.\n";
    out + &formula(outcome)
}

/// What SAS 1998's formula says of these rows.
fn formula(outcome: &SortOutcome) -> String {
    let (row, key) = (outcome.row_bytes as usize, outcome.key_bytes as usize);
    let shape = RowShape { row, key };
    let published = published_memory(outcome.rows, shape.row, &[shape.key]);
    format!(
        "To sort in memory, the formula of SAS 1998 requires {}; this sort needs {}.\n",
        bytes(published as f64),
        bytes((outcome.rows * (outcome.row_bytes + 16)) as f64)
    )
}

fn one(outcome: &SortOutcome) -> String {
    let style = output::style();
    let rate = (outcome.rows * outcome.row_bytes) as f64 / outcome.wall_s;
    let mut out = format!(
        "\n  {}   {} of rows sorted; processor time {}\n",
        style.paint(Ink::Bold, &display(outcome.wall_s, "s")),
        display(rate, "bytes_per_s"),
        display(outcome.cpu_s, "s"),
    );
    let _ = writeln!(
        out,
        "  {}\n",
        match (outcome.runs, outcome.passes) {
            (1, _) => format!("everything fits into {} of memory", bytes(outcome.memory_bytes as f64)),
            (runs, 1) => format!("{} of memory: {runs} runs, merged in one pass", bytes(outcome.memory_bytes as f64)),
            (runs, passes) => format!(
                "{} of memory: {runs} runs, merged {} at a time in {passes} passes",
                bytes(outcome.memory_bytes as f64),
                outcome.fan_in
            ),
        }
    );
    out + &stages(outcome).render(&style)
}

/// Stage by stage: bytes, and where the threads' time went.
fn stages(outcome: &SortOutcome) -> TextTable {
    let mut table = TextTable::new().text("stage");
    for title in ["time", "read", "written", "computing", "reading", "writing", "of it waiting"] {
        table = table.column(title, Align::Right);
    }
    let threads = outcome.threads as f64;
    for StageTime { name, wall_s, steps } in &outcome.stages {
        let each = |thread_s: f64| display(thread_s / threads, "s");
        let waiting = steps.read.waiting_s() + steps.write.waiting_s();
        table.row([
            name.clone(),
            display(*wall_s, "s"),
            display(steps.read.bytes as f64, "bytes"),
            display(steps.write.bytes as f64, "bytes"),
            each(steps.compute.thread_s),
            each(steps.read.thread_s),
            each(steps.write.thread_s),
            each(waiting),
        ]);
    }
    table
}

/// Several sorts, one a row.
fn several(runs: &[PlacedSort]) -> TextTable {
    let mut table = TextTable::new().text("sort");
    for title in ["time", "a second", "runs", "passes", "processor", "waiting"] {
        table = table.column(title, Align::Right);
    }
    for run in runs {
        let outcome = &run.outcome;
        let waiting: f64 =
            outcome.stages.iter().map(|stage| stage.steps.read.waiting_s() + stage.steps.write.waiting_s()).sum();
        table.row([
            run.name.clone(),
            display(outcome.wall_s, "s"),
            display((outcome.rows * outcome.row_bytes) as f64 / outcome.wall_s, "bytes_per_s"),
            outcome.runs.to_string(),
            outcome.passes.to_string(),
            display(outcome.cpu_s, "s"),
            display(waiting / outcome.threads as f64, "s"),
        ]);
    }
    table
}

/// Time against memory, or against the number of places.
pub fn chart(runs: &[PlacedSort]) -> Curves {
    let by_memory = runs.windows(2).any(|two| two[0].outcome.memory_bytes != two[1].outcome.memory_bytes);
    let place = |(number, run): (usize, &PlacedSort)| {
        let x = if by_memory { run.outcome.memory_bytes as f64 } else { number as f64 + 1.0 };
        CurvePoint { x, y: run.outcome.wall_s, interval: None }
    };
    let mut points: Vec<CurvePoint> = runs.iter().enumerate().map(place).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let x = if by_memory {
        Axis { words: "Memory for the sort".into(), unit: "bytes".into(), scale: AxisScale::Log }
    } else {
        Axis { words: "Places: source, runs, result".into(), unit: "count".into(), scale: AxisScale::Linear }
    };
    let title = if by_memory { "Time of the sort by memory" } else { "Time of the sort by placement" };
    let y = Axis { words: "Time".into(), unit: "s".into(), scale: AxisScale::Linear };
    Curves { title: title.into(), x, y, lines: vec![ChartCurve { name: String::new(), points }] }
}
