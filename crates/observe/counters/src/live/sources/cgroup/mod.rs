//! Control groups, versions 1 and 2 and both at once: their I/O, memory and processor use, their limits, and their
//! pressure.
//!
//! Requests that version 1 delays to enforce a limit are invisible to `/proc/diskstats` meanwhile: only the serviced
//! amount compared with the limit reveals them. A group that is short of memory thrashes while the machine's
//! MemAvailable is high.
//!
//! A group is named by its path below the mount; on a device, by `path@device`. Groups that have a limit, do I/O or
//! hold much memory are followed, up to a bound; they are chosen at slow ticks.

mod files;
mod survey;

use std::collections::HashMap;
use std::fs;
use std::hint::black_box;
use std::path::PathBuf;

use diskwright_base::Note;
use diskwright_base::counter_ids::cgroup;

use crate::live::counter_table::{CounterReset, CounterTable, TableColumn, column_index, level_column, total_column};
use crate::live::open_file::{OpenFile, read_bytes};
use crate::live::text_scan::text_lines;
use crate::live::tick_context::TickContext;
use crate::live::watched_read::{read_link, watch_read};
use crate::live::{Roots, SamplerOptions};

use super::diskstats;
use super::{CounterSource, SourceInfo};

use files::{
    CgroupValues, FILES, FileKind, Hierarchy, IO_COUNT, IO_LIMITS_COLUMN, ReadFailure, ReadInterval, group_column,
};
use survey::{CgroupMounts, Surveyor};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "cgroup",
    files: &["/sys/fs/cgroup/…/io.stat", "/sys/fs/cgroup/blkio/…/blkio.throttle.io_serviced", "/proc/self/mountinfo"],
    explain: "Cgroups (control groups): I/O against limits, memory against limits, processor throttling, pressure.",
    parse_any: |bytes| {
        for file in FILES {
            let mut values = CgroupValues::new();
            (file.read)(bytes, &mut values);
            black_box(&values);
        }
    },
    open: |roots: &Roots, options: &SamplerOptions| {
        options.cgroups.then(|| Box::new(Cgroups::new(roots)) as Box<dyn CounterSource>)
    },
};

const GROUP_COLUMNS: [TableColumn; group_column::COUNT] = [
    level_column(cgroup::MEMORY_BYTES, 1.0),
    level_column(cgroup::MEMORY_FILE_BYTES, 1.0),
    level_column(cgroup::MEMORY_ANONYMOUS_BYTES, 1.0),
    total_column(cgroup::MEMORY_LIMIT_HITS, 1.0),
    total_column(cgroup::MAJOR_FAULTS, 1.0),
    total_column(cgroup::REFAULTS_FILE, 1.0),
    total_column(cgroup::REFAULTS_ANON, 1.0),
    level_column(cgroup::SWAP_BYTES, 1.0),
    total_column(cgroup::OOM_KILLS, 1.0),
    total_column(cgroup::IO_SOME_S, 1e-6),
    total_column(cgroup::IO_FULL_S, 1e-6),
    total_column(cgroup::MEMORY_SOME_S, 1e-6),
    total_column(cgroup::MEMORY_FULL_S, 1e-6),
    total_column(cgroup::CPU_SOME_S, 1e-6),
    total_column(cgroup::CPU_THROTTLED_S, 1e-6),
    total_column(cgroup::CPU_PERIODS, 1.0),
    total_column(cgroup::CPU_THROTTLED_PERIODS, 1.0),
    total_column(cgroup::CPU_TIME_S, 1e-6),
    level_column(cgroup::MEMORY_LIMIT_BYTES, 1.0),
    level_column(cgroup::MEMORY_HIGH_BYTES, 1.0),
];

const IO_COLUMNS: [TableColumn; IO_COUNT] = [
    total_column(cgroup::READS, 1.0),
    total_column(cgroup::WRITES, 1.0),
    total_column(cgroup::READ_BYTES, 1.0),
    total_column(cgroup::WRITE_BYTES, 1.0),
    level_column(cgroup::READ_LIMIT_PER_S, 1.0),
    level_column(cgroup::WRITE_LIMIT_PER_S, 1.0),
    level_column(cgroup::READ_LIMIT_BYTES_PER_S, 1.0),
    level_column(cgroup::WRITE_LIMIT_BYTES_PER_S, 1.0),
];

