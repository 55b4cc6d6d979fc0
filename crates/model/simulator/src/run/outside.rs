//! External requests: from programs that use a virtual disk. The caller sets the start time of each request and
//! collects the completions when virtual time has reached them.

use super::job::{JobPurpose, Parent, SimulationJob};
use super::path::PathStart;
use super::{Simulation, SimulationEvent, SimulationReport, report};
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
    pub began: Ns,
    /// Completion, virtual time.
    pub at: Ns,
}

/// The targets that serve external requests, with their pending requests and completions.
#[derive(Default)]
pub(super) struct ExternalQueue {
    /// The path to each target and its blocks.
    pub targets: Vec<(PathStart, u64)>,
    /// Requests that have not begun, by number.
    coming: Vec<(JobPurpose, ExternalRequest)>,
    free: Vec<u32>,
    answers: Vec<ExternalCompletion>,
    /// Snapshot at the end of the last interval.
    last: Option<report::Snapshot>,
}

impl Simulation {
    /// Blocks of a served target.
    pub fn target_blocks(&self, target: u16) -> Option<u64> {
        self.served.targets.get(usize::from(target)).map(|(_, blocks)| *blocks)
    }

    /// Geometry of an array.
    pub fn array(&self, array: usize) -> Option<&ArrayGeometry> {
        self.arrays.get(array).map(|run| run.planner.array())
    }

    /// Numbers of the drives that currently serve an array's members.
    pub fn array_drives(&self, array: usize) -> Option<&[u32]> {
        self.arrays.get(array).map(|run| run.drives.as_slice())
    }

    /// Submits a read or a write at a point in time; a past time counts as now. A request to a target that is not
    /// served completes at once.
    pub fn ask(&mut self, time: Ns, request: ExternalRequest) {
        self.ask_for(time, JobPurpose::Transfer, request);
    }

    /// Submits a request of any purpose. A flush ignores `request.io`, a trim uses its range. Writing zeroes is a write
    /// of as many blocks, or a trim where the client allows it.
    pub fn ask_for(&mut self, time: Ns, what: JobPurpose, request: ExternalRequest) {
        let request = (what, request);
        let number = match self.served.free.pop() {
            Some(number) => {
                self.served.coming[number as usize] = request;
                number
            }
            None => {
                self.served.coming.push(request);
                (self.served.coming.len() - 1) as u32
            }
        };
        self.events.schedule(time, SimulationEvent::Outside { number });
    }

    /// Time of the next event; `None` if nothing is scheduled.
    pub fn next_at(&mut self) -> Option<Ns> {
        if !self.started {
            self.start();
        }
        self.events.next_at()
    }

    /// Advances virtual time to `until`, whether or not events occur.
    pub fn pass_until(&mut self, until: Ns) {
        if !self.started {
            self.start();
        }
        while self.events.next_at().is_some_and(|time| time <= until) {
            let Some((now, event)) = self.events.take() else { break };
            self.handle(now, event);
        }
        self.events.wait(until);
    }

