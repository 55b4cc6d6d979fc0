//! `report LOG -o FILE.html`: one self-contained page; of results of `probe`
//! too, or their charts as an SVG file.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use diskwright_base::{Note, Schema, Topology};
use diskwright_diagnosis::Verdict;
use diskwright_report::probe::{self, Named};
use diskwright_report::{Book, Chart, Zone, curves, html};

use super::log::{Logs, Piece, Window};
use super::{Failure, compare_results, output, select, why};

/// Arguments of `report`.
#[derive(Args)]
pub struct Arguments {
    /// Logs to read; or results of `probe`, which share their charts
    #[arg(required = true)]
    log: Vec<PathBuf>,
    /// The page to write; of results of `probe`, their charts alone where it ends in .svg
    #[arg(short, long, value_name = "FILE.html")]
    output: PathBuf,
    #[command(flatten)]
    window: Window,
    #[command(flatten)]
    judging: why::Judging,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.log.iter().any(|path| compare_results::is(path)) {
        return written(arguments, &results(arguments)?);
    }
    let logs = Logs::open(&arguments.log, &arguments.window)?;
    let packs = arguments.judging.packs(true)?;
    let verdicts = why::read(&logs, arguments.judging.judge(packs, Some(logs.range)))?;
    let (schemas, notes) = select::look(&logs)?;
    let first = verdicts.first().ok_or_else(|| Failure::Failed("no pack gave a verdict".into()))?;
    let charts = charts(&logs, first, &schemas)?;
    let newest = notes.iter().rev().find(|n| n.kind == Note::TOPOLOGY);
    let topology: Option<Topology> = newest.map(|n| serde_json::from_str(&n.text)).transpose()?;
    let notes: Vec<Note> = notes.into_iter().filter(|n| n.kind != Note::TOPOLOGY).collect();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let page = html::page(&html::Report { verdicts, charts, notes, topology, zone: Zone::local(), version });
    written(arguments, &page)
}

/// The page on results of `probe`, or their charts.
fn results(arguments: &Arguments) -> Result<String, Failure> {
    let (documents, names) = (compare_results::read(&arguments.log)?, compare_results::names(&arguments.log));
    let named = names.iter().zip(&documents);
    let results: Vec<Named<'_>> = named.map(|(name, document)| Named { name, document }).collect();
    if arguments.output.extension().is_some_and(|e| e.eq_ignore_ascii_case("svg")) {
        return Ok(curves::file(&names.join(", "), &probe::charts::charts(&results)));
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Ok(probe::page(&probe::Page { results, zone: Zone::local(), version }))
}

/// Writes what was made, and says so.
fn written(arguments: &Arguments, page: &str) -> Result<(), Failure> {
    let place = arguments.output.display();
    fs::write(&arguments.output, page).map_err(|e| Failure::Failed(format!("{place}: {e}")))?;
    if arguments.json {
        let answer = serde_json::json!({
            "schema": "diskwright.report/1",
            "file": arguments.output,
            "bytes": page.len(),
        });
        return output::json(&answer);
    }
    output::text(&format!("wrote {place} ({} kB)\n", page.len().div_ceil(1000)))
}

/// Second pass: the charts of the first verdict's findings and of the main
/// counters.
fn charts(logs: &Logs, verdict: &Verdict, schemas: &[Arc<Schema>]) -> Result<Vec<Chart>, Failure> {
    let mut book = Book::new(verdict, schemas, logs.range.0, logs.range.1);
    logs.read(|piece| {
        if let Piece::Frame(frame) = piece {
            book.push(frame);
        }
        Ok(())
    })?;
    Ok(book.finish())
}
