//! `probe for PROGRAM --from LOG`: the same requirements, judged by what a log has: the latency of single requests
//! (`record --trace`, request traces), the means of every log, and databases' own statistics.
//!
//! A commit is synchronous writes and flushes. A log has both, and not which belong together, so a commit takes at
//! least as long as either. It has no upper bound: through the journal of a filesystem a commit is several of them, one
//! after another, with threads that wake each other between. So a log shows that commits are too slow, never that they
//! are fast enough.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use diskwright_base::counter_plan::CounterSummary;
use diskwright_base::text::quote_for_shell;
use diskwright_base::{Catalogue, CounterPlan, Frame, LatencyHistogram, LatencyOperation, LogPiece, Schema};
use diskwright_probe::programs::judge::{Measurement, Reasons, answer_program, judge_value};
use diskwright_probe::programs::{LogQuantity, Program};
use diskwright_results::document::{ProbeDocument, SCHEMA};
use diskwright_results::requirement::RequirementResult;

use super::{draw, exit_of};
use crate::commands::latency::LatencyWindow;
use crate::commands::log::{self, LogWindow, Logs};
use crate::commands::probe::steps::ResultWithSteps;
use crate::commands::probe::{Arguments, write_result_file};
use crate::commands::{Failure, output, output_file, time_argument};

/// Fewest requests from which a mean is judged.
const MIN_REQUESTS: f64 = 100.0;

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
        output::print_json(&ResultWithSteps::new(&document, arguments))?;
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
                let groups = self.latencies.get(device);
                let group = |operation: &LatencyOperation| groups?.get(operation).filter(|all| all.count() > 0);
                let parts = [LatencyOperation::Flush, LatencyOperation::SyncWrite];
                measure_commits(quantity, parts.iter().filter_map(group))
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

/// Returns the lower bound of the latency of commits, seconds, from the latencies of their parts.
fn measure_commits<'a>(quantity: LogQuantity, parts: impl Iterator<Item = &'a LatencyHistogram>) -> Measurement {
    let highest_known = |all: &LatencyHistogram| [0.99, 0.95, 0.5].into_iter().find_map(|s| all.percentile_ns(s));
    let low = |all: &LatencyHistogram| match quantity {
        LogQuantity::CommitLongest => all.longest_ns().map(|ns| ns as f64),
        _ => highest_known(all),
    };
    Measurement::between(parts.filter_map(low).reduce(f64::max).map(|ns| ns * 1e-9), None)
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
            let judged = judge_value(requirement, &figures.measure(name, quantity), &log_reasons(quantity));
            results.push(RequirementResult { device: Some((*name).to_owned()), ..judged });
        }
        // a database's own statistics are named by server, not by disk: they are never missing for a disk
        if shown.is_empty() && quantity != LogQuantity::CommitMean {
            results.push(judge_value(requirement, &Measurement::default(), &log_reasons(quantity)));
        }
    }
    let is_known = |name: &str| known_devices.contains(&name);
    if let Some(name) = device.filter(|name| !known_devices.is_empty() && !is_known(name)) {
        let known = known_devices.join(", ");
        return Err(Failure::Failed(format!("the log has no latencies of {name}; it has those of {known}")));
    }
    Ok(results)
}

/// Says why a log does not decide, and what does.
fn log_reasons(quantity: LogQuantity) -> Reasons {
    let unknown = match quantity {
        LogQuantity::CommitP99 | LogQuantity::CommitLongest => {
            "the log has no latencies of single flushes and synchronous writes; `diskwright record DIR --trace` \
             records them"
        }
        LogQuantity::CommitMean => "the log has no statistics of a database server",
        LogQuantity::ReadMean | LogQuantity::WriteMean | LogQuantity::Mean => {
            "the log has no latencies of a disk with at least 100 such requests"
        }
    };
    let undecided = "this is the device's part alone, to which a filesystem's journal adds; a log never shows that \
                     commits are fast enough, only that they are not";
    Reasons { unknown, undecided }
}

/// What would tell more than this log: requirements that no log shows, then what the vendor names.
fn steps_to_know_more(program: &Program, results: &[RequirementResult], named: Vec<String>) -> Vec<String> {
    let is_decided = |id: &str| results.iter().any(|result| result.id == id && result.met.is_some());
    let open: Vec<&str> =
        program.requirements.iter().filter(|r| !is_decided(&r.id)).map(|r| r.title.as_str()).collect();
    let mut steps = Vec::new();
    if !open.is_empty() {
        let command = format!("diskwright probe for {} TARGET", quote_for_shell(&program.id));
        steps.push(format!("`{command}` on a folder of this storage; this log does not decide: {}", open.join("; ")));
    }
    steps.extend(named);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Latencies of which one in `every` takes `slow_ms`, the others `usual_ms`.
    fn latencies(count: u64, every: u64, usual_ms: u64, slow_ms: u64) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::default();
        (0..count).for_each(|n| histogram.record(if n % every == 0 { slow_ms * MS } else { usual_ms * MS }));
        histogram
    }

    fn is_near(value: Option<f64>, ms: f64) -> bool {
        value.is_some_and(|seconds| (seconds * 1e3 / ms - 1.0).abs() < 0.04)
    }

    #[test]
    fn a_commit_takes_at_least_as_long_as_its_slower_part() {
        let (flushes, writes) = (latencies(4000, 50, 2, 31), latencies(4000, 50, 1, 5));
        let p99 = measure_commits(LogQuantity::CommitP99, [&flushes, &writes].into_iter());
        assert!(is_near(p99.at_least, 31.0) && p99.exact.is_none() && p99.at_most.is_none(), "{p99:?}");
        let longest = measure_commits(LogQuantity::CommitLongest, [&writes].into_iter());
        assert!(is_near(longest.at_least, 5.0) && longest.at_most.is_none(), "{longest:?}");
        // of few requests the median is known
        let few = measure_commits(LogQuantity::CommitP99, [&latencies(30, 50, 1, 5)].into_iter());
        assert!(is_near(few.at_least, 1.0), "{few:?}");
        assert!(measure_commits(LogQuantity::CommitP99, std::iter::empty()).is_unknown());
    }

    #[test]
    fn a_database_s_own_mean_is_read_from_its_statistics() {
        let series = |counter: &str| diskwright_base::Series {
            counter: counter.into(),
            instance: "postgres:shop".into(),
            scale: 1.0,
        };
        let schema = Arc::new(Schema::new(vec![series("database.log_syncs"), series("database.log_sync_time_s")]));
        let column = |id: &str| schema.column(id, "postgres:shop").expect("a column");
        let mut frame = Frame::new(Arc::clone(&schema), 2);
        for (time_ns, syncs, seconds) in [(1_000_000_000, 100.0, 0.4), (2_000_000_000, 300.0, 2.4)] {
            let mut row = [0.0; 2];
            (row[column("database.log_syncs")], row[column("database.log_sync_time_s")]) = (syncs, seconds);
            frame.push(diskwright_base::Tick { time_ns, elapsed_ns: 1_000_000_000 }, &row);
        }
        let mut figures = LogFigures::default();
        figures.add_frame(&frame, &plan_means(&schema));
        // 2.8 s for 400 flushes
        assert_eq!(figures.devices_with(LogQuantity::CommitMean), ["postgres:shop"]);
        assert!(is_near(figures.measure("postgres:shop", LogQuantity::CommitMean).exact, 7.0));
        assert!(figures.devices_with(LogQuantity::ReadMean).is_empty());
    }
}
