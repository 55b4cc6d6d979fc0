//! From a system to the network that is solved.

use super::device::{DeviceCenters, Pool};
use super::mechanical::DriveDemand;
use super::network::{AnalyticNetwork, ForkStep, IoKind, NetworkCenter, NetworkClass, ServiceDemand, Visit};
use super::{UnsolvedPart, UnsolvedReason};
use crate::array::{ArrayDescription, ArrayGeometry, ArrayRequest, MemberIoPlan, Planner, ReadFrom};
use crate::device::DeviceModel;
use crate::io::BLOCK_BYTES;
use crate::load;
use crate::system::{Drives, RunBy, Set, System, TransferMode, WorkloadTarget};

const S: f64 = 1e-9;

/// A network and what its centers are called.
#[derive(Debug, Default)]
pub(super) struct SystemNetwork {
    pub network: AnalyticNetwork,
    /// Center, and the names of its members.
    pub names: Vec<(usize, Vec<String>)>,
    pub devices: Vec<DeviceCenters>,
}

/// One kind of request of a workload.
struct WorkloadRequest {
    share: f64,
    write: bool,
    blocks: f64,
    target: WorkloadTarget,
    part: (f64, f64),
}

/// Building, as far as it is done.
pub(super) struct NetworkBuilder<'a> {
    system: &'a System,
    built: SystemNetwork,
    processors: usize,
    memory: usize,
    buses: Vec<usize>,
    /// Command, port and parity of each controller.
    controllers: Vec<[usize; 3]>,
    channels: Vec<usize>,
}

impl<'a> NetworkBuilder<'a> {
    pub fn new(system: &'a System) -> NetworkBuilder<'a> {
        let mut builder = NetworkBuilder {
            system,
            built: SystemNetwork::default(),
            processors: 0,
            memory: 0,
            buses: Vec::new(),
            controllers: Vec::new(),
            channels: Vec::new(),
        };
        builder.processors = builder.station("processors", system.host.processors);
        builder.memory = builder.station("memory bus", 1);
        builder.buses = system.buses.iter().map(|bus| builder.station(&bus.name, 1)).collect();
        for controller in &system.controllers {
            let name = &controller.name;
            let names = [name.clone(), format!("{name} port"), format!("{name} parity")];
            let stations = names.map(|name| builder.station(&name, 1));
            builder.controllers.push(stations);
        }
        builder.channels = system.channels.iter().map(|channel| builder.station(&channel.name, 1)).collect();
        builder
    }

    fn station(&mut self, name: &str, servers: u32) -> usize {
        self.built.network.centers.push(NetworkCenter::station(f64::from(servers.max(1))));
        let at = self.built.network.centers.len() - 1;
        self.built.names.push((at, vec![name.to_owned()]));
        at
    }

    /// The network of the classes of a load.
    pub fn classes(
        mut self,
        targets: &[WorkloadTarget],
        classes: &[load::OperationClass],
    ) -> Result<SystemNetwork, UnsolvedReason> {
        let requests = requests(targets, classes)?;
        let mut volumes: Vec<WorkloadTarget> = Vec::new();
        for request in &requests {
            if !volumes.contains(&request.target) {
                volumes.push(request.target);
            }
        }
        for target in volumes {
            let here: Vec<&WorkloadRequest> = requests.iter().filter(|request| request.target == target).collect();
            match target {
                WorkloadTarget::Drive(drive) => self.drive(drive, &here)?,
                WorkloadTarget::Array(at) => {
                    let set = self.system.arrays.get(at).ok_or_else(|| missing("array"))?;
                    self.array(set, &here)?;
                }
            }
        }
        Ok(self.built)
    }

    fn group(&self, drive: u32) -> Result<&'a Drives, UnsolvedReason> {
        let group = self.system.group_of(drive).ok_or_else(|| missing("drive"))?;
        Ok(&self.system.drives[group.0])
    }

