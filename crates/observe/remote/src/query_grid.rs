//! Times of a query's ticks.

/// The ticks of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryGrid {
    /// Time of the first tick, milliseconds since 1970; each tick covers the
    /// step before its time.
    pub first_ms: i64,
    /// Time between two ticks, milliseconds.
    pub step_ms: i64,
    /// Number of ticks.
    pub count: usize,
    /// Time from the end of a tick to the time for which the store is queried, milliseconds; an equal `offset` in the
    /// query undoes it. Some stores answer only at multiples of the step, but ticks may end at other times.
    pub shift_ms: i64,
}

impl QueryGrid {
    /// Creates the ticks of `step_ms` that lie wholly in a window, at multiples of the step, so that stores can cache
    /// answers.
    pub fn within_window(from_ms: i64, to_ms: i64, step_ms: i64) -> QueryGrid {
        QueryGrid::within_window_at_phase(from_ms, to_ms, step_ms, 0)
    }

    /// Creates the ticks of `step_ms` that lie wholly in a window, of which one would end at `tick_end_ms`. No query
    /// goes beyond the end of the window.
    pub fn within_window_at_phase(from_ms: i64, to_ms: i64, step_ms: i64, tick_end_ms: i64) -> QueryGrid {
        let step_ms = step_ms.max(1);
        let phase_ms = tick_end_ms.rem_euclid(step_ms);
        let shift_ms = (step_ms - phase_ms) % step_ms;
        let from_ms = from_ms.saturating_sub(phase_ms);
        let start = from_ms.div_euclid(step_ms) + i64::from(from_ms.rem_euclid(step_ms) != 0);
        let end = to_ms.saturating_sub(phase_ms + shift_ms).div_euclid(step_ms);
        let first_ms = (start + 1) * step_ms + phase_ms;
        QueryGrid { first_ms, step_ms, count: usize::try_from(end - start).unwrap_or(0), shift_ms }
    }

    /// Time of a tick's end, milliseconds since 1970.
    pub fn at_ms(&self, tick: usize) -> i64 {
        self.first_ms + tick as i64 * self.step_ms
    }

    /// Time of the last tick's end, milliseconds since 1970.
    pub fn last_ms(&self) -> i64 {
        self.at_ms(self.count.saturating_sub(1))
    }

    /// Splits the grid into parts of at most `max_ticks` ticks, in order.
    pub fn split_parts(self, max_ticks: usize) -> impl Iterator<Item = QueryGrid> {
        let max_ticks = max_ticks.max(1);
        (0..self.count.div_ceil(max_ticks)).map(move |part| {
            let first = part * max_ticks;
            QueryGrid { first_ms: self.at_ms(first), count: max_ticks.min(self.count - first), ..self }
        })
    }

    /// Finds the tick for a time in an answer, seconds since 1970; `None` if no tick is near.
    pub(crate) fn tick_at_time(&self, seconds: f64) -> Option<usize> {
        let tick = (seconds * 1e3 - (self.first_ms + self.shift_ms) as f64) / self.step_ms as f64;
        let nearest = tick.round();
        let is_match = (tick - nearest).abs() < 0.01 && nearest >= 0.0 && nearest < self.count as f64;
        is_match.then_some(nearest as usize)
    }
}
