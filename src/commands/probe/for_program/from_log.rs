//! `probe for PROGRAM --from LOG`: the same requirements, judged by what a log has: the latency of single requests
//! (`record --trace`, request traces), the means of every log, and databases' own statistics.
//!
//! A commit is a synchronous write and a flush. A log has both, and not which belong together: a commit takes at least
//! as long as either. Of at most half a percent of commits the write, and of at most half a percent the flush, takes
//! longer than its 99.5th percentile; so the sum of these two is an upper bound of the 99th percentile of commits.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use diskwright_base::counter_plan::CounterSummary;
use diskwright_base::text::quote_for_shell;
use diskwright_base::{Catalogue, CounterPlan, Frame, LatencyHistogram, LatencyOperation, LogPiece, Schema};
use diskwright_probe::programs::judge::{Measurement, answer_program, judge_value};
use diskwright_probe::programs::{LogQuantity, Program};
use diskwright_results::document::{ProbeDocument, SCHEMA};
use diskwright_results::requirement::RequirementResult;

use super::{draw, exit_of};
use crate::commands::latency::LatencyWindow;
use crate::commands::log::{self, LogWindow, Logs};
use crate::commands::probe::{Arguments, write_result_file};
use crate::commands::{Failure, output, output_file, time_argument};

/// Fewest requests from which a mean is judged.
const MIN_REQUESTS: f64 = 100.0;
/// Share of requests whose latency bounds the 99th percentile of a sum of two.
const HALF_TAIL_SHARE: f64 = 0.995;

/// The counters whose means are read, with their objects.
const MEAN_COUNTERS: [(LogQuantity, &str, &str); 4] = [
    (LogQuantity::ReadMean, "physical_disk", "physical_disk.avg_s_per_read"),
    (LogQuantity::WriteMean, "physical_disk", "physical_disk.avg_s_per_write"),
    (LogQuantity::Mean, "physical_disk", "physical_disk.avg_s_per_transfer"),
    (LogQuantity::CommitMean, "database", "database.avg_s_per_log_sync"),
];

/// Judges the requirements of a program by a log, and prints the answer.
pub fn run(arguments: &Arguments, program: &Program) -> Result<(), Failure> {
    refuse_unused(arguments)?;
    let logs = log::open(&arguments.from, &LogWindow::default())?.with_steps(true);
    let device = arguments.place.as_ref().map(|path| device_name(path));
    let figures = LogFigures::read(&logs)?;
    let requirements = judge_log(program, &figures, device.as_deref())?;
    let mut answer = answer_program(program, &requirements);
    answer.more = steps_to_know_more(program, &requirements, answer.more);
    let names: Vec<String> = arguments.from.iter().map(|path| path.display().to_string()).collect();
    let document = ProbeDocument {
        schema: SCHEMA.into(),
        suite: format!("for-{}", program.id),
        target: names.join(" "),
        seed: arguments.seed,
        started: time_argument::rfc3339(logs.range_ns.0),
        version: env!("CARGO_PKG_VERSION").into(),
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        complete: true,
        program: Some(answer),
        requirements,
        ..ProbeDocument::default()
    };
    write_result_file(arguments, &document)?;
    if output_file::is_any_stdout(&arguments.output) {
        // the JSON document has been written to standard output
    } else if arguments.json {
        output::print_json(&document)?;
    } else {
        output::print_text(&draw(&document))?;
    }
    exit_of(arguments, &document)
}

/// Refuses options of a measurement: nothing is measured.
fn refuse_unused(arguments: &Arguments) -> Result<(), Failure> {
    let given = [
        ("--for", arguments.run_duration.is_some()),
        ("--repeat", arguments.repeat != 1),
        ("--size", arguments.size.is_some()),
        ("--keep", arguments.keep),
        ("--live", arguments.live),
        ("--destroy-data-on", !arguments.destroy_data_on.is_empty()),
    ];
    match crate::commands::first_given_option(&given) {
        Some(option) => Err(Failure::Usage(format!("{option} does not go with --from LOG: nothing is measured"))),
        None => Ok(()),
    }
}

/// Name of a device in a log: `sda` for `/dev/sda`.
fn device_name(path: &Path) -> String {
    let name = path.display().to_string();
    name.strip_prefix("/dev/").map_or(name.clone(), str::to_owned)
}

