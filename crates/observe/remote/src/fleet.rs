//! Many machines of a store at a coarse step, in chunks of machines: the store
//! does the aggregation, and only one chunk is in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use diskwright_base::catalogue::FormulaDivisor;
use diskwright_base::{Catalogue, Frame, Tick, Topology};
use diskwright_logs::prometheus::{MachineFacts, MetricVocabulary};
use diskwright_logs::{Skips, ValueLimits};

use crate::answer::{AnswerFault, QueryGrid, QueryRow, label};
use crate::client::MetricStore;
use crate::error::RemoteError;
use crate::host::{
    HostQuery, HostTable, MOST_HOSTS, ScrapeClock, chosen, each_series, label_values, range, total_range,
};
use crate::query::{self, EXPORTERS, Processors, QuerySpan};

/// Number of ticks of a window if no step is given: five minutes each for a day.
const USUAL_TICKS: i64 = 288;
/// Largest number of points per series that every store returns in one answer.
const MOST_TICKS: usize = 10_000;
/// Approximate number of machines times ticks in a chunk, which limits memory.
const CHUNK: usize = 30_000;
/// Largest number of cells of a chunk; a chunk with more is fetched in two halves.
const MOST_CELLS: usize = 4_000_000;
/// Largest number of chunks that are halved, so that a store that always returns too much is not queried endlessly.
const MOST_HALVED: usize = 100;
/// Approximate number of machines whose scrape interval is measured.
const SCRAPES_OF: usize = 50;
/// Largest number of metric names of a store.
const MOST_METRICS: usize = 100_000;

/// Metrics that every scrape of an exporter contains, best first.
const PROBES: [&str; 6] = [
    "node_load1",
    "node_memory_MemAvailable_bytes",
    "windows_system_threads",
    "windows_cpu_time_total",
    "wmi_cpu_time_total",
    "diskwright_memory_available_bytes",
];

/// Metrics with a series for each processor and mode; `node_cpu` is from old exporters.
const PROCESSORS: [&str; 4] = ["node_cpu_seconds_total", "node_cpu", "windows_cpu_time_total", "wmi_cpu_time_total"];

/// The machines of a store, and the queries for them.
pub struct Fleet {
    wanted: HostQuery,
    metrics: Vec<String>,
    probes: Vec<String>,
    scrape_ms: i64,
    halved: AtomicUsize,
    /// Times of the ticks.
    pub grid: QueryGrid,
    /// Names of the machines.
    pub hosts: Vec<String>,
    /// Machines that match but have no metric of a known exporter.
    pub others: Vec<String>,
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
    pub left_out: u64,
}

