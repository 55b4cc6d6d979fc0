//! Rendering of a result for a terminal: the target, a table of the runs, their
//! cost, and the conclusions. Columns that do not fit or have no values are left
//! out; repeats of a run share one row.

use diskwright_base::units::format_value;
use diskwright_results::compare::estimate_of;
use diskwright_results::document::ProbeDocument;
use diskwright_results::facts::ScriptFormat;
use diskwright_results::facts::SuiteText;
use diskwright_results::result::RunResult;

use super::page::{duration, hidden, remarks};
use crate::compare::joined;
use crate::spark::sparkline;
use crate::style::{Ink, Style};
use crate::table::{Align, TextTable};
use crate::text::{self, wrap};

/// Renders the whole result, of a suite or of a script.
pub fn screen(suite: Option<SuiteText>, document: &ProbeDocument, style: &Style) -> String {
    let groups = groups(&document.runs);
    let mut out = head(suite, document, style);
    out += &fitted(&speed(&groups, style), style);
    let costs = costs(&groups, document.moving_bytes);
    if costs.len() > 1 {
        out += &format!("\n{}\n", style.paint(Ink::Bold, "What it cost"));
        out += &fitted(&costs, style);
    }
    out += &over_time(&groups, style);
    let mut found = Vec::new();
    for remark in &document.remarks {
        let value = match (remark.value, &remark.unit) {
            (Some(value), Some(unit)) => format!("{}{}", format_value(value, unit), remark.between()),
            _ => String::new(),
        };
        found.push(format!("{value}{}", remark.text));
    }
    found.extend(hidden(document));
    found.extend(engine(document));
    if !found.is_empty() {
        out += &format!("\n{}\n", style.paint(Ink::Bold, "What it shows"));
    }
    for line in found.iter().flat_map(|text| indented(text, style)) {
        out += &format!("{line}\n");
    }
    let notes = document.script.iter().flat_map(|s| &s.notes);
    for (index, note) in notes.enumerate() {
        if index == 0 {
            out += &format!("\n{}\n", style.paint(Ink::Bold, "Deviations from the script"));
        }
        for line in indented(&format!("{}:{}: {}", note.file, note.line, note.text), style) {
            out += &format!("{line}\n");
        }
    }
    let Some(suite) = suite else { return out };
    let good = wrap(&style.clean(&format!("A good result: {}", suite.good)), style.width, 0);
    out + &format!("\n{}\n", good.join("\n"))
}

/// Smallest lateness of the probe itself that is reported, as a share of the mean latency.
const LATE_SHARE: f64 = 0.05;

/// Returns the notes on why the engine could not run as requested, each once, and a
/// note on the run in which the probe's own lateness distorts the latency most.
fn engine(document: &ProbeDocument) -> Vec<String> {
    let mut messages: Vec<String> = Vec::new();
    for note in document.runs.iter().flat_map(|run| &run.engine_notes).filter(|note| !note.is_empty()) {
        if !messages.contains(note) {
            messages.push(note.clone());
        }
    }
    let share = |run: &&RunResult| {
        let late = run.late_start_s.filter(|_| run.pace == "open")?.mean;
        run.latency_s.mean.filter(|mean| late > LATE_SHARE * mean).map(|mean| late / mean)
    };
    let worst = document.runs.iter().filter_map(|run| share(&run).map(|s| (run, s))).max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((run, share)) = worst {
        messages.push(format!(
            "in {} the probe itself started requests late, most likely because the processor was busy: {:.0} % of \
             their latency is not the target's",
            run.name,
            share * 100.0
        ));
    }
    messages
}

/// Returns a line on the suite or script that was run.
fn title(suite: Option<SuiteText>, document: &ProbeDocument) -> String {
    if let Some(suite) = suite {
        return format!("{}: {}", suite.id, suite.title);
    }
    let file = document.script.as_ref().and_then(|s| s.files.first()).map_or("", |f| &f.path);
    let kind = match document.script.as_ref().map(|s| s.format) {
        Some(ScriptFormat::Fio) => " as a job file of fio",
        Some(ScriptFormat::ResponseProbe) => " as a script of Response Probe",
        None => "",
    };
    format!("{}: {file}{kind}", document.suite)
}

