//! A host's saved state, and the changes since: the first question of every incident.

use std::collections::BTreeSet;
use std::io::BufReader;
use std::path::Path;

use diskwright_hostfiles::private_files;
use serde::{Deserialize, Serialize};

use crate::change::{ChangeBookError, store};
use crate::tree::HostTree;

/// File in the state folder.
pub const FILE: &str = "baseline.json";

/// The saved state of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostBaseline {
    /// Time of saving, RFC 3339.
    pub time: String,
    /// Facts that do not change by themselves.
    pub tree: HostTree,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostChange {
    /// `kernel`, `firmware`, `mount`, `device` or `setting`.
    pub kind: &'static str,
    /// Changed object: a file from the root on, a mount point, a disk.
    pub what: String,
    /// Previous value; `None` if it is new.
    pub before: Option<String>,
    /// Current value; `None` if it is gone.
    pub now: Option<String>,
}

impl HostBaseline {
    /// Returns the current state of a host.
    #[must_use]
    pub fn of(tree: &HostTree, time: String) -> HostBaseline {
        HostBaseline { time, tree: tree.settled() }
    }

    /// Saves the state in a folder.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, folder: &Path) -> Result<(), ChangeBookError> {
        private_files::create_folder(folder)?;
        store(&folder.join(FILE), self)
    }

    /// Loads the saved state; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn load(folder: &Path) -> Result<Option<HostBaseline>, ChangeBookError> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let file = private_files::open_for_reading(&path)?;
        serde_json::from_reader(BufReader::new(file))
            .map(Some)
            .map_err(|error| ChangeBookError::Damaged { path, because: error.to_string() })
    }

    /// Returns the changes on a host since then, the kernel and firmware first.
    #[must_use]
    pub fn changes(&self, tree: &HostTree) -> Vec<HostChange> {
        // a state saved by an earlier version has more facts
        changes(&self.tree.settled(), &tree.settled())
    }
}

/// Returns the ids that a user wants to ignore, after some were added and removed.
///
/// # Errors
/// If they cannot be read or saved.
pub fn ignored(folder: &Path, add: &[String], remove: &[String]) -> Result<Vec<String>, ChangeBookError> {
    let path = folder.join("ignored.json");
    let mut ids: Vec<String> = if path.exists() {
        let file = private_files::open_for_reading(&path)?;
        serde_json::from_reader(BufReader::new(file))
            .map_err(|error| ChangeBookError::Damaged { path: path.clone(), because: error.to_string() })?
    } else {
        Vec::new()
    };
    if add.is_empty() && remove.is_empty() {
        return Ok(ids);
    }
    ids.extend(add.iter().cloned());
    ids.retain(|id| !remove.contains(id));
    ids.sort_unstable();
    ids.dedup();
    private_files::create_folder(folder)?;
    store(&path, &ids)?;
    Ok(ids)
}

/// Differences between two hosts, without facts that change by themselves.
#[must_use]
pub fn changes(before: &HostTree, now: &HostTree) -> Vec<HostChange> {
    let (mut found, mut disks) = (Vec::new(), BTreeSet::new());
    for disk in before.names("sys/block").into_iter().chain(now.names("sys/block")) {
        let (was, is) = (is_there(before, disk), is_there(now, disk));
        if was != is && disks.insert(disk.to_owned()) {
            let word = |tree: &HostTree, there: bool| there.then(|| about(tree, disk));
            found.push(HostChange { kind: "device", what: disk.into(), before: word(before, was), now: word(now, is) });
        }
    }
    let paths: BTreeSet<&String> = before.files.keys().chain(now.files.keys()).collect();
    for path in paths {
        let (was, is) = (before.get(path), now.get(path));
        let of_changed_disk = path.strip_prefix("sys/block/").and_then(|rest| rest.split('/').next());
        // facts that one of the two was not allowed to read may be the same
        let is_refused = before.lacking.contains_key(path) || now.lacking.contains_key(path);
        if was == is || is_refused || of_changed_disk.is_some_and(|disk| disks.contains(disk)) {
            continue;
        }
        if path == "proc/self/mountinfo" {
            found.extend(mounts(was.unwrap_or_default(), is.unwrap_or_default()));
            continue;
        }
        let text = |text: Option<&str>| text.map(str::to_owned);
        found.push(HostChange { kind: kind(path), what: format!("/{path}"), before: text(was), now: text(is) });
    }
    let order = |kind: &str| ["kernel", "firmware", "device", "mount", "setting"].iter().position(|k| *k == kind);
    found.sort_by(|a, b| order(a.kind).cmp(&order(b.kind)).then_with(|| a.what.cmp(&b.what)));
    found
}

