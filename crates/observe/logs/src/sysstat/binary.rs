//! sysstat's own data files (`saDD`). Their layout changes from release to release, so the installed `sadf` reads them,
//! and its JSON is read as it comes out of the pipe.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use diskwright_base::byte_size::ByteSize;
use diskwright_base::units::format_value;
use diskwright_hostfiles::programs::{self, ChildLimits};
use rustix::process::Signal;

use super::json_log;
use super::session::DocumentWriter;
use super::stream_window::StreamWindow;
use super::time::NumericDateOrder;
use crate::batch::FrameBatch;
use crate::error::LogError;
use crate::input_limits;
use crate::{LogInput, LogOptions};

/// Advice for the user if sadf is missing.
const SADF_HINT: &str = "install the package sysstat, or run `sadf -j FILE -- -A` where it was recorded and read that";
/// Bytes of sadf's error output that are shown.
const MAX_COMPLAINT_BYTES: usize = 200;

/// Returns true for the beginning of a data file, of either byte order: the magic number of sysstat, then that of a
/// format of 9.1.6 or later.
pub fn is_data_file(bytes: &[u8]) -> bool {
    let read_magic = |read: fn([u8; 2]) -> u16| match *bytes {
        [a, b, c, d, ..] => (read([a, b]), read([c, d])),
        _ => (0, 0),
    };
    [read_magic(u16::from_le_bytes), read_magic(u16::from_be_bytes)]
        .into_iter()
        .any(|(sysstat, format)| sysstat == 0xd596 && (0x2170..=0x217f).contains(&format))
}

/// Origin of a data file: its format, and the release of sysstat.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SadcOrigin {
    format: u16,
    release: (u8, u8, u8),
}

impl SadcOrigin {
    /// Last format that no later `sadf` converts.
    const LAST_OLD_FORMAT: u16 = 0x2170;
    /// Format of sysstat 12.
    const NEWEST_FORMAT: u16 = 0x2175;

    fn parse(bytes: &[u8]) -> Option<SadcOrigin> {
        let [a, b, c, d, version, patch, sub, ..] = *bytes else { return None };
        let format = if [a, b] == [0x96, 0xd5] { u16::from_le_bytes([c, d]) } else { u16::from_be_bytes([c, d]) };
        Some(SadcOrigin { format, release: (version, patch, sub) })
    }

    /// Returns why a `sadf` of some release does not read it; `None` if the releases are not the reason.
    fn refusal_reason(self, installed: Option<(u8, u8, u8)>) -> Option<String> {
        let text = |(a, b, c): (u8, u8, u8)| format!("{a}.{b}.{c}");
        let written = text(self.release);
        if self.format <= Self::LAST_OLD_FORMAT {
            return Some(format!(
                "a binary file of sysstat {written}, older than any `sadf` since 9.1.6 reads or converts: where \
                 sysstat {written} is installed, run `LC_ALL=C sar -A -f FILE > TEXT` and read the text"
            ));
        }
        // no release before 13 writes a format beyond this
        let is_beyond = |installed: &(u8, u8, u8)| self.format > Self::NEWEST_FORMAT && installed.0 < 13;
        let installed = installed.filter(|installed| *installed < self.release || is_beyond(installed))?;
        let format = self.format;
        Some(format!(
            "a binary file of sysstat {written} (format {format:#x}), newer than `sadf` here ({}): install \
             sysstat {written} or later, or run `sadf -j FILE -- -A` where it was recorded and read that",
            text(installed)
        ))
    }
}

/// Returns the release of the `sadf` that is installed.
fn installed_release() -> Option<(u8, u8, u8)> {
    let mut command = programs::command_without_secrets(programs::find_program("sadf")?);
    let answer = command.arg("-V").env("LC_ALL", "C").stdin(Stdio::null()).output().ok()?;
    parse_release(&String::from_utf8_lossy(&[answer.stdout, answer.stderr].concat()))
}

