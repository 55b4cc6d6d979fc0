//! A straight line through a series: its slope with an interval, and when it
//! will cross a limit.
//!
//! Sources: least squares as in any text; its variance with the number of
//! independent values in place of the number of values as Santer et al. (2000,
//! see [`crate::autocorrelation`]) do for trends; the time of a crossing as the interval
//! in which the line's confidence band meets the limit (Fieller, "Some problems in
//! interval estimation", Journal of the Royal Statistical Society B 16, 1954).

use crate::autocorrelation::{degrees_of_freedom, estimate_autocorrelation, remaining_count};
use crate::distribution::{student_limit, student_p_value};
use crate::{ERROR_RATE, WeightedPoint, blocks, is_positive};

/// A line through means of blocks: `level + slope (t - center_s)`.
///
/// Its band at a time `t`, with `u = t - center_s`, is
/// `± t_limit sqrt(variance_level + variance_slope u²)`: with the times centered on their mean, the
/// errors of level and slope are independent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineFit {
    /// Growth per second.
    pub slope: f64,
    /// 95 % interval of the slope.
    pub slope_interval: (f64, f64),
    /// P-value: the probability that noise alone has a slope as steep.
    pub p_value: f64,
    /// Weighted sum of squared residuals.
    pub residual: f64,
    /// Weighted mean of the points' times.
    center_s: f64,
    /// Value of the line at `center_s`.
    level: f64,
    variance_level: f64,
    variance_slope: f64,
    /// Quantile of Student's t for the band.
    t_limit: f64,
}

/// Times at which a line crosses a limit, in seconds on the points' clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Crossing {
    /// Time at which the line itself crosses the limit; `None` if it never does.
    pub time_s: Option<f64>,
    /// First time at which the confidence band reaches the limit.
    pub earliest_s: Option<f64>,
    /// Time from which on the whole band is beyond the limit; `None` if the slope may be zero.
    pub latest_s: Option<f64>,
}

impl LineFit {
    /// Fits a line through means of blocks by weighted least squares; `None` if there are too few.
    ///
    /// The slope is `Σ w (t - t̄)(y - ȳ) / Σ w (t - t̄)²`, and its variance `s² / Σ w (t - t̄)²`. Here
    /// `s²` is the sum of squared residuals divided by the number of independent values that remain
    /// (Santer et al. 2000), not by the number of points less 2, because the
    /// residuals of neighbors are correlated.
    pub fn fit(points: &[WeightedPoint]) -> Option<LineFit> {
        if points.len() < 3 {
            return None;
        }
        let count = blocks::effective_sample_size(points);
        let sum: f64 = points.iter().map(|p| p.weight).sum();
        // weights scaled to sum to the effective number of points
        let weight = |p: &WeightedPoint| p.weight * count / sum;
        let center_s = points.iter().map(|p| weight(p) * p.time_s).sum::<f64>() / count;
        let level = blocks::weighted_mean(points);
        let sum_tt: f64 = points.iter().map(|p| weight(p) * (p.time_s - center_s).powi(2)).sum();
        let sum_ty: f64 = points.iter().map(|p| weight(p) * (p.time_s - center_s) * (p.value - level)).sum();
        if !is_positive(sum_tt) {
            return None;
        }
        let slope = sum_ty / sum_tt;
        let residuals: Vec<f64> = points.iter().map(|p| p.value - level - slope * (p.time_s - center_s)).collect();
        let residual: f64 = points.iter().zip(&residuals).map(|(p, r)| weight(p) * r * r).sum();
        // rounding errors of an exact line are correlated and must not count
        let is_exact = residual <= 1e-20 * slope * slope * sum_tt;
        let autocorrelation = if is_exact { 0.0 } else { estimate_autocorrelation(&residuals, 2) };
        let residual_variance = residual / remaining_count(count, autocorrelation, 2.0);
        let df = degrees_of_freedom(count, autocorrelation, 2.0);
        let variance_slope = residual_variance / sum_tt;
        let t_limit = student_limit(ERROR_RATE, df);
        let half_width = if residual_variance == 0.0 { 0.0 } else { t_limit * variance_slope.sqrt() };
        Some(LineFit {
            slope,
            slope_interval: (slope - half_width, slope + half_width),
            p_value: if slope == 0.0 { 1.0 } else { student_p_value(slope / variance_slope.sqrt(), df) },
            residual,
            center_s,
            level,
            variance_level: residual_variance / count,
            variance_slope,
            t_limit,
        })
    }

