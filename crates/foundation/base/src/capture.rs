//! What is saved at the beginning of an alert, because it will be gone when somebody looks: which tasks are blocked and
//! where, which files the culprits have open, single requests, and who holds the memory. It is the content of a note
//! ([`crate::Note::CAPTURE`]) and the JSON contract `diskwright.capture/1`.

use serde::{Deserialize, Serialize};

/// Name of the contract.
pub const CAPTURE_SCHEMA: &str = "diskwright.capture/1";

/// What was saved at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MomentCapture {
    /// `diskwright.capture/1`.
    pub schema: String,
    /// Time at which it began, RFC 3339 in UTC.
    #[serde(rename = "at")]
    pub time: String,
    /// Id of the alert that began.
    pub alert: String,
    /// Its instance; empty for the machine.
    pub instance: String,
    /// Seconds that it took, with the trace of requests.
    pub took_s: f64,
    /// Tasks in uninterruptible sleep.
    pub blocked: BlockedTasks,
    /// Open files of the culprits.
    pub open_files: Vec<OpenFiles>,
    /// Requests that were traced; `None` without a trace, and `missing` says why.
    pub requests: Option<TracedMoment>,
    /// Cgroups with the most memory.
    pub memory_groups: Vec<MemoryHolder>,
    /// Processes with the most memory.
    pub memory_processes: Vec<MemoryHolder>,
    /// What could not be saved, and why.
    pub missing: Vec<MissingPart>,
}

/// Tasks that wait in the kernel and cannot be interrupted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockedTasks {
    /// Their number at the moment.
    pub count: u64,
    /// Tasks of the machine that were looked at.
    pub looked_at: u64,
    /// Functions of the kernel that they wait in, the most frequent first.
    pub waits: Vec<WaitingIn>,
    /// Some of them in detail.
    pub tasks: Vec<BlockedTask>,
}

/// A function of the kernel, and how many tasks wait in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitingIn {
    /// The function; empty where the kernel does not tell.
    pub function: String,
    /// Number of tasks.
    pub tasks: u64,
}

/// A blocked task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockedTask {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Name of the thread.
    pub name: String,
    /// Cgroup of the process; empty where it is not known.
    pub group: String,
    /// Function of the kernel that it waits in; empty where the kernel does not tell.
    pub waits_in: String,
    /// Stack in the kernel, innermost function first; empty where it cannot be read.
    pub stack: Vec<String>,
}

/// Open files of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenFiles {
    /// Process id.
    pub pid: u32,
    /// Name of the process.
    pub name: String,
    /// Number of its open files; at least that where they were too many to count.
    pub count: u64,
    /// Some of them: files and devices first.
    pub files: Vec<OpenFile>,
}

/// An open file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenFile {
    /// Number of the descriptor.
    pub fd: u32,
    /// The file as the kernel names it: a path, `socket:[7]`, `anon_inode:[eventfd]`.
    pub path: String,
    /// Position of the next read or write; `None` where it is not known.
    pub offset_bytes: Option<u64>,
    /// How it was opened: `read`, `write`, `read-write`, then `append`, `direct`, `sync`, `nonblock` where set.
    pub mode: String,
}

/// Requests of a few seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TracedMoment {
    /// Length of the trace, seconds.
    pub seconds: f64,
    /// Requests of each device and operation.
    pub operations: Vec<TracedOperations>,
    /// The longest requests.
    pub longest: Vec<LongRequest>,
    /// Events that were lost.
    pub dropped: u64,
}

/// Requests of one operation on one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TracedOperations {
    /// The device.
    pub device: String,
    /// `read`, `write`, `flush`, …
    pub operation: String,
    /// Number of requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Mean latency, seconds.
    pub mean_s: Option<f64>,
    /// 99th percentile of the latency, seconds; `None` with too few requests.
    pub p99_s: Option<f64>,
    /// Longest latency, seconds.
    pub max_s: Option<f64>,
}

/// A request that took long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LongRequest {
    /// The device.
    pub device: String,
    /// `read`, `write`, `flush`, …
    pub operation: String,
    /// Its latency, or its age where it had not completed, seconds.
    pub latency_s: f64,
    /// True where it had not completed at the end of the trace.
    pub unfinished: bool,
    /// Name of the program that sent it, as far as it is known.
    pub program: String,
}

/// Who holds memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryHolder {
    /// Path of a cgroup, or name of a process.
    pub name: String,
    /// Process id; `None` for a cgroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Resident memory; for a cgroup all that is charged to it, with its part of the page cache.
    pub bytes: u64,
    /// Swapped out.
    pub swapped_bytes: Option<u64>,
    /// Limit of the cgroup; `None` where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
}

/// A part that could not be saved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MissingPart {
    /// The part: `stacks`, `requests`.
    pub what: String,
    /// The reason.
    pub because: String,
}

/// Largest number of functions in a short text.
const MAX_SHORT_FUNCTIONS: usize = 2;

