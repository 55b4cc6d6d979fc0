//! Arrays at work: requests become member I/Os, parity is computed at a cost, failed members are rebuilt.

use super::gather::RowGathering;
use super::job::{ArrayPhase, Parent, SimulationJob};
use super::latency::of_transfer;
use super::path::PathStart;
use super::{Simulation, SimulationEvent};
use crate::Ns;
use crate::array::{
    ArrayFlights, ArrayGeometry, ArrayProgress, ArrayRequest, ArrayState, MemberIo, MemberIoPlan, Members, ParityWork,
    Pass, Planner, ReadFrom, Task, pause_ns,
};
use crate::io::{BLOCK_BYTES, Io};
use crate::station::Meter;
use crate::system::{Background, Set};

/// Response time of a request that fails because nothing is left to read or write: our own choice. With an immediate
/// answer, users without think time would issue requests forever at one moment.
const ERROR_NS: Ns = 1_000_000;

/// An array in the system.
pub(super) struct ArrayRun {
    pub planner: Planner,
    /// A plan for reuse; `None` while it is being carried out.
    pub plan: Option<Box<MemberIoPlan>>,
    /// Gathers writes that arrive together into writes of whole rows, where the array does that.
    pub gathering: Option<RowGathering>,
    pub flights: ArrayFlights,
    /// By flight: its request, and the parity work to do at its end.
    pub owners: Vec<(u32, ParityWork)>,
    /// The drive of each member, by number.
    pub drives: Vec<u32>,
    /// The path of the array's own background work: a single step, the array.
    pub own: PathStart,
    /// The path to each member.
    pub members: Vec<PathStart>,
    /// The unused spares: drive number and path.
    pub spares: Vec<(u32, PathStart)>,
    /// The station that computes parity, and the cost of a byte there, ps: XOR, and multiplication in GF(256).
    pub parity: (u16, u64, u64),
    pub background: Option<BackgroundRun>,
    pub meter: Meter,
    pub counts: super::Counts,
    /// Member I/Os of requests (not of the background).
    pub member_ios: u64,
    /// Blocks of requests that could not be served.
    pub lost_blocks: u64,
    /// Members that have failed and are not rebuilt yet, and those of them that already have a replacement drive.
    pub lost: Members,
    pub replaced: Members,
    /// Settings of automatic rebuilds onto spares, and of the current rebuild.
    pub rebuild: Option<Background>,
    pub settings: Background,
    /// Number of the current pass: steps of earlier passes that are still in flight are ignored.
    pub round: u32,
    /// Flights that read from a member that has failed since.
    pub spoilt: Vec<u32>,
    /// Reports the members' state to the planner: only some policies use it.
    pub watches: bool,
    /// I/Os in flight at each member, where that is tracked.
    pub pending: Vec<u32>,
}

/// A running rebuild or scrub.
pub(super) struct BackgroundRun {
    pub task: Task,
    /// The members being rebuilt.
    pub targets: Members,
    pub pass: Pass,
    pub settings: Background,
    /// Steps in flight, by their first member block.
    pub out: Vec<u64>,
    /// Earliest start of the next step.
    pub next_at: Ns,
    /// The latest time for which a wake-up is scheduled.
    pub woken_at: Ns,
    /// Time at which it ended.
    pub ended: Option<Ns>,
    /// Member block below which all blocks are done.
    pub done: u64,
}

impl ArrayRun {
    /// An idle array.
    pub fn new(
        array: ArrayGeometry,
        set: &Set,
        members: Vec<PathStart>,
        spares: Vec<(u32, PathStart)>,
        parity: (u16, u64, u64),
    ) -> ArrayRun {
        let mut planner = Planner::new(array, set.policy);
        planner.set_state(ArrayState::failed(set.failed.iter().copied()));
        ArrayRun {
            gathering: RowGathering::new(&planner),
            planner,
            plan: None,
            flights: ArrayFlights::new(),
            owners: Vec::new(),
            pending: vec![0; members.len()],
            drives: set.members.clone(),
            own: 0,
            members,
            spares,
            parity,
            background: None,
            meter: Meter::default(),
            counts: super::Counts::default(),
            member_ios: 0,
            lost_blocks: 0,
            lost: set.failed.iter().copied().collect(),
            replaced: Members::NONE,
            rebuild: set.rebuild,
            settings: set.rebuild.unwrap_or_default(),
            round: 0,
            spoilt: Vec::new(),
            watches: watches(set.policy.read_from),
        }
    }

