//! The keeper process of an attached device: makes the device, waits until the server or the export's file is gone or
//! a signal arrives, and undoes everything.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use diskwright_hostfiles::programs;
use rustix::event::PollFlags;
use serde::{Deserialize, Serialize};

use super::export_address::ExportAddress;
use super::journal::{JournalEntry, KeeperTask};
use super::nbd_stream::{self, NbdStream};
use super::{AttachError, AttachMethod, AttachReport, SCHEMA, child_processes, fuse, fuse_file, kernel_nbd};
use crate::nbd::client::NbdClient;
use crate::nbd::wire::TransmissionFlags;

/// Time for written data to reach the server before the device is removed.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Message of the keeper to the process that started it: one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeeperMessage {
    /// The device is ready.
    Ready(AttachReport),
    /// The device could not be made, and nothing of it is left.
    Failed(String),
}

/// Resources held while a device exists.
struct KeeperResources {
    attached: AttachReport,
    /// The process that shows the export as a file.
    file: Option<Child>,
    /// Connections whose end shows that the server is gone.
    server_connections: Vec<NbdClient<NbdStream>>,
}

/// Reason for removing a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DetachReason {
    /// Requested by a signal.
    Requested,
    /// The server, or the export's file, is gone.
    ConnectionLost,
}

/// Makes the device of an entry, reports it, and waits until `stop` can be read, the server is gone
/// or the report cannot be delivered; then undoes everything.
///
/// # Errors
/// The first step that could not be undone. A failure to make the device is reported instead.
pub fn run_keeper(
    entry: &JournalEntry,
    stop: BorrowedFd<'_>,
    report: impl FnOnce(&KeeperMessage) -> bool,
) -> Result<(), AttachError> {
    // detaches from the terminal; setsid fails only if this process already leads a session
    let _ = rustix::process::setsid();
    match make_device(entry) {
        Ok(mut resources) => {
            let delivered = report(&KeeperMessage::Ready(resources.attached.clone()));
            let reason = if delivered { wait_for_end(&resources, stop) } else { DetachReason::Requested };
            if reason == DetachReason::Requested {
                let _ = flush_device(&resources.attached.device);
            }
            let undone = undo_attach(entry, reason == DetachReason::ConnectionLost);
            let _ = resources.file.as_mut().map(|child| child_processes::ends_within(child, FLUSH_TIMEOUT));
            undone
        }
        Err(error) => {
            let undone = undo_attach(entry, true);
            report(&KeeperMessage::Failed(error.to_string()));
            undone
        }
    }
}

fn make_device(entry: &JournalEntry) -> Result<KeeperResources, AttachError> {
    let task = entry.read_task()?;
    let export = ExportAddress::parse(&task.uri).map_err(|e| AttachError::step_error("the journal", e))?;
    let resources = match task.by {
        AttachMethod::Nbd => attach_by_kernel(entry, &task, &export)?,
        AttachMethod::Fuse => attach_by_fuse(entry, &task, &export)?,
        AttachMethod::Ublk => {
            return Err(AttachError::step_error("ublk", "diskwright does not support it"));
        }
    };
    entry.write_report(&resources.attached)?;
    Ok(resources)
}

fn attach_by_kernel(
    entry: &JournalEntry,
    task: &KeeperTask,
    export: &ExportAddress,
) -> Result<KeeperResources, AttachError> {
    let kernel_device = kernel_nbd::make_device(entry, task, export)?;
    let connections = u32::try_from(kernel_device.connections.len()).unwrap_or(u32::MAX);
    let flags = kernel_device.connections.first().map(|c| c.export_info().flags).unwrap_or_default();
    let attached = AttachReport {
        schema: SCHEMA.to_owned(),
        bytes: device_bytes(&kernel_device.device)?,
        device: kernel_device.device,
        by: AttachMethod::Nbd,
        uri: task.uri.clone(),
        read_only: task.read_only || flags.has(TransmissionFlags::READ_ONLY),
        connections,
        in_flight_at_most: connections.saturating_mul(kernel_nbd::MAX_IN_FLIGHT_PER_CONNECTION),
        limits: kernel_nbd::describe_limits(connections),
        pid: std::process::id(),
    };
    Ok(KeeperResources { attached, file: None, server_connections: kernel_device.connections })
}

