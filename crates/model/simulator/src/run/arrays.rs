//! Arrays at work: requests become member I/Os, parity is computed at a cost, failed members are rebuilt.

use super::job::{ArrayPhase, Job, Parent};
use super::latency::transfer_operation;
use super::path::PathStart;
use super::row_gathering::RowGathering;
use super::{Event, Simulation};
use crate::Ns;
use crate::array::{
    ArrayGeometry, ArrayProgress, ArrayRequest, ArrayState, CopyChoice, MemberIo, MemberIoPlan, MemberSet, ParityWork,
    PassKind, Planner, RepairPass, RequestsInFlight, pause_ns,
};
use crate::io::{BLOCK_BYTES, Io};
use crate::station::Meter;
use crate::system::{ArraySpec, BackgroundWork};

/// Response time of a request that fails because nothing is left to read or write: our own choice. With an immediate
/// answer, users without think time would issue requests forever at one moment.
const ERROR_RESPONSE_NS: Ns = 1_000_000;

/// An array in the system.
pub(super) struct ArrayRun {
    pub planner: Planner,
    /// A plan for reuse; `None` while it is being carried out.
    pub plan: Option<Box<MemberIoPlan>>,
    /// Gathers writes that arrive together into writes of whole rows, where the array does that.
    pub gathering: Option<RowGathering>,
    pub flights: RequestsInFlight,
    /// By flight: its request, and the parity work to do at its end.
    pub flight_owners: Vec<(u32, ParityWork)>,
    /// The drive of each member, by number.
    pub drives: Vec<u32>,
    /// The path of the array's own background work: a single step, the array.
    pub background_path: PathStart,
    /// The path to each member.
    pub members: Vec<PathStart>,
    /// The unused spares: drive number and path.
    pub spares: Vec<(u32, PathStart)>,
    /// The station that computes parity, and the cost of a byte there, ps: XOR, and multiplication in GF(256).
    pub parity: (u16, u64, u64),
    pub background: Option<BackgroundRun>,
    pub meter: Meter,
    pub counts: super::IoCounts,
    /// Member I/Os of requests (not of the background).
    pub member_ios: u64,
    /// Blocks of requests that could not be served.
    pub lost_blocks: u64,
    /// Members that have failed and are not rebuilt yet, and those of them that already have a replacement drive.
    pub lost: MemberSet,
    pub replaced: MemberSet,
    /// Settings of automatic rebuilds onto spares, and of the current rebuild.
    pub auto_rebuild: Option<BackgroundWork>,
    pub rebuild_settings: BackgroundWork,
    /// Number of the current pass: steps of earlier passes that are still in flight are ignored.
    pub background_round: u32,
    /// Flights that read from a member that has failed since.
    pub stale_flights: Vec<u32>,
    /// Reports the members' state to the planner: only some policies use it.
    pub tracks_members: bool,
    /// I/Os in flight at each member, where that is tracked.
    pub pending_ios: Vec<u32>,
}

/// A running rebuild or scrub.
pub(super) struct BackgroundRun {
    pub task: PassKind,
    /// The members being rebuilt.
    pub targets: MemberSet,
    pub pass: RepairPass,
    pub settings: BackgroundWork,
    /// Steps in flight, by their first member block.
    pub in_flight: Vec<u64>,
    /// Earliest start of the next step.
    pub next_step_ns: Ns,
    /// The latest time for which a wake-up is scheduled.
    pub wake_scheduled_ns: Ns,
    /// Time at which it ended.
    pub ended_ns: Option<Ns>,
    /// Member block below which all blocks are done.
    pub done_blocks: u64,
}

impl ArrayRun {
    /// An idle array.
    pub fn new(
        array: ArrayGeometry,
        set: &ArraySpec,
        members: Vec<PathStart>,
        spares: Vec<(u32, PathStart)>,
        parity: (u16, u64, u64),
    ) -> ArrayRun {
        let mut planner = Planner::new(array, set.policy);
        planner.set_state(ArrayState::with_failed(set.failed.iter().copied()));
        ArrayRun {
            gathering: RowGathering::new(&planner),
            planner,
            plan: None,
            flights: RequestsInFlight::new(),
            flight_owners: Vec::new(),
            pending_ios: vec![0; members.len()],
            drives: set.members.clone(),
            background_path: 0,
            members,
            spares,
            parity,
            background: None,
            meter: Meter::default(),
            counts: super::IoCounts::default(),
            member_ios: 0,
            lost_blocks: 0,
            lost: set.failed.iter().copied().collect(),
            replaced: MemberSet::NONE,
            auto_rebuild: set.rebuild,
            rebuild_settings: set.rebuild.unwrap_or_default(),
            background_round: 0,
            stale_flights: Vec::new(),
            tracks_members: needs_member_state(set.policy.read_from),
        }
    }

