//! The first report of a tool may be the average since boot, or one like the others. A reader holds it until the next
//! shows which it is; a report that stays alone is kept, with a remark.

use std::time::Duration;

use diskwright_base::{Note, Series};

use crate::batch::FrameBatch;

/// Length that is assumed for reports whose interval is not known.
pub(crate) const REPORT_STEP: Duration = Duration::from_secs(1);
/// [`REPORT_STEP`] in nanoseconds.
pub(crate) const REPORT_STEP_NS: i64 = REPORT_STEP.as_nanos() as i64;
/// Text of the note about reports that have neither times nor an interval.
pub(crate) const REPORTS_NOTE: &str = "the reports have no times, and their interval is not known: they are counted, \
                                       one second each, from 1970; rates and shares are right, durations are not \
                                       (--interval sets the interval)";
/// Text of the remark on a single report.
pub(crate) const SINGLE_REPORT_NOTE: &str = "a single report: it may be the average since boot, which hides what \
                                             happens now; give the tool an interval and a count of 10";

/// Smallest share of comparable values that must agree with the next report.
const MIN_AGREEING_SHARE: f64 = 0.75;
/// Smallest number of values that are compared; fewer show nothing.
const MIN_COMPARED: usize = 3;
/// Largest difference of two shares of a processor's time that agree.
const MAX_SHARE_DIFFERENCE: f64 = 0.15;
/// Largest ratio of two rates that agree.
const MAX_RATE_RATIO: f64 = 2.0;

/// The first report of a start, held until the next shows whether it is since boot.
pub(crate) struct HeldReport {
    /// Values of its row.
    pub values: Vec<f64>,
    /// Its own time, or the one above it.
    pub printed_ns: Option<i64>,
    /// Its place, for messages.
    pub context: String,
}

/// Returns true if a first report is like the next one, so that it makes no difference whether it is since boot.
/// `first` may be shorter: series that came later are gaps.
pub(crate) fn is_like_next(series: &[Series], first: &[f64], next: &[f64]) -> bool {
    let (mut compared, mut agreeing) = (0_usize, 0_usize);
    for ((series, first), next) in series.iter().zip(first).zip(next) {
        let (first, next) = (first * series.scale, next * series.scale);
        if first.is_nan() || next.is_nan() || first.max(next) <= 0.0 {
            continue;
        }
        let agrees = if series.counter.starts_with("processor.") {
            (first - next).abs() <= MAX_SHARE_DIFFERENCE
        } else if series.counter.ends_with("_per_s") && !series.counter.starts_with("foreign.") {
            first.max(next) <= MAX_RATE_RATIO * first.min(next)
        } else {
            continue;
        };
        compared += 1;
        agreeing += usize::from(agrees);
    }
    compared >= MIN_COMPARED && agreeing as f64 >= MIN_AGREEING_SHARE * compared as f64
}

/// Remarks that the only report of a log may be the average since boot.
pub(crate) fn remark_single_report(batch: &mut FrameBatch<'_>, context: &str, time_ns: i64) {
    batch.add_skip(context, SINGLE_REPORT_NOTE);
    batch.push_note(Note::new(time_ns, Note::WARNING, SINGLE_REPORT_NOTE));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judge_finds_the_note_of_counted_reports() {
        assert!(REPORTS_NOTE.contains(Note::UNKNOWN_INTERVAL));
    }

    #[test]
    fn a_first_report_that_differs_in_most_rates_is_since_boot() {
        let names = ["processor.user", "processor.idle", "system.interrupts_per_s", "system.context_switches_per_s"];
        let series: Vec<Series> =
            names.iter().map(|name| Series { counter: (*name).into(), instance: String::new(), scale: 1.0 }).collect();
        let next = [0.5, 0.5, 4000.0, 9000.0];
        for (first, is_like) in [
            ([0.45, 0.55, 3000.0, 7000.0], true),
            ([0.02, 0.98, 30.0, 40.0], false),
            // one value may differ
            ([0.5, 0.5, 4000.0, 100.0], true),
            ([0.5, 0.5, 40.0, 100.0], false),
            // too little to compare
            ([0.5, 0.5, f64::NAN, f64::NAN], false),
        ] {
            assert_eq!(is_like_next(&series, &first, &next), is_like, "{first:?}");
        }
    }
}
