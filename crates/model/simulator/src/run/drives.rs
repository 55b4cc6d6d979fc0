//! Drives at work: the requests that wait at each, and its talk with the
//! channel.

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

/// What a drive is.
pub(super) enum DriveKind {
    /// One request at a time; the next one chosen from those that it sees.
    Mechanical(Box<MechanicalRun>),
    /// Several at a time, first come first served.
    Parallel(Parallel),
}

/// A mechanical drive and what it is at.
pub(super) struct MechanicalRun {
    pub drive: MechanicalDrive,
    pub queue: DriveQueue<u32>,
    /// What it serves.
    pub serving: Option<u32>,
    /// How, where it uses a channel for it.
    service: ServiceBreakdown,
    /// Its spindle is ahead of the first drive's by some time: nothing keeps
    /// spindles in step. The drive lives by a clock of its own.
    pub clock: DriveClock,
    /// When the last request was done, by that clock.
    last: Ns,
}

impl MechanicalRun {
    /// Serves a request from now on.
    #[inline]
    fn start(&mut self, now: Ns, io: &Io) -> ServiceBreakdown {
        let own = self.clock.own(now).max(self.last);
        let service = self.drive.start(own, io);
        self.last = service.done;
        self.real(service)
    }

    /// Writes what it reported early.
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

    /// Another one of the same model that has done nothing yet; nothing waits for this one.
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
    /// Requests that it does not see yet.
    pub waiting: VecDeque<u32>,
    /// Requests that it sees.
    pub seen: u32,
    /// Requests that it can see at a time.
    pub depth: u32,
    /// The same now: its depth, or none where those that come have to wait for something (`orders.rs`).
    pub limit: u32,
    /// Orders among those that wait.
    pub orders: u32,
    /// It is at an order and at nothing else.
    pub alone: bool,
    /// Its channel, where that is simulated: mechanical drives use it in the
    /// course of a request.
    channel: Option<u16>,
    pub meter: Meter,
    pub counts: Counts,
    /// Its own time.
    pub clock: DriveClock,
    pub health: Health,
    /// It answers nothing; what it would have answered or asked for is kept.
    pub hangs: bool,
    pub kept: Vec<SimulationEvent>,
    /// Of those that wait for it while it hangs, how many count as being served.
    pub begun: u32,
    /// What it is, for a fresh one; the seed of its chance with its number, and how often it was replaced.
    pub device: DeviceModel,
    seed: (u64, u32),
    pub round: u32,
}

/// What drives count besides [`crate::station::StationTotals`].
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
    /// Responses of the reads, added up, ns.
    pub read_ns: u64,
    /// Responses of the writes, added up, ns.
    pub write_ns: u64,
    /// Flushes done by a drive.
    pub flushes: u64,
    /// Responses of the flushes, added up, ns.
    pub flush_ns: u64,
    /// Time of arms, ns.
    pub seek_ns: u64,
    /// Time of waiting for the rotation, ns.
    pub rotation_ns: u64,
    /// Time of sectors under the head, ns.
    pub media_ns: u64,
    /// Requests that a drive's own cache served or took.
    pub hits: u64,
}

impl Counts {
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

    #[inline]
    fn served(&mut self, service: &ServiceBreakdown) {
        self.seek_ns += service.seek;
        self.rotation_ns += service.rotation;
        self.media_ns += service.media;
        self.hits += u64::from(service.hit != Hit::Miss);
    }

    /// What was added since an earlier moment.
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

    /// Requests done.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.bytes_read + self.bytes_written
    }
}

