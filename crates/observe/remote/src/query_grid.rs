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
    /// Shift of the query's times against the ticks, milliseconds, with an equal `offset` in the query:
    /// some stores only answer at multiples of the step, while ticks may end at other times.
    pub shift_ms: i64,
}

impl QueryGrid {
    /// Creates the ticks of `step_ms` that lie wholly in a window, at multiples of the
    /// step, so that stores can cache.
    pub fn within_window(from_ms: i64, to_ms: i64, step_ms: i64) -> QueryGrid {
        QueryGrid::within_window_at_phase(from_ms, to_ms, step_ms, 0)
    }

    /// Creates the ticks of `step_ms` that lie wholly in a window, in phase with `moment_ms`, at
    /// which a tick ends. No query goes beyond the end of the window.
    pub fn within_window_at_phase(from_ms: i64, to_ms: i64, step_ms: i64, moment_ms: i64) -> QueryGrid {
        let step_ms = step_ms.max(1);
        let phase_ms = moment_ms.rem_euclid(step_ms);
        let shift_ms = (step_ms - phase_ms) % step_ms;
        let from_ms = from_ms.saturating_sub(phase_ms);
        let start = from_ms.div_euclid(step_ms) + i64::from(from_ms.rem_euclid(step_ms) != 0);
        let end = to_ms.saturating_sub(phase_ms + shift_ms).div_euclid(step_ms);
        let first_ms = (start + 1) * step_ms + phase_ms;
        QueryGrid { first_ms, step_ms, count: usize::try_from(end - start).unwrap_or(0), shift_ms }
    }

    /// Time of a tick, milliseconds since 1970.
    pub fn at_ms(&self, tick: usize) -> i64 {
        self.first_ms + tick as i64 * self.step_ms
    }

    /// Time of the last tick, milliseconds since 1970.
    pub fn last_ms(&self) -> i64 {
        self.at_ms(self.count.saturating_sub(1))
    }

    /// Splits the grid into parts of at most `max_ticks` ticks, in order.
    pub fn split_parts(self, max_ticks: usize) -> impl Iterator<Item = QueryGrid> {
        let max_ticks = max_ticks.max(1);
        (0..self.count.div_ceil(max_ticks)).map(move |part| {
            let from = part * max_ticks;
            QueryGrid { first_ms: self.at_ms(from), count: max_ticks.min(self.count - from), ..self }
        })
    }

    /// Finds the tick for a time in an answer.
    pub(crate) fn tick_at_time(&self, seconds: f64) -> Option<usize> {
        let tick = (seconds * 1e3 - (self.first_ms + self.shift_ms) as f64) / self.step_ms as f64;
        let near = tick.round();
        let fits = (tick - near).abs() < 0.01 && near >= 0.0 && near < self.count as f64;
        fits.then_some(near as usize)
    }
}
