//! Short runs of a single device: simulates the figures of a specification (random requests per second, sequential
//! rate).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use diskwright_base::Rng;
use serde::{Deserialize, Serialize};

use crate::Ns;
use crate::device::{DeviceModel, PlainSpec};
use crate::drive::{DriveQueue, MechanicalDrive, Model};
use crate::flash::{FlashDevice, FlashModel, FlashSpec, InitialState};
use crate::io::{BLOCK_BYTES, Io};
use crate::volume::CloudVolume;

/// Largest queue depth of a run.
pub const MAX_DEPTH: u32 = 4096;

/// Access pattern of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DrivePattern {
    /// Reads at random positions.
    RandomRead,
    /// Writes at random positions.
    RandomWrite,
    /// Reads from the first block on.
    SequentialRead,
    /// Writes from the first block on.
    SequentialWrite,
}

impl DrivePattern {
    /// All patterns.
    pub const ALL: [DrivePattern; 4] = [
        DrivePattern::RandomRead,
        DrivePattern::RandomWrite,
        DrivePattern::SequentialRead,
        DrivePattern::SequentialWrite,
    ];

    /// Returns `random read` and so on.
    pub fn name(self) -> &'static str {
        match self {
            DrivePattern::RandomRead => "random read",
            DrivePattern::RandomWrite => "random write",
            DrivePattern::SequentialRead => "sequential read",
            DrivePattern::SequentialWrite => "sequential write",
        }
    }
}

/// A published figure, and the accepted range of the simulation.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DatasheetCheck {
    /// The access pattern.
    #[serde(rename = "ask")]
    pub pattern: DrivePattern,
    /// Request size, KB.
    pub kb: f64,
    /// Constant queue depth.
    pub depth: u32,
    /// Accepted range of requests per second.
    pub iops: Option<[f64; 2]>,
    /// Accepted range of MB/s.
    pub mb_s: Option<[f64; 2]>,
    /// True if the figure is of an SSD that was written once sequentially, instead of the entry's initial state.
    #[serde(default)]
    pub in_order: bool,
    /// The published figure and its source.
    #[serde(rename = "printed")]
    pub published: String,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveMeasurement {
    /// Requests per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Mean response time, s.
    pub mean_s: f64,
}

impl DatasheetCheck {
    /// Checks the figure's values.
    ///
    /// # Errors
    /// An error names the item and its valid range.
    pub fn check_limits(&self) -> Result<(), String> {
        if !(1..=MAX_DEPTH).contains(&self.depth) {
            return Err(format!("checks: a depth of {}; expected 1 to {MAX_DEPTH}", self.depth));
        }
        if !(0.5..=65_536.0).contains(&self.kb) {
            return Err(format!("checks: requests of {} KiB; expected 0.5 to 65,536", self.kb));
        }
        match (self.iops, self.mb_s) {
            (Some(_), None) | (None, Some(_)) => Ok(()),
            _ => Err("checks: expected one of `iops` and `mb_s`, as [least, most]".into()),
        }
    }

    /// Simulates the figure: returns the result, in the unit of its bounds, and whether it is within them.
    pub fn run(&self, device: &DeviceModel, requests: u32) -> (f64, bool) {
        let blocks = (self.kb * 1024.0 / BLOCK_BYTES as f64).round() as u32;
        let prepared = if self.in_order { sequentially_written(device) } else { None };
        let device = prepared.as_ref().unwrap_or(device);
        let measured = measure_pattern(device, self.pattern, blocks, self.depth, requests);
        let (found, bounds) = match (self.iops, self.mb_s) {
            (Some(bounds), _) => (measured.iops, bounds),
            (_, Some(bounds)) => (measured.bytes_per_s / 1e6, bounds),
            _ => (f64::NAN, [0.0, 0.0]),
        };
        (found, (bounds[0]..=bounds[1]).contains(&found))
    }
}

