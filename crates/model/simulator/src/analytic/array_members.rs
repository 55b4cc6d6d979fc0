//! Members of an array: their demands, the pools of equal ones, and the rebuild of an array that lost a member.

use super::build::{NetworkBuilder, is_same_device, missing_part};
use super::device::Pool;
use super::places::{lru_hits, sum_squared_shares};
use super::requests::{BackgroundChain, RequestRoute, WorkloadRequest};
use super::{UnsolvedPart, UnsolvedReason};
use crate::array::{ArrayRequest, CopyChoice, MemberIoPlan, PassKind, Planner, RepairPass};
use crate::device::DeviceModel;
use crate::io::BLOCK_BYTES;
use crate::load::AccessPattern;
use crate::system::{ArraySpec, DriveGroupSpec};

/// I/Os of one kind at a member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MemberDemand {
    pub request: WorkloadRequest,
    /// Number of these I/Os, relative to all.
    pub weight: f64,
    pub write: bool,
    pub blocks: f64,
}

/// Members with the same demand.
pub(super) type MemberPool = (Vec<u16>, Pool);

/// Plans of one kind of request, each with its share of the requests.
pub(super) type PlanShares = Vec<(f64, MemberIoPlan)>;

/// Largest number of plans for a kind of request, unless they are all alike.
const MAX_PLANS: u64 = 16;
/// Largest number of plans for a kind of request to a degraded array.
const MAX_DEGRADED_PLANS: u64 = 512;
/// If a unit holds more requests than this, those that cross its end are ignored.
const MAX_REQUESTS_PER_UNIT: u64 = 256;
/// Members whose loads differ by at most this share form one pool.
const MAX_POOL_DIFFERENCE: f64 = 0.05;
/// Share of requests that a drive's own cache may serve unmodelled.
const MAX_DEVICE_HIT_SHARE: f64 = 0.03;
/// Deviation of the members' loads, as a share of their mean, that is ignored.
const MAX_LOAD_DEVIATION: f64 = 0.1;

/// Returns the plans of a kind of request: a single one, if all are alike.
pub(super) fn plan_requests(planner: &mut Planner, request: &WorkloadRequest, blocks: f64) -> PlanShares {
    let (unit, row) = (planner.array().unit_blocks(), planner.array().row_blocks());
    let blocks = (blocks.round() as u32).max(1);
    let align = (request.align.round() as u64).clamp(1, u64::from(blocks));
    let failed = !planner.state().failed.is_empty();
    // in a large unit, few requests cross into the next
    let even = unit.is_multiple_of(align) && align == u64::from(blocks);
    let alike = even || unit / u64::from(blocks) > MAX_REQUESTS_PER_UNIT;
    let last = planner.array().capacity_blocks().saturating_sub(u64::from(blocks));
    let members = u64::from(planner.array().member_count());
    // a planner that reads from the copies in turn makes another plan for each
    let turns = if failed { u64::from(planner.array().copy_count().max(1)) } else { 1 };
    // a degraded array is planned over as many rows as it has members: parity then has been on each of them
    let (count, step) = match (failed, alike) {
        (false, true) => (1, 0),
        (false, false) => (MAX_PLANS, (row * 2 / MAX_PLANS).max(1)),
        (true, true) => {
            let step = unit.max(u64::from(blocks)).next_multiple_of(u64::from(blocks));
            ((row * members).div_ceil(step).clamp(1, MAX_DEGRADED_PLANS), step)
        }
        (true, false) => ((row * members / unit * 4).clamp(1, MAX_DEGRADED_PLANS), (unit / 4).max(1)),
    };
    let mut known: PlanShares = Vec::new();
    for index in 0..count * turns {
        let mut plan = MemberIoPlan::new();
        let block = match (failed, alike) {
            (false, false) if align < u64::from(blocks) => golden_position(index, align, row * 2),
            _ => index / turns * step,
        };
        let block = block.next_multiple_of(align).min(last);
        planner.plan_request(ArrayRequest { write: request.write, ..ArrayRequest::read(block, blocks) }, &mut plan);
        let share = 1.0 / (count * turns) as f64;
        match known.iter_mut().find(|(_, other)| is_same_plan(other, &plan)) {
            Some((known_share, _)) => *known_share += share,
            None => known.push((share, plan)),
        }
    }
    known
}

/// Returns one of the positions that steps of the golden section spread evenly over `span_blocks` and over all offsets
/// within a unit.
fn golden_position(number: u64, align: u64, span_blocks: u64) -> u64 {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    ((number as f64 * GOLDEN + 0.5).fract() * (span_blocks / align) as f64) as u64 * align
}

