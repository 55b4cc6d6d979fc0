//! What happens to drives in the course of a run: they slow down, hang, fail
//! and are replaced.
//!
//! A drive that is slowed down lives by a clock that runs slower ([`DriveClock`]):
//! mechanics, flash and token buckets all take the factor longer, queues
//! included. One that hangs keeps what it would have answered until it is
//! released. One that has failed answers what it was at when it would have,
//! and everything else at once; a fresh one takes its place as soon as nothing
//! of that is left.

use super::devices::Parallel;
use super::drives::{DriveKind, DriveRun, MechanicalRun};
use super::{Simulation, SimulationEvent};
use crate::Ns;
use crate::array::ArrayState;
use crate::drive::ServiceBreakdown;
use crate::system::{SLOWEST, SystemChange};

/// Why a change cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChangeError {
    /// An array that there is not.
    #[error("there is no array {0}; there are {1}")]
    NoArray(usize, usize),
    /// A member that an array has not.
    #[error("`{array}` has no member {member}; it has {members}")]
    NoMember {
        /// The array's name.
        array: String,
        /// The position.
        member: u16,
        /// How many it has.
        members: u16,
    },
    /// A drive that there is not.
    #[error("there is no drive {0}; there are {1}")]
    NoDrive(u32, usize),
    /// What has failed cannot fail, be slowed down or hang.
    #[error("`{0}` has failed already; it can be replaced")]
    Failed(String),
    /// Only failed members are replaced.
    #[error("`{0}` has not failed; only a member that has failed can be replaced")]
    Works(String),
    /// A replaced member is not replaced again.
    #[error("`{0}` has been replaced and is being rebuilt already")]
    Rebuilding(String),
    /// Nothing is left to rebuild from.
    #[error("`{0}` has lost data with its members: there is nothing to rebuild them from")]
    Lost(String),
    /// A factor that cannot be.
    #[error("a drive cannot take {factor} times as long; {least} to {most} are possible")]
    Factor {
        /// What was asked for.
        factor: f64,
        /// What is possible.
        least: f64,
        /// What is possible.
        most: f64,
    },
}

/// How a drive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Works,
    /// It answers everything at once, with nothing.
    Dead,
    /// A fresh one comes as soon as nothing is left of what the old one was at.
    Fresh,
}

/// A drive's own time. It goes with that of the simulation, some way ahead, or
/// slower.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriveClock {
    /// What the drive needs for what takes 1 by its own clock.
    pub factor: f64,
    /// Its own time less that of the simulation, while the factor is 1.
    ahead: i64,
    /// Since when the factor is another: the simulation's time, and its own.
    since: (Ns, Ns),
}

impl DriveClock {
    pub fn new(ahead: Ns) -> DriveClock {
        DriveClock { factor: 1.0, ahead: ahead as i64, since: (0, 0) }
    }

    /// The drive's own time.
    #[inline]
    pub fn own(&self, now: Ns) -> Ns {
        if self.factor == 1.0 {
            return now.saturating_add_signed(self.ahead);
        }
        let (from, own) = self.since;
        own.saturating_add((now.saturating_sub(from) as f64 / self.factor) as Ns)
    }

    /// The simulation's time of a moment of the drive's.
    #[inline]
    pub fn real(&self, own: Ns) -> Ns {
        if self.factor == 1.0 {
            return own.saturating_add_signed(-self.ahead);
        }
        self.since.0.saturating_add(self.long(own.saturating_sub(self.since.1)))
    }

    /// How long something takes that takes so long by the drive's own clock.
    fn long(&self, time: Ns) -> Ns {
        (time as f64 * self.factor) as Ns
    }

    /// From now on it runs by another factor.
    fn set(&mut self, now: Ns, factor: f64) {
        let own = self.own(now);
        (self.factor, self.ahead, self.since) = (factor, own as i64 - now as i64, (now, own));
    }
}

impl MechanicalRun {
    /// A service in the simulation's time. The channel is kept as long as the drive needs it.
    #[inline]
    pub fn real(&self, mut service: ServiceBreakdown) -> ServiceBreakdown {
        let clock = &self.clock;
        (service.done, service.channel_from) = (clock.real(service.done), clock.real(service.channel_from));
        if clock.factor == 1.0 { service } else { self.slowed(service) }
    }

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
    /// Something happens to the system now.
    ///
    /// # Errors
    /// What is not there, or not in the state for it; then nothing has changed.
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
                let (least, most) = SLOWEST;
                if !(least..=most).contains(&factor) {
                    return Err(ChangeError::Factor { factor, least, most });
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

    /// The state of an array's members: which have failed, and how far a rebuild is.
    pub fn array_state(&self, array: usize) -> Option<ArrayState> {
        self.arrays.get(array).map(|run| run.planner.state())
    }

    /// The array and the member that a drive serves just now; `None` where it serves none.
    pub fn member_of(&self, drive: u32) -> Option<(usize, u16)> {
        let of = |run: &super::ArrayRun| run.drives.iter().position(|of| *of == drive);
        self.arrays.iter().enumerate().find_map(|(array, run)| Some((array, of(run)? as u16)))
    }

    /// Planned changes ([`crate::system::System::events`]) that could not be, with their moments.
    pub fn refused(&self) -> &[(Ns, ChangeError)] {
        &self.refused
    }

    /// The moment of a planned change has come.
    pub(super) fn planned(&mut self, now: Ns, number: u32) {
        let Some(planned) = self.planned.get(number as usize).copied() else { return };
        if let Err(error) = self.change(planned.change) {
            self.refused.push((now, error));
        }
    }

    fn member(&self, array: usize, member: u16) -> Result<u16, ChangeError> {
        let run = self.arrays.get(array).ok_or(ChangeError::NoArray(array, self.arrays.len()))?;
        let members = run.planner.array().members();
        if member < members {
            return Ok(array as u16);
        }
        Err(ChangeError::NoMember { array: self.names.arrays[array].clone(), member, members })
    }

    fn drive_to_change(&mut self, drive: u32) -> Result<&mut DriveRun, ChangeError> {
        let count = self.drives.len();
        let run = self.drives.get_mut(drive as usize).ok_or(ChangeError::NoDrive(drive, count))?;
        match run.health {
            Health::Dead => Err(ChangeError::Failed(self.names.drives[drive as usize].clone())),
            _ => Ok(run),
        }
    }

    /// A drive that hung goes on.
    fn drive_goes_on(&mut self, now: Ns, drive: u32) {
        let run = &mut self.drives[drive as usize];
        run.hangs = false;
        for event in std::mem::take(&mut run.kept) {
            self.events.schedule(now, event);
        }
        self.drive_admit(now, drive);
    }

    /// A drive fails: whatever waits for it is answered.
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

    /// A drive that has failed answers.
    pub(super) fn drive_answers_nothing(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        run.meter.start(now);
        run.meter.complete(now, self.jobs[job].came);
        self.jobs[job].step += 1;
        // as an event: whoever waits for it may ask this drive again
        self.events.schedule(now, SimulationEvent::Go { job });
    }

    /// A fresh drive comes into the place of one that has failed.
    pub(super) fn drive_replaced(&mut self, now: Ns, drive: u32) {
        let run = &mut self.drives[drive as usize];
        run.hangs = false;
        run.health = Health::Fresh;
        run.limit = 0;
        self.drive_admit(now, drive);
    }
}

impl DriveRun {
    /// The fresh drive begins, where it may. Its model is the old one's; its spindle goes on from where that one was.
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
