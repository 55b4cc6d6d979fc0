//! Channels: one transfer at a time, first come first served.

use std::collections::VecDeque;

use super::{Event, Simulation};
use crate::Ns;
use crate::io::transfer_time_ns;
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
    overhead_ns: Ns,
    /// Rate of requests that use it without a drive, bytes/s; 0: they take no time.
    rate_bytes_per_s: u64,
    holder: Option<(Holder, Ns, Ns)>,
    waiting: VecDeque<(Holder, Ns)>,
    pub meter: Meter,
    pub bytes: u64,
}

impl ChannelRun {
    /// An idle channel.
    pub fn new(overhead: Ns, rate: u64, disconnects: bool) -> ChannelRun {
        let (waiting, meter) = (VecDeque::new(), Meter::default());
        ChannelRun {
            disconnects,
            overhead_ns: overhead,
            rate_bytes_per_s: rate,
            holder: None,
            waiting,
            meter,
            bytes: 0,
        }
    }
}

impl Simulation {
    /// Requests a channel; it is granted at once if it is free.
    pub(super) fn request_channel(&mut self, now: Ns, channel: u16, holder: Holder) {
        let run = &mut self.channels[usize::from(channel)];
        run.meter.record_arrival(now);
        if run.holder.is_some() {
            run.waiting.push_back((holder, now));
        } else {
            self.grant_channel(now, channel, holder, now);
        }
    }

    /// Grants a channel to a holder and schedules the end of the transfer.
    fn grant_channel(&mut self, now: Ns, channel: u16, holder: Holder, requested_ns: Ns) {
        let index = usize::from(channel);
        let run = &mut self.channels[index];
        run.meter.record_start(now);
        run.holder = Some((holder, requested_ns, now));
        let (overhead, disconnects, rate) = (run.overhead_ns, run.disconnects, run.rate_bytes_per_s);
        let job = match holder {
            Holder::Drive(drive) => self.job_in_service(drive),
            Holder::Job(job) => Some(job),
        };
        let bytes = job.map_or(0, |job| u64::from(self.jobs[job].transferred_io().blocks) * crate::io::BLOCK_BYTES);
        self.channels[index].bytes += bytes;
        let keeps = match holder {
            Holder::Drive(drive) => self.hold_channel_for_drive(now, drive, disconnects, overhead),
            Holder::Job(_) => overhead + transfer_time_ns(bytes, rate),
        };
        self.events.schedule(now + keeps, Event::ChannelComplete { channel });
    }

    /// Releases a channel, grants it to the next in the queue, and advances the old holder.
    pub(super) fn release_channel(&mut self, now: Ns, channel: u16) {
        let run = &mut self.channels[usize::from(channel)];
        if let (Some((Holder::Drive(drive), ..)), false) = (run.holder, run.disconnects)
            && self.drives[drive as usize].is_hung
        {
            // it does not release the channel: all other users hang with it
            return self.drives[drive as usize].held_events.push(Event::ChannelComplete { channel });
        }
        let Some((holder, requested_ns, granted)) = run.holder.take() else { return };
        run.meter.record_completion(now, requested_ns);
        let (disconnects, overhead) = (run.disconnects, run.overhead_ns);
        if let Some((next, requested_ns)) = run.waiting.pop_front() {
            self.grant_channel(now, channel, next, requested_ns);
        }
        match holder {
            Holder::Drive(drive) => {
                self.schedule_drive_completion(now, drive, disconnects, granted - requested_ns + overhead)
            }
            Holder::Job(job) => self.complete_step(now, job),
        }
    }
}
