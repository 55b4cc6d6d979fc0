//! Burst credits that ran out while a device was measured: the rate drops during a run and stays at the lower value.
//! The bucket is full at first, fills at the lower rate and is drained at the rate of use. So its size is the amount
//! that was drawn beyond the inflow until the drop.

use crate::volume::{RateLimit, VolumeSpec};

/// A run over time, in the order in which runs were made.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTimeline {
    /// Bytes per request.
    pub bytes: f64,
    /// Seconds before measuring, at the rate of the first interval.
    pub ramp_s: f64,
    /// Length of an interval, s.
    pub step_s: f64,
    /// Requests per second in each interval.
    pub per_s: Vec<f64>,
}

/// Credits that ran out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredCredits {
    /// True for credits of bytes, false for credits of operations.
    pub of_bytes: bool,
    /// Rate with credits, per second.
    pub burst: f64,
    /// Rate without credits, per second.
    pub baseline: f64,
    /// Credits of a full bucket.
    pub credits: f64,
    /// Number of the run in which they ran out.
    pub run: usize,
}

/// Requests of at least this size are assumed to be limited by bytes, smaller ones by operations. Providers count
/// requests of up to 16 KiB and more as one operation.
const MIN_BYTE_LIMITED_BYTES: f64 = 65_536.0;
/// Smallest number of intervals on each side of a drop.
const MIN_INTERVALS: usize = 8;
/// Smallest ratio of the rates before and after a drop. Assumed: noise and warm caches cause less.
const MIN_DROP_RATIO: f64 = 1.4;
/// Largest relative deviation of the intervals on each side.
const MAX_SCATTER: f64 = 0.15;
/// An interval above the baseline by this factor is more than noise.
const ABOVE_BASELINE_RATIO: f64 = 1.2;
/// If a device delivers more than this share of the credits again after the drop, there was no bucket: the device was
/// only slow for a while.
const MAX_REPEATED_SHARE: f64 = 0.25;

impl MeasuredCredits {
    /// Sets the limit of a volume whose rate was fitted while credits were left.
    pub(super) fn apply_limit(&self, volume: &mut VolumeSpec) {
        let limit = if self.of_bytes { &mut volume.bytes } else { &mut volume.operations };
        let fitted = if limit.burst.is_finite() { limit.burst } else { self.burst };
        *limit = RateLimit { baseline: self.baseline.min(fitted), burst: fitted, credits: self.credits };
        // operations and bytes of writes draw from the same buckets
        volume.writes = None;
    }

    /// Describes the credits in a sentence.
    pub fn to_sentence(&self) -> String {
        let unit = if self.of_bytes { "bytes" } else { "operations" };
        format!(
            "credits ran out after {:.0} {unit} more than flowed in: {:.0} a second before, {:.0} after; what was \
             measured before they were full again is not used",
            self.credits, self.burst, self.baseline
        )
    }
}

/// Finds the credits of a volume by the first drop of its rate; `None` if no run has one.
pub fn find_credits(runs: &[RunTimeline]) -> Option<MeasuredCredits> {
    let (drop_run, drop_index, after) = runs.iter().enumerate().find_map(|(number, run)| {
        let (drop_index, after) = find_drop(&run.per_s)?;
        Some((number, drop_index, after))
    })?;
    let run = &runs[drop_run];
    let of_bytes = run.bytes >= MIN_BYTE_LIMITED_BYTES;
    let unit = |run: &RunTimeline| if of_bytes { run.bytes } else { 1.0 };
    let baseline = after * unit(run);
    let burst = mean_value(&run.per_s[..drop_index]) * unit(run);
    let mut drawn: f64 = 0.0;
    for (number, run) in runs.iter().enumerate().take(drop_run + 1) {
        let steps = if number == drop_run { drop_index } else { run.per_s.len() };
        let mut draw = |per_s: f64, seconds: f64| drawn = (drawn + (per_s * unit(run) - baseline) * seconds).max(0.0);
        draw(run.per_s.first().copied().unwrap_or(0.0), run.ramp_s);
        run.per_s[..steps].iter().for_each(|per_s| draw(*per_s, run.step_s));
    }
    // later intervals without credits use the inflow, and the credits saved since the drop
    let mut left: f64 = 0.0;
    for (number, run) in runs.iter().enumerate().skip(drop_run) {
        for per_s in &run.per_s[if number == drop_run { drop_index } else { 0 }..] {
            let used = per_s * unit(run);
            let saved =
                if used > baseline * ABOVE_BASELINE_RATIO { baseline - used } else { (baseline - used).max(0.0) };
            left = (left + saved * run.step_s).min(drawn);
        }
        if left < -MAX_REPEATED_SHARE * drawn {
            return None;
        }
    }
    (drawn > 0.0).then_some(MeasuredCredits { of_bytes, burst, baseline, credits: drawn, run: drop_run })
}

