//! Process tables from the columns of NT's `Process` object, so that culprits
//! can be named. The columns themselves stay in the log.

use std::collections::HashMap;

use diskwright_base::counter_ids::process;
use diskwright_base::{Frame, Note, ProcessRow, ProcessTable, Schema};

use crate::value_limits as limits;

/// Shortest time between two tables, in the log's first minutes and later: a table of a thousand processes costs as
/// much as reading some hundred rows.
const TABLE_INTERVALS_NS: [u64; 2] = [10_000_000_000, 60_000_000_000];
/// Length of those first minutes.
const FIRST_MINUTES_NS: u64 = 300_000_000_000;
/// Largest number of processes in a table for each quantity they are ranked by.
const MAX_RANKED: usize = 5;

/// Counters of a process, in the order of [`NtProcess::columns`].
const COUNTERS: [&str; 8] = [
    process::PROCESSOR,
    process::PROCESSOR_SYSTEM,
    process::ASKED_READ_BYTES_PER_S,
    process::ASKED_WRITE_BYTES_PER_S,
    process::READ_CALLS_PER_S,
    process::WRITE_CALLS_PER_S,
    process::WORKING_SET_BYTES,
    r"foreign.Process\ID Process",
];
const PROCESSOR: usize = 0;
const PROCESSOR_SYSTEM: usize = 1;
const READ: usize = 2;
const WRITE: usize = 3;
const READ_CALLS: usize = 4;
const WRITE_CALLS: usize = 5;
const WORKING_SET: usize = 6;
const ID: usize = 7;

struct NtProcess {
    name: String,
    /// Columns of the counters in the schema.
    columns: [Option<u32>; COUNTERS.len()],
}

/// Collects the tables of one schema. A table covers the ticks since the one before.
#[derive(Default)]
pub struct NtProcesses {
    processes: Vec<NtProcess>,
    scales: Vec<f64>,
    /// Sum and count of each process's rates since the last table; of its levels the last value.
    sums: Vec<[(f64, u32); COUNTERS.len()]>,
    /// Time since the last table.
    elapsed_ns: u64,
    /// Time since the first tick.
    total_ns: u64,
}

impl NtProcesses {
    /// Finds the processes of a schema.
    pub fn for_schema(schema: &Schema) -> NtProcesses {
        let kinds: HashMap<&str, usize> = COUNTERS.iter().enumerate().map(|(i, c)| (*c, i)).collect();
        let mut indexes: HashMap<&str, usize> = HashMap::new();
        let mut processes: Vec<NtProcess> = Vec::new();
        for (column, series) in schema.series.iter().enumerate() {
            let name = series.instance.as_str();
            let is_process = !name.is_empty() && !["_total", "idle"].iter().any(|n| name.eq_ignore_ascii_case(n));
            let (Some(&kind), true) = (kinds.get(series.counter.as_str()), is_process) else { continue };
            let index = *indexes.entry(name).or_insert_with(|| {
                processes.push(NtProcess { name: name.to_owned(), columns: [None; COUNTERS.len()] });
                processes.len() - 1
            });
            processes[index].columns[kind] = u32::try_from(column).ok();
        }
        // a process with nothing but its memory has no activity that could be blamed
        processes.retain(|p| p.columns[..WORKING_SET].iter().any(Option::is_some));
        let sums = vec![[(0.0, 0); COUNTERS.len()]; processes.len()];
        let scales = schema.series.iter().map(|s| s.scale).collect();
        NtProcesses { processes, scales, sums, elapsed_ns: 0, total_ns: 0 }
    }

    /// Finds the processes of a schema that follows another in the same recording, and continues its sums since the
    /// last table. Processes appear faster than tables.
    pub fn continue_from(schema: &Schema, before: &NtProcesses) -> NtProcesses {
        let mut next = NtProcesses::for_schema(schema);
        (next.elapsed_ns, next.total_ns) = (before.elapsed_ns, before.total_ns);
        let known: HashMap<&str, usize> =
            before.processes.iter().enumerate().map(|(i, p)| (p.name.as_str(), i)).collect();
        for (process, sums) in next.processes.iter().zip(&mut next.sums) {
            let Some(&index) = known.get(process.name.as_str()) else { continue };
            for (kind, sum) in sums.iter_mut().enumerate().filter(|(kind, _)| process.columns[*kind].is_some()) {
                *sum = before.sums[index][kind];
            }
        }
        next
    }

