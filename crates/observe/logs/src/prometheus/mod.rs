//! Prometheus: pages of the text exposition as logs, and the vocabulary that maps metrics of node_exporter,
//! windows_exporter and Diskwright to counters of the catalogue. `crates/observe/remote` queries a running store.

mod exposition_line;
mod exposition_pages;
mod flush_histograms;
mod machine_facts;
mod metric_names;
mod sampled_pages;
mod series_targets;

pub use exposition_pages::{TEXT, are_pages, open_joined};
pub use machine_facts::MachineFacts;
pub use metric_names::{FactMetrics, MetricConversion, MetricSource, MetricVocabulary};
pub(crate) use sampled_pages::SampledPages;
pub use series_targets::{SeriesTarget, SeriesTargets};
