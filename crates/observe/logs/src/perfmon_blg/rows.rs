//! Conversion of samples to ticks: each counter's raw value is compared with the one before, and the result goes into a
//! column of a frame.

use std::collections::HashMap;
use std::sync::Arc;

use diskwright_base::{Catalogue, CounterKind, Frame, Note, Schema};

use super::counter_formula::{self, CounterType, RawCounter};
use crate::FrameBatch;
use crate::nt::processes::NtProcesses;
use crate::nt::{self, CounterPath};

/// Largest number of columns that are followed.
const MAX_COLUMNS: usize = 1 << 17;
/// Largest number of columns ever made.
const MAX_COLUMNS_MADE: usize = 1 << 20;
/// Samples after which a column without a value may be dropped when others come.
const STALE_SAMPLES: u64 = 100;
/// Approximate size of a frame, cells.
const FRAME_CELLS: usize = 1 << 16;

struct BlgColumn {
    path: CounterPath,
    counter_type: CounterType,
    /// Number of the last sample with a raw value, and that value.
    previous: Option<(u64, RawCounter)>,
    value: f64,
    /// Number of the last sample with a value.
    last_sample: u64,
}

/// Columns behind those of the log that are computed from them.
#[derive(Default)]
struct ComputedColumns {
    products: Vec<nt::Product>,
    interrupts: Option<nt::ColumnSum>,
}

/// Counters by object and instance, with their values.
#[derive(Default)]
pub(super) struct BlgRows {
    columns: Vec<BlgColumn>,
    /// Columns of an instance, by group and name, in the order of the group's counters.
    column_indexes: HashMap<u32, HashMap<String, Vec<Option<usize>>>>,
    columns_made: usize,
    has_new_columns: bool,
    sample_number: u64,
    frame: Frame,
    processes: NtProcesses,
    unmeasured_disks: nt::UnmeasuredDisks,
    row: Vec<f64>,
    computed: ComputedColumns,
    /// Columns that are shares of the time of one thing, and so at most 100 %.
    is_capped: Vec<bool>,
}

impl BlgRows {
    /// Returns the columns of a group's instance. If there are none, `make` is called for their types and paths (`None`
    /// for a counter that is left out).
    pub fn instance_columns(
        &mut self,
        group: u32,
        instance: &str,
        make: &mut dyn FnMut() -> Vec<Option<(CounterType, CounterPath)>>,
    ) -> Vec<Option<usize>> {
        if let Some(columns) = self.column_indexes.get(&group).and_then(|g| g.get(instance)) {
            return columns.clone();
        }
        let mut columns = Vec::new();
        for request in make() {
            let has_space = self.columns.len() < MAX_COLUMNS && self.columns_made < MAX_COLUMNS_MADE;
            columns.push(request.filter(|_| has_space).map(|(kind, path)| {
                self.columns_made += 1;
                self.has_new_columns = true;
                self.columns.push(BlgColumn {
                    path,
                    counter_type: kind,
                    previous: None,
                    value: f64::NAN,
                    last_sample: self.sample_number,
                });
                self.columns.len() - 1
            }));
        }
        // instances without a column are not remembered, or names that come and go would fill the memory
        if columns.iter().any(Option::is_some) {
            self.column_indexes.entry(group).or_default().insert(instance.to_owned(), columns.clone());
        }
        columns
    }

    /// Puts a raw value of this sample. Returns false if the counter went back.
    pub fn put_value(&mut self, column: usize, raw: RawCounter) -> bool {
        let column = &mut self.columns[column];
        // a counter that was not in the previous sample starts again
        let previous = column.previous.filter(|(sample, _)| sample + 1 == self.sample_number).map(|(_, raw)| raw);
        let computed = counter_formula::compute_value(column.counter_type, previous.as_ref(), &raw);
        column.previous = Some((self.sample_number, raw));
        column.value = computed.unwrap_or(f64::NAN);
        column.last_sample = self.sample_number;
        computed.is_some()
    }

    /// Forgets the previous values of an instance whose id changed: another process now has the name of one that ended.
    /// `id_column` is the column of its id.
    pub fn check_identity(&mut self, columns: &[Option<usize>], id_column: usize, id: u64) {
        let previous = self.columns[id_column].previous;
        if previous.is_some_and(|(_, raw)| raw.value != id) {
            columns.iter().flatten().for_each(|&c| self.columns[c].previous = None);
        }
    }

