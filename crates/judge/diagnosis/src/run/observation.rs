//! Observation of a window by a judge: sums, not samples. The judge fills it; ranking, confidence, outcomes, phases and
//! trends only read it.

use std::collections::BTreeMap;
use std::sync::Arc;

use diskwright_base::counter_ids::paging;
use diskwright_base::{Ceiling, DeviceClass, Schema, Topology};

use crate::compile::{MAX_CGROUPS, SchemaIndex, split_cgroup_device};
use crate::culprits::{Culprits, DatabaseTotals, ProcessOnsets, Requesters};
use crate::rules::{LogOrigin, Pack, Rule};
use crate::run::event_watch::EventWatch;
use crate::run::latest_row::LatestRow;
use crate::run::log_notes::LogNotes;
use crate::run::machine_onsets::MachineOnsets;
use crate::run::volume_watch::VolumeWatch;
use crate::sums::{PagingTracks, RuleProgress, States, WindowGrid, WindowState};

/// Smallest share of a cgroup's bytes at which it counts as using a disk. Our choice.
const MIN_DISK_SHARE: f64 = 0.05;
/// Smallest share of paging at which a disk may be busy with it: that of the rules memory.paging and
/// memory.file-cache-thrash.
const MIN_PAGING_SHARE: f64 = 0.1;
/// Smallest share of what a disk reads that processes outside of a cgroup must read, and smallest share of what those
/// inside read that other disks must have read. Our choice.
const MIN_OTHERS_SHARE: f64 = 0.5;
const MIN_ELSEWHERE: f64 = 0.8;

/// An observed window, with the packs that judge it.
pub(crate) struct Observation {
    pub packs: Vec<Pack>,
    pub topology: Option<Topology>,
    /// The ceilings of the devices that the topology shows, by their names there.
    pub ceilings: Vec<Ceiling>,
    pub states: States,
    pub window: WindowState,
    pub grid: WindowGrid,
    pub notes: LogNotes,
    pub events: EventWatch,
    /// What processes began, and what else did.
    pub process_onsets: ProcessOnsets,
    pub machine_onsets: MachineOnsets,
    /// Use of the limits of cloud volumes.
    pub volumes: VolumeWatch,
    pub culprits: Culprits,
    /// Programs that sent requests, from traces.
    pub requesters: Requesters,
    pub databases: DatabaseTotals,
    /// The series of the last frame.
    pub schema: Option<Arc<Schema>>,
    /// The last tick.
    pub latest: LatestRow,
    /// The server's role, where somebody named it.
    pub role: Option<String>,
    /// Clock of who reads the verdict, nanoseconds since 1970; `None` where it is read as it is made.
    pub clock: Option<fn() -> i64>,
}

/// End of 1970: a window that ends before it is counted from there, and has no date.
const FIRST_YEAR_NS: i64 = 365 * 86_400 * 1_000_000_000;

impl Observation {
    /// False for a log without dates, whose times are counted from 1970.
    pub fn is_dated(&self) -> bool {
        self.window.elapsed_ns == 0 || self.notes.source == LogOrigin::Live || self.window.to_ns >= FIRST_YEAR_NS
    }

    /// Time since the window ended, by the clock of who reads the verdict; `None` where it is read as it is made.
    pub fn age_ns(&self) -> Option<i64> {
        self.clock.map(|now_ns| now_ns().saturating_sub(self.window.to_ns))
    }

    /// Number of reports, where a log has neither times nor an interval, so that a report counts as a second.
    pub fn report_count(&self) -> Option<u64> {
        (self.notes.counts_reports && !self.is_dated()).then_some(self.window.ticks)
    }

    /// The rule of a progress state, rewritten to logical disks where they stand in.
    pub fn rule_for_progress(&self, progress: &RuleProgress) -> &Rule {
        let rewritten = self.states.stand_ins.get(&(progress.pack, progress.rule)).filter(|_| progress.stands_in);
        rewritten.unwrap_or(&self.packs[progress.pack].rules[progress.rule])
    }

    /// True where the last frame had series of this instance.
    pub fn has_seen(&self, instance: &str) -> bool {
        self.schema.as_ref().is_some_and(|schema| schema.series.iter().any(|s| s.instance == instance))
    }

    /// Number of measured disks that are not stacked on others and are not memory.
    pub fn disk_count(&self) -> usize {
        let Some(schema) = &self.schema else { return 0 };
        SchemaIndex::new(schema, self.topology.as_ref(), &self.ceilings).disks().len()
    }

    /// Share of each cgroup's bytes that goes to a device, or to a device stacked on it, for cgroups whose I/O is
    /// accounted by device.
    pub fn cgroup_shares_on(&self, device: &str) -> BTreeMap<String, f64> {
        self.shares_on_device(device, self.states.cgroup_tracks.iter())
    }