/// Returns the same SSD after being written once sequentially; `None` for other devices.
fn sequentially_written(device: &DeviceModel) -> Option<DeviceModel> {
    let DeviceModel::Flash(model) = device else { return None };
    let start = InitialState { filled_share: 1.0, overwrite_passes: 0.0 };
    let spec = FlashSpec { initial_state: start, ..model.spec().clone() };
    FlashModel::new(&spec).ok().map(|model| DeviceModel::Flash(model.into()))
}

/// A constant load on a single device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveLoad {
    /// Sequential or random positions.
    pub sequential: bool,
    /// Share of reads.
    pub read_share: f64,
    /// Blocks per request.
    pub blocks: u32,
    /// Queue depth.
    pub depth: u32,
    /// Number of blocks in use, from the first on; `None` means the whole device.
    pub range: Option<u64>,
}

impl DrivePattern {
    /// Returns the pattern as a load.
    fn to_load(self, blocks: u32, depth: u32) -> DriveLoad {
        let sequential = matches!(self, DrivePattern::SequentialRead | DrivePattern::SequentialWrite);
        let reads = matches!(self, DrivePattern::RandomRead | DrivePattern::SequentialRead);
        DriveLoad { sequential, read_share: if reads { 1.0 } else { 0.0 }, blocks, depth, range: None }
    }
}

/// Generates the requests of a run.
struct RequestSource {
    load: DriveLoad,
    blocks: u32,
    position_count: u64,
    next: u64,
    rng: Rng,
}

impl RequestSource {
    fn new(load: &DriveLoad, device: &DeviceModel) -> RequestSource {
        let blocks = load.blocks.max(1);
        let used_blocks = load.range.map_or(device.block_count(), |range| range.min(device.block_count()));
        let position_count = (used_blocks / u64::from(blocks)).max(1);
        RequestSource { load: *load, blocks, position_count, next: 0, rng: Rng::new(17, 0) }
    }

    /// Returns the next request.
    fn next(&mut self) -> Io {
        let blocks = u64::from(self.blocks);
        let position = match self.load.sequential {
            false => self.rng.next_below(self.position_count),
            true => {
                self.next += 1;
                (self.next - 1) % self.position_count
            }
        };
        let share = self.load.read_share;
        let write = share < 1.0 && (share <= 0.0 || !self.rng.next_bool(share));
        Io { first: position * blocks, blocks: self.blocks, write }
    }
}

/// Runs `requests` requests at a constant queue depth, after a tenth as many that are not counted.
pub fn measure_pattern(
    device: &DeviceModel,
    pattern: DrivePattern,
    blocks: u32,
    depth: u32,
    requests: u32,
) -> DriveMeasurement {
    run_load(device, &pattern.to_load(blocks, depth), requests, false)
}

/// Runs a load as a client measures it: completions take a moment to reach the client, so the drive has already chosen
/// its next request when the one that follows a completion arrives.
pub fn measure_load(device: &DeviceModel, load: &DriveLoad, requests: u32) -> DriveMeasurement {
    run_load(device, load, requests, true)
}

/// Runs a load with independent arrivals (Poisson) at a rate, however many requests are in flight.
pub fn measure_arrivals(device: &DeviceModel, load: &DriveLoad, per_s: f64, requests: u32) -> DriveMeasurement {
    let mut source = RequestSource::new(load, device);
    let mut gaps = Rng::new(17, 2);
    let mean_gap_ns = 1e9 / per_s.max(1e-9);
    let mut arrival = 0.0;
    let mut arrive = || {
        arrival += -(1.0 - gaps.next_f64()).ln() * mean_gap_ns;
        arrival as Ns
    };
    let count = requests.max(10) + requests / 10;
    let mut tally = RequestTally::new(requests.max(10), source.blocks);
    match device {
        DeviceModel::Mechanical(model) => {
            let arrivals: Vec<Ns> = (0..count).map(|_| arrive()).collect();
            run_mechanical_arrivals(model, &mut source, &arrivals, &mut tally);
        }
        DeviceModel::Flash(model) => {
            let mut flash = FlashDevice::new(model);
            for began in (0..count).map(|_| arrive()) {
                tally.add_request(began, flash.submit(began, &source.next()));
            }
        }
        DeviceModel::Volume(spec) => {
            let mut volume = CloudVolume::new(spec, Rng::new(17, 1));
            // the volume holds at most `slots` requests
            let mut in_flight = BinaryHeap::new();
            for began in (0..count).map(|_| arrive()) {
                let mut now = began;
                while in_flight.len() >= spec.slots as usize {
                    let Some(Reverse(free)) = in_flight.pop() else { break };
                    now = now.max(free);
                }
                let done = volume.submit_request(now, &source.next());
                in_flight.push(Reverse(done));
                tally.add_request(began, done);
            }
        }
        DeviceModel::Plain(spec) => {
            let mut servers = PlainServers::new(spec);
            for began in (0..count).map(|_| arrive()) {
                tally.add_request(began, servers.submit_request(began, &source.next()));
            }
        }
    }
    tally.to_measurement()
}

