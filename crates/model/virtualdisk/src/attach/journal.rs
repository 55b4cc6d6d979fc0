//! What was made and is to be undone: one folder an attached device, below
//! /run/diskwright/attach, so that nothing survives a boot. Whoever looks after
//! a device holds its folder's lock, which the kernel lets go when that process
//! dies, however it dies: a folder whose lock is free is what a killed one left.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use diskwright_hostfiles::private::{self, Distrust};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{AttachError, AttachMethod, AttachReport};

/// Where the journal is.
pub const FOLDER: &str = "/run/diskwright/attach";

/// Longest file of it, bytes.
const LONGEST: u64 = 1 << 20;

/// What `attach` asks of the process that stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeeperTask {
    /// The export.
    pub uri: String,
    /// The path into the kernel.
    pub by: AttachMethod,
    /// Connections to the server at most.
    pub connections: u32,
    /// Read-only, whatever the server allows.
    pub read_only: bool,
}

/// A folder of the journal.
#[derive(Clone, Debug)]
pub struct JournalEntry {
    folder: PathBuf,
}

/// The journal, while nobody else adds to it or looks who is alive.
struct JournalLock {
    _lock: File,
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> AttachError + '_ {
    |source| AttachError::Journal { path: path.to_owned(), source }
}

/// A file or folder that somebody else could have laid there is not used.
fn distrusted(path: &Path) -> impl FnOnce(Distrust) -> AttachError + '_ {
    |why| match why {
        Distrust::Io { source, .. } => failed(path)(source),
        other => AttachError::Distrust(other),
    }
}

/// The lock file in a folder, opened.
fn lock_in(folder: &Path) -> Result<File, AttachError> {
    let path = folder.join("lock");
    private::open(&path).map_err(distrusted(&path))
}

/// The same, locked.
fn locked(folder: &Path) -> Result<File, AttachError> {
    let lock = lock_in(folder)?;
    lock.lock().map_err(failed(folder))?;
    Ok(lock)
}

/// The folder by the name that the kernel shows for what is made below it.
fn real(journal: &Path) -> PathBuf {
    fs::canonicalize(journal).unwrap_or_else(|_| journal.to_owned())
}

fn quiet(journal: &Path) -> Result<JournalLock, AttachError> {
    private::folder(journal).map_err(distrusted(journal))?;
    Ok(JournalLock { _lock: locked(journal)? })
}

impl JournalEntry {
    /// A new one with its lock, which lives as long as the file, or a process that got it, does.
    ///
    /// # Errors
    /// Where the journal cannot be written.
    pub fn create(journal: &Path, order: &KeeperTask) -> Result<(JournalEntry, File), AttachError> {
        let _quiet = quiet(journal)?;
        let journal = &real(journal);
        let mut number = 1u32;
        let folder = loop {
            let folder = journal.join(number.to_string());
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => break folder,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(failed(&folder)(error)),
            }
        };
        let entry = JournalEntry { folder };
        let lock = locked(&entry.folder)?;
        entry.write("order", order)?;
        Ok((entry, lock))
    }

    /// The one in a folder.
    #[must_use]
    pub fn at(folder: &Path) -> JournalEntry {
        JournalEntry { folder: folder.to_owned() }
    }

    /// All of a journal; none where there is no journal.
    #[must_use]
    pub fn all(journal: &Path) -> Vec<JournalEntry> {
        let found = fs::read_dir(real(journal)).into_iter().flatten().flatten();
        let is_one = |e: &fs::DirEntry| e.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        let mut entries: Vec<JournalEntry> = found.filter(is_one).map(|e| JournalEntry { folder: e.path() }).collect();
        entries.sort_by(|a, b| a.folder.cmp(&b.folder));
        entries
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file or folder in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What was asked for.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn order(&self) -> Result<KeeperTask, AttachError> {
        self.read("order")
    }

    /// What was made of it; none before it is ready.
    #[must_use]
    pub fn attached(&self) -> Option<AttachReport> {
        self.read("attached").ok()
    }

    /// Notes what was made.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn note(&self, attached: &AttachReport) -> Result<(), AttachError> {
        self.write("attached", attached)
    }

    /// Its lock, where nobody is left who looks after it.
    ///
    /// # Errors
    /// Where the journal cannot be read.
    pub fn abandoned(&self) -> Result<Option<File>, AttachError> {
        let Some(journal) = self.folder.parent() else { return Ok(None) };
        let _quiet = quiet(journal)?;
        if !self.folder.exists() {
            return Ok(None);
        }
        let lock = lock_in(&self.folder)?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(&self.folder)(error)),
        }
    }

    /// Removes it: its own files by name, so that nothing behind a mount that
    /// would not go is touched.
    ///
    /// # Errors
    /// Where something is left in it.
    pub fn remove(&self) -> Result<(), AttachError> {
        let _quiet = self.folder.parent().map(quiet).transpose()?;
        for name in ["order", "attached", "log", "order.new", "attached.new"] {
            absent_is_well(fs::remove_file(self.path(name))).map_err(failed(&self.folder))?;
        }
        absent_is_well(fs::remove_dir(self.path("mount"))).map_err(failed(&self.folder))?;
        absent_is_well(fs::remove_file(self.path("lock"))).map_err(failed(&self.folder))?;
        absent_is_well(fs::remove_dir(&self.folder)).map_err(failed(&self.folder))
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<T, AttachError> {
        let path = self.path(name);
        let mut text = Vec::new();
        let file = private::read(&path).map_err(distrusted(&path))?;
        file.take(LONGEST).read_to_end(&mut text).map_err(failed(&path))?;
        serde_json::from_slice(&text).map_err(io::Error::from).map_err(failed(&path))
    }

    /// Whole or not at all.
    fn write(&self, name: &str, value: &impl Serialize) -> Result<(), AttachError> {
        let (path, fresh) = (self.path(name), self.path(&format!("{name}.new")));
        let text = serde_json::to_vec(value).map_err(io::Error::from).map_err(failed(&path))?;
        let mut file = private::create(&fresh).map_err(distrusted(&fresh))?;
        file.write_all(&text).and_then(|()| fs::rename(&fresh, &path)).map_err(failed(&path))
    }
}

