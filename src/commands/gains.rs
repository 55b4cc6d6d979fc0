//! Predicted gains of remedies: advice of a verdict that is a change known to `plan --what-if` is predicted on the log
//! that was judged. A model that misses today's response predicts nothing.

use diskwright_base::units::{format_significant, format_value};
use diskwright_diagnosis::Verdict;
use diskwright_planner::prices::PriceList;
use diskwright_planner::series::LoadSeries;
use diskwright_planner::series::measured_demand::DEFAULT_PERCENTILE;
use diskwright_planner::what_if::{WhatIf, predict_change};
use serde_json::{Value, json};

/// Ids of advice, each with the corresponding change.
const PREDICTABLE_ADVICE: [(&str, &str); 4] = [
    ("disk.raid-level", "to raid10"),
    ("disk.more-spindles", "disks +2"),
    ("memory.swap-own-disk", "move swap to its own disk"),
    ("memory.add", "memory"),
];

/// A remedy and its predicted gain.
pub struct PredictedGain {
    /// The id of the advice.
    pub advice: &'static str,
    /// The prediction.
    pub prediction: WhatIf,
}

/// True if a verdict has advice that can be predicted.
pub fn has_predictable_advice(verdict: &Verdict) -> bool {
    PREDICTABLE_ADVICE.iter().any(|(id, _)| verdict.advice.iter().any(|advice| advice.id == *id))
}

/// Predicts gains, in the order of the advice.
pub fn predict_gains(verdict: &Verdict, series: &LoadSeries) -> Vec<PredictedGain> {
    let predictable =
        verdict.advice.iter().filter_map(|advice| PREDICTABLE_ADVICE.iter().find(|(id, _)| advice.id == *id));
    predictable.filter_map(|(advice, change)| predict_gain(verdict, series, advice, change)).collect()
}

fn predict_gain(verdict: &Verdict, series: &LoadSeries, advice: &'static str, change: &str) -> Option<PredictedGain> {
    let change = match (advice, series.swapped_out) {
        // as much as is swapped out today, in whole GiB
        ("memory.add", Some(out)) if out > 0.0 => format!("memory +{}GiB", (out / (1_u64 << 30) as f64).ceil()),
        ("memory.add", _) => return None,
        _ => change.to_owned(),
    };
    let prediction = predict_change(series, &change, DEFAULT_PERCENTILE, None, &PriceList::default()).ok()?;
    // the prediction must be about the blamed disk, if there is one
    let name = &verdict.instance;
    let front = series.fronts.iter().find(|front| front.name == prediction.device);
    let has_leaf = front.is_some_and(|front| front.leaves.iter().any(|leaf| leaf == name));
    let is_of_blamed_disk = name.is_empty() || prediction.device == *name || has_leaf;
    let is_memory = advice.starts_with("memory.");
    (prediction.trusted && (is_of_blamed_disk || is_memory)).then_some(PredictedGain { advice, prediction })
}

/// Adds `gain` to each remedy of a verdict: null if no model can predict it.
pub fn add_gains(document: &mut Value, gains: &[PredictedGain]) {
    for advice in document["advice"].as_array_mut().into_iter().flatten() {
        let gain = gains.iter().find(|gain| advice["id"] == gain.advice);
        advice["gain"] = gain.map_or(Value::Null, |gain| json!(gain.prediction));
    }
}

/// Describes a prediction in a sentence.
pub fn describe_gain(gain: &PredictedGain) -> String {
    let WhatIf { change, device, before, after, model_error, .. } = &gain.prediction;
    format!(
        "{change}: at the highest loads, {device} would respond in {} instead of {} (the model's error for today's \
         response is {} %)",
        format_value(after.response_s, "s"),
        format_value(before.response_s, "s"),
        format_significant(model_error * 100.0)
    )
}
