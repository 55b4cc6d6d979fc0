//! `report LOG -o FILE.html`: one self-contained page; also of results of `probe`, or their charts as an SVG file.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use diskwright_base::{LogPiece, Note, Schema, Topology};
use diskwright_diagnosis::Verdict;
use diskwright_probe::suites;
use diskwright_report::probe::{self, NamedResult};
use diskwright_report::{Chart, ChartBook, DisplayZone, curves, html};

use super::latency::LatencyWindow;
use super::log::{LogWindow, Logs};
use super::{Failure, baseline, compare_results, output, output_file, select, why};

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
    output_file::check(&arguments.output)?;
    if arguments.log.iter().any(|path| compare_results::is(path)) {
        if !arguments.window.is_whole() {
            return Err(Failure::Usage("windows are for logs; `report` draws results of `probe` whole".into()));
        }
        arguments.window.without_log()?;
        arguments.judging.only_of_logs()?;
        return written(arguments, &results(arguments)?, None);
    }
    let logs = Logs::open(&arguments.log, &arguments.window)?;
    let packs = arguments.judging.packs(false)?;
    let mut verdicts = why::read(&logs, arguments.judging.judge(packs, Some(logs.range)))?;
    if let Some(first) = verdicts.first_mut() {
        baseline::saved::add(first);
    }
    let (page, logs) = page(logs, verdicts)?;
    written(arguments, &page, Some(&logs))
}

/// Returns the page about logs with known verdicts.
pub fn page(logs: Logs, verdicts: Vec<Verdict>) -> Result<(String, Logs), Failure> {
    let logs = logs.with_processes(true)?;
    let (schemas, notes) = select::look(&logs)?;
    let traced = logs.has_latency();
    let first = verdicts.first().ok_or_else(|| Failure::Failed("no rule pack gave a verdict".into()))?;
    let charts = charts(&logs, first, &schemas)?;
    let logs = logs.with_steps(traced);
    let heat = if traced { LatencyWindow::read(&logs, &[])?.charts() } else { Vec::new() };
    let newest = notes.iter().rev().find(|n| n.kind == Note::TOPOLOGY);
    let topology: Option<Topology> = newest.map(|n| serde_json::from_str(&n.text)).transpose()?;
    let notes: Vec<Note> = notes.into_iter().filter(|n| n.kind != Note::TOPOLOGY).collect();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let zone = DisplayZone::local();
    Ok((html::render_page(&html::HtmlReport { verdicts, charts, heat, notes, topology, zone, version }), logs))
}

/// Returns the page on results of `probe`, or their charts.
fn results(arguments: &Arguments) -> Result<String, Failure> {
    let (documents, names) = (compare_results::read(&arguments.log)?, compare_results::names(&arguments.log));
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
fn written(arguments: &Arguments, page: &str, logs: Option<&Logs>) -> Result<(), Failure> {
    let place = arguments.output.display();
    output_file::write(&arguments.output, page.as_bytes())?;
    if output_file::is_stdout(&arguments.output) {
        return Ok(());
    }
    if arguments.json {
        let answer = serde_json::json!({
            "schema": "diskwright.report/1",
            "file": place.to_string(),
            "bytes": page.len(),
            "damage": logs.map(|logs| logs.losses().json()).unwrap_or_default(),
        });
        return output::json(&answer);
    }
    let place = output::name(&place);
    output::text(&format!("wrote {place} ({} kB)\n", page.len().div_ceil(1000)))
}

/// Second pass: charts of the first verdict's findings and of the main counters.
fn charts(logs: &Logs, verdict: &Verdict, schemas: &[Arc<Schema>]) -> Result<Vec<Chart>, Failure> {
    let mut book =
        ChartBook::new(verdict, schemas, logs.range.0, logs.range.1).from_beginning(logs.is_from_beginning());
    logs.read(|piece| {
        if let LogPiece::Frame(frame) = piece {
            book.push(frame);
        }
        Ok(())
    })?;
    Ok(book.finish())
}
