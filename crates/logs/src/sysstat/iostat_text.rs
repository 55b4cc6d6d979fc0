//! Text of iostat: reports one after the other, each with an optional time, a
//! processor block and a table of disks (several with `-h`). The first report
//! after each head covers the time since boot and is left out.

use diskwright_base::Note;

use super::clock::{SysstatClock, ZoneHint};
use super::head_line::HeadLine;
use super::machine::SysstatMachine;
use super::shaper::Shaper;
use super::stream::StreamWindow;
use super::table::{self, HeadingTable, Misfit};
use super::time::{self, NumericDateOrder};
use crate::batch::FrameBatch;
use crate::error::LogError;
use crate::{LogInput, LogOptions};

struct IostatTextLog<'b, 'c> {
    file: String,
    batch: &'c mut FrameBatch<'b>,
    options: &'c LogOptions,
    clock: SysstatClock,
    order: NumericDateOrder,
    head: HeadLine,
    shaper: Shaper,
    table: Option<HeadingTable>,
    /// Headings of this report so far; one that comes again begins another report.
    headings: Vec<String>,
    /// The time printed above this report, UTC.
    printed: Option<i64>,
    /// Times of the report that is read and of the one before.
    before_ns: Option<i64>,
    /// Reports since the head.
    reports: u64,
    /// Values in the row.
    values: u64,
    /// iostat -y leaves out the report since boot, and a blank line behind it.
    is_without_first: bool,
    blanks: u32,
    is_announced: bool,
    line: u64,
}

/// Reads all of an input.
pub fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let head = String::from_utf8_lossy(input.head().bytes).into_owned();
    let first = head.lines().find_map(HeadLine::parse).unwrap_or_default();
    let order = time::order(&head, &first.date);
    let mut stream = StreamWindow::new(input);
    let mut log = IostatTextLog {
        file: stream.name().to_owned(),
        batch,
        options,
        clock: SysstatClock::new(options),
        order,
        head: HeadLine::default(),
        shaper: Shaper::new(),
        table: None,
        headings: Vec::new(),
        printed: None,
        before_ns: None,
        reports: 0,
        values: 0,
        is_without_first: false,
        blanks: 0,
        is_announced: false,
        line: 0,
    };
    let mut wanted = options.host.clone();
    while let Some((bare, whole)) = stream.line()? {
        let text = table::bare(&stream.rest()[..bare]);
        stream.skip(whole);
        log.line += 1;
        log.read_line(&text, &mut wanted)?;
        if log.batch.is_stopped() {
            return Ok(());
        }
    }
    log.end_of_report()
}

impl IostatTextLog<'_, '_> {
    fn read_line(&mut self, text: &str, wanted: &mut Option<String>) -> Result<(), LogError> {
        if let Some(head) = HeadLine::parse(text) {
            self.end_of_report()?;
            self.head = head;
            (self.reports, self.before_ns, self.blanks, self.is_without_first) = (0, None, 0, false);
            return Ok(());
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            self.table = None;
            self.blanks += 1;
            self.is_without_first |= self.blanks == 2 && self.headings.is_empty() && self.reports == 0;
            return Ok(());
        }
        let chosen = wanted.get_or_insert_with(|| self.head.host.clone());
        if !chosen.eq_ignore_ascii_case(&self.head.host) {
            self.batch.skip_host(format!("line {}", self.line), &self.head.host);
            return Ok(());
        }
        if words[0] == "avg-cpu:" {
            return self.heading(&[&["CPU"], &words[1..]].concat());
        }
        if words.iter().any(|w| matches!(*w, "Device" | "Device:")) {
            return self.heading(&words);
        }
        match self.table.take() {
            Some(table) => {
                self.row(&table, text, &words);
                self.table = Some(table);
                Ok(())
            }
            None => self.time(text),
        }
    }

    fn skip(&mut self, because: &str) {
        self.batch.skip(format!("line {}", self.line), because);
    }

