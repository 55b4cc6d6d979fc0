//! Many machines of a store at a coarse step, in chunks of machines: the store aggregates, and only one chunk is in
//! memory.

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

/// Number of ticks of a window if no step is given: of a day, ticks of five minutes.
const DEFAULT_TICKS: i64 = 288;
/// Largest number of points per series that every store returns in one answer.
const MAX_TICKS: usize = 10_000;
/// Approximate number of machines times ticks in a chunk, which limits memory.
const CHUNK_SAMPLES: usize = 30_000;
/// Largest number of cells of a chunk; a chunk with more is fetched in two halves.
const MAX_CHUNK_CELLS: usize = 4_000_000;
/// Largest number of chunks that are halved: a store that always returns too much must not be queried endlessly.
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
    /// Metrics that are queried.
    metrics: Vec<String>,
    /// A metric of each exporter, which every scrape contains.
    probes: Vec<String>,
    /// Slowest scrape interval, milliseconds.
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

/// Chooses a metric of each exporter; its series show on which machines the exporter runs.
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

/// Chooses ticks of the requested step, which is lengthened to whole scrape intervals.
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

/// Returns the stored counters from which these counters are computed, including these counters themselves.
pub fn stored_counters_for<'a>(counters: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let catalogue = Catalogue::builtin();
    let mut needed = BTreeSet::new();
    let mut pending: Vec<String> = counters.into_iter().map(str::to_owned).collect();
    while let Some(id) = pending.pop() {
        let Some(counter) = catalogue.get(&id) else { continue };
        if !needed.insert(id) {
            continue;
        }
        for formula in &counter.derive {
            let divisors = match &formula.per {
                FormulaDivisor::Counters(ids) => ids.as_slice(),
                _ => &[],
            };
            let terms = formula.sum.iter().chain(&formula.optional).chain(&formula.minus);
            pending.extend(terms.chain(divisors).cloned());
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
        let exporter_selector = host_query.selector.names_selector(EXPORTER_NAME_PATTERN);
        let names = label_values(store, &host_query, "__name__", &exporter_selector, MAX_METRICS)?;
        let no_metrics_error = || {
            let because = "no metrics of node_exporter or windows_exporter match in the window";
            RemoteError::Nothing(format!("{}: {because}", store.shown_address()))
        };
        let vocabulary = MetricVocabulary::builtin();
        let is_needed = |name: &String| vocabulary.sources_of(name).iter().any(|s| counters.contains(&s.counter));
        let needed: BTreeMap<String, usize> = names.iter().filter(|n| is_needed(n)).map(|n| (n.clone(), 1)).collect();
        let metrics: Vec<String> = choose_metrics(&needed).into_iter().map(|(name, _)| name.to_owned()).collect();
        let probes = choose_probes(&names);
        if probes.is_empty() {
            return Err(no_metrics_error());
        }
        let pattern = probes.join("|");
        let host_names = |selector: &str| label_values(store, &host_query, &host_query.host_label, selector, MAX_HOSTS);
        let hosts = host_names(&host_query.selector.names_selector(&pattern))?;
        if hosts.is_empty() {
            return Err(no_metrics_error());
        }
        // machines without metrics are only reported if the user selected machines
        let matching_hosts = if host_query.selector.is_empty() {
            Vec::new()
        } else {
            host_names(&host_query.selector.metric_selector("", ""))?
        };
        let known: HashSet<&String> = hosts.iter().collect();
        let other_hosts = matching_hosts.into_iter().filter(|host| !known.contains(host)).collect();
        // a sample of machines suffices; totals need ticks at least as long as the slowest scrape interval
        let sample_distance = hosts.len().div_ceil(SCRAPE_SAMPLE_HOSTS).max(1);
        let sample_hosts: Vec<String> = hosts.iter().step_by(sample_distance).cloned().collect();
        let host_matcher = query::any_value_matcher(&host_query.host_label, &sample_hosts);
        let selector = host_query.selector.metric_selector("", &format!("__name__=~\"{pattern}\",{host_matcher}"));
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
            other_hosts,
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

    /// Splits the machines into chunks, each of which is fetched at once.
    pub fn host_chunks(&self) -> Vec<&[String]> {
        self.hosts.chunks((CHUNK_SAMPLES / self.grid.count.max(1)).clamp(1, 200)).collect()
    }

    /// Fetches some machines, in two halves if the answer would be too large.
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
            (result, _) => result,
        }
    }

    /// Fetches some machines with one query per metric.
    fn fetch_members_at_once(&self, store: &MetricStore, hosts: &[String]) -> Result<Vec<FleetMember>, RemoteError> {
        let host_matcher = query::any_value_matcher(&self.query.host_label, hosts);
        let mut answers = ChunkAnswers {
            tables: hosts.iter().map(|h| (h.as_str(), HostTable::new(self.grid))).collect(),
            cells: 0,
            processors: HashMap::new(),
            machines: self.fetch_machine_facts(store, &host_matcher)?,
            present_hosts: BTreeSet::new(),
        };
        let host_label = &self.query.host_label;
        let presence_query = |probe: &String| {
            let selector = self.query.selector.metric_selector(probe, &host_matcher);
            format!("max by ({host_label}) (count_over_time({selector}[{}ms]))", self.level_range_ms())
        };
        let presence: Vec<String> = self.probes.iter().map(presence_query).collect();
        let add_presence = |row: &QueryRow| answers.add_presence(host_label, row);
        store.add_warnings(query_range(store, &presence.join(" or "), &self.grid, add_presence)?);
        for metric in &self.metrics {
            self.fetch_metric(store, metric, &host_matcher, &mut answers)?;
        }
        Ok(hosts.iter().map(|host| answers.build_member(host)).collect())
    }

    /// Range of a level's samples, milliseconds: the tick and a little more, because machines are scraped at different
    /// times, and a tick as long as one scrape interval must not miss its scrape.
    fn level_range_ms(&self) -> i64 {
        self.grid.step_ms + self.scrape_ms / 10
    }

    /// Fetches one metric of some machines.
    fn fetch_metric(
        &self,
        store: &MetricStore,
        metric: &str,
        host_matcher: &str,
        answers: &mut ChunkAnswers<'_>,
    ) -> Result<(), RemoteError> {
        let host_label = &self.query.host_label;
        let selector = self.query.selector.metric_selector(metric, host_matcher);
        let (step_ms, level_ms) = (self.grid.step_ms, self.level_range_ms());
        let span = QuerySpan { step_ms, level_ms, shift_ms: 0, total_ms: total_range_ms(self.scrape_ms) };
        let text = query::metric_expression(metric, &selector, host_label, Processors::Together, span);
        store.add_warnings(query_range(store, &text, &self.grid, |row| answers.add_values(host_label, metric, row))?);
        if PROCESSOR_METRICS.contains(&metric) {
            let idle = self.query.selector.metric_selector(metric, &format!("{host_matcher},mode=\"idle\""));
            // two times in the window suffice to count processors
            let half_ms = self.grid.step_ms * (self.grid.count as i64).max(2) / 2;
            let first_ms = self.grid.first_ms - self.grid.step_ms + half_ms;
            let grid = QueryGrid { first_ms, step_ms: half_ms, count: 2, shift_ms: 0 };
            let text = format!("count by ({host_label}) (count_over_time({idle}[{}ms]))", grid.step_ms);
            store.add_warnings(query_range(store, &text, &grid, |row| answers.count_processors(host_label, row))?);
        }
        Ok(())
    }

    /// Fetches facts about the machines, which are in the labels of certain series.
    fn fetch_machine_facts(
        &self,
        store: &MetricStore,
        host_matcher: &str,
    ) -> Result<HashMap<String, MachineFacts>, RemoteError> {
        let fact_metrics: BTreeSet<&str> = MetricVocabulary::builtin().facts.fact_metrics().collect();
        let pattern = fact_metrics.into_iter().collect::<Vec<_>>().join("|");
        let selector = self.query.selector.metric_selector("", &format!("__name__=~\"{pattern}\",{host_matcher}"));
        let mut machines: HashMap<String, MachineFacts> = HashMap::new();
        for_each_series(store, &self.query, &selector, |labels| {
            if let (Some(name), Some(host)) =
                (find_label(labels, "__name__"), find_label(labels, &self.query.host_label))
            {
                let machine = machines.entry(host.to_owned()).or_default();
                machine.learn_series(name, |label| find_label(labels, label));
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
    /// Number of processors of each machine.
    processors: HashMap<String, f64>,
    machines: HashMap<String, MachineFacts>,
    /// Machines with samples in the window.
    present_hosts: BTreeSet<String>,
}

impl ChunkAnswers<'_> {
    fn add_presence(&mut self, host_label: &str, row: &QueryRow) -> Result<(), AnswerFault> {
        if let Some((host, table)) =
            row.label_value(host_label).and_then(|host| Some((host, self.tables.get_mut(host)?)))
        {
            table.set_presence(&row.values);
            self.present_hosts.insert(host.to_owned());
        }
        Ok(())
    }

    fn add_values(&mut self, host_label: &str, metric: &str, row: &QueryRow) -> Result<(), AnswerFault> {
        let table = row.label_value(host_label).and_then(|host| self.tables.get_mut(host));
        let Some(table) = table else { return Ok(()) };
        let is_processor_metric = query::is_processor_metric(metric);
        let cells_before = table.cell_count();
        table.add_values(metric, row, |name| match row.label_value(name) {
            // the query has aggregated the processors
            None if is_processor_metric && matches!(name, "cpu" | "core") => Some("_total"),
            value => value,
        });
        self.cells += table.cell_count() - cells_before;
        if self.cells > MAX_CHUNK_CELLS {
            let excess = format!("more than {} samples, the limit", MAX_CHUNK_CELLS);
            return Err(AnswerFault::too_much(&excess));
        }
        Ok(())
    }

    fn count_processors(&mut self, host_label: &str, row: &QueryRow) -> Result<(), AnswerFault> {
        let count = row.values.iter().copied().fold(f64::NAN, f64::max);
        if let Some(host) = row.label_value(host_label).filter(|host| self.tables.contains_key(host)) {
            self.processors.insert(host.to_owned(), count);
        }
        Ok(())
    }

    /// Removes the answers for a machine, and builds its frame and topology from them.
    fn build_member(&mut self, host: &str) -> FleetMember {
        let without_samples = |because: &str| FleetMember { host: host.to_owned(), samples: Err(because.to_owned()) };
        let Some(mut table) = self.tables.remove(host).filter(|_| self.present_hosts.contains(host)) else {
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
        let invalid_values = skips.into_list().iter().map(|skip| skip.count).sum();
        FleetMember { host: host.to_owned(), samples: Ok(FleetSamples { topology, frame, invalid_values }) }
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
