//! What suites measure on: a [`Bench`] makes runs and series. One is made of
//! real targets, one of made-up devices in tests, one only adds up the time
//! that a suite will take.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cached;
use crate::engine::{Action, Done, Engine, Op, Room, Wait, ring::Ring, threads::Threads};
use crate::error::ProbeError;
use crate::live::Stretch;
use crate::pattern::Pattern;
use crate::run::{Job as OnTarget, Kind, Making, Outcome, Outcomes, run_jobs};
use crate::target::Target;

/// A run to make, and where.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// 0 is the target, 1 and on are the members that it stands on.
    pub place: usize,
    /// What to ask.
    pub pattern: &'a Pattern,
}

/// One request of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Write it; read it otherwise.
    pub write: bool,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
    /// Time between the answer before and this request, nanoseconds.
    pub pause_ns: u64,
}

/// Single requests, one after another, each timed: for questions about where
/// a request lies in time, which a distribution of latencies cannot answer.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name in the results.
    pub name: String,
    /// The requests in order.
    pub steps: Vec<Step>,
    /// Through the page cache.
    pub buffered: bool,
    /// Writes return when they are durable (O_DSYNC).
    pub durable: bool,
    /// The series ends after this time, wherever it is.
    pub most: Duration,
}

impl Series {
    /// Largest request, bytes.
    pub fn largest(&self) -> u32 {
        self.steps.iter().map(|s| s.length).max().unwrap_or(0)
    }
}

/// When a request of a series was made and answered, nanoseconds from the same moment for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Made.
    pub start_ns: u64,
    /// Answered.
    pub end_ns: u64,
}

impl Timed {
    /// How long it took, seconds.
    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.start_ns) as f64 * 1e-9
    }
}

/// Makes runs and series.
pub trait Bench {
    /// Makes runs at the same time, each on its place.
    ///
    /// # Errors
    /// What the first run that failed says.
    fn runs(&mut self, jobs: &[Job<'_>]) -> Result<Outcomes, ProbeError>;

    /// What a place is called.
    fn name(&self, place: usize) -> String;

    /// Makes a series on the target; gives its times and the engine that made it.
    ///
    /// # Errors
    /// When a request fails, or is slower than a device in use may be.
    fn series(&mut self, series: &Series) -> Result<(Vec<Timed>, &'static str), ProbeError>;
}

/// Makes the requests of a series on an engine, until `most` or `stop`.
///
/// # Errors
/// When the engine or a request fails.
pub fn follow<E: Engine>(engine: &mut E, series: &Series, stop: &AtomicBool) -> io::Result<Vec<Timed>> {
    let mut timed = Vec::with_capacity(series.steps.len());
    let mut done: Vec<Done> = Vec::new();
    let begin = engine.now();
    let until = begin + u64::try_from(series.most.as_nanos()).unwrap_or(u64::MAX / 4);
    for step in &series.steps {
        let mut now = engine.now();
        let due = now + step.pause_ns;
        while now < due {
            engine.turn(Wait::Until(due), &mut done)?;
            now = engine.now();
        }
        if now >= until || stop.load(Ordering::Relaxed) {
            break;
        }
        let action = if step.write { Action::Write } else { Action::Read };
        engine.put(Op { slot: 0, action, offset: step.offset, length: step.length });
        while done.is_empty() {
            engine.turn(Wait::One, &mut done)?;
        }
        timed.push(Timed { start_ns: now, end_ns: engine.now() });
        if let Some(answer) = done.pop().filter(|a| a.result < 0) {
            return Err(io::Error::from_raw_os_error(-answer.result));
        }
    }
    Ok(timed)
}

/// Told while something is measured: its name, the share of its time that is
/// over, what was done since the last time, and how long it takes in all (seconds).
pub type Told<'a> = dyn FnMut(&str, f64, &Stretch, f64) + 'a;

/// Real targets.
pub struct Targets<'a> {
    /// The target, then the members that it stands on.
    pub targets: Vec<&'a Target>,
    /// How runs are made.
    pub making: &'a Making,
    /// Hears of the progress.
    pub told: &'a mut Told<'a>,
}

impl Targets<'_> {
    fn may_go_on(&self) -> Result<(), ProbeError> {
        if self.making.stop.load(Ordering::Relaxed) { Err(ProbeError::Interrupted) } else { Ok(()) }
    }
}

impl<'a> Targets<'a> {
    fn target(&self, place: usize) -> Result<&'a Target, ProbeError> {
        self.targets.get(place).copied().ok_or_else(|| ProbeError::Target {
            target: format!("member {place}"),
            because: "is not among the members that were named".into(),
        })
    }
}

