//! `simulate SYSTEM.toml`: a described system under its workloads.

use std::path::{Path, PathBuf};

use clap::Args;
use diskwright_base::units::{format_count, format_value};
use diskwright_datastore::WriterOptions;
use diskwright_simulator::System;
use diskwright_simulator::load::{LoadSpec, OperationTotals, Timing};
use diskwright_simulator::sample_rows::EPOCH_NS;
use diskwright_simulator::system::read::{DescriptionFiles, LoadedTrace, Setting, read_with_files};
use diskwright_simulator::{Simulation, SimulationReport};
use diskwright_traces::Skip;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::sample_log::SimulationLog;
use super::{ChartArguments, charts, document, read_text_file, screen, sweep};
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

/// A run and its result.
pub struct SimulationOutcome {
    /// The system that was run.
    pub system: System,
    /// Remarks on its description.
    pub notes: Vec<String>,
    /// Report on the whole run.
    pub report: SimulationReport,
    /// Utilization in each interval that is drawn.
    pub timeline: Vec<UtilizationSample>,
}

impl SimulationOutcome {
    /// Returns why there are no figures; `None` if there are.
    pub fn unmeasured_reason(&self) -> Option<String> {
        let report = &self.report;
        let seconds = |ns: u64| format_value(ns as f64 / 1e9, "s");
        if !self.is_measured() {
            let (end, warm_up) = (seconds(report.to), seconds(self.system.watch.warm_up));
            return Some(format!(
                "nothing was measured: the load ended after {end}, within the warm-up of {warm_up}; shorten the \
                 warm-up (watch.warm_up) or make the load last longer (its operations or phases)"
            ));
        }
        let is_idle =
            screen::busiest_component(self).is_none() && report.workloads.iter().all(|w| w.counts.request_count() == 0);
        is_idle.then(|| {
            format!(
                "nothing was requested in the measured {}; measure for longer (watch.duration)",
                format_value(report.elapsed_s(), "s")
            )
        })
    }

    /// True if any time was measured: not if the load ends within the warm-up.
    pub fn is_measured(&self) -> bool {
        self.report.to > self.report.from
    }
}

/// An interval of a run.
pub struct UtilizationSample {
    /// End of the interval since the beginning of the simulation, s.
    pub end_s: f64,
    /// Utilization of each component.
    pub utilizations: Vec<f64>,
}

/// Maximum number of intervals kept for charts; of longer runs every second, fourth, … one is kept.
const MAX_SAMPLES: usize = 512;

/// Runs a system.
pub fn run(path: &Path, running: &SimulateOptions, pictures: &ChartArguments, as_json: bool) -> Result<(), Failure> {
    let settings = collect_settings(running)?;
    if let Some((key, values)) = parse_sweep(running)? {
        return sweep::run_sweep(path, &settings, &key, &values, pictures, as_json);
    }
    let (system, notes) = read_loaded_system(path, &settings)?;
    let bar = simulation_progress_bar(system.watch.duration / 1_000_000_000, "{msg} {wide_bar} {pos}/{len} s");
    let mut log = running
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
    let wrong = || format!("--set `{text}`: write a part, its key and a value, such as workload.users=16");
    Setting::parse(text).ok_or_else(wrong)
}

/// Settings from options that override the description.
fn collect_settings(running: &SimulateOptions) -> Result<Vec<Setting>, Failure> {
    let mut settings = Vec::new();
    for text in &running.set {
        settings.push(parse_setting(text).map_err(Failure::Usage)?);
    }
    let mut watch = |key: &str, value: String| settings.push(Setting { key: format!("watch.{key}"), value });
    if let Some(seed) = running.seed {
        watch("seed", seed.to_string());
    }
    if let Some(duration) = &running.duration {
        watch("duration", duration.clone());
    }
    Ok(settings)
}

