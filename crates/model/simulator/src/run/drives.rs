//! Drives at work: the queue at each drive, and its use of the channel.

use std::collections::VecDeque;

use diskwright_base::{LatencyOperation, Rng};

use super::changes::{DriveClock, Health};
use super::devices::Parallel;
use super::job::JobPurpose;
use super::latency::of_transfer;
use super::{Simulation, SimulationEvent};
use crate::Ns;
use crate::device::DeviceModel;
use crate::drive::{DriveQueue, Hit, MechanicalDrive, ServiceBreakdown};
use crate::io::{BLOCK_BYTES, Io};
use crate::station::Meter;
use crate::system::Drives;

/// The kind of a drive.
pub(super) enum DriveKind {
    /// One request at a time; the next one is chosen from the visible ones.
    Mechanical(Box<MechanicalRun>),
    /// Several at a time, first come first served.
    Parallel(Parallel),
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
    last: Ns,
}

impl MechanicalRun {
    /// Starts to serve a request now.
    #[inline]
    fn start(&mut self, now: Ns, io: &Io) -> ServiceBreakdown {
        let own = self.clock.own(now).max(self.last);
        let service = self.drive.start(own, io);
        self.last = service.done;
        self.real(service)
    }

    /// Writes the data that were acknowledged from the write cache.
    fn flush(&mut self, now: Ns) -> ServiceBreakdown {
        let own = self.clock.own(now).max(self.last);
        let service = self.drive.flush(own);
        self.last = service.done;
        self.real(service)
    }

    /// Takes the next request from its queue.
    #[inline]
    pub fn take(&mut self, now: Ns) -> Option<(Io, u32)> {
        self.queue.next(self.clock.own(now), &self.drive)
    }

    /// Returns an unused drive of the same model; nothing waits for this one.
    pub fn fresh(&self, clock: DriveClock) -> MechanicalRun {
        let drive = MechanicalDrive::new(self.drive.model());
        MechanicalRun {
            drive,
            queue: self.queue.clone(),
            serving: None,
            service: ServiceBreakdown::of(Hit::Miss),
            clock,
            last: 0,
        }
    }
}

/// A drive in the system.
pub(super) struct DriveRun {
    pub machine: DriveKind,
    /// Requests that the drive does not see yet.
    pub waiting: VecDeque<u32>,
    /// Number of requests that the drive sees.
    pub seen: u32,
    /// Largest number of requests that the drive can see.
    pub depth: u32,
    /// The current limit: `depth`, or 0 while new requests must wait for a flush, a trim or a change (`flush_trim.rs`).
    pub limit: u32,
    /// Flushes and trims among the waiting requests.
    pub orders: u32,
    /// It executes a flush and nothing else.
    pub alone: bool,
    /// Its channel, if that is simulated: mechanical drives use it during a request.
    channel: Option<u16>,
    pub meter: Meter,
    pub counts: Counts,
    /// Its own clock.
    pub clock: DriveClock,
    pub health: Health,
    /// It completes nothing; its events are held back.
    pub hangs: bool,
    pub kept: Vec<SimulationEvent>,
    /// Number of requests queued during the hang that count as in service.
    pub begun: u32,
    /// Its model, for a replacement; the seed and number of its random stream; and how often it was replaced.
    pub device: DeviceModel,
    seed: (u64, u32),
    pub round: u32,
}

/// Counters besides [`crate::station::StationTotals`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
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

impl Counts {
    /// Adds a completed transfer.
    #[inline]
    pub(super) fn add(&mut self, io: &Io, response: Ns) {
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
    fn served(&mut self, service: &ServiceBreakdown) {
        self.seek_ns += service.seek;
        self.rotation_ns += service.rotation;
        self.media_ns += service.media;
        self.hits += u64::from(service.hit != Hit::Miss);
    }

    /// Returns the difference from an earlier snapshot.
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts {
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
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.bytes_read + self.bytes_written
    }
}

impl DriveRun {
    /// An idle drive of a group; `seed` is the seed of the random stream, and the drive's number. `None` for a device
    /// that is neither mechanical nor parallel, which does not occur.
    pub fn new(device: DeviceModel, seed: (u64, u32), group: &Drives, channel: Option<u16>) -> Option<DriveRun> {
        let mut rng = dice(seed, 0);
        let (machine, clock, slots, channel) = match (&device, Parallel::new(&device, rng.clone())) {
            (DeviceModel::Mechanical(model), _) => {
                let clock = DriveClock::new(if seed.1 == 0 { 0 } else { rng.next_below(model.revolution().max(1)) });
                let (drive, queue) = (MechanicalDrive::new(model), DriveQueue::new(group.order));
                let service = ServiceBreakdown::of(Hit::Miss);
                let mechanical = MechanicalRun { drive, queue, serving: None, service, clock, last: 0 };
                (DriveKind::Mechanical(Box::new(mechanical)), clock, u32::MAX, channel)
            }
            (_, Some(device)) => {
                let slots = device.slots();
                (DriveKind::Parallel(device), DriveClock::new(0), slots, None)
            }
            (_, None) => return None,
        };
        let depth = group.depth.min(slots).max(1);
        Some(DriveRun {
            machine,
            waiting: VecDeque::new(),
            seen: 0,
            depth,
            limit: depth,
            orders: 0,
            alone: false,
            channel,
            meter: Meter::default(),
            counts: Counts::default(),
            clock,
            health: Health::Works,
            hangs: false,
            kept: Vec::new(),
            begun: 0,
            device,
            seed,
            round: 0,
        })
    }

