//! `/proc/PID`: activity of processes. They are scanned at slow ticks, and at once when another source saw tasks
//! waiting; the table is recorded as a note.
//!
//! Bytes that a process requested (`rchar`) compared with those that reached the disk (`read_bytes`) show the effect of
//! the file cache. Delay accounting is off by default since Linux 5.14; without it the share of time spent waiting is
//! unknown, not zero. Older kernels have no setting: there a nonzero wait of any process shows that waits are counted.
//! A process that starts and ends between two scans is not seen.

mod blocked_survey;
mod cache_hits;
mod identity;
mod open_files;
pub mod parse;
mod process_rows;
mod run_accounts;
mod sleeping_threads;
mod threads;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use diskwright_base::units::format_count;
use diskwright_base::{Note, ProcessTable};

use crate::live::blocked_process::BlockedProcess;
use crate::live::counter_table::CounterTable;
use crate::live::open_file::read_text;
use crate::live::tick_context::TickContext;
use crate::live::watched_read::{blocked_processes, watch_read};
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

use cache_hits::CacheHits;
use run_accounts::RunAccount;
use sleeping_threads::SleepPlace;

pub(crate) use blocked_survey::survey_blocked_process;
pub use parse::{ProcessIo, ProcessStat, parse_cgroup, parse_io, parse_stat, parse_swapped_bytes};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "processes",
    files: &[
        "/proc/PID/schedstat",
        "/proc/PID/stat",
        "/proc/PID/io",
        "/proc/PID/cgroup",
        "/proc/PID/status",
        "/proc/PID/cmdline",
        "/proc/PID/wchan",
        "/proc/PID/task/TID/stat",
        "/proc/PID/fd/N",
    ],
    explain: "Processor time, I/O, faults and waiting of the busiest processes, their command lines, users and \
              containers, their busiest threads, and what those that use disks most have open.",
    parse_any: |bytes| {
        _ = black_box((
            parse_stat(bytes),
            parse_io(bytes),
            parse_cgroup(bytes),
            parse_swapped_bytes(bytes),
            run_accounts::parse_account(bytes),
            identity::parse_any(bytes),
        ));
    },
    open: |roots, options: &SamplerOptions| {
        options.processes.then(|| Box::new(ProcessSource::new(roots)) as Box<dyn CounterSource>)
    },
};

/// Shortest time between two extra scans, nanoseconds.
const MIN_SCAN_DISTANCE_NS: u64 = 1_000_000_000;
/// Largest number of extra scans in a row. Each slow tick allows one more, so that trouble that lasts for days does not
/// cause a scan every second.
const MAX_EXTRA_SCANS: u32 = 5;
/// Shortest time between two scans, as a multiple of the processor time of a scan: on a machine with very many
/// processes scans are rarer, and take at most a hundredth of one processor, or twice that when tasks wait.
const REST_FACTOR: u64 = 100;
/// Number of scans after which the I/O of a process that seems idle is read again.
const IDLE_SCAN_INTERVAL: u64 = 6;
/// Shortest time between two scans of sleeping threads after the first ones, nanoseconds: such a scan costs more than
/// that of the processes, and the sleepers of a machine change slowly.
const SLEEPERS_INTERVAL_NS: u64 = 10_000_000_000;
/// Number of first scans of processes that also scan sleeping threads, at each slow tick.
const FIRST_SCANS: u64 = 6;

/// State of a process after the last scan.
#[derive(Debug, Default)]
struct ProcessState {
    stat: ProcessStat,
    /// Account of its first thread before `stat` was read.
    run_account: Option<RunAccount>,
    /// Account before `io` was read; if it equals that of `stat`, the I/O is that of the last scan.
    io_run_account: Option<RunAccount>,
    /// The account's file, if it stays open.
    account_file: Option<File>,
    /// Processor time between the last two scans, hundredths of a second.
    used_ticks: u64,
    sleep_place: Option<SleepPlace>,
    io: Option<ProcessIo>,
    /// Running time when `io` was read, nanoseconds.
    io_ns: u64,
    /// The kernel refuses to show the I/O to this user.
    denied: bool,
    last_scan: u64,
    /// I/O of ended children up to the last scan, which was already reported for the children. The parent's account
    /// includes it once the parent has waited for them.
    ended_io: ProcessIo,
}

