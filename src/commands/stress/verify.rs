//! `stress --verify`: runs each class while this machine is watched, and checks that the verdict names it. This is the
//! acceptance test of a machine, and of this program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use diskwright_base::Frame;
use diskwright_counters::live::SamplerOptions;
use diskwright_counters::live::thread_priority::{PriorityGuard, ThreadRole};
use diskwright_diagnosis::{Judge, JudgeOptions, Verdict, packs};
use diskwright_stress::class::{self, StressClass};
use diskwright_stress::run::{LoadMaximum, LoadOutcome};
use diskwright_stress::swap;
use serde_json::json;

use super::machine_check::ProcessorUse;
use super::supervisor::{StressRequest, StressRun, WorkerEvent};
use super::{Arguments, DEFAULT_WATCH, left_behind, machine_check, screen, stress_failure, sweep_leftovers};
use crate::commands::live_sampler::live_sampler;
use crate::commands::pacer::{self, Pacer, sleep_interruptibly};
use crate::commands::workload::stop_flag;
use crate::commands::{Failure, ceilings, output};

/// Time that a load is held before it is watched.
const SETTLING_TIME: Duration = Duration::from_millis(1500);
/// Maximum delay of the end of a load after it was watched, on a fully loaded machine.
const MAX_END_DELAY: Duration = Duration::from_secs(60);
const SAMPLING_INTERVAL: Duration = Duration::from_secs(1);
/// Utilization from which processors count as saturated, by the kernel's own accounting and not by the verdict.
const FULL_UTILIZATION: f64 = 0.9;

/// Result of one trial.
pub enum TrialResult {
    /// The load was watched, and judged.
    Judged(Box<JudgedLoad>),
    /// This machine cannot run the class.
    Skipped(String),
    /// The load ended too early.
    Failed(String),
}

/// A load, and the verdict on it.
pub struct JudgedLoad {
    pub scale: LoadMaximum,
    pub outcome: LoadOutcome,
    pub verdict: Verdict,
    /// Share of the processors in use while it was watched.
    pub busy: Option<f64>,
    /// What is wrong with the verdict, if anything.
    pub wrong: Option<String>,
}

/// One trial of a class.
pub struct StressTrial {
    pub class: StressClass,
    pub run: u32,
    /// Share of the processors that others used just before.
    pub others: Option<f64>,
    pub result: TrialResult,
}

/// Runs `stress --verify`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let duration = arguments.duration.unwrap_or(DEFAULT_WATCH);
    if duration < SAMPLING_INTERVAL * 8 {
        return Err(Failure::Usage("--for must be at least 8 s with --verify: rules need several seconds".into()));
    }
    let classes = choose_classes(arguments)?;
    sweep_leftovers(arguments)?;
    let stop = stop_flag()?;
    let bar = pacer::watch_progress_bar(None, "checking the classes".into());
    let mut trials = Vec::new();
    'all: for run in 1..=arguments.runs {
        for class in &classes {
            bar.set_message(format!("{}, run {run} of {}", class.id, arguments.runs));
            let trial = try_class(arguments, class, run, duration, &stop);
            if stop.load(Ordering::Relaxed) {
                break 'all;
            }
            trials.push(trial?);
        }
    }
    bar.finish_and_clear();
    if arguments.json {
        output::print_json(&verification_document(&trials, duration))?
    } else {
        output::print_text(&screen::draw_trials(&trials))?
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::Failed(format!("interrupted; {}", left_behind(&swap::find_leftovers()))));
    }
    if trials.iter().any(StressTrial::is_bad) { Err(Failure::AlreadyReported(1)) } else { Ok(()) }
}

fn choose_classes(arguments: &Arguments) -> Result<Vec<StressClass>, Failure> {
    if arguments.classes.is_empty() {
        return Ok(class::read_classes()?);
    }
    arguments.classes.iter().map(|name| class::find_class(name).map_err(stress_failure)).collect()
}

impl StressTrial {
    fn is_bad(&self) -> bool {
        match &self.result {
            TrialResult::Judged(judged) => judged.wrong.is_some(),
            TrialResult::Skipped(_) => false,
            TrialResult::Failed(_) => true,
        }
    }
}

fn try_class(
    arguments: &Arguments,
    class: &StressClass,
    run: u32,
    duration: Duration,
    stop: &AtomicBool,
) -> Result<StressTrial, Failure> {
    let trial = |others, result| Ok(StressTrial { class: class.clone(), run, others, result });
    if let Some(reason) = machine_check::find_obstacle(class, &arguments.dir) {
        return trial(None, TrialResult::Skipped(reason));
    }
    let before = ProcessorUse::start_reading();
    sleep_interruptibly(Duration::from_millis(500));
    let others = before.busy_share();
    let share = class.level_to_share(class.test_level).map_err(stress_failure)?;
    let max_time = SETTLING_TIME + duration + MAX_END_DELAY;
    let request = StressRequest { class, share, duration: max_time, dir: &arguments.dir, seed: arguments.seed };
    match watch_load(&request, duration, stop) {
        Ok(judged) => trial(others, TrialResult::Judged(Box::new(judged))),
        Err(failure) => trial(others, TrialResult::Failed(failure.to_string())),
    }
}

