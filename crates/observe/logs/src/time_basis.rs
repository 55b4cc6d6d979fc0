//! How far the times of a log can be relied on. Several logs are placed on one time line by them.

/// Where the times of a log come from, the surest first.
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
}

impl TimeBasis {
    /// A log that ends in the first year of the count has no date: nobody recorded these counters in 1970.
    const FIRST_YEAR_NS: i64 = 365 * 86_400 * 1_000_000_000;

    /// What a log's last tick adds to what its times say.
    #[must_use]
    pub fn with_end(self, end_ns: i64) -> TimeBasis {
        if end_ns < TimeBasis::FIRST_YEAR_NS { self.max(TimeBasis::NoDate) } else { self }
    }
}
