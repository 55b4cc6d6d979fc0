//! Judges every combination of part, level, number of members, stripe unit and spares.
//!
//! A design is judged by the cheapest criterion first: capacity, then requests in flight, then the analysis. More
//! members of one kind never make a response longer under open arrivals (each has less to do), so the smallest
//! sufficient number is found by bisection, and all others of the family are judged by it. Mirrors of more copies are
//! the exception (each copy writes everything); they are judged one by one.

use diskwright_base::byte_size::ByteSize;
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::catalogue::DriveClass;

use crate::analysis::{DesignResponse, MEMBERS_PART, StorageDesign};
use crate::arithmetic::usable_members;
use crate::controller_path::{ControllerOffer, DesignPath, JudgedPath, list_paths};
use crate::demand::{Demand, ResponseStatistic};
use crate::design_part::DesignPart;
use crate::limits::PlanLimits;
use crate::loss_chance::loss_probability;
use crate::price_period::PricePeriod;
use crate::purchase::{BoughtItem, list_purchases};

pub use crate::judged_design::{DesignFailure, JudgedDesign, SearchOutcome};
use crate::judged_design::{RESPONSE_LIMIT, SizedBy};
pub use crate::load_factor::{MAX_LOAD_FACTOR, first_saturated_part, largest_factor, sustainable_factor};

/// Maximum number of copies of a mirror.
const MAX_COPIES: u16 = 4;

/// Maximum number of members of an array, as in the simulator.
const MAX_MEMBERS: u16 = 128;

/// Judges all designs, on each path to their drives.
pub fn search_designs(
    demand: &Demand,
    limits: &PlanLimits,
    parts: &[DesignPart],
    offers: &[ControllerOffer],
) -> SearchOutcome {
    judge_families(JudgingInputs { demand, limits, parts, offers }, true)
}

/// Judges all designs like [`search_designs`], but does not find out why and by how much designs cannot keep up, which
/// takes most of the time.
pub(crate) fn search_without_reasons(inputs: JudgingInputs<'_>) -> SearchOutcome {
    judge_families(inputs, false)
}

/// True if [`search_designs`] would find a design that meets the demand. The search ends at the first.
pub(crate) fn is_any_feasible(inputs: JudgingInputs<'_>) -> bool {
    find_families(inputs, false).any(|(family, _)| family.has_feasible())
}

fn judge_families(inputs: JudgingInputs<'_>, gives_reasons: bool) -> SearchOutcome {
    let mut outcome = SearchOutcome::default();
    for (family, equal_units) in find_families(inputs, gives_reasons) {
        family.judge_family(equal_units, &mut outcome);
    }
    outcome
}

/// Returns all families, each with the number of stripe units that it stands for.
fn find_families(inputs: JudgingInputs<'_>, gives_reasons: bool) -> impl Iterator<Item = (DesignFamily<'_>, u64)> {
    let JudgingInputs { demand, limits, parts, offers } = inputs;
    parts.iter().enumerate().flat_map(move |(part_index, part)| {
        let paths = list_paths(part.class, offers, limits);
        let on_levels = paths
            .into_iter()
            .flat_map(move |path| allowed_levels(part, limits).into_iter().map(move |level| (path, level)));
        on_levels.flat_map(move |(judged_path, level)| {
            let path = path_of(judged_path, offers);
            distinct_stripe_units(part, level, demand, limits).into_iter().map(move |(unit_bytes, equal_units)| {
                let family = DesignFamily {
                    demand,
                    limits,
                    part,
                    part_index,
                    level,
                    unit_bytes,
                    judged_path,
                    path,
                    gives_reasons,
                };
                (family, equal_units)
            })
        })
    })
}

fn path_of(judged_path: Option<JudgedPath>, offers: &[ControllerOffer]) -> Option<DesignPath<'_>> {
    let JudgedPath { offer_index, controllers, write_back } = judged_path?;
    Some(DesignPath { offer: &offers[offer_index], controllers, write_back })
}

/// Levels that a part is used at.
fn allowed_levels(part: &DesignPart, limits: &PlanLimits) -> Vec<ArrayLevel> {
    match &part.volume {
        // providers keep copies themselves
        Some(volume) => vec![if volume.count > 1 { ArrayLevel::Raid0 } else { ArrayLevel::Linear }],
        None => limits.levels.clone(),
    }
}

