//! From a demand to the answer: the short list, each design simulated, the frontier, rejected designs with reasons, and
//! prices at which the ranking changes.

use std::collections::BTreeSet;

use diskwright_base::units::{format_significant, format_value};

use crate::PlanError;
use crate::answer::{BreakEven, FrontierPoint, PlanAnswer, RejectedDesign};
use crate::controller_path::find_controllers;
use crate::demand::Demand;
use crate::design_part::list_parts;
use crate::design_summary;
use crate::doubtful_designs::{MAX_SIMULATED, decide_by_simulation};
use crate::judged_design::{RESPONSE_LIMIT, SizedBy};
use crate::limits::PlanLimits;
use crate::notes;
use crate::plan_context::{PlanContext, SimulationCache, compare_by_cost};
use crate::purchase::list_purchases;
use crate::relaxation::find_relaxations;
use crate::search::{DesignFailure, JudgedDesign, SearchOutcome, search_designs, worst_failure};
use crate::short_list::{ShortList, part_kind, simulate_short_list};

/// Maximum number of cheaper designs that fail.
const MAX_REJECTED: usize = 8;

/// Finds designs for a demand.
///
/// # Errors
/// An impossible demand, contradictory limits, and unknown names.
pub fn plan(demand: &Demand, limits: &PlanLimits) -> Result<PlanAnswer, PlanError> {
    demand.check_values()?;
    limits.check_consistency()?;
    let parts = list_parts(demand, limits)?;
    if parts.is_empty() {
        return Err(PlanError::Contradiction("the limits exclude every drive and volume; drop one of them".into()));
    }
    let offers = find_controllers(limits)?;
    let simulations = SimulationCache::default();
    let context = PlanContext {
        demand,
        limits,
        parts: &parts,
        offers: &offers,
        simulations: &simulations,
        shared_parts: parts.len(),
    };
    let mut outcome = search_designs(demand, limits, &parts, &offers);
    if outcome.searched == 0 {
        return Err(PlanError::Contradiction("the limits exclude every design; drop one of them".into()));
    }
    let ShortList { mut list, refused_by_simulation: refused, .. } = simulate_short_list(&context, &mut outcome);
    // a design refused by the simulation fails like one refused by the analysis
    outcome.feasible.retain(|judged| !refused.iter().any(|other| other.is_same_design(judged)));
    outcome.failing.extend(refused.iter().cloned());
    if list.is_empty() {
        list.extend(find_nearest(&context, &outcome));
    }
    let feasible = list.iter().any(|judged| judged.failure.is_none());
    let best_cost = list.first().filter(|_| feasible).and_then(|judged| judged.cost);
    let mut answer = PlanAnswer {
        demand: demand.clone(),
        designs: list.iter().map(|judged| design_summary::describe_design(&context, judged)).collect(),
        feasible,
        rejected: Vec::new(),
        frontier: build_frontier(&context, &outcome),
        break_even: Vec::new(),
        relax: Vec::new(),
        searched: outcome.searched,
        notes: Vec::new(),
    };
    for (index, design) in answer.designs.iter_mut().enumerate() {
        design.rank = index as u32 + 1;
    }
    // the limit of the nearest design comes first
    let nearest = list.first().filter(|_| !feasible);
    let others = refused.iter().chain(cheaper_failures(&context, &outcome, best_cost)).collect();
    let listed: &[JudgedDesign] = if feasible { &list } else { &[] };
    answer.rejected = list_rejections(&context, (listed, nearest), others, best_cost);
    if feasible {
        answer.break_even = break_even_prices(&context, &list);
    } else {
        answer.relax = find_relaxations(&context);
    }
    explain_ranks(&mut answer);
    answer.notes = notes::collect_notes(&context, &outcome, &answer);
    Ok(answer)
}

/// If nothing meets the demand: the design that misses it by least. Analysis and simulation are not equally strict, so
/// the nearest in the analysis is simulated, and is only named if nothing else is nearer then. If it meets the demand
/// in the simulation, it misses nothing any more.
fn find_nearest(context: &PlanContext<'_>, outcome: &SearchOutcome) -> Option<JudgedDesign> {
    let with_worst =
        |judged: JudgedDesign| JudgedDesign { failure: worst_failure(&judged, context.judging_inputs()), ..judged };
    let factor = |judged: &JudgedDesign| judged.failure.as_ref().map_or(0.0, |failure| failure.factor);
    let mut failing: Vec<JudgedDesign> = outcome.failing.iter().cloned().map(with_worst).collect();
    for _ in 0..MAX_SIMULATED {
        let closest = failing.iter_mut().min_by(|a, b| factor(a).total_cmp(&factor(b)).then(compare_by_cost(a, b)))?;
        // designs that cannot keep up in the analysis are not simulated: they have no steady state
        if closest.simulated.is_some() || closest.response.is_none() {
            break;
        }
        let simulated = with_worst(decide_by_simulation(context, closest.clone()));
        if simulated.simulated.is_none() {
            break;
        }
        *closest = simulated;
    }
    failing.into_iter().min_by(|a, b| factor(a).total_cmp(&factor(b)).then(compare_by_cost(a, b)))
}

