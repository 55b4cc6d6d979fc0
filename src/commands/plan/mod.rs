//! `plan`: finds designs for a demand. `options.rs` turns arguments into a demand and limits, `screen.rs` draws the
//! answer.

mod charts;
mod fleet;
pub mod from_log;
mod live_space;
mod load_screen;
mod log_verdict;
mod options;
pub mod screen;
mod space_lines;
mod tried_designs;
mod written_designs;

use std::path::PathBuf;

use clap::Args;
use diskwright_planner::{PlanAnswer, PlanError, PlanLimits, plan};
use serde_json::{Value, json};

use super::calibrate::CalibrateOptions;
use super::simulate::ChartArguments;
use super::{Failure, output};
use options::{DemandOptions, LimitOptions};

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
    /// Simulate the N best designs from their descriptions, and print the results beside the plan
    #[arg(long = "try", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=20))]
    tried: Option<u8>,
    /// Seed for all random numbers of --try
    #[arg(long, value_name = "N", requires = "tried")]
    seed: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `plan`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.calibration.is_given() {
        if let Some(use_of_designs) = arguments.use_of_designs() {
            return Err(Failure::Usage(format!("{use_of_designs}, but --calibrate describes a device")));
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
    let limits = PlanLimits { existing, ..arguments.plan_limits()? };
    arguments.pictures.check_writable()?;
    let answer = plan(&demand, &limits).map_err(plan_failure)?;
    arguments.pictures.write_charts("Plan", &charts::plan_charts(&answer), || charts::plan_sheet(&answer, &limits))?;
    if arguments.pictures.write_to_stdout() {
        return Ok(());
    }
    let used = arguments.use_designs(&answer)?;
    if arguments.json {
        let mut document = plan_document(&answer);
        used.add_to_json(&mut document);
        return output::print_json(&document);
    }
    let style = output::wide_table_style();
    output::print_text(&(screen::draw_plan(&answer, &limits, &style) + &used.draw_designs(&style)))
}

impl Arguments {
    /// Returns the limits; as many designs are listed as are tried.
    fn plan_limits(&self) -> Result<PlanLimits, Failure> {
        let limits = self.limits.plan_limits(self.demand.horizon_days()?)?;
        let list_length = limits.list_length.max(self.tried.unwrap_or(0).into());
        Ok(PlanLimits { list_length, ..limits })
    }

    /// What --write and --try do with designs, if one is given.
    fn use_of_designs(&self) -> Option<&'static str> {
        let write = self.write.as_ref().map(|_| "--write writes designs");
        write.or(self.tried.map(|_| "--try simulates designs"))
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
