//! How hard a load presses as time goes by: stretches in which it grows or
//! falls in a straight line.

use diskwright_base::Rng;

use crate::Ns;
use crate::load::place::cumulative;
use crate::load::{LoadError, LoadPhase};

/// Highest level: a thousand times the rate.
const MOST_LEVEL: f64 = 1e3;

/// Phases with their beginnings, and who is chosen in each.
#[derive(Clone, Debug)]
pub(super) struct LoadTimeline {
    legs: Vec<TimelinePhase>,
    /// When the last phase ends; [`Ns::MAX`] has no end.
    end: Ns,
    /// The classes' own weights, cumulative.
    weights: Vec<f64>,
}

#[derive(Clone, Debug)]
struct TimelinePhase {
    begins: Ns,
    ends: Ns,
    from: f64,
    to: f64,
    /// Cumulative weights of the classes; empty: their own.
    weights: Vec<f64>,
}

impl TimelinePhase {
    fn level(&self, time: Ns) -> f64 {
        if self.ends == Ns::MAX {
            return self.from;
        }
        let share = (time - self.begins) as f64 / (self.ends - self.begins) as f64;
        self.from + (self.to - self.from) * share
    }
}

impl LoadTimeline {
    pub(super) fn new(phases: &[LoadPhase], weights: &[f64]) -> Result<LoadTimeline, LoadError> {
        let own = cumulative(weights.iter().copied(), "weight")?;
        let (mut legs, mut begins) = (Vec::new(), 0u64);
        for phase in phases {
            let right = |level: f64| (0.0..=MOST_LEVEL).contains(&level);
            if !right(phase.from) || !right(phase.to) {
                return Err(LoadError::new("phases", "levels must be from 0 to 1000"));
            }
            if begins == Ns::MAX {
                return Err(LoadError::new("phases", "only the last phase may be endless"));
            }
            if phase.lasts == Ns::MAX && phase.from != phase.to {
                return Err(LoadError::new("phases", "an endless phase must have a single level"));
            }
            if !phase.weights.is_empty() && phase.weights.len() != weights.len() {
                let why = format!("{} weights, but {} classes", phase.weights.len(), weights.len());
                return Err(LoadError::new("phases", why));
            }
            let weights = match phase.weights.is_empty() {
                true => Vec::new(),
                false => cumulative(phase.weights.iter().copied(), "phases")?,
            };
            let ends = begins.saturating_add(phase.lasts);
            if ends > begins {
                legs.push(TimelinePhase { begins, ends, from: phase.from, to: phase.to, weights });
            }
            begins = ends;
        }
        if !phases.is_empty() && legs.is_empty() {
            return Err(LoadError::new("phases", "a phase needs a length"));
        }
        let end = if phases.is_empty() { Ns::MAX } else { begins };
        Ok(LoadTimeline { legs, end, weights: own })
    }

    /// True where nothing changes as time goes by.
    #[inline]
    pub(super) fn is_steady(&self) -> bool {
        self.legs.is_empty()
    }

    /// Whether the load is over at a moment.
    #[inline]
    pub(super) fn over(&self, time: Ns) -> bool {
        time >= self.end
    }

    /// Which class a share drawn evenly chooses at a moment.
    #[inline]
    pub(super) fn class(&self, time: Ns, dice: &mut Rng) -> usize {
        if self.weights.len() == 1 {
            return 0;
        }
        let leg = self.legs.iter().find(|leg| time < leg.ends).filter(|leg| !leg.weights.is_empty());
        let weights = leg.map_or(&self.weights, |leg| &leg.weights);
        let share = dice.share();
        weights.iter().position(|up_to| share < *up_to).unwrap_or(weights.len() - 1)
    }

    /// The first moment from `at` on at which the level is above `least`; `None` where the load ends before.
    pub(super) fn above(&self, least: f64, time: Ns) -> Option<Ns> {
        if self.legs.is_empty() {
            return Some(time);
        }
        for leg in self.legs.iter().filter(|leg| time < leg.ends) {
            let from = time.max(leg.begins);
            if leg.level(from) > least {
                return Some(from);
            }
            if leg.to > least && leg.to > leg.from {
                let share = (least - leg.from) / (leg.to - leg.from);
                let into = share * (leg.ends - leg.begins) as f64;
                // the nanosecond after the crossing
                let moment = leg.begins + into as Ns + 1;
                if moment < leg.ends {
                    return Some(moment.max(from));
                }
            }
        }
        None
    }

