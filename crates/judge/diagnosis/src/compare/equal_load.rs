//! Response time at equal load: the effects of the request rate, the request size and the share of reads are removed,
//! over the range that both windows have in common.

use std::collections::HashMap;

use diskwright_base::units::format_value;
use diskwright_statistics::covariance_analysis::{self, AdjustedContrast, AdjustmentError, Driver, SeriesPoint};
use diskwright_statistics::{Contrast, WeightedPoint};
use serde::Serialize;

use super::answer_quantities::{
    self, AnswerQuantities, ChangeDirection, MIN_CHANGE, QuantityChange, READ_SHARE_QUOTIENT, REQUESTS_COUNTER,
    RESPONSE_COUNTER, SIZE_COUNTER,
};
use super::{ComparisonRow, CounterWindow, TestedDifference};

/// Response time of a request at equal load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EqualLoad {
    /// Compared counter: the response time.
    pub counter: String,
    /// The second window's response time over the first's, at equal load.
    pub ratio: f64,
    /// Lower end of its interval at `level`.
    pub ratio_low: f64,
    /// Upper end; `null` where it is open.
    pub ratio_high: Option<f64>,
    /// The level at which it was tested.
    pub level: f64,
    /// Probability that noise alone gives such a difference anywhere in the comparison.
    pub significance: f64,
    /// Direction of the change.
    pub change: ChangeDirection,
    /// Lowest request rate that both windows have, per second.
    pub load_low: f64,
    /// Highest request rate that both windows have, per second.
    pub load_high: f64,
    /// Share of the first window's requests that lie between these rates and were compared.
    pub share_before: f64,
    /// Share of the second window's requests that lie there.
    pub share_after: f64,
    /// Counters that were held equal.
    #[serde(rename = "held")]
    pub held_equal: Vec<String>,
}

/// The comparison before it is tested among all differences.
pub(super) struct EqualLoadResult {
    pub contrast: Contrast,
    range: (f64, f64),
    share: [f64; 2],
    held_equal: Vec<&'static str>,
}

/// Compares the response time at equal load, of a disk or of all disks. The error is the reason why that is impossible.
pub(super) fn compare_at_equal_load(
    [first, second]: [&CounterWindow; 2],
    response: &ComparisonRow,
    disk: &str,
) -> Result<EqualLoadResult, String> {
    let drivers = [REQUESTS_COUNTER, SIZE_COUNTER, READ_SHARE_QUOTIENT];
    let width = bucket_width_ns(first, response).max(bucket_width_ns(second, response));
    let tables = [first, second].map(|window| series_points(window, response, disk, width));
    // a driver that one of the windows lacks cannot be held equal
    let is_in_both = |index: usize| tables.iter().all(|t| t.iter().any(|row| row.drivers[index].is_finite()));
    let held: Vec<usize> = (0..drivers.len()).filter(|&index| is_in_both(index)).collect();
    if !held.contains(&0) {
        return Err("the logs do not show how many requests the disks received".into());
    }
    let kept = tables.map(|t| t.into_iter().filter_map(|row| keep_drivers(row, &held)).collect::<Vec<SeriesPoint>>());
    let driver = |index: &usize| Driver { tolerance: MIN_CHANGE, increases_value: *index == 0 };
    let held_drivers: Vec<Driver> = held.iter().map(driver).collect();
    match covariance_analysis::compare_adjusted(&kept[0], &kept[1], &held_drivers) {
        Ok(AdjustedContrast { contrast, range, share }) => {
            let held = held.into_iter().map(|index| drivers[index]).collect();
            Ok(EqualLoadResult { contrast, range: (range[0].0.exp(), range[0].1.exp()), share, held_equal: held })
        }
        Err(AdjustmentError::TooShort) => Err("the windows are too short".into()),
        Err(AdjustmentError::Driver(index)) => Err(describe_disjoint_loads(&kept, index, drivers[held[index]])),
    }
}

/// Sentence part on the loads of two windows that have too little in common.
fn describe_disjoint_loads(kept: &[Vec<SeriesPoint>; 2], index: usize, driver: &str) -> String {
    let (name, unit, from_driver): (_, _, fn(f64) -> f64) = match driver {
        REQUESTS_COUNTER => ("numbers of requests", "per_s", f64::exp),
        SIZE_COUNTER => ("sizes of requests", "bytes", f64::exp),
        _ => ("shares of reads", "fraction", |v| v),
    };
    let range_text = |list: &[SeriesPoint]| {
        let mut values: Vec<f64> = list.iter().map(|m| m.drivers[index]).collect();
        values.sort_unstable_by(f64::total_cmp);
        let quantile =
            |share: f64| format_value(from_driver(values[((values.len() - 1) as f64 * share).round() as usize]), unit);
        let (low, high) = (quantile(0.05), quantile(0.95));
        if low == high { low } else { format!("{low} to {high}") }
    };
    format!(
        "the windows have too few {name} in common ({} before, {} after)",
        range_text(&kept[0]),
        range_text(&kept[1])
    )
}

/// Bucket width that holds a usual tick of a window. Both windows use the same width, because the logarithm of a mean
/// depends on the time it is over.
fn bucket_width_ns(window: &CounterWindow, response: &ComparisonRow) -> i64 {
    let points =
        window.find_counter(RESPONSE_COUNTER, &response.instance).map(|s| s.bucket_means()).unwrap_or_default();
    let mut spacings_ns: Vec<i64> = points.windows(2).map(|w| w[1].0 - w[0].0).collect();
    spacings_ns.sort_unstable();
    let median_ns = spacings_ns.get(spacings_ns.len() / 2).copied().unwrap_or(0);
    window.width_at_least(median_ns / 10 * 9)
}

