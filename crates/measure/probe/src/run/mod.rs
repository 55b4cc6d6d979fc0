//! A run: jobs at the same time, each a pattern on a target, with the processor time and the kernel's
//! counts of that time. Each job has its own workers.

mod run_watch;
mod worker_thread;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::error::ProbeError;
use crate::live::{LiveInterval, LiveTimeline};
use crate::pattern::{Durability, Pattern};
use crate::tally::{SLICE_NS, WorkerTally};
use crate::target::ProbeTarget;
use run_watch::RunWatch;
use worker_thread::{JobView, StartGate, WorkerResult, WorkerSetup, split_pace};

/// Choice of the I/O engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// io_uring if available, threads otherwise.
    #[default]
    Best,
    /// Threads, even if io_uring is available.
    Threads,
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// The engine.
    pub engine: EngineKind,
    /// Largest number of workers; one per core is enough.
    pub workers: u32,
    /// Response limit for a device that others use: a slower response ends the whole measurement.
    pub brake: Option<Duration>,
    /// Ends the run when it is set; the counts so far are kept.
    pub stop: Arc<AtomicBool>,
}

/// Outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct RunOutcome {
    /// All counts.
    pub tally: WorkerTally,
    /// Measured time, seconds; less than requested if it was stopped.
    pub seconds: f64,
    /// `io_uring` or `threads`.
    pub engine: &'static str,
    /// Sentences about what limited the engine, or why it did not reach the requested depth.
    pub engine_notes: Vec<String>,
    /// Number of workers that ran.
    pub workers: u32,
    /// Processor time of this process while measuring, seconds. NaN for one of several jobs, whose
    /// shares cannot be separated.
    pub cpu_s: f64,
    /// Counts of the kernel while measuring, ramp included.
    pub kernel: KernelCounts,
    /// Bytes that the kernel read from disks for this process, ramp included, if they were recorded
    /// (see [`crate::bench`]).
    pub disk_read_bytes: Option<f64>,
    /// [`RunConfig::stop`] was set before the run ended.
    pub stopped: bool,
    /// Work done in each interval of the measured time.
    pub timeline: Vec<LiveInterval>,
}

/// Counts of the kernel for the whole machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelCounts {
    /// Seconds between the two readings.
    pub seconds: f64,
    /// Interrupts without those of clock and network.
    pub interrupts: Option<f64>,
    /// Interrupts of every kind.
    pub all_interrupts: Option<f64>,
    /// Context switches.
    pub context_switches: Option<f64>,
}

/// Receives progress: the finished share of the run's time, and the counts since the last call.
pub type RunProgress<'a> = dyn FnMut(f64, &LiveInterval) + 'a;

/// A job of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunJob<'a> {
    /// The requests to make; the name of the pattern is that of the job.
    pub pattern: &'a Pattern,
    /// The target of the requests.
    pub target: &'a ProbeTarget,
    /// Time from the run's start to the job's.
    pub start_delay: Duration,
}

impl RunJob<'_> {
    /// Returns when measuring begins, from the run's start.
    fn measure_start(&self) -> Duration {
        self.start_delay + self.pattern.ramp
    }

    /// Returns when the job ends, from the run's start.
    fn measure_end(&self) -> Duration {
        self.measure_start().saturating_add(self.pattern.duration)
    }
}

/// Outcomes of several jobs.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    /// Outcome of each job, in the order of the jobs.
    pub each: Vec<RunOutcome>,
    /// Total of all jobs if there is more than one: from the first start of measuring to the last
    /// end.
    pub all: Option<RunOutcome>,
}

/// Measures a pattern on a target.
///
/// # Errors
/// If the pattern does not fit the target, if the system refuses, or if requests fail and none
/// succeeds.
pub fn run(
    target: &ProbeTarget,
    pattern: &Pattern,
    config: &RunConfig,
    progress: &mut RunProgress<'_>,
) -> Result<RunOutcome, ProbeError> {
    let job = RunJob { pattern, target, start_delay: Duration::ZERO };
    Ok(run_jobs(&[job], config, progress)?.each.into_iter().next().unwrap_or_default())
}

