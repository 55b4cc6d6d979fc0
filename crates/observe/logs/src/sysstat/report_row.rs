//! Row of a tick for the tools' reports: every value has a report, a name and an instance, which determine its column;
//! a row of columns becomes a tick.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use diskwright_base::counter_ids::{interrupts, processor, system};
use diskwright_base::diskstats::disk_of_partition;
use diskwright_base::{Catalogue, Schema, Series};

use super::columns::{Reports, SysstatReport};
use super::computed_series::{self, ComputedCell};
use crate::batch::FrameBatch;

/// Largest number of series of one log; a log that names more has instances that come and go.
const MAX_SERIES: usize = 200_000;
/// Number of names beyond which all are forgotten between two ticks; twice as many are refused.
const MAX_NAMES: usize = 400_000;
/// Number of series that a tick may lack before all names are forgotten: instances that come and go would make every
/// row longer.
const SPARSE_SLACK: usize = 2000;
/// Largest number of skips that wait to be reported.
const MAX_PENDING_SKIPS: usize = 1000;
/// Largest possible rate, size or share.
const MAX_VALUE: f64 = 1e18;

/// Column of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueSlot {
    /// Column of the row.
    pub column: u32,
    /// Factor from the value to the column's unit; 1 except where two names of one quantity differ in unit.
    pub factor: f64,
}

/// Maps names to columns, and holds the row of the tick.
pub struct ReportRow {
    slots_by_name: HashMap<Vec<u8>, Option<ValueSlot>>,
    columns_by_target: HashMap<(String, String), u32>,
    /// Disks, which may have partitions.
    disks: HashSet<String>,
    series: Vec<Series>,
    schema: Arc<Schema>,
    computed_cells: Vec<ComputedCell>,
    is_stale: bool,
    /// Number that changes when columns are renumbered.
    pub generation: u32,
    /// Values of the tick; `NaN` if there is none.
    pub cells: Vec<f64>,
    /// Number of values in the row that was emitted last.
    filled_cells: usize,
    key_buffer: Vec<u8>,
    pending_skips: Vec<(String, &'static str)>,
}

impl ReportRow {
    /// Makes a row that knows no name yet.
    pub fn new() -> ReportRow {
        ReportRow {
            slots_by_name: HashMap::new(),
            columns_by_target: HashMap::new(),
            disks: HashSet::new(),
            series: Vec::new(),
            schema: Arc::default(),
            computed_cells: Vec::new(),
            is_stale: false,
            generation: 0,
            cells: Vec::new(),
            filled_cells: 0,
            key_buffer: Vec::new(),
            pending_skips: Vec::new(),
        }
    }

    /// Returns the slot of a value; `None` if it is left out.
    pub fn value_slot(&mut self, report: &str, name: &str, instance: &str) -> Option<ValueSlot> {
        self.key_buffer.clear();
        for part in [report, "\0", name, "\0", instance] {
            self.key_buffer.extend_from_slice(part.as_bytes());
        }
        if let Some(slot) = self.slots_by_name.get(self.key_buffer.as_slice()) {
            return *slot;
        }
        if self.slots_by_name.len() >= 2 * MAX_NAMES {
            self.add_skip(name, "too many different names for one log");
            return None;
        }
        let slot = self.map_name(report, name, instance);
        self.slots_by_name.insert(self.key_buffer.clone(), slot);
        slot
    }

    /// Slot of a counter of the catalogue that no report has; `None` where the row has too many columns.
    pub fn counter_slot(&mut self, counter: &str) -> Option<ValueSlot> {
        self.series_column(counter.to_owned(), String::new(), 1.0)
    }

    /// Puts a value into the row. Of two names of one quantity the first counts.
    pub fn put_value(&mut self, slot: ValueSlot, value: f64) {
        let cell = &mut self.cells[slot.column as usize];
        if cell.is_nan() {
            *cell = value * slot.factor;
        }
    }

    /// Series of the row's columns.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    fn map_name(&mut self, report: &str, name: &str, instance: &str) -> Option<ValueSlot> {
        let known_report = Reports::builtin().find_by_key(report);
        let (counter, instance, scale) = match known_report {
            Some(r) if r.id == "interrupts" => map_interrupt(name, instance)?,
            Some(r) if r.id == "disk" => self.map_disk(r, name, instance)?,
            Some(r) => map_known_name(r, name, instance),
            None => (foreign_counter(report, name), instance.to_owned(), 1.0),
        };
        self.series_column(counter, instance, scale)
    }

    /// Maps a disk or partition; `None` for a sum over a group of disks.
    fn map_disk(&mut self, report: &SysstatReport, name: &str, instance: &str) -> Option<(String, String, f64)> {
        if instance.starts_with(' ') {
            self.add_skip(&format!("group {}", instance.trim()), "the sum of a group of disks, not a disk");
            return None;
        }
        let (counter, instance, scale) = map_known_name(report, name, instance);
        let is_partition = disk_of_partition(&instance).is_some_and(|disk| self.disks.contains(&disk));
        if !is_partition {
            self.disks.insert(instance.clone());
            return Some((counter, instance, scale));
        }
        let volume_counter = counter.replacen("physical_disk.", "logical_disk.", 1);
        match Catalogue::builtin().get(&volume_counter) {
            Some(_) => Some((volume_counter, instance, scale)),
            None if counter.starts_with("foreign.") => Some((counter, instance, scale)),
            None => Some((foreign_counter(&report.id, name), instance, 1.0)),
        }
    }

