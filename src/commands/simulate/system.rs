//! `simulate SYSTEM.toml`: a described system under its workloads.

use std::path::{Path, PathBuf};

use clap::Args;
use diskwright_datastore::WriterOptions;
use diskwright_simulator::sample_rows::EPOCH_NS;
use diskwright_simulator::system::read::Setting;

use super::sample_log::SimulationLog;
use super::system_run::{read_loaded_system, simulate_system, simulation_progress_bar};
use super::{ChartArguments, charts, document, screen, sweep};
use crate::commands::{Failure, output};

/// Options for running a system.
#[derive(Args)]
#[command(next_help_heading = "System")]
pub struct SimulateOptions {
    /// Seed for all random numbers, instead of the description's
    #[arg(long, value_name = "N", requires = "system")]
    seed: Option<u64>,
    /// Measured time (30s), instead of the description's
    #[arg(long, value_name = "TIME", requires = "system")]
    duration: Option<String>,
    /// Override a value of the description: workload.users=16, data.stripe_unit=128KB (repeatable)
    #[arg(long, value_name = "PART.KEY=VALUE", requires = "system")]
    set: Vec<String>,
    /// Run once for each of several values: workload.size=4KB,64KB
    #[arg(long, value_name = "PART.KEY=V1,V2,...", requires = "system", conflicts_with_all = ["users", "out"])]
    sweep: Option<String>,
    /// Run once for each of several numbers of users: 1,2,4,8
    #[arg(long, value_name = "N1,N2,...", requires = "system", conflicts_with = "out")]
    users: Option<String>,
    /// Append the samples to a log, for `why`, `show` and `report`
    #[arg(long, value_name = "DIR", requires = "system")]
    out: Option<PathBuf>,
}

/// Runs a system.
pub fn run(path: &Path, options: &SimulateOptions, pictures: &ChartArguments, as_json: bool) -> Result<(), Failure> {
    let settings = collect_settings(options)?;
    if let Some((key, values)) = parse_sweep(options)? {
        return sweep::run_sweep(path, &settings, &key, &values, pictures, as_json);
    }
    let (system, notes) = read_loaded_system(path, &settings)?;
    let bar = simulation_progress_bar(system.watch.duration / 1_000_000_000, "{msg} {wide_bar} {pos}/{len} s");
    let mut log = options
        .out
        .as_deref()
        .map(|dir| SimulationLog::open(dir, &system, EPOCH_NS, "simulation", WriterOptions::for_bulk_import()))
        .transpose()?;
    let outcome = simulate_system(system, notes, |report| {
        bar.set_position(report.to / 1_000_000_000);
        log.as_mut().map_or(Ok(()), |log| log.add_interval(report))
    });
    bar.finish_and_clear();
    let outcome = outcome?;
    if let Some(log) = log {
        log.close_log()?;
    }
    if pictures.are_given() {
        let charts = charts::run_charts(&outcome);
        let sheet = || charts::run_sheet(&outcome, charts.clone());
        pictures.write_charts(&outcome.system.name, &charts, sheet)?;
    }
    if pictures.write_to_stdout() {
        return Ok(());
    }
    if as_json {
        return output::print_json(&document::simulation_document(&outcome));
    }
    for note in &outcome.notes {
        output::print_note(note);
    }
    output::print_text(&screen::draw_simulation(&outcome, &output::stdout_style()))
}

/// Parses `workload.users=16`.
pub fn parse_setting(text: &str) -> Result<Setting, String> {
    let error = || format!("--set `{text}`: write a part, its key and a value, such as workload.users=16");
    Setting::parse(text).ok_or_else(error)
}

/// Settings from options that override the description.
fn collect_settings(options: &SimulateOptions) -> Result<Vec<Setting>, Failure> {
    let mut settings = Vec::new();
    for text in &options.set {
        settings.push(parse_setting(text).map_err(Failure::Usage)?);
    }
    let mut set_watch = |key: &str, value: String| settings.push(Setting { key: format!("watch.{key}"), value });
    if let Some(seed) = options.seed {
        set_watch("seed", seed.to_string());
    }
    if let Some(duration) = &options.duration {
        set_watch("duration", duration.clone());
    }
    Ok(settings)
}

/// Returns the key of a sweep and its values.
fn parse_sweep(options: &SimulateOptions) -> Result<Option<(String, Vec<String>)>, Failure> {
    let (option, key, values) = match (&options.sweep, &options.users) {
        (Some(text), _) => {
            let error = || Failure::Usage(format!("--sweep `{text}`: write workload.users=1,2,4,8"));
            let (key, values) = text.split_once('=').ok_or_else(error)?;
            ("--sweep", key.trim().to_owned(), values)
        }
        (None, Some(values)) => ("--users", "workload.users".to_owned(), values.as_str()),
        (None, None) => return Ok(None),
    };
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    if key.is_empty() || values.iter().any(String::is_empty) {
        return Err(Failure::Usage(format!(
            "{option}: write a key and comma-separated values: workload.users=1,2,4,8"
        )));
    }
    Ok(Some((key, values)))
}