    /// Requests to a drive by itself.
    fn drive(&mut self, drive: u32, requests: &[&WorkloadRequest]) -> Result<(), UnsolvedReason> {
        let group = self.group(drive)?;
        let pool = Pool { members: 1.0, group: 1.0, in_turn: 1.0 };
        let devices = self.devices(group, &[drive], pool, requests, None)?;
        for request in requests {
            let mut steps = self.before();
            steps.push(self.io(group, &devices, kind(request.write), 1.0, request.blocks, true));
            self.push(request, steps, 1.0);
        }
        self.built.devices.push(devices);
        Ok(())
    }

    /// Requests to an array, by the plans of its planner.
    fn array(&mut self, set: &Set, requests: &[&WorkloadRequest]) -> Result<(), UnsolvedReason> {
        let group = self.group(*set.members.first().ok_or_else(|| missing("member"))?)?;
        for member in &set.members {
            let other = self.group(*member)?;
            if other.device.name() != group.device.name() || other.order != group.order || other.depth != group.depth {
                return Err(UnsolvedReason::Part { of: set.name.clone(), part: UnsolvedPart::UnequalMembers });
            }
        }
        if !set.failed.is_empty() || set.scrub.is_some() {
            return Err(UnsolvedReason::Part { of: set.name.clone(), part: UnsolvedPart::Degraded });
        }
        let array = plain(set, group)?;
        let members = f64::from(array.members());
        let copies = f64::from(array.copies());
        // neighbours share some units only where members do not divide into groups of copies
        let side = if members % copies == 0.0 { copies } else { 2.0 * copies - 1.0 };
        let in_turn = if set.policy.read_from == ReadFrom::RoundRobin { copies } else { 1.0 };
        let pool = Pool { members, group: if copies > 1.0 { side.min(members) } else { members }, in_turn };
        let mut planner = Planner::new(array, set.policy);
        let plans: Vec<Vec<MemberIoPlan>> = requests.iter().map(|request| plans(&mut planner, request)).collect();
        let devices = self.devices(group, &set.members, pool, requests, Some(&plans))?;
        for (request, plans) in requests.iter().zip(&plans) {
            let share = 1.0 / plans.len() as f64;
            for plan in plans {
                let part = WorkloadRequest { share: request.share * share, ..**request };
                let (steps, uses) = self.planned(set, group, &devices, &part, plan);
                self.push(&part, steps, uses);
            }
        }
        self.built.devices.push(devices);
        Ok(())
    }

    fn push(&mut self, request: &WorkloadRequest, steps: Vec<ForkStep>, uses: f64) {
        let steps = steps.into_iter().filter(|step| !step.visits.is_empty() || step.delay_s != 0.0).collect();
        self.built.network.classes.push(NetworkClass { share: request.share, write: request.write, steps, uses });
    }

    /// The steps of a plan.
    fn planned(
        &self,
        set: &Set,
        group: &Drives,
        devices: &DeviceCenters,
        part: &WorkloadRequest,
        plan: &MemberIoPlan,
    ) -> (Vec<ForkStep>, f64) {
        let mut steps = self.before();
        let hardware = match set.run_by {
            RunBy::Controller(at) => Some(at),
            RunBy::Host => None,
        };
        if let Some(at) = hardware {
            steps.push(single(self.down(at, part)));
        }
        let host = &self.system.host;
        let (parity, xor, galois) = match hardware {
            Some(at) => {
                let controller = &self.system.controllers[at];
                (self.controllers[at][2], controller.xor_byte_ps, controller.galois_byte_ps)
            }
            None => (self.processors, host.xor_byte_ps, host.galois_byte_ps),
        };
        let work = (plan.work.xor_blocks * xor + plan.work.galois_blocks * galois) * BLOCK_BYTES;
        let compute = single(visit(parity, work as f64 * 1e-12).into_iter().collect());
        let io = |ios: &[crate::array::MemberIo], kind| {
            let blocks = ios.iter().map(|io| f64::from(io.blocks)).sum::<f64>() / ios.len().max(1) as f64;
            let mut step = self.io(group, devices, kind, ios.len() as f64, blocks, hardware.is_none());
            if let Some(at) = hardware {
                let time = self.system.controllers[at].member_command as f64 * S;
                step.visits.extend(visit(self.controllers[at][0], time));
            }
            step
        };
        let mut used: Vec<u16> = plan.all().map(|io| io.member).collect();
        used.sort_unstable();
        used.dedup();
        if plan.reads.is_empty() && part.write {
            steps.push(compute.clone());
        }
        for (ios, write) in [(&plan.reads, false), (&plan.writes, true)] {
            if !ios.is_empty() {
                steps.push(io(ios, kind(write)));
            }
        }
        if !plan.reads.is_empty() && part.write {
            steps.push(compute);
        }
        if !plan.after.is_empty() {
            let again = |io: &crate::array::MemberIo| {
                plan.reads.iter().any(|read| read.member == io.member && read.block == io.block)
            };
            steps.push(io(&plan.after, if plan.after.iter().all(again) { IoKind::Again } else { IoKind::Write }));
        }
        if let Some(at) = hardware {
            steps.push(single(self.up(at, part)));
        }
        (steps, used.len() as f64)
    }

