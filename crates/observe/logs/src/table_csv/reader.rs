//! Reader of a table's rows. Those in order of time are emitted as they come; a table of series in succession, or
//! backwards in time, is held.

use std::collections::{BTreeMap, HashMap};

use diskwright_base::{Catalogue, Note};

use super::column;
use super::head::{self, TableHead};
use super::units;
use crate::batch::FrameBatch;
use crate::daylight_clock::DaylightClock;
use crate::error::LogError;
use crate::shared_stamps::{SPREAD_NOTE, SharedStamps};
use crate::sysstat::clock::{SysstatClock, ZoneHint};
use crate::sysstat::stream_window::StreamWindow;
use crate::tool::cells::{self, CellPlan};
use crate::tool::line_cursor::{self, LineCursor};
use crate::tool::tick_row::TickRow;
use crate::{LogInput, LogOptions};

/// Largest number of cells that are held.
const MAX_HELD_CELLS: usize = 16 << 20;
/// Largest number of series of a long table.
const MAX_SERIES: usize = 200_000;
/// Largest number of columns that a message lists.
const MAX_LISTED_COLUMNS: usize = 12;
/// Number of the text with the time, or with its date.
const TIME: u8 = 0;
/// Number of the text with the time of day, if the date has its own cell.
const CLOCK: u8 = 1;

struct CsvTable<'b, 'c> {
    batch: &'c mut FrameBatch<'b>,
    options: &'c LogOptions,
    head: TableHead,
    clock: SysstatClock,
    daylight: DaylightClock,
    /// Rows that share a time.
    stamps: SharedStamps,
    plan: Vec<CellPlan>,
    row: TickRow,
    /// Columns of series in long tables, by name.
    series_columns: HashMap<String, Option<u32>>,
    held_rows: BTreeMap<i64, Vec<(u32, f64)>>,
    held_cells: usize,
    has_known_column: bool,
    /// Set if commas may stand between groups of digits, until that is reported.
    may_have_groups: bool,
    is_spread_noted: bool,
}

/// Text of the note about a table with tabs whose commas are ambiguous.
const AMBIGUOUS_COMMAS_NOTE: &str = "every number with a comma has three digits after it: `1,234` is read as 1.234; \
                                     if it means 1234, export the table without separators of thousands";

/// Reads all of an input.
pub fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let Some(head) = TableHead::detect(input.head().bytes) else {
        return Err(input.error_at("line 1", "no table of times and numbers"));
    };
    let stamps = detect_stamps(&head, input.head().bytes);
    let may_have_groups = head.delimiter == b'\t' && has_only_comma_triples(input.head().bytes);
    let mut lines = LineCursor::new(input).for_table(head.delimiter);
    let clock = SysstatClock::new(options);
    let mut table = CsvTable {
        batch,
        options,
        head,
        clock,
        daylight: DaylightClock::default(),
        stamps,
        plan: Vec::new(),
        row: TickRow::new(),
        series_columns: HashMap::new(),
        held_rows: BTreeMap::new(),
        held_cells: 0,
        has_known_column: false,
        may_have_groups,
        is_spread_noted: false,
    };
    let is_long = !table.head.name_cells.is_empty();
    if !is_long {
        table.plan_columns();
        table.check_known(lines.name())?;
    }
    let mut number = 0;
    while lines.advance()? {
        number += 1;
        if lines.line_bytes().is_empty() {
            continue;
        }
        if number <= table.head.line_count {
            if !table.head.table_lines.contains(&(number - 1)) {
                table.batch.add_skip(lines.context(), "a line before the table");
            }
            continue;
        }
        if is_long {
            table.read_long_row(&lines)?
        } else {
            table.read_wide_row(&lines)?
        }
        if table.batch.is_stopped() {
            return Ok(());
        }
    }
    if is_long {
        table.check_known(lines.name())?;
    }
    for (time_ns, cells) in std::mem::take(&mut table.held_rows) {
        cells.into_iter().for_each(|(column, value)| table.row.cells[column as usize] = value);
        table.row.emit_tick(table.batch, time_ns, None, &|| "a row".into());
    }
    Ok(())
}

