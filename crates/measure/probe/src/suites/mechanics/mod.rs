//! Mechanics of a disk: seek times, rotation period and zones. On flash, and on anything behind a
//! cache that responds before the medium, the suites report that they saw none.

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
/// The distance whose time is called the average seek: two random places are on average a third of
/// the stroke apart.
const AVERAGE_SEEK_DISTANCE: f64 = 1.0 / 3.0;
/// Largest number of requests per distance.
const MAX_REQUESTS_PER_DISTANCE: usize = 1000;
/// Each request is drawn from this many bytes after its place, so that every angle of the platter
/// is equally likely: more than most tracks hold.
const PLACE_SPREAD_BYTES: u64 = 4 << 20;
/// Number of places whose rate is measured.
const ZONE_COUNT: u64 = 12;
/// Neighboring places belong to one zone if their rates differ by less than this share.
const SAME_ZONE_TOLERANCE: f64 = 0.02;

/// Seek time by distance, and zones.
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
    let (mut cached, mut all) = (0, 0);
    let min_share = (4 * PLACE_SPREAD_BYTES) as f64 / session.settings.target_bytes as f64;
    for &share in SEEK_DISTANCES.iter().filter(|d| **d >= min_share) {
        let steps = seek_steps(session, &stroke, share);
        let timed = session.run_series(&format!("distance-{share}"), steps, session.settings.duration)?;
        // the first seek starts anywhere; a time as short as the cache's came from a cache
        let mut seconds: Vec<f64> = timed
            .iter()
            .skip(1)
            .map(|t| t.duration_s())
            .filter(|s| own_cost.is_none_or(|own_cost| *s > 2.0 * own_cost))
            .collect();
        all += timed.len().saturating_sub(1);
        cached += timed.len().saturating_sub(1) - seconds.len();
        seconds.sort_unstable_by(f64::total_cmp);
        if let Some((fastest, width)) = fit_even_spread(&seconds) {
            points.push((share, fastest - own_cost.unwrap_or(0.0)));
            spreads.push((width, seconds[0]));
        }
    }
    match own_cost.filter(|_| all > 0 && cached * 2 > all) {
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
/// time, so the rate at a place shows how much a track holds there, and the tracks of a stretch are
/// its bytes divided by its rate.
struct Stroke {
    /// Bytes of each part.
    part_bytes: f64,
    /// Share of the stroke before each part, and 1 at the end.
    share_before: Vec<f64>,
}

impl Stroke {
    fn new(rates: &[f64], room: u64) -> Stroke {
        assert!(!rates.is_empty() && rates.iter().all(|rate| *rate > 0.0), "a place that cannot be read: {rates:?}");
        let total_time: f64 = rates.iter().map(|r| 1.0 / r).sum();
        let mut before = vec![0.0];
        for rate in rates {
            before.push(before[before.len() - 1] + 1.0 / rate / total_time);
        }
        Stroke { part_bytes: room as f64 / rates.len() as f64, share_before: before }
    }

    /// Returns the byte at a share of the stroke.
    fn byte_at(&self, share: f64) -> f64 {
        // of parts there is one less than of borders
        let last_part = self.share_before.len() - 2;
        let index = self.share_before.partition_point(|b| *b <= share).saturating_sub(1).min(last_part);
        let (low, high) = (self.share_before[index], self.share_before[index + 1]);
        (index as f64 + ((share - low) / (high - low)).clamp(0.0, 1.0)) * self.part_bytes
    }
}

/// Measures the rate at each of the places, and returns the stroke that follows from them.
fn measure_zones(session: &mut SuiteSession<'_>) -> Result<Stroke, ProbeError> {
    let room = session.settings.target_bytes;
    let part = room / ZONE_COUNT / (64 << 10) * (64 << 10);
    if part < 64 << 10 {
        return Ok(Stroke::new(&[1.0], room));
    }
    let first_run = session.runs.len();
    for zone in 0..ZONE_COUNT {
        let base = session.build_pattern(format!("zone-{zone}"), SEQUENTIAL, 64 << 10, 4);
        session.run(&Pattern { from_bytes: zone * part, range_bytes: Some(part), ..base })?;
    }
    let rates: Vec<f64> = session.runs[first_run..].iter().map(|r| r.bytes_per_s).collect();
    if !rates.iter().all(|rate| *rate > 0.0) {
        session.report_text(
            "outer_to_inner",
            "one place could not be read in time, so zones are unknown; measure longer with --for",
        );
        return Ok(Stroke::new(&[1.0], room));
    }
    let (first, last) = (rates[0], rates[rates.len() - 1]);
    let zone_count = 1 + rates.windows(2).filter(|w| (w[1] / w[0] - 1.0).abs() > SAME_ZONE_TOLERANCE).count();
    let text = format!(
        "throughput at the beginning ({}) divided by that at the end ({})",
        format_quantity(first, "bytes_per_s"),
        format_quantity(last, "bytes_per_s")
    );
    session.report_value("outer_to_inner", first / last, "times", text);
    // a zone is slower than the one outside it; rates that rise and fall are noise
    if rates.windows(2).all(|w| w[1] <= w[0] * (1.0 + SAME_ZONE_TOLERANCE)) && zone_count > 1 {
        let text = "zones of different rates that twelve places show (there may be more between them)";
        session.report_value("zones", zone_count as f64, "count", text);
    }
    Ok(Stroke::new(&rates, room))
}

/// Measures the cost of a request without seek and rotation: the same sector again, if a cache of
/// the device serves it.
fn measure_own_cost(session: &mut SuiteSession<'_>) -> Result<Option<f64>, ProbeError> {
    let length = session.smallest_request_bytes();
    let steps = vec![SeriesStep { write: false, offset: 0, length, pause_ns: 0 }; 64];
    let timed = session.run_series("same-again", steps, Duration::from_secs(1).min(session.settings.duration))?;
    let mut taken: Vec<f64> = timed.iter().skip(1).map(|t| t.duration_s()).collect();
    taken.sort_unstable_by(f64::total_cmp);
    // more than a millisecond does not come from a cache
    Ok(taken.get(taken.len() / 2).copied().filter(|s| *s < 1e-3))
}

/// Returns requests that are each this share of the stroke away from the previous one, back and
/// forth.
fn seek_steps(session: &SuiteSession<'_>, stroke: &Stroke, share: f64) -> Vec<SeriesStep> {
    let length = session.smallest_request_bytes();
    let sector = u64::from(length);
    let mut rng = Rng::new(session.settings.seed, share.to_bits());
    let mut position = rng.next_f64();
    let max_offset = session.settings.target_bytes.saturating_sub(sector);
    let mut step = |position: f64| {
        let offset =
            (stroke.byte_at(position) as u64).saturating_add(rng.next_below(PLACE_SPREAD_BYTES)).min(max_offset)
                / sector
                * sector;
        (SeriesStep { write: false, offset, length, pause_ns: 0 }, rng.next_f64())
    };
    let mut steps = Vec::new();
    for _ in 0..MAX_REQUESTS_PER_DISTANCE {
        let (next, coin) = step(position);
        steps.push(next);
        let (down, up) = (position - share, position + share);
        position = match (down >= 0.0, up <= 1.0) {
            (true, true) if coin < 0.5 => down,
            (true, false) => down,
            (_, true) => up,
            // from the middle, no place is that far away
            (false, false) => coin * (1.0 - share),
        };
    }
    steps
}

/// Returns the lower end and the width of uniformly spread times. Of n draws the second smallest
/// lies 2 / (n + 1) of the width above the end; the slowest twentieth may be retries, and is left
/// out.
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

/// Reports what the points show.
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
