//! Answers of Prometheus, Thanos, Mimir and VictoriaMetrics to `query_range` and `query`, as curl prints them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::json_documents::{for_each_document, null_as_default, read_all_bytes};
use super::sample_table::{PageTarget, SampleTable, TOO_MANY};
use crate::{FrameBatch, InputHead, LogError, LogFormat, LogInput, LogOptions};

/// The format.
pub(crate) static FORMAT: LogFormat = LogFormat {
    id: "prometheus-json",
    title: "answers of Prometheus to query_range and query: JSON",
    explain: "Series of node_exporter or windows_exporter by their names, several answers in one file too. Ask for the \
              totals themselves, not for their rates: `curl -G http://HOST:9090/api/v1/query_range --data-urlencode \
              'query={instance=\"db1:9100\"}' -d start=… -d end=… -d step=15 > FILE`.",
    recognize: |head: &InputHead<'_>| {
        let text = String::from_utf8_lossy(head.bytes);
        text.contains("\"resultType\"") && text.contains("\"result\"")
    },
    read,
};

const NO_NAME: &str = "a series without a name, as of an expression; query the metric itself, such as \
                       node_disk_io_time_seconds_total";

#[derive(Deserialize)]
struct Answer {
    data: Option<AnswerData>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct AnswerData {
    #[serde(default, deserialize_with = "null_as_default")]
    result: Vec<Option<AnswerSeries>>,
}

#[derive(Deserialize)]
struct AnswerSeries {
    #[serde(default, deserialize_with = "null_as_default")]
    metric: BTreeMap<String, Option<String>>,
    #[serde(default, deserialize_with = "null_as_default")]
    values: Vec<Option<AnswerPoint>>,
    value: Option<AnswerPoint>,
}

/// Time in seconds and value; either is `null` where there is none.
type AnswerPoint = (Option<f64>, Value);

fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let bytes = read_all_bytes(input)?;
    let mut table = SampleTable::default();
    let report = for_each_document(&bytes, |answer: Answer| {
        if let Some(error) = answer.error {
            batch.add_skip("an answer", format!("Prometheus refused the query: {error}"));
        }
        for series in answer.data.into_iter().flat_map(|data| data.result).flatten() {
            if let Err((context, because)) = add_series(&mut table, series) {
                batch.add_skip(context, because);
            }
        }
    });
    report.add_to(batch);
    drop(bytes);
    table.read_pages(input, options, batch)
}

fn add_series(table: &mut SampleTable, series: AnswerSeries) -> Result<(), (String, &'static str)> {
    let label = |name: &str| series.metric.get(name).and_then(Option::as_deref).unwrap_or_default();
    let pairs = series.metric.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
    let labels: Vec<(String, String)> = pairs.filter(|(name, _)| name != "__name__").collect();
    let metric = label("__name__").to_owned();
    let target = PageTarget::new(metric.clone(), &labels);
    let name = format!("{metric}{{{}}}", target.labels);
    if metric.is_empty() {
        return Err((name, NO_NAME));
    }
    let host = host_of_instance(label("instance")).to_owned();
    let Some(index) = table.find_series(&host, name.clone(), || vec![target]) else { return Err((name, TOO_MANY)) };
    for (seconds, value) in series.values.iter().flatten().chain(&series.value) {
        // a gap
        let (Some(seconds), Some(value)) = (seconds, parse_number(value)) else { continue };
        let time_ns = (seconds * 1e3).round() as i64 * 1_000_000;
        if !table.add_sample(index, time_ns, value) {
            return Err((name, TOO_MANY));
        }
    }
    Ok(())
}

/// Parses a number in quotes, as Prometheus writes them, or a plain one.
fn parse_number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// Returns the machine of `db1:9100`.
fn host_of_instance(instance: &str) -> &str {
    let (host, port) = instance.rsplit_once(':').unwrap_or((instance, ""));
    if port.bytes().all(|b| b.is_ascii_digit()) { host } else { instance }
}
