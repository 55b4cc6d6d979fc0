//! The virtual disk: a described system ([`diskwright_simulator::system`]) that real programs use,
//! with the response times of that system.
//!
//! `nbd/` is the protocol, without sockets; `content/` is the disks' content, including arrays with
//! their parity; `server/` serves both on a socket and runs the simulation against the wall clock;
//! `attach/` makes an export a block device of the kernel.

pub mod attach;
pub mod content;
pub mod nbd;
pub mod server;
