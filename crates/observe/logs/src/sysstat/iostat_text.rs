//! Text of iostat: reports in succession, each with an optional time, a processor block and a table of disks (with `-x
//! -h` one each for reads, writes, discards and the rest). The first report after each head covers the time since boot
//! and is left out.

use diskwright_base::Note;
use diskwright_base::text::is_same_host;

use super::calendar;
use super::clock::SysstatClock;
use super::head_line::HeadLine;
use super::idle::{self, IdleDevices, TABLES};
use super::machine::{HeadDays, ReportClock, SysstatMachine};
use super::shaper::Shaper;
use super::stream::StreamWindow;
use super::table::{HeadingTable, Misfit, number};
use super::time::{self, NumericDateOrder};
use crate::batch::FrameBatch;
use crate::daylight::DaylightClock;
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
    wanted: Option<String>,
    shaper: Shaper,
    idle: IdleDevices,
    /// Set where the report has a table of disks …
    has_disks: bool,
    /// … and where one of its rows could not be read.
    is_damaged: bool,
    table: Option<HeadingTable>,
    /// Blanks before the headings: sums over groups of disks are indented further.
    indent: usize,
    /// Set where names stand last, one blank behind the numbers.
    is_pretty: bool,
    /// A name alone on its line, whose numbers must follow.
    name: Option<String>,
    /// Set where a blank line stands behind the last row: the table is at its end, unless every other line is blank.
    is_behind_blank: bool,
    /// Headings of this report so far; repeated headings begin another report.
    headings: Vec<String>,
    /// Time printed above this report, UTC.
    printed: Option<i64>,
    /// Days for times without a date.
    days: HeadDays,
    daylight: DaylightClock,
    reports: ReportClock,
    /// Reports since the head.
    count: u64,
    /// Heads so far.
    starts: u64,
    /// Values in the row.
    values: u64,
    /// Set where iostat -y left out the report since boot, and a blank line behind it.
    is_without_first: bool,
    /// Number of blank lines in succession; `None` where every other line of the file is blank.
    blanks: Option<u32>,
    is_announced: bool,
    line: u64,
}

/// Returns true where a head has headings of iostat.
pub fn recognise(head: &InputHead<'_>) -> bool {
    head.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        is_of_processors(&words) || is_of_disks(&words)
    })
}

/// Returns true for the headings above the processors.
fn is_of_processors(words: &[&str]) -> bool {
    words.first() == Some(&"avg-cpu:") && words[1..].iter().all(|word| word.starts_with('%')) && words.len() > 1
}

/// Returns true for the headings above iostat's disks: `Device` stands first, or last with `-h`.
fn is_of_disks(words: &[&str]) -> bool {
    let is_device = |word: Option<&&str>| word.is_some_and(|w| matches!(*w, "Device" | "Device:"));
    let has_device = is_device(words.first()) || is_device(words.last());
    has_device && words.iter().any(|w| matches!(*w, "tps" | "r/s" | "w/s" | "d/s" | "%util"))
}

/// Reads all of an input.
pub fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let head = input.head().lines().fold(String::new(), |all, line| all + &line + "\n");
    let first = head.lines().find_map(HeadLine::parse).unwrap_or_default();
    let order = time::order(&head, &first.date);
    let blanks = if is_doubled(&head) { None } else { Some(0) };
    let mut stream = StreamWindow::new(input);
    let mut log = IostatTextLog {
        file: stream.name().to_owned(),
        batch,
        options,
        clock: SysstatClock::new(options),
        order,
        head: HeadLine::default(),
        wanted: options.host.clone(),
        shaper: Shaper::new(),
        idle: IdleDevices::default(),
        has_disks: false,
        is_damaged: false,
        table: None,
        indent: 0,
        is_pretty: false,
        name: None,
        is_behind_blank: false,
        headings: Vec::new(),
        printed: None,
        days: HeadDays::default(),
        daylight: DaylightClock::default(),
        reports: ReportClock::default(),
        count: 0,
        starts: 0,
        values: 0,
        is_without_first: false,
        blanks,
        is_announced: false,
        line: 0,
    };
    while let Some(text) = stream.text_line(log.batch, &mut log.line)? {
        log.read_line(&text)?;
    }
    if log.batch.is_stopped() {
        return Ok(());
    }
    // the last report may be incomplete
    log.is_damaged = true;
    log.end_of_report()?;
    log.end()
}

