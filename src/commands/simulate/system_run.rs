//! Reads a description of a system and simulates it.

use std::path::{Path, PathBuf};

use diskwright_base::units::format_count;
use diskwright_simulator::load::{LoadSpec, OperationTotals, Timing};
use diskwright_simulator::system::read::{DescriptionFiles, LoadedTrace, Setting, read_with_files};
use diskwright_simulator::{Simulation, SimulationReport, System};
use diskwright_traces::Skip;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::outcome::{self, SimulationOutcome, UtilizationSample};
use super::read_text_file;
use crate::commands::{Failure, log};

/// Maximum number of intervals kept for charts; of longer runs every second, fourth, … one is kept.
const MAX_SAMPLES: usize = 512;

/// Reads a description of a system that must have a load.
pub fn read_loaded_system(path: &Path, settings: &[Setting]) -> Result<(System, Vec<String>), Failure> {
    let (system, notes) = read_system(path, settings)?;
    if system.workloads.is_empty() {
        let name = path.display();
        let reason = "the system has no load: add at least one [[workload]]";
        return Err(Failure::Failed(format!("{name}: {reason} (`disk` can serve it to programs without a workload)")));
    }
    Ok((system, notes))
}

/// Reads a description; other files that it names are looked for in its folder.
pub fn read_system(path: &Path, settings: &[Setting]) -> Result<(System, Vec<String>), Failure> {
    let name = path.display().to_string();
    let text = read_text_file(path).map_err(|error| Failure::Failed(format!("{name}: {error}")))?;
    let resolve_path = |other: &str| match path.parent() {
        Some(folder) if Path::new(other).is_relative() => folder.join(other),
        _ => PathBuf::from(other),
    };
    let files = DescriptionFiles {
        text: &|other| read_text_file(&resolve_path(other)),
        trace: &|other| read_recorded_load(&resolve_path(other)),
    };
    let description =
        read_with_files(&name, &text, settings, &files).map_err(|problems| Failure::Failed(problems.to_string()))?;
    Ok((description.system, description.notes.iter().map(ToString::to_string).collect()))
}

/// Reads the requests of a trace, with the number of other operations and of unreadable records.
fn read_recorded_load(path: &Path) -> Result<LoadedTrace, String> {
    let mut trace = log::new_input(&[path.to_owned()]).open_requests(None).map_err(|error| error.to_string())?;
    let mut failure = None;
    let requests = std::iter::from_fn(|| match trace.next()? {
        Ok(request) => Some(request),
        Err(error) => {
            failure = Some(error.to_string());
            None
        }
    });
    let (requests, left_out) = diskwright_simulator::load::TraceSpec::from_requests(requests);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let summary = trace.summary();
    let skipped: u64 = summary.skipped.iter().map(|skip| skip.count).sum();
    let mut remarks: Vec<String> = summary.assumed.into_iter().collect();
    if let Some(first) = summary.skipped.first() {
        let Skip { context, reason, .. } = first;
        let lines = format_count(skipped, "line or record", "lines or records");
        let omitted = format!("{lines} of the trace could not be read; the first: {context}: {reason}");
        remarks.push(omitted);
    }
    Ok((requests, left_out, remarks))
}

/// Simulates a system; `handle_interval` is called with the report on every interval.
pub fn simulate_system(
    system: System,
    mut notes: Vec<String>,
    mut handle_interval: impl FnMut(&SimulationReport) -> Result<(), Failure>,
) -> Result<SimulationOutcome, Failure> {
    let mut simulation = Simulation::new(&system)?;
    let mut timeline = Vec::new();
    let (mut step, mut intervals, mut failure) = (1_usize, 0_usize, None);
    let report = simulation.run(|report| {
        if intervals.is_multiple_of(step) {
            let utilisations = report.components.iter().map(|component| component.utilisation()).collect();
            timeline.push(UtilizationSample { end_s: report.to as f64 / 1e9, utilizations: utilisations });
            if timeline.len() == MAX_SAMPLES {
                let mut index = 0;
                timeline.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                step *= 2;
            }
        }
        intervals += 1;
        if failure.is_none() {
            failure = handle_interval(report).err();
        }
    });
    let refused = simulation.refused_changes().iter();
    notes.extend(
        refused.map(|(time_ns, reason)| format!("the change at {} s had no effect: {reason}", *time_ns as f64 / 1e9)),
    );
    notes.extend(describe_shortfalls(&system, &report));
    match failure {
        Some(error) => Err(error),
        None => Ok(SimulationOutcome { system, notes, report, timeline }),
    }
}

/// Minimum growth of a queue for it to be reported, operations.
const MIN_QUEUE_GROWTH: u64 = 100;
/// The growth must also exceed one of this many arrivals.
const ARRIVALS_PER_QUEUE_GROWTH: u64 = 20;

/// Describes requests of open arrivals that were not served: the response times of the other requests alone would look
/// too good.
fn describe_shortfalls(system: &System, report: &SimulationReport) -> Vec<String> {
    let is_saturated = report.bottleneck().is_some_and(|part| part.utilisation() >= outcome::FULL_UTILIZATION);
    let mut remarks = Vec::new();
    for (workload, reported) in system.workloads.iter().zip(&report.workloads) {
        let is_closed = match &workload.load {
            LoadSpec::Open(_) => false,
            LoadSpec::Trace(trace) => !matches!(trace.timing, Timing::Open { .. }),
            _ => true,
        };
        if is_closed {
            continue;
        }
        let sum =
            |field: fn(&OperationTotals) -> u64| reported.operations.iter().map(|o| field(&o.totals)).sum::<u64>();
        let (begun, done, lost) = (sum(|totals| totals.begun), sum(|totals| totals.done), sum(|totals| totals.lost));
        let name = &workload.name;
        if lost > 0 {
            remarks.push(format!(
                "workload `{name}`: {lost} of {} arrivals were lost, because too many operations were in flight; \
                 the other figures are without them",
                begun.saturating_add(lost)
            ));
        }
        let unfinished = begun.saturating_sub(done);
        if is_saturated
            && unfinished >= MIN_QUEUE_GROWTH
            && unfinished.saturating_mul(ARRIVALS_PER_QUEUE_GROWTH) > begun
        {
            remarks.push(format!(
                "workload `{name}`: operations arrived faster than they were completed ({begun} and {done} in the \
                 measured time); the queue grew, so response times depend on how long is measured"
            ));
        }
    }
    remarks
}

/// Progress bar on a terminal's standard error.
pub fn simulation_progress_bar(length: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length.max(1)), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message("simulating");
    bar
}
