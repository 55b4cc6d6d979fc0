//! The event loop: a system ([`crate::system`]) in virtual time. One loop, one event type, integer nanoseconds, one
//! seed; memory grows only with the largest number of requests in flight.
//!
//! A request is a [`Job`] that walks a path of steps (`path.rs`); caches and arrays create further jobs, which their
//! parents wait for.

mod arrays;
mod caches;
mod changes;
mod channels;
mod compile;
mod devices;
mod drives;
mod failures;
mod gather;
mod job;
mod latency;
mod loads;
mod orders;
mod outside;
mod path;
mod report;

use crate::Ns;
use crate::events::Events;
use crate::load::Cause;
use crate::station::{self, Station};
use crate::system::{ScheduledChange, WatchSpec};
use arrays::ArrayRun;
use caches::CacheRun;
use channels::{ChannelRun, Holder};
use drives::DriveRun;
use job::{Jobs, Parent, SimulationJob};
use loads::{LoadRun, PendingRequests};
use path::{PathStep, Paths};

pub use crate::system::SystemChange;
pub use changes::ChangeError;
pub use compile::CompileError;
pub use drives::Counts;
pub use job::JobPurpose;
pub use latency::DiskLatency;
pub use outside::{ExternalCompletion, ExternalRequest};
pub use report::{
    ArrayReport, BackgroundReport, CacheReport, Component, ComponentKind, SimulationReport, WorkloadReport,
};

/// Longest time slice of a program on a processor, ns.
pub(crate) const QUANTUM: Ns = 1_000_000;

/// An event in virtual time.
#[derive(Clone, Copy, Debug)]
enum SimulationEvent {
    /// A load request begins.
    Ask { number: u32 },
    /// A visit to a station ends.
    Station { station: u16, job: u32 },
    /// A drive completes a request.
    Device { drive: u32, job: u32 },
    /// A drive needs its channel.
    Ready { drive: u32 },
    /// A channel's transfer ends.
    Channel { channel: u16 },
    /// A cache's wake-up is due.
    Wake { cache: u16 },
    /// The next step of a rebuild or a scrub may begin.
    Background { array: u16 },
    /// Writes of an array that arrived at the same time begin.
    Gathered { array: u16 },
    /// A job continues.
    Go { job: u32 },
    /// A user continues whose request took no time.
    Again { load: u16, user: u32 },
    /// An external request begins.
    Outside { number: u32 },
    /// A scheduled change to the system takes place.
    Change { number: u32 },
}

/// A gate that admits at most a fixed number of requests at a time.
#[derive(Debug)]
struct AdmissionGate {
    most: u32,
    inside: u32,
    waiting: std::collections::VecDeque<u32>,
}

/// A running simulation of a system.
pub struct Simulation {
    events: Events<SimulationEvent>,
    jobs: Jobs,
    paths: Paths,
    /// The path that consists of its end only.
    end: u32,
    stations: Vec<Station>,
    /// Bytes that passed each station.
    station_bytes: Vec<u64>,
    gates: Vec<AdmissionGate>,
    caches: Vec<CacheRun>,
    arrays: Vec<ArrayRun>,
    drives: Vec<DriveRun>,
    channels: Vec<ChannelRun>,
    loads: Vec<LoadRun>,
    asks: PendingRequests,
    /// The station of the processors.
    processors: u16,
    interrupts: u64,
    interrupt_ns: u64,
    /// Processor time of programs.
    compute_ns: u64,
    other_interrupts_per_s: f64,
    other_interrupt: Ns,
    served: outside::ExternalQueue,
    latency: latency::LatencyWatch,
    /// Scheduled changes to the system, and those of them that were impossible.
    planned: Vec<ScheduledChange>,
    refused: Vec<(Ns, ChangeError)>,
    watch: WatchSpec,
    names: report::ComponentNames,
    started: bool,
    /// All loads have finished.
    over: bool,
}

impl Simulation {
    /// Current virtual time, ns.
    pub fn now(&self) -> Ns {
        self.events.now()
    }

    /// Requests in flight, parts and member I/Os included.
    pub fn under_way(&self) -> usize {
        self.jobs.len()
    }

    /// Runs the warm-up and the counted time. Calls `sample` with the report of each counted interval.
    pub fn run(&mut self, mut sample: impl FnMut(&SimulationReport)) -> SimulationReport {
        self.watch_it(Some(&mut sample))
    }

    /// Runs without samples, which cost time where little happens in an interval.
    pub fn result(&mut self) -> SimulationReport {
        self.watch_it(None)
    }