/// Designs that are cheaper than the best and fail, the cheapest first, one of each part and level.
fn cheaper_failures<'o>(
    context: &PlanContext<'_>,
    outcome: &'o SearchOutcome,
    best: Option<f64>,
) -> Vec<&'o JudgedDesign> {
    let is_cheaper = |design: &&JudgedDesign| best.is_none_or(|best| design.cost.is_some_and(|cost| cost < best));
    let mut failing: Vec<&JudgedDesign> = outcome.failing.iter().filter(is_cheaper).collect();
    failing.sort_by(|a, b| compare_by_cost(a, b));
    let mut taken: BTreeSet<(&str, &str)> = BTreeSet::new();
    failing.retain(|judged| taken.insert((&context.parts[judged.part_index].id, judged.level.name())));
    failing
}

/// Lists why designs are not on the list, each once: the nearest, if there is one, then the first of each kind and
/// level, so that no kind takes all places, then the others. Where one differs from a design of the list only by its
/// stripe unit, that is said.
fn list_rejections(
    context: &PlanContext<'_>,
    (listed, nearest): (&[JudgedDesign], Option<&JudgedDesign>),
    others: Vec<&JudgedDesign>,
    best: Option<f64>,
) -> Vec<RejectedDesign> {
    let mut kinds: BTreeSet<(&str, &str)> = BTreeSet::new();
    let is_first = |judged: &&JudgedDesign| kinds.insert((part_kind(context, judged), judged.level.name()));
    let (firsts, remaining): (Vec<_>, Vec<_>) = others.into_iter().partition(is_first);
    let listed: BTreeSet<String> = listed.iter().map(|judged| context.design_title(judged)).collect();
    let title = |judged: &JudgedDesign| match context.design_title(judged) {
        same if listed.contains(&same) => {
            format!("{same} with a stripe unit of {}", format_value(judged.unit_bytes as f64, "bytes"))
        }
        title => title,
    };
    let mut titles: BTreeSet<String> = BTreeSet::new();
    let ordered = nearest.into_iter().chain(firsts).chain(remaining).filter(|judged| titles.insert(title(judged)));
    let described = ordered.filter_map(|judged| describe_rejection(context, judged, title(judged), best));
    described.take(MAX_REJECTED).collect()
}

/// Describes why a design is not on the list.
fn describe_rejection(
    context: &PlanContext<'_>,
    judged: &JudgedDesign,
    design: String,
    best: Option<f64>,
) -> Option<RejectedDesign> {
    let DesignFailure { reason: because, limit, .. } = judged.failure.clone()?;
    let price_period = context.parts[judged.part_index].price_period();
    let (price, cost) = (judged.price, judged.cost);
    let cheaper = best.zip(cost).map(|(best, cost)| cost < best);
    Some(RejectedDesign { design, because, limit, price, price_period, cost, cheaper })
}

/// Returns designs that no other beats in both cost and response, the cheapest first.
fn build_frontier(context: &PlanContext<'_>, outcome: &SearchOutcome) -> Vec<FrontierPoint> {
    let mut points: Vec<(&JudgedDesign, f64, f64)> = Vec::new();
    for judged in outcome.feasible.iter().chain(&outcome.failing) {
        let meets = judged.failure.is_none();
        let misses_response = judged.failure.as_ref().is_some_and(|failure| failure.limit == RESPONSE_LIMIT);
        if let (Some(cost), Some(response), true) = (judged.cost, &judged.response, meets || misses_response) {
            // designs that the simulation refused are as slow as it says
            let simulated = judged.simulated.and_then(|found| found.response_s);
            points.push((judged, cost, simulated.map_or(response.mean_s, |found| found[0])));
        }
    }
    points.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.2.total_cmp(&b.2)));
    let mut best = f64::INFINITY;
    let mut frontier = Vec::new();
    for (judged, cost, response_s) in points {
        // one percent less is no improvement
        if response_s < best * 0.99 {
            best = response_s;
            let meets = judged.failure.is_none();
            frontier.push(FrontierPoint { design: context.design_title(judged), cost, response_s, meets });
        }
    }
    frontier
}

