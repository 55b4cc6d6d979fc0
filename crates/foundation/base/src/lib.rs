//! Types shared by every other crate: units, the counter catalogue, samples
//! (ticks, series, frames, notes), requests, distributions, topology, and the arithmetic of the source
//! documents. Nothing here reads a file, a clock or a device.

pub mod arithmetic;
pub mod catalogue;
pub mod ceiling;
pub mod diskstats;
pub mod exposition;
pub mod frame;
pub mod glossary;
pub mod histogram;
pub mod latency;
pub mod latency_series;
pub mod latency_view;
pub mod moment;
pub mod note;
pub mod piece;
pub mod plan;
pub mod problem;
pub mod random;
pub mod request;
pub mod text;
pub mod toml_reader;
pub mod topology;
pub mod units;
pub mod words;
pub mod zipf;

pub use catalogue::{Catalogue, Counter, CounterKind};
pub use ceiling::Ceiling;
pub use frame::{Frame, Schema, Series, Tick};
pub use histogram::Histogram;
pub use latency::LatencyHistogram;
pub use latency_series::{LatencyColumns, LatencyOperation};
pub use latency_view::LatencyView;
pub use note::{AskerRow, AskerTable, FileRow, Note, ProcessRow, ProcessTable, SleepRow, ThreadRow, lasting_name};
pub use piece::LogPiece;
pub use plan::{CounterPlan, CounterSummary};
pub use problem::{Problem, ProblemSource, Problems};
pub use random::Rng;
pub use request::{Operation, Request};
pub use topology::{Device, DeviceClass, DeviceKind, Filesystem, RaidLevel, Topology};
