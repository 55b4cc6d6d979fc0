//! Filesystems that another machine or a user process serves: NFS from `/proc/self/mountstats`, SMB from
//! `/proc/fs/cifs/Stats`, FUSE from `/sys/fs/fuse/connections`, Ceph from debugfs. All are sums that this machine's
//! kernel keeps.
//! Such a mount itself is never accessed: a server that does not answer would block the caller.

pub mod ceph;
pub mod mountstats;
pub mod smb;
pub mod tcp_connections;
mod unanswered_requests;

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;

use diskwright_base::Note;
use diskwright_base::counter_ids::network_filesystem;

use crate::live::counter_table::{
    ABSENT, CounterReset, CounterTable, TableColumn, column_index, level_column, sum32_column, total_column,
    total32_column,
};
use crate::live::mountinfo::{self, Mount, PolledMounts, unescape_path};
use crate::live::open_file::OpenFile;
use crate::live::tick_context::TickContext;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};
use ceph::{CephClients, CephFigures};
use mountstats::{MountStats, NfsClass, OperationSums};
use smb::ShareStats;
use tcp_connections::{ServerRoute, SocketDiagnosis};
use unanswered_requests::UnansweredRequests;

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "network_filesystems",
    files: &[
        "/proc/self/mountstats",
        "/proc/self/mountinfo",
        "/proc/fs/cifs/Stats",
        "/sys/fs/fuse/connections/N/waiting",
        "/sys/kernel/debug/ceph/CLIENT/osdc, mdsc, metrics",
    ],
    explain: "NFS by mount and class of operation (operations, bytes, round trips, execution, queueing, \
              retransmissions, backlog), SMB operations and bytes, requests that wait for FUSE; Ceph's operations, \
              bytes and waiting requests.",
    parse_any: |bytes| {
        mountstats::parse_mounts(bytes, |mount| _ = black_box(mount));
        smb::parse_shares(bytes, |share| _ = black_box(share));
        let (mut waiting, mut totals) = (ceph::WaitingRequests::default(), ceph::CephTotals::default());
        ceph::add_osd_requests(bytes, &mut waiting);
        ceph::add_mds_requests(bytes, &mut waiting);
        ceph::add_totals(bytes, &mut totals);
        _ = black_box((waiting.count(), totals));
        _ = black_box((tcp_connections::decode_message(bytes), tcp_connections::server_address(bytes)));
    },
    open: |roots, _: &SamplerOptions| Some(Box::new(NetworkFilesystems::new(roots))),
};

/// Number of columns of a class of operations; classes are in the order of [`NfsClass`]. NFS counts operations in
/// numbers of the machine's word size, SMB in 32 bits for each session.
const CLASS_WIDTH: usize = 6;
const COLUMNS: [TableColumn; 4 * CLASS_WIDTH + 15] = [
    sum32_column(network_filesystem::READS),
    total_column(network_filesystem::READ_BYTES, 1.0),
    total_column(network_filesystem::READ_ROUND_TRIP_S, 1e-3),
    total_column(network_filesystem::READ_EXECUTION_S, 1e-3),
    total_column(network_filesystem::READ_QUEUE_S, 1e-3),
    total_column(network_filesystem::READ_RETRANSMISSIONS, 1.0),
    sum32_column(network_filesystem::WRITES),
    total_column(network_filesystem::WRITE_BYTES, 1.0),
    total_column(network_filesystem::WRITE_ROUND_TRIP_S, 1e-3),
    total_column(network_filesystem::WRITE_EXECUTION_S, 1e-3),
    total_column(network_filesystem::WRITE_QUEUE_S, 1e-3),
    total_column(network_filesystem::WRITE_RETRANSMISSIONS, 1.0),
    sum32_column(network_filesystem::COMMITS),
    total_column(network_filesystem::COMMIT_BYTES, 1.0),
    total_column(network_filesystem::COMMIT_ROUND_TRIP_S, 1e-3),
    total_column(network_filesystem::COMMIT_EXECUTION_S, 1e-3),
    total_column(network_filesystem::COMMIT_QUEUE_S, 1e-3),
    total_column(network_filesystem::COMMIT_RETRANSMISSIONS, 1.0),
    sum32_column(network_filesystem::METADATA_OPERATIONS),
    total_column(network_filesystem::METADATA_BYTES, 1.0),
    total_column(network_filesystem::METADATA_ROUND_TRIP_S, 1e-3),
    total_column(network_filesystem::METADATA_EXECUTION_S, 1e-3),
    total_column(network_filesystem::METADATA_QUEUE_S, 1e-3),
    total_column(network_filesystem::METADATA_RETRANSMISSIONS, 1.0),
    total_column(network_filesystem::MAJOR_TIMEOUTS, 1.0),
    total_column(network_filesystem::ERRORS, 1.0),
    total_column(network_filesystem::SERVER_DELAYS, 1.0),
    total_column(network_filesystem::APPLICATION_READ_BYTES, 1.0),
    total_column(network_filesystem::APPLICATION_WRITE_BYTES, 1.0),
    total_column(network_filesystem::SENDS, 1.0),
    total_column(network_filesystem::REPLIES, 1.0),
    total_column(network_filesystem::BAD_REPLIES, 1.0),
    total_column(network_filesystem::CONNECTS, 1.0),
    total_column(network_filesystem::BACKLOG, 1.0),
    level_column(network_filesystem::SLOTS_USED, 1.0),
    level_column(network_filesystem::UNANSWERED, 1.0),
    level_column(network_filesystem::NETWORK_ROUND_TRIP_S, 1e-6),
    total32_column(network_filesystem::NETWORK_RETRANSMISSIONS, 1.0),
    level_column(network_filesystem::WAITING, 1.0),
];

