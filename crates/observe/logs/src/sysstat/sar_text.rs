//! Text of sar, mpstat and pidstat: tables with a time in front of each row. The date stands once, in the first line;
//! times that go back show midnights. Rows of averages have no time and are skipped, unless there are no others.

use std::collections::{HashMap, HashSet};

use diskwright_base::Note;
use diskwright_base::text::is_same_host;

use super::averages::{self, Averages};
use super::clock::{SysstatClock, ZoneHint};
use super::head_line::HeadLine;
use super::heading_table::{HeadingTable, Misfit, SysstatRow};
use super::left_out_rows::LeftOutRows;
use super::machine::SysstatMachine;
use super::processes::SysstatProcesses;
use super::stream_window::StreamWindow;
use super::tick_collector::{Collector, ValueOrigin};
use super::time::{self, DAY_S, NumericDateOrder};
use crate::batch::FrameBatch;
use crate::daylight_clock::{self, DaylightClock};
use crate::error::LogError;
use crate::{InputHead, LogInput, LogOptions};

/// Largest number of tables of one stretch that are distinguished; sar has some fifty.
const MAX_TABLES: usize = 1000;

struct SarTextLog<'b, 'c> {
    file: String,
    batch: &'c mut FrameBatch<'b>,
    clock: SysstatClock,
    order: NumericDateOrder,
    head: HeadLine,
    /// Machine that is read, once it is known.
    chosen_host: Option<String>,
    collector: Collector,
    processes: SysstatProcesses,
    kind: HeadingKind,
    /// Headings of the averages that are skipped.
    average_table: Option<HeadingTable>,
    /// Averages that stand before any row with a time.
    averages: Averages,
    /// Headings of the table that is being read.
    headings: String,
    /// Local time of the last tick of each table of this stretch, and the state of its clock.
    tables: HashMap<String, (i64, DaylightClock)>,
    /// State of the clock in the table that is being read. All local times here continue where the clocks change.
    daylight: DaylightClock,
    /// State of the clock at the beginning of this stretch.
    initial_daylight: DaylightClock,
    /// Times when the clocks changed: each table shows them, and they are reported once.
    clock_changes: HashSet<i64>,
    /// Local time at which this stretch begins.
    start_s: Option<i64>,
    /// Local time before the tick that is being read: that of the headings, or of the previous tick.
    previous_s: Option<i64>,
    /// Local time of the tick that is being read.
    tick_s: Option<i64>,
    /// Zone of the rows' times: seconds since 1970 are UTC.
    zone_hint: ZoneHint,
    is_behind_blank: bool,
    /// Rows of disks that could not be read.
    left_out: LeftOutRows,
    line_number: u64,
}

/// Returns true if a head has a table of sar, mpstat or pidstat.
pub fn is_sar_text(head: &InputHead<'_>) -> bool {
    head.text_lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let headings = match (parse_row_time(&words), words.as_slice()) {
            (Some((_, taken)), _) => &words[taken..],
            (None, ["#", "Time", headings @ ..] | ["#Time", headings @ ..]) => headings,
            (None, _) => averages::cells_of_row(&words),
        };
        // rows of `sadf -r` begin with a time as well
        !headings.iter().any(|word| word.ends_with(';')) && are_known_headings(headings)
    })
}

/// Returns true for the headings of a known table.
fn are_known_headings(headings: &[&str]) -> bool {
    // quick test: most lines are rows, and no heading begins with a digit
    if headings.iter().any(|word| word.starts_with(|c: char| c.is_ascii_digit())) {
        return false;
    }
    // atopsar marks the end of its headings: `_dsk_`
    if headings.last().is_some_and(|word| word.len() > 2 && word.starts_with('_') && word.ends_with('_')) {
        return false;
    }
    // `State : inactive` and `912345678 interrupts` of other tools; a table of one column has a rate
    if let [only] = headings
        && !only.contains('/')
    {
        return false;
    }
    let has = |wanted: &str| headings.contains(&wanted);
    let is_of_processes = has("Command") && (has("PID") || has("TGID"));
    // vmstat's short names occur in any sentence
    let is_table = |table: HeadingTable| !table.is_unknown() && table.report != "vmstat";
    is_of_processes || HeadingTable::from_headings(headings).is_some_and(is_table)
}

