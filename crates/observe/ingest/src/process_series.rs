//! Process tables of a log as counters (`process.*`), so that they can be shown, drawn and exported over time like
//! other counters.
//!
//! A table names the processes that were busy when it was taken. A process that is missing did little, but how little
//! is unknown: its cell is empty, not zero.

use std::collections::HashMap;
use std::sync::Arc;

use diskwright_base::counter_ids::process;
use diskwright_base::{Frame, LogPiece, Note, ProcessRow, ProcessTable, Schema, Series, Tick, stable_task_name};

/// Maximum number of processes with series: those that were busiest over the window.
const MAX_PROCESSES: usize = 100;

type RowValue = fn(&ProcessRow) -> Option<f64>;

const PROCESS_COUNTERS: [(&str, RowValue); 13] = [
    (process::PROCESSOR, |row| Some(row.processor)),
    (process::PROCESSOR_SYSTEM, |row| Some(row.processor_system)),
    (process::READ_BYTES_PER_S, |row| row.read_bytes_per_s),
    (process::WRITE_BYTES_PER_S, |row| row.write_bytes_per_s),
    (process::ASKED_READ_BYTES_PER_S, |row| row.requested_read_bytes_per_s),
    (process::ASKED_WRITE_BYTES_PER_S, |row| row.requested_write_bytes_per_s),
    (process::READ_CALLS_PER_S, |row| row.read_calls_per_s),
    (process::WRITE_CALLS_PER_S, |row| row.write_calls_per_s),
    (process::MAJOR_FAULTS_PER_S, |row| Some(row.major_faults_per_s)),
    (process::BLOCK_DELAY, |row| row.block_delay),
    (process::BLOCKED_SHARE, |row| Some(row.blocked_share)),
    (process::RESIDENT_BYTES, |row| Some(row.resident_bytes)),
    (process::SWAPPED_BYTES, |row| row.swapped_bytes),
];

/// The busiest processes of a window and their columns.
pub struct ProcessSeries {
    schema: Arc<Schema>,
    series_index: HashMap<(u32, String), usize>,
    /// Number of processes that were seen and have no columns.
    pub left_out: usize,
}

fn process_table(note: &Note) -> Option<Arc<ProcessTable>> {
    (note.kind == Note::PROCESSES).then(|| note.read_processes().ok()).flatten()
}

/// Identifies a process by its id and its stable name: a kernel worker's current work changes all the time.
fn process_key(row: &ProcessRow) -> (u32, String) {
    (row.pid, stable_task_name(&row.name).to_owned())
}

/// Sort key for how busy a process was: processors in use, waiting, and 100 MB/s counted as one processor.
fn busyness(row: &ProcessRow) -> f64 {
    let bytes = |own: Option<f64>, requested: Option<f64>| own.or(requested).unwrap_or(0.0);
    let transferred = bytes(row.read_bytes_per_s, row.requested_read_bytes_per_s)
        + bytes(row.write_bytes_per_s, row.requested_write_bytes_per_s);
    row.processor + row.blocked_share.max(row.block_delay.unwrap_or(0.0)) + transferred / 1e8
}

/// Collects the processes of a window, which is read once for it.
#[derive(Default)]
pub struct ProcessFinder {
    busyness: HashMap<(u32, String), f64>,
    has_counters: bool,
}

impl ProcessFinder {
    /// Looks at the next piece of the window.
    pub fn add_piece(&mut self, piece: &LogPiece<'_>) {
        match piece {
            LogPiece::Frame(frame) => self.has_counters |= !frame.schema().instances("process").is_empty(),
            LogPiece::Note(note) => {
                for row in process_table(note).iter().flat_map(|table| &table.rows) {
                    *self.busyness.entry(process_key(row)).or_default() += busyness(row);
                }
            }
        }
    }

