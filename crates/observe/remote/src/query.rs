//! PromQL that Prometheus, VictoriaMetrics, Thanos and Mimir all accept.

use diskwright_base::Catalogue;
use diskwright_base::catalogue::OverInstances;
use diskwright_logs::prometheus::{MetricConversion, MetricVocabulary};

use crate::error::RemoteError;

/// Label that holds the metric of a series, in an answer for several metrics.
pub const METRIC_LABEL: &str = "dw_metric";

/// Label matchers of the user's `--match`, which are part of every selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    matchers: String,
}

impl QuerySpan {
    /// Returns the range selector for samples of `length_ms` that ends `before_ms` before the end of the tick.
    pub fn range_selector(&self, selector: &str, length_ms: i64, before_ms: i64) -> String {
        match self.shift_ms + before_ms {
            0 => format!("{selector}[{length_ms}ms]"),
            offset => format!("{selector}[{length_ms}ms] offset {offset}ms"),
        }
    }
}

impl Selector {
    /// Parses `{job="node",instance=~"db.*"}`, with or without braces.
    ///
    /// # Errors
    /// When it is not a list of matchers; the store checks the details.
    pub fn parse(text: &str) -> Result<Selector, RemoteError> {
        let usage_error =
            |because: &str| RemoteError::Usage { option: format!("--match {text}"), because: because.into() };
        let trimmed = text.trim();
        let matchers = match trimmed.strip_prefix('{') {
            Some(list) => list.strip_suffix('}').ok_or_else(|| usage_error("the closing brace is missing"))?,
            None => trimmed,
        };
        let matchers = matchers.trim().trim_end_matches(',');
        if matchers.is_empty() {
            return Ok(Selector::default());
        }
        if !matchers.contains('=') || !matchers.ends_with('"') {
            return Err(usage_error("write label matchers, such as '{instance=\"db1:9100\"}'"));
        }
        Ok(Selector { matchers: matchers.to_owned() })
    }

    /// Returns true if the selector has no matchers, so that everything matches.
    pub fn is_empty(&self) -> bool {
        self.matchers.is_empty()
    }

    /// Returns the selector of one metric, with further matchers.
    pub fn metric_selector(&self, name: &str, further_matchers: &str) -> String {
        let matchers = [self.matchers.as_str(), further_matchers].into_iter().filter(|m| !m.is_empty());
        format!("{name}{{{}}}", matchers.collect::<Vec<_>>().join(","))
    }

    /// Returns the selector of all metrics whose name matches.
    pub fn names_selector(&self, pattern: &str) -> String {
        self.metric_selector("", &format!("__name__=~\"{pattern}\""))
    }
}

/// Pattern of the metric names of known exporters.
pub const EXPORTER_NAME_PATTERN: &str = "(node|windows|wmi|diskwright)_.+";

/// Aggregation of processor metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processors {
    /// Each processor separately.
    Each,
    /// All processors of a machine as one, `_total`.
    Together,
}

/// Time ranges of each tick of a query, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuerySpan {
    /// Length of the tick.
    pub step_ms: i64,
    /// Range of the samples of a level.
    pub level_ms: i64,
    /// Time from the end of a tick to the time for which the store is queried.
    pub shift_ms: i64,
    /// Largest age of the scrape that gives a total at a time.
    pub total_ms: i64,
}

/// Builds the query for one metric, with a value per tick for every machine and instance. The value of a total is its
/// growth in the tick.
///
/// `rate` and `increase` use only the samples of a window. Growth between the first sample and the sample before the
/// window is lost, or counted twice if windows overlap, and both functions extrapolate to the ends of the window. A
/// difference of totals at two times counts each scrape once, and the sum over all ticks is the growth of the counter.
/// If the counter was reset, the difference is negative, and the tick has a gap.
pub fn metric_expression(
    metric: &str,
    selector: &str,
    host_label: &str,
    processors: Processors,
    span: QuerySpan,
) -> String {
    let sources = MetricVocabulary::builtin().sources_of(metric);
    let is_total = sources.first().is_some_and(|s| s.conversion.is_total());
    let joins_processors = processors == Processors::Together && is_processor_metric(metric);
    let mut labels: Vec<&str> = vec![host_label];
    for label in sources.iter().flat_map(|s| s.query_labels()) {
        let is_instance = sources.iter().any(|s| s.instance_label.as_deref() == Some(label));
        if labels.contains(&label) || (joins_processors && is_instance) {
            continue;
        }
        labels.push(label);
    }
    let is_mean = || {
        sources
            .iter()
            .any(|s| over_instances(&s.counter) == OverInstances::Mean && s.conversion == MetricConversion::Rate)
    };
    let aggregation = if joins_processors && is_mean() {
        "avg"
    } else if joins_processors || sources.iter().any(|s| s.is_summed) {
        "sum"
    } else {
        "max"
    };
    let value = if is_total {
        let total = |before_ms| span.range_selector(selector, span.total_ms, before_ms);
        format!("(last_over_time({}) - last_over_time({})) >= 0", total(0), total(span.step_ms))
    } else {
        // the value of a level is its average since the last tick
        format!("avg_over_time({})", span.range_selector(selector, span.level_ms, 0))
    };
    format!("{aggregation} by ({}) ({value})", labels.join(","))
}

