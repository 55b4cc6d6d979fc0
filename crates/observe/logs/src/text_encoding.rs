//! Conversion of text that readers do not expect: UTF-16, a byte order mark in front, lines that end with a carriage
//! return alone. The stream is converted before any reader sees it.

use std::io::{self, Cursor, Read};

use encoding_rs::{Decoder, Encoding, UTF_16BE, UTF_16LE};

/// Smallest text that is taken for UTF-16 without a mark, bytes.
const MIN_UTF16_BYTES: usize = 16;
/// Bytes at the beginning that are examined.
const SAMPLE_BYTES: usize = 1 << 10;

/// Ways in which a text differs from UTF-8 with line feeds.
#[derive(Clone, Copy)]
pub(crate) struct TextForm {
    /// Encoding of UTF-16.
    utf16: Option<&'static Encoding>,
    /// It is UTF-8 behind a byte order mark.
    is_marked: bool,
    /// Its lines end only with carriage returns.
    has_bare_returns: bool,
    /// It has terminal codes.
    has_codes: bool,
}

/// Detects the form of a text from its beginning; `None` if it needs no conversion, or is not text.
pub(crate) fn detect_form(head: &[u8]) -> Option<TextForm> {
    let utf16 = detect_encoding(head);
    let without_mark = head.strip_prefix(b"\xef\xbb\xbf");
    let has_returns = utf16.is_none() && has_bare_returns(without_mark.unwrap_or(head));
    let has_codes = utf16.is_none() && has_codes(head);
    let form = TextForm { utf16, is_marked: without_mark.is_some(), has_bare_returns: has_returns, has_codes };
    (utf16.is_some() || form.is_marked || has_returns || has_codes).then_some(form)
}

impl TextForm {
    /// Returns the stream as UTF-8 with line feeds.
    pub(crate) fn to_plain_stream(self, stream: Box<dyn Read>) -> Box<dyn Read> {
        if let Some(encoding) = self.utf16 {
            return with_line_feeds(Box::new(Utf8Stream::new(stream, encoding)));
        }
        let stream = if self.has_codes { Box::new(CodelessStream { source: stream, code: None }) } else { stream };
        let stream = if self.is_marked { Box::new(MarklessStream { source: stream, mark_bytes: 3 }) } else { stream };
        if self.has_bare_returns { Box::new(LineFeedStream(stream)) } else { stream }
    }
}

/// Detects UTF-16, with a byte order mark or without.
fn detect_encoding(head: &[u8]) -> Option<&'static Encoding> {
    let sample = &head[..head.len().min(SAMPLE_BYTES) & !1];
    let units = |read: fn([u8; 2]) -> u16| sample.chunks_exact(2).map(move |pair| read([pair[0], pair[1]]));
    // a printable ASCII character, a tab, an escape or an end of line, of which logs mostly consist
    let is_text = |unit: u16| matches!(unit, 0x09 | 0x0a | 0x0d | 0x1b | 0x20..=0x7e);
    let text_bytes = |read: fn([u8; 2]) -> u16| units(read).filter(|unit| is_text(*unit)).count() * 2;
    let is_wide =
        |read: fn([u8; 2]) -> u16| sample.len() >= MIN_UTF16_BYTES && text_bytes(read) * 4 >= sample.len() * 3;
    match sample {
        [0xff, 0xfe, ..] if text_bytes(u16::from_le_bytes) * 2 >= sample.len() - 2 => Some(UTF_16LE),
        [0xfe, 0xff, ..] if text_bytes(u16::from_be_bytes) * 2 >= sample.len() - 2 => Some(UTF_16BE),
        _ if is_wide(u16::from_le_bytes) => Some(UTF_16LE),
        _ if is_wide(u16::from_be_bytes) => Some(UTF_16BE),
        _ => None,
    }
}

/// Returns true for text whose lines end only with carriage returns.
fn has_bare_returns(head: &[u8]) -> bool {
    let is_binary = |b: &u8| *b < 0x20 && !matches!(b, b'\t' | b'\r' | 0x07 | 0x08 | 0x1b);
    head.contains(&b'\r') && !head.iter().any(is_binary)
}