/// Parses `sysstat version 12.6.1`.
fn parse_release(text: &str) -> Option<(u8, u8, u8)> {
    let version = text.split_whitespace().skip_while(|word| *word != "version").nth(1)?;
    let mut parts = version.split('.').map(|part| part.parse::<u8>().ok());
    Some((parts.next()??, parts.next()??, parts.next().flatten().unwrap_or(0)))
}

/// Reads a data file through sadf.
pub fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let name = input.name().to_owned();
    let origin = SadcOrigin::parse(input.head().bytes);
    let read = read_through_sadf(input, options, batch);
    let has_nothing = !batch.has_ticks() && !batch.is_stopped();
    match origin.filter(|_| has_nothing).and_then(|origin| origin.refusal_reason(installed_release())) {
        // a missing sadf is reported first
        Some(because) if programs::find_program("sadf").is_some() => Err(LogError::Tool { file: name, because }),
        _ => read,
    }
}

fn read_through_sadf(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let name = input.name().to_owned();
    let file = open_unpacked(input)?;
    match read_converted(&file, &name, options, batch) {
        Err(SadfRefusal::Old) => {}
        Err(SadfRefusal::Error(error)) => return Err(error),
        Ok(()) => return Ok(()),
    }
    let newer = convert_to_newest(&file, &name)?;
    read_converted(&newer, &name, options, batch).map_err(|refused| match refused {
        SadfRefusal::Old => {
            LogError::Tool { file: name, because: format!("sadf cannot read this old format: {SADF_HINT}") }
        }
        SadfRefusal::Error(error) => error,
    })
}

/// Converts a file of an old format to the newest one.
fn convert_to_newest(file: &File, name: &str) -> Result<File, LogError> {
    let io = |e| LogError::io(name, e);
    let newer = tempfile::tempfile().map_err(io)?;
    let limits = ChildLimits { file_bytes: input_limits::spool_limit().map_err(io)?, ..ChildLimits::default() };
    let mut command = sadf_command(&["-c", STDIN_PATH], file, name)?;
    let mut child = start_sadf(command.stdout(newer.try_clone().map_err(io)?), limits, name)?;
    let complaint = read_complaint(&mut child);
    let status = child.wait().map_err(io)?;
    if status.success() { Ok(newer) } else { Err(refusal_error(name, &complaint, Some(status))) }
}

/// Reason why sadf did not read a file.
enum SadfRefusal {
    /// The format is older than it reads; `sadf -c` may convert it.
    Old,
    Error(LogError),
}

/// Opens the file itself if it is unpacked, else a temporary copy. Standard input has no path, so it is copied too.
fn open_unpacked(input: &mut LogInput) -> Result<File, LogError> {
    let name = input.name().to_owned();
    if let Some(mut file) = input.path().and_then(|path| File::open(path).ok()) {
        let mut magic = [0; 4];
        if file.read_exact(&mut magic).is_ok() && is_data_file(&magic) {
            return match input_limits::find_hole(&file) {
                Some((_, because)) => Err(LogError::Tool { file: name, because }),
                None => Ok(file),
            };
        }
    }
    input_limits::copy_to_temp_file(input).map_err(|e| LogError::io(&name, e))
}

/// Path of standard input, on which sadf gets the file, so that it needs no name.
const STDIN_PATH: &str = "/proc/self/fd/0";

fn sadf_command(arguments: &[&str], file: &File, name: &str) -> Result<Command, LogError> {
    let missing = || missing_sadf_error(name, &io::Error::new(io::ErrorKind::NotFound, "there is no such program"));
    let mut command = programs::command_without_secrets(programs::find_program("sadf").ok_or_else(missing)?);
    let mut file = file.try_clone().map_err(|e| LogError::io(name, e))?;
    file.rewind().map_err(|e| LogError::io(name, e))?;
    // decimal points and times in UTC, whatever this machine's locale
    command.args(arguments).env("LC_ALL", "C").env_remove("S_TIME_DEF_TIME").stdin(file).stderr(Stdio::piped());
    Ok(command)
}

