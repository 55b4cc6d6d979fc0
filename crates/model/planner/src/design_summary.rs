//! All figures of a design on the short list.

use diskwright_simulator::DeviceModel;

use crate::analysis::{DesignResponse, MEMBERS_PART, StorageDesign};
use crate::answer::{
    LossFigures, PartUtilization, PlannedController, PlannedDesign, RESPONSE_LIMIT, ResponseFigures, RuleFigures,
    SizedBy,
};
use crate::arithmetic::{front_end_blend, front_end_per_s, with_surplus, write_cost};
use crate::arithmetic_steps;
use crate::controller_path::DesignPath;
use crate::demand::Demand;
use crate::description::describe_system;
use crate::design_part::DesignPart;
use crate::limits::PlanLimits;
use crate::loss_chance::{loss_probability, repair_hours};
use crate::plan_context::{MAX_DEVIATION, PlanContext};
use crate::purchase::list_purchases;
use crate::reliability::mission_simulation::{MissionOutcome, MissionPlan, simulate_missions};
use crate::reliability::{CORRELATED_FAILURE_FACTOR, MD_CEILING_BYTES_PER_S, MemberReliability, md_rebuild_hours};
use crate::search::{
    JudgedDesign, MAX_LOAD_FACTOR, first_saturated_part, largest_factor, response_statistic, sustainable_factor,
};
use crate::simulation::{ArrayCondition, SimulatedResponse, simulate_design};

/// Missions that are simulated beside the formula.
const SIMULATED_MISSIONS: u32 = 20_000;

/// Computes all figures of a design.
pub(crate) fn describe_design(context: &PlanContext<'_>, judged: &JudgedDesign) -> PlannedDesign {
    let (design, part) = (context.storage_design(judged), &context.parts[judged.part_index]);
    let (demand, limits) = (context.demand, context.limits);
    let analysis = analysis_figures(&design, demand, judged.response.as_ref());
    let simulated = judged.simulated.and_then(|found| found.response_s).map(response_figures);
    let deviation = simulated.map(|simulated| analysis.mean / simulated.mean - 1.0);
    let response = simulated.unwrap_or(analysis);
    let sustainable = sustainable_factor(&design, demand);
    let member_load = design.member_load(demand);
    let utilization = part_utilizations(judged.response.as_ref(), &design, demand, sustainable);
    let simulate_failed = |condition| failed_member(&design, demand, condition, limits);
    let degraded = simulate_failed(ArrayCondition::Degraded);
    let rebuilding = simulate_failed(ArrayCondition::Rebuilding);
    let rebuild = rebuild_seconds(part, judged);
    let headroom = compute_headroom(&design, demand);
    let is_own_drive = limits.own_drives.iter().any(|entry| entry.id == part.id);
    let mut planned = PlannedDesign {
        rank: 0,
        level: judged.level.name().to_owned(),
        part: part.id.clone(),
        name: part.name.clone(),
        count: judged.count.into(),
        recommended_count: recommended_members(judged, part, limits),
        spares: judged.spares.into(),
        stripe_unit_bytes: design.is_striped().then_some(judged.unit_bytes),
        description: describe_system(&design, demand, judged.spares, is_own_drive),
        usable_bytes: design.usable_bytes(),
        sized_by: judged.sized_by,
        member_load_per_s: member_load,
        member_load_published_per_s: judged.level.member_iops(judged.count, demand.reads_per_s, demand.writes_per_s),
        member_sustains_per_s: member_load * sustainable,
        rules: rule_figures(judged, member_load * sustainable * f64::from(judged.count), demand.read_share()),
        queue_per_spindle: demand.requests_per_s() * response.mean / f64::from(judged.count),
        response_s: response,
        analysis_response_s: analysis,
        deviation,
        agrees: deviation.map(|deviation| deviation.abs() <= MAX_DEVIATION),
        degraded_response_s: degraded.and_then(|found| found.response_s).map(response_figures),
        rebuilding_response_s: rebuilding_response(degraded, rebuilding),
        limit: first_limit(judged, &design, demand, sustainable),
        utilization,
        headroom,
        headroom_limit: None,
        saturates_at: sustainable,
        full_after_days: full_after(&design, demand),
        rebuild_s: rebuild.map(|found| found.0),
        rebuild_loaded_s: rebuild_loaded(part, rebuild, rebuilding),
        rebuild_floor_s: rebuild.map(|found| found.1),
        loss_5_years: member_reliability(part)
            .and_then(|member| self::loss_probability(part, judged, member, &five_years(limits), 1.0)),
        loss: loss_figures(part, judged, limits),
        currency: limits.currency.clone(),
        simulated: simulated.is_some(),
        ..PlannedDesign::default()
    };
    planned.headroom_limit = headroom_limit(&planned);
    add_purchases(&mut planned, &design, judged, limits);
    planned.horizon = arithmetic_steps::horizon_figures(&planned, demand, limits);
    planned.arithmetic = arithmetic_steps::design_steps(&design, &planned, demand, limits);
    planned
}

