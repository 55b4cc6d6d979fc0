//! Requests that come from outside of the simulation: from programs that use a
//! virtual disk. Whoever runs the simulation says when each begins and takes
//! the answers when their moment has come.

use super::job::{JobPurpose, Parent, SimulationJob};
use super::path::PathStart;
use super::{Simulation, SimulationEvent, SimulationReport, report};
use crate::Ns;
use crate::array::ArrayGeometry;
use crate::io::Io;

/// A request from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalRequest {
    /// Which of the targets that the simulation serves, by position.
    pub target: u16,
    /// What is asked for.
    pub io: Io,
    /// The caller's number for it.
    pub tag: u32,
}

/// A request from outside is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalCompletion {
    /// The caller's number for it.
    pub tag: u32,
    /// When it began, virtual time.
    pub began: Ns,
    /// When it was done, virtual time.
    pub at: Ns,
}

/// What the simulation serves to the outside.
#[derive(Default)]
pub(super) struct ExternalQueue {
    /// The path to each target and its blocks.
    pub targets: Vec<(PathStart, u64)>,
    /// Requests that have not begun, by number.
    coming: Vec<(JobPurpose, ExternalRequest)>,
    free: Vec<u32>,
    answers: Vec<ExternalCompletion>,
    /// Where the last interval ended.
    last: Option<report::Snapshot>,
}

impl Simulation {
    /// Blocks of a target that is served.
    pub fn target_blocks(&self, target: u16) -> Option<u64> {
        self.served.targets.get(usize::from(target)).map(|(_, blocks)| *blocks)
    }

    /// An array's geometry.
    pub fn array(&self, array: usize) -> Option<&ArrayGeometry> {
        self.arrays.get(array).map(|run| run.planner.array())
    }

    /// The drives that serve an array's members now, by number.
    pub fn array_drives(&self, array: usize) -> Option<&[u32]> {
        self.arrays.get(array).map(|run| run.drives.as_slice())
    }

    /// A read or a write begins at a moment; one that is past is taken as now. A
    /// request to a target that is not served is answered at once.
    pub fn ask(&mut self, time: Ns, request: ExternalRequest) {
        self.ask_for(time, JobPurpose::Transfer, request);
    }

    /// The same for requests of every sort. Of a flush nothing of `request.io` counts, of a trim its
    /// range. To write zeroes is a write of as many blocks, or a trim where whoever asks allows it.
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

    /// The moment of the next thing to happen; `None` where nothing will by itself.
    pub fn next_at(&mut self) -> Option<Ns> {
        if !self.started {
            self.start();
        }
        self.events.next_at()
    }

    /// Lets time go on to a moment, whatever happens or does not happen until then.
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

    /// What was answered since it was last asked for, in the order of time.
    pub fn answers(&mut self) -> std::vec::Drain<'_, ExternalCompletion> {
        self.served.answers.drain(..)
    }

    /// What happened since the last call, or since the beginning; up to now.
    pub fn interval(&mut self) -> SimulationReport {
        let now = self.moment();
        let before = self.served.last.replace(now.clone()).unwrap_or_else(|| now.clone());
        let report = self.report(&before, &now, None);
        self.end_interval();
        self.latency.on = true;
        report
    }

    /// The moment of a request from outside has come.
    pub(super) fn outside_begins(&mut self, now: Ns, number: u32) {
        let (what, ExternalRequest { target, io, tag }) = self.served.coming[number as usize];
        self.served.free.push(number);
        // a flush has no place, and no data that would have to come before it
        let io = if what == JobPurpose::Flush { Io::read(0, 0) } else { io };
        self.outside_goes(
            now,
            SimulationJob { began: now, what, ..SimulationJob::new(io, self.end, Parent::Outside { tag, target }) },
        );
    }

    /// A job from outside sets out for its target.
    fn outside_goes(&mut self, now: Ns, job: SimulationJob) {
        let Parent::Outside { target, .. } = job.parent else { return };
        let step = self.served.targets.get(usize::from(target)).map_or(self.end, |(path, _)| *path);
        let job = self.jobs.add(SimulationJob { came: now, step, ..job });
        self.advance(now, job);
    }

    /// A request from outside is done.
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
        let ask = |target, tag| ExternalRequest { target, io: Io::read(0, 8), tag };
        // an idle simulation has no time of its own
        simulation.pass_until(5_000_000);
        simulation.ask(7_000_000, ask(0, 1));
        simulation.ask(7_100_000, ask(0, 2));
        simulation.ask(7_100_000, ask(1, 3));
        simulation.ask(7_200_000, ask(9, 4));
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
        let of = |report: &SimulationReport| report.component("disk0").map_or(0, |disk| disk.counts.writes);
        assert_eq!((first.from, first.to, of(&first)), (0, 2_000_000, 1));
        simulation.pass_until(3_000_000);
        let second = simulation.interval();
        assert_eq!((second.from, second.to, of(&second)), (2_000_000, 3_000_000, 0));
    }
}
