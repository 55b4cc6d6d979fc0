//! A file of the kernel that stays open and is read from its start at every tick, into a reused buffer. Opening costs
//! more than reading.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use diskwright_base::Note;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, getrlimit};

use super::tick_context::TickContext;
use super::watched_read::watch_read;

/// Magic number of the `proc` filesystem.
const PROC_MAGIC: u64 = 0x9fa0;

/// Length at which a file counts as endless, bytes. No file of the kernel is longer.
const MAX_FILE_BYTES: usize = 64 << 20;

/// First size of a buffer, bytes.
const PAGE_BYTES: usize = 4096;

/// Smallest limit of open files at which files stay open. The sources have some forty, and one for each cgroup; with
/// less, a file takes a descriptor only while it is read, so that no source lacks one.
const MIN_DESCRIPTORS: u64 = 256;

/// Returns true if this process may open so many files that those of the sources can stay open.
pub(crate) fn has_many_descriptors() -> bool {
    static HAS_MANY: OnceLock<bool> = OnceLock::new();
    *HAS_MANY.get_or_init(|| getrlimit(Resource::Nofile).current.is_none_or(|limit| limit >= MIN_DESCRIPTORS))
}

/// How the kernel returns the file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// One read returns all of it, if the buffer is large enough.
    Whole,
    /// The content comes page by page; only an empty read marks the end.
    Pieces,
}

#[derive(Debug)]
enum OpenFileState {
    Untried,
    Open(File),
    /// Opened again for every read, to save file descriptors.
    Closed,
    Unreadable,
}

/// A file that stays open between ticks.
#[derive(Debug)]
pub(crate) struct OpenFile {
    path: PathBuf,
    read_mode: ReadMode,
    stays_open: bool,
    allows_empty: bool,
    is_quiet: bool,
    /// End of the note on its absence: the loss of information.
    consequence: &'static str,
    state: OpenFileState,
    ever_read: bool,
    failure_noted: bool,
    buffer: Vec<u8>,
}

impl OpenFile {
    /// Describes a file that one read returns completely; `consequence` ends the note on its absence.
    pub fn in_one_read(path: PathBuf, consequence: &'static str) -> OpenFile {
        OpenFile {
            path,
            read_mode: ReadMode::Whole,
            stays_open: true,
            allows_empty: false,
            is_quiet: false,
            consequence,
            state: OpenFileState::Untried,
            ever_read: false,
            failure_noted: false,
            buffer: Vec::new(),
        }
    }

    /// Describes a file that is read in pieces.
    pub fn in_pieces(path: PathBuf, consequence: &'static str) -> OpenFile {
        OpenFile { read_mode: ReadMode::Pieces, ..OpenFile::in_one_read(path, consequence) }
    }

    /// Accepts an empty file, which otherwise counts as masked.
    pub fn allow_empty(self) -> OpenFile {
        OpenFile { allows_empty: true, ..self }
    }

    /// Suppresses notes on failures; the source reports them itself.
    pub fn without_notes(self) -> OpenFile {
        OpenFile { is_quiet: true, ..self }
    }

    /// Sets whether the file stays open between reads.
    pub fn keep_open(self, stays_open: bool) -> OpenFile {
        OpenFile { stays_open, ..self }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns false if the kernel reports that nothing has changed since the last call, as it does for mounts.
    pub fn may_have_changed(&self) -> bool {
        let OpenFileState::Open(file) = &self.state else { return true };
        let is_procfs = rustix::fs::fstatfs(file).is_ok_and(|filesystem| filesystem.f_type as u64 == PROC_MAGIC);
        if !is_procfs {
            return true;
        }
        let mut polled = [PollFd::new(file, PollFlags::PRI)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // the kernel reports a change of the mounts as an error condition
        poll(&mut polled, Some(&now)).map_or(true, |events| events > 0)
    }

    /// Reads the file. If it cannot be read, a note reports that once, and the result is `None`; then only slow ticks
    /// try again.
    pub fn read(&mut self, context: &mut TickContext) -> Option<&[u8]> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let length = self.read_into(context, &mut buffer);
        self.buffer = buffer;
        self.buffer.get(..length?)
    }

    /// Reads the file into a buffer that several files share; returns the length. Fails as [`OpenFile::read`] does.
    pub fn read_into(&mut self, context: &mut TickContext, buffer: &mut Vec<u8>) -> Option<usize> {
        if matches!(self.state, OpenFileState::Unreadable) && !context.is_slow_tick {
            return None;
        }
        match self.try_read(buffer) {
            Ok(length) => {
                if self.failure_noted {
                    self.failure_noted = false;
                    context.notes.push(
                        context.time_ns,
                        Note::GAP,
                        format!("{} can be read again", self.path.display()),
                    );
                }
                self.ever_read = true;
                Some(length)
            }
            Err(error) => {
                self.state = OpenFileState::Unreadable;
                self.note_failure(context, &error);
                None
            }
        }
    }

    fn try_read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let OpenFile { path, read_mode, stays_open, state, .. } = self;
        let length = watch_read(path, || {
            let opened;
            let file = match state {
                OpenFileState::Open(file) => file,
                _ => {
                    opened = File::open(&*path)?;
                    *state = OpenFileState::Closed;
                    if !*stays_open || !has_many_descriptors() {
                        return fill_buffer(&opened, *read_mode, buffer);
                    }
                    *state = OpenFileState::Open(opened);
                    let OpenFileState::Open(file) = state else { unreachable!("opened above") };
                    file
                }
            };
            fill_buffer(file, *read_mode, buffer)
        })?;
        if length == 0 && !self.allows_empty {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is empty (masked in a container?)"));
        }
        Ok(length)
    }