/// Disk or server, index in [`MEAN_COUNTERS`], and the plan of that counter.
type MeanPlan = (String, usize, CounterPlan);

/// Figures of a log by device.
#[derive(Default)]
struct LogFigures {
    latencies: BTreeMap<String, BTreeMap<LatencyOperation, LatencyHistogram>>,
    means: BTreeMap<(String, usize), (CounterPlan, CounterSummary)>,
}

impl LogFigures {
    fn read(logs: &Logs) -> Result<LogFigures, Failure> {
        let mut figures = LogFigures::default();
        for (device, operation, recorded) in LatencyWindow::read(logs, &[])?.groups() {
            figures.latencies.entry(device.to_owned()).or_default().insert(operation, recorded.all.clone());
        }
        let mut plans: Option<(Arc<Schema>, Vec<MeanPlan>)> = None;
        logs.read::<Failure>(|piece| {
            let LogPiece::Frame(frame) = piece else { return Ok(()) };
            if plans.as_ref().is_none_or(|(schema, _)| !Arc::ptr_eq(schema, frame.schema())) {
                plans = Some((Arc::clone(frame.schema()), plan_means(frame.schema())));
            }
            figures.add_frame(frame, plans.as_ref().map(|(_, plans)| plans.as_slice()).unwrap_or_default());
            Ok(())
        })?;
        Ok(figures)
    }

    fn add_frame(&mut self, frame: &Frame, plans: &[MeanPlan]) {
        for (instance, counter, plan) in plans {
            let new_sum = || (plan.clone(), CounterSummary::default());
            let (_, sum) = self.means.entry((instance.clone(), *counter)).or_insert_with(new_sum);
            sum.merge_summary(&plan.summarise_ticks(frame, |_| true));
        }
    }

    /// Devices and servers that have a quantity, in alphabetical order.
    fn devices_with(&self, quantity: LogQuantity) -> Vec<&str> {
        let known = |device: &&str| !self.measure(device, quantity).is_unknown();
        let traced = self.latencies.keys().map(String::as_str);
        let mut names: Vec<&str> = traced.chain(self.means.keys().map(|(name, _)| name.as_str())).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().filter(known).collect()
    }

    /// Returns a quantity of a device, as far as the log has it.
    fn measure(&self, device: &str, quantity: LogQuantity) -> Measurement {
        match quantity {
            LogQuantity::CommitP99 | LogQuantity::CommitLongest => {
                self.latencies.get(device).map_or_else(Measurement::default, |groups| {
                    let group = |operation: LatencyOperation| groups.get(&operation).filter(|all| all.count() > 0);
                    let flushes = group(LatencyOperation::Flush);
                    let writes = group(LatencyOperation::SyncWrite);
                    measure_commits(quantity, flushes, writes, group(LatencyOperation::Write))
                })
            }
            quantity => self.measure_mean(device, quantity),
        }
    }

    fn measure_mean(&self, device: &str, quantity: LogQuantity) -> Measurement {
        let counter = MEAN_COUNTERS.iter().position(|(known, ..)| *known == quantity);
        let found = counter.and_then(|counter| self.means.get(&(device.to_owned(), counter)));
        let Some((plan, sum)) = found else { return Measurement::default() };
        let value = plan.summary_value(sum).filter(|_| sum.denominator >= MIN_REQUESTS);
        value.map_or_else(Measurement::default, Measurement::exact)
    }
}

/// Plans the means of every disk and database server.
fn plan_means(schema: &Schema) -> Vec<MeanPlan> {
    let mut plans = Vec::new();
    for (index, (_, object, counter)) in MEAN_COUNTERS.iter().enumerate() {
        for instance in schema.instances(object) {
            if let Some(plan) = CounterPlan::resolve_counter(Catalogue::builtin(), schema, counter, instance) {
                plans.push((instance.to_owned(), index, plan));
            }
        }
    }
    plans
}

