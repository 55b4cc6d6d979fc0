//! Journal of attached devices, by which they are removed again: one folder per attached device, below
//! /run/diskwright/attach, so that nothing survives a boot. The keeper process of a device holds the
//! lock of its folder. The kernel releases the lock when that process ends in any way, so a folder whose
//! lock is free was left by a killed process.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use diskwright_hostfiles::private_files::{self, PrivateFileError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{AttachError, AttachMethod, AttachReport};

/// Folder of the journal.
pub const JOURNAL_FOLDER: &str = "/run/diskwright/attach";

/// Longest file of the journal, bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Task of the keeper process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeeperTask {
    /// The export.
    pub uri: String,
    /// The attach method.
    pub by: AttachMethod,
    /// Largest number of connections to the server.
    pub connections: u32,
    /// The device is read-only, even if the server allows writes.
    pub read_only: bool,
}

/// A folder of the journal.
#[derive(Clone, Debug)]
pub struct JournalEntry {
    folder: PathBuf,
}

/// Lock of the journal: while it is held, no other process adds or removes an entry, or checks which
/// entries are abandoned.
struct JournalLock {
    _lock: File,
}

fn journal_error(path: &Path) -> impl FnOnce(io::Error) -> AttachError + '_ {
    |source| AttachError::Journal { path: path.to_owned(), source }
}

/// Returns a function that converts an error of a private file: a file or folder that another user could
/// have placed there is not used.
fn distrust_error(path: &Path) -> impl FnOnce(PrivateFileError) -> AttachError + '_ {
    |why| match why {
        PrivateFileError::Io { source, .. } => journal_error(path)(source),
        other => AttachError::Distrust(other),
    }
}

/// Opens the lock file in a folder.
fn open_lock_file(folder: &Path) -> Result<File, AttachError> {
    let path = folder.join("lock");
    private_files::open(&path).map_err(distrust_error(&path))
}

/// Opens and locks the lock file in a folder.
fn lock_folder(folder: &Path) -> Result<File, AttachError> {
    let lock = open_lock_file(folder)?;
    lock.lock().map_err(journal_error(folder))?;
    Ok(lock)
}

/// Returns the folder's canonical path, which the kernel shows for everything made below it.
fn canonical_folder(journal: &Path) -> PathBuf {
    fs::canonicalize(journal).unwrap_or_else(|_| journal.to_owned())
}

fn lock_journal(journal: &Path) -> Result<JournalLock, AttachError> {
    private_files::create_folder(journal).map_err(distrust_error(journal))?;
    Ok(JournalLock { _lock: lock_folder(journal)? })
}

impl JournalEntry {
    /// Creates a new entry with its lock, which is held as long as the file, or a process that
    /// inherited it, exists.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn create_entry(journal: &Path, task: &KeeperTask) -> Result<(JournalEntry, File), AttachError> {
        let _journal_lock = lock_journal(journal)?;
        let journal = &canonical_folder(journal);
        // the first number that is not taken
        let mut number = 1u32;
        let folder = loop {
            let folder = journal.join(number.to_string());
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => break folder,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(journal_error(&folder)(error)),
            }
        };
        let entry = JournalEntry { folder };
        let lock = lock_folder(&entry.folder)?;
        entry.write("order", task)?;
        Ok((entry, lock))
    }

    /// Returns the entry in a folder.
    #[must_use]
    pub fn from_folder(folder: &Path) -> JournalEntry {
        JournalEntry { folder: folder.to_owned() }
    }

    /// Returns all entries of a journal; none if there is no journal.
    #[must_use]
    pub fn list_entries(journal: &Path) -> Vec<JournalEntry> {
        let files = fs::read_dir(canonical_folder(journal)).into_iter().flatten().flatten();
        let is_entry = |e: &fs::DirEntry| e.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        let mut entries: Vec<JournalEntry> =
            files.filter(is_entry).map(|e| JournalEntry { folder: e.path() }).collect();
        entries.sort_by(|a, b| a.folder.cmp(&b.folder));
        entries
    }

    /// Returns its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a file or folder in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Reads the task of the entry.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read_task(&self) -> Result<KeeperTask, AttachError> {
        self.read("order")
    }

    /// Reads the report of the attached device; `None` before it is ready.
    #[must_use]
    pub fn read_report(&self) -> Option<AttachReport> {
        self.read("attached").ok()
    }

    /// Writes the report of the attached device.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_report(&self, attached: &AttachReport) -> Result<(), AttachError> {
        self.write("attached", attached)
    }

    /// Takes its lock if its keeper process is dead; `None` otherwise.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn lock_if_abandoned(&self) -> Result<Option<File>, AttachError> {
        let Some(journal) = self.folder.parent() else { return Ok(None) };
        let _journal_lock = lock_journal(journal)?;
        if !self.folder.exists() {
            return Ok(None);
        }
        let lock = open_lock_file(&self.folder)?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(journal_error(&self.folder)(error)),
        }
    }

    /// Removes the entry: only its known files, by name, so that nothing behind a stuck mount is
    /// touched.
    ///
    /// # Errors
    /// If other files are left in it, or the system refuses.
    pub fn remove(&self) -> Result<(), AttachError> {
        let _lock = self.folder.parent().map(lock_journal).transpose()?;
        for name in ["order", "attached", "log", "order.new", "attached.new"] {
            ignore_missing(fs::remove_file(self.path(name))).map_err(journal_error(&self.folder))?;
        }
        ignore_missing(fs::remove_dir(self.path("mount"))).map_err(journal_error(&self.folder))?;
        ignore_missing(fs::remove_file(self.path("lock"))).map_err(journal_error(&self.folder))?;
        ignore_missing(fs::remove_dir(&self.folder)).map_err(journal_error(&self.folder))
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<T, AttachError> {
        let path = self.path(name);
        let mut text = Vec::new();
        let file = private_files::open_for_reading(&path).map_err(distrust_error(&path))?;
        file.take(MAX_FILE_BYTES).read_to_end(&mut text).map_err(journal_error(&path))?;
        serde_json::from_slice(&text).map_err(io::Error::from).map_err(journal_error(&path))
    }

    /// Writes a file completely or not at all.
    fn write(&self, name: &str, value: &impl Serialize) -> Result<(), AttachError> {
        let (path, temporary) = (self.path(name), self.path(&format!("{name}.new")));
        let text = serde_json::to_vec(value).map_err(io::Error::from).map_err(journal_error(&path))?;
        let mut file = private_files::create(&temporary).map_err(distrust_error(&temporary))?;
        file.write_all(&text).and_then(|()| fs::rename(&temporary, &path)).map_err(journal_error(&path))
    }
}

