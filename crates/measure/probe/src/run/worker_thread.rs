//! Worker threads: each has its own engine on the target of its job.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::{EngineKind, RunConfig};
use crate::engine::ring::{self, Ring};
use crate::engine::threads::{self, ThreadEngine};
use crate::engine::{BufferSpec, IoEngine, MAX_BUFFER_BYTES};
use crate::live::LiveCounters;
use crate::pattern::{Pace, Pattern, Placement};
use crate::request_generator::RequestGenerator;
use crate::tally::WorkerTally;
use crate::worker_loop::{self, WorkerPlan};

/// Default number of slots of an open loop: its largest number of requests in flight. Further
/// requests wait; the wait is part of their latency.
const OPEN_LOOP_SLOTS: u32 = 4096;

/// Returns the number of workers of a pattern. Sequential requests have one worker: several workers
/// would be as many streams, between which a disk would move its arm. Without io_uring, independent
/// random requests have a worker for each request in flight, which makes it itself: handing it to a
/// thread and back would double its cost.
pub(super) fn worker_count(pattern: &Pattern, config: &RunConfig, jobs: u32) -> u32 {
    if matches!(pattern.placement, Placement::Sequential { .. }) {
        return 1;
    }
    let max_workers = (config.workers / jobs).max(1);
    let is_random = !matches!(pattern.placement, Placement::Sequential { .. } | Placement::Strided { .. });
    let is_independent = is_random && pattern.read_write_order.is_empty() && pattern.run_requests <= 1;
    let uses_ring = config.engine == EngineKind::Best && ring::has_io_uring();
    if is_independent && !uses_ring { max_workers.max(threads::MAX_THREADS / jobs) } else { max_workers }
}

/// Holds workers back until all are ready.
#[derive(Default)]
pub(super) struct StartGate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    /// Number of workers that have arrived.
    arrived: usize,
    is_open: bool,
}

