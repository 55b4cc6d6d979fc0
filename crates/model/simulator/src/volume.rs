//! A cloud volume: not a device but a promise. A provider holds each volume to
//! rates of operations and of bytes with token buckets, some of which may be
//! overdrawn for a while (burst credits), and answers after a latency that has
//! little to do with what else the volume does.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use diskwright_base::Rng;

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};
use crate::spread::ServiceTimeDistribution;

/// A second, ns.
const SECOND: f64 = 1e9;

/// A rate that is allowed, and how long how much more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Always allowed, a second. Infinite for no limit.
    pub baseline: f64,
    /// Allowed while there are credits, a second; at least the baseline.
    pub burst: f64,
    /// Credits of a full bucket: operations or bytes. The bucket is full at the
    /// beginning, fills at the baseline and is drawn from at the rate of use.
    pub credits: f64,
}

impl RateLimit {
    /// The same always.
    pub fn steady(rate: f64) -> RateLimit {
        RateLimit { baseline: rate, burst: rate, credits: 0.0 }
    }

    /// No limit.
    pub fn none() -> RateLimit {
        RateLimit::steady(f64::INFINITY)
    }

    /// Seconds until a full bucket is empty at a rate of use: none where it
    /// never gets empty, because the rate is not above the baseline. A rate
    /// above the burst counts as the burst, which is all that is let through.
    pub fn burst_seconds(&self, rate: f64) -> Option<f64> {
        let rate = rate.min(self.burst);
        (rate > self.baseline && self.credits > 0.0).then(|| self.credits / (rate - self.baseline))
    }

    /// Seconds until an empty bucket is full when nothing is asked for; none
    /// where there is no bucket or it never fills.
    pub fn refill_seconds(&self) -> Option<f64> {
        (self.credits > 0.0 && self.baseline > 0.0).then(|| self.credits / self.baseline)
    }
}

/// What requests under way cost each other: work that only one thing can do, such as a processor, a path or a
/// controller, without a sharp end. With work `s` of each of those under way, its own included, and a time `a` of its
/// own, a request takes `(a^k + (sum of s)^k)^(1/k)`: `a` where it is alone, all that work where many are there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedWork {
    /// Work of a read and of a write, s.
    pub each_s: [f64; 2],
    /// Bytes a second of it, of reads and of writes.
    pub bytes_per_s: [f64; 2],
    /// How sharp the bend between both is: 1 adds them up, with many the longer one counts.
    pub knee: f64,
}

impl SharedWork {
    /// Work of a request, s.
    pub fn of(&self, write: bool, bytes: f64) -> f64 {
        let index = usize::from(write);
        self.each_s[index] + bytes / self.bytes_per_s[index]
    }

    fn check(&self) -> Result<(), String> {
        let sound = self.each_s.iter().all(|s| (0.0..=100.0).contains(s))
            && self.bytes_per_s.iter().all(|rate| *rate > 0.0)
            && (1.0..=20.0).contains(&self.knee);
        if sound { Ok(()) } else { Err("shared: times from 0, rates above 0 and a knee from 1 to 20".into()) }
    }
}

/// A cloud volume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeSpec {
    /// What it is called.
    pub name: String,
    /// Blocks of 512 bytes.
    pub blocks: u64,
    /// Requests that it takes at a time.
    pub slots: u32,
    /// Operations a second.
    pub operations: RateLimit,
    /// Bytes a second.
    pub bytes: RateLimit,
    /// The largest request that counts as one operation, bytes; larger ones
    /// count as so many of these.
    pub operation_bytes: u64,
    /// Requests that go on where the last one ended count together, as if they
    /// were one.
    pub merges: bool,
    /// Each counted operation draws `operation_bytes` from the bytes, however
    /// small it was (AWS st1 and sc1).
    pub whole_operations: bool,
    /// Operations that a write counts for, where they are not equal to reads.
    pub write_cost: f64,
    /// Limits of operations and of bytes for writes alone, as cgroups and QEMU have them; the others then
    /// hold for reads alone.
    pub writes: Option<[RateLimit; 2]>,
    /// What those under way cost each other.
    pub shared: Option<SharedWork>,
    /// How far rates are smoothed: what was not used within this time may be
    /// used at once, ns.
    pub window: Ns,
    /// Time of a read of one operation without any limit in its way.
    pub read: ServiceTimeDistribution,
    /// The same of a write.
    pub write: ServiceTimeDistribution,
    /// Bytes a second of one request's data, on top of that time.
    pub stream: f64,
}

