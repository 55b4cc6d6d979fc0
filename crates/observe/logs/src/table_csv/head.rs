//! Beginning of a table: its delimiter, its headings, the position of its time.

use std::borrow::Cow;

use crate::sysstat::time::{self, DAY_S, NumericDateOrder};
use crate::tool::cells::{self, EPOCH_RANGE_S};

/// Largest number of lines with several cells above the first row.
const MAX_HEAD_LINES: usize = 50;

/// Layout of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableHead {
    /// Delimiter between cells.
    pub delimiter: u8,
    /// Number of lines above the first row.
    pub line_count: usize,
    /// Indexes of those lines that belong to the table; others come before it.
    pub table_lines: Vec<usize>,
    /// Headings, one per cell.
    pub headings: Vec<String>,
    /// Cell with the time, or with its date.
    pub time_cell: usize,
    /// Cell behind it with the time of day, if the date has its own cell.
    pub clock_cell: Option<usize>,
    /// Cells with the name of a series; without any, columns are series.
    pub name_cells: Vec<usize>,
    /// Order of day and month in dates.
    pub order: NumericDateOrder,
    /// Set if rows go back in time.
    pub is_backwards: bool,
}

/// Time of a row: seconds and nanoseconds since 1970, and the zone if it is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableMoment {
    /// Seconds, as the clock shows them.
    pub local_s: i64,
    /// Fraction of a second, nanoseconds.
    pub fraction_ns: i64,
    /// Offset east of UTC, seconds.
    pub zone_offset_s: Option<i64>,
}

/// Parses a cell as a date and time. A number alone counts only if `is_named` says that the column holds times.
pub fn parse_moment(text: &str, order: NumericDateOrder, is_named: bool) -> Option<TableMoment> {
    let text = text.trim();
    if let Some(number) = text.parse::<f64>().ok().filter(|_| is_named) {
        let seconds = match number {
            n if EPOCH_RANGE_S.contains(&n) => n,
            n if EPOCH_RANGE_S.contains(&(n * 1e-3)) => n * 1e-3,
            n if EPOCH_RANGE_S.contains(&(n * 1e-6)) => n * 1e-6,
            n if EPOCH_RANGE_S.contains(&(n * 1e-9)) => n * 1e-9,
            _ => return None,
        };
        let fraction_ns = ((seconds - seconds.floor()) * 1e3).round() as i64 * 1_000_000;
        return Some(TableMoment { local_s: seconds.floor() as i64, fraction_ns, zone_offset_s: Some(0) });
    }
    if text.len() > 60 || !text.is_ascii() {
        return None;
    }
    // `2026-11-21T07:05:46.250Z`, `2026-11-21 07:05`, `11/21/2026 7:05:46 AM`
    let separated = match text.as_bytes().get(10) {
        Some(b'T') => format!("{} {}", &text[..10], &text[11..]),
        _ => text.to_owned(),
    };
    let words: Vec<&str> = separated.split_whitespace().collect();
    let index = words.iter().position(|word| word.contains(':'))?;
    let date = time::parse_date(&words[..index].join(" "), order)?.date;
    let end = words[index].find(['+', '-', 'Z']).unwrap_or(words[index].len());
    let (clock, own_zone) = words[index].split_at(end);
    let (clock, fraction) = clock.split_once(['.', ',']).unwrap_or((clock, ""));
    let clock = if clock.matches(':').count() == 1 { format!("{clock}:00") } else { clock.to_owned() };
    let rest = words.get(index + 1..).unwrap_or_default();
    let (seconds, words_used) = time::parse_time_of_day(&[&[clock.as_str()], rest].concat())?;
    assert!(words_used >= 1, "the clock is a word of its own time");
    // `words_used` counts the clock, which is not in `rest`
    let zone = if own_zone.is_empty() { rest.get(words_used - 1).copied().unwrap_or("") } else { own_zone };
    let fraction_ns = match fraction {
        "" => 0,
        digits => format!("{digits:0<9}").get(..9)?.parse().ok()?,
    };
    Some(TableMoment {
        local_s: date.days_since_epoch() * DAY_S + seconds,
        fraction_ns,
        zone_offset_s: time::zone_offset_s(zone),
    })
}

fn is_time_name(heading: &str) -> bool {
    let lower = heading.to_ascii_lowercase();
    ["time", "date", "epoch"].iter().any(|word| lower.contains(word))
}

impl TableHead {
    /// Detects the layout from the beginning of a file; `None` if it is no table of times and numbers.
    pub fn detect(bytes: &[u8]) -> Option<TableHead> {
        let text = String::from_utf8_lossy(bytes);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        // the first line of top has commas too
        let is_of_top = |line: &str| line.contains(" up ") && line.contains("load average:");
        if text.lines().take(MAX_HEAD_LINES).any(is_of_top) {
            return None;
        }
        let order = time::guess_date_order(text, "");
        [b',', b';', b'\t'].into_iter().find_map(|delimiter| TableHead::detect_with_delimiter(text, delimiter, order))
    }

