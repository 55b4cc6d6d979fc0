//! Temporary folders that are removed with the command, also if a signal ends it. The lock in a folder shows whether
//! its command still runs: folders of killed commands are removed when the next one is created.

use std::fs::{self, DirEntry, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use diskwright_base::byte_size::ByteSize;
use diskwright_hostfiles::disk_space::DiskSpace;
use diskwright_hostfiles::private_files;
use diskwright_hostfiles::removed_on_signal::TemporaryPath;
use tempfile::TempDir;

use crate::IngestError;

/// Prefix of the folders' names.
const FOLDER_PREFIX: &str = "diskwright-import-";
/// File that a command keeps locked while it uses a folder.
const LOCK_FILE: &str = "lock";

/// A private folder below the system's folder for temporary files.
pub struct TemporaryFolder {
    path: PathBuf,
    /// Its log, the only part that a command uses.
    log: PathBuf,
    _registered: TemporaryPath,
    _dir: TempDir,
    _lock: File,
}

impl TemporaryFolder {
    /// Creates a folder, and removes those that killed commands of this user left.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub fn new() -> Result<TemporaryFolder, IngestError> {
        let parent = std::env::temp_dir();
        sweep_leftovers();
        TemporaryFolder::create_in(&parent).map_err(|reason| IngestError::NoTemporaryFolder { parent, reason })
    }

    fn create_in(parent: &Path) -> Result<TemporaryFolder, private_files::PrivateFileError> {
        let io = |source| private_files::PrivateFileError::Io { path: parent.to_owned(), source };
        let private_mode = Permissions::from_mode(0o700);
        let dir = tempfile::Builder::new()
            .prefix(FOLDER_PREFIX)
            .permissions(private_mode.clone())
            .tempdir_in(parent)
            .map_err(io)?;
        let registered = TemporaryPath::new(dir.path());
        // the user's umask may remove permissions that are needed
        fs::set_permissions(dir.path(), private_mode).map_err(io)?;
        // locked before it gets the name that a sweep looks for
        let unnamed = dir.path().join("lock.new");
        let lock = private_files::create(&unnamed)?;
        lock.lock().and_then(|()| fs::rename(&unnamed, dir.path().join(LOCK_FILE))).map_err(io)?;
        let log = dir.path().join("log");
        private_files::create_folder(&log)?;
        Ok(TemporaryFolder { path: dir.path().to_owned(), log, _registered: registered, _dir: dir, _lock: lock })
    }

    /// Fails if the filesystem is down to its reserve.
    ///
    /// # Errors
    /// With the reason, and what to do about it.
    pub fn check_free_space(&self) -> Result<(), String> {
        let space = File::open(&self.path)
            .and_then(DiskSpace::for_file)
            .map_err(|e| format!("{}: {e}", self.path.display()))?;
        if !space.is_reserve_used() {
            return Ok(());
        }
        let size = |bytes: u64| ByteSize::capacity(bytes as f64);
        let (free, reserve, folder) = (size(space.free_bytes), size(space.reserve_bytes), std::env::temp_dir());
        let shortage = format!("{} has {free} free, of which {reserve} must stay free", folder.display());
        Err(format!("not enough space to read it into: {shortage}; set TMPDIR to another folder"))
    }

    /// Path for writing a log.
    pub fn log_path(&self) -> &Path {
        debug_assert!(self.log.starts_with(&self.path));
        &self.log
    }
}

/// Removes leftovers of killed commands of this user in the system's temporary folder.
pub fn sweep_leftovers() {
    sweep_folder(&std::env::temp_dir());
}

/// Removes folders of this user whose command has gone. Those that cannot be removed stay.
fn sweep_folder(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let is_leftover = |entry: &DirEntry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with(FOLDER_PREFIX))
            // metadata of the entry itself, not of a link's target
            && entry.metadata().is_ok_and(|m| m.is_dir() && m.uid() == rustix::process::geteuid().as_raw())
    };
    for entry in entries.flatten().filter(is_leftover) {
        let Ok(lock) = private_files::open_for_reading(&entry.path().join(LOCK_FILE)) else { continue };
        if lock.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_leftovers_but_nothing_in_use() {
        let parent = tempfile::tempdir().unwrap();
        let below = |name: &str| parent.path().join(name);
        let used = TemporaryFolder::create_in(parent.path()).unwrap();
        assert_eq!(fs::metadata(&used.path).unwrap().mode() & 0o777, 0o700);
        for name in ["diskwright-import-left", "diskwright-import-new", "somebody-elses"] {
            fs::create_dir(below(name)).unwrap();
            fs::write(below(name).join("data"), "").unwrap();
        }
        fs::write(below("diskwright-import-left/lock"), "").unwrap();
        fs::write(below("somebody-elses/lock"), "").unwrap();
        std::os::unix::fs::symlink(below("somebody-elses"), below("diskwright-import-link")).unwrap();
        sweep_folder(parent.path());
        assert!(!below("diskwright-import-left").exists());
        assert!(
            used.log_path().exists()
                && below("somebody-elses/data").exists()
                && below("diskwright-import-new/data").exists()
        );
        assert!(fs::symlink_metadata(below("diskwright-import-link")).is_ok());
        let path = used.path.clone();
        drop(used);
        assert!(!path.exists());
    }
}
