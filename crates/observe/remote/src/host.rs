//! One machine of a store, as a log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use diskwright_base::Schema;
use diskwright_base::units::plural;
use diskwright_logs::prometheus::{MachineFacts, MetricConversion, MetricSource, MetricVocabulary, SeriesTargets};
use diskwright_logs::{FrameBatch, PieceSink, ReadSummary};

use crate::answer::{self, AnswerFault, QueryGrid, QueryRow, SampleTimes, label};
use crate::client::MetricStore;
use crate::error::RemoteError;
use crate::query::{self, EXPORTERS, METRIC, Processors, QuerySpan, Selector};

/// What is wanted of a store.
#[derive(Clone, Debug)]
pub struct HostQuery {
    /// Which machine.
    pub selector: Selector,
    /// The label that names machines.
    pub by: String,
    /// Window, milliseconds since 1970.
    pub from_ms: i64,
    /// Its end.
    pub to_ms: i64,
    /// Time between two ticks; `None` for what suits the window.
    pub step_ms: Option<i64>,
}

/// Id of the source, as in [`diskwright_base::Note::SOURCE`].
pub const SOURCE: &str = "prometheus";

/// Points of a series that every store answers at once: Prometheus stops at 11,000.
const MOST_TICKS: usize = 10_000;
/// Ticks that a window has, where no step is given.
const USUAL_TICKS: i64 = 1_000;
/// Metrics asked for in one query.
const METRICS_AT_ONCE: usize = 16;
/// Points asked for in one query, about.
const POINTS_AT_ONCE: usize = 2_000_000;
/// Cells of a part of the window, about, which memory holds.
const CELLS_AT_ONCE: usize = 4_000_000;
/// Cells that are taken where a store answers more than it listed.
const MOST_CELLS: usize = 2 * CELLS_AT_ONCE;
/// Series that one machine may have.
const MOST_SERIES: usize = 300_000;
/// Machines that one store may have.
pub(crate) const MOST_HOSTS: usize = 50_000;
/// Name of the row that tells at which ticks there were samples at all.
const PRESENCE: &str = "presence";

/// Reads one machine into the sink, in order of time.
///
/// # Errors
/// When the store cannot be asked, when nothing or more than one machine
/// matches, or when there is no sample in the window.
pub fn read(store: &MetricStore, wanted: &HostQuery, sink: &mut PieceSink<'_>) -> Result<ReadSummary, RemoteError> {
    let found = find(store, wanted)?;
    let scrapes = ScrapeClock::read(store, wanted, &wanted.selector.metric(&found.probe, ""))?;
    let scrape_ms = scrapes.interval_ms;
    let step_ms = step(wanted, scrape_ms);
    // ticks end half way between two scrapes, so that none falls out of one for being early or late
    let grid = QueryGrid::through(wanted.from_ms, wanted.to_ms, step_ms, scrapes.at_ms + scrape_ms / 2);
    if grid.count < 2 {
        let ticks = plural(grid.count as u64, "tick", "ticks");
        let because = format!("the window holds only {ticks} of {} s; widen it", step_ms as f64 / 1e3);
        return Err(RemoteError::Nothing(because));
    }
    let mut batch = FrameBatch::new(SOURCE, sink);
    let ask = HostFetch { store, wanted, found: &found, scrape_ms, step_ms };
    for part in grid.parts((CELLS_AT_ONCE / found.rows().max(1)).min(MOST_TICKS)) {
        ask.part(part, &mut batch)?;
        if batch.is_stopped() {
            break;
        }
    }
    batch.finish(store.shown()).map_err(|e| RemoteError::Nothing(e.to_string()))
}

/// The metrics of the machine.
struct HostMetrics {
    host: String,
    /// Series of each.
    metrics: BTreeMap<String, usize>,
    machine: MachineFacts,
    /// A metric that every scrape brings.
    probe: String,
}

impl HostMetrics {
    /// Series that answers have in sum, about.
    fn rows(&self) -> usize {
        chosen(&self.metrics).into_iter().map(|(metric, series)| rows(metric, series)).sum()
    }
}

/// Series of an answer to a metric of so many: those without an instance are one.
fn rows(metric: &str, series: usize) -> usize {
    let has_instances = MetricVocabulary::builtin().sources(metric).iter().any(|s| s.labels().next().is_some());
    if has_instances { series } else { series.min(1) }
}

