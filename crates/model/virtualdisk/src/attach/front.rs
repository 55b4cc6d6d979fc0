//! `attach` as seen by who asks for it: all checks, then the process that stays.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::{Signal, geteuid, pidfd_send_signal};

use super::export::{ExportAddress, NbdAddress};
use super::journal::{JournalEntry, KeeperTask};
use super::keep::KeeperMessage;
use super::{AttachError, AttachMethod, AttachReport, choice, detach, talk, tools};

/// Longer than every step of making a device may last together.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest line that the process that stays tells, bytes.
const LONGEST: usize = 64 << 10;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct AttachRequest {
    /// The export.
    pub export: ExportAddress,
    /// The path; the best that works otherwise.
    pub by: Option<AttachMethod>,
    /// Connections to the server at most; the path's usual number otherwise.
    pub connections: Option<u32>,
    /// Read-only, whatever the server allows.
    pub read_only: bool,
    /// The journal, [`super::journal::FOLDER`].
    pub journal: PathBuf,
}

/// Who may make and undo block devices.
///
/// # Errors
/// For all but root.
pub fn root_only() -> Result<(), AttachError> {
    if geteuid().is_root() { Ok(()) } else { Err(AttachError::NotRoot) }
}

/// Makes a device, and leaves a process with it: `keeper` gives the command
/// that calls [`super::keep::keep`] for the entry in a folder.
/// Returns what was made, and what was noticed on the way.
///
/// # Errors
/// With what stands in the way; nothing is left then.
pub fn attach(
    wanted: &AttachRequest,
    keeper: impl FnOnce(&Path) -> Command,
) -> Result<(AttachReport, Vec<String>), AttachError> {
    root_only()?;
    let export = absolute(&wanted.export);
    // whoever it is: a server that is not there is told at once
    let _ = talk::open(&export)?.disconnect();
    let journal = |path: &Path, source| AttachError::Journal { path: path.to_owned(), source };
    let folder = std::path::absolute(&wanted.journal).map_err(|e| journal(&wanted.journal, e))?;
    let notes = detach::sweep(&folder);
    let by = choice::choose(wanted.by)?;
    let connections = wanted.connections.unwrap_or_else(|| choice::connections(by));
    let order = KeeperTask { uri: export.to_string(), by, connections, read_only: wanted.read_only };
    let (entry, lock) = JournalEntry::create(&folder, &order)?;
    let made = start(&entry, lock, keeper(entry.folder()));
    if made.is_err() {
        // what it could not undo itself, as far as it is dead
        let _ = detach::undo_abandoned(&entry);
    }
    Ok((made?, notes))
}

/// The same export, wherever the process that stays has its working directory.
fn absolute(export: &ExportAddress) -> ExportAddress {
    let mut export = export.clone();
    if let NbdAddress::Unix(path) = &mut export.address {
        *path = std::path::absolute(&*path).unwrap_or_else(|_| path.clone());
    }
    export
}

/// Starts the process that stays, and hears what it made.
fn start(entry: &JournalEntry, lock: File, mut keeper: Command) -> Result<AttachReport, AttachError> {
    let step = |why: &dyn std::fmt::Display| AttachError::step("the keeper process", why);
    // the lock lives in its standard input
    let keeper = keeper.stdin(lock).stdout(Stdio::piped()).stderr(Stdio::null()).current_dir("/");
    let mut child = keeper.spawn().map_err(|e| step(&e))?;
    let told = child.stdout.take().map_or_else(String::new, hear);
    match serde_json::from_str(&told) {
        Ok(KeeperMessage::Ready(attached)) => Ok(attached),
        Ok(KeeperMessage::Failed(why)) => {
            let _ = child.wait();
            Err(AttachError::Told(why))
        }
        Err(_) => {
            let _ = tools::process(child.id(), entry.folder()).map(|it| pidfd_send_signal(it, Signal::KILL));
            let ended = child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
            Err(step(&format_args!("it reported nothing ({ended})")))
        }
    }
}

/// A line, in time.
fn hear(mut pipe: ChildStdout) -> String {
    let end = Instant::now() + PATIENCE;
    let mut line = Vec::new();
    while !line.ends_with(b"\n") && line.len() < LONGEST {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || tools::wait(&[(pipe.as_fd(), PollFlags::IN)], Some(left)).is_none() {
            break;
        }
        let mut some = [0; 4096];
        match pipe.read(&mut some) {
            Ok(read) if read > 0 => line.extend_from_slice(some.get(..read).unwrap_or_default()),
            _ => break,
        }
    }
    String::from_utf8_lossy(&line).into_owned()
}
