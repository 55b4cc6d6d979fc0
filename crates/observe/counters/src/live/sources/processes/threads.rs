//! Threads of processes that use nearly a whole processor or more. One thread
//! can use one processor only, so a thread that is always running sets the pace
//! of its program however many processors stand idle, and no counter of the
//! machine shows it: the kernel moves the thread from processor to processor.
//!
//! A look at the processes finds the candidates. Their threads are read once
//! then and once at the next tick; the busiest are read at every tick from then
//! on, until the next look. A machine without such a process pays nothing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use diskwright_base::ThreadRow;

use crate::live::held::read_bytes;
use crate::live::moment::TickContext;
use crate::live::totals::{ABSENT, CounterTable, TableColumn, level};

use super::parse::{self, ProcessStat};
use super::table::{ProcessInterval, TICK_S};

/// Share of a processor from which a process's threads are looked at.
const NEAR: f64 = 0.8;
/// Share of a processor from which a thread is followed.
const FOLLOWED: f64 = 0.3;
/// Processes whose threads are looked at.
const PROCESSES: usize = 8;
/// Threads of a process that are looked at.
const THREADS: usize = 1024;
/// Threads of a process that are followed.
const EACH: usize = 2;
/// Value of the counter's cell times this is a fraction.
const SCALE: f64 = 1e-4;

const COLUMNS: [TableColumn; 1] = [level("system.busiest_thread", SCALE)];

/// A thread that is read at every tick.
#[derive(Debug)]
struct TrackedThread {
    pid: u32,
    tid: u32,
    name: String,
    file: PathBuf,
    start: u64,
    /// Processor time at the last tick, hundredths of a second.
    ticks: u64,
    /// The same, and running time in nanoseconds, when it was first read or last told.
    since: (u64, u64),
}

/// A process whose threads were read once, at `running_ns`.
#[derive(Debug)]
struct ThreadSurvey {
    pid: u32,
    running_ns: u64,
    threads: HashMap<u32, (u64, u64)>,
}

/// The threads that are followed, and the counter that tells of the busiest.
#[derive(Debug)]
pub(super) struct ThreadTracker {
    followed: Vec<TrackedThread>,
    surveys: Vec<ThreadSurvey>,
    /// The busiest process at the last look, where it was below [`NEAR`]: no thread is busier.
    below: Option<f64>,
    pub tables: [CounterTable; 1],
}

fn processor_time(stat: &ProcessStat) -> u64 {
    stat.user + stat.system
}

fn share(ticks: u64, elapsed_ns: u64) -> f64 {
    if elapsed_ns == 0 { 0.0 } else { (ticks as f64 * TICK_S / (elapsed_ns as f64 * 1e-9)).min(1.0) }
}

fn read(file: &Path) -> Option<ProcessStat> {
    parse::stat(&read_bytes(file).ok()?)
}

/// The `stat` files of a process's threads.
fn files(proc: &Path, pid: u32) -> Vec<(u32, PathBuf)> {
    let Ok(tasks) = std::fs::read_dir(proc.join(pid.to_string()).join("task")) else { return Vec::new() };
    let number = |name: std::ffi::OsString| name.to_str().and_then(|n| n.parse().ok());
    tasks.flatten().take(THREADS).filter_map(|e| Some((number(e.file_name())?, e.path().join("stat")))).collect()
}

impl ThreadTracker {
    pub fn new() -> ThreadTracker {
        ThreadTracker {
            followed: Vec::new(),
            surveys: Vec::new(),
            below: None,
            tables: [CounterTable::single(&COLUMNS)],
        }
    }

    /// Reads what is followed; called at every tick, before a look.
    pub fn tick(&mut self, context: &mut TickContext) {
        let mut busiest: Option<f64> = None;
        self.followed.retain_mut(|thread| {
            let Some(now) = read(&thread.file).filter(|now| now.start == thread.start) else { return false };
            let ticks = processor_time(&now);
            let busy = share(ticks.saturating_sub(thread.ticks), context.elapsed_ns);
            thread.ticks = ticks;
            busiest = Some(busiest.map_or(busy, |most| most.max(busy)));
            true
        });
        for survey in std::mem::take(&mut self.surveys) {
            let most = self.finish(context, &survey);
            busiest = [busiest, most].into_iter().flatten().reduce(f64::max);
        }
        // where only a bound is known it is the busiest process's share
        let busiest = busiest.or(self.below);
        let [table] = &mut self.tables;
        table.begin();
        table.fill(0)[0] = busiest.map_or(ABSENT, |share| (share / SCALE).round() as u64);
        table.settle(context);
    }

