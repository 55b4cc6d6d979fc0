//! Stores of metrics over HTTP: Prometheus, VictoriaMetrics, Thanos, Mimir.
//!
//! - `access`: addresses, passwords and tokens, which are never shown.
//! - `client`: one request, bounded in time; what the store says when it refuses
//!   is part of the error.
//! - `bounded`, `answer`, `grid`: an answer as it comes, with limits; points of a query's
//!   answer, put on a grid of ticks.
//! - `query`: from the vocabulary to PromQL that all of these stores take.
//! - `host`: one machine as a log (frames and notes).
//! - `fleet`: many machines at a coarse step, chunk by chunk.
//! - `feed`, `write`, `serve`: the other way: a recorder's ticks as named series,
//!   to a store by remote write, or for a scraper at `/metrics`.
//! - `webhook`: a document to an address.

mod access;
pub mod answer;
mod bounded;
mod client;
mod error;
pub mod feed;
mod feed_latency;
pub mod fleet;
mod grid;
pub mod host;
mod query;
mod serve;
mod webhook;
mod write;

pub use access::{StoreAccess, has_password, redacted};
pub use answer::{AnswerFault, QueryGrid, QueryRow};
pub use client::{MetricStore, whole};
pub use diskwright_httpserver::ServerLimits;
pub use error::RemoteError;
pub use query::Selector;
pub use serve::{LastTick, MetricsServer};
pub use webhook::Webhook;
pub use write::{RemoteWriter, SendResult};
