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

/// Returns true if a first report covers an interval as the next one does: it is like it, or both counted whole
/// requests in some interval, as an average since boot does not.
pub(crate) fn is_of_interval(series: &[Series], first: &[f64], next: &[f64]) -> bool {
    is_like_next(series, first, next)
        || WHOLE_INTERVALS_S.iter().any(|seconds| {
            let are_whole = |values: &[f64]| count_whole_rates(series, values, *seconds);
            are_whole(first).is_some_and(|count| count >= MIN_WHOLE_RATES)
                && are_whole(next).is_some_and(|count| count >= 1)
        })
}

/// Intervals for which whole counts show in rates with two decimals, seconds.
const WHOLE_INTERVALS_S: [f64; 5] = [1.0, 2.0, 4.0, 5.0, 10.0];
/// Fewest rates above zero that must be whole counts by an interval.
const MIN_WHOLE_RATES: usize = 3;
/// Largest distance from a whole count, of rates with two decimals.
const MAX_RATE_ROUNDING: f64 = 0.001;

/// Number of rates of requests above zero, if in so many seconds all of them are whole counts.
fn count_whole_rates(series: &[Series], values: &[f64], seconds: f64) -> Option<usize> {
    let is_count = |series: &&Series| {
        matches!(series.counter.as_str(), "physical_disk.reads_per_s" | "physical_disk.writes_per_s")
    };
    let mut count = 0;
    for (series, value) in series.iter().zip(values).filter(|(series, value)| is_count(series) && **value > 0.0) {
        let requests = value * series.scale * seconds;
        if (requests - requests.round()).abs() > MAX_RATE_ROUNDING * seconds {
            return None;
        }
        count += 1;
    }
    Some(count)
}

/// Remarks that the only report of a log may be the average since boot.
pub(crate) fn remark_single_report(batch: &mut FrameBatch<'_>, context: &str, time_ns: i64) {
    batch.note_since_boot();
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
    fn a_first_report_of_whole_counts_covers_an_interval() {
        let names = ["sdq", "sdr"].map(|disk| ["reads_per_s", "writes_per_s"].map(|counter| (disk, counter)));
        let series: Vec<Series> = names
            .concat()
            .into_iter()
            .map(|(disk, counter)| Series {
                counter: format!("physical_disk.{counter}"),
                instance: disk.into(),
                scale: 1.0,
            })
            .collect();
        let next = [3.0, 1.5, 0.0, 2.5];
        for (first, is_kept) in [
            ([400.5, 70.0, 12.5, 0.0], true),
            ([400.37, 70.0, 12.5, 0.0], false),
            // too few to tell
            ([400.5, 0.0, 12.5, 0.0], false),
        ] {
            assert_eq!(is_of_interval(&series, &first, &next), is_kept, "{first:?}");
        }
        assert!(!is_of_interval(&series, &[400.5, 70.0, 12.5, 0.0], &[3.01, 1.5, 0.0, 2.5]));
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
