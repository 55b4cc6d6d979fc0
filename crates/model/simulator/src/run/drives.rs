//! Drives at work: requests in service, and the use of the channel. `drive_admission.rs` has the requests that a drive
//! does not see yet, `drive_changes.rs` the changes to drives during a run.

use std::collections::VecDeque;

use diskwright_base::{LatencyOperation, Rng};

use super::channels::{ChannelRun, ChannelUser};
use super::drive_changes::{DriveClock, DriveHealth};
use super::job::{JobFlow, JobPurpose};
use super::latency::{ResponseSteps, transfer_operation};
use super::parallel_device::{CapacityUse, ParallelDevice};
use super::report::{Component, ComponentKind};
use super::{Event, IoCounts};
use crate::Ns;
use crate::device::DeviceModel;
use crate::drive::{CacheOutcome, DriveQueue, MechanicalDrive, ServiceBreakdown};
use crate::io::{BLOCK_BYTES, Io};
use crate::station::{Meter, StationTotals};
use crate::system::DriveGroupSpec;

/// The kind of a drive.
pub(super) enum DriveKind {
    /// One request at a time; the next one is chosen from the visible ones.
    Mechanical(Box<MechanicalRun>),
    /// Several at a time, first come first served.
    Parallel(ParallelDevice),
}

/// A mechanical drive with its queue and current request.
pub(super) struct MechanicalRun {
    pub drive: MechanicalDrive,
    pub queue: DriveQueue<u32>,
    /// The job in service.
    pub serving: Option<u32>,
    /// Service of that job, if the drive transfers over a channel that it releases in between.
    service: ServiceBreakdown,
    /// The drive's own clock. Its spindle is ahead of the first drive's by a random time, since nothing synchronizes
    /// spindles.
    pub clock: DriveClock,
    /// Time at which the last request was done, by that clock.
    last_done_ns: Ns,
}

impl MechanicalRun {
    /// Starts to serve a request now.
    #[inline]
    fn start_request(&mut self, now: Ns, io: &Io) -> ServiceBreakdown {
        let drive_now = self.clock.drive_time(now).max(self.last_done_ns);
        let service = self.drive.start(drive_now, io);
        self.last_done_ns = service.done_at;
        self.to_simulation_time(service)
    }

    /// Writes the data that were acknowledged from the write cache.
    fn start_flush(&mut self, now: Ns) -> ServiceBreakdown {
        let drive_now = self.clock.drive_time(now).max(self.last_done_ns);
        let service = self.drive.flush(drive_now);
        self.last_done_ns = service.done_at;
        self.to_simulation_time(service)
    }

    /// Takes the next request from its queue.
    #[inline]
    pub fn pop_request(&mut self, now: Ns) -> Option<(Io, u32)> {
        self.queue.next(self.clock.drive_time(now), &self.drive)
    }

    /// Returns an unused drive of the same model; nothing waits for this one.
    pub fn new_replacement(&self, clock: DriveClock) -> MechanicalRun {
        let drive = MechanicalDrive::new(self.drive.model());
        MechanicalRun {
            drive,
            queue: self.queue.clone(),
            serving: None,
            service: ServiceBreakdown::for_outcome(CacheOutcome::Miss),
            clock,
            last_done_ns: 0,
        }
    }
}

/// A drive in the system.
pub(super) struct DriveRun {
    number: u32,
    pub name: String,
    pub kind: DriveKind,
    /// Requests that the drive does not see yet.
    pub waiting: VecDeque<u32>,
    /// Number of requests that the drive sees.
    pub visible: u32,
    /// Largest number of requests that the drive can see.
    pub depth: u32,
    /// The current limit: `depth`, or 0 while new requests must wait for a flush, a trim or a change
    /// (`drive_admission.rs`).
    pub admit_limit: u32,
    /// Flushes and trims among the waiting requests.
    pub waiting_orders: u32,
    /// True while it executes a flush, and nothing else.
    pub is_flushing: bool,
    /// Its channel, if that is simulated: mechanical drives use it during a request.
    channel: Option<u16>,
    pub meter: Meter,
    pub counts: IoCounts,
    /// Its response times of this interval.
    pub responses: ResponseSteps,
    /// Its own clock.
    pub clock: DriveClock,
    pub health: DriveHealth,
    /// True while it hangs, and completes nothing.
    pub is_hung: bool,
    /// Its events that are held back while it hangs.
    pub held_events: Vec<Event>,
    /// Number of requests queued during the hang that count as in service.
    pub counted_in_service: u32,
    /// Its model, for a replacement.
    pub device: DeviceModel,
    /// Seed of all random streams.
    seed: u64,
    /// How often it was replaced.
    pub replacements: u32,
}

