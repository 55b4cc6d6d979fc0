//! Detaches devices, and removes what killed processes left behind.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use diskwright_counters::live::Roots;
use diskwright_guard::{self as guard, usage};
use rustix::fs::{FileType, OFlags, major, minor};
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};

use super::journal::JournalEntry;
use super::{AttachError, AttachMethod, AttachReport, child_processes, fuse, keeper, kernel_nbd};

/// Time for the keeper process to undo everything, even with a server that hangs.
const UNDO_TIMEOUT: Duration = Duration::from_secs(30);

/// Detaches a device, and returns its report.
///
/// # Errors
/// If `disk attach` did not make the device; if it is in use, unless `force` is set; or the step that could
/// not be undone.
pub fn detach_device(journal: &Path, device: &Path, force: bool) -> Result<AttachReport, AttachError> {
    let devices: Vec<(JournalEntry, AttachReport)> = JournalEntry::list_entries(journal)
        .into_iter()
        .filter_map(|entry| entry.read_report().map(|a| (entry, a)))
        .collect();
    let path = fs::canonicalize(device).unwrap_or_else(|_| device.to_owned());
    let Some((entry, attached)) = devices.iter().find(|(_, a)| Path::new(&a.device) == path) else {
        let names: Vec<&str> = devices.iter().map(|(_, a)| a.device.as_str()).collect();
        let made = if names.is_empty() { String::new() } else { format!(", which made {}", names.join(", ")) };
        return Err(AttachError::NotOurs { device: device.display().to_string(), made });
    };
    give_device_back(entry, attached, force)?;
    Ok(attached.clone())
}

/// Detaches all devices; returns the detached ones, and the errors.
#[must_use]
pub fn detach_all_devices(journal: &Path, force: bool) -> (Vec<AttachReport>, Vec<AttachError>) {
    let (mut detached, mut errors) = (Vec::new(), Vec::new());
    for entry in JournalEntry::list_entries(journal) {
        let attached = entry.read_report();
        let result = match &attached {
            Some(attached) => give_device_back(&entry, attached, force),
            // the attach is in progress and belongs to a live process, or it was abandoned
            None => undo_abandoned(&entry),
        };
        match result {
            Ok(()) => detached.extend(attached),
            Err(error) => errors.push(error),
        }
    }
    (detached, errors)
}

/// Removes the devices of killed keeper processes that nothing uses. Returns a sentence for each device of
/// a killed keeper process.
#[must_use]
pub fn sweep_abandoned(journal: &Path) -> Vec<String> {
    let mut notes = Vec::new();
    for entry in JournalEntry::list_entries(journal) {
        let Ok(Some(_lock)) = entry.lock_if_abandoned() else { continue };
        let name = entry.read_report().map_or("an incomplete attach".to_owned(), |a| a.device);
        let why = device_uses(&entry);
        if !why.is_empty() {
            notes.push(format!("{name} has lost its keeper process and is in use ({})", why.join(", ")));
            continue;
        }
        notes.push(match keeper::undo_attach(&entry, true) {
            Ok(()) => format!("{name} had lost its keeper process and was detached"),
            Err(error) => format!("{name} has lost its keeper process; {error}"),
        });
    }
    notes
}

/// Removes everything that an entry's keeper process made, if that process is dead.
///
/// # Errors
/// The step that could not be undone.
pub fn undo_abandoned(entry: &JournalEntry) -> Result<(), AttachError> {
    match entry.lock_if_abandoned()? {
        Some(_lock) => keeper::undo_attach(entry, true),
        None => Ok(()),
    }
}

/// Releases the device of an entry, ends its keeper process, and waits until everything is undone.
fn give_device_back(entry: &JournalEntry, attached: &AttachReport, force: bool) -> Result<(), AttachError> {
    let has_device = kernel_devices(entry).contains(&attached.device);
    if has_device && !force {
        release_device(entry, attached)?;
    }
    let keeper = child_processes::open_process(attached.pid, entry.folder());
    let _ = keeper.map(|handle| pidfd_send_signal(handle, Signal::TERM));
    let mut undone = Ok(());
    let has_ended = child_processes::wait_until(UNDO_TIMEOUT, || {
        undone = undo_abandoned(entry);
        !entry.folder().exists() || undone.is_err()
    });
    undone?;
    if has_ended {
        Ok(())
    } else {
        Err(AttachError::Slow { step: attached.device.clone(), seconds: UNDO_TIMEOUT.as_secs() })
    }
}

/// Releases the kernel's device if nothing uses it. An exclusive claim keeps others from using it
/// meanwhile.
fn release_device(entry: &JournalEntry, attached: &AttachReport) -> Result<(), AttachError> {
    let device = &attached.device;
    let in_use = |why: Vec<String>| AttachError::InUse { device: device.clone(), why: why.join(", ") };
    let why = device_uses(entry);
    if !why.is_empty() {
        return Err(in_use(why));
    }
    let open = File::open(device).map(OwnedFd::from).map_err(|e| AttachError::step_error(device.clone(), e))?;
    // until this is closed, the device cannot be mounted
    let claim = guard::claim_exclusively(&open, OFlags::RDONLY).map_err(|error| match error {
        Errno::BUSY => in_use(vec!["the kernel refuses exclusive access".to_owned()]),
        error => AttachError::step_error(device.clone(), error),
    })?;
    if !keeper::flush_device(device) {
        return Err(AttachError::Hangs { device: device.clone() });
    }
    match attached.by {
        AttachMethod::Fuse => fuse::detach_loop(device)?,
        AttachMethod::Nbd | AttachMethod::Ublk => kernel_nbd::undo_attach(entry)?,
    }
    drop((claim, open));
    Ok(())
}

/// Returns the kernel's devices of an entry.
fn kernel_devices(entry: &JournalEntry) -> Vec<String> {
    let nbd = kernel_nbd::nbd_devices(entry).into_iter().map(|index| format!("/dev/nbd{index}"));
    fuse::loop_devices(entry).into_iter().chain(nbd).collect()
}

/// Returns the users of an entry's devices.
fn device_uses(entry: &JournalEntry) -> Vec<String> {
    let roots = Roots::default();
    let numbers = kernel_devices(entry).into_iter().filter_map(|device| {
        let status = rustix::fs::stat(&device).ok()?;
        let is_block_device = FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice;
        is_block_device.then(|| (u64::from(major(status.st_rdev)), u64::from(minor(status.st_rdev))))
    });
    numbers.flat_map(|number| usage::device_users(&roots, number)).collect()
}
