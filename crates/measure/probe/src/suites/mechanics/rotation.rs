//! The rotation period, from the moments at which the same sectors come by.

use std::f64::consts::TAU;

use super::super::{EACH, Suite, SuiteSession, Writes, words};
use crate::bench::{RequestTimes, SeriesStep};
use crate::error::ProbeError;
use diskwright_base::Rng;

/// Rotation.
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
    good: "8.33 ms at 7,200 rpm, 11.1 ms at 5,400, 6 ms at 10,000, 4 ms at 15,000, to within 1 %. No disk on sale has \
           any other period, and flash shows none.",
    writes: Writes::IfAllowed,
    time: EACH,
    run: rotation,
};

/// Reads elsewhere before each sector is read again, to push it out of caches.
const BETWEEN: &[usize] = &[0, 1, 4, 16];
/// Longest pause, nanoseconds: more than a rotation of anything that turns.
const PAUSE_NS: u64 = 20_000_000;
/// Places of the three sectors, bytes from the first; from far to near, since read-ahead goes on, not back.
const SECTORS: [u64; 3] = [240 << 10, 100 << 10, 0];
/// Repetitions of each sector at most.
const REPEATS: usize = 200;

fn rotation(session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    let length = session.smallest();
    let room = session.set.room / u64::from(length) * u64::from(length);
    if room < 16 << 20 {
        session.say("rotation_s", "the target is smaller than 16 MiB: too small to bypass a cache");
        return Ok(());
    }
    let mut ways: Vec<(String, usize, bool)> =
        BETWEEN.iter().map(|k| (format!("read-again-after-{k}"), *k, false)).collect();
    if session.set.writes {
        ways.push(("write-again".into(), 0, true));
    }
    for (name, between, write) in ways {
        let steps = steps(session.set.seed, room, length, between, write);
        let most = session.set.lasts.mul_f64(1.0 + between as f64 / 4.0);
        let timed = session.series(&name, steps, most)?;
        let ends: [Vec<f64>; 3] = ends(&timed, between);
        if let Some((period, step)) = period(&ends) {
            tell(session, period, step, ends.iter().map(Vec::len).sum());
            return Ok(());
        }
    }
    let hint = if session.set.writes {
        ""
    } else {
        " (a cache could hide it; with --destroy-data-on the suite writes as well)"
    };
    let text = format!("no mechanical behavior seen: reads of the same sectors share no period{hint}");
    session.say("rotation_s", text);
    Ok(())
}

fn steps(seed: u64, room: u64, length: u32, between: usize, write: bool) -> Vec<SeriesStep> {
    let sector = u64::from(length);
    let mut dice = Rng::new(seed, between as u64);
    let base = room / 3 / sector * sector;
    let mut steps = Vec::new();
    for _ in 0..REPEATS {
        for place in SECTORS {
            for _ in 0..between {
                let offset = dice.below(room / sector) * sector;
                steps.push(SeriesStep { write: false, offset, length, pause_ns: 0 });
            }
            let offset = base + place / sector * sector;
            steps.push(SeriesStep { write, offset, length, pause_ns: dice.below(PAUSE_NS) });
        }
    }
    steps
}

/// When each of the three sectors was answered, seconds.
fn ends(timed: &[RequestTimes], between: usize) -> [Vec<f64>; 3] {
    let mut ends = [Vec::new(), Vec::new(), Vec::new()];
    for (turn, time) in timed.iter().skip(between).step_by(between + 1).enumerate() {
        ends[turn % 3].push(time.end_ns as f64 * 1e-9);
    }
    ends
}

/// Rotations a second that are looked for: 2,400 to 21,000 turns a minute.
const TURNS: (f64, f64) = (40.0, 350.0);
/// Answers that are needed, how much in step they must be, and how far apart
/// (turns) at least two of the sectors must lie.
const LEAST: (usize, f64, f64) = (24, 0.8, 0.03);

