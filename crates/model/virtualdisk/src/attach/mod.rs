//! Makes an export a block device of this machine, and undoes it.
//!
//! `attach` ([`front`]) chooses a path ([`choice`]), opens a folder of the
//! [`journal`] and starts a process of the same program that stays
//! ([`keep`]). That one makes the device ([`kernel`] by the kernel's own NBD
//! client and [`netlink`], [`fuse`] by a [`file`] over FUSE and a loop device), waits for the
//! end of the server or for a signal, and undoes everything. What a killed one
//! left behind is undone from the journal ([`detach`]): nothing that is made
//! needs memory to be found again, because it carries its folder's name.

pub mod choice;
pub mod detach;
pub mod export;
pub mod file;
pub mod front;
pub mod fuse;
pub mod journal;
pub mod keep;
pub mod kernel;
pub mod netlink;
mod talk;
mod tools;

use std::fmt;
use std::io;
use std::path::PathBuf;

use diskwright_hostfiles::private::Distrust;
use serde::{Deserialize, Serialize};

/// Name and version of [`AttachReport`] as JSON.
pub const SCHEMA: &str = "diskwright.attach/1";

/// A path into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttachMethod {
    /// The kernel's NBD client, module `nbd`.
    Nbd,
    /// The kernel's block devices in user space.
    Ublk,
    /// A file over FUSE, and a loop device over it.
    Fuse,
}

impl fmt::Display for AttachMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AttachMethod::Nbd => "nbd",
            AttachMethod::Ublk => "ublk",
            AttachMethod::Fuse => "fuse",
        })
    }
}

/// A device that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// The block device, `/dev/loop3`.
    pub device: String,
    /// The path into the kernel.
    pub by: AttachMethod,
    /// The export.
    pub uri: String,
    /// Its size; what does not fill a block of 512 bytes at its end is cut off.
    pub bytes: u64,
    /// Whether the device refuses writes.
    pub read_only: bool,
    /// Connections to the server.
    pub connections: u32,
    /// Requests that the server sees at the same time, at most.
    pub in_flight_at_most: u32,
    /// What is different from a disk of one's own, in sentences.
    pub limits: Vec<String>,
    /// The process that looks after it.
    pub pid: u32,
}

/// Why a device was not made, or not undone.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Block devices are the administrator's.
    #[error("attaching and detaching require root; run diskwright with sudo")]
    NotRoot,
    /// A program is not installed.
    #[error("{program} is not installed; install the package {package} (Debian: apt-get install {package})")]
    Missing {
        /// Its name.
        program: &'static str,
        /// Debian's package that has it.
        package: &'static str,
    },
    /// A path does not work on this machine.
    #[error("--by {by} does not work here: {why}")]
    Path {
        /// The path.
        by: AttachMethod,
        /// Why not.
        why: String,
    },
    /// No path works on this machine.
    #[error("no attach method works on this machine: {0}")]
    NoPath(String),
    /// The server does not answer as one of NBD.
    #[error("{uri}: {why}")]
    Server {
        /// The export.
        uri: String,
        /// What went wrong.
        why: String,
    },
    /// The journal cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    Journal {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Somebody else could decide what the journal says.
    #[error(transparent)]
    Distrust(#[from] Distrust),
    /// A step did not work.
    #[error("{step}: {why}")]
    Step {
        /// What was tried.
        step: String,
        /// What came of it.
        why: String,
    },
    /// The process that was to stay with the device could not make it.
    #[error("{0}")]
    Told(String),
    /// A step did not end in time.
    #[error("{step}: not finished after {seconds} s")]
    Slow {
        /// What was tried.
        step: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// What is to be detached holds data that the server does not take.
    #[error("{device}: its server does not complete a flush; --force discards what it has not written")]
    Hangs {
        /// The device.
        device: String,
    },
    /// What is to be detached is in use.
    #[error("{device} is in use ({why}); end that first, or use --force, which causes I/O errors there")]
    InUse {
        /// The device.
        device: String,
        /// By what.
        why: String,
    },
    /// What is to be detached is none of ours.
    #[error("{device} was not made by `disk attach`{made}; nothing was changed")]
    NotOurs {
        /// The device.
        device: String,
        /// What was.
        made: String,
    },
}

impl AttachError {
    fn step(step: impl Into<String>, why: impl fmt::Display) -> AttachError {
        AttachError::Step { step: step.into(), why: why.to_string() }
    }
}
