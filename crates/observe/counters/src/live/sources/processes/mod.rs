//! `/proc/PID`: activity of processes. They are scanned at slow ticks, and at once when
//! another source saw tasks waiting; the table is recorded as a note.
//!
//! Bytes that a process requested (`rchar`) compared with those that reached the disk
//! (`read_bytes`) show the effect of the file cache. Delay accounting is off
//! by default since Linux 5.14; without it the share of time spent waiting is
//! unknown, not zero. Before that there is no setting: a nonzero wait of any process
//! shows that waits are counted. A process that starts and ends between two scans is not
//! seen.

mod files;
pub mod parse;
mod rest;
mod sleepers;
mod table;
mod threads;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use diskwright_base::units::format_count;
use diskwright_base::{Note, ProcessTable};

use crate::live::held::read_text;
use crate::live::moment::TickContext;
use crate::live::totals::CounterTable;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

use rest::RunAccount;
use sleepers::SleepPlace;

pub use parse::{ProcessIo, ProcessStat, cgroup, io, stat, swapped};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "processes",
    files: &[
        "/proc/PID/schedstat",
        "/proc/PID/stat",
        "/proc/PID/io",
        "/proc/PID/cgroup",
        "/proc/PID/status",
        "/proc/PID/wchan",
        "/proc/PID/task/TID/stat",
        "/proc/PID/fd/N",
    ],
    explain: "Processor time, I/O, faults and waiting of the busiest processes, their busiest threads, and what those \
              that use disks most have open.",
    parse_any: |bytes| {
        _ = black_box((stat(bytes), io(bytes), cgroup(bytes), swapped(bytes), rest::account(bytes)));
    },
    open: |roots, options: &SamplerOptions| {
        options.processes.then(|| Box::new(ProcessSource::new(roots)) as Box<dyn CounterSource>)
    },
};

/// Smallest distance of extra scans, nanoseconds.
const APART_NS: u64 = 1_000_000_000;
/// Most extra scans in a row; each slow tick allows one more, so that trouble that lasts for
/// days does not cause a scan every second.
const AT_ONCE: u32 = 5;
/// Smallest distance of scans, as a multiple of the processor time of a scan: on a
/// machine with very many processes scans are rarer, and take at most a
/// hundredth of one processor, twice that when tasks wait.
const REST: u64 = 100;
/// Scans after which the I/O of a process that seems idle is read.
const IDLE_LOOKS: u64 = 6;
/// Smallest distance of scans of sleeping threads after the first ones, nanoseconds: they cost more than the rest of a
/// scan, and the sleepers of a machine change slowly.
const SLEEPERS_NS: u64 = 10_000_000_000;
const FIRST_LOOKS: u64 = 6;

/// State of a process after the last scan.
#[derive(Debug, Default)]
struct ProcessState {
    stat: ProcessStat,
    /// Account of its first thread before `stat` was read.
    runs: Option<RunAccount>,
    /// Account before `io` was read; if it equals that of `stat`, the I/O is that of the last scan.
    io_runs: Option<RunAccount>,
    /// The open file of the account.
    account: Option<File>,
    /// Processor time between the last two scans, hundredths of a second.
    used: u64,
    place: Option<SleepPlace>,
    io: Option<ProcessIo>,
    /// Running time when `io` was read, nanoseconds.
    io_ns: u64,
    /// Reading its I/O is not permitted.
    denied: bool,
    look: u64,
    /// I/O of ended children up to the last scan. The parent's
    /// account includes it once it waits for them, although it was already reported for the children.
    ended: ProcessIo,
}

struct ProcessSource {
    known: HashMap<u32, ProcessState>,
    looks: u64,
    at_once: u32,
    looked_ns: u64,
    looked_since_boot_ns: u64,
    took_ns: u64,
    /// Running time of the last scan of sleeping threads.
    sleepers_ns: u64,
    /// The kernel counts the waits of processes.
    delays: bool,
    /// The kernel has a setting for that.
    has_delay_setting: bool,
    told_unreadable: bool,
    told_missing: bool,
    text: Vec<u8>,
    threads: threads::ThreadTracker,
    /// Number of account files that may stay open, and that do.
    most_open: usize,
    open: usize,
}

