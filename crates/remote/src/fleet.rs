//! Many machines of a store, at a coarse step, a chunk of machines at a time:
//! the store does the summing, and memory holds one chunk.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use diskwright_base::catalogue::Per;
use diskwright_base::{Catalogue, Frame, Tick, Topology};
use diskwright_logs::prometheus::{Machine, Vocabulary};

use crate::answer::{self, Grid, Row};
use crate::client::Store;
use crate::error::RemoteError;
use crate::host::{Table, Wanted, bad, chosen, level_range, range, range_of, scrape_interval, seconds};
use crate::query::{self, EXPORTERS, Processors};

/// Ticks that a window has, where no step is given: five minutes of a day.
const USUAL_TICKS: i64 = 288;
/// Points of a series that every store answers at once.
const MOST_TICKS: usize = 10_000;
/// Machines times ticks of a chunk, about; it bounds memory.
const CHUNK: usize = 30_000;

/// Metrics that every scrape of an exporter brings, best first.
const PROBES: [&str; 6] = [
    "node_load1",
    "node_memory_MemAvailable_bytes",
    "windows_system_threads",
    "windows_cpu_time_total",
    "wmi_cpu_time_total",
    "diskwright_memory_available_bytes",
];

/// A fleet, ready to be asked for.
pub struct Fleet {
    wanted: Wanted,
    metrics: Vec<String>,
    probes: Vec<String>,
    scrape_ms: i64,
    /// The ticks.
    pub grid: Grid,
    /// The machines' names.
    pub hosts: Vec<String>,
    /// Machines that match but bring no metric of an exporter of machines.
    pub others: Vec<String>,
}

/// One machine's samples; or why there are none.
pub struct Member {
    /// Its name: the value of the label.
    pub host: String,
    /// What a judge takes.
    pub samples: Result<Samples, String>,
}

/// What a judge takes.
pub struct Samples {
    /// What is known of the machine.
    pub topology: Topology,
    /// All ticks.
    pub frame: Frame,
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
                Per::Counters(ids) => ids.as_slice(),
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
    pub fn find(store: &Store, wanted: Wanted, counters: &BTreeSet<String>) -> Result<Fleet, RemoteError> {
        let names = label_values(store, &wanted, "__name__", &wanted.selector.names(EXPORTERS))?;
        let nothing = || {
            let because = "no metrics of node_exporter or windows_exporter that match in the window";
            RemoteError::Nothing(format!("{}: {because}", store.shown()))
        };
        let vocabulary = Vocabulary::builtin();
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
        let hosts = label_values(store, &wanted, &wanted.by, &wanted.selector.names(&pattern))?;
        if hosts.is_empty() {
            return Err(nothing());
        }
        // only what the user asked for by name is missed where it is not there
        let others = match wanted.selector.is_empty() {
            true => Vec::new(),
            false => label_values(store, &wanted, &wanted.by, &wanted.selector.metric("", ""))?,
        };
        let others = others.into_iter().filter(|o| !hosts.contains(o)).collect();
        // a few machines tell it for all
        let few = query::any_of(&wanted.by, &hosts[..hosts.len().min(5)]);
        let selector = wanted.selector.metric("", &format!("__name__=~\"{pattern}\",{few}"));
        let scrape_ms = scrape_interval(store, &wanted, &selector)?;
        let window_ms = wanted.to_ms - wanted.from_ms;
        let step_ms = wanted.step_ms.unwrap_or(window_ms / USUAL_TICKS).max(scrape_ms);
        let step_ms = (step_ms + scrape_ms - 1) / scrape_ms * scrape_ms;
        let grid = Grid::within(wanted.from_ms, wanted.to_ms, step_ms);
        if grid.count < 2 {
            return Err(RemoteError::Nothing("the window holds less than two steps; widen it".into()));
        }
        if grid.count > MOST_TICKS {
            let because = format!("{} ticks are more than stores answer; say a longer --step", grid.count);
            return Err(RemoteError::Nothing(because));
        }
        Ok(Fleet { wanted, metrics, probes, scrape_ms, grid, hosts, others })
    }

    /// Time between two scrapes, milliseconds.
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

