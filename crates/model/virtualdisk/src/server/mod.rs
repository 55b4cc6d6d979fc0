//! Serves exports on a socket, at the speed of the described system.
//!
//! One thread does everything: it waits for the next byte of a client or for the next moment of the
//! simulation, whichever is first, so that no request has to go from thread to thread. `service.rs`
//! has its main loop, `client.rs` handles one connection, `engine.rs` the requests in flight,
//! `clock.rs` virtual time, `event_waiter.rs` the waiting, `control.rs` and `command_execution.rs`
//! the commands that change a running disk, `drive_changes.rs` their effects on drives,
//! `flush_thread.rs` flushes of the backing file, `status.rs` the status report.

mod client;
mod clock;
mod command_execution;
mod control;
mod drive_changes;
mod engine;
mod event_waiter;
mod exports;
mod flush_thread;
mod listen;
mod service;
mod status;

use std::path::PathBuf;

pub use control::{DiskCommand, FailureScope, send_command};
pub use exports::{DiskExport, list_exports};
pub use listen::{ListenAddress, control_path_beside as control_beside, running_servers, socket_folder};
pub use service::{DiskServer, ServeOptions};

use crate::content::ContentError;

/// Reason for which a disk cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The system cannot be simulated.
    #[error(transparent)]
    System(#[from] diskwright_simulator::run::CompileError),
    /// Its content is not available.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The system has no drive.
    #[error("the system has no drive, so there is nothing to serve")]
    NoDrive,
    /// An export size that is not possible.
    #[error("`{export}` holds {available} bytes and cannot be served with {requested}")]
    Size {
        /// Name of the export.
        export: String,
        /// Its size, bytes.
        available: u64,
        /// The requested size, bytes.
        requested: u64,
    },
    /// A socket that cannot be opened.
    #[error("{address}: {reason}")]
    Listen {
        /// Address of the socket.
        address: String,
        /// Reason for which it cannot be opened.
        reason: String,
    },
    /// A command that was not executed.
    #[error("{}: {reason}", control.display())]
    Command {
        /// The control socket.
        control: PathBuf,
        /// Reason for which the command was not executed.
        reason: String,
    },
    /// The kernel refuses an operation that servers need.
    #[error("{operation}: {error}")]
    Kernel {
        /// The operation.
        operation: &'static str,
        /// The kernel's error.
        error: std::io::Error,
    },
    /// The consumer of the samples failed.
    #[error("{0}")]
    Samples(String),
}
