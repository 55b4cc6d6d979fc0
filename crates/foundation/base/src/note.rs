//! What a log says beside its numbers: bookmarks, reasons for gaps, the
//! topology, the process table. A note is a time, a kind and a text; the
//! datastore keeps it without understanding it.

use serde::{Deserialize, Serialize};

/// A line of text at a moment. The kinds in use are the constants below.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Wall-clock time, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// One of the constants of this type.
    pub kind: String,
    /// Plain text, or JSON where the constant says so.
    pub text: String,
}

impl Note {
    /// Set by a person with `mark`; plain text.
    pub const BOOKMARK: &'static str = "bookmark";
    /// Something could not be measured for a while, and why; plain text.
    pub const GAP: &'static str = "gap";
    /// What this recorder can never see here (missing files, no privilege); plain text.
    pub const UNSEEN: &'static str = "unseen";
    /// The clock was stepped or the machine slept; plain text.
    pub const CLOCK: &'static str = "clock";
    /// The recorder ended in good order at its last tick: none is missing until another one goes on; plain text.
    pub const END: &'static str = "end";
    /// A remark that limits certainty (log on a measured disk); plain text.
    pub const WARNING: &'static str = "warning";
    /// A [`crate::Topology`] as JSON, at the start and after each change.
    pub const TOPOLOGY: &'static str = "topology";
    /// Where a foreign log comes from: the id of its format (`perfmon-text`, `pcp`, …). Our own logs have none.
    pub const SOURCE: &'static str = "source";
    /// A file that was read into the log by an import, and what it is known by; JSON.
    pub const IMPORT: &'static str = "import";
    /// How the host is set: files of `/proc` and `/sys` as JSON, at the start and when a setting changed.
    pub const HOST: &'static str = "host";
    /// What probes measured the machine's devices to do at most: a list of [`crate::Ceiling`] as JSON.
    pub const CEILINGS: &'static str = "ceilings";
    /// A [`ProcessTable`] as JSON, on the slow beat.
    pub const PROCESSES: &'static str = "processes";
    /// An alert that was raised, lasts or has ended: `diskwright.alert/1` as JSON.
    pub const ALERT: &'static str = "alert";
    /// When single requests are traced, how, and what was lost or left out; plain text.
    pub const TRACE: &'static str = "trace";
    /// Who asked devices for what, by a trace: an [`AskerTable`] as JSON, on the slow beat.
    pub const ASKERS: &'static str = "askers";

    /// A note of one of the kinds above.
    pub fn new(time_ns: i64, kind: &str, text: impl Into<String>) -> Note {
        Note { time_ns, kind: kind.into(), text: text.into() }
    }
}

/// Who asked the devices for what over a stretch of time, by a trace of single requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AskerTable {
    /// Seconds that it covers.
    pub elapsed_s: f64,
    /// By device, operation and thread, most time at the device first.
    pub rows: Vec<AskerRow>,
}

/// One thread that asked one device for one kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AskerRow {
    /// The disk.
    pub device: String,
    /// `read`, `write`, `sync_write`, `flush`, `flush_call` or `discard`; or [`AskerRow::DIRTIED`], which is no
    /// request but pages that the thread dirtied.
    pub operation: String,
    /// The thread; 0 is several that were not told apart.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// A thread of the kernel, which asks for others; `None` where it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<bool>,
    /// Requests.
    pub requests: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Seconds that they spent at the device, added up.
    pub device_s: f64,
}

impl AskerRow {
    /// The operation of rows of pages that became dirty.
    pub const DIRTIED: &str = "dirtied";
}

/// What the processes did between two looks at them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessTable {
    /// Seconds between the two looks.
    pub elapsed_s: f64,
    /// Processes that were looked at but belong to other users, so that their
    /// I/O could not be read.
    pub unreadable: u32,
    /// Those that did anything, busiest first.
    pub rows: Vec<ProcessRow>,
    /// Where threads slept at the moment of the look, most threads first. Empty where it was not looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sleepers: Vec<SleepRow>,
}

/// Threads of processes of one name that slept in one function of the kernel at the moment of a look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SleepRow {
    /// Command name of the processes.
    pub name: String,
    /// The kernel's function.
    pub waits_in: String,
    /// How many threads.
    pub threads: u32,
}

/// The busiest thread of a process over one look's span.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadRow {
    /// Thread id.
    pub tid: u32,
    /// Name of the thread, which may differ from its process's.
    pub name: String,
    /// Share of one processor (1.0 is one full processor).
    pub processor: f64,
}

/// A file or block device that a process has open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRow {
    /// Its path as the process opened it; the kernel adds ` (deleted)`.
    pub path: String,
    /// The disk that holds it, and the disks below that one; empty where the filesystem does not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<String>,
    /// Its size; none of a block device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// The part of a task's name that stays. The kernel adds to a worker's own name (`kworker/1:2H`) what it works on
/// (`+kblockd`) or worked on last (`-kblockd`), so one worker has several names within seconds.
#[must_use]
pub fn lasting_name(name: &str) -> &str {
    match name.strip_prefix("kworker/") {
        Some(own) => &name[..name.len() - own.len() + own.find(['-', '+']).unwrap_or(own.len())],
        None => name,
    }
}

/// One process over one look's span. `None` is what could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessRow {
    /// Process id.
    pub pid: u32,
    /// Command name as the kernel has it (16 bytes at most).
    pub name: String,
    /// Path of its cgroup that does I/O accounting, `/` where there is none.
    pub cgroup: String,
    /// Share of one processor, user and system together (1.0 is one full processor).
    pub processor: f64,
    /// The system-mode part of `processor`.
    pub processor_system: f64,
    /// Bytes a second that reached the block layer on its behalf, reads.
    pub read_bytes_per_s: Option<f64>,
    /// The same for writes (counted when pages are dirtied).
    pub write_bytes_per_s: Option<f64>,
    /// Bytes a second it asked for by read calls, cache hits included.
    pub asked_read_bytes_per_s: Option<f64>,
    /// Bytes a second it handed to write calls.
    pub asked_write_bytes_per_s: Option<f64>,
    /// Read calls a second.
    pub read_calls_per_s: Option<f64>,
    /// Write calls a second.
    pub write_calls_per_s: Option<f64>,
    /// Page faults a second that waited for a disk.
    pub major_faults_per_s: f64,
    /// Share of the span spent waiting for block I/O, swap-ins with it; needs delay accounting.
    pub block_delay: Option<f64>,
    /// Share of the looks at which it stood in uninterruptible sleep (state D).
    pub blocked_share: f64,
    /// Kernel function it slept in when blocked, where readable.
    pub waits_in: Option<String>,
    /// Resident memory, bytes.
    pub resident_bytes: f64,
    /// Swapped-out memory, bytes, where the status file says.
    pub swapped_bytes: Option<f64>,
    /// Its busiest thread; only of processes that used nearly a whole processor or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest_thread: Option<ThreadRow>,
    /// What it has open on disks, the most telling first; only of the processes that use disks most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRow>,
    /// Files that it has open besides.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_files: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
