//! The rotation period, from the times at which the same sectors pass the head.

use std::f64::consts::TAU;

use super::super::{DEFAULT_RUN_TIME, Suite, SuiteSession, Writes, format_quantity};
use crate::bench::{RequestTimes, SeriesStep};
use crate::error::ProbeError;
use diskwright_base::Rng;

/// The suite `rotation`.
pub const ROTATION: Suite = Suite {
    id: "rotation",
    title: "the rotation period, from the times at which the same sectors pass",
    explain: "Three sectors of one track are read repeatedly, each time after a random pause. On a rotating disk, a \
              read completes only when its sector passes the head, so the completions of one sector are whole \
              rotations apart, whatever the pauses; the period that aligns them is the rotation, and the three \
              sectors are at different angles of it. On any other device, completions follow the pauses, or a clock \
              tick, and no period appears. A cache would serve the reads instead of the medium: reads elsewhere (up \
              to 16) empty it in between, and if writing is allowed, durable writes bypass it. (Worthington and \
              others, SIGMETRICS 1995, and Talagala and others' Skippy, 1999, measure rotation by whole rotations \
              between completions; the alignment is tested with Rayleigh's test.)",
    good: "8.33 ms at 7,200 rpm, 11.1 ms at 5,400, 6 ms at 10,000, 4 ms at 15,000, to within 1 %. Other periods \
           are rare, and flash shows none.",
    writes: Writes::IfAllowed,
    time: DEFAULT_RUN_TIME,
    run: run_rotation,
};

/// Numbers of reads elsewhere before each sector is read again, to push it out of caches.
const READS_BETWEEN: &[usize] = &[0, 1, 4, 16];
/// Longest pause, nanoseconds: more than a rotation of any disk.
const MAX_PAUSE_NS: u64 = 20_000_000;
/// Offsets of the three sectors, bytes, in the order of their reads: the farthest first, because
/// read-ahead goes only forward.
const SECTOR_OFFSETS: [u64; 3] = [240 << 10, 100 << 10, 0];
/// Largest number of repetitions of each sector.
const MAX_REPEATS: usize = 200;

fn run_rotation(session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    let length = session.smallest_request_bytes();
    let usable_bytes = session.settings.target_bytes / u64::from(length) * u64::from(length);
    if usable_bytes < 16 << 20 {
        session.report_text("rotation_s", "the target is smaller than 16 MiB: too small to bypass a cache");
        return Ok(());
    }
    let mut methods: Vec<(String, usize, bool)> =
        READS_BETWEEN.iter().map(|k| (format!("read-again-after-{k}"), *k, false)).collect();
    if session.settings.writes {
        methods.push(("write-again".into(), 0, true));
    }
    for (name, between, write) in methods {
        let steps = build_steps(session.settings.seed, usable_bytes, length, between, write);
        let max_duration = session.settings.duration.mul_f64(1.0 + between as f64 / 4.0);
        let times = session.run_series(&name, steps, max_duration)?;
        let ends: [Vec<f64>; 3] = completion_times(&times, between);
        if let Some((period_s, coherence)) = find_period(&ends) {
            report_rotation(session, period_s, coherence, ends.iter().map(Vec::len).sum());
            return Ok(());
        }
    }
    let hint = if session.settings.writes {
        ""
    } else {
        " (a cache could hide it; with --destroy-data-on the suite writes as well)"
    };
    let text = format!("no mechanical behavior seen: reads of the same sectors share no period{hint}");
    session.report_text("rotation_s", text);
    Ok(())
}

/// Builds the requests: each sector in turn after a random pause, with `between` reads elsewhere before it.
fn build_steps(seed: u64, usable_bytes: u64, length: u32, between: usize, write: bool) -> Vec<SeriesStep> {
    let sector = u64::from(length);
    let mut rng = Rng::new(seed, between as u64);
    let base = usable_bytes / 3 / sector * sector;
    let mut steps = Vec::new();
    for _ in 0..MAX_REPEATS {
        for sector_offset in SECTOR_OFFSETS {
            for _ in 0..between {
                let offset = rng.next_below(usable_bytes / sector) * sector;
                steps.push(SeriesStep { write: false, offset, length, pause_ns: 0 });
            }
            let offset = base + sector_offset / sector * sector;
            steps.push(SeriesStep { write, offset, length, pause_ns: rng.next_below(MAX_PAUSE_NS) });
        }
    }
    steps
}

