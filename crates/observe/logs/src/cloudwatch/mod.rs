//! Answers of Amazon CloudWatch: `get-metric-statistics` and `get-metric-data`, one or several in a file. Each number
//! stands for a period, which begins at its time.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use diskwright_base::timestamp::parse_rfc3339;
use diskwright_base::{Note, Topology, toml_reader};
use serde::Deserialize;
use serde_json::Value;

use crate::level_row::LevelRow;
use crate::samples::{for_each_document, null_as_default, read_all_bytes};
use crate::{FrameBatch, InputHead, LogError, LogFormat, LogInput, LogOptions};

/// The format.
pub(crate) static FORMAT: LogFormat = LogFormat {
    id: "cloudwatch-json",
    title: "answers of Amazon CloudWatch (get-metric-statistics, get-metric-data): JSON",
    explain: "EBS volumes, EC2 instances and RDS by the names of their metrics; the period is the time between two \
              points. Ask for Sum where CloudWatch counts (VolumeReadOps, VolumeIdleTime) and for Average elsewhere, \
              all in one file: `aws cloudwatch get-metric-statistics --metric-name VolumeReadOps … >> FILE`.",
    recognize: |head: &InputHead<'_>| {
        let text = String::from_utf8_lossy(head.bytes);
        text.contains("\"MetricDataResults\"") || text.contains("\"Datapoints\"") && text.contains("\"Timestamp\"")
    },
    read,
};

/// Period of a single point: that of EBS without detailed monitoring, seconds.
const USUAL_PERIOD_S: f64 = 300.0;
/// Instance of a volume that the answer does not name.
const UNNAMED_VOLUME: &str = "volume";
/// Level of credits from which on they count as used up.
const USED_UP: f64 = 0.01;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamesFile {
    metric: Vec<CloudMetric>,
}

/// A metric that is known.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CloudMetric {
    metric: String,
    counter: String,
    scale: Option<f64>,
    #[serde(default)]
    rate: bool,
    #[serde(default)]
    complement: bool,
    /// Instance, if it is not a volume.
    instance: Option<String>,
    /// What it means if the level is at its end.
    low: Option<String>,
}

fn metrics() -> &'static [CloudMetric] {
    static METRICS: OnceLock<Vec<CloudMetric>> = OnceLock::new();
    METRICS.get_or_init(|| {
        toml_reader::read_built_in::<NamesFile>("cloudwatch/names.toml", include_str!("names.toml")).metric
    })
}

