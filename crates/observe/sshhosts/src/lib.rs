//! Other hosts, watched over the `ssh` of this one: keys, jump hosts, shared connections and known hosts are its
//! business. One connection a host; nothing is installed there.
//!
//! Reading order: [`SshTarget`] (a host's name is checked), `collect.sh` (what runs there), `connection.rs` (which of
//! the three ways), [`HostStream`] (ticks and notes, whatever the way), `file_tree.rs` and `shell_ticks.rs` (the files
//! that a shell loop sends, read by the sampler as if they were this machine's).
//!
//! Nothing that a host sends is trusted: names of files must lie below `/proc`, `/sys` or `/etc`, sizes and numbers
//! have limits, and what is damaged ends the connection.

mod connection;
mod error;
mod file_tree;
mod host_stream;
mod program_copy;
mod shell_ticks;
mod space_columns;
mod target;

pub use connection::{AskWay, ConnectOptions, Connection, ConnectionKiller, OpenConnections};
pub use error::SshError;
pub use host_stream::HostStream;
pub use program_copy::ProgramCopy;
pub use target::{SshTarget, parse_hosts};

/// The text that runs on the other host, by its `sh`.
pub const COLLECT_SCRIPT: &str = include_str!("collect.sh");
