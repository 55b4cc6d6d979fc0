//! iostat's reports in succession: lines that hold a time, headings, rows. A report ends where its headings are
//! repeated or a time stands.

use std::borrow::Cow;
use std::sync::Arc;

use diskwright_base::counter_ids::processor;
use diskwright_base::{Note, Topology};

use super::bsd_iostat_headings::{self, BsdIostatHeadings};
use super::columns::{self, UnixSystem};
use super::idle_disks::{self, IdleDisks};
use crate::batch::FrameBatch;
use crate::daylight_clock::DaylightClock;
use crate::error::LogError;
use crate::first_report::{self, HeldReport, REPORT_STEP, REPORT_STEP_NS};
use crate::level_row::LevelRow;
use crate::stamp_line::{StampLine, parse_stamp};
use crate::sysstat::clock::{SysstatClock, ZoneHint};
use crate::sysstat::heading_table::parse_cell;
use crate::sysstat::stream_window::StreamWindow;
use crate::sysstat::time::{self, DAY_S, NumericDateOrder, parse_time_of_day};
use crate::time_basis::NO_DATE_NOTE;
use crate::{InputHead, LogInput, LogOptions, TimeBasis};

const COUNTED_TIMES_NOTE: &str = "the reports have no times: they are counted from 1970 with the given interval; \
                                  durations are right, times of day are not";

/// Text of the note about several reports below one time.
const SPACED_TIMES_NOTE: &str = "several reports follow each time: they are counted from it, a second apart \
                                 (--interval sets the true interval)";

pub(super) fn is_unix_iostat(head: &InputHead<'_>) -> bool {
    head.text_lines().any(|line| {
        let line = join_signs(&line);
        let words: Vec<&str> = line.split_whitespace().collect();
        columns::detect_system(&words).is_some() || bsd_iostat_headings::parse_columns(&words).is_some()
    })
}

/// Joins signs that stand apart from their word, and replaces the commas of `iostat -r`.
fn join_signs(line: &str) -> Cow<'_, str> {
    // between blanks, commas are those of decimals
    let is_apart = line.split_whitespace().nth(2).is_some();
    let has_comma_cells = line.contains(',') && !is_apart && line.starts_with(|c: char| c.is_alphabetic());
    if has_comma_cells {
        Cow::Owned(line.replace(',', " "))
    } else if line.contains("% ") {
        Cow::Owned(line.replace("% ", "%"))
    } else {
        Cow::Borrowed(line)
    }
}

/// Table whose rows are read.
enum UnixTable {
    Disks {
        system: UnixSystem,
        disk_index: usize,
        names: Arc<[String]>,
    },
    /// `avg-cpu` of AIX, by the names of its shares; `words_before` columns of the terminal stand before them.
    Processors {
        names: Vec<String>,
        words_before: usize,
    },
    Bsd(BsdIostatHeadings),
    /// Only names; their columns must follow.
    BsdDiskNames(BsdIostatHeadings),
}

/// A disk's row, held because some of its cells need the report's length.
#[derive(Clone)]
pub(super) struct UnixDiskRow {
    pub system: UnixSystem,
    pub disk: String,
    pub names: Arc<[String]>,
    /// Values in the order of the names; the disk's own is `NaN`.
    pub cells: Vec<f64>,
}

struct UnixIostatLog<'b, 'c> {
    batch: &'c mut FrameBatch<'b>,
    options: &'c LogOptions,
    clock: SysstatClock,
    daylight: DaylightClock,
    order: NumericDateOrder,
    row: LevelRow,
    table: Option<UnixTable>,
    /// Headings of this report; repeated headings begin another report.
    headings: Vec<String>,
    disks: Vec<UnixDiskRow>,
    idle_disks: IdleDisks,
    stamp: Option<StampLine>,
    has_times: bool,
    /// Set if times are those of a loop, `date; iostat 10 2`: the first report below each covers the time since
    /// boot.
    is_loop: bool,
    /// Set if nothing gave the spacing of reports.
    has_assumed_spacing: bool,
    /// Number of rows of this report.
    row_count: u64,
    /// Number of reports before it.
    report_count: u64,
    last_ns: Option<i64>,
    last_clock_s: i64,
    midnights: i64,
    line_number: u64,
    is_announced: bool,
    /// First report of a start, until the second shows whether it is since boot.
    held: Option<HeldReport>,
}

