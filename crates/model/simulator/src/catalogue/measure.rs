//! A short closed run of one device by itself: what a specification prints
//! (random requests a second, sequential rate), simulated.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use diskwright_base::Rng;
use serde::{Deserialize, Serialize};

use crate::Ns;
use crate::device::{DeviceModel, PlainSpec};
use crate::drive::{DriveQueue, MechanicalDrive, Model};
use crate::flash::{FlashDevice, FlashModel, FlashSpec, Start};
use crate::io::{BLOCK_BYTES, Io};
use crate::volume::CloudVolume;

/// Most requests that are kept at the device.
pub const MOST_DEPTH: u32 = 4096;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DrivePattern {
    /// Reads anywhere.
    RandomRead,
    /// Writes anywhere.
    RandomWrite,
    /// Reads from the first block on.
    SequentialRead,
    /// Writes from the first block on.
    SequentialWrite,
}

impl DrivePattern {
    /// All of them.
    pub const ALL: [DrivePattern; 4] = [
        DrivePattern::RandomRead,
        DrivePattern::RandomWrite,
        DrivePattern::SequentialRead,
        DrivePattern::SequentialWrite,
    ];

    /// `random read` and so on.
    pub fn name(self) -> &'static str {
        ["random read", "random write", "sequential read", "sequential write"][self as usize]
    }
}

/// A printed figure, and what may come out of the simulation.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// What is asked.
    pub ask: DrivePattern,
    /// Size of a request, KB.
    pub kb: f64,
    /// Requests at the device all the time.
    pub depth: u32,
    /// Least and most requests a second.
    pub iops: Option<[f64; 2]>,
    /// Least and most MB/s.
    pub mb_s: Option<[f64; 2]>,
    /// An SSD that was written once in order, not in the state in which the entry begins.
    #[serde(default)]
    pub in_order: bool,
    /// What is printed, and where.
    pub printed: String,
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveMeasurement {
    /// Requests a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Mean time of a request, s.
    pub mean_s: f64,
}

impl Check {
    /// Looks for what cannot be.
    ///
    /// # Errors
    /// A text that names the item and what would be right.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=MOST_DEPTH).contains(&self.depth) {
            return Err(format!("checks: a depth of {}; expected 1 to {MOST_DEPTH}", self.depth));
        }
        if !(0.5..=65_536.0).contains(&self.kb) {
            return Err(format!("checks: requests of {} KB; expected 0.5 to 65,536", self.kb));
        }
        match (self.iops, self.mb_s) {
            (Some(_), None) | (None, Some(_)) => Ok(()),
            _ => Err("checks: expected one of `iops` and `mb_s`, as [least, most]".into()),
        }
    }

    /// Simulates it: what comes out, in the unit of its bounds, and whether it is within them.
    pub fn run(&self, device: &DeviceModel, requests: u32) -> (f64, bool) {
        let blocks = (self.kb * 1024.0 / BLOCK_BYTES as f64).round() as u32;
        let other = if self.in_order { written_in_order(device) } else { None };
        let measured = measure(other.as_ref().unwrap_or(device), self.ask, blocks, self.depth, requests);
        let (found, bounds) = match (self.iops, self.mb_s) {
            (Some(bounds), _) => (measured.iops, bounds),
            (_, Some(bounds)) => (measured.bytes_per_s / 1e6, bounds),
            _ => (f64::NAN, [0.0, 0.0]),
        };
        (found, (bounds[0]..=bounds[1]).contains(&found))
    }
}

/// The same SSD, written once in order; none for other devices.
fn written_in_order(device: &DeviceModel) -> Option<DeviceModel> {
    let DeviceModel::Flash(model) = device else { return None };
    let start = Start { filled: 1.0, overwritten: 0.0 };
    let spec = FlashSpec { start, ..model.spec().clone() };
    FlashModel::new(&spec).ok().map(|model| DeviceModel::Flash(model.into()))
}

/// What is asked of a device by itself, all the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveLoad {
    /// One behind the other, or anywhere.
    pub sequential: bool,
    /// Share of reads.
    pub read_share: f64,
    /// Blocks of a request.
    pub blocks: u32,
    /// Requests at the device.
    pub depth: u32,
    /// Blocks from the first on in which all lie; none: the whole device.
    pub range: Option<u64>,
}

impl DrivePattern {
    /// The same as a load.
    fn load(self, blocks: u32, depth: u32) -> DriveLoad {
        let sequential = matches!(self, DrivePattern::SequentialRead | DrivePattern::SequentialWrite);
        let reads = matches!(self, DrivePattern::RandomRead | DrivePattern::SequentialRead);
        DriveLoad { sequential, read_share: if reads { 1.0 } else { 0.0 }, blocks, depth, range: None }
    }
}

/// The next request of a run.
struct RequestSource {
    load: DriveLoad,
    blocks: u32,
    places: u64,
    next: u64,
    dice: Rng,
}

