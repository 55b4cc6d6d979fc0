//! Mechanics of a disk: seek times, rotation period and zones. If the device is flash, or if a cache
//! responds instead of the medium, the suites report that they saw no mechanical behavior.

mod rotation;
mod seek_time_curve;

use std::ops::Range;
use std::time::Duration;

use super::{SEQUENTIAL, Suite, SuiteSession, Writes, format_quantity};
use crate::bench::SeriesStep;
use crate::error::ProbeError;
use crate::pattern::Pattern;
use diskwright_base::Rng;

pub use rotation::ROTATION;
use seek_time_curve::fit_curve;

/// Seek distances, shares of the whole stroke.
const SEEK_DISTANCES: &[f64] = &[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.333, 0.5, 0.7, 0.95];
/// Distance of the average seek, as a share of the stroke: two random positions are a third of the
/// stroke apart on average.
const AVERAGE_SEEK_DISTANCE: f64 = 1.0 / 3.0;
/// Largest number of requests per distance.
const MAX_REQUESTS_PER_DISTANCE: usize = 1000;
/// The offset of a request is drawn from this many bytes after its position, which is more than most
/// tracks hold, so that every angle of the platter is equally likely.
const POSITION_SPREAD_BYTES: u64 = 4 << 20;
/// Number of parts of the target whose rate is measured.
const ZONE_COUNT: u64 = 12;
/// Neighboring parts belong to one zone if their rates differ by less than this share.
const SAME_ZONE_TOLERANCE: f64 = 0.02;

/// The suite `seek-curve`.
pub const SEEK_CURVE: Suite = Suite {
    id: "seek-curve",
    title: "seek time by distance, and the rate of each zone",
    explain: "First, sequential 64 KiB reads at twelve places: outer tracks hold more, so a rotating disk is fastest \
              in its first part, and the rates show how far the arm must move between two blocks. Then single sectors \
              at fixed shares of the stroke apart. The time of a request is the seek, a wait of up to one rotation \
              for the sector, and the request's own cost; so the fastest of many shows the seek (after Worthington, \
              Ganger, Patt and Wilkes, SIGMETRICS 1995, who use the shortest time between two requests). The points \
              are fitted with the usual curve: a + b times the square root of short distances, c + e times long ones \
              (Ruemmler and Wilkes, 1994).",
    good: "On a rotating disk, under 2 ms to the next track, 8 to 10 ms for a third of the stroke and less than 20 ms \
           for all of it (half of that at 15,000 rpm), and outer zones up to twice as fast as inner ones. On flash \
           the curve is flat, and the suite says so.",
    writes: Writes::Never,
    time: super::DEFAULT_RUN_TIME,
    run: run_seek_curve,
};

fn run_seek_curve(session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    let stroke = measure_zones(session)?;
    let own_cost = measure_own_cost(session)?;
    let mut points = Vec::new();
    let mut spreads = Vec::new();
    let (mut cached, mut total) = (0, 0);
    let min_share = (4 * POSITION_SPREAD_BYTES) as f64 / session.settings.target_bytes as f64;
    for &share in SEEK_DISTANCES.iter().filter(|d| **d >= min_share) {
        let steps = seek_steps(session, &stroke, share);
        let times = session.run_series(&format!("distance-{share}"), steps, session.settings.duration)?;
        // the first seek has another distance; a time as short as that of a cache came from a cache
        let mut seconds: Vec<f64> = times
            .iter()
            .skip(1)
            .map(|t| t.duration_s())
            .filter(|s| own_cost.is_none_or(|own_cost| *s > 2.0 * own_cost))
            .collect();
        total += times.len().saturating_sub(1);
        cached += times.len().saturating_sub(1) - seconds.len();
        seconds.sort_unstable_by(f64::total_cmp);
        if let Some((fastest, width)) = fit_even_spread(&seconds) {
            points.push((share, fastest - own_cost.unwrap_or(0.0)));
            spreads.push((width, seconds[0]));
        }
    }
    match own_cost.filter(|_| total > 0 && cached * 2 > total) {
        Some(own_cost) => {
            let text = format!(
                "no mechanical behavior seen: reads anywhere take no longer than rereading the same sector ({})",
                format_quantity(own_cost, "s")
            );
            session.report_text("seek_third_s", text);
        }
        None => report_curve(session, &points, &spreads),
    }
    Ok(())
}

