//! Lengths of time, drawn anew each time.

use diskwright_base::Rng;

use crate::Ns;
use crate::load::LoadError;
use crate::spread::hyper;

/// A length of time, s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DurationDistribution {
    /// Always the same.
    Constant {
        /// So long.
        s: f64,
    },
    /// Memoryless.
    Exponential {
        /// Mean.
        mean_s: f64,
    },
    /// Anything between two alike.
    Uniform {
        /// Least.
        from_s: f64,
        /// Most.
        to_s: f64,
    },
    /// The sum of several exponential stages: steadier than one.
    Erlang {
        /// How many; the squared coefficient of variation is one by it.
        stages: u32,
        /// Mean of the sum.
        mean_s: f64,
    },
    /// Normal, what is below 0 drawn again (so that the mean grows where the deviation is large).
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

/// Longest time of a load, s: a hundred years.
const MOST_S: f64 = 3.2e9;

/// Times of drawing before a normal draw that stays below 0 is taken as 0.
const DRAWS: usize = 64;

impl DurationDistribution {
    /// No time at all.
    pub const NONE: DurationDistribution = DurationDistribution::Constant { s: 0.0 };

    /// The mean, s.
    pub fn mean_s(&self) -> f64 {
        match *self {
            DurationDistribution::Constant { s } => s,
            DurationDistribution::Exponential { mean_s }
            | DurationDistribution::Erlang { mean_s, .. }
            | DurationDistribution::Hyper { mean_s, .. } => mean_s,
            DurationDistribution::Normal { mean_s, deviation_s } => above_zero(mean_s, deviation_s),
            DurationDistribution::Uniform { from_s, to_s } => 0.5 * (from_s + to_s),
        }
    }

    /// One of them, s.
    #[inline]
    pub fn draw(&self, dice: &mut Rng) -> f64 {
        match *self {
            DurationDistribution::Constant { s } => s,
            DurationDistribution::Exponential { mean_s } => dice.exponential(mean_s),
            DurationDistribution::Uniform { from_s, to_s } => from_s + (to_s - from_s) * dice.share(),
            DurationDistribution::Erlang { stages, mean_s } => dice.erlang(stages, mean_s),
            DurationDistribution::Normal { mean_s, deviation_s } => {
                (0..DRAWS).map(|_| mean_s + deviation_s * dice.normal()).find(|s| *s >= 0.0).unwrap_or(0.0)
            }
            DurationDistribution::Hyper { mean_s, cv2 } => hyper(mean_s, cv2, dice),
        }
    }

    /// One of them, ns.
    #[inline]
    pub fn draw_ns(&self, dice: &mut Rng) -> Ns {
        match *self {
            DurationDistribution::NONE => 0,
            _ => ns(self.draw(dice)),
        }
    }

    /// True where no time goes by.
    pub fn is_none(&self) -> bool {
        *self == DurationDistribution::NONE
    }

    pub(super) fn check(&self, item: &str) -> Result<(), LoadError> {
        let within = |s: f64| (0.0..=MOST_S).contains(&s);
        let right = match *self {
            DurationDistribution::Constant { s } => within(s),
            DurationDistribution::Exponential { mean_s } => within(mean_s),
            DurationDistribution::Uniform { from_s, to_s } => within(from_s) && within(to_s) && from_s <= to_s,
            DurationDistribution::Erlang { stages, mean_s } => within(mean_s) && (1..=10_000).contains(&stages),
            DurationDistribution::Normal { mean_s, deviation_s } => within(mean_s) && within(deviation_s),
            DurationDistribution::Hyper { mean_s, cv2 } => within(mean_s) && (1.0..=1e6).contains(&cv2),
        };
        let why = "times must be from 0 to 3.2e9 s, the smaller first; Erlang has 1 to 10000 stages, \
                   hyperexponential a squared coefficient of variation of 1 to 1e6";
        if right { Ok(()) } else { Err(LoadError::new(item, why)) }
    }
}

/// Mean of a normal distribution of which what is below 0 is drawn again: m + s f(m/s) / F(m/s) with the density f
/// and the distribution F of the standard one (Johnson, Kotz and Balakrishnan, "Continuous Univariate
/// Distributions" 1, 1994, 13.10.1). The mean is not below 0.
fn above_zero(mean: f64, deviation: f64) -> f64 {
    // beyond so many deviations nothing is cut
    const FAR: f64 = 8.0;
    const STEPS: u32 = 200;
    let up_to = mean / deviation;
    if deviation <= 0.0 || up_to > FAR {
        return mean;
    }
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    // from 0 on by Simpson's rule
    let step = up_to / f64::from(STEPS);
    let weight = |index: u32| match index {
        0 | STEPS => 1.0,
        odd if odd % 2 == 1 => 4.0,
        _ => 2.0,
    };
    let sum: f64 = (0..=STEPS).map(|index| weight(index) * density(f64::from(index) * step)).sum();
    mean + deviation * density(up_to) / (0.5 + sum * step / 3.0)
}

/// Nanoseconds of a number of seconds, to the nearest.
#[inline]
pub(super) fn ns(s: f64) -> Ns {
    // a cast holds at 0 and at the greatest number
    (s * 1e9 + 0.5) as Ns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(spell: DurationDistribution) -> (f64, f64) {
        let mut dice = Rng::new(5, 0);
        let all: Vec<f64> = (0..400_000).map(|_| spell.draw(&mut dice)).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / all.len() as f64;
        (mean, variance / mean.powi(2))
    }

    #[test]
    fn spells_have_their_means_and_variations() {
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
        for (spell, mean, cv2) in cases {
            let found = moments(spell);
            assert!((found.0 / mean - 1.0).abs() < 0.01, "{spell:?}: {found:?}");
            assert!((found.1 - cv2).abs() < 0.02 * (1.0 + cv2), "{spell:?}: {found:?}");
            assert!((spell.mean_s() - mean).abs() < 1e-5, "{spell:?}: {}", spell.mean_s());
        }
    }

    #[test]
    fn a_normal_time_is_never_below_zero() {
        let mut dice = Rng::new(1, 1);
        let spell = DurationDistribution::Normal { mean_s: 0.0, deviation_s: 1.0 };
        assert!((0..10_000).all(|_| spell.draw(&mut dice) >= 0.0));
    }

    #[test]
    fn impossible_times_are_refused() {
        for wrong in [
            DurationDistribution::Constant { s: -1.0 },
            DurationDistribution::Constant { s: f64::NAN },
            DurationDistribution::Exponential { mean_s: f64::INFINITY },
            DurationDistribution::Uniform { from_s: 2.0, to_s: 1.0 },
            DurationDistribution::Erlang { stages: 0, mean_s: 1.0 },
            DurationDistribution::Normal { mean_s: 1.0, deviation_s: -1.0 },
            DurationDistribution::Hyper { mean_s: 1.0, cv2: 0.5 },
        ] {
            assert_eq!(wrong.check("think").unwrap_err().item, "think", "{wrong:?}");
        }
        assert_eq!((ns(1.5e-9), ns(-1.0), ns(1e300)), (2, 0, Ns::MAX));
    }
}
