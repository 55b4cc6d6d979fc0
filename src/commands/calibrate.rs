//! `simulate --calibrate` and `plan --calibrate`: a device described from what `probe` measured of it.

use std::path::PathBuf;

use clap::Args;
use diskwright_base::units::digits;
use diskwright_report::{Align, TextTable};
use diskwright_results::document::ProbeDocument;
use diskwright_results::pattern::{Durable, Pace, Placement};
use diskwright_results::result::RunResult;
use diskwright_simulator::BLOCK_BYTES;
use diskwright_simulator::calibrate::{
    CalibratedDevice, CalibratedDrive, CalibrationCell, CalibrationError, CellPrediction, calibrate, put_middles_aside,
};
use diskwright_simulator::catalogue::measure::{DriveLoad, MOST_DEPTH};
use serde_json::{Value, json};

use super::{Failure, compare_results, output, output_file};

/// What a device is described from.
#[derive(Args)]
#[command(next_help_heading = "Calibration")]
pub struct CalibrateOptions {
    /// Describe a device from results of `probe` (`probe quick TARGET -o RESULT.json`), as a drive for `simulate`,
    /// `plan` and `disk`
    #[arg(long, value_name = "RESULT.json", num_args = 1..)]
    calibrate: Vec<PathBuf>,
    /// Results that the fit never sees, to try the description on; without them the middle depth of each series is
    /// kept aside
    #[arg(long, value_name = "RESULT.json", num_args = 1.., requires = "calibrate")]
    against: Vec<PathBuf>,
    /// Write the description to this file; without it, it is printed
    #[arg(long, value_name = "FILE.toml", requires = "calibrate")]
    description: Option<PathBuf>,
    /// Id of the drive in the description
    #[arg(long, value_name = "ID", requires = "calibrate", default_value = "measured")]
    drive_id: String,
}

/// A run that is not used, and why.
struct UnusedRun {
    name: String,
    because: String,
}

impl CalibrateOptions {
    /// Whether this is asked for.
    pub fn is_asked(&self) -> bool {
        !self.calibrate.is_empty()
    }

    /// Runs it.
    pub fn run(&self, as_json: bool) -> Result<(), Failure> {
        if let Some(path) = &self.description {
            output_file::check(path)?;
        }
        let documents = compare_results::read(&self.calibrate)?;
        let mut unused = Vec::new();
        let mut cells = Vec::new();
        documents.iter().for_each(|document| cells.extend(loops(document, &mut unused)));
        let device = device(&documents, &self.drive_id)?;
        if self.against.is_empty() {
            put_middles_aside(&mut cells);
        }
        for document in &compare_results::read(&self.against)? {
            cells.extend(loops(document, &mut unused).into_iter().map(|cell| CalibrationCell { aside: true, ..cell }));
        }
        let found = calibrate(&cells, &device).map_err(|error| match error {
            CalibrationError::Missing(missing) => Failure::Usage(format!(
                "{missing}; `diskwright probe quick TARGET -o RESULT.json` measures what is needed (where it may \
                 write, with `--destroy-data-on` or to a file of its own, writes too){}",
                left_out(&unused)
            )),
            CalibrationError::Description(_) => Failure::Failed(error.to_string()),
        })?;
        if let Some(path) = &self.description {
            output_file::write(path, found.toml.as_bytes())?;
        }
        if as_json {
            return output::json(&document(&found, &unused));
        }
        output::text(&screen(&found, &unused, self.description.is_some()))
    }
}

fn left_out(unused: &[UnusedRun]) -> String {
    let runs: Vec<String> = unused.iter().map(|run| format!("{} ({})", run.name, run.because)).collect();
    if runs.is_empty() { String::new() } else { format!("; not used: {}", runs.join(", ")) }
}

/// The device that all results are of.
fn device(documents: &[ProbeDocument], id: &str) -> Result<CalibratedDevice, Failure> {
    let Some(first) = documents.first() else { return Err(Failure::Usage("no result of `probe`".into())) };
    if let Some(other) = documents.iter().find(|d| d.target_bytes != first.target_bytes || d.target != first.target) {
        let (one, other) = (&first.target, &other.target);
        return Err(Failure::Usage(format!("results of `{one}` and of `{other}`: calibrate one device at a time")));
    }
    let facts = &first.device;
    let bytes = facts.bytes.filter(|bytes| *bytes >= first.target_bytes).unwrap_or(first.target_bytes);
    let is_commit = |run: &&RunResult| run.pattern.as_ref().is_some_and(|p| p.durable == Durable::Fdatasync);
    let commit = documents.iter().flat_map(|d| &d.runs).find(is_commit).and_then(|run| run.latency_s.mean);
    let suites: Vec<&str> = documents.iter().map(|d| d.suite.as_str()).collect();
    let plain = diskwright_base::text::shortened(&first.target, 60);
    Ok(CalibratedDevice {
        id: id.to_owned(),
        name: facts.model.clone().unwrap_or_else(|| plain.clone()),
        bytes,
        source: format!("probe {} of {plain}, {}", suites.join(", "), first.started.get(..10).unwrap_or("")),
        year: first.started.get(..4).and_then(|year| year.parse().ok()).unwrap_or(2000),
        commit_s: commit,
    })
}

/// The closed loops of a result; what cannot be used is told.
fn loops(document: &ProbeDocument, unused: &mut Vec<UnusedRun>) -> Vec<CalibrationCell> {
    let of = |run: &RunResult| match cell(document, run) {
        Ok(cell) => Some(cell),
        Err(because) => {
            unused.push(UnusedRun { name: run.name.clone(), because });
            None
        }
    };
    document.runs.iter().filter_map(of).collect()
}