    fn series_column(&mut self, counter: String, instance: String, scale: f64) -> Option<ValueSlot> {
        if let Some(&column) = self.columns_by_target.get(&(counter.clone(), instance.clone())) {
            return Some(ValueSlot { column, factor: scale / self.series[column as usize].scale });
        }
        if self.series.len() >= MAX_SERIES {
            self.add_skip(&format!("{counter} {instance}"), "too many series for one log");
            return None;
        }
        let column = self.series.len() as u32;
        self.series.push(Series { counter: counter.clone(), instance: instance.clone(), scale });
        self.columns_by_target.insert((counter, instance), column);
        self.cells.push(f64::NAN);
        self.is_stale = true;
        Some(ValueSlot { column, factor: 1.0 })
    }

    /// Computes the series that the log gives in parts, emits the row as a tick and clears it.
    pub fn emit_tick(&mut self, batch: &mut FrameBatch<'_>, time_ns: i64, elapsed_ns: Option<u64>) {
        self.update_row(batch);
        // all values were left out
        if self.series.is_empty() {
            return;
        }
        self.filled_cells = self.cells.iter().filter(|v| !v.is_nan()).count();
        batch.push_tick(&self.schema, time_ns, elapsed_ns, &self.cells);
        self.clear();
    }

    /// Forgets all names when there are too many of them, which renumbers the columns. To be called between ticks, when
    /// no column is remembered.
    pub fn forget_if_sparse(&mut self) {
        let is_sparse = self.series.len() > SPARSE_SLACK + 4 * self.filled_cells;
        if self.slots_by_name.len() > MAX_NAMES || self.series.len() >= MAX_SERIES || is_sparse {
            self.forget_names();
        }
    }

    /// Updates schema and computed cells without emitting the row.
    pub fn update_row(&mut self, batch: &mut FrameBatch<'_>) {
        if self.is_stale {
            self.refresh_schema();
        }
        for (context, because) in self.pending_skips.drain(..) {
            batch.add_skip(context, because);
        }
        if self.cells.iter().any(|v| *v < 0.0 || *v > MAX_VALUE) {
            self.drop_impossible(batch);
        }
        for extra in &self.computed_cells {
            extra.compute(&mut self.cells);
        }
    }

    /// Returns the value of a series in the updated row, in the counter's unit.
    pub fn series_value(&self, counter: &str, instance: &str) -> Option<f64> {
        let column = *self.columns_by_target.get(&(counter.to_owned(), instance.to_owned()))? as usize;
        let value = self.cells[column] * self.series[column].scale;
        (!value.is_nan()).then_some(value)
    }

    /// Adds a skip, to be reported with the next tick.
    pub fn add_skip(&mut self, context: &str, because: &'static str) {
        if self.pending_skips.len() < MAX_PENDING_SKIPS {
            self.pending_skips.push((context.to_owned(), because));
        }
    }

    /// Takes the row's values, to be put back later with [`ReportRow::replace_values`].
    pub fn take_values(&mut self) -> Vec<f64> {
        let values = self.cells.clone();
        self.clear();
        values
    }

    /// Replaces the row's values by values that were taken; series that came later are gaps. Returns the values before.
    pub fn replace_values(&mut self, values: &[f64]) -> Vec<f64> {
        let before = self.take_values();
        self.cells[..values.len()].copy_from_slice(values);
        before
    }

    /// Forgets the row's values.
    pub fn clear(&mut self) {
        self.cells.fill(f64::NAN);
    }

    fn refresh_schema(&mut self) {
        self.is_stale = false;
        for computed in computed_series::computable_series(&self.columns_by_target, &self.series) {
            if let Some(slot) = self.series_column(computed.counter, computed.instance, computed.scale) {
                self.computed_cells.push(computed.recipe.into_cell(slot.column));
            }
        }
        self.is_stale = false;
        self.schema = Arc::new(Schema::new(self.series.clone()));
    }

    #[cold]
    fn drop_impossible(&mut self, batch: &mut FrameBatch<'_>) {
        for (value, series) in self.cells.iter_mut().zip(&self.series) {
            if (*value < 0.0 && !series.counter.starts_with("foreign.")) || value.abs() > MAX_VALUE {
                batch.add_skip(
                    format!("{} {}", series.counter, series.instance),
                    "no value can be below 0 or above 1e18",
                );
                *value = f64::NAN;
            }
        }
    }

    fn forget_names(&mut self) {
        let generation = self.generation.wrapping_add(1);
        *self = ReportRow { generation, ..ReportRow::new() };
    }
}

