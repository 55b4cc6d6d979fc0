//! Metrics of OpenTelemetry as JSON (OTLP), one document or one a line, as the collector's file exporter writes them.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::Value;

use super::json_documents::{for_each_document, null_as_default, read_all_bytes};
use super::metric_mapping::MetricMappings;
use super::sample_table::{SampleTable, TOO_MANY};
use crate::{FrameBatch, InputHead, LogError, LogFormat, LogInput, LogOptions};

/// The format.
pub(crate) static FORMAT: LogFormat = LogFormat {
    id: "otlp-json",
    title: "host metrics of OpenTelemetry: OTLP as JSON",
    explain: "system.cpu, disk, filesystem, memory, network, paging.usage and processes of the host metrics receiver, \
              cumulative or delta, of one machine (host.name); other metrics become foreign.NAME. Record with the \
              collector's file exporter.",
    recognize: |head: &InputHead<'_>| {
        let text = String::from_utf8_lossy(head.bytes);
        text.contains("\"resourceMetrics\"") || text.contains("\"resource_metrics\"")
    },
    read,
};

fn mappings() -> &'static MetricMappings {
    static MAPPINGS: OnceLock<MetricMappings> = OnceLock::new();
    MetricMappings::from_table(&MAPPINGS, "samples/otlp.toml", include_str!("otlp.toml"))
}

#[derive(Deserialize)]
struct Export {
    #[serde(rename = "resourceMetrics", alias = "resource_metrics", default, deserialize_with = "null_as_default")]
    resources: Vec<Option<ResourceMetrics>>,
}

#[derive(Deserialize)]
struct ResourceMetrics {
    #[serde(default, deserialize_with = "null_as_default")]
    resource: Attributes,
    #[serde(rename = "scopeMetrics", alias = "scope_metrics", alias = "instrumentationLibraryMetrics", default)]
    #[serde(deserialize_with = "null_as_default")]
    scopes: Vec<Option<ScopeMetrics>>,
}

#[derive(Default, Deserialize)]
struct Attributes {
    #[serde(default, deserialize_with = "null_as_default")]
    attributes: Vec<Option<Attribute>>,
}

#[derive(Deserialize)]
struct Attribute {
    #[serde(default, deserialize_with = "null_as_default")]
    key: String,
    #[serde(default, deserialize_with = "null_as_default")]
    value: HashMap<String, Value>,
}

#[derive(Deserialize)]
struct ScopeMetrics {
    #[serde(default, deserialize_with = "null_as_default")]
    metrics: Vec<Option<Metric>>,
}

#[derive(Deserialize)]
struct Metric {
    #[serde(default, deserialize_with = "null_as_default")]
    name: String,
    sum: Option<Points>,
    gauge: Option<Points>,
}

#[derive(Deserialize)]
struct Points {
    #[serde(rename = "dataPoints", alias = "data_points", default, deserialize_with = "null_as_default")]
    points: Vec<Option<Point>>,
    #[serde(rename = "aggregationTemporality", alias = "aggregation_temporality", default)]
    temporality: Value,
}

#[derive(Deserialize)]
struct Point {
    #[serde(default, deserialize_with = "null_as_default")]
    attributes: Vec<Option<Attribute>>,
    #[serde(rename = "startTimeUnixNano", alias = "start_time_unix_nano", default)]
    start: Value,
    #[serde(rename = "timeUnixNano", alias = "time_unix_nano", default)]
    time: Value,
    #[serde(rename = "asInt", alias = "as_int", default)]
    integer: Value,
    #[serde(rename = "asDouble", alias = "as_double", default)]
    double: Value,
}

/// Sums of series that are exported as differences.
#[derive(Default)]
struct DeltaSums {
    by_series: HashMap<usize, f64>,
}

fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let bytes = read_all_bytes(input)?;
    let mut table = SampleTable::default();
    let mut sums = DeltaSums::default();
    let report = for_each_document(&bytes, |export: Export| {
        for resource in export.resources.into_iter().flatten() {
            let host = resource.resource.attributes.iter().flatten().find(|attribute| attribute.key == "host.name");
            let host = host.map(Attribute::text).unwrap_or_default();
            for metric in resource.scopes.into_iter().flatten().flat_map(|scope| scope.metrics).flatten() {
                if let Err(because) = add_metric(&mut table, &mut sums, &host, &metric) {
                    batch.add_skip(&metric.name, because);
                }
            }
        }
    });
    report.add_to(batch);
    drop(bytes);
    table.read_pages(input, options, batch)
}

fn add_metric(table: &mut SampleTable, sums: &mut DeltaSums, host: &str, metric: &Metric) -> Result<(), &'static str> {
    let points = metric.sum.as_ref().or(metric.gauge.as_ref()).ok_or("neither a sum nor a gauge")?;
    let is_delta = points.temporality == 1 || points.temporality == "AGGREGATION_TEMPORALITY_DELTA";
    for point in points.points.iter().flatten() {
        let mut labels: Vec<(String, String)> =
            point.attributes.iter().flatten().map(|attribute| (attribute.key.clone(), attribute.text())).collect();
        mappings().rename_labels(&mut labels);
        let name = format!("{host} {} {labels:?}", metric.name);
        let series =
            table.find_series(host, name, || mappings().find_targets(&metric.name, &labels)).ok_or(TOO_MANY)?;
        // a point without a number is a gap
        let Some(value) = number(&point.double).or_else(|| number(&point.integer)) else { continue };
        let Some(time_ns) = integer(&point.time) else { continue };
        let value = if is_delta { sums.add(table, series, point, value)? } else { value };
        if !table.add_sample(series, time_ns, value) {
            return Err(TOO_MANY);
        }
    }
    Ok(())
}

impl DeltaSums {
    /// Adds a difference; the first begins at 0, at the time since which it counts.
    fn add(&mut self, table: &mut SampleTable, series: usize, point: &Point, value: f64) -> Result<f64, &'static str> {
        if !self.by_series.contains_key(&series)
            && let Some(start_ns) = integer(&point.start).filter(|start| *start > 0)
            && !table.add_sample(series, start_ns, 0.0)
        {
            return Err(TOO_MANY);
        }
        let sum = self.by_series.entry(series).or_default();
        *sum += value;
        Ok(*sum)
    }
}

impl Attribute {
    /// The value as text, whatever its type.
    fn text(&self) -> String {
        match self.value.values().next() {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }
}

/// Returns a number, which 64-bit integers are not in JSON: they are texts.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}
