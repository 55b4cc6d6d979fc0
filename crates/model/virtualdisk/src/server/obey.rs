//! Orders carried out: the model, the content and what is known of the drives
//! change together.

use diskwright_simulator::Ns;
use diskwright_simulator::array::{ArrayState, Members};
use diskwright_simulator::system::{System, SystemChange, WorkloadTarget};

use super::engine::DiskEngine;
use super::exports::{drive_by_name, unknown_drive};
use super::orders::{DiskCommand, FailureScope};
use crate::content::{Content, Trouble};

impl DiskEngine {
    /// Carries out an order that changes the disk.
    pub fn obey(&mut self, now: Ns, system: &System, order: &DiskCommand) -> Result<(), String> {
        let name = order.member().unwrap_or_default();
        let drive = drive_by_name(system, name).ok_or_else(|| unknown_drive(system, name))?;
        self.simulation.pass_until(now);
        match order {
            DiskCommand::Status | DiskCommand::Stop => Ok(()),
            DiskCommand::Fail { .. } => match self.simulation.member_of(drive) {
                Some((array, member)) => self.fail(array, member),
                None => self.fail_alone(drive, name),
            },
            DiskCommand::Replace { .. } => match self.simulation.member_of(drive) {
                Some((array, member)) => self.replace(array, member, drive),
                None => self.replace_alone(drive, name),
            },
            DiskCommand::Slow { factor, .. } => {
                self.change(SystemChange::Slow { drive, factor: *factor })?;
                self.changes.of(drive).into_iter().for_each(|change| change.factor = *factor);
                Ok(())
            }
            DiskCommand::Hang { .. } | DiskCommand::Release { .. } => {
                let on = matches!(order, DiskCommand::Hang { .. });
                self.change(SystemChange::Hang { drive, on })?;
                self.changes.of(drive).into_iter().for_each(|change| change.hangs = on);
                Ok(())
            }
            DiskCommand::Error { share, what, .. } => {
                self.changes.fail(drive, *share, *what);
                Ok(())
            }
        }
    }

    fn change(&mut self, change: SystemChange) -> Result<(), String> {
        self.simulation.change(change).map_err(|error| error.to_string())
    }

    /// A member fails: its data is gone, in the model and in fact.
    pub(super) fn fail(&mut self, array: usize, member: u16) -> Result<(), String> {
        let drive = self.simulation.array_drives(array).and_then(|drives| drives.get(usize::from(member)).copied());
        self.change(SystemChange::Fail { array, member })?;
        // whoever has failed holds nothing back
        drive.and_then(|drive| self.changes.of(drive)).into_iter().for_each(|change| change.hangs = false);
        self.content.fail(array, member).map_err(|trouble| trouble.to_string())?;
        // a spare may have come into its place
        self.follow();
        Ok(())
    }

    fn replace(&mut self, array: usize, member: u16, drive: u32) -> Result<(), String> {
        self.change(SystemChange::Replace { array, member, settings: None })?;
        self.changes.forget(drive);
        self.content.replace(array, member).map_err(|trouble| trouble.to_string())
    }

    /// A drive that is served by itself fails: all of its requests do, and its data is gone.
    fn fail_alone(&mut self, drive: u32, name: &str) -> Result<(), String> {
        self.forget_alone(drive, name)?;
        self.changes.fail(drive, 1.0, FailureScope::All);
        self.refuse_pending(drive);
        // it holds back no more of them
        self.release(drive)
    }

    /// A drive does not hang, or no longer.
    fn release(&mut self, drive: u32) -> Result<(), String> {
        self.change(SystemChange::Hang { drive, on: false })?;
        self.changes.of(drive).into_iter().for_each(|change| change.hangs = false);
        Ok(())
    }

    fn replace_alone(&mut self, drive: u32, name: &str) -> Result<(), String> {
        // what lies on it would be lost by a slip
        if self.is_alone(drive) && !self.changes.has_failed(drive) {
            return Err(format!("`{name}` has not failed; only a failed drive can be replaced"));
        }
        self.forget_alone(drive, name)?;
        // the new one is as described
        self.change(SystemChange::Slow { drive, factor: 1.0 })?;
        self.release(drive)?;
        self.changes.forget(drive);
        Ok(())
    }

    /// It is served by itself.
    fn is_alone(&self, drive: u32) -> bool {
        self.exports.iter().any(|export| export.target == WorkloadTarget::Drive(drive))
    }

    fn forget_alone(&mut self, drive: u32, name: &str) -> Result<(), String> {
        let target = WorkloadTarget::Drive(drive);
        if !self.is_alone(drive) {
            return Err(format!("`{name}` is not an active member: it is a spare, or a spare replaced it"));
        }
        let bytes = self.content.bytes(target);
        self.content.trim(target, 0, bytes).map_err(|trouble| trouble.to_string())
    }

    /// Content follows the model: members that failed by the description's events
    /// lose theirs, spares take places, rebuilds go on as far as the model is.
    pub(super) fn follow(&mut self) {
        let mut array = 0;
        while let (Some(model), Some((failed, rebuilding))) =
            (self.simulation.array_state(array), self.content.state(array))
        {
            if model.failed != failed || model.rebuilding != rebuilding || !rebuilding.is_empty() {
                self.follow_array(array, model, (failed, rebuilding));
            }
            array += 1;
        }
    }

    fn follow_array(&mut self, array: usize, model: ArrayState, (failed, rebuilding): (Members, Members)) {
        // what it could not follow before may be possible now
        self.troubles.remove(&array);
        // what a mirror of stripe sets counts as failed beside a failed member still has its data
        let mirrors_sets = self.simulation.array(array).is_some_and(|a| a.out_of_service(one(0)) != one(0));
        if !mirrors_sets {
            for member in model.failed.less(failed).iter() {
                self.trouble_with(array, |content| content.fail(array, member));
            }
        }
        let (failed, _) = self.content.state(array).unwrap_or_default();
        for member in model.rebuilding.and(failed).less(rebuilding).iter() {
            self.trouble_with(array, |content| content.replace(array, member));
        }
        let (_, rebuilding) = self.content.state(array).unwrap_or_default();
        if rebuilding.is_empty() {
            return;
        }
        if model.failed.and(rebuilding).is_empty() {
            self.trouble_with(array, |content| content.finish_rebuild(array));
        } else if !model.rebuilding.is_empty() {
            self.trouble_with(array, |content| content.rebuilt(array, model.good_below));
        }
    }

    /// Content that cannot follow is told of by the status, and by the errors of
    /// whoever reads what is lost.
    fn trouble_with(&mut self, array: usize, what: impl FnOnce(&mut Content) -> Result<(), Trouble>) {
        if let Err(trouble) = what(&mut self.content) {
            self.troubles.insert(array, trouble.to_string());
        }
    }
}

fn one(member: u16) -> Members {
    Members::NONE.with(member)
}
