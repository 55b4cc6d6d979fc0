//! Reader of titles, headings and rows as they come; a file that was appended to holds several runs.

use diskwright_base::counter_ids::memory;
use diskwright_base::text::is_same_host;
use diskwright_base::{Note, Topology};

use super::heading::{CLOCK, DstatHeading, EPOCH};
use super::row_dates::RowDates;
use super::title::DstatTitle;
use crate::batch::FrameBatch;
use crate::daylight_clock::DaylightClock;
use crate::error::LogError;
use crate::sysstat::clock::{SysstatClock, ZoneHint};
use crate::tool::cells::{self, CellPlan, EPOCH_RANGE_S, RowFit};
use crate::tool::line_cursor::LineCursor;
use crate::tool::tick_row::TickRow;
use crate::{LogInput, LogOptions, TimeBasis};

const SECOND_NS: i64 = 1_000_000_000;
const DELIMITER: u8 = b',';

/// Text of the note about rows without a time.
const COUNTED_TIMES_NOTE: &str = "the rows have no timestamps: they are counted from the head's date with the \
                                  command's delay (dstat -t or -T writes times); durations are right, times of day \
                                  are uncertain";

struct DstatLog<'b, 'c> {
    batch: &'c mut FrameBatch<'b>,
    options: &'c LogOptions,
    clock: SysstatClock,
    daylight: DaylightClock,
    title: DstatTitle,
    /// The first line of headings, until the second comes.
    groups: Option<Vec<String>>,
    heading: DstatHeading,
    dates: RowDates,
    row: TickRow,
    /// Number of rows of this run.
    row_count: u64,
    previous_ns: Option<i64>,
    /// The machine that is read.
    chosen_host: Option<String>,
    is_announced: bool,
}

/// Reads all of an input.
pub fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let mut lines = LineCursor::new(input);
    let mut log = DstatLog {
        batch,
        options,
        clock: SysstatClock::new(options),
        daylight: DaylightClock::default(),
        title: DstatTitle::default(),
        groups: None,
        heading: DstatHeading::default(),
        dates: RowDates::default(),
        row: TickRow::new(),
        row_count: 0,
        previous_ns: None,
        chosen_host: options.host.clone(),
        is_announced: false,
    };
    while lines.advance()? {
        if log.is_data_row(lines.line_bytes()) {
            log.read_row(&lines);
        } else {
            log.read_text_line(&lines);
        }
        if log.batch.is_stopped() {
            return Ok(());
        }
    }
    Ok(())
}

impl DstatLog<'_, '_> {
    /// Returns true for a row; titles and headings begin with a quote, or lost theirs.
    fn is_data_row(&self, line: &[u8]) -> bool {
        match line.first() {
            None | Some(b'"') => false,
            Some(b'0'..=b'9' | b'-') => true,
            // a row may begin with text: `Nov-21 07:05:46`, the name of a process
            Some(_) => !self.heading.plan.is_empty() && line.iter().any(u8::is_ascii_digit),
        }
    }

    fn add_skip(&mut self, context: String, because: &str) {
        self.batch.add_skip(context, because);
    }

    fn read_text_line(&mut self, lines: &LineCursor<'_>) {
        let cells = cells::split_cells(lines.line_bytes(), DELIMITER);
        if cells.iter().all(String::is_empty) {
            return;
        }
        if self.title.parse_line(&cells) {
            self.begin_run();
            return;
        }
        match self.groups.take() {
            Some(groups) => {
                self.heading = DstatHeading::from_lines(&groups, &cells, &self.title, &mut self.row);
                if self.heading.is_unit_unknown {
                    let because = "it is not said whether disks, interfaces and swapping are counted in bytes (dstat) \
                                   or bits (dool): these columns are left out";
                    self.add_skip(lines.context(), because);
                }
            }
            None if cells.len() > 1
                || self.heading.plan.is_empty() && super::title::parse_program(&cells[0]).is_none() =>
            {
                // a single group is a heading only below a title
                if cells.len() > 1 || !self.title.host.is_empty() {
                    self.groups = Some(cells);
                } else {
                    self.add_skip(lines.context(), "neither a title nor a heading nor a row");
                }
            }
            None => self.add_skip(lines.context(), "neither a title nor a heading nor a row"),
        }
    }

    /// Begins another run after title lines; its first row covers the time since boot again.
    fn begin_run(&mut self) {
        self.heading = DstatHeading::default();
        self.dates = RowDates::default();
        // the title states the zone that holds from here on
        self.daylight = DaylightClock::default();
        self.groups = None;
        self.row_count = 0;
    }

