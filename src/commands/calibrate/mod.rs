//! `simulate --calibrate` and `plan --calibrate`: describes a device from results of `probe` and from the load in a
//! log. `cells.rs` turns measurements into cells, `screen.rs` draws the answer.

mod cells;
mod screen;

use std::path::PathBuf;

use clap::Args;
use diskwright_results::document::ProbeDocument;
use diskwright_results::pattern::Durability;
use diskwright_results::result::RunResult;
use diskwright_simulator::calibrate::burst::MeasuredCredits;
use diskwright_simulator::calibrate::{
    CalibratedDevice, CalibrationCell, CalibrationError, calibrate_device, hold_out_middle_depths,
};
use diskwright_simulator::catalogue::check_id;

use super::{Failure, compare_results, output, output_file};

/// Sources of a device's description.
#[derive(Args)]
#[command(next_help_heading = "Calibration")]
pub struct CalibrateOptions {
    /// Describe a device from results of `probe` (`probe quick TARGET -o RESULT.json`), as a drive for `simulate`,
    /// `plan` and `disk`
    #[arg(long, value_name = "RESULT.json", num_args = 1..)]
    calibrate: Vec<PathBuf>,
    /// Results that are not used in the fit, to test the description; without them, the middle
    /// queue depth of each series is kept aside
    #[arg(long, value_name = "RESULT.json", num_args = 1.., requires = "calibrate")]
    against: Vec<PathBuf>,
    /// Logs of this machine with the device under its usual load, from `record` or another tool;
    /// one half is used in the fit, the other half kept aside
    #[arg(long, value_name = "LOG", num_args = 1.., requires = "calibrate")]
    log: Vec<PathBuf>,
    /// The device's name in the log, if it differs from the target of the results
    #[arg(long, value_name = "NAME", requires = "log")]
    log_device: Option<String>,
    /// Write the description to this file instead of printing it
    #[arg(long, value_name = "FILE.toml", requires = "calibrate")]
    description: Option<PathBuf>,
    /// Id of the drive in the description
    #[arg(long, value_name = "ID", requires = "calibrate", default_value = "measured")]
    drive_id: String,
}

/// A run that is not used, and the reason.
struct UnusedRun {
    name: String,
    reason: String,
}

impl CalibrateOptions {
    /// True if a calibration was requested.
    pub fn is_given(&self) -> bool {
        !self.calibrate.is_empty()
    }

    /// Calibrates a device and prints its description.
    pub fn run(&self, as_json: bool) -> Result<(), Failure> {
        // a fit takes long, so names that the description could not contain are refused first
        check_id(&self.drive_id).map_err(|reason| Failure::Usage(format!("--drive-id: {reason}")))?;
        if let Some(path) = &self.description {
            output_file::check_writable(path)?;
        }
        let documents = compare_results::read_results(&self.calibrate)?;
        let against = compare_results::read_results(&self.against)?;
        let mut unused = Vec::new();
        let mut cells: Vec<CalibrationCell> = Vec::new();
        let spent = cells::spent_credits(documents.iter());
        for (document, with_credits) in documents.iter().zip(&spent.with_credits) {
            cells.extend(cells::closed_arrival_cells(document, *with_credits, &mut unused));
        }
        let device = calibrate_measured_device(&documents, &self.drive_id, spent.found)?;
        if self.against.is_empty() {
            hold_out_middle_depths(&mut cells);
        }
        if let (Some(first), Some(other)) = (documents.first(), against.iter().find(|d| !is_same_target(&documents, d)))
        {
            return Err(Failure::Usage(format!(
                "--against: results of `{}`, but the description is of `{}`",
                other.target, first.target
            )));
        }
        // credits may also have run out between or after the results
        let spent = cells::spent_credits(documents.iter().chain(&against));
        for (document, with_credits) in against.iter().zip(&spent.with_credits[documents.len()..]) {
            let test_cells = cells::closed_arrival_cells(document, *with_credits, &mut unused);
            cells.extend(test_cells.into_iter().map(|cell| CalibrationCell { held_out: true, ..cell }));
        }
        if let (Some(document), false) = (documents.first(), self.log.is_empty()) {
            let device_name = Some(&document.device.name).filter(|name| !name.is_empty()).unwrap_or(&document.target);
            cells.extend(cells::cells_from_log(&self.log, device_name, self.log_device.as_deref())?);
        }
        let drive = calibrate_device(&cells, &device).map_err(|error| match error {
            CalibrationError::Missing(missing) => Failure::Usage(format!(
                "{missing}; measure it with `diskwright probe quick TARGET -o RESULT.json` (writes too, if it may \
                 write: with `--destroy-data-on`, or to a file that it creates){}",
                describe_unused(&unused)
            )),
            CalibrationError::Description(_) => Failure::Failed(error.to_string()),
        })?;
        if let Some(path) = &self.description {
            output_file::write_file(path, drive.toml.as_bytes())?;
        }
        if output_file::is_any_stdout(&self.description) {
            return Ok(());
        }
        if as_json {
            return output::print_json(&screen::calibration_document(&drive, &unused));
        }
        output::print_text(&screen::draw_calibration(&drive, &unused, self.description.is_some()))
    }
}

fn describe_unused(unused: &[UnusedRun]) -> String {
    let runs: Vec<String> = unused.iter().map(|run| format!("{} ({})", run.name, run.reason)).collect();
    if runs.is_empty() { String::new() } else { format!("; not used: {}", runs.join(", ")) }
}

/// True if a result has the same target as the first.
fn is_same_target(documents: &[ProbeDocument], other: &ProbeDocument) -> bool {
    documents.first().is_none_or(|first| other.target_bytes == first.target_bytes && other.target == first.target)
}

/// Calibrates the device that all results measured.
fn calibrate_measured_device(
    documents: &[ProbeDocument],
    id: &str,
    credits: Option<MeasuredCredits>,
) -> Result<CalibratedDevice, Failure> {
    let Some(first) = documents.first() else { return Err(Failure::Usage("no result of `probe`".into())) };
    if let Some(other) = documents.iter().find(|d| !is_same_target(documents, d)) {
        let (first, other) = (&first.target, &other.target);
        return Err(Failure::Usage(format!(
            "these are results of `{first}` and of `{other}`; calibrate one device at a time"
        )));
    }
    let facts = &first.device;
    let bytes = facts.bytes.filter(|bytes| *bytes >= first.target_bytes).unwrap_or(first.target_bytes);
    let is_commit = |run: &&RunResult| run.pattern.as_ref().is_some_and(|p| p.durable == Durability::Fdatasync);
    let commit = documents.iter().flat_map(|d| &d.runs).find(is_commit).and_then(|run| run.latency_s.mean);
    let suites: Vec<&str> = documents.iter().map(|d| d.suite.as_str()).collect();
    let target = diskwright_base::text::truncate_text(&first.target, 60);
    Ok(CalibratedDevice {
        id: id.to_owned(),
        name: facts.model.clone().unwrap_or_else(|| target.clone()),
        bytes,
        source: format!("probe {} of {target}, {}", suites.join(", "), first.started.get(..10).unwrap_or("")),
        year: first.started.get(..4).and_then(|year| year.parse().ok()).unwrap_or(2000),
        commit_s: commit,
        credits,
    })
}
