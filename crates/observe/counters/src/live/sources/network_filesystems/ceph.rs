//! Clients of Ceph in the kernel: filesystems and block devices (RBD). `/sys/kernel/debug/ceph/FSID.clientN` lists the
//! requests that storage daemons (`osdc`) and metadata servers (`mdsc`) have not answered, and since Linux 5.7 counts
//! those that they have (`metrics`; a folder since 5.16). Root sees it where debugfs is mounted.
//!
//! The kernel shows mean latencies since the mount as whole microseconds, from which no tick's latency follows; they
//! are not read. Requests to a block device are in `/proc/diskstats` as those of any disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use diskwright_base::Note;
use diskwright_base::units::format_count;

use crate::live::mountinfo::Mount;
use crate::live::open_file::{OpenFile, read_text};
use crate::live::text_scan::{WordIter, parse_number, text_lines};
use crate::live::tick_context::TickContext;
use crate::live::watched_read::watch_read;

/// Time without any answer after which a waiting request is noted, nanoseconds.
const MIN_SILENCE_NS: u64 = 10_000_000_000;

/// Requests that wait, of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitingRequests {
    /// Number by server: `osd3`, `mds0`; `osd-1` stands for requests that have no server.
    pub by_server: BTreeMap<String, u64>,
    /// Smallest id; ids rise.
    pub oldest: Option<u64>,
}

impl WaitingRequests {
    /// Number of requests.
    pub fn count(&self) -> u64 {
        self.by_server.values().sum()
    }

    fn add_request(&mut self, id: u64, server: &[u8]) {
        *self.by_server.entry(String::from_utf8_lossy(server).into_owned()).or_default() += 1;
        self.oldest = Some(self.oldest.map_or(id, |oldest| oldest.min(id)));
    }
}

/// Operations that were answered since the mount; `None` if the kernel does not count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CephTotals {
    /// Reads.
    pub reads: Option<u64>,
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Writes.
    pub writes: Option<u64>,
    /// Bytes written.
    pub write_bytes: Option<u64>,
    /// Operations of metadata servers.
    pub metadata: Option<u64>,
}

/// Adds the requests in `osdc`: `12 osd3 2.5e 2.1e [3,1]/3 … read`. Since Linux 4.7 the list has a heading and is
/// followed by watches and pauses, which wait for nothing.
pub fn add_osd_requests(text: &[u8], waiting: &mut WaitingRequests) {
    for line in text_lines(text) {
        if line.starts_with(b"LINGER REQUESTS") || line.starts_with(b"BACKOFFS") {
            break;
        }
        let mut words = WordIter::new(line);
        let (id, server) = (words.next_word().and_then(parse_number), words.next_word());
        if let (Some(id), Some(server)) = (id, server.filter(|server| server.starts_with(b"osd"))) {
            waiting.add_request(id, server);
        }
    }
}

/// Adds the requests in `mdsc`: `7 mds0 getattr #10000000000`. An unsafe request was answered, and only its journal is
/// awaited.
pub fn add_mds_requests(text: &[u8], waiting: &mut WaitingRequests) {
    for line in text_lines(text) {
        let mut words = WordIter::new(line);
        let (id, server) = (words.next_word().and_then(parse_number), words.next_word());
        let (Some(id), Some(server)) = (id, server) else { continue };
        let mut rest = words;
        let is_answered = std::iter::from_fn(|| rest.next_word()).take(2).any(|word| word.starts_with(b"(unsaf"));
        if !is_answered {
            waiting.add_request(id, if server.starts_with(b"mds") { server } else { b"no mds" });
        }
    }
}

