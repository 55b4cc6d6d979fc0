//! The file in large pieces that end at a line's end. Only a line that a piece cuts in two is copied.

use std::io::{self, Read};

use super::number::PADDING_BYTES;

/// Bytes that are read at once; they fit into the second-level cache.
const CHUNK_BYTES: usize = 256 << 10;
/// Longest line. A log of 100,000 columns has headers of 10 MB.
const MAX_LINE_BYTES: usize = 64 << 20;

/// A piece of the file.
pub(crate) struct LineBuffer {
    bytes: Vec<u8>,
    /// Index of the first line that is not consumed yet.
    position: usize,
    /// Index behind the last line end.
    lines_end: usize,
    /// Index behind the last byte that was read.
    bytes_end: usize,
    is_at_end: bool,
    has_unfinished_line: bool,
}

impl LineBuffer {
    /// Makes an empty buffer.
    pub fn new() -> LineBuffer {
        LineBuffer {
            bytes: vec![0; CHUNK_BYTES + PADDING_BYTES],
            position: 0,
            lines_end: 0,
            bytes_end: 0,
            is_at_end: false,
            has_unfinished_line: false,
        }
    }

    /// Returns the buffer, with padding behind its content, and the range of the complete lines in it.
    pub fn complete_lines(&self) -> (&[u8], usize, usize) {
        (&self.bytes, self.position, self.lines_end)
    }

    /// Marks the lines before `index` as consumed.
    pub fn consume_until(&mut self, index: usize) {
        self.position = index.min(self.lines_end);
    }

    /// Returns true if the last line of all has no line end in the file; one was added behind it.
    pub fn has_unfinished_line(&self) -> bool {
        self.has_unfinished_line
    }

    /// Reads on until there is a complete line. Returns false at the end of the file.
    ///
    /// # Errors
    /// When reading fails, or a line has no end.
    pub fn fill_lines(&mut self, source: &mut dyn Read) -> io::Result<bool> {
        if self.position < self.lines_end {
            return Ok(true);
        }
        assert!(
            self.position == self.lines_end && self.lines_end <= self.bytes_end && self.bytes_end <= self.bytes.len(),
            "lines end at {} of {} bytes, and are consumed up to {}",
            self.lines_end,
            self.bytes_end,
            self.position
        );
        self.bytes.copy_within(self.lines_end..self.bytes_end, 0);
        (self.position, self.bytes_end, self.lines_end) = (0, self.bytes_end - self.lines_end, 0);
        while !self.is_at_end {
            if self.bytes_end + PADDING_BYTES >= self.bytes.len() {
                if self.bytes_end > MAX_LINE_BYTES {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "a line of more than 64 MiB"));
                }
                self.bytes.resize(self.bytes.len() * 2, 0);
            }
            let limit = self.bytes.len() - PADDING_BYTES;
            assert!(self.bytes_end < limit, "a read into an empty slice would look like the end");
            let read = match source.read(&mut self.bytes[self.bytes_end..limit]) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let new_bytes = self.bytes_end..self.bytes_end + read;
            self.bytes_end += read;
            self.is_at_end = read == 0;
            if let Some(last) = memchr::memrchr(b'\n', &self.bytes[new_bytes.clone()]) {
                self.lines_end = new_bytes.start + last + 1;
            }
            // a pipe returns few bytes at a time
            if self.lines_end > 0 && self.bytes_end >= CHUNK_BYTES / 2 {
                return Ok(true);
            }
        }
        if self.lines_end > 0 {
            return Ok(true);
        }
        if self.bytes_end == 0 {
            return Ok(false);
        }
        // the padding leaves a byte for it
        self.bytes[self.bytes_end] = b'\n';
        self.bytes_end += 1;
        self.lines_end = self.bytes_end;
        self.has_unfinished_line = true;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes a few at a time.
    struct Dribble(Vec<u8>, usize);

    impl Read for Dribble {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(to.len());
            to[..count].copy_from_slice(&self.0[..count]);
            self.0.drain(..count);
            Ok(count)
        }
    }

    fn lines_of(text: &str, step: usize) -> (Vec<String>, bool) {
        let mut from = Dribble(text.into(), step);
        let mut buffer = LineBuffer::new();
        let mut found = String::new();
        while buffer.fill_lines(&mut from).unwrap() {
            let (bytes, position, complete_bytes) = buffer.complete_lines();
            assert_eq!(bytes[complete_bytes - 1], b'\n');
            found += std::str::from_utf8(&bytes[position..complete_bytes]).unwrap();
            buffer.consume_until(complete_bytes);
        }
        (found.lines().map(str::to_owned).collect(), buffer.has_unfinished_line())
    }

    #[test]
    fn lines_are_complete_however_they_are_read() {
        for step in [1, 2, 3, 7, 100] {
            assert_eq!(
                lines_of("one\ntwo\n\nlast\n", step),
                (vec!["one".into(), "two".into(), "".into(), "last".into()], false)
            );
            assert_eq!(lines_of("one\ncut", step), (vec!["one".into(), "cut".into()], true));
            assert_eq!(lines_of("", step), (vec![], false));
        }
        let long = format!("{}\nshort\n", "x".repeat(3 * CHUNK_BYTES));
        assert_eq!(lines_of(&long, 1 << 20).0[0].len(), 3 * CHUNK_BYTES);
    }

    #[test]
    fn a_line_without_end_takes_bounded_memory() {
        let mut buffer = LineBuffer::new();
        let error = buffer.fill_lines(&mut io::repeat(b'x')).unwrap_err();
        assert!(error.to_string().contains("64 MiB"));
    }
}
