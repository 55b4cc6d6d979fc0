//! Reads one machine of a store as a log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use diskwright_base::Schema;
use diskwright_base::counter_ids::processor;
use diskwright_base::units::format_count;
use diskwright_logs::prometheus::{MachineFacts, MetricConversion, MetricSource, MetricVocabulary, SeriesTargets};
use diskwright_logs::{FrameBatch, PieceSink, ReadSummary};

use crate::answer::{self, AnswerFault, QueryGrid, QueryRow, SampleTimes, find_label};
use crate::client::MetricStore;
use crate::error::RemoteError;
use crate::query::{self, EXPORTER_NAME_PATTERN, METRIC_LABEL, Processors, QuerySpan, Selector};

/// Query for machines of a store.
#[derive(Clone, Debug)]
pub struct HostQuery {
    /// Matchers that select the machines.
    pub selector: Selector,
    /// Label whose value is the name of the machine.
    pub host_label: String,
    /// Start of the window, milliseconds since 1970.
    pub from_ms: i64,
    /// End of the window, milliseconds since 1970.
    pub to_ms: i64,
    /// Time between two ticks, milliseconds; `None` means a step that suits the window.
    pub step_ms: Option<i64>,
}

/// Id of the source, as in [`diskwright_base::Note::SOURCE`].
pub const SOURCE: &str = "prometheus";

/// Largest number of points per series that every store returns in one answer; the limit of Prometheus is 11,000.
const MAX_TICKS: usize = 10_000;
/// Number of ticks of a window if no step is given.
const DEFAULT_TICKS: i64 = 1_000;
/// Largest number of metrics in one query.
const MAX_METRICS_PER_QUERY: usize = 16;
/// Approximate largest number of points in the answer to one query.
const MAX_POINTS_PER_QUERY: usize = 2_000_000;
/// Approximate largest number of cells of a part of the window; one part at a time is in memory.
const MAX_CELLS_PER_PART: usize = 4_000_000;
/// Largest number of cells that are accepted, for stores that return more series than they listed.
const MAX_CELLS: usize = 2 * MAX_CELLS_PER_PART;
/// Largest number of series of one machine.
const MAX_SERIES: usize = 300_000;
/// Largest number of machines of one store.
pub(crate) const MAX_HOSTS: usize = 50_000;
/// Name of the row that shows which ticks have samples.
const PRESENCE: &str = "presence";

/// Reads one machine into the sink, in order of time.
///
/// # Errors
/// When a query fails, when no or more than one machine matches, or when
/// there is no sample in the window.
pub fn read(store: &MetricStore, query: &HostQuery, sink: &mut PieceSink<'_>) -> Result<ReadSummary, RemoteError> {
    let metrics = find_metrics(store, query)?;
    let scrapes = ScrapeClock::read(store, query, &query.selector.metric_selector(&metrics.probe, ""))?;
    let scrape_ms = scrapes.interval_ms;
    let step_ms = choose_step_ms(query, scrape_ms);
    // ticks end halfway between two scrapes, so that an early or late scrape stays in its tick
    let grid = QueryGrid::within_window_at_phase(query.from_ms, query.to_ms, step_ms, scrapes.at_ms + scrape_ms / 2);
    if grid.count < 2 {
        let ticks = format_count(grid.count as u64, "tick", "ticks");
        let because = format!("the window holds only {ticks} of {} s; widen it", step_ms as f64 / 1e3);
        return Err(RemoteError::Nothing(because));
    }
    let mut batch = FrameBatch::new(SOURCE, sink);
    let fetch = HostFetch { store, query, metrics: &metrics, scrape_ms, step_ms };
    for part in grid.split_parts((MAX_CELLS_PER_PART / metrics.total_rows().max(1)).min(MAX_TICKS)) {
        fetch.fetch_part(part, &mut batch)?;
        if batch.is_stopped() {
            break;
        }
    }
    batch.finish(store.shown_address()).map_err(|e| RemoteError::Nothing(e.to_string()))
}

