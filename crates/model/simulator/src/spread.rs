//! How a time spreads: the same always, or drawn from a distribution.

use diskwright_base::Rng;

use crate::Ns;

/// Most points of a table of quantiles.
pub const MOST_QUANTILES: usize = 64;

/// A distribution of times, ns.
#[derive(Clone, Debug, PartialEq)]
pub enum ServiceTimeDistribution {
    /// Always the same.
    Constant(Ns),
    /// Exponential.
    Exponential {
        /// Its mean.
        mean: Ns,
    },
    /// The sum of so many exponentials.
    Erlang {
        /// How many.
        stages: u32,
        /// The mean of the sum.
        mean: Ns,
    },
    /// Mostly short, sometimes long: two exponential branches that carry half of the time each.
    Hyper {
        /// Its mean.
        mean: Ns,
        /// Squared coefficient of variation, at least 1.
        cv2: f64,
    },
    /// Any time between two equally.
    Uniform {
        /// The shortest.
        least: Ns,
        /// The longest.
        most: Ns,
    },
    /// Its logarithm is normal.
    LogNormal {
        /// Half of all are below.
        median: Ns,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// Measured quantiles, straight between them: shares from 0 to 1 and times, both rising.
    Quantiles(Vec<(f64, Ns)>),
}

impl ServiceTimeDistribution {
    /// One time.
    #[inline]
    pub fn draw(&self, dice: &mut Rng) -> Ns {
        match self {
            ServiceTimeDistribution::Constant(time) => *time,
            ServiceTimeDistribution::Exponential { mean } => dice.exponential(*mean as f64) as Ns,
            ServiceTimeDistribution::Erlang { stages, mean } => dice.erlang(*stages, *mean as f64) as Ns,
            ServiceTimeDistribution::Hyper { mean, cv2 } => hyper(*mean as f64, *cv2, dice) as Ns,
            ServiceTimeDistribution::Uniform { least, most } => {
                least + dice.below(most.saturating_sub(*least).saturating_add(1))
            }
            ServiceTimeDistribution::LogNormal { median, sigma } => {
                (*median as f64 * (sigma * dice.normal()).exp()) as Ns
            }
            ServiceTimeDistribution::Quantiles(points) => quantile(points, dice.share()),
        }
    }

    /// Its mean, ns.
    pub fn mean(&self) -> f64 {
        match self {
            ServiceTimeDistribution::Constant(time) => *time as f64,
            ServiceTimeDistribution::Exponential { mean }
            | ServiceTimeDistribution::Erlang { mean, .. }
            | ServiceTimeDistribution::Hyper { mean, .. } => *mean as f64,
            ServiceTimeDistribution::Uniform { least, most } => (*least as f64 + *most as f64) / 2.0,
            ServiceTimeDistribution::LogNormal { median, sigma } => *median as f64 * (sigma * sigma / 2.0).exp(),
            ServiceTimeDistribution::Quantiles(points) => moment(points, |a, b| (a + b) / 2.0),
        }
    }

    /// Its squared coefficient of variation; 0 where the mean is 0.
    pub fn variation_squared(&self) -> f64 {
        let mean = self.mean();
        if mean <= 0.0 {
            return 0.0;
        }
        match self {
            ServiceTimeDistribution::Constant(_) => 0.0,
            ServiceTimeDistribution::Exponential { .. } => 1.0,
            ServiceTimeDistribution::Erlang { stages, .. } => 1.0 / f64::from((*stages).max(1)),
            ServiceTimeDistribution::Hyper { cv2, .. } => *cv2,
            ServiceTimeDistribution::Uniform { least, most } => {
                (*most as f64 - *least as f64).powi(2) / 12.0 / mean.powi(2)
            }
            ServiceTimeDistribution::LogNormal { sigma, .. } => (sigma * sigma).exp() - 1.0,
            // the square of a uniform between a and b has the mean (a² + ab + b²) / 3
            ServiceTimeDistribution::Quantiles(points) => {
                (moment(points, |a, b| (a * a + a * b + b * b) / 3.0) / mean.powi(2) - 1.0).max(0.0)
            }
        }
    }

