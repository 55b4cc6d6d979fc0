//! Devices of every kind as the analysis models them: centers that an I/O visits one after another, plus a delay.

use std::sync::Arc;

use super::io_costs::LoadCosts;
use super::mechanical::{CostCache, PlacedDemand};
use super::network::{AnalyticNetwork, IoKind, NetworkCenter, ServiceDemand, Visit};
use crate::device::{DeviceModel, PlainSpec};
use crate::drive::QueuePolicy;
use crate::flash::FlashModel;
use crate::io::BLOCK_BYTES;
use crate::volume::VolumeSpec;

const SECONDS_PER_NS: f64 = 1e-9;

/// How requests choose among the members: see the fields of this name in `NetworkCenter`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool {
    pub members: f64,
    pub group: f64,
    pub in_turn: f64,
}

/// Total demand on a device.
pub(super) struct DeviceDemand {
    pub placed: PlacedDemand,
    /// Kinds of its I/Os: size in blocks, true for a write, and share. They give the mean times at a volume's limits.
    pub sizes: Vec<(f64, bool, f64)>,
    /// Largest number of concurrent requests; infinite for open arrivals.
    pub max_concurrent: f64,
}

/// Kind of a device, with the centers of its parts.
#[derive(Clone, Debug)]
enum DeviceParts {
    Mechanical(usize),
    Plain {
        spec: Arc<PlainSpec>,
        center: usize,
    },
    /// Each bucket by direction (reads, writes) and limit (operations, bytes). Reads and writes use the same buckets,
    /// unless writes have their own limits.
    Volume {
        spec: Arc<VolumeSpec>,
        buckets: [[usize; 2]; 2],
        slots: Option<usize>,
    },
    Flash(FlashParts),
}

/// Centers of an SSD.
#[derive(Clone, Debug)]
struct FlashParts {
    model: Arc<FlashModel>,
    processor: usize,
    /// The links of reads and of writes.
    links: [usize; 2],
    channel: usize,
    dies: usize,
    /// Programs of buffered writes, in the background.
    programs: usize,
}

/// Centers of equal devices.
#[derive(Clone, Debug)]
pub(super) struct DeviceCenters {
    parts: DeviceParts,
}

/// Visits of an I/O, its delay, s, and the variance of the delay, s².
pub(super) type IoRoute = (Vec<Visit>, f64, f64);

impl DeviceCenters {
    /// Adds the centers of equal devices to a network.
    pub fn add_to_network(
        (network, costs): (&mut AnalyticNetwork, &mut CostCache),
        device: &DeviceModel,
        pool: Pool,
        demand: &DeviceDemand,
    ) -> DeviceCenters {
        let mut appender = NetworkAppender { network, pool };
        let parts = match device {
            DeviceModel::Mechanical(model) => {
                appender.add_mechanical(costs.drive_costs(model, &demand.placed), demand.placed.order)
            }
            DeviceModel::Flash(model) => appender.add_flash(model, demand),
            DeviceModel::Plain(spec) => {
                let servers = f64::from(spec.servers.min(demand.placed.depth).max(1));
                DeviceParts::Plain { spec: Arc::clone(spec), center: appender.add_center(1.0, servers) }
            }
            DeviceModel::Volume(spec) => appender.add_volume(spec, demand),
        };
        DeviceCenters { parts }
    }

