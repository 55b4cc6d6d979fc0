//! Exports behind a socket, in the time of the described system.
//!
//! One thread does everything: it waits for the next byte of a client or for
//! the next moment of the simulation, whichever is first, so that no request
//! has to go from thread to thread. `client.rs` is one connection, `engine.rs`
//! the requests under way, `clock.rs` virtual time, `wake.rs` the waiting,
//! `orders.rs` what can be changed while it serves, `status.rs` what it tells.

mod changes;
mod client;
mod clock;
mod engine;
mod exports;
mod listen;
mod obey;
mod orders;
mod service;
mod status;
mod sync;
mod wake;

use std::path::PathBuf;

pub use exports::{DiskExport, exports};
pub use listen::{ListenAddress, beside as control_beside, folder, running};
pub use orders::{DiskCommand, FailureScope, give};
pub use service::{DiskServer, ServeOptions};

use crate::content::ContentError;

/// Why a disk is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The system cannot be simulated.
    #[error(transparent)]
    System(#[from] diskwright_simulator::run::CompileError),
    /// Its content cannot be had.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// There is nothing to serve.
    #[error("the system has no drive, so there is nothing to serve")]
    Nothing,
    /// A size that an export cannot have.
    #[error("`{export}` holds {holds} bytes and cannot be served with {asked}")]
    Size {
        /// The export.
        export: String,
        /// Its bytes.
        holds: u64,
        /// What was asked for.
        asked: u64,
    },
    /// A socket that cannot be had.
    #[error("{place}: {because}")]
    Listen {
        /// Which.
        place: String,
        /// Why.
        because: String,
    },
    /// An order that was not carried out.
    #[error("{}: {because}", control.display())]
    Order {
        /// To whom.
        control: PathBuf,
        /// Why.
        because: String,
    },
    /// The kernel refuses something that servers need.
    #[error("{what}: {error}")]
    Kernel {
        /// What.
        what: &'static str,
        /// What it says.
        error: std::io::Error,
    },
    /// Whoever takes the samples could not.
    #[error("{0}")]
    Samples(String),
}
