//! `probe SUITE TARGET`, `probe SCRIPT [TARGET]`, `probe for PROGRAM TARGET`: measures a disk.

mod doubts;
mod for_program;
mod screen;
mod script;
pub mod sort_suites;
mod steps;
mod suite_session;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use diskwright_base::byte_size::parse_capacity;
use diskwright_base::units::{parse_duration, parse_share_of_whole};
use diskwright_counters::live::sources::topology;
use diskwright_counters::live::{Clock, Roots, SystemClock};
use diskwright_probe::ProbeError;
use diskwright_probe::device::read_device_facts;
use diskwright_probe::guard::Consent;
use diskwright_probe::machine::read_machine;
use diskwright_probe::profile::MeasurementContext;
use diskwright_probe::suites::{SUITES, Suite, Writes, find_suite};
use diskwright_probe::{EngineKind, RunConfig};
use diskwright_probe::{ProbeTarget, TargetOptions};
use diskwright_results::document::{ProbeDocument, SCHEMA};
use diskwright_results::facts::ProfileUpdate;
use diskwright_results::result::RunResult;

use super::ssh::{SshArguments, run_on_host};
use super::{Failure, ceilings, model_distance, name_search, output, output_file, time_argument};

/// Arguments of `probe`.
#[derive(Args)]
pub struct Arguments {
    /// What to measure: a suite (`list suites` describes them; `quick` makes the device's profile), a script
    /// file of fio or Response Probe, or `for` and a program
    #[arg(value_name = "SUITE|SCRIPT")]
    suite: String,
    /// A block device, or a file; a missing file is created, filled and removed at the end. With a
    /// script: the target to use instead of the one it names, or a folder for its files. With `for`: the
    /// program (etcd, kafka, postgres, elasticsearch, redis-aof, vm-host)
    target: Option<PathBuf>,
    /// With `for PROGRAM`: the folder, file or block device that is to be good enough; with --from, a device in
    /// the log
    #[arg(value_name = "PLACE")]
    place: Option<PathBuf>,
    /// With `for PROGRAM`: do not measure, judge by this log (`record --trace`, or any log where means are enough)
    #[arg(long, value_name = "LOG")]
    from: Vec<PathBuf>,
    /// With `for PROGRAM`: exit code 1 if the answer is no
    #[arg(long)]
    fail: bool,
    /// Duration of each run; by default that of the script, else 3s. For the suite `stability`:
    /// total duration, by default 5m
    #[arg(long = "for", value_parser = parse_duration, value_name = "DURATION")]
    run_duration: Option<Duration>,
    /// Warm-up time of each run; by default that of the script, else 500ms
    #[arg(long, value_parser = parse_ramp, value_name = "DURATION")]
    ramp: Option<Duration>,
    /// Repeat every run this many times, for `compare`
    #[arg(long, default_value_t = 1, value_name = "TIMES", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Size of the file to create; of an existing target, use only this much
    #[arg(long, value_parser = parse_capacity, value_name = "SIZE")]
    size: Option<u64>,
    /// Keep the file that was created
    #[arg(long)]
    keep: bool,
    /// Seed for all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Go through the page cache, to measure memory on purpose
    #[arg(long)]
    buffered: bool,
    /// Read a device even if it is in use
    #[arg(long)]
    live: bool,
    /// With --live: stop everything if a response takes longer than this
    #[arg(long, default_value = DEFAULT_RESPONSE_LIMIT, value_parser = parse_duration, value_name = "DURATION")]
    brake: Duration,
    /// Write to this device or file and destroy its data. Type its name exactly as in TARGET; for a script with
    /// several targets, once for each
    #[arg(long, value_name = "NAME")]
    destroy_data_on: Vec<String>,
    /// How to submit requests
    #[arg(long, value_enum, default_value = "best")]
    engine: EngineName,
    /// Maximum number of threads; by default one per processor
    #[arg(long = "lanes", value_name = "THREADS", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    /// Suite `load`: the longest acceptable response time
    #[arg(long, default_value = DEFAULT_RESPONSE_LIMIT, value_parser = parse_duration, value_name = "DURATION")]
    limit: Duration,
    /// Suite `load`: apply the limit to this percentile (99%) instead of the mean
    #[arg(long, value_name = "SHARE", value_parser = parse_share_of_whole)]
    limit_share: Option<f64>,
    /// Suite `stripes`: the members of the array, if the kernel does not show them; suite `sort-places`: the other
    /// places
    #[arg(long, value_delimiter = ',', value_name = "DEVICE,…")]
    members: Vec<PathBuf>,
    /// For each run, print how long it would take to move this many bytes
    #[arg(long, alias = "moving", value_parser = parse_capacity, value_name = "SIZE")]
    time_to_move: Option<u64>,
    /// Write the result to this JSON file, for `compare` and `report`
    #[arg(short, long, value_name = "FILE.json")]
    output: Option<PathBuf>,
    /// Save the result as the device's profile, by which `why` judges; the suite `quick` does so by default
    #[arg(long, conflicts_with = "no_save")]
    save: bool,
    /// Compare with this drive of the catalogue (`list drives`); by default with that of the device's model
    #[arg(long, value_name = "DRIVE")]
    drive: Option<String>,
    /// Do not save the result as the device's profile
    #[arg(long, alias = "forget")]
    no_save: bool,
    /// Save the result and replace the device's profile with it
    #[arg(long, alias = "anew", conflicts_with = "no_save")]
    replace_profile: bool,
    #[command(flatten)]
    ssh: SshArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineName {
    /// io_uring if the kernel has it, else threads
    Best,
    /// One thread per request
    Threads,
}

/// Parses a duration, or 0 for none.
fn parse_ramp(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { parse_duration(text).map_err(|e| e.to_string()) }
}

/// Default of --limit and --brake: longest response time.
const DEFAULT_RESPONSE_LIMIT: &str = "100ms";

/// The suite whose result is saved as the device's profile by default.
const PROFILE_SUITE: &str = "quick";

/// Default duration of a run and of its warm-up.
const DEFAULT_TIMES: (Duration, Duration) = (Duration::from_secs(3), Duration::from_millis(500));

impl Arguments {
    /// Returns the user's consent for a target with this name.
    fn consent_for(&self, name: &str) -> Consent {
        let allowed = self.destroy_data_on.iter().find(|allowed| *allowed == name);
        // a name that matches no target is passed on, so that the refusal can quote it
        Consent { live: self.live, destroy: allowed.or(self.destroy_data_on.first()).cloned() }
    }

