//! Output of loops over files of /proc:
//!
//! ```text
//! while sleep 10; do date; cat /proc/diskstats /proc/vmstat; done > FILE
//! ```
//!
//! A dump is the text between two times, or, if there are none, up to the first line that is repeated. Most numbers
//! are totals since boot, so a dump gives the growth since the one before it. `vmstat -s` and `vmstat -d` print the
//! same numbers in other words and are read too.

mod cells;
mod columns;
mod line;
mod since_boot;

use std::collections::HashMap;

use diskwright_base::counter_ids::memory;
use diskwright_base::diskstats::{COMPLETED_POSITIONS, PARTITION_POSITIONS};
use diskwright_base::{Note, Topology};

use crate::batch::FrameBatch;
use crate::collectl;
use crate::daylight_clock::DaylightClock;
use crate::error::LogError;
use crate::first_report::REPORT_STEP_NS;
use crate::stamp_line::{StampLine, parse_stamp};
use crate::sysstat::clock::SysstatClock;
use crate::sysstat::stream_window::StreamWindow;
use crate::sysstat::time::{self, DAY_S, NumericDateOrder};
use crate::time_basis::NO_DATE_NOTE;
use crate::{InputHead, LogFormat, LogInput, LogOptions, TimeBasis};
use cells::{DumpCells, DumpFamily};
use columns::{DISK, DumpColumn, LOAD, PARTITION_DISK, PROCESSOR, PROCESSOR_TIMES, VMSTAT_DISK};
use line::{DumpLine, parse_line};
use since_boot::SinceBoot;

/// Format of such loops.
pub static FORMAT: LogFormat = LogFormat {
    id: "proc-loop",
    title: "loops of /proc/diskstats, stat, vmstat, meminfo and loadavg, vmstat -s and vmstat -d",
    explain: "Dumps one after the other, with times between them as `date` prints them in any form or as seconds \
              since 1970; without times and --interval, only levels are read. Totals become what was added from dump \
              to dump. Record with `while sleep 10; do date +%s; cat /proc/diskstats /proc/stat /proc/vmstat \
              /proc/meminfo; done > FILE`.",
    recognize: is_proc_dump,
    read,
};

/// Largest number of other lines among those of a dump.
const MAX_OTHER_LINES: usize = 20;
/// Evidence from which on a file is taken for a dump; a line of a name and a number counts as 1.
const MIN_EVIDENCE: usize = 5;
/// Cells hold whole numbers: shares are counted in millionths.
const FACT_STEP: f64 = 1e-6;
/// Text of the note about dumps without times.
const COUNTED_TIMES_NOTE: &str = "the dumps have no times: they are counted from 1970 with the given interval; \
                                  durations are right, times of day are not";
const DUMPS_NOTE: &str = "the dumps have no times, and their interval is not known: unless /proc/stat shows it, only \
                          levels are read, a second apart (--interval sets it)";
const SINCE_BOOT_NOTE: &str = "a single dump: its rates are averages since boot, which hide what happens now; give a \
                               second dump, 10 seconds later";

/// Returns how strongly a line indicates a dump: names that only these files have count.
fn line_evidence(line: DumpLine<'_>) -> usize {
    match line {
        DumpLine::Disk(..) | DumpLine::Load(_) => MIN_EVIDENCE,
        DumpLine::Processor(..) => 2,
        DumpLine::VmstatDisk(..) => 0,
        DumpLine::Named(key, _) => usize::from(!columns::columns_by_name(key).is_empty()),
        DumpLine::Summary(_, words) => usize::from(columns::summary_column(words).is_some()),
        DumpLine::Ignored => 0,
    }
}

fn is_proc_dump(head: &InputHead<'_>) -> bool {
    // collectl's recordings hold such lines below their own sample times
    if collectl::is_raw(head.bytes) {
        return false;
    }
    let text = String::from_utf8_lossy(head.bytes);
    let (mut evidence, mut other_lines, mut has_heading) = (0, 0, false);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        has_heading |= line.trim_start().starts_with("disk-") && line.contains("-reads-");
        match parse_line(line) {
            Some(DumpLine::VmstatDisk(..)) if has_heading => return true,
            Some(dump_line) => evidence += line_evidence(dump_line),
            None => other_lines += usize::from(parse_stamp(line, NumericDateOrder::MonthFirst).is_none()),
        }
        if evidence >= MIN_EVIDENCE {
            return true;
        }
        // any text may precede a dump; a few numbers scattered in it do not count
        if other_lines > MAX_OTHER_LINES {
            (evidence, other_lines) = (0, 0);
        }
    }
    false
}

