//! Rows of the process table: the busiest processes between two scans.

use std::path::Path;

use diskwright_base::ProcessRow;

use crate::live::Roots;
use crate::live::open_file::{read_bytes, read_text};
use crate::live::tick_context::TickContext;
use crate::live::watched_read::list_folder;

use super::identity::{Identities, ListedProcess};
use super::open_files;
use super::parse::{self, ProcessIo, ProcessStat};

/// Largest number of rows by each criterion of activity.
const ROWS_PER_CRITERION: usize = 20;
/// Largest number of processes whose open files are listed.
const MAX_ROWS_WITH_FILES: usize = 5;
/// Largest number of threads of a process that are searched for one that waits.
const MAX_THREADS: usize = 64;
/// Unit of a process's times, seconds.
pub(super) const TICK_S: f64 = 0.01;

/// A process at two scans.
#[derive(Clone, Debug)]
pub(super) struct ProcessInterval {
    pub pid: u32,
    pub before: ProcessStat,
    pub io_before: Option<ProcessIo>,
    pub now: ProcessStat,
    pub io_now: Option<ProcessIo>,
    /// Seconds between the two readings of the I/O; more than between the scans if the process seemed idle for a while,
    /// 0 if it still seems idle.
    pub io_s: f64,
}

impl ProcessInterval {
    /// Processor time between the scans, hundredths of a second.
    pub fn used_ticks(&self) -> u64 {
        (self.now.user_ticks + self.now.system_ticks).saturating_sub(self.before.user_ticks + self.before.system_ticks)
    }
}

/// Returns the rows: the busiest by each criterion, busiest first.
pub(super) fn busiest_rows(
    context: &TickContext,
    spans: &[ProcessInterval],
    elapsed_s: f64,
    counts_delays: bool,
    identities: &mut Identities,
) -> Vec<ProcessRow> {
    if elapsed_s <= 0.0 {
        return Vec::new();
    }
    let roots = context.roots;
    let mut rows: Vec<(ProcessRow, &ProcessStat)> = spans
        .iter()
        .map(|s| (process_row(s, elapsed_s, counts_delays), &s.now))
        .filter(|(r, _)| has_activity(r))
        .collect();
    keep_busiest(&mut rows);
    for (row, now) in &mut rows {
        add_details(row, now, context, identities);
        row.age_s = age_s(now, context).filter(|age_s| *age_s <= elapsed_s);
    }
    let mut rows: Vec<ProcessRow> = rows.into_iter().map(|(row, _)| row).collect();
    add_files(roots, &mut rows);
    rows.sort_by(|a, b| sort_weight(b).total_cmp(&sort_weight(a)).then(a.pid.cmp(&b.pid)));
    rows
}

/// Seconds since a process started.
fn age_s(now: &ProcessStat, context: &TickContext) -> Option<f64> {
    let started_ns = now.start_ticks.checked_mul(10_000_000)?;
    let age_ns = context.since_boot_ns.checked_sub(started_ns)?;
    Some((age_ns / 10_000_000) as f64 * TICK_S)
}

/// Adds open files to the rows that use disks most.
fn add_files(roots: &Roots, rows: &mut [ProcessRow]) {
    let disk_use = |row: &ProcessRow| disk_bytes(row) / 1e8 + row.blocked_share;
    rows.sort_by(|a, b| disk_use(b).total_cmp(&disk_use(a)).then(a.pid.cmp(&b.pid)));
    for row in rows.iter_mut().take(MAX_ROWS_WITH_FILES).filter(|row| disk_use(row) > 0.0) {
        (row.files, row.more_files) = open_files::open_file_rows(roots, &roots.proc.join(row.pid.to_string()));
    }
}

/// Creates a row. Numbers are rounded to useful precision, which keeps the tables small.
fn process_row(span: &ProcessInterval, elapsed_s: f64, counts_delays: bool) -> ProcessRow {
    let per_s = |now: u64, before: u64| now.saturating_sub(before) as f64 / elapsed_s;
    let (now, before) = (&span.now, &span.before);
    let round_hundredths = |value: f64| (value * 1e2).round() / 1e2;
    let round_share = |value: f64| (value * 1e4).round() / 1e4;
    let system = per_s(now.system_ticks, before.system_ticks) * TICK_S;
    let readings = span.io_now.zip(span.io_before);
    let io_per_s = |field: fn(&ProcessIo) -> u64| {
        let added = readings.map(|(now, before)| field(&now).saturating_sub(field(&before)) as f64);
        added.map(|n| if span.io_s > 0.0 { (n / span.io_s).round() } else { 0.0 })
    };
    ProcessRow {
        pid: span.pid,
        name: String::from_utf8_lossy(&now.name).into_owned(),
        cgroup: String::new(),
        user: None,
        command_line: None,
        place: None,
        age_s: None,
        processor: round_share(per_s(now.user_ticks, before.user_ticks) * TICK_S + system),
        processor_system: round_share(system),
        read_bytes_per_s: io_per_s(|i| i.read_bytes),
        write_bytes_per_s: io_per_s(|i| i.write_bytes.saturating_sub(i.cancelled_bytes)),
        requested_read_bytes_per_s: io_per_s(|i| i.requested_read),
        requested_write_bytes_per_s: io_per_s(|i| i.requested_write),
        read_calls_per_s: io_per_s(|i| i.read_calls),
        write_calls_per_s: io_per_s(|i| i.write_calls),
        major_faults_per_s: round_hundredths(per_s(now.major_faults, before.major_faults)),
        block_delay: counts_delays
            .then(|| round_share(per_s(now.block_delay_ticks, before.block_delay_ticks) * TICK_S)),
        blocked_share: if now.state == b'D' { 1.0 } else { 0.0 },
        waits_in: None,
        resident_bytes: now.resident_pages as f64 * rustix::param::page_size() as f64,
        swapped_bytes: None,
        held_bytes: None,
        realtime_priority: now.has_realtime_priority().then_some(now.realtime_priority as u32),
        nice: now.nice,
        busiest_thread: None,
        files: Vec::new(),
        more_files: 0,
    }
}