    /// Takes the completions since the last call, in the order of time.
    pub fn answers(&mut self) -> std::vec::Drain<'_, ExternalCompletion> {
        self.served.answers.drain(..)
    }

    /// Reports the time since the last call, or since the beginning.
    pub fn interval(&mut self) -> SimulationReport {
        let now = self.moment();
        let before = self.served.last.replace(now.clone()).unwrap_or_else(|| now.clone());
        let report = self.report(&before, &now, None);
        self.end_interval();
        self.latency.on = true;
        report
    }

    /// Begins an external request whose time has come.
    pub(super) fn outside_begins(&mut self, now: Ns, number: u32) {
        let (what, ExternalRequest { target, io, tag }) = self.served.coming[number as usize];
        self.served.free.push(number);
        // a flush has no position, and no data to transfer first
        let io = if what == JobPurpose::Flush { Io::read(0, 0) } else { io };
        self.outside_goes(
            now,
            SimulationJob { began: now, what, ..SimulationJob::new(io, self.end, Parent::Outside { tag, target }) },
        );
    }

    /// Starts a job from outside on its target's path.
    fn outside_goes(&mut self, now: Ns, job: SimulationJob) {
        let Parent::Outside { target, .. } = job.parent else { return };
        let step = self.served.targets.get(usize::from(target)).map_or(self.end, |(path, _)| *path);
        let job = self.jobs.add(SimulationJob { came: now, step, ..job });
        self.advance(now, job);
    }

    /// Completes an external request; a forced-unit-access write is followed by its flush.
    pub(super) fn outside_done(&mut self, now: Ns, tag: u32, target: u16, job: &SimulationJob) {
        if job.what == JobPurpose::Through && job.io.write {
            let parent = Parent::Outside { tag, target };
            let flush = SimulationJob {
                began: job.began,
                what: JobPurpose::Flush,
                ..SimulationJob::new(Io::read(0, 0), self.end, parent)
            };
            return self.outside_goes(now, flush);
        }
        self.served.answers.push(ExternalCompletion { tag, began: job.began, at: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{DeviceModel, PlainSpec};
    use crate::spread::ServiceTimeDistribution;
    use crate::system::{Drives, System, WorkloadTarget};

    fn two_plain() -> Simulation {
        let spec = PlainSpec {
            name: "plain".into(),
            blocks: 1 << 20,
            servers: 1,
            service: ServiceTimeDistribution::Constant(1_000_000),
            bytes_per_s: f64::INFINITY,
        };
        let mut system = System::new("two");
        system.drives.push(Drives::new("disk", 2, DeviceModel::Plain(spec.into())));
        Simulation::serving(&system, &[WorkloadTarget::Drive(0), WorkloadTarget::Drive(1)]).expect("valid")
    }

    #[test]
    fn requests_are_answered_when_they_would_be() {
        let mut simulation = two_plain();
        assert_eq!((simulation.target_blocks(1), simulation.target_blocks(2)), (Some(1 << 20), None));
        assert_eq!(simulation.next_at(), None);
        let request = |target, tag| ExternalRequest { target, io: Io::read(0, 8), tag };
        // an idle simulation does not advance by itself
        simulation.pass_until(5_000_000);
        simulation.ask(7_000_000, request(0, 1));
        simulation.ask(7_100_000, request(0, 2));
        simulation.ask(7_100_000, request(1, 3));
        simulation.ask(7_200_000, request(9, 4));
        simulation.pass_until(8_050_000);
        let answer = |tag, began, at| ExternalCompletion { tag, began, at };
        let done: Vec<ExternalCompletion> = simulation.answers().collect();
        assert_eq!(done, [answer(4, 7_200_000, 7_200_000), answer(1, 7_000_000, 8_000_000)]);
        assert_eq!(simulation.next_at(), Some(8_100_000));
        simulation.pass_until(20_000_000);
        let done: Vec<ExternalCompletion> = simulation.answers().collect();
        assert_eq!(done, [answer(3, 7_100_000, 8_100_000), answer(2, 7_100_000, 9_000_000)]);
        assert_eq!(simulation.under_way(), 0);
    }

    #[test]
    fn intervals_follow_each_other() {
        let mut simulation = two_plain();
        simulation.ask(0, ExternalRequest { target: 0, io: Io::write(0, 8), tag: 0 });
        simulation.pass_until(2_000_000);
        let first = simulation.interval();
        let writes = |report: &SimulationReport| report.component("disk0").map_or(0, |disk| disk.counts.writes);
        assert_eq!((first.from, first.to, writes(&first)), (0, 2_000_000, 1));
        simulation.pass_until(3_000_000);
        let second = simulation.interval();
        assert_eq!((second.from, second.to, writes(&second)), (2_000_000, 3_000_000, 0));
    }
}