/// Parses the time of day before a row, or seconds since 1970 (`mpstat -U`, `pidstat -H`), which exceed the seconds of
/// a day. Finnish has dots instead of colons.
fn parse_row_time(words: &[&str]) -> Option<(i64, usize)> {
    let is_epoch = |word: &&str| (9..=10).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_digit());
    if let Some(epoch) = words.first().copied().filter(is_epoch) {
        return Some((epoch.parse().ok()?, 1));
    }
    time::parse_time_of_day(words).or_else(|| {
        let first = words.first().filter(|word| word.len() == 8 && word.matches('.').count() == 2)?;
        time::parse_time_of_day(&[&first.replace('.', ":")])
    })
}

/// Kind of rows under the headings that were read last.
enum HeadingKind {
    Missing,
    Table(HeadingTable),
    Processes,
}

/// Reads all of an input.
pub fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let head = input.head().text_lines().fold(String::new(), |text, line| text + &line + "\n");
    let first = head.lines().find_map(HeadLine::parse).unwrap_or_default();
    let order = time::guess_date_order(&head, &first.date);
    let mut stream = StreamWindow::new(input);
    let mut log = SarTextLog {
        file: stream.name().to_owned(),
        batch,
        clock: SysstatClock::new(options),
        order,
        head: HeadLine::default(),
        chosen_host: options.host.clone(),
        collector: Collector::new(),
        processes: SysstatProcesses::default(),
        kind: HeadingKind::Missing,
        average_table: None,
        averages: Averages::default(),
        headings: String::new(),
        tables: HashMap::new(),
        daylight: DaylightClock::default(),
        initial_daylight: DaylightClock::default(),
        clock_changes: HashSet::new(),
        start_s: None,
        previous_s: None,
        tick_s: None,
        zone_hint: ZoneHint::Missing,
        is_behind_blank: true,
        left_out: LeftOutRows::default(),
        line_number: 0,
    };
    while let Some(text) = stream.next_text_line(log.batch, &mut log.line_number)? {
        log.read_line(&text)?;
    }
    if log.batch.is_stopped() {
        return Ok(());
    }
    log.finish_stretch();
    if !log.batch.has_ticks() {
        log.averages.emit_tick(log.batch, &log.head);
    }
    log.left_out.add_note(log.batch);
    Ok(())
}

