//! Threads of processes that use nearly a whole processor or more. One thread
//! can use only one processor, so a thread that is always running limits
//! its program even if many processors are idle, and no counter of the
//! machine shows it: the kernel moves the thread from processor to processor.
//!
//! A scan of the processes finds the candidates. Their threads are read once
//! then and once at the next tick; the busiest are read at every tick from then
//! on, until the next scan. On a machine without such a process this costs nothing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use diskwright_base::ThreadRow;
use diskwright_base::counter_ids::system;

use crate::live::counter_table::{ABSENT, CounterTable, TableColumn, level_column};
use crate::live::open_file::read_bytes;
use crate::live::tick_context::TickContext;
use crate::live::watched_read::list_folder;

use super::parse::{self, ProcessStat};
use super::process_rows::{ProcessInterval, TICK_S};

/// Share of a processor from which a process's threads are examined.
const MIN_PROCESS_SHARE: f64 = 0.8;
/// Share of a processor from which a thread is followed.
const MIN_THREAD_SHARE: f64 = 0.3;
/// Most processes whose threads are examined.
const MAX_PROCESSES: usize = 8;
/// Most threads of a process that are examined.
const MAX_THREADS: usize = 1024;
/// Most threads of a process that are followed.
const MAX_FOLLOWED_PER_PROCESS: usize = 2;
/// Factor from the counter's cell to a fraction.
const CELL_SCALE: f64 = 1e-4;

const COLUMNS: [TableColumn; 2] =
    [level_column(system::BUSIEST_THREAD, CELL_SCALE), level_column(system::REALTIME_PROCESSORS, CELL_SCALE)];

/// A thread that is read at every tick.
#[derive(Debug)]
struct TrackedThread {
    pid: u32,
    tid: u32,
    name: String,
    file: PathBuf,
    start: u64,
    /// Processor time at the last tick, hundredths of a second.
    used_ticks: u64,
    /// Processor time and running time (nanoseconds) when it was first read or last reported.
    since: (u64, u64),
}

/// A process whose threads were read once, at `running_ns`.
#[derive(Debug)]
struct ThreadSurvey {
    pid: u32,
    running_ns: u64,
    /// Its first thread has a real-time priority; then all of its time counts as that of real-time tasks.
    is_realtime: bool,
    threads: HashMap<u32, (u64, u64)>,
}

/// The threads that are followed, and the counter of the busiest.
#[derive(Debug)]
pub(super) struct ThreadTracker {
    followed: Vec<TrackedThread>,
    surveys: Vec<ThreadSurvey>,
    /// Share of the busiest process at the last scan, if below [`MIN_PROCESS_SHARE`]: no thread is busier.
    upper_bound: Option<f64>,
    /// Processors that real-time processes used up to the last scan.
    realtime_processes: Option<f64>,
    /// Processors that the real-time threads of other processes used.
    realtime_threads: f64,
}

fn processor_ticks(stat: &ProcessStat) -> u64 {
    stat.user_ticks + stat.system_ticks
}

fn processor_share(ticks: u64, elapsed_ns: u64) -> f64 {
    if elapsed_ns == 0 { 0.0 } else { (ticks as f64 * TICK_S / (elapsed_ns as f64 * 1e-9)).min(1.0) }
}

fn read_stat(file: &Path) -> Option<ProcessStat> {
    parse::parse_stat(&read_bytes(file).ok()?)
}

/// The `stat` files of a process's threads.
fn thread_stat_files(proc: &Path, pid: u32) -> Vec<(u32, PathBuf)> {
    let tasks = list_folder(&proc.join(pid.to_string()).join("task"));
    let number = |name: std::ffi::OsString| name.to_str().and_then(|n| n.parse().ok());
    tasks.take(MAX_THREADS).filter_map(|e| Some((number(e.file_name())?, e.path().join("stat")))).collect()
}

impl ThreadTracker {
    /// Creates a tracker that follows no thread.
    pub fn new() -> ThreadTracker {
        ThreadTracker {
            followed: Vec::new(),
            surveys: Vec::new(),
            upper_bound: None,
            realtime_processes: None,
            realtime_threads: 0.0,
        }
    }

    /// Creates the table of its cells.
    pub fn new_table() -> CounterTable {
        CounterTable::single_row(&COLUMNS)
    }

    /// Reads the followed threads; called at every tick, before a scan.
    pub fn update_followed(&mut self, table: &mut CounterTable, context: &mut TickContext) {
        let mut busiest: Option<f64> = None;
        self.followed.retain_mut(|thread| {
            let Some(now) = read_stat(&thread.file).filter(|now| now.start_ticks == thread.start) else { return false };
            let ticks = processor_ticks(&now);
            let busy = processor_share(ticks.saturating_sub(thread.used_ticks), context.elapsed_ns);
            thread.used_ticks = ticks;
            busiest = Some(busiest.map_or(busy, |max| max.max(busy)));
            true
        });
        for survey in std::mem::take(&mut self.surveys) {
            let max_share = self.finish_survey(context, &survey);
            busiest = [busiest, max_share].into_iter().flatten().reduce(f64::max);
        }
        // where only a bound is known it is the busiest process's share
        let busiest = busiest.or(self.upper_bound);
        let realtime = self.realtime_processes.map(|processes| processes + self.realtime_threads);
        table.begin_tick();
        for (cell, value) in table.row_mut(0).iter_mut().zip([busiest, realtime]) {
            *cell = value.map_or(ABSENT, |value| (value / CELL_SCALE).round() as u64);
        }
        table.compute_cells(context);
    }

