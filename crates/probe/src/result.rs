//! What a run gave, as it stands in a result file (`diskwright.probe/1`).

use diskwright_base::Histogram;
use serde::{Deserialize, Serialize};

use crate::pattern::{Pace, Pattern, Placement};
use crate::run::Outcome;
use crate::tally::Side;

/// Latency, seconds. `None` where nothing was measured, and a percentile is
/// given only where at least ten requests lie above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 95 of 100 are faster.
    pub p95: Option<f64>,
    /// 99 of 100 are faster.
    pub p99: Option<f64>,
    /// 99.9 of 100 are faster.
    pub p999: Option<f64>,
    /// 99.99 of 100 are faster.
    pub p9999: Option<f64>,
    /// 99.999 of 100 are faster.
    pub p99999: Option<f64>,
    /// The fastest.
    pub min: Option<f64>,
    /// The slowest.
    pub max: Option<f64>,
}

/// Requests that must lie above a percentile for it to be given.
const ABOVE: f64 = 10.0;

impl Latency {
    /// Of a histogram of nanoseconds.
    pub fn of(histogram: &Histogram) -> Latency {
        let count = histogram.count() as f64;
        let at = |share: f64| {
            let enough = share <= 0.5 || count * (1.0 - share) >= ABOVE;
            histogram.quantile(share).filter(|_| enough).map(|ns| ns * 1e-9)
        };
        Latency {
            mean: histogram.mean().map(|ns| ns * 1e-9),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            p99999: at(0.99999),
            min: histogram.least().map(|ns| ns as f64 * 1e-9),
            max: histogram.most().map(|ns| ns as f64 * 1e-9),
        }
    }
}

/// One direction of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    /// Requests a second.
    pub requests_per_s: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Latency, seconds.
    pub latency_s: Latency,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Name in its suite.
    pub name: String,
    /// `sequential`, `uniform`, `normal`, `zipf`, `strided`.
    pub place: String,
    /// `closed`, `users`, `open`.
    #[serde(rename = "loop")]
    pub pace: String,
    /// Requests outstanding, in a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Users, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<u32>,
    /// Requests a second that were asked for, in an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_per_s: Option<f64>,
    /// Mean size of a request, bytes.
    pub size_bytes: f64,
    /// Share of reads.
    pub read_share: f64,
    /// Measured time, seconds.
    pub measured_s: f64,
    /// Requests a second, reads and writes.
    pub requests_per_s: f64,
    /// Bytes a second, reads and writes.
    pub bytes_per_s: f64,
    /// Latency of both, seconds.
    pub latency_s: Latency,
    /// Reads alone, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<Direction>,
    /// Writes alone, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<Direction>,
    /// Processor time of the probe and the kernel on its behalf, seconds a request.
    pub cpu_s_per_request: Option<f64>,
    /// Share of one processor that this is.
    pub cpu_share: Option<f64>,
    /// Interrupts of the machine less those of clock and network, by request.
    pub interrupts_per_request: Option<f64>,
    /// Bytes moved for each such interrupt.
    pub bytes_per_interrupt: Option<f64>,
    /// Context switches of the machine, by request.
    pub context_switches_per_request: Option<f64>,
    /// Longest time without any answer while requests were outstanding, seconds.
    pub longest_silence_s: f64,
    /// What a closed loop hides: requests that were never made because others
    /// had not come back, at the run's own rate, in the longest silence.
    pub hidden_requests: Option<f64>,
    /// Whether rate settled down (see [`is_steady`]); `None` where the run was too short to say.
    pub steady: Option<bool>,
    /// Requests that failed, and requests that moved less than asked.
    pub failed: u64,
    /// Requests that moved fewer bytes than asked.
    pub short: u64,
    /// `io_uring` or `threads`.
    pub engine: String,
    /// Threads.
    pub lanes: u32,
    /// It was stopped before its time.
    pub stopped: bool,
    /// Requests in each tenth of a second.
    pub slices: Vec<u64>,
}