    /// Returns true if the schema has no processes.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Adds a frame of the schema; returns a note for each table that became due in it.
    pub fn add_frame(&mut self, frame: &Frame) -> Vec<Note> {
        let mut notes = Vec::new();
        if self.processes.is_empty() {
            return notes;
        }
        let mut start = 0;
        for (index, tick) in frame.ticks().iter().enumerate() {
            self.elapsed_ns += tick.elapsed_ns;
            self.total_ns += tick.elapsed_ns;
            if self.elapsed_ns >= TABLE_INTERVALS_NS[usize::from(self.total_ns > FIRST_MINUTES_NS)] {
                self.add_ticks(frame, start..index + 1);
                start = index + 1;
                notes.extend(self.take_table(tick.time_ns));
            }
        }
        self.add_ticks(frame, start..frame.ticks().len());
        notes
    }

    fn add_ticks(&mut self, frame: &Frame, ticks: std::ops::Range<usize>) {
        for (process, sums) in self.processes.iter().zip(&mut self.sums) {
            for (kind, (column, sum)) in process.columns.iter().zip(sums).enumerate() {
                let Some(column) = column else { continue };
                let cells = &frame.column(*column as usize)[ticks.clone()];
                if kind < WORKING_SET {
                    let max = limits::max_value(COUNTERS[kind]) / self.scales[*column as usize];
                    let (mut value_sum, mut count) = sum_values(cells);
                    if !(0.0..=max).contains(&value_sum) {
                        // impossible cells of the frame itself are reported where the batch receives it
                        let possible: Vec<f64> = cells.iter().copied().filter(|c| (0.0..=max).contains(c)).collect();
                        (value_sum, count) = sum_values(&possible);
                    }
                    *sum = (sum.0 + value_sum, sum.1 + count);
                } else if let Some(last) = cells.last().filter(|c| !c.is_nan()) {
                    *sum = (*last, 1);
                }
            }
        }
    }

    /// Returns the table of the sums, and resets them.
    fn take_table(&mut self, time_ns: i64) -> Option<Note> {
        let mut rows: Vec<ProcessRow> = Vec::new();
        for (process, sums) in self.processes.iter().zip(&mut self.sums) {
            let mean = |kind: usize| {
                let scale = process.columns[kind].map_or(1.0, |c| self.scales[c as usize]);
                (sums[kind].1 > 0).then(|| sums[kind].0 / f64::from(sums[kind].1) * scale)
            };
            let row = ProcessRow {
                // of a level, the last value is kept, so this is the id
                pid: mean(ID).map_or(0, |id| id as u32),
                name: plain_name(&process.name).to_owned(),
                processor: mean(PROCESSOR).unwrap_or(0.0),
                processor_system: mean(PROCESSOR_SYSTEM).unwrap_or(0.0),
                requested_read_bytes_per_s: mean(READ),
                requested_write_bytes_per_s: mean(WRITE),
                read_calls_per_s: mean(READ_CALLS),
                write_calls_per_s: mean(WRITE_CALLS),
                resident_bytes: mean(WORKING_SET).unwrap_or(0.0),
                ..ProcessRow::default()
            };
            if io_bytes_per_s(&row) > 0.0 || row.processor > 0.0 {
                rows.push(row);
            }
            *sums = [(0.0, 0); COUNTERS.len()];
        }
        let elapsed_s = std::mem::take(&mut self.elapsed_ns) as f64 * 1e-9;
        let table = ProcessTable { elapsed_s, rows: select_leaders(rows), ..ProcessTable::default() };
        if table.rows.is_empty() {
            return None;
        }
        Some(Note::processes(time_ns, table))
    }
}

/// Returns sum and number of the cells that hold a value. Four independent sums let the processor add in parallel.
fn sum_values(cells: &[f64]) -> (f64, u32) {
    let (mut sums, mut counts) = ([0.0; 4], [0u32; 4]);
    let mut add = |chain: usize, cell: f64| {
        let has_value = !cell.is_nan();
        sums[chain] += if has_value { cell } else { 0.0 };
        counts[chain] += u32::from(has_value);
    };
    let (fours, rest) = cells.as_chunks::<4>();
    fours.iter().for_each(|four| (0..4).for_each(|chain| add(chain, four[chain])));
    rest.iter().for_each(|cell| add(0, *cell));
    (sums.iter().sum(), counts.iter().sum())
}

/// Strips the number off an instance: `svchost#85` is the 86th of that name; the number changes when one of them ends.
fn plain_name(instance: &str) -> &str {
    match instance.rsplit_once('#') {
        Some((name, number)) if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => instance,
    }
}

fn io_bytes_per_s(row: &ProcessRow) -> f64 {
    row.requested_read_bytes_per_s.unwrap_or(0.0) + row.requested_write_bytes_per_s.unwrap_or(0.0)
}