    /// Runs the warm-up and the counted time, interval by interval.
    fn watch_it(&mut self, mut sample: Option<&mut dyn FnMut(&SimulationReport)>) -> SimulationReport {
        self.latency.on = sample.is_some();
        // without a warm-up, events at time 0 count
        if self.watch.warm_up > 0 {
            self.run_until(self.watch.warm_up);
        }
        self.forget();
        let from = self.moment();
        let end = self.watch.warm_up.saturating_add(self.watch.duration);
        let mut batches = report::Batches::default();
        let mut before = from.clone();
        loop {
            let until = (self.events.now() + self.watch.interval.max(1)).min(end);
            let more = self.run_until(until);
            batches.add(&self.loads);
            if let Some(sample) = &mut sample {
                let after = self.moment();
                if after.at > before.at {
                    sample(&self.report(&before, &after, None));
                }
                self.end_interval();
                batches.start_again();
                before = after;
            }
            if !more || self.events.now() >= end {
                break;
            }
        }
        self.end_interval();
        let to = self.moment();
        self.report(&from, &to, Some(&batches))
    }

    /// Runs up to a point in time. False if no event is left; the time is then that of the last event.
    pub fn run_until(&mut self, until: Ns) -> bool {
        if !self.started {
            self.start();
        }
        while let Some(time) = self.events.next_at() {
            if self.over {
                return false;
            }
            if time > until {
                self.events.wait(until);
                return true;
            }
            let Some((now, event)) = self.events.take() else { return false };
            self.handle(now, event);
        }
        if self.drives.iter().any(|drive| drive.hangs) {
            // all requests wait for a hung drive, yet time advances
            self.events.wait(until);
            return true;
        }
        false
    }

    /// Starts all users of the loads and all background work, and schedules the planned changes.
    fn start(&mut self) {
        self.started = true;
        for load in 0..self.loads.len() as u16 {
            for user in 0..self.loads[usize::from(load)].load.users() {
                self.load_next(0, load, user, Cause::Start);
            }
        }
        (0..self.arrays.len() as u16).for_each(|array| self.background(0, array));
        for (number, planned) in (0..).zip(&self.planned) {
            self.events.schedule(planned.at, SimulationEvent::Change { number });
        }
    }

    /// Dispatches an event.
    #[inline]
    fn handle(&mut self, now: Ns, event: SimulationEvent) {
        debug_assert_eq!(self.events.now(), now, "an event happens at its moment");
        match event {
            SimulationEvent::Device { drive, job } => self.drive_done(now, drive, job),
            SimulationEvent::Station { station, job } => self.visit_ends(now, station, job),
            SimulationEvent::Ready { drive } => self.drive_ready(now, drive),
            SimulationEvent::Channel { channel } => self.channel_done(now, channel),
            SimulationEvent::Ask { number } => self.asked(now, number),
            SimulationEvent::Wake { cache } => self.cache_wake(now, cache),
            SimulationEvent::Background { array } => self.background(now, array),
            SimulationEvent::Gathered { array } => self.gathered(now, array),
            SimulationEvent::Go { job } => self.advance(now, job),
            SimulationEvent::Again { load, user } => self.load_next(now, load, user, Cause::Done),
            SimulationEvent::Outside { number } => self.outside_begins(now, number),
            SimulationEvent::Change { number } => self.planned(now, number),
        }
    }

    /// Completes a job's current step and advances the job.
    #[inline]
    fn passed(&mut self, now: Ns, job: u32) {
        self.jobs[job].step += 1;
        self.advance(now, job);
    }

    /// Advances a job until it has to wait.
    fn advance(&mut self, now: Ns, job: u32) {
        loop {
            match *self.paths.step(self.jobs[job].step) {
                PathStep::Drive(drive) => return self.drive_arrive(now, drive, job),
                PathStep::End => return self.finish(now, job),
                PathStep::Array(array) => return self.array_step(now, array, job),
                PathStep::Compute => {
                    if self.compute(now, job) {
                        return;
                    }
                }
                PathStep::Visit { station, when, cost } => {
                    let io = self.jobs[job].moved();
                    let time = if when.holds(io.write) { cost.of(&io) } else { 0 };
                    if time > 0 {
                        self.station_bytes[usize::from(station)] += u64::from(io.blocks) * crate::io::BLOCK_BYTES;
                        return self.visit(now, station, job, time);
                    }
                }
                PathStep::Interrupt { cost } => {
                    let io = self.jobs[job].moved();
                    let time = cost.of(&io);
                    self.interrupts += cost.chunks(&io);
                    self.interrupt_ns += time;
                    if time > 0 {
                        return self.visit(now, self.processors, job, time);
                    }
                }
                PathStep::Enter(gate) => {
                    let gate = &mut self.gates[usize::from(gate)];
                    if gate.inside == gate.most {
                        gate.waiting.push_back(job);
                        return;
                    }
                    gate.inside += 1;
                }
                PathStep::Leave(gate) => self.leave(now, gate),
                PathStep::Split(max_blocks) => {
                    if self.split(now, job, max_blocks) {
                        return;
                    }
                }
                PathStep::Channel { channel, when } => {
                    if when.holds(self.jobs[job].io.write) {
                        return self.channel_ask(now, channel, Holder::Job(job));
                    }
                }
                PathStep::Cache { cache, base } => {
                    let proceeds = match self.jobs[job].what.moves_data() {
                        true => self.cache_ask(now, cache, base, job),
                        false => self.cache_order(now, cache, base, job),
                    };
                    if !proceeds {
                        return;
                    }
                }
            }
            self.jobs[job].step += 1;
        }
    }

