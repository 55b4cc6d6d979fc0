//! Stability: how rate and latency change under a load that lasts long.

use std::time::Duration;

use super::{Suite, SuiteSession, SuiteTime, Writes, format_quantity};
use crate::error::ProbeError;
use crate::pattern::{Pattern, Placement};
use crate::result::Latency;
use crate::steadiness;

/// Number of parts of the whole time.
const PART_COUNT: u32 = 12;
/// Largest number of windows per part in which steps are searched.
const MAX_WINDOWS_PER_PART: usize = 20;
/// Smallest number of windows in which a step can be found.
const MIN_WINDOWS: usize = 5;
/// Change from the first part to the last below which a rate counts as constant, as a share.
const MIN_DRIFT: f64 = 0.05;

/// The suite `stability`.
pub const STABILITY: Suite = Suite {
    id: "stability",
    title: "throughput and tail latency over a long time, an hour with --for 1h",
    explain: "One load (random 4 KiB at queue depth 16, 70 % reads if writing is allowed) for five minutes, or for \
              the time of --for; the full version takes an hour. It is measured in twelve parts without a pause, each \
              with its own tail. Heat, a full cache, a cloud volume that runs out of credits, and flash that runs out \
              of erased blocks all show late, most of them as a step.",
    good: "The last part is as fast as the first. The rate is steady early and has no step. The 99.9 % latency stays \
           the same, and some request completes in every second.",
    writes: Writes::IfAllowed,
    time: SuiteTime::Whole(Duration::from_secs(300)),
    run: run_stability,
};

fn run_stability(session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    let read_share = if session.settings.writes { 0.7 } else { 1.0 };
    let duration = session.settings.duration / PART_COUNT;
    for part in 1..=PART_COUNT {
        let base = session.build_pattern(format!("part-{part}"), Placement::Uniform, 4 << 10, 16);
        let ramp = if part == 1 { base.ramp } else { Duration::ZERO };
        let seed = base.seed.wrapping_add(u64::from(part));
        session.run(&Pattern { read_share, duration, ramp, seed, warm: part > 1, ..base })?;
    }
    report_rates(session);
    report_tail(session);
    Ok(())
}

/// Reports drift, steadiness and steps of the rate.
fn report_rates(session: &mut SuiteSession<'_>) {
    let rates: Vec<f64> = session.runs.iter().map(|r| r.requests_per_s).collect();
    let part_s = session.settings.duration.as_secs_f64() / f64::from(PART_COUNT);
    let (first, last) = (rates[0], rates[rates.len() - 1]);
    let change = last / first - 1.0;
    let text = match change {
        c if c.is_nan() => "the rate of the last part against that of the first: no request completed in either",
        c if c.abs() < MIN_DRIFT => "the rate of the last part against that of the first: it stayed",
        c if c < 0.0 => "the rate of the last part against that of the first: it fell",
        _ => "the rate of the last part against that of the first: it rose",
    };
    session.report_value("last_to_first", last / first, "fraction", text);
    match steadiness::steady_since(&rates) {
        Some(0) => session.report_value(
            "steady_after_s",
            0.0,
            "s",
            "steady from the beginning, by SNIA's rule over five parts",
        ),
        Some(part) => {
            let text = "until the rate was steady to the end (SNIA's rule, five parts); earlier rates do not last";
            session.report_value("steady_after_s", part as f64 * part_s, "s", text);
        }
        None => session
            .report_text("steady_after_s", "not in steady state at the end (SNIA's rule over the last five parts)"),
    }
    let windows: Vec<f64> = session.runs.iter().flat_map(|r| window_rates(&r.slices, r.measured_s)).collect();
    match steadiness::find_step(&windows) {
        Some((index, before, after)) => {
            let step_s = index as f64 / windows.len() as f64 * session.settings.duration.as_secs_f64();
            let kind = if after < before {
                "a step down, as from throttling, spent credits or a full cache"
            } else {
                "a step up"
            };
            let (before, after) = (format_quantity(before, "per_s"), format_quantity(after, "per_s"));
            session.report_value("step_after_s", step_s, "s", format!("{kind}: {before} before, {after} afterwards"));
        }
        None if windows.len() < MIN_WINDOWS => {
            session.report_text("step_after_s", "too short to look for a step in the rate; measure longer with --for")
        }
        // a device that is slow from the beginning, or slows down gradually, shows no step either
        None => session.report_text("step_after_s", "no step in the rate in this time"),
    }
}

