//! Means over the process tables of the shown stretch.

use std::collections::HashMap;

use diskwright_base::{Note, ProcessPlace, ProcessRow, stable_task_name};
use diskwright_diagnosis::{Bottleneck, Verdict};
use diskwright_report::identity::place_text;
use serde::{Serialize, Serializer};

/// Counters of quotas of processor time.
const CPU_QUOTA_PREFIX: &str = "cgroup.cpu_";

/// Means of a process over the shown stretch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessSummary {
    /// Process id.
    pub pid: u32,
    /// Command name.
    pub name: String,
    /// Control group.
    pub cgroup: String,
    /// User; see [`ProcessRow::user`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Command line, secrets masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_line: Option<String>,
    /// Unit, container, pod or machine.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "serialize_place")]
    pub place: Option<Box<ProcessPlace>>,
    /// Processors used: 1 is one full processor.
    pub processor: f64,
    /// Bytes per second that were read from block devices for it; `null` where they were unreadable.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes written per second, counted when pages are dirtied; `null` where they were unreadable.
    pub write_bytes_per_s: Option<f64>,
    /// Share of the time spent waiting for block I/O; `null` where the kernel does not count it.
    pub block_delay: Option<f64>,
    /// Share of the samples in uninterruptible sleep.
    pub blocked_share: f64,
    /// Major faults a second.
    pub major_faults_per_s: f64,
    /// Resident memory, bytes.
    pub resident_bytes: f64,
}

/// Writes a place as the text that screens show.
#[expect(clippy::ref_option, reason = "serde passes a reference")]
fn serialize_place<S: Serializer>(place: &Option<Box<ProcessPlace>>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&place.as_deref().map(place_text).unwrap_or_default())
}

/// Sort order of the processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessOrder {
    /// Bytes read and written.
    #[default]
    Bytes,
    /// Time spent waiting for block I/O.
    Delay,
    /// Processor time.
    Processor,
    /// Resident memory.
    Memory,
}

impl ProcessOrder {
    /// The sort orders that show which processes use the blamed resources, in the order of the bottlenecks; none if the
    /// verdict blames nothing.
    pub fn of_blamed(verdict: Option<&Verdict>) -> Vec<ProcessOrder> {
        let mut orders = Vec::new();
        let Some(verdict) = verdict else { return orders };
        for listed in &verdict.bottlenecks {
            let leading = listed.positions.first().and_then(|position| verdict.findings.get(*position));
            let is_quota = leading.is_some_and(|finding| finding.counter.starts_with(CPU_QUOTA_PREFIX));
            let order = match listed.bottleneck {
                Bottleneck::Cpu | Bottleneck::Interrupts => ProcessOrder::Processor,
                Bottleneck::Throttle if is_quota => ProcessOrder::Processor,
                Bottleneck::Memory => ProcessOrder::Memory,
                _ => ProcessOrder::Bytes,
            };
            if !orders.contains(&order) {
                orders.push(order);
            }
        }
        orders
    }

    /// The next order, wrapping around.
    pub fn next(self) -> ProcessOrder {
        match self {
            ProcessOrder::Bytes => ProcessOrder::Delay,
            ProcessOrder::Delay => ProcessOrder::Processor,
            ProcessOrder::Processor => ProcessOrder::Memory,
            ProcessOrder::Memory => ProcessOrder::Bytes,
        }
    }

    /// Its name on the screen.
    pub fn title(self) -> &'static str {
        match self {
            ProcessOrder::Bytes => "I/O",
            ProcessOrder::Delay => "I/O wait",
            ProcessOrder::Processor => "CPU",
            ProcessOrder::Memory => "memory",
        }
    }

    /// Value to sort by, largest first.
    pub fn sort_value(self, row: &ProcessSummary) -> f64 {
        match self {
            ProcessOrder::Bytes => row.read_bytes_per_s.unwrap_or(0.0) + row.write_bytes_per_s.unwrap_or(0.0),
            ProcessOrder::Delay => row.block_delay.unwrap_or(row.blocked_share),
            ProcessOrder::Processor => row.processor,
            ProcessOrder::Memory => row.resident_bytes,
        }
    }
}

/// Means of each process over process tables, weighted by the time that each table covers; a process that is missing
/// from a table did nothing in that table's time. The memory used grows with the processes, not with the tables.
#[derive(Debug, Default)]
pub(crate) struct ProcessMeans {
    row_indices: HashMap<(u32, String), usize>,
    rows: Vec<ProcessSummary>,
    /// For each row, the time for which its reads, its writes and its delay were unreadable: that time does not count.
    unread: Vec<[f64; 3]>,
    /// Time that the tables cover, seconds; where no table has a length, the number of tables.
    total_weight: f64,
    /// True once a table had a length.
    is_timed: bool,
}

impl ProcessMeans {
    /// Adds a process table. An unreadable one is ignored here; the verdict has a remark on it.
    pub fn add_table(&mut self, note: &Note) {
        let Ok(table) = note.read_processes() else { return };
        let is_timed = table.elapsed_s > 0.0;
        if is_timed && !self.is_timed {
            // tables without a length count only where no table has one
            *self = ProcessMeans { is_timed, ..ProcessMeans::default() };
        } else if self.is_timed && !is_timed {
            return;
        }
        let weight = if is_timed { table.elapsed_s } else { 1.0 };
        self.total_weight += weight;
        for row in &table.rows {
            // an id can be reused within a long stretch: only the same id and name is the same process
            let index =
                *self.row_indices.entry((row.pid, stable_task_name(&row.name).to_owned())).or_insert_with(|| {
                    self.rows.push(ProcessSummary { pid: row.pid, ..ProcessSummary::default() });
                    self.unread.push([0.0; 3]);
                    self.rows.len() - 1
                });
            add_row(&mut self.rows[index], row, weight);
            let values = [row.read_bytes_per_s, row.write_bytes_per_s, row.block_delay];
            for (unread, value) in self.unread[index].iter_mut().zip(values) {
                *unread += if value.is_none() { weight } else { 0.0 };
            }
        }
    }

