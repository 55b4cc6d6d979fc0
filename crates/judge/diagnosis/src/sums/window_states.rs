//! All states that are collected over the window. They grow with the number of instances, not with time. Where
//! instances keep coming and going (containers), states of vanished instances are dropped, those at which no rule held
//! first.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::rules::{Pack, Pseudo, Rule};
use crate::sums::clock_buckets::ClockBuckets;
use crate::sums::lane_sums::LaneSums;
use crate::sums::rule_progress::RuleProgress;
use crate::sums::steadiness::Levels;
use crate::sums::window_buckets::BucketTrack;

/// A value of the whole window about a device.
#[derive(Clone, Debug)]
pub(crate) struct Statistic {
    pub kind: Pseudo,
    /// Sums by requests in flight: each tick goes to the first of [`LIGHT_LOAD_QUEUES`] that it does not exceed.
    pub light_load: [LaneSums; LIGHT_LOAD_QUEUES.len()],
    pub levels: Levels,
}

/// Requests in flight up to which a device counts as lightly loaded; the first level that ever occurred is used.
/// Queueing adds to the response time, so a higher level can only make the device look slower than it is standalone.
pub(crate) const LIGHT_LOAD_QUEUES: [f64; 3] = [0.5, 1.0, 2.0];

impl Statistic {
    /// Value at the end of the window.
    pub fn value(&self) -> Option<f64> {
        match self.kind {
            Pseudo::LightLoad | Pseudo::LightLoadBytes => self.light_load.iter().find_map(LaneSums::mean),
            _ => self.levels.coefficient_of_variation(),
        }
    }
}

/// State of a rule apart from its progress at instances.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleState {
    /// True where the rule was judged at some instance.
    pub judged: bool,
    /// True where the rule applies only to logs without counters that this log has at every instance.
    pub not_for_this_log: bool,
    /// Counters that were missing where the rule could not be judged.
    pub missing: BTreeSet<String>,
}

/// A series whose changes of level are looked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeSeries {
    /// Position of its quantity.
    pub quantity: usize,
    /// Its instance; empty for the machine.
    pub instance: String,
    pub buckets: ClockBuckets,
}

/// Tracks of one disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct PagingTracks {
    /// The share of its work that is swapping, if it may hold swap space, and the largest share of its reads that can
    /// have been in memory shortly before.
    pub shares: Vec<usize>,
    /// Bytes read per second.
    pub read_bytes: usize,
}

/// Everything collected so far. It grows with the instances, not with time.
#[derive(Clone, Debug, Default)]
pub(crate) struct States {
    pub progress: Vec<RuleProgress>,
    progress_indices: HashMap<(usize, usize, String), usize>,
    pub tracks: Vec<BucketTrack>,
    track_of: HashMap<String, usize>,
    pub statistics: Vec<Statistic>,
    statistic_of: HashMap<(Pseudo, String), usize>,
    /// By pack, then by rule.
    pub rules: Vec<Vec<RuleState>>,
    /// Rules that were rewritten to logical disks, by pack and rule.
    pub stand_ins: HashMap<(usize, usize), Rule>,
    /// Tracks of the counters that affect the confidence of any verdict.
    pub confidence_tracks: BTreeMap<&'static str, usize>,
    /// Tracks of the bytes per second of cgroups, by cgroup and device (`path@sda`).
    pub cgroup_tracks: BTreeMap<String, Vec<usize>>,
    /// Tracks that tell how much of a disk's work is paging, by disk.
    pub paging_tracks: BTreeMap<String, PagingTracks>,
    /// Series whose changes of level are looked for.
    pub change_series: Vec<ChangeSeries>,
    /// True where the log has pressure stall information.
    pub has_pressure: bool,
    /// Number of states dropped because their instances were gone.
    pub forgotten: u64,
    /// Number of states from which vanished instances are looked for again.
    prune_at: usize,
}

/// Number of states from which those of vanished instances are dropped.
const MAX_PROGRESS_STATES: usize = 16_384;

/// Largest number of tracks with buckets for trends; each takes up to 16 KiB.
const MAX_TREND_TRACKS: usize = 2048;

impl States {
    /// Creates empty states for the rules of these packs.
    pub fn new(packs: &[Pack]) -> States {
        let rules = packs.iter().map(|p| vec![RuleState::default(); p.rules.len()]).collect();
        States { rules, ..States::default() }
    }

    /// Index of a rule's progress at a scope; `create` makes it where there is none.
    pub fn progress_index(&mut self, key: (usize, usize, String), create: impl FnOnce() -> RuleProgress) -> usize {
        if let Some(&index) = self.progress_indices.get(&key) {
            return index;
        }
        self.progress.push(create());
        self.progress_indices.insert(key, self.progress.len() - 1);
        self.progress.len() - 1
    }

