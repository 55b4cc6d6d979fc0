//! Filesystems that another machine or a user process serves: NFS from `/proc/self/mountstats`, SMB
//! from `/proc/fs/cifs/Stats`, FUSE from `/sys/fs/fuse/connections`. All three are sums that this
//! machine's kernel keeps. Such a mount itself is never accessed: a server that does not answer
//! would block the caller.

pub mod connections;
pub mod mountstats;
pub mod smb;
mod unanswered;

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;

use diskwright_base::Note;

use crate::live::held::OpenFile;
use crate::live::moment::TickContext;
use crate::live::mountinfo::{self, Mount, PolledMounts, unescape};
use crate::live::totals::{ABSENT, CounterReset, CounterTable, TableColumn, level, sum32, total, total32};
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};
use connections::{ServerRoute, SocketDiagnosis};
use mountstats::{MountStats, NfsClass, OperationSums};
use smb::ShareStats;
use unanswered::UnansweredRequests;

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "network_filesystems",
    files: &[
        "/proc/self/mountstats",
        "/proc/self/mountinfo",
        "/proc/fs/cifs/Stats",
        "/sys/fs/fuse/connections/N/waiting",
    ],
    explain: "NFS by mount and class of operation (operations, bytes, round trips, execution, queueing, \
              retransmissions, backlog), SMB operations and bytes, requests that wait for FUSE.",
    parse_any: |bytes| {
        mountstats::parse(bytes, |mount| _ = black_box(mount));
        smb::parse(bytes, |share| _ = black_box(share));
        _ = black_box((connections::decode(bytes), connections::server(bytes)));
    },
    open: |roots, _: &SamplerOptions| Some(Box::new(NetworkFilesystems::new(roots))),
};

/// Number of columns of a class of operations; classes are in the order of [`NfsClass`]. NFS counts operations with
/// the machine's word, SMB with 32 bits in each session.
const CLASS: usize = 6;
const COLUMNS: [TableColumn; 4 * CLASS + 15] = [
    sum32("network_filesystem.reads"),
    total("network_filesystem.read_bytes", 1.0),
    total("network_filesystem.read_round_trip_s", 1e-3),
    total("network_filesystem.read_execution_s", 1e-3),
    total("network_filesystem.read_queue_s", 1e-3),
    total("network_filesystem.read_retransmissions", 1.0),
    sum32("network_filesystem.writes"),
    total("network_filesystem.write_bytes", 1.0),
    total("network_filesystem.write_round_trip_s", 1e-3),
    total("network_filesystem.write_execution_s", 1e-3),
    total("network_filesystem.write_queue_s", 1e-3),
    total("network_filesystem.write_retransmissions", 1.0),
    sum32("network_filesystem.commits"),
    total("network_filesystem.commit_bytes", 1.0),
    total("network_filesystem.commit_round_trip_s", 1e-3),
    total("network_filesystem.commit_execution_s", 1e-3),
    total("network_filesystem.commit_queue_s", 1e-3),
    total("network_filesystem.commit_retransmissions", 1.0),
    sum32("network_filesystem.metadata_operations"),
    total("network_filesystem.metadata_bytes", 1.0),
    total("network_filesystem.metadata_round_trip_s", 1e-3),
    total("network_filesystem.metadata_execution_s", 1e-3),
    total("network_filesystem.metadata_queue_s", 1e-3),
    total("network_filesystem.metadata_retransmissions", 1.0),
    total("network_filesystem.major_timeouts", 1.0),
    total("network_filesystem.errors", 1.0),
    total("network_filesystem.server_delays", 1.0),
    total("network_filesystem.application_read_bytes", 1.0),
    total("network_filesystem.application_write_bytes", 1.0),
    total("network_filesystem.sends", 1.0),
    total("network_filesystem.replies", 1.0),
    total("network_filesystem.bad_replies", 1.0),
    total("network_filesystem.connects", 1.0),
    total("network_filesystem.backlog", 1.0),
    level("network_filesystem.slots_used", 1.0),
    level("network_filesystem.unanswered", 1.0),
    level("network_filesystem.network_round_trip_s", 1e-6),
    total32("network_filesystem.network_retransmissions", 1.0),
    level("network_filesystem.waiting", 1.0),
];
const OTHERS: usize = 4 * CLASS;
const UNANSWERED: usize = OTHERS + 11;
const ROUND_TRIP: usize = OTHERS + 12;
const RETRANSMISSIONS: usize = OTHERS + 13;
const WAITING: usize = OTHERS + 14;

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
    fn add(&mut self, sums: &OperationSums) -> u64 {
        let sent = sums.transmissions.saturating_sub(self.transmissions);
        self.sum = self.sum.saturating_add(sent.saturating_sub(sums.operations.saturating_sub(self.operations)));
        (self.operations, self.transmissions) = (sums.operations, sums.transmissions);
        self.sum
    }
}

