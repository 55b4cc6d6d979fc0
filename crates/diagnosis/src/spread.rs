//! How steady a quantity was, and where it is heading, over the ticks inside
//! stretches at which a condition held.

/// Weighted moments of value and time, collected tick by tick.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    /// Ticks of the present stretch.
    run: u64,
    /// The last tick, which counts once the next one turns out to hold too.
    last: Option<Sample>,
    ticks: u64,
    weight: f64,
    mean: f64,
    squares: f64,
    mean_days: f64,
    squares_days: f64,
    products: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    value: f64,
    weight: f64,
    days: f64,
}

/// Fewer ticks than these say nothing of steadiness.
const LEAST_TICKS: u64 = 5;

impl Spread {
    /// A tick at which the condition held. The first and last of a stretch
    /// are filled only in part, and are left out.
    pub fn held(&mut self, value: f64, weight: f64, days: f64) {
        if let (Some(sample), true) = (self.last, self.run >= 2) {
            self.add(sample);
        }
        self.last = (weight > 0.0).then_some(Sample { value, weight, days });
        self.run += 1;
    }

    /// A tick at which it did not.
    pub fn broken(&mut self) {
        self.run = 0;
        self.last = None;
    }

    fn add(&mut self, sample: Sample) {
        self.ticks += 1;
        self.weight += sample.weight;
        let share = sample.weight / self.weight;
        let off = sample.value - self.mean;
        let off_days = sample.days - self.mean_days;
        self.mean += off * share;
        self.mean_days += off_days * share;
        self.squares += sample.weight * off * (sample.value - self.mean);
        self.squares_days += sample.weight * off_days * (sample.days - self.mean_days);
        self.products += sample.weight * off * (sample.days - self.mean_days);
    }

    /// Standard deviation over mean.
    pub fn steadiness(&self) -> Option<f64> {
        if self.ticks < LEAST_TICKS || self.mean == 0.0 {
            return None;
        }
        Some((self.squares / self.weight).max(0.0).sqrt() / self.mean.abs())
    }

    /// Growth a day, as a share of the mean.
    pub fn trend(&self) -> Option<f64> {
        if self.ticks < LEAST_TICKS || self.mean == 0.0 || self.squares_days <= 0.0 {
            return None;
        }
        Some(self.products / self.squares_days / self.mean.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_stretch_is_steady_whatever_its_edges_are() {
        let mut spread = Spread::default();
        for value in [120.0, 250.0, 250.0, 250.0, 250.0, 250.0, 80.0] {
            spread.held(value, 1.0, 0.0);
        }
        spread.broken();
        spread.held(7.0, 1.0, 0.0);
        assert_eq!(spread.steadiness(), Some(0.0));
    }

    #[test]
    fn deviation_is_that_of_the_inner_ticks() {
        let mut spread = Spread::default();
        // inner: 2 4 4 4 5 5 7 9, mean 5, deviation 2
        for value in [99.0, 2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0, 99.0] {
            spread.held(value, 1.0, 0.0);
        }
        assert!((spread.steadiness().unwrap() - 0.4).abs() < 1e-12);
    }

    #[test]
    fn growth_is_told_a_day() {
        let mut spread = Spread::default();
        for day in 0..10 {
            spread.held(100.0 + 10.0 * day as f64, 1.0, day as f64);
        }
        // inner days 1 to 8: mean 145, slope 10
        assert!((spread.trend().unwrap() - 10.0 / 145.0).abs() < 1e-12);
    }

    #[test]
    fn few_ticks_say_nothing() {
        let mut spread = Spread::default();
        for _ in 0..6 {
            spread.held(1.0, 1.0, 0.0);
        }
        assert_eq!(spread.steadiness(), None);
    }
}
