//! Lanes: one thread each with an engine of its own, over one job's target.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::{EngineKind, RunConfig};
use crate::draw::Draw;
use crate::drive::{self, WorkerPlan};
use crate::engine::ring::{self, Ring};
use crate::engine::threads::{self, ThreadEngine};
use crate::engine::{BufferSpec, IoEngine, MOST_MEMORY};
use crate::live::Live;
use crate::pattern::{Pace, Pattern, Placement};
use crate::tally::WorkerTally;

/// Slots of an open loop: requests that may be under way at once. What comes
/// when all are taken waits, and its wait is in its latency.
const OPEN_SLOTS: u32 = 4096;

/// How many lanes a pattern gets. Where there is no ring, and requests are drawn
/// independently of each other, each is a lane that makes its request itself:
/// handing it to a thread and back would cost as much again. Requests that follow one another have
/// one lane: several would be as many streams, between which a disk moves its arm.
pub(super) fn lanes(pattern: &Pattern, making: &RunConfig, jobs: u32) -> u32 {
    if matches!(pattern.placement, Placement::Sequential { .. }) {
        return 1;
    }
    let most = (making.lanes / jobs).max(1);
    let random = matches!(pattern.placement, Placement::Uniform | Placement::Normal { .. } | Placement::Zipf { .. });
    let apart = random && pattern.turns.is_empty() && pattern.run_requests <= 1;
    let ring = making.engine == EngineKind::Best && ring::is_there();
    if apart && !ring { most.max(threads::MOST / jobs) } else { most }
}

/// Holds lanes back until all are ready.
#[derive(Default)]
pub(super) struct StartGate {
    /// How many have come, and whether it is open.
    inside: Mutex<(usize, bool)>,
    bell: Condvar,
}

impl StartGate {
    /// A lane waits until it opens.
    pub(super) fn pass(&self) {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.0 += 1;
        self.bell.notify_all();
        while !inside.1 {
            inside = self.bell.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Opens when so many lanes are there.
    pub(super) fn open(&self, lanes: usize) {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        while inside.0 < lanes {
            inside = self.bell.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        inside.1 = true;
        self.bell.notify_all();
    }
}

/// The pace dealt out over lanes: no lane without anything to do.
pub(super) fn shares(pace: &Pace, lanes: u32) -> Vec<Pace> {
    let split = |all: u32| {
        let lanes = lanes.clamp(1, all.max(1));
        (0..lanes).map(move |lane| all / lanes + u32::from(lane < all % lanes))
    };
    match *pace {
        Pace::Closed { depth } => split(depth).map(|depth| Pace::Closed { depth }).collect(),
        Pace::Users { users, think_s, random } => {
            split(users).map(|users| Pace::Users { users, think_s, random }).collect()
        }
        // who computes keeps a processor busy, and the kernel shares those out
        Pace::Cycles { users, think_s, requests, compute_s } if compute_s.mean > 0.0 => {
            (0..users).map(|_| Pace::Cycles { users: 1, think_s, requests, compute_s }).collect()
        }
        Pace::Cycles { users, think_s, requests, compute_s } => {
            split(users).map(|users| Pace::Cycles { users, think_s, requests, compute_s }).collect()
        }
        // one lane keeps arrivals in one order
        Pace::Open { .. } => vec![pace.clone()],
    }
}

/// Reading must not touch the time of last access: looking after it takes some
/// 5 % of the kernel's part of a request, and the file may be somebody's.
fn leave_access_time(file: &OwnedFd) {
    if let Ok(flags) = fcntl_getfl(file) {
        // who does not own the file may not, and reads all the same
        let _ = fcntl_setfl(file, flags | OFlags::NOATIME);
    }
}

/// What a job's lanes show of themselves to whoever follows the run.
pub(super) struct JobView {
    pub live: Vec<Live>,
    /// Counts of each, while its engine may not come back.
    pub shelves: Vec<Mutex<Option<WorkerTally>>>,
}

impl JobView {
    pub(super) fn new(lanes: usize) -> JobView {
        JobView {
            live: (0..lanes).map(|_| Live::default()).collect(),
            shelves: (0..lanes).map(|_| Mutex::default()).collect(),
        }
    }

    /// What a lane that does not come back has counted, and what it waits for.
    pub(super) fn of_lost(&self, lane: usize, now: u64) -> WorkerTally {
        let shelf = self.shelves[lane].lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut tally = shelf.unwrap_or_default();
        let (in_flight, since) = self.live[lane].waiting();
        (tally.unanswered, tally.unanswered_ns) = (in_flight, now.saturating_sub(since));
        tally
    }
}

/// A lane of a job, before it runs. All of it is its own: a lane that waits for a device
/// that never answers outlives its run.
pub(super) struct WorkerSetup {
    pub pattern: Pattern,
    /// Bytes of the target.
    pub bytes: u64,
    pub after: Duration,
    pub making: RunConfig,
    pub ready: Arc<StartGate>,
    pub shown: Arc<JobView>,
    /// Which of them it is, and lanes of this job.
    pub number: u32,
    pub lanes: u32,
    /// When all engines' clocks begin.
    pub begin: Instant,
}

/// What a lane counted, by which engine, and what kept that from its best.
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
            Pace::Open { .. } => pattern.most_outstanding.unwrap_or(OPEN_SLOTS),
        };
        let seed = pattern.seed ^ u64::from(self.number) << 32;
        let room = BufferSpec { slots, largest: pattern.largest(), seed, writes: pattern.writes() };
        // sleeps of an open loop end when they should, not 50 microseconds later
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        leave_access_time(&file);
        let because = match self.making.engine {
            EngineKind::Best => match file.try_clone().and_then(|file| self.on_ring(pace, file, room)) {
                Ok(ran) => return ran,
                Err(error) => vec![format!("threads, because there is no io_uring: {error}")],
            },
            EngineKind::Threads => Vec::new(),
        };
        self.on_threads(pace, file, room, because)
    }