impl StartGate {
    /// Blocks a worker until the gate opens.
    pub(super) fn wait_until_open(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.arrived += 1;
        self.changed.notify_all();
        while !state.is_open {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for `workers` workers, then opens the gate.
    pub(super) fn open(&self, workers: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.arrived < workers {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_open = true;
        self.changed.notify_all();
    }
}

/// Splits a pace among workers, so that no worker is idle.
pub(super) fn split_pace(pace: &Pace, workers: u32) -> Vec<Pace> {
    let split = |total: u32| {
        let workers = workers.clamp(1, total.max(1));
        (0..workers).map(move |worker| total / workers + u32::from(worker < total % workers))
    };
    match *pace {
        Pace::Closed { depth } => split(depth).map(|depth| Pace::Closed { depth }).collect(),
        Pace::Users { users, think_s, random } => {
            split(users).map(|users| Pace::Users { users, think_s, random }).collect()
        }
        // a user who computes keeps a processor busy, so each user has a thread
        Pace::Cycles { users, think_s, requests, compute_s } if compute_s.mean > 0.0 => {
            (0..users).map(|_| Pace::Cycles { users: 1, think_s, requests, compute_s }).collect()
        }
        Pace::Cycles { users, think_s, requests, compute_s } => {
            split(users).map(|users| Pace::Cycles { users, think_s, requests, compute_s }).collect()
        }
        // one worker keeps arrivals in order
        Pace::Open { .. } => vec![pace.clone()],
    }
}

/// Keeps reads from updating the file's access time: the update takes about 5 % of the kernel's time
/// for a request, and the file may belong to someone else.
fn disable_access_time(file: &OwnedFd) {
    if let Ok(flags) = fcntl_getfl(file) {
        // only the file's owner may set this flag; reading works without it
        let _ = fcntl_setfl(file, flags | OFlags::NOATIME);
    }
}

/// State of a job's workers that the monitor of the run can see.
pub(super) struct JobView {
    /// Progress of each worker.
    pub live: Vec<LiveCounters>,
    /// Tally of each worker, parked while its engine may block for ever.
    pub parked_tallies: Vec<Mutex<Option<WorkerTally>>>,
}

impl JobView {
    pub(super) fn new(workers: usize) -> JobView {
        JobView {
            live: (0..workers).map(|_| LiveCounters::default()).collect(),
            parked_tallies: (0..workers).map(|_| Mutex::default()).collect(),
        }
    }

    /// Takes the tally of a worker that does not come back, and adds the requests for which it waits.
    pub(super) fn take_lost_tally(&self, worker: usize, now: u64) -> WorkerTally {
        let parked = self.parked_tallies[worker].lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut tally = parked.unwrap_or_default();
        let (in_flight, since) = self.live[worker].in_flight_since();
        (tally.unanswered, tally.unanswered_ns) = (in_flight, now.saturating_sub(since));
        tally
    }
}

/// A worker of a job, before it runs. It owns all its data: a worker that waits for a device that
/// never responds outlives its run.
pub(super) struct WorkerSetup {
    pub pattern: Pattern,
    /// Size of the target, bytes.
    pub target_bytes: u64,
    pub start_delay: Duration,
    pub config: RunConfig,
    pub start_gate: Arc<StartGate>,
    pub view: Arc<JobView>,
    /// Index of this worker in its job.
    pub worker_index: u32,
    /// Number of workers of the job.
    pub worker_count: u32,
    /// Zero of all engines' clocks.
    pub clock_start: Instant,
}

/// Counts of a worker, the name of its engine, and notes about what limited the engine.
pub(super) struct WorkerResult {
    pub tally: WorkerTally,
    pub engine: &'static str,
    pub notes: Vec<String>,
}

impl WorkerSetup {
    pub(super) fn run(&self, pace: &Pace, file: OwnedFd) -> io::Result<WorkerResult> {
        let pattern = &self.pattern;
        let slots = match *pace {
            Pace::Closed { depth } => depth,
            Pace::Users { users, .. } | Pace::Cycles { users, .. } => users,
            Pace::Open { .. } => pattern.max_in_flight.unwrap_or(OPEN_LOOP_SLOTS),
        };
        let seed = pattern.seed ^ u64::from(self.worker_index) << 32;
        let buffers =
            BufferSpec { slots, max_request_bytes: pattern.max_request_bytes(), seed, writes: pattern.has_writes() };
        // without this, each sleep of an open loop would end 50 microseconds late
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        disable_access_time(&file);
        let notes = match self.config.engine {
            EngineKind::Best => match file.try_clone().and_then(|file| self.run_on_ring(pace, file, buffers)) {
                Ok(result) => return result,
                Err(error) => vec![format!("threads, because there is no io_uring: {error}")],
            },
            EngineKind::Threads => Vec::new(),
        };
        self.run_on_threads(pace, file, buffers, notes)
    }

    /// Runs on a ring; the outer error means that there is no ring.
    fn run_on_ring(&self, pace: &Pace, file: OwnedFd, mut buffers: BufferSpec) -> io::Result<io::Result<WorkerResult>> {
        let reduction = buffers.fit_to_limits(self.buffer_bytes(), u32::MAX);
        let ring = Ring::new(file, &buffers, self.clock_start)?;
        let notes = reduction.into_iter().chain(ring.notes().iter().cloned()).collect();
        let tally = self.run_engine(ring, pace, buffers.slots);
        Ok(tally.map(|tally| WorkerResult { tally, engine: "io_uring", notes }))
    }

    fn run_on_threads(
        &self,
        pace: &Pace,
        file: OwnedFd,
        mut buffers: BufferSpec,
        mut notes: Vec<String>,
    ) -> io::Result<WorkerResult> {
        let max_threads = (threads::MAX_THREADS / self.worker_count.max(1)).max(1);
        notes.extend(buffers.fit_to_limits(self.buffer_bytes(), max_threads));
        let threads = match ThreadEngine::new(file, &buffers, self.clock_start) {
            Ok(threads) => threads,
            Err(error) => {
                // the gate opens only when this worker has arrived, too
                self.start_gate.wait_until_open();
                return Err(error);
            }
        };
        notes.extend(threads.notes().iter().cloned());
        let slots = threads.slot_count();
        let tally = self.run_engine(threads, pace, slots)?;
        Ok(WorkerResult { tally, engine: "threads", notes })
    }

    /// Returns this worker's part of the memory for buffers, bytes.
    fn buffer_bytes(&self) -> u64 {
        MAX_BUFFER_BYTES / u64::from(self.worker_count.max(1))
    }

    fn run_engine<E: IoEngine>(&self, mut engine: E, pace: &Pace, slots: u32) -> io::Result<WorkerTally> {
        let (pattern, index) = (&self.pattern, self.worker_index as usize);
        let mut generator = RequestGenerator::new(pattern, self.target_bytes, self.worker_index, self.worker_count);
        let nanoseconds = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX / 4);
        let plan = WorkerPlan {
            pace: pace.clone(),
            durable: pattern.durable,
            ramp_ns: nanoseconds(pattern.ramp),
            duration_ns: nanoseconds(pattern.duration),
            stop: &self.config.stop,
            start_delay_ns: nanoseconds(self.start_delay),
            sync_every: pattern.sync_every,
            max_bytes: pattern.max_bytes.map(|bytes| bytes.div_ceil(u64::from(self.worker_count))),
            live: &self.view.live[index],
            parked_tally: &self.view.parked_tallies[index],
            brake_ns: self.config.brake.map(nanoseconds),
        };
        self.start_gate.wait_until_open();
        let tally = worker_loop::run_worker(&mut engine, &mut generator, &plan, slots);
        if tally.as_ref().is_ok_and(|tally| tally.unanswered > 0) {
            // dropping it would wait for the device, and the kernel may still write to its buffers
            std::mem::forget(engine);
        }
        tally
    }
}
