//! One machine of a store, as a log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use diskwright_base::Schema;
use diskwright_logs::prometheus::{How, Machine, Source, Targets, Vocabulary};
use diskwright_logs::{Batch, Sink, Summary};

use crate::answer::{self, Grid, Matrix, Row};
use crate::client::Store;
use crate::error::RemoteError;
use crate::query::{self, EXPORTERS, METRIC, Processors, Selector};

/// What is wanted of a store.
#[derive(Clone, Debug)]
pub struct Wanted {
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

/// Id of the source, as in [`Note::SOURCE`].
pub const SOURCE: &str = "prometheus";

/// Points of a series that every store answers at once: Prometheus stops at 11,000.
const MOST_TICKS: usize = 10_000;
/// Ticks that a window has, where no step is given.
const USUAL_TICKS: i64 = 1_000;
/// Metrics asked for in one query.
const METRICS_AT_ONCE: usize = 16;
/// Points asked for in one query, about.
const POINTS_AT_ONCE: usize = 2_000_000;
/// Name of the row that tells at which ticks there were samples at all.
const PRESENCE: &str = "presence";

/// Reads one machine into the sink, in order of time.
///
/// # Errors
/// When the store cannot be asked, when nothing or more than one machine
/// matches, or when there is no sample in the window.
pub fn read(store: &Store, wanted: &Wanted, sink: &mut Sink<'_>) -> Result<Summary, RemoteError> {
    let found = find(store, wanted)?;
    let scrape_ms = scrape_interval(store, wanted, &wanted.selector.metric(&found.probe, ""))?;
    let step_ms = step(wanted, scrape_ms);
    let grid = Grid::within(wanted.from_ms, wanted.to_ms, step_ms);
    if grid.count < 2 {
        let because = format!("the window holds {} ticks of {} s; widen it", grid.count, step_ms as f64 / 1e3);
        return Err(RemoteError::Nothing(because));
    }
    let mut batch = Batch::new(SOURCE, sink);
    let ask = Ask { store, wanted, found: &found, scrape_ms, step_ms };
    for part in grid.parts(MOST_TICKS) {
        ask.part(part, &mut batch)?;
        if batch.is_stopped() {
            break;
        }
    }
    batch.finish(store.shown()).map_err(|e| RemoteError::Nothing(e.to_string()))
}

/// The metrics of the machine.
struct Found {
    host: String,
    metrics: BTreeMap<String, usize>,
    machine: Machine,
    /// A metric that every scrape brings.
    probe: String,
}

fn find(store: &Store, wanted: &Wanted) -> Result<Found, RemoteError> {
    let selector = wanted.selector.names(EXPORTERS);
    let (start, end) = (seconds(wanted.from_ms), seconds(wanted.to_ms));
    let body = store.post("/api/v1/series", &[("match[]", selector.as_str()), ("start", &start), ("end", &end)])?;
    let series = answer::series(&body).map_err(|because| bad(store, "/api/v1/series", because))?;
    let hosts: BTreeSet<&String> = series.iter().filter_map(|s| s.get(&wanted.by)).collect();
    let hosts: Vec<String> = hosts.into_iter().cloned().collect();
    let host = match hosts.as_slice() {
        [one] => one.clone(),
        [] if series.is_empty() => {
            let what = if wanted.selector.is_empty() { String::new() } else { " that match".to_owned() };
            let because =
                format!("{}: no metrics of node_exporter or windows_exporter{what} in the window", store.shown());
            return Err(RemoteError::Nothing(because));
        }
        [] => String::new(),
        _ => return Err(RemoteError::SeveralHosts { by: wanted.by.clone(), hosts }),
    };
    let mut metrics: BTreeMap<String, usize> = BTreeMap::new();
    let mut machine = Machine::default();
    for labels in &series {
        let Some(name) = labels.get("__name__") else { continue };
        machine.learn(name, |label| labels.get(label).map(String::as_str));
        if !Vocabulary::builtin().sources(name).is_empty() {
            *metrics.entry(name.clone()).or_default() += 1;
        }
    }
    let fewest = metrics.iter().min_by_key(|(name, series)| (**series, name.len()));
    let Some((probe, _)) = fewest else {
        let because = format!("{}: {host} has no metric that a rule could use", store.shown());
        return Err(RemoteError::Nothing(because));
    };
    Ok(Found { host, probe: probe.clone(), metrics, machine })
}

/// The time between two scrapes, milliseconds: from raw samples at the end of
/// the window, or, where there are none, from all of it.
pub(crate) fn scrape_interval(store: &Store, wanted: &Wanted, probe: &str) -> Result<i64, RemoteError> {
    let whole_ms = (wanted.to_ms - wanted.from_ms).max(1);
    for span_ms in [whole_ms.min(1_800_000), whole_ms] {
        let query = format!("{probe}[{span_ms}ms]");
        let body = store.post("/api/v1/query", &[("query", &query), ("time", &seconds(wanted.to_ms))])?;
        let usual = answer::usual_interval(&body).map_err(|because| bad(store, "/api/v1/query", because))?;
        if let Some(seconds) = usual.filter(|s| *s > 0.0) {
            return Ok(tidy_interval(seconds * 1e3));
        }
    }
    Err(RemoteError::Nothing(format!("{}: fewer than two samples of {probe} in the window", store.shown())))
}

/// The interval that people set which a measured one means: scrapes come a little early or late.
pub(crate) fn tidy_interval(measured_ms: f64) -> i64 {
    const USUAL_S: [f64; 12] = [1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0];
    let near = USUAL_S.iter().find(|usual| (measured_ms / 1e3 / *usual - 1.0).abs() < 0.05);
    near.map_or(measured_ms.max(1.0).round() as i64, |usual| (usual * 1e3) as i64)
}

/// The step asked for, no shorter than a scrape; else one that gives a window
/// about a thousand ticks.
fn step(wanted: &Wanted, scrape_ms: i64) -> i64 {
    match wanted.step_ms {
        Some(step) => step.max(scrape_ms),
        None => {
            let least = (wanted.to_ms - wanted.from_ms) / USUAL_TICKS;
            // whole scrapes, so that each tick has as many
            (least + scrape_ms - 1).div_euclid(scrape_ms).max(1) * scrape_ms
        }
    }
}

struct Ask<'a> {
    store: &'a Store,
    wanted: &'a Wanted,
    found: &'a Found,
    scrape_ms: i64,
    step_ms: i64,
}

