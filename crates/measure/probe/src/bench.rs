//! Targets of suites: a [`Bench`] measures runs and series. One implementation uses real targets,
//! one uses fake devices in tests, and one only adds up the time that a suite will take.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::engine::{Action, BufferSpec, Completion, IoEngine, Op, WaitFor, ring::Ring, threads::ThreadEngine};
use crate::error::ProbeError;
use crate::live::{LiveCounters, LiveInterval};
use crate::page_cache;
use crate::pattern::Pattern;
use crate::run::{EngineKind, Outcomes, RunConfig, RunJob, RunOutcome, STOP_GRACE, run_jobs};

use crate::target::ProbeTarget;

/// Interval at which a series checks whether it must end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The same interval in nanoseconds, for the engine's clock.
const POLL_INTERVAL_NS: u64 = POLL_INTERVAL.as_nanos() as u64;

/// A run to measure, and its target.
#[derive(Clone, Copy)]
pub struct BenchJob<'a> {
    /// Index of the target: 0 for the target itself, from 1 on for its members.
    pub target_index: usize,
    /// The requests to make.
    pub pattern: &'a Pattern,
}

/// One request of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesStep {
    /// True for a write, false for a read.
    pub write: bool,
    /// First byte.
    pub offset: u64,
    /// Length, bytes.
    pub length: u32,
    /// Pause between the previous completion and this request, nanoseconds.
    pub pause_ns: u64,
}

/// Single requests sent one after another, each with its own times. They show when each request
/// completes, which a distribution of latencies cannot.
#[derive(Clone, Debug)]
pub struct RequestSeries {
    /// Name in the results.
    pub name: String,
    /// The requests in order.
    pub steps: Vec<SeriesStep>,
    /// Requests go through the page cache.
    pub buffered: bool,
    /// Writes complete when they are durable (O_DSYNC).
    pub durable: bool,
    /// The series ends after this time, even if steps are left.
    pub max_duration: Duration,
}

impl RequestSeries {
    /// Largest request, bytes.
    pub fn max_request_bytes(&self) -> u32 {
        self.steps.iter().map(|s| s.length).max().unwrap_or(0)
    }
}

/// Start and end of a request of a series, in nanoseconds on one clock for all requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTimes {
    /// Time of submission.
    pub start_ns: u64,
    /// Time of completion.
    pub end_ns: u64,
}

impl RequestTimes {
    /// Time that the request took, seconds.
    pub fn duration_s(&self) -> f64 {
        self.end_ns.saturating_sub(self.start_ns) as f64 * 1e-9
    }
}