/// Returns the first column of a class of operations, which counts them.
const fn class_column(class: NfsClass) -> usize {
    class as usize * CLASS_WIDTH
}

/// Position of the bytes among the columns of a class.
const BYTES_IN_CLASS: usize = 1;

const _: () = assert!(
    class_column(NfsClass::Read) == column_index(&COLUMNS, "network_filesystem.reads")
        && class_column(NfsClass::Write) == column_index(&COLUMNS, "network_filesystem.writes")
        && class_column(NfsClass::Commit) == column_index(&COLUMNS, "network_filesystem.commits")
        && class_column(NfsClass::Metadata) == column_index(&COLUMNS, "network_filesystem.metadata_operations")
        && BYTES_IN_CLASS == column_index(&COLUMNS, "network_filesystem.read_bytes"),
    "classes are in the order of NfsClass"
);

const MAJOR_TIMEOUTS_COLUMN: usize = column_index(&COLUMNS, "network_filesystem.major_timeouts");
const ERRORS_COLUMN: usize = column_index(&COLUMNS, "network_filesystem.errors");
const DELAYS_COLUMN: usize = column_index(&COLUMNS, "network_filesystem.server_delays");
const APPLICATION_READ_COLUMN: usize = column_index(&COLUMNS, "network_filesystem.application_read_bytes");
const APPLICATION_WRITE_COLUMN: usize = column_index(&COLUMNS, "network_filesystem.application_write_bytes");
const SENDS_COLUMN: usize = column_index(&COLUMNS, "network_filesystem.sends");
const REPLIES_COLUMN: usize = column_index(&COLUMNS, "network_filesystem.replies");
const BAD_REPLIES_COLUMN: usize = column_index(&COLUMNS, "network_filesystem.bad_replies");
const CONNECTS_COLUMN: usize = column_index(&COLUMNS, "network_filesystem.connects");
const BACKLOG_COLUMN: usize = column_index(&COLUMNS, "network_filesystem.backlog");
const SLOTS_USED_COLUMN: usize = column_index(&COLUMNS, "network_filesystem.slots_used");
const UNANSWERED_COLUMN: usize = column_index(&COLUMNS, "network_filesystem.unanswered");
const ROUND_TRIP_COLUMN: usize = column_index(&COLUMNS, "network_filesystem.network_round_trip_s");
const RETRANSMISSIONS_COLUMN: usize = column_index(&COLUMNS, "network_filesystem.network_retransmissions");
const WAITING_COLUMN: usize = column_index(&COLUMNS, "network_filesystem.waiting");