/// Returns bounds of the latency of commits, seconds. A device without a volatile cache gets no flushes: there a
/// commit is its synchronous write. Some traces do not show which writes are synchronous; then all of them bound it.
fn measure_commits(
    quantity: LogQuantity,
    flushes: Option<&LatencyHistogram>,
    sync_writes: Option<&LatencyHistogram>,
    writes: Option<&LatencyHistogram>,
) -> Measurement {
    let seconds = |ns: f64| ns * 1e-9;
    let longest = |all: &LatencyHistogram| all.longest_ns().map(|ns| seconds(ns as f64));
    let known_low =
        |all: &LatencyHistogram| [0.99, 0.95, 0.5].into_iter().find_map(|share| all.percentile_ns(share)).map(seconds);
    let known_high = |all: &LatencyHistogram| all.percentile_ns(HALF_TAIL_SHARE).map(seconds).or_else(|| longest(all));
    let is_longest = quantity == LogQuantity::CommitLongest;
    let low = |all: &LatencyHistogram| if is_longest { longest(all) } else { known_low(all) };
    let high = |all: &LatencyHistogram| if is_longest { longest(all) } else { known_high(all) };
    match (flushes, sync_writes) {
        (None, None) => Measurement::default(),
        (None, Some(only)) => match only.percentile_ns(0.99).map(seconds).filter(|_| !is_longest) {
            Some(value) => Measurement::exact(value),
            None => Measurement::between(low(only), longest(only)),
        },
        (Some(flushes), Some(sync_writes)) => {
            let at_least = low(flushes).into_iter().chain(low(sync_writes)).reduce(f64::max);
            Measurement::between(at_least, high(flushes).zip(high(sync_writes)).map(|(a, b)| a + b))
        }
        (Some(flushes), None) => {
            let at_most = writes.and_then(high).zip(high(flushes)).map(|(a, b)| a + b);
            Measurement::between(low(flushes), at_most)
        }
    }
}

/// Judges the requirements that a log can show, for each device that has the quantity or for the named one.
fn judge_log(program: &Program, figures: &LogFigures, device: Option<&str>) -> Result<Vec<RequirementResult>, Failure> {
    let mut results = Vec::new();
    let mut known_devices: Vec<&str> = Vec::new();
    for requirement in &program.requirements {
        let Some(quantity) = requirement.from_log else { continue };
        let with_figure = figures.devices_with(quantity);
        known_devices.extend(with_figure.iter().filter(|name| !known_devices.contains(*name)).collect::<Vec<_>>());
        let shown: Vec<&str> = with_figure.into_iter().filter(|name| device.is_none_or(|d| d == *name)).collect();
        for name in &shown {
            let judged = judge_value(requirement, &figures.measure(name, quantity), missing_text(quantity));
            results.push(RequirementResult { device: Some((*name).to_owned()), ..judged });
        }
        // a database's own statistics are named by server, not by disk: they are never missing for a disk
        if shown.is_empty() && quantity != LogQuantity::CommitMean {
            results.push(judge_value(requirement, &Measurement::default(), missing_text(quantity)));
        }
    }
    let is_known = |name: &str| known_devices.contains(&name);
    if let Some(name) = device.filter(|name| !known_devices.is_empty() && !is_known(name)) {
        let known = known_devices.join(", ");
        return Err(Failure::Failed(format!("the log has no latencies of {name}; it has those of {known}")));
    }
    Ok(results)
}

/// Says why a log does not have a quantity, and how to record it.
fn missing_text(quantity: LogQuantity) -> &'static str {
    match quantity {
        LogQuantity::CommitP99 | LogQuantity::CommitLongest => {
            "the log has no latencies of single flushes and synchronous writes; `diskwright record DIR --trace` \
             records them"
        }
        LogQuantity::CommitMean => "the log has no statistics of a database server",
        LogQuantity::ReadMean | LogQuantity::WriteMean | LogQuantity::Mean => {
            "the log has no latencies of a disk with at least 100 such requests"
        }
    }
}

/// What would tell more than this log: requirements that no log shows, then what the vendor names.
fn steps_to_know_more(program: &Program, results: &[RequirementResult], named: Vec<String>) -> Vec<String> {
    let absent: Vec<&str> =
        program.requirements.iter().filter(|r| r.from_log.is_none()).map(|r| r.title.as_str()).collect();
    let mut steps = Vec::new();
    if !absent.is_empty() {
        let command = format!("diskwright probe for {} TARGET", quote_for_shell(&program.id));
        steps.push(format!("`{command}` on a folder of this storage; a log does not show: {}", absent.join("; ")));
    }
    if results.iter().any(|r| r.limit.is_some() && r.met.is_none() && !r.why.contains("--trace")) {
        steps.push("`diskwright record DIR --trace`: the latency of single flushes and synchronous writes".into());
    }
    steps.extend(named);
    steps
}
