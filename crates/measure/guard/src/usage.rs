//! Who uses a device or a file, a sentence each: what is mounted, swapped on, held or
//! handed out of it, of what it stands on and of what stands on it; and processes.

use std::fs::{self, File};

use diskwright_counters::live::{Roots, mountinfo};
use rustix::fs::OFlags;

use crate::claim;
use crate::devices::{DeviceGraph, StorageNode};
use crate::exports;
use crate::file::BackingFile;
use crate::mounts::MountTable;
use crate::node::{self, DeviceNumber, FileId, block_number, line, names, sys};
use crate::processes::{self, NodeFilter, NodeUser, UseMode};
use crate::swaps;
use crate::walk::{WalkStep, clauses, reach};

/// So many processes, or places of a mount, are named.
const MOST_NAMED: usize = 3;

/// Who uses a block device.
#[must_use]
pub fn of_device(roots: &Roots, number: DeviceNumber) -> Vec<String> {
    let machine = DeviceGraph::read(roots, MountTable::read(roots), None);
    of(&machine, StorageNode::Device(number))
}

/// Who uses a regular file that is open for reading.
#[must_use]
pub fn of_file(roots: &Roots, file: &File, name: &str) -> Vec<String> {
    let mounts = MountTable::read(roots);
    let backing = match BackingFile::opened(&mounts, file, name.to_owned()) {
        Ok(backing) => backing,
        Err(error) => return vec![format!("it cannot be examined: {error}")],
    };
    let machine = DeviceGraph::read(roots, mounts, Some(backing));
    let mut found = of(&machine, StorageNode::File(0));
    if let Some(pool) = exports::pool(roots, file) {
        found.push(format!("it belongs to the ZFS pool {pool}"));
    }
    if found.is_empty() && claim::has_writer(file) {
        found.push("an unknown process has it open for writing".into());
    }
    found
}

/// The device and its partitions: numbers and kernel names.
#[must_use]
pub fn with_partitions(roots: &Roots, number: DeviceNumber) -> Vec<(DeviceNumber, String)> {
    let folder = sys(roots, number);
    let link = fs::read_link(&folder).unwrap_or_default();
    let own = link.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut all = vec![(number, own.unwrap_or_else(|| format!("{}:{}", number.0, number.1)))];
    for entry in names(&folder) {
        let folder = folder.join(&entry);
        let number = || mountinfo::device_number(line(&folder.join("dev"))?.as_bytes());
        if let Some(number) = folder.join("partition").exists().then(number).flatten() {
            all.push((number, entry));
        }
    }
    all
}

/// Who uses a node of a machine.
pub(crate) fn of(machine: &DeviceGraph, target: StorageNode) -> Vec<String> {
    let steps = reach(machine, target);
    let facts = UsageFacts::read(machine.roots);
    let wanted: NodeFilter = steps.iter().map(|step| (step.node, !step.is_below)).collect();
    let users = processes::users(machine, &wanted);
    let mut sentences: Vec<Vec<String>> = Vec::new();
    // the furthest first, so that a way is not told again that a longer sentence tells
    for (index, step) in steps.iter().enumerate().rev() {
        let way = clauses(&steps, index);
        let mut uses = of_node(machine, &facts, step);
        uses.extend(of_processes(machine, step, &users, index == 0));
        if uses.is_empty() && step.below_loop && has_exclusive_user(machine, step.node) {
            uses.push(format!("the kernel does not grant exclusive access to {}", machine.name(step.node)));
        }
        let told = sentences.iter().any(|sentence| sentence.starts_with(&way));
        if uses.is_empty() && step.is_use && !told {
            sentences.push(way);
        } else {
            sentences.extend(uses.into_iter().map(|a_use| way.iter().cloned().chain([a_use]).collect()));
        }
    }
    let order = |sentence: &Vec<String>| sentence.len();
    sentences.sort_by_key(order);
    sentences.iter().map(|sentence| join(sentence)).collect()
}

/// Clauses as one sentence.
fn join(clauses: &[String]) -> String {
    let mut text = String::new();
    for clause in clauses {
        let between = match (text.is_empty(), clause.starts_with("which ")) {
            (true, _) => "",
            (false, true) => ", ",
            (false, false) => ", and ",
        };
        text = text + between + clause;
    }
    text
}

/// What is the same for all nodes.
struct UsageFacts {
    swaps: Vec<String>,
    /// Names of filesystems, and of the devices of each.
    btrfs: Vec<(String, Vec<String>)>,
    exports: Vec<(String, String)>,
}

impl UsageFacts {
    fn read(roots: &Roots) -> UsageFacts {
        let btrfs = names(&roots.at("/sys/fs/btrfs")).into_iter().map(|id| {
            let devices = names(&roots.at(&format!("/sys/fs/btrfs/{id}/devices")));
            (id, devices)
        });
        let btrfs = btrfs.filter(|(_, devices)| !devices.is_empty()).collect();
        UsageFacts { swaps: swaps::paths(roots), btrfs, exports: exports::all(roots) }
    }
}