/// Returns how a counter is aggregated over its instances.
fn over_instances(counter: &str) -> OverInstances {
    Catalogue::builtin().get(counter).map_or(OverInstances::None, |c| c.over_instances)
}

/// Returns true if the metric has a series per processor.
pub fn is_processor_metric(metric: &str) -> bool {
    let mut sources = MetricVocabulary::builtin().sources_of(metric).iter();
    sources.any(|s| s.counter.starts_with("processor.") && s.instance_label.is_some())
}

/// Combines several queries into one; in the answer the label [`METRIC_LABEL`] is the name of the metric.
pub fn combine_queries(named_queries: &[(String, String)]) -> String {
    let with_label =
        |(name, query): &(String, String)| format!("label_replace({query},\"{}\",\"{name}\",\"\",\"\")", METRIC_LABEL);
    named_queries.iter().map(with_label).collect::<Vec<_>>().join(" or ")
}

/// Returns a matcher for any of these values of a label.
pub fn any_value_matcher(label: &str, values: &[String]) -> String {
    let escaped: Vec<String> = values.iter().map(|v| escape_regex(v)).collect();
    format!("{label}=~\"{}\"", escaped.join("|"))
}

/// Escapes a value for use in a regular expression in a quoted string.
fn escape_regex(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\\' => out.push_str(r"\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' => {
                out.push_str(r"\\");
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matchers_are_parsed_with_and_without_braces() {
        let one = Selector::parse(r#"{instance="db1:9100"}"#).unwrap();
        assert_eq!(one, Selector::parse(r#" instance="db1:9100", "#).unwrap());
        assert_eq!(one.metric_selector("node_load1", ""), r#"node_load1{instance="db1:9100"}"#);
        assert_eq!(one.names_selector("a.+"), r#"{instance="db1:9100",__name__=~"a.+"}"#);
        assert!(Selector::parse("{}").unwrap().is_empty());
        for wrong in ["db1", "{instance=\"x\"", "instance=x"] {
            assert!(Selector::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn totals_are_rates_and_levels_are_means() {
        let span = QuerySpan { step_ms: 60_000, level_ms: 60_000, shift_ms: 0, total_ms: 18_000 };
        let query = |metric, processors| metric_expression(metric, metric, "instance", processors, span);
        assert_eq!(
            query("node_disk_io_time_seconds_total", Processors::Each),
            "max by (instance,device) ((last_over_time(node_disk_io_time_seconds_total[18000ms]) - \
             last_over_time(node_disk_io_time_seconds_total[18000ms] offset 60000ms)) >= 0)"
        );
        assert_eq!(query("node_load1", Processors::Together), "max by (instance) (avg_over_time(node_load1[60000ms]))");
        assert!(query("node_cpu_seconds_total", Processors::Each).starts_with("max by (instance,cpu,mode) ((last_"));
        assert!(query("node_cpu_seconds_total", Processors::Together).starts_with("sum by (instance,mode) ((last_"));
        assert!(query("windows_cpu_time_total", Processors::Together).starts_with("avg by (instance,mode)"));
        assert!(query("windows_cpu_interrupts_total", Processors::Together).starts_with("sum by (instance)"));
        assert!(query("node_interrupts_total", Processors::Each).starts_with("sum by (instance) ((last_"));
        assert!(query("node_filesystem_avail_bytes", Processors::Each).contains("(instance,mountpoint,fstype)"));
    }

    #[test]
    fn names_are_escaped() {
        let names = ["db.1:9100".to_owned(), r"a\b".to_owned()];
        assert_eq!(any_value_matcher("instance", &names), r#"instance=~"db\\.1:9100|a\\\\b""#);
    }
}
