//! Rows of `sadf -d` (and `-dh`), with cells separated by semicolons under headings that begin with `#`; and of `sadf
//! -p`, with one value each and tabs.

use std::collections::HashSet;

use diskwright_base::Note;
use diskwright_base::text::is_same_host;

use super::clock::{SysstatClock, ZoneHint};
use super::head_line::HeadLine;
use super::heading_table::{self, HeadingTable};
use super::machine::SysstatMachine;
use super::stream_window::StreamWindow;
use super::tick_collector::{Collector, ValueOrigin};
use super::time::{self, NumericDateOrder};
use super::xml_log::parse_plain_number;
use crate::batch::FrameBatch;
use crate::daylight_clock::{self, DaylightClock};
use crate::error::LogError;
use crate::{InputHead, LogInput, LogOptions};

/// Reason to skip a row that does not belong to its table.
const WORDS_IN_ROW: &str = "a row with words where its headings have numbers";

/// Beginning of the headings of `sadf -d`.
const HEADING_START: &str = "hostname;interval;timestamp";

/// Largest number of headings that are distinguished; sadf has some fifty.
const MAX_TABLES: usize = 1000;

struct SadfRowsLog<'b, 'c> {
    file: String,
    batch: &'c mut FrameBatch<'b>,
    clock: SysstatClock,
    /// State of the clock in this table.
    daylight: DaylightClock,
    /// State of the clock where the tables began.
    initial_daylight: DaylightClock,
    /// Times when the clocks changed: each table shows them, and they are reported once.
    clock_changes: HashSet<i64>,
    /// Headings since the tables began.
    seen_headings: HashSet<String>,
    head: HeadLine,
    chosen_host: Option<String>,
    collector: Collector,
    headings: Headings,
    /// Times of the first and the last row below these headings.
    times_ns: Option<(i64, i64)>,
    line_number: u64,
}

/// Kind of rows under the headings that were read last.
enum Headings {
    /// None were read, or they were not understood.
    Missing,
    Table(HeadingTable, usize),
    /// Several instances in one row.
    List(HeadingTable, usize),
    /// An interrupt, its sum and its processors.
    Interrupts,
}

/// Returns true for the beginning of such rows.
pub fn is_sadf_rows(head: &InputHead<'_>) -> bool {
    head.text_lines().any(|line| {
        let line = line.trim_start();
        if line.starts_with('#') {
            return line.contains(HEADING_START);
        }
        let cells: Vec<&str> = line.split('\t').collect();
        cells.len() == 6 && cells[1].parse::<i64>().is_ok() && parse_stamp(cells[2]).is_some()
    })
}

/// Reads all of an input.
pub fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let mut stream = StreamWindow::new(input);
    let mut log = SadfRowsLog {
        file: stream.name().to_owned(),
        batch,
        clock: SysstatClock::new(options),
        daylight: DaylightClock::default(),
        initial_daylight: DaylightClock::default(),
        clock_changes: HashSet::new(),
        seen_headings: HashSet::new(),
        head: HeadLine::default(),
        chosen_host: options.host.clone(),
        collector: Collector::new(),
        headings: Headings::Missing,
        times_ns: None,
        line_number: 0,
    };
    while let Some(text) = stream.next_text_line(log.batch, &mut log.line_number)? {
        log.read_line(text.trim_start())?;
    }
    if log.batch.is_stopped() {
        return Ok(());
    }
    log.collector.flush(log.batch, &log.head.to_machine());
    Ok(())
}

/// Parses a time as sadf prints it into local seconds and zone.
fn parse_stamp(text: &str) -> Option<(i64, ZoneHint)> {
    if text.len() >= 9
        && text.len() <= 11
        && let Ok(epoch) = text.parse()
    {
        return Some((epoch, ZoneHint::Offset(0)));
    }
    let mut words = text.split_whitespace();
    let (date, clock, zone) = (words.next()?, words.next()?, words.next());
    let (local, _, _) = time::parse_moment(&format!("{date} {clock}"), NumericDateOrder::MonthFirst)?;
    Some((
        local,
        match zone {
            Some("UTC") => ZoneHint::Offset(0),
            Some(name) => ZoneHint::Name(name.to_owned()),
            None => ZoneHint::Missing,
        },
    ))
}

impl SadfRowsLog<'_, '_> {
    fn add_skip(&mut self, because: &str) {
        self.batch.add_skip(format!("line {}", self.line_number), because);
    }