    /// Time to compute parity, ns.
    fn time_of(&self, work: ParityWork) -> Ns {
        let (_, xor, galois) = self.parity;
        (work.xor_blocks * xor + work.galois_blocks * galois) * BLOCK_BYTES / 1000
    }
}

/// True if a policy for mirrored reads needs to know the members' queues and positions.
fn watches(read_from: ReadFrom) -> bool {
    matches!(read_from, ReadFrom::LeastBusy | ReadFrom::Nearest | ReadFrom::IdleOrNearest)
}

impl Simulation {
    /// Advances a request at an array: a new one, or one whose computation has ended.
    pub(super) fn array_step(&mut self, now: Ns, array: u16, job: u32) {
        match self.jobs[job].phase {
            _ if !self.jobs[job].what.moves_data() => self.array_order(now, array, job),
            ArrayPhase::New => {
                self.arrays[usize::from(array)].meter.arrive(now);
                self.arrays[usize::from(array)].meter.start(now);
                self.jobs[job].came_to_array = now;
                if !self.gathers(now, array, job) {
                    self.array_begin(now, array, job);
                }
            }
            ArrayPhase::Before => self.array_begin(now, array, job),
            ArrayPhase::Between => {
                let run = &mut self.arrays[usize::from(array)];
                let number = self.jobs[job].parts;
                let after = run.flights.take_after(number);
                self.send_members(now, array, number, &after);
                self.arrays[usize::from(array)].flights.give_back(number, after);
            }
            ArrayPhase::Last => self.array_done(now, array, job),
        }
    }

    /// Plans a request and starts its member I/Os; a full-row write computes its parity first.
    pub(super) fn array_begin(&mut self, now: Ns, array: u16, job: u32) {
        let run = &mut self.arrays[usize::from(array)];
        let mut plan = run.plan.take().unwrap_or_default();
        let io = self.jobs[job].io;
        let user = match self.jobs[job].parent {
            Parent::Load { user, .. } => user,
            _ => 0,
        };
        run.planner.plan(ArrayRequest { who: user, ..ArrayRequest::from(io) }, &mut plan);
        let first = self.jobs[job].phase == ArrayPhase::New;
        if first {
            run.lost_blocks += plan.lost_blocks;
            let time = if io.write && plan.reads.is_empty() { run.time_of(plan.work) } else { 0 };
            if time > 0 {
                // a write of full rows computes the parity first and then writes all members
                let station = run.parity.0;
                run.plan = Some(plan);
                self.jobs[job].phase = ArrayPhase::Before;
                self.visit(now, station, job, time);
                return;
            }
        }
        run.member_ios += plan.ios() as u64;
        self.fly(now, array, job, plan);
    }

    /// Starts a plan's member I/Os on behalf of a job.
    fn fly(&mut self, now: Ns, array: u16, job: u32, mut plan: Box<MemberIoPlan>) {
        let run = &mut self.arrays[usize::from(array)];
        let at_end = if plan.after.is_empty() && plan.writes.is_empty() { plan.work } else { ParityWork::default() };
        let Some(number) = run.flights.begin(&mut plan) else {
            let is_lost = plan.lost_blocks > 0;
            run.plan = Some(plan);
            if is_lost {
                self.jobs[job].phase = ArrayPhase::Last;
                self.events.schedule(now.saturating_add(ERROR_NS), SimulationEvent::Go { job });
                return;
            }
            self.array_done(now, array, job);
            return;
        };
        if run.owners.len() <= number as usize {
            run.owners.resize(number as usize + 1, (0, ParityWork::default()));
        }
        run.owners[number as usize] = (job, at_end);
        self.send_members(now, array, number, &plan.reads);
        self.send_members(now, array, number, &plan.writes);
        self.arrays[usize::from(array)].plan = Some(plan);
    }