impl DriveRun {
    /// A drive of a group at rest; `seed` is that of all chance, and the drive's number. None where the
    /// device is of no kind, which cannot be.
    pub fn new(device: DeviceModel, seed: (u64, u32), group: &Drives, channel: Option<u16>) -> Option<DriveRun> {
        let mut dice = dice(seed, 0);
        let (machine, clock, slots, channel) = match (&device, Parallel::new(&device, dice.clone())) {
            (DeviceModel::Mechanical(model), _) => {
                let clock = DriveClock::new(if seed.1 == 0 { 0 } else { dice.below(model.revolution().max(1)) });
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

    /// The chance of the drive that is there after so many were replaced.
    pub fn dice(&self, round: u32) -> Rng {
        dice(self.seed, round)
    }

    /// It serves one request at a time.
    pub fn is_mechanical(&self) -> bool {
        matches!(self.machine, DriveKind::Mechanical(_))
    }

    /// It has to be told what is no longer needed.
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

    /// What its parts gave (see [`Parallel::given`]), and its own time at this moment.
    pub fn given(&self, now: Ns) -> Option<([f64; 5], [f64; 5], Ns)> {
        match &self.machine {
            DriveKind::Mechanical(_) => None,
            DriveKind::Parallel(device) => device.given().map(|(given, rates)| (given, rates, self.clock.own(now))),
        }
    }
}

/// Chance of a device is its own: others may be added without changing it.
fn dice((seed, number): (u64, u32), round: u32) -> Rng {
    Rng::new(seed, (1 << 32) + u64::from(number) + (u64::from(round) << 33))
}

impl Simulation {
    /// A request comes to a drive.
    pub(super) fn drive_arrive(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        run.meter.arrive(now);
        self.jobs[job].came = now;
        if run.seen >= run.limit || !self.jobs[job].what.moves_data() {
            return self.drive_wait(now, drive, job);
        }
        self.drive_take(now, drive, job);
    }

    /// A drive sees a request.
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

    /// A mechanical drive that is free takes up its next request.
    #[inline]
    pub(super) fn drive_next(&mut self, now: Ns, drive: u32) {
        let run = &mut self.drives[drive as usize];
        let DriveKind::Mechanical(mechanical) = &mut run.machine else { return };
        let Some((io, job)) = mechanical.take(now) else { return };
        self.drive_serve(now, drive, job, |mechanical| mechanical.start(now, &io));
    }

    /// A mechanical drive that is free writes what it reported early, and takes nothing else up.
    pub(super) fn drive_flush(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        run.seen += 1;
        (run.alone, run.limit) = (true, 0);
        self.drive_serve(now, drive, job, |mechanical| mechanical.flush(now));
    }

    /// A mechanical drive takes up a request, as its channel lets it.
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

    /// The request that a mechanical drive serves.
    pub(super) fn drive_serving(&self, drive: u32) -> Option<u32> {
        match &self.drives[drive as usize].machine {
            DriveKind::Mechanical(mechanical) => mechanical.serving,
            DriveKind::Parallel(_) => None,
        }
    }

    /// A drive has data for the channel, or wants them.
    pub(super) fn drive_ready(&mut self, now: Ns, drive: u32) {
        let run = &mut self.drives[drive as usize];
        if run.hangs {
            return run.kept.push(SimulationEvent::Ready { drive });
        }
        if let Some(channel) = self.drives[drive as usize].channel {
            self.channel_ask(now, channel, super::channels::Holder::Drive(drive));
        }
    }

    /// The channel is a drive's: how long it keeps it.
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

    /// A drive lets the channel go, which it got `late` after it wanted it.
    pub(super) fn drive_released(&mut self, now: Ns, drive: u32, disconnects: bool, late: Ns) {
        let run = &self.drives[drive as usize];
        let DriveKind::Mechanical(mechanical) = &run.machine else { return };
        let Some(job) = mechanical.serving else { return };
        let service = &mechanical.service;
        let done =
            if disconnects { service.done + later(&mechanical.drive, service, &self.jobs[job].io, late) } else { now };
        self.events.schedule(done.max(now), SimulationEvent::Device { drive, job });
    }

    /// A drive is done with a request.
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

/// How much later a request is done when the channel was `late`. What the
/// buffer holds just waits. A write that needs its data for the disk loses
/// whole revolutions, once the time of arm and rotation is used up.
fn later(drive: &MechanicalDrive, service: &ServiceBreakdown, io: &Io, late: Ns) -> Ns {
    if !io.write || service.hit == Hit::Early {
        return late;
    }
    let spare = (service.seek + service.rotation).saturating_sub(service.channel_for);
    let revolution = drive.model().revolution().max(1);
    late.saturating_sub(spare).div_ceil(revolution) * revolution
}