/// Stripe units, each with the number of requested units that it stands for: units that no request crosses are equal.
fn distinct_stripe_units(
    part: &DesignPart,
    level: ArrayLevel,
    demand: &Demand,
    limits: &PlanLimits,
) -> Vec<(u64, u64)> {
    const DEFAULT_UNIT_BYTES: u64 = 64 * 1024;
    if part.volume.is_some() || matches!(level, ArrayLevel::Linear | ArrayLevel::Raid1) {
        return vec![(DEFAULT_UNIT_BYTES, 1)];
    }
    let sizes = [(demand.reads_per_s, demand.read_size_bytes), (demand.writes_per_s, demand.write_size_bytes)];
    let is_never_crossed = |unit: u64| {
        let mut sizes = sizes.iter().filter(|(rate, _)| *rate > 0.0);
        sizes.all(|(_, size)| unit.is_multiple_of(size.round().max(1.0) as u64))
    };
    let (equal, others): (Vec<u64>, Vec<u64>) =
        limits.stripe_units.iter().copied().partition(|unit| is_never_crossed(*unit));
    let mut units: Vec<(u64, u64)> = others.into_iter().map(|unit| (unit, 1)).collect();
    if let Some(nearest) = equal.iter().copied().min_by_key(|unit| unit.abs_diff(DEFAULT_UNIT_BYTES)) {
        units.push((nearest, equal.len() as u64));
    }
    units
}

/// Designs that differ only in number and spares.
struct DesignFamily<'a> {
    demand: &'a Demand,
    limits: &'a PlanLimits,
    part: &'a DesignPart,
    part_index: usize,
    level: ArrayLevel,
    unit_bytes: u64,
    judged_path: Option<JudgedPath>,
    path: Option<DesignPath<'a>>,
    /// False if nobody reads why and by how much a design cannot keep up.
    gives_reasons: bool,
}

