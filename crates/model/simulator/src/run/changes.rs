//! Changes to the system during a run: members of arrays fail and are replaced, drives slow down and hang.

use super::Simulation;
use super::array_repair::MemberError;
use super::arrays::ArrayRun;
use super::drive_changes::DriveHealth;
use super::drives::DriveRun;
use crate::Ns;
use crate::array::ArrayState;
use crate::system::{SLOWDOWN_FACTOR_RANGE, ScheduledChange, SystemChange};

/// Reasons why a change is impossible.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChangeError {
    /// There is no such array.
    #[error("there is no array {0}; there are {1}")]
    NoArray(usize, usize),
    /// The array has no such member.
    #[error("`{array}` has no member {member}; it has {members}")]
    NoMember {
        /// The array's name.
        array: String,
        /// Position of the member.
        member: u16,
        /// Members of the array.
        members: u16,
    },
    /// There is no such drive.
    #[error("there is no drive {0}; there are {1}")]
    NoDrive(u32, usize),
    /// A failed drive cannot fail, be slowed down or hang.
    #[error("`{0}` has failed already; it can be replaced")]
    AlreadyFailed(String),
    /// Only failed members can be replaced.
    #[error("`{0}` has not failed; only a member that has failed can be replaced")]
    NotFailed(String),
    /// A member that is being rebuilt cannot be replaced again.
    #[error("`{0}` has been replaced and is being rebuilt already")]
    AlreadyRebuilding(String),
    /// Too many members have failed: nothing is left to rebuild from.
    #[error("`{0}` has lost data with its members: there is nothing to rebuild them from")]
    DataLost(String),
    /// The slowdown factor is out of range.
    #[error("a drive cannot take {factor} times as long; {min} to {max} are possible")]
    SlowdownFactor {
        /// The requested factor.
        factor: f64,
        /// Smallest factor allowed.
        min: f64,
        /// Largest factor allowed.
        max: f64,
    },
}

/// Scheduled changes to the system.
pub(super) struct ScheduledChanges {
    pub changes: Vec<ScheduledChange>,
    /// Changes that were impossible, with their times.
    refused: Vec<(Ns, ChangeError)>,
}

impl ScheduledChanges {
    /// Creates changes of which none has taken place.
    pub fn new(changes: Vec<ScheduledChange>) -> ScheduledChanges {
        ScheduledChanges { changes, refused: Vec::new() }
    }
}

impl Simulation {
    /// Changes the system now.
    ///
    /// # Errors
    /// An error for a part that does not exist or is in the wrong state; then nothing has changed.
    pub fn apply_change(&mut self, change: SystemChange) -> Result<(), ChangeError> {
        self.ensure_started();
        let now = self.now();
        let Simulation { drives, channels, flow, .. } = self;
        match change {
            SystemChange::Fail { array, member } => {
                let run = find_array_member(&mut self.arrays, array, member)?;
                let drive = run.fail_member(member).map_err(|error| describe_error(error, run, member, drives))?;
                drives[drive as usize].fail(now, channels, flow);
                run.begin_rebuild();
                self.begin_background_steps(now, array as u16);
            }
            SystemChange::Replace { array, member, settings } => {
                let run = find_array_member(&mut self.arrays, array, member)?;
                let replaced = run.replace_member(member, settings);
                let drive = replaced.map_err(|error| describe_error(error, run, member, drives))?;
                drives[drive as usize].replace(now, channels, flow);
                run.begin_rebuild();
                self.begin_background_steps(now, array as u16);
            }
            SystemChange::Slow { drive, factor } => {
                let run = find_working_drive(drives, drive)?;
                let (min, max) = SLOWDOWN_FACTOR_RANGE;
                if !(min..=max).contains(&factor) {
                    return Err(ChangeError::SlowdownFactor { factor, min, max });
                }
                run.slow_down(now, factor);
            }
            SystemChange::Hang { drive, on } => {
                let run = find_working_drive(drives, drive)?;
                match (run.is_hung, on) {
                    (false, true) => run.hang(),
                    (true, false) => run.resume(now, channels, flow),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Returns the state of an array's members: which have failed, and the progress of a rebuild.
    pub fn array_state(&self, array: usize) -> Option<ArrayState> {
        self.arrays.get(array).map(|run| run.planner.state())
    }

    /// Finds the array and the member that a drive currently serves; `None` if it serves none.
    pub fn find_array_member(&self, drive: u32) -> Option<(usize, u16)> {
        let member = |run: &ArrayRun| run.drives.iter().position(|other| *other == drive);
        self.arrays.iter().enumerate().find_map(|(array, run)| Some((array, member(run)? as u16)))
    }

    /// Scheduled changes ([`crate::system::System::events`]) that were impossible, with their times.
    pub fn refused_changes(&self) -> &[(Ns, ChangeError)] {
        &self.changes.refused
    }

    /// Applies a scheduled change whose time has come.
    pub(super) fn apply_scheduled_change(&mut self, now: Ns, number: u32) {
        let Some(scheduled) = self.changes.changes.get(number as usize).copied() else { return };
        if let Err(error) = self.apply_change(scheduled.change) {
            self.changes.refused.push((now, error));
        }
    }
}

/// Finds an array and checks that it has a member.
fn find_array_member(arrays: &mut [ArrayRun], array: usize, member: u16) -> Result<&mut ArrayRun, ChangeError> {
    let count = arrays.len();
    let run = arrays.get_mut(array).ok_or(ChangeError::NoArray(array, count))?;
    let members = run.planner.array().member_count();
    if member < members {
        return Ok(run);
    }
    Err(ChangeError::NoMember { array: run.name.clone(), member, members })
}

/// Finds a drive that has not failed.
fn find_working_drive(drives: &mut [DriveRun], drive: u32) -> Result<&mut DriveRun, ChangeError> {
    let count = drives.len();
    let run = drives.get_mut(drive as usize).ok_or(ChangeError::NoDrive(drive, count))?;
    match run.health {
        DriveHealth::Failed => Err(ChangeError::AlreadyFailed(run.name.clone())),
        _ => Ok(run),
    }
}

/// Adds the names of the array's parts to an error.
fn describe_error(error: MemberError, array: &ArrayRun, member: u16, drives: &[DriveRun]) -> ChangeError {
    let drive = || drives[array.drives[usize::from(member)] as usize].name.clone();
    match error {
        MemberError::AlreadyFailed => ChangeError::AlreadyFailed(drive()),
        MemberError::NotFailed => ChangeError::NotFailed(drive()),
        MemberError::DataLost => ChangeError::DataLost(array.name.clone()),
        MemberError::AlreadyReplaced => ChangeError::AlreadyRebuilding(drive()),
    }
}
