//! One run: jobs, each a pattern on a target, at once; timed, with what
//! processor and kernel did meanwhile. Each job has lanes of its own.

mod lane;
mod watch;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::error::ProbeError;
use crate::live::{LiveInterval, LiveTimeline};
use crate::pattern::{Durable, Pattern};
use crate::tally::{SLICE_NS, WorkerTally};
use crate::target::ProbeTarget;
use lane::{JobView, StartGate, WorkerResult, WorkerSetup, shares};
use watch::RunWatch;

/// Which engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// The ring where there is one, threads otherwise.
    #[default]
    Best,
    /// Threads.
    Threads,
}

/// How a run is made.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// The engine.
    pub engine: EngineKind,
    /// Lanes at most; one a core is enough.
    pub lanes: u32,
    /// An answer slower than this ends everything: for devices that others use.
    pub brake: Option<Duration>,
    /// Set from outside to end the run; what was measured is kept.
    pub stop: Arc<AtomicBool>,
}

/// What a run gave.
#[derive(Clone, Debug, Default)]
pub struct RunOutcome {
    /// All counts.
    pub tally: WorkerTally,
    /// Measured time, seconds; less than asked for where it was stopped.
    pub seconds: f64,
    /// `io_uring` or `threads`.
    pub engine: &'static str,
    /// What kept the engine from its best or from what was asked, in sentences.
    pub engine_notes: Vec<String>,
    /// Lanes that ran.
    pub lanes: u32,
    /// Processor time of this process while measuring, seconds. Not a number
    /// for one of several jobs: what each takes cannot be told apart.
    pub cpu_s: f64,
    /// What the kernel counted while measuring, ramp included: seconds it covers, then counts.
    pub kernel: Kernel,
    /// Bytes that the kernel read from disks for this process, ramp included,
    /// where somebody looked (see [`crate::bench`]).
    pub disk_read_bytes: Option<f64>,
    /// It was stopped from outside.
    pub stopped: bool,
    /// What was done in each stretch of the measured time.
    pub course: Vec<LiveInterval>,
}

/// What the kernel counted, in all of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel {
    /// Seconds between the two looks.
    pub seconds: f64,
    /// Interrupts less those of clock and network.
    pub interrupts: Option<f64>,
    /// Interrupts of every kind.
    pub all_interrupts: Option<f64>,
    /// Context switches.
    pub context_switches: Option<f64>,
}

/// Told while a run goes on: share of its time that is over, and what was done since the last time.
pub type RunProgress<'a> = dyn FnMut(f64, &LiveInterval) + 'a;

/// One of the jobs of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunJob<'a> {
    /// What it asks; its name is the job's.
    pub pattern: &'a Pattern,
    /// Of what.
    pub target: &'a ProbeTarget,
    /// Time from the run's start to the job's.
    pub after: Duration,
}

impl RunJob<'_> {
    /// When its measuring begins.
    fn from(&self) -> Duration {
        self.after + self.pattern.ramp
    }

    /// When it ends.
    fn until(&self) -> Duration {
        self.from().saturating_add(self.pattern.lasts)
    }
}

/// What several jobs gave.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    /// Each, in the order of the jobs.
    pub each: Vec<RunOutcome>,
    /// All together, where there is more than one: from the first job's
    /// measuring to the last one's end.
    pub all: Option<RunOutcome>,
}

/// Measures a pattern on a target.
///
/// # Errors
/// When the pattern does not fit the target, the system refuses, or requests
/// fail and none succeeds.
pub fn run(
    target: &ProbeTarget,
    pattern: &Pattern,
    making: &RunConfig,
    told: &mut RunProgress<'_>,
) -> Result<RunOutcome, ProbeError> {
    let job = RunJob { pattern, target, after: Duration::ZERO };
    Ok(run_jobs(&[job], making, told)?.each.into_iter().next().unwrap_or_default())
}

/// What a lane sends when it is done: its job, which lane, and what it counted or why it
/// failed.
type WorkerReport = (usize, usize, io::Result<WorkerResult>);

/// What was stopped is waited for so long; then it goes on without its threads.
pub(crate) const GRACE: Duration = Duration::from_millis(400);
/// Looks within the time that a device in use may take.
const LOOKS_PER_BRAKE: u32 = 4;

impl RunConfig {
    /// How long to wait at most until it is looked again whether a device in use answers.
    pub(crate) fn nap(&self, nap: Duration) -> Duration {
        self.brake.map_or(nap, |brake| nap.min((brake / LOOKS_PER_BRAKE).max(Duration::from_millis(1))))
    }
}

