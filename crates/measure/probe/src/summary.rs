//! Converts the counts of a run into its result.

use diskwright_base::Histogram;
use diskwright_base::arithmetic::bytes_per_interrupt;
use diskwright_results::result::{
    DirectionResult, FailureCount, LateStart, Latency, MIN_TIMELINE_INTERVALS, RunResult, RunTimeline, latency_steps,
};

use crate::live::LiveInterval;
use crate::pattern::{Pace, Pattern, Placement};
use crate::run::RunOutcome;
use crate::steadiness;
use crate::tally::{DirectionTally, WorkerTally};

/// Summarizes the counts of a run.
pub fn summarize_run(pattern: &Pattern, outcome: &RunOutcome) -> RunResult {
    let tally = &outcome.tally;
    let seconds = outcome.seconds.max(1e-9);
    let mut both = tally.reads.latency.clone();
    both.merge(&tally.writes.latency);
    let (requests, bytes) = (tally.reads.requests + tally.writes.requests, tally.reads.bytes + tally.writes.bytes);
    let kernel = &outcome.kernel;
    // the kernel's counts cover a little more time than the run, so they are used as a rate
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
        place: placement_name(&pattern.placement).into(),
        size_bytes: if requests > 0 { bytes as f64 / requests as f64 } else { f64::from(pattern.max_request_bytes()) },
        read_share: pattern.read_share,
        measured_s: outcome.seconds,
        requests_per_s: rate,
        bytes_per_s: bytes as f64 / seconds,
        latency_s: Latency::from_histogram(&both),
        reads: direction_result(&tally.reads, seconds),
        writes: direction_result(&tally.writes, seconds),
        cpu_s_per_request: (requests > 0).then(|| outcome.cpu_s / requests as f64).filter(|cpu| cpu.is_finite()),
        cpu_share: Some(outcome.cpu_s / seconds).filter(|cpu| cpu.is_finite()),
        interrupts_per_request: interrupts,
        interrupt_share: finite_ratio(kernel.interrupts, kernel.all_interrupts),
        bytes_per_interrupt: interrupts
            .map(|i| bytes_per_interrupt(bytes as f64, i * requests as f64))
            .filter(|b| b.is_finite()),
        context_switches_per_request: per_request(kernel.context_switches),
        disk_read_bytes: outcome.disk_read_bytes.filter(|_| pattern.buffered),
        from_memory_share: memory_share(pattern, outcome),
        longest_silence_s: silence,
        steady: steadiness::judge_slices(&slices, outcome.seconds).map(|s| s.steady),
        failed: tally.failed_requests(),
        short_transfers: tally.short,
        errors: tally.errors.iter().map(to_failure_count).collect(),
        engine: outcome.engine.into(),
        engine_notes: outcome.engine_notes.clone(),
        late_start_s: late_start(&tally.lateness),
        retried: tally.retried,
        workers: outcome.workers,
        unsent: tally.unsent,
        unanswered: tally.unanswered,
        unanswered_s: tally.unanswered_ns as f64 * 1e-9,
        stopped: outcome.stopped,
        slices,
        distribution: latency_quantiles(&both),
        timeline: run_timeline(&outcome.timeline),
        pattern: Some(pattern.clone()),
        ..histogram_result(tally)
    };
    // only one worker was silent: its share of the requests was not sent
    set_pace(&mut run, &pattern.pace, silence * rate / f64::from(outcome.workers.max(1)));
    run
}

/// Returns a result that holds only the latency histograms.
fn histogram_result(tally: &WorkerTally) -> RunResult {
    RunResult {
        read_histogram: latency_steps(&tally.reads.latency),
        write_histogram: latency_steps(&tally.writes.latency),
        ..RunResult::default()
    }
}

/// Sets the pace of the result. In closed loops, `hidden` requests were not sent during the longest silence.
fn set_pace(run: &mut RunResult, pace: &Pace, hidden: f64) {
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

fn finite_ratio(part: Option<f64>, total: Option<f64>) -> Option<f64> {
    Some(part? / total?).filter(|s| s.is_finite())
}

/// Shares at which the distribution is reported: even steps in the middle, then three steps for each
/// further digit 9.
const QUANTILE_STEPS: &[f64] = &[
    0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995,
    0.9998, 0.9999, 0.99995, 0.99998, 0.99999,
];

fn latency_quantiles(histogram: &Histogram) -> Vec<(f64, f64)> {
    let quantile = |&share: &f64| Some((share, histogram.percentile(share)? * 1e-9));
    QUANTILE_STEPS.iter().filter_map(quantile).collect()
}

/// Returns the share of a buffered run's reads that memory served. The kernel's count covers the
/// ramp, so a run with one gives `None`.
fn memory_share(pattern: &Pattern, outcome: &RunOutcome) -> Option<f64> {
    let requested = outcome.tally.reads.bytes as f64;
    let is_known = pattern.buffered && pattern.ramp.is_zero() && requested > 0.0;
    outcome.disk_read_bytes.filter(|_| is_known).map(|disk| (1.0 - disk / requested).max(0.0))
}

fn placement_name(placement: &Placement) -> &'static str {
    match placement {
        Placement::Sequential { .. } => "sequential",
        Placement::Uniform => "uniform",
        Placement::Normal { .. } => "normal",
        Placement::Zipf { .. } => "zipf",
        Placement::Pareto { .. } => "pareto",
        Placement::Strided { .. } => "strided",
    }
}

