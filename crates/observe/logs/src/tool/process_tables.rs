//! Processes of a log as tables, one for every ten seconds, so that culprits have names. The values of a table are
//! means over its ticks.

use std::collections::HashMap;

use diskwright_base::{Note, ProcessRow, ProcessTable};

use crate::batch::FrameBatch;

/// Shortest time between two tables, seconds.
const TABLE_INTERVAL_S: f64 = 10.0;
/// Largest number of processes of one table.
pub(crate) const MAX_ROWS: usize = 20_000;

/// Collects the processes of ticks.
#[derive(Default)]
pub(crate) struct ProcessTables {
    /// Sums over the ticks so far, each multiplied by the seconds of its tick.
    rows: HashMap<u32, ProcessRow>,
    seconds: f64,
    /// Processes beyond the limit.
    left_out: u64,
}

/// Reason why a process is not in its table.
pub(crate) const TOO_MANY_PROCESSES: &str = "more processes in one report than the limit (20,000)";

impl ProcessTables {
    /// Adds a process of a tick: rates and shares are those of the tick.
    pub fn add_process(&mut self, row: ProcessRow, seconds: f64) {
        if self.rows.len() >= MAX_ROWS && !self.rows.contains_key(&row.pid) {
            self.left_out += 1;
            return;
        }
        let add = |sum: &mut Option<f64>, value: Option<f64>| {
            if let Some(value) = value {
                *sum = Some(sum.unwrap_or(0.0) + value * seconds);
            }
        };
        let sums = self.rows.entry(row.pid).or_default();
        add(&mut sums.read_bytes_per_s, row.read_bytes_per_s);
        add(&mut sums.write_bytes_per_s, row.write_bytes_per_s);
        add(&mut sums.requested_read_bytes_per_s, row.requested_read_bytes_per_s);
        add(&mut sums.requested_write_bytes_per_s, row.requested_write_bytes_per_s);
        add(&mut sums.block_delay, row.block_delay);
        sums.processor += row.processor * seconds;
        sums.processor_system += row.processor_system * seconds;
        sums.major_faults_per_s += row.major_faults_per_s * seconds;
        sums.resident_bytes = row.resident_bytes;
        sums.swapped_bytes = row.swapped_bytes.or(sums.swapped_bytes);
        (sums.pid, sums.name, sums.cgroup) = (row.pid, row.name, "/".to_owned());
    }

    /// Ends the tick that the processes belong to; emits a table if one is due.
    pub fn end_tick(&mut self, batch: &mut FrameBatch<'_>, time_ns: i64, seconds: f64) {
        if self.rows.is_empty() {
            return;
        }
        self.seconds += seconds;
        if self.seconds >= TABLE_INTERVAL_S {
            self.emit_table(batch, time_ns);
        }
    }

    /// Emits a table of the collected processes.
    pub fn emit_table(&mut self, batch: &mut FrameBatch<'_>, time_ns: i64) {
        let seconds = std::mem::take(&mut self.seconds);
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            batch.add_skip(format!("{left_out} processes"), TOO_MANY_PROCESSES);
        }
        let mut rows: Vec<ProcessRow> = self.rows.drain().map(|(_, row)| row).collect();
        if seconds <= 0.0 || rows.is_empty() {
            return;
        }
        for row in &mut rows {
            for rate in [
                &mut row.read_bytes_per_s,
                &mut row.write_bytes_per_s,
                &mut row.requested_read_bytes_per_s,
                &mut row.requested_write_bytes_per_s,
                &mut row.block_delay,
            ] {
                *rate = rate.map(|sum| sum / seconds);
            }
            for rate in [&mut row.processor, &mut row.processor_system, &mut row.major_faults_per_s] {
                *rate /= seconds;
            }
        }
        let bytes = |row: &ProcessRow| row.read_bytes_per_s.unwrap_or(0.0) + row.write_bytes_per_s.unwrap_or(0.0);
        rows.sort_by(|a, b| {
            bytes(b).total_cmp(&bytes(a)).then(b.processor.total_cmp(&a.processor)).then(a.pid.cmp(&b.pid))
        });
        let table = ProcessTable { elapsed_s: seconds, rows, ..ProcessTable::default() };
        batch.push_note(Note::processes(time_ns, table));
    }
}
