//! Changes to drives during a run: they slow down, hang, fail and are replaced.
//!
//! A slowed drive runs on a slower clock ([`DriveClock`]): mechanics, flash and token buckets all take longer by the
//! factor, queues included. A hung drive holds back its completions until it is released. A failed drive completes
//! what it was serving at the time it would have, and everything else at once; its replacement starts as soon as none
//! of the old requests is left.

use super::drives::{DriveKind, DriveRun, MechanicalRun};
use super::parallel_device::ParallelDevice;
use super::{Event, Simulation};
use crate::Ns;
use crate::array::ArrayState;
use crate::drive::ServiceBreakdown;
use crate::system::{SLOWDOWN_FACTOR_RANGE, SystemChange};

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

/// Health of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DriveHealth {
    Working,
    /// Completes everything at once, without data.
    Failed,
    /// The replacement starts as soon as none of the old drive's requests is left.
    Replacing,
}

/// A drive's own clock: it runs with that of the simulation, offset by a constant, or slower.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriveClock {
    /// Simulation time per unit of the drive's own time.
    pub factor: f64,
    /// The drive's own time minus simulation time, while the factor is 1.
    ahead_ns: i64,
    /// Simulation time and own time of the last change of the factor.
    changed_at_ns: (Ns, Ns),
}

impl DriveClock {
    /// A clock at normal speed that is `ahead` of simulation time.
    pub fn new(ahead: Ns) -> DriveClock {
        DriveClock { factor: 1.0, ahead_ns: ahead as i64, changed_at_ns: (0, 0) }
    }

    /// Returns the drive's own time.
    #[inline]
    pub fn drive_time(&self, now: Ns) -> Ns {
        if self.factor == 1.0 {
            return now.saturating_add_signed(self.ahead_ns);
        }
        let (from, own) = self.changed_at_ns;
        own.saturating_add((now.saturating_sub(from) as f64 / self.factor) as Ns)
    }

    /// Converts a drive time to simulation time.
    #[inline]
    pub fn simulation_time(&self, own: Ns) -> Ns {
        if self.factor == 1.0 {
            return own.saturating_add_signed(-self.ahead_ns);
        }
        self.changed_at_ns.0.saturating_add(self.scale_duration(own.saturating_sub(self.changed_at_ns.1)))
    }

    /// Converts a duration on the drive's own clock to simulation time.
    fn scale_duration(&self, time: Ns) -> Ns {
        (time as f64 * self.factor) as Ns
    }

    /// Changes the factor from now on.
    fn set_factor(&mut self, now: Ns, factor: f64) {
        let drive_time = self.drive_time(now);
        (self.factor, self.ahead_ns, self.changed_at_ns) = (factor, drive_time as i64 - now as i64, (now, drive_time));
    }
}

impl MechanicalRun {
    /// Converts a service to simulation time. The channel is held as long as the drive needs it.
    #[inline]
    pub fn to_simulation_time(&self, mut service: ServiceBreakdown) -> ServiceBreakdown {
        let clock = &self.clock;
        (service.done_at, service.channel_start) =
            (clock.simulation_time(service.done_at), clock.simulation_time(service.channel_start));
        if clock.factor == 1.0 { service } else { self.scale_breakdown(service) }
    }

    /// Stretches all parts of a service by the clock's factor.
    fn scale_breakdown(&self, service: ServiceBreakdown) -> ServiceBreakdown {
        let long = |time| self.clock.scale_duration(time);
        ServiceBreakdown {
            waiting: long(service.waiting),
            overhead: long(service.overhead),
            seek: long(service.seek),
            rotation: long(service.rotation),
            media: long(service.media),
            channel: long(service.channel),
            channel_time: long(service.channel_time),
            ..service
        }
    }
}

impl Simulation {
    /// Changes the system now.
    ///
    /// # Errors
    /// Returns an error for a part that does not exist or is in the wrong state; then nothing has changed.
    pub fn apply_change(&mut self, change: SystemChange) -> Result<(), ChangeError> {
        if !self.started {
            self.schedule_initial_events();
        }
        let now = self.events.now();
        match change {
            SystemChange::Fail { array, member } => {
                self.fail_member(now, self.check_array_member(array, member)?, member)
            }
            SystemChange::Replace { array, member, settings } => {
                self.replace_member(now, self.check_array_member(array, member)?, member, settings)
            }
            SystemChange::Slow { drive, factor } => {
                let run = self.find_working_drive(drive)?;
                let (min, max) = SLOWDOWN_FACTOR_RANGE;
                if !(min..=max).contains(&factor) {
                    return Err(ChangeError::SlowdownFactor { factor, min, max });
                }
                run.clock.set_factor(now, factor);
                if let DriveKind::Mechanical(mechanical) = &mut run.kind {
                    mechanical.clock = run.clock;
                }
                Ok(())
            }
            SystemChange::Hang { drive, on } => {
                let run = self.find_working_drive(drive)?;
                match (run.is_hung, on) {
                    (false, true) => (run.is_hung, run.admit_limit) = (true, 0),
                    (true, false) => self.resume_drive(now, drive),
                    _ => {}
                }
                Ok(())
            }
        }
    }

