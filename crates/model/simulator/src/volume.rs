//! A cloud volume: not a device but a service level. A provider limits each volume's rates of operations and of bytes
//! with token buckets, some of which allow bursts for a while (burst credits), and responds after a latency that hardly
//! depends on the volume's other requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use diskwright_base::Rng;

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};
use crate::service_time::ServiceTimeDistribution;

/// A second, ns.
const NS_PER_SECOND: f64 = 1e9;

/// A rate limit, and its burst allowance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Rate that is always allowed, per second. Infinite for no limit.
    pub baseline: f64,
    /// Rate allowed while there are credits, per second; at least the baseline.
    pub burst: f64,
    /// Credits of a full bucket: operations or bytes. The bucket is full at the beginning, fills at the baseline and is
    /// drained at the rate of use.
    pub credits: f64,
}

impl RateLimit {
    /// A constant limit, without bursts.
    pub fn constant_rate(rate: f64) -> RateLimit {
        RateLimit { baseline: rate, burst: rate, credits: 0.0 }
    }

    /// No limit.
    pub fn unlimited() -> RateLimit {
        RateLimit::constant_rate(f64::INFINITY)
    }

    /// Seconds until a full bucket is empty at a rate of use: `None` if it never gets empty, because the rate is not
    /// above the baseline. A rate above the burst counts as the burst, which is the highest rate let through.
    pub fn burst_seconds(&self, rate: f64) -> Option<f64> {
        let rate = rate.min(self.burst);
        (rate > self.baseline && self.credits > 0.0).then(|| self.credits / (rate - self.baseline))
    }

    /// Seconds until an empty bucket is full without requests; `None` if there is no bucket or it never fills.
    pub fn refill_seconds(&self) -> Option<f64> {
        (self.credits > 0.0 && self.baseline > 0.0).then(|| self.credits / self.baseline)
    }
}

/// Mutual slowdown of requests in flight: work on a single resource, such as a processor, a path or a controller, with
/// a gradual saturation. With work `s` of each request in flight, its own included, and a time `a` of its own, a
/// request takes `(a^k + (sum of s)^k)^(1/k)`: `a` if it is alone, the sum of the work if many are in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedWork {
    /// Work of a read and of a write, s.
    pub each_s: [f64; 2],
    /// Bytes per second of work, of reads and of writes.
    pub bytes_per_s: [f64; 2],
    /// Sharpness of the bend between both: 1 adds them up, for large values the longer one counts.
    pub knee: f64,
}

impl SharedWork {
    /// Returns the work of a request, s.
    pub fn work_s(&self, write: bool, bytes: f64) -> f64 {
        let index = usize::from(write);
        self.each_s[index] + bytes / self.bytes_per_s[index]
    }

    fn check_limits(&self) -> Result<(), String> {
        let is_valid = self.each_s.iter().all(|s| (0.0..=100.0).contains(s))
            && self.bytes_per_s.iter().all(|rate| *rate > 0.0)
            && (1.0..=20.0).contains(&self.knee);
        if is_valid { Ok(()) } else { Err("shared: times from 0, rates above 0 and a knee from 1 to 20".into()) }
    }
}

/// A cloud volume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeSpec {
    /// Its name.
    pub name: String,
    /// Blocks of 512 bytes.
    pub blocks: u64,
    /// Requests that it accepts at a time.
    pub slots: u32,
    /// Limit of operations per second.
    pub operations: RateLimit,
    /// Limit of bytes per second.
    pub bytes: RateLimit,
    /// Largest request that counts as one operation, bytes; larger ones count as several.
    pub operation_bytes: u64,
    /// True if requests that continue at the end of the last one are counted together, as a single one.
    pub merges: bool,
    /// True if each counted operation draws `operation_bytes` from the bytes, however small it was (AWS st1 and sc1).
    pub whole_operations: bool,
    /// Operations that a write counts for, relative to a read.
    pub write_cost: f64,
    /// Separate limits of operations and of bytes for writes, as in cgroups and QEMU; the other limits then apply to
    /// reads only.
    pub writes: Option<[RateLimit; 2]>,
    /// Mutual slowdown of requests in flight.
    pub shared: Option<SharedWork>,
    /// Smoothing time of the rates: unused capacity of this time may be used at once, ns.
    pub window_ns: Ns,
    /// Latency of a read of one operation without any limits.
    pub read: ServiceTimeDistribution,
    /// Latency of a write of one operation without any limits.
    pub write: ServiceTimeDistribution,
    /// Transfer rate of one request's data, bytes/s, in addition to the latency.
    pub stream_bytes_per_s: f64,
}

impl VolumeSpec {
    /// Returns the limits of operations and of bytes for reads, or for writes.
    pub fn rate_limits(&self, write: bool) -> [RateLimit; 2] {
        self.writes.filter(|_| write).unwrap_or([self.operations, self.bytes])
    }

