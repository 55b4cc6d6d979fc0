//! What happened when: events that lead the answer, and levels of latency, queue, load and pressure that stepped within
//! the window, with what began or stopped at that moment. Whether a step is more than noise is judged together with all
//! trends of the log (Holm).
//!
//! Uses `rules`, `sums`, `culprits` and `run`.

mod beginnings;
mod change;
mod events;

use diskwright_base::Catalogue;
use diskwright_statistics::{ERROR_RATE, LevelChange, MinChange, WeightedPoint, blocks, find_level_changes};

use crate::rules::{ChangeQuantity, change_quantities};
use crate::run::Observation;
use crate::sums::{BucketPoint, ChangeSeries};
use beginnings::{find_began, find_stopped};
pub use change::{BeganKind, Beginning, Change};
pub(crate) use events::find_events;
pub use events::{VerdictEvent, event_sentence};

/// Smallest ratio of two levels.
const MIN_RATIO: f64 = 1.5;
/// A level that returns this far towards the level before a change, on a scale of ratios, ends it.
const MIN_RETURN: f64 = 0.5;

/// Changes of a series that may be more than noise.
pub(crate) struct SeriesChanges<'a> {
    quantity: &'static ChangeQuantity,
    instance: &'a str,
    /// Origin of the times, nanoseconds since 1970.
    origin_ns: i64,
    /// False for a series that never changes.
    is_tested: bool,
    found: Vec<LevelChange>,
}

/// Finds the steps of all series, large ones only.
pub(crate) fn find_candidates(observed: &Observation) -> Vec<SeriesChanges<'_>> {
    observed.states.change_series.iter().map(series_changes).collect()
}

fn series_changes(series: &ChangeSeries) -> SeriesChanges<'_> {
    let quantity = &change_quantities()[series.quantity];
    let filled = series.buckets.filled_buckets();
    let origin_ns = filled.first().map_or(0, |first| first.time_ns);
    let point = |bucket: &BucketPoint| WeightedPoint {
        time_s: bucket.time_ns.saturating_sub(origin_ns) as f64 / 1e9,
        value: bucket.value,
        weight: bucket.weight,
    };
    let points: Vec<WeightedPoint> =
        filled.iter().map(point).filter(|p| p.value.is_finite() && p.weight.is_finite()).collect();
    let found = find_level_changes(&points, MinChange { ratio: MIN_RATIO, difference: quantity.min_change });
    let is_tested = !points.is_empty() && !blocks::is_constant(&points);
    SeriesChanges { quantity, instance: &series.instance, origin_ns, is_tested, found }
}

/// P-values of the steps, for a test together with others: one for each step, and 1 for each series without any;
/// `NaN` for one that never changes, which is no test.
pub(crate) fn candidate_p_values(candidates: &[SeriesChanges<'_>]) -> Vec<f64> {
    let of_series = |series: &SeriesChanges<'_>| match series.found.as_slice() {
        [] if series.is_tested => vec![1.0],
        [] => vec![f64::NAN],
        found => found.iter().map(|change| change.p_value).collect(),
    };
    candidates.iter().flat_map(of_series).collect()
}

/// Describes the steps that are more than noise, in the order of time; `adjusted` are the p-values of
/// [`candidate_p_values`] after the test.
pub(crate) fn describe_changes(
    observed: &Observation,
    candidates: &[SeriesChanges<'_>],
    adjusted: &[f64],
) -> Vec<Change> {
    let mut p_values = adjusted.iter().copied();
    let mut list = Vec::new();
    for series in candidates {
        let of_series: Vec<f64> = p_values.by_ref().take(series.found.len().max(1)).collect();
        for (index, found) in series.found.iter().enumerate().filter(|(index, _)| of_series[*index] < ERROR_RATE) {
            list.push(build_change(observed, series, index, (found, of_series[index])));
        }
    }
    list.sort_by_key(|change| change.time_ns);
    list
}

fn build_change(
    observed: &Observation,
    series: &SeriesChanges<'_>,
    index: usize,
    (found, significance): (&LevelChange, f64),
) -> Change {
    let quantity = series.quantity;
    let time_ns = |time_s: f64| series.origin_ns.saturating_add((time_s * 1e9) as i64);
    let log = |value: f64| (value.max(0.0) / quantity.min_change).ln_1p();
    let height = log(found.after) - log(found.before);
    let returns = |later: &&LevelChange| (log(found.after) - log(later.after)) / height >= MIN_RETURN;
    let end = series.found[index + 1..].iter().find(returns);
    let mut change = Change {
        time_ns: time_ns(found.time_s),
        until_ns: end.map(|end| time_ns(end.time_s)),
        counter: quantity.counter.clone(),
        word: &quantity.word,
        instance: series.instance.to_owned(),
        unit: Catalogue::builtin().get(&quantity.counter).map_or_else(String::new, |counter| counter.unit.clone()),
        before: found.before,
        after: found.after,
        precision_s: found.precision_s,
        significance,
        began: Vec::new(),
        ended: Vec::new(),
    };
    if change.is_rise() {
        change.began = find_began(observed, &change, quantity.activity);
    } else {
        change.ended = find_stopped(observed, &change, quantity.activity);
        // a limit that was set makes a load fall, too
        change.began = find_began(observed, &change, quantity.activity);
        change.began.retain(|beginning| beginning.kind == BeganKind::Limit || beginning.kind == BeganKind::Bookmark);
    }
    change
}
