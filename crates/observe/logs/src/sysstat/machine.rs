//! The machine according to a log's head, times of reports, and messages that several readers share.

use std::time::Duration;

use diskwright_base::{Note, Topology};

use super::time::{self, DAY_S, NumericDateOrder};
use crate::first_report::{REPORT_STEP, REPORTS_NOTE};
use crate::{FrameBatch, TimeBasis};

/// Facts about the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SysstatMachine<'a> {
    /// Host name.
    pub host: &'a str,
    /// Kernel release.
    pub kernel: &'a str,
    /// Processors; 0 is unknown.
    pub processors: u32,
    /// Physical memory, if a report gives it.
    pub memory_bytes: Option<f64>,
    /// Date in the log's head.
    pub date: &'a str,
}

impl SysstatMachine<'_> {
    /// Text of the note about reports without times.
    pub const COUNTED_TIMES_NOTE: &'static str = "the reports have no timestamps: they are counted from midnight UTC \
                                                    of the log's date with the given interval (iostat -t prints \
                                                    times); durations are right, times of day are not";
    /// Text of the skip if the line with the date is missing.
    pub const NO_DATE_NOTE: &'static str = "sysstat's header has no date: times are counted from 1970-01-01";
    /// Text of the note about reports of which only the first of each start has a time.
    pub const SPACED_TIMES_NOTE: &'static str = "only the first report of each start has a timestamp: those behind \
                                                   it are counted one second apart (--interval sets the true \
                                                   interval)";

    /// Text of the note at a restart.
    pub const RESTART_NOTE: &'static str = "the machine was restarted";

    /// Converts it to a topology without devices: the log does not show how they are stacked.
    pub fn to_topology(self) -> Topology {
        Topology {
            host: self.host.to_owned(),
            kernel: self.kernel.to_owned(),
            processors: self.processors,
            memory_bytes: self.memory_bytes.map_or(0, |bytes| bytes as u64),
            ..Topology::default()
        }
    }

    /// Returns the start of reports without times: midnight of the log's date.
    pub fn midnight_ns(&self, order: NumericDateOrder) -> i64 {
        let days = time::parse_date(self.date, order).map_or(0, |read| read.date.days_since_epoch());
        days.saturating_mul(DAY_S).saturating_mul(1_000_000_000)
    }

    /// Returns the days since 1970 that the date in a log's head may be; none if it has no date.
    pub fn possible_days(date: &str, order: NumericDateOrder) -> Vec<i64> {
        let Some(read) = time::parse_date(date, order) else { return Vec::new() };
        let swapped = match order {
            NumericDateOrder::MonthFirst => NumericDateOrder::DayFirst,
            NumericDateOrder::DayFirst => NumericDateOrder::MonthFirst,
        };
        let other = time::parse_date(date, swapped).filter(|_| read.is_guess);
        std::iter::once(read).chain(other).map(|read| read.date.days_since_epoch()).collect()
    }

    /// Returns the text of the note about a date whose day and month could be swapped; `None` if they could not.
    pub fn date_guess_note(date: &str, order: NumericDateOrder) -> Option<String> {
        let order_name = match order {
            NumericDateOrder::MonthFirst => "month before day",
            NumericDateOrder::DayFirst => "day before month",
        };
        let is_guess = time::parse_date(date, order).is_some_and(|read| read.is_guess);
        is_guess.then(|| format!("the date {date} was read {order_name}; S_TIME_FORMAT=ISO leaves no doubt"))
    }
}

/// Assumption about the times of reports, if the log does not give them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssumedTimes {
    /// Only the first report of each start has a time; those behind it are counted a second apart.
    Spaced,
    /// No report has a time; they are counted with the given interval.
    Counted,
    /// No report has a time, and the interval is not known; reports are counted.
    Reports,
}

impl AssumedTimes {
    /// Returns the text of its note.
    pub fn to_note(self) -> &'static str {
        match self {
            AssumedTimes::Spaced => SysstatMachine::SPACED_TIMES_NOTE,
            AssumedTimes::Counted => SysstatMachine::COUNTED_TIMES_NOTE,
            AssumedTimes::Reports => REPORTS_NOTE,
        }
    }

    /// Hands the assumption on to the log.
    pub fn note_assumption(self, batch: &mut FrameBatch<'_>, time_ns: i64) {
        match self {
            AssumedTimes::Spaced => {}
            AssumedTimes::Counted => batch.note_time_basis(TimeBasis::Counted),
            AssumedTimes::Reports => batch.note_time_basis(TimeBasis::Reports),
        }
        batch.push_note(Note::new(time_ns, Note::WARNING, self.to_note()));
    }
}

