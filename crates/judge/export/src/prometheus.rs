//! Prometheus' text in the form that OpenMetrics requires: grouped by metric, with
//! all samples of a series together, in order of time.
//! `promtool tsdb create-blocks-from openmetrics` accepts it.
//!
//! A log is ordered by time, so it is read several times, each time for as many
//! series as fit into memory. A gap has no sample. Counts per tick are summed up to a
//! counter that only grows, as Prometheus requires.

use diskwright_base::{CounterKind, prometheus_names};

use crate::number;
use crate::output::CountingWriter;
use crate::{ExportBatch, ExportColumn, ExportError, ExportSink, ExportTally};

/// Largest number of values in memory at once (8 bytes each, and 8 for each tick's time).
const MOST_HELD: u64 = 1 << 23;

/// A series with its texts.
struct MetricSeries {
    /// Index of its column.
    column: usize,
    family: String,
    /// Name and labels, with which its samples begin.
    sample: String,
    help: String,
    counts: bool,
}

/// Sink of OpenMetrics text.
pub(crate) struct Exposition {
    out: CountingWriter,
    series: Vec<MetricSeries>,
    /// Number of series in a pass.
    at_once: usize,
    /// Index of the first series of this pass.
    first: usize,
    times: Vec<i64>,
    held: Vec<Vec<f64>>,
    state: MetricState,
    tally: ExportTally,
}

/// State of writing a series.
#[derive(Default)]
struct MetricState {
    family: String,
    sum: f64,
    last_ms: Option<i64>,
    prefix: Vec<u8>,
}

impl Exposition {
    pub fn new(columns: Vec<ExportColumn>, ticks: u64, out: CountingWriter) -> Exposition {
        let mut series: Vec<MetricSeries> =
            columns.iter().enumerate().map(|(index, column)| name(index, column)).collect();
        series.sort_by(|a, b| a.family.cmp(&b.family));
        let at_once = usize::try_from(MOST_HELD / ticks.max(1)).unwrap_or(usize::MAX).clamp(1, series.len().max(1));
        Exposition {
            out,
            series,
            at_once,
            first: 0,
            times: Vec::new(),
            held: Vec::new(),
            state: MetricState::default(),
            tally: ExportTally::default(),
        }
    }

    /// Writes samples of one series, after those written before.
    fn samples(&mut self, series: usize, times: &[i64], values: &[f64]) -> Result<(), ExportError> {
        let Exposition { out, series: all, state, tally, .. } = self;
        let series = &all[series];
        for (&time_ns, &value) in times.iter().zip(values) {
            if value.is_nan() {
                continue;
            }
            let value = if series.counts { state.sum + value } else { value };
            state.sum = value;
            let ms = time_ns.div_euclid(1_000_000);
            if state.last_ms.is_some_and(|last| ms <= last) {
                tally.left_out += 1;
                continue;
            }
            state.last_ms = Some(ms);
            let text = &mut out.text;
            if state.family != series.family {
                state.family.clone_from(&series.family);
                let kind = if series.counts { "counter" } else { "gauge" };
                let head = format!("# TYPE {0} {kind}\n# HELP {0} {1}\n", series.family, escaped(&series.help));
                text.extend_from_slice(head.as_bytes());
            }
            text.extend_from_slice(&state.prefix);
            put_value(text, value);
            put_seconds(text, ms);
            text.push(b'\n');
            tally.rows += 1;
            out.pass_on()?;
        }
        Ok(())
    }

    /// Prepares for the samples of another series.
    fn begin(&mut self, series: usize) {
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
        _ => number::put(text, value),
    }
    text.push(b' ');
}

/// Appends milliseconds as seconds. Negative times occur in logs without a date, which begin in 1970 local time.
fn put_seconds(text: &mut Vec<u8>, ms: i64) {
    if ms < 0 {
        text.push(b'-');
    }
    let (seconds, part) = (ms.unsigned_abs() / 1000, ms.unsigned_abs() % 1000);
    text.extend_from_slice(itoa::Buffer::new().format(seconds).as_bytes());
    let digit = |by: u64| b'0' + (part / by % 10) as u8;
    text.extend_from_slice(&[b'.', digit(100), digit(10), digit(1)]);
}

impl ExportSink for Exposition {
    fn passes(&self) -> usize {
        self.series.len().div_ceil(self.at_once)
    }

    fn wanted(&self, pass: usize) -> Vec<usize> {
        self.series.iter().skip(pass * self.at_once).take(self.at_once).map(|series| series.column).collect()
    }

    fn write(&mut self, batch: &ExportBatch<'_>) -> Result<(), ExportError> {
        batch.values.iter().flatten().for_each(|values| self.tally.count(values));
        if self.at_once == 1 {
            // the log is so long that not even one series fits: nothing is buffered
            if self.state.prefix.is_empty() {
                self.begin(self.first);
            }
            let times: Vec<i64> = batch.ticks.iter().map(|tick| tick.time_ns).collect();
            return match batch.values.first() {
                Some(Some(values)) => self.samples(self.first, &times, values),
                _ => Ok(()),
            };
        }
        self.times.extend(batch.ticks.iter().map(|tick| tick.time_ns));
        self.held.resize(batch.values.len(), Vec::new());
        for (held, values) in self.held.iter_mut().zip(batch.values) {
            // a missing series is not a gap, but neither has samples
            held.resize(self.times.len() - batch.ticks.len(), f64::NAN);
            match values {
                Some(values) => held.extend_from_slice(values),
                None => held.resize(self.times.len(), f64::NAN),
            }
        }
        Ok(())
    }

    fn end_pass(&mut self) -> Result<(), ExportError> {
        let times = std::mem::take(&mut self.times);
        let mut held = std::mem::take(&mut self.held);
        for (index, values) in held.iter_mut().enumerate() {
            self.begin(self.first + index);
            self.samples(self.first + index, &times, values)?;
            values.clear();
        }
        self.state.prefix.clear();
        self.state.sum = 0.0;
        self.state.last_ms = None;
        self.first += self.at_once;
        (self.times, self.held) = (times, held);
        self.times.clear();
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ExportTally, ExportError> {
        self.out.text.extend_from_slice(b"# EOF\n");
        self.tally.bytes = self.out.end()?;
        Ok(self.tally)
    }
}

/// Derives family, labels and help of a column.
fn name(index: usize, column: &ExportColumn) -> MetricSeries {
    let counts = column.kind == Some(CounterKind::Total);
    let object = column.counter.split_once('.').map_or("", |(object, _)| object);
    let mut labels = Vec::new();
    let metric = column.metric.clone().unwrap_or_else(|| {
        // Two names of other tools may become the same metric; the label distinguishes them.
        labels.push(format!("counter=\"{}\"", escaped(&column.counter)));
        format!("diskwright_{}", plain(&column.counter))
    });
    if !column.instance.is_empty() {
        labels.push(format!("{}=\"{}\"", prometheus_names::label_name(object), escaped(&column.instance)));
    }
    let sample = if labels.is_empty() { metric.clone() } else { format!("{metric}{{{}}}", labels.join(",")) };
    let family = if counts { metric.strip_suffix("_total").unwrap_or(&metric).to_owned() } else { metric };
    let help = match column.explain.as_str() {
        "" => "A counter of another tool.".to_owned(),
        text => text.to_owned(),
    };
    MetricSeries { column: index, family, sample, help, counts }
}

/// Converts a name to the characters that Prometheus allows.
fn plain(name: &str) -> String {
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
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
