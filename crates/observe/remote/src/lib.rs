//! Stores of metrics over HTTP: Prometheus, VictoriaMetrics, Thanos, Mimir.
//!
//! - `access`: addresses, passwords and tokens, which are never shown.
//! - `client`: single requests with a timeout; the message of a store that refuses
//!   is part of the error.
//! - `bounded_reader`, `answer`, `query_grid`: reading of an answer as a stream, with limits;
//!   the points of a query's answer on a grid of ticks.
//! - `query`: PromQL that all of these stores accept, built from the vocabulary.
//! - `host`: one machine as a log (frames and notes).
//! - `fleet`: many machines at a coarse step, chunk by chunk.
//! - `feed`, `latency_feed`, `remote_write`, `metrics_server`: the opposite direction: a recorder's
//!   ticks as named series, sent to a store by remote write, or served to a scraper at `/metrics`.
//! - `webhook`: sends a document to an address.

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
