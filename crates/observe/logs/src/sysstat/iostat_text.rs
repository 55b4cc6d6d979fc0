//! Text of iostat: reports in succession, each with an optional time, a processor block and a table of disks (with `-x
//! -h` one each for reads, writes, discards and the rest). The first report after each head covers the time since boot
//! and is left out, unless it is like the second or the only one.

use diskwright_base::Note;
use diskwright_base::text::is_same_host;

use super::calendar;
use super::clock::SysstatClock;
use super::head_line::HeadLine;
use super::heading_table::{HeadingTable, Misfit, parse_cell};
use super::idle_devices::{self, IdleDevices, TABLE_COUNT};
use super::impossible_clock;
use super::iostat_totals::ReportLength;
use super::left_out_rows::LeftOutRows;
use super::machine::{AssumedTimes, HeadDays, ReportClock, SysstatMachine};
use super::report_row::ReportRow;
use super::stream_window::StreamWindow;
use super::time::{self, NumericDateOrder};
use crate::batch::FrameBatch;
use crate::daylight_clock::DaylightClock;
use crate::error::LogError;
use crate::first_report::{self, HeldReport};
use crate::{InputHead, LogInput, LogOptions};

/// A first report with what its ending needs.
struct HeldIostat {
    report: HeldReport,
    is_complete: bool,
    length: ReportLength,
}

struct IostatTextLog<'b, 'c> {
    batch: &'c mut FrameBatch<'b>,
    options: &'c LogOptions,
    clock: SysstatClock,
    order: NumericDateOrder,
    head: HeadLine,
    /// Machine that is read, once it is known.
    chosen_host: Option<String>,
    row: ReportRow,
    idle_devices: IdleDevices,
    /// Set if the report has a table of disks.
    has_disks: bool,
    /// Set if a row of the report could not be read.
    is_damaged: bool,
    table: Option<HeadingTable>,
    /// Blanks before the headings: sums over groups of disks are indented further.
    indent: usize,
    /// Set if names stand last, one blank behind the numbers.
    has_names_last: bool,
    /// A name alone on its line, whose numbers must follow.
    pending_name: Option<String>,
    /// Set if a blank line stands behind the last row: the table is at its end, unless every other line is blank.
    is_behind_blank: bool,
    /// First disk of the table that is being read.
    first_disk: String,
    /// Headings of this report so far; repeated headings begin another report.
    headings: Vec<String>,
    /// Time printed above this report, UTC.
    printed_ns: Option<i64>,
    /// Days for times without a date.
    days: HeadDays,
    daylight: DaylightClock,
    reports: ReportClock,
    /// Reports since the head.
    report_count: u64,
    /// First report of this start, until the second shows whether it is since boot.
    held: Option<HeldIostat>,
    /// Length of this report by its own totals.
    length: ReportLength,
    /// Rows of disks that could not be read.
    left_out: LeftOutRows,
    /// Values in the row.
    value_count: u64,
    /// Set if iostat -y left out the report since boot, and a blank line behind it.
    is_without_first: bool,
    /// Number of blank lines in succession; `None` if every other line of the file is blank.
    blank_run: Option<u32>,
    is_announced: bool,
    line_number: u64,
}

/// Returns true if a head has headings of iostat.
pub fn is_iostat_text(head: &InputHead<'_>) -> bool {
    head.text_lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        are_processor_headings(&words) || are_disk_headings(&words)
    })
}

/// Returns true for the headings above the processors.
fn are_processor_headings(words: &[&str]) -> bool {
    words.first() == Some(&"avg-cpu:") && words[1..].iter().all(|word| word.starts_with('%')) && words.len() > 1
}

/// Returns true for the headings above iostat's disks: `Device` stands first, or last with `-h`.
fn are_disk_headings(words: &[&str]) -> bool {
    let is_device = |word: Option<&&str>| word.is_some_and(|w| matches!(*w, "Device" | "Device:"));
    let has_device = is_device(words.first()) || is_device(words.last());
    has_device && words.iter().any(|w| matches!(*w, "tps" | "r/s" | "w/s" | "d/s" | "%util"))
}