    /// True where there was no table yet.
    pub fn is_empty(&self) -> bool {
        self.total_weight == 0.0
    }

    /// The means.
    pub fn finish(mut self) -> Vec<ProcessSummary> {
        for (row, unread) in self.rows.iter_mut().zip(&self.unread) {
            let divide = |value: &mut f64| *value /= self.total_weight;
            divide(&mut row.processor);
            divide(&mut row.blocked_share);
            divide(&mut row.major_faults_per_s);
            let values = [&mut row.read_bytes_per_s, &mut row.write_bytes_per_s, &mut row.block_delay];
            for (value, unread) in values.into_iter().zip(unread) {
                value.iter_mut().for_each(|value| *value /= self.total_weight - unread);
            }
        }
        self.rows
    }
}

fn add_row(sum: &mut ProcessSummary, row: &ProcessRow, weight: f64) {
    let add = |sum: &mut Option<f64>, value: Option<f64>| {
        if let Some(value) = value {
            *sum = Some(sum.unwrap_or(0.0) + value * weight);
        }
    };
    // the name of a kernel worker ends with what it works on, so it changes
    sum.name.clone_from(&row.name);
    sum.cgroup.clone_from(&row.cgroup);
    if row.user.is_some() {
        sum.user.clone_from(&row.user);
    }
    if row.command_line.is_some() {
        sum.command_line.clone_from(&row.command_line);
    }
    if row.place.is_some() {
        sum.place.clone_from(&row.place);
    }
    sum.processor += row.processor * weight;
    add(&mut sum.read_bytes_per_s, row.read_bytes_per_s);
    add(&mut sum.write_bytes_per_s, row.write_bytes_per_s);
    add(&mut sum.block_delay, row.block_delay);
    sum.blocked_share += row.blocked_share * weight;
    sum.major_faults_per_s += row.major_faults_per_s * weight;
    // a level, not a rate: the newest counts
    sum.resident_bytes = row.resident_bytes;
}

#[cfg(test)]
mod tests {
    use diskwright_base::ProcessTable;

    use super::*;

    #[test]
    fn tables_weigh_by_their_time_and_absence_is_nothing() {
        let row = |pid: u32, bytes: Option<f64>| ProcessRow {
            pid,
            name: "dd".into(),
            processor: 1.0,
            read_bytes_per_s: bytes,
            resident_bytes: 5.0,
            ..ProcessRow::default()
        };
        let table = |elapsed_s: f64, rows: Vec<ProcessRow>| ProcessTable { elapsed_s, rows, ..ProcessTable::default() };
        let means = |tables: &[ProcessTable]| {
            let mut means = ProcessMeans::default();
            tables.iter().for_each(|table| means.add_table(&Note::processes(0, table.clone())));
            means.finish()
        };
        let tables = [table(1.0, vec![row(1, Some(400.0)), row(2, None)]), table(3.0, vec![row(1, Some(0.0))])];
        let found = means(&tables);
        assert_eq!((found[0].read_bytes_per_s, found[0].processor), (Some(100.0), 1.0));
        // not seen in three of four seconds, and bytes that could not be read are not 0
        assert_eq!((found[1].read_bytes_per_s, found[1].processor), (None, 0.25));
        // nor are they 0 where another table has them; a table without the process has none of them
        let partly = [
            table(1.0, vec![row(1, None)]),
            table(1.0, vec![row(1, Some(400.0))]),
            table(2.0, vec![row(1, None)]),
            table(3.0, Vec::new()),
        ];
        let found = means(&partly);
        assert_eq!((found[0].read_bytes_per_s, found[0].write_bytes_per_s), (Some(100.0), None));
        // lengths that no table has make all the same; where some have one, only these count
        let untimed = [table(0.0, vec![row(1, Some(400.0))]), table(0.0, vec![row(1, Some(0.0))])];
        assert_eq!(means(&untimed)[0].read_bytes_per_s, Some(200.0));
        let mixed = [untimed[0].clone(), tables[1].clone(), untimed[0].clone()];
        assert_eq!(means(&mixed)[0].read_bytes_per_s, Some(0.0));
        assert!(means(&[]).is_empty());
    }

    #[test]
    fn a_worker_of_the_kernel_is_one_row_whatever_it_works_on() {
        let row = |pid: u32, name: &str| ProcessRow { pid, name: name.into(), processor: 0.5, ..ProcessRow::default() };
        let names = ["kworker/1:2H-kblockd", "kworker/1:2H+kblockd", "kworker/1:2H-events", "kworker/1:2H"];
        let mut means = ProcessMeans::default();
        for name in names {
            let rows = vec![row(13_554, name), row(7, if name.contains('+') { "dd" } else { "sh" })];
            let table = ProcessTable { elapsed_s: 1.0, rows, ..ProcessTable::default() };
            means.add_table(&Note::processes(0, table));
        }
        let found: Vec<_> = means.finish().into_iter().map(|row| (row.pid, row.name, row.processor)).collect();
        let expected = [(13_554, "kworker/1:2H", 0.5), (7, "sh", 0.375), (7, "dd", 0.125)];
        assert_eq!(found, expected.map(|(pid, name, processor)| (pid, name.to_owned(), processor)));
    }
}