fn is_there(tree: &HostTree, disk: &str) -> bool {
    tree.number(&format!("sys/block/{disk}/size")).is_some_and(|sectors| sectors > 0.0)
}

fn about(tree: &HostTree, disk: &str) -> String {
    let model = tree.get(&format!("sys/block/{disk}/device/model")).unwrap_or_default();
    let bytes = tree.number(&format!("sys/block/{disk}/size")).unwrap_or_default() * 512.0;
    format!("{model} {}", diskwright_base::units::format_value(bytes, "bytes")).trim().to_owned()
}

fn kind(path: &str) -> &'static str {
    let kernel = ["proc/sys/kernel/osrelease", "proc/sys/kernel/version", "proc/cmdline"];
    let firmware = ["bios_version", "bios_date", "firmware_rev", "/rev", "microcode/version"];
    match path {
        _ if kernel.contains(&path) => "kernel",
        _ if firmware.iter().any(|end| path.ends_with(end)) => "firmware",
        "proc/swaps" => "mount",
        _ => "setting",
    }
}

/// Compares mounts by mount point, without their ids, which differ after each start.
fn mounts(before: &str, now: &str) -> Vec<HostChange> {
    let read = |text: &str| -> Vec<(String, String)> {
        let lines = diskwright_counters::live::mountinfo::parse_mounts(text.as_bytes()).into_iter();
        let on_disk = lines.filter(|mount| mount.is_on_disk() || mount.is_remote());
        on_disk.map(|m| (m.point.clone(), format!("{} {} {} {}", m.source, m.kind, m.flags, m.options))).collect()
    };
    let (was, is) = (read(before), read(now));
    let find =
        |list: &[(String, String)], point: &str| list.iter().find(|(p, _)| p == point).map(|(_, text)| text.clone());
    let points: BTreeSet<&String> = was.iter().chain(&is).map(|(point, _)| point).collect();
    let change = |point: &String| {
        let (before, now) = (find(&was, point), find(&is, point));
        (before != now).then(|| HostChange { kind: "mount", what: point.clone(), before, now })
    };
    points.into_iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> HostTree {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        HostTree { files, ..HostTree::default() }
    }

    #[test]
    fn what_changed_is_told_by_kind_and_disks_as_one() {
        let before = tree(&[
            ("proc/sys/kernel/osrelease", "6.1.0"),
            ("proc/sys/vm/swappiness", "60"),
            ("proc/self/mountinfo", "21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"),
            ("sys/block/sda/size", "100"),
            ("sys/block/sda/queue/scheduler", "[none]"),
            ("proc/sys/fs/aio-nr", "1"),
        ]);
        let now = tree(&[
            ("proc/sys/kernel/osrelease", "6.2.0"),
            ("proc/sys/vm/swappiness", "10"),
            ("proc/self/mountinfo", "99 1 8:1 / / rw,noatime - ext4 /dev/sda1 rw\n"),
            ("proc/sys/fs/aio-nr", "7"),
        ]);
        let found = HostBaseline::of(&before, "t".into()).changes(&now);
        let kinds: Vec<(&str, &str)> = found.iter().map(|c| (c.kind, c.what.as_str())).collect();
        let expected = [
            ("kernel", "/proc/sys/kernel/osrelease"),
            ("device", "sda"),
            ("mount", "/"),
            ("setting", "/proc/sys/vm/swappiness"),
        ];
        assert_eq!(kinds, expected);
        assert!(HostBaseline::of(&before, "t".into()).changes(&before).is_empty());
    }

    #[test]
    fn what_one_of_the_two_may_not_read_has_not_changed() {
        let saved = tree(&[("proc/cmdline", "quiet"), ("proc/sys/vm/swappiness", "60")]);
        let mut now = tree(&[("proc/sys/vm/swappiness", "60")]);
        now.lacking.insert("proc/cmdline".into(), "only root can read it".into());
        assert!(HostBaseline::of(&saved, "t".into()).changes(&now).is_empty());
        assert!(HostBaseline::of(&now, "t".into()).changes(&saved).is_empty());
    }

    #[test]
    fn it_is_kept_and_read_back() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(HostBaseline::load(folder.path()).expect("nothing yet"), None);
        let saved = HostBaseline::of(&tree(&[("proc/sys/vm/swappiness", "60")]), "2026-01-01T00:00:00Z".into());
        saved.save(folder.path()).expect("kept");
        assert_eq!(HostBaseline::load(folder.path()).expect("readable"), Some(saved));
    }
}