/// Returns the key of a sweep and its values.
fn parse_sweep(running: &SimulateOptions) -> Result<Option<(String, Vec<String>)>, Failure> {
    let (option, key, values) = match (&running.sweep, &running.users) {
        (Some(text), _) => {
            let wrong = || Failure::Usage(format!("--sweep `{text}`: write workload.users=1,2,4,8"));
            let (key, values) = text.split_once('=').ok_or_else(wrong)?;
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

/// Reads a description of a system that must have a load.
pub fn read_loaded_system(path: &Path, settings: &[Setting]) -> Result<(System, Vec<String>), Failure> {
    let (system, notes) = read_system(path, settings)?;
    if system.workloads.is_empty() {
        let name = path.display();
        let because = "the system has no load: add at least one [[workload]]";
        return Err(Failure::Failed(format!("{name}: {because} (`disk` can serve it to programs without a workload)")));
    }
    Ok((system, notes))
}

/// Reads a description; other files that it names are looked for in its folder.
pub fn read_system(path: &Path, settings: &[Setting]) -> Result<(System, Vec<String>), Failure> {
    let name = path.display().to_string();
    let own = read_text_file(path).map_err(|error| Failure::Failed(format!("{name}: {error}")))?;
    let beside = |other: &str| match path.parent() {
        Some(folder) if Path::new(other).is_relative() => folder.join(other),
        _ => PathBuf::from(other),
    };
    let files = DescriptionFiles {
        text: &|other| read_text_file(&beside(other)),
        trace: &|other| read_recorded_load(&beside(other)),
    };
    let found =
        read_with_files(&name, &own, settings, &files).map_err(|problems| Failure::Failed(problems.to_string()))?;
    Ok((found.system, found.notes.iter().map(ToString::to_string).collect()))
}

/// Reads the requests of a trace, with the number of other operations and of unreadable records.
fn read_recorded_load(path: &Path) -> Result<LoadedTrace, String> {
    let mut trace = diskwright_traces::open(&[path.to_owned()]).map_err(|error| error.to_string())?;
    let mut failed = None;
    let requests = std::iter::from_fn(|| match trace.next()? {
        Ok(request) => Some(request),
        Err(error) => {
            failed = Some(error.to_string());
            None
        }
    });
    let (requests, left_out) = diskwright_simulator::load::TraceSpec::from_requests(requests);
    if let Some(failed) = failed {
        return Err(failed);
    }
    let summary = trace.summary();
    let skipped: u64 = summary.skipped.iter().map(|skip| skip.count).sum();
    let mut remarks: Vec<String> = summary.assumed.into_iter().collect();
    if let Some(first) = summary.skipped.first() {
        let Skip { context, reason: because, .. } = first;
        let lines = format_count(skipped, "line or record", "lines or records");
        let omitted = format!("{lines} of the trace could not be read; the first: {context}: {because}");
        remarks.push(omitted);
    }
    Ok((requests, left_out, remarks))
}

/// Simulates a system; `each` is called with every interval.
pub fn simulate_system(
    system: System,
    mut notes: Vec<String>,
    mut each: impl FnMut(&SimulationReport) -> Result<(), Failure>,
) -> Result<SimulationOutcome, Failure> {
    let mut simulation = Simulation::new(&system)?;
    let mut course = Vec::new();
    let (mut step, mut seen, mut failed) = (1_usize, 0_usize, None);
    let report = simulation.run(|report| {
        if seen.is_multiple_of(step) {
            let utilisations = report.components.iter().map(|component| component.utilisation()).collect();
            course.push(UtilizationSample { end_s: report.to as f64 / 1e9, utilizations: utilisations });
            if course.len() == MAX_SAMPLES {
                let mut parts = 0;
                course.retain(|_| {
                    parts += 1;
                    parts % 2 == 1
                });
                step *= 2;
            }
        }
        seen += 1;
        if failed.is_none() {
            failed = each(report).err();
        }
    });
    let refused = simulation.refused_changes().iter();
    notes.extend(
        refused.map(|(time_ns, why)| format!("the change at {} s had no effect: {why}", *time_ns as f64 / 1e9)),
    );
    notes.extend(describe_shortfalls(&system, &report));
    match failed {
        Some(error) => Err(error),
        None => Ok(SimulationOutcome { system, notes, report, timeline: course }),
    }
}

/// Minimum growth of a queue for it to be reported: a number of operations, and the fraction of arrivals (1 of so
/// many).
const QUEUE_GROWTH_LIMITS: (u64, u64) = (100, 20);

/// Describes requests that open loads issued and did not get served: response times of the others alone would look
/// better than they were.
fn describe_shortfalls(system: &System, report: &SimulationReport) -> Vec<String> {
    let full = report.bottleneck().is_some_and(|part| part.utilisation() >= screen::FULL_UTILIZATION);
    let mut words = Vec::new();
    for (workload, reported) in system.workloads.iter().zip(&report.workloads) {
        let waits = match &workload.load {
            LoadSpec::Open(_) => false,
            LoadSpec::Trace(trace) => !matches!(trace.timing, Timing::Open { .. }),
            _ => true,
        };
        if waits {
            continue;
        }
        let sum = |of: fn(&OperationTotals) -> u64| reported.operations.iter().map(|o| of(&o.totals)).sum::<u64>();
        let (begun, done, lost) = (sum(|totals| totals.begun), sum(|totals| totals.done), sum(|totals| totals.lost));
        let name = &workload.name;
        if lost > 0 {
            words.push(format!(
                "workload `{name}`: {lost} of {} arrivals were lost, because too many operations were in flight; \
                 the other figures are without them",
                begun.saturating_add(lost)
            ));
        }
        let left = begun.saturating_sub(done);
        if full && left >= QUEUE_GROWTH_LIMITS.0 && left.saturating_mul(QUEUE_GROWTH_LIMITS.1) > begun {
            words.push(format!(
                "workload `{name}`: operations arrived faster than they were completed ({begun} and {done} in the \
                 measured time); the queue grew, so response times depend on how long is measured"
            ));
        }
    }
    words
}

/// Progress bar on a terminal's standard error.
pub fn simulation_progress_bar(length: u64, form: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length.max(1)), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style);
    }
    bar.set_message("simulating");
    bar
}