    /// Reads a process's threads a second time and follows the busiest. Returns the share of the busiest.
    fn finish_survey(&mut self, context: &TickContext, survey: &ThreadSurvey) -> Option<f64> {
        let elapsed_ns = context.running_ns.saturating_sub(survey.running_ns);
        let mut threads: Vec<(f64, TrackedThread)> = Vec::new();
        for (tid, file) in thread_stat_files(&context.roots.proc, survey.pid) {
            let Some(now) = read_stat(&file) else { continue };
            let before =
                survey.threads.get(&tid).filter(|(start, _)| *start == now.start_ticks).map(|(_, ticks)| *ticks);
            let ticks = processor_ticks(&now);
            let Some(before) = before else { continue };
            let name = String::from_utf8_lossy(&now.name).into_owned();
            let since = (before, survey.running_ns);
            let share = processor_share(ticks.saturating_sub(before), elapsed_ns);
            if !survey.is_realtime && now.has_realtime_priority() {
                self.realtime_threads += share;
            }
            let thread =
                TrackedThread { pid: survey.pid, tid, name, file, start: now.start_ticks, used_ticks: ticks, since };
            threads.push((share, thread));
        }
        threads.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.tid.cmp(&b.1.tid)));
        let max_share = threads.first().map(|(share, _)| *share);
        let known: Vec<u32> = self.followed.iter().filter(|t| t.pid == survey.pid).map(|t| t.tid).collect();
        let new = threads
            .into_iter()
            .take(MAX_FOLLOWED_PER_PROCESS)
            .filter(|(share, t)| *share >= MIN_THREAD_SHARE && !known.contains(&t.tid));
        self.followed.extend(new.map(|(_, thread)| thread));
        max_share
    }

    /// Chooses the processes whose threads are examined next, and returns the busiest thread of each process since the
    /// last call. `spans` are of processes that may have run; `seen` is true if any process is visible.
    pub fn choose_processes(
        &mut self,
        context: &TickContext,
        spans: &[ProcessInterval],
        elapsed_s: f64,
        seen: bool,
    ) -> HashMap<u32, ThreadRow> {
        let busy = |s: &ProcessInterval| s.used_ticks() as f64 * TICK_S / elapsed_s;
        let mut candidates: Vec<(f64, &ProcessInterval)> = spans.iter().map(|s| (busy(s), s)).collect();
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.pid.cmp(&b.1.pid)));
        let max_share = candidates.first().map_or(0.0, |(share, _)| *share);
        let realtime = candidates.iter().filter(|(_, s)| s.now.has_realtime_priority()).map(|(share, _)| share).sum();
        self.realtime_processes = (elapsed_s > 0.0 && seen).then_some(realtime);
        self.realtime_threads = 0.0;
        candidates.retain(|(share, _)| *share >= MIN_PROCESS_SHARE);
        candidates.truncate(MAX_PROCESSES);
        // if no process is visible nothing is known of threads
        self.upper_bound = (elapsed_s > 0.0 && candidates.is_empty() && seen).then_some(max_share);
        self.followed.retain(|thread| candidates.iter().any(|(_, span)| span.pid == thread.pid));
        let busiest = self.report_busiest(context.running_ns);
        self.surveys = candidates.iter().map(|(_, span)| survey_threads(context, span)).collect();
        busiest
    }

    fn report_busiest(&mut self, running_ns: u64) -> HashMap<u32, ThreadRow> {
        let mut busiest: HashMap<u32, ThreadRow> = HashMap::new();
        for thread in &mut self.followed {
            let busy = processor_share(
                thread.used_ticks.saturating_sub(thread.since.0),
                running_ns.saturating_sub(thread.since.1),
            );
            thread.since = (thread.used_ticks, running_ns);
            let row = ThreadRow { tid: thread.tid, name: thread.name.clone(), processor: (busy * 1e4).round() / 1e4 };
            let best = busiest.entry(thread.pid).or_default();
            if row.processor > best.processor {
                *best = row;
            }
        }
        busiest.retain(|_, row| row.tid != 0);
        busiest
    }
}

fn survey_threads(context: &TickContext, process: &ProcessInterval) -> ThreadSurvey {
    let pid = process.pid;
    let times =
        |(tid, file): (u32, PathBuf)| read_stat(&file).map(|now| (tid, (now.start_ticks, processor_ticks(&now))));
    ThreadSurvey {
        pid,
        running_ns: context.running_ns,
        is_realtime: process.now.has_realtime_priority(),
        threads: thread_stat_files(&context.roots.proc, pid).into_iter().filter_map(times).collect(),
    }
}
