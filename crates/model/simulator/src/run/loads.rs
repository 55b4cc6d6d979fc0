//! Loads at work: what is asked becomes jobs, what is done is counted.

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
    /// Responses of this interval, ns.
    pub recent: Histogram,
    /// Responses since the beginning of counting, ns.
    pub all: Histogram,
}

/// Things asked for that have not begun, by number.
#[derive(Default)]
pub(super) struct PendingRequests {
    asks: Vec<(u16, LoadRequest)>,
    free: Vec<u32>,
    /// What a load pushes into.
    buffer: Vec<LoadRequest>,
}

impl PendingRequests {
    fn add(&mut self, load: u16, ask: LoadRequest) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.asks[number as usize] = (load, ask);
                number
            }
            None => {
                self.asks.push((load, ask));
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
    /// A user of a load goes on.
    pub(super) fn load_next(&mut self, now: Ns, load: u16, who: u32, cause: Cause) {
        let mut buffer = std::mem::take(&mut self.asks.buffer);
        self.loads[usize::from(load)].load.next(now, who, cause, &mut buffer);
        for ask in buffer.drain(..) {
            if ask.at > now || cause != Cause::Done {
                let number = self.asks.add(load, ask);
                self.events.schedule(ask.at, SimulationEvent::Ask { number });
            } else {
                self.begin(now, load, ask);
            }
        }
        self.asks.buffer = buffer;
        if self.loads[usize::from(load)].load.finished() {
            self.over = self.loads.iter().all(|run| run.load.finished());
        }
    }

    /// The moment of something asked for has come.
    pub(super) fn asked(&mut self, now: Ns, number: u32) {
        let (load, ask) = self.asks.take(number);
        self.begin(now, load, ask);
    }

    fn begin(&mut self, now: Ns, load: u16, ask: LoadRequest) {
        let parent = if ask.wait {
            Parent::Load { load, who: ask.who, tell: ask.tell_issued }
        } else {
            Parent::Posted { load, who: ask.who, tell: ask.tell_issued }
        };
        let start = match self.loads[usize::from(load)].paths.get(usize::from(ask.target)) {
            Some((_, through)) if ask.cached => *through,
            Some((past, _)) => *past,
            None => self.end,
        };
        let job = self.jobs.add(SimulationJob {
            compute: ask.compute,
            began: now,
            came: now,
            ..SimulationJob::new(ask.io, start, parent)
        });
        self.advance(now, job);
    }

    /// A request of a load has had its processor time.
    pub(super) fn issued(&mut self, now: Ns, job: u32) {
        match self.jobs[job].parent {
            Parent::Load { load, who, tell: true } | Parent::Posted { load, who, tell: true } => {
                self.load_next(now, load, who, Cause::Issued);
            }
            _ => {}
        }
    }

    /// A request of a load is done.
    pub(super) fn load_done(&mut self, now: Ns, load: u16, io: &Io, began: Ns) {
        let run = &mut self.loads[usize::from(load)];
        if io.blocks > 0 {
            run.counts.add(io, now - began);
            run.recent.record(now - began);
        }
    }
}
