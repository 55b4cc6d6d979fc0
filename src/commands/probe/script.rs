//! `probe FILE [TARGET]`: runs a script of another tool.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use diskwright_counters::live::{Clock, SystemClock};
use diskwright_hostfiles::bounded_file;
use diskwright_probe::ProbeError;
use diskwright_probe::combined_results::combine_grouped_results;
use diskwright_probe::run::{RunConfig, RunJob, run_jobs};
use diskwright_probe::script::{MAX_SCRIPT_BYTES, Script, ScriptEnvironment, ScriptJob, ScriptOptions, ScriptTarget};
use diskwright_probe::{ProbeTarget, TargetOptions};
use diskwright_results::document::TargetFacts;
use diskwright_results::facts::ScriptFormat;
use diskwright_results::pattern::Pattern;
use diskwright_results::result::RunResult;

use super::{Arguments, DEFAULT_TIMES, describe_result, doubts, finish_result, screen};
use crate::commands::{Failure, ceilings, time_argument};

/// Reads a script, limited to the maximum size of one.
fn read_script(path: &Path) -> io::Result<String> {
    bounded_file::read_text_file(path, MAX_SCRIPT_BYTES as u64)
}

/// Runs the script named by the first argument.
pub fn run(arguments: &Arguments, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    let path = Path::new(&arguments.suite);
    let text = read_script(path).map_err(|e| Failure::Failed(format!("{}: {e}", path.display())))?;
    let environment = ScriptEnvironment { read_file: &read_script, env_variable: &|name| std::env::var(name).ok() };
    let script = Script::parse(path, &text, &environment)?;
    let required_targets = script.required_targets(arguments.target.as_deref());
    check_destroy_names(arguments, &required_targets)?;
    let mut targets = Vec::new();
    for required in &required_targets {
        targets.push((required, open_script_target(arguments, &script, required, stop)?));
    }
    let started = time_argument::rfc3339(SystemClock.read_clocks().wall_ns);
    let mut document = describe_result(arguments, "script", &targets[0].1, started);
    document.buffered = script.jobs().all(|job| job.pattern.buffered) || arguments.buffered;
    document.script = Some(script.facts());
    if targets.len() > 1 {
        let facts =
            |(_, target): &(&ScriptTarget, ProbeTarget)| TargetFacts { name: target.name.clone(), bytes: target.bytes };
        document.targets = targets.iter().map(facts).collect();
    }
    let failed = run_rounds(arguments, &script, &targets, stop, &mut document.runs).err();
    for (_, target) in &targets {
        let target_runs: Vec<RunResult> =
            document.runs.iter().filter(|r| belongs_to_target(r, target, targets.len())).cloned().collect();
        document.remarks.extend(doubts::find_doubts(target, &target_runs));
    }
    // jobs that run in parallel show less than the device can do
    let standalone_runs = || document.runs.iter().filter(|r| r.concurrent_runs.is_empty()).cloned().collect();
    let profile_decision = match &targets[..] {
        _ if script.jobs().any(|job| job.pattern.buffered) => Err("a job uses the page cache"),
        [(_, target)] => Ok((standalone_runs(), ceilings::measurement_context(target))),
        _ => Err("several targets together show no ceiling of a single one"),
    };
    // files that were created are removed before anything else can fail
    drop(targets);
    finish_result(arguments, document, failed, profile_decision, &|document| screen::draw_result(None, document))
}

/// True if a run's failures belong to a target.
fn belongs_to_target(run: &RunResult, target: &ProbeTarget, targets: usize) -> bool {
    run.combines.is_empty() && (targets == 1 || run.target.as_ref() == Some(&target.name))
}

/// Refuses a name after `--destroy-data-on` that is not a target of the script.
fn check_destroy_names(arguments: &Arguments, required_targets: &[ScriptTarget]) -> Result<(), Failure> {
    let is_target = |name: &String| required_targets.iter().any(|w| w.path.display().to_string() == *name);
    match arguments.destroy_data_on.iter().find(|name| !is_target(name)) {
        None => Ok(()),
        Some(name) => {
            let names: Vec<_> = required_targets.iter().map(|w| w.path.display().to_string()).collect();
            let names = names.join(", ");
            Err(Failure::Failed(format!(
                "--destroy-data-on names {name}, but the script's targets are {names}; nothing was written"
            )))
        }
    }
}

