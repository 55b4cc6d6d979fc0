//! Reports of a simulation: of the whole run, or of an interval.

use diskwright_base::Histogram;

use super::arrays::BackgroundRun;
use super::drives::IoCounts;
use super::latency::DiskLatency;
use super::loads::LoadRun;
use super::{Simulation, drives::DriveKind};
use crate::Ns;
use crate::array::PassKind;
use crate::cache::CacheCounters;
use crate::confidence::{self, Interval};
use crate::flash::FlashTotals;
use crate::load::Operations;
use crate::station::StationTotals;

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
        ["processor", "bus", "controller", "port", "parity", "channel", "drive"][self as usize]
    }
}

/// Names of the parts.
#[derive(Clone, Debug, Default)]
pub(super) struct ComponentNames {
    pub stations: Vec<(ComponentKind, String)>,
    pub channels: Vec<String>,
    pub drives: Vec<String>,
    pub arrays: Vec<String>,
    pub caches: Vec<String>,
}

/// A component over a period of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Component {
    /// Its kind.
    pub kind: ComponentKind,
    /// Its name.
    pub name: String,
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
    /// [`confidence::of_stretches`].
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

/// What each resource of a device delivered, its capacity per second of the device's own time, and that time.
type CapacityUse = ([f64; 5], [f64; 5], Ns);

/// Used share of a device's scarcest resource between two points in time.
fn scarcest_share(from: &Option<CapacityUse>, to: &Option<CapacityUse>) -> Option<f64> {
    let ((before, _, began), (after, rates, ended)) = (from.as_ref()?, to.as_ref()?);
    let elapsed = ended.saturating_sub(*began);
    let parts = after.iter().zip(before).zip(rates);
    let shares = parts.map(|((after, before), rate)| (after - before) / (rate * elapsed as f64 * 1e-9));
    Some(shares.fold(0.0, f64::max).min(1.0))
}

/// All counters at a point in time.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub time_ns: Ns,
    stations: Vec<(StationTotals, u64)>,
    channels: Vec<(StationTotals, u64)>,
    drives: Vec<(StationTotals, IoCounts, Option<CapacityUse>)>,
    arrays: Vec<(StationTotals, IoCounts, u64, u64, u64)>,
    loads: Vec<IoCounts>,
    caches: Vec<CacheCounters>,
    interrupts: u64,
    interrupt_ns: u64,
    compute_ns: u64,
}

impl Simulation {
    /// Takes a snapshot of all counters.
    pub(super) fn take_snapshot(&mut self) -> Snapshot {
        let now = self.events.now();
        let stations = self.stations.iter_mut().zip(&self.station_bytes);
        Snapshot {
            time_ns: now,
            stations: stations.map(|(station, bytes)| (station.totals(now), *bytes)).collect(),
            channels: self.channels.iter_mut().map(|run| (run.meter.totals(now), run.bytes)).collect(),
            drives: self
                .drives
                .iter_mut()
                .map(|run| (run.meter.totals(now), run.counts, run.capacity_use(now)))
                .collect(),
            arrays: self
                .arrays
                .iter_mut()
                .map(|run| {
                    let done = run.background.as_ref().map_or(0, |running| running.done_blocks);
                    (run.meter.totals(now), run.counts, run.member_ios, run.lost_blocks, done)
                })
                .collect(),
            loads: self.loads.iter().map(|run| run.counts).collect(),
            caches: self.caches.iter().map(|run| run.cache.counters(now)).collect(),
            interrupts: self.interrupts,
            interrupt_ns: self.interrupt_ns,
            compute_ns: self.compute_ns,
        }
    }

    /// Starts to count: discards what the loads have recorded so far.
    pub(super) fn reset_statistics(&mut self) {
        for run in &mut self.loads {
            run.load.reset_counters();
            run.interval_responses.clear();
            run.all_responses.clear();
        }
        self.latency.clear();
    }

    /// Merges the response times of the interval into those of the whole run.
    pub(super) fn merge_interval_responses(&mut self) {
        for run in &mut self.loads {
            run.all_responses.merge(&run.interval_responses);
            run.interval_responses.clear();
        }
        self.latency.clear();
    }

    /// Reports the time between two snapshots; of the whole run if `batches` are given.
    pub(super) fn build_report(&self, from: &Snapshot, to: &Snapshot, batches: Option<&Batches>) -> SimulationReport {
        let elapsed_s = (to.time_ns - from.time_ns) as f64 * 1e-9;
        let others = self.other_interrupts_per_s * elapsed_s;
        let workloads = self.loads.iter().enumerate().map(|(index, run)| WorkloadReport {
            name: run.name.clone(),
            counts: to.loads[index].delta_since(&from.loads[index]),
            responses: if batches.is_some() { run.all_responses.clone() } else { run.interval_responses.clone() },
            response_s: batches.and_then(|batches| batches.mean_response(index)),
            operations: run.load.operations().to_vec(),
        });
        SimulationReport {
            from: from.time_ns,
            to: to.time_ns,
            workloads: workloads.collect(),
            components: self.build_components(from, to),
            arrays: self.build_array_reports(from, to),
            caches: self
                .names
                .caches
                .iter()
                .zip(to.caches.iter().zip(&from.caches))
                .map(|(name, (to, from))| CacheReport { name: name.clone(), counters: to.added_since(from) })
                .collect(),
            interrupts: (to.interrupts - from.interrupts) as f64 + others,
            interrupt_ns: (to.interrupt_ns - from.interrupt_ns) as f64 + others * self.other_interrupt_ns as f64,
            compute_ns: (to.compute_ns - from.compute_ns) as f64,
            latency: if batches.is_some() { Vec::new() } else { self.disk_latencies() },
        }
    }

