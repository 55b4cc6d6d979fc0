//! `/proc/diskstats`: requests of every block device. Whole devices (disks, md,
//! dm, loop, zram) become `physical_disk` instances, partitions
//! `logical_disk` instances.
//!
//! The kernel adds a request's time when it *completes*, so a device that
//! holds requests and completes none shows no work at all: that is `stalled`,
//! a separate cell, never an idle tick. A kernel before 4.18 has 11 numbers
//! a line, one before 5.5 has 15, newer ones 17; partitions before 2.6.25
//! have 4.

use std::hint::black_box;

use crate::live::held::{OpenFile, read_number};
use crate::live::moment::TickContext;
use crate::live::scan::{WordIter, lines, number, trim};
use crate::live::totals::{ABSENT, CellRule, CounterReset, CounterTable, TableColumn, level, total, total32};
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};
use diskwright_base::Note;
use diskwright_base::diskstats::{
    COMPLETED_POSITIONS, DISK_FIELDS, DiskstatsField, DiskstatsNumber, IN_FLIGHT_POSITION, MAX_NUMBERS,
    PARTITION_FIELDS, PARTITION_POSITIONS,
};
use paths::DiskPath;

mod paths;

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "diskstats",
    files: &["/proc/diskstats"],
    explain: "Requests, bytes and times of every block device and partition.",
    parse_any: |bytes| lines(bytes).for_each(|line| _ = black_box(parse_line(line))),
    open: |roots, _: &SamplerOptions| Some(Box::new(Diskstats::new(roots))),
};

const STALLED: usize = MAX_NUMBERS;

/// Creates the column for a number of the line.
const fn column(field: DiskstatsField) -> TableColumn {
    match field.number {
        DiskstatsNumber::Level => level(field.counter, field.scale),
        DiskstatsNumber::Total => total(field.counter, field.scale),
        DiskstatsNumber::Total32 => total32(field.counter, field.scale),
    }
}

/// Columns of a disk in the order of the file, then the computed one.
const WHOLE: [TableColumn; MAX_NUMBERS + 1] = {
    let stalled = TableColumn { counter: "physical_disk.stalled", scale: 1.0, rule: CellRule::Computed };
    let mut columns = [stalled; MAX_NUMBERS + 1];
    let mut place = 0;
    while place < MAX_NUMBERS {
        columns[place] = column(DISK_FIELDS[place]);
        place += 1;
    }
    columns
};

