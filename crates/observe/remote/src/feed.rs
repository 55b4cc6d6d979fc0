//! Converts a recorder's ticks to samples of named Prometheus series, with totals that only grow.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use diskwright_base::latency_series::is_latency_step;
use diskwright_base::prometheus_names::{label_name, metric_name};
use diskwright_base::{Catalogue, CounterKind, Note, Schema, Tick, Topology};

use crate::latency_feed::{FAMILY, LatencyFeed};

/// Name of a series in Prometheus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesName {
    /// Name of the metric.
    pub metric: String,
    /// Labels, sorted by name.
    pub labels: Vec<(String, String)>,
    /// Description of the metric.
    pub help: String,
    /// True if the value only grows.
    pub is_total: bool,
}

/// The state of all series at a tick.
#[derive(Clone, Debug, Default)]
pub struct SeriesSnapshot {
    /// Time of the tick, milliseconds since 1970.
    pub time_ms: i64,
    /// Names of the series: sorted, then those of histograms. The `Arc` stays the same as long as the series do.
    pub names: Arc<Vec<SeriesName>>,
    /// Value of each series; `NaN` if it has none at this tick.
    pub values: Vec<f64>,
}

/// Converter that collects ticks into the state of all series.
#[derive(Default)]
pub struct SeriesFeed {
    topology: Topology,
    schema: Arc<Schema>,
    /// Index of the series of each column; `None` for a counter that is not exported.
    series_of_column: Vec<Option<usize>>,
    /// The names must be built again.
    is_stale: bool,
    snapshot: SeriesSnapshot,
    /// Histograms of latency; their series are the last ones.
    latency: LatencyFeed,
}

impl SeriesFeed {
    /// Creates a feed without ticks; its totals begin at zero.
    pub fn new() -> SeriesFeed {
        SeriesFeed { is_stale: true, ..SeriesFeed::default() }
    }

    /// Takes the topology from a topology note; ignores other notes.
    pub fn add_note(&mut self, note: &Note) {
        if note.kind == Note::TOPOLOGY
            && let Ok(topology) = note.read_topology()
            && *topology != self.topology
        {
            self.topology = Arc::unwrap_or_clone(topology);
            self.is_stale = true;
        }
    }

    /// Adds a tick to the totals, and sets the levels to its values.
    pub fn add_tick(&mut self, tick: Tick, schema: &Arc<Schema>, row: &[f64]) {
        if self.is_stale || !Arc::ptr_eq(&self.schema, schema) {
            self.schema = Arc::clone(schema);
            self.latency.set_schema(schema);
            self.rebuild_names();
            self.is_stale = false;
        }
        self.latency.add_tick(row);
        self.snapshot.time_ms = tick.time_ns.div_euclid(1_000_000);
        for ((index, series), &cell) in self.series_of_column.iter().zip(&schema.series).zip(row) {
            let Some(index) = *index else { continue };
            let value = cell * series.scale;
            if !self.snapshot.names[index].is_total {
                self.snapshot.values[index] = value;
            } else if !value.is_nan() {
                // a gap leaves the total unchanged; a counter that was never measured has no total
                let total = self.snapshot.values[index];
                self.snapshot.values[index] = value.max(0.0) + if total.is_nan() { 0.0 } else { total };
            }
        }
        // the series of latency are the last ones
        let latency: Vec<f64> = self.latency.values().collect();
        let first_latency = self.snapshot.values.len() - latency.len();
        self.snapshot.values[first_latency..].copy_from_slice(&latency);
    }

    /// Current state of all series.
    pub fn snapshot(&self) -> &SeriesSnapshot {
        &self.snapshot
    }