/// A drive's counters at a point in time.
#[derive(Clone, Debug)]
pub(super) struct DriveSnapshot {
    totals: StationTotals,
    counts: IoCounts,
    /// The use of its resources, and the drive's own time, ns.
    capacity_use: Option<(CapacityUse, Ns)>,
}

impl DriveRun {
    /// Creates an idle drive of a group; `seed` is that of all random streams. `None` for a device that is neither
    /// mechanical nor parallel, which does not occur.
    pub fn new(
        (number, name): (u32, String),
        device: DeviceModel,
        seed: u64,
        group: &DriveGroupSpec,
        channel: Option<u16>,
    ) -> Option<DriveRun> {
        let mut rng = device_rng(seed, number, 0);
        let (kind, clock, slots, channel) = match (&device, ParallelDevice::new(&device, rng.clone())) {
            (DeviceModel::Mechanical(model), _) => {
                let clock = DriveClock::new(if number == 0 { 0 } else { rng.next_below(model.revolution_ns().max(1)) });
                let (drive, queue) = (MechanicalDrive::new(model), DriveQueue::new(group.order));
                let service = ServiceBreakdown::for_outcome(CacheOutcome::Miss);
                let mechanical = MechanicalRun { drive, queue, serving: None, service, clock, last_done_ns: 0 };
                (DriveKind::Mechanical(Box::new(mechanical)), clock, u32::MAX, channel)
            }
            (_, Some(device)) => {
                let slots = device.slot_count();
                (DriveKind::Parallel(device), DriveClock::new(0), slots, None)
            }
            (_, None) => return None,
        };
        let depth = group.depth.min(slots).max(1);
        Some(DriveRun {
            number,
            name,
            kind,
            waiting: VecDeque::new(),
            visible: 0,
            depth,
            admit_limit: depth,
            waiting_orders: 0,
            is_flushing: false,
            channel,
            meter: Meter::default(),
            counts: IoCounts::default(),
            responses: ResponseSteps::default(),
            clock,
            health: DriveHealth::Working,
            is_hung: false,
            held_events: Vec::new(),
            counted_in_service: 0,
            device,
            seed,
            replacements: 0,
        })
    }

    /// Random stream of the drive after `round` replacements.
    pub fn replacement_rng(&self, round: u32) -> Rng {
        device_rng(self.seed, self.number, round)
    }

    /// True if it serves one request at a time.
    pub fn is_mechanical(&self) -> bool {
        matches!(self.kind, DriveKind::Mechanical(_))
    }

    /// True if it takes trims.
    pub fn is_flash(&self) -> bool {
        matches!(self.kind, DriveKind::Parallel(ParallelDevice::Flash(_)))
    }

    /// Requests that it serves at a time.
    pub fn server_count(&self) -> u32 {
        match &self.kind {
            DriveKind::Mechanical(_) => 1,
            DriveKind::Parallel(device) => device.slot_count(),
        }
    }

    /// Takes a snapshot of the counters.
    pub fn take_snapshot(&mut self, now: Ns) -> DriveSnapshot {
        let capacity_use = match &self.kind {
            DriveKind::Mechanical(_) => None,
            DriveKind::Parallel(device) => device.capacity_use().map(|used| (used, self.clock.drive_time(now))),
        };
        DriveSnapshot { totals: self.meter.totals(now), counts: self.counts, capacity_use }
    }

    /// Reports the time between two snapshots.
    pub fn report(&self, from: &DriveSnapshot, to: &DriveSnapshot) -> Component {
        let scarcest_share =
            from.capacity_use.as_ref().zip(to.capacity_use.as_ref()).map(|((before, began_ns), (after, ended_ns))| {
                after.scarcest_share(before, ended_ns.saturating_sub(*began_ns))
            });
        Component {
            kind: ComponentKind::Drive,
            name: self.name.clone(),
            controller: None,
            servers: self.server_count(),
            totals: to.totals.delta_since(&from.totals),
            counts: to.counts.delta_since(&from.counts),
            scarcest_share,
            flash: match &self.kind {
                DriveKind::Parallel(device) => device.flash_totals(),
                DriveKind::Mechanical(_) => None,
            },
        }
    }
}

/// Returns the random stream of a device. Each device has its own, so that adding others does not change it.
fn device_rng(seed: u64, number: u32, round: u32) -> Rng {
    Rng::new(seed, (1 << 32) + u64::from(number) + (u64::from(round) << 33))
}