fn disk_bytes(row: &ProcessRow) -> f64 {
    row.read_bytes_per_s.unwrap_or(0.0) + row.write_bytes_per_s.unwrap_or(0.0)
}

fn requested_bytes(row: &ProcessRow) -> f64 {
    row.requested_read_bytes_per_s.unwrap_or(0.0) + row.requested_write_bytes_per_s.unwrap_or(0.0)
}

fn has_activity(row: &ProcessRow) -> bool {
    row.processor > 0.0
        || disk_bytes(row) > 0.0
        || requested_bytes(row) > 0.0
        || row.major_faults_per_s > 0.0
        || row.blocked_share > 0.0
        || row.block_delay.is_some_and(|d| d > 0.0)
}

/// Sort key: processors in use, plus waiting, plus disk traffic with 100 MB/s counted as one processor, plus major
/// faults with 1000 per second counted as one processor.
fn sort_weight(row: &ProcessRow) -> f64 {
    row.processor
        + row.blocked_share.max(row.block_delay.unwrap_or(0.0))
        + disk_bytes(row) / 1e8
        + row.major_faults_per_s / 1e3
}

fn keep_busiest<T>(rows: &mut Vec<(ProcessRow, T)>) {
    let criteria: [fn(&ProcessRow) -> f64; 7] = [
        |r| r.processor,
        disk_bytes,
        requested_bytes,
        |r| r.major_faults_per_s,
        |r| r.blocked_share,
        |r| r.block_delay.unwrap_or(0.0),
        |r| r.resident_bytes,
    ];
    if rows.len() <= ROWS_PER_CRITERION {
        return;
    }
    let mut keep = vec![false; rows.len()];
    let mut order: Vec<usize> = (0..rows.len()).collect();
    for criterion in criteria {
        let value = |i: &usize| criterion(&rows[*i].0);
        order.sort_by(|a, b| value(b).total_cmp(&value(a)).then(a.cmp(b)));
        for i in order.iter().take(ROWS_PER_CRITERION).filter(|i| value(i) > 0.0) {
            keep[*i] = true;
        }
    }
    let kept = std::mem::take(rows).into_iter().zip(keep).filter_map(|(row, is_kept)| is_kept.then_some(row));
    *rows = kept.collect();
}

/// Adds the fields whose files are read only for reported rows.
fn add_details(row: &mut ProcessRow, now: &ProcessStat, context: &TickContext, identities: &mut Identities) {
    let folder = &context.roots.proc.join(row.pid.to_string());
    let cgroup = read_bytes(&folder.join("cgroup")).unwrap_or_default();
    let status = read_bytes(&folder.join("status")).unwrap_or_default();
    row.cgroup = parse::parse_cgroup(&cgroup);
    row.swapped_bytes = parse::parse_swapped_bytes(&status).map(|bytes| bytes as f64);
    let process = ListedProcess {
        folder,
        start_ticks: now.start_ticks,
        is_kernel_thread: now.is_kernel_thread(),
        cgroup: &cgroup,
        status: &status,
    };
    identities.add_to(row, context.roots, &process, context.is_slow_tick);
    let mut blocked = (row.blocked_share > 0.0).then(|| folder.to_owned());
    if blocked.is_none() && now.threads > 1 {
        // the state of a process is that of its first thread; a database waits in other threads
        blocked = find_blocked_thread(folder);
        if blocked.is_some() {
            row.blocked_share = 1.0;
        }
    }
    if let Some(folder) = blocked {
        row.waits_in = read_text(&folder.join("wchan")).filter(|name| name != "0" && !name.is_empty());
    }
}

fn find_blocked_thread(folder: &Path) -> Option<std::path::PathBuf> {
    let tasks = list_folder(&folder.join("task"));
    tasks.take(MAX_THREADS).map(|entry| entry.path()).find(|task| {
        let text = read_bytes(&task.join("stat")).unwrap_or_default();
        parse::parse_stat(&text).is_some_and(|s| s.state == b'D')
    })
}
