//! Tests of the suites on fake devices.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use super::*;
use crate::bench::{Bench, BenchJob, RequestSeries, RequestTimes, run_series};
use crate::engine::IoEngine;
use crate::engine::fake::FakeDevice;
use crate::facts::SuiteRemark;
use crate::live::LiveCounters;
use crate::pattern::{Pace, Pattern};
use crate::request_generator::RequestGenerator;
use crate::run::{Outcomes, RunOutcome};
use crate::worker_loop::{self, WorkerPlan};

pub const MIB: u64 = 1 << 20;

/// A bench of fake devices: a new one for each run, chosen by target.
pub struct FakeBench<F> {
    device: F,
    room: u64,
}

fn measure_pattern<E: IoEngine>(
    device: &mut E,
    pattern: &Pattern,
    target_bytes: u64,
) -> Result<RunOutcome, ProbeError> {
    if let Some(because) = pattern.find_fault(512, target_bytes) {
        return Err(ProbeError::Pattern { name: pattern.name.clone(), because });
    }
    let (stop, done, shelf) = (AtomicBool::new(false), LiveCounters::default(), Mutex::default());
    let slots = match pattern.pace {
        Pace::Closed { depth } => depth,
        Pace::Users { users, .. } | Pace::Cycles { users, .. } => users,
        Pace::Open { .. } => 4096,
    };
    let plan = WorkerPlan {
        pace: pattern.pace.clone(),
        durable: pattern.durable,
        ramp_ns: pattern.ramp.as_nanos() as u64,
        duration_ns: pattern.duration.as_nanos() as u64,
        stop: &stop,
        live: &done,
        parked_tally: &shelf,
        brake_ns: None,
        start_delay_ns: 0,
        sync_every: pattern.sync_every,
        max_bytes: pattern.max_bytes,
    };
    let mut generator = RequestGenerator::new(pattern, target_bytes, 0, 1);
    let tally = worker_loop::run_worker(device, &mut generator, &plan, slots).expect("a made-up device does not fail");
    // a run that is ended by its bytes lasts as long as they took
    let seconds = match pattern.max_bytes {
        Some(_) => tally.measured_ns as f64 * 1e-9,
        None => pattern.duration.as_secs_f64(),
    };
    Ok(RunOutcome { tally, seconds, engine: "fake", workers: 1, ..RunOutcome::default() })
}

impl<E: IoEngine, F: FnMut(usize) -> E> Bench for FakeBench<F> {
    // at the same time, but each on its own device
    fn measure_jobs(&mut self, jobs: &[BenchJob<'_>]) -> Result<Outcomes, ProbeError> {
        let one = |job: &BenchJob<'_>| measure_pattern(&mut (self.device)(job.target_index), job.pattern, self.room);
        let each = jobs.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        let mut all = each[0].clone();
        each[1..].iter().for_each(|other| all.tally.merge_worker(&other.tally));
        Ok(Outcomes { all: (each.len() > 1).then_some(all), each })
    }

    fn name(&self, place: usize) -> String {
        format!("place {place}")
    }

    fn measure_series(&mut self, series: &RequestSeries) -> Result<(Vec<RequestTimes>, &'static str), ProbeError> {
        let outside = series.steps.iter().find(|s| s.offset + u64::from(s.length) > self.room);
        assert_eq!(outside, None, "{}", series.name);
        let timed = run_series(&mut (self.device)(0), series, &AtomicBool::new(false), &LiveCounters::default());
        timed.map(|t| (t, "fake")).map_err(|e| ProbeError::io("made up", "a request failed", e))
    }
}

/// Two seconds per run, 24 for a suite with a total time.
pub fn settings(room: u64) -> Settings {
    Settings {
        target_bytes: room,
        sector: 512,
        writes: true,
        duration: Duration::from_secs(2),
        ramp: Duration::ZERO,
        seed: 1,
        limit_s: 0.1,
        limit_share: None,
        buffered: false,
        is_device: false,
        members: Vec::new(),
    }
}

/// Runs a suite on fake devices, one for each target, made new for each run.
pub fn run_on_fakes<E: IoEngine>(
    suite: &Suite,
    set: Settings,
    device: impl FnMut(usize) -> E,
) -> (Vec<RunResult>, Vec<SuiteRemark>) {
    let mut bench = FakeBench { device, room: set.target_bytes };
    let mut session = SuiteSession::new(set, &mut bench);
    if matches!(suite.time, SuiteTime::Whole(_)) {
        session.settings.duration *= 12;
    }
    run_suite(suite, &mut session).expect("the suite runs");
    (session.runs, session.remarks)
}

/// Runs a suite on a fake device, made new for each run.
pub fn run_on_fake<E: IoEngine>(
    suite: &Suite,
    room: u64,
    mut device: impl FnMut() -> E,
) -> (Vec<RunResult>, Vec<SuiteRemark>) {
    run_on_fakes(suite, settings(room), |_| device())
}

pub fn remark_value(remarks: &[SuiteRemark], id: &str) -> f64 {
    remarks.iter().find(|r| r.id == id).and_then(|r| r.value).unwrap_or_else(|| panic!("no {id} in {remarks:?}"))
}

fn with_members(room: u64) -> Settings {
    let members = ["sda", "sdb"].map(|n| (n.to_owned(), room)).to_vec();
    Settings { members, ..settings(room) }
}

/// Results of every suite on a plain device: each is run once, for all tests that use it.
fn results_on_plain_devices() -> &'static [(Vec<RunResult>, Vec<SuiteRemark>)] {
    static FOUND: OnceLock<Vec<(Vec<RunResult>, Vec<SuiteRemark>)>> = OnceLock::new();
    let of =
        |suite: &&Suite| run_on_fakes(suite, with_members(64 * MIB), |_| FakeDevice::with_service_time(4, 2_000_000));
    FOUND.get_or_init(|| SUITES.iter().map(of).collect())
}

