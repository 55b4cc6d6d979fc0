//! The virtual disk: a described system ([`diskwright_simulator::system`]) that
//! real programs use, in the time that it would take.
//!
//! `nbd/` is the protocol, without sockets; `content/` is what lies on the
//! disks, arrays with their parity; `server/` puts both behind a socket and
//! lets the simulation run against the wall clock; `attach/` makes an export a
//! block device of the kernel.

pub mod attach;
pub mod content;
pub mod nbd;
pub mod server;
