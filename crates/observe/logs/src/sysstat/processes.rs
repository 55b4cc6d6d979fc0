//! pidstat's rows as process tables, one for every ten seconds of the log, so that culprits have names.

use std::collections::HashMap;

use diskwright_base::{Note, ProcessRow, ProcessTable};

use super::heading_table::parse_cell;
use super::tick_collector::{Collector, ValueOrigin};
use crate::error::LogError;
use crate::value_limits;

/// Shortest time between two tables, seconds.
const TABLE_INTERVAL_S: f64 = 10.0;
/// Largest number of processes of one table.
const MAX_ROWS: usize = 20_000;
/// Ticks of the kernel's clock per second, in which delays are counted.
const HERTZ: f64 = 100.0;

/// Collects processes.
#[derive(Default)]
pub struct SysstatProcesses {
    headings: Vec<String>,
    /// Sums over the ticks so far, each multiplied by the seconds it covers.
    rows: HashMap<u32, ProcessRow>,
    seconds: f64,
    time_ns: Option<i64>,
}

impl SysstatProcesses {
    /// Reads headings; returns true where they are of processes.
    pub fn read_heading(&mut self, words: &[&str]) -> bool {
        let has = |wanted: &str| words.contains(&wanted);
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

    /// Adds a row; a value that marks the tick also goes to the collector.
    ///
    /// # Errors
    /// As [`Collector::add_value`].
    pub fn add_row(&mut self, words: &[&str], origin: &ValueOrigin<'_>, to: &mut Collector) -> Result<(), LogError> {
        let seconds = origin.elapsed_ns.map_or(0.0, |ns| ns as f64 * 1e-9);
        if self.time_ns != Some(origin.time_ns) {
            if self.seconds >= TABLE_INTERVAL_S {
                self.emit_table(to);
            }
            self.seconds += seconds;
            self.time_ns = Some(origin.time_ns);
            to.add_value(origin, ["pidstat", "reports", ""], 1.0)?;
        }
        let cell = |name: &str| self.headings.iter().position(|h| h == name).and_then(|i| words.get(i));
        let mut has_impossible_value = false;
        let mut value = |name: &str| {
            // sizes of --human count bytes
            let unit_bytes = if name == "RSS" || name.starts_with("kB_") { 1024.0 } else { 1.0 };
            let value = cell(name).and_then(|text| parse_cell(text, unit_bytes))?;
            // percent and kB: ten thousand processors, 2 TB/s
            let max = if name.starts_with('%') { 1e6 } else { 2e9 };
            has_impossible_value |= !(0.0..=max).contains(&value) && name != "RSS";
            (0.0..=max).contains(&value).then_some(value)
        };
        let pid = cell("PID").or(cell("TGID")).and_then(|pid| pid.parse::<u32>().ok());
        // threads have a hyphen here: their process has a row of its own
        let Some(pid) = pid else { return Ok(()) };
        let name_at = self.headings.len() - 1;
        let name = words.get(name_at..).unwrap_or_default().join(" ");
        let add = |to: &mut Option<f64>, value: Option<f64>, times: f64| {
            if let Some(value) = value {
                *to = Some(to.unwrap_or(0.0) + value * times * seconds);
            }
        };
        let (read, written) = (value("kB_rd/s"), value("kB_wr/s"));
        let (processor, system, faults) = (value("%CPU"), value("%system"), value("majflt/s"));
        let (delay, resident) = (value("iodelay"), value("RSS"));
        if has_impossible_value {
            to.row.add_skip(&format!("line {}, process {pid}", origin.line), value_limits::IMPOSSIBLY_LARGE);
        }
        if self.rows.len() >= MAX_ROWS && !self.rows.contains_key(&pid) {
            return Ok(());
        }
        let row = self.rows.entry(pid).or_default();
        row.pid = pid;
        row.name = name;
        row.cgroup = "/".to_owned();
        add(&mut row.read_bytes_per_s, read, 1024.0);
        add(&mut row.write_bytes_per_s, written, 1024.0);
        row.processor += processor.unwrap_or(0.0) * 0.01 * seconds;
        row.processor_system += system.unwrap_or(0.0) * 0.01 * seconds;
        row.major_faults_per_s += faults.unwrap_or(0.0) * seconds;
        // the delay is a sum over the report, and the length of the first one of `pidstat -h` is unknown
        if let Some(ticks) = delay.filter(|_| seconds > 0.0) {
            row.block_delay = Some(row.block_delay.unwrap_or(0.0) + ticks / HERTZ);
        }
        if let Some(kib) = resident {
            row.resident_bytes = kib * 1024.0;
        }
        Ok(())
    }

    /// Emits the table of the collected processes.
    pub fn emit_table(&mut self, to: &mut Collector) {
        let (Some(time_ns), true) = (self.time_ns, self.seconds > 0.0) else { return };
        let seconds = std::mem::take(&mut self.seconds);
        let mut rows: Vec<ProcessRow> = self.rows.drain().map(|(_, row)| row).collect();
        for row in &mut rows {
            for rate in [&mut row.read_bytes_per_s, &mut row.write_bytes_per_s, &mut row.block_delay] {
                *rate = rate.map(|sum| sum / seconds);
            }
            for rate in [&mut row.processor, &mut row.processor_system, &mut row.major_faults_per_s] {
                *rate /= seconds;
            }
        }
        let weight = |row: &ProcessRow| row.read_bytes_per_s.unwrap_or(0.0) + row.write_bytes_per_s.unwrap_or(0.0);
        let order = |a: &ProcessRow, b: &ProcessRow| {
            weight(b).total_cmp(&weight(a)).then(b.processor.total_cmp(&a.processor)).then(a.pid.cmp(&b.pid))
        };
        rows.sort_by(order);
        let table = ProcessTable { elapsed_s: seconds, rows, ..ProcessTable::default() };
        to.add_note(Note::processes(time_ns, table));
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

    /// The first report below `# Time` covers an unknown time, so its delays are of no second that is counted.
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