/// Starts sadf with limits: its output for a damaged file can be gigabytes.
fn start_sadf(command: &mut Command, limits: ChildLimits, name: &str) -> Result<Child, LogError> {
    let mut child = command.spawn().map_err(|e| missing_sadf_error(name, &e))?;
    if let Err(error) = programs::limit_child(&child, limits) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(LogError::io(name, error));
    }
    Ok(child)
}

fn read_converted(
    file: &File,
    name: &str,
    options: &LogOptions,
    batch: &mut FrameBatch<'_>,
) -> Result<(), SadfRefusal> {
    let mut command = sadf_command(&["-j", STDIN_PATH, "--", "-A"], file, name).map_err(SadfRefusal::Error)?;
    let mut child =
        start_sadf(command.stdout(Stdio::piped()), ChildLimits::default(), name).map_err(SadfRefusal::Error)?;
    let read = match child.stdout.take() {
        Some(mut pipe) => {
            let mut pipe = CountingPipe { inner: &mut pipe, bytes: 0 };
            let stream = StreamWindow::from_reader(&mut pipe, format!("{name} (through sadf -j)"));
            let read =
                json_log::read_stream(stream, NumericDateOrder::MonthFirst, options, batch, DocumentWriter::Sadf);
            read.map(|()| pipe.bytes)
        }
        None => Ok(0),
    };
    let (status, complaint) = end_child(child, batch.is_stopped());
    let is_done = status.is_some_and(|status| status.success());
    let limit_hit = describe_limit_hit(&complaint, status);
    match read {
        Err(_) if limit_hit.is_some() && !batch.has_ticks() => {
            Err(SadfRefusal::Error(refusal_error(name, &complaint, status)))
        }
        Err(error) => Err(SadfRefusal::Error(error)),
        Ok(0) if complaint.is_old_format() => Err(SadfRefusal::Old),
        Ok(0) => Err(SadfRefusal::Error(refusal_error(name, &complaint, status))),
        Ok(_) if is_done || batch.is_stopped() => Ok(()),
        Ok(_) => {
            batch.add_skip(
                name,
                format!("sadf stopped before the end: {}", limit_hit.unwrap_or_else(|| complaint.describe())),
            );
            Ok(())
        }
    }
}

/// Counts the bytes read from a pipe.
struct CountingPipe<'a> {
    inner: &'a mut dyn Read,
    bytes: u64,
}

impl Read for CountingPipe<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

/// Waits for a child whose output was read, or kills it if the reading was stopped; returns its exit status and its
/// error output.
fn end_child(mut child: Child, is_stopped: bool) -> (Option<ExitStatus>, SadfComplaint) {
    if is_stopped {
        // it may be gone already
        let _ = child.kill();
    }
    let complaint = read_complaint(&mut child);
    (child.wait().ok(), complaint)
}

fn read_complaint(child: &mut Child) -> SadfComplaint {
    let mut complaint = SadfComplaint(Vec::new());
    if let Some(stderr) = child.stderr.take() {
        let _ = stderr.take(64 << 10).read_to_end(&mut complaint.0);
    }
    complaint
}

/// What sadf printed to standard error. Its manual gives no exit statuses, so only this text, which `LC_ALL=C` keeps
/// English, shows why it did not read a file.
struct SadfComplaint(Vec<u8>);

impl SadfComplaint {
    /// Returns true if the format is older than it reads.
    fn is_old_format(&self) -> bool {
        self.contains("cannot read the format")
    }

    /// Returns true if it got no memory within its limit: the text of `ENOMEM`.
    fn is_out_of_memory(&self) -> bool {
        self.contains("Cannot allocate memory")
    }

    fn contains(&self, text: &str) -> bool {
        String::from_utf8_lossy(&self.0).contains(text)
    }

    /// Describes it for the user: the last message is the reason why it stopped.
    fn describe(&self) -> String {
        let from = self.0.len().saturating_sub(MAX_COMPLAINT_BYTES);
        let text = String::from_utf8_lossy(&self.0[from..]).replace('\n', "; ");
        match text.trim_end_matches("; ") {
            "" => "it printed no reason".to_owned(),
            text => text.to_owned(),
        }
    }
}

