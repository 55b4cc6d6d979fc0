//! The words every other crate speaks: units, the counter catalogue, samples
//! (ticks, series, frames, notes), requests, distributions, topology, and the arithmetic of the source
//! documents. Nothing here reads a file, a clock or a device.

pub mod arithmetic;
pub mod catalogue;
pub mod ceiling;
pub mod exposition;
pub mod frame;
pub mod histogram;
pub mod note;
pub mod plan;
pub mod random;
pub mod request;
pub mod topology;
pub mod units;
pub mod words;
pub mod zipf;

pub use catalogue::{Catalogue, Counter, Kind};
pub use ceiling::Ceiling;
pub use frame::{Frame, Schema, Series, Tick};
pub use histogram::Histogram;
pub use note::{Note, ProcessRow, ProcessTable};
pub use plan::{Plan, Summary};
pub use random::Dice;
pub use request::{Operation, Request};
pub use topology::{Class, Device, DeviceKind, Filesystem, Level, Topology};
