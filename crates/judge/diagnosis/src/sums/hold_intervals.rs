//! Intervals in which a rule held, in bounded memory: where there are too many, the two closest are joined.

/// Largest number of intervals kept.
const MAX_INTERVALS: usize = 64;

/// Start and end of each interval, nanoseconds since 1970, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HoldIntervals {
    list: Vec<(i64, i64)>,
}

impl HoldIntervals {
    /// Adds a tick at which the rule held; ticks come in the order of time.
    pub fn add_tick(&mut self, (from, to): (i64, i64)) {
        match self.list.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => self.list.push((from, to)),
        }
        if self.list.len() > MAX_INTERVALS {
            let gap = |index: &usize| self.list[*index].0 - self.list[*index - 1].1;
            let index = (1..self.list.len()).min_by_key(gap).unwrap_or(1);
            self.list[index - 1].1 = self.list[index].1;
            self.list.remove(index);
        }
        assert!(self.list.len() <= MAX_INTERVALS, "{} stretches are kept", self.list.len());
    }

    /// The intervals so far.
    pub fn intervals(&self) -> &[(i64, i64)] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_side_by_side_are_one_stretch() {
        let mut stretches = HoldIntervals::default();
        for tick in [(0, 1), (1, 2), (5, 6), (6, 7)] {
            stretches.add_tick(tick);
        }
        assert_eq!(stretches.intervals(), [(0, 2), (5, 7)]);
    }

    #[test]
    fn of_too_many_the_closest_are_joined() {
        let mut stretches = HoldIntervals::default();
        for number in 0..1000_i64 {
            let from = number * number;
            stretches.add_tick((from, from + 1));
        }
        assert_eq!(stretches.intervals().len(), MAX_INTERVALS);
        assert_eq!(stretches.intervals().last(), Some(&(999 * 999, 999 * 999 + 1)));
        assert_eq!(stretches.intervals()[0].0, 0);
    }
}