fn find(store: &MetricStore, wanted: &HostQuery) -> Result<HostMetrics, RemoteError> {
    let selector = wanted.selector.names(EXPORTERS);
    // names are few where series are many, so these are asked for first
    let hosts = label_values(store, wanted, &wanted.by, &selector, MOST_HOSTS)?;
    if hosts.len() > 1 {
        return Err(RemoteError::SeveralHosts { by: wanted.by.clone(), hosts });
    }
    let host = hosts.into_iter().next().unwrap_or_default();
    let mut metrics: BTreeMap<String, usize> = BTreeMap::new();
    let mut machine = MachineFacts::default();
    let series = each_series(store, wanted, &selector, |labels| {
        let Some(name) = label(labels, "__name__") else { return };
        machine.learn(name, |wanted| label(labels, wanted));
        if !MetricVocabulary::builtin().sources(name).is_empty() {
            *metrics.entry(name.to_owned()).or_default() += 1;
        }
    })?;
    if series == 0 {
        let what = if wanted.selector.is_empty() { String::new() } else { " that match".to_owned() };
        let because = format!("{}: no metrics of node_exporter or windows_exporter{what} in the window", store.shown());
        return Err(RemoteError::Nothing(because));
    }
    let fewest = metrics.iter().min_by_key(|(name, series)| (**series, name.len()));
    let Some((probe, _)) = fewest else {
        let because = format!("{}: {host} has no metric that a rule uses", store.shown());
        return Err(RemoteError::Nothing(because));
    };
    Ok(HostMetrics { host, probe: probe.clone(), metrics, machine })
}

/// The series that match, one after another; how many there are.
pub(crate) fn each_series(
    store: &MetricStore,
    wanted: &HostQuery,
    selector: &str,
    mut each: impl FnMut(&answer::Labels),
) -> Result<usize, RemoteError> {
    let (start, end) = (seconds(wanted.from_ms), seconds(wanted.to_ms));
    // a store that knows `limit` need not send what would be refused
    let limit = (MOST_SERIES + 1).to_string();
    let form = [("match[]", selector), ("start", &start), ("end", &end), ("limit", &limit)];
    let mut count = 0;
    let warnings = store.post("/api/v1/series", &form, |source| {
        answer::series(source, store.most_bytes(), &mut |labels| {
            count += 1;
            if count > MOST_SERIES {
                let what = format!("more than {MOST_SERIES} series of one machine, the limit");
                return Err(AnswerFault::too_much(&what));
            }
            each(labels);
            Ok(())
        })
    })?;
    store.warned(warnings);
    Ok(count)
}

/// The values of a label, sorted as the store has them.
pub(crate) fn label_values(
    store: &MetricStore,
    wanted: &HostQuery,
    label: &str,
    selector: &str,
    most: usize,
) -> Result<Vec<String>, RemoteError> {
    let path = format!("/api/v1/label/{label}/values");
    let (start, end, limit) = (seconds(wanted.from_ms), seconds(wanted.to_ms), (most + 1).to_string());
    let pairs = [("match[]", selector), ("start", &start), ("end", &end), ("limit", &limit)];
    let mut values = Vec::new();
    // Prometheus takes this question by GET alone
    let warnings = store.get(&path, &pairs, |source| {
        answer::names(source, store.most_bytes(), &mut |value| {
            if values.len() == most {
                return Err(AnswerFault::too_much(&format!("more than {most} values of {label}, the limit")));
            }
            values.push(value.clone());
            Ok(())
        })
    })?;
    store.warned(warnings);
    Ok(values)
}

/// When a machine is scraped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScrapeClock {
    /// Time between two scrapes, milliseconds.
    pub interval_ms: i64,
    /// That of the machine that is scraped least often.
    pub slowest_ms: i64,
    /// A moment at which it is scraped, milliseconds since 1970.
    pub at_ms: i64,
}

impl ScrapeClock {
    /// From raw samples at the end of the window, or, where there are none, from all of it.
    pub fn read(store: &MetricStore, wanted: &HostQuery, probe: &str) -> Result<ScrapeClock, RemoteError> {
        let whole_ms = (wanted.to_ms - wanted.from_ms).max(1);
        for span_ms in [whole_ms.min(1_800_000), whole_ms] {
            let query = format!("{probe}[{span_ms}ms]");
            let form = [("query", query.as_str()), ("time", &seconds(wanted.to_ms))];
            let times =
                store.post("/api/v1/query", &form, |source| answer::usual_interval(source, store.most_bytes()))?;
            if let Some(times) = times.filter(|t| t.interval_s > 0.0) {
                return Ok(ScrapeClock::of(&times));
            }
        }
        Err(RemoteError::Nothing(format!("{}: fewer than two samples of {probe} in the window", store.shown())))
    }

