//! What can go wrong with a log, each with the place where it did.

use std::io;
use std::path::{Path, PathBuf};

use diskwright_hostfiles::private::Distrust;

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
    /// A folder or file that somebody else could exchange, or a link, a pipe or
    /// a device in the place of a file.
    #[error("{0}; a log is written only where no other user can change it")]
    Distrust(Distrust),
    /// A link, a pipe or a device in the place of a file of the log.
    #[error("{0}")]
    NotAFile(Distrust),
    /// Another recorder writes to this log.
    #[error("{path}: another recorder writes to this log{}", by(*pid), path = dir.display())]
    LockHeld {
        /// The log's directory.
        dir: PathBuf,
        /// The other recorder's process id, where its lock file tells.
        pid: Option<u32>,
    },
    /// The file or directory is no log of ours.
    #[error("{path}: not a diskwright log: at byte {offset} expected {expected}, found {found}", path = path.display())]
    NotALog {
        /// The file, or the first foreign file of a directory.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// What a log has there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// The file was written by a later release.
    #[error("{path}: byte {offset}: log version {found}; this program reads up to {known}", path = path.display())]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// The version it names.
        found: u16,
        /// The newest version that this program reads.
        known: u16,
    },
    /// The caller's rows or names cannot be stored.
    #[error("the schema has {series} series; a log holds at most {most}")]
    TooWide {
        /// Series of the schema.
        series: usize,
        /// Series that a log takes.
        most: usize,
    },
}

fn by(pid: Option<u32>) -> String {
    pid.map_or(String::new(), |pid| format!(" (process {pid})"))
}

impl StoreError {
    /// Puts the place to an error of the operating system.
    pub(crate) fn io(path: &Path, source: io::Error) -> StoreError {
        match source.kind() {
            io::ErrorKind::PermissionDenied => StoreError::Permission { path: path.to_owned() },
            _ => StoreError::Io { path: path.to_owned(), source },
        }
    }

    /// Tells why a file or folder is not used.
    pub(crate) fn distrust(path: &Path, distrust: Distrust) -> StoreError {
        match distrust {
            Distrust::Io { source, .. } => StoreError::io(path, source),
            kind @ Distrust::Kind { .. } => StoreError::NotAFile(kind),
            other => StoreError::Distrust(other),
        }
    }

    /// True where the file is not there (any more).
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
