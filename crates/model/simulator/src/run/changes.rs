//! Changes to drives during a run: they slow down, hang, fail and are replaced.
//!
//! A slowed drive runs on a slower clock ([`DriveClock`]): mechanics, flash and token buckets all take longer by the
//! factor, queues included. A hung drive holds back its completions until it is released. A failed drive completes
//! what it was serving at the time it would have, and everything else at once; its replacement starts as soon as none
//! of the old requests is left.

use super::devices::Parallel;
use super::drives::{DriveKind, DriveRun, MechanicalRun};
use super::{Simulation, SimulationEvent};
use crate::Ns;
use crate::array::ArrayState;
use crate::drive::ServiceBreakdown;
use crate::system::{SLOWEST, SystemChange};

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
    Failed(String),
    /// Only failed members can be replaced.
    #[error("`{0}` has not failed; only a member that has failed can be replaced")]
    Works(String),
    /// A member that is being rebuilt cannot be replaced again.
    #[error("`{0}` has been replaced and is being rebuilt already")]
    Rebuilding(String),
    /// Too many members have failed: nothing is left to rebuild from.
    #[error("`{0}` has lost data with its members: there is nothing to rebuild them from")]
    Lost(String),
    /// The slowdown factor is out of range.
    #[error("a drive cannot take {factor} times as long; {min} to {max} are possible")]
    Factor {
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
pub(super) enum Health {
    Works,
    /// Completes everything at once, without data.
    Dead,
    /// The replacement starts as soon as none of the old drive's requests is left.
    Fresh,
}

/// A drive's own clock: it runs with that of the simulation, offset by a constant, or slower.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriveClock {
    /// Simulation time per unit of the drive's own time.
    pub factor: f64,
    /// The drive's own time minus simulation time, while the factor is 1.
    ahead: i64,
    /// Simulation time and own time of the last change of the factor.
    since: (Ns, Ns),
}

impl DriveClock {
    /// A clock at normal speed that is `ahead` of simulation time.
    pub fn new(ahead: Ns) -> DriveClock {
        DriveClock { factor: 1.0, ahead: ahead as i64, since: (0, 0) }
    }

    /// Returns the drive's own time.
    #[inline]
    pub fn own(&self, now: Ns) -> Ns {
        if self.factor == 1.0 {
            return now.saturating_add_signed(self.ahead);
        }
        let (from, own) = self.since;
        own.saturating_add((now.saturating_sub(from) as f64 / self.factor) as Ns)
    }

    /// Converts a drive time to simulation time.
    #[inline]
    pub fn real(&self, own: Ns) -> Ns {
        if self.factor == 1.0 {
            return own.saturating_add_signed(-self.ahead);
        }
        self.since.0.saturating_add(self.long(own.saturating_sub(self.since.1)))
    }

    /// Converts a duration on the drive's own clock to simulation time.
    fn long(&self, time: Ns) -> Ns {
        (time as f64 * self.factor) as Ns
    }

    /// Changes the factor from now on.
    fn set(&mut self, now: Ns, factor: f64) {
        let drive_time = self.own(now);
        (self.factor, self.ahead, self.since) = (factor, drive_time as i64 - now as i64, (now, drive_time));
    }
}

impl MechanicalRun {
    /// Converts a service to simulation time. The channel is held as long as the drive needs it.
    #[inline]
    pub fn real(&self, mut service: ServiceBreakdown) -> ServiceBreakdown {
        let clock = &self.clock;
        (service.done, service.channel_from) = (clock.real(service.done), clock.real(service.channel_from));
        if clock.factor == 1.0 { service } else { self.slowed(service) }
    }

    /// Stretches all parts of a service by the clock's factor.
    fn slowed(&self, service: ServiceBreakdown) -> ServiceBreakdown {
        let long = |time| self.clock.long(time);
        ServiceBreakdown {
            waiting: long(service.waiting),
            overhead: long(service.overhead),
            seek: long(service.seek),
            rotation: long(service.rotation),
            media: long(service.media),
            channel: long(service.channel),
            channel_for: long(service.channel_for),
            ..service
        }
    }
}

