//! Tables: a line of headings that begins with `#Date` or `#UTC`, and rows.

use std::collections::HashSet;
use std::sync::OnceLock;

use super::header::{self, CollectlHeader};
use crate::batch::FrameBatch;
use crate::daylight_clock::DaylightClock;
use crate::error::LogError;
use crate::sysstat::clock::SysstatClock;
use crate::sysstat::time::{self, DAY_S, NumericDateOrder};
use crate::tool::cells::{self, CellPlan, EPOCH_RANGE_S, RowFit};
use crate::tool::line_cursor::{self, LineCursor};
use crate::tool::tick_row::TickRow;
use crate::tool::tool_names::{ColumnTarget, ToolNames};
use crate::{LogInput, LogOptions};
use diskwright_base::diskstats::disk_of_partition;
use diskwright_base::text::is_same_host;

/// Number of the text with the date.
const DATE: u8 = 0;
/// Number of the text with the time of day.
const CLOCK: u8 = 1;
/// Number of the text with seconds since 1970.
const EPOCH: u8 = 2;

fn tool_names() -> &'static ToolNames {
    static NAMES: OnceLock<ToolNames> = OnceLock::new();
    NAMES.get_or_init(|| ToolNames::builtin(include_str!("names.toml")))
}

/// Returns the separator of a line of headings, which follows its first word.
fn find_separator(line: &[u8]) -> Option<u8> {
    let separator_after = |first: &[u8]| {
        let rest = line.strip_prefix(first)?;
        rest.first().copied().filter(|separator| !separator.is_ascii_alphanumeric())
    };
    let separator = separator_after(b"#Date").or_else(|| separator_after(b"#UTC"))?;
    line.contains(&b'[').then_some(separator)
}

/// Returns true if a line of headings is among a file's first lines.
pub fn is_table(bytes: &[u8]) -> bool {
    line_cursor::head_lines(bytes).any(|line| find_separator(line).is_some())
}

/// Splits `[DSK:sda]Reads` into group and name.
fn split_heading(heading: &str) -> Option<(&str, &str)> {
    heading.strip_prefix('[')?.split_once(']')
}

fn find_target(group: &str, name: &str) -> ColumnTarget {
    if group == "CPU" {
        let machine = tool_names().find_target("SYS", name);
        if !machine.counter.starts_with("foreign.") {
            return machine;
        }
    }
    tool_names().find_target(group, name)
}

/// Plans the cells of rows from a line of headings.
fn plan_cells(line: &[u8], separator: u8, row: &mut TickRow) -> Vec<CellPlan> {
    let headings = cells::split_cells(line, separator);
    let disk =
        |h: &String| h.strip_prefix("[DSK:").and_then(|rest| rest.split_once(']')).map(|(disk, _)| disk.to_owned());
    let disks: HashSet<String> = headings.iter().filter_map(disk).collect();
    let mut used = HashSet::new();
    let plan_cell = |heading: &String| match heading.as_str() {
        "#Date" => CellPlan::Text(DATE),
        "Time" => CellPlan::Text(CLOCK),
        "#UTC" => CellPlan::Text(EPOCH),
        heading => match split_heading(heading) {
            None | Some((_, "Name")) => CellPlan::Skip,
            Some((group, name)) => {
                let mut target = find_target(group, name);
                if disk_of_partition(&target.instance).is_some_and(|disk| disks.contains(&disk)) {
                    target = target.into_partition();
                }
                let column = row.target_column(&target).filter(|column| used.insert(*column));
                CellPlan::for_column(column, target.is_rest)
            }
        },
    };
    headings.iter().map(plan_cell).collect()
}

struct TableLog<'b, 'c> {
    batch: &'c mut FrameBatch<'b>,
    clock: SysstatClock,
    daylight: DaylightClock,
    header: CollectlHeader,
    separator: u8,
    plan: Vec<CellPlan>,
    row: TickRow,
    previous_ns: Option<i64>,
    /// Set for the first row of a run: the time it covers is not known.
    is_first: bool,
    chosen_host: Option<String>,
    is_announced: bool,
}

/// Reads all of an input.
pub fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let mut lines = LineCursor::new(input);
    let mut log = TableLog {
        batch,
        clock: SysstatClock::new(options),
        daylight: DaylightClock::default(),
        header: CollectlHeader::default(),
        separator: b' ',
        plan: Vec::new(),
        row: TickRow::new(),
        previous_ns: None,
        is_first: true,
        chosen_host: options.host.clone(),
        is_announced: false,
    };
    while lines.advance()? {
        let line = lines.line_bytes();
        if line.is_empty() {
            continue;
        }
        if let Some(separator) = find_separator(line) {
            log.separator = separator;
            log.plan = plan_cells(line, separator, &mut log.row);
        } else if header::is_head_line(line) {
            if log.header.parse_line(&lines.line_text()) {
                log.is_first = true;
                // the head states the zone that holds from here on
                log.daylight = DaylightClock::default();
            }
        } else {
            log.read_row(&lines);
        }
        if log.batch.is_stopped() {
            return Ok(());
        }
    }
    Ok(())
}

