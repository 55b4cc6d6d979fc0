//! What a run gave, as it stands in a result file (`diskwright.probe/1`).

use diskwright_base::arithmetic::elapsed_s;
use diskwright_base::latency::edges;
use diskwright_base::{Histogram, LatencyHistogram};
use serde::{Deserialize, Deserializer, Serialize};

use crate::pattern::Pattern;

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

impl Latency {
    /// Of a histogram of nanoseconds.
    pub fn of(histogram: &Histogram) -> Latency {
        let quantile = |share: f64| histogram.percentile(share).map(|ns| ns * 1e-9);
        Latency {
            mean: histogram.mean().map(|ns| ns * 1e-9),
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            p9999: quantile(0.9999),
            p99999: quantile(0.99999),
            min: histogram.least().map(|ns| ns as f64 * 1e-9),
            max: histogram.most().map(|ns| ns as f64 * 1e-9),
        }
    }
}

/// A step of a distribution of latency: those of `trace` and of logs, so that they can be added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyStep {
    /// From so many seconds on.
    pub from_s: f64,
    /// To below so many.
    pub to_s: f64,
    /// Requests.
    pub count: u64,
}

/// The steps of a histogram of nanoseconds that have any.
pub fn steps_of(histogram: &Histogram) -> Vec<LatencyStep> {
    let step = |(step, count)| {
        let (from, to) = edges(step);
        LatencyStep { from_s: from as f64 / 1e9, to_s: to as f64 / 1e9, count }
    };
    LatencyHistogram::of(histogram).steps().map(step).collect()
}

/// One direction of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionResult {
    /// Requests a second.
    pub requests_per_s: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Latency, seconds.
    pub latency_s: Latency,
}

/// Requests that failed for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureCount {
    /// The system's error number.
    pub number: i32,
    /// What it means.
    pub what: String,
    /// How many.
    pub count: u64,
}

/// How late requests started, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LateStart {
    /// Mean.
    pub mean: f64,
    /// 99 of 100 started earlier after they were due.
    pub p99: f64,
    /// The latest.
    pub max: f64,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Name in its suite.
    pub name: String,
    /// `sequential`, `uniform`, `normal`, `zipf`, `pareto`, `strided`.
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
    pub reads: Option<DirectionResult>,
    /// Writes alone, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<DirectionResult>,
    /// Processor time of the probe and the kernel on its behalf, seconds a request.
    pub cpu_s_per_request: Option<f64>,
    /// Share of one processor that this is.
    pub cpu_share: Option<f64>,
    /// Interrupts of the machine less those of clock and network, by request.
    pub interrupts_per_request: Option<f64>,
    /// Share of these in all interrupts of the machine.
    #[serde(default)]
    pub interrupt_share: Option<f64>,
    /// Bytes moved for each such interrupt.
    pub bytes_per_interrupt: Option<f64>,
    /// Context switches of the machine, by request.
    pub context_switches_per_request: Option<f64>,
    /// Through the page cache: bytes that the kernel read from disks meanwhile (read-ahead
    /// included), and the share of what was read that memory answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_read_bytes: Option<f64>,
    /// See above; 0 where read-ahead brought more than was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_memory_share: Option<f64>,
    /// Longest time in which a lane got no answer while it had requests outstanding, seconds.
    pub longest_silence_s: f64,
    /// What a closed loop hides: requests that this lane never made because others had not
    /// come back in the longest silence, at its share of the run's own rate.
    pub hidden_requests: Option<f64>,
    /// Whether the rate settled down; `None` where the run was too short to say.
    pub steady: Option<bool>,
    /// Requests that failed, and requests that moved less than asked.
    pub failed: u64,
    /// Requests that moved fewer bytes than asked.
    pub short: u64,
    /// What the system said of those that failed, and how often.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FailureCount>,
    /// `io_uring` or `threads`.
    pub engine: String,
    /// What kept the engine from its best or from what was asked, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engine_notes: Vec<String>,
    /// By how much requests started later than they were due for reasons of
    /// ours (waking up, serving others); in an open loop this is in their
    /// latency. Open loops and users only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_start_s: Option<LateStart>,
    /// Requests that were made again because the system said to try again.
    #[serde(default)]
    pub retried: u64,
    /// Requests of an open loop that were due in the measured time and never made, because too
    /// many were outstanding; they are in no latency.
    #[serde(default)]
    pub unsent: u64,
    /// Threads.
    pub lanes: u32,
    /// Requests without an answer when they were given up.
    #[serde(default)]
    pub unanswered: u64,
    /// How long the oldest of them had been in flight, seconds.
    #[serde(default)]
    pub unanswered_s: f64,
    /// It was stopped before its time.
    pub stopped: bool,
    /// Requests in each tenth of a second.
    pub slices: Vec<u64>,
    /// Latency at steps of its distribution: share of the requests that took
    /// at most so many seconds. Steps with fewer than ten requests above are not there.
    #[serde(default)]
    pub distribution: Vec<(f64, f64)>,
    /// Reads by steps of their latency.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_histogram: Vec<LatencyStep>,
    /// Writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write_histogram: Vec<LatencyStep>,
    /// How it went over time, of runs of [`LEAST_COURSE`] stretches and more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<RunTimeline>,
    /// Seconds that the document's `moving_bytes` take at this rate in requests of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving_s: Option<f64>,
    /// Everything that was asked: what the fields above tell in part. `None` in
    /// files of before there was such a field, and where a newer version asked
    /// for what this one does not know.
    #[serde(default, deserialize_with = "known_pattern")]
    pub pattern: Option<Pattern>,
    /// Names of the runs that were made at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// Names of the runs that this one sums up; they were made at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub combines: Vec<String>,
    /// What it was made on, where that is not the document's target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// Stretches from which on a run's course is kept.
