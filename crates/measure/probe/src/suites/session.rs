//! What a suite works with: its settings, the bench that it measures on, and
//! what came out so far.

use std::time::Duration;

use super::{Suite, Writes};
use crate::bench::{Bench, BenchJob, DryRun, RequestSeries, RequestTimes, SeriesStep};
use crate::error::ProbeError;
use crate::facts::SuiteRemark;
use crate::pattern::{Pace, Pattern, Placement};
use crate::result::RunResult;
use crate::run::RunOutcome;
use crate::summary::summary;
use crate::tally::WorkerTally;
use crate::together::together;

/// How a suite is to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Size of the target, bytes.
    pub room: u64,
    /// Smallest unit of direct I/O, bytes.
    pub sector: u64,
    /// Writing is allowed.
    pub writes: bool,
    /// Time of one run, or of the whole suite (see [`super::Time`]).
    pub lasts: Duration,
    /// Time before measuring, of one run.
    pub ramp: Duration,
    /// Seed.
    pub seed: u64,
    /// Longest response that the `load` suite takes, seconds.
    pub limit_s: f64,
    /// Percentile that the limit is for (0.99), the mean where there is none.
    pub limit_share: Option<f64>,
    /// Through the page cache.
    pub buffered: bool,
    /// What the target stands on: name and size in bytes of each member.
    pub members: Vec<(String, u64)>,
}

/// A suite at work.
pub struct SuiteSession<'a> {
    /// How it is to measure.
    pub set: Settings,
    /// What was measured so far.
    pub runs: Vec<RunResult>,
    /// What was found out.
    pub remarks: Vec<SuiteRemark>,
    /// What it measures on.
    pub bench: &'a mut dyn Bench,
}

impl<'a> SuiteSession<'a> {
    /// Nothing measured yet.
    pub fn new(set: Settings, bench: &'a mut dyn Bench) -> SuiteSession<'a> {
        SuiteSession { set, runs: Vec::new(), remarks: Vec::new(), bench }
    }
}

impl SuiteSession<'_> {
    /// A pattern with the session's times and seed: one size, one depth.
    /// Through the page cache there is no ramp: the cache filling is what is measured.
    pub fn pattern(&self, name: impl Into<String>, placement: Placement, size: u32, depth: u32) -> Pattern {
        Pattern {
            name: name.into(),
            placement,
            pace: Pace::Closed { depth },
            ramp: if self.set.buffered { Duration::ZERO } else { self.set.ramp },
            lasts: self.set.lasts,
            seed: self.set.seed,
            buffered: self.set.buffered,
            ..Pattern::random_reads(size, depth)
        }
    }

    /// Measures a pattern and keeps the result.
    ///
    /// # Errors
    /// What the run says.
    pub fn run(&mut self, pattern: &Pattern) -> Result<&RunResult, ProbeError> {
        self.run_on("", &[BenchJob { place: 0, pattern }])
    }

    /// Measures patterns at the same time and keeps the result of each and, under
    /// this name, that of all together.
    ///
    /// # Errors
    /// What the run says.
    pub fn together(&mut self, name: &str, patterns: &[Pattern]) -> Result<(), ProbeError> {
        let jobs: Vec<BenchJob<'_>> = patterns.iter().map(|pattern| BenchJob { place: 0, pattern }).collect();
        self.run_on(name, &jobs).map(|_| ())
    }

