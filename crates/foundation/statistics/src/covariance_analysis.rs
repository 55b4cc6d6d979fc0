//! Compares two series after removing the effect of their drivers: for example response times at equal request rates.
//!
//! Analysis of covariance: the slopes on the drivers are fitted within each series, so that the difference between the
//! series does not bias them, and the values that the slopes explain are subtracted. The remainders are compared like
//! means of noisy series ([`crate::mean`]). Only points whose drivers lie in the range that both series share are used:
//! no line is extrapolated. The error of the slopes counts in proportion to the distance between the two series' mean
//! drivers; the dependence of neighbors is taken into account by blocks.
//!
//! Sources: Snedecor and Cochran, "Statistical Methods", 7th edition (1980),
//! chapter 18; variance by blocks: Liang and Zeger, "Longitudinal data analysis
//! using generalized linear models", Biometrika 73 (1986).

use crate::mean::MeanVariance;
use crate::{Contrast, WeightedPoint, blocks};

/// A point of one series: the logarithm of its value, and its drivers on their scales.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesPoint {
    /// Time of its middle, seconds.
    pub time_s: f64,
    /// Logarithm of the compared value.
    pub value: f64,
    /// Values of the drivers, in the same order at every point.
    pub drivers: Vec<f64>,
    /// Weight; more than 0.
    pub weight: f64,
}

/// Properties of a driver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Driver {
    /// Largest difference that counts as equal.
    pub tolerance: f64,
    /// True if more of it can only increase the value. Its square is fitted too, and a negative slope is rejected,
    /// because then the value affects the driver (fewer requests, because each takes longer).
    pub increases_value: bool,
}

/// Difference of two series at equal drivers.
#[derive(Clone, Debug, PartialEq)]
pub struct AdjustedContrast {
    /// The difference of logarithms.
    pub contrast: Contrast,
    /// Range of each driver, lowest and highest value, within which the series were compared.
    pub range: Vec<(f64, f64)>,
    /// Share of each series' weight that was used.
    pub share: [f64; 2],
}

/// Smallest number of points of each series.
const MIN_POINTS: usize = 24;

/// Reason why two series cannot be compared at equal drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdjustmentError {
    /// There are too few points.
    TooShort,
    /// The two series have too few points in the common range of this driver.
    Driver(usize),
}

/// Compares `second` with `first` at equal drivers.
pub fn compare_adjusted(
    first: &[SeriesPoint],
    second: &[SeriesPoint],
    drivers: &[Driver],
) -> Result<AdjustedContrast, AdjustmentError> {
    if first.len() < MIN_POINTS || second.len() < MIN_POINTS {
        return Err(AdjustmentError::TooShort);
    }
    let mut range = Vec::new();
    for (index, driver) in drivers.iter().enumerate() {
        let low = driver_quantile(first, index, 0.05).max(driver_quantile(second, index, 0.05)) - driver.tolerance;
        let high = driver_quantile(first, index, 0.95).min(driver_quantile(second, index, 0.95)) + driver.tolerance;
        range.push((low, high));
        let is_inside = |m: &&SeriesPoint| low <= m.drivers[index] && m.drivers[index] <= high;
        if [first, second].iter().any(|s| s.iter().filter(is_inside).count() < MIN_POINTS) {
            return Err(AdjustmentError::Driver(index));
        }
    }
    let is_inside = |m: &&SeriesPoint| m.drivers.iter().zip(&range).all(|(x, (low, high))| low <= x && x <= high);
    let kept = [first, second].map(|s| s.iter().filter(is_inside).cloned().collect::<Vec<SeriesPoint>>());
    if kept.iter().any(|s| s.len() < MIN_POINTS) {
        return Err(AdjustmentError::Driver(0));
    }
    let weight = |s: &[SeriesPoint]| s.iter().map(|m| m.weight).sum::<f64>();
    let share = [weight(&kept[0]) / weight(first), weight(&kept[1]) / weight(second)];
    // a driver with a slope of the wrong sign is left out, with its square
    let regressors: Vec<Regressor> =
        (0..drivers.len()).flat_map(|index| driver_regressors(index, drivers[index])).collect();
    let mut fit = RegressionFit::fit_series(&kept, &regressors);
    let rejected: Vec<usize> =
        (0..drivers.len()).filter(|&index| drivers[index].increases_value && fit.driver_slope(index) < 0.0).collect();
    if !rejected.is_empty() {
        let remaining: Vec<Regressor> = regressors.into_iter().filter(|t| !rejected.contains(&t.driver)).collect();
        fit = RegressionFit::fit_series(&kept, &remaining);
    }
    Ok(AdjustedContrast { contrast: fit.adjusted_contrast(&kept), range, share })
}