/// Number of retransmitted requests. The kernel counts operations and transmissions; an operation that was given up
/// before it was sent makes the difference smaller, which must not count as a reset.
#[derive(Clone, Copy, Debug, Default)]
struct RetransmissionSum {
    operations: u64,
    transmissions: u64,
    sum: u64,
}

impl RetransmissionSum {
    /// Adds the increase since the last call and returns the sum.
    fn add_since_last(&mut self, sums: &OperationSums) -> u64 {
        let sent = sums.transmissions.saturating_sub(self.transmissions);
        self.sum = self.sum.saturating_add(sent.saturating_sub(sums.operations.saturating_sub(self.operations)));
        (self.operations, self.transmissions) = (sums.operations, sums.transmissions);
        self.sum
    }
}

/// An NFS mount, with the names in mountstats.
struct MountSlot {
    device: Box<[u8]>,
    point: Box<[u8]>,
    /// `None` for a mount that shares the sums of another one.
    row: Option<usize>,
    age_s: Option<u64>,
    unanswered: UnansweredRequests,
    retransmissions: [RetransmissionSum; 4],
    /// The server, and this machine's address towards it, from the last slow tick.
    route: Option<ServerRoute>,
}

struct NetworkFilesystems {
    mountstats: OpenFile,
    mountinfo: PolledMounts,
    smb_file: OpenFile,
    /// Mounts at the last reading.
    mounts: Vec<Mount>,
    mounts_text: Vec<u8>,
    text: Vec<u8>,
    slots: Vec<MountSlot>,
    /// The mounts have changed since the slots were built.
    mounts_changed: bool,
    /// Rows of SMB shares, in the order of the file.
    shares: Vec<(Box<[u8]>, usize)>,
    fuse: Vec<(usize, OpenFile)>,
    ceph: CephClients,
    diagnosis: Option<SocketDiagnosis>,
    fuse_noted: bool,
    tables: [CounterTable; 1],
}

impl NetworkFilesystems {
    fn new(roots: &Roots) -> NetworkFilesystems {
        let in_proc = |file: &str| roots.proc.join(file);
        NetworkFilesystems {
            mountstats: OpenFile::in_pieces(in_proc("self/mountstats"), "NFS mounts are not seen"),
            mountinfo: PolledMounts::new(
                OpenFile::in_pieces(in_proc("self/mountinfo"), "network mounts are not seen").without_notes(),
            ),
            smb_file: OpenFile::in_pieces(in_proc("fs/cifs/Stats"), "SMB mounts are not seen").without_notes(),
            mounts: Vec::new(),
            mounts_text: Vec::new(),
            text: Vec::new(),
            slots: Vec::new(),
            mounts_changed: false,
            shares: Vec::new(),
            fuse: Vec::new(),
            ceph: CephClients::default(),
            // the sockets of this kernel do not belong to the files of a fake machine
            diagnosis: (roots.proc == Path::new("/proc")).then(SocketDiagnosis::open).flatten(),
            fuse_noted: false,
            tables: [CounterTable::new("network filesystem", &COLUMNS, CounterReset::WholeRow)],
        }
    }

    /// At a slow tick, adds new mounts and drops those that are gone.
    fn refresh_mounts(&mut self, context: &mut TickContext) {
        let Ok(Some(text)) = self.mountinfo.read_if_changed(context) else { return };
        if text == self.mounts_text {
            return;
        }
        self.mounts_text = text.to_vec();
        self.mounts = mountinfo::parse_mounts(text).into_iter().filter(Mount::is_remote).collect();
        self.mounts_changed = true;
        self.shares.clear();
        self.fuse.clear();
        let [table] = &mut self.tables;
        let mounts = &self.mounts;
        table.retain_rows(|name, _| mounts.iter().any(|mount| mount.point == name));
        self.find_fuse_connections(context);
        self.ceph.find_clients(&self.mounts, context);
    }

