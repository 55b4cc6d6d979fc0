//! Distributions of a service time: constant or random.

use diskwright_base::Rng;

use crate::Ns;

/// Largest number of points in a table of quantiles.
pub const MAX_QUANTILES: usize = 64;

/// A distribution of service times, ns.
#[derive(Clone, Debug, PartialEq)]
pub enum ServiceTimeDistribution {
    /// A constant.
    Constant(Ns),
    /// Exponential distribution.
    Exponential {
        /// Its mean.
        mean: Ns,
    },
    /// Sum of a number of exponential stages.
    Erlang {
        /// Number of stages.
        stages: u32,
        /// Mean of the sum.
        mean: Ns,
    },
    /// Hyperexponential, mostly short, sometimes long: two branches that contribute half of the mean each.
    Hyperexponential {
        /// Its mean.
        mean: Ns,
        /// Squared coefficient of variation, at least 1.
        cv2: f64,
    },
    /// Uniform between two times.
    Uniform {
        /// Shortest time.
        min: Ns,
        /// Longest time.
        max: Ns,
    },
    /// Log-normal distribution.
    LogNormal {
        /// Median.
        median: Ns,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// Measured quantiles, interpolated linearly: shares from 0 to 1 and times, both increasing.
    Quantiles(Vec<(f64, Ns)>),
}

impl ServiceTimeDistribution {
    /// Draws a time.
    #[inline]
    pub fn draw_time(&self, rng: &mut Rng) -> Ns {
        match self {
            ServiceTimeDistribution::Constant(time) => *time,
            ServiceTimeDistribution::Exponential { mean } => rng.draw_exponential(*mean as f64) as Ns,
            ServiceTimeDistribution::Erlang { stages, mean } => rng.draw_erlang(*stages, *mean as f64) as Ns,
            ServiceTimeDistribution::Hyperexponential { mean, cv2 } => {
                draw_hyperexponential(*mean as f64, *cv2, rng) as Ns
            }
            ServiceTimeDistribution::Uniform { min, max } => {
                min + rng.next_below(max.saturating_sub(*min).saturating_add(1))
            }
            ServiceTimeDistribution::LogNormal { median, sigma } => {
                (*median as f64 * (sigma * rng.draw_normal()).exp()) as Ns
            }
            ServiceTimeDistribution::Quantiles(points) => interpolate_quantile(points, rng.next_f64()),
        }
    }

    /// Its mean, ns.
    pub fn mean(&self) -> f64 {
        match self {
            ServiceTimeDistribution::Constant(time) => *time as f64,
            ServiceTimeDistribution::Exponential { mean }
            | ServiceTimeDistribution::Erlang { mean, .. }
            | ServiceTimeDistribution::Hyperexponential { mean, .. } => *mean as f64,
            ServiceTimeDistribution::Uniform { min, max } => (*min as f64 + *max as f64) / 2.0,
            ServiceTimeDistribution::LogNormal { median, sigma } => *median as f64 * (sigma * sigma / 2.0).exp(),
            ServiceTimeDistribution::Quantiles(points) => integrate_segments(points, |a, b| (a + b) / 2.0),
        }
    }