impl ProcessSource {
    fn new(_: &Roots) -> ProcessSource {
        ProcessSource {
            known: HashMap::new(),
            looks: 0,
            at_once: AT_ONCE,
            looked_ns: 0,
            looked_since_boot_ns: 0,
            took_ns: 0,
            sleepers_ns: 0,
            delays: false,
            has_delay_setting: false,
            told_unreadable: false,
            told_missing: false,
            text: vec![0; 4096],
            threads: threads::ThreadTracker::new(),
            most_open: rest::most_open(),
            open: 0,
        }
    }

    fn is_due(&mut self, context: &TickContext) -> bool {
        let since = context.running_ns.saturating_sub(self.looked_ns);
        let rest = self.took_ns.saturating_mul(REST);
        match self.looks {
            0 => return true,
            // an early second scan, so that short recordings have a table too
            1 => return since >= rest.max(APART_NS),
            _ => {}
        }
        if context.slow {
            self.at_once = (self.at_once + 1).min(AT_ONCE);
            return since >= rest;
        }
        let at_once = context.trouble && self.at_once > 0 && since >= APART_NS.max(rest / 2);
        self.at_once -= u32::from(at_once);
        at_once
    }
}

impl CounterSource for ProcessSource {
    fn tick(&mut self, context: &mut TickContext) {
        self.threads.tick(context);
        if !self.is_due(context) {
            return;
        }
        let started_ns = processor_ns();
        if self.looks == 0 {
            self.first_words(context);
        }
        self.looks += 1;
        let elapsed_s = context.running_ns.saturating_sub(self.looked_ns) as f64 * 1e-9;
        let (spans, unreadable) = self.look(context);
        self.find_delays(context);
        self.tell(context, unreadable);
        if self.looks > 1 && elapsed_s > 0.0 {
            let mut busiest = self.threads.look(context, &spans, elapsed_s, !self.known.is_empty());
            let mut rows = table::rows(context.roots, &spans, elapsed_s, self.delays);
            rows.iter_mut().for_each(|row| row.busiest_thread = busiest.remove(&row.pid));
            let sleepers = if self.sleepers_due(context) {
                sleepers::rows(&context.roots.proc, &mut self.known, &mut self.text)
            } else {
                Vec::new()
            };
            let table = ProcessTable { elapsed_s, unreadable, rows, sleepers };
            if let Ok(text) = serde_json::to_string(&table) {
                context.notes.push(context.time_ns, Note::PROCESSES, text);
            }
        }
        self.looked_ns = context.running_ns;
        self.looked_since_boot_ns = context.since_boot_ns;
        self.took_ns = processor_ns().saturating_sub(started_ns);
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.threads.tables
    }
}

impl ProcessSource {
    fn sleepers_due(&mut self, context: &TickContext) -> bool {
        let since = context.running_ns.saturating_sub(self.sleepers_ns);
        // slow ticks of ten seconds may come some milliseconds early
        let is_due = self.looks == 2 || context.slow && (self.looks <= FIRST_LOOKS || since >= SLEEPERS_NS / 10 * 9);
        if is_due {
            self.sleepers_ns = context.running_ns;
        }
        is_due
    }