    fn read_line(&mut self, text: &str) -> Result<(), LogError> {
        if text.trim().is_empty() {
            return Ok(());
        }
        if let Some(headings) = text.strip_prefix('#') {
            self.read_heading(headings.trim());
            return Ok(());
        }
        // a restart of sadf -d has a tab in its last cell
        let is_tabbed = text.find(['\t', ';']).is_some_and(|position| text.as_bytes()[position] == b'\t');
        let cells: Vec<&str> = text.split(if is_tabbed { '\t' } else { ';' }).collect();
        let (Some(host), Some(interval), Some((local, zone))) = (
            cells.first(),
            cells.get(1).and_then(|i| i.parse::<i64>().ok()),
            cells.get(2).and_then(|t| parse_stamp(t)),
        ) else {
            self.add_skip("not a row of sadf: it must begin with host, interval and time");
            return Ok(());
        };
        if !self.is_chosen_host(host) {
            return Ok(());
        }
        let mut time_ns = self.clock.utc_ns(local, &zone, self.batch);
        // rows of single values cover the time once for each counter, without a mark between counters
        if !is_tabbed && self.clock.is_one_zone(&zone) {
            time_ns = self.resolve_time(time_ns, local, u64::try_from(interval.saturating_mul(1_000_000_000)).ok());
        }
        if interval < 0 {
            self.read_event(time_ns, &cells[3..]);
            return Ok(());
        }
        let elapsed_ns = (1..=31_536_000).contains(&interval).then(|| interval.unsigned_abs() * 1_000_000_000);
        let (first, last) = self.times_ns.unwrap_or((time_ns, time_ns));
        self.times_ns = Some((first, time_ns));
        if !is_tabbed && time_ns < last && time_ns <= first && !matches!(self.headings, Headings::Missing) {
            // a table covers the time only once
            self.add_skip("time starts again: the headings of another table are missing");
            self.headings = Headings::Missing;
        }
        let file = std::mem::take(&mut self.file);
        let origin = ValueOrigin { file: &file, line: self.line_number, time_ns, elapsed_ns };
        let result = if is_tabbed {
            self.read_single_value(&origin, &cells[3..])
        } else {
            self.read_cells(&origin, &cells[3..])
        };
        self.file = file;
        result?;
        self.collector.flush_if_full(self.batch, &self.head.to_machine());
        Ok(())
    }

    /// Resolves a local time, after a change of the clocks.
    fn resolve_time(&mut self, time_ns: i64, local: i64, covered_ns: Option<u64>) -> i64 {
        let local_ns = local.saturating_mul(1_000_000_000);
        let (moment_ns, is_changed) = self.daylight.follow_covering_sample(time_ns, local_ns, covered_ns);
        if is_changed && self.clock_changes.insert(moment_ns) {
            self.collector.add_note(Note::new(moment_ns, Note::CLOCK, daylight_clock::CLOCK_CHANGE_NOTE));
        }
        moment_ns
    }

    fn is_chosen_host(&mut self, host: &str) -> bool {
        let chosen = self.chosen_host.get_or_insert_with(|| host.to_owned());
        if is_same_host(chosen, host) {
            if self.head.host.is_empty() {
                self.head.host = host.to_owned();
            }
            return true;
        }
        self.batch.add_other_host(format!("line {}", self.line_number), host);
        false
    }

    /// Reads a restart or a comment: rows with a negative interval.
    fn read_event(&mut self, time_ns: i64, cells: &[&str]) {
        let text = cells.join(";");
        if text.contains("LINUX-RESTART") {
            self.collector.flush(self.batch, &self.head.to_machine());
            self.collector.begin_stretch();
            self.collector.add_note(Note::new(time_ns, Note::GAP, SysstatMachine::RESTART_NOTE));
        } else {
            let text = text.strip_prefix("COM").unwrap_or(&text).trim();
            self.collector.add_note(Note::new(time_ns, Note::BOOKMARK, text));
        }
    }

    fn read_heading(&mut self, headings: &str) {
        let Some(rest) = headings.strip_prefix(HEADING_START) else {
            self.add_skip("headings that are not of sadf -d");
            return;
        };
        self.times_ns = None;
        if self.seen_headings.contains(headings) {
            // behind a restart, or in the next file: tables continue from here, or cover the same hours
            self.daylight.forget_last_sample();
            self.initial_daylight = self.daylight;
            self.seen_headings.clear();
        }
        if self.seen_headings.len() < MAX_TABLES {
            self.seen_headings.insert(headings.to_owned());
        }
        self.daylight = self.initial_daylight;
        let rest = rest.trim_start_matches(';');
        let lists = rest.matches("[...]").count();
        let words: Vec<&str> = rest.trim_end_matches("[...]").split(';').collect();
        let table = HeadingTable::from_headings(&words);
        self.headings = match (words.as_slice(), table) {
            (["INTR", "CPU*"], _) if lists == 0 => Headings::Interrupts,
            (_, Some(table)) if lists == 0 => Headings::Table(table, words.len()),
            (_, Some(table)) if lists == 1 && rest.ends_with("[...]") => Headings::List(table, words.len()),
            _ => Headings::Missing,
        };
        if matches!(self.headings, Headings::Missing) {
            self.add_skip("headings of several lists in one row (sadf -h) cannot be separated");
        }
    }

