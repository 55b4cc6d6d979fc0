//! Compares two means so that test and interval agree: both use the same estimate, standard error and degrees of
//! freedom. An interval at the level of a test excludes "no difference" exactly if that test is significant.
//!
//! For quantities that cannot be negative, the ratio of the means is estimated on a logarithmic scale: a rate cannot
//! fall by more than 100 %, and the noise of such quantities grows with their level.
//!
//! Sources: the variance of a logarithm by the delta method (Cochran, "Sampling
//! Techniques", 1977, 6.9); Welch, Biometrika 34 (1947), for two variances;
//! ratios of positive means on the logarithmic scale as Fieller's problem is
//! usually solved, Cox, "Interval estimation for ratios", Statistics in
//! Medicine 9 (1990).

use crate::distribution::{student_limit, student_p_value};
use crate::mean::MeanVariance;

/// Range of values that a quantity can have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Smallest possible value.
    pub low: f64,
    /// Largest possible value.
    pub high: f64,
}

impl Bounds {
    /// Any value.
    pub const NONE: Bounds = Bounds { low: f64::NEG_INFINITY, high: f64::INFINITY };
    /// Amounts, rates, times.
    pub const POSITIVE: Bounds = Bounds { low: 0.0, high: f64::INFINITY };
    /// Shares.
    pub const SHARE: Bounds = Bounds { low: 0.0, high: 1.0 };

    fn is_positive(self) -> bool {
        self.low >= 0.0
    }

    fn clamp_interval(self, (low, high): (f64, f64)) -> (f64, f64) {
        (low.max(self.low), high.min(self.high))
    }
}

/// Two values that differ by less than this share count as the same number, because logs print six digits.
const SAME_NUMBER_SHARE: f64 = 1e-6;

/// A second mean compared with a first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contrast {
    /// The first mean.
    first: f64,
    bounds: Bounds,
    scale: ContrastScale,
    /// The difference on its scale.
    estimate: f64,
    /// Standard error of the estimate; 0 for constants.
    standard_error: f64,
    /// Degrees of freedom of the standard error.
    df: f64,
}

/// Quantity that is estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ContrastScale {
    /// The logarithm of the ratio.
    Ratio,
    /// The difference itself.
    Difference,
}

impl Contrast {
    /// Compares `second` with `first`; the values lie within `bounds`.
    pub fn compare_means(first: &MeanVariance, second: &MeanVariance, bounds: Bounds) -> Contrast {
        let ratio = bounds.is_positive() && first.value > 0.0 && second.value > 0.0;
        let scale = if ratio { ContrastScale::Ratio } else { ContrastScale::Difference };
        let variance = |m: &MeanVariance| if ratio { m.variance / (m.value * m.value) } else { m.variance };
        let estimate = if ratio { (second.value / first.value).ln() } else { second.value - first.value };
        let parts = [(variance(first), first.df), (variance(second), second.df)];
        Contrast::new(first.value, bounds, scale, estimate, &parts)
    }

    /// Compares two means of a few repetitions by their difference, even if they cannot be negative.
    pub fn compare_few(first: &MeanVariance, second: &MeanVariance, bounds: Bounds) -> Contrast {
        let parts = [(first.variance, first.df), (second.variance, second.df)];
        Contrast::new(first.value, bounds, ContrastScale::Difference, second.value - first.value, &parts)
    }

    /// Creates a contrast from a difference of logarithms, such as that of two series' mean residuals of a regression.
    /// `parts` are the variances that add up to that of the difference, each with its degrees of freedom.
    pub fn from_log_difference(estimate: f64, parts: &[(f64, f64)]) -> Contrast {
        Contrast::new(1.0, Bounds::POSITIVE, ContrastScale::Ratio, estimate, parts)
    }

