//! Stores of metrics over HTTP: Prometheus, VictoriaMetrics, Thanos, Mimir.
//!
//! - `client`: one request, bounded in time and size; what the store says when
//!   it refuses is part of the error.
//! - `answer`: points of a query's answer, put on a grid of ticks.
//! - `query`: from the vocabulary to PromQL that all of these stores take.
//! - `host`: one machine as a log (frames and notes).
//! - `fleet`: many machines at a coarse step, chunk by chunk.

mod answer;
mod client;
mod error;
pub mod fleet;
pub mod host;
mod query;

pub use answer::{Grid, Matrix, Row, matrix};
pub use client::{Access, Store};
pub use error::RemoteError;
pub use query::Selector;