    /// Builds a line of slope and level at a time, each with its variance, from `df` degrees of freedom.
    pub(crate) fn from_estimates(slope: (f64, f64), level: (f64, f64), center_s: f64, df: f64) -> LineFit {
        let ((slope, variance_slope), (level, variance_level)) = (slope, level);
        let t_limit = student_limit(ERROR_RATE, df);
        let half_width = if variance_slope == 0.0 { 0.0 } else { t_limit * variance_slope.sqrt() };
        LineFit {
            slope,
            slope_interval: (slope - half_width, slope + half_width),
            p_value: if slope == 0.0 { 1.0 } else { student_p_value(slope / variance_slope.sqrt(), df) },
            residual: 0.0,
            center_s,
            level,
            variance_level,
            variance_slope,
            t_limit,
        }
    }

    /// Returns the line's value at a time.
    pub fn value_at(&self, at_s: f64) -> f64 {
        self.level + self.slope * (at_s - self.center_s)
    }

    /// Times after `from_s` at which the line and its band cross `limit`, from the side on which the line is at
    /// `from_s`.
    ///
    /// With `u = t - center_s` and `gap` from the limit to the line's level, the band meets the limit where
    /// `(gap + slope u)² = t_limit² (variance_level + variance_slope u²)`: a quadratic equation in `u` (Fieller 1954).
    pub fn limit_crossing(&self, limit: f64, from_s: f64) -> Crossing {
        // mirrored so that the line is below the limit at `from_s`
        let sign = if self.value_at(from_s) <= limit { 1.0 } else { -1.0 };
        let (gap, slope) = (sign * (self.level - limit), sign * self.slope);
        let crosses_at_s = self.center_s - gap / slope;
        let time_s = (slope > 0.0 && crosses_at_s >= from_s && crosses_at_s.is_finite()).then_some(crosses_at_s);
        let t_squared = self.t_limit * self.t_limit;
        let a = slope * slope - t_squared * self.variance_slope;
        let b = gap * slope;
        let c = gap * gap - t_squared * self.variance_level;
        let from_u = from_s - self.center_s;
        let line_above_limit = |u: f64| gap + slope * u;
        let meetings: Vec<f64> =
            quadratic_roots(a, b, c).into_iter().filter(|u| *u > from_u && u.is_finite()).collect();
        let first_meeting = |is_wanted: &dyn Fn(f64) -> bool| {
            meetings.iter().copied().filter(|u| is_wanted(*u)).min_by(f64::total_cmp).map(|u| u + self.center_s)
        };
        // the band's upper edge meets the limit while the line is below it, the lower edge afterwards
        let rounding = 1e-12 * gap.abs();
        let band = (t_squared * (self.variance_level + self.variance_slope * from_u * from_u)).sqrt();
        let is_within_band = line_above_limit(from_u) + band >= 0.0;
        let earliest_s =
            if is_within_band { Some(from_s) } else { first_meeting(&|u| line_above_limit(u) <= rounding) };
        // a > 0: the slope differs from zero significantly
        let latest_s = if slope > 0.0 && a > 0.0 { first_meeting(&|u| line_above_limit(u) >= -rounding) } else { None };
        Crossing { time_s, earliest_s, latest_s }
    }
}

