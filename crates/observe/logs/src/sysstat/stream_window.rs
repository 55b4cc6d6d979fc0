//! A window that advances over an input, and keeps the bytes that are not consumed yet.

use std::io::Read;

use crate::FrameBatch;
use crate::error::LogError;
use crate::input::LogInput;
use crate::plain_text;

/// Bytes that are read at once.
const STEP_BYTES: usize = 1 << 20;
/// Bytes that are read first: many logs are short.
const FIRST_READ_BYTES: usize = 64 << 10;
/// Largest unit that must be in the window as a whole: one sample in JSON or XML, one line.
pub const MAX_WINDOW_BYTES: usize = 32 << 20;

/// Window on an input.
pub struct StreamWindow<'a> {
    input: &'a mut dyn Read,
    name: String,
    buffer: Vec<u8>,
    position: usize,
    filled: usize,
    /// Bytes of the input before the window's buffer.
    window_offset: u64,
    has_ended: bool,
    is_unfinished: bool,
}

impl<'a> StreamWindow<'a> {
    /// Makes a window on an input's beginning.
    pub fn new(input: &'a mut LogInput) -> StreamWindow<'a> {
        let name = input.name().to_owned();
        StreamWindow::from_reader(input, name)
    }

    /// Makes a window on any reader; `name` is for errors.
    pub fn from_reader(input: &'a mut dyn Read, name: String) -> StreamWindow<'a> {
        StreamWindow {
            input,
            name,
            buffer: Vec::new(),
            position: 0,
            filled: 0,
            window_offset: 0,
            has_ended: false,
            is_unfinished: false,
        }
    }

    /// Bytes in the window.
    pub fn remaining_bytes(&self) -> &[u8] {
        &self.buffer[self.position..self.filled]
    }

    /// Offset of the window's first byte from the input's beginning.
    pub fn byte_offset(&self) -> u64 {
        self.window_offset + self.position as u64
    }

    /// Name of the input for errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns an error at a byte of the window.
    pub fn error_at(&self, index: usize, because: &str) -> LogError {
        LogError::broken(&self.name, format!("byte {}", self.byte_offset() + index as u64), because)
    }

    /// Consumes bytes.
    pub fn skip_bytes(&mut self, bytes: usize) {
        self.position = (self.position + bytes).min(self.filled);
    }

    /// Reads more; returns false at the end.
    ///
    /// # Errors
    /// When reading fails, or the window would grow beyond [`MAX_WINDOW_BYTES`].
    pub fn read_more(&mut self) -> Result<bool, LogError> {
        if self.has_ended {
            return Ok(false);
        }
        self.buffer.copy_within(self.position..self.filled, 0);
        self.window_offset += self.position as u64;
        self.filled -= self.position;
        self.position = 0;
        if self.filled >= MAX_WINDOW_BYTES {
            return Err(self.error_at(0, "one sample or line of more than 32 MiB begins here"));
        }
        // doubling keeps repeated scans of the same bytes linear in total
        let extra_bytes = if self.buffer.is_empty() { FIRST_READ_BYTES } else { STEP_BYTES.max(self.filled) };
        self.buffer.resize(self.filled + extra_bytes, 0);
        while self.filled < self.buffer.len() {
            match self.input.read(&mut self.buffer[self.filled..]) {
                Ok(0) => {
                    self.has_ended = true;
                    break;
                }
                Ok(read) => self.filled += read,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(LogError::io(&self.name, e)),
            }
        }
        Ok(self.filled > 0)
    }

    /// Reason to skip a last line without its end: its last number may lack digits.
    pub const UNFINISHED_LINE: &'static str = "the last line is incomplete; it was left out";

    /// Returns true if the line that was read last has no end.
    pub fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    /// Reads the next line as text, without its end and without terminal codes, and counts it in `number`; `None` at
    /// the end, and once the batch is stopped. A last line without its end is left out and reported.
    ///
    /// # Errors
    /// As [`StreamWindow::read_more`].
    pub fn next_text_line(&mut self, batch: &mut FrameBatch<'_>, number: &mut u64) -> Result<Option<String>, LogError> {
        if batch.is_stopped() {
            return Ok(None);
        }
        let Some((length, line_bytes)) = self.next_line()? else { return Ok(None) };
        let text = plain_text::clean_line(&self.remaining_bytes()[..length]).into_owned();
        self.skip_bytes(line_bytes);
        *number += 1;
        if self.is_unfinished && !text.trim().is_empty() {
            batch.add_skip(format!("line {number}"), StreamWindow::UNFINISHED_LINE);
            return Ok(None);
        }
        Ok(Some(text))
    }

    /// Finds the next line: its length without and with its end, or `None` at the end; read it with
    /// [`StreamWindow::remaining_bytes`] cut to the first length, then [`StreamWindow::skip_bytes`] the second.
    ///
    /// # Errors
    /// As [`StreamWindow::read_more`].
    pub fn next_line(&mut self) -> Result<Option<(usize, usize)>, LogError> {
        let mut searched_bytes = 0;
        loop {
            if let Some(end) = self.remaining_bytes()[searched_bytes..]
                .iter()
                .position(|b| *b == b'\n')
                .map(|end| end + searched_bytes)
            {
                let length = if end > 0 && self.remaining_bytes()[end - 1] == b'\r' { end - 1 } else { end };
                return Ok(Some((length, end + 1)));
            }
            searched_bytes = self.remaining_bytes().len();
            let previous_length = searched_bytes;
            if !self.read_more()? || self.remaining_bytes().len() == previous_length {
                self.is_unfinished = previous_length > 0;
                return Ok((previous_length > 0).then_some((previous_length, previous_length)));
            }
        }
    }
}
