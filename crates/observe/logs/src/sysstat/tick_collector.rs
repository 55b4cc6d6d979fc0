//! Collector for sar and `sadf -d`, which print table after table, each over the whole time. It puts the tables of one
//! stretch side by side, and emits the ticks in order of time.
//!
//! It must hold a stretch for that. A log of one table, or one that was written as time passed, never goes back; its
//! ticks are emitted as soon as the held part is full, so its size does not matter.

use std::collections::BTreeMap;

use diskwright_base::Note;
use diskwright_base::counter_ids::memory;

use super::idle_devices::{self, IdleDevices, IdleTable, TABLE_COUNT};
use super::machine::SysstatMachine;
use super::report_row::{ReportRow, ValueSlot};
use crate::batch::FrameBatch;
use crate::error::LogError;

/// Largest number of cells that are held (16 bytes each).
const MAX_HELD_CELLS: usize = 16 << 20;

/// Memory of a row besides its cells, counted in cells.
const CELLS_PER_ROW: usize = 8;

#[derive(Default)]
struct PendingRow {
    elapsed_ns: Option<u64>,
    cells: Vec<(u32, f64)>,
}

/// Holds ticks that are not emitted yet.
pub struct Collector {
    /// Maps names to columns.
    pub row: ReportRow,
    pending_rows: BTreeMap<i64, PendingRow>,
    pending_notes: BTreeMap<i64, Vec<Note>>,
    held_cells: usize,
    max_held_cells: usize,
    /// Time up to which ticks were emitted.
    emitted_until_ns: Option<i64>,
    is_announced: bool,
    idle_devices: IdleDevices,
    /// Set if a row of this stretch could not be read.
    is_damaged: bool,
}

impl Collector {
    /// Makes a collector that holds nothing.
    pub fn new() -> Collector {
        Collector {
            row: ReportRow::new(),
            pending_rows: BTreeMap::new(),
            pending_notes: BTreeMap::new(),
            held_cells: 0,
            max_held_cells: MAX_HELD_CELLS,
            emitted_until_ns: None,
            is_announced: false,
            idle_devices: IdleDevices::default(),
            is_damaged: false,
        }
    }

    /// Adds a value at a time. `elapsed_ns` of the origin is the time that it covers, if known.
    ///
    /// # Errors
    /// When the tick of that time was emitted already, because the log is too long to hold.
    pub fn add_value(&mut self, origin: &ValueOrigin<'_>, name: [&str; 3], value: f64) -> Result<(), LogError> {
        self.check_is_pending(origin)?;
        let [report, column, instance] = name;
        if let Some(slot) = self.row.value_slot(report, column, instance) {
            self.push_cell(origin, slot, value);
        }
        Ok(())
    }

    fn check_is_pending(&self, origin: &ValueOrigin<'_>) -> Result<(), LogError> {
        if self.emitted_until_ns.is_none_or(|emitted_ns| origin.time_ns > emitted_ns) {
            return Ok(());
        }
        let because =
            "the tables, one after the other, are too long for memory; `sadf -j` writes them sample by sample";
        Err(LogError::broken(origin.file, format!("line {}", origin.line), because))
    }

    fn push_cell(&mut self, origin: &ValueOrigin<'_>, slot: ValueSlot, value: f64) {
        let row = self.pending_rows.entry(origin.time_ns).or_default();
        self.held_cells += if row.cells.is_empty() { CELLS_PER_ROW } else { 0 };
        row.elapsed_ns = row.elapsed_ns.or(origin.elapsed_ns);
        row.cells.push((slot.column, value * slot.factor));
        self.held_cells += 1;
    }

    /// As [`Collector::add_value`], for a counter of the catalogue; of several values of a tick the largest counts.
    ///
    /// # Errors
    /// As [`Collector::add_value`].
    pub fn add_largest(&mut self, origin: &ValueOrigin<'_>, counter: &str, value: f64) -> Result<(), LogError> {
        self.check_is_pending(origin)?;
        let Some(slot) = self.row.counter_slot(counter) else { return Ok(()) };
        if let Some(row) = self.pending_rows.get_mut(&origin.time_ns)
            && let Some((_, known)) = row.cells.iter_mut().find(|(column, _)| *column == slot.column)
        {
            *known = known.max(value);
            return Ok(());
        }
        self.push_cell(origin, slot, value);
        Ok(())
    }

    /// Notes that a row could not be read: whether missing devices were left out by an option is then unknown.
    pub fn mark_damaged(&mut self) {
        self.is_damaged = true;
    }

    /// Adds a note, to be emitted after the ticks up to its time.
    pub fn add_note(&mut self, note: Note) {
        self.held_cells += note.content_bytes() / 16;
        self.pending_notes.entry(note.time_ns).or_default().push(note);
    }

    /// Emits the complete ticks if the held part is full. To be called between rows.
    pub fn flush_if_full(&mut self, batch: &mut FrameBatch<'_>, machine: &SysstatMachine<'_>) {
        if self.held_cells > self.max_held_cells {
            let last_row = self.pending_rows.pop_last();
            self.emitted_until_ns = self.pending_rows.last_key_value().map(|(time, _)| *time).or(self.emitted_until_ns);
            self.emit_ticks(batch, machine);
            if let Some((time, row)) = last_row {
                self.held_cells = CELLS_PER_ROW + row.cells.len();
                self.pending_rows.insert(time, row);
            }
        }
    }