/// The runs of one result, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultTimeline {
    /// Start, seconds since 1970; `None` if unknown.
    pub began_s: Option<f64>,
    /// Its runs.
    pub runs: Vec<RunTimeline>,
}

impl ResultTimeline {
    /// Seconds between the end of another result and the start of this one. If the times are unknown, or a result is
    /// given twice, the bucket is assumed to be full at the start.
    fn pause_s(&self, before: &ResultTimeline) -> f64 {
        let duration_s = |run: &RunTimeline| run.ramp_s + run.step_s * run.per_s.len() as f64;
        match (before.began_s, self.began_s) {
            (Some(first), Some(second)) if second > first => {
                (second - first - before.runs.iter().map(duration_s).sum::<f64>()).max(0.0)
            }
            _ => f64::INFINITY,
        }
    }
}

/// Credits that ran out in one of several results of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct SpentCredits {
    /// The credits that ran out first; the run number is within its result.
    pub found: Option<MeasuredCredits>,
    /// For each result, the number of its first runs that were made with credits.
    pub with_credits: Vec<usize>,
}

/// Finds the first drop in results given in any order. The bucket fills between them.
pub fn find_credits_in_results(results: &[ResultTimeline]) -> SpentCredits {
    let began = |index: &usize| results[*index].began_s.unwrap_or(0.0);
    let mut order: Vec<usize> = (0..results.len()).collect();
    order.sort_by(|a, b| began(a).total_cmp(&began(b)));
    // each run with the time rank of its result, and its number there
    let (mut runs, mut owners) = (Vec::new(), Vec::new());
    for (rank, &index) in order.iter().enumerate() {
        if rank > 0 {
            let step_s = results[index].pause_s(&results[order[rank - 1]]);
            runs.push(RunTimeline { bytes: 1.0, ramp_s: 0.0, step_s, per_s: vec![0.0] });
            owners.push((rank, 0));
        }
        runs.extend_from_slice(&results[index].runs);
        owners.extend((0..results[index].runs.len()).map(|run| (rank, run)));
    }
    let mut with_credits: Vec<usize> = results.iter().map(|result| result.runs.len()).collect();
    let Some(found) = find_credits(&runs) else { return SpentCredits { found: None, with_credits } };
    let (rank, run) = owners[found.run];
    with_credits[order[rank]] = run;
    let full_s = found.credits / found.baseline;
    for pair in order[rank..].windows(2) {
        let (before, after) = (&results[pair[0]], &results[pair[1]]);
        let until_empty = find_credits(&after.runs).map_or(after.runs.len(), |own| own.run);
        with_credits[pair[1]] = if after.pause_s(before) >= full_s { until_empty } else { 0 };
    }
    SpentCredits { found: Some(MeasuredCredits { run, ..found }), with_credits }
}