/// Reads all of an input.
pub fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let head = input.head().text_lines().fold(String::new(), |text, line| text + &line + "\n");
    let first = head.lines().find_map(HeadLine::parse).unwrap_or_default();
    let order = time::guess_date_order(&head, &first.date);
    let blanks = if has_blank_after_headings(&head) { None } else { Some(0) };
    let mut stream = StreamWindow::new(input);
    let mut log = IostatTextLog {
        batch,
        options,
        clock: SysstatClock::new(options),
        order,
        head: HeadLine::default(),
        chosen_host: options.host.clone(),
        row: ReportRow::new(),
        idle_devices: IdleDevices::default(),
        has_disks: false,
        is_damaged: false,
        table: None,
        indent: 0,
        has_names_last: false,
        pending_name: None,
        is_behind_blank: false,
        first_disk: String::new(),
        headings: Vec::new(),
        printed_ns: None,
        days: HeadDays::default(),
        daylight: DaylightClock::default(),
        reports: ReportClock::default(),
        report_count: 0,
        held: None,
        length: ReportLength::default(),
        left_out: LeftOutRows::default(),
        value_count: 0,
        is_without_first: false,
        blank_run: blanks,
        is_announced: false,
        line_number: 0,
    };
    while let Some(text) = stream.next_text_line(log.batch, &mut log.line_number)? {
        log.read_line(&text);
    }
    if log.batch.is_stopped() {
        return Ok(());
    }
    // the last report may be incomplete
    log.is_damaged = true;
    log.drop_cut_report();
    log.finish_report();
    log.finish_log();
    Ok(())
}

/// Returns true if a blank line stands behind headings, which iostat never prints: the file was copied badly.
fn has_blank_after_headings(head: &str) -> bool {
    let mut lines = head.lines().skip_while(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        !are_processor_headings(&words) && !are_disk_headings(&words)
    });
    lines.nth(1).is_some_and(|line| line.trim().is_empty())
}

