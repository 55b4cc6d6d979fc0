//! Tables: a line of headings that begins with `#Date` or `#UTC`, and rows.

use std::collections::HashSet;
use std::sync::OnceLock;

use super::header::{self, CollectlHeader};
use crate::batch::FrameBatch;
use crate::daylight::DaylightClock;
use crate::error::LogError;
use crate::sysstat::clock::SysstatClock;
use crate::sysstat::time::{self, DAY, NumericDateOrder};
use crate::tool::cells::{self, CellPlan, EPOCHS, RowFit};
use crate::tool::lines::{self, LineCursor};
use crate::tool::names::{ColumnTarget, ToolNames};
use crate::tool::row::TickRow;
use crate::{LogInput, LogOptions};
use diskwright_base::diskstats::disk_of_partition;
use diskwright_base::text::is_same_host;

/// Numbers of the texts that a row's cells are kept as.
const DATE: u8 = 0;
const CLOCK: u8 = 1;
const EPOCH: u8 = 2;

fn names() -> &'static ToolNames {
    static NAMES: OnceLock<ToolNames> = OnceLock::new();
    NAMES.get_or_init(|| ToolNames::builtin(include_str!("names.toml")))
}

/// Returns the separator of a line of headings, which follows its first word.
fn separator(line: &[u8]) -> Option<u8> {
    let separator_after = |first: &[u8]| {
        let rest = line.strip_prefix(first)?;
        rest.first().copied().filter(|separator| !separator.is_ascii_alphanumeric())
    };
    let separator = separator_after(b"#Date").or_else(|| separator_after(b"#UTC"))?;
    line.contains(&b'[').then_some(separator)
}

/// Returns true where a line of headings stands at the beginning.
pub fn is_table(bytes: &[u8]) -> bool {
    lines::of_head(bytes).any(|line| separator(line).is_some())
}

/// Splits `[DSK:sda]Reads` into group and name.
fn parts(heading: &str) -> Option<(&str, &str)> {
    heading.strip_prefix('[')?.split_once(']')
}

fn target(group: &str, name: &str) -> ColumnTarget {
    if group == "CPU" {
        let machine = names().column("SYS", name);
        if !machine.counter.starts_with("foreign.") {
            return machine;
        }
    }
    names().column(group, name)
}