/// Returns the completion times of each of the three sectors, seconds.
fn completion_times(times: &[RequestTimes], between: usize) -> [Vec<f64>; 3] {
    // the order of `build_steps`: `between` reads elsewhere, then that of the sector
    let mut ends = [Vec::new(), Vec::new(), Vec::new()];
    for (index, time) in times.iter().skip(between).step_by(between + 1).enumerate() {
        ends[index % SECTOR_OFFSETS.len()].push(time.end_ns as f64 * 1e-9);
    }
    ends
}

/// Slowest rotation searched, rotations per second: 2,400 rpm.
const MIN_ROTATIONS_PER_S: f64 = 40.0;
/// Fastest rotation searched, rotations per second: 21,000 rpm.
const MAX_ROTATIONS_PER_S: f64 = 350.0;
/// Smallest number of completions for a result.
const MIN_COMPLETIONS: usize = 24;
/// Shortest time from the first completion to the last for a result, seconds.
const MIN_SPAN_S: f64 = 0.1;
/// Smallest phase coherence of a rotation.
const MIN_COHERENCE: f64 = 0.8;
/// Smallest statistic `n r²` of Rayleigh's test. Each sector may have its own angle, so at a single
/// frequency chance alone exceeds `x` with a probability of at most `exp(-x) (1 + x + x²/2)`, 5e-7
/// for 20. The limit matters only for fewer than 32 completions, for which [`MIN_COHERENCE`] is the
/// weaker condition. They take about half a second, in which about a hundred frequencies are independent,
/// so one search in ten thousand finds a period by chance.
const MIN_RAYLEIGH_STATISTIC: f64 = 20.0;
/// Smallest distance between the angles of two sectors, rotations.
const MIN_ANGLE_DISTANCE: f64 = 0.03;
/// Number of multiples of the best period that are tried as the rotation.
const MAX_PERIOD_MULTIPLE: u32 = 8;
/// Share of the best coherence that a longer period must exceed to be chosen instead.
const LONGER_PERIOD_COHERENCE_SHARE: f64 = 0.85;

/// A frequency, and how well the completions fit it.
#[derive(Clone, Copy)]
struct FrequencyFit {
    rotations_per_s: f64,
    coherence: f64,
}

/// Finds the period at which the completions of each sector are in phase. Returns it, seconds, and the
/// phase coherence (1: all at the same angle). Of several such periods the longest is the rotation,
/// because completions are in phase with its half and third, too.
///
/// The method is a Rayleigh periodogram: each completion time is an angle at the tried frequency,
/// and the length of the mean of the unit vectors at these angles is the coherence. The best
/// frequency of a coarse grid is refined, tested for significance (Rayleigh's test: Mardia and
/// Jupp, "Directional Statistics", 2000, section 6.3), and compared with its fractions.
pub fn find_period(ends: &[Vec<f64>; 3]) -> Option<(f64, f64)> {
    let count: usize = ends.iter().map(Vec::len).sum();
    let first = ends.iter().flatten().copied().fold(f64::MAX, f64::min);
    let last = ends.iter().flatten().copied().fold(0.0, f64::max);
    let span_s = last - first;
    if count < MIN_COMPLETIONS || span_s < MIN_SPAN_S {
        return None;
    }
    // neighboring frequencies differ by a quarter of a rotation over the whole span, so that no peak is
    // missed between them
    let coarse_step = 0.25 / span_s;
    let refine = |rotations_per_s: f64| {
        let (low, high) = (rotations_per_s - coarse_step, rotations_per_s + coarse_step);
        find_best_frequency(ends, low, high, coarse_step / 100.0)
    };
    let coarse = find_best_frequency(ends, MIN_ROTATIONS_PER_S, MAX_ROTATIONS_PER_S, coarse_step);
    let best = refine(coarse.rotations_per_s);
    let statistic = count as f64 * best.coherence * best.coherence;
    if best.coherence < MIN_COHERENCE || statistic < MIN_RAYLEIGH_STATISTIC {
        return None;
    }
    // the longest period is tried first; at twice the true one, every other completion is out of phase.
    // The coherence of the true one may be a little lower than the best, because a cache may have served
    // a few reads
    let rotation = (2..=MAX_PERIOD_MULTIPLE)
        .rev()
        .map(|multiple| best.rotations_per_s / f64::from(multiple))
        .filter(|slower| *slower >= MIN_ROTATIONS_PER_S)
        .map(refine)
        .find(|fit| fit.coherence > LONGER_PERIOD_COHERENCE_SHARE * best.coherence)
        .unwrap_or(best);
    let frequency = rotation.rotations_per_s;
    have_different_angles(ends, frequency).then_some((1.0 / frequency, rotation.coherence))
}