impl Simulation {
    /// Changes the system now.
    ///
    /// # Errors
    /// Returns an error for a part that does not exist or is in the wrong state; then nothing has changed.
    pub fn change(&mut self, change: SystemChange) -> Result<(), ChangeError> {
        if !self.started {
            self.start();
        }
        let now = self.events.now();
        match change {
            SystemChange::Fail { array, member } => self.member_fails(now, self.member(array, member)?, member),
            SystemChange::Replace { array, member, settings } => {
                self.member_replaced(now, self.member(array, member)?, member, settings)
            }
            SystemChange::Slow { drive, factor } => {
                let run = self.drive_to_change(drive)?;
                let (min, max) = SLOWEST;
                if !(min..=max).contains(&factor) {
                    return Err(ChangeError::Factor { factor, min, max });
                }
                run.clock.set(now, factor);
                if let DriveKind::Mechanical(mechanical) = &mut run.machine {
                    mechanical.clock = run.clock;
                }
                Ok(())
            }
            SystemChange::Hang { drive, on } => {
                let run = self.drive_to_change(drive)?;
                match (run.hangs, on) {
                    (false, true) => (run.hangs, run.limit) = (true, 0),
                    (true, false) => self.drive_goes_on(now, drive),
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
    pub fn member_of(&self, drive: u32) -> Option<(usize, u16)> {
        let member = |run: &super::ArrayRun| run.drives.iter().position(|other| *other == drive);
        self.arrays.iter().enumerate().find_map(|(array, run)| Some((array, member(run)? as u16)))
    }

    /// Scheduled changes ([`crate::system::System::events`]) that were impossible, with their times.
    pub fn refused(&self) -> &[(Ns, ChangeError)] {
        &self.refused
    }

    /// Applies a scheduled change whose time has come.
    pub(super) fn planned(&mut self, now: Ns, number: u32) {
        let Some(planned) = self.planned.get(number as usize).copied() else { return };
        if let Err(error) = self.change(planned.change) {
            self.refused.push((now, error));
        }
    }

    /// Checks that an array has a member, and returns the array's number.
    fn member(&self, array: usize, member: u16) -> Result<u16, ChangeError> {
        let run = self.arrays.get(array).ok_or(ChangeError::NoArray(array, self.arrays.len()))?;
        let members = run.planner.array().members();
        if member < members {
            return Ok(array as u16);
        }
        Err(ChangeError::NoMember { array: self.names.arrays[array].clone(), member, members })
    }

    /// Finds a drive that has not failed.
    fn drive_to_change(&mut self, drive: u32) -> Result<&mut DriveRun, ChangeError> {
        let count = self.drives.len();
        let run = self.drives.get_mut(drive as usize).ok_or(ChangeError::NoDrive(drive, count))?;
        match run.health {
            Health::Dead => Err(ChangeError::Failed(self.names.drives[drive as usize].clone())),
            _ => Ok(run),
        }
    }

    /// Resumes a hung drive.
    fn drive_goes_on(&mut self, now: Ns, drive: u32) {
        let run = &mut self.drives[drive as usize];
        run.hangs = false;
        for event in std::mem::take(&mut run.kept) {
            self.events.schedule(now, event);
        }
        self.drive_admit(now, drive);
    }

    /// Fails a drive: all requests that wait for it complete at once.
    pub(super) fn drive_fails(&mut self, now: Ns, drive: u32) {
        let run = &mut self.drives[drive as usize];
        run.health = Health::Dead;
        self.drive_goes_on(now, drive);
        let run = &mut self.drives[drive as usize];
        let mut answered: Vec<u32> = Vec::new();
        if let DriveKind::Mechanical(mechanical) = &mut run.machine {
            while let Some((_, job)) = mechanical.take(now) {
                answered.push(job);
                run.seen -= 1;
            }
        }
        answered.extend(run.waiting.drain(..));
        for _ in 0..std::mem::take(&mut run.begun) {
            run.meter.stop(now);
        }
        (run.orders, run.limit) = (0, 0);
        answered.into_iter().for_each(|job| self.drive_answers_nothing(now, drive, job));
    }

    /// Completes a request at a failed drive.
    pub(super) fn drive_answers_nothing(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        run.meter.start(now);
        run.meter.complete(now, self.jobs[job].came);
        self.jobs[job].step += 1;
        // as an event: its parent may send another request to this drive
        self.events.schedule(now, SimulationEvent::Go { job });
    }

    /// Puts a new drive in the place of a failed one.
    pub(super) fn drive_replaced(&mut self, now: Ns, drive: u32) {
        let run = &mut self.drives[drive as usize];
        run.hangs = false;
        run.health = Health::Fresh;
        run.limit = 0;
        self.drive_admit(now, drive);
    }
}

impl DriveRun {
    /// Starts the replacement drive, if it may. Its model is the old one's, and its spindle continues at the old angle.
    pub fn begin_afresh(&mut self, now: Ns) {
        if self.health != Health::Fresh || self.seen > 0 {
            return;
        }
        self.health = Health::Works;
        self.clock.set(now, 1.0);
        self.round += 1;
        self.machine = match (&self.machine, Parallel::new(&self.device, self.dice(self.round))) {
            (DriveKind::Mechanical(mechanical), _) => DriveKind::Mechanical(Box::new(mechanical.fresh(self.clock))),
            (DriveKind::Parallel(_), Some(device)) => DriveKind::Parallel(device),
            (DriveKind::Parallel(_), None) => return,
        };
    }
}
