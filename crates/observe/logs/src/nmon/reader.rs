//! Reader of sections as they come. Each row carries the number of its tick, and a line `ZZZZ` gives that tick's time:
//! before its rows in a file as nmon wrote it, behind all rows in a sorted one, which is then held in memory.

use std::collections::{HashMap, HashSet};

use diskwright_base::counter_ids::memory;
use diskwright_base::text::is_same_host;
use diskwright_base::{ProcessRow, Topology};

use super::processes::TopColumns;
use super::section::NmonSection;
use crate::batch::FrameBatch;
use crate::daylight_clock::DaylightClock;
use crate::error::LogError;
use crate::sysstat::clock::{SysstatClock, ZoneHint};
use crate::sysstat::time::{self, DAY_S, NumericDateOrder};
use crate::tool::cells::{self, CellPlan};
use crate::tool::line_cursor::LineCursor;
use crate::tool::process_tables::ProcessTables;
use crate::tool::tick_row::TickRow;
use crate::{LogInput, LogOptions};

/// Largest number of cells of a sorted file that are held in memory.
const MAX_HELD_CELLS: usize = 16 << 20;
/// Largest number of sections of a recording; each processor is one.
const MAX_SECTIONS: usize = 20_000;
/// Largest number of kinds of lines in a head.
const MAX_HEAD_WORDS: usize = 1000;
/// Memory of a held process, counted in cells.
const CELLS_PER_PROCESS: usize = 16;

/// Rows of a tick whose time is not known yet.
#[derive(Default)]
struct HeldTick {
    /// Columns and values.
    cells: Vec<(u32, f64)>,
    processes: Vec<ProcessRow>,
    time_ns: Option<i64>,
}

struct NmonLog<'b, 'c> {
    batch: &'c mut FrameBatch<'b>,
    clock: SysstatClock,
    daylight: DaylightClock,
    delimiter: u8,
    machine: Topology,
    /// Kinds of lines in this run's head.
    head_words: HashSet<String>,
    /// Date of the head or of the last tick, days since 1970, for ticks without a date.
    day_number: Option<i64>,
    last_clock_s: i64,
    /// In the order in which their headings came, which is mostly that of their rows.
    sections: Vec<(Vec<u8>, NmonSection)>,
    /// Indexes of sections by name.
    section_indexes: HashMap<Vec<u8>, usize>,
    /// Index of the last row's section.
    last_section: usize,
    top_columns: TopColumns,
    processes: ProcessTables,
    row: TickRow,
    /// Number and time of the tick whose rows come.
    current: Option<(u32, i64)>,
    /// Ticks whose time is not known yet, by number.
    held_ticks: HashMap<u32, HeldTick>,
    held_cells: usize,
    previous_ns: Option<i64>,
    /// Set for the first tick of a run: the time it covers is not known.
    is_first: bool,
    chosen_host: Option<String>,
    is_announced: bool,
}

/// Parses the number of `T0001`.
pub fn parse_tick_number(cell: &[u8]) -> Option<u32> {
    let digits =
        cell.strip_prefix(b"T").filter(|d| !d.is_empty() && d.len() <= 9 && d.iter().all(u8::is_ascii_digit))?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Reads all of an input.
pub fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let mut lines = LineCursor::new(input);
    let mut log = NmonLog {
        batch,
        clock: SysstatClock::new(options),
        daylight: DaylightClock::default(),
        delimiter: b',',
        machine: Topology::default(),
        head_words: HashSet::new(),
        day_number: None,
        last_clock_s: 0,
        sections: Vec::new(),
        section_indexes: HashMap::new(),
        last_section: 0,
        top_columns: TopColumns::default(),
        processes: ProcessTables::default(),
        row: TickRow::new(),
        current: None,
        held_ticks: HashMap::new(),
        held_cells: 0,
        previous_ns: None,
        is_first: true,
        chosen_host: options.host.clone(),
        is_announced: false,
    };
    while lines.advance()? {
        log.read_line(&lines)?;
        if log.batch.is_stopped() {
            return Ok(());
        }
    }
    log.finish_run(&lines);
    Ok(())
}