/// Either answer.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    #[serde(default, deserialize_with = "null_as_default")]
    label: String,
    #[serde(default, deserialize_with = "null_as_default")]
    datapoints: Vec<Option<Datapoint>>,
    #[serde(default, deserialize_with = "null_as_default")]
    metric_data_results: Vec<Option<DataResult>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Datapoint {
    #[serde(default)]
    timestamp: Value,
    sum: Option<f64>,
    average: Option<f64>,
    maximum: Option<f64>,
    minimum: Option<f64>,
    sample_count: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DataResult {
    #[serde(default, deserialize_with = "null_as_default")]
    id: String,
    #[serde(default, deserialize_with = "null_as_default")]
    label: String,
    #[serde(default, deserialize_with = "null_as_default")]
    timestamps: Vec<Value>,
    #[serde(default, deserialize_with = "null_as_default")]
    values: Vec<Option<f64>>,
}

/// Values by time, each with its counter and instance.
#[derive(Default)]
struct CloudLog {
    rows: BTreeMap<i64, Vec<(&'static str, String, f64)>>,
    /// Shortest period of the answers, seconds.
    period_s: Option<f64>,
    /// What the levels at their end mean.
    facts: Vec<&'static str>,
    skips: Vec<(String, &'static str)>,
}

const UNKNOWN: &str = "a metric that is not read; EBS, EC2 and RDS are";
const NO_SUM: &str = "a point without Sum, Average or another statistic that fits";

fn read(input: &mut LogInput, _: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let bytes = read_all_bytes(input)?;
    let mut log = CloudLog::default();
    let report = for_each_document(&bytes, |answer: Answer| log.add_answer(answer));
    for (context, because) in log.skips.drain(..) {
        batch.add_skip(context, because);
    }
    report.add_to(batch);
    log.emit_rows(batch);
    Ok(())
}

/// Finds the metric that a label or id names, and the instance beside it: `vol-0a1 VolumeReadOps`.
fn find_metric(text: &str) -> Option<(&'static CloudMetric, Option<String>)> {
    let words: Vec<&str> = text.split([' ', '/', ':', ',', '(', ')']).filter(|word| !word.is_empty()).collect();
    let plain = |word: &str| word.replace('_', "").to_lowercase();
    let is_named = |metric: &&CloudMetric| words.iter().any(|word| plain(word) == plain(&metric.metric));
    let metric = metrics().iter().find(is_named)?;
    let is_id = |word: &&&str| word.starts_with("vol-") || word.starts_with("i-") && word.len() > 8;
    Some((metric, words.iter().find(is_id).map(|word| (*word).to_owned())))
}

/// Parses a time as text or as seconds since 1970.
fn parse_time(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => parse_rfc3339(text),
        other => other.as_f64().filter(|s| (1e8..9e9).contains(s)).map(|s| (s * 1e3).round() as i64 * 1_000_000),
    }
}

impl CloudLog {
    fn add_answer(&mut self, answer: Answer) {
        if !answer.datapoints.is_empty() {
            match find_metric(&answer.label) {
                Some((metric, instance)) => self.add_statistics(metric, instance, &answer.datapoints),
                None => self.skips.push((answer.label, UNKNOWN)),
            }
        }
        for result in answer.metric_data_results.into_iter().flatten() {
            let Some((metric, instance)) = find_metric(&result.label).or_else(|| find_metric(&result.id)) else {
                self.skips.push((result.label, UNKNOWN));
                continue;
            };
            let pairs = result.timestamps.iter().zip(result.values);
            let points = pairs.filter_map(|(time, value)| Some((parse_time(time)?, value?)));
            self.add_points(metric, instance, points.collect());
        }
    }

    fn add_statistics(&mut self, metric: &'static CloudMetric, instance: Option<String>, found: &[Option<Datapoint>]) {
        let mut points = Vec::new();
        for point in found.iter().flatten() {
            let total = point.sum.or_else(|| Some(point.average? * point.sample_count?));
            let level = point.average.or_else(|| Some(point.sum? / point.sample_count?));
            let value = if metric.rate { total } else { level.or(point.maximum).or(point.minimum) };
            match (parse_time(&point.timestamp), value) {
                (Some(time_ns), Some(value)) => points.push((time_ns, value)),
                _ => self.skips.push((metric.metric.clone(), NO_SUM)),
            }
        }
        self.add_points(metric, instance, points);
    }

    fn add_points(&mut self, metric: &'static CloudMetric, instance: Option<String>, mut points: Vec<(i64, f64)>) {
        points.sort_by_key(|point| point.0);
        let steps = points.windows(2).map(|two| (two[1].0 - two[0].0) as f64 / 1e9).filter(|step| *step >= 1.0);
        let step = steps.reduce(f64::min);
        let period_s = step.unwrap_or(USUAL_PERIOD_S);
        self.period_s = Some(self.period_s.map_or(period_s, |known: f64| known.min(period_s)));
        let instance = match &metric.instance {
            Some(fixed) => fixed.clone(),
            None => instance.unwrap_or_else(|| UNNAMED_VOLUME.to_owned()),
        };
        for (time_ns, value) in points {
            let value = value * metric.scale.unwrap_or(1.0) / if metric.rate { period_s } else { 1.0 };
            let value = if metric.complement { (1.0 - value).max(0.0) } else { value };
            if let Some(low) = metric.low.as_deref().filter(|low| value <= USED_UP && !self.facts.contains(low)) {
                self.facts.push(low);
            }
            let end_ns = time_ns.saturating_add((period_s * 1e9) as i64);
            self.rows.entry(end_ns).or_default().push((&metric.counter, instance.clone(), value));
        }
    }

    fn emit_rows(self, batch: &mut FrameBatch<'_>) {
        let Some((&first_ns, _)) = self.rows.first_key_value() else { return };
        batch.push_topology(first_ns, &Topology::default());
        for fact in &self.facts {
            batch.push_note(Note::new(first_ns, Note::WARNING, *fact));
        }
        let elapsed_ns = self.period_s.map(|seconds| (seconds * 1e9) as u64);
        let mut row = LevelRow::default();
        for (time_ns, values) in &self.rows {
            for (counter, instance, value) in values {
                row.put_value(counter, instance, *value);
            }
            put_means(&mut row, values);
            row.emit_tick(batch, *time_ns, elapsed_ns);
        }
    }
}

/// Puts the mean duration of a request, from the time of all and their number.
fn put_means(row: &mut LevelRow, values: &[(&'static str, String, f64)]) {
    let by_counter: HashMap<(&str, &str), f64> =
        values.iter().map(|(counter, instance, value)| ((*counter, instance.as_str()), *value)).collect();
    for (time, rate, mean) in [
        ("physical_disk.avg_read_queue_length", "physical_disk.reads_per_s", "physical_disk.avg_s_per_read"),
        ("physical_disk.avg_write_queue_length", "physical_disk.writes_per_s", "physical_disk.avg_s_per_write"),
    ] {
        for ((_, instance), seconds) in by_counter.iter().filter(|((counter, _), _)| *counter == time) {
            if let Some(requests) = by_counter.get(&(rate, *instance)).filter(|requests| **requests > 0.0) {
                row.put_value(mean, instance, seconds / requests);
            }
        }
    }
}

#[cfg(test)]
mod tests;
