//! Cells of a line: text with and without quotes, and rows of numbers that go straight into a tick's row.

use std::ops::Range;

use crate::perfmon::number;

/// Seconds since 1970 that a log can have: 1973 to 2255, within the range of 64-bit nanoseconds.
pub(crate) const EPOCH_RANGE_S: Range<f64> = 1e8..9e9;

/// Placeholder for no column: the cell is not kept.
pub(crate) const NO_COLUMN: u32 = u32::MAX;

/// Use of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellPlan {
    /// It is not kept.
    Skip,
    /// Its number goes into this column.
    Number(u32),
    /// 100 less its number goes into this column.
    Rest(u32),
    /// Its text is kept, under this number.
    Text(u8),
}

impl CellPlan {
    /// Returns the plan for a column, if there is one.
    pub fn for_column(column: Option<u32>, is_rest: bool) -> CellPlan {
        match column {
            Some(column) if is_rest => CellPlan::Rest(column),
            Some(column) => CellPlan::Number(column),
            None => CellPlan::Skip,
        }
    }

    fn column_or_none(self) -> u32 {
        match self {
            CellPlan::Number(column) | CellPlan::Rest(column) => column,
            CellPlan::Skip | CellPlan::Text(_) => NO_COLUMN,
        }
    }
}

/// Ranges of the texts of a row that are kept.
pub(crate) type CellTexts = [Range<usize>; 4];

/// Result of reading a row according to its plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RowFit {
    /// Number of cells that the row has.
    pub cell_count: usize,
    /// Number of cells that should hold a number and hold something else.
    pub odd_count: usize,
    /// Range of the first of these.
    pub first_odd: Range<usize>,
    /// Texts that are kept.
    pub texts: CellTexts,
}

impl RowFit {
    /// Returns the use of the row's last cell; `None` if no heading stands above it.
    pub fn last_cell_plan(&self, plan: &[CellPlan]) -> Option<CellPlan> {
        assert!(self.cell_count > 0, "a row that was read has a cell, if only an empty one");
        plan.get(self.cell_count - 1).copied()
    }
}

/// Returns true for a row without its end whose last cell is a text: a time that was cut reads as another time.
pub(crate) fn is_time_cut(is_cut: bool, fit: &RowFit, plan: &[CellPlan]) -> bool {
    is_cut && matches!(fit.last_cell_plan(plan), Some(CellPlan::Text(_)))
}

/// Splits a line into the text of its cells, without their quotes.
pub(crate) fn split_cells(line: &[u8], delimiter: u8) -> Vec<String> {
    let mut cells = Vec::new();
    let mut index = 0;
    loop {
        let range = find_cell(line, index, line.len(), delimiter);
        cells.push(unquote_cell(&line[range.clone()]));
        index = range.end + 1;
        if range.end >= line.len() {
            return cells;
        }
    }
}

/// Returns a cell's text without blanks and quotes around it.
pub(crate) fn unquote_cell(cell: &[u8]) -> String {
    let text = String::from_utf8_lossy(cell);
    let text = text.trim();
    match text.strip_prefix('"').map(|rest| rest.strip_suffix('"').unwrap_or(rest)) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => text.to_owned(),
    }
}

/// Finds the cell that begins at an index.
fn find_cell(line: &[u8], position: usize, end: usize, delimiter: u8) -> Range<usize> {
    let mut close = position;
    if line[position..end].first() == Some(&b'"') {
        // quotes in a cell are doubled, so after an odd number of quotes the cell is open
        let mut is_open = true;
        close = position + 1;
        while close < end && (is_open || line[close] != delimiter) {
            is_open ^= line[close] == b'"';
            close += 1;
        }
        return position..close;
    }
    close += memchr::memchr(delimiter, &line[position..end]).unwrap_or(end - position);
    position..close
}

