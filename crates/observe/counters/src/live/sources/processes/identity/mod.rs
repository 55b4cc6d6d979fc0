//! Who a listed process is: command line, user, and where it runs. Read only of processes that a table lists; what is
//! known stays for the process's life, and a command line, which some servers change, is read again at slow ticks.

mod container_names;
mod users;

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use diskwright_base::command_line::masked_command_line;
use diskwright_base::process_place::{CgroupPlace, place_of_cgroup};
use diskwright_base::{ProcessPlace, ProcessRow};

use crate::live::Roots;
use crate::live::text_scan::{parse_number, text_lines};
use crate::live::watched_read::watch_read;

use container_names::{ContainerNames, task_of_cgroup};
use users::UserNames;

/// Largest part of a command line that is read, bytes.
const MAX_READ_BYTES: u64 = 16_384;
/// Largest number of processes that are remembered.
const MAX_KNOWN: usize = 2048;
/// Largest number of cgroups that are remembered.
const MAX_PLACES: usize = 1024;

/// What is known of processes and cgroups.
#[derive(Debug, Default)]
pub(super) struct Identities {
    /// By process and start.
    known: HashMap<(u32, u64), KnownProcess>,
    /// By the content of the process's `cgroup`.
    places: HashMap<Vec<u8>, ProcessPlace>,
    users: UserNames,
    containers: ContainerNames,
}

#[derive(Clone, Debug, Default)]
struct KnownProcess {
    command_line: Option<String>,
    user: Option<String>,
    /// Machine that its command line names.
    machine: Option<String>,
}

/// A listed process, and what was read of it already.
pub(super) struct ListedProcess<'a> {
    pub folder: &'a Path,
    pub start_ticks: u64,
    pub is_kernel_thread: bool,
    /// Content of its `cgroup` and its `status`.
    pub cgroup: &'a [u8],
    pub status: &'a [u8],
}

impl Identities {
    /// Adds user, command line and place to a row. Only a slow tick reads a known command line again, or a new place.
    pub fn add_to(&mut self, row: &mut ProcessRow, roots: &Roots, process: &ListedProcess<'_>, is_slow_tick: bool) {
        let place = self.find_place(roots, process.cgroup, is_slow_tick);
        let key = (row.pid, process.start_ticks);
        let known = self.known.get(&key);
        if known.is_none() || is_slow_tick && !process.is_kernel_thread {
            let is_contained = place.as_ref().is_some_and(|place| place.container.is_some());
            let user = match known.and_then(|known| known.user.clone()) {
                Some(user) => Some(user),
                None => self.users.name_of(roots, effective_user(process.status), is_contained),
            };
            let arguments = if process.is_kernel_thread { Vec::new() } else { read_arguments(process.folder) };
            let machine = machine_of_command(&arguments);
            let command_line = Some(masked_command_line(&arguments)).filter(|line| !line.is_empty());
            if self.known.len() >= MAX_KNOWN {
                self.known.clear();
            }
            self.known.insert(key, KnownProcess { command_line, user, machine });
        }
        let Some(known) = self.known.get(&key) else { return };
        row.user.clone_from(&known.user);
        row.command_line.clone_from(&known.command_line);
        let mut place = place.unwrap_or_default();
        if known.machine.is_some() {
            place.machine.clone_from(&known.machine);
        }
        row.place = (place != ProcessPlace::default()).then(|| Box::new(place));
    }

    /// The place of a cgroup, with the names that state folders have.
    fn find_place(&mut self, roots: &Roots, cgroup: &[u8], is_slow_tick: bool) -> Option<ProcessPlace> {
        if let Some(known) = self.places.get(cgroup) {
            return Some(known.clone());
        }
        // version 1 has a path for each controller, and the unit may be only in that of systemd
        let mut place = ProcessPlace::default();
        let mut may_be_task = false;
        for path in cgroup_paths(cgroup) {
            let mut found = place_of_cgroup(&path);
            if found.place == ProcessPlace::default() {
                may_be_task |= task_of_cgroup(&path).is_some();
                if is_slow_tick {
                    self.containers.add_task(roots, &mut found, &path);
                }
            }
            // files of daemons wait for a slow tick; until then the id stands for the name
            if is_slow_tick && (!found.container_id.is_empty() || found.place.pod.is_some()) {
                let home = found.session_user.and_then(|user| self.users.home_of(roots, user));
                self.containers.add_names(roots, &mut found, home.as_deref());
            }
            place.unit = place.unit.or(found.place.unit);
            place.container = place.container.or(found.place.container);
            place.pod = place.pod.or(found.place.pod);
            place.machine = place.machine.or(found.place.machine);
        }
        let is_complete = is_slow_tick || place.container.is_none() && place.pod.is_none() && !may_be_task;
        if is_complete && !cgroup.is_empty() {
            if self.places.len() >= MAX_PLACES {
                self.places.clear();
            }
            self.places.insert(cgroup.to_vec(), place.clone());
        }
        Some(place)
    }
}

/// Reads any bytes as a command line, a `cgroup` and a `status`, for tests.
pub(super) fn parse_any(bytes: &[u8]) -> (String, Vec<CgroupPlace>, Option<u32>) {
    let places = cgroup_paths(bytes).iter().map(|path| place_of_cgroup(path)).collect();
    (masked_command_line(&split_arguments(bytes)), places, effective_user(bytes))
}

/// Different paths of a process's `cgroup`, longest first.
fn cgroup_paths(cgroup: &[u8]) -> Vec<String> {
    let mut paths: Vec<&[u8]> = text_lines(cgroup)
        .filter_map(|line| line.splitn(3, |byte| *byte == b':').nth(2))
        .filter(|p| *p != b"/")
        .collect();
    paths.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
    paths.dedup();
    paths.into_iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
}

/// The arguments of a process; empty where it has none or hides them.
fn read_arguments(folder: &Path) -> Vec<String> {
    let path = folder.join("cmdline");
    let read = watch_read(&path, || {
        let mut text = Vec::new();
        File::open(&path)?.take(MAX_READ_BYTES).read_to_end(&mut text)?;
        Ok(text)
    });
    split_arguments(&read.unwrap_or_default())
}

fn split_arguments(text: &[u8]) -> Vec<String> {
    // titles that servers write over their arguments end with many zeros
    let length = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let arguments = text[..length].split(|byte| *byte == 0);
    arguments.map(|argument| String::from_utf8_lossy(argument).into_owned()).filter(|a| !a.is_empty()).collect()
}

/// The effective user of a `status`.
fn effective_user(status: &[u8]) -> Option<u32> {
    let line = text_lines(status).find_map(|line| line.strip_prefix(b"Uid:"))?;
    let word = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).nth(1)?;
    parse_number(word).and_then(|number| u32::try_from(number).ok())
}

/// Name of the virtual machine that a command line of QEMU runs: `-name web` or `-name guest=web,debug-threads=on`.
fn machine_of_command(arguments: &[String]) -> Option<String> {
    let program = arguments.first()?.rsplit('/').next()?;
    if !(program.starts_with("qemu-") || program == "kvm") {
        return None;
    }
    let option = arguments.iter().position(|argument| argument == "-name")?;
    let parts = arguments.get(option + 1)?.split(',');
    let mut names =
        parts.filter_map(|part| part.strip_prefix("guest=").or_else(|| (!part.contains('=')).then_some(part)));
    names.next().filter(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests;
