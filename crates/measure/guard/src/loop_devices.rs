//! Loop devices and their backing files or devices, as their driver reports them. The path in /sys is
//! only the second source: it is from the time when the device was set up, and may lead elsewhere now.

use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use diskwright_counters::live::{Roots, mountinfo};
use rustix::fs::OFlags;
use rustix::ioctl::{Getter, ioctl};

use crate::backing_file::BackingFile;
use crate::mounts::MountTable;
use crate::node::{
    DeviceNumber, FileId, open_block_device, read_first_line, read_number, sorted_names, unpack_device_number,
};

/// A loop device.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    /// Its number.
    pub number: DeviceNumber,
    /// Its name.
    pub name: String,
    /// Offset of its start in the backing file or device, bytes.
    pub offset: u64,
    /// Its size, bytes, if known.
    pub bytes: Option<u64>,
    /// Its backing file or device.
    pub below: LoopBacking,
}

/// Backing of a loop device.
#[derive(Debug)]
pub(crate) enum LoopBacking {
    /// Another block device.
    Device(DeviceNumber),
    /// A file.
    File(BackingFile),
}

/// Response of the driver, `struct loop_info64` of linux/loop.h.
#[repr(C)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `LOOP_GET_STATUS64` of linux/loop.h.
const LOOP_GET_STATUS64: u32 = 0x4c05;
/// Unit of the sizes in /sys: 512 bytes, whatever the device's own sector size.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// Queries the loop driver; `None` if it refuses.
#[allow(unsafe_code, reason = "the loop driver is queried by an ioctl that no crate has as a safe call")]
fn read_status(device: impl AsFd) -> Option<LoopInfo64> {
    // SAFETY: LOOP_GET_STATUS64 writes one loop_info64, whose layout `LoopInfo64` has; all fields are plain integers.
    // A driver of other devices rejects the request number and writes nothing.
    unsafe { ioctl(device, Getter::<LOOP_GET_STATUS64, LoopInfo64>::new()) }.ok()
}

/// Result of querying the driver.
enum LoopStatus {
    Known(Box<LoopInfo64>),
    /// The query is not permitted.
    Denied,
    /// The driver queries the filesystem, whose server does not respond.
    Hangs,
}

/// Time in which the server of a filesystem must respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(300);

/// Returns all loop devices with a backing file or device.
pub(crate) fn read_loop_devices(roots: &Roots, mounts: &MountTable) -> Vec<LoopDevice> {
    let has_backing = |name: &String| roots.resolve_path(&format!("/sys/block/{name}/loop")).exists();
    let loops = sorted_names(&roots.resolve_path("/sys/block"))
        .into_iter()
        .filter(|name| name.starts_with("loop"))
        .filter(has_backing);
    let devices: Vec<LoopSysfs> = loops.filter_map(|name| read_sysfs(roots, name)).collect();
    // queries that may hang run at the same time and share one deadline
    let queries: Vec<Option<Receiver<LoopStatus>>> = devices
        .iter()
        .map(|device| mounts.may_hang(&device.path).then(|| query_driver_in_thread(roots, device.number, &device.name)))
        .collect();
    let deadline = Instant::now() + RESPONSE_TIMEOUT;
    let status_of = |device: &LoopSysfs, query: Option<Receiver<LoopStatus>>| match query {
        None => query_driver(roots, device.number, &device.name),
        Some(query) => {
            query.recv_timeout(deadline.saturating_duration_since(Instant::now())).unwrap_or(LoopStatus::Hangs)
        }
    };
    devices
        .into_iter()
        .zip(queries)
        .map(|(device, query)| (status_of(&device, query), device))
        .map(|(status, device)| device.into_loop_device(roots, mounts, status))
        .collect()
}

fn query_driver(roots: &Roots, number: DeviceNumber, name: &str) -> LoopStatus {
    let status = open_block_device(roots, number, name, OFlags::empty()).and_then(read_status);
    status.map_or(LoopStatus::Denied, |status| LoopStatus::Known(Box::new(status)))
}

/// Stack of the thread, which only asks the driver.
const STACK_BYTES: usize = 256 << 10;

/// Queries the driver in a separate thread, which is abandoned if it hangs.
fn query_driver_in_thread(roots: &Roots, number: DeviceNumber, name: &str) -> Receiver<LoopStatus> {
    let (sender, receiver) = channel();
    let (roots, name) = (roots.clone(), name.to_owned());
    // the receiver is gone if the response comes late
    let query = move || sender.send(query_driver(&roots, number, &name));
    // without a thread the channel is closed, as if the driver had not responded
    let _ = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(query);
    receiver
}

/// What /sys knows about a loop device.
struct LoopSysfs {
    number: DeviceNumber,
    name: String,
    /// Path of the backing file when the device was set up; empty if unknown.
    path: String,
    /// Offset of the device's start in the backing file, bytes.
    offset: u64,
    /// Size of the device, bytes, if known.
    bytes: Option<u64>,
}

fn read_sysfs(roots: &Roots, name: String) -> Option<LoopSysfs> {
    let folder = roots.resolve_path(&format!("/sys/block/{name}"));
    let number = mountinfo::parse_device_number(read_first_line(&folder.join("dev"))?.as_bytes())?;
    let path = read_first_line(&folder.join("loop/backing_file")).unwrap_or_default();
    let offset = read_number(&folder.join("loop/offset")).unwrap_or(0);
    let bytes = read_number(&folder.join("size")).map(|sectors| sectors * SECTOR_BYTES);
    Some(LoopSysfs { number, name, path, offset, bytes })
}

impl LoopSysfs {
    fn into_loop_device(self, roots: &Roots, mounts: &MountTable, status: LoopStatus) -> LoopDevice {
        let LoopSysfs { number, name, path, offset, bytes } = self;
        let min_file_bytes = bytes.map(|bytes| bytes + offset);
        let below = match status {
            LoopStatus::Known(status) if status.rdevice != 0 => {
                LoopBacking::Device(unpack_device_number(status.rdevice))
            }
            LoopStatus::Known(status) => {
                let id = FileId { device: unpack_device_number(status.device), inode: status.inode };
                LoopBacking::File(BackingFile::from_id(roots, mounts, id, path, min_file_bytes))
            }
            LoopStatus::Denied => BackingFile::from_path(roots, mounts, path, min_file_bytes)
                .map_or_else(LoopBacking::Device, LoopBacking::File),
            LoopStatus::Hangs => LoopBacking::File(BackingFile::on_hanging_server(path, min_file_bytes)),
        };
        LoopDevice { number, name, offset, bytes, below }
    }
}