    fn run_config(&self, stop: &Arc<AtomicBool>) -> RunConfig {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        RunConfig {
            engine: if self.engine == EngineName::Threads { EngineKind::Threads } else { EngineKind::Best },
            workers: self.workers.unwrap_or(processors),
            brake: self.live.then_some(self.brake),
            stop: Arc::clone(stop),
        }
    }
}

/// Refuses options that the suite or script does not use.
fn refuse_unused(arguments: &Arguments) -> Result<(), Failure> {
    let is_given = |limit: Duration| parse_duration(DEFAULT_RESPONSE_LIMIT).ok() != Some(limit);
    // `sort-memory` refuses --members itself, with its own message
    let (suite, with_members) = (arguments.suite.as_str(), ["stripes", "sort-memory", "sort-places"]);
    let unused = [
        ("--limit", suite != "load" && is_given(arguments.limit), "the suite `load`"),
        ("--limit-share", suite != "load" && arguments.limit_share.is_some(), "the suite `load`"),
        ("--members", !with_members.contains(&suite) && !arguments.members.is_empty(), "`stripes` and `sort-places`"),
        ("--drive", find_suite(suite).is_none() && arguments.drive.is_some(), "suites of requests"),
        ("--brake", !arguments.live && is_given(arguments.brake), "--live"),
        ("--from", suite != for_program::WORD && !arguments.from.is_empty(), "`for PROGRAM`"),
        ("--fail", suite != for_program::WORD && arguments.fail, "`for PROGRAM`"),
        ("a third name", suite != for_program::WORD && arguments.place.is_some(), "`for PROGRAM`"),
    ];
    match unused.into_iter().find(|(_, is_unused, _)| *is_unused) {
        Some((option, _, used_by)) => Err(Failure::Usage(format!("{option} goes with {used_by} alone"))),
        None => Ok(()),
    }
}

/// Runs `probe`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.ssh.is_given()? {
        return run_on_host(&arguments.ssh, "probe");
    }
    refuse_unused(arguments)?;
    arguments.drive.as_deref().map_or(Ok(()), model_distance::check_model)?;
    if arguments.suite == for_program::WORD {
        return for_program::run(arguments);
    }
    if let Some(sort) = sort_suites::find_sort_suite(&arguments.suite) {
        return sort_suites::run_sort_suite(sort, arguments);
    }
    arguments.output.as_deref().map_or(Ok(()), output_file::check_writable)?;
    worker::run_in_worker(|stop| probe_suite(arguments, stop))
}