    /// Returns the busiest processes; `None` if the log has no tables, or already has processes as counters.
    pub fn finish(self) -> Option<ProcessSeries> {
        if self.has_counters || self.busyness.is_empty() {
            return None;
        }
        let mut processes: Vec<((u32, String), f64)> = self.busyness.into_iter().collect();
        processes.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let left_out = processes.len().saturating_sub(MAX_PROCESSES);
        processes.truncate(MAX_PROCESSES);
        Some(ProcessSeries::from_processes(processes.into_iter().map(|(process, _)| process).collect(), left_out))
    }
}

impl ProcessSeries {
    fn from_processes(processes: Vec<(u32, String)>, left_out: usize) -> ProcessSeries {
        let series = |(pid, name): &(u32, String)| {
            let instance = format!("{name} ({pid})");
            PROCESS_COUNTERS.map(|(counter, _)| Series {
                counter: counter.into(),
                instance: instance.clone(),
                scale: 1.0,
            })
        };
        let schema = Arc::new(Schema::new(processes.iter().flat_map(series).collect()));
        let series_index = processes.into_iter().enumerate().map(|(index, process)| (process, index)).collect();
        ProcessSeries { schema, series_index, left_out }
    }

    /// Turns a table into a tick.
    pub fn frame_from_note(&self, note: &Note) -> Option<Frame> {
        let table = process_table(note)?;
        let mut cells = vec![f64::NAN; self.schema.series.len()];
        for row in &table.rows {
            let Some(index) = self.series_index.get(&process_key(row)) else { continue };
            let process_cells = &mut cells[index * PROCESS_COUNTERS.len()..][..PROCESS_COUNTERS.len()];
            for (cell, (_, value)) in process_cells.iter_mut().zip(PROCESS_COUNTERS) {
                *cell = value(row).unwrap_or(f64::NAN);
            }
        }
        let mut frame = Frame::new(Arc::clone(&self.schema), 1);
        let elapsed_ns = (table.elapsed_s.max(0.0) * 1e9) as u64;
        frame.push(Tick { time_ns: note.time_ns, elapsed_ns }, &cells);
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_missing_from_a_table_has_an_empty_cell() {
        let processes = ProcessSeries::from_processes(vec![(7, "fio".into()), (8, "dd".into())], 0);
        let row = ProcessRow { pid: 8, name: "dd".into(), processor: 0.5, ..ProcessRow::default() };
        let table = ProcessTable { elapsed_s: 5.0, rows: vec![row], ..ProcessTable::default() };
        let note = Note::new(1_000, Note::PROCESSES, serde_json::to_string(&table).unwrap());
        let frame = processes.frame_from_note(&note).unwrap();
        let value = |counter, instance| frame.column(frame.schema().column(counter, instance).unwrap())[0];
        assert_eq!(value("process.processor", "dd (8)"), 0.5);
        assert!(value("process.processor", "fio (7)").is_nan());
        // a value that could not be read is not zero either
        assert!(value("process.read_bytes_per_s", "dd (8)").is_nan());
        assert_eq!(frame.ticks()[0], Tick { time_ns: 1_000, elapsed_ns: 5_000_000_000 });
        assert!(processes.frame_from_note(&Note::new(0, Note::BOOKMARK, "x")).is_none());
    }

    #[test]
    fn a_worker_of_the_kernel_has_one_set_of_columns() {
        let row = |name: &str| ProcessRow { pid: 13, name: name.into(), processor: 0.5, ..ProcessRow::default() };
        assert_eq!(process_key(&row("kworker/1:2H-kblockd")), process_key(&row("kworker/1:2H+events")));
        let processes = ProcessSeries::from_processes(vec![process_key(&row("kworker/1:2H-kblockd"))], 0);
        for name in ["kworker/1:2H-kblockd", "kworker/1:2H+events"] {
            let table = ProcessTable { elapsed_s: 5.0, rows: vec![row(name)], ..ProcessTable::default() };
            let frame = processes
                .frame_from_note(&Note::new(1, Note::PROCESSES, serde_json::to_string(&table).unwrap()))
                .unwrap();
            let column = frame.schema().column("process.processor", "kworker/1:2H (13)").unwrap();
            assert_eq!(frame.column(column)[0], 0.5, "{name}");
        }
    }
}