    fn time(&mut self, text: &str) -> Result<(), LogError> {
        // `Time: 07:05:46 PM` of old releases has no date of its own
        let text = match text.trim().strip_prefix("Time:") {
            Some(clock) => format!("{} {clock}", self.head.date),
            None => text.to_owned(),
        };
        let Some((local, zone, _)) = time::moment(&text, self.order) else {
            self.skip("neither headings nor a time nor a row under headings");
            return Ok(());
        };
        self.end_of_report()?;
        let zone = zone.map_or(ZoneHint::Nothing, ZoneHint::Offset);
        self.printed = Some(self.clock.utc_ns(local, &zone, self.batch));
        Ok(())
    }

    fn heading(&mut self, words: &[&str]) -> Result<(), LogError> {
        let headings = words.join(" ");
        if self.headings.contains(&headings) {
            self.end_of_report()?;
        }
        self.headings.push(headings);
        self.table = HeadingTable::of(words);
        Ok(())
    }

    fn row(&mut self, table: &HeadingTable, text: &str, words: &[&str]) {
        if self.is_first() {
            // what it says is left out with the report
            self.values += 1;
            return;
        }
        let all = [&["all"], words].concat();
        let (words, is_group) = if table.report == "cpu" { (&all[..], false) } else { (words, text.starts_with(' ')) };
        match table.row(words) {
            Ok((instance, values)) => {
                // groups (iostat -g) are set in by a blank where disks stand first
                let instance = if is_group && words[0] == instance { format!(" {instance}") } else { instance };
                for (name, value) in values {
                    self.values += 1;
                    if let Some(slot) = self.shaper.slot(&table.report, name, &instance) {
                        self.shaper.put(slot, value);
                    }
                }
            }
            Err(misfit) => {
                let said = if misfit == Misfit::Short { "fewer" } else { "more" };
                self.skip(&format!("a row with {said} cells than its table has headings"));
            }
        }
    }

    fn is_first(&self) -> bool {
        self.reports == 0 && !self.is_without_first
    }

    fn end_of_report(&mut self) -> Result<(), LogError> {
        self.table = None;
        self.headings.clear();
        let printed = self.printed.take();
        // headings without a row are a report too: `-z` leaves out idle disks
        if self.values == 0 && printed.is_none() {
            return Ok(());
        }
        let time_ns = match printed {
            Some(printed) => printed,
            None => self.counted_time()?,
        };
        let since = self.before_ns.map(|before| time_ns.saturating_sub(before)).filter(|since| *since > 0);
        self.before_ns = Some(time_ns);
        let is_first = self.is_first();
        self.reports += 1;
        self.values = 0;
        if is_first {
            self.skip("the first report of iostat covers the time since boot");
            return Ok(());
        }
        if !self.is_announced {
            self.is_announced = true;
            self.batch.topology(time_ns, &self.head.machine().topology());
        }
        self.shaper.emit(self.batch, time_ns, since.map(i64::unsigned_abs));
        self.shaper.tidy();
        Ok(())
    }

    /// The time of a report that has none printed.
    fn counted_time(&mut self) -> Result<i64, LogError> {
        let at = format!("line {}", self.line);
        let start = self.head.machine().assumed_start(&self.file, &at, self.options, self.order)?;
        let step = self.options.interval.map_or(0, |i| i64::try_from(i.as_nanos()).unwrap_or(i64::MAX));
        if self.before_ns.is_none() {
            self.batch.note(Note::new(start, Note::WARNING, SysstatMachine::ASSUMED));
        }
        Ok(self.before_ns.map_or(start, |before| before.saturating_add(step)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Read, run, run_with};
    use crate::LogOptions;

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
        assert!(summary.skipped.iter().any(|s| s.at == "group ALL"), "{:?}", summary.skipped);
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
    fn a_log_cut_anywhere_gives_what_was_whole() {
        let whole = HEAD.to_owned() + &(1..4).map(|s| report(s, "Device tps", "sda 5.25")).collect::<String>();
        for cut in 0..whole.len() {
            assert!(run(&whole[..cut]).ticks.len() <= 2, "cut at {cut}");
        }
    }
}
