//! Members of arrays that fail and are replaced during a run.

use super::Simulation;
use super::arrays::{ArrayRun, BackgroundRun};
use super::changes::ChangeError;
use super::job::{ArrayPhase, Parent};
use crate::Ns;
use crate::array::{ArrayState, Members, Pass, Task};
use crate::io::Io;
use crate::system::Background;

impl Simulation {
    /// Fails a member. Reads in flight to it are sent to the others instead.
    pub(super) fn member_fails(&mut self, now: Ns, array: u16, member: u16) -> Result<(), ChangeError> {
        let run = &mut self.arrays[usize::from(array)];
        let drive = run.drives[usize::from(member)];
        if run.lost.contains(member) && !run.replaced.contains(member) {
            return Err(ChangeError::Failed(self.names.drives[drive as usize].clone()));
        }
        run.lost = run.lost.with(member);
        run.replaced = run.replaced.without(member);
        // nothing can be rebuilt onto a spare once data are lost
        let survives = run.planner.array().survives(run.lost);
        let spare = run.rebuild.filter(|_| survives).and_then(|_| run.spares.pop());
        if let Some((spare, path)) = spare {
            run.drives[usize::from(member)] = spare;
            run.members[usize::from(member)] = path;
            run.replaced = run.replaced.with(member);
            run.settings = run.rebuild.unwrap_or_default();
        }
        run.reckon_again(member);
        self.drive_fails(now, drive);
        self.rebuild_goes_on(now, array);
        Ok(())
    }

    /// Replaces a failed member by a new drive.
    pub(super) fn member_replaced(
        &mut self,
        now: Ns,
        array: u16,
        member: u16,
        settings: Option<Background>,
    ) -> Result<(), ChangeError> {
        let run = &mut self.arrays[usize::from(array)];
        let drive = run.drives[usize::from(member)];
        let name = || self.names.drives[drive as usize].clone();
        if !run.lost.contains(member) {
            return Err(ChangeError::Works(name()));
        }
        if !run.planner.array().survives(run.lost) {
            return Err(ChangeError::Lost(self.names.arrays[usize::from(array)].clone()));
        }
        if run.replaced.contains(member) {
            return Err(ChangeError::Rebuilding(name()));
        }
        run.replaced = run.replaced.with(member);
        run.settings = settings.or(run.rebuild).unwrap_or_default();
        self.drive_replaced(now, drive);
        self.rebuild_goes_on(now, array);
        Ok(())
    }

    /// Starts or continues a rebuild, if there is something to rebuild onto and from.
    pub(super) fn rebuild_goes_on(&mut self, now: Ns, array: u16) {
        self.arrays[usize::from(array)].begin_rebuild();
        self.background(now, array);
    }

    /// Handles the end of a rebuild or a scrub.
    pub(super) fn background_ended(&mut self, now: Ns, array: u16) {
        let run = &mut self.arrays[usize::from(array)];
        let Some(BackgroundRun { task: Task::Rebuild, targets, .. }) = run.background else { return };
        run.lost = run.lost.less(targets);
        run.replaced = run.replaced.less(targets);
        if !run.replaced.is_empty() {
            self.rebuild_goes_on(now, array);
        }
    }

    /// Restarts a request that read from a member that has failed since.
    pub(super) fn plan_again(&mut self, now: Ns, array: u16, number: u32) {
        let run = &mut self.arrays[usize::from(array)];
        run.spoilt.retain(|spoilt| *spoilt != number);
        let (job, _) = run.owners[number as usize];
        if let Parent::Background { .. } = self.jobs[job].parent {
            return self.array_done(now, array, job);
        }
        self.jobs[job].phase = ArrayPhase::New;
        self.array_begin(now, array, job);
    }
}

impl ArrayRun {
    /// Marks a flight that has read unreadable blocks.
    pub fn notes_spoilt(&mut self, number: u32, member: u16, io: &Io) {
        let state = self.planner.state();
        if state.unreadable(io.end()).contains(member) && !self.spoilt.contains(&number) {
            self.spoilt.push(number);
        }
    }

    /// Recomputes the rebuild and the planner's state after a failure. A rebuild restarts where all blocks below are
    /// good: steps in flight may have read from the failed member.
    fn reckon_again(&mut self, member: u16) {
        let before = self.planner.state();
        let survives = self.planner.array().survives(self.lost);
        let rebuild = self.background.take_if(|running| running.task == Task::Rebuild);
        self.round += u32::from(rebuild.is_some());
        let targets = rebuild.map_or(Members::NONE, |running| running.targets).and(self.replaced).without(member);
        if !survives || targets.is_empty() {
            self.planner.set_state(ArrayState { failed: self.lost, ..ArrayState::default() });
            return;
        }
        let good_below = before.good_below;
        self.planner.set_state(ArrayState { failed: self.lost, rebuilding: targets, good_below });
        self.run_pass(targets, good_below);
    }

    /// Rebuilds the replaced members, unless a rebuild is running.
    pub fn begin_rebuild(&mut self) {
        let busy = self.background.as_ref().is_some_and(|b| b.task == Task::Rebuild && b.ended.is_none());
        let array = self.planner.array();
        if busy || self.replaced.is_empty() || !array.survives(self.lost) {
            return;
        }
        // includes members that are out of service because of a failed one, but not members without a drive
        let targets = array.out_of_service(self.replaced).less(self.lost.less(self.replaced));
        self.round += 1;
        self.planner.set_state(ArrayState { failed: self.lost, rebuilding: targets, good_below: 0 });
        self.run_pass(targets, 0);
    }

    fn run_pass(&mut self, targets: Members, from: u64) {
        let step = u64::from(self.settings.step_blocks);
        let pass = Pass::of_members(targets, &self.planner, step, from);
        self.background = Some(BackgroundRun::new(Task::Rebuild, targets, pass, self.settings));
    }
}