    /// Runs the next time slice of a program on a processor. False if it needs no more.
    fn compute(&mut self, now: Ns, job: u32) -> bool {
        let left = self.jobs[job].compute;
        if left > 0 {
            let turn = left.min(QUANTUM);
            self.compute_ns += turn;
            self.jobs[job].compute = left - turn;
            self.visit(now, self.processors, job, turn);
            return true;
        }
        self.jobs[job].began = now;
        self.issued(now, job);
        if self.jobs[job].io.blocks == 0 && self.jobs[job].what.moves_data() {
            self.jobs[job].step = self.end;
            self.finish(now, job);
            return true;
        }
        false
    }

    /// Sends a job to a station for a service time.
    #[inline]
    fn visit(&mut self, now: Ns, station: u16, job: u32, time: Ns) {
        self.jobs[job].came = now;
        let visit = station::StationJob { id: job, arrived: now, service: time };
        if let Some(end) = self.stations[usize::from(station)].arrive(now, visit) {
            self.events.schedule(end, SimulationEvent::Station { station, job });
        }
    }

    /// Ends a job's visit to a station and starts the next job there.
    #[inline]
    fn visit_ends(&mut self, now: Ns, station: u16, job: u32) {
        let visit = station::StationJob { id: job, arrived: self.jobs[job].came, service: 0 };
        if let Some((end, next)) = self.stations[usize::from(station)].complete(now, &visit) {
            self.events.schedule(end, SimulationEvent::Station { station, job: next.id });
        }
        // programs and arrays check what is left to do
        match self.paths.step(self.jobs[job].step) {
            PathStep::Compute | PathStep::Array(_) => self.advance(now, job),
            _ => self.passed(now, job),
        }
    }

    /// Lets a job out of a gate; the next one may enter.
    fn leave(&mut self, now: Ns, gate: u16) {
        let gate = &mut self.gates[usize::from(gate)];
        match gate.waiting.pop_front() {
            Some(job) => {
                self.jobs[job].step += 1;
                self.events.schedule(now, SimulationEvent::Go { job });
            }
            None => gate.inside -= 1,
        }
    }

    /// Splits a job into parts of at most `max_blocks`. False if it is small enough.
    fn split(&mut self, now: Ns, job: u32, max_blocks: u32) -> bool {
        let SimulationJob { io, step, what, .. } = self.jobs[job];
        if io.blocks <= max_blocks || !what.moves_data() {
            return false;
        }
        self.jobs[job].parts = io.blocks.div_ceil(max_blocks);
        let mut first = io.first;
        while first < io.end() {
            let blocks = u64::from(max_blocks).min(io.end() - first) as u32;
            let part = self.jobs.add(SimulationJob::new(
                crate::io::Io { first, blocks, ..io },
                step + 1,
                Parent::Part { job },
            ));
            self.advance(now, part);
            first += u64::from(blocks);
        }
        true
    }

    /// Finishes a job: its parent continues.
    fn finish(&mut self, now: Ns, job: u32) {
        let SimulationJob { io, began, parent, .. } = self.jobs[job];
        match parent {
            Parent::Flight { array, number, member } => {
                self.jobs.remove(job);
                self.member_done(now, array, number, member, io);
            }
            Parent::Load { load, user, .. } => {
                self.jobs.remove(job);
                self.load_done(now, load, &io, began);
                if now > began {
                    self.load_next(now, load, user, Cause::Done);
                } else {
                    // a user who never waits would never let time pass
                    self.events.schedule(now + 1, SimulationEvent::Again { load, user });
                }
            }
            Parent::Posted { load, .. } => {
                self.jobs.remove(job);
                self.load_done(now, load, &io, began);
            }
            Parent::Fetch { cache, number } => {
                self.jobs.remove(job);
                self.cache_finished(now, cache, number);
            }
            Parent::Part { job: whole } => {
                self.jobs.remove(job);
                debug_assert!(self.jobs[whole].parts > 0, "each part ends once");
                self.jobs[whole].parts -= 1;
                if self.jobs[whole].parts == 0 {
                    self.jobs[whole].step = self.end;
                    self.finish(now, whole);
                }
            }
            Parent::Outside { tag, target } => {
                let done = self.jobs[job];
                self.jobs.remove(job);
                self.outside_done(now, tag, target, &done);
            }
            Parent::Every { job: whole } => {
                self.jobs.remove(job);
                self.one_of_every(now, whole);
            }
            Parent::Background { .. } | Parent::Gathered { .. } => self.jobs.remove(job),
        }
    }
}