/// Detects from a table's beginning how many rows share a time; series in succession share them anyway.
fn detect_stamps(head: &TableHead, bytes: &[u8]) -> SharedStamps {
    if !head.name_cells.is_empty() || head.is_backwards {
        return SharedStamps::default();
    }
    let time_of_line = |line: &[u8]| {
        let texts = cells::split_cells(line, head.delimiter);
        let text = head::time_text(&texts, head.time_cell, head.clock_cell)?;
        let moment = head::parse_moment(&text, head.order, true)?;
        Some(moment.local_s.saturating_mul(1_000_000_000).saturating_add(moment.fraction_ns))
    };
    SharedStamps::detect(line_cursor::head_lines(bytes).skip(head.line_count).filter_map(time_of_line))
}

/// Returns true if cells between tabs are numbers with a comma, and exactly three digits follow every comma.
fn has_only_comma_triples(text: &[u8]) -> bool {
    let are_digits = |decimals: &[u8]| !decimals.is_empty() && decimals.iter().all(u8::is_ascii_digit);
    let cells = text.split(|byte: &u8| matches!(*byte, b'\t' | b'\n' | b'\r')).map(|cell| cell.trim_ascii());
    let cells = cells.map(|cell| cell.strip_prefix(b"\"").and_then(|cell| cell.strip_suffix(b"\"")).unwrap_or(cell));
    let comma_cells = cells.filter_map(|cell| {
        let comma = cell.iter().position(|byte| *byte == b',')?;
        let (integer, decimals) = (&cell[..comma], &cell[comma + 1..]);
        let is_group = (1..=3).contains(&integer.len()) && integer[0] != b'0' && decimals.len() == 3;
        (are_digits(integer) && are_digits(decimals)).then_some(is_group)
    });
    let are_groups: Vec<bool> = comma_cells.collect();
    !are_groups.is_empty() && are_groups.into_iter().all(|is_group| is_group)
}

/// Returns true if the line's last cell may be cut: the line has no end, and no quote that closes the cell.
fn is_last_cell_cut(lines: &LineCursor<'_>) -> bool {
    lines.is_cut() && !lines.line_bytes().ends_with(b"\"")
}

impl CsvTable<'_, '_> {
    /// Plans the cells of columns that are series.
    fn plan_columns(&mut self) {
        let mut used = Vec::new();
        for (cell, heading) in self.head.headings.clone().into_iter().enumerate() {
            let plan = match self.find_column(&heading) {
                _ if cell == self.head.time_cell => CellPlan::Text(TIME),
                _ if Some(cell) == self.head.clock_cell => CellPlan::Text(CLOCK),
                Some(column) if !heading.is_empty() && !used.contains(&column) => {
                    used.push(column);
                    CellPlan::Number(column)
                }
                _ => CellPlan::Skip,
            };
            self.plan.push(plan);
        }
    }

    fn find_column(&mut self, heading: &str) -> Option<u32> {
        let is_time = self.head.time_headings().any(|time| time == heading);
        if heading.is_empty() || is_time {
            return None;
        }
        let (target, is_known) = column::find_target(heading, &self.options.columns);
        self.has_known_column |= is_known;
        self.row.target_column(&target)
    }

    /// Reads other headings within a table, if several tables follow each other: rows below belong to them. Returns
    /// false for other lines.
    fn read_headings(&mut self, lines: &LineCursor<'_>) -> bool {
        let texts = cells::split_cells(lines.line_bytes(), self.head.delimiter);
        let is_same = |cell: usize| {
            texts.get(cell).is_some_and(|text| !text.is_empty() && Some(text) == self.head.headings.get(cell))
        };
        let is_heading = is_same(self.head.time_cell) && self.head.clock_cell.is_none_or(is_same);
        if lines.is_cut() || !is_heading || texts == self.head.headings {
            return false;
        }
        self.head.headings = texts;
        self.plan.clear();
        self.plan_columns();
        // the next table may cover the same hours
        self.daylight.forget_last_sample();
        true
    }