/// Message of a worker at its end: index of its job, index of the worker in the job, and its counts or its error.
type WorkerReport = (usize, usize, io::Result<WorkerResult>);

/// Time that a stopped run waits for its threads before it abandons them.
pub(crate) const STOP_GRACE: Duration = Duration::from_millis(400);
/// Number of checks within the response limit of a device in use.
const CHECKS_PER_BRAKE_LIMIT: u32 = 4;

impl RunConfig {
    /// Returns the interval between checks of whether a device in use responds, at most `interval`.
    pub(crate) fn poll_interval(&self, interval: Duration) -> Duration {
        self.brake
            .map_or(interval, |brake| interval.min((brake / CHECKS_PER_BRAKE_LIMIT).max(Duration::from_millis(1))))
    }
}

/// Measures several patterns at the same time.
///
/// # Errors
/// As [`run`], for the first job that has any.
pub fn run_jobs(
    jobs: &[RunJob<'_>],
    config: &RunConfig,
    progress: &mut RunProgress<'_>,
) -> Result<Outcomes, ProbeError> {
    let mut work = Vec::new();
    for job in jobs {
        let (pattern, target) = (job.pattern, job.target);
        if let Some(because) = pattern.find_fault(target.sector, target.bytes) {
            return Err(ProbeError::Pattern { name: pattern.name.clone(), because });
        }
        let paces = split_pace(&pattern.pace, worker_thread::worker_count(pattern, config, jobs.len() as u32));
        let open = |_: &_| target.open(pattern.has_writes(), pattern.buffered, pattern.durable == Durability::Dsync);
        let files = paces.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        work.push(paces.into_iter().zip(files).collect::<Vec<_>>());
    }
    let views: Vec<Arc<JobView>> = work.iter().map(|workers| Arc::new(JobView::new(workers.len()))).collect();
    let (start_gate, clock_start) = (Arc::new(StartGate::default()), Instant::now());
    let (sender, receiver) = channel::<WorkerReport>();
    let mut threads = Vec::new();
    for (job_index, (job, workers)) in jobs.iter().zip(work).enumerate() {
        let worker_count = workers.len() as u32;
        for (worker, (pace, file)) in workers.into_iter().enumerate() {
            let setup = WorkerSetup {
                pattern: job.pattern.clone(),
                target_bytes: job.target.bytes,
                start_delay: job.start_delay,
                config: config.clone(),
                start_gate: Arc::clone(&start_gate),
                view: Arc::clone(&views[job_index]),
                worker_index: worker as u32,
                worker_count,
                clock_start,
            };
            let worker_sender = sender.clone();
            let spawned = std::thread::Builder::new().spawn(move || {
                // if the worker was abandoned, the receiver is gone
                let _ = worker_sender.send((job_index, worker, setup.run(&pace, file)));
            });
            match spawned {
                Ok(thread) => threads.push(thread),
                // sending cannot fail: the receiver still exists
                Err(error) => drop(sender.send((job_index, worker, Err(error)))),
            }
        }
    }
    drop(sender);
    let watch = RunWatch::start();
    start_gate.open(threads.len());
    let (outcomes, has_lost_workers) =
        RunMonitor::new(jobs, &views, watch, clock_start).wait_for_workers(&receiver, config, progress)?;
    if !has_lost_workers {
        // the ends of the threads close their files; a worker that panicked has printed its message
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
    for (job, outcome) in jobs.iter().zip(&outcomes.each) {
        check_outcome(job.target, config, outcome)?;
    }
    Ok(outcomes)
}

/// Monitors a run from its start: receives the workers' reports and gathers their results.
struct RunMonitor<'a> {
    jobs: &'a [RunJob<'a>],
    /// State of the workers of each job.
    views: &'a [Arc<JobView>],
    watch: RunWatch,
    /// Start of the run.
    start: Instant,
    /// Zero of the engines' clocks.
    clock_start: Instant,
    /// Time at which a stop was noticed.
    stopped_at: Option<Instant>,
    /// First start of measuring of all jobs, from the run's start.
    measure_from: Duration,
    /// Last end of all jobs, from the run's start.
    measure_until: Duration,
    /// Timeline of each job.
    timelines: Vec<LiveTimeline>,
    combined_timeline: LiveTimeline,
    /// Bytes that all jobs transferred so far.
    bytes_done: u64,
    /// Outcome of each job.
    outcomes: Vec<RunOutcome>,
    /// Indexes of the workers of each job that still run.
    running_workers: Vec<Vec<usize>>,
    /// End of each job, from the run's start; zero while unknown.
    job_ends: Vec<Duration>,
}

