//! `/proc/self/mountinfo` and `statvfs`: free space of the filesystems. It is read at slow ticks; in between the last
//! value stays, because space changes slowly. A filesystem on another machine or behind a user process is never
//! queried: it may not answer.

use std::collections::HashSet;
use std::hint::black_box;
use std::path::PathBuf;

use crate::live::counter_table::{ABSENT, CounterReset, CounterTable, TableColumn, level_column};
use crate::live::mountinfo::{self, Mount, PolledMounts};
use crate::live::open_file::OpenFile;
use crate::live::tick_context::TickContext;
use crate::live::watched_read::watch_read;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};
use diskwright_base::counter_ids::logical_disk;
use diskwright_base::{EventKind, HostEvent, Note};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "mounts",
    files: &["/proc/self/mountinfo"],
    explain: "Free space and free inodes of local filesystems.",
    parse_any: |bytes| _ = black_box(mountinfo::parse_mounts(bytes)),
    open: |roots, _: &SamplerOptions| Some(Box::new(MountSource::new(roots))),
};

const COLUMNS: [TableColumn; 5] = [
    level_column(logical_disk::FREE_BYTES, 1.0),
    level_column(logical_disk::USED_BYTES, 1.0),
    level_column(logical_disk::TOTAL_BYTES, 1.0),
    level_column(logical_disk::INODES_FREE, 1.0),
    level_column(logical_disk::INODES_TOTAL, 1.0),
];

/// Largest number of filesystems that are followed.
const MAX_FILESYSTEMS: usize = 256;

struct MountSource {
    file: PolledMounts,
    text: Vec<u8>,
    /// Mount points as the kernel names them, and the paths to query.
    mount_points: Vec<(String, PathBuf)>,
    /// The filesystems that can be written, by mount point and device.
    writable: HashSet<(String, (u64, u64))>,
    tables: [CounterTable; 1],
}

impl MountSource {
    fn new(roots: &Roots) -> MountSource {
        MountSource {
            file: PolledMounts::new(OpenFile::in_pieces(roots.proc.join("self/mountinfo"), "filesystems are not seen")),
            text: Vec::new(),
            mount_points: Vec::new(),
            writable: HashSet::new(),
            tables: [CounterTable::new("filesystem", &COLUMNS, CounterReset::OneNumber)],
        }
    }
}

/// Returns true if a query at the mount point would reach another mount, or may hang on the way: a later mount covers
/// it, or its path leads through a filesystem of another machine or a user process.
fn is_covered_or_remote(mounts: &[Mount], index: usize) -> bool {
    let mount = &mounts[index];
    let covers = |other: &Mount| other.point != "/" && other.is_above(&mount.point);
    let is_covered = mounts[index + 1..].iter().any(covers);
    is_covered
        || mounts.iter().any(|other| other.is_remote() && other.point != mount.point && other.is_above(&mount.point))
}

/// Returns the mounts whose space is queried: one mount of each local filesystem.
pub fn local_mounts(mounts: &[Mount]) -> Vec<&Mount> {
    // read-only images, which are always full
    const IMAGE_FILESYSTEMS: &[&str] = &["cramfs", "erofs", "iso9660", "romfs", "squashfs", "udf"];
    let is_queried = |m: &&Mount| {
        (m.is_on_disk() || m.point == "/")
            && !m.is_remote()
            && !m.kind.starts_with("fuse")
            && !IMAGE_FILESYSTEMS.contains(&m.kind.as_str())
    };
    let mut found: Vec<&Mount> = Vec::new();
    let reachable = mounts.iter().enumerate().filter(|(index, _)| !is_covered_or_remote(mounts, *index));
    for mount in reachable.map(|(_, mount)| mount).filter(is_queried) {
        // a folder of the same filesystem mounted elsewhere shares its space
        match found.iter_mut().find(|f| f.device == mount.device) {
            Some(known) if mount.root.len() < known.root.len() => *known = mount,
            Some(_) => {}
            None => found.push(mount),
        }
    }
    found
}