/// An NFS mount as the file names it.
struct MountSlot {
    device: Box<[u8]>,
    point: Box<[u8]>,
    /// `None` for a mount that shares the sums of another one.
    row: Option<usize>,
    age_s: Option<u64>,
    unanswered: UnansweredRequests,
    again: [RetransmissionSum; 4],
    /// The server, and this machine's address towards it, from the last slow tick.
    way: Option<ServerRoute>,
}

struct NetworkFilesystems {
    mountstats: OpenFile,
    mountinfo: PolledMounts,
    smb: OpenFile,
    /// Mounts at the last reading.
    mounts: Vec<Mount>,
    mounts_text: Vec<u8>,
    text: Vec<u8>,
    slots: Vec<MountSlot>,
    /// The mounts have changed since the slots were built.
    stale: bool,
    /// Rows of SMB shares, in the order of the file.
    shares: Vec<(Box<[u8]>, usize)>,
    fuse: Vec<(usize, OpenFile)>,
    diagnosis: Option<SocketDiagnosis>,
    told_fuse: bool,
    tables: [CounterTable; 1],
}

impl NetworkFilesystems {
    fn new(roots: &Roots) -> NetworkFilesystems {
        let in_proc = |file: &str| roots.proc.join(file);
        NetworkFilesystems {
            mountstats: OpenFile::pieces(in_proc("self/mountstats"), "NFS mounts are not seen"),
            mountinfo: PolledMounts::new(
                OpenFile::pieces(in_proc("self/mountinfo"), "network mounts are not seen").quiet(),
            ),
            smb: OpenFile::pieces(in_proc("fs/cifs/Stats"), "SMB mounts are not seen").quiet(),
            mounts: Vec::new(),
            mounts_text: Vec::new(),
            text: Vec::new(),
            slots: Vec::new(),
            stale: false,
            shares: Vec::new(),
            fuse: Vec::new(),
            // the files of a fake machine do not belong to this kernel's sockets
            diagnosis: (roots.proc == Path::new("/proc")).then(SocketDiagnosis::open).flatten(),
            told_fuse: false,
            tables: [CounterTable::new("network filesystem", &COLUMNS, CounterReset::RowBeganAnew)],
        }
    }

    /// At a slow tick, adds new mounts and drops those that are gone.
    fn refresh(&mut self, context: &mut TickContext) {
        let Ok(Some(text)) = self.mountinfo.news(context) else { return };
        if text == self.mounts_text {
            return;
        }
        self.mounts_text = text.to_vec();
        self.mounts = mountinfo::parse(text).into_iter().filter(Mount::is_remote).collect();
        self.stale = true;
        self.shares.clear();
        self.fuse.clear();
        let [table] = &mut self.tables;
        let mounts = &self.mounts;
        table.retain(|name, _| mounts.iter().any(|mount| mount.point == name));
        self.find_fuse(context);
    }

    fn find_fuse(&mut self, context: &mut TickContext) {
        let folder = context.roots.sys.join("fs/fuse/connections");
        let mounts = self.mounts.iter().filter(|mount| mount.is_fuse() && mount.device.0 == 0);
        let mut rows: HashMap<u64, usize> = HashMap::new();
        for mount in mounts {
            if rows.contains_key(&mount.device.1) {
                continue;
            }
            let file = folder.join(mount.device.1.to_string()).join("waiting");
            if !file.exists() {
                if !std::mem::replace(&mut self.told_fuse, true) {
                    let text = format!(
                        "{}: does not exist here; requests that wait for FUSE are not seen (mount -t fusectl)",
                        folder.display()
                    );
                    context.notes.push(context.time_ns, Note::UNSEEN, text);
                }
                continue;
            }
            let row = self.tables[0].row(&mount.point);
            rows.insert(mount.device.1, row);
            self.fuse.push((row, OpenFile::whole(file, "requests that wait for this mount are not seen")));
        }
    }

