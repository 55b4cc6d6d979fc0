//! Time that the logs of a machine measured, beside which events of its other logs are placed.

use crate::TimeBasis;

/// Measured time, nanoseconds since 1970, and what else places events in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredTime {
    /// First and last tick of each log with dates.
    pub ranges: Vec<(i64, i64)>,
    /// Basis of all these times.
    pub time_basis: TimeBasis,
    /// Set if those of `ranges` are times in UTC, and not those of a clock whose zone is not known.
    pub has_zone: bool,
    /// Begin and end of the days of logs whose reports have no times.
    pub days: Vec<(i64, i64)>,
    /// Begin and end of all, dated or not.
    pub whole: (i64, i64),
    /// Longest usual time between two ticks.
    pub step_ns: i64,
    /// Name of the machine; empty where no log gives it.
    pub host: String,
    /// When the machine started, on the same clock.
    pub boot_ns: Option<i64>,
}