    fn note_failure(&mut self, context: &mut TickContext, error: &io::Error) {
        if self.failure_noted || self.is_quiet {
            return;
        }
        self.failure_noted = true;
        let kind = if self.ever_read { Note::GAP } else { Note::UNSEEN };
        context.notes.push(
            context.time_ns,
            kind,
            format!("{}: {}; {}", self.path.display(), error_reason(error), self.consequence),
        );
    }
}

/// Describes an error of the operating system for a note.
pub(crate) fn error_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist here".into(),
        io::ErrorKind::PermissionDenied => "no permission to read it".into(),
        io::ErrorKind::Unsupported => "the kernel has it, but it is switched off".into(),
        io::ErrorKind::TimedOut => "it does not answer".into(),
        _ => error.to_string(),
    }
}

fn fill_buffer(file: &File, mode: ReadMode, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut filled = 0;
    loop {
        if filled == buffer.len() {
            if filled >= MAX_FILE_BYTES {
                return Err(io::Error::other("it has no end"));
            }
            buffer.resize((filled * 2).max(PAGE_BYTES), 0);
        }
        match file.read_at(&mut buffer[filled..], filled as u64) {
            Ok(0) => return Ok(filled),
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        }
        if mode == ReadMode::Whole && filled < buffer.len() {
            return Ok(filled);
        }
    }
}

/// Reads a small file once, for slow ticks and for topology. Blanks at both ends are trimmed; `None` where the file
/// cannot be read or is not UTF-8.
pub(crate) fn read_text(path: &Path) -> Option<String> {
    let bytes = read_bytes(path).ok()?;
    Some(std::str::from_utf8(&bytes).ok()?.trim().to_owned())
}

/// Reads a file once, unchanged. Files of the kernel have no length, for which `std::fs::read` asks first and then uses
/// small reads; most of them fit into one page.
pub(crate) fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    watch_read(path, || {
        let mut bytes = Vec::new();
        let length = fill_buffer(&File::open(path)?, ReadMode::Pieces, &mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    })
}

/// Reads a small file that holds one integer.
pub(crate) fn read_number(path: &Path) -> Option<u64> {
    super::text_scan::parse_number(read_text(path)?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_not_read_again_until_the_kernel_reports_a_change() {
        let path = Path::new("/proc/self/mountinfo");
        let Ok(file) = File::open(path) else { return eprintln!("skipped: there is no {}", path.display()) };
        let table = OpenFile { state: OpenFileState::Open(file), ..OpenFile::in_pieces(path.into(), "") };
        // another process may mount something meanwhile, but not each time
        assert!((0..100).any(|_| !table.may_have_changed()));
        assert!(OpenFile::in_pieces(path.into(), "").may_have_changed(), "it is not open");
    }

    #[test]
    fn a_file_without_change_events_may_always_have_changed() {
        let machine = crate::live::fake::FakeMachine::new();
        machine.put_file("proc/self/mountinfo", "");
        let path = machine.folder().join("proc/self/mountinfo");
        let file = File::open(&path).expect("it was made");
        let table = OpenFile { state: OpenFileState::Open(file), ..OpenFile::in_pieces(path, "") };
        assert!(table.may_have_changed() && table.may_have_changed());
    }
}