fn watch_load(request: &StressRequest<'_>, duration: Duration, stop: &AtomicBool) -> Result<JudgedLoad, Failure> {
    let mut load = StressRun::start_load(request)?;
    // raised only after the child was started, so that the child is ordinary
    let _first = PriorityGuard::raise_priority(ThreadRole::Pacer);
    let scale = match await_event(&mut load, stop)? {
        WorkerEvent::Holding(scale) => scale,
        WorkerEvent::Done(_) => return Err(early_end_failure(&load)),
    };
    sleep_interruptibly(SETTLING_TIME);
    let processors = ProcessorUse::start_reading();
    let verdict = judge_load(&mut load, duration)?;
    let busy = processors.busy_share();
    load.let_end();
    let outcome = loop {
        if let WorkerEvent::Done(outcome) = await_event(&mut load, stop)? {
            break outcome;
        }
    };
    let Some(outcome) = outcome.filter(|_| load.stop_reason().is_none()) else { return Err(early_end_failure(&load)) };
    load.finish_process()?;
    let wrong = find_mismatch(request.class, &verdict, busy);
    Ok(JudgedLoad { scale, outcome, verdict, busy, wrong })
}

fn await_event(load: &mut StressRun, stop: &AtomicBool) -> Result<WorkerEvent, Failure> {
    loop {
        if stop.load(Ordering::Relaxed) {
            load.stop("interrupted");
        }
        if let Some(event) = load.next_event(Duration::from_millis(200))? {
            return Ok(event);
        }
    }
}

fn early_end_failure(load: &StressRun) -> Failure {
    Failure::Failed(load.stop_reason().map_or("the load ended early".into(), |reason| format!("stopped: {reason}")))
}

/// Watches this machine as `why` does, while the load runs.
fn judge_load(load: &mut StressRun, duration: Duration) -> Result<Verdict, Failure> {
    let options =
        SamplerOptions { slow_interval: Duration::from_secs(2), raises_priority: true, ..SamplerOptions::default() };
    let mut sampler = live_sampler(options);
    let mut pacer = Pacer::new(SAMPLING_INTERVAL, Some(duration))?;
    pacer.sample_first_tick(&mut sampler);
    let start = sampler.tick_stamp().time_ns;
    let expected = Some((start, start + i64::try_from(duration.as_nanos()).unwrap_or(0)));
    let packs = packs::builtin_pack("default").transpose()?.into_iter().collect();
    let ceilings = ceilings::known_ceilings().to_vec();
    let mut judge = Judge::new(packs, JudgeOptions { expected, ceilings, ..JudgeOptions::default() });
    let mut frame = Frame::default();
    loop {
        for note in sampler.take_notes() {
            judge.add_note(&note);
        }
        frame.reset(sampler.schema().clone(), 1);
        frame.push(sampler.tick_stamp(), sampler.row());
        judge.add_frame(&frame);
        if !pacer.wait_for_tick(|_| {}) || load.stop_reason().is_some() || !pacer.sample_tick(&mut sampler) {
            break;
        }
        if load.next_event(Duration::ZERO)?.is_some() {
            return Err(early_end_failure(load));
        }
    }
    judge.finish().into_iter().next().ok_or_else(|| Failure::Failed("no verdict".into()))
}

/// Describes how the verdict differs from the known load; `None` if it does not.
fn find_mismatch(class: &StressClass, verdict: &Verdict, busy: Option<f64>) -> Option<String> {
    let bottleneck = json!(verdict.bottleneck);
    let named = bottleneck.as_str().unwrap_or_default();
    if !is_expected(class, named, busy) {
        return Some(format!("should be {}", class.expected_verdicts.join(" or ")));
    }
    if let Some(rule) = &class.expected_rule
        && verdict.findings.iter().all(|finding| finding.rule != *rule)
    {
        return Some(format!("without the finding {rule}"));
    }
    let expected_wait = class.expected_wait.as_ref()?;
    let mut sleeps = verdict.programs.iter().flat_map(|program| &program.sleeps);
    let is_found = sleeps.any(|sleep| sleep.kind == *expected_wait);
    (!is_found).then(|| format!("reports no program that waits for: {expected_wait}"))
}

/// True if a verdict is right for a class, given how busy the processors were.
fn is_expected(class: &StressClass, named: &str, busy: Option<f64>) -> bool {
    let is_saturated = busy.is_some_and(|busy| busy >= FULL_UTILIZATION);
    class.expects_verdict(named) || is_saturated && class.verdicts_if_processors_full.iter().any(|other| other == named)
}

fn verification_document(trials: &[StressTrial], duration: Duration) -> serde_json::Value {
    json!({
        "schema": "diskwright.stress/1",
        "watched_s": duration.as_secs_f64(),
        "trials": trials.iter().map(screen::trial_json).collect::<Vec<_>>(),
        "classes": screen::tally_trials(trials).into_iter().map(|tally| json!(tally)).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_processors_excuse_a_missed_disk_class() {
        let metadata = class::find_class("disk-metadata").unwrap();
        for (named, busy, right) in [
            ("disk", Some(0.2), true),
            ("interrupts", Some(0.95), true),
            ("cpu", Some(0.95), true),
            ("interrupts", Some(0.85), false),
            ("interrupts", None, false),
            ("none", Some(1.0), false),
            ("memory", Some(1.0), false),
        ] {
            assert_eq!(is_expected(&metadata, named, busy), right, "{named} at {busy:?}");
        }
        assert!(!is_expected(&class::find_class("disk-sequential").unwrap(), "cpu", Some(1.0)));
    }
}