    fn new(first: f64, bounds: Bounds, scale: ContrastScale, estimate: f64, parts: &[(f64, f64)]) -> Contrast {
        let variance: f64 = parts.iter().map(|(v, _)| v).sum();
        let df_term = |&(v, df): &(f64, f64)| if v > 0.0 { v * v / df.max(0.0) } else { 0.0 };
        let df = variance * variance / parts.iter().map(df_term).sum::<f64>();
        let size = if scale == ContrastScale::Ratio { 1.0 } else { first.abs().max((first + estimate).abs()) };
        let is_same = estimate.abs() <= SAME_NUMBER_SHARE * size && variance.sqrt() <= SAME_NUMBER_SHARE * size;
        let (estimate, variance) = if is_same { (0.0, 0.0) } else { (estimate, variance) };
        Contrast { first, bounds, scale, estimate, standard_error: variance.max(0.0).sqrt(), df }
    }

    /// Returns true for two equal constants.
    pub fn is_same(&self) -> bool {
        self.estimate == 0.0 && self.standard_error == 0.0
    }

    /// Returns true if there are enough independent values for an interval.
    pub fn is_known(&self) -> bool {
        self.standard_error == 0.0 || (self.df > 0.0 && self.standard_error.is_finite() && self.estimate.is_finite())
    }

    /// P-value: the probability that noise alone makes the means differ as much.
    pub fn p_value(&self) -> f64 {
        if self.is_same() {
            1.0
        } else if self.standard_error == 0.0 {
            0.0
        } else {
            student_p_value(self.estimate / self.standard_error, self.df)
        }
    }

    /// Interval of the estimate on its own scale, with error rate `error`.
    fn estimate_interval(&self, error: f64) -> (f64, f64) {
        if self.standard_error == 0.0 {
            return (self.estimate, self.estimate);
        }
        let half_width = student_limit(error, self.df) * self.standard_error;
        (self.estimate - half_width, self.estimate + half_width)
    }

    /// Interval of the difference, second minus first, with error rate `error`. It stays within the bounds, and
    /// excludes 0 exactly if [`Contrast::p_value`] is below `error`.
    pub fn difference_interval(&self, error: f64) -> (f64, f64) {
        let (low, high) = self.estimate_interval(error);
        let difference = |end: f64| if self.scale == ContrastScale::Ratio { self.first * end.exp_m1() } else { end };
        let ends = (self.first + difference(low), self.first + difference(high));
        let (low, high) = self.bounds.clamp_interval(ends);
        // clamping may have moved an end across 0; the test decides whether 0 is inside
        let (low, high) = (low - self.first, high - self.first);
        match self.p_value() < error {
            true => (low, high),
            false => (low.min(0.0), high.max(0.0)),
        }
    }

    /// Interval of the ratio, second over first; `None` unless the first mean is above 0.
    pub fn ratio_interval(&self, error: f64) -> Option<(f64, f64)> {
        (self.first > 0.0).then(|| {
            let (low, high) = self.difference_interval(error);
            (1.0 + low / self.first, 1.0 + high / self.first)
        })
    }

    /// Returns the first mean, and the second as the estimate gives it.
    pub fn both_means(&self) -> (f64, f64) {
        let second = if self.scale == ContrastScale::Ratio {
            self.first * self.estimate.exp()
        } else {
            self.first + self.estimate
        };
        (self.first, second)
    }

    /// Returns the estimate of the ratio; `None` if the difference was estimated.
    pub fn ratio_estimate(&self) -> Option<f64> {
        (self.scale == ContrastScale::Ratio).then(|| self.estimate.exp())
    }
}

