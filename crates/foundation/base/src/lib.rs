//! Types shared by every other crate: units, the counter catalogue, samples
//! (ticks, series, frames, notes), requests, distributions, topology, and the arithmetic of the source
//! documents. Nothing here reads a file, a clock or a device.

pub mod arithmetic;
pub mod byte_size;
pub mod capture;
pub mod catalogue;
pub mod ceiling;
pub mod checksum;
pub mod cloud_volume;
pub mod command_line;
pub mod counter_ids;
pub mod counter_plan;
pub mod database_activity;
pub mod diskstats;
pub mod frame;
pub mod glossary;
pub mod histogram;
pub mod host_event;
pub mod kernel_messages;
pub mod kernel_threads;
pub mod latency;
pub mod latency_series;
pub mod latency_view;
pub mod log_piece;
pub mod name_limit;
pub mod note;
pub mod problem;
pub mod process_place;
pub mod prometheus_names;
pub mod recording_cost;
pub mod request;
pub mod rng;
pub mod text;
pub mod timestamp;
pub mod toml_reader;
pub mod topology;
pub mod units;
pub mod user_input;
pub mod zipf;

pub use catalogue::{Catalogue, Counter, CounterKind};
pub use ceiling::Ceiling;
pub use cloud_volume::{CloudInstance, CloudVolume};
pub use counter_plan::{CounterPlan, CounterSummary};
pub use database_activity::DatabaseActivity;
pub use frame::{Frame, Schema, Series, Tick};
pub use histogram::Histogram;
pub use host_event::{EventKind, EventReader, HostEvent};
pub use latency::LatencyHistogram;
pub use latency_series::{LatencyColumns, LatencyOperation};
pub use latency_view::LatencyView;
pub use log_piece::LogPiece;
pub use note::{
    FileRow, Note, ProcessRow, ProcessTable, RequesterRow, RequesterTable, SleepRow, ThreadRow, stable_task_name,
};
pub use problem::{Problem, ProblemSource, Problems};
pub use process_place::{ProcessContainer, ProcessPlace, ProcessPod};
pub use recording_cost::RecordingCost;
pub use request::{Operation, Request};
pub use rng::Rng;
pub use topology::{Device, DeviceClass, DeviceKind, Filesystem, RaidLevel, Topology};
