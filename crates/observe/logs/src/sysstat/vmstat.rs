//! Text of vmstat, in any language of procps, and of AIX, Solaris, HP-UX and the BSDs. The first row after each start
//! covers the time since boot, unless it is like the second; `-t` puts the time at the end of each row, and collectors
//! put one in front of it or on a line of its own.

use diskwright_base::Note;

use super::calendar;
use super::clock::{SysstatClock, ZoneHint};
use super::heading_table::parse_cell;
use super::impossible_clock;
use super::machine::ReportClock;
use super::report_row::ReportRow;
use super::stream_window::StreamWindow;
use super::time::{self, DAY_S, NumericDateOrder};
use super::vmstat_headings::{self, VmstatHeadings};
use crate::batch::FrameBatch;
use crate::daylight_clock::DaylightClock;
use crate::error::LogError;
use crate::first_report::{self, HeldReport};
use crate::time_basis::NO_DATE_NOTE;
use crate::{InputHead, LogInput, LogOptions};

/// Smallest lack of the shares, percent, that is no rounding.
const MIN_UNSHOWN_STEAL: f64 = 4.0;

/// Returns true if a head has headings of vmstat, or consists of its rows.
pub fn is_vmstat_text(head: &InputHead<'_>) -> bool {
    let (mut is_titled, mut row_count, mut other_count) = (false, 0, 0);
    let has_headings = head.text_lines().any(|line| {
        let is_heading = VmstatHeadings::parse(&line, is_titled).is_some();
        is_titled = vmstat_headings::is_title(&line);
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_row = VmstatHeadings::guess_from_row(&words).is_some();
        row_count += usize::from(is_row);
        other_count += usize::from(!is_row && !words.is_empty());
        is_heading
    });
    has_headings || row_count > other_count
}

struct VmstatLog<'b, 'c> {
    batch: &'c mut FrameBatch<'b>,
    options: &'c LogOptions,
    clock: SysstatClock,
    daylight: DaylightClock,
    row: ReportRow,
    headings: Option<VmstatHeadings>,
    is_titled: bool,
    /// Set if a foreign line came last: headings that follow belong to another start.
    is_interrupted: bool,
    reports: ReportClock,
    /// Set if rows have their times.
    has_times: bool,
    /// Rows since vmstat was started.
    row_count: u64,
    /// First row of this start, until the second shows whether it is since boot.
    held: Option<HeldReport>,
    line_number: u64,
    /// Time of the row that is being read, if it has a time of day alone, and the seconds of the days so far.
    day_clock_s: Option<i64>,
    last_day_clock_s: Option<i64>,
    day_s: i64,
}

/// Parses a word that is a time of day, `21:05:09`, as seconds of the day.
fn parse_clock(word: &str) -> Option<i64> {
    time::parse_time_of_day(&[word]).map(|(seconds, _)| seconds).filter(|_| word.contains(':'))
}

/// Reads all of an input.
pub fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let mut stream = StreamWindow::new(input);
    let mut log = VmstatLog {
        batch,
        options,
        clock: SysstatClock::new(options),
        daylight: DaylightClock::default(),
        row: ReportRow::new(),
        headings: None,
        is_titled: false,
        is_interrupted: true,
        reports: ReportClock::default(),
        has_times: false,
        row_count: 0,
        held: None,
        line_number: 0,
        day_clock_s: None,
        last_day_clock_s: None,
        day_s: 0,
    };
    while let Some(text) = stream.next_text_line(log.batch, &mut log.line_number)? {
        log.read_line(&text);
    }
    if log.batch.is_stopped() {
        return Ok(());
    }
    log.finish_log();
    Ok(())
}