/// Describes the limit that ended sadf.
fn describe_limit_hit(complaint: &SadfComplaint, status: Option<ExitStatus>) -> Option<String> {
    let ChildLimits { memory_bytes, processor_s, file_bytes } = ChildLimits::default();
    let was_ended_by = |signal: Signal| status.and_then(|s| s.signal()) == Some(signal.as_raw());
    let limit = if complaint.is_out_of_memory() {
        format_value(memory_bytes as f64, "bytes") + " of memory"
    } else if was_ended_by(Signal::XCPU) || was_ended_by(Signal::KILL) {
        format!("{processor_s} s of processor time")
    } else if was_ended_by(Signal::XFSZ) {
        format!("{} for its copy", ByteSize::capacity(input_limits::spool_limit().unwrap_or(file_bytes) as f64))
    } else {
        return None;
    };
    Some(format!("sadf was ended at its limit of {limit}: the file is damaged, or too large"))
}

fn missing_sadf_error(name: &str, error: &io::Error) -> LogError {
    let because =
        format!("a binary file of sysstat, which `sadf` must read; it cannot be run here ({error}): {SADF_HINT}");
    LogError::Tool { file: name.to_owned(), because }
}

fn refusal_error(name: &str, complaint: &SadfComplaint, status: Option<ExitStatus>) -> LogError {
    let refusal =
        || format!("a binary file of sysstat that `sadf` here refuses ({}): {SADF_HINT}", complaint.describe());
    let because = describe_limit_hit(complaint, status).unwrap_or_else(refusal);
    LogError::Tool { file: name.to_owned(), because }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_files_that_are_too_old_or_too_new() {
        let origin = |bytes: &[u8]| SadcOrigin::parse(bytes).unwrap();
        let new = origin(&[0x96, 0xd5, 0x76, 0x21, 13, 0, 1, 0]);
        assert_eq!(new, SadcOrigin { format: 0x2176, release: (13, 0, 1) });
        assert_eq!(origin(&[0xd5, 0x96, 0x21, 0x76, 13, 0, 1, 0]), new);
        let reason = new.refusal_reason(Some((12, 6, 1))).unwrap();
        assert!(reason.contains("13.0.1") && reason.contains("12.6.1"), "{reason}");
        assert_eq!(new.refusal_reason(Some((13, 0, 1))), None);
        assert_eq!(new.refusal_reason(None), None);
        // a format that did not exist when that release came out
        let odd = origin(&[0x96, 0xd5, 0x76, 0x21, 12, 6, 1, 0]);
        assert!(odd.refusal_reason(Some((12, 6, 1))).is_some_and(|reason| reason.contains("0x2176")));
        let usual = origin(&[0x96, 0xd5, 0x75, 0x21, 12, 6, 1, 0]);
        assert_eq!(usual.refusal_reason(Some((12, 6, 1))), None);
        let old = origin(&[0x96, 0xd5, 0x70, 0x21, 9, 0, 4, 0]).refusal_reason(Some((12, 6, 1))).unwrap();
        assert!(old.contains("sysstat 9.0.4") && old.contains("sar -A"), "{old}");
        assert_eq!(parse_release("sysstat version 12.6.1\n(C) Sebastien Godard"), Some((12, 6, 1)));
        assert_eq!(parse_release("sysstat version 12.7"), Some((12, 7, 0)));
        assert_eq!(parse_release("command not found"), None);
    }

    #[test]
    fn recognizes_data_files_by_their_magic_in_either_byte_order() {
        for known in [[0x96, 0xd5, 0x75, 0x21], [0xd5, 0x96, 0x21, 0x75], [0x96, 0xd5, 0x71, 0x21]] {
            assert!(is_data_file(&known));
        }
        for other in [&[0x96, 0xd5, 0x75][..], &[0x96, 0xd5, 0x21, 0x75], b"{\"sy", &[]] {
            assert!(!is_data_file(other));
        }
    }
}
