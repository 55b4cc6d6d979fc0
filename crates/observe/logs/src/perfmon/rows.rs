//! Reader of one row's cells into columns, straight from the buffer.

use super::number;

/// Oddities of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RowOddities {
    /// Columns (from 0) that held text.
    pub text_columns: Vec<usize>,
    /// Text of the first of them.
    pub first_text: String,
    /// Number of columns that the row lacks.
    pub missing: usize,
    /// Set if it has more fields than the header.
    pub has_surplus: bool,
    /// Set if the last cell's quote is not closed: the row was cut in it.
    pub is_cut: bool,
    /// Set if it has a value below zero.
    pub has_negative: bool,
}

impl RowOddities {
    /// Returns true if nothing needs to be reported.
    pub fn is_none(&self) -> bool {
        self.missing == 0 && !self.has_surplus && !self.is_cut && self.text_columns.is_empty()
    }
}

/// A run of a row's cells: some to skip, then some to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CellRun {
    pub skip: usize,
    pub take: usize,
}

/// Notation of a file's rows; each pair has its own instance of [`read_cells`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    pub separator: u8,
    pub decimal_point: u8,
}

/// Reads cells from `index` (the first cell's beginning) to the end of the line into `row`, which has a cell for each
/// that is taken. Returns the index behind the line end.
pub(super) fn read_row(
    dialect: Dialect,
    bytes: &[u8],
    index: usize,
    runs: &[CellRun],
    row: &mut [f64],
    oddities: &mut RowOddities,
) -> usize {
    let read = match (dialect.separator, dialect.decimal_point) {
        (b',', b'.') => read_cells::<b',', b'.'>,
        (b'\t', b'.') => read_cells::<b'\t', b'.'>,
        (b';', b'.') => read_cells::<b';', b'.'>,
        (b',', _) => read_cells::<b',', b','>,
        (b'\t', _) => read_cells::<b'\t', b','>,
        (_, _) => read_cells::<b';', b','>,
    };
    read(bytes, index, runs, row, oddities)
}

fn read_cells<const SEPARATOR: u8, const POINT: u8>(
    bytes: &[u8],
    mut index: usize,
    runs: &[CellRun],
    row: &mut [f64],
    oddities: &mut RowOddities,
) -> usize {
    let mut read_count = 0;
    let mut has_negative = false;
    debug_assert_eq!(runs.iter().map(|run| run.take).sum::<usize>(), row.len(), "a row has a cell for each column");
    for run in runs {
        for _ in 0..run.skip {
            index = skip_cell::<SEPARATOR>(bytes, index);
        }
        for (column, cell) in row[read_count..read_count + run.take].iter_mut().enumerate() {
            if let Some((value, next)) = read_quick_cell::<SEPARATOR, POINT>(bytes, index) {
                *cell = value;
                index = next;
                has_negative |= value < 0.0;
            } else {
                (*cell, index) = read_any_cell::<SEPARATOR>(bytes, index, read_count + column, oddities);
            }
        }
        read_count += run.take;
    }
    oddities.has_negative |= has_negative;
    finish_line(bytes, index, oddities)
}

/// Reads a number, quoted or not, or a blank, with a separator behind it: returns the value and the index of the next
/// cell.
#[inline(always)]
fn read_quick_cell<const SEPARATOR: u8, const POINT: u8>(bytes: &[u8], index: usize) -> Option<(f64, usize)> {
    if *bytes.get(index)? != b'"' {
        let (value, end) = number::read_number::<POINT>(bytes, index)?;
        return (*bytes.get(end)? == SEPARATOR).then_some((value, end + 1));
    }
    if let Some((value, end)) = number::read_number::<POINT>(bytes, index + 1) {
        return (bytes.get(end..end + 2)? == [b'"', SEPARATOR]).then_some((value, end + 2));
    }
    // Windows writes a quoted blank if there is no value
    (bytes.get(index + 1..index + 4)? == [b' ', b'"', SEPARATOR]).then_some((f64::NAN, index + 4))
}

