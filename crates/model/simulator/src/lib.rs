//! The simulator: predicts the performance of a disk subsystem under a load.
//!
//! Everything here is pure: virtual time in integer nanoseconds ([`Ns`]), one seed, no clock and no files.

pub mod analytic;
pub mod array;
pub mod cache;
pub mod calibrate;
pub mod catalogue;
pub mod confidence;
pub mod description_toml;
pub mod device;
pub mod diskspecs;
pub mod drive;
pub mod event_queue;
pub mod flash;
pub mod io;
pub mod load;
pub mod replay;
pub mod run;
pub mod sample_rows;
pub mod service_time;
pub mod solve;
pub mod station;
pub mod system;
pub mod theory;
pub mod volume;

/// A point in virtual time or a duration, nanoseconds.
pub type Ns = u64;

// the types that users of the crate start with
pub use array::ArrayLevel;
pub use device::DeviceModel;
pub use io::{BLOCK_BYTES, Io};
pub use run::{Component, ComponentKind, Simulation, SimulationReport, WorkloadReport};
pub use system::System;
