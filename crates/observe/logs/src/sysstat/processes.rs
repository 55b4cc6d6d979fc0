//! pidstat's rows as process tables, one for every ten seconds of the log, so that culprits have names.

use std::collections::HashMap;

use diskwright_base::counter_ids::system;
use diskwright_base::{Note, ProcessRow, ProcessTable};

use super::heading_table::parse_cell;
use super::tick_collector::{Collector, ValueOrigin};
use crate::error::LogError;
use crate::first_report::SINGLE_REPORT_NOTE;
use crate::tool::process_tables::{MAX_ROWS, TOO_MANY_PROCESSES};
use crate::value_limits;

/// Shortest time between two tables, seconds.
const TABLE_INTERVAL_S: f64 = 10.0;
/// Time that a report of unknown length counts for, seconds.
const SINGLE_REPORT_S: f64 = 1.0;
/// Ticks of the kernel's clock per second, in which delays are counted.
const HERTZ: f64 = 100.0;

/// Collects processes.
#[derive(Default)]
pub struct SysstatProcesses {
    headings: Vec<String>,
    /// Sums over the ticks so far, by process id.
    sums: HashMap<u32, ProcessSums>,
    /// Processes of a report that covers an unknown time, as long as no other came.
    since_boot: HashMap<u32, ProcessSums>,
    seconds: f64,
    time_ns: Option<i64>,
}

/// Sums of a process: each rate multiplied by the seconds that it covers.
#[derive(Default)]
struct ProcessSums {
    name: String,
    read_bytes: Option<f64>,
    written_bytes: Option<f64>,
    processor_s: f64,
    processor_system_s: f64,
    major_faults: f64,
    block_delay_s: Option<f64>,
    /// Not a sum, but the last value.
    resident_bytes: f64,
}

impl ProcessSums {
    /// Converts the sums to means over `seconds`.
    fn into_row(self, pid: u32, seconds: f64) -> ProcessRow {
        ProcessRow {
            pid,
            name: self.name,
            cgroup: "/".to_owned(),
            read_bytes_per_s: self.read_bytes.map(|bytes| bytes / seconds),
            write_bytes_per_s: self.written_bytes.map(|bytes| bytes / seconds),
            processor: self.processor_s / seconds,
            processor_system: self.processor_system_s / seconds,
            major_faults_per_s: self.major_faults / seconds,
            block_delay: self.block_delay_s.map(|delay_s| delay_s / seconds),
            resident_bytes: self.resident_bytes,
            ..ProcessRow::default()
        }
    }
}

/// A value that no process can have.
struct ImpossibleValue;

/// Parses the cell below a heading; `Ok(None)` if there is no cell, or text in it.
fn parse_value(cell: Option<&str>, heading: &str) -> Result<Option<f64>, ImpossibleValue> {
    // with --human a size has a suffix and counts bytes; without, KiB
    let unit_bytes = if heading == "RSS" || heading.starts_with("kB_") { 1024.0 } else { 1.0 };
    let Some(value) = cell.and_then(|text| parse_cell(text, unit_bytes)) else { return Ok(None) };
    let max = match heading {
        // KiB: a petabyte
        "RSS" => 1e12,
        // ten thousand processors
        _ if heading.starts_with('%') => 1e6,
        // KiB per second: 2 TB/s
        _ => 2e9,
    };
    if (0.0..=max).contains(&value) { Ok(Some(value)) } else { Err(ImpossibleValue) }
}

impl SysstatProcesses {
    /// Reads headings; returns true for those of a table of processes.
    pub fn read_heading(&mut self, words: &[&str]) -> bool {
        let has = |heading: &str| words.contains(&heading);
        let is_table = has("Command") && (has("PID") || has("TGID"));
        if is_table {
            self.headings = words.iter().map(|w| (*w).to_owned()).collect();
        }
        is_table
    }

    /// Returns true for words that can be a row below the headings.
    pub fn is_row(&self, words: &[&str]) -> bool {
        let id = self.headings.iter().position(|h| h == "PID" || h == "TGID").and_then(|index| words.get(index));
        words.len() >= self.headings.len() && id.is_some_and(|id| *id == "-" || id.parse::<u32>().is_ok())
    }

