//! A file of the kernel that stays open and is read from its start at every
//! tick, into a buffer that is used again. Opening costs more than reading.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use diskwright_base::Note;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::moment::TickContext;

/// What a filesystem of the kind `proc` calls itself.
const PROC_MAGIC: u64 = 0x9fa0;

/// No file of the kernel is longer; one that is, is not what its name says.
const LONGEST: usize = 64 << 20;

/// How the kernel hands the file out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// One read brings all of it, if there is room.
    Whole,
    /// Page by page; only a read of nothing tells the end.
    Pieces,
}

#[derive(Debug)]
enum OpenFileState {
    Untried,
    Open(File),
    /// Opened anew for every read, to spare file descriptors.
    Closed,
    Failed,
}

/// The file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    path: PathBuf,
    gives: ReadMode,
    keep: bool,
    may_be_empty: bool,
    quiet: bool,
    /// What is not known without it; for the note.
    means: &'static str,
    state: OpenFileState,
    ever_read: bool,
    told: bool,
    buffer: Vec<u8>,
}

impl OpenFile {
    /// A file that one read brings whole.
    pub fn whole(path: PathBuf, means: &'static str) -> OpenFile {
        OpenFile {
            path,
            gives: ReadMode::Whole,
            keep: true,
            may_be_empty: false,
            quiet: false,
            means,
            state: OpenFileState::Untried,
            ever_read: false,
            told: false,
            buffer: Vec::new(),
        }
    }

    /// A file that comes in pieces.
    pub fn pieces(path: PathBuf, means: &'static str) -> OpenFile {
        OpenFile { gives: ReadMode::Pieces, ..OpenFile::whole(path, means) }
    }

    /// Nothing in it is an answer, not a mask.
    pub fn may_be_empty(self) -> OpenFile {
        OpenFile { may_be_empty: true, ..self }
    }

    /// Its owner tells what it means that it cannot be read.
    pub fn quiet(self) -> OpenFile {
        OpenFile { quiet: true, ..self }
    }

    /// Whether it stays open between reads.
    pub fn keep(self, keep: bool) -> OpenFile {
        OpenFile { keep, ..self }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// False where the kernel says that nothing has changed since this was last asked, as it does of the mounts.
    pub fn may_have_changed(&self) -> bool {
        let OpenFileState::Open(file) = &self.state else { return true };
        let is_of_kernel = rustix::fs::fstatfs(file).is_ok_and(|filesystem| filesystem.f_type as u64 == PROC_MAGIC);
        if !is_of_kernel {
            return true;
        }
        let mut asked = [PollFd::new(file, PollFlags::PRI)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // an error is how the kernel reports that the mounts are others
        poll(&mut asked, Some(&now)).map_or(true, |events| events > 0)
    }

    /// Its text now; `None` where it cannot be read, which a note tells once.
    /// After a failure it is tried again on the slow beat only.
    pub fn read(&mut self, context: &mut TickContext) -> Option<&[u8]> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let length = self.read_into(context, &mut buffer);
        self.buffer = buffer;
        self.buffer.get(..length?)
    }

    /// The same into a buffer that files share; gives the length.
    pub fn read_into(&mut self, context: &mut TickContext, buffer: &mut Vec<u8>) -> Option<usize> {
        if matches!(self.state, OpenFileState::Failed) && !context.slow {
            return None;
        }
        match self.attempt(buffer) {
            Ok(length) => {
                if self.told {
                    self.told = false;
                    context.notes.push(
                        context.time_ns,
                        Note::GAP,
                        format!("{} can be read again", self.path.display()),
                    );
                }
                self.ever_read = true;
                Some(length)
            }
            Err(why) => {
                self.state = OpenFileState::Failed;
                self.tell(context, &why);
                None
            }
        }
    }

    fn attempt(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        if !self.keep {
            let file = File::open(&self.path)?;
            self.state = OpenFileState::Closed;
            return self.check(fill(&file, self.gives, buffer)?);
        }
        if !matches!(self.state, OpenFileState::Open(_)) {
            self.state = OpenFileState::Open(File::open(&self.path)?);
        }
        let OpenFileState::Open(file) = &self.state else { unreachable!("opened above") };
        let length = fill(file, self.gives, buffer)?;
        self.check(length)
    }

    fn check(&self, length: usize) -> io::Result<usize> {
        if length == 0 && !self.may_be_empty {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is empty (masked in a container?)"));
        }
        Ok(length)
    }

    fn tell(&mut self, context: &mut TickContext, why: &io::Error) {
        if self.told || self.quiet {
            return;
        }
        self.told = true;
        let kind = if self.ever_read { Note::GAP } else { Note::UNSEEN };
        context.notes.push(context.time_ns, kind, format!("{}: {}; {}", self.path.display(), reason(why), self.means));
    }
}

/// An operating system's error in words for a note.
pub(crate) fn reason(why: &io::Error) -> String {
    match why.kind() {
        io::ErrorKind::NotFound => "does not exist here".into(),
        io::ErrorKind::PermissionDenied => "no permission to read it".into(),
        io::ErrorKind::Unsupported => "the kernel has it, but it is switched off".into(),
        _ => why.to_string(),
    }
}

fn fill(file: &File, gives: ReadMode, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut filled = 0;
    loop {
        if filled == buffer.len() {
            if filled >= LONGEST {
                return Err(io::Error::other("it has no end"));
            }
            buffer.resize((filled * 2).max(4096), 0);
        }
        match file.read_at(&mut buffer[filled..], filled as u64) {
            Ok(0) => return Ok(filled),
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        }
        if gives == ReadMode::Whole && filled < buffer.len() {
            return Ok(filled);
        }
    }
}

/// Reads a small file once, for the slow beat and for topology. Blanks at the
/// ends are cut; `None` where it cannot be read or is no text.
pub(crate) fn read_text(path: &Path) -> Option<String> {
    let bytes = read_bytes(path).ok()?;
    Some(std::str::from_utf8(&bytes).ok()?.trim().to_owned())
}

/// Reads a file once, as it is.
pub(crate) fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path)
}

/// A small file that holds one whole number.
pub(crate) fn read_number(path: &Path) -> Option<u64> {
    super::scan::number(read_text(path)?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_not_read_again_until_the_kernel_reports_a_change() {
        let path = Path::new("/proc/self/mountinfo");
        let Ok(file) = File::open(path) else { return eprintln!("skipped: there is no {}", path.display()) };
        let table = OpenFile { state: OpenFileState::Open(file), ..OpenFile::pieces(path.into(), "") };
        // somebody may mount something meanwhile, but not each time
        assert!((0..100).any(|_| !table.may_have_changed()));
        assert!(OpenFile::pieces(path.into(), "").may_have_changed(), "it is not open");
    }

    #[test]
    fn a_file_of_which_the_kernel_reports_nothing_may_always_have_changed() {
        let machine = crate::live::fake::FakeMachine::new();
        machine.put("proc/self/mountinfo", "");
        let path = machine.folder().join("proc/self/mountinfo");
        let file = File::open(&path).expect("it was made");
        let table = OpenFile { state: OpenFileState::Open(file), ..OpenFile::pieces(path, "") };
        assert!(table.may_have_changed() && table.may_have_changed());
    }
}
