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
mod drives;
mod external;
mod flush_trim;
mod job;
mod latency;
mod loads;
mod member_failures;
mod parallel_device;
mod path;
mod report;
mod row_gathering;

use crate::Ns;
use crate::event_queue::EventQueue;
use crate::load::Cause;
use crate::station::{self, Station};
use crate::system::{ScheduledChange, WatchSpec};
use arrays::ArrayRun;
use caches::CacheRun;
use channels::{ChannelRun, Holder};
use drives::DriveRun;
use job::{Job, Jobs, Parent};
use loads::{LoadRun, PendingRequests};
use path::{PathStep, Paths};

pub use crate::system::SystemChange;
pub use changes::ChangeError;
pub use compile::CompileError;
pub use drives::IoCounts;
pub use external::{ExternalCompletion, ExternalRequest};
pub use job::JobPurpose;
pub use latency::DiskLatency;
pub use report::{
    ArrayReport, BackgroundReport, CacheReport, Component, ComponentKind, SimulationReport, WorkloadReport,
};

/// Longest time slice of a program on a processor, ns.
pub(crate) const QUANTUM_NS: Ns = 1_000_000;

/// An event in virtual time.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A load request begins.
    LoadArrive { number: u32 },
    /// A visit to a station ends.
    VisitComplete { station: u16, job: u32 },
    /// A drive completes a request.
    DriveComplete { drive: u32, job: u32 },
    /// A drive needs its channel.
    DriveNeedsChannel { drive: u32 },
    /// A channel's transfer ends.
    ChannelComplete { channel: u16 },
    /// A cache's wake-up is due.
    CacheWake { cache: u16 },
    /// The next step of a rebuild or a scrub may begin.
    BackgroundStep { array: u16 },
    /// Writes of an array that arrived at the same time begin.
    GatheredWrites { array: u16 },
    /// A job continues.
    JobReady { job: u32 },
    /// A user continues whose request took no time.
    UserReady { load: u16, user: u32 },
    /// An external request begins.
    ExternalArrive { number: u32 },
    /// A scheduled change to the system takes place.
    ApplyChange { number: u32 },
}

/// A gate that admits at most a fixed number of requests at a time.
#[derive(Debug)]
struct AdmissionGate {
    max_inside: u32,
    inside: u32,
    waiting: std::collections::VecDeque<u32>,
}

/// A running simulation of a system.
pub struct Simulation {
    events: EventQueue<Event>,
    jobs: Jobs,
    paths: Paths,
    /// The path that consists of its end only.
    end_path: u32,
    stations: Vec<Station>,
    /// Bytes that passed each station.
    station_bytes: Vec<u64>,
    gates: Vec<AdmissionGate>,
    caches: Vec<CacheRun>,
    arrays: Vec<ArrayRun>,
    drives: Vec<DriveRun>,
    channels: Vec<ChannelRun>,
    loads: Vec<LoadRun>,
    pending_requests: PendingRequests,
    /// The station of the processors.
    processors: u16,
    interrupts: u64,
    interrupt_ns: u64,
    /// Processor time of programs.
    compute_ns: u64,
    other_interrupts_per_s: f64,
    other_interrupt_ns: Ns,
    external: external::ExternalQueue,
    latency: latency::LatencyRecorder,
    /// Scheduled changes to the system, and those of them that were impossible.
    scheduled_changes: Vec<ScheduledChange>,
    refused: Vec<(Ns, ChangeError)>,
    watch: WatchSpec,
    names: report::ComponentNames,
    started: bool,
    /// All loads have finished.
    is_finished: bool,
}

impl Simulation {
    /// Current virtual time, ns.
    pub fn now(&self) -> Ns {
        self.events.now()
    }

    /// Requests in flight, parts and member I/Os included.
    pub fn in_flight_count(&self) -> usize {
        self.jobs.len()
    }

    /// Runs the warm-up and the counted time. Calls `sample` with the report of each counted interval.
    pub fn run(&mut self, mut sample: impl FnMut(&SimulationReport)) -> SimulationReport {
        self.run_until_end(Some(&mut sample))
    }

    /// Runs without samples, which cost time where little happens in an interval.
    pub fn run_without_samples(&mut self) -> SimulationReport {
        self.run_until_end(None)
    }

    /// Runs the warm-up and the counted time, interval by interval.
    fn run_until_end(&mut self, mut sample: Option<&mut dyn FnMut(&SimulationReport)>) -> SimulationReport {
        self.latency.is_enabled = sample.is_some();
        // without a warm-up, events at time 0 count
        if self.watch.warm_up > 0 {
            self.run_until(self.watch.warm_up);
        }
        self.reset_statistics();
        let from = self.take_snapshot();
        let end = self.watch.warm_up.saturating_add(self.watch.duration);
        let mut batches = report::Batches::default();
        let mut before = from.clone();
        loop {
            let until = (self.events.now() + self.watch.interval.max(1)).min(end);
            let more = self.run_until(until);
            batches.add_interval(&self.loads);
            if let Some(sample) = &mut sample {
                let after = self.take_snapshot();
                if after.time_ns > before.time_ns {
                    sample(&self.build_report(&before, &after, None));
                }
                self.merge_interval_responses();
                batches.restart_interval();
                before = after;
            }
            if !more || self.events.now() >= end {
                break;
            }
        }
        self.merge_interval_responses();
        let to = self.take_snapshot();
        self.build_report(&from, &to, Some(&batches))
    }