    fn of(times: &SampleTimes) -> ScrapeClock {
        let interval_ms = tidy_interval(times.interval_s * 1e3);
        let all: Vec<i64> = times.last_s.iter().map(|s| (s * 1e3).round() as i64).collect();
        let last = all.last().copied().unwrap_or(0);
        // early or late against the last one; the middle of them is no odd one
        let half = interval_ms / 2;
        let mut off: Vec<i64> = all.iter().map(|time| (time - last + half).rem_euclid(interval_ms) - half).collect();
        off.sort_unstable();
        let slowest_ms = tidy_interval(times.slowest_s * 1e3).max(interval_ms);
        ScrapeClock { interval_ms, slowest_ms, at_ms: last + off.get(off.len() / 2).copied().unwrap_or(0) }
    }
}

/// The interval that people set which a measured one means: scrapes come a little early or late.
pub(crate) fn tidy_interval(measured_ms: f64) -> i64 {
    const USUAL_S: [f64; 12] = [1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0];
    let near = USUAL_S.iter().find(|usual| (measured_ms / 1e3 / *usual - 1.0).abs() < 0.05);
    near.map_or(measured_ms.max(1.0).round() as i64, |usual| (usual * 1e3) as i64)
}

/// The step asked for, no shorter than a scrape; else one that gives a window
/// about a thousand ticks.
fn step(wanted: &HostQuery, scrape_ms: i64) -> i64 {
    match wanted.step_ms {
        Some(step) => step.max(scrape_ms),
        None => {
            let least = (wanted.to_ms - wanted.from_ms) / USUAL_TICKS;
            // whole scrapes, so that each tick has as many
            (least + scrape_ms - 1).div_euclid(scrape_ms).max(1) * scrape_ms
        }
    }
}

struct HostFetch<'a> {
    store: &'a MetricStore,
    wanted: &'a HostQuery,
    found: &'a HostMetrics,
    scrape_ms: i64,
    step_ms: i64,
}

impl HostFetch<'_> {
    /// Asks for a stretch of ticks and hands them over.
    fn part(&self, grid: QueryGrid, batch: &mut FrameBatch<'_>) -> Result<(), RemoteError> {
        let mut table = HostTable::new(grid);
        for query in self.queries(&grid) {
            for warning in range(self.store, &query, &grid, |row| table.take(row))? {
                batch.skip(self.store.shown(), warning);
            }
        }
        if batch.is_stopped() {
            return Ok(());
        }
        self.hand_over(table, batch);
        Ok(())
    }

    /// As few queries as may be, each of a size that stores take.
    fn queries(&self, grid: &QueryGrid) -> Vec<String> {
        let (ticks, step_ms) = (grid.count, grid.step_ms);
        let total_ms = total_range(self.scrape_ms);
        let span = QuerySpan { step_ms, level_ms: step_ms, shift_ms: grid.shift_ms, total_ms };
        let selector = |metric: &str| self.wanted.selector.metric(metric, "");
        let scrapes = span.samples(&selector(&self.found.probe), span.level_ms, 0);
        let presence = format!("max by ({}) (count_over_time({scrapes}))", self.wanted.by);
        let mut queries = Vec::new();
        let mut group = vec![(PRESENCE.to_owned(), presence)];
        let mut points = ticks;
        for (metric, series) in chosen(&self.found.metrics) {
            let more = rows(metric, series) * ticks;
            if group.len() >= METRICS_AT_ONCE || (points + more > POINTS_AT_ONCE && !group.is_empty()) {
                queries.push(query::together(&group));
                group.clear();
                points = 0;
            }
            let text = query::expression(metric, &selector(metric), &self.wanted.by, Processors::Each, span);
            group.push((metric.to_owned(), text));
            points += more;
        }
        queries.push(query::together(&group));
        queries
    }

    fn hand_over(&self, mut table: HostTable, batch: &mut FrameBatch<'_>) {
        let schema = Arc::new(table.finish());
        if !batch.has_ticks() {
            let topology = table.topology(&self.found.machine, &self.found.host, &schema);
            batch.topology(table.grid.first_ms * 1_000_000, &topology);
        }
        let elapsed = u64::try_from(self.step_ms).unwrap_or(0) * 1_000_000;
        let mut row = vec![f64::NAN; schema.series.len()];
        for tick in 0..table.grid.count {
            if table.row(tick, &mut row) {
                batch.tick(&schema, table.grid.at_ms(tick) * 1_000_000, Some(elapsed), &row);
            }
        }
    }
}

