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
mod table;

use diskwright_base::{Note, Topology};

use crate::batch::FrameBatch;
use crate::daylight::DaylightClock;
use crate::error::LogError;
use crate::levels::LevelRow;
use crate::stamp::{StampLine, stamp};
use crate::sysstat::clock::{SysstatClock, ZoneHint};
use crate::sysstat::stream::StreamWindow;
use crate::sysstat::time::{self, DAY, NumericDateOrder};
use crate::{InputHead, LogFormat, LogInput, LogOptions};
use table::TopTable;

/// The format.
pub static FORMAT: LogFormat = LogFormat {
    id: "top-text",
    title: "top -b of procps: text",
    explain: "Processor, memory, load, and processes as process tables; no disks. Shares of the first frame of each \
              run cover the time since boot and are omitted, so `top -b -n 1` in a loop shows only levels. Record \
              with `date > FILE; top -b -d 10 >> FILE`: frames have a time of day and no date. `-H` shows threads, \
              which do not become process tables.",
    recognise: |head: &InputHead<'_>| {
        let mut is_begun = false;
        head.lines().any(|line| {
            std::mem::replace(&mut is_begun, frame::first_line(&line).is_some()) && frame::tasks(&line).is_some()
        })
    },
    read,
};

const NO_DAY: &str = "top prints no date: times are counted from 1970; durations are right, days are not (a `date` \
                      before it shows the day)";

/// Offsets of zones from UTC are multiples of this, seconds …
const QUARTER: i64 = 900;
/// … and no zone is further west.
const WEST: i64 = 41 * QUARTER;

/// Reads all of an input.
fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let head = String::from_utf8_lossy(input.head().bytes).into_owned();
    let mut stream = StreamWindow::new(input);
    let mut log = TopLog {
        batch,
        clock: SysstatClock::new(options),
        daylight: DaylightClock::default(),
        order: time::order(&head, ""),
        row: LevelRow::default(),
        table: TopTable::default(),
        now: None,
        day: None,
        utc_s: None,
        is_first: true,
        is_blank: true,
        is_foreign: false,
        last_clock: 0,
        last_ns: None,
        is_announced: false,
        line: 0,
    };
    while let Some(text) = stream.text_line(log.batch, &mut log.line)? {
        log.read_line(&text);
    }
    if log.batch.is_stopped() {
        return Ok(());
    }
    log.finish();
    log.table.finish(log.batch, log.last_ns);
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
    now: Option<i64>,
    /// Days since 1970 of the frame, and the zone, where a date gave them.
    day: Option<(i64, ZoneHint)>,
    /// UTC time above the next frame, seconds since 1970.
    utc_s: Option<i64>,
    /// Set for the first frame of a run.
    is_first: bool,
    is_blank: bool,
    is_foreign: bool,
    last_clock: i64,
    last_ns: Option<i64>,
    is_announced: bool,
    line: u64,
}

impl TopLog<'_, '_> {
    fn skip(&mut self, because: &str) {
        self.batch.skip(format!("line {}", self.line), because);
    }

    fn read_line(&mut self, text: &str) {
        if text.trim().is_empty() {
            self.is_blank = true;
            return;
        }
        if let Some(first) = frame::first_line(text) {
            self.finish();
            // within a run only a blank line separates frames
            self.is_first = self.last_ns.is_none() || !self.is_blank || self.is_foreign;
            (self.is_foreign, self.is_blank) = (false, false);
            if self.is_first {
                self.skip("shares of the first frame of a run of top cover the time since boot");
            }
            for (counter, load) in ["system.load_1", "system.load_5", "system.load_15"].iter().zip(first.loads) {
                self.row.put(counter, "", load);
            }
            self.now = Some(first.clock);
            return;
        }
        self.is_blank = false;
        if self.now.is_some() && self.of_frame(text) {
            return;
        }
        match stamp(text, self.order) {
            Some(found) => {
                // a loop of `date` and top
                self.is_foreign = true;
                if !found.is_of_no_day {
                    self.finish();
                    self.dated(&found);
                }
            }
            None => self.skip("a line that is not of top"),
        }
    }

