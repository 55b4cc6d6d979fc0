//! Known load: each class loads one part of a host, at a set share of the part's maximum, so that the correct verdict
//! of the diagnosis is known beforehand.
//!
//! Reading order: `class` (classes as data, in `classes.toml`), `loads` (their workers, which do small steps), `pace`
//! (holding a share of the maximum), `run` (measuring the maximum, and running at a share of it). Around a load:
//! `cgroup` (its cgroup), `memory_relief` (a higher limit for a group that waits for memory), `swap` (a swap file, if a
//! class needs one) and `safety` (conditions that stop a load).
//!
//! Unsafe code: none.

#![forbid(unsafe_code)]

pub mod cgroup;
pub mod class;
pub mod loads;
mod memory_relief;
pub mod pace;
pub mod run;
pub mod safety;
pub mod swap;

use std::path::{Path, PathBuf};

/// Error of a load.
#[derive(Debug, thiserror::Error)]
pub enum StressError {
    /// The request contradicts itself or the host; reported before anything is written.
    #[error("{0}")]
    Usage(String),
    /// The load is impossible on this host.
    #[error("{0}")]
    Unavailable(String),
    /// An operating system call failed.
    #[error("{}: {operation}: {source}", .path.display())]
    Io {
        /// The file or folder, or a word for what has no path, such as `threads`.
        path: PathBuf,
        /// Description of the failed operation.
        operation: &'static str,
        /// Error of the system.
        source: std::io::Error,
    },
    /// Error of a work file.
    #[error(transparent)]
    Work(#[from] diskwright_workload::WorkError),
}

/// Creates the error for a thread that cannot be started.
pub(crate) fn thread_error(source: std::io::Error) -> StressError {
    io_error(Path::new("threads"), "no more can be started")(source)
}

/// Adds the path and the failed operation to an error of the system.
pub(crate) fn io_error<E: Into<std::io::Error>>(
    path: &Path,
    operation: &'static str,
) -> impl FnOnce(E) -> StressError + use<E> {
    let path = path.to_path_buf();
    move |source| StressError::Io { path, operation, source: source.into() }
}