/// What the kernel does with a device or file of the way.
fn of_node(machine: &DeviceGraph, facts: &UsageFacts, step: &WalkStep) -> Vec<String> {
    let (roots, name) = (machine.roots, machine.name(step.node));
    match step.node {
        StorageNode::Device(number) => {
            let is_it = |path: &str| {
                path.starts_with('/') && exports::leads_to(roots, path, |m| block_number(m) == Some(number))
            };
            let mut found = mounted(machine, number, &name, &is_it);
            found.extend(facts.swaps.iter().any(|path| is_it(path)).then(|| format!("{name} is swap")));
            let device = machine.devices.get(&number);
            found.extend(device.into_iter().flat_map(|d| &d.holders).map(|h| format!("{name} is held by {h}")));
            found.extend(device.is_some_and(|d| d.is_cached).then(|| format!("{name} is a part of a bcache")));
            for (id, _) in facts.btrfs.iter().filter(|(_, devices)| devices.contains(&name)) {
                found.push(format!("{name} is a member of the btrfs {id}"));
            }
            let out = facts.exports.iter().filter(|(path, _)| is_it(path));
            found.extend(out.map(|(_, what)| format!("{name} is exported by {what}")));
            found
        }
        StorageNode::File(place) => {
            let file = &machine.files[place];
            // the target's own name is not told again
            let name = if step.is_below { name } else { "it".into() };
            let is_it = |path: &str| exports::leads_to(roots, path, |m| file.id == Some(FileId::of(m)));
            let mut found = Vec::new();
            found.extend(facts.swaps.iter().any(|path| is_it(path)).then(|| format!("{name} is swap")));
            let out = facts.exports.iter().filter(|(path, _)| is_it(path));
            found.extend(out.map(|(_, what)| format!("{name} is exported by {what}")));
            let pool = || exports::pool(roots, &fs::File::open(roots.at(file.name())).ok()?);
            let looks = step.is_below && !machine.mounts.may_hang(file.name());
            let pool = looks.then(pool).flatten();
            found.extend(pool.map(|pool| format!("{name} belongs to the ZFS pool {pool}")));
            found
        }
    }
}

/// Where a device is mounted.
fn mounted(machine: &DeviceGraph, number: DeviceNumber, name: &str, is_it: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut points: Vec<String> = Vec::new();
    for (mount, process) in &machine.mounts.all {
        // btrfs and the like show a made-up number, and the device as the source
        let of_it = mount.device == number || mount.device.0 == 0 && !mount.is_remote() && is_it(&mount.source);
        let place = match process {
            Some(process) => format!("{} (as process {process} sees it)", mount.point),
            None => mount.point.clone(),
        };
        let known = points.iter().any(|point| point.split(" (as").next() == Some(&mount.point));
        if of_it && !known {
            points.push(place);
        }
    }
    few(points.into_iter().map(|point| format!("{name} is mounted on {point}")).collect(), "places more")
}

/// Processes that use a step.
fn of_processes(machine: &DeviceGraph, step: &WalkStep, users: &[NodeUser], is_target: bool) -> Vec<String> {
    let object = if is_target { "it".to_owned() } else { machine.name(step.node) };
    let say = |user: &NodeUser| {
        let who = format!("process {} ({})", user.process, user.name);
        match (user.how, step.is_below) {
            (UseMode::Maps, _) => format!("{who} runs from {object} or has it mapped"),
            (UseMode::Writes, true) => format!("{who} has {object} open for writing"),
            _ => format!("{who} has {object} open"),
        }
    };
    let (maps, opens): (Vec<&NodeUser>, Vec<&NodeUser>) =
        users.iter().filter(|user| user.node == step.node).partition(|user| user.how == UseMode::Maps);
    let mut found = few(opens.into_iter().map(say).collect(), "processes more");
    found.extend(few(maps.into_iter().map(say).collect(), "processes more"));
    found
}

/// The kernel keeps a device for somebody of whom nothing else tells.
fn has_exclusive_user(machine: &DeviceGraph, node: StorageNode) -> bool {
    let StorageNode::Device(number) = node else { return false };
    let name = machine.name(node);
    // opened at all, and not exclusively
    node::open(machine.roots, number, &name, OFlags::empty()).is_some()
        && node::open(machine.roots, number, &name, OFlags::EXCL).is_none()
}

fn few(mut found: Vec<String>, what: &str) -> Vec<String> {
    let more = found.len().saturating_sub(MOST_NAMED);
    found.truncate(MOST_NAMED);
    if more > 0 {
        found.push(format!("{more} {what}"));
    }
    found
}