    /// Its squared coefficient of variation; 0 if the mean is 0.
    pub fn variation_squared(&self) -> f64 {
        let mean = self.mean();
        if mean <= 0.0 {
            return 0.0;
        }
        match self {
            ServiceTimeDistribution::Constant(_) => 0.0,
            ServiceTimeDistribution::Exponential { .. } => 1.0,
            ServiceTimeDistribution::Erlang { stages, .. } => 1.0 / f64::from((*stages).max(1)),
            ServiceTimeDistribution::Hyperexponential { cv2, .. } => *cv2,
            ServiceTimeDistribution::Uniform { min, max } => (*max as f64 - *min as f64).powi(2) / 12.0 / mean.powi(2),
            ServiceTimeDistribution::LogNormal { sigma, .. } => (sigma * sigma).exp() - 1.0,
            // the square of a uniform between a and b has the mean (a² + ab + b²) / 3
            ServiceTimeDistribution::Quantiles(points) => {
                (integrate_segments(points, |a, b| (a * a + a * b + b * b) / 3.0) / mean.powi(2) - 1.0).max(0.0)
            }
        }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// An error names the parameter and its valid range.
    pub fn check_parameters(&self) -> Result<(), String> {
        match self {
            ServiceTimeDistribution::Erlang { stages, .. } if !(1..=10_000).contains(stages) => {
                Err(format!("stages: {stages} where 1 to 10,000 are possible"))
            }
            ServiceTimeDistribution::Hyperexponential { cv2, .. } if !(1.0..=1e6).contains(cv2) => {
                Err(format!("cv2: {cv2} where 1 to 1e6 are possible"))
            }
            ServiceTimeDistribution::Uniform { min, max } if min > max => {
                Err(format!("from {min} ns to {max} ns, where the first is the shorter"))
            }
            ServiceTimeDistribution::LogNormal { sigma, .. } if !(0.0..=5.0).contains(sigma) => {
                Err(format!("sigma: {sigma} where 0 to 5 are possible"))
            }
            ServiceTimeDistribution::Quantiles(points) => check_quantiles(points),
            _ => Ok(()),
        }
    }
}

/// Draws from a hyperexponential distribution with balanced means (Morse, "Queues, Inventories and Maintenance", 1958;
/// Allen, "Probability, Statistics, and Queueing Theory", 1990): with probability p the mean is m/2p, otherwise
/// m/2(1 - p), p = (1 - sqrt((c² - 1)/(c² + 1)))/2.
pub(crate) fn draw_hyperexponential(mean: f64, cv2: f64, rng: &mut Rng) -> f64 {
    let long_share = 0.5 * (1.0 - ((cv2 - 1.0) / (cv2 + 1.0)).sqrt());
    let branch_share = if rng.next_bool(long_share) { long_share } else { 1.0 - long_share };
    rng.draw_exponential(0.5 * mean / branch_share)
}

fn check_quantiles(points: &[(f64, Ns)]) -> Result<(), String> {
    if points.len() < 2 || points.len() > MAX_QUANTILES {
        return Err(format!("quantiles: {} where 2 to {MAX_QUANTILES} are possible", points.len()));
    }
    if points[0].0 != 0.0 || points[points.len() - 1].0 != 1.0 {
        return Err("quantiles: they begin at the share 0 and end at 1".into());
    }
    if points.windows(2).any(|p| !(p[0].0 < p[1].0 && p[0].1 <= p[1].1)) {
        return Err("quantiles: shares and times rise from each to the next".into());
    }
    Ok(())
}

/// Returns the time at this quantile, interpolated.
fn interpolate_quantile(points: &[(f64, Ns)], share: f64) -> Ns {
    let index = points.iter().skip(1).take_while(|point| point.0 < share).count();
    match (points.get(index), points.get(index + 1)) {
        (Some(a), Some(b)) => a.1 + ((b.1 - a.1) as f64 * (share - a.0) / (b.0 - a.0)) as Ns,
        (Some(only), None) => only.1,
        _ => 0,
    }
}

/// Averages a function of the end points of each segment, weighted by the segment's share.
fn integrate_segments(points: &[(f64, Ns)], segment: impl Fn(f64, f64) -> f64) -> f64 {
    points.windows(2).map(|p| (p[1].0 - p[0].0) * segment(p[0].1 as f64, p[1].1 as f64)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_distribution() -> Vec<ServiceTimeDistribution> {
        vec![
            ServiceTimeDistribution::Constant(500),
            ServiceTimeDistribution::Exponential { mean: 1_000_000 },
            ServiceTimeDistribution::Erlang { stages: 3, mean: 1_000_000 },
            ServiceTimeDistribution::Hyperexponential { mean: 1_000_000, cv2: 3.0 },
            ServiceTimeDistribution::Uniform { min: 100_000, max: 300_000 },
            ServiceTimeDistribution::LogNormal { median: 1_000_000, sigma: 0.5 },
            ServiceTimeDistribution::Quantiles(vec![(0.0, 100_000), (0.5, 200_000), (0.9, 300_000), (1.0, 1_000_000)]),
        ]
    }

    #[test]
    fn draws_have_the_stated_mean_and_variation() {
        for distribution in every_distribution() {
            let mut rng = Rng::new(5, 0);
            let (mut sum, mut squares, draws) = (0.0, 0.0, 400_000);
            for _ in 0..draws {
                let time = distribution.draw_time(&mut rng) as f64;
                sum += time;
                squares += time * time;
            }
            let mean = sum / f64::from(draws);
            let cv2 = squares / f64::from(draws) / mean.powi(2) - 1.0;
            assert!((mean / distribution.mean() - 1.0).abs() < 0.01, "{distribution:?}: {mean}");
            assert!((cv2 - distribution.variation_squared()).abs() < 0.02, "{distribution:?}: {cv2}");
            assert_eq!(distribution.check_parameters(), Ok(()));
        }
    }

    #[test]
    fn rejects_impossible_parameters() {
        let wrong = [
            ServiceTimeDistribution::Erlang { stages: 0, mean: 1 },
            ServiceTimeDistribution::Hyperexponential { mean: 1, cv2: 0.5 },
            ServiceTimeDistribution::Uniform { min: 2, max: 1 },
            ServiceTimeDistribution::LogNormal { median: 1, sigma: f64::NAN },
            ServiceTimeDistribution::Quantiles(vec![]),
            ServiceTimeDistribution::Quantiles(vec![(0.0, 1), (0.9, 2)]),
            ServiceTimeDistribution::Quantiles(vec![(0.0, 1), (f64::NAN, 1), (1.0, 2)]),
            ServiceTimeDistribution::Quantiles(vec![(0.0, 3), (1.0, 2)]),
        ];
        for distribution in wrong {
            assert!(distribution.check_parameters().is_err(), "{distribution:?}");
        }
    }
}
