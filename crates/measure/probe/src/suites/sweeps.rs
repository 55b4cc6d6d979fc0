//! Sweeps of one quantity, to find the knee.

use super::{DEFAULT_RUN_TIME, Suite, SuiteSession, Writes, best_run, format_quantity};
use crate::error::ProbeError;
use crate::pattern::Placement;
use crate::result::RunResult;
use diskwright_base::byte_size::ByteSize;

/// Queue depths, 1 to 256.
const DEPTHS: &[u32] = &[1, 2, 4, 8, 16, 32, 64, 128, 256];

/// The suite `depth`.
pub const DEPTH: Suite = Suite {
    id: "depth",
    title: "throughput and latency by queue depth, 1 to 256",
    explain: "Random 4 KiB reads at rising queue depth. Up to the device's own parallelism, throughput rises and \
              latency stays the same. Beyond, requests only queue, and by Little's law latency rises with depth.",
    good: "A knee at the number of channels or spindles behind the device. Beyond the knee, more requests in flight \
           only add latency.",
    writes: Writes::Never,
    time: DEFAULT_RUN_TIME,
    run: run_depth,
};

/// Bisection steps between two doublings to find the knee.
const BISECTION_STEPS: u32 = 3;

fn run_depth(session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    let rate = |session: &mut SuiteSession<'_>, depth: u32| -> Result<f64, ProbeError> {
        let pattern = session.build_pattern(format!("depth-{depth}"), Placement::Uniform, 4 << 10, depth);
        Ok(session.run(&pattern)?.requests_per_s)
    };
    for &depth in DEPTHS {
        rate(session, depth)?;
    }
    let max_rate = best_run(&session.runs, |r| r.requests_per_s).map_or(0.0, |r| r.requests_per_s);
    // the knee lies between the first depth that reaches the share and the depth before it
    let fast_runs = session.runs.iter().filter(|r| r.requests_per_s >= KNEE_SHARE * max_rate);
    let mut high = fast_runs.filter_map(|r| r.depth).min().unwrap_or(1);
    let mut low = DEPTHS.iter().copied().filter(|d| *d < high).max().unwrap_or(high);
    for _ in 0..BISECTION_STEPS {
        let middle = low.midpoint(high);
        if middle == low || middle == high {
            break;
        }
        if rate(session, middle)? >= KNEE_SHARE * max_rate { high = middle } else { low = middle }
    }
    session.runs.sort_by_key(|r| r.depth);
    let max_rate = best_run(&session.runs, |r| r.requests_per_s).map_or(max_rate, |r| r.requests_per_s);
    report_depth(session, high, max_rate);
    Ok(())
}

/// Share of the maximum rate from which on deeper queues gain little.
const KNEE_SHARE: f64 = 0.9;

fn report_depth(session: &mut SuiteSession<'_>, knee: u32, max_rate: f64) {
    let Some((single_rate, single_s)) = session.runs.first().map(|r| (r.requests_per_s, r.latency_s.mean)) else {
        return;
    };
    let deepest_s = session.runs.last().and_then(|r| r.latency_s.mean);
    let run = session.runs.iter().find(|r| r.depth == Some(knee));
    let rate = run.map_or(0.0, |r| r.requests_per_s);
    let text = format!("queue depth that reaches 90 % of the maximum ({} there)", format_quantity(rate, "per_s"));
    session.report_value("knee_depth", f64::from(knee), "requests", text);
    session.report_value("requests_per_s", max_rate, "per_s", "maximum of random 4 KiB reads per second");
    // a rate that grows in proportion to the depth up to the deepest queue reaches KNEE_SHARE of its
    // maximum at that share of the depth
    let is_beyond = f64::from(knee) >= KNEE_SHARE * f64::from(DEPTHS[DEPTHS.len() - 1]);
    let text = if is_beyond {
        "requests that the device serves at once, at least: the maximum divided by the rate at queue depth 1"
    } else {
        "how many requests the device serves at once: the maximum divided by the rate at queue depth 1"
    };
    session.report_value("parallelism", max_rate / single_rate, "count", text);
    if let (Some(single_s), Some(deepest_s)) = (single_s, deepest_s) {
        let single = format_quantity(single_s, "s");
        let text = format!("response time at queue depth 256 divided by that at queue depth 1, {single}");
        session.report_value("deepest_s", deepest_s, "s", text);
    }
    if is_beyond {
        session.report_text(
            "knee_beyond",
            "throughput still grew at the deepest queue: neither the device nor the processor has a knee up to there",
        );
    }
}

/// The suite `record-sizes`.
pub const RECORD_SIZES: Suite = Suite {
    id: "record-sizes",
    title: "random reads by record size in fine steps, 512 B to 1 MiB",
    explain: "Two steps per doubling. The curve gives the two constants of a device at queue depth 1: the time that \
              any request takes, and the rate at which its bytes follow. The knee is where both cost the same: \
              smaller records waste requests, larger ones waste little.",
    good: "A straight line of time over size. A bend means a limit on the request size, or read-ahead.",
    writes: Writes::Never,
    time: DEFAULT_RUN_TIME,
    run: run_record_sizes,
};

