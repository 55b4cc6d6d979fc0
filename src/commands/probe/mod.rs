//! `probe SUITE TARGET`, `probe SCRIPT [TARGET]`: measures a disk.

mod doubts;
mod print;
mod script;
mod session;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use diskwright_base::units::{parse_duration, parse_size};
use diskwright_counters::live::sources::topology;
use diskwright_counters::live::{Clock, Roots, SystemClock};
use diskwright_probe::device::facts;
use diskwright_probe::document::{Document, SCHEMA};
use diskwright_probe::error::ProbeError;
use diskwright_probe::guard::Said;
use diskwright_probe::machine::machine;
use diskwright_probe::profile::{Kept, Occasion};
use diskwright_probe::result::RunResult;
use diskwright_probe::run::{Kind, Making};
use diskwright_probe::suites::{SUITES, Suite, Writes, suite};
use diskwright_probe::target::{Take, Target};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::{Failure, ceilings, output, when};

/// Arguments of `probe`.
#[derive(Args)]
pub struct Arguments {
    /// What to measure: `list suites` says what each shows, `quick` is the device's profile; or a script's
    /// file, of fio or of Response Probe
    #[arg(value_name = "SUITE|SCRIPT")]
    suite: String,
    /// A block device, or a file; one that is not there is made, filled and removed. With a script: instead
    /// of what it names, a folder for its files
    target: Option<PathBuf>,
    /// Time of each run, 3s where no script says another; suite `stability`: of all of it, 5m
    #[arg(long = "for", value_parser = parse_duration, value_name = "DURATION")]
    lasts: Option<Duration>,
    /// Time before measuring, of each run, 500ms where no script says another
    #[arg(long, value_parser = ramp, value_name = "DURATION")]
    ramp: Option<Duration>,
    /// Make every run so often, for `compare`
    #[arg(long, default_value_t = 1, value_name = "TIMES", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Size of a file that is made; of what is there, touch only so much
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    size: Option<u64>,
    /// Leave the file that was made
    #[arg(long)]
    keep: bool,
    /// Seed of everything that is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Through the page cache, to measure memory on purpose
    #[arg(long)]
    buffered: bool,
    /// Read a device although it is in use
    #[arg(long)]
    live: bool,
    /// With --live: an answer slower than this ends everything
    #[arg(long, default_value = "100ms", value_parser = parse_duration, value_name = "DURATION")]
    brake: Duration,
    /// Write to this device or file, and lose what it holds: type its name as TARGET has it; with a script
    /// of several, once for each
    #[arg(long, value_name = "NAME")]
    destroy_data_on: Vec<String>,
    /// How requests are made
    #[arg(long, value_enum, default_value = "best")]
    engine: EngineName,
    /// Threads at most; one a processor otherwise
    #[arg(long, value_name = "THREADS", value_parser = clap::value_parser!(u32).range(1..=1024))]
    lanes: Option<u32>,
    /// Suite `load`: the longest response that is borne
    #[arg(long, default_value = "100ms", value_parser = parse_duration, value_name = "DURATION")]
    limit: Duration,
    /// Suite `load`: the limit is for this percentile (0.99), not for the mean
    #[arg(long, value_name = "SHARE")]
    limit_share: Option<f64>,
    /// Suite `stripes`: the members of the set, where the kernel does not show them
    #[arg(long, value_delimiter = ',', value_name = "DEVICE,…")]
    members: Vec<PathBuf>,
    /// Tell of each run how long moving so many bytes would take
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    moving: Option<u64>,
    /// Keep the result as JSON: for `compare`, and for `report`, which draws it
    #[arg(short, long, value_name = "FILE.json")]
    output: Option<PathBuf>,
    /// Do not remember what was measured as the device's profile
    #[arg(long)]
    forget: bool,
    /// Forget what was remembered of the device before: this run's figures replace its profile
    #[arg(long, conflicts_with = "forget")]
    anew: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineName {
    /// io_uring where the kernel has it, threads otherwise
    Best,
    /// One thread a request
    Threads,
}

/// A duration, or 0 for none.
fn ramp(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { parse_duration(text).map_err(|e| e.to_string()) }
}

/// Usual time of a run, and before measuring.
const USUAL: (Duration, Duration) = (Duration::from_secs(3), Duration::from_millis(500));

impl Arguments {
    /// What the user said about a target of this name.
    fn said(&self, name: &str) -> Said {
        let typed = self.destroy_data_on.iter().find(|typed| *typed == name).or(self.destroy_data_on.first());
        Said { live: self.live, destroy: typed.cloned() }
    }

