//! Replays limits of every kind along a load: when credits run out, for how long, and which requests then wait.
//!
//! A bucket fills at its baseline and is drawn from at the rate of use; buckets are full at the beginning (AWS EC2 user
//! guide, "I/O credits and burst performance": 5.4 million credits, `credits / (burst - baseline)` seconds at full
//! burst). Requests that a volume cannot serve are served later, as in a queue, so that a peak can be longer there than
//! in the log.

use diskwright_base::cloud_volume::{INSTANCE_BURST_S, RateCap};
use serde::Serialize;

use crate::operation_rule::OperationRule;
use crate::prices::{InstanceCaps, VolumeOffer};
use crate::series::LoadTick;

/// One limit with its credits.
#[derive(Clone, Debug, PartialEq)]
pub struct CreditBucket {
    /// Name of the limit: `volume IOPS`, `instance bytes`.
    pub name: &'static str,
    /// `operations` or `bytes`.
    pub unit: BucketUnit,
    /// Baseline per second, always allowed.
    pub baseline: f64,
    /// Burst per second, allowed while there are credits.
    pub burst: f64,
    /// Credits of a full bucket; 0 for a limit without credits.
    pub credits: f64,
    /// Interval after which the bucket is filled up in addition, s.
    pub top_up_s: Option<f64>,
}

/// Unit of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BucketUnit {
    /// Operations as the provider counts them.
    Operations,
    /// Bytes.
    Bytes,
}

/// Result of replaying a bucket.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BucketReplay {
    /// Name of the limit.
    pub bucket: String,
    /// Unit of the bucket.
    pub unit: BucketUnit,
    /// Baseline, always allowed.
    pub baseline_per_s: f64,
    /// Burst, allowed while there are credits.
    pub burst_per_s: f64,
    /// Credits of a full bucket; `None` for a limit without credits.
    pub credits: Option<f64>,
    /// The lowest balance as a share of a full bucket; `None` for a limit without credits.
    pub lowest_balance: Option<f64>,
    /// Seconds in which more was requested than allowed.
    pub throttled_s: f64,
    /// Part of these seconds in which the bucket was empty.
    pub seconds_at_nothing: f64,
    /// First time at which more was requested than allowed, RFC 3339.
    pub first: Option<String>,
    /// The longest delay of waiting requests, s.
    pub longest_delay_s: f64,
}

/// Replays a limit along a load. `continuing_share` is the share of the requests that continue where the last one
/// ended.
pub fn replay_bucket(
    bucket: &CreditBucket,
    ticks: &[LoadTick],
    rule: &OperationRule,
    continuing_share: f64,
) -> BucketReplay {
    let mut state =
        CreditLevel { balance: bucket.credits, backlog: 0.0, lowest_balance: bucket.credits, ..Default::default() };
    let mut first = None;
    let start = ticks.first().map_or(0, |t| t.time_ns - (f64::from(t.seconds) * 1e9) as i64);
    let mut top_ups = 0;
    for tick in ticks {
        if let Some(interval_s) = bucket.top_up_s {
            let periods = ((tick.time_ns - start) as f64 * 1e-9 / interval_s) as i64;
            if periods > top_ups {
                (top_ups, state.balance) = (periods, bucket.credits);
            }
        }
        let [operations, bytes] = counted_rates(tick, rule, continuing_share);
        let demand = if bucket.unit == BucketUnit::Bytes { bytes } else { operations };
        let throttled = state.advance_tick(bucket, demand, f64::from(tick.seconds));
        if throttled > 0.0 && first.is_none() {
            first = Some(diskwright_base::timestamp::format_rfc3339(tick.time_ns));
        }
    }
    let has_credits = bucket.credits > 0.0;
    BucketReplay {
        bucket: bucket.name.into(),
        unit: bucket.unit,
        baseline_per_s: bucket.baseline,
        burst_per_s: bucket.burst,
        credits: has_credits.then_some(bucket.credits),
        lowest_balance: has_credits.then(|| state.lowest_balance / bucket.credits),
        throttled_s: state.throttled_s,
        seconds_at_nothing: state.empty_s,
        first,
        longest_delay_s: state.delay_s,
    }
}

/// Seconds between ticks of which nothing is known. A replay leaves credits and backlog unchanged over them, because
/// their use is unknown.
pub fn unknown_time_s(ticks: &[LoadTick]) -> f64 {
    let gap_between = |pair: &[LoadTick]| {
        let length_s = f64::from(pair[1].seconds);
        let gap_s = (pair[1].time_ns - pair[0].time_ns) as f64 * 1e-9 - length_s;
        // ticks come a little early or late
        if gap_s > 0.05 * length_s { gap_s } else { 0.0 }
    };
    // the sum of nothing is -0
    ticks.windows(2).map(gap_between).fold(0.0, |sum, gap_s| sum + gap_s)
}

