//! The virtual disk: real programs use a described system ([`diskwright_simulator::system`]) as a
//! disk, with the response times of that system.
//!
//! `nbd/` is the protocol, without sockets; `content/` is the disks' content, including arrays with
//! their parity; `server/` serves both on a socket and runs the simulation against the wall clock;
//! `attach/` makes an export a block device of the kernel.

pub mod attach;
pub mod content;
pub mod nbd;
pub mod server;