/// Measures runs and series.
pub trait Bench {
    /// Measures runs at the same time, each on its target.
    ///
    /// # Errors
    /// The error of the first run that failed.
    fn measure_jobs(&mut self, jobs: &[BenchJob<'_>]) -> Result<Outcomes, ProbeError>;

    /// Returns the name of a target; empty if there is none with this index.
    fn name(&self, target_index: usize) -> String;

    /// Measures a series on the target; returns its times and the name of the engine.
    ///
    /// # Errors
    /// If a request fails, or is slower than the limit for devices in use.
    fn measure_series(&mut self, series: &RequestSeries) -> Result<(Vec<RequestTimes>, &'static str), ProbeError>;
}

/// Sends the requests of a series to an engine, until the series is complete, its maximum duration is
/// over, or `stop` is set. After a stop, a request in flight is abandoned, and `live` still shows it.
///
/// # Errors
/// If the engine or a request fails, or a request transfers less than requested.
pub fn run_series<E: IoEngine>(
    engine: &mut E,
    series: &RequestSeries,
    stop: &AtomicBool,
    live: &LiveCounters,
) -> io::Result<Vec<RequestTimes>> {
    let mut times = Vec::with_capacity(series.steps.len());
    let mut completions: Vec<Completion> = Vec::new();
    let begin = engine.now();
    let until = begin + u64::try_from(series.max_duration.as_nanos()).unwrap_or(u64::MAX / 4);
    for step in &series.steps {
        let mut now = engine.now();
        let due = now + step.pause_ns;
        while now < due {
            if stop.load(Ordering::Relaxed) {
                return Ok(times);
            }
            engine.submit_and_wait(WaitFor::Until(due.min(now + POLL_INTERVAL_NS)), &mut completions)?;
            now = engine.now();
        }
        if now >= until || stop.load(Ordering::Relaxed) {
            break;
        }
        let action = if step.write { Action::Write } else { Action::Read };
        engine.queue_op(Op { slot: 0, action, offset: step.offset, length: step.length });
        live.set_in_flight(1, now);
        let mut next_check = now + POLL_INTERVAL_NS;
        while completions.is_empty() {
            engine.submit_and_wait(WaitFor::Until(next_check), &mut completions)?;
            if completions.is_empty() && stop.load(Ordering::Relaxed) {
                return Ok(times);
            }
            next_check += POLL_INTERVAL_NS;
        }
        live.set_in_flight(0, 0);
        times.push(RequestTimes { start_ns: now, end_ns: engine.now() });
        if let Some(completion) = completions.pop() {
            match u32::try_from(completion.result) {
                Err(_) => return Err(io::Error::from_raw_os_error(completion.result.wrapping_neg())),
                // if the target has shrunk, a read past its end returns nothing, very fast
                Ok(transferred) if transferred < step.length => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
            }
        }
    }
    Ok(times)
}

/// Runs a series in a separate thread, because a device that never responds would block it for
/// ever.
fn spawn_series(
    series: RequestSeries,
    file: OwnedFd,
    config: &RunConfig,
    live: Arc<LiveCounters>,
    begin: Instant,
) -> io::Result<Receiver<SeriesResult>> {
    let (sender, receiver) = channel();
    let (engine, stop) = (config.engine, Arc::clone(&config.stop));
    std::thread::Builder::new().spawn(move || {
        let writes = series.steps.iter().any(|s| s.write);
        let buffers = BufferSpec { slots: 1, max_request_bytes: series.max_request_bytes(), writes, seed: 1 };
        let ring = match engine {
            EngineKind::Best => file.try_clone().and_then(|file| Ring::new(file, &buffers, begin)),
            EngineKind::Threads => Err(io::ErrorKind::Unsupported.into()),
        };
        let result = match ring {
            Ok(ring) => (run_series_on_engine(ring, &series, &stop, &live), "io_uring"),
            Err(_) => {
                let threads = ThreadEngine::new(file, &buffers, begin);
                (threads.and_then(|engine| run_series_on_engine(engine, &series, &stop, &live)), "threads")
            }
        };
        // if the series was abandoned, the receiver is gone
        let _ = sender.send(result);
    })?;
    Ok(receiver)
}

/// Runs a series and drops its engine; or leaks the engine if a request is still in flight, because
/// dropping would wait for it.
fn run_series_on_engine<E: IoEngine>(
    mut engine: E,
    series: &RequestSeries,
    stop: &AtomicBool,
    live: &LiveCounters,
) -> io::Result<Vec<RequestTimes>> {
    let times = run_series(&mut engine, series, stop, live);
    if live.in_flight_since().0 > 0 {
        std::mem::forget(engine);
    }
    times
}

/// The times of a series, and the name of its engine.
type SeriesResult = (io::Result<Vec<RequestTimes>>, &'static str);

/// Receives the progress: name of the runs, finished share of their time, counts since the last call,
/// and total duration in seconds.
pub type BenchProgress<'a> = dyn FnMut(&str, f64, &LiveInterval, f64) + 'a;

/// Measures on real targets.
pub struct TargetBench<'a> {
    /// The target itself, then its members.
    pub targets: Vec<&'a ProbeTarget>,
    /// Engine, number of workers and limits of every run.
    pub config: &'a RunConfig,
    /// Receives the progress.
    pub progress: &'a mut BenchProgress<'a>,
}

impl TargetBench<'_> {
    fn check_not_stopped(&self) -> Result<(), ProbeError> {
        if self.config.stop.load(Ordering::Relaxed) { Err(ProbeError::Interrupted) } else { Ok(()) }
    }
}

impl<'a> TargetBench<'a> {
    /// Longest time that a response may take, seconds.
    fn response_limit_s(&self) -> f64 {
        self.config.brake.map_or(f64::INFINITY, |b| b.as_secs_f64())
    }

    /// Waits for a series. After a stop, waits only for [`STOP_GRACE`]; for a device in use, only until
    /// its response limit.
    fn wait_for_series(
        &self,
        receiver: &Receiver<SeriesResult>,
        live: &LiveCounters,
        begin: Instant,
        target: &ProbeTarget,
    ) -> Result<SeriesResult, ProbeError> {
        let mut stopped = None;
        loop {
            match receiver.recv_timeout(self.config.poll_interval(POLL_INTERVAL)) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ProbeError::io(
                        &target.name,
                        "a request failed",
                        io::Error::other("its thread is gone"),
                    ));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let (in_flight, since_ns) = live.in_flight_since();
            let seconds = begin.elapsed().saturating_sub(Duration::from_nanos(since_ns)).as_secs_f64();
            let limit = self.response_limit_s();
            if in_flight > 0 && seconds > limit {
                self.config.stop.store(true, Ordering::Relaxed);
                return Err(ProbeError::Brake { target: target.name.clone(), seconds, limit, answered: false });
            }
            if self.config.stop.load(Ordering::Relaxed)
                && stopped.get_or_insert_with(Instant::now).elapsed() > STOP_GRACE
            {
                return Err(ProbeError::Interrupted);
            }
        }
    }

    fn find_target(&self, index: usize) -> Result<&'a ProbeTarget, ProbeError> {
        self.targets.get(index).copied().ok_or_else(|| ProbeError::Target {
            target: format!("member {index}"),
            because: "is not among the given members".into(),
        })
    }
}

