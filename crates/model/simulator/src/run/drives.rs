//! Drives at work: the queue at each drive, and its use of the channel.

use std::collections::VecDeque;

use diskwright_base::{LatencyOperation, Rng};

use super::changes::{DriveClock, DriveHealth};
use super::job::JobPurpose;
use super::latency::transfer_operation;
use super::parallel_device::ParallelDevice;
use super::{Event, Simulation};
use crate::Ns;
use crate::device::DeviceModel;
use crate::drive::{CacheOutcome, DriveQueue, MechanicalDrive, ServiceBreakdown};
use crate::io::{BLOCK_BYTES, Io};
use crate::station::Meter;
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
    /// Its service, where it uses a channel.
    service: ServiceBreakdown,
    /// The drive's own clock. Its spindle is ahead of the first drive's by a random time, since nothing synchronizes
    /// spindles.
    pub clock: DriveClock,
    /// When the last request was done, by that clock.
    last_done_ns: Ns,
}

impl MechanicalRun {
    /// Starts to serve a request now.
    #[inline]
    fn start_request(&mut self, now: Ns, io: &Io) -> ServiceBreakdown {
        let own = self.clock.drive_time(now).max(self.last_done_ns);
        let service = self.drive.start(own, io);
        self.last_done_ns = service.done_at;
        self.to_simulation_time(service)
    }

    /// Writes the data that were acknowledged from the write cache.
    fn start_flush(&mut self, now: Ns) -> ServiceBreakdown {
        let own = self.clock.drive_time(now).max(self.last_done_ns);
        let service = self.drive.flush(own);
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
    pub kind: DriveKind,
    /// Requests that the drive does not see yet.
    pub waiting: VecDeque<u32>,
    /// Number of requests that the drive sees.
    pub visible: u32,
    /// Largest number of requests that the drive can see.
    pub depth: u32,
    /// The current limit: `depth`, or 0 while new requests must wait for a flush, a trim or a change (`flush_trim.rs`).
    pub admit_limit: u32,
    /// Flushes and trims among the waiting requests.
    pub waiting_orders: u32,
    /// It executes a flush and nothing else.
    pub is_flushing: bool,
    /// Its channel, if that is simulated: mechanical drives use it during a request.
    channel: Option<u16>,
    pub meter: Meter,
    pub counts: IoCounts,
    /// Its own clock.
    pub clock: DriveClock,
    pub health: DriveHealth,
    /// It completes nothing; its events are held back.
    pub is_hung: bool,
    pub held_events: Vec<Event>,
    /// Number of requests queued during the hang that count as in service.
    pub counted_in_service: u32,
    /// Its model, for a replacement; the seed and number of its random stream; and how often it was replaced.
    pub device: DeviceModel,
    seed: (u64, u32),
    pub replacements: u32,
}

/// Counters besides [`crate::station::StationTotals`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Reads done.
    pub reads: u64,
    /// Writes done.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Sum of the response times of the reads, ns.
    pub read_ns: u64,
    /// Sum of the response times of the writes, ns.
    pub write_ns: u64,
    /// Flushes completed by a drive.
    pub flushes: u64,
    /// Sum of the response times of the flushes, ns.
    pub flush_ns: u64,
    /// Seek time, ns.
    pub seek_ns: u64,
    /// Rotational latency, ns.
    pub rotation_ns: u64,
    /// Media transfer time, ns.
    pub media_ns: u64,
    /// Requests served or accepted by the drive's own cache.
    pub hits: u64,
}

impl IoCounts {
    /// Adds a completed transfer.
    #[inline]
    pub(super) fn add_transfer(&mut self, io: &Io, response: Ns) {
        let bytes = u64::from(io.blocks) * BLOCK_BYTES;
        if io.write {
            self.writes += 1;
            self.bytes_written += bytes;
            self.write_ns += response;
        } else {
            self.reads += 1;
            self.bytes_read += bytes;
            self.read_ns += response;
        }
    }

    /// Adds the parts of a mechanical service.
    #[inline]
    fn add_service(&mut self, service: &ServiceBreakdown) {
        self.seek_ns += service.seek;
        self.rotation_ns += service.rotation;
        self.media_ns += service.media;
        self.hits += u64::from(service.outcome != CacheOutcome::Miss);
    }

    /// Returns the difference from an earlier snapshot.
    pub fn delta_since(&self, earlier: &IoCounts) -> IoCounts {
        IoCounts {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            bytes_read: self.bytes_read - earlier.bytes_read,
            bytes_written: self.bytes_written - earlier.bytes_written,
            read_ns: self.read_ns - earlier.read_ns,
            write_ns: self.write_ns - earlier.write_ns,
            flushes: self.flushes - earlier.flushes,
            flush_ns: self.flush_ns - earlier.flush_ns,
            seek_ns: self.seek_ns - earlier.seek_ns,
            rotation_ns: self.rotation_ns - earlier.rotation_ns,
            media_ns: self.media_ns - earlier.media_ns,
            hits: self.hits - earlier.hits,
        }
    }