    fn read_row(&mut self, lines: &LineCursor<'_>) {
        if self.heading.plan.is_empty() {
            self.groups = None;
            self.add_skip(lines.context(), "a row without headings above it");
            return;
        }
        let chosen_host = self.chosen_host.get_or_insert_with(|| self.title.host.clone());
        if !is_same_host(chosen_host, &self.title.host) {
            self.batch.add_other_host(lines.context(), &self.title.host);
            return;
        }
        let (bytes, length) = lines.padded_line();
        let fit = cells::read_numbers(bytes, length, DELIMITER, &self.heading.plan, &mut self.row.cells);
        self.report_misfits(lines, &fit);
        let time = self.row_time(bytes, &fit).filter(|_| !cells::is_time_cut(lines.is_cut(), &fit, &self.heading.plan));
        self.row_count += 1;
        let Some(time_ns) = time else {
            self.row.clear();
            self.add_skip(lines.context(), "a row without a readable time");
            return;
        };
        let since = self.previous_ns.map(|before| time_ns.saturating_sub(before)).filter(|since| *since > 0);
        self.previous_ns = Some(time_ns);
        if self.row_count == 1 && self.title.is_first_since_boot() {
            self.row.clear();
            self.add_skip(lines.context(), "the first row of dstat and dool covers the time since boot");
            return;
        }
        if !self.is_announced {
            self.is_announced = true;
            let host = self.title.host.clone();
            let memory_bytes = self.row.cell_value(memory::TOTAL_BYTES, "").map_or(0, |bytes| bytes as u64);
            self.batch.push_topology(time_ns, &Topology { host, memory_bytes, ..Topology::default() });
        }
        // the time between two runs is a gap, which no row covers
        let elapsed = if self.row_count == 1 { Some(0) } else { since.map(i64::unsigned_abs) };
        self.row.emit_tick(self.batch, time_ns, elapsed, &|| lines.context());
    }

    /// Reports cells that are missing, surplus, cut or not numbers.
    fn report_misfits(&mut self, lines: &LineCursor<'_>, fit: &RowFit) {
        let columns = self.heading.plan.len();
        if fit.cell_count < columns {
            self.add_skip(lines.context(), "a row with fewer cells than headings");
        } else if fit.cell_count > columns {
            self.add_skip(lines.context(), "a row with more cells than headings");
        }
        if fit.odd_count > 0 {
            self.add_skip(lines.context(), "text where a number should be");
        }
        if lines.is_cut() && fit.cell_count <= columns {
            if let Some(CellPlan::Number(column) | CellPlan::Rest(column)) = fit.last_cell_plan(&self.heading.plan) {
                self.row.cells[column as usize] = f64::NAN;
            }
            self.add_skip(lines.context(), "the last line is incomplete: its last cell is left out");
        }
    }

    /// Returns the time of a row, nanoseconds since 1970 UTC.
    fn row_time(&mut self, bytes: &[u8], fit: &RowFit) -> Option<i64> {
        if self.heading.has_epoch {
            let text = cells::unquote_cell(&bytes[fit.texts[usize::from(EPOCH)].clone()]);
            let seconds = cells::parse_loose_number(&text).filter(|s| EPOCH_RANGE_S.contains(s));
            if let Some(seconds) = seconds {
                return Some((seconds * 1000.0).round() as i64 * 1_000_000);
            }
        }
        let zone = self.title.zone_hint();
        if self.heading.has_clock {
            let text = cells::unquote_cell(&bytes[fit.texts[usize::from(CLOCK)].clone()]);
            let local = self.dates.local_seconds(&text, &self.title)?;
            let time_ns = self.clock.utc_ns(local, &zone, self.batch);
            return Some(self.daylight.resolve_time(time_ns, local.saturating_mul(SECOND_NS), self.batch));
        }
        if self.heading.has_epoch {
            return None;
        }
        Some(self.next_counted_time(&zone))
    }

    fn next_counted_time(&mut self, zone: &ZoneHint) -> i64 {
        let given_step = self.options.interval.map(|step| i64::try_from(step.as_nanos()).unwrap_or(i64::MAX));
        let step = given_step.unwrap_or_else(|| self.title.delay_s() * SECOND_NS);
        if let (Some(before), true) = (self.previous_ns, self.row_count > 0) {
            return before.saturating_add(step);
        }
        let start = self.clock.utc_ns(self.title.begun_s.unwrap_or(0), zone, self.batch);
        self.batch.push_note(Note::new(start, Note::WARNING, COUNTED_TIMES_NOTE));
        if self.title.begun_s.is_none() {
            self.batch.note_time_basis(TimeBasis::Counted);
        }
        start
    }
}
