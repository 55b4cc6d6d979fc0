//! Many machines of a store at a coarse step, in chunks of machines: the store
//! does the aggregation, and only one chunk is in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use diskwright_base::catalogue::FormulaDivisor;
use diskwright_base::{Catalogue, Frame, Tick, Topology};
use diskwright_logs::prometheus::{MachineFacts, MetricVocabulary};
use diskwright_logs::{Skips, ValueLimits};

use crate::answer::{AnswerFault, QueryGrid, QueryRow, find_label};
use crate::client::MetricStore;
use crate::error::RemoteError;
use crate::host::{
    HostQuery, HostTable, MAX_HOSTS, ScrapeClock, choose_metrics, for_each_series, label_values, query_range,
    total_range_ms,
};
use crate::query::{self, EXPORTER_NAME_PATTERN, Processors, QuerySpan};

/// Number of ticks of a window if no step is given: five minutes each for a day.
const DEFAULT_TICKS: i64 = 288;
/// Largest number of points per series that every store returns in one answer.
const MAX_TICKS: usize = 10_000;
/// Approximate number of machines times ticks in a chunk, which limits memory.
const CHUNK_SAMPLES: usize = 30_000;
/// Largest number of cells of a chunk; a chunk with more is fetched in two halves.
const MAX_CHUNK_CELLS: usize = 4_000_000;
/// Largest number of chunks that are halved, so that a store that always returns too much is not queried endlessly.
const MAX_HALVED_CHUNKS: usize = 100;
/// Approximate number of machines whose scrape interval is measured.
const SCRAPE_SAMPLE_HOSTS: usize = 50;
/// Largest number of metric names of a store.
const MAX_METRICS: usize = 100_000;

/// Metrics that every scrape of an exporter contains, best first.
const PROBE_METRICS: [&str; 6] = [
    "node_load1",
    "node_memory_MemAvailable_bytes",
    "windows_system_threads",
    "windows_cpu_time_total",
    "wmi_cpu_time_total",
    "diskwright_memory_available_bytes",
];

/// Metrics with a series for each processor and mode; `node_cpu` is from old exporters.
const PROCESSOR_METRICS: [&str; 4] =
    ["node_cpu_seconds_total", "node_cpu", "windows_cpu_time_total", "wmi_cpu_time_total"];

/// The machines of a store, and the queries for them.
pub struct Fleet {
    query: HostQuery,
    metrics: Vec<String>,
    probes: Vec<String>,
    scrape_ms: i64,
    halved_chunks: AtomicUsize,
    /// Times of the ticks.
    pub grid: QueryGrid,
    /// Names of the machines.
    pub hosts: Vec<String>,
    /// Machines that match but have no metric of a known exporter.
    pub other_hosts: Vec<String>,
}

/// One machine's samples, or the reason why there are none.
pub struct FleetMember {
    /// Name of the machine: the value of the label.
    pub host: String,
    /// Samples for a judge, or the reason why there are none.
    pub samples: Result<FleetSamples, String>,
}

/// Input of a judge for one machine.
pub struct FleetSamples {
    /// Topology of the machine.
    pub topology: Topology,
    /// All ticks.
    pub frame: Frame,
    /// Number of impossible values, which were replaced by gaps.
    pub invalid_values: u64,
}

/// Chooses a metric of each exporter, which shows on what machines it runs.
fn choose_probes(names: &[String]) -> Vec<String> {
    let mut exporters = BTreeSet::new();
    let mut probes: Vec<String> = Vec::new();
    for probe in PROBE_METRICS.iter().filter(|probe| names.iter().any(|n| n == **probe)) {
        if exporters.insert(probe.split('_').next()) {
            probes.push((*probe).to_owned());
        }
    }
    probes
}

/// Chooses ticks of the wanted step, which is lengthened to whole scrape intervals.
fn choose_grid(host_query: &HostQuery, scrape_ms: i64) -> Result<QueryGrid, RemoteError> {
    let window_ms = host_query.to_ms - host_query.from_ms;
    let step_ms = host_query.step_ms.unwrap_or(window_ms / DEFAULT_TICKS).max(scrape_ms);
    let step_ms = (step_ms + scrape_ms - 1) / scrape_ms * scrape_ms;
    let grid = QueryGrid::within_window(host_query.from_ms, host_query.to_ms, step_ms);
    if grid.count < 2 {
        return Err(RemoteError::Nothing("the window holds fewer than two steps; widen it".into()));
    }
    if grid.count > MAX_TICKS {
        let because = format!("{} ticks are more than a store returns; use a longer --step", grid.count);
        return Err(RemoteError::Nothing(because));
    }
    Ok(grid)
}