fn driver_quantile(series: &[SeriesPoint], driver: usize, share: f64) -> f64 {
    let mut list: Vec<f64> = series.iter().map(|m| m.drivers[driver]).collect();
    list.sort_unstable_by(f64::total_cmp);
    list[((list.len() - 1) as f64 * share).round() as usize]
}

/// A driver, or its square.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Regressor {
    /// Index of the driver.
    driver: usize,
    squared: bool,
}

fn driver_regressors(index: usize, driver: Driver) -> Vec<Regressor> {
    let term = |squared| Regressor { driver: index, squared };
    if driver.increases_value { vec![term(false), term(true)] } else { vec![term(false)] }
}

/// Slopes that both series share.
struct RegressionFit {
    terms: Vec<Regressor>,
    /// Slope on each term.
    slopes: Vec<f64>,
    /// Covariance matrix of the slopes.
    variance: Vec<Vec<f64>>,
    /// Mean of each driver, which is subtracted before squaring.
    center: Vec<f64>,
}

/// A point minus the means of its series.
struct CenteredPoint {
    /// Values of the terms.
    terms: Vec<f64>,
    value: f64,
    weight: f64,
}

impl RegressionFit {
    fn fit_series(series: &[Vec<SeriesPoint>; 2], terms: &[Regressor]) -> RegressionFit {
        let drivers = series[0][0].drivers.len();
        let points = || series.iter().flatten();
        let weight: f64 = points().map(|m| m.weight).sum();
        let center: Vec<f64> =
            (0..drivers).map(|index| points().map(|m| m.weight * m.drivers[index]).sum::<f64>() / weight).collect();
        let mut fit = RegressionFit { terms: terms.to_vec(), slopes: Vec::new(), variance: Vec::new(), center };
        // a driver that is constant within both series has no slope
        fit.terms.retain(|t| {
            let spread = series.iter().map(|s| driver_range(s, t.driver)).fold(0.0, f64::max);
            spread > 1e-9
        });
        let count = fit.terms.len();
        // normal equations of weighted least squares
        let (mut sum_xx, mut sum_xy) = (vec![vec![0.0; count]; count], vec![0.0; count]);
        for CenteredPoint { terms, value, weight } in fit.center_series(series).into_iter().flatten() {
            for i in 0..count {
                sum_xy[i] += weight * terms[i] * value;
                (0..count).for_each(|j| sum_xx[i][j] += weight * terms[i] * terms[j]);
            }
        }
        // slightly enlarged, so that the matrix can be inverted even if terms are linearly dependent
        (0..count).for_each(|i| sum_xx[i][i] *= 1.0 + 1e-9);
        let inverse = invert_matrix(sum_xx);
        fit.slopes = inverse.iter().map(|row| row.iter().zip(&sum_xy).map(|(a, b)| a * b).sum()).collect();
        fit.variance = fit.slope_variance(series, &inverse);
        fit
    }

    /// Returns the values of the terms at a point.
    fn regressor_values(&self, m: &SeriesPoint) -> Vec<f64> {
        let value = |t: &Regressor| {
            let x = m.drivers[t.driver] - self.center[t.driver];
            if t.squared { x * x } else { x }
        };
        self.terms.iter().map(value).collect()
    }

    /// Returns the weighted means of the terms over a series.
    fn regressor_means(&self, series: &[SeriesPoint]) -> Vec<f64> {
        let weight: f64 = series.iter().map(|m| m.weight).sum();
        let mut means = vec![0.0; self.terms.len()];
        for m in series {
            self.regressor_values(m).iter().zip(&mut means).for_each(|(x, mean)| *mean += m.weight * x / weight);
        }
        means
    }

    /// Subtracts from the terms and values of each series their means over that series.
    fn center_series(&self, series: &[Vec<SeriesPoint>; 2]) -> [Vec<CenteredPoint>; 2] {
        [0, 1].map(|index| {
            let list = &series[index];
            let weight: f64 = list.iter().map(|m| m.weight).sum();
            let level = list.iter().map(|m| m.weight * m.value).sum::<f64>() / weight;
            let means = self.regressor_means(list);
            let centered_terms =
                |m: &SeriesPoint| self.regressor_values(m).iter().zip(&means).map(|(x, mean)| x - mean).collect();
            let center =
                |m: &SeriesPoint| CenteredPoint { terms: centered_terms(m), value: m.value - level, weight: m.weight };
            list.iter().map(center).collect()
        })
    }