/// Returns the stored counters that the given ones are computed from, including themselves.
pub fn needed<'a>(counters: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
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
    /// counters ([`needed`]).
    ///
    /// # Errors
    /// When the query fails, or the store has no data of any machine.
    pub fn find(store: &MetricStore, host_query: HostQuery, counters: &BTreeSet<String>) -> Result<Fleet, RemoteError> {
        let names = label_values(store, &host_query, "__name__", &host_query.selector.names(EXPORTERS), MOST_METRICS)?;
        let nothing = || {
            let because = "no metrics of node_exporter or windows_exporter match in the window";
            RemoteError::Nothing(format!("{}: {because}", store.shown()))
        };
        let vocabulary = MetricVocabulary::builtin();
        let matters = |name: &String| vocabulary.sources_of(name).iter().any(|s| counters.contains(&s.counter));
        let present: BTreeMap<String, usize> = names.iter().filter(|n| matters(n)).map(|n| (n.clone(), 1)).collect();
        let metrics: Vec<String> = chosen(&present).into_iter().map(|(name, _)| name.to_owned()).collect();
        let mut exporters = BTreeSet::new();
        let mut probes: Vec<String> = Vec::new();
        for probe in PROBES.iter().filter(|probe| names.iter().any(|n| n == **probe)) {
            if exporters.insert(probe.split('_').next()) {
                probes.push((*probe).to_owned());
            }
        }
        if probes.is_empty() {
            return Err(nothing());
        }
        let pattern = probes.join("|");
        let hosts = label_values(store, &host_query, &host_query.by, &host_query.selector.names(&pattern), MOST_HOSTS)?;
        if hosts.is_empty() {
            return Err(nothing());
        }
        // machines without metrics are only reported if the user selected machines
        let others = match host_query.selector.is_empty() {
            true => Vec::new(),
            false => label_values(store, &host_query, &host_query.by, &host_query.selector.metric("", ""), MOST_HOSTS)?,
        };
        let known: HashSet<&String> = hosts.iter().collect();
        let others = others.into_iter().filter(|o| !known.contains(o)).collect();
        // a sample of machines is enough; totals need ticks at least as long as the slowest scrape interval
        let apart = hosts.len().div_ceil(SCRAPES_OF).max(1);
        let few: Vec<String> = hosts.iter().step_by(apart).cloned().collect();
        let few = query::any_of(&host_query.by, &few);
        let selector = host_query.selector.metric("", &format!("__name__=~\"{pattern}\",{few}"));
        let scrape_ms = ScrapeClock::read(store, &host_query, &selector)?.slowest_ms;
        let window_ms = host_query.to_ms - host_query.from_ms;
        let step_ms = host_query.step_ms.unwrap_or(window_ms / USUAL_TICKS).max(scrape_ms);
        let step_ms = (step_ms + scrape_ms - 1) / scrape_ms * scrape_ms;
        let grid = QueryGrid::within(host_query.from_ms, host_query.to_ms, step_ms);
        if grid.count < 2 {
            return Err(RemoteError::Nothing("the window holds fewer than two steps; widen it".into()));
        }
        if grid.count > MOST_TICKS {
            let because = format!("{} ticks are more than a store returns; use a longer --step", grid.count);
            return Err(RemoteError::Nothing(because));
        }
        Ok(Fleet { wanted: host_query, metrics, probes, scrape_ms, halved: AtomicUsize::new(0), grid, hosts, others })
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
    pub fn chunks(&self) -> Vec<&[String]> {
        self.hosts.chunks((CHUNK / self.grid.count.max(1)).clamp(1, 200)).collect()
    }

    /// Fetches some machines; in two halves if the answer would be too large.
    ///
    /// # Errors
    /// When the query fails.
    pub fn ask(&self, store: &MetricStore, hosts: &[String]) -> Result<Vec<FleetMember>, RemoteError> {
        match (self.ask_at_once(store, hosts), hosts) {
            (Err(RemoteError::TooMuch { because, .. }), [host]) => {
                Ok(vec![FleetMember { host: host.clone(), samples: Err(because) }])
            }
            (Err(RemoteError::TooMuch { .. }), _) if self.halved.fetch_add(1, Ordering::Relaxed) < MOST_HALVED => {
                let (first, second) = hosts.split_at(hosts.len() / 2);
                let mut members = self.ask(store, first)?;
                members.extend(self.ask(store, second)?);
                Ok(members)
            }
            (answered, _) => answered,
        }
    }

    /// Fetches some machines with one query per metric.
    fn ask_at_once(&self, store: &MetricStore, hosts: &[String]) -> Result<Vec<FleetMember>, RemoteError> {
        let only = query::any_of(&self.wanted.by, hosts);
        let mut answers = ChunkAnswers {
            tables: hosts.iter().map(|h| (h.as_str(), HostTable::new(self.grid))).collect(),
            cells: 0,
            processors: HashMap::new(),
            machines: self.machines(store, &only)?,
            alive: BTreeSet::new(),
        };
        let by = &self.wanted.by;
        let count = |probe: &String| {
            let selector = self.wanted.selector.metric(probe, &only);
            format!("max by ({by}) (count_over_time({selector}[{}ms]))", self.level_ms())
        };
        let presence: Vec<String> = self.probes.iter().map(count).collect();
        store.warned(range(store, &presence.join(" or "), &self.grid, |row| answers.present(by, row))?);
        for metric in &self.metrics {
            self.ask_metric(store, metric, &only, &mut answers)?;
        }
        Ok(hosts.iter().map(|host| answers.member(host)).collect())
    }

    /// Range of a level's samples: its tick and a little more, because machines are scraped at
    /// different times, and a tick as long as one interval must not miss its scrape.
    fn level_ms(&self) -> i64 {
        self.grid.step_ms + self.scrape_ms / 10
    }

    /// Fetches one metric of some machines.
    fn ask_metric(
        &self,
        store: &MetricStore,
        metric: &str,
        only: &str,
        answers: &mut ChunkAnswers<'_>,
    ) -> Result<(), RemoteError> {
        let by = &self.wanted.by;
        let selector = self.wanted.selector.metric(metric, only);
        let (step_ms, level_ms) = (self.grid.step_ms, self.level_ms());
        let span = QuerySpan { step_ms, level_ms, shift_ms: 0, total_ms: total_range(self.scrape_ms) };
        let text = query::expression(metric, &selector, by, Processors::Together, span);
        store.warned(range(store, &text, &self.grid, |row| answers.fill(by, metric, row))?);
        if PROCESSORS.contains(&metric) {
            let idle = self.wanted.selector.metric(metric, &format!("{only},mode=\"idle\""));
            // two times in the window are enough to count processors
            let half_ms = self.grid.step_ms * (self.grid.count as i64).max(2) / 2;
            let first_ms = self.grid.first_ms - self.grid.step_ms + half_ms;
            let few = QueryGrid { first_ms, step_ms: half_ms, count: 2, shift_ms: 0 };
            let text = format!("count by ({by}) (count_over_time({idle}[{}ms]))", few.step_ms);
            store.warned(range(store, &text, &few, |row| answers.count_processors(by, row))?);
        }
        Ok(())
    }

    /// Fetches facts about the machines, which are in the labels of certain series.
    fn machines(&self, store: &MetricStore, only: &str) -> Result<HashMap<String, MachineFacts>, RemoteError> {
        let facts: BTreeSet<&str> = MetricVocabulary::builtin().facts.fact_metrics().collect();
        let pattern = facts.into_iter().collect::<Vec<_>>().join("|");
        let selector = self.wanted.selector.metric("", &format!("__name__=~\"{pattern}\",{only}"));
        let mut machines: HashMap<String, MachineFacts> = HashMap::new();
        each_series(store, &self.wanted, &selector, |labels| {
            if let (Some(name), Some(host)) = (label(labels, "__name__"), label(labels, &self.wanted.by)) {
                let machine = machines.entry(host.to_owned()).or_default();
                machine.learn_series(name, |wanted| label(labels, wanted));
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
    fn present(&mut self, by: &str, row: &QueryRow) -> Result<(), AnswerFault> {
        if let Some((host, table)) = row.label(by).and_then(|host| Some((host, self.tables.get_mut(host)?))) {
            table.present(&row.values);
            self.alive.insert(host.to_owned());
        }
        Ok(())
    }

    fn fill(&mut self, by: &str, metric: &str, row: &QueryRow) -> Result<(), AnswerFault> {
        let Some(table) = row.label(by).and_then(|host| self.tables.get_mut(host)) else { return Ok(()) };
        let folded = query::is_of_processors(metric);
        let before = table.cells();
        table.fill(metric, row, |name| match row.label(name) {
            None if folded && matches!(name, "cpu" | "core") => Some("_total"),
            found => found,
        });
        self.cells += table.cells() - before;
        if self.cells > MOST_CELLS {
            let excess = format!("more than {} samples, the limit", MOST_CELLS);
            return Err(AnswerFault::too_much(&excess));
        }
        Ok(())
    }

    fn count_processors(&mut self, by: &str, row: &QueryRow) -> Result<(), AnswerFault> {
        let count = row.values.iter().copied().fold(f64::NAN, f64::max);
        if let Some(host) = row.label(by).filter(|host| self.tables.contains_key(host)) {
            self.processors.insert(host.to_owned(), count);
        }
        Ok(())
    }

    /// Removes the answers for a machine and converts them to its frame and topology.
    fn member(&mut self, host: &str) -> FleetMember {
        let without_samples = |because: &str| FleetMember { host: host.to_owned(), samples: Err(because.to_owned()) };
        let Some(mut table) = self.tables.remove(host).filter(|_| self.alive.contains(host)) else {
            return without_samples("no sample in the window");
        };
        let schema = Arc::new(table.finish());
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
            if table.row(tick, &mut row) {
                frame.push(Tick { time_ns: table.grid.at_ms(tick) * 1_000_000, elapsed_ns }, &row);
            }
        }
        if frame.ticks().len() < 2 {
            return without_samples("fewer than two steps with samples in the window");
        }
        let mut skips = Skips::default();
        let frame = ValueLimits::for_schema(&schema).clear_frame(&frame, &mut skips).unwrap_or(frame);
        let left_out = skips.into_list().iter().map(|skip| skip.count).sum();
        FleetMember { host: host.to_owned(), samples: Ok(FleetSamples { topology, frame, left_out }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rules_name_is_followed_to_what_is_stored() {
        let needed = needed(["physical_disk.avg_s_per_read", "memory.available_fraction"]);
        for id in ["physical_disk.read_time_s", "physical_disk.reads", "memory.total_bytes"] {
            assert!(needed.contains(id), "{id}");
        }
        assert!(!needed.contains("physical_disk.writes_merged"));
    }
}