/// Returns the stored counters that the given ones are computed from, including themselves.
pub fn stored_counters_for<'a>(counters: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let catalogue = Catalogue::builtin();
    let mut needed = BTreeSet::new();
    let mut pending: Vec<String> = counters.into_iter().map(str::to_owned).collect();
    while let Some(id) = pending.pop() {
        let Some(counter) = catalogue.get(&id) else { continue };
        if !needed.insert(id) {
            continue;
        }
        for way in &counter.derive {
            let per = match &way.per {
                FormulaDivisor::Counters(ids) => ids.as_slice(),
                _ => &[],
            };
            pending.extend(way.sum.iter().chain(&way.optional).chain(&way.minus).chain(per).cloned());
        }
        pending.extend(counter.weight.clone());
    }
    needed
}

impl Fleet {
    /// Finds the machines and metrics of a store. `counters` are the needed stored
    /// counters ([`stored_counters_for`]).
    ///
    /// # Errors
    /// When the query fails, or the store has no data of any machine.
    pub fn discover_hosts(
        store: &MetricStore,
        host_query: HostQuery,
        counters: &BTreeSet<String>,
    ) -> Result<Fleet, RemoteError> {
        let of_exporters = host_query.selector.names_selector(EXPORTER_NAME_PATTERN);
        let names = label_values(store, &host_query, "__name__", &of_exporters, MAX_METRICS)?;
        let nothing = || {
            let because = "no metrics of node_exporter or windows_exporter match in the window";
            RemoteError::Nothing(format!("{}: {because}", store.shown_address()))
        };
        let vocabulary = MetricVocabulary::builtin();
        let matters = |name: &String| vocabulary.sources_of(name).iter().any(|s| counters.contains(&s.counter));
        let present: BTreeMap<String, usize> = names.iter().filter(|n| matters(n)).map(|n| (n.clone(), 1)).collect();
        let metrics: Vec<String> = choose_metrics(&present).into_iter().map(|(name, _)| name.to_owned()).collect();
        let probes = choose_probes(&names);
        if probes.is_empty() {
            return Err(nothing());
        }
        let pattern = probes.join("|");
        let host_names = |selector: &str| label_values(store, &host_query, &host_query.host_label, selector, MAX_HOSTS);
        let hosts = host_names(&host_query.selector.names_selector(&pattern))?;
        if hosts.is_empty() {
            return Err(nothing());
        }
        // machines without metrics are only reported if the user selected machines
        let others = if host_query.selector.is_empty() {
            Vec::new()
        } else {
            host_names(&host_query.selector.metric_selector("", ""))?
        };
        let known: HashSet<&String> = hosts.iter().collect();
        let others = others.into_iter().filter(|o| !known.contains(o)).collect();
        // a sample of machines is enough; totals need ticks at least as long as the slowest scrape interval
        let apart = hosts.len().div_ceil(SCRAPE_SAMPLE_HOSTS).max(1);
        let few: Vec<String> = hosts.iter().step_by(apart).cloned().collect();
        let few = query::any_value_matcher(&host_query.host_label, &few);
        let selector = host_query.selector.metric_selector("", &format!("__name__=~\"{pattern}\",{few}"));
        let scrape_ms = ScrapeClock::read(store, &host_query, &selector)?.slowest_ms;
        let grid = choose_grid(&host_query, scrape_ms)?;
        Ok(Fleet {
            query: host_query,
            metrics,
            probes,
            scrape_ms,
            halved_chunks: AtomicUsize::new(0),
            grid,
            hosts,
            other_hosts: others,
        })
    }

    /// Scrape interval of the machine that is scraped least often, milliseconds.
    pub fn scrape_ms(&self) -> i64 {
        self.scrape_ms
    }

    /// Metrics that are queried.
    pub fn metrics(&self) -> &[String] {
        &self.metrics
    }

    /// Splits the machines into chunks that are fetched at once.
    pub fn host_chunks(&self) -> Vec<&[String]> {
        self.hosts.chunks((CHUNK_SAMPLES / self.grid.count.max(1)).clamp(1, 200)).collect()
    }

