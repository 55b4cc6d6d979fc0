//! Snapshots of all counters, and the reports computed from two of them.

use super::arrays::ArraySnapshot;
use super::batches::Batches;
use super::channels::ChannelSnapshot;
use super::drives::DriveSnapshot;
use super::latency::{DiskLatency, ResponseSteps};
use super::report::{Component, SimulationReport};
use super::stations::StationsSnapshot;
use super::{IoCounts, Simulation};
use crate::Ns;
use crate::cache::CacheCounters;

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
        let other_interrupts = self.other_interrupts.rate_per_s * elapsed_s;
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
            interrupts: (after.interrupts - before.interrupts) as f64 + other_interrupts,
            interrupt_ns: (after.interrupt_ns - before.interrupt_ns) as f64
                + other_interrupts * self.other_interrupts.time_ns as f64,
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