/// Operations and bytes per second as a provider counts them. The mean size stands for all requests, so that a mix of
/// sizes is counted somewhat too low.
fn counted_rates(tick: &LoadTick, rule: &OperationRule, continuing_share: f64) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for (count, bytes, is_write) in [(tick.reads, tick.read_bytes, false), (tick.writes, tick.write_bytes, true)] {
        let (count, bytes) = (f64::from(count), f64::from(bytes));
        if count > 0.0 {
            let counted = rule.count_request(bytes / count, is_write, continuing_share);
            sums.iter_mut().zip(counted).for_each(|(sum, each)| *sum += count * each);
        }
    }
    sums
}

#[derive(Default)]
struct CreditLevel {
    balance: f64,
    backlog: f64,
    lowest_balance: f64,
    throttled_s: f64,
    empty_s: f64,
    delay_s: f64,
}

impl CreditLevel {
    /// Advances by one tick; returns the seconds of it in which more was requested than allowed.
    fn advance_tick(&mut self, bucket: &CreditBucket, demand: f64, seconds: f64) -> f64 {
        let mut remaining_s = seconds;
        let mut throttled = 0.0;
        // the rate is constant within a tick, which is cut where the bucket or the backlog becomes empty
        for _ in 0..4 {
            if remaining_s <= 1e-9 {
                break;
            }
            let allowed = if self.balance > 0.0 { bucket.burst } else { bucket.baseline };
            let served = if self.backlog > 0.0 { allowed } else { demand.min(allowed) };
            let drain = if bucket.credits > 0.0 { served - bucket.baseline } else { 0.0 };
            let backlog_growth = demand - served;
            let is_waiting = self.backlog > 0.0 || backlog_growth > 0.0;
            let until_empty = if drain > 0.0 { self.balance / drain } else { f64::INFINITY };
            let until_served = if backlog_growth < 0.0 { self.backlog / -backlog_growth } else { f64::INFINITY };
            let step = remaining_s.min(until_empty).min(until_served);
            debug_assert!(step >= 0.0, "time goes back by {step} s");
            let backlog_before = self.backlog;
            self.balance = (self.balance - drain * step).clamp(0.0, bucket.credits);
            self.backlog = (self.backlog + backlog_growth * step).max(0.0);
            if step == until_empty {
                self.balance = 0.0;
            }
            if step == until_served {
                self.backlog = 0.0;
            }
            self.lowest_balance = self.lowest_balance.min(self.balance);
            if is_waiting {
                throttled += step;
                let is_empty = bucket.credits > 0.0 && allowed <= bucket.baseline;
                self.empty_s += if is_empty { step } else { 0.0 };
                // in a long tick, everything that waited at its beginning may be served at its end
                self.delay_s = self.delay_s.max(backlog_before.max(self.backlog) / allowed);
            }
            remaining_s -= step;
        }
        debug_assert!(remaining_s <= 1e-9, "{remaining_s} s of a tick of {seconds} s were not replayed");
        self.throttled_s += throttled;
        throttled
    }
}

/// Returns the limits of a volume of a size, with additional operations and bytes per second if they were bought.
pub fn volume_buckets(offer: &VolumeOffer, gib: f64, iops: Option<f64>, rate: Option<f64>) -> Vec<CreditBucket> {
    let bucket = |name, unit, cap: RateCap| CreditBucket {
        name,
        unit,
        baseline: cap.baseline,
        burst: cap.burst,
        credits: cap.credits,
        top_up_s: None,
    };
    let [operations, bytes] = offer.volume_type().caps(gib, iops, rate);
    vec![bucket("volume IOPS", BucketUnit::Operations, operations), bucket("volume bytes", BucketUnit::Bytes, bytes)]
}

