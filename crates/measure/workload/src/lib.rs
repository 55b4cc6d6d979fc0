//! Workloads like those of real programs, on real files, with known load and verified results.
//!
//! - [`sort`]: an external merge sort (SAS 1998), from rows to sorted rows, with timed phases.
//! - [`users`]: closed users with think times, or operations at a fixed rate; latency without coordinated omission.
//!   Their workloads: [`transactions`], [`table`] (bulk load and scan), [`tree`] (file server and backup reader) and
//!   [`mail`].
//! - [`files`]: files of a workload, without a name if the filesystem supports that, so that nothing is left behind; a
//!   workload that needs more space than is free is rejected before anything is written.
//! - [`clock`]: elapsed and processor time of steps.
//!
//! The crate writes only into folders that are passed to it. It does not depend on the command line or the terminal.

pub mod clock;
pub mod files;
pub mod mail;
pub mod page;
pub mod sort;
pub mod table;
pub mod transactions;
pub mod tree;
pub mod users;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Error of a workload.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The options contradict each other, or the machine cannot satisfy them; reported before anything is written.
    #[error("{0}")]
    Usage(String),
    /// Too little free space.
    #[error("{}: {needed} bytes are needed, but {free} are free, of which {reserve} must stay free; nothing was \
             written",
        .folder.display())]
    NoRoom {
        /// A folder on the filesystem that is too small.
        folder: PathBuf,
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        free: u64,
        /// Bytes that must stay free.
        reserve: u64,
    },
    /// An operating system call failed.
    #[error("{}: {operation}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Description of the failed operation.
        operation: &'static str,
        /// Error of the system.
        source: std::io::Error,
    },
    /// Data read back differs from the data written.
    #[error("{0}")]
    VerificationFailed(String),
    /// The workload was stopped.
    #[error("interrupted; nothing was left behind")]
    Stopped,
}

/// Returns [`WorkError::Stopped`] if the stop flag is set.
pub(crate) fn check_stop(stop: &AtomicBool) -> Result<(), WorkError> {
    if stop.load(Ordering::Relaxed) { Err(WorkError::Stopped) } else { Ok(()) }
}

/// Creates the error for a thread that cannot be started.
pub(crate) fn thread_error(source: std::io::Error) -> WorkError {
    io_error(std::path::Path::new("threads"), "no more can be started")(source)
}

/// Returns a function that adds the path and the failed operation to an error of the system.
pub(crate) fn io_error<E: Into<std::io::Error>>(
    path: &std::path::Path,
    operation: &'static str,
) -> impl FnOnce(E) -> WorkError + use<E> {
    let path = path.to_path_buf();
    move |source| WorkError::Io { path, operation, source: source.into() }
}
