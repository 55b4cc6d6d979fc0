//! `/proc/PID`: who does it. Looked at on the slow beat, and at once when
//! another source saw that somebody waits; the table goes out as a note.
//!
//! What a process asked for (`rchar`) against what reached the disk
//! (`read_bytes`) shows the work of the file cache. Delay accounting is off
//! by default since Linux 5.14; without it the share of time spent waiting is
//! unknown, not zero. A process that starts and ends between two looks is not
//! seen.

pub mod parse;
mod table;

use std::collections::HashMap;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use diskwright_base::{Note, ProcessRow, ProcessTable};

use crate::live::held::read_text;
use crate::live::moment::Moment;
use crate::live::{Options, Roots};

use super::{Source, SourceInfo};

pub use parse::{Io, Stat, cgroup, io, stat, swapped};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "processes",
    files: &["/proc/PID/stat", "/proc/PID/io", "/proc/PID/cgroup", "/proc/PID/status", "/proc/PID/wchan"],
    explain: "Processor time, I/O, faults and waiting of the busiest processes.",
    parse_any: |bytes| {
        _ = black_box((stat(bytes), io(bytes), cgroup(bytes), swapped(bytes)));
    },
    open: |roots, options: &Options| options.processes.then(|| Box::new(Processes::new(roots)) as Box<dyn Source>),
};

/// Looks out of turn are at least so far apart, nanoseconds.
const APART_NS: u64 = 1_000_000_000;
/// So many in a row; each slow beat allows one more. Trouble that lasts for
/// days is not looked at every second.
const AT_ONCE: u32 = 5;
/// And so many times as far apart as a look takes processor time: on a
/// machine with very many processes they are rarer, and take at most a
/// hundredth of one processor, twice that when somebody waits.
const REST: u64 = 100;
/// A process that seems to do nothing shows its I/O at every so manieth look.
const IDLE_LOOKS: u64 = 6;

/// A process as the last look left it.
#[derive(Clone, Debug)]
struct Known {
    stat: Stat,
    io: Option<Io>,
    /// Running time when `io` was read, nanoseconds.
    io_ns: u64,
    /// Its I/O may not be read.
    denied: bool,
    look: u64,
}

struct Processes {
    known: HashMap<u32, Known>,
    looks: u64,
    at_once: u32,
    looked_ns: u64,
    looked_since_boot_ns: u64,
    took_ns: u64,
    delays: bool,
    told_unreadable: bool,
    told_missing: bool,
    text: Vec<u8>,
}

impl Processes {
    fn new(_: &Roots) -> Processes {
        Processes {
            known: HashMap::new(),
            looks: 0,
            at_once: AT_ONCE,
            looked_ns: 0,
            looked_since_boot_ns: 0,
            took_ns: 0,
            delays: false,
            told_unreadable: false,
            told_missing: false,
            text: vec![0; 4096],
        }
    }

    fn is_due(&mut self, at: &Moment) -> bool {
        let since = at.running_ns.saturating_sub(self.looked_ns);
        let rest = self.took_ns.saturating_mul(REST);
        if self.looks == 0 {
            return true;
        }
        if at.slow {
            self.at_once = (self.at_once + 1).min(AT_ONCE);
            return since >= rest;
        }
        let at_once = at.trouble && self.at_once > 0 && since >= APART_NS.max(rest / 2);
        self.at_once -= u32::from(at_once);
        at_once
    }
}

impl Source for Processes {
    fn tick(&mut self, at: &mut Moment) {
        if !self.is_due(at) {
            return;
        }
        let started_ns = processor_ns();
        if self.looks == 0 {
            self.first_words(at);
        }
        self.looks += 1;
        let elapsed_s = at.running_ns.saturating_sub(self.looked_ns) as f64 * 1e-9;
        let (rows, unreadable) = self.look(at, elapsed_s);
        self.tell(at, unreadable);
        if self.looks > 1 && elapsed_s > 0.0 {
            let table = ProcessTable { elapsed_s, unreadable, rows };
            if let Ok(text) = serde_json::to_string(&table) {
                at.notes.push(at.time_ns, Note::PROCESSES, text);
            }
        }
        self.looked_ns = at.running_ns;
        self.looked_since_boot_ns = at.since_boot_ns;
        self.took_ns = processor_ns().saturating_sub(started_ns);
    }
}

