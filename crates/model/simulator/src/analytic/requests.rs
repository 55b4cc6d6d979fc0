//! Requests of loads, as the analysis models them: one size each, and the part that a cache passes on to the drives.

use super::array_members::MemberDemand;
use super::build::{NetworkBuilder, fixed_visit, missing_part, single_step};
use super::network::{ForkStep, Visit};
use super::places::lru_hits;
use super::{UnsolvedPart, UnsolvedReason};
use crate::cache::{BlockCacheSpec, CacheReadAhead, WritePolicy};
use crate::io::BLOCK_BYTES;
use crate::load::{AccessPattern, OperationClass, OperationTransfer, RequestSizes, TargetPart};
use crate::system::{ArraySpec, DriveGroupSpec, RunBy, System, Workload, WorkloadTarget};

/// Number of sizes that represent a uniform distribution.
const UNIFORM_SIZES: u64 = 8;

/// One kind of request of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WorkloadRequest {
    /// Its chain.
    pub chain: usize,
    /// Share of the requests of its chain.
    pub share: f64,
    /// Requests per second of its chain, as far as is known.
    pub rate: f64,
    pub write: bool,
    pub blocks: f64,
    /// Positions are multiples of this many blocks.
    pub align: f64,
    pub target: WorkloadTarget,
    /// Part of the target in use: begin and end, as shares of the target.
    pub part: (f64, f64),
    pub access: AccessPattern,
    /// True if it goes through the host's file cache.
    pub cached: bool,
    /// Processor time of its user before it, s.
    pub compute_s: f64,
}

impl WorkloadRequest {
    /// A request of nobody for nothing, to fill in.
    pub const EMPTY: WorkloadRequest = WorkloadRequest {
        chain: 0,
        share: 0.0,
        rate: 0.0,
        write: false,
        blocks: 1.0,
        align: 1.0,
        target: WorkloadTarget::Drive(0),
        part: (0.0, 1.0),
        access: AccessPattern::Uniform,
        cached: false,
        compute_s: 0.0,
    };
}

/// A chain without a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum BackgroundChain {
    /// A number of requests for each request of another chain.
    Follows(usize, f64),
    /// A number of concurrent steps, and the largest number per second.
    Steps(f64, f64),
}

/// Route of a kind of request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RequestRoute {
    pub request: WorkloadRequest,
    /// True if it comes from the host and returns there.
    pub by_host: bool,
    /// Blocks that go to the drives; `None` for a cache hit.
    pub device_blocks: Option<f64>,
    /// True if it is copied between the file cache and a program.
    pub is_copied: bool,
}

impl RequestRoute {
    /// Returns the demand on a member that gets this share of the I/Os.
    pub fn member_demand(&self, ios: f64) -> Option<MemberDemand> {
        let weight = self.request.share * self.request.rate * ios;
        let demand = |blocks| MemberDemand { request: self.request, weight, write: self.request.write, blocks };
        self.device_blocks.map(demand)
    }
}

/// A cache on a request's route.
#[derive(Clone, Copy)]
pub(super) struct CacheStage<'a> {
    spec: &'a BlockCacheSpec,
    name: &'a str,
}

/// Returns the requests of all workloads, given the throughput of each.
pub(super) fn workload_requests(system: &System, rates: &[f64]) -> Result<Vec<WorkloadRequest>, UnsolvedReason> {
    let mut requests = Vec::new();
    for (chain, (workload, rate)) in system.workloads.iter().zip(rates).enumerate() {
        let classes = super::operation_classes(workload)?;
        let sum: f64 = classes.iter().map(|class| class.weight).sum();
        for class in classes {
            let request = WorkloadRequest { chain, rate: *rate, share: class.weight / sum, ..WorkloadRequest::EMPTY };
            push_class_requests(system, workload, class, request, &mut requests)?;
        }
    }
    if requests.is_empty() { Err(missing_part("request")) } else { Ok(requests) }
}