impl DesignFamily<'_> {
    fn design_of_size(&self, count: u16) -> StorageDesign<'_> {
        StorageDesign { part: self.part, level: self.level, count, unit_bytes: self.unit_bytes, path: self.path }
    }

    fn allowed_spares(&self) -> Vec<u16> {
        let is_redundant = !matches!(self.level, ArrayLevel::Linear | ArrayLevel::Raid0) && self.part.volume.is_none();
        if is_redundant { self.limits.spares.clone() } else { vec![0] }
    }

    /// Minimum number of spares in every design.
    fn min_spares(&self) -> u16 {
        self.allowed_spares().into_iter().min().unwrap_or(0)
    }

    /// Minimum and maximum number of members, without spares.
    fn member_range(&self) -> (u16, u16) {
        if let Some(volume) = &self.part.volume {
            return (volume.count, volume.count);
        }
        let fewest = match self.level {
            ArrayLevel::Linear => 1,
            // with two members it is a mirror, which is a separate level
            ArrayLevel::Raid10 | ArrayLevel::Raid01 => 4,
            _ => 2,
        };
        let kept = self.limits.existing.as_ref().map_or(0, |existing| existing.count);
        let min_count = self.level.info().min_members.max(fewest).max(kept);
        // spares count among the drives, and need a slot as well
        let slots = self.path.map_or(u16::MAX, |path| path.offer.drive_capacity(path.controllers));
        let drives = self.limits.max_drives.min(slots);
        let members = drives.saturating_sub(self.min_spares());
        let max_count = match self.level {
            ArrayLevel::Raid1 => members.min(MAX_COPIES),
            ArrayLevel::Linear => 1,
            _ => members.min(MAX_MEMBERS),
        };
        (min_count.next_multiple_of(self.member_step()), max_count - max_count % self.member_step())
    }

    /// Step of the number of members: two if they are mirrored in pairs.
    fn member_step(&self) -> u16 {
        if matches!(self.level, ArrayLevel::Raid10 | ArrayLevel::Raid01) { 2 } else { 1 }
    }

    /// True if [`Self::judge_family`] would find a design that meets the demand.
    fn has_feasible(&self) -> bool {
        let (min_count, max_count) = self.member_range();
        if min_count > max_count {
            return false;
        }
        let Some(for_capacity) = self.min_for_capacity(min_count, max_count) else { return false };
        let start = for_capacity.max(self.min_for_queue(min_count));
        if start > max_count {
            return false;
        }
        let Ok(Some((count, response))) = self.min_for_response(start, max_count) else { return false };
        let mut outcome = SearchOutcome::default();
        self.add_feasible(count, response, SizedBy::Level, max_count, &mut outcome);
        !outcome.feasible.is_empty()
    }

    /// Judges all designs of the family. It counts as `equal_units` families, one for each equal stripe unit.
    fn judge_family(&self, equal_units: u64, outcome: &mut SearchOutcome) {
        let (min_count, max_count) = self.member_range();
        if min_count > max_count {
            return;
        }
        let counts = u64::from((max_count - min_count) / self.member_step() + 1);
        outcome.searched += counts * self.allowed_spares().len() as u64 * equal_units;
        let for_queue = self.min_for_queue(min_count);
        let Some(for_capacity) = self.min_for_capacity(min_count, max_count) else {
            let failure = self.capacity_failure(max_count);
            outcome.failing.push(self.judged_design(
                max_count,
                self.min_spares(),
                None,
                SizedBy::Capacity,
                Some(failure),
            ));
            return;
        };
        let start = for_capacity.max(for_queue);
        if start > max_count {
            let needed = (self.demand.queue.unwrap_or(0.0) / self.limits.queue_each).ceil();
            let factor = needed / f64::from(max_count);
            let reason =
                format!("{needed:.0} drives are needed for the requests in flight, but {max_count} are allowed");
            let failure = DesignFailure { limit: "queue per spindle".into(), reason, factor };
            outcome.failing.push(self.judged_design(max_count, self.min_spares(), None, SizedBy::Queue, Some(failure)));
            return;
        }
        let found = match self.min_for_response(start, max_count) {
            Ok(found) => found,
            Err(error) => {
                if !outcome.unsolved.contains(&error) {
                    outcome.unsolved.push(error);
                }
                return;
            }
        };
        self.add_failing(for_capacity, for_queue, found.as_ref().map(|(count, _)| *count), max_count, outcome);
        let Some((count, response)) = found else { return };
        let sized_by = match count {
            _ if self.part.volume.is_some() => SizedBy::Offer,
            n if n == min_count => SizedBy::Level,
            n if n == for_capacity => SizedBy::Capacity,
            n if n == for_queue => SizedBy::Queue,
            n => self.binding_limit(n - self.member_step()),
        };
        self.add_feasible(count, response, sized_by, max_count, outcome);
    }

    /// Returns why this many are too few, although they hold the data: they respond too late, or cannot keep up at all.
    fn binding_limit(&self, count: u16) -> SizedBy {
        let keeps_up = || matches!(self.design_of_size(count).predict_response(self.demand), Ok(Some(_)));
        if self.demand.response.is_some() && keeps_up() { SizedBy::Response } else { SizedBy::Load }
    }

    /// Adds the designs with a number of members that meets the demand, one for each allowed number of spares, and some
    /// larger ones.
    fn add_feasible(
        &self,
        count: u16,
        response: DesignResponse,
        sized_by: SizedBy,
        max_count: u16,
        outcome: &mut SearchOutcome,
    ) {
        for spares in self.allowed_spares() {
            let mut design = self.judged_design(count, spares, Some(response.clone()), sized_by, None);
            let slots = self.path.map_or(u16::MAX, |path| path.offer.drive_capacity(path.controllers));
            if count + spares > self.limits.max_drives.min(slots) && self.part.volume.is_none() {
                continue;
            }
            design.failure = self.budget_failure(&design).or_else(|| self.loss_failure(&design));
            let list = if design.failure.is_some() { &mut outcome.failing } else { &mut outcome.feasible };
            list.push(design);
        }
        if self.part.volume.is_some() {
            return;
        }
        // larger ones: for the frontier, and in case the simulation finds the smallest too slow
        let mut last_count = count;
        for factor in [1.01, 1.06, 1.12, 1.25, 1.5, 2.0, 3.0] {
            let larger = ((f64::from(count) * factor).ceil() as u16).next_multiple_of(self.member_step());
            if larger > last_count && larger <= max_count {
                last_count = larger;
                let Ok(Some(response)) = self.design_of_size(larger).predict_response(self.demand) else { continue };
                let sized_by = self.binding_limit(count);
                let mut design = self.judged_design(larger, self.min_spares(), Some(response), sized_by, None);
                design.failure = self.budget_failure(&design).or_else(|| self.loss_failure(&design));
                if design.failure.is_none() {
                    outcome.feasible.push(design);
                }
            }
        }
    }

    /// Adds the cheapest design that holds the data and fails, if the family has one. `for_capacity` and `for_queue`
    /// are the minimum numbers of members for each; `found` is the minimum number that meets the demand.
    fn add_failing(
        &self,
        for_capacity: u16,
        for_queue: u16,
        found: Option<u16>,
        max_count: u16,
        outcome: &mut SearchOutcome,
    ) {
        let fails_at = match found {
            Some(count) if count == for_capacity => return,
            // nothing in the family is sufficient: the nearest is the largest
            None => max_count,
            Some(_) => for_capacity,
        };
        if fails_at < for_queue {
            let queue_each = self.demand.queue.unwrap_or(0.0) / f64::from(fails_at);
            let factor = queue_each / self.limits.queue_each;
            let reason = format!(
                "its capacity suffices, but {queue_each:.1} requests are in flight per disk, above the limit of {}",
                self.limits.queue_each
            );
            let failure = DesignFailure { limit: "queue per spindle".into(), reason, factor };
            outcome.failing.push(self.judged_design(fails_at, self.min_spares(), None, SizedBy::Queue, Some(failure)));
            return;
        }
        let response = self.design_of_size(fails_at).predict_response(self.demand).ok().flatten();
        let failure = self.response_failure(fails_at, response.as_ref());
        let sized_by = if response.is_some() { SizedBy::Response } else { SizedBy::Load };
        outcome.failing.push(self.judged_design(fails_at, self.min_spares(), response, sized_by, failure));
    }

    /// Minimum number of members that holds the data.
    fn min_for_capacity(&self, min_count: u16, max_count: u16) -> Option<u16> {
        let need = self.needed_bytes();
        (min_count..=max_count)
            .step_by(self.member_step().into())
            .find(|count| usable_members(self.level, *count) * self.part.capacity_bytes >= need)
    }

    fn needed_bytes(&self) -> f64 {
        self.demand.capacity_after(self.limits.horizon_days).unwrap_or(0.0)
    }

    fn capacity_failure(&self, max_count: u16) -> DesignFailure {
        let (need, have) = (self.needed_bytes(), self.design_of_size(max_count).usable_bytes());
        let reason = format!(
            "{max_count} of them hold {}, but {} are needed",
            ByteSize::capacity(have),
            ByteSize::capacity(need)
        );
        DesignFailure { limit: "capacity".into(), reason, factor: need / have.max(1.0) }
    }

    /// Minimum number of members for the requests in flight, for drives with one arm.
    fn min_for_queue(&self, min_count: u16) -> u16 {
        match self.demand.queue {
            Some(queue) if self.part.class == DriveClass::Hdd => {
                let needed = (queue / self.limits.queue_each).ceil().min(60_000.0) as u16;
                min_count.max(needed.next_multiple_of(self.member_step()))
            }
            _ => min_count,
        }
    }

    /// Returns the response of this many members if it is in time.
    fn response_in_time(&self, count: u16) -> Result<Option<DesignResponse>, String> {
        let design = self.design_of_size(count);
        let response = design.predict_response(self.demand).map_err(|error| error.to_string())?;
        Ok(response.filter(|response| {
            self.demand.response.is_none_or(|target| {
                response_statistic(&design, self.demand, response, target.statistic) <= target.target_s
            })
        }))
    }

    fn min_for_response(&self, start: u16, max_count: u16) -> Result<Option<(u16, DesignResponse)>, String> {
        debug_assert!(start <= max_count, "{start} members of at most {max_count}");
        if self.level == ArrayLevel::Raid1 {
            for count in start..=max_count {
                if let Some(response) = self.response_in_time(count)? {
                    return Ok(Some((count, response)));
                }
            }
            return Ok(None);
        }
        if let Some(response) = self.response_in_time(start)? {
            return Ok(Some((start, response)));
        }
        let Some(response) = (max_count > start).then(|| self.response_in_time(max_count)).transpose()?.flatten()
        else {
            return Ok(None);
        };
        let (mut fails, mut works) = (start, (max_count, response));
        let step = self.member_step();
        assert!((max_count - start).is_multiple_of(step), "{start} and {max_count} members are steps of {step} apart");
        while works.0 - fails > step {
            let middle = fails + (works.0 - fails) / 2 / step * step;
            debug_assert!(fails < middle && middle < works.0, "bisection narrows {fails} to {}", works.0);
            match self.response_in_time(middle)? {
                Some(response) => works = (middle, response),
                None => fails = middle,
            }
        }
        Ok(Some(works))
    }

    fn judged_design(
        &self,
        count: u16,
        spares: u16,
        response: Option<DesignResponse>,
        sized_by: SizedBy,
        failure: Option<DesignFailure>,
    ) -> JudgedDesign {
        let bought = self.list_purchases(count + spares);
        // starting at 0, because the sum of nothing is -0, which would be printed
        let price = bought.iter().try_fold(0.0, |sum, item| Some(sum + item.price?));
        let known_price = bought.iter().filter_map(|item| item.price).fold(0.0, |sum, price| sum + price);
        let months = match self.part.price.as_ref().map(|price| price.period) {
            Some(PricePeriod::Month) => self.limits.years * 12.0,
            _ => 1.0,
        };
        JudgedDesign {
            part_index: self.part_index,
            level: self.level,
            count,
            spares,
            unit_bytes: self.unit_bytes,
            path: self.judged_path,
            response,
            price,
            known_price,
            unknown_prices: bought.iter().filter(|item| item.price.is_none()).count(),
            cost: price.map(|price| price * months),
            sized_by,
            simulated: None,
            failure,
        }
    }

    /// Lists the purchases for this many drives, without existing ones.
    fn list_purchases(&self, drives: u16) -> Vec<BoughtItem> {
        let kept = self.limits.existing.as_ref().map_or(0, |existing| existing.count);
        list_purchases(self.part, drives.saturating_sub(kept), self.path.as_ref(), &self.limits.currency)
    }

    fn budget_failure(&self, design: &JudgedDesign) -> Option<DesignFailure> {
        let budget = self.limits.budget?;
        let currency = &self.limits.currency;
        match design.cost {
            Some(cost) if cost <= budget => None,
            Some(cost) => Some(DesignFailure {
                limit: "budget".into(),
                reason: format!("it costs {cost:.0} {currency} over its years of use, above the budget of {budget:.0}"),
                factor: cost / budget,
            }),
            None => Some(DesignFailure {
                limit: "price".into(),
                reason: format!("its price in {currency} is unknown, so it cannot be compared with the budget"),
                factor: f64::INFINITY,
            }),
        }
    }

    fn loss_failure(&self, design: &JudgedDesign) -> Option<DesignFailure> {
        let max_loss = self.limits.max_loss?;
        let member = self.part.spec_reliability.or(self.part.field_reliability);
        let loss = member.and_then(|member| loss_probability(self.part, design, member, self.limits, 1.0));
        match loss {
            Some(loss) if loss <= max_loss => None,
            Some(loss) => Some(DesignFailure {
                limit: "loss".into(),
                reason: format!(
                    "the chance of losing data is {loss:.2e} over its years of use, above the limit of {max_loss:.2e}"
                ),
                factor: loss / max_loss,
            }),
            None => Some(DesignFailure {
                limit: "loss".into(),
                reason: "its failure rate is unknown, and so is the chance of losing data".into(),
                factor: f64::INFINITY,
            }),
        }
    }

    /// Returns the failure of a design that cannot keep up, and by how much.
    fn overload_failure(&self, design: &StorageDesign<'_>) -> DesignFailure {
        if !self.gives_reasons {
            return DesignFailure { limit: MEMBERS_PART.into(), reason: String::new(), factor: f64::INFINITY };
        }
        let sustainable = sustainable_factor(design, self.demand);
        let light = design.predict_response(&self.demand.scaled_by(0.5 * sustainable)).ok().flatten();
        let limit = first_saturated_part(design, sustainable, (0.5 * sustainable, light.as_ref()));
        let reason = self.describe_overload(design, &limit, 1.0 / sustainable);
        // if the response is too long under less load as well, both are missed
        let missed = match (&light, self.demand.response) {
            (Some(light), Some(target)) => light.mean_s / target.target_s,
            _ => 1.0,
        };
        DesignFailure { limit, reason, factor: (1.0 / sustainable).max(1.01) * missed.max(1.0) }
    }

    fn describe_overload(&self, design: &StorageDesign<'_>, limit: &str, overload: f64) -> String {
        let each = match self.part.volume {
            None => format!(" ({:.0} I/Os per second on each)", design.member_load(self.demand)),
            Some(_) => String::new(),
        };
        let percent = (overload * 100.0).max(101.0);
        format!("{limit} cannot keep up: the demand is {percent:.0} % of what it sustains{each}")
    }

    fn response_failure(&self, count: u16, response: Option<&DesignResponse>) -> Option<DesignFailure> {
        let design = self.design_of_size(count);
        let Some(response) = response else {
            return Some(self.overload_failure(&design));
        };
        let target = self.demand.response?;
        let value = response_statistic(&design, self.demand, response, target.statistic);
        let show = |seconds| diskwright_base::units::format_value(seconds, "s");
        let reason = format!(
            "the {} response is {}, above the limit of {}; {} is {:.0} % busy",
            target.statistic.name(),
            show(value),
            show(target.target_s),
            response.utilization.first().map_or("nothing", |part| &part.0),
            response.busiest_share() * 100.0
        );
        Some(DesignFailure { limit: RESPONSE_LIMIT.into(), reason, factor: value / target.target_s })
    }
}