#[test]
fn every_suite_runs_on_a_plain_device_and_explains_itself() {
    for (suite, (runs, remarks)) in SUITES.iter().zip(results_on_plain_devices()) {
        assert!(!runs.is_empty(), "{}", suite.id);
        assert!(!remarks.is_empty(), "{} says nothing", suite.id);
        assert!(suite.explain.len() > 40 && suite.good.len() > 20, "{}", suite.id);
        let mut names: Vec<_> = runs.iter().map(|r| &r.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), runs.len(), "{}: two runs of one name", suite.id);
        assert_eq!(super::find_suite(suite.id).map(|s| s.id), Some(suite.id));
        // a remark is a sentence that continues after its number; ids are for programs
        for remark in remarks {
            let plain = remark.id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            assert!(plain && remark.text.len() > 10 && !remark.text.contains("NaN"), "{}: {remark:?}", suite.id);
            assert_eq!(remark.value.is_some(), remark.unit.is_some(), "{}: {remark:?}", suite.id);
        }
    }
}

#[test]
fn a_suite_that_writes_nothing_is_never_allowed_to() {
    let all = SUITES.iter().zip(results_on_plain_devices());
    for (suite, (runs, _)) in all.filter(|(suite, _)| suite.writes == Writes::Never) {
        assert!(runs.iter().all(|r| r.writes.is_none()), "{}", suite.id);
    }
    // suites that may write do not write if it is not allowed
    for suite in SUITES.iter().filter(|s| s.writes == Writes::IfAllowed) {
        let set = Settings { writes: false, ..with_members(64 * MIB) };
        let (runs, _) = run_on_fakes(suite, set, |_| FakeDevice::with_service_time(4, 2_000_000));
        assert!(runs.iter().all(|r| r.writes.is_none()), "{}", suite.id);
    }
}

#[test]
fn the_time_of_every_suite_is_known_before_it_starts() {
    for (suite, (runs, _)) in SUITES.iter().zip(results_on_plain_devices()) {
        let planned = plan_suite(suite, &with_members(64 * MIB));
        assert!(planned.runs as usize >= runs.len(), "{}: {planned:?} for {}", suite.id, runs.len());
        assert!(planned.seconds > 0.0 && planned.seconds < 600.0, "{}: {planned:?}", suite.id);
    }
    // three seconds and half a second of ramp for each of 16 runs
    let usual = Settings { duration: Duration::from_secs(3), ramp: Duration::from_millis(500), ..settings(1 << 30) };
    let quick = plan_suite(find_suite("quick").unwrap(), &usual);
    assert_eq!((quick.runs, quick.seconds), (16, 56.0));
}

#[test]
fn names_the_runs_that_were_not_steady() {
    // twenty times as slow after the first second
    let device =
        || FakeDevice::new(1, Box::new(|_, offset| Ok(if offset < 1_000_000_000 { 100_000 } else { 2_000_000 })));
    let (_, remarks) = run_on_fake(find_suite("diskmax").unwrap(), 64 * MIB, device);
    assert_eq!(remark_value(&remarks, "unsteady_runs"), 2.0);
    assert!(remarks.iter().any(|r| r.text.contains("depth-1, depth-8")), "{remarks:?}");
}