/// Returns the real solutions of `a u² + 2 b u + c = 0`.
fn quadratic_roots(a: f64, b: f64, c: f64) -> Vec<f64> {
    if a == 0.0 {
        return if b == 0.0 { Vec::new() } else { vec![-c / (2.0 * b)] };
    }
    let discriminant = b * b - a * c;
    // a band without width touches the limit once, which rounding must not lose
    if discriminant < -1e-9 * b * b {
        return Vec::new();
    }
    let root = discriminant.max(0.0).sqrt();
    vec![(-b - root) / a, (-b + root) / a]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    fn points(values: impl IntoIterator<Item = f64>) -> Vec<WeightedPoint> {
        let values = values.into_iter().enumerate();
        values.map(|(i, value)| WeightedPoint { time_s: i as f64, value, weight: 1.0 }).collect()
    }

    /// NIST's Norris data (Statistical Reference Datasets, linear regression), x and y.
    const NORRIS: [(f64, f64); 36] = [
        (0.2, 0.1),
        (337.4, 338.8),
        (118.2, 118.1),
        (884.6, 888.0),
        (10.1, 9.2),
        (226.5, 228.1),
        (666.3, 668.5),
        (996.3, 998.5),
        (448.6, 449.1),
        (777.0, 778.9),
        (558.2, 559.2),
        (0.4, 0.3),
        (0.6, 0.1),
        (775.5, 778.1),
        (666.9, 668.8),
        (338.0, 339.3),
        (447.5, 448.9),
        (11.6, 10.8),
        (556.0, 557.7),
        (228.1, 228.3),
        (995.8, 998.0),
        (887.6, 888.8),
        (120.2, 119.6),
        (0.3, 0.3),
        (0.3, 0.6),
        (556.8, 557.6),
        (339.1, 339.3),
        (887.2, 888.0),
        (999.0, 998.5),
        (779.0, 778.9),
        (11.1, 10.2),
        (118.3, 117.6),
        (229.2, 228.9),
        (669.1, 668.4),
        (448.9, 449.2),
        (0.5, 0.2),
    ];

    #[test]
    fn the_slope_is_the_certified_one() {
        let list: Vec<WeightedPoint> =
            NORRIS.iter().map(|&(at_s, value)| WeightedPoint { time_s: at_s, value, weight: 1.0 }).collect();
        let line = LineFit::fit(&list).unwrap();
        assert!((line.slope - 1.002_116_818_020_45).abs() < 1e-12, "{}", line.slope);
        assert!((line.value_at(0.0) + 0.262_323_073_774_029).abs() < 1e-10);
        assert!((line.residual - 26.617_398_529_422_4).abs() < 1e-9);
    }

    #[test]
    fn worked_example_of_a_crossing() {
        // level 10 at 0 s, slope 1: limit 15 at 5 s. With a t limit of 2 and variances 1 of the level and
        // 0.04 of the slope: (u - 5)² = 4 + 0.16 u², 0.84 u² - 10 u + 21 = 0, u = 2.7223 and 9.1825
        let line = LineFit {
            slope: 1.0,
            slope_interval: (0.6, 1.4),
            p_value: 0.01,
            residual: 1.0,
            center_s: 0.0,
            level: 10.0,
            variance_level: 1.0,
            variance_slope: 0.04,
            t_limit: 2.0,
        };
        let crossing = line.limit_crossing(15.0, 0.0);
        assert_eq!(crossing.time_s, Some(5.0));
        assert!((crossing.earliest_s.unwrap() - 2.7223).abs() < 1e-3, "{crossing:?}");
        assert!((crossing.latest_s.unwrap() - 9.1825).abs() < 1e-3, "{crossing:?}");
        // a slope that may be zero: an earliest crossing where the band meets the limit, and no latest
        let vague = LineFit { variance_slope: 0.36, ..line }.limit_crossing(15.0, 0.0);
        assert!(vague.earliest_s.unwrap() < 2.8 && vague.latest_s.is_none() && vague.time_s == Some(5.0));
        // downwards it mirrors
        let down = LineFit { slope: -1.0, ..line }.limit_crossing(5.0, 0.0);
        assert_eq!(down, crossing);
        // away from the limit: never, though the band may
        assert_eq!(LineFit { slope: -1.0, ..line }.limit_crossing(15.0, 0.0), Crossing::default());
    }

    #[test]
    fn a_line_without_noise_is_certain() {
        let line = LineFit::fit(&points((0..10).map(|i| 3.0 + 2.0 * f64::from(i)))).unwrap();
        assert!((line.slope - 2.0).abs() < 1e-12 && line.p_value < 1e-9);
        let crossing = line.limit_crossing(41.0, 9.0);
        for time_s in [crossing.time_s, crossing.earliest_s, crossing.latest_s] {
            assert!((time_s.unwrap() - 19.0).abs() < 1e-6, "{crossing:?}");
        }
        let still = LineFit::fit(&points([5.0; 12])).unwrap();
        assert!(still.slope == 0.0 && still.p_value == 1.0 && still.slope_interval == (0.0, 0.0));
    }

    #[test]
    fn noise_has_a_slope_no_more_often_than_the_error_rate() {
        for (r, count, alpha) in
            [(0.0, 60, 0.05), (0.5, 300, 0.05), (0.9, 600, 0.05), (0.9, 2000, 0.05), (0.9, 600, 0.01)]
        {
            let mut noise = Noise::new(3);
            let runs = 800;
            let is_significant = |noise: &mut Noise| {
                LineFit::fit(&blocks::block_means(&points(noise.remembering(r, count)))).unwrap().p_value < alpha
            };
            let false_ones = (0..runs).filter(|_| is_significant(&mut noise)).count() as f64 / f64::from(runs);
            // within three deviations of 800 runs
            let max_share = alpha + 3.0 * (alpha * (1.0 - alpha) / f64::from(runs)).sqrt();
            assert!(false_ones <= max_share, "{r} {count} {alpha}: {false_ones}");
        }
    }

    #[test]
    fn a_walk_without_aim_has_no_slope_and_a_smooth_curve_has() {
        let mut noise = Noise::new(17);
        let walk = |noise: &mut Noise| {
            let mut level = 0.0;
            points((0..2000).map(|_| {
                level += noise.normal();
                level
            }))
        };
        let runs = 500;
        let false_slopes =
            (0..runs).filter(|_| LineFit::fit(&blocks::block_means(&walk(&mut noise))).unwrap().p_value < 0.05).count();
        assert!(false_slopes <= 30, "{false_slopes} of {runs}");
        let curve = LineFit::fit(&points((0..48).map(|i| f64::from(i) + 0.001 * f64::from(i * i)))).unwrap();
        assert!(curve.p_value < 0.05, "{curve:?}");
    }

    #[test]
    fn a_true_slope_lies_in_the_interval() {
        let (runs, slope) = (400, 0.004);
        let mut noise = Noise::new(11);
        let mut held = 0;
        let mut seen = 0;
        for _ in 0..runs {
            // gaps: every third hundred is missing; ticks of two lengths
            let series = noise.remembering(0.8, 1200).into_iter().enumerate();
            let kept = series.filter(|(i, _)| (i / 100) % 3 != 1 && (*i < 600 || i % 4 == 0));
            let list: Vec<WeightedPoint> = kept
                .map(|(i, v)| WeightedPoint {
                    time_s: i as f64,
                    value: v + slope * i as f64,
                    weight: if i < 600 { 1.0 } else { 4.0 },
                })
                .collect();
            let line = LineFit::fit(&blocks::block_means(&list)).unwrap();
            held += i32::from(line.slope_interval.0 <= slope && slope <= line.slope_interval.1);
            seen += i32::from(line.p_value < 0.05);
        }
        assert!(held >= runs * 92 / 100, "{held} of {runs}");
        assert!(seen >= runs * 95 / 100, "{seen} of {runs}");
    }
}
