//! A mean with its uncertainty, and a test of whether two means differ.
//!
//! Sources: the mean is a ratio (sum of amounts over sum of weights); its
//! variance is that of Cochran, "Sampling Techniques", 3rd edition (1977), 2.11;
//! the blocks' remaining dependence is estimated as in [`crate::autocorrelation`];
//! two means are compared as by Welch, "The generalization of Student's problem
//! when several different population variances are involved", Biometrika 34
//! (1947).

use crate::autocorrelation::{degrees_of_freedom, effective_count, estimate_autocorrelation};
use crate::distribution::{student_limit, student_p_value};
use crate::{ERROR_RATE, WeightedPoint, blocks};

/// A mean with its variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanVariance {
    /// The weighted mean.
    pub value: f64,
    /// Its variance.
    pub variance: f64,
    /// Degrees of freedom of that variance.
    pub df: f64,
}

impl MeanVariance {
    /// Returns the mean of a series; `None` if there are too few points for a variance.
    pub fn from_points(points: &[WeightedPoint]) -> Option<MeanVariance> {
        let blocks = blocks::block_means(points);
        (blocks.len() >= blocks::MIN_BLOCKS).then(|| MeanVariance::from_blocks(&blocks))
    }

    /// Returns the mean of the means of blocks.
    pub fn from_blocks(blocks: &[WeightedPoint]) -> MeanVariance {
        let count = blocks.len() as f64;
        let value = blocks::weighted_mean(blocks);
        if blocks::is_constant(blocks) {
            return MeanVariance { value, variance: 0.0, df: count - 1.0 };
        }
        let weight: f64 = blocks.iter().map(|b| b.weight).sum();
        let deviations: Vec<f64> = blocks.iter().map(|b| b.value - value).collect();
        let squares: f64 = blocks.iter().zip(&deviations).map(|(b, d)| (b.weight * d).powi(2)).sum();
        let sample_size = blocks::effective_sample_size(blocks);
        let correlation = estimate_autocorrelation(&deviations, 1);
        // even a series that drifts all the time has two independent values: its ends
        let inflation = sample_size / effective_count(sample_size, correlation).max(2.0);
        let variance = squares / (weight * weight) * count / (count - 1.0) * inflation.max(1.0);
        let df = degrees_of_freedom(sample_size, correlation, 1.0);
        MeanVariance { value, variance, df }
    }

    /// Returns the 95 % interval of the mean; infinite if too few independent values are left.
    pub fn confidence_interval(&self) -> (f64, f64) {
        interval_around(self.value, self.variance, self.df)
    }
}

/// Difference of two means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The second minus the first.
    pub value: f64,
    /// 95 % interval of the difference.
    pub interval: (f64, f64),
    /// P-value: the probability that noise alone makes them differ as much.
    pub p_value: f64,
}

/// Compares two means by Welch's test.
pub fn welch_difference(first: &MeanVariance, second: &MeanVariance) -> Difference {
    let value = second.value - first.value;
    let variance = first.variance + second.variance;
    if variance <= 0.0 {
        // two constants are equal or different, without doubt
        let p_value = if value == 0.0 { 1.0 } else { 0.0 };
        return Difference { value, interval: (value, value), p_value };
    }
    let df_term = |m: &MeanVariance| if m.variance > 0.0 { m.variance * m.variance / m.df.max(0.0) } else { 0.0 };
    let df = variance * variance / (df_term(first) + df_term(second));
    Difference {
        value,
        interval: interval_around(value, variance, df),
        p_value: student_p_value(value / variance.sqrt(), df),
    }
}