/// Interval of a mean within its bounds, with error rate `error`.
pub fn mean_interval(mean: &MeanVariance, bounds: Bounds, error: f64) -> (f64, f64) {
    if mean.variance <= 0.0 {
        return (mean.value, mean.value);
    }
    let half_width = student_limit(error, mean.df) * mean.variance.sqrt();
    if bounds.is_positive() && mean.value > 0.0 {
        let factor = (half_width / mean.value).exp();
        return bounds.clamp_interval((mean.value / factor, mean.value * factor));
    }
    bounds.clamp_interval((mean.value - half_width, mean.value + half_width))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mean::welch_difference;
    use crate::noise::Noise;

    const ONE: MeanVariance = MeanVariance { value: 10.0, variance: 4.0, df: 9.0 };
    const TWO: MeanVariance = MeanVariance { value: 15.0, variance: 1.0, df: 16.0 };

    #[test]
    fn worked_example() {
        // logarithms: ln 1.5 = 0.4055; variances 0.04 and 1/225 = 0.00444, error 0.2108; df 0.04444² /
        // (0.04²/9 + 0.00444²/16) = 11.03; t 1.923, limit at 5 % 2.2: ratio from 0.943 to 2.385
        let c = Contrast::compare_means(&ONE, &TWO, Bounds::POSITIVE);
        assert!((c.df - 11.03).abs() < 0.01 && (c.p_value() - 0.0806).abs() < 0.001, "{c:?} {}", c.p_value());
        let (low, high) = c.ratio_interval(0.05).unwrap();
        assert!((low - 0.943).abs() < 2e-3 && (high - 2.385).abs() < 5e-3, "{low} {high}");
        let (low, high) = c.difference_interval(0.05);
        assert!((low + 0.57).abs() < 0.02 && (high - 13.85).abs() < 0.05, "{low} {high}");
        // without bounds it is Welch's
        let plain = Contrast::compare_means(&ONE, &TWO, Bounds::NONE);
        let welch = welch_difference(&ONE, &TWO);
        assert!((plain.p_value() - welch.p_value).abs() < 1e-12);
        assert!((plain.difference_interval(0.05).0 - welch.interval.0).abs() < 1e-9);
    }

    #[test]
    fn constants_are_equal_or_not() {
        let still = |value: f64| MeanVariance { value, variance: 0.0, df: 47.0 };
        let of = |a: f64, b: f64| Contrast::compare_means(&still(a), &still(b), Bounds::POSITIVE);
        // a sum of a billion bytes in another order, and six digits printed
        assert!(of(16_777_216.1 / 3.0 * 3.0, 16_777_216.1).is_same());
        assert!(of(16_777_216e3, 16_777_215e3).is_same() && of(0.0, 0.0).is_same());
        assert_eq!((of(7.0, 7.0).p_value(), of(7.0, 7.0).difference_interval(0.05)), (1.0, (0.0, 0.0)));
        let doubled = of(16e9, 32e9);
        assert!(!doubled.is_same() && doubled.p_value() == 0.0);
        assert_eq!(doubled.ratio_interval(0.001).map(|(low, _)| low.round()), Some(2.0));
        assert_eq!(of(0.0, 1e-9).p_value(), 0.0, "something is not nothing");
    }

    #[test]
    fn intervals_stay_within_bounds_and_agree_with_the_test() {
        let mut noise = Noise::new(3);
        for _ in 0..2000 {
            let mut mean = || MeanVariance {
                value: if noise.even() < 0.1 { 0.0 } else { noise.normal().exp().min(0.99) },
                variance: (0.3 * noise.normal()).powi(2),
                df: 1.0 + 20.0 * noise.even(),
            };
            let (first, second) = (mean(), mean());
            let c = Contrast::compare_means(&first, &second, Bounds::SHARE);
            for error in [0.05, 1e-3, 1e-7] {
                let (low, high) = c.difference_interval(error);
                assert!(low >= -first.value - 1e-12 && first.value + high <= 1.0 + 1e-12, "{low} {high} {c:?}");
                let excludes = low > 0.0 || high < 0.0;
                assert_eq!(excludes, c.p_value() < error && second.value != first.value, "{error} {c:?} {low} {high}");
                let (low, high) = mean_interval(&first, Bounds::SHARE, error);
                assert!(0.0 <= low && low <= first.value && first.value <= high && high <= 1.0, "{low} {high}");
            }
        }
    }
}