impl NmonLog<'_, '_> {
    fn read_line(&mut self, lines: &LineCursor<'_>) -> Result<(), LogError> {
        let line = lines.line_bytes();
        if line.starts_with(b"AAA") {
            self.delimiter = line.get(3).copied().filter(|d| matches!(d, b',' | b';')).unwrap_or(self.delimiter);
            self.read_head_line(&cells::split_cells(line, self.delimiter), lines);
            return Ok(());
        }
        if line.is_empty() || line.starts_with(b"BBB") || line.starts_with(b"UARG") {
            return Ok(());
        }
        let Some(first) = memchr::memchr(self.delimiter, line) else {
            self.batch.add_skip(lines.context(), "a line without cells");
            return Ok(());
        };
        let second = memchr::memchr(self.delimiter, &line[first + 1..]).map_or(line.len(), |end| first + 1 + end);
        let (tag, moment) = (&line[..first], &line[first + 1..second]);
        if tag == b"TOP" {
            return self.read_process(lines);
        }
        let Some(number) = parse_tick_number(moment) else {
            let texts = cells::split_cells(line, self.delimiter);
            if is_tag(&texts[0]) && texts.len() > 2 {
                self.read_heading(&texts, lines);
            } else if !is_tag(&texts[0]) {
                self.batch.add_skip(lines.context(), "not a line of nmon");
            }
            return Ok(());
        };
        if !self.is_chosen_host(lines) {
            return Ok(());
        }
        if tag == b"ZZZZ" {
            self.read_tick_time(number, lines);
            return Ok(());
        }
        self.read_values(number, first, lines)
    }

    /// Reads the headings of a section, new or repeated.
    fn read_heading(&mut self, texts: &[String], lines: &LineCursor<'_>) {
        let section = NmonSection::from_heading(texts, &mut self.row);
        let tag = texts[0].as_bytes().to_vec();
        match self.section_indexes.get(&tag) {
            Some(&index) => self.sections[index].1 = section,
            None if self.sections.len() >= MAX_SECTIONS => {
                self.batch.add_skip(lines.context(), "too many sections for one log")
            }
            None => {
                self.section_indexes.insert(tag.clone(), self.sections.len());
                self.sections.push((tag, section));
            }
        }
    }

    /// Reads a line of the head about the machine or the run.
    fn read_head_line(&mut self, cells: &[String], lines: &LineCursor<'_>) {
        let value = |index: usize| cells.get(index).map(|c| c.trim().to_owned()).unwrap_or_default();
        let word = value(1);
        // in a sorted file, the host and others come before the program
        if !self.sections.is_empty() && (word == "progname" || self.head_words.contains(&word)) {
            self.finish_run(lines);
            self.machine = Topology::default();
            self.head_words.clear();
            self.sections.clear();
            self.section_indexes.clear();
            self.is_first = true;
            (self.day_number, self.last_clock_s) = (None, 0);
            // the next run may cover the same hours
            self.daylight.forget_last_sample();
        }
        if self.head_words.len() < MAX_HEAD_WORDS {
            self.head_words.insert(word);
        }
        match cells.get(1).map(String::as_str) {
            Some("host") => self.machine.host = value(2),
            Some("AIX") => self.machine.kernel = format!("AIX {}", value(2)),
            Some("OS") => self.machine.kernel = value(3),
            Some("cpus") => self.machine.processors = cells.last().and_then(|c| c.trim().parse().ok()).unwrap_or(0),
            Some("date") => {
                self.day_number =
                    time::parse_date(&value(2), NumericDateOrder::DayFirst).map(|read| read.date.days_since_epoch());
            }
            _ => {}
        }
    }

    fn is_chosen_host(&mut self, lines: &LineCursor<'_>) -> bool {
        let chosen_host = self.chosen_host.get_or_insert_with(|| self.machine.host.clone());
        if is_same_host(chosen_host, &self.machine.host) {
            return true;
        }
        self.batch.add_other_host(lines.context(), &self.machine.host);
        false
    }