    /// Returns the covariance matrix of the slopes, from the summed residuals of blocks of neighbors: the "sandwich" of
    /// Liang and Zeger.
    fn slope_variance(&self, series: &[Vec<SeriesPoint>; 2], inverse: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let count = self.terms.len();
        let mut meat = vec![vec![0.0; count]; count];
        let mut block_count = 0.0;
        for list in self.center_series(series) {
            for block in list.chunks(list.len().div_ceil(blocks::BLOCK_COUNT / 2)) {
                let mut score = vec![0.0; count];
                for point in block {
                    let explained = point.terms.iter().zip(&self.slopes).map(|(x, b)| x * b).sum::<f64>();
                    let residual = point.value - explained;
                    point.terms.iter().zip(&mut score).for_each(|(x, s)| *s += point.weight * x * residual);
                }
                (0..count).for_each(|i| (0..count).for_each(|j| meat[i][j] += score[i] * score[j]));
                block_count += 1.0;
            }
        }
        let small_sample_factor = block_count / f64::max(block_count - 1.0 - count as f64, 1.0);
        let multiply = |a: &[Vec<f64>], b: &[Vec<f64>]| -> Vec<Vec<f64>> {
            let cell = |i: usize, j: usize| (0..count).map(|k| a[i][k] * b[k][j]).sum::<f64>();
            (0..count).map(|i| (0..count).map(|j| cell(i, j)).collect()).collect()
        };
        let sandwich = multiply(&multiply(inverse, &meat), inverse);
        sandwich.into_iter().map(|row| row.into_iter().map(|v| v * small_sample_factor).collect()).collect()
    }

    /// Returns the slope on a driver at its mean; 0 if the driver is constant.
    fn driver_slope(&self, driver: usize) -> f64 {
        let index = self.terms.iter().position(|t| t.driver == driver && !t.squared);
        index.map_or(0.0, |index| self.slopes[index])
    }

    /// Compares the remainders of both series.
    fn adjusted_contrast(&self, series: &[Vec<SeriesPoint>; 2]) -> Contrast {
        let [first, second] = [0, 1].map(|index| {
            let remainder = |m: &SeriesPoint| {
                m.value - self.regressor_values(m).iter().zip(&self.slopes).map(|(x, b)| x * b).sum::<f64>()
            };
            let point = |m: &SeriesPoint| WeightedPoint { time_s: m.time_s, value: remainder(m), weight: m.weight };
            MeanVariance::from_blocks(&blocks::block_means(&series[index].iter().map(point).collect::<Vec<_>>()))
        });
        let distances: Vec<f64> = self
            .regressor_means(&series[1])
            .iter()
            .zip(self.regressor_means(&series[0]))
            .map(|(second, first)| second - first)
            .collect();
        let slope_variance: f64 = (0..distances.len())
            .flat_map(|i| (0..distances.len()).map(move |j| (i, j)))
            .map(|(i, j)| distances[i] * self.variance[i][j] * distances[j])
            .sum();
        let df = (blocks::BLOCK_COUNT - 1) as f64 - self.terms.len() as f64;
        let parts = [(first.variance, first.df), (second.variance, second.df), (slope_variance.max(0.0), df)];
        Contrast::from_log_difference(second.value - first.value, &parts)
    }
}

fn driver_range(series: &[SeriesPoint], driver: usize) -> f64 {
    let values = series.iter().map(|m| m.drivers[driver]);
    values.clone().fold(f64::NEG_INFINITY, f64::max) - values.fold(f64::INFINITY, f64::min)
}

