//! Recordings: `>>> seconds <<<`, then lines of the kernel's files.

use std::collections::HashMap;

use diskwright_base::ProcessRow;
use diskwright_base::text::is_same_host;

use super::header::{self, CollectlHeader};
use super::kernel_fields::{self, LineColumns};
use crate::batch::FrameBatch;
use crate::error::LogError;
use crate::tool::cells::EPOCH_RANGE_S;
use crate::tool::line_cursor::{self, LineCursor};
use crate::tool::process_tables::ProcessTables;
use crate::tool::running_totals::RunningTotals;
use crate::tool::tick_row::TickRow;
use crate::{LogInput, LogOptions};

/// Ticks of the kernel's clock per second if the head does not say.
const DEFAULT_HERTZ: f64 = 100.0;
/// Largest number of lines that are distinguished; beyond it, names come and go, and all are forgotten.
const MAX_KNOWN_LINES: usize = 100_000;
/// Largest number of processes that are followed.
const MAX_PROCESSES: usize = 50_000;

/// Returns true if a sample time is among a file's first lines.
pub fn is_raw(bytes: &[u8]) -> bool {
    line_cursor::head_lines(bytes).any(|line| parse_sample_time(line).is_some())
}

/// Parses `>>> 1795453693.001 <<<` into nanoseconds since 1970.
fn parse_sample_time(line: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(line).ok()?.trim();
    let text = text.strip_prefix(">>> ")?.strip_suffix(" <<<")?;
    let seconds = text.parse::<f64>().ok().filter(|s| EPOCH_RANGE_S.contains(s))?;
    Some((seconds * 1000.0).round() as i64 * 1_000_000)
}

/// Running totals of a process.
#[derive(Clone, Debug, Default)]
struct RawProcess {
    name: String,
    user: f64,
    system: f64,
    faults: f64,
    /// Bytes read from and written to the disk, and read and written by calls.
    io_bytes: [Option<f64>; 4],
    resident_bytes: f64,
}

struct RawLog<'b, 'c> {
    batch: &'c mut FrameBatch<'b>,
    header: CollectlHeader,
    row: TickRow,
    totals: RunningTotals,
    /// Columns of a line by its name.
    columns_by_line: HashMap<Vec<u8>, LineColumns>,
    processes: HashMap<u32, RawProcess>,
    /// Processes of the previous sample that has processes.
    previous_processes: HashMap<u32, RawProcess>,
    /// Time of that sample.
    previous_processes_ns: Option<i64>,
    tables: ProcessTables,
    current_ns: Option<i64>,
    previous_ns: Option<i64>,
    /// Set for the first sample of a run: the time it covers is not known.
    is_first: bool,
    chosen_host: Option<String>,
    /// Set while lines up to the next sample time are left out, which was reported.
    is_skipping: bool,
    is_announced: bool,
}

/// Reads all of an input.
pub fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let mut lines = LineCursor::new(input);
    let mut log = RawLog {
        batch,
        header: CollectlHeader::default(),
        row: TickRow::new(),
        totals: RunningTotals::default(),
        columns_by_line: HashMap::new(),
        processes: HashMap::new(),
        previous_processes: HashMap::new(),
        previous_processes_ns: None,
        tables: ProcessTables::default(),
        current_ns: None,
        previous_ns: None,
        is_first: true,
        chosen_host: options.host.clone(),
        is_skipping: false,
        is_announced: false,
    };
    while lines.advance()? {
        log.read_line(&lines);
        if log.batch.is_stopped() {
            return Ok(());
        }
    }
    log.emit_sample(&lines);
    if let Some(last) = log.previous_ns {
        log.tables.emit_table(log.batch, last);
    }
    Ok(())
}