/// How far back the last scrape may lie: one, and a little, because scrapes come a little early
/// or late. Where one is missing the ticks beside it have gaps, not the growth of two.
pub(crate) fn total_range(scrape_ms: i64) -> i64 {
    scrape_ms + scrape_ms / 5
}

/// Metrics to ask for: of two of one exporter that bring the same counters, the
/// first that is there.
pub(crate) fn chosen(metrics: &BTreeMap<String, usize>) -> Vec<(&str, usize)> {
    type ExporterCounter<'a> = (&'a str, &'a str, &'a [(String, String)]);
    let mut taken: BTreeSet<ExporterCounter<'_>> = BTreeSet::new();
    let mut chosen = Vec::new();
    for (metric, &series) in metrics {
        let exporter = metric.split('_').next().unwrap_or_default();
        let sources = MetricVocabulary::builtin().sources(metric);
        let fresh =
            |s: &&'static MetricSource| s.add || !taken.contains(&(exporter, s.counter.as_str(), s.only.as_slice()));
        if sources.iter().filter(fresh).count() == 0 {
            continue;
        }
        taken.extend(sources.iter().map(|s| (exporter, s.counter.as_str(), s.only.as_slice())));
        chosen.push((metric.as_str(), series));
    }
    chosen
}

/// Asks for a value a tick; `each` takes the series as they come. Returns the store's warnings.
pub(crate) fn range(
    store: &MetricStore,
    query: &str,
    grid: &QueryGrid,
    mut each: impl FnMut(&QueryRow) -> Result<(), AnswerFault>,
) -> Result<Vec<String>, RemoteError> {
    let (start, end) = (seconds(grid.first_ms + grid.shift_ms), seconds(grid.last_ms() + grid.shift_ms));
    let step = seconds(grid.step_ms);
    let form = [("query", query), ("start", &start), ("end", &end), ("step", &step)];
    store.post("/api/v1/query_range", &form, |source| answer::matrix(source, store.most_bytes(), grid, &mut each))
}

pub(crate) fn seconds(ms: i64) -> String {
    format!("{}.{:03}", ms.div_euclid(1000), ms.rem_euclid(1000))
}

/// Columns of a machine, filled from answers.
pub(crate) struct HostTable {
    pub grid: QueryGrid,
    targets: SeriesTargets,
    columns: Vec<Vec<f64>>,
    presence: Option<Vec<f64>>,
}

impl HostTable {
    pub fn new(grid: QueryGrid) -> HostTable {
        HostTable { grid, targets: SeriesTargets::default(), columns: Vec::new(), presence: None }
    }

    /// Takes a series that says in [`METRIC`] whose it is.
    fn take(&mut self, row: &QueryRow) -> Result<(), AnswerFault> {
        let metric = row.label(METRIC).unwrap_or_default();
        if metric == PRESENCE {
            self.present(&row.values);
        } else {
            self.fill(metric, row, |name| row.label(name));
        }
        if self.cells() > MOST_CELLS {
            let what = format!("more than {} series at {} ticks", self.columns.len() - 1, self.grid.count);
            return Err(AnswerFault::too_much(&what));
        }
        Ok(())
    }

    /// Cells that it holds.
    pub fn cells(&self) -> usize {
        self.columns.len() * self.grid.count
    }

    /// Ticks at which there were samples.
    pub fn present(&mut self, counts: &[f64]) {
        self.presence = Some(counts.to_vec());
    }

