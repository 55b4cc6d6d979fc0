//! Mapping of a tool's metrics to counters of the catalogue; the tables are data (`line_protocol.toml`, `otlp.toml`).

use std::collections::HashMap;
use std::sync::OnceLock;

use diskwright_base::diskstats::disk_of_partition;
use diskwright_base::prometheus_names::{label_name, metric_name};
use diskwright_base::{Catalogue, toml_reader};
use serde::Deserialize;

use super::sample_table::PageTarget;

/// A tool's metrics.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MetricMappings {
    /// Newer names of attributes, and the names that the table has.
    #[serde(default)]
    aliases: HashMap<String, String>,
    /// Series that are not read, by the object of their counter.
    #[serde(default)]
    ignored: HashMap<String, IgnoredSeries>,
    metric: Vec<MetricMapping>,
}

/// Series that are known by a label's value; a `*` at its end stands for anything.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IgnoredSeries {
    label: String,
    values: Vec<String>,
}

/// A metric that means a counter.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricMapping {
    /// Name of the metric; for line protocol the measurement, a dot and the field.
    metric: String,
    /// Attributes that must have these values.
    #[serde(default, rename = "where")]
    only: HashMap<String, String>,
    counter: String,
    /// Attribute that names the instance.
    instance: Option<String>,
    /// Factor to the counter's unit.
    scale: Option<f64>,
    /// Set if the counter is one less the value.
    #[serde(default)]
    complement: bool,
}

impl MetricMappings {
    /// Reads a built-in table once.
    pub(super) fn from_table(
        table: &'static OnceLock<MetricMappings>,
        name: &str,
        text: &str,
    ) -> &'static MetricMappings {
        table.get_or_init(|| toml_reader::read_built_in(name, text))
    }

    /// Returns true if the table has the metric.
    pub(super) fn has_metric(&self, metric: &str) -> bool {
        self.metric.iter().any(|mapping| mapping.metric == metric)
    }

    /// Replaces newer names of attributes.
    pub(super) fn rename_labels(&self, labels: &mut [(String, String)]) {
        for (name, _) in labels {
            if let Some(known) = self.aliases.get(name.as_str()) {
                name.clone_from(known);
            }
        }
    }

    /// Returns where the values of a series go: counters, or a name of its own if the table does not have the metric.
    pub(super) fn find_targets(&self, metric: &str, labels: &[(String, String)]) -> Vec<PageTarget> {
        if !self.has_metric(metric) {
            let name = metric.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_");
            return vec![PageTarget::new(name, labels)];
        }
        let is_read = |m: &&MetricMapping| m.metric == metric && !self.is_ignored(m, labels);
        self.metric.iter().filter(is_read).filter_map(|m| m.to_target(labels)).collect()
    }

    fn is_ignored(&self, mapping: &MetricMapping, labels: &[(String, String)]) -> bool {
        let object = mapping.counter.split('.').next().unwrap_or_default();
        let Some(ignored) = self.ignored.get(object) else { return false };
        let matches = |value: &str| {
            ignored.values.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(start) => value.starts_with(start),
                None => value == pattern,
            })
        };
        labels.iter().any(|(name, value)| *name == ignored.label && matches(value))
    }
}

impl MetricMapping {
    /// Returns the target of a series, unless its attributes are others.
    fn to_target(&self, labels: &[(String, String)]) -> Option<PageTarget> {
        let label = |name: &str| labels.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
        if !self.only.iter().all(|(name, value)| label(name) == Some(value)) {
            return None;
        }
        let instance = match &self.instance {
            Some(name) => label(name)?.trim_start_matches("/dev/"),
            None => "",
        };
        let instance = if instance == "cpu-total" { "_total" } else { instance };
        let counter = if disk_of_partition(instance).is_some() {
            self.counter.replace("physical_disk.", "logical_disk.")
        } else {
            self.counter.clone()
        };
        // partitions have fewer counters
        let counter = Catalogue::builtin().get(&counter)?;
        let label = (label_name(counter.object_name()).to_owned(), instance.to_owned());
        let labels = if instance.is_empty() { &[][..] } else { std::slice::from_ref(&label) };
        let target = PageTarget::new(metric_name(counter), labels);
        Some(PageTarget { scale: self.scale.unwrap_or(1.0), is_complement: self.complement, ..target })
    }
}

#[cfg(test)]
impl MetricMappings {
    /// Lists the counters that the table names.
    pub(super) fn counters(&self) -> impl Iterator<Item = &str> {
        self.metric.iter().map(|mapping| mapping.counter.as_str())
    }
}