    /// Random stream of the drive after `round` replacements.
    pub fn dice(&self, round: u32) -> Rng {
        dice(self.seed, round)
    }

    /// True if it serves one request at a time.
    pub fn is_mechanical(&self) -> bool {
        matches!(self.machine, DriveKind::Mechanical(_))
    }

    /// True if it takes trims.
    pub fn is_flash(&self) -> bool {
        matches!(self.machine, DriveKind::Parallel(Parallel::Flash(_)))
    }

    /// Requests that it serves at a time.
    pub fn servers(&self) -> u32 {
        match &self.machine {
            DriveKind::Mechanical(_) => 1,
            DriveKind::Parallel(device) => device.slots(),
        }
    }

    /// Returns the use of its resources (see [`Parallel::given`]) and its own time.
    pub fn given(&self, now: Ns) -> Option<([f64; 5], [f64; 5], Ns)> {
        match &self.machine {
            DriveKind::Mechanical(_) => None,
            DriveKind::Parallel(device) => device.given().map(|(given, rates)| (given, rates, self.clock.own(now))),
        }
    }
}

/// Each device has its own random stream, so that adding others does not change it.
fn dice((seed, number): (u64, u32), round: u32) -> Rng {
    Rng::new(seed, (1 << 32) + u64::from(number) + (u64::from(round) << 33))
}

impl Simulation {
    /// A request arrives at a drive.
    pub(super) fn drive_arrive(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        run.meter.arrive(now);
        self.jobs[job].came = now;
        if run.seen >= run.limit || !self.jobs[job].what.moves_data() {
            return self.drive_wait(now, drive, job);
        }
        self.drive_take(now, drive, job);
    }

    /// Makes a request visible to a drive.
    #[inline]
    pub(super) fn drive_take(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        run.seen += 1;
        let io = self.jobs[job].io;
        match &mut run.machine {
            DriveKind::Mechanical(mechanical) => {
                mechanical.queue.push(&mechanical.drive, io, job);
                if mechanical.serving.is_none() {
                    self.drive_next(now, drive);
                }
            }
            DriveKind::Parallel(device) => {
                run.meter.start(now);
                let own = run.clock.own(now);
                let done = match self.jobs[job].what {
                    JobPurpose::Transfer | JobPurpose::Through => device.submit(own, &io),
                    what => device.order(own, what, &io),
                };
                let done = run.clock.real(done);
                self.events.schedule(done, SimulationEvent::Device { drive, job });
            }
        }
    }

    /// An idle mechanical drive starts its next request.
    #[inline]
    pub(super) fn drive_next(&mut self, now: Ns, drive: u32) {
        let run = &mut self.drives[drive as usize];
        let DriveKind::Mechanical(mechanical) = &mut run.machine else { return };
        let Some((io, job)) = mechanical.take(now) else { return };
        self.drive_serve(now, drive, job, |mechanical| mechanical.start(now, &io));
    }

    /// An idle mechanical drive writes the data that it acknowledged from its cache, and starts nothing else.
    pub(super) fn drive_flush(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        run.seen += 1;
        (run.alone, run.limit) = (true, 0);
        self.drive_serve(now, drive, job, |mechanical| mechanical.flush(now));
    }

    /// A mechanical drive starts to serve a request as its channel allows.
    #[inline]
    fn drive_serve(
        &mut self,
        now: Ns,
        drive: u32,
        job: u32,
        serve: impl FnOnce(&mut MechanicalRun) -> ServiceBreakdown,
    ) {
        let run = &mut self.drives[drive as usize];
        let DriveKind::Mechanical(mechanical) = &mut run.machine else { return };
        run.meter.start(now);
        match run.channel {
            None => {
                let service = serve(mechanical);
                run.counts.served(&service);
                mechanical.serving = Some(job);
                self.events.schedule(service.done, SimulationEvent::Device { drive, job });
            }
            Some(channel) if self.channels[usize::from(channel)].disconnects => {
                let service = serve(mechanical);
                run.counts.served(&service);
                (mechanical.serving, mechanical.service) = (Some(job), service);
                self.events.schedule(service.channel_from, SimulationEvent::Ready { drive });
            }
            Some(channel) => {
                // it holds the channel from the command on
                mechanical.serving = Some(job);
                self.channel_ask(now, channel, super::channels::Holder::Drive(drive));
            }
        }
    }