/// Reads all of an input.
fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let head = String::from_utf8_lossy(input.head().bytes).into_owned();
    let mut stream = StreamWindow::new(input);
    let mut log = DumpLog::new(&head, options, batch);
    while let Some((bare, line_bytes)) = stream.next_line()? {
        if stream.is_unfinished() && !stream.remaining_bytes()[..bare].trim_ascii().is_empty() {
            log.line_number += 1;
            log.add_skip(StreamWindow::UNFINISHED_LINE);
            break;
        }
        match std::str::from_utf8(&stream.remaining_bytes()[..bare]) {
            Ok(text) => log.read_line(text),
            Err(_) => log.read_line(&String::from_utf8_lossy(&stream.remaining_bytes()[..bare])),
        }
        stream.skip_bytes(line_bytes);
        if log.batch.is_stopped() {
            return Ok(());
        }
    }
    log.finish_log();
    Ok(())
}

/// Files that a dump may contain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DumpFile {
    Disks,
    VmstatDisks,
    Stat,
    Memory,
    Vmstat,
    Load,
    Summary,
}

/// Result of resolving a name.
struct DumpName {
    key: String,
    groups: Vec<usize>,
    file: DumpFile,
    /// Number of the last dump that had it.
    last_dump: u64,
}

struct DumpLog<'b, 'c> {
    batch: &'c mut FrameBatch<'b>,
    options: &'c LogOptions,
    clock: SysstatClock,
    daylight: DaylightClock,
    order: NumericDateOrder,
    cells: DumpCells,
    names: Vec<DumpName>,
    by_key: HashMap<String, usize>,
    /// Index of the name that is likely next: dumps keep their order.
    likely_index: usize,
    /// Set if times stand behind their dumps.
    are_times_behind: bool,
    /// Time that was read last.
    latest_time: Option<StampLine>,
    /// Set while no dump has used that time.
    is_time_unused: bool,
    /// Time of the current dump.
    dump_time: Option<StampLine>,
    has_times: bool,
    /// Files in this dump.
    files: Vec<DumpFile>,
    /// Number of this dump.
    dump_number: u64,
    /// Midnights that clocks without a date have passed.
    midnights: i64,
    last_clock_s: i64,
    last_ns: Option<i64>,
    processors: u32,
    is_announced: bool,
    has_warned: bool,
    /// Set if neither times nor an interval are known.
    is_counted: bool,
    since_boot: SinceBoot,
    line_number: u64,
    line_key: String,
}

impl<'b, 'c> DumpLog<'b, 'c> {
    fn new(head: &str, options: &'c LogOptions, batch: &'c mut FrameBatch<'b>) -> DumpLog<'b, 'c> {
        let order = time::guess_date_order(head, "");
        DumpLog {
            batch,
            options,
            clock: SysstatClock::new(options),
            daylight: DaylightClock::default(),
            order,
            cells: DumpCells::default(),
            names: Vec::new(),
            by_key: HashMap::new(),
            likely_index: 0,
            are_times_behind: are_times_behind(head, order),
            latest_time: None,
            is_time_unused: false,
            dump_time: None,
            has_times: false,
            files: Vec::new(),
            dump_number: 1,
            midnights: 0,
            last_clock_s: 0,
            last_ns: None,
            processors: 0,
            is_announced: false,
            has_warned: false,
            is_counted: false,
            since_boot: SinceBoot::default(),
            line_number: 0,
            line_key: String::new(),
        }
    }

    fn add_skip(&mut self, because: &str) {
        self.batch.add_skip(format!("line {}", self.line_number), because);
    }

    fn read_line(&mut self, text: &str) {
        self.line_number += 1;
        if text.trim().is_empty() {
            return;
        }
        match parse_line(text) {
            Some(DumpLine::Ignored) => {}
            Some(dump_line) => self.read_known_line(dump_line),
            None => match parse_stamp(text, self.order) {
                Some(found) => self.read_time(found),
                None => self.add_skip("neither a line of a file that is read nor a time"),
            },
        }
    }