/// Merges points into means over `width` nanoseconds.
fn merge_buckets(points: Vec<(i64, WeightedPoint)>, width: i64) -> Vec<(i64, WeightedPoint)> {
    let mut list: Vec<(i64, WeightedPoint)> = Vec::new();
    for (time_ns, p) in points {
        let bucket = time_ns.div_euclid(width);
        match list.last_mut() {
            Some((last, sum)) if *last == bucket => {
                let weight = sum.weight + p.weight;
                let mean = |a: f64, b: f64| (a * sum.weight + b * p.weight) / weight;
                *sum = WeightedPoint { time_s: mean(sum.time_s, p.time_s), value: mean(sum.value, p.value), weight };
            }
            _ => list.push((bucket, p)),
        }
    }
    list
}

/// Logarithms of the response time over each `width` nanoseconds, with its drivers; `NaN` where one is unknown.
fn series_points(window: &CounterWindow, response: &ComparisonRow, disk: &str, width: i64) -> Vec<SeriesPoint> {
    let points = |counter: &str, instance: &str| {
        let points = window.find_counter(counter, instance).map(|s| s.bucket_means()).unwrap_or_default();
        merge_buckets(points, width)
    };
    let by_time = |points: Vec<(i64, WeightedPoint)>| -> HashMap<i64, f64> {
        points.into_iter().map(|(bucket, p)| (bucket, p.value)).collect()
    };
    let (rates, sizes) = (by_time(points(REQUESTS_COUNTER, disk)), by_time(points(SIZE_COUNTER, disk)));
    let shares = by_time(merge_buckets(answer_quantities::read_shares(window, disk), width));
    let logarithm = |values: &HashMap<i64, f64>, bucket: i64| {
        values.get(&bucket).filter(|v| **v > 0.0).map_or(f64::NAN, |v| v.ln())
    };
    let point = |(bucket, p): (i64, WeightedPoint)| SeriesPoint {
        time_s: p.time_s,
        value: p.value.ln(),
        drivers: vec![
            logarithm(&rates, bucket),
            logarithm(&sizes, bucket),
            shares.get(&bucket).copied().unwrap_or(f64::NAN),
        ],
        weight: p.weight,
    };
    points(RESPONSE_COUNTER, &response.instance).into_iter().filter(|(_, p)| p.value > 0.0).map(point).collect()
}

/// A point with only the drivers that are held equal; `None` where one of them is unknown.
fn keep_drivers(mut point: SeriesPoint, held: &[usize]) -> Option<SeriesPoint> {
    point.drivers = held.iter().map(|&index| point.drivers[index]).collect();
    let known = point.value.is_finite() && point.drivers.iter().all(|d| d.is_finite());
    known.then_some(point)
}

impl EqualLoadResult {
    /// Completes the comparison with the result of its test.
    pub fn into_equal_load(self, tested: &TestedDifference) -> EqualLoad {
        let level = tested.test_result.level;
        let ratio = self.contrast.ratio_estimate().unwrap_or(1.0);
        let (low, high) = self.contrast.ratio_interval(level).unwrap_or((0.0, f64::INFINITY));
        let is_small = (1.0 - ratio.min(1.0 / ratio)) < MIN_CHANGE;
        EqualLoad {
            counter: RESPONSE_COUNTER.into(),
            ratio,
            ratio_low: low,
            ratio_high: Some(high).filter(|v| v.is_finite()),
            level,
            significance: tested.adjusted_p_value().unwrap_or(1.0),
            change: answer_quantities::change_direction(tested.is_noise(), is_small, ratio > 1.0),
            load_low: self.range.0,
            load_high: self.range.1,
            share_before: self.share[0],
            share_after: self.share[1],
            held_equal: self.held_equal.into_iter().map(str::to_owned).collect(),
        }
    }
}

/// Load and response time of a disk, or of all disks together; of links only the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RequestChanges {
    /// Requests, or bytes of links.
    pub load: Option<QuantityChange>,
    /// Sizes of the requests and the share of reads among them.
    pub mix: Vec<QuantityChange>,
    /// Response time of the requests.
    pub response: Option<QuantityChange>,
    /// Response time at equal load; `null` where it cannot be compared.
    pub equal_load: Option<EqualLoad>,
    /// Reason why it cannot be compared; `null` where it can, or where the answer does not depend on disks.
    pub equal_load_missing: Option<String>,
}

impl RequestChanges {
    /// Takes over the quantities, and the response time at equal load or the reason why there is none.
    pub(super) fn new(
        quantities: AnswerQuantities,
        (equal_load, equal_load_missing): (Option<EqualLoad>, Option<String>),
    ) -> RequestChanges {
        let AnswerQuantities { load, mix, response, .. } = quantities;
        RequestChanges { load, mix, response, equal_load, equal_load_missing }
    }

    /// The response time of the second window over that of the first at equal load, where it can be compared.
    pub(super) fn ratio_at_equal_load(&self) -> Option<f64> {
        self.equal_load.as_ref().map(|equal| equal.ratio)
    }
}
