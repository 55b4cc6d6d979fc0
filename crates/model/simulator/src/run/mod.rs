//! The event loop: a system ([`crate::system`]) in virtual time. One loop, one event type, integer nanoseconds, one
//! seed; memory grows only with the largest number of requests in flight.
//!
//! A request is a [`job::Job`] that takes the steps of a path (`path.rs`); caches and arrays create further jobs, for
//! which the parent jobs wait. Each kind of component owns its state, in its own file. Its methods change that state,
//! schedule events, and return which jobs continue. Only `dispatch.rs` moves jobs from one component to the next.

mod array_orders;
mod array_repair;
mod arrays;
mod batches;
mod caches;
mod changes;
mod channels;
mod compile;
mod dispatch;
mod drive_admission;
mod drive_changes;
mod drives;
mod external;
mod gates;
mod io_counts;
mod job;
mod latency;
mod loads;
mod parallel_device;
mod path;
mod report;
mod row_gathering;
mod slots;
mod snapshot;
mod stations;

use crate::Ns;
use crate::array::ArrayGeometry;
use crate::load::Cause;
use crate::system::WatchSpec;
use arrays::ArrayRun;
use batches::Batches;
use caches::CacheRun;
use changes::ScheduledChanges;
use channels::ChannelRun;
use drives::DriveRun;
use external::ExternalRequests;
use gates::AdmissionGate;
use job::JobFlow;
use loads::Loads;
use path::Paths;
use snapshot::{OtherInterrupts, Snapshot};
use stations::Stations;

pub use crate::system::SystemChange;
pub use changes::ChangeError;
pub use compile::CompileError;
pub use external::{ExternalCompletion, ExternalRequest};
pub use io_counts::IoCounts;
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

/// A running simulation of a system.
pub struct Simulation {
    flow: JobFlow,
    paths: Paths,
    stations: Stations,
    gates: Vec<AdmissionGate>,
    caches: Vec<CacheRun>,
    arrays: Vec<ArrayRun>,
    drives: Vec<DriveRun>,
    channels: Vec<ChannelRun>,
    loads: Loads,
    external: ExternalRequests,
    changes: ScheduledChanges,
    other_interrupts: OtherInterrupts,
    watch: WatchSpec,
    /// All counters at the last call of [`Simulation::report_interval`].
    last_report: Option<Snapshot>,
    is_started: bool,
}

impl Simulation {
    /// Current virtual time, ns.
    pub fn now(&self) -> Ns {
        self.flow.events.now()
    }

    /// Requests in flight, parts and member I/Os included.
    pub fn in_flight_count(&self) -> usize {
        self.flow.jobs.len()
    }

    /// Runs the warm-up and the counted time. Calls `sample` with the report of each counted interval.
    pub fn run(&mut self, mut sample: impl FnMut(&SimulationReport)) -> SimulationReport {
        self.run_until_end(Some(&mut sample))
    }

    /// Runs without samples, which cost time if little happens in an interval.
    pub fn run_without_samples(&mut self) -> SimulationReport {
        self.run_until_end(None)
    }

    /// Runs the warm-up and the counted time, interval by interval.
    fn run_until_end(&mut self, mut sample: Option<&mut dyn FnMut(&SimulationReport)>) -> SimulationReport {
        self.record_latency(sample.is_some());
        // without a warm-up, events at time 0 count
        if self.watch.warm_up > 0 {
            self.run_until(self.watch.warm_up);
        }
        self.reset_statistics();
        let from = self.take_snapshot();
        let end = self.watch.warm_up.saturating_add(self.watch.duration);
        let mut batches = Batches::default();
        let mut before = from.clone();
        loop {
            let until = (self.now() + self.watch.interval.max(1)).min(end);
            let has_events = self.run_until(until);
            self.loads.add_interval(&mut batches);
            if let Some(sample) = &mut sample {
                let after = self.take_snapshot();
                if after.time_ns > before.time_ns {
                    sample(&self.build_report(&before, &after, None));
                }
                self.merge_interval_responses();
                batches.restart_interval();
                before = after;
            }
            if !has_events || self.now() >= end {
                break;
            }
        }
        self.merge_interval_responses();
        let to = self.take_snapshot();
        self.build_report(&from, &to, Some(&batches))
    }

    /// Runs up to a point in time. False if no event is left; the time is then that of the last event.
    pub fn run_until(&mut self, until: Ns) -> bool {
        self.ensure_started();
        while let Some(time) = self.flow.events.next_time() {
            if self.loads.all_finished() {
                return false;
            }
            if time > until {
                self.flow.events.advance_to(until);
                return true;
            }
            let Some((now, event)) = self.flow.events.pop() else { return false };
            self.handle_event(now, event);
        }
        if self.drives.iter().any(|drive| drive.is_hung) {
            // all requests wait for a hung drive, yet time advances
            self.flow.events.advance_to(until);
            return true;
        }
        false
    }

