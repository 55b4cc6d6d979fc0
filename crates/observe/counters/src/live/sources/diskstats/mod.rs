//! `/proc/diskstats`: requests of every block device. Whole devices (disks, md, dm, loop, zram) become `physical_disk`
//! instances, partitions become `logical_disk` instances.
//!
//! The kernel adds a request's time when it *completes*, so a device that
//! holds requests and completes none shows no work at all. A separate cell, `stalled`, distinguishes that from an idle
//! tick. A line has 11 numbers before Linux 4.18, 15 before 5.5, and 17 since then; that of a partition has 4 before
//! 2.6.25.

use std::hint::black_box;

use crate::live::counter_table::{
    ABSENT, CellRule, CounterReset, CounterTable, TableColumn, column_index, level_column, total_column, total32_column,
};
use crate::live::open_file::{OpenFile, read_number};
use crate::live::text_scan::{WordIter, parse_number, text_lines, trim_blanks};
use crate::live::tick_context::TickContext;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};
use diskwright_base::Note;
use diskwright_base::counter_ids::physical_disk;
use diskwright_base::diskstats::{
    COMPLETED_POSITIONS, DISK_FIELDS, DiskstatsField, DiskstatsNumber, IN_FLIGHT_POSITION, MAX_NUMBERS,
    PARTITION_FIELDS, PARTITION_POSITIONS,
};
use multipath::DiskPath;
use paths::PathWatch;

mod multipath;
mod paths;

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "diskstats",
    files: &["/proc/diskstats", "/sys/class/nvme/nvmeN/state", "/sys/block/sdN/device/state"],
    explain: "Requests, bytes and times of every block device and partition, and of each path to a disk with several.",
    parse_any: |bytes| text_lines(bytes).for_each(|line| _ = black_box(parse_line(line))),
    open: |roots, _: &SamplerOptions| Some(Box::new(Diskstats::new(roots))),
};

const STALLED_COLUMN: usize = MAX_NUMBERS;

/// Creates the column for a number of the line.
const fn table_column(field: DiskstatsField) -> TableColumn {
    match field.number {
        DiskstatsNumber::Level => level_column(field.counter, field.scale),
        DiskstatsNumber::Total => total_column(field.counter, field.scale),
        DiskstatsNumber::Total32 => total32_column(field.counter, field.scale),
    }
}

/// Columns of a disk in the order of the file, then the computed one.
const DISK_COLUMNS: [TableColumn; MAX_NUMBERS + 1] = {
    let stalled = TableColumn { counter: physical_disk::STALLED, scale: 1.0, rule: CellRule::Computed };
    let mut columns = [stalled; MAX_NUMBERS + 1];
    let mut index = 0;
    while index < MAX_NUMBERS {
        columns[index] = table_column(DISK_FIELDS[index]);
        index += 1;
    }
    columns
};

const _: () = {
    assert!(column_index(&DISK_COLUMNS, "physical_disk.current_queue_length") == IN_FLIGHT_POSITION);
    assert!(column_index(&DISK_COLUMNS, "physical_disk.reads") == COMPLETED_POSITIONS[0]);
    assert!(column_index(&DISK_COLUMNS, "physical_disk.writes") == COMPLETED_POSITIONS[1]);
    assert!(column_index(&DISK_COLUMNS, "physical_disk.discards") == COMPLETED_POSITIONS[2]);
    assert!(column_index(&DISK_COLUMNS, "physical_disk.flushes") == COMPLETED_POSITIONS[3]);
    assert!(column_index(&DISK_COLUMNS, "physical_disk.stalled") == STALLED_COLUMN);
};

const PARTITION_COLUMNS: [TableColumn; PARTITION_FIELDS.len()] = {
    let mut columns = [table_column(PARTITION_FIELDS[0]); PARTITION_FIELDS.len()];
    let mut index = 0;
    while index < PARTITION_FIELDS.len() {
        columns[index] = table_column(PARTITION_FIELDS[index]);
        index += 1;
    }
    columns
};

/// A line of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskstatsLine<'a> {
    /// Device number.
    pub device: (u64, u64),
    /// Kernel name.
    pub name: &'a [u8],
    /// The numbers after the name, in the order of a modern kernel. `None` stands for a missing or invalid number.
    pub numbers: [Option<u64>; MAX_NUMBERS],
}

