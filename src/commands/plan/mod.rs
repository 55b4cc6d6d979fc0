//! `plan`: finds designs for a demand. `options.rs` turns arguments into a demand and limits, `screen.rs` draws the
//! answer.

mod fleet;
pub mod from_log;
mod load_screen;
mod options;
mod pictures;
pub mod screen;

use clap::Args;
use diskwright_planner::{PlanError, PlanLimits, plan};
use serde_json::{Value, json};

use super::calibrate::CalibrateOptions;
use super::simulate::Pictures;
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
    pictures: Pictures,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `plan`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.calibration.is_asked() {
        if arguments.pictures.are_asked() {
            return Err(Failure::Usage("--html and --svg show designs, but --calibrate describes a device".into()));
        }
        if arguments.demand.is_typed() || arguments.from.is_asked()? {
            return Err(Failure::Usage(
                "--calibrate describes a device and plans nothing; plan with the description (--catalogue)".into(),
            ));
        }
        return arguments.calibration.run(arguments.json);
    }
    if arguments.from.is_asked()? {
        return from_log::run(arguments);
    }
    let demand = arguments.demand.demand()?;
    let existing = arguments.limits.existing(None)?;
    let limits = PlanLimits { existing, ..arguments.limits.limits(arguments.demand.horizon_days()?)? };
    arguments.pictures.check()?;
    let answer = plan(&demand, &limits).map_err(failure)?;
    arguments.pictures.write("Plan", &pictures::charts(&answer), || pictures::sheet(&answer, &limits))?;
    if arguments.pictures.take_stdout() {
        return Ok(());
    }
    if arguments.json {
        return output::json(&document(&answer));
    }
    output::text(&screen::draw(&answer, &limits, &output::wide_style()))
}

/// Returns the answer as JSON.
fn document(answer: &diskwright_planner::PlanAnswer) -> Value {
    let mut document = json!({ "schema": "diskwright.plan/1" });
    if let (Value::Object(fields), Value::Object(answered)) = (&mut document, json!(answer)) {
        fields.extend(answered);
    }
    add_contract(&mut document, answer);
    document
}

/// Adds documented fields that are derived from others.
fn add_contract(document: &mut Value, answer: &diskwright_planner::PlanAnswer) {
    document["demand"]["size_bytes"] = json!(answer.demand.size_bytes());
    let empty = json!([]);
    document["limit"] = match answer.feasible {
        true => Value::Null,
        false => document["rejected"].as_array().and_then(|all| all.first()).map_or(empty, |r| r["limit"].clone()),
    };
}

/// Converts an error: wrong arguments are usage errors, a drive that cannot be built is not.
fn failure(error: PlanError) -> Failure {
    match error {
        PlanError::Drive { .. } => Failure::Failed(error.to_string()),
        PlanError::Unknown { what, .. } => {
            let list = match what {
                "instance" | "controller" => "docs/planner.md names them",
                _ => "`diskwright list drives` shows all",
            };
            Failure::Usage(format!("{error}; {list}"))
        }
        error => Failure::Usage(error.to_string()),
    }
}