/// Parses `metrics`, or `latency` and `size` of the folder of that name: tables with the total in the second column,
/// and in the table of sizes the sum of the bytes in the last one.
pub fn add_totals(text: &[u8], totals: &mut CephTotals) {
    let mut has_sizes = None;
    for line in text_lines(text) {
        let mut words = WordIter::new(line);
        let Some(name) = words.next_word() else {
            has_sizes = None;
            continue;
        };
        if name == b"item" {
            has_sizes = line_has(line, b"total_sz").then_some(true).or(line_has(line, b"avg_lat").then_some(false));
            continue;
        }
        let numbers: Vec<u64> = std::iter::from_fn(|| words.next_word()).filter_map(parse_number).collect();
        let (Some(has_sizes), Some(first), Some(last)) = (has_sizes, numbers.first(), numbers.last()) else { continue };
        match (name, has_sizes) {
            (b"read", false) => totals.reads = Some(*first),
            (b"write", false) => totals.writes = Some(*first),
            (b"metadata", false) => totals.metadata = Some(*first),
            (b"read", true) => totals.read_bytes = Some(*last),
            (b"write", true) => totals.write_bytes = Some(*last),
            _ => {}
        }
    }
}

fn line_has(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len()).any(|window| window == part)
}

/// A client.
struct CephClient {
    /// Name of its folder: `FSID.client4567`.
    name: String,
    /// Its mount point, its block devices, or its name.
    label: String,
    /// It is a filesystem, so it has a row.
    is_filesystem: bool,
    osdc: OpenFile,
    mdsc: Option<OpenFile>,
    metrics: Vec<OpenFile>,
    /// Oldest waiting request, and the time since which it is that one, nanoseconds.
    oldest: Option<(u64, u64)>,
}

/// What is known of a filesystem at a tick.
pub(super) struct CephFigures {
    /// Instance: the mount point.
    pub label: String,
    /// Requests that wait.
    pub waiting: u64,
    /// Operations that were answered.
    pub totals: CephTotals,
}

/// All clients.
#[derive(Default)]
pub(super) struct CephClients {
    list: Vec<CephClient>,
    is_unseen_noted: bool,
}

impl CephClients {
    /// Looks for clients; those that are known keep their state.
    pub(super) fn find_clients(&mut self, mounts: &[Mount], context: &mut TickContext) {
        let folder = context.roots.sys.join("kernel/debug/ceph");
        let mounts: Vec<&Mount> = mounts.iter().filter(|mount| mount.kind == "ceph").collect();
        let names = sorted_names(&folder);
        if names.is_empty() && !mounts.is_empty() && !std::mem::replace(&mut self.is_unseen_noted, true) {
            let text = format!(
                "{}: cannot be read; requests that wait for Ceph are not seen (root, mount -t debugfs none \
                 /sys/kernel/debug)",
                folder.display()
            );
            context.notes.push(context.time_ns, Note::UNSEEN, text);
        }
        let filesystems = names.iter().filter(|name| has_file(&folder.join(name).join("mdsc"))).count();
        let mut before = std::mem::take(&mut self.list);
        for name in names {
            let client = folder.join(&name);
            let is_filesystem = has_file(&client.join("mdsc"));
            let label = if is_filesystem {
                find_mount_point(&name, &mounts, filesystems).unwrap_or_else(|| name.clone())
            } else {
                block_devices_of(&name, &context.roots.sys).unwrap_or_else(|| name.clone())
            };
            match before.iter().position(|known| known.name == name) {
                Some(index) => self.list.push(CephClient { label, ..before.swap_remove(index) }),
                None => self.list.push(CephClient::open(&client, name, label, is_filesystem)),
            }
        }
    }

    /// Reads all clients. Notes requests that have waited for long without any answer.
    pub(super) fn read_clients(&mut self, context: &mut TickContext) -> Vec<CephFigures> {
        let mut figures = Vec::new();
        for client in &mut self.list {
            let Some(waiting) = client.read_waiting(context) else { continue };
            client.note_silence(&waiting, context);
            if client.is_filesystem {
                let totals = client.read_totals(context);
                figures.push(CephFigures { label: client.label.clone(), waiting: waiting.count(), totals });
            }
        }
        figures
    }
}

