//! Rendering of a result for a terminal: the target, a table of the runs, their
//! cost, and the conclusions. Columns that do not fit or have no values are left
//! out; repeats of a run share one row.

use diskwright_base::byte_size::ByteSize;
use diskwright_base::units::format_value;
use diskwright_results::compare::estimate_from_values;
use diskwright_results::document::ProbeDocument;
use diskwright_results::facts::{ScriptFormat, SuiteText};
use diskwright_results::result::RunResult;

use super::page::{describe_hidden_requests, format_duration, run_remarks};
use crate::compare::join_values;
use crate::sparkline::sparkline;
use crate::style::{Ink, Style};
use crate::table::{Align, TextTable};
use crate::text::{self, wrap};

/// Renders the whole result, of a suite or of a script.
pub fn render_screen(suite: Option<SuiteText>, document: &ProbeDocument, style: &Style) -> String {
    let groups = group_by_name(&document.runs);
    let mut out = screen_head(suite, document, style);
    out += &fit_table(&speed_columns(&groups, style), style);
    let costs = cost_columns(&groups, document.moving_bytes);
    if costs.len() > 1 {
        out += &format!("\n{}\n", style.paint(Ink::Bold, "What it cost"));
        out += &fit_table(&costs, style);
    }
    out += &run_timelines(&groups, style);
    let mut items = Vec::new();
    for remark in &document.remarks {
        let value = match (remark.value, &remark.unit) {
            (Some(value), Some(unit)) => format!("{}{}", format_value(value, unit), remark.separator()),
            _ => String::new(),
        };
        items.push(format!("{value}{}", remark.text));
    }
    items.extend(describe_hidden_requests(document));
    items.extend(engine_remarks(document));
    if !items.is_empty() {
        out += &format!("\n{}\n", style.paint(Ink::Bold, "What it shows"));
    }
    for line in items.iter().flat_map(|text| indent_item(text, style)) {
        out += &format!("{line}\n");
    }
    let notes = document.script.iter().flat_map(|s| &s.notes);
    for (index, note) in notes.enumerate() {
        if index == 0 {
            out += &format!("\n{}\n", style.paint(Ink::Bold, "Deviations from the script"));
        }
        for line in indent_item(&format!("{}:{}: {}", note.file, note.line, note.text), style) {
            out += &format!("{line}\n");
        }
    }
    let Some(suite) = suite else { return out };
    let good_result = wrap(&style.clean_text(&format!("A good result: {}", suite.good_result)), style.width, 0);
    out + &format!("\n{}\n", good_result.join("\n"))
}

/// Smallest lateness of the probe itself that is reported, as a share of the mean latency.
const MIN_LATE_SHARE: f64 = 0.05;

