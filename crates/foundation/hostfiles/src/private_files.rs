//! Files that only their owner reads and writes, opened without following a link.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, OFlags, RenameFlags};

/// Reason why a folder or file is not used.
#[derive(Debug, thiserror::Error)]
pub enum PrivateFileError {
    /// Another user owns it and could replace our file.
    #[error("{path} belongs to another user (uid {owner})")]
    Owner {
        /// The folder or file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Every user may change its contents.
    #[error("{path} can be changed by every user (mode {mode:o})")]
    WritableByAll {
        /// The folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A link, a device or a pipe in place of a file or a folder.
    #[error("{path} is {found}")]
    WrongKind {
        /// The path.
        path: PathBuf,
        /// Description of the object, worded to follow "is".
        found: &'static str,
    },
    /// The system returned an error.
    #[error("{path}: {source}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
}

impl PrivateFileError {
    fn from_io(path: &Path) -> impl FnOnce(io::Error) -> PrivateFileError + '_ {
        |source| PrivateFileError::Io { path: path.to_owned(), source }
    }
}

/// Creates a folder that only its owner can read (0700), with its parents, or
/// accepts an existing one after [`check_folder_trust`].
///
/// # Errors
/// If it cannot be created or trusted.
pub fn create_folder(path: &Path) -> Result<(), PrivateFileError> {
    if let Err(error) = DirBuilder::new().mode(0o700).recursive(true).create(path) {
        // if a file or a dangling link is in its place, this error says so
        check_folder_trust(path)?;
        return Err(PrivateFileError::from_io(path)(error));
    }
    check_folder_trust(path)
}

/// Checks that nobody else can replace files in a folder: it belongs to this user or
/// to root, and is not writable by everybody. The folder itself may be reached by a link.
///
/// # Errors
/// With the reason if it cannot be trusted.
pub fn check_folder_trust(path: &Path) -> Result<(), PrivateFileError> {
    let found = fs::metadata(path).map_err(PrivateFileError::from_io(path))?;
    if !found.is_dir() {
        return Err(PrivateFileError::WrongKind { path: path.to_owned(), found: "not a folder" });
    }
    check_owner(path, found.uid())?;
    let mode = found.mode() & 0o7777;
    if mode & 0o002 != 0 {
        return Err(PrivateFileError::WritableByAll { path: path.to_owned(), mode });
    }
    Ok(())
}

/// Opens a file for reading and writing; a missing one is created with mode 0600.
/// A link is not followed, and only a regular file of this user or of root is opened.
///
/// # Errors
/// If it cannot be opened or trusted.
pub fn open(path: &Path) -> Result<File, PrivateFileError> {
    open_checked(path, OpenOptions::new().read(true).write(true).create(true).truncate(false))
}

/// Opens a file as [`open`] does, for appending, without reading.
///
/// # Errors
/// As [`open`].
pub fn open_append(path: &Path) -> Result<File, PrivateFileError> {
    open_checked(path, OpenOptions::new().append(true).create(true))
}

/// Opens a file as [`open`] does and empties it, after all checks.
///
/// # Errors
/// As [`open`].
pub fn create(path: &Path) -> Result<File, PrivateFileError> {
    let file = open(path)?;
    file.set_len(0).map_err(PrivateFileError::from_io(path))?;
    Ok(file)
}

/// Longest wait for a lock.
const MAX_LOCK_WAIT: Duration = Duration::from_millis(200);

/// Locks a file. A process that was just forked holds its parent's files until it
/// runs its own program, so a lock that another process holds is waited for briefly.
///
/// # Errors
/// If another process keeps it, or the filesystem has no locks.
pub fn lock_file(file: &File) -> Result<(), TryLockError> {
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if start.elapsed() < MAX_LOCK_WAIT => {
                std::thread::park_timeout(MAX_LOCK_WAIT / 20)
            }
            done => return done,
        }
    }
}

/// Renames a file if the new name is free.
///
/// # Errors
/// If the name is taken, or the filesystem cannot check and rename atomically.
pub fn rename_if_free(from: &Path, to: &Path) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// Opens a file of any owner for reading, without following a link.
///
/// # Errors
/// If it cannot be opened, or is not a regular file.
pub fn open_for_reading(path: &Path) -> Result<File, PrivateFileError> {
    let file = open_no_follow(path, OpenOptions::new().read(true))?;
    check_regular_file(path, &file)?;
    Ok(file)
}

