//! Level of a load over time: a sequence of phases in which it changes linearly.

use diskwright_base::Rng;

use crate::Ns;
use crate::load::placement::cumulative_shares;
use crate::load::{LoadError, LoadPhase};

/// Largest level: a thousand times the rate.
const MAX_LEVEL: f64 = 1e3;

/// Phases of a load with their start times and the weights of the operation classes in each.
#[derive(Clone, Debug)]
pub(super) struct LoadTimeline {
    phases: Vec<TimelinePhase>,
    /// Time at which the last phase ends; [`Ns::MAX`] means never.
    end_ns: Ns,
    /// Cumulative weights of the classes for phases without weights.
    weights: Vec<f64>,
}

#[derive(Clone, Debug)]
struct TimelinePhase {
    begin_ns: Ns,
    end_ns: Ns,
    start_level: f64,
    end_level: f64,
    /// Cumulative weights of the classes in this phase; empty means those of the timeline.
    weights: Vec<f64>,
}

impl TimelinePhase {
    fn level_at(&self, time: Ns) -> f64 {
        if self.end_ns == Ns::MAX {
            return self.start_level;
        }
        let share = (time - self.begin_ns) as f64 / (self.end_ns - self.begin_ns) as f64;
        self.start_level + (self.end_level - self.start_level) * share
    }
}

impl LoadTimeline {
    pub(super) fn new(phases: &[LoadPhase], weights: &[f64]) -> Result<LoadTimeline, LoadError> {
        let class_weights = cumulative_shares(weights.iter().copied(), "weight")?;
        let (mut timeline_phases, mut begin_ns) = (Vec::new(), 0u64);
        for phase in phases {
            let is_valid = |level: f64| (0.0..=MAX_LEVEL).contains(&level);
            if !is_valid(phase.from) || !is_valid(phase.to) {
                return Err(LoadError::new("phases", "levels must be from 0 to 1000"));
            }
            if begin_ns == Ns::MAX {
                return Err(LoadError::new("phases", "only the last phase may be endless"));
            }
            if phase.lasts == Ns::MAX && phase.from != phase.to {
                return Err(LoadError::new("phases", "an endless phase must have a single level"));
            }
            if !phase.weights.is_empty() && phase.weights.len() != weights.len() {
                let reason = format!("{} weights, but {} classes", phase.weights.len(), weights.len());
                return Err(LoadError::new("phases", reason));
            }
            let weights = match phase.weights.is_empty() {
                true => Vec::new(),
                false => cumulative_shares(phase.weights.iter().copied(), "phases")?,
            };
            let end_ns = begin_ns.saturating_add(phase.lasts);
            if end_ns > begin_ns {
                timeline_phases.push(TimelinePhase {
                    begin_ns,
                    end_ns,
                    start_level: phase.from,
                    end_level: phase.to,
                    weights,
                });
            }
            begin_ns = end_ns;
        }
        if !phases.is_empty() && timeline_phases.is_empty() {
            return Err(LoadError::new("phases", "a phase needs a length"));
        }
        let end_ns = if phases.is_empty() { Ns::MAX } else { begin_ns };
        Ok(LoadTimeline { phases: timeline_phases, end_ns, weights: class_weights })
    }

    /// Returns true if the level never changes.
    #[inline]
    pub(super) fn is_steady(&self) -> bool {
        self.phases.is_empty()
    }

    /// Returns true if the load is over at `time`.
    #[inline]
    pub(super) fn is_over(&self, time: Ns) -> bool {
        time >= self.end_ns
    }

    /// Draws a class of operation by the weights that hold at `time`.
    #[inline]
    pub(super) fn draw_class(&self, time: Ns, rng: &mut Rng) -> usize {
        if self.weights.len() == 1 {
            return 0;
        }
        let phase = self.phases.iter().find(|phase| time < phase.end_ns).filter(|phase| !phase.weights.is_empty());
        let weights = phase.map_or(&self.weights, |phase| &phase.weights);
        let share = rng.next_f64();
        weights.iter().position(|up_to| share < *up_to).unwrap_or(weights.len() - 1)
    }