fn push_class_requests(
    system: &System,
    workload: &Workload,
    class: &OperationClass,
    request: WorkloadRequest,
    requests: &mut Vec<WorkloadRequest>,
) -> Result<(), UnsolvedReason> {
    let refuse = |part| Err(UnsolvedReason::Part { of: class.name.clone(), part });
    let [transfer] = &class.transfers[..] else { return refuse(UnsolvedPart::Sequence) };
    if class.rounds > 1 || transfer.total_bytes.is_some() || transfer.posted {
        return refuse(UnsolvedPart::Sequence);
    }
    if matches!(transfer.access, AccessPattern::Sequential { .. }) {
        return refuse(UnsolvedPart::Places);
    }
    if transfer.cached && system.host.cache.is_none() {
        return refuse(UnsolvedPart::Cache);
    }
    let target = *workload.targets.get(usize::from(transfer.target)).ok_or_else(|| missing_part("target"))?;
    let request = WorkloadRequest {
        target,
        part: target_part(system, target, transfer)?,
        access: transfer.access,
        cached: transfer.cached,
        compute_s: transfer.compute.mean_s(),
        ..request
    };
    let write_bytes = transfer.write_bytes.as_ref().unwrap_or(&transfer.bytes);
    let min_blocks = min_size_blocks(&transfer.bytes).min(min_size_blocks(write_bytes));
    let align = if transfer.align_bytes > 0 { transfer.align_bytes as f64 / BLOCK_BYTES as f64 } else { min_blocks };
    let request = WorkloadRequest { align, ..request };
    let reads = transfer.read_share.clamp(0.0, 1.0);
    for (write, direction_share, bytes) in [(false, reads, &transfer.bytes), (true, 1.0 - reads, write_bytes)] {
        for (blocks, share) in
            size_shares(bytes).into_iter().filter(|(_, share)| direction_share * share * request.share > 0.0)
        {
            requests.push(WorkloadRequest { share: request.share * direction_share * share, write, blocks, ..request });
        }
    }
    Ok(())
}

/// Returns the part of a target in use, as shares of it.
fn target_part(
    system: &System,
    target: WorkloadTarget,
    transfer: &OperationTransfer,
) -> Result<(f64, f64), UnsolvedReason> {
    let (from, bytes) = match transfer.part {
        TargetPart::All => return Ok((0.0, 1.0)),
        TargetPart::Share { from, to } => return Ok((from, to)),
        TargetPart::Bytes { from, bytes } => (from, bytes),
    };
    let blocks = match target {
        WorkloadTarget::Drive(drive) => system.drive_blocks(drive).ok_or_else(|| missing_part("drive"))?,
        WorkloadTarget::Array(index) => {
            let array = system.arrays.get(index).ok_or_else(|| missing_part("array"))?;
            system
                .array_geometry(array)
                .map_err(|error| UnsolvedReason::Array(array.name.clone(), error))?
                .capacity_blocks()
        }
    };
    let target_bytes = (blocks * BLOCK_BYTES) as f64;
    Ok((from as f64 / target_bytes, ((from + bytes) as f64 / target_bytes).min(1.0)))
}

/// Returns the smallest size, blocks.
fn min_size_blocks(sizes: &RequestSizes) -> f64 {
    let bytes = match sizes {
        RequestSizes::One(bytes) => *bytes,
        RequestSizes::Weighted(sizes) => sizes.iter().map(|(bytes, _)| *bytes).min().unwrap_or(BLOCK_BYTES),
        RequestSizes::Uniform { from, .. } => *from,
    };
    bytes as f64 / BLOCK_BYTES as f64
}

/// Returns the sizes in blocks, each with its share.
fn size_shares(sizes: &RequestSizes) -> Vec<(f64, f64)> {
    let blocks = |bytes: u64| bytes as f64 / BLOCK_BYTES as f64;
    match sizes {
        RequestSizes::One(bytes) => vec![(blocks(*bytes), 1.0)],
        RequestSizes::Weighted(sizes) => {
            let weight_sum: f64 = sizes.iter().map(|(_, weight)| weight).sum();
            sizes.iter().map(|(bytes, weight)| (blocks(*bytes), weight / weight_sum)).collect()
        }
        RequestSizes::Uniform { from, to } => {
            let (from, to) = (blocks(*from), blocks(*to));
            let middle = |part: u64| (from + (to - from) * (part as f64 + 0.5) / UNIFORM_SIZES as f64).round().max(1.0);
            (0..UNIFORM_SIZES).map(|part| (middle(part), 1.0 / UNIFORM_SIZES as f64)).collect()
        }
    }
}