    fn find_fuse_connections(&mut self, context: &mut TickContext) {
        let folder = context.roots.sys.join("fs/fuse/connections");
        let mounts = self.mounts.iter().filter(|mount| mount.is_fuse() && mount.device.0 == 0);
        let mut rows: HashMap<u64, usize> = HashMap::new();
        for mount in mounts {
            if rows.contains_key(&mount.device.1) {
                continue;
            }
            let file = folder.join(mount.device.1.to_string()).join("waiting");
            if !file.exists() {
                if !std::mem::replace(&mut self.fuse_noted, true) {
                    let text = format!(
                        "{}: does not exist here; requests that wait for FUSE are not seen (mount -t fusectl)",
                        folder.display()
                    );
                    context.notes.push(context.time_ns, Note::UNSEEN, text);
                }
                continue;
            }
            let row = self.tables[0].row_or_insert(&mount.point);
            rows.insert(mount.device.1, row);
            self.fuse.push((row, OpenFile::in_one_read(file, "requests that wait for this mount are not seen")));
        }
    }

    /// Rebuilds the slots from the mounts in the file; known mounts keep their state.
    fn rebuild_slots(&mut self, text: &[u8], context: &mut TickContext) {
        let nfs_mounts: Vec<&Mount> =
            self.mounts.iter().filter(|m| matches!(m.kind.as_str(), "nfs" | "nfs4")).collect();
        let before = std::mem::take(&mut self.slots);
        let (slots, table) = (&mut self.slots, &mut self.tables[0]);
        let mut by_device: HashMap<(u64, u64), String> = HashMap::new();
        mountstats::parse_mounts(text, |mount| {
            let (point, export) = (unescape_path(mount.mount_point), unescape_path(mount.device));
            // both files list the mounts in the same order
            let is_same = |m: &&&Mount| m.point == point && m.source == export;
            let device = nfs_mounts
                .get(slots.len())
                .filter(is_same)
                .or_else(|| nfs_mounts.iter().find(is_same))
                .map(|m| m.device);
            let first_point = device.and_then(|device| by_device.get(&device));
            if let Some(first_point) = first_point {
                // the kernel keeps one sum per export, wherever it is mounted
                let text = format!(
                    "{export} is mounted at {first_point} and at {point} with the same statistics; both count as \
                     {first_point}"
                );
                context.notes.push_limited(context.time_ns, Note::UNSEEN, &text, || text.clone());
            }
            let row = if first_point.is_some() { None } else { Some(table.row_or_insert(&point)) };
            device.map(|device| by_device.entry(device).or_insert(point));
            let known = before.iter().find(|slot| *slot.point == *mount.mount_point && *slot.device == *mount.device);
            slots.push(MountSlot {
                device: mount.device.into(),
                point: mount.mount_point.into(),
                row,
                age_s: known.and_then(|slot| slot.age_s),
                unanswered: known.map_or_else(UnansweredRequests::default, |slot| slot.unanswered),
                retransmissions: known.map_or_else(Default::default, |slot| slot.retransmissions),
                route: known.and_then(|slot| slot.route),
            });
        });
    }

    fn read_nfs(&mut self, context: &mut TickContext) {
        // without NFS mounts the file is not read; where mounts are hidden, only at slow ticks
        let has_none = !self.mounts_text.is_empty() && !self.mounts.iter().any(|mount| mount.kind.starts_with("nfs"));
        if self.slots.is_empty() && (!context.is_slow_tick || has_none) {
            return;
        }
        let mut text = std::mem::take(&mut self.text);
        if let Some(length) = self.mountstats.read_into(context, &mut text) {
            self.fill_nfs_rows(&text[..length], context);
        }
        self.text = text;
    }

