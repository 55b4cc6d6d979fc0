//! How far a simulated mean can be trusted: means of independent runs, or of
//! long stretches of one run (batches), and Student's t over them.

use diskwright_statistics::distribution::student_limit;

/// Means of runs or batches, all of the same length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Means {
    count: u64,
    mean: f64,
    squares: f64,
}

/// A mean and the half of the interval around it that holds the true one 19
/// times of 20. Infinite where there are fewer than two means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Half of the interval.
    pub half: f64,
}

impl Interval {
    /// Half of the interval as a share of the mean.
    pub fn relative(&self) -> f64 {
        self.half / self.mean.abs()
    }

    /// Whether a value lies inside.
    pub fn holds(&self, value: f64) -> bool {
        (value - self.mean).abs() <= self.half
    }
}

impl Means {
    /// None yet.
    pub fn new() -> Means {
        Means::default()
    }

    /// Adds the mean of a run or a batch (Welford's recurrence, 1962).
    pub fn push(&mut self, mean: f64) {
        self.count += 1;
        let off = mean - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (mean - self.mean);
    }

    /// Means so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The interval. Neighbouring batches of one run must be long against the
    /// time that a queue takes to forget, or it is too narrow.
    pub fn interval(&self) -> Interval {
        let df = self.count.saturating_sub(1) as f64;
        if self.count < 2 {
            let mean = if self.count == 0 { f64::NAN } else { self.mean };
            return Interval { mean, half: f64::INFINITY };
        }
        let error = (self.squares / df / self.count as f64).sqrt();
        Interval { mean: self.mean, half: student_limit(0.05, df) * error }
    }
}

/// Runs repetitions, told their number, until the interval is within `share`
/// of the mean, at least `least` and at most `most` of them.
pub fn repeat(share: f64, least: u64, most: u64, mut run: impl FnMut(u64) -> f64) -> Interval {
    let mut means = Means::new();
    for number in 0..most {
        means.push(run(number));
        if means.count() >= least && means.interval().relative() <= share {
            break;
        }
    }
    means.interval()
}

#[cfg(test)]
mod tests {
    use diskwright_base::Rng;

    use super::*;

    #[test]
    fn an_interval_by_hand() {
        let mut means = Means::new();
        assert!(means.interval().mean.is_nan());
        means.push(9.0);
        assert_eq!(means.interval().half, f64::INFINITY);
        [10.0, 11.0].into_iter().for_each(|m| means.push(m));
        // deviation 1, three values: t(0.975, 2) = 4.303
        let Interval { mean, half } = means.interval();
        assert!(mean == 10.0 && (half - 4.303 / 3f64.sqrt()).abs() < 1e-3, "{half}");
        assert!(means.interval().holds(12.0) && !means.interval().holds(13.0));
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_truth() {
        let mut dice = Rng::new(4, 0);
        let mut held = 0;
        for _ in 0..4000 {
            let mut means = Means::new();
            (0..10).for_each(|_| means.push(5.0 + dice.normal()));
            held += u32::from(means.interval().holds(5.0));
        }
        assert!((3740..=3860).contains(&held), "{held} of 4000");
    }

    #[test]
    fn repetitions_end_when_they_are_sure_or_at_most() {
        let mut dice = Rng::new(4, 1);
        let interval = repeat(0.01, 5, 10_000, |_| 1.0 + 0.1 * dice.normal());
        assert!(interval.relative() <= 0.01 && (interval.mean - 1.0).abs() < 0.02);
        let mut runs = 0;
        repeat(0.0, 2, 7, |number| {
            runs += 1;
            number as f64
        });
        assert_eq!(runs, 7);
    }
}