    /// Builds the names for a new schema or topology; series that stay keep their totals.
    fn rebuild_names(&mut self) {
        type SeriesKey<'a> = (&'a str, &'a [(String, String)]);
        let old_totals: HashMap<SeriesKey<'_>, f64> = self
            .snapshot
            .names
            .iter()
            .zip(&self.snapshot.values)
            .filter(|(named, _)| named.is_total)
            .map(|(named, value)| ((named.metric.as_str(), named.labels.as_slice()), *value))
            .collect();
        // names of the series, and the columns of counters
        let mut entries: Vec<(SeriesName, Option<usize>)> = self
            .schema
            .series
            .iter()
            .enumerate()
            .filter_map(|(column, s)| Some((series_name(s)?, Some(column))))
            .collect();
        entries.extend(info_series(&self.topology).into_iter().map(|named| (named, None)));
        entries.sort_by(|a, b| (&a.0.metric, &a.0.labels).cmp(&(&b.0.metric, &b.0.labels)));
        let mut series_of_column = vec![None; self.schema.series.len()];
        let mut values = Vec::with_capacity(entries.len());
        for (index, (named, column)) in entries.iter().enumerate() {
            let previous = old_totals.get(&(named.metric.as_str(), named.labels.as_slice())).copied();
            values.push(match column {
                Some(_) if named.is_total => previous.unwrap_or(f64::NAN),
                Some(_) => f64::NAN,
                None => 1.0,
            });
            if let Some(column) = column {
                series_of_column[*column] = Some(index);
            }
        }
        drop(old_totals);
        self.series_of_column = series_of_column;
        let latency = self.latency.series_names();
        values.extend(latency.iter().map(|_| 0.0));
        self.snapshot.values = values;
        self.snapshot.names = Arc::new(entries.into_iter().map(|(named, _)| named).chain(latency).collect());
    }
}

/// Returns the name of a counter's series; `None` for unknown counters and steps of latency.
fn series_name(series: &diskwright_base::Series) -> Option<SeriesName> {
    // steps of latency are exported as histograms
    let counter = Catalogue::builtin().get(&series.counter).filter(|counter| !is_latency_step(&counter.id))?;
    let label = || (label_name(counter.object_name()).to_owned(), series.instance.clone());
    Some(SeriesName {
        metric: metric_name(counter),
        labels: if series.instance.is_empty() { Vec::new() } else { vec![label()] },
        help: counter.explain.clone(),
        is_total: counter.kind == CounterKind::Total,
    })
}

/// Returns the series whose labels describe the machine; their value is 1.
fn info_series(topology: &Topology) -> Vec<SeriesName> {
    let info_name = |metric: &str, help: &str, pairs: Vec<(&str, String)>| {
        let mut labels: Vec<(String, String)> =
            pairs.into_iter().filter(|(_, v)| !v.is_empty()).map(|(n, v)| (n.to_owned(), v)).collect();
        labels.sort_unstable();
        SeriesName { metric: metric.to_owned(), labels, help: help.to_owned(), is_total: false }
    };
    let host = vec![("host", topology.host.clone()), ("kernel", topology.kernel.clone())];
    let mut names = vec![info_name("diskwright_host_info", "The machine that is recorded.", host)];
    for device in &topology.devices {
        let level = device.level.map(|l| l.name().to_owned()).unwrap_or_default();
        let pairs = vec![
            ("device", device.name.clone()),
            ("kind", json_word(device.kind)),
            ("class", json_word(device.class)),
            ("below", device.below.join(",")),
            ("level", level),
            ("model", device.model.clone().unwrap_or_default()),
        ];
        let help = "A block device: its kind and class, and the devices below it.";
        names.push(info_name("diskwright_device_info", help, pairs));
    }
    names
}