    /// What the host does first.
    fn before(&self) -> Vec<ForkStep> {
        let host = visit(self.processors, self.system.host.request as f64 * S);
        vec![single(host.into_iter().collect())]
    }

    /// An I/O to a member, or to a drive by itself.
    fn io(
        &self,
        group: &Drives,
        devices: &DeviceCenters,
        kind: IoKind,
        ios: f64,
        blocks: f64,
        by_host: bool,
    ) -> ForkStep {
        let (mut visits, mut delay_s) = devices.way(kind).clone();
        if let Some((at, channel)) = group.channel.and_then(|at| Some((at, self.system.channels.get(at)?))) {
            let bytes = blocks * BLOCK_BYTES as f64;
            // a mechanical drive sends at the slower one of the channel's rate and its own interface's
            let transfer = match (&group.device, channel.rate) {
                (DeviceModel::Mechanical(model), rate) => {
                    let own = blocks * model.channel().read_block as f64 * S;
                    rate.map_or(own, |rate| own.max(bytes / rate as f64))
                }
                (_, rate) => rate.map_or(0.0, |rate| bytes / rate as f64),
            };
            visits.extend(visit(self.channels[at], channel.overhead as f64 * S + transfer));
            // the transfer of a mechanical drive is in its own time already
            if matches!(group.device, DeviceModel::Mechanical(_)) {
                delay_s -= transfer;
            }
            if let Some(controller) = channel.controller.filter(|_| by_host) {
                let part = WorkloadRequest { blocks, write: kind != IoKind::Read, ..EMPTY };
                visits.extend(self.down(controller, &part));
                visits.extend(self.up(controller, &part));
            }
        } else if by_host {
            visits.extend(visit(self.processors, self.system.host.interrupt as f64 * S));
        }
        ForkStep { ios, kind, visits, delay_s }
    }

    /// Through a controller on the way down.
    fn down(&self, at: usize, request: &WorkloadRequest) -> Vec<Visit> {
        let command = self.system.controllers[at].command as f64 * S;
        let mut visits: Vec<Visit> = visit(self.controllers[at][0], command).into_iter().collect();
        if request.write {
            visits.extend(self.lanes(at, request.blocks));
        }
        visits
    }

    /// And on the way up.
    fn up(&self, at: usize, request: &WorkloadRequest) -> Vec<Visit> {
        let (controller, host) = (&self.system.controllers[at], &self.system.host);
        let mut visits = if request.write { Vec::new() } else { self.lanes(at, request.blocks) };
        let (chunk, byte_ps) = match controller.transfer {
            TransferMode::Dma { interrupt_blocks } => (interrupt_blocks.unwrap_or(0), 0),
            TransferMode::Pio { interrupt_blocks, byte_ps } => (interrupt_blocks, byte_ps),
        };
        let interrupts = if chunk == 0 { 1.0 } else { (request.blocks / f64::from(chunk)).ceil() };
        let bytes = request.blocks * BLOCK_BYTES as f64 * byte_ps as f64 * 1e-12;
        visits.extend(visit(self.processors, interrupts * host.interrupt as f64 * S + bytes));
        visits
    }

