//! Reliability of a log's times, by which several logs are placed on one time line.

/// Seconds of a day.
pub const DAY_S: i64 = 86_400;
/// End of the last year, seconds since 1970.
pub const MAX_TIME_S: i64 = 7_258_118_400;

/// Remark on a log whose times are times of day.
pub(crate) const NO_DATE_NOTE: &str =
    "the times have no date: they are counted from 1970; durations are right, days are not";

/// Source of a log's times, the most certain first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeBasis {
    /// The log or the user says how far its times are from UTC.
    #[default]
    Utc,
    /// Times without a zone, taken as UTC.
    NoZone,
    /// Times of day without a date, counted from 1970.
    NoDate,
    /// No times: the interval was counted from some beginning.
    Counted,
    /// No times and no interval: reports, counted.
    Reports,
}

impl TimeBasis {
    /// End of 1970. A log that ends before it has no date: these counters did not exist then.
    const FIRST_YEAR_NS: i64 = 365 * 86_400 * 1_000_000_000;

    /// Returns the basis corrected by the time of a log's last tick.
    #[must_use]
    pub fn with_end(self, end_ns: i64) -> TimeBasis {
        if end_ns < TimeBasis::FIRST_YEAR_NS { self.max(TimeBasis::NoDate) } else { self }
    }
}