impl<'a> NetworkBuilder<'a> {
    /// Returns the controller's cache in front of a drive or an array.
    pub(super) fn controller_cache(&self, group: &DriveGroupSpec, array: Option<&ArraySpec>) -> Option<CacheStage<'a>> {
        let index = match array.map(|array| array.run_by) {
            Some(RunBy::Controller(index)) => Some(index),
            Some(RunBy::Host) | None => {
                group.channel.and_then(|index| self.system.channels.get(index)).and_then(|channel| channel.controller)
            }
        };
        let controller = self.system.controllers.get(index?)?;
        let spec = controller.cache.as_ref()?;
        Some(CacheStage { spec, name: &controller.name })
    }

    /// Returns the routes of the requests to a target.
    pub(super) fn request_routes(
        &mut self,
        requests: &[&WorkloadRequest],
        below: Option<CacheStage<'a>>,
        blocks: u64,
        group: &DriveGroupSpec,
    ) -> Result<Vec<RequestRoute>, UnsolvedReason> {
        let host = self.system.host.cache.as_ref().map(|spec| CacheStage { spec, name: "host" });
        let mut routes = Vec::new();
        for request in requests {
            let plain = RequestRoute {
                request: **request,
                by_host: true,
                device_blocks: Some(request.blocks),
                is_copied: false,
            };
            match (host.filter(|_| request.cached), below) {
                (None, None) => routes.push(plain),
                (Some(_), Some(cache)) => return cache.refuse_part(UnsolvedPart::Cache),
                (Some(cache), None) => self.route_through_cache(
                    cache,
                    RequestRoute { is_copied: true, ..plain },
                    requests,
                    blocks,
                    group,
                    &mut routes,
                )?,
                (None, Some(cache)) => self.route_through_cache(cache, plain, requests, blocks, group, &mut routes)?,
            }
        }
        Ok(routes)
    }

    /// Routes a kind of request through a cache.
    fn route_through_cache(
        &mut self,
        cache: CacheStage,
        route: RequestRoute,
        requests: &[&WorkloadRequest],
        blocks: u64,
        group: &DriveGroupSpec,
        routes: &mut Vec<RequestRoute>,
    ) -> Result<(), UnsolvedReason> {
        let request = route.request;
        cache.check_hit_model(&request, requests, blocks)?;
        let page = f64::from(cache.spec.page_blocks);
        let pages_each = (request.blocks / page).ceil();
        let places = (blocks as f64 * (request.part.1 - request.part.0) / (pages_each * page)).round().max(1.0);
        let pages = cache.spec.bytes as f64 / (page * BLOCK_BYTES as f64);
        let found = lru_hits(&request.access, places, pages / pages_each);
        self.built.cache_warm_ups.push((cache.name.to_owned(), found.warm_requests));
        let rate: f64 = requests.iter().map(|request| request.share * request.rate).sum();
        let with_share = |share: f64, below| RequestRoute {
            request: WorkloadRequest { share: request.share * share, ..request },
            device_blocks: below,
            ..route
        };
        match (request.write, cache.spec.write) {
            (false, _) => {
                routes.push(with_share(found.share, None));
                routes.push(with_share(1.0 - found.share, Some(pages_each * page)));
            }
            (true, WritePolicy::Through) => routes.push(route),
            (true, WritePolicy::Back(back)) => {
                if matches!(group.device, crate::device::DeviceModel::Mechanical(_)) {
                    return cache.refuse_part(UnsolvedPart::Posted);
                }
                routes.push(with_share(1.0, None));
                let writes = request.share * request.rate;
                // dirty units: up to the flush threshold, or until they reach the flush age
                let writes_in_age = back.flush_after.map_or(f64::INFINITY, |age| age as f64 * 1e-9 * writes);
                let dirty = (back.flush_at * pages / pages_each).min(places * -(-writes_in_age / places).exp_m1());
                let dirty_share = if rate > 0.0 { dirty / places } else { 0.0 };
                let chain = self.load_count + self.built.background.len();
                // dirty neighbours are written along, up to the largest coalesced write
                let max_run = (f64::from(back.coalesce_blocks) / (pages_each * page)).floor().max(1.0);
                let run = (1.0 / (1.0 - dirty_share).max(1e-6)).min(max_run);
                let follows = request.share * (1.0 - dirty_share) / run;
                self.built.background.push(BackgroundChain::Follows(request.chain, follows));
                let flush =
                    WorkloadRequest { chain, share: 1.0, rate: request.rate * follows, compute_s: 0.0, ..request };
                let below = Some(pages_each * page * run);
                routes.push(RequestRoute { request: flush, by_host: false, device_blocks: below, is_copied: false });
            }
        }
        routes.retain(|route| route.request.share > 0.0);
        Ok(())
    }

    /// Returns the steps of a cache hit in front of a drive.
    pub(super) fn hit_steps(
        &self,
        group: &DriveGroupSpec,
        array: Option<&ArraySpec>,
        route: &RequestRoute,
    ) -> Vec<ForkStep> {
        if route.is_copied {
            return self.copy_step(route).into_iter().collect();
        }
        let index = match array.map(|array| array.run_by) {
            Some(RunBy::Controller(index)) => Some(index),
            _ => group.channel.and_then(|index| self.system.channels.get(index)).and_then(|channel| channel.controller),
        };
        let Some(index) = index else { return Vec::new() };
        vec![
            single_step(self.downstream_visits(index, &route.request)),
            single_step(self.upstream_visits(index, &route.request)),
        ]
    }

    /// Returns the steps of a cache hit in front of an array.
    pub(super) fn array_hit_steps(
        &self,
        array: &ArraySpec,
        group: &DriveGroupSpec,
        route: &RequestRoute,
    ) -> Vec<ForkStep> {
        let mut steps = if route.is_copied { Vec::new() } else { self.host_request_steps() };
        steps.extend(self.hit_steps(group, Some(array), route));
        steps
    }

    /// Returns the copy between the file cache and a program.
    pub(super) fn copy_step(&self, route: &RequestRoute) -> Option<ForkStep> {
        let time = route.request.blocks * BLOCK_BYTES as f64 * self.system.host.copy_byte_ps as f64 * 1e-12;
        let visits: Vec<Visit> = fixed_visit(self.processors, time).into_iter().collect();
        route.is_copied.then(|| single_step(visits))
    }
}