    /// Time to compute parity, ns.
    fn parity_time_ns(&self, work: ParityWork) -> Ns {
        let (_, xor, galois) = self.parity;
        (work.xor_blocks * xor + work.gf_mul_blocks * galois) * BLOCK_BYTES / 1000
    }
}

/// True if a policy for mirrored reads needs to know the members' queues and positions.
fn needs_member_state(read_from: CopyChoice) -> bool {
    matches!(read_from, CopyChoice::LeastBusy | CopyChoice::Nearest | CopyChoice::IdleOrNearest)
}

impl Simulation {
    /// Advances a request at an array: a new one, or one whose computation has ended.
    pub(super) fn advance_at_array(&mut self, now: Ns, array: u16, job: u32) {
        match self.jobs[job].phase {
            _ if !self.jobs[job].purpose.moves_data() => self.submit_order_to_array(now, array, job),
            ArrayPhase::New => {
                self.arrays[usize::from(array)].meter.record_arrival(now);
                self.arrays[usize::from(array)].meter.record_start(now);
                self.jobs[job].arrived_at_array_ns = now;
                if !self.hold_for_row(now, array, job) {
                    self.plan_array_request(now, array, job);
                }
            }
            ArrayPhase::ParityComputed => self.plan_array_request(now, array, job),
            ArrayPhase::UpdateComputed => {
                let run = &mut self.arrays[usize::from(array)];
                let number = self.jobs[job].parts;
                let after = run.flights.take_second_phase(number);
                self.send_member_ios(now, array, number, &after);
                self.arrays[usize::from(array)].flights.recycle_list(number, after);
            }
            ArrayPhase::Finishing => self.complete_array_request(now, array, job),
        }
    }

    /// Plans a request and starts its member I/Os; a full-row write computes its parity first.
    pub(super) fn plan_array_request(&mut self, now: Ns, array: u16, job: u32) {
        let run = &mut self.arrays[usize::from(array)];
        let mut plan = run.plan.take().unwrap_or_default();
        let io = self.jobs[job].io;
        let user = match self.jobs[job].parent {
            Parent::Load { user, .. } => user,
            _ => 0,
        };
        run.planner.plan_request(ArrayRequest { process_id: user, ..ArrayRequest::from(io) }, &mut plan);
        let first = self.jobs[job].phase == ArrayPhase::New;
        if first {
            run.lost_blocks += plan.lost_blocks;
            let time = if io.write && plan.reads.is_empty() { run.parity_time_ns(plan.work) } else { 0 };
            if time > 0 {
                // a write of full rows computes the parity first and then writes all members
                let station = run.parity.0;
                run.plan = Some(plan);
                self.jobs[job].phase = ArrayPhase::ParityComputed;
                self.visit_station(now, station, job, time);
                return;
            }
        }
        run.member_ios += plan.io_count() as u64;
        self.start_member_ios(now, array, job, plan);
    }

    /// Starts a plan's member I/Os on behalf of a job.
    fn start_member_ios(&mut self, now: Ns, array: u16, job: u32, mut plan: Box<MemberIoPlan>) {
        let run = &mut self.arrays[usize::from(array)];
        let at_end = if plan.writes_after_reads.is_empty() && plan.writes.is_empty() {
            plan.work
        } else {
            ParityWork::default()
        };
        let Some(number) = run.flights.begin_plan(&mut plan) else {
            let is_lost = plan.lost_blocks > 0;
            run.plan = Some(plan);
            if is_lost {
                self.jobs[job].phase = ArrayPhase::Finishing;
                self.events.schedule(now.saturating_add(ERROR_RESPONSE_NS), Event::JobReady { job });
                return;
            }
            self.complete_array_request(now, array, job);
            return;
        };
        if run.flight_owners.len() <= number as usize {
            run.flight_owners.resize(number as usize + 1, (0, ParityWork::default()));
        }
        run.flight_owners[number as usize] = (job, at_end);
        self.send_member_ios(now, array, number, &plan.reads);
        self.send_member_ios(now, array, number, &plan.writes);
        self.arrays[usize::from(array)].plan = Some(plan);
    }

