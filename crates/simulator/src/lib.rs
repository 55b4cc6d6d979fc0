//! The simulator: predicts what a disk subsystem does under a load.
//!
//! Everything here is pure: virtual time in integer nanoseconds ([`Ns`]), one
//! seed, no clock and no files.

pub mod array;
pub mod confidence;
pub mod diskspecs;
pub mod drive;
pub mod events;
pub mod io;
pub mod load;
pub mod replay;
pub mod solve;
pub mod station;
pub mod text;
pub mod theory;

/// A moment or a length of virtual time, nanoseconds.
pub type Ns = u64;