impl RawLog<'_, '_> {
    fn read_line(&mut self, lines: &LineCursor<'_>) {
        let line = lines.line_bytes();
        if header::is_head_line(line) {
            let text = lines.line_text();
            // the sample above belongs to the head before this one
            if CollectlHeader::is_first_line(&text) {
                self.emit_sample(lines);
            }
            if self.header.parse_line(&text) {
                self.is_skipping = false;
                self.is_first = true;
                self.totals.forget_all();
                self.columns_by_line.clear();
                self.previous_processes.clear();
                self.previous_processes_ns = None;
            }
            return;
        }
        if line.starts_with(b">>>") {
            self.emit_sample(lines);
            let chosen_host = self.chosen_host.get_or_insert_with(|| self.header.machine.host.clone());
            if !is_same_host(chosen_host, &self.header.machine.host) {
                self.batch.add_other_host(lines.context(), &self.header.machine.host);
                self.is_skipping = true;
                return;
            }
            let found = parse_sample_time(line).filter(|_| !lines.is_cut());
            self.is_skipping = found.is_none();
            match found {
                Some(time_ns) => {
                    self.current_ns = Some(time_ns);
                    self.totals.begin_sample();
                }
                None => self.batch.add_skip(lines.context(), "a sample time that cannot be read"),
            }
            return;
        }
        if line.is_empty() || self.is_skipping {
            return;
        }
        if self.current_ns.is_none() {
            self.batch.add_skip(lines.context(), "a line without a sample time above it");
            return;
        }
        // a number that was cut reads as another number
        if lines.is_cut() {
            self.batch.add_skip(lines.context(), "the last line is incomplete and is left out");
            return;
        }
        if line.starts_with(b"proc") && line.get(4) == Some(&b':') {
            self.read_process(&lines.line_text());
        } else {
            self.read_values(lines);
        }
    }

    fn read_values(&mut self, lines: &LineCursor<'_>) {
        let line = lines.line_bytes();
        // a line's name is its first word, and of disks and interfaces the next ones too
        let extra_words = if line.starts_with(b"disk ") { 3 } else { usize::from(line.starts_with(b"Net ")) };
        let Some(end) = end_of_words(line, extra_words + 1) else { return };
        if !self.columns_by_line.contains_key(&line[..end]) {
            if self.columns_by_line.len() >= MAX_KNOWN_LINES {
                self.columns_by_line.clear();
            }
            let text = lines.line_text();
            let words: Vec<&str> = text.split_whitespace().collect();
            let (_, columns) =
                kernel_fields::line_columns(&words, self.header.hertz.unwrap_or(DEFAULT_HERTZ), &mut self.row);
            assert!(
                columns.is_sorted_by(|field, next| field.0 < next.0),
                "the fields of a line are listed in its order"
            );
            self.columns_by_line.insert(line[..end].to_vec(), columns);
        }
        let Some(columns) = self.columns_by_line.get(&line[..end]).filter(|columns| !columns.is_empty()) else {
            return;
        };
        let mut numbers = line[end..].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        // index of the number that `numbers` yields next
        let mut next_index = 0;
        for (index, column, is_total) in columns {
            let Some(word) = numbers.nth(index - next_index) else { break };
            next_index = index + 1;
            let Some(value) = std::str::from_utf8(word).ok().and_then(|word| word.parse::<f64>().ok()) else {
                self.batch.add_skip(lines.context(), "text where a number should be");
                return;
            };
            let value = if *is_total { self.totals.growth(*column, value) } else { value };
            self.row.cells[*column as usize] = value;
        }
    }

