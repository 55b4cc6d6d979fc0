//! Execution of commands: the model, the content and the recorded drive changes are updated
//! together.

use diskwright_simulator::Ns;
use diskwright_simulator::array::{ArrayState, MemberSet};
use diskwright_simulator::system::{System, SystemChange, WorkloadTarget};

use super::control::{DiskCommand, FailureScope};
use super::engine::DiskEngine;
use super::exports::{drive_by_name, unknown_drive};
use crate::content::{AccessError, Content};

impl DiskEngine {
    /// Executes a command that changes the disk.
    pub fn execute_command(&mut self, now: Ns, system: &System, command: &DiskCommand) -> Result<(), String> {
        let drive_name = command.member().unwrap_or_default();
        let drive = drive_by_name(system, drive_name).ok_or_else(|| unknown_drive(system, drive_name))?;
        self.simulation.advance_until(now);
        match command {
            DiskCommand::Status | DiskCommand::Stop => Ok(()),
            DiskCommand::Fail { .. } => match self.simulation.find_array_member(drive) {
                Some((array, member)) => self.fail_member(array, member),
                None => self.fail_standalone_drive(drive, drive_name),
            },
            DiskCommand::Replace { .. } => match self.simulation.find_array_member(drive) {
                Some((array, member)) => self.replace_member(array, member, drive),
                None => self.replace_standalone_drive(drive, drive_name),
            },
            DiskCommand::Slow { factor, .. } => {
                self.change_model(SystemChange::Slow { drive, factor: *factor })?;
                self.changes.drive_mut(drive).into_iter().for_each(|change| change.factor = *factor);
                Ok(())
            }
            DiskCommand::Hang { .. } | DiskCommand::Release { .. } => {
                let on = matches!(command, DiskCommand::Hang { .. });
                self.change_model(SystemChange::Hang { drive, on })?;
                self.changes.drive_mut(drive).into_iter().for_each(|change| change.hangs = on);
                Ok(())
            }
            DiskCommand::Error { share, what, .. } => {
                self.changes.set_failures(drive, *share, *what);
                Ok(())
            }
        }
    }

    /// Applies a change to the model.
    fn change_model(&mut self, change: SystemChange) -> Result<(), String> {
        self.simulation.apply_change(change).map_err(|error| error.to_string())
    }

    /// Fails a member: its data is lost, in the model and in the content.
    pub(super) fn fail_member(&mut self, array: usize, member: u16) -> Result<(), String> {
        let drive = self.simulation.array_drives(array).and_then(|drives| drives.get(usize::from(member)).copied());
        self.change_model(SystemChange::Fail { array, member })?;
        // a failed drive does not hold requests back
        drive.and_then(|drive| self.changes.drive_mut(drive)).into_iter().for_each(|change| change.hangs = false);
        self.content.fail_member(array, member).map_err(|error| error.to_string())?;
        // a spare may have replaced it
        self.follow_model();
        Ok(())
    }

    fn replace_member(&mut self, array: usize, member: u16, drive: u32) -> Result<(), String> {
        self.change_model(SystemChange::Replace { array, member, settings: None })?;
        self.changes.reset_drive(drive);
        self.content.replace_member(array, member).map_err(|error| error.to_string())
    }

    /// Fails a standalone drive: all of its requests fail, and its data is lost.
    fn fail_standalone_drive(&mut self, drive: u32, drive_name: &str) -> Result<(), String> {
        self.erase_standalone_drive(drive, drive_name)?;
        self.changes.set_failures(drive, 1.0, FailureScope::All);
        self.refuse_pending(drive);
        // a drive that hung holds its requests back no more
        self.release_drive(drive)
    }

    /// Makes sure that a drive does not hang.
    fn release_drive(&mut self, drive: u32) -> Result<(), String> {
        self.change_model(SystemChange::Hang { drive, on: false })?;
        self.changes.drive_mut(drive).into_iter().for_each(|change| change.hangs = false);
        Ok(())
    }

    fn replace_standalone_drive(&mut self, drive: u32, drive_name: &str) -> Result<(), String> {
        // a mistyped name must not cost the data of a healthy drive
        if self.is_standalone_drive(drive) && !self.changes.has_failed(drive) {
            return Err(format!("`{drive_name}` has not failed; only a failed drive can be replaced"));
        }
        self.erase_standalone_drive(drive, drive_name)?;
        // the new drive behaves as described
        self.change_model(SystemChange::Slow { drive, factor: 1.0 })?;
        self.release_drive(drive)?;
        self.changes.reset_drive(drive);
        Ok(())
    }

    /// Returns true if the drive is exported on its own.
    fn is_standalone_drive(&self, drive: u32) -> bool {
        self.exports.iter().any(|export| export.target == WorkloadTarget::Drive(drive))
    }

    /// Erases the content of a standalone drive.
    fn erase_standalone_drive(&mut self, drive: u32, drive_name: &str) -> Result<(), String> {
        let target = WorkloadTarget::Drive(drive);
        if !self.is_standalone_drive(drive) {
            return Err(format!("`{drive_name}` is not an active member: it is a spare, or a spare replaced it"));
        }
        let bytes = self.content.target_bytes(target);
        self.content.trim(target, 0, bytes).map_err(|error| error.to_string())
    }

    /// Updates the content to the state of the model: members that failed by the description's
    /// events lose their data, spares replace members, rebuilds continue as far as the model has
    /// come.
    pub(super) fn follow_model(&mut self) {
        let mut array = 0;
        while let (Some(model), Some((failed, rebuilding))) =
            (self.simulation.array_state(array), self.content.member_state(array))
        {
            if model.failed != failed || model.rebuilding != rebuilding || !rebuilding.is_empty() {
                self.follow_array(array, model, (failed, rebuilding));
            }
            array += 1;
        }
    }

    /// Updates the content of one array to the state of the model.
    fn follow_array(&mut self, array: usize, model: ArrayState, (failed, rebuilding): (MemberSet, MemberSet)) {
        // a step that failed before may succeed now
        self.content_errors.remove(&array);
        // in a mirror of stripe sets, members that the model counts as failed beside a failed one
        // still have their data
        let mirrors_sets = self
            .simulation
            .array_geometry(array)
            .is_some_and(|geometry| geometry.out_of_service(single_member(0)) != single_member(0));
        if !mirrors_sets {
            for member in model.failed.difference(failed).iter() {
                self.record_content_error(array, |content| content.fail_member(array, member));
            }
        }
        let (failed, _) = self.content.member_state(array).unwrap_or_default();
        for member in model.rebuilding.intersection(failed).difference(rebuilding).iter() {
            self.record_content_error(array, |content| content.replace_member(array, member));
        }
        let (_, rebuilding) = self.content.member_state(array).unwrap_or_default();
        if rebuilding.is_empty() {
            return;
        }
        if model.failed.intersection(rebuilding).is_empty() {
            self.record_content_error(array, |content| content.finish_rebuild(array));
        } else if !model.rebuilding.is_empty() {
            self.record_content_error(array, |content| content.rebuild_up_to(array, model.good_below));
        }
    }

    /// Records an error if content cannot follow the model. The status reports it, and so do the
    /// errors of reads of lost data.
    fn record_content_error(&mut self, array: usize, update: impl FnOnce(&mut Content) -> Result<(), AccessError>) {
        if let Err(error) = update(&mut self.content) {
            self.content_errors.insert(array, error.to_string());
        }
    }
}

fn single_member(member: u16) -> MemberSet {
    MemberSet::NONE.with_member(member)
}
