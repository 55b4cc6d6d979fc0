//! Paths to disks that have several: what each path does, how it compares with the others, and whether it can be used.
//! The numbers are in `/proc/diskstats`: NVMe native multipath has a hidden device for each path (`nvme0c1n1`), and the
//! paths of device mapper's multipath are ordinary disks. States are in sysfs; reading them sends nothing to a device.

use std::fs;
use std::path::Path;

use diskwright_base::Note;
use diskwright_base::counter_ids::path;
use diskwright_base::diskstats::{DISK_FIELDS, IN_FLIGHT_POSITION, MAX_NUMBERS, parse_nvme_path};

use super::multipath::DiskPath;
use crate::live::Roots;
use crate::live::counter_table::{
    ABSENT, CellRule, CounterReset, CounterTable, TableColumn, column_index, level_column, total_column,
};
use crate::live::open_file::read_text;
use crate::live::tick_context::TickContext;
use crate::live::watched_read::watch_read;

/// Fewest requests of a path in a tick for which its latency is compared.
const MIN_REQUESTS: f64 = 10.0;

/// Columns of a path.
const PATH_COLUMNS: [TableColumn; 6] = [
    total_column(path::REQUESTS, 1.0),
    total_column(path::BYTES, 512.0),
    // reads and writes each have a time of 32 bits
    TableColumn { counter: path::REQUEST_TIME_S, scale: 1e-3, rule: CellRule::Sum32 },
    level_column(path::CURRENT_QUEUE_LENGTH, 1.0),
    level_column(path::USABLE, 1.0),
    TableColumn { counter: path::LATENCY_RATIO, scale: 1.0, rule: CellRule::Computed },
];
const REQUESTS_COLUMN: usize = column_index(&PATH_COLUMNS, "path.requests");
const TIME_COLUMN: usize = column_index(&PATH_COLUMNS, "path.request_time_s");
const USABLE_COLUMN: usize = column_index(&PATH_COLUMNS, "path.usable");
const RATIO_COLUMN: usize = column_index(&PATH_COLUMNS, "path.latency_ratio");

/// Position of a number in a line of diskstats.
const fn position_of(counter: &str) -> usize {
    let mut index = 0;
    while index < DISK_FIELDS.len() {
        if is_same(DISK_FIELDS[index].counter.as_bytes(), counter.as_bytes()) {
            return index;
        }
        index += 1;
    }
    panic!("no number of diskstats has this counter")
}

/// Compares texts; `==` cannot be used in constants.
const fn is_same(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut index = 0;
    while index < left.len() {
        if left[index] != right[index] {
            return false;
        }
        index += 1;
    }
    true
}

const READS: usize = position_of("physical_disk.reads");
const WRITES: usize = position_of("physical_disk.writes");
const READ_SECTORS: usize = position_of("physical_disk.read_bytes");
const WRITE_SECTORS: usize = position_of("physical_disk.write_bytes");
const READ_TIME: usize = position_of("physical_disk.read_time_s");
const WRITE_TIME: usize = position_of("physical_disk.write_time_s");

/// A path to a disk with several.
#[derive(Debug)]
struct KnownPath {
    /// The disk: `nvme0n1`, `dm-3`.
    disk: String,
    /// Name in diskstats: `nvme0c1n1`, `sdb`.
    name: String,
    row: usize,
    /// State as the kernel names it, with that of the namespace's path where NVMe has one: `live, optimized`. `None`
    /// before the first reading, and where no state is shown.
    state: Option<String>,
    usable: u64,
}

/// All paths, with their table.
#[derive(Debug)]
pub(super) struct PathWatch {
    known: Vec<KnownPath>,
    is_searched: bool,
}

impl PathWatch {
    pub(super) fn new() -> PathWatch {
        PathWatch { known: Vec::new(), is_searched: false }
    }

    /// Makes the table of the paths.
    pub(super) fn new_table() -> CounterTable {
        CounterTable::new("path", &PATH_COLUMNS, CounterReset::WholeRow)
    }

