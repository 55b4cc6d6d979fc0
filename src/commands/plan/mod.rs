//! `plan`: finds designs for a demand. `options.rs` turns arguments into a demand and limits, `screen.rs` draws the
//! answer.

mod charts;
mod fleet;
pub mod from_log;
mod load_screen;
mod log_verdict;
mod options;
pub mod screen;
mod written_designs;

use std::path::PathBuf;

use clap::Args;
use diskwright_planner::{PlanAnswer, PlanError, PlanLimits, plan};
use serde_json::{Value, json};

use super::calibrate::CalibrateOptions;
use super::simulate::ChartArguments;
use super::{Failure, output};
use options::{DemandOptions, LimitOptions};
use written_designs::{WrittenDesigns, write_designs};

/// Arguments of `plan`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    demand: DemandOptions,
    #[command(flatten)]
    from: from_log::FromOptions,
    #[command(flatten)]
    calibration: CalibrateOptions,
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    pictures: ChartArguments,
    /// Write the designs into this folder as descriptions that `simulate` and `disk` read
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `plan`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.calibration.is_given() {
        if arguments.write.is_some() {
            return Err(Failure::Usage("--write writes designs, but --calibrate describes a device".into()));
        }
        if arguments.pictures.are_given() {
            return Err(Failure::Usage("--html and --svg show designs, but --calibrate describes a device".into()));
        }
        if arguments.demand.is_typed() || arguments.from.is_given()? {
            return Err(Failure::Usage(
                "--calibrate describes a device and plans nothing; plan with the description (--catalogue)".into(),
            ));
        }
        return arguments.calibration.run(arguments.json);
    }
    if arguments.from.is_given()? {
        return from_log::run(arguments);
    }
    let demand = arguments.demand.to_demand()?;
    let existing = arguments.limits.existing_drives(None)?;
    let limits = PlanLimits { existing, ..arguments.limits.plan_limits(arguments.demand.horizon_days()?)? };
    arguments.pictures.check_writable()?;
    let answer = plan(&demand, &limits).map_err(plan_failure)?;
    arguments.pictures.write_charts("Plan", &charts::plan_charts(&answer), || charts::plan_sheet(&answer, &limits))?;
    if arguments.pictures.write_to_stdout() {
        return Ok(());
    }
    let written = arguments.write_designs(&answer)?;
    if arguments.json {
        let mut document = plan_document(&answer);
        written.iter().for_each(|written| written.add_to_json(&mut document));
        return output::print_json(&document);
    }
    let style = output::wide_table_style();
    let files = written_designs::draw_next_step(written.as_ref(), &style);
    output::print_text(&(screen::draw_plan(&answer, &limits, &style) + &files))
}

impl Arguments {
    /// Writes the designs, if a folder is given.
    fn write_designs(&self, answer: &PlanAnswer) -> Result<Option<WrittenDesigns>, Failure> {
        let write = |folder: &PathBuf| write_designs(folder, answer, self.limits.own_catalogue());
        self.write.as_ref().map(write).transpose()
    }
}

/// Returns the answer as JSON.
fn plan_document(answer: &PlanAnswer) -> Value {
    let mut document = json!({ "schema": "diskwright.plan/1" });
    if let (Value::Object(fields), Value::Object(answered)) = (&mut document, json!(answer)) {
        fields.extend(answered);
    }
    add_derived_fields(&mut document, answer);
    document
}

/// Adds documented fields that are derived from others.
fn add_derived_fields(document: &mut Value, answer: &PlanAnswer) {
    document["demand"]["size_bytes"] = json!(answer.demand.size_bytes());
    let empty = json!([]);
    document["limit"] = match answer.feasible {
        true => Value::Null,
        false => {
            document["rejected"].as_array().and_then(|rejected| rejected.first()).map_or(empty, |r| r["limit"].clone())
        }
    };
}

/// Converts an error: wrong arguments are usage errors, a drive that cannot be built is not.
fn plan_failure(error: PlanError) -> Failure {
    match error {
        PlanError::Drive { .. } => Failure::Failed(error.to_string()),
        PlanError::Unknown { kind, .. } => {
            let hint = match kind {
                "instance" | "controller" => "docs/planner.md names them",
                _ => "`diskwright list drives` shows all",
            };
            Failure::Usage(format!("{error}; {hint}"))
        }
        error => Failure::Usage(error.to_string()),
    }
}