/// Selects the processes that lead in one quantity or another, busiest first.
fn select_leaders(mut rows: Vec<ProcessRow>) -> Vec<ProcessRow> {
    let mut leaders: Vec<ProcessRow> = Vec::new();
    let quantities: [fn(&ProcessRow) -> f64; 3] = [|r| r.resident_bytes, io_bytes_per_s, |r| r.processor];
    for quantity in quantities {
        rows.sort_by(|a, b| quantity(b).total_cmp(&quantity(a)).then_with(|| a.name.cmp(&b.name)));
        let rest = rows.split_off(rows.len().min(MAX_RANKED));
        leaders.append(&mut rows);
        rows = rest;
    }
    leaders.sort_by(|a, b| {
        b.processor.total_cmp(&a.processor).then_with(|| io_bytes_per_s(b).total_cmp(&io_bytes_per_s(a)))
    });
    leaders
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use diskwright_base::{Series, Tick};

    use super::*;

    #[test]
    fn emits_tables_at_a_slow_interval_with_the_busiest_processes() {
        let mut series = Vec::new();
        for name in ["sqlservr", "svchost#3", "quiet", "_Total"] {
            for (counter, scale) in
                [("process.processor", 0.01), ("process.asked_read_bytes_per_s", 1.0), (COUNTERS[ID], 1.0)]
            {
                series.push(Series { counter: counter.into(), instance: name.into(), scale });
            }
        }
        let schema = Arc::new(Schema::new(series));
        let mut frame = Frame::new(Arc::clone(&schema), 8);
        for index in 0..8i64 {
            let tick = Tick { time_ns: index * 5_000_000_000, elapsed_ns: if index == 0 { 0 } else { 5_000_000_000 } };
            let first = index == 0;
            let value = |v: f64| if first { f64::NAN } else { v };
            let quiet = [value(0.0), value(0.0), 9.0];
            let row = [value(100.0), value(4e6), 1234.0, value(10.0), value(1e3), 77.0];
            let all = [value(400.0), value(4e6), 0.0];
            frame.push(tick, &[&row[..], &quiet, &all].concat());
        }
        let mut processes = NtProcesses::for_schema(&schema);
        let notes = processes.add_frame(&frame);
        assert_eq!(notes.iter().map(|n| n.time_ns / 1_000_000_000).collect::<Vec<_>>(), [10, 20, 30]);
        let table = notes[0].read_processes().unwrap();
        assert_eq!(table.elapsed_s, 10.0);
        let table_rows: Vec<_> = table.rows.iter().map(|r| (r.name.as_str(), r.pid, r.processor)).collect();
        assert_eq!(table_rows, [("sqlservr", 1234, 1.0), ("svchost", 77, 0.1)]);
        assert_eq!(table.rows[0].requested_read_bytes_per_s, Some(4e6));
        assert_eq!(table.rows[0].write_calls_per_s, None);
    }

    /// A build starts a compiler every second: each is a new schema, and comes before a table is due.
    #[test]
    fn processes_that_come_between_two_tables_do_not_delay_them() {
        let series = |name: &str| Series { counter: COUNTERS[PROCESSOR].into(), instance: name.into(), scale: 0.01 };
        let mut processes = NtProcesses::default();
        let mut notes = Vec::new();
        for second in 1..=20usize {
            let names = (0..second).map(|number| series(&format!("cl#{number}")));
            let schema = Arc::new(Schema::new(std::iter::once(series("sqlservr")).chain(names).collect()));
            let mut frame = Frame::new(Arc::clone(&schema), 1);
            let tick = Tick { time_ns: second as i64 * 1_000_000_000, elapsed_ns: 1_000_000_000 };
            let mut row = vec![0.0; second + 1];
            row[0] = if second.is_multiple_of(2) { 100.0 } else { 50.0 };
            frame.push(tick, &row);
            processes = NtProcesses::continue_from(&schema, &processes);
            notes.extend(processes.add_frame(&frame));
        }
        assert_eq!(notes.iter().map(|n| n.time_ns / 1_000_000_000).collect::<Vec<_>>(), [10, 20]);
        for note in &notes {
            let table = note.read_processes().unwrap();
            let table_rows: Vec<_> = table.rows.iter().map(|r| (r.name.as_str(), r.processor)).collect();
            assert_eq!(table.elapsed_s, 10.0);
            assert_eq!(table_rows, [("sqlservr", 0.75)]);
        }
    }

    #[test]
    fn a_log_without_processes_has_no_tables() {
        assert!(NtProcesses::for_schema(&Schema::default()).is_empty());
    }
}