/// The parsers in `files.rs` know the columns by their numbers.
const _: () = {
    assert!(column_index(&GROUP_COLUMNS, "cgroup.memory_bytes") == group_column::MEMORY);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.memory_file_bytes") == group_column::FILE);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.memory_anonymous_bytes") == group_column::ANONYMOUS);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.memory_limit_hits") == group_column::LIMIT_HITS);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.major_faults") == group_column::MAJOR_FAULTS);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.refaults_file") == group_column::REFAULTS_FILE);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.refaults_anon") == group_column::REFAULTS_ANON);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.swap_bytes") == group_column::SWAP);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.oom_kills") == group_column::OOM_KILLS);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.io_some_s") == group_column::IO_SOME);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.io_full_s") == group_column::IO_FULL);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.memory_some_s") == group_column::MEMORY_SOME);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.memory_full_s") == group_column::MEMORY_FULL);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.cpu_some_s") == group_column::CPU_SOME);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.cpu_throttled_s") == group_column::CPU_THROTTLED);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.cpu_periods") == group_column::CPU_PERIODS);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.cpu_throttled_periods") == group_column::CPU_THROTTLED_PERIODS);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.cpu_time_s") == group_column::CPU_TIME);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.memory_limit_bytes") == group_column::MEMORY_LIMIT);
    assert!(column_index(&GROUP_COLUMNS, "cgroup.memory_high_bytes") == group_column::MEMORY_HIGH);
    assert!(column_index(&IO_COLUMNS, "cgroup.read_limit_per_s") == IO_LIMITS_COLUMN);
};

/// Largest number of files that stay open; those of further groups are opened for each read. The usual limit of a
/// process is 1024 descriptors.
const MAX_OPEN_FILES: usize = 400;
/// Share of the tick in which a group's tasks waited, above which processes are scanned at once.
const TROUBLE_SHARE: f64 = 0.10;

struct CgroupState {
    path: String,
    row: usize,
    files: Vec<(OpenFile, &'static FileKind)>,
    values: CgroupValues,
    /// A file could not be read: the group was removed, or is about to be.
    is_gone: bool,
}

struct Cgroups {
    mounts: Option<CgroupMounts>,
    surveyor: Surveyor,
    followed: Vec<CgroupState>,
    devices: HashMap<(u64, u64), String>,
    text: Vec<u8>,
    /// Groups, and groups on devices.
    tables: [CounterTable; 2],
}

impl Cgroups {
    fn new(roots: &Roots) -> Cgroups {
        Cgroups {
            mounts: None,
            surveyor: Surveyor::new(roots),
            followed: Vec::new(),
            devices: HashMap::new(),
            text: Vec::new(),
            tables: [
                CounterTable::new("cgroup", &GROUP_COLUMNS, CounterReset::OneNumber),
                CounterTable::new("cgroup's device", &IO_COLUMNS, CounterReset::WholeRow),
            ],
        }
    }

