//! Result of a run, as stored in a result file (`diskwright.probe/1`).

use diskwright_base::arithmetic::transfer_time_s;
use diskwright_base::latency::bucket_edges;
use diskwright_base::{Histogram, LatencyHistogram};
use serde::{Deserialize, Deserializer, Serialize};

use crate::pattern::Pattern;

/// Latency, seconds. `None` if nothing was measured; a percentile exists only
/// if at least ten requests are above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// 99.99th percentile.
    pub p9999: Option<f64>,
    /// 99.999th percentile.
    pub p99999: Option<f64>,
    /// Latency of the fastest request.
    pub min: Option<f64>,
    /// Latency of the slowest request.
    pub max: Option<f64>,
}

impl Latency {
    /// Computes the latency from a histogram of nanoseconds.
    pub fn from_histogram(histogram: &Histogram) -> Latency {
        let quantile = |share: f64| histogram.percentile(share).map(|ns| ns * 1e-9);
        Latency {
            mean: histogram.mean().map(|ns| ns * 1e-9),
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            p9999: quantile(0.9999),
            p99999: quantile(0.99999),
            min: histogram.min().map(|ns| ns as f64 * 1e-9),
            max: histogram.max().map(|ns| ns as f64 * 1e-9),
        }
    }
}

/// A step of a latency distribution, with the edges of `trace` and of logs, so that counts can be added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyStep {
    /// Lower edge (included), seconds.
    pub from_s: f64,
    /// Upper edge (excluded), seconds.
    pub to_s: f64,
    /// Number of requests.
    pub count: u64,
}

/// Returns the steps of a histogram of nanoseconds that contain requests.
pub fn latency_steps(histogram: &Histogram) -> Vec<LatencyStep> {
    let step = |(step, count)| {
        let (from, to) = bucket_edges(step);
        LatencyStep { from_s: from as f64 / 1e9, to_s: to as f64 / 1e9, count }
    };
    LatencyHistogram::from_histogram(histogram).nonempty_buckets().map(step).collect()
}

/// Result of the reads or the writes of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionResult {
    /// Requests per second.
    pub requests_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Latency, seconds.
    pub latency_s: Latency,
}

/// Number of requests that failed for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureCount {
    /// The system's error number.
    pub number: i32,
    /// Meaning of the error.
    #[serde(rename = "what")]
    pub message: String,
    /// Number of requests.
    pub count: u64,
}

/// Delay of the requests' starts, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LateStart {
    /// Mean delay.
    pub mean: f64,
    /// 99th percentile of the delay.
    pub p99: f64,
    /// Largest delay.
    pub max: f64,
}

