//! `sadf -j`, `iostat -o JSON` and `mpstat -o JSON`: documents in succession, each with hosts, each with samples. Only
//! one sample at a time is held, so a document of any size takes the same memory.

use super::idle_devices::DOCUMENT_KEYS;
use super::json_sample;
use super::json_scanner::{self, JsonScanner, JsonToken, TokenStop};
use super::session::{DocumentWriter, SysstatSession};
use super::stream_window::StreamWindow;
use super::template::{StampPart, StampRanges, Template};
use super::time::{self, NumericDateOrder};
use crate::batch::FrameBatch;
use crate::error::LogError;
use crate::{LogInput, LogOptions};

/// Largest number of templates: samples with and without some report may alternate.
const MAX_TEMPLATES: usize = 4;
/// Largest nesting of objects outside of samples.
const MAX_DEPTH: usize = 64;

struct SysstatJsonLog<'a, 'b, 'c> {
    stream: StreamWindow<'a>,
    session: SysstatSession<'b, 'c>,
    templates: Vec<Template>,
    generation: u32,
    /// Set while text outside of documents continues that was reported already.
    is_outside_reported: bool,
}

/// Finds the start of a document of sysstat: a brace, and the key that all of them have.
pub fn find_document_start(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find_iter(bytes, b"\"sysstat\"").find_map(|key| {
        let before = bytes[..key].iter().rposition(|b| !b.is_ascii_whitespace())?;
        (bytes[before] == b'{').then_some(before)
    })
}

/// Reads all documents of an input.
pub fn read(
    input: &mut LogInput,
    options: &LogOptions,
    batch: &mut FrameBatch<'_>,
    writer: DocumentWriter,
) -> Result<(), LogError> {
    let head = String::from_utf8_lossy(input.head().bytes).into_owned();
    let order = time::guess_date_order(
        &head,
        head.split("\"date\": \"").nth(1).and_then(|d| d.split('"').next()).unwrap_or(""),
    );
    read_stream(StreamWindow::new(input), order, options, batch, writer)
}

/// Reads all documents of a stream.
pub fn read_stream(
    stream: StreamWindow<'_>,
    order: NumericDateOrder,
    options: &LogOptions,
    batch: &mut FrameBatch<'_>,
    writer: DocumentWriter,
) -> Result<(), LogError> {
    let session = SysstatSession::new(batch, options, order, writer);
    let templates = Vec::new();
    let mut log = SysstatJsonLog { stream, session, templates, generation: 0, is_outside_reported: false };
    log.read_documents()
}

/// A token outside of samples, held independently of the window.
enum BufferedToken {
    Open(u8),
    Close,
    Text(String),
    Number(f64),
    Colon,
    Other,
}

