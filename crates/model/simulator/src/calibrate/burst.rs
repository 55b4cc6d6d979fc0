//! Burst credits that ran out while a device was measured: the rate drops during a run and stays at the lower value.
//! The bucket was full at the beginning, fills at the lower rate and is drained at the rate of use, so its size is what
//! was drawn beyond the inflow until the drop.

use crate::volume::{RateLimit, VolumeSpec};

/// A run over time, in the order in which runs were made.
#[derive(Clone, Debug, PartialEq)]
pub struct RunCourse {
    /// Bytes per request.
    pub bytes: f64,
    /// Seconds before measuring, at the rate of the first stretch.
    pub ramp_s: f64,
    /// Length of a stretch, s.
    pub step_s: f64,
    /// Requests per second in each stretch.
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
const BY_BYTES: f64 = 65_536.0;
/// Smallest number of stretches on each side of a drop.
const LEAST_STRETCHES: usize = 8;
/// Smallest ratio of the rates before and after a drop. Assumed: noise and warm caches cause less.
const LEAST_FALL: f64 = 1.4;
/// Largest relative deviation of the stretches on each side.
const MOST_SCATTER: f64 = 0.15;
/// A stretch above the baseline by this factor is more than noise.
const ABOVE: f64 = 1.2;
/// An empty bucket cannot deliver this share of its credits once more: then the device was only slow for a while.
const AGAIN: f64 = 0.25;

impl MeasuredCredits {
    /// Sets the limit of a volume whose rate was fitted while credits were left.
    pub(super) fn limit(&self, volume: &mut VolumeSpec) {
        let limit = if self.of_bytes { &mut volume.bytes } else { &mut volume.operations };
        let fitted = if limit.burst.is_finite() { limit.burst } else { self.burst };
        *limit = RateLimit { baseline: self.baseline.min(fitted), burst: fitted, credits: self.credits };
        // operations and bytes of writes draw from the same buckets
        volume.writes = None;
    }

    /// Describes the credits in a sentence.
    pub fn words(&self) -> String {
        let what = if self.of_bytes { "bytes" } else { "operations" };
        format!(
            "credits ran out after {:.0} {what} more than flowed in: {:.0} a second before, {:.0} after; what was \
             measured before they were full again is not used",
            self.credits, self.burst, self.baseline
        )
    }
}

/// Finds the first drop.
pub fn find(courses: &[RunCourse]) -> Option<MeasuredCredits> {
    let (run, place, after) = courses.iter().enumerate().find_map(|(run, course)| {
        let (place, after) = fall(&course.per_s)?;
        Some((run, place, after))
    })?;
    let course = &courses[run];
    let of_bytes = course.bytes >= BY_BYTES;
    let unit = |course: &RunCourse| if of_bytes { course.bytes } else { 1.0 };
    let baseline = after * unit(course);
    let mut drawn: f64 = 0.0;
    for (number, course) in courses.iter().enumerate().take(run + 1) {
        let steps = if number == run { place } else { course.per_s.len() };
        let mut draw =
            |per_s: f64, seconds: f64| drawn = (drawn + (per_s * unit(course) - baseline) * seconds).max(0.0);
        draw(course.per_s.first().copied().unwrap_or(0.0), course.ramp_s);
        course.per_s[..steps].iter().for_each(|per_s| draw(*per_s, course.step_s));
    }
    // later stretches without credits use the inflow and what was saved since
    let mut left: f64 = 0.0;
    for (number, course) in courses.iter().enumerate().skip(run) {
        for per_s in &course.per_s[if number == run { place } else { 0 }..] {
            let used = per_s * unit(course);
            let spared = if used > baseline * ABOVE { baseline - used } else { (baseline - used).max(0.0) };
            left = (left + spared * course.step_s).min(drawn);
        }
        if left < -AGAIN * drawn {
            return None;
        }
    }
    let burst = mean(&course.per_s[..place]) * unit(course);
    (drawn > 0.0).then_some(MeasuredCredits { of_bytes, burst, baseline, credits: drawn, run })
}

/// The runs of one result, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultCourse {
    /// Start, seconds since 1970; `None` if unknown.
    pub began_s: Option<f64>,
    /// Its runs.
    pub runs: Vec<RunCourse>,
}

