//! What a run gave, as it stands in a result file (`diskwright.probe/1`).

use diskwright_base::Histogram;
use diskwright_base::arithmetic::{bytes_per_interrupt, elapsed_s};
use serde::{Deserialize, Deserializer, Serialize};

use crate::live::LiveInterval;
use crate::pattern::{Pace, Pattern, Placement};
use crate::run::RunOutcome;
use crate::steady;
use crate::tally::DirectionTally;

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

impl FailureCount {
    fn of(&(number, count): &(i32, u64)) -> FailureCount {
        FailureCount { number, what: std::io::Error::from_raw_os_error(number).to_string(), count }
    }
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

impl LateStart {
    fn of(lateness: &Histogram) -> Option<LateStart> {
        let most = lateness.most()? as f64;
        Some(LateStart { mean: lateness.mean()? * 1e-9, p99: lateness.quantile(0.99)? * 1e-9, max: most * 1e-9 })
    }
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
    /// Longest time without any answer while requests were outstanding, seconds.
    pub longest_silence_s: f64,
    /// What a closed loop hides: requests that were never made because others
    /// had not come back, at the run's own rate, in the longest silence.
    pub hidden_requests: Option<f64>,
    /// Whether rate settled down (see [`steady`]); `None` where the run was too short to say.
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

impl RunTimeline {
    fn of(stretches: &[LiveInterval]) -> Option<RunTimeline> {
        if stretches.len() < LEAST_COURSE {
            return None;
        }
        let mut course = RunTimeline::default();
        let mut until_s = 0.0;
        for stretch in stretches.iter().filter(|s| s.seconds > 0.0) {
            let seen = &stretch.seen;
            until_s += stretch.seconds;
            course.until_s.push(until_s);
            course.requests_per_s.push(seen.requests as f64 / stretch.seconds);
            course.bytes_per_s.push(seen.bytes as f64 / stretch.seconds);
            course.mean_s.push(seen.mean_s());
            course.max_s.push((seen.requests > 0).then_some(seen.longest_ns as f64 * 1e-9));
        }
        Some(course)
    }
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

/// Puts a run's counts in order.
pub fn result(pattern: &Pattern, outcome: &RunOutcome) -> RunResult {
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
        cpu_s_per_request: (requests > 0).then(|| outcome.cpu_s / requests as f64).filter(|cpu| cpu.is_finite()),
        cpu_share: Some(outcome.cpu_s / seconds).filter(|cpu| cpu.is_finite()),
        interrupts_per_request: interrupts,
        interrupt_share: share(kernel.interrupts, kernel.all_interrupts),
        bytes_per_interrupt: interrupts
            .map(|i| bytes_per_interrupt(bytes as f64, i * requests as f64))
            .filter(|b| b.is_finite()),
        context_switches_per_request: per_request(kernel.context_switches),
        disk_read_bytes: outcome.disk_read_bytes.filter(|_| pattern.buffered),
        from_memory_share: from_memory(pattern, outcome),
        longest_silence_s: silence,
        steady: steady::judge(&slices, outcome.seconds).map(|s| s.steady),
        failed: tally.failed(),
        short: tally.short,
        errors: tally.errors.iter().map(FailureCount::of).collect(),
        engine: outcome.engine.into(),
        engine_notes: outcome.engine_notes.clone(),
        late_start_s: LateStart::of(&tally.lateness),
        retried: tally.retried,
        lanes: outcome.lanes,
        unanswered: tally.unanswered,
        unanswered_s: tally.unanswered_ns as f64 * 1e-9,
        stopped: outcome.stopped,
        slices,
        distribution: distribution(&both),
        course: RunTimeline::of(&outcome.course),
        pattern: Some(pattern.clone()),
        ..RunResult::default()
    };
    name_pace(&mut run, &pattern.pace, silence * rate);
    run
}

/// The pace in short. Where requests wait for answers, `hidden` were not made.
fn name_pace(run: &mut RunResult, pace: &Pace, hidden: f64) {
    match *pace {
        Pace::Closed { depth } => {
            run.pace = "closed".into();
            run.depth = Some(depth);
            run.hidden_requests = Some(hidden);
        }
        Pace::Users { users, .. } | Pace::Cycles { users, .. } => {
            run.pace = if matches!(pace, Pace::Cycles { .. }) { "cycles" } else { "users" }.into();
            run.users = Some(users);
            run.hidden_requests = Some(hidden);
        }
        Pace::Open { rate_per_s, .. } => {
            run.pace = "open".into();
            run.offered_per_s = Some(rate_per_s);
        }
    }
}

fn share(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    Some(part? / whole?).filter(|s| s.is_finite())
}

/// Shares at which the distribution is told: even steps in the middle, then
/// three to each further nine.
const STEPS: &[f64] = &[
    0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995,
    0.9998, 0.9999, 0.99995, 0.99998, 0.99999,
];

fn distribution(histogram: &Histogram) -> Vec<(f64, f64)> {
    let count = histogram.count() as f64;
    // counted from above, so that the rounding of 1 - share does not decide
    let enough = |share: f64| share <= 0.5 || count * (1.0 - share) >= ABOVE - 1e-6;
    let at = |&share: &f64| Some((share, histogram.quantile(share)? * 1e-9));
    STEPS.iter().filter(|s| enough(**s)).filter_map(at).collect()
}

/// What memory answered of a buffered run's reads. The kernel's count covers
/// the ramp, so a run with one says nothing.
fn from_memory(pattern: &Pattern, outcome: &RunOutcome) -> Option<f64> {
    let asked = outcome.tally.reads.bytes as f64;
    let known = pattern.buffered && pattern.ramp.is_zero() && asked > 0.0;
    outcome.disk_read_bytes.filter(|_| known).map(|disk| (1.0 - disk / asked).max(0.0))
}

fn place(placement: &Placement) -> &'static str {
    match placement {
        Placement::Sequential { .. } => "sequential",
        Placement::Uniform => "uniform",
        Placement::Normal { .. } => "normal",
        Placement::Zipf { .. } => "zipf",
        Placement::Pareto { .. } => "pareto",
        Placement::Strided { .. } => "strided",
    }
}

fn direction(side: &DirectionTally, seconds: f64) -> Option<DirectionResult> {
    (side.requests > 0).then(|| DirectionResult {
        requests_per_s: side.requests as f64 / seconds,
        bytes_per_s: side.bytes as f64 / seconds,
        latency_s: Latency::of(&side.latency),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{MixStep, NormalSpread};

    fn outcome() -> RunOutcome {
        let mut tally = crate::tally::WorkerTally::default();
        (0..1000).for_each(|i| tally.answer(i % 4 == 0, 512, 1_000_000 + i, i * 1_000_000));
        RunOutcome { tally, seconds: 1.0, engine: "fake", lanes: 1, ..RunOutcome::default() }
    }

    #[test]
    fn a_result_holds_the_whole_pattern() {
        let places = [
            Placement::Sequential { streams: 3 },
            Placement::Uniform,
            Placement::Normal { mean: 0.1, deviation: 1.0 / 6.0 },
            Placement::Zipf { theta: 0.9 },
            Placement::Strided { stride_bytes: u64::MAX },
        ];
        let paces = [
            Pace::Closed { depth: 7 },
            Pace::Users { users: 20, think_s: 0.1, random: true },
            Pace::Cycles {
                users: 3,
                think_s: NormalSpread { mean: 0.1, deviation: 0.2 },
                requests: NormalSpread::fixed(4.0),
                compute_s: NormalSpread::default(),
            },
            Pace::Open { rate_per_s: 1.0 / 3.0, poisson: true },
        ];
        for (placement, pace) in places.iter().flat_map(|place| paces.iter().map(move |pace| (place, pace))) {
            let pattern = Pattern {
                name: "all \"of\" it".into(),
                placement: placement.clone(),
                pace: pace.clone(),
                sizes: vec![(512, 0.3), (8192, 0.7)],
                read_share: 0.1 + 0.2,
                align_bytes: 4096,
                from_bytes: 1 << 40,
                range_bytes: Some(12_345_678),
                buffered: true,
                warm: true,
                durable: crate::pattern::Durable::Fdatasync,
                ramp: std::time::Duration::from_nanos(123_456_789),
                lasts: std::time::Duration::new(3_600 * 24 * 30, 1),
                seed: u64::MAX,
                write_sizes: vec![(1 << 20, 1.0)],
                turns: vec![MixStep::Read, MixStep::Write],
                run_requests: 8,
                apart: true,
                scattered: true,
                sync_every: 3,
                most_bytes: Some(u64::MAX),
                most_outstanding: Some(32),
            };
            let text = serde_json::to_string(&result(&pattern, &outcome())).unwrap();
            let back: RunResult = serde_json::from_str(&text).unwrap();
            assert_eq!(back.pattern, Some(pattern), "{text}");
        }
    }

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
    fn interrupts_are_shared_out_as_in_doc_003() {
        // W21: of 426.5 interrupts a second 100 are the clock's; W22: 335,006.5 bytes a second by the
        // 724 of 1124 that are neither clock (100) nor network (300)
        let of = |bytes_per_s: f64, interrupts: f64, all: f64| {
            let mut tally = crate::tally::WorkerTally::default();
            tally.reads.requests = 100;
            tally.reads.bytes = (bytes_per_s * 2.0) as u64;
            let kernel = crate::run::Kernel {
                seconds: 1.0,
                interrupts: Some(interrupts),
                all_interrupts: Some(all),
                context_switches: None,
            };
            result(&Pattern::random_reads(512, 1), &RunOutcome { tally, seconds: 2.0, kernel, ..RunOutcome::default() })
        };
        assert!((of(1e6, 326.5, 426.5).interrupt_share.unwrap() - 0.7655).abs() < 1e-4);
        assert!((of(335_006.5, 724.0, 1124.0).bytes_per_interrupt.unwrap() - 462.7).abs() < 0.05);
        assert!((of(1_529_675.0, 3251.5, 3651.5).bytes_per_interrupt.unwrap() - 470.45).abs() < 0.01);
        assert_eq!(of(1e6, 0.0, 0.0).interrupt_share, None);
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
