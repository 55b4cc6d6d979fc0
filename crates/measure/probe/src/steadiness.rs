//! Steady state: judges whether a rate has settled.

/// Steadiness of a series of counts in equal intervals, by the SNIA's Solid State Storage
/// Performance Test Specification 2.0.1: over five rounds the rate stays within 20 % of its mean
/// from lowest to highest, and a straight line through them rises or falls by at most 10 % of it.
/// There, a round is a minute; here, it is a fifth of a run, made of whole seconds if the run has
/// five or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steadiness {
    /// Both conditions hold.
    pub steady: bool,
    /// Difference between the highest and the lowest round, as a share of the mean.
    pub excursion: f64,
    /// Rise of the line from the first round to the last, as a share of the mean; negative if it falls.
    pub drift: f64,
}

/// Number of rounds.
const ROUND_COUNT: usize = 5;
/// Number of slices in a second: a slice is a tenth of a second.
const SLICES_PER_SECOND: usize = 10;
/// Largest excursion of a steady rate, share of the mean.
const MAX_EXCURSION: f64 = 0.2;
/// Largest drift of a steady rate, share of the mean.
const MAX_DRIFT: f64 = 0.1;

/// Returns the counts of the complete tenths of a second of a run. A tenth without a completion counts
/// 0; the last one is left out if the end of the run cut it short.
pub fn complete_slices(slices: &[u64], seconds: f64) -> Vec<u64> {
    // 0.1 slices are added, because the length of a run is known only to a few milliseconds
    let count = (seconds * SLICES_PER_SECOND as f64 + 0.1).max(0.0) as usize;
    slices.iter().copied().chain(std::iter::repeat(0)).take(count).collect()
}

/// Judges a run by its counts in tenths of a second; `None` if there are fewer than two tenths per
/// round, or nothing was completed at all.
pub fn judge_slices(slices: &[u64], seconds: f64) -> Option<Steadiness> {
    let slices = complete_slices(slices, seconds);
    let unit = if slices.len() >= ROUND_COUNT * SLICES_PER_SECOND { SLICES_PER_SECOND } else { 1 };
    let length = slices.len() / ROUND_COUNT / unit * unit;
    if length < 2 {
        return None;
    }
    debug_assert!(ROUND_COUNT * length <= slices.len(), "rounds of {length} slices exceed {}", slices.len());
    // slices that do not fill a round are left out at the beginning: the end shows where the run
    // settled
    let judged = &slices[slices.len() - ROUND_COUNT * length..];
    let rounds: Vec<f64> = judged.chunks(length).map(|c| c.iter().sum::<u64>() as f64).collect();
    judge_rates(&rounds)
}

/// Judges the last five of consecutive rates; `None` if there are fewer, or their mean is not above 0.
pub fn judge_rates(rates: &[f64]) -> Option<Steadiness> {
    let rounds = &rates[rates.len().checked_sub(ROUND_COUNT)?..];
    let mean = rounds.iter().sum::<f64>() / ROUND_COUNT as f64;
    if mean.is_nan() || mean <= 0.0 {
        return None;
    }
    let (min, max) = rounds.iter().fold((f64::MAX, f64::MIN), |(a, b), &p| (a.min(p), b.max(p)));
    // least squares through points at x = -2, -1, 0, 1 and 2, whose squares sum to 10
    const { assert!(ROUND_COUNT == 5) };
    let slope: f64 = rounds.iter().enumerate().map(|(i, p)| (i as f64 - 2.0) * p).sum::<f64>() / 10.0;
    let (excursion, drift) = ((max - min) / mean, slope * (ROUND_COUNT - 1) as f64 / mean);
    Some(Steadiness { steady: excursion <= MAX_EXCURSION && drift.abs() <= MAX_DRIFT, excursion, drift })
}

/// Returns the index from which a rate was steady to the end: the first of `rates` from which every
/// five in a row are steady. `None` if the last five are not.
pub fn steady_since(rates: &[f64]) -> Option<usize> {
    let mut index = None;
    for first in (0..=rates.len().checked_sub(ROUND_COUNT)?).rev() {
        if !judge_rates(&rates[first..first + ROUND_COUNT]).is_some_and(|s| s.steady) {
            break;
        }
        index = Some(first);
    }
    index
}

/// Finds a step in a series: returns the index at which two flat parts explain it best, and the means
/// before and after. A part has at least a tenth of the series. `None` if a straight line explains the
/// series about as well, or if the step is less than a tenth of the mean before it, or less than three
/// times the spread around the two means.
pub fn find_step(rates: &[f64]) -> Option<(usize, f64, f64)> {
    let min_length = (rates.len() / 10).max(2);
    if rates.len() < 2 * min_length + 1 {
        return None;
    }
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let squares = |part: &[f64]| part.iter().map(|r| (r - mean(part)).powi(2)).sum::<f64>();
    let residual = |cut: usize| squares(&rates[..cut]) + squares(&rates[cut..]);
    let cut = (min_length..=rates.len() - min_length).min_by(|&a, &b| residual(a).total_cmp(&residual(b)))?;
    let (before, after) = (mean(&rates[..cut]), mean(&rates[cut..]));
    let spread = (residual(cut) / (rates.len() - 2) as f64).sqrt();
    let size = (after - before).abs();
    (size > 0.1 * before && size > 3.0 * spread && residual(cut) < 0.5 * residuals_around_line(rates))
        .then_some((cut, before, after))
}

