//! Reads samples: lines of one moment, up to a line `SEP`. Each line has label, host, time and interval.

use std::collections::HashMap;
use std::io::Read;

use diskwright_base::Topology;
use diskwright_base::counter_ids::{memory, system};
use diskwright_base::text::is_same_host;

use super::labels::{LABELS, LabelColumns};
use super::processes::AtopProcesses;
use crate::LogOptions;
use crate::batch::FrameBatch;
use crate::error::LogError;
use crate::tool::cells::EPOCH_RANGE_S;
use crate::tool::line_cursor::{self, LineCursor};
use crate::tool::process_tables::ProcessTables;
use crate::tool::tick_row::TickRow;

const SECOND_NS: i64 = 1_000_000_000;
const RESET_SAMPLE: &str = "the sample behind RESET covers the time since boot";
/// Reason to leave out a first sample without RESET or SEP above it: it may be one since boot, or half of one.
const BEGINNING_LOST: &str = "the first sample has neither RESET nor SEP above it: it may cover the time since boot";
/// Largest number of lines that are distinguished; beyond it, names come and go, and all are forgotten.
const MAX_KNOWN_LINES: usize = 100_000;

/// Fields that every line begins with.
struct AtopLine<'t> {
    label: &'t str,
    host: &'t str,
    /// Seconds since 1970.
    epoch_s: i64,
    /// Seconds.
    interval_s: u64,
    rest: &'t str,
}

impl<'t> AtopLine<'t> {
    fn parse(text: &'t str) -> Option<AtopLine<'t>> {
        let mut parts = text.splitn(7, ' ');
        let (label, host, epoch) = (parts.next()?, parts.next()?, parts.next()?);
        let (date, clock, interval) = (parts.next()?, parts.next()?, parts.next()?);
        let is_moment =
            date.len() == 10 && date.as_bytes()[4] == b'/' && clock.len() == 8 && clock.as_bytes()[2] == b':';
        let epoch = epoch.parse::<i64>().ok().filter(|e| EPOCH_RANGE_S.contains(&(*e as f64)) && is_moment)?;
        let interval = interval.parse().ok().filter(|i| *i <= 31_536_000)?;
        Some(AtopLine { label, host, epoch_s: epoch, interval_s: interval, rest: parts.next().unwrap_or_default() })
    }
}

/// Returns true if a line of atop is among a file's first lines.
pub fn is_text(bytes: &[u8]) -> bool {
    line_cursor::head_lines(bytes).any(|line| {
        let line = std::str::from_utf8(line).ok().and_then(AtopLine::parse);
        line.is_some_and(|line| LABELS.contains(&line.label))
    })
}

struct AtopLog<'b, 'c> {
    batch: &'c mut FrameBatch<'b>,
    row: TickRow,
    /// Columns of a line, by its label and instance.
    columns_by_line: HashMap<Vec<u8>, LabelColumns>,
    processes: AtopProcesses,
    tables: ProcessTables,
    /// Time and length of the sample, seconds.
    current: Option<(i64, u64)>,
    /// Reason why the sample may cover the time since boot, if it may.
    since_boot: Option<&'static str>,
    host: String,
    chosen_host: Option<String>,
    is_announced: bool,
    last_ns: i64,
}

/// Reads all of a stream; `name` is for errors.
pub fn read(
    input: &mut dyn Read,
    name: String,
    options: &LogOptions,
    batch: &mut FrameBatch<'_>,
) -> Result<(), LogError> {
    let mut lines = LineCursor::from_reader(input, name);
    let mut log = AtopLog {
        batch,
        row: TickRow::new(),
        columns_by_line: HashMap::new(),
        processes: AtopProcesses::default(),
        tables: ProcessTables::default(),
        current: None,
        since_boot: Some(BEGINNING_LOST),
        host: String::new(),
        chosen_host: options.host.clone(),
        is_announced: false,
        last_ns: 0,
    };
    while lines.advance()? {
        log.read_line(&lines);
        if log.batch.is_stopped() {
            return Ok(());
        }
    }
    log.emit_sample(&lines);
    log.tables.emit_table(log.batch, log.last_ns);
    Ok(())
}

impl AtopLog<'_, '_> {
    fn read_line(&mut self, lines: &LineCursor<'_>) {
        let line = lines.line_bytes();
        match line {
            b"" => return,
            b"SEP" => {
                self.emit_sample(lines);
                // a complete sample follows, whatever was lost before
                self.since_boot = None;
                return;
            }
            b"RESET" => {
                self.emit_sample(lines);
                self.since_boot = Some(RESET_SAMPLE);
                return;
            }
            _ => {}
        }
        if line.get(..3).is_some_and(|label| matches!(label, b"PRG" | b"PRE" | b"PRN")) {
            return;
        }
        // a number that was cut reads as another number
        if lines.is_cut() {
            self.batch.add_skip(lines.context(), "the last line is incomplete and is left out");
            return;
        }
        let text = String::from_utf8_lossy(line);
        let Some(parsed) = AtopLine::parse(&text) else {
            self.batch.add_skip(lines.context(), "not a line of atop -P");
            return;
        };
        if !self.is_chosen_host(&parsed, lines) {
            return;
        }
        if self.current.is_some_and(|(epoch, _)| epoch != parsed.epoch_s) {
            self.emit_sample(lines);
        }
        self.current = Some((parsed.epoch_s, parsed.interval_s));
        let is_valid = match parsed.label {
            _ if self.since_boot.is_some() => true,
            "PRC" | "PRM" | "PRD" => {
                self.processes.parse_line(parsed.label, parsed.rest, parsed.interval_s.max(1) as f64)
            }
            label => self.read_values(label, parsed.rest),
        };
        if !is_valid {
            self.batch.add_skip(
                lines.context(),
                "a line with fewer fields than its label has, or text where a number should be",
            );
        }
    }

