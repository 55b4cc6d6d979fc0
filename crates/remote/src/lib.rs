//! Stores of metrics over HTTP: Prometheus, VictoriaMetrics, Thanos, Mimir.
//!
//! - `client`: one request, bounded in time and size; what the store says when
//!   it refuses is part of the error.
//! - `answer`: points of a query's answer, put on a grid of ticks.
//! - `query`: from the vocabulary to PromQL that all of these stores take.
//! - `host`: one machine as a log (frames and notes).
//! - `fleet`: many machines at a coarse step, chunk by chunk.
//! - `feed`, `write`, `serve`: the other way: a recorder's ticks as named series,
//!   to a store by remote write, or for a scraper at `/metrics`.

pub mod answer;
mod client;
mod error;
pub mod feed;
pub mod fleet;
pub mod host;
mod query;
mod serve;
mod write;

pub use answer::{Grid, Matrix, Row, matrix};
pub use client::{Access, Store};
pub use error::RemoteError;
pub use query::Selector;
pub use serve::Server;
pub use write::{Fate, RemoteWriter};
