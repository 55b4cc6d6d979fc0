//! The short list: designs that meet the demand in the simulation too, of different kinds, levels and media.

use diskwright_simulator::catalogue::DriveClass;

use crate::doubtful_designs::simulate_doubtful;
use crate::judged_design::{RESPONSE_LIMIT, SizedBy};
use crate::plan_context::{PlanContext, compare_by_cost, find_missed_target};
use crate::search::{JudgedDesign, SearchOutcome};

/// Maximum number of listed designs with parts of one kind.
const MAX_OF_A_KIND: usize = 2;

/// Decides doubtful designs by simulation, sorts those that meet the demand by cost, and returns their short list.
pub(crate) fn simulate_short_list<'a>(context: &PlanContext<'a>, outcome: &mut SearchOutcome) -> ShortList<'a> {
    simulate_doubtful(context, outcome);
    outcome.feasible.sort_by(compare_by_cost);
    short_list(context, outcome)
}

/// Returns the cheapest of each kind and level that meets the demand in the simulation too. Half of the places are kept
/// for media other than that of the cheapest, if they meet the demand.
pub(crate) fn short_list<'a>(context: &PlanContext<'a>, outcome: &SearchOutcome) -> ShortList<'a> {
    let mut selection = ShortList::default();
    let list_length = context.limits.list_length;
    for max_of_media in [list_length.div_ceil(2), list_length] {
        let mut remaining_tries = 4 * list_length;
        for judged in &outcome.feasible {
            if selection.list.len() >= list_length || remaining_tries == 0 {
                break;
            }
            if selection.accepts_design(context, judged, max_of_media) {
                remaining_tries -= 1;
                selection.simulate_candidate(context, judged);
            }
        }
    }
    selection.list.sort_by(compare_by_cost);
    selection
}

/// A short list under construction.
#[derive(Default)]
pub(crate) struct ShortList<'a> {
    /// Designs of the list.
    pub list: Vec<JudgedDesign>,
    /// Designs that meet the demand only in the analysis, with what they miss.
    pub refused_by_simulation: Vec<JudgedDesign>,
    /// Kind, level and medium of each design.
    kinds_taken: Vec<(&'a str, &'a str, Medium)>,
}

/// Medium of a design's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Medium {
    Cloud,
    Hdd,
    Ssd,
}

impl<'a> ShortList<'a> {
    /// True if the list accepts the design: alternatives differ in kind or in level.
    fn accepts_design(&self, context: &PlanContext<'a>, judged: &JudgedDesign, max_of_media: usize) -> bool {
        let (kind, level, medium) = (part_kind(context, judged), judged.level.name(), part_medium(context, judged));
        let max_of_kind = if medium == Medium::Cloud { 1 } else { MAX_OF_A_KIND };
        let of_kind = self.kinds_taken.iter().filter(|taken| taken.0 == kind);
        let title = context.design_title(judged);
        of_kind.clone().count() < max_of_kind
            && of_kind.clone().all(|taken| taken.1 != level)
            && self.kinds_taken.iter().filter(|taken| taken.2 == medium).count() < max_of_media
            && !self.refused_by_simulation.iter().any(|refused| context.design_title(refused) == title)
    }

    fn simulate_candidate(&mut self, context: &PlanContext<'a>, judged: &JudgedDesign) {
        let judged = JudgedDesign { simulated: context.simulate_healthy(judged), ..judged.clone() };
        let failure = judged.simulated.as_ref().and_then(|found| find_missed_target(context.demand, &judged, found));
        if failure.is_some() {
            self.refused_by_simulation.push(JudgedDesign { failure, ..judged });
            return;
        }
        self.kinds_taken.push((part_kind(context, &judged), judged.level.name(), part_medium(context, &judged)));
        let sized_by =
            self.refused_by_simulation.iter().rev().find(|fewer| fewer.is_same_family(&judged)).map(binding_limit);
        self.list.push(JudgedDesign { sized_by: sized_by.unwrap_or(judged.sized_by), ..judged });
    }
}

/// Returns the reason for more members of a design that the simulation refused.
fn binding_limit(refused: &JudgedDesign) -> SizedBy {
    let is_late = refused.failure.as_ref().is_some_and(|failure| failure.limit == RESPONSE_LIMIT);
    if is_late { SizedBy::Response } else { SizedBy::Load }
}

/// Returns the medium of a design's part.
fn part_medium(context: &PlanContext<'_>, judged: &JudgedDesign) -> Medium {
    match context.parts[judged.part_index].class {
        DriveClass::Cloud => Medium::Cloud,
        DriveClass::Hdd => Medium::Hdd,
        _ => Medium::Ssd,
    }
}

/// Kind of a design's part: the group of drives that share a price, or the volume type.
pub(crate) fn part_kind<'a>(context: &PlanContext<'a>, judged: &JudgedDesign) -> &'a str {
    let id = &context.parts[judged.part_index].id;
    context.limits.prices.find_group(id).map_or(id, |group| &group.id)
}
