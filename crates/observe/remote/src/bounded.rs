//! Reader of an answer's bytes with limits, so that no answer, however long or unusual,
//! needs more memory than its reader keeps on purpose.

use std::io::{self, Read};

use diskwright_base::units::format_value;

/// Largest string or number in an answer, bytes. The parser holds one at a time.
const LONGEST_TEXT: usize = 64 << 10;
/// Largest nesting depth of an answer.
const DEEPEST: usize = 64;
/// Number of bytes kept of the beginning, for messages.
const SHOWN: usize = 80;

/// Reason why an answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerFault {
    /// The connection broke or timed out.
    Broken(String),
    /// It contains more than the limits allow; a narrower query would return less.
    TooMuch(String),
    /// It is not an answer of the query API, or it is an error.
    Wrong(String),
}

/// Advice about narrower queries.
const LESS: &str = "use a shorter window, a longer --step or a narrower --match";

impl AnswerFault {
    /// Creates the fault of an exceeded limit, with the advice about narrower queries.
    pub fn too_much(what: &str) -> AnswerFault {
        AnswerFault::TooMuch(format!("{what}; {}", LESS))
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
    most_bytes: u64,
    /// Number of bytes read so far.
    pub count: u64,
    start: Vec<u8>,
    in_text: bool,
    escaped: bool,
    length: usize,
    depth: usize,
    /// Reason why reading ended early.
    pub fault: Option<AnswerFault>,
}

impl<R: Read> BoundedReader<R> {
    pub fn new(inner: R, most_bytes: u64) -> BoundedReader<R> {
        let (in_text, escaped) = (false, false);
        BoundedReader {
            inner,
            most_bytes,
            count: 0,
            start: Vec::new(),
            in_text,
            escaped,
            length: 0,
            depth: 0,
            fault: None,
        }
    }

    /// Returns the beginning of the answer on one line.
    pub fn beginning(&self) -> String {
        String::from_utf8_lossy(&self.start).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Checks the next bytes against all limits.
    fn take(&mut self, bytes: &[u8]) -> Result<(), AnswerFault> {
        let missing = SHOWN.saturating_sub(self.start.len()).min(bytes.len());
        self.start.extend_from_slice(&bytes[..missing]);
        self.count += bytes.len() as u64;
        if self.count > self.most_bytes {
            let limit = format_value(self.most_bytes as f64, "bytes");
            return Err(AnswerFault::Wrong(format!("the response is longer than the limit of {limit}; {}", LESS)));
        }
        for &byte in bytes {
            self.step(byte);
            if self.length > LONGEST_TEXT {
                return Err(AnswerFault::Wrong(format!(
                    "a string in the response is longer than {} bytes",
                    LONGEST_TEXT
                )));
            }
            if self.depth > DEEPEST {
                return Err(AnswerFault::Wrong(format!("the response nests more than {} lists", DEEPEST)));
            }
        }
        Ok(())
    }

    /// Follows strings, escapes and nesting by one byte.
    fn step(&mut self, byte: u8) {
        self.length += 1;
        if self.in_text {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_text = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_text = true,
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => {}
            _ => return,
        }
        self.length = 0;
    }
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.fault.is_some() {
            return Err(io::Error::other("it has ended"));
        }
        let read = match self.inner.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            read => read,
        };
        let checked = match read {
            Ok(read) => self.take(&buffer[..read]).map(|()| read),
            Err(error) => Err(AnswerFault::Broken(format!("the response broke off at byte {}: {error}", self.count))),
        };
        checked.map_err(|fault| {
            self.fault = Some(fault);
            io::Error::other("it has ended")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str, max_bytes: u64) -> Option<AnswerFault> {
        let mut bounded = BoundedReader::new(text.as_bytes(), max_bytes);
        let _ = io::copy(&mut bounded, &mut io::sink());
        bounded.fault
    }

    #[test]
    fn long_texts_deep_lists_and_long_answers_end() {
        let fits = "x".repeat(LONGEST_TEXT - 10);
        assert_eq!(fault(&format!("[\"{fits}\",\"{fits}\",1]"), u64::MAX), None);
        let long = "x".repeat(LONGEST_TEXT + 10);
        let escapes = "\\\"".repeat(LONGEST_TEXT);
        for text in [format!("\"{long}"), format!("\"{escapes}"), "7".repeat(LONGEST_TEXT + 10)] {
            assert!(matches!(fault(&text, u64::MAX), Some(AnswerFault::Wrong(_))), "{}", &text[..10]);
        }
        assert!(matches!(fault(&"[".repeat(DEEPEST + 1), u64::MAX), Some(AnswerFault::Wrong(_))));
        assert_eq!(fault(&"[]".repeat(1000), u64::MAX), None);
        assert!(matches!(fault(&" ".repeat(1001), 1000), Some(AnswerFault::Wrong(_))));
        assert_eq!(fault(&" ".repeat(1000), 1000), None);
    }
}
