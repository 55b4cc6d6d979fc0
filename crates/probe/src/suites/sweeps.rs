//! Sweeps of one quantity, to find the knee.

use super::{Session, Suite, Writes, best, knee};
use crate::error::ProbeError;
use crate::pattern::Placement;

/// Depths, 1 to 256.
const DEPTHS: &[u32] = &[1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Requests outstanding.
pub const DEPTH: Suite = Suite {
    id: "depth",
    title: "requests and latency by the number outstanding, 1 to 256",
    explain: "Random 4 KiB reads with more and more of them outstanding. Up to the device's own parallelism throughput \
              rises and latency stays; beyond, requests only queue, and by Little's law latency rises with depth.",
    good: "A knee at the number of channels or spindles behind the device. Past the knee more outstanding requests buy \
           latency and nothing else.",
    writes: Writes::Never,
    run: depth,
};

fn depth(session: &mut Session<'_>) -> Result<(), ProbeError> {
    for &depth in DEPTHS {
        let pattern = session.pattern(format!("depth-{depth}"), Placement::Uniform, 4 << 10, depth);
        session.run(&pattern)?;
    }
    if let Some(at) = knee(&session.runs, 0.9, |r| r.requests_per_s) {
        let (depth, rate) = (f64::from(at.depth.unwrap_or(0)), at.requests_per_s);
        let text = format!("outstanding requests that reach 90 % of the most ({rate:.0} a second there)");
        session.found("knee_depth", depth, "requests", text);
    }
    if let Some(rate) = best(&session.runs, |r| r.requests_per_s).map(|r| r.requests_per_s) {
        session.found("requests_per_s", rate, "per_s", "the most random 4 KiB reads a second");
        let single = session.runs[0].requests_per_s;
        let text = "how many requests the device serves at once: the most against one at a time";
        session.found("parallelism", rate / single, "count", text);
    }
    Ok(())
}

/// Record sizes, finely.
pub const RECORD_SIZES: Suite = Suite {
    id: "record-sizes",
    title: "random reads by record size in fine steps, 512 B to 1 MiB",
    explain: "Two steps to each doubling. From the curve come the two constants of a device at depth 1: the time that \
              any request takes, and the rate at which bytes follow. Where both weigh the same is the knee: smaller \
              records waste requests, larger ones waste little.",
    good: "A straight line of time over size. A bend is a limit on the size of a request, or read-ahead.",
    writes: Writes::Never,
    run: record_sizes,
};

fn record_sizes(session: &mut Session<'_>) -> Result<(), ProbeError> {
    let doublings = (9..20).flat_map(|power| [1u32 << power, 3 << (power - 1)]);
    let wanted: Vec<u32> = doublings.chain([1 << 20]).collect();
    for size in session.sizes(&wanted) {
        let mut pattern = session.pattern(format!("size-{size}"), Placement::Uniform, size, 1);
        // every size starts at the same places
        pattern.align_bytes = session.sector.max(4096);
        session.run(&pattern)?;
    }
    if let Some((fixed, per_byte)) =
        line(&session.runs.iter().map(|r| (r.size_bytes, r.latency_s.mean)).collect::<Vec<_>>())
    {
        session.found("request_s", fixed, "s", "time that a request takes whatever its size");
        session.found("rate_bytes_per_s", 1.0 / per_byte, "bytes_per_s", "rate at which its bytes follow");
        session.found("knee_bytes", fixed / per_byte, "bytes", "size at which both take the same time");
    } else {
        session.say("knee_bytes", "time does not grow with size: no knee");
    }
    Ok(())
}

/// A straight line through points, each weighted by 1 / y squared, so that its
/// error in percent is least; `None` where it does not rise.
fn line(points: &[(f64, Option<f64>)]) -> Option<(f64, f64)> {
    let points: Vec<(f64, f64)> = points.iter().filter_map(|(x, y)| Some((*x, (*y)?))).filter(|p| p.1 > 0.0).collect();
    let sum = |of: fn(f64, f64) -> f64| points.iter().map(|&(x, y)| of(x, y) / (y * y)).sum::<f64>();
    let (one, x, y, xx, xy) = (sum(|_, _| 1.0), sum(|x, _| x), sum(|_, y| y), sum(|x, _| x * x), sum(|x, y| x * y));
    let below = one * xx - x * x;
    if points.len() < 3 || below <= 0.0 {
        return None;
    }
    let slope = (one * xy - x * y) / below;
    let fixed = (y - slope * x) / one;
    (slope > 0.0 && fixed > 0.0).then_some((fixed, slope))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MIB, on_fake, value};
    use super::*;
    use crate::engine::fake::FakeDevice;

    #[test]
    fn depth_finds_the_servers() {
        let (_, remarks) = on_fake(&DEPTH, 64 * MIB, || FakeDevice::steady(8, 1_000_000));
        assert_eq!(value(&remarks, "knee_depth"), 8.0);
        assert!((value(&remarks, "parallelism") - 8.0).abs() < 0.1);
    }

    #[test]
    fn record_sizes_find_both_constants() {
        let device = || FakeDevice::new(1, Box::new(|op, _| Ok(200_000 + u64::from(op.length) * 5)));
        let (_, remarks) = on_fake(&RECORD_SIZES, 64 * MIB, device);
        assert!((value(&remarks, "request_s") / 200e-6 - 1.0).abs() < 0.02, "{remarks:?}");
        assert!((value(&remarks, "rate_bytes_per_s") / 200e6 - 1.0).abs() < 0.02, "{remarks:?}");
        assert!((value(&remarks, "knee_bytes") / 40_000.0 - 1.0).abs() < 0.03, "{remarks:?}");
    }
}