impl ResultCourse {
    /// Seconds between the end of another result and the start of this one. If the times are unknown, or a result is
    /// given twice, the bucket is assumed to be full at the start.
    fn pause_s(&self, before: &ResultCourse) -> f64 {
        let lasted = |run: &RunCourse| run.ramp_s + run.step_s * run.per_s.len() as f64;
        match (before.began_s, self.began_s) {
            (Some(first), Some(second)) if second > first => {
                (second - first - before.runs.iter().map(lasted).sum::<f64>()).max(0.0)
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
pub fn find_in_all(results: &[ResultCourse]) -> SpentCredits {
    let began = |index: &usize| results[*index].began_s.unwrap_or(0.0);
    let mut order: Vec<usize> = (0..results.len()).collect();
    order.sort_by(|a, b| began(a).total_cmp(&began(b)));
    // each run with the time rank of its result, and its number there
    let (mut courses, mut owners) = (Vec::new(), Vec::new());
    for (place, &index) in order.iter().enumerate() {
        if place > 0 {
            let step_s = results[index].pause_s(&results[order[place - 1]]);
            courses.push(RunCourse { bytes: 1.0, ramp_s: 0.0, step_s, per_s: vec![0.0] });
            owners.push((place, 0));
        }
        courses.extend_from_slice(&results[index].runs);
        owners.extend((0..results[index].runs.len()).map(|run| (place, run)));
    }
    let mut with_credits: Vec<usize> = results.iter().map(|result| result.runs.len()).collect();
    let Some(found) = find(&courses) else { return SpentCredits { found: None, with_credits } };
    let (place, run) = owners[found.run];
    with_credits[order[place]] = run;
    let full_s = found.credits / found.baseline;
    for pair in order[place..].windows(2) {
        let (before, after) = (&results[pair[0]], &results[pair[1]]);
        let until_empty = find(&after.runs).map_or(after.runs.len(), |own| own.run);
        with_credits[pair[1]] = if after.pause_s(before) >= full_s { until_empty } else { 0 };
    }
    SpentCredits { found: Some(MeasuredCredits { run, ..found }), with_credits }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the standard deviation of values as a share of their mean.
fn scatter(values: &[f64]) -> f64 {
    let middle = mean(values);
    let squares = values.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / values.len().max(1) as f64;
    squares.sqrt() / middle.max(1e-9)
}

/// Returns the index at which a rate drops for good, and the rate after it.
fn fall(per_s: &[f64]) -> Option<(usize, f64)> {
    let places = LEAST_STRETCHES..per_s.len().saturating_sub(LEAST_STRETCHES);
    let cost = |place: usize| {
        let side = |values: &[f64]| scatter(values).powi(2) * mean(values).powi(2) * values.len() as f64;
        side(&per_s[..place]) + side(&per_s[place..])
    };
    let place = places.min_by(|a, b| cost(*a).total_cmp(&cost(*b)))?;
    let (before, after) = per_s.split_at(place);
    let falls = mean(before) >= LEAST_FALL * mean(after) && mean(after) > 0.0;
    (falls && scatter(before) <= MOST_SCATTER && scatter(after) <= MOST_SCATTER).then(|| (place, mean(after)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(per_s: &[(f64, usize)], bytes: f64) -> RunCourse {
        let per_s = per_s.iter().flat_map(|&(rate, steps)| vec![rate; steps]).collect();
        RunCourse { bytes, ramp_s: 0.5, step_s: 0.1, per_s }
    }

    #[test]
    fn what_was_drawn_more_than_flowed_in_is_the_bucket() {
        // 3.5 s at 100, which fills a full bucket; 3.5 s at 1,500 and 2 s at 3,000 minus the inflow of 300: 9,600
        let runs = [
            course(&[(100.0, 30)], 4096.0),
            course(&[(1500.0, 30)], 4096.0),
            course(&[(3000.0, 15), (300.0, 15)], 4096.0),
        ];
        let found = find(&runs).expect("a fall");
        assert_eq!((found.run, found.of_bytes, found.burst, found.baseline), (2, false, 3000.0, 300.0));
        assert!((found.credits - 9600.0).abs() < 1.0, "{}", found.credits);
    }

    #[test]
    fn of_large_requests_it_is_bytes() {
        let mib = 1_048_576.0;
        let found = find(&[course(&[(100.0, 20), (25.0, 20)], mib)]).expect("a fall");
        assert!(found.of_bytes && found.baseline == 25.0 * mib && found.burst == 100.0 * mib);
        assert!((found.credits / (75.0 * mib * 2.5) - 1.0).abs() < 1e-9, "{}", found.credits);
    }

    #[test]
    fn a_device_that_is_fast_again_was_slow_for_a_while() {
        let slow = course(&[(90_000.0, 10), (60_000.0, 10)], 4096.0);
        assert!(find(std::slice::from_ref(&slow)).is_some());
        assert_eq!(find(&[slow.clone(), course(&[(110_000.0, 20)], 4096.0)]), None);
        // credits saved during low use may be spent
        let later = [course(&[(1000.0, 100)], 4096.0), course(&[(90_000.0, 5), (60_000.0, 10)], 4096.0)];
        assert!(find(&[&[slow], &later[..]].concat()).is_some());
    }

    #[test]
    fn credits_run_out_in_any_of_several_results_in_whatever_order_they_are_given() {
        let result = |began_s: f64, runs: &[RunCourse]| ResultCourse { began_s: Some(began_s), runs: runs.to_vec() };
        let burst = course(&[(3000.0, 15)], 4096.0);
        let spent = course(&[(3000.0, 15), (300.0, 15)], 4096.0);
        let low = course(&[(300.0, 30)], 4096.0);
        // 2 s at 3,000 minus the inflow of 300: 5,400, which flow in again within 18 s
        let first = result(1000.0, std::slice::from_ref(&burst));
        let second = result(5000.0, &[spent, low.clone()]);
        let soon = result(5010.0, &[low]);
        let later = result(6000.0, &[burst]);
        let found = find_in_all(&[later, soon, second.clone(), first.clone()]);
        assert_eq!(found.with_credits, [1, 0, 0, 1]);
        let credits = found.found.expect("a fall");
        assert!(credits.run == 0 && (credits.credits - 5400.0).abs() < 1.0, "{credits:?}");
        // a result given twice is not a device that recovered
        let twice = find_in_all(&[second.clone(), second]);
        assert!(twice.found.is_some() && twice.with_credits == [0, 0], "{twice:?}");
        assert_eq!(find_in_all(&[first]), SpentCredits { found: None, with_credits: vec![1] });
    }

    #[test]
    fn noise_dips_and_what_rises_are_no_bucket() {
        assert_eq!(find(&[course(&[(3000.0, 10), (2500.0, 10), (3000.0, 10)], 4096.0)]), None);
        assert_eq!(find(&[course(&[(3000.0, 10), (100.0, 3), (3000.0, 17)], 4096.0)]), None);
        assert_eq!(find(&[course(&[(300.0, 15), (3000.0, 15)], 4096.0)]), None);
        assert_eq!(find(&[course(&[(3000.0, 15), (0.0, 15)], 4096.0)]), None);
        assert_eq!(find(&[course(&[(3000.0, 5)], 4096.0)]), None);
    }
}
