//! Reader of an answer's bytes with limits, so that no answer, however long or unusual, needs more memory than
//! intended.

use std::io::{self, Read};

use diskwright_base::units::format_value;

/// Largest string or number in an answer, bytes. The parser keeps one in memory at a time.
const MAX_TOKEN_BYTES: usize = 64 << 10;
/// Largest nesting depth of an answer.
const MAX_DEPTH: usize = 64;
/// Number of bytes of the beginning that are kept for messages.
const SHOWN_BYTES: usize = 80;

/// Reason why an answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerFault {
    /// The connection broke or timed out.
    Broken(String),
    /// The answer contains more than the limits allow; a narrower query would return less.
    TooMuch(String),
    /// The answer is not one of the query API, or it is an error.
    Wrong(String),
}

/// Advice about narrower queries.
const NARROWING_HINT: &str = "use a shorter window, a longer --step or a narrower --match";

impl AnswerFault {
    /// Creates the fault of an exceeded limit, with the advice about narrower queries.
    pub fn too_much(excess: &str) -> AnswerFault {
        AnswerFault::TooMuch(format!("{excess}; {}", NARROWING_HINT))
    }
}

impl std::fmt::Display for AnswerFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (AnswerFault::Broken(because) | AnswerFault::TooMuch(because) | AnswerFault::Wrong(because)) = self;
        f.write_str(because)
    }
}

/// A reader of JSON that stops at the limits.
pub(crate) struct BoundedReader<R> {
    inner: R,
    max_bytes: u64,
    /// Number of bytes read so far.
    pub bytes_read: u64,
    beginning: Vec<u8>,
    /// The next byte is within a string.
    is_in_string: bool,
    /// The last byte was a backslash that escapes the next byte.
    is_escaped: bool,
    /// Bytes of the current string or number.
    token_bytes: usize,
    /// Number of open lists and objects.
    depth: usize,
    /// Reason why reading ended early.
    pub fault: Option<AnswerFault>,
}

impl<R: Read> BoundedReader<R> {
    /// Creates a reader that fails beyond `max_bytes`.
    pub fn new(inner: R, max_bytes: u64) -> BoundedReader<R> {
        BoundedReader {
            inner,
            max_bytes,
            bytes_read: 0,
            beginning: Vec::new(),
            is_in_string: false,
            is_escaped: false,
            token_bytes: 0,
            depth: 0,
            fault: None,
        }
    }

    /// Returns the beginning of the answer on one line.
    pub fn shown_beginning(&self) -> String {
        String::from_utf8_lossy(&self.beginning).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Checks the next bytes against all limits.
    fn check_bytes(&mut self, bytes: &[u8]) -> Result<(), AnswerFault> {
        let missing = SHOWN_BYTES.saturating_sub(self.beginning.len()).min(bytes.len());
        self.beginning.extend_from_slice(&bytes[..missing]);
        self.bytes_read += bytes.len() as u64;
        if self.bytes_read > self.max_bytes {
            let limit = format_value(self.max_bytes as f64, "bytes");
            return Err(AnswerFault::Wrong(format!(
                "the response is longer than the limit of {limit}; {}",
                NARROWING_HINT
            )));
        }
        for &byte in bytes {
            self.update_state(byte);
            if self.token_bytes > MAX_TOKEN_BYTES {
                return Err(AnswerFault::Wrong(format!(
                    "a string in the response is longer than {} bytes",
                    MAX_TOKEN_BYTES
                )));
            }
            if self.depth > MAX_DEPTH {
                return Err(AnswerFault::Wrong(format!("the response nests more than {} lists", MAX_DEPTH)));
            }
        }
        Ok(())
    }

    /// Follows strings, escapes and nesting by one byte.
    fn update_state(&mut self, byte: u8) {
        self.token_bytes += 1;
        if self.is_in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.is_in_string = true,
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => {}
            _ => return,
        }
        self.token_bytes = 0;
    }
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.fault.is_some() {
            return Err(io::Error::other("it has ended"));
        }
        let result = match self.inner.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Ok(count) => self.check_bytes(&buffer[..count]).map(|()| count),
            Err(error) => {
                Err(AnswerFault::Broken(format!("the response broke off at byte {}: {error}", self.bytes_read)))
            }
        };
        result.map_err(|fault| {
            self.fault = Some(fault);
            io::Error::other("it has ended")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_fault(text: &str, max_bytes: u64) -> Option<AnswerFault> {
        let mut bounded = BoundedReader::new(text.as_bytes(), max_bytes);
        let _ = io::copy(&mut bounded, &mut io::sink());
        bounded.fault
    }

    #[test]
    fn limits_token_length_depth_and_total_size() {
        let fits = "x".repeat(MAX_TOKEN_BYTES - 10);
        assert_eq!(read_fault(&format!("[\"{fits}\",\"{fits}\",1]"), u64::MAX), None);
        let long = "x".repeat(MAX_TOKEN_BYTES + 10);
        let escapes = "\\\"".repeat(MAX_TOKEN_BYTES);
        for text in [format!("\"{long}"), format!("\"{escapes}"), "7".repeat(MAX_TOKEN_BYTES + 10)] {
            assert!(matches!(read_fault(&text, u64::MAX), Some(AnswerFault::Wrong(_))), "{}", &text[..10]);
        }
        assert!(matches!(read_fault(&"[".repeat(MAX_DEPTH + 1), u64::MAX), Some(AnswerFault::Wrong(_))));
        assert_eq!(read_fault(&"[]".repeat(1000), u64::MAX), None);
        assert!(matches!(read_fault(&" ".repeat(1001), 1000), Some(AnswerFault::Wrong(_))));
        assert_eq!(read_fault(&" ".repeat(1000), 1000), None);
    }
}