fn probe_suite(arguments: &Arguments, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    let Some(suite) = find_suite(&arguments.suite) else {
        if Path::new(&arguments.suite).is_file() {
            return script::run(arguments, stop);
        }
        let known: Vec<_> = SUITES.iter().map(|s| s.id).chain(sort_suites::SORT_SUITES.iter().map(|s| s.id)).collect();
        let suggestion = name_search::suggestion_hint(&arguments.suite, known.iter().copied());
        let name = &arguments.suite;
        let message = format!("unknown suite or script file `{name}`{suggestion}; suites: {}", known.join(", "));
        return Err(Failure::Usage(message));
    };
    let Some(path) = &arguments.target else {
        return Err(Failure::Usage(format!("`{}` needs a TARGET: a block device, or a file", suite.id)));
    };
    let target = open_suite_target(arguments, suite, path, stop)?;
    let started = time_argument::rfc3339(SystemClock.read_clocks().wall_ns);
    let mut document = describe_result(arguments, suite.id, &target, started);
    document.buffered |= suite.is_buffered();
    let members =
        suite_session::open_members(arguments, suite, &topology::read_topology(&Roots::default()), &document.device)?;
    let (runs, suite_remarks, failure) = suite_session::measure_suite(arguments, suite, &target, &members, stop);
    document.remarks.extend(doubts::find_doubts(&target, &runs));
    document.remarks.extend(suite_remarks);
    document.runs = runs;
    document.remarks.extend(model_distance::compare_probed(&document, arguments.drive.as_deref())?);
    let profile_decision = Ok((document.runs.clone(), ceilings::measurement_context(&target)));
    // a file that was created is removed before anything else can fail
    drop(target);
    let draw = |document: &ProbeDocument| screen::draw_result(Some(suite), document);
    finish_result(arguments, document, failure, profile_decision, &draw)
}

/// Returns a result without runs, which describes the circumstances.
fn describe_result(arguments: &Arguments, suite: &str, target: &ProbeTarget, started: String) -> ProbeDocument {
    let topology = topology::read_topology(&Roots::default());
    let device = read_device_facts(&Roots::default(), &topology, target.kernel_place());
    let machine = read_machine(&Roots::default(), &device.name, topology.memory_bytes);
    ProbeDocument {
        schema: SCHEMA.into(),
        suite: suite.into(),
        target: target.name.clone(),
        target_bytes: target.bytes,
        remarks: doubts::find_compression(&device).into_iter().collect(),
        device,
        machine,
        seed: arguments.seed,
        started,
        version: env!("CARGO_PKG_VERSION").into(),
        // a name that is not UTF-8 must not end the program
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        buffered: arguments.buffered,
        complete: true,
        incomplete_reason: None,
        moving_bytes: arguments.time_to_move,
        script: None,
        targets: Vec::new(),
        runs: Vec::new(),
        program: None,
        requirements: Vec::new(),
        profile: ProfileUpdate::default(),
    }
}

/// What to save in the device's profile: the runs that show its ceilings, and their circumstances; or why nothing is
/// saved.
type ProfileDecision = Result<(Vec<RunResult>, MeasurementContext), &'static str>;