/// Returns the JSON spelling of an enum value.
fn json_word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Formats the page for a scraper, in text format 0.0.4 of Prometheus.
pub fn metrics_page(snapshot: &SeriesSnapshot) -> String {
    let mut text = String::with_capacity(snapshot.names.len() * 100);
    let mut previous_metric = "";
    for (named, value) in snapshot.names.iter().zip(&snapshot.values) {
        if value.is_nan() {
            continue;
        }
        let is_histogram = named.metric.starts_with(FAMILY);
        if is_histogram && previous_metric != FAMILY {
            previous_metric = FAMILY;
            let _ = write!(text, "# HELP {FAMILY} {}\n# TYPE {FAMILY} histogram\n", named.help);
        } else if !is_histogram && named.metric != previous_metric {
            let kind = if named.is_total { "counter" } else { "gauge" };
            let help = named.help.replace('\\', "\\\\").replace('\n', " ");
            // writing to a string cannot fail
            let _ = write!(text, "# HELP {0} {help}\n# TYPE {0} {kind}\n", named.metric);
            previous_metric = &named.metric;
        }
        text.push_str(&named.metric);
        for (index, (name, value)) in named.labels.iter().enumerate() {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(text, "{}{name}=\"{escaped}\"", if index == 0 { '{' } else { ',' });
        }
        let _ = writeln!(text, "{} {value}", if named.labels.is_empty() { "" } else { "}" });
    }
    if snapshot.time_ms > 0 {
        let help = "Time of the tick that this page shows, seconds since 1970.";
        let seconds = snapshot.time_ms as f64 / 1e3;
        let _ = write!(
            text,
            "# HELP diskwright_time_seconds {help}\n# TYPE diskwright_time_seconds gauge\n\
             diskwright_time_seconds {seconds}\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use diskwright_base::{Device, DeviceClass, Series};

    use super::*;

    fn schema(disks: &[&str]) -> Arc<Schema> {
        let of =
            |counter: &str, instance: &str, scale| Series { counter: counter.into(), instance: instance.into(), scale };
        let mut series = vec![of("memory.total_bytes", "", 1024.0)];
        series.extend(disks.iter().map(|disk| of("physical_disk.read_time_s", disk, 0.001)));
        Arc::new(Schema::new(series))
    }

    #[test]
    fn totals_only_grow_and_levels_are_unchanged() {
        let mut feed = SeriesFeed::new();
        let topology = Topology {
            host: "db1".into(),
            devices: vec![Device { name: "sda".into(), class: DeviceClass::Rotational, ..Device::default() }],
            ..Topology::default()
        };
        feed.add_note(&Note::new(0, Note::TOPOLOGY, serde_json::to_string(&topology).unwrap()));
        let one = schema(&["sda"]);
        for cell in [f64::NAN, 500.0, f64::NAN, 250.0] {
            feed.add_tick(Tick { time_ns: 5_000_000_000, elapsed_ns: 1 }, &one, &[1000.0, cell]);
        }
        // another disk appears, and the existing totals continue
        feed.add_tick(
            Tick { time_ns: 6_500_000_000, elapsed_ns: 1 },
            &schema(&["sd\"b", "sda"]),
            &[2000.0, 1.0, 250.0],
        );
        let page = metrics_page(feed.snapshot());
        let has = |line: &str| assert!(page.lines().any(|l| l == line), "{line}\n{page}");
        has("# TYPE diskwright_physical_disk_read_time_seconds_total counter");
        has("diskwright_physical_disk_read_time_seconds_total{device=\"sda\"} 1");
        has("diskwright_physical_disk_read_time_seconds_total{device=\"sd\\\"b\"} 0.001");
        has("diskwright_memory_size_bytes 2048000");
        has("diskwright_device_info{class=\"rotational\",device=\"sda\",kind=\"disk\"} 1");
        has("diskwright_time_seconds 6.5");
    }

    #[test]
    fn a_counter_never_measured_has_no_total() {
        let (mut feed, schema) = (SeriesFeed::new(), schema(&["old", "idle"]));
        for cell in [f64::NAN, 0.0] {
            feed.add_tick(Tick { time_ns: 1, elapsed_ns: 1 }, &schema, &[1.0, f64::NAN, cell]);
        }
        let page = metrics_page(feed.snapshot());
        assert!(!page.contains("device=\"old\""), "{page}");
        assert!(page.contains("read_time_seconds_total{device=\"idle\"} 0\n"), "{page}");
    }
}
