//! Loads at work: load requests become jobs, completed jobs are counted.

use diskwright_base::Histogram;

use super::job::{Job, Parent};
use super::path::PathStart;
use super::{Event, IoCounts, Simulation};
use crate::Ns;
use crate::io::Io;
use crate::load::{Cause, Load, LoadRequest};

/// A workload in the system.
pub(super) struct LoadRun {
    pub name: String,
    pub load: Load,
    /// The path to each target, past the file cache and through it.
    pub paths: Vec<(PathStart, PathStart)>,
    pub counts: IoCounts,
    /// Response times of this interval, ns.
    pub interval_responses: Histogram,
    /// Response times since the start of counting, ns.
    pub all_responses: Histogram,
}

/// Load requests that have not begun, by number.
#[derive(Default)]
pub(super) struct PendingRequests {
    requests: Vec<(u16, LoadRequest)>,
    free: Vec<u32>,
    /// Buffer that a load pushes its requests into.
    buffer: Vec<LoadRequest>,
}

impl PendingRequests {
    fn insert(&mut self, load: u16, request: LoadRequest) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.requests[number as usize] = (load, request);
                number
            }
            None => {
                self.requests.push((load, request));
                (self.requests.len() - 1) as u32
            }
        }
    }

    fn remove(&mut self, number: u32) -> (u16, LoadRequest) {
        self.free.push(number);
        self.requests[number as usize]
    }
}

impl Simulation {
    /// Advances a user of a load, and begins or schedules its next requests.
    pub(super) fn advance_load_user(&mut self, now: Ns, load: u16, user: u32, cause: Cause) {
        let mut buffer = std::mem::take(&mut self.pending_requests.buffer);
        self.loads[usize::from(load)].load.next(now, user, cause, &mut buffer);
        for request in buffer.drain(..) {
            if request.start_ns > now || cause != Cause::Done {
                let number = self.pending_requests.insert(load, request);
                self.events.schedule(request.start_ns, Event::LoadArrive { number });
            } else {
                self.begin_load_request(now, load, request);
            }
        }
        self.pending_requests.buffer = buffer;
        if self.loads[usize::from(load)].load.is_finished() {
            self.is_finished = self.loads.iter().all(|run| run.load.is_finished());
        }
    }

    /// Begins a load request whose time has come.
    pub(super) fn begin_pending_request(&mut self, now: Ns, number: u32) {
        let (load, request) = self.pending_requests.remove(number);
        self.begin_load_request(now, load, request);
    }

    fn begin_load_request(&mut self, now: Ns, load: u16, request: LoadRequest) {
        let parent = if request.report_done {
            Parent::Load { load, user: request.agent, notify: request.report_issued }
        } else {
            Parent::PostedLoad { load, user: request.agent, notify: request.report_issued }
        };
        let start = match self.loads[usize::from(load)].paths.get(usize::from(request.target)) {
            Some((_, through)) if request.cached => *through,
            Some((past, _)) => *past,
            None => self.end_path,
        };
        let job = self.jobs.insert(Job {
            compute_ns: request.compute_ns,
            began_ns: now,
            arrived_ns: now,
            ..Job::new(request.io, start, parent)
        });
        self.advance_job(now, job);
    }

    /// Notifies a load that a request has had its processor time, if the load needs to know.
    pub(super) fn notify_issued(&mut self, now: Ns, job: u32) {
        match self.jobs[job].parent {
            Parent::Load { load, user, notify: true } | Parent::PostedLoad { load, user, notify: true } => {
                self.advance_load_user(now, load, user, Cause::Issued);
            }
            _ => {}
        }
    }

    /// Counts a completed request of a load.
    pub(super) fn complete_load_request(&mut self, now: Ns, load: u16, io: &Io, began: Ns) {
        let run = &mut self.loads[usize::from(load)];
        if io.blocks > 0 {
            run.counts.add_transfer(io, now - began);
            run.interval_responses.record(now - began);
        }
    }
}
