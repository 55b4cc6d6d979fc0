//! Autocorrelation of a series, and the number of independent values to which the series is then equivalent.
//!
//! Sources: effective sample size `n (1 - r) / (1 + r)` for a first-order
//! autoregression, as Santer et al., "Statistical significance of trends and
//! trend differences in layer-average atmospheric temperature time series",
//! Journal of Geophysical Research 105 (2000), use it for trends; the
//! correction of `r`, whose estimate is too low in short series, after Kendall,
//! "Note on bias in the estimation of autocorrelation", Biometrika 41 (1954).

use crate::is_positive;

/// Numbers of neighbors that are averaged; single values are examined too.
const SCALES: [usize; 2] = [2, 4];
/// Smallest number of means for an autocorrelation.
const MIN_MEANS: usize = 12;
/// Standard deviations by which the autocorrelation of means must exceed that of independent values.
const MIN_DEVIATIONS: f64 = 1.0;

/// Returns the correlation of neighbors in the residuals of a fit with `fitted` parameters, corrected for its bias,
/// from 0 to 1. Negative correlation counts as 0, because it would make results too certain.
pub fn estimate_autocorrelation(residuals: &[f64], fitted: usize) -> f64 {
    SCALES
        .iter()
        .map(|&scale| autocorrelation_at_scale(residuals, scale))
        .fold(neighbor_correlation(residuals, fitted), f64::max)
}

/// Estimates the autocorrelation from means of `scale` neighbors each: a slow drift below fast noise shows in such
/// means, but not in neighboring values. The result is the autocorrelation of single values that would leave the same
/// number of independent values. It is corrected as for a fitted mean; with so few means, a correction for more
/// parameters would leave nothing. 0 if the means correlate no more than independent ones may by chance.
fn autocorrelation_at_scale(residuals: &[f64], scale: usize) -> f64 {
    let means: Vec<f64> = residuals.chunks_exact(scale).map(|c| c.iter().sum::<f64>() / scale as f64).collect();
    let count = means.len() as f64;
    let squares = |list: &[f64]| list.iter().map(|r| r * r).sum::<f64>();
    if means.len() < MIN_MEANS || !is_positive(squares(&means)) {
        return 0.0;
    }
    let raw = means.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / squares(&means);
    if raw * count.sqrt() < MIN_DEVIATIONS {
        return 0.0;
    }
    let n = residuals.len() as f64;
    let variance = squares(&means) / count / effective_count(count, neighbor_correlation(&means, 1));
    // independent values whose mean has the same variance, and the autocorrelation that leaves as many of n values
    let independent = (squares(residuals) / n / variance).clamp(1e-3, n);
    ((n - independent) / (n + independent)).clamp(0.0, 0.999)
}

/// Returns the correlation of neighboring residuals, corrected for its bias, from 0 to below 1.
fn neighbor_correlation(residuals: &[f64], fitted: usize) -> f64 {
    let n = residuals.len() as f64;
    let squares: f64 = residuals.iter().map(|r| r * r).sum();
    if residuals.len() < 3 || !is_positive(squares) {
        return 0.0;
    }
    let products: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let raw = products / squares;
    // the expected value is about r - (p + (3 + p) r) / n with p fitted parameters (1: the mean)
    let p = fitted.max(1) as f64;
    let corrected = (n * raw + p) / (n - 3.0 - p).max(1.0);
    corrected.clamp(0.0, 0.999)
}

/// Returns the number of independent values to which `count` values with this autocorrelation are equivalent; see
/// [`estimate_autocorrelation`].
pub fn effective_count(count: f64, autocorrelation: f64) -> f64 {
    count * (1.0 - autocorrelation) / (1.0 + autocorrelation)
}

/// Returns the degrees of freedom of a variance from residuals with this autocorrelation (see
/// [`estimate_autocorrelation`]), after a fit with `fitted` parameters: those of the [`effective_count`] values,
/// reduced because the autocorrelation is itself an estimate. Its factor `(1 + r) / (1 - r)` has a relative error of
/// `2 / (1 - r²) / sqrt(count)` (delta method), which corresponds to `count (1 - r²)² / 2` degrees of freedom; both are
/// combined as in Satterthwaite, "An approximate distribution of estimates of variance components", Biometrics Bulletin
/// 2 (1946). At least 1; with 1, only a nearly perfect fit is significant (a line must explain 99.4 % for a p-value of
/// 5 %).
pub fn degrees_of_freedom(count: f64, autocorrelation: f64, fitted: f64) -> f64 {
    let autocorrelation_df = count * (1.0 - autocorrelation * autocorrelation).powi(2) / 2.0;
    (1.0 / (1.0 / remaining_count(count, autocorrelation, fitted) + 1.0 / autocorrelation_df)).max(1.0)
}

/// Returns the number of independent values that remain after a fit with `fitted` parameters; at least 1.
pub fn remaining_count(count: f64, autocorrelation: f64, fitted: f64) -> f64 {
    (effective_count(count, autocorrelation) - fitted).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    #[test]
    fn worked_example() {
        // residuals 1 2 1 -1 -2 -1: products 2 + 2 - 1 + 2 + 2 = 7, squares 12;
        // with a mean fitted, corrected: (6 x 7/12 + 1) / (6 - 4) = 2.25, cut to below 1
        assert_eq!(estimate_autocorrelation(&[1.0, 2.0, 1.0, -1.0, -2.0, -1.0], 1), 0.999);
        // alternating residuals are no news
        assert_eq!(estimate_autocorrelation(&[1.0, -1.0, 1.0, -1.0, 1.0, -1.0], 1), 0.0);
        // Santer's formula: 100 months with r = 0.5 are worth 33.3
        assert!((effective_count(100.0, 0.5) - 100.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn worked_example_of_freedom() {
        // 48 blocks, r = 0.5: 16 values less 2 are 14; the memory is known like 48 x 0.5625 / 2 = 13.5
        let both = 14.0 * 13.5 / (14.0 + 13.5);
        assert!((degrees_of_freedom(48.0, 0.5, 2.0) - both).abs() < 1e-12);
        assert_eq!(
            (degrees_of_freedom(8.0, 0.9, 2.0), remaining_count(8.0, 0.9, 2.0), remaining_count(48.0, 0.5, 2.0)),
            (1.0, 1.0, 14.0)
        );
    }

    #[test]
    fn the_correction_takes_the_bias_away() {
        let mut noise = Noise::new(5);
        let runs = 4000;
        let mut sum = 0.0;
        for _ in 0..runs {
            let series = noise.remembering(0.5, 30);
            let mean = series.iter().sum::<f64>() / 30.0;
            let residuals: Vec<f64> = series.iter().map(|v| v - mean).collect();
            sum += neighbor_correlation(&residuals, 1);
        }
        // uncorrected it is 0.5 - (1 + 4 x 0.5) / 30 = 0.4
        assert!((sum / f64::from(runs) - 0.5).abs() < 0.015, "{}", sum / f64::from(runs));
    }
}