/// The metrics of one machine.
struct HostMetrics {
    host: String,
    /// Number of series of each metric.
    metrics: BTreeMap<String, usize>,
    machine: MachineFacts,
    /// A metric that every scrape contains.
    probe: String,
}

impl HostMetrics {
    /// Approximate total number of series in all answers.
    fn total_rows(&self) -> usize {
        choose_metrics(&self.metrics).into_iter().map(|(metric, series)| result_rows(metric, series)).sum()
    }
}

/// Returns the number of series in the answer for a metric with `series` series: a metric without instances is
/// aggregated to one series.
fn result_rows(metric: &str, series: usize) -> usize {
    let has_instances =
        MetricVocabulary::builtin().sources_of(metric).iter().any(|s| s.query_labels().next().is_some());
    if has_instances { series } else { series.min(1) }
}

/// Finds the machine and its metrics.
fn find_metrics(store: &MetricStore, query: &HostQuery) -> Result<HostMetrics, RemoteError> {
    let selector = query.selector.names_selector(EXPORTER_NAME_PATTERN);
    // there are far fewer names than series, so names are queried first
    let hosts = label_values(store, query, &query.host_label, &selector, MAX_HOSTS)?;
    if hosts.len() > 1 {
        return Err(RemoteError::SeveralHosts { by: query.host_label.clone(), hosts });
    }
    let host = hosts.into_iter().next().unwrap_or_default();
    let mut metrics: BTreeMap<String, usize> = BTreeMap::new();
    let mut machine = MachineFacts::default();
    let series = for_each_series(store, query, &selector, |labels| {
        let Some(name) = find_label(labels, "__name__") else { return };
        machine.learn_series(name, |label| find_label(labels, label));
        if !MetricVocabulary::builtin().sources_of(name).is_empty() {
            *metrics.entry(name.to_owned()).or_default() += 1;
        }
    })?;
    if series == 0 {
        let filter_text = if query.selector.is_empty() { String::new() } else { " that match".to_owned() };
        let because = format!(
            "{}: no metrics of node_exporter or windows_exporter{filter_text} in the window",
            store.shown_address()
        );
        return Err(RemoteError::Nothing(because));
    }
    // the metric with the fewest series is the cheapest to query
    let cheapest = metrics.iter().min_by_key(|(name, series)| (**series, name.len()));
    let Some((probe, _)) = cheapest else {
        let because = format!("{}: {host} has no metric that a rule uses", store.shown_address());
        return Err(RemoteError::Nothing(because));
    };
    Ok(HostMetrics { host, probe: probe.clone(), metrics, machine })
}

/// Calls `each` with the labels of every matching series; returns their number.
pub(crate) fn for_each_series(
    store: &MetricStore,
    query: &HostQuery,
    selector: &str,
    mut each: impl FnMut(&answer::Labels),
) -> Result<usize, RemoteError> {
    let (start, end) = (format_seconds(query.from_ms), format_seconds(query.to_ms));
    // a store that supports `limit` sends no more series than are accepted
    let limit = (MAX_SERIES + 1).to_string();
    let form = [("match[]", selector), ("start", &start), ("end", &end), ("limit", &limit)];
    let mut count = 0;
    let warnings = store.post("/api/v1/series", &form, |source| {
        answer::read_series(source, store.max_response_bytes(), &mut |labels| {
            count += 1;
            if count > MAX_SERIES {
                let limit = format!("more than {} series of one machine, the limit", MAX_SERIES);
                return Err(AnswerFault::too_much(&limit));
            }
            each(labels);
            Ok(())
        })
    })?;
    store.add_warnings(warnings);
    Ok(count)
}