    fn disk_latencies(&self) -> Vec<DiskLatency> {
        let drives = self.latency.drives.iter().zip(&self.names.drives);
        let arrays = self.latency.arrays.iter().zip(&self.names.arrays);
        drives.chain(arrays).flat_map(|(steps, name)| steps.disk_latencies(name)).collect()
    }

    fn build_components(&self, from: &Snapshot, to: &Snapshot) -> Vec<Component> {
        let passed = |bytes: u64| IoCounts { bytes_read: bytes, ..IoCounts::default() };
        let station = |(index, (kind, name)): (usize, &(ComponentKind, String))| Component {
            kind: *kind,
            name: name.clone(),
            servers: self.stations[index].server_count(),
            totals: to.stations[index].0.delta_since(&from.stations[index].0),
            counts: passed(to.stations[index].1 - from.stations[index].1),
            scarcest_share: None,
            flash: None,
        };
        let channel = |(index, name): (usize, &String)| Component {
            kind: ComponentKind::Channel,
            name: name.clone(),
            servers: 1,
            totals: to.channels[index].0.delta_since(&from.channels[index].0),
            counts: passed(to.channels[index].1 - from.channels[index].1),
            scarcest_share: None,
            flash: None,
        };
        let drive = |(index, name): (usize, &String)| Component {
            kind: ComponentKind::Drive,
            name: name.clone(),
            servers: self.drives[index].server_count(),
            totals: to.drives[index].0.delta_since(&from.drives[index].0),
            counts: to.drives[index].1.delta_since(&from.drives[index].1),
            scarcest_share: scarcest_share(&from.drives[index].2, &to.drives[index].2),
            flash: match &self.drives[index].kind {
                DriveKind::Parallel(device) => device.flash_totals(),
                DriveKind::Mechanical(_) => None,
            },
        };
        let stations = self.names.stations.iter().enumerate().map(station);
        let channels = self.names.channels.iter().enumerate().map(channel);
        stations.chain(channels).chain(self.names.drives.iter().enumerate().map(drive)).collect()
    }

    fn build_array_reports(&self, from: &Snapshot, to: &Snapshot) -> Vec<ArrayReport> {
        let background = |running: &BackgroundRun| BackgroundReport {
            task: running.task,
            done_bytes: running.done_blocks * crate::io::BLOCK_BYTES,
            all_bytes: running.pass.total_blocks() * crate::io::BLOCK_BYTES,
            ended_ns: running.ended_ns,
        };
        let report = |(index, name): (usize, &String)| {
            let (before, after, run) = (&from.arrays[index], &to.arrays[index], &self.arrays[index]);
            ArrayReport {
                name: name.clone(),
                totals: after.0.delta_since(&before.0),
                counts: after.1.delta_since(&before.1),
                member_ios: after.2 - before.2,
                lost_blocks: after.3 - before.3,
                members: run.drives.clone(),
                failed: run.lost.count(),
                background: run.background.as_ref().map(background),
                background_bytes: after.4.saturating_sub(before.4) * crate::io::BLOCK_BYTES,
            }
        };
        self.names.arrays.iter().enumerate().map(report).collect()
    }
}

/// Largest number of batches; beyond it, neighbours are merged. A few long batches are less correlated.
const MAX_BATCHES: usize = 32;

/// Response times of equal periods of a run, for the confidence interval of a mean. Their number is bounded, so memory
/// does not grow with the run.
#[derive(Clone, Debug, Default)]
pub(super) struct Batches {
    /// Intervals per batch.
    batch_intervals: usize,
    intervals: usize,
    /// By load, then batch: sum of response times in ns, and their number.
    loads: Vec<Vec<(u128, u64)>>,
    /// By load: sum and number of its interval's responses at the previous call.
    previous: Vec<(u128, u64)>,
}

impl Batches {
    /// Adds an interval.
    pub fn add_interval(&mut self, loads: &[LoadRun]) {
        self.loads.resize(loads.len(), Vec::new());
        self.previous.resize(loads.len(), (0, 0));
        self.batch_intervals = self.batch_intervals.max(1);
        let begins = self.intervals.is_multiple_of(self.batch_intervals);
        if begins && self.loads.first().is_some_and(|batches| batches.len() == MAX_BATCHES) {
            for batches in &mut self.loads {
                *batches =
                    batches.chunks(2).map(|pair| pair.iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))).collect();
            }
            self.batch_intervals *= 2;
        }
        for ((batches, before), run) in self.loads.iter_mut().zip(&mut self.previous).zip(loads) {
            if begins {
                batches.push((0, 0));
            }
            let now = (run.interval_responses.sum(), run.interval_responses.count());
            if let Some(last) = batches.last_mut() {
                last.0 += now.0 - before.0;
                last.1 += now.1 - before.1;
            }
            *before = now;
        }
        self.intervals += 1;
    }

    /// Resets the previous values after the interval's responses were cleared.
    pub fn restart_interval(&mut self) {
        self.previous.fill((0, 0));
    }

    /// Mean response time of a load, s. Batches without requests are left out; the last one counts if it is complete.
    fn mean_response(&self, load: usize) -> Option<Interval> {
        let complete = self.intervals / self.batch_intervals.max(1);
        let batches = self.loads.get(load)?.iter().take(complete).filter(|batch| batch.1 > 0);
        let stretches: Vec<(f64, f64)> = batches.map(|(sum, count)| (*sum as f64 * 1e-9, *count as f64)).collect();
        confidence::interval_from_stretches(&stretches)
    }
}
