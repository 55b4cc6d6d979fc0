//! What is asked of a target: one [`Pattern`] is one run's load.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "place")]
pub enum Placement {
    /// One after another from the start, and again from the start at the end.
    /// Each stream has its own part of the range.
    Sequential {
        /// How many streams take turns.
        #[serde(default = "one")]
        streams: u32,
    },
    /// Anywhere with the same likelihood.
    Uniform,
    /// Around a point, as Response Probe's FILESEEK says: mean and standard
    /// deviation as shares of the range; what falls outside is drawn again.
    Normal {
        /// The point, 0 to 1.
        mean: f64,
        /// Standard deviation, shares of the range.
        deviation: f64,
    },
    /// Few places often, by Zipf's law with this exponent (0 is uniform, 0.99 is
    /// a usual web or key-value load); the places are scattered over the range.
    Zipf {
        /// Exponent, at least 0 and not 1.
        theta: f64,
    },
    /// Few places often, by Pareto's law as fio has it: of the places in the order
    /// in which they are wanted, one at `u^(ln h / ln (1 - h))` with `u` drawn
    /// evenly, so that a share `h` of them gets a share `1 - h` of the requests;
    /// scattered over the range.
    Pareto {
        /// The share h, between 0 and 1.
        power: f64,
    },
    /// Each request this many bytes behind the one before.
    Strided {
        /// Bytes from start to start.
        stride_bytes: u64,
    },
}

fn one() -> u32 {
    1
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

fn is_false(word: &bool) -> bool {
    !word
}

/// When requests are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "loop")]
pub enum Pace {
    /// So many outstanding at all times. Latency counts from the moment of
    /// submission, so what a stalled device makes others wait is hidden.
    Closed {
        /// Requests outstanding.
        depth: u32,
    },
    /// So many users; each asks, waits for the answer, thinks, asks again.
    Users {
        /// How many.
        users: u32,
        /// Mean time between an answer and the next request, seconds.
        think_s: f64,
        /// Think times are drawn from an exponential distribution; fixed otherwise.
        random: bool,
    },
    /// So many users in Response Probe's cycles: each thinks, makes some requests
    /// one after another, computes, and begins again.
    Cycles {
        /// How many.
        users: u32,
        /// Time of thinking in a cycle, seconds.
        think_s: NormalSpread,
        /// Requests in a cycle.
        requests: NormalSpread,
        /// Processor time in a cycle, seconds.
        compute_s: NormalSpread,
    },
    /// So many requests a second, whatever the device does. Latency counts
    /// from the intended start, so a stall shows in every request that it made late.
    Open {
        /// Requests a second.
        rate_per_s: f64,
        /// Poisson arrivals; evenly spaced otherwise.
        poisson: bool,
    },
}

/// A quantity that is drawn anew each time, from a normal distribution (see
/// `draw::bell` of the probe).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NormalSpread {
    /// Mean.
    pub mean: f64,
    /// Deviation as Response Probe takes it; 0 is a fixed quantity.
    #[serde(default)]
    pub deviation: f64,
}

impl NormalSpread {
    /// The same each time.
    pub fn fixed(mean: f64) -> NormalSpread {
        NormalSpread { mean, deviation: 0.0 }
    }

    fn is_sound(&self, most: f64) -> bool {
        (0.0..=most).contains(&self.mean) && (0.0..=most).contains(&self.deviation)
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

/// What makes a write durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durable {
    /// Nothing: the device's cache may hold it.
    #[default]
    No,
    /// fdatasync after each write; the pair counts as one request.
    Fdatasync,
    /// fsync after each write.
    Fsync,
    /// O_DSYNC: each write returns when it is durable.
    Dsync,
}

/// One run's load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pattern {
    /// Name in the results, such as `depth-8`.
    pub name: String,
    /// Where requests go.
    #[serde(flatten)]
    pub placement: Placement,
    /// When they are made.
    #[serde(flatten)]
    pub pace: Pace,
    /// Sizes with their weights, bytes; one entry is a fixed size.
    #[serde(with = "sizes")]
    pub sizes: Vec<(u32, f64)>,
    /// Share of reads, 0 to 1.
    pub read_share: f64,
    /// Offsets are multiples of this, bytes; 0 is the size of the request.
    pub align_bytes: u64,
    /// First byte of the range.
    pub from_bytes: u64,
    /// Length of the range; `None` is up to the end of the target.
    pub range_bytes: Option<u64>,
    /// Through the page cache, to measure it on purpose.
    pub buffered: bool,
    /// Where buffered: what the cache holds from before stays in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warm: bool,
    /// What makes writes durable.
    pub durable: Durable,
    /// Time before measuring.
    #[serde(rename = "ramp_s", with = "seconds")]
    pub ramp: Duration,
    /// Time measured.
    #[serde(rename = "lasts_s", with = "seconds")]
    pub lasts: Duration,
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Sizes of writes where they differ from those of reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "sizes")]
    pub write_sizes: Vec<(u32, f64)>,
    /// Reads and writes come in this order, again and again; by `read_share` where it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<MixStep>,
    /// Requests that follow one another from each place; 0 and 1 are every one at a place of its own.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub run_requests: u32,
    /// Sequential reads and writes each go along a line of their own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub apart: bool,
    /// Places are scattered over the range, so that wanted ones do not lie side by side.
    #[serde(default, skip_serializing_if = "is_false")]
    pub scattered: bool,
    /// Only each so many-th write of a lane is made durable; 0 and 1 are each.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub sync_every: u32,
    /// Ends when so much was asked for after the ramp, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_bytes: Option<u64>,
    /// Most requests under way in an open loop; those that come late wait, and their wait counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_outstanding: Option<u32>,
}