impl Ask<'_> {
    /// Asks for a stretch of ticks and hands them over.
    fn part(&self, grid: Grid, batch: &mut Batch<'_>) -> Result<(), RemoteError> {
        let mut table = Table::new(grid);
        for query in self.queries(grid.count) {
            let matrix = range(self.store, &query, &grid)?;
            for warning in matrix.warnings {
                batch.skip(self.store.shown(), warning);
            }
            for row in matrix.rows {
                table.take(row);
            }
        }
        if batch.is_stopped() {
            return Ok(());
        }
        self.hand_over(table, batch);
        Ok(())
    }

    /// As few queries as may be, each of a size that stores take.
    fn queries(&self, ticks: usize) -> Vec<String> {
        let range_ms = range_of(self.store, self.step_ms, self.scrape_ms);
        let level_ms = level_range(self.step_ms, self.scrape_ms);
        let selector = |metric: &str| self.wanted.selector.metric(metric, "");
        let presence =
            format!("max by ({}) (count_over_time({}[{}ms]))", self.wanted.by, selector(&self.found.probe), level_ms);
        let mut queries = Vec::new();
        let mut group = vec![(PRESENCE.to_owned(), presence)];
        let mut points = ticks;
        for (metric, series) in chosen(&self.found.metrics) {
            let more = series * ticks;
            if group.len() >= METRICS_AT_ONCE || (points + more > POINTS_AT_ONCE && !group.is_empty()) {
                queries.push(query::together(&group));
                group.clear();
                points = 0;
            }
            let text =
                query::expression(metric, &selector(metric), &self.wanted.by, Processors::Each, level_ms, range_ms);
            group.push((metric.to_owned(), text));
            points += more;
        }
        queries.push(query::together(&group));
        queries
    }

    fn hand_over(&self, mut table: Table, batch: &mut Batch<'_>) {
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

/// How far back a rate looks. Prometheus sees only samples inside; so that what
/// was added between two ticks is not lost, it must reach back to the last
/// sample of the tick before. VictoriaMetrics does so by itself.
pub(crate) fn range_of(store: &Store, step_ms: i64, scrape_ms: i64) -> i64 {
    if store.is_victoria() { step_ms } else { level_range(step_ms, scrape_ms) + scrape_ms }
}

/// How far back a level looks: its tick, and a little further, because scrapes
/// come a little early or late and a tick of one scrape must not miss it.
pub(crate) fn level_range(step_ms: i64, scrape_ms: i64) -> i64 {
    step_ms + scrape_ms / 10
}

/// Metrics to ask for: of two of one exporter that bring the same counters, the
/// first that is there.
pub(crate) fn chosen(metrics: &BTreeMap<String, usize>) -> Vec<(&str, usize)> {
    type Brings<'a> = (&'a str, &'a str, &'a [(String, String)]);
    let mut taken: BTreeSet<Brings<'_>> = BTreeSet::new();
    let mut chosen = Vec::new();
    for (metric, &series) in metrics {
        let exporter = metric.split('_').next().unwrap_or_default();
        let sources = Vocabulary::builtin().sources(metric);
        let fresh = |s: &&'static Source| s.add || !taken.contains(&(exporter, s.counter.as_str(), s.only.as_slice()));
        if sources.iter().filter(fresh).count() == 0 {
            continue;
        }
        taken.extend(sources.iter().map(|s| (exporter, s.counter.as_str(), s.only.as_slice())));
        chosen.push((metric.as_str(), series));
    }
    chosen
}