    /// Drops states of vanished instances that never held, once there are many. Programs compiled before become
    /// invalid, because indices change. `is_present` is true for instances of the schema.
    pub fn forget_gone_instances(&mut self, is_present: impl Fn(&str) -> bool) {
        if self.progress.len() < self.prune_at.max(MAX_PROGRESS_STATES) {
            return;
        }
        let mut gone: Vec<usize> = (0..self.progress.len())
            .filter(|&index| !self.progress[index].instance.is_empty() && !is_present(&self.progress[index].instance))
            .collect();
        // those that held longest stay, up to a quarter of the limit
        gone.sort_by_key(|&s| self.progress[s].held_ns);
        let held = gone.iter().filter(|&&s| self.progress[s].held_ns > 0).count();
        gone.truncate(gone.len() - held.min(MAX_PROGRESS_STATES / 4));
        let gone: BTreeSet<usize> = gone.into_iter().collect();
        self.forgotten += gone.len() as u64;
        self.drop_progress(&gone);
        self.drop_tracks();
        self.prune_at = 2 * self.progress.len();
    }

    fn drop_progress(&mut self, gone: &BTreeSet<usize>) {
        let new_indices = retain_by_index(&mut self.progress, |index| !gone.contains(&index));
        self.progress_indices.retain(|_, index| !gone.contains(index));
        self.progress_indices.values_mut().for_each(|index| new_indices.update(index));
    }

    /// Drops the tracks that no state uses any more.
    fn drop_tracks(&mut self) {
        let conditions = self.progress.iter().flat_map(|s| &s.conditions);
        let mut used: BTreeSet<usize> = conditions.flat_map(|c| [c.track, c.limit_track]).flatten().collect();
        used.extend(self.confidence_tracks.values());
        used.extend(self.cgroup_tracks.values().flatten());
        used.extend(self.paging_tracks.values().flat_map(|of_disk| of_disk.shares.iter().chain([&of_disk.read_bytes])));
        let new_indices = retain_by_index(&mut self.tracks, |index| used.contains(&index));
        self.track_of.retain(|_, track| used.contains(track));
        self.track_of.values_mut().for_each(|track| new_indices.update(track));
        let renumber = |track: &mut usize| new_indices.update(track);
        for condition in self.progress.iter_mut().flat_map(|s| &mut s.conditions) {
            condition.track.iter_mut().chain(&mut condition.limit_track).for_each(renumber);
        }
        self.confidence_tracks.values_mut().chain(self.cgroup_tracks.values_mut().flatten()).for_each(renumber);
        for of_disk in self.paging_tracks.values_mut() {
            of_disk.shares.iter_mut().chain([&mut of_disk.read_bytes]).for_each(renumber);
        }
    }

    /// Index of a node's track, by the node's key; created where there is none.
    pub fn track_index(&mut self, key: &str) -> usize {
        if let Some(&track) = self.track_of.get(key) {
            return track;
        }
        let has_trends = self.tracks.len() < MAX_TREND_TRACKS;
        self.tracks.push(BucketTrack::new(has_trends));
        self.track_of.insert(key.to_owned(), self.tracks.len() - 1);
        self.tracks.len() - 1
    }

    /// Index of the series of a quantity and instance; created where there is none.
    pub fn change_series_index(&mut self, quantity: usize, instance: &str) -> usize {
        let is_same = |series: &ChangeSeries| series.quantity == quantity && series.instance == instance;
        self.change_series.iter().position(is_same).unwrap_or_else(|| {
            let series = ChangeSeries { quantity, instance: instance.to_owned(), ..ChangeSeries::default() };
            self.change_series.push(series);
            self.change_series.len() - 1
        })
    }

    /// Index of a device's statistic; created where there is none.
    pub fn statistic_index(&mut self, kind: Pseudo, key: String) -> usize {
        let next = self.statistics.len();
        let state = *self.statistic_of.entry((kind, key)).or_insert(next);
        if state == next {
            self.statistics.push(Statistic { kind, light_load: Default::default(), levels: Levels::default() });
        }
        state
    }
}

/// New indices of the entries of a list after some were dropped.
struct NewIndices {
    /// By old index; `None` for a dropped entry.
    new: Vec<Option<usize>>,
    /// Number of entries that were kept.
    kept: usize,
}

impl NewIndices {
    /// Replaces the index of a kept entry by its new one.
    fn update(&self, index: &mut usize) {
        let new = self.new[*index];
        assert!(new.is_some_and(|new| new < self.kept), "entry {index} is still used but was dropped");
        *index = new.unwrap_or_default();
    }
}

/// Keeps the entries whose index `is_kept` accepts.
fn retain_by_index<T>(list: &mut Vec<T>, is_kept: impl Fn(usize) -> bool) -> NewIndices {
    let mut indices = NewIndices { new: vec![None; list.len()], kept: 0 };
    let mut index = 0;
    list.retain(|_| {
        let keep = is_kept(index);
        if keep {
            indices.new[index] = Some(indices.kept);
            indices.kept += 1;
        }
        index += 1;
        keep
    });
    assert_eq!(list.len(), indices.kept, "each kept entry has one index");
    indices
}
