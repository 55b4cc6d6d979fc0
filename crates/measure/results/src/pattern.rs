//! Load of a run: one [`Pattern`] describes all its requests.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Distribution of the requests over the range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "place")]
pub enum Placement {
    /// Consecutive from the start, and from the start again after the end.
    /// Each stream has its own part of the range.
    Sequential {
        /// Number of streams that take turns.
        #[serde(default = "default_one")]
        streams: u32,
    },
    /// Uniformly random.
    Uniform,
    /// Normally distributed around a point, as by Response Probe's FILESEEK: mean and
    /// standard deviation are shares of the range; values outside are drawn again.
    Normal {
        /// The point, 0 to 1.
        mean: f64,
        /// Standard deviation, as a share of the range.
        deviation: f64,
    },
    /// Few popular places, by Zipf's law with this exponent (0 is uniform, 0.99 is
    /// typical of web or key-value loads); the places are scattered over the range.
    Zipf {
        /// Exponent, at least 0 and not 1.
        theta: f64,
    },
    /// Few popular places, by Pareto's law as in fio: of the places ordered by
    /// popularity, the one at `u^(ln h / ln (1 - h))` with a uniformly random
    /// `u`, so that a share `h` of them gets a share `1 - h` of the requests;
    /// scattered over the range.
    Pareto {
        /// The share h, between 0 and 1.
        power: f64,
    },
    /// Each request begins this many bytes after the previous one.
    Strided {
        /// Bytes from start to start.
        stride_bytes: u64,
    },
}

/// Default of counts whose smallest value is 1.
fn default_one() -> u32 {
    1
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Timing of the requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "loop")]
pub enum Pace {
    /// A fixed number of requests in flight. Latency counts from submission, so
    /// the waiting that a stalled device causes for other requests is hidden.
    Closed {
        /// Queue depth.
        depth: u32,
    },
    /// A number of users; each submits a request, waits for the completion, thinks, and repeats.
    Users {
        /// Number of users.
        users: u32,
        /// Mean time between an answer and the next request, seconds.
        think_s: f64,
        /// True for exponentially distributed think times, false for fixed ones.
        random: bool,
    },
    /// A number of users in Response Probe's cycles: each thinks, makes some consecutive
    /// requests, computes, and repeats.
    Cycles {
        /// Number of users.
        users: u32,
        /// Think time in a cycle, seconds.
        think_s: NormalSpread,
        /// Number of requests in a cycle.
        requests: NormalSpread,
        /// Processor time in a cycle, seconds.
        compute_s: NormalSpread,
    },
    /// A fixed rate, whatever the device does. Latency counts from the
    /// intended start, so a stall shows in every request that it delays.
    Open {
        /// Requests per second.
        rate_per_s: f64,
        /// True for Poisson arrivals, false for evenly spaced ones.
        poisson: bool,
    },
}

/// A quantity that is drawn each time from a normal distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NormalSpread {
    /// Mean.
    pub mean: f64,
    /// Deviation as defined by Response Probe; 0 is a fixed quantity.
    #[serde(default)]
    pub deviation: f64,
}

impl NormalSpread {
    /// Creates a fixed quantity.
    pub fn fixed(mean: f64) -> NormalSpread {
        NormalSpread { mean, deviation: 0.0 }
    }

    fn is_within_limit(&self, max: f64) -> bool {
        (0.0..=max).contains(&self.mean) && (0.0..=max).contains(&self.deviation)
    }
}

/// One step of a fixed order of reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MixStep {
    /// A read.
    Read,
    /// A write.
    Write,
}

/// Method of making writes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// None: the data may stay in the device's cache.
    #[default]
    No,
    /// fdatasync after each write; both together count as one request.
    Fdatasync,
    /// fsync after each write.
    Fsync,
    /// O_DSYNC: each write returns when its data is durable.
    Dsync,
}

/// Load of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pattern {
    /// Name in the results, such as `depth-8`.
    pub name: String,
    /// Distribution of the requests over the range.
    #[serde(flatten)]
    pub placement: Placement,
    /// Timing of the requests.
    #[serde(flatten)]
    pub pace: Pace,
    /// Sizes with their weights, bytes; one entry is a fixed size.
    #[serde(with = "sizes")]
    pub sizes: Vec<(u32, f64)>,
    /// Share of reads, 0 to 1.
    pub read_share: f64,
    /// Alignment of offsets, bytes; 0 means the size of the request.
    pub align_bytes: u64,
    /// Offset of the range, bytes.
    pub from_bytes: u64,
    /// Length of the range, bytes; `None` is up to the end of the target.
    pub range_bytes: Option<u64>,
    /// True to measure through the page cache.
    pub buffered: bool,
    /// True to keep the content of the page cache from before; only for buffered runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warm: bool,
    /// Method of making writes durable.
    pub durable: Durability,
    /// Ramp time before measuring.
    #[serde(rename = "ramp_s", with = "seconds")]
    pub ramp: Duration,
    /// Measured time.
    #[serde(rename = "lasts_s", with = "seconds")]
    pub duration: Duration,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Sizes of writes with their weights, if they differ from those of reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "sizes")]
    pub write_sizes: Vec<(u32, f64)>,
    /// Repeated order of reads and writes; if it is empty, `read_share` decides.
    #[serde(rename = "turns", default, skip_serializing_if = "Vec::is_empty")]
    pub read_write_order: Vec<MixStep>,
    /// Number of consecutive requests at each place; 0 and 1 mean that every request has a new place.
    #[serde(default = "default_one", skip_serializing_if = "is_one")]
    pub run_requests: u32,
    /// True if sequential reads and writes each have their own position.
    #[serde(rename = "apart", default, skip_serializing_if = "is_false")]
    pub separate_positions: bool,
    /// True to scatter places over the range, so that popular ones are not adjacent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub scattered: bool,
    /// Each worker makes every n-th of its writes durable: this is n; 0 and 1 mean every write.
    #[serde(default = "default_one", skip_serializing_if = "is_one")]
    pub sync_every: u32,
    /// The run ends when this many bytes have been requested after the ramp.
    #[serde(rename = "most_bytes", default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Largest number of requests in flight with open arrivals; later ones wait, and their wait counts.
    #[serde(rename = "most_outstanding", default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
}

