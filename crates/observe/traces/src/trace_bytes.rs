//! Reads a file as bytes or lines, in large blocks.

use std::io::{self, Read};

use diskwright_logs::LogInput;

use crate::TraceError;

/// Size of one read; also the longest accepted line.
const READ_BYTES: usize = 256 << 10;

/// A file being read.
pub(crate) struct TraceBytes {
    input: LogInput,
    buffer: Vec<u8>,
    /// Bytes that were read but not consumed are `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Offset of `start` in the (unpacked) file.
    offset: u64,
    /// Number of lines consumed.
    line_count: u64,
    /// The whole file was read into the buffer.
    is_at_end: bool,
}

/// A line without its line end.
pub(crate) enum TraceLine<'a> {
    /// A complete line.
    Complete(&'a [u8]),
    /// A line longer than 256 KiB, which was skipped.
    TooLong,
}

impl TraceBytes {
    pub(crate) fn new(input: LogInput) -> TraceBytes {
        TraceBytes {
            input,
            buffer: vec![0; 2 * READ_BYTES],
            start: 0,
            end: 0,
            offset: 0,
            line_count: 0,
            is_at_end: false,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.input.name()
    }

    /// Number of bytes consumed so far.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Describes the location of the last line.
    pub(crate) fn line_location(&self) -> String {
        format!("{}: line {}", self.input.name(), self.line_count)
    }

    /// Bytes that were read but not consumed.
    pub(crate) fn unread_bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Consumes `count` bytes of [`TraceBytes::unread_bytes`].
    pub(crate) fn skip_bytes(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// Reads until at least `count` bytes (at most [`READ_BYTES`]) are available;
    /// returns false if the file ends before that.
    pub(crate) fn ensure_available(&mut self, count: usize) -> Result<bool, TraceError> {
        while self.end - self.start < count && !self.is_at_end {
            self.read_more()?;
        }
        Ok(self.end - self.start >= count)
    }

    /// Moves the unconsumed bytes to the start of the buffer and reads more.
    fn read_more(&mut self) -> Result<(), TraceError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        match self.input.read(&mut self.buffer[self.end..]) {
            Ok(0) => self.is_at_end = true,
            Ok(count) => self.end += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(TraceError::Io { file: self.input.name().to_owned(), source }),
        }
        Ok(())
    }

    /// Returns the next line; `None` at the end of the file.
    pub(crate) fn next_line(&mut self) -> Result<Option<TraceLine<'_>>, TraceError> {
        let mut searched = 0;
        loop {
            if let Some(position) = memchr::memchr(b'\n', &self.buffer[self.start + searched..self.end]) {
                return Ok(Some(TraceLine::Complete(self.take_line(searched + position, 1))));
            }
            searched = self.end - self.start;
            if self.is_at_end {
                return Ok((searched > 0).then(|| TraceLine::Complete(self.take_line(searched, 0))));
            }
            if searched >= READ_BYTES {
                return self.skip_long_line().map(Some);
            }
            self.read_more()?;
        }
    }

    /// Consumes `length` bytes as a line, and its line end of `newline_bytes`.
    fn take_line(&mut self, length: usize, newline_bytes: usize) -> &[u8] {
        let start = self.start;
        self.skip_bytes(length + newline_bytes);
        self.line_count += 1;
        let line = &self.buffer[start..start + length];
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// Skips the rest of a line that is too long.
    fn skip_long_line(&mut self) -> Result<TraceLine<'_>, TraceError> {
        loop {
            let newline = memchr::memchr(b'\n', self.unread_bytes());
            self.skip_bytes(newline.map_or(self.end - self.start, |index| index + 1));
            if newline.is_some() || self.is_at_end {
                self.line_count += 1;
                return Ok(TraceLine::TooLong);
            }
            self.read_more()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace_bytes(text: &[u8]) -> TraceBytes {
        TraceBytes::new(LogInput::from_bytes("x", text.to_vec()).expect("opens"))
    }

    fn read_lines(text: &[u8]) -> Vec<Option<Vec<u8>>> {
        let mut bytes = trace_bytes(text);
        let mut found = Vec::new();
        while let Some(line) = bytes.next_line().expect("reads") {
            found.push(match line {
                TraceLine::Complete(line) => Some(line.to_vec()),
                TraceLine::TooLong => None,
            });
        }
        found
    }

    #[test]
    fn lines_may_end_with_lf_crlf_or_the_file() {
        let complete = |l: &str| Some(l.as_bytes().to_vec());
        assert_eq!(read_lines(b""), []);
        assert_eq!(read_lines(b"a\r\n\nb"), [complete("a"), complete(""), complete("b")]);
        assert_eq!(read_lines(b"a\n"), [complete("a")]);
    }

    #[test]
    fn an_endless_line_is_dropped_and_takes_no_memory() {
        let mut text = vec![b'x'; 5 * READ_BYTES];
        text.extend_from_slice(b"\nnext\n");
        assert_eq!(read_lines(&text), [None, Some(b"next".to_vec())]);
        text.truncate(3 * READ_BYTES);
        assert_eq!(read_lines(&text), [None]);
    }

    #[test]
    fn lines_across_pieces_are_whole() {
        let text: String = (0..100_000).map(|i| format!("line {i}\n")).collect();
        let found = read_lines(text.as_bytes());
        assert_eq!(found.len(), 100_000);
        assert!(found.iter().enumerate().all(|(i, l)| l.as_deref() == Some(format!("line {i}").as_bytes())));
    }

    #[test]
    fn ensure_available_reports_a_short_file() {
        let mut bytes = trace_bytes(b"abcdef");
        assert!(bytes.ensure_available(4).unwrap());
        bytes.skip_bytes(4);
        assert_eq!((bytes.offset(), bytes.ensure_available(3).unwrap(), bytes.unread_bytes()), (4, false, &b"ef"[..]));
        bytes.skip_bytes(99);
        assert_eq!(bytes.offset(), 6);
    }
}