/// Returns prices at which others of the list would rank first.
fn break_even_prices(context: &PlanContext<'_>, list: &[JudgedDesign]) -> Vec<BreakEven> {
    let currency = &context.limits.currency;
    let Some((first, others)) = list.split_first() else { return Vec::new() };
    let Some(cost) = first.cost else { return Vec::new() };
    let mut break_evens = Vec::new();
    for judged in others {
        let part = &context.parts[judged.part_index];
        if part.id == context.parts[first.part_index].id || part.volume.is_some() {
            continue;
        }
        let kept = context.limits.existing.as_ref().map_or(0, |existing| existing.count);
        let items = list_purchases(
            part,
            (judged.count + judged.spares).saturating_sub(kept),
            context.design_path(judged).as_ref(),
            currency,
        );
        let [drives, others @ ..] = &items[..] else { continue };
        let Some(others_price) = others.iter().map(|item| item.price).sum::<Option<f64>>() else { continue };
        // the controllers are paid first
        let below = (cost - others_price) / f64::from(drives.count);
        if drives.item != part.id || below <= 0.0 {
            continue;
        }
        let now = part.price.as_ref().map(|price| price.amount);
        let per_tb = |price: f64| format_significant(price / (part.capacity_bytes / 1e12));
        let today = now.map_or_else(
            || "its price is unknown".to_owned(),
            |now| format!("it is {} {currency} ({} per TB)", format_significant(now), per_tb(now)),
        );
        let title = context.design_title(judged);
        let sentence = format!(
            "{title} would rank first below {} {currency} per drive ({} per TB); {today}",
            format_significant(below),
            per_tb(below)
        );
        break_evens.push(BreakEven { part: part.id.clone(), design: title, below, now, sentence });
    }
    // for designs with one part, a lower price puts the one with the higher limit first, never the others
    let prices: Vec<(String, f64)> = break_evens.iter().map(|point| (point.part.clone(), point.below)).collect();
    break_evens.retain(|point| !prices.iter().any(|(part, below)| *part == point.part && *below > point.below));
    break_evens
}

/// Describes how much more a design costs than the first, which costs nothing if the existing drives suffice.
fn describe_extra_cost(cost: f64, best: f64, currency: &str) -> String {
    match cost - best {
        extra if extra <= 0.005 * best => "the same price as rank 1".to_owned(),
        extra if best <= 0.0 => format!("{} {currency} more than rank 1", format_significant(extra)),
        extra => format!("{} % more expensive than rank 1", format_significant(100.0 * extra / best)),
    }
}