    /// Checks the specification.
    ///
    /// # Errors
    /// An error names the item and its valid range.
    pub fn check_limits(&self) -> Result<(), String> {
        if self.blocks == 0 || self.slots == 0 || self.operation_bytes == 0 {
            return Err("capacity, slots and the bytes of an operation are at least 1".into());
        }
        let [operations, bytes] = self.rate_limits(true);
        let limits = [
            ("operations", self.operations),
            ("bytes", self.bytes),
            ("operations that write", operations),
            ("bytes written", bytes),
        ];
        for (name, limit) in limits {
            if limit.baseline.is_nan() || limit.baseline <= 0.0 {
                return Err(format!("{name}: a baseline of {} a second, where it is above 0", limit.baseline));
            }
            if limit.burst.is_nan() || limit.burst < limit.baseline {
                return Err(format!("{name}: a burst of {}, where it is at least the baseline", limit.burst));
            }
            if !(limit.credits >= 0.0 && limit.credits.is_finite()) {
                return Err(format!("{name}: {} credits, where they are at least 0", limit.credits));
            }
        }
        if !(self.write_cost > 0.0 && self.write_cost <= 1000.0) {
            return Err(format!("a write counts for {}, where it is above 0 and at most 1000", self.write_cost));
        }
        if self.stream_bytes_per_s.is_nan() || self.stream_bytes_per_s <= 0.0 {
            return Err(format!("{} bytes/s of one request, where it is above 0", self.stream_bytes_per_s));
        }
        self.shared.map_or(Ok(()), |shared| shared.check_limits())?;
        self.read.check_parameters().and_then(|()| self.write.check_parameters())
    }
}

/// A token bucket.
#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    limit: RateLimit,
    credits: f64,
    /// Time of `credits`.
    credits_at_ns: Ns,
    /// Earliest start of the next request at the burst rate.
    next_start_ns: Ns,
}

impl TokenBucket {
    /// A full bucket.
    fn new(limit: RateLimit) -> TokenBucket {
        TokenBucket { limit, credits: limit.credits, credits_at_ns: 0, next_start_ns: 0 }
    }

    /// Draws `cost` tokens and returns the earliest start.
    #[inline]
    fn draw_tokens(&mut self, now: Ns, cost: f64, window: Ns) -> Ns {
        if self.limit.burst == f64::INFINITY || cost <= 0.0 {
            return now;
        }
        let begin = now.max(self.next_start_ns.saturating_sub(window));
        let mut next = cost / self.limit.burst;
        if self.limit.credits > 0.0 {
            let time = begin.max(self.credits_at_ns);
            let filled = self.credits + self.limit.baseline * (time - self.credits_at_ns) as f64 / NS_PER_SECOND;
            self.credits = filled.min(self.limit.credits) - cost;
            self.credits_at_ns = time;
            if self.credits < 0.0 {
                // empty: the deficit must flow in before the next request
                let missing = -self.credits / self.limit.baseline;
                self.credits_at_ns += (missing * NS_PER_SECOND) as Ns;
                self.credits = 0.0;
                next = next.max(missing);
            }
        }
        self.next_start_ns = self.next_start_ns.max(begin) + (next * NS_PER_SECOND) as Ns;
        begin
    }
}

/// Counters of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeTotals {
    /// Requests.
    pub requests: u64,
    /// Operations counted by the provider.
    pub operations: u64,
    /// Operations drawn from the limit, in thousandths: a write may count for more than one.
    pub charged_thousandths: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Bytes drawn from the limit: those of whole operations, if whole operations count.
    pub drawn_bytes: u64,
    /// Operations drawn by writes, in thousandths.
    pub written_thousandths: u64,
    /// Bytes drawn by writes.
    pub written_drawn_bytes: u64,
    /// Total time that requests waited for the limits, ns.
    pub throttled_ns: u128,
}

/// A volume in operation.
#[derive(Clone, Debug)]
pub struct CloudVolume {
    spec: Arc<VolumeSpec>,
    rng: Rng,
    /// Buckets of operations and of bytes.
    buckets: [TokenBucket; 2],
    /// Separate buckets of writes, if they have their own limits.
    write_buckets: Option<[TokenBucket; 2]>,
    /// Requests in flight: completion time and work, ns; the earliest first.
    in_flight: BinaryHeap<Reverse<(Ns, u64)>>,
    /// Total work of the requests in flight.
    in_flight_work_ns: u64,
    /// End of the last request; `None` before the first.
    last_end: Option<u64>,
    last_was_write: bool,
    /// Bytes since the last counted operation.
    merged_bytes: u64,
    totals: VolumeTotals,
}

