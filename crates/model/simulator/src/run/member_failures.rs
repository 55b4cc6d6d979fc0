//! Members of arrays that fail and are replaced during a run.

use super::Simulation;
use super::arrays::{ArrayRun, BackgroundRun};
use super::changes::ChangeError;
use super::job::{ArrayPhase, Parent};
use crate::Ns;
use crate::array::{ArrayState, MemberSet, PassKind, RepairPass};
use crate::io::Io;
use crate::system::BackgroundWork;

impl Simulation {
    /// Fails a member. Reads in flight to it are sent to the others instead.
    pub(super) fn fail_member(&mut self, now: Ns, array: u16, member: u16) -> Result<(), ChangeError> {
        let run = &mut self.arrays[usize::from(array)];
        let drive = run.drives[usize::from(member)];
        if run.lost.contains(member) && !run.replaced.contains(member) {
            return Err(ChangeError::AlreadyFailed(self.names.drives[drive as usize].clone()));
        }
        run.lost = run.lost.with_member(member);
        run.replaced = run.replaced.without_member(member);
        // nothing can be rebuilt onto a spare once data are lost
        let survives = run.planner.array().survives_failures(run.lost);
        let spare = run.auto_rebuild.filter(|_| survives).and_then(|_| run.spares.pop());
        if let Some((spare, path)) = spare {
            run.drives[usize::from(member)] = spare;
            run.members[usize::from(member)] = path;
            run.replaced = run.replaced.with_member(member);
            run.rebuild_settings = run.auto_rebuild.unwrap_or_default();
        }
        run.update_after_failure(member);
        self.fail_drive(now, drive);
        self.continue_rebuild(now, array);
        Ok(())
    }

    /// Replaces a failed member by a new drive.
    pub(super) fn replace_member(
        &mut self,
        now: Ns,
        array: u16,
        member: u16,
        settings: Option<BackgroundWork>,
    ) -> Result<(), ChangeError> {
        let run = &mut self.arrays[usize::from(array)];
        let drive = run.drives[usize::from(member)];
        let name = || self.names.drives[drive as usize].clone();
        if !run.lost.contains(member) {
            return Err(ChangeError::NotFailed(name()));
        }
        if !run.planner.array().survives_failures(run.lost) {
            return Err(ChangeError::DataLost(self.names.arrays[usize::from(array)].clone()));
        }
        if run.replaced.contains(member) {
            return Err(ChangeError::AlreadyRebuilding(name()));
        }
        run.replaced = run.replaced.with_member(member);
        run.rebuild_settings = settings.or(run.auto_rebuild).unwrap_or_default();
        self.replace_drive(now, drive);
        self.continue_rebuild(now, array);
        Ok(())
    }

    /// Starts or continues a rebuild, if there is something to rebuild onto and from.
    pub(super) fn continue_rebuild(&mut self, now: Ns, array: u16) {
        self.arrays[usize::from(array)].begin_rebuild();
        self.start_background_steps(now, array);
    }

    /// Handles the end of a rebuild or a scrub.
    pub(super) fn finish_background(&mut self, now: Ns, array: u16) {
        let run = &mut self.arrays[usize::from(array)];
        let Some(BackgroundRun { task: PassKind::Rebuild, targets, .. }) = run.background else { return };
        run.lost = run.lost.difference(targets);
        run.replaced = run.replaced.difference(targets);
        if !run.replaced.is_empty() {
            self.continue_rebuild(now, array);
        }
    }

    /// Restarts a request that read from a member that has failed since.
    pub(super) fn restart_array_request(&mut self, now: Ns, array: u16, number: u32) {
        let run = &mut self.arrays[usize::from(array)];
        run.stale_flights.retain(|spoilt| *spoilt != number);
        let (job, _) = run.flight_owners[number as usize];
        if let Parent::Background { .. } = self.jobs[job].parent {
            return self.complete_array_request(now, array, job);
        }
        self.jobs[job].phase = ArrayPhase::New;
        self.plan_array_request(now, array, job);
    }
}

impl ArrayRun {
    /// Marks a flight that has read unreadable blocks.
    pub fn note_stale_read(&mut self, number: u32, member: u16, io: &Io) {
        let state = self.planner.state();
        if state.unreadable_members(io.end()).contains(member) && !self.stale_flights.contains(&number) {
            self.stale_flights.push(number);
        }
    }

    /// Recomputes the rebuild and the planner's state after a failure. A rebuild restarts where all blocks below are
    /// good: steps in flight may have read from the failed member.
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
        let busy = self.background.as_ref().is_some_and(|b| b.task == PassKind::Rebuild && b.ended_ns.is_none());
        let array = self.planner.array();
        if busy || self.replaced.is_empty() || !array.survives_failures(self.lost) {
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