impl CephClient {
    fn open(folder: &Path, name: String, label: String, is_filesystem: bool) -> CephClient {
        let file = |path: PathBuf| {
            OpenFile::in_pieces(path, "requests that wait for Ceph are not seen").without_notes().allow_empty()
        };
        let metrics = folder.join("metrics");
        let parts = if metrics.is_dir() { vec![metrics.join("latency"), metrics.join("size")] } else { vec![metrics] };
        CephClient {
            name,
            label,
            is_filesystem,
            osdc: file(folder.join("osdc")),
            mdsc: is_filesystem.then(|| file(folder.join("mdsc"))),
            metrics: parts.into_iter().filter(|path| has_file(path)).map(file).collect(),
            oldest: None,
        }
    }

    fn read_waiting(&mut self, context: &mut TickContext) -> Option<WaitingRequests> {
        let mut waiting = WaitingRequests::default();
        add_osd_requests(self.osdc.read(context)?, &mut waiting);
        if let Some(text) = self.mdsc.as_mut().and_then(|file| file.read(context)) {
            add_mds_requests(text, &mut waiting);
        }
        Some(waiting)
    }

    fn read_totals(&mut self, context: &mut TickContext) -> CephTotals {
        let mut totals = CephTotals::default();
        for file in &mut self.metrics {
            if let Some(text) = file.read(context) {
                add_totals(text, &mut totals);
            }
        }
        totals
    }

    /// Notes that the oldest request has been the same one for long, and which servers the requests wait for.
    fn note_silence(&mut self, waiting: &WaitingRequests, context: &mut TickContext) {
        let now = context.running_ns;
        let since = match (waiting.oldest, self.oldest) {
            (Some(id), Some((known, since))) if id == known => since,
            _ => now,
        };
        self.oldest = waiting.oldest.map(|id| (id, since));
        let silent_ns = now.saturating_sub(since);
        if self.oldest.is_none() || silent_ns < MIN_SILENCE_NS {
            return;
        }
        let label = &self.label;
        context.notes.push_limited(context.time_ns, Note::WARNING, &format!("ceph {}", self.name), || {
            let mut servers: Vec<(&String, &u64)> = waiting.by_server.iter().collect();
            servers.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
            let servers: Vec<String> = servers.iter().take(3).map(|(name, count)| format!("{name}: {count}")).collect();
            format!(
                "{label}: {} Ceph, the oldest for {} s or more ({})",
                format_count(waiting.count(), "request waits for", "requests wait for"),
                silent_ns / 1_000_000_000,
                servers.join(", ")
            )
        });
    }
}

/// Finds the mount of a client: the source of newer mounts has the cluster's id (`user@FSID.name=/`); where there is
/// one client and one filesystem, they belong together.
fn find_mount_point(client: &str, mounts: &[&Mount], filesystems: usize) -> Option<String> {
    let cluster = client.split_once(".client").map_or(client, |(cluster, _)| cluster);
    let of_cluster: Vec<&&Mount> = mounts.iter().filter(|m| m.source.contains(&format!("@{cluster}."))).collect();
    match (of_cluster.as_slice(), mounts) {
        ([one], _) => Some(one.point.clone()),
        ([], [one]) if filesystems == 1 => Some(one.point.clone()),
        _ => None,
    }
}

/// Names of the block devices of a client: `rbd0, rbd1`; `None` if there are none.
fn block_devices_of(client: &str, sys: &Path) -> Option<String> {
    let id = client.rsplit_once('.').map_or(client, |(_, id)| id);
    let folder = sys.join("bus/rbd/devices");
    let is_of_client =
        |number: &&String| read_text(&folder.join(number).join("client_id")).is_some_and(|text| text == id);
    let numbers = sorted_names(&folder);
    let names: Vec<String> = numbers.iter().filter(is_of_client).map(|number| format!("rbd{number}")).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn has_file(path: &Path) -> bool {
    watch_read(path, || fs::metadata(path)).is_ok()
}

fn sorted_names(folder: &Path) -> Vec<String> {
    let Ok(entries) = watch_read(folder, || fs::read_dir(folder)) else { return Vec::new() };
    let mut names: Vec<String> = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}