/// Reads any cell: the last of a row, a blank, a number of another dialect, text. Returns its value and the index of
/// the next cell, or of the line's end.
#[inline(never)]
fn read_any_cell<const SEPARATOR: u8>(
    bytes: &[u8],
    index: usize,
    column: usize,
    oddities: &mut RowOddities,
) -> (f64, usize) {
    if is_line_end(bytes, index) && (index == 0 || column == 0 || bytes[index - 1] != SEPARATOR) {
        oddities.missing += 1;
        return (f64::NAN, index);
    }
    let (text, end) = find_field::<SEPARATOR>(bytes, index, oddities);
    let next = if bytes.get(end) == Some(&SEPARATOR) { end + 1 } else { end };
    let text = bytes[text].trim_ascii();
    let value = match parse_cell(text) {
        _ if oddities.is_cut => f64::NAN,
        Some(value) => value,
        None => {
            if oddities.text_columns.is_empty() {
                oddities.first_text = String::from_utf8_lossy(&text[..text.len().min(60)]).into_owned();
            }
            oddities.text_columns.push(column);
            f64::NAN
        }
    };
    oddities.has_negative |= value < 0.0;
    (value, next)
}

/// Finds the text of a field, and the index behind the field, which is at a separator or a line end.
fn find_field<const SEPARATOR: u8>(
    bytes: &[u8],
    index: usize,
    oddities: &mut RowOddities,
) -> (std::ops::Range<usize>, usize) {
    let until = |from: usize| {
        bytes[from..].iter().position(|b| *b == SEPARATOR || *b == b'\n').map_or(bytes.len(), |n| from + n)
    };
    if bytes[index] != b'"' {
        let end = until(index);
        let end = if bytes.get(end) == Some(&b'\n') && end > index && bytes[end - 1] == b'\r' { end - 1 } else { end };
        return (index..end, end);
    }
    let mut close = index + 1;
    loop {
        match memchr::memchr2(b'"', b'\n', &bytes[close..]) {
            Some(n) if bytes[close + n] == b'"' && bytes.get(close + n + 1) == Some(&b'"') => close += n + 2,
            Some(n) if bytes[close + n] == b'"' => {
                close += n;
                break;
            }
            found => {
                oddities.is_cut = true;
                let end = found.map_or(bytes.len(), |n| close + n);
                return (index + 1..end, end);
            }
        }
    }
    let end = until(close + 1);
    let end = if bytes.get(end) == Some(&b'\n') && end > close + 1 && bytes[end - 1] == b'\r' { end - 1 } else { end };
    (index + 1..close, end)
}

/// Parses a complete cell; blank and NaN are gaps, `None` is text.
fn parse_cell(text: &[u8]) -> Option<f64> {
    if text.is_empty() {
        return Some(f64::NAN);
    }
    let mut padded = [0u8; 64 + number::PADDING_BYTES];
    padded.get_mut(..text.len()).filter(|cell| cell.len() <= 64)?.copy_from_slice(text);
    for read in [number::read_number::<b'.'>, number::read_number::<b','>] {
        if let Some((value, end)) = read(&padded, 0)
            && end == text.len()
        {
            return Some(value);
        }
    }
    // C libraries print these for values that are no number
    let lower = text.to_ascii_lowercase();
    let bare = lower.strip_prefix(b"-").unwrap_or(&lower);
    (bare.starts_with(b"nan") || bare.starts_with(b"inf") || bare.starts_with(b"1.#")).then_some(f64::NAN)
}

/// Skips a cell of a column that is not read.
fn skip_cell<const SEPARATOR: u8>(bytes: &[u8], index: usize) -> usize {
    if is_line_end(bytes, index) {
        return index;
    }
    let (_, end) = find_field::<SEPARATOR>(bytes, index, &mut RowOddities::default());
    if bytes.get(end) == Some(&SEPARATOR) { end + 1 } else { end }
}

fn is_line_end(bytes: &[u8], index: usize) -> bool {
    match bytes.get(index) {
        None | Some(b'\n') => true,
        Some(b'\r') => bytes.get(index + 1) == Some(&b'\n'),
        _ => false,
    }
}