    /// Requests completed.
    pub fn request_count(&self) -> u64 {
        self.reads + self.writes
    }

    /// Bytes read and written.
    pub fn byte_count(&self) -> u64 {
        self.bytes_read + self.bytes_written
    }
}

impl DriveRun {
    /// An idle drive of a group; `seed` is the seed of the random stream, and the drive's number. `None` for a device
    /// that is neither mechanical nor parallel, which does not occur.
    pub fn new(
        device: DeviceModel,
        seed: (u64, u32),
        group: &DriveGroupSpec,
        channel: Option<u16>,
    ) -> Option<DriveRun> {
        let mut rng = device_rng(seed, 0);
        let (machine, clock, slots, channel) = match (&device, ParallelDevice::new(&device, rng.clone())) {
            (DeviceModel::Mechanical(model), _) => {
                let clock = DriveClock::new(if seed.1 == 0 { 0 } else { rng.next_below(model.revolution_ns().max(1)) });
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
            kind: machine,
            waiting: VecDeque::new(),
            visible: 0,
            depth,
            admit_limit: depth,
            waiting_orders: 0,
            is_flushing: false,
            channel,
            meter: Meter::default(),
            counts: IoCounts::default(),
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
        device_rng(self.seed, round)
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

    /// Returns the use of its resources (see [`ParallelDevice::capacity_use`]) and its own time.
    pub fn capacity_use(&self, now: Ns) -> Option<([f64; 5], [f64; 5], Ns)> {
        match &self.kind {
            DriveKind::Mechanical(_) => None,
            DriveKind::Parallel(device) => {
                device.capacity_use().map(|(given, rates)| (given, rates, self.clock.drive_time(now)))
            }
        }
    }
}

/// Each device has its own random stream, so that adding others does not change it.
fn device_rng((seed, number): (u64, u32), round: u32) -> Rng {
    Rng::new(seed, (1 << 32) + u64::from(number) + (u64::from(round) << 33))
}

impl Simulation {
    /// A request arrives at a drive.
    pub(super) fn arrive_at_drive(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        run.meter.record_arrival(now);
        self.jobs[job].arrived_ns = now;
        if run.visible >= run.admit_limit || !self.jobs[job].purpose.moves_data() {
            return self.queue_at_drive(now, drive, job);
        }
        self.submit_to_drive(now, drive, job);
    }

    /// Makes a request visible to a drive.
    #[inline]
    pub(super) fn submit_to_drive(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        run.visible += 1;
        let io = self.jobs[job].io;
        match &mut run.kind {
            DriveKind::Mechanical(mechanical) => {
                mechanical.queue.push(&mechanical.drive, io, job);
                if mechanical.serving.is_none() {
                    self.start_next_request(now, drive);
                }
            }
            DriveKind::Parallel(device) => {
                run.meter.record_start(now);
                let own = run.clock.drive_time(now);
                let done = match self.jobs[job].purpose {
                    JobPurpose::Transfer | JobPurpose::FuaWrite => device.submit_request(own, &io),
                    what => device.submit_order(own, what, &io),
                };
                let done = run.clock.simulation_time(done);
                self.events.schedule(done, Event::DriveComplete { drive, job });
            }
        }
    }

    /// An idle mechanical drive starts its next request.
    #[inline]
    pub(super) fn start_next_request(&mut self, now: Ns, drive: u32) {
        let run = &mut self.drives[drive as usize];
        let DriveKind::Mechanical(mechanical) = &mut run.kind else { return };
        let Some((io, job)) = mechanical.pop_request(now) else { return };
        self.start_service(now, drive, job, |mechanical| mechanical.start_request(now, &io));
    }

    /// An idle mechanical drive writes the data that it acknowledged from its cache, and starts nothing else.
    pub(super) fn start_drive_flush(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        run.visible += 1;
        (run.is_flushing, run.admit_limit) = (true, 0);
        self.start_service(now, drive, job, |mechanical| mechanical.start_flush(now));
    }

    /// A mechanical drive starts to serve a request as its channel allows.
    #[inline]
    fn start_service(
        &mut self,
        now: Ns,
        drive: u32,
        job: u32,
        serve: impl FnOnce(&mut MechanicalRun) -> ServiceBreakdown,
    ) {
        let run = &mut self.drives[drive as usize];
        let DriveKind::Mechanical(mechanical) = &mut run.kind else { return };
        run.meter.record_start(now);
        match run.channel {
            None => {
                let service = serve(mechanical);
                run.counts.add_service(&service);
                mechanical.serving = Some(job);
                self.events.schedule(service.done_at, Event::DriveComplete { drive, job });
            }
            Some(channel) if self.channels[usize::from(channel)].disconnects => {
                let service = serve(mechanical);
                run.counts.add_service(&service);
                (mechanical.serving, mechanical.service) = (Some(job), service);
                self.events.schedule(service.channel_start, Event::DriveNeedsChannel { drive });
            }
            Some(channel) => {
                // it holds the channel from the command on
                mechanical.serving = Some(job);
                self.request_channel(now, channel, super::channels::Holder::Drive(drive));
            }
        }
    }

    /// Returns the job that a mechanical drive serves.
    pub(super) fn job_in_service(&self, drive: u32) -> Option<u32> {
        match &self.drives[drive as usize].kind {
            DriveKind::Mechanical(mechanical) => mechanical.serving,
            DriveKind::Parallel(_) => None,
        }
    }

    /// Requests the channel for a drive that has data for it or needs data.
    pub(super) fn request_drive_channel(&mut self, now: Ns, drive: u32) {
        let run = &mut self.drives[drive as usize];
        if run.is_hung {
            return run.held_events.push(Event::DriveNeedsChannel { drive });
        }
        if let Some(channel) = self.drives[drive as usize].channel {
            self.request_channel(now, channel, super::channels::Holder::Drive(drive));
        }
    }

    /// A drive gets its channel; returns how long it holds it.
    pub(super) fn hold_channel_for_drive(&mut self, now: Ns, drive: u32, disconnects: bool, overhead: Ns) -> Ns {
        let run = &mut self.drives[drive as usize];
        let DriveKind::Mechanical(mechanical) = &mut run.kind else { return overhead };
        let Some(job) = mechanical.serving else { return overhead };
        if disconnects {
            return overhead + mechanical.service.channel_time;
        }
        if self.jobs[job].purpose == JobPurpose::Flush {
            return mechanical.start_flush(now + overhead).done_at - now;
        }
        let service = mechanical.start_request(now + overhead, &self.jobs[job].io);
        run.counts.add_service(&service);
        service.done_at - now
    }

    /// Schedules a drive's completion when it releases the channel, granted `late` ns after it was requested.
    pub(super) fn schedule_drive_completion(&mut self, now: Ns, drive: u32, disconnects: bool, late: Ns) {
        let run = &self.drives[drive as usize];
        let DriveKind::Mechanical(mechanical) = &run.kind else { return };
        let Some(job) = mechanical.serving else { return };
        let service = &mechanical.service;
        let done = if disconnects {
            service.done_at + channel_delay_ns(&mechanical.drive, service, &self.jobs[job].io, late)
        } else {
            now
        };
        self.events.schedule(done.max(now), Event::DriveComplete { drive, job });
    }

    /// Completes a request at a drive.
    pub(super) fn complete_drive_request(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        if run.admit_limit != run.depth && run.is_hung {
            return run.held_events.push(Event::DriveComplete { drive, job });
        }
        run.meter.record_completion(now, self.jobs[job].arrived_ns);
        let response = now - self.jobs[job].arrived_ns;
        match self.jobs[job].purpose {
            JobPurpose::Transfer | JobPurpose::FuaWrite => {
                run.counts.add_transfer(&self.jobs[job].io, response);
                self.latency.record_drive(drive, transfer_operation(self.jobs[job].io.write), response);
            }
            JobPurpose::Flush => {
                run.counts.flushes += 1;
                run.counts.flush_ns += response;
                self.latency.record_drive(drive, LatencyOperation::Flush, response);
            }
            JobPurpose::Trim => self.latency.record_drive(drive, LatencyOperation::Discard, response),
        }
        run.visible -= 1;
        if run.admit_limit != run.depth {
            return self.complete_and_admit(now, drive, job);
        }
        let next = run.waiting.pop_front();
        match &mut run.kind {
            DriveKind::Mechanical(mechanical) => {
                mechanical.serving = None;
                if let Some(next) = next {
                    run.visible += 1;
                    mechanical.queue.push(&mechanical.drive, self.jobs[next].io, next);
                }
                self.start_next_request(now, drive);
            }
            DriveKind::Parallel(_) => {
                if let Some(next) = next {
                    self.submit_to_drive(now, drive, next);
                }
            }
        }
        self.complete_step(now, job);
    }
}

/// Delay of a request whose channel was granted `late`. Buffered data just wait. A write that needs its data for the
/// medium loses whole revolutions once the slack of seek and rotation is used up.
fn channel_delay_ns(drive: &MechanicalDrive, service: &ServiceBreakdown, io: &Io, late_ns: Ns) -> Ns {
    if !io.write || service.outcome == CacheOutcome::Early {
        return late_ns;
    }
    let slack_ns = (service.seek + service.rotation).saturating_sub(service.channel_time);
    let revolution = drive.model().revolution_ns().max(1);
    late_ns.saturating_sub(slack_ns).div_ceil(revolution) * revolution
}
