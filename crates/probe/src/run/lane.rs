//! Lanes: one thread each with an engine of its own, over one job's target.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::{Job, Kind, Making};
use crate::draw::Draw;
use crate::drive::{self, Lane};
use crate::engine::{Engine, Room, ring::Ring, threads::Threads};
use crate::live::Live;
use crate::pattern::Pace;
use crate::tally::Tally;

/// Slots of an open loop: requests that may be under way at once. What comes
/// when all are taken waits, and its wait is in its latency.
const OPEN_SLOTS: u32 = 4096;
/// Most threads of the fallback engine.
const MOST_THREADS: u32 = 512;

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

/// A lane of a job, before it runs.
pub(super) struct Lanes<'a> {
    pub job: &'a Job<'a>,
    pub making: &'a Making,
    pub ready: &'a Barrier,
    pub live: &'a Live,
    /// Lanes of this job.
    pub lanes: u32,
}

impl Lanes<'_> {
    pub(super) fn run(&self, pace: Pace, file: OwnedFd, number: u32) -> io::Result<(Tally, &'static str)> {
        let pattern = self.job.pattern;
        let slots = match pace {
            Pace::Closed { depth } => depth,
            Pace::Users { users, .. } | Pace::Cycles { users, .. } => users,
            Pace::Open { .. } => pattern.most_outstanding.unwrap_or(OPEN_SLOTS),
        };
        let seed = pattern.seed ^ u64::from(number) << 32;
        let mut room = Room { slots, largest: pattern.largest(), seed };
        // sleeps of an open loop end when they should, not 50 microseconds later
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        leave_access_time(&file);
        let start = Instant::now();
        let ring = match self.making.engine {
            Kind::Best => file.try_clone().and_then(|file| Ring::new(file, &room, start)),
            Kind::Threads => Err(io::ErrorKind::Unsupported.into()),
        };
        match ring {
            Ok(mut ring) => Ok((self.drive(&mut ring, pace, number, slots)?, "io_uring")),
            Err(_) => {
                room.slots = slots.min(MOST_THREADS);
                let threads = Threads::new(file, &room, start);
                match threads {
                    Ok(mut threads) => Ok((self.drive(&mut threads, pace, number, room.slots)?, "threads")),
                    Err(error) => {
                        self.ready.wait();
                        Err(error)
                    }
                }
            }
        }
    }

    fn drive<E: Engine>(&self, engine: &mut E, pace: Pace, number: u32, slots: u32) -> io::Result<Tally> {
        let pattern = self.job.pattern;
        let mut draw = Draw::new(pattern, self.job.target.bytes, number, self.lanes);
        let nanoseconds = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX / 4);
        let lane = Lane {
            pace,
            durable: pattern.durable,
            ramp_ns: nanoseconds(pattern.ramp),
            lasts_ns: nanoseconds(pattern.lasts),
            stop: &self.making.stop,
            after_ns: nanoseconds(self.job.after),
            sync_every: pattern.sync_every,
            most_bytes: pattern.most_bytes.map(|bytes| bytes.div_ceil(u64::from(self.lanes))),
            done: self.live,
            brake_ns: self.making.brake.map(nanoseconds),
        };
        self.ready.wait();
        drive::run(engine, &mut draw, &lane, slots)
    }
}