pub const LEAST_COURSE: usize = 10;

/// A run over time, column by column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunTimeline {
    /// Ends of the stretches, seconds after measuring began.
    pub until_s: Vec<f64>,
    /// Requests a second.
    pub requests_per_s: Vec<f64>,
    /// Bytes a second.
    pub bytes_per_s: Vec<f64>,
    /// Mean latency, seconds; `None` where nothing was answered.
    pub mean_s: Vec<Option<f64>>,
    /// Longest latency, seconds.
    pub max_s: Vec<Option<f64>>,
}

fn known_pattern<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Pattern>, D::Error> {
    let told = Option::<serde_json::Value>::deserialize(deserializer)?;
    Ok(told.and_then(|pattern| serde_json::from_value(pattern).ok()))
}

impl RunResult {
    /// Seconds that so many bytes take at this run's rate, in requests of its
    /// size (NT Resource Kit's elapsed times); `None` where nothing was moved.
    pub fn moving_s(&self, bytes: f64) -> Option<f64> {
        let seconds = elapsed_s(bytes, self.size_bytes, self.requests_per_s);
        Some(seconds).filter(|s| s.is_finite())
    }

    /// The first field that holds what cannot be, and why: for results that
    /// were read from a file.
    pub fn fault(&self) -> Option<(&'static str, String)> {
        let latency = &self.latency_s;
        let fields = [
            ("size_bytes", Some(self.size_bytes)),
            ("measured_s", Some(self.measured_s)),
            ("requests_per_s", Some(self.requests_per_s)),
            ("bytes_per_s", Some(self.bytes_per_s)),
            ("longest_silence_s", Some(self.longest_silence_s)),
            ("latency_s.mean", latency.mean),
            ("latency_s.p50", latency.p50),
            ("latency_s.p95", latency.p95),
            ("latency_s.p99", latency.p99),
            ("latency_s.p999", latency.p999),
            ("latency_s.max", latency.max),
            ("cpu_s_per_request", self.cpu_s_per_request),
        ];
        if let Some((field, value)) = fields.into_iter().find(|(_, v)| v.is_some_and(|v| v < 0.0)) {
            return Some((field, format!("{} is less than 0", value.unwrap_or(f64::NAN))));
        }
        let is_share = (0.0..=1.0).contains(&self.read_share);
        (!is_share).then(|| ("read_share", format!("{} is not between 0 and 1", self.read_share)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_times_are_those_of_doc_003() {
        // W23: 20,480,000 bytes in 512 B reads at 655 a second, and in 64 KB reads at 23.4
        let run = |size_bytes, requests_per_s| RunResult { size_bytes, requests_per_s, ..RunResult::default() };
        assert!((run(512.0, 655.0).moving_s(20_480_000.0).unwrap() - 61.07).abs() < 0.005);
        // printed 13.34
        assert!((run(65_536.0, 23.4).moving_s(20_480_000.0).unwrap() - 13.35).abs() < 0.005);
        assert_eq!(run(512.0, 0.0).moving_s(20_480_000.0), None);
    }

    #[test]
    fn percentiles_need_requests_above_them() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|i| histogram.record(i * 1000));
        let latency = Latency::of(&histogram);
        let steps = steps_of(&histogram);
        assert_eq!(steps.iter().map(|step| step.count).sum::<u64>(), 1000);
        assert!(steps.windows(2).all(|pair| pair[0].to_s <= pair[1].from_s) && steps[0].from_s == 0.0);
        assert!(latency.p99.is_some() && latency.p999.is_none());
        assert_eq!(latency.max, Some(1e-3));
    }

    #[test]
    fn exactly_ten_requests_above_a_percentile_are_enough() {
        // 1 - 0.9999 and 1 - 0.99999 are a little less than 0.0001 and 0.00001
        let of = |count: u64| {
            let mut histogram = Histogram::new();
            histogram.record_many(1000, count);
            Latency::of(&histogram)
        };
        assert!(of(100_000).p9999.is_some() && of(99_999).p9999.is_none());
        assert!(of(1_000_000).p99999.is_some() && of(999_999).p99999.is_none());
    }
}
