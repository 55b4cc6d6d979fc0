//! Known load: each class loads one part of a machine, at a settled share of what that part can do, so that what the
//! diagnosis should say is known beforehand.
//!
//! Reading order: `class` (the classes are data, in `classes.toml`), `loads` (what each does, as small steps of
//! workers), `pace` (how a share is held), `run` (what is the most, and then the share of it). Around a load stand
//! `cgroup` (its own), `relief` (more memory for a group that waits for it), `swap` (a swap file, where a class needs
//! one) and `safety` (when it stops by itself).
//!
//! Unsafe code: none.

#![forbid(unsafe_code)]

pub mod cgroup;
pub mod class;
pub mod loads;
pub mod pace;
mod relief;
pub mod run;
pub mod safety;
pub mod swap;

use std::path::{Path, PathBuf};

/// Why a load was not made, or ended.
#[derive(Debug, thiserror::Error)]
pub enum StressError {
    /// The request contradicts itself or the machine: said before anything is written.
    #[error("{0}")]
    Usage(String),
    /// This machine cannot make the load.
    #[error("{0}")]
    Unavailable(String),
    /// The system refused.
    #[error("{}: {what}: {source}", .path.display())]
    Io {
        /// The file or folder, or what stands for it.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The files of work.
    #[error(transparent)]
    Work(#[from] diskwright_workload::WorkError),
}

/// The system starts no more threads.
pub(crate) fn no_thread(source: std::io::Error) -> StressError {
    io(Path::new("threads"), "no more can be started")(source)
}

/// Names the file in an error of the system.
pub(crate) fn io<E: Into<std::io::Error>>(path: &Path, what: &'static str) -> impl FnOnce(E) -> StressError + use<E> {
    let path = path.to_path_buf();
    move |source| StressError::Io { path, what, source: source.into() }
}
