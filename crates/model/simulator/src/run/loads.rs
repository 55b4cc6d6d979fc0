//! Loads at work: load requests become jobs, completed jobs are counted.

use diskwright_base::Histogram;

use super::job::{Parent, SimulationJob};
use super::path::PathStart;
use super::{Counts, Simulation, SimulationEvent};
use crate::Ns;
use crate::io::Io;
use crate::load::{Cause, Load, LoadRequest};

/// A workload in the system.
pub(super) struct LoadRun {
    pub name: String,
    pub load: Load,
    /// The path to each target, past the file cache and through it.
    pub paths: Vec<(PathStart, PathStart)>,
    pub counts: Counts,
    /// Response times of this interval, ns.
    pub recent: Histogram,
    /// Response times since the start of counting, ns.
    pub all: Histogram,
}

/// Load requests that have not begun, by number.
#[derive(Default)]
pub(super) struct PendingRequests {
    asks: Vec<(u16, LoadRequest)>,
    free: Vec<u32>,
    /// Buffer that a load pushes its requests into.
    buffer: Vec<LoadRequest>,
}

impl PendingRequests {
    fn add(&mut self, load: u16, request: LoadRequest) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.asks[number as usize] = (load, request);
                number
            }
            None => {
                self.asks.push((load, request));
                (self.asks.len() - 1) as u32
            }
        }
    }

    fn take(&mut self, number: u32) -> (u16, LoadRequest) {
        self.free.push(number);
        self.asks[number as usize]
    }
}

impl Simulation {
    /// Advances a user of a load, and begins or schedules its next requests.
    pub(super) fn load_next(&mut self, now: Ns, load: u16, user: u32, cause: Cause) {
        let mut buffer = std::mem::take(&mut self.asks.buffer);
        self.loads[usize::from(load)].load.next(now, user, cause, &mut buffer);
        for request in buffer.drain(..) {
            if request.at > now || cause != Cause::Done {
                let number = self.asks.add(load, request);
                self.events.schedule(request.at, SimulationEvent::Ask { number });
            } else {
                self.begin(now, load, request);
            }
        }
        self.asks.buffer = buffer;
        if self.loads[usize::from(load)].load.finished() {
            self.over = self.loads.iter().all(|run| run.load.finished());
        }
    }

    /// Begins a load request whose time has come.
    pub(super) fn asked(&mut self, now: Ns, number: u32) {
        let (load, request) = self.asks.take(number);
        self.begin(now, load, request);
    }

    fn begin(&mut self, now: Ns, load: u16, request: LoadRequest) {
        let parent = if request.wait {
            Parent::Load { load, user: request.who, notify: request.tell_issued }
        } else {
            Parent::Posted { load, user: request.who, notify: request.tell_issued }
        };
        let start = match self.loads[usize::from(load)].paths.get(usize::from(request.target)) {
            Some((_, through)) if request.cached => *through,
            Some((past, _)) => *past,
            None => self.end,
        };
        let job = self.jobs.add(SimulationJob {
            compute: request.compute,
            began: now,
            came: now,
            ..SimulationJob::new(request.io, start, parent)
        });
        self.advance(now, job);
    }

    /// Notifies a load that a request has had its processor time, if the load needs to know.
    pub(super) fn issued(&mut self, now: Ns, job: u32) {
        match self.jobs[job].parent {
            Parent::Load { load, user, notify: true } | Parent::Posted { load, user, notify: true } => {
                self.load_next(now, load, user, Cause::Issued);
            }
            _ => {}
        }
    }

    /// Counts a completed request of a load.
    pub(super) fn load_done(&mut self, now: Ns, load: u16, io: &Io, began: Ns) {
        let run = &mut self.loads[usize::from(load)];
        if io.blocks > 0 {
            run.counts.add(io, now - began);
            run.recent.record(now - began);
        }
    }
}
