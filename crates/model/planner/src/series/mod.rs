//! From the samples of a log to a demand: the load of all disks together, tick by tick, and its properties.
//!
//! In order of execution: `front_devices` selects the devices that count, so that no I/O counts twice;
//! `load_collector` sums their ticks, `missing_counters` completes what a log lacks, `load_curve` sums by load,
//! `used_space` follows the filesystems; `measured_demand` takes percentiles of the sums; `space` says where the space
//! in use is from; `hidden_load` looks for load that saturation hides; `model_distance` compares busy disks with their
//! models; `log_rating` rates the confidence. Methods and their sources are in docs/demand.md.

mod front_devices;
pub mod hidden_load;
pub mod load_collector;
pub mod load_curve;
pub mod log_rating;
pub mod measured_demand;
mod missing_counters;
pub mod model_distance;
pub mod request_load;
pub mod space;
pub mod time_distribution;
mod used_space;

use std::collections::BTreeSet;

use diskwright_base::{Histogram, RaidLevel, Topology};

pub use load_collector::LoadCollector;
pub use load_curve::LoadCurve;
pub use measured_demand::{LoadSummary, MeasureOptions, MeasuredDemand, demand_from_series};
pub use missing_counters::Completion;

/// Load of all disks together in one tick, without swapping. Rates per second; NaN is unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadTick {
    /// End of the tick, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Its length, s.
    pub seconds: f32,
    /// Reads per second.
    pub reads: f32,
    /// Writes per second.
    pub writes: f32,
    /// Bytes read per second.
    pub read_bytes: f32,
    /// Bytes written per second.
    pub write_bytes: f32,
    /// Mean number of requests in flight.
    pub queue: f32,
}

impl LoadTick {
    /// Reads and writes per second.
    pub fn requests_per_s(&self) -> f64 {
        f64::from(self.reads) + f64::from(self.writes)
    }

    /// Multiplies the load by a factor.
    pub fn scaled_by(&self, factor: f64) -> LoadTick {
        let [reads, writes, read_bytes, write_bytes, queue] =
            [self.reads, self.writes, self.read_bytes, self.write_bytes, self.queue]
                .map(|value| (f64::from(value) * factor) as f32);
        LoadTick { reads, writes, read_bytes, write_bytes, queue, ..*self }
    }

    /// Bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        f64::from(self.read_bytes) + f64::from(self.write_bytes)
    }
}

/// One device that programs use: a disk, or an array as one.
#[derive(Clone, Debug, Default)]
pub struct FrontLoad {
    /// Its name in the log.
    pub name: String,
    /// Level, where it is an array.
    pub level: Option<RaidLevel>,
    /// Disks that share its load.
    pub members: usize,
    /// True if it was not measured itself and its load was computed from its members'.
    pub from_members: bool,
    /// The measured disks below it.
    pub leaves: Vec<String>,
    /// True if all requests to these disks count here: not of an array that is measured itself.
    pub counts_all_disk_requests: bool,
    /// Requests per second, in hundredths, weighted by milliseconds.
    pub rates: Histogram,
    /// Sums over the whole log.
    pub sums: FrontSums,
    /// Behaviour by load on each member.
    pub curve: LoadCurve,
    /// The first ticks with more than two requests in flight per member.
    pub loaded: Vec<LoadedTick>,
    /// Seconds of all such ticks.
    pub loaded_s: f64,
    /// True if a swap area lies on it; `None` if unknown.
    pub holds_swap: Option<bool>,
    /// Its size by the log, bytes.
    pub bytes: Option<f64>,
    /// The model that it reports, or that was declared, where it is one disk.
    pub model: Option<String>,
    /// Sums over the ticks in which it was at work nearly all the time.
    pub busy_sums: FrontSums,
    /// Seconds of these that the log shows by the queue alone, because it has no busy time.
    pub busy_by_queue_s: f64,
}

/// A tick of a device with waiting requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadedTick {
    /// Index of the tick.
    pub number: u32,
    /// Its end, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Its length, s.
    pub seconds: f32,
    /// Requests per second.
    pub requests: f32,
    /// Requests in flight.
    pub queue: f32,
}

/// Sums over time: amounts, not rates.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FrontSums {
    /// Seconds.
    pub seconds: f64,
    /// Reads.
    pub reads: f64,
    /// Writes.
    pub writes: f64,
    /// Bytes read.
    pub read_bytes: f64,
    /// Bytes written.
    pub write_bytes: f64,
    /// Requests in flight times seconds.
    pub queue_s: f64,
    /// Seconds in which the device was at work.
    pub busy_s: f64,
    /// Time of all reads, s.
    pub read_s: f64,
    /// Time of all writes, s.
    pub write_s: f64,
}

