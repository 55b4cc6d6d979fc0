//! Members of arrays that fail, are replaced and rebuilt during a run; and scrubs, which read an array in the same way.

use super::Event;
use super::arrays::{ArrayRun, ArrayStep};
use super::job::{ArrayPhase, Job, JobFlow, Parent};
use super::report::BackgroundReport;
use crate::Ns;
use crate::array::{ArrayState, MemberIoPlan, MemberSet, PassKind, RepairPass, pause_ns};
use crate::io::{BLOCK_BYTES, Io};
use crate::system::BackgroundWork;

/// Reasons why a member cannot fail or be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberError {
    /// It has failed already.
    AlreadyFailed,
    /// It has not failed.
    NotFailed,
    /// Too many members have failed.
    DataLost,
    /// It has a new drive already.
    AlreadyReplaced,
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
    /// Latest time for which a wake-up is scheduled, ns.
    pub wake_scheduled_ns: Ns,
    /// Time at which it ended.
    pub ended_ns: Option<Ns>,
    /// Member block below which all blocks are done.
    pub done_blocks: u64,
}

impl ArrayRun {
    /// Fails a member, and gives it a spare if there is one. Returns the drive that failed.
    pub fn fail_member(&mut self, member: u16) -> Result<u32, MemberError> {
        let drive = self.drives[usize::from(member)];
        if self.lost.contains(member) && !self.replaced.contains(member) {
            return Err(MemberError::AlreadyFailed);
        }
        self.lost = self.lost.with_member(member);
        self.replaced = self.replaced.without_member(member);
        // nothing can be rebuilt onto a spare once data are lost
        let survives = self.planner.array().survives_failures(self.lost);
        if let Some(settings) = self.auto_rebuild.filter(|_| survives)
            && self.assign_spare(member)
        {
            self.rebuild_settings = settings;
        }
        self.update_after_failure(member);
        Ok(drive)
    }

    /// Gives a failed member a new drive in the old one's place. Returns the drive.
    pub fn replace_member(&mut self, member: u16, settings: Option<BackgroundWork>) -> Result<u32, MemberError> {
        if !self.lost.contains(member) {
            return Err(MemberError::NotFailed);
        }
        if !self.planner.array().survives_failures(self.lost) {
            return Err(MemberError::DataLost);
        }
        if self.replaced.contains(member) {
            return Err(MemberError::AlreadyReplaced);
        }
        self.replaced = self.replaced.with_member(member);
        self.rebuild_settings = settings.or(self.auto_rebuild).unwrap_or_default();
        Ok(self.drives[usize::from(member)])
    }

    /// Gives a failed member the next spare. False if there is none.
    fn assign_spare(&mut self, member: u16) -> bool {
        let Some((drive, path)) = self.spares.pop() else { return false };
        self.drives[usize::from(member)] = drive;
        self.members[usize::from(member)] = path;
        self.replaced = self.replaced.with_member(member);
        true
    }

    /// Begins the next step of a rebuild or a scrub, if one may begin now. Returns the step's job, and the next action
    /// of that job.
    pub fn begin_background_step(&mut self, now: Ns, flow: &mut JobFlow) -> Option<(u32, ArrayStep)> {
        loop {
            let running = self.background.as_mut()?;
            if running.is_full() {
                return None;
            }
            if running.next_step_ns > now {
                // schedule one event per point in time: each event that finds nothing to do would otherwise schedule
                // another
                if running.wake_scheduled_ns < running.next_step_ns {
                    running.wake_scheduled_ns = running.next_step_ns;
                    flow.events.schedule(running.next_step_ns, Event::BackgroundStep { array: self.number });
                }
                return None;
            }
            let mut plan = self.plan.take().unwrap_or_default();
            let Some(from) = self.plan_background_step(now, &mut plan) else {
                self.recycle_plan(plan);
                // the next rebuild begins if a member was replaced meanwhile
                match self.end_background(now) {
                    true => continue,
                    false => return None,
                }
            };
            if plan.io_count() == 0 {
                // no member completes this step
                self.recycle_plan(plan);
                self.finish_background_step(from);
                continue;
            }
            let parent = Parent::Background { array: self.number, round: self.background_round };
            let step =
                Job { phase: ArrayPhase::ParityComputed, ..Job::new(Io::read(from, 1), self.background_path, parent) };
            let job = flow.jobs.insert(step);
            return Some((job, self.begin_plan(now, job, plan, flow)));
        }
    }

    /// Plans the next step of the pass. Returns its first member block; `None` if the pass has planned all steps.
    fn plan_background_step(&mut self, now: Ns, plan: &mut MemberIoPlan) -> Option<u64> {
        let running = self.background.as_mut()?;
        let from = running.pass.planned_blocks();
        if !running.pass.plan_next_step(&self.planner, plan) {
            return None;
        }
        let bytes = (running.pass.planned_blocks() - from) * BLOCK_BYTES;
        running.in_flight.push(from);
        running.next_step_ns = now + pause_ns(bytes, running.settings.rate.map_or(0.0, |rate| rate as f64));
        Some(from)
    }

    /// Ends a pass that has planned all steps, once none of them is in flight. True if another rebuild follows.
    fn end_background(&mut self, now: Ns) -> bool {
        let Some(running) = self.background.as_mut().filter(|running| running.in_flight.is_empty()) else {
            return false;
        };
        running.ended_ns = Some(now);
        let targets = running.targets;
        if running.task != PassKind::Rebuild {
            return false;
        }
        self.lost = self.lost.difference(targets);
        self.replaced = self.replaced.difference(targets);
        if self.replaced.is_empty() {
            return false;
        }
        self.begin_rebuild();
        true
    }