/// Returns true for text with terminal codes, which begin with an escape.
fn has_codes(head: &[u8]) -> bool {
    let is_binary = |b: &u8| *b < 0x20 && !matches!(b, b'\t' | b'\n' | b'\r' | 0x07 | 0x08 | 0x0f | 0x1b);
    memchr::memchr(0x1b, head).is_some() && !head.iter().any(is_binary)
}

/// Converts carriage returns to line feeds, if the first part of the stream has no line feeds.
fn with_line_feeds(mut stream: Box<dyn Read>) -> Box<dyn Read> {
    let mut head = Vec::new();
    // an error comes again with the rest
    let _ = stream.by_ref().take(SAMPLE_BYTES as u64 * 8).read_to_end(&mut head);
    let is_bare = has_bare_returns(&head);
    let complete: Box<dyn Read> = Box::new(Cursor::new(head).chain(stream));
    if is_bare { Box::new(LineFeedStream(complete)) } else { complete }
}

/// A stream without its byte order mark of `mark_bytes` bytes.
struct MarklessStream {
    source: Box<dyn Read>,
    mark_bytes: u64,
}

impl Read for MarklessStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.mark_bytes > 0 {
            let mark = std::mem::take(&mut self.mark_bytes);
            io::copy(&mut self.source.by_ref().take(mark), &mut io::sink())?;
        }
        self.source.read(buffer)
    }
}

/// A stream with a line feed for each carriage return.
struct LineFeedStream(Box<dyn Read>);

impl Read for LineFeedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        buffer[..read].iter_mut().filter(|b| **b == b'\r').for_each(|b| *b = b'\n');
        Ok(read)
    }
}

/// Position of the stream within a terminal code.
#[derive(Clone, Copy, PartialEq)]
enum CodePart {
    /// After the escape.
    AfterEscape,
    /// In parameters, up to a final letter.
    Control,
    /// In text, up to a bell or an escape.
    Text,
    /// Before one more letter.
    Letter,
}

/// A stream without terminal codes.
struct CodelessStream {
    source: Box<dyn Read>,
    code: Option<CodePart>,
}

impl CodelessStream {
    /// Advances by a byte; returns true if the byte belongs to no code.
    fn is_text(&mut self, byte: u8) -> bool {
        self.code = match (self.code, byte) {
            (None, 0x1b) => Some(CodePart::AfterEscape),
            (None, _) => return true,
            (Some(CodePart::AfterEscape), b'[') => Some(CodePart::Control),
            (Some(CodePart::AfterEscape), b']' | b'P' | b'_' | b'^' | b'X') => Some(CodePart::Text),
            (Some(CodePart::AfterEscape), b'(' | b')' | b'*' | b'+' | b'#' | b'%' | b' ') => Some(CodePart::Letter),
            (Some(CodePart::AfterEscape | CodePart::Letter), _) => None,
            (Some(CodePart::Control), b'@'..=b'~') => None,
            (Some(CodePart::Text), 0x07) => None,
            // text ends with an escape and a backslash
            (Some(CodePart::Text), 0x1b) => Some(CodePart::Letter),
            // no code continues after the end of a line
            (Some(_), b'\n') => {
                self.code = None;
                return true;
            }
            (unchanged, _) => unchanged,
        };
        false
    }
}

impl Read for CodelessStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.source.read(buffer)?;
            let mut kept = 0;
            for index in 0..read {
                if self.is_text(buffer[index]) {
                    buffer[kept] = buffer[index];
                    kept += 1;
                }
            }
            if kept > 0 || read == 0 {
                return Ok(kept);
            }
        }
    }
}

/// A stream of UTF-16 as UTF-8, without the mark.
struct Utf8Stream {
    source: Box<dyn Read>,
    decoder: Decoder,
    input: Vec<u8>,
    output: Vec<u8>,
    output_position: usize,
    is_last: bool,
}

