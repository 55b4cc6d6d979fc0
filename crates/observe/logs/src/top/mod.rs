//! `top -b` of procps: a frame is the text between two of its first lines.
//!
//! ```text
//! top - 17:48:41 up 54 min,  1 user,  load average: 7.93, 5.37, 3.95
//! Tasks:  95 total,   1 running,  94 sleeping,   0 stopped,   0 zombie
//! %Cpu(s):  3.3 us,  1.0 sy,  0.0 ni, 95.4 id,  0.3 wa,  0.0 hi,  0.0 si,  0.0 st
//! MiB Mem :  24105.6 total,  17140.1 free,   2329.0 used,   5037.1 buff/cache
//! ```
//!
//! The first frame of each run gives shares since boot, or over a moment: only its levels are read, unless it is the
//! only frame. Of a frame that was copied in part, any line begins it: frames without times are counted.

mod frame;
mod process_table;

pub(crate) use frame::{parse_first_line, parse_size_bytes};

use std::collections::{HashMap, HashSet};

use diskwright_base::counter_ids::{memory, processor, system};
use diskwright_base::{Note, Topology};

use crate::batch::FrameBatch;
use crate::daylight_clock::DaylightClock;
use crate::error::LogError;
use crate::first_report::{self, REPORT_STEP_NS};
use crate::level_row::LevelRow;
use crate::stamp_line::{StampLine, parse_stamp};
use crate::sysstat::clock::{SysstatClock, ZoneHint};
use crate::sysstat::impossible_clock;
use crate::sysstat::stream_window::StreamWindow;
use crate::sysstat::time::{self, DAY_S, NumericDateOrder};
use crate::value_limits::ShareFault;
use crate::{InputHead, LogFormat, LogInput, LogOptions, TimeBasis};
use process_table::TopTable;

/// The format.
pub static FORMAT: LogFormat = LogFormat {
    id: "top-text",
    title: "top -b of procps: text",
    explain: "Processor, memory, load, and processes as process tables; no disks. Shares of the first frame of each \
              run cover the time since boot and are omitted, so `top -b -n 1` in a loop shows only levels; a single \
              frame is read whole, also one of busybox, or a part of one. Record \
              with `date > FILE; top -b -d 10 >> FILE`: frames have a time of day and no date. `-H` shows threads, \
              which do not become process tables.",
    recognize: is_top_text,
    read,
};

/// Returns true for a head with a frame, or a part of one: processors, or processes below their headings.
fn is_top_text(head: &InputHead<'_>) -> bool {
    let (mut is_begun, mut has_heading, mut row_count) = (false, false, 0);
    let mut is_behind_busybox = false;
    head.text_lines().any(|line| {
        let is_behind_first = std::mem::replace(&mut is_begun, frame::parse_first_line(&line).is_some());
        let is_heading = process_table::is_heading(&line, false);
        has_heading |= is_heading;
        // the rows of BusyBox have no state in the eighth column
        let is_busybox_row =
            is_behind_busybox && line.split_whitespace().next().is_some_and(|pid| pid.parse::<u32>().is_ok());
        is_behind_busybox = is_heading && line.contains("%VSZ");
        row_count += usize::from(is_busybox_row);
        row_count += usize::from(process_table::is_row(&line));
        let is_table = row_count > 1 || row_count > 0 && has_heading;
        is_behind_first && frame::parse_tasks(&line).is_some() || frame::parse_processor(&line).is_some() || is_table
    })
}

const SINCE_BOOT: &str = "shares of the first frame of a run of top cover the time since boot";
const SINGLE_FRAME_NOTE: &str = "a single frame of top shows a moment, or the time since boot where its first frame \
                                 does; give it an interval and a count of 10";
const NO_DATE_NOTE: &str = "top prints no date: times are counted from 1970; durations are right, days are not (a \
                            `date` before it shows the day)";

/// Offsets of zones from UTC are multiples of this, seconds.
const ZONE_STEP_S: i64 = 900;
/// Largest offset west of UTC, seconds.
const MAX_WEST_S: i64 = 41 * ZONE_STEP_S;

