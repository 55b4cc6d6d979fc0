//! Processes that have a device or file open, or mapped: by number, whatever the
//! path that they opened. Whether one that only reads counts is the caller's word.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use diskwright_counters::live::Roots;
use rustix::fs::{FileType, Statx};

use crate::devices::{DeviceGraph, StorageNode};
use crate::node::{FileId, look, names};

/// Processes that look at every new device for a moment or watch its health,
/// and are no reason to keep off. They count all the same if they may write.
const WATCHERS: &[&str] = &["(udev-worker)", "systemd-udevd", "udevd", "udisksd", "smartd", "multipathd"];
/// Time between the two looks at who has it open.
const SECOND_LOOK: Duration = Duration::from_millis(300);
/// `O_PATH`: a name, by which nothing is read or written.
const NAME_ONLY: u64 = 0o10_000_000;

/// What is looked for, and whether who only reads it counts.
pub(crate) type NodeFilter = HashMap<StorageNode, bool>;

/// Who uses what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeUser {
    pub node: StorageNode,
    pub process: u32,
    pub name: String,
    pub how: UseMode,
}

/// How it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UseMode {
    Reads,
    Writes,
    Maps,
}

/// A process: number, folder, name.
struct ProcessFolder {
    id: u32,
    folder: PathBuf,
    name: String,
}

/// All processes but this one.
fn others(roots: &Roots) -> impl Iterator<Item = ProcessFolder> + '_ {
    let all = fs::read_dir(&roots.proc).into_iter().flatten().flatten();
    let number = |e: &fs::DirEntry| e.file_name().to_str().and_then(|n| n.parse::<u32>().ok());
    let numbers = all.filter_map(move |e| Some((number(&e)?, e.path()))).filter(|(id, _)| *id != std::process::id());
    numbers.map(|(id, folder)| {
        let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
        ProcessFolder { id, folder, name: name.trim_end().to_owned() }
    })
}

/// Processes that have something open or mapped, as far as we may see. Programs that only
/// looked at it for a moment (losetup, blkid, udev) have gone at the second look.
pub(crate) fn users(machine: &DeviceGraph, wanted: &NodeFilter) -> Vec<NodeUser> {
    let mut found: Vec<(ProcessFolder, Vec<NodeUser>)> = Vec::new();
    for process in others(machine.roots) {
        let users = opens(machine, wanted, &process);
        if !users.is_empty() {
            found.push((process, users));
        }
    }
    let begun = Instant::now();
    while !found.is_empty() && begun.elapsed() < SECOND_LOOK {
        std::thread::park_timeout(SECOND_LOOK.saturating_sub(begun.elapsed()));
    }
    let still = |(process, users): &(ProcessFolder, Vec<NodeUser>)| {
        let now = opens(machine, wanted, process);
        users.iter().filter(|user| now.contains(user)).cloned().collect::<Vec<_>>()
    };
    let mut users: Vec<NodeUser> = found.iter().flat_map(still).collect();
    for user in maps(machine, wanted) {
        if !users.iter().any(|u| (u.node, u.process) == (user.node, user.process)) {
            users.push(user);
        }
    }
    users
}

/// What a process has open of what is wanted, each once.
fn opens(machine: &DeviceGraph, wanted: &NodeFilter, process: &ProcessFolder) -> Vec<NodeUser> {
    let mut users: Vec<NodeUser> = Vec::new();
    for descriptor in names(&process.folder.join("fd")) {
        let link = process.folder.join("fd").join(&descriptor);
        // pipes, sockets and the like have no path
        if !fs::read_link(&link).is_ok_and(|path| path.is_absolute()) {
            continue;
        }
        let info = process.folder.join("fdinfo").join(&descriptor);
        if !machine.mounts.none_remote() && lies_remote(machine, wanted, &info) {
            continue;
        }
        let Some(node) = look(&link).and_then(|found| node(machine, wanted, &link, &found)) else { continue };
        let flags = told(&info, "flags:", 8).unwrap_or(2);
        let how = if flags & 3 == 0 { UseMode::Reads } else { UseMode::Writes };
        let counts = how == UseMode::Writes || (wanted[&node] && !WATCHERS.contains(&process.name.as_str()));
        if flags & NAME_ONLY == 0 && counts {
            match users.iter_mut().find(|user| user.node == node) {
                Some(user) if how == UseMode::Writes => user.how = how,
                Some(_) => {}
                None => users.push(NodeUser { node, process: process.id, name: process.name.clone(), how }),
            }
        }
    }
    users
}

