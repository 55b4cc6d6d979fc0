//! Processes that have a device or file open or mapped, by whatever path: they are found by its
//! number. The caller decides whether a process that only reads counts.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use diskwright_counters::live::Roots;
use rustix::fs::{FileType, Statx};

use crate::device_graph::{DeviceGraph, StorageNode};
use crate::node::{FileId, sorted_names, stat_without_sync};

/// Programs that read every new device for a moment or watch its health. They count as users only if
/// they have it open for writing.
const WATCHERS: &[&str] = &["(udev-worker)", "systemd-udevd", "udevd", "udisksd", "smartd", "multipathd"];
/// Time between the two readings of a process's open files.
const SECOND_LOOK_DELAY: Duration = Duration::from_millis(300);
/// `O_PATH`: a descriptor that can neither read nor write.
const O_PATH_FLAG: u64 = 0o10_000_000;

/// The nodes to look for, and whether processes that only read them count.
pub(crate) type NodeFilter = HashMap<StorageNode, bool>;

/// A process that uses a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeUser {
    pub node: StorageNode,
    pub process_id: u32,
    pub name: String,
    pub mode: UseMode,
}

/// Kind of use.
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

/// Iterates over all processes except this one.
fn other_processes(roots: &Roots) -> impl Iterator<Item = ProcessFolder> + '_ {
    let entries = fs::read_dir(&roots.proc).into_iter().flatten().flatten();
    let number = |e: &fs::DirEntry| e.file_name().to_str().and_then(|n| n.parse::<u32>().ok());
    let processes = entries.filter_map(move |e| Some((number(&e)?, e.path())));
    processes.filter(|(id, _)| *id != std::process::id()).map(|(id, folder)| {
        let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
        ProcessFolder { id, folder, name: name.trim_end().to_owned() }
    })
}

/// Finds the visible processes that have a wanted node open or mapped. Open files are read twice, so
/// that programs that open a device only for a moment (losetup, blkid, udev) do not count.
pub(crate) fn find_users(graph: &DeviceGraph, wanted: &NodeFilter) -> Vec<NodeUser> {
    let mut found: Vec<(ProcessFolder, Vec<NodeUser>)> = Vec::new();
    for process in other_processes(graph.roots) {
        let users = open_nodes(graph, wanted, &process);
        if !users.is_empty() {
            found.push((process, users));
        }
    }
    let start = Instant::now();
    while !found.is_empty() && start.elapsed() < SECOND_LOOK_DELAY {
        std::thread::park_timeout(SECOND_LOOK_DELAY.saturating_sub(start.elapsed()));
    }
    let lasting_users = |(process, users): &(ProcessFolder, Vec<NodeUser>)| {
        let now = open_nodes(graph, wanted, process);
        users.iter().filter(|user| now.contains(user)).cloned().collect::<Vec<_>>()
    };
    let mut users: Vec<NodeUser> = found.iter().flat_map(lasting_users).collect();
    for user in mapped_nodes(graph, wanted) {
        if !users.iter().any(|u| (u.node, u.process_id) == (user.node, user.process_id)) {
            users.push(user);
        }
    }
    users
}

/// Returns the wanted nodes that a process has open, each once.
fn open_nodes(graph: &DeviceGraph, wanted: &NodeFilter, process: &ProcessFolder) -> Vec<NodeUser> {
    let mut users: Vec<NodeUser> = Vec::new();
    for descriptor in sorted_names(&process.folder.join("fd")) {
        let link = process.folder.join("fd").join(&descriptor);
        // pipes and sockets have no absolute path
        if !fs::read_link(&link).is_ok_and(|path| path.is_absolute()) {
            continue;
        }
        let info = process.folder.join("fdinfo").join(&descriptor);
        if !graph.mounts.has_no_remote() && is_unrelated_remote(graph, wanted, &info) {
            continue;
        }
        let Some(node) = stat_without_sync(&link).and_then(|found| match_node(graph, wanted, &link, &found)) else {
            continue;
        };
        // the access mode is in the two lowest bits; unknown flags count as 2, O_RDWR
        let flags = read_info_number(&info, "flags:", 8).unwrap_or(2);
        let mode = if flags & 3 == 0 { UseMode::Reads } else { UseMode::Writes };
        let counts = mode == UseMode::Writes || (wanted[&node] && !WATCHERS.contains(&process.name.as_str()));
        if flags & O_PATH_FLAG == 0 && counts {
            match users.iter_mut().find(|user| user.node == node) {
                Some(user) if mode == UseMode::Writes => user.mode = mode,
                Some(_) => {}
                None => users.push(NodeUser { node, process_id: process.id, name: process.name.clone(), mode }),
            }
        }
    }
    users
}

