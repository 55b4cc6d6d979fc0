//! The simulator: predicts the performance of a disk subsystem under a load.
//!
//! The crate is pure: virtual time in integer nanoseconds ([`Ns`]), one seed, no clock and no files.
//!
//! The modules, in reading order. A request and the parts that serve it:
//!
//! - [`io`]: a request to a drive, an array or a volume
//! - [`event_queue`]: future events in the order of time
//! - [`service_time`]: distributions of a service time
//! - [`station`]: equal servers with one queue in front, and their statistics
//! - [`drive`]: a mechanical drive
//! - [`flash`]: an SSD
//! - [`volume`]: a cloud volume with token buckets
//! - [`device`]: any of these as the end point of requests
//! - [`array`]: disk arrays, their address mapping and plans of member I/Os
//! - [`cache`]: the block cache of a host or a controller
//!
//! A system and its run:
//!
//! - [`load`]: the requests that users and programs issue
//! - [`system`]: the description of a system, as data
//! - [`description_toml`]: the reader of descriptions in TOML
//! - [`run`]: the event loop
//! - [`sample_rows`]: samples of a run, named like those of a real machine
//! - [`confidence`]: the precision of a simulated mean
//!
//! Formulas in place of a run:
//!
//! - [`solve`]: single queues in closed form, and mean value analysis
//! - [`analytic`]: a whole system, solved approximately
//! - [`theory`]: arms, stripes and failures in the literature
//!
//! Real devices:
//!
//! - [`catalogue`]: drives with published figures
//! - [`diskspecs`]: the drive files of DiskSim 4.0
//! - [`calibrate`]: a description of a device, derived from measurements
//! - [`replay`]: a measured trace on a simulated drive

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

// the types with which users of the crate start
pub use array::ArrayLevel;
pub use device::DeviceModel;
pub use io::{BLOCK_BYTES, Io};
pub use run::{Component, ComponentKind, Simulation, SimulationReport, WorkloadReport};
pub use system::System;