fn interval_around(value: f64, variance: f64, df: f64) -> (f64, f64) {
    if variance <= 0.0 {
        return (value, value);
    }
    let half_width = student_limit(ERROR_RATE, df) * variance.sqrt();
    (value - half_width, value + half_width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;
    use crate::{Bounds, Contrast};

    fn points(values: &[f64]) -> Vec<WeightedPoint> {
        values.iter().enumerate().map(|(i, &value)| WeightedPoint { time_s: i as f64, value, weight: 1.0 }).collect()
    }

    #[test]
    fn worked_example_of_one_mean() {
        // 3 1 3 1 3 1 3 1: mean 2, squares 8, variance 8 / 7 / 8 = 1/7; 7 and 4 degrees
        // are 28/11 = 2.545 together, t = 3.54
        let mean = MeanVariance::from_blocks(&points(&[3.0, 1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 1.0]));
        assert!((mean.value - 2.0).abs() < 1e-12 && (mean.variance - 1.0 / 7.0).abs() < 1e-12);
        let (low, high) = mean.confidence_interval();
        assert!((high - 3.337).abs() < 0.01 && (low - 0.663).abs() < 0.01, "{low} {high}");
    }

    #[test]
    fn worked_example_of_welch() {
        // variances of the means 4 and 1 with 9 and 16 degrees of freedom:
        // df = 25 / (16/9 + 1/16) = 13.58, t = 5 / sqrt(5) = 2.236, chance 0.0426
        let first = MeanVariance { value: 10.0, variance: 4.0, df: 9.0 };
        let second = MeanVariance { value: 15.0, variance: 1.0, df: 16.0 };
        let d = welch_difference(&first, &second);
        assert!((d.value - 5.0).abs() < 1e-12 && (d.p_value - 0.0426).abs() < 2e-4, "{d:?}");
        assert!(d.interval.0 > 0.0 && d.interval.0 < 0.3);
    }

    #[test]
    fn constants_differ_or_not() {
        let one = MeanVariance { value: 1.0, variance: 0.0, df: 7.0 };
        let two = MeanVariance { value: 2.0, ..one };
        assert_eq!(welch_difference(&one, &two).p_value, 0.0);
        assert_eq!(welch_difference(&one, &one).p_value, 1.0);
        assert_eq!(welch_difference(&one, &two).interval, (1.0, 1.0));
    }

    #[test]
    fn a_mean_weighs_its_points() {
        let list: Vec<WeightedPoint> = (0..16)
            .map(|i| WeightedPoint {
                time_s: f64::from(i),
                value: if i < 8 { 1.0 } else { 5.0 },
                weight: if i < 8 { 3.0 } else { 1.0 },
            })
            .collect();
        assert!((MeanVariance::from_points(&list).unwrap().value - 2.0).abs() < 1e-12);
        assert_eq!(MeanVariance::from_points(&list[..7]), None);
    }

    #[test]
    fn a_drift_below_fast_noise_is_not_taken_for_a_difference() {
        // half an hour: noise of 30 % with an autocorrelation of 0.7, and a drift of 30 % with a memory of 10 minutes,
        // which 48 blocks do not see; a fifth more without the drift is found all the same
        let mut noise = Noise::new(9);
        let (runs, mut alarms, mut found) = (400, 0, 0);
        let mut of = |level: f64, drift: f64| {
            let (fast, slow) = (noise.remembering(0.7, 1800), noise.remembering((-1.0f64 / 600.0).exp(), 1800));
            let value = |(fast, slow): (&f64, &f64)| level * (0.3 * fast + drift * slow).exp();
            MeanVariance::from_points(&points(&fast.iter().zip(&slow).map(value).collect::<Vec<_>>()))
                .expect("points enough")
        };
        for _ in 0..runs {
            let chance = |a: &MeanVariance, b: &MeanVariance| Contrast::compare_means(a, b, Bounds::POSITIVE).p_value();
            alarms += i32::from(chance(&of(1.0, 0.3), &of(1.0, 0.3)) < 0.05);
            found += i32::from(chance(&of(1.0, 0.0), &of(1.2, 0.0)) < 0.005);
        }
        assert!(alarms <= runs * 5 / 100, "{alarms} of {runs}");
        assert!(found >= runs * 9 / 10, "{found} of {runs}");
    }

    #[test]
    fn intervals_cover_the_mean_of_correlated_noise() {
        for (r, count) in [(0.0, 60), (0.5, 120), (0.9, 600), (0.9, 200), (0.99, 600), (0.999, 600)] {
            let mut noise = Noise::new(77);
            let runs = 600;
            let holds = |noise: &mut Noise| {
                let (low, high) =
                    MeanVariance::from_points(&points(&noise.remembering(r, count))).unwrap().confidence_interval();
                low <= 0.0 && 0.0 <= high
            };
            let held = (0..runs).filter(|_| holds(&mut noise)).count() as f64 / f64::from(runs);
            // 95 % within three deviations of 600 runs
            assert!(held > 0.923, "{r} {count}: {held}");
        }
    }
}