    /// Returns the state of an array's members: which have failed, and the progress of a rebuild.
    pub fn array_state(&self, array: usize) -> Option<ArrayState> {
        self.arrays.get(array).map(|run| run.planner.state())
    }

    /// Finds the array and the member that a drive currently serves; `None` if it serves none.
    pub fn find_array_member(&self, drive: u32) -> Option<(usize, u16)> {
        let member = |run: &super::ArrayRun| run.drives.iter().position(|other| *other == drive);
        self.arrays.iter().enumerate().find_map(|(array, run)| Some((array, member(run)? as u16)))
    }

    /// Scheduled changes ([`crate::system::System::events`]) that were impossible, with their times.
    pub fn refused_changes(&self) -> &[(Ns, ChangeError)] {
        &self.refused
    }

    /// Applies a scheduled change whose time has come.
    pub(super) fn apply_scheduled_change(&mut self, now: Ns, number: u32) {
        let Some(planned) = self.scheduled_changes.get(number as usize).copied() else { return };
        if let Err(error) = self.apply_change(planned.change) {
            self.refused.push((now, error));
        }
    }

    /// Checks that an array has a member, and returns the array's number.
    fn check_array_member(&self, array: usize, member: u16) -> Result<u16, ChangeError> {
        let run = self.arrays.get(array).ok_or(ChangeError::NoArray(array, self.arrays.len()))?;
        let members = run.planner.array().member_count();
        if member < members {
            return Ok(array as u16);
        }
        Err(ChangeError::NoMember { array: self.names.arrays[array].clone(), member, members })
    }

    /// Finds a drive that has not failed.
    fn find_working_drive(&mut self, drive: u32) -> Result<&mut DriveRun, ChangeError> {
        let count = self.drives.len();
        let run = self.drives.get_mut(drive as usize).ok_or(ChangeError::NoDrive(drive, count))?;
        match run.health {
            DriveHealth::Failed => Err(ChangeError::AlreadyFailed(self.names.drives[drive as usize].clone())),
            _ => Ok(run),
        }
    }

    /// Resumes a hung drive.
    fn resume_drive(&mut self, now: Ns, drive: u32) {
        let run = &mut self.drives[drive as usize];
        run.is_hung = false;
        for event in std::mem::take(&mut run.held_events) {
            self.events.schedule(now, event);
        }
        self.admit_waiting(now, drive);
    }

    /// Fails a drive: all requests that wait for it complete at once.
    pub(super) fn fail_drive(&mut self, now: Ns, drive: u32) {
        let run = &mut self.drives[drive as usize];
        run.health = DriveHealth::Failed;
        self.resume_drive(now, drive);
        let run = &mut self.drives[drive as usize];
        let mut answered: Vec<u32> = Vec::new();
        if let DriveKind::Mechanical(mechanical) = &mut run.kind {
            while let Some((_, job)) = mechanical.pop_request(now) {
                answered.push(job);
                run.visible -= 1;
            }
        }
        answered.extend(run.waiting.drain(..));
        for _ in 0..std::mem::take(&mut run.counted_in_service) {
            run.meter.record_stop(now);
        }
        (run.waiting_orders, run.admit_limit) = (0, 0);
        answered.into_iter().for_each(|job| self.complete_on_failed_drive(now, drive, job));
    }

    /// Completes a request at a failed drive.
    pub(super) fn complete_on_failed_drive(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        run.meter.record_start(now);
        run.meter.record_completion(now, self.jobs[job].arrived_ns);
        self.jobs[job].step += 1;
        // as an event: its parent may send another request to this drive
        self.events.schedule(now, Event::JobReady { job });
    }

    /// Puts a new drive in the place of a failed one.
    pub(super) fn replace_drive(&mut self, now: Ns, drive: u32) {
        let run = &mut self.drives[drive as usize];
        run.is_hung = false;
        run.health = DriveHealth::Replacing;
        run.admit_limit = 0;
        self.admit_waiting(now, drive);
    }
}

impl DriveRun {
    /// Starts the replacement drive, if it may. Its model is the old one's, and its spindle continues at the old angle.
    pub fn start_replacement(&mut self, now: Ns) {
        if self.health != DriveHealth::Replacing || self.visible > 0 {
            return;
        }
        self.health = DriveHealth::Working;
        self.clock.set_factor(now, 1.0);
        self.replacements += 1;
        self.kind = match (&self.kind, ParallelDevice::new(&self.device, self.replacement_rng(self.replacements))) {
            (DriveKind::Mechanical(mechanical), _) => {
                DriveKind::Mechanical(Box::new(mechanical.new_replacement(self.clock)))
            }
            (DriveKind::Parallel(_), Some(device)) => DriveKind::Parallel(device),
            (DriveKind::Parallel(_), None) => return,
        };
    }
}
