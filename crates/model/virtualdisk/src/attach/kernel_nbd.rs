//! Attach method of the kernel's own NBD client (module `nbd`), by [`netlink`](super::netlink).

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use diskwright_hostfiles::programs;

use super::AttachError;
use super::child_processes::{self, run_with_limit};
use super::export_address::ExportAddress;
use super::journal::{JournalEntry, KeeperTask};
use super::nbd_stream::{self, NbdStream};
use super::netlink::{NbdDevice, NetlinkConnection};
use crate::nbd::client::NbdClient;
use crate::nbd::wire::TransmissionFlags;

/// Default number of connections. With several, the kernel would drop one that does not respond for 30 s;
/// but a disk that hangs should hang.
pub const DEFAULT_CONNECTIONS: u32 = 1;
/// Largest number of requests in flight on one connection (`queue_depth` in drivers/block/nbd.c).
pub const MAX_IN_FLIGHT_PER_CONNECTION: u32 = 128;
/// Size of a logical block, bytes.
const BLOCK_BYTES: u64 = 512;
const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// Describes the differences from a local disk.
#[must_use]
pub fn describe_limits(connections: u32) -> Vec<String> {
    let mut limits = vec![
        format!("at most {MAX_IN_FLIGHT_PER_CONNECTION} requests are in flight on each connection"),
        "do not swap to it: when memory is short, the network may wait for memory too".to_owned(),
    ];
    if connections > 1 {
        limits.push("a connection that does not reply for 30 s is dropped, and its requests go to another".to_owned());
    }
    limits
}

/// Connects to the kernel's client, and loads its module if possible.
///
/// # Errors
/// The reason why there is none.
pub fn open_netlink() -> Result<NetlinkConnection, String> {
    let why = match NetlinkConnection::open() {
        Ok(netlink) => return Ok(netlink),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "this kernel has no NBD client (module nbd)",
        Err(error) => return Err(format!("the kernel's NBD client does not respond: {error}")),
    };
    let modprobe =
        programs::find_program("modprobe").ok_or(format!("{why}, and modprobe is not installed (Debian: kmod)"))?;
    run_with_limit(programs::command_without_secrets(modprobe).arg("nbd"), STEP_TIMEOUT)
        .map_err(|e| format!("{why}; {e}"))?;
    NetlinkConnection::open().map_err(|e| format!("{why}, even with the module loaded: {e}"))
}

/// A device of the kernel's NBD client.
#[derive(Debug)]
pub struct KernelDevice {
    /// Its name, `/dev/nbd0`.
    pub device: String,
    /// Its connections, whose end shows that the server is gone.
    pub connections: Vec<NbdClient<NbdStream>>,
}

/// Makes the device.
///
/// # Errors
/// The step that failed; [`undo_attach`] must undo the steps before it.
pub fn make_device(
    entry: &JournalEntry,
    task: &KeeperTask,
    export: &ExportAddress,
) -> Result<KernelDevice, AttachError> {
    let netlink = open_netlink().map_err(|why| AttachError::step_error("the kernel's NBD client", why))?;
    let mut connections = vec![nbd_stream::connect_export(export)?];
    let info = connections.first().map(|c| c.export_info().clone());
    let info = info.ok_or_else(|| AttachError::step_error("the kernel's NBD client", "no connection"))?;
    if info.flags.has(TransmissionFlags::MULTI_CONN) {
        for _ in 1..task.connections {
            connections.push(nbd_stream::connect_export(export)?);
        }
    }
    let read_only = if task.read_only { TransmissionFlags::READ_ONLY } else { TransmissionFlags(0) };
    let sockets: Vec<BorrowedFd<'_>> = connections.iter().map(|c| c.stream().as_fd()).collect();
    let block = BLOCK_BYTES.max(u64::from(info.min_block_bytes));
    let device_config = NbdDevice {
        sockets: &sockets,
        bytes: info.bytes / block * block,
        block_bytes: block,
        flags: info.flags.with(read_only).0,
        backend: &backend_name(entry),
    };
    let index =
        netlink.connect_device(&device_config).map_err(|e| AttachError::step_error("the kernel's NBD client", e))?;
    let device = format!("/dev/nbd{index}");
    // udev or devtmpfs creates the node of a new device
    if !child_processes::wait_until(STEP_TIMEOUT, || fs::metadata(&device).is_ok()) {
        return Err(AttachError::step_error(device, "its node in /dev was not created"));
    }
    Ok(KernelDevice { device, connections })
}

fn backend_name(entry: &JournalEntry) -> String {
    entry.folder().display().to_string()
}

/// Returns the numbers N of the devices nbdN that this entry's process made.
#[must_use]
pub fn nbd_devices(entry: &JournalEntry) -> Vec<u32> {
    let names = fs::read_dir("/sys/block").into_iter().flatten().flatten().map(|e| e.file_name());
    let ours = |index: &u32| {
        let folder = Path::new("/sys/block").join(format!("nbd{index}"));
        fs::read_to_string(folder.join("backend")).is_ok_and(|text| text.trim_end() == backend_name(entry))
    };
    names.filter_map(|name| name.to_str()?.strip_prefix("nbd")?.parse().ok()).filter(ours).collect()
}

/// Disconnects all devices of an entry.
///
/// # Errors
/// The step that failed.
pub fn undo_attach(entry: &JournalEntry) -> Result<(), AttachError> {
    let devices = nbd_devices(entry);
    if devices.is_empty() {
        return Ok(());
    }
    let netlink = open_netlink().map_err(|why| AttachError::step_error("the kernel's NBD client", why))?;
    for index in devices {
        netlink.disconnect_device(index).map_err(|e| AttachError::step_error(format!("nbd{index}"), e))?;
    }
    Ok(())
}
