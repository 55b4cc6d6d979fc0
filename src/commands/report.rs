//! `report LOG -o FILE.html`: one self-contained page; also of results of `probe`, or their charts as an SVG file.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use diskwright_base::{LogPiece, Note, Schema};
use diskwright_diagnosis::Verdict;
use diskwright_probe::suites;
use diskwright_report::probe::{self, NamedResult};
use diskwright_report::{Chart, ChartBook, DisplayZone, curves, html};

use super::latency::LatencyWindow;
use super::log::{self, LogWindow, Logs};
use super::{Failure, baseline, compare_results, counter_selection, damage, output, output_file, why};

/// Arguments of `report`.
#[derive(Args)]
pub struct Arguments {
    /// Logs to read; or results of `probe`, drawn in common charts
    #[arg(required = true)]
    log: Vec<PathBuf>,
    /// The page to write; for results of `probe`, a name ending in .svg writes only the charts
    #[arg(short, long, value_name = "FILE.html")]
    output: PathBuf,
    #[command(flatten)]
    window: LogWindow,
    #[command(flatten)]
    judging: why::JudgingArguments,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `report`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    output_file::check_writable(&arguments.output)?;
    if arguments.log.iter().any(|path| compare_results::is_probe_result(path)) {
        if !arguments.window.is_whole() {
            return Err(Failure::Usage("windows are for logs; `report` draws results of `probe` whole".into()));
        }
        arguments.window.refuse_log_options()?;
        arguments.judging.refuse_without_logs()?;
        return write_page(arguments, &probe_results_page(arguments)?, None);
    }
    let logs = log::open(&arguments.log, &arguments.window)?;
    let packs = arguments.judging.load_packs(false)?;
    let mut verdicts = log::judge_logs(&logs, arguments.judging.new_judge(packs, Some(logs.range_ns)))?;
    if let Some(first) = verdicts.first_mut() {
        baseline::saved::add_to_verdict(first);
    }
    let (page, logs) = log_page(logs, verdicts)?;
    write_page(arguments, &page, Some(&logs))
}

/// Returns the page about logs with known verdicts.
pub fn log_page(logs: Logs, verdicts: Vec<Verdict>) -> Result<(String, Logs), Failure> {
    let logs = logs.with_processes(true)?;
    let (schemas, notes) = counter_selection::scan_schemas_and_notes(&logs)?;
    let has_latency = logs.has_latency();
    let first = verdicts.first().ok_or_else(|| Failure::Failed("no rule pack gave a verdict".into()))?;
    let charts = draw_charts(&logs, first, &schemas)?;
    let logs = logs.with_steps(has_latency);
    let heat = if has_latency { LatencyWindow::read(&logs, &[])?.heat_charts() } else { Vec::new() };
    let newest = notes.iter().rev().find(|n| n.kind == Note::TOPOLOGY);
    let topology = newest.map(Note::read_topology).transpose()?.map(Arc::unwrap_or_clone);
    let notes: Vec<Note> = notes.into_iter().filter(|n| n.kind != Note::TOPOLOGY).collect();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let zone = DisplayZone::local();
    Ok((html::render_page(&html::HtmlReport { verdicts, charts, heat, notes, topology, zone, version }), logs))
}

/// Returns the page on results of `probe`, or their charts.
fn probe_results_page(arguments: &Arguments) -> Result<String, Failure> {
    let (documents, names) =
        (compare_results::read_results(&arguments.log)?, compare_results::short_names(&arguments.log));
    let named = names.iter().zip(&documents);
    let results: Vec<NamedResult<'_>> = named.map(|(name, document)| NamedResult { name, document }).collect();
    if arguments.output.extension().is_some_and(|e| e.eq_ignore_ascii_case("svg")) {
        return Ok(curves::render_svg_file(&names.join(", "), &probe::charts::result_charts(&results)));
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let suite = |id: &str| suites::find_suite(id).map(|suite| suite.text());
    Ok(probe::render_page(&probe::ProbePage { results, suite, zone: DisplayZone::local(), version }))
}

/// Writes the page, and reports it.
fn write_page(arguments: &Arguments, page: &str, logs: Option<&Logs>) -> Result<(), Failure> {
    let file = arguments.output.display();
    output_file::write_file(&arguments.output, page.as_bytes())?;
    if output_file::is_stdout(&arguments.output) {
        return Ok(());
    }
    if arguments.json {
        let answer = serde_json::json!({
            "schema": "diskwright.report/1",
            "file": file.to_string(),
            "bytes": page.len(),
            "damage": logs.map(|logs| damage::damage_entries(&logs.losses())).unwrap_or_default(),
        });
        return output::print_json(&answer);
    }
    let file = output::escape_name(&file);
    output::print_text(&format!("wrote {file} ({} kB)\n", page.len().div_ceil(1000)))
}

/// Second pass: charts of the first verdict's findings and of the main counters.
fn draw_charts(logs: &Logs, verdict: &Verdict, schemas: &[Arc<Schema>]) -> Result<Vec<Chart>, Failure> {
    let mut book =
        ChartBook::new(verdict, schemas, logs.range_ns.0, logs.range_ns.1).from_beginning(logs.is_from_beginning());
    logs.read::<Failure>(|piece| {
        if let LogPiece::Frame(frame) = piece {
            book.push(frame);
        }
        Ok(())
    })?;
    Ok(book.finish())
}