struct ProcessSource {
    known: HashMap<u32, ProcessState>,
    scan_count: u64,
    extra_scans_left: u32,
    scanned_ns: u64,
    scanned_since_boot_ns: u64,
    scan_cost_ns: u64,
    /// Running time of the last scan of sleeping threads.
    sleepers_ns: u64,
    /// The kernel counts the waits of processes.
    counts_delays: bool,
    /// The kernel has a setting for counting waits.
    has_delay_setting: bool,
    unreadable_noted: bool,
    missing_noted: bool,
    text: Vec<u8>,
    threads: threads::ThreadTracker,
    identities: identity::Identities,
    cache_hits: CacheHits,
    /// Those of the threads and of the cache.
    tables: [CounterTable; 2],
    /// Number of account files that may stay open.
    max_open_accounts: usize,
    /// Number of account files that are open.
    open_accounts: usize,
}

impl ProcessSource {
    fn new(_: &Roots) -> ProcessSource {
        let (cache_hits, cache_table) = CacheHits::new();
        ProcessSource {
            cache_hits,
            tables: [threads::ThreadTracker::new_table(), cache_table],
            known: HashMap::new(),
            scan_count: 0,
            extra_scans_left: MAX_EXTRA_SCANS,
            scanned_ns: 0,
            scanned_since_boot_ns: 0,
            scan_cost_ns: 0,
            sleepers_ns: 0,
            counts_delays: false,
            has_delay_setting: false,
            unreadable_noted: false,
            missing_noted: false,
            text: vec![0; 4096],
            threads: threads::ThreadTracker::new(),
            identities: identity::Identities::default(),
            max_open_accounts: run_accounts::max_open_accounts(),
            open_accounts: 0,
        }
    }

    fn is_scan_due(&mut self, context: &TickContext) -> bool {
        let since_ns = context.running_ns.saturating_sub(self.scanned_ns);
        let min_distance_ns = self.scan_cost_ns.saturating_mul(REST_FACTOR);
        match self.scan_count {
            0 => return true,
            // an early second scan, so that short recordings have a table too
            1 => return since_ns >= min_distance_ns.max(MIN_SCAN_DISTANCE_NS),
            _ => {}
        }
        if context.is_slow_tick {
            self.extra_scans_left = (self.extra_scans_left + 1).min(MAX_EXTRA_SCANS);
            return since_ns >= min_distance_ns;
        }
        let is_extra_scan = context.processes_due
            && self.extra_scans_left > 0
            && since_ns >= MIN_SCAN_DISTANCE_NS.max(min_distance_ns / 2);
        self.extra_scans_left -= u32::from(is_extra_scan);
        is_extra_scan
    }
}