    /// Finds groups worth following, and drops those that are gone.
    fn survey_groups(&mut self, context: &mut TickContext) {
        if context.devices_due {
            // another device may have the number by now
            self.devices.clear();
        }
        self.followed.retain(|f| !f.is_gone);
        let [groups, io] = &mut self.tables;
        groups.retain_rows(|_, gone| !gone);
        io.retain_rows(|_, gone| !gone);
        for followed in &mut self.followed {
            followed.is_gone = followed.files.first().is_some_and(|(file, _)| !file.path().exists());
            followed.row = groups.row_or_insert(&followed.path);
            // found again by name at the next tick
            followed.values.io.iter_mut().for_each(|device| device.row = None);
        }
        let mounts = self.mounts.get_or_insert_with(|| CgroupMounts::find_mounts(context));
        if mounts.is_empty() {
            return;
        }
        let free_count = context.options.max_cgroups.saturating_sub(self.followed.len());
        let is_followed = |path: &str| self.followed.iter().any(|f| f.path == path && !f.is_gone);
        let found = self.surveyor.find_interesting(mounts, context, is_followed);
        let left_out = found.len().saturating_sub(free_count);
        if left_out > 0 {
            context.notes.push_limited(context.time_ns, Note::UNSEEN, "cgroups", || {
                let max = context.options.max_cgroups;
                format!("{left_out} more cgroups have a limit or are busy; only {max} are followed")
            });
        }
        let mut open_count: usize = self.followed.iter().map(|f| f.files.len()).sum();
        for (path, folders) in found.into_iter().take(free_count) {
            let followed = follow_group(path, &folders, groups, open_count < MAX_OPEN_FILES);
            open_count += followed.files.len();
            self.followed.push(followed);
        }
    }
}

fn follow_group(
    path: String,
    folders: &[(Hierarchy, PathBuf)],
    groups: &mut CounterTable,
    stays_open: bool,
) -> CgroupState {
    let has_unified_time = folders.iter().any(|(h, f)| *h == Hierarchy::Unified && f.join("cpu.stat").exists());
    let mut files = Vec::new();
    for kind in FILES {
        // both hierarchies count the group's processor time; once is enough
        if kind.hierarchy == Hierarchy::Cpuacct && has_unified_time {
            continue;
        }
        let Some((_, folder)) = folders.iter().find(|(h, _)| *h == kind.hierarchy) else { continue };
        let file = folder.join(kind.name);
        if watch_read(&file, || fs::File::open(&file)).is_ok() {
            files.push((OpenFile::in_one_read(file, "").allow_empty().without_notes().keep_open(stays_open), kind));
        }
    }
    CgroupState { row: groups.row_or_insert(&path), path, files, values: CgroupValues::new(), is_gone: false }
}

impl CounterSource for Cgroups {
    fn read_tick(&mut self, context: &mut TickContext) {
        if context.is_slow_tick {
            self.survey_groups(context);
        }
        self.tables.iter_mut().for_each(CounterTable::begin_tick);
        let [groups, io] = &mut self.tables;
        for followed in &mut self.followed {
            if !followed.is_gone {
                read_group(followed, context, &mut self.text);
            }
            if followed.is_gone {
                continue;
            }
            groups.row_mut(followed.row).copy_from_slice(&followed.values.group);
            for device in &mut followed.values.io {
                let row = *device.row.get_or_insert_with(|| {
                    let name = device_name(&mut self.devices, device.device, context.roots);
                    io.row_or_insert(&format!("{}@{name}", followed.path))
                });
                io.row_mut(row).copy_from_slice(&device.numbers);
            }
        }
        groups.compute_cells(context);
        io.compute_cells(context);
        // microseconds, as the cells are
        let limit = TROUBLE_SHARE * context.elapsed_ns as f64 * 1e-3;
        let is_in_trouble = |row: usize, column: usize| groups.cell(row, column) > limit;
        if self
            .followed
            .iter()
            .any(|f| is_in_trouble(f.row, group_column::IO_SOME) || is_in_trouble(f.row, group_column::MEMORY_SOME))
        {
            context.processes_due = true;
        }
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

fn read_group(followed: &mut CgroupState, context: &mut TickContext, text: &mut Vec<u8>) {
    let reads_io_limits = context.is_slow_tick || followed.values.has_io_limit();
    followed.values.begin_tick(context.is_slow_tick, reads_io_limits);
    for (file, kind) in &mut followed.files {
        let is_due = match kind.interval {
            ReadInterval::Tick => true,
            ReadInterval::Slow => context.is_slow_tick,
            ReadInterval::WhileLimited => reads_io_limits,
        };
        if !is_due {
            continue;
        }
        match file.read_into(context, text) {
            Some(length) => (kind.read)(&text[..length], &mut followed.values),
            None => followed.is_gone |= kind.failure == ReadFailure::GroupIsGone,
        }
    }
}

/// The kernel name of a device number, from sysfs or diskstats.
fn device_name(names: &mut HashMap<(u64, u64), String>, device: (u64, u64), roots: &Roots) -> String {
    if let Some(name) = names.get(&device) {
        return name.clone();
    }
    let (major, minor) = device;
    let link = read_link(&roots.sys.join(format!("dev/block/{major}:{minor}"))).ok();
    // a slash in a name (cciss/c0d0) is written ! in sysfs
    let by_link = link.and_then(|l| Some(l.file_name()?.to_str()?.replace('!', "/")));
    let name = by_link.or_else(|| {
        let text = read_bytes(&roots.proc.join("diskstats")).ok()?;
        let line = text_lines(&text).filter_map(diskstats::parse_line).find(|l| l.device == device)?;
        Some(String::from_utf8_lossy(line.name).into_owned())
    });
    match name {
        Some(name) => names.entry(device).or_insert(name).clone(),
        // not cached: it may get a name later
        None => format!("{major}:{minor}"),
    }
}

#[cfg(test)]
mod tests;
