//! Who holds the memory: the cgroups and the processes with the most of it.

use std::fs;
use std::path::{Path, PathBuf};

use diskwright_base::capture::MemoryHolder;

use super::patient_reader::PatientReader;
use super::{numbered_entries, process_folder, read_text, read_word};

/// Largest number of holders of each kind.
const MAX_HOLDERS: usize = 10;
/// Largest number of processes that are looked at.
const MAX_PROCESSES: usize = 65_536;
/// Largest number of cgroups that are looked at, and their depth.
const MAX_GROUPS: usize = 4096;
const MAX_DEPTH: usize = 8;
/// A limit of version 1 from here on is none.
const NO_LIMIT_BYTES: u64 = 1 << 62;
/// Share of a group that a group in it must hold to stand for it.
const MIN_CHILD_SHARE: f64 = 0.95;

/// Names of a group's files: memory, swapped memory, limit.
struct GroupFiles {
    used: &'static str,
    swapped: Option<&'static str>,
    limit: &'static str,
}

const VERSION_2: GroupFiles =
    GroupFiles { used: "memory.current", swapped: Some("memory.swap.current"), limit: "memory.max" };
const VERSION_1: GroupFiles =
    GroupFiles { used: "memory.usage_in_bytes", swapped: None, limit: "memory.limit_in_bytes" };

/// Reads the processes with the most resident memory.
pub fn read_memory_processes(proc: &Path, page_bytes: u64, reader: &mut PatientReader) -> Vec<MemoryHolder> {
    let root = proc.to_owned();
    let read_all = move || {
        let resident = |pid: u32| {
            let text = read_text(&process_folder(&root, pid).join("statm")).ok()?;
            let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
            (pages > 0).then_some((pages.saturating_mul(page_bytes), pid))
        };
        let mut list: Vec<(u64, u32)> =
            numbered_entries(&root, MAX_PROCESSES).into_iter().filter_map(resident).collect();
        list.sort_unstable_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        list.truncate(MAX_HOLDERS);
        list.into_iter().map(|(bytes, pid)| describe_process(&process_folder(&root, pid), pid, bytes)).collect()
    };
    reader.run(read_all).unwrap_or_default()
}

fn describe_process(folder: &Path, pid: u32, bytes: u64) -> MemoryHolder {
    let status = read_text(&folder.join("status")).unwrap_or_default();
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmSwap:"));
    let swapped = kibibytes.and_then(|text| text.split_ascii_whitespace().next()?.parse::<u64>().ok());
    MemoryHolder {
        name: read_word(&folder.join("comm")),
        pid: Some(pid),
        bytes,
        swapped_bytes: swapped.map(|kibibytes| kibibytes.saturating_mul(1024)),
        limit_bytes: None,
    }
}

/// Reads the cgroups with the most memory; `sys` is the mount point of sysfs. A group of which almost all belongs to
/// one group in it is left out.
pub fn read_memory_groups(sys: &Path, reader: &mut PatientReader) -> Vec<MemoryHolder> {
    let root = sys.join("fs/cgroup");
    reader.run(move || read_groups(&root)).unwrap_or_default()
}

fn read_groups(root: &Path) -> Vec<MemoryHolder> {
    let of_version_1 = root.join("memory");
    let (root, files) = if of_version_1.is_dir() { (of_version_1.as_path(), &VERSION_1) } else { (root, &VERSION_2) };
    let mut pending = vec![(PathBuf::new(), 0)];
    let mut groups: Vec<MemoryHolder> = Vec::new();
    let mut seen = 0;
    while let Some((group, depth)) = pending.pop() {
        seen += 1;
        if seen > MAX_GROUPS {
            break;
        }
        let folder = root.join(&group);
        let number = |name: &str| read_word(&folder.join(name)).parse::<u64>().ok();
        if let Some(bytes) = number(files.used).filter(|_| depth > 0) {
            groups.push(MemoryHolder {
                name: format!("/{}", group.display()),
                pid: None,
                bytes,
                swapped_bytes: files.swapped.and_then(number),
                limit_bytes: number(files.limit).filter(|limit| *limit < NO_LIMIT_BYTES),
            });
        }
        if depth < MAX_DEPTH {
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            pending.extend(folders.map(|entry| (group.join(entry.file_name()), depth + 1)));
        }
    }
    let stands_for = |child: &MemoryHolder, parent: &MemoryHolder| {
        let is_below = child.name.strip_prefix(&parent.name).is_some_and(|rest| rest.starts_with('/'));
        is_below && child.bytes as f64 >= MIN_CHILD_SHARE * parent.bytes as f64
    };
    let is_wanted = |group: &&MemoryHolder| group.bytes > 0 && !groups.iter().any(|child| stands_for(child, group));
    let mut list: Vec<MemoryHolder> = groups.iter().filter(is_wanted).cloned().collect();
    list.sort_by_key(|group| std::cmp::Reverse(group.bytes));
    list.truncate(MAX_HOLDERS);
    list
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::live::fake::FakeMachine;

    #[test]
    fn the_groups_and_processes_with_the_most_memory_come_first() {
        let machine = FakeMachine::new();
        machine
            .put_file("sys/fs/cgroup/memory.stat", "")
            .put_file("sys/fs/cgroup/web/memory.current", "1000000\n")
            .put_file("sys/fs/cgroup/web/memory.max", "max\n")
            .put_file("sys/fs/cgroup/web/one/memory.current", "990000\n")
            .put_file("sys/fs/cgroup/web/one/memory.max", "2000000\n")
            .put_file("sys/fs/cgroup/db/memory.current", "500000\n")
            .put_file("proc/7/statm", "900 30 1 1 0 1 0")
            .put_file("proc/7/comm", "small\n")
            .put_file("proc/8/statm", "900 300 1 1 0 1 0")
            .put_file("proc/8/comm", "la\u{1b}rge\n")
            .put_file("proc/8/status", "Name: x\nVmSwap:\t    8 kB\n")
            .put_file("proc/9/statm", "0 0 0 0 0 0 0");
        let mut reader = PatientReader::new(Duration::from_secs(5));
        let groups = read_memory_groups(&machine.roots().sys, &mut reader);
        let names: Vec<(&str, Option<u64>)> = groups.iter().map(|g| (g.name.as_str(), g.limit_bytes)).collect();
        assert_eq!(names, [("/web/one", Some(2_000_000)), ("/db", None)]);
        let processes = read_memory_processes(&machine.roots().proc, 4096, &mut reader);
        let figures: Vec<_> = processes.iter().map(|p| (p.name.as_str(), p.bytes, p.swapped_bytes)).collect();
        assert_eq!(figures, [("la\u{1b}rge", 300 * 4096, Some(8192)), ("small", 30 * 4096, None)]);
    }
}
