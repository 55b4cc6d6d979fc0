//! Events of the window: those that notes tell, and those that counters show where no note does: kills because memory
//! ran out, filesystems that became full, arrays that lost a member.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use diskwright_base::counter_ids::{array, cgroup, logical_disk, paging};
use diskwright_base::{Frame, HostEvent, Note, Schema, Tick};

/// Largest number of events from notes, and of ticks with kills, that are kept. Later ones are counted.
const MAX_EVENTS: usize = 1000;
/// A filesystem with less free space than this counts as full, as a share of its size and in bytes. Our choice: an ext4
/// that refuses writes has none, a btrfs or XFS keeps a little.
const MAX_FULL_SHARE: f64 = 0.001;
const MAX_FULL_BYTES: f64 = 1e8;

/// What was collected so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventWatch {
    /// Events from notes, each with the time of its note.
    pub noted: Vec<(i64, HostEvent)>,
    /// Ticks at which programs were killed.
    pub kills: Vec<KillTick>,
    /// By mount point.
    pub filesystems: BTreeMap<String, SpaceState>,
    /// Arrays that lost a member, and when.
    pub degraded: Vec<(String, i64)>,
    /// By array, the number of members that it lacks.
    lacking: BTreeMap<String, f64>,
    columns: EventColumns,
    has_ticks: bool,
}

/// A tick at which programs were killed.
#[derive(Clone, Debug, Default)]
pub(crate) struct KillTick {
    pub from_ns: i64,
    pub to_ns: i64,
    /// True for the first tick of the window: in a log of another tool, it may count since the machine started.
    pub is_first: bool,
    /// Number of kills in the machine; `None` where that is not counted.
    pub total: Option<f64>,
    /// Cgroups with their kills, those below included, and their limits in bytes.
    pub groups: Vec<(String, f64, Option<f64>)>,
}

/// How full a filesystem was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SpaceState {
    /// It had room before.
    pub had_room: bool,
    /// When it became full, nanoseconds since 1970; the start of the window if it was full then.
    pub full_since_ns: Option<i64>,
    /// When it last was.
    pub full_until_ns: i64,
    /// It has room again.
    pub has_room_again: bool,
    /// Inodes ran out, not space.
    pub is_out_of_inodes: bool,
    /// Its size, bytes.
    pub total_bytes: f64,
}

/// Columns of free and all bytes, free and all inodes of a filesystem, each with the factor of its unit.
type FilesystemColumns = [Option<(usize, f64)>; 4];

/// Columns of a schema that show events.
#[derive(Clone, Debug, Default)]
struct EventColumns {
    schema: Option<Arc<Schema>>,
    kills: Option<usize>,
    /// Cgroups, their kills, their limits.
    groups: Vec<(String, usize, Option<usize>)>,
    /// Mount points with their columns: free and all bytes, free and all inodes.
    filesystems: Vec<(String, FilesystemColumns)>,
    arrays: Vec<(String, usize)>,
}

impl EventColumns {
    fn new(schema: &Arc<Schema>) -> EventColumns {
        let of_counter = |counter: &'static str| {
            let series = schema.series.iter().enumerate().filter(move |(_, series)| series.counter == counter);
            series.map(|(column, series)| (series.instance.clone(), column))
        };
        let scaled = |counter: &str, instance: &str| {
            schema.column(counter, instance).map(|column| (column, schema.series[column].scale))
        };
        let space = |(mount, _): (String, usize)| {
            use logical_disk::{FREE_BYTES, INODES_FREE, INODES_TOTAL, TOTAL_BYTES};
            let columns = [FREE_BYTES, TOTAL_BYTES, INODES_FREE, INODES_TOTAL].map(|counter| scaled(counter, &mount));
            (mount, columns)
        };
        EventColumns {
            schema: Some(Arc::clone(schema)),
            kills: schema.column(paging::OOM_KILLS, ""),
            groups: of_counter(cgroup::OOM_KILLS)
                .map(|(path, column)| {
                    let limit = schema.column(cgroup::MEMORY_LIMIT_BYTES, &path);
                    (path, column, limit)
                })
                .collect(),
            filesystems: of_counter(logical_disk::FREE_BYTES).map(space).collect(),
            arrays: of_counter(array::DEGRADED).collect(),
        }
    }

    fn is_of(&self, schema: &Arc<Schema>) -> bool {
        self.schema.as_ref().is_some_and(|known| Arc::ptr_eq(known, schema) || known == schema)
    }
}

