//! Prometheus: pages of the text exposition as logs, and the vocabulary that maps metrics of node_exporter,
//! windows_exporter and Diskwright to counters of the catalogue. `crates/observe/remote` queries a running store.

mod line;
mod machine;
mod names;
mod targets;
mod text;

pub use machine::MachineFacts;
pub use names::{FactMetrics, MetricConversion, MetricSource, MetricVocabulary};
pub use targets::{SeriesTarget, SeriesTargets};
pub use text::{TEXT, are_pages, joined};