    fn read_time(&mut self, found: StampLine) {
        self.has_times = true;
        if self.are_times_behind {
            if !self.files.is_empty() {
                self.dump_time = Some(found);
                self.finish_dump();
            }
            return;
        }
        // of two times before a dump, the one with a date counts
        if !self.is_time_unused || self.latest_time.as_ref().is_none_or(|latest| latest.has_no_date) {
            self.latest_time = Some(found);
        }
        self.is_time_unused = true;
    }

    fn read_known_line(&mut self, dump_line: DumpLine<'_>) {
        self.line_key.clear();
        let (prefix, name) = match dump_line {
            DumpLine::Disk(name, _) => ("d ", name),
            DumpLine::VmstatDisk(name, _) => ("v ", name),
            DumpLine::Processor(name, _) => ("p ", name),
            DumpLine::Load(_) => ("l", ""),
            DumpLine::Named(name, _) => ("n ", name),
            DumpLine::Summary(_, words) => ("s ", words),
            DumpLine::Ignored => return,
        };
        self.line_key.push_str(prefix);
        self.line_key.push_str(name);
        let index = self.find_name(dump_line);
        self.likely_index = index + 1;
        let DumpName { file, last_dump: dump, .. } = self.names[index];
        let is_repeated = dump == self.dump_number;
        // a new time begins another dump, unless it belongs to another file of the same dump
        let begins_dump = !self.are_times_behind && self.is_time_unused && self.files.contains(&file);
        if begins_dump || (is_repeated && !self.has_times) {
            self.finish_dump();
        } else if is_repeated {
            self.add_skip("a repeated line without a time in between");
            return;
        }
        if self.files.is_empty() {
            self.dump_time = self.latest_time.take();
        }
        self.is_time_unused = false;
        if !self.files.contains(&file) {
            self.files.push(file);
        }
        self.names[index].last_dump = self.dump_number;
        if self.names[index].groups.is_empty()
            && let Some((columns, name, family)) = disk_columns(dump_line)
        {
            self.names[index].groups.extend(self.cells.find_group(columns, name, family));
        }
        if self.dump_number == 1
            && let DumpLine::Named(name, value) | DumpLine::Summary(value, name) = dump_line
        {
            self.since_boot.add_number(name, value);
        }
        for group in &self.names[index].groups {
            put_numbers(&mut self.cells, *group, dump_line);
        }
    }

    /// Returns the index of the line's name, which is learned if it is new.
    fn find_name(&mut self, dump_line: DumpLine<'_>) -> usize {
        if self.names.get(self.likely_index).is_some_and(|name| name.key == self.line_key) {
            return self.likely_index;
        }
        if let Some(index) = self.by_key.get(&self.line_key) {
            return *index;
        }
        let dump_name = self.learn_name(dump_line);
        self.by_key.insert(self.line_key.clone(), self.names.len());
        self.names.push(dump_name);
        self.names.len() - 1
    }

    /// Resolves the columns of a line that was not seen before.
    fn learn_name(&mut self, dump_line: DumpLine<'_>) -> DumpName {
        let mut group = |columns: &[columns::DumpColumn], instance: &str, family| {
            self.cells.find_group(columns, instance, family).into_iter().collect::<Vec<_>>()
        };
        let (file, groups) = match dump_line {
            DumpLine::Processor(name, _) => {
                let instance = if name == "cpu" { "_total" } else { name };
                self.processors += u32::from(name != "cpu");
                (DumpFile::Stat, group(&PROCESSOR, instance, DumpFamily::Kernel))
            }
            DumpLine::Load(_) => (DumpFile::Load, group(&LOAD, "", DumpFamily::Kernel)),
            // the columns of disks are made once the disk is used
            DumpLine::VmstatDisk(..) => (DumpFile::VmstatDisks, Vec::new()),
            DumpLine::Named(key, _) => {
                let columns = columns::columns_by_name(key);
                let groups = columns.iter().flat_map(|c| group(std::slice::from_ref(c), "", DumpFamily::Kernel));
                (file_of_key(key), groups.collect())
            }
            DumpLine::Summary(_, words) => {
                let found = columns::summary_column(words).flatten();
                let groups = found.iter().flat_map(|(c, instance)| group(&[*c], instance, DumpFamily::Vmstat));
                (DumpFile::Summary, groups.collect())
            }
            DumpLine::Disk(..) | DumpLine::Ignored => (DumpFile::Disks, Vec::new()),
        };
        DumpName { key: self.line_key.clone(), groups, file, last_dump: 0 }
    }

