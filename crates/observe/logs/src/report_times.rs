//! Times of reports that a reader finds one after the other: each has the time that stands above it, or is counted.

use diskwright_base::Note;

use crate::first_report::{REPORT_STEP_NS, REPORTS_NOTE};
use crate::stamp_line::StampLine;
use crate::sysstat::clock::SysstatClock;
use crate::sysstat::time::DAY_S;
use crate::{FrameBatch, LogOptions, TimeBasis};

const COUNTED_TIMES_NOTE: &str = "the reports have no times: they are counted from 1970 with the given interval; \
                                  durations are right, times of day are not";

/// Clock of a log of reports.
pub(crate) struct ReportTimes {
    clock: SysstatClock,
    interval_ns: Option<i64>,
    stamp: Option<StampLine>,
    last_ns: Option<i64>,
    /// Midnights that times without a date have passed.
    midnights: i64,
    last_clock_s: i64,
    has_stamps: bool,
    is_noted: bool,
}

impl ReportTimes {
    pub(crate) fn new(options: &LogOptions) -> ReportTimes {
        ReportTimes {
            clock: SysstatClock::new(options),
            interval_ns: options.interval.and_then(|step| i64::try_from(step.as_nanos()).ok()),
            stamp: None,
            last_ns: None,
            midnights: 0,
            last_clock_s: 0,
            has_stamps: false,
            is_noted: false,
        }
    }

    /// Sets the time above the next report.
    pub(crate) fn set_stamp(&mut self, stamp: StampLine) {
        self.stamp = Some(stamp);
        self.has_stamps = true;
    }

    /// Returns true if a time stands above the next report, or stood above another.
    pub(crate) fn has_stamps(&self) -> bool {
        self.has_stamps
    }

    /// Returns true if the time between reports is known.
    pub(crate) fn is_length_known(&self) -> bool {
        self.has_stamps || self.interval_ns.is_some()
    }

    /// Returns the time of the next report, and its length if it is known.
    pub(crate) fn next(&mut self, batch: &mut FrameBatch<'_>) -> (i64, Option<u64>) {
        let Some(stamp) = self.stamp.take() else { return self.count_report(batch) };
        let mut local_s = stamp.local_s;
        if stamp.has_no_date {
            self.midnights += i64::from(local_s + DAY_S / 2 < self.last_clock_s);
            self.last_clock_s = local_s;
            local_s += self.midnights * DAY_S;
        }
        let time_ns = self.clock.utc_ns(local_s, &stamp.zone, batch).saturating_add(stamp.fraction_ns);
        let since = self.last_ns.map(|last_ns| time_ns.saturating_sub(last_ns)).filter(|since| *since > 0);
        self.last_ns = Some(time_ns);
        (time_ns, since.or(self.interval_ns).map(i64::unsigned_abs))
    }

    fn count_report(&mut self, batch: &mut FrameBatch<'_>) -> (i64, Option<u64>) {
        let step = self.interval_ns.unwrap_or(REPORT_STEP_NS);
        let time_ns = self.last_ns.map_or(0, |last_ns| last_ns.saturating_add(step));
        if !self.has_stamps && !self.is_noted {
            self.is_noted = true;
            let (text, basis) = match self.interval_ns {
                Some(_) => (COUNTED_TIMES_NOTE, TimeBasis::Counted),
                None => (REPORTS_NOTE, TimeBasis::Reports),
            };
            batch.push_note(Note::new(time_ns, Note::WARNING, text));
            batch.note_time_basis(basis);
        }
        self.last_ns = Some(time_ns);
        (time_ns, Some(step.unsigned_abs()))
    }
}