/// Runs a mechanical drive with requests that arrive at these times.
fn run_mechanical_arrivals(model: &Arc<Model>, source: &mut RequestSource, arrivals: &[Ns], tally: &mut RequestTally) {
    let mut drive = MechanicalDrive::new(model);
    let mut inside = DriveQueue::new(model.queue_policy());
    let mut outside = VecDeque::new();
    let (mut now, mut next, mut inside_count) = (0, 0, 0);
    while tally.total_count() < arrivals.len() as u32 {
        while let Some(began) = arrivals.get(next).filter(|began| **began <= now) {
            outside.push_back((source.next(), *began));
            next += 1;
        }
        while inside_count < model.queue_slots() {
            let Some((io, began)) = outside.pop_front() else { break };
            inside.push(&drive, io, began);
            inside_count += 1;
        }
        let Some((io, began)) = inside.next(now, &drive) else {
            // idle until the next arrival
            let Some(began) = arrivals.get(next) else { break };
            now = now.max(*began);
            continue;
        };
        now = drive.start(now, &io).done_at;
        inside_count -= 1;
        tally.add_request(began, now);
    }
}

fn run_load(device: &DeviceModel, load: &DriveLoad, requests: u32, from_outside: bool) -> DriveMeasurement {
    let mut source = RequestSource::new(load, device);
    let depth = load.depth.clamp(1, MAX_DEPTH);
    let mut requests = requests.max(10);
    if matches!(device, DeviceModel::Mechanical(_)) && load.sequential {
        // published rates are those of the outermost tracks
        requests = requests.min((source.position_count / 50).clamp(10, 1 << 30) as u32);
    }
    match device {
        DeviceModel::Mechanical(model) => run_mechanical(model, &mut source, depth, requests, from_outside),
        DeviceModel::Flash(model) => {
            let mut flash = FlashDevice::new(model);
            run_closed(&mut source, depth.min(model.queue_slots()), requests, |now, io| flash.submit(now, io))
        }
        DeviceModel::Volume(spec) => {
            let mut volume = CloudVolume::new(spec, Rng::new(17, 1));
            run_closed(&mut source, depth.min(spec.slots), requests, |now, io| volume.submit_request(now, io))
        }
        DeviceModel::Plain(spec) => run_plain(spec, &mut source, depth, requests),
    }
}

/// Counts the requests after the first tenth.
struct RequestTally {
    skip: u32,
    total: u32,
    counted: u32,
    from_ns: Ns,
    until_ns: Ns,
    sum_s: f64,
    blocks: u32,
}

impl RequestTally {
    fn new(requests: u32, blocks: u32) -> RequestTally {
        RequestTally { skip: requests / 10, total: 0, counted: 0, from_ns: 0, until_ns: 0, sum_s: 0.0, blocks }
    }

    /// Number of all requests so far.
    fn total_count(&self) -> u32 {
        self.total
    }