    /// Emits a tick for the dump, after which another follows.
    fn finish_dump(&mut self) {
        self.finish_dump_since(None);
    }

    /// Emits a tick for the dump; with averages since boot if that is so long ago.
    fn finish_dump_since(&mut self, uptime_ns: Option<u64>) {
        if self.files.is_empty() {
            return;
        }
        self.files.clear();
        self.dump_number += 1;
        let length_ns = self.length_by_processors();
        let Some(time_ns) = self.dump_time(length_ns) else {
            self.cells.drop_dump();
            return;
        };
        let since = self.last_ns.map_or(1, |last| time_ns.saturating_sub(last));
        if since <= 0 {
            // the growth counts with the next dump
            self.cells.drop_dump();
            self.add_skip(if since == 0 { "a second dump at the same time" } else { "time goes backwards" });
            return;
        }
        if uptime_ns.is_some() {
            self.cells.begin_at_zero();
            self.batch.push_note(Note::new(time_ns, Note::WARNING, SINCE_BOOT_NOTE));
        }
        let elapsed_ns = uptime_ns.unwrap_or_else(|| self.last_ns.map_or(0, |_| since.unsigned_abs()));
        if !self.is_announced {
            self.is_announced = true;
            let memory = self.cells.counter_value(memory::TOTAL_BYTES, "").unwrap_or(0.0);
            let (processors, memory_bytes) = (self.processors, memory as u64);
            self.batch.push_topology(time_ns, &Topology { processors, memory_bytes, ..Topology::default() });
        }
        // without the length only levels are known
        let is_length_known = !self.is_counted || length_ns.is_some() || uptime_ns.is_some();
        let (schema, row, trouble) = self.cells.build_row(if is_length_known { elapsed_ns } else { 0 });
        self.batch.push_tick(&schema, time_ns, Some(elapsed_ns), row);
        if trouble.restarted * 2 > trouble.compared {
            self.batch.push_note(Note::new(time_ns, Note::GAP, "all counters restarted, as after a reboot"));
        } else if trouble.restarted > 0 {
            self.batch.add_skip(format!("line {}", self.line_number), "a counter went back; this tick is a gap");
        }
        self.cells.advance_dump();
        self.last_ns = Some(time_ns);
    }

    /// Returns the time since boot by the time that processors counted, if the dump lists each of them.
    fn uptime_by_processors(&self) -> Option<u64> {
        if self.processors == 0 {
            return None;
        }
        let times = PROCESSOR_TIMES.iter().filter_map(|column| self.cells.counter_value(column.counter, "_total"));
        let seconds = times.sum::<f64>() / f64::from(self.processors);
        (seconds >= 1.0).then_some((seconds * 1e9) as u64)
    }

    /// Returns the time since the dump before by the time that processors counted in between, if the dumps hold it.
    fn length_by_processors(&self) -> Option<i64> {
        let growth = |column: &DumpColumn| self.cells.counter_growth(column.counter, "_total");
        let seconds: f64 = PROCESSOR_TIMES.iter().filter_map(growth).sum();
        let length_ns = (seconds / f64::from(self.processors) * 1e9).round();
        (self.processors > 0 && length_ns >= 1e6).then_some(length_ns as i64)
    }