/// Returns true where a blank line stands behind headings, which iostat never prints: the file was copied badly.
fn is_doubled(head: &str) -> bool {
    let mut lines = head.lines().skip_while(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        !is_of_processors(&words) && !is_of_disks(&words)
    });
    lines.nth(1).is_some_and(|line| line.trim().is_empty())
}

fn indent(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

impl IostatTextLog<'_, '_> {
    fn read_line(&mut self, text: &str) -> Result<(), LogError> {
        if let Some(head) = HeadLine::parse(text) {
            self.end_of_report()?;
            (self.head, self.days) = (head, HeadDays::default());
            self.begin();
            return Ok(());
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            self.is_behind_blank = true;
            if let Some(blanks) = &mut self.blanks {
                *blanks += 1;
                self.is_without_first |= *blanks == 2 && self.headings.is_empty() && self.count == 0;
            }
            return Ok(());
        }
        self.blanks = self.blanks.map(|_| 0);
        let is_blank_before = std::mem::take(&mut self.is_behind_blank);
        let is_of_processors = is_of_processors(&words);
        if is_of_processors || is_of_disks(&words) {
            if !self.is_of_host() {
                return Ok(());
            }
            self.indent = indent(text);
            self.is_pretty = text.trim_end().strip_suffix(" Device").is_some_and(|rest| !rest.ends_with(' '));
            return if is_of_processors {
                self.heading(&[&["CPU"], &words[1..]].concat())
            } else {
                self.heading(&words)?;
                self.has_disks = true;
                Ok(())
            };
        }
        if let Some(table) = self.table.take() {
            let is_row = self.row_or_name(&table, text, &words, is_blank_before);
            // a blank line ends the rows, unless there is one between all lines
            self.table = (is_row || !is_blank_before).then_some(table);
            if is_row {
                return Ok(());
            }
        }
        self.time(text)
    }

    /// Returns true where the current machine is the one that is read; otherwise reports it.
    fn is_of_host(&mut self) -> bool {
        if self.head.host.is_empty() {
            return true;
        }
        let chosen = self.wanted.get_or_insert_with(|| self.head.host.clone());
        let is_chosen = is_same_host(chosen, &self.head.host);
        if !is_chosen {
            self.table = None;
            self.batch.skip_host(format!("line {}", self.line), &self.head.host);
        }
        is_chosen
    }

    /// Begins a start of iostat.
    fn begin(&mut self) {
        (self.count, self.is_without_first, self.table) = (0, false, None);
        self.blanks = self.blanks.map(|_| 0);
        self.reports.begin();
        self.idle.begin();
        self.starts += 1;
        if let Some(printed) = self.printed.take() {
            self.reports.printed(printed);
        }
    }

    fn skip(&mut self, because: &str) {
        self.batch.skip(format!("line {}", self.line), because);
    }

    fn time(&mut self, text: &str) -> Result<(), LogError> {
        // `Time: 07:05:46 PM` of old releases has no date of its own
        let clock = text.trim().strip_prefix("Time:").filter(|clock| clock.split_whitespace().count() < 3);
        let text = clock.map_or_else(|| text.to_owned(), |clock| format!("{} {clock}", self.head.date));
        let Some(printed) = calendar::moment(&text, self.order) else {
            self.skip("neither headings nor a time nor a row under headings");
            return Ok(());
        };
        self.end_of_report()?;
        let local = if clock.is_some() { self.days.after(printed.local) } else { printed.local };
        let mut time_ns = self.clock.utc_ns(local, &printed.zone, self.batch);
        if self.clock.is_one_zone(&printed.zone) {
            time_ns = self.daylight.place(time_ns, local.saturating_mul(1_000_000_000), self.batch);
        }
        self.printed = Some(time_ns);
        // OSWatcher writes this line each time it starts a tool
        if text.trim_start().starts_with("zzz") {
            self.begin();
        }
        Ok(())
    }

    fn heading(&mut self, words: &[&str]) -> Result<(), LogError> {
        self.drop_name();
        let headings = words.join(" ");
        if self.headings.contains(&headings) {
            self.end_of_report()?;
        }
        self.headings.push(headings);
        self.table = HeadingTable::of(words);
        Ok(())
    }

    /// Reads a row, which `iostat -h` of older releases breaks behind the disk's name.
    fn row_or_name(&mut self, table: &HeadingTable, text: &str, words: &[&str], is_behind_blank: bool) -> bool {
        let are_numbers = words.iter().all(|word| number(word, 1.0).is_some());
        let is_rest = are_numbers && !is_behind_blank && words.len() + 1 == table.columns();
        if let Some(name) = self.name.take_if(|_| is_rest) {
            let joined = format!("{name} {text}");
            return self.row(table, &joined, &joined.split_whitespace().collect::<Vec<_>>(), false);
        }
        self.drop_name();
        let is_alone = words.len() == 1 && table.columns() > 2 && table.report != "cpu";
        let is_name = is_alone && !are_numbers && !is_behind_blank && !self.is_pretty;
        if is_name && calendar::moment(text, self.order).is_none() {
            self.name = Some(text.to_owned());
            return true;
        }
        self.row(table, text, words, is_behind_blank)
    }

    /// Reports a name without numbers behind it as a row that was cut.
    fn drop_name(&mut self) {
        if self.name.take().is_some() {
            self.is_damaged = true;
            self.skip("a row with fewer cells than its table has headings");
        }
    }

    /// Returns true for sums over groups of disks (iostat -g), which have a blank before their names, wherever these
    /// stand.
    fn is_group(&self, text: &str, words: &[&str], instance: &str) -> bool {
        if self.is_pretty {
            return text.trim_end().strip_suffix(instance).is_some_and(|numbers| numbers.ends_with("  "));
        }
        words[0] == instance && indent(text) > self.indent
    }

    /// Reads a row; returns false where the line does not belong to this table.
    fn row(&mut self, table: &HeadingTable, text: &str, words: &[&str], is_behind_blank: bool) -> bool {
        let all = [&["all"], words].concat();
        let words = if table.report == "cpu" { &all[..] } else { words };
        // otherwise the words of a time would count as a name with blanks, and its year as a number
        let is_long = words.len() > table.columns();
        if is_long && (is_behind_blank || calendar::moment(text, self.order).is_some()) {
            return false;
        }
        match table.row(words) {
            // its values are left out with the report
            Ok(_) if self.is_first() => self.values += 1,
            Ok((instance, values)) => {
                let is_group = table.report != "cpu" && self.is_group(text, words, &instance);
                let instance = if is_group { format!(" {instance}") } else { instance };
                for (name, value) in values {
                    self.values += 1;
                    if let Some(slot) = self.shaper.slot(&table.report, name, &instance) {
                        self.shaper.put(slot, value);
                    }
                }
            }
            Err(Misfit::Words) => return false,
            Err(_) if is_behind_blank || calendar::moment(text, self.order).is_some() => return false,
            Err(misfit) => {
                let comparison = if misfit == Misfit::Short { "fewer" } else { "more" };
                self.is_damaged = true;
                self.skip(&format!("a row with {comparison} cells than its table has headings"));
            }
        }
        true
    }

    fn is_first(&self) -> bool {
        self.count == 0 && !self.is_without_first
    }

    fn end_of_report(&mut self) -> Result<(), LogError> {
        self.table = None;
        self.drop_name();
        // headings without rows are a report too: `-z` leaves out idle disks
        let is_empty = self.values == 0 && (self.headings.is_empty() || self.printed.is_none());
        let is_complete = self.has_disks && !self.is_damaged;
        (self.has_disks, self.is_damaged) = (false, false);
        self.headings.clear();
        if is_empty {
            return Ok(());
        }
        let printed = self.printed.take();
        let is_first = self.is_first();
        self.count += 1;
        self.values = 0;
        if is_first {
            self.reports.pass(printed, self.options.interval);
            self.skip("the first report of iostat covers the time since boot");
            return Ok(());
        }
        let midnight_ns = self.head.machine().midnight_ns(self.order);
        let context = format!("line {}", self.line);
        let Some((time_ns, since)) = self.reports.next(printed, self.options.interval, midnight_ns) else {
            return Err(SysstatMachine::needs_interval(&self.file, &context));
        };
        if let Some(warning) = self.reports.take_warning() {
            if warning == SysstatMachine::ASSUMED {
                self.batch.times_are(TimeBasis::Counted);
            }
            if self.head.date.is_empty() && warning == SysstatMachine::ASSUMED {
                self.skip(SysstatMachine::NO_DATE);
            }
            self.batch.note(Note::new(time_ns, Note::WARNING, warning));
        }
        if !self.is_announced {
            self.is_announced = true;
            // times above reports have a date of their own
            let guess = SysstatMachine::date_guess(&self.head.date, self.order).filter(|_| printed.is_none());
            if let Some(text) = guess {
                self.batch.note(Note::new(time_ns, Note::WARNING, text));
            }
            self.batch.topology(time_ns, &self.head.machine().topology());
        }
        if self.idle.fill(&mut self.shaper, [is_complete; TABLES]) {
            self.batch.note(Note::new(time_ns, Note::WARNING, idle::TOLD));
        }
        self.shaper.emit(self.batch, time_ns, since);
        self.shaper.tidy();
        Ok(())
    }

    /// Returns an error with advice where each start printed only one report.
    fn end(&mut self) -> Result<(), LogError> {
        if self.batch.has_ticks() || self.batch.is_stopped() || self.count != 1 || self.is_without_first {
            return Ok(());
        }
        let record = "S_TIME_FORMAT=ISO iostat -t -x 10 > FILE";
        let because = SysstatMachine::since_boot(self.starts.max(1), "report", record);
        Err(LogError::Empty { file: self.file.clone(), because })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Read, run, run_with};
    use crate::LogOptions;

    mod layouts;

    const HEAD: &str = "Linux 6.1.0 (db1) \t2026-11-21 \t_x86_64_\t(4 CPU)\n\n";

    fn report(second: u32, headings: &str, row: &str) -> String {
        format!(
            "2026-11-21T19:05:{second:02}+0000\navg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           \
             50.00 0.00 1.00 2.00 0.00 47.00\n\n{headings}\n{row}\n\n\n"
        )
    }

    fn log(headings: &str, row: &str) -> Read {
        let reports: String = (1..4).map(|second| report(second, headings, row)).collect();
        run(&(HEAD.to_owned() + &reports))
    }

    #[test]
    fn every_generation_of_columns() {
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
                let found = read.column(&format!("physical_disk.{counter}"), "sda");
                assert_eq!(found, [value; 2], "{counter} of {headings}");
            }
            assert_eq!(read.column("processor.privileged", "_total"), [0.01; 2]);
            assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [1_000_000_000; 2]);
            let skipped = read.summary.unwrap().skipped;
            assert!(skipped.len() == 1 && skipped[0].because.contains("since boot"), "{skipped:?}");
        }
    }

    #[test]
    fn an_option_that_left_the_first_report_out_is_seen() {
        let text = format!("{HEAD}\n{}", report(1, "Device tps", "sda 5"));
        assert_eq!(run(&text).column("physical_disk.transfers_per_s", "sda"), [5.0]);
    }

    #[test]
    fn reports_without_times_are_counted() {
        let report = "avg-cpu:  %user %idle\n 50.00 50.00\n\nDevice tps\nsda 5.0\n ALL 9.0\n\n\n";
        let text = HEAD.to_owned() + &report.repeat(4);
        let error = run(&text).summary.unwrap_err().to_string();
        assert!(error.contains("--interval"), "{error}");
        let options = LogOptions { interval: Some(Duration::from_secs(5)), ..LogOptions::default() };
        let read = run_with(text.as_bytes(), &options);
        assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [5_000_000_000; 3]);
        assert!(read.notes.iter().any(|n| n.kind == "warning" && n.text.contains("counted from midnight")));
        assert_eq!(read.column("physical_disk.transfers_per_s", "sda"), [5.0; 3]);
        let summary = read.summary.unwrap();
        assert_eq!(summary.series, 3);
        assert!(summary.skipped.iter().any(|s| s.context == "group ALL"), "{:?}", summary.skipped);
    }

    #[test]
    fn columns_that_change_and_broken_rows() {
        let text = HEAD.to_owned()
            + &report(1, "Device tps", "sda 5")
            + &report(2, "Device tps", "sda 5 6 7 8")
            + &report(3, "Device tps %util", "sda 6")
            + &report(4, "Device %util tps", "sda 50 7")
            + &report(3, "Device %util tps", "sda 50 8")
            + "rubbish\n";
        let read = run(&text);
        let tps = read.column("physical_disk.transfers_per_s", "sda");
        assert!(tps[0].is_nan() && tps[1].is_nan() && tps[2..] == [7.0], "{tps:?}");
        let skipped = read.summary.unwrap().skipped;
        for because in ["fewer cells", "time goes back", "neither headings"] {
            assert!(skipped.iter().any(|s| s.because.contains(because)), "{because}: {skipped:?}");
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
        let read = run(&text);
        let column = |counter: &str, disk: &str| read.column(&format!("physical_disk.{counter}"), disk);
        assert_eq!(column("reads_per_s", "sda")[..3], [10.0, 12.0, 0.0]);
        assert_eq!(column("reads_per_s", "sdb")[..3], [5.0, 0.0, 6.0]);
        assert_eq!((column("busy", "sdb")[1], column("avg_queue_length", "sda")[2]), (0.0, 0.0));
        // an average over nothing is not 0, nor is what a broken row or the cut end may have had
        assert!(column("avg_s_per_read", "sdb")[1].is_nan());
        assert!(column("reads_per_s", "sdb")[3].is_nan() && column("reads_per_s", "sdb")[4].is_nan());
        assert_eq!(read.notes.iter().filter(|n| n.text.contains("taken as idle")).count(), 1);
        // another start may have other disks
        let again = text + HEAD + &report(10, HEADINGS, "sda 1 1 1 1 1") + &report(11, HEADINGS, "sda 9 36 3 1 5");
        let read = run(&(again + &report(12, HEADINGS, "sda 9 36 3 1 5")));
        assert!(read.column("physical_disk.reads_per_s", "sdb").last().is_some_and(|v| v.is_nan()));
    }

    /// Three reports without times, as iostat prints them when it is started once.
    fn start(tps: u32) -> String {
        let report = |tps| format!("Device tps %util\nsda {tps}.0 1.0\n\n");
        format!("{HEAD}{}{}{}", report(999), report(tps), report(tps + 1))
    }

    #[test]
    fn lines_of_other_programs_are_counted_and_cost_nothing() {
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
        let read = run(&text);
        assert_eq!(read.column("physical_disk.transfers_per_s", "sda"), [5.0, 7.0]);
        assert_eq!(read.column("physical_disk.transfers_per_s", "sdb")[0], 6.0);
        let summary = read.summary.unwrap();
        assert_eq!(summary.host, "db1");
        let other = summary.skipped.iter().find(|s| s.because.contains("neither headings")).unwrap();
        assert_eq!((other.context.as_str(), other.times), ("line 1", 5));
    }

    #[test]
    fn each_start_below_a_time_loses_its_report_since_boot() {
        let text = format!(
            "zzz ***Sat Nov 21 19:05:00 UTC 2026\n{}zzz ***Sat Nov 21 19:05:30 UTC 2026\n{}",
            start(5),
            start(7)
        );
        let read = run(&text);
        assert_eq!(read.column("physical_disk.transfers_per_s", "sda"), [5.0, 6.0, 7.0, 8.0]);
        let at = |second: i64| 1_795_287_900_000_000_000 + second * 1_000_000_000;
        assert_eq!(read.ticks.iter().map(|t| t.0).collect::<Vec<_>>(), [at(1), at(2), at(31), at(32)]);
        assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [1_000_000_000; 4]);
        assert!(read.notes.iter().any(|n| n.kind == "warning" && n.text.contains("one second apart")));
        // without the head of each start only this line shows that iostat was restarted
        let read = run(&text.replace(HEAD, "\n"));
        assert_eq!(read.column("physical_disk.transfers_per_s", "sda"), [5.0, 6.0, 7.0, 8.0]);
    }

    #[test]
    fn one_report_is_refused_without_asking_for_an_interval() {
        for text in [format!("{HEAD}Device tps %util\nsda 5 1\n"), HEAD.to_owned() + &report(1, "Device tps", "sda 5")]
        {
            let error = run(&text).summary.unwrap_err().to_string();
            assert!(error.contains("one report") && error.contains("iostat -t -x 10"), "{error}");
            assert!(!error.contains("--interval"), "{error}");
        }
    }

    #[test]
    fn a_blank_line_behind_every_line_does_not_mean_that_the_first_report_was_left_out() {
        let text = HEAD.to_owned() + &(1..4).map(|s| report(s, "Device tps", "sda 5.25")).collect::<String>();
        let read = run(&text.replace('\n', "\n\n"));
        assert_eq!(read.column("physical_disk.transfers_per_s", "sda"), [5.25; 2]);
    }

    #[test]
    fn a_log_cut_anywhere_gives_what_was_whole() {
        let whole = HEAD.to_owned() + &(1..4).map(|s| report(s, "Device tps", "sda 5.25")).collect::<String>();
        for cut in 0..whole.len() {
            assert!(run(&whole[..cut]).ticks.len() <= 2, "cut at {cut}");
        }
    }
}