/// Saves and prints a result; `draw` formats it as text.
fn finish_result(
    arguments: &Arguments,
    mut document: ProbeDocument,
    mut failure: Option<ProbeError>,
    profile_decision: ProfileDecision,
    draw: &dyn Fn(&ProbeDocument) -> String,
) -> Result<(), Failure> {
    if let Some(error) = failure.take_if(|_| document.runs.is_empty()) {
        return Err(error.into());
    }
    document.complete = failure.is_none();
    document.incomplete_reason = failure.as_ref().map(ToString::to_string);
    for run in &mut document.runs {
        run.moving_s = arguments.time_to_move.and_then(|bytes| run.moving_s(bytes as f64));
    }
    document.profile = match profile_decision {
        Ok((runs, context)) => save_profile(arguments, &document, &runs, context),
        Err(reason) => ProfileUpdate { file: None, remarks: vec![reason.into()] },
    };
    write_result_file(arguments, &document)?;
    if output_file::is_any_stdout(&arguments.output) {
        // the JSON document has been written to standard output
    } else if arguments.json {
        output::print_json(&steps::ResultWithSteps::new(&document, arguments))?
    } else {
        let next = steps::draw_steps_after(&document, arguments, &output::wide_table_style());
        output::print_text(&(draw(&document) + &next))?
    }
    failure.map_or(Ok(()), |error| Err(error.into()))
}

/// Writes the result file.
pub fn write_result_file(arguments: &Arguments, document: &ProbeDocument) -> Result<(), Failure> {
    if let Some(path) = &arguments.output {
        let result = steps::ResultWithSteps::new(document, arguments);
        output_file::write_file(path, output::format_json_document(&result)?.as_bytes())?;
    }
    Ok(())
}

/// Saves the device's profile, unless that was refused.
fn save_profile(
    arguments: &Arguments,
    document: &ProbeDocument,
    runs: &[RunResult],
    context: MeasurementContext,
) -> ProfileUpdate {
    if arguments.no_save {
        return ProfileUpdate { file: None, remarks: vec!["--no-save".into()] };
    }
    if document.suite != PROFILE_SUITE && !arguments.save && !arguments.replace_profile {
        let reason = "only the suite `quick` is saved by default; use --save for this one";
        return ProfileUpdate { file: None, remarks: vec![reason.into()] };
    }
    let context = MeasurementContext {
        measured: document.started.clone(),
        suite: document.suite.clone(),
        seed: document.seed,
        live: arguments.live,
        is_io_limited: !document.machine.io_limits.is_empty(),
        buffered: document.buffered,
        complete: document.complete,
        ..context
    };
    // series of single requests are left out, because a cache may answer them; `ceilings` leaves out runs on other
    // devices
    let saved_runs = runs.iter().filter(|r| r.place != "series");
    ceilings::save_profile(
        &document.device,
        &saved_runs.cloned().collect::<Vec<_>>(),
        &context,
        arguments.replace_profile,
    )
}

/// Opens a suite's target.
fn open_suite_target(
    arguments: &Arguments,
    suite: &Suite,
    path: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<ProbeTarget, Failure> {
    let may_write = !path.exists() || !arguments.destroy_data_on.is_empty();
    let writes = match suite.writes {
        Writes::Never => false,
        Writes::IfAllowed => may_write,
        Writes::Always => true,
    };
    let consent = arguments.consent_for(&path.display().to_string());
    let buffered = arguments.buffered || suite.is_buffered();
    let (bytes, keep) = (arguments.size, arguments.keep);
    let options = TargetOptions { writes, consent, bytes, keep, buffered, ..TargetOptions::default() };
    open_target(path, &options, stop)
}

/// Opens a target; shows the progress of a file that is created.
fn open_target(path: &Path, options: &TargetOptions, stop: &Arc<AtomicBool>) -> Result<ProbeTarget, Failure> {
    let bar = suite_session::named_bar(format!("filling {}", path.display()));
    let target = ProbeTarget::open_or_create(path, options, &mut |written_bytes, total_bytes| {
        bar.set_length(total_bytes);
        bar.set_position(written_bytes);
        !stop.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    Ok(target?)
}
