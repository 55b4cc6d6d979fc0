//! From the samples of a log to a demand: what all disks did together, tick by
//! tick, and what that says about the load.
//!
//! In the order in which it happens: `fronts` settles which devices count, so
//! that no I/O counts twice; `collect` sums their ticks, `curve` by load; `measured` takes
//! percentiles of the sums; `hidden` looks for load that saturation hides;
//! `rating` says how far to trust it. What is computed how, and its sources, is
//! in docs/demand.md.

pub mod collect;
pub mod curve;
mod fronts;
pub mod hidden;
pub mod measured;
pub mod percentile;
pub mod rating;
pub mod requests;

use diskwright_base::{Histogram, RaidLevel};

pub use collect::LoadCollector;
pub use curve::LoadCurve;
pub use measured::{LoadSummary, MeasureOptions, MeasuredDemand, demand_from_series};

/// What all disks together did in one tick, without swapping. Rates a second; NaN is unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadTick {
    /// End of the tick, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Its length, s.
    pub seconds: f32,
    /// Reads a second.
    pub reads: f32,
    /// Writes a second.
    pub writes: f32,
    /// Bytes read a second.
    pub read_bytes: f32,
    /// Bytes written a second.
    pub write_bytes: f32,
    /// Mean number of requests in flight.
    pub queue: f32,
}

impl LoadTick {
    /// Reads and writes a second.
    pub fn requests(&self) -> f64 {
        f64::from(self.reads) + f64::from(self.writes)
    }

    /// So many times the load.
    pub fn scaled(&self, factor: f64) -> LoadTick {
        let [reads, writes, read_bytes, write_bytes, queue] =
            [self.reads, self.writes, self.read_bytes, self.write_bytes, self.queue]
                .map(|value| (f64::from(value) * factor) as f32);
        LoadTick { reads, writes, read_bytes, write_bytes, queue, ..*self }
    }

    /// Bytes a second.
    pub fn bytes(&self) -> f64 {
        f64::from(self.read_bytes) + f64::from(self.write_bytes)
    }
}

/// One device that programs ask: a disk, or an array as one.
#[derive(Clone, Debug)]
pub struct FrontLoad {
    /// Its name in the log.
    pub name: String,
    /// Level, where it is an array.
    pub level: Option<RaidLevel>,
    /// Disks that share its load.
    pub members: usize,
    /// True where it was not measured itself and its load was reckoned from its members'.
    pub inverted: bool,
    /// The disks below it that were measured.
    pub leaves: Vec<String>,
    /// Requests a second, in hundredths, weighted by milliseconds.
    pub rates: Histogram,
    /// Everything over the whole log.
    pub sums: FrontSums,
    /// By load on each member.
    pub curve: LoadCurve,
    /// Ticks with more than two requests in flight for each member, the first of them.
    pub loaded: Vec<LoadedTick>,
    /// Seconds of all such ticks.
    pub loaded_s: f64,
    /// Whether a swap area lies on it; `None` where nobody knows.
    pub holds_swap: Option<bool>,
}

/// A tick of a device at which requests were waiting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadedTick {
    /// Number of the tick.
    pub number: u32,
    /// Its end, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Its length, s.
    pub seconds: f32,
    /// Requests a second.
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
    /// Adds another stretch.
    pub fn add(&mut self, other: &FrontSums) {
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

    /// Requests a second; NaN where there is no time.
    pub fn requests_per_s(&self) -> f64 {
        (self.reads + self.writes) / self.seconds
    }

    /// Mean response by Little's law, s; NaN where it is not known.
    pub fn response_s(&self) -> f64 {
        self.queue_s / (self.reads + self.writes)
    }
}

impl FrontLoad {
    /// I/Os a second of each member for a load on the array (doc 002: `(r + 4 w) / n` in RAID 5).
    pub fn member_load(&self, reads: f64, writes: f64) -> f64 {
        member_load(self.level, self.members, reads, writes)
    }
}

/// I/Os a second of each of `members` disks for a load on the whole (NT Magazine 1998).
pub fn member_load(level: Option<RaidLevel>, members: usize, reads: f64, writes: f64) -> f64 {
    let factor = level.map_or(1.0, |level| level.write_factor(members));
    crate::arithmetic::back_end(reads, writes, factor) / members.max(1) as f64
}

/// Swapping, apart from everything else. Rates over the whole log.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct SwapLoad {
    /// Bytes a second read from swap on disks.
    pub read_bytes_per_s: f64,
    /// Bytes a second written to it.
    pub write_bytes_per_s: f64,
    /// Requests a second that this was, if they were as large as the others.
    pub requests_per_s: f64,
    /// Its share of all requests.
    pub share: f64,
}

/// A log as a load.
#[derive(Clone, Debug, Default)]
pub struct LoadSeries {
    /// What all disks did together.
    pub ticks: Vec<LoadTick>,
    /// Ticks at which something was not known, and their seconds.
    pub gaps: (u64, f64),
    /// The devices that programs ask.
    pub fronts: Vec<FrontLoad>,
    /// Devices of the log that were not asked for (`LoadCollector::of`).
    pub left_out: Vec<String>,
    /// Devices that were asked for and count at another one that was too, with what to know about each.
    pub within: Vec<(String, String)>,
    /// Share of requests that go on where another ended; where every request is known.
    pub sequential_share: Option<f64>,
    /// Requests that were merged into others, and all that were not.
    pub merged: (f64, f64),
    /// Swapping: bytes read, bytes written, requests; amounts.
    pub swap: [f64; 3],
    /// Memory that is swapped out at the end, bytes.
    pub swapped_out: Option<f64>,
    /// Pages that were read again soon after they were dropped, bytes.
    pub refault_bytes: Option<f64>,
    /// Bytes in use on all filesystems: moment in ns, bytes.
    pub used: Vec<(i64, f64)>,
    /// From each of these moments on (nanoseconds since 1970 UTC), local time is so many seconds ahead of UTC; none
    /// where one offset is taken for all of it.
    pub utc_offsets: Vec<(i64, i64)>,
    /// True where reads and writes were parted by their bytes, because the log counts them together.
    pub split_by_bytes: bool,
    /// What to know about it.
    pub notes: Vec<String>,
}
