//! Designs that the analysis rejects for their response, perhaps wrongly: the simulation decides.

use crate::judged_design::RESPONSE_LIMIT;
use crate::plan_context::{PlanContext, compare_by_cost, find_missed_target};
use crate::search::{JudgedDesign, SearchOutcome, budget_or_loss_failure};

/// Analysis and simulation of random requests are within 15 % of each other, or little more (docs/analytic.md).
const DOUBTFUL_FACTOR: f64 = 1.25;
/// The analysis of sequential requests overstated responses by up to 157 %.
const DOUBTFUL_SEQUENTIAL_FACTOR: f64 = 2.6;
/// Maximum number of doubtful designs that are simulated, the cheapest first.
pub(crate) const MAX_SIMULATED: usize = 8;

/// Simulates the designs that are cheaper than everything feasible and miss the response limit by little in the
/// analysis. Those that meet it become feasible; the others keep the simulation's figures as the reason.
pub(crate) fn simulate_doubtful(context: &PlanContext<'_>, outcome: &mut SearchOutcome) {
    let is_sequential = context.demand.sequential_share.is_some_and(|share| share > 0.0);
    let max_factor = if is_sequential { DOUBTFUL_SEQUENTIAL_FACTOR } else { DOUBTFUL_FACTOR };
    let best = outcome.feasible.iter().filter_map(|judged| judged.cost).fold(f64::INFINITY, f64::min);
    let is_doubtful = |judged: &JudgedDesign| {
        let failure = judged.failure.as_ref();
        let is_close = failure.is_some_and(|failure| failure.limit == RESPONSE_LIMIT && failure.factor <= max_factor);
        // if nothing is feasible, a design without a price may be the only answer
        let is_cheaper = judged.cost.map_or(best.is_infinite(), |cost| cost < best);
        is_close && judged.response.is_some() && is_cheaper
    };
    let (mut candidates, failing): (Vec<_>, Vec<_>) =
        std::mem::take(&mut outcome.failing).into_iter().partition(is_doubtful);
    outcome.failing = failing;
    candidates.sort_by(compare_by_cost);
    let not_simulated = candidates.split_off(candidates.len().min(MAX_SIMULATED));
    outcome.failing.extend(not_simulated);
    for judged in candidates {
        let judged = decide_by_simulation(context, judged);
        let list = if judged.failure.is_some() { &mut outcome.failing } else { &mut outcome.feasible };
        list.push(judged);
    }
}

/// Judges a design by its simulation.
pub(crate) fn decide_by_simulation(context: &PlanContext<'_>, judged: JudgedDesign) -> JudgedDesign {
    let Some(found) = context.simulate_healthy(&judged) else { return judged };
    let failure = find_missed_target(context.demand, &judged, &found)
        .or_else(|| budget_or_loss_failure(&judged, context.judging_inputs()));
    JudgedDesign { failure, simulated: Some(found), ..judged }
}