    /// Reads the setting of delay accounting at the start, and notes that it is off.
    fn first_words(&mut self, context: &mut TickContext) {
        let setting = delay_setting(context.roots);
        let text = read_text(&setting);
        self.has_delay_setting = text.is_some();
        self.delays = text.is_some_and(|text| text != "0");
        if self.has_delay_setting && !self.delays {
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
    fn find_delays(&mut self, context: &mut TickContext) {
        if self.delays || self.has_delay_setting {
            return;
        }
        self.delays = self.known.values().any(|known| known.stat.block_delay > 0);
        if !self.delays && self.looks == 1 {
            let text = format!(
                "{}: does not exist here, and no process shows a wait: the time that processes wait for I/O is unknown",
                delay_setting(context.roots).display()
            );
            context.notes.push(context.time_ns, Note::UNSEEN, text);
        }
    }

    fn tell(&mut self, context: &mut TickContext, unreadable: u32) {
        if unreadable > 0 && !self.told_unreadable {
            self.told_unreadable = true;
            let more = if rustix::process::geteuid().is_root() { "" } else { "; root sees more" };
            let processes = format_count(unreadable, "process", "processes");
            let text = format!("the I/O of {processes} cannot be read (owned or guarded by other users){more}");
            context.notes.push(context.time_ns, Note::UNSEEN, text);
        }
        if self.known.is_empty() && !self.told_missing {
            self.told_missing = true;
            let text = format!("{}: no process can be seen", context.roots.proc.display());
            context.notes.push(context.time_ns, Note::UNSEEN, text);
        }
    }

    /// Scans every process; returns the activity of each since the last scan, and the number of
    /// processes that did not show their I/O.
    fn look(&mut self, context: &TickContext) -> (Vec<table::ProcessInterval>, u32) {
        let mut unreadable = 0;
        let mut spans = Vec::new();
        let Ok(folder) = std::fs::read_dir(&context.roots.proc) else { return (Vec::new(), 0) };
        let mut path = context.roots.proc.clone();
        for entry in folder.flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
            path.push(&name);
            let runs = rest::read(self.known.get(&pid).and_then(|k| k.account.as_ref()), &path, &mut self.text);
            if !self.rests(context, pid, runs, &mut unreadable) {
                spans.extend(self.look_at(context, pid, runs, &mut path, &mut unreadable));
            }
            path.pop();
        }
        self.find_new_parents(&mut path);
        self.take_off_ended(context, &mut spans);
        self.known.retain(|_, known| known.look == self.looks);
        self.open = self.known.values().filter(|known| known.account.is_some()).count();
        (spans, unreadable)
    }

    /// Returns true if the process has not run since the last scan: then nothing of it has changed.
    fn rests(&mut self, context: &TickContext, pid: u32, runs: Option<RunAccount>, unreadable: &mut u32) -> bool {
        let Some(known) = self.known.get_mut(&pid) else { return false };
        if runs.is_none() || known.runs != runs || !rest::can_rest(&known.stat) {
            return false;
        }
        let has_io = known.io_runs == runs;
        if !has_io && self.looks.is_multiple_of(IDLE_LOOKS) {
            return false;
        }
        if has_io {
            known.io_ns = context.running_ns;
        }
        known.used = 0;
        known.look = self.looks;
        *unreadable += u32::from(known.denied);
        true
    }

    /// Reads the parents of processes whose parent ended, or is about to: the kernel assigns a new parent without
    /// running the process.
    fn find_new_parents(&mut self, path: &mut PathBuf) {
        let ended = |known: &ProcessState| known.look != self.looks || known.stat.state == b'Z';
        let parents: HashSet<u32> = self.known.iter().filter(|(_, known)| ended(known)).map(|(pid, _)| *pid).collect();
        if parents.is_empty() {
            return;
        }
        for (pid, known) in &mut self.known {
            if known.look != self.looks || !parents.contains(&known.stat.parent) {
                continue;
            }
            path.push(pid.to_string());
            path.push("stat");
            let now = read_small(path, &mut self.text).ok().and_then(|length| stat(&self.text[..length]));
            path.pop();
            path.pop();
            if let Some(now) = now.filter(|now| now.start == known.stat.start) {
                known.stat.parent = now.parent;
            }
        }
    }

    /// Subtracts the I/O of ended processes up to the last scan from their parents: it appears again in
    /// the account of the parent that waited for them, as if it had done all
    /// that at once.
    fn take_off_ended(&mut self, context: &TickContext, spans: &mut [table::ProcessInterval]) {
        let look = self.looks;
        let gone = |known: &ProcessState| known.look != look;
        let mut owed: HashMap<u32, ProcessIo> = HashMap::new();
        for ended in self.known.values().filter(|known| gone(known)) {
            // a parent that ended as well passed it on to its own parent
            let mut parent = ended.stat.parent;
            for _ in 0..64 {
                match self.known.get(&parent).filter(|known| gone(known)) {
                    Some(known) => parent = known.stat.parent,
                    None => break,
                }
            }
            let sum = owed.entry(parent).or_default();
            *sum = sum.plus(&ended.ended).plus(&ended.io.unwrap_or_default());
        }
        for (pid, io) in owed {
            let Some(known) = self.known.get_mut(&pid).filter(|known| !gone(known)) else { continue };
            known.ended = known.ended.plus(&io);
        }
        for span in spans {
            let Some(known) = self.known.get_mut(&span.pid) else { continue };
            if known.ended == ProcessIo::default() || known.io_ns != context.running_ns {
                continue;
            }
            let (Some(before), Some(now)) = (span.io_before, span.io_now) else { continue };
            let with_ended = before.plus(&known.ended);
            if with_ended.fits_into(&now) {
                span.io_before = Some(with_ended);
                known.ended = ProcessIo::default();
            }
        }
    }

    /// Scans one process; returns its activity since the last scan, where that is known.
    fn look_at(
        &mut self,
        context: &TickContext,
        pid: u32,
        runs: Option<RunAccount>,
        path: &mut PathBuf,
        unreadable: &mut u32,
    ) -> Option<table::ProcessInterval> {
        path.push("stat");
        let read = read_small(path, &mut self.text);
        path.pop();
        // it may have ended since the folder was listed
        let now = stat(&self.text[..read.ok()?])?;
        let before = self.known.remove(&pid).filter(|known| known.stat.start == now.start);
        // a process that seems idle keeps the I/O of an earlier scan, and its time
        let rests = before.as_ref().filter(|b| is_idle(&b.stat, &now) && !self.looks.is_multiple_of(IDLE_LOOKS));
        let (io_now, io_ns, denied, io_runs) = match rests {
            Some(known) => (known.io, known.io_ns, known.denied, known.io_runs),
            None => {
                let (io, denied) = self.look_at_io(&now, path);
                (io, context.running_ns, denied, runs)
            }
        };
        *unreadable += u32::from(denied);
        let is_new = before.is_none();
        let before = before.unwrap_or_else(|| ProcessState { io: Some(ProcessIo::default()), ..Default::default() });
        let known = ProcessState {
            stat: now.clone(),
            runs,
            io_runs,
            account: before.account.or_else(|| self.open_account(&now, path)),
            used: (now.user + now.system).saturating_sub(before.stat.user + before.stat.system),
            place: before.place,
            io: io_now,
            io_ns,
            denied,
            look: self.looks,
            // kept for another scan: the parent may not have waited for its child yet
            ended: before.ended,
        };
        self.known.insert(pid, known);
        // a process that started after the last scan did everything in this interval
        let began = self.looks > 1 && now.start.saturating_mul(10_000_000) >= self.looked_since_boot_ns;
        if is_new && !began {
            return None;
        }
        let since_ns = if is_new { self.looked_ns } else { before.io_ns };
        let io_s = io_ns.saturating_sub(since_ns) as f64 * 1e-9;
        Some(table::ProcessInterval { pid, before: before.stat, io_before: before.io, now, io_now, io_s })
    }

    /// Opens the file of its account, if it may stay open.
    fn open_account(&mut self, now: &ProcessStat, path: &mut PathBuf) -> Option<File> {
        if self.open >= self.most_open || !rest::can_rest(now) {
            return None;
        }
        path.push("schedstat");
        let account = File::open(&*path).ok();
        path.pop();
        self.open += usize::from(account.is_some());
        account
    }

    /// Reads its I/O, and returns true with it if reading was refused.
    fn look_at_io(&mut self, now: &ProcessStat, path: &mut PathBuf) -> (Option<ProcessIo>, bool) {
        if now.is_kernel_thread() {
            return (None, false);
        }
        path.push("io");
        let read = read_small(path, &mut self.text);
        path.pop();
        match read {
            Ok(length) => (io(&self.text[..length]), false),
            Err(why) => (None, why.kind() == io::ErrorKind::PermissionDenied),
        }
    }
}

/// Path of the kernel's setting for delay accounting (since Linux 5.14).
fn delay_setting(roots: &Roots) -> PathBuf {
    roots.proc.join("sys/kernel/task_delayacct")
}

/// Returns true if nothing shows activity: no processor time to a hundredth of a
/// second, no fault, no wait, and it sleeps now.
fn is_idle(before: &ProcessStat, now: &ProcessStat) -> bool {
    let did = |s: &ProcessStat| (s.user, s.system, s.major_faults, s.block_delay);
    did(before) == did(now) && matches!(now.state, b'S' | b'I' | b'T' | b'Z')
}

/// Processor time of this thread, nanoseconds.
fn processor_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

/// Reads a file of at most the buffer's length; returns its length.
fn read_small(path: &Path, text: &mut [u8]) -> io::Result<usize> {
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
}

#[cfg(test)]
mod tests;