    /// Returns the route of an I/O of `blocks` blocks at multiples of `align` blocks.
    pub fn io_route(&self, kind: IoKind, blocks: f64, align: f64) -> IoRoute {
        let bytes = blocks * BLOCK_BYTES as f64;
        let write = kind != IoKind::Read;
        match &self.parts {
            DeviceParts::Mechanical(center) => {
                (vec![Visit { center: *center, work: ServiceDemand::ByDepth, times: 1.0 }], 0.0, 0.0)
            }
            DeviceParts::Plain { spec, center } => {
                let mean = spec.service.mean() * SECONDS_PER_NS;
                let variance = spec.service.variation_squared() * mean * mean;
                let work = ServiceDemand::Fixed(mean + bytes / spec.bytes_per_s, variance);
                (vec![Visit { center: *center, work, times: 1.0 }], 0.0, 0.0)
            }
            DeviceParts::Volume { spec, buckets, slots } => {
                let latency = if write { &spec.write } else { &spec.read };
                let mean = latency.mean() * SECONDS_PER_NS;
                let variance = latency.variation_squared() * mean * mean;
                let time = mean + bytes / spec.stream_bytes_per_s;
                let limits_s = limit_times_s(spec, blocks, write);
                let visit = |limit_index: usize| Visit {
                    center: buckets[usize::from(write)][limit_index],
                    work: ServiceDemand::Fixed(limits_s[limit_index], 0.0),
                    times: 1.0,
                };
                let mut visits = vec![visit(0), visit(1)];
                let hold = limits_s[0] + limits_s[1];
                if let Some(slots) = slots {
                    visits.push(Visit { center: *slots, work: ServiceDemand::Fixed(time, variance), times: 1.0 });
                    return (visits, -hold, 0.0);
                }
                // time at a limit is not part of the latency: a request starts as soon as the limit has admitted those
                // before it
                (visits, time - hold, variance)
            }
            DeviceParts::Flash(parts) => parts.io_route(write, bytes, align * BLOCK_BYTES as f64),
        }
    }

    /// For a volume: its centers of operations and of bytes.
    pub fn limit_centers(&self) -> Option<[usize; 2]> {
        match &self.parts {
            DeviceParts::Volume { buckets, .. } => Some(buckets[0]),
            _ => None,
        }
    }

    /// The center whose members are the devices, for their utilization.
    fn main_center(&self) -> usize {
        match &self.parts {
            DeviceParts::Mechanical(center) | DeviceParts::Plain { center, .. } => *center,
            DeviceParts::Volume { buckets, .. } => buckets[0][0],
            DeviceParts::Flash(parts) => parts.dies,
        }
    }

    /// All centers that are parts of a device.
    pub fn all_centers(&self) -> Vec<usize> {
        match &self.parts {
            DeviceParts::Flash(parts) => {
                vec![parts.processor, parts.links[0], parts.links[1], parts.channel, parts.dies, parts.programs]
            }
            DeviceParts::Volume { buckets: [reads, writes], .. } if reads == writes => reads.to_vec(),
            DeviceParts::Volume { buckets, .. } => buckets.concat(),
            _ => vec![self.main_center()],
        }
    }

    /// The center of background work that also occupies this center: programs, on the dies that reads need.
    pub fn background_center(&self, center: usize) -> Option<usize> {
        match &self.parts {
            DeviceParts::Flash(parts) if parts.dies == center => Some(parts.programs),
            _ => None,
        }
    }

    /// True if waits are those of token buckets.
    pub fn is_volume(&self) -> bool {
        self.limit_centers().is_some()
    }

    /// True if written data are programmed in the background, where reads may meet the programs.
    pub fn has_background_programs(&self) -> bool {
        matches!(self.parts, DeviceParts::Flash(_))
    }

    /// Adds the waits of reads for programs, at this total rate of requests.
    pub fn add_program_waits(&self, network: &mut AnalyticNetwork, requests_per_s: f64) {
        let DeviceParts::Flash(FlashParts { model, dies, programs, .. }) = &self.parts else { return };
        let spec = model.spec();
        let (program, erase) = (spec.program_ns as f64 * SECONDS_PER_NS, spec.erase_ns as f64 * SECONDS_PER_NS);
        let max_wait = spec.suspend_ns.map_or(f64::INFINITY, |suspend| suspend as f64 * SECONDS_PER_NS);
        let busy = (requests_per_s * network.background_work_s(*programs)).min(1.0);
        if busy <= 0.0 {
            return;
        }
        // part of that time goes to erasing; on average, each is met in its middle
        let erasing = erase / f64::from(spec.pages_per_block) / (program + erase / f64::from(spec.pages_per_block));
        let waits = [(1.0 - erasing, max_wait.min(program / 2.0)), (erasing, max_wait.min(erase / 2.0))];
        let mean: f64 = waits.iter().map(|(share, time)| share * time).sum();
        let square: f64 = waits.iter().map(|(share, time)| share * time * time * 4.0 / 3.0).sum();
        for class in &mut network.classes {
            for visit in class.steps.iter_mut().flat_map(|step| &mut step.visits) {
                if let (ServiceDemand::Fixed(time, variance), true) = (&mut visit.work, visit.center == *dies) {
                    // any of the dies that the read needs may be busy
                    let met = 1.0 - (1.0 - busy).powf(visit.times);
                    *time += met * mean;
                    *variance += met * square - (met * mean).powi(2);
                }
            }
        }
    }
}

