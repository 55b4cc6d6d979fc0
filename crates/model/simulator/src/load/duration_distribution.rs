//! Distributions of durations: think times, pauses, processor times.

use diskwright_base::Rng;

use crate::Ns;
use crate::load::LoadError;
use crate::service_time::draw_hyperexponential;

/// Distribution of a duration, s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DurationDistribution {
    /// Always the same.
    Constant {
        /// Duration.
        s: f64,
    },
    /// Exponential (memoryless).
    Exponential {
        /// Mean.
        mean_s: f64,
    },
    /// Uniform between two limits.
    Uniform {
        /// Shortest.
        from_s: f64,
        /// Longest.
        to_s: f64,
    },
    /// The sum of several exponential stages: steadier than one.
    Erlang {
        /// Number of stages; the squared coefficient of variation is 1 / stages.
        stages: u32,
        /// Mean of the sum.
        mean_s: f64,
    },
    /// Normal; values below 0 are drawn again, so the mean grows if the deviation is large.
    Normal {
        /// Mean.
        mean_s: f64,
        /// Standard deviation.
        deviation_s: f64,
    },
    /// Mostly short, sometimes long: two exponential branches that carry half of the time each.
    Hyper {
        /// Mean.
        mean_s: f64,
        /// Squared coefficient of variation, at least 1.
        cv2: f64,
    },
}

/// Longest duration in a load, s: a hundred years.
const MAX_DURATION_S: f64 = 3.2e9;

/// Number of normal draws that may fall below 0 before 0 is used.
const MAX_NORMAL_DRAWS: usize = 64;

impl DurationDistribution {
    /// Duration of zero.
    pub const NONE: DurationDistribution = DurationDistribution::Constant { s: 0.0 };

    /// Mean, s.
    pub fn mean_s(&self) -> f64 {
        match *self {
            DurationDistribution::Constant { s } => s,
            DurationDistribution::Exponential { mean_s }
            | DurationDistribution::Erlang { mean_s, .. }
            | DurationDistribution::Hyper { mean_s, .. } => mean_s,
            DurationDistribution::Normal { mean_s, deviation_s } => truncated_normal_mean(mean_s, deviation_s),
            DurationDistribution::Uniform { from_s, to_s } => 0.5 * (from_s + to_s),
        }
    }

    /// Draws a duration, s.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        match *self {
            DurationDistribution::Constant { s } => s,
            DurationDistribution::Exponential { mean_s } => rng.draw_exponential(mean_s),
            DurationDistribution::Uniform { from_s, to_s } => from_s + (to_s - from_s) * rng.next_f64(),
            DurationDistribution::Erlang { stages, mean_s } => rng.draw_erlang(stages, mean_s),
            DurationDistribution::Normal { mean_s, deviation_s } => (0..MAX_NORMAL_DRAWS)
                .map(|_| mean_s + deviation_s * rng.draw_normal())
                .find(|s| *s >= 0.0)
                .unwrap_or(0.0),
            DurationDistribution::Hyper { mean_s, cv2 } => draw_hyperexponential(mean_s, cv2, rng),
        }
    }

    /// Draws a duration, ns.
    #[inline]
    pub fn draw_ns(&self, rng: &mut Rng) -> Ns {
        match *self {
            DurationDistribution::NONE => 0,
            _ => seconds_to_ns(self.draw(rng)),
        }
    }

    /// Returns true if every duration is zero.
    pub fn is_none(&self) -> bool {
        *self == DurationDistribution::NONE
    }

    pub(super) fn check_limits(&self, item: &str) -> Result<(), LoadError> {
        let within = |s: f64| (0.0..=MAX_DURATION_S).contains(&s);
        let is_valid = match *self {
            DurationDistribution::Constant { s } => within(s),
            DurationDistribution::Exponential { mean_s } => within(mean_s),
            DurationDistribution::Uniform { from_s, to_s } => within(from_s) && within(to_s) && from_s <= to_s,
            DurationDistribution::Erlang { stages, mean_s } => within(mean_s) && (1..=10_000).contains(&stages),
            DurationDistribution::Normal { mean_s, deviation_s } => within(mean_s) && within(deviation_s),
            DurationDistribution::Hyper { mean_s, cv2 } => within(mean_s) && (1.0..=1e6).contains(&cv2),
        };
        let reason = "times must be from 0 to 3.2e9 s, the smaller first; Erlang has 1 to 10000 stages, \
                   hyperexponential a squared coefficient of variation of 1 to 1e6";
        if is_valid { Ok(()) } else { Err(LoadError::new(item, reason)) }
    }
}