/// Parses a line; `None` if it is not a line of diskstats.
pub fn parse_line(line: &[u8]) -> Option<DiskstatsLine<'_>> {
    let mut words = WordIter::new(line);
    let device = (words.next_number()??, words.next_number()??);
    let name = words.next_word()?;
    let mut numbers = [None; MAX_NUMBERS];
    let mut count = 0;
    while count < MAX_NUMBERS {
        let Some(number) = words.next_number() else { break };
        numbers[count] = number;
        count += 1;
    }
    match count {
        // a partition of an old kernel: reads, sectors, writes, sectors
        4 => {
            let [reads, read_sectors, writes, write_sectors] = [numbers[0], numbers[1], numbers[2], numbers[3]];
            numbers = [None; MAX_NUMBERS];
            (numbers[0], numbers[2], numbers[4], numbers[6]) = (reads, read_sectors, writes, write_sectors);
        }
        11.. => {}
        _ => return None,
    }
    // some kernels let the number in flight fall below zero and print it unsigned
    numbers[IN_FLIGHT_POSITION] = numbers[IN_FLIGHT_POSITION].filter(|n| *n < 1 << 31);
    Some(DiskstatsLine { device, name, numbers })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiskstatsTarget {
    Disk(usize),
    Partition(usize),
    /// Unbound, like loop, ram and zram devices that are not in use. `done` is the number of requests completed so far:
    /// a new request means that the device is bound.
    Unbound {
        done: u64,
    },
}

#[derive(Debug)]
struct DiskstatsSlot {
    name: Box<[u8]>,
    device: (u64, u64),
    target: DiskstatsTarget,
    /// File with the size of the device, if the size shows whether the device is bound.
    size_file: Option<OpenFile>,
}

impl DiskstatsSlot {
    /// Reads the size of a device whose size shows if it is bound. Called at slow ticks only; few size files stay open,
    /// because a machine may have hundreds of loop devices. The kernel sends an event whenever a file is bound to a
    /// loop device or unbound, but not always for other devices.
    fn read_sectors(&mut self, context: &mut TickContext) -> Option<u64> {
        if self.name.starts_with(b"loop") && !context.devices_due {
            return None;
        }
        parse_number(trim_blanks(self.size_file.as_mut()?.read(context)?))
    }
}

/// Largest number of size files that stay open.
const MAX_OPEN_SIZE_FILES: usize = 64;

fn open_size_file(name: &str, roots: &Roots, open_count: usize) -> Option<OpenFile> {
    let has_size_file = may_be_unbound(name) && has_meaningful_size(name);
    let path = || roots.sys.join("block").join(name).join("size");
    has_size_file.then(|| OpenFile::in_one_read(path(), "").without_notes().keep_open(open_count < MAX_OPEN_SIZE_FILES))
}

struct Diskstats {
    file: OpenFile,
    /// One slot per line, in the order of the file.
    slots: Vec<DiskstatsSlot>,
    /// Paths of NVMe multipath disks.
    paths: Vec<DiskPath>,
    /// Paths of disks with several paths.
    path_watch: PathWatch,
    /// Whole devices, partitions and paths.
    tables: [CounterTable; 3],
}

impl Diskstats {
    fn new(roots: &Roots) -> Diskstats {
        Diskstats {
            file: OpenFile::in_pieces(roots.proc.join("diskstats"), "without it no disk can be watched"),
            slots: Vec::new(),
            paths: Vec::new(),
            path_watch: PathWatch::new(),
            tables: [
                CounterTable::new("disk", &DISK_COLUMNS, CounterReset::WholeRow),
                CounterTable::new("partition", &PARTITION_COLUMNS, CounterReset::WholeRow),
                PathWatch::new_table(),
            ],
        }
    }
}

