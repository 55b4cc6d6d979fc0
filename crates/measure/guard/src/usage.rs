//! Users of a device or file, one sentence for each: mounts, swap, holders, exports and processes.
//! They may use the target itself, what it stands on, or what stands on it.

use std::fs::{self, File};

use diskwright_counters::live::{Roots, mountinfo};
use rustix::fs::OFlags;

use crate::backing_file::BackingFile;
use crate::claim;
use crate::device_graph::{DeviceGraph, StorageNode};
use crate::exports;
use crate::mounts::MountTable;
use crate::node::{self, DeviceNumber, FileId, block_device_number, read_first_line, sorted_names, sysfs_folder};
use crate::processes::{self, NodeFilter, NodeUser, UseMode};
use crate::swaps;
use crate::walk::{Clause, WalkStep, find_related_nodes, path_clauses};

/// Largest number of processes, or of mount points, that are named.
const MAX_NAMED: usize = 3;

/// Returns the users of a block device.
#[must_use]
pub fn device_users(roots: &Roots, number: DeviceNumber) -> Vec<String> {
    let graph = DeviceGraph::read(roots, MountTable::read(roots), None);
    node_users(&graph, StorageNode::Device(number))
}

/// Returns the users of a regular file that is open for reading.
#[must_use]
pub fn file_users(roots: &Roots, file: &File, name: &str) -> Vec<String> {
    let mounts = MountTable::read(roots);
    let backing = match BackingFile::from_open_file(&mounts, file, name.to_owned()) {
        Ok(backing) => backing,
        Err(error) => return vec![format!("it cannot be examined: {error}")],
    };
    let graph = DeviceGraph::read(roots, mounts, Some(backing));
    let mut found = node_users(&graph, StorageNode::File(0));
    if let Some(pool) = exports::find_imported_pool(roots, file) {
        found.push(format!("it belongs to the ZFS pool {pool}"));
    }
    if found.is_empty() && claim::has_writer(file) {
        found.push("an unknown process has it open for writing".into());
    }
    found
}

/// Returns the numbers and kernel names of the device, which comes first, and of its partitions.
#[must_use]
pub fn with_partitions(roots: &Roots, number: DeviceNumber) -> Vec<(DeviceNumber, String)> {
    let folder = sysfs_folder(roots, number);
    let link = fs::read_link(&folder).unwrap_or_default();
    let name = link.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut devices = vec![(number, name.unwrap_or_else(|| format!("{}:{}", number.0, number.1)))];
    for entry in sorted_names(&folder) {
        let folder = folder.join(&entry);
        let number = || mountinfo::parse_device_number(read_first_line(&folder.join("dev"))?.as_bytes());
        if let Some(number) = folder.join("partition").exists().then(number).flatten() {
            devices.push((number, entry));
        }
    }
    devices
}

/// Returns the users of a node of the graph, as sentences.
pub(crate) fn node_users(graph: &DeviceGraph, target: StorageNode) -> Vec<String> {
    let steps = find_related_nodes(graph, target);
    let facts = UsageFacts::read(graph.roots);
    let wanted: NodeFilter = steps.iter().map(|step| (step.node, !step.is_below)).collect();
    let users = processes::find_users(graph, &wanted);
    let mut sentences: Vec<Vec<Clause>> = Vec::new();
    // the farthest step first, so that a path that begins a longer sentence is not reported again
    for (index, step) in steps.iter().enumerate().rev() {
        let path = path_clauses(&steps, index);
        let mut uses = kernel_uses(graph, &facts, step);
        uses.extend(process_uses(graph, step, &users, index == 0));
        if uses.is_empty() && step.is_below_loop && has_exclusive_user(graph, step.node) {
            uses.push(format!("the kernel does not grant exclusive access to {}", graph.name(step.node)));
        }
        let is_reported = sentences.iter().any(|sentence| sentence.starts_with(&path));
        if uses.is_empty() && step.is_use && !is_reported {
            sentences.push(path);
        } else {
            sentences.extend(uses.into_iter().map(|text| path.iter().cloned().chain([Clause::main(text)]).collect()));
        }
    }
    sentences.sort_by_key(Vec::len);
    sentences.iter().map(|sentence| join_clauses(sentence)).collect()
}

/// Joins clauses into one sentence.
fn join_clauses(clauses: &[Clause]) -> String {
    let mut text = String::new();
    for clause in clauses {
        if !text.is_empty() {
            text.push_str(if clause.is_relative { ", " } else { ", and " });
        }
        text.push_str(&clause.text);
    }
    text
}

/// Facts that are the same for all nodes.
struct UsageFacts {
    /// Paths of swap devices and files.
    swaps: Vec<String>,
    /// Ids of btrfs filesystems, with the names of the devices of each.
    btrfs: Vec<(String, Vec<String>)>,
    /// Exported paths, with the name of the exporter.
    exports: Vec<(String, String)>,
}

impl UsageFacts {
    fn read(roots: &Roots) -> UsageFacts {
        let btrfs = sorted_names(&roots.resolve_path("/sys/fs/btrfs")).into_iter().map(|id| {
            let devices = sorted_names(&roots.resolve_path(&format!("/sys/fs/btrfs/{id}/devices")));
            (id, devices)
        });
        let btrfs = btrfs.filter(|(_, devices)| !devices.is_empty()).collect();
        UsageFacts { swaps: swaps::swap_paths(roots), btrfs, exports: exports::read_exports(roots) }
    }
}