/// Files store durations as seconds; an `f64` keeps the nanoseconds of up to a hundred days.
mod seconds {
    use super::*;

    /// Writes a duration in seconds.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(duration.as_secs_f64())
    }

    /// Reads seconds; negative ones, infinities and NaN are errors.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Files store sizes as objects with named fields.
mod sizes {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct WeightedSize {
        bytes: u32,
        weight: f64,
    }

    /// Writes each size, bytes, with its weight.
    pub fn serialize<S: Serializer>(sizes: &[(u32, f64)], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(sizes.iter().map(|&(bytes, weight)| WeightedSize { bytes, weight }))
    }

    /// Reads sizes with their weights; whether the weights make sense is checked with the whole pattern.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(u32, f64)>, D::Error> {
        Ok(Vec::<WeightedSize>::deserialize(deserializer)?.into_iter().map(|s| (s.bytes, s.weight)).collect())
    }
}

impl Pattern {
    /// Creates random reads of one size at a queue depth, the most common measurement.
    pub fn random_reads(size: u32, depth: u32) -> Pattern {
        Pattern {
            name: format!("random-read-{size}-depth-{depth}"),
            placement: Placement::Uniform,
            pace: Pace::Closed { depth },
            sizes: vec![(size, 1.0)],
            read_share: 1.0,
            align_bytes: 0,
            from_bytes: 0,
            range_bytes: None,
            buffered: false,
            warm: false,
            durable: Durability::No,
            ramp: Duration::from_millis(500),
            duration: Duration::from_secs(5),
            seed: 1,
            write_sizes: Vec::new(),
            read_write_order: Vec::new(),
            run_requests: 1,
            separate_positions: false,
            scattered: false,
            sync_every: 1,
            max_bytes: None,
            max_in_flight: None,
        }
    }

    /// Returns the size of the largest request, bytes.
    pub fn max_request_bytes(&self) -> u32 {
        self.sizes.iter().chain(&self.write_sizes).map(|s| s.0).max().unwrap_or(0)
    }

    /// Returns true if it contains writes.
    pub fn has_writes(&self) -> bool {
        if self.read_write_order.is_empty() {
            self.read_share < 1.0
        } else {
            self.read_write_order.contains(&MixStep::Write)
        }
    }

    /// Describes the first fault in a sentence; `None` if the pattern is valid.
    /// `sector` is the target's smallest unit, bytes; `target_bytes` its size.
    pub fn find_fault(&self, sector: u64, target_bytes: u64) -> Option<String> {
        let mut sizes = self.sizes.iter().chain(&self.write_sizes);
        if self.sizes.is_empty() || sizes.any(|(s, w)| *s == 0 || !w.is_finite() || *w <= 0.0) {
            return Some("request sizes and their weights must be more than 0".into());
        }
        if !(0.0..=1.0).contains(&self.read_share) {
            return Some(format!("read share {} is not between 0 and 1", self.read_share));
        }
        let is_unaligned = |bytes: u64| !self.buffered && sector > 0 && !bytes.is_multiple_of(sector);
        if let Some((size, _)) = self.sizes.iter().chain(&self.write_sizes).find(|(s, _)| is_unaligned(u64::from(*s))) {
            return Some(format!("requests of {size} bytes are not a multiple of the sector of {sector} bytes"));
        }
        if is_unaligned(self.align_bytes) || is_unaligned(self.from_bytes) {
            return Some(format!("alignment and start must be multiples of the sector of {sector} bytes"));
        }
        if let Placement::Strided { stride_bytes } = self.placement
            && is_unaligned(stride_bytes)
        {
            return Some(format!("a stride of {stride_bytes} bytes is not a multiple of the sector of {sector} bytes"));
        }
        let range = self.range_bytes.unwrap_or(target_bytes.saturating_sub(self.from_bytes));
        if range < u64::from(self.max_request_bytes()) || self.from_bytes.saturating_add(range) > target_bytes {
            let largest = self.max_request_bytes();
            return Some(format!(
                "a range of {range} bytes from byte {} with requests of {largest} does not fit into {target_bytes}",
                self.from_bytes
            ));
        }
        let is_invalid = match self.pace {
            Pace::Closed { depth } => depth == 0 || depth > 65_536,
            Pace::Users { users, think_s, .. } => users == 0 || users > 65_536 || !(0.0..86_400.0).contains(&think_s),
            Pace::Cycles { users, think_s, requests, compute_s } => {
                let has_valid_times = think_s.is_within_limit(86_400.0) && compute_s.is_within_limit(3600.0);
                users == 0 || users > 65_536 || !has_valid_times || !requests.is_within_limit(1e9)
            }
            Pace::Open { rate_per_s, .. } => !rate_per_s.is_finite() || rate_per_s <= 0.0,
        };
        if is_invalid || self.max_in_flight.is_some_and(|max| max == 0 || max > 65_536) {
            return Some("depth, users and rate must be more than 0 (and at most 65536 requests in flight)".into());
        }
        None
    }
}