impl EventWatch {
    /// Adds the event of a note.
    ///
    /// # Errors
    /// Where the note is no event in JSON.
    pub fn add_note(&mut self, note: &Note) -> serde_json::Result<()> {
        let event = note.read_event()?;
        if self.noted.len() < MAX_EVENTS {
            self.noted.push((note.time_ns, event));
        }
        Ok(())
    }

    /// Adds the ticks `range` of a frame.
    pub fn add_ticks(&mut self, frame: &Frame, range: Range<usize>) {
        if !self.columns.is_of(frame.schema()) {
            self.columns = EventColumns::new(frame.schema());
        }
        let columns = std::mem::take(&mut self.columns);
        self.add_kills(&columns, frame, range.clone());
        for (mount, space) in &columns.filesystems {
            let cell = |place: Option<(usize, f64)>, tick: usize| {
                place.map_or(f64::NAN, |(column, scale)| frame.column(column)[tick] * scale)
            };
            let state = self.filesystems.entry(mount.clone()).or_default();
            range.clone().for_each(|tick| state.add_tick(space.map(|place| cell(place, tick)), frame.ticks()[tick]));
        }
        for (name, column) in &columns.arrays {
            for tick in range.clone() {
                let lacking = frame.column(*column)[tick];
                if lacking.is_nan() {
                    continue;
                }
                let before = self.lacking.insert(name.clone(), lacking);
                if before.is_some_and(|before| lacking > before) && self.degraded.len() < MAX_EVENTS {
                    self.degraded.push((name.clone(), frame.ticks()[tick].time_ns));
                }
            }
        }
        self.columns = columns;
        self.has_ticks |= !range.is_empty();
    }

    fn add_kills(&mut self, columns: &EventColumns, frame: &Frame, range: Range<usize>) {
        let is_kill = |column: usize, tick: usize| frame.column(column)[tick] > 0.0;
        let counted = columns.kills.into_iter().chain(columns.groups.iter().map(|(_, column, _)| *column));
        let mut ticks: Vec<usize> = Vec::new();
        for column in counted {
            ticks.extend(range.clone().filter(|tick| is_kill(column, *tick)));
        }
        ticks.sort_unstable();
        ticks.dedup();
        for tick in ticks.into_iter().take(MAX_EVENTS.saturating_sub(self.kills.len())) {
            let value = |column: usize| {
                let scale = frame.schema().series[column].scale;
                Some(frame.column(column)[tick] * scale).filter(|value| value.is_finite())
            };
            let of_groups = columns.groups.iter().filter(|(_, column, _)| is_kill(*column, tick));
            let time = frame.ticks()[tick];
            self.kills.push(KillTick {
                from_ns: time.start_ns(),
                to_ns: time.time_ns,
                is_first: !self.has_ticks && tick == 0,
                total: columns.kills.and_then(value),
                groups: of_groups
                    .map(|(path, column, limit)| (path.clone(), value(*column).unwrap_or(0.0), limit.and_then(value)))
                    .collect(),
            });
        }
    }
}

impl SpaceState {
    fn add_tick(&mut self, [free, total, inodes_free, inodes_total]: [f64; 4], tick: Tick) {
        if free.is_nan() || total.is_nan() || total <= 0.0 {
            return;
        }
        let has_space = free >= MAX_FULL_SHARE * total || free >= MAX_FULL_BYTES;
        let has_inodes = inodes_free.is_nan() || inodes_total.is_nan() || inodes_total <= 0.0 || inodes_free > 0.0;
        // an image has neither bytes nor inodes to give
        let is_image = free <= 0.0 && inodes_free.max(0.0) <= 0.0;
        if is_image || has_space && has_inodes {
            self.has_room_again |= self.full_since_ns.is_some();
            self.had_room |= self.full_since_ns.is_none();
            return;
        }
        if self.full_since_ns.is_none() {
            let since = if self.had_room { tick.time_ns } else { tick.start_ns() };
            (self.full_since_ns, self.is_out_of_inodes, self.total_bytes) = (Some(since), has_space, total);
        }
        (self.full_until_ns, self.has_room_again) = (tick.time_ns, false);
    }
}
