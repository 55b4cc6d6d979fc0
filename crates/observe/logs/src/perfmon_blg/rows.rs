//! Conversion of samples to ticks: each counter's raw value is compared with the one before, and the result goes into a
//! column of a frame.

use std::collections::HashMap;
use std::sync::Arc;

use diskwright_base::{Catalogue, CounterKind, Frame, Schema};

use super::cook::{self, CounterType, RawCounter};
use crate::FrameBatch;
use crate::nt::processes::NtProcesses;
use crate::nt::{self, CounterPath};

/// Largest number of columns that are followed.
const MOST_COLUMNS: usize = 1 << 17;
/// Largest number of columns ever made.
const MOST_MADE: usize = 1 << 20;
/// Samples after which a column without a value may be dropped when others come.
const STALE: u64 = 100;
/// Approximate size of a frame, cells.
const CELLS: usize = 1 << 16;

struct BlgColumn {
    path: CounterPath,
    kind: CounterType,
    before: Option<(u64, RawCounter)>,
    value: f64,
    tick: u64,
}

/// Counters by object and instance, with their values.
#[derive(Default)]
pub(super) struct BlgRows {
    columns: Vec<BlgColumn>,
    /// Columns of an instance, by group and name, in the order of the group's counters.
    places: HashMap<u32, HashMap<String, Vec<Option<usize>>>>,
    made: usize,
    is_new: bool,
    tick: u64,
    frame: Frame,
    processes: NtProcesses,
    row: Vec<f64>,
    /// Columns that are shares of the time of one thing, and so at most 100 %.
    capped: Vec<bool>,
}

impl BlgRows {
    /// Returns the columns of a group's instance; where there are none they are made by `make` (a type and a path for
    /// each counter, `None` for one that is left out).
    pub fn columns(
        &mut self,
        group: u32,
        instance: &str,
        make: &mut dyn FnMut() -> Vec<Option<(CounterType, CounterPath)>>,
    ) -> Vec<Option<usize>> {
        if let Some(found) = self.places.get(&group).and_then(|g| g.get(instance)) {
            return found.clone();
        }
        let mut found = Vec::new();
        for request in make() {
            let fits = self.columns.len() < MOST_COLUMNS && self.made < MOST_MADE;
            found.push(request.filter(|_| fits).map(|(kind, path)| {
                self.made += 1;
                self.is_new = true;
                self.columns.push(BlgColumn { path, kind, before: None, value: f64::NAN, tick: self.tick });
                self.columns.len() - 1
            }));
        }
        // instances without a column are not remembered, or names that come and go would fill the memory
        if found.iter().any(Option::is_some) {
            self.places.entry(group).or_default().insert(instance.to_owned(), found.clone());
        }
        found
    }

    /// Puts a raw value of this sample. Returns false where the counter went back.
    pub fn put(&mut self, column: usize, raw: RawCounter) -> bool {
        let column = &mut self.columns[column];
        // a counter that was not in the previous sample starts again
        let before = column.before.filter(|(tick, _)| tick + 1 == self.tick).map(|(_, raw)| raw);
        let computed = cook::cook(column.kind, before.as_ref(), &raw);
        column.before = Some((self.tick, raw));
        column.value = computed.unwrap_or(f64::NAN);
        column.tick = self.tick;
        computed.is_some()
    }

    /// Forgets the previous values of an instance that is another one than in the sample before (a process with the
    /// name of one that ended). `own` is the column of its number.
    pub fn identify(&mut self, columns: &[Option<usize>], own: usize, number: u64) {
        let before = self.columns[own].before;
        if before.is_some_and(|(_, raw)| raw.value != number) {
            columns.iter().flatten().for_each(|&c| self.columns[c].before = None);
        }
    }

    /// Returns the machine's schema so far.
    pub fn schema(&self) -> Schema {
        let paths: Vec<CounterPath> = self.columns.iter().map(|c| c.path.clone()).collect();
        Schema::new(nt::columns(&paths).iter().map(nt::NtColumn::series).collect())
    }

    /// Ends a sample, whose time is `time_ns` since 1970.
    pub fn end(&mut self, time_ns: i64, batch: &mut FrameBatch<'_>) {
        let tick = self.tick;
        self.tick += 1;
        if self.columns.is_empty() {
            return;
        }
        if std::mem::take(&mut self.is_new) {
            self.flush(batch);
            self.drop_stale(tick);
            let schema = Arc::new(self.schema());
            self.processes = NtProcesses::following(&schema, &self.processes);
            self.capped = schema.series.iter().map(|s| is_share(&s.counter)).collect();
            let ticks = (CELLS / schema.series.len().max(1)).clamp(1, 256);
            self.frame.reset(schema, ticks);
        }
        let Some(time) = batch.place(time_ns, None) else { return };
        self.row.clear();
        for (column, is_capped) in self.columns.iter().zip(&self.capped) {
            let value = if column.tick == tick { column.value } else { f64::NAN };
            // the two clocks are not read at the same time, and % Disk Time is a queue length that Windows caps
            self.row.push(if *is_capped && value > 100.0 { 100.0 } else { value });
        }
        self.frame.push(time, &self.row);
        if self.frame.is_full() {
            self.flush(batch);
        }
    }

    /// Passes the collected frame to the batch.
    pub fn flush(&mut self, batch: &mut FrameBatch<'_>) {
        if self.frame.is_empty() {
            return;
        }
        batch.frame(&self.frame);
        for note in self.processes.take(&self.frame) {
            batch.note(note);
        }
        self.frame.clear();
    }

    fn drop_stale(&mut self, tick: u64) {
        let is_stale = |c: &BlgColumn| c.tick + STALE < tick;
        if !self.columns.iter().any(is_stale) {
            return;
        }
        let mut kept = 0;
        let places: Vec<Option<usize>> = self
            .columns
            .iter()
            .map(|c| {
                kept += usize::from(!is_stale(c));
                (!is_stale(c)).then(|| kept - 1)
            })
            .collect();
        self.columns.retain(|c| !is_stale(c));
        for group in self.places.values_mut() {
            group.retain(|_, columns| {
                let is_complete = columns.iter().flatten().all(|&c| places[c].is_some());
                columns.iter_mut().for_each(|c| *c = c.and_then(|c| places[c]));
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