/// Inverse of a small matrix by Gauss-Jordan elimination; rows and columns that are linearly dependent become 0.
fn invert_matrix(mut a: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let count = a.len();
    let mut b: Vec<Vec<f64>> = (0..count).map(|i| (0..count).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    let sizes: Vec<f64> = (0..count).map(|i| a[i][i].abs()).collect();
    for index in 0..count {
        if a[index][index].abs() <= 1e-9 * sizes[index] || sizes[index] == 0.0 {
            for row in 0..count {
                (a[row][index], a[index][row], b[row][index], b[index][row]) = (0.0, 0.0, 0.0, 0.0);
            }
            continue;
        }
        let pivot = a[index][index];
        a[index].iter_mut().chain(&mut b[index]).for_each(|v| *v /= pivot);
        for row in (0..count).filter(|&row| row != index) {
            let factor = a[row][index];
            for column in 0..count {
                let (pivot_a, pivot_b) = (a[index][column], b[index][column]);
                a[row][column] -= factor * pivot_a;
                b[row][column] -= factor * pivot_b;
            }
        }
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    const LOAD: Driver = Driver { tolerance: 0.05, increases_value: true };

    /// Service of `level` that grows with the load as a queue's does, and loads
    /// about `load` requests a second of 500.
    fn series(noise: &mut Noise, load: f64, level: f64, count: usize) -> Vec<SeriesPoint> {
        let (demand, off) = (noise.remembering(0.9, count), noise.remembering(0.5, count));
        let moment = |(index, (demand, off)): (usize, (f64, f64))| {
            let rate = (load * (0.25 * demand).exp()).min(450.0);
            let value = (level / (1.0 - rate / 500.0)).ln() + 0.1 * off;
            SeriesPoint { time_s: index as f64, value, drivers: vec![rate.ln()], weight: 1.0 }
        };
        demand.into_iter().zip(off).enumerate().map(moment).collect()
    }

    #[test]
    fn worked_example_of_an_inverse() {
        let of = invert_matrix(vec![vec![2.0, 1.0], vec![1.0, 3.0]]);
        for (row, expected) in of.iter().zip([[0.6, -0.2], [-0.2, 0.4]]) {
            assert!(row.iter().zip(expected).all(|(a, e)| (a - e).abs() < 1e-12), "{of:?}");
        }
        // identical rows are linearly dependent
        let twice = invert_matrix(vec![vec![4.0, 4.0], vec![4.0, 4.0]]);
        assert!((twice[0][0] - 0.25).abs() < 1e-9 && twice[1][1] == 0.0, "{twice:?}");
    }

    #[test]
    fn finds_slower_service_under_less_load_and_none_under_more_load() {
        let mut noise = Noise::new(5);
        let (runs, mut alarms, mut found, mut covered) = (300, 0, 0, 0);
        let (mut done, mut refused) = (0, 0);
        while done < runs {
            let before = series(&mut noise, 150.0, 0.004, 180);
            let busier = compare_adjusted(&before, &series(&mut noise, 190.0, 0.004, 180), &[LOAD]);
            let worse = compare_adjusted(&before, &series(&mut noise, 120.0, 0.0048, 180), &[LOAD]);
            // a slowly varying load may have no range in common with another
            let (Ok(busier), Ok(worse)) = (busier, worse) else {
                refused += 1;
                continue;
            };
            done += 1;
            alarms += u32::from(busier.contrast.p_value() < 0.05);
            found += u32::from(worse.contrast.p_value() < 0.05 && worse.contrast.ratio_estimate().unwrap() > 1.0);
            let (low, high) = worse.contrast.ratio_interval(0.05).unwrap();
            covered += u32::from(low <= 1.2 && 1.2 <= high);
        }
        assert!(refused <= 30, "{refused}");
        // 5 % and three deviations; 20 % slower is found; its interval holds it
        assert!(alarms <= 26, "{alarms} of {runs}");
        assert!(found >= 270, "{found} of {runs}");
        assert!(covered >= 274, "{covered} of {runs}");
    }

    #[test]
    fn loads_apart_are_not_compared_and_a_falling_line_is_not_believed() {
        let mut noise = Noise::new(6);
        let (few, many) = (series(&mut noise, 40.0, 0.004, 200), series(&mut noise, 400.0, 0.004, 200));
        assert_eq!(compare_adjusted(&few, &many, &[LOAD]).unwrap_err(), AdjustmentError::Driver(0));
        assert_eq!(compare_adjusted(&few[..20], &many, &[LOAD]).unwrap_err(), AdjustmentError::TooShort);
        // a client that sends the next request after each answer: half the speed, half the requests
        let mut closed = |level: f64| -> Vec<SeriesPoint> {
            let off = noise.remembering(0.5, 200).into_iter().enumerate();
            off.map(|(index, off)| {
                let value = level.ln() + 0.2 * off;
                SeriesPoint { time_s: index as f64, value, drivers: vec![-value], weight: 1.0 }
            })
            .collect()
        };
        let slower = compare_adjusted(&closed(0.004), &closed(0.0048), &[LOAD]).unwrap();
        assert!(slower.contrast.ratio_estimate().unwrap() > 1.03 && slower.contrast.p_value() < 0.05, "{slower:?}");
    }

    #[test]
    fn a_driver_that_never_moves_must_be_the_same() {
        let mut noise = Noise::new(7);
        let mut of = |size: f64| -> Vec<SeriesPoint> {
            let mut list = series(&mut noise, 150.0, 0.004, 100);
            list.iter_mut().for_each(|m| m.drivers.push(size));
            list
        };
        let size = Driver { tolerance: 0.05, increases_value: false };
        let (small, large) = (of(8.0), of(9.0));
        assert_eq!(compare_adjusted(&small, &large, &[LOAD, size]).unwrap_err(), AdjustmentError::Driver(1));
        let same = compare_adjusted(&small, &of(8.0), &[LOAD, size]).unwrap();
        assert!(same.contrast.p_value() > 0.001 && same.share[0] > 0.5, "{same:?}");
    }
}