/// Wraps an item of the list below a heading into indented lines of the style's width.
pub fn indented(words: &str, style: &Style) -> Vec<String> {
    let lines = wrap(&style.clean(words), style.width.saturating_sub(4), 0);
    lines
        .into_iter()
        .enumerate()
        .map(|(index, line)| format!("{}{line}", if index == 0 { "  " } else { "    " }))
        .collect()
}

/// Renders the head: suite or script, targets, and facts on the device.
fn head(suite: Option<SuiteText>, document: &ProbeDocument, style: &Style) -> String {
    let device = &document.device;
    let words = [
        Some(device.name.clone()).filter(|n| !n.is_empty()),
        device.model.clone(),
        device.bytes.map(|b| format_value(b as f64, "bytes")),
        Some(device.class.clone()).filter(|c| !c.is_empty()),
        device.scheduler.as_ref().map(|s| format!("scheduler {s}")),
        device.filesystem.as_ref().map(|f| format!("{f} on {}", device.mount.as_deref().unwrap_or("?"))),
        Some(format!("Linux {}", device.kernel)),
        document.runs.first().map(|r| r.engine.clone()),
        document.buffered.then(|| "through the page cache".into()),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    let title = style.paint(Ink::Bold, &style.clean(&title(suite, document)));
    let names: Vec<&str> = document.targets.iter().map(|t| t.name.as_str()).collect();
    let target = if names.is_empty() { document.target.clone() } else { names.join(", ") };
    let target = wrap(&style.clean(&format!("{target} ({})", words.join(", "))), style.width, 0);
    format!("{title}\n{}\n\n", style.paint(Ink::Dim, &target.join("\n")))
}

/// Groups the runs by name, in the order of first occurrence.
fn groups(runs: &[RunResult]) -> Vec<Vec<&RunResult>> {
    let mut positions = std::collections::HashMap::new();
    let mut groups: Vec<Vec<&RunResult>> = Vec::new();
    for run in runs {
        let position = *positions.entry(run.name.as_str()).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[position].push(run);
    }
    groups
}

/// A column: its title, its cells, and the priority with which it is dropped if
/// the table is too wide (0 is never dropped).
struct ScreenColumn {
    title: String,
    cells: Vec<String>,
    goes: u32,
    kind: ScreenColumnKind,
}

/// Kind of a column's content, which decides its alignment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScreenColumnKind {
    Words,
    Bar,
    Number,
}

/// Returns the finite values of a quantity over the runs.
fn values(runs: &[&RunResult], quantity: impl Fn(&RunResult) -> Option<f64>) -> Vec<f64> {
    runs.iter().filter_map(|r| quantity(r)).filter(|v| v.is_finite()).collect()
}