impl RequestSource {
    fn new(load: &DriveLoad, device: &DeviceModel) -> RequestSource {
        let blocks = load.blocks.max(1);
        let room = load.range.map_or(device.blocks(), |range| range.min(device.blocks()));
        let places = (room / u64::from(blocks)).max(1);
        RequestSource { load: *load, blocks, places, next: 0, dice: Rng::new(17, 0) }
    }

    fn next(&mut self) -> Io {
        let blocks = u64::from(self.blocks);
        let place = match self.load.sequential {
            false => self.dice.below(self.places),
            true => {
                self.next += 1;
                (self.next - 1) % self.places
            }
        };
        let share = self.load.read_share;
        let write = share < 1.0 && (share <= 0.0 || !self.dice.chance(share));
        Io { first: place * blocks, blocks: self.blocks, write }
    }
}

/// Runs so many requests with `depth` of them at the device all the time, after
/// a tenth as many that are not counted.
pub fn measure(device: &DeviceModel, ask: DrivePattern, blocks: u32, depth: u32, requests: u32) -> DriveMeasurement {
    run(device, &ask.load(blocks, depth), requests, false)
}

/// Any load, as somebody measures it from outside: the answer has a way to go, so that a drive has chosen its
/// next request when the one that follows an answer comes.
pub fn measure_load(device: &DeviceModel, load: &DriveLoad, requests: u32) -> DriveMeasurement {
    run(device, load, requests, true)
}

/// The same load where so many requests a second come by themselves (Poisson), however many are under way.
pub fn measure_arrivals(device: &DeviceModel, load: &DriveLoad, per_s: f64, requests: u32) -> DriveMeasurement {
    let mut source = RequestSource::new(load, device);
    let mut gaps = Rng::new(17, 2);
    let between = 1e9 / per_s.max(1e-9);
    let mut arrival = 0.0;
    let mut arrive = || {
        arrival += -(1.0 - gaps.share()).ln() * between;
        arrival as Ns
    };
    let count = requests.max(10) + requests / 10;
    let mut tally = RequestTally::new(requests.max(10), source.blocks);
    match device {
        DeviceModel::Mechanical(model) => {
            let arrivals: Vec<Ns> = (0..count).map(|_| arrive()).collect();
            mechanical_arrivals(model, &mut source, &arrivals, &mut tally);
        }
        DeviceModel::Flash(model) => {
            let mut flash = FlashDevice::new(model);
            for began in (0..count).map(|_| arrive()) {
                tally.add(began, flash.submit(began, &source.next()));
            }
        }
        DeviceModel::Volume(spec) => {
            let mut volume = CloudVolume::new(spec, Rng::new(17, 1));
            // no more than it takes at a time are with it
            let mut under_way = BinaryHeap::new();
            for began in (0..count).map(|_| arrive()) {
                let mut now = began;
                while under_way.len() >= spec.slots as usize {
                    let Some(Reverse(free)) = under_way.pop() else { break };
                    now = now.max(free);
                }
                let done = volume.submit(now, &source.next());
                under_way.push(Reverse(done));
                tally.add(began, done);
            }
        }
        DeviceModel::Plain(spec) => {
            let mut servers = PlainServers::new(spec);
            for began in (0..count).map(|_| arrive()) {
                tally.add(began, servers.submit(began, &source.next()));
            }
        }
    }
    tally.measured()
}

/// A mechanical drive under requests that come at these moments.
fn mechanical_arrivals(model: &Arc<Model>, source: &mut RequestSource, arrivals: &[Ns], tally: &mut RequestTally) {
    let mut drive = MechanicalDrive::new(model);
    let mut inside = DriveQueue::new(model.policy());
    let mut outside = VecDeque::new();
    let (mut now, mut next, mut held) = (0, 0, 0);
    while tally.counted() < arrivals.len() as u32 {
        while let Some(began) = arrivals.get(next).filter(|began| **began <= now) {
            outside.push_back((source.next(), *began));
            next += 1;
        }
        while held < model.slots() {
            let Some((io, began)) = outside.pop_front() else { break };
            inside.push(&drive, io, began);
            held += 1;
        }
        let Some((io, began)) = inside.next(now, &drive) else {
            // idle until the next comes
            let Some(began) = arrivals.get(next) else { break };
            now = now.max(*began);
            continue;
        };
        now = drive.start(now, &io).done;
        held -= 1;
        tally.add(began, now);
    }
}

