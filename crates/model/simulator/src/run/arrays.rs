//! Arrays at work: requests become member I/Os, and parity is computed at a cost. `array_orders.rs` has flushes and
//! trims, `array_repair.rs` members that fail and are rebuilt, `row_gathering.rs` small writes that become large ones.

use super::array_repair::BackgroundRun;
use super::job::{ArrayPhase, Job, JobFlow, Parent};
use super::latency::{ResponseSteps, transfer_operation};
use super::path::PathStart;
use super::report::ArrayReport;
use super::row_gathering::RowGathering;
use super::{Event, IoCounts};
use crate::Ns;
use crate::array::{
    ArrayGeometry, ArrayProgress, ArrayRequest, ArrayState, CopyChoice, MemberIo, MemberIoPlan, MemberSet, ParityWork,
    Planner, RequestsInFlight,
};
use crate::io::{BLOCK_BYTES, Io};
use crate::station::{Meter, StationTotals};
use crate::system::{ArraySpec, BackgroundWork};

/// Response time of a request that fails because nothing is left to read or write; our choice. With an immediate
/// completion, users without think time would issue requests forever without time passing.
const ERROR_RESPONSE_NS: Ns = 1_000_000;

/// The part that computes an array's parity.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParityEngine {
    pub station: u16,
    /// Cost of XOR, ps a byte.
    pub xor_byte_ps: u64,
    /// Cost of a multiplication in GF(256), ps a byte.
    pub gf_mul_byte_ps: u64,
}

/// An array in the system.
pub(super) struct ArrayRun {
    pub number: u16,
    pub name: String,
    pub planner: Planner,
    /// A plan for reuse; `None` while it is being carried out.
    pub plan: Option<Box<MemberIoPlan>>,
    /// Gathers writes that arrive together into writes of whole rows; `None` for an array that does not.
    pub gathering: Option<RowGathering>,
    pub flights: RequestsInFlight,
    /// By flight: the job of its request, and the parity work to do at its end.
    pub flight_owners: Vec<(u32, ParityWork)>,
    /// The drive of each member, by number.
    pub drives: Vec<u32>,
    /// The path of the array's own background work: a single step, the array.
    pub background_path: PathStart,
    /// The path to each member.
    pub members: Vec<PathStart>,
    /// The unused spares: drive number and path.
    pub spares: Vec<(u32, PathStart)>,
    pub parity: ParityEngine,
    pub background: Option<BackgroundRun>,
    pub meter: Meter,
    pub counts: IoCounts,
    /// Response times of this interval.
    pub responses: ResponseSteps,
    /// Member I/Os of requests (not of the background).
    pub member_ios: u64,
    /// Blocks of requests that could not be served.
    pub lost_blocks: u64,
    /// Members that have failed and are not rebuilt yet.
    pub lost: MemberSet,
    /// Lost members that already have a replacement drive.
    pub replaced: MemberSet,
    /// Settings of automatic rebuilds onto spares.
    pub auto_rebuild: Option<BackgroundWork>,
    /// Settings of the current rebuild.
    pub rebuild_settings: BackgroundWork,
    /// Number of the current pass: steps of earlier passes that are still in flight are ignored.
    pub background_round: u32,
    /// Flights that read from a member that has failed since.
    pub stale_flights: Vec<u32>,
    /// True if the members' state is reported to the planner, because its policy uses it.
    pub tracks_members: bool,
    /// I/Os in flight at each member, if `tracks_members` is set.
    pub pending_ios: Vec<u32>,
}

/// An array's counters at a point in time.
#[derive(Clone, Debug)]
pub(super) struct ArraySnapshot {
    totals: StationTotals,
    counts: IoCounts,
    member_ios: u64,
    lost_blocks: u64,
    /// Blocks of each member that the rebuild or the scrub has done.
    background_blocks: u64,
}

/// Next action of a request of an array.
pub(super) enum ArrayStep {
    /// It waits for something that is in flight or scheduled.
    Wait,
    /// It computes parity at a station for a time.
    ComputeParity { station: u16, time_ns: Ns },
    /// It sends the first phase of its plan; the plan goes back to the array ([`ArrayRun::recycle_plan`]).
    SendPlan { flight: u32, plan: Box<MemberIoPlan> },
    /// It sends the second phase of its plan; the list goes back to the array ([`ArrayRun::recycle_writes`]).
    SendWrites { flight: u32, writes: Vec<MemberIo> },
    /// It completes.
    Complete,
}

/// Consequence of the completion of a request of an array.
pub(super) enum ArrayCompletion {
    /// Its job continues.
    Request,
    /// The writes that were combined into the request complete.
    Gathered(Vec<u32>),
    /// The next background steps may begin.
    Background,
}