    /// Adds a row. The first row of a tick also adds a value to the collector, so that the tick exists even if nothing
    /// else is recorded.
    ///
    /// # Errors
    /// As [`Collector::add_value`].
    pub fn add_row(
        &mut self,
        words: &[&str],
        origin: &ValueOrigin<'_>,
        collector: &mut Collector,
    ) -> Result<(), LogError> {
        let seconds = origin.elapsed_ns.map_or(0.0, |ns| ns as f64 * 1e-9);
        if self.time_ns != Some(origin.time_ns) {
            if self.seconds >= TABLE_INTERVAL_S {
                self.emit_table(collector);
            }
            self.seconds += seconds;
            self.time_ns = Some(origin.time_ns);
            collector.add_value(origin, ["pidstat", "reports", ""], 1.0)?;
        }
        let cell = |name: &str| self.headings.iter().position(|h| h == name).and_then(|i| words.get(i)).copied();
        // threads have a hyphen here: their process has a row of its own
        let Some(pid) = cell("PID").or(cell("TGID")).and_then(|pid| pid.parse().ok()) else { return Ok(()) };
        let values = ["kB_rd/s", "kB_wr/s", "%CPU", "%system", "majflt/s", "iodelay", "RSS"]
            .map(|heading| parse_value(cell(heading), heading));
        if values.iter().any(Result::is_err) {
            collector.row.add_skip(&format!("line {}, process {pid}", origin.line), value_limits::IMPOSSIBLY_LARGE);
        }
        let [read, written, processor, of_kernel, faults, delay, resident] = values.map(|value| value.unwrap_or(None));
        if let Some(percent) = processor {
            collector.add_largest(origin, system::BUSIEST_PROCESS, percent / 100.0)?;
        }
        // the first report of `pidstat -h` does not show how long it is
        let is_known = seconds > 0.0;
        if is_known {
            self.since_boot.clear();
        }
        let (table, seconds) =
            if is_known { (&mut self.sums, seconds) } else { (&mut self.since_boot, SINGLE_REPORT_S) };
        if table.len() >= MAX_ROWS && !table.contains_key(&pid) {
            collector.row.add_skip(&format!("line {}", origin.line), TOO_MANY_PROCESSES);
            return Ok(());
        }
        // pidstat prints Command last; its words are the rest of the row
        let command_index = self.headings.len() - 1;
        let sums = table.entry(pid).or_default();
        sums.name = words.get(command_index..).unwrap_or_default().join(" ");
        let add = |sum: &mut Option<f64>, value: Option<f64>, scale: f64| {
            if let Some(value) = value {
                *sum = Some(sum.unwrap_or(0.0) + value * scale * seconds);
            }
        };
        add(&mut sums.read_bytes, read, 1024.0);
        add(&mut sums.written_bytes, written, 1024.0);
        sums.processor_s += processor.unwrap_or(0.0) * 0.01 * seconds;
        sums.processor_system_s += of_kernel.unwrap_or(0.0) * 0.01 * seconds;
        sums.major_faults += faults.unwrap_or(0.0) * seconds;
        // the delay is a total, not a rate, so that of an unknown time cannot be used
        if let Some(ticks) = delay.filter(|_| is_known) {
            sums.block_delay_s = Some(sums.block_delay_s.unwrap_or(0.0) + ticks / HERTZ);
        }
        if let Some(kib) = resident {
            sums.resident_bytes = kib * 1024.0;
        }
        Ok(())
    }