    /// The moment at which the level, added up from `at` on, comes to `area`
    /// (ns at level 1); `None` where the load ends before.
    #[inline]
    pub(super) fn after(&self, time: Ns, area: f64) -> Option<Ns> {
        if self.legs.is_empty() {
            return Some(time.saturating_add((area + 0.5) as Ns));
        }
        let mut left = area;
        for leg in self.legs.iter().filter(|leg| time < leg.ends) {
            let from = time.max(leg.begins);
            let level = leg.level(from);
            let (length, slope) = match leg.ends {
                Ns::MAX => (f64::INFINITY, 0.0),
                ends => ((ends - from) as f64, (leg.to - leg.from) / (ends - leg.begins) as f64),
            };
            // at the foot of a rise the formula below would divide nothing by nothing, and pass over all of it
            if left <= 0.0 && (level > 0.0 || slope > 0.0) {
                return Some(from);
            }
            // slope t²/2 + level t = left, in the form that holds for a slope of 0
            let root = (level * level + 2.0 * slope * left).sqrt();
            let step = 2.0 * left / (level + root);
            if step < length {
                return Some(from.saturating_add((step + 0.5) as Ns));
            }
            left -= length * (level + 0.5 * slope * length);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(lasts: Ns, from: f64, to: f64) -> LoadPhase {
        LoadPhase { lasts, from, to, weights: Vec::new() }
    }

    #[test]
    fn levels_by_hand() {
        // up to 1 in 1000 ns, 1 for 1000 ns, nothing for 500, half for 1000
        let phases = [phase(1000, 0.0, 1.0), phase(1000, 1.0, 1.0), phase(500, 0.0, 0.0), phase(1000, 0.5, 0.5)];
        let course = LoadTimeline::new(&phases, &[1.0]).unwrap();
        // nothing to wait for, at the foot of the rise and before what has no level
        assert_eq!((course.after(0, 0.0), course.after(2000, 0.0)), (Some(0), Some(2500)));
        // half of 1000 ns squared is 500 ns at level 1; 125 of it are done at 500
        assert_eq!(course.after(0, 125.0), Some(500));
        assert_eq!(course.after(500, 375.0), Some(1000));
        assert_eq!(course.after(0, 1500.0), Some(2500));
        assert_eq!(course.after(1900, 200.0), Some(2700));
        assert_eq!(course.after(1900, 601.0), None);
        assert_eq!((course.above(0.0, 0), course.above(0.25, 0)), (Some(1), Some(251)));
        assert_eq!((course.above(0.25, 2100), course.above(0.6, 2100)), (Some(2500), None));
        assert!(!course.over(3499) && course.over(3500));
        let always = LoadTimeline::new(&[], &[1.0]).unwrap();
        assert_eq!((always.after(7, 3.0), always.above(0.9, 7), always.over(Ns::MAX - 1)), (Some(10), Some(7), false));
        let steady = LoadTimeline::new(&[phase(10, 0.0, 0.0), phase(Ns::MAX, 2.0, 2.0)], &[1.0]).unwrap();
        assert_eq!((steady.after(0, 100.0), steady.above(1.5, 3)), (Some(60), Some(10)));
    }

    #[test]
    fn falling_levels_end_where_their_area_ends() {
        let course = LoadTimeline::new(&[phase(1000, 1.0, 0.0)], &[1.0]).unwrap();
        // t - t²/2000 = 375 at 500
        assert_eq!(course.after(0, 375.0), Some(500));
        assert_eq!(course.after(0, 500.1), None);
        assert_eq!((course.above(0.5, 0), course.above(0.5, 600)), (Some(0), None));
    }

    #[test]
    fn classes_by_the_weights_of_their_phase() {
        let second = LoadPhase { weights: vec![0.0, 1.0], ..phase(10, 1.0, 1.0) };
        let course = LoadTimeline::new(&[phase(10, 1.0, 1.0), second], &[1.0, 0.0]).unwrap();
        let mut dice = Rng::new(1, 1);
        assert!((0..100).all(|_| course.class(5, &mut dice) == 0 && course.class(15, &mut dice) == 1));
    }

    #[test]
    fn impossible_phases_are_refused() {
        let wrong = |phases: &[LoadPhase]| LoadTimeline::new(phases, &[1.0]).unwrap_err().item == "phases";
        assert!(wrong(&[phase(10, -1.0, 1.0)]) && wrong(&[phase(10, 1.0, f64::NAN)]));
        assert!(wrong(&[phase(Ns::MAX, 1.0, 1.0), phase(1, 1.0, 1.0)]));
        assert!(wrong(&[phase(Ns::MAX, 0.0, 1.0)]) && wrong(&[phase(0, 1.0, 1.0)]));
        assert!(wrong(&[LoadPhase { weights: vec![1.0, 1.0], ..phase(10, 1.0, 1.0) }]));
    }
}