/// Answers for each request in flight: with fewer, those that are cut off at both ends of a run weigh too much.
const LEAST_ROUNDS: f64 = 2.5;

/// A run as a cell.
fn cell(document: &ProbeDocument, run: &RunResult) -> Result<CalibrationCell, String> {
    let Some(pattern) = &run.pattern else { return Err("its pattern is not known".into()) };
    if document.buffered || pattern.buffered {
        return Err("it went through the page cache".into());
    }
    if pattern.durable != Durable::No {
        return Err("it waited for syncs".into());
    }
    if !run.beside.is_empty() || !run.combines.is_empty() {
        return Err("others ran beside it".into());
    }
    if run.failed + run.unanswered > 0 || run.stopped {
        return Err("requests failed or had no answer".into());
    }
    let Pace::Closed { depth } = pattern.pace else { return Err("it is no closed loop".into()) };
    let sequential = match pattern.placement {
        Placement::Uniform => false,
        Placement::Sequential { streams: 1 } => true,
        _ => return Err("its places are neither uniform nor one sequence".into()),
    };
    let size = match (&pattern.sizes[..], pattern.write_sizes.is_empty() && pattern.turns.is_empty()) {
        ([(size, _)], true) if u64::from(*size).is_multiple_of(BLOCK_BYTES) => *size,
        _ => return Err("its requests have several sizes or turns".into()),
    };
    let answers = run.requests_per_s * run.measured_s;
    if depth > MOST_DEPTH || answers < LEAST_ROUNDS * f64::from(depth) || run.requests_per_s <= 0.0 {
        return Err(format!("{} answers with {depth} in flight are too few", answers.round()));
    }
    let load = DriveLoad {
        sequential,
        read_share: pattern.read_share,
        blocks: size / BLOCK_BYTES as u32,
        depth,
        range: (pattern.from_bytes == 0).then_some(pattern.range_bytes.unwrap_or(document.target_bytes) / BLOCK_BYTES),
    };
    Ok(CalibrationCell { name: run.name.clone(), load, per_s: run.requests_per_s, aside: false })
}

/// Mean, worst and number of errors.
fn summary<'a>(cells: impl Iterator<Item = &'a CellPrediction>) -> Option<[f64; 3]> {
    let errors: Vec<f64> = cells.map(|cell| cell.error.abs()).collect();
    let worst = errors.iter().copied().fold(0.0, f64::max);
    let count = errors.len() as f64;
    (count > 0.0).then(|| [errors.iter().sum::<f64>() / count, worst, count])
}

/// What cells try, in the order in which it is told.
const TRIES: [&str; 4] = ["depth", "size", "mix", "sequence"];

fn errors(cells: &[CellPrediction]) -> Value {
    let told =
        |found: Option<[f64; 3]>| found.map(|[mean, worst, n]| json!({ "mean": mean, "worst": worst, "runs": n }));
    let mut all = told(summary(cells.iter())).unwrap_or(json!({ "mean": null, "worst": null, "runs": 0 }));
    for tries in TRIES {
        all["by"][tries] = json!(told(summary(cells.iter().filter(|cell| cell.tries == tries))));
    }
    all
}

/// As JSON.
fn document(found: &CalibratedDrive, unused: &[UnusedRun]) -> Value {
    let unused: Vec<Value> = unused.iter().map(|run| json!({ "run": run.name, "because": run.because })).collect();
    json!({
        "schema": "diskwright.calibration/1",
        "kind": found.kind,
        "tried": found.tried,
        "errors_aside": errors(&found.aside),
        "errors_fitted": errors(&found.fitted),
        "aside": found.aside,
        "fitted": found.fitted,
        "unused": unused,
        "notes": found.notes,
        "drive": found.entry.id,
        "description": found.toml,
    })
}

fn percent(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

/// For people.
fn screen(found: &CalibratedDrive, unused: &[UnusedRun], written: bool) -> String {
    let mut text = String::new();
    for (at, tried) in found.tried.iter().enumerate() {
        let taken = ["Not taken", "Described as"][usize::from(at == 0)];
        text += &format!(
            "{taken}: {} ({} numbers, {:.1} % off on what was fitted, criterion {:.0})\n",
            tried.form,
            tried.parameters,
            100.0 * tried.mean_error,
            tried.criterion
        );
    }
    text += "The lowest criterion is taken: the error, and for each number its price (Schwarz 1978).\n";
    for (title, cells) in [("Kept aside, never seen by the fit", &found.aside), ("Fitted", &found.fitted)] {
        let Some([mean, worst, count]) = summary(cells.iter()) else { continue };
        text += &format!(
            "\n{title}: {:.1} % off in the mean of {count} runs, at worst {:.1} %",
            100.0 * mean,
            100.0 * worst
        );
        for tries in TRIES {
            if let Some([mean, _, count]) = summary(cells.iter().filter(|cell| cell.tries == tries)) {
                text += &format!("; {tries} {:.1} % ({count})", 100.0 * mean);
            }
        }
        let mut table = TextTable::new().text("run").text("tries").column("measured", Align::Right);
        table = table.column("described", Align::Right).column("off", Align::Right);
        for cell in cells {
            table.row([
                cell.run.clone(),
                cell.tries.to_owned(),
                format!("{}/s", digits(cell.measured_per_s)),
                format!("{}/s", digits(cell.predicted_per_s)),
                percent(cell.error),
            ]);
        }
        text += &format!("\n{}", table.render(&output::style()));
    }
    let unused = unused.iter().map(|run| format!("\nNot used: {}, because {}", run.name, run.because));
    text.extend(unused.chain(found.notes.iter().map(|note| format!("\nNote: {note}"))));
    match written {
        true => text += "\n",
        false => text += &format!("\n\n{}", found.toml),
    }
    text
}