fn run(device: &DeviceModel, load: &DriveLoad, requests: u32, from_outside: bool) -> DriveMeasurement {
    let mut source = RequestSource::new(load, device);
    let depth = load.depth.clamp(1, MOST_DEPTH);
    let mut requests = requests.max(10);
    if matches!(device, DeviceModel::Mechanical(_)) && load.sequential {
        // what is printed is the rate of the outermost tracks
        requests = requests.min((source.places / 50).clamp(10, 1 << 30) as u32);
    }
    match device {
        DeviceModel::Mechanical(model) => mechanical(model, &mut source, depth, requests, from_outside),
        DeviceModel::Flash(model) => {
            let mut flash = FlashDevice::new(model);
            closed(&mut source, depth.min(model.slots()), requests, |now, io| flash.submit(now, io))
        }
        DeviceModel::Volume(spec) => {
            let mut volume = CloudVolume::new(spec, Rng::new(17, 1));
            closed(&mut source, depth.min(spec.slots), requests, |now, io| volume.submit(now, io))
        }
        DeviceModel::Plain(spec) => plain(spec, &mut source, depth, requests),
    }
}

/// Counts the requests after the first tenth.
struct RequestTally {
    skip: u32,
    seen: u32,
    done: u32,
    from: Ns,
    until: Ns,
    sum: f64,
    blocks: u32,
}

impl RequestTally {
    fn new(requests: u32, blocks: u32) -> RequestTally {
        RequestTally { skip: requests / 10, seen: 0, done: 0, from: 0, until: 0, sum: 0.0, blocks }
    }

    /// All requests so far.
    fn counted(&self) -> u32 {
        self.seen
    }

    fn add(&mut self, began: Ns, done: Ns) {
        self.seen += 1;
        if self.skip > 0 {
            self.skip -= 1;
            self.from = done;
            return;
        }
        self.done += 1;
        self.until = done;
        self.sum += (done - began) as f64 / 1e9;
    }

    fn measured(&self) -> DriveMeasurement {
        let seconds = self.until.saturating_sub(self.from) as f64 / 1e9;
        let iops = f64::from(self.done) / seconds;
        let bytes_per_s = iops * f64::from(self.blocks) * BLOCK_BYTES as f64;
        DriveMeasurement { iops, bytes_per_s, mean_s: self.sum / f64::from(self.done) }
    }
}

/// Devices that say at once when a request is done.
fn closed(
    source: &mut RequestSource,
    depth: u32,
    requests: u32,
    mut submit: impl FnMut(Ns, &Io) -> Ns,
) -> DriveMeasurement {
    let mut under_way = BinaryHeap::with_capacity(depth as usize + 1);
    for _ in 0..depth {
        under_way.push(Reverse((submit(0, &source.next()), 0)));
    }
    let mut tally = RequestTally::new(requests, source.blocks);
    for _ in 0..requests + requests / 10 {
        let Some(Reverse((now, began))) = under_way.pop() else { break };
        tally.add(began, now);
        under_way.push(Reverse((submit(now, &source.next()), now)));
    }
    tally.measured()
}

/// A mechanical drive, which holds up to its slots and picks among them.
fn mechanical(
    model: &Arc<Model>,
    source: &mut RequestSource,
    depth: u32,
    requests: u32,
    from_outside: bool,
) -> DriveMeasurement {
    let mut drive = MechanicalDrive::new(model);
    let mut inside = DriveQueue::new(model.policy());
    let mut outside = VecDeque::new();
    let mut tally = RequestTally::new(requests, source.blocks);
    let mut now = 0;
    let slots = depth.min(model.slots());
    let mut chosen = None;
    for index in 0..depth {
        let io = source.next();
        if index < slots { inside.push(&drive, io, now) } else { outside.push_back((io, now)) }
    }
    for _ in 0..requests + requests / 10 {
        let Some((io, began)) = chosen.take().or_else(|| inside.next(now, &drive)) else { break };
        now = drive.start(now, &io).done;
        tally.add(began, now);
        if from_outside {
            chosen = inside.next(now, &drive);
        }
        outside.push_back((source.next(), now));
        if let Some((io, began)) = outside.pop_front() {
            inside.push(&drive, io, began);
        }
    }
    tally.measured()
}

/// The servers of a plain device.
struct PlainServers<'a> {
    spec: &'a PlainSpec,
    dice: Rng,
    free: BinaryHeap<Reverse<Ns>>,
}

impl PlainServers<'_> {
    fn new(spec: &PlainSpec) -> PlainServers<'_> {
        let free = (0..spec.servers.min(MOST_DEPTH)).map(|_| Reverse(0)).collect();
        PlainServers { spec, dice: Rng::new(17, 1), free }
    }

    fn submit(&mut self, now: Ns, io: &Io) -> Ns {
        let free = self.free.pop().map_or(now, |Reverse(free_at)| free_at.max(now));
        let bytes = f64::from(io.blocks) * BLOCK_BYTES as f64;
        let done = free + self.spec.service.draw(&mut self.dice) + (bytes / self.spec.bytes_per_s * 1e9) as Ns;
        self.free.push(Reverse(done));
        done
    }
}

fn plain(spec: &PlainSpec, source: &mut RequestSource, depth: u32, requests: u32) -> DriveMeasurement {
    let mut servers = PlainServers::new(spec);
    closed(source, depth, requests, |now, io| servers.submit(now, io))
}