/// Result of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Name in its suite.
    pub name: String,
    /// `sequential`, `uniform`, `normal`, `zipf`, `pareto`, `strided`.
    pub place: String,
    /// `closed`, `users`, `open`.
    #[serde(rename = "loop")]
    pub pace: String,
    /// Queue depth, with closed arrivals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Number of users, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<u32>,
    /// Requested rate with open arrivals, requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_per_s: Option<f64>,
    /// Mean size of a request, bytes.
    pub size_bytes: f64,
    /// Share of reads.
    pub read_share: f64,
    /// Measured time, seconds.
    pub measured_s: f64,
    /// Requests per second, reads and writes.
    pub requests_per_s: f64,
    /// Bytes per second, reads and writes.
    pub bytes_per_s: f64,
    /// Latency of reads and writes, seconds.
    pub latency_s: Latency,
    /// Result of the reads, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<DirectionResult>,
    /// Result of the writes, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<DirectionResult>,
    /// Processor time of the probe, including kernel time, seconds per request.
    pub cpu_s_per_request: Option<f64>,
    /// This processor time as a share of one processor.
    pub cpu_share: Option<f64>,
    /// Interrupts of the machine without those of clock and network, per request.
    pub interrupts_per_request: Option<f64>,
    /// These interrupts as a share of all interrupts of the machine.
    #[serde(default)]
    pub interrupt_share: Option<f64>,
    /// Bytes transferred per such interrupt.
    pub bytes_per_interrupt: Option<f64>,
    /// Context switches of the machine, per request.
    pub context_switches_per_request: Option<f64>,
    /// For buffered runs: bytes that the kernel read from disks during the run, including read-ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_read_bytes: Option<f64>,
    /// For buffered runs: share of the read bytes that came from memory; 0 if read-ahead read more than was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_memory_share: Option<f64>,
    /// Longest time without a completion of a worker that had requests in flight, seconds.
    pub longest_silence_s: f64,
    /// Requests hidden by closed arrivals: those that this worker did not make during the longest
    /// silence, at its share of the run's rate.
    pub hidden_requests: Option<f64>,
    /// True if the rate became steady; `None` if the run was too short to decide.
    pub steady: Option<bool>,
    /// Number of failed requests.
    pub failed: u64,
    /// Number of requests that transferred fewer bytes than requested.
    #[serde(rename = "short")]
    pub short_transfers: u64,
    /// Errors of the failed requests with their counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FailureCount>,
    /// `io_uring` or `threads`.
    pub engine: String,
    /// Sentences that say why the engine could not work at its best, or could not make the requested load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engine_notes: Vec<String>,
    /// Delays of requests caused by the probe itself (waking up, serving other
    /// requests); with open arrivals they are part of the latency. Only for open
    /// arrivals and users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_start_s: Option<LateStart>,
    /// Number of requests that were repeated because the system asked to try again.
    #[serde(default)]
    pub retried: u64,
    /// Requests of open arrivals that were due in the measured time and never made, because too
    /// many were in flight; they are in no latency.
    #[serde(default)]
    pub unsent: u64,
    /// Number of worker threads.
    #[serde(rename = "lanes")]
    pub workers: u32,
    /// Number of requests that were abandoned without a completion.
    #[serde(default)]
    pub unanswered: u64,
    /// Time in flight of the oldest abandoned request, seconds.
    #[serde(default)]
    pub unanswered_s: f64,
    /// True if the run was stopped early.
    pub stopped: bool,
    /// Number of requests in each tenth of a second.
    pub slices: Vec<u64>,
    /// Points of the latency distribution: share of the requests, and the seconds that they
    /// took at most. Points with fewer than ten requests above are omitted.
    #[serde(default)]
    pub distribution: Vec<(f64, f64)>,
    /// Number of reads by steps of latency.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_histogram: Vec<LatencyStep>,
    /// Number of writes by steps of latency.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write_histogram: Vec<LatencyStep>,
    /// Timeline, for runs of at least [`MIN_TIMELINE_INTERVALS`] intervals.
    #[serde(rename = "course", default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<RunTimeline>,
    /// Time for transferring the document's `moving_bytes` at this rate in requests of this size, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving_s: Option<f64>,
    /// The complete load, which the fields above contain in part. `None` in
    /// files from before this field, and for patterns of a newer version that
    /// this one does not know.
    #[serde(default, deserialize_with = "known_pattern")]
    pub pattern: Option<Pattern>,
    /// Names of the runs that were made at the same time.
    #[serde(rename = "beside", default, skip_serializing_if = "Vec::is_empty")]
    pub concurrent_runs: Vec<String>,
    /// Names of the simultaneous runs that this one combines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub combines: Vec<String>,
    /// Target of the run, if it is not the document's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// Smallest number of intervals for which a run's timeline is stored.
pub const MIN_TIMELINE_INTERVALS: usize = 10;

/// Timeline of a run, in columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunTimeline {
    /// Ends of the intervals, seconds from the start of measuring.
    pub until_s: Vec<f64>,
    /// Requests per second.
    pub requests_per_s: Vec<f64>,
    /// Bytes per second.
    pub bytes_per_s: Vec<f64>,
    /// Mean latency, seconds; `None` if nothing was completed.
    pub mean_s: Vec<Option<f64>>,
    /// Longest latency, seconds.
    pub max_s: Vec<Option<f64>>,
}

/// Deserializes a pattern; `None` if this version does not know it.
fn known_pattern<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Pattern>, D::Error> {
    let value = Option::<serde_json::Value>::deserialize(deserializer)?;
    Ok(value.and_then(|pattern| serde_json::from_value(pattern).ok()))
}

impl RunResult {
    /// Returns the time for transferring `bytes` at this run's rate, in requests of its
    /// size (elapsed times of the NT Resource Kit), seconds; `None` if nothing was transferred.
    pub fn moving_s(&self, bytes: f64) -> Option<f64> {
        let seconds = transfer_time_s(bytes, self.size_bytes, self.requests_per_s);
        Some(seconds).filter(|s| s.is_finite())
    }

    /// Finds the first field with an impossible value, and describes the fault. Used for results
    /// that were read from a file.
    pub fn find_fault(&self) -> Option<(&'static str, String)> {
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
    fn elapsed_times_match_doc_003() {
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
        let latency = Latency::from_histogram(&histogram);
        let steps = latency_steps(&histogram);
        assert_eq!(steps.iter().map(|step| step.count).sum::<u64>(), 1000);
        assert!(steps.windows(2).all(|pair| pair[0].to_s <= pair[1].from_s) && steps[0].from_s == 0.0);
        assert!(latency.p99.is_some() && latency.p999.is_none());
        assert_eq!(latency.max, Some(1e-3));
    }

    #[test]
    fn exactly_ten_requests_above_a_percentile_are_enough() {
        // 1 - 0.9999 and 1 - 0.99999 are a little less than 0.0001 and 0.00001
        let latency_of = |count: u64| {
            let mut histogram = Histogram::new();
            histogram.record_many(1000, count);
            Latency::from_histogram(&histogram)
        };
        assert!(latency_of(100_000).p9999.is_some() && latency_of(99_999).p9999.is_none());
        assert!(latency_of(1_000_000).p99999.is_some() && latency_of(999_999).p99999.is_none());
    }
}