    /// Returns an error that lists the columns, if none is known.
    fn check_known(&self, file: &str) -> Result<(), LogError> {
        if self.has_known_column {
            return Ok(());
        }
        let columns = self
            .head
            .headings
            .iter()
            .enumerate()
            .filter(|(cell, name)| !self.head.is_time_cell(*cell) && !name.is_empty());
        let mut names: Vec<String> = if self.head.name_cells.is_empty() {
            columns.map(|(_, name)| format!("`{name}`")).collect()
        } else {
            self.series_columns.keys().map(|name| format!("`{name}`")).collect()
        };
        names.sort_unstable();
        let more = names.len().saturating_sub(MAX_LISTED_COLUMNS);
        names.truncate(MAX_LISTED_COLUMNS);
        let more_text = if more > 0 { format!(" and {more} more") } else { String::new() };
        Err(LogError::MissingOption {
            file: file.to_owned(),
            because: format!("a table whose columns are not known: {}{more_text}", names.join(", ")),
            option: "--column 'NAME=counter[:instance[:unit]]' for each that matters, such as \
                     --column 'sda reads=physical_disk.reads_per_s:sda'",
        })
    }

    fn read_wide_row(&mut self, lines: &LineCursor<'_>) -> Result<(), LogError> {
        let (bytes, length) = lines.padded_line();
        let fit = cells::read_numbers(bytes, length, self.head.delimiter, &self.plan, &mut self.row.cells);
        if fit.odd_count > 0 && self.read_headings(lines) {
            self.row.clear();
            return Ok(());
        }
        if fit.odd_count > 0 || self.has_quoted_comma(lines.line_bytes()) {
            self.parse_units(lines);
        }
        if fit.cell_count < self.plan.len() {
            self.batch.add_skip(lines.context(), "a row with fewer cells than headings");
        } else if fit.cell_count > self.plan.len() {
            self.batch.add_skip(lines.context(), "a row with more cells than headings");
        }
        if is_last_cell_cut(lines) {
            match fit.last_cell_plan(&self.plan) {
                Some(CellPlan::Number(column)) => self.row.cells[column as usize] = f64::NAN,
                Some(CellPlan::Text(_)) => {
                    self.row.clear();
                    self.batch.add_skip(lines.context(), StreamWindow::UNFINISHED_LINE);
                    return Ok(());
                }
                _ => {}
            }
            self.batch.add_skip(lines.context(), "the last line is incomplete: its last cell is left out");
        }
        let text = |number: u8| cells::unquote_cell(&bytes[fit.texts[usize::from(number)].clone()]);
        let text = match self.head.clock_cell {
            Some(_) => format!("{} {}", text(TIME), text(CLOCK)),
            None => text(TIME),
        };
        let Some(time_ns) = self.row_time(&text) else {
            self.row.clear();
            // this may be the same headings repeated
            self.daylight.forget_last_sample();
            self.batch.add_skip(lines.context(), "a row without a readable time");
            return Ok(());
        };
        if !self.head.is_backwards {
            self.row.emit_tick(self.batch, time_ns, None, &|| lines.context());
            return Ok(());
        }
        let values: Vec<(u32, f64)> =
            (0u32..).zip(self.row.cells.iter().copied()).filter(|(_, value)| !value.is_nan()).collect();
        self.row.clear();
        self.hold_values(time_ns, values, lines)
    }

    /// Returns true if a cell in quotes holds a comma, in a table whose cells are separated by commas.
    fn has_quoted_comma(&self, line: &[u8]) -> bool {
        let mut is_open = false;
        let is_inside = |byte: &u8| {
            is_open ^= *byte == b'"';
            is_open && *byte == b','
        };
        self.head.delimiter == b',' && memchr::memchr(b'"', line).is_some() && line.iter().any(is_inside)
    }

    /// Parses cells that hold more than a number: `12.3 MB/s`, `1,234`.
    fn parse_units(&mut self, lines: &LineCursor<'_>) {
        let texts = cells::split_cells(lines.line_bytes(), self.head.delimiter);
        let mut is_odd = false;
        for (kind, text) in self.plan.iter().zip(&texts) {
            let CellPlan::Number(column) = kind else { continue };
            // the comma of a quoted cell was read as a decimal one
            let may_have_groups = self.head.delimiter == b',' && text.contains(',');
            if !self.row.cells[*column as usize].is_nan() && !may_have_groups || cells::is_blank_cell(text) {
                continue;
            }
            match self.parse_value(*column, text) {
                Some(value) => self.row.cells[*column as usize] = value,
                None => is_odd = true,
            }
        }
        if is_odd {
            self.batch.add_skip(lines.context(), "a value with a unit that does not fit its counter, or text");
        }
    }

