//! Prometheus: pages of the text exposition as logs, and the vocabulary that
//! turns metrics of node_exporter, windows_exporter and our own into counters
//! of the catalogue. Asking a running store is `crates/observe/remote`.

mod line;
mod machine;
mod names;
mod targets;
mod text;

pub use machine::MachineFacts;
pub use names::{FactMetrics, MetricConversion, MetricSource, MetricVocabulary};
pub use targets::{SeriesTarget, SeriesTargets};
pub use text::{TEXT, are_pages, joined};
