//! Reports of rates that a reader fills row by row: gives them their times, and settles the first, which may be the
//! average since the start of the machine.

use diskwright_base::Topology;

use crate::first_report::{self, HeldReport};
use crate::level_row::LevelRow;
use crate::report_times::ReportTimes;
use crate::stamp_line::StampLine;
use crate::{FrameBatch, LogOptions};

/// The report that is being read, and the first one.
pub(crate) struct LevelReports<'b, 'c> {
    pub batch: &'c mut FrameBatch<'b>,
    pub row: LevelRow,
    times: ReportTimes,
    held: Option<HeldReport>,
    is_first_kept: bool,
    report_count: u64,
    has_values: bool,
    is_announced: bool,
    /// Name of the tool, for messages.
    tool: &'static str,
}

impl<'b, 'c> LevelReports<'b, 'c> {
    pub(crate) fn new(batch: &'c mut FrameBatch<'b>, options: &LogOptions, tool: &'static str) -> Self {
        LevelReports {
            batch,
            row: LevelRow::default(),
            times: ReportTimes::new(options),
            held: None,
            is_first_kept: options.is_first_report_kept,
            report_count: 0,
            has_values: false,
            is_announced: false,
            tool,
        }
    }

    /// Puts a value of the report.
    pub(crate) fn put_value(&mut self, counter: &str, instance: &str, value: f64) {
        self.has_values = true;
        self.row.put_value(counter, instance, value);
    }

    /// Ends a report at a time, which is that of the next.
    pub(crate) fn begin_at(&mut self, stamp: StampLine, line_number: u64) {
        self.finish_report(line_number);
        self.times.set_stamp(stamp);
    }

    /// Ends the report.
    pub(crate) fn finish_report(&mut self, line_number: u64) {
        if !std::mem::take(&mut self.has_values) {
            return;
        }
        self.report_count += 1;
        if self.report_count == 1 && !self.is_first_kept {
            let (time_ns, _) = self.times.next(self.batch);
            let context = format!("line {line_number}");
            self.held = Some(HeldReport { values: self.row.take_values(), printed_ns: Some(time_ns), context });
            return;
        }
        if let Some(held) = self.held.take() {
            let is_like = first_report::is_like_next(self.row.series(), &held.values, self.row.values());
            if is_like && !self.times.has_stamps() {
                let second = self.row.replace_values(&held.values);
                self.emit_report(held.printed_ns.unwrap_or(0), Some(first_report::REPORT_STEP_NS.unsigned_abs()));
                self.row.replace_values(&second);
            } else {
                self.add_since_boot(held.context);
            }
        }
        let (time_ns, elapsed_ns) = self.times.next(self.batch);
        self.emit_report(time_ns, elapsed_ns);
    }

    fn add_since_boot(&mut self, context: String) {
        self.batch.add_skip(context, format!("the first report of {} covers the time since the start", self.tool));
    }

    fn emit_report(&mut self, time_ns: i64, elapsed_ns: Option<u64>) {
        if !self.is_announced {
            self.is_announced = true;
            self.batch.push_topology(time_ns, &Topology::default());
        }
        self.row.emit_tick(self.batch, time_ns, elapsed_ns);
    }

    /// Ends the log: the first report is kept if it is the only one.
    pub(crate) fn finish_log(mut self, line_number: u64) {
        self.finish_report(line_number);
        let Some(held) = self.held.take() else { return };
        let time_ns = held.printed_ns.unwrap_or(0);
        first_report::remark_single_report(self.batch, &held.context, time_ns);
        self.row.replace_values(&held.values);
        self.emit_report(time_ns, None);
    }
}