impl SarTextLog<'_, '_> {
    fn read_line(&mut self, text: &str) -> Result<(), LogError> {
        if let Some(head) = HeadLine::parse(text) {
            self.finish_stretch();
            self.begin_head(head);
            self.is_behind_blank = false;
            return Ok(());
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_behind_blank = std::mem::replace(&mut self.is_behind_blank, words.is_empty());
        if words.is_empty() {
            return Ok(());
        }
        if let ["#", "Time", ref headings @ ..] | ["#Time", ref headings @ ..] = words[..] {
            if self.is_chosen_host() {
                self.read_heading(None, headings);
            }
            return Ok(());
        }
        let Some((clock, taken)) = parse_row_time(&words) else {
            return self.read_untimed_line(&words);
        };
        if !self.is_chosen_host() {
            return Ok(());
        }
        let is_epoch = clock >= DAY_S && words.len() > taken;
        self.zone_hint = if is_epoch { ZoneHint::Offset(0) } else { ZoneHint::Missing };
        if is_epoch && self.tick_s.is_none() && self.start_s.is_none() && self.tables.is_empty() {
            // midnight of the head's date is local time
            self.previous_s = None;
        }
        match words[taken..] {
            [] => self.add_skip("a time and nothing else"),
            ["LINUX", "RESTART", ..] => self.note_restart(clock),
            ["COM", ref words @ ..] => {
                let time_ns = self.resolve_utc_ns(self.resolve_clock(clock));
                self.collector.add_note(Note::new(time_ns, Note::BOOKMARK, words.join(" ")));
            }
            ref rest if are_known_headings(rest) => self.read_heading(Some(clock), rest),
            // an unknown table must stand below a blank line, as all tables do, or below averages
            ref rest if is_behind_blank && HeadingTable::from_headings(rest).is_some() => {
                self.read_heading(Some(clock), rest)
            }
            ref rest => return self.read_row(self.resolve_clock(clock), rest),
        }
        Ok(())
    }

    /// Reads averages, rows of `pidstat -h`, and lines of other programs.
    fn read_untimed_line(&mut self, words: &[&str]) -> Result<(), LogError> {
        let rest = averages::cells_of_row(words);
        // averages of several tables follow each other, each with its headings
        if are_known_headings(rest) {
            self.average_table = HeadingTable::from_headings(rest);
            return Ok(());
        }
        let has_row = |table: &HeadingTable| table.parse_row(rest).is_ok();
        let is_average = !rest.is_empty()
            && match &self.kind {
                _ if self.average_table.as_ref().is_some_and(has_row) => true,
                HeadingKind::Table(table) => has_row(table),
                HeadingKind::Processes => true,
                HeadingKind::Missing => false,
            };
        if is_average && self.tables.is_empty() && self.tick_s.is_none() {
            let table = match (&self.average_table, &self.kind) {
                (Some(table), _) | (None, HeadingKind::Table(table)) => Some(table),
                _ => None,
            };
            if let Some((instance, values)) = table.and_then(|table| table.parse_row(rest).ok()) {
                let report = table.map_or("", |table| table.report.as_str());
                self.averages.add_row(report, &instance, &values);
            }
        }
        // blank lines may have been removed
        self.is_behind_blank |= is_average;
        // a collector's time line is not needed, for rows have their own times
        if !is_average && words[0] != "zzz" {
            self.add_skip("neither a heading nor a row that begins with a time");
        }
        Ok(())
    }

    /// Returns true if the current machine is the one that is read; otherwise reports it.
    fn is_chosen_host(&mut self) -> bool {
        if self.head.host.is_empty() {
            return true;
        }
        let chosen = self.chosen_host.get_or_insert_with(|| self.head.host.clone());
        let is_chosen = is_same_host(chosen, &self.head.host);
        if !is_chosen {
            self.batch.add_other_host(format!("line {}", self.line_number), &self.head.host);
        }
        is_chosen
    }

    fn add_skip(&mut self, because: &str) {
        self.batch.add_skip(format!("line {}", self.line_number), because);
    }

    fn begin_head(&mut self, head: HeadLine) {
        let read = time::parse_date(&head.date, self.order);
        let shift = self.daylight.shift_s();
        self.previous_s = read.map(|read| read.date.days_since_epoch() * DAY_S + shift);
        if let Some(text) = SysstatMachine::date_guess_note(&head.date, self.order) {
            self.collector.add_note(Note::new(self.previous_s.unwrap_or(0) * 1_000_000_000, Note::WARNING, text));
        } else if read.is_none() {
            let date = &head.date;
            self.add_skip(&format!("the date `{date}` cannot be read: times are counted from 1970-01-01"));
        }
        self.head = head;
        self.start_s = None;
        self.collector.begin_stretch();
    }

    /// Resolves a time of day, at or after the one read last; half a day back means that midnight has passed rather
    /// than that the clock was set back. Seconds since 1970 are complete already.
    fn resolve_clock(&self, clock: i64) -> i64 {
        if clock >= DAY_S {
            return clock;
        }
        let shift = self.daylight.shift_s();
        let base = self.tick_s.or(self.previous_s).or(self.start_s).map_or(0, |base| base - shift);
        let same_day = base.div_euclid(DAY_S) * DAY_S + clock;
        shift + if same_day + DAY_S / 2 < base { same_day + DAY_S } else { same_day }
    }

    /// Returns the local time of a row or of headings, after a change of the clocks.
    fn resolve_time(&mut self, local: i64) -> i64 {
        if self.zone_hint != ZoneHint::Missing {
            return local;
        }
        let shown_ns = (local - self.daylight.shift_s()).saturating_mul(1_000_000_000);
        let (moment_ns, is_changed) = self.daylight.follow_sample(shown_ns, shown_ns);
        let local = moment_ns.div_euclid(1_000_000_000);
        if is_changed && self.clock_changes.insert(local) {
            let time_ns = self.resolve_utc_ns(local);
            self.collector.add_note(Note::new(time_ns, Note::CLOCK, daylight_clock::CLOCK_CHANGE_NOTE));
        }
        local
    }

    fn resolve_utc_ns(&mut self, local: i64) -> i64 {
        self.clock.utc_ns(local, &self.zone_hint.clone(), self.batch)
    }

    fn read_heading(&mut self, clock: Option<i64>, words: &[&str]) {
        self.remember_table();
        self.headings = words.join(" ");
        let is_of_processes = self.processes.read_heading(words);
        self.kind = match HeadingTable::from_headings(words) {
            _ if is_of_processes => HeadingKind::Processes,
            Some(table) => HeadingKind::Table(table),
            None => HeadingKind::Missing,
        };
        // a table continues where it stopped; a new one begins where the stretch began
        (self.previous_s, self.daylight) = match self.tables.get(&self.headings) {
            Some((tick, daylight)) => (Some(*tick), *daylight),
            None => (self.start_s.or(self.previous_s), self.initial_daylight),
        };
        self.tick_s = None;
        if let Some(clock) = clock {
            let local = self.resolve_clock(clock);
            if self.previous_s.is_some_and(|before| local < before) {
                // the table is repeated from its beginning
                self.daylight.forget_last_sample();
            }
            let local = self.resolve_time(local);
            self.previous_s = Some(local);
            self.start_s.get_or_insert(local);
        }
    }

    fn remember_table(&mut self) {
        if let Some(tick) = self.tick_s
            && self.tables.len() < MAX_TABLES
        {
            self.tables.insert(std::mem::take(&mut self.headings), (tick, self.daylight));
        }
    }

    /// Reads a row at a local time. The headings are moved out of `self` while it is read.
    fn read_row(&mut self, local: i64, words: &[&str]) -> Result<(), LogError> {
        let kind = std::mem::replace(&mut self.kind, HeadingKind::Missing);
        let read = match self.fit_row(&kind, words) {
            Ok(values) => {
                if let HeadingKind::Table(table) = &kind
                    && table.report == "disk"
                {
                    self.left_out.count_row(&values.0);
                }
                self.add_row(&kind, values, local, words)
            }
            // a line that is no row must not advance the time
            Err(because) => {
                self.add_skip(&because);
                self.collector.mark_damaged();
                let table = if let HeadingKind::Table(table) = &kind { Some(table) } else { None };
                let is_disk = table.is_some_and(|table| table.report == "disk");
                match table.and_then(|table| table.parse_cut_row(words)) {
                    Some(values) => {
                        if is_disk {
                            self.left_out.add_cut_row(&values.0, &values.1);
                        }
                        self.add_row(&kind, values, local, words)
                    }
                    None => {
                        if is_disk {
                            self.left_out.add_row(words[0]);
                        }
                        Ok(())
                    }
                }
            }
        };
        self.kind = kind;
        read
    }

    fn add_row(
        &mut self,
        kind: &HeadingKind,
        values: SysstatRow<'_>,
        local: i64,
        words: &[&str],
    ) -> Result<(), LogError> {
        let local = self.resolve_time(local);
        let last = self.tick_s.or(self.previous_s).unwrap_or(local - 1);
        if local < last {
            self.add_skip("time goes back within a table");
            return Ok(());
        }
        if self.tick_s != Some(local) {
            if local == last {
                self.add_skip("a row without an interval: it covers the time since boot");
                return Ok(());
            }
            self.previous_s = self.tick_s.or(self.previous_s);
            self.tick_s = Some(local);
        }
        // the head's date stands for midnight, which is not the time of a sample
        let is_known = self.start_s.is_some() || !self.tables.is_empty();
        let since = self.previous_s.filter(|_| is_known).map(|before| (local - before).unsigned_abs());
        let elapsed_ns = since.map(|s| s.saturating_mul(1_000_000_000));
        if self.head.date.is_empty() && self.zone_hint == ZoneHint::Missing {
            self.add_skip(SysstatMachine::NO_DATE_NOTE);
        }
        let time_ns = self.resolve_utc_ns(local);
        let origin = ValueOrigin { file: &self.file, line: self.line_number, time_ns, elapsed_ns };
        match kind {
            HeadingKind::Missing => {}
            HeadingKind::Processes => self.processes.add_row(words, &origin, &mut self.collector)?,
            HeadingKind::Table(table) => {
                let (instance, values) = values;
                for (name, value) in values {
                    self.collector.add_value(&origin, [&table.report, name, &instance], value)?;
                }
            }
        }
        self.collector.flush_if_full(self.batch, &self.head.to_machine());
        Ok(())
    }

    /// Parses a row below these headings, or returns why it does not belong to them.
    fn fit_row<'k>(&self, kind: &'k HeadingKind, words: &[&str]) -> Result<SysstatRow<'k>, String> {
        let table = match kind {
            HeadingKind::Missing => return Err("a row without headings".to_owned()),
            HeadingKind::Processes if self.processes.is_row(words) => return Ok(SysstatRow::default()),
            HeadingKind::Processes => return Err("not a row of processes below their headings".to_owned()),
            HeadingKind::Table(table) => table,
        };
        table.parse_row(words).map_err(|misfit| {
            let fault = match misfit {
                Misfit::Short => "fewer cells",
                Misfit::Long => "more cells",
                Misfit::Words => "other words",
            };
            format!("a row with {fault} than the table `{}` has headings", table.report)
        })
    }

    fn note_restart(&mut self, clock: i64) {
        if let Some((tick, daylight)) = self.latest_tick() {
            (self.tick_s, self.daylight) = (Some(tick), daylight);
        }
        let local = self.resolve_clock(clock);
        self.finish_stretch();
        self.previous_s = Some(local);
        let time_ns = self.resolve_utc_ns(local);
        self.collector.add_note(Note::new(time_ns, Note::GAP, SysstatMachine::RESTART_NOTE));
    }

    /// Returns the latest tick of this stretch, and the state of its clock.
    fn latest_tick(&self) -> Option<(i64, DaylightClock)> {
        let current_tick = self.tick_s.map(|tick| (tick, self.daylight));
        self.tables.values().copied().chain(current_tick).max_by_key(|(tick, _)| *tick)
    }

    /// Ends the stretch: its tables are complete and are emitted side by side.
    fn finish_stretch(&mut self) {
        self.initial_daylight = self.latest_tick().map_or(self.initial_daylight, |(_, daylight)| daylight);
        // the next stretch may cover the same hours
        self.initial_daylight.forget_last_sample();
        self.daylight = self.initial_daylight;
        self.processes.emit_table(&mut self.collector);
        self.collector.flush(self.batch, &self.head.to_machine());
        self.tables.clear();
        self.headings.clear();
        self.kind = HeadingKind::Missing;
        self.start_s = None;
        self.tick_s = None;
    }
}

#[cfg(test)]
mod tests;