/// Maps a name of a known report to its counter.
fn map_known_name(report: &SysstatReport, name: &str, instance: &str) -> (String, String, f64) {
    let instance = match report.id.as_str() {
        "cpu" | "softnet" | "cpu-frequency" | "cpu-weighted-frequency" => processor_instance(instance),
        "filesystem" => match instance.strip_prefix("/dev/") {
            Some(device) if !device.contains('/') => device.to_owned(),
            _ => instance.to_owned(),
        },
        "vmstat" => String::new(),
        _ => instance.to_owned(),
    };
    match report.find_column(name) {
        Some(column) => {
            // vmstat's processor columns have no instance of their own
            let is_total = instance.is_empty() && column.counter.starts_with("processor.");
            let instance = if is_total { "_total".to_owned() } else { instance };
            (column.counter.clone(), instance, column.scale)
        }
        None => (foreign_counter(&report.id, name), instance, 1.0),
    }
}

/// Converts a processor's name to the catalogue's: `_total`, `cpu0`.
fn processor_instance(instance: &str) -> String {
    match instance {
        "" | "all" | "-1" => "_total".to_owned(),
        number if number.bytes().all(|b| b.is_ascii_digit()) => format!("cpu{number}"),
        other => other.to_owned(),
    }
}

/// Maps interrupts: the sum of all, its split by processor, and the sum of each one. `None` for the split of single
/// interrupts, which would be most of a log.
fn map_interrupt(name: &str, instance: &str) -> Option<(String, String, f64)> {
    let is_sum = matches!(instance, "sum" | "");
    let processor = name.strip_prefix("CPU").filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    match (processor, is_sum) {
        (Some(number), true) => Some((processor::INTERRUPTS_PER_S.into(), format!("cpu{number}"), 1.0)),
        (Some(_), false) => None,
        (None, true) => Some((system::INTERRUPTS_PER_S.into(), String::new(), 1.0)),
        (None, false) if instance == "LOC" => Some((interrupts::CLOCK_PER_S.into(), String::new(), 1.0)),
        (None, false) => Some(("foreign.interrupts".into(), instance.to_owned(), 1.0)),
    }
}

fn foreign_counter(report: &str, name: &str) -> String {
    format!("foreign.{report}.{}", name.strip_suffix("/s").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(row: &ReportRow, slot: Option<ValueSlot>) -> (String, String, f64) {
        let series = &row.series[slot.unwrap().column as usize];
        (series.counter.clone(), series.instance.clone(), series.scale * slot.unwrap().factor)
    }

    #[test]
    fn maps_names_to_their_counters() {
        let mut row = ReportRow::new();
        for (report, name, instance, counter, own, times) in [
            ("cpu-load", "usr", "all", "processor.user", "_total", 0.01),
            ("cpu-load", "idle", "3", "processor.idle", "cpu3", 0.01),
            ("disk", "aqu-sz", "sda", "physical_disk.avg_queue_length", "sda", 1.0),
            ("disk", "tps", "sda", "physical_disk.transfers_per_s", "sda", 1.0),
            ("disk", "rd_sec", "sda", "physical_disk.read_bytes_per_s", "sda", 512.0),
            ("disk", "rkB", "sda", "physical_disk.read_bytes_per_s", "sda", 1024.0),
            ("disk", "tps", "sda1", "logical_disk.transfers_per_s", "sda1", 1.0),
            ("disk", "f/s", "sda1", "foreign.disk.f", "sda1", 1.0),
            ("disk", "svctm", "sda", "foreign.disk.svctm", "sda", 1.0),
            ("disk", "tps", "sdz9", "physical_disk.transfers_per_s", "sdz9", 1.0),
            ("interrupts", "all", "sum", "system.interrupts_per_s", "", 1.0),
            ("interrupts", "CPU2", "sum", "processor.interrupts_per_s", "cpu2", 1.0),
            ("interrupts", "all", "36", "foreign.interrupts", "36", 1.0),
            ("filesystems", "MBfsfree", "/dev/sda9", "logical_disk.free_bytes", "sda9", 1_048_576.0),
            ("net-sock", "totsck", "", "foreign.net-sock.totsck", "", 1.0),
            ("vmstat", "us", "", "processor.user", "_total", 0.01),
        ] {
            let slot = row.value_slot(report, name, instance);
            assert_eq!(series(&row, slot), (counter.into(), own.into(), times), "{report} {name} {instance}");
        }
        assert_eq!(row.value_slot("interrupts", "CPU2", "36"), None);
        assert_eq!(row.value_slot("disk", "tps", " ALL"), None);
    }

    #[test]
    fn recognizes_partitions_by_their_names() {
        let disk_name = |name| disk_of_partition(name).unwrap_or_default();
        assert_eq!(
            (disk_name("sda1"), disk_name("nvme0n1p2"), disk_name("dev8-17")),
            ("sda".into(), "nvme0n1".into(), "dev8-16".into())
        );
        for disk in ["sda", "nvme0n1", "md0", "dm-3", "loop7", "dev8-16", "dev253-1", "xp1", ""] {
            assert_eq!(disk_of_partition(disk), None, "{disk}");
        }
    }
}