/// Returns the frequency between `low` and `high` with the greatest coherence; of several with the same
/// coherence, the highest.
fn find_best_frequency(ends: &[Vec<f64>; 3], low: f64, high: f64, step: f64) -> FrequencyFit {
    debug_assert!(low <= high && step > 0.0, "an empty range: {low} to {high} by {step}");
    let fit = |rotations_per_s| FrequencyFit { rotations_per_s, coherence: phase_coherence(ends, rotations_per_s) };
    let step_count = ((high - low) / step) as usize;
    let mut best = fit(low);
    for index in 1..=step_count {
        let tried = fit(low + index as f64 * step);
        if tried.coherence >= best.coherence {
            best = tried;
        }
    }
    best
}

/// Returns the sum of the completions as unit vectors at their angles.
fn sum_unit_vectors(ends: &[f64], rotations_per_s: f64) -> (f64, f64) {
    let (mut x, mut y) = (0.0, 0.0);
    for end_s in ends {
        let (sin, cos) = (TAU * (end_s * rotations_per_s).fract()).sin_cos();
        x += cos;
        y += sin;
    }
    (x, y)
}

/// Returns the phase coherence: the total length of the sectors' vectors per completion. Each sector has
/// its own angle, so their vectors are not added up.
fn phase_coherence(ends: &[Vec<f64>; 3], rotations_per_s: f64) -> f64 {
    let count: usize = ends.iter().map(Vec::len).sum();
    let vector_length = |ends: &Vec<f64>| {
        let (x, y) = sum_unit_vectors(ends, rotations_per_s);
        x.hypot(y)
    };
    ends.iter().map(vector_length).sum::<f64>() / count as f64
}

/// Returns whether the sectors lie at different angles; the ticks of a clock are the same for all.
fn have_different_angles(ends: &[Vec<f64>; 3], rotations_per_s: f64) -> bool {
    let [first, second, third] = [0, 1, 2].map(|sector| {
        let (x, y) = sum_unit_vectors(&ends[sector], rotations_per_s);
        y.atan2(x) / TAU
    });
    // the shorter way around the circle
    let distance = |a: f64, b: f64| (a - b - (a - b).round()).abs();
    [(first, second), (second, third), (first, third)].iter().any(|(a, b)| distance(*a, *b) > MIN_ANGLE_DISTANCE)
}

/// Rotation speeds of drives that were sold, rpm.
const SOLD_SPEEDS_RPM: &[f64] = &[3600.0, 4200.0, 4500.0, 5400.0, 5700.0, 5900.0, 7200.0, 10_000.0, 10_500.0, 15_000.0];

fn report_rotation(session: &mut SuiteSession<'_>, period_s: f64, coherence: f64, count: usize) {
    let rpm = 60.0 / period_s;
    let sold = SOLD_SPEEDS_RPM.iter().find(|sold| (rpm / **sold - 1.0).abs() < 0.01);
    let drive = sold.map_or(String::new(), |sold| format!(", as of a drive of {sold:.0}"));
    let text = format!(
        "a rotation: {rpm:.0} rpm{drive}; {count} reads are in step to {}",
        format_quantity(coherence, "fraction")
    );
    session.report_value("rotation_s", period_s, "s", text);
    session.report_value("turns_per_min", rpm, "count", "revolutions per minute");
    session.report_value(
        "rotational_latency_s",
        period_s / 2.0,
        "s",
        "half a rotation: the mean wait for a sector (SAS 1998)",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_ticks_and_pure_delays_show_no_rotation() {
        let mut rng = Rng::new(5, 0);
        let mut made = |delay: fn(f64) -> f64| {
            let mut now = 0.0;
            let mut ends = [Vec::new(), Vec::new(), Vec::new()];
            for i in 0..300 {
                now = delay(now + rng.next_f64() * 0.02);
                ends[i % 3].push(now);
            }
            ends
        };
        // 8 ms for every request
        assert_eq!(find_period(&made(|t| t + 0.008)), None);
        // a throttle that releases requests at every tick of 4 ms: in phase, but at the same angle
        // everywhere
        assert_eq!(find_period(&made(|t| ((t / 0.004).floor() + 1.0) * 0.004)), None);
        assert_eq!(find_period(&[vec![1.0; 20], vec![], vec![]]), None);
    }
}
