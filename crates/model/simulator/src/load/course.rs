//! Level of a load over time: a sequence of phases in which it changes linearly.

use diskwright_base::Rng;

use crate::Ns;
use crate::load::place::cumulative;
use crate::load::{LoadError, LoadPhase};

/// Largest level: a thousand times the rate.
const MOST_LEVEL: f64 = 1e3;

/// Phases of a load with their start times and the weights of the operation classes in each.
#[derive(Clone, Debug)]
pub(super) struct LoadTimeline {
    legs: Vec<TimelinePhase>,
    /// Time at which the last phase ends; [`Ns::MAX`]: never.
    end: Ns,
    /// Cumulative weights of the classes where a phase has none.
    weights: Vec<f64>,
}

#[derive(Clone, Debug)]
struct TimelinePhase {
    begins: Ns,
    ends: Ns,
    from: f64,
    to: f64,
    /// Cumulative weights of the classes in this phase; empty: those of the timeline.
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
        let class_weights = cumulative(weights.iter().copied(), "weight")?;
        let (mut legs, mut begins) = (Vec::new(), 0u64);
        for phase in phases {
            let is_valid = |level: f64| (0.0..=MOST_LEVEL).contains(&level);
            if !is_valid(phase.from) || !is_valid(phase.to) {
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
        Ok(LoadTimeline { legs, end, weights: class_weights })
    }

    /// Returns true if the level never changes.
    #[inline]
    pub(super) fn is_steady(&self) -> bool {
        self.legs.is_empty()
    }

    /// Returns true if the load is over at `time`.
    #[inline]
    pub(super) fn over(&self, time: Ns) -> bool {
        time >= self.end
    }

    /// Draws a class of operation by the weights that hold at `time`.
    #[inline]
    pub(super) fn class(&self, time: Ns, rng: &mut Rng) -> usize {
        if self.weights.len() == 1 {
            return 0;
        }
        let phase = self.legs.iter().find(|phase| time < phase.ends).filter(|phase| !phase.weights.is_empty());
        let weights = phase.map_or(&self.weights, |phase| &phase.weights);
        let share = rng.next_f64();
        weights.iter().position(|up_to| share < *up_to).unwrap_or(weights.len() - 1)
    }

    /// Returns the first time from `time` on at which the level is above `threshold`; `None` where the load ends
    /// before.
    pub(super) fn above(&self, threshold: f64, time: Ns) -> Option<Ns> {
        if self.legs.is_empty() {
            return Some(time);
        }
        for phase in self.legs.iter().filter(|phase| time < phase.ends) {
            let from = time.max(phase.begins);
            if phase.level(from) > threshold {
                return Some(from);
            }
            if phase.to > threshold && phase.to > phase.from {
                let share = (threshold - phase.from) / (phase.to - phase.from);
                let elapsed = share * (phase.ends - phase.begins) as f64;
                // the nanosecond after the crossing
                let crossing = phase.begins + elapsed as Ns + 1;
                if crossing < phase.ends {
                    return Some(crossing.max(from));
                }
            }
        }
        None
    }

    /// Returns the time at which the integral of the level from `time` on reaches `area` (ns at level 1); `None`
    /// where the load ends before.
    #[inline]
    pub(super) fn after(&self, time: Ns, area: f64) -> Option<Ns> {
        if self.legs.is_empty() {
            return Some(time.saturating_add((area + 0.5) as Ns));
        }
        let mut left = area;
        for phase in self.legs.iter().filter(|phase| time < phase.ends) {
            let from = time.max(phase.begins);
            let level = phase.level(from);
            let (length, slope) = match phase.ends {
                Ns::MAX => (f64::INFINITY, 0.0),
                ends => ((ends - from) as f64, (phase.to - phase.from) / (ends - phase.begins) as f64),
            };
            // at the start of a rise from level 0 the formula below would be 0/0 and skip the phase
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
        let timeline = LoadTimeline::new(&phases, &[1.0]).unwrap();
        // nothing to wait for, at the foot of the rise and before what has no level
        assert_eq!((timeline.after(0, 0.0), timeline.after(2000, 0.0)), (Some(0), Some(2500)));
        // half of 1000 ns squared is 500 ns at level 1; 125 of it are done at 500
        assert_eq!(timeline.after(0, 125.0), Some(500));
        assert_eq!(timeline.after(500, 375.0), Some(1000));
        assert_eq!(timeline.after(0, 1500.0), Some(2500));
        assert_eq!(timeline.after(1900, 200.0), Some(2700));
        assert_eq!(timeline.after(1900, 601.0), None);
        assert_eq!((timeline.above(0.0, 0), timeline.above(0.25, 0)), (Some(1), Some(251)));
        assert_eq!((timeline.above(0.25, 2100), timeline.above(0.6, 2100)), (Some(2500), None));
        assert!(!timeline.over(3499) && timeline.over(3500));
        let always = LoadTimeline::new(&[], &[1.0]).unwrap();
        assert_eq!((always.after(7, 3.0), always.above(0.9, 7), always.over(Ns::MAX - 1)), (Some(10), Some(7), false));
        let steady = LoadTimeline::new(&[phase(10, 0.0, 0.0), phase(Ns::MAX, 2.0, 2.0)], &[1.0]).unwrap();
        assert_eq!((steady.after(0, 100.0), steady.above(1.5, 3)), (Some(60), Some(10)));
    }

    #[test]
    fn falling_levels_end_where_their_area_ends() {
        let timeline = LoadTimeline::new(&[phase(1000, 1.0, 0.0)], &[1.0]).unwrap();
        // t - t²/2000 = 375 at 500
        assert_eq!(timeline.after(0, 375.0), Some(500));
        assert_eq!(timeline.after(0, 500.1), None);
        assert_eq!((timeline.above(0.5, 0), timeline.above(0.5, 600)), (Some(0), None));
    }

    #[test]
    fn classes_by_the_weights_of_their_phase() {
        let second = LoadPhase { weights: vec![0.0, 1.0], ..phase(10, 1.0, 1.0) };
        let timeline = LoadTimeline::new(&[phase(10, 1.0, 1.0), second], &[1.0, 0.0]).unwrap();
        let mut rng = Rng::new(1, 1);
        assert!((0..100).all(|_| timeline.class(5, &mut rng) == 0 && timeline.class(15, &mut rng) == 1));
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
