//! Attaches an export as a block device of this machine, and detaches it.
//!
//! `attach` ([`launcher`]) chooses a method ([`method_choice`]), opens a folder of the [`journal`]
//! and starts a keeper process of the same program ([`keeper`]). The keeper makes the device
//! ([`kernel_nbd`] by the kernel's own NBD client and [`netlink`], [`fuse`] by a [`fuse_file`] over
//! FUSE and a loop device), waits for the end of the server or for a signal, and undoes everything.
//! What a killed keeper leaves behind is removed with the help of the journal ([`detach`]): everything
//! that a keeper makes has the name of its folder, so that no other records are needed to find it.

mod child_processes;
pub mod detach;
pub mod export_address;
pub mod fuse;
pub mod fuse_file;
pub mod journal;
pub mod keeper;
pub mod kernel_nbd;
pub mod launcher;
pub mod method_choice;
mod nbd_stream;
pub mod netlink;

use std::fmt;
use std::io;
use std::path::PathBuf;

use diskwright_hostfiles::private_files::PrivateFileError;
use serde::{Deserialize, Serialize};

/// Name and version of [`AttachReport`] as JSON.
pub const SCHEMA: &str = "diskwright.attach/1";

/// A method to attach an export.
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

/// An attached device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// The block device, `/dev/loop3`.
    pub device: String,
    /// The attach method.
    pub by: AttachMethod,
    /// The export.
    pub uri: String,
    /// Its size, bytes; a partial block of 512 bytes at the end is cut off.
    pub bytes: u64,
    /// The device refuses writes.
    pub read_only: bool,
    /// Connections to the server.
    pub connections: u32,
    /// Largest number of requests in flight at the server.
    pub in_flight_at_most: u32,
    /// Differences from a local disk, in sentences.
    pub limits: Vec<String>,
    /// Process id of its keeper.
    pub pid: u32,
}

/// Reason why a device was not attached, or not detached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Block devices require administrator privileges.
    #[error("attaching and detaching require root; run diskwright with sudo")]
    NotRoot,
    /// A program is not installed.
    #[error("{program} is not installed; install the package {package} (Debian: apt-get install {package})")]
    Missing {
        /// Its name.
        program: &'static str,
        /// Debian's package that contains it.
        package: &'static str,
    },
    /// A method does not work on this machine.
    #[error("--by {by} does not work here: {why}")]
    Path {
        /// The method.
        by: AttachMethod,
        /// The reason.
        why: String,
    },
    /// No method works on this machine.
    #[error("no attach method works on this machine: {0}")]
    NoPath(String),
    /// The server does not behave as an NBD server.
    #[error("{uri}: {why}")]
    Server {
        /// The export.
        uri: String,
        /// The fault.
        why: String,
    },
    /// The journal cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    Journal {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another user could have changed the journal.
    #[error(transparent)]
    Distrust(#[from] PrivateFileError),
    /// A step did not work.
    #[error("{step}: {why}")]
    Step {
        /// The operation that failed.
        step: String,
        /// Its error.
        why: String,
    },
    /// The keeper process could not make the device.
    #[error("{0}")]
    KeeperFailed(String),
    /// A step did not end in time.
    #[error("{step}: not finished after {seconds} s")]
    Slow {
        /// The operation that did not end.
        step: String,
        /// Time waited, seconds.
        seconds: u64,
    },
    /// The device to detach holds data that the server does not accept.
    #[error("{device}: its server does not complete a flush; --force discards what it has not written")]
    Hangs {
        /// The device.
        device: String,
    },
    /// The device to detach is in use.
    #[error("{device} is in use ({why}); end that first, or use --force, which causes I/O errors there")]
    InUse {
        /// The device.
        device: String,
        /// Its users.
        why: String,
    },
    /// The device to detach is not one of ours.
    #[error("{device} was not made by `disk attach`{made}; nothing was changed")]
    NotOurs {
        /// The device.
        device: String,
        /// Text about the devices that are.
        made: String,
    },
}

impl AttachError {
    fn step_error(step: impl Into<String>, why: impl fmt::Display) -> AttachError {
        AttachError::Step { step: step.into(), why: why.to_string() }
    }
}