fn indent_width(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

impl IostatTextLog<'_, '_> {
    fn read_line(&mut self, text: &str) {
        if let Some(head) = HeadLine::parse(text) {
            self.finish_report();
            (self.head, self.days) = (head, HeadDays::default());
            self.begin_start();
            return;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            self.is_behind_blank = true;
            if let Some(blanks) = &mut self.blank_run {
                *blanks += 1;
                self.is_without_first |= *blanks == 2 && self.headings.is_empty() && self.report_count == 0;
            }
            return;
        }
        self.blank_run = self.blank_run.map(|_| 0);
        let is_blank_before = std::mem::take(&mut self.is_behind_blank);
        let are_of_processors = are_processor_headings(&words);
        if are_of_processors || are_disk_headings(&words) {
            if !self.is_chosen_host() {
                return;
            }
            self.indent = indent_width(text);
            self.has_names_last = text.trim_end().strip_suffix(" Device").is_some_and(|rest| !rest.ends_with(' '));
            if are_of_processors {
                self.read_heading(&[&["CPU"], &words[1..]].concat());
            } else {
                self.read_heading(&words);
                self.has_disks = true;
            }
            return;
        }
        if let Some(table) = self.table.take() {
            let is_row = self.read_row_or_name(&table, text, &words, is_blank_before);
            // a blank line ends the rows, unless there is one between all lines
            self.table = (is_row || !is_blank_before).then_some(table);
            if is_row {
                return;
            }
        }
        self.read_time(text);
    }

    /// Returns true if the current machine is the one that is read; otherwise reports it.
    fn is_chosen_host(&mut self) -> bool {
        if self.head.host.is_empty() {
            return true;
        }
        let chosen = self.chosen_host.get_or_insert_with(|| self.head.host.clone());
        let is_chosen = is_same_host(chosen, &self.head.host);
        if !is_chosen {
            self.table = None;
            self.batch.add_other_host(format!("line {}", self.line_number), &self.head.host);
        }
        is_chosen
    }

    /// Begins a start of iostat.
    fn begin_start(&mut self) {
        (self.report_count, self.is_without_first, self.table) = (0, false, None);
        self.blank_run = self.blank_run.map(|_| 0);
        self.reports.begin_start();
        self.idle_devices.begin_start();
        if let Some(printed) = self.printed_ns.take() {
            self.reports.set_printed_time(printed);
        }
    }

    fn add_skip(&mut self, because: &str) {
        self.batch.add_skip(format!("line {}", self.line_number), because);
    }

    fn read_time(&mut self, text: &str) {
        // `Time: 07:05:46 PM` of old releases has no date of its own
        let clock = text.trim().strip_prefix("Time:").filter(|clock| clock.split_whitespace().count() < 3);
        let text = clock.map_or_else(|| text.to_owned(), |clock| format!("{} {clock}", self.head.date));
        let Some(printed) = calendar::parse_moment(&text, self.order) else {
            let otherwise = "neither headings nor a time nor a row under headings";
            return self.add_skip(impossible_clock::skip_reason(&text, otherwise));
        };
        self.finish_report();
        let local = if clock.is_some() { self.days.resolve_time(printed.local_s) } else { printed.local_s };
        let mut time_ns = self.clock.utc_ns(local, &printed.zone, self.batch);
        if self.clock.is_one_zone(&printed.zone) {
            time_ns = self.daylight.resolve_time(time_ns, local.saturating_mul(1_000_000_000), self.batch);
        }
        self.printed_ns = Some(time_ns);
        // OSWatcher writes this line each time it starts a tool
        if text.trim_start().starts_with("zzz") {
            self.begin_start();
        }
    }

    fn read_heading(&mut self, words: &[&str]) {
        self.drop_name();
        let headings = words.join(" ");
        if self.headings.contains(&headings) {
            self.finish_report();
        }
        self.headings.push(headings);
        self.first_disk.clear();
        self.table = HeadingTable::from_headings(words);
    }

    /// Reads a row, which `iostat -h` of older releases breaks behind the disk's name.
    fn read_row_or_name(&mut self, table: &HeadingTable, text: &str, words: &[&str], is_behind_blank: bool) -> bool {
        let are_numbers = words.iter().all(|word| parse_cell(word, 1.0).is_some());
        let are_missing_cells = are_numbers && !is_behind_blank && words.len() + 1 == table.column_count();
        if let Some(name) = self.pending_name.take_if(|_| are_missing_cells) {
            let joined = format!("{name} {text}");
            return self.read_row(table, &joined, &joined.split_whitespace().collect::<Vec<_>>(), false);
        }
        self.drop_name();
        let is_single_word = words.len() == 1 && table.column_count() > 2 && table.report != "cpu";
        let is_name = is_single_word && !are_numbers && !is_behind_blank && !self.has_names_last;
        if is_name && calendar::parse_moment(text, self.order).is_none() {
            self.pending_name = Some(text.to_owned());
            return true;
        }
        self.read_row(table, text, words, is_behind_blank)
    }

    /// Reports a name without numbers behind it as a row that was cut.
    fn drop_name(&mut self) {
        if self.pending_name.take().is_some() {
            self.is_damaged = true;
            self.add_skip("a row with fewer cells than its table has headings");
        }
    }

    /// Returns true for sums over groups of disks (iostat -g), which have a blank before their names, wherever these
    /// stand.
    fn is_group(&self, text: &str, words: &[&str], instance: &str) -> bool {
        if self.has_names_last {
            return text.trim_end().strip_suffix(instance).is_some_and(|numbers| numbers.ends_with("  "));
        }
        words[0] == instance && indent_width(text) > self.indent
    }

    /// Reads a row; returns false if the line does not belong to this table.
    fn read_row(&mut self, table: &HeadingTable, text: &str, words: &[&str], is_behind_blank: bool) -> bool {
        let with_instance = [&["all"], words].concat();
        let words = if table.report == "cpu" { &with_instance[..] } else { words };
        // otherwise the words of a time would count as a name with blanks, and its year as a number
        let is_long = words.len() > table.column_count();
        if is_long && (is_behind_blank || calendar::parse_moment(text, self.order).is_some()) {
            return false;
        }
        match table.parse_row(words) {
            Ok((instance, values)) => {
                let is_group = table.report != "cpu" && self.is_group(text, words, &instance);
                let instance = if is_group { format!(" {instance}") } else { instance };
                self.left_out.count_row(&instance);
                self.put_row(table, &instance, &values);
            }
            Err(Misfit::Words) => {
                self.left_out.add_words(words[0]);
                return false;
            }
            Err(_) if is_behind_blank || calendar::parse_moment(text, self.order).is_some() => return false,
            Err(misfit) => {
                let comparison = if misfit == Misfit::Short { "fewer" } else { "more" };
                self.is_damaged = true;
                self.add_skip(&format!("a row with {comparison} cells than its table has headings"));
                let is_disk = table.report != "cpu";
                match table.parse_cut_row(words).filter(|_| misfit == Misfit::Short) {
                    Some((instance, values)) => {
                        if is_disk {
                            self.left_out.add_cut_row(&instance, &values);
                        }
                        self.put_row(table, &instance, &values);
                    }
                    None if is_disk => self.left_out.add_row(words[0]),
                    None => {}
                }
            }
        }
        true
    }

    /// Puts the values of a row into the report.
    fn put_row(&mut self, table: &HeadingTable, instance: &str, values: &[(&str, f64)]) {
        self.begin_repeated_report(table, instance);
        self.length.learn_row(values);
        for (name, value) in values {
            self.value_count += 1;
            if let Some(slot) = self.row.value_slot(&table.report, name, instance) {
                self.row.put_value(slot, *value);
            }
        }
    }

    /// Begins another report at a second row of the first disk: the headings were not copied each time.
    fn begin_repeated_report(&mut self, table: &HeadingTable, instance: &str) {
        if table.report != "disk" {
            return;
        }
        if self.first_disk.is_empty() {
            self.first_disk.push_str(instance);
        } else if self.first_disk == instance {
            let heading = self.headings.pop();
            self.finish_report();
            self.headings.extend(heading);
            self.has_disks = true;
            self.first_disk.push_str(instance);
        }
    }

    /// Drops a last report that was cut before its disks, if it would take the place of a first one with disks.
    fn drop_cut_report(&mut self) {
        let is_held_better = !self.has_disks && self.held.as_ref().is_some_and(|held| held.is_complete);
        if is_held_better && self.value_count > 0 {
            self.add_skip("the last report was cut before its disks");
            self.row.clear();
            self.headings.clear();
            self.value_count = 0;
        }
    }

    fn finish_report(&mut self) {
        self.first_disk.clear();
        self.table = None;
        self.drop_name();
        // headings without rows are a report too: `-z` leaves out idle disks
        let is_empty = self.value_count == 0 && (self.headings.is_empty() || self.printed_ns.is_none());
        let is_complete = self.has_disks && !self.is_damaged;
        (self.has_disks, self.is_damaged) = (false, false);
        self.headings.clear();
        if is_empty {
            return;
        }
        let printed_ns = self.printed_ns.take();
        let length = std::mem::take(&mut self.length);
        let is_first = self.report_count == 0 && !self.is_without_first && !self.options.is_first_report_kept;
        self.report_count += 1;
        self.value_count = 0;
        if is_first {
            let values = self.row.take_values();
            if let Some(held) = self.held.take() {
                self.drop_report(&held);
            }
            let printed_ns = printed_ns.or_else(|| self.reports.take_printed_time());
            let report = HeldReport { values, printed_ns, context: format!("line {}", self.line_number) };
            self.held = Some(HeldIostat { report, is_complete, length });
            return;
        }
        self.settle_held_report(printed_ns, &length);
        self.emit_report(printed_ns, is_complete, &length);
    }

    /// Keeps or drops the first report of this start, now that the second is in the row.
    fn settle_held_report(&mut self, printed_ns: Option<i64>, length: &ReportLength) {
        let Some(held) = self.held.take() else { return };
        let has_times = held.report.printed_ns.or(printed_ns).is_some() || self.reports.has_printed_time();
        let is_kept = held
            .length
            .is_like(length)
            .unwrap_or_else(|| first_report::is_of_interval(self.row.series(), &held.report.values, &self.row.cells));
        if has_times || !is_kept {
            return self.drop_report(&held);
        }
        let second = self.row.replace_values(&held.report.values);
        self.emit_report(None, held.is_complete, &held.length);
        self.row.replace_values(&second);
    }

    fn drop_report(&mut self, held: &HeldIostat) {
        self.reports.skip_report(held.report.printed_ns, self.options.interval);
        let because = "the first report of iostat covers the time since boot";
        self.batch.add_skip(held.report.context.as_str(), because);
    }

    fn emit_report(&mut self, printed_ns: Option<i64>, is_complete: bool, length: &ReportLength) {
        let midnight_ns = self.head.to_machine().midnight_ns(self.order);
        let interval = self.options.interval.or(length.interval());
        let (time_ns, since) = self.reports.next(printed_ns, interval, midnight_ns);
        if let Some(assumed) = self.reports.take_warning() {
            if assumed == AssumedTimes::Counted && self.head.date.is_empty() {
                self.add_skip(SysstatMachine::NO_DATE_NOTE);
            }
            assumed.note_assumption(self.batch, time_ns);
        }
        if !self.is_announced {
            self.is_announced = true;
            // times above reports have a date of their own
            let guess_note =
                SysstatMachine::date_guess_note(&self.head.date, self.order).filter(|_| printed_ns.is_none());
            if let Some(text) = guess_note {
                self.batch.push_note(Note::new(time_ns, Note::WARNING, text));
            }
            self.batch.note_days(SysstatMachine::possible_days(&self.head.date, self.order));
            self.batch.push_topology(time_ns, &self.head.to_machine().to_topology());
        }
        if self.idle_devices.fill_omitted(&mut self.row, [is_complete; TABLE_COUNT]) {
            self.batch.push_note(Note::new(time_ns, Note::WARNING, idle_devices::OMITTED_DEVICES_NOTE));
        }
        self.row.emit_tick(self.batch, time_ns, since);
        self.row.forget_if_sparse();
    }

    /// Settles the first report of the last start; it is kept if it is the only one.
    fn finish_log(&mut self) {
        self.settle_last_start();
        self.left_out.add_note(self.batch);
    }

    fn settle_last_start(&mut self) {
        let Some(held) = self.held.take() else { return };
        if self.batch.has_ticks() {
            return self.drop_report(&held);
        }
        self.row.replace_values(&held.report.values);
        if !held.length.is_short() {
            let remark_ns = held.report.printed_ns.unwrap_or(0);
            first_report::remark_single_report(self.batch, &held.report.context, remark_ns);
        }
        self.emit_report(held.report.printed_ns, held.is_complete, &held.length);
    }
}

#[cfg(test)]
mod tests;
