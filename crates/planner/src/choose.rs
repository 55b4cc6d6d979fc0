//! From a demand to the answer: the short list, each simulated, the frontier,
//! what was rejected and why, and prices at which the ranking turns.

use std::collections::BTreeSet;

use diskwright_base::units::{digits, display};
use diskwright_simulator::catalogue::DriveClass;

use crate::PlanError;
use crate::answer::{BreakEven, FrontierPoint, PlanAnswer, RejectedDesign};
use crate::bought::bought;
use crate::context::{PlanContext, by_cost, missed};
use crate::demand::Demand;
use crate::describe;
use crate::doubtful::simulate_doubtful;
use crate::limits::PlanLimits;
use crate::notes;
use crate::parts::parts;
use crate::paths::controllers;
use crate::search::{JudgedDesign, SearchOutcome, search, worst_failure};
use crate::simulated::{ArrayCondition, SimulatedResponse, simulate};

/// Designs of the list with parts of one kind, at most.
const MOST_OF_A_KIND: usize = 2;
/// Cheaper designs that fail, at most.
const MOST_REJECTED: usize = 8;

/// Answers a demand.
///
/// # Errors
/// A demand that cannot be, limits that contradict each other, and names that there are not.
pub fn plan(demand: &Demand, limits: &PlanLimits) -> Result<PlanAnswer, PlanError> {
    demand.check()?;
    limits.check()?;
    let parts = parts(demand, limits)?;
    if parts.is_empty() {
        return Err(PlanError::Contradiction("the limits exclude every drive and volume; drop one of them".into()));
    }
    let offers = controllers(limits)?;
    let context = PlanContext { demand, limits, parts: &parts, offers: &offers };
    let mut outcome = search(demand, limits, &parts, &offers);
    if outcome.searched == 0 {
        return Err(PlanError::Contradiction("the limits exclude every design; drop one of them".into()));
    }
    simulate_doubtful(&context, &mut outcome);
    outcome.feasible.sort_by(by_cost);
    let (list, rejected) = short_list(&context, &outcome);
    let feasible = !list.is_empty();
    let list = if feasible { list } else { nearest(&context, &outcome) };
    let mut rejected = rejected;
    if let (false, Some((judged, _))) = (feasible, list.first()) {
        // what binds the nearest comes first
        rejected.splice(0..0, rejection(&context, judged));
    }
    let best_cost = list.first().filter(|_| feasible).and_then(|(design, _)| design.cost);
    let mut answer = PlanAnswer {
        demand: demand.clone(),
        designs: list.iter().map(|(judged, found)| describe::design(&context, judged, found.as_ref())).collect(),
        feasible,
        rejected,
        frontier: frontier(&context, &outcome),
        break_even: Vec::new(),
        searched: outcome.searched,
        notes: Vec::new(),
    };
    for (index, design) in answer.designs.iter_mut().enumerate() {
        design.rank = index as u32 + 1;
    }
    for rejected in cheaper(&context, &outcome, best_cost) {
        if !answer.rejected.iter().any(|other| other.design == rejected.design) {
            answer.rejected.push(rejected);
        }
    }
    answer.rejected.truncate(MOST_REJECTED);
    for rejected in &mut answer.rejected {
        rejected.cheaper = best_cost.zip(rejected.cost).map(|(best, cost)| cost < best);
    }
    if feasible {
        answer.break_even = break_even(&context, &list);
    }
    reasons(&mut answer);
    answer.notes = notes::notes(&context, &outcome, &answer);
    Ok(answer)
}

type SimulatedDesign = (JudgedDesign, Option<SimulatedResponse>);

/// The cheapest of each kind and level that meets the demand in the simulation too. Half of the places
/// are kept for other media than the cheapest, where they can do it.
fn short_list(context: &PlanContext<'_>, outcome: &SearchOutcome) -> (Vec<SimulatedDesign>, Vec<RejectedDesign>) {
    let mut choice = ShortList::default();
    let places = context.limits.list;
    for most_of_media in [places.div_ceil(2), places] {
        let mut tries = 4 * places;
        for judged in &outcome.feasible {
            if choice.list.len() >= places || tries == 0 {
                break;
            }
            if choice.has_room(context, judged, most_of_media) {
                tries -= 1;
                choice.simulate(context, judged);
            }
        }
    }
    choice.list.sort_by(|a, b| by_cost(&a.0, &b.0));
    (choice.list, choice.rejected)
}

/// A short list as far as it is done.
#[derive(Default)]
struct ShortList<'a> {
    list: Vec<SimulatedDesign>,
    rejected: Vec<RejectedDesign>,
    /// Kind, level and medium of each design.
    taken: Vec<(&'a str, &'a str, &'a str)>,
    refused: BTreeSet<String>,
}

