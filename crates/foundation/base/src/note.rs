//! Notes in a log beside its numbers: bookmarks, reasons for gaps, the topology, the process table. A note is a time, a
//! kind and a content. A content that has a type travels as it is, from the sampler or the reader of a log to the
//! judge; its JSON is made only where a log is written or an API prints it. A note that was read from a log is text
//! until somebody asks for its content.

use std::sync::{Arc, OnceLock};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::command_line::{masked_command_text, program_of_command};
use crate::{Ceiling, DatabaseActivity, HostEvent, ProcessPlace, RecordingCost, Topology};

/// A content with a time. The kinds in use are the constants below.
#[derive(Clone, Debug)]
pub struct Note {
    /// Wall-clock time, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// One of the constants of this type.
    pub kind: String,
    content: NoteContent,
    /// JSON of a content that is not text, made at the first call of [`Note::text`].
    json: OnceLock<String>,
}

/// Content of a note.
#[derive(Clone, Debug, PartialEq)]
enum NoteContent {
    /// Plain text, or JSON that was read from a log.
    Text(String),
    Topology(Arc<Topology>),
    Processes(Arc<ProcessTable>),
    Requesters(Arc<RequesterTable>),
    Ceilings(Arc<Vec<Ceiling>>),
    Database(Arc<DatabaseActivity>),
}

impl NoteContent {
    fn to_json(&self) -> String {
        let written = match self {
            NoteContent::Text(text) => return text.clone(),
            NoteContent::Topology(topology) => serde_json::to_string(topology.as_ref()),
            NoteContent::Processes(table) => serde_json::to_string(table.as_ref()),
            NoteContent::Requesters(table) => serde_json::to_string(table.as_ref()),
            NoteContent::Ceilings(list) => serde_json::to_string(list.as_ref()),
            NoteContent::Database(activity) => serde_json::to_string(activity.as_ref()),
        };
        written.expect("structs with keys of text are JSON")
    }
}

impl PartialEq for Note {
    fn eq(&self, other: &Note) -> bool {
        self.time_ns == other.time_ns && self.kind == other.kind && self.has_same_content(other)
    }
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
    /// Part of the warning on a log that has neither times nor an interval, so that its reports were counted, a second
    /// each.
    pub const UNKNOWN_INTERVAL: &'static str = "interval is not known: ";
    /// Part of the warning on disks of which rows could not be read.
    pub const DISK_ROWS_LEFT_OUT: &'static str =
        "rows could not be read, so what these disks did is not known and no disk is ruled out";
    /// Ticks that were due while the machine ran and were missed; plain text that begins with their number.
    pub const MISSED: &'static str = "missed";
    /// What recording cost since the last note of this kind: a [`RecordingCost`] as JSON, once an hour and at the end.
    pub const COST: &'static str = "cost";
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
    /// A [`HostEvent`] as JSON: a program that was killed, a filesystem or device that failed.
    pub const EVENT: &'static str = "event";
    /// A [`ProcessTable`] as JSON, at the slow interval.
    pub const PROCESSES: &'static str = "processes";
    /// An alert that was raised, lasts or has ended: `diskwright.alert/1` as JSON.
    pub const ALERT: &'static str = "alert";
    /// What was saved at the beginning of an alert: a [`crate::capture::MomentCapture`] as JSON.
    pub const CAPTURE: &'static str = "capture";
    /// Start, end and method of tracing of single requests, and what was lost or left out; plain text.
    pub const TRACE: &'static str = "trace";
    /// Requests of each thread to each device, by a trace: a [`RequesterTable`] as JSON, at the slow interval.
    pub const REQUESTERS: &'static str = "askers";
    /// Activity of a database server: a [`DatabaseActivity`] as JSON, at the slow interval.
    pub const DATABASE: &'static str = "database";

    /// A note of one of the kinds above, with plain text or JSON.
    pub fn new(time_ns: i64, kind: &str, text: impl Into<String>) -> Note {
        Note::with_content(time_ns, kind, NoteContent::Text(text.into()))
    }

    /// A note of the machine's topology.
    pub fn topology(time_ns: i64, topology: impl Into<Arc<Topology>>) -> Note {
        Note::with_content(time_ns, Note::TOPOLOGY, NoteContent::Topology(topology.into()))
    }

    /// A note of the activity of processes.
    pub fn processes(time_ns: i64, table: impl Into<Arc<ProcessTable>>) -> Note {
        Note::with_content(time_ns, Note::PROCESSES, NoteContent::Processes(table.into()))
    }

    /// A note of the requests of each thread.
    pub fn requesters(time_ns: i64, table: impl Into<Arc<RequesterTable>>) -> Note {
        Note::with_content(time_ns, Note::REQUESTERS, NoteContent::Requesters(table.into()))
    }