    /// What data cross between a controller and memory.
    fn lanes(&self, at: usize, blocks: f64) -> Vec<Visit> {
        let (controller, bytes) = (&self.system.controllers[at], blocks * BLOCK_BYTES as f64);
        let memory = self.system.host.memory_rate.and_then(|rate| visit(self.memory, bytes / rate as f64));
        let bus = controller.bus.and_then(|bus| {
            let (bus, center) = self.system.buses.get(bus).zip(self.buses.get(bus))?;
            visit(*center, bus.overhead as f64 * S + bytes / bus.rate as f64)
        });
        let port = controller.rate.and_then(|rate| visit(self.controllers[at][1], bytes / rate as f64));
        [memory, bus, port].into_iter().flatten().collect()
    }

    /// The centers of the devices of a volume.
    fn devices(
        &mut self,
        group: &Drives,
        drives: &[u32],
        pool: Pool,
        requests: &[&WorkloadRequest],
        plans: Option<&[Vec<MemberIoPlan>]>,
    ) -> Result<DeviceCenters, UnsolvedReason> {
        let (mut ios, mut writes, mut blocks) = (0.0, 0.0, 0.0);
        for (at, request) in requests.iter().enumerate() {
            match plans.map(|plans| &plans[at]) {
                None => {
                    ios += request.share;
                    writes += if request.write { request.share } else { 0.0 };
                    blocks += request.share * request.blocks;
                }
                Some(plans) => {
                    let share = request.share / plans.len() as f64;
                    for io in plans.iter().flat_map(MemberIoPlan::all) {
                        ios += share;
                        writes += if io.write { share } else { 0.0 };
                        blocks += share * f64::from(io.blocks);
                    }
                }
            }
        }
        let parts = requests.iter().fold((1.0f64, 0.0f64), |a, r| (a.0.min(r.part.0), a.1.max(r.part.1)));
        let used = (group.device.blocks() as f64 * (parts.1 - parts.0).clamp(0.0, 1.0)).max(1.0) as u64;
        let asked = DriveDemand {
            blocks: (blocks / ios).max(1.0),
            used_blocks: used,
            write_share: writes / ios,
            order: group.order,
            depth: group.depth.max(1),
        };
        let rate = group.channel.and_then(|at| self.system.channels.get(at)?.rate);
        let devices = DeviceCenters::add(&mut self.built.network, &group.device.on_channel(rate), pool, &asked)?;
        if let Some(main) = devices.main() {
            self.built.names.push((main, drives.iter().map(|drive| self.system.drive_name(*drive)).collect()));
        }
        Ok(devices)
    }
}

const EMPTY: WorkloadRequest =
    WorkloadRequest { share: 0.0, write: false, blocks: 1.0, target: WorkloadTarget::Drive(0), part: (0.0, 1.0) };

fn kind(write: bool) -> IoKind {
    if write { IoKind::Write } else { IoKind::Read }
}

fn single(visits: Vec<Visit>) -> ForkStep {
    ForkStep { ios: 1.0, kind: IoKind::Read, visits, delay_s: 0.0 }
}

/// A visit, where it takes any time.
fn visit(center: usize, time_s: f64) -> Option<Visit> {
    (time_s > 0.0).then_some(Visit { center, work: ServiceDemand::Fixed(time_s, 0.0) })
}

fn missing(what: &'static str) -> UnsolvedReason {
    UnsolvedReason::Missing(what)
}

/// Most plans of one kind of request, where they are not all alike.
const PLANS: u64 = 8;

/// In a unit of more requests than this, what crosses its end does not count.
const MOST_IN_UNIT: u64 = 256;

