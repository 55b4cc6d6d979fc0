//! Columns of a log: their counters, their machine, and the positions of their cells.

use std::collections::HashMap;
use std::sync::Arc;

use diskwright_base::text::is_same_host;
use diskwright_base::{Device, DeviceKind, Filesystem, Schema, Topology};

use crate::FrameBatch;
use crate::nt::{self, CounterPath};

use super::header::PerfmonHeader;
use super::rows::CellRun;

/// The columns of one header.
pub(super) struct PerfmonColumns {
    /// Series: one for each column that is kept, and behind them those that are computed.
    pub schema: Arc<Schema>,
    /// How the computed series follow from the others.
    pub products: Vec<nt::Product>,
    pub interrupts: Option<nt::ColumnSum>,
    /// Machine of the columns; empty if the log names none.
    pub host: String,
    /// Positions of the kept columns in a row.
    pub runs: Vec<CellRun>,
    /// For each column that is kept: true if the catalogue knows the counter; such a counter cannot be below zero.
    pub known: Vec<bool>,
}

/// Lists the hosts with the number of their columns, in order of appearance.
fn count_hosts(paths: &[CounterPath]) -> Vec<(String, usize)> {
    let mut hosts: Vec<(String, usize)> = Vec::new();
    let mut indexes: HashMap<String, usize> = HashMap::new();
    for path in paths {
        let index = *indexes.entry(path.host.to_lowercase()).or_insert_with(|| {
            hosts.push((path.host.clone(), 0));
            hosts.len() - 1
        });
        hosts[index].1 += 1;
    }
    hosts
}

impl PerfmonColumns {
    /// Resolves a header's columns. `chosen` is the machine to read; if it is `None`, the first one is read. Skips are
    /// reported to the batch.
    ///
    /// # Errors
    /// When the chosen machine is not in the log.
    pub fn from_header(
        header: &PerfmonHeader,
        chosen: Option<&str>,
        batch: &mut FrameBatch<'_>,
    ) -> Result<PerfmonColumns, String> {
        let mut paths: Vec<CounterPath> = header.names.iter().map(|name| parse_path(name)).collect();
        if let Some(language) = header.language {
            for unknown in nt::translate_paths(language, &mut paths) {
                batch.add_skip(unknown, format!("not in the table of {} names; kept under its own", language.id));
            }
        }
        let hosts = count_hosts(&paths);
        let is_chosen = |host: &str| chosen.is_none_or(|w| is_same_host(w.trim_start_matches('\\'), host));
        // columns without a machine belong to whichever is read
        let named = || hosts.iter().filter(|(host, _)| !host.is_empty());
        let host = named().map(|(h, _)| h).find(|h| is_chosen(h)).cloned();
        if let (Some(chosen), None, true) = (chosen, &host, named().next().is_some()) {
            let names: Vec<&str> = named().map(|(h, _)| h.as_str()).collect();
            return Err(format!("no column belongs to host {chosen}; hosts in the log: {}", names.join(", ")));
        }
        let others = named().filter(|(h, _)| Some(h) != host.as_ref());
        for (other_host, _) in others {
            batch.add_other_host(other_host.as_str(), other_host);
        }
        let host = host.unwrap_or_default();
        let is_of_host = |path: &CounterPath| path.host.is_empty() || path.host.eq_ignore_ascii_case(&host);
        let runs = cell_runs(paths.iter().map(is_of_host));
        paths.retain(is_of_host);
        let resolved = nt::resolve_columns(&paths);
        let known: Vec<bool> = resolved.iter().map(|r| !r.is_foreign()).collect();
        let cell_count: usize = runs.iter().map(|run| run.take).sum();
        assert_eq!(cell_count, known.len(), "each cell that is read from a row has its column");
        let mut series = resolved.iter().map(nt::NtColumn::to_series).collect();
        let products = nt::add_products(&mut series);
        let interrupts = nt::add_interrupt_sum(&mut series);
        Ok(PerfmonColumns { schema: Arc::new(Schema::new(series)), products, interrupts, host, runs, known })
    }

    /// Derives the machine's topology from the columns.
    pub fn topology(&self) -> Topology {
        let mut topology = Topology { host: self.host.clone(), ..Topology::default() };
        let processors = self.schema.instances("processor");
        topology.processors = processors.iter().filter(|i| i.starts_with("cpu")).count() as u32;
        for disk in self.schema.instances("physical_disk") {
            // "0 C: D:": the disk's number and the drive letters that are on it
            let letters = disk.split(' ').filter(|part| part.len() == 2 && part.ends_with(':'));
            for mount in letters.map(str::to_owned) {
                topology.filesystems.push(Filesystem { mount, kind: String::new(), device: disk.to_owned() });
            }
            let device = Device { name: disk.to_owned(), kind: DeviceKind::Disk, ..Device::default() };
            topology.devices.push(device);
        }
        topology
    }
}

/// Parses a column's name as a path; a name that is no path becomes a counter without an object.
fn parse_path(name: &str) -> CounterPath {
    CounterPath::parse(name).unwrap_or_else(|| CounterPath {
        object: "column".into(),
        counter: if name.trim().is_empty() { "without a name".into() } else { name.trim().to_owned() },
        ..CounterPath::default()
    })
}

/// Converts the choice of columns to runs of skipped and taken ones.
fn cell_runs(choice: impl Iterator<Item = bool>) -> Vec<CellRun> {
    let mut runs: Vec<CellRun> = vec![CellRun { skip: 0, take: 0 }];
    for is_taken in choice {
        match (runs.last_mut(), is_taken) {
            (Some(run), true) => run.take += 1,
            (Some(run), false) if run.take == 0 => run.skip += 1,
            _ => runs.push(CellRun { skip: 1, take: 0 }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_columns() {
        let found = cell_runs([false, true, true, false, false, true, false].into_iter());
        let pairs: Vec<_> = found.iter().map(|r| (r.skip, r.take)).collect();
        assert_eq!(pairs, [(1, 2), (2, 1), (1, 0)]);
    }
}