/// Maps positions of the arm, as shares of its stroke, to bytes. A rotation always takes the same
/// time, so the rate of a part shows how much its tracks hold, and the number of its tracks is
/// proportional to its bytes divided by its rate.
struct Stroke {
    /// Size of each part, bytes.
    part_bytes: f64,
    /// Share of the stroke before each part, and 1 at the end.
    share_before: Vec<f64>,
}

impl Stroke {
    /// Creates the stroke from the rates of equal parts of a target.
    fn new(rates: &[f64], target_bytes: u64) -> Stroke {
        assert!(!rates.is_empty() && rates.iter().all(|rate| *rate > 0.0), "a part that cannot be read: {rates:?}");
        let total_time: f64 = rates.iter().map(|r| 1.0 / r).sum();
        let mut share_before = vec![0.0];
        for rate in rates {
            share_before.push(share_before[share_before.len() - 1] + 1.0 / rate / total_time);
        }
        Stroke { part_bytes: target_bytes as f64 / rates.len() as f64, share_before }
    }

    /// Returns the byte at a share of the stroke.
    fn byte_at(&self, share: f64) -> f64 {
        // there is one border more than there are parts
        let last_part = self.share_before.len() - 2;
        let index = self.share_before.partition_point(|b| *b <= share).saturating_sub(1).min(last_part);
        let (low, high) = (self.share_before[index], self.share_before[index + 1]);
        (index as f64 + ((share - low) / (high - low)).clamp(0.0, 1.0)) * self.part_bytes
    }
}

/// Measures the rate of each part of the target, and returns the stroke that follows from them.
fn measure_zones(session: &mut SuiteSession<'_>) -> Result<Stroke, ProbeError> {
    let target_bytes = session.settings.target_bytes;
    let part_bytes = target_bytes / ZONE_COUNT / (64 << 10) * (64 << 10);
    if part_bytes < 64 << 10 {
        return Ok(Stroke::new(&[1.0], target_bytes));
    }
    let first_run = session.runs.len();
    for zone in 0..ZONE_COUNT {
        let base = session.build_pattern(format!("zone-{zone}"), SEQUENTIAL, 64 << 10, 4);
        session.run(&Pattern { from_bytes: zone * part_bytes, range_bytes: Some(part_bytes), ..base })?;
    }
    let rates: Vec<f64> = session.runs[first_run..].iter().map(|r| r.bytes_per_s).collect();
    if !rates.iter().all(|rate| *rate > 0.0) {
        session.report_text(
            "outer_to_inner",
            "one place could not be read in time, so zones are unknown; measure longer with --for",
        );
        return Ok(Stroke::new(&[1.0], target_bytes));
    }
    let (first, last) = (rates[0], rates[rates.len() - 1]);
    let zone_count = 1 + rates.windows(2).filter(|w| (w[1] / w[0] - 1.0).abs() > SAME_ZONE_TOLERANCE).count();
    let text = format!(
        "throughput at the beginning ({}) divided by that at the end ({})",
        format_quantity(first, "bytes_per_s"),
        format_quantity(last, "bytes_per_s")
    );
    session.report_value("outer_to_inner", first / last, "times", text);
    // an inner zone is slower than an outer one; rates that rise and fall are noise
    if rates.windows(2).all(|w| w[1] <= w[0] * (1.0 + SAME_ZONE_TOLERANCE)) && zone_count > 1 {
        let text = "zones of different rates that twelve places show (there may be more between them)";
        session.report_value("zones", zone_count as f64, "count", text);
    }
    Ok(Stroke::new(&rates, target_bytes))
}

/// Measures the time of a request without seek and rotation, seconds: that of reading the same sector
/// again. `None` if no cache of the device serves it.
fn measure_own_cost(session: &mut SuiteSession<'_>) -> Result<Option<f64>, ProbeError> {
    let length = session.smallest_request_bytes();
    let steps = vec![SeriesStep { write: false, offset: 0, length, pause_ns: 0 }; 64];
    let times = session.run_series("same-again", steps, Duration::from_secs(1).min(session.settings.duration))?;
    let mut seconds: Vec<f64> = times.iter().skip(1).map(|t| t.duration_s()).collect();
    seconds.sort_unstable_by(f64::total_cmp);
    // a cache responds within a millisecond
    Ok(seconds.get(seconds.len() / 2).copied().filter(|s| *s < 1e-3))
}