    fn send_member_ios(&mut self, now: Ns, array: u16, number: u32, ios: &[MemberIo]) {
        for io in ios {
            let run = &mut self.arrays[usize::from(array)];
            let member_start = run.members[usize::from(io.member)];
            if run.tracks_members {
                run.pending_ios[usize::from(io.member)] += 1;
                run.planner.set_pending_ios(io.member, run.pending_ios[usize::from(io.member)]);
            }
            let parent = Parent::MemberIo { array, number, member: io.member };
            let job = self.jobs.insert(Job::new(io.to_io(), member_start, parent));
            self.advance_job(now, job);
        }
    }

    /// Completes a member I/O; the last one of a flight advances its request.
    pub(super) fn complete_member_io(&mut self, now: Ns, array: u16, number: u32, member: u16, io: Io) {
        let run = &mut self.arrays[usize::from(array)];
        if run.tracks_members {
            run.planner.set_arm_position(member, io.end());
            let pending = &mut run.pending_ios[usize::from(member)];
            *pending = pending.saturating_sub(1);
            run.planner.set_pending_ios(member, run.pending_ios[usize::from(member)]);
        }
        if !io.write && !run.lost.is_empty() {
            run.note_stale_read(number, member, &io);
        }
        let spoilt = run.stale_flights.contains(&number);
        let (job, at_end) = run.flight_owners[number as usize];
        match run.flights.complete_io(number, io.write) {
            ArrayProgress::Waiting => {}
            ArrayProgress::Send(..) if spoilt => {
                if run.flights.cancel_second_phase(number) {
                    self.restart_array_request(now, array, number);
                }
            }
            ArrayProgress::Send(_, work) => {
                let (time, station) = (run.parity_time_ns(work), run.parity.0);
                self.finish_row_read(now, array, job);
                self.jobs[job].parts = number;
                self.jobs[job].phase = ArrayPhase::UpdateComputed;
                if time > 0 {
                    self.visit_station(now, station, job, time);
                } else {
                    self.advance_at_array(now, array, job);
                }
            }
            ArrayProgress::Done if spoilt => self.restart_array_request(now, array, number),
            ArrayProgress::Done => {
                let time = run.parity_time_ns(at_end);
                if time > 0 {
                    let station = run.parity.0;
                    self.jobs[job].phase = ArrayPhase::Finishing;
                    self.visit_station(now, station, job, time);
                } else {
                    self.complete_array_request(now, array, job);
                }
            }
        }
    }

    /// Completes a request of an array.
    pub(super) fn complete_array_request(&mut self, now: Ns, array: u16, job: u32) {
        if let Parent::Background { round, .. } = self.jobs[job].parent {
            let from = self.jobs[job].io.first;
            self.jobs.remove(job);
            self.complete_background_step(now, array, round, from);
            return;
        }
        self.finish_row_read(now, array, job);
        if let Parent::Gathered { group, .. } = self.jobs[job].parent {
            return self.complete_gathered_write(now, array, job, group);
        }
        let run = &mut self.arrays[usize::from(array)];
        run.meter.record_completion(now, self.jobs[job].arrived_at_array_ns);
        let (io, response) = (&self.jobs[job].io, now - self.jobs[job].arrived_at_array_ns);
        run.counts.add_transfer(io, response);
        self.latency.record_array(array, transfer_operation(io.write), response);
        self.complete_step(now, job);
    }

    /// Starts as many steps of a rebuild or a scrub as may be in flight.
    pub(super) fn start_background_steps(&mut self, now: Ns, array: u16) {
        loop {
            let run = &mut self.arrays[usize::from(array)];
            let Some(running) = &mut run.background else { return };
            if running.in_flight.len() as u64 >= u64::from(running.settings.depth.max(1)) || running.ended_ns.is_some()
            {
                return;
            }
            if running.next_step_ns > now {
                // schedule one event per point in time: each event that finds nothing to do would otherwise schedule
                // another
                if running.wake_scheduled_ns < running.next_step_ns {
                    running.wake_scheduled_ns = running.next_step_ns;
                    self.events.schedule(running.next_step_ns, Event::BackgroundStep { array });
                }
                return;
            }
            let from = running.pass.planned_blocks();
            let mut plan = run.plan.take().unwrap_or_default();
            if !running.pass.plan_next_step(&run.planner, &mut plan) {
                run.plan = Some(plan);
                if running.in_flight.is_empty() {
                    running.ended_ns = Some(now);
                    self.finish_background(now, array);
                }
                return;
            }
            let bytes = (running.pass.planned_blocks() - from) * BLOCK_BYTES;
            running.in_flight.push(from);
            running.next_step_ns = now + pause_ns(bytes, running.settings.rate.map_or(0.0, |rate| rate as f64));
            if plan.io_count() == 0 {
                // no member completes this step, and recursing once for each such step would have no bound
                run.plan = Some(plan);
                run.finish_background_step(from);
                continue;
            }
            let parent = Parent::Background { array, round: run.background_round };
            let job =
                Job { phase: ArrayPhase::ParityComputed, ..Job::new(Io::read(from, 1), run.background_path, parent) };
            let job = self.jobs.insert(job);
            self.start_member_ios(now, array, job, plan);
        }
    }