impl<'a> ShortList<'a> {
    /// Alternatives are of another kind, or of another level.
    fn has_room(&self, context: &PlanContext<'a>, judged: &JudgedDesign, most_of_media: usize) -> bool {
        let (kind, level, medium) = (kind(context, judged), judged.level.name(), medium(context, judged));
        let most_of_kind = if medium == "cloud" { 1 } else { MOST_OF_A_KIND };
        let of_kind = self.taken.iter().filter(|taken| taken.0 == kind);
        of_kind.clone().count() < most_of_kind
            && of_kind.clone().all(|taken| taken.1 != level)
            && self.taken.iter().filter(|taken| taken.2 == medium).count() < most_of_media
            && !self.refused.contains(&context.title(judged))
    }

    fn simulate(&mut self, context: &PlanContext<'a>, judged: &JudgedDesign) {
        let design = context.design(judged);
        let found = simulate(&design, context.demand, ArrayCondition::Healthy, context.limits.simulated_requests).ok();
        match found.as_ref().and_then(|found| missed(context.demand, judged, found)) {
            Some((because, limit)) => {
                let title = context.title(judged);
                self.refused.insert(title.clone());
                self.rejected.push(rejected(context, judged, (because, limit)));
            }
            None => {
                self.taken.push((kind(context, judged), judged.level.name(), medium(context, judged)));
                self.list.push((judged.clone(), found));
            }
        }
    }
}

/// `hdd`, `ssd` or `cloud`.
fn medium(context: &PlanContext<'_>, judged: &JudgedDesign) -> &'static str {
    match context.parts[judged.part].class {
        DriveClass::Cloud => "cloud",
        DriveClass::Hdd => "hdd",
        _ => "ssd",
    }
}

/// What sort of part a design has: the group of drives that share a price, or the volume type.
fn kind<'a>(context: &PlanContext<'a>, judged: &JudgedDesign) -> &'a str {
    let id = &context.parts[judged.part].id;
    context.limits.prices.group(id).map_or(id, |group| &group.id)
}

/// Where nothing meets the demand: what misses it by least.
fn nearest(context: &PlanContext<'_>, outcome: &SearchOutcome) -> Vec<SimulatedDesign> {
    let with_worst =
        |judged: &JudgedDesign| JudgedDesign { failure: worst_failure(judged, context.with()), ..judged.clone() };
    let failing: Vec<JudgedDesign> = outcome.failing.iter().map(with_worst).collect();
    let factor = |design: &JudgedDesign| design.failure.as_ref().map_or(f64::INFINITY, |failure| failure.factor);
    let best = failing.iter().min_by(|a, b| factor(a).total_cmp(&factor(b)).then(by_cost(a, b)));
    let simulated = |judged: &JudgedDesign| {
        // what cannot keep up in the analysis is not simulated: it has no steady state
        judged.response.as_ref()?;
        let requests = context.limits.simulated_requests;
        simulate(&context.design(judged), context.demand, ArrayCondition::Healthy, requests).ok()
    };
    best.map(|judged| (judged.clone(), simulated(judged))).into_iter().collect()
}

/// Designs that are cheaper than the best and fail, the cheapest first, one of each part and level.
fn cheaper(context: &PlanContext<'_>, outcome: &SearchOutcome, best: Option<f64>) -> Vec<RejectedDesign> {
    let mut failing: Vec<&JudgedDesign> = outcome
        .failing
        .iter()
        .filter(|design| best.is_none_or(|best| design.cost.is_some_and(|cost| cost < best)))
        .collect();
    failing.sort_by(|a, b| by_cost(a, b));
    let mut taken: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut all = Vec::new();
    for judged in failing {
        if taken.insert((&context.parts[judged.part].id, judged.level.name())) {
            all.extend(rejection(context, judged));
        }
    }
    all
}

/// Why a design is not on the list.
fn rejection(context: &PlanContext<'_>, judged: &JudgedDesign) -> Option<RejectedDesign> {
    let failure = judged.failure.clone()?;
    Some(rejected(context, judged, (failure.because, failure.limit)))
}

fn rejected(context: &PlanContext<'_>, judged: &JudgedDesign, (because, limit): (String, String)) -> RejectedDesign {
    let price_period = context.parts[judged.part].period();
    let (price, cost) = (judged.price, judged.cost);
    RejectedDesign { design: context.title(judged), because, limit, price, price_period, cost, cheaper: None }
}

