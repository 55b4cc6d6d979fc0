//! What goes wrong when logs are opened and read.

use std::io;
use std::path::PathBuf;

use diskwright_base::Problems;
use diskwright_datastore::StoreError;
use diskwright_hostfiles::private_files::PrivateFileError;
use diskwright_logs::LogError;
use diskwright_remote::RemoteError;
use diskwright_traces::TraceError;

/// Reason why logs cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// What the user said does not fit the logs, such as a disk that none of them has: wrong usage.
    #[error("{0}")]
    Usage(String),
    /// A file that describes the machine is not as it should be.
    #[error(transparent)]
    Description(#[from] Problems),
    /// A log has no tick.
    #[error("{name}: contains no ticks")]
    NoTicks {
        /// Name that the user gave.
        name: String,
    },
    /// Of several logs, none could be read; the reasons were reported.
    #[error("none of the logs could be read")]
    NoneReadable,
    /// The content came through a pipe and has been read already.
    #[error("{name}: can be read only once; give a file")]
    ReadOnce {
        /// Name that the user gave.
        name: String,
    },
    /// Logs of several machines, which cannot be one timeline.
    #[error("{name} is a log of {host}, but {other_name} is of {other_host}; give logs of one machine only")]
    OtherMachine {
        /// The first log.
        name: String,
        /// Its machine.
        host: String,
        /// The other log.
        other_name: String,
        /// The other machine.
        other_host: String,
    },
    /// No folder for a temporary log.
    #[error("{parent}: no temporary folder: {reason}")]
    NoTemporaryFolder {
        /// The system's folder for temporary files.
        parent: PathBuf,
        /// The system's reason.
        reason: PrivateFileError,
    },
    /// The filesystem of temporary files is full, and what to do about it.
    #[error("{0}")]
    NoSpace(String),
    /// The reading was ended by a signal.
    #[error("{name}: interrupted")]
    Stopped {
        /// The log that was read.
        name: String,
    },
    /// The import was ended by a signal.
    #[error("{name}: interrupted; {to} contains the part that was read")]
    Interrupted {
        /// The log that was read.
        name: String,
        /// The log that was written.
        to: PathBuf,
    },
    /// A file that the destination already has.
    #[error("{finding}; import it into a new folder, or use --again")]
    RepeatedImport {
        /// What was found.
        finding: String,
    },
    /// Anything else, with the file and what to do about it.
    #[error("{0}")]
    Refused(String),
    /// A log of another tool.
    #[error(transparent)]
    Foreign(#[from] LogError),
    /// A Diskwright log.
    #[error(transparent)]
    Log(#[from] StoreError),
    /// A request trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A metric store.
    #[error(transparent)]
    Store(#[from] RemoteError),
    /// A private file or folder.
    #[error(transparent)]
    PrivateFile(#[from] PrivateFileError),
    /// The operating system, about a file that the message names.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A note that is not as it should be.
    #[error(transparent)]
    Note(#[from] serde_json::Error),
}

impl IngestError {
    /// True if the user said something that does not fit, so that trying again does not help.
    pub fn is_usage(&self) -> bool {
        matches!(self, IngestError::Usage(_))
    }
}
