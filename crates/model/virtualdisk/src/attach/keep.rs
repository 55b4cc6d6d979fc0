//! The keeper process of a device: makes it, waits for the server's end, the end of the export's
//! file or a signal, and undoes everything.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use diskwright_hostfiles::programs;
use rustix::event::PollFlags;
use serde::{Deserialize, Serialize};

use super::export::ExportAddress;
use super::journal::{JournalEntry, KeeperTask};
use super::talk::{self, NbdStream};
use super::{AttachError, AttachMethod, AttachReport, SCHEMA, file, fuse, kernel, tools};
use crate::nbd::client::NbdClient;
use crate::nbd::wire::TransmissionFlags;

/// Time for written data to reach the server before the device is removed.
const FLUSHING: Duration = Duration::from_secs(5);

/// Message of the keeper to the process that started it: one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeeperMessage {
    /// The device is ready.
    Ready(AttachReport),
    /// It could not be made, and nothing of it is left.
    Failed(String),
}

/// Resources held while a device exists.
struct KeeperResources {
    attached: AttachReport,
    /// The process that shows the export as a file.
    file: Option<Child>,
    /// Connections that end with the server.
    witnesses: Vec<NbdClient<NbdStream>>,
}

/// Reason for removing a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DetachReason {
    /// Requested by a signal.
    Asked,
    /// The server, or the export's file, is gone.
    Lost,
}

/// Makes the device of an entry, reports it, and stays until `stop` can be read, the server is gone
/// or the report cannot be delivered; then undoes everything.
///
/// # Errors
/// With what could not be undone. A failure to make the device is reported instead.
pub fn keep(
    entry: &JournalEntry,
    stop: BorrowedFd<'_>,
    report: impl FnOnce(&KeeperMessage) -> bool,
) -> Result<(), AttachError> {
    // detaches from the terminal; if it already leads a session, that is as good
    let _ = rustix::process::setsid();
    match make(entry) {
        Ok(mut resources) => {
            let delivered = report(&KeeperMessage::Ready(resources.attached.clone()));
            let end = if delivered { stay(&resources, stop) } else { DetachReason::Asked };
            if end == DetachReason::Asked {
                let _ = flush(&resources.attached.device);
            }
            let undone = undo(entry, end == DetachReason::Lost);
            let _ = resources.file.as_mut().map(|child| tools::ends_within(child, FLUSHING));
            undone
        }
        Err(error) => {
            let undone = undo(entry, true);
            report(&KeeperMessage::Failed(error.to_string()));
            undone
        }
    }
}

fn make(entry: &JournalEntry) -> Result<KeeperResources, AttachError> {
    let task = entry.order()?;
    let export = ExportAddress::parse(&task.uri).map_err(|e| AttachError::step("the journal", e))?;
    let resources = match task.by {
        AttachMethod::Nbd => by_kernel(entry, &task, &export)?,
        AttachMethod::Fuse => by_fuse(entry, &task, &export)?,
        AttachMethod::Ublk => {
            return Err(AttachError::step("ublk", "diskwright does not support it"));
        }
    };
    entry.note(&resources.attached)?;
    Ok(resources)
}

fn by_kernel(entry: &JournalEntry, task: &KeeperTask, export: &ExportAddress) -> Result<KeeperResources, AttachError> {
    let made = kernel::make(entry, task, export)?;
    let connections = u32::try_from(made.connections.len()).unwrap_or(u32::MAX);
    let flags = made.connections.first().map(|c| c.about().flags).unwrap_or_default();
    let attached = AttachReport {
        schema: SCHEMA.to_owned(),
        bytes: size(&made.device)?,
        device: made.device,
        by: AttachMethod::Nbd,
        uri: task.uri.clone(),
        read_only: task.read_only || flags.has(TransmissionFlags::READ_ONLY),
        connections,
        in_flight_at_most: connections.saturating_mul(kernel::IN_FLIGHT),
        limits: kernel::limits(connections),
        pid: std::process::id(),
    };
    Ok(KeeperResources { attached, file: None, witnesses: made.connections })
}

fn by_fuse(entry: &JournalEntry, task: &KeeperTask, export: &ExportAddress) -> Result<KeeperResources, AttachError> {
    let client = talk::open(export)?;
    let flags = client.about().flags;
    // a server without MULTI_CONN may support only one connection
    let _ = client.disconnect();
    let connections = if flags.has(TransmissionFlags::MULTI_CONN) { task.connections } else { 1 };
    let read_only = task.read_only || flags.has(TransmissionFlags::READ_ONLY);
    let file = Some(fuse::mount(entry, &KeeperTask { connections, read_only, ..task.clone() })?);
    let device = fuse::attach(entry, read_only, flags.has(TransmissionFlags::TRIM))?;
    let attached = AttachReport {
        schema: SCHEMA.to_owned(),
        bytes: size(&device)?,
        device,
        by: AttachMethod::Fuse,
        uri: task.uri.clone(),
        read_only,
        connections,
        in_flight_at_most: file::IN_FLIGHT.into(),
        limits: fuse::limits(),
        pid: std::process::id(),
    };
    // the file's process exits with the server
    Ok(KeeperResources { attached, file, witnesses: Vec::new() })
}

/// Returns the size of a device, bytes.
fn size(device: &str) -> Result<u64, AttachError> {
    let name = device.trim_start_matches("/dev/");
    let path = Path::new("/sys/block").join(name).join("size");
    let text = std::fs::read_to_string(&path).map_err(|e| AttachError::step(path.display().to_string(), e))?;
    let sectors: u64 = text.trim().parse().map_err(|e| AttachError::step(path.display().to_string(), e))?;
    Ok(sectors * 512)
}

/// Waits for the reason to remove the device.
fn stay(resources: &KeeperResources, stop: BorrowedFd<'_>) -> DetachReason {
    let file: Option<OwnedFd> = resources.file.as_ref().and_then(|child| tools::handle(child.id()));
    if resources.file.is_some() && file.is_none() {
        return DetachReason::Lost;
    }
    let mut watched = vec![(stop, PollFlags::IN)];
    watched.extend(file.iter().map(|fd| (fd.as_fd(), PollFlags::IN)));
    // the kernel reads the server's data; only the end of the connection is watched here
    watched.extend(resources.witnesses.iter().map(|c| (c.stream().as_fd(), PollFlags::RDHUP)));
    loop {
        match tools::wait(&watched, None) {
            Some(0) => return DetachReason::Asked,
            Some(_) => return DetachReason::Lost,
            // a signal that does not stop
            None => {}
        }
    }
}

/// Writes a device's dirty pages, in a separate process: if the server hangs, that process waits
/// for ever, and not this one. Returns false in that case; data that the server refuses are lost
/// either way.
#[must_use]
pub fn flush(device: &str) -> bool {
    let Some(sync) = programs::find_program("sync") else { return true };
    !matches!(tools::run(programs::command_without_secrets(sync).arg(device), FLUSHING), Err(AttachError::Slow { .. }))
}

/// Undoes everything that an entry's process made, and removes the entry.
///
/// # Errors
/// With the first step that could not be undone; the entry then remains.
pub fn undo(entry: &JournalEntry, by_force: bool) -> Result<(), AttachError> {
    kernel::undo(entry)?;
    fuse::undo(entry, by_force)?;
    entry.remove()
}
