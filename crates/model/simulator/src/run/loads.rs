//! Loads at work: load requests become jobs, completed jobs are counted.

use diskwright_base::Histogram;

use super::batches::Batches;
use super::job::{Job, JobFlow, Parent};
use super::path::{END_PATH, PathStart};
use super::report::WorkloadReport;
use super::slots::Slots;
use super::{Event, IoCounts};
use crate::Ns;
use crate::io::Io;
use crate::load::{Cause, Load, LoadRequest};

/// The paths from a host to a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct TargetPaths {
    pub past_file_cache: PathStart,
    pub through_file_cache: PathStart,
}

/// A workload in the system.
pub(super) struct LoadRun {
    name: String,
    load: Load,
    /// The paths to each target.
    paths: Vec<TargetPaths>,
    counts: IoCounts,
    /// Response times of this interval, ns.
    pub interval_responses: Histogram,
    /// Response times since the start of counting, ns.
    all_responses: Histogram,
}

impl LoadRun {
    /// A load that has not begun.
    pub fn new(name: String, load: Load, paths: Vec<TargetPaths>) -> LoadRun {
        let (interval_responses, all_responses) = (Histogram::new(), Histogram::new());
        LoadRun { name, load, paths, counts: IoCounts::default(), interval_responses, all_responses }
    }

    fn path_to_target(&self, request: &LoadRequest) -> PathStart {
        match self.paths.get(usize::from(request.target)) {
            Some(paths) if request.cached => paths.through_file_cache,
            Some(paths) => paths.past_file_cache,
            None => END_PATH,
        }
    }
}

/// All loads, and their requests that have not begun.
#[derive(Default)]
pub(super) struct Loads {
    loads: Vec<LoadRun>,
    /// Requests with the loads that made them.
    pending: Slots<(u16, LoadRequest)>,
    /// Buffer into which a load pushes its requests.
    buffer: Vec<LoadRequest>,
    all_finished: bool,
}

impl Loads {
    /// Loads that have not begun.
    pub fn new(loads: Vec<LoadRun>) -> Loads {
        Loads { loads, ..Loads::default() }
    }

    /// Returns each user of each load: the load's number, and the user's.
    pub fn users(&self) -> Vec<(u16, u32)> {
        let users = |(load, run): (u16, &LoadRun)| (0..run.load.user_count()).map(move |user| (load, user));
        (0..).zip(&self.loads).flat_map(users).collect()
    }

    /// True if all loads have finished.
    #[inline]
    pub fn all_finished(&self) -> bool {
        self.all_finished
    }

    /// Advances a user of a load. Returns its next requests, for [`Loads::begin_or_schedule`]; the list is taken back
    /// by [`Loads::end_advance`].
    #[inline]
    pub fn advance_user(&mut self, now: Ns, load: u16, user: u32, cause: Cause) -> Vec<LoadRequest> {
        let mut requests = std::mem::take(&mut self.buffer);
        self.loads[usize::from(load)].load.next(now, user, cause, &mut requests);
        requests
    }

    /// Creates the job of a request that begins now, or schedules the request.
    #[inline]
    pub fn begin_or_schedule(
        &mut self,
        now: Ns,
        load: u16,
        request: LoadRequest,
        cause: Cause,
        flow: &mut JobFlow,
    ) -> Option<u32> {
        if request.start_ns > now || cause != Cause::Done {
            let number = self.pending.insert((load, request));
            flow.events.schedule(request.start_ns, Event::LoadArrive { number });
            return None;
        }
        Some(self.create_job(now, load, request, flow))
    }

    /// Takes the list of a user's requests back, and notes whether its load has finished.
    #[inline]
    pub fn end_advance(&mut self, load: u16, requests: Vec<LoadRequest>) {
        self.buffer = requests;
        if self.loads[usize::from(load)].load.is_finished() {
            self.all_finished = self.loads.iter().all(|run| run.load.is_finished());
        }
    }

    /// Creates the job of a scheduled request whose time has come.
    #[inline]
    pub fn begin_pending(&mut self, now: Ns, number: u32, flow: &mut JobFlow) -> u32 {
        let (load, request) = self.pending.take(number);
        self.create_job(now, load, request, flow)
    }

    #[inline]
    fn create_job(&mut self, now: Ns, load: u16, request: LoadRequest, flow: &mut JobFlow) -> u32 {
        let parent = if request.report_done {
            Parent::Load { load, user: request.agent, notify: request.report_issued }
        } else {
            Parent::PostedLoad { load, user: request.agent, notify: request.report_issued }
        };
        let path = self.loads[usize::from(load)].path_to_target(&request);
        flow.jobs.insert(Job {
            compute_ns: request.compute_ns,
            began_ns: now,
            arrived_ns: now,
            ..Job::new(request.io, path, parent)
        })
    }

    /// Counts a completed request of a load.
    #[inline]
    pub fn count_completion(&mut self, now: Ns, load: u16, io: &Io, began_ns: Ns) {
        let run = &mut self.loads[usize::from(load)];
        if io.blocks > 0 {
            run.counts.add_transfer(io, now - began_ns);
            run.interval_responses.record(now - began_ns);
        }
    }

    /// Starts to count: discards what the loads have recorded so far.
    pub fn reset_statistics(&mut self) {
        for run in &mut self.loads {
            run.load.reset_counters();
            run.interval_responses.clear();
            run.all_responses.clear();
        }
    }

    /// Merges the response times of the interval into those of the whole run.
    pub fn merge_interval_responses(&mut self) {
        for run in &mut self.loads {
            run.all_responses.merge(&run.interval_responses);
            run.interval_responses.clear();
        }
    }

    /// Adds the response times of an interval to batches.
    pub fn add_interval(&self, batches: &mut Batches) {
        batches.add_interval(self.loads.iter().map(|run| &run.interval_responses));
    }

    /// Takes a snapshot of the counters of each load.
    pub fn take_snapshot(&self) -> Vec<IoCounts> {
        self.loads.iter().map(|run| run.counts).collect()
    }

    /// Reports the time between two snapshots; of the whole run if `batches` are given.
    pub fn report(&self, from: &[IoCounts], to: &[IoCounts], batches: Option<&Batches>) -> Vec<WorkloadReport> {
        let report = |(index, (run, (from, to))): (usize, (&LoadRun, (&IoCounts, &IoCounts)))| WorkloadReport {
            name: run.name.clone(),
            counts: to.delta_since(from),
            responses: if batches.is_some() { run.all_responses.clone() } else { run.interval_responses.clone() },
            response_s: batches.and_then(|batches| batches.mean_response(index)),
            operations: run.load.operations().to_vec(),
        };
        self.loads.iter().zip(from.iter().zip(to)).enumerate().map(report).collect()
    }
}
