//! Channels: one transfer at a time, first come first served.

use std::collections::VecDeque;

use super::{Simulation, SimulationEvent};
use crate::Ns;
use crate::io::transfer_time;
use crate::station::Meter;

/// The user of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// A mechanical drive, during its request.
    Drive(u32),
    /// A request without a drive, before or after a device.
    Job(u32),
}

/// A channel in the system.
#[derive(Debug)]
pub(super) struct ChannelRun {
    pub disconnects: bool,
    /// Arbitration, selection, command and status, ns.
    overhead: Ns,
    /// Rate of requests that use it without a drive, bytes/s; 0: they take no time.
    rate: u64,
    holder: Option<(Holder, Ns, Ns)>,
    waiting: VecDeque<(Holder, Ns)>,
    pub meter: Meter,
    pub bytes: u64,
}

impl ChannelRun {
    /// An idle channel.
    pub fn new(overhead: Ns, rate: u64, disconnects: bool) -> ChannelRun {
        let (waiting, meter) = (VecDeque::new(), Meter::default());
        ChannelRun { disconnects, overhead, rate, holder: None, waiting, meter, bytes: 0 }
    }
}

impl Simulation {
    /// Requests a channel; it is granted at once if it is free.
    pub(super) fn channel_ask(&mut self, now: Ns, channel: u16, holder: Holder) {
        let run = &mut self.channels[usize::from(channel)];
        run.meter.arrive(now);
        if run.holder.is_some() {
            run.waiting.push_back((holder, now));
        } else {
            self.channel_grant(now, channel, holder, now);
        }
    }

    /// Grants a channel to a holder and schedules the end of the transfer.
    fn channel_grant(&mut self, now: Ns, channel: u16, holder: Holder, requested_ns: Ns) {
        let index = usize::from(channel);
        let run = &mut self.channels[index];
        run.meter.start(now);
        run.holder = Some((holder, requested_ns, now));
        let (overhead, disconnects, rate) = (run.overhead, run.disconnects, run.rate);
        let job = match holder {
            Holder::Drive(drive) => self.drive_serving(drive),
            Holder::Job(job) => Some(job),
        };
        let bytes = job.map_or(0, |job| u64::from(self.jobs[job].moved().blocks) * crate::io::BLOCK_BYTES);
        self.channels[index].bytes += bytes;
        let keeps = match holder {
            Holder::Drive(drive) => self.drive_granted(now, drive, disconnects, overhead),
            Holder::Job(_) => overhead + transfer_time(bytes, rate),
        };
        self.events.schedule(now + keeps, SimulationEvent::Channel { channel });
    }

    /// Releases a channel, grants it to the next in the queue, and advances the old holder.
    pub(super) fn channel_done(&mut self, now: Ns, channel: u16) {
        let run = &mut self.channels[usize::from(channel)];
        if let (Some((Holder::Drive(drive), ..)), false) = (run.holder, run.disconnects)
            && self.drives[drive as usize].hangs
        {
            // it does not release the channel: all other users hang with it
            return self.drives[drive as usize].kept.push(SimulationEvent::Channel { channel });
        }
        let Some((holder, requested_ns, granted)) = run.holder.take() else { return };
        run.meter.complete(now, requested_ns);
        let (disconnects, overhead) = (run.disconnects, run.overhead);
        if let Some((next, requested_ns)) = run.waiting.pop_front() {
            self.channel_grant(now, channel, next, requested_ns);
        }
        match holder {
            Holder::Drive(drive) => self.drive_released(now, drive, disconnects, granted - requested_ns + overhead),
            Holder::Job(job) => self.passed(now, job),
        }
    }
}
