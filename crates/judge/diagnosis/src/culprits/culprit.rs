//! Culprits, requesters and program activities as the verdict shows them: fields of its JSON contract.

use diskwright_base::{FileRow, ProcessPlace, ThreadRow};
use serde::{Deserialize, Serialize};

/// A process or cgroup that causes the bottleneck.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Culprit {
    /// `process` or `cgroup`.
    pub kind: String,
    /// Process id; `null` for a cgroup.
    pub pid: Option<u32>,
    /// Command name, or the cgroup's path.
    pub name: String,
    /// The process's cgroup.
    pub cgroup: String,
    /// Its effective user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Its command line with secrets masked; of several processes, that of the most active one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_line: Option<String>,
    /// Statement that it executes for a client, or executed last, literals masked: of a process of a database server
    /// that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
    /// Where it runs: `unit`, `container`, `pod`, `machine`.
    #[serde(flatten)]
    pub place: ProcessPlace,
    /// Its real-time priority, 1 to 99; left out for an ordinary one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub realtime_priority: Option<u32>,
    /// Its niceness, -20 to 19; left out where it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
    /// Bytes per second that it reads from the blamed disk, as far as the log shows which disk; of a finding that
    /// concerns no disk, from all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_s: Option<f64>,
    /// The same for writes, which are counted when pages become dirty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes_per_s: Option<f64>,
    /// The processes that it represents, the most active first.
    #[serde(skip)]
    pub members: Vec<CulpritProcess>,
    /// Number of processes of this name in this cgroup; `pid` is that of the most active one. 0 for a cgroup.
    pub processes: u32,
    /// Share of the blamed activity of all processes; `null` for a cgroup.
    pub share: Option<f64>,
    /// Its busiest thread; `null` unless it used nearly a whole processor at least once.
    #[serde(default)]
    pub thread: Option<ThreadRow>,
    /// Open files on the blamed disk, or on unknown disks; empty where that was not recorded.
    #[serde(default)]
    pub files: Vec<FileRow>,
    /// Activity in words with numbers.
    #[serde(rename = "what")]
    pub description: String,
}

/// One process of a culprit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CulpritProcess {
    /// Its process id.
    pub pid: u32,
    /// Its share of the blamed activity of all processes.
    pub share: f64,
    /// True where the last process table of the window lists it.
    pub is_in_last_table: bool,
}

/// A program whose memory grows, or memory of the kernel that does: `kind` is `kernel` then.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GrowingProgram {
    /// Who it is; `share` is its part of all growth.
    #[serde(flatten)]
    pub culprit: Culprit,
    /// Memory of its largest grower in the first table that lists it, bytes: resident memory; in logs of Windows what
    /// it holds, private bytes and nonpaged pool.
    pub from_bytes: f64,
    /// The same in the last.
    pub to_bytes: f64,
}

/// One operation on a disk, and the programs that requested it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationRequesters {
    /// The disk.
    pub device: String,
    /// `read`, `write`, `sync_write`, `flush`, `flush_call` or `discard`.
    pub operation: String,
    /// Number of programs that requested it, counted by name.
    pub programs: usize,
    /// Requests of all of them.
    pub requests: u64,
    /// Sum of their times at the device, seconds.
    pub device_s: f64,
    /// The programs, most time at the device first.
    pub askers: Vec<RequestingProgram>,
    /// Programs that dirtied memory meanwhile, where kernel threads wrote for others.
    pub dirtied_by: Vec<RequestingProgram>,
    /// Certainty of the attribution.
    #[serde(rename = "sure")]
    pub certainty: AttributionCertainty,
}

/// Certainty with which requests are attributed to programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttributionCertainty {
    /// The programs sent the requests themselves.
    Sure,
    /// The kernel sent them, and one program dirtied nearly all pages.
    Likely,
    /// The kernel sent them, and several programs dirtied the pages: their shares are an estimate.
    Guess,
    /// The kernel sent them, and no program is known to have dirtied the pages.
    #[serde(other)]
    Unknown,
}

/// A program that sent requests to a disk, or dirtied pages that were written to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestingProgram {
    /// Its name.
    pub name: String,
    /// Its share of the operation's time at the device, or of the bytes dirtied.
    pub share: f64,
    /// Requests; 0 for a program that dirtied pages.
    pub requests: u64,
    /// Bytes that it transferred, or dirtied.
    pub bytes: u64,
    /// True for a kernel thread, which sends requests for others.
    pub kernel: bool,
}

/// Activity and waits of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramActivity {
    /// Command name.
    pub name: String,
    /// Id of the most active process.
    pub pid: u32,
    /// Number of active processes of this name.
    pub processes: u32,
    /// Processors used on average: 1 is one full processor.
    pub processor: f64,
    /// Share of the time in uninterruptible sleep or waiting for block I/O.
    pub blocked: f64,
    /// Kernel functions in which its threads slept when they were sampled, the most telling first.
    pub sleeps: Vec<Sleep>,
    /// The same in words.
    #[serde(rename = "what")]
    pub description: String,
    /// Next step of the investigation.
    #[serde(rename = "next")]
    pub next_step: String,
}

/// Threads of a program that sleep in one kernel function. Idle threads do so too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sleep {
    /// `lock`, `disk`, `network`, `peer` (another process), `timer`, `child`, `events` or `other`.
    pub kind: String,
    /// The kernel function.
    pub waits_in: String,
    /// Number of threads, on average over the samples.
    pub threads: u32,
}