/// Reads all of an input.
fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let head = String::from_utf8_lossy(input.head().bytes).into_owned();
    let mut stream = StreamWindow::new(input);
    let mut log = TopLog {
        batch,
        clock: SysstatClock::new(options),
        daylight: DaylightClock::default(),
        order: time::guess_date_order(&head, ""),
        row: LevelRow::default(),
        table: TopTable::default(),
        clock_s: None,
        uptime_s: None,
        day: None,
        utc_s: None,
        has_frame: false,
        has_processors: false,
        has_clocks: false,
        held: None,
        frame_count: 0,
        shares: Vec::new(),
        clock_note_is_due: false,
        options,
        is_first_frame: true,
        is_behind_blank: true,
        lacks_blanks: !head.lines().any(|line| line.trim().is_empty()),
        is_behind_time: false,
        last_clock_s: 0,
        last_ns: None,
        is_announced: false,
        line_number: 0,
    };
    while let Some(text) = stream.next_text_line(log.batch, &mut log.line_number)? {
        log.read_line(&text);
    }
    if log.batch.is_stopped() {
        return Ok(());
    }
    log.finish_frame();
    log.emit_held_frame(true);
    log.table.emit_table(log.batch, log.last_ns);
    Ok(())
}

/// A frame with everything that may be of the time since boot.
struct HeldFrame {
    time_ns: i64,
    values: Vec<f64>,
    /// Shares of processors, percent.
    shares: Vec<(&'static str, String, f64)>,
    line: u64,
}

struct TopLog<'b, 'c> {
    batch: &'c mut FrameBatch<'b>,
    clock: SysstatClock,
    daylight: DaylightClock,
    order: NumericDateOrder,
    row: LevelRow,
    table: TopTable,
    /// Time of day of this frame; `None` if it has none.
    clock_s: Option<i64>,
    /// Time since the start of the machine in the frame's first line.
    uptime_s: Option<i64>,
    /// Set once a line of the frame was read.
    has_frame: bool,
    /// Set once a line of processors was read in this frame.
    has_processors: bool,
    /// Set once a frame had its time.
    has_clocks: bool,
    /// The first frame, held until it is known whether there is a second.
    held: Option<HeldFrame>,
    /// Frames so far.
    frame_count: u64,
    /// Shares of processors in this frame, percent.
    shares: Vec<(&'static str, String, f64)>,
    /// Set if the first frame has a time without a date, which is still to be reported.
    clock_note_is_due: bool,
    options: &'c LogOptions,
    /// Days since 1970 of the frame, and the zone, if a date gave them.
    day: Option<(i64, ZoneHint)>,
    /// UTC time above the next frame, seconds since 1970.
    utc_s: Option<i64>,
    /// Set for the first frame of a run.
    is_first_frame: bool,
    is_behind_blank: bool,
    /// Set if the text has no blank line, which was lost where it was copied.
    lacks_blanks: bool,
    is_behind_time: bool,
    last_clock_s: i64,
    last_ns: Option<i64>,
    is_announced: bool,
    line_number: u64,
}

impl TopLog<'_, '_> {
    fn add_skip(&mut self, because: &str) {
        self.batch.add_skip(format!("line {}", self.line_number), because);
    }

    fn read_line(&mut self, text: &str) {
        if text.trim().is_empty() {
            self.is_behind_blank = true;
            return;
        }
        if let Some(first) = frame::parse_first_line(text) {
            let is_of_uptime = !text.trim_start().starts_with("top");
            // the line of uptime below the rest of a frame tells its load
            if !(is_of_uptime && self.has_frame && self.clock_s.is_none()) {
                self.finish_frame();
                self.begin_frame();
                self.clock_s = Some(first.clock_s);
                self.uptime_s = first.uptime_s;
                self.has_clocks = true;
            }
            (self.is_behind_time, self.is_behind_blank) = (false, false);
            for (counter, load) in [system::LOAD_1, system::LOAD_5, system::LOAD_15].iter().zip(first.loads) {
                self.row.put_value(counter, "", load);
            }
            return;
        }
        self.is_behind_blank = false;
        if self.read_frame_line(text) {
            return;
        }
        match parse_stamp(text, self.order) {
            Some(stamp) => {
                // a loop of `date` and top
                self.is_behind_time = true;
                if !stamp.has_no_date {
                    self.finish_frame();
                    self.set_date(&stamp);
                }
            }
            None => self.add_skip(impossible_clock::skip_reason(text, "a line that is not of top")),
        }
    }

    fn set_date(&mut self, stamp: &StampLine) {
        self.utc_s = Some(stamp.local_s).filter(|_| stamp.zone == ZoneHint::Offset(0));
        self.day = Some((stamp.local_s.div_euclid(DAY_S), stamp.zone.clone()));
        // the next frame may be past midnight already
        self.last_clock_s = stamp.local_s.rem_euclid(DAY_S);
    }