/// Returns the values of a label, in the store's order.
pub(crate) fn label_values(
    store: &MetricStore,
    query: &HostQuery,
    label: &str,
    selector: &str,
    max_values: usize,
) -> Result<Vec<String>, RemoteError> {
    let path = format!("/api/v1/label/{label}/values");
    let (start, end, limit) =
        (format_seconds(query.from_ms), format_seconds(query.to_ms), (max_values + 1).to_string());
    let pairs = [("match[]", selector), ("start", &start), ("end", &end), ("limit", &limit)];
    let mut values = Vec::new();
    // Prometheus accepts this query only by GET
    let warnings = store.get(&path, &pairs, |source| {
        answer::read_names(source, store.max_response_bytes(), &mut |value| {
            if values.len() == max_values {
                return Err(AnswerFault::too_much(&format!("more than {max_values} values of {label}, the limit")));
            }
            values.push(value.clone());
            Ok(())
        })
    })?;
    store.add_warnings(warnings);
    Ok(values)
}

/// Interval and phase of a machine's scrapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScrapeClock {
    /// Median time between two scrapes, milliseconds.
    pub interval_ms: i64,
    /// Interval of the machine that is scraped least often, milliseconds.
    pub slowest_ms: i64,
    /// A time at which the machine is scraped, milliseconds since 1970.
    pub at_ms: i64,
}

impl ScrapeClock {
    /// Measures the scrapes from raw samples at the end of the window, or, if there are too few, in all of it.
    pub fn read(store: &MetricStore, query: &HostQuery, probe: &str) -> Result<ScrapeClock, RemoteError> {
        let window_ms = (query.to_ms - query.from_ms).max(1);
        for span_ms in [window_ms.min(1_800_000), window_ms] {
            let expression = format!("{probe}[{span_ms}ms]");
            let form = [("query", expression.as_str()), ("time", &format_seconds(query.to_ms))];
            let times = store
                .post("/api/v1/query", &form, |source| answer::read_sample_times(source, store.max_response_bytes()))?;
            if let Some(times) = times.filter(|t| t.interval_s > 0.0) {
                return Ok(ScrapeClock::from_sample_times(&times));
            }
        }
        Err(RemoteError::Nothing(format!("{}: fewer than two samples of {probe} in the window", store.shown_address())))
    }

    fn from_sample_times(times: &SampleTimes) -> ScrapeClock {
        let interval_ms = round_interval(times.interval_s * 1e3);
        let times_ms: Vec<i64> = times.last_s.iter().map(|s| (s * 1e3).round() as i64).collect();
        let last_ms = times_ms.last().copied().unwrap_or(0);
        // deviations from the phase of the last scrape; their median is robust against outliers
        let half = interval_ms / 2;
        let mut deviations_ms: Vec<i64> =
            times_ms.iter().map(|time| (time - last_ms + half).rem_euclid(interval_ms) - half).collect();
        deviations_ms.sort_unstable();
        let slowest_ms = round_interval(times.slowest_s * 1e3).max(interval_ms);
        let median_ms = deviations_ms.get(deviations_ms.len() / 2).copied().unwrap_or(0);
        ScrapeClock { interval_ms, slowest_ms, at_ms: last_ms + median_ms }
    }
}

/// Rounds a measured interval to a common setting, because scrapes come a little early or late.
pub(crate) fn round_interval(measured_ms: f64) -> i64 {
    const COMMON_INTERVALS_S: [f64; 12] = [1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0];
    let common = COMMON_INTERVALS_S.iter().find(|common_s| (measured_ms / 1e3 / *common_s - 1.0).abs() < 0.05);
    common.map_or(measured_ms.max(1.0).round() as i64, |common_s| (common_s * 1e3) as i64)
}

/// Chooses the step: the requested one, but at least the scrape interval; if none is requested, a step with which the
/// window has about a thousand ticks.
fn choose_step_ms(query: &HostQuery, scrape_ms: i64) -> i64 {
    match query.step_ms {
        Some(step) => step.max(scrape_ms),
        None => {
            let min_ms = (query.to_ms - query.from_ms) / DEFAULT_TICKS;
            // a multiple of the scrape interval, so that each tick has the same number of scrapes
            (min_ms + scrape_ms - 1).div_euclid(scrape_ms).max(1) * scrape_ms
        }
    }
}

/// Fetches a machine's ticks part by part.
struct HostFetch<'a> {
    store: &'a MetricStore,
    query: &'a HostQuery,
    metrics: &'a HostMetrics,
    scrape_ms: i64,
    step_ms: i64,
}

