//! Judges whether a change helped. Load and response time are judged separately, so that faster service at a lower load
//! does not count as success. A different verdict alone is no success either: the blamed counters must have changed.

use serde::Serialize;

use super::answer_quantities::{AnswerQuantities, ChangeDirection, QuantityChange};
use super::equal_load::EqualLoad;
use crate::answer::Verdict;
use crate::rules::Bottleneck;

/// Effect of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeOutcome {
    /// Requests are served faster at a comparable load, or the blamed counters got better.
    Helped,
    /// Requests are served slower at a comparable load, or the blamed counters got worse.
    Worse,
    /// The load was lower, which alone explains an improvement.
    #[serde(rename = "less_asked")]
    LowerLoad,
    /// The load was higher, which alone explains a deterioration.
    #[serde(rename = "more_asked")]
    HigherLoad,
    /// The requests were of another kind, so response times cannot be compared.
    #[serde(rename = "other_load")]
    DifferentLoad,
    /// No difference beyond noise.
    Unchanged,
    /// The windows do not show it.
    Unclear,
}

fn direction_of_change(quantity: Option<&QuantityChange>) -> ChangeDirection {
    quantity.map_or(ChangeDirection::Unknown, |m| m.change)
}

/// Judges whether the change helped.
pub(super) fn judge_change(
    quantities: &AnswerQuantities,
    equal: Option<&EqualLoad>,
    before: &Verdict,
    after: &Verdict,
) -> ChangeOutcome {
    if is_limit_gone(quantities, before, after) {
        return ChangeOutcome::Helped;
    }
    match quantities.response {
        Some(_) if quantities.goals.is_empty() => judge_by_response_time(quantities, equal),
        _ => judge_by_blamed_counters(quantities, before, after),
    }
}

/// True where a configured limit held the work back, holds it back no more, and more work is done. The limit's own
/// counters end with it, and the devices below were never slow.
fn is_limit_gone(quantities: &AnswerQuantities, before: &Verdict, after: &Verdict) -> bool {
    let limits = |verdict: &Verdict| verdict.bottlenecks.iter().any(|listed| listed.bottleneck == Bottleneck::Throttle);
    let does_more = quantities.load.as_ref().is_some_and(|load| load.change == ChangeDirection::Up);
    before.bottleneck == Bottleneck::Throttle && !limits(after) && after.bottleneck != Bottleneck::Unknown && does_more
}

/// Judges by the response time of the disks.
fn judge_by_response_time(quantities: &AnswerQuantities, equal: Option<&EqualLoad>) -> ChangeOutcome {
    let (load, response) =
        (direction_of_change(quantities.load.as_ref()), direction_of_change(quantities.response.as_ref()));
    let differs = |m: &QuantityChange| matches!(m.change, ChangeDirection::Up | ChangeDirection::Down);
    let is_mix_different = quantities.mix.iter().any(differs);
    // the change of the load would explain the opposite
    let against_load = match (load, response) {
        _ if is_mix_different => None,
        (ChangeDirection::Up, ChangeDirection::Down) => Some(ChangeOutcome::Helped),
        (ChangeDirection::Down, ChangeDirection::Up) => Some(ChangeOutcome::Worse),
        _ => None,
    };
    match equal.map(|e| e.change) {
        Some(ChangeDirection::Down) => return ChangeOutcome::Helped,
        Some(ChangeDirection::Up) => return ChangeOutcome::Worse,
        Some(ChangeDirection::Same) if against_load.is_none() => {
            return match load {
                ChangeDirection::Up => ChangeOutcome::HigherLoad,
                ChangeDirection::Down => ChangeOutcome::LowerLoad,
                _ if is_mix_different => ChangeOutcome::DifferentLoad,
                _ => ChangeOutcome::Unchanged,
            };
        }
        _ => {}
    }
    let may_differ = |m: &QuantityChange| m.change == ChangeDirection::Same && m.may_differ();
    let may_load_differ = quantities.load.iter().chain(&quantities.mix).any(may_differ);
    match (load, response) {
        _ if against_load.is_some() => against_load.unwrap_or(ChangeOutcome::Unclear),
        (ChangeDirection::Unknown, _) => ChangeOutcome::Unclear,
        _ if is_mix_different => ChangeOutcome::DifferentLoad,
        (ChangeDirection::Down, ChangeDirection::Down | ChangeDirection::Same) => ChangeOutcome::LowerLoad,
        (ChangeDirection::Up, ChangeDirection::Same | ChangeDirection::Up) => ChangeOutcome::HigherLoad,
        (ChangeDirection::Same, ChangeDirection::Same) => ChangeOutcome::Unchanged,
        _ if may_load_differ => ChangeOutcome::Unclear,
        (ChangeDirection::Same, ChangeDirection::Down) => ChangeOutcome::Helped,
        (ChangeDirection::Same, ChangeDirection::Up) => ChangeOutcome::Worse,
        _ => ChangeOutcome::Unclear,
    }
}

/// Judges by the counters of the findings behind the verdicts.
fn judge_by_blamed_counters(quantities: &AnswerQuantities, before: &Verdict, after: &Verdict) -> ChangeOutcome {
    // without a load counter, only the blamed counters are judged
    let load = quantities.load.as_ref().map_or(ChangeDirection::Same, |m| m.change);
    let may_load_differ = quantities.load.as_ref().is_some_and(|m| m.change == ChangeDirection::Same && m.may_differ());
    let is_blamed = before.bottleneck.blames() || after.bottleneck.blames();
    // what is blamed got better although no less was asked: a lower load does not explain it
    let is_load_kept = quantities.load.as_ref().is_some_and(|load| load.after >= load.before);
    match (load, quantities.goal_change) {
        (ChangeDirection::Unknown, ChangeDirection::Down) if is_load_kept && is_blamed => ChangeOutcome::Helped,
        (ChangeDirection::Unknown, _) => ChangeOutcome::Unclear,
        (ChangeDirection::Down, ChangeDirection::Down | ChangeDirection::Same) => ChangeOutcome::LowerLoad,
        (ChangeDirection::Up, ChangeDirection::Up | ChangeDirection::Same) => ChangeOutcome::HigherLoad,
        (ChangeDirection::Down, _) if !is_blamed => ChangeOutcome::LowerLoad,
        (ChangeDirection::Up, _) if !is_blamed => ChangeOutcome::HigherLoad,
        (_, ChangeDirection::Down | ChangeDirection::Up) if may_load_differ => ChangeOutcome::Unclear,
        (_, ChangeDirection::Down) => ChangeOutcome::Helped,
        (_, ChangeDirection::Up) => ChangeOutcome::Worse,
        (_, ChangeDirection::Same) => ChangeOutcome::Unchanged,
        _ if !is_blamed && quantities.load.is_some() => ChangeOutcome::Unchanged,
        _ => ChangeOutcome::Unclear,
    }
}