impl Bench for TargetBench<'_> {
    fn measure_jobs(&mut self, jobs: &[BenchJob<'_>]) -> Result<Outcomes, ProbeError> {
        self.check_not_stopped()?;
        let mut run_list = Vec::new();
        for job in jobs {
            let target = self.find_target(job.target_index)?;
            if job.pattern.buffered && !job.pattern.warm {
                page_cache::drop_target_pages(target)?;
            }
            run_list.push(RunJob { pattern: job.pattern, target, start_delay: Duration::ZERO });
        }
        let names = jobs.iter().map(|j| j.pattern.name.as_str()).collect::<Vec<_>>().join(" + ");
        let seconds = jobs.iter().map(|j| (j.pattern.ramp + j.pattern.duration).as_secs_f64()).fold(0.0, f64::max);
        let (before, progress) = (page_cache::process_disk_read_bytes(), &mut *self.progress);
        let mut report = |share: f64, interval: &LiveInterval| progress(&names, share, interval, seconds);
        let mut outcomes = run_jobs(&run_list, self.config, &mut report)?;
        // the kernel counts the whole process: with several jobs, no job's part is known
        if let [outcome] = &mut outcomes.each[..] {
            outcome.disk_read_bytes =
                page_cache::process_disk_read_bytes().zip(before).map(|(after, before)| after - before);
        }
        Ok(outcomes)
    }

    fn name(&self, target_index: usize) -> String {
        self.targets.get(target_index).map_or_else(String::new, |t| t.name.clone())
    }

    fn measure_series(&mut self, series: &RequestSeries) -> Result<(Vec<RequestTimes>, &'static str), ProbeError> {
        self.check_not_stopped()?;
        let target = self.find_target(0)?;
        (self.progress)(&series.name, 0.0, &LiveInterval::default(), series.max_duration.as_secs_f64());
        let writes = series.steps.iter().any(|s| s.write);
        let is_outside = |s: &&SeriesStep| s.offset + u64::from(s.length) > target.bytes;
        if let Some(step) = series.steps.iter().find(is_outside) {
            let because = format!("byte {} is beyond the end at {}", step.offset, target.bytes);
            return Err(ProbeError::Pattern { name: series.name.clone(), because });
        }
        let file = target.open(writes, series.buffered, series.durable)?;
        let failed = |e| ProbeError::io(&target.name, "a request failed", e);
        let (live, begin) = (Arc::new(LiveCounters::default()), Instant::now());
        let receiver = spawn_series(series.clone(), file, self.config, Arc::clone(&live), begin).map_err(failed)?;
        let (times, engine) = self.wait_for_series(&receiver, &live, begin, target)?;
        let times = times.map_err(failed)?;
        let limit = self.response_limit_s();
        if let Some(seconds) = times.iter().map(RequestTimes::duration_s).find(|s| *s > limit) {
            return Err(ProbeError::Brake { target: target.name.clone(), seconds, limit, answered: true });
        }
        (self.progress)(&series.name, 1.0, &LiveInterval::default(), series.max_duration.as_secs_f64());
        self.check_not_stopped()?;
        Ok((times, engine))
    }
}