    /// Returns true for a cell of the row's time.
    pub fn is_time_cell(&self, cell: usize) -> bool {
        cell == self.time_cell || Some(cell) == self.clock_cell
    }

    /// Iterates over the headings of the row's time.
    pub fn time_headings(&self) -> impl Iterator<Item = &String> {
        [Some(self.time_cell), self.clock_cell].into_iter().flatten().filter_map(|cell| self.headings.get(cell))
    }

    fn detect_with_delimiter(text: &str, delimiter: u8, order: NumericDateOrder) -> Option<TableHead> {
        // a line of one cell may be any text before the table
        let cells = |(index, line): (usize, &str)| (index, cells::split_cells(line.as_bytes(), delimiter));
        let rows = text.lines().enumerate().map(cells).filter(|(_, row)| row.len() > 1);
        let (line_indexes, rows): (Vec<usize>, Vec<Vec<String>>) = rows.take(MAX_HEAD_LINES + 2).unzip();
        let first = (1..rows.len()).find(|&index| {
            let names = rows.get(index - 1);
            let is_named = |cell: usize| names.and_then(|row| row.get(cell)).is_some_and(|name| is_time_name(name));
            find_time_cells(&rows[index], order, is_named).is_some()
        })?;
        let count = rows[first].len();
        // headings have as many cells as their rows; where no line has, as behind a last delimiter, all lines count
        let has_row_width = |index: &usize| rows[*index].len() == count;
        let mut heading_rows: Vec<usize> = (0..first).filter(has_row_width).collect();
        if heading_rows.is_empty() {
            heading_rows = (0..first).collect();
        }
        let headings = join_headings(heading_rows.iter().map(|row| &rows[*row]), count);
        let row = &rows[first];
        let is_moment = |cell: usize| parse_moment(&row[cell], order, is_time_name(&headings[cell])).is_some();
        let (time, clock) = find_time_cells(row, order, |cell| is_time_name(&headings[cell]))?;
        let is_number = |text: &str| super::units::parse_number(text).is_some() || cells::is_blank_cell(text);
        let others = (0..row.len()).filter(|&cell| cell != time && Some(cell) != clock && !is_moment(cell));
        let name_cells: Vec<usize> = others.clone().filter(|&cell| !is_number(&row[cell])).collect();
        let has_number = others.clone().any(|cell| super::units::parse_number(&row[cell]).is_some());
        let is_named = headings.iter().any(|heading| heading.contains(char::is_alphabetic));
        let row_moment = |row: &Vec<String>| parse_moment(&time_text(row, time, clock)?, order, true);
        let second = rows.get(first + 1).and_then(row_moment);
        let moment = row_moment(row)?;
        let is_backwards = second.is_some_and(|second| second.local_s < moment.local_s);
        let is_table = has_number && is_named && name_cells.len() < 4;
        let table_lines = heading_rows.iter().map(|row| line_indexes[*row]).collect();
        let line_count = line_indexes[first];
        is_table.then_some(TableHead {
            delimiter,
            line_count,
            table_lines,
            headings,
            time_cell: time,
            clock_cell: clock,
            name_cells,
            order,
            is_backwards,
        })
    }
}

/// Finds the cell of a row with its time; or the cells of its date and, behind it, of its time of day.
fn find_time_cells(
    row: &[String],
    order: NumericDateOrder,
    is_named: impl Fn(usize) -> bool,
) -> Option<(usize, Option<usize>)> {
    let is_time = |cell: &usize| parse_moment(&row[*cell], order, is_named(*cell)).is_some();
    let is_date =
        |cell: &usize| time_text(row, *cell, Some(cell + 1)).is_some_and(|t| parse_moment(&t, order, false).is_some());
    let single_cell = (0..row.len()).find(is_time).map(|cell| (cell, None));
    single_cell.or_else(|| (0..row.len()).find(is_date).map(|cell| (cell, Some(cell + 1))))
}

/// Returns the text of a row's time.
pub fn time_text<'r>(row: &'r [String], time: usize, clock: Option<usize>) -> Option<Cow<'r, str>> {
    let date = row.get(time)?;
    match clock {
        Some(clock) => Some(Cow::Owned(format!("{date} {}", row.get(clock)?))),
        None => Some(Cow::Borrowed(date)),
    }
}

/// Joins the headings above each cell, in one line or several; labels of lines at the left stand above the time.
fn join_headings<'r>(rows: impl Iterator<Item = &'r Vec<String>>, count: usize) -> Vec<String> {
    // lines of periods and similar values are no names
    let has_names = |row: &&Vec<String>| {
        row.iter().skip(1).any(|c| !cells::is_blank_cell(c) && cells::parse_loose_number(c).is_none())
    };
    let rows: Vec<&Vec<String>> = rows.filter(has_names).collect();
    let joined_heading = |cell: usize| {
        let mut words: Vec<&str> = Vec::new();
        for row in &rows {
            if let Some(word) = row.get(cell).map(|word| word.trim()).filter(|w| !w.is_empty() && !words.contains(w)) {
                words.push(word);
            }
        }
        words.join(" ")
    };
    (0..count).map(joined_heading).collect()
}