impl VmstatLog<'_, '_> {
    fn read_line(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        if vmstat_headings::is_title(text) {
            self.is_titled = true;
            self.begin_start();
            return;
        }
        if let Some(headings) = VmstatHeadings::parse(text, std::mem::take(&mut self.is_titled)) {
            self.begin_start();
            self.headings = Some(headings);
            return;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        if self.headings.is_none() {
            // the part of the text with the headings was not copied
            self.headings = VmstatHeadings::guess_from_row(&words);
        }
        if let Some((first, zone)) = self.headings.as_ref().and_then(|headings| headings.fit_row(&words)) {
            return self.read_row(&words, first, zone);
        }
        // `--time-- procs …`: a script put the time of day before each row
        if let Some((second, rest)) = words.split_first().and_then(|(word, rest)| Some((parse_clock(word)?, rest)))
            && let Some((0, zone)) = self.headings.as_ref().and_then(|headings| headings.fit_row(rest))
        {
            self.set_day_clock(second);
            return self.read_row(&words, 1, zone);
        }
        match calendar::parse_moment(text, NumericDateOrder::MonthFirst) {
            Some(printed) => {
                let mut time_ns = self.clock.utc_ns(printed.local_s, &printed.zone, self.batch);
                if !self.has_times && self.clock.is_one_zone(&printed.zone) {
                    let local_ns = printed.local_s.saturating_mul(1_000_000_000);
                    time_ns = self.daylight.resolve_time(time_ns, local_ns, self.batch);
                }
                self.reports.set_printed_time(time_ns);
            }
            None => {
                let because = impossible_clock::skip_reason(text, "not a row of vmstat under its headings");
                self.batch.add_skip(format!("line {}", self.line_number), because);
            }
        }
        self.is_interrupted = true;
    }

    /// Keeps the time of day of a row, which has no date: days are counted from 1970.
    fn set_day_clock(&mut self, second: i64) {
        match self.last_day_clock_s {
            None => self.batch.push_note(Note::new(second.saturating_mul(1_000_000_000), Note::WARNING, NO_DATE_NOTE)),
            // a clock that goes back by half a day has passed midnight
            Some(last) if second + DAY_S / 2 < last.rem_euclid(DAY_S) => self.day_s += DAY_S,
            Some(_) => {}
        }
        self.last_day_clock_s = Some(second);
        self.day_clock_s = Some(self.day_s + second);
    }

    /// Begins another start at headings, unless they are only repeated after a screen of rows.
    fn begin_start(&mut self) {
        if std::mem::take(&mut self.is_interrupted) {
            self.row_count = 0;
            self.reports.begin_start();
        }
    }

    /// Reads a row whose numbers begin at the word with index `first`.
    fn read_row(&mut self, words: &[&str], first: usize, zone: ZoneHint) {
        let Some(headings) = &self.headings else { return };
        let numbers = &words[first..first + headings.column_count().min(words.len() - first)];
        let time_text = [&words[..first], &words[first + numbers.len()..]].concat().join(" ");
        let printed = calendar::parse_moment(&time_text, NumericDateOrder::MonthFirst).or_else(|| {
            let local_s = self.day_clock_s.take()?;
            Some(calendar::CalendarTime { local_s, zone: ZoneHint::Missing, is_guess: false })
        });
        let has_time = printed.is_some();
        if !has_time && impossible_clock::has_impossible_year(&time_text) {
            self.batch.add_skip(format!("line {}", self.line_number), crate::skips::UNUSABLE_CLOCK);
        }
        let context = format!("line {}", self.line_number);
        if self.has_times && !has_time {
            return self.batch.add_skip(context, "a row without a time, unlike the others");
        }
        self.has_times |= has_time;
        self.row_count += 1;
        self.is_interrupted = false;
        let printed_ns = printed.map(|found| {
            if found.zone != ZoneHint::Missing {
                return self.clock.utc_ns(found.local_s, &found.zone, self.batch);
            }
            // the zone in the headings is the one that held when they were printed
            let time_ns = self.clock.utc_ns(found.local_s, &zone, self.batch);
            if matches!(&zone, ZoneHint::Name(name) if name == "UTC") {
                return time_ns;
            }
            self.daylight.resolve_time(time_ns, found.local_s.saturating_mul(1_000_000_000), self.batch)
        });
        for (name, word) in headings.names().iter().zip(numbers) {
            let value = parse_cell(word, headings.unit_bytes(name));
            if let (Some(value), Some(slot)) = (value, self.row.value_slot(headings.report(), name, "")) {
                self.row.put_value(slot, value);
            }
        }
        self.put_unshown_steal();
        if self.row_count > 1 || self.options.is_first_report_kept {
            self.settle_held_row(printed_ns);
            return self.emit_row(printed_ns);
        }
        let values = self.row.take_values();
        if let Some(held) = self.held.take() {
            self.drop_row(&held);
        }
        let printed_ns = printed_ns.or_else(|| self.reports.take_printed_time());
        self.held = Some(HeldReport { values, printed_ns, context });
    }

    /// Puts the time that a hypervisor took, which vmstat did not show before 3.2.7: the shares lack it.
    fn put_unshown_steal(&mut self) {
        const SHARES: [&str; 4] = ["us", "sy", "id", "wa"];
        let Some(headings) = &self.headings else { return };
        let has = |name: &str| headings.names().iter().any(|known| known == name);
        if headings.report() != "vmstat" || has("st") || !SHARES.into_iter().all(has) {
            return;
        }
        let mut shown = 0.0;
        for name in SHARES {
            let slot = self.row.value_slot("vmstat", name, "");
            shown += slot.map_or(f64::NAN, |slot| self.row.cells[slot.column as usize] / slot.factor);
        }
        if (0.0..=100.0 - MIN_UNSHOWN_STEAL).contains(&shown)
            && let Some(slot) = self.row.value_slot("vmstat", "st", "")
        {
            self.row.put_value(slot, 100.0 - shown);
        }
    }

    /// Keeps or drops the first row of this start, now that the second is in the row.
    fn settle_held_row(&mut self, printed_ns: Option<i64>) {
        let Some(held) = self.held.take() else { return };
        let has_times = held.printed_ns.or(printed_ns).is_some() || self.reports.has_printed_time();
        if has_times || !first_report::is_like_next(self.row.series(), &held.values, &self.row.cells) {
            return self.drop_row(&held);
        }
        let second = self.row.replace_values(&held.values);
        self.emit_row(None);
        self.row.replace_values(&second);
    }

    fn drop_row(&mut self, held: &HeldReport) {
        self.reports.skip_report(held.printed_ns, self.options.interval);
        self.batch.add_skip(held.context.as_str(), "the first row of vmstat covers the time since boot");
    }

    fn emit_row(&mut self, printed_ns: Option<i64>) {
        let (time_ns, since) = self.reports.next(printed_ns, self.options.interval, 0);
        if let Some(assumed) = self.reports.take_warning() {
            assumed.note_assumption(self.batch, time_ns);
        }
        self.row.emit_tick(self.batch, time_ns, since);
    }

    fn finish_log(&mut self) {
        let Some(held) = self.held.take() else { return };
        if self.batch.has_ticks() {
            return self.drop_row(&held);
        }
        self.row.replace_values(&held.values);
        let remark_ns = held.printed_ns.unwrap_or(0);
        first_report::remark_single_report(self.batch, &held.context, remark_ns);
        self.emit_row(held.printed_ns);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{read_bytes, read_text};
    use crate::LogOptions;

    const HEAD: &str =
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----\n";

    #[test]
    fn rows_with_times() {
        let text = format!(
            "{HEAD} r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st  UTC\n \
             2  0 0 16 32 77 11 108 45 48 873 2731 41 9 38 12 0 2026-11-22 02:03:53\n \
             1  3 0 16 32 77 4 8 1 2 60 95 20 10 60 9 1 2026-11-22 02:03:55\n"
        );
        let read = read_text(&text);
        assert_eq!(read.ticks, [(1_795_313_035_000_000_000, 2_000_000_000)]);
        for (counter, instance, value) in [
            ("system.blocked", "", 3.0),
            ("paging.swap_in_pages_per_s", "", 1.0),
            ("processor.idle", "_total", 0.6),
            ("memory.free_bytes", "", 16_384.0),
        ] {
            assert_eq!(read.series_values(counter, instance), [value], "{counter}");
        }
        assert!(read.notes.iter().all(|n| n.kind != "warning"), "{:?}", read.notes);
    }

    #[test]
    fn a_change_to_or_from_summer_time_is_no_gap_and_loses_nothing() {
        for (zone, day, clocks) in [
            ("CEST", "2026-10-25", ["02:59:45", "02:59:50", "02:59:55", "02:00:00", "02:00:05"]),
            ("CET", "2026-03-29", ["01:59:45", "01:59:50", "01:59:55", "03:00:00", "03:00:05"]),
        ] {
            let heading = format!("{HEAD} r b swpd free buff cache si so bi bo in cs us sy id wa st");
            let row = |clock: &&str| format!(" 2 0 0 16 32 77 11 108 45 48 873 2731 41 9 38 12 0 {day} {clock}\n");
            let rows: Vec<String> = clocks.iter().map(row).collect();
            let lengths =
                |text: &str| read_text(text).ticks.iter().map(|(_, ns)| ns / 1_000_000_000).collect::<Vec<u64>>();
            assert_eq!(lengths(&format!("{heading} {zone}\n{}", rows.concat())), [5; 4], "{day}");
            // repeated headings give the new zone
            let new = if zone == "CET" { "CEST" } else { "CET" };
            let both = format!("{heading} {zone}\n{}{heading} {new}\n{}", rows[..4].concat(), rows[4]);
            assert_eq!(lengths(&both), [5; 4], "{day}");
        }
    }

    #[test]
    fn a_time_of_day_before_each_row_needs_no_heading() {
        let names = " r b swpd free buff cache si so bi bo in cs us sy id wa st";
        let row = |clock: &str| format!("{clock} 2 0 0 16 32 77 11 108 45 48 873 2731 41 9 38 12 0\n");
        let clocks = ["23:59:40", "23:59:50", "00:00:00", "00:00:10"];
        let text = format!("--time-- {HEAD}        {names}\n{}", clocks.map(row).concat());
        let read = read_text(&text);
        assert_eq!(read.ticks[1..].iter().map(|(_, ns)| ns / 1_000_000_000).collect::<Vec<u64>>(), [10, 10]);
        assert_eq!(read.ticks.last().unwrap().0, (86_400 + 10) * 1_000_000_000);
        assert!(read.notes.iter().any(|note| note.text() == crate::time_basis::NO_DATE_NOTE), "{:?}", read.notes);
    }

    #[test]
    fn rows_without_times_are_counted() {
        let text = "procs memory\n r b swpd free\n 1 0 0 5\n 1 0 0 6\nrubbish\n 1 0\n 1 0 0 7\n";
        let read = read_text(text);
        assert_eq!(read.ticks, [(1_000_000_000, 1_000_000_000), (2_000_000_000, 1_000_000_000)]);
        assert_eq!(read.summary.unwrap().time_basis, crate::TimeBasis::Reports);
        let options = LogOptions { interval: Some(Duration::from_secs(2)), ..LogOptions::default() };
        let read = read_bytes(text.as_bytes(), &options);
        assert_eq!(read.series_values("memory.free_bytes", ""), [6144.0, 7168.0]);
        assert!(read.summary.unwrap().skipped.iter().any(|s| s.context == "line 5" && s.count == 2));
    }

    #[test]
    fn a_first_row_counts_if_it_is_like_the_second_or_alone_or_known_to_be_one() {
        let names = "procs memory\n r b swpd free buff cache si so bi bo in cs us sy id wa\n";
        let boot = " 0 0 0 1 2 3 0 0 11 19 27 40 1 0 98 1\n";
        let row = " 1 4 0 5 2 3 0 0 900 3100 1400 2600 6 4 20 70\n";
        let next = " 0 5 0 6 2 3 0 0 700 2600 1300 2400 5 5 18 72\n";
        for (rows, wanted) in [
            ([boot, row, next].concat(), &[5.0, 6.0][..]),
            ([row, next].concat(), &[5.0, 6.0]),
            (boot.to_owned(), &[1.0]),
            // pasted from the middle
            (row.to_owned(), &[5.0]),
        ] {
            assert_eq!(free(&read_text(&(names.to_owned() + &rows))), wanted, "{rows}");
        }
        let options = LogOptions { is_first_report_kept: true, ..LogOptions::default() };
        let text = [names, boot, row].concat();
        assert_eq!(free(&read_bytes(text.as_bytes(), &options)), [1.0, 5.0]);
        // with times it is a recording, and its first row is since boot
        let timed = |row: &str, second: u32| format!("{} 2026-11-22 02:03:{second}\n", row.trim_end());
        assert_eq!(free(&read_text(&(names.to_owned() + &timed(row, 10) + &timed(next, 11)))), [6.0]);
    }

    #[test]
    fn rows_without_headings_are_recognized_by_their_sum() {
        let row = |free: u32| format!(" 0 6 1200 {free} 431 20714 0 4 2600 5100 1340 640 0 5 0 95\n");
        assert_eq!(free(&read_text(&[row(1), row(2)].concat())), [1.0, 2.0]);
        let text =
            [row(1), row(2), "procs memory\n r b swpd free buff cache si so bi bo in cs us sy id wa\n".into(), row(3)];
        assert_eq!(free(&read_text(&text.concat())), [1.0, 2.0, 3.0]);
        assert!(read_text(" 0 6 1200 77 431 20714 0 4 2600 5100 1340 640 0 5 0 9\n").summary.is_err());
    }

    /// procps before 3.2.7 has no column for it.
    #[test]
    fn what_shares_lack_without_a_column_of_steal_is_steal() {
        let names = "procs memory\n r b swpd free buff cache si so bi bo in cs us sy id wa";
        let row = " 3 0 0 5 2 3 0 0 9 31 140 260 5 4 0 1";
        let read = read_text(&format!("{names}\n{row}\n{row}\n"));
        assert_eq!(read.series_values("processor.steal", "_total"), [0.9; 2]);
        let read = read_text(&format!("{names} st\n{row} 90\n{row} 90\n"));
        assert_eq!(read.series_values("processor.steal", "_total"), [0.9; 2]);
    }

    /// Each system's page, unit and queue are its own.
    #[test]
    fn reads_rows_of_other_systems() {
        let log = |text: &str| {
            let options = LogOptions { interval: Some(Duration::from_secs(5)), ..LogOptions::default() };
            read_bytes(text.as_bytes(), &options)
        };
        let aix = log("System configuration: lcpu=8 mem=16384MB\n\n\
             kthr    memory              page              faults        cpu\n\
             ----- ----------- ------------------------ ------------ -----------\n \
             r  b   avm   fre  re  pi  po  fr   sr  cy  in   sy  cs us sy id wa\n \
             9  9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9\n\
             \x202  1 150000 2000   0   3   4  50  100   0 300 5000 700 20 10 60 10\n");
        let sun = log(" kthr      memory            page            disk          faults      cpu\n \
             r b w   swap  free  re  mf pi po fr de sr s0 s1   in   sy   cs us sy id\n \
             0 0 0 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9\n 3 2 0 4000 1000 1 2 8 16 0 0 70 5 6 300 5000 700 20 10 70\n");
        let bsd = log("procs     memory       page                    disks     faults       cpu\n\
             r  b  w  avm   fre   flt  re  pi  po    fr   sr ada0 pass0   in    sy    cs us sy id\n\
             0 0 0 9M 9M 9 9 9 9 9 9 9 9 9 9 9 9 9 9\n2 1 0 600M 2M 40 0 1 2 3 70 5 0 300 5000 700 20 10 70\n\
             2 1 0 614400 2048 40 0 1 2 3 70 5 0 300 5000 700 20 10 70\n");
        for (read, counter, instance, values) in [
            (&aix, "system.running", "", vec![2.0]),
            (&aix, "memory.free_bytes", "", vec![2000.0 * 4096.0]),
            (&aix, "paging.swap_in_pages_per_s", "", vec![3.0]),
            (&aix, "paging.scanned_pages_per_s", "", vec![100.0]),
            (&aix, "system.system_calls_per_s", "", vec![5000.0]),
            (&aix, "processor.privileged", "_total", vec![0.1]),
            (&aix, "processor.iowait", "_total", vec![0.1]),
            (&sun, "system.processor_queue_length", "", vec![3.0]),
            (&sun, "memory.swap_free_bytes", "", vec![4000.0 * 1024.0]),
            (&sun, "memory.free_bytes", "", vec![1000.0 * 1024.0]),
            (&sun, "foreign.vmstat-solaris.pi", "", vec![8.0]),
            (&sun, "processor.idle", "_total", vec![0.7]),
            (&bsd, "memory.free_bytes", "", vec![2.0 * 1_048_576.0; 2]),
            (&bsd, "paging.faults_per_s", "", vec![40.0; 2]),
            (&bsd, "system.context_switches_per_s", "", vec![700.0; 2]),
            (&bsd, "processor.privileged", "_total", vec![0.1; 2]),
        ] {
            assert_eq!(read.series_values(counter, instance), values, "{counter}");
        }
    }

    const ROW: &str = "1 3 0 16 32 77 4 8 1 2 60 95 20 10 60 9 1";

    fn free(read: &super::super::testing::ReadOutcome) -> Vec<f64> {
        read.series_values("memory.free_bytes", "").iter().map(|bytes| bytes / 1024.0).collect()
    }

    #[test]
    fn headings_of_other_languages_and_without_a_title() {
        let german = "  r  b   swpd   frei Puffer  Cache   si   so    bi    bo   in   cs us sy id wa st   CET\n";
        let rows = format!("{ROW} 2026-11-22 02:03:53\n{ROW} 2026-11-22 02:03:55\n");
        let read = read_text(&format!("{german}{rows}"));
        for (counter, instance, value) in [
            ("memory.buffers_bytes", "", 32.0 * 1024.0),
            ("memory.cached_bytes", "", 77.0 * 1024.0),
            ("processor.iowait", "_total", 0.09),
        ] {
            assert_eq!(read.series_values(counter, instance), [value], "{counter}");
        }
        assert_eq!(read.ticks[0].0, (1_795_313_035 - 3600) * 1_000_000_000, "the zone stands above the times");
    }

    #[test]
    fn a_start_below_a_time_loses_its_first_row_and_repeated_headings_lose_none() {
        let names = "r b swpd free buff cache si so bi bo in cs us sy id wa st\n";
        let row = |free: u32| ROW.replacen("16", &free.to_string(), 1) + "\n";
        let start = |free| format!("{HEAD}{names}{}{}{HEAD}{names}{}", row(999), row(free), row(free + 1));
        let text = format!(
            "zzz ***Sun Nov 22 02:00:00 UTC 2026\n{}zzz ***Sun Nov 22 02:00:30 UTC 2026\n{}",
            start(5),
            start(7)
        );
        let read = read_text(&text);
        assert_eq!(free(&read), [5.0, 6.0, 7.0, 8.0]);
        assert_eq!(read.ticks.iter().map(|t| t.1 / 1_000_000_000).collect::<Vec<_>>(), [1; 4]);
        assert_eq!(read.ticks[2].0 - read.ticks[0].0, 30_000_000_000);
    }

    /// A loop of `date '+%F %T'` and `vmstat 1 2`.
    #[test]
    fn times_between_starts_keep_their_time_over_a_change_to_or_from_summer_time() {
        let names = "r b swpd free buff cache si so bi bo in cs us sy id wa st\n";
        for (day, clocks) in [
            ("2026-10-25", ["02:59:40", "02:59:50", "02:00:00", "02:00:10"]),
            ("2026-03-29", ["01:59:40", "01:59:50", "03:00:00", "03:00:10"]),
        ] {
            let start = |clock: &str| format!("{day} {clock}\n{HEAD}{names}{ROW}\n{ROW}\n");
            let read = read_text(&clocks.map(start).concat());
            let apart: Vec<i64> = read.ticks.windows(2).map(|two| (two[1].0 - two[0].0) / 1_000_000_000).collect();
            assert_eq!(apart, [10; 3], "{day}: {:?}", read.summary);
        }
    }

    #[test]
    fn times_before_each_line_and_lines_of_other_programs() {
        let names = "2026-11-22 02:03:52 r b swpd free buff cache si so bi bo in cs us sy id wa st\n";
        let row = |second: u32| format!("2026-11-22 02:03:{second} {ROW}\n");
        let read =
            read_text(&format!("nohup: ignoring input\n{names}{}{}42 processes died\n{}", row(53), row(54), row(56)));
        assert_eq!(free(&read), [16.0; 2]);
        assert_eq!(read.ticks[1].1, 2_000_000_000);
        let skipped = read.summary.unwrap().skipped;
        assert_eq!((skipped[0].context.as_str(), skipped[0].count), ("line 1", 2), "{skipped:?}");
    }
}
