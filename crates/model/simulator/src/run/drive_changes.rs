//! Changes to drives during a run: they slow down, hang, fail and are replaced.
//!
//! A slowed drive runs on a slower clock ([`DriveClock`]): mechanics, flash and token buckets all take longer by the
//! factor, queues included. A hung drive holds back its completions until it is resumed. A failed drive completes the
//! requests in service at their normal times, and all others at once; its replacement starts as soon as none of the old
//! requests is left.

use super::channels::ChannelRun;
use super::drives::{DriveKind, DriveRun, MechanicalRun};
use super::job::JobFlow;
use super::parallel_device::ParallelDevice;
use crate::Ns;
use crate::drive::ServiceBreakdown;

/// Health of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DriveHealth {
    Working,
    /// Completes everything at once, without data.
    Failed,
    /// The replacement starts as soon as none of the old drive's requests is left.
    Replacing,
}

/// A drive's own clock. It runs as fast as the simulation's clock, offset by a constant; or slower.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriveClock {
    /// Simulation time per unit of drive time.
    pub factor: f64,
    /// Drive time minus simulation time, while the factor is 1.
    ahead_ns: i64,
    /// Simulation time and drive time of the last change of the factor.
    changed_at_ns: (Ns, Ns),
}

impl DriveClock {
    /// Creates a clock at normal speed that is ahead of simulation time by `ahead` ns.
    pub fn new(ahead: Ns) -> DriveClock {
        DriveClock { factor: 1.0, ahead_ns: ahead as i64, changed_at_ns: (0, 0) }
    }

    /// Returns the time of the drive's own clock.
    #[inline]
    pub fn drive_time(&self, now: Ns) -> Ns {
        if self.factor == 1.0 {
            return now.saturating_add_signed(self.ahead_ns);
        }
        let (from, drive_ns) = self.changed_at_ns;
        drive_ns.saturating_add((now.saturating_sub(from) as f64 / self.factor) as Ns)
    }

    /// Converts a drive time to simulation time.
    #[inline]
    pub fn simulation_time(&self, drive_ns: Ns) -> Ns {
        if self.factor == 1.0 {
            return drive_ns.saturating_add_signed(-self.ahead_ns);
        }
        self.changed_at_ns.0.saturating_add(self.scale_duration(drive_ns.saturating_sub(self.changed_at_ns.1)))
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
        let scale = |time| self.clock.scale_duration(time);
        ServiceBreakdown {
            waiting: scale(service.waiting),
            overhead: scale(service.overhead),
            seek: scale(service.seek),
            rotation: scale(service.rotation),
            media: scale(service.media),
            channel: scale(service.channel),
            channel_time: scale(service.channel_time),
            ..service
        }
    }
}

impl DriveRun {
    /// Changes the drive's speed: everything takes `factor` times as long.
    pub fn slow_down(&mut self, now: Ns, factor: f64) {
        self.clock.set_factor(now, factor);
        if let DriveKind::Mechanical(mechanical) = &mut self.kind {
            mechanical.clock = self.clock;
        }
    }

    /// Hangs the drive: it completes nothing until it is resumed.
    pub fn hang(&mut self) {
        (self.is_hung, self.admit_limit) = (true, 0);
    }

    /// Resumes a hung drive.
    pub fn resume(&mut self, now: Ns, channels: &mut [ChannelRun], flow: &mut JobFlow) {
        self.is_hung = false;
        for event in std::mem::take(&mut self.held_events) {
            flow.events.schedule(now, event);
        }
        self.admit_waiting(now, channels, flow);
    }

    /// Fails the drive: all requests that wait for it complete at once.
    pub fn fail(&mut self, now: Ns, channels: &mut [ChannelRun], flow: &mut JobFlow) {
        self.health = DriveHealth::Failed;
        self.resume(now, channels, flow);
        let mut unserved: Vec<u32> = Vec::new();
        if let DriveKind::Mechanical(mechanical) = &mut self.kind {
            while let Some((_, job)) = mechanical.pop_request(now) {
                unserved.push(job);
                self.visible -= 1;
            }
        }
        unserved.extend(self.waiting.drain(..));
        for _ in 0..std::mem::take(&mut self.counted_in_service) {
            self.meter.record_stop(now);
        }
        (self.waiting_orders, self.admit_limit) = (0, 0);
        unserved.into_iter().for_each(|job| self.complete_without_service(now, job, flow));
    }

    /// Puts a new drive in the place of a failed one.
    pub fn replace(&mut self, now: Ns, channels: &mut [ChannelRun], flow: &mut JobFlow) {
        self.is_hung = false;
        self.health = DriveHealth::Replacing;
        self.admit_limit = 0;
        self.admit_waiting(now, channels, flow);
    }

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