fn absent_is_well(done: io::Result<()>) -> io::Result<()> {
    done.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> KeeperTask {
        KeeperTask { uri: "nbd://host:1/".into(), by: AttachMethod::Fuse, connections: 4, read_only: false }
    }

    #[test]
    fn a_folder_is_abandoned_when_its_lock_is_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("journal");
        assert!(JournalEntry::all(&journal).is_empty());
        let (one, lock) = JournalEntry::create(&journal, &order()).unwrap();
        let (two, _other) = JournalEntry::create(&journal, &order()).unwrap();
        assert_eq!(JournalEntry::all(&journal).len(), 2);
        assert_eq!(one.order().unwrap(), order());
        assert!(one.attached().is_none());
        assert!(one.abandoned().unwrap().is_none());
        drop(lock);
        // a test beside this one that starts a program holds copies of all locks between its fork and its exec
        let begun = std::time::Instant::now();
        while one.abandoned().unwrap().is_none() {
            assert!(begun.elapsed().as_secs() < 10, "nobody holds it");
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        assert!(two.abandoned().unwrap().is_none());
        one.remove().unwrap();
        one.remove().unwrap();
        assert_eq!(JournalEntry::all(&journal).len(), 1);
        // the first free number again
        assert_eq!(JournalEntry::create(&journal, &order()).unwrap().0.folder(), one.folder());
    }

    #[test]
    fn no_link_is_followed_and_no_folder_of_everybody_is_used() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (journal, precious) = (folder.path().join("journal"), folder.path().join("precious"));
        fs::write(&precious, "precious").unwrap();
        fs::create_dir(&journal).unwrap();
        symlink(&precious, journal.join("lock")).unwrap();
        let error = JournalEntry::create(&journal, &order()).unwrap_err().to_string();
        assert!(error.contains("links are not followed"), "{error}");
        fs::remove_file(journal.join("lock")).unwrap();
        let (entry, _lock) = JournalEntry::create(&journal, &order()).unwrap();
        for name in ["order.new", "lock", "order"] {
            let _ = fs::remove_file(entry.path(name));
            symlink(&precious, entry.path(name)).unwrap();
        }
        assert!(entry.write("order", &order()).is_err() && entry.order().is_err() && entry.abandoned().is_err());
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        fs::set_permissions(&journal, fs::Permissions::from_mode(0o777)).unwrap();
        let error = JournalEntry::create(&journal, &order()).unwrap_err().to_string();
        assert!(error.contains("can be changed by every user"), "{error}");
    }

    #[test]
    fn broken_notes_are_told_or_counted_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let (entry, _lock) = JournalEntry::create(folder.path(), &order()).unwrap();
        for text in ["", "{", "[]", "{\"uri\":1}", "\0\0"] {
            fs::write(entry.path("order"), text).unwrap();
            fs::write(entry.path("attached"), text).unwrap();
            assert!(entry.order().is_err(), "{text:?}");
            assert!(entry.attached().is_none(), "{text:?}");
        }
        // by another name it is the same
        let (real, other) = (folder.path().join("1"), folder.path().join("link"));
        std::os::unix::fs::symlink(folder.path(), &other).unwrap();
        assert_eq!(JournalEntry::all(&other)[0].folder(), fs::canonicalize(real).unwrap());
        // strangers' files are not removed, and that is told
        fs::write(entry.path("other"), "").unwrap();
        assert!(entry.remove().is_err());
        assert!(entry.path("other").exists());
    }
}