    /// Derives the day and the zone of a frame right below a time of UTC (`date +%s`, `date -u`): the frame's clock is
    /// local.
    fn derive_zone(&mut self, utc_s: i64, clock: i64) {
        let ahead_s = (clock - utc_s + MAX_WEST_S).rem_euclid(DAY_S) - MAX_WEST_S;
        let offset_s = (ahead_s + ZONE_STEP_S / 2).div_euclid(ZONE_STEP_S) * ZONE_STEP_S;
        let local_s = utc_s + offset_s;
        self.day = Some((local_s.div_euclid(DAY_S), ZoneHint::Offset(offset_s)));
        self.last_clock_s = local_s.rem_euclid(DAY_S);
    }

    /// Begins a frame.
    fn begin_frame(&mut self) {
        self.has_frame = true;
        self.has_processors = false;
        // within a run only a blank line separates frames
        let is_apart = self.is_behind_blank || self.lacks_blanks;
        self.is_first_frame = self.frame_count == 0 || self.has_clocks && (!is_apart || self.is_behind_time);
    }

    /// Begins a frame at a line that stands once in each, unless it belongs to the frame that is open.
    fn begin_frame_at(&mut self, is_repeated: bool) {
        if self.has_frame && is_repeated && self.clock_s.is_none() {
            self.finish_frame();
        }
        if !self.has_frame {
            self.begin_frame();
        }
    }

    /// Reads a line of a frame; returns false for other lines.
    fn read_frame_line(&mut self, text: &str) -> bool {
        if let Some(tasks) = frame::parse_tasks(text) {
            self.begin_frame_at(self.has_processors || !self.table.headings.is_empty());
            self.table.is_threads = tasks.is_threads;
            return true;
        }
        if let Some((processor, shares)) = frame::parse_processor(text) {
            let is_first = matches!(processor.as_str(), "_total" | "cpu0");
            self.begin_frame_at(is_first && self.has_processors);
            self.has_processors = true;
            self.read_processor(&processor, &shares);
            return true;
        }
        if let Some(sizes) = frame::parse_memory(text) {
            self.begin_frame_at(!self.table.headings.is_empty());
            for (counter, bytes) in sizes {
                self.row.put_value(counter, "", bytes);
            }
            return true;
        }
        if let Some(loads) = frame::parse_busybox_load(text) {
            for (counter, load) in [system::LOAD_1, system::LOAD_5, system::LOAD_15].iter().zip(loads) {
                self.row.put_value(counter, "", load);
            }
            return true;
        }
        if process_table::is_heading(text, self.has_frame) {
            self.begin_frame_at(!self.table.headings.is_empty());
            self.table.read_heading(text);
            return true;
        }
        if process_table::is_row(text) {
            self.begin_frame_at(false);
        }
        match self.table.read_row(text) {
            Some(Ok(())) => true,
            Some(Err(because)) => {
                self.add_skip(because);
                true
            }
            None => false,
        }
    }

