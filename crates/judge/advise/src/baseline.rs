//! A host's saved state, and the changes since then: "what changed?" is the first question of every incident.

use diskwright_base::byte_size::ByteSize;
use std::collections::BTreeSet;
use std::io::BufReader;
use std::path::Path;

use diskwright_hostfiles::private_files;
use serde::{Deserialize, Serialize};

use crate::host_tree::HostTree;
use crate::setting_change::{ChangeBookError, save_json};

/// Name of the file in the state folder.
pub const BASELINE_FILE: &str = "baseline.json";

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
    pub fn from_tree(tree: &HostTree, time: String) -> HostBaseline {
        HostBaseline { time, tree: tree.without_moving() }
    }

    /// Saves the state in a folder.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save_to(&self, folder: &Path) -> Result<(), ChangeBookError> {
        private_files::create_folder(folder)?;
        save_json(&folder.join(BASELINE_FILE), self)
    }

    /// Loads the saved state; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn load_from(folder: &Path) -> Result<Option<HostBaseline>, ChangeBookError> {
        let path = folder.join(BASELINE_FILE);
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
    pub fn changes_since(&self, tree: &HostTree) -> Vec<HostChange> {
        // a state saved by an earlier version has more facts
        compare_trees(&self.tree.without_moving(), &tree.without_moving())
    }
}

/// Returns the ids that a user wants to ignore, after some were added and removed.
///
/// # Errors
/// If they cannot be read or saved.
pub fn update_ignored(folder: &Path, add: &[String], remove: &[String]) -> Result<Vec<String>, ChangeBookError> {
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
    save_json(&path, &ids)?;
    Ok(ids)
}

/// Returns the differences between two states, sorted by kind. Facts that one of the two could not read are not
/// compared.
#[must_use]
pub fn compare_trees(before: &HostTree, now: &HostTree) -> Vec<HostChange> {
    let (mut changes, mut changed_disks) = (Vec::new(), BTreeSet::new());
    for disk in before.names_in("sys/block").into_iter().chain(now.names_in("sys/block")) {
        let (was_present, is_present) = (has_disk(before, disk), has_disk(now, disk));
        if was_present != is_present && changed_disks.insert(disk.to_owned()) {
            let describe = |tree: &HostTree, is_present: bool| is_present.then(|| describe_disk(tree, disk));
            let (before, now) = (describe(before, was_present), describe(now, is_present));
            changes.push(HostChange { kind: "device", what: disk.into(), before, now });
        }
    }
    let paths: BTreeSet<&String> = before.files.keys().chain(now.files.keys()).collect();
    for path in paths {
        let (text_before, text_now) = (before.get(path), now.get(path));
        let disk = path.strip_prefix("sys/block/").and_then(|path| path.split('/').next());
        // a fact that one of the two could not read may be unchanged
        let is_refused = before.unreadable.contains_key(path) || now.unreadable.contains_key(path);
        if text_before == text_now || is_refused || disk.is_some_and(|disk| changed_disks.contains(disk)) {
            continue;
        }
        if path == "proc/self/mountinfo" {
            changes.extend(mount_changes(text_before.unwrap_or_default(), text_now.unwrap_or_default()));
            continue;
        }
        let (before, now) = (text_before.map(str::to_owned), text_now.map(str::to_owned));
        changes.push(HostChange { kind: change_kind(path), what: format!("/{path}"), before, now });
    }
    let order = |kind: &str| ["kernel", "firmware", "device", "mount", "setting"].iter().position(|k| *k == kind);
    changes.sort_by(|a, b| order(a.kind).cmp(&order(b.kind)).then_with(|| a.what.cmp(&b.what)));
    changes
}

fn has_disk(tree: &HostTree, disk: &str) -> bool {
    tree.number_in(&format!("sys/block/{disk}/size")).is_some_and(|sectors| sectors > 0.0)
}

fn describe_disk(tree: &HostTree, disk: &str) -> String {
    let model = tree.get(&format!("sys/block/{disk}/device/model")).unwrap_or_default();
    let bytes = tree.number_in(&format!("sys/block/{disk}/size")).unwrap_or_default() * 512.0;
    format!("{model} {}", ByteSize::capacity(bytes)).trim().to_owned()
}

