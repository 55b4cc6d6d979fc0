//! Reader of sections as they come. Each row carries the number of its tick, and a line `ZZZZ` gives that tick's time:
//! before its rows in a file as nmon wrote it, behind all rows in a sorted one, which is then held in memory.

use std::collections::{HashMap, HashSet};

use diskwright_base::text::is_same_host;
use diskwright_base::{ProcessRow, Topology};

use super::processes::TopColumns;
use super::section::NmonSection;
use crate::batch::FrameBatch;
use crate::daylight::DaylightClock;
use crate::error::LogError;
use crate::sysstat::clock::{SysstatClock, ZoneHint};
use crate::sysstat::time::{self, DAY, NumericDateOrder};
use crate::tool::cells::{self, CellPlan};
use crate::tool::lines::LineCursor;
use crate::tool::processes::ProcessTables;
use crate::tool::row::TickRow;
use crate::{LogInput, LogOptions};

/// Largest number of cells of a sorted file that are held in memory.
const MOST_HELD: usize = 16 << 20;
/// Largest number of sections of a recording; each processor is one.
const MOST_SECTIONS: usize = 20_000;
/// Largest number of kinds of lines in a head.
const MOST_WORDS: usize = 1000;
/// Memory of a held process, counted in cells.
const PROCESS: usize = 16;

/// Rows of a tick whose time is not known yet.
#[derive(Default)]
struct HeldTick {
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
    words: HashSet<String>,
    /// Date of the head or of the last tick, days since 1970, for ticks without a date.
    day: Option<i64>,
    last_clock: i64,
    /// In the order in which their headings came, which is mostly that of their rows.
    sections: Vec<(Vec<u8>, NmonSection)>,
    /// Indexes of sections by name.
    places: HashMap<Vec<u8>, usize>,
    /// Index of the last row's section.
    section: usize,
    top: TopColumns,
    processes: ProcessTables,
    row: TickRow,
    /// Number and time of the tick whose rows come.
    current: Option<(u32, i64)>,
    held: HashMap<u32, HeldTick>,
    held_cells: usize,
    before_ns: Option<i64>,
    /// Set for the first tick of a run: the time it covers is not known.
    is_first: bool,
    chosen: Option<String>,
    is_announced: bool,
}

/// Parses the number of `T0001`.
pub fn tick_number(cell: &[u8]) -> Option<u32> {
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
        words: HashSet::new(),
        day: None,
        last_clock: 0,
        sections: Vec::new(),
        places: HashMap::new(),
        section: 0,
        top: TopColumns::default(),
        processes: ProcessTables::default(),
        row: TickRow::new(),
        current: None,
        held: HashMap::new(),
        held_cells: 0,
        before_ns: None,
        is_first: true,
        chosen: options.host.clone(),
        is_announced: false,
    };
    while lines.advance()? {
        log.line(&lines)?;
        if log.batch.is_stopped() {
            return Ok(());
        }
    }
    log.end_of_run(&lines);
    Ok(())
}

impl NmonLog<'_, '_> {
    fn line(&mut self, lines: &LineCursor<'_>) -> Result<(), LogError> {
        let line = lines.line();
        if line.starts_with(b"AAA") {
            self.delimiter = line.get(3).copied().filter(|d| matches!(d, b',' | b';')).unwrap_or(self.delimiter);
            self.about(&cells::texts(line, self.delimiter), lines);
            return Ok(());
        }
        if line.is_empty() || line.starts_with(b"BBB") || line.starts_with(b"UARG") {
            return Ok(());
        }
        let Some(first) = memchr::memchr(self.delimiter, line) else {
            self.batch.skip(lines.context(), "a line without cells");
            return Ok(());
        };
        let second = memchr::memchr(self.delimiter, &line[first + 1..]).map_or(line.len(), |end| first + 1 + end);
        let (tag, moment) = (&line[..first], &line[first + 1..second]);
        if tag == b"TOP" {
            return self.process(lines);
        }
        let Some(number) = tick_number(moment) else {
            let texts = cells::texts(line, self.delimiter);
            if is_tag(&texts[0]) && texts.len() > 2 {
                self.heading(&texts, lines);
            } else if !is_tag(&texts[0]) {
                self.batch.skip(lines.context(), "not a line of nmon");
            }
            return Ok(());
        };
        if !self.is_of_host(lines) {
            return Ok(());
        }
        if tag == b"ZZZZ" {
            self.moment(number, lines);
            return Ok(());
        }
        self.values(number, first, lines)
    }