    /// Parses a value and converts it to its column's unit.
    fn parse_value(&self, column: u32, text: &str) -> Option<f64> {
        // if commas do not separate cells, they are decimal ones
        if let Some(value) = cells::parse_loose_number(text).filter(|_| self.head.delimiter != b',') {
            return Some(value);
        }
        let (value, unit) = units::parse_number(text)?;
        if unit.is_empty() {
            return Some(value);
        }
        let (counter, scale) = self.row.counter_unit(column);
        let counter_unit = Catalogue::builtin().get(counter).map_or("", |c| c.unit.as_str());
        Some(value * units::unit_factor(unit, counter_unit)? / scale)
    }

    /// Reads a row of time, name and value.
    fn read_long_row(&mut self, lines: &LineCursor<'_>) -> Result<(), LogError> {
        let texts = cells::split_cells(lines.line_bytes(), self.head.delimiter);
        if is_last_cell_cut(lines) {
            self.batch.add_skip(lines.context(), StreamWindow::UNFINISHED_LINE);
            return Ok(());
        }
        if texts.len() < self.head.headings.len() {
            self.batch.add_skip(lines.context(), "a row with fewer cells than headings");
            return Ok(());
        }
        let text = head::time_text(&texts, self.head.time_cell, self.head.clock_cell).unwrap_or_default();
        let Some(time_ns) = self.row_time(&text) else {
            self.batch.add_skip(lines.context(), "a row without a readable time");
            return Ok(());
        };
        let name = self.head.name_cells.iter().map(|&cell| texts[cell].as_str()).collect::<Vec<_>>().join(" ");
        let value_cells: Vec<usize> = (0..self.head.headings.len())
            .filter(|c| !self.head.is_time_cell(*c) && !self.head.name_cells.contains(c))
            .collect();
        let mut values = Vec::new();
        for &cell in &value_cells {
            // a single column of values does not add its heading to the name
            let series =
                if value_cells.len() == 1 { name.clone() } else { format!("{name} {}", self.head.headings[cell]) };
            if !self.series_columns.contains_key(&series) {
                if self.series_columns.len() >= MAX_SERIES {
                    self.batch.add_skip(lines.context(), "too many series for one log");
                    continue;
                }
                let column = self.find_column(&series);
                self.series_columns.insert(series.clone(), column);
            }
            let Some(Some(column)) = self.series_columns.get(&series).copied() else { continue };
            match self.parse_value(column, &texts[cell]) {
                Some(value) => values.push((column, value)),
                None if cells::is_blank_cell(&texts[cell]) => {}
                None => {
                    self.batch.add_skip(lines.context(), "a value with a unit that does not fit its counter, or text")
                }
            }
        }
        self.hold_values(time_ns, values, lines)
    }

    fn hold_values(&mut self, time_ns: i64, values: Vec<(u32, f64)>, lines: &LineCursor<'_>) -> Result<(), LogError> {
        self.held_cells += values.len() + 4;
        if self.held_cells > MAX_HELD_CELLS {
            let because = "a table of series one after the other, or backwards in time, that is too large to hold; one \
                           with a column a series in order of time is read at any size";
            return Err(LogError::broken(lines.name(), lines.context(), because));
        }
        self.held_rows.entry(time_ns).or_default().extend(values);
        Ok(())
    }

    fn row_time(&mut self, text: &str) -> Option<i64> {
        let moment = head::parse_moment(text, self.head.order, true)?;
        let zone = moment.zone_offset_s.map_or(ZoneHint::Missing, ZoneHint::Offset);
        let mut time_ns = self.clock.utc_ns(moment.local_s, &zone, self.batch).saturating_add(moment.fraction_ns);
        // series in succession go back in time without a change of the clocks
        if zone == ZoneHint::Missing && self.head.name_cells.is_empty() && !self.head.is_backwards {
            let local_ns = moment.local_s.saturating_mul(1_000_000_000).saturating_add(moment.fraction_ns);
            time_ns = self.daylight.resolve_time(time_ns, local_ns, self.batch);
        }
        if self.stamps.is_shared() {
            time_ns = self.stamps.spread(time_ns);
            if !std::mem::replace(&mut self.is_spread_noted, true) {
                self.batch.push_note(Note::new(time_ns, Note::WARNING, SPREAD_NOTE));
            }
        }
        if std::mem::take(&mut self.may_have_groups) {
            self.batch.push_note(Note::new(time_ns, Note::WARNING, AMBIGUOUS_COMMAS_NOTE));
        }
        Some(time_ns)
    }
}