    /// Reads a line `ZZZZ`: it gives the time of the rows before it, or of those that follow.
    fn read_tick_time(&mut self, number: u32, lines: &LineCursor<'_>) {
        self.emit_current(lines);
        let texts = cells::split_cells(lines.line_bytes(), self.delimiter);
        let Some(local) = self.parse_local_time(&texts).filter(|_| !lines.is_cut()) else {
            self.batch.add_skip(lines.context(), "a snapshot without a readable time");
            return;
        };
        let time_ns = self.clock.utc_ns(local, &ZoneHint::Missing, self.batch);
        let time_ns = self.daylight.resolve_time(time_ns, local.saturating_mul(1_000_000_000), self.batch);
        if let Some(held) = self.held_ticks.get_mut(&number) {
            held.time_ns = Some(time_ns);
        } else {
            self.current = Some((number, time_ns));
        }
    }

    fn parse_local_time(&mut self, texts: &[String]) -> Option<i64> {
        let (clock, _) = time::parse_time_of_day(&[texts.get(2)?.trim()])?;
        let day = match texts.get(3).filter(|t| !t.trim().is_empty()) {
            Some(text) => time::parse_date(text, NumericDateOrder::DayFirst)?.date.days_since_epoch(),
            // the next day if the clock went back
            None => self.day_number? + i64::from(clock + DAY_S / 2 < self.last_clock_s),
        };
        (self.day_number, self.last_clock_s) = (Some(day), clock);
        Some(day * DAY_S + clock)
    }

    fn read_values(&mut self, number: u32, first: usize, lines: &LineCursor<'_>) -> Result<(), LogError> {
        let (bytes, length) = lines.padded_line();
        let next_section = self.last_section + 1;
        let is_next = self.sections.get(next_section).is_some_and(|(tag, _)| *tag == bytes[..first]);
        let index =
            if is_next { Some(next_section) } else { self.sections.iter().position(|(tag, _)| *tag == bytes[..first]) };
        let Some((_, section)) = index.and_then(|index| self.sections.get(index)) else {
            self.batch.add_skip(lines.context(), "a row of a section without headings");
            return Ok(());
        };
        if let Some(heading) = section.undescribed.clone().filter(|_| has_cell_more(lines, self.delimiter, section)) {
            self.read_heading(&heading, lines);
        }
        let Some((_, section)) = index.and_then(|index| self.sections.get(index)) else { return Ok(()) };
        self.last_section = index.unwrap_or(0);
        let is_current = self.current.is_some_and(|(current, _)| current == number);
        let mut held_row = if is_current { Vec::new() } else { vec![f64::NAN; self.row.cells.len()] };
        let row = if is_current { &mut self.row.cells } else { &mut held_row };
        let fit = cells::read_numbers(bytes, length, self.delimiter, &section.plan, row);
        for kind in &section.plan {
            if let CellPlan::Number(column) | CellPlan::Rest(column) = kind {
                let cell = &mut row[*column as usize];
                // nmon's placeholder for a value that the system does not count
                let placeholder = if matches!(kind, CellPlan::Rest(_)) { 101.0 } else { -1.0 };
                if *cell == placeholder || (*cell == 0.0 && cell.is_sign_negative()) {
                    *cell = f64::NAN;
                }
            }
        }
        if lines.is_cut() {
            if let Some(CellPlan::Number(column) | CellPlan::Rest(column)) = fit.last_cell_plan(&section.plan) {
                row[column as usize] = f64::NAN;
            }
            self.batch.add_skip(lines.context(), "the last line is incomplete: its last cell is left out");
        } else if fit.cell_count < section.plan.len() && !is_short_by_blanks(&section.plan[fit.cell_count..]) {
            self.batch.add_skip(lines.context(), "a row with fewer cells than headings");
        }
        // some sections end their rows with a delimiter, or with cells that have no heading
        if fit.odd_count > 0 {
            self.batch.add_skip(lines.context(), "text where a number should be");
        }
        if is_current {
            return Ok(());
        }
        let cells: Vec<(u32, f64)> = (0u32..).zip(held_row).filter(|(_, value)| !value.is_nan()).collect();
        self.held_tick(number, cells.len(), lines)?.cells.extend(cells);
        Ok(())
    }

    /// Returns the held rows of a tick whose time is not known yet, and counts the memory for `cells` more.
    fn held_tick(&mut self, number: u32, cells: usize, lines: &LineCursor<'_>) -> Result<&mut HeldTick, LogError> {
        self.held_cells += cells + 1;
        if self.held_cells > MAX_HELD_CELLS {
            let because = "too many rows without their time (ZZZZ) to hold in memory; a file that was not sorted is \
                           read at any size";
            return Err(LogError::broken(lines.name(), lines.context(), because));
        }
        Ok(self.held_ticks.entry(number).or_default())
    }