    /// A note of measured ceilings.
    pub fn ceilings(time_ns: i64, ceilings: impl Into<Arc<Vec<Ceiling>>>) -> Note {
        Note::with_content(time_ns, Note::CEILINGS, NoteContent::Ceilings(ceilings.into()))
    }

    /// A note of an event; it has the event's time, or that of the tick at which it was seen.
    pub fn event(time_ns: i64, event: &HostEvent) -> Note {
        Note::new(time_ns, Note::EVENT, serde_json::to_string(event).expect("an event is text and numbers"))
    }

    /// The event of a note of that kind.
    ///
    /// # Errors
    /// Where a text is no event in JSON.
    pub fn read_event(&self) -> serde_json::Result<HostEvent> {
        serde_json::from_str(self.text())
    }

    /// A note of what recording cost.
    pub fn cost(time_ns: i64, cost: &RecordingCost) -> Note {
        Note::new(time_ns, Note::COST, serde_json::to_string(cost).expect("a cost is numbers"))
    }

    /// The cost of a note of that kind.
    ///
    /// # Errors
    /// Where a text is no cost in JSON.
    pub fn read_cost(&self) -> serde_json::Result<RecordingCost> {
        serde_json::from_str(self.text())
    }

    /// A note of the activity of a database server.
    pub fn database(time_ns: i64, activity: impl Into<Arc<DatabaseActivity>>) -> Note {
        Note::with_content(time_ns, Note::DATABASE, NoteContent::Database(activity.into()))
    }

    fn with_content(time_ns: i64, kind: &str, content: NoteContent) -> Note {
        Note { time_ns, kind: kind.into(), content, json: OnceLock::new() }
    }

    /// The same note with its content as a struct, if it is the JSON of a topology or a table of processes.
    pub fn with_typed_content(self) -> Note {
        let typed = match self.kind.as_str() {
            Note::TOPOLOGY => self.read_topology().ok().map(|topology| Note::topology(self.time_ns, topology)),
            Note::PROCESSES => self.read_processes().ok().map(|table| Note::processes(self.time_ns, table)),
            _ => None,
        };
        typed.unwrap_or(self)
    }

    /// Number of missed ticks that it names; 0 for a note of another kind.
    pub fn missed_ticks(&self) -> u64 {
        let number = || self.text().split(' ').next().and_then(|number| number.parse().ok());
        if self.kind == Note::MISSED { number().unwrap_or(0) } else { 0 }
    }

    /// The text, or the content as JSON, which is made at the first call.
    pub fn text(&self) -> &str {
        match &self.content {
            NoteContent::Text(text) => text,
            content => self.json.get_or_init(|| content.to_json()),
        }
    }

    /// See [`Note::text`].
    pub fn into_text(self) -> String {
        match self.content {
            NoteContent::Text(text) => text,
            content => self.json.into_inner().unwrap_or_else(|| content.to_json()),
        }
    }

    /// True where the contents are equal; a typed content does not equal its JSON.
    pub fn has_same_content(&self, other: &Note) -> bool {
        self.content == other.content
    }

    /// Approximate memory of the content, bytes.
    pub fn content_bytes(&self) -> usize {
        let stored_bytes = match &self.content {
            NoteContent::Text(text) => text.len(),
            NoteContent::Topology(topology) => topology.devices.len() * size_of::<crate::Device>(),
            NoteContent::Processes(table) => table.rows.iter().map(ProcessRow::memory_bytes).sum(),
            NoteContent::Requesters(table) => table.rows.len() * size_of::<RequesterRow>(),
            NoteContent::Ceilings(list) => list.len() * size_of::<Ceiling>(),
            NoteContent::Database(activity) => activity.memory_bytes(),
        };
        stored_bytes + self.json.get().map_or(0, String::len)
    }

    /// The topology of a note of that kind.
    ///
    /// # Errors
    /// Where a text is no topology in JSON.
    pub fn read_topology(&self) -> serde_json::Result<Arc<Topology>> {
        if let NoteContent::Topology(topology) = &self.content {
            return Ok(Arc::clone(topology));
        }
        self.parse_text()
    }

    /// The table of a note of processes.
    ///
    /// # Errors
    /// Where a text is no such table in JSON.
    pub fn read_processes(&self) -> serde_json::Result<Arc<ProcessTable>> {
        if let NoteContent::Processes(table) = &self.content {
            return Ok(Arc::clone(table));
        }
        self.parse_text()
    }

    /// The table of a note of requesters.
    ///
    /// # Errors
    /// Where a text is no such table in JSON.
    pub fn read_requesters(&self) -> serde_json::Result<Arc<RequesterTable>> {
        if let NoteContent::Requesters(table) = &self.content {
            return Ok(Arc::clone(table));
        }
        self.parse_text()
    }