    /// Emits the table of the collected processes.
    pub fn emit_table(&mut self, collector: &mut Collector) {
        let Some(time_ns) = self.time_ns else { return };
        let since_boot = std::mem::take(&mut self.since_boot);
        if self.seconds <= 0.0 && !since_boot.is_empty() {
            // it is the only report
            collector.add_note(Note::new(time_ns, Note::WARNING, SINGLE_REPORT_NOTE));
            (self.sums, self.seconds) = (since_boot, SINGLE_REPORT_S);
        }
        if self.seconds <= 0.0 {
            return;
        }
        let seconds = std::mem::take(&mut self.seconds);
        let mut rows: Vec<ProcessRow> = self.sums.drain().map(|(pid, sums)| sums.into_row(pid, seconds)).collect();
        let weight = |row: &ProcessRow| row.read_bytes_per_s.unwrap_or(0.0) + row.write_bytes_per_s.unwrap_or(0.0);
        let order = |a: &ProcessRow, b: &ProcessRow| {
            weight(b).total_cmp(&weight(a)).then(b.processor.total_cmp(&a.processor)).then(a.pid.cmp(&b.pid))
        };
        rows.sort_by(order);
        let table = ProcessTable { elapsed_s: seconds, rows, ..ProcessTable::default() };
        collector.add_note(Note::processes(time_ns, table));
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::{Note, ProcessTable};

    use super::super::testing::read_text;

    #[test]
    fn sizes_for_humans_count_bytes() {
        let text = "Linux 6.1.0 (db1) \t2026-11-21 \t_x86_64_\t(4 CPU)\n\n\
                    13:20:09 UID PID %usr %CPU RSS kB_rd/s kB_wr/s Command\n\
                    13:20:19 0 7 10.0% 20.0% 1.5G 2.0M 512.0B db\n";
        let notes = read_text(text).notes;
        let of_processes = notes.iter().find(|note| note.kind == Note::PROCESSES).unwrap();
        let table = of_processes.read_processes().unwrap();
        let row = &table.rows[0];
        assert_eq!((row.read_bytes_per_s, row.write_bytes_per_s), (Some(2_097_152.0), Some(512.0)));
        assert_eq!((row.resident_bytes, row.name.as_str()), (1_610_612_736.0, "db"));
    }

    #[test]
    fn memory_of_three_tebibytes_is_kept() {
        let text = "Linux 6.1.0 (db1) \t2026-11-21 \t_x86_64_\t(4 CPU)\n\n\
                    13:20:09 UID PID %CPU RSS Command\n13:20:19 0 7 50.0 3221225472 db\n";
        let notes = read_text(text).notes;
        let note = notes.iter().find(|note| note.kind == Note::PROCESSES).unwrap();
        assert_eq!(note.read_processes().unwrap().rows[0].resident_bytes, 3_221_225_472.0 * 1024.0);
    }

    #[test]
    fn the_only_report_of_unknown_length_names_its_processes() {
        let text = "Linux 6.1.0 (db1) \t2026-11-21 \t_x86_64_\t(4 CPU)\n\n\
                    # Time UID PID %usr %system %guest %CPU CPU Command\n1795000000 0 9 1.0 2.0 0.0 3.0 0 worker\n";
        let notes = read_text(text).notes;
        let of_processes = notes.iter().find(|note| note.kind == Note::PROCESSES).unwrap();
        let row = &of_processes.read_processes().unwrap().rows[0];
        assert_eq!((row.name.as_str(), row.processor), ("worker", 0.03));
        assert!(notes.iter().any(|note| note.kind == Note::WARNING && note.text().contains("since boot")));
    }

    /// The first report below `# Time` covers an unknown time, so its delays belong to no counted time.
    #[test]
    fn delays_of_a_report_of_unknown_length_are_left_out() {
        let mut text = "Linux 6.1.0 (db1) \t2026-11-21 \t_x86_64_\t(4 CPU)\n\n".to_owned();
        for second in [19, 29, 39] {
            text += &format!(
                "# Time UID PID kB_rd/s kB_wr/s kB_ccwr/s iodelay Command\n13:20:{second} 0 7 20.0 10.0 0.0 500 db\n\n"
            );
        }
        let notes = read_text(&text).notes;
        let tables: Vec<ProcessTable> = notes
            .iter()
            .filter(|note| note.kind == Note::PROCESSES)
            .map(|note| std::sync::Arc::unwrap_or_clone(note.read_processes().unwrap()))
            .collect();
        assert!(!tables.is_empty());
        for table in &tables {
            // five of ten seconds
            let row = &table.rows[0];
            assert_eq!((row.block_delay, row.read_bytes_per_s), (Some(0.5), Some(20.0 * 1024.0)));
        }
    }
}
