//! `probe SUITE TARGET`: measures a disk.

mod doubts;
mod print;
mod session;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use diskwright_base::units::{parse_duration, parse_size};
use diskwright_counters::live::sources::topology;
use diskwright_counters::live::{Clock, Roots, SystemClock};
use diskwright_probe::device::facts;
use diskwright_probe::document::{Document, SCHEMA};
use diskwright_probe::guard::Said;
use diskwright_probe::machine::machine;
use diskwright_probe::profile::{Kept, Occasion};
use diskwright_probe::result::RunResult;
use diskwright_probe::suites::{SUITES, Suite, Writes, suite};
use diskwright_probe::target::{Take, Target};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::{Failure, ceilings, output, when};

/// Arguments of `probe`.
#[derive(Args)]
pub struct Arguments {
    /// What to measure: `list suites` says what each shows; `quick` is the device's profile
    suite: String,
    /// A block device, or a file; one that is not there is made, filled and removed
    target: PathBuf,
    /// Time of each run, 3s where nobody says; suite `stability`: of all of it, 5m
    #[arg(long = "for", value_parser = parse_duration, value_name = "DURATION")]
    lasts: Option<Duration>,
    /// Time before measuring, of each run
    #[arg(long, default_value = "500ms", value_parser = ramp, value_name = "DURATION")]
    ramp: Duration,
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
    /// Write to this device or file, and lose what it holds: type its name as TARGET has it
    #[arg(long, value_name = "NAME")]
    destroy_data_on: Option<String>,
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

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let suite = suite(&arguments.suite).ok_or_else(|| {
        let known: Vec<_> = SUITES.iter().map(|s| s.id).collect();
        Failure::Usage(format!("no suite is called `{}`; suites: {}", arguments.suite, known.join(", ")))
    })?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // the first ends the run and keeps what there is, the second ends everything
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let target = take(arguments, suite, &stop)?;
    let started = when::rfc3339(SystemClock.read().wall_ns);
    let topology = topology::read(&Roots::default());
    let device = facts(&Roots::default(), &topology, target.device, !target.is_device);
    let machine = machine(&Roots::default(), &device.name, topology.memory_bytes);
    let members = session::take_members(arguments, suite, &topology, &device)?;
    let (mut runs, found, mut failed) = session::measure(arguments, suite, &target, &members, &stop);
    let mut remarks = doubts::doubts(&target, &runs);
    remarks.extend(found);
    if let Some(error) = failed.take_if(|_| runs.is_empty()) {
        return Err(error.into());
    }
    for run in &mut runs {
        run.moving_s = arguments.moving.and_then(|bytes| run.moving_s(bytes as f64));
    }
    let mut document = Document {
        schema: SCHEMA.into(),
        suite: suite.id.into(),
        target: target.name.clone(),
        target_bytes: target.bytes,
        device,
        machine,
        seed: arguments.seed,
        started,
        version: env!("CARGO_PKG_VERSION").into(),
        // a name that is no UTF-8 must not end the program
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        buffered: arguments.buffered || suite.is_buffered(),
        complete: failed.is_none(),
        because: failed.as_ref().map(ToString::to_string),
        moving_bytes: arguments.moving,
        runs,
        remarks,
        profile: Kept::default(),
    };
    let occasion = ceilings::occasion(&target);
    // a file that was made goes away before anything else can fail
    drop(target);
    document.profile = remember(arguments, &document, occasion);
    keep(arguments, &document)?;
    if arguments.json {
        output::json(&document)?
    } else {
        output::text(&print::text(suite, &document))?
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
fn remember(arguments: &Arguments, document: &Document, occasion: Occasion) -> Kept {
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
    let own = document.runs.iter().filter(|r| r.place != "series" && !members(r));
    ceilings::keep(&document.device, &own.cloned().collect::<Vec<_>>(), &occasion, arguments.anew)
}

/// Takes the target; a file that is made shows its progress.
fn take(arguments: &Arguments, suite: &Suite, stop: &Arc<AtomicBool>) -> Result<Target, Failure> {
    let new = !arguments.target.exists();
    let allowed = new || arguments.destroy_data_on.is_some();
    let writes = match suite.writes {
        Writes::Never => false,
        Writes::IfAllowed => allowed,
        Writes::Always => true,
    };
    let said = Said { live: arguments.live, destroy: arguments.destroy_data_on.clone() };
    let buffered = arguments.buffered || suite.is_buffered();
    let take = Take { writes, said, bytes: arguments.size, keep: arguments.keep, buffered };
    let bar = session::bar(format!("filling {}", arguments.target.display()));
    let target = Target::take(&arguments.target, &take, &mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
        !stop.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    Ok(target?)
}