    /// At slow ticks, looks for paths where devices may have changed, and reads the states.
    pub(super) fn refresh(&mut self, nvme_paths: &[DiskPath], table: &mut CounterTable, context: &mut TickContext) {
        if !context.is_slow_tick && self.is_searched {
            return;
        }
        if context.devices_due || !self.is_searched {
            self.is_searched = true;
            let block = context.roots.sys.join("block");
            // a disk that is gone takes its paths with it; a path that is gone stays, because the disk needs it
            self.known.retain(|known| watch_read(&block, || fs::metadata(block.join(&known.disk))).is_ok());
            let names: Vec<&str> = nvme_paths.iter().map(DiskPath::name).collect();
            let found = find_nvme_paths(&names).into_iter().chain(find_mapped_paths(context.roots));
            for (disk, name) in found {
                if !self.known.iter().any(|known| known.disk == disk && known.name == name) {
                    let row = table.row_or_insert(&format!("{disk}:{name}"));
                    self.known.push(KnownPath { disk, name, row, state: None, usable: ABSENT });
                }
            }
        }
        for known in &mut self.known {
            known.read_state(context);
        }
    }

    /// Stores the numbers of the tick: of NVMe paths their own lines, of others the rows of the disks.
    pub(super) fn fill_rows(&self, nvme_paths: &[DiskPath], disks: &CounterTable, table: &mut CounterTable) {
        for known in &self.known {
            let numbers = match nvme_paths.iter().find(|path| path.name() == known.name) {
                Some(path) => path.numbers().map(|numbers| numbers.map(|number| number.unwrap_or(ABSENT))),
                None => disks.find_row(&known.name).and_then(|row| read_numbers(disks, row)),
            };
            let values = table.row_mut(known.row);
            values[USABLE_COLUMN] = known.usable;
            let Some(numbers) = numbers else { continue };
            let sum = |first: usize, second: usize| match (numbers[first], numbers[second]) {
                (ABSENT, _) | (_, ABSENT) => ABSENT,
                (first, second) => first.saturating_add(second),
            };
            values[..USABLE_COLUMN].copy_from_slice(&[
                sum(READS, WRITES),
                sum(READ_SECTORS, WRITE_SECTORS),
                sum(READ_TIME, WRITE_TIME),
                numbers[IN_FLIGHT_POSITION],
            ]);
        }
    }

    /// Sets the cells that compare each path with the other paths of its disk.
    pub(super) fn compare_paths(&self, table: &mut CounterTable) {
        let latencies: Vec<Option<f64>> = self.known.iter().map(|known| latency_of(table, known.row)).collect();
        for (index, known) in self.known.iter().enumerate() {
            if !table.is_shown(known.row, REQUESTS_COLUMN) {
                continue;
            }
            let others = self.known.iter().zip(&latencies).enumerate();
            let others = others.filter(|(other, (path, _))| *other != index && path.disk == known.disk);
            let mut others: Vec<f64> = others.filter_map(|(_, (_, latency))| *latency).collect();
            let ratio = latencies[index].zip(median(&mut others)).map_or(f64::NAN, |(own, other)| own / other);
            table.set_cell(known.row, RATIO_COLUMN, if ratio.is_finite() { ratio } else { f64::NAN });
        }
    }

    /// Looks up the rows again, after rows were dropped.
    pub(super) fn refresh_rows(&mut self, table: &mut CounterTable) {
        for known in &mut self.known {
            known.row = table.row_or_insert(&format!("{}:{}", known.disk, known.name));
        }
    }
}

/// Returns the numbers of a disk's row at this tick; `None` if the disk has no line.
fn read_numbers(disks: &CounterTable, row: usize) -> Option<[u64; MAX_NUMBERS]> {
    let numbers: [u64; MAX_NUMBERS] = disks.row(row).get(..MAX_NUMBERS)?.try_into().ok()?;
    (numbers[READS] != ABSENT).then_some(numbers)
}