impl CounterSource for ProcessSource {
    fn read_tick(&mut self, context: &mut TickContext) {
        let [thread_table, _] = &mut self.tables;
        self.threads.update_followed(thread_table, context);
        if self.is_scan_due(context) {
            self.scan_and_note(context);
        }
        let [_, cache_table] = &mut self.tables;
        self.cache_hits.compute_cells(cache_table, context);
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

impl ProcessSource {
    /// Scans the processes and adds the table of the busiest to the notes.
    fn scan_and_note(&mut self, context: &mut TickContext) {
        let started_ns = thread_processor_ns();
        if self.scan_count == 0 {
            self.note_delay_setting(context);
        }
        self.scan_count += 1;
        let elapsed_s = context.running_ns.saturating_sub(self.scanned_ns) as f64 * 1e-9;
        let (spans, unreadable) = self.scan_processes(context);
        self.detect_delay_accounting(context);
        self.note_limits(context, unreadable);
        if self.scan_count > 1 && elapsed_s > 0.0 {
            let own = std::process::id();
            let samplers = [own, context.options.sampling_process.unwrap_or(own)];
            self.cache_hits.update_shares(&spans, elapsed_s, &samplers);
            let mut busiest = self.threads.choose_processes(context, &spans, elapsed_s, !self.known.is_empty());
            let (counts, identities) = (self.counts_delays, &mut self.identities);
            let mut rows = process_rows::busiest_rows(context, &spans, elapsed_s, counts, identities);
            rows.iter_mut().for_each(|row| row.busiest_thread = busiest.remove(&row.pid));
            rows.extend(blocked_processes().iter().map(BlockedProcess::to_row));
            let sleepers = if self.is_sleeper_scan_due(context) {
                let sampler = context.options.sampling_process;
                sleeping_threads::sleep_rows(&context.roots.proc, sampler, &mut self.known, &mut self.text)
            } else {
                Vec::new()
            };
            let table = ProcessTable { elapsed_s, unreadable, rows, sleepers };
            context.notes.push_note(Note::processes(context.time_ns, table));
        }
        self.scanned_ns = context.running_ns;
        self.scanned_since_boot_ns = context.since_boot_ns;
        self.scan_cost_ns = thread_processor_ns().saturating_sub(started_ns);
    }

    fn is_sleeper_scan_due(&mut self, context: &TickContext) -> bool {
        let since = context.running_ns.saturating_sub(self.sleepers_ns);
        // slow ticks of ten seconds may come some milliseconds early
        let is_due = self.scan_count == 2
            || context.is_slow_tick && (self.scan_count <= FIRST_SCANS || since >= SLEEPERS_INTERVAL_NS / 10 * 9);
        if is_due {
            self.sleepers_ns = context.running_ns;
        }
        is_due
    }

    /// Reads the setting of delay accounting at the start, and notes that it is off.
    fn note_delay_setting(&mut self, context: &mut TickContext) {
        let setting = delay_setting_path(context.roots);
        let text = read_text(&setting);
        self.has_delay_setting = text.is_some();
        self.counts_delays = text.is_some_and(|text| text != "0");
        if self.has_delay_setting && !self.counts_delays {
            let text = format!(
                "{}: delay accounting is off, so the time that processes wait for I/O is unknown (sysctl \
                 kernel.task_delayacct=1)",
                setting.display()
            );
            context.notes.push(context.time_ns, Note::UNSEEN, text);
        }
    }

    /// Detects delay accounting where the kernel has no setting (before Linux 5.14), or hides it: it is on unless the
    /// kernel was built or started without it, and then the wait of every process is exactly zero.
    fn detect_delay_accounting(&mut self, context: &mut TickContext) {
        if self.counts_delays || self.has_delay_setting {
            return;
        }
        self.counts_delays = self.known.values().any(|known| known.stat.block_delay_ticks > 0);
        if !self.counts_delays && self.scan_count == 1 {
            let text = format!(
                "{}: does not exist here, and no process shows a wait: the time that processes wait for I/O is unknown",
                delay_setting_path(context.roots).display()
            );
            context.notes.push(context.time_ns, Note::UNSEEN, text);
        }
    }

    fn note_limits(&mut self, context: &mut TickContext, unreadable: u32) {
        if unreadable > 0 && !self.unreadable_noted {
            self.unreadable_noted = true;
            let more = if rustix::process::geteuid().is_root() { "" } else { "; root sees more" };
            let processes = format_count(unreadable, "process", "processes");
            let text = format!("the I/O of {processes} cannot be read (owned or guarded by other users){more}");
            context.notes.push(context.time_ns, Note::UNSEEN, text);
        }
        if self.known.is_empty() && !self.missing_noted {
            self.missing_noted = true;
            let text = format!("{}: no process can be seen", context.roots.proc.display());
            context.notes.push(context.time_ns, Note::UNSEEN, text);
        }
    }

    /// Scans every process; returns the activity of each since the last scan, and the number of processes that did not
    /// show their I/O.
    fn scan_processes(&mut self, context: &TickContext) -> (Vec<process_rows::ProcessInterval>, u32) {
        let mut unreadable = 0;
        let mut spans = Vec::new();
        let Ok(folder) = watch_read(&context.roots.proc, || std::fs::read_dir(&context.roots.proc)) else {
            return (Vec::new(), 0);
        };
        let mut path = context.roots.proc.clone();
        for entry in folder.flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
            path.push(&name);
            let run_account = run_accounts::read_account(
                self.known.get(&pid).and_then(|k| k.account_file.as_ref()),
                &path,
                &mut self.text,
            );
            if !self.has_rested(context, pid, run_account, &mut unreadable) {
                spans.extend(self.scan_process(context, pid, run_account, &mut path, &mut unreadable));
            }
            path.pop();
        }
        self.refresh_orphaned_parents(&mut path);
        self.subtract_ended_children(context, &mut spans);
        self.known.retain(|_, known| known.last_scan == self.scan_count);
        self.open_accounts = self.known.values().filter(|known| known.account_file.is_some()).count();
        (spans, unreadable)
    }

    /// Returns true if the process has not run since the last scan: then none of its numbers has changed.
    fn has_rested(
        &mut self,
        context: &TickContext,
        pid: u32,
        run_account: Option<RunAccount>,
        unreadable: &mut u32,
    ) -> bool {
        let Some(known) = self.known.get_mut(&pid) else { return false };
        if run_account.is_none() || known.run_account != run_account || !run_accounts::can_rest(&known.stat) {
            return false;
        }
        let has_io = known.io_run_account == run_account;
        if !has_io && self.scan_count.is_multiple_of(IDLE_SCAN_INTERVAL) {
            return false;
        }
        if has_io {
            known.io_ns = context.running_ns;
        }
        known.used_ticks = 0;
        known.last_scan = self.scan_count;
        *unreadable += u32::from(known.denied);
        true
    }

    /// Reads the parent of each process whose parent has ended or is about to: the kernel assigns a new one without
    /// running the process.
    fn refresh_orphaned_parents(&mut self, path: &mut PathBuf) {
        let has_ended = |known: &ProcessState| known.last_scan != self.scan_count || known.stat.state == b'Z';
        let parents: HashSet<u32> =
            self.known.iter().filter(|(_, known)| has_ended(known)).map(|(pid, _)| *pid).collect();
        if parents.is_empty() {
            return;
        }
        for (pid, known) in &mut self.known {
            if known.last_scan != self.scan_count || !parents.contains(&known.stat.parent) {
                continue;
            }
            path.push(pid.to_string());
            path.push("stat");
            let now = read_small_file(path, &mut self.text).ok().and_then(|length| parse_stat(&self.text[..length]));
            path.pop();
            path.pop();
            if let Some(now) = now.filter(|now| now.start_ticks == known.stat.start_ticks) {
                known.stat.parent = now.parent;
            }
        }
    }

    /// Subtracts the I/O of ended processes up to the last scan from their parents: it appears again in the
    /// account of the parent that waited for them, as if the parent had done it at once.
    fn subtract_ended_children(&mut self, context: &TickContext, spans: &mut [process_rows::ProcessInterval]) {
        let scan = self.scan_count;
        let has_ended = |known: &ProcessState| known.last_scan != scan;
        let mut io_by_parent: HashMap<u32, ProcessIo> = HashMap::new();
        for ended in self.known.values().filter(|known| has_ended(known)) {
            // a parent that has ended as well passed the I/O on to its own parent
            let mut parent = ended.stat.parent;
            for _ in 0..64 {
                match self.known.get(&parent).filter(|known| has_ended(known)) {
                    Some(known) => parent = known.stat.parent,
                    None => break,
                }
            }
            let sum = io_by_parent.entry(parent).or_default();
            *sum = sum.add_io(&ended.ended_io).add_io(&ended.io.unwrap_or_default());
        }
        for (pid, io) in io_by_parent {
            let Some(known) = self.known.get_mut(&pid).filter(|known| !has_ended(known)) else { continue };
            known.ended_io = known.ended_io.add_io(&io);
        }
        for span in spans {
            let Some(known) = self.known.get_mut(&span.pid) else { continue };
            if known.ended_io == ProcessIo::default() || known.io_ns != context.running_ns {
                continue;
            }
            let (Some(before), Some(now)) = (span.io_before, span.io_now) else { continue };
            let with_ended = before.add_io(&known.ended_io);
            if with_ended.is_within(&now) {
                span.io_before = Some(with_ended);
                known.ended_io = ProcessIo::default();
            }
        }
    }

    /// Scans one process; returns its activity since the last scan, where that is known.
    fn scan_process(
        &mut self,
        context: &TickContext,
        pid: u32,
        run_account: Option<RunAccount>,
        path: &mut PathBuf,
        unreadable: &mut u32,
    ) -> Option<process_rows::ProcessInterval> {
        path.push("stat");
        let read = read_small_file(path, &mut self.text);
        path.pop();
        // it may have ended since the folder was listed
        let now = parse_stat(&self.text[..read.ok()?])?;
        let before = self.known.remove(&pid).filter(|known| known.stat.start_ticks == now.start_ticks);
        // a process that seems idle keeps the I/O of an earlier scan, with the time of that reading
        let elapsed_s = context.running_ns.saturating_sub(self.scanned_ns) as f64 * 1e-9;
        let idle_state = before.as_ref().filter(|known| {
            seems_idle(&known.stat, &now)
                && !run_accounts::runs_often(known.run_account, run_account, elapsed_s)
                && !self.scan_count.is_multiple_of(IDLE_SCAN_INTERVAL)
        });
        let (io_now, io_ns, denied, io_run_account) = match idle_state {
            Some(known) => (known.io, known.io_ns, known.denied, known.io_run_account),
            None => {
                let (io, denied) = self.read_io(&now, path);
                (io, context.running_ns, denied, run_account)
            }
        };
        *unreadable += u32::from(denied);
        let is_new = before.is_none();
        let before = before.unwrap_or_else(|| ProcessState { io: Some(ProcessIo::default()), ..Default::default() });
        let known = ProcessState {
            stat: now.clone(),
            run_account,
            io_run_account,
            account_file: before.account_file.or_else(|| self.open_account_file(&now, path)),
            used_ticks: (now.user_ticks + now.system_ticks)
                .saturating_sub(before.stat.user_ticks + before.stat.system_ticks),
            sleep_place: before.sleep_place,
            io: io_now,
            io_ns,
            denied,
            last_scan: self.scan_count,
            // kept for another scan: the parent may not have waited for its child yet
            ended_io: before.ended_io,
        };
        self.known.insert(pid, known);
        // a process that started after the last scan did everything in this interval
        let has_started_since =
            self.scan_count > 1 && now.start_ticks.saturating_mul(10_000_000) >= self.scanned_since_boot_ns;
        if is_new && !has_started_since {
            return None;
        }
        let since_ns = if is_new { self.scanned_ns } else { before.io_ns };
        let io_s = io_ns.saturating_sub(since_ns) as f64 * 1e-9;
        Some(process_rows::ProcessInterval { pid, before: before.stat, io_before: before.io, now, io_now, io_s })
    }

    /// Opens the file of a process's account, if it may stay open.
    fn open_account_file(&mut self, now: &ProcessStat, path: &mut PathBuf) -> Option<File> {
        if self.open_accounts >= self.max_open_accounts || !run_accounts::can_rest(now) {
            return None;
        }
        path.push("schedstat");
        let account = watch_read(path, || File::open(&*path)).ok();
        path.pop();
        self.open_accounts += usize::from(account.is_some());
        account
    }

    /// Reads the I/O of a process; the second value is true if the kernel refuses it to this user.
    fn read_io(&mut self, now: &ProcessStat, path: &mut PathBuf) -> (Option<ProcessIo>, bool) {
        if now.is_kernel_thread() {
            return (None, false);
        }
        path.push("io");
        let read = read_small_file(path, &mut self.text);
        path.pop();
        match read {
            Ok(length) => (parse_io(&self.text[..length]), false),
            Err(error) => (None, error.kind() == io::ErrorKind::PermissionDenied),
        }
    }
}

/// Path of the kernel's setting for delay accounting (since Linux 5.14).
fn delay_setting_path(roots: &Roots) -> PathBuf {
    roots.proc.join("sys/kernel/task_delayacct")
}

/// Returns true if nothing shows activity: no processor time to a hundredth of a second, no fault, no wait, and it
/// sleeps now.
fn seems_idle(before: &ProcessStat, now: &ProcessStat) -> bool {
    let activity = |s: &ProcessStat| (s.user_ticks, s.system_ticks, s.major_faults, s.block_delay_ticks);
    activity(before) == activity(now) && matches!(now.state, b'S' | b'I' | b'T' | b'Z')
}

/// Processor time of this thread, nanoseconds.
fn thread_processor_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

/// Reads a file of at most the buffer's length; returns its length.
fn read_small_file(path: &Path, text: &mut [u8]) -> io::Result<usize> {
    watch_read(path, || {
        let mut file = File::open(path)?;
        let mut filled = 0;
        while filled < text.len() {
            match file.read(&mut text[filled..])? {
                0 => break,
                n => filled += n,
            }
            // one read returns these files completely, so a short read is the end
            if filled < 1024 {
                break;
            }
        }
        Ok(filled)
    })
}

#[cfg(test)]
mod tests;
