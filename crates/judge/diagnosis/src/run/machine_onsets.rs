//! What else began on a machine, and when: mounts, resyncs and scrubs, cgroups, limits of cgroups.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use diskwright_base::counter_ids::cgroup;
use diskwright_base::{Frame, Schema, Topology};

/// Largest number of beginnings that are kept of each kind.
const MAX_ONSETS: usize = 1000;
/// Largest number of cgroups whose limits are followed.
const MAX_LIMITS: usize = 4096;
/// Limits of a cgroup that somebody sets.
const LIMIT_COUNTERS: [&str; 6] = [
    cgroup::MEMORY_LIMIT_BYTES,
    cgroup::MEMORY_HIGH_BYTES,
    cgroup::READ_LIMIT_PER_S,
    cgroup::WRITE_LIMIT_PER_S,
    cgroup::READ_LIMIT_BYTES_PER_S,
    cgroup::WRITE_LIMIT_BYTES_PER_S,
];

/// Kind of a beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnsetKind {
    Mount,
    /// A resync, check or scrub of an array or volume.
    Resync,
    /// A unit or another cgroup.
    Unit,
    /// A limit of a cgroup was set, changed or taken away.
    Limit,
}

/// A beginning.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MachineOnset {
    pub kind: OnsetKind,
    /// The mount point, array or cgroup.
    pub name: String,
    /// More about it: the name of the background work, the counter of the limit.
    pub detail: String,
    /// Values of a limit before and after; `None` where there was none.
    pub values: (Option<f64>, Option<f64>),
    /// Time in which it began, nanoseconds since 1970.
    pub began: (i64, i64),
}

/// Beginnings so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct MachineOnsets {
    pub list: Vec<MachineOnset>,
    /// End of the last tick.
    last_tick_ns: Option<i64>,
    schema: Option<Arc<Schema>>,
    /// Column, cgroup, counter, scale.
    limit_columns: Vec<(usize, String, &'static str, f64)>,
    /// By cgroup and counter, the last limit.
    limits: BTreeMap<(String, &'static str), Option<f64>>,
}

impl MachineOnsets {
    /// Adds a topology that follows another one.
    pub fn add_topology(&mut self, time_ns: i64, before: &Topology, now: &Topology) {
        let began = (self.last_tick_ns.unwrap_or(time_ns).min(time_ns), time_ns);
        let is_mounted = |topology: &Topology, mount: &str| topology.filesystems.iter().any(|f| f.mount == mount);
        for filesystem in now.filesystems.iter().filter(|f| !is_mounted(before, &f.mount)) {
            self.push((OnsetKind::Mount, &filesystem.mount, &filesystem.kind), (None, None), began);
        }
        for device in &now.devices {
            let work_before = before.find_device(&device.name).and_then(|known| known.background.as_ref());
            if let Some(work) = device.background.as_ref().filter(|work| Some(*work) != work_before) {
                self.push((OnsetKind::Resync, &device.name, work), (None, None), began);
            }
        }
    }

    /// Adds the ticks `range` of a frame.
    pub fn add_ticks(&mut self, frame: &Frame, range: Range<usize>) {
        let Some(last) = frame.ticks()[range.clone()].last() else { return };
        let is_known = self.schema.as_ref().is_some_and(|s| Arc::ptr_eq(s, frame.schema()) || s == frame.schema());
        if !is_known {
            let first = frame.ticks()[range.start];
            self.follow_schema(frame.schema(), (first.start_ns(), first.time_ns));
        }
        self.follow_limits(frame, range);
        self.last_tick_ns = Some(last.time_ns);
    }

    /// Notes the cgroups that a schema has and the one before had not.
    fn follow_schema(&mut self, schema: &Arc<Schema>, began: (i64, i64)) {
        if let Some(before) = self.schema.take() {
            let known: std::collections::HashSet<&str> = before.instances("cgroup").into_iter().collect();
            let is_new = |path: &&str| !path.contains('@') && !known.contains(path);
            let new: Vec<String> = schema.instances("cgroup").into_iter().filter(is_new).map(str::to_owned).collect();
            new.iter().for_each(|path| self.push((OnsetKind::Unit, path, ""), (None, None), began));
        }
        let limit = |(column, series): (usize, &diskwright_base::Series)| {
            let counter = LIMIT_COUNTERS.into_iter().find(|counter| *counter == series.counter)?;
            Some((column, series.instance.clone(), counter, series.scale))
        };
        self.limit_columns = schema.series.iter().enumerate().filter_map(limit).take(MAX_LIMITS).collect();
        self.schema = Some(Arc::clone(schema));
    }

    fn follow_limits(&mut self, frame: &Frame, range: Range<usize>) {
        let columns = std::mem::take(&mut self.limit_columns);
        for (column, group, counter, scale) in &columns {
            let cells = frame.column(*column);
            let value = |cell: f64| (cell.is_finite() && cell > 0.0).then_some(cell * scale);
            let key = (group.clone(), *counter);
            let known = self.limits.get(&key).copied();
            // a limit that was changed and changed back within a chunk is not seen
            if known.is_some_and(|known| known == value(cells[range.end - 1])) {
                continue;
            }
            let mut last = known;
            for tick in range.clone() {
                let now = value(cells[tick]);
                if last.is_some_and(|last| last != now) {
                    let time = frame.ticks()[tick];
                    let values = (last.flatten(), now);
                    self.push((OnsetKind::Limit, group, counter), values, (time.start_ns(), time.time_ns));
                }
                last = Some(now);
            }
            self.limits.insert(key, last.flatten());
        }
        self.limit_columns = columns;
    }

    fn push(
        &mut self,
        (kind, name, detail): (OnsetKind, &str, &str),
        values: (Option<f64>, Option<f64>),
        began: (i64, i64),
    ) {
        if self.list.iter().filter(|known| known.kind == kind).count() < MAX_ONSETS {
            let (name, detail) = (name.to_owned(), detail.to_owned());
            self.list.push(MachineOnset { kind, name, detail, values, began });
        }
    }
}