/// Returns the sum of squares around the least-squares line.
fn residuals_around_line(rates: &[f64]) -> f64 {
    let n = rates.len() as f64;
    let (middle, mean) = ((n - 1.0) / 2.0, rates.iter().sum::<f64>() / n);
    let sum_of = |term: &dyn Fn(f64, f64) -> f64| -> f64 {
        rates.iter().enumerate().map(|(i, r)| term(i as f64 - middle, r - mean)).sum()
    };
    let (xy, xx, yy) = (sum_of(&|x, y| x * y), sum_of(&|x, _| x * x), sum_of(&|_, y| y * y));
    yy - xy * xy / xx
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A minute of counts in tenths of a second.
    fn minute_of_slices(rate: impl Fn(f64) -> f64) -> Vec<u64> {
        (0..600).map(|i| rate(f64::from(i) / 10.0) as u64).collect()
    }

    #[test]
    fn tells_steady_falling_and_oscillating_series_apart() {
        // a round is 12 s
        let cases: [(&str, Vec<u64>, bool); 8] = [
            ("flat", minute_of_slices(|_| 1000.0), true),
            ("noise of 30 % by tenths averages out", minute_of_slices(|t| 1000.0 + 300.0 * (t * 977.0).sin()), true),
            ("falls by 8 % between the rounds' middles", minute_of_slices(|t| 1000.0 - 100.0 * t / 60.0), true),
            ("falls by 16 %", minute_of_slices(|t| 1000.0 - 200.0 * t / 60.0), false),
            (
                "falls from 20,000 to 2,000 as a cache fills",
                minute_of_slices(|t| 2000.0 + 18_000.0 * (-t / 10.0).exp()),
                false,
            ),
            (
                "swings by 40 % in the mean with a period of 24 s",
                minute_of_slices(|t| 1000.0 + 200.0 * (t / 24.0 * std::f64::consts::TAU).sin()),
                false,
            ),
            (
                "one round of five at 78 %",
                minute_of_slices(|t| if (24.0..36.0).contains(&t) { 780.0 } else { 1000.0 }),
                false,
            ),
            (
                "one round of five at 82 %",
                minute_of_slices(|t| if (24.0..36.0).contains(&t) { 820.0 } else { 1000.0 }),
                true,
            ),
        ];
        for (name, slices, steady) in cases {
            let found = judge_slices(&slices, 60.0).unwrap();
            assert_eq!(found.steady, steady, "{name}: {found:?}");
        }
    }

    #[test]
    fn matches_the_worked_example() {
        // rounds 1040 1020 1000 980 960: excursion 80 of 1000, line from 1040 to 960
        let found = judge_rates(&[9.0, 1040.0, 1020.0, 1000.0, 980.0, 960.0]).unwrap();
        assert!((found.excursion - 0.08).abs() < 1e-12 && (found.drift + 0.08).abs() < 1e-12, "{found:?}");
        assert!(found.steady);
    }

    #[test]
    fn short_runs_and_silence_are_not_judged() {
        assert_eq!(judge_slices(&[100; 9], 0.9), None);
        assert!(judge_slices(&[100; 10], 1.0).is_some_and(|s| s.steady));
        assert_eq!(judge_slices(&[0; 100], 10.0), None);
        assert_eq!(judge_rates(&[1.0; 4]), None);
        assert_eq!(judge_rates(&[f64::NAN; 5]), None);
        // a run of 5.9 s: rounds are whole seconds, and the first 0.9 s are left out
        let mut slices = vec![10_000; 9];
        slices.extend([100; 50]);
        assert!(judge_slices(&slices, 5.9).is_some_and(|s| s.steady));
        // an answer at the very end opens a slice that has no time of its own
        let mut slices = vec![100; 20];
        slices.push(1);
        assert!(judge_slices(&slices, 2.0).is_some_and(|s| s.steady));
        // a device that completed nothing for the last two of ten seconds was not steady
        assert!(judge_slices(&[100; 80], 10.0).is_some_and(|s| !s.steady));
        assert_eq!(complete_slices(&[1, 2, 3], 0.5), [1, 2, 3, 0, 0]);
        assert_eq!(complete_slices(&[1, 2, 3], f64::NAN), [0; 0]);
    }

    #[test]
    fn the_beginning_of_the_steady_part_is_found() {
        let rates: Vec<f64> = (0..30).map(|i| if i < 10 { 2000.0 - 100.0 * f64::from(i) } else { 1000.0 }).collect();
        // windows that reach into the fall drift too much
        let index = steady_since(&rates).unwrap();
        assert!((8..=10).contains(&index), "{index}");
        assert_eq!(steady_since(&[1.0, 2.0, 3.0, 4.0, 5.0]), None);
        assert_eq!(steady_since(&[1.0; 3]), None);
    }

    #[test]
    fn a_step_is_told_from_a_slope_and_from_noise() {
        let noise = |i: i32| f64::from((i * 7919) % 101) - 50.0;
        let throttled: Vec<f64> = (0..120).map(|i| if i < 46 { 3000.0 } else { 1000.0 } + noise(i)).collect();
        let (cut, before, after) = find_step(&throttled).unwrap();
        assert_eq!(cut, 46);
        assert!((before - 3000.0).abs() < 30.0 && (after - 1000.0).abs() < 30.0);
        let falling: Vec<f64> = (0..120).map(|i| 3000.0 - 20.0 * f64::from(i) + noise(i)).collect();
        assert_eq!(find_step(&falling), None);
        let flat: Vec<f64> = (0..120).map(|i| 3000.0 + noise(i)).collect();
        assert_eq!(find_step(&flat), None);
        assert_eq!(find_step(&[1.0, 1.0, 9.0]), None);
    }
}
