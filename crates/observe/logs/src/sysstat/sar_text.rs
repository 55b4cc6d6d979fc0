//! Text of sar, mpstat and pidstat: tables with a time in front of each row. The date stands once, in the first line;
//! times that go back show midnights. Rows of averages have no time and are skipped, unless there are no others.

use std::collections::{HashMap, HashSet};

use diskwright_base::Note;
use diskwright_base::text::is_same_host;

use super::averages::{self, Averages};
use super::clock::{SysstatClock, ZoneHint};
use super::head_line::HeadLine;
use super::heading_table::{HeadingTable, Misfit, SysstatRow};
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
            Ok(values) => self.add_row(&kind, values, local, words),
            // a line that is no row must not advance the time
            Err(because) => {
                self.add_skip(&because);
                self.collector.mark_damaged();
                Ok(())
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
mod tests {
    use super::super::testing::{ReadOutcome, read_bytes, read_text};
    use crate::LogOptions;

    mod blank_lines;
    mod clocks;
    mod epochs;

    const HEAD: &str = "Linux 6.1.0 (db1) \t2026-11-21 \t_x86_64_\t(4 CPU)\n\n";

    fn seconds(read: &ReadOutcome) -> Vec<(i64, u64)> {
        let midnight = 20_778 * 86_400;
        read.ticks.iter().map(|(time, elapsed)| (time / 1_000_000_000 - midnight, elapsed / 1_000_000_000)).collect()
    }

    fn two_tables(rows: [&str; 4]) -> String {
        let [a, b, c, d] = rows;
        format!(
            "{HEAD}13:20:09 CPU %user %idle\n{a} all 10.00 90.00\n{b} all 20.00 80.00\nAverage: all 15.00 85.00\n\n\
             13:20:09 DEV tps aqu-sz await\n{c} sda 5.00 0.50 2.00\n{d} sda 7.00 0.70 3.00\nAverage: sda 6 0.6 2.5\n"
        )
    }

    #[test]
    fn puts_tables_side_by_side() {
        let read = read_text(&two_tables(["13:20:19", "13:20:29", "13:20:19", "13:20:29"]));
        assert_eq!(seconds(&read), [(48_019, 10), (48_029, 10)]);
        assert_eq!(read.series_values("processor.user", "_total"), [0.1, 0.2]);
        assert_eq!(read.series_values("physical_disk.avg_s_per_transfer", "sda"), [0.002, 0.003]);
        let summary = read.summary.unwrap();
        assert_eq!((summary.format, summary.host.as_str(), summary.gaps), ("sar-text", "db1", 0));
        assert!(summary.skipped.is_empty(), "{:?}", summary.skipped);
        assert!(read.notes.iter().any(|n| n.kind == "warning" && n.text().contains("names no time zone")));
        assert!(read.notes.iter().any(|n| n.kind == "topology" && n.text().contains("\"processors\":4")));
    }

    #[test]
    fn an_offset_shifts_the_times_and_is_not_warned_of() {
        let options = LogOptions { utc_offset_s: Some(3600), ..LogOptions::default() };
        let text = two_tables(["13:20:19", "13:20:29", "13:20:19", "13:20:29"]);
        let read = read_bytes(text.as_bytes(), &options);
        assert_eq!(seconds(&read)[0].0, 44_419);
        assert!(read.notes.iter().all(|n| n.kind != "warning"));
    }

    #[test]
    fn reads_repeated_headings_and_tables_tick_by_tick() {
        let tick = |from: u32, to: u32| {
            format!(
                "13:20:{from:02} CPU %user\n13:20:{to:02} all 1.0\n\n13:20:{from:02} DEV tps\n13:20:{to:02} sda 2.0\n\
                 13:20:{to:02} sdb 3.0\n\n"
            )
        };
        let read = read_text(&(HEAD.to_owned() + &tick(1, 2) + &tick(2, 3) + &tick(3, 4)));
        assert_eq!(seconds(&read), [(48_002, 1), (48_003, 1), (48_004, 1)]);
        assert_eq!(read.series_values("physical_disk.transfers_per_s", "sdb"), [3.0; 3]);
        assert_eq!(read.summary.unwrap().gaps, 0);
    }

    #[test]
    fn reads_other_locales() {
        for (date, row, when) in [
            ("21.11.2026", "13:20:19     all      2,15     97,85", 48_019),
            ("11/21/2026", "01:20:19 PM     all      2.15     97.85", 48_019),
            ("21/11/26", "13:20:19     all      2,15     97,85", 48_019),
            ("2026年11月21日", "13时20分19秒     all      2.15     97.85", 48_019),
            ("11/21/26", "13:20:19 \u{1b}[32;22m all\u{1b}[0m\u{1b}[34;1m  2.15 97.85\u{1b}[0m", 48_019),
        ] {
            let heading = row.split(" all").next().unwrap().replace("19", "09").replace("\u{1b}[32;22m", "");
            let text = format!("Linux 6.1.0 (db1) \t{date} \t_x86_64_\t(4 CPU)\n\n{heading} CPU %user %idle\n{row}\n");
            let read = read_text(&text);
            assert_eq!(seconds(&read), [(when, 10)], "{text}");
            assert_eq!(read.series_values("processor.user", "_total"), [0.0215]);
        }
    }

    #[test]
    fn skips_what_does_not_fit_with_its_line() {
        for (wrong, because) in [
            ("13:20:19 sda 5.00", "fewer cells"),
            ("nonsense", "neither a heading"),
            ("13:19:00 sda 5.00 1 1", "time goes back"),
            ("13:20:09 sda 5.00 1 1", "since boot"),
            ("13:20:19", "nothing else"),
        ] {
            let text = format!("{HEAD}13:20:09 DEV tps aqu-sz await\n{wrong}\n13:20:29 sda 7.00 0.70 3.00\n");
            let read = read_text(&text);
            assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [7.0], "{wrong}");
            let skipped = read.summary.unwrap().skipped;
            assert!(skipped[0].reason.contains(because) && skipped[0].context == "line 4", "{wrong}: {skipped:?}");
        }
    }

    #[test]
    fn a_log_cut_anywhere_yields_all_complete_rows() {
        let full_text = two_tables(["13:20:19", "13:20:29", "13:20:19", "13:20:29"]);
        for cut in 0..full_text.len() {
            let read = read_text(full_text.get(..cut).unwrap());
            assert!(read.ticks.len() <= 2, "cut at {cut}");
            assert!(read.summary.is_err() || !read.ticks.is_empty(), "cut at {cut}");
        }
    }

    #[test]
    fn pidstat_names_processes() {
        let mut text = HEAD.to_owned();
        for tick in 0..30 {
            text += &format!(
                "13:20:{tick:02} UID PID kB_rd/s kB_wr/s kB_ccwr/s iodelay Command\n\
                 13:20:{:02} 0 77 {}.00 10.00 0.00 50 my prog\n\n",
                tick + 1,
                tick * 2
            );
        }
        let read = read_text(&text);
        assert_eq!(read.ticks.len(), 30);
        let notes: Vec<_> = read.notes.iter().filter(|n| n.kind == "processes").collect();
        assert_eq!(notes.len(), 3);
        let table = notes[0].read_processes().unwrap();
        let row = &table.rows[0];
        assert_eq!((table.elapsed_s, row.pid, row.name.as_str()), (10.0, 77, "my prog"));
        assert_eq!((row.read_bytes_per_s, row.block_delay), (Some(9.0 * 1024.0), Some(0.5)));
    }

    #[test]
    fn lines_of_other_programs_change_neither_machine_nor_time() {
        let full_text = two_tables(["13:20:19", "13:20:29", "13:20:19", "13:20:29"]);
        let text =
            format!("nohup: ignoring input\n$ sar -u -d 10 2\nzzz ***Sat Nov 21 13:20:09 UTC 2026\n\n{full_text}");
        // what looks like a row or headings among the rows is neither
        let text =
            text.replacen("13:20:29 all", "13:20:25 root logged in\n13:20:26 42\nbroadcast: hello\n13:20:29 all", 1);
        let read = read_text(&text);
        assert_eq!(seconds(&read), [(48_019, 10), (48_029, 10)]);
        assert_eq!(read.series_values("processor.user", "_total"), [0.1, 0.2]);
        assert_eq!(read.series_values("physical_disk.avg_s_per_transfer", "sda"), [0.002, 0.003]);
        let summary = read.summary.unwrap();
        assert_eq!(summary.host, "db1");
        let count = |because: &str| summary.skipped.iter().find(|s| s.reason.contains(because)).map_or(0, |s| s.count);
        assert_eq!((count("neither a heading"), count("another machine")), (3, 0), "{:?}", summary.skipped);
        assert_eq!(count("cells than the table") + count("words than the table"), 2, "{:?}", summary.skipped);
    }

    #[test]
    fn reports_a_lost_date() {
        let full_text = two_tables(["13:20:19", "13:20:29", "13:20:19", "13:20:29"]);
        let read = read_text(full_text.strip_prefix(HEAD).unwrap());
        assert_eq!(read.series_values("processor.user", "_total"), [0.1, 0.2]);
        let skipped = read.summary.unwrap().skipped;
        assert!(skipped.iter().any(|s| s.reason.contains("from 1970-01-01")), "{skipped:?}");
    }
}