fn open_checked(path: &Path, options: &mut OpenOptions) -> Result<File, PrivateFileError> {
    let file = open_no_follow(path, options.mode(0o600))?;
    let found = check_regular_file(path, &file)?;
    check_owner(path, found.uid())?;
    // another hard link to it may lie in a folder that others can read
    if found.nlink() > 1 {
        return Err(PrivateFileError::WrongKind {
            path: path.to_owned(),
            found: "a file with several names (hard links)",
        });
    }
    Ok(file)
}

fn open_no_follow(path: &Path, options: &mut OpenOptions) -> Result<File, PrivateFileError> {
    // NONBLOCK: opening a pipe must not wait; the pipe is refused as soon as it is open
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits();
    options.custom_flags(flags as i32).open(path).map_err(|error| match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_symlink() => {
            PrivateFileError::WrongKind { path: path.to_owned(), found: "a link, and links are not followed here" }
        }
        _ => PrivateFileError::from_io(path)(error),
    })
}

fn check_regular_file(path: &Path, file: &File) -> Result<fs::Metadata, PrivateFileError> {
    let found = file.metadata().map_err(PrivateFileError::from_io(path))?;
    match found.is_file() {
        true => Ok(found),
        false => Err(PrivateFileError::WrongKind { path: path.to_owned(), found: "not a regular file" }),
    }
}

/// Returns a path that reopens an open file, even if its name now leads
/// elsewhere or is gone.
#[must_use]
pub fn proc_fd_path(file: impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()).into()
}

fn check_owner(path: &Path, owner: u32) -> Result<(), PrivateFileError> {
    let ours = owner == 0 || owner == rustix::process::geteuid().as_raw();
    if ours { Ok(()) } else { Err(PrivateFileError::Owner { path: path.to_owned(), owner }) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn new_files_and_folders_are_private() {
        let bench = tempfile::tempdir().unwrap();
        let log = bench.path().join("a/log");
        create_folder(&log).unwrap();
        create_folder(&log).unwrap();
        assert_eq!(fs::metadata(&log).unwrap().mode() & 0o777, 0o700);
        create(&log.join("file")).unwrap().write_all(b"text").unwrap();
        open_append(&log.join("file")).unwrap().write_all(b" more").unwrap();
        assert_eq!(fs::read(log.join("file")).unwrap(), b"text more");
        assert_eq!(fs::metadata(log.join("file")).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn links_pipes_and_second_names_are_refused_and_untouched() {
        let bench = tempfile::tempdir().unwrap();
        let path = |name: &str| bench.path().join(name);
        fs::write(path("precious"), "precious").unwrap();
        symlink(path("precious"), path("link")).unwrap();
        symlink(path("nowhere"), path("dangling")).unwrap();
        fs::hard_link(path("precious"), path("second")).unwrap();
        for name in ["link", "dangling", "second"] {
            for opened in [create(&path(name)), open_append(&path(name)), open(&path(name))] {
                assert!(matches!(opened, Err(PrivateFileError::WrongKind { .. })), "{name}: {opened:?}");
            }
        }
        assert!(matches!(open_for_reading(&path("link")), Err(PrivateFileError::WrongKind { .. })));
        assert!(matches!(open_for_reading(Path::new("/dev/null")), Err(PrivateFileError::WrongKind { .. })));
        assert!(open_for_reading(&path("second")).is_ok());
        assert_eq!(fs::read(path("precious")).unwrap(), b"precious");
        assert!(!path("nowhere").exists());
    }

    #[test]
    fn world_writable_folders_are_refused() {
        let bench = tempfile::tempdir().unwrap();
        fs::set_permissions(bench.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(check_folder_trust(bench.path()), Err(PrivateFileError::WritableByAll { .. })));
        fs::set_permissions(bench.path(), fs::Permissions::from_mode(0o775)).unwrap();
        assert!(check_folder_trust(bench.path()).is_ok());
        fs::write(bench.path().join("file"), "").unwrap();
        assert!(matches!(create_folder(&bench.path().join("file")), Err(PrivateFileError::WrongKind { .. })));
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(bench.path(), Some(65_534), None).unwrap();
            assert!(matches!(check_folder_trust(bench.path()), Err(PrivateFileError::Owner { owner: 65_534, .. })));
        }
    }
}
