//! Sorts items that are nearly in order of time, with bounded memory.
//!
//! Streams of several processors come in parts, each of which is in order; requests that were logged at their
//! completion are slightly out of order. Each item is appended to one of a few sorted runs, and the earliest first item
//! of the runs is returned. If the items are already in order, there is one run and nothing to compare.

use std::collections::VecDeque;

/// Largest number of runs; if they do not suffice, items are inserted into the first run.
const MAX_RUNS: usize = 64;

/// Items waiting to be returned in order of time.
pub(crate) struct Sorter<T> {
    /// Items with their times; each run is sorted.
    runs: Vec<VecDeque<(i64, T)>>,
    /// Index of the run to which the last item was appended.
    last_run: usize,
    item_count: usize,
    /// Number of items from which the sorter is full.
    window: usize,
}

impl<T> Sorter<T> {
    /// Creates a sorter that buffers `window` items.
    pub(crate) fn new(window: usize) -> Sorter<T> {
        Sorter { runs: Vec::new(), last_run: 0, item_count: 0, window }
    }

    /// Returns true if an item should be removed before the next one is added.
    pub(crate) fn is_full(&self) -> bool {
        self.item_count >= self.window
    }

    /// Adds an item.
    pub(crate) fn push(&mut self, time_ns: i64, item: T) {
        self.item_count += 1;
        let can_append = |run: &VecDeque<(i64, T)>| run.back().is_none_or(|(t, _)| *t <= time_ns);
        if self.runs.get(self.last_run).is_some_and(can_append) {
            self.runs[self.last_run].push_back((time_ns, item));
            return;
        }
        // choosing the run with the latest end before this time keeps the number of runs smallest
        let end_ns = |run: &VecDeque<(i64, T)>| run.back().map_or(i64::MIN, |(t, _)| *t);
        let best = (0..self.runs.len()).filter(|&r| can_append(&self.runs[r])).max_by_key(|&r| end_ns(&self.runs[r]));
        self.last_run = match best {
            Some(run) => run,
            None if self.runs.len() < MAX_RUNS => {
                self.runs.push(VecDeque::new());
                self.runs.len() - 1
            }
            None => {
                let run = &mut self.runs[0];
                let index = run.partition_point(|(t, _)| *t <= time_ns);
                run.insert(index, (time_ns, item));
                return;
            }
        };
        self.runs[self.last_run].push_back((time_ns, item));
    }

    /// Time of the earliest item.
    pub(crate) fn first_time_ns(&self) -> Option<i64> {
        self.runs.iter().filter_map(|run| run.front()).map(|(t, _)| *t).min()
    }

    /// Removes the earliest item; items of one run with equal times keep their order.
    pub(crate) fn pop(&mut self) -> Option<(i64, T)> {
        let run = match self.runs.len() {
            0 => return None,
            1 => 0,
            _ => (0..self.runs.len()).min_by_key(|&r| self.runs[r].front().map_or(i64::MAX, |(t, _)| *t))?,
        };
        let item = self.runs[run].pop_front();
        if self.runs[run].is_empty() && self.runs.len() > 1 {
            self.runs.remove(run);
            self.last_run = 0;
        }
        self.item_count -= usize::from(item.is_some());
        debug_assert_eq!(self.item_count, self.runs.iter().map(VecDeque::len).sum::<usize>(), "each item is counted");
        debug_assert!(
            self.runs.len() == 1 || self.runs.iter().all(|run| !run.is_empty()),
            "only a single run may be empty"
        );
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sort_times(window: usize, times: &[i64]) -> Vec<i64> {
        let (mut sorter, mut out) = (Sorter::new(window), Vec::new());
        for &time in times {
            while sorter.is_full() {
                out.push(sorter.pop().expect("full").0);
            }
            sorter.push(time, ());
            assert!(sorter.first_time_ns().is_some());
        }
        while let Some((time, ())) = sorter.pop() {
            out.push(time);
        }
        out
    }

    #[test]
    fn interleaved_runs_of_two_processors_are_sorted() {
        let stretch = |from: i64| (from..from + 100).step_by(2);
        let times: Vec<i64> = [0, 1, 100, 101, 200, 201].into_iter().flat_map(stretch).collect();
        assert_eq!(sort_times(150, &times), (0..300).collect::<Vec<_>>());
    }

    #[test]
    fn anything_within_the_window_is_sorted() {
        // a fixed shuffle, and a descent that makes more runs than there may be
        let shuffled: Vec<i64> = (0..500).map(|i| i * 7919 % 500).collect();
        let falling: Vec<i64> = (0..500).rev().collect();
        for times in [shuffled, falling] {
            assert_eq!(sort_times(500, &times), (0..500).collect::<Vec<_>>());
        }
    }

    #[test]
    fn nothing_is_lost_beyond_the_window() {
        let falling: Vec<i64> = (0..500).rev().collect();
        let mut out = sort_times(10, &falling);
        assert_ne!(out, (0..500).collect::<Vec<_>>());
        out.sort_unstable();
        assert_eq!(out, (0..500).collect::<Vec<_>>());
    }

    #[test]
    fn equal_times_keep_their_order() {
        let mut sorter = Sorter::new(9);
        for name in ["a", "b", "c"] {
            sorter.push(5, name);
        }
        let names: Vec<&str> = std::iter::from_fn(|| sorter.pop()).map(|(_, name)| name).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }
}
