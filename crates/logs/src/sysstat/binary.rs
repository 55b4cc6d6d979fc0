//! sysstat's own data files (`saDD`). Their layout changes from release to
//! release, so the installed `sadf` reads them, and its JSON is read as it
//! comes out of the pipe.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::json_log;
use super::keeper::Writer;
use super::stream::Stream;
use super::time::Order;
use crate::batch::Batch;
use crate::error::LogError;
use crate::{Input, Options};

/// How to go on without sadf.
const HINT: &str = "install the package sysstat, or run `sadf -j FILE -- -A` where it was recorded and read that";
/// Bytes of what sadf complains that are told.
const COMPLAINT: usize = 200;

/// True for the beginning of a data file, of either byte order: the magic
/// number of sysstat, then that of a format of 9.1.6 or later.
pub fn is_data_file(bytes: &[u8]) -> bool {
    let of = |read: fn([u8; 2]) -> u16| match *bytes {
        [a, b, c, d, ..] => (read([a, b]), read([c, d])),
        _ => (0, 0),
    };
    [of(u16::from_le_bytes), of(u16::from_be_bytes)]
        .into_iter()
        .any(|(sysstat, format)| sysstat == 0xd596 && (0x2170..=0x217f).contains(&format))
}

/// Reads a data file through sadf.
pub fn read(input: &mut Input, options: &Options, batch: &mut Batch<'_>) -> Result<(), LogError> {
    let name = input.name().to_owned();
    let (path, _kept) = on_disk(input)?;
    match convert(&path, &name, options, batch) {
        Err(Refused::Old) => {}
        Err(Refused::Error(error)) => return Err(error),
        Ok(()) => return Ok(()),
    }
    let newer = spool(&name)?;
    let to = newer.reopen().map_err(|e| LogError::io(&name, e))?;
    let output = sadf(&[OsStr::new("-c"), path.as_os_str()]).stdout(to).output().map_err(|e| absent(&name, &e))?;
    if !output.status.success() {
        return Err(refused(&name, &output.stderr));
    }
    convert(newer.path(), &name, options, batch).map_err(|refused| match refused {
        Refused::Old => LogError::Tool { file: name, because: format!("sadf cannot read this old format: {HINT}") },
        Refused::Error(error) => error,
    })
}

/// Why sadf did not read a file.
enum Refused {
    /// The format is older than it reads; `sadf -c` may convert it.
    Old,
    Error(LogError),
}

/// The file's path where it lies there unpacked, else a copy that goes away.
/// Standard input has no path, so it is copied too.
fn on_disk(input: &mut Input) -> Result<(PathBuf, Option<tempfile::NamedTempFile>), LogError> {
    if let Some(path) = input.path() {
        let mut magic = [0; 4];
        let is_plain = File::open(path).and_then(|mut f| f.read_exact(&mut magic)).is_ok() && is_data_file(&magic);
        if is_plain {
            // a name that begins with a hyphen is no option
            let path = if path.is_relative() { Path::new(".").join(path) } else { path.to_owned() };
            return Ok((path, None));
        }
    }
    let name = input.name().to_owned();
    let mut copy = spool(&name)?;
    let copied = io::copy(input, &mut copy).and_then(|_| copy.flush()).and_then(|()| copy.rewind());
    copied.map_err(|e| LogError::io(&name, e))?;
    Ok((copy.path().to_owned(), Some(copy)))
}

fn spool(name: &str) -> Result<tempfile::NamedTempFile, LogError> {
    tempfile::NamedTempFile::new().map_err(|e| LogError::io(name, e))
}

fn sadf(arguments: &[&OsStr]) -> Command {
    let mut command = Command::new("sadf");
    // numbers with a point, times in UTC, whatever this machine's locale
    command.args(arguments).env("LC_ALL", "C").env_remove("S_TIME_DEF_TIME").stdin(Stdio::null());
    command
}

fn convert(path: &Path, name: &str, options: &Options, batch: &mut Batch<'_>) -> Result<(), Refused> {
    let arguments = [OsStr::new("-j"), path.as_os_str(), OsStr::new("--"), OsStr::new("-A")];
    let started = sadf(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.map_err(|e| Refused::Error(absent(name, &e)))?;
    let read = match child.stdout.take() {
        Some(mut pipe) => {
            let mut pipe = Counted { inner: &mut pipe, bytes: 0 };
            let stream = Stream::over(&mut pipe, format!("{name} (through sadf -j)"));
            let read = json_log::read_stream(stream, Order::MonthFirst, options, batch, Writer::Sadf);
            read.map(|()| pipe.bytes)
        }
        None => Ok(0),
    };
    let (is_done, complaint) = end(child, batch.is_stopped());
    match read {
        Err(error) => Err(Refused::Error(error)),
        Ok(0) if says(&complaint, "cannot read the format") => Err(Refused::Old),
        Ok(0) => Err(Refused::Error(refused(name, &complaint))),
        Ok(_) if is_done || batch.is_stopped() => Ok(()),
        Ok(_) => {
            batch.skip(name, format!("sadf stopped before the end: {}", tell(&complaint)));
            Ok(())
        }
    }
}

/// Counts what a pipe brought.
struct Counted<'a> {
    inner: &'a mut dyn Read,
    bytes: u64,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

/// Waits for a child whose output was read, or ends one that nobody listens
/// to any more; tells whether it was content, and what it complained of.
fn end(mut child: Child, is_stopped: bool) -> (bool, Vec<u8>) {
    if is_stopped {
        // it may be gone already
        let _ = child.kill();
    }
    let mut complaint = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        let _ = stderr.take(64 << 10).read_to_end(&mut complaint);
    }
    (child.wait().is_ok_and(|status| status.success()), complaint)
}

fn says(complaint: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(complaint).contains(text)
}

fn tell(complaint: &[u8]) -> String {
    // what it says last is why it stopped
    let from = complaint.len().saturating_sub(COMPLAINT);
    let text = String::from_utf8_lossy(&complaint[from..]).replace('\n', "; ");
    match text.trim_end_matches("; ") {
        "" => "it said nothing".to_owned(),
        text => text.to_owned(),
    }
}

fn absent(name: &str, error: &io::Error) -> LogError {
    let because = format!("a binary file of sysstat, which `sadf` must read; it cannot be run here ({error}): {HINT}");
    LogError::Tool { file: name.to_owned(), because }
}

fn refused(name: &str, complaint: &[u8]) -> LogError {
    let because = format!("a binary file of sysstat that `sadf` here refuses ({}): {HINT}", tell(complaint));
    LogError::Tool { file: name.to_owned(), because }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_files_are_told_by_their_magic_of_either_byte_order() {
        for known in [[0x96, 0xd5, 0x75, 0x21], [0xd5, 0x96, 0x21, 0x75], [0x96, 0xd5, 0x71, 0x21]] {
            assert!(is_data_file(&known));
        }
        for other in [&[0x96, 0xd5, 0x75][..], &[0x96, 0xd5, 0x21, 0x75], b"{\"sy", &[]] {
            assert!(!is_data_file(other));
        }
    }
}
