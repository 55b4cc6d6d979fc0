//! Reports of a simulation: of the whole run, or of an interval.

use diskwright_base::Histogram;

use super::arrays::ArraySnapshot;
use super::channels::ChannelSnapshot;
use super::drives::DriveSnapshot;
use super::latency::{DiskLatency, ResponseSteps};
use super::stations::StationsSnapshot;
use super::{IoCounts, Simulation};
use crate::Ns;
use crate::array::PassKind;
use crate::cache::CacheCounters;
use crate::confidence::Interval;
use crate::flash::FlashTotals;
use crate::load::Operations;
use crate::station::StationTotals;

pub(super) use super::batches::Batches;

/// Kind of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComponentKind {
    /// The host's processors.
    Processor,
    /// A bus.
    Bus,
    /// A controller's processor.
    Controller,
    /// A controller's port.
    Port,
    /// A controller's parity engine.
    Parity,
    /// A channel.
    Channel,
    /// A drive.
    Drive,
}

impl ComponentKind {
    /// `processor`, `bus`, `controller`, `port`, `parity`, `channel` or `drive`.
    pub fn name(self) -> &'static str {
        match self {
            ComponentKind::Processor => "processor",
            ComponentKind::Bus => "bus",
            ComponentKind::Controller => "controller",
            ComponentKind::Port => "port",
            ComponentKind::Parity => "parity",
            ComponentKind::Channel => "channel",
            ComponentKind::Drive => "drive",
        }
    }
}

/// A component over a period of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Component {
    /// Its kind.
    pub kind: ComponentKind,
    /// Its name.
    pub name: String,
    /// Position of the controller that it is a part of: its processor, its port or its parity engine.
    pub controller: Option<usize>,
    /// Servers: 1 for a mechanical drive, otherwise the requests that it serves at a time.
    pub servers: u32,
    /// Time integrals of its queue.
    pub totals: StationTotals,
    /// Its counters: complete for drives; other components count only `bytes_read`, which then includes all bytes.
    pub counts: IoCounts,
    /// Of an SSD or a volume: used share of its scarcest resource, 0 to 1 (of an SSD the processor, the link, the dies
    /// or the channels; of a volume operations or bytes, relative to the limits at the end of the period).
    pub scarcest_share: Option<f64>,
    /// Totals of an SSD's flash since the beginning of the simulation.
    pub flash: Option<FlashTotals>,
}

impl Component {
    /// Used share of its capacity, 0 to 1; NaN if no time passed. For SSDs and volumes it is that of their scarcest
    /// resource. A mechanical drive is busy from the start of a request to its completion, also while it waits for a
    /// shared channel.
    pub fn utilisation(&self) -> f64 {
        self.scarcest_share.unwrap_or(self.totals.utilisation() / f64::from(self.servers))
    }
}

/// An array over a period of time.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayReport {
    /// Its name.
    pub name: String,
    /// Its requests.
    pub totals: StationTotals,
    /// Counters of the requests that it served.
    pub counts: IoCounts,
    /// Member I/Os for these requests.
    pub member_ios: u64,
    /// Blocks that could not be served because too many members have failed.
    pub lost_blocks: u64,
    /// Drive numbers of its members.
    pub members: Vec<u32>,
    /// Members that have failed and are not rebuilt, at the end of the period.
    pub failed: u32,
    /// The rebuild or scrub, at the end of the period.
    pub background: Option<BackgroundReport>,
    /// Bytes of each member that it processed in the period; 0 if it restarted.
    pub background_bytes: u64,
}

/// Progress of a rebuild or a scrub.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackgroundReport {
    /// Its task.
    pub task: PassKind,
    /// Bytes done of each member.
    pub done_bytes: u64,
    /// Bytes of each member in total.
    pub all_bytes: u64,
    /// When it ended, ns of virtual time.
    pub ended_ns: Option<Ns>,
}

/// A workload over a period of time.
#[derive(Clone, Debug)]
pub struct WorkloadReport {
    /// Its name.
    pub name: String,
    /// Its requests.
    pub counts: IoCounts,
    /// Response times of its requests, ns.
    pub responses: Histogram,
    /// Mean response time with its confidence interval by batch means, s; of the whole run only. See
    /// [`crate::confidence::interval_from_stretches`].
    pub response_s: Option<Interval>,
    /// Its operations since the start of counting.
    pub operations: Vec<Operations>,
}

/// A cache over a period of time.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheReport {
    /// Its name.
    pub name: String,
    /// Its counters; levels (`dirty_blocks`, `held_blocks`, `waiting`) are those at the end.
    pub counters: CacheCounters,
}

/// Report of a simulation over a period of time.
#[derive(Clone, Debug)]
pub struct SimulationReport {
    /// Start, ns of virtual time.
    pub from: Ns,
    /// End, ns of virtual time.
    pub to: Ns,
    /// Workloads.
    pub workloads: Vec<WorkloadReport>,
    /// Components in the order of the path, drives last.
    pub components: Vec<Component>,
    /// Arrays.
    pub arrays: Vec<ArrayReport>,
    /// Caches.
    pub caches: Vec<CacheReport>,
    /// Interrupts, including those that do not come from disks.
    pub interrupts: f64,
    /// Processor time of interrupts, programmed transfers included, ns.
    pub interrupt_ns: f64,
    /// Processor time requested by programs, ns.
    pub compute_ns: f64,
    /// Response times of drives and arrays in the interval; empty for the whole run.
    pub latency: Vec<DiskLatency>,
}