/// The part that saturates first.
fn first_limit(judged: &JudgedDesign, design: &StorageDesign<'_>, demand: &Demand, sustainable: f64) -> String {
    match &judged.response {
        Some(response) => first_saturated_part(design, sustainable, (1.0, Some(response))),
        None => match response_at_light_load(design, demand, sustainable) {
            Some(light) if !light.utilization.is_empty() => {
                first_saturated_part(design, sustainable, (0.5 * sustainable, Some(&light)))
            }
            _ => "unknown".into(),
        },
    }
}

/// Adds purchases and watts of a design.
fn add_purchases(planned: &mut PlannedDesign, design: &StorageDesign<'_>, judged: &JudgedDesign, limits: &PlanLimits) {
    let part = design.part;
    let kept = limits.existing.as_ref().map_or(0, |existing| existing.count);
    let drives = judged.count + judged.spares;
    (planned.price, planned.cost) = (judged.price, judged.cost);
    planned.price_period = part.price_period();
    planned.price_date = part.price.as_ref().map(|price| price.date.clone());
    planned.price_source = part.price.as_ref().map(|price| price.source.clone());
    planned.bought = list_purchases(part, drives.saturating_sub(kept), design.path.as_ref(), &limits.currency);
    planned.known_price = judged.price.is_none().then_some(judged.known_price).filter(|price| *price > 0.0);
    planned.kept = kept.into();
    planned.controller = design.path.map(|path| describe_controller(&path, drives));
    planned.watts = total_watts(part, drives, planned.controller.as_ref());
    planned.watts_date = power_source(part).map(|(date, _)| date.to_owned());
    planned.watts_source = power_source(part).map(|(_, source)| source.to_owned());
}

/// The controllers of a design.
fn describe_controller(path: &DesignPath<'_>, drives: u16) -> PlannedController {
    let offer = path.offer;
    PlannedController {
        id: offer.id.clone(),
        name: offer.name.clone(),
        count: path.controllers.into(),
        channels: path.channel_count().into(),
        drives_per_channel: drives.div_ceil(path.channel_count()).into(),
        write_back_bytes: offer.cache_mib.filter(|_| path.write_back).map(|mib| mib * 1_048_576.0),
        watts_each: offer.watts,
        date: offer.date.clone(),
        source: offer.source.clone(),
    }
}

/// Watts of drives and controllers, if all are known.
fn total_watts(part: &DesignPart, drives: u16, controller: Option<&PlannedController>) -> Option<f64> {
    let controller_watts = match controller {
        Some(controller) => controller.watts_each? * f64::from(controller.count),
        None => 0.0,
    };
    Some(part.watts.as_ref()?.watts() * f64::from(drives) + controller_watts)
}

fn power_source(part: &DesignPart) -> Option<(&str, &str)> {
    part.watts.as_ref()?.day_and_source()
}