    /// Measures patterns on their places at the same time, keeps the results,
    /// and gives the last: that of all together where there are several.
    ///
    /// # Errors
    /// What the first run that failed says.
    pub fn run_on(&mut self, name: &str, jobs: &[BenchJob<'_>]) -> Result<&RunResult, ProbeError> {
        let outcomes = self.bench.runs(jobs)?;
        let patterns: Vec<Pattern> = jobs.iter().map(|j| j.pattern.clone()).collect();
        let mut results = together(name, &patterns, &outcomes);
        for (result, job) in results.iter_mut().zip(jobs).filter(|(_, job)| job.place > 0) {
            result.target = Some(self.bench.name(job.place));
        }
        self.runs.append(&mut results);
        self.runs
            .last()
            .ok_or_else(|| ProbeError::Pattern { name: name.into(), because: "no run was requested".into() })
    }

    /// Makes single requests one after another and keeps a result of them;
    /// `most` bounds their time.
    ///
    /// # Errors
    /// What the bench says.
    pub fn series(
        &mut self,
        name: &str,
        steps: Vec<SeriesStep>,
        most: Duration,
    ) -> Result<Vec<RequestTimes>, ProbeError> {
        let durable = steps.iter().any(|s| s.write);
        self.follow(RequestSeries { name: name.into(), steps, buffered: self.set.buffered, durable, most })
    }

    /// As [`SuiteSession::series`], with everything said.
    ///
    /// # Errors
    /// What the bench says.
    pub fn follow(&mut self, series: RequestSeries) -> Result<Vec<RequestTimes>, ProbeError> {
        let (timed, engine) = self.bench.series(&series)?;
        self.runs.push(of_series(&series, &timed, engine));
        Ok(timed)
    }

    /// Keeps a finding that is a number.
    pub fn found(&mut self, id: &str, value: f64, unit: &str, text: impl Into<String>) {
        let (value, unit) = (Some(value).filter(|v| v.is_finite()), Some(unit.to_owned()));
        self.remarks.push(SuiteRemark { id: id.to_owned(), text: text.into(), value, unit });
    }

    /// Keeps a finding that is words.
    pub fn say(&mut self, id: &str, text: impl Into<String>) {
        self.remarks.push(SuiteRemark { id: id.to_owned(), text: text.into(), value: None, unit: None });
    }

    /// Sizes that the target can be asked for: multiples of its sector that fit.
    pub fn sizes(&self, wanted: &[u32]) -> Vec<u32> {
        let set = &self.set;
        let fits = |s: &&u32| u64::from(**s) <= set.room && (set.buffered || u64::from(**s) % set.sector == 0);
        wanted.iter().filter(fits).copied().collect()
    }

    /// The smallest record there is, bytes: a sector.
    pub fn smallest(&self) -> u32 {
        u32::try_from(self.set.sector).unwrap_or(512).max(512)
    }
}

/// A series as a result: what single requests cannot say is left out.
fn of_series(series: &RequestSeries, timed: &[RequestTimes], engine: &'static str) -> RunResult {
    let mut tally = WorkerTally::default();
    let origin = timed.first().map_or(0, |t| t.start_ns);
    for (step, time) in series.steps.iter().zip(timed) {
        tally.answer(step.write, step.length, time.end_ns - time.start_ns, time.start_ns - origin);
    }
    let seconds = timed.last().map_or(0.0, |t| (t.end_ns - origin) as f64 * 1e-9);
    let writes = series.steps.iter().take(timed.len()).filter(|s| s.write).count();
    let pattern = Pattern {
        name: series.name.clone(),
        read_share: 1.0 - writes as f64 / timed.len().max(1) as f64,
        buffered: series.buffered,
        ..Pattern::random_reads(series.largest().max(1), 1)
    };
    let outcome = RunOutcome { tally, seconds, engine, lanes: 1, ..RunOutcome::default() };
    RunResult {
        place: "series".into(),
        cpu_s_per_request: None,
        cpu_share: None,
        hidden_requests: None,
        steady: None,
        slices: Vec::new(),
        pattern: None,
        ..summary(&pattern, &outcome)
    }
}

/// What a suite will take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SuitePlan {
    /// Runs and series.
    pub runs: u32,
    /// Their time, seconds: ramps are in it, the making of a file is not.
    pub seconds: f64,
}

/// What a suite takes with these settings: found by making it on a bench that
/// only adds up. A suite that goes on until it has found something may end sooner.
pub fn plan(suite: &Suite, set: &Settings) -> SuitePlan {
    let mut dry = DryRun::default();
    // it fails where the suite makes no sense here; then it takes no time either
    let _ = (suite.run)(&mut SuiteSession::new(set.clone(), &mut dry));
    SuitePlan { runs: dry.runs, seconds: dry.seconds }
}

/// What a suite takes with its usual times on a target of 1 GiB, writing where it can.
pub fn usual_plan(suite: &Suite) -> SuitePlan {
    let members = vec![("a".to_owned(), 1 << 30), ("b".to_owned(), 1 << 30)];
    let set = Settings {
        room: 1 << 30,
        sector: 512,
        writes: suite.writes != Writes::Never,
        lasts: suite.time.usual(),
        ramp: Duration::from_millis(500),
        seed: 1,
        limit_s: 0.1,
        limit_share: None,
        buffered: false,
        members,
    };
    plan(suite, &set)
}

/// Makes a suite in a session, and says what its runs have in common.
///
/// # Errors
/// What its runs say.
pub fn measure(suite: &Suite, session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    session.set.writes &= suite.writes != Writes::Never;
    (suite.run)(session)?;
    // the cache filling is what is measured there, and here the whole is judged by the suite itself
    if !session.set.buffered && matches!(suite.time, super::Time::EachRun(_)) {
        unsteady(session);
    }
    memory(session);
    Ok(())
}

/// Names the runs whose rate had not settled: on flash they tell of a state that passes.
fn unsteady(session: &mut SuiteSession<'_>) {
    let judged = session.runs.iter().filter(|r| r.steady.is_some()).count();
    let restless: Vec<&str> = session.runs.iter().filter(|r| r.steady == Some(false)).map(|r| &*r.name).collect();
    if restless.is_empty() {
        return;
    }
    let count = restless.len();
    let more = if count > 4 { ", …" } else { "" };
    let names = restless[..count.min(4)].join(", ");
    let text = format!(
        "of {judged} runs never reached steady state ({names}{more}): their fifths differ by more than 20 %, or fall \
         or rise by more than 10 % (SNIA's rule); measure longer with --for, and fill flash completely first"
    );
    session.found("unsteady_runs", count as f64, "count", text);
}

/// Says how much of a buffered suite memory answered.
fn memory(session: &mut SuiteSession<'_>) {
    let known: Vec<(f64, f64)> =
        session.runs.iter().filter_map(|r| Some((r.from_memory_share?, r.reads?.bytes_per_s * r.measured_s))).collect();
    let bytes: f64 = known.iter().map(|k| k.1).sum();
    if bytes > 0.0 {
        let share = known.iter().map(|(share, bytes)| share * bytes).sum::<f64>() / bytes;
        let text = "of the bytes read came from memory: this measures the page cache, not the disk";
        session.found("from_memory", share, "fraction", text);
    } else if session.set.buffered && session.runs.iter().any(|r| r.reads.is_some()) {
        session.say(
            "from_memory",
            "the share that came from memory is unknown: the kernel does not count a process's \
                  reads",
        );
    }
}
