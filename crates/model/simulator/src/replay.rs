//! Replays a measured trace on a drive and compares the distributions of predicted and measured response times.
//!
//! A trace of this kind is closed at queue depth 1: each request was issued when the previous one was done and a pause
//! had passed. The replay keeps the pauses, not the issue times.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Ns;
use crate::drive::{CacheOutcome, MechanicalDrive, Model, ServiceBreakdown};
use crate::io::Io;

/// A measured request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayRequest {
    /// The requested I/O.
    pub io: Io,
    /// Measured response time, ns.
    pub response_ns: Ns,
    /// Time from its completion to the next request, ns.
    pub pause_ns: Ns,
}

/// Sums over one kind of requests, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReplaySums {
    /// Number of requests.
    pub requests: u64,
    /// Sum of the measured response times.
    pub measured_s: f64,
    /// Sum of the predicted response times.
    pub predicted_s: f64,
}

impl ReplaySums {
    fn add_request(&mut self, measured: Ns, predicted: Ns) {
        self.requests += 1;
        self.measured_s += ns_to_s(measured);
        self.predicted_s += ns_to_s(predicted);
    }
}

/// Components of the predicted time, sums in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeBreakdown {
    /// Waiting for the drive's background work.
    pub waiting_s: f64,
    /// Command overhead of the drive's processor.
    pub overhead_s: f64,
    /// Seeks and head switches.
    pub seek_s: f64,
    /// Rotational latency.
    pub rotation_s: f64,
    /// Media transfer.
    pub media_s: f64,
    /// Channel transfer that nothing else overlapped.
    pub channel_s: f64,
}

/// Result of a replay.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// Measured response times, in the order of the trace.
    pub measured_ns: Vec<Ns>,
    /// Predicted response times, in the same order.
    pub predicted_ns: Vec<Ns>,
    /// Reads.
    pub reads: ReplaySums,
    /// Writes.
    pub writes: ReplaySums,
    /// By cache result in the model, in the order of [`CacheOutcome::ALL`].
    pub by_hit: [ReplaySums; 4],
    /// Components of the predicted time.
    pub spent: TimeBreakdown,
}

fn ns_to_s(time: Ns) -> f64 {
    time as f64 / 1e9
}

impl Replay {
    /// Replays requests on an idle drive.
    pub fn replay_requests(model: &Arc<Model>, requests: impl IntoIterator<Item = ReplayRequest>) -> Replay {
        let mut drive = MechanicalDrive::new(model);
        let mut replay = Replay::default();
        let mut now = 0;
        for request in requests {
            let service = drive.start(now, &request.io);
            replay.add_request(&request, &service, service.done_at - now);
            now = service.done_at + request.pause_ns;
        }
        replay
    }

    fn add_request(&mut self, request: &ReplayRequest, service: &ServiceBreakdown, predicted: Ns) {
        self.measured_ns.push(request.response_ns);
        self.predicted_ns.push(predicted);
        let sums = if request.io.write { &mut self.writes } else { &mut self.reads };
        sums.add_request(request.response_ns, predicted);
        self.by_hit[service.outcome as usize].add_request(request.response_ns, predicted);
        let spent = &mut self.spent;
        spent.waiting_s += ns_to_s(service.waiting);
        spent.overhead_s += ns_to_s(service.overhead);
        spent.seek_s += ns_to_s(service.seek);
        spent.rotation_s += ns_to_s(service.rotation);
        spent.media_s += ns_to_s(service.media);
        spent.channel_s += ns_to_s(service.channel);
    }

    /// Mean of the measured response times, seconds; `None` without requests.
    pub fn measured_mean_s(&self) -> Option<f64> {
        mean_s(&self.measured_ns)
    }

    /// Mean of the predicted response times, seconds.
    pub fn predicted_mean_s(&self) -> Option<f64> {
        mean_s(&self.predicted_ns)
    }

    /// Distance of the two distributions, seconds.
    pub fn demerit_s(&self) -> Option<f64> {
        demerit_s(&self.measured_ns, &self.predicted_ns)
    }
}

fn mean_s(times: &[Ns]) -> Option<f64> {
    let sum: f64 = times.iter().map(|t| *t as f64).sum();
    (!times.is_empty()).then(|| sum / times.len() as f64 / 1e9)
}

/// Cache hits needed to derive a block time.
const MIN_CACHE_HITS: usize = 20;