impl CacheStage<'_> {
    fn refuse_part<T>(&self, part: UnsolvedPart) -> Result<T, UnsolvedReason> {
        Err(UnsolvedReason::Part { of: self.name.to_owned(), part })
    }

    /// Refuses requests whose hit share is unknown.
    fn check_hit_model(
        &self,
        request: &WorkloadRequest,
        requests: &[&WorkloadRequest],
        blocks: u64,
    ) -> Result<(), UnsolvedReason> {
        let is_alike = |other: &&WorkloadRequest| {
            (other.part, other.access, other.blocks) == (request.part, request.access, request.blocks)
        };
        // where everything fits, sizes do not matter
        let has_same_area = |other: &&WorkloadRequest| (other.part, other.access) == (request.part, request.access);
        let cache_blocks = self.spec.bytes as f64 / BLOCK_BYTES as f64;
        let used_blocks = blocks as f64 * (request.part.1 - request.part.0);
        let fits = used_blocks <= cache_blocks && requests.iter().all(has_same_area);
        if !(fits || requests.iter().all(is_alike)) || matches!(request.access, AccessPattern::Normal { .. }) {
            return self.refuse_part(UnsolvedPart::CacheMix);
        }
        let page = f64::from(self.spec.page_blocks);
        let partly = self.spec.read_before_partial_write && request.blocks % page != 0.0;
        let unknown = matches!(self.spec.read_ahead, CacheReadAhead::Fixed { .. })
            || self.spec.reserve_for_writes > 0.0
            || !self.spec.allocate_on_write
            || partly;
        if unknown { self.refuse_part(UnsolvedPart::Cache) } else { Ok(()) }
    }
}
