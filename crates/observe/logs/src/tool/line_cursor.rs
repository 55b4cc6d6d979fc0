//! Lines of an input one by one, with padding behind them, so that numbers are read straight from the buffer.

use std::io::Read;
use std::ops::Range;

use crate::error::LogError;
use crate::input::LogInput;
use crate::perfmon::line_buffer::LineBuffer;

/// Mark that some programs write at the beginning of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns the range of a line's content: pasted lines may be indented, a terminal leaves carriage returns, and a crash
/// leaves zero bytes. A tab may be an empty cell, so it counts as a blank only if `are_tabs_blank` is set.
fn content_range(line: &[u8], are_tabs_blank: bool) -> Range<usize> {
    let is_blank = |b: &u8| matches!(*b, b' ' | b'\r' | 0) || *b == b'\t' && are_tabs_blank;
    let start = line.iter().position(|b| !is_blank(b)).unwrap_or(line.len());
    let end = line.iter().rposition(|b| !matches!(*b, b'\r' | 0)).map_or(start, |last| last + 1);
    start..end.max(start)
}

/// Iterates over the lines of a head, stripped like those of a [`LineCursor`].
pub(crate) fn head_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    bytes.split(|b| *b == b'\n').map(|line| &line[content_range(line, true)])
}

/// A cursor over the lines of an input.
pub(crate) struct LineCursor<'a> {
    input: &'a mut dyn Read,
    name: String,
    buffer: LineBuffer,
    line_start: usize,
    line_end: usize,
    line_number: u64,
    is_cut: bool,
    has_tab_cells: bool,
}

impl<'a> LineCursor<'a> {
    /// Makes a cursor before the first line of an input.
    pub fn new(input: &'a mut LogInput) -> LineCursor<'a> {
        let name = input.name().to_owned();
        LineCursor::from_reader(input, name)
    }

    /// Makes a cursor over any reader; `name` is for errors.
    pub fn from_reader(input: &'a mut dyn Read, name: String) -> LineCursor<'a> {
        LineCursor {
            input,
            name,
            buffer: LineBuffer::new(),
            line_start: 0,
            line_end: 0,
            line_number: 0,
            is_cut: false,
            has_tab_cells: false,
        }
    }

    /// Prepares for a table with this delimiter: if it is a tab, one before the first word is a cell.
    pub fn for_table(mut self, delimiter: u8) -> LineCursor<'a> {
        self.has_tab_cells = delimiter == b'\t';
        self
    }

    /// Advances to the next line; returns false at the end.
    ///
    /// # Errors
    /// When reading fails, or a line has no end.
    pub fn advance(&mut self) -> Result<bool, LogError> {
        if !self.buffer.fill_lines(self.input).map_err(|e| LogError::io(&self.name, e))? {
            return Ok(false);
        }
        let (bytes, position, lines_end) = self.buffer.complete_lines();
        let end = memchr::memchr(b'\n', &bytes[position..lines_end]).map_or(lines_end, |length| position + length);
        self.is_cut = self.buffer.has_unfinished_line() && end + 1 >= lines_end;
        let mark_bytes = if self.line_number == 0 && bytes[position..end].starts_with(BYTE_ORDER_MARK) {
            BYTE_ORDER_MARK.len()
        } else {
            0
        };
        let content = content_range(&bytes[position + mark_bytes..end], !self.has_tab_cells);
        (self.line_start, self.line_end) = (position + mark_bytes + content.start, position + mark_bytes + content.end);
        self.line_number += 1;
        self.buffer.consume_until(end + 1);
        Ok(true)
    }

    /// Returns the line without its end.
    pub fn line_bytes(&self) -> &[u8] {
        &self.buffer.complete_lines().0[self.line_start..self.line_end]
    }

    /// Returns the buffer from the line's first byte on, with padding behind the line, and the line's length.
    pub fn padded_line(&self) -> (&[u8], usize) {
        (&self.buffer.complete_lines().0[self.line_start..], self.line_end - self.line_start)
    }

    /// Returns the line as text.
    pub fn line_text(&self) -> String {
        String::from_utf8_lossy(self.line_bytes()).into_owned()
    }

    /// Returns the line's place for messages, `line 12`.
    pub fn context(&self) -> String {
        format!("line {}", self.line_number)
    }

    /// Name of the input for errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true for a last line without its end: its last cell may be cut.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_what_surrounds_a_line() {
        let text = b"  \tone, two \r\r\n\0\0three\r\n\r\n\rfour\n";
        let read = |delimiter: u8| {
            let mut input = LogInput::from_bytes("x", text.to_vec()).unwrap();
            let mut lines = LineCursor::new(&mut input).for_table(delimiter);
            let mut found = Vec::new();
            while lines.advance().unwrap() {
                found.push(lines.line_text());
            }
            found
        };
        assert_eq!(read(b','), ["one, two ", "three", "", "four"]);
        assert_eq!(read(b'\t'), ["\tone, two ", "three", "", "four"]);
        assert!(head_lines(text).eq([&b"one, two "[..], b"three", b"", b"four", b""]));
    }

    #[test]
    fn reads_lines_with_any_end() {
        let mut input = LogInput::from_bytes("x", b"\xef\xbb\xbfone\r\n\ntwo\ncut".to_vec()).unwrap();
        let mut lines = LineCursor::new(&mut input);
        let mut found = Vec::new();
        while lines.advance().unwrap() {
            let (bytes, length) = lines.padded_line();
            assert!(bytes.len() >= length + 8, "room behind {}", lines.line_text());
            found.push((lines.line_text(), lines.context(), lines.is_cut()));
        }
        let line = |text: &str, number: u32, is_cut| (text.to_owned(), format!("line {number}"), is_cut);
        assert_eq!(found, [line("one", 1, false), line("", 2, false), line("two", 3, false), line("cut", 4, true)]);
    }
}
