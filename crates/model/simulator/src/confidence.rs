//! Precision of a simulated mean: a confidence interval by Student's t, from the means of independent runs or of long
//! intervals of one run (batches).

use diskwright_statistics::distribution::student_limit;
use diskwright_statistics::{ERROR_RATE, MeanVariance, WeightedPoint};

/// Means of runs or batches of equal length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Means {
    count: u64,
    mean: f64,
    squared_deviations: f64,
}

/// A mean and the half-width of its 95 % confidence interval, which is infinite if there are fewer than two means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Half of the interval's width.
    pub half_width: f64,
}

impl Interval {
    /// Returns the half-width as a share of the mean.
    pub fn relative_half_width(&self) -> f64 {
        self.half_width / self.mean.abs()
    }

    /// True if a value lies inside.
    pub fn contains(&self, value: f64) -> bool {
        (value - self.mean).abs() <= self.half_width
    }
}

impl Means {
    /// An empty set of means.
    pub fn new() -> Means {
        Means::default()
    }

    /// Adds the mean of a run or a batch (Welford's recurrence, 1962).
    pub fn push(&mut self, mean: f64) {
        self.count += 1;
        let deviation = mean - self.mean;
        self.mean += deviation / self.count as f64;
        self.squared_deviations += deviation * (mean - self.mean);
    }

    /// Number of means.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the confidence interval. Batches of one run must be long relative to the correlation time of the queue,
    /// or the interval is too narrow.
    pub fn confidence_interval(&self) -> Interval {
        let df = self.count.saturating_sub(1) as f64;
        if self.count < 2 {
            let mean = if self.count == 0 { f64::NAN } else { self.mean };
            return Interval { mean, half_width: f64::INFINITY };
        }
        let error = (self.squared_deviations / df / self.count as f64).sqrt();
        Interval { mean: self.mean, half_width: student_limit(0.05, df) * error }
    }
}

/// Returns the mean over all requests of one run with its confidence interval. The run is given as stretches of equal
/// length in the order of time; each has the sum of its response times, s, and the number of its responses, more than
/// 0. A long queue lasts from one stretch into the next; this correlation widens the interval. `None` for fewer than
/// two stretches.
pub fn interval_from_stretches(stretches: &[(f64, f64)]) -> Option<Interval> {
    if stretches.len() < 2 {
        return None;
    }
    let to_block = |(index, (sum_s, count)): (usize, &(f64, f64))| WeightedPoint {
        time_s: index as f64,
        value: sum_s / count,
        weight: *count,
    };
    let blocks: Vec<WeightedPoint> = stretches.iter().enumerate().map(to_block).collect();
    let MeanVariance { value, variance, df } = MeanVariance::from_blocks(&blocks);
    let half_width = if variance > 0.0 { student_limit(ERROR_RATE, df) * variance.sqrt() } else { 0.0 };
    Some(Interval { mean: value, half_width })
}

/// Repeats runs until the half-width is within `share` of the mean, at least `min_runs` and at most `max_runs`
/// times. `run` receives the number of the repetition.
pub fn repeat_until_precise(share: f64, min_runs: u64, max_runs: u64, mut run: impl FnMut(u64) -> f64) -> Interval {
    let mut means = Means::new();
    for number in 0..max_runs {
        means.push(run(number));
        if means.count() >= min_runs && means.confidence_interval().relative_half_width() <= share {
            break;
        }
    }
    means.confidence_interval()
}

#[cfg(test)]
mod tests {
    use diskwright_base::Rng;

    use super::*;

    #[test]
    fn computes_a_known_interval() {
        let mut means = Means::new();
        assert!(means.confidence_interval().mean.is_nan());
        means.push(9.0);
        assert_eq!(means.confidence_interval().half_width, f64::INFINITY);
        [10.0, 11.0].into_iter().for_each(|m| means.push(m));
        // standard deviation 1, three values: t(0.975, 2) = 4.303
        let Interval { mean, half_width: half } = means.confidence_interval();
        assert!(mean == 10.0 && (half - 4.303 / 3f64.sqrt()).abs() < 1e-3, "{half}");
        assert!(means.confidence_interval().contains(12.0) && !means.confidence_interval().contains(13.0));
    }

    #[test]
    fn nineteen_of_twenty_intervals_contain_the_true_mean() {
        let mut rng = Rng::new(4, 0);
        let mut contained = 0;
        for _ in 0..4000 {
            let mut means = Means::new();
            (0..10).for_each(|_| means.push(5.0 + rng.draw_normal()));
            contained += u32::from(means.confidence_interval().contains(5.0));
        }
        assert!((3740..=3860).contains(&contained), "{contained} of 4000");
    }

    #[test]
    fn stretches_are_weighted_by_their_requests() {
        // 10 requests of 1 s, then 30 of 5 s, alternating: the mean of all is 4 s, that of the stretches 3 s
        let stretches: Vec<(f64, f64)> =
            (0..16).map(|index| if index % 2 == 0 { (10.0, 10.0) } else { (150.0, 30.0) }).collect();
        let found = interval_from_stretches(&stretches).expect("several");
        assert!((found.mean - 4.0).abs() < 1e-12 && found.contains(4.0) && !found.contains(1.0), "{found:?}");
        assert_eq!(interval_from_stretches(&stretches[..1]), None);
        assert_eq!(interval_from_stretches(&[(2.0, 2.0), (5.0, 5.0)]), Some(Interval { mean: 1.0, half_width: 0.0 }));
    }

    #[test]
    fn correlated_stretches_widen_the_interval() {
        let mut rng = Rng::new(4, 2);
        let (mut contained, mut naive) = (0, 0);
        for _ in 0..1000 {
            // 30 stretches of a queue with an autocorrelation of 0.9
            let (mut off, mut means, mut stretches) = (0.0, Means::new(), Vec::new());
            for index in 0..60 {
                off = 0.9 * off + rng.draw_normal();
                if index >= 30 {
                    means.push(50.0 + off);
                    stretches.push(((50.0 + off) * 100.0, 100.0));
                }
            }
            contained += u32::from(interval_from_stretches(&stretches).is_some_and(|interval| interval.contains(50.0)));
            naive += u32::from(means.confidence_interval().contains(50.0));
        }
        assert!(naive < 600, "as if they were independent, {naive} of 1000");
        assert!(contained > 800, "{contained} of 1000");
    }

    #[test]
    fn repetitions_stop_when_precise_or_at_the_maximum() {
        let mut rng = Rng::new(4, 1);
        let interval = repeat_until_precise(0.01, 5, 10_000, |_| 1.0 + 0.1 * rng.draw_normal());
        assert!(interval.relative_half_width() <= 0.01 && (interval.mean - 1.0).abs() < 0.02);
        let mut runs = 0;
        repeat_until_precise(0.0, 2, 7, |number| {
            runs += 1;
            number as f64
        });
        assert_eq!(runs, 7);
    }
}
