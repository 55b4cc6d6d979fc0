//! Recordings: `>>> seconds <<<`, then lines of the kernel's files.

use std::collections::HashMap;

use diskwright_base::ProcessRow;
use diskwright_base::text::is_same_host;

use super::header::{self, CollectlHeader};
use super::kernel::{self, LineColumns};
use crate::batch::FrameBatch;
use crate::error::LogError;
use crate::tool::cells::EPOCHS;
use crate::tool::lines::{self, LineCursor};
use crate::tool::processes::ProcessTables;
use crate::tool::row::TickRow;
use crate::tool::totals::RunningTotals;
use crate::{LogInput, LogOptions};

/// Ticks of the kernel's clock per second where the head does not say.
const HERTZ: f64 = 100.0;
/// Largest number of lines that are distinguished; beyond it the names come and go, and all are learnt anew.
const MOST_LINES: usize = 100_000;
/// Largest number of processes that are followed.
const MOST_PROCESSES: usize = 50_000;

/// Returns true where a sample time stands at the beginning.
pub fn is_raw(bytes: &[u8]) -> bool {
    lines::of_head(bytes).any(|line| moment(line).is_some())
}

/// Parses `>>> 1795453693.001 <<<` into nanoseconds since 1970.
fn moment(line: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(line).ok()?.trim();
    let text = text.strip_prefix(">>> ")?.strip_suffix(" <<<")?;
    let seconds = text.parse::<f64>().ok().filter(|s| EPOCHS.contains(s))?;
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
    bytes: [Option<f64>; 4],
    resident: f64,
}

struct RawLog<'b, 'c> {
    batch: &'c mut FrameBatch<'b>,
    header: CollectlHeader,
    row: TickRow,
    totals: RunningTotals,
    /// Columns of a line by its name.
    known: HashMap<Vec<u8>, LineColumns>,
    processes: HashMap<u32, RawProcess>,
    /// Processes of the round before …
    before: HashMap<u32, RawProcess>,
    /// … and its time.
    before_at: Option<i64>,
    tables: ProcessTables,
    current: Option<i64>,
    before_ns: Option<i64>,
    /// Set for the first sample of a run: the time it covers is not known.
    is_first: bool,
    chosen: Option<String>,
    /// Set while lines up to the next sample time are left out, which was reported.
    is_passing: bool,
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
        known: HashMap::new(),
        processes: HashMap::new(),
        before: HashMap::new(),
        before_at: None,
        tables: ProcessTables::default(),
        current: None,
        before_ns: None,
        is_first: true,
        chosen: options.host.clone(),
        is_passing: false,
        is_announced: false,
    };
    while lines.advance()? {
        log.line(&lines);
        if log.batch.is_stopped() {
            return Ok(());
        }
    }
    log.hand_over(&lines);
    if let Some(last) = log.before_ns {
        log.tables.finish(log.batch, last);
    }
    Ok(())
}

impl RawLog<'_, '_> {
    fn line(&mut self, lines: &LineCursor<'_>) {
        let line = lines.line();
        if header::is_of_head(line) {
            let text = lines.text();
            // the sample above belongs to the head before this one
            if CollectlHeader::begins(&text) {
                self.hand_over(lines);
            }
            if self.header.take(&text) {
                self.is_passing = false;
                self.is_first = true;
                self.totals.forget();
                self.known.clear();
                self.before.clear();
                self.before_at = None;
            }
            return;
        }
        if line.starts_with(b">>>") {
            self.hand_over(lines);
            let chosen = self.chosen.get_or_insert_with(|| self.header.machine.host.clone());
            if !is_same_host(chosen, &self.header.machine.host) {
                self.batch.skip_host(lines.context(), &self.header.machine.host);
                self.is_passing = true;
                return;
            }
            let found = moment(line).filter(|_| !lines.is_cut());
            self.is_passing = found.is_none();
            match found {
                Some(time_ns) => {
                    self.current = Some(time_ns);
                    self.totals.begin();
                }
                None => self.batch.skip(lines.context(), "a sample time that cannot be read"),
            }
            return;
        }
        if line.is_empty() || self.is_passing {
            return;
        }
        if self.current.is_none() {
            self.batch.skip(lines.context(), "a line without a sample time above it");
            return;
        }
        // a number that was cut reads as another number
        if lines.is_cut() {
            self.batch.skip(lines.context(), "the last line is incomplete and is left out");
            return;
        }
        if line.starts_with(b"proc") && line.get(4) == Some(&b':') {
            self.process(&lines.text());
        } else {
            self.values(lines);
        }
    }