impl VolumeSpec {
    /// Limits of operations and of bytes that hold for reads, or for writes.
    pub fn limits(&self, write: bool) -> [RateLimit; 2] {
        self.writes.filter(|_| write).unwrap_or([self.operations, self.bytes])
    }

    /// Looks for what cannot be.
    ///
    /// # Errors
    /// A text that names the item and what would be right.
    pub fn check(&self) -> Result<(), String> {
        if self.blocks == 0 || self.slots == 0 || self.operation_bytes == 0 {
            return Err("capacity, slots and the bytes of an operation are at least 1".into());
        }
        let [operations, bytes] = self.limits(true);
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
        if self.stream.is_nan() || self.stream <= 0.0 {
            return Err(format!("{} bytes/s of one request, where it is above 0", self.stream));
        }
        self.shared.map_or(Ok(()), |shared| shared.check())?;
        self.read.check().and_then(|()| self.write.check())
    }
}

/// One bucket.
#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    limit: RateLimit,
    credits: f64,
    /// The moment of `credits`.
    at: Ns,
    /// When the next may begin at the burst rate.
    free: Ns,
}

impl TokenBucket {
    fn new(limit: RateLimit) -> TokenBucket {
        TokenBucket { limit, credits: limit.credits, at: 0, free: 0 }
    }

    /// Takes `cost` out, and says when it may begin.
    #[inline]
    fn take(&mut self, now: Ns, cost: f64, window: Ns) -> Ns {
        if self.limit.burst == f64::INFINITY || cost <= 0.0 {
            return now;
        }
        let begin = now.max(self.free.saturating_sub(window));
        let mut next = cost / self.limit.burst;
        if self.limit.credits > 0.0 {
            let moment = begin.max(self.at);
            let filled = self.credits + self.limit.baseline * (moment - self.at) as f64 / SECOND;
            self.credits = filled.min(self.limit.credits) - cost;
            self.at = moment;
            if self.credits < 0.0 {
                // empty: what is missing must flow in before the next
                let missing = -self.credits / self.limit.baseline;
                self.at += (missing * SECOND) as Ns;
                self.credits = 0.0;
                next = next.max(missing);
            }
        }
        self.free = self.free.max(begin) + (next * SECOND) as Ns;
        begin
    }
}

/// Counts of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeTotals {
    /// Requests.
    pub requests: u64,
    /// Operations that the provider counted.
    pub operations: u64,
    /// What they took from the limit, thousandths of an operation: a write may count for more than one.
    pub charged_thousandths: u64,
    /// Bytes that moved.
    pub bytes: u64,
    /// Bytes that they took from the limit: of whole operations, where those count.
    pub drawn_bytes: u64,
    /// Of what was taken from the limits, that of writes: thousandths of an operation.
    pub written_thousandths: u64,
    /// The same of writes, bytes.
    pub written_drawn_bytes: u64,
    /// Time that requests waited for the limits, added up, ns.
    pub throttled_ns: u128,
}

/// A volume at work.
#[derive(Clone, Debug)]
pub struct CloudVolume {
    spec: Arc<VolumeSpec>,
    dice: Rng,
    /// Of operations and of bytes.
    buckets: [TokenBucket; 2],
    /// The same of writes, where they have limits of their own.
    write_buckets: Option<[TokenBucket; 2]>,
    /// Those under way and their work, ns, the first done first; and all that work.
    under_way: BinaryHeap<Reverse<(Ns, u64)>>,
    work: u64,
    /// Where the last request ended, whether it wrote, and bytes since the last counted operation.
    end: u64,
    wrote: bool,
    merged: u64,
    totals: VolumeTotals,
}

