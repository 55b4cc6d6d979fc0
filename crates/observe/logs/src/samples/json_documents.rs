//! JSON documents of a text, one or several, with prompts and sentences between them.

use std::io::Read;

use serde::de::{Deserialize, DeserializeOwned, Deserializer};

use crate::{FrameBatch, LogError, LogInput};

/// Largest text of JSON that is held in memory, bytes.
const MAX_TEXT_BYTES: u64 = 256 << 20;
/// Largest number of faults and of lines outside that are kept.
const MAX_FAULTS: usize = 100_000;

/// Reads all of an input.
///
/// # Errors
/// When reading fails, or the input is too large to be held.
pub(crate) fn read_all_bytes(input: &mut LogInput) -> Result<Vec<u8>, LogError> {
    let name = input.name().to_owned();
    let mut bytes = Vec::new();
    input.take(MAX_TEXT_BYTES + 1).read_to_end(&mut bytes).map_err(|error| LogError::io(&name, error))?;
    if bytes.len() as u64 > MAX_TEXT_BYTES {
        let because = "more than 256 MiB of JSON; ask for a shorter time or fewer series";
        return Err(LogError::broken(&name, "its size", because));
    }
    Ok(bytes)
}

/// Reads `null`, which stores and exporters write for what they do not have, as nothing.
///
/// # Errors
/// When the value is of another type.
pub(crate) fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// What a text holds beside its documents.
#[derive(Default)]
pub(crate) struct DocumentReport {
    /// Line and fault of each document that could not be read.
    faults: Vec<(usize, String)>,
    /// Lines that belong to no document.
    outside: Vec<usize>,
}

impl DocumentReport {
    /// Counts all of it as left out.
    pub(crate) fn add_to(self, batch: &mut FrameBatch<'_>) {
        for line in self.outside {
            batch.add_skip(format!("line {line}"), "a line outside of the documents");
        }
        for (line, because) in self.faults {
            batch.add_skip(format!("line {line}"), format!("{because}; the document was left out"));
        }
    }
}

/// Calls `take` with each document of a text that begins a line; other documents and text are passed over.
pub(crate) fn for_each_document<T: DeserializeOwned>(bytes: &[u8], mut take: impl FnMut(T)) -> DocumentReport {
    let mut report = DocumentReport::default();
    let mut position = 0;
    let mut line = 1;
    while let Some(begin) = find_document(bytes, position, &mut line, &mut report) {
        let mut documents = serde_json::Deserializer::from_slice(&bytes[begin..]).into_iter::<T>();
        let end = match documents.next() {
            Some(Ok(document)) => {
                take(document);
                begin + documents.byte_offset().max(1)
            }
            Some(Err(error)) if report.faults.len() < MAX_FAULTS => {
                report.faults.push((line + error.line() - 1, error.to_string()));
                line_end(bytes, begin)
            }
            _ => break,
        };
        line += count_lines(&bytes[begin..end]);
        position = end;
    }
    report
}

/// Finds the next `{` with which a line or another document begins; lines on the way are reported.
fn find_document(bytes: &[u8], from: usize, line: &mut usize, report: &mut DocumentReport) -> Option<usize> {
    let mut position = from;
    while position < bytes.len() {
        let is_blank = |b: &u8| b.is_ascii_whitespace() || matches!(*b, b',' | b'[' | b']' | 0);
        let start = position + bytes[position..].iter().position(|b| !is_blank(b))?;
        *line += count_lines(&bytes[position..start]);
        if bytes[start] == b'{' {
            return Some(start);
        }
        let end = line_end(bytes, start);
        if report.outside.len() < MAX_FAULTS && bytes[start..end].iter().any(u8::is_ascii_alphanumeric) {
            report.outside.push(*line);
        }
        *line += count_lines(&bytes[start..end]);
        position = end;
    }
    None
}

/// Returns the index behind the line of a byte.
fn line_end(bytes: &[u8], position: usize) -> usize {
    memchr::memchr(b'\n', &bytes[position..]).map_or(bytes.len(), |end| position + end + 1)
}

fn count_lines(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}