impl CounterSource for Diskstats {
    fn read_tick(&mut self, context: &mut TickContext) {
        if context.is_slow_tick {
            self.drop_gone_devices(context);
        }
        let Some(text) = self.file.read(context) else {
            self.tables.iter_mut().for_each(CounterTable::blank_all);
            return;
        };
        self.tables.iter_mut().for_each(CounterTable::begin_tick);
        let (mut cursor, mut any_unbound) = (0, false);
        for raw in text_lines(text) {
            match parse_line(raw) {
                Some(line) if multipath::record_path_line(&mut self.paths, &line) => {}
                Some(line) => {
                    let slot = find_or_insert_slot(&mut self.slots, &mut self.tables, cursor, &line, context);
                    cursor = slot + 1;
                    any_unbound |= fill_row(&mut self.slots[slot], &mut self.tables, &line, context);
                }
                None => context.notes.push_limited(context.time_ns, Note::GAP, "diskstats line", || {
                    let text = String::from_utf8_lossy(raw);
                    format!("{}: a line is not understood: `{text}`", context.roots.proc.join("diskstats").display())
                }),
            }
        }
        if any_unbound {
            let is_unbound = |s: &DiskstatsSlot, name: &str| {
                matches!(s.target, DiskstatsTarget::Unbound { .. }) && *s.name == *name.as_bytes()
            };
            let slots = &self.slots;
            self.tables[0].retain_rows(|name, _| !slots.iter().any(|s| is_unbound(s, name)));
            self.refresh_rows();
        }
        let [disks, _, path_table] = &mut self.tables;
        self.path_watch.refresh(&self.paths, path_table, context);
        self.path_watch.fill_rows(&self.paths, disks, path_table);
        multipath::credit_disks(&mut self.paths, disks);
        self.tables.iter_mut().for_each(|t| t.compute_cells(context));
        self.path_watch.compare_paths(&mut self.tables[2]);
        self.judge_stalls(context);
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

/// Returns the slot of a line; adds one if there is none. Lines keep their order, so it is nearly always the slot at
/// the cursor.
fn find_or_insert_slot(
    slots: &mut Vec<DiskstatsSlot>,
    tables: &mut [CounterTable; 3],
    cursor: usize,
    line: &DiskstatsLine,
    context: &mut TickContext,
) -> usize {
    let has_name = |s: &DiskstatsSlot| *s.name == *line.name;
    if slots.get(cursor).is_some_and(has_name) {
        return cursor;
    }
    if let Some(found) = slots.iter().position(has_name) {
        return found;
    }
    context.topology_due = true;
    let target = classify_device(tables, line, context.roots);
    let index = cursor.min(slots.len());
    let open_count = slots.iter().filter(|slot| slot.size_file.is_some()).count();
    let size_file = open_size_file(&String::from_utf8_lossy(line.name), context.roots, open_count);
    slots.insert(index, DiskstatsSlot { name: line.name.into(), device: line.device, target, size_file });
    index
}

/// Classifies a device that was not seen before.
fn classify_device(tables: &mut [CounterTable; 3], line: &DiskstatsLine, roots: &Roots) -> DiskstatsTarget {
    let name = String::from_utf8_lossy(line.name);
    if is_partition(&name, roots) {
        return DiskstatsTarget::Partition(tables[1].row_or_insert(&name));
    }
    let done = completed_requests(line);
    let shows_size = has_meaningful_size(&name);
    if may_be_unbound(&name) && (done == 0 || shows_size) && !has_backing(&name, roots) {
        return DiskstatsTarget::Unbound { done };
    }
    DiskstatsTarget::Disk(tables[0].row_or_insert(&name))
}

/// Returns true for drivers that create devices in advance.
fn may_be_unbound(name: &str) -> bool {
    ["loop", "ram", "zram", "nbd", "fd", "sr"]
        .iter()
        .any(|driver| name.strip_prefix(driver).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())))
}

/// Number of requests completed since boot.
fn completed_requests(line: &DiskstatsLine) -> u64 {
    COMPLETED_POSITIONS.iter().filter_map(|i| line.numbers[*i]).fold(0, u64::wrapping_add)
}

/// Returns true if the device's size shows that it is in use: memory disks always have a size, and drives with
/// removable media keep the size of an earlier medium.
fn has_meaningful_size(name: &str) -> bool {
    !["ram", "fd", "sr"].iter().any(|driver| name.starts_with(driver))
}

/// Returns true if the device is bound to storage.
fn has_backing(name: &str, roots: &Roots) -> bool {
    has_meaningful_size(name)
        && read_number(&roots.sys.join("block").join(name).join("size")).is_some_and(|sectors| sectors > 0)
}

/// Returns true for a partition, by sysfs, or where that is hidden, by the kernel's naming rules.
fn is_partition(name: &str, roots: &Roots) -> bool {
    // a slash in a name (cciss/c0d0) is written ! in sysfs
    let file = name.replace('/', "!");
    if roots.sys.join("block").join(&file).exists() {
        return false;
    }
    if roots.sys.join("class/block").join(&file).join("partition").exists() {
        return true;
    }
    is_partition_name(name)
}

/// Returns true for `sda1`, `vdb2`, `nvme0n1p1`, `mmcblk0p2`, `md0p1`; not for `sda`, `nvme0n1`, `md127`, `dm-3`.
pub fn is_partition_name(name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.len() == name.len() {
        return false;
    }
    if let Some(before) = stem.strip_suffix('p') {
        return before.ends_with(|c: char| c.is_ascii_digit());
    }
    ["sd", "hd", "vd", "xvd"].iter().any(|prefix| {
        stem.strip_prefix(prefix).is_some_and(|s| !s.is_empty() && s.bytes().all(|b| b.is_ascii_lowercase()))
    })
}

