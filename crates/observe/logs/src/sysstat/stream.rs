//! A window on an input that advances and keeps what is not consumed yet.

use std::io::Read;

use crate::FrameBatch;
use crate::clean;
use crate::error::LogError;
use crate::input::LogInput;

/// Bytes that are read at once.
const STEP: usize = 1 << 20;
/// Bytes that are read first: many logs are short.
const FIRST: usize = 64 << 10;
/// Largest unit that must be in the window as a whole: one sample in JSON or XML, one line.
pub const MOST: usize = 32 << 20;

/// Window on an input.
pub struct StreamWindow<'a> {
    input: &'a mut dyn Read,
    name: String,
    buffer: Vec<u8>,
    position: usize,
    filled: usize,
    /// Bytes of the input before the window's buffer.
    before: u64,
    ended: bool,
    is_unfinished: bool,
}

impl<'a> StreamWindow<'a> {
    /// Makes a window on an input's beginning.
    pub fn new(input: &'a mut LogInput) -> StreamWindow<'a> {
        let name = input.name().to_owned();
        StreamWindow::over(input, name)
    }

    /// Makes a window on any reader; `name` is for errors.
    pub fn over(input: &'a mut dyn Read, name: String) -> StreamWindow<'a> {
        StreamWindow {
            input,
            name,
            buffer: Vec::new(),
            position: 0,
            filled: 0,
            before: 0,
            ended: false,
            is_unfinished: false,
        }
    }

    /// Bytes in the window.
    pub fn rest(&self) -> &[u8] {
        &self.buffer[self.position..self.filled]
    }

    /// Offset of the window's first byte from the input's beginning.
    pub fn place(&self) -> u64 {
        self.before + self.position as u64
    }

    /// Name of the input for errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns an error at a byte of the window.
    pub fn broken(&self, index: usize, because: &str) -> LogError {
        LogError::broken(&self.name, format!("byte {}", self.place() + index as u64), because)
    }

    /// Consumes bytes.
    pub fn skip(&mut self, bytes: usize) {
        self.position = (self.position + bytes).min(self.filled);
    }

    /// Reads more; returns false at the end.
    ///
    /// # Errors
    /// When reading fails, or the window would grow beyond [`MOST`].
    pub fn more(&mut self) -> Result<bool, LogError> {
        if self.ended {
            return Ok(false);
        }
        self.buffer.copy_within(self.position..self.filled, 0);
        self.before += self.position as u64;
        self.filled -= self.position;
        self.position = 0;
        if self.filled >= MOST {
            return Err(self.broken(0, "one sample or line of more than 32 MiB begins here"));
        }
        // doubling keeps repeated scans of the same bytes linear in total
        let extra_bytes = if self.buffer.is_empty() { FIRST } else { STEP.max(self.filled) };
        self.buffer.resize(self.filled + extra_bytes, 0);
        while self.filled < self.buffer.len() {
            match self.input.read(&mut self.buffer[self.filled..]) {
                Ok(0) => {
                    self.ended = true;
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
    pub const UNFINISHED: &'static str = "the last line is incomplete; it was left out";

    /// Returns true where the line that was read last has no end.
    pub fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    /// Reads the next line as text, without its end and without terminal codes, and counts it in `number`; `None` at
    /// the end, and where the batch wants no more. A last line without its end is left out and reported.
    ///
    /// # Errors
    /// As [`StreamWindow::more`].
    pub fn text_line(&mut self, batch: &mut FrameBatch<'_>, number: &mut u64) -> Result<Option<String>, LogError> {
        if batch.is_stopped() {
            return Ok(None);
        }
        let Some((length, line_bytes)) = self.line()? else { return Ok(None) };
        let text = clean::bare(&self.rest()[..length]).into_owned();
        self.skip(line_bytes);
        *number += 1;
        if self.is_unfinished && !text.trim().is_empty() {
            batch.skip(format!("line {number}"), StreamWindow::UNFINISHED);
            return Ok(None);
        }
        Ok(Some(text))
    }

    /// Finds the next line: its length without and with its end, or `None` at the end; read it with
    /// [`StreamWindow::rest`] cut to the first length, then [`StreamWindow::skip`] the second.
    ///
    /// # Errors
    /// As [`StreamWindow::more`].
    pub fn line(&mut self) -> Result<Option<(usize, usize)>, LogError> {
        let mut seen = 0;
        loop {
            if let Some(end) = self.rest()[seen..].iter().position(|b| *b == b'\n').map(|end| end + seen) {
                let bare = if end > 0 && self.rest()[end - 1] == b'\r' { end - 1 } else { end };
                return Ok(Some((bare, end + 1)));
            }
            seen = self.rest().len();
            let previous_length = seen;
            if !self.more()? || self.rest().len() == previous_length {
                self.is_unfinished = previous_length > 0;
                return Ok((previous_length > 0).then_some((previous_length, previous_length)));
            }
        }
    }
}