impl HostFetch<'_> {
    /// Fetches a part of the ticks and passes them to the batch.
    fn fetch_part(&self, grid: QueryGrid, batch: &mut FrameBatch<'_>) -> Result<(), RemoteError> {
        let mut table = HostTable::new(grid);
        for query in self.build_queries(&grid) {
            for warning in query_range(self.store, &query, &grid, |row| table.add_row(row))? {
                batch.add_skip(self.store.shown_address(), warning);
            }
        }
        if batch.is_stopped() {
            return Ok(());
        }
        self.emit_ticks(table, batch);
        Ok(())
    }

    /// Builds as few queries as possible, each of a size that stores accept.
    fn build_queries(&self, grid: &QueryGrid) -> Vec<String> {
        let (ticks, step_ms) = (grid.count, grid.step_ms);
        let total_ms = total_range_ms(self.scrape_ms);
        let span = QuerySpan { step_ms, level_ms: step_ms, shift_ms: grid.shift_ms, total_ms };
        let selector = |metric: &str| self.query.selector.metric_selector(metric, "");
        let scrapes = span.range_selector(&selector(&self.metrics.probe), span.level_ms, 0);
        let presence = format!("max by ({}) (count_over_time({scrapes}))", self.query.host_label);
        let mut queries = Vec::new();
        let mut group = vec![(PRESENCE.to_owned(), presence)];
        let mut points = ticks;
        for (metric, series) in choose_metrics(&self.metrics.metrics) {
            let metric_points = result_rows(metric, series) * ticks;
            if group.len() >= MAX_METRICS_PER_QUERY
                || (points + metric_points > MAX_POINTS_PER_QUERY && !group.is_empty())
            {
                queries.push(query::combine_queries(&group));
                group.clear();
                points = 0;
            }
            let text =
                query::metric_expression(metric, &selector(metric), &self.query.host_label, Processors::Each, span);
            group.push((metric.to_owned(), text));
            points += metric_points;
        }
        queries.push(query::combine_queries(&group));
        queries
    }

    /// Passes the ticks of a table to the batch, and before the first tick the topology.
    fn emit_ticks(&self, mut table: HostTable, batch: &mut FrameBatch<'_>) {
        let schema = Arc::new(table.finish_schema());
        if !batch.has_ticks() {
            let topology = table.topology(&self.metrics.machine, &self.metrics.host, &schema);
            batch.push_topology(table.grid.first_ms * 1_000_000, &topology);
        }
        let elapsed_ns = u64::try_from(self.step_ms).unwrap_or(0) * 1_000_000;
        let mut row = vec![f64::NAN; schema.series.len()];
        for tick in 0..table.grid.count {
            if table.fill_row(tick, &mut row) {
                batch.push_tick(&schema, table.grid.at_ms(tick) * 1_000_000, Some(elapsed_ns), &row);
            }
        }
    }
}

/// Largest age of the last scrape before the end of a tick, milliseconds: a little more than an interval, because
/// scrapes come a little early or late. If a scrape is missing, the ticks next to it have gaps, not the growth of two
/// intervals.
pub(crate) fn total_range_ms(scrape_ms: i64) -> i64 {
    scrape_ms + scrape_ms / 5
}

/// Chooses the metrics to query: if an exporter has several metrics for the same counters, the first that exists.
pub(crate) fn choose_metrics(metrics: &BTreeMap<String, usize>) -> Vec<(&str, usize)> {
    type ExporterCounter<'a> = (&'a str, &'a str, &'a [(String, String)]);
    let mut covered: BTreeSet<ExporterCounter<'_>> = BTreeSet::new();
    let mut chosen = Vec::new();
    for (metric, &series) in metrics {
        let exporter = metric.split('_').next().unwrap_or_default();
        let sources = MetricVocabulary::builtin().sources_of(metric);
        let is_new = |s: &&'static MetricSource| {
            s.is_part || !covered.contains(&(exporter, s.counter.as_str(), s.required_labels.as_slice()))
        };
        if sources.iter().filter(is_new).count() == 0 {
            continue;
        }
        covered.extend(sources.iter().map(|s| (exporter, s.counter.as_str(), s.required_labels.as_slice())));
        chosen.push((metric.as_str(), series));
    }
    chosen
}