/// Times of reports: each may have its time, or only the first of each start of the tool, or none.
#[derive(Default)]
pub struct ReportClock {
    /// Time on a line of its own, before the tool was started or before a report.
    start_ns: Option<i64>,
    /// Time of the previous report of this start.
    previous_ns: Option<i64>,
    /// Latest time of all reports.
    latest_ns: Option<i64>,
    /// Set if nothing gave the time of this start.
    is_counted: bool,
    /// Assumption that the reader has not reported yet.
    warning: Option<AssumedTimes>,
    /// Assumptions that need no second report.
    warned: Vec<AssumedTimes>,
}

impl ReportClock {
    /// Assumed interval of reports behind a time, if neither the log nor the user gives it.
    const DEFAULT_SPACING: Duration = Duration::from_secs(1);

    /// Sets a time that stands on a line of its own.
    pub fn set_printed_time(&mut self, time_ns: i64) {
        self.start_ns = Some(time_ns);
    }

    /// Begins a start of the tool: its first report is no difference to those before.
    pub fn begin_start(&mut self) {
        self.previous_ns = None;
    }

    /// Skips a report because it covers the time since boot.
    /// `printed` is its own time, or the one on a line above it.
    pub fn skip_report(&mut self, printed: Option<i64>, interval: Option<Duration>) {
        self.previous_ns = printed;
        self.is_counted = self.previous_ns.is_none();
        if self.is_counted {
            // later starts continue where the earlier ended
            self.previous_ns = self.latest_ns.map(|latest_ns| add_step(latest_ns, interval.unwrap_or(REPORT_STEP)));
        }
    }

    /// Returns true if a time stands above the report that comes next.
    pub fn has_printed_time(&self) -> bool {
        self.start_ns.is_some()
    }

    /// Takes the time on a line of its own above the report that comes next.
    pub fn take_printed_time(&mut self) -> Option<i64> {
        self.start_ns.take()
    }

    /// Returns the time of the next report and the time that it covers. Reports without any time are counted from
    /// `midnight_ns`, or if their interval is not known, one second each from 1970.
    pub fn next(&mut self, printed: Option<i64>, interval: Option<Duration>, midnight_ns: i64) -> (i64, Option<u64>) {
        let report_ns = printed.or_else(|| self.start_ns.take());
        let time_ns = match (report_ns, self.previous_ns) {
            (Some(report_ns), _) => report_ns,
            (None, Some(previous_ns)) if !self.is_counted => {
                if interval.is_none() {
                    self.warn_once(AssumedTimes::Spaced);
                }
                add_step(previous_ns, interval.unwrap_or(Self::DEFAULT_SPACING))
            }
            (None, previous_ns) => {
                self.warn_once(if interval.is_some() { AssumedTimes::Counted } else { AssumedTimes::Reports });
                self.is_counted = true;
                let start_ns = if interval.is_some() { midnight_ns } else { 0 };
                add_step(previous_ns.unwrap_or(start_ns), interval.unwrap_or(REPORT_STEP))
            }
        };
        let since = self.previous_ns.map(|previous_ns| time_ns.saturating_sub(previous_ns)).filter(|since| *since > 0);
        self.previous_ns = Some(time_ns);
        self.latest_ns = self.latest_ns.max(self.previous_ns);
        let step = interval.or(self.is_counted.then_some(REPORT_STEP));
        (time_ns, since.map(i64::unsigned_abs).or(step.map(|step| step.as_nanos() as u64)))
    }

    fn warn_once(&mut self, assumed: AssumedTimes) {
        if !self.warned.contains(&assumed) {
            self.warned.push(assumed);
            self.warning = Some(assumed);
        }
    }

    /// Returns the assumption about the times that must be reported, once.
    pub fn take_warning(&mut self) -> Option<AssumedTimes> {
        self.warning.take()
    }
}

/// Days by which times of day have passed the date in a head.
#[derive(Default)]
pub struct HeadDays {
    day_count: i64,
    last_s: Option<i64>,
}

impl HeadDays {
    /// Resolves a time of day that was read with the head's date: half a day back means that midnight has passed.
    pub fn resolve_time(&mut self, local_s: i64) -> i64 {
        let same_day = local_s.saturating_add(self.day_count * DAY_S);
        let is_midnight = self.last_s.is_some_and(|last| same_day.saturating_add(DAY_S / 2) < last);
        self.day_count += i64::from(is_midnight);
        let moment = same_day.saturating_add(if is_midnight { DAY_S } else { 0 });
        self.last_s = Some(moment);
        moment
    }
}

fn add_step(previous_ns: i64, step: Duration) -> i64 {
    previous_ns.saturating_add(i64::try_from(step.as_nanos()).unwrap_or(i64::MAX))
}
