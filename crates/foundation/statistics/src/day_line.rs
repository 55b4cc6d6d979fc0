//! A slope beside a daily rhythm of any shape: each value is compared with that of the same time of the day before. Two
//! days are too short to know the rhythm, but not to know that all of it lies higher on the second.
//!
//! Source: like seasons are compared with like by Hirsch, Slack and Smith, "Techniques of trend analysis for monthly
//! water quality data", Water Resources Research 18 (1982); here by the mean of the differences in place of ranks,
//! with the dependence of neighbors as in [`crate::mean`].

use crate::{LineFit, MeanVariance, WeightedPoint, blocks};

const DAY_S: f64 = 86_400.0;
/// Shortest stretch of the second day that must have a value a day earlier. Our choice.
const MIN_COMPARED_S: f64 = DAY_S / 2.0;

/// Fits a line to a series in order of time, whose points are about `spacing_s` apart; `None` where less than half a
/// day can be compared. Its residual is 0: the rhythm is no error.
pub fn fit_line_beside_day(points: &[WeightedPoint], spacing_s: f64) -> Option<LineFit> {
    let differences = day_differences(points, spacing_s);
    let compared_s = differences.last()?.time_s - differences.first()?.time_s;
    if compared_s < MIN_COMPARED_S {
        return None;
    }
    let mean = MeanVariance::from_points(&differences)?;
    // the last day holds each part of the rhythm once
    let start_s = points.last()?.time_s - DAY_S;
    let last_day: Vec<WeightedPoint> = points.iter().filter(|p| p.time_s > start_s).copied().collect();
    let weight: f64 = last_day.iter().map(|p| p.weight).sum();
    let center_s = last_day.iter().map(|p| p.time_s * p.weight).sum::<f64>() / weight;
    // a difference has the noise of two days, the level that of one
    let level = (blocks::weighted_mean(&last_day), mean.variance / 2.0);
    Some(LineFit::from_estimates((mean.value / DAY_S, mean.variance / (DAY_S * DAY_S)), level, center_s, mean.df))
}

/// Differences from the value of the same time of the day before.
fn day_differences(points: &[WeightedPoint], spacing_s: f64) -> Vec<WeightedPoint> {
    let mut differences = Vec::new();
    let mut earlier = 0;
    for point in points {
        let wanted_s = point.time_s - DAY_S;
        while earlier + 1 < points.len() && points[earlier].time_s < wanted_s - spacing_s / 2.0 {
            earlier += 1;
        }
        let before = &points[earlier];
        if (before.time_s - wanted_s).abs() <= spacing_s / 2.0 {
            let (value, weight) = (point.value - before.value, point.weight.min(before.weight));
            differences.push(WeightedPoint { time_s: point.time_s, value, weight });
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    /// Points of five minutes over some days: a swing by day of 1, a slope per day, and noise.
    fn series(days: f64, slope_per_day: f64, noise: f64, seed: u64) -> Vec<WeightedPoint> {
        let count = (days * 288.0) as usize;
        let errors = Noise(seed).remembering(0.5, count);
        let value = |day: f64, error: f64| (day * std::f64::consts::TAU).sin() + slope_per_day * day + noise * error;
        let point = |(index, error): (usize, f64)| {
            let time_s = index as f64 * 300.0;
            WeightedPoint { time_s, value: value(time_s / DAY_S, error), weight: 1.0 }
        };
        errors.into_iter().enumerate().map(point).collect()
    }

    #[test]
    fn a_slope_is_seen_through_a_swing_of_two_days() {
        for seed in 0..10 {
            let line = fit_line_beside_day(&series(2.0, 0.1, 0.05, seed), 300.0).expect("enough");
            let per_day = line.slope * DAY_S;
            assert!((per_day - 0.1).abs() < 0.03 && line.p_value < 1e-4, "{per_day} {}", line.p_value);
            // the swing is 0 on the average of a day: 0.2 after two days
            assert!((line.value_at(2.0 * DAY_S) - 0.2).abs() < 0.05, "{}", line.value_at(2.0 * DAY_S));
        }
        // a day and a quarter has too little to compare
        assert_eq!(fit_line_beside_day(&series(1.25, 0.1, 0.05, 1), 300.0), None);
    }

    #[test]
    fn a_swing_alone_is_no_slope() {
        let alarms = (0..200)
            .filter(|seed| fit_line_beside_day(&series(2.0, 0.0, 0.1, *seed), 300.0).expect("enough").p_value < 0.01);
        // 1 % of 200 are 2; more than 8 come by chance once in 2,000 times
        assert!(alarms.count() <= 8);
    }
}