    fn send_members(&mut self, now: Ns, array: u16, number: u32, ios: &[MemberIo]) {
        for io in ios {
            let run = &mut self.arrays[usize::from(array)];
            let member_start = run.members[usize::from(io.member)];
            if run.watches {
                run.pending[usize::from(io.member)] += 1;
                run.planner.pending(io.member, run.pending[usize::from(io.member)]);
            }
            let parent = Parent::Flight { array, number, member: io.member };
            let job = self.jobs.add(SimulationJob::new(io.io(), member_start, parent));
            self.advance(now, job);
        }
    }

    /// Completes a member I/O; the last one of a flight advances its request.
    pub(super) fn member_done(&mut self, now: Ns, array: u16, number: u32, member: u16, io: Io) {
        let run = &mut self.arrays[usize::from(array)];
        if run.watches {
            run.planner.moved(member, io.end());
            let pending = &mut run.pending[usize::from(member)];
            *pending = pending.saturating_sub(1);
            run.planner.pending(member, run.pending[usize::from(member)]);
        }
        if !io.write && !run.lost.is_empty() {
            run.notes_spoilt(number, member, &io);
        }
        let spoilt = run.spoilt.contains(&number);
        let (job, at_end) = run.owners[number as usize];
        match run.flights.done(number, io.write) {
            ArrayProgress::Waiting => {}
            ArrayProgress::Send(..) if spoilt => {
                if run.flights.drop_after(number) {
                    self.plan_again(now, array, number);
                }
            }
            ArrayProgress::Send(_, work) => {
                let (time, station) = (run.time_of(work), run.parity.0);
                self.gathering_has_read(now, array, job);
                self.jobs[job].parts = number;
                self.jobs[job].phase = ArrayPhase::Between;
                if time > 0 {
                    self.visit(now, station, job, time);
                } else {
                    self.array_step(now, array, job);
                }
            }
            ArrayProgress::Done if spoilt => self.plan_again(now, array, number),
            ArrayProgress::Done => {
                let time = run.time_of(at_end);
                if time > 0 {
                    let station = run.parity.0;
                    self.jobs[job].phase = ArrayPhase::Last;
                    self.visit(now, station, job, time);
                } else {
                    self.array_done(now, array, job);
                }
            }
        }
    }

    /// Completes a request of an array.
    pub(super) fn array_done(&mut self, now: Ns, array: u16, job: u32) {
        if let Parent::Background { round, .. } = self.jobs[job].parent {
            let from = self.jobs[job].io.first;
            self.jobs.remove(job);
            self.background_done(now, array, round, from);
            return;
        }
        self.gathering_has_read(now, array, job);
        if let Parent::Gathered { group, .. } = self.jobs[job].parent {
            return self.gathered_done(now, array, job, group);
        }
        let run = &mut self.arrays[usize::from(array)];
        run.meter.complete(now, self.jobs[job].came_to_array);
        let (io, response) = (&self.jobs[job].io, now - self.jobs[job].came_to_array);
        run.counts.add(io, response);
        self.latency.array(array, of_transfer(io.write), response);
        self.passed(now, job);
    }

    /// Starts as many steps of a rebuild or a scrub as may be in flight.
    pub(super) fn background(&mut self, now: Ns, array: u16) {
        loop {
            let run = &mut self.arrays[usize::from(array)];
            let Some(running) = &mut run.background else { return };
            if running.out.len() as u64 >= u64::from(running.settings.depth.max(1)) || running.ended.is_some() {
                return;
            }
            if running.next_at > now {
                // schedule one event per point in time: each event that finds nothing to do would otherwise schedule
                // another
                if running.woken_at < running.next_at {
                    running.woken_at = running.next_at;
                    self.events.schedule(running.next_at, SimulationEvent::Background { array });
                }
                return;
            }
            let from = running.pass.done();
            let mut plan = run.plan.take().unwrap_or_default();
            if !running.pass.next(&run.planner, &mut plan) {
                run.plan = Some(plan);
                if running.out.is_empty() {
                    running.ended = Some(now);
                    self.background_ended(now, array);
                }
                return;
            }
            let bytes = (running.pass.done() - from) * BLOCK_BYTES;
            running.out.push(from);
            running.next_at = now + pause_ns(bytes, running.settings.rate.map_or(0.0, |rate| rate as f64));
            if plan.ios() == 0 {
                // no member completes this step, and recursing once for each such step would have no bound
                run.plan = Some(plan);
                run.step_is_done(from);
                continue;
            }
            let parent = Parent::Background { array, round: run.round };
            let job =
                SimulationJob { phase: ArrayPhase::Before, ..SimulationJob::new(Io::read(from, 1), run.own, parent) };
            let job = self.jobs.add(job);
            self.fly(now, array, job, plan);
        }
    }