    /// Rebuilds the slots from the mounts in the file; known mounts keep their state.
    fn learn(&mut self, text: &[u8], context: &mut TickContext) {
        let of_nfs: Vec<&Mount> = self.mounts.iter().filter(|m| matches!(m.kind.as_str(), "nfs" | "nfs4")).collect();
        let before = std::mem::take(&mut self.slots);
        let (slots, table) = (&mut self.slots, &mut self.tables[0]);
        let mut by_device: HashMap<(u64, u64), String> = HashMap::new();
        mountstats::parse(text, |mount| {
            let (point, export) = (unescape(mount.point), unescape(mount.device));
            // both files list the mounts in the same order
            let same = |m: &&&Mount| m.point == point && m.source == export;
            let device = of_nfs.get(slots.len()).filter(same).or_else(|| of_nfs.iter().find(same)).map(|m| m.device);
            let first = device.and_then(|device| by_device.get(&device));
            if let Some(first) = first {
                // the kernel keeps one sum per export, wherever it is mounted
                let text = format!(
                    "{export} is mounted at {first} and at {point} with the same statistics; both count as {first}"
                );
                context.notes.limited(context.time_ns, Note::UNSEEN, &text, || text.clone());
            }
            let row = if first.is_some() { None } else { Some(table.row(&point)) };
            device.map(|device| by_device.entry(device).or_insert(point));
            let known = before.iter().find(|slot| *slot.point == *mount.point && *slot.device == *mount.device);
            slots.push(MountSlot {
                device: mount.device.into(),
                point: mount.point.into(),
                row,
                age_s: known.and_then(|slot| slot.age_s),
                unanswered: known.map_or_else(UnansweredRequests::default, |slot| slot.unanswered),
                again: known.map_or_else(Default::default, |slot| slot.again),
                way: known.and_then(|slot| slot.way),
            });
        });
    }

    fn nfs(&mut self, context: &mut TickContext) {
        // without NFS mounts the file is not read; where mounts are hidden, only at slow ticks
        let has_none = !self.mounts_text.is_empty() && !self.mounts.iter().any(|mount| mount.kind.starts_with("nfs"));
        if self.slots.is_empty() && (!context.slow || has_none) {
            return;
        }
        let mut text = std::mem::take(&mut self.text);
        if let Some(length) = self.mountstats.read_into(context, &mut text) {
            self.settle_nfs(&text[..length], context);
        }
        self.text = text;
    }

    fn settle_nfs(&mut self, text: &[u8], context: &mut TickContext) {
        let (mut count, mut same) = (0, !std::mem::take(&mut self.stale));
        mountstats::parse(text, |mount| {
            let known = |slot: &MountSlot| *slot.point == *mount.point && *slot.device == *mount.device;
            same &= self.slots.get(count).is_some_and(known);
            count += 1;
        });
        if !same || count != self.slots.len() {
            self.learn(text, context);
        }
        let (table, diagnosis, mounts) = (&mut self.tables[0], &self.diagnosis, &self.mounts);
        let mut slots = self.slots.iter_mut();
        mountstats::parse(text, |mount| {
            let Some(slot) = slots.next() else { return };
            let Some(row) = slot.row else { return };
            // mounted again: the sums restarted at zero
            if mount.age_s < slot.age_s {
                table.forget_row(row);
                slot.unanswered = UnansweredRequests::default();
                slot.again = Default::default();
            }
            slot.age_s = mount.age_s;
            if context.slow || !same {
                let point = unescape(mount.point);
                let in_mountinfo = mounts.iter().rev().find(|m| m.point == point).map(|m| m.options.as_bytes());
                let server = in_mountinfo.into_iter().chain([mount.options]).find_map(connections::server);
                slot.way = server.and_then(ServerRoute::to);
            }
            let values = table.fill(row);
            fill(values, mount, &mut slot.again);
            if mount.transports.count > 0 {
                let (sends, replies) = (mount.transports.sends, mount.transports.replies);
                values[UNANSWERED] = slot.unanswered.level(sends, replies, context.running_ns);
            }
            if let (Some(diagnosis), Some(way)) = (diagnosis, slot.way) {
                values[ROUND_TRIP..=RETRANSMISSIONS].copy_from_slice(&network(diagnosis, way, &mount.transports.ports));
            }
        });
    }

