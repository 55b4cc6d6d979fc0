//! Whether a change helped: what was asked is held apart from how long it took,
//! so that "faster, because nobody asked" is not taken for success. A verdict
//! that is another one is no success by itself: what it judged must have moved.

use serde::Serialize;

use super::equal::EqualLoad;
use super::load::{AnswerQuantities, ChangeDirection, QuantityChange};
use crate::verdict::Verdict;

/// Whether the change helped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeOutcome {
    /// The same is served faster at a load that can be compared, or what the
    /// verdict blamed got better.
    Helped,
    /// The same for slower and worse.
    Worse,
    /// Less was asked, which alone explains what became faster.
    LessAsked,
    /// More was asked, which alone explains what became slower.
    MoreAsked,
    /// Requests of another kind were asked for, and service of them cannot be compared.
    OtherLoad,
    /// No difference beyond noise.
    Unchanged,
    /// It cannot be told.
    Unclear,
}

fn change(of: Option<&QuantityChange>) -> ChangeDirection {
    of.map_or(ChangeDirection::Unknown, |m| m.change)
}

/// Says whether the change helped.
pub(super) fn outcome(
    told: &AnswerQuantities,
    equal: Option<&EqualLoad>,
    before: &Verdict,
    after: &Verdict,
) -> ChangeOutcome {
    match told.response {
        Some(_) if told.goals.is_empty() => by_service(told, equal),
        _ => by_goal(told, before, after),
    }
}

/// By how long requests of the disks took.
fn by_service(told: &AnswerQuantities, equal: Option<&EqualLoad>) -> ChangeOutcome {
    let (load, response) = (change(told.load.as_ref()), change(told.response.as_ref()));
    let differs = |m: &QuantityChange| matches!(m.change, ChangeDirection::Up | ChangeDirection::Down);
    let other = told.mix.iter().any(differs);
    // less is asked, and each request takes longer: the load explains the opposite
    let against = match (load, response) {
        _ if other => None,
        (ChangeDirection::Up, ChangeDirection::Down) => Some(ChangeOutcome::Helped),
        (ChangeDirection::Down, ChangeDirection::Up) => Some(ChangeOutcome::Worse),
        _ => None,
    };
    match equal.map(|e| e.change) {
        Some(ChangeDirection::Down) => return ChangeOutcome::Helped,
        Some(ChangeDirection::Up) => return ChangeOutcome::Worse,
        Some(ChangeDirection::Same) if against.is_none() => {
            return match load {
                ChangeDirection::Up => ChangeOutcome::MoreAsked,
                ChangeDirection::Down => ChangeOutcome::LessAsked,
                _ if other => ChangeOutcome::OtherLoad,
                _ => ChangeOutcome::Unchanged,
            };
        }
        _ => {}
    }
    let maybe = told.load.iter().chain(&told.mix).any(|m| m.change == ChangeDirection::Same && m.may_differ());
    match (load, response) {
        _ if against.is_some() => against.unwrap_or(ChangeOutcome::Unclear),
        (ChangeDirection::Unknown, _) => ChangeOutcome::Unclear,
        _ if other => ChangeOutcome::OtherLoad,
        (ChangeDirection::Down, ChangeDirection::Down | ChangeDirection::Same) => ChangeOutcome::LessAsked,
        (ChangeDirection::Up, ChangeDirection::Same | ChangeDirection::Up) => ChangeOutcome::MoreAsked,
        (ChangeDirection::Same, ChangeDirection::Same) => ChangeOutcome::Unchanged,
        _ if maybe => ChangeOutcome::Unclear,
        (ChangeDirection::Same, ChangeDirection::Down) => ChangeOutcome::Helped,
        (ChangeDirection::Same, ChangeDirection::Up) => ChangeOutcome::Worse,
        _ => ChangeOutcome::Unclear,
    }
}

/// By the counters for which the verdicts blame what they blame.
fn by_goal(told: &AnswerQuantities, before: &Verdict, after: &Verdict) -> ChangeOutcome {
    // where nothing says what was asked, the goal stands alone
    let load = told.load.as_ref().map_or(ChangeDirection::Same, |m| m.change);
    let maybe = told.load.as_ref().is_some_and(|m| m.change == ChangeDirection::Same && m.may_differ());
    let blamed = before.bottleneck.blames() || after.bottleneck.blames();
    match (load, told.goal) {
        (ChangeDirection::Unknown, _) => ChangeOutcome::Unclear,
        (ChangeDirection::Down, ChangeDirection::Down | ChangeDirection::Same) => ChangeOutcome::LessAsked,
        (ChangeDirection::Up, ChangeDirection::Up | ChangeDirection::Same) => ChangeOutcome::MoreAsked,
        (ChangeDirection::Down, _) if !blamed => ChangeOutcome::LessAsked,
        (ChangeDirection::Up, _) if !blamed => ChangeOutcome::MoreAsked,
        (_, ChangeDirection::Down | ChangeDirection::Up) if maybe => ChangeOutcome::Unclear,
        (_, ChangeDirection::Down) => ChangeOutcome::Helped,
        (_, ChangeDirection::Up) => ChangeOutcome::Worse,
        (_, ChangeDirection::Same) => ChangeOutcome::Unchanged,
        _ if !blamed && told.load.is_some() => ChangeOutcome::Unchanged,
        _ => ChangeOutcome::Unclear,
    }
}
