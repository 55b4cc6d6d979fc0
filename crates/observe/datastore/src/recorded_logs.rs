//! Finds the logs that processes of this machine write to now. It asks the kernel alone: neither a log nor the
//! filesystem below it is touched, because both may hang where the machine is in trouble.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use diskwright_hostfiles::bounded_file;

use crate::format::LOCK_FILE;
use crate::log_detection::is_log_file_name;

/// Longest table of locks that is read.
const MAX_LOCKS_BYTES: u64 = 4 << 20;
/// Largest number of open files of a process that are looked at.
const MAX_OPEN_FILES: usize = 1024;

/// A log that a process holds open and locked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordedLog {
    /// Its folder. A recorder in another mount namespace is reached through its own root.
    pub dir: PathBuf,
    /// The process: a recorder, or an import.
    pub pid: u32,
}

/// Returns the logs that processes of this machine write to now, as far as this user may see their open files. `proc`
/// is the mount point of procfs.
#[must_use]
pub fn find_recorded_logs(proc: &Path) -> Vec<RecordedLog> {
    let Ok(locks) = bounded_file::read_text_file(&proc.join("locks"), MAX_LOCKS_BYTES) else { return Vec::new() };
    let own_root = process_root(proc, "self");
    let mut logs: Vec<RecordedLog> = Vec::new();
    for pid in lock_holders(&locks) {
        let folder = proc.join(pid.to_string());
        let root = process_root(proc, &pid.to_string());
        for dir in locked_log_folders(&folder) {
            let is_own_root = root.is_some() && root == own_root;
            let dir = if is_own_root { dir } else { folder.join("root").join(dir.strip_prefix("/").unwrap_or(&dir)) };
            logs.push(RecordedLog { dir, pid });
        }
    }
    logs.sort();
    logs
}

/// Processes that hold a whole file for writing (`flock`); a lock that is waited for (`->`) is nobody's yet.
fn lock_holders(locks: &str) -> BTreeSet<u32> {
    let holder = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let is_held = words.next() == Some("FLOCK") && words.nth(1) == Some("WRITE");
        is_held.then(|| words.next()?.parse().ok()).flatten()
    };
    locks.lines().filter_map(holder).collect()
}

/// Mount namespace and root folder of a process; `None` if this user may not see them.
fn process_root(proc: &Path, process: &str) -> Option<(PathBuf, PathBuf)> {
    let link = |name: &str| fs::read_link(proc.join(process).join(name)).ok();
    link("ns/mnt").zip(link("root"))
}

/// Folders in which a process has the lock file of a log open, and a file of the log beside it.
fn locked_log_folders(process: &Path) -> BTreeSet<PathBuf> {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return BTreeSet::new() };
    // a link in /proc is a name that the kernel keeps: to read it opens nothing
    let links = descriptors.flatten().take(MAX_OPEN_FILES).filter_map(|entry| fs::read_link(entry.path()).ok());
    let (mut locked, mut written) = (BTreeSet::new(), BTreeSet::new());
    for path in links.filter(|path| path.is_absolute()) {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { continue };
        if name == OsStr::new(LOCK_FILE) {
            locked.insert(dir.to_owned());
        } else if name.to_str().is_some_and(is_log_file_name) {
            written.insert(dir.to_owned());
        }
    }
    locked.intersection(&written).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogWriter, WriterOptions};

    #[test]
    fn only_a_held_lock_of_a_whole_file_names_its_holder() {
        let locks = "1: FLOCK  ADVISORY  WRITE 11 08:01:5 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 12 08:01:6 0 EOF\n\
                     3: FLOCK  ADVISORY  READ  13 08:01:7 0 EOF\n\
                     1: -> FLOCK  ADVISORY  WRITE 14 08:01:5 0 EOF\n\
                     broken\n5: FLOCK ADVISORY WRITE x 08:01:5 0 EOF\n";
        assert_eq!(lock_holders(locks).into_iter().collect::<Vec<_>>(), [11]);
    }

    #[test]
    fn a_log_is_found_while_it_is_recorded_and_no_longer() {
        let folder = std::env::temp_dir().join(format!("dwlog-recorded-{}", std::process::id()));
        let log = folder.join("a log");
        let is_found = || find_recorded_logs(Path::new("/proc")).iter().any(|found| found.dir == log);
        let writer = LogWriter::create_or_append(&log, WriterOptions::default()).expect("a log");
        assert!(is_found(), "{:?}", find_recorded_logs(Path::new("/proc")));
        drop(writer);
        assert!(!is_found());
        fs::remove_dir_all(&folder).expect("was there");
    }

    #[test]
    fn a_locked_file_without_a_log_beside_it_is_no_log() {
        let folder = std::env::temp_dir().join(format!("dwlog-lock-only-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let lock = fs::File::create(folder.join(LOCK_FILE)).expect("a file");
        lock.lock().expect("free");
        assert!(find_recorded_logs(Path::new("/proc")).iter().all(|found| found.dir != folder));
        fs::remove_dir_all(&folder).expect("was there");
    }
}