const PART: [TableColumn; PARTITION_FIELDS.len()] = {
    let mut columns = [column(PARTITION_FIELDS[0]); PARTITION_FIELDS.len()];
    let mut place = 0;
    while place < PARTITION_FIELDS.len() {
        columns[place] = column(PARTITION_FIELDS[place]);
        place += 1;
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
    /// The numbers after the name, in the order of a modern kernel. `None`
    /// stands for a missing or invalid number.
    pub numbers: [Option<u64>; MAX_NUMBERS],
}

/// Parses a line; `None` where it is not one of diskstats.
pub fn parse_line(line: &[u8]) -> Option<DiskstatsLine<'_>> {
    let mut words = WordIter::new(line);
    let device = (words.number()??, words.number()??);
    let name = words.word()?;
    let mut numbers = [None; MAX_NUMBERS];
    let mut count = 0;
    while count < MAX_NUMBERS {
        let Some(number) = words.number() else { break };
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
    Whole(usize),
    Part(usize),
    /// Unbound, like loop, ram and zram devices that are not in use; with
    /// the number of requests completed so far, because a new request means that it is bound.
    Idle {
        done: u64,
    },
}

#[derive(Debug)]
struct DiskstatsSlot {
    name: Box<[u8]>,
    device: (u64, u64),
    target: DiskstatsTarget,
    /// File with the size of the device, for one that may be unbound.
    size: Option<OpenFile>,
}

impl DiskstatsSlot {
    /// Reads the size of a device whose size shows if it is bound: read at slow ticks, and kept open only up to
    /// a limit, because a machine may have hundreds of loop devices. The kernel sends an event when a file is bound to
    /// a loop device or unbound; for other devices it does not always do so.
    fn sectors(&mut self, context: &mut TickContext) -> Option<u64> {
        if self.name.starts_with(b"loop") && !context.devices_due {
            return None;
        }
        number(trim(self.size.as_mut()?.read(context)?))
    }
}

/// Most size files that stay open.
const SIZES_OPEN: usize = 64;

fn size_file(name: &str, roots: &Roots, open: usize) -> Option<OpenFile> {
    let has_one = may_be_unbound(name) && has_own_size(name);
    let path = || roots.sys.join("block").join(name).join("size");
    has_one.then(|| OpenFile::whole(path(), "").quiet().keep(open < SIZES_OPEN))
}

struct Diskstats {
    file: OpenFile,
    /// One slot per line, in the order of the file.
    slots: Vec<DiskstatsSlot>,
    /// Paths of NVMe multipath disks.
    paths: Vec<DiskPath>,
    /// Whole devices and partitions.
    tables: [CounterTable; 2],
}

impl Diskstats {
    fn new(roots: &Roots) -> Diskstats {
        Diskstats {
            file: OpenFile::pieces(roots.proc.join("diskstats"), "without it no disk can be watched"),
            slots: Vec::new(),
            paths: Vec::new(),
            tables: [
                CounterTable::new("disk", &WHOLE, CounterReset::RowBeganAnew),
                CounterTable::new("partition", &PART, CounterReset::RowBeganAnew),
            ],
        }
    }
}

impl CounterSource for Diskstats {
    fn tick(&mut self, context: &mut TickContext) {
        if context.slow {
            self.drop_gone(context);
        }
        let Some(text) = self.file.read(context) else {
            self.tables.iter_mut().for_each(CounterTable::gap);
            return;
        };
        self.tables.iter_mut().for_each(CounterTable::begin);
        let (mut cursor, mut unbound) = (0, false);
        for raw in lines(text) {
            match parse_line(raw) {
                Some(line) if paths::take(&mut self.paths, &line) => {}
                Some(line) => {
                    let slot = slot(&mut self.slots, &mut self.tables, cursor, &line, context);
                    cursor = slot + 1;
                    unbound |= fill(&mut self.slots[slot], &mut self.tables, &line, context);
                }
                None => context.notes.limited(context.time_ns, Note::GAP, "diskstats line", || {
                    let text = String::from_utf8_lossy(raw);
                    format!("{}: a line is not understood: `{text}`", context.roots.proc.join("diskstats").display())
                }),
            }
        }
        if unbound {
            let idle = |s: &DiskstatsSlot, name: &str| {
                matches!(s.target, DiskstatsTarget::Idle { .. }) && *s.name == *name.as_bytes()
            };
            let slots = &self.slots;
            self.tables[0].retain(|name, _| !slots.iter().any(|s| idle(s, name)));
            self.find_rows();
        }
        paths::carry(&mut self.paths, &mut self.tables[0]);
        self.tables.iter_mut().for_each(|t| t.settle(context));
        self.judge_stalls(context);
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

/// Returns the slot of a line, which is added where there is none. Lines keep their order, so
/// it is nearly always the one at the cursor.
fn slot(
    slots: &mut Vec<DiskstatsSlot>,
    tables: &mut [CounterTable; 2],
    cursor: usize,
    line: &DiskstatsLine,
    context: &mut TickContext,
) -> usize {
    let is = |s: &DiskstatsSlot| *s.name == *line.name;
    if slots.get(cursor).is_some_and(is) {
        return cursor;
    }
    if let Some(found) = slots.iter().position(is) {
        return found;
    }
    context.rescan = true;
    let target = target(tables, line, context.roots);
    let place = cursor.min(slots.len());
    let open = slots.iter().filter(|slot| slot.size.is_some()).count();
    let size = size_file(&String::from_utf8_lossy(line.name), context.roots, open);
    slots.insert(place, DiskstatsSlot { name: line.name.into(), device: line.device, target, size });
    place
}

/// Classifies a device that was not seen before.
fn target(tables: &mut [CounterTable; 2], line: &DiskstatsLine, roots: &Roots) -> DiskstatsTarget {
    let name = String::from_utf8_lossy(line.name);
    if is_partition(&name, roots) {
        return DiskstatsTarget::Part(tables[1].row(&name));
    }
    let done = done(line);
    let is_media = !has_own_size(&name);
    if may_be_unbound(&name) && (done == 0 || !is_media) && !has_size(&name, roots) {
        return DiskstatsTarget::Idle { done };
    }
    DiskstatsTarget::Whole(tables[0].row(&name))
}

/// Returns true for drivers that create devices in advance.
fn may_be_unbound(name: &str) -> bool {
    ["loop", "ram", "zram", "nbd", "fd", "sr"]
        .iter()
        .any(|driver| name.strip_prefix(driver).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())))
}

/// Number of requests completed since boot.
fn done(line: &DiskstatsLine) -> u64 {
    COMPLETED_POSITIONS.iter().filter_map(|i| line.numbers[*i]).fold(0, u64::wrapping_add)
}

/// Returns true if the device's size shows that it is in use: memory disks always have a size, and drives
/// with removable media an old one.
fn has_own_size(name: &str) -> bool {
    !["ram", "fd", "sr"].iter().any(|driver| name.starts_with(driver))
}

/// Returns true if the device is bound to storage.
fn has_size(name: &str, roots: &Roots) -> bool {
    has_own_size(name)
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
    named_like_a_partition(name)
}

/// Returns true for `sda1`, `vdb2`, `nvme0n1p1`, `mmcblk0p2`, `md0p1`; not for `sda`, `nvme0n1`, `md127`, `dm-3`.
pub fn named_like_a_partition(name: &str) -> bool {
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
/// stays): then it has no numbers.
fn fill(
    slot: &mut DiskstatsSlot,
    tables: &mut [CounterTable; 2],
    line: &DiskstatsLine,
    context: &mut TickContext,
) -> bool {
    if slot.device != line.device {
        // another device has taken the name
        slot.device = line.device;
        context.rescan = true;
        let (table, row) = match slot.target {
            DiskstatsTarget::Whole(row) => (&mut tables[0], row),
            DiskstatsTarget::Part(row) => (&mut tables[1], row),
            DiskstatsTarget::Idle { .. } => return false,
        };
        table.forget_row(row);
    }
    if let DiskstatsTarget::Idle { done: known } = slot.target {
        if done(line) == known && !(context.slow && slot.sectors(context).is_some_and(|sectors| sectors > 0)) {
            return false;
        }
        context.rescan = true;
        slot.target = DiskstatsTarget::Whole(tables[0].row(&String::from_utf8_lossy(line.name)));
    }
    // a size of 0: the device has become unbound
    if context.slow && matches!(slot.target, DiskstatsTarget::Whole(_)) && slot.sectors(context) == Some(0) {
        context.rescan = true;
        slot.target = DiskstatsTarget::Idle { done: done(line) };
        return true;
    }
    match slot.target {
        DiskstatsTarget::Whole(row) => {
            for (to, from) in tables[0].fill(row).iter_mut().zip(line.numbers) {
                *to = from.unwrap_or(ABSENT);
            }
        }
        DiskstatsTarget::Part(row) => {
            for (to, from) in tables[1].fill(row).iter_mut().zip(PARTITION_POSITIONS) {
                *to = line.numbers[from].unwrap_or(ABSENT);
            }
        }
        DiskstatsTarget::Idle { .. } => {}
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
            let mut completed = table.cell(row, 0);
            for column in &COMPLETED_POSITIONS[1..] {
                let cell = table.cell(row, *column);
                completed += if cell.is_nan() { 0.0 } else { cell };
            }
            let value = match () {
                () if in_flight.is_nan() || completed.is_nan() => f64::NAN,
                () if in_flight > 0.0 && completed == 0.0 => 1.0,
                () => 0.0,
            };
            if value == 1.0 {
                context.trouble = true;
            }
            if table.is_shown(row, IN_FLIGHT_POSITION) {
                table.compute(row, STALLED, value);
            }
        }
    }

    /// Drops devices that have been gone since the last slow tick from the schema.
    fn drop_gone(&mut self, context: &mut TickContext) {
        if self.tables.iter().all(|t| !t.any_gone()) {
            return;
        }
        context.rescan = true;
        let gone = |slot: &DiskstatsSlot, tables: &[CounterTable; 2]| match slot.target {
            DiskstatsTarget::Whole(row) => tables[0].is_gone(row),
            DiskstatsTarget::Part(row) => tables[1].is_gone(row),
            DiskstatsTarget::Idle { .. } => false,
        };
        let tables = &self.tables;
        self.slots.retain(|slot| !gone(slot, tables));
        for table in &mut self.tables {
            table.retain(|_, gone| !gone);
        }
        self.find_rows();
    }

    /// Looks up the devices' rows again, after rows were dropped.
    fn find_rows(&mut self) {
        for slot in &mut self.slots {
            let name = String::from_utf8_lossy(&slot.name);
            slot.target = match slot.target {
                DiskstatsTarget::Whole(_) => DiskstatsTarget::Whole(self.tables[0].row(&name)),
                DiskstatsTarget::Part(_) => DiskstatsTarget::Part(self.tables[1].row(&name)),
                idle @ DiskstatsTarget::Idle { .. } => idle,
            };
        }
    }
}

#[cfg(test)]
mod tests;