    /// Reads the headings of a section, new or repeated.
    fn heading(&mut self, texts: &[String], lines: &LineCursor<'_>) {
        let section = NmonSection::of(texts, &mut self.row);
        let tag = texts[0].as_bytes().to_vec();
        match self.places.get(&tag) {
            Some(&index) => self.sections[index].1 = section,
            None if self.sections.len() >= MOST_SECTIONS => {
                self.batch.skip(lines.context(), "too many sections for one log")
            }
            None => {
                self.places.insert(tag.clone(), self.sections.len());
                self.sections.push((tag, section));
            }
        }
    }

    /// Reads a line of the head about the machine or the run.
    fn about(&mut self, cells: &[String], lines: &LineCursor<'_>) {
        let value = |index: usize| cells.get(index).map(|c| c.trim().to_owned()).unwrap_or_default();
        let word = value(1);
        // in a sorted file, the host and others come before the program
        if !self.sections.is_empty() && (word == "progname" || self.words.contains(&word)) {
            self.end_of_run(lines);
            self.machine = Topology::default();
            self.words.clear();
            self.sections.clear();
            self.places.clear();
            self.is_first = true;
            (self.day, self.last_clock) = (None, 0);
            // the next run may cover the same hours
            self.daylight.forget();
        }
        if self.words.len() < MOST_WORDS {
            self.words.insert(word);
        }
        match cells.get(1).map(String::as_str) {
            Some("host") => self.machine.host = value(2),
            Some("AIX") => self.machine.kernel = format!("AIX {}", value(2)),
            Some("OS") => self.machine.kernel = value(3),
            Some("cpus") => self.machine.processors = cells.last().and_then(|c| c.trim().parse().ok()).unwrap_or(0),
            Some("date") => {
                self.day = time::date(&value(2), NumericDateOrder::DayFirst).map(|read| read.date.days());
            }
            _ => {}
        }
    }

    fn is_of_host(&mut self, lines: &LineCursor<'_>) -> bool {
        let chosen = self.chosen.get_or_insert_with(|| self.machine.host.clone());
        if is_same_host(chosen, &self.machine.host) {
            return true;
        }
        self.batch.skip_host(lines.context(), &self.machine.host);
        false
    }

    /// Reads a line `ZZZZ`: it gives the time of the rows before it, or of those that follow.
    fn moment(&mut self, number: u32, lines: &LineCursor<'_>) {
        self.hand_over(lines);
        let texts = cells::texts(lines.line(), self.delimiter);
        let Some(local) = self.local(&texts).filter(|_| !lines.is_cut()) else {
            self.batch.skip(lines.context(), "a snapshot without a readable time");
            return;
        };
        let time_ns = self.clock.utc_ns(local, &ZoneHint::Nothing, self.batch);
        let time_ns = self.daylight.place(time_ns, local.saturating_mul(1_000_000_000), self.batch);
        if let Some(held) = self.held.get_mut(&number) {
            held.time_ns = Some(time_ns);
        } else {
            self.current = Some((number, time_ns));
        }
    }

    fn local(&mut self, texts: &[String]) -> Option<i64> {
        let (clock, _) = time::time_of_day(&[texts.get(2)?.trim()])?;
        let day = match texts.get(3).filter(|t| !t.trim().is_empty()) {
            Some(text) => time::date(text, NumericDateOrder::DayFirst)?.date.days(),
            // the next day where the clock went back
            None => self.day? + i64::from(clock + DAY / 2 < self.last_clock),
        };
        (self.day, self.last_clock) = (Some(day), clock);
        Some(day * DAY + clock)
    }

    fn values(&mut self, number: u32, first: usize, lines: &LineCursor<'_>) -> Result<(), LogError> {
        let (bytes, length) = lines.padded();
        let after = self.section + 1;
        let is_next = self.sections.get(after).is_some_and(|(tag, _)| *tag == bytes[..first]);
        let found =
            if is_next { Some(after) } else { self.sections.iter().position(|(tag, _)| *tag == bytes[..first]) };
        let Some((_, section)) = found.and_then(|index| self.sections.get(index)) else {
            self.batch.skip(lines.context(), "a row of a section without headings");
            return Ok(());
        };
        self.section = found.unwrap_or(0);
        let is_current = self.current.is_some_and(|(current, _)| current == number);
        let mut aside = if is_current { Vec::new() } else { vec![f64::NAN; self.row.cells.len()] };
        let row = if is_current { &mut self.row.cells } else { &mut aside };
        let fit = cells::numbers(bytes, length, self.delimiter, &section.plan, row);
        for kind in &section.plan {
            if let CellPlan::Number(column) | CellPlan::Rest(column) = kind {
                let cell = &mut row[*column as usize];
                // nmon's placeholder for a value that the system does not count
                let absent = if matches!(kind, CellPlan::Rest(_)) { 101.0 } else { -1.0 };
                if *cell == absent || (*cell == 0.0 && cell.is_sign_negative()) {
                    *cell = f64::NAN;
                }
            }
        }
        if lines.is_cut() {
            if let Some(CellPlan::Number(column) | CellPlan::Rest(column)) = section.plan.get(fit.cells - 1) {
                row[*column as usize] = f64::NAN;
            }
            self.batch.skip(lines.context(), "the last line is incomplete: its last cell is left out");
        } else if fit.cells < section.plan.len() && !is_short_by_blanks(&section.plan[fit.cells..]) {
            self.batch.skip(lines.context(), "a row with fewer cells than headings");
        }
        // some sections end their rows with a delimiter, or with cells that have no heading
        if fit.odd > 0 {
            self.batch.skip(lines.context(), "text where a number should be");
        }
        if is_current {
            return Ok(());
        }
        let cells: Vec<(u32, f64)> = (0u32..).zip(aside).filter(|(_, value)| !value.is_nan()).collect();
        self.hold(number, cells.len(), lines)?.cells.extend(cells);
        Ok(())
    }