    /// Completes the background step that begins at member block `from`, unless it belongs to an earlier pass.
    fn background_done(&mut self, now: Ns, array: u16, round: u32, from: u64) {
        let run = &mut self.arrays[usize::from(array)];
        if round != run.round {
            return;
        }
        run.step_is_done(from);
        self.background(now, array);
    }
}

impl ArrayRun {
    /// Marks the step of a rebuild or a scrub that begins at `from` as done.
    fn step_is_done(&mut self, from: u64) {
        let Some(running) = &mut self.background else { return };
        running.out.retain(|step| *step != from);
        // steps that complete out of order count once all earlier ones are done
        let first = running.out.iter().min().copied();
        running.done = first.unwrap_or(running.pass.done());
        if running.task == Task::Rebuild {
            let all = running.pass.state(&self.planner);
            let state = first.map_or(all, |first| ArrayState { good_below: first, ..self.planner.state() });
            self.planner.set_state(state);
        }
    }

    /// Assigns spares to the failed members, as far as there are any, and begins to rebuild them, as for members
    /// that fail during a run.
    pub fn start_rebuild(&mut self, settings: Background) {
        // nothing can be rebuilt onto a spare once data are lost
        if !self.planner.array().survives(self.lost) {
            return;
        }
        for member in self.lost.iter() {
            if let Some((drive, path)) = self.spares.pop() {
                self.drives[usize::from(member)] = drive;
                self.members[usize::from(member)] = path;
                self.replaced = self.replaced.with(member);
            }
        }
        self.settings = settings;
        self.begin_rebuild();
    }

    /// Starts a scrub.
    pub fn start_scrub(&mut self, settings: Background) {
        let pass = Pass::new(Task::Scrub, &self.planner, u64::from(settings.step_blocks));
        self.background = Some(BackgroundRun::new(Task::Scrub, Members::NONE, pass, settings));
    }
}

impl BackgroundRun {
    /// A pass at its beginning, with no step in flight.
    pub fn new(task: Task, targets: Members, pass: Pass, settings: Background) -> BackgroundRun {
        let done = pass.done();
        BackgroundRun { task, targets, pass, settings, out: Vec::new(), next_at: 0, woken_at: 0, ended: None, done }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::ArrayLevel;
    use crate::device::{DeviceModel, PlainSpec};
    use crate::spread::ServiceTimeDistribution;
    use crate::system::{Drives, Set, System, WorkloadTarget};

    #[test]
    fn a_rebuild_at_a_rate_asks_for_one_event_at_a_time() {
        let spec = PlainSpec {
            name: "plain".into(),
            blocks: 1 << 30,
            servers: 1,
            service: ServiceTimeDistribution::Constant(1_000_000),
            bytes_per_s: f64::INFINITY,
        };
        let mut system = System::new("rebuilding");
        system.drives.push(Drives::new("disk", 3, DeviceModel::Plain(spec.into())));
        let mut set = Set::new("pair", ArrayLevel::Raid1, vec![0, 1]);
        (set.failed, set.spares) = (vec![0], vec![2]);
        set.rebuild = Some(Background { step_blocks: 1024, depth: 2, rate: Some(50_000_000) });
        system.arrays.push(set);
        let mut simulation = Simulation::serving(&system, &[WorkloadTarget::Array(0)]).expect("valid");
        // one step of 512 KiB every 10.5 ms, for ten seconds
        simulation.run_until(10_000_000_000);
        let done = simulation.arrays[0].background.as_ref().expect("a rebuild").done * BLOCK_BYTES;
        assert!((done as f64 / 500e6 - 1.0).abs() < 0.01, "{done} bytes");
        // two steps in flight, and the next one
        assert!(simulation.events.len() <= 4, "{} events wait", simulation.events.len());
    }
}