impl FrontSums {
    /// Adds another interval.
    pub fn add_sums(&mut self, other: &FrontSums) {
        self.seconds += other.seconds;
        self.reads += other.reads;
        self.writes += other.writes;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        self.queue_s += other.queue_s;
        self.busy_s += other.busy_s;
        self.read_s += other.read_s;
        self.write_s += other.write_s;
    }

    /// Requests per second; NaN without time.
    pub fn requests_per_s(&self) -> f64 {
        (self.reads + self.writes) / self.seconds
    }

    /// Mean response by Little's law, s; NaN if unknown.
    pub fn response_s(&self) -> f64 {
        self.queue_s / (self.reads + self.writes)
    }
}

impl FrontLoad {
    /// True if this device serves data on `device`: it is that device, stands under it, or all requests to its disks
    /// count here.
    pub fn serves_device(&self, device: &str, topology: &Topology) -> bool {
        let (own, by_disk) = ((self.name.as_str(), self.leaves.as_slice()), self.counts_all_disk_requests);
        front_devices::serves_device(own, by_disk, device, Some(topology))
    }

    /// I/Os per second of each member for a load on the array (doc 002: `(r + 4 w) / n` in RAID 5).
    pub fn member_load(&self, reads: f64, writes: f64) -> f64 {
        member_load(self.level, self.members, reads, writes)
    }

    /// Mean number of requests in flight; `None` if unknown.
    pub fn queue(&self) -> Option<f64> {
        Some(self.sums.queue_s / self.sums.seconds).filter(|queue| queue.is_finite())
    }

    /// Mean number of requests in flight for each member; `None` if unknown.
    pub fn member_queue(&self) -> Option<f64> {
        Some(self.queue()? / self.members.max(1) as f64)
    }
}

/// I/Os per second of each of `members` disks for a load on the array (NT Magazine 1998).
pub fn member_load(level: Option<RaidLevel>, members: usize, reads: f64, writes: f64) -> f64 {
    let factor = level.map_or(1.0, |level| level.write_factor(members));
    crate::arithmetic::back_end_per_s(reads, writes, factor) / members.max(1) as f64
}

/// Swapping, apart from everything else. Rates over the whole log.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct SwapLoad {
    /// Bytes per second read from swap on disks.
    pub read_bytes_per_s: f64,
    /// Bytes per second written to it.
    pub write_bytes_per_s: f64,
    /// Requests per second of it, if they were as large as the others.
    pub requests_per_s: f64,
    /// Its share of all requests.
    pub share: f64,
}

/// The load in a log.
#[derive(Clone, Debug, Default)]
pub struct LoadSeries {
    /// Load of all disks together.
    pub ticks: Vec<LoadTick>,
    /// Ticks with unknown values, and their seconds.
    pub gaps: (u64, f64),
    /// The devices that programs use.
    pub fronts: Vec<FrontLoad>,
    /// Devices of the log that were not selected ([`LoadCollector::for_devices`]).
    pub unselected_devices: Vec<String>,
    /// Selected devices that count at another selected one, with a note about each.
    pub nested_devices: Vec<(String, String)>,
    /// Share of requests that continue where another ended; only if every request is known.
    pub sequential_share: Option<f64>,
    /// Requests that were merged into others, and those that were not.
    pub merged: (f64, f64),
    /// Reads and writes of devices whose bytes the log does not have.
    pub unsized_requests: [f64; 2],
    /// Swapping: bytes read, bytes written, requests; amounts.
    pub swap: [f64; 3],
    /// Memory that is swapped out at the end, bytes.
    pub swapped_out: Option<f64>,
    /// Pages that were read again soon after they were dropped, bytes.
    pub refault_bytes: Option<f64>,
    /// Filesystems of the log, with their space at its end.
    pub filesystems: Vec<space::FilesystemSpace>,
    /// Bytes in use on the filesystems that count: time in ns, bytes.
    pub used_space: Vec<(i64, f64)>,
    /// Offsets of local time from UTC in seconds, each from a time on (nanoseconds since 1970 UTC); empty if one offset
    /// applies to the whole load.
    pub utc_offsets: Vec<(i64, i64)>,
    /// Ways in which counters that the log lacks were completed from others.
    pub completions: BTreeSet<Completion>,
    /// True for a log of Windows: what is said of it names no command of Linux.
    pub is_of_windows: bool,
    /// Notes on the load.
    pub notes: Vec<String>,
}