    /// Fetches some machines; in two halves if the answer would be too large.
    ///
    /// # Errors
    /// When the query fails.
    pub fn fetch_members(&self, store: &MetricStore, hosts: &[String]) -> Result<Vec<FleetMember>, RemoteError> {
        match (self.fetch_members_at_once(store, hosts), hosts) {
            (Err(RemoteError::TooMuch { because, .. }), [host]) => {
                Ok(vec![FleetMember { host: host.clone(), samples: Err(because) }])
            }
            (Err(RemoteError::TooMuch { .. }), _)
                if self.halved_chunks.fetch_add(1, Ordering::Relaxed) < MAX_HALVED_CHUNKS =>
            {
                let (first, second) = hosts.split_at(hosts.len() / 2);
                let mut members = self.fetch_members(store, first)?;
                members.extend(self.fetch_members(store, second)?);
                Ok(members)
            }
            (answered, _) => answered,
        }
    }

    /// Fetches some machines with one query per metric.
    fn fetch_members_at_once(&self, store: &MetricStore, hosts: &[String]) -> Result<Vec<FleetMember>, RemoteError> {
        let only = query::any_value_matcher(&self.query.host_label, hosts);
        let mut answers = ChunkAnswers {
            tables: hosts.iter().map(|h| (h.as_str(), HostTable::new(self.grid))).collect(),
            cells: 0,
            processors: HashMap::new(),
            machines: self.fetch_machine_facts(store, &only)?,
            alive: BTreeSet::new(),
        };
        let by = &self.query.host_label;
        let count = |probe: &String| {
            let selector = self.query.selector.metric_selector(probe, &only);
            format!("max by ({by}) (count_over_time({selector}[{}ms]))", self.level_range_ms())
        };
        let presence: Vec<String> = self.probes.iter().map(count).collect();
        store
            .add_warnings(query_range(store, &presence.join(" or "), &self.grid, |row| answers.add_presence(by, row))?);
        for metric in &self.metrics {
            self.fetch_metric(store, metric, &only, &mut answers)?;
        }
        Ok(hosts.iter().map(|host| answers.build_member(host)).collect())
    }

    /// Range of a level's samples: its tick and a little more, because machines are scraped at
    /// different times, and a tick as long as one interval must not miss its scrape.
    fn level_range_ms(&self) -> i64 {
        self.grid.step_ms + self.scrape_ms / 10
    }

    /// Fetches one metric of some machines.
    fn fetch_metric(
        &self,
        store: &MetricStore,
        metric: &str,
        only: &str,
        answers: &mut ChunkAnswers<'_>,
    ) -> Result<(), RemoteError> {
        let by = &self.query.host_label;
        let selector = self.query.selector.metric_selector(metric, only);
        let (step_ms, level_ms) = (self.grid.step_ms, self.level_range_ms());
        let span = QuerySpan { step_ms, level_ms, shift_ms: 0, total_ms: total_range_ms(self.scrape_ms) };
        let text = query::metric_expression(metric, &selector, by, Processors::Together, span);
        store.add_warnings(query_range(store, &text, &self.grid, |row| answers.add_values(by, metric, row))?);
        if PROCESSOR_METRICS.contains(&metric) {
            let idle = self.query.selector.metric_selector(metric, &format!("{only},mode=\"idle\""));
            // two times in the window are enough to count processors
            let half_ms = self.grid.step_ms * (self.grid.count as i64).max(2) / 2;
            let first_ms = self.grid.first_ms - self.grid.step_ms + half_ms;
            let few = QueryGrid { first_ms, step_ms: half_ms, count: 2, shift_ms: 0 };
            let text = format!("count by ({by}) (count_over_time({idle}[{}ms]))", few.step_ms);
            store.add_warnings(query_range(store, &text, &few, |row| answers.count_processors(by, row))?);
        }
        Ok(())
    }

    /// Fetches facts about the machines, which are in the labels of certain series.
    fn fetch_machine_facts(
        &self,
        store: &MetricStore,
        only: &str,
    ) -> Result<HashMap<String, MachineFacts>, RemoteError> {
        let facts: BTreeSet<&str> = MetricVocabulary::builtin().facts.fact_metrics().collect();
        let pattern = facts.into_iter().collect::<Vec<_>>().join("|");
        let selector = self.query.selector.metric_selector("", &format!("__name__=~\"{pattern}\",{only}"));
        let mut machines: HashMap<String, MachineFacts> = HashMap::new();
        for_each_series(store, &self.query, &selector, |labels| {
            if let (Some(name), Some(host)) =
                (find_label(labels, "__name__"), find_label(labels, &self.query.host_label))
            {
                let machine = machines.entry(host.to_owned()).or_default();
                machine.learn_series(name, |wanted| find_label(labels, wanted));
            }
        })?;
        Ok(machines)
    }
}