    /// The list of a note of ceilings.
    ///
    /// # Errors
    /// Where a text is no such list in JSON.
    pub fn read_ceilings(&self) -> serde_json::Result<Arc<Vec<Ceiling>>> {
        if let NoteContent::Ceilings(list) = &self.content {
            return Ok(Arc::clone(list));
        }
        self.parse_text()
    }

    /// The activity of a note of a database server.
    ///
    /// # Errors
    /// Where a text is no such activity in JSON.
    pub fn read_database(&self) -> serde_json::Result<Arc<DatabaseActivity>> {
        if let NoteContent::Database(activity) = &self.content {
            return Ok(Arc::clone(activity));
        }
        self.parse_text()
    }

    fn parse_text<T: DeserializeOwned>(&self) -> serde_json::Result<Arc<T>> {
        serde_json::from_str(self.text()).map(Arc::new)
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
    /// Number of processes whose I/O could not be read, because they
    /// belong to other users.
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
    const WORKER_PREFIX: &str = "kworker/";
    let queue_start = name.strip_prefix(WORKER_PREFIX).and_then(|worker| worker.find(['-', '+']));
    queue_start.map_or(name, |start| &name[..WORKER_PREFIX.len() + start])
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
    /// Name of its effective user; the number where it has no name here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Its command line, secrets masked; `None` for a kernel thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_line: Option<String>,
    /// Its unit, container, pod or machine, where the cgroup tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Box<ProcessPlace>>,
    /// Seconds since it started, where that was between the two scans; `None` for an older one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_s: Option<f64>,
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
    /// Share of the time between the scans spent waiting for block I/O, swap-ins included; needs delay accounting.
    pub block_delay: Option<f64>,
    /// Share of the scans that found it in uninterruptible sleep (state D).
    pub blocked_share: f64,
    /// Kernel function it slept in when blocked, where readable.
    pub waits_in: Option<String>,
    /// Resident memory, bytes.
    pub resident_bytes: f64,
    /// Swapped-out memory, bytes, where the status file shows it.
    pub swapped_bytes: Option<f64>,
    /// Memory that it holds, resident or not, bytes: in logs of Windows its private bytes (else its part of the paging
    /// file, else its working set) with its nonpaged pool; `None` where the resident memory tells most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_bytes: Option<f64>,
    /// Real-time priority of its first thread (1 to 99), which runs before all ordinary ones; `None` for those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub realtime_priority: Option<u32>,
    /// Its niceness, -20 to 19; `None` where it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
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

impl ProcessRow {
    /// Sets name and command line by a command as another tool printed it, which may have only the name.
    #[must_use]
    pub fn with_command(self, command: &str) -> ProcessRow {
        let name = program_of_command(command);
        let command_line = (name != command).then(|| masked_command_text(command));
        ProcessRow { name: name.to_owned(), command_line, ..self }
    }

    /// Memory that the row takes with its long texts, bytes.
    fn memory_bytes(&self) -> usize {
        let files: usize = self.files.iter().map(|file| size_of::<FileRow>() + file.path.len()).sum();
        let command_line = self.command_line.as_ref().map_or(0, String::len);
        let user = self.user.as_ref().map_or(0, String::len);
        let place = self.place.as_ref().map_or(0, |_| size_of::<ProcessPlace>());
        size_of::<ProcessRow>() + self.name.len() + self.cgroup.len() + command_line + user + place + files
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_and_its_json_read_alike() {
        let row = ProcessRow { pid: 7, name: "kworker/0:1".into(), ..ProcessRow::default() };
        let table = ProcessTable { elapsed_s: 10.0, unreadable: 2, rows: vec![row], sleepers: Vec::new() };
        let typed = Note::processes(5, table.clone());
        let stored = Note::new(5, Note::PROCESSES, typed.text());
        assert_eq!(typed.text(), serde_json::to_string(&table).expect("JSON"));
        for note in [&typed, &stored] {
            assert_eq!((note.kind.as_str(), note.time_ns), (Note::PROCESSES, 5));
            assert_eq!(*note.read_processes().expect("a table"), table);
        }
        assert!(typed.has_same_content(&Note::processes(6, table)) && !typed.has_same_content(&stored));
        assert_eq!(typed.clone().into_text(), stored.into_text());
    }

    #[test]
    fn what_cannot_be_read_stays_a_text_of_its_kind() {
        let note = Note::new(1, Note::CEILINGS, "{ no list");
        assert!(note.read_ceilings().is_err() && note.read_topology().is_err());
        assert_eq!((note.kind.as_str(), note.text(), note.content_bytes()), (Note::CEILINGS, "{ no list", 9));
    }
}
