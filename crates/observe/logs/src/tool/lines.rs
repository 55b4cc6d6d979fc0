//! Lines of an input one by one, with room behind them, so that numbers are
//! read straight from the buffer.

use std::io::Read;
use std::ops::Range;

use crate::error::LogError;
use crate::input::LogInput;
use crate::perfmon::buffer::LineBuffer;

/// What some programs write at the beginning of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Where a line begins and ends without what stands around it: lines are set in where they were
/// pasted, a terminal leaves carriage returns, and a crash leaves zero bytes. A tab may be an
/// empty cell, so it counts as a blank only where `tabs` says so.
fn bare(line: &[u8], tabs: bool) -> Range<usize> {
    let is_blank = |b: &u8| matches!(*b, b' ' | b'\r' | 0) || *b == b'\t' && tabs;
    let start = line.iter().position(|b| !is_blank(b)).unwrap_or(line.len());
    let end = line.iter().rposition(|b| !matches!(*b, b'\r' | 0)).map_or(start, |last| last + 1);
    start..end.max(start)
}

/// The lines of a head, as a [`LineCursor`] gives them.
pub(crate) fn of_head(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    bytes.split(|b| *b == b'\n').map(|line| &line[bare(line, true)])
}

/// A place in an input, line by line.
pub(crate) struct LineCursor<'a> {
    input: &'a mut dyn Read,
    name: String,
    buffer: LineBuffer,
    start: usize,
    end: usize,
    number: u64,
    is_cut: bool,
    has_tab_cells: bool,
}

impl<'a> LineCursor<'a> {
    /// Before the first line of an input.
    pub fn new(input: &'a mut LogInput) -> LineCursor<'a> {
        let name = input.name().to_owned();
        LineCursor::over(input, name)
    }

    /// The same of any reader; `name` is for errors.
    pub fn over(input: &'a mut dyn Read, name: String) -> LineCursor<'a> {
        LineCursor {
            input,
            name,
            buffer: LineBuffer::new(),
            start: 0,
            end: 0,
            number: 0,
            is_cut: false,
            has_tab_cells: false,
        }
    }

    /// The same of a table whose cells may stand between tabs: one before the first word is a cell.
    pub fn of_table(mut self, delimiter: u8) -> LineCursor<'a> {
        self.has_tab_cells = delimiter == b'\t';
        self
    }

    /// Goes to the next line; false at the end.
    ///
    /// # Errors
    /// When the system refuses, or a line has no end.
    pub fn advance(&mut self) -> Result<bool, LogError> {
        if !self.buffer.fill(self.input).map_err(|e| LogError::io(&self.name, e))? {
            return Ok(false);
        }
        let (bytes, position, whole) = self.buffer.lines();
        let end = memchr::memchr(b'\n', &bytes[position..whole]).map_or(whole, |length| position + length);
        self.is_cut = self.buffer.is_unfinished() && end + 1 >= whole;
        let mark = if self.number == 0 && bytes[position..end].starts_with(BYTE_ORDER_MARK) {
            BYTE_ORDER_MARK.len()
        } else {
            0
        };
        let own = bare(&bytes[position + mark..end], !self.has_tab_cells);
        (self.start, self.end) = (position + mark + own.start, position + mark + own.end);
        self.number += 1;
        self.buffer.take_until(end + 1);
        Ok(true)
    }

    /// The line without its end.
    pub fn line(&self) -> &[u8] {
        &self.buffer.lines().0[self.start..self.end]
    }

    /// The buffer from the line's first byte on, with room behind the line, and
    /// the line's length.
    pub fn padded(&self) -> (&[u8], usize) {
        (&self.buffer.lines().0[self.start..], self.end - self.start)
    }

    /// The line as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.line()).into_owned()
    }

    /// `line 12`.
    pub fn context(&self) -> String {
        format!("line {}", self.number)
    }

    /// What errors call the input.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True for a last line without its end: its last cell may be cut.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_around_a_line_is_none_of_it() {
        let text = b"  \tone, two \r\r\n\0\0three\r\n\r\n\rfour\n";
        let read = |delimiter: u8| {
            let mut input = LogInput::from_bytes("x", text.to_vec()).unwrap();
            let mut lines = LineCursor::new(&mut input).of_table(delimiter);
            let mut found = Vec::new();
            while lines.advance().unwrap() {
                found.push(lines.text());
            }
            found
        };
        assert_eq!(read(b','), ["one, two ", "three", "", "four"]);
        assert_eq!(read(b'\t'), ["\tone, two ", "three", "", "four"]);
        assert!(of_head(text).eq([&b"one, two "[..], b"three", b"", b"four", b""]));
    }

    #[test]
    fn lines_come_one_by_one_with_any_end() {
        let mut input = LogInput::from_bytes("x", b"\xef\xbb\xbfone\r\n\ntwo\ncut".to_vec()).unwrap();
        let mut lines = LineCursor::new(&mut input);
        let mut found = Vec::new();
        while lines.advance().unwrap() {
            let (bytes, length) = lines.padded();
            assert!(bytes.len() >= length + 8, "room behind {}", lines.text());
            found.push((lines.text(), lines.context(), lines.is_cut()));
        }
        let line = |text: &str, number: u32, is_cut| (text.to_owned(), format!("line {number}"), is_cut);
        assert_eq!(found, [line("one", 1, false), line("", 2, false), line("two", 3, false), line("cut", 4, true)]);
    }
}
