//! All states that are collected over the window. They grow with the number of instances, not with time; where
//! instances keep coming and going (containers), those that are gone and never held a rule are dropped.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::rules::{Pack, Pseudo, Rule};
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
    /// It was judged at some instance.
    pub judged: bool,
    /// It applies only to logs without counters that this log has at every instance.
    pub not_for_this_log: bool,
    /// Counters that were missing where it could not be judged.
    pub missing: BTreeSet<String>,
}

/// Everything collected so far. It grows with the instances, not with time.
#[derive(Clone, Debug, Default)]
pub(crate) struct States {
    pub streams: Vec<RuleProgress>,
    stream_of: HashMap<(usize, usize, String), usize>,
    pub tracks: Vec<BucketTrack>,
    track_of: HashMap<String, usize>,
    pub statistics: Vec<Statistic>,
    statistic_of: HashMap<(Pseudo, String), usize>,
    /// By pack, then by rule.
    pub rules: Vec<Vec<RuleState>>,
    /// Rules as they were judged of logical disks, by pack and rule.
    pub stand_ins: HashMap<(usize, usize), Rule>,
    /// Tracks of the counters that affect the confidence of any verdict.
    pub confidence_tracks: BTreeMap<&'static str, usize>,
    /// Bytes a second of cgroups by device (`path@sda`): their tracks.
    pub cgroup_tracks: BTreeMap<String, Vec<usize>>,
    /// The log has pressure stall information.
    pub has_pressure: bool,
    /// Number of states dropped because their instances were gone.
    pub forgotten: u64,
    prune_at: usize,
}

/// Number of states from which those of vanished instances are dropped.
const MAX_STREAMS: usize = 16_384;

/// Largest number of tracks followed for trends; each takes up to 16 KiB.
const MAX_TREND_TRACKS: usize = 2048;

impl States {
    /// Creates empty states for the rules of these packs.
    pub fn new(packs: &[Pack]) -> States {
        let rules = packs.iter().map(|p| vec![RuleState::default(); p.rules.len()]).collect();
        States { rules, ..States::default() }
    }

    /// Index of a rule's progress at a scope; `fresh` creates it where there is none.
    pub fn stream_index(&mut self, key: (usize, usize, String), fresh: impl FnOnce() -> RuleProgress) -> usize {
        if let Some(&stream) = self.stream_of.get(&key) {
            return stream;
        }
        self.streams.push(fresh());
        self.stream_of.insert(key, self.streams.len() - 1);
        self.streams.len() - 1
    }

    /// Drops states of vanished instances that never held, once there are many. Programs compiled before become
    /// invalid, because indices change. `present` is true for instances of the schema.
    pub fn forget_gone_streams(&mut self, present: impl Fn(&str) -> bool) {
        if self.streams.len() < self.prune_at.max(MAX_STREAMS) {
            return;
        }
        let mut gone: Vec<usize> = (0..self.streams.len())
            .filter(|&s| !self.streams[s].instance.is_empty() && !present(&self.streams[s].instance))
            .collect();
        // those that held longest stay, up to a quarter of the limit
        gone.sort_by_key(|&s| self.streams[s].held_ns);
        let held = gone.iter().filter(|&&s| self.streams[s].held_ns > 0).count();
        gone.truncate(gone.len() - held.min(MAX_STREAMS / 4));
        let gone: BTreeSet<usize> = gone.into_iter().collect();
        self.forgotten += gone.len() as u64;
        self.drop_streams(&gone);
        self.drop_tracks();
        self.prune_at = 2 * self.streams.len();
    }

    fn drop_streams(&mut self, gone: &BTreeSet<usize>) {
        let new_indices = retain_by_index(&mut self.streams, |index| !gone.contains(&index));
        self.stream_of.retain(|_, stream| !gone.contains(stream));
        self.stream_of.values_mut().for_each(|stream| new_indices.update(stream));
    }

    /// Drops the tracks that no state uses any more.
    fn drop_tracks(&mut self) {
        let conditions = self.streams.iter().flat_map(|s| &s.conditions);
        let mut wanted: BTreeSet<usize> = conditions.flat_map(|c| [c.track, c.limit_track]).flatten().collect();
        wanted.extend(self.confidence_tracks.values());
        wanted.extend(self.cgroup_tracks.values().flatten());
        let new_indices = retain_by_index(&mut self.tracks, |index| wanted.contains(&index));
        self.track_of.retain(|_, track| wanted.contains(track));
        self.track_of.values_mut().for_each(|track| new_indices.update(track));
        let renumber = |track: &mut usize| new_indices.update(track);
        for condition in self.streams.iter_mut().flat_map(|s| &mut s.conditions) {
            condition.track.iter_mut().chain(&mut condition.limit_track).for_each(renumber);
        }
        self.confidence_tracks.values_mut().chain(self.cgroup_tracks.values_mut().flatten()).for_each(renumber);
    }

    /// Index of a node's track, by the node's key; created where there is none.
    pub fn track_index(&mut self, key: &str) -> usize {
        if let Some(&track) = self.track_of.get(key) {
            return track;
        }
        let followed = self.tracks.len() < MAX_TREND_TRACKS;
        self.tracks.push(BucketTrack::new(followed));
        self.track_of.insert(key.to_owned(), self.tracks.len() - 1);
        self.tracks.len() - 1
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

/// Indices of the entries that a list kept, by their index before.
struct NewIndices {
    of: Vec<Option<usize>>,
    kept: usize,
}

impl NewIndices {
    /// Replaces the index of a kept entry by its new one.
    fn update(&self, index: &mut usize) {
        let new = self.of[*index];
        assert!(new.is_some_and(|new| new < self.kept), "entry {index} is still used but was dropped");
        *index = new.unwrap_or_default();
    }
}

/// Keeps the entries whose index `is_kept` accepts.
fn retain_by_index<T>(list: &mut Vec<T>, is_kept: impl Fn(usize) -> bool) -> NewIndices {
    let mut new = NewIndices { of: vec![None; list.len()], kept: 0 };
    let mut index = 0;
    list.retain(|_| {
        let keep = is_kept(index);
        if keep {
            new.of[index] = Some(new.kept);
            new.kept += 1;
        }
        index += 1;
        keep
    });
    assert_eq!(list.len(), new.kept, "each kept entry has one index");
    new
}