    /// Emits everything: the stretch is at its end.
    pub fn flush(&mut self, batch: &mut FrameBatch<'_>, machine: &SysstatMachine<'_>) {
        self.emit_ticks(batch, machine);
        self.emit_notes(batch, i64::MAX);
        self.row.forget_if_sparse();
        self.idle_devices.begin_start();
        self.is_damaged = false;
    }

    /// Begins another stretch, whose times may lie before those that were emitted.
    pub fn begin_stretch(&mut self) {
        self.emitted_until_ns = None;
    }

    /// Returns the time of the last row of each table of devices: the table is complete up to there, and unknown after
    /// it.
    fn last_rows(&self) -> [Option<i64>; TABLE_COUNT] {
        let mut last_times = [None; TABLE_COUNT];
        let tables: Vec<Option<IdleTable>> =
            self.row.series().iter().map(|series| IdleTable::of_counter(&series.counter)).collect();
        for (time_ns, row) in self.pending_rows.iter().filter(|_| !self.is_damaged) {
            for (column, _) in &row.cells {
                if let Some(table) = tables[*column as usize] {
                    last_times[table as usize] = Some(*time_ns);
                }
            }
        }
        last_times
    }

    fn emit_ticks(&mut self, batch: &mut FrameBatch<'_>, machine: &SysstatMachine<'_>) {
        let last_times = self.last_rows();
        for (time_ns, row) in std::mem::take(&mut self.pending_rows) {
            for (column, value) in row.cells {
                let cell = &mut self.row.cells[column as usize];
                if cell.is_nan() {
                    *cell = value;
                }
            }
            if !self.is_announced {
                self.is_announced = true;
                self.row.update_row(batch);
                let memory_bytes = self.row.series_value(memory::TOTAL_BYTES, "");
                batch.push_topology(time_ns, &SysstatMachine { memory_bytes, ..*machine }.to_topology());
            }
            if self.idle_devices.fill_omitted(
                &mut self.row,
                last_times.map(|last_ns| last_ns.is_some_and(|last_ns| time_ns <= last_ns)),
            ) {
                batch.push_note(Note::new(time_ns, Note::WARNING, idle_devices::OMITTED_DEVICES_NOTE));
            }
            self.row.emit_tick(batch, time_ns, row.elapsed_ns);
            self.emit_notes(batch, time_ns);
        }
        self.held_cells = 0;
    }

    fn emit_notes(&mut self, batch: &mut FrameBatch<'_>, until: i64) {
        while let Some(first) = self.pending_notes.first_entry().filter(|first| *first.key() <= until) {
            first.remove().into_iter().for_each(|note| batch.push_note(note));
        }
    }
}

/// Place and time of a value.
pub struct ValueOrigin<'a> {
    /// Name of the log for errors.
    pub file: &'a str,
    /// Line, counted from 1.
    pub line: u64,
    /// Time of the value.
    pub time_ns: i64,
    /// Time that the value covers, if known.
    pub elapsed_ns: Option<u64>,
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::LogPiece;

    /// Feeds (time, table) pairs into a collector that holds four rows of one cell.
    fn run(feed: &[(i64, &str)]) -> (Vec<i64>, Option<String>) {
        let mut got = Vec::new();
        let mut sink = |piece: LogPiece<'_>| {
            if let LogPiece::Frame(frame) = piece {
                got.extend(frame.ticks().iter().map(|t| t.time_ns));
            }
            ControlFlow::Continue(())
        };
        let mut batch = FrameBatch::new("test", &mut sink);
        let mut collector = Collector { max_held_cells: 4 * (CELLS_PER_ROW + 1), ..Collector::new() };
        let machine = SysstatMachine::default();
        let mut error = None;
        for (line, (time_ns, table)) in feed.iter().enumerate() {
            let origin = ValueOrigin { file: "x", line: line as u64 + 1, time_ns: *time_ns, elapsed_ns: None };
            if let Err(e) = collector.add_value(&origin, [table, "tps", ""], 1.0) {
                error = Some(e.to_string());
                break;
            }
            collector.flush_if_full(&mut batch, &machine);
        }
        collector.flush(&mut batch, &machine);
        assert!(batch.finish("x").is_ok());
        (got, error)
    }

    #[test]
    fn puts_tables_side_by_side() {
        let (ticks, error) = run(&[(1, "a"), (2, "a"), (1, "b"), (2, "b")]);
        assert_eq!((ticks, error), (vec![1, 2], None));
    }

    #[test]
    fn accepts_a_log_of_any_length_that_never_goes_back() {
        let long: Vec<(i64, &str)> = (1..100).map(|time| (time, "a")).collect();
        let (ticks, error) = run(&long);
        assert_eq!((ticks.len(), error), (99, None));
    }

    #[test]
    fn rejects_a_log_that_is_too_long_to_hold() {
        let long: Vec<(i64, &str)> = (1..10).map(|time| (time, "a")).chain([(1, "b")]).collect();
        let (ticks, error) = run(&long);
        assert_eq!(ticks.len(), 9);
        assert!(error.is_some_and(|e| e.contains("line 10") && e.contains("sadf -j")));
    }
}
