//! Builds the network to be solved from a system.

use super::array_members::{
    MemberDemand, MemberPool, check_device_hits, check_even_load, member_demands, member_drive, plan_requests,
    pool_members,
};
use super::device::{DeviceCenters, DeviceDemand, Pool};
use super::mechanical::{CostCache, PlacedDemand};
use super::network::{AnalyticNetwork, ForkStep, IoKind, NetworkCenter, NetworkClass, ServiceDemand, Visit};
use super::places::PlaceShares;
use super::requests::{BackgroundChain, RequestRoute, WorkloadRequest};
use super::shared_parts;
use super::{UnsolvedPart, UnsolvedReason};
use crate::array::{
    ArrayDescription, ArrayGeometry, ArrayPolicy, ArrayState, CopyChoice, MemberIo, MemberIoPlan, Planner,
};
use crate::device::DeviceModel;
use crate::io::BLOCK_BYTES;
use crate::load;
use crate::system::{ArraySpec, DriveGroupSpec, RunBy, System, TransferMode, WorkloadTarget};

const SECONDS_PER_NS: f64 = 1e-9;

/// A network and the names of its centers.
#[derive(Debug, Default)]
pub(super) struct SystemNetwork {
    pub network: AnalyticNetwork,
    /// By center: the names of its members.
    pub names: Vec<(usize, Vec<String>)>,
    /// Members that are used less than the most used one, each with its use as a share of that one's.
    pub underused_members: Vec<(String, f64)>,
    pub devices: Vec<DeviceCenters>,
    /// Chains without a workload: background work that follows other chains.
    pub background: Vec<BackgroundChain>,
    /// Caches, with the number of requests until they are warm.
    pub cache_warm_ups: Vec<(String, f64)>,
}

/// A network under construction.
pub(super) struct NetworkBuilder<'a> {
    pub(super) system: &'a System,
    costs: &'a mut CostCache,
    pub(super) built: SystemNetwork,
    pub(super) processors: usize,
    memory: usize,
    buses: Vec<usize>,
    /// By controller: its command, port and parity stations.
    pub(super) controllers: Vec<[usize; 3]>,
    pub(super) channels: Vec<usize>,
    /// Number of workloads; chains beyond them are background chains.
    pub(super) load_count: usize,
}