    fn smb(&mut self, context: &mut TickContext) {
        let has_smb = |mount: &Mount| matches!(mount.kind.as_str(), "cifs" | "smb3" | "smbfs");
        if !self.mounts.iter().any(has_smb) {
            return;
        }
        let Some(text) = self.smb.read(context) else { return };
        let (shares, table, mounts) = (&mut self.shares, &mut self.tables[0], &self.mounts);
        smb::parse(text, |share| {
            let known = shares.iter().find(|(name, _)| **name == *share.name).map(|(_, row)| *row);
            let row = known.unwrap_or_else(|| {
                let source = String::from_utf8_lossy(share.name).replace('\\', "/");
                let is_match = |m: &&Mount| {
                    let rest = m.source.get(..source.len()).filter(|s| s.eq_ignore_ascii_case(&source));
                    has_smb(m) && rest.is_some() && m.source[source.len()..].chars().next().is_none_or(|c| c == '/')
                };
                let row = table.row(mounts.iter().find(is_match).map_or(&source, |m| &m.point));
                shares.push((share.name.into(), row));
                row
            });
            fill_share(table.fill(row), share);
        });
    }
}

/// Smallest round trip and sum of the retransmitted segments of all connections.
fn network(diagnosis: &SocketDiagnosis, way: ServerRoute, ports: &[u16]) -> [u64; 2] {
    if ports[0] == 0 {
        let found = diagnosis.ask_all(way);
        return found.map_or([ABSENT; 2], |found| [found.round_trip_us.into(), found.retransmissions.into()]);
    }
    let (mut round_trip, mut again) = (ABSENT, ABSENT);
    for port in ports.iter().take_while(|port| **port > 0) {
        let Some(found) = diagnosis.ask(*port, way) else { continue };
        round_trip = round_trip.min(found.round_trip_us.into());
        again = if again == ABSENT { 0 } else { again } + u64::from(found.retransmissions);
    }
    [round_trip, again]
}

fn fill(values: &mut [u64], mount: &MountStats, again: &mut [RetransmissionSum; 4]) {
    if mount.has_operations {
        for (class, sums) in NfsClass::ALL.into_iter().zip(&mount.operations) {
            let bytes = match class {
                NfsClass::Read => mount.bytes.map_or(sums.received_bytes, |bytes| bytes[4]),
                NfsClass::Write => mount.bytes.map_or(sums.sent_bytes, |bytes| bytes[5]),
                _ => sums.sent_bytes.saturating_add(sums.received_bytes),
            };
            let again = again[class as usize].add(sums);
            let columns = [sums.operations, bytes, sums.round_trip_ms, sums.execution_ms, sums.queue_ms, again];
            values[class as usize * CLASS..][..CLASS].copy_from_slice(&columns);
        }
        values[OTHERS] = mount.operations.iter().map(|o| o.major_timeouts).fold(0, u64::saturating_add);
        values[OTHERS + 1] = mount.operations.iter().map(|o| o.errors).fold(0, u64::saturating_add);
    }
    values[OTHERS + 2] = mount.delays.unwrap_or(ABSENT);
    if let Some([read, written, direct_read, direct_written, ..]) = mount.bytes {
        values[OTHERS + 3] = read.saturating_add(direct_read);
        values[OTHERS + 4] = written.saturating_add(direct_written);
    }
    let transports = &mount.transports;
    if transports.count > 0 {
        let sums = [transports.sends, transports.replies, transports.bad_replies, transports.connects];
        values[OTHERS + 5..OTHERS + 9].copy_from_slice(&sums);
        values[OTHERS + 9] = transports.backlog;
        values[OTHERS + 10] = transports.slots.unwrap_or(ABSENT);
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
        (NfsClass::Metadata, share.metadata(), None),
    ] {
        add(&mut values[class as usize * CLASS], operations);
        add(&mut values[class as usize * CLASS + 1], bytes);
    }
}

impl CounterSource for NetworkFilesystems {
    fn tick(&mut self, context: &mut TickContext) {
        if context.slow {
            self.refresh(context);
        }
        self.tables[0].begin();
        self.nfs(context);
        self.smb(context);
        let table = &mut self.tables[0];
        for (row, file) in &mut self.fuse {
            if let Some(waiting) = file.read(context).and_then(|text| crate::live::scan::number(text.trim_ascii())) {
                table.fill(*row)[WAITING] = waiting;
            }
        }
        table.settle(context);
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

#[cfg(test)]
mod tests;