/// Times of a request at the limits of a volume, of operations and of bytes, s.
pub(super) fn limit_times_s(spec: &VolumeSpec, blocks: f64, write: bool) -> [f64; 2] {
    let bytes = blocks * BLOCK_BYTES as f64;
    let operations = (bytes / spec.operation_bytes as f64).ceil().max(1.0);
    let cost = if write { spec.write_cost } else { 1.0 };
    let drawn = if spec.whole_operations { operations * spec.operation_bytes as f64 } else { bytes };
    let [operation_limit, byte_limit] = spec.rate_limits(write);
    // shared work acts like a limit of operations, with a sharper bend than in the simulation
    let shared = spec.shared.map_or(0.0, |shared| shared.work_s(write, bytes));
    [(operations * cost / operation_limit.burst).max(shared), drawn / byte_limit.burst]
}

impl FlashParts {
    fn io_route(&self, write: bool, bytes: f64, align: f64) -> IoRoute {
        let spec = self.model.spec();
        let parallel = |center, time: f64, times| Visit { center, work: ServiceDemand::Fixed(time, 0.0), times };
        let fixed = |center, time: f64| parallel(center, time, 1.0);
        if !write {
            // the pages that the request covers are read from as many dies in parallel
            let page = f64::from(spec.page_bytes);
            let pages = ((bytes + page - align.min(page)) / page).max(1.0);
            let bytes_per_page = bytes / pages;
            let read_s = spec.read_ns as f64 * SECONDS_PER_NS;
            let transfer_s = bytes_per_page / spec.channel_bytes_per_s;
            let visits = vec![
                fixed(self.processor, spec.command_read as f64 * SECONDS_PER_NS),
                parallel(self.dies, read_s, pages),
                parallel(self.channel, transfer_s, pages),
                fixed(self.links[0], bytes / spec.link_bytes_per_s),
            ];
            // the first pages are transferred while the others are read
            let overlap_s = ((bytes - bytes_per_page) / spec.link_bytes_per_s).min(read_s + transfer_s);
            return (visits, spec.latency_read as f64 * SECONDS_PER_NS - overlap_s, 0.0);
        }
        let mut visits = vec![
            fixed(self.processor, spec.command_write as f64 * SECONDS_PER_NS),
            fixed(self.links[1], bytes / spec.link_bytes_per_s),
            fixed(self.programs, 0.0),
        ];
        if !self.model.has_write_buffer() {
            visits.push(fixed(self.dies, spec.program_ns as f64 * SECONDS_PER_NS));
        }
        (visits, spec.latency_write as f64 * SECONDS_PER_NS, 0.0)
    }
}

/// A network under construction, and the pool that its new centers belong to.
struct NetworkAppender<'a> {
    network: &'a mut AnalyticNetwork,
    pool: Pool,
}