/// Answers for a chunk of machines, sorted by machine.
struct ChunkAnswers<'a> {
    tables: HashMap<&'a str, HostTable>,
    /// Total number of cells.
    cells: usize,
    processors: HashMap<String, f64>,
    machines: HashMap<String, MachineFacts>,
    alive: BTreeSet<String>,
}

impl ChunkAnswers<'_> {
    fn add_presence(&mut self, by: &str, row: &QueryRow) -> Result<(), AnswerFault> {
        if let Some((host, table)) = row.label_value(by).and_then(|host| Some((host, self.tables.get_mut(host)?))) {
            table.set_presence(&row.values);
            self.alive.insert(host.to_owned());
        }
        Ok(())
    }

    fn add_values(&mut self, by: &str, metric: &str, row: &QueryRow) -> Result<(), AnswerFault> {
        let Some(table) = row.label_value(by).and_then(|host| self.tables.get_mut(host)) else { return Ok(()) };
        let folded = query::is_processor_metric(metric);
        let before = table.cell_count();
        table.add_values(metric, row, |name| match row.label_value(name) {
            None if folded && matches!(name, "cpu" | "core") => Some("_total"),
            found => found,
        });
        self.cells += table.cell_count() - before;
        if self.cells > MAX_CHUNK_CELLS {
            let excess = format!("more than {} samples, the limit", MAX_CHUNK_CELLS);
            return Err(AnswerFault::too_much(&excess));
        }
        Ok(())
    }

    fn count_processors(&mut self, by: &str, row: &QueryRow) -> Result<(), AnswerFault> {
        let count = row.values.iter().copied().fold(f64::NAN, f64::max);
        if let Some(host) = row.label_value(by).filter(|host| self.tables.contains_key(host)) {
            self.processors.insert(host.to_owned(), count);
        }
        Ok(())
    }

    /// Removes the answers for a machine and converts them to its frame and topology.
    fn build_member(&mut self, host: &str) -> FleetMember {
        let without_samples = |because: &str| FleetMember { host: host.to_owned(), samples: Err(because.to_owned()) };
        let Some(mut table) = self.tables.remove(host).filter(|_| self.alive.contains(host)) else {
            return without_samples("no sample in the window");
        };
        let schema = Arc::new(table.finish_schema());
        if schema.series.is_empty() {
            return without_samples("no metric that a rule uses");
        }
        let machine = self.machines.remove(host).unwrap_or_default();
        let mut topology = table.topology(&machine, host, &schema);
        // the store's name of the machine is unique, unlike its host name
        host.clone_into(&mut topology.host);
        if let Some(processors) = self.processors.get(host).filter(|p| **p >= 1.0) {
            topology.processors = *processors as u32;
        }
        let mut frame = Frame::new(Arc::clone(&schema), table.grid.count);
        let mut row = vec![f64::NAN; schema.series.len()];
        let elapsed_ns = u64::try_from(table.grid.step_ms).unwrap_or(0) * 1_000_000;
        for tick in 0..table.grid.count {
            if table.fill_row(tick, &mut row) {
                frame.push(Tick { time_ns: table.grid.at_ms(tick) * 1_000_000, elapsed_ns }, &row);
            }
        }
        if frame.ticks().len() < 2 {
            return without_samples("fewer than two steps with samples in the window");
        }
        let mut skips = Skips::default();
        let frame = ValueLimits::for_schema(&schema).clear_frame(&frame, &mut skips).unwrap_or(frame);
        let left_out = skips.into_list().iter().map(|skip| skip.count).sum();
        FleetMember { host: host.to_owned(), samples: Ok(FleetSamples { topology, frame, invalid_values: left_out }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_rule_counters_to_stored_counters() {
        let needed = stored_counters_for(["physical_disk.avg_s_per_read", "memory.available_fraction"]);
        for id in ["physical_disk.read_time_s", "physical_disk.reads", "memory.total_bytes"] {
            assert!(needed.contains(id), "{id}");
        }
        assert!(!needed.contains("physical_disk.writes_merged"));
    }
}