impl Bench for Targets<'_> {
    fn runs(&mut self, jobs: &[Job<'_>]) -> Result<Outcomes, ProbeError> {
        self.may_go_on()?;
        let mut all = Vec::new();
        for job in jobs {
            let target = self.target(job.place)?;
            if job.pattern.buffered && !job.pattern.warm {
                cached::empty(target)?;
            }
            all.push(OnTarget { pattern: job.pattern, target, after: Duration::ZERO });
        }
        let names = jobs.iter().map(|j| j.pattern.name.as_str()).collect::<Vec<_>>().join(" + ");
        let lasts = jobs.iter().map(|j| (j.pattern.ramp + j.pattern.lasts).as_secs_f64()).fold(0.0, f64::max);
        let (before, told) = (cached::read_from_disk(), &mut *self.told);
        let mut outcomes = run_jobs(&all, self.making, &mut |share, stretch| told(&names, share, stretch, lasts))?;
        if let [outcome] = &mut outcomes.each[..] {
            outcome.disk_read_bytes = cached::read_from_disk().zip(before).map(|(after, before)| after - before);
        }
        Ok(outcomes)
    }

    fn name(&self, place: usize) -> String {
        self.targets.get(place).map_or_else(String::new, |t| t.name.clone())
    }

    fn series(&mut self, series: &Series) -> Result<(Vec<Timed>, &'static str), ProbeError> {
        self.may_go_on()?;
        let target = self.target(0)?;
        (self.told)(&series.name, 0.0, &Stretch::default(), series.most.as_secs_f64());
        let writes = series.steps.iter().any(|s| s.write);
        let outside = |s: &&Step| s.offset + u64::from(s.length) > target.bytes;
        if let Some(step) = series.steps.iter().find(outside) {
            let because = format!("byte {} lies behind the end at {}", step.offset, target.bytes);
            return Err(ProbeError::Pattern { name: series.name.clone(), because });
        }
        let file = target.open(writes, series.buffered, series.durable)?;
        let room = Room { slots: 1, largest: series.largest(), writes, seed: 1 };
        let start = Instant::now();
        let failed = |e| ProbeError::io(&target.name, "a request failed", e);
        let ring = match self.making.engine {
            Kind::Best => file.try_clone().and_then(|file| Ring::new(file, &room, start)),
            Kind::Threads => Err(io::ErrorKind::Unsupported.into()),
        };
        let stop = &self.making.stop;
        let (timed, engine) = match ring {
            Ok(mut ring) => (follow(&mut ring, series, stop), "io_uring"),
            Err(_) => {
                let threads = Threads::new(file, &room, start);
                (threads.and_then(|mut engine| follow(&mut engine, series, stop)), "threads")
            }
        };
        let timed = timed.map_err(failed)?;
        let limit = self.making.brake.map_or(f64::INFINITY, |b| b.as_secs_f64());
        if let Some(slow) = timed.iter().map(Timed::seconds).find(|s| *s > limit) {
            return Err(ProbeError::Brake { target: target.name.clone(), seconds: slow, limit });
        }
        (self.told)(&series.name, 1.0, &Stretch::default(), series.most.as_secs_f64());
        self.may_go_on()?;
        Ok((timed, engine))
    }
}

/// Measures nothing and adds up how long it would take.
#[derive(Debug, Default)]
pub struct Dry {
    /// Runs and series so far.
    pub runs: u32,
    /// Their time, seconds.
    pub seconds: f64,
}

/// The dry device answers everything in this time, nanoseconds, however many ask.
const DRY_NS: u64 = 1_000_000;

impl Bench for Dry {
    fn runs(&mut self, jobs: &[Job<'_>]) -> Result<Outcomes, ProbeError> {
        // several are told one by one and together
        self.runs += jobs.len() as u32 + u32::from(jobs.len() > 1);
        self.seconds += jobs.iter().map(|j| (j.pattern.ramp + j.pattern.lasts).as_secs_f64()).fold(0.0, f64::max);
        let each: Vec<Outcome> = jobs.iter().map(|job| dry(job.pattern)).collect();
        Ok(Outcomes { all: each.first().cloned().filter(|_| each.len() > 1), each })
    }

    fn name(&self, _: usize) -> String {
        String::new()
    }

    fn series(&mut self, series: &Series) -> Result<(Vec<Timed>, &'static str), ProbeError> {
        self.runs += 1;
        let mut now = 0;
        let mut seen = std::collections::HashSet::new();
        let mut answer = |step: &Step| {
            let start_ns = now + step.pause_ns;
            // what was asked for before is in a cache, so that suites look for all there is to one
            now = start_ns + if seen.insert(step.offset) { 20 * DRY_NS } else { DRY_NS };
            Timed { start_ns, end_ns: now }
        };
        let most = u64::try_from(series.most.as_nanos()).unwrap_or(u64::MAX);
        let timed: Vec<Timed> = series.steps.iter().map(&mut answer).take_while(|t| t.start_ns < most).collect();
        self.seconds += series.most.as_secs_f64().min(now as f64 * 1e-9);
        Ok((timed, "none"))
    }
}

/// An outcome of as many requests at once as are asked for.
fn dry(pattern: &Pattern) -> Outcome {
    use crate::pattern::Pace;
    let at_once = match pattern.pace {
        Pace::Closed { depth } => depth,
        Pace::Users { users, .. } | Pace::Cycles { users, .. } => users,
        Pace::Open { .. } => 1,
    };
    // a suite that looks for a limit finds one at last
    let latency_ns = if at_once > 2048 { 1_000_000 * DRY_NS } else { DRY_NS };
    // a thousand requests a second for each that is outstanding, of which some are enough
    let count = (u64::from(at_once) * 100).min(2000);
    let seconds = count as f64 / (f64::from(at_once) * 1000.0);
    let mut outcome = Outcome { seconds, engine: "none", lanes: 1, ..Outcome::default() };
    for i in 0..count {
        let write = (i as f64 * 0.618).fract() >= pattern.read_share;
        outcome.tally.answer(write, pattern.sizes[0].0, latency_ns, 0);
    }
    outcome
}