    fn read_cells(&mut self, origin: &ValueOrigin<'_>, cells: &[&str]) -> Result<(), LogError> {
        match &self.headings {
            Headings::Missing => {
                self.add_skip("a row without headings that were understood");
                return Ok(());
            }
            Headings::Interrupts => return self.read_interrupts(origin, cells),
            Headings::Table(table, width) if cells.len() != *width => {
                let text = format!("a row of `{}` whose number of cells differs from its headings", table.report);
                self.collector.mark_damaged();
                self.add_skip(&text);
            }
            Headings::Table(table, _) => {
                if !put_row(&mut self.collector, origin, table, cells)? {
                    self.collector.mark_damaged();
                    self.add_skip(WORDS_IN_ROW);
                }
            }
            Headings::List(table, width) => {
                let mut are_rows = true;
                for row_cells in cells.chunks_exact(*width) {
                    are_rows &= put_row(&mut self.collector, origin, table, row_cells)?;
                }
                let is_cut = !cells.len().is_multiple_of(*width);
                if !are_rows || is_cut {
                    self.collector.mark_damaged();
                }
                if !are_rows {
                    self.add_skip(WORDS_IN_ROW);
                }
                if is_cut {
                    self.add_skip("a list of instances that ends within one");
                }
            }
        }
        Ok(())
    }

    fn read_interrupts(&mut self, origin: &ValueOrigin<'_>, cells: &[&str]) -> Result<(), LogError> {
        if let (Some(name), Some(value)) = (cells.first(), cells.get(1).and_then(|v| heading_table::parse_cell(v, 1.0)))
        {
            self.collector.add_value(origin, ["interrupts", "all", name], value)?;
        }
        Ok(())
    }

    /// Reads instance, name and value of `sadf -p`.
    fn read_single_value(&mut self, origin: &ValueOrigin<'_>, cells: &[&str]) -> Result<(), LogError> {
        let [instance, name, value] = cells else { return Ok(()) };
        let Some(value) = parse_plain_number(value) else {
            self.add_skip("a value that is not a number");
            return Ok(());
        };
        let instance = if *instance == "-" { "" } else { *instance };
        let is_interrupt = *name == "all" || name.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok());
        if is_interrupt {
            return self.collector.add_value(
                origin,
                ["interrupts", &name.to_uppercase().replace("ALL", "all"), instance],
                value,
            );
        }
        let instance_headings = ["DEV", "CPU", "IFACE", "FILESYSTEM"];
        let possible_headings = instance_headings.iter().filter(|_| !instance.is_empty());
        let table = possible_headings
            .filter_map(|heading| HeadingTable::from_headings(&[heading, name]))
            .find(|t| !t.is_unknown())
            .or_else(|| HeadingTable::from_headings(&[name]).filter(|_| instance.is_empty()));
        let report = table.map_or_else(|| "sadf".to_owned(), |t| t.report);
        let instance = instance.strip_prefix("cpu").filter(|n| n.parse::<u32>().is_ok()).unwrap_or(instance);
        self.collector.add_value(origin, [&report, name, instance], value)
    }
}