fn mean(runs: &[&RunResult], quantity: impl Fn(&RunResult) -> Option<f64>) -> Option<f64> {
    let values = values(runs, quantity);
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

type ScreenQuantity = fn(&RunResult) -> Option<f64>;

/// Makes a column of the means of a quantity; `-` where it is unknown.
fn column(groups: &[Vec<&RunResult>], title: &str, unit: &str, goes: u32, quantity: ScreenQuantity) -> ScreenColumn {
    let cell = |runs: &Vec<&RunResult>| mean(runs, quantity).map_or("-".into(), |v| format_value(v, unit));
    ScreenColumn { title: title.into(), cells: groups.iter().map(cell).collect(), goes, kind: ScreenColumnKind::Number }
}

fn named(groups: &[Vec<&RunResult>]) -> ScreenColumn {
    let name = |runs: &Vec<&RunResult>| runs.first().map_or_else(String::new, |r| r.name.clone());
    ScreenColumn {
        title: "run".into(),
        cells: groups.iter().map(name).collect(),
        goes: 0,
        kind: ScreenColumnKind::Words,
    }
}

/// Makes the columns of rates, latencies and problems.
fn speed(groups: &[Vec<&RunResult>], style: &Style) -> Vec<ScreenColumn> {
    let rate = |runs: &Vec<&RunResult>| {
        let estimate = estimate_of(&values(runs, |r| Some(r.requests_per_s)));
        let mean = format_value(estimate.mean, "per_s");
        match (estimate.low, estimate.high) {
            (Some(low), Some(high)) => joined(&mean, " ±", &format_value((high - low) / 2.0, "per_s")),
            _ => mean,
        }
    };
    let mut columns = vec![
        named(groups),
        ScreenColumn {
            title: "requests/s".into(),
            cells: groups.iter().map(rate).collect(),
            goes: 0,
            kind: ScreenColumnKind::Number,
        },
        column(groups, "bytes/s", "bytes_per_s", 0, |r| Some(r.bytes_per_s)),
    ];
    // the bar stands beside the figure that it shows
    if let Some((by_bytes, bars)) = bars(groups, style) {
        columns.insert(if by_bytes { 3 } else { 2 }, bars);
    }
    columns.extend([
        column(groups, "mean", "s", 0, |r| r.latency_s.mean),
        column(groups, "50 %", "s", 3, |r| r.latency_s.p50),
        column(groups, "95 %", "s", 5, |r| r.latency_s.p95),
        column(groups, "99 %", "s", 0, |r| r.latency_s.p99),
        column(groups, "99.9 %", "s", 2, |r| r.latency_s.p999),
    ]);
    let longest = |runs: &Vec<&RunResult>| {
        let max_s = values(runs, |r| r.latency_s.max).into_iter().reduce(f64::max);
        max_s.map_or("-".into(), |v| format_value(v, "s"))
    };
    columns.push(ScreenColumn {
        title: "max".into(),
        cells: groups.iter().map(longest).collect(),
        goes: 1,
        kind: ScreenColumnKind::Number,
    });
    columns.retain(is_known);
    let doubts: Vec<String> = groups.iter().map(|runs| doubts(runs)).collect();
    if doubts.iter().any(|d| !d.is_empty()) {
        columns.push(ScreenColumn { title: String::new(), cells: doubts, goes: 0, kind: ScreenColumnKind::Words });
    }
    columns
}

/// Lists the problems of the runs of a name; for repeats, with the number of runs affected.
fn doubts(runs: &[&RunResult]) -> String {
    let mut found: Vec<(String, usize)> = Vec::new();
    for doubt in runs.iter().flat_map(|r| remarks(r)) {
        match found.iter_mut().find(|(known, _)| *known == doubt) {
            Some((_, count)) => *count += 1,
            None => found.push((doubt, 1)),
        }
    }
    let doubt_text = |(doubt, count): &(String, usize)| {
        if runs.len() > 1 { format!("{doubt} ({count} of {})", runs.len()) } else { doubt.clone() }
    };
    found.iter().map(doubt_text).collect::<Vec<_>>().join(", ")
}

/// Width of a bar, columns.
const BAR: usize = 10;

/// Makes a column with a bar for each run: of bytes per second if sizes differ (the
/// flag is then true), otherwise of requests per second. Returns `None` if there
/// are fewer than three runs to compare.
fn bars(groups: &[Vec<&RunResult>], style: &Style) -> Option<(bool, ScreenColumn)> {
    let sizes: Vec<f64> = groups.iter().filter_map(|runs| Some(runs.first()?.size_bytes)).collect();
    let by_bytes = sizes.windows(2).any(|w| w[0] != w[1]);
    let quantity: ScreenQuantity = if by_bytes { |r| Some(r.bytes_per_s) } else { |r| Some(r.requests_per_s) };
    let heights: Vec<f64> = groups.iter().map(|runs| mean(runs, quantity).unwrap_or(0.0)).collect();
    let max_value = heights.iter().copied().fold(0.0, f64::max);
    if groups.len() < 3 || max_value <= 0.0 {
        return None;
    }
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let bar = |height: &f64| {
        let eighths = (height / max_value * 8.0 * BAR as f64).round() as usize;
        if !style.unicode {
            return "#".repeat((eighths + 4) / 8);
        }
        format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
    };
    let cells = heights.iter().map(bar).collect();
    Some((by_bytes, ScreenColumn { title: String::new(), cells, goes: 4, kind: ScreenColumnKind::Bar }))
}

/// Makes the columns of processor time, interrupts, context switches, and the time
/// to move `moving` bytes, as far as they are known for any run.
fn costs(groups: &[Vec<&RunResult>], moving: Option<u64>) -> Vec<ScreenColumn> {
    let mut columns = vec![
        column(groups, "cpu/request", "s", 0, |r| r.cpu_s_per_request),
        column(groups, "processors", "count", 2, |r| r.cpu_share),
        column(groups, "interrupts/request", "count", 1, |r| r.interrupts_per_request),
        column(groups, "bytes/interrupt", "bytes", 3, |r| r.bytes_per_interrupt),
        column(groups, "switches/request", "count", 4, |r| r.context_switches_per_request),
    ];
    if let Some(bytes) = moving {
        let cell = |runs: &Vec<&RunResult>| mean(runs, |r| r.moving_s).map_or("-".into(), duration);
        let cells = groups.iter().map(cell).collect();
        let title = format!("moving {}", format_value(bytes as f64, "bytes"));
        columns.push(ScreenColumn { title, cells, goes: 0, kind: ScreenColumnKind::Number });
    }
    columns.retain(is_known);
    columns.insert(0, named(groups));
    columns
}

/// Returns false for a column without any value.
fn is_known(column: &ScreenColumn) -> bool {
    column.cells.iter().any(|cell| cell != "-")
}

/// Renders the table, dropping columns until it fits.
fn fitted(columns: &[ScreenColumn], style: &Style) -> String {
    let mut kept: Vec<&ScreenColumn> = columns.iter().collect();
    loop {
        let mut table = TextTable::new();
        for (index, column) in kept.iter().enumerate() {
            table = match column.kind {
                ScreenColumnKind::Words if index > 0 => table.text(&column.title),
                ScreenColumnKind::Words | ScreenColumnKind::Bar => table.column(&column.title, Align::Left),
                ScreenColumnKind::Number => table.column(&column.title, Align::Right),
            };
        }
        for row in 0..columns.first().map_or(0, |c| c.cells.len()) {
            table.row(kept.iter().map(|c| c.cells[row].clone()));
        }
        let drawn = table.render(style);
        let width = drawn.lines().map(text::width).max().unwrap_or(0);
        let first =
            kept.iter().enumerate().filter(|(_, c)| c.goes > 0).max_by_key(|(_, c)| c.goes).map(|(index, _)| index);
        match first.filter(|_| width > style.width) {
            Some(index) => drop(kept.remove(index)),
            None => return drawn,
        }
    }
}

/// Largest number of names for which each run is shown over time.
const FEW: usize = 3;

/// Renders a sparkline of the request rate over the time of each run.
fn over_time(groups: &[Vec<&RunResult>], style: &Style) -> String {
    let mut out = String::new();
    for run in groups.iter().filter(|_| groups.len() <= FEW).filter_map(|runs| runs.first()) {
        let Some(timeline) = &run.course else { continue };
        let rates = &timeline.requests_per_s;
        let line = sparkline(rates, None, style.width.saturating_sub(4).min(76), style.unicode);
        let min = rates.iter().copied().fold(f64::MAX, f64::min);
        let max = rates.iter().copied().fold(0.0, f64::max);
        let (min, max) = (format_value(min, "per_s"), format_value(max, "per_s"));
        out += &format!("\n{}\n", style.paint(Ink::Bold, &style.clean(&format!("{} over time", run.name))));
        out += &format!("  {}\n  between {min} and {max}\n", style.paint(Ink::Line(0), &line));
    }
    out
}