impl ArrayRun {
    /// An idle array.
    pub fn new(
        number: u16,
        array: ArrayGeometry,
        spec: &ArraySpec,
        members: Vec<PathStart>,
        spares: Vec<(u32, PathStart)>,
        parity: ParityEngine,
    ) -> ArrayRun {
        let mut planner = Planner::new(array, spec.policy);
        planner.set_state(ArrayState::with_failed(spec.failed.iter().copied()));
        ArrayRun {
            number,
            name: spec.name.clone(),
            gathering: RowGathering::new(&planner),
            planner,
            plan: None,
            flights: RequestsInFlight::new(),
            flight_owners: Vec::new(),
            pending_ios: vec![0; members.len()],
            drives: spec.members.clone(),
            background_path: 0,
            members,
            spares,
            parity,
            background: None,
            meter: Meter::default(),
            counts: IoCounts::default(),
            responses: ResponseSteps::default(),
            member_ios: 0,
            lost_blocks: 0,
            lost: spec.failed.iter().copied().collect(),
            replaced: MemberSet::NONE,
            auto_rebuild: spec.rebuild,
            rebuild_settings: spec.rebuild.unwrap_or_default(),
            background_round: 0,
            stale_flights: Vec::new(),
            tracks_members: needs_member_state(spec.policy.read_from),
        }
    }

    /// Time to compute parity, ns.
    #[inline]
    fn parity_time_ns(&self, work: ParityWork) -> Ns {
        let ParityEngine { xor_byte_ps, gf_mul_byte_ps, .. } = self.parity;
        (work.xor_blocks * xor_byte_ps + work.gf_mul_blocks * gf_mul_byte_ps) * BLOCK_BYTES / 1000
    }
}

/// True if a policy for mirrored reads needs to know the members' queues and positions.
fn needs_member_state(read_from: CopyChoice) -> bool {
    matches!(read_from, CopyChoice::LeastBusy | CopyChoice::Nearest | CopyChoice::IdleOrNearest)
}

impl ArrayRun {
    /// Advances a request that moves data: a new one, or one whose computation has ended.
    #[inline]
    pub fn advance_request(&mut self, now: Ns, job: u32, flow: &mut JobFlow) -> ArrayStep {
        match flow.jobs[job].phase {
            ArrayPhase::New => {
                self.meter.record_arrival(now);
                self.meter.record_start(now);
                flow.jobs[job].arrived_at_array_ns = now;
                if self.hold_for_row(now, job, flow) {
                    return ArrayStep::Wait;
                }
                self.plan_request(now, job, flow)
            }
            ArrayPhase::ParityComputed => self.plan_request(now, job, flow),
            ArrayPhase::UpdateComputed { flight } => {
                ArrayStep::SendWrites { flight, writes: self.flights.take_second_phase(flight) }
            }
            ArrayPhase::Finishing => ArrayStep::Complete,
        }
    }

    /// Plans a request; a full-row write computes its parity first.
    #[inline]
    pub fn plan_request(&mut self, now: Ns, job: u32, flow: &mut JobFlow) -> ArrayStep {
        let mut plan = self.plan.take().unwrap_or_default();
        let request = &mut flow.jobs[job];
        let io = request.io;
        let user = match request.parent {
            Parent::Load { user, .. } => user,
            _ => 0,
        };
        self.planner.plan_request(ArrayRequest { process_id: user, ..ArrayRequest::from(io) }, &mut plan);
        if request.phase == ArrayPhase::New {
            self.lost_blocks += plan.lost_blocks;
            let time = if io.write && plan.reads.is_empty() { self.parity_time_ns(plan.work) } else { 0 };
            if time > 0 {
                // a write of full rows computes the parity first and then writes all members
                self.plan = Some(plan);
                request.phase = ArrayPhase::ParityComputed;
                return ArrayStep::ComputeParity { station: self.parity.station, time_ns: time };
            }
        }
        self.member_ios += plan.io_count() as u64;
        self.begin_plan(now, job, plan, flow)
    }

    /// Begins a plan on behalf of a job.
    #[inline]
    pub fn begin_plan(&mut self, now: Ns, job: u32, mut plan: Box<MemberIoPlan>, flow: &mut JobFlow) -> ArrayStep {
        let work_at_end = if plan.writes_after_reads.is_empty() && plan.writes.is_empty() {
            plan.work
        } else {
            ParityWork::default()
        };
        let Some(flight) = self.flights.begin_plan(&mut plan) else {
            let is_lost = plan.lost_blocks > 0;
            self.recycle_plan(plan);
            if is_lost {
                flow.jobs[job].phase = ArrayPhase::Finishing;
                flow.events.schedule(now.saturating_add(ERROR_RESPONSE_NS), Event::JobReady { job });
                return ArrayStep::Wait;
            }
            return ArrayStep::Complete;
        };
        if self.flight_owners.len() <= flight as usize {
            self.flight_owners.resize(flight as usize + 1, (0, ParityWork::default()));
        }
        self.flight_owners[flight as usize] = (job, work_at_end);
        ArrayStep::SendPlan { flight, plan }
    }

    /// Creates the job of a member I/O.
    #[inline]
    pub fn create_member_io(&mut self, flight: u32, io: &MemberIo, flow: &mut JobFlow) -> u32 {
        let member = usize::from(io.member);
        if self.tracks_members {
            self.pending_ios[member] += 1;
            self.planner.set_pending_ios(io.member, self.pending_ios[member]);
        }
        let parent = Parent::MemberIo { array: self.number, flight, member: io.member };
        flow.jobs.insert(Job::new(io.to_io(), self.members[member], parent))
    }