    /// The second reading of a process's threads: the busiest are followed. Gives the busiest one's share.
    fn finish(&mut self, context: &TickContext, survey: &ThreadSurvey) -> Option<f64> {
        let elapsed_ns = context.running_ns.saturating_sub(survey.running_ns);
        let mut threads: Vec<(f64, TrackedThread)> = Vec::new();
        for (tid, file) in files(&context.roots.proc, survey.pid) {
            let Some(now) = read(&file) else { continue };
            let before = survey.threads.get(&tid).filter(|(start, _)| *start == now.start).map(|(_, ticks)| *ticks);
            let ticks = processor_time(&now);
            let Some(before) = before else { continue };
            let name = String::from_utf8_lossy(&now.name).into_owned();
            let since = (before, survey.running_ns);
            let thread = TrackedThread { pid: survey.pid, tid, name, file, start: now.start, ticks, since };
            threads.push((share(ticks.saturating_sub(before), elapsed_ns), thread));
        }
        threads.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.tid.cmp(&b.1.tid)));
        let most = threads.first().map(|(share, _)| *share);
        let known: Vec<u32> = self.followed.iter().filter(|t| t.pid == survey.pid).map(|t| t.tid).collect();
        let new = threads.into_iter().take(EACH).filter(|(share, t)| *share >= FOLLOWED && !known.contains(&t.tid));
        self.followed.extend(new.map(|(_, thread)| thread));
        most
    }

    /// Chooses anew whose threads are looked at, and gives the busiest thread of each such process since it was
    /// last asked. `spans` are of processes that may have run, `seen` tells whether there are any others.
    pub fn look(
        &mut self,
        context: &TickContext,
        spans: &[ProcessInterval],
        elapsed_s: f64,
        seen: bool,
    ) -> HashMap<u32, ThreadRow> {
        let busy = |s: &ProcessInterval| s.used() as f64 * TICK_S / elapsed_s;
        let mut candidates: Vec<(f64, &ProcessInterval)> = spans.iter().map(|s| (busy(s), s)).collect();
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.pid.cmp(&b.1.pid)));
        let most = candidates.first().map_or(0.0, |(share, _)| *share);
        candidates.retain(|(share, _)| *share >= NEAR);
        candidates.truncate(PROCESSES);
        // where no process is seen nothing is known of threads
        self.below = (elapsed_s > 0.0 && candidates.is_empty() && seen).then_some(most);
        self.followed.retain(|thread| candidates.iter().any(|(_, span)| span.pid == thread.pid));
        let told = self.tell(context.running_ns);
        self.surveys = candidates.iter().map(|(_, span)| survey(context, span.pid)).collect();
        told
    }

    fn tell(&mut self, running_ns: u64) -> HashMap<u32, ThreadRow> {
        let mut told: HashMap<u32, ThreadRow> = HashMap::new();
        for thread in &mut self.followed {
            let busy = share(thread.ticks.saturating_sub(thread.since.0), running_ns.saturating_sub(thread.since.1));
            thread.since = (thread.ticks, running_ns);
            let row = ThreadRow { tid: thread.tid, name: thread.name.clone(), processor: (busy * 1e4).round() / 1e4 };
            let best = told.entry(thread.pid).or_default();
            if row.processor > best.processor {
                *best = row;
            }
        }
        told.retain(|_, row| row.tid != 0);
        told
    }
}

fn survey(context: &TickContext, pid: u32) -> ThreadSurvey {
    let times = |(tid, file): (u32, PathBuf)| read(&file).map(|now| (tid, (now.start, processor_time(&now))));
    ThreadSurvey {
        pid,
        running_ns: context.running_ns,
        threads: files(&context.roots.proc, pid).into_iter().filter_map(times).collect(),
    }
}