/// Reads all of an input.
pub(super) fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let head = String::from_utf8_lossy(input.head().bytes).into_owned();
    let mut stream = StreamWindow::new(input);
    let mut log = UnixIostatLog {
        batch,
        options,
        clock: SysstatClock::new(options),
        daylight: DaylightClock::default(),
        order: time::guess_date_order(&head, ""),
        row: LevelRow::default(),
        table: None,
        headings: Vec::new(),
        disks: Vec::new(),
        idle_disks: IdleDisks::default(),
        stamp: None,
        has_times: false,
        is_loop: false,
        has_assumed_spacing: false,
        row_count: 0,
        report_count: 0,
        last_ns: None,
        last_clock_s: 0,
        midnights: 0,
        line_number: 0,
        is_announced: false,
        held: None,
    };
    while let Some(text) = stream.next_text_line(log.batch, &mut log.line_number)? {
        log.read_line(&text);
    }
    if !log.batch.is_stopped() {
        log.finish_log();
    }
    Ok(())
}

impl UnixIostatLog<'_, '_> {
    fn add_skip(&mut self, because: &str) {
        self.batch.add_skip(format!("line {}", self.line_number), because);
    }

    /// Skips a disk's row that cannot be read.
    fn skip_disk(&mut self, because: &str) {
        self.idle_disks.mark_doubtful();
        self.add_skip(because);
    }

    fn read_line(&mut self, text: &str) {
        let line = join_signs(text);
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() || is_banner(&words) {
            return;
        }
        if let Some(stamp) = parse_stamp(text, self.order) {
            self.finish_report();
            self.stamp = Some(stamp);
            self.has_times = true;
            return;
        }
        if let Some(table) = self.parse_heading(&words) {
            let headings = line.split_whitespace().collect::<Vec<_>>().join(" ");
            let is_bsd = matches!(table, UnixTable::Bsd(_) | UnixTable::BsdDiskNames(_));
            if matches!(&table, UnixTable::Bsd(headings) if headings.lacks_names()) {
                self.add_skip("disks without a line of their names above: they are left out");
            }
            if self.headings.contains(&headings) && !is_bsd {
                self.finish_report();
            }
            self.headings.push(headings);
            if let UnixTable::Disks { system, names, disk_index } = &table {
                self.idle_disks.begin_table(*system, names, *disk_index);
            }
            self.table = Some(table);
            return;
        }
        self.read_table_row(&words);
    }