impl SimulationReport {
    /// Length, s.
    pub fn elapsed_s(&self) -> f64 {
        (self.to - self.from) as f64 * 1e-9
    }

    /// Finds a component by its name.
    pub fn find_component(&self, name: &str) -> Option<&Component> {
        self.components.iter().find(|component| component.name == name)
    }

    /// Returns the component with the highest utilization, the first of equals; `None` if no time passed.
    pub fn bottleneck(&self) -> Option<&Component> {
        let known = self.components.iter().filter(|component| component.utilisation().is_finite());
        known.rev().max_by(|a, b| a.utilisation().total_cmp(&b.utilisation()))
    }
}

/// All counters at a point in time.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub time_ns: Ns,
    stations: StationsSnapshot,
    channels: Vec<ChannelSnapshot>,
    drives: Vec<DriveSnapshot>,
    arrays: Vec<ArraySnapshot>,
    loads: Vec<IoCounts>,
    caches: Vec<CacheCounters>,
}

/// Interrupts that do not come from disks.
#[derive(Clone, Copy, Debug)]
pub(super) struct OtherInterrupts {
    pub rate_per_s: f64,
    /// Processor time of each, ns.
    pub time_ns: Ns,
}

impl Simulation {
    /// Takes a snapshot of all counters.
    pub(super) fn take_snapshot(&mut self) -> Snapshot {
        let now = self.now();
        Snapshot {
            time_ns: now,
            stations: self.stations.take_snapshot(now),
            channels: self.channels.iter_mut().map(|run| run.take_snapshot(now)).collect(),
            drives: self.drives.iter_mut().map(|run| run.take_snapshot(now)).collect(),
            arrays: self.arrays.iter_mut().map(|run| run.take_snapshot(now)).collect(),
            loads: self.loads.take_snapshot(),
            caches: self.caches.iter().map(|run| run.take_snapshot(now)).collect(),
        }
    }

    /// The response times of each disk in this interval.
    fn disk_responses(&mut self) -> impl Iterator<Item = &mut ResponseSteps> {
        let drives = self.drives.iter_mut().map(|run| &mut run.responses);
        drives.chain(self.arrays.iter_mut().map(|run| &mut run.responses))
    }

    /// Records the distributions of the disks' response times from now on, or no longer.
    pub(super) fn record_latency(&mut self, is_enabled: bool) {
        self.disk_responses().for_each(|responses| responses.is_enabled = is_enabled);
    }

    /// Starts to count: discards what has been recorded so far.
    pub(super) fn reset_statistics(&mut self) {
        self.loads.reset_statistics();
        self.disk_responses().for_each(ResponseSteps::clear);
    }

    /// Merges the response times of the interval into those of the whole run.
    pub(super) fn merge_interval_responses(&mut self) {
        self.loads.merge_interval_responses();
        self.disk_responses().for_each(ResponseSteps::clear);
    }

    /// Reports the time between two snapshots; of the whole run if `batches` are given.
    pub(super) fn build_report(&self, from: &Snapshot, to: &Snapshot, batches: Option<&Batches>) -> SimulationReport {
        let elapsed_s = (to.time_ns - from.time_ns) as f64 * 1e-9;
        let others = self.other_interrupts.rate_per_s * elapsed_s;
        let (before, after) = (from.stations.processor_use, to.stations.processor_use);
        let arrays = self.arrays.iter().zip(from.arrays.iter().zip(&to.arrays));
        let caches = self.caches.iter().zip(from.caches.iter().zip(&to.caches));
        SimulationReport {
            from: from.time_ns,
            to: to.time_ns,
            workloads: self.loads.report(&from.loads, &to.loads, batches),
            components: self.build_components(from, to),
            arrays: arrays.map(|(run, (from, to))| run.report(from, to)).collect(),
            caches: caches.map(|(run, (from, to))| run.report(from, to)).collect(),
            interrupts: (after.interrupts - before.interrupts) as f64 + others,
            interrupt_ns: (after.interrupt_ns - before.interrupt_ns) as f64
                + others * self.other_interrupts.time_ns as f64,
            compute_ns: (after.compute_ns - before.compute_ns) as f64,
            latency: if batches.is_some() { Vec::new() } else { self.disk_latencies() },
        }
    }

    fn disk_latencies(&self) -> Vec<DiskLatency> {
        let drives = self.drives.iter().map(|run| (&run.name, &run.responses));
        let arrays = self.arrays.iter().map(|run| (&run.name, &run.responses));
        drives.chain(arrays).flat_map(|(name, responses)| responses.disk_latencies(name)).collect()
    }

    fn build_components(&self, from: &Snapshot, to: &Snapshot) -> Vec<Component> {
        let channels = self.channels.iter().zip(from.channels.iter().zip(&to.channels));
        let drives = self.drives.iter().zip(from.drives.iter().zip(&to.drives));
        self.stations
            .report(&from.stations, &to.stations)
            .chain(channels.map(|(run, (from, to))| run.report(from, to)))
            .chain(drives.map(|(run, (from, to))| run.report(from, to)))
            .collect()
    }
}