/// The period at which the answers of each sector are in step, and how much
/// they are (1 is all at the same angle). The longest such period counts,
/// because halves and thirds of it are in step too.
pub fn period(ends: &[Vec<f64>; 3]) -> Option<(f64, f64)> {
    let count: usize = ends.iter().map(Vec::len).sum();
    let first = ends.iter().flatten().copied().fold(f64::MAX, f64::min);
    let last = ends.iter().flatten().copied().fold(0.0, f64::max);
    if count < LEAST.0 || last - first < 0.1 {
        return None;
    }
    let fine = 0.25 / (last - first);
    let top = |low: f64, high: f64, step: f64| {
        let tried = (0..=((high - low) / step) as usize).map(|i| low + i as f64 * step);
        tried.map(|turns| (in_step(ends, turns), turns)).max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let refined = |turns: f64| top(turns - fine, turns + fine, fine / 100.0);
    let (most, best) = refined(top(TURNS.0, TURNS.1, fine)?.1)?;
    // n r^2 of chance exceeds ln(number tried / p): 20 leaves about one in ten thousand
    if most < LEAST.1 || count as f64 * most * most < 20.0 {
        return None;
    }
    // what comes round every turn is in step with halves and thirds of it too; of answers that lie whole
    // turns apart, every other one is out of step with two turns, but a cache may have given a few
    let slower = (2..=8).rev().map(f64::from).filter(|k| best / k >= TURNS.0);
    let (most, best) =
        slower.filter_map(|k| refined(best / k)).find(|(step, _)| *step > 0.85 * most).unwrap_or((most, best));
    apart(ends, best).then_some((1.0 / best, most))
}

/// Sum of the answers as unit vectors at their angles.
fn vector(ends: &[f64], turns: f64) -> (f64, f64) {
    ends.iter().map(|t| (TAU * (t * turns).fract()).sin_cos()).fold((0.0, 0.0), |a, (s, c)| (a.0 + c, a.1 + s))
}

fn in_step(ends: &[Vec<f64>; 3], turns: f64) -> f64 {
    let count: usize = ends.iter().map(Vec::len).sum();
    let length = |ends: &Vec<f64>| vector(ends, turns).0.hypot(vector(ends, turns).1);
    ends.iter().map(length).sum::<f64>() / count as f64
}

/// Whether the sectors lie at different angles; the ticks of a clock are the same for all.
fn apart(ends: &[Vec<f64>; 3], turns: f64) -> bool {
    let angles = [0, 1, 2].map(|i| vector(&ends[i], turns)).map(|(x, y)| y.atan2(x) / TAU);
    let far = |a: f64, b: f64| (a - b - (a - b).round()).abs() > LEAST.2;
    far(angles[0], angles[1]) || far(angles[1], angles[2]) || far(angles[0], angles[2])
}

/// Speeds of drives that were sold, turns a minute.
const SPEEDS: &[f64] = &[3600.0, 4200.0, 4500.0, 5400.0, 5700.0, 5900.0, 7200.0, 10_000.0, 10_500.0, 15_000.0];

fn tell(session: &mut SuiteSession<'_>, period: f64, step: f64, count: usize) {
    let turns = 60.0 / period;
    let sold = SPEEDS.iter().find(|s| (turns / **s - 1.0).abs() < 0.01);
    let as_of = sold.map_or(String::new(), |s| format!(", as of a drive of {s:.0}"));
    let text = format!("a rotation: {turns:.0} rpm{as_of}; {count} reads are in step to {}", words(step, "fraction"));
    session.found("rotation_s", period, "s", text);
    session.found("turns_per_min", turns, "count", "revolutions per minute");
    session.found("rotational_latency_s", period / 2.0, "s", "half a rotation: the mean wait for a sector (SAS 1998)");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_a_clock_and_pure_delays_do_not_turn() {
        let mut dice = Rng::new(5, 0);
        let mut made = |delay: fn(f64) -> f64| {
            let mut now = 0.0;
            let mut ends = [Vec::new(), Vec::new(), Vec::new()];
            for i in 0..300 {
                now = delay(now + dice.share() * 0.02);
                ends[i % 3].push(now);
            }
            ends
        };
        // 8 ms whatever is asked
        assert_eq!(period(&made(|t| t + 0.008)), None);
        // a throttle that lets go at every tick of 4 ms: in step, but at the same angle everywhere
        assert_eq!(period(&made(|t| ((t / 0.004).floor() + 1.0) * 0.004)), None);
        assert_eq!(period(&[vec![1.0; 20], vec![], vec![]]), None);
    }
}