impl<'a> NetworkBuilder<'a> {
    /// A network with the host's and the controllers' stations, and no requests yet.
    pub fn new(system: &'a System, costs: &'a mut CostCache) -> NetworkBuilder<'a> {
        let mut builder = NetworkBuilder {
            system,
            costs,
            built: SystemNetwork::default(),
            processors: 0,
            memory: 0,
            buses: Vec::new(),
            controllers: Vec::new(),
            channels: Vec::new(),
            load_count: system.workloads.len(),
        };
        builder.processors = builder.add_station("processors", system.host.processors);
        builder.memory = builder.add_station("memory bus", 1);
        builder.buses = system.buses.iter().map(|bus| builder.add_station(&bus.name, 1)).collect();
        for controller in &system.controllers {
            let name = &controller.name;
            let names = [name.clone(), format!("{name} port"), format!("{name} parity")];
            let stations = names.map(|name| builder.add_station(&name, 1));
            builder.controllers.push(stations);
        }
        builder.channels = system.channels.iter().map(|channel| builder.add_station(&channel.name, 1)).collect();
        for spec in &system.arrays {
            builder.join_shared_parts(spec);
        }
        builder
    }

    /// Joins stations that are equally used into one center with them as members. If `counts`, the array's members on
    /// each station, differ, the number of members is fractional, so that the most used station is right.
    pub(super) fn join_stations(&mut self, stations: &[usize], counts: &[u32]) {
        let (total, max_count) = counts.iter().fold((0, 1), |(total, max), count| (total + count, max.max(*count)));
        let members = f64::from(total) / f64::from(max_count);
        for (station, count) in stations.iter().zip(counts).filter(|(_, count)| **count < max_count) {
            let names = self.built.names.iter().find(|(center, _)| center == station);
            let share = f64::from(*count) / f64::from(max_count);
            let underused = names.iter().flat_map(|(_, names)| names.iter().map(|name| (name.clone(), share)));
            self.built.underused_members.extend(underused);
        }
        let Some((first, others)) = stations.split_first() else { return };
        let center = &mut self.built.network.centers[*first];
        (center.members, center.group) = (members, members);
        for other in others {
            let Some(index) = self.built.names.iter().position(|(center, _)| center == other) else { continue };
            let (_, names) = self.built.names.swap_remove(index);
            if let Some((_, joined)) = self.built.names.iter_mut().find(|(center, _)| center == first) {
                joined.extend(names);
            }
        }
    }

    fn add_station(&mut self, name: &str, servers: u32) -> usize {
        self.built.network.centers.push(NetworkCenter::with_servers(f64::from(servers.max(1))));
        let index = self.built.network.centers.len() - 1;
        self.built.names.push((index, vec![name.to_owned()]));
        index
    }

    /// Builds the network that serves the requests.
    pub fn build_network(mut self, requests: &[WorkloadRequest]) -> Result<SystemNetwork, UnsolvedReason> {
        let mut targets: Vec<WorkloadTarget> = Vec::new();
        for request in requests {
            if !targets.contains(&request.target) {
                targets.push(request.target);
            }
        }
        self.check_disjoint_drives(&targets)?;
        for target in targets {
            let to_target: Vec<&WorkloadRequest> = requests.iter().filter(|request| request.target == target).collect();
            match target {
                WorkloadTarget::Drive(drive) => self.add_drive(drive, &to_target)?,
                WorkloadTarget::Array(index) => {
                    let spec = self.system.arrays.get(index).ok_or_else(|| missing_part("array"))?;
                    self.add_array(spec, &to_target)?;
                }
            }
        }
        Ok(self.built)
    }

    /// Refuses drives that several targets use.
    fn check_disjoint_drives(&self, targets: &[WorkloadTarget]) -> Result<(), UnsolvedReason> {
        let mut used: Vec<u32> = Vec::new();
        for target in targets {
            let drives: &[u32] = match target {
                WorkloadTarget::Drive(drive) => std::slice::from_ref(drive),
                WorkloadTarget::Array(index) => {
                    &self.system.arrays.get(*index).ok_or_else(|| missing_part("array"))?.members
                }
            };
            if let Some(drive) = drives.iter().find(|drive| used.contains(drive)) {
                return Err(UnsolvedReason::Part { of: self.system.drive_name(*drive), part: UnsolvedPart::Shared });
            }
            used.extend(drives);
        }
        Ok(())
    }

    fn drive_group(&self, drive: u32) -> Result<&'a DriveGroupSpec, UnsolvedReason> {
        let group = self.system.find_drive_group(drive).ok_or_else(|| missing_part("drive"))?;
        Ok(&self.system.drives[group.0])
    }

    /// Adds the requests to a single drive.
    fn add_drive(&mut self, drive: u32, requests: &[&WorkloadRequest]) -> Result<(), UnsolvedReason> {
        let group = self.drive_group(drive)?;
        let pool = Pool { members: 1.0, group: 1.0, in_turn: 1.0 };
        let cache = self.controller_cache(group, None);
        let routes = self.request_routes(requests, cache, group.device.block_count(), group)?;
        let ios: Vec<MemberDemand> = routes.iter().filter_map(|route| route.member_demand(1.0)).collect();
        check_device_hits(group, &ios, group.device.block_count() as f64)?;
        let devices = self.add_devices(group, &[drive], pool, &ios, group.device.block_count());
        for route in &routes {
            let mut steps = if route.by_host { self.host_request_steps() } else { Vec::new() };
            match route.device_blocks {
                Some(blocks) => {
                    let size = (1.0, blocks, route.request.align);
                    steps.push(self.io_step(group, &devices, io_kind(route.request.write), size, route.by_host));
                }
                None => steps.extend(self.hit_steps(group, None, route)),
            }
            self.push_class(route, steps, 1.0);
        }
        self.built.devices.push(devices);
        Ok(())
    }

    /// Adds the requests to an array, according to its planner.
    fn add_array(&mut self, spec: &'a ArraySpec, requests: &[&WorkloadRequest]) -> Result<(), UnsolvedReason> {
        let group = self.drive_group(*spec.members.first().ok_or_else(|| missing_part("member"))?)?;
        for member in &spec.members {
            let other = self.drive_group(*member)?;
            let channel = |group: &DriveGroupSpec| group.channel.map(|index| self.channels.get(index));
            let (order, depth) = (other.order != group.order, other.depth != group.depth);
            if !is_same_device(&other.device, &group.device) || order || depth || channel(other) != channel(group) {
                return Err(UnsolvedReason::Part { of: spec.name.clone(), part: UnsolvedPart::UnequalMembers });
            }
        }
        // a rebuild takes the place of the scrub
        if spec.scrub.is_some() && (spec.rebuild.is_none() || spec.failed.is_empty()) {
            return Err(UnsolvedReason::Part { of: spec.name.clone(), part: UnsolvedPart::Scrub });
        }
        let array = array_geometry(spec, group)?;
        let used = array.member_blocks();
        let cache = self.controller_cache(group, Some(spec));
        let routes = self.request_routes(requests, cache, array.capacity_blocks(), group)?;
        check_even_load(spec, &routes, array.capacity_blocks() as f64)?;
        // reads directed by the load or the position of members spread evenly over all of them
        let read_from = match spec.policy.read_from {
            CopyChoice::LeastBusy | CopyChoice::Nearest | CopyChoice::IdleOrNearest => CopyChoice::RoundRobin,
            other => other,
        };
        let mut planner = Planner::new(array, ArrayPolicy { read_from, ..spec.policy });
        if !planner.set_state(ArrayState::with_failed(spec.failed.iter().copied())) {
            return Err(UnsolvedReason::Part { of: spec.name.clone(), part: UnsolvedPart::Lost });
        }
        let plans = routes.iter().map(|route| match route.device_blocks {
            Some(blocks) => plan_requests(&mut planner, &route.request, blocks),
            None => Vec::new(),
        });
        let mut plans: Vec<Vec<(f64, MemberIoPlan)>> = plans.collect();
        let mut routes = routes;
        self.add_rebuild(spec, group, &mut planner, &mut routes, &mut plans)?;
        let pools = pool_members(spec, &planner, &routes, &plans)?;
        let mut devices = Vec::new();
        for (members, pool) in &pools {
            let drives: Vec<u32> = members.iter().filter_map(|index| member_drive(spec, *index)).collect();
            let ios = member_demands(&routes, &plans, members);
            check_device_hits(group, &ios, used as f64)?;
            devices.push(self.add_devices(group, &drives, *pool, &ios, used));
        }
        for (route, plans) in routes.iter().zip(&plans) {
            if route.device_blocks.is_none() {
                let steps = self.array_hit_steps(spec, group, route);
                self.push_class(route, steps, 1.0);
            }
            for (share, plan) in plans {
                let plan_route = RequestRoute {
                    request: WorkloadRequest { share: route.request.share * share, ..route.request },
                    ..*route
                };
                let (steps, uses) = self.plan_steps(spec, group, (&pools, &devices), &plan_route, plan);
                self.push_class(&plan_route, steps, uses);
            }
        }
        self.built.devices.extend(devices);
        Ok(())
    }

    fn push_class(&mut self, route: &RequestRoute, steps: Vec<ForkStep>, uses: f64) {
        let WorkloadRequest { chain, share, write, compute_s, .. } = route.request;
        let steps = std::iter::once(self.compute_step(compute_s)).chain(steps);
        let steps = steps.filter(|step| !step.visits.is_empty() || step.delay_s != 0.0).collect();
        self.built.network.classes.push(NetworkClass { chain, share, write, steps, uses });
    }

    /// Returns the steps of a plan, and the number of members that it uses.
    fn plan_steps(
        &self,
        spec: &ArraySpec,
        group: &DriveGroupSpec,
        (pools, devices): (&[MemberPool], &[DeviceCenters]),
        route: &RequestRoute,
        plan: &MemberIoPlan,
    ) -> (Vec<ForkStep>, f64) {
        let request = &route.request;
        let hardware = match spec.run_by {
            RunBy::Controller(index) => Some(index),
            RunBy::Host => None,
        };
        let mut steps = if route.by_host { self.host_request_steps() } else { Vec::new() };
        if let Some(index) = hardware.filter(|_| route.by_host) {
            steps.push(single_step(self.downstream_visits(index, request)));
        }
        let compute = self.parity_step(hardware, plan);
        let io = |ios: &[MemberIo], kind| {
            let blocks = ios.iter().map(|io| f64::from(io.blocks)).sum::<f64>() / ios.len().max(1) as f64;
            // all I/Os of a step go to one pool, which `pool_members` guarantees
            let pool = ios.first().and_then(|io| pools.iter().position(|(members, _)| members.contains(&io.member)));
            let devices = &devices[pool.unwrap_or(0)];
            let mut step =
                self.io_step(group, devices, kind, (ios.len() as f64, blocks, request.align), hardware.is_none());
            if let Some(index) = hardware {
                let time = self.system.controllers[index].member_command_ns as f64 * SECONDS_PER_NS;
                step.visits.extend(fixed_visit(self.controllers[index][0], time));
            }
            step
        };
        let mut used: Vec<u16> = plan.iter().map(|io| io.member).collect();
        used.sort_unstable();
        used.dedup();
        if plan.reads.is_empty() && request.write {
            steps.push(compute.clone());
        }
        for (ios, write) in [(&plan.reads, false), (&plan.writes, true)] {
            if !ios.is_empty() {
                steps.push(io(ios, io_kind(write)));
            }
        }
        if !plan.reads.is_empty() {
            steps.push(compute);
        }
        if !plan.writes_after_reads.is_empty() {
            let was_read =
                |io: &MemberIo| plan.reads.iter().any(|read| read.member == io.member && read.block == io.block);
            steps.push(io(
                &plan.writes_after_reads,
                if plan.writes_after_reads.iter().all(was_read) { IoKind::Rewrite } else { IoKind::Write },
            ));
        }
        if let Some(index) = hardware.filter(|_| route.by_host) {
            steps.push(single_step(self.upstream_visits(index, request)));
        }
        steps.extend(self.copy_step(route));
        (steps, used.len() as f64)
    }

    /// Returns the step that computes a plan's parity.
    fn parity_step(&self, hardware: Option<usize>, plan: &MemberIoPlan) -> ForkStep {
        let host = &self.system.host;
        let (parity, xor, gf_mul) = match hardware {
            Some(index) => {
                let controller = &self.system.controllers[index];
                (self.controllers[index][2], controller.xor_byte_ps, controller.gf_mul_byte_ps)
            }
            None => (self.processors, host.xor_byte_ps, host.gf_mul_byte_ps),
        };
        let work_ps = (plan.work.xor_blocks * xor + plan.work.gf_mul_blocks * gf_mul) * BLOCK_BYTES;
        single_step(fixed_visit(parity, work_ps as f64 * 1e-12).into_iter().collect())
    }

    /// Returns the step of a program's processor time before its request. Programs share the processors in time slices,
    /// so all get the same share and the distribution of their work does not matter (processor sharing: Baskett,
    /// Chandy, Muntz and Palacios, "Open, closed, and mixed networks of queues with different classes of customers",
    /// JACM 22(2), 1975).
    fn compute_step(&self, time_s: f64) -> ForkStep {
        let visit = Visit { center: self.processors, work: ServiceDemand::InTurns(time_s), times: 1.0 };
        let visits = (time_s > 0.0).then_some(visit);
        ForkStep { is_before: true, ..single_step(visits.into_iter().collect()) }
    }

    /// Returns the host's processor time for a request.
    pub(super) fn host_request_steps(&self) -> Vec<ForkStep> {
        let host = fixed_visit(self.processors, self.system.host.request_ns as f64 * SECONDS_PER_NS);
        vec![single_step(host.into_iter().collect())]
    }

    /// Returns the step of an I/O to a member, or to a single drive.
    fn io_step(
        &self,
        group: &DriveGroupSpec,
        devices: &DeviceCenters,
        kind: IoKind,
        (ios, blocks, align): (f64, f64, f64),
        by_host: bool,
    ) -> ForkStep {
        let (mut visits, mut delay_s, delay_variance_s2) = devices.io_route(kind, blocks, align);
        if let Some((index, channel)) = group.channel.and_then(|index| Some((index, self.system.channels.get(index)?)))
        {
            let bytes = blocks * BLOCK_BYTES as f64;
            // a mechanical drive sends at the slower rate of the channel and its own interface
            let transfer = match (&group.device, channel.rate) {
                (DeviceModel::Mechanical(model), rate) => {
                    let interface_s = blocks * model.channel().read_block as f64 * SECONDS_PER_NS;
                    rate.map_or(interface_s, |rate| interface_s.max(bytes / rate as f64))
                }
                (_, rate) => rate.map_or(0.0, |rate| bytes / rate as f64),
            };
            visits.extend(fixed_visit(self.channels[index], channel.overhead_ns as f64 * SECONDS_PER_NS + transfer));
            // the transfer time is already part of a mechanical drive's service time
            if matches!(group.device, DeviceModel::Mechanical(_)) {
                delay_s -= transfer;
            }
            if let Some(controller) = channel.controller.filter(|_| by_host) {
                let request = WorkloadRequest { blocks, write: kind != IoKind::Read, ..WorkloadRequest::EMPTY };
                visits.extend(self.downstream_visits(controller, &request));
                visits.extend(self.upstream_visits(controller, &request));
            }
        } else if by_host {
            visits.extend(fixed_visit(self.processors, self.system.host.interrupt_ns as f64 * SECONDS_PER_NS));
        }
        ForkStep { ios, kind, visits, is_before: false, delay_s, delay_variance_s2 }
    }

    /// Returns the visits through a controller on the way to the device.
    pub(super) fn downstream_visits(&self, index: usize, request: &WorkloadRequest) -> Vec<Visit> {
        let command = self.system.controllers[index].command_ns as f64 * SECONDS_PER_NS;
        let mut visits: Vec<Visit> = fixed_visit(self.controllers[index][0], command).into_iter().collect();
        if request.write {
            visits.extend(self.link_visits(index, request.blocks));
        }
        visits
    }

    /// Returns the visits through a controller on the way back to the host.
    pub(super) fn upstream_visits(&self, index: usize, request: &WorkloadRequest) -> Vec<Visit> {
        let (controller, host) = (&self.system.controllers[index], &self.system.host);
        let mut visits = if request.write { Vec::new() } else { self.link_visits(index, request.blocks) };
        let (chunk, byte_ps) = match controller.transfer {
            TransferMode::Dma { interrupt_blocks } => (interrupt_blocks.unwrap_or(0), 0),
            TransferMode::Pio { interrupt_blocks, byte_ps } => (interrupt_blocks, byte_ps),
        };
        let interrupts = if chunk == 0 { 1.0 } else { (request.blocks / f64::from(chunk)).ceil() };
        let bytes = request.blocks * BLOCK_BYTES as f64 * byte_ps as f64 * 1e-12;
        visits.extend(fixed_visit(self.processors, interrupts * host.interrupt_ns as f64 * SECONDS_PER_NS + bytes));
        visits
    }

    /// Returns the visits of data between a controller and memory.
    fn link_visits(&self, index: usize, blocks: f64) -> Vec<Visit> {
        let (controller, bytes) = (&self.system.controllers[index], blocks * BLOCK_BYTES as f64);
        let memory = self.system.host.memory_rate.and_then(|rate| fixed_visit(self.memory, bytes / rate as f64));
        let bus = controller.bus.and_then(|bus| {
            let (bus, center) = self.system.buses.get(bus).zip(self.buses.get(bus))?;
            fixed_visit(*center, bus.overhead_ns as f64 * SECONDS_PER_NS + bytes / bus.rate as f64)
        });
        let port = controller.rate.and_then(|rate| fixed_visit(self.controllers[index][1], bytes / rate as f64));
        [memory, bus, port].into_iter().flatten().collect()
    }

    /// Adds the centers of equal devices.
    fn add_devices(
        &mut self,
        group: &DriveGroupSpec,
        drives: &[u32],
        pool: Pool,
        ios: &[MemberDemand],
        used_blocks: u64,
    ) -> DeviceCenters {
        let weight_sum: f64 = ios.iter().map(|io| io.weight).sum();
        let mut places = PlaceShares::default();
        let (mut blocks, mut writes) = (0.0, 0.0);
        for io in ios {
            places.add_request(&io.request.access, io.request.part, io.weight);
            blocks += io.weight / weight_sum * io.blocks;
            writes += if io.write { io.weight / weight_sum } else { 0.0 };
        }
        let demand = DeviceDemand {
            placed: PlacedDemand {
                blocks: blocks.max(1.0),
                write_share: writes,
                order: group.order,
                depth: group.depth.max(1),
                quantiles: places.block_quantiles(used_blocks),
            },
            sizes: ios.iter().map(|io| (io.blocks, io.write, io.weight / weight_sum)).collect(),
            max_concurrent: self.max_users(),
        };
        let rate = group.channel.and_then(|index| self.system.channels.get(index)?.rate);
        let device = group.device.with_channel_rate(rate);
        let devices =
            DeviceCenters::add_to_network((&mut self.built.network, &mut *self.costs), &device, pool, &demand);
        let names: Vec<String> = drives.iter().map(|drive| self.system.drive_name(*drive)).collect();
        for center in devices.all_centers() {
            self.built.names.push((center, names.clone()));
        }
        devices
    }

    /// Joins the channels of an array, and their controllers, if nothing else uses them.
    fn join_shared_parts(&mut self, spec: &ArraySpec) {
        let Some((channels, controllers)) = shared_parts::find_shared_parts(self.system, spec) else { return };
        let counts = |shares: &[(usize, u32)]| shares.iter().map(|(_, count)| *count).collect::<Vec<_>>();
        let stations: Vec<usize> = channels.iter().map(|(index, _)| self.channels[*index]).collect();
        self.join_stations(&stations, &counts(&channels));
        for (index, _) in &channels {
            self.channels[*index] = stations[0];
        }
        if controllers.len() > 1 {
            let joined = self.controllers[controllers[0].0];
            for (part, _) in joined.iter().enumerate() {
                let stations: Vec<usize> =
                    controllers.iter().map(|(index, _)| self.controllers[*index][part]).collect();
                self.join_stations(&stations, &counts(&controllers));
            }
            for (index, _) in &controllers {
                self.controllers[*index] = joined;
            }
        }
    }

    /// Number of users of all loads; infinite if some load is open.
    fn max_users(&self) -> f64 {
        let users = |workload: &crate::system::Workload| match &workload.load {
            load::LoadSpec::Closed(spec) => f64::from(spec.users) * f64::from(spec.outstanding),
            _ => f64::INFINITY,
        };
        self.system.workloads.iter().map(users).sum()
    }
}