fn run_record_sizes(session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    let doublings = (9..20).flat_map(|power| [1u32 << power, 3 << (power - 1)]);
    let sizes: Vec<u32> = doublings.chain([1 << 20]).collect();
    for size in session.usable_sizes(&sizes) {
        let mut pattern = session.build_pattern(format!("size-{size}"), Placement::Uniform, size, 1);
        // requests of all sizes have the same alignment
        pattern.align_bytes = session.settings.sector.max(4096);
        session.run(&pattern)?;
    }
    let points: Vec<_> = session.runs.iter().map(|r| (r.size_bytes, r.latency_s.mean)).collect();
    let line = fit_line(&points);
    if let Some((fixed_s, s_per_byte)) = line.filter(|(fixed_s, s_per_byte)| *fixed_s > 0.0 && *s_per_byte > 0.0) {
        session.report_value("request_s", fixed_s, "s", "time that a request takes whatever its size");
        session.report_value("rate_bytes_per_s", 1.0 / s_per_byte, "bytes_per_s", "rate at which its bytes follow");
        let knee_bytes = fixed_s / s_per_byte;
        let text = format!("size at which both take the same time, about {}", ByteSize::memory(knee_bytes));
        session.report_value("knee_bytes", knee_bytes, "bytes", text);
        report_bend(session, fixed_s, s_per_byte);
    } else {
        let text = match line {
            None => "too few sizes were measured to find a knee; measure longer with --for",
            Some((_, s_per_byte)) if s_per_byte <= 0.0 => "time does not grow with size: no knee",
            Some(_) => "time grows as size does, and no part of it is the same for all sizes: no knee",
        };
        session.report_text("knee_bytes", text);
    }
    Ok(())
}

/// Largest deviation from the line that is not reported, as a share of the line.
const MAX_DEVIATION: f64 = 0.2;

/// Reports the size that deviates most from the line, if it deviates by more than [`MAX_DEVIATION`].
fn report_bend(session: &mut SuiteSession<'_>, fixed_s: f64, s_per_byte: f64) {
    let deviation = |run: &RunResult| Some(run.latency_s.mean? / (fixed_s + s_per_byte * run.size_bytes) - 1.0);
    let deviations = session.runs.iter().filter_map(|r| Some((r.size_bytes, deviation(r)?)));
    if let Some((size_bytes, deviation)) = deviations
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
        .filter(|(_, deviation)| deviation.abs() > MAX_DEVIATION)
    {
        let comparative = if deviation > 0.0 { "slower" } else { "quicker" };
        let text = format!(
            "off the line: reads of {} are that much {comparative}; a limit on the request size, read-ahead, or other \
             load",
            ByteSize::memory(size_bytes)
        );
        session.report_value("off_the_line", deviation.abs(), "fraction", text);
    }
}

/// Fits a straight line through points (size, time), each weighted by 1 / y², so that the relative
/// errors are smallest. Returns the value at 0 and the slope; `None` with fewer than three points.
fn fit_line(points: &[(f64, Option<f64>)]) -> Option<(f64, f64)> {
    let points: Vec<(f64, f64)> = points.iter().filter_map(|(x, y)| Some((*x, (*y)?))).filter(|p| p.1 > 0.0).collect();
    let sum = |term: fn(f64, f64) -> f64| points.iter().map(|&(x, y)| term(x, y) / (y * y)).sum::<f64>();
    let (weight, x, y) = (sum(|_, _| 1.0), sum(|x, _| x), sum(|_, y| y));
    let (xx, xy) = (sum(|x, _| x * x), sum(|x, y| x * y));
    let denominator = weight * xx - x * x;
    if points.len() < 3 || denominator <= 0.0 {
        return None;
    }
    let slope = (weight * xy - x * y) / denominator;
    Some(((y - slope * x) / weight, slope))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MIB, remark_value, run_on_fake};
    use super::*;
    use crate::engine::fake::FakeDevice;

    #[test]
    fn depth_finds_the_servers() {
        let (_, remarks) = run_on_fake(&DEPTH, 64 * MIB, || FakeDevice::with_service_time(8, 1_000_000));
        assert_eq!(remark_value(&remarks, "knee_depth"), 8.0);
        assert!((remark_value(&remarks, "parallelism") - 8.0).abs() < 0.1);
    }

    #[test]
    fn depth_says_where_there_is_no_knee_up_to_the_deepest_queue() {
        let beyond = |servers: usize| {
            let (_, remarks) = run_on_fake(&DEPTH, 64 * MIB, || FakeDevice::with_service_time(servers, 20_000_000));
            assert_eq!(remarks.iter().any(|r| r.text.contains("at once, at least")), servers > 256, "{remarks:?}");
            remarks.iter().any(|r| r.id == "knee_beyond")
        };
        assert!(beyond(512) && !beyond(200) && !beyond(8));
    }

    #[test]
    fn record_sizes_find_both_constants() {
        let device = || FakeDevice::new(1, Box::new(|op, _| Ok(200_000 + u64::from(op.length) * 5)));
        let (_, remarks) = run_on_fake(&RECORD_SIZES, 64 * MIB, device);
        assert!((remark_value(&remarks, "request_s") / 200e-6 - 1.0).abs() < 0.02, "{remarks:?}");
        assert!((remark_value(&remarks, "rate_bytes_per_s") / 200e6 - 1.0).abs() < 0.02, "{remarks:?}");
        assert!((remark_value(&remarks, "knee_bytes") / 40_000.0 - 1.0).abs() < 0.03, "{remarks:?}");
    }

    #[test]
    fn record_sizes_without_a_knee_say_why() {
        let says = |room: u64, service: fn(u64) -> u64, because: &str| {
            let device = || FakeDevice::new(1, Box::new(move |op, _| Ok(service(u64::from(op.length)))));
            let (_, remarks) = run_on_fake(&RECORD_SIZES, room, device);
            assert!(remarks.iter().any(|r| r.id == "knee_bytes" && r.text.contains(because)), "{because}: {remarks:?}");
        };
        says(64 * MIB, |bytes| 2_000_000 - bytes, "does not grow");
        // a limit of bytes per second, such as a cloud volume's, and a little less for small ones
        says(64 * MIB, |bytes| 10 * bytes - 1000, "grows as size does");
        says(1024, |_| 100_000, "too few sizes");
    }
}