/// Adds the values of a row; returns false if it does not belong to the table.
fn put_row(
    collector: &mut Collector,
    origin: &ValueOrigin<'_>,
    table: &HeadingTable,
    cells: &[&str],
) -> Result<bool, LogError> {
    let Ok((instance, values)) = table.parse_row(cells) else { return Ok(false) };
    for (name, value) in values {
        collector.add_value(origin, [&table.report, name, &instance], value)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use diskwright_base::Note;

    use super::super::testing::read_text;

    const DISK: &str = "# hostname;interval;timestamp;DEV;tps;rkB/s;aqu-sz;await\n";

    #[test]
    fn puts_tables_side_by_side() {
        let text = format!(
            "# hostname;interval;timestamp;CPU;%usr;%idle\ndb1;10;2026-11-21 19:05:10 UTC;-1;10.00;90.00\n\
             db1;10;2026-11-21 19:05:10 UTC;1;20.00;80.00\ndb1;10;2026-11-21 19:05:20 UTC;-1;30.00;70.00\n{DISK}\
             db1;10;2026-11-21 19:05:10 UTC;sda;5;1;0.5;2\ndb1;10;2026-11-21 19:05:20 UTC;sda;6;1;0.6;3\n\
             db1;-1;2026-11-21 19:06:00 UTC;LINUX-RESTART\t(4 CPU)\ndb1;-1;2026-11-21 19:06:01 UTC;COM went off\n\
             # hostname;interval;timestamp;INTR;CPU*\ndb1;10;2026-11-21 19:07:00 UTC;sum;70;30;40\n"
        );
        let read = read_text(&text);
        assert_eq!(read.series_values("processor.user", "_total")[..2], [0.1, 0.3]);
        assert_eq!(read.series_values("physical_disk.avg_s_per_transfer", "sda")[..2], [0.002, 0.003]);
        assert_eq!(read.series_values("system.interrupts_per_s", "")[2], 70.0);
        assert_eq!(read.ticks[0].1, 10_000_000_000);
        assert!(read.notes.iter().any(|n| n.kind == "gap" && n.text().contains("restarted")));
        assert!(read.notes.iter().any(|n| n.kind == "bookmark" && n.text() == "went off"));
        assert_eq!(read.summary.unwrap().format, "sadf-rows");
    }

    /// Local times of `sadf -d -t`: table after table, and the file of the next day behind them.
    #[test]
    fn local_times_keep_over_a_change_to_or_from_summer_time() {
        for (days, clocks) in [
            (["2026-10-25", "2026-10-26"], ["02:40:01", "02:50:01", "02:00:01", "02:10:01"]),
            (["2026-03-29", "2026-03-30"], ["01:40:01", "01:50:01", "03:00:01", "03:10:01"]),
        ] {
            let table = |headings: &str, values: &str| {
                let row = |clock: &&str| format!("db1;600;{} {clock};{values}\n", days[0]);
                format!("{headings}{}", clocks.iter().map(row).collect::<String>())
            };
            let processors = "# hostname;interval;timestamp;CPU;%usr;%idle\n";
            let both = table(processors, "-1;10.00;90.00") + &table(DISK, "sda;5;1;0.5;2");
            let next = format!("{processors}db1;600;{} 00:10:01;-1;10.00;90.00\n", days[1]);
            let read = read_text(&(both + &next));
            let apart: Vec<i64> = read.ticks.windows(2).map(|two| (two[1].0 - two[0].0) / 1_000_000_000).collect();
            assert_eq!(apart[..3], [600; 3], "{days:?}: {:?}", read.summary);
            assert_eq!(apart[3], if clocks[2] == "02:00:01" { 22 * 3600 } else { 21 * 3600 }, "{days:?}");
            assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda")[..4], [5.0; 4], "{days:?}");
            assert_eq!(read.notes.iter().filter(|n| n.kind == Note::CLOCK).count(), 1, "{days:?}");
        }
    }

    #[test]
    fn reads_lists_in_one_row_and_single_values() {
        let list = DISK.replace("await", "await[...]") + "db1;1;1795287946;sda;5;1;0.5;2;sdb;6;1;0.6;3\n";
        let read = read_text(&list);
        assert_eq!(read.series_values("physical_disk.transfers_per_s", "sdb"), [6.0]);
        let values = "db1\t1\t2026-11-21 19:05:46 UTC\tsda\ttps\t5.00\n\
                      db1\t1\t2026-11-21 19:05:46 UTC\t-\tkbmemfree\t2\n\
                      db1\t1\t2026-11-21 19:05:46 UTC\tall\t%idle\t9\ndb1\t1\t2026-11-21 19:05:46 UTC\tsum\tcpu1\t7\n";
        let read = read_text(values);
        assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [5.0]);
        assert_eq!(read.series_values("memory.free_bytes", ""), [2048.0]);
        assert_eq!(read.series_values("processor.idle", "_total"), [0.09]);
        assert_eq!(read.series_values("processor.interrupts_per_s", "cpu1"), [7.0]);
    }

    #[test]
    fn skips_rows_that_do_not_fit_with_their_line() {
        let good = "db1;10;2026-11-21 19:05:20 UTC;sda;6;1;0.6;3\n";
        for (wrong, because) in [
            ("db1;10;2026-11-21 19:05:30 UTC;sda;6", "number of cells"),
            ("db1;ten;2026-11-21 19:05:10 UTC;sda;6;1;0.6;3", "must begin with"),
            ("db1;10;yesterday;sda;6;1;0.6;3", "must begin with"),
            ("db2;10;2026-11-21 19:05:10 UTC;sda;6;1;0.6;3", "--host db2"),
            ("# something else", "not of sadf"),
            ("db1;10;2026-11-21 19:05:10 UTC;eth0;6;1;0.6;3", "headings of another table"),
            ("nohup: ignoring input", "must begin with"),
        ] {
            let read = read_text(&format!("{DISK}{good}{wrong}\n"));
            assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [6.0], "{wrong}");
            let skipped = read.summary.unwrap().skipped;
            assert!(skipped[0].reason.contains(because) && skipped[0].context == "line 3", "{wrong}: {skipped:?}");
        }
    }
}