    fn is_chosen_host(&mut self, line: &AtopLine<'_>, lines: &LineCursor<'_>) -> bool {
        let chosen_host = self.chosen_host.get_or_insert_with(|| line.host.to_owned());
        if !is_same_host(chosen_host, line.host) {
            self.batch.add_other_host(lines.context(), line.host);
            return false;
        }
        if self.host.is_empty() {
            line.host.clone_into(&mut self.host);
        }
        true
    }

    fn read_values(&mut self, label: &str, rest: &str) -> bool {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let instance = match label {
            "cpu" => words.get(1),
            "DSK" | "LVM" | "MDD" | "NET" => words.first(),
            _ => None,
        };
        let key = [label.as_bytes(), b" ", instance.map_or(&b""[..], |name| name.as_bytes())].concat();
        if self.columns_by_line.get(&key).is_none_or(|columns| columns.is_outgrown(&words)) {
            if self.columns_by_line.len() >= MAX_KNOWN_LINES {
                self.columns_by_line.clear();
            }
            let columns = LabelColumns::from_words(label, &words, &mut self.row);
            self.columns_by_line.insert(key.clone(), columns);
        }
        let Some(columns) = self.columns_by_line.get(&key).filter(|columns| !columns.is_empty()) else { return true };
        columns.put_values(&words, &mut self.row)
    }

    fn emit_sample(&mut self, lines: &LineCursor<'_>) {
        let Some((epoch, interval)) = self.current.take() else { return };
        if let Some(because) = self.since_boot.take() {
            self.batch.add_skip(lines.context(), because);
            return;
        }
        let time_ns = epoch * SECOND_NS;
        if !self.is_announced {
            self.is_announced = true;
            let number = |counter: &str| self.row.cell_value(counter, "").unwrap_or(0.0);
            let machine = Topology {
                host: self.host.clone(),
                processors: number(system::PROCESSORS) as u32,
                memory_bytes: number(memory::TOTAL_BYTES) as u64,
                ..Topology::default()
            };
            self.batch.push_topology(time_ns, &machine);
        }
        if interval == 0 {
            self.row.clear();
            self.processes.clear();
            self.batch.add_skip(lines.context(), "a sample with an interval of zero");
            return;
        }
        let elapsed = interval.saturating_mul(SECOND_NS as u64);
        self.row.emit_tick(self.batch, time_ns, Some(elapsed), &|| format!("the sample before {}", lines.context()));
        let seconds = interval as f64;
        self.processes.take_rows().for_each(|row| self.tables.add_process(row, seconds));
        self.tables.end_tick(self.batch, time_ns, seconds);
        self.last_ns = time_ns;
    }
}