/// Stores a line's numbers. Returns true if its device has become unbound (a detached loop device, whose line
/// stays): then its numbers are not stored.
fn fill_row(
    slot: &mut DiskstatsSlot,
    tables: &mut [CounterTable; 3],
    line: &DiskstatsLine,
    context: &mut TickContext,
) -> bool {
    if slot.device != line.device {
        // another device has taken the name
        slot.device = line.device;
        context.topology_due = true;
        let (table, row) = match slot.target {
            DiskstatsTarget::Disk(row) => (&mut tables[0], row),
            DiskstatsTarget::Partition(row) => (&mut tables[1], row),
            DiskstatsTarget::Unbound { .. } => return false,
        };
        table.forget_previous_of(row);
    }
    if let DiskstatsTarget::Unbound { done: done_before } = slot.target {
        if completed_requests(line) == done_before
            && !(context.is_slow_tick && slot.read_sectors(context).is_some_and(|sectors| sectors > 0))
        {
            return false;
        }
        context.topology_due = true;
        slot.target = DiskstatsTarget::Disk(tables[0].row_or_insert(&String::from_utf8_lossy(line.name)));
    }
    // a size of 0: the device has become unbound
    if context.is_slow_tick && matches!(slot.target, DiskstatsTarget::Disk(_)) && slot.read_sectors(context) == Some(0)
    {
        context.topology_due = true;
        slot.target = DiskstatsTarget::Unbound { done: completed_requests(line) };
        return true;
    }
    match slot.target {
        DiskstatsTarget::Disk(row) => {
            for (to, from) in tables[0].row_mut(row).iter_mut().zip(line.numbers) {
                *to = from.unwrap_or(ABSENT);
            }
        }
        DiskstatsTarget::Partition(row) => {
            for (to, from) in tables[1].row_mut(row).iter_mut().zip(PARTITION_POSITIONS) {
                *to = line.numbers[from].unwrap_or(ABSENT);
            }
        }
        DiskstatsTarget::Unbound { .. } => {}
    }
    false
}

impl Diskstats {
    /// Sets the `stalled` cell: requests are in flight and none completed.
    fn judge_stalls(&mut self, context: &mut TickContext) {
        let table = &mut self.tables[0];
        for row in 0..table.len() {
            let in_flight = table.cell(row, IN_FLIGHT_POSITION);
            // absent fields (no discards on this kernel) add nothing; a gap in the reads is a gap in the result
            let mut completed = table.cell(row, COMPLETED_POSITIONS[0]);
            for column in &COMPLETED_POSITIONS[1..] {
                let cell = table.cell(row, *column);
                completed += if cell.is_nan() { 0.0 } else { cell };
            }
            let value = if in_flight.is_nan() || completed.is_nan() {
                f64::NAN
            } else if in_flight > 0.0 && completed == 0.0 {
                1.0
            } else {
                0.0
            };
            if value == 1.0 {
                context.processes_due = true;
            }
            if table.is_shown(row, IN_FLIGHT_POSITION) {
                table.set_cell(row, STALLED_COLUMN, value);
            }
        }
    }

    /// Drops devices that have been gone since the last slow tick from the schema.
    fn drop_gone_devices(&mut self, context: &mut TickContext) {
        if self.tables.iter().all(|t| !t.any_gone()) {
            return;
        }
        context.topology_due = true;
        let is_gone = |slot: &DiskstatsSlot, tables: &[CounterTable; 3]| match slot.target {
            DiskstatsTarget::Disk(row) => tables[0].is_gone(row),
            DiskstatsTarget::Partition(row) => tables[1].is_gone(row),
            DiskstatsTarget::Unbound { .. } => false,
        };
        let tables = &self.tables;
        self.slots.retain(|slot| !is_gone(slot, tables));
        for table in &mut self.tables {
            table.retain_rows(|_, gone| !gone);
        }
        self.refresh_rows();
    }

    /// Looks up the devices' rows again, after rows were dropped.
    fn refresh_rows(&mut self) {
        for slot in &mut self.slots {
            let name = String::from_utf8_lossy(&slot.name);
            slot.target = match slot.target {
                DiskstatsTarget::Disk(_) => DiskstatsTarget::Disk(self.tables[0].row_or_insert(&name)),
                DiskstatsTarget::Partition(_) => DiskstatsTarget::Partition(self.tables[1].row_or_insert(&name)),
                unbound @ DiskstatsTarget::Unbound { .. } => unbound,
            };
        }
        self.path_watch.refresh_rows(&mut self.tables[2]);
    }
}

#[cfg(test)]
mod tests;
