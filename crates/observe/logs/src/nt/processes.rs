//! Process tables from the columns of NT's `Process` object, so that culprits
//! and programs that leak can be named. The columns themselves stay in the log.

use std::collections::HashMap;

use diskwright_base::counter_ids::process;
use diskwright_base::{Frame, Note, ProcessRow, ProcessTable, Schema};

use crate::value_limits as limits;

/// Shortest time between two tables, in the log's first minutes and later: a table of a thousand processes costs as
/// much as reading some hundred rows.
const TABLE_INTERVALS_NS: [u64; 2] = [10_000_000_000, 60_000_000_000];
/// Length of those first minutes.
const FIRST_MINUTES_NS: u64 = 300_000_000_000;
/// Largest number of processes in a table for each quantity they are ranked by. The first table has all, up to a limit,
/// so that the beginning of what grows later is known.
const MAX_RANKED: usize = 5;
const MAX_FIRST_RANKED: usize = 500;

/// Counters of a process, in the order of [`NtProcess::columns`].
const COUNTERS: [&str; 11] = [
    process::PROCESSOR,
    process::PROCESSOR_SYSTEM,
    process::ASKED_READ_BYTES_PER_S,
    process::ASKED_WRITE_BYTES_PER_S,
    process::READ_CALLS_PER_S,
    process::WRITE_CALLS_PER_S,
    process::WORKING_SET_BYTES,
    process::PRIVATE_BYTES,
    process::PAGE_FILE_BYTES,
    process::POOL_NONPAGED_BYTES,
    r"foreign.Process\ID Process",
];
const PROCESSOR: usize = 0;
const PROCESSOR_SYSTEM: usize = 1;
const READ: usize = 2;
const WRITE: usize = 3;
const READ_CALLS: usize = 4;
const WRITE_CALLS: usize = 5;
/// The first of the levels; those before are rates.
const WORKING_SET: usize = 6;
const PRIVATE: usize = 7;
const PAGE_FILE: usize = 8;
const POOL_NONPAGED: usize = 9;
const ID: usize = 10;

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
    /// Memory of each process in the first table after it appeared.
    first_memory: Vec<Option<f64>>,
    has_table: bool,
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
        // an id alone tells nothing
        processes.retain(|p| p.columns[..ID].iter().any(Option::is_some));
        let sums = vec![[(0.0, 0); COUNTERS.len()]; processes.len()];
        let first_memory = vec![None; processes.len()];
        let scales = schema.series.iter().map(|s| s.scale).collect();
        NtProcesses { processes, scales, sums, first_memory, has_table: false, elapsed_ns: 0, total_ns: 0 }
    }

    /// Finds the processes of a schema that follows another in the same recording, and continues its sums since the
    /// last table. Processes appear faster than tables.
    pub fn continue_from(schema: &Schema, before: &NtProcesses) -> NtProcesses {
        let mut next = NtProcesses::for_schema(schema);
        (next.elapsed_ns, next.total_ns, next.has_table) = (before.elapsed_ns, before.total_ns, before.has_table);
        let known: HashMap<&str, usize> =
            before.processes.iter().enumerate().map(|(i, p)| (p.name.as_str(), i)).collect();
        for ((process, sums), first_memory) in next.processes.iter().zip(&mut next.sums).zip(&mut next.first_memory) {
            let Some(&index) = known.get(process.name.as_str()) else { continue };
            *first_memory = before.first_memory[index];
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
        let mut rows: Vec<RankedRow> = Vec::new();
        for ((process, sums), first_memory) in self.processes.iter().zip(&mut self.sums).zip(&mut self.first_memory) {
            let mean = |kind: usize| {
                let scale = process.columns[kind].map_or(1.0, |c| self.scales[c as usize]);
                (sums[kind].1 > 0).then(|| sums[kind].0 / f64::from(sums[kind].1) * scale)
            };
            let resident_bytes = mean(WORKING_SET).unwrap_or(0.0);
            let (private, pool) = (mean(PRIVATE).or_else(|| mean(PAGE_FILE)), mean(POOL_NONPAGED));
            let is_held_known = private.is_some() || pool.is_some();
            let held_bytes = is_held_known.then(|| private.unwrap_or(resident_bytes) + pool.unwrap_or(0.0));
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
                resident_bytes,
                held_bytes,
                ..ProcessRow::default()
            };
            let memory = memory_bytes(&row);
            if memory > 0.0 || io_bytes_per_s(&row) > 0.0 || row.processor > 0.0 {
                let growth_bytes = (memory - *first_memory.get_or_insert(memory)).max(0.0);
                rows.push(RankedRow { row, growth_bytes });
            }
            *sums = [(0.0, 0); COUNTERS.len()];
        }
        let elapsed_s = std::mem::take(&mut self.elapsed_ns) as f64 * 1e-9;
        let max_ranked = if self.has_table { MAX_RANKED } else { MAX_FIRST_RANKED };
        let rows = select_leaders(join_nameless(rows), max_ranked);
        let table = ProcessTable { elapsed_s, rows, ..ProcessTable::default() };
        self.has_table |= !table.rows.is_empty();
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

fn memory_bytes(row: &ProcessRow) -> f64 {
    row.held_bytes.unwrap_or(row.resident_bytes)
}

/// A process and how much its memory grew since it appeared.
struct RankedRow {
    row: ProcessRow,
    growth_bytes: f64,
}

/// Joins processes of one name whose ids were not recorded: no later table shows which of them is which.
fn join_nameless(rows: Vec<RankedRow>) -> Vec<RankedRow> {
    let mut joined: Vec<RankedRow> = Vec::with_capacity(rows.len());
    let mut by_name: HashMap<String, usize> = HashMap::new();
    for one in rows {
        if one.row.pid != 0 {
            joined.push(one);
            continue;
        }
        match by_name.get(&one.row.name) {
            Some(&index) => joined[index].add(&one),
            None => {
                by_name.insert(one.row.name.clone(), joined.len());
                joined.push(one);
            }
        }
    }
    joined
}

impl RankedRow {
    fn add(&mut self, other: &RankedRow) {
        let sum = |own: &mut Option<f64>, more: Option<f64>| {
            *own = own.map_or(more, |own| Some(own + more.unwrap_or(0.0)));
        };
        let (row, more) = (&mut self.row, &other.row);
        row.processor += more.processor;
        row.processor_system += more.processor_system;
        sum(&mut row.requested_read_bytes_per_s, more.requested_read_bytes_per_s);
        sum(&mut row.requested_write_bytes_per_s, more.requested_write_bytes_per_s);
        sum(&mut row.read_calls_per_s, more.read_calls_per_s);
        sum(&mut row.write_calls_per_s, more.write_calls_per_s);
        row.resident_bytes += more.resident_bytes;
        sum(&mut row.held_bytes, more.held_bytes);
        self.growth_bytes += other.growth_bytes;
    }
}

/// Selects the processes that lead in one quantity or another, busiest first; `max_ranked` for each quantity.
fn select_leaders(mut rows: Vec<RankedRow>, max_ranked: usize) -> Vec<ProcessRow> {
    let mut leaders: Vec<ProcessRow> = Vec::new();
    let quantities: [fn(&RankedRow) -> f64; 4] =
        [|r| memory_bytes(&r.row), |r| r.growth_bytes, |r| io_bytes_per_s(&r.row), |r| r.row.processor];
    for quantity in quantities {
        rows.sort_by(|a, b| quantity(b).total_cmp(&quantity(a)).then_with(|| a.row.name.cmp(&b.row.name)));
        let active = rows.iter().take_while(|ranked| quantity(ranked) > 0.0).count();
        let rest = rows.split_off(active.min(max_ranked));
        leaders.extend(rows.into_iter().map(|ranked| ranked.row));
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

    /// Ten programs that do nothing, one of which grows: it is in the first table, and later because it grows.
    #[test]
    fn a_program_that_only_grows_is_in_the_first_table_and_in_later_ones() {
        for counters in [
            &[process::PRIVATE_BYTES][..],
            &[process::PAGE_FILE_BYTES],
            &[process::WORKING_SET_BYTES],
            &[process::WORKING_SET_BYTES, process::POOL_NONPAGED_BYTES],
        ] {
            let names = (0..10).map(|number| format!("service{number}")).chain(["leaky".to_owned()]);
            let series = names.flat_map(|name| {
                counters.iter().map(move |counter| Series {
                    counter: (*counter).to_owned(),
                    instance: name.clone(),
                    scale: 1.0,
                })
            });
            let schema = Arc::new(Schema::new(series.collect()));
            let mut frame = Frame::new(Arc::clone(&schema), 40);
            for minute in 0..40i64 {
                let tick = Tick { time_ns: minute * 60_000_000_000, elapsed_ns: 60_000_000_000 };
                let grows = |memory: f64| vec![memory; counters.len()];
                let row: Vec<f64> = (0..10).flat_map(|_| grows(50e6)).chain(grows(1e6 + 1e5 * minute as f64)).collect();
                frame.push(tick, &row);
            }
            let mut processes = NtProcesses::for_schema(&schema);
            let notes = processes.add_frame(&frame);
            let memory_of_leaky = |note: &Note| {
                let table = note.read_processes().unwrap();
                let row = table.rows.iter().find(|row| row.name == "leaky").unwrap_or_else(|| panic!("{table:?}"));
                memory_bytes(row) / counters.len() as f64
            };
            assert_eq!(notes[0].read_processes().unwrap().rows.len(), 11, "{counters:?}");
            assert_eq!((memory_of_leaky(&notes[0]), memory_of_leaky(notes.last().unwrap())), (1e6, 1e6 + 39.0 * 1e5));
            assert!(notes[5].read_processes().unwrap().rows.len() < 11, "{counters:?}");
        }
    }

    /// Which of three services is which, nobody knows without their ids.
    #[test]
    fn processes_of_one_name_without_ids_are_one_row() {
        let series = |name: &str| Series { counter: process::PRIVATE_BYTES.into(), instance: name.into(), scale: 1.0 };
        let schema = Arc::new(Schema::new(["svchost", "svchost#1", "svchost#2"].map(series).to_vec()));
        let mut frame = Frame::new(Arc::clone(&schema), 1);
        frame.push(Tick { time_ns: 60_000_000_000, elapsed_ns: 60_000_000_000 }, &[1e6, 2e6, 3e6]);
        let notes = NtProcesses::for_schema(&schema).add_frame(&frame);
        let table = notes[0].read_processes().unwrap();
        let rows = &table.rows;
        assert_eq!((rows.len(), rows[0].name.as_str(), rows[0].held_bytes), (1, "svchost", Some(6e6)));
    }

    #[test]
    fn a_log_without_processes_has_no_tables() {
        assert!(NtProcesses::for_schema(&Schema::default()).is_empty());
    }
}
