//! `top -b` of procps: a frame is the text between two of its first lines.
//!
//! ```text
//! top - 17:48:41 up 54 min,  1 user,  load average: 7.93, 5.37, 3.95
//! Tasks:  95 total,   1 running,  94 sleeping,   0 stopped,   0 zombie
//! %Cpu(s):  3.3 us,  1.0 sy,  0.0 ni, 95.4 id,  0.3 wa,  0.0 hi,  0.0 si,  0.0 st
//! MiB Mem :  24105.6 total,  17140.1 free,   2329.0 used,   5037.1 buff/cache
//! ```
//!
//! The first frame of each run gives shares since boot, or over a moment: only its levels are read.

mod frame;
mod process_table;

use diskwright_base::counter_ids::{memory, system};
use diskwright_base::{Note, Topology};

use crate::batch::FrameBatch;
use crate::daylight_clock::DaylightClock;
use crate::error::LogError;
use crate::level_row::LevelRow;
use crate::stamp_line::{StampLine, parse_stamp};
use crate::sysstat::clock::{SysstatClock, ZoneHint};
use crate::sysstat::stream_window::StreamWindow;
use crate::sysstat::time::{self, DAY_S, NumericDateOrder};
use crate::{InputHead, LogFormat, LogInput, LogOptions};
use process_table::TopTable;

/// The format.
pub static FORMAT: LogFormat = LogFormat {
    id: "top-text",
    title: "top -b of procps: text",
    explain: "Processor, memory, load, and processes as process tables; no disks. Shares of the first frame of each \
              run cover the time since boot and are omitted, so `top -b -n 1` in a loop shows only levels. Record \
              with `date > FILE; top -b -d 10 >> FILE`: frames have a time of day and no date. `-H` shows threads, \
              which do not become process tables.",
    recognize: |head: &InputHead<'_>| {
        let mut is_begun = false;
        head.text_lines().any(|line| {
            std::mem::replace(&mut is_begun, frame::parse_first_line(&line).is_some())
                && frame::parse_tasks(&line).is_some()
        })
    },
    read,
};

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
        day: None,
        utc_s: None,
        is_first_frame: true,
        is_behind_blank: true,
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
    log.table.emit_table(log.batch, log.last_ns);
    Ok(())
}

struct TopLog<'b, 'c> {
    batch: &'c mut FrameBatch<'b>,
    clock: SysstatClock,
    daylight: DaylightClock,
    order: NumericDateOrder,
    row: LevelRow,
    table: TopTable,
    /// Time of day of this frame; `None` before the first.
    clock_s: Option<i64>,
    /// Days since 1970 of the frame, and the zone, if a date gave them.
    day: Option<(i64, ZoneHint)>,
    /// UTC time above the next frame, seconds since 1970.
    utc_s: Option<i64>,
    /// Set for the first frame of a run.
    is_first_frame: bool,
    is_behind_blank: bool,
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
            self.finish_frame();
            // within a run only a blank line separates frames
            self.is_first_frame = self.last_ns.is_none() || !self.is_behind_blank || self.is_behind_time;
            (self.is_behind_time, self.is_behind_blank) = (false, false);
            if self.is_first_frame {
                self.add_skip("shares of the first frame of a run of top cover the time since boot");
            }
            for (counter, load) in [system::LOAD_1, system::LOAD_5, system::LOAD_15].iter().zip(first.loads) {
                self.row.put_value(counter, "", load);
            }
            self.clock_s = Some(first.clock_s);
            return;
        }
        self.is_behind_blank = false;
        if self.clock_s.is_some() && self.read_frame_line(text) {
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
            None => self.add_skip("a line that is not of top"),
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

    /// Reads a line of a frame; returns false for other lines.
    fn read_frame_line(&mut self, text: &str) -> bool {
        if let Some(tasks) = frame::parse_tasks(text) {
            self.table.is_threads = tasks.is_threads;
            return true;
        }
        if let Some((processor, shares)) = frame::parse_processor(text) {
            self.read_processor(&processor, &shares);
            return true;
        }
        if let Some(sizes) = frame::parse_memory(text) {
            for (counter, bytes) in sizes {
                self.row.put_value(counter, "", bytes);
            }
            return true;
        }
        if self.table.read_heading(text) {
            return true;
        }
        match self.table.read_row(text, self.is_first_frame) {
            Some(Ok(())) => true,
            Some(Err(because)) => {
                self.add_skip(because);
                true
            }
            None => false,
        }
    }

    fn read_processor(&mut self, name: &str, shares: &[(&'static str, f64)]) {
        if self.is_first_frame {
            return;
        }
        let values: Vec<f64> = shares.iter().map(|(_, share)| *share).collect();
        if let Some(fault) = crate::value_limits::find_percent_fault(&values) {
            return self.add_skip(fault.to_reason());
        }
        for (counter, share) in shares {
            self.row.put_value(counter, name, share / 100.0);
        }
    }

    /// Emits a tick for the frame.
    fn finish_frame(&mut self) {
        let Some(clock) = self.clock_s.take() else { return };
        self.table.headings.clear();
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
        let since = self.last_ns.map_or(0, |last| time_ns.saturating_sub(last));
        if self.last_ns.is_some() && since <= 0 {
            self.row.clear();
            self.table.drop_frame();
            return self.add_skip("a frame that is not later than the previous one");
        }
        if !self.is_announced {
            self.is_announced = true;
            let memory_bytes = self.row.counter_value(memory::TOTAL_BYTES, "").unwrap_or(0.0) as u64;
            self.batch.push_topology(time_ns, &Topology { memory_bytes, ..Topology::default() });
            if !is_dated {
                self.batch.push_note(Note::new(time_ns, Note::WARNING, NO_DATE_NOTE));
            }
        }
        let elapsed_ns = since.unsigned_abs();
        self.row.emit_tick(self.batch, time_ns, Some(elapsed_ns));
        self.last_ns = Some(time_ns);
        self.table.finish_frame(self.batch, time_ns, elapsed_ns as f64 * 1e-9, self.is_first_frame);
    }
}