/// Inputs by which designs are judged.
#[derive(Clone, Copy)]
pub struct JudgingInputs<'a> {
    /// The demand.
    pub demand: &'a Demand,
    /// The limits.
    pub limits: &'a PlanLimits,
    /// All parts.
    pub parts: &'a [DesignPart],
    /// All controllers.
    pub offers: &'a [ControllerOffer],
}

/// Returns the family to which a judged design belongs.
fn family_of<'a>(judged: &JudgedDesign, inputs: JudgingInputs<'a>) -> DesignFamily<'a> {
    let JudgingInputs { demand, limits, parts, offers } = inputs;
    let JudgedDesign { part_index, level, unit_bytes, path: judged_path, .. } = *judged;
    let path = path_of(judged_path, offers);
    let part = &parts[part_index];
    DesignFamily { demand, limits, part, part_index, level, unit_bytes, judged_path, path, gives_reasons: true }
}

/// Returns the limit that a failing design misses by most: the search stops at the first. For the response, the
/// simulation has precedence.
pub fn worst_failure(judged: &JudgedDesign, inputs: JudgingInputs<'_>) -> Option<DesignFailure> {
    let family = family_of(judged, inputs);
    let analysis_failure = || match &judged.response {
        Some(response) => family.response_failure(judged.count, Some(response)),
        None => family.response_failure(
            judged.count,
            family.design_of_size(judged.count).predict_response(inputs.demand).ok().flatten().as_ref(),
        ),
    };
    let response_failure = if judged.simulated.is_some() { None } else { analysis_failure() };
    let failures = [judged.failure.clone(), response_failure, family.budget_failure(judged)];
    failures.into_iter().flatten().max_by(|a, b| a.factor.total_cmp(&b.factor))
}

/// Returns a limit other than the response that a design misses.
pub(crate) fn budget_or_loss_failure(judged: &JudgedDesign, inputs: JudgingInputs<'_>) -> Option<DesignFailure> {
    let family = family_of(judged, inputs);
    family.budget_failure(judged).or_else(|| family.loss_failure(judged))
}

/// Returns a statistic of the response by analysis.
pub fn response_statistic(
    design: &StorageDesign<'_>,
    demand: &Demand,
    response: &DesignResponse,
    statistic: ResponseStatistic,
) -> f64 {
    match statistic {
        ResponseStatistic::Mean => response.mean_s,
        ResponseStatistic::P95 | ResponseStatistic::P99 => {
            let index = usize::from(statistic == ResponseStatistic::P99);
            design.estimate_percentiles(demand, response).map_or(f64::INFINITY, |found| found[index])
        }
    }
}