/// Returns the notes on why the engine could not run as requested, each once, and a
/// note on the run in which the probe's own lateness distorts the latency most.
fn engine_remarks(document: &ProbeDocument) -> Vec<String> {
    let mut messages: Vec<String> = Vec::new();
    for note in document.runs.iter().flat_map(|run| &run.engine_notes).filter(|note| !note.is_empty()) {
        if !messages.contains(note) {
            messages.push(note.clone());
        }
    }
    let late_share = |run: &&RunResult| {
        let late_s = run.late_start_s.filter(|_| run.pace == "open")?.mean;
        run.latency_s.mean.filter(|mean| late_s > MIN_LATE_SHARE * mean).map(|mean| late_s / mean)
    };
    let late_runs = document.runs.iter().filter_map(|run| late_share(&run).map(|share| (run, share)));
    let worst = late_runs.max_by(|a, b| a.1.total_cmp(&b.1));
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
fn run_title(suite: Option<SuiteText>, document: &ProbeDocument) -> String {
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
pub fn indent_item(words: &str, style: &Style) -> Vec<String> {
    let lines = wrap(&style.clean_text(words), style.width.saturating_sub(4), 0);
    lines
        .into_iter()
        .enumerate()
        .map(|(index, line)| format!("{}{line}", if index == 0 { "  " } else { "    " }))
        .collect()
}

/// Renders the head: suite or script, targets, and facts on the device.
fn screen_head(suite: Option<SuiteText>, document: &ProbeDocument, style: &Style) -> String {
    let device = &document.device;
    let facts = [
        Some(device.name.clone()).filter(|n| !n.is_empty()),
        device.model.clone(),
        device.bytes.map(|b| ByteSize::capacity(b as f64).to_string()),
        Some(device.class.clone()).filter(|c| !c.is_empty()),
        device.scheduler.as_ref().map(|s| format!("scheduler {s}")),
        device.filesystem.as_ref().map(|f| format!("{f} on {}", device.mount.as_deref().unwrap_or("?"))),
        Some(format!("Linux {}", device.kernel)),
        document.runs.first().map(|r| r.engine.clone()),
        document.buffered.then(|| "through the page cache".into()),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let title = style.paint(Ink::Bold, &style.clean_text(&run_title(suite, document)));
    let names: Vec<&str> = document.targets.iter().map(|t| t.name.as_str()).collect();
    let target = if names.is_empty() { document.target.clone() } else { names.join(", ") };
    let target = wrap(&style.clean_text(&format!("{target} ({})", facts.join(", "))), style.width, 0);
    format!("{title}\n{}\n\n", style.paint(Ink::Dim, &target.join("\n")))
}

/// Groups the runs by name, in the order of first occurrence.
fn group_by_name(runs: &[RunResult]) -> Vec<Vec<&RunResult>> {
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
    drop_priority: u32,
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
fn finite_values(runs: &[&RunResult], quantity: impl Fn(&RunResult) -> Option<f64>) -> Vec<f64> {
    runs.iter().filter_map(|r| quantity(r)).filter(|v| v.is_finite()).collect()
}

fn mean_value(runs: &[&RunResult], quantity: impl Fn(&RunResult) -> Option<f64>) -> Option<f64> {
    let values = finite_values(runs, quantity);
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

type ScreenQuantity = fn(&RunResult) -> Option<f64>;

/// Makes a column of the means of a quantity; `-` where it is unknown.
fn number_column(
    groups: &[Vec<&RunResult>],
    title: &str,
    unit: &str,
    drop_priority: u32,
    quantity: ScreenQuantity,
) -> ScreenColumn {
    let cell = |runs: &Vec<&RunResult>| mean_value(runs, quantity).map_or("-".into(), |v| format_value(v, unit));
    ScreenColumn {
        title: title.into(),
        cells: groups.iter().map(cell).collect(),
        drop_priority,
        kind: ScreenColumnKind::Number,
    }
}

fn name_column(groups: &[Vec<&RunResult>]) -> ScreenColumn {
    let name = |runs: &Vec<&RunResult>| runs.first().map_or_else(String::new, |r| r.name.clone());
    ScreenColumn {
        title: "run".into(),
        cells: groups.iter().map(name).collect(),
        drop_priority: 0,
        kind: ScreenColumnKind::Words,
    }
}

/// Makes the columns of rates, latencies and problems.
fn speed_columns(groups: &[Vec<&RunResult>], style: &Style) -> Vec<ScreenColumn> {
    let rate = |runs: &Vec<&RunResult>| {
        let estimate = estimate_from_values(&finite_values(runs, |r| Some(r.requests_per_s)));
        let mean = format_value(estimate.mean, "per_s");
        match (estimate.low, estimate.high) {
            (Some(low), Some(high)) => join_values(&mean, " ±", &format_value((high - low) / 2.0, "per_s")),
            _ => mean,
        }
    };
    let mut columns = vec![
        name_column(groups),
        ScreenColumn {
            title: "requests/s".into(),
            cells: groups.iter().map(rate).collect(),
            drop_priority: 0,
            kind: ScreenColumnKind::Number,
        },
        number_column(groups, "bytes/s", "bytes_per_s", 0, |r| Some(r.bytes_per_s)),
    ];
    // the bar stands beside the figure that it shows
    if let Some((shows_bytes, bars)) = bar_column(groups, style) {
        columns.insert(if shows_bytes { 3 } else { 2 }, bars);
    }
    columns.extend([
        number_column(groups, "mean", "s", 0, |r| r.latency_s.mean),
        number_column(groups, "50 %", "s", 3, |r| r.latency_s.p50),
        number_column(groups, "95 %", "s", 5, |r| r.latency_s.p95),
        number_column(groups, "99 %", "s", 0, |r| r.latency_s.p99),
        number_column(groups, "99.9 %", "s", 2, |r| r.latency_s.p999),
    ]);
    let longest = |runs: &Vec<&RunResult>| {
        let max_s = finite_values(runs, |r| r.latency_s.max).into_iter().reduce(f64::max);
        max_s.map_or("-".into(), |v| format_value(v, "s"))
    };
    columns.push(ScreenColumn {
        title: "max".into(),
        cells: groups.iter().map(longest).collect(),
        drop_priority: 1,
        kind: ScreenColumnKind::Number,
    });
    columns.retain(is_known);
    let doubts: Vec<String> = groups.iter().map(|runs| run_doubts(runs)).collect();
    if doubts.iter().any(|d| !d.is_empty()) {
        columns.push(ScreenColumn {
            title: String::new(),
            cells: doubts,
            drop_priority: 0,
            kind: ScreenColumnKind::Words,
        });
    }
    columns
}

/// Lists the problems of the runs of a name; for repeats, with the number of runs affected.
fn run_doubts(runs: &[&RunResult]) -> String {
    let mut found: Vec<(String, usize)> = Vec::new();
    for doubt in runs.iter().flat_map(|r| run_remarks(r)) {
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
const BAR_COLUMNS: usize = 10;

/// Makes a column with a bar for each run: of bytes per second if sizes differ (the
/// flag is then true), otherwise of requests per second. Returns `None` if there
/// are fewer than three runs to compare.
fn bar_column(groups: &[Vec<&RunResult>], style: &Style) -> Option<(bool, ScreenColumn)> {
    let sizes: Vec<f64> = groups.iter().filter_map(|runs| Some(runs.first()?.size_bytes)).collect();
    let shows_bytes = sizes.windows(2).any(|w| w[0] != w[1]);
    let quantity: ScreenQuantity = if shows_bytes { |r| Some(r.bytes_per_s) } else { |r| Some(r.requests_per_s) };
    let heights: Vec<f64> = groups.iter().map(|runs| mean_value(runs, quantity).unwrap_or(0.0)).collect();
    let max_value = heights.iter().copied().fold(0.0, f64::max);
    if groups.len() < 3 || max_value <= 0.0 {
        return None;
    }
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let bar = |height: &f64| {
        let eighths = (height / max_value * 8.0 * BAR_COLUMNS as f64).round() as usize;
        if !style.unicode {
            return "#".repeat((eighths + 4) / 8);
        }
        format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
    };
    let cells = heights.iter().map(bar).collect();
    Some((shows_bytes, ScreenColumn { title: String::new(), cells, drop_priority: 4, kind: ScreenColumnKind::Bar }))
}

/// Makes the columns of processor time, interrupts, context switches, and the time
/// to move `moving_bytes`, as far as they are known for any run.
fn cost_columns(groups: &[Vec<&RunResult>], moving_bytes: Option<u64>) -> Vec<ScreenColumn> {
    let mut columns = vec![
        number_column(groups, "cpu/request", "s", 0, |r| r.cpu_s_per_request),
        number_column(groups, "processors", "count", 2, |r| r.cpu_share),
        number_column(groups, "interrupts/request", "count", 1, |r| r.interrupts_per_request),
        number_column(groups, "bytes/interrupt", "bytes", 3, |r| r.bytes_per_interrupt),
        number_column(groups, "switches/request", "count", 4, |r| r.context_switches_per_request),
    ];
    if let Some(bytes) = moving_bytes {
        let cell = |runs: &Vec<&RunResult>| mean_value(runs, |r| r.moving_s).map_or("-".into(), format_duration);
        let cells = groups.iter().map(cell).collect();
        let title = format!("moving {}", ByteSize::capacity(bytes as f64));
        columns.push(ScreenColumn { title, cells, drop_priority: 0, kind: ScreenColumnKind::Number });
    }
    columns.retain(is_known);
    columns.insert(0, name_column(groups));
    columns
}

/// Returns false for a column without any value.
fn is_known(column: &ScreenColumn) -> bool {
    column.cells.iter().any(|cell| cell != "-")
}

/// Renders the table, dropping columns until it fits.
fn fit_table(columns: &[ScreenColumn], style: &Style) -> String {
    let mut kept: Vec<&ScreenColumn> = columns.iter().collect();
    loop {
        let mut table = TextTable::new();
        for (index, column) in kept.iter().enumerate() {
            table = match column.kind {
                ScreenColumnKind::Words if index > 0 => table.with_text_column(&column.title),
                ScreenColumnKind::Words | ScreenColumnKind::Bar => table.with_column(&column.title, Align::Left),
                ScreenColumnKind::Number => table.with_column(&column.title, Align::Right),
            };
        }
        for row in 0..columns.first().map_or(0, |c| c.cells.len()) {
            table.add_row(kept.iter().map(|c| c.cells[row].clone()));
        }
        let drawn = table.render(style);
        let width = drawn.lines().map(text::display_width).max().unwrap_or(0);
        let next_to_drop = kept
            .iter()
            .enumerate()
            .filter(|(_, c)| c.drop_priority > 0)
            .max_by_key(|(_, c)| c.drop_priority)
            .map(|(index, _)| index);
        match next_to_drop.filter(|_| width > style.width) {
            Some(index) => drop(kept.remove(index)),
            None => return drawn,
        }
    }
}

/// Largest number of names for which each run is shown over time.
const MAX_TIMELINE_NAMES: usize = 3;

/// Renders a sparkline of the request rate over the time of each run.
fn run_timelines(groups: &[Vec<&RunResult>], style: &Style) -> String {
    let mut out = String::new();
    for run in groups.iter().filter(|_| groups.len() <= MAX_TIMELINE_NAMES).filter_map(|runs| runs.first()) {
        let Some(timeline) = &run.timeline else { continue };
        let rates = &timeline.requests_per_s;
        let line = sparkline(rates, None, style.width.saturating_sub(4).min(76), style.unicode);
        let min = rates.iter().copied().fold(f64::MAX, f64::min);
        let max = rates.iter().copied().fold(0.0, f64::max);
        let (min, max) = (format_value(min, "per_s"), format_value(max, "per_s"));
        out += &format!("\n{}\n", style.paint(Ink::Bold, &style.clean_text(&format!("{} over time", run.name))));
        out += &format!("  {}\n  between {min} and {max}\n", style.paint(Ink::Line(0), &line));
    }
    out
}