    fn making(&self, stop: &Arc<AtomicBool>) -> Making {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        Making {
            engine: if self.engine == EngineName::Threads { Kind::Threads } else { Kind::Best },
            lanes: self.lanes.unwrap_or(processors),
            brake: self.live.then_some(self.brake),
            stop: Arc::clone(stop),
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // the first ends the run and keeps what there is, the second ends everything
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let Some(suite) = suite(&arguments.suite) else {
        if Path::new(&arguments.suite).is_file() {
            return script::run(arguments, &stop);
        }
        let known: Vec<_> = SUITES.iter().map(|s| s.id).collect();
        let because =
            format!("no suite and no script's file is called `{}`; suites: {}", arguments.suite, known.join(", "));
        return Err(Failure::Usage(because));
    };
    let Some(path) = &arguments.target else {
        return Err(Failure::Usage(format!("`{}` needs a TARGET: a block device, or a file", suite.id)));
    };
    let target = take(arguments, suite, path, &stop)?;
    let started = when::rfc3339(SystemClock.read().wall_ns);
    let mut document = describe(arguments, suite.id, &target, started);
    document.buffered |= suite.is_buffered();
    let members = session::take_members(arguments, suite, &topology::read(&Roots::default()), &document.device)?;
    let (runs, found, failed) = session::measure(arguments, suite, &target, &members, &stop);
    document.remarks = doubts::doubts(&target, &runs);
    document.remarks.extend(found);
    document.runs = runs;
    let remembered = Ok((document.runs.clone(), ceilings::occasion(&target)));
    // a file that was made goes away before anything else can fail
    drop(target);
    let say = |document: &Document| print::text(Some(suite), document);
    finish(arguments, document, failed, remembered, &say)
}

/// A result without runs: the circumstances.
fn describe(arguments: &Arguments, suite: &str, target: &Target, started: String) -> Document {
    let topology = topology::read(&Roots::default());
    let device = facts(&Roots::default(), &topology, target.place());
    let machine = machine(&Roots::default(), &device.name, topology.memory_bytes);
    Document {
        schema: SCHEMA.into(),
        suite: suite.into(),
        target: target.name.clone(),
        target_bytes: target.bytes,
        device,
        machine,
        seed: arguments.seed,
        started,
        version: env!("CARGO_PKG_VERSION").into(),
        // a name that is no UTF-8 must not end the program
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        buffered: arguments.buffered,
        complete: true,
        because: None,
        moving_bytes: arguments.moving,
        script: None,
        targets: Vec::new(),
        runs: Vec::new(),
        remarks: Vec::new(),
        profile: Kept::default(),
    }
}

/// Whether and how a result is remembered as the device's profile: the runs
/// that tell its ceilings and the occasion, or why not.
type Remembered = Result<(Vec<RunResult>, Occasion), &'static str>;

/// Keeps and prints a result in the words of `say`.
fn finish(
    arguments: &Arguments,
    mut document: Document,
    mut failed: Option<ProbeError>,
    remembered: Remembered,
    say: &dyn Fn(&Document) -> String,
) -> Result<(), Failure> {
    if let Some(error) = failed.take_if(|_| document.runs.is_empty()) {
        return Err(error.into());
    }
    document.complete = failed.is_none();
    document.because = failed.as_ref().map(ToString::to_string);
    for run in &mut document.runs {
        run.moving_s = arguments.moving.and_then(|bytes| run.moving_s(bytes as f64));
    }
    document.profile = match remembered {
        Ok((runs, occasion)) => remember(arguments, &document, &runs, occasion),
        Err(because) => Kept { file: None, because: vec![because.into()] },
    };
    keep(arguments, &document)?;
    if arguments.json {
        output::json(&document)?
    } else {
        output::text(&say(&document))?
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// Keeps the result file.
fn keep(arguments: &Arguments, document: &Document) -> Result<(), Failure> {
    if let Some(path) = &arguments.output {
        let text = serde_json::to_string_pretty(document)?;
        std::fs::write(path, text + "\n").map_err(|e| Failure::Failed(format!("{}: {e}", path.display())))?;
    }
    Ok(())
}

/// Keeps the device's profile, unless it was asked not to.
fn remember(arguments: &Arguments, document: &Document, runs: &[RunResult], occasion: Occasion) -> Kept {
    if arguments.forget {
        return Kept { file: None, because: vec!["--forget".into()] };
    }
    let occasion = Occasion {
        measured: document.started.clone(),
        suite: document.suite.clone(),
        seed: document.seed,
        live: arguments.live,
        limited: !document.machine.io_limits.is_empty(),
        buffered: document.buffered,
        complete: document.complete,
        ..occasion
    };
    // single requests may be a cache's answers, and members are other devices
    let members = |r: &RunResult| r.target.is_some() || r.combines.iter().any(|c| c.ends_with("-beside"));
    let own = runs.iter().filter(|r| r.place != "series" && !members(r));
    ceilings::keep(&document.device, &own.cloned().collect::<Vec<_>>(), &occasion, arguments.anew)
}

/// Takes a suite's target.
fn take(arguments: &Arguments, suite: &Suite, path: &Path, stop: &Arc<AtomicBool>) -> Result<Target, Failure> {
    let allowed = !path.exists() || !arguments.destroy_data_on.is_empty();
    let writes = match suite.writes {
        Writes::Never => false,
        Writes::IfAllowed => allowed,
        Writes::Always => true,
    };
    let said = arguments.said(&path.display().to_string());
    let buffered = arguments.buffered || suite.is_buffered();
    let take = Take { writes, said, bytes: arguments.size, keep: arguments.keep, buffered };
    filled(path, &take, stop)
}

/// Takes a target; a file that is made shows its progress.
fn filled(path: &Path, take: &Take, stop: &Arc<AtomicBool>) -> Result<Target, Failure> {
    let bar = session::bar(format!("filling {}", path.display()));
    let target = Target::take(path, take, &mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
        !stop.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    Ok(target?)
}