    /// Looks for what cannot be; the answer says what would be right.
    ///
    /// # Errors
    /// A text that names the item and what would be right.
    pub fn check(&self) -> Result<(), String> {
        match self {
            ServiceTimeDistribution::Erlang { stages, .. } if !(1..=10_000).contains(stages) => {
                Err(format!("stages: {stages} where 1 to 10,000 are possible"))
            }
            ServiceTimeDistribution::Hyper { cv2, .. } if !(1.0..=1e6).contains(cv2) => {
                Err(format!("cv2: {cv2} where 1 to 1e6 are possible"))
            }
            ServiceTimeDistribution::Uniform { least, most } if least > most => {
                Err(format!("from {least} ns to {most} ns, where the first is the shorter"))
            }
            ServiceTimeDistribution::LogNormal { sigma, .. } if !(0.0..=5.0).contains(sigma) => {
                Err(format!("sigma: {sigma} where 0 to 5 are possible"))
            }
            ServiceTimeDistribution::Quantiles(points) => check_quantiles(points),
            _ => Ok(()),
        }
    }
}

/// Balanced means (Morse, "Queues, Inventories and Maintenance", 1958; Allen,
/// "Probability, Statistics, and Queueing Theory", 1990): with probability p
/// the mean is m/2p, otherwise m/2(1 - p), p = (1 - sqrt((c² - 1)/(c² + 1)))/2.
pub(crate) fn hyper(mean: f64, cv2: f64, dice: &mut Rng) -> f64 {
    let long = 0.5 * (1.0 - ((cv2 - 1.0) / (cv2 + 1.0)).sqrt());
    let branch = if dice.chance(long) { long } else { 1.0 - long };
    dice.exponential(0.5 * mean / branch)
}

fn check_quantiles(points: &[(f64, Ns)]) -> Result<(), String> {
    if points.len() < 2 || points.len() > MOST_QUANTILES {
        return Err(format!("quantiles: {} where 2 to {MOST_QUANTILES} are possible", points.len()));
    }
    if points[0].0 != 0.0 || points[points.len() - 1].0 != 1.0 {
        return Err("quantiles: they begin at the share 0 and end at 1".into());
    }
    if points.windows(2).any(|p| !(p[0].0 < p[1].0 && p[0].1 <= p[1].1)) {
        return Err("quantiles: shares and times rise from each to the next".into());
    }
    Ok(())
}

/// The time below which this share is.
fn quantile(points: &[(f64, Ns)], share: f64) -> Ns {
    let index = points.iter().skip(1).take_while(|point| point.0 < share).count();
    match (points.get(index), points.get(index + 1)) {
        (Some(a), Some(b)) => a.1 + ((b.1 - a.1) as f64 * (share - a.0) / (b.0 - a.0)) as Ns,
        (Some(only), None) => only.1,
        _ => 0,
    }
}

fn moment(points: &[(f64, Ns)], of: impl Fn(f64, f64) -> f64) -> f64 {
    points.windows(2).map(|p| (p[1].0 - p[0].0) * of(p[0].1 as f64, p[1].1 as f64)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<ServiceTimeDistribution> {
        vec![
            ServiceTimeDistribution::Constant(500),
            ServiceTimeDistribution::Exponential { mean: 1_000_000 },
            ServiceTimeDistribution::Erlang { stages: 3, mean: 1_000_000 },
            ServiceTimeDistribution::Hyper { mean: 1_000_000, cv2: 3.0 },
            ServiceTimeDistribution::Uniform { least: 100_000, most: 300_000 },
            ServiceTimeDistribution::LogNormal { median: 1_000_000, sigma: 0.5 },
            ServiceTimeDistribution::Quantiles(vec![(0.0, 100_000), (0.5, 200_000), (0.9, 300_000), (1.0, 1_000_000)]),
        ]
    }

    #[test]
    fn draws_have_the_told_mean_and_variation() {
        for spread in all() {
            let mut dice = Rng::new(5, 0);
            let (mut sum, mut squares, draws) = (0.0, 0.0, 400_000);
            for _ in 0..draws {
                let time = spread.draw(&mut dice) as f64;
                sum += time;
                squares += time * time;
            }
            let mean = sum / f64::from(draws);
            let cv2 = squares / f64::from(draws) / mean.powi(2) - 1.0;
            assert!((mean / spread.mean() - 1.0).abs() < 0.01, "{spread:?}: {mean}");
            assert!((cv2 - spread.variation_squared()).abs() < 0.02, "{spread:?}: {cv2}");
            assert_eq!(spread.check(), Ok(()));
        }
    }

    #[test]
    fn what_cannot_be_is_told() {
        let wrong = [
            ServiceTimeDistribution::Erlang { stages: 0, mean: 1 },
            ServiceTimeDistribution::Hyper { mean: 1, cv2: 0.5 },
            ServiceTimeDistribution::Uniform { least: 2, most: 1 },
            ServiceTimeDistribution::LogNormal { median: 1, sigma: f64::NAN },
            ServiceTimeDistribution::Quantiles(vec![]),
            ServiceTimeDistribution::Quantiles(vec![(0.0, 1), (0.9, 2)]),
            ServiceTimeDistribution::Quantiles(vec![(0.0, 1), (f64::NAN, 1), (1.0, 2)]),
            ServiceTimeDistribution::Quantiles(vec![(0.0, 3), (1.0, 2)]),
        ];
        for spread in wrong {
            assert!(spread.check().is_err(), "{spread:?}");
        }
    }
}