/// Load that the members carry together by the two rules, from their total I/Os.
fn rule_figures(judged: &JudgedDesign, raw: f64, read_share: f64) -> RuleFigures {
    let factor = write_cost(judged.level, judged.count);
    RuleFigures {
        front_end_per_s: front_end_per_s(raw, read_share, factor),
        blend_per_s: front_end_blend(raw, read_share, factor),
    }
}

fn response_figures(found: [f64; 3]) -> ResponseFigures {
    ResponseFigures { mean: found[0], p95: found[1], p99: found[2] }
}

fn five_years(limits: &PlanLimits) -> PlanLimits {
    PlanLimits { years: 5.0, ..limits.clone() }
}

/// Members including the surplus for surges, rounded to a number that the level allows, if they are bought singly.
fn recommended_members(judged: &JudgedDesign, part: &DesignPart, limits: &PlanLimits) -> u32 {
    use diskwright_simulator::ArrayLevel;
    let count = u32::from(judged.count);
    if judged.failure.is_some()
        || part.volume.is_some()
        || judged.level == ArrayLevel::Raid1
        || judged.sized_by == SizedBy::Level
    {
        return count;
    }
    let recommended = with_surplus(count, limits.surplus);
    // mirrored in pairs
    if matches!(judged.level, ArrayLevel::Raid10 | ArrayLevel::Raid01) {
        recommended.next_multiple_of(2)
    } else {
        recommended
    }
}

fn analysis_figures(design: &StorageDesign<'_>, demand: &Demand, response: Option<&DesignResponse>) -> ResponseFigures {
    let none = ResponseFigures { mean: f64::NAN, p95: f64::NAN, p99: f64::NAN };
    let Some(response) = response else { return none };
    let [p95, p99] = design.estimate_percentiles(demand, response).unwrap_or([f64::NAN; 2]);
    ResponseFigures { mean: response.mean_s, p95, p99 }
}

/// Utilization of each part; for a design that cannot keep up, the shares that would be needed.
fn part_utilizations(
    response: Option<&DesignResponse>,
    design: &StorageDesign<'_>,
    demand: &Demand,
    sustainable: f64,
) -> Vec<PartUtilization> {
    let part = |(part, utilization): (String, f64)| PartUtilization { part, utilization };
    if let Some(response) = response {
        return response.utilization.iter().cloned().map(part).collect();
    }
    // parts are used in proportion to the load; arms, which are busy long before, are full at the maximum that they
    // sustain
    let Some(light) = response_at_light_load(design, demand, sustainable) else { return Vec::new() };
    let is_arm = matches!(design.part.device, DeviceModel::Mechanical(_));
    let needed = light.utilization.into_iter().map(|(name, share)| match is_arm && name == MEMBERS_PART {
        true => (name, 1.0 / sustainable),
        false => (name, 2.0 * share / sustainable),
    });
    needed.map(part).collect()
}

/// Response under half of the load that it sustains.
fn response_at_light_load(design: &StorageDesign<'_>, demand: &Demand, sustainable: f64) -> Option<DesignResponse> {
    design.predict_response(&demand.scaled_by(0.5 * sustainable)).ok().flatten()
}

/// Limit of the headroom: the response limit if a part could do more, else the part that saturates first.
fn headroom_limit(planned: &PlannedDesign) -> Option<String> {
    match planned.headroom {
        factor if factor >= MAX_LOAD_FACTOR => None,
        // both are computed to half a percent
        factor if factor < 0.99 * planned.saturates_at => Some(RESPONSE_LIMIT.to_owned()),
        _ => Some(planned.limit.clone()),
    }
}

/// Load that the design sustains, as a multiple of the demand.
fn compute_headroom(design: &StorageDesign<'_>, demand: &Demand) -> f64 {
    largest_factor(|factor| {
        let demand = demand.scaled_by(factor);
        match design.predict_response(&demand) {
            Ok(Some(response)) => demand.response.is_none_or(|target| {
                response_statistic(design, &demand, &response, target.statistic) <= target.target_s
            }),
            _ => false,
        }
    })
}

