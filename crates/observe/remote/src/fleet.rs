//! Many machines of a store, at a coarse step, a chunk of machines at a time:
//! the store does the summing, and memory holds one chunk.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use diskwright_base::catalogue::DeriveDivisor;
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

/// Ticks that a window has, where no step is given: five minutes of a day.
const USUAL_TICKS: i64 = 288;
/// Points of a series that every store answers at once.
const MOST_TICKS: usize = 10_000;
/// Machines times ticks of a chunk, about; it bounds memory.
const CHUNK: usize = 30_000;
/// Cells of a chunk that are held; where its machines have more, it is asked for in two halves.
const MOST_CELLS: usize = 4_000_000;
/// Chunks that are halved; a store that still answers too much is not asked again and again.
const MOST_HALVED: usize = 100;
/// Machines, from all of them, whose scrapes are looked at.
const SCRAPES_OF: usize = 50;
/// Names of metrics that a store may have.
const MOST_METRICS: usize = 100_000;

/// Metrics that every scrape of an exporter brings, best first.
const PROBES: [&str; 6] = [
    "node_load1",
    "node_memory_MemAvailable_bytes",
    "windows_system_threads",
    "windows_cpu_time_total",
    "wmi_cpu_time_total",
    "diskwright_memory_available_bytes",
];

/// Metrics with a series for each processor and mode; `node_cpu` is that of old exporters.
const PROCESSORS: [&str; 4] = ["node_cpu_seconds_total", "node_cpu", "windows_cpu_time_total", "wmi_cpu_time_total"];

/// A fleet, ready to be asked for.
pub struct Fleet {
    wanted: HostQuery,
    metrics: Vec<String>,
    probes: Vec<String>,
    scrape_ms: i64,
    halved: AtomicUsize,
    /// The ticks.
    pub grid: QueryGrid,
    /// The machines' names.
    pub hosts: Vec<String>,
    /// Machines that match but bring no metric of an exporter of machines.
    pub others: Vec<String>,
}

/// One machine's samples; or why there are none.
pub struct FleetMember {
    /// Its name: the value of the label.
    pub host: String,
    /// What a judge takes.
    pub samples: Result<FleetSamples, String>,
}

/// What a judge takes.
pub struct FleetSamples {
    /// What is known of the machine.
    pub topology: Topology,
    /// All ticks.
    pub frame: Frame,
    /// Values that cannot be; they are gaps.
    pub left_out: u64,
}

/// Which stored counters the given ones are computed from, themselves included.
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
                DeriveDivisor::Counters(ids) => ids.as_slice(),
                _ => &[],
            };
            pending.extend(way.sum.iter().chain(&way.optional).chain(&way.minus).chain(per).cloned());
        }
        pending.extend(counter.weight.clone());
    }
    needed
}

impl Fleet {
    /// Learns which machines and metrics there are. `counters` are the stored
    /// counters that matter ([`needed`]).
    ///
    /// # Errors
    /// When the store cannot be asked, or has nothing of any machine.
    pub fn find(store: &MetricStore, wanted: HostQuery, counters: &BTreeSet<String>) -> Result<Fleet, RemoteError> {
        let names = label_values(store, &wanted, "__name__", &wanted.selector.names(EXPORTERS), MOST_METRICS)?;
        let nothing = || {
            let because = "no metrics of node_exporter or windows_exporter match in the window";
            RemoteError::Nothing(format!("{}: {because}", store.shown()))
        };
        let vocabulary = MetricVocabulary::builtin();
        let matters = |name: &String| vocabulary.sources(name).iter().any(|s| counters.contains(&s.counter));
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
        let hosts = label_values(store, &wanted, &wanted.by, &wanted.selector.names(&pattern), MOST_HOSTS)?;
        if hosts.is_empty() {
            return Err(nothing());
        }
        // only what the user asked for by name is missed where it is not there
        let others = match wanted.selector.is_empty() {
            true => Vec::new(),
            false => label_values(store, &wanted, &wanted.by, &wanted.selector.metric("", ""), MOST_HOSTS)?,
        };
        let known: HashSet<&String> = hosts.iter().collect();
        let others = others.into_iter().filter(|o| !known.contains(o)).collect();
        // some machines tell it for all; one that is scraped less often has totals only in ticks as long as that
        let apart = hosts.len().div_ceil(SCRAPES_OF).max(1);
        let few: Vec<String> = hosts.iter().step_by(apart).cloned().collect();
        let few = query::any_of(&wanted.by, &few);
        let selector = wanted.selector.metric("", &format!("__name__=~\"{pattern}\",{few}"));
        let scrape_ms = ScrapeClock::read(store, &wanted, &selector)?.slowest_ms;
        let window_ms = wanted.to_ms - wanted.from_ms;
        let step_ms = wanted.step_ms.unwrap_or(window_ms / USUAL_TICKS).max(scrape_ms);
        let step_ms = (step_ms + scrape_ms - 1) / scrape_ms * scrape_ms;
        let grid = QueryGrid::within(wanted.from_ms, wanted.to_ms, step_ms);
        if grid.count < 2 {
            return Err(RemoteError::Nothing("the window holds fewer than two steps; widen it".into()));
        }
        if grid.count > MOST_TICKS {
            let because = format!("{} ticks are more than a store returns; use a longer --step", grid.count);
            return Err(RemoteError::Nothing(because));
        }
        Ok(Fleet { wanted, metrics, probes, scrape_ms, halved: AtomicUsize::new(0), grid, hosts, others })
    }

