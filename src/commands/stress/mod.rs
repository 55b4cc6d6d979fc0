//! `stress CLASS`: load on one part of this machine, at a given share of its maximum; and `stress --verify`, which
//! checks that `why` names each class.

mod machine_check;
mod screen;
mod supervisor;
mod verify;
mod worker;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use diskwright_base::units::parse_duration;
use diskwright_counters::live::thread_priority::{PriorityGuard, ThreadRole};
use diskwright_stress::class::{self, StressClass};
use diskwright_stress::{StressError, cgroup, swap};
use indicatif::ProgressBar;

use super::workload::{stop_flag, sweep_leftovers as sweep_folders, workload_bar};
use super::{Failure, output};
use supervisor::{StressRequest, StressRun, WorkerEvent};

/// Arguments of `stress`.
#[derive(Args)]
pub struct Arguments {
    /// Class of load; `stress list` shows all
    #[arg(conflicts_with = "verify")]
    class: Option<String>,
    /// Share of the measured maximum, in percent; by default 100, or the highest level of the class
    #[arg(long, conflicts_with = "verify", value_name = "PERCENT", value_parser = parse_level)]
    level: Option<u32>,
    /// How long to hold the level, by default 30s; with --verify, how long to watch each class, by default 14s
    #[arg(long = "for", value_parser = parse_duration, value_name = "DURATION")]
    duration: Option<Duration>,
    /// Folder for files, on the disk to be loaded; by default the current one
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// Run each class while watching this machine, and check that the verdict names it
    #[arg(long)]
    verify: bool,
    /// Verify only these classes
    #[arg(long, requires = "verify", value_delimiter = ',', value_name = "CLASS,…")]
    classes: Vec<String>,
    /// Number of runs of each class
    #[arg(long, requires = "verify", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// List the classes: what each loads, what `why` should say, and whether this machine can run it
    #[arg(long, conflicts_with_all = ["class", "verify"])]
    list: bool,
    /// Seed for all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    worker: worker::WorkerArguments,
}

/// Default time for holding a level.
const DEFAULT_HOLD: Duration = Duration::from_secs(30);
/// Default time for watching a class.
const DEFAULT_WATCH: Duration = Duration::from_secs(14);

/// Runs `stress`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.worker.is_worker() {
        return worker::run_worker(arguments);
    }
    if arguments.list || arguments.class.as_deref() == Some("list") {
        return list_classes(arguments);
    }
    if !arguments.dir.is_dir() {
        return Err(Failure::Usage(format!(
            "{}: there is no such folder",
            output::escape_name(arguments.dir.display())
        )));
    }
    if arguments.verify {
        return verify::run(arguments);
    }
    let Some(name) = &arguments.class else {
        return Err(Failure::Usage("a class is missing: `stress list` shows all, `stress --verify` tries all".into()));
    };
    hold_class(arguments, &class::find_class(name).map_err(stress_failure)?)
}

/// Converts an error: a wrong request is wrong usage.
fn stress_failure(error: StressError) -> Failure {
    match error {
        StressError::Usage(text) => Failure::Usage(text),
        other => Failure::Failed(other.to_string()),
    }
}

/// Removes leftovers of killed loads, and names them.
fn sweep_leftovers(arguments: &Arguments) -> Result<(), Failure> {
    for path in swap::remove_leftovers().into_iter().chain(cgroup::CgroupRoots::of_host().remove_leftovers()) {
        output::print_note(format_args!(
            "removed {}, left behind by a killed load",
            output::escape_name(path.display())
        ));
    }
    sweep_folders(&[&arguments.dir])
}

fn list_classes(arguments: &Arguments) -> Result<(), Failure> {
    let classes = class::read_classes()?;
    let rows: Vec<_> =
        classes.iter().map(|class| (class, machine_check::find_obstacle(class, &arguments.dir))).collect();
    if arguments.json {
        output::print_json(&screen::list_json(&rows))
    } else {
        output::print_text(&screen::draw_class_list(&rows))
    }
}