    /// Asks for some machines.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn ask(&self, store: &Store, hosts: &[String]) -> Result<Vec<Member>, RemoteError> {
        let only = query::any_of(&self.wanted.by, hosts);
        let mut asked = Asked {
            tables: hosts.iter().map(|h| (h.as_str(), Table::new(self.grid))).collect(),
            processors: HashMap::new(),
            machines: self.machines(store, &only)?,
            alive: BTreeSet::new(),
        };
        let by = &self.wanted.by;
        let count = |probe: &String| {
            let selector = self.wanted.selector.metric(probe, &only);
            format!("max by ({by}) (count_over_time({selector}[{}ms]))", level_range(self.grid.step_ms, self.scrape_ms))
        };
        let presence: Vec<String> = self.probes.iter().map(count).collect();
        for row in range(store, &presence.join(" or "), &self.grid)?.rows {
            asked.present(by, &row);
        }
        for metric in &self.metrics {
            self.ask_metric(store, metric, &only, &mut asked)?;
        }
        Ok(hosts.iter().map(|host| asked.member(host)).collect())
    }

    fn ask_metric(&self, store: &Store, metric: &str, only: &str, asked: &mut Asked<'_>) -> Result<(), RemoteError> {
        let by = &self.wanted.by;
        let selector = self.wanted.selector.metric(metric, only);
        let range_ms = range_of(store, self.grid.step_ms, self.scrape_ms);
        let level_ms = level_range(self.grid.step_ms, self.scrape_ms);
        let text = query::expression(metric, &selector, by, Processors::Together, level_ms, range_ms);
        for row in range(store, &text, &self.grid)?.rows {
            asked.fill(by, metric, &row);
        }
        if matches!(metric, "node_cpu_seconds_total" | "windows_cpu_time_total" | "wmi_cpu_time_total") {
            let idle = self.wanted.selector.metric(metric, &format!("{only},mode=\"idle\""));
            // some moments of the window are enough to count processors
            let half_ms = self.grid.step_ms * (self.grid.count as i64).max(2) / 2;
            let few = Grid { first_ms: self.grid.first_ms - self.grid.step_ms + half_ms, step_ms: half_ms, count: 2 };
            let text = format!("count by ({by}) (count_over_time({idle}[{}ms]))", few.step_ms);
            for row in range(store, &text, &few)?.rows {
                asked.count_processors(by, &row);
            }
        }
        Ok(())
    }

    /// What series without values tell of the machines.
    fn machines(&self, store: &Store, only: &str) -> Result<HashMap<String, Machine>, RemoteError> {
        let facts: BTreeSet<&str> = Vocabulary::builtin().facts.metrics().collect();
        let pattern = facts.into_iter().collect::<Vec<_>>().join("|");
        let selector = self.wanted.selector.metric("", &format!("__name__=~\"{pattern}\",{only}"));
        let (start, end) = (seconds(self.wanted.from_ms), seconds(self.wanted.to_ms));
        let form = [("match[]", selector.as_str()), ("start", &start), ("end", &end)];
        let body = store.post("/api/v1/series", &form)?;
        let mut machines: HashMap<String, Machine> = HashMap::new();
        for labels in answer::series(&body).map_err(|because| bad(store, "/api/v1/series", because))? {
            if let (Some(name), Some(host)) = (labels.get("__name__"), labels.get(&self.wanted.by)) {
                let machine = machines.entry(host.clone()).or_default();
                machine.learn(name, |label| labels.get(label).map(String::as_str));
            }
        }
        Ok(machines)
    }
}

/// Answers for a chunk of machines, being sorted.
struct Asked<'a> {
    tables: HashMap<&'a str, Table>,
    processors: HashMap<String, f64>,
    machines: HashMap<String, Machine>,
    alive: BTreeSet<String>,
}

impl Asked<'_> {
    fn present(&mut self, by: &str, row: &Row) {
        let Some(host) = row.label(by) else { return };
        if let Some(table) = self.tables.get_mut(host) {
            table.present(&row.values);
            self.alive.insert(host.to_owned());
        }
    }

    fn fill(&mut self, by: &str, metric: &str, row: &Row) {
        let Some(host) = row.label(by) else { return };
        let Some(table) = self.tables.get_mut(host) else { return };
        let folded = query::is_of_processors(metric);
        table.fill(metric, row, |name| match row.label(name) {
            None if folded && matches!(name, "cpu" | "core") => Some("_total"),
            found => found,
        });
    }

    fn count_processors(&mut self, by: &str, row: &Row) {
        let most = row.values.iter().copied().fold(f64::NAN, f64::max);
        if let Some(host) = row.label(by) {
            self.processors.insert(host.to_owned(), most);
        }
    }

    fn member(&mut self, host: &str) -> Member {
        let none = |because: &str| Member { host: host.to_owned(), samples: Err(because.to_owned()) };
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
        Member { host: host.to_owned(), samples: Ok(Samples { topology, frame }) }
    }
}

fn label_values(store: &Store, wanted: &Wanted, label: &str, selector: &str) -> Result<Vec<String>, RemoteError> {
    let path = format!("/api/v1/label/{label}/values");
    let (start, end) = (seconds(wanted.from_ms), seconds(wanted.to_ms));
    // Prometheus takes this question by GET alone
    let body = store.get(&path, &[("match[]", selector), ("start", &start), ("end", &end)])?;
    answer::names(&body).map_err(|because| bad(store, &path, because))
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