    /// Takes a plan back for reuse.
    #[inline]
    pub fn recycle_plan(&mut self, plan: Box<MemberIoPlan>) {
        self.plan = Some(plan);
    }

    /// Takes the list of a second phase back for reuse.
    #[inline]
    pub fn recycle_writes(&mut self, flight: u32, writes: Vec<MemberIo>) {
        self.flights.recycle_list(flight, writes);
    }

    /// Completes a member I/O. Returns the job of its request, and the next action of that request.
    #[inline]
    pub fn complete_member_io(
        &mut self,
        now: Ns,
        (flight, member): (u32, u16),
        io: Io,
        flow: &mut JobFlow,
    ) -> (u32, ArrayStep) {
        if self.tracks_members {
            self.planner.set_arm_position(member, io.end());
            let pending = &mut self.pending_ios[usize::from(member)];
            debug_assert!(*pending > 0, "an I/O completes at member {member}, where none is in flight");
            *pending -= 1;
            self.planner.set_pending_ios(member, *pending);
        }
        if !io.write && !self.lost.is_empty() {
            self.note_stale_read(flight, member, &io);
        }
        let is_stale = self.stale_flights.contains(&flight);
        let (job, work_at_end) = self.flight_owners[flight as usize];
        let step = match self.flights.complete_io(flight, io.write) {
            ArrayProgress::Waiting => ArrayStep::Wait,
            ArrayProgress::Send(..) if is_stale => match self.flights.cancel_second_phase(flight) {
                true => self.restart_request(now, flight, flow),
                false => ArrayStep::Wait,
            },
            ArrayProgress::Send(_, work) => {
                let phase = ArrayPhase::UpdateComputed { flight };
                self.finish_row_read(now, job, flow);
                self.compute_parity(now, job, work, phase, flow)
            }
            ArrayProgress::Done if is_stale => self.restart_request(now, flight, flow),
            ArrayProgress::Done => self.compute_parity(now, job, work_at_end, ArrayPhase::Finishing, flow),
        };
        (job, step)
    }

    /// Lets a request compute parity, after which it is in the phase `next_phase`; at once if that takes no time.
    #[inline]
    fn compute_parity(
        &mut self,
        now: Ns,
        job: u32,
        work: ParityWork,
        next_phase: ArrayPhase,
        flow: &mut JobFlow,
    ) -> ArrayStep {
        let time_ns = self.parity_time_ns(work);
        flow.jobs[job].phase = next_phase;
        match time_ns {
            0 => self.advance_request(now, job, flow),
            _ => ArrayStep::ComputeParity { station: self.parity.station, time_ns },
        }
    }

    /// Completes a request; `None` if it was a background step of an earlier pass, from which nothing follows.
    #[inline]
    pub fn complete_request(&mut self, now: Ns, job: u32, flow: &mut JobFlow) -> Option<ArrayCompletion> {
        let Job { io, parent, arrived_at_array_ns, .. } = flow.jobs[job];
        if let Parent::Background { round, .. } = parent {
            flow.jobs.remove(job);
            return self.complete_background_step(round, io.first).then_some(ArrayCompletion::Background);
        }
        self.finish_row_read(now, job, flow);
        if let Parent::Gathered { group, .. } = parent {
            flow.jobs.remove(job);
            return self.gathering.as_mut().map(|gathering| ArrayCompletion::Gathered(gathering.take_group(group)));
        }
        self.meter.record_completion(now, arrived_at_array_ns);
        let response = now - arrived_at_array_ns;
        self.counts.add_transfer(&io, response);
        self.responses.record_response(transfer_operation(io.write), response);
        Some(ArrayCompletion::Request)
    }

    /// Takes a snapshot of the counters.
    pub fn take_snapshot(&mut self, now: Ns) -> ArraySnapshot {
        ArraySnapshot {
            totals: self.meter.totals(now),
            counts: self.counts,
            member_ios: self.member_ios,
            lost_blocks: self.lost_blocks,
            background_blocks: self.background.as_ref().map_or(0, |running| running.done_blocks),
        }
    }

    /// Reports the time between two snapshots.
    pub fn report(&self, from: &ArraySnapshot, to: &ArraySnapshot) -> ArrayReport {
        ArrayReport {
            name: self.name.clone(),
            totals: to.totals.delta_since(&from.totals),
            counts: to.counts.delta_since(&from.counts),
            member_ios: to.member_ios - from.member_ios,
            lost_blocks: to.lost_blocks - from.lost_blocks,
            members: self.drives.clone(),
            failed: self.lost.count(),
            background: self.background.as_ref().map(BackgroundRun::report),
            background_bytes: to.background_blocks.saturating_sub(from.background_blocks) * BLOCK_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::ArrayLevel;
    use crate::device::{DeviceModel, PlainSpec};
    use crate::run::Simulation;
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
        assert!(simulation.flow.events.len() <= 4, "{} events wait", simulation.flow.events.len());
    }
}