/// Mean of a normal distribution whose values below 0 are drawn again: m + s f(m/s) / F(m/s) with the density f
/// and the distribution function F of the standard normal (Johnson, Kotz and Balakrishnan, "Continuous Univariate
/// Distributions" 1, 1994, 13.10.1). `mean` must not be below 0.
fn truncated_normal_mean(mean: f64, deviation: f64) -> f64 {
    // if the mean is further above 0, nothing is cut
    const MAX_CUT_DEVIATIONS: f64 = 8.0;
    const SIMPSON_STEPS: u32 = 200;
    let up_to = mean / deviation;
    if deviation <= 0.0 || up_to > MAX_CUT_DEVIATIONS {
        return mean;
    }
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    // integral of the density from 0 on by Simpson's rule
    let step = up_to / f64::from(SIMPSON_STEPS);
    let weight = |index: u32| match index {
        0 | SIMPSON_STEPS => 1.0,
        odd if odd % 2 == 1 => 4.0,
        _ => 2.0,
    };
    let sum: f64 = (0..=SIMPSON_STEPS).map(|index| weight(index) * density(f64::from(index) * step)).sum();
    mean + deviation * density(up_to) / (0.5 + sum * step / 3.0)
}

/// Converts seconds to nanoseconds, rounded to the nearest.
#[inline]
pub(super) fn seconds_to_ns(s: f64) -> Ns {
    // the cast saturates at 0 and at the largest number
    (s * 1e9 + 0.5) as Ns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(distribution: DurationDistribution) -> (f64, f64) {
        let mut rng = Rng::new(5, 0);
        let all: Vec<f64> = (0..400_000).map(|_| distribution.draw(&mut rng)).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / all.len() as f64;
        (mean, variance / mean.powi(2))
    }

    #[test]
    fn distributions_have_their_means_and_variations() {
        let cases = [
            (DurationDistribution::Constant { s: 3.0 }, 3.0, 0.0),
            (DurationDistribution::Exponential { mean_s: 0.2 }, 0.2, 1.0),
            (DurationDistribution::Uniform { from_s: 1.0, to_s: 3.0 }, 2.0, 1.0 / 12.0),
            (DurationDistribution::Erlang { stages: 4, mean_s: 2.0 }, 2.0, 0.25),
            (DurationDistribution::Normal { mean_s: 5.0, deviation_s: 1.0 }, 5.0, 0.04),
            // cut at 0.2 deviations below its mean: 1 + 5 x 0.39104 / 0.57926, and 25 (1 - 0.2 l - l²), l = 0.67507
            (DurationDistribution::Normal { mean_s: 1.0, deviation_s: 5.0 }, 4.37537, 0.53446),
            (DurationDistribution::Hyper { mean_s: 0.7, cv2: 4.0 }, 0.7, 4.0),
            (DurationDistribution::Hyper { mean_s: 0.7, cv2: 1.0 }, 0.7, 1.0),
        ];
        for (distribution, mean, cv2) in cases {
            let found = moments(distribution);
            assert!((found.0 / mean - 1.0).abs() < 0.01, "{distribution:?}: {found:?}");
            assert!((found.1 - cv2).abs() < 0.02 * (1.0 + cv2), "{distribution:?}: {found:?}");
            assert!((distribution.mean_s() - mean).abs() < 1e-5, "{distribution:?}: {}", distribution.mean_s());
        }
    }

    #[test]
    fn a_normal_time_is_never_below_zero() {
        let mut rng = Rng::new(1, 1);
        let distribution = DurationDistribution::Normal { mean_s: 0.0, deviation_s: 1.0 };
        assert!((0..10_000).all(|_| distribution.draw(&mut rng) >= 0.0));
    }

    #[test]
    fn rejects_impossible_durations() {
        for wrong in [
            DurationDistribution::Constant { s: -1.0 },
            DurationDistribution::Constant { s: f64::NAN },
            DurationDistribution::Exponential { mean_s: f64::INFINITY },
            DurationDistribution::Uniform { from_s: 2.0, to_s: 1.0 },
            DurationDistribution::Erlang { stages: 0, mean_s: 1.0 },
            DurationDistribution::Normal { mean_s: 1.0, deviation_s: -1.0 },
            DurationDistribution::Hyper { mean_s: 1.0, cv2: 0.5 },
        ] {
            assert_eq!(wrong.check_limits("think").unwrap_err().item, "think", "{wrong:?}");
        }
        assert_eq!((seconds_to_ns(1.5e-9), seconds_to_ns(-1.0), seconds_to_ns(1e300)), (2, 0, Ns::MAX));
    }
}