/// Returns true if nothing can be written to a filesystem. The kernel shows so in the options of the filesystem if an
/// error was the reason.
fn is_read_only(mount: &Mount) -> bool {
    let shows = |options: &str, states: &[&str]| options.split(',').any(|option| states.contains(&option));
    shows(&mount.flags, &["ro"]) || shows(&mount.options, &["ro", "emergency_ro", "shutdown"])
}

/// Notes the filesystems that could be written before, and cannot any more.
fn note_turned_read_only(writable: &mut HashSet<(String, (u64, u64))>, mounts: &[&Mount], context: &mut TickContext) {
    let key = |mount: &&Mount| (mount.point.clone(), mount.device);
    for mount in mounts.iter().filter(|mount| is_read_only(mount) && writable.contains(&key(mount))) {
        let because = format!("{} ({}): mounted read-write before, read-only now", mount.point, mount.source);
        let event = HostEvent {
            time_ns: Some(context.time_ns),
            victim: Some(mount.point.clone()),
            ..HostEvent::new(EventKind::ReadOnly, because)
        };
        context.notes.push_note(Note::event(context.time_ns, &event));
    }
    *writable = mounts.iter().filter(|mount| !is_read_only(mount)).take(MAX_FILESYSTEMS).map(key).collect();
}

impl CounterSource for MountSource {
    fn read_tick(&mut self, context: &mut TickContext) {
        if !context.is_slow_tick {
            return;
        }
        let [table] = &mut self.tables;
        let Ok(changed_text) = self.file.read_if_changed(context) else { return table.blank_all() };
        if let Some(text) = changed_text.filter(|text| **text != *self.text) {
            self.text = text.to_vec();
            context.topology_due = true;
            let mounts = mountinfo::parse_mounts(text);
            let local = local_mounts(&mounts);
            if local.len() > MAX_FILESYSTEMS {
                let text =
                    format!("{} filesystems are mounted; the free space of {MAX_FILESYSTEMS} is watched", local.len());
                context.notes.push_limited(context.time_ns, Note::UNSEEN, "mounts", || text);
            }
            note_turned_read_only(&mut self.writable, &local, context);
            self.mount_points = local
                .iter()
                .take(MAX_FILESYSTEMS)
                .map(|m| (m.point.clone(), context.roots.resolve_path(&m.point)))
                .collect();
            table.retain_rows(|name, _| self.mount_points.iter().any(|(point, _)| point == name));
        }
        if !context.options.filesystems {
            return;
        }
        table.begin_tick();
        for (point, path) in &self.mount_points {
            let Ok(space) = watch_read(path, || Ok(rustix::fs::statvfs(path)?)) else { continue };
            let row = table.row_or_insert(point);
            let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
            let inodes = |n: u64| if space.f_files == 0 { ABSENT } else { n };
            let values = [
                // space reserved for root is not free, because users cannot use it
                bytes(space.f_bavail),
                bytes(space.f_blocks.saturating_sub(space.f_bfree)),
                bytes(space.f_blocks),
                inodes(space.f_favail),
                inodes(space.f_files),
            ];
            table.row_mut(row).copy_from_slice(&values);
        }
        table.compute_cells(context);
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_local_filesystem_is_queried_once_and_none_that_may_hang() {
        let text = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
            2 1 8:2 /sub /bind rw - ext4 /dev/sda2 rw\n\
            3 1 8:2 / /data rw - ext4 /dev/sda2 rw\n\
            4 1 0:50 / /net rw - nfs4 server:/x rw\n\
            5 1 0:51 / /ssh rw - fuse.sshfs server:/x rw\n\
            6 1 8:9 / /ntfs rw - fuseblk /dev/sda9 rw\n\
            7 1 0:52 / /run rw - tmpfs tmpfs rw\n\
            8 1 7:0 / /snap rw - squashfs /dev/loop0 ro\n\
            9 1 0:53 / /pool rw - btrfs /dev/sdb rw\n";
        let mounts = mountinfo::parse_mounts(text);
        let points: Vec<&str> = local_mounts(&mounts).iter().map(|m| m.point.as_str()).collect();
        assert_eq!(points, ["/", "/data", "/pool"]);
    }

    /// A dead server blocks every access through its mount point.
    #[test]
    fn no_path_leads_over_a_mount_that_may_hang() {
        let text = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
            2 1 0:50 / /net rw - nfs4 server:/x rw\n\
            3 2 8:2 / /net/local rw - ext4 /dev/sda2 rw\n\
            4 1 8:3 / /covered rw - ext4 /dev/sda3 rw\n\
            5 4 0:51 / /covered rw - nfs server:/y rw\n\
            6 1 8:4 / /a/b rw - xfs /dev/sda4 rw\n\
            7 1 0:52 / /a rw - fuse.sshfs host:/ rw\n\
            8 1 8:5 / /network rw - xfs /dev/sda5 rw\n";
        let mounts = mountinfo::parse_mounts(text);
        let points: Vec<&str> = local_mounts(&mounts).iter().map(|m| m.point.as_str()).collect();
        assert_eq!(points, ["/", "/network"]);
    }

    #[test]
    fn a_containers_root_is_always_queried() {
        let mounts =
            mountinfo::parse_mounts(b"1 0 0:99 / / rw - overlay overlay rw\n2 1 0:98 / /x rw - overlay overlay rw\n");
        assert_eq!(local_mounts(&mounts).len(), 1);
    }

    #[test]
    fn a_filesystem_that_turns_read_only_is_an_event_and_one_that_was_is_none() {
        let machine = crate::live::fake::FakeMachine::new();
        let table = |data: &str, image: &str| {
            format!(
                "1 0 8:0 / / rw - ext4 /dev/sda rw\n2 1 8:1 / /data rw - ext4 /dev/sdb {data}\n\
                     3 1 8:2 / /image ro - ext4 /dev/sdc {image}\n"
            )
        };
        machine.put_ordinary_files().put_file("proc/self/mountinfo", table("rw,errors=remount-ro", "ro"));
        let mut watch = machine.watch_default();
        assert_eq!(watch.tick().notes_of_kind(Note::EVENT), Vec::<&str>::new());
        machine.put_file("proc/self/mountinfo", table("ro,errors=remount-ro", "ro,x"));
        watch.tick_after(5.0);
        let [text] = watch.notes_of_kind(Note::EVENT).try_into().unwrap();
        let event: HostEvent = serde_json::from_str(text).unwrap();
        assert_eq!((event.kind, event.victim.as_deref()), (EventKind::ReadOnly, Some("/data")));
        // unmounted and mounted again
        machine.put_file("proc/self/mountinfo", "1 0 8:0 / / rw - ext4 /dev/sda rw\n");
        watch.tick_after(5.0);
        machine.put_file("proc/self/mountinfo", table("ro", "ro"));
        assert_eq!(watch.tick_after(5.0).notes_of_kind(Note::EVENT).len(), 1, "no further one");
    }

    #[test]
    fn space_stays_between_slow_ticks_and_goes_with_the_mount() {
        let machine = crate::live::fake::FakeMachine::new();
        machine.put_ordinary_files().put_file("data/x", "");
        machine.put_file(
            "proc/self/mountinfo",
            "1 0 8:0 / / rw - ext4 /dev/sda rw\n2 1 8:1 / /data rw - xfs /dev/sdb rw\n\
             3 1 8:2 / /not-there rw - xfs /dev/sdc rw\n",
        );
        let mut watch = machine.watch_default();
        watch.tick();
        let free = watch.value("logical_disk.free_bytes", "/data");
        assert!(free > 0.0 && watch.value("logical_disk.total_bytes", "/data") >= free);
        assert!(watch.find_value("logical_disk.free_bytes", "/not-there").is_none());
        assert_eq!(watch.tick_after(1.0).value("logical_disk.free_bytes", "/data"), free);
        machine.put_file("proc/self/mountinfo", "1 0 8:0 / / rw - ext4 /dev/sda rw\n");
        watch.tick_after(5.0);
        assert!(watch.find_value("logical_disk.free_bytes", "/data").is_none());
        assert_eq!(watch.last_topology().filesystems.len(), 1);
    }
}
