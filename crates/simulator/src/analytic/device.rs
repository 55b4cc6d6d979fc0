//! What devices of every kind are to the analysis: centers that an I/O visits
//! one after another, and plain delay.

use super::mechanical::{DriveDemand, mechanical};
use super::network::{AnalyticNetwork, IoKind, NetworkCenter, ServiceDemand, Visit};
use super::{UnsolvedPart, UnsolvedReason};
use crate::device::{DeviceModel, PlainSpec};
use crate::drive::{Model, QueuePolicy};
use crate::flash::FlashModel;
use crate::io::BLOCK_BYTES;
use crate::volume::{RateLimit, VolumeSpec};

const S: f64 = 1e-9;

/// How members are chosen, for all their centers alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool {
    pub members: f64,
    pub group: f64,
    pub in_turn: f64,
}

/// What an I/O visits, and its delay, s.
pub(super) type IoRoute = (Vec<Visit>, f64);

/// The centers of equal devices.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceCenters {
    read: IoRoute,
    write: IoRoute,
    /// Of an SSD: the center of its dies, and of the programs behind its buffer.
    dies: Option<(usize, usize)>,
    /// Longest that a read waits for a program, s.
    program_s: f64,
}

impl DeviceCenters {
    pub fn way(&self, kind: IoKind) -> &IoRoute {
        if kind == IoKind::Read { &self.read } else { &self.write }
    }

    /// Adds the centers of devices of a kind to a network.
    pub fn add(
        network: &mut AnalyticNetwork,
        device: &DeviceModel,
        pool: Pool,
        asked: &DriveDemand,
    ) -> Result<DeviceCenters, UnsolvedReason> {
        let mut add = NetworkAppender { network, pool };
        match device {
            DeviceModel::Mechanical(model) => Ok(add.mechanical(model, asked)),
            DeviceModel::Flash(model) => Ok(add.flash(model, asked)),
            DeviceModel::Plain(spec) => Ok(add.plain(spec, asked)),
            DeviceModel::Volume(spec) => add.volume(spec, asked),
        }
    }

    /// The center whose members are the devices, for their utilisation.
    pub fn main(&self) -> Option<usize> {
        self.dies.map(|(dies, _)| dies).or_else(|| self.read.0.first().map(|visit| visit.center))
    }

    /// True where what is written is programmed while nobody waits, and reads may meet that.
    pub fn writes_programs(&self) -> bool {
        self.dies.is_some()
    }

    /// Programs of so many requests a second make reads wait.
    pub fn programs(&mut self, network: &mut AnalyticNetwork, requests: f64) {
        let Some((dies, behind)) = self.dies else { return };
        let busy = (requests * network.behind(behind)).min(1.0);
        if busy <= 0.0 {
            return;
        }
        for class in &mut network.classes {
            for visit in class.steps.iter_mut().flat_map(|step| &mut step.visits) {
                if let (ServiceDemand::Fixed(time, variance), true) = (&mut visit.work, visit.center == dies) {
                    *time += busy * self.program_s;
                    *variance += busy * (1.0 - busy) * self.program_s * self.program_s;
                }
            }
        }
    }
}

/// A network that grows.
struct NetworkAppender<'a> {
    network: &'a mut AnalyticNetwork,
    pool: Pool,
}