    /// Returns the first time from `time` on at which the level is above `threshold`; `None` if the load ends before.
    pub(super) fn first_time_above(&self, threshold: f64, time: Ns) -> Option<Ns> {
        if self.phases.is_empty() {
            return Some(time);
        }
        for phase in self.phases.iter().filter(|phase| time < phase.end_ns) {
            let from = time.max(phase.begin_ns);
            if phase.level_at(from) > threshold {
                return Some(from);
            }
            if phase.end_level > threshold && phase.end_level > phase.start_level {
                let share = (threshold - phase.start_level) / (phase.end_level - phase.start_level);
                let elapsed = share * (phase.end_ns - phase.begin_ns) as f64;
                // the nanosecond after the crossing
                let crossing = phase.begin_ns + elapsed as Ns + 1;
                if crossing < phase.end_ns {
                    return Some(crossing.max(from));
                }
            }
        }
        None
    }

    /// Returns the time at which the integral of the level from `time` on reaches `area` (ns at level 1); `None` if the
    /// load ends before.
    #[inline]
    pub(super) fn time_after_area(&self, time: Ns, area: f64) -> Option<Ns> {
        if self.phases.is_empty() {
            return Some(time.saturating_add((area + 0.5) as Ns));
        }
        let mut left = area;
        for phase in self.phases.iter().filter(|phase| time < phase.end_ns) {
            let from = time.max(phase.begin_ns);
            let level = phase.level_at(from);
            let (length, slope) = match phase.end_ns {
                Ns::MAX => (f64::INFINITY, 0.0),
                end => ((end - from) as f64, (phase.end_level - phase.start_level) / (end - phase.begin_ns) as f64),
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
    fn levels_and_areas_agree_with_hand_calculation() {
        // up to 1 in 1000 ns, 1 for 1000 ns, nothing for 500, half for 1000
        let phases = [phase(1000, 0.0, 1.0), phase(1000, 1.0, 1.0), phase(500, 0.0, 0.0), phase(1000, 0.5, 0.5)];
        let timeline = LoadTimeline::new(&phases, &[1.0]).unwrap();
        // nothing to wait for, at the foot of the rise and before what has no level
        assert_eq!((timeline.time_after_area(0, 0.0), timeline.time_after_area(2000, 0.0)), (Some(0), Some(2500)));
        // half of 1000 ns squared is 500 ns at level 1; 125 of it are done at 500
        assert_eq!(timeline.time_after_area(0, 125.0), Some(500));
        assert_eq!(timeline.time_after_area(500, 375.0), Some(1000));
        assert_eq!(timeline.time_after_area(0, 1500.0), Some(2500));
        assert_eq!(timeline.time_after_area(1900, 200.0), Some(2700));
        assert_eq!(timeline.time_after_area(1900, 601.0), None);
        assert_eq!((timeline.first_time_above(0.0, 0), timeline.first_time_above(0.25, 0)), (Some(1), Some(251)));
        assert_eq!((timeline.first_time_above(0.25, 2100), timeline.first_time_above(0.6, 2100)), (Some(2500), None));
        assert!(!timeline.is_over(3499) && timeline.is_over(3500));
        let always = LoadTimeline::new(&[], &[1.0]).unwrap();
        assert_eq!(
            (always.time_after_area(7, 3.0), always.first_time_above(0.9, 7), always.is_over(Ns::MAX - 1)),
            (Some(10), Some(7), false)
        );
        let steady = LoadTimeline::new(&[phase(10, 0.0, 0.0), phase(Ns::MAX, 2.0, 2.0)], &[1.0]).unwrap();
        assert_eq!((steady.time_after_area(0, 100.0), steady.first_time_above(1.5, 3)), (Some(60), Some(10)));
    }

    #[test]
    fn a_falling_level_never_yields_more_than_its_area() {
        let timeline = LoadTimeline::new(&[phase(1000, 1.0, 0.0)], &[1.0]).unwrap();
        // t - t²/2000 = 375 at 500
        assert_eq!(timeline.time_after_area(0, 375.0), Some(500));
        assert_eq!(timeline.time_after_area(0, 500.1), None);
        assert_eq!((timeline.first_time_above(0.5, 0), timeline.first_time_above(0.5, 600)), (Some(0), None));
    }

    #[test]
    fn classes_are_drawn_by_the_weights_of_their_phase() {
        let second = LoadPhase { weights: vec![0.0, 1.0], ..phase(10, 1.0, 1.0) };
        let timeline = LoadTimeline::new(&[phase(10, 1.0, 1.0), second], &[1.0, 0.0]).unwrap();
        let mut rng = Rng::new(1, 1);
        assert!((0..100).all(|_| timeline.draw_class(5, &mut rng) == 0 && timeline.draw_class(15, &mut rng) == 1));
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
