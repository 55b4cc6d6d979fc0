//! Everything that is collected over the window. It grows with the instances
//! that were seen, not with time; where instances come and go without end
//! (containers), those that are gone and never mattered are forgotten.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::lanes::LaneSums;
use crate::pseudo::Pseudo;
use crate::rule::{Pack, Rule};
use crate::spread::Levels;
use crate::stream::RuleProgress;
use crate::window::BucketTrack;

/// A value of the whole window about a device.
#[derive(Clone, Debug)]
pub(crate) struct Statistic {
    pub kind: Pseudo,
    /// By how much was outstanding: the first of [`LIGHT_QUEUES`] that it fits.
    pub light: [LaneSums; LIGHT_QUEUES.len()],
    pub levels: Levels,
}

/// Requests outstanding up to which a device counts as asked for little: the
/// first at which it ever was. What waits adds to the response, so that more
/// of them can only make the device look slower than it is by itself.
pub(crate) const LIGHT_QUEUES: [f64; 3] = [0.5, 1.0, 2.0];

impl Statistic {
    /// Its value at the end of the window.
    pub fn value(&self) -> Option<f64> {
        match self.kind {
            Pseudo::LightLoad | Pseudo::LightLoadBytes => self.light.iter().find_map(LaneSums::mean),
            _ => self.levels.steadiness(),
        }
    }
}

/// What is known of a rule apart from its streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleState {
    /// It was judged at some instance.
    pub judged: bool,
    /// It is for logs that lack what this one has, wherever it could apply.
    pub not_for_this_log: bool,
    /// Counters for want of which it could not be.
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
    /// Tracks of the counters that bear on how sure an answer is.
    pub signs: BTreeMap<&'static str, usize>,
    /// Bytes a second of cgroups by device (`path@sda`): their tracks.
    pub groups: BTreeMap<String, Vec<usize>>,
    /// Pressure stall information was there.
    pub has_pressure: bool,
    /// Streams forgotten because their instances were gone.
    pub forgotten: u64,
    prune_at: usize,
}

/// Streams that are kept before any is forgotten.
const STREAMS: usize = 16_384;

/// Series that are followed for trends at most; each takes up to 16 KiB.
const FOLLOWED: usize = 2048;

impl States {
    pub fn new(packs: &[Pack]) -> States {
        let rules = packs.iter().map(|p| vec![RuleState::default(); p.rules.len()]).collect();
        States { rules, ..States::default() }
    }

    /// The state of a rule at a place, made where there is none.
    pub fn stream(&mut self, key: (usize, usize, String), fresh: impl FnOnce() -> RuleProgress) -> usize {
        if let Some(&stream) = self.stream_of.get(&key) {
            return stream;
        }
        self.streams.push(fresh());
        self.stream_of.insert(key, self.streams.len() - 1);
        self.streams.len() - 1
    }

    /// Forgets what is gone and never mattered, once there is much of it.
    /// Programs made before are void. `present` tells what the schema has.
    pub fn prune(&mut self, present: impl Fn(&str) -> bool) {
        if self.streams.len() < self.prune_at.max(STREAMS) {
            return;
        }
        let mut gone: Vec<usize> = (0..self.streams.len())
            .filter(|&s| !self.streams[s].instance.is_empty() && !present(&self.streams[s].instance))
            .collect();
        // the longest to hold stay, up to a share of the room
        gone.sort_by_key(|&s| self.streams[s].held_ns);
        let held = gone.iter().filter(|&&s| self.streams[s].held_ns > 0).count();
        gone.truncate(gone.len() - held.min(STREAMS / 4));
        let gone: BTreeSet<usize> = gone.into_iter().collect();
        self.forgotten += gone.len() as u64;
        self.drop_streams(&gone);
        self.drop_tracks();
        self.prune_at = 2 * self.streams.len();
    }

    fn drop_streams(&mut self, gone: &BTreeSet<usize>) {
        let mut kept = Vec::new();
        let mut number = vec![0; self.streams.len()];
        for (index, stream) in std::mem::take(&mut self.streams).into_iter().enumerate() {
            if !gone.contains(&index) {
                number[index] = kept.len();
                kept.push(stream);
            }
        }
        self.streams = kept;
        self.stream_of.retain(|_, stream| !gone.contains(stream));
        self.stream_of.values_mut().for_each(|stream| *stream = number[*stream]);
    }

    /// Drops the tracks that no stream reads any more.
    fn drop_tracks(&mut self) {
        let conditions = self.streams.iter().flat_map(|s| &s.conditions);
        let mut wanted: BTreeSet<usize> = conditions.flat_map(|c| [c.track, c.limit_track]).flatten().collect();
        wanted.extend(self.signs.values());
        wanted.extend(self.groups.values().flatten());
        let mut number = vec![0; self.tracks.len()];
        let mut kept = Vec::new();
        for (index, track) in std::mem::take(&mut self.tracks).into_iter().enumerate() {
            if wanted.contains(&index) {
                number[index] = kept.len();
                kept.push(track);
            }
        }
        self.tracks = kept;
        self.track_of.retain(|_, track| wanted.contains(track));
        self.track_of.values_mut().for_each(|track| *track = number[*track]);
        let renumber = |track: &mut usize| *track = number[*track];
        for condition in self.streams.iter_mut().flat_map(|s| &mut s.conditions) {
            condition.track.iter_mut().chain(&mut condition.limit_track).for_each(renumber);
        }
        self.signs.values_mut().chain(self.groups.values_mut().flatten()).for_each(renumber);
    }

    /// The track of a node, by its key, made where there is none.
    pub fn track(&mut self, key: &str) -> usize {
        if let Some(&track) = self.track_of.get(key) {
            return track;
        }
        let followed = self.tracks.len() < FOLLOWED;
        self.tracks.push(BucketTrack::new(followed));
        self.track_of.insert(key.to_owned(), self.tracks.len() - 1);
        self.tracks.len() - 1
    }

    /// The statistic of a device, made where there is none.
    pub fn statistic(&mut self, kind: Pseudo, key: String) -> usize {
        let next = self.statistics.len();
        let state = *self.statistic_of.entry((kind, key)).or_insert(next);
        if state == next {
            self.statistics.push(Statistic { kind, light: Default::default(), levels: Levels::default() });
        }
        state
    }
}
