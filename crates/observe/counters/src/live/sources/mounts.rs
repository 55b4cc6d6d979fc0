//! `/proc/self/mountinfo` and `statvfs`: free space of the filesystems. It is read
//! at slow ticks; in between the last value stays, because space
//! does not change that fast. A filesystem on another machine or behind a
//! user process is never queried: it may not answer.

use std::hint::black_box;
use std::path::PathBuf;

use crate::live::held::OpenFile;
use crate::live::moment::TickContext;
use crate::live::mountinfo::{self, Mount, PolledMounts};
use crate::live::totals::{ABSENT, CounterReset, CounterTable, TableColumn, level};
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};
use diskwright_base::Note;

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "mounts",
    files: &["/proc/self/mountinfo"],
    explain: "Free space and free inodes of local filesystems.",
    parse_any: |bytes| _ = black_box(mountinfo::parse(bytes)),
    open: |roots, _: &SamplerOptions| Some(Box::new(MountSource::new(roots))),
};

const COLUMNS: [TableColumn; 4] = [
    level("logical_disk.free_bytes", 1.0),
    level("logical_disk.total_bytes", 1.0),
    level("logical_disk.inodes_free", 1.0),
    level("logical_disk.inodes_total", 1.0),
];

/// Most filesystems that are followed.
const MOST: usize = 256;

struct MountSource {
    file: PolledMounts,
    text: Vec<u8>,
    /// Mount points as the kernel names them, and the paths to query.
    places: Vec<(String, PathBuf)>,
    tables: [CounterTable; 1],
}

impl MountSource {
    fn new(roots: &Roots) -> MountSource {
        MountSource {
            file: PolledMounts::new(OpenFile::pieces(roots.proc.join("self/mountinfo"), "filesystems are not seen")),
            text: Vec::new(),
            places: Vec::new(),
            tables: [CounterTable::new("filesystem", &COLUMNS, CounterReset::OneNumber)],
        }
    }
}

/// Returns true if a query at the mount point would reach another mount, or may hang on the way: a
/// later mount covers it, or its path leads through a filesystem of another machine or a user process.
fn is_behind(mounts: &[Mount], index: usize) -> bool {
    let mount = &mounts[index];
    let covers = |other: &Mount| other.point != "/" && other.is_above(&mount.point);
    let later = mounts[index + 1..].iter().any(covers);
    later || mounts.iter().any(|other| other.is_remote() && other.point != mount.point && other.is_above(&mount.point))
}

/// Returns the mounts whose space is queried: one of each local filesystem.
pub fn local(mounts: &[Mount]) -> Vec<&Mount> {
    // read-only images, which are always full
    const IMAGES: &[&str] = &["cramfs", "erofs", "iso9660", "romfs", "squashfs", "udf"];
    let is_queried = |m: &&Mount| {
        (m.is_on_disk() || m.point == "/")
            && !m.is_remote()
            && !m.kind.starts_with("fuse")
            && !IMAGES.contains(&m.kind.as_str())
    };
    let mut found: Vec<&Mount> = Vec::new();
    let reachable = mounts.iter().enumerate().filter(|(index, _)| !is_behind(mounts, *index));
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

impl CounterSource for MountSource {
    fn tick(&mut self, context: &mut TickContext) {
        if !context.slow {
            return;
        }
        let [table] = &mut self.tables;
        let Ok(news) = self.file.news(context) else { return table.gap() };
        if let Some(text) = news.filter(|text| **text != *self.text) {
            self.text = text.to_vec();
            context.rescan = true;
            let mounts = mountinfo::parse(text);
            let local = local(&mounts);
            if local.len() > MOST {
                let text = format!("{} filesystems are mounted; the free space of {MOST} is watched", local.len());
                context.notes.limited(context.time_ns, Note::UNSEEN, "mounts", || text);
            }
            self.places = local.iter().take(MOST).map(|m| (m.point.clone(), context.roots.at(&m.point))).collect();
            table.retain(|name, _| self.places.iter().any(|(point, _)| point == name));
        }
        if !context.options.filesystems {
            return;
        }
        table.begin();
        for (point, path) in &self.places {
            let Ok(space) = rustix::fs::statvfs(path) else { continue };
            let row = table.row(point);
            // space reserved for root counts as used: users cannot have it
            let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
            let inodes = |n: u64| if space.f_files == 0 { ABSENT } else { n };
            let values = [bytes(space.f_bavail), bytes(space.f_blocks), inodes(space.f_favail), inodes(space.f_files)];
            table.fill(row).copy_from_slice(&values);
        }
        table.settle(context);
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_a_local_filesystem_and_none_that_may_hang() {
        let text = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
            2 1 8:2 /sub /bind rw - ext4 /dev/sda2 rw\n\
            3 1 8:2 / /data rw - ext4 /dev/sda2 rw\n\
            4 1 0:50 / /net rw - nfs4 server:/x rw\n\
            5 1 0:51 / /ssh rw - fuse.sshfs server:/x rw\n\
            6 1 8:9 / /ntfs rw - fuseblk /dev/sda9 rw\n\
            7 1 0:52 / /run rw - tmpfs tmpfs rw\n\
            8 1 7:0 / /snap rw - squashfs /dev/loop0 ro\n\
            9 1 0:53 / /pool rw - btrfs /dev/sdb rw\n";
        let mounts = mountinfo::parse(text);
        let points: Vec<&str> = local(&mounts).iter().map(|m| m.point.as_str()).collect();
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
        let mounts = mountinfo::parse(text);
        let points: Vec<&str> = local(&mounts).iter().map(|m| m.point.as_str()).collect();
        assert_eq!(points, ["/", "/network"]);
    }

    #[test]
    fn a_containers_root_is_asked_whatever_it_is() {
        let mounts = mountinfo::parse(b"1 0 0:99 / / rw - overlay overlay rw\n2 1 0:98 / /x rw - overlay overlay rw\n");
        assert_eq!(local(&mounts).len(), 1);
    }

    #[test]
    fn space_stands_between_two_looks_and_goes_with_the_mount() {
        let machine = crate::live::fake::FakeMachine::new();
        machine.ordinary().put("data/x", "");
        machine.put(
            "proc/self/mountinfo",
            "1 0 8:0 / / rw - ext4 /dev/sda rw\n2 1 8:1 / /data rw - xfs /dev/sdb rw\n\
             3 1 8:2 / /not-there rw - xfs /dev/sdc rw\n",
        );
        let mut watch = machine.watch();
        watch.tick();
        let free = watch.value("logical_disk.free_bytes", "/data");
        assert!(free > 0.0 && watch.value("logical_disk.total_bytes", "/data") >= free);
        assert!(watch.find("logical_disk.free_bytes", "/not-there").is_none());
        assert_eq!(watch.tick_after(1.0).value("logical_disk.free_bytes", "/data"), free);
        machine.put("proc/self/mountinfo", "1 0 8:0 / / rw - ext4 /dev/sda rw\n");
        watch.tick_after(5.0);
        assert!(watch.find("logical_disk.free_bytes", "/data").is_none());
        assert_eq!(watch.topology().filesystems.len(), 1);
    }
}