    fn read_process(&mut self, lines: &LineCursor<'_>) -> Result<(), LogError> {
        let texts = cells::split_cells(lines.line_bytes(), self.delimiter);
        let Some(number) = texts.get(2).and_then(|moment| parse_tick_number(moment.as_bytes())) else {
            self.top_columns.parse_heading(&texts);
            return Ok(());
        };
        if !self.is_chosen_host(lines) {
            return Ok(());
        }
        let Some(process) = self.top_columns.parse_row(&texts).filter(|_| !lines.is_cut()) else {
            self.batch.add_skip(lines.context(), "a process that does not fit its headings");
            return Ok(());
        };
        match self.current {
            Some((current, time_ns)) if current == number => {
                let seconds = self.covered_seconds(time_ns);
                self.processes.add_process(process, seconds);
            }
            _ => self.held_tick(number, CELLS_PER_PROCESS, lines)?.processes.push(process),
        }
        Ok(())
    }

    /// Returns the seconds that a tick covers; 0 if that is not known.
    fn covered_seconds(&self, time_ns: i64) -> f64 {
        let since = self.previous_ns.filter(|_| !self.is_first).map_or(0, |before| time_ns.saturating_sub(before));
        since.max(0) as f64 * 1e-9
    }

    /// Emits the current tick, whose rows are complete.
    fn emit_current(&mut self, lines: &LineCursor<'_>) {
        let Some((_, time_ns)) = self.current.take() else { return };
        self.emit_tick(time_ns, lines);
    }

    fn emit_tick(&mut self, time_ns: i64, lines: &LineCursor<'_>) {
        if self.row.is_empty() {
            self.batch.add_skip(lines.context(), "a snapshot without values");
            return;
        }
        let seconds = self.covered_seconds(time_ns);
        if !self.is_announced {
            self.is_announced = true;
            let memory = self.row.cell_value(memory::TOTAL_BYTES, "");
            self.machine.memory_bytes = memory.map_or(0, |bytes| bytes as u64);
            self.batch.push_topology(time_ns, &self.machine);
        }
        self.row.emit_tick(self.batch, time_ns, Some((seconds * 1e9) as u64), &|| {
            format!("the sample before {}", lines.context())
        });
        self.processes.end_tick(self.batch, time_ns, seconds);
        self.previous_ns = Some(time_ns);
        self.is_first = false;
    }

    /// Emits the held ticks in order of time.
    fn finish_run(&mut self, lines: &LineCursor<'_>) {
        self.emit_current(lines);
        let mut held: Vec<HeldTick> = self.held_ticks.drain().map(|(_, held)| held).collect();
        self.held_cells = 0;
        held.sort_by_key(|held| held.time_ns);
        for held in held {
            let Some(time_ns) = held.time_ns else {
                self.batch.add_skip(lines.context(), "rows whose snapshot line (ZZZZ) is missing");
                continue;
            };
            held.cells.into_iter().for_each(|(column, value)| self.row.cells[column as usize] = value);
            let seconds = self.covered_seconds(time_ns);
            held.processes.into_iter().for_each(|process| self.processes.add_process(process, seconds));
            self.emit_tick(time_ns, lines);
        }
        if let Some(last) = self.previous_ns {
            self.processes.emit_table(self.batch, last);
        }
    }
}

/// Returns true if a row has one cell more than the headings, and the last one is not empty.
fn has_cell_more(lines: &LineCursor<'_>, delimiter: u8, section: &NmonSection) -> bool {
    let line = lines.line_bytes();
    let cells = line.iter().filter(|b| **b == delimiter).count() + 1;
    cells == section.plan.len() + 1 && line.last() != Some(&delimiter)
}

/// Returns true for a section's name.
fn is_tag(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b"_-".contains(&b))
}

/// Returns true if all these cells are left out: headings that end in blanks have no cells.
fn is_short_by_blanks(plan: &[CellPlan]) -> bool {
    plan.iter().all(|kind| *kind == CellPlan::Skip)
}