/// Plans of requests of a kind: one, where all are alike.
fn plans(planner: &mut Planner, asking: &WorkloadRequest) -> Vec<MemberIoPlan> {
    let (unit, row) = (planner.array().unit_blocks(), planner.array().row_blocks());
    let blocks = (asking.blocks.round() as u32).max(1);
    // few of a large unit's requests cross into the next
    let alike = unit.is_multiple_of(u64::from(blocks)) || unit / u64::from(blocks) > MOST_IN_UNIT;
    let last = planner.array().blocks().saturating_sub(u64::from(blocks));
    let plan = |at: u64| {
        let mut plan = MemberIoPlan::new();
        // places are multiples of the size, spread over some rows
        let block = (at * (row * 2 / PLANS).max(1)).next_multiple_of(u64::from(blocks)).min(last);
        planner.plan(ArrayRequest { write: asking.write, ..ArrayRequest::read(block, blocks) }, &mut plan);
        plan
    };
    (0..if alike { 1 } else { PLANS }).map(plan).collect()
}

/// The array of a set whose members are drives of a group.
fn plain(set: &Set, group: &Drives) -> Result<ArrayGeometry, UnsolvedReason> {
    let blocks = group.device.blocks();
    let blocks = set.member_blocks.map_or(blocks, |most| most.min(blocks));
    let description = ArrayDescription {
        level: set.level,
        members: vec![blocks; set.members.len()],
        unit_blocks: set.unit_blocks,
        layout: set.layout,
        copies: set.copies,
    };
    ArrayGeometry::new(&description).map_err(|error| UnsolvedReason::Array(set.name.clone(), error))
}

/// Mean size of requests, blocks.
fn mean_blocks(sizes: &load::RequestSizes) -> f64 {
    let bytes = match sizes {
        load::RequestSizes::One(bytes) => *bytes as f64,
        load::RequestSizes::Uniform { from, to } => (*from as f64 + *to as f64) / 2.0,
        load::RequestSizes::Weighted(sizes) => {
            let all: f64 = sizes.iter().map(|(_, weight)| weight).sum();
            sizes.iter().map(|(bytes, weight)| *bytes as f64 * weight).sum::<f64>() / all
        }
    };
    bytes / BLOCK_BYTES as f64
}

/// The kinds of requests of a load's classes.
fn requests(
    targets: &[WorkloadTarget],
    classes: &[load::OperationClass],
) -> Result<Vec<WorkloadRequest>, UnsolvedReason> {
    let mut requests = Vec::new();
    let all: f64 = classes.iter().map(|class| class.weight).sum();
    for class in classes {
        let no = |part| Err(UnsolvedReason::Part { of: class.name.clone(), part });
        let [transfer] = &class.transfers[..] else { return no(UnsolvedPart::Sequence) };
        if class.rounds > 1 || transfer.total_bytes.is_some() || transfer.posted {
            return no(UnsolvedPart::Sequence);
        }
        if transfer.access != load::AccessPattern::Uniform {
            return no(UnsolvedPart::Places);
        }
        if transfer.cached {
            return no(UnsolvedPart::Cache);
        }
        let target = *targets.get(usize::from(transfer.target)).ok_or_else(|| missing("target"))?;
        let part = match transfer.part {
            load::TargetPart::All => (0.0, 1.0),
            load::TargetPart::Share { from, to } => (from, to),
            load::TargetPart::Bytes { .. } => return no(UnsolvedPart::Places),
        };
        let write_bytes = transfer.write_bytes.as_ref().unwrap_or(&transfer.bytes);
        let (reads, share) = (transfer.read_share.clamp(0.0, 1.0), class.weight / all);
        for (write, of, bytes) in [(false, reads, &transfer.bytes), (true, 1.0 - reads, write_bytes)] {
            if of * share > 0.0 {
                requests.push(WorkloadRequest { share: of * share, write, blocks: mean_blocks(bytes), target, part });
            }
        }
    }
    if requests.is_empty() { Err(missing("request")) } else { Ok(requests) }
}

/// The program's own processor time, a mean over the classes, s.
pub(super) fn compute_s(classes: &[load::OperationClass]) -> f64 {
    let all: f64 = classes.iter().map(|class| class.weight).sum();
    let each = |class: &load::OperationClass| {
        class.weight / all * class.transfers.iter().map(|t| t.compute.mean_s()).sum::<f64>()
    };
    classes.iter().map(each).sum()
}