    fn fill_nfs_rows(&mut self, text: &[u8], context: &mut TickContext) {
        let (mut count, mut is_unchanged) = (0, !std::mem::take(&mut self.mounts_changed));
        mountstats::parse_mounts(text, |mount| {
            let is_same_mount = |slot: &MountSlot| *slot.point == *mount.mount_point && *slot.device == *mount.device;
            is_unchanged &= self.slots.get(count).is_some_and(is_same_mount);
            count += 1;
        });
        if !is_unchanged || count != self.slots.len() {
            self.rebuild_slots(text, context);
        }
        assert_eq!(self.slots.len(), count, "each mount in the file has its slot, in the same order");
        let (table, diagnosis, mounts) = (&mut self.tables[0], &self.diagnosis, &self.mounts);
        let mut slots = self.slots.iter_mut();
        mountstats::parse_mounts(text, |mount| {
            let Some(slot) = slots.next() else { return };
            let Some(row) = slot.row else { return };
            // mounted again: the sums restarted at zero
            if mount.age_s < slot.age_s {
                table.forget_previous_of(row);
                slot.unanswered = UnansweredRequests::default();
                slot.retransmissions = Default::default();
            }
            slot.age_s = mount.age_s;
            if context.is_slow_tick || !is_unchanged {
                let point = unescape_path(mount.mount_point);
                let in_mountinfo = mounts.iter().rev().find(|m| m.point == point).map(|m| m.options.as_bytes());
                let server = in_mountinfo.into_iter().chain([mount.options]).find_map(tcp_connections::server_address);
                slot.route = server.and_then(ServerRoute::look_up);
            }
            let values = table.row_mut(row);
            fill_mount(values, mount, &mut slot.retransmissions);
            if mount.transports.count > 0 {
                let (sends, replies) = (mount.transports.sends, mount.transports.replies);
                values[UNANSWERED_COLUMN] = slot.unanswered.update_level(sends, replies, context.running_ns);
            }
            if let (Some(diagnosis), Some(route)) = (diagnosis, slot.route) {
                [values[ROUND_TRIP_COLUMN], values[RETRANSMISSIONS_COLUMN]] =
                    query_network(diagnosis, route, &mount.transports.ports);
            }
        });
    }

    fn read_smb(&mut self, context: &mut TickContext) {
        let is_smb = |mount: &Mount| matches!(mount.kind.as_str(), "cifs" | "smb3" | "smbfs");
        if !self.mounts.iter().any(is_smb) {
            return;
        }
        let Some(text) = self.smb_file.read(context) else { return };
        let (shares, table, mounts) = (&mut self.shares, &mut self.tables[0], &self.mounts);
        smb::parse_shares(text, |share| {
            let known = shares.iter().find(|(name, _)| **name == *share.name).map(|(_, row)| *row);
            let row = known.unwrap_or_else(|| {
                let source = String::from_utf8_lossy(share.name).replace('\\', "/");
                let is_match = |m: &&Mount| {
                    let share_path = m.source.get(..source.len()).filter(|s| s.eq_ignore_ascii_case(&source));
                    is_smb(m)
                        && share_path.is_some()
                        && m.source[source.len()..].chars().next().is_none_or(|c| c == '/')
                };
                let row = table.row_or_insert(mounts.iter().find(is_match).map_or(&source, |m| &m.point));
                shares.push((share.name.into(), row));
                row
            });
            fill_share(table.row_mut(row), share);
        });
    }
}

/// Queries all connections of a mount: smallest round trip, microseconds, and sum of the retransmitted segments.
fn query_network(diagnosis: &SocketDiagnosis, route: ServerRoute, ports: &[u16]) -> [u64; 2] {
    if ports[0] == 0 {
        let found = diagnosis.query_all_connections(route);
        return found.map_or([ABSENT; 2], |found| [found.round_trip_us.into(), found.retransmissions.into()]);
    }
    let (mut round_trip, mut retransmissions) = (ABSENT, ABSENT);
    for port in ports.iter().take_while(|port| **port > 0) {
        let Some(found) = diagnosis.query_connection(*port, route) else { continue };
        round_trip = round_trip.min(found.round_trip_us.into());
        retransmissions =
            if retransmissions == ABSENT { 0 } else { retransmissions } + u64::from(found.retransmissions);
    }
    [round_trip, retransmissions]
}

