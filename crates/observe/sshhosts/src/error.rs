//! Why a host could not be asked.

use std::io;
use std::path::PathBuf;

/// Why a host could not be asked, or stopped answering.
#[derive(Debug, thiserror::Error)]
pub enum SshError {
    /// The name is none that `ssh` may be given.
    #[error("`{name}` is no host: {because}")]
    Target {
        /// The name.
        name: String,
        /// What is wrong with it.
        because: &'static str,
    },
    /// There is no `ssh` here.
    #[error("no `ssh` on PATH (install openssh-client)")]
    NoSsh,
    /// `ssh` could not be started, or its pipes failed.
    #[error("ssh: {0}")]
    Io(#[from] io::Error),
    /// `ssh` ended before the host answered.
    #[error("ssh: {0}")]
    Refused(String),
    /// The host did not answer in time.
    #[error("no answer within {0} s")]
    Silent(u64),
    /// The host answered with something else than the collection does.
    #[error("its answer is not understood: {0}")]
    Answer(String),
    /// Neither our program nor a shell loop can do it there.
    #[error("{0}")]
    NoWay(String),
    /// The program to copy cannot be read, or is none.
    #[error("{path}: {because}", path = path.display())]
    Copy {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        because: String,
    },
}