/// Durations in files are seconds; a hundred days keep their nanoseconds.
mod seconds {
    use super::*;

    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(duration.as_secs_f64())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Sizes in files are objects with names.
mod sizes {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct WeightedSize {
        bytes: u32,
        weight: f64,
    }

    pub fn serialize<S: Serializer>(sizes: &[(u32, f64)], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(sizes.iter().map(|&(bytes, weight)| WeightedSize { bytes, weight }))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(u32, f64)>, D::Error> {
        Ok(Vec::<WeightedSize>::deserialize(deserializer)?.into_iter().map(|s| (s.bytes, s.weight)).collect())
    }
}

impl Pattern {
    /// Random reads of one size at a depth, the most usual measurement.
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
            durable: Durable::No,
            ramp: Duration::from_millis(500),
            lasts: Duration::from_secs(5),
            seed: 1,
            write_sizes: Vec::new(),
            turns: Vec::new(),
            run_requests: 1,
            apart: false,
            scattered: false,
            sync_every: 1,
            most_bytes: None,
            most_outstanding: None,
        }
    }

    /// Largest request, bytes.
    pub fn largest(&self) -> u32 {
        self.sizes.iter().chain(&self.write_sizes).map(|s| s.0).max().unwrap_or(0)
    }

    /// True when it writes anything.
    pub fn writes(&self) -> bool {
        if self.turns.is_empty() { self.read_share < 1.0 } else { self.turns.contains(&MixStep::Write) }
    }

    /// What is wrong with it, in a sentence; `None` where nothing is.
    /// `sector` is the target's smallest unit, bytes; `room` its size.
    pub fn fault(&self, sector: u64, room: u64) -> Option<String> {
        let mut sizes = self.sizes.iter().chain(&self.write_sizes);
        if self.sizes.is_empty() || sizes.any(|(s, w)| *s == 0 || !w.is_finite() || *w <= 0.0) {
            return Some("request sizes and their weights must be more than 0".into());
        }
        if !(0.0..=1.0).contains(&self.read_share) {
            return Some(format!("read share {} is not between 0 and 1", self.read_share));
        }
        let odd = |bytes: u64| !self.buffered && sector > 0 && !bytes.is_multiple_of(sector);
        if let Some((size, _)) = self.sizes.iter().chain(&self.write_sizes).find(|(s, _)| odd(u64::from(*s))) {
            return Some(format!("requests of {size} bytes are not a multiple of the sector of {sector} bytes"));
        }
        if odd(self.align_bytes) || odd(self.from_bytes) {
            return Some(format!("alignment and start must be multiples of the sector of {sector} bytes"));
        }
        if let Placement::Strided { stride_bytes } = self.placement
            && odd(stride_bytes)
        {
            return Some(format!("a stride of {stride_bytes} bytes is not a multiple of the sector of {sector} bytes"));
        }
        let range = self.range_bytes.unwrap_or(room.saturating_sub(self.from_bytes));
        if range < u64::from(self.largest()) || self.from_bytes.saturating_add(range) > room {
            let largest = self.largest();
            return Some(format!(
                "a range of {range} bytes from byte {} with requests of {largest} does not fit into {room}",
                self.from_bytes
            ));
        }
        let wrong = match self.pace {
            Pace::Closed { depth } => depth == 0 || depth > 65_536,
            Pace::Users { users, think_s, .. } => users == 0 || users > 65_536 || !(0.0..86_400.0).contains(&think_s),
            Pace::Cycles { users, think_s, requests, compute_s } => {
                let times = think_s.is_sound(86_400.0) && compute_s.is_sound(3600.0);
                users == 0 || users > 65_536 || !times || !requests.is_sound(1e9)
            }
            Pace::Open { rate_per_s, .. } => !rate_per_s.is_finite() || rate_per_s <= 0.0,
        };
        if wrong || self.most_outstanding.is_some_and(|most| most == 0 || most > 65_536) {
            return Some("depth, users and rate must be more than 0 (and at most 65536 requests in flight)".into());
        }
        None
    }
}
