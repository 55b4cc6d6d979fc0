//! Session of a suite: its settings, the bench that it measures on, and its results so far.

use std::time::Duration;

use super::{Suite, Writes};
use crate::bench::{Bench, BenchJob, DryRun, RequestSeries, RequestTimes, SeriesStep};
use crate::combined_results::combine_results;
use crate::error::ProbeError;
use crate::facts::SuiteRemark;
use crate::pattern::{Pace, Pattern, Placement};
use crate::result::RunResult;
use crate::run::RunOutcome;
use crate::summary::summarize_run;
use crate::tally::WorkerTally;

/// Settings of a suite.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Size of the target, bytes.
    pub target_bytes: u64,
    /// Smallest unit of direct I/O, bytes.
    pub sector: u64,
    /// True if the suite may write.
    pub writes: bool,
    /// Time of one run, or of the suite (see [`super::SuiteTime`]).
    pub duration: Duration,
    /// Time of each run before measuring begins.
    pub ramp: Duration,
    /// Seed of the random requests.
    pub seed: u64,
    /// Longest response that the `load` suite accepts, seconds.
    pub limit_s: f64,
    /// Percentile to which the limit applies (0.99); the mean if `None`.
    pub limit_share: Option<f64>,
    /// True if requests go through the page cache.
    pub buffered: bool,
    /// True if the target is a device, not a file.
    pub is_device: bool,
    /// Members that the target consists of: name and size in bytes of each.
    pub members: Vec<(String, u64)>,
}

/// A running suite.
pub struct SuiteSession<'a> {
    /// Settings of the suite.
    pub settings: Settings,
    /// Results so far.
    pub runs: Vec<RunResult>,
    /// Findings so far.
    pub remarks: Vec<SuiteRemark>,
    /// Bench that measures the runs.
    pub bench: &'a mut dyn Bench,
}

impl<'a> SuiteSession<'a> {
    /// Creates a session without results.
    pub fn new(settings: Settings, bench: &'a mut dyn Bench) -> SuiteSession<'a> {
        SuiteSession { settings, runs: Vec::new(), remarks: Vec::new(), bench }
    }
}

impl SuiteSession<'_> {
    /// Builds a pattern of one size and depth with the session's times and seed. Through the page cache there is no
    /// ramp: filling the cache is part of the measurement.
    pub fn build_pattern(&self, name: impl Into<String>, placement: Placement, size: u32, depth: u32) -> Pattern {
        Pattern {
            name: name.into(),
            placement,
            pace: Pace::Closed { depth },
            ramp: if self.settings.buffered { Duration::ZERO } else { self.settings.ramp },
            duration: self.settings.duration,
            seed: self.settings.seed,
            buffered: self.settings.buffered,
            ..Pattern::random_reads(size, depth)
        }
    }

    /// Measures a pattern and keeps the result.
    ///
    /// # Errors
    /// The error of the run.
    pub fn run(&mut self, pattern: &Pattern) -> Result<&RunResult, ProbeError> {
        self.run_on_targets("", &[BenchJob { target_index: 0, pattern }])
    }

    /// Measures patterns at the same time; keeps the result of each and, under this name, their total.
    ///
    /// # Errors
    /// The error of the run.
    pub fn run_together(&mut self, name: &str, patterns: &[Pattern]) -> Result<(), ProbeError> {
        let jobs: Vec<BenchJob<'_>> = patterns.iter().map(|pattern| BenchJob { target_index: 0, pattern }).collect();
        self.run_on_targets(name, &jobs).map(|_| ())
    }