/// Measures several patterns at the same time.
///
/// # Errors
/// As [`run`], of the first job that has any.
pub fn run_jobs(jobs: &[RunJob<'_>], making: &RunConfig, told: &mut RunProgress<'_>) -> Result<Outcomes, ProbeError> {
    let mut work = Vec::new();
    for job in jobs {
        let (pattern, target) = (job.pattern, job.target);
        if let Some(because) = pattern.fault(target.sector, target.bytes) {
            return Err(ProbeError::Pattern { name: pattern.name.clone(), because });
        }
        let shares = shares(&pattern.pace, lane::lanes(pattern, making, jobs.len() as u32));
        let mut files = Vec::new();
        for _ in &shares {
            files.push(target.open(pattern.writes(), pattern.buffered, pattern.durable == Durable::Dsync)?);
        }
        work.push(shares.into_iter().zip(files).collect::<Vec<_>>());
    }
    let shown: Vec<Arc<JobView>> = work.iter().map(|lanes| Arc::new(JobView::new(lanes.len()))).collect();
    let (ready, begin) = (Arc::new(StartGate::default()), Instant::now());
    let (answer, answers) = channel::<WorkerReport>();
    let mut threads = Vec::new();
    for (number, (job, work)) in jobs.iter().zip(work).enumerate() {
        let of_job = work.len() as u32;
        for (lane, (pace, file)) in work.into_iter().enumerate() {
            let lanes = WorkerSetup {
                pattern: job.pattern.clone(),
                bytes: job.target.bytes,
                after: job.after,
                making: making.clone(),
                ready: Arc::clone(&ready),
                shown: Arc::clone(&shown[number]),
                number: lane as u32,
                lanes: of_job,
                begin,
            };
            let tell = answer.clone();
            let begun = std::thread::Builder::new().spawn(move || {
                // nobody hears of a lane that was given up
                let _ = tell.send((number, lane, lanes.run(&pace, file)));
            });
            match begun {
                Ok(thread) => threads.push(thread),
                // the receiver is there
                Err(error) => drop(answer.send((number, lane, Err(error)))),
            }
        }
    }
    drop(answer);
    let watch = RunWatch::start();
    ready.open(threads.len());
    let (outcomes, lost) = RunFollower::new(jobs, &shown, watch, begin).gather(&answers, making, told)?;
    if !lost {
        // their files are closed then; a lane that panicked has said so
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
    for (job, outcome) in jobs.iter().zip(&outcomes.each) {
        verdict(job.target, making, outcome)?;
    }
    Ok(outcomes)
}

/// Follows a run from its start: what its lanes tell, and what is gathered of it.
struct RunFollower<'a> {
    jobs: &'a [RunJob<'a>],
    shown: &'a [Arc<JobView>],
    watch: RunWatch,
    begin: Instant,
    /// When the engines' clocks began.
    clock: Instant,
    /// Since when it has been known that the run is to end.
    stopped: Option<Instant>,
    /// The first measuring, and the last end.
    from: Duration,
    until: Duration,
    courses: Vec<LiveTimeline>,
    whole: LiveTimeline,
    bytes: u64,
    each: Vec<RunOutcome>,
    /// Lanes still at work, by job, and when each job ended.
    at_work: Vec<Vec<usize>>,
    ended: Vec<Duration>,
}

impl<'a> RunFollower<'a> {
    fn new(jobs: &'a [RunJob<'a>], shown: &'a [Arc<JobView>], watch: RunWatch, clock: Instant) -> RunFollower<'a> {
        let of_job = |lanes: &Arc<JobView>| RunOutcome { lanes: lanes.live.len() as u32, ..RunOutcome::default() };
        RunFollower {
            jobs,
            shown,
            watch,
            begin: Instant::now(),
            clock,
            stopped: None,
            from: jobs.iter().map(RunJob::from).min().unwrap_or_default(),
            until: jobs.iter().map(RunJob::until).max().unwrap_or_default(),
            courses: jobs.iter().map(|_| LiveTimeline::default()).collect(),
            whole: LiveTimeline::default(),
            bytes: 0,
            each: shown.iter().map(of_job).collect(),
            at_work: shown.iter().map(|lanes| (0..lanes.live.len()).collect()).collect(),
            ended: vec![Duration::ZERO; jobs.len()],
        }
    }

