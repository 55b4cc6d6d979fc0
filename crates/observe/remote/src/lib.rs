//! Stores of metrics over HTTP: Prometheus, VictoriaMetrics, Thanos, Mimir.
//!
//! - `access`: addresses, passwords and tokens; passwords and tokens are never shown.
//! - `client`: single requests with a timeout; if a store refuses, its message is part of the error.
//! - `bounded_reader`, `answer`, `query_grid`: read an answer as a stream, with limits, and put its points on a grid of
//!   ticks.
//! - `query`: PromQL that all of these stores accept, built from the vocabulary.
//! - `host`: one machine as a log (frames and notes).
//! - `fleet`: many machines at a coarse step, chunk by chunk.
//! - `feed`, `latency_feed`, `remote_write`, `metrics_server`: the opposite direction. A recorder's ticks become named
//!   series, which are sent to a store by remote write, or served to a scraper at `/metrics`.
//! - `instance_metadata`: what a cloud tells an instance about itself: its type, and its volumes.
//! - `webhook`: sends a document to an address.

mod access;
pub mod answer;
mod bounded_reader;
mod client;
mod error;
pub mod feed;
pub mod fleet;
pub mod host;
pub mod instance_metadata;
mod latency_feed;
mod metrics_server;
mod query;
mod query_grid;
mod remote_write;
mod webhook;

pub use access::{StoreAccess, has_password, redact_url};
pub use answer::{AnswerFault, QueryGrid, QueryRow};
pub use client::{MetricStore, read_whole_body};
pub use diskwright_httpserver::{HostNames, ServerLimits};
pub use error::RemoteError;
pub use metrics_server::{LastTick, MetricsServer};
pub use query::Selector;
pub use remote_write::{RemoteWriter, SendResult};
pub use webhook::Webhook;