fn ignore_missing(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example_task() -> KeeperTask {
        KeeperTask { uri: "nbd://host:1/".into(), by: AttachMethod::Fuse, connections: 4, read_only: false }
    }

    #[test]
    fn a_folder_is_abandoned_when_its_lock_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("journal");
        assert!(JournalEntry::list_entries(&journal).is_empty());
        let (one, lock) = JournalEntry::create_entry(&journal, &example_task()).unwrap();
        let (two, _other) = JournalEntry::create_entry(&journal, &example_task()).unwrap();
        assert_eq!(JournalEntry::list_entries(&journal).len(), 2);
        assert_eq!(one.read_task().unwrap(), example_task());
        assert!(one.read_report().is_none());
        assert!(one.lock_if_abandoned().unwrap().is_none());
        drop(lock);
        // a concurrent test that starts a program holds copies of all locks between its fork and
        // its exec
        let begun = std::time::Instant::now();
        while one.lock_if_abandoned().unwrap().is_none() {
            assert!(begun.elapsed().as_secs() < 10, "nobody holds it");
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        assert!(two.lock_if_abandoned().unwrap().is_none());
        one.remove().unwrap();
        one.remove().unwrap();
        assert_eq!(JournalEntry::list_entries(&journal).len(), 1);
        // the first free number is used again
        assert_eq!(JournalEntry::create_entry(&journal, &example_task()).unwrap().0.folder(), one.folder());
    }

    #[test]
    fn follows_no_link_and_uses_no_folder_writable_by_all() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (journal, precious) = (folder.path().join("journal"), folder.path().join("precious"));
        fs::write(&precious, "precious").unwrap();
        fs::create_dir(&journal).unwrap();
        symlink(&precious, journal.join("lock")).unwrap();
        let error = JournalEntry::create_entry(&journal, &example_task()).unwrap_err().to_string();
        assert!(error.contains("links are not followed"), "{error}");
        fs::remove_file(journal.join("lock")).unwrap();
        let (entry, _lock) = JournalEntry::create_entry(&journal, &example_task()).unwrap();
        for name in ["order.new", "lock", "order"] {
            let _ = fs::remove_file(entry.path(name));
            symlink(&precious, entry.path(name)).unwrap();
        }
        assert!(
            entry.write("order", &example_task()).is_err()
                && entry.read_task().is_err()
                && entry.lock_if_abandoned().is_err()
        );
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        fs::set_permissions(&journal, fs::Permissions::from_mode(0o777)).unwrap();
        let error = JournalEntry::create_entry(&journal, &example_task()).unwrap_err().to_string();
        assert!(error.contains("can be changed by every user"), "{error}");
    }

    #[test]
    fn broken_files_are_errors_or_count_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        let (entry, _lock) = JournalEntry::create_entry(folder.path(), &example_task()).unwrap();
        for text in ["", "{", "[]", "{\"uri\":1}", "\0\0"] {
            fs::write(entry.path("order"), text).unwrap();
            fs::write(entry.path("attached"), text).unwrap();
            assert!(entry.read_task().is_err(), "{text:?}");
            assert!(entry.read_report().is_none(), "{text:?}");
        }
        // the same journal by another path
        let (real, other) = (folder.path().join("1"), folder.path().join("link"));
        std::os::unix::fs::symlink(folder.path(), &other).unwrap();
        assert_eq!(JournalEntry::list_entries(&other)[0].folder(), fs::canonicalize(real).unwrap());
        // unknown files are not removed, and that is an error
        fs::write(entry.path("other"), "").unwrap();
        assert!(entry.remove().is_err());
        assert!(entry.path("other").exists());
    }
}
