//! Errors of opening, reading and writing a log, each with the place where it happened.

use std::io;
use std::path::{Path, PathBuf};

use diskwright_hostfiles::private_files::PrivateFileError;

/// Why a log could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused; the source says why.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The directory or file may not be read or written by this user.
    #[error("{path}: permission denied", path = path.display())]
    Permission {
        /// The file or directory.
        path: PathBuf,
    },
    /// A folder or file that another user could replace, or a link, pipe or
    /// device where a regular file is expected.
    #[error("{0}; a log is written only where no other user can change it")]
    Distrust(PrivateFileError),
    /// A link, pipe or device where a file of the log is expected.
    #[error("{0}")]
    NotAFile(PrivateFileError),
    /// Another recorder writes to this log.
    #[error("{path}: another recorder writes to this log{}", holder_suffix(*pid), path = dir.display())]
    LockHeld {
        /// The log's directory.
        dir: PathBuf,
        /// Process id of the other recorder, if its lock file contains one.
        pid: Option<u32>,
    },
    /// The file or directory is not a diskwright log.
    #[error("{path}: not a diskwright log: at byte {offset} expected {expected}, found {found}", path = path.display())]
    NotALog {
        /// The file, or the first foreign file of a directory.
        path: PathBuf,
        /// Byte offset in the file.
        offset: u64,
        /// Content that a log has there.
        expected: &'static str,
        /// Content that was found there.
        found: String,
    },
    /// The file was written by a later release.
    #[error("{path}: byte {offset}: log version {found}; this program reads up to {known}", path = path.display())]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Byte offset in the file.
        offset: u64,
        /// The version it names.
        found: u16,
        /// The newest version that this program reads.
        known: u16,
    },
    /// The schema has more series than a log can hold.
    #[error("the schema has {series} series; a log holds at most {max}")]
    TooWide {
        /// Series of the schema.
        series: usize,
        /// Largest number of series that a log holds.
        max: usize,
    },
}

/// Formats the process id of the lock's holder as a suffix, or nothing where it is not known.
fn holder_suffix(pid: Option<u32>) -> String {
    pid.map_or(String::new(), |pid| format!(" (process {pid})"))
}

impl StoreError {
    /// Adds the path to an error of the operating system.
    pub(crate) fn from_io(path: &Path, source: io::Error) -> StoreError {
        match source.kind() {
            io::ErrorKind::PermissionDenied => StoreError::Permission { path: path.to_owned() },
            _ => StoreError::Io { path: path.to_owned(), source },
        }
    }

    /// Converts the reason why a file or folder is not trusted.
    pub(crate) fn from_distrust(path: &Path, distrust: PrivateFileError) -> StoreError {
        match distrust {
            PrivateFileError::Io { source, .. } => StoreError::from_io(path, source),
            kind @ PrivateFileError::WrongKind { .. } => StoreError::NotAFile(kind),
            other => StoreError::Distrust(other),
        }
    }

    /// Returns true if the file does not exist (any more).
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
