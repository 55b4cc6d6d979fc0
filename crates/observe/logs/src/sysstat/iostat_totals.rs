//! Length of a report of plain iostat: it prints what was moved beside the rate, so that their ratio is the time that
//! it covers.

use std::time::Duration;

/// Names of totals, and of the rates beside them.
const TOTALS: [(&str, &str); 9] = [
    ("kB_read", "kB_read/s"),
    ("kB_wrtn", "kB_wrtn/s"),
    ("kB_dscd", "kB_dscd/s"),
    ("MB_read", "MB_read/s"),
    ("MB_wrtn", "MB_wrtn/s"),
    ("MB_dscd", "MB_dscd/s"),
    ("Blk_read", "Blk_read/s"),
    ("Blk_wrtn", "Blk_wrtn/s"),
    ("Blk_dscd", "Blk_dscd/s"),
];
/// Smallest rate that gives the length exactly enough: rates have two decimals.
const MIN_RATE: f64 = 1.0;
/// Longest report that is no average since boot, seconds.
const MAX_INTERVAL_S: f64 = 3600.0;
/// Largest ratio of the lengths of two reports of one interval.
const MAX_LENGTH_RATIO: f64 = 1.5;

/// Seconds that a report covers by its totals, from the row with the largest rate.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportLength {
    rate: f64,
    seconds: Option<f64>,
}

impl ReportLength {
    /// Learns the values of a row with their headings.
    pub fn learn_row(&mut self, values: &[(&str, f64)]) {
        let value = |wanted: &str| values.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
        for (total_name, rate_name) in TOTALS {
            let (Some(total), Some(rate)) = (value(total_name), value(rate_name)) else { continue };
            if rate >= MIN_RATE.max(self.rate) && total > 0.0 {
                (self.rate, self.seconds) = (rate, Some(total / rate));
            }
        }
    }

    /// Returns true if the report covers an interval, and not the time since boot.
    pub fn is_short(&self) -> bool {
        self.seconds.is_some_and(|seconds| seconds <= MAX_INTERVAL_S)
    }

    /// Returns the interval; whole seconds are meant if it is close to them.
    pub fn interval(&self) -> Option<Duration> {
        let seconds = self.seconds.filter(|seconds| (0.05..=MAX_INTERVAL_S).contains(seconds))?;
        let whole = seconds.round();
        let is_whole = whole >= 1.0 && (seconds - whole).abs() <= 0.05 * whole;
        Some(Duration::from_secs_f64(if is_whole { whole } else { seconds }))
    }

    /// Returns true if both reports cover about the same time; `None` if a length is not known.
    pub fn is_like(&self, next: &ReportLength) -> Option<bool> {
        let (first, next) = (self.seconds?, next.seconds?);
        Some(first.max(next) <= MAX_LENGTH_RATIO * first.min(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report_length(rows: &[[f64; 4]]) -> ReportLength {
        let mut length = ReportLength::default();
        for [read_rate, written_rate, read, written] in rows {
            let names = ["kB_read/s", "kB_wrtn/s", "kB_read", "kB_wrtn"];
            let values: Vec<(&str, f64)> =
                names.into_iter().zip([*read_rate, *written_rate, *read, *written]).collect();
            length.learn_row(&values);
        }
        length
    }

    #[test]
    fn totals_beside_rates_give_the_interval() {
        let two = report_length(&[[0.1, 88.2, 0.0, 176.0], [310.5, 4.0, 621.0, 8.0]]);
        assert_eq!((two.interval(), two.is_short()), (Some(Duration::from_secs(2)), true));
        let since_boot = report_length(&[[11.5, 52.0, 1_150_000.0, 5_200_000.0]]);
        assert_eq!((since_boot.interval(), since_boot.is_short()), (None, false));
        assert_eq!((since_boot.is_like(&two), two.is_like(&two)), (Some(false), Some(true)));
        let idle = report_length(&[[0.0, 0.2, 0.0, 1.0]]);
        assert_eq!((idle.interval(), idle.is_like(&two)), (None, None));
    }
}