/// True for plans with the same I/Os to the same members.
fn is_same_plan(a: &MemberIoPlan, b: &MemberIoPlan) -> bool {
    let key = |plan: &MemberIoPlan| (plan.reads.len(), plan.writes.len(), plan.writes_after_reads.len(), plan.work);
    let ios = |plan: &MemberIoPlan| plan.iter().map(|io| (io.member, io.blocks)).collect::<Vec<_>>();
    key(a) == key(b) && ios(a) == ios(b)
}

/// Returns the drive that serves as a member: its spare, if the member failed.
pub(super) fn member_drive(spec: &ArraySpec, member: u16) -> Option<u32> {
    match spec.failed.iter().position(|failed| *failed == member) {
        Some(index) => spec.spares.get(index).copied(),
        None => spec.members.get(usize::from(member)).copied(),
    }
}

/// Returns the total demand on the members.
pub(super) fn member_demands(routes: &[RequestRoute], plans: &[PlanShares], members: &[u16]) -> Vec<MemberDemand> {
    let mut demands: Vec<MemberDemand> = Vec::new();
    for (route, plans) in routes.iter().zip(plans) {
        for (share, plan) in plans {
            for io in plan.iter().filter(|io| members.contains(&io.member)) {
                let blocks = f64::from(io.blocks);
                let Some(demand) = route.member_demand(*share) else { continue };
                let demand = MemberDemand { write: io.write, blocks, ..demand };
                let alike = |known: &&mut MemberDemand| {
                    (known.write, known.blocks, known.request.chain) == (io.write, blocks, route.request.chain)
                        && (known.request.part, known.request.access) == (route.request.part, route.request.access)
                };
                match demands.iter_mut().find(alike) {
                    Some(known) => known.weight += demand.weight,
                    None => demands.push(demand),
                }
            }
        }
    }
    demands
}

/// Groups members with the same demand.
pub(super) fn pool_members(
    spec: &ArraySpec,
    planner: &Planner,
    routes: &[RequestRoute],
    plans: &[PlanShares],
) -> Result<Vec<MemberPool>, UnsolvedReason> {
    let array = planner.array();
    let members = f64::from(array.member_count());
    let copies = f64::from(array.copy_count());
    // neighbours share units only where the members do not divide into groups of copies
    let sharing_members = if members % copies == 0.0 { copies } else { 2.0 * copies - 1.0 };
    let intact = planner.state().failed.is_empty();
    let in_turn = if intact && spec.policy.read_from == CopyChoice::RoundRobin { copies } else { 1.0 };
    let pool = |count: f64| {
        let group = if copies > 1.0 { sharing_members.min(count) } else { count };
        Pool { members: count, group, in_turn }
    };
    if intact {
        return Ok(vec![((0..array.member_count()).collect(), pool(members))]);
    }
    let mut pools: Vec<(f64, Vec<u16>)> = Vec::new();
    for member in 0..array.member_count() {
        let load: f64 = member_demands(routes, plans, &[member]).iter().map(|demand| demand.weight).sum();
        if load <= 0.0 {
            continue;
        }
        let is_spare = planner.state().failed.contains(member);
        let alike = |(pool_load, known): &&mut (f64, Vec<u16>)| {
            (*pool_load / load - 1.0).abs() < MAX_POOL_DIFFERENCE
                && planner.state().failed.contains(known[0]) == is_spare
        };
        match pools.iter_mut().find(alike) {
            Some((_, known)) => known.push(member),
            None => pools.push((load, vec![member])),
        }
    }
    let is_in_one_pool = |ios: &[crate::array::MemberIo]| {
        let pool_of = |member: u16| pools.iter().position(|(_, members)| members.contains(&member));
        ios.windows(2).all(|pair| pool_of(pair[0].member) == pool_of(pair[1].member))
    };
    let are_pools_separate = plans.iter().flatten().all(|(_, plan)| {
        is_in_one_pool(&plan.reads) && is_in_one_pool(&plan.writes) && is_in_one_pool(&plan.writes_after_reads)
    });
    if !are_pools_separate {
        return Err(UnsolvedReason::Part { of: spec.name.clone(), part: UnsolvedPart::UnequalMembers });
    }
    Ok(pools.into_iter().map(|(_, members)| (members.clone(), pool(members.len() as f64))).collect())
}