/// Reads a row of numbers into `row`. `bytes` has padding behind the row's `length`. A blank, `-` and `nan` are gaps;
/// any other cell that is not a number is counted.
pub(crate) fn read_numbers(bytes: &[u8], length: usize, delimiter: u8, plan: &[CellPlan], row: &mut [f64]) -> RowFit {
    let mut fit = RowFit::default();
    let mut start = 0;
    let is_end = |index: usize| index == length || index < length && bytes[index] == delimiter;
    loop {
        debug_assert!(start <= length, "cell {} begins within the row", fit.cell_count);
        let kind = plan.get(fit.cell_count).copied().unwrap_or(CellPlan::Skip);
        fit.cell_count += 1;
        if let CellPlan::Number(column) | CellPlan::Rest(column) = kind
            && let Some((value, next)) = number::read_number::<b'.'>(bytes, start)
            && is_end(next)
        {
            row[column as usize] = if matches!(kind, CellPlan::Rest(_)) { 100.0 - value } else { value };
            start = next;
        } else {
            let range = find_cell(bytes, start, length, delimiter);
            start = range.end;
            if let CellPlan::Text(number) = kind {
                fit.texts[usize::from(number)] = range;
            } else if kind.column_or_none() != NO_COLUMN {
                read_odd_cell(bytes, range, kind, row, &mut fit);
            }
        }
        if start >= length {
            return fit;
        }
        start += 1;
    }
}

#[cold]
fn read_odd_cell(bytes: &[u8], range: Range<usize>, kind: CellPlan, row: &mut [f64], fit: &mut RowFit) {
    let text = unquote_cell(&bytes[range.clone()]);
    let value = parse_loose_number(&text);
    match (value, kind) {
        (Some(value), CellPlan::Number(column)) => row[column as usize] = value,
        (Some(value), CellPlan::Rest(column)) => row[column as usize] = 100.0 - value,
        (None, _) if !is_blank_cell(&text) => {
            if fit.odd_count == 0 {
                fit.first_odd = range;
            }
            fit.odd_count += 1;
        }
        _ => {}
    }
}

/// Returns true for text that tools write where they have no value.
pub(crate) fn is_blank_cell(text: &str) -> bool {
    let text = text.trim();
    text.is_empty()
        || ["-", "--", "?", "n/a", "na", "nan", "-nan", "null", "none", "unknown"]
            .iter()
            .any(|w| text.eq_ignore_ascii_case(w))
}

/// Parses a number with blanks around it or a decimal comma; no unit.
pub(crate) fn parse_loose_number(text: &str) -> Option<f64> {
    let text = text.trim();
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) {
        return None;
    }
    let value = text.parse::<f64>().ok().or_else(|| text.replacen(',', ".", 1).parse().ok());
    value.filter(|v| v.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn padded(line: &str) -> Vec<u8> {
        [line.as_bytes(), b"\n", &[0; number::PADDING_BYTES + 16]].concat()
    }

    #[test]
    fn splits_cells_with_and_without_quotes() {
        assert_eq!(split_cells(b"\"a, b\",,c d,\"say \"\"x\"\"\"", b','), ["a, b", "", "c d", "say \"x\""]);
        assert_eq!(split_cells(b"", b','), [""]);
        assert_eq!(split_cells(b"a,", b','), ["a", ""]);
        assert_eq!(split_cells(b"\"open, a", b','), ["open, a"]);
    }

    #[test]
    fn numbers_go_to_their_columns_and_gaps_stay() {
        let plan = [CellPlan::Text(1), CellPlan::Number(0), CellPlan::Skip, CellPlan::Rest(1), CellPlan::Number(2)];
        let mut row = [f64::NAN; 3];
        let line = "12:00:01,1.5,x,25,\" 7,5 \"";
        let fit = read_numbers(&padded(line), line.len(), b',', &plan, &mut row);
        assert_eq!((row, fit.cell_count, fit.odd_count), ([1.5, 75.0, 7.5], 5, 0));
        assert_eq!(&line[fit.texts[1].clone()], "12:00:01");
        let mut row = [f64::NAN; 3];
        for (line, cells, odd) in [("a,-,,,nan", 5, 0), ("a,bad,1,2x,3", 5, 2), ("a,1", 2, 0), ("a,1,2,3,4,5", 6, 0)] {
            row.fill(f64::NAN);
            let fit = read_numbers(&padded(line), line.len(), b',', &plan, &mut row);
            assert_eq!((fit.cell_count, fit.odd_count), (cells, odd), "{line}");
        }
        assert_eq!(row, [1.0, 97.0, 4.0]);
    }

    #[test]
    fn parses_loose_numbers_and_blanks() {
        for (text, value) in [("1,5", Some(1.5)), ("-2", Some(-2.0)), ("1e3", Some(1000.0)), ("1.2.3", None)] {
            assert_eq!(parse_loose_number(text), value, "{text}");
        }
        assert_eq!(parse_loose_number("inf"), None);
        assert!(is_blank_cell(" - ") && is_blank_cell("NaN") && !is_blank_cell("0") && !is_blank_cell("x"));
    }
}