fn direction_result(side: &DirectionTally, seconds: f64) -> Option<DirectionResult> {
    (side.requests > 0).then(|| DirectionResult {
        requests_per_s: side.requests as f64 / seconds,
        bytes_per_s: side.bytes as f64 / seconds,
        latency_s: Latency::from_histogram(&side.latency),
    })
}

fn to_failure_count(&(number, count): &(i32, u64)) -> FailureCount {
    FailureCount { number, message: std::io::Error::from_raw_os_error(number).to_string(), count }
}

/// Summarizes a histogram of late starts in nanoseconds.
fn late_start(lateness: &Histogram) -> Option<LateStart> {
    let max_ns = lateness.max()? as f64;
    Some(LateStart { mean: lateness.mean()? * 1e-9, p99: lateness.quantile(0.99)? * 1e-9, max: max_ns * 1e-9 })
}

/// Converts the intervals of a run into its timeline; `None` if there are fewer than [`MIN_TIMELINE_INTERVALS`].
fn run_timeline(intervals: &[LiveInterval]) -> Option<RunTimeline> {
    if intervals.len() < MIN_TIMELINE_INTERVALS {
        return None;
    }
    let mut timeline = RunTimeline::default();
    let mut until_s = 0.0;
    for interval in intervals.iter().filter(|s| s.seconds > 0.0) {
        let totals = &interval.totals;
        until_s += interval.seconds;
        timeline.until_s.push(until_s);
        timeline.requests_per_s.push(totals.requests as f64 / interval.seconds);
        timeline.bytes_per_s.push(totals.bytes as f64 / interval.seconds);
        timeline.mean_s.push(totals.mean_latency_s());
        timeline.max_s.push((totals.requests > 0).then_some(totals.longest_ns as f64 * 1e-9));
    }
    Some(timeline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{MixStep, NormalSpread};

    fn outcome() -> RunOutcome {
        let mut tally = crate::tally::WorkerTally::default();
        (0..1000).for_each(|i| tally.record_completion(i % 4 == 0, 512, 1_000_000 + i, i * 1_000_000));
        RunOutcome { tally, seconds: 1.0, engine: "fake", workers: 1, ..RunOutcome::default() }
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
                durable: crate::pattern::Durability::Fdatasync,
                ramp: std::time::Duration::from_nanos(123_456_789),
                duration: std::time::Duration::new(3_600 * 24 * 30, 1),
                seed: u64::MAX,
                write_sizes: vec![(1 << 20, 1.0)],
                read_write_order: vec![MixStep::Read, MixStep::Write],
                run_requests: 8,
                separate_positions: true,
                scattered: true,
                sync_every: 3,
                max_bytes: Some(u64::MAX),
                max_in_flight: Some(32),
            };
            let text = serde_json::to_string(&summarize_run(&pattern, &outcome())).unwrap();
            let back: RunResult = serde_json::from_str(&text).unwrap();
            assert_eq!(back.pattern, Some(pattern), "{text}");
        }
    }

    #[test]
    fn a_silent_worker_hides_its_own_share_of_the_requests() {
        // 1000 a second by four workers, of which one waits for half a second
        let hidden = |workers: u32| {
            let mut outcome = RunOutcome { workers, ..outcome() };
            outcome.tally.longest_silence_ns = 500_000_000;
            summarize_run(&Pattern::random_reads(512, 4), &outcome).hidden_requests
        };
        assert_eq!((hidden(1), hidden(4)), (Some(500.0), Some(125.0)));
    }

    #[test]
    fn interrupt_shares_match_the_published_examples() {
        // W21: of 426.5 interrupts a second 100 are the clock's; W22: 335,006.5 bytes a second by the
        // 724 of 1124 that are neither clock (100) nor network (300)
        let of = |bytes_per_s: f64, interrupts: f64, all: f64| {
            let mut tally = crate::tally::WorkerTally::default();
            tally.reads.requests = 100;
            tally.reads.bytes = (bytes_per_s * 2.0) as u64;
            let kernel = crate::run::KernelCounts {
                seconds: 1.0,
                interrupts: Some(interrupts),
                all_interrupts: Some(all),
                context_switches: None,
            };
            summarize_run(
                &Pattern::random_reads(512, 1),
                &RunOutcome { tally, seconds: 2.0, kernel, ..RunOutcome::default() },
            )
        };
        assert!((of(1e6, 326.5, 426.5).interrupt_share.unwrap() - 0.7655).abs() < 1e-4);
        assert!((of(335_006.5, 724.0, 1124.0).bytes_per_interrupt.unwrap() - 462.7).abs() < 0.05);
        assert!((of(1_529_675.0, 3251.5, 3651.5).bytes_per_interrupt.unwrap() - 470.45).abs() < 0.01);
        assert_eq!(of(1e6, 0.0, 0.0).interrupt_share, None);
    }
}