/// Queries one value per tick, and calls `each` with each series when it was read. Returns the store's warnings.
pub(crate) fn query_range(
    store: &MetricStore,
    query: &str,
    grid: &QueryGrid,
    mut each: impl FnMut(&QueryRow) -> Result<(), AnswerFault>,
) -> Result<Vec<String>, RemoteError> {
    let (start, end) = (format_seconds(grid.first_ms + grid.shift_ms), format_seconds(grid.last_ms() + grid.shift_ms));
    let step = format_seconds(grid.step_ms);
    let form = [("query", query), ("start", &start), ("end", &end), ("step", &step)];
    store.post("/api/v1/query_range", &form, |source| {
        answer::read_matrix(source, store.max_response_bytes(), grid, &mut each)
    })
}

/// Formats milliseconds as seconds for the query API.
pub(crate) fn format_seconds(ms: i64) -> String {
    format!("{}.{:03}", ms.div_euclid(1000), ms.rem_euclid(1000))
}

/// Columns of a machine, filled from answers.
pub(crate) struct HostTable {
    pub grid: QueryGrid,
    targets: SeriesTargets,
    columns: Vec<Vec<f64>>,
    /// Number of samples at each tick.
    presence: Option<Vec<f64>>,
}

impl HostTable {
    /// Creates a table without series for these ticks.
    pub fn new(grid: QueryGrid) -> HostTable {
        HostTable { grid, targets: SeriesTargets::default(), columns: Vec::new(), presence: None }
    }

    /// Adds a series, whose label [`METRIC_LABEL`] is the name of its metric.
    fn add_row(&mut self, row: &QueryRow) -> Result<(), AnswerFault> {
        let metric = row.label_value(METRIC_LABEL).unwrap_or_default();
        if metric == PRESENCE {
            self.set_presence(&row.values);
        } else {
            self.add_values(metric, row, |name| row.label_value(name));
        }
        if self.cell_count() > MAX_CELLS {
            let limit = format!("more than {} series at {} ticks", self.columns.len() - 1, self.grid.count);
            return Err(AnswerFault::too_much(&limit));
        }
        Ok(())
    }

    /// Number of cells in the table.
    pub fn cell_count(&self) -> usize {
        self.columns.len() * self.grid.count
    }

    /// Sets the number of samples of each tick.
    pub fn set_presence(&mut self, counts: &[f64]) {
        self.presence = Some(counts.to_vec());
    }

