//! Raw files of atop. Their layout is that of atop's own structures and changes from release to release, so the
//! installed `atop` prints them, and its output is read as it comes out of the pipe.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::{Child, Stdio};

use diskwright_hostfiles::programs::{self, ChildLimits};

use super::reader;
use crate::batch::FrameBatch;
use crate::error::LogError;
use crate::input_limits;
use crate::{LogInput, LogOptions};

/// Beginning of a raw file, in the byte order of the machine that wrote it.
const MAGIC: u32 = 0xfeed_beef;
/// Set in the version, so that it is never mistaken for a length.
const VERSION_MARK: u16 = 0x8000;
/// Path of standard input, on which atop gets the file, so that it needs no name.
const STDIN_PATH: &str = "/proc/self/fd/0";
/// Bytes of atop's error output that are shown.
const MAX_COMPLAINT_BYTES: usize = 200;

/// Returns the version of atop (`2.8`) that wrote a file with these first bytes; `None` for another file.
pub fn writer_version(bytes: &[u8]) -> Option<String> {
    let [a, b, c, d, e, f, ..] = *bytes else { return None };
    let number = match [a, b, c, d] {
        magic if u32::from_le_bytes(magic) == MAGIC => u16::from_le_bytes([e, f]),
        magic if u32::from_be_bytes(magic) == MAGIC => u16::from_be_bytes([e, f]),
        _ => return None,
    };
    let number = number & !VERSION_MARK;
    Some(format!("{}.{}", number >> 8, number & 0xff))
}

/// Reads a raw file through atop.
pub fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let name = input.name().to_owned();
    let version = writer_version(input.head().bytes).unwrap_or_default();
    let file = open_unpacked(input)?;
    let mut child = start_atop(&file, &name, &version)?;
    let read = match child.stdout.take() {
        Some(mut pipe) => reader::read(&mut pipe, format!("{name} (through atop -P)"), options, batch),
        None => Ok(()),
    };
    if batch.is_stopped() {
        // it may be gone already
        let _ = child.kill();
    }
    let mut complaint = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        let _ = stderr.take(64 << 10).read_to_end(&mut complaint);
    }
    let is_done = child.wait().is_ok_and(|status| status.success());
    read?;
    if is_done && batch.has_ticks() || batch.is_stopped() {
        return Ok(());
    }
    if !batch.has_ticks() {
        return Err(refusal_error(&name, &version, &describe_complaint(&complaint)));
    }
    batch.add_skip(name, format!("atop stopped before the end: {}", describe_complaint(&complaint)));
    Ok(())
}

/// Opens the file itself if it is unpacked, else a temporary copy.
fn open_unpacked(input: &mut LogInput) -> Result<File, LogError> {
    let name = input.name().to_owned();
    if let Some(mut file) = input.path().and_then(|path| File::open(path).ok()) {
        let mut magic = [0; 6];
        if file.read_exact(&mut magic).is_ok() && writer_version(&magic).is_some() {
            return match input_limits::find_hole(&file) {
                Some((_, because)) => Err(LogError::Tool { file: name, because }),
                None => Ok(file),
            };
        }
    }
    input_limits::copy_to_temp_file(input).map_err(|e| LogError::io(&name, e))
}

/// Starts atop with limits: its output for a damaged file can be gigabytes.
fn start_atop(file: &File, name: &str, version: &str) -> Result<Child, LogError> {
    let missing = |error: &io::Error| missing_atop_error(name, version, error);
    let program = programs::find_program("atop")
        .ok_or_else(|| missing(&io::Error::new(io::ErrorKind::NotFound, "there is no such program")))?;
    let mut file = file.try_clone().map_err(|e| LogError::io(name, e))?;
    file.rewind().map_err(|e| LogError::io(name, e))?;
    let mut command = programs::command_without_secrets(program);
    command.args(["-r", STDIN_PATH, "-P", "ALL"]).env("LC_ALL", "C").stdin(file);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|e| missing(&e))?;
    if let Err(error) = programs::limit_child(&child, ChildLimits::default()) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(LogError::io(name, error));
    }
    Ok(child)
}

fn describe_complaint(complaint: &[u8]) -> String {
    // the last message is the reason why it stopped
    let from = complaint.len().saturating_sub(MAX_COMPLAINT_BYTES);
    let text = String::from_utf8_lossy(&complaint[from..]).replace('\n', "; ");
    match text.trim_end_matches("; ").trim() {
        "" => "it printed no reason".to_owned(),
        text => text.to_owned(),
    }
}

/// Describes how to go on without the right atop.
fn format_hint(version: &str) -> String {
    format!("install atop {version}, or run `atop -r FILE -P ALL` where it was recorded and read that")
}

fn missing_atop_error(name: &str, version: &str, error: &io::Error) -> LogError {
    let hint = format_hint(version);
    let because =
        format!("a raw file of atop {version}, which `atop` must read; it cannot be run here ({error}): {hint}");
    LogError::Tool { file: name.to_owned(), because }
}

fn refusal_error(name: &str, version: &str, complaint: &str) -> LogError {
    let because =
        format!("a raw file of atop {version} that `atop` here refuses ({complaint}): {}", format_hint(version));
    LogError::Tool { file: name.to_owned(), because }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_raw_files_by_their_magic_and_reads_their_version() {
        assert_eq!(writer_version(&[0xef, 0xbe, 0xed, 0xfe, 0x08, 0x82, 0, 0]).as_deref(), Some("2.8"));
        assert_eq!(writer_version(&[0xfe, 0xed, 0xbe, 0xef, 0x82, 0x0a]).as_deref(), Some("2.10"));
        for other in [&[0xef, 0xbe, 0xed, 0xfe, 0x08][..], b"RESET\n", &[]] {
            assert_eq!(writer_version(other), None);
        }
    }

    #[test]
    fn refusal_names_the_version_that_wrote_the_file() {
        let bytes = [&[0xef, 0xbe, 0xed, 0xfe, 0x04, 0x82][..], &[0; 4096]].concat();
        let mut input = LogInput::from_bytes("file", bytes).unwrap();
        let mut sink = |_: crate::LogPiece<'_>| std::ops::ControlFlow::Continue(());
        let error = crate::read(&mut input, &LogOptions::default(), &mut sink).unwrap_err().to_string();
        assert!(error.contains("a raw file of atop 2.4") && error.contains("atop -r FILE -P ALL"), "{error}");
    }
}