impl SysstatJsonLog<'_, '_, '_> {
    /// Reads the tokens outside of samples; keys identify those that matter.
    fn read_documents(&mut self) -> Result<(), LogError> {
        let mut depth = 0usize;
        let mut last_text = String::new();
        let mut key = String::new();
        while !self.session.batch.is_stopped() {
            if depth == 0 && !self.find_document()? {
                self.session.finish_log();
                return Ok(());
            }
            let token = match self.read_token() {
                Ok(Some(token)) => token,
                Ok(None) => {
                    if depth > 0 {
                        self.report_unfinished();
                    }
                    self.session.finish_log();
                    return Ok(());
                }
                // a foreign line between those of the document
                Err(LogError::Broken { context, because, .. }) => {
                    self.session.batch.add_skip(context, format!("{because}; the line was left out"));
                    self.skip_line()?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let parent_key = std::mem::take(&mut key);
            match token {
                BufferedToken::Open(b'[') if parent_key == "statistics" => {
                    if !self.read_samples()? {
                        depth = 0;
                    }
                }
                BufferedToken::Open(b'[') if parent_key == "restarts" => self.read_restarts()?,
                BufferedToken::Open(_) => depth += 1,
                BufferedToken::Close => depth = depth.saturating_sub(1),
                BufferedToken::Colon => key = std::mem::take(&mut last_text),
                BufferedToken::Text(text) => {
                    self.session.read_head(&parent_key, &text);
                    last_text = text;
                }
                BufferedToken::Number(number) => self.session.read_head(&parent_key, &format!("{number}")),
                BufferedToken::Other => {}
            }
            if depth > MAX_DEPTH {
                let error = self.stream.error_at(0, "nested too deeply");
                return self.finish_or_fail(error);
            }
        }
        Ok(())
    }

    /// Advances to the start of the next document, and reports what stands before it; returns false at the end.
    fn find_document(&mut self) -> Result<bool, LogError> {
        /// Bytes of a document's first brace and key, with blanks between.
        const MIN_START_BYTES: usize = 64;
        loop {
            let rest = self.stream.remaining_bytes();
            let found = find_document_start(rest);
            let end = found.unwrap_or_else(|| rest.len().saturating_sub(MIN_START_BYTES));
            if end > 0 && (found.is_some() || !self.is_outside_reported) {
                self.report_outside(end);
            }
            self.is_outside_reported = found.is_none() && end > 0;
            self.stream.skip_bytes(end);
            if found.is_some() {
                return Ok(true);
            }
            let previous_length = self.stream.remaining_bytes().len();
            if !self.stream.read_more()? || self.stream.remaining_bytes().len() == previous_length {
                self.report_outside(previous_length);
                self.stream.skip_bytes(previous_length);
                return Ok(false);
            }
        }
    }

    /// Counts the lines in the next `end` bytes, which belong to no document.
    fn report_outside(&mut self, end: usize) {
        let offset = self.stream.byte_offset();
        let bytes = &self.stream.remaining_bytes()[..end];
        let mut line_start = 0;
        for line in bytes.split(|b| *b == b'\n') {
            if line.iter().any(u8::is_ascii_alphanumeric) {
                let context = format!("byte {}", offset + line_start as u64);
                self.session.batch.add_skip(context, "a line outside of the documents");
            }
            line_start += line.len() + 1;
        }
    }

    /// Advances behind the end of the line.
    fn skip_line(&mut self) -> Result<(), LogError> {
        if let Some((_, line_bytes)) = self.stream.next_line()? {
            self.stream.skip_bytes(line_bytes);
        }
        Ok(())
    }

    /// Skips the rest of the file after an error if samples were read before; otherwise returns the error.
    fn finish_or_fail(&mut self, error: LogError) -> Result<(), LogError> {
        match error {
            LogError::Broken { context, because, .. } if self.session.tick_count > 0 => {
                self.session.batch.add_skip(context, format!("{because}; the rest of the file was left out"));
                Ok(())
            }
            error => Err(error),
        }
    }

    fn report_unfinished(&mut self) {
        let context = format!("byte {}", self.stream.byte_offset() + self.stream.remaining_bytes().len() as u64);
        self.session
            .batch
            .add_skip(context, "the document is incomplete: its writer was stopped, or the file was truncated");
    }

    fn read_token(&mut self) -> Result<Option<BufferedToken>, LogError> {
        loop {
            let mut scanner = JsonScanner::new(self.stream.remaining_bytes(), 0);
            let token = match scanner.next() {
                Ok(JsonToken::Open(kind)) => BufferedToken::Open(kind),
                Ok(JsonToken::Close(_)) => BufferedToken::Close,
                Ok(JsonToken::Text(text)) => BufferedToken::Text(json_scanner::unescape_text(text)),
                Ok(JsonToken::Number(number)) => BufferedToken::Number(number),
                Ok(JsonToken::Colon) => BufferedToken::Colon,
                Ok(JsonToken::Word | JsonToken::Comma) => BufferedToken::Other,
                Err(TokenStop::Invalid(index, because)) => return Err(self.stream.error_at(index, because)),
                Err(TokenStop::Incomplete) => {
                    if self.stream.read_more()? {
                        continue;
                    }
                    return Ok(None);
                }
            };
            let used = scanner.position;
            self.stream.skip_bytes(used);
            return Ok(Some(token));
        }
    }

    /// Reads the elements of `"statistics"`, up to the end of the list; returns false if the document ends within
    /// them.
    fn read_samples(&mut self) -> Result<bool, LogError> {
        while !self.session.batch.is_stopped() {
            let Some(first) = self.peek_byte()? else {
                self.report_unfinished();
                return Ok(false);
            };
            match first {
                b',' => self.stream.skip_bytes(1),
                b']' => {
                    self.stream.skip_bytes(1);
                    return Ok(true);
                }
                // the writer was stopped, and another one began a document
                _ if self.is_document()? => {
                    self.report_unfinished();
                    return Ok(false);
                }
                _ => {
                    if !self.read_sample()? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Returns true if a document begins here.
    fn is_document(&mut self) -> Result<bool, LogError> {
        const KEY_WINDOW_BYTES: usize = 64;
        if self.stream.remaining_bytes().first() != Some(&b'{') {
            return Ok(false);
        }
        while self.stream.remaining_bytes().len() < KEY_WINDOW_BYTES
            && self.stream.read_more()?
            && self.stream.remaining_bytes().len() < KEY_WINDOW_BYTES
        {
            let previous_length = self.stream.remaining_bytes().len();
            if !self.stream.read_more()? || self.stream.remaining_bytes().len() == previous_length {
                break;
            }
        }
        let rest = self.stream.remaining_bytes();
        Ok(find_document_start(&rest[..rest.len().min(KEY_WINDOW_BYTES)]) == Some(0))
    }

    /// Returns the next byte that is not blank.
    fn peek_byte(&mut self) -> Result<Option<u8>, LogError> {
        loop {
            let blanks = self.stream.remaining_bytes().iter().take_while(|b| b.is_ascii_whitespace()).count();
            self.stream.skip_bytes(blanks);
            if let Some(first) = self.stream.remaining_bytes().first() {
                return Ok(Some(*first));
            }
            if !self.stream.read_more()? {
                return Ok(None);
            }
        }
    }

    /// Reads one sample; returns false if the input ends within it.
    fn read_sample(&mut self) -> Result<bool, LogError> {
        let mut stamp = StampRanges::new();
        loop {
            match self.try_read_sample(&mut stamp) {
                Ok(length) => {
                    let texts = self.stamp_texts(&stamp);
                    let sample = &self.stream.remaining_bytes()[..length];
                    self.session.sample_tables =
                        DOCUMENT_KEYS.map(|key| memchr::memmem::find(sample, key.as_bytes()).is_some());
                    let offset = self.stream.byte_offset();
                    self.stream.skip_bytes(length);
                    self.session.emit_tick(&texts, offset);
                    return Ok(true);
                }
                Err(TokenStop::Incomplete) => {
                    self.session.row.clear();
                    if !self.stream.read_more()? {
                        self.report_unfinished();
                        return Ok(false);
                    }
                }
                Err(TokenStop::Invalid(index, because)) => {
                    self.session.row.clear();
                    let context = format!("byte {}", self.stream.byte_offset() + index as u64);
                    self.session.batch.add_skip(context, format!("a sample is broken: {because}"));
                    return self.find_next_sample(index);
                }
            }
        }
    }

    fn try_read_sample(&mut self, stamp: &mut StampRanges) -> Result<usize, TokenStop> {
        if self.generation != self.session.row.generation {
            self.generation = self.session.row.generation;
            self.templates.clear();
        }
        let bytes = self.stream.remaining_bytes();
        for index in 0..self.templates.len() {
            if let Some(length) = self.templates[index].match_sample(bytes, &mut self.session.row.cells, stamp)? {
                self.templates.swap(0, index);
                return Ok(length);
            }
            self.session.row.clear();
        }
        let mut template = if self.templates.len() < MAX_TEMPLATES {
            Template::default()
        } else {
            self.templates.pop().unwrap_or_default()
        };
        let length = json_sample::read(bytes, &mut self.session.row, &mut template, stamp)?;
        self.templates.insert(0, template);
        Ok(length)
    }

    /// Looks for the next sample after a broken one; returns false at the end.
    fn find_next_sample(&mut self, index: usize) -> Result<bool, LogError> {
        const TIMESTAMP_KEY: &[u8] = b"\"timestamp\"";
        self.stream.skip_bytes(index.max(1));
        loop {
            let bytes = self.stream.remaining_bytes();
            let found = memchr::memmem::find(bytes, TIMESTAMP_KEY);
            if let Some(document) = find_document_start(bytes).filter(|start| found.is_none_or(|found| *start < found))
            {
                self.stream.skip_bytes(document);
                return Ok(true);
            }
            if let Some(found) = found {
                let open = bytes[..found].iter().rposition(|b| *b == b'{').unwrap_or(found);
                self.stream.skip_bytes(if open < found { open } else { found + TIMESTAMP_KEY.len() });
                if open < found {
                    return Ok(true);
                }
                continue;
            }
            self.stream.skip_bytes(bytes.len().saturating_sub(TIMESTAMP_KEY.len() + 64));
            let previous_length = self.stream.remaining_bytes().len();
            if !self.stream.read_more()? || self.stream.remaining_bytes().len() == previous_length {
                return Ok(false);
            }
        }
    }

    /// Reads the list of restarts that ends a host of sadf.
    fn read_restarts(&mut self) -> Result<(), LogError> {
        let mut depth = 1;
        let (mut last_text, mut key) = (String::new(), String::new());
        let mut parts: Vec<(StampPart, String)> = Vec::new();
        while depth > 0 {
            let parent_key = std::mem::take(&mut key);
            let token = match self.read_token() {
                // the list may have lost its end with the line
                Err(LogError::Broken { context, because, .. }) => {
                    self.session.batch.add_skip(context, format!("{because}; the line was left out"));
                    return self.skip_line();
                }
                token => token?,
            };
            match token {
                Some(BufferedToken::Open(_)) => depth += 1,
                Some(BufferedToken::Close) => {
                    depth -= 1;
                    self.session.note_restart(&parts);
                    parts.clear();
                }
                Some(BufferedToken::Colon) => key = std::mem::take(&mut last_text),
                Some(BufferedToken::Text(text)) => {
                    match parent_key.as_str() {
                        "date" => parts.push((StampPart::Date, text.clone())),
                        "time" => parts.push((StampPart::Time, text.clone())),
                        "tz" => parts.push((StampPart::Zone, text.clone())),
                        _ => {}
                    }
                    last_text = text;
                }
                Some(BufferedToken::Number(number)) if parent_key == "utc" => {
                    parts.push((StampPart::Utc, format!("{number}")))
                }
                Some(BufferedToken::Number(_) | BufferedToken::Other) => {}
                None => {
                    self.report_unfinished();
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn stamp_texts(&self, stamp: &StampRanges) -> Vec<(StampPart, String)> {
        let bytes = self.stream.remaining_bytes();
        let text = |range: &std::ops::Range<usize>| String::from_utf8_lossy(&bytes[range.clone()]).into_owned();
        stamp.iter().map(|(part, range)| (*part, text(range))).collect()
    }
}

#[cfg(test)]
mod tests;
