//! Rows that share a time because it lost its seconds, as where a spreadsheet saved a table again: they are spread
//! evenly up to the next time.

/// Says that rows were spread.
pub(crate) const SPREAD_NOTE: &str = "rows share times, which lost their seconds: they were spread evenly";

/// Spreads rows of one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SharedStamps {
    /// Time between two rows, nanoseconds; 0 if each has its own.
    step_ns: i64,
    /// Number of rows that the first time lacks, because the log began in between.
    missing_at_start: i64,
    rows_of_stamp: i64,
    last_ns: i64,
    /// Number of rows of this time so far.
    index: i64,
    is_past_first: bool,
}

impl SharedStamps {
    /// Detects how many rows share a time from the times of a log's first rows.
    pub(crate) fn detect(times: impl Iterator<Item = i64>) -> SharedStamps {
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for time_ns in times {
            match runs.last_mut() {
                Some((last_ns, count)) if *last_ns == time_ns => *count += 1,
                _ => runs.push((time_ns, 1)),
            }
        }
        // the first and the last may be cut
        let whole = runs.get(1..runs.len().saturating_sub(1)).unwrap_or_default();
        let most = whole.iter().map(|(_, count)| *count).max().unwrap_or(0);
        let alike = whole.iter().filter(|(_, count)| *count * 10 >= most * 7).count();
        let unit = runs.windows(2).map(|two| two[1].0 - two[0].0).filter(|step| *step > 0).min().unwrap_or(0);
        // a single row that was written twice is no rule
        if most < 2 || alike * 10 < whole.len() * 6 || unit / most == 0 {
            return SharedStamps::default();
        }
        let missing_at_start = runs.first().map_or(0, |(_, count)| (most - count).max(0));
        SharedStamps { step_ns: unit / most, missing_at_start, rows_of_stamp: most, ..SharedStamps::default() }
    }

    /// True if rows share times.
    pub(crate) fn is_shared(&self) -> bool {
        self.step_ns > 0
    }

    /// Returns the time of a row, of those that share one.
    #[inline]
    pub(crate) fn spread(&mut self, time_ns: i64) -> i64 {
        if self.step_ns == 0 {
            return time_ns;
        }
        if time_ns != self.last_ns || self.index == 0 {
            self.is_past_first = self.index > 0;
            (self.last_ns, self.index) = (time_ns, 0);
        }
        let before = if self.is_past_first { 0 } else { self.missing_at_start };
        // more rows than fit keep the last place, and are reported as rows of one time
        let place = (before + self.index).min(self.rows_of_stamp - 1);
        self.index += 1;
        time_ns.saturating_add(place * self.step_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(times: &[i64]) -> Vec<i64> {
        let seconds = |time: &i64| time * 1_000_000_000;
        let mut stamps = SharedStamps::detect(times.iter().map(seconds));
        times.iter().map(|time| stamps.spread(seconds(time)) / 1_000_000_000).collect()
    }

    #[test]
    fn rows_of_one_minute_are_spread() {
        assert_eq!(spread(&[0, 0, 60, 60, 120, 120]), [0, 30, 60, 90, 120, 150]);
        // the log begins and ends within a minute
        assert_eq!(spread(&[0, 60, 60, 60, 60, 120, 120]), [45, 60, 75, 90, 105, 120, 135]);
    }

    #[test]
    fn a_row_that_was_written_twice_keeps_its_time() {
        for times in [&[0, 15, 30, 30, 45, 60][..], &[0, 0], &[0, 1, 2, 3], &[5], &[]] {
            assert_eq!(spread(times), times, "{times:?}");
        }
    }
}