pub(super) fn io_kind(write: bool) -> IoKind {
    if write { IoKind::Write } else { IoKind::Read }
}

pub(super) fn single_step(visits: Vec<Visit>) -> ForkStep {
    ForkStep { ios: 1.0, kind: IoKind::Read, visits, is_before: false, delay_s: 0.0, delay_variance_s2: 0.0 }
}

/// A visit, unless it takes no time.
pub(super) fn fixed_visit(center: usize, time_s: f64) -> Option<Visit> {
    (time_s > 0.0).then_some(Visit { center, work: ServiceDemand::Fixed(time_s, 0.0), times: 1.0 })
}

pub(super) fn missing_part(part: &'static str) -> UnsolvedReason {
    UnsolvedReason::Missing(part)
}

/// True for devices of the same model and settings: drives of one model may differ in the use of their write cache.
pub(super) fn is_same_device(a: &DeviceModel, b: &DeviceModel) -> bool {
    let acknowledges_early = |device: &DeviceModel| match device {
        DeviceModel::Mechanical(model) => model.cache().acknowledges_early,
        _ => false,
    };
    a.name() == b.name() && acknowledges_early(a) == acknowledges_early(b)
}

/// Returns the geometry of an array whose members are drives of one group.
fn array_geometry(spec: &ArraySpec, group: &DriveGroupSpec) -> Result<ArrayGeometry, UnsolvedReason> {
    let blocks = group.device.block_count();
    let blocks = spec.member_blocks.map_or(blocks, |max_blocks| max_blocks.min(blocks));
    let description = ArrayDescription {
        level: spec.level,
        members: vec![blocks; spec.members.len()],
        unit_blocks: spec.unit_blocks,
        layout: spec.layout,
        copies: spec.copies,
    };
    ArrayGeometry::new(&description).map_err(|error| UnsolvedReason::Array(spec.name.clone(), error))
}