fn attach_by_fuse(
    entry: &JournalEntry,
    task: &KeeperTask,
    export: &ExportAddress,
) -> Result<KeeperResources, AttachError> {
    let client = nbd_stream::connect_export(export)?;
    let flags = client.export_info().flags;
    // a server without MULTI_CONN may support only one connection
    let _ = client.disconnect();
    let connections = if flags.has(TransmissionFlags::MULTI_CONN) { task.connections } else { 1 };
    let read_only = task.read_only || flags.has(TransmissionFlags::READ_ONLY);
    let file = Some(fuse::mount_file(entry, &KeeperTask { connections, read_only, ..task.clone() })?);
    let device = fuse::attach_loop(entry, read_only, flags.has(TransmissionFlags::TRIM))?;
    let attached = AttachReport {
        schema: SCHEMA.to_owned(),
        bytes: device_bytes(&device)?,
        device,
        by: AttachMethod::Fuse,
        uri: task.uri.clone(),
        read_only,
        connections,
        in_flight_at_most: fuse_file::MAX_IN_FLIGHT.into(),
        limits: fuse::describe_limits(),
        pid: std::process::id(),
    };
    // the file's process exits with the server
    Ok(KeeperResources { attached, file, server_connections: Vec::new() })
}

/// Returns the size of a device, bytes.
fn device_bytes(device: &str) -> Result<u64, AttachError> {
    let name = device.trim_start_matches("/dev/");
    let path = Path::new("/sys/block").join(name).join("size");
    let text = std::fs::read_to_string(&path).map_err(|e| AttachError::step_error(path.display().to_string(), e))?;
    let sectors: u64 = text.trim().parse().map_err(|e| AttachError::step_error(path.display().to_string(), e))?;
    Ok(sectors * 512)
}

/// Waits until there is a reason to remove the device, and returns it.
fn wait_for_end(resources: &KeeperResources, stop: BorrowedFd<'_>) -> DetachReason {
    let file: Option<OwnedFd> = resources.file.as_ref().and_then(|child| child_processes::open_pidfd(child.id()));
    if resources.file.is_some() && file.is_none() {
        return DetachReason::ConnectionLost;
    }
    let mut watched = vec![(stop, PollFlags::IN)];
    watched.extend(file.iter().map(|fd| (fd.as_fd(), PollFlags::IN)));
    // the kernel reads the server's data; only the end of the connection is watched here
    watched.extend(resources.server_connections.iter().map(|c| (c.stream().as_fd(), PollFlags::RDHUP)));
    loop {
        match child_processes::wait_for_ready(&watched, None) {
            Some(0) => return DetachReason::Requested,
            Some(_) => return DetachReason::ConnectionLost,
            // interrupted by a signal that does not stop the keeper
            None => {}
        }
    }
}

/// Writes a device's dirty pages in a separate process, so that a hanging server blocks only that process. Returns
/// false in that case. Data that the server refuses are lost.
#[must_use]
pub fn flush_device(device: &str) -> bool {
    let Some(sync) = programs::find_program("sync") else { return true };
    !matches!(
        child_processes::run_with_limit(programs::command_without_secrets(sync).arg(device), FLUSH_TIMEOUT),
        Err(AttachError::Slow { .. })
    )
}

/// Undoes everything that an entry's process made, and removes the entry.
///
/// # Errors
/// The first step that could not be undone; the entry then remains.
pub fn undo_attach(entry: &JournalEntry, by_force: bool) -> Result<(), AttachError> {
    kernel_nbd::undo_attach(entry)?;
    fuse::undo_attach(entry, by_force)?;
    entry.remove()
}