/// Returns requests that are each this share of the stroke away from the previous one, back and
/// forth.
fn seek_steps(session: &SuiteSession<'_>, stroke: &Stroke, share: f64) -> Vec<SeriesStep> {
    let length = session.smallest_request_bytes();
    let sector = u64::from(length);
    let mut rng = Rng::new(session.settings.seed, share.to_bits());
    let mut position = rng.next_f64();
    let max_offset = session.settings.target_bytes.saturating_sub(sector);
    let mut steps = Vec::new();
    for _ in 0..MAX_REQUESTS_PER_DISTANCE {
        let spread = rng.next_below(POSITION_SPREAD_BYTES);
        let offset = (stroke.byte_at(position) as u64).saturating_add(spread).min(max_offset) / sector * sector;
        steps.push(SeriesStep { write: false, offset, length, pause_ns: 0 });
        let coin = rng.next_f64();
        let (down, up) = (position - share, position + share);
        position = match (down >= 0.0, up <= 1.0) {
            (true, true) if coin < 0.5 => down,
            (true, false) => down,
            (_, true) => up,
            // no position is that far from one in the middle
            (false, false) => coin * (1.0 - share),
        };
    }
    steps
}

/// Returns the lower end and the width of a uniform distribution, from sorted times. The second smallest
/// of n times lies 2 / (n + 1) of the width above the lower end. The slowest twentieth may be retries,
/// and is left out. `None` with fewer than 20 times.
fn fit_even_spread(sorted: &[f64]) -> Option<(f64, f64)> {
    let n = sorted.len();
    if n < 20 {
        return None;
    }
    let (low, high) = (2.0 / (n as f64 + 1.0), 0.95);
    let top = sorted[((n as f64 * high) as usize).min(n - 1)];
    let width = (top - sorted[1]) / (high - low);
    Some((sorted[1] - low * width, width))
}

/// Smallest time that a long seek adds to a request, seconds.
const MIN_ARM_EFFECT_S: f64 = 0.5e-3;
/// Smallest factor by which a long seek lengthens a request.
const MIN_ARM_EFFECT_FACTOR: f64 = 1.3;
/// Rotation periods, seconds: 24,000 to 2,400 rpm.
const ROTATION_PERIODS_S: Range<f64> = 2.5e-3..25e-3;

/// Reports the seek curve through the points (share of the stroke, seconds). `spreads` has the width of
/// the times at each distance, and the shortest of them.
fn report_curve(session: &mut SuiteSession<'_>, points: &[(f64, f64)], spreads: &[(f64, f64)]) {
    let Some((&(_, short), curve)) = points.first().zip(fit_curve(points)) else {
        let text = "no seek curve: the target is too small, or the run too short, for 20 requests at each of six \
                    distances; use a device, or a file of tens of GB";
        return session.report_text("seek_third_s", text);
    };
    let mut widths: Vec<f64> = spreads.iter().map(|s| s.0).collect();
    widths.sort_unstable_by(f64::total_cmp);
    let width = widths[widths.len() / 2];
    let third = curve.value_at(AVERAGE_SEEK_DISTANCE);
    let is_arm_seen = third - short >= MIN_ARM_EFFECT_S && third >= MIN_ARM_EFFECT_FACTOR * short;
    if !is_arm_seen || !ROTATION_PERIODS_S.contains(&width) {
        let fastest = |index: usize| format_quantity(spreads[index].1, "s");
        let text = format!(
            "no mechanical behavior seen: the fastest of many reads takes {} over the shortest distance and {} over \
             the longest",
            fastest(0),
            fastest(spreads.len() - 1)
        );
        return session.report_text("seek_third_s", text);
    }
    session.report_value(
        "seek_short_s",
        short,
        "s",
        format!("shortest movement of the arm, {} of the stroke", points[0].0),
    );
    session.report_value("seek_third_s", third, "s", "a third of the stroke, which is usually called the average seek");
    session.report_value("seek_full_s", curve.value_at(1.0), "s", "from one end to the other");
    let text = "spread of the times at one distance: a rotation, roughly (the suite `rotation` is exact)";
    session.report_value("rotation_roughly_s", width, "s", text);
    for (id, value, text) in [
        ("seek_a_s", curve.a, "a of the curve a + b sqrt(d), d the share of the stroke, for short distances"),
        ("seek_b_s", curve.b, "b of it"),
        ("seek_c_s", curve.c, "c of the line c + e d for long distances"),
        ("seek_e_s", curve.e, "e of it"),
    ] {
        session.report_value(id, value, "s", text);
    }
    session.report_value("seek_bend", curve.bend, "fraction", "share of the stroke from which on the line holds");
}