/// Puts a run's counts in order.
pub fn result(pattern: &Pattern, outcome: &Outcome) -> RunResult {
    let tally = &outcome.tally;
    let seconds = outcome.seconds.max(1e-9);
    let mut both = tally.reads.latency.clone();
    both.merge(&tally.writes.latency);
    let requests = tally.reads.requests + tally.writes.requests;
    let bytes = tally.reads.bytes + tally.writes.bytes;
    let kernel = &outcome.kernel;
    // what the kernel counted covers a little more than the run: take it as a rate
    let per_request = |count: Option<f64>| {
        let rate = count? / if kernel.seconds > 0.0 { kernel.seconds } else { return None };
        (requests > 0).then(|| rate * seconds / requests as f64)
    };
    let interrupts = per_request(kernel.interrupts);
    let slices: Vec<u64> = tally.slices.iter().map(|s| s.0).collect();
    let silence = tally.longest_silence_ns as f64 * 1e-9;
    let rate = requests as f64 / seconds;
    let mut run = RunResult {
        name: pattern.name.clone(),
        place: place(&pattern.placement).into(),
        size_bytes: if requests > 0 { bytes as f64 / requests as f64 } else { f64::from(pattern.largest()) },
        read_share: pattern.read_share,
        measured_s: outcome.seconds,
        requests_per_s: rate,
        bytes_per_s: bytes as f64 / seconds,
        latency_s: Latency::of(&both),
        reads: direction(&tally.reads, seconds),
        writes: direction(&tally.writes, seconds),
        cpu_s_per_request: (requests > 0).then(|| outcome.cpu_s / requests as f64),
        cpu_share: Some(outcome.cpu_s / seconds),
        interrupts_per_request: interrupts,
        bytes_per_interrupt: interrupts.filter(|i| *i > 0.0).map(|i| bytes as f64 / requests as f64 / i),
        context_switches_per_request: per_request(kernel.context_switches),
        longest_silence_s: silence,
        steady: is_steady(&slices),
        failed: tally.failed(),
        short: tally.short,
        engine: outcome.engine.into(),
        lanes: outcome.lanes,
        stopped: outcome.stopped,
        slices,
        ..RunResult::default()
    };
    match pattern.pace {
        Pace::Closed { depth } => {
            run.pace = "closed".into();
            run.depth = Some(depth);
            run.hidden_requests = Some(silence * rate);
        }
        Pace::Users { users, .. } => {
            run.pace = "users".into();
            run.users = Some(users);
            run.hidden_requests = Some(silence * rate);
        }
        Pace::Open { rate_per_s, .. } => {
            run.pace = "open".into();
            run.offered_per_s = Some(rate_per_s);
        }
    }
    run
}

fn place(placement: &Placement) -> &'static str {
    match placement {
        Placement::Sequential { .. } => "sequential",
        Placement::Uniform => "uniform",
        Placement::Normal { .. } => "normal",
        Placement::Zipf { .. } => "zipf",
        Placement::Strided { .. } => "strided",
    }
}

fn direction(side: &Side, seconds: f64) -> Option<Direction> {
    (side.requests > 0).then(|| Direction {
        requests_per_s: side.requests as f64 / seconds,
        bytes_per_s: side.bytes as f64 / seconds,
        latency_s: Latency::of(&side.latency),
    })
}

/// Parts that a run is cut into to see whether it is steady.
const PARTS: usize = 5;
/// Slices a run must have for that.
const LEAST_SLICES: usize = 2 * PARTS;

/// Whether a run's rate is steady by the measure that the SNIA's Solid State
/// Storage Performance Test Specification 2.0.1 gives for rounds: over five
/// parts the rate stays within 20 % of its mean, and a straight line through
/// them rises or falls by at most 10 % of it.
pub fn is_steady(slices: &[u64]) -> Option<bool> {
    if slices.len() < LEAST_SLICES {
        return None;
    }
    let length = slices.len() / PARTS;
    // the first slices, not the last, are left over: those are the ramp's end
    let rest = &slices[slices.len() - PARTS * length..];
    let parts: Vec<f64> = rest.chunks(length).map(|c| c.iter().sum::<u64>() as f64).collect();
    let mean = parts.iter().sum::<f64>() / PARTS as f64;
    if mean <= 0.0 {
        return Some(false);
    }
    let (least, most) = parts.iter().fold((f64::MAX, f64::MIN), |(a, b), &p| (a.min(p), b.max(p)));
    // least squares through equally spaced points -2..2
    let slope: f64 = parts.iter().enumerate().map(|(i, p)| (i as f64 - 2.0) * p).sum::<f64>() / 10.0;
    Some(most - least <= 0.2 * mean && (slope * (PARTS - 1) as f64).abs() <= 0.1 * mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steadiness_is_the_snias() {
        assert_eq!(is_steady(&[100; 4]), None);
        assert_eq!(is_steady(&[100; 50]), Some(true));
        // excursion of 25 % of the mean
        let jump: Vec<u64> = (0..50).map(|i| if i / 10 == 2 { 125 } else { 100 }).collect();
        assert_eq!(is_steady(&jump), Some(false));
        // within 20 %, but falling by 12 % from end to end
        let fall: Vec<u64> = (0..50).map(|i| 1000 - i / 10 * 30).collect();
        assert_eq!(is_steady(&fall), Some(false));
        let slow: Vec<u64> = (0..50).map(|i| 1000 - i / 10 * 20).collect();
        assert_eq!(is_steady(&slow), Some(true));
    }

    #[test]
    fn percentiles_need_requests_above_them() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|i| histogram.record(i * 1000));
        let latency = Latency::of(&histogram);
        assert!(latency.p99.is_some() && latency.p999.is_none());
        assert_eq!(latency.max, Some(1e-3));
    }
}
