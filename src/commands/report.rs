//! `report LOG -o FILE.html`: one self-contained page.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use diskwright_base::{Note, Schema, Topology};
use diskwright_diagnosis::Verdict;
use diskwright_report::{Book, Chart, Zone, html};

use super::log::{Logs, Piece, Window};
use super::{Failure, output, select, why};

/// Arguments of `report`.
#[derive(Args)]
pub struct Arguments {
    /// Logs to read
    #[arg(required = true)]
    log: Vec<PathBuf>,
    /// The page to write
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
    let place = arguments.output.display();
    fs::write(&arguments.output, &page).map_err(|e| Failure::Failed(format!("{place}: {e}")))?;
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