fn change_kind(path: &str) -> &'static str {
    let kernel = ["proc/sys/kernel/osrelease", "proc/sys/kernel/version", "proc/cmdline"];
    let firmware = ["bios_version", "bios_date", "firmware_rev", "/rev", "microcode/version"];
    match path {
        _ if kernel.contains(&path) => "kernel",
        _ if firmware.iter().any(|end| path.ends_with(end)) => "firmware",
        "proc/swaps" => "mount",
        _ => "setting",
    }
}

/// Compares mounts by mount point; their ids, which differ after each start, are ignored.
fn mount_changes(before: &str, now: &str) -> Vec<HostChange> {
    let parse = |text: &str| -> Vec<(String, String)> {
        let mounts = diskwright_counters::live::mountinfo::parse_mounts(text.as_bytes()).into_iter();
        let lasting = mounts.filter(|mount| mount.is_on_disk() || mount.is_remote());
        lasting.map(|m| (m.point.clone(), format!("{} {} {} {}", m.source, m.kind, m.flags, m.options))).collect()
    };
    let (mounts_before, mounts_now) = (parse(before), parse(now));
    let find =
        |list: &[(String, String)], point: &str| list.iter().find(|(p, _)| p == point).map(|(_, text)| text.clone());
    let points: BTreeSet<&String> = mounts_before.iter().chain(&mounts_now).map(|(point, _)| point).collect();
    let change = |point: &String| {
        let (before, now) = (find(&mounts_before, point), find(&mounts_now, point));
        (before != now).then(|| HostChange { kind: "mount", what: point.clone(), before, now })
    };
    points.into_iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree_of(files: &[(&str, &str)]) -> HostTree {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        HostTree { files, ..HostTree::default() }
    }

    #[test]
    fn reports_changes_by_kind_and_a_disk_as_one() {
        let before = tree_of(&[
            ("proc/sys/kernel/osrelease", "6.1.0"),
            ("proc/sys/vm/swappiness", "60"),
            ("proc/self/mountinfo", "21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"),
            ("sys/block/sda/size", "100"),
            ("sys/block/sda/queue/scheduler", "[none]"),
            ("proc/sys/fs/aio-nr", "1"),
        ]);
        let now = tree_of(&[
            ("proc/sys/kernel/osrelease", "6.2.0"),
            ("proc/sys/vm/swappiness", "10"),
            ("proc/self/mountinfo", "99 1 8:1 / / rw,noatime - ext4 /dev/sda1 rw\n"),
            ("proc/sys/fs/aio-nr", "7"),
        ]);
        let found = HostBaseline::from_tree(&before, "t".into()).changes_since(&now);
        let kinds: Vec<(&str, &str)> = found.iter().map(|c| (c.kind, c.what.as_str())).collect();
        let expected = [
            ("kernel", "/proc/sys/kernel/osrelease"),
            ("device", "sda"),
            ("mount", "/"),
            ("setting", "/proc/sys/vm/swappiness"),
        ];
        assert_eq!(kinds, expected);
        assert!(HostBaseline::from_tree(&before, "t".into()).changes_since(&before).is_empty());
    }

    #[test]
    fn unreadable_facts_have_not_changed() {
        let saved = tree_of(&[("proc/cmdline", "quiet"), ("proc/sys/vm/swappiness", "60")]);
        let mut now = tree_of(&[("proc/sys/vm/swappiness", "60")]);
        now.unreadable.insert("proc/cmdline".into(), "only root can read it".into());
        assert!(HostBaseline::from_tree(&saved, "t".into()).changes_since(&now).is_empty());
        assert!(HostBaseline::from_tree(&now, "t".into()).changes_since(&saved).is_empty());
    }

    #[test]
    fn baseline_survives_a_round_trip() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(HostBaseline::load_from(folder.path()).expect("nothing yet"), None);
        let saved =
            HostBaseline::from_tree(&tree_of(&[("proc/sys/vm/swappiness", "60")]), "2026-01-01T00:00:00Z".into());
        saved.save_to(folder.path()).expect("kept");
        assert_eq!(HostBaseline::load_from(folder.path()).expect("readable"), Some(saved));
    }
}
