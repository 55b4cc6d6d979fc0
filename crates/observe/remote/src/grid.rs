//! The moments that a store is asked for.

/// The ticks that were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryGrid {
    /// Moment of the first tick, milliseconds since 1970; each tick covers the
    /// step before its moment.
    pub first_ms: i64,
    /// Time between two ticks, milliseconds.
    pub step_ms: i64,
    /// Ticks.
    pub count: usize,
    /// By so much later a store is asked, milliseconds, with data of so long before: some stores
    /// answer at multiples of the step alone, and ticks may end elsewhere.
    pub shift_ms: i64,
}

impl QueryGrid {
    /// Ticks of `step_ms` that lie wholly in a window; on multiples of the
    /// step, so that stores can cache.
    pub fn within(from_ms: i64, to_ms: i64, step_ms: i64) -> QueryGrid {
        QueryGrid::through(from_ms, to_ms, step_ms, 0)
    }

    /// The same, in steps from any moment at which a tick ends. The store is asked for
    /// nothing behind the window.
    pub fn through(from_ms: i64, to_ms: i64, step_ms: i64, moment_ms: i64) -> QueryGrid {
        let step_ms = step_ms.max(1);
        let phase_ms = moment_ms.rem_euclid(step_ms);
        let shift_ms = (step_ms - phase_ms) % step_ms;
        let from_ms = from_ms.saturating_sub(phase_ms);
        let start = from_ms.div_euclid(step_ms) + i64::from(from_ms.rem_euclid(step_ms) != 0);
        let end = to_ms.saturating_sub(phase_ms + shift_ms).div_euclid(step_ms);
        let first_ms = (start + 1) * step_ms + phase_ms;
        QueryGrid { first_ms, step_ms, count: usize::try_from(end - start).unwrap_or(0), shift_ms }
    }

    /// One moment; stores may round it to a second.
    pub fn moment(at_ms: i64) -> QueryGrid {
        QueryGrid { first_ms: at_ms, step_ms: 3_600_000, count: 1, shift_ms: 0 }
    }

    /// Moment of a tick, milliseconds since 1970.
    pub fn at_ms(&self, tick: usize) -> i64 {
        self.first_ms + tick as i64 * self.step_ms
    }

    /// Moment of the last tick.
    pub fn last_ms(&self) -> i64 {
        self.at_ms(self.count.saturating_sub(1))
    }

    /// Parts of at most `most` ticks, in order.
    pub fn parts(self, most: usize) -> impl Iterator<Item = QueryGrid> {
        let most = most.max(1);
        (0..self.count.div_ceil(most)).map(move |part| {
            let from = part * most;
            QueryGrid { first_ms: self.at_ms(from), count: most.min(self.count - from), ..self }
        })
    }

    /// The tick of an answer's moment.
    pub(crate) fn tick(&self, seconds: f64) -> Option<usize> {
        let tick = (seconds * 1e3 - (self.first_ms + self.shift_ms) as f64) / self.step_ms as f64;
        let near = tick.round();
        let fits = (tick - near).abs() < 0.01 && near >= 0.0 && near < self.count as f64;
        fits.then_some(near as usize)
    }
}