/// Asks for a value a tick.
pub(crate) fn range(store: &Store, query: &str, grid: &Grid) -> Result<Matrix, RemoteError> {
    let (start, end) = (seconds(grid.first_ms), seconds(grid.last_ms()));
    let step = seconds(grid.step_ms);
    let form = [("query", query), ("start", &start), ("end", &end), ("step", &step)];
    let body = store.post("/api/v1/query_range", &form)?;
    answer::matrix(&body, grid).map_err(|because| bad(store, "/api/v1/query_range", because))
}

pub(crate) fn bad(store: &Store, path: &str, because: String) -> RemoteError {
    RemoteError::Answer { url: format!("{}{path}", store.shown()), because }
}

pub(crate) fn seconds(ms: i64) -> String {
    format!("{}.{:03}", ms.div_euclid(1000), ms.rem_euclid(1000))
}

/// Columns of a machine, filled from answers.
pub(crate) struct Table {
    pub grid: Grid,
    targets: Targets,
    columns: Vec<Vec<f64>>,
    presence: Option<Vec<f64>>,
}

impl Table {
    pub fn new(grid: Grid) -> Table {
        Table { grid, targets: Targets::default(), columns: Vec::new(), presence: None }
    }

    /// Takes a series that says in [`METRIC`] whose it is.
    fn take(&mut self, row: Row) {
        let metric = row.label(METRIC).unwrap_or_default().to_owned();
        if metric == PRESENCE {
            self.present(&row.values);
        } else {
            self.fill(&metric, &row, |name| row.label(name));
        }
    }

    /// Ticks at which there were samples.
    pub fn present(&mut self, counts: &[f64]) {
        self.presence = Some(counts.to_vec());
    }

    /// Puts a series of a metric where it belongs.
    pub fn fill<'a>(&mut self, metric: &str, row: &Row, label: impl Fn(&str) -> Option<&'a str>) {
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
                    How::Added => value * step_s,
                    How::Rate | How::Level => value,
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
    pub fn topology(&self, machine: &Machine, host: &str, schema: &Schema) -> diskwright_base::Topology {
        let facts = &Vocabulary::builtin().facts;
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

    fn wanted(hours: i64, step_ms: Option<i64>) -> Wanted {
        let to_ms = 1_700_000_000_000;
        let selector = Selector::default();
        Wanted { selector, by: "instance".into(), from_ms: to_ms - hours * 3_600_000, to_ms, step_ms }
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
    fn of_two_metrics_of_one_measure_one_is_asked_for() {
        let all = ["windows_physical_disk_read_latency_seconds_total", "windows_physical_disk_read_seconds_total"];
        let metrics = all.iter().map(|m| ((*m).to_owned(), 1)).collect();
        assert_eq!(chosen(&metrics), [(all[0], 1)]);
        let both = ["node_disk_reads_completed_total", "windows_physical_disk_reads_total"];
        let metrics = both.iter().map(|m| ((*m).to_owned(), 1)).collect();
        assert_eq!(chosen(&metrics).len(), 2);
    }
}