/// Returns the rates of equal windows of a part, requests per second.
fn window_rates(slices: &[u64], seconds: f64) -> Vec<f64> {
    let complete = steadiness::complete_slices(slices, seconds);
    let length = complete.len().div_ceil(MAX_WINDOWS_PER_PART).max(1);
    complete.chunks_exact(length).map(|c| c.iter().sum::<u64>() as f64 * 10.0 / length as f64).collect()
}

/// Reports the tail over time.
fn report_tail(session: &mut SuiteSession<'_>) {
    // the same percentile of both parts: a part that is slower may have too few requests for the higher one
    let first_and_last = || session.runs.first().zip(session.runs.last());
    let percentile_of_both = |percentile: fn(&Latency) -> Option<f64>| {
        first_and_last().and_then(|(a, b)| percentile(&a.latency_s).zip(percentile(&b.latency_s)))
    };
    let (high, low) = (percentile_of_both(|l| l.p999), percentile_of_both(|l| l.p99));
    let count = if high.is_some() { "a thousand" } else { "a hundred" };
    if let Some((first, last)) = high.or(low) {
        let text = format!(
            "the slowest of {count} in the last part, {}, against the first, {}",
            format_quantity(last, "s"),
            format_quantity(first, "s")
        );
        session.report_value("tail_last_to_first", last / first, "times", text);
    }
    let silence = session.runs.iter().map(|r| r.longest_silence_s).fold(0.0, f64::max);
    let text = match session.runs.iter().any(|r| r.workers > 1) {
        true => "the longest time in which one of the workers had no completion",
        false => "the longest time in which no request completed",
    };
    session.report_value("longest_silence_s", silence, "s", text);
    if let Some(worst) = session.runs.iter().filter_map(|r| r.latency_s.max).reduce(f64::max) {
        session.report_value("slowest_s", worst, "s", "the slowest request of all");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::tests::{MIB, remark_value, run_on_fake};
    use super::*;
    use crate::engine::fake::FakeDevice;

    #[test]
    fn a_volume_whose_credits_end_is_seen_as_a_step() {
        // 7,000 requests at 1,000 a second (16 at once of 16 ms), then 250 a second
        let request_count = Arc::new(AtomicU64::new(0));
        let device = || {
            let request_count = Arc::clone(&request_count);
            let service = move |_: &_, _| {
                let quick = request_count.fetch_add(1, Ordering::Relaxed) < 7000;
                Ok(if quick { 16_000_000 } else { 64_000_000 })
            };
            FakeDevice::new(16, Box::new(service))
        };
        let (runs, remarks) = run_on_fake(&STABILITY, 64 * MIB, device);
        assert_eq!(runs.len(), 12);
        // the test's session lasts 24 s in all, so two a part
        assert!((remark_value(&remarks, "step_after_s") - 7.0).abs() < 0.5, "{remarks:?}");
        assert!((remark_value(&remarks, "last_to_first") - 0.25).abs() < 0.02, "{remarks:?}");
        assert!((remark_value(&remarks, "steady_after_s") - 8.0).abs() < 0.1, "{remarks:?}");
    }

    #[test]
    fn tails_of_both_parts_are_the_same_percentile() {
        // 16,000 requests in the first part, 2,000 in the last: ten above 99.9 % only in the first; one of 500 takes
        // four times as long
        let request_count = Arc::new(AtomicU64::new(0));
        let device = || {
            let request_count = Arc::clone(&request_count);
            let service = move |_: &_, _| {
                let number = request_count.fetch_add(1, Ordering::Relaxed);
                let plain = if number < 30_000 { 2_000_000 } else { 16_000_000 };
                Ok(if number.is_multiple_of(500) { 4 * plain } else { plain })
            };
            FakeDevice::new(16, Box::new(service))
        };
        let (runs, remarks) = run_on_fake(&STABILITY, 64 * MIB, device);
        assert!(runs[0].latency_s.p999.is_some() && runs[11].latency_s.p999.is_none());
        assert!(remark_value(&remarks, "tail_last_to_first") > 4.0, "{remarks:?}");
        let text = "the slowest of a hundred in the last part";
        assert!(remarks.iter().any(|r| r.text.starts_with(text)), "{remarks:?}");
    }

    #[test]
    fn a_constant_rate_is_reported_as_constant() {
        let (_, remarks) = run_on_fake(&STABILITY, 64 * MIB, || FakeDevice::with_service_time(16, 16_000_000));
        assert_eq!(remark_value(&remarks, "steady_after_s"), 0.0);
        assert!(remarks.iter().any(|r| r.id == "step_after_s" && r.text.contains("no step")), "{remarks:?}");
        assert!((remark_value(&remarks, "last_to_first") - 1.0).abs() < 0.02);
    }
}
