//! `show TRACE…`: statistics of the requests in a trace.

mod document;
mod histogram_steps;
mod tables;

use std::collections::HashMap;

use diskwright_base::Request;
use diskwright_ingest::Input;
use diskwright_traces::statistics::TraceReport;
use diskwright_traces::{CSV_HEADING, FORMATS, Statistics, Trace, TraceSummary, write_csv_line};

use super::csv_cells::CsvCells;
use super::instance_patterns::matches_pattern;
use super::{Failure, name_search, output, pacer};

/// Options for showing a trace.
#[derive(Clone, Copy)]
pub struct TraceView<'a> {
    /// Only devices whose names match one of these; all if it is empty.
    pub devices: &'a [String],
    /// Show histograms of everything, not only tables.
    pub charts: bool,
    /// Print the requests as CSV.
    pub csv: bool,
    /// Escaping of names in CSV.
    pub cells: CsvCells,
    /// Print JSON.
    pub json: bool,
    /// Id of the trace's format; detected from its content if missing.
    pub format: Option<&'a str>,
}

fn open_trace(input: &Input, format: Option<&str>) -> Result<Trace, Failure> {
    let Some(id) = format else { return Ok(input.open_requests(None)?) };
    let Some(format) = FORMATS.iter().find(|format| format.id == id) else {
        let known = FORMATS.iter().map(|format| format.id).collect::<Vec<_>>().join(", ");
        let suggestion = name_search::suggestion_hint(id, FORMATS.iter().map(|format| format.id));
        return Err(Failure::Usage(format!("--trace-format {id}: unknown format{suggestion}; formats: {known}")));
    };
    Ok(input.open_requests(Some(*format))?)
}

/// Reads the trace and shows it.
pub fn run(input: &Input, view: &TraceView<'_>) -> Result<(), Failure> {
    let trace = open_trace(input, view.format)?;
    // named devices mean all requests to them, whether passed on or not
    let mut trace = if view.devices.is_empty() { trace } else { trace.with_every_layer() };
    if view.csv && !view.json {
        return print_csv(&mut trace, view.devices, view.cells);
    }
    let bar = pacer::watch_progress_bar(None, "reading".into());
    let mut statistics = Statistics::new();
    for_each_request(&mut trace, view.devices, |request, _| {
        statistics.push(request);
        Ok(())
    })?;
    bar.finish_and_clear();
    let summary = trace.summary();
    let report = statistics.finish(&summary.devices);
    if report.all.requests == 0 {
        return Err(Failure::Failed(describe_emptiness(&summary, view.devices)));
    }
    if view.json {
        return output::print_json(&document::trace_document(trace.format(), &summary, &report));
    }
    show_report(trace.format().title, &summary, &report, view)
}

fn show_report(title: &str, summary: &TraceSummary, report: &TraceReport, view: &TraceView<'_>) -> Result<(), Failure> {
    let counts_once = view.devices.is_empty();
    output::print_text(&tables::draw_trace(title, summary, report, counts_once, view.charts, &output::stdout_style()))
}

/// Describes why there is nothing to show.
fn describe_emptiness(summary: &TraceSummary, devices: &[String]) -> String {
    let file = summary.files.first().map_or("-", String::as_str);
    if summary.requests > 0 {
        let have = summary.devices.join(", ");
        return format!("{file}: there is no device {}; devices: {have}", devices.join(" or "));
    }
    let reason = summary.skipped.first().map(|s| format!(" ({}: {})", s.context, s.reason));
    format!("{file}: contains no requests{}", reason.unwrap_or_default())
}

/// Calls `handle` with each request to the selected devices, and the name of its device.
fn for_each_request(
    trace: &mut Trace,
    devices: &[String],
    mut handle: impl FnMut(&Request, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut is_selected: HashMap<u16, bool> = HashMap::new();
    while let Some(request) = trace.next() {
        let request = request?;
        let name = trace.devices().get(usize::from(request.device)).map_or("", String::as_str);
        let is_match = || devices.is_empty() || devices.iter().any(|pattern| matches_pattern(pattern, name));
        if *is_selected.entry(request.device).or_insert_with(is_match) {
            handle(&request, name)?;
        }
    }
    Ok(())
}

/// Prints one line per request.
fn print_csv(trace: &mut Trace, devices: &[String], cells: CsvCells) -> Result<(), Failure> {
    const PIECE_BYTES: usize = 64 << 10;
    let mut out = String::with_capacity(2 * PIECE_BYTES);
    out.push_str(CSV_HEADING);
    for_each_request(trace, devices, |request, device| {
        write_csv_line(&mut out, request, &cells.terminal_cell(device));
        if out.len() >= PIECE_BYTES {
            output::print_data(out.as_bytes())?;
            out.clear();
        }
        Ok(())
    })?;
    output::print_data(out.as_bytes())?;
    for line in tables::summary_remarks(&trace.summary(), devices.is_empty()) {
        output::print_warning(format_args!("{line}"));
    }
    Ok(())
}