impl NetworkAppender<'_> {
    /// Adds a center with `per_device` members in each device, each with `servers` servers.
    fn add_center(&mut self, per_device: f64, servers: f64) -> usize {
        let Pool { members, group, in_turn } = self.pool;
        let members = members * per_device;
        let center = NetworkCenter { members, servers, group, in_turn, ..NetworkCenter::default() };
        self.network.centers.push(center);
        self.network.centers.len() - 1
    }

    fn add_mechanical(&mut self, costs: LoadCosts, order: QueuePolicy) -> DeviceParts {
        let index = self.add_center(1.0, 1.0);
        let center = &mut self.network.centers[index];
        center.costs = costs;
        center.reorders = order == QueuePolicy::ShortestPositioning;
        DeviceParts::Mechanical(index)
    }

    fn add_volume(&mut self, spec: &Arc<VolumeSpec>, demand: &DeviceDemand) -> DeviceParts {
        let reads = [self.add_center(1.0, 1.0), self.add_center(1.0, 1.0)];
        let writes = if spec.writes.is_some() { [self.add_center(1.0, 1.0), self.add_center(1.0, 1.0)] } else { reads };
        // the tighter limit for the mean request is the bucket that queues
        let (mut means, mut latency) = ([[0.0; 2]; 2], 0.0);
        for (blocks, write, share) in &demand.sizes {
            let limits = limit_times_s(spec, *blocks, *write);
            let index = usize::from(*write && spec.writes.is_some());
            means[index].iter_mut().zip(limits).for_each(|(mean, limit)| *mean += share * limit);
            let time = if *write { &spec.write } else { &spec.read };
            latency += share * (time.mean() * SECONDS_PER_NS + blocks * BLOCK_BYTES as f64 / spec.stream_bytes_per_s);
        }
        let mut tightest = 0.0_f64;
        for (buckets, means) in [reads, writes].into_iter().zip(means).take(1 + usize::from(spec.writes.is_some())) {
            let tighter = usize::from(means[1] > means[0]);
            tightest = tightest.max(means[tighter]);
            self.network.centers[buckets[tighter]].window_s = Some(spec.window_ns as f64 * SECONDS_PER_NS);
            self.network.centers[buckets[1 - tighter]].window_s = Some(f64::INFINITY);
        }
        let slots = f64::from(spec.slots.min(demand.placed.depth).max(1));
        let are_slots_scarce = demand.max_concurrent > slots && latency / slots > 0.7 * tightest;
        let slots = are_slots_scarce.then(|| self.add_center(1.0, slots));
        DeviceParts::Volume { spec: Arc::clone(spec), buckets: [reads, writes], slots }
    }

    fn add_flash(&mut self, model: &Arc<FlashModel>, demand: &DeviceDemand) -> DeviceParts {
        let spec = model.spec();
        let all_dies = f64::from(spec.channels * spec.dies_per_channel);
        // a link that is not duplex also carries the commands
        let processor = self.add_center(1.0, 1.0);
        let read_link = if spec.duplex { self.add_center(1.0, 1.0) } else { processor };
        let write_link = if spec.duplex { self.add_center(1.0, 1.0) } else { read_link };
        let channel = self.add_center(f64::from(spec.channels), 1.0);
        let planes = if spec.independent_planes { f64::from(spec.planes) } else { 1.0 };
        let dies = self.add_center(all_dies * planes, 1.0);
        let programs = self.add_center(1.0, 1.0);
        let (mut units, mut writes) = (0.0, 0.0);
        for (blocks, _, share) in demand.sizes.iter().filter(|(_, write, _)| *write) {
            units += share * (blocks * BLOCK_BYTES as f64 / f64::from(spec.unit_bytes)).ceil().max(1.0);
            writes += share;
        }
        let units = if writes > 0.0 { units / writes } else { 0.0 };
        // per program: the page of each plane, the data that garbage collection moves, its part of an erase
        let group = f64::from(spec.page_bytes / spec.unit_bytes * spec.planes);
        let (moved, read) = if demand.placed.write_share > 0.0 { model.gc_ratios() } else { (0.0, 0.0) };
        let program = spec.program_ns as f64 * SECONDS_PER_NS;
        let erase = spec.erase_ns as f64 * SECONDS_PER_NS / f64::from(spec.pages_per_block);
        let work_s = (program + erase) * (1.0 + moved) + moved * read * spec.read_ns as f64 * SECONDS_PER_NS;
        self.network.centers[programs].background_write_s = units / group * work_s / all_dies;
        let links = [read_link, write_link];
        DeviceParts::Flash(FlashParts { model: Arc::clone(model), processor, links, channel, dies, programs })
    }
}