/// A number that /proc tells of an open file.
fn told(info: &Path, name: &str, radix: u32) -> Option<u64> {
    let text = fs::read_to_string(info).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    u64::from_str_radix(value.trim(), radix).ok()
}

/// It lies on a filesystem whose server may be gone, and none of the files that are wanted does:
/// looking at it could wait for ever.
fn lies_remote(machine: &DeviceGraph, wanted: &NodeFilter, info: &Path) -> bool {
    let Some(mount) = told(info, "mnt_id:", 10).filter(|id| machine.mounts.is_remote(*id)) else { return false };
    !wanted.keys().any(|node| match node {
        StorageNode::File(place) => machine.files[*place].id.is_some_and(|id| machine.mounts.has(mount, id.device)),
        StorageNode::Device(_) => false,
    })
}

/// What is wanted that this is.
fn node(machine: &DeviceGraph, wanted: &NodeFilter, link: &Path, found: &Statx) -> Option<StorageNode> {
    let number = |major: u32, minor: u32| (u64::from(major), u64::from(minor));
    match FileType::from_raw_mode(found.stx_mode.into()) {
        FileType::BlockDevice => Some(StorageNode::Device(number(found.stx_rdev_major, found.stx_rdev_minor)))
            .filter(|n| wanted.contains_key(n)),
        FileType::RegularFile => {
            let id = FileId { device: number(found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino };
            let stacked = machine.mounts.may_be_stacked(id.device);
            let is_it = |node: &&StorageNode| match node {
                StorageNode::File(place) => {
                    let file = &machine.files[*place];
                    file.id == Some(id) || ((stacked || file.is_stacked()) && file.is_open_at(link, found))
                }
                StorageNode::Device(_) => false,
            };
            wanted.keys().find(is_it).copied()
        }
        _ => None,
    }
}

/// Programs that run from a file or have it or a device mapped; those hold no descriptor.
/// The table of maps has the number of the whole filesystem, which is not what `stat` tells
/// of a file on btrfs; each file that is mapped anywhere is looked at once.
fn maps(machine: &DeviceGraph, wanted: &NodeFilter) -> Vec<NodeUser> {
    let mut known: HashMap<String, Option<StorageNode>> = HashMap::new();
    let mut users: Vec<NodeUser> = Vec::new();
    for process in others(machine.roots) {
        let Ok(text) = fs::read(process.folder.join("maps")) else { continue };
        let text = String::from_utf8_lossy(&text);
        for line in text.lines() {
            // span, rights, offset; then device, inode and path
            let Some((span, file)) = parts(line) else { continue };
            let node = match known.get(file) {
                Some(node) => *node,
                None => {
                    let link = process.folder.join("map_files").join(span);
                    let node = mapped(machine, wanted, &link, file);
                    known.insert(file.to_owned(), node);
                    node
                }
            };
            let Some(node) = node else { continue };
            if !users.iter().any(|u| (u.node, u.process) == (node, process.id)) {
                users.push(NodeUser { node, process: process.id, name: process.name.clone(), how: UseMode::Maps });
            }
        }
    }
    users
}

/// The span of a mapping, and device, inode and path; `None` where it is of no file.
fn parts(line: &str) -> Option<(&str, &str)> {
    let mut words = line.splitn(4, ' ');
    let (span, file) = (words.next()?, words.nth(2)?);
    (!file.starts_with("00:00 0")).then_some((span, file))
}

/// What is wanted that a mapped file is.
fn mapped(machine: &DeviceGraph, wanted: &NodeFilter, link: &Path, file: &str) -> Option<StorageNode> {
    let mut words = file.split_ascii_whitespace();
    let (device, inode) = (words.next()?, words.next()?.parse::<u64>().ok()?);
    let (major, minor) = device.split_once(':')?;
    let device = (u64::from_str_radix(major, 16).ok()?, u64::from_str_radix(minor, 16).ok()?);
    let of_file = |wanted: &&StorageNode| match wanted {
        StorageNode::File(place) => machine.files[*place].id == Some(FileId { device, inode }),
        StorageNode::Device(_) => false,
    };
    if let Some(node) = wanted.keys().find(of_file) {
        return Some(*node);
    }
    if machine.mounts.device_is_remote(device) {
        return None;
    }
    // needs a privilege; without it the numbers have to do
    look(link).and_then(|found| node(machine, wanted, link, &found))
}