/// Designs that no other beats in cost and response, the cheapest first.
fn frontier(context: &PlanContext<'_>, outcome: &SearchOutcome) -> Vec<FrontierPoint> {
    let mut points: Vec<(&JudgedDesign, f64, f64)> = Vec::new();
    for judged in outcome.feasible.iter().chain(&outcome.failing) {
        let meets = judged.failure.is_none();
        let by_response = judged.failure.as_ref().is_some_and(|failure| failure.limit == "response");
        if let (Some(cost), Some(response), true) = (judged.cost, &judged.response, meets || by_response) {
            points.push((judged, cost, response.mean_s));
        }
    }
    points.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.2.total_cmp(&b.2)));
    let mut best = f64::INFINITY;
    let mut frontier = Vec::new();
    for (judged, cost, response_s) in points {
        // a hundredth less is no better
        if response_s < best * 0.99 {
            best = response_s;
            let meets = judged.failure.is_none();
            frontier.push(FrontierPoint { design: context.title(judged), cost, response_s, meets });
        }
    }
    frontier
}

/// Prices at which others of the list would be first.
fn break_even(context: &PlanContext<'_>, list: &[SimulatedDesign]) -> Vec<BreakEven> {
    let currency = &context.limits.currency;
    let Some(((first, _), others)) = list.split_first() else { return Vec::new() };
    let Some(cost) = first.cost else { return Vec::new() };
    let mut all = Vec::new();
    for (judged, _) in others {
        let part = &context.parts[judged.part];
        if part.id == context.parts[first.part].id || part.volume.is_some() {
            continue;
        }
        let kept = context.limits.existing.as_ref().map_or(0, |existing| existing.count);
        let items =
            bought(part, (judged.count + judged.spares).saturating_sub(kept), context.path(judged).as_ref(), currency);
        let [drives, rest @ ..] = &items[..] else { continue };
        let Some(rest) = rest.iter().map(|item| item.price).sum::<Option<f64>>() else { continue };
        // the controllers are paid first
        let below = (cost - rest) / f64::from(drives.count);
        if drives.item != part.id || below <= 0.0 {
            continue;
        }
        let now = part.price.as_ref().map(|price| price.amount);
        let per_tb = |price: f64| digits(price / (part.bytes / 1e12));
        let today = now.map_or_else(
            || "its price is unknown".to_owned(),
            |now| format!("it is {} {currency} ({} per TB)", digits(now), per_tb(now)),
        );
        let title = context.title(judged);
        let sentence = format!(
            "{title} would rank first below {} {currency} per drive ({} per TB); {today}",
            digits(below),
            per_tb(below)
        );
        all.push(BreakEven { part: part.id.clone(), design: title, below, now, sentence });
    }
    // of designs of one part, a lower price makes that with the higher limit the first: the others never are
    let limits: Vec<(String, f64)> = all.iter().map(|turn| (turn.part.clone(), turn.below)).collect();
    all.retain(|turn| !limits.iter().any(|(part, below)| *part == turn.part && *below > turn.below));
    all
}

/// Why each has its rank.
fn reasons(answer: &mut PlanAnswer) {
    let Some(first) = answer.designs.first() else { return };
    let (cost, response, currency) = (first.cost, first.response_s.mean, first.currency.clone());
    let feasible = answer.feasible;
    for design in &mut answer.designs {
        let sized = match design.sized_by.as_str() {
            "level" => "the minimum of the level".to_owned(),
            "offer" => "as large and fast as needed".to_owned(),
            "capacity" => "sized by capacity".to_owned(),
            "queue" => "sized by the requests in flight".to_owned(),
            _ => "sized by the response time".to_owned(),
        };
        let carries = format!("it sustains {}", design.headroom_words());
        design.why = match (feasible, design.rank, design.cost, cost) {
            (false, ..) => "no design meets the demand; this one comes closest".into(),
            (_, 1, Some(own), _) => {
                format!(
                    "the cheapest that meets the demand: {} {currency} over its years of use; {sized}; {carries}",
                    digits(own)
                )
            }
            (_, _, Some(own), Some(best)) => format!(
                "{}, {} instead of {}; {sized}; {carries}",
                match (own / best - 1.0) * 100.0 {
                    more if more < 0.5 => "the same price as rank 1".to_owned(),
                    more => format!("{} % more expensive than rank 1", digits(more)),
                },
                display(design.response_s.mean, "s"),
                display(response, "s")
            ),
            (_, _, None, None) => format!(
                "no design that meets the demand has a known price: designs are listed by the number of \
                 unknown prices, then by the known part of the price; {sized}; {carries}"
            ),
            _ => format!("its price is unknown, so it is listed after priced designs; {sized}; {carries}"),
        };
    }
}