    /// Runs on a ring; the outer error where there is none.
    fn on_ring(&self, pace: &Pace, file: OwnedFd, mut room: BufferSpec) -> io::Result<io::Result<WorkerResult>> {
        let fitted = room.fit(self.memory(), u32::MAX);
        let ring = Ring::new(file, &room, self.begin)?;
        let notes = fitted.into_iter().chain(ring.notes().iter().cloned()).collect();
        let tally = self.drive(ring, pace, room.slots);
        Ok(tally.map(|tally| WorkerResult { tally, engine: "io_uring", notes }))
    }

    fn on_threads(
        &self,
        pace: &Pace,
        file: OwnedFd,
        mut room: BufferSpec,
        mut notes: Vec<String>,
    ) -> io::Result<WorkerResult> {
        notes.extend(room.fit(self.memory(), (threads::MOST / self.lanes.max(1)).max(1)));
        let threads = match ThreadEngine::new(file, &room, self.begin) {
            Ok(threads) => threads,
            Err(error) => {
                // the others wait for this lane
                self.ready.pass();
                return Err(error);
            }
        };
        notes.extend(threads.notes().iter().cloned());
        let slots = threads.slots();
        let tally = self.drive(threads, pace, slots)?;
        Ok(WorkerResult { tally, engine: "threads", notes })
    }

    /// This lane's part of the memory for buffers, bytes.
    fn memory(&self) -> u64 {
        MOST_MEMORY / u64::from(self.lanes.max(1))
    }

    fn drive<E: IoEngine>(&self, mut engine: E, pace: &Pace, slots: u32) -> io::Result<WorkerTally> {
        let (pattern, own) = (&self.pattern, self.number as usize);
        let mut draw = Draw::new(pattern, self.bytes, self.number, self.lanes);
        let nanoseconds = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX / 4);
        let lane = WorkerPlan {
            pace: pace.clone(),
            durable: pattern.durable,
            ramp_ns: nanoseconds(pattern.ramp),
            lasts_ns: nanoseconds(pattern.lasts),
            stop: &self.making.stop,
            after_ns: nanoseconds(self.after),
            sync_every: pattern.sync_every,
            most_bytes: pattern.most_bytes.map(|bytes| bytes.div_ceil(u64::from(self.lanes))),
            done: &self.shown.live[own],
            shelf: &self.shown.shelves[own],
            brake_ns: self.making.brake.map(nanoseconds),
        };
        self.ready.pass();
        let tally = drive::run(&mut engine, &mut draw, &lane, slots);
        if tally.as_ref().is_ok_and(|tally| tally.unanswered > 0) {
            // taking it down would wait for the device, and its buffers are the kernel's for ever
            std::mem::forget(engine);
        }
        tally
    }
}
