//! The process that stays with a device: makes it, waits for the server's end,
//! the end of the export's file or a signal, and undoes everything.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use diskwright_hostfiles::program;
use rustix::event::PollFlags;
use serde::{Deserialize, Serialize};

use super::export::ExportAddress;
use super::journal::{JournalEntry, KeeperTask};
use super::talk::{self, NbdStream};
use super::{AttachError, AttachMethod, AttachReport, SCHEMA, file, fuse, kernel, tools};
use crate::nbd::client::NbdClient;
use crate::nbd::wire::TransmissionFlags;

/// Time for what was written to reach the server before the device goes.
const FLUSHING: Duration = Duration::from_secs(5);

/// What the process that stays tells the one that started it: one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeeperMessage {
    /// The device is ready.
    Ready(AttachReport),
    /// It was not made, and nothing is left of it.
    Failed(String),
}

/// What is held while a device is there.
struct KeeperResources {
    attached: AttachReport,
    /// The process that shows the export as a file.
    file: Option<Child>,
    /// Connections that end with the server.
    witnesses: Vec<NbdClient<NbdStream>>,
}

/// Why a device goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DetachReason {
    /// Somebody asked, by a signal.
    Asked,
    /// The server, or the export's file, is gone.
    Lost,
}

/// Makes the device of an entry, tells so, and stays until `stop` can be read,
/// the server is gone or nobody hears what is told; then undoes everything.
///
/// # Errors
/// With what could not be undone. What could not be made is told instead.
pub fn keep(
    entry: &JournalEntry,
    stop: BorrowedFd<'_>,
    tell: impl FnOnce(&KeeperMessage) -> bool,
) -> Result<(), AttachError> {
    // away from the terminal; where it leads a session already that is as good
    let _ = rustix::process::setsid();
    match make(entry) {
        Ok(mut held) => {
            let heard = tell(&KeeperMessage::Ready(held.attached.clone()));
            let end = if heard { stay(&held, stop) } else { DetachReason::Asked };
            if end == DetachReason::Asked {
                let _ = flush(&held.attached.device);
            }
            let undone = undo(entry, end == DetachReason::Lost);
            let _ = held.file.as_mut().map(|child| tools::ends_within(child, FLUSHING));
            undone
        }
        Err(error) => {
            let undone = undo(entry, true);
            tell(&KeeperMessage::Failed(error.to_string()));
            undone
        }
    }
}

fn make(entry: &JournalEntry) -> Result<KeeperResources, AttachError> {
    let order = entry.order()?;
    let export = ExportAddress::parse(&order.uri).map_err(|e| AttachError::step("the journal", e))?;
    let held = match order.by {
        AttachMethod::Nbd => by_kernel(entry, &order, &export)?,
        AttachMethod::Fuse => by_fuse(entry, &order, &export)?,
        AttachMethod::Ublk => {
            return Err(AttachError::step("ublk", "diskwright does not support it"));
        }
    };
    entry.note(&held.attached)?;
    Ok(held)
}

fn by_kernel(entry: &JournalEntry, order: &KeeperTask, export: &ExportAddress) -> Result<KeeperResources, AttachError> {
    let made = kernel::make(entry, order, export)?;
    let connections = u32::try_from(made.connections.len()).unwrap_or(u32::MAX);
    let flags = made.connections.first().map(|c| c.about().flags).unwrap_or_default();
    let attached = AttachReport {
        schema: SCHEMA.to_owned(),
        bytes: size(&made.device)?,
        device: made.device,
        by: AttachMethod::Nbd,
        uri: order.uri.clone(),
        read_only: order.read_only || flags.has(TransmissionFlags::READ_ONLY),
        connections,
        in_flight_at_most: connections.saturating_mul(kernel::IN_FLIGHT),
        limits: kernel::limits(connections),
        pid: std::process::id(),
    };
    Ok(KeeperResources { attached, file: None, witnesses: made.connections })
}

fn by_fuse(entry: &JournalEntry, order: &KeeperTask, export: &ExportAddress) -> Result<KeeperResources, AttachError> {
    let client = talk::open(export)?;
    let flags = client.about().flags;
    // a server that promises nothing about several connections may serve only one
    let _ = client.disconnect();
    let connections = if flags.has(TransmissionFlags::MULTI_CONN) { order.connections } else { 1 };
    let read_only = order.read_only || flags.has(TransmissionFlags::READ_ONLY);
    let file = Some(fuse::mount(entry, &KeeperTask { connections, read_only, ..order.clone() })?);
    let device = fuse::attach(entry, read_only, flags.has(TransmissionFlags::TRIM))?;
    let attached = AttachReport {
        schema: SCHEMA.to_owned(),
        bytes: size(&device)?,
        device,
        by: AttachMethod::Fuse,
        uri: order.uri.clone(),
        read_only,
        connections,
        in_flight_at_most: file::IN_FLIGHT.into(),
        limits: fuse::limits(),
        pid: std::process::id(),
    };
    // the file's process ends with the server
    Ok(KeeperResources { attached, file, witnesses: Vec::new() })
}

/// Size of a device in bytes.
fn size(device: &str) -> Result<u64, AttachError> {
    let name = device.trim_start_matches("/dev/");
    let path = Path::new("/sys/block").join(name).join("size");
    let text = std::fs::read_to_string(&path).map_err(|e| AttachError::step(path.display().to_string(), e))?;
    let sectors: u64 = text.trim().parse().map_err(|e| AttachError::step(path.display().to_string(), e))?;
    Ok(sectors * 512)
}

/// Waits for the end.
fn stay(held: &KeeperResources, stop: BorrowedFd<'_>) -> DetachReason {
    let file: Option<OwnedFd> = held.file.as_ref().and_then(|child| tools::handle(child.id()));
    if held.file.is_some() && file.is_none() {
        return DetachReason::Lost;
    }
    let mut watched = vec![(stop, PollFlags::IN)];
    watched.extend(file.iter().map(|fd| (fd.as_fd(), PollFlags::IN)));
    // the kernel reads what a server sends; only the end of it is looked for here
    watched.extend(held.witnesses.iter().map(|c| (c.stream().as_fd(), PollFlags::RDHUP)));
    loop {
        match tools::wait(&watched, None) {
            Some(0) => return DetachReason::Asked,
            Some(_) => return DetachReason::Lost,
            // a signal without a stop
            None => {}
        }
    }
}

/// Writes out what the page cache holds of a device, by a process of its own:
/// where the server hangs, that one waits for ever, and not this one. False in
/// that case; what the server refuses is lost either way.
#[must_use]
pub fn flush(device: &str) -> bool {
    let Some(sync) = program::find("sync") else { return true };
    !matches!(tools::run(program::command(sync).arg(device), FLUSHING), Err(AttachError::Slow { .. }))
}

/// Undoes what an entry's process made, and removes the entry.
///
/// # Errors
/// With the first that could not be undone; the entry is left then.
pub fn undo(entry: &JournalEntry, by_force: bool) -> Result<(), AttachError> {
    kernel::undo(entry)?;
    fuse::undo(entry, by_force)?;
    entry.remove()
}