    /// Completes the background step that begins at member block `from`, unless it belongs to an earlier pass.
    fn complete_background_step(&mut self, now: Ns, array: u16, round: u32, from: u64) {
        let run = &mut self.arrays[usize::from(array)];
        if round != run.background_round {
            return;
        }
        run.finish_background_step(from);
        self.start_background_steps(now, array);
    }
}

impl ArrayRun {
    /// Marks the step of a rebuild or a scrub that begins at `from` as done.
    fn finish_background_step(&mut self, from: u64) {
        let Some(running) = &mut self.background else { return };
        running.in_flight.retain(|step| *step != from);
        // steps that complete out of order count once all earlier ones are done
        let first = running.in_flight.iter().min().copied();
        running.done_blocks = first.unwrap_or(running.pass.planned_blocks());
        if running.task == PassKind::Rebuild {
            let all = running.pass.state_after(&self.planner);
            let state = first.map_or(all, |first| ArrayState { good_below: first, ..self.planner.state() });
            self.planner.set_state(state);
        }
    }

    /// Assigns spares to the failed members, as far as there are any, and begins to rebuild them, as for members
    /// that fail during a run.
    pub fn start_rebuild(&mut self, settings: BackgroundWork) {
        // nothing can be rebuilt onto a spare once data are lost
        if !self.planner.array().survives_failures(self.lost) {
            return;
        }
        for member in self.lost.iter() {
            if let Some((drive, path)) = self.spares.pop() {
                self.drives[usize::from(member)] = drive;
                self.members[usize::from(member)] = path;
                self.replaced = self.replaced.with_member(member);
            }
        }
        self.rebuild_settings = settings;
        self.begin_rebuild();
    }

    /// Starts a scrub.
    pub fn start_scrub(&mut self, settings: BackgroundWork) {
        let pass = RepairPass::new(PassKind::Scrub, &self.planner, u64::from(settings.step_blocks));
        self.background = Some(BackgroundRun::new(PassKind::Scrub, MemberSet::NONE, pass, settings));
    }
}

impl BackgroundRun {
    /// A pass at its beginning, with no step in flight.
    pub fn new(task: PassKind, targets: MemberSet, pass: RepairPass, settings: BackgroundWork) -> BackgroundRun {
        let done = pass.planned_blocks();
        BackgroundRun {
            task,
            targets,
            pass,
            settings,
            in_flight: Vec::new(),
            next_step_ns: 0,
            wake_scheduled_ns: 0,
            ended_ns: None,
            done_blocks: done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::ArrayLevel;
    use crate::device::{DeviceModel, PlainSpec};
    use crate::service_time::ServiceTimeDistribution;
    use crate::system::{ArraySpec, DriveGroupSpec, System, WorkloadTarget};

    #[test]
    fn a_rate_limited_rebuild_schedules_one_event_at_a_time() {
        let spec = PlainSpec {
            name: "plain".into(),
            blocks: 1 << 30,
            servers: 1,
            service: ServiceTimeDistribution::Constant(1_000_000),
            bytes_per_s: f64::INFINITY,
        };
        let mut system = System::new("rebuilding");
        system.drives.push(DriveGroupSpec::new("disk", 3, DeviceModel::Plain(spec.into())));
        let mut set = ArraySpec::new("pair", ArrayLevel::Raid1, vec![0, 1]);
        (set.failed, set.spares) = (vec![0], vec![2]);
        set.rebuild = Some(BackgroundWork { step_blocks: 1024, depth: 2, rate: Some(50_000_000) });
        system.arrays.push(set);
        let mut simulation = Simulation::with_external_targets(&system, &[WorkloadTarget::Array(0)]).expect("valid");
        // one step of 512 KiB every 10.5 ms, for ten seconds
        simulation.run_until(10_000_000_000);
        let done = simulation.arrays[0].background.as_ref().expect("a rebuild").done_blocks * BLOCK_BYTES;
        assert!((done as f64 / 500e6 - 1.0).abs() < 0.01, "{done} bytes");
        // two steps in flight, and the next one
        assert!(simulation.events.len() <= 4, "{} events wait", simulation.events.len());
    }
}