/// Estimates the transfer time of a block on the channel of the measured machine, for reads and for writes, ns, for a
/// drive whose specification lacks it. It is the extra time per extra block of requests that the drive's cache served,
/// which wait only for the drive's processor. `model` is the drive with a channel that takes no time. Without such
/// writes, writes are assumed to be as fast as reads; `None` with fewer than twenty such reads.
pub fn channel_block_time(model: &Arc<Model>, requests: &[ReplayRequest]) -> Option<(Ns, Ns)> {
    let mut drive = MechanicalDrive::new(model);
    let mut found: [BTreeMap<u32, Vec<Ns>>; 2] = Default::default();
    let mut now = 0;
    for request in requests {
        let service = drive.start(now, &request.io);
        let predicted = service.done_at - now;
        if matches!(service.outcome, CacheOutcome::Full | CacheOutcome::Early)
            && service.waiting == 0
            && request.response_ns > predicted
        {
            let blocks = request.io.blocks.max(1);
            found[usize::from(request.io.write)].entry(blocks).or_default().push(request.response_ns - predicted);
        }
        now = service.done_at + request.pause_ns;
    }
    let [reads, writes] = found.map(block_time_slope);
    reads.map(|read| (read, writes.unwrap_or(read)))
}

/// Largest number of request sizes whose pairs are compared: the most frequent ones.
const MAX_HIT_SIZES: usize = 500;

/// Returns the slope of the line through the median times of each request size, ns per block: the constant part is not
/// the channel's. With a single size, the whole time counts.
///
/// The slope is the weighted median of those of all pairs of sizes (Sen, "Estimates of the regression coefficient based
/// on Kendall's tau", JASA 63, 1968; with weights Sievers, "Weighted rank statistics for simple linear regression",
/// JASA 73, 1978). A pair weighs as much as its distance times the requests of its rarer size. So a few large requests
/// that waited for the disk after all do not tilt the line, as they tilt one of least squares.
fn block_time_slope(found: BTreeMap<u32, Vec<Ns>>) -> Option<Ns> {
    let hit_count: usize = found.values().map(Vec::len).sum();
    if hit_count < MIN_CACHE_HITS {
        return None;
    }
    let median = |(blocks, mut times): (u32, Vec<Ns>)| {
        let (count, middle) = (times.len() as f64, times.len() / 2);
        (f64::from(blocks), *times.select_nth_unstable(middle).1 as f64, count)
    };
    // blocks, median time and number of requests
    let mut points: Vec<(f64, f64, f64)> = found.into_iter().map(median).collect();
    points.sort_by(|a, b| b.2.total_cmp(&a.2));
    points.truncate(MAX_HIT_SIZES);
    let mut slopes: Vec<(f64, f64)> = Vec::with_capacity(points.len() * points.len() / 2);
    for (index, (blocks, time, count)) in points.iter().enumerate() {
        for (other_blocks, other_time, other_count) in &points[..index] {
            let distance = blocks - other_blocks;
            slopes.push(((time - other_time) / distance, distance.abs() * count.min(*other_count)));
        }
    }
    let slope = weighted_median(slopes).or_else(|| points.first().map(|(blocks, time, _)| time / blocks))?;
    Some(slope.max(0.0).round() as Ns)
}

/// Returns the value at which half of the weight is reached; the second number of each pair is a weight.
fn weighted_median(mut values: Vec<(f64, f64)>) -> Option<f64> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|value| value.1).sum::<f64>() / 2.0;
    let mut weight = 0.0;
    let is_reached = |value: &&(f64, f64)| {
        weight += value.1;
        weight >= half
    };
    values.iter().find(is_reached).map(|value| value.0)
}

/// The demerit figure of Ruemmler and Wilkes, "An introduction to disk drive modeling" (IEEE Computer, March 1994): the
/// root mean square of the horizontal distance between two cumulative distributions, seconds. With equal numbers of
/// requests that is the distance between the sorted times, one by one. `None` without requests, or with different
/// numbers of them.
pub fn demerit_s(measured: &[Ns], predicted: &[Ns]) -> Option<f64> {
    if measured.is_empty() || measured.len() != predicted.len() {
        return None;
    }
    let sorted = |times: &[Ns]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        times
    };
    let squares =
        sorted(measured).iter().zip(sorted(predicted)).map(|(m, p)| ns_to_s(m.abs_diff(p)).powi(2)).sum::<f64>();
    Some((squares / measured.len() as f64).sqrt())
}
