//! External requests come from programs that use a virtual disk. The caller sets the start time of each request, and
//! collects the completions when virtual time has reached them.

use super::Event;
use super::job::{Job, JobFlow, JobPurpose, Parent};
use super::path::{END_PATH, PathStart};
use super::slots::Slots;
use crate::Ns;
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

/// A target of external requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExternalTarget {
    pub path: PathStart,
    pub blocks: u64,
}

/// The targets that serve external requests, with their pending requests and completions.
#[derive(Default)]
pub(super) struct ExternalRequests {
    targets: Vec<ExternalTarget>,
    /// Requests that have not begun.
    pending: Slots<(JobPurpose, ExternalRequest)>,
    completions: Vec<ExternalCompletion>,
}

impl ExternalRequests {
    /// Targets without requests.
    pub fn new(targets: Vec<ExternalTarget>) -> ExternalRequests {
        ExternalRequests { targets, ..ExternalRequests::default() }
    }

    /// Blocks of a target.
    pub fn target_blocks(&self, target: u16) -> Option<u64> {
        self.targets.get(usize::from(target)).map(|target| target.blocks)
    }

    /// Schedules a request.
    pub fn submit(&mut self, time: Ns, purpose: JobPurpose, request: ExternalRequest, flow: &mut JobFlow) {
        let number = self.pending.insert((purpose, request));
        flow.events.schedule(time, Event::ExternalArrive { number });
    }

    /// Creates the job of a request whose time has come.
    pub fn begin(&mut self, now: Ns, number: u32, flow: &mut JobFlow) -> u32 {
        let (purpose, request) = self.pending.take(number);
        // a flush has no position, and no data to transfer first
        let io = if purpose == JobPurpose::Flush { Io::read(0, 0) } else { request.io };
        self.create_job(now, now, purpose, ExternalRequest { io, ..request }, flow)
    }

    /// Creates a job on its target's path.
    fn create_job(
        &self,
        now: Ns,
        began_ns: Ns,
        purpose: JobPurpose,
        request: ExternalRequest,
        flow: &mut JobFlow,
    ) -> u32 {
        let ExternalRequest { target, io, tag } = request;
        let path = self.targets.get(usize::from(target)).map_or(END_PATH, |target| target.path);
        let job = Job::new(io, path, Parent::External { tag, target });
        flow.jobs.insert(Job { began_ns, arrived_ns: now, purpose, ..job })
    }

    /// Completes a request, whose job has been removed. A flush follows a forced-unit-access write: then it returns the
    /// flush's job.
    pub fn complete(
        &mut self,
        now: Ns,
        began_ns: Ns,
        purpose: JobPurpose,
        request: ExternalRequest,
        flow: &mut JobFlow,
    ) -> Option<u32> {
        if purpose == JobPurpose::FuaWrite && request.io.write {
            let flush = ExternalRequest { io: Io::read(0, 0), ..request };
            return Some(self.create_job(now, began_ns, JobPurpose::Flush, flush, flow));
        }
        self.completions.push(ExternalCompletion { tag: request.tag, began_ns, done_ns: now });
        None
    }

    /// Takes the completions since the last call, in the order of time.
    pub fn drain_completions(&mut self) -> std::vec::Drain<'_, ExternalCompletion> {
        self.completions.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{DeviceModel, PlainSpec};
    use crate::run::{Simulation, SimulationReport};
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
        let answer = |tag, began, done_ns| ExternalCompletion { tag, began_ns: began, done_ns };
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