    /// Completes the background step that begins at member block `from`. False if the step belongs to an earlier pass,
    /// and is ignored.
    pub fn complete_background_step(&mut self, round: u32, from: u64) -> bool {
        let is_current = round == self.background_round;
        if is_current {
            self.finish_background_step(from);
        }
        is_current
    }

    /// Marks the step of a rebuild or a scrub that begins at `from` as done.
    fn finish_background_step(&mut self, from: u64) {
        let Some(running) = &mut self.background else { return };
        running.in_flight.retain(|step| *step != from);
        // steps that complete out of order count once all earlier ones are done
        let first = running.in_flight.iter().min().copied();
        running.done_blocks = first.unwrap_or(running.pass.planned_blocks());
        if running.task == PassKind::Rebuild {
            let state_after_all = running.pass.state_after(&self.planner);
            let state = first.map_or(state_after_all, |first| ArrayState { good_below: first, ..self.planner.state() });
            self.planner.set_state(state);
        }
    }

    /// Assigns spares to the failed members, as far as there are spares, and begins to rebuild these members, as for
    /// members that fail during a run.
    pub fn start_rebuild(&mut self, settings: BackgroundWork) {
        // nothing can be rebuilt onto a spare once data are lost
        if !self.planner.array().survives_failures(self.lost) {
            return;
        }
        for member in self.lost.iter() {
            self.assign_spare(member);
        }
        self.rebuild_settings = settings;
        self.begin_rebuild();
    }

    /// Starts a scrub.
    pub fn start_scrub(&mut self, settings: BackgroundWork) {
        let pass = RepairPass::new(PassKind::Scrub, &self.planner, u64::from(settings.step_blocks));
        self.background = Some(BackgroundRun::new(PassKind::Scrub, MemberSet::NONE, pass, settings));
    }

    /// Restarts a request that read from a member that has failed since.
    pub fn restart_request(&mut self, now: Ns, flight: u32, flow: &mut JobFlow) -> ArrayStep {
        self.stale_flights.retain(|stale| *stale != flight);
        let (job, _) = self.flight_owners[flight as usize];
        if let Parent::Background { .. } = flow.jobs[job].parent {
            return ArrayStep::Complete;
        }
        flow.jobs[job].phase = ArrayPhase::New;
        self.plan_request(now, job, flow)
    }

    /// Marks a flight as stale if its read was of blocks that are now unreadable.
    pub fn note_stale_read(&mut self, number: u32, member: u16, io: &Io) {
        let state = self.planner.state();
        if state.unreadable_members(io.end()).contains(member) && !self.stale_flights.contains(&number) {
            self.stale_flights.push(number);
        }
    }

    /// Recomputes the rebuild and the planner's state after a failure. A running rebuild restarts at the first block
    /// that is not yet good, because steps in flight may have read from the failed member.
    fn update_after_failure(&mut self, member: u16) {
        let before = self.planner.state();
        let survives = self.planner.array().survives_failures(self.lost);
        let rebuild = self.background.take_if(|running| running.task == PassKind::Rebuild);
        self.background_round += u32::from(rebuild.is_some());
        let targets = rebuild
            .map_or(MemberSet::NONE, |running| running.targets)
            .intersection(self.replaced)
            .without_member(member);
        if !survives || targets.is_empty() {
            self.planner.set_state(ArrayState { failed: self.lost, ..ArrayState::default() });
            return;
        }
        let good_below = before.good_below;
        self.planner.set_state(ArrayState { failed: self.lost, rebuilding: targets, good_below });
        self.start_rebuild_pass(targets, good_below);
    }

    /// Rebuilds the replaced members, unless a rebuild is running.
    pub fn begin_rebuild(&mut self) {
        let is_rebuilding =
            self.background.as_ref().is_some_and(|b| b.task == PassKind::Rebuild && b.ended_ns.is_none());
        let array = self.planner.array();
        if is_rebuilding || self.replaced.is_empty() || !array.survives_failures(self.lost) {
            return;
        }
        // includes members that are out of service because of a failed one, but not members without a drive
        let targets = array.out_of_service(self.replaced).difference(self.lost.difference(self.replaced));
        self.background_round += 1;
        self.planner.set_state(ArrayState { failed: self.lost, rebuilding: targets, good_below: 0 });
        self.start_rebuild_pass(targets, 0);
    }

    fn start_rebuild_pass(&mut self, targets: MemberSet, from: u64) {
        let step = u64::from(self.rebuild_settings.step_blocks);
        let pass = RepairPass::rebuild_members(targets, &self.planner, step, from);
        self.background = Some(BackgroundRun::new(PassKind::Rebuild, targets, pass, self.rebuild_settings));
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

    /// True if no further step may begin: as many are in flight as allowed, or the pass has ended.
    fn is_full(&self) -> bool {
        let depth = u64::from(self.settings.depth.max(1));
        debug_assert!(self.in_flight.len() as u64 <= depth, "more than {depth} background steps are in flight");
        self.in_flight.len() as u64 == depth || self.ended_ns.is_some()
    }

    /// Reports its progress.
    pub fn report(&self) -> BackgroundReport {
        BackgroundReport {
            task: self.task,
            done_bytes: self.done_blocks * BLOCK_BYTES,
            all_bytes: self.pass.total_blocks() * BLOCK_BYTES,
            ended_ns: self.ended_ns,
        }
    }
}