    fn dated(&mut self, found: &StampLine) {
        self.utc_s = Some(found.local_s).filter(|_| found.zone == ZoneHint::Offset(0));
        self.day = Some((found.local_s.div_euclid(DAY), found.zone.clone()));
        // the next frame may be past midnight already
        self.last_clock = found.local_s.rem_euclid(DAY);
    }

    /// Derives the day and the zone of a frame right below a time of UTC (`date +%s`, `date -u`): the frame's clock is
    /// local.
    fn below_utc(&mut self, utc_s: i64, clock: i64) {
        let ahead_s = (clock - utc_s + WEST).rem_euclid(DAY) - WEST;
        let offset_s = (ahead_s + QUARTER / 2).div_euclid(QUARTER) * QUARTER;
        let local_s = utc_s + offset_s;
        self.day = Some((local_s.div_euclid(DAY), ZoneHint::Offset(offset_s)));
        self.last_clock = local_s.rem_euclid(DAY);
    }

    /// Reads a line of a frame; returns false where it is none.
    fn of_frame(&mut self, text: &str) -> bool {
        if let Some(tasks) = frame::tasks(text) {
            self.table.is_of_threads = tasks.is_of_threads;
            return true;
        }
        if let Some((processor, shares)) = frame::processor(text) {
            self.processor(&processor, &shares);
            return true;
        }
        if let Some(sizes) = frame::memory(text) {
            for (counter, bytes) in sizes {
                self.row.put(counter, "", bytes);
            }
            return true;
        }
        if self.table.heading(text) {
            return true;
        }
        match self.table.row(text, self.is_first) {
            Some(Ok(())) => true,
            Some(Err(because)) => {
                self.skip(because);
                true
            }
            None => false,
        }
    }

    fn processor(&mut self, name: &str, shares: &[(&'static str, f64)]) {
        if self.is_first {
            return;
        }
        let values: Vec<f64> = shares.iter().map(|(_, share)| *share).collect();
        if let Some(fault) = crate::plausible::percent_fault(&values) {
            return self.skip(fault.words());
        }
        for (counter, share) in shares {
            self.row.put(counter, name, share / 100.0);
        }
    }

    /// Emits a tick for the frame.
    fn finish(&mut self) {
        let Some(clock) = self.now.take() else { return };
        self.table.headings.clear();
        if let Some(utc_s) = self.utc_s.take() {
            self.below_utc(utc_s, clock);
        }
        // a clock that goes back by half a day has passed midnight
        let passed = i64::from(clock + DAY / 2 < self.last_clock);
        self.last_clock = clock;
        let (day, zone) = self.day.get_or_insert((0, ZoneHint::Nothing));
        *day += passed;
        let (is_dated, zone, local) = (*day > 365, zone.clone(), *day * DAY + clock);
        let time_ns = self.clock.utc_ns(local, &zone, self.batch);
        let time_ns = self.daylight.place(time_ns, local.saturating_mul(1_000_000_000), self.batch);
        let since = self.last_ns.map_or(0, |last| time_ns.saturating_sub(last));
        if self.last_ns.is_some() && since <= 0 {
            self.row.clear();
            self.table.drop_frame();
            return self.skip("a frame that is not later than the previous one");
        }
        if !self.is_announced {
            self.is_announced = true;
            let memory_bytes = self.row.value("memory.total_bytes", "").unwrap_or(0.0) as u64;
            self.batch.topology(time_ns, &Topology { memory_bytes, ..Topology::default() });
            if !is_dated {
                self.batch.note(Note::new(time_ns, Note::WARNING, NO_DAY));
            }
        }
        let elapsed_ns = since.unsigned_abs();
        self.row.emit(self.batch, time_ns, Some(elapsed_ns));
        self.last_ns = Some(time_ns);
        self.table.end_of_frame(self.batch, time_ns, elapsed_ns as f64 * 1e-9, self.is_first);
    }
}