fn fill_mount(values: &mut [u64], mount: &MountStats, retransmission_sums: &mut [RetransmissionSum; 4]) {
    if mount.has_operations {
        for (class, sums) in NfsClass::ALL.into_iter().zip(&mount.operations) {
            let bytes = match class {
                NfsClass::Read => mount.bytes.map_or(sums.received_bytes, |[.., from_server, _]| from_server),
                NfsClass::Write => mount.bytes.map_or(sums.sent_bytes, |[.., to_server]| to_server),
                _ => sums.sent_bytes.saturating_add(sums.received_bytes),
            };
            let retransmissions = retransmission_sums[class as usize].add_since_last(sums);
            let columns =
                [sums.operations, bytes, sums.round_trip_ms, sums.execution_ms, sums.queue_ms, retransmissions];
            values[class_column(class)..][..CLASS_WIDTH].copy_from_slice(&columns);
        }
        values[MAJOR_TIMEOUTS_COLUMN] = mount.operations.iter().map(|o| o.major_timeouts).fold(0, u64::saturating_add);
        values[ERRORS_COLUMN] = mount.operations.iter().map(|o| o.errors).fold(0, u64::saturating_add);
    }
    values[DELAYS_COLUMN] = mount.delays.unwrap_or(ABSENT);
    if let Some([read, written, direct_read, direct_written, ..]) = mount.bytes {
        values[APPLICATION_READ_COLUMN] = read.saturating_add(direct_read);
        values[APPLICATION_WRITE_COLUMN] = written.saturating_add(direct_written);
    }
    let transports = &mount.transports;
    if transports.count > 0 {
        values[SENDS_COLUMN] = transports.sends;
        values[REPLIES_COLUMN] = transports.replies;
        values[BAD_REPLIES_COLUMN] = transports.bad_replies;
        values[CONNECTS_COLUMN] = transports.connects;
        values[BACKLOG_COLUMN] = transports.backlog;
        values[SLOTS_USED_COLUMN] = transports.max_slots.unwrap_or(ABSENT);
    }
}

fn fill_share(values: &mut [u64], share: &ShareStats) {
    // each session with a server lists the share again (multiuser, nosharesock)
    let add = |cell: &mut u64, number: Option<u64>| match number {
        Some(number) if *cell == ABSENT => *cell = number,
        Some(number) => *cell = cell.saturating_add(number),
        None => {}
    };
    for (class, operations, bytes) in [
        (NfsClass::Read, share.reads, share.read_bytes),
        (NfsClass::Write, share.writes, share.write_bytes),
        (NfsClass::Commit, share.flushes, None),
        (NfsClass::Metadata, share.metadata_operations(), None),
    ] {
        add(&mut values[class_column(class)], operations);
        add(&mut values[class_column(class) + BYTES_IN_CLASS], bytes);
    }
}

/// Stores the figures of a Ceph filesystem. Answers are what the kernel counts as done; without them, nothing tells
/// whether any arrive.
fn fill_ceph(table: &mut CounterTable, figures: &CephFigures) {
    let row = table.row_or_insert(&figures.label);
    let values = table.row_mut(row);
    values[UNANSWERED_COLUMN] = figures.waiting;
    let totals = &figures.totals;
    for (class, operations, bytes) in [
        (NfsClass::Read, totals.reads, totals.read_bytes),
        (NfsClass::Write, totals.writes, totals.write_bytes),
        (NfsClass::Metadata, totals.metadata, None),
    ] {
        values[class_column(class)] = operations.unwrap_or(ABSENT);
        values[class_column(class) + BYTES_IN_CLASS] = bytes.unwrap_or(ABSENT);
    }
    let answered = [totals.reads, totals.writes, totals.metadata].into_iter().flatten().reduce(u64::saturating_add);
    values[REPLIES_COLUMN] = answered.unwrap_or(ABSENT);
}

impl CounterSource for NetworkFilesystems {
    fn read_tick(&mut self, context: &mut TickContext) {
        if context.is_slow_tick {
            self.refresh_mounts(context);
        }
        if context.devices_due {
            // a block device of Ceph is no mount
            self.ceph.find_clients(&self.mounts, context);
        }
        self.tables[0].begin_tick();
        self.read_nfs(context);
        self.read_smb(context);
        let table = &mut self.tables[0];
        for (row, file) in &mut self.fuse {
            if let Some(waiting) =
                file.read(context).and_then(|text| crate::live::text_scan::parse_number(text.trim_ascii()))
            {
                table.row_mut(*row)[WAITING_COLUMN] = waiting;
            }
        }
        for figures in self.ceph.read_clients(context) {
            fill_ceph(table, &figures);
        }
        table.compute_cells(context);
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

#[cfg(test)]
mod tests;
