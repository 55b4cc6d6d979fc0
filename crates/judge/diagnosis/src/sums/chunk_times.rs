//! Times of the ticks of a chunk, and the pauses between them.

use std::ops::Range;

use diskwright_base::Frame;

use crate::sums::window_parts::GridCell;

/// Time without a tick from which a recording counts as interrupted; where ticks are longer, one missing tick.
const MIN_PAUSE_NS: i64 = 60_000_000_000;

/// Times of a chunk's ticks.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkTimes {
    /// Length of each tick, seconds; `NaN` where unknown.
    pub seconds: Vec<f64>,
    pub lengths_ns: Vec<u64>,
    pub starts_ns: Vec<i64>,
    pub ends_ns: Vec<i64>,
    /// True for ticks that follow a long pause of the recording: no stretch continues over a pause.
    pub pauses: Vec<bool>,
    /// Sum of the ticks' lengths.
    pub total_ns: u64,
    /// Start of the window.
    pub origin_ns: i64,
    /// Start and end of the window, where known beforehand.
    pub expected: Option<(i64, i64)>,
    /// Number of the first tick in the whole log.
    pub first_tick: usize,
    /// The part of the window that each tick belongs to.
    pub grid_cells: Vec<GridCell>,
}

impl ChunkTimes {
    /// Takes the times of a range of a frame's ticks. `first_tick` is the number of the first tick in the whole log,
    /// `origin_ns` the start of the window. The caller sets the grid cells.
    pub fn fill_from(&mut self, frame: &Frame, range: Range<usize>, origin_ns: i64, first_tick: usize) {
        let ticks = &frame.ticks()[range];
        // end of the last tick of the previous chunk
        let mut end = self.ends_ns.last().copied();
        self.pauses.clear();
        self.starts_ns.clear();
        self.ends_ns.clear();
        self.lengths_ns.clear();
        self.seconds.clear();
        for tick in ticks {
            let longest = i64::try_from(tick.elapsed_ns).unwrap_or(i64::MAX).max(MIN_PAUSE_NS);
            self.pauses.push(end.is_some_and(|end| tick.start_ns().saturating_sub(end) > longest));
            end = Some(tick.time_ns);
            self.lengths_ns.push(tick.elapsed_ns);
            self.starts_ns.push(tick.start_ns());
            self.ends_ns.push(tick.time_ns);
            let seconds = if tick.elapsed_ns == 0 { f64::NAN } else { tick.elapsed_ns as f64 * 1e-9 };
            self.seconds.push(seconds);
        }
        self.total_ns = self.lengths_ns.iter().sum();
        self.origin_ns = origin_ns;
        self.first_tick = first_tick;
    }

    /// Asserts that there is one entry for each tick. `seconds` is not checked: it is lent to the nodes while they are
    /// computed.
    pub fn check_lengths(&self) {
        let count = self.lengths_ns.len();
        let lengths = [self.starts_ns.len(), self.ends_ns.len(), self.pauses.len(), self.grid_cells.len()];
        assert_eq!(lengths, [count; 4], "one entry of each kind for each tick");
    }

    /// End of the window's first part, which is this share of it. `i64::MIN` for a window of unknown length, in which
    /// no rule compares with the first part.
    pub fn part_end_ns(&self, share: f64) -> i64 {
        let Some((from, to)) = self.expected else { return i64::MIN };
        from.saturating_add((to.saturating_sub(from) as f64 * share) as i64)
    }
}
