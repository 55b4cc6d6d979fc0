//! What loop devices stand on, as their driver says it: the path that /sys shows
//! is that of the moment when the device was made, and may lead elsewhere by now.

use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use diskwright_counters::live::{Roots, mountinfo};
use rustix::fs::OFlags;
use rustix::ioctl::{Getter, ioctl};

use crate::file::BackingFile;
use crate::mounts::MountTable;
use crate::node::{DeviceNumber, FileId, line, names, open, unpack, value};

/// A loop device.
#[derive(Debug)]
pub(crate) struct Loop {
    /// Its number.
    pub number: DeviceNumber,
    /// Its name.
    pub name: String,
    /// It begins so many bytes into what it stands on.
    pub offset: u64,
    /// Its size, bytes, where it is known.
    pub bytes: Option<u64>,
    /// What it stands on.
    pub below: LoopBacking,
}

/// What a loop device stands on.
#[derive(Debug)]
pub(crate) enum LoopBacking {
    /// Another block device.
    Device(DeviceNumber),
    /// A file.
    File(BackingFile),
}

/// The driver's answer, `struct loop_info64` of linux/loop.h.
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
const GET_STATUS: u32 = 0x4c05;
/// Sizes in /sys are in these units, bytes.
pub(crate) const SECTOR: u64 = 512;

#[allow(unsafe_code, reason = "the loop driver is asked by an ioctl that no crate has as a safe call")]
fn status(device: impl AsFd) -> Option<LoopInfo64> {
    // SAFETY: LOOP_GET_STATUS64 writes one loop_info64, which `LoopInfo64` lays out; all of it are plain integers.
    // A device of another driver does not know the number and writes nothing.
    unsafe { ioctl(device, Getter::<GET_STATUS, LoopInfo64>::new()) }.ok()
}

/// What asking the driver came to.
enum LoopStatus {
    Told(Box<LoopInfo64>),
    /// We may not ask.
    Denied,
    /// The driver asks the filesystem, and that one's server hangs.
    Hangs,
}

/// Time for the filesystem behind a server to answer.
const PATIENCE: Duration = Duration::from_millis(300);

/// All loop devices that stand on something.
pub(crate) fn all(roots: &Roots, mounts: &MountTable) -> Vec<Loop> {
    let bound = |name: &String| roots.at(&format!("/sys/block/{name}/loop")).exists();
    let loops = names(&roots.at("/sys/block")).into_iter().filter(|name| name.starts_with("loop")).filter(bound);
    let shown: Vec<LoopSysfs> = loops.filter_map(|name| shown(roots, name)).collect();
    // those that may hang are asked all at once, and none is waited for longer than the others
    let asked: Vec<Option<Receiver<LoopStatus>>> = shown
        .iter()
        .map(|device| mounts.may_hang(&device.path).then(|| ask_aside(roots, device.number, &device.name)))
        .collect();
    let end = Instant::now() + PATIENCE;
    let answer = |device: &LoopSysfs, asked: Option<Receiver<LoopStatus>>| match asked {
        None => ask(roots, device.number, &device.name),
        Some(asked) => asked.recv_timeout(end.saturating_duration_since(Instant::now())).unwrap_or(LoopStatus::Hangs),
    };
    shown
        .into_iter()
        .zip(asked)
        .map(|(device, asked)| (answer(&device, asked), device))
        .map(|(answer, device)| device.with(roots, mounts, answer))
        .collect()
}

fn ask(roots: &Roots, number: DeviceNumber, name: &str) -> LoopStatus {
    let told = open(roots, number, name, OFlags::empty()).and_then(status);
    told.map_or(LoopStatus::Denied, |told| LoopStatus::Told(Box::new(told)))
}

/// Asks in a thread of its own, which is left to itself where it hangs.
fn ask_aside(roots: &Roots, number: DeviceNumber, name: &str) -> Receiver<LoopStatus> {
    let (tell, asked) = channel();
    let (roots, name) = (roots.clone(), name.to_owned());
    // nobody listens any more to an answer that comes late
    std::thread::spawn(move || tell.send(ask(&roots, number, &name)));
    asked
}

/// What /sys shows of a loop device.
struct LoopSysfs {
    number: DeviceNumber,
    name: String,
    path: String,
    offset: u64,
    bytes: Option<u64>,
}

fn shown(roots: &Roots, name: String) -> Option<LoopSysfs> {
    let folder = roots.at(&format!("/sys/block/{name}"));
    let number = mountinfo::device_number(line(&folder.join("dev"))?.as_bytes())?;
    let path = line(&folder.join("loop/backing_file")).unwrap_or_default();
    let offset = value(&folder.join("loop/offset")).unwrap_or(0);
    let bytes = value(&folder.join("size")).map(|sectors| sectors * SECTOR);
    Some(LoopSysfs { number, name, path, offset, bytes })
}

impl LoopSysfs {
    fn with(self, roots: &Roots, mounts: &MountTable, answer: LoopStatus) -> Loop {
        let LoopSysfs { number, name, path, offset, bytes } = self;
        let needs = bytes.map(|bytes| bytes + offset);
        let below = match answer {
            LoopStatus::Told(status) if status.rdevice != 0 => LoopBacking::Device(unpack(status.rdevice)),
            LoopStatus::Told(status) => {
                let id = FileId { device: unpack(status.device), inode: status.inode };
                LoopBacking::File(BackingFile::known(roots, mounts, id, path, needs))
            }
            LoopStatus::Denied => {
                BackingFile::shown(roots, mounts, path, needs).map_or_else(LoopBacking::Device, LoopBacking::File)
            }
            LoopStatus::Hangs => LoopBacking::File(BackingFile::hanging(path, needs)),
        };
        Loop { number, name, offset, bytes, below }
    }
}