impl TableLog<'_, '_> {
    fn read_row(&mut self, lines: &LineCursor<'_>) {
        if self.plan.is_empty() || !lines.line_bytes()[0].is_ascii_digit() {
            self.batch.add_skip(lines.context(), "neither headings nor a row under headings");
            return;
        }
        let chosen_host = self.chosen_host.get_or_insert_with(|| self.header.machine.host.clone());
        if !is_same_host(chosen_host, &self.header.machine.host) {
            self.batch.add_other_host(lines.context(), &self.header.machine.host);
            return;
        }
        let (bytes, length) = lines.padded_line();
        let fit = cells::read_numbers(bytes, length, self.separator, &self.plan, &mut self.row.cells);
        self.report_misfits(lines, &fit);
        let text = |number: u8| cells::unquote_cell(&bytes[fit.texts[usize::from(number)].clone()]);
        let time = self.row_time(&text(DATE), &text(CLOCK), &text(EPOCH));
        let Some(time_ns) = time.filter(|_| !cells::is_time_cut(lines.is_cut(), &fit, &self.plan)) else {
            self.row.clear();
            self.batch.add_skip(lines.context(), "a row without a readable time");
            return;
        };
        if !self.is_announced {
            self.is_announced = true;
            self.batch.push_topology(time_ns, &self.header.machine);
        }
        let since = self.previous_ns.map(|before| time_ns.saturating_sub(before)).filter(|since| *since > 0);
        let elapsed = if self.is_first { Some(0) } else { since.map(i64::unsigned_abs) };
        (self.previous_ns, self.is_first) = (Some(time_ns), false);
        self.row.emit_tick(self.batch, time_ns, elapsed, &|| lines.context());
    }

    fn report_misfits(&mut self, lines: &LineCursor<'_>, fit: &RowFit) {
        let columns = self.plan.len();
        if fit.cell_count < columns {
            self.batch.add_skip(lines.context(), "a row with fewer cells than headings");
        } else if fit.cell_count > columns {
            // a trailing separator is no cell
            let line = lines.line_bytes();
            if fit.cell_count > columns + 1 || line.last() != Some(&self.separator) {
                self.batch.add_skip(lines.context(), "a row with more cells than headings");
            }
        }
        if fit.odd_count > 0 {
            self.batch.add_skip(lines.context(), "text where a number should be");
        }
        if lines.is_cut() && fit.cell_count <= columns {
            if let Some(CellPlan::Number(column) | CellPlan::Rest(column)) = fit.last_cell_plan(&self.plan) {
                self.row.cells[column as usize] = f64::NAN;
            }
            self.batch.add_skip(lines.context(), "the last line is incomplete: its last cell is left out");
        }
    }

    fn row_time(&mut self, date: &str, clock: &str, epoch: &str) -> Option<i64> {
        if let Some(seconds) = cells::parse_loose_number(epoch).filter(|s| EPOCH_RANGE_S.contains(s)) {
            return Some((seconds * 1000.0).round() as i64 * 1_000_000);
        }
        let day = parse_day(date)?;
        let (seconds_text, fraction_text) = clock.split_once('.').unwrap_or((clock, ""));
        let (seconds, _) = time::parse_time_of_day(&[seconds_text])?;
        let thousandths = format!("{fraction_text:0<3}").get(..3)?.parse::<i64>().ok()?;
        let (local_s, part_ns) = (day * DAY_S + seconds, thousandths * 1_000_000);
        let time_ns = self.clock.utc_ns(local_s, &self.header.zone_hint(), self.batch).saturating_add(part_ns);
        Some(self.daylight.resolve_time(time_ns, local_s.saturating_mul(1_000_000_000), self.batch))
    }
}

/// Parses `20261121`, and the forms of other locales (`2026/11/21`).
fn parse_day(text: &str) -> Option<i64> {
    let hyphenated = match (text.len(), text.bytes().all(|b| b.is_ascii_digit())) {
        (8, true) => format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..]),
        _ => text.to_owned(),
    };
    time::parse_date(&hyphenated, NumericDateOrder::MonthFirst).map(|read| read.date.days_since_epoch())
}