    /// Runs up to a point in time. False if no event is left; the time is then that of the last event.
    pub fn run_until(&mut self, until: Ns) -> bool {
        if !self.started {
            self.schedule_initial_events();
        }
        while let Some(time) = self.events.next_time() {
            if self.is_finished {
                return false;
            }
            if time > until {
                self.events.advance_to(until);
                return true;
            }
            let Some((now, event)) = self.events.pop() else { return false };
            self.handle_event(now, event);
        }
        if self.drives.iter().any(|drive| drive.is_hung) {
            // all requests wait for a hung drive, yet time advances
            self.events.advance_to(until);
            return true;
        }
        false
    }

    /// Starts all users of the loads and all background work, and schedules the planned changes.
    fn schedule_initial_events(&mut self) {
        self.started = true;
        for load in 0..self.loads.len() as u16 {
            for user in 0..self.loads[usize::from(load)].load.user_count() {
                self.advance_load_user(0, load, user, Cause::Start);
            }
        }
        (0..self.arrays.len() as u16).for_each(|array| self.start_background_steps(0, array));
        for (number, planned) in (0..).zip(&self.scheduled_changes) {
            self.events.schedule(planned.time_ns, Event::ApplyChange { number });
        }
    }

    /// Dispatches an event.
    #[inline]
    fn handle_event(&mut self, now: Ns, event: Event) {
        debug_assert_eq!(self.events.now(), now, "an event happens at its moment");
        match event {
            Event::DriveComplete { drive, job } => self.complete_drive_request(now, drive, job),
            Event::VisitComplete { station, job } => self.complete_visit(now, station, job),
            Event::DriveNeedsChannel { drive } => self.request_drive_channel(now, drive),
            Event::ChannelComplete { channel } => self.release_channel(now, channel),
            Event::LoadArrive { number } => self.begin_pending_request(now, number),
            Event::CacheWake { cache } => self.wake_cache(now, cache),
            Event::BackgroundStep { array } => self.start_background_steps(now, array),
            Event::GatheredWrites { array } => self.start_gathered_writes(now, array),
            Event::JobReady { job } => self.advance_job(now, job),
            Event::UserReady { load, user } => self.advance_load_user(now, load, user, Cause::Done),
            Event::ExternalArrive { number } => self.begin_external_request(now, number),
            Event::ApplyChange { number } => self.apply_scheduled_change(now, number),
        }
    }

    /// Completes a job's current step and advances the job.
    #[inline]
    fn complete_step(&mut self, now: Ns, job: u32) {
        self.jobs[job].step += 1;
        self.advance_job(now, job);
    }