/// Explains the rank of each design.
fn explain_ranks(answer: &mut PlanAnswer) {
    let Some(first) = answer.designs.first() else { return };
    let (cost, response, currency) = (first.cost, first.response_s.mean, first.currency.clone());
    let feasible = answer.feasible;
    for design in &mut answer.designs {
        let sizing = match design.sized_by {
            SizedBy::Level => "the minimum of the level",
            SizedBy::Offer => "as large and fast as needed",
            SizedBy::Capacity => "sized by capacity",
            SizedBy::Queue => "sized by the requests in flight",
            SizedBy::Load => "sized by the load: fewer cannot keep up",
            SizedBy::Response => "sized by the response time",
        };
        let headroom = format!("it sustains {}", design.describe_headroom());
        design.why = match (feasible, design.rank, design.cost, cost) {
            // the limit that it misses by most may be another; it is named separately
            (false, ..) if design.headroom < 1.0 => {
                format!("no design meets the demand; this one comes closest; {headroom}")
            }
            (false, ..) => "no design meets the demand; this one comes closest".into(),
            (_, 1, Some(own_cost), _) => {
                format!(
                    "the cheapest that meets the demand: {} {currency} over its years of use; {sizing}; {headroom}",
                    format_significant(own_cost)
                )
            }
            (_, _, Some(own_cost), Some(best)) => format!(
                "{}, {} instead of {}; {sizing}; {headroom}",
                describe_extra_cost(own_cost, best, &currency),
                format_value(design.response_s.mean, "s"),
                format_value(response, "s")
            ),
            (_, _, None, None) => format!(
                "no design that meets the demand has a known price: designs are listed by the number of \
                 unknown prices, then by the known part of the price; {sizing}; {headroom}"
            ),
            _ => format!("its price is unknown, so it is listed after priced designs; {sizing}; {headroom}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::{ResponseStatistic, ResponseTarget};
    use crate::design_part::DesignPart;
    use crate::doubtful_designs::simulate_doubtful;
    use crate::limits::PartFilter;
    use crate::plan_context::find_missed_target;
    use crate::prices::built_in_prices;
    use crate::short_list::short_list;
    use crate::simulation::SimulatedResponse;

    fn default_limits() -> PlanLimits {
        PlanLimits { simulated_requests: 2000, ..PlanLimits::with_defaults(built_in_prices(), "2026-11-23") }
    }

    fn demand_within_ms(ms: f64, demand: Demand) -> Demand {
        Demand { response: Some(ResponseTarget { target_s: ms / 1e3, statistic: ResponseStatistic::Mean }), ..demand }
    }

    fn new_context<'a>(
        demand: &'a Demand,
        limits: &'a PlanLimits,
        parts: &'a [DesignPart],
        simulations: &'a SimulationCache,
    ) -> PlanContext<'a> {
        PlanContext { demand, limits, parts, offers: &[], simulations, shared_parts: parts.len() }
    }

    #[test]
    fn zero_cost_is_no_base_for_a_percentage() {
        assert_eq!(describe_extra_cost(0.0, 0.0, "USD"), "the same price as rank 1");
        assert_eq!(describe_extra_cost(365.0, 0.0, "USD"), "365 USD more than rank 1");
        assert_eq!(describe_extra_cost(100.4, 100.0, "USD"), "the same price as rank 1");
        assert_eq!(describe_extra_cost(150.0, 100.0, "USD"), "50 % more expensive than rank 1");
    }

    #[test]
    fn simulates_each_design_once() {
        // the analysis treats sequential positions as random, so the simulation decides
        let demand = Demand { sequential_share: Some(0.9), ..Demand::from_rates(300.0, 20.0, 65536.0) };
        let (demand, limits) =
            (demand_within_ms(10.0, demand), PlanLimits { drives: vec!["st24000nm002h".into()], ..default_limits() });
        let parts = list_parts(&demand, &limits).expect("a drive");
        let simulations = SimulationCache::default();
        let context = new_context(&demand, &limits, &parts, &simulations);
        let mut outcome = search_designs(&demand, &limits, &parts, &[]);
        assert!(outcome.feasible.iter().chain(&outcome.failing).all(|judged| judged.simulated.is_none()));
        simulate_doubtful(&context, &mut outcome);
        let accepted = outcome.feasible.iter_mut().find(|judged| judged.simulated.is_some()).expect("one is accepted");
        // a response that no run has reached
        let known = SimulatedResponse { response_s: Some([0.001_234; 3]), ..accepted.simulated.expect("known") };
        accepted.simulated = Some(known);
        let accepted = accepted.clone();
        outcome.feasible = vec![accepted.clone()];
        assert_eq!(short_list(&context, &outcome).list[0].simulated, Some(known));
        assert_eq!(design_summary::describe_design(&context, &accepted).response_s.mean, 0.001_234);
        // nor is the nearest
        let failure = find_missed_target(&demand_within_ms(1.0, demand.clone()), &accepted, &known);
        outcome.failing = vec![JudgedDesign { failure, ..accepted }];
        assert_eq!(find_nearest(&context, &outcome).expect("one").simulated, Some(known));
    }

    #[test]
    fn lists_every_failing_kind_and_level_before_more_of_one() {
        let demand =
            demand_within_ms(5.0, Demand { capacity_bytes: Some(100e12), ..Demand::from_rates(900.0, 300.0, 8192.0) });
        let limits = PlanLimits { only: vec![PartFilter::Hdd], ..default_limits() };
        let parts = list_parts(&demand, &limits).expect("drives");
        let simulations = SimulationCache::default();
        let context = new_context(&demand, &limits, &parts, &simulations);
        let outcome = search_designs(&demand, &limits, &parts, &[]);
        let failing = cheaper_failures(&context, &outcome, None);
        let sort = |judged: &JudgedDesign| (part_kind(&context, judged).to_owned(), judged.level.name());
        let sorts = |all: &[&JudgedDesign]| all.iter().map(|judged| sort(judged)).collect::<BTreeSet<_>>().len();
        let listed = list_rejections(&context, (&[], None), failing.clone(), None);
        let found: Vec<&JudgedDesign> = listed
            .iter()
            .filter_map(|listed| failing.iter().copied().find(|judged| context.design_title(judged) == listed.design))
            .collect();
        let cheapest = &failing[..MAX_REJECTED];
        assert!(listed.len() == MAX_REJECTED && found.len() == MAX_REJECTED, "{listed:?}");
        assert_eq!(sorts(&found), sorts(&failing).min(MAX_REJECTED), "{listed:?}");
        assert!(sorts(cheapest) < sorts(&found), "the cheapest are of as many sorts");
        // one that is on the list with another stripe unit is told by its own
        let doubled = list_rejections(&context, (std::slice::from_ref(failing[0]), None), vec![failing[0]], None);
        assert!(doubled[0].design.contains(" with a stripe unit of "), "{doubled:?}");
        // the cheapest of each kind
        for judged in &found[..sorts(&found)] {
            assert!(failing.iter().all(|other| sort(other) != sort(judged) || compare_by_cost(judged, other).is_le()));
        }
    }
}
