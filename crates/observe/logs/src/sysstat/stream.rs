//! A window on an input that moves on and keeps what is not settled yet.

use std::io::Read;

use crate::FrameBatch;
use crate::clean;
use crate::error::LogError;
use crate::input::LogInput;

/// Bytes that are read at once.
const STEP: usize = 1 << 20;
/// Bytes that are read first: many logs are short.
const FIRST: usize = 64 << 10;
/// The largest thing that must be seen whole: one sample in JSON or XML, one line.
pub const MOST: usize = 32 << 20;

/// The window.
pub struct StreamWindow<'a> {
    input: &'a mut dyn Read,
    name: String,
    buffer: Vec<u8>,
    position: usize,
    filled: usize,
    /// Bytes of the input before the window's first.
    before: u64,
    ended: bool,
    is_unfinished: bool,
}

impl<'a> StreamWindow<'a> {
    /// A window on an input's beginning.
    pub fn new(input: &'a mut LogInput) -> StreamWindow<'a> {
        let name = input.name().to_owned();
        StreamWindow::over(input, name)
    }

    /// A window on any reader; `name` is for errors.
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

    /// What is in the window.
    pub fn rest(&self) -> &[u8] {
        &self.buffer[self.position..self.filled]
    }

    /// The window's first byte, counted from the input's beginning.
    pub fn place(&self) -> u64 {
        self.before + self.position as u64
    }

    /// What errors call the input.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An error at a byte of the window.
    pub fn broken(&self, index: usize, because: &str) -> LogError {
        LogError::broken(&self.name, format!("byte {}", self.place() + index as u64), because)
    }

    /// Leaves bytes behind.
    pub fn skip(&mut self, bytes: usize) {
        self.position = (self.position + bytes).min(self.filled);
    }

    /// Reads on; false at the end.
    ///
    /// # Errors
    /// When the system refuses, or the window would grow over [`MOST`].
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
        // doubling keeps what is looked at again and again in proportion
        let room = if self.buffer.is_empty() { FIRST } else { STEP.max(self.filled) };
        self.buffer.resize(self.filled + room, 0);
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

    /// Said of a last line without its end: nobody knows how many digits its last number had.
    pub const UNFINISHED: &'static str = "the last line is incomplete; it was left out";

    /// True where the line that came last has no end.
    pub fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    /// The next line as text, without its end and without codes for terminals, with its number in
    /// `number`; `None` at the end, and where nobody wants more. A last line without its end is left
    /// out and told.
    ///
    /// # Errors
    /// As [`StreamWindow::more`].
    pub fn text_line(&mut self, batch: &mut FrameBatch<'_>, number: &mut u64) -> Result<Option<String>, LogError> {
        if batch.is_stopped() {
            return Ok(None);
        }
        let Some((length, whole)) = self.line()? else { return Ok(None) };
        let text = clean::bare(&self.rest()[..length]).into_owned();
        self.skip(whole);
        *number += 1;
        if self.is_unfinished && !text.trim().is_empty() {
            batch.skip(format!("line {number}"), StreamWindow::UNFINISHED);
            return Ok(None);
        }
        Ok(Some(text))
    }

    /// The next line without its end, or `None` at the end; read it with
    /// [`StreamWindow::rest`] cut to the length, then [`StreamWindow::skip`] both lengths.
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
            let was = seen;
            if !self.more()? || self.rest().len() == was {
                self.is_unfinished = was > 0;
                return Ok((was > 0).then_some((was, was)));
            }
        }
    }
}