    /// Adds the values of a metric's series to the columns of its counters.
    pub fn add_values<'a>(&mut self, metric: &str, row: &QueryRow, label: impl Fn(&str) -> Option<&'a str>) {
        let step_s = self.grid.step_ms as f64 / 1e3;
        for target in self.targets.find_targets(metric, label) {
            if self.columns.len() <= target.column {
                self.columns.resize_with(target.column + 1, Vec::new);
            }
            let column = &mut self.columns[target.column];
            column.resize(self.grid.count, f64::NAN);
            let source = target.source;
            for (cell, &value) in column.iter_mut().zip(&row.values) {
                let value = match source.conversion {
                    MetricConversion::Rate => value / step_s,
                    MetricConversion::Added | MetricConversion::Level => value,
                };
                let value = if source.is_complement && !value.is_nan() { (1.0 - value).max(0.0) } else { value };
                if value.is_nan() || (source.is_positive_only && value <= 0.0) {
                    continue;
                }
                *cell = if cell.is_nan() {
                    value
                } else if source.is_summed || source.is_part {
                    *cell + value
                } else {
                    cell.max(value)
                };
            }
        }
    }

    /// Completes the columns after all series were added, and returns their schema.
    pub fn finish_schema(&mut self) -> Schema {
        let schema = self.targets.build_schema();
        self.columns.resize_with(schema.series.len(), Vec::new);
        for column in &mut self.columns {
            column.resize(self.grid.count, f64::NAN);
        }
        schema
    }

    /// Copies the cells of a tick to `row`; returns false if nothing was scraped in the tick.
    pub fn fill_row(&self, tick: usize, row: &mut [f64]) -> bool {
        if self.presence.as_ref().is_some_and(|counts| counts[tick].is_nan() || counts[tick] == 0.0) {
            return false;
        }
        for (cell, column) in row.iter_mut().zip(&self.columns) {
            *cell = column[tick];
        }
        self.targets.fill_stalls(row);
        true
    }

    /// Returns the topology, from the machine's facts and some counters.
    pub fn topology(&self, machine: &MachineFacts, host: &str, schema: &Schema) -> diskwright_base::Topology {
        let facts = &MetricVocabulary::builtin().facts;
        let first_value = |id: &str| {
            let column = self.targets.find_column(id, "")?;
            let value = self.columns[column].iter().copied().find(|v| !v.is_nan())?;
            Some(value * schema.series[column].scale)
        };
        let count_processors = |counter| self.targets.counter_instances(counter).filter(|i| *i != "_total").count();
        let counted = count_processors(processor::IDLE_S).max(count_processors(processor::IDLE));
        let processors = first_value(&facts.processors).or((counted > 0).then_some(counted as f64));
        machine.topology(host, processors, first_value(&facts.memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_query(hours: i64, step_ms: Option<i64>) -> HostQuery {
        let to_ms = 1_700_000_000_000;
        let selector = Selector::default();
        HostQuery { selector, host_label: "instance".into(), from_ms: to_ms - hours * 3_600_000, to_ms, step_ms }
    }

    #[test]
    fn a_window_has_about_a_thousand_ticks_of_whole_scrapes() {
        assert_eq!(choose_step_ms(&host_query(1, None), 15_000), 15_000);
        assert_eq!(choose_step_ms(&host_query(24, None), 15_000), 90_000);
        assert_eq!(choose_step_ms(&host_query(24 * 7, None), 60_000), 660_000);
        assert_eq!(choose_step_ms(&host_query(1, Some(5_000)), 15_000), 15_000);
        assert_eq!(choose_step_ms(&host_query(1, Some(60_000)), 15_000), 60_000);
    }

    #[test]
    fn rounds_intervals_to_common_settings() {
        assert_eq!(round_interval(15_012.0), 15_000);
        assert_eq!(round_interval(59_990.5), 60_000);
        assert_eq!(round_interval(7_300.4), 7_300);
    }

    #[test]
    fn one_irregular_scrape_does_not_shift_the_ticks() {
        let times = |last_s: Vec<f64>| {
            ScrapeClock::from_sample_times(&SampleTimes { interval_s: 15.0, slowest_s: 15.0, last_s })
        };
        assert_eq!(times(vec![7.0, 22.1, 37.0, 52.0, 67.001]).at_ms, 67_000);
        assert_eq!(times(vec![7.0, 22.0, 37.0, 56.0]).at_ms, 52_000, "the last one was late");
        assert_eq!(times(vec![0.0, 14.9, 30.0, 45.1]).at_ms.rem_euclid(15_000), 0);
        assert_eq!(times(vec![]), ScrapeClock { interval_ms: 15_000, slowest_ms: 15_000, at_ms: 0 });
    }

    #[test]
    fn of_two_metrics_for_one_counter_only_one_is_queried() {
        let all = ["windows_physical_disk_read_latency_seconds_total", "windows_physical_disk_read_seconds_total"];
        let metrics = all.iter().map(|m| ((*m).to_owned(), 1)).collect();
        assert_eq!(choose_metrics(&metrics), [(all[0], 1)]);
        let both = ["node_disk_reads_completed_total", "windows_physical_disk_reads_total"];
        let metrics = both.iter().map(|m| ((*m).to_owned(), 1)).collect();
        assert_eq!(choose_metrics(&metrics).len(), 2);
    }
}