    /// Starts all users of the loads and all background work, and schedules the changes, unless that was done already.
    fn ensure_started(&mut self) {
        if std::mem::replace(&mut self.is_started, true) {
            return;
        }
        for (load, user) in self.loads.users() {
            self.advance_load_user(0, load, user, Cause::Start);
        }
        (0..self.arrays.len() as u16).for_each(|array| self.begin_background_steps(0, array));
        for (number, scheduled) in (0..).zip(&self.changes.changes) {
            self.flow.events.schedule(scheduled.time_ns, Event::ApplyChange { number });
        }
    }

    /// Dispatches an event.
    #[inline]
    fn handle_event(&mut self, now: Ns, event: Event) {
        debug_assert_eq!(self.now(), now, "an event is handled at its time");
        match event {
            Event::DriveComplete { drive, job } => self.complete_drive_request(now, drive, job),
            Event::VisitComplete { station, job } => self.complete_visit(now, station, job),
            Event::DriveNeedsChannel { drive } => {
                self.drives[drive as usize].request_channel(now, &mut self.channels, &mut self.flow);
            }
            Event::ChannelComplete { channel } => self.complete_channel_use(now, channel),
            Event::LoadArrive { number } => {
                let job = self.loads.begin_pending(now, number, &mut self.flow);
                self.advance_job(now, job);
            }
            Event::CacheWake { cache } => self.wake_cache(now, cache),
            Event::BackgroundStep { array } => self.begin_background_steps(now, array),
            Event::GatheredWrites { array } => self.begin_gathered_writes(now, array),
            Event::JobReady { job } => self.advance_job(now, job),
            Event::UserReady { load, user } => self.advance_load_user(now, load, user, Cause::Done),
            Event::ExternalArrive { number } => {
                let job = self.external.begin(now, number, &mut self.flow);
                self.advance_job(now, job);
            }
            Event::ApplyChange { number } => self.apply_scheduled_change(now, number),
        }
    }
}

/// External requests and the parts that serve them.
impl Simulation {
    /// Blocks of a served target.
    pub fn target_blocks(&self, target: u16) -> Option<u64> {
        self.external.target_blocks(target)
    }

    /// Geometry of an array.
    pub fn array_geometry(&self, array: usize) -> Option<&ArrayGeometry> {
        self.arrays.get(array).map(|run| run.planner.array())
    }

    /// Numbers of the drives that currently serve an array's members.
    pub fn array_drives(&self, array: usize) -> Option<&[u32]> {
        self.arrays.get(array).map(|run| run.drives.as_slice())
    }

    /// Submits a read or a write at a point in time; a past time counts as now. A request to a target that is not
    /// served completes at once.
    pub fn submit_at(&mut self, time: Ns, request: ExternalRequest) {
        self.submit_with_purpose(time, JobPurpose::Transfer, request);
    }

    /// Submits a request of any purpose. A flush ignores `request.io`, a trim uses its range. Writing zeroes is a write
    /// of as many blocks, or a trim if the client allows it.
    pub fn submit_with_purpose(&mut self, time: Ns, purpose: JobPurpose, request: ExternalRequest) {
        self.external.submit(time, purpose, request, &mut self.flow);
    }

    /// Time of the next event; `None` if nothing is scheduled.
    pub fn next_event_time(&mut self) -> Option<Ns> {
        self.ensure_started();
        self.flow.events.next_time()
    }

    /// Advances virtual time to `until`, even if no event occurs.
    pub fn advance_until(&mut self, until: Ns) {
        self.ensure_started();
        while self.flow.events.next_time().is_some_and(|time| time <= until) {
            let Some((now, event)) = self.flow.events.pop() else { break };
            self.handle_event(now, event);
        }
        self.flow.events.advance_to(until);
    }

    /// Takes the completions since the last call, in the order of time.
    pub fn drain_completions(&mut self) -> std::vec::Drain<'_, ExternalCompletion> {
        self.external.drain_completions()
    }

    /// Reports the time since the last call, or since the beginning.
    pub fn report_interval(&mut self) -> SimulationReport {
        let now = self.take_snapshot();
        let before = self.last_report.replace(now.clone()).unwrap_or_else(|| now.clone());
        let report = self.build_report(&before, &now, None);
        self.merge_interval_responses();
        self.record_latency(true);
        report
    }
}
