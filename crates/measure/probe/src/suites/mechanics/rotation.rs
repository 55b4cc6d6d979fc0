//! The rotation period, from the times at which the same sectors pass.

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
/// Offsets of the three sectors from the first, bytes; from far to near, since read-ahead goes
/// forward, not back.
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
        if let Some((period, step)) = find_period(&ends) {
            report_rotation(session, period, step, ends.iter().map(Vec::len).sum());
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

fn build_steps(seed: u64, usable_bytes: u64, length: u32, between: usize, write: bool) -> Vec<SeriesStep> {
    let sector = u64::from(length);
    let mut rng = Rng::new(seed, between as u64);
    let base = usable_bytes / 3 / sector * sector;
    let mut steps = Vec::new();
    for _ in 0..MAX_REPEATS {
        for place in SECTOR_OFFSETS {
            for _ in 0..between {
                let offset = rng.next_below(usable_bytes / sector) * sector;
                steps.push(SeriesStep { write: false, offset, length, pause_ns: 0 });
            }
            let offset = base + place / sector * sector;
            steps.push(SeriesStep { write, offset, length, pause_ns: rng.next_below(MAX_PAUSE_NS) });
        }
    }
    steps
}

/// Returns the completion times of each of the three sectors, seconds.
fn completion_times(times: &[RequestTimes], between: usize) -> [Vec<f64>; 3] {
    let mut ends = [Vec::new(), Vec::new(), Vec::new()];
    for (number, time) in times.iter().skip(between).step_by(between + 1).enumerate() {
        ends[number % 3].push(time.end_ns as f64 * 1e-9);
    }
    ends
}

/// Range of rotations per second searched: 2,400 to 21,000 rpm.
const ROTATIONS_PER_S: (f64, f64) = (40.0, 350.0);
/// Smallest number of completions, smallest phase coherence, and smallest distance between the
/// angles of two sectors (turns) for a result.
const MIN_EVIDENCE: (usize, f64, f64) = (24, 0.8, 0.03);

/// Finds the period at which the completions of each sector are in phase; returns it and the phase
/// coherence (1 is all at the same angle). The longest such period counts, because its halves and
/// thirds are in phase too.
pub fn find_period(ends: &[Vec<f64>; 3]) -> Option<(f64, f64)> {
    let count: usize = ends.iter().map(Vec::len).sum();
    let first = ends.iter().flatten().copied().fold(f64::MAX, f64::min);
    let last = ends.iter().flatten().copied().fold(0.0, f64::max);
    if count < MIN_EVIDENCE.0 || last - first < 0.1 {
        return None;
    }
    let fine = 0.25 / (last - first);
    let top = |low: f64, high: f64, step: f64| {
        let tried = (0..=((high - low) / step) as usize).map(|i| low + i as f64 * step);
        tried.map(|turns| (phase_coherence(ends, turns), turns)).max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let refined = |turns: f64| top(turns - fine, turns + fine, fine / 100.0);
    let (coherence, best) = refined(top(ROTATIONS_PER_S.0, ROTATIONS_PER_S.1, fine)?.1)?;
    // by chance, n r^2 exceeds ln(number tried / p): 20 leaves about one in ten thousand
    if coherence < MIN_EVIDENCE.1 || count as f64 * coherence * coherence < 20.0 {
        return None;
    }
    // completions one turn apart are in phase with halves and thirds of it too; of completions that
    // lie whole turns apart, every other one is out of phase with two turns, but a cache may have
    // served a few
    let slower = (2..=8).rev().map(f64::from).filter(|k| best / k >= ROTATIONS_PER_S.0);
    let (coherence, best) = slower
        .filter_map(|k| refined(best / k))
        .find(|(step, _)| *step > 0.85 * coherence)
        .unwrap_or((coherence, best));
    have_different_angles(ends, best).then_some((1.0 / best, coherence))
}

/// Returns the sum of the completions as unit vectors at their angles.
fn sum_unit_vectors(ends: &[f64], turns: f64) -> (f64, f64) {
    ends.iter().map(|t| (TAU * (t * turns).fract()).sin_cos()).fold((0.0, 0.0), |a, (s, c)| (a.0 + c, a.1 + s))
}

fn phase_coherence(ends: &[Vec<f64>; 3], turns: f64) -> f64 {
    let count: usize = ends.iter().map(Vec::len).sum();
    let vector_length = |ends: &Vec<f64>| sum_unit_vectors(ends, turns).0.hypot(sum_unit_vectors(ends, turns).1);
    ends.iter().map(vector_length).sum::<f64>() / count as f64
}

/// Returns whether the sectors lie at different angles; the ticks of a clock are the same for all.
fn have_different_angles(ends: &[Vec<f64>; 3], turns: f64) -> bool {
    let angles = [0, 1, 2].map(|i| sum_unit_vectors(&ends[i], turns)).map(|(x, y)| y.atan2(x) / TAU);
    let far = |a: f64, b: f64| (a - b - (a - b).round()).abs() > MIN_EVIDENCE.2;
    far(angles[0], angles[1]) || far(angles[1], angles[2]) || far(angles[0], angles[2])
}

/// Rotation speeds of drives that were sold, rpm.
const SOLD_SPEEDS_RPM: &[f64] = &[3600.0, 4200.0, 4500.0, 5400.0, 5700.0, 5900.0, 7200.0, 10_000.0, 10_500.0, 15_000.0];

fn report_rotation(session: &mut SuiteSession<'_>, period: f64, step: f64, count: usize) {
    let turns = 60.0 / period;
    let sold = SOLD_SPEEDS_RPM.iter().find(|s| (turns / **s - 1.0).abs() < 0.01);
    let as_of = sold.map_or(String::new(), |s| format!(", as of a drive of {s:.0}"));
    let text = format!(
        "a rotation: {turns:.0} rpm{as_of}; {count} reads are in step to {}",
        format_quantity(step, "fraction")
    );
    session.report_value("rotation_s", period, "s", text);
    session.report_value("turns_per_min", turns, "count", "revolutions per minute");
    session.report_value(
        "rotational_latency_s",
        period / 2.0,
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
