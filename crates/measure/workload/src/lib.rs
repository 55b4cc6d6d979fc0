//! Work as programs do it, on real files, with known load and checked results.
//!
//! - [`sort`]: an external merge sort (SAS 1998), rows in, sorted rows out, phases timed.
//! - [`users`]: users who think and ask, or operations that are due; honest latency. [`transactions`], [`table`] (bulk
//!   load and scan), [`tree`] (file server and backup reader) and [`mail`] are what they do.
//! - [`files`]: the files that work needs: without a name where the filesystem can do that, so that
//!   nothing is left behind, and refused before anything is written where there is no room.
//! - [`clock`]: how long a step took, and how much of that a processor worked.
//!
//! Writes only into folders that it is given. Knows no command line and no terminal.

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

/// Why work could not be done.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The request contradicts itself or the machine: said before anything is written.
    #[error("{0}")]
    Usage(String),
    /// There is no room.
    #[error("{}: {needed} bytes are needed, but {free} are free, of which {reserve} must stay free; nothing was \
             written",
        .folder.display())]
    NoRoom {
        /// A folder on the filesystem that is too small.
        folder: PathBuf,
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
        /// Bytes.
        reserve: u64,
    },
    /// The system refused.
    #[error("{}: {what}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// What came out is not what went in.
    #[error("{0}")]
    Wrong(String),
    /// Somebody asked to stop.
    #[error("interrupted; nothing was left behind")]
    Stopped,
}

/// Whether to go on with work that somebody may ask to stop.
pub(crate) fn go_on(stop: &AtomicBool) -> Result<(), WorkError> {
    if stop.load(Ordering::Relaxed) { Err(WorkError::Stopped) } else { Ok(()) }
}

/// The system starts no more threads.
pub(crate) fn no_thread(source: std::io::Error) -> WorkError {
    io(std::path::Path::new("threads"), "no more can be started")(source)
}

/// Names the file in an error of the system.
pub(crate) fn io<E: Into<std::io::Error>>(
    path: &std::path::Path,
    what: &'static str,
) -> impl FnOnce(E) -> WorkError + use<E> {
    let path = path.to_path_buf();
    move |source| WorkError::Io { path, what, source: source.into() }
}
