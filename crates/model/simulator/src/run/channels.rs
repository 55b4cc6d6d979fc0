//! Channels: one transfer at a time, first come first served.

use std::collections::VecDeque;

use super::job::JobFlow;
use super::report::{Component, ComponentKind};
use super::{Event, IoCounts};
use crate::Ns;
use crate::io::{BLOCK_BYTES, transfer_time_ns};
use crate::station::{Meter, StationTotals};
use crate::system::Channel;

/// The user of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChannelUser {
    /// A mechanical drive, during its request.
    Drive(u32),
    /// A request without a drive, before or after a device.
    Job(u32),
}

/// The use of a channel, from its request to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChannelUse {
    pub user: ChannelUser,
    requested_ns: Ns,
    granted_ns: Ns,
}

/// A channel in the system.
#[derive(Debug)]
pub(super) struct ChannelRun {
    number: u16,
    name: String,
    /// True if drives use it only for their transfers; otherwise they hold it from the command to the completion.
    pub disconnects: bool,
    /// Arbitration, selection, command and status, ns.
    pub overhead_ns: Ns,
    /// Rate of requests that use it without a drive, bytes/s; 0 means that they take no time.
    rate_bytes_per_s: u64,
    current: Option<ChannelUse>,
    /// Users that wait, and the time at which each requested the channel.
    waiting: VecDeque<(ChannelUser, Ns)>,
    meter: Meter,
    bytes: u64,
}

/// A channel's counters at a point in time.
#[derive(Clone, Debug)]
pub(super) struct ChannelSnapshot {
    totals: StationTotals,
    bytes: u64,
}

impl ChannelRun {
    /// An idle channel.
    pub fn new(number: u16, channel: &Channel) -> ChannelRun {
        ChannelRun {
            number,
            name: channel.name.clone(),
            disconnects: channel.disconnects,
            overhead_ns: channel.overhead_ns,
            rate_bytes_per_s: channel.rate.map_or(0, |rate| rate.max(1)),
            current: None,
            waiting: VecDeque::new(),
            meter: Meter::default(),
            bytes: 0,
        }
    }

    /// Requests the channel. True if it is free: it is granted at once, and the user must say for how long it holds the
    /// channel ([`ChannelRun::hold`]). Otherwise the user waits.
    #[must_use = "a granted channel must be held"]
    pub fn request(&mut self, now: Ns, user: ChannelUser) -> bool {
        self.meter.record_arrival(now);
        if self.current.is_some() {
            self.waiting.push_back((user, now));
            return false;
        }
        debug_assert!(self.waiting.is_empty(), "a user waits for a channel that is free");
        self.grant(now, user, now);
        true
    }

    fn grant(&mut self, now: Ns, user: ChannelUser, requested_ns: Ns) {
        debug_assert!(self.current.is_none(), "a channel has one user");
        self.meter.record_start(now);
        self.current = Some(ChannelUse { user, requested_ns, granted_ns: now });
    }

    /// Holds the channel, which has just been granted, for a transfer.
    pub fn hold(&mut self, now: Ns, bytes: u64, time: Ns, flow: &mut JobFlow) {
        self.bytes += bytes;
        flow.events.schedule(now + time, Event::ChannelComplete { channel: self.number });
    }

    /// Holds the channel, which has just been granted, for the transfer of a request without a drive.
    pub fn hold_for_job(&mut self, now: Ns, job: u32, flow: &mut JobFlow) {
        let bytes = u64::from(flow.jobs[job].transferred_io().blocks) * BLOCK_BYTES;
        self.hold(now, bytes, self.overhead_ns + transfer_time_ns(bytes, self.rate_bytes_per_s), flow);
    }

    /// Returns the drive that holds the channel during its whole request.
    pub fn connected_drive(&self) -> Option<u32> {
        match self.current {
            Some(ChannelUse { user: ChannelUser::Drive(drive), .. }) if !self.disconnects => Some(drive),
            _ => None,
        }
    }

    /// Releases the channel and grants it to the next user in the queue. Returns the use that has ended, and the next
    /// user, which must hold the channel.
    pub fn release(&mut self, now: Ns) -> Option<(ChannelUse, Option<ChannelUser>)> {
        let ended = self.current.take()?;
        self.meter.record_completion(now, ended.requested_ns);
        let next = self.waiting.pop_front();
        if let Some((user, requested_ns)) = next {
            self.grant(now, user, requested_ns);
        }
        Some((ended, next.map(|(user, _)| user)))
    }

    /// Delay of a drive's request by this use of the channel, ns: its wait and the channel's overhead.
    pub fn delay_ns(&self, ended: &ChannelUse) -> Ns {
        ended.granted_ns - ended.requested_ns + self.overhead_ns
    }

    /// Takes a snapshot of the counters.
    pub fn take_snapshot(&mut self, now: Ns) -> ChannelSnapshot {
        ChannelSnapshot { totals: self.meter.totals(now), bytes: self.bytes }
    }

    /// Reports the time between two snapshots.
    pub fn report(&self, from: &ChannelSnapshot, to: &ChannelSnapshot) -> Component {
        Component {
            kind: ComponentKind::Channel,
            name: self.name.clone(),
            controller: None,
            servers: 1,
            totals: to.totals.delta_since(&from.totals),
            counts: IoCounts { bytes_read: to.bytes - from.bytes, ..IoCounts::default() },
            scarcest_share: None,
            flash: None,
        }
    }
}