impl CloudVolume {
    /// A volume with full buckets.
    pub fn new(spec: &Arc<VolumeSpec>, rng: Rng) -> CloudVolume {
        CloudVolume {
            rng,
            buckets: [spec.operations, spec.bytes].map(TokenBucket::new),
            write_buckets: spec.writes.map(|limits| limits.map(TokenBucket::new)),
            in_flight: BinaryHeap::new(),
            in_flight_work_ns: 0,
            last_end: None,
            last_was_write: false,
            merged_bytes: 0,
            totals: VolumeTotals::default(),
            spec: Arc::clone(spec),
        }
    }

    /// Its specification.
    pub fn spec(&self) -> &Arc<VolumeSpec> {
        &self.spec
    }

    /// Requests that it accepts at a time.
    pub fn slot_count(&self) -> u32 {
        self.spec.slots
    }

    /// Counters since the beginning.
    pub fn totals(&self) -> VolumeTotals {
        self.totals
    }

    /// Returns the operations and bytes per second that are currently allowed: the burst while there are credits, then
    /// the baseline; followed by those of writes, if they have their own limits.
    pub fn allowed_rates(&self) -> [f64; 4] {
        let current_rate =
            |bucket: &TokenBucket| if bucket.credits > 0.0 { bucket.limit.burst } else { bucket.limit.baseline };
        let [operations, bytes] = [current_rate(&self.buckets[0]), current_rate(&self.buckets[1])];
        let [writes, written] = match &self.write_buckets {
            Some(buckets) => [current_rate(&buckets[0]), current_rate(&buckets[1])],
            None => [f64::INFINITY; 2],
        };
        [operations, bytes, writes, written]
    }

    /// Flushes: acknowledged data are safe already, so it takes as long as a write without data and counts as no
    /// operation. `now` never goes back.
    pub fn flush(&mut self, now: Ns) -> Ns {
        now + self.spec.write.draw_time(&mut self.rng)
    }

    /// Submits a request and returns its completion time. `now` never goes back.
    #[inline]
    pub fn submit_request(&mut self, now: Ns, io: &Io) -> Ns {
        let spec = &*self.spec;
        let bytes = u64::from(io.blocks) * BLOCK_BYTES;
        let unit = spec.operation_bytes;
        let continues = spec.merges && self.last_end == Some(io.first) && io.write == self.last_was_write;
        // the remaining bytes of the last counted operation are free for a request that continues it
        let before = if continues { self.merged_bytes } else { 0 };
        let total = before + bytes;
        let counted = total.div_ceil(unit) - before.div_ceil(unit);
        self.merged_bytes = total % unit;
        self.last_end = Some(io.end());
        self.last_was_write = io.write;
        let cost = counted as f64 * if io.write { spec.write_cost } else { 1.0 };
        let drawn = if spec.whole_operations { counted * unit } else { bytes };
        let write_buckets = self.write_buckets.as_mut().filter(|_| io.write);
        let [operations, drawn_bytes] = write_buckets.unwrap_or(&mut self.buckets);
        let first = operations.draw_tokens(now, cost, spec.window_ns);
        let begin = first.max(drawn_bytes.draw_tokens(now, drawn as f64, spec.window_ns));
        self.totals.requests += 1;
        self.totals.operations += counted;
        let thousandths = (cost * 1000.0) as u64;
        self.totals.charged_thousandths += thousandths;
        self.totals.bytes += bytes;
        self.totals.drawn_bytes += drawn;
        if io.write {
            self.totals.written_thousandths += thousandths;
            self.totals.written_drawn_bytes += drawn;
        }
        self.totals.throttled_ns += u128::from(begin - now);
        let latency = if io.write { spec.write.draw_time(&mut self.rng) } else { spec.read.draw_time(&mut self.rng) };
        let standalone_ns = latency + (bytes as f64 / spec.stream_bytes_per_s * NS_PER_SECOND) as Ns;
        match spec.shared {
            Some(shared) => self.shared_completion(begin, standalone_ns, shared, shared.work_s(io.write, bytes as f64)),
            None => begin + standalone_ns,
        }
    }

    /// Returns the completion time of a request that shares work with those in flight.
    fn shared_completion(&mut self, begin: Ns, standalone_ns: Ns, shared: SharedWork, work_s: f64) -> Ns {
        while let Some(Reverse((_, work))) = self.in_flight.peek().filter(|first| first.0.0 <= begin).copied() {
            self.in_flight.pop();
            self.in_flight_work_ns -= work;
        }
        let work_ns = (work_s * NS_PER_SECOND) as u64;
        self.in_flight_work_ns += work_ns;
        let longer = (standalone_ns as f64).max(self.in_flight_work_ns as f64).max(1.0);
        let powers = (standalone_ns as f64 / longer).powf(shared.knee)
            + (self.in_flight_work_ns as f64 / longer).powf(shared.knee);
        let done = begin + (longer * powers.powf(1.0 / shared.knee)) as Ns;
        self.in_flight.push(Reverse((done, work_ns)));
        done
    }
}