/// Returns the kernel's uses of the node of a step, as sentences.
fn kernel_uses(graph: &DeviceGraph, facts: &UsageFacts, step: &WalkStep) -> Vec<String> {
    let (roots, name) = (graph.roots, graph.name(step.node));
    match step.node {
        StorageNode::Device(number) => {
            let is_device = |path: &str| {
                path.starts_with('/') && exports::path_matches(roots, path, |m| block_device_number(m) == Some(number))
            };
            let mut found = mount_points(graph, number, &name, &is_device);
            found.extend(facts.swaps.iter().any(|path| is_device(path)).then(|| format!("{name} is swap")));
            let device = graph.devices.get(&number);
            found.extend(device.into_iter().flat_map(|d| &d.holders).map(|h| format!("{name} is held by {h}")));
            found.extend(device.is_some_and(|d| d.is_cached).then(|| format!("{name} is a part of a bcache")));
            for (id, _) in facts.btrfs.iter().filter(|(_, devices)| devices.contains(&name)) {
                found.push(format!("{name} is a member of the btrfs {id}"));
            }
            let exports = facts.exports.iter().filter(|(path, _)| is_device(path));
            found.extend(exports.map(|(_, exporter)| format!("{name} is exported by {exporter}")));
            found
        }
        StorageNode::File(index) => {
            let file = &graph.files[index];
            // the target's own name is not repeated
            let name = if step.is_below { name } else { "it".into() };
            let is_file =
                |path: &str| exports::path_matches(roots, path, |m| file.id == Some(FileId::from_metadata(m)));
            let mut found = Vec::new();
            found.extend(facts.swaps.iter().any(|path| is_file(path)).then(|| format!("{name} is swap")));
            let exports = facts.exports.iter().filter(|(path, _)| is_file(path));
            found.extend(exports.map(|(_, exporter)| format!("{name} is exported by {exporter}")));
            // the caller looks for the pool of the target itself
            let can_read = step.is_below && !graph.mounts.may_hang(file.name());
            let pool = || exports::find_imported_pool(roots, &fs::File::open(roots.resolve_path(file.name())).ok()?);
            let pool = can_read.then(pool).flatten();
            found.extend(pool.map(|pool| format!("{name} belongs to the ZFS pool {pool}")));
            found
        }
    }
}

/// Returns the mount points of a device, as sentences. `is_device` returns true for a path that leads to it.
fn mount_points(
    graph: &DeviceGraph,
    number: DeviceNumber,
    name: &str,
    is_device: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let mut points: Vec<&str> = Vec::new();
    let mut sentences = Vec::new();
    for (mount, process) in &graph.mounts.mounts {
        // some filesystems, such as btrfs, show a made-up number, and the device as the source
        let is_mounted =
            mount.device == number || mount.device.0 == 0 && !mount.is_remote() && is_device(&mount.source);
        // several processes may see the same mount point
        if !is_mounted || points.contains(&mount.point.as_str()) {
            continue;
        }
        points.push(&mount.point);
        let seen_by = process.map_or(String::new(), |process| format!(" (as process {process} sees it)"));
        sentences.push(format!("{name} is mounted on {}{seen_by}", mount.point));
    }
    limit_list(sentences, "places more")
}

/// Returns the processes that use a node, as sentences.
fn process_uses(graph: &DeviceGraph, step: &WalkStep, users: &[NodeUser], is_target: bool) -> Vec<String> {
    let object = if is_target { "it".to_owned() } else { graph.name(step.node) };
    let sentence = |user: &NodeUser| {
        let process = format!("process {} ({})", user.process_id, user.name);
        match (user.mode, step.is_below) {
            (UseMode::Maps, _) => format!("{process} runs from {object} or has it mapped"),
            (UseMode::Writes, true) => format!("{process} has {object} open for writing"),
            _ => format!("{process} has {object} open"),
        }
    };
    let (maps, opens): (Vec<&NodeUser>, Vec<&NodeUser>) =
        users.iter().filter(|user| user.node == step.node).partition(|user| user.mode == UseMode::Maps);
    let mut found = limit_list(opens.into_iter().map(sentence).collect(), "processes more");
    found.extend(limit_list(maps.into_iter().map(sentence).collect(), "processes more"));
    found
}

/// Returns whether the kernel reserves a device for a user that no other source shows.
fn has_exclusive_user(graph: &DeviceGraph, node: StorageNode) -> bool {
    let StorageNode::Device(number) = node else { return false };
    let name = graph.name(node);
    // it can be opened, but not exclusively
    node::open_block_device(graph.roots, number, &name, OFlags::empty()).is_some()
        && node::open_block_device(graph.roots, number, &name, OFlags::EXCL).is_none()
}

/// Keeps the first [`MAX_NAMED`] sentences, and adds how many more there are.
fn limit_list(mut sentences: Vec<String>, noun: &str) -> Vec<String> {
    let more = sentences.len().saturating_sub(MAX_NAMED);
    sentences.truncate(MAX_NAMED);
    if more > 0 {
        sentences.push(format!("{more} {noun}"));
    }
    sentences
}