impl NetworkAppender<'_> {
    /// Adds a center: so many of them on each device, of so many servers.
    fn center(&mut self, each: f64, servers: f64) -> usize {
        let Pool { members, group, in_turn } = self.pool;
        let center = NetworkCenter { members: members * each, servers, group, in_turn, ..NetworkCenter::default() };
        self.network.centers.push(center);
        self.network.centers.len() - 1
    }

    fn mechanical(&mut self, model: &Model, asked: &DriveDemand) -> DeviceCenters {
        let at = self.center(1.0, 1.0);
        let center = &mut self.network.centers[at];
        center.served = mechanical(model, asked);
        center.reorders = asked.order == QueuePolicy::ShortestPositioning;
        let way = (vec![Visit { center: at, work: ServiceDemand::ByDepth }], 0.0);
        DeviceCenters { read: way.clone(), write: way, ..DeviceCenters::default() }
    }

    fn plain(&mut self, spec: &PlainSpec, asked: &DriveDemand) -> DeviceCenters {
        let servers = f64::from(spec.servers.min(asked.depth).max(1));
        let center = self.center(1.0, servers);
        let mean = spec.service.mean() * S;
        let variance = spec.service.variation_squared() * mean * mean;
        let work = ServiceDemand::Fixed(mean + asked.blocks * BLOCK_BYTES as f64 / spec.bytes_per_s, variance);
        // who finds a server free is served in its time; only the queue before them is shared
        let way = (vec![Visit { center, work }], 0.0);
        DeviceCenters { read: way.clone(), write: way, ..DeviceCenters::default() }
    }

    fn volume(&mut self, spec: &VolumeSpec, asked: &DriveDemand) -> Result<DeviceCenters, UnsolvedReason> {
        let bursts = |limit: &RateLimit| limit.credits > 0.0 && limit.burst > limit.baseline;
        if bursts(&spec.operations) || bursts(&spec.bytes) {
            return Err(UnsolvedReason::Part { of: spec.name.clone(), part: UnsolvedPart::Burst });
        }
        let bytes = asked.blocks * BLOCK_BYTES as f64;
        let operations = (bytes / spec.operation_bytes as f64).ceil().max(1.0);
        let cost = 1.0 - asked.write_share + asked.write_share * spec.write_cost;
        let limit = (operations * cost / spec.operations.baseline).max(bytes / spec.bytes.baseline);
        let center = self.center(1.0, 1.0);
        // the promise is a rate that is not to be exceeded, and no queue before that
        let visit = vec![Visit { center, work: ServiceDemand::Fixed(limit.max(0.0), 0.0) }];
        let time = |mean: f64| mean * S + bytes / spec.stream - limit;
        Ok(DeviceCenters {
            read: (visit.clone(), time(spec.read.mean())),
            write: (visit, time(spec.write.mean())),
            ..DeviceCenters::default()
        })
    }

    fn flash(&mut self, model: &FlashModel, asked: &DriveDemand) -> DeviceCenters {
        let spec = model.spec();
        let bytes = asked.blocks * BLOCK_BYTES as f64;
        let all_dies = f64::from(spec.channels * spec.dies);
        // a link that is not duplex has the commands on it too
        let processor = self.center(1.0, 1.0);
        let links = if spec.duplex { [self.center(1.0, 1.0), self.center(1.0, 1.0)] } else { [processor; 2] };
        let write_link = links[1];
        let channel = self.center(f64::from(spec.channels), 1.0);
        let planes = if spec.independent_planes { f64::from(spec.planes) } else { 1.0 };
        let dies = self.center(all_dies * planes, 1.0);
        let behind = self.center(1.0, 1.0);
        let fixed = |center, time: f64| Visit { center, work: ServiceDemand::Fixed(time, 0.0) };
        let pages = (bytes / f64::from(spec.page)).ceil().max(1.0);
        let units = (bytes / f64::from(spec.unit)).ceil().max(1.0);
        let read = vec![
            fixed(processor, spec.command_read as f64 * S),
            fixed(dies, spec.read as f64 * S),
            fixed(channel, bytes / pages / spec.channel),
            fixed(links[0], bytes / spec.link),
        ];
        // of each program: the page of each plane, what garbage collection moves, its part of an erase
        let group = f64::from(spec.page / spec.unit * spec.planes);
        let (moved, reading) = if asked.write_share > 0.0 { model.moves() } else { (0.0, 0.0) };
        let program = spec.program as f64 * S;
        let erase = spec.erase as f64 * S / f64::from(spec.pages);
        let each = (program + erase) * (1.0 + moved) + moved * reading * spec.read as f64 * S;
        self.network.centers[behind].behind_s = units / group * each / all_dies;
        let mut write = vec![
            fixed(processor, spec.command_write as f64 * S),
            fixed(write_link, bytes / spec.link),
            fixed(behind, 0.0),
        ];
        if !model.buffers() {
            write.push(fixed(dies, program));
        }
        let waits = spec.suspend.map_or(f64::INFINITY, |suspend| suspend as f64 * S).min(program / 2.0);
        DeviceCenters {
            read: (read, spec.latency_read as f64 * S),
            write: (write, spec.latency_write as f64 * S),
            dies: Some((dies, behind)),
            program_s: waits,
        }
    }
}