    fn parse_heading(&self, words: &[&str]) -> Option<UnixTable> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        if let Some((system, disk_index)) = columns::detect_system(words) {
            return Some(UnixTable::Disks { system, disk_index, names: owned(words).into() });
        }
        if let Some(index) = words.iter().position(|word| *word == "avg-cpu:") {
            let names = owned(&words[index + 1..]);
            let words_before = words[..index].iter().filter(|word| !word.ends_with(':')).count();
            return names.iter().any(|name| name == "%idle").then_some(UnixTable::Processors { names, words_before });
        }
        match (&self.table, bsd_iostat_headings::parse_disks(words), bsd_iostat_headings::parse_columns(words)) {
            (Some(UnixTable::Bsd(headings) | UnixTable::BsdDiskNames(headings)), _, Some(groups)) => {
                Some(UnixTable::Bsd(headings.with_columns(groups)))
            }
            // a wrapped row may be a single word
            (Some(UnixTable::Disks { .. } | UnixTable::Processors { .. }), Some(disks), _)
                if disks.has_only_names(words) =>
            {
                None
            }
            (_, Some(disks), _) if disks.has_only_names(words) => Some(UnixTable::BsdDiskNames(disks)),
            (_, Some(disks), _) => Some(UnixTable::Bsd(disks)),
            // the line with the names of the disks is missing
            (_, None, Some(groups)) => Some(UnixTable::Bsd(BsdIostatHeadings::default().with_columns(groups))),
            _ => None,
        }
    }

    fn read_table_row(&mut self, words: &[&str]) {
        match self.table.take() {
            Some(UnixTable::Disks { system, disk_index, names }) => {
                self.begin_repeated_report(system, disk_index, &names, words);
                let disk_count = self.disks.len();
                self.read_disk(system, disk_index, &names, words);
                if let Some(row) = self.disks.get(disk_count) {
                    self.idle_disks.learn_row(row, disk_index);
                }
                self.table = Some(UnixTable::Disks { system, disk_index, names });
            }
            Some(UnixTable::Processors { names, words_before }) => {
                self.read_processors(&names, words_before, words);
            }
            Some(UnixTable::Bsd(headings)) => {
                let read = headings.parse_row(words);
                self.table = Some(UnixTable::Bsd(headings));
                match read {
                    Ok(values) => {
                        // each row is a report
                        self.row_count += 1;
                        values.into_iter().for_each(|(counter, disk, value)| self.row.put_value(counter, &disk, value));
                        self.finish_report();
                    }
                    Err(because) => self.add_skip(because),
                }
            }
            Some(UnixTable::BsdDiskNames(_)) | None => {
                self.add_skip("neither headings nor a time nor a row under headings");
            }
        }
    }

    /// Begins another report at a second row of the first disk: the headings were not copied each time.
    fn begin_repeated_report(&mut self, system: UnixSystem, disk_index: usize, names: &Arc<[String]>, words: &[&str]) {
        let first = self.disks.iter().find(|row| Arc::ptr_eq(&row.names, names));
        if first.is_some_and(|row| words.get(disk_index) == Some(&row.disk.as_str())) {
            let headings = std::mem::take(&mut self.headings);
            self.finish_report();
            self.headings = headings;
            self.idle_disks.begin_table(system, names, disk_index);
        }
    }

    fn read_disk(&mut self, system: UnixSystem, disk_index: usize, headings: &Arc<[String]>, words: &[&str]) {
        let names: &[String] = headings;
        // AIX puts the time behind each row with -T
        let mut words = words.to_vec();
        if system == UnixSystem::Aix
            && let Some((clock, _)) =
                words.last().filter(|last| last.contains(':')).and_then(|last| parse_time_of_day(&[last]))
        {
            words.pop();
            self.stamp = Some(StampLine { local_s: clock, fraction_ns: 0, zone: ZoneHint::Missing, has_no_date: true });
            self.has_times = true;
        }
        let names = if names.last().is_some_and(|name| name == "time") { &names[..names.len() - 1] } else { names };
        // only the first row has the columns of terminal and processors (`iostat -xtc` of Solaris)
        let disk_columns_end = names.iter().position(|name| matches!(name.as_str(), "tin" | "us"));
        let names = match disk_columns_end {
            Some(end) if end > disk_index && (words.len() == end || words.len() == names.len()) => {
                words.truncate(end);
                &names[..end]
            }
            _ => names,
        };
        if words.len() < names.len() {
            return self.skip_disk("a row with fewer cells than its table has headings");
        }
        // a name that stands last may hold blanks: `c0t1d0 (vold)`
        let is_last = disk_index + 1 == names.len();
        if words.len() > names.len() && !is_last {
            return self.skip_disk("a row with more cells than its table has headings");
        }
        let disk = if is_last { words[disk_index..].join(" ") } else { words[disk_index].to_owned() };
        if let Some(because) = columns::not_a_disk_reason(system, &disk) {
            return self.add_skip(because);
        }
        let cell = |(index, word): (usize, &&str)| match index {
            index if index == disk_index => Some(f64::NAN),
            _ => parse_cell(word, 1.0).filter(|value| (0.0..1e15).contains(value)),
        };
        let cells: Option<Vec<f64>> = words[..names.len()].iter().enumerate().map(cell).collect();
        let Some(cells) = cells else { return self.skip_disk("a cell that is not a number, or an impossible one") };
        self.row_count += 1;
        self.disks.push(UnixDiskRow { system, disk, names: Arc::clone(headings), cells });
    }

    fn read_processors(&mut self, names: &[String], words_before: usize, words: &[&str]) {
        const SHARE_COLUMNS: [(&str, &str); 4] = [
            ("%user", processor::USER),
            ("%sys", processor::PRIVILEGED),
            ("%idle", processor::IDLE),
            ("%iowait", processor::IOWAIT),
        ];
        let Some(cells) = words.get(words_before..).filter(|cells| cells.len() >= names.len()) else {
            return self.add_skip("a row with fewer cells than its table has headings");
        };
        let value = |heading: &str| {
            names.iter().position(|name| name == heading).and_then(|index| parse_cell(cells[index], 1.0))
        };
        let shares: Vec<(&str, f64)> =
            SHARE_COLUMNS.iter().filter_map(|(name, counter)| value(name).map(|share| (*counter, share))).collect();
        self.row_count += 1;
        let values: Vec<f64> = shares.iter().map(|(_, share)| *share).collect();
        if let Some(fault) = crate::value_limits::find_percent_fault(&values) {
            return self.add_skip(fault.to_reason());
        }
        shares.iter().for_each(|(counter, share)| self.row.put_value(counter, "_total", share / 100.0));
    }

    fn finish_report(&mut self) {
        self.headings.clear();
        let mut disks = std::mem::take(&mut self.disks);
        let has_omitted = self.idle_disks.fill_omitted(&mut disks);
        if self.row_count == 0 && disks.is_empty() {
            return;
        }
        self.row_count = 0;
        let is_stamped = self.stamp.is_some();
        self.is_loop |= self.report_count == 1 && self.has_times && !is_stamped;
        let Some(time_ns) = self.report_time() else {
            return self.row.clear();
        };
        let since = self.last_ns.map(|last| time_ns.saturating_sub(last));
        self.report_count += 1;
        let is_first = self.report_count == 1 || self.is_loop && is_stamped;
        if !is_first && since.is_some_and(|since| since <= 0) {
            self.row.clear();
            return self.add_skip("a report that is not later than the previous one");
        }
        // an assumed spacing does not turn amounts into rates
        let elapsed_s = since.filter(|_| !self.has_assumed_spacing && !is_first).map(|since| since as f64 * 1e-9);
        for UnixDiskRow { system, disk, names, cells } in &disks {
            columns::put_disk(&mut self.row, *system, disk, names, cells, elapsed_s);
        }
        self.last_ns = Some(time_ns);
        if is_first && !self.options.is_first_report_kept {
            self.drop_held_report();
            let context = format!("line {}", self.line_number);
            self.held = Some(HeldReport { values: self.row.take_values(), printed_ns: Some(time_ns), context });
            return;
        }
        self.settle_held_report(is_stamped);
        self.emit_report(time_ns, since.map(i64::unsigned_abs));
        if has_omitted && self.idle_disks.report_once() {
            self.batch.push_note(Note::new(time_ns, Note::WARNING, idle_disks::OMITTED_DEVICES_NOTE));
        }
    }

    fn emit_report(&mut self, time_ns: i64, elapsed_ns: Option<u64>) {
        if !self.is_announced {
            self.is_announced = true;
            self.batch.push_topology(time_ns, &Topology::default());
        }
        self.row.emit_tick(self.batch, time_ns, elapsed_ns);
    }

    /// Keeps or drops the first report, now that the second is in the row.
    fn settle_held_report(&mut self, is_stamped: bool) {
        let Some(held) = &self.held else { return };
        let has_times = self.has_times || is_stamped;
        if has_times || !first_report::is_like_next(self.row.series(), &held.values, self.row.values()) {
            return self.drop_held_report();
        }
        let Some(held) = self.held.take() else { return };
        let second = self.row.replace_values(&held.values);
        let step = self.options.interval.unwrap_or(REPORT_STEP).as_nanos() as u64;
        self.emit_report(held.printed_ns.unwrap_or(0), Some(step));
        self.row.replace_values(&second);
    }

    fn drop_held_report(&mut self) {
        if let Some(held) = self.held.take() {
            self.batch.add_skip(held.context, "the first report of iostat covers the time since boot");
        }
    }

    /// Settles the first report of the last start; it is kept if it is the only one.
    fn finish_log(&mut self) {
        self.finish_report();
        if self.batch.has_ticks() {
            return self.drop_held_report();
        }
        if let Some(held) = self.held.take() {
            let time_ns = held.printed_ns.unwrap_or(0);
            self.row.replace_values(&held.values);
            first_report::remark_single_report(self.batch, &held.context, time_ns);
            self.emit_report(time_ns, None);
        }
    }

    /// Returns the time of the report; `None` if it cannot be known.
    fn report_time(&mut self) -> Option<i64> {
        let step = self.options.interval.and_then(|step| i64::try_from(step.as_nanos()).ok());
        let Some(StampLine { local_s, fraction_ns: ns, zone, has_no_date }) = self.stamp.take() else {
            return match (self.last_ns, step) {
                (Some(last), Some(step)) => Some(last.saturating_add(step)),
                (None, Some(_)) => {
                    self.batch.push_note(Note::new(0, Note::WARNING, COUNTED_TIMES_NOTE));
                    self.batch.note_time_basis(TimeBasis::Counted);
                    Some(0)
                }
                (Some(last), None) if self.is_loop => {
                    if !std::mem::replace(&mut self.has_assumed_spacing, true) {
                        self.batch.push_note(Note::new(last, Note::WARNING, SPACED_TIMES_NOTE));
                    }
                    Some(last.saturating_add(REPORT_STEP_NS))
                }
                _ if self.has_times => {
                    self.add_skip("a report without a time");
                    None
                }
                (Some(last), None) => Some(last.saturating_add(REPORT_STEP_NS)),
                (None, None) => {
                    self.has_assumed_spacing = true;
                    self.batch.push_note(Note::new(0, Note::WARNING, first_report::REPORTS_NOTE));
                    self.batch.note_time_basis(TimeBasis::Reports);
                    Some(0)
                }
            };
        };
        let mut local = local_s;
        if has_no_date {
            self.midnights += i64::from(local_s + DAY_S / 2 < self.last_clock_s);
            self.last_clock_s = local_s;
            local += self.midnights * DAY_S;
            if self.last_ns.is_none() {
                self.batch.push_note(Note::new(local.saturating_mul(1_000_000_000), Note::WARNING, NO_DATE_NOTE));
            }
        }
        let time_ns = self.clock.utc_ns(local, &zone, self.batch).saturating_add(ns);
        if !self.clock.is_one_zone(&zone) {
            return Some(time_ns);
        }
        let local_ns = local.saturating_mul(1_000_000_000).saturating_add(ns);
        Some(self.daylight.resolve_time(time_ns, local_ns, self.batch))
    }
}

/// Returns true for lines above tables that hold no information.
fn is_banner(words: &[&str]) -> bool {
    matches!(words, ["extended", "device", "statistics", ..] | ["System", "configuration:", ..] | ["cpu"])
}