/// Refuses so few positions that the drive's own cache, or one of its dies, holds them.
pub(super) fn check_device_hits(
    group: &DriveGroupSpec,
    ios: &[MemberDemand],
    blocks: f64,
) -> Result<(), UnsolvedReason> {
    let weight_sum: f64 = ios.iter().map(|io| io.weight).sum();
    let mut share = 0.0;
    for io in ios {
        let (from, to) = io.request.part;
        let places = (blocks * (to - from) / io.request.blocks.max(1.0)).max(1.0);
        share += io.weight / weight_sum
            * match &group.device {
                DeviceModel::Mechanical(model) => {
                    let cache = model.cache();
                    let segments = f64::from(cache.segments);
                    // each segment holds a request and what was read ahead of it
                    let segment_requests = (f64::from(cache.segment_blocks) / 2.0).max(io.blocks) / io.blocks;
                    let zipf = matches!(io.request.access, AccessPattern::Zipf { .. });
                    let used_share = match io.request.access {
                        AccessPattern::Normal { deviation, .. } => (deviation * 3.5).min(1.0),
                        _ => 1.0,
                    };
                    let per_segment = if zipf { 1.0 } else { segment_requests };
                    let cached = if io.write { 0.0 } else { segments * per_segment };
                    let places = places * used_share;
                    if cached > 0.0 { lru_hits(&io.request.access, places, cached.min(places)).share } else { 0.0 }
                }
                DeviceModel::Flash(model) => {
                    let spec = model.spec();
                    part_load_variance(
                        sum_squared_shares(&io.request.access, places),
                        f64::from(spec.channels * spec.dies_per_channel),
                    )
                }
                _ => 0.0,
            };
    }
    match share > MAX_DEVICE_HIT_SHARE {
        true => Err(UnsolvedReason::Part { of: group.name.clone(), part: UnsolvedPart::FewPlaces }),
        false => Ok(()),
    }
}

/// Squared deviation of a part's load, relative to its mean, when positions of unequal popularity, whose squared shares
/// add up to `squares`, are distributed over `parts` parts.
fn part_load_variance(squares: f64, parts: f64) -> f64 {
    squares * (parts - 1.0)
}

/// Refuses positions that load members too unevenly.
pub(super) fn check_even_load(spec: &ArraySpec, routes: &[RequestRoute], blocks: f64) -> Result<(), UnsolvedReason> {
    let members = spec.members.len() as f64;
    let unequal = |route: &RequestRoute| {
        let (from, to) = route.request.part;
        let places = (blocks * (to - from) / route.request.blocks.max(1.0)).max(1.0);
        matches!(route.request.access, AccessPattern::Zipf { .. })
            && part_load_variance(sum_squared_shares(&route.request.access, places), members)
                > MAX_LOAD_DEVIATION * MAX_LOAD_DEVIATION
    };
    match routes.iter().any(|route| route.device_blocks.is_some() && unequal(route)) {
        true => Err(UnsolvedReason::Part { of: spec.name.clone(), part: UnsolvedPart::FewPlaces }),
        false => Ok(()),
    }
}

impl NetworkBuilder<'_> {
    /// Adds the rebuild of an array that has spares for all failed members.
    pub(super) fn add_rebuild(
        &mut self,
        spec: &ArraySpec,
        group: &DriveGroupSpec,
        planner: &mut Planner,
        routes: &mut Vec<RequestRoute>,
        plans: &mut Vec<PlanShares>,
    ) -> Result<(), UnsolvedReason> {
        let Some(settings) = spec.rebuild.filter(|_| !spec.failed.is_empty() && !spec.spares.is_empty()) else {
            return Ok(());
        };
        if matches!(group.device, DeviceModel::Mechanical(_)) {
            return Err(UnsolvedReason::Part { of: spec.name.clone(), part: UnsolvedPart::Rebuild });
        }
        // with fewer spares, some members would stay failed
        if spec.spares.len() < spec.failed.len() {
            return Err(UnsolvedReason::Part { of: spec.name.clone(), part: UnsolvedPart::UnequalMembers });
        }
        for spare in &spec.spares {
            let spare = self.system.find_drive_group(*spare).ok_or_else(|| missing_part("spare"))?;
            if !is_same_device(&self.system.drives[spare.0].device, &group.device) {
                return Err(UnsolvedReason::Part { of: spec.name.clone(), part: UnsolvedPart::UnequalMembers });
            }
        }
        let mut pass = RepairPass::new(PassKind::Rebuild, planner, u64::from(settings.step_blocks));
        let mut plan = MemberIoPlan::new();
        if !pass.plan_next_step(planner, &mut plan) {
            return Ok(());
        }
        let bytes = (pass.planned_blocks() * BLOCK_BYTES) as f64;
        let max_per_s = settings.rate.map_or(f64::INFINITY, |rate| rate as f64 / bytes);
        let chain = self.load_count + self.built.background.len();
        self.built.background.push(BackgroundChain::Steps(f64::from(settings.depth.max(1)), max_per_s));
        let rate = max_per_s.min(1.0);
        let request = WorkloadRequest {
            chain,
            share: 1.0,
            rate,
            write: true,
            blocks: pass.planned_blocks() as f64,
            ..WorkloadRequest::EMPTY
        };
        routes.push(RequestRoute { request, by_host: false, device_blocks: Some(request.blocks), is_copied: false });
        plans.push(vec![(1.0, plan)]);
        Ok(())
    }
}