impl Utf8Stream {
    fn new(source: Box<dyn Read>, encoding: &'static Encoding) -> Utf8Stream {
        let decoder = encoding.new_decoder_with_bom_removal();
        Utf8Stream { source, decoder, input: vec![0; 64 << 10], output: Vec::new(), output_position: 0, is_last: false }
    }
}

impl Read for Utf8Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.output_position == self.output.len() && !self.is_last {
            let read = self.source.read(&mut self.input)?;
            self.is_last = read == 0;
            let max_bytes = self.decoder.max_utf8_buffer_length(read).unwrap_or(4 * self.input.len());
            self.output.resize(max_bytes, 0);
            let (_, _, written, _) = self.decoder.decode_to_utf8(&self.input[..read], &mut self.output, self.is_last);
            self.output.truncate(written);
            self.output_position = 0;
        }
        let count = buffer.len().min(self.output.len() - self.output_position);
        buffer[..count].copy_from_slice(&self.output[self.output_position..self.output_position + count]);
        self.output_position += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Option<String> {
        let stream = detect_form(bytes)?.to_plain_stream(Box::new(Cursor::new(bytes.to_vec())));
        Some(io::read_to_string(stream).expect("text"))
    }

    fn wide(text: &str, big: bool, marked: bool) -> Vec<u8> {
        let units = marked.then_some(0xfeff).into_iter().chain(text.encode_utf16());
        units.flat_map(|u| if big { u.to_be_bytes() } else { u.to_le_bytes() }).collect()
    }

    #[test]
    fn utf_16_becomes_utf_8_in_both_orders() {
        let text = "(PDH-CSV 4.0),\"Größe ж 😀\"\n".repeat(9000);
        for (big, marked) in [(false, false), (false, true), (true, false), (true, true)] {
            assert!(read(&wide(&text, big, marked)).as_deref() == Some(text.as_str()), "{big} {marked}");
        }
        assert_eq!(read(&wide("one line\rand another\r", false, true)).as_deref(), Some("one line\nand another\n"));
    }

    #[test]
    fn a_mark_goes_and_bare_returns_become_line_feeds() {
        assert_eq!(read(b"\xef\xbb\xbfone\ntwo\r\n").as_deref(), Some("one\ntwo\r\n"));
        assert_eq!(read(b"\xef\xbb\xbfone\rtwo\r").as_deref(), Some("one\ntwo\n"));
        assert_eq!(read(b"one\rtwo\r").as_deref(), Some("one\ntwo\n"));
    }

    #[test]
    fn removes_terminal_codes_across_read_boundaries() {
        let text = b"\x1b]0;root@db1: ~\x07\x1b[?2004h# sar\r\n\x1b(B\x1b[0;32m{\x1b]2;x\x1b\\ \"a\": 1}\n\x1b[";
        assert_eq!(read(text).as_deref(), Some("# sar\r\n{ \"a\": 1}\n"));
        let mut slow = CodelessStream { source: Box::new(Cursor::new(text.to_vec())), code: None };
        let mut all = Vec::new();
        let mut byte = [0];
        while slow.read(&mut byte).unwrap() > 0 {
            all.push(byte[0]);
        }
        assert_eq!(all, b"# sar\r\n{ \"a\": 1}\n");
        // a code that is not finished ends with its line
        assert_eq!(read(b"\x1b]0;title\nsda 1\n").as_deref(), Some("\nsda 1\n"));
    }

    #[test]
    fn leaves_plain_text_and_binary_data_unchanged() {
        let all: [&[u8]; 7] = [
            b"",
            b"one\ntwo\r\n",
            b"one",
            b"\0\0\x01\x84\x50\x05\x26\x02\0\0\x0d\0\0\0\x01\0\0\0",
            b"\x96\xd5\x75\x21\x0c\x06\x01\0\x01\0\0\0\x0d\0",
            b"\xff\xfe\0\0\x01\x02\x03\x04\x05\x06\x07\x08\x09\0\x0b\x0c",
            &[0; 64],
        ];
        for bytes in all {
            assert_eq!(read(bytes), None, "{bytes:?}");
        }
    }
}