    /// Measures patterns on their targets at the same time, keeps the results, and returns the last
    /// one: the total if there are several.
    ///
    /// # Errors
    /// The error of the first run that failed.
    pub fn run_on_targets(&mut self, name: &str, jobs: &[BenchJob<'_>]) -> Result<&RunResult, ProbeError> {
        let outcomes = self.bench.measure_jobs(jobs)?;
        let patterns: Vec<Pattern> = jobs.iter().map(|j| j.pattern.clone()).collect();
        let mut results = combine_results(name, &patterns, &outcomes);
        for (result, job) in results.iter_mut().zip(jobs).filter(|(_, job)| job.target_index > 0) {
            result.target = Some(self.bench.name(job.target_index));
        }
        self.runs.append(&mut results);
        self.runs
            .last()
            .ok_or_else(|| ProbeError::Pattern { name: name.into(), because: "no run was requested".into() })
    }

    /// Sends requests one after another, for at most `max_duration`, and keeps their result. Writes are
    /// durable.
    ///
    /// # Errors
    /// The error of the bench.
    pub fn run_series(
        &mut self,
        name: &str,
        steps: Vec<SeriesStep>,
        max_duration: Duration,
    ) -> Result<Vec<RequestTimes>, ProbeError> {
        let durable = steps.iter().any(|s| s.write);
        self.run_request_series(RequestSeries {
            name: name.into(),
            steps,
            buffered: self.settings.buffered,
            durable,
            max_duration,
        })
    }

    /// Like [`SuiteSession::run_series`], with all settings given.
    ///
    /// # Errors
    /// The error of the bench.
    pub fn run_request_series(&mut self, series: RequestSeries) -> Result<Vec<RequestTimes>, ProbeError> {
        let (times, engine) = self.bench.measure_series(&series)?;
        self.runs.push(series_result(&series, &times, engine));
        Ok(times)
    }

    /// Adds a finding with a number.
    pub fn report_value(&mut self, id: &str, value: f64, unit: &str, text: impl Into<String>) {
        let (value, unit) = (Some(value).filter(|v| v.is_finite()), Some(unit.to_owned()));
        self.remarks.push(SuiteRemark { id: id.to_owned(), text: text.into(), value, unit });
    }

    /// Adds a finding without a number.
    pub fn report_text(&mut self, id: &str, text: impl Into<String>) {
        self.remarks.push(SuiteRemark { id: id.to_owned(), text: text.into(), value: None, unit: None });
    }

    /// Selects the sizes that the target supports: those that fit, and that are multiples of its sector
    /// unless requests go through the page cache.
    pub fn usable_sizes(&self, sizes: &[u32]) -> Vec<u32> {
        let Settings { target_bytes, buffered, sector, .. } = self.settings;
        let is_usable = |s: &&u32| u64::from(**s) <= target_bytes && (buffered || u64::from(**s) % sector == 0);
        sizes.iter().filter(is_usable).copied().collect()
    }

    /// Returns the smallest request size, bytes: a sector.
    pub fn smallest_request_bytes(&self) -> u32 {
        u32::try_from(self.settings.sector).unwrap_or(512).max(512)
    }
}

/// Converts a series into a result, without the figures that single requests cannot give.
fn series_result(series: &RequestSeries, times: &[RequestTimes], engine: &'static str) -> RunResult {
    let mut tally = WorkerTally::default();
    let origin = times.first().map_or(0, |t| t.start_ns);
    for (step, time) in series.steps.iter().zip(times) {
        tally.record_completion(step.write, step.length, time.end_ns - time.start_ns, time.start_ns - origin);
    }
    let seconds = times.last().map_or(0.0, |t| (t.end_ns - origin) as f64 * 1e-9);
    let writes = series.steps.iter().take(times.len()).filter(|s| s.write).count();
    let pattern = Pattern {
        name: series.name.clone(),
        read_share: 1.0 - writes as f64 / times.len().max(1) as f64,
        buffered: series.buffered,
        ..Pattern::random_reads(series.max_request_bytes().max(1), 1)
    };
    let outcome = RunOutcome { tally, seconds, engine, workers: 1, ..RunOutcome::default() };
    RunResult {
        place: "series".into(),
        cpu_s_per_request: None,
        cpu_share: None,
        hidden_requests: None,
        steady: None,
        slices: Vec::new(),
        pattern: None,
        ..summarize_run(&pattern, &outcome)
    }
}

/// Expected cost of a suite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SuitePlan {
    /// Number of runs and series.
    pub runs: u32,
    /// Their total time, seconds: with ramps, without the creation of a file.
    pub seconds: f64,
}

/// Plans a suite by running it on a bench that measures nothing and only adds up times. A suite that searches for a
/// limit may end sooner.
pub fn plan_suite(suite: &Suite, settings: &Settings) -> SuitePlan {
    let mut dry_run = DryRun::default();
    // a suite that does not fit the target fails here: the plan has only the runs up to then
    let _ = (suite.run)(&mut SuiteSession::new(settings.clone(), &mut dry_run));
    SuitePlan { runs: dry_run.runs, seconds: dry_run.seconds }
}

/// Plans a suite with its default times on a target of 1 GiB, with writes if it can write.
pub fn default_plan(suite: &Suite) -> SuitePlan {
    let members = vec![("a".to_owned(), 1 << 30), ("b".to_owned(), 1 << 30)];
    let settings = Settings {
        target_bytes: 1 << 30,
        sector: 512,
        writes: suite.writes != Writes::Never,
        duration: suite.time.default_duration(),
        ramp: Duration::from_millis(500),
        seed: 1,
        limit_s: 0.1,
        limit_share: None,
        buffered: false,
        is_device: false,
        members,
    };
    plan_suite(suite, &settings)
}

/// Runs a suite in a session, and adds the findings that concern all its runs.
///
/// # Errors
/// The errors of its runs.
pub fn run_suite(suite: &Suite, session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    session.settings.writes &= suite.writes != Writes::Never;
    (suite.run)(session)?;
    // a buffered suite measures a cache that fills; a suite with a total time judges steady state itself
    if !session.settings.buffered && matches!(suite.time, super::SuiteTime::EachRun(_)) {
        report_unsteady_runs(session);
    }
    report_memory_share(session);
    Ok(())
}

/// Reports the runs that reached no steady state: on flash, their rate does not last.
fn report_unsteady_runs(session: &mut SuiteSession<'_>) {
    let judged = session.runs.iter().filter(|r| r.steady.is_some()).count();
    let unsteady_runs: Vec<&str> = session.runs.iter().filter(|r| r.steady == Some(false)).map(|r| &*r.name).collect();
    if unsteady_runs.is_empty() {
        return;
    }
    let count = unsteady_runs.len();
    let more = if count > 4 { ", …" } else { "" };
    let names = unsteady_runs[..count.min(4)].join(", ");
    let text = format!(
        "of {judged} runs never reached steady state ({names}{more}): their fifths differ by more than 20 %, or fall \
         or rise by more than 10 % (SNIA's rule); measure longer with --for, and fill flash completely first"
    );
    session.report_value("unsteady_runs", count as f64, "count", text);
}

/// Reports the share of a buffered suite that memory served.
fn report_memory_share(session: &mut SuiteSession<'_>) {
    let known: Vec<(f64, f64)> =
        session.runs.iter().filter_map(|r| Some((r.from_memory_share?, r.reads?.bytes_per_s * r.measured_s))).collect();
    let bytes: f64 = known.iter().map(|k| k.1).sum();
    if bytes > 0.0 {
        let share = known.iter().map(|(share, bytes)| share * bytes).sum::<f64>() / bytes;
        let text = "of the bytes read came from memory: this measures the page cache, not the disk";
        session.report_value("from_memory", share, "fraction", text);
    } else if session.settings.buffered && session.runs.iter().any(|r| r.reads.is_some()) {
        session.report_text(
            "from_memory",
            "the share that came from memory is unknown: the kernel does not count the reads of a process",
        );
    }
}
