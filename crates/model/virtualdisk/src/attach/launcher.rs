//! `attach` on the caller's side: runs all checks, then starts the keeper process.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::{Signal, geteuid, pidfd_send_signal};

use super::export_address::{ExportAddress, NbdAddress};
use super::journal::{JournalEntry, KeeperTask};
use super::keeper::KeeperMessage;
use super::{AttachError, AttachMethod, AttachReport, child_processes, detach, method_choice, nbd_stream};

/// Time limit for the keeper to report: longer than all steps of making a device together.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest message of the keeper process, bytes.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// Request to attach an export.
#[derive(Clone, Debug)]
pub struct AttachRequest {
    /// The export.
    pub export: ExportAddress,
    /// The method; the best one that works if `None`.
    pub by: Option<AttachMethod>,
    /// Largest number of connections to the server; the method's default if `None`.
    pub connections: Option<u32>,
    /// The device is read-only, even if the server allows writes.
    pub read_only: bool,
    /// The journal, [`super::journal::JOURNAL_FOLDER`].
    pub journal: PathBuf,
}

/// Checks that the user may attach and detach block devices.
///
/// # Errors
/// For all but root.
pub fn check_root() -> Result<(), AttachError> {
    if geteuid().is_root() { Ok(()) } else { Err(AttachError::NotRoot) }
}

/// Makes a device, and leaves a keeper process with it: `keeper` gives the command that calls
/// [`super::keeper::run_keeper`] for the entry in a folder. Returns the device, and notes about
/// earlier ones.
///
/// # Errors
/// The obstacle; nothing is left behind then.
pub fn attach_export(
    request: &AttachRequest,
    keeper: impl FnOnce(&Path) -> Command,
) -> Result<(AttachReport, Vec<String>), AttachError> {
    check_root()?;
    let export = with_absolute_path(&request.export);
    // connect first, so that a missing server is reported at once
    let _ = nbd_stream::connect_export(&export)?.disconnect();
    let folder = std::path::absolute(&request.journal)
        .map_err(|source| AttachError::Journal { path: request.journal.clone(), source })?;
    let notes = detach::sweep_abandoned(&folder);
    let method = method_choice::choose_method(request.by)?;
    let connections = request.connections.unwrap_or_else(|| method_choice::default_connections(method));
    let task = KeeperTask { uri: export.to_string(), by: method, connections, read_only: request.read_only };
    let (entry, lock) = JournalEntry::create_entry(&folder, &task)?;
    let attached = start_keeper(&entry, lock, keeper(entry.folder()));
    if attached.is_err() {
        // a keeper that died could not undo its steps itself
        let _ = detach::undo_abandoned(&entry);
    }
    Ok((attached?, notes))
}

/// Makes the socket path absolute, because the keeper process has another working directory.
fn with_absolute_path(export: &ExportAddress) -> ExportAddress {
    let mut export = export.clone();
    if let NbdAddress::Unix(path) = &mut export.address {
        *path = std::path::absolute(&*path).unwrap_or_else(|_| path.clone());
    }
    export
}

/// Starts the keeper process, and receives its report.
fn start_keeper(entry: &JournalEntry, lock: File, mut keeper: Command) -> Result<AttachReport, AttachError> {
    let step = |why: &dyn std::fmt::Display| AttachError::step_error("the keeper process", why);
    // its standard input holds the lock
    let keeper = keeper.stdin(lock).stdout(Stdio::piped()).stderr(Stdio::null()).current_dir("/");
    let mut child = keeper.spawn().map_err(|e| step(&e))?;
    let message = child.stdout.take().map_or_else(String::new, read_message);
    match serde_json::from_str(&message) {
        Ok(KeeperMessage::Ready(attached)) => Ok(attached),
        Ok(KeeperMessage::Failed(why)) => {
            let _ = child.wait();
            Err(AttachError::KeeperFailed(why))
        }
        Err(_) => {
            let keeper = child_processes::open_process(child.id(), entry.folder());
            let _ = keeper.map(|handle| pidfd_send_signal(handle, Signal::KILL));
            let status = child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
            Err(step(&format_args!("it reported nothing ({status})")))
        }
    }
}

/// Reads a line within the time limit.
fn read_message(mut pipe: ChildStdout) -> String {
    let end = Instant::now() + KEEPER_TIMEOUT;
    let mut line = Vec::new();
    while !line.ends_with(b"\n") && line.len() < MAX_MESSAGE_BYTES {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || child_processes::wait_for_ready(&[(pipe.as_fd(), PollFlags::IN)], Some(left)).is_none() {
            break;
        }
        let mut buffer = [0; 4096];
        match pipe.read(&mut buffer) {
            Ok(count) if count > 0 => line.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            _ => break,
        }
    }
    String::from_utf8_lossy(&line).into_owned()
}