fn open_script_target(
    arguments: &Arguments,
    script: &Script,
    required: &ScriptTarget,
    stop: &Arc<AtomicBool>,
) -> Result<ProbeTarget, Failure> {
    let name = required.path.display().to_string();
    let exists = required.path.exists();
    if !exists && required.bytes.is_none() && arguments.size.is_none() && script.format == ScriptFormat::Fio {
        let reason = "does not exist, and the script does not give its size; add `size=` to its jobs, or use --size";
        return Err(Failure::Failed(format!("{name} {reason}")));
    }
    // on existing targets, the script's own sizes limit what is touched
    let whole_mib = |bytes: u64| bytes.next_multiple_of(1 << 20);
    let created_bytes = required.bytes.filter(|bytes| !exists && *bytes > 0 && *bytes < u64::MAX >> 1).map(whole_mib);
    let options = TargetOptions {
        writes: required.writes,
        consent: arguments.consent_for(&name),
        bytes: arguments.size.or(created_bytes),
        keep: arguments.keep,
        buffered: required.buffered || arguments.buffered,
        ..TargetOptions::default()
    };
    super::open_target(&required.path, &options, stop)
}

/// Runs the rounds one after another, as often as requested.
fn run_rounds(
    arguments: &Arguments,
    script: &Script,
    targets: &[(&ScriptTarget, ProbeTarget)],
    stop: &Arc<AtomicBool>,
    runs: &mut Vec<RunResult>,
) -> Result<(), ProbeError> {
    // a job is one thread, as in the script's own tool
    let config = RunConfig { workers: arguments.workers.unwrap_or(1), ..arguments.run_config(stop) };
    for _ in 0..arguments.repeat {
        for (number, jobs) in script.rounds.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                return Err(ProbeError::Interrupted);
            }
            let name = if script.rounds.len() == 1 { "together".into() } else { format!("together-{}", number + 1) };
            runs.extend(run_round(arguments, jobs, &name, targets, &config)?);
        }
    }
    if stop.load(Ordering::Relaxed) { Err(ProbeError::Interrupted) } else { Ok(()) }
}

/// Runs the jobs of a round in parallel.
fn run_round(
    arguments: &Arguments,
    jobs: &[ScriptJob],
    name: &str,
    targets: &[(&ScriptTarget, ProbeTarget)],
    config: &RunConfig,
) -> Result<Vec<RunResult>, ProbeError> {
    let options = ScriptOptions {
        duration: arguments.run_duration,
        ramp: arguments.ramp,
        default_duration: DEFAULT_TIMES.0,
        seed: arguments.seed,
    };
    let target_of = |job: &ScriptJob| {
        let path = job.path(arguments.target.as_deref());
        let index = targets.iter().position(|(required, _)| required.path == path);
        // every path of a job is among the required targets
        &targets[index.unwrap_or_default()].1
    };
    let patterns: Vec<Pattern> = jobs.iter().map(|job| job_pattern(arguments, job, target_of(job), &options)).collect();
    let to_run_job = |(job, pattern)| RunJob { pattern, target: target_of(job), start_delay: job.start_delay };
    let parallel_jobs: Vec<RunJob<'_>> = jobs.iter().zip(&patterns).map(to_run_job).collect();
    let title = if let [job] = jobs { job.name.clone() } else { format!("{} jobs", jobs.len()) };
    let bar = super::suite_session::named_bar(title);
    bar.set_length(1000);
    let outcomes = run_jobs(&parallel_jobs, config, &mut |share, interval| {
        bar.set_position((share * 1000.0) as u64);
        bar.set_message(screen::progress_line(interval));
    });
    bar.finish_and_clear();
    let groups: Vec<_> = jobs.iter().map(|job| job.group.clone()).collect();
    let mut runs = combine_grouped_results(name, &patterns, &groups, &outcomes?);
    if targets.len() > 1 {
        for run in runs.iter_mut().filter(|r| r.combines.is_empty()) {
            let job = jobs.iter().find(|j| j.name == run.name || j.group.as_ref() == Some(&run.name));
            run.target = job.map(|job| target_of(job).name.clone());
        }
    }
    Ok(runs)
}

fn job_pattern(arguments: &Arguments, job: &ScriptJob, target: &ProbeTarget, options: &ScriptOptions) -> Pattern {
    let mut pattern = job.pattern_on_target(target.bytes, options);
    pattern.buffered |= arguments.buffered;
    pattern
}