fn mean_value(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the standard deviation of values as a share of their mean.
fn relative_deviation(values: &[f64]) -> f64 {
    let middle = mean_value(values);
    let squares = values.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / values.len().max(1) as f64;
    squares.sqrt() / middle.max(1e-9)
}

/// Returns the index at which a rate drops for good, and the rate after it.
fn find_drop(per_s: &[f64]) -> Option<(usize, f64)> {
    let candidates = MIN_INTERVALS..per_s.len().saturating_sub(MIN_INTERVALS);
    let squared_error = |index: usize| {
        let side =
            |values: &[f64]| relative_deviation(values).powi(2) * mean_value(values).powi(2) * values.len() as f64;
        side(&per_s[..index]) + side(&per_s[index..])
    };
    let index = candidates.min_by(|a, b| squared_error(*a).total_cmp(&squared_error(*b)))?;
    let (before, after) = per_s.split_at(index);
    let is_drop = mean_value(before) >= MIN_DROP_RATIO * mean_value(after) && mean_value(after) > 0.0;
    (is_drop && relative_deviation(before) <= MAX_SCATTER && relative_deviation(after) <= MAX_SCATTER)
        .then(|| (index, mean_value(after)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_timeline(per_s: &[(f64, usize)], bytes: f64) -> RunTimeline {
        let per_s = per_s.iter().flat_map(|&(rate, steps)| vec![rate; steps]).collect();
        RunTimeline { bytes, ramp_s: 0.5, step_s: 0.1, per_s }
    }

    #[test]
    fn the_bucket_holds_what_was_drawn_beyond_the_inflow() {
        // 3.5 s at 100, which fills a full bucket; 3.5 s at 1,500 and 2 s at 3,000 minus the inflow of 300: 9,600
        let runs = [
            run_timeline(&[(100.0, 30)], 4096.0),
            run_timeline(&[(1500.0, 30)], 4096.0),
            run_timeline(&[(3000.0, 15), (300.0, 15)], 4096.0),
        ];
        let found = find_credits(&runs).expect("a fall");
        assert_eq!((found.run, found.of_bytes, found.burst, found.baseline), (2, false, 3000.0, 300.0));
        assert!((found.credits - 9600.0).abs() < 1.0, "{}", found.credits);
    }

    #[test]
    fn large_requests_are_limited_by_bytes() {
        let mib = 1_048_576.0;
        let found = find_credits(&[run_timeline(&[(100.0, 20), (25.0, 20)], mib)]).expect("a fall");
        assert!(found.of_bytes && found.baseline == 25.0 * mib && found.burst == 100.0 * mib);
        assert!((found.credits / (75.0 * mib * 2.5) - 1.0).abs() < 1e-9, "{}", found.credits);
    }

    #[test]
    fn a_temporary_slowdown_is_no_bucket() {
        let slow = run_timeline(&[(90_000.0, 10), (60_000.0, 10)], 4096.0);
        assert!(find_credits(std::slice::from_ref(&slow)).is_some());
        assert_eq!(find_credits(&[slow.clone(), run_timeline(&[(110_000.0, 20)], 4096.0)]), None);
        // credits saved during low use may be spent
        let later = [run_timeline(&[(1000.0, 100)], 4096.0), run_timeline(&[(90_000.0, 5), (60_000.0, 10)], 4096.0)];
        assert!(find_credits(&[&[slow], &later[..]].concat()).is_some());
    }

    #[test]
    fn credits_are_found_in_results_in_any_order() {
        let result =
            |began_s: f64, runs: &[RunTimeline]| ResultTimeline { began_s: Some(began_s), runs: runs.to_vec() };
        let burst = run_timeline(&[(3000.0, 15)], 4096.0);
        let spent = run_timeline(&[(3000.0, 15), (300.0, 15)], 4096.0);
        let low = run_timeline(&[(300.0, 30)], 4096.0);
        // 2 s at 3,000 minus the inflow of 300: 5,400, which flow in again within 18 s
        let first = result(1000.0, std::slice::from_ref(&burst));
        let second = result(5000.0, &[spent, low.clone()]);
        let soon = result(5010.0, &[low]);
        let later = result(6000.0, &[burst]);
        let found = find_credits_in_results(&[later, soon, second.clone(), first.clone()]);
        assert_eq!(found.with_credits, [1, 0, 0, 1]);
        let credits = found.found.expect("a fall");
        assert!(credits.run == 0 && (credits.credits - 5400.0).abs() < 1.0, "{credits:?}");
        // a result given twice is not a device that recovered
        let twice = find_credits_in_results(&[second.clone(), second]);
        assert!(twice.found.is_some() && twice.with_credits == [0, 0], "{twice:?}");
        assert_eq!(find_credits_in_results(&[first]), SpentCredits { found: None, with_credits: vec![1] });
    }

    #[test]
    fn noise_dips_and_rises_are_no_bucket() {
        assert_eq!(find_credits(&[run_timeline(&[(3000.0, 10), (2500.0, 10), (3000.0, 10)], 4096.0)]), None);
        assert_eq!(find_credits(&[run_timeline(&[(3000.0, 10), (100.0, 3), (3000.0, 17)], 4096.0)]), None);
        assert_eq!(find_credits(&[run_timeline(&[(300.0, 15), (3000.0, 15)], 4096.0)]), None);
        assert_eq!(find_credits(&[run_timeline(&[(3000.0, 15), (0.0, 15)], 4096.0)]), None);
        assert_eq!(find_credits(&[run_timeline(&[(3000.0, 5)], 4096.0)]), None);
    }
}