/// Returns the index behind the line end; anything before it is surplus fields.
fn finish_line(bytes: &[u8], index: usize, oddities: &mut RowOddities) -> usize {
    match (bytes.get(index), bytes.get(index + 1)) {
        (Some(b'\n'), _) => return index + 1,
        (Some(b'\r'), Some(b'\n')) => return index + 2,
        _ => {}
    }
    let end = bytes.get(index..).and_then(|rest| memchr::memchr(b'\n', rest)).map_or(bytes.len(), |n| index + n);
    oddities.has_surplus =
        !bytes[index.min(end)..end].iter().all(|b| matches!(b, b' ' | b'\r' | b'"' | b',' | b';' | b'\t'));
    (end + 1).min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(dialect: Dialect, line: &str, columns: usize) -> (Vec<f64>, RowOddities) {
        let mut bytes = line.as_bytes().to_vec();
        let length = bytes.len();
        bytes.extend([0; number::PADDING_BYTES]);
        let mut cells = vec![0.0; columns];
        let mut oddities = RowOddities::default();
        let end = read_row(dialect, &bytes, 0, &[CellRun { skip: 0, take: columns }], &mut cells, &mut oddities);
        assert_eq!(end, length, "{line}");
        (cells, oddities)
    }

    const WINDOWS: Dialect = Dialect { separator: b',', decimal_point: b'.' };

    fn oddities(dialect: Dialect, line: &str) -> String {
        let (cells, oddities) = row(dialect, line, 3);
        assert_eq!(oddities, RowOddities { has_negative: oddities.has_negative, ..RowOddities::default() }, "{line}");
        format!("{cells:?}")
    }

    #[test]
    fn reads_cells_of_all_dialects() {
        let semicolon = Dialect { separator: b';', decimal_point: b',' };
        let tab = Dialect { separator: b'\t', decimal_point: b'.' };
        assert_eq!(oddities(WINDOWS, "\"1.5\",\"2\",\"8.57e-005\"\r\n"), "[1.5, 2.0, 8.57e-5]");
        assert_eq!(oddities(WINDOWS, "1.5,2,-3\n"), "[1.5, 2.0, -3.0]");
        assert_eq!(oddities(WINDOWS, "\" \",,\"\"\n"), "[NaN, NaN, NaN]");
        assert_eq!(oddities(WINDOWS, "\"1,5\",\"2\",\"-0,25\"\n"), "[1.5, 2.0, -0.25]");
        assert_eq!(oddities(WINDOWS, "1,2,\n"), "[1.0, 2.0, NaN]");
        assert_eq!(oddities(WINDOWS, "1,2,3,\r\n"), "[1.0, 2.0, 3.0]");
        assert_eq!(oddities(WINDOWS, " 1 , 2 ,\" 3 \" \r\n"), "[1.0, 2.0, 3.0]");
        assert_eq!(oddities(WINDOWS, "-1.#IND,1.#INF,NaN\n"), "[NaN, NaN, NaN]");
        assert_eq!(oddities(semicolon, "1,5;2;8,57E-05\n"), "[1.5, 2.0, 8.57e-5]");
        assert_eq!(oddities(semicolon, "1.5;;\"2,5\"\r\n"), "[1.5, NaN, 2.5]");
        assert_eq!(oddities(tab, "\"1.5\"\t\" \"\t\"3\"\r\n"), "[1.5, NaN, 3.0]");
    }

    #[test]
    fn reports_the_oddities_of_a_row() {
        let (cells, oddities) = row(WINDOWS, "\"1\",\"2\"\r\n", 4);
        assert_eq!((format!("{cells:?}").as_str(), oddities.missing), ("[1.0, 2.0, NaN, NaN]", 2));
        let (cells, oddities) = row(WINDOWS, "1,2,3,4\n", 3);
        assert_eq!((cells, oddities.has_surplus), (vec![1.0, 2.0, 3.0], true));
        let (cells, oddities) = row(WINDOWS, "1,\"a, \"\"b\"\"\",3\n", 3);
        assert_eq!(
            (format!("{cells:?}").as_str(), oddities.text_columns, oddities.first_text.as_str()),
            ("[1.0, NaN, 3.0]", vec![1], "a, \"\"b\"\"")
        );
        let (cells, oddities) = row(WINDOWS, "1,\"2\",\"3\n", 3);
        assert_eq!((format!("{cells:?}").as_str(), oddities.is_cut), ("[1.0, 2.0, NaN]", true));
        let (_, oddities) = row(WINDOWS, "\n", 2);
        assert_eq!(oddities.missing, 2);
    }

    #[test]
    fn skips_columns() {
        let line = b"\"1\",\"a,b\",3,4\n                ";
        let mut cells = [0.0; 2];
        let mut oddities = RowOddities::default();
        let runs = [CellRun { skip: 0, take: 1 }, CellRun { skip: 2, take: 1 }];
        read_row(WINDOWS, line, 0, &runs, &mut cells, &mut oddities);
        assert_eq!((cells, oddities), ([1.0, 4.0], RowOddities::default()));
    }
}
