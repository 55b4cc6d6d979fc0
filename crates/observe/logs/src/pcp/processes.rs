//! Process tables from `proc.*` and `hotproc.*`: the activity of each process between two tables, ten seconds apart or
//! more. They are not series, because processes come and go too fast for columns.

use std::collections::HashMap;
use std::io::Read;

use diskwright_base::{Note, ProcessRow, ProcessTable};

use super::mapping::MetricUse;
use super::metadata::{InstanceDomains, Metric, Semantics};
use super::values::{PcpNumber, ValueSet};
use crate::FrameBatch;

/// Shortest time between two tables, nanoseconds.
const TABLE_INTERVAL_NS: i64 = 10_000_000_000;
/// Largest number of processes that are followed.
const MAX_PROCESSES: usize = 1 << 16;
/// Largest number of rows of a table.
const MAX_TABLE_ROWS: usize = 50;

/// Values of a process, by field.
#[derive(Default)]
struct PcpProcess {
    name: String,
    /// Growth since the last table, and its time span, by field.
    growth: HashMap<&'static str, (f64, i64)>,
    previous: HashMap<&'static str, (PcpNumber, i64)>,
    levels: HashMap<&'static str, f64>,
    cgroup: String,
    waits_in: Option<String>,
    /// Number of samples of its state.
    state_samples: u32,
    /// Number of samples that found it blocked.
    blocked_samples: u32,
    was_seen: bool,
}

/// The processes of an archive.
pub(super) struct PcpProcesses {
    fields: HashMap<u32, (Metric, &'static str)>,
    processes: HashMap<u32, PcpProcess>,
    last_table_ns: Option<i64>,
}

impl PcpProcesses {
    /// Selects the metrics of processes.
    pub fn new(metrics: &[Metric], uses: &[MetricUse]) -> PcpProcesses {
        let process_field = |(metric, planned_use): (&Metric, &MetricUse)| match planned_use {
            MetricUse::Process(field) => Some((metric.pmid, (metric.clone(), *field))),
            _ => None,
        };
        let fields = metrics.iter().zip(uses).filter_map(process_field).collect();
        PcpProcesses { fields, processes: HashMap::new(), last_table_ns: None }
    }

    /// Forgets everything at a mark record: nothing before it can be continued.
    pub fn forget_processes(&mut self) {
        self.processes.clear();
        self.last_table_ns = None;
    }

    /// Adds a record, and emits a table if one is due.
    pub fn add_record<R: Read>(
        &mut self,
        time_ns: i64,
        sets: &[ValueSet],
        body: &[u8],
        indoms: &InstanceDomains<R>,
        context: &dyn Fn() -> String,
        batch: &mut FrameBatch<'_>,
    ) {
        let mut has_process_values = false;
        for set in sets {
            if let Some((metric, field)) = self.fields.get(&set.pmid) {
                has_process_values = true;
                if set.count < 0 {
                    batch.add_skip(format!("{}, {}", metric.name, context()), "the logger could not read the metric");
                }
                add_values(&mut self.processes, metric, field, set, body, indoms, time_ns);
            }
        }
        if !has_process_values {
            return;
        }
        match self.last_table_ns {
            None => self.last_table_ns = Some(time_ns),
            Some(last_ns) if time_ns.saturating_sub(last_ns) >= TABLE_INTERVAL_NS => {
                self.emit_table(time_ns, batch);
                self.last_table_ns = Some(time_ns);
            }
            Some(_) => {}
        }
    }

    fn emit_table(&mut self, time_ns: i64, batch: &mut FrameBatch<'_>) {
        let mut rows: Vec<ProcessRow> = self.processes.iter().filter_map(|(pid, p)| table_row(*pid, p)).collect();
        let weight = |r: &ProcessRow| {
            let bytes = r.read_bytes_per_s.unwrap_or(0.0) + r.write_bytes_per_s.unwrap_or(0.0);
            r.processor + r.blocked_share + r.block_delay.unwrap_or(0.0) + bytes * 1e-6
        };
        rows.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then(a.pid.cmp(&b.pid)));
        rows.truncate(MAX_TABLE_ROWS);
        let elapsed_s = self.last_table_ns.map_or(0.0, |last_ns| (time_ns - last_ns) as f64 * 1e-9);
        let table = ProcessTable { elapsed_s, rows, ..ProcessTable::default() };
        if !table.rows.is_empty() {
            batch.push_note(Note::processes(time_ns, table));
        }
        // processes that were not seen since the last table have ended
        self.processes.retain(|_, p| std::mem::take(&mut p.was_seen));
        for process in self.processes.values_mut() {
            process.growth.clear();
            (process.state_samples, process.blocked_samples) = (0, 0);
        }
    }
}

