//! Temporary folders and files that are removed with the command, also if a signal ends it. The lock in a folder shows
//! whether its command still runs: folders of killed commands are removed when the next one is created.

use std::fs::{self, DirEntry, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, Once, PoisonError};

use diskwright_base::byte_size::ByteSize;
use diskwright_hostfiles::disk_space::DiskSpace;
use diskwright_hostfiles::private_files;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use super::Failure;

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
    pub fn new() -> Result<TemporaryFolder, Failure> {
        let parent = std::env::temp_dir();
        sweep_leftovers();
        TemporaryFolder::create_in(&parent)
            .map_err(|e| Failure::Failed(format!("{}: no temporary folder: {e}", parent.display())))
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

/// Paths that are removed when a signal ends the command.
static REMOVED_ON_SIGNAL: LazyLock<Mutex<Vec<PathBuf>>> = LazyLock::new(Mutex::default);

/// A file or folder that a signal removes, as long as this value lives.
pub struct TemporaryPath(PathBuf);

impl TemporaryPath {
    /// Registers a path for removal.
    pub fn new(path: &Path) -> TemporaryPath {
        static WATCH: Once = Once::new();
        // without the signal handler, destructors still remove the path
        WATCH.call_once(|| drop(install_signal_cleanup()));
        REMOVED_ON_SIGNAL.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
        TemporaryPath(path.to_owned())
    }
}

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        REMOVED_ON_SIGNAL.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.0);
    }
}

/// Starts a thread that waits for a signal that ends the command, cleans up and lets the signal end it.
fn install_signal_cleanup() -> io::Result<()> {
    let mut wanted = vec![SIGINT, SIGTERM];
    if !is_signal_ignored(SIGHUP) {
        wanted.push(SIGHUP);
    }
    let mut signals = Signals::new(wanted)?;
    std::thread::Builder::new()
        .name("signals".into())
        .stack_size(crate::commands::process_limits::SMALL_STACK_BYTES)
        .spawn(move || {
        for signal in signals.forever() {
            // held until the end, so that nothing new is created
            let paths = REMOVED_ON_SIGNAL.lock().unwrap_or_else(PoisonError::into_inner);
            paths.iter().for_each(|path| remove_path(path));
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

fn remove_path(path: &Path) {
    // another thread may add a file while the folder is removed
    for _ in 0..20 {
        let result = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        if result.is_ok() || !path.exists() {
            return;
        }
    }
}

/// True if the command was started with a signal ignored, as by `nohup`.
fn is_signal_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
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