    /// Puts a series of a metric where it belongs.
    pub fn fill<'a>(&mut self, metric: &str, row: &QueryRow, label: impl Fn(&str) -> Option<&'a str>) {
        let step_s = self.grid.step_ms as f64 / 1e3;
        for place in self.targets.places(metric, label) {
            if self.columns.len() <= place.column {
                self.columns.resize_with(place.column + 1, Vec::new);
            }
            let column = &mut self.columns[place.column];
            column.resize(self.grid.count, f64::NAN);
            let source = place.source;
            for (to, &value) in column.iter_mut().zip(&row.values) {
                let cell = match source.how {
                    MetricConversion::Rate => value / step_s,
                    MetricConversion::Added | MetricConversion::Level => value,
                };
                let cell = if source.complement && !cell.is_nan() { (1.0 - cell).max(0.0) } else { cell };
                if cell.is_nan() || (source.positive && cell <= 0.0) {
                    continue;
                }
                *to = match () {
                    () if to.is_nan() => cell,
                    () if source.sum || source.add => *to + cell,
                    () => to.max(cell),
                };
            }
        }
    }

    /// The schema; to be asked when all series are in.
    pub fn finish(&mut self) -> Schema {
        let schema = self.targets.schema();
        self.columns.resize_with(schema.series.len(), Vec::new);
        for column in &mut self.columns {
            column.resize(self.grid.count, f64::NAN);
        }
        schema
    }

    /// The cells of a tick; false where nothing was scraped then.
    pub fn row(&self, tick: usize, row: &mut [f64]) -> bool {
        if self.presence.as_ref().is_some_and(|counts| counts[tick].is_nan() || counts[tick] == 0.0) {
            return false;
        }
        for (to, column) in row.iter_mut().zip(&self.columns) {
            *to = column[tick];
        }
        self.targets.judge_stalls(row);
        true
    }

    /// What is known of the machine itself.
    pub fn topology(&self, machine: &MachineFacts, host: &str, schema: &Schema) -> diskwright_base::Topology {
        let facts = &MetricVocabulary::builtin().facts;
        let of = |id: &str| {
            let column = self.targets.column(id, "")?;
            let value = self.columns[column].iter().copied().find(|v| !v.is_nan())?;
            Some(value * schema.series[column].scale)
        };
        let singles = |counter| self.targets.instances(counter).filter(|i| *i != "_total").count();
        let counted = singles("processor.idle_s").max(singles("processor.idle"));
        let processors = of(&facts.processors).or((counted > 0).then_some(counted as f64));
        machine.topology(host, processors, of(&facts.memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(hours: i64, step_ms: Option<i64>) -> HostQuery {
        let to_ms = 1_700_000_000_000;
        let selector = Selector::default();
        HostQuery { selector, by: "instance".into(), from_ms: to_ms - hours * 3_600_000, to_ms, step_ms }
    }

    #[test]
    fn a_window_has_about_a_thousand_ticks_of_whole_scrapes() {
        assert_eq!(step(&wanted(1, None), 15_000), 15_000);
        assert_eq!(step(&wanted(24, None), 15_000), 90_000);
        assert_eq!(step(&wanted(24 * 7, None), 60_000), 660_000);
        assert_eq!(step(&wanted(1, Some(5_000)), 15_000), 15_000);
        assert_eq!(step(&wanted(1, Some(60_000)), 15_000), 60_000);
    }

    #[test]
    fn scrapes_are_as_far_apart_as_people_set_them() {
        assert_eq!(tidy_interval(15_012.0), 15_000);
        assert_eq!(tidy_interval(59_990.5), 60_000);
        assert_eq!(tidy_interval(7_300.4), 7_300);
    }

    #[test]
    fn a_tick_ends_between_scrapes_whatever_one_of_them_did() {
        let times = |last_s: Vec<f64>| ScrapeClock::of(&SampleTimes { interval_s: 15.0, slowest_s: 15.0, last_s });
        assert_eq!(times(vec![7.0, 22.1, 37.0, 52.0, 67.001]).at_ms, 67_000);
        assert_eq!(times(vec![7.0, 22.0, 37.0, 56.0]).at_ms, 52_000, "the last one was late");
        assert_eq!(times(vec![0.0, 14.9, 30.0, 45.1]).at_ms.rem_euclid(15_000), 0);
        assert_eq!(times(vec![]), ScrapeClock { interval_ms: 15_000, slowest_ms: 15_000, at_ms: 0 });
    }

    #[test]
    fn of_two_metrics_of_one_measure_one_is_asked_for() {
        let all = ["windows_physical_disk_read_latency_seconds_total", "windows_physical_disk_read_seconds_total"];
        let metrics = all.iter().map(|m| ((*m).to_owned(), 1)).collect();
        assert_eq!(chosen(&metrics), [(all[0], 1)]);
        let both = ["node_disk_reads_completed_total", "windows_physical_disk_reads_total"];
        let metrics = both.iter().map(|m| ((*m).to_owned(), 1)).collect();
        assert_eq!(chosen(&metrics).len(), 2);
    }
}