    /// Reads `proc:PID stat ...`, `proc:PID io read_bytes: ...`, `proc:PID VmRSS: ...`.
    fn read_process(&mut self, text: &str) {
        let Some((pid, rest)) = text["proc:".len()..].split_once(' ') else { return };
        let Ok(pid) = pid.parse::<u32>() else { return };
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&pid) {
            return;
        }
        let number = |text: &str| text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
        if let Some(stat) = rest.strip_prefix("stat ") {
            // the name may hold anything but stands between the first ( and the last )
            let (Some(open), Some(close)) = (stat.find('('), stat.rfind(')')) else { return };
            let fields: Vec<&str> = stat.get(close + 1..).unwrap_or_default().split_whitespace().collect();
            let field = |index: usize| fields.get(index).and_then(|f| f.parse::<f64>().ok());
            let (Some(faults), Some(user), Some(system)) = (field(9), field(11), field(12)) else { return };
            let process = self.processes.entry(pid).or_default();
            process.name = stat.get(open + 1..close).unwrap_or_default().to_owned();
            (process.faults, process.user, process.system) = (faults, user, system);
        } else if let Some(io) = rest.strip_prefix("io ") {
            let process = self.processes.entry(pid).or_default();
            for (index, name) in ["read_bytes:", "write_bytes:", "rchar:", "wchar:"].into_iter().enumerate() {
                if let Some(value) = io.strip_prefix(name) {
                    process.io_bytes[index] = number(value);
                }
            }
        } else if let Some(kib) = rest.strip_prefix("VmRSS:").and_then(number) {
            self.processes.entry(pid).or_default().resident_bytes = kib * 1024.0;
        }
    }

    /// Emits the current sample, whose lines are complete.
    fn emit_sample(&mut self, lines: &LineCursor<'_>) {
        let Some(time_ns) = self.current_ns.take() else { return };
        if self.totals.went_back > 0 {
            self.batch
                .add_skip(lines.context(), "totals went back: the machine was restarted, or a device was exchanged");
        }
        self.emit_processes(time_ns);
        if self.row.is_empty() && self.previous_ns.is_some() {
            return;
        }
        if !self.is_announced {
            self.is_announced = true;
            self.batch.push_topology(time_ns, &self.header.machine);
        }
        let before = self.previous_ns.filter(|_| !self.is_first);
        let since = before.map_or(0, |before| time_ns.saturating_sub(before)).max(0).unsigned_abs();
        self.row.emit_tick(self.batch, time_ns, Some(since), &|| format!("the sample before {}", lines.context()));
        (self.previous_ns, self.is_first) = (Some(time_ns), false);
    }

    fn emit_processes(&mut self, time_ns: i64) {
        if self.processes.is_empty() {
            return;
        }
        let hertz = self.header.hertz.unwrap_or(DEFAULT_HERTZ);
        let now = std::mem::take(&mut self.processes);
        if let Some(seconds) =
            self.previous_processes_ns.map(|time| (time_ns - time) as f64 * 1e-9).filter(|s| *s > 0.0)
        {
            for (pid, process) in &now {
                let Some(before) =
                    self.previous_processes.get(pid).filter(|b| b.user + b.system <= process.user + process.system)
                else {
                    continue;
                };
                let rate = |index: usize| Some((process.io_bytes[index]? - before.io_bytes[index]?).max(0.0) / seconds);
                let row = ProcessRow {
                    pid: *pid,
                    name: process.name.clone(),
                    processor: (process.user + process.system - before.user - before.system) / hertz / seconds,
                    processor_system: (process.system - before.system).max(0.0) / hertz / seconds,
                    read_bytes_per_s: rate(0),
                    write_bytes_per_s: rate(1),
                    requested_read_bytes_per_s: rate(2),
                    requested_write_bytes_per_s: rate(3),
                    major_faults_per_s: (process.faults - before.faults).max(0.0) / seconds,
                    resident_bytes: process.resident_bytes,
                    ..ProcessRow::default()
                };
                self.tables.add_process(row, seconds);
            }
            self.tables.end_tick(self.batch, time_ns, seconds);
        }
        self.previous_processes = now;
        self.previous_processes_ns = Some(time_ns);
    }
}

/// Returns the index behind a line's first words; `None` if it has fewer, or nothing behind them.
fn end_of_words(line: &[u8], count: usize) -> Option<usize> {
    let mut start = 0;
    for _ in 0..count {
        start += line[start..].iter().position(|b| !b.is_ascii_whitespace())?;
        start += line[start..].iter().position(u8::is_ascii_whitespace)?;
    }
    Some(start)
}