/// Reads the number after `name` from an open file's `fdinfo`.
fn read_info_number(info: &Path, name: &str, radix: u32) -> Option<u64> {
    let text = fs::read_to_string(info).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    u64::from_str_radix(value.trim(), radix).ok()
}

/// Returns whether an open file is on a filesystem whose server may be gone, and no wanted file is on
/// that mount. Such a file must not be examined, because that could block for ever.
fn is_unrelated_remote(graph: &DeviceGraph, wanted: &NodeFilter, info: &Path) -> bool {
    let Some(mount) = read_info_number(info, "mnt_id:", 10).filter(|id| graph.mounts.is_remote_mount(*id)) else {
        return false;
    };
    !wanted.keys().any(|node| match node {
        StorageNode::File(index) => graph.files[*index].id.is_some_and(|id| graph.mounts.has_mount(mount, id.device)),
        StorageNode::Device(_) => false,
    })
}

/// Returns the wanted node that matches an open file.
fn match_node(graph: &DeviceGraph, wanted: &NodeFilter, link: &Path, found: &Statx) -> Option<StorageNode> {
    let number = |major: u32, minor: u32| (u64::from(major), u64::from(minor));
    match FileType::from_raw_mode(found.stx_mode.into()) {
        FileType::BlockDevice => Some(StorageNode::Device(number(found.stx_rdev_major, found.stx_rdev_minor)))
            .filter(|n| wanted.contains_key(n)),
        FileType::RegularFile => {
            let id = FileId { device: number(found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino };
            let stacked = graph.mounts.may_be_stacked(id.device);
            let is_open_file = |node: &&StorageNode| match node {
                StorageNode::File(index) => {
                    let file = &graph.files[*index];
                    file.id == Some(id) || ((stacked || file.is_stacked()) && file.is_open_at(link, found))
                }
                StorageNode::Device(_) => false,
            };
            wanted.keys().find(is_open_file).copied()
        }
        _ => None,
    }
}

/// Finds processes that run from a wanted file, or have a wanted node mapped; they need no open
/// descriptor for it. `maps` has the device number of the whole filesystem, which on btrfs differs from
/// that of `stat`, so mapped files are also examined themselves, each once.
fn mapped_nodes(graph: &DeviceGraph, wanted: &NodeFilter) -> Vec<NodeUser> {
    let mut known: HashMap<String, Option<StorageNode>> = HashMap::new();
    let mut users: Vec<NodeUser> = Vec::new();
    for process in other_processes(graph.roots) {
        let Ok(text) = fs::read(process.folder.join("maps")) else { continue };
        let text = String::from_utf8_lossy(&text);
        for line in text.lines() {
            // address range, permissions, offset; then device, inode and path
            let Some((addresses, file)) = split_mapping(line) else { continue };
            let node = match known.get(file) {
                Some(node) => *node,
                None => {
                    let link = process.folder.join("map_files").join(addresses);
                    let node = match_mapped_file(graph, wanted, &link, file);
                    known.insert(file.to_owned(), node);
                    node
                }
            };
            let Some(node) = node else { continue };
            if !users.iter().any(|u| (u.node, u.process_id) == (node, process.id)) {
                users.push(NodeUser { node, process_id: process.id, name: process.name.clone(), mode: UseMode::Maps });
            }
        }
    }
    users
}

/// Splits a line of `maps` into the address range, and the text of device, inode and path; `None` if
/// it maps no file.
fn split_mapping(line: &str) -> Option<(&str, &str)> {
    let mut words = line.splitn(4, ' ');
    let (addresses, file) = (words.next()?, words.nth(2)?);
    (!file.starts_with("00:00 0")).then_some((addresses, file))
}

/// Returns the wanted node that matches a mapped file.
fn match_mapped_file(graph: &DeviceGraph, wanted: &NodeFilter, link: &Path, file: &str) -> Option<StorageNode> {
    let mut words = file.split_ascii_whitespace();
    let (device, inode) = (words.next()?, words.next()?.parse::<u64>().ok()?);
    let (major, minor) = device.split_once(':')?;
    let device = (u64::from_str_radix(major, 16).ok()?, u64::from_str_radix(minor, 16).ok()?);
    let has_numbers = |node: &&StorageNode| match node {
        StorageNode::File(index) => graph.files[*index].id == Some(FileId { device, inode }),
        StorageNode::Device(_) => false,
    };
    if let Some(node) = wanted.keys().find(has_numbers) {
        return Some(*node);
    }
    if graph.mounts.device_is_remote(device) {
        return None;
    }
    // without the privilege that this needs, only the numbers are compared
    stat_without_sync(link).and_then(|found| match_node(graph, wanted, link, &found))
}