    fn shares_on_device<'a>(
        &self,
        device: &str,
        groups: impl Iterator<Item = (&'a String, &'a Vec<usize>)>,
    ) -> BTreeMap<String, f64> {
        // for each cgroup, the bytes on the device and all bytes
        let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        let stands_on = |upper: &str, lower: &str| {
            upper != lower && self.topology.as_ref().is_some_and(|t| t.stands_on(upper, lower))
        };
        let is_stacked = |name: &str| {
            let device = self.topology.as_ref().and_then(|t| t.find_device(name));
            device.is_some_and(|d| !d.below.is_empty())
        };
        for (instance, tracks) in groups {
            let Some((path, counted)) = split_cgroup_device(instance) else { continue };
            let bytes: f64 = tracks.iter().filter_map(|track| self.states.tracks[*track].mean()).sum();
            let is_on_device = counted == device || stands_on(counted, device) || stands_on(device, counted);
            let sum = sums.entry(path.to_owned()).or_default();
            // a stacked device counts what its disks count, too
            if is_on_device || !is_stacked(counted) {
                sum.1 += bytes;
            }
            sum.0 += if is_on_device { bytes } else { 0.0 };
        }
        sums.into_iter()
            .filter(|(_, (_, total))| *total > 0.0)
            .map(|(path, (on_device, total))| (path, (on_device / total).min(1.0)))
            .collect()
    }

    /// Mean of a counter of the machine that affects any verdict.
    pub fn mean_sign(&self, name: &str) -> Option<f64> {
        self.states.tracks[*self.states.confidence_tracks.get(name)?].mean()
    }

    /// Means of such a counter in the first and the last part of the window.
    pub fn ends_of_sign(&self, name: &str) -> Option<(f64, f64)> {
        let parts = self.states.tracks[*self.states.confidence_tracks.get(name)?].part_means();
        let mut known = parts.into_iter().flatten();
        let first = known.next()?;
        Some((first, known.last()?))
    }

    /// False where the log shows that paging is hardly any of what a disk does: no swap space on it is in use, and what
    /// it reads was not in memory shortly before.
    pub fn may_be_paging(&self, disk: &str) -> bool {
        let Some(of_disk) = self.states.paging_tracks.get(disk) else { return true };
        let is_little = |track: &usize| self.states.tracks[*track].mean().is_some_and(|share| share < MIN_PAGING_SHARE);
        !of_disk.shares.iter().all(is_little)
    }

    /// True where a disk is read by processes outside of some cgroups, and the other disks read all that those inside
    /// do: for kernels that do not count a cgroup's bytes by device.
    pub fn is_read_by_others(&self, disk: &str, groups: &[&str]) -> bool {
        let mean = |of_disk: &PagingTracks| self.states.tracks[of_disk.read_bytes].mean().unwrap_or(0.0);
        let Some(reads) = self.states.paging_tracks.get(disk).map(mean) else { return false };
        // what comes back from swap space on this disk is paging, whatever others read elsewhere
        if self.holds_swap(disk) && self.may_be_paging(disk) {
            return false;
        }
        let elsewhere = self.states.paging_tracks.iter().filter(|(name, _)| *name != disk);
        let elsewhere = elsewhere.map(|(_, of_disk)| mean(of_disk)).sum::<f64>() + self.bytes_from_memory_swap();
        let [inside, outside] = self.culprits.read_rates_by_side(groups);
        reads > 0.0 && outside >= MIN_OTHERS_SHARE * reads && inside > 0.0 && elsewhere >= MIN_ELSEWHERE * inside
    }

    /// True where swap space lies on a disk, or may lie there.
    fn holds_swap(&self, disk: &str) -> bool {
        let Some(topology) = &self.topology else { return true };
        let on_disk =
            |device: &str| device == disk || topology.stands_on(device, disk) || topology.stands_on(disk, device);
        topology.swaps.iter().any(|swap| swap.device.is_empty() || on_disk(&swap.device))
    }

    /// Bytes per second that came back from swap space in memory, which processes read as they read a disk.
    fn bytes_from_memory_swap(&self) -> f64 {
        let Some(topology) = self.topology.as_ref().filter(|topology| !topology.swaps.is_empty()) else { return 0.0 };
        let is_in_memory =
            |name: &str| topology.find_device(name).is_some_and(|device| device.class == DeviceClass::Memory);
        let pages = self.mean_sign(paging::SWAP_IN_PAGES_PER_S);
        match topology.swaps.iter().all(|swap| is_in_memory(&swap.device)) {
            true => pages.unwrap_or(0.0) * topology.page_size_bytes(),
            false => 0.0,
        }
    }

    /// True where the log shows that a cgroup does not use a disk: its reads and writes go to other disks, and there is
    /// no swap space on this one. I/O to an unknown device may go to the disk.
    pub fn cgroup_avoids_disk(&self, group: &str, disk: &str) -> bool {
        let Some(topology) = self.topology.as_ref().filter(|_| self.states.cgroup_tracks.len() < MAX_CGROUPS) else {
            return false;
        };
        let may_swap_to_disk = self.holds_swap(disk);
        let path = split_cgroup_device(group).map_or(group, |(path, _)| path);
        let start = format!("{path}@");
        // the path of another cgroup may begin with `path@` too
        let similar =
            || self.states.cgroup_tracks.range(start.clone()..).take_while(|(name, _)| name.starts_with(&start));
        let of_group =
            || similar().filter(|(name, _)| split_cgroup_device(name).is_some_and(|(known, _)| known == path));
        let is_on_unknown_device =
            |name: &str| split_cgroup_device(name).is_some_and(|(_, device)| topology.find_device(device).is_none());
        !may_swap_to_disk
            && !of_group().any(|(name, _)| is_on_unknown_device(name))
            && self.shares_on_device(disk, of_group()).get(path).is_some_and(|share| *share < MIN_DISK_SHARE)
    }
}