    fn read_processor(&mut self, name: &str, shares: &[(&'static str, f64)]) {
        let values: Vec<f64> = shares.iter().map(|(_, share)| *share).collect();
        let has_steal = shares.iter().any(|(counter, _)| *counter == processor::STEAL);
        // a line that was cut lacks its last shares
        let fault = crate::value_limits::find_percent_fault(&values);
        if let Some(fault) = fault.filter(|fault| has_steal || *fault != ShareFault::Sum) {
            return self.add_skip(fault.to_reason());
        }
        self.shares.extend(shares.iter().map(|(counter, share)| (*counter, name.to_owned(), *share)));
    }

    /// Puts the frame's shares of time into the row. Without a line for all processors they are the mean of each.
    fn put_shares(&mut self, shares: &[(&'static str, String, f64)]) {
        let has_total = shares.iter().any(|(_, name, _)| name == "_total");
        let processors = shares.iter().map(|(_, name, _)| name).collect::<HashSet<_>>().len();
        let mut sums: HashMap<&'static str, f64> = HashMap::new();
        for (counter, name, share) in shares {
            self.row.put_value(counter, name, share / 100.0);
            *sums.entry(counter).or_default() += share / 100.0;
        }
        if !has_total {
            sums.into_iter().for_each(|(counter, sum)| self.row.put_value(counter, "_total", sum / processors as f64));
        }
    }

    /// Ends the frame: the first is held, each later one is emitted as a tick.
    fn finish_frame(&mut self) {
        if !std::mem::take(&mut self.has_frame) {
            return;
        }
        self.table.headings.clear();
        let shares = std::mem::take(&mut self.shares);
        let Some(time_ns) = self.frame_time() else {
            self.row.clear();
            self.table.drop_frame();
            return;
        };
        let since = self.last_ns.map_or(0, |last| time_ns.saturating_sub(last));
        self.last_ns = Some(time_ns);
        self.frame_count += 1;
        if self.frame_count == 1 {
            self.held = Some(HeldFrame { time_ns, values: self.row.take_values(), shares, line: self.line_number });
            self.table.hold_frame();
            return;
        }
        self.emit_held_frame(false);
        let elapsed_ns = since.unsigned_abs();
        if self.is_first_frame {
            self.add_skip(SINCE_BOOT);
        } else {
            self.put_shares(&shares);
            self.table.put_kernel_threads(&mut self.row);
        }
        self.row.emit_tick(self.batch, time_ns, Some(elapsed_ns));
        self.table.finish_frame(self.batch, time_ns, elapsed_ns as f64 * 1e-9, self.is_first_frame);
    }

    /// Emits the first frame: whole if it is the only one, else without what may be of the time since boot.
    fn emit_held_frame(&mut self, is_only: bool) {
        let Some(held) = self.held.take() else { return };
        let current = self.row.replace_values(&held.values);
        if !self.is_announced {
            self.is_announced = true;
            let memory_bytes = self.row.counter_value(memory::TOTAL_BYTES, "").unwrap_or(0.0) as u64;
            let names: HashSet<&String> = held.shares.iter().map(|(_, name, _)| name).collect();
            let processors = names.iter().filter(|name| name.as_str() != "_total").count() as u32;
            let topology = Topology { memory_bytes, processors, ..Topology::default() };
            self.batch.push_topology(held.time_ns, &topology);
            if self.clock_note_is_due {
                self.batch.push_note(Note::new(held.time_ns, Note::WARNING, NO_DATE_NOTE));
            }
        }
        if is_only {
            self.batch.push_note(Note::new(held.time_ns, Note::WARNING, SINGLE_FRAME_NOTE));
            self.put_shares(&held.shares);
            self.table.put_held_kernel_threads(&mut self.row);
        } else {
            self.batch.add_skip(format!("line {}", held.line), SINCE_BOOT);
        }
        let blocked = self.table.held_blocked_count();
        // a list of the busiest processes does not show all that are blocked
        if blocked > 0 {
            self.row.put_value(system::BLOCKED, "", blocked as f64);
        }
        let elapsed_ns = if is_only { REPORT_STEP_NS.unsigned_abs() } else { 0 };
        self.row.emit_tick(self.batch, held.time_ns, Some(elapsed_ns));
        self.table.finish_held_frame(is_only);
        self.row.replace_values(&current);
    }

    /// Returns the time of the frame; `None` if it is not later than the one before.
    fn frame_time(&mut self) -> Option<i64> {
        let Some(clock) = self.clock_s.take() else {
            let step = self.options.interval.and_then(|step| i64::try_from(step.as_nanos()).ok());
            if self.last_ns.is_none() {
                let basis = if step.is_some() { TimeBasis::Counted } else { TimeBasis::Reports };
                self.batch.note_time_basis(basis);
                self.batch.push_note(Note::new(0, Note::WARNING, first_report::REPORTS_NOTE));
            }
            return Some(self.last_ns.map_or(0, |last| last.saturating_add(step.unwrap_or(REPORT_STEP_NS))));
        };
        if let Some(utc_s) = self.utc_s.take() {
            self.derive_zone(utc_s, clock);
        }
        // a clock that goes back by half a day has passed midnight
        let midnights = i64::from(clock + DAY_S / 2 < self.last_clock_s);
        self.last_clock_s = clock;
        let (day, zone) = self.day.get_or_insert((0, ZoneHint::Missing));
        *day += midnights;
        let (is_dated, zone, local) = (*day > 365, zone.clone(), *day * DAY_S + clock);
        let time_ns = self.clock.utc_ns(local, &zone, self.batch);
        let time_ns = self.daylight.resolve_time(time_ns, local.saturating_mul(1_000_000_000), self.batch);
        self.clock_note_is_due = !is_dated;
        if let Some(uptime_s) = self.uptime_s.take() {
            self.batch.note_uptime(time_ns, uptime_s);
        }
        if self.last_ns.is_some_and(|last| time_ns <= last) {
            self.add_skip("a frame that is not later than the previous one");
            return None;
        }
        Some(time_ns)
    }
}
