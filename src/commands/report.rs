//! `report LOG -o FILE.html`: one self-contained page.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use diskwright_base::{Note, Topology};
use diskwright_diagnosis::{Finding, Verdict};
use diskwright_report::{Chart, Downsampler, Line, Zone, html};

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

/// Values across a chart of the page.
const BUCKETS: usize = 240;
/// Lines in a chart of the appendix: more cannot be told apart.
const MOST_LINES: usize = 6;

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let logs = Logs::open(&arguments.log, &arguments.window)?;
    let packs = arguments.judging.packs(true)?;
    let verdicts = why::read(&logs, arguments.judging.judge(packs, Some(logs.range)))?;
    let (schemas, notes) = select::look(&logs)?;
    let overview = select::choose(&[], &[], &schemas).unwrap_or_default();
    let charts = charts(&logs, &verdicts, overview)?;
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

/// Second pass: a chart for each finding of the first verdict, then those of
/// the overview, a counter each.
fn charts(logs: &Logs, verdicts: &[Verdict], overview: Vec<(String, String)>) -> Result<Vec<Chart>, Failure> {
    let findings: &[Finding] = verdicts.first().map_or(&[], |v| &v.findings);
    let mut wanted: Vec<(String, String)> = findings.iter().map(|f| (f.counter.clone(), f.instance.clone())).collect();
    wanted.extend(overview);
    let (from, to) = logs.range;
    let mut sampler = Downsampler::new(from, to, BUCKETS, &wanted);
    logs.read(|piece| {
        if let Piece::Frame(frame) = piece {
            sampler.push(frame);
        }
        Ok(())
    })?;
    let mut lines = wanted.into_iter().zip(sampler.finish());
    let mut charts: Vec<Chart> = Vec::new();
    for (finding, ((counter, instance), buckets)) in findings.iter().zip(lines.by_ref()) {
        let mut chart = Chart::new(&counter, from, to, vec![Line { instance, buckets }]);
        chart.limit = Some(finding.limit);
        chart.shaded = vec![(finding.from_ns, finding.to_ns)];
        charts.push(chart);
    }
    let first = charts.len();
    for ((counter, instance), buckets) in lines {
        let line = Line { instance, buckets };
        match charts[first..].last_mut().filter(|c| c.counter == counter) {
            Some(chart) => chart.lines.push(line),
            None => charts.push(Chart::new(&counter, from, to, vec![line])),
        }
    }
    for chart in &mut charts[first..] {
        keep_busiest(&mut chart.lines);
    }
    Ok(charts)
}

/// Keeps the lines with the largest means, in their order.
fn keep_busiest(lines: &mut Vec<Line>) {
    if lines.len() <= MOST_LINES {
        return;
    }
    let mean = |l: &Line| l.summary().map_or(f64::NEG_INFINITY, |s| s.1);
    let mut means: Vec<f64> = lines.iter().map(mean).collect();
    means.sort_by(|a, b| b.total_cmp(a));
    let least = means[MOST_LINES - 1];
    lines.retain(|l| mean(l) >= least);
    lines.truncate(MOST_LINES);
}