impl Processes {
    /// What limits the view from the start.
    fn first_words(&mut self, at: &mut Moment) {
        let setting = at.roots.proc.join("sys/kernel/task_delayacct");
        self.delays = read_text(&setting).is_some_and(|text| text != "0");
        if !self.delays {
            let text = format!(
                "{}: delay accounting is off, so how long a process waited for I/O is not known \
                 (sysctl kernel.task_delayacct=1)",
                setting.display()
            );
            at.notes.push(at.time_ns, Note::UNSEEN, text);
        }
    }

    fn tell(&mut self, at: &mut Moment, unreadable: u32) {
        if unreadable > 0 && !self.told_unreadable {
            self.told_unreadable = true;
            let text = format!(
                "the I/O of {unreadable} processes cannot be read (other users own or guard them); root sees more"
            );
            at.notes.push(at.time_ns, Note::UNSEEN, text);
        }
        if self.known.is_empty() && !self.told_missing {
            self.told_missing = true;
            let text = format!("{}: no process can be seen", at.roots.proc.display());
            at.notes.push(at.time_ns, Note::UNSEEN, text);
        }
    }

    /// Looks at every process; gives the rows worth telling, and how many
    /// processes did not show their I/O.
    fn look(&mut self, at: &Moment, elapsed_s: f64) -> (Vec<ProcessRow>, u32) {
        let mut unreadable = 0;
        let mut spans = Vec::new();
        let Ok(folder) = std::fs::read_dir(&at.roots.proc) else { return (Vec::new(), 0) };
        let mut path = at.roots.proc.clone();
        for entry in folder.flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
            path.push(&name);
            spans.extend(self.look_at(at, pid, &mut path, &mut unreadable));
            path.pop();
        }
        let look = self.looks;
        self.known.retain(|_, known| known.look == look);
        (table::rows(at.roots, spans, elapsed_s, self.delays), unreadable)
    }

    /// Looks at one; gives what it did since the last look, where that is known.
    fn look_at(&mut self, at: &Moment, pid: u32, path: &mut PathBuf, unreadable: &mut u32) -> Option<table::Span> {
        path.push("stat");
        let read = read_small(path, &mut self.text);
        path.pop();
        // it may have ended since the folder was listed
        let now = stat(&self.text[..read.ok()?])?;
        let before = self.known.remove(&pid).filter(|known| known.stat.start == now.start);
        // what seems idle keeps the I/O of an earlier look, and its time
        let rests = before.as_ref().filter(|b| is_idle(&b.stat, &now) && !self.looks.is_multiple_of(IDLE_LOOKS));
        let (io_now, io_ns, denied) = match rests {
            Some(known) => (known.io, known.io_ns, known.denied),
            None => {
                let (io, denied) = self.look_at_io(&now, path);
                (io, at.running_ns, denied)
            }
        };
        *unreadable += u32::from(denied);
        let known = Known { stat: now.clone(), io: io_now, io_ns, denied, look: self.looks };
        self.known.insert(pid, known);
        let before = match before {
            Some(before) => before,
            // began after the last look: all it ever did lies in this span
            None if self.looks > 1 && now.start.saturating_mul(10_000_000) >= self.looked_since_boot_ns => {
                Known { stat: Stat::default(), io: Some(Io::default()), io_ns: self.looked_ns, denied, look: 0 }
            }
            None => return None,
        };
        let io_s = io_ns.saturating_sub(before.io_ns) as f64 * 1e-9;
        Some(table::Span { pid, before: before.stat, io_before: before.io, now, io_now, io_s })
    }

    /// Its I/O, and whether reading it was refused.
    fn look_at_io(&mut self, now: &Stat, path: &mut PathBuf) -> (Option<Io>, bool) {
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

/// Nothing shows that it did anything: no processor time to a hundredth of a
/// second, no fault, no wait, and it sleeps now.
fn is_idle(before: &Stat, now: &Stat) -> bool {
    let did = |s: &Stat| (s.user, s.system, s.major_faults, s.block_delay);
    did(before) == did(now) && matches!(now.state, b'S' | b'I' | b'T' | b'Z')
}

/// Processor time of this thread, nanoseconds.
fn processor_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

/// Reads a file of at most the buffer's length; gives its length.
fn read_small(path: &Path, text: &mut [u8]) -> io::Result<usize> {
    let mut file = File::open(path)?;
    let mut filled = 0;
    while filled < text.len() {
        match file.read(&mut text[filled..])? {
            0 => break,
            n => filled += n,
        }
        // these files come whole, so a short read is the end
        if filled < 1024 {
            break;
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests;