impl DriveRun {
    /// Handles the arrival of a request.
    #[inline]
    pub fn arrive(&mut self, now: Ns, job: u32, channels: &mut [ChannelRun], flow: &mut JobFlow) {
        self.meter.record_arrival(now);
        flow.jobs[job].arrived_ns = now;
        if self.visible >= self.admit_limit || !flow.jobs[job].purpose.moves_data() {
            return self.queue_request(now, job, channels, flow);
        }
        self.submit_request(now, job, channels, flow);
    }

    /// Makes a request visible to the drive.
    #[inline]
    pub fn submit_request(&mut self, now: Ns, job: u32, channels: &mut [ChannelRun], flow: &mut JobFlow) {
        self.count_visible();
        let io = flow.jobs[job].io;
        match &mut self.kind {
            DriveKind::Mechanical(mechanical) => {
                mechanical.queue.push(&mechanical.drive, io, job);
                if mechanical.serving.is_none() {
                    self.start_next_request(now, channels, flow);
                }
            }
            DriveKind::Parallel(device) => {
                self.meter.record_start(now);
                let drive_now = self.clock.drive_time(now);
                let done = match flow.jobs[job].purpose {
                    JobPurpose::Transfer | JobPurpose::FuaWrite => device.submit_request(drive_now, &io),
                    purpose => device.submit_order(drive_now, purpose, &io),
                };
                let done = self.clock.simulation_time(done);
                flow.events.schedule(done, Event::DriveComplete { drive: self.number, job });
            }
        }
    }

    /// Counts a request that becomes visible to the drive.
    #[inline]
    pub fn count_visible(&mut self) {
        self.visible += 1;
        debug_assert!(self.visible <= self.depth, "a drive sees {} of {} requests", self.visible, self.depth);
    }

    /// Starts the next request of an idle mechanical drive.
    #[inline]
    pub fn start_next_request(&mut self, now: Ns, channels: &mut [ChannelRun], flow: &mut JobFlow) {
        let DriveKind::Mechanical(mechanical) = &mut self.kind else { return };
        let Some((io, job)) = mechanical.pop_request(now) else { return };
        self.start_service(now, job, channels, flow, |mechanical| mechanical.start_request(now, &io));
    }

    /// Starts a flush of an idle mechanical drive, which writes the data that it acknowledged from its cache, and
    /// starts nothing else.
    pub fn start_flush(&mut self, now: Ns, job: u32, channels: &mut [ChannelRun], flow: &mut JobFlow) {
        self.count_visible();
        (self.is_flushing, self.admit_limit) = (true, 0);
        self.start_service(now, job, channels, flow, |mechanical| mechanical.start_flush(now));
    }

    /// Starts the service of a request at a mechanical drive, as its channel allows.
    #[inline]
    fn start_service(
        &mut self,
        now: Ns,
        job: u32,
        channels: &mut [ChannelRun],
        flow: &mut JobFlow,
        serve: impl FnOnce(&mut MechanicalRun) -> ServiceBreakdown,
    ) {
        let drive = self.number;
        let DriveKind::Mechanical(mechanical) = &mut self.kind else { return };
        debug_assert!(mechanical.serving.is_none(), "a mechanical drive serves one request at a time");
        self.meter.record_start(now);
        mechanical.serving = Some(job);
        let channel = self.channel.map(|channel| &mut channels[usize::from(channel)]);
        match channel {
            None => {
                let service = serve(mechanical);
                self.counts.add_service(&service);
                flow.events.schedule(service.done_at, Event::DriveComplete { drive, job });
            }
            Some(channel) if channel.disconnects => {
                let service = serve(mechanical);
                self.counts.add_service(&service);
                mechanical.service = service;
                flow.events.schedule(service.channel_start, Event::DriveNeedsChannel { drive });
            }
            // the drive holds the channel from the command on
            Some(channel) => self.request_from(now, channel, flow),
        }
    }

    /// Holds an event back if the drive hangs. True if it hangs.
    pub fn hold_back(&mut self, event: Event) -> bool {
        if self.is_hung {
            self.held_events.push(event);
        }
        self.is_hung
    }

    /// Requests the channel to transfer data, unless the drive hangs.
    pub fn request_channel(&mut self, now: Ns, channels: &mut [ChannelRun], flow: &mut JobFlow) {
        if self.hold_back(Event::DriveNeedsChannel { drive: self.number }) {
            return;
        }
        if let Some(channel) = self.channel {
            self.request_from(now, &mut channels[usize::from(channel)], flow);
        }
    }

