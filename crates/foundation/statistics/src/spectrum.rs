//! Candidate periods of a series: peaks of its spectrum above their surroundings, and peaks of its autocorrelation.
//! [`crate::rhythm`] tests them.
//!
//! Sources: fast Fourier transform, Cooley and Tukey, Mathematics of Computation
//! 19 (1965); each line of the spectrum compared with the median of its neighbors, so that
//! the red noise of slow counters makes no peaks, Vaughan, Astronomy and Astrophysics
//! 431 (2005); autocorrelation as the transform of the power spectrum (Wiener and
//! Khinchin).

use crate::WeightedPoint;

/// Largest number of candidates of each kind.
const MAX_CANDIDATES: usize = 8;
/// Shortest period, in points.
const MIN_PERIOD_POINTS: usize = 4;
/// Shortest lag taken from the autocorrelation, in points. Shorter ones are too inexact, and the spectrum shows such
/// periods.
const MIN_LAG_POINTS: usize = 24;
/// Number of neighbors on each side with which a line of the spectrum is compared.
const NEIGHBOR_LINES: usize = 16;

/// A candidate frequency with its tolerance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Frequency per second.
    pub frequency: f64,
    /// Tolerance on either side, per second.
    pub frequency_tolerance: f64,
}

/// Finds candidates among periods from four points up to a third of the series.
pub fn candidate_periods(points: &[WeightedPoint], spacing_s: f64) -> Vec<Candidate> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let count = ((last.time_s - first.time_s) / spacing_s).round() as usize + 1;
    if !(3 * MIN_PERIOD_POINTS..=1 << 16).contains(&count) {
        return Vec::new();
    }
    let size = (2 * count).next_power_of_two();
    let mean = crate::blocks::weighted_mean(points);
    let (mut real, mut imaginary) = (vec![0.0; size], vec![0.0; size]);
    for p in points {
        // points that are missing stay 0, the mean
        let index = ((p.time_s - first.time_s) / spacing_s).round() as usize;
        real[index.min(count - 1)] = p.value - mean;
    }
    fourier_transform(&mut real, &mut imaginary);
    let power: Vec<f64> = real.iter().zip(&imaginary).map(|(r, i)| r * r + i * i).collect();
    let span = size as f64 * spacing_s;
    // periods longer than a third of the series are excluded, with some tolerance for those between two lines
    let lines = (size as f64 / (count as f64 / 2.5)) as usize..=size / MIN_PERIOD_POINTS;
    let peak_height = |k: usize| power[k] / neighborhood_median(&power, k).max(f64::MIN_POSITIVE);
    let mut found: Vec<Candidate> = highest_maxima(lines, peak_height)
        .into_iter()
        .map(|k| Candidate { frequency: k as f64 / span, frequency_tolerance: 0.5 / (count as f64 * spacing_s) })
        .collect();
    // the transform of the power spectrum is the autocorrelation; its imaginary part is 0
    let (mut autocorrelation, mut imaginary) = (power, vec![0.0; size]);
    fourier_transform(&mut autocorrelation, &mut imaginary);
    let lags = MIN_LAG_POINTS..=count / 3;
    // there are fewer pairs at large lags
    let mean_product = |lag: usize| autocorrelation[lag] / (count - lag) as f64;
    let candidate_of_lag = |lag: usize| {
        let period_s = lag as f64 * spacing_s;
        Candidate { frequency: 1.0 / period_s, frequency_tolerance: 0.6 * spacing_s / (period_s * period_s) }
    };
    found.extend(highest_maxima(lags, mean_product).into_iter().map(candidate_of_lag));
    found
}

/// Returns where a function of whole numbers has its highest local maxima, highest first; at most [`MAX_CANDIDATES`].
fn highest_maxima(range: std::ops::RangeInclusive<usize>, value: impl Fn(usize) -> f64) -> Vec<usize> {
    let (low, high) = (*range.start(), *range.end());
    if low < 1 || high <= low {
        return Vec::new();
    }
    let values: Vec<f64> = (low - 1..=high + 1).map(value).collect();
    let is_top = |index: &usize| {
        values[*index] > 0.0 && values[*index] >= values[index - 1] && values[*index] > values[index + 1]
    };
    let mut tops: Vec<usize> = (1..values.len() - 1).filter(is_top).collect();
    tops.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    tops.truncate(MAX_CANDIDATES);
    tops.into_iter().map(|index| index + low - 1).collect()
}

/// Returns the median power of a line and its neighbors, without the line of frequency 0.
fn neighborhood_median(power: &[f64], index: usize) -> f64 {
    let range = index.saturating_sub(NEIGHBOR_LINES).max(1)..(index + NEIGHBOR_LINES + 1).min(power.len() / 2);
    let mut list: Vec<f64> = range.map(|k| power[k]).collect();
    let middle = list.len() / 2;
    *list.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// Replaces a series by its discrete Fourier transform. The lengths must be equal powers of two.
fn fourier_transform(real: &mut [f64], imaginary: &mut [f64]) {
    let count = real.len();
    assert!(count.is_power_of_two() && imaginary.len() == count);
    let bits = count.trailing_zeros();
    for index in 0..count {
        let reversed = index.reverse_bits() >> (usize::BITS - bits);
        if index < reversed {
            real.swap(index, reversed);
            imaginary.swap(index, reversed);
        }
    }
    let mut half = 1;
    while half < count {
        for step in 0..half {
            let (sin, cos) = (-std::f64::consts::PI * step as f64 / half as f64).sin_cos();
            for index in (step..count).step_by(2 * half) {
                let (r, i) = (real[index + half], imaginary[index + half]);
                let (r, i) = (r * cos - i * sin, r * sin + i * cos);
                (real[index + half], imaginary[index + half]) = (real[index] - r, imaginary[index] - i);
                (real[index], imaginary[index]) = (real[index] + r, imaginary[index] + i);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example_of_a_transform() {
        // 1 2 3 4: sum 10, -2+2i, -2, -2-2i
        let (mut real, mut imaginary) = (vec![1.0, 2.0, 3.0, 4.0], vec![0.0; 4]);
        fourier_transform(&mut real, &mut imaginary);
        for (k, (r, i)) in [(10.0, 0.0), (-2.0, 2.0), (-2.0, 0.0), (-2.0, -2.0)].into_iter().enumerate() {
            assert!((real[k] - r).abs() < 1e-12 && (imaginary[k] - i).abs() < 1e-12, "{k}: {real:?} {imaginary:?}");
        }
    }

    #[test]
    fn a_wave_and_short_bursts_are_among_the_candidates() {
        let is_near = |list: &[Candidate], period: f64| {
            list.iter().any(|c| (c.frequency - 1.0 / period).abs() <= c.frequency_tolerance)
        };
        let points = |value: &dyn Fn(usize) -> f64| -> Vec<WeightedPoint> {
            (0..700).map(|i| WeightedPoint { time_s: 60.0 * i as f64, value: value(i), weight: 1.0 }).collect()
        };
        let wave = points(&|i| (std::f64::consts::TAU * i as f64 / 41.3).sin());
        assert!(is_near(&candidate_periods(&wave, 60.0), 60.0 * 41.3));
        let bursts = points(&|i| f64::from(u8::from(i % 60 < 2)));
        assert!(is_near(&candidate_periods(&bursts, 60.0), 3600.0));
        assert!(candidate_periods(&wave[..9], 60.0).is_empty());
    }
}