    /// Returns the machine's schema so far.
    pub fn current_schema(&self) -> Schema {
        self.resolve_series().0
    }

    /// Returns the machine's schema so far, and how its last series follow from the others.
    fn resolve_series(&self) -> (Schema, ComputedColumns) {
        let paths: Vec<CounterPath> = self.columns.iter().map(|c| c.path.clone()).collect();
        let mut series = nt::resolve_columns(&paths).iter().map(nt::NtColumn::to_series).collect();
        let products = nt::add_products(&mut series);
        let interrupts = nt::add_interrupt_sum(&mut series);
        (Schema::new(series), ComputedColumns { products, interrupts })
    }

    /// Ends a sample, whose time is `time_ns` since 1970.
    pub fn end_sample(&mut self, time_ns: i64, batch: &mut FrameBatch<'_>) {
        let sample = self.sample_number;
        self.sample_number += 1;
        if self.columns.is_empty() {
            return;
        }
        if std::mem::take(&mut self.has_new_columns) {
            self.flush_frame(batch);
            self.drop_stale(sample);
            let (schema, computed) = self.resolve_series();
            let schema = Arc::new(schema);
            self.computed = computed;
            self.processes = NtProcesses::continue_from(&schema, &self.processes);
            self.is_capped = schema.series.iter().map(|s| is_share(&s.counter)).collect();
            let ticks = (FRAME_CELLS / schema.series.len().max(1)).clamp(1, 256);
            self.frame.reset(schema, ticks);
        }
        let Some(tick) = batch.resolve_tick(time_ns, None) else { return };
        self.row.clear();
        for (column, is_capped) in self.columns.iter().zip(&self.is_capped) {
            let value = if column.last_sample == sample { column.value } else { f64::NAN };
            // the two clocks are not read at the same time, and % Disk Time is a queue length that Windows caps
            self.row.push(if *is_capped && value > 100.0 { 100.0 } else { value });
        }
        self.row.resize(self.frame.schema().series.len(), f64::NAN);
        self.frame.push(tick, &self.row);
        if self.frame.is_full() {
            self.flush_frame(batch);
        }
    }

    /// Passes the collected frame to the batch.
    pub fn flush_frame(&mut self, batch: &mut FrameBatch<'_>) {
        if self.frame.is_empty() {
            return;
        }
        if self.unmeasured_disks.clear_zeros(&mut self.frame) {
            let first_ns = self.frame.ticks()[0].time_ns;
            batch.push_note(Note::new(first_ns, Note::WARNING, nt::UNMEASURED_DISKS.to_owned()));
        }
        nt::fill_products(&mut self.frame, &self.computed.products);
        if let Some(sum) = &self.computed.interrupts {
            nt::fill_sum(&mut self.frame, sum);
        }
        batch.push_frame(&self.frame);
        for note in self.processes.add_frame(&self.frame) {
            batch.push_note(note);
        }
        self.frame.clear();
    }

    fn drop_stale(&mut self, sample: u64) {
        let is_stale = |c: &BlgColumn| c.last_sample + STALE_SAMPLES < sample;
        if !self.columns.iter().any(is_stale) {
            return;
        }
        let mut kept = 0;
        let new_indexes: Vec<Option<usize>> = self
            .columns
            .iter()
            .map(|c| {
                kept += usize::from(!is_stale(c));
                (!is_stale(c)).then(|| kept - 1)
            })
            .collect();
        self.columns.retain(|c| !is_stale(c));
        for group in self.column_indexes.values_mut() {
            group.retain(|_, columns| {
                let is_complete = columns.iter().flatten().all(|&c| new_indexes[c].is_some());
                columns.iter_mut().for_each(|c| *c = c.and_then(|c| new_indexes[c]));
                is_complete
            });
        }
    }
}

/// Returns true for a share of time that cannot exceed 100 %. A process may use several processors.
fn is_share(counter: &str) -> bool {
    let kind = Catalogue::builtin().get(counter).map(|c| c.kind);
    kind == Some(CounterKind::BusyFraction) && !counter.starts_with("process.")
}
