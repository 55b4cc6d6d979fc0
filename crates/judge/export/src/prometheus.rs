//! Prometheus' text in the form that OpenMetrics requires: grouped by metric, with
//! all samples of a series together, in order of time.
//! `promtool tsdb create-blocks-from openmetrics` accepts it.
//!
//! A log is ordered by time, so it is read several times, each time for as many
//! series as fit into memory. A gap has no sample. Counts per tick are summed up to a
//! counter that only grows, as Prometheus requires.

use diskwright_base::{CounterKind, prometheus_names};

use crate::counting_writer::CountingWriter;
use crate::number;
use crate::{ExportBatch, ExportColumn, ExportError, ExportSink, ExportTally};

/// Largest number of values in memory at once (8 bytes each, and 8 for each tick's time).
const MAX_BUFFERED_VALUES: u64 = 1 << 23;

/// A series with its texts.
struct MetricSeries {
    /// Index of its column.
    column: usize,
    family: String,
    /// Name and labels: the beginning of each of its samples.
    sample: String,
    help: String,
    is_counter: bool,
}

/// Sink of OpenMetrics text.
pub(crate) struct ExpositionSink {
    out: CountingWriter,
    series: Vec<MetricSeries>,
    /// Number of series in a pass.
    series_per_pass: usize,
    /// Index of the first series of this pass.
    first: usize,
    times: Vec<i64>,
    buffered_values: Vec<Vec<f64>>,
    state: MetricState,
    tally: ExportTally,
}

/// State of writing a series.
#[derive(Default)]
struct MetricState {
    /// Family whose head was written last.
    family: String,
    /// Sum of the values so far; the last value, if the series is not a counter.
    sum: f64,
    last_ms: Option<i64>,
    /// Name, labels and a blank; empty before the first series of a pass.
    prefix: Vec<u8>,
}

impl ExpositionSink {
    /// Orders the columns by metric family, which the text format keeps together; `ticks` is the length of the log.
    pub fn new(columns: Vec<ExportColumn>, ticks: u64, out: CountingWriter) -> ExpositionSink {
        let mut series: Vec<MetricSeries> =
            columns.iter().enumerate().map(|(index, column)| metric_series(index, column)).collect();
        series.sort_by(|a, b| a.family.cmp(&b.family));
        let series_per_pass =
            usize::try_from(MAX_BUFFERED_VALUES / ticks.max(1)).unwrap_or(usize::MAX).clamp(1, series.len().max(1));
        ExpositionSink {
            out,
            series,
            series_per_pass,
            first: 0,
            times: Vec::new(),
            buffered_values: Vec::new(),
            state: MetricState::default(),
            tally: ExportTally::default(),
        }
    }

    /// Writes further samples of the series that [`Self::begin_series`] prepared; `series` is its index.
    fn write_samples(&mut self, series: usize, times: &[i64], values: &[f64]) -> Result<(), ExportError> {
        let ExpositionSink { out, series: all_series, state, tally, .. } = self;
        let series = &all_series[series];
        for (&time_ns, &value) in times.iter().zip(values) {
            if value.is_nan() {
                continue;
            }
            let value = if series.is_counter { state.sum + value } else { value };
            state.sum = value;
            let ms = time_ns.div_euclid(1_000_000);
            if state.last_ms.is_some_and(|last| ms <= last) {
                tally.skipped_samples += 1;
                continue;
            }
            state.last_ms = Some(ms);
            let text = &mut out.buffer;
            if state.family != series.family {
                state.family.clone_from(&series.family);
                let kind = if series.is_counter { "counter" } else { "gauge" };
                let head = format!("# TYPE {0} {kind}\n# HELP {0} {1}\n", series.family, escape_text(&series.help));
                text.extend_from_slice(head.as_bytes());
            }
            text.extend_from_slice(&state.prefix);
            put_value(text, value);
            put_seconds(text, ms);
            text.push(b'\n');
            tally.rows += 1;
            out.write_full_chunk()?;
        }
        Ok(())
    }

    /// Prepares for the samples of another series.
    fn begin_series(&mut self, series: usize) {
        self.state.sum = 0.0;
        self.state.last_ms = None;
        self.state.prefix.clear();
        self.state.prefix.extend_from_slice(self.series[series].sample.as_bytes());
        self.state.prefix.push(b' ');
    }
}

/// Appends the value and a blank.
fn put_value(text: &mut Vec<u8>, value: f64) {
    match value {
        f64::INFINITY => text.extend_from_slice(b"+Inf"),
        f64::NEG_INFINITY => text.extend_from_slice(b"-Inf"),
        _ => number::write_number(text, value),
    }
    text.push(b' ');
}