    /// Time between two scrapes, of the machine that is scraped least often, milliseconds.
    pub fn scrape_ms(&self) -> i64 {
        self.scrape_ms
    }

    /// Metrics that are asked for.
    pub fn metrics(&self) -> &[String] {
        &self.metrics
    }

    /// Machines that are asked for at once.
    pub fn chunks(&self) -> Vec<&[String]> {
        self.hosts.chunks((CHUNK / self.grid.count.max(1)).clamp(1, 200)).collect()
    }

    /// Asks for some machines; for half of them at a time where they are too much at once.
    ///
    /// # Errors
    /// When the store does not answer.
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

    fn ask_at_once(&self, store: &MetricStore, hosts: &[String]) -> Result<Vec<FleetMember>, RemoteError> {
        let only = query::any_of(&self.wanted.by, hosts);
        let mut asked = ChunkAnswers {
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
        store.warned(range(store, &presence.join(" or "), &self.grid, |row| asked.present(by, row))?);
        for metric in &self.metrics {
            self.ask_metric(store, metric, &only, &mut asked)?;
        }
        Ok(hosts.iter().map(|host| asked.member(host)).collect())
    }

    /// How far back a level looks: its tick, and a little further, because machines are scraped
    /// at moments of their own and a tick of one scrape must not miss it.
    fn level_ms(&self) -> i64 {
        self.grid.step_ms + self.scrape_ms / 10
    }

    fn ask_metric(
        &self,
        store: &MetricStore,
        metric: &str,
        only: &str,
        asked: &mut ChunkAnswers<'_>,
    ) -> Result<(), RemoteError> {
        let by = &self.wanted.by;
        let selector = self.wanted.selector.metric(metric, only);
        let (step_ms, level_ms) = (self.grid.step_ms, self.level_ms());
        let span = QuerySpan { step_ms, level_ms, shift_ms: 0, total_ms: total_range(self.scrape_ms) };
        let text = query::expression(metric, &selector, by, Processors::Together, span);
        store.warned(range(store, &text, &self.grid, |row| asked.fill(by, metric, row))?);
        if PROCESSORS.contains(&metric) {
            let idle = self.wanted.selector.metric(metric, &format!("{only},mode=\"idle\""));
            // some moments of the window are enough to count processors
            let half_ms = self.grid.step_ms * (self.grid.count as i64).max(2) / 2;
            let first_ms = self.grid.first_ms - self.grid.step_ms + half_ms;
            let few = QueryGrid { first_ms, step_ms: half_ms, count: 2, shift_ms: 0 };
            let text = format!("count by ({by}) (count_over_time({idle}[{}ms]))", few.step_ms);
            store.warned(range(store, &text, &few, |row| asked.count_processors(by, row))?);
        }
        Ok(())
    }

    /// What series without values tell of the machines.
    fn machines(&self, store: &MetricStore, only: &str) -> Result<HashMap<String, MachineFacts>, RemoteError> {
        let facts: BTreeSet<&str> = MetricVocabulary::builtin().facts.metrics().collect();
        let pattern = facts.into_iter().collect::<Vec<_>>().join("|");
        let selector = self.wanted.selector.metric("", &format!("__name__=~\"{pattern}\",{only}"));
        let mut machines: HashMap<String, MachineFacts> = HashMap::new();
        each_series(store, &self.wanted, &selector, |labels| {
            if let (Some(name), Some(host)) = (label(labels, "__name__"), label(labels, &self.wanted.by)) {
                let machine = machines.entry(host.to_owned()).or_default();
                machine.learn(name, |wanted| label(labels, wanted));
            }
        })?;
        Ok(machines)
    }
}

/// Answers for a chunk of machines, being sorted.
struct ChunkAnswers<'a> {
    tables: HashMap<&'a str, HostTable>,
    /// Cells of all of them.
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
            let what = format!("more than {MOST_CELLS} samples, the limit");
            return Err(AnswerFault::too_much(&what));
        }
        Ok(())
    }

    fn count_processors(&mut self, by: &str, row: &QueryRow) -> Result<(), AnswerFault> {
        let most = row.values.iter().copied().fold(f64::NAN, f64::max);
        if let Some(host) = row.label(by).filter(|host| self.tables.contains_key(host)) {
            self.processors.insert(host.to_owned(), most);
        }
        Ok(())
    }

    fn member(&mut self, host: &str) -> FleetMember {
        let none = |because: &str| FleetMember { host: host.to_owned(), samples: Err(because.to_owned()) };
        let Some(mut table) = self.tables.remove(host).filter(|_| self.alive.contains(host)) else {
            return none("no sample in the window");
        };
        let schema = Arc::new(table.finish());
        if schema.series.is_empty() {
            return none("no metric that a rule uses");
        }
        let machine = self.machines.remove(host).unwrap_or_default();
        let mut topology = table.topology(&machine, host, &schema);
        // the name that the store has is the one that tells it from the others
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
            return none("fewer than two steps with samples in the window");
        }
        let mut skips = Skips::default();
        let frame = ValueLimits::of(&schema).cleared(&frame, &mut skips).unwrap_or(frame);
        let left_out = skips.finish().iter().map(|skip| skip.times).sum();
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