    /// Returns the time of the dump; `None` if it cannot be known.
    fn dump_time(&mut self, length_ns: Option<i64>) -> Option<i64> {
        let step = self.options.interval.and_then(|step| i64::try_from(step.as_nanos()).ok());
        let Some(StampLine { local_s, fraction_ns: ns, zone, has_no_date }) = self.dump_time.take() else {
            if self.has_times {
                self.add_skip("a dump without a time");
                return None;
            }
            if self.last_ns.is_none() {
                self.is_counted = step.is_none();
                let (text, basis) = match step {
                    Some(_) => (COUNTED_TIMES_NOTE, TimeBasis::Counted),
                    None => (DUMPS_NOTE, TimeBasis::Reports),
                };
                self.batch.push_note(Note::new(0, Note::WARNING, text));
                self.batch.note_time_basis(basis);
            }
            let step = step.or(length_ns).unwrap_or(REPORT_STEP_NS);
            return Some(self.last_ns.map_or(0, |last_ns| last_ns.saturating_add(step)));
        };
        let mut local = local_s;
        if has_no_date {
            self.midnights += i64::from(local_s + DAY_S / 2 < self.last_clock_s);
            self.last_clock_s = local_s;
            local += self.midnights * DAY_S;
            if !self.has_warned {
                self.has_warned = true;
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

    /// Puts what the only dump tells of the time since boot.
    fn put_facts_since_boot(&mut self) {
        for (counter, value) in self.since_boot.facts() {
            let column = DumpColumn { counter, scale: FACT_STEP, rule: columns::DumpRule::Level };
            if let Some(group) = self.cells.find_group(&[column], "", DumpFamily::Kernel) {
                self.cells.add_numbers(group, std::iter::once(Some((value / FACT_STEP).round() as u64)));
            }
        }
    }

    fn finish_log(mut self) {
        if self.are_times_behind && self.has_times && !self.files.is_empty() {
            self.add_skip("the last dump has no time after it");
            return;
        }
        let is_only = self.dump_number == 1 && !self.files.is_empty();
        let uptime_ns = if is_only { self.uptime_by_processors() } else { None };
        if is_only {
            self.put_facts_since_boot();
        }
        self.finish_dump_since(uptime_ns);
        if self.dump_number == 2 && uptime_ns.is_none() {
            self.add_skip("a single dump holds totals since boot; rates need two dumps");
        }
    }
}

/// Returns the file of a single number.
fn file_of_key(key: &str) -> DumpFile {
    match key {
        _ if key.ends_with(':') => DumpFile::Memory,
        "ctxt" | "intr" | "processes" | "procs_running" | "procs_blocked" | "btime" => DumpFile::Stat,
        _ => DumpFile::Vmstat,
    }
}

/// Returns the columns of a line of a disk; `None` if nothing uses the device.
fn disk_columns<'a>(dump_line: DumpLine<'a>) -> Option<(&'static [columns::DumpColumn], &'a str, DumpFamily)> {
    let (columns, name, family, is_used) = match dump_line {
        DumpLine::Disk(name, numbers) => {
            let columns: &[_] = if line::is_partition(name) { &PARTITION_DISK } else { &DISK };
            let is_used = COMPLETED_POSITIONS.iter().any(|index| numbers[*index].is_some_and(|done| done > 0));
            (columns, name, DumpFamily::Kernel, is_used)
        }
        DumpLine::VmstatDisk(name, numbers) => {
            let is_used = numbers[0] > 0 || numbers[4] > 0;
            (&VMSTAT_DISK[..], name, DumpFamily::Vmstat, is_used)
        }
        _ => return None,
    };
    (is_used || !line::may_be_unbound(name)).then_some((columns, name, family))
}

fn put_numbers(cells: &mut DumpCells, group: usize, dump_line: DumpLine<'_>) {
    match dump_line {
        DumpLine::Disk(name, numbers) if line::is_partition(name) => {
            cells.add_numbers(group, PARTITION_POSITIONS.iter().map(|index| numbers[*index]));
        }
        DumpLine::Disk(_, numbers) => cells.add_numbers(group, numbers.into_iter()),
        DumpLine::VmstatDisk(_, numbers) => cells.add_numbers(group, numbers.into_iter().map(Some)),
        DumpLine::Processor(_, numbers) => cells.add_numbers(group, numbers.into_iter()),
        DumpLine::Load(loads) => cells.add_numbers(group, loads.into_iter().map(Some)),
        DumpLine::Named(_, value) | DumpLine::Summary(value, _) => {
            cells.add_numbers(group, std::iter::once(Some(value)))
        }
        DumpLine::Ignored => {}
    }
}

/// Returns true if times stand behind their dumps: the text before the first time is then a whole dump.
fn are_times_behind(head: &str, order: NumericDateOrder) -> bool {
    let mut counts = vec![0_usize];
    for line in head.lines().filter(|line| !line.trim().is_empty()) {
        match parse_line(line) {
            Some(DumpLine::Ignored) => {}
            Some(_) => counts.last_mut().into_iter().for_each(|count| *count += 1),
            None if parse_stamp(line, order).is_some() => counts.push(0),
            None => {}
        }
    }
    match counts.as_slice() {
        [before, first, ..] if counts.len() > 2 => *before > 0 && before >= first,
        // a single time: behind all lines, or before them
        [before, first] => *before > 0 && *first == 0,
        _ => false,
    }
}
