//! External requests: from programs that use a virtual disk. The caller sets the start time of each request and
//! collects the completions when virtual time has reached them.

use super::job::{Job, JobPurpose, Parent};
use super::path::PathStart;
use super::{Event, Simulation, SimulationReport, report};
use crate::Ns;
use crate::array::ArrayGeometry;
use crate::io::Io;

/// A request from outside the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalRequest {
    /// Position of the target among those that the simulation serves.
    pub target: u16,
    /// The requested I/O.
    pub io: Io,
    /// The caller's tag.
    pub tag: u32,
}

/// Completion of an external request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalCompletion {
    /// The caller's tag.
    pub tag: u32,
    /// Start, virtual time.
    pub began_ns: Ns,
    /// Completion, virtual time.
    pub done_ns: Ns,
}

/// The targets that serve external requests, with their pending requests and completions.
#[derive(Default)]
pub(super) struct ExternalQueue {
    /// The path to each target and its blocks.
    pub targets: Vec<(PathStart, u64)>,
    /// Requests that have not begun, by number.
    pending: Vec<(JobPurpose, ExternalRequest)>,
    free_numbers: Vec<u32>,
    completions: Vec<ExternalCompletion>,
    /// Snapshot at the end of the last interval.
    last_snapshot: Option<report::Snapshot>,
}

impl Simulation {
    /// Blocks of a served target.
    pub fn target_blocks(&self, target: u16) -> Option<u64> {
        self.external.targets.get(usize::from(target)).map(|(_, blocks)| *blocks)
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
    /// of as many blocks, or a trim where the client allows it.
    pub fn submit_with_purpose(&mut self, time: Ns, what: JobPurpose, request: ExternalRequest) {
        let request = (what, request);
        let number = match self.external.free_numbers.pop() {
            Some(number) => {
                self.external.pending[number as usize] = request;
                number
            }
            None => {
                self.external.pending.push(request);
                (self.external.pending.len() - 1) as u32
            }
        };
        self.events.schedule(time, Event::ExternalArrive { number });
    }

    /// Time of the next event; `None` if nothing is scheduled.
    pub fn next_event_time(&mut self) -> Option<Ns> {
        if !self.started {
            self.schedule_initial_events();
        }
        self.events.next_time()
    }

    /// Advances virtual time to `until`, whether or not events occur.
    pub fn advance_until(&mut self, until: Ns) {
        if !self.started {
            self.schedule_initial_events();
        }
        while self.events.next_time().is_some_and(|time| time <= until) {
            let Some((now, event)) = self.events.pop() else { break };
            self.handle_event(now, event);
        }
        self.events.advance_to(until);
    }

    /// Takes the completions since the last call, in the order of time.
    pub fn drain_completions(&mut self) -> std::vec::Drain<'_, ExternalCompletion> {
        self.external.completions.drain(..)
    }

    /// Reports the time since the last call, or since the beginning.
    pub fn report_interval(&mut self) -> SimulationReport {
        let now = self.take_snapshot();
        let before = self.external.last_snapshot.replace(now.clone()).unwrap_or_else(|| now.clone());
        let report = self.build_report(&before, &now, None);
        self.merge_interval_responses();
        self.latency.is_enabled = true;
        report
    }

    /// Begins an external request whose time has come.
    pub(super) fn begin_external_request(&mut self, now: Ns, number: u32) {
        let (what, ExternalRequest { target, io, tag }) = self.external.pending[number as usize];
        self.external.free_numbers.push(number);
        // a flush has no position, and no data to transfer first
        let io = if what == JobPurpose::Flush { Io::read(0, 0) } else { io };
        self.start_external_job(
            now,
            Job { began_ns: now, purpose: what, ..Job::new(io, self.end_path, Parent::External { tag, target }) },
        );
    }

    /// Starts a job from outside on its target's path.
    fn start_external_job(&mut self, now: Ns, job: Job) {
        let Parent::External { target, .. } = job.parent else { return };
        let step = self.external.targets.get(usize::from(target)).map_or(self.end_path, |(path, _)| *path);
        let job = self.jobs.insert(Job { arrived_ns: now, step, ..job });
        self.advance_job(now, job);
    }

    /// Completes an external request; a forced-unit-access write is followed by its flush.
    pub(super) fn complete_external_request(&mut self, now: Ns, tag: u32, target: u16, job: &Job) {
        if job.purpose == JobPurpose::FuaWrite && job.io.write {
            let parent = Parent::External { tag, target };
            let flush = Job {
                began_ns: job.began_ns,
                purpose: JobPurpose::Flush,
                ..Job::new(Io::read(0, 0), self.end_path, parent)
            };
            return self.start_external_job(now, flush);
        }
        self.external.completions.push(ExternalCompletion { tag, began_ns: job.began_ns, done_ns: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{DeviceModel, PlainSpec};
    use crate::service_time::ServiceTimeDistribution;
    use crate::system::{DriveGroupSpec, System, WorkloadTarget};

    fn simulate_two_plain_disks() -> Simulation {
        let spec = PlainSpec {
            name: "plain".into(),
            blocks: 1 << 20,
            servers: 1,
            service: ServiceTimeDistribution::Constant(1_000_000),
            bytes_per_s: f64::INFINITY,
        };
        let mut system = System::new("two");
        system.drives.push(DriveGroupSpec::new("disk", 2, DeviceModel::Plain(spec.into())));
        Simulation::with_external_targets(&system, &[WorkloadTarget::Drive(0), WorkloadTarget::Drive(1)])
            .expect("valid")
    }

    #[test]
    fn requests_complete_at_their_virtual_time() {
        let mut simulation = simulate_two_plain_disks();
        assert_eq!((simulation.target_blocks(1), simulation.target_blocks(2)), (Some(1 << 20), None));
        assert_eq!(simulation.next_event_time(), None);
        let request = |target, tag| ExternalRequest { target, io: Io::read(0, 8), tag };
        // an idle simulation does not advance by itself
        simulation.advance_until(5_000_000);
        simulation.submit_at(7_000_000, request(0, 1));
        simulation.submit_at(7_100_000, request(0, 2));
        simulation.submit_at(7_100_000, request(1, 3));
        simulation.submit_at(7_200_000, request(9, 4));
        simulation.advance_until(8_050_000);
        let answer = |tag, began, at| ExternalCompletion { tag, began_ns: began, done_ns: at };
        let done: Vec<ExternalCompletion> = simulation.drain_completions().collect();
        assert_eq!(done, [answer(4, 7_200_000, 7_200_000), answer(1, 7_000_000, 8_000_000)]);
        assert_eq!(simulation.next_event_time(), Some(8_100_000));
        simulation.advance_until(20_000_000);
        let done: Vec<ExternalCompletion> = simulation.drain_completions().collect();
        assert_eq!(done, [answer(3, 7_100_000, 8_100_000), answer(2, 7_100_000, 9_000_000)]);
        assert_eq!(simulation.in_flight_count(), 0);
    }

    #[test]
    fn intervals_follow_each_other() {
        let mut simulation = simulate_two_plain_disks();
        simulation.submit_at(0, ExternalRequest { target: 0, io: Io::write(0, 8), tag: 0 });
        simulation.advance_until(2_000_000);
        let first = simulation.report_interval();
        let writes = |report: &SimulationReport| report.find_component("disk0").map_or(0, |disk| disk.counts.writes);
        assert_eq!((first.from, first.to, writes(&first)), (0, 2_000_000, 1));
        simulation.advance_until(3_000_000);
        let second = simulation.report_interval();
        assert_eq!((second.from, second.to, writes(&second)), (2_000_000, 3_000_000, 0));
    }
}