    /// Adds a completed request.
    fn add_request(&mut self, began: Ns, done: Ns) {
        self.total += 1;
        if self.skip > 0 {
            self.skip -= 1;
            self.from_ns = done;
            return;
        }
        self.counted += 1;
        self.until_ns = done;
        self.sum_s += (done - began) as f64 / 1e9;
    }

    fn to_measurement(&self) -> DriveMeasurement {
        let seconds = self.until_ns.saturating_sub(self.from_ns) as f64 / 1e9;
        let iops = f64::from(self.counted) / seconds;
        let bytes_per_s = iops * f64::from(self.blocks) * BLOCK_BYTES as f64;
        DriveMeasurement { iops, bytes_per_s, mean_s: self.sum_s / f64::from(self.counted) }
    }
}

/// Runs a closed loop on a device that knows the completion time of a request when it is submitted.
fn run_closed(
    source: &mut RequestSource,
    depth: u32,
    requests: u32,
    mut submit: impl FnMut(Ns, &Io) -> Ns,
) -> DriveMeasurement {
    let mut in_flight = BinaryHeap::with_capacity(depth as usize + 1);
    for _ in 0..depth {
        in_flight.push(Reverse((submit(0, &source.next()), 0)));
    }
    let mut tally = RequestTally::new(requests, source.blocks);
    for _ in 0..requests + requests / 10 {
        let Some(Reverse((now, began))) = in_flight.pop() else { break };
        tally.add_request(began, now);
        in_flight.push(Reverse((submit(now, &source.next()), now)));
    }
    tally.to_measurement()
}

/// Runs a closed loop on a mechanical drive, which holds as many requests as it has slots and chooses among them.
fn run_mechanical(
    model: &Arc<Model>,
    source: &mut RequestSource,
    depth: u32,
    requests: u32,
    from_outside: bool,
) -> DriveMeasurement {
    let mut drive = MechanicalDrive::new(model);
    let mut inside = DriveQueue::new(model.queue_policy());
    let mut outside = VecDeque::new();
    let mut tally = RequestTally::new(requests, source.blocks);
    let mut now = 0;
    let slots = depth.min(model.queue_slots());
    let mut chosen = None;
    for index in 0..depth {
        let io = source.next();
        if index < slots { inside.push(&drive, io, now) } else { outside.push_back((io, now)) }
    }
    for _ in 0..requests + requests / 10 {
        let Some((io, began)) = chosen.take().or_else(|| inside.next(now, &drive)) else { break };
        now = drive.start(now, &io).done_at;
        tally.add_request(began, now);
        if from_outside {
            chosen = inside.next(now, &drive);
        }
        outside.push_back((source.next(), now));
        if let Some((io, began)) = outside.pop_front() {
            inside.push(&drive, io, began);
        }
    }
    tally.to_measurement()
}

/// The servers of a plain device.
struct PlainServers<'a> {
    spec: &'a PlainSpec,
    rng: Rng,
    free_at_ns: BinaryHeap<Reverse<Ns>>,
}

impl PlainServers<'_> {
    fn new(spec: &PlainSpec) -> PlainServers<'_> {
        let free = (0..spec.servers.min(MAX_DEPTH)).map(|_| Reverse(0)).collect();
        PlainServers { spec, rng: Rng::new(17, 1), free_at_ns: free }
    }

    fn submit_request(&mut self, now: Ns, io: &Io) -> Ns {
        let free = self.free_at_ns.pop().map_or(now, |Reverse(free_at)| free_at.max(now));
        let bytes = f64::from(io.blocks) * BLOCK_BYTES as f64;
        let done = free + self.spec.service.draw_time(&mut self.rng) + (bytes / self.spec.bytes_per_s * 1e9) as Ns;
        self.free_at_ns.push(Reverse(done));
        done
    }
}

fn run_plain(spec: &PlainSpec, source: &mut RequestSource, depth: u32, requests: u32) -> DriveMeasurement {
    let mut servers = PlainServers::new(spec);
    run_closed(source, depth, requests, |now, io| servers.submit_request(now, io))
}