/// Plans the cells of rows from a line of headings.
fn plan(line: &[u8], separator: u8, row: &mut TickRow) -> Vec<CellPlan> {
    let headings = cells::texts(line, separator);
    let disk =
        |h: &String| h.strip_prefix("[DSK:").and_then(|rest| rest.split_once(']')).map(|(disk, _)| disk.to_owned());
    let disks: HashSet<String> = headings.iter().filter_map(disk).collect();
    let mut used = HashSet::new();
    let plan_cell = |heading: &String| match heading.as_str() {
        "#Date" => CellPlan::Text(DATE),
        "Time" => CellPlan::Text(CLOCK),
        "#UTC" => CellPlan::Text(EPOCH),
        heading => match parts(heading) {
            None | Some((_, "Name")) => CellPlan::Leave,
            Some((group, name)) => {
                let mut target = target(group, name);
                if disk_of_partition(&target.instance).is_some_and(|disk| disks.contains(&disk)) {
                    target = target.of_partition();
                }
                let column = row.target(&target).filter(|column| used.insert(*column));
                CellPlan::of(column, target.rest)
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
    before_ns: Option<i64>,
    /// Set for the first row of a run: the time it covers is not known.
    is_first: bool,
    chosen: Option<String>,
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
        before_ns: None,
        is_first: true,
        chosen: options.host.clone(),
        is_announced: false,
    };
    while lines.advance()? {
        let line = lines.line();
        if line.is_empty() {
            continue;
        }
        if let Some(separator) = separator(line) {
            log.separator = separator;
            log.plan = plan(line, separator, &mut log.row);
        } else if header::is_of_head(line) {
            if log.header.take(&lines.text()) {
                log.is_first = true;
                // the head states the zone that holds from here on
                log.daylight = DaylightClock::default();
            }
        } else {
            log.data(&lines);
        }
        if log.batch.is_stopped() {
            return Ok(());
        }
    }
    Ok(())
}

impl TableLog<'_, '_> {
    fn data(&mut self, lines: &LineCursor<'_>) {
        if self.plan.is_empty() || !lines.line()[0].is_ascii_digit() {
            self.batch.skip(lines.context(), "neither headings nor a row under headings");
            return;
        }
        let chosen = self.chosen.get_or_insert_with(|| self.header.machine.host.clone());
        if !is_same_host(chosen, &self.header.machine.host) {
            self.batch.skip_host(lines.context(), &self.header.machine.host);
            return;
        }
        let (bytes, length) = lines.padded();
        let fit = cells::numbers(bytes, length, self.separator, &self.plan, &mut self.row.cells);
        self.told(lines, &fit);
        let text = |number: u8| cells::unquoted(&bytes[fit.texts[usize::from(number)].clone()]);
        let time = self.time(&text(DATE), &text(CLOCK), &text(EPOCH));
        let Some(time_ns) = time.filter(|_| !cells::is_time_cut(lines.is_cut(), &fit, &self.plan)) else {
            self.row.clear();
            self.batch.skip(lines.context(), "a row without a readable time");
            return;
        };
        if !self.is_announced {
            self.is_announced = true;
            self.batch.topology(time_ns, &self.header.machine);
        }
        let since = self.before_ns.map(|before| time_ns.saturating_sub(before)).filter(|since| *since > 0);
        let elapsed = if self.is_first { Some(0) } else { since.map(i64::unsigned_abs) };
        (self.before_ns, self.is_first) = (Some(time_ns), false);
        self.row.emit(self.batch, time_ns, elapsed, &|| lines.context());
    }

    fn told(&mut self, lines: &LineCursor<'_>, fit: &RowFit) {
        let columns = self.plan.len();
        if fit.cells < columns {
            self.batch.skip(lines.context(), "a row with fewer cells than headings");
        } else if fit.cells > columns {
            // a trailing separator is no cell
            let line = lines.line();
            if fit.cells > columns + 1 || line.last() != Some(&self.separator) {
                self.batch.skip(lines.context(), "a row with more cells than headings");
            }
        }
        if fit.odd > 0 {
            self.batch.skip(lines.context(), "text where a number should be");
        }
        if lines.is_cut() && fit.cells <= columns {
            if let CellPlan::Number(column) | CellPlan::Rest(column) = self.plan[fit.cells - 1] {
                self.row.cells[column as usize] = f64::NAN;
            }
            self.batch.skip(lines.context(), "the last line is incomplete: its last cell is left out");
        }
    }

    fn time(&mut self, date: &str, clock: &str, epoch: &str) -> Option<i64> {
        if let Some(seconds) = cells::loose_number(epoch).filter(|s| EPOCHS.contains(s)) {
            return Some((seconds * 1000.0).round() as i64 * 1_000_000);
        }
        let day = day(date)?;
        let (whole, part) = clock.split_once('.').unwrap_or((clock, ""));
        let (seconds, _) = time::time_of_day(&[whole])?;
        let thousandths = format!("{part:0<3}").get(..3)?.parse::<i64>().ok()?;
        let (local_s, part_ns) = (day * DAY + seconds, thousandths * 1_000_000);
        let time_ns = self.clock.utc_ns(local_s, &self.header.zone(), self.batch).saturating_add(part_ns);
        Some(self.daylight.place(time_ns, local_s.saturating_mul(1_000_000_000), self.batch))
    }
}

/// Parses `20261121`, and the forms of other locales (`2026/11/21`).
fn day(text: &str) -> Option<i64> {
    let spread = match (text.len(), text.bytes().all(|b| b.is_ascii_digit())) {
        (8, true) => format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..]),
        _ => text.to_owned(),
    };
    time::date(&spread, NumericDateOrder::MonthFirst).map(|read| read.date.days())
}
