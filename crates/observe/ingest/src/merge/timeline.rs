//! One timeline for logs with different ticks: the finest log's ticks, and ticks of the others where it has none.

/// Time that a tick covers: from, to, nanoseconds. The first tick of a log covers nothing, because the time before it
/// is unknown.
pub type TickSpan = (i64, i64);

/// The boundaries of the finest log, to which the ticks of others are aligned: tools print whole seconds, and two tools
/// never start at the same instant.
pub struct TickGrid {
    boundaries: Vec<i64>,
    /// Maximum distance by which a boundary is moved.
    max_shift_ns: i64,
}

impl TickGrid {
    /// Builds the grid of a log's ticks.
    pub fn new(spans: &[TickSpan]) -> TickGrid {
        let mut boundaries: Vec<i64> = spans.iter().flat_map(|(from, to)| [*from, *to]).collect();
        boundaries.sort_unstable();
        boundaries.dedup();
        TickGrid { boundaries, max_shift_ns: median_length(spans) / 2 }
    }

    fn snap_to_boundary(&self, moment: i64) -> i64 {
        let after = self.boundaries.partition_point(|b| *b < moment);
        let neighbors = self.boundaries[after.saturating_sub(1)..].iter().take(2);
        let nearest = neighbors.copied().min_by_key(|b| b.abs_diff(moment));
        nearest.filter(|b| b.abs_diff(moment) <= self.max_shift_ns.unsigned_abs()).unwrap_or(moment)
    }

    /// Aligns a tick of another log to this grid.
    pub fn align_span(&self, (from, to): TickSpan) -> TickSpan {
        let aligned = (self.snap_to_boundary(from), self.snap_to_boundary(to));
        debug_assert!(from > to || aligned.0 <= aligned.1, "the ends of a tick changed places: {aligned:?}");
        // a tick shorter than the grid's is left unchanged
        if aligned.0 == aligned.1 && from < to { (from, to) } else { aligned }
    }
}

/// Usual length of a tick: the median; 0 if none is known.
pub fn median_length(spans: &[TickSpan]) -> i64 {
    let mut lengths: Vec<i64> = spans.iter().map(|(from, to)| to - from).filter(|length| *length > 0).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).copied().unwrap_or(0)
}

/// Adds the parts of other ticks that the timeline does not cover. Both lists are in order of time.
pub fn add_uncovered(timeline: &mut Vec<TickSpan>, others: &[TickSpan]) {
    let mut added = Vec::new();
    // spans before this index end before the current tick begins
    let mut first_index = 0;
    for &(from, to) in others {
        while timeline.get(first_index).is_some_and(|(_, end)| *end < from) {
            first_index += 1;
        }
        let is_moment = from == to;
        let touches_tick = |begin: i64| begin < to || is_moment && begin == to;
        // everything before this time is covered, or was added
        let mut uncovered_from = from;
        let mut index = first_index;
        while let Some(&(begin, end)) = timeline.get(index).filter(|(begin, _)| touches_tick(*begin)) {
            if uncovered_from < begin {
                added.push((uncovered_from, begin));
            }
            uncovered_from = uncovered_from.max(end);
            index += 1;
        }
        let is_uncovered_moment = is_moment && index == first_index;
        if uncovered_from < to || is_uncovered_moment {
            added.push((uncovered_from, to));
        }
    }
    timeline.extend(added);
    // a tick without length stands before the tick that ends with it
    timeline.sort_unstable_by_key(|(from, to)| (*to, std::cmp::Reverse(*from)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeline_is_the_finest_log_plus_uncovered_ticks() {
        let mut line = vec![(10, 10), (10, 20), (20, 30), (50, 60)];
        add_uncovered(&mut line, &[(0, 0), (0, 15), (15, 70), (70, 75)]);
        assert_eq!(line, [(0, 0), (10, 10), (0, 10), (10, 20), (20, 30), (30, 50), (50, 60), (60, 70), (70, 75)]);
        let mut line = vec![(10, 20), (20, 30)];
        add_uncovered(&mut line, &[(20, 20), (20, 30)]);
        assert_eq!(line, [(10, 20), (20, 30)], "what is covered adds nothing");
        let mut line = Vec::new();
        add_uncovered(&mut line, &[(5, 5), (5, 6)]);
        assert_eq!(line, [(5, 5), (5, 6)]);
    }

    #[test]
    fn ticks_move_to_the_grid_by_half_a_tick_at_most() {
        let grid = TickGrid::new(&[(0, 0), (0, 10), (10, 20), (20, 30)]);
        let placed: Vec<TickSpan> =
            [(1, 11), (6, 16), (9, 29), (27, 37), (-8, 2), (12, 14)].map(|s| grid.align_span(s)).into();
        assert_eq!(placed, [(0, 10), (10, 20), (10, 30), (30, 37), (-8, 0), (12, 14)]);
        assert_eq!(TickGrid::new(&[]).align_span((3, 4)), (3, 4));
    }
}