/// Time of a request on a path over the tick, in the kernel's unit; `None` for too few requests.
fn latency_of(table: &CounterTable, row: usize) -> Option<f64> {
    let (requests, time) = (table.cell(row, REQUESTS_COLUMN), table.cell(row, TIME_COLUMN));
    // a request of less than a millisecond may count as none: half of one keeps quick paths comparable
    (requests >= MIN_REQUESTS && time.is_finite()).then(|| time.max(0.5) / requests)
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// Returns disk and path of NVMe disks with several paths.
fn find_nvme_paths(names: &[&str]) -> Vec<(String, String)> {
    let all: Vec<(String, String)> =
        names.iter().filter_map(|name| Some((parse_nvme_path(name)?.0, (*name).to_owned()))).collect();
    let has_several = |disk: &String| all.iter().filter(|(other, _)| other == disk).count() > 1;
    all.iter().filter(|(disk, _)| has_several(disk)).cloned().collect()
}

/// Returns disk and path of device mapper's multipath devices with several paths.
fn find_mapped_paths(roots: &Roots) -> Vec<(String, String)> {
    let block = roots.sys.join("block");
    let mut found = Vec::new();
    for disk in sorted_names(&block).into_iter().filter(|name| name.starts_with("dm-")) {
        let folder = block.join(&disk);
        let is_multipath = read_text(&folder.join("dm/uuid")).is_some_and(|uuid| uuid.starts_with("mpath-"));
        let paths = if is_multipath { sorted_names(&folder.join("slaves")) } else { Vec::new() };
        if paths.len() > 1 {
            found.extend(paths.into_iter().map(|path| (disk.clone(), path.replace('!', "/"))));
        }
    }
    found
}

fn sorted_names(folder: &Path) -> Vec<String> {
    let Ok(entries) = watch_read(folder, || fs::read_dir(folder)) else { return Vec::new() };
    let mut names: Vec<String> = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

impl KnownPath {
    /// Reads the state, and notes a change.
    fn read_state(&mut self, context: &mut TickContext) {
        let folder = context.roots.sys.join("block").join(self.name.replace('/', "!"));
        let controller = parse_nvme_path(&self.name).map(|(_, controller)| controller);
        let controller = controller.map(|name| context.roots.sys.join("class/nvme").join(name));
        let state_file = controller.as_ref().map_or_else(|| folder.join("device/state"), |c| c.join("state"));
        let is_gone = watch_read(&folder, || fs::metadata(&folder)).is_err() && read_text(&state_file).is_none();
        let state = read_text(&state_file).filter(|state| !state.is_empty());
        let access = read_text(&folder.join("ana_state")).filter(|access| !access.is_empty());
        self.usable = match &state {
            Some(state) => u64::from(is_working(state) && access.as_deref().is_none_or(is_accessible)),
            None if is_gone => 0,
            None => ABSENT,
        };
        let now = match (state, access) {
            (Some(state), Some(access)) => Some(format!("{state}, {access}")),
            (Some(state), None) => Some(state),
            (None, _) if is_gone => Some("gone".to_owned()),
            (None, _) => None,
        };
        let is_first = self.state.is_none();
        if now.is_some() && self.state != now && !(is_first && self.usable == 1) {
            let route = controller.map_or_else(String::new, |folder| describe_route(&folder));
            let state = now.as_deref().unwrap_or_default();
            let text = format!("{}: the path {}{route} is {state}", self.disk, self.name);
            context.notes.push(context.time_ns, Note::WARNING, text);
        }
        self.state = now;
    }
}

/// Returns true for states of a controller or SCSI device in which it takes requests.
fn is_working(state: &str) -> bool {
    matches!(state, "live" | "running")
}

/// Returns true for states of a namespace's path that allow access.
fn is_accessible(access: &str) -> bool {
    matches!(access, "optimized" | "non-optimized")
}

/// Describes how a controller is reached: ` (tcp, traddr=192.0.2.1,trsvcid=4420)`.
fn describe_route(controller: &Path) -> String {
    let read = |file: &str| read_text(&controller.join(file)).filter(|text| !text.is_empty());
    let parts: Vec<String> = ["transport", "address"].into_iter().filter_map(read).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

#[cfg(test)]
mod tests;
