//! Notes in a log beside its numbers: bookmarks, reasons for gaps, the
//! topology, the process table. A note is a time, a kind and a text; the
//! datastore keeps it without interpreting it.

use serde::{Deserialize, Serialize};

/// A text with a time. The kinds in use are the constants below.
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
    /// Reason why something could not be measured for a while; plain text.
    pub const GAP: &'static str = "gap";
    /// Data that this recorder can never see on this host (missing files, no privilege); plain text.
    pub const UNSEEN: &'static str = "unseen";
    /// The clock was stepped or the machine slept; plain text.
    pub const CLOCK: &'static str = "clock";
    /// The recorder exited cleanly at its last tick: no tick is missing until another recorder continues; plain text.
    pub const END: &'static str = "end";
    /// A remark that limits certainty (log on a measured disk); plain text.
    pub const WARNING: &'static str = "warning";
    /// A [`crate::Topology`] as JSON, at the start and after each change.
    pub const TOPOLOGY: &'static str = "topology";
    /// Origin of a foreign log: the id of its format (`perfmon-text`, `pcp`, …). Our own logs have none.
    pub const SOURCE: &'static str = "source";
    /// A file that was imported into the log, and the data that identify it; JSON.
    pub const IMPORT: &'static str = "import";
    /// Settings of the host: files of `/proc` and `/sys` as JSON, at the start and when a setting changed.
    pub const HOST: &'static str = "host";
    /// Highest performance that probes measured on the machine's devices: a list of [`crate::Ceiling`] as JSON.
    pub const CEILINGS: &'static str = "ceilings";
    /// A [`ProcessTable`] as JSON, at the slow interval.
    pub const PROCESSES: &'static str = "processes";
    /// An alert that was raised, lasts or has ended: `diskwright.alert/1` as JSON.
    pub const ALERT: &'static str = "alert";
    /// Start, end and method of tracing of single requests, and what was lost or left out; plain text.
    pub const TRACE: &'static str = "trace";
    /// Requests of each thread to each device, by a trace: a [`RequesterTable`] as JSON, at the slow interval.
    pub const REQUESTERS: &'static str = "askers";

    /// A note of one of the kinds above.
    pub fn new(time_ns: i64, kind: &str, text: impl Into<String>) -> Note {
        Note { time_ns, kind: kind.into(), text: text.into() }
    }
}

/// Requests of each thread to each device over a period, by a trace of single requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequesterTable {
    /// Period that it covers, seconds.
    pub elapsed_s: f64,
    /// By device, operation and thread, most time at the device first.
    pub rows: Vec<RequesterRow>,
}

/// Requests of one thread to one device of one kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequesterRow {
    /// The disk.
    pub device: String,
    /// `read`, `write`, `sync_write`, `flush`, `flush_call` or `discard`; or [`RequesterRow::DIRTIED`], which is not a
    /// request but pages that the thread dirtied.
    pub operation: String,
    /// Id of the thread; 0 stands for several that were not distinguished.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// True for a kernel thread, which acts on behalf of others; `None` where it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<bool>,
    /// Number of requests.
    pub requests: u64,
    /// Their size in total, bytes.
    pub bytes: u64,
    /// Time that they spent at the device in total, seconds.
    pub device_s: f64,
}

impl RequesterRow {
    /// The operation of rows that count dirtied pages.
    pub const DIRTIED: &str = "dirtied";
}

/// Activity of the processes between two scans of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessTable {
    /// Seconds between the two scans.
    pub elapsed_s: f64,
    /// Number of processes that belong to other users, so that their
    /// I/O could not be read.
    pub unreadable: u32,
    /// Those that did anything, busiest first.
    pub rows: Vec<ProcessRow>,
    /// Kernel functions in which threads slept at the time of the scan, most threads first. Empty where not examined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sleepers: Vec<SleepRow>,
}

/// Threads of processes of one name that slept in one kernel function at the time of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SleepRow {
    /// Command name of the processes.
    pub name: String,
    /// The kernel function.
    pub waits_in: String,
    /// Number of threads.
    pub threads: u32,
}

/// The busiest thread of a process between two scans.
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
    /// The disk that holds it, and the disks below that one; empty where the filesystem does not show it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<String>,
    /// Its size; `None` for a block device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Returns the part of a task's name that does not change. The kernel appends to a worker's name (`kworker/1:2H`) the
/// queue it works on (`+kblockd`) or worked on last (`-kblockd`), so one worker has several names within seconds.
#[must_use]
pub fn stable_task_name(name: &str) -> &str {
    match name.strip_prefix("kworker/") {
        Some(own) => &name[..name.len() - own.len() + own.find(['-', '+']).unwrap_or(own.len())],
        None => name,
    }
}

/// One process between two scans. `None` is a value that could not be read.
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
    /// Bytes a second that it requested by read calls, cache hits included.
    #[serde(rename = "asked_read_bytes_per_s")]
    pub requested_read_bytes_per_s: Option<f64>,
    /// Bytes a second that it passed to write calls.
    #[serde(rename = "asked_write_bytes_per_s")]
    pub requested_write_bytes_per_s: Option<f64>,
    /// Read calls a second.
    pub read_calls_per_s: Option<f64>,
    /// Write calls a second.
    pub write_calls_per_s: Option<f64>,
    /// Page faults a second that waited for a disk.
    pub major_faults_per_s: f64,
    /// Share of the span spent waiting for block I/O, swap-ins with it; needs delay accounting.
    pub block_delay: Option<f64>,
    /// Share of the scans that found it in uninterruptible sleep (state D).
    pub blocked_share: f64,
    /// Kernel function it slept in when blocked, where readable.
    pub waits_in: Option<String>,
    /// Resident memory, bytes.
    pub resident_bytes: f64,
    /// Swapped-out memory, bytes, where the status file shows it.
    pub swapped_bytes: Option<f64>,
    /// Its busiest thread; only of processes that used nearly a whole processor or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest_thread: Option<ThreadRow>,
    /// Files and devices that it has open on disks, the most relevant first; only for the heaviest users of disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRow>,
    /// Number of further open files that are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_files: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