    fn request_from(&mut self, now: Ns, channel: &mut ChannelRun, flow: &mut JobFlow) {
        if channel.request(now, ChannelUser::Drive(self.number)) {
            self.hold_channel(now, channel, flow);
        }
    }

    /// Holds the channel, which was just granted to the drive, as long as its request needs it.
    pub fn hold_channel(&mut self, now: Ns, channel: &mut ChannelRun, flow: &mut JobFlow) {
        let overhead = channel.overhead_ns;
        let serving = match &mut self.kind {
            DriveKind::Mechanical(mechanical) => mechanical.serving.map(|job| (mechanical, job)),
            DriveKind::Parallel(_) => None,
        };
        let Some((mechanical, job)) = serving else { return channel.hold(now, 0, overhead, flow) };
        let bytes = u64::from(flow.jobs[job].transferred_io().blocks) * BLOCK_BYTES;
        let time = if channel.disconnects {
            overhead + mechanical.service.channel_time
        } else if flow.jobs[job].purpose == JobPurpose::Flush {
            mechanical.start_flush(now + overhead).done_at - now
        } else {
            let service = mechanical.start_request(now + overhead, &flow.jobs[job].io);
            self.counts.add_service(&service);
            service.done_at - now
        };
        channel.hold(now, bytes, time, flow);
    }

    /// Schedules the completion of the request for which the drive has used the channel, which delayed it by
    /// `delay_ns`.
    pub fn finish_transfer(&mut self, now: Ns, disconnects: bool, delay_ns: Ns, flow: &mut JobFlow) {
        let DriveKind::Mechanical(mechanical) = &self.kind else { return };
        let Some(job) = mechanical.serving else { return };
        let service = &mechanical.service;
        let done = if disconnects {
            service.done_at + channel_delay_ns(&mechanical.drive, service, &flow.jobs[job].io, delay_ns)
        } else {
            now
        };
        flow.events.schedule(done.max(now), Event::DriveComplete { drive: self.number, job });
    }

    /// Completes a request and starts the next one. False if the drive hangs, and holds the completion back.
    #[inline]
    pub fn complete_request(&mut self, now: Ns, job: u32, channels: &mut [ChannelRun], flow: &mut JobFlow) -> bool {
        if self.admit_limit != self.depth && self.hold_back(Event::DriveComplete { drive: self.number, job }) {
            return false;
        }
        self.count_completion(now, job, flow);
        debug_assert!(self.visible > 0, "a drive completes a request that it does not see");
        self.visible -= 1;
        if self.admit_limit != self.depth {
            self.admit_after_completion(now, channels, flow);
            return true;
        }
        let next = self.waiting.pop_front();
        match &mut self.kind {
            DriveKind::Mechanical(mechanical) => {
                mechanical.serving = None;
                if let Some(next) = next {
                    mechanical.queue.push(&mechanical.drive, flow.jobs[next].io, next);
                    self.count_visible();
                }
                self.start_next_request(now, channels, flow);
            }
            DriveKind::Parallel(_) => {
                if let Some(next) = next {
                    self.submit_request(now, next, channels, flow);
                }
            }
        }
        true
    }

    /// Counts a completed request.
    #[inline]
    fn count_completion(&mut self, now: Ns, job: u32, flow: &JobFlow) {
        let job = &flow.jobs[job];
        self.meter.record_completion(now, job.arrived_ns);
        let response = now - job.arrived_ns;
        match job.purpose {
            JobPurpose::Transfer | JobPurpose::FuaWrite => {
                self.counts.add_transfer(&job.io, response);
                self.responses.record_response(transfer_operation(job.io.write), response);
            }
            JobPurpose::Flush => {
                self.counts.flushes += 1;
                self.counts.flush_ns += response;
                self.responses.record_response(LatencyOperation::Flush, response);
            }
            JobPurpose::Trim => self.responses.record_response(LatencyOperation::Discard, response),
        }
    }
}

/// Delay of a request whose channel was granted `late_ns` late, ns. Buffered data just wait. A write that needs its
/// data for the medium loses whole revolutions once the slack of seek and rotation is used up.
fn channel_delay_ns(drive: &MechanicalDrive, service: &ServiceBreakdown, io: &Io, late_ns: Ns) -> Ns {
    if !io.write || service.outcome == CacheOutcome::Early {
        return late_ns;
    }
    let slack_ns = (service.seek + service.rotation).saturating_sub(service.channel_time);
    let revolution = drive.model().revolution_ns().max(1);
    late_ns.saturating_sub(slack_ns).div_ceil(revolution) * revolution
}