    /// Advances a job until it has to wait.
    fn advance_job(&mut self, now: Ns, job: u32) {
        loop {
            match *self.paths.step_at(self.jobs[job].step) {
                PathStep::Drive(drive) => return self.arrive_at_drive(now, drive, job),
                PathStep::End => return self.finish_job(now, job),
                PathStep::Array(array) => return self.advance_at_array(now, array, job),
                PathStep::Compute => {
                    if self.run_compute_turn(now, job) {
                        return;
                    }
                }
                PathStep::Visit { station, when, cost } => {
                    let io = self.jobs[job].transferred_io();
                    let time = if when.applies_to(io.write) { cost.visit_time_ns(&io) } else { 0 };
                    if time > 0 {
                        self.station_bytes[usize::from(station)] += u64::from(io.blocks) * crate::io::BLOCK_BYTES;
                        return self.visit_station(now, station, job, time);
                    }
                }
                PathStep::Interrupt { cost } => {
                    let io = self.jobs[job].transferred_io();
                    let time = cost.visit_time_ns(&io);
                    self.interrupts += cost.chunk_count(&io);
                    self.interrupt_ns += time;
                    if time > 0 {
                        return self.visit_station(now, self.processors, job, time);
                    }
                }
                PathStep::Enter(gate) => {
                    let gate = &mut self.gates[usize::from(gate)];
                    if gate.inside == gate.max_inside {
                        gate.waiting.push_back(job);
                        return;
                    }
                    gate.inside += 1;
                }
                PathStep::Leave(gate) => self.leave_gate(now, gate),
                PathStep::Split(max_blocks) => {
                    if self.split_job(now, job, max_blocks) {
                        return;
                    }
                }
                PathStep::Channel { channel, when } => {
                    if when.applies_to(self.jobs[job].io.write) {
                        return self.request_channel(now, channel, Holder::Job(job));
                    }
                }
                PathStep::Cache { cache, base } => {
                    let proceeds = match self.jobs[job].purpose.moves_data() {
                        true => self.submit_to_cache(now, cache, base, job),
                        false => self.submit_order_to_cache(now, cache, base, job),
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
    fn run_compute_turn(&mut self, now: Ns, job: u32) -> bool {
        let left = self.jobs[job].compute_ns;
        if left > 0 {
            let turn = left.min(QUANTUM_NS);
            self.compute_ns += turn;
            self.jobs[job].compute_ns = left - turn;
            self.visit_station(now, self.processors, job, turn);
            return true;
        }
        self.jobs[job].began_ns = now;
        self.notify_issued(now, job);
        if self.jobs[job].io.blocks == 0 && self.jobs[job].purpose.moves_data() {
            self.jobs[job].step = self.end_path;
            self.finish_job(now, job);
            return true;
        }
        false
    }

    /// Sends a job to a station for a service time.
    #[inline]
    fn visit_station(&mut self, now: Ns, station: u16, job: u32, time: Ns) {
        self.jobs[job].arrived_ns = now;
        let visit = station::StationJob { id: job, arrived_ns: now, service_ns: time };
        if let Some(end) = self.stations[usize::from(station)].add_job(now, visit) {
            self.events.schedule(end, Event::VisitComplete { station, job });
        }
    }

    /// Ends a job's visit to a station and starts the next job there.
    #[inline]
    fn complete_visit(&mut self, now: Ns, station: u16, job: u32) {
        let visit = station::StationJob { id: job, arrived_ns: self.jobs[job].arrived_ns, service_ns: 0 };
        if let Some((end, next)) = self.stations[usize::from(station)].complete_job(now, &visit) {
            self.events.schedule(end, Event::VisitComplete { station, job: next.id });
        }
        // programs and arrays check what is left to do
        match self.paths.step_at(self.jobs[job].step) {
            PathStep::Compute | PathStep::Array(_) => self.advance_job(now, job),
            _ => self.complete_step(now, job),
        }
    }

    /// Lets a job out of a gate; the next one may enter.
    fn leave_gate(&mut self, now: Ns, gate: u16) {
        let gate = &mut self.gates[usize::from(gate)];
        match gate.waiting.pop_front() {
            Some(job) => {
                self.jobs[job].step += 1;
                self.events.schedule(now, Event::JobReady { job });
            }
            None => gate.inside -= 1,
        }
    }

    /// Splits a job into parts of at most `max_blocks`. False if it is small enough.
    fn split_job(&mut self, now: Ns, job: u32, max_blocks: u32) -> bool {
        let Job { io, step, purpose: what, .. } = self.jobs[job];
        if io.blocks <= max_blocks || !what.moves_data() {
            return false;
        }
        self.jobs[job].parts = io.blocks.div_ceil(max_blocks);
        let mut first = io.first;
        while first < io.end() {
            let blocks = u64::from(max_blocks).min(io.end() - first) as u32;
            let part =
                self.jobs.insert(Job::new(crate::io::Io { first, blocks, ..io }, step + 1, Parent::Part { job }));
            self.advance_job(now, part);
            first += u64::from(blocks);
        }
        true
    }

    /// Finishes a job: its parent continues.
    fn finish_job(&mut self, now: Ns, job: u32) {
        let Job { io, began_ns: began, parent, .. } = self.jobs[job];
        match parent {
            Parent::MemberIo { array, number, member } => {
                self.jobs.remove(job);
                self.complete_member_io(now, array, number, member, io);
            }
            Parent::Load { load, user, .. } => {
                self.jobs.remove(job);
                self.complete_load_request(now, load, &io, began);
                if now > began {
                    self.advance_load_user(now, load, user, Cause::Done);
                } else {
                    // a user who never waits would never let time pass
                    self.events.schedule(now + 1, Event::UserReady { load, user });
                }
            }
            Parent::PostedLoad { load, .. } => {
                self.jobs.remove(job);
                self.complete_load_request(now, load, &io, began);
            }
            Parent::CacheIo { cache, number } => {
                self.jobs.remove(job);
                self.complete_cache_io(now, cache, number);
            }
            Parent::Part { job: whole } => {
                self.jobs.remove(job);
                debug_assert!(self.jobs[whole].parts > 0, "each part ends once");
                self.jobs[whole].parts -= 1;
                if self.jobs[whole].parts == 0 {
                    self.jobs[whole].step = self.end_path;
                    self.finish_job(now, whole);
                }
            }
            Parent::External { tag, target } => {
                let done = self.jobs[job];
                self.jobs.remove(job);
                self.complete_external_request(now, tag, target, &done);
            }
            Parent::FanOut { job: whole } => {
                self.jobs.remove(job);
                self.complete_order_part(now, whole);
            }
            Parent::Background { .. } | Parent::Gathered { .. } => self.jobs.remove(job),
        }
    }
}