/// Measures nothing; adds up the time that the measurement would take.
#[derive(Debug, Default)]
pub struct DryRun {
    /// Number of runs and series so far.
    pub runs: u32,
    /// Their total time, seconds.
    pub seconds: f64,
}

/// Response time of the imaginary device, nanoseconds. It does not depend on the requests in flight.
const DRY_RESPONSE_NS: u64 = 1_000_000;

impl Bench for DryRun {
    fn measure_jobs(&mut self, jobs: &[BenchJob<'_>]) -> Result<Outcomes, ProbeError> {
        // several jobs give one result each, and the total
        self.runs += jobs.len() as u32 + u32::from(jobs.len() > 1);
        self.seconds += jobs.iter().map(|j| (j.pattern.ramp + j.pattern.duration).as_secs_f64()).fold(0.0, f64::max);
        let each: Vec<RunOutcome> = jobs.iter().map(|job| dry_outcome(job.pattern)).collect();
        Ok(Outcomes { all: each.first().cloned().filter(|_| each.len() > 1), each })
    }

    fn name(&self, _: usize) -> String {
        String::new()
    }

    fn measure_series(&mut self, series: &RequestSeries) -> Result<(Vec<RequestTimes>, &'static str), ProbeError> {
        self.runs += 1;
        let mut now = 0;
        let mut seen = std::collections::HashSet::new();
        let mut respond = |step: &SeriesStep| {
            let start_ns = now + step.pause_ns;
            // a repeated request hits the device's cache, so that suites that look for a cache try every step
            now = start_ns + if seen.insert(step.offset) { 20 * DRY_RESPONSE_NS } else { DRY_RESPONSE_NS };
            RequestTimes { start_ns, end_ns: now }
        };
        let max_ns = u64::try_from(series.max_duration.as_nanos()).unwrap_or(u64::MAX);
        let times: Vec<RequestTimes> =
            series.steps.iter().map(&mut respond).take_while(|t| t.start_ns < max_ns).collect();
        self.seconds += series.max_duration.as_secs_f64().min(now as f64 * 1e-9);
        Ok((times, "none"))
    }
}

/// Returns the outcome of a pattern on the imaginary device, with as many requests in flight as the
/// pattern requests.
fn dry_outcome(pattern: &Pattern) -> RunOutcome {
    use crate::pattern::Pace;
    let in_flight = match pattern.pace {
        Pace::Closed { depth } => depth,
        Pace::Users { users, .. } | Pace::Cycles { users, .. } => users,
        Pace::Open { .. } => 1,
    };
    // a suite that searches for a limit must find one in the end
    let latency_ns = if in_flight > 2048 { 1_000_000 * DRY_RESPONSE_NS } else { DRY_RESPONSE_NS };
    // a thousand requests per second for each one in flight; a sample of them is enough
    let count = (u64::from(in_flight) * 100).min(2000);
    let seconds = count as f64 / (f64::from(in_flight) * 1000.0);
    let mut outcome = RunOutcome { seconds, engine: "none", workers: 1, ..RunOutcome::default() };
    for i in 0..count {
        let write = (i as f64 * 0.618).fract() >= pattern.read_share;
        outcome.tally.record_completion(write, pattern.sizes[0].0, latency_ns, 0);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_a_read_beyond_the_end() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let buffers = BufferSpec { slots: 1, max_request_bytes: 4096, writes: false, seed: 1 };
        let mut engine = ThreadEngine::new(file.into(), &buffers, Instant::now()).unwrap();
        let stop = AtomicBool::new(false);
        let mut read = |offset: u64| {
            let steps = vec![SeriesStep { write: false, offset, length: 4096, pause_ns: 0 }];
            let max_duration = Duration::from_secs(60);
            let series = RequestSeries { name: "one".into(), steps, buffered: true, durable: false, max_duration };
            run_series(&mut engine, &series, &stop, &LiveCounters::default())
        };
        assert_eq!(read(0).unwrap().len(), 1);
        assert_eq!(read(2048).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(read(4096).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