impl<'a> RunMonitor<'a> {
    fn new(jobs: &'a [RunJob<'a>], views: &'a [Arc<JobView>], watch: RunWatch, clock_start: Instant) -> RunMonitor<'a> {
        let outcome = |view: &Arc<JobView>| RunOutcome { workers: view.live.len() as u32, ..RunOutcome::default() };
        RunMonitor {
            jobs,
            views,
            watch,
            start: Instant::now(),
            clock_start,
            stopped_at: None,
            measure_from: jobs.iter().map(RunJob::measure_start).min().unwrap_or_default(),
            measure_until: jobs.iter().map(RunJob::measure_end).max().unwrap_or_default(),
            timelines: jobs.iter().map(|_| LiveTimeline::default()).collect(),
            combined_timeline: LiveTimeline::default(),
            bytes_done: 0,
            outcomes: views.iter().map(outcome).collect(),
            running_workers: views.iter().map(|view| (0..view.live.len()).collect()).collect(),
            job_ends: vec![Duration::ZERO; jobs.len()],
        }
    }

    /// Waits for the reports of all workers. Returns the outcomes, and whether any worker or request was abandoned.
    fn wait_for_workers(
        mut self,
        receiver: &std::sync::mpsc::Receiver<WorkerReport>,
        config: &RunConfig,
        progress: &mut RunProgress<'_>,
    ) -> Result<(Outcomes, bool), ProbeError> {
        let (mut failed, mut lost) = (None, false);
        while self.running_workers.iter().any(|workers| !workers.is_empty()) {
            match receiver.recv_timeout(self.poll_interval(config)) {
                Ok((job, worker, result)) => {
                    self.running_workers[job].retain(|running| *running != worker);
                    match result {
                        Ok(result) => {
                            // by the worker's clock, because this thread may have started late
                            let measured = Duration::from_nanos(result.tally.measured_ns);
                            self.job_ends[job] = self.job_ends[job].max(self.jobs[job].measure_start() + measured);
                            let outcome = &mut self.outcomes[job];
                            lost |= result.tally.unanswered > 0;
                            outcome.tally.merge_worker(&result.tally);
                            outcome.engine = result.engine;
                            add_notes(&mut outcome.engine_notes, result.notes);
                        }
                        Err(e) => {
                            // without this worker, the others would measure another load
                            config.stop.store(true, Ordering::Relaxed);
                            failed =
                                failed.or(Some(ProbeError::io(&self.jobs[job].target.name, "the engine failed", e)));
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let interval = self.sample_workers();
                    progress(self.progress_share(), &interval);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.watch.update_boundaries(self.start.elapsed(), self.measure_from, self.measure_until);
            if self.must_give_up(config) {
                self.abandon_workers();
                lost = true;
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok((self.into_outcomes(config), lost)),
        }
    }

    /// Returns how long to wait at most for a worker's report.
    fn poll_interval(&self, config: &RunConfig) -> Duration {
        config.poll_interval(self.watch.time_to_next_boundary(
            self.start.elapsed(),
            self.measure_from,
            self.measure_until,
        ))
    }

    /// Returns whether the run was stopped and its workers have not ended in time. Also stops the run
    /// if a worker waits longer than the response limit: a worker inside a system call cannot check the
    /// limit itself.
    fn must_give_up(&mut self, config: &RunConfig) -> bool {
        let now = self.clock_start.elapsed().as_nanos() as u64;
        let is_stopped = config.stop.load(Ordering::Relaxed);
        if let Some(limit) = config.brake.map(|brake| brake.as_nanos() as u64).filter(|_| !is_stopped) {
            for (job, view) in self.views.iter().enumerate() {
                let waiting = self.running_workers[job].iter().map(|worker| view.live[*worker].in_flight_since());
                let waiting = waiting.filter(|(in_flight, _)| *in_flight > 0);
                let longest = waiting.map(|(_, since)| now.saturating_sub(since)).max();
                if let Some(longest) = longest.filter(|longest| *longest > limit) {
                    let braked = &mut self.outcomes[job].tally.braked_ns;
                    *braked = (*braked).max(Some(longest));
                    config.stop.store(true, Ordering::Relaxed);
                }
            }
        }
        config.stop.load(Ordering::Relaxed) && self.stopped_at.get_or_insert_with(Instant::now).elapsed() > STOP_GRACE
    }

    /// Takes the parked counts of the workers that still run, and gives these workers up.
    fn abandon_workers(&mut self) {
        let now = self.clock_start.elapsed().as_nanos() as u64;
        for (job, workers) in self.running_workers.iter_mut().enumerate() {
            for worker in workers.drain(..) {
                let outcome = &mut self.outcomes[job];
                outcome.tally.merge_worker(&self.views[job].take_lost_tally(worker, now));
                outcome.engine = if outcome.engine.is_empty() { "threads" } else { outcome.engine };
            }
            if self.job_ends[job].is_zero() {
                let stopped = self.stopped_at.unwrap_or_else(Instant::now);
                self.job_ends[job] = stopped.saturating_duration_since(self.start);
            }
        }
    }

    /// Samples the workers of all running jobs, and returns their common counts since the last sample.
    fn sample_workers(&mut self) -> LiveInterval {
        let now_s = self.start.elapsed().as_secs_f64();
        let mut combined = LiveInterval::default();
        for (index, timeline) in
            self.timelines.iter_mut().enumerate().filter(|(index, _)| !self.running_workers[*index].is_empty())
        {
            let job = &self.jobs[index];
            let measured = (job.measure_start().as_secs_f64(), job.measure_end().as_secs_f64());
            let interval = timeline.sample_workers(now_s, measured, &self.views[index].live);
            combined.seconds = combined.seconds.max(interval.seconds);
            combined.totals.merge_totals(&interval.totals);
        }
        let begin_s = now_s - combined.seconds;
        if begin_s >= self.measure_from.as_secs_f64() && begin_s < self.measure_until.as_secs_f64() {
            self.combined_timeline.add_interval(&combined);
        }
        self.bytes_done += combined.totals.bytes;
        combined
    }

    /// Returns the finished share of the run, by time or by bytes, whichever is larger.
    fn progress_share(&self) -> f64 {
        let by_time = self.start.elapsed().as_secs_f64() / self.measure_until.as_secs_f64();
        let bytes: Option<u64> = self.jobs.iter().map(|j| j.pattern.max_bytes).sum();
        let by_bytes = bytes.map_or(0.0, |bytes| self.bytes_done as f64 / (bytes as f64).max(1.0));
        by_time.max(by_bytes).min(1.0)
    }

    fn into_outcomes(mut self, config: &RunConfig) -> Outcomes {
        let stopped = config.stop.load(Ordering::Relaxed);
        let has_several = self.jobs.len() > 1;
        let last_end =
            self.job_ends.iter().zip(self.jobs).map(|(e, j)| (*e).min(j.measure_end())).max().unwrap_or_default();
        let mut all = RunOutcome {
            seconds: last_end.saturating_sub(self.measure_from).as_secs_f64(),
            stopped,
            ..RunOutcome::default()
        };
        self.watch.fill_outcome(&mut all);
        for (index, (outcome, timeline)) in self.outcomes.iter_mut().zip(self.timelines).enumerate() {
            let job = &self.jobs[index];
            let measured = self.job_ends[index].saturating_sub(job.measure_start()).min(job.pattern.duration);
            outcome.seconds = measured.as_secs_f64();
            outcome.timeline = timeline.into_intervals();
            outcome.stopped = stopped;
            (outcome.cpu_s, outcome.kernel) =
                if has_several { (f64::NAN, KernelCounts::default()) } else { (all.cpu_s, all.kernel) };
            if has_several {
                // slices count from the first start of all jobs
                let delay_slices = (job.measure_start() - self.measure_from).as_nanos() / u128::from(SLICE_NS);
                let mut tally = outcome.tally.clone();
                tally.slices.splice(0..0, (0..delay_slices).map(|_| (0, 0)));
                all.tally.merge_worker(&tally);
                all.workers += outcome.workers;
                all.engine = outcome.engine;
                add_notes(&mut all.engine_notes, outcome.engine_notes.clone());
            }
        }
        all.timeline = self.combined_timeline.into_intervals();
        Outcomes { each: self.outcomes, all: has_several.then_some(all) }
    }
}

/// Adds notes that the list does not have yet: workers often report the same.
fn add_notes(list: &mut Vec<String>, notes: Vec<String>) {
    for note in notes {
        if !list.contains(&note) {
            list.push(note);
        }
    }
}

/// Returns an error if a run is no valid measurement.
fn check_outcome(target: &ProbeTarget, config: &RunConfig, outcome: &RunOutcome) -> Result<(), ProbeError> {
    let tally = &outcome.tally;
    if let (Some(ns), Some(limit)) = (tally.braked_ns, config.brake) {
        let (target, limit) = (target.name.clone(), limit.as_secs_f64());
        return Err(ProbeError::Brake { target, seconds: ns as f64 * 1e-9, limit, answered: tally.unanswered == 0 });
    }
    if let (0, Some(&(number, _))) = (tally.reads.requests + tally.writes.requests, tally.errors.first()) {
        let source = io::Error::from_raw_os_error(number);
        return Err(ProbeError::Failing { target: target.name.clone(), failed: tally.failed_requests(), source });
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
        let options = TargetOptions { bytes: Some(8 << 20), writes: pattern.has_writes(), ..TargetOptions::default() };
        let target = ProbeTarget::open_or_create(&folder.path().join("probe.dat"), &options, &mut |_, _| true).unwrap();
        let config = RunConfig { engine, workers: 2, brake: None, stop: Arc::default() };
        run(&target, pattern, &config, &mut |_, _| {}).unwrap()
    }

    #[test]
    fn both_engines_read_and_write_a_real_file() {
        let short = Duration::from_millis(200);
        let one = Pattern { read_share: 0.5, ramp: Duration::ZERO, duration: short, ..Pattern::random_reads(4096, 8) };
        for engine in [EngineKind::Best, EngineKind::Threads] {
            let outcome = measure(engine, &one);
            let tally = &outcome.tally;
            assert!(tally.reads.requests > 0 && tally.writes.requests > 0, "{engine:?}: {tally:?}");
            assert_eq!(tally.reads.bytes, tally.reads.requests * 4096);
            assert!(tally.errors.is_empty() && tally.short == 0, "{:?}", tally.errors);
            // random requests without a ring get one thread each
            let workers = if outcome.engine == "threads" { 8 } else { 2 };
            assert_eq!(outcome.workers, workers);
            assert!(engine == EngineKind::Best || outcome.engine == "threads");
        }
    }

    #[test]
    fn jobs_run_at_the_same_time_and_are_counted_apart() {
        let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let options = TargetOptions { bytes: Some(8 << 20), writes: true, ..TargetOptions::default() };
        let target =
            |name: &str| ProbeTarget::open_or_create(&folder.path().join(name), &options, &mut |_, _| true).unwrap();
        let (one, two) = (target("one"), target("two"));
        let lasts = Duration::from_secs(60);
        let bytes = Some(1 << 20);
        let reads =
            Pattern { ramp: Duration::ZERO, duration: lasts, max_bytes: bytes, ..Pattern::random_reads(4096, 2) };
        let writes = Pattern { read_share: 0.0, sizes: vec![(8192, 1.0)], ..reads.clone() };
        let jobs = [
            RunJob { pattern: &reads, target: &one, start_delay: Duration::ZERO },
            RunJob { pattern: &writes, target: &two, start_delay: Duration::from_millis(600) },
        ];
        let config = RunConfig { engine: EngineKind::Best, workers: 2, brake: None, stop: Arc::default() };
        let done = run_jobs(&jobs, &config, &mut |_, _| {}).unwrap();
        let counts = |o: &RunOutcome| (o.tally.reads.requests, o.tally.writes.requests);
        assert_eq!([counts(&done.each[0]), counts(&done.each[1])], [(256, 0), (0, 128)]);
        let all = done.all.unwrap();
        assert_eq!((counts(&all), all.tally.writes.bytes, all.workers), ((256, 128), 1 << 20, 2));
        // the second is counted where it stood in time
        assert!((0.6..60.0).contains(&all.seconds), "{}", all.seconds);
        assert!(all.tally.slices.len() > 6, "{:?}", all.tally.slices);
        assert_eq!(all.tally.slices.iter().map(|s| s.0).sum::<u64>(), 384);
        assert!(done.each[0].cpu_s.is_nan() && all.cpu_s.is_finite());
    }

    #[test]
    fn a_run_ends_at_its_byte_limit() {
        let bytes = 1 << 20;
        let one = Pattern {
            max_bytes: Some(bytes),
            ramp: Duration::ZERO,
            duration: Duration::from_secs(60),
            ..Pattern::random_reads(4096, 4)
        };
        let outcome = measure(EngineKind::Best, &one);
        assert_eq!(outcome.tally.reads.bytes, bytes);
        assert!(outcome.seconds < 30.0, "{}", outcome.seconds);
    }

    #[test]
    fn splitting_a_pace_keeps_its_total() {
        let depths = |depth, workers| -> Vec<u32> {
            let depth_of = |p: Pace| if let Pace::Closed { depth } = p { depth } else { 0 };
            split_pace(&Pace::Closed { depth }, workers).into_iter().map(depth_of).collect()
        };
        assert_eq!(depths(7, 2), [4, 3]);
        assert_eq!(depths(1, 8), [1]);
    }

    #[test]
    fn a_sequential_pattern_is_one_stream_on_any_number_of_processors() {
        let config = RunConfig { engine: EngineKind::Best, workers: 8, brake: None, stop: Arc::default() };
        let random = Pattern::random_reads(65_536, 8);
        let sequential = Pattern { placement: Placement::Sequential { streams: 1 }, ..random.clone() };
        let pareto = Pattern { placement: Placement::Pareto { power: 0.2 }, ..random.clone() };
        assert!(worker_thread::worker_count(&random, &config, 1) >= 8);
        let threads = RunConfig { engine: EngineKind::Threads, ..config.clone() };
        let count = |pattern| worker_thread::worker_count(pattern, &threads, 1);
        assert_eq!((count(&pareto), count(&sequential)), (count(&random), 1));
        assert_eq!(
            split_pace(&sequential.pace, worker_thread::worker_count(&sequential, &config, 1)),
            [Pace::Closed { depth: 8 }]
        );
    }

    #[test]
    fn a_pattern_that_does_not_fit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let options = TargetOptions { bytes: Some(1 << 20), ..TargetOptions::default() };
        let target = ProbeTarget::open_or_create(&folder.path().join("p"), &options, &mut |_, _| true).unwrap();
        let config = RunConfig { engine: EngineKind::Best, workers: 1, brake: None, stop: Arc::default() };
        for (pattern, expected) in [
            (Pattern { sizes: vec![(1000, 1.0)], ..Pattern::random_reads(4096, 1) }, "sector"),
            (Pattern { sizes: vec![(4 << 20, 1.0)], ..Pattern::random_reads(4096, 1) }, "does not fit"),
            (Pattern::random_reads(4096, 0), "depth"),
        ] {
            let message = run(&target, &pattern, &config, &mut |_, _| {}).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