impl CloudVolume {
    /// A volume with full buckets.
    pub fn new(spec: &Arc<VolumeSpec>, dice: Rng) -> CloudVolume {
        CloudVolume {
            dice,
            buckets: [spec.operations, spec.bytes].map(TokenBucket::new),
            write_buckets: spec.writes.map(|limits| limits.map(TokenBucket::new)),
            under_way: BinaryHeap::new(),
            work: 0,
            end: u64::MAX,
            wrote: false,
            merged: 0,
            totals: VolumeTotals::default(),
            spec: Arc::clone(spec),
        }
    }

    /// What it is.
    pub fn spec(&self) -> &Arc<VolumeSpec> {
        &self.spec
    }

    /// Requests that it takes at a time.
    pub fn slots(&self) -> u32 {
        self.spec.slots
    }

    /// Counts since the beginning.
    pub fn totals(&self) -> VolumeTotals {
        self.totals
    }

    /// Credits left for operations and for bytes at the last request.
    pub fn credits(&self) -> (f64, f64) {
        (self.buckets[0].credits, self.buckets[1].credits)
    }

    /// Operations and bytes a second that are allowed just now: the burst while there are
    /// credits, the baseline after that. Then the same of writes, where they have limits of their own.
    pub fn allowed(&self) -> [f64; 4] {
        let now = |bucket: &TokenBucket| if bucket.credits > 0.0 { bucket.limit.burst } else { bucket.limit.baseline };
        let [operations, bytes] = [now(&self.buckets[0]), now(&self.buckets[1])];
        let [writes, written] = match &self.write_buckets {
            Some(own) => [now(&own[0]), now(&own[1])],
            None => [f64::INFINITY; 2],
        };
        [operations, bytes, writes, written]
    }

    /// A flush: what was answered is kept already, so it takes as long as a write without data and
    /// counts as no operation. `now` never goes back.
    pub fn flush(&mut self, now: Ns) -> Ns {
        now + self.spec.write.draw(&mut self.dice)
    }

    /// Takes a request, and says when it is done. `now` never goes back.
    #[inline]
    pub fn submit(&mut self, now: Ns, io: &Io) -> Ns {
        let spec = &*self.spec;
        let bytes = u64::from(io.blocks) * BLOCK_BYTES;
        let unit = spec.operation_bytes;
        let goes_on = spec.merges && io.first == self.end && io.write == self.wrote;
        // what is left of the last counted operation is free for what goes on behind it
        let before = if goes_on { self.merged } else { 0 };
        let all = before + bytes;
        let counted = all.div_ceil(unit) - before.div_ceil(unit);
        self.merged = all % unit;
        self.end = io.end();
        self.wrote = io.write;
        let cost = counted as f64 * if io.write { spec.write_cost } else { 1.0 };
        let drawn = if spec.whole_operations { counted * unit } else { bytes };
        let own = self.write_buckets.as_mut().filter(|_| io.write);
        let [operations, drawn_bytes] = own.unwrap_or(&mut self.buckets);
        let first = operations.take(now, cost, spec.window);
        let begin = first.max(drawn_bytes.take(now, drawn as f64, spec.window));
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
        let latency = if io.write { spec.write.draw(&mut self.dice) } else { spec.read.draw(&mut self.dice) };
        let alone = latency + (bytes as f64 / spec.stream * SECOND) as Ns;
        match spec.shared {
            Some(shared) => self.crowded(begin, alone, shared, shared.of(io.write, bytes as f64)),
            None => begin + alone,
        }
    }

    /// When a request is done that shares work with those under way.
    fn crowded(&mut self, begin: Ns, alone: Ns, shared: SharedWork, own_s: f64) -> Ns {
        while let Some(Reverse((_, work))) = self.under_way.peek().filter(|first| first.0.0 <= begin).copied() {
            self.under_way.pop();
            self.work -= work;
        }
        let own = (own_s * SECOND) as u64;
        self.work += own;
        let longer = (alone as f64).max(self.work as f64).max(1.0);
        let powers = (alone as f64 / longer).powf(shared.knee) + (self.work as f64 / longer).powf(shared.knee);
        let done = begin + (longer * powers.powf(1.0 / shared.knee)) as Ns;
        self.under_way.push(Reverse((done, own)));
        done
    }
}