    fn gather(
        mut self,
        answers: &std::sync::mpsc::Receiver<WorkerReport>,
        making: &RunConfig,
        told: &mut RunProgress<'_>,
    ) -> Result<(Outcomes, bool), ProbeError> {
        let (mut failed, mut lost) = (None, false);
        while self.at_work.iter().any(|lanes| !lanes.is_empty()) {
            match answers.recv_timeout(self.nap(making)) {
                Ok((job, lane, result)) => {
                    self.at_work[job].retain(|at_work| *at_work != lane);
                    match result {
                        Ok(ran) => {
                            // by the lanes' clocks: this thread may have begun to watch late
                            let measured = Duration::from_nanos(ran.tally.measured_ns);
                            self.ended[job] = self.ended[job].max(self.jobs[job].from() + measured);
                            let outcome = &mut self.each[job];
                            lost |= ran.tally.unanswered > 0;
                            outcome.tally.merge(&ran.tally);
                            outcome.engine = ran.engine;
                            add_notes(&mut outcome.engine_notes, ran.notes);
                        }
                        Err(e) => {
                            // without it the others measure something else
                            making.stop.store(true, Ordering::Relaxed);
                            failed =
                                failed.or(Some(ProbeError::io(&self.jobs[job].target.name, "the engine failed", e)));
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let stretch = self.look();
                    told(self.share(), &stretch);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.watch.look(self.begin.elapsed(), self.from, self.until);
            if self.has_waited_enough(making) {
                self.give_up();
                lost = true;
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok((self.finish(making), lost)),
        }
    }

    /// How long to wait for a lane's end at most.
    fn nap(&self, making: &RunConfig) -> Duration {
        making.nap(self.watch.nap(self.begin.elapsed(), self.from, self.until))
    }

    /// Whether the run was stopped and its lanes do not end. Those that wait within a system
    /// call see no limit themselves.
    fn has_waited_enough(&mut self, making: &RunConfig) -> bool {
        let now = self.clock.elapsed().as_nanos() as u64;
        let stops = making.stop.load(Ordering::Relaxed);
        if let Some(limit) = making.brake.map(|brake| brake.as_nanos() as u64).filter(|_| !stops) {
            for (job, shown) in self.shown.iter().enumerate() {
                let waits = self.at_work[job].iter().map(|lane| shown.live[*lane].waiting());
                let waits = waits.filter(|(in_flight, _)| *in_flight > 0);
                let longest = waits.map(|(_, since)| now.saturating_sub(since)).max();
                if let Some(longest) = longest.filter(|longest| *longest > limit) {
                    let braked = &mut self.each[job].tally.braked_ns;
                    *braked = (*braked).max(Some(longest));
                    making.stop.store(true, Ordering::Relaxed);
                }
            }
        }
        making.stop.load(Ordering::Relaxed) && self.stopped.get_or_insert_with(Instant::now).elapsed() > GRACE
    }

    /// Takes what the lanes have counted that do not come back.
    fn give_up(&mut self) {
        let now = self.clock.elapsed().as_nanos() as u64;
        for (job, lanes) in self.at_work.iter_mut().enumerate() {
            for lane in lanes.drain(..) {
                let outcome = &mut self.each[job];
                outcome.tally.merge(&self.shown[job].of_lost(lane, now));
                outcome.engine = if outcome.engine.is_empty() { "threads" } else { outcome.engine };
            }
            if self.ended[job].is_zero() {
                let stopped = self.stopped.unwrap_or_else(Instant::now);
                self.ended[job] = stopped.saturating_duration_since(self.begin);
            }
        }
    }

    /// Looks at the lanes of all jobs that go on.
    fn look(&mut self) -> LiveInterval {
        let now_s = self.begin.elapsed().as_secs_f64();
        let mut all = LiveInterval::default();
        for (number, course) in self.courses.iter_mut().enumerate().filter(|(n, _)| !self.at_work[*n].is_empty()) {
            let kept = (self.jobs[number].from().as_secs_f64(), self.jobs[number].until().as_secs_f64());
            let stretch = course.look(now_s, kept, &self.shown[number].live);
            all.seconds = all.seconds.max(stretch.seconds);
            all.seen.join(&stretch.seen);
        }
        let then_s = now_s - all.seconds;
        if then_s >= self.from.as_secs_f64() && then_s < self.until.as_secs_f64() {
            self.whole.keep(&all);
        }
        self.bytes += all.seen.bytes;
        all
    }

    /// How much of the run is over: by time, or by what there is to ask for.
    fn share(&self) -> f64 {
        let by_time = self.begin.elapsed().as_secs_f64() / self.until.as_secs_f64();
        let bytes: Option<u64> = self.jobs.iter().map(|j| j.pattern.most_bytes).sum();
        let by_bytes = bytes.map_or(0.0, |bytes| self.bytes as f64 / (bytes as f64).max(1.0));
        by_time.max(by_bytes).min(1.0)
    }

    fn finish(mut self, making: &RunConfig) -> Outcomes {
        let stopped = making.stop.load(Ordering::Relaxed);
        let several = self.jobs.len() > 1;
        let last = self.ended.iter().zip(self.jobs).map(|(e, j)| (*e).min(j.until())).max().unwrap_or_default();
        let mut all =
            RunOutcome { seconds: last.saturating_sub(self.from).as_secs_f64(), stopped, ..RunOutcome::default() };
        self.watch.finish(&mut all);
        for (number, (outcome, course)) in self.each.iter_mut().zip(self.courses).enumerate() {
            let job = &self.jobs[number];
            let measured = self.ended[number].saturating_sub(job.from()).min(job.pattern.lasts);
            outcome.seconds = measured.as_secs_f64();
            outcome.course = course.finish();
            outcome.stopped = stopped;
            (outcome.cpu_s, outcome.kernel) =
                if several { (f64::NAN, Kernel::default()) } else { (all.cpu_s, all.kernel) };
            if several {
                let later = (job.from() - self.from).as_nanos() / u128::from(SLICE_NS);
                let mut tally = outcome.tally.clone();
                tally.slices.splice(0..0, (0..later).map(|_| (0, 0)));
                all.tally.merge(&tally);
                all.lanes += outcome.lanes;
                all.engine = outcome.engine;
                add_notes(&mut all.engine_notes, outcome.engine_notes.clone());
            }
        }
        all.course = self.whole.finish();
        Outcomes { each: self.each, all: several.then_some(all) }
    }
}

/// Adds sentences that are not there yet: lanes often say the same.
fn add_notes(to: &mut Vec<String>, notes: Vec<String>) {
    for note in notes {
        if !to.contains(&note) {
            to.push(note);
        }
    }
}

/// What a run shows to be no measurement at all.
fn verdict(target: &ProbeTarget, making: &RunConfig, outcome: &RunOutcome) -> Result<(), ProbeError> {
    let tally = &outcome.tally;
    if let (Some(ns), Some(limit)) = (tally.braked_ns, making.brake) {
        let (target, limit) = (target.name.clone(), limit.as_secs_f64());
        return Err(ProbeError::Brake { target, seconds: ns as f64 * 1e-9, limit, answered: tally.unanswered == 0 });
    }
    if let (0, Some(&(number, _))) = (tally.reads.requests + tally.writes.requests, tally.errors.first()) {
        let source = io::Error::from_raw_os_error(number);
        return Err(ProbeError::Failing { target: target.name.clone(), failed: tally.failed(), source });
    }
    if tally.reads.requests + tally.writes.requests == 0 && tally.short > 0 {
        let because = format!("every reply was shorter than requested ({}): it has become smaller", tally.short);
        return Err(ProbeError::Target { target: target.name.clone(), because });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{Pace, Placement};
    use crate::target::TargetOptions;

    fn measure(engine: EngineKind, pattern: &Pattern) -> RunOutcome {
        let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let take = TargetOptions { bytes: Some(8 << 20), writes: pattern.writes(), ..TargetOptions::default() };
        let target = ProbeTarget::take(&folder.path().join("probe.dat"), &take, &mut |_, _| true).unwrap();
        let making = RunConfig { engine, lanes: 2, brake: None, stop: Arc::default() };
        run(&target, pattern, &making, &mut |_, _| {}).unwrap()
    }

    #[test]
    fn both_engines_read_and_write_a_real_file() {
        let short = Duration::from_millis(200);
        let one = Pattern { read_share: 0.5, ramp: Duration::ZERO, lasts: short, ..Pattern::random_reads(4096, 8) };
        for engine in [EngineKind::Best, EngineKind::Threads] {
            let outcome = measure(engine, &one);
            let tally = &outcome.tally;
            assert!(tally.reads.requests > 0 && tally.writes.requests > 0, "{engine:?}: {tally:?}");
            assert_eq!(tally.reads.bytes, tally.reads.requests * 4096);
            assert!(tally.errors.is_empty() && tally.short == 0, "{:?}", tally.errors);
            // random requests without a ring are a thread each
            let lanes = if outcome.engine == "threads" { 8 } else { 2 };
            assert_eq!(outcome.lanes, lanes);
            assert!(engine == EngineKind::Best || outcome.engine == "threads");
        }
    }

    #[test]
    fn jobs_run_at_the_same_time_and_are_counted_apart() {
        let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let take = TargetOptions { bytes: Some(8 << 20), writes: true, ..TargetOptions::default() };
        let target = |name: &str| ProbeTarget::take(&folder.path().join(name), &take, &mut |_, _| true).unwrap();
        let (one, two) = (target("one"), target("two"));
        let lasts = Duration::from_secs(60);
        let bytes = Some(1 << 20);
        let reads = Pattern { ramp: Duration::ZERO, lasts, most_bytes: bytes, ..Pattern::random_reads(4096, 2) };
        let writes = Pattern { read_share: 0.0, sizes: vec![(8192, 1.0)], ..reads.clone() };
        let jobs = [
            RunJob { pattern: &reads, target: &one, after: Duration::ZERO },
            RunJob { pattern: &writes, target: &two, after: Duration::from_millis(600) },
        ];
        let making = RunConfig { engine: EngineKind::Best, lanes: 2, brake: None, stop: Arc::default() };
        let done = run_jobs(&jobs, &making, &mut |_, _| {}).unwrap();
        let counts = |o: &RunOutcome| (o.tally.reads.requests, o.tally.writes.requests);
        assert_eq!([counts(&done.each[0]), counts(&done.each[1])], [(256, 0), (0, 128)]);
        let all = done.all.unwrap();
        assert_eq!((counts(&all), all.tally.writes.bytes, all.lanes), ((256, 128), 1 << 20, 2));
        // the second is counted where it stood in time
        assert!((0.6..60.0).contains(&all.seconds), "{}", all.seconds);
        assert!(all.tally.slices.len() > 6, "{:?}", all.tally.slices);
        assert_eq!(all.tally.slices.iter().map(|s| s.0).sum::<u64>(), 384);
        assert!(done.each[0].cpu_s.is_nan() && all.cpu_s.is_finite());
    }

    #[test]
    fn a_run_ends_when_all_was_asked_for() {
        let bytes = 1 << 20;
        let one = Pattern {
            most_bytes: Some(bytes),
            ramp: Duration::ZERO,
            lasts: Duration::from_secs(60),
            ..Pattern::random_reads(4096, 4)
        };
        let outcome = measure(EngineKind::Best, &one);
        assert_eq!(outcome.tally.reads.bytes, bytes);
        assert!(outcome.seconds < 30.0, "{}", outcome.seconds);
    }

    #[test]
    fn a_pace_is_dealt_out_whole() {
        let depths = |depth, lanes| -> Vec<u32> {
            let one = |p: Pace| if let Pace::Closed { depth } = p { depth } else { 0 };
            shares(&Pace::Closed { depth }, lanes).into_iter().map(one).collect()
        };
        assert_eq!(depths(7, 2), [4, 3]);
        assert_eq!(depths(1, 8), [1]);
    }

    #[test]
    fn a_sequential_pattern_is_one_stream_on_any_number_of_processors() {
        let making = RunConfig { engine: EngineKind::Best, lanes: 8, brake: None, stop: Arc::default() };
        let random = Pattern::random_reads(65_536, 8);
        let sequential = Pattern { placement: Placement::Sequential { streams: 1 }, ..random.clone() };
        assert!(lane::lanes(&random, &making, 1) >= 8);
        assert_eq!(shares(&sequential.pace, lane::lanes(&sequential, &making, 1)), [Pace::Closed { depth: 8 }]);
    }

    #[test]
    fn a_pattern_that_does_not_fit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let take = TargetOptions { bytes: Some(1 << 20), ..TargetOptions::default() };
        let target = ProbeTarget::take(&folder.path().join("p"), &take, &mut |_, _| true).unwrap();
        let making = RunConfig { engine: EngineKind::Best, lanes: 1, brake: None, stop: Arc::default() };
        for (pattern, expected) in [
            (Pattern { sizes: vec![(1000, 1.0)], ..Pattern::random_reads(4096, 1) }, "sector"),
            (Pattern { sizes: vec![(4 << 20, 1.0)], ..Pattern::random_reads(4096, 1) }, "does not fit"),
            (Pattern::random_reads(4096, 0), "depth"),
        ] {
            let said = run(&target, &pattern, &making, &mut |_, _| {}).unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
        }
    }
}