    /// Returns the job that a mechanical drive serves.
    pub(super) fn drive_serving(&self, drive: u32) -> Option<u32> {
        match &self.drives[drive as usize].machine {
            DriveKind::Mechanical(mechanical) => mechanical.serving,
            DriveKind::Parallel(_) => None,
        }
    }

    /// Requests the channel for a drive that has data for it or needs data.
    pub(super) fn drive_ready(&mut self, now: Ns, drive: u32) {
        let run = &mut self.drives[drive as usize];
        if run.hangs {
            return run.kept.push(SimulationEvent::Ready { drive });
        }
        if let Some(channel) = self.drives[drive as usize].channel {
            self.channel_ask(now, channel, super::channels::Holder::Drive(drive));
        }
    }

    /// A drive gets its channel; returns how long it holds it.
    pub(super) fn drive_granted(&mut self, now: Ns, drive: u32, disconnects: bool, overhead: Ns) -> Ns {
        let run = &mut self.drives[drive as usize];
        let DriveKind::Mechanical(mechanical) = &mut run.machine else { return overhead };
        let Some(job) = mechanical.serving else { return overhead };
        if disconnects {
            return overhead + mechanical.service.channel_for;
        }
        if self.jobs[job].what == JobPurpose::Flush {
            return mechanical.flush(now + overhead).done - now;
        }
        let service = mechanical.start(now + overhead, &self.jobs[job].io);
        run.counts.served(&service);
        service.done - now
    }

    /// Schedules a drive's completion when it releases the channel, granted `late` ns after it was requested.
    pub(super) fn drive_released(&mut self, now: Ns, drive: u32, disconnects: bool, late: Ns) {
        let run = &self.drives[drive as usize];
        let DriveKind::Mechanical(mechanical) = &run.machine else { return };
        let Some(job) = mechanical.serving else { return };
        let service = &mechanical.service;
        let done =
            if disconnects { service.done + later(&mechanical.drive, service, &self.jobs[job].io, late) } else { now };
        self.events.schedule(done.max(now), SimulationEvent::Device { drive, job });
    }

    /// Completes a request at a drive.
    pub(super) fn drive_done(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        if run.limit != run.depth && run.hangs {
            return run.kept.push(SimulationEvent::Device { drive, job });
        }
        run.meter.complete(now, self.jobs[job].came);
        let response = now - self.jobs[job].came;
        match self.jobs[job].what {
            JobPurpose::Transfer | JobPurpose::Through => {
                run.counts.add(&self.jobs[job].io, response);
                self.latency.drive(drive, of_transfer(self.jobs[job].io.write), response);
            }
            JobPurpose::Flush => {
                run.counts.flushes += 1;
                run.counts.flush_ns += response;
                self.latency.drive(drive, LatencyOperation::Flush, response);
            }
            JobPurpose::Trim => self.latency.drive(drive, LatencyOperation::Discard, response),
        }
        run.seen -= 1;
        if run.limit != run.depth {
            return self.drive_done_slowly(now, drive, job);
        }
        let next = run.waiting.pop_front();
        match &mut run.machine {
            DriveKind::Mechanical(mechanical) => {
                mechanical.serving = None;
                if let Some(next) = next {
                    run.seen += 1;
                    mechanical.queue.push(&mechanical.drive, self.jobs[next].io, next);
                }
                self.drive_next(now, drive);
            }
            DriveKind::Parallel(_) => {
                if let Some(next) = next {
                    self.drive_take(now, drive, next);
                }
            }
        }
        self.passed(now, job);
    }
}

/// Delay of a request whose channel was granted `late`. Buffered data just wait. A write that needs its data for the
/// medium loses whole revolutions once the slack of seek and rotation is used up.
fn later(drive: &MechanicalDrive, service: &ServiceBreakdown, io: &Io, late_ns: Ns) -> Ns {
    if !io.write || service.hit == Hit::Early {
        return late_ns;
    }
    let slack_ns = (service.seek + service.rotation).saturating_sub(service.channel_for);
    let revolution = drive.model().revolution().max(1);
    late_ns.saturating_sub(slack_ns).div_ceil(revolution) * revolution
}
