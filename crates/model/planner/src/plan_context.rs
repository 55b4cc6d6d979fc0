//! Inputs of an answer, the order of designs, the targets that a simulated design misses, and simulations that are
//! reused.

use std::cell::RefCell;

use diskwright_base::units::format_value;
use diskwright_simulator::ArrayLevel;

use crate::analysis::{MEMBERS_PART, StorageDesign};
use crate::controller_path::{ControllerOffer, DesignPath, JudgedPath};
use crate::demand::{Demand, ResponseStatistic};
use crate::design_part::DesignPart;
use crate::judged_design::RESPONSE_LIMIT;
use crate::limits::PlanLimits;
use crate::search::{DesignFailure, JudgedDesign, JudgingInputs};
use crate::simulation::{ArrayCondition, SimulatedResponse, simulate_design};

/// Simulation and analysis that differ by more than this are flagged.
pub(crate) const MAX_DEVIATION: f64 = 0.15;

/// Inputs of an answer.
pub(crate) struct PlanContext<'a> {
    pub demand: &'a Demand,
    pub limits: &'a PlanLimits,
    pub parts: &'a [DesignPart],
    pub offers: &'a [ControllerOffer],
    /// Simulations of the same load, which several searches share.
    pub simulations: &'a SimulationCache,
    /// Number of parts, from the first on, that are the same in all searches that share the simulations.
    pub shared_parts: usize,
}

/// Simulations by design. A simulation depends on the design and on the load, not on what is required of it, so that
/// requirements can be relaxed without simulating again.
#[derive(Default)]
pub(crate) struct SimulationCache {
    known: RefCell<Vec<(SimulatedDesign, Option<SimulatedResponse>)>>,
}

/// What a simulation depends on beside the load: index of the part, level, members, stripe unit and path.
type SimulatedDesign = (usize, ArrayLevel, u16, u64, Option<JudgedPath>);

impl SimulationCache {
    /// Returns what is known of a design, or simulates it.
    fn find_or_simulate(
        &self,
        design: SimulatedDesign,
        simulate: impl FnOnce() -> Option<SimulatedResponse>,
    ) -> Option<SimulatedResponse> {
        let known = self.known.borrow().iter().find(|(known, _)| *known == design).map(|(_, found)| *found);
        known.unwrap_or_else(|| {
            let found = simulate();
            self.known.borrow_mut().push((design, found));
            found
        })
    }
}

impl<'a> PlanContext<'a> {
    /// Returns the storage design of a judged one.
    pub fn storage_design(&self, judged: &JudgedDesign) -> StorageDesign<'a> {
        let JudgedDesign { level, count, unit_bytes, .. } = *judged;
        StorageDesign { part: &self.parts[judged.part_index], level, count, unit_bytes, path: self.design_path(judged) }
    }

    /// Returns the inputs by which designs are judged.
    pub fn judging_inputs(&self) -> JudgingInputs<'a> {
        JudgingInputs { demand: self.demand, limits: self.limits, parts: self.parts, offers: self.offers }
    }

    /// Simulates a judged design, once; `None` if the simulator cannot build it.
    pub fn simulate_healthy(&self, judged: &JudgedDesign) -> Option<SimulatedResponse> {
        let requests = self.limits.simulated_requests;
        let run = || simulate_design(&self.storage_design(judged), self.demand, ArrayCondition::Healthy, requests).ok();
        let JudgedDesign { part_index, level, count, unit_bytes, path, .. } = *judged;
        judged.simulated.or_else(|| match part_index < self.shared_parts {
            true => self.simulations.find_or_simulate((part_index, level, count, unit_bytes, path), run),
            false => run(),
        })
    }

    /// Returns the controllers of a judged design.
    pub fn design_path(&self, judged: &JudgedDesign) -> Option<DesignPath<'a>> {
        let JudgedPath { offer_index, controllers, write_back } = judged.path?;
        Some(DesignPath { offer: &self.offers[offer_index], controllers, write_back })
    }

    /// Formats `raid5 of 10 x compaq-4gb + 1 spare`.
    pub fn design_title(&self, judged: &JudgedDesign) -> String {
        let part = &self.parts[judged.part_index];
        let name = if part.volume.is_some() { &part.name } else { &part.id };
        let spares = match judged.spares {
            0 => String::new(),
            1 => " + 1 spare".into(),
            n => format!(" + {n} spares"),
        };
        let path = self.design_path(judged).map_or(String::new(), |path| path.describe_path());
        match judged.count {
            1 => format!("{name}{path}"),
            count => format!("{} of {count} x {name}{spares}{path}", judged.level.name()),
        }
    }
}

/// Orders by cost, cheaper first; designs without a complete price come last: by the number of unknown prices, so that
/// nothing is cheap because its price is unknown, then by the known part, by number, and by response.
pub(crate) fn compare_by_cost(a: &JudgedDesign, b: &JudgedDesign) -> std::cmp::Ordering {
    let response = |design: &JudgedDesign| design.response.as_ref().map_or(f64::INFINITY, |found| found.mean_s);
    let cost = |design: &JudgedDesign| design.cost.unwrap_or(f64::INFINITY);
    let controllers = |design: &JudgedDesign| design.path.map_or(0, |path| path.controllers);
    cost(a)
        .total_cmp(&cost(b))
        .then(a.unknown_prices.cmp(&b.unknown_prices))
        .then(a.known_price.total_cmp(&b.known_price))
        .then((a.count + a.spares).cmp(&(b.count + b.spares)))
        .then(controllers(a).cmp(&controllers(b)))
        .then(response(a).total_cmp(&response(b)))
}

/// Minimum factor by which a design that cannot keep up misses the demand, as in the analysis.
const MIN_OVERLOAD_FACTOR: f64 = 1.01;

/// Returns the target that a simulated design misses.
pub(crate) fn find_missed_target(
    demand: &Demand,
    judged: &JudgedDesign,
    found: &SimulatedResponse,
) -> Option<DesignFailure> {
    let Some(response) = found.response_s else {
        let first = judged.response.as_ref().and_then(|response| response.utilization.first());
        let limit = first.map_or(MEMBERS_PART, |part| &part.0).to_owned();
        // the answered requests waited least: the target is missed by more than their mean shows
        let late = found.answered_mean_s.zip(demand.response).map_or(1.0, |(mean, target)| mean / target.target_s);
        let factor = (1.0 / found.answered_share).max(MIN_OVERLOAD_FACTOR).max(late);
        return Some(DesignFailure { reason: "simulated, it cannot keep up with the demand".into(), limit, factor });
    };
    let target = demand.response?;
    let value = match target.statistic {
        ResponseStatistic::Mean => response[0],
        ResponseStatistic::P95 => response[1],
        ResponseStatistic::P99 => response[2],
    };
    (value > target.target_s).then(|| {
        let factor = value / target.target_s;
        let (value, target_text) = (format_value(value, "s"), format_value(target.target_s, "s"));
        let reason =
            format!("simulated, its {} response is {value}; the limit is {target_text}", target.statistic.name());
        DesignFailure { reason, limit: RESPONSE_LIMIT.into(), factor }
    })
}