fn add_values<R: Read>(
    processes: &mut HashMap<u32, PcpProcess>,
    metric: &Metric,
    field: &'static str,
    set: &ValueSet,
    body: &[u8],
    indoms: &InstanceDomains<R>,
    time_ns: i64,
) {
    for (instance, word) in set.read_values(body) {
        if processes.len() >= MAX_PROCESSES && !processes.contains_key(&instance) {
            continue;
        }
        let process = processes.entry(instance).or_default();
        process.was_seen = true;
        if !process.name.is_empty() && !indoms.has_name(metric.indom, instance, &process.name) {
            // the process id was reused
            *process = PcpProcess { was_seen: true, ..PcpProcess::default() };
        }
        if process.name.is_empty() {
            process.name = indoms.instance_name(metric.indom, instance).unwrap_or_default();
        }
        match field {
            "psinfo.sname" => {
                process.state_samples += 1;
                process.blocked_samples += u32::from(set.read_text(body, word).is_some_and(|s| s.starts_with('D')));
            }
            "psinfo.cgroups" => process.cgroup = set.read_text(body, word).map(|t| cgroup_path(&t)).unwrap_or_default(),
            "psinfo.wchan_s" => process.waits_in = set.read_text(body, word).map(|t| t.into_owned()),
            _ => {
                let factor = metric.units.to_base_factor().unwrap_or(f64::NAN);
                let Some(number) = set.read_number(body, word, metric.value_type) else { continue };
                if metric.semantics != Semantics::Counter {
                    process.levels.insert(field, number.as_f64() * factor);
                    continue;
                }
                let previous = process.previous.insert(field, (number, time_ns));
                if let Some((previous, previous_ns)) = previous.filter(|(_, ns)| *ns < time_ns)
                    && let Some(growth) = number.growth_since(previous, metric.value_type)
                {
                    let sum = process.growth.entry(field).or_default();
                    *sum = (sum.0 + growth * factor, sum.1 + (time_ns - previous_ns));
                }
            }
        }
    }
}

/// Returns the path of the group that counts I/O, out of `hierarchy:controllers:path;…`.
fn cgroup_path(text: &str) -> String {
    let parts = || text.split(';').filter_map(|p| p.rsplit_once(':'));
    let group = parts().find(|(c, _)| c.contains("blkio")).or_else(|| parts().next());
    group.map_or_else(|| "/".to_owned(), |(_, path)| path.to_owned())
}

/// Returns a row of the table; `None` for a process without activity.
fn table_row(pid: u32, process: &PcpProcess) -> Option<ProcessRow> {
    let rate = |field: &str| {
        let (grown, span_ns) = *process.growth.get(field)?;
        (span_ns > 0).then(|| grown / (span_ns as f64 * 1e-9))
    };
    let system = rate("psinfo.stime").unwrap_or(0.0);
    // PCP names an instance by pid and command line
    let command = process.name.split_once(' ').map_or(process.name.as_str(), |(_, command)| command);
    let command = command.split(' ').next().unwrap_or(command);
    let row = ProcessRow {
        pid,
        name: command.trim_matches(['(', ')']).rsplit('/').next().unwrap_or(command).to_owned(),
        cgroup: if process.cgroup.is_empty() { "/".into() } else { process.cgroup.clone() },
        processor: rate("psinfo.utime").unwrap_or(0.0) + system,
        processor_system: system,
        read_bytes_per_s: rate("io.read_bytes"),
        write_bytes_per_s: rate("io.write_bytes"),
        requested_read_bytes_per_s: rate("io.rchar"),
        requested_write_bytes_per_s: rate("io.wchar"),
        read_calls_per_s: rate("io.syscr"),
        write_calls_per_s: rate("io.syscw"),
        major_faults_per_s: rate("psinfo.maj_flt").unwrap_or(0.0),
        block_delay: rate("psinfo.delayacct_blkio_time"),
        blocked_share: if process.state_samples > 0 {
            f64::from(process.blocked_samples) / f64::from(process.state_samples)
        } else {
            0.0
        },
        waits_in: process.waits_in.clone().filter(|w| !w.is_empty() && w != "0"),
        resident_bytes: process.levels.get("psinfo.rss").copied().unwrap_or(0.0),
        swapped_bytes: process.levels.get("memory.vmswap").copied(),
        ..ProcessRow::default()
    };
    let activity = [row.processor, row.blocked_share, row.major_faults_per_s, row.block_delay.unwrap_or(0.0)];
    let bytes =
        [row.requested_read_bytes_per_s, row.requested_write_bytes_per_s, row.read_bytes_per_s, row.write_bytes_per_s];
    (activity.iter().any(|v| *v > 0.0) || bytes.iter().flatten().any(|v| *v > 0.0)).then_some(row)
}