/// Appends milliseconds as seconds. Negative times occur in logs without a date, which begin in 1970 local time.
fn put_seconds(text: &mut Vec<u8>, ms: i64) {
    if ms < 0 {
        text.push(b'-');
    }
    let (seconds, millis) = (ms.unsigned_abs() / 1000, ms.unsigned_abs() % 1000);
    text.extend_from_slice(itoa::Buffer::new().format(seconds).as_bytes());
    let digit = |divisor: u64| b'0' + (millis / divisor % 10) as u8;
    text.extend_from_slice(&[b'.', digit(100), digit(10), digit(1)]);
}

impl ExportSink for ExpositionSink {
    fn pass_count(&self) -> usize {
        self.series.len().div_ceil(self.series_per_pass)
    }

    fn wanted_columns(&self, pass: usize) -> Vec<usize> {
        self.series
            .iter()
            .skip(pass * self.series_per_pass)
            .take(self.series_per_pass)
            .map(|series| series.column)
            .collect()
    }

    fn write(&mut self, batch: &ExportBatch<'_>) -> Result<(), ExportError> {
        batch.values.iter().flatten().for_each(|values| self.tally.count_values(values));
        if self.series_per_pass == 1 {
            // one series in each pass: its samples are written as they come, and nothing is buffered
            if self.state.prefix.is_empty() {
                self.begin_series(self.first);
            }
            let times: Vec<i64> = batch.ticks.iter().map(|tick| tick.time_ns).collect();
            return match batch.values.first() {
                Some(Some(values)) => self.write_samples(self.first, &times, values),
                _ => Ok(()),
            };
        }
        self.times.extend(batch.ticks.iter().map(|tick| tick.time_ns));
        self.buffered_values.resize(batch.values.len(), Vec::new());
        for (buffered, values) in self.buffered_values.iter_mut().zip(batch.values) {
            // a missing series is not a gap, but neither has samples
            buffered.resize(self.times.len() - batch.ticks.len(), f64::NAN);
            match values {
                Some(values) => buffered.extend_from_slice(values),
                None => buffered.resize(self.times.len(), f64::NAN),
            }
        }
        Ok(())
    }

    fn end_pass(&mut self) -> Result<(), ExportError> {
        let times = std::mem::take(&mut self.times);
        let mut buffered = std::mem::take(&mut self.buffered_values);
        for (index, values) in buffered.iter_mut().enumerate() {
            self.begin_series(self.first + index);
            self.write_samples(self.first + index, &times, values)?;
            values.clear();
        }
        self.state.prefix.clear();
        self.state.sum = 0.0;
        self.state.last_ms = None;
        self.first += self.series_per_pass;
        (self.times, self.buffered_values) = (times, buffered);
        self.times.clear();
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ExportTally, ExportError> {
        self.out.buffer.extend_from_slice(b"# EOF\n");
        self.tally.bytes = self.out.finish_output()?;
        Ok(self.tally)
    }
}

/// Derives family, labels and help of a column.
fn metric_series(index: usize, column: &ExportColumn) -> MetricSeries {
    let is_counter = column.kind == Some(CounterKind::Total);
    let object = column.counter.split_once('.').map_or("", |(object, _)| object);
    let mut labels = Vec::new();
    let metric = column.metric.clone().unwrap_or_else(|| {
        // two names of other tools may become the same metric; the label distinguishes them
        labels.push(format!("counter=\"{}\"", escape_text(&column.counter)));
        format!("diskwright_{}", sanitize_name(&column.counter))
    });
    if !column.instance.is_empty() {
        labels.push(format!("{}=\"{}\"", prometheus_names::label_name(object), escape_text(&column.instance)));
    }
    let sample = if labels.is_empty() { metric.clone() } else { format!("{metric}{{{}}}", labels.join(",")) };
    let family = if is_counter { metric.strip_suffix("_total").unwrap_or(&metric).to_owned() } else { metric };
    let help = match column.explain.as_str() {
        "" => "A counter of another tool.".to_owned(),
        text => text.to_owned(),
    };
    MetricSeries { column: index, family, sample, help, is_counter }
}

/// Converts a name to the characters that Prometheus allows.
fn sanitize_name(name: &str) -> String {
    let mut plain = String::new();
    for c in name.chars().map(|c| c.to_ascii_lowercase()) {
        match c {
            'a'..='z' | '0'..='9' => plain.push(c),
            '%' => plain.push_str("percent"),
            _ if plain.ends_with('_') => {}
            _ => plain.push('_'),
        }
    }
    plain.trim_end_matches('_').to_owned()
}

/// Escapes a label value or help text.
fn escape_text(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