    fn values(&mut self, lines: &LineCursor<'_>) {
        let line = lines.line();
        // a line's name is its first word, and of disks and interfaces the next ones too
        let more = if line.starts_with(b"disk ") { 3 } else { usize::from(line.starts_with(b"Net ")) };
        let Some(end) = end_of_words(line, more + 1) else { return };
        if !self.known.contains_key(&line[..end]) {
            if self.known.len() >= MOST_LINES {
                self.known.clear();
            }
            let text = lines.text();
            let words: Vec<&str> = text.split_whitespace().collect();
            let (_, columns) = kernel::columns(&words, self.header.hertz.unwrap_or(HERTZ), &mut self.row);
            self.known.insert(line[..end].to_vec(), columns);
        }
        let Some(columns) = self.known.get(&line[..end]).filter(|columns| !columns.is_empty()) else { return };
        let mut numbers = line[end..].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let mut index = 0;
        for (place, column, is_total) in columns {
            let Some(word) = numbers.nth(place - index) else { break };
            index = place + 1;
            let Some(value) = std::str::from_utf8(word).ok().and_then(|word| word.parse::<f64>().ok()) else {
                self.batch.skip(lines.context(), "text where a number should be");
                return;
            };
            let value = if *is_total { self.totals.added(*column, value) } else { value };
            self.row.cells[*column as usize] = value;
        }
    }

    /// Reads `proc:PID stat ...`, `proc:PID io read_bytes: ...`, `proc:PID VmRSS: ...`.
    fn process(&mut self, text: &str) {
        let Some((pid, rest)) = text["proc:".len()..].split_once(' ') else { return };
        let Ok(pid) = pid.parse::<u32>() else { return };
        if self.processes.len() >= MOST_PROCESSES && !self.processes.contains_key(&pid) {
            return;
        }
        let number = |text: &str| text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
        if let Some(stat) = rest.strip_prefix("stat ") {
            // the name may hold anything but stands between the first ( and the last )
            let (Some(open), Some(close)) = (stat.find('('), stat.rfind(')')) else { return };
            let fields: Vec<&str> = stat.get(close + 1..).unwrap_or_default().split_whitespace().collect();
            let field = |index: usize| fields.get(index).and_then(|f| f.parse::<f64>().ok());
            let (Some(faults), Some(user), Some(system)) = (field(9), field(11), field(12)) else { return };
            let to = self.processes.entry(pid).or_default();
            to.name = stat.get(open + 1..close).unwrap_or_default().to_owned();
            (to.faults, to.user, to.system) = (faults, user, system);
        } else if let Some(io) = rest.strip_prefix("io ") {
            let to = self.processes.entry(pid).or_default();
            for (index, name) in ["read_bytes:", "write_bytes:", "rchar:", "wchar:"].into_iter().enumerate() {
                if let Some(value) = io.strip_prefix(name) {
                    to.bytes[index] = number(value);
                }
            }
        } else if let Some(kib) = rest.strip_prefix("VmRSS:").and_then(number) {
            self.processes.entry(pid).or_default().resident = kib * 1024.0;
        }
    }

    /// Emits the current sample, whose lines are complete.
    fn hand_over(&mut self, lines: &LineCursor<'_>) {
        let Some(time_ns) = self.current.take() else { return };
        if self.totals.back > 0 {
            self.batch.skip(lines.context(), "totals went back: the machine was restarted, or a device was exchanged");
        }
        self.hand_processes_over(time_ns);
        if self.row.is_empty() && self.before_ns.is_some() {
            return;
        }
        if !self.is_announced {
            self.is_announced = true;
            self.batch.topology(time_ns, &self.header.machine);
        }
        let before = self.before_ns.filter(|_| !self.is_first);
        let since = before.map_or(0, |before| time_ns.saturating_sub(before)).max(0).unsigned_abs();
        self.row.emit(self.batch, time_ns, Some(since), &|| format!("the sample before {}", lines.context()));
        (self.before_ns, self.is_first) = (Some(time_ns), false);
    }

    fn hand_processes_over(&mut self, time_ns: i64) {
        if self.processes.is_empty() {
            return;
        }
        let hertz = self.header.hertz.unwrap_or(HERTZ);
        let now = std::mem::take(&mut self.processes);
        if let Some(seconds) = self.before_at.map(|time| (time_ns - time) as f64 * 1e-9).filter(|s| *s > 0.0) {
            for (pid, process) in &now {
                let Some(before) = self.before.get(pid).filter(|b| b.user + b.system <= process.user + process.system)
                else {
                    continue;
                };
                let rate = |index: usize| Some((process.bytes[index]? - before.bytes[index]?).max(0.0) / seconds);
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
                    resident_bytes: process.resident,
                    ..ProcessRow::default()
                };
                self.tables.add(row, seconds);
            }
            self.tables.tick(self.batch, time_ns, seconds);
        }
        self.before = now;
        self.before_at = Some(time_ns);
    }
}

/// Returns the index behind a line's first words; `None` where it has fewer, or nothing behind them.
fn end_of_words(line: &[u8], count: usize) -> Option<usize> {
    let mut start = 0;
    for _ in 0..count {
        start += line[start..].iter().position(|b| !b.is_ascii_whitespace())?;
        start += line[start..].iter().position(u8::is_ascii_whitespace)?;
    }
    Some(start)
}
