//! Text of iostat: reports in succession, each with an optional time, a processor block and a table of disks (with `-x
//! -h` one each for reads, writes, discards and the rest). The first report after each head covers the time since boot
//! and is left out.

use diskwright_base::Note;
use diskwright_base::text::is_same_host;

use super::calendar;
use super::clock::SysstatClock;
use super::head_line::HeadLine;
use super::heading_table::{HeadingTable, Misfit, parse_cell};
use super::idle_devices::{self, IdleDevices, TABLE_COUNT};
use super::machine::{AssumedTimes, HeadDays, ReportClock, SysstatMachine};
use super::report_row::ReportRow;
use super::stream_window::StreamWindow;
use super::time::{self, NumericDateOrder};
use crate::batch::FrameBatch;
use crate::daylight_clock::DaylightClock;
use crate::error::LogError;
use crate::{InputHead, LogInput, LogOptions, TimeBasis};

struct IostatTextLog<'b, 'c> {
    file: String,
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
    /// Heads so far.
    start_count: u64,
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
        file: stream.name().to_owned(),
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
        headings: Vec::new(),
        printed_ns: None,
        days: HeadDays::default(),
        daylight: DaylightClock::default(),
        reports: ReportClock::default(),
        report_count: 0,
        start_count: 0,
        value_count: 0,
        is_without_first: false,
        blank_run: blanks,
        is_announced: false,
        line_number: 0,
    };
    while let Some(text) = stream.next_text_line(log.batch, &mut log.line_number)? {
        log.read_line(&text)?;
    }
    if log.batch.is_stopped() {
        return Ok(());
    }
    // the last report may be incomplete
    log.is_damaged = true;
    log.finish_report()?;
    log.finish_log()
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
    fn read_line(&mut self, text: &str) -> Result<(), LogError> {
        if let Some(head) = HeadLine::parse(text) {
            self.finish_report()?;
            (self.head, self.days) = (head, HeadDays::default());
            self.begin_start();
            return Ok(());
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            self.is_behind_blank = true;
            if let Some(blanks) = &mut self.blank_run {
                *blanks += 1;
                self.is_without_first |= *blanks == 2 && self.headings.is_empty() && self.report_count == 0;
            }
            return Ok(());
        }
        self.blank_run = self.blank_run.map(|_| 0);
        let is_blank_before = std::mem::take(&mut self.is_behind_blank);
        let are_of_processors = are_processor_headings(&words);
        if are_of_processors || are_disk_headings(&words) {
            if !self.is_chosen_host() {
                return Ok(());
            }
            self.indent = indent_width(text);
            self.has_names_last = text.trim_end().strip_suffix(" Device").is_some_and(|rest| !rest.ends_with(' '));
            return if are_of_processors {
                self.read_heading(&[&["CPU"], &words[1..]].concat())
            } else {
                self.read_heading(&words)?;
                self.has_disks = true;
                Ok(())
            };
        }
        if let Some(table) = self.table.take() {
            let is_row = self.read_row_or_name(&table, text, &words, is_blank_before);
            // a blank line ends the rows, unless there is one between all lines
            self.table = (is_row || !is_blank_before).then_some(table);
            if is_row {
                return Ok(());
            }
        }
        self.read_time(text)
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
        self.start_count += 1;
        if let Some(printed) = self.printed_ns.take() {
            self.reports.set_printed_time(printed);
        }
    }

    fn add_skip(&mut self, because: &str) {
        self.batch.add_skip(format!("line {}", self.line_number), because);
    }

    fn read_time(&mut self, text: &str) -> Result<(), LogError> {
        // `Time: 07:05:46 PM` of old releases has no date of its own
        let clock = text.trim().strip_prefix("Time:").filter(|clock| clock.split_whitespace().count() < 3);
        let text = clock.map_or_else(|| text.to_owned(), |clock| format!("{} {clock}", self.head.date));
        let Some(printed) = calendar::parse_moment(&text, self.order) else {
            self.add_skip("neither headings nor a time nor a row under headings");
            return Ok(());
        };
        self.finish_report()?;
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
        Ok(())
    }

    fn read_heading(&mut self, words: &[&str]) -> Result<(), LogError> {
        self.drop_name();
        let headings = words.join(" ");
        if self.headings.contains(&headings) {
            self.finish_report()?;
        }
        self.headings.push(headings);
        self.table = HeadingTable::from_headings(words);
        Ok(())
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
            // its values are left out with the report
            Ok(_) if self.is_first_report() => self.value_count += 1,
            Ok((instance, values)) => {
                let is_group = table.report != "cpu" && self.is_group(text, words, &instance);
                let instance = if is_group { format!(" {instance}") } else { instance };
                for (name, value) in values {
                    self.value_count += 1;
                    if let Some(slot) = self.row.value_slot(&table.report, name, &instance) {
                        self.row.put_value(slot, value);
                    }
                }
            }
            Err(Misfit::Words) => return false,
            Err(_) if is_behind_blank || calendar::parse_moment(text, self.order).is_some() => return false,
            Err(misfit) => {
                let comparison = if misfit == Misfit::Short { "fewer" } else { "more" };
                self.is_damaged = true;
                self.add_skip(&format!("a row with {comparison} cells than its table has headings"));
            }
        }
        true
    }

    fn is_first_report(&self) -> bool {
        self.report_count == 0 && !self.is_without_first
    }

    fn finish_report(&mut self) -> Result<(), LogError> {
        self.table = None;
        self.drop_name();
        // headings without rows are a report too: `-z` leaves out idle disks
        let is_empty = self.value_count == 0 && (self.headings.is_empty() || self.printed_ns.is_none());
        let is_complete = self.has_disks && !self.is_damaged;
        (self.has_disks, self.is_damaged) = (false, false);
        self.headings.clear();
        if is_empty {
            return Ok(());
        }
        let printed = self.printed_ns.take();
        let is_first = self.is_first_report();
        self.report_count += 1;
        self.value_count = 0;
        if is_first {
            self.reports.skip_report(printed, self.options.interval);
            self.add_skip("the first report of iostat covers the time since boot");
            return Ok(());
        }
        let midnight_ns = self.head.to_machine().midnight_ns(self.order);
        let context = format!("line {}", self.line_number);
        let Some((time_ns, since)) = self.reports.next(printed, self.options.interval, midnight_ns) else {
            return Err(SysstatMachine::missing_interval_error(&self.file, &context));
        };
        if let Some(warning) = self.reports.take_warning() {
            if warning == AssumedTimes::Counted {
                self.batch.note_time_basis(TimeBasis::Counted);
                if self.head.date.is_empty() {
                    self.add_skip(SysstatMachine::NO_DATE_NOTE);
                }
            }
            self.batch.push_note(Note::new(time_ns, Note::WARNING, warning.to_note()));
        }
        if !self.is_announced {
            self.is_announced = true;
            // times above reports have a date of their own
            let guess_note = SysstatMachine::date_guess_note(&self.head.date, self.order).filter(|_| printed.is_none());
            if let Some(text) = guess_note {
                self.batch.push_note(Note::new(time_ns, Note::WARNING, text));
            }
            self.batch.push_topology(time_ns, &self.head.to_machine().to_topology());
        }
        if self.idle_devices.fill_omitted(&mut self.row, [is_complete; TABLE_COUNT]) {
            self.batch.push_note(Note::new(time_ns, Note::WARNING, idle_devices::OMITTED_DEVICES_NOTE));
        }
        self.row.emit_tick(self.batch, time_ns, since);
        self.row.forget_if_sparse();
        Ok(())
    }

    /// Returns an error with advice if each start printed only one report.
    fn finish_log(&mut self) -> Result<(), LogError> {
        if self.batch.has_ticks() || self.batch.is_stopped() || self.report_count != 1 || self.is_without_first {
            return Ok(());
        }
        let command = "S_TIME_FORMAT=ISO iostat -t -x 10 > FILE";
        let because = SysstatMachine::since_boot_reason(self.start_count.max(1), "report", command);
        Err(LogError::NoSamples { file: self.file.clone(), because })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{ReadOutcome, read_bytes, read_text};
    use crate::LogOptions;

    mod layouts;

    const HEAD: &str = "Linux 6.1.0 (db1) \t2026-11-21 \t_x86_64_\t(4 CPU)\n\n";

    fn report(second: u32, headings: &str, row: &str) -> String {
        format!(
            "2026-11-21T19:05:{second:02}+0000\navg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           \
             50.00 0.00 1.00 2.00 0.00 47.00\n\n{headings}\n{row}\n\n\n"
        )
    }

    fn log(headings: &str, row: &str) -> ReadOutcome {
        let reports: String = (1..4).map(|second| report(second, headings, row)).collect();
        read_text(&(HEAD.to_owned() + &reports))
    }

    #[test]
    fn reads_every_generation_of_columns() {
        for (headings, row, expected) in [
            (
                "Device: rrqm/s wrqm/s r/s w/s rsec/s wsec/s avgrq-sz avgqu-sz await svctm %util",
                "sda 0 1 10 20 80 160 8 1.5 4 2 50",
                [("read_bytes_per_s", 40_960.0), ("avg_bytes_per_transfer", 4096.0), ("avg_queue_length", 1.5)],
            ),
            (
                "Device: rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util",
                "sda 0 1 10 20 40 80 8 1.5 4 3 5 2 50",
                [("avg_read_queue_length", 0.03), ("avg_write_queue_length", 0.1), ("avg_s_per_transfer", 0.004)],
            ),
            (
                "Device r/s w/s rMB/s wMB/s rrqm/s wrqm/s %rrqm %wrqm r_await w_await aqu-sz rareq-sz wareq-sz svctm \
                 %util",
                "sda 10 20 1 2 0 0 0 0 3 5 1.5 4 4 2 50",
                [("read_bytes_per_s", 1_048_576.0), ("avg_bytes_per_read", 4096.0), ("busy", 0.5)],
            ),
            (
                "Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz d/s dkB/s \
                 drqm/s %drqm d_await dareq-sz f/s f_await aqu-sz %util",
                "sda 10 40 0 0 3 4 20 80 0 0 5 4 1 2 0 0 6 2 7 8 1.5 50",
                [("discard_bytes_per_s", 2048.0), ("avg_s_per_flush", 0.008), ("flush_queue_length", 0.056)],
            ),
            (
                "tps kB/s rqm/s await areq-sz aqu-sz %util Device",
                "30 120 0 4 4 1.5 50 sda",
                [("transfers_per_s", 30.0), ("bytes_per_s", 122_880.0), ("avg_queue_length", 1.5)],
            ),
            (
                "Device tps kB_read/s kB_wrtn/s kB_dscd/s kB_read kB_wrtn kB_dscd",
                "sda 30 40.0k 1.5M 0.0k 40 80 0",
                [("read_bytes_per_s", 40_960.0), ("write_bytes_per_s", 1_572_864.0), ("transfers_per_s", 30.0)],
            ),
        ] {
            let read = log(headings, row);
            for (counter, value) in expected {
                let found = read.series_values(&format!("physical_disk.{counter}"), "sda");
                assert_eq!(found, [value; 2], "{counter} of {headings}");
            }
            assert_eq!(read.series_values("processor.privileged", "_total"), [0.01; 2]);
            assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [1_000_000_000; 2]);
            let skipped = read.summary.unwrap().skipped;
            assert!(skipped.len() == 1 && skipped[0].reason.contains("since boot"), "{skipped:?}");
        }
    }

    #[test]
    fn detects_the_option_that_leaves_out_the_first_report() {
        let text = format!("{HEAD}\n{}", report(1, "Device tps", "sda 5"));
        assert_eq!(read_text(&text).series_values("physical_disk.transfers_per_s", "sda"), [5.0]);
    }

    #[test]
    fn counts_times_of_reports_without_times() {
        let report = "avg-cpu:  %user %idle\n 50.00 50.00\n\nDevice tps\nsda 5.0\n ALL 9.0\n\n\n";
        let text = HEAD.to_owned() + &report.repeat(4);
        let error = read_text(&text).summary.unwrap_err().to_string();
        assert!(error.contains("--interval"), "{error}");
        let options = LogOptions { interval: Some(Duration::from_secs(5)), ..LogOptions::default() };
        let read = read_bytes(text.as_bytes(), &options);
        assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [5_000_000_000; 3]);
        assert!(read.notes.iter().any(|n| n.kind == "warning" && n.text().contains("counted from midnight")));
        assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [5.0; 3]);
        let summary = read.summary.unwrap();
        assert_eq!(summary.series, 3);
        assert!(summary.skipped.iter().any(|s| s.context == "group ALL"), "{:?}", summary.skipped);
    }

    #[test]
    fn reads_changing_columns_and_reports_broken_rows() {
        let text = HEAD.to_owned()
            + &report(1, "Device tps", "sda 5")
            + &report(2, "Device tps", "sda 5 6 7 8")
            + &report(3, "Device tps %util", "sda 6")
            + &report(4, "Device %util tps", "sda 50 7")
            + &report(3, "Device %util tps", "sda 50 8")
            + "rubbish\n";
        let read = read_text(&text);
        let tps = read.series_values("physical_disk.transfers_per_s", "sda");
        assert!(tps[0].is_nan() && tps[1].is_nan() && tps[2..] == [7.0], "{tps:?}");
        let skipped = read.summary.unwrap().skipped;
        for because in ["fewer cells", "time goes back", "neither headings"] {
            assert!(skipped.iter().any(|s| s.reason.contains(because)), "{because}: {skipped:?}");
        }
    }

    #[test]
    fn disks_that_are_left_out_are_idle() {
        const HEADINGS: &str = "Device r/s rkB/s r_await aqu-sz %util";
        let text = HEAD.to_owned()
            + &report(1, HEADINGS, "sda 1 1 1 1 1\nsdb 1 1 1 1 1")
            + &report(2, HEADINGS, "sda 10 40 3 1.5 50\nsdb 5 20 3 1 20")
            + &report(3, HEADINGS, "sda 12 48 3 1.5 50")
            + &report(4, HEADINGS, "sdb 6 24 3 1 20")
            + &report(5, HEADINGS, "sda 7 28 3")
            + &report(6, HEADINGS, "sda 8 32 3 1 5");
        let read = read_text(&text);
        let column = |counter: &str, disk: &str| read.series_values(&format!("physical_disk.{counter}"), disk);
        assert_eq!(column("reads_per_s", "sda")[..3], [10.0, 12.0, 0.0]);
        assert_eq!(column("reads_per_s", "sdb")[..3], [5.0, 0.0, 6.0]);
        assert_eq!((column("busy", "sdb")[1], column("avg_queue_length", "sda")[2]), (0.0, 0.0));
        // an average over nothing is not 0, nor is what a broken row or the cut end may have had
        assert!(column("avg_s_per_read", "sdb")[1].is_nan());
        assert!(column("reads_per_s", "sdb")[3].is_nan() && column("reads_per_s", "sdb")[4].is_nan());
        assert_eq!(read.notes.iter().filter(|n| n.text().contains("taken as idle")).count(), 1);
        // another start may have other disks
        let again = text + HEAD + &report(10, HEADINGS, "sda 1 1 1 1 1") + &report(11, HEADINGS, "sda 9 36 3 1 5");
        let read = read_text(&(again + &report(12, HEADINGS, "sda 9 36 3 1 5")));
        assert!(read.series_values("physical_disk.reads_per_s", "sdb").last().is_some_and(|v| v.is_nan()));
    }

    /// Three reports without times, as iostat prints them when it is started once.
    fn start(tps: u32) -> String {
        let report = |tps| format!("Device tps %util\nsda {tps}.0 1.0\n\n");
        format!("{HEAD}{}{}{}", report(999), report(tps), report(tps + 1))
    }

    #[test]
    fn skips_lines_of_other_programs_without_losing_values() {
        let text = format!(
            "nohup: ignoring input\n\n[root@db1 ~]# iostat -x 1\n{HEAD}{}{}[Sat Nov 21] message from root\n{}sdb \
             nohup: x\n",
            report(1, "Device tps %util", "sda 1 1"),
            report(
                2,
                "Device tps %util",
                "sda 5 1\nbroadcast message from root@db1 (Sat Nov 21 19:05:02 2026):\nsdb 6 1"
            ),
            report(3, "Device tps %util", "sda 7 1"),
        );
        let read = read_text(&text);
        assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [5.0, 7.0]);
        assert_eq!(read.series_values("physical_disk.transfers_per_s", "sdb")[0], 6.0);
        let summary = read.summary.unwrap();
        assert_eq!(summary.host, "db1");
        let other = summary.skipped.iter().find(|s| s.reason.contains("neither headings")).unwrap();
        assert_eq!((other.context.as_str(), other.count), ("line 1", 5));
    }

    #[test]
    fn each_start_below_a_time_loses_its_report_since_boot() {
        let text = format!(
            "zzz ***Sat Nov 21 19:05:00 UTC 2026\n{}zzz ***Sat Nov 21 19:05:30 UTC 2026\n{}",
            start(5),
            start(7)
        );
        let read = read_text(&text);
        assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [5.0, 6.0, 7.0, 8.0]);
        let times_ns = [1, 2, 31, 32].map(|second| 1_795_287_900_000_000_000 + second * 1_000_000_000);
        assert_eq!(read.ticks.iter().map(|t| t.0).collect::<Vec<_>>(), times_ns);
        assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [1_000_000_000; 4]);
        assert!(read.notes.iter().any(|n| n.kind == "warning" && n.text().contains("one second apart")));
        // without the head of each start only this line shows that iostat was restarted
        let read = read_text(&text.replace(HEAD, "\n"));
        assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [5.0, 6.0, 7.0, 8.0]);
    }

    #[test]
    fn one_report_is_refused_without_asking_for_an_interval() {
        for text in [format!("{HEAD}Device tps %util\nsda 5 1\n"), HEAD.to_owned() + &report(1, "Device tps", "sda 5")]
        {
            let error = read_text(&text).summary.unwrap_err().to_string();
            assert!(error.contains("one report") && error.contains("iostat -t -x 10"), "{error}");
            assert!(!error.contains("--interval"), "{error}");
        }
    }

    #[test]
    fn a_blank_line_behind_every_line_does_not_mean_that_the_first_report_was_left_out() {
        let text = HEAD.to_owned() + &(1..4).map(|s| report(s, "Device tps", "sda 5.25")).collect::<String>();
        let read = read_text(&text.replace('\n', "\n\n"));
        assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [5.25; 2]);
    }

    #[test]
    fn a_log_cut_anywhere_yields_all_complete_reports() {
        let full_text = HEAD.to_owned() + &(1..4).map(|s| report(s, "Device tps", "sda 5.25")).collect::<String>();
        for cut in 0..full_text.len() {
            assert!(read_text(&full_text[..cut]).ticks.len() <= 2, "cut at {cut}");
        }
    }
}