fn full_after(design: &StorageDesign<'_>, demand: &Demand) -> Option<f64> {
    let growth = demand.growth.filter(|growth| growth.bytes_per_day > 0.0)?;
    Some(((design.usable_bytes() - demand.capacity_bytes?) / growth.bytes_per_day).max(0.0))
}

fn survives_one(judged: &JudgedDesign) -> bool {
    use diskwright_simulator::ArrayLevel;
    judged.count > 1 && !matches!(judged.level, ArrayLevel::Linear | ArrayLevel::Raid0)
}

fn failed_member(
    design: &StorageDesign<'_>,
    demand: &Demand,
    condition: ArrayCondition,
    limits: &PlanLimits,
) -> Option<SimulatedResponse> {
    use diskwright_simulator::ArrayLevel;
    let is_redundant = design.count > 1 && !matches!(design.level, ArrayLevel::Linear | ArrayLevel::Raid0);
    is_redundant.then(|| simulate_design(design, demand, condition, limits.simulated_requests / 2).ok()).flatten()
}

fn rebuild_seconds(part: &DesignPart, judged: &JudgedDesign) -> Option<(f64, f64)> {
    let rate = part.stream_bytes_per_s.filter(|_| survives_one(judged))?;
    let (best, floor) = md_rebuild_hours(part.capacity_bytes, rate);
    Some((best * 3600.0, floor * 3600.0))
}

/// Response while a spare is rebuilt: a design that cannot keep up with a member missing cannot then either; the
/// rebuild is simulated only for a minute.
fn rebuilding_response(
    degraded: Option<SimulatedResponse>,
    rebuilding: Option<SimulatedResponse>,
) -> Option<ResponseFigures> {
    degraded?.response_s?;
    rebuilding?.response_s.map(response_figures)
}

/// Duration of a rebuild under the demand, s.
fn rebuild_loaded(
    part: &DesignPart,
    rebuild: Option<(f64, f64)>,
    rebuilding: Option<SimulatedResponse>,
) -> Option<f64> {
    Some(rebuild?.0 * edge_slowdown(part, rebuilding?.rebuild_bytes_per_s?))
}

/// Factor by which the demand slows a rebuild down. The simulation covers only the beginning of the drives, so its rate
/// is compared with the standalone rate on the fastest tracks.
fn edge_slowdown(part: &DesignPart, bytes_per_s: f64) -> f64 {
    let standalone = part.outer_bytes_per_s.unwrap_or(f64::NAN).min(MD_CEILING_BYTES_PER_S);
    (standalone / bytes_per_s).max(1.0)
}

/// Reliability by the data sheet, else by the field.
fn member_reliability(part: &DesignPart) -> Option<MemberReliability> {
    part.spec_reliability.or(part.field_reliability)
}

fn loss_figures(part: &DesignPart, judged: &JudgedDesign, limits: &PlanLimits) -> LossFigures {
    let loss =
        |member: Option<MemberReliability>, correlation| loss_probability(part, judged, member?, limits, correlation);
    let repair = repair_hours(part, judged, limits).filter(|_| survives_one(judged));
    LossFigures {
        years: limits.years,
        repair_s: repair.map(|hours| hours * 3600.0),
        spec: loss(part.spec_reliability, 1.0),
        field: loss(part.field_reliability, 1.0),
        correlated: loss(part.field_reliability, CORRELATED_FAILURE_FACTOR).filter(|_| survives_one(judged)),
        drawn: estimate_losses(part, judged, limits, repair),
    }
}

fn estimate_losses(
    part: &DesignPart,
    judged: &JudgedDesign,
    limits: &PlanLimits,
    repair: Option<f64>,
) -> Option<MissionOutcome> {
    let plan = MissionPlan {
        level: judged.level,
        members: judged.count.into(),
        member: part.spec_reliability?,
        member_bytes: part.capacity_bytes,
        repair_hours: repair.unwrap_or(0.0),
        correlation: 1.0,
        years: limits.years,
    };
    Some(simulate_missions(&plan, SIMULATED_MISSIONS, 19))
}
