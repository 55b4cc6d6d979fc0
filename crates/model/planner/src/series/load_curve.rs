//! Behaviour of a device against the load on its members, in two halves: a model is fitted to one and tested on the
//! other.
//!
//! Of each load, every other run of ticks goes to the other half. Runs of the whole log would not do: if the load comes
//! and goes with twice their length, one half would have all of the high load and the other none.
//!
//! A model of response by load requires that as many requests arrive as are completed (flow balance: Denning and Buzen,
//! The Operational Analysis of Queueing Network Models, 1978). A tick in which a queue builds up or drains has the
//! response of one load and the rate of another, and is left out if the log has the number in flight at the ends of
//! ticks.

use diskwright_base::Tick;

use super::FrontSums;

/// Number of load classes: four per doubling of the load on a member.
const LOAD_CLASSES: usize = 96;
/// Consecutive ticks at a load that go to the same half: neighbours are similar and say little about each other.
const TICKS_PER_RUN: u32 = 10;
/// A queue that changes within a tick by more than this share of the completed requests, and by more than one, is out
/// of balance.
const MAX_QUEUE_CHANGE: f64 = 0.2;

/// Sums by load, in two halves.
#[derive(Clone, Debug)]
pub struct LoadCurve {
    halves: [Vec<FrontSums>; 2],
    /// Number of ticks in each class so far.
    ticks: Vec<u32>,
    /// End of the last tick, and the number in flight then.
    last: Option<(i64, f64)>,
}

impl Default for LoadCurve {
    fn default() -> LoadCurve {
        let none = vec![FrontSums::default(); LOAD_CLASSES];
        LoadCurve { halves: [none.clone(), none], ticks: vec![0; LOAD_CLASSES], last: None }
    }
}

impl LoadCurve {
    /// True if about as many requests arrived within a tick as were completed, judged by the numbers in flight at its
    /// end and at the end of the previous tick; also true if they are unknown. Ticks must come in order.
    pub fn is_in_balance(&mut self, tick: &Tick, completed: f64, in_flight: f64) -> bool {
        let is_adjacent = |end_ns: i64| (tick.start_ns() - end_ns).unsigned_abs() <= tick.elapsed_ns / 10;
        let previous = self.last.replace((tick.time_ns, in_flight)).filter(|(end_ns, _)| is_adjacent(*end_ns));
        previous.is_none_or(|(_, previous)| {
            let change = (in_flight - previous).abs();
            change.is_nan() || change <= (MAX_QUEUE_CHANGE * completed).max(1.0)
        })
    }

    /// Adds a tick at a load on each member, I/Os per second.
    pub fn add_tick(&mut self, load: f64, sums: &FrontSums) {
        let class = load_class(load);
        let half = (self.ticks[class] / TICKS_PER_RUN) % 2;
        self.ticks[class] = self.ticks[class].wrapping_add(1);
        self.halves[half as usize][class].add_sums(sums);
    }

    /// The half that models are fitted to, and the one that they are tested on; by load, the lowest first.
    pub fn halves(&self) -> [&[FrontSums]; 2] {
        [&self.halves[0], &self.halves[1]]
    }

    /// Adds the curve of the same device in another log.
    pub fn append_curve(&mut self, other: &LoadCurve) {
        for (half, other) in self.halves.iter_mut().zip(&other.halves) {
            half.iter_mut().zip(other).for_each(|(class, sums)| class.add_sums(sums));
        }
        self.ticks.iter_mut().zip(&other.ticks).for_each(|(ticks, other)| *ticks = ticks.wrapping_add(*other));
    }

    /// Merges both halves.
    pub fn merged_halves(&self) -> Vec<FrontSums> {
        let mut classes = self.halves[0].clone();
        classes.iter_mut().zip(&self.halves[1]).for_each(|(class, sums)| class.add_sums(sums));
        classes
    }
}

/// Class of a load: from 0.01 per second on, four per doubling.
fn load_class(load: f64) -> usize {
    (((load.max(0.01) / 0.01).log2() * 4.0) as usize).min(LOAD_CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tick_with_a_draining_queue_is_not_in_balance() {
        let mut curve = LoadCurve::default();
        let mut settled = |second: i64, done: f64, in_flight: f64| {
            let tick = Tick { time_ns: second * 1_000_000_000, elapsed_ns: 1_000_000_000 };
            curve.is_in_balance(&tick, done, in_flight)
        };
        // nothing is known before the first tick; then the queue builds up, stays, drains; a change of one is ignored
        assert_eq!(
            [(1, 20.0, 0.0), (2, 90.0, 30.0), (3, 90.0, 28.0), (4, 20.0, 0.0), (5, 3.0, 1.0)]
                .map(|(second, done, in_flight)| settled(second, done, in_flight)),
            [true, false, true, false, true]
        );
        // a gap, and a log that does not count them
        assert!(settled(9, 20.0, 30.0) && settled(10, 20.0, f64::NAN) && settled(11, 20.0, 0.0));
    }

    #[test]
    fn load_classes_double_every_four() {
        assert_eq!(load_class(200.0), load_class(100.0) + 4);
        assert_eq!((load_class(0.0), load_class(1e12)), (0, LOAD_CLASSES - 1));
    }

    #[test]
    fn both_halves_see_every_load_whatever_its_period() {
        for period in [20, 30, 60, 90, 120] {
            let mut curve = LoadCurve::default();
            for tick in 0..10 * period {
                let load = if tick % period < period / 3 { 90.0 } else { 12.0 };
                curve.add_tick(load, &FrontSums { seconds: 1.0, reads: load, ..FrontSums::default() });
            }
            for load in [12.0, 90.0] {
                let [fitted, tried] = curve.halves().map(|half| half[load_class(load)].seconds);
                assert!(fitted >= tried && tried > 0.3 * fitted, "{load} every {period}: {fitted} and {tried}");
            }
            let all: f64 = curve.merged_halves().iter().map(|sums| sums.seconds).sum();
            assert_eq!(all, f64::from(10 * period));
        }
    }
}