/// Returns the limits of an instance. One that holds its maximum for 30 minutes in 24 hours has credits for that,
/// filled at the baseline by what is not used and filled up once a day.
pub fn instance_buckets(caps: &InstanceCaps) -> Vec<CreditBucket> {
    let burst_cap = caps.burst.unwrap_or(caps.baseline);
    let bucket = |name, unit, baseline: f64, burst: f64| CreditBucket {
        name,
        unit,
        baseline,
        burst,
        credits: (burst - baseline) * INSTANCE_BURST_S,
        top_up_s: (burst > baseline).then_some(86_400.0),
    };
    vec![
        bucket("instance IOPS", BucketUnit::Operations, caps.baseline.iops, burst_cap.iops),
        bucket("instance bytes", BucketUnit::Bytes, caps.baseline.mb_s * 1e6, burst_cap.mb_s * 1e6),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation_rule::DEFAULT_RULE;

    fn steady_load(iops: f32, bytes: f32, seconds: usize) -> Vec<LoadTick> {
        let tick = |index: usize| LoadTick {
            time_ns: (index as i64 + 1) * 1_000_000_000,
            seconds: 1.0,
            reads: iops,
            writes: 0.0,
            read_bytes: bytes,
            write_bytes: 0.0,
            queue: 1.0,
        };
        (0..seconds).map(tick).collect()
    }

    fn find_offer(id: &str) -> VolumeOffer {
        crate::prices::built_in_prices().volumes.into_iter().find(|v| v.id == id).expect(id)
    }

    fn burst_end(bucket: &CreditBucket, iops: f32, bytes: f32) -> (f64, BucketReplay) {
        let seconds = 4 * 3600;
        let ticks = steady_load(iops, bytes, seconds);
        let replay = replay_bucket(bucket, &ticks, &DEFAULT_RULE, 0.0);
        let throttled = replay.throttled_s;
        (seconds as f64 - throttled, replay)
    }

    #[test]
    fn gp2_bursts_as_long_as_its_documentation_says() {
        // 5.4e6 / (3000 - 3 GiB): 33.3, 40, 60 and 120 minutes
        for (gib, minutes) in [(100.0, 33.333), (250.0, 40.0), (500.0, 60.0), (750.0, 120.0)] {
            let buckets = volume_buckets(&find_offer("aws-gp2"), gib, None, None);
            // slightly above the burst, so that the end of the credits shows; the excess waits from the start
            let ticks = steady_load(3000.0, 3000.0 * 4096.0, 4 * 3600);
            let replay = replay_bucket(&buckets[0], &ticks, &DEFAULT_RULE, 0.0);
            let lasted = (4.0 * 3600.0 - replay.seconds_at_nothing) / 60.0;
            assert!((lasted - minutes).abs() < 0.02, "{gib} GiB: {lasted}");
            assert_eq!(replay.lowest_balance, Some(0.0));
        }
        // 1000 GiB and more have no credits and need none
        assert_eq!(volume_buckets(&find_offer("aws-gp2"), 1000.0, None, None)[0].credits, 0.0);
    }

    #[test]
    fn azure_premium_bursts_for_30_minutes() {
        for id in ["azure-p10", "azure-p20"] {
            let gib = find_offer(id).gib[0];
            let buckets = volume_buckets(&find_offer(id), gib, None, None);
            let (lasted, _) = burst_end(&buckets[0], 3500.0, 3500.0 * 4096.0);
            assert!((lasted / 60.0 - 30.0).abs() < 0.02, "{id}: {lasted}");
            let (lasted, _) = burst_end(&buckets[1], 170.0, 170e6);
            assert!((lasted / 60.0 - 30.0).abs() < 0.02, "{id}, bytes: {lasted}");
        }
    }

    #[test]
    fn instances_are_topped_up_once_a_day() {
        let caps =
            crate::prices::built_in_prices().instances.into_iter().find(|i| i.id == "m6i.large").expect("m6i.large");
        let buckets = instance_buckets(&caps);
        let ticks = steady_load(40_000.0, 40_000.0 * 1024.0, 3600);
        let once = replay_bucket(&buckets[0], &ticks, &DEFAULT_RULE, 0.0);
        assert!((once.seconds_at_nothing - 1800.0).abs() < 0.01, "{once:?}");
        // 25 minutes of it on two days, the baseline in between: filled up at night
        let later = |ticks: Vec<LoadTick>, s: i64| {
            ticks.into_iter().map(move |t| LoadTick { time_ns: t.time_ns + s * 1_000_000_000, ..t })
        };
        let mut two = steady_load(40_000.0, 1e6, 1500);
        two.extend(later(steady_load(3600.0, 1e6, 86_400 - 1500), 1500));
        two.extend(later(steady_load(40_000.0, 1e6, 1500), 86_400));
        let flat = CreditBucket { top_up_s: None, ..buckets[0].clone() };
        assert_eq!(replay_bucket(&buckets[0], &two, &DEFAULT_RULE, 0.0).throttled_s, 0.0);
        let first = replay_bucket(&flat, &two, &DEFAULT_RULE, 0.0);
        assert!((first.seconds_at_nothing - 1200.0).abs() < 0.01, "{first:?}");
        assert_eq!(first.first.as_deref(), Some("1970-01-02T00:05:01Z"));
    }

    #[test]
    fn unserved_requests_wait_and_large_ones_count_more_than_once() {
        let bucket = CreditBucket {
            name: "volume IOPS",
            unit: BucketUnit::Operations,
            baseline: 100.0,
            burst: 100.0,
            credits: 0.0,
            top_up_s: None,
        };
        let mut ticks = steady_load(200.0, 200.0 * 4096.0, 10);
        ticks.extend(steady_load(0.0, 0.0, 20).iter().map(|t| LoadTick { time_ns: t.time_ns + 10_000_000_000, ..*t }));
        let done = replay_bucket(&bucket, &ticks, &DEFAULT_RULE, 0.0);
        // 1,000 too many in ten seconds need ten seconds more
        assert_eq!((done.throttled_s, done.longest_delay_s, done.lowest_balance), (20.0, 10.0, None));
        assert_eq!(done.first.as_deref(), Some("1970-01-01T00:00:01Z"));
        let one_mebi = LoadTick { reads: 10.0, read_bytes: 10.0 * 1_048_576.0, ..ticks[0] };
        assert_eq!(counted_rates(&one_mebi, &DEFAULT_RULE, 0.0)[0], 40.0);
    }

    #[test]
    fn counts_gaps_but_not_jitter() {
        let mut ticks = steady_load(100.0, 4096.0, 10);
        assert_eq!((unknown_time_s(&ticks), unknown_time_s(&ticks[..1]), unknown_time_s(&[])), (0.0, 0.0, 0.0));
        ticks[4].time_ns += 20_000_000;
        assert_eq!(unknown_time_s(&ticks), 0.0);
        ticks.iter_mut().skip(6).for_each(|tick| tick.time_ns += 3_600_000_000_000);
        assert!((unknown_time_s(&ticks) - 3600.0).abs() < 1e-6, "{}", unknown_time_s(&ticks));
    }

    #[test]
    fn a_delay_within_a_long_tick_counts() {
        let bucket = CreditBucket {
            name: "volume IOPS",
            unit: BucketUnit::Operations,
            baseline: 100.0,
            burst: 3000.0,
            credits: 4350.0,
            top_up_s: None,
        };
        let first = steady_load(6000.0, 6000.0 * 4096.0, 1)[0];
        let idle = LoadTick { time_ns: 601_000_000_000, seconds: 600.0, reads: 0.0, read_bytes: 0.0, ..first };
        // 3,000 wait after the first second; half of them are served with the last credits, the rest at 100 per second
        let found = replay_bucket(&bucket, &[first, idle], &DEFAULT_RULE, 0.0);
        assert!((found.longest_delay_s - 15.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn small_random_requests_use_up_whole_units() {
        // 199 of 8 KiB per second count as 199 MiB/s on 500 GiB of st1, which has 19.5 MiB/s, and 122 for a while
        let rule = OperationRule::for_offer(&find_offer("aws-st1"));
        let buckets = volume_buckets(&find_offer("aws-st1"), 500.0, None, None);
        let ticks = steady_load(199.0, 199.0 * 8192.0, 600);
        let random = replay_bucket(&buckets[1], &ticks, &rule, 0.0);
        assert!(random.throttled_s == 600.0 && random.longest_delay_s > 60.0, "{random:?}");
        assert_eq!(replay_bucket(&buckets[1], &ticks, &rule, 1.0).throttled_s, 0.0);
        // 100 GiB of a standard disk of Google: 75 reads, but 150 writes per second
        let rule = OperationRule::for_offer(&find_offer("gcp-pd-standard"));
        let buckets = volume_buckets(&find_offer("gcp-pd-standard"), 100.0, None, None);
        let writes: Vec<LoadTick> = steady_load(140.0, 140.0 * 4096.0, 60)
            .into_iter()
            .map(|t| LoadTick { reads: 0.0, read_bytes: 0.0, writes: t.reads, write_bytes: t.read_bytes, ..t })
            .collect();
        assert_eq!(replay_bucket(&buckets[0], &writes, &rule, 0.0).throttled_s, 0.0);
        assert_eq!(replay_bucket(&buckets[0], &steady_load(140.0, 140.0 * 4096.0, 60), &rule, 0.0).throttled_s, 60.0);
    }
}