/// Parses `50` or `50%`.
fn parse_level(text: &str) -> Result<u32, std::num::ParseIntError> {
    text.strip_suffix('%').unwrap_or(text).trim().parse()
}

/// Holds one class of load.
fn hold_class(arguments: &Arguments, class: &StressClass) -> Result<(), Failure> {
    let level = arguments.level.unwrap_or(class.max_level);
    let share = class.level_to_share(level).map_err(stress_failure)?;
    sweep_leftovers(arguments)?;
    if let Some(reason) = machine_check::find_obstacle(class, &arguments.dir) {
        return Err(Failure::Usage(format!("this machine cannot run {}: {reason}", class.id)));
    }
    let duration = arguments.duration.unwrap_or(DEFAULT_HOLD);
    let stop = stop_flag()?;
    let request = StressRequest { class, share, duration, dir: &arguments.dir, seed: arguments.seed };
    let mut load = StressRun::start_load(&request)?;
    // raised only after the child was started, so that the child is ordinary; heat, memory and Ctrl-C are noticed in
    // time
    let _first = PriorityGuard::raise_priority(ThreadRole::Pacer);
    load.warn_about_limits();
    let progress = workload_bar("{msg} {wide_bar} {eta}", "measuring the maximum", duration.as_millis() as u64);
    let mut held_since = None;
    let outcome = loop {
        if stop.load(Ordering::Relaxed) {
            load.stop("interrupted");
        }
        match load.next_event(Duration::from_millis(200))? {
            Some(WorkerEvent::Holding(scale)) => {
                held_since = Some(Instant::now());
                progress.set_message(format!("{} at {level} %", class.id));
                load.scale = Some(scale);
            }
            Some(WorkerEvent::Done(outcome)) => break outcome,
            None => advance_bar(&progress, held_since),
        }
    };
    progress.finish_and_clear();
    // a terminal's Ctrl-C reaches the load too, which may have ended before it was asked to
    if stop.load(Ordering::Relaxed) {
        load.stop("interrupted");
    } else if outcome.is_none_or(|outcome| outcome.wall_s < 0.99 * duration.as_secs_f64()) {
        load.stop("something else ended the load");
    }
    let (scale, stopped) = (load.scale, load.stop_reason().map(str::to_owned));
    let has_group = load.has_group();
    load.finish_process()?;
    let held = screen::HeldLoad { class, level, scale, outcome, stop_reason: stopped, has_group };
    if arguments.json {
        output::print_json(&held.to_json())?
    } else {
        output::print_text(&held.draw_load())?
    }
    let swap_files = swap::find_leftovers();
    match &held.stop_reason {
        None if swap_files.is_empty() => Ok(()),
        None => {
            output::print_note(left_behind(&swap_files));
            Ok(())
        }
        // what was reached until then is on the screen
        Some(reason) => Err(Failure::Failed(format!("stopped: {reason}; {}", left_behind(&swap_files)))),
    }
}

/// Describes leftovers of a load that has ended, by its swap files that are still in use.
fn left_behind(swap_files: &[PathBuf]) -> String {
    let Some(path) = swap_files.first() else { return "nothing was left behind".into() };
    format!("{} is still in use as swap space; the next `stress` removes it", output::escape_name(path.display()))
}

fn advance_bar(progress: &ProgressBar, since: Option<Instant>) {
    if let Some(since) = since {
        progress.set_position(since.elapsed().as_millis() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::left_behind;

    #[test]
    fn names_a_swap_file_that_stays() {
        assert_eq!(left_behind(&[]), "nothing was left behind");
        let left = left_behind(&["/data/.diskwright-work-7-0".into()]);
        assert!(left.starts_with("/data/.diskwright-work-7-0 is still in use as swap space"), "{left}");
    }
}