impl MomentCapture {
    /// The capture in JSON of at most this many bytes: stacks go first, then tasks, files and requests.
    #[must_use]
    pub fn to_bounded_json(mut self, max_bytes: usize) -> String {
        loop {
            let text = serde_json::to_string(&self).expect("structs of text and numbers are JSON");
            if text.len() <= max_bytes || !self.drop_some() {
                return text;
            }
        }
    }

    /// Drops half of the largest part; false where nothing is left to drop.
    fn drop_some(&mut self) -> bool {
        let part = "tasks, files and requests".to_owned();
        if !self.missing.iter().any(|missing| missing.what == part) {
            let because = "the capture has reached its size".to_owned();
            self.missing.push(MissingPart { what: part, because });
        }
        let stacked = self.blocked.tasks.iter().rposition(|task| !task.stack.is_empty());
        let halves = |length: usize| length / 2;
        if let Some(last) = stacked.filter(|last| *last > 0) {
            self.blocked.tasks[halves(last + 1)..].iter_mut().for_each(|task| task.stack.clear());
        } else if self.blocked.tasks.len() > 1 {
            self.blocked.tasks.truncate(halves(self.blocked.tasks.len()));
        } else if self.open_files.iter().any(|process| !process.files.is_empty()) {
            self.open_files.iter_mut().for_each(|process| process.files.truncate(halves(process.files.len())));
        } else if let Some(requests) = &mut self.requests
            && (requests.longest.len() + requests.operations.len()) > 0
        {
            requests.longest.truncate(halves(requests.longest.len()));
            requests.operations.truncate(halves(requests.operations.len()));
        } else if self.memory_groups.len() + self.memory_processes.len() > 0 {
            self.memory_groups.truncate(halves(self.memory_groups.len()));
            self.memory_processes.truncate(halves(self.memory_processes.len()));
        } else {
            return false;
        }
        true
    }

    /// It in one line: `7 tasks wait in folio_wait_bit_common, 2 in blk_mq_get_tag`.
    #[must_use]
    pub fn short_text(&self) -> String {
        let waits = &self.blocked.waits;
        let part = |(index, wait): (usize, &WaitingIn)| {
            let function = if wait.function.is_empty() { "an unknown function" } else { &wait.function };
            match (index, wait.tasks) {
                (0, 1) => format!("1 task waits in {function}"),
                (0, tasks) => format!("{tasks} tasks wait in {function}"),
                (_, tasks) => format!("{tasks} in {function}"),
            }
        };
        let mut parts: Vec<String> = waits.iter().take(MAX_SHORT_FUNCTIONS).enumerate().map(part).collect();
        let more: u64 = waits.iter().skip(MAX_SHORT_FUNCTIONS).map(|wait| wait.tasks).sum();
        if more > 0 {
            parts.push(format!("{more} elsewhere"));
        }
        if parts.is_empty() {
            parts.push(match self.blocked.looked_at {
                0 => "blocked tasks were not seen".to_owned(),
                looked_at => format!("none of {looked_at} tasks was blocked"),
            });
        }
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(number: u32) -> BlockedTask {
        let stack = (0..30).map(|depth| format!("function_{depth}+0x12/0x345")).collect();
        BlockedTask { pid: number, tid: number, name: "\u{1b}[31m".into(), stack, ..BlockedTask::default() }
    }

    #[test]
    fn ten_thousand_tasks_fit_into_the_size_and_it_says_that_some_are_left_out() {
        let capture = MomentCapture {
            blocked: BlockedTasks { count: 10_000, tasks: (1..10_000).map(task).collect(), ..BlockedTasks::default() },
            ..MomentCapture::default()
        };
        for max_bytes in [4 << 10, 64 << 10, 256 << 10] {
            let text = capture.clone().to_bounded_json(max_bytes);
            assert!(text.len() <= max_bytes, "{}", text.len());
            let read: MomentCapture = serde_json::from_str(&text).expect("its own JSON");
            assert_eq!((read.blocked.count, read.missing.len()), (10_000, 1));
            assert!(!read.blocked.tasks.is_empty());
        }
        let small = MomentCapture::default().to_bounded_json(256 << 10);
        assert!(!small.contains("has reached its size"));
    }

    #[test]
    fn the_short_text_says_where_most_tasks_wait() {
        let wait = |function: &str, tasks| WaitingIn { function: function.into(), tasks };
        let mut capture = MomentCapture::default();
        assert_eq!(capture.short_text(), "blocked tasks were not seen");
        capture.blocked.looked_at = 312;
        assert_eq!(capture.short_text(), "none of 312 tasks was blocked");
        capture.blocked.waits = vec![wait("io_schedule", 7), wait("", 2), wait("a", 1), wait("b", 1)];
        assert_eq!(capture.short_text(), "7 tasks wait in io_schedule, 2 in an unknown function, 2 elsewhere");
    }
}