    /// Returns the held rows of a tick whose time is not known yet, and counts the memory for `cells` more.
    fn hold(&mut self, number: u32, cells: usize, lines: &LineCursor<'_>) -> Result<&mut HeldTick, LogError> {
        self.held_cells += cells + 1;
        if self.held_cells > MOST_HELD {
            let because = "too many rows without their time (ZZZZ) to hold in memory; a file that was not sorted is \
                           read at any size";
            return Err(LogError::broken(lines.name(), lines.context(), because));
        }
        Ok(self.held.entry(number).or_default())
    }

    fn process(&mut self, lines: &LineCursor<'_>) -> Result<(), LogError> {
        let texts = cells::texts(lines.line(), self.delimiter);
        let Some(number) = texts.get(2).and_then(|moment| tick_number(moment.as_bytes())) else {
            self.top.heading(&texts);
            return Ok(());
        };
        if !self.is_of_host(lines) {
            return Ok(());
        }
        let Some(process) = self.top.row(&texts).filter(|_| !lines.is_cut()) else {
            self.batch.skip(lines.context(), "a process that does not fit its headings");
            return Ok(());
        };
        match self.current {
            Some((current, time_ns)) if current == number => {
                let seconds = self.seconds(time_ns);
                self.processes.add(process, seconds);
            }
            _ => self.hold(number, PROCESS, lines)?.processes.push(process),
        }
        Ok(())
    }

    /// Returns the seconds that a tick covers; 0 where that is not known.
    fn seconds(&self, time_ns: i64) -> f64 {
        let since = self.before_ns.filter(|_| !self.is_first).map_or(0, |before| time_ns.saturating_sub(before));
        since.max(0) as f64 * 1e-9
    }

    /// Emits the current tick, whose rows are complete.
    fn hand_over(&mut self, lines: &LineCursor<'_>) {
        let Some((_, time_ns)) = self.current.take() else { return };
        self.tick(time_ns, lines);
    }

    fn tick(&mut self, time_ns: i64, lines: &LineCursor<'_>) {
        if self.row.is_empty() {
            self.batch.skip(lines.context(), "a snapshot without values");
            return;
        }
        let seconds = self.seconds(time_ns);
        if !self.is_announced {
            self.is_announced = true;
            let memory = self.row.value("memory.total_bytes", "");
            self.machine.memory_bytes = memory.map_or(0, |bytes| bytes as u64);
            self.batch.topology(time_ns, &self.machine);
        }
        self.row.emit(self.batch, time_ns, Some((seconds * 1e9) as u64), &|| {
            format!("the sample before {}", lines.context())
        });
        self.processes.tick(self.batch, time_ns, seconds);
        self.before_ns = Some(time_ns);
        self.is_first = false;
    }

    /// Emits the held ticks in order of time.
    fn end_of_run(&mut self, lines: &LineCursor<'_>) {
        self.hand_over(lines);
        let mut held: Vec<HeldTick> = self.held.drain().map(|(_, held)| held).collect();
        self.held_cells = 0;
        held.sort_by_key(|held| held.time_ns);
        for held in held {
            let Some(time_ns) = held.time_ns else {
                self.batch.skip(lines.context(), "rows whose snapshot line (ZZZZ) is missing");
                continue;
            };
            held.cells.into_iter().for_each(|(column, value)| self.row.cells[column as usize] = value);
            let seconds = self.seconds(time_ns);
            held.processes.into_iter().for_each(|process| self.processes.add(process, seconds));
            self.tick(time_ns, lines);
        }
        if let Some(last) = self.before_ns {
            self.processes.finish(self.batch, last);
        }
    }
}

/// Returns true for a section's name.
fn is_tag(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b"_-".contains(&b))
}

/// Returns true where all these cells are left out: headings that end in blanks have no cells.
fn is_short_by_blanks(plan: &[CellPlan]) -> bool {
    plan.iter().all(|kind| *kind == CellPlan::Leave)
}
