//! Open files and block devices of the busiest processes. Files of a remote filesystem are skipped without access,
//! because an access can block for ever.

use std::collections::HashMap;
use std::path::Path;

use diskwright_base::FileRow;
use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags};

use crate::live::Roots;
use crate::live::mountinfo::{self, Mount};
use crate::live::open_file::{read_bytes, read_text};
use crate::live::watched_read::{list_folder, read_link, watch_read};

/// Largest number of descriptors of a process that are examined.
const MAX_DESCRIPTORS: usize = 512;
/// Largest number of devices below a file that are followed.
const MAX_DISKS: usize = 32;
/// Largest number of files of a process that are listed: block devices first, then the largest.
pub(super) const MAX_NAMED_FILES: usize = 4;

/// Returns the files and block devices that a process has open, and the number of further ones.
pub(super) fn open_file_rows(roots: &Roots, folder: &Path) -> (Vec<FileRow>, u32) {
    let Ok(descriptors) = watch_read(folder, || std::fs::read_dir(folder.join("fd"))) else { return (Vec::new(), 0) };
    // as the process sees them: it may live in a container
    let mounts = mountinfo::parse_mounts(&read_bytes(&folder.join("mountinfo")).unwrap_or_default());
    let mounts: HashMap<u64, Mount> = mounts.into_iter().map(|mount| (mount.id, mount)).collect();
    let mut rows: Vec<FileRow> = Vec::new();
    for descriptor in descriptors.flatten().take(MAX_DESCRIPTORS) {
        // a name costs one call, and most descriptors are pipes, sockets and devices such as /dev/null
        let Some(path) = read_link(&descriptor.path()).ok().filter(|path| may_be_on_disk(path)) else { continue };
        let path = path.to_string_lossy();
        // the same file may be open many times
        if rows.iter().any(|known| known.path == path) {
            continue;
        }
        let info = folder.join("fdinfo").join(descriptor.file_name());
        let mount = mount_id(&info).and_then(|id| mounts.get(&id)).filter(|mount| !mount.is_remote());
        rows.extend(mount.and_then(|mount| file_row(roots, &descriptor.path(), &path, mount)));
    }
    rows.sort_by(|a, b| {
        let sort_key = |row: &FileRow| (row.bytes.is_some(), std::cmp::Reverse(row.bytes));
        sort_key(a).cmp(&sort_key(b)).then_with(|| a.path.cmp(&b.path))
    });
    let more = rows.len().saturating_sub(MAX_NAMED_FILES) as u32;
    rows.truncate(MAX_NAMED_FILES);
    (rows, more)
}

/// Returns the id of the mount that holds an open file.
fn mount_id(info: &Path) -> Option<u64> {
    read_text(info)?.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

/// Returns false for what has no path (pipes, sockets), and for the usual files of the kernel.
fn may_be_on_disk(path: &Path) -> bool {
    let is_of_kernel = ["/proc", "/sys", "/dev/pts", "/dev/null"].iter().any(|folder| path.starts_with(folder));
    path.is_absolute() && !is_of_kernel
}

fn file_row(roots: &Roots, descriptor: &Path, path: &str, mount: &Mount) -> Option<FileRow> {
    let attributes = watch_read(descriptor, || {
        Ok(rustix::fs::statx(CWD, descriptor, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS)?)
    })
    .ok()?;
    // overlayfs hides the device number of its disk, as btrfs does
    let is_on_disk = mount.is_on_disk() || mount.kind == "overlay";
    let (number, bytes) = match FileType::from_raw_mode(attributes.stx_mode.into()) {
        FileType::RegularFile if is_on_disk => (filesystem_number(&attributes), Some(attributes.stx_size)),
        FileType::BlockDevice => ((attributes.stx_rdev_major, attributes.stx_rdev_minor), None),
        _ => return None,
    };
    Some(FileRow { path: path.to_owned(), disks: disks_of_device(roots, number), bytes })
}

fn filesystem_number(attributes: &Statx) -> (u32, u32) {
    (attributes.stx_dev_major, attributes.stx_dev_minor)
}

/// Returns the disk of a device (for a partition, its disk), and the disks below it.
fn disks_of_device(roots: &Roots, number: (u32, u32)) -> Vec<String> {
    let link = roots.sys.join(format!("dev/block/{}:{}", number.0, number.1));
    let name = |path: &Path| Some(path.file_name()?.to_string_lossy().into_owned());
    let linked_disk = || {
        let target = read_link(&link).ok()?;
        if link.join("partition").exists() { name(target.parent()?) } else { name(&target) }
    };
    let mut found: Vec<String> = linked_disk().into_iter().collect();
    let mut next = 0;
    while next < found.len().min(MAX_DISKS) {
        let folder = roots.sys.join("class/block").join(&found[next]);
        for below in list_folder(&folder.join("slaves")) {
            let below = below.file_name().to_string_lossy().into_owned();
            // a partition is replaced by its disk, as in the counters
            let link = roots.sys.join("class/block").join(&below);
            let disk_name = || name(read_link(&link).ok()?.parent()?);
            let disk = if link.join("partition").exists() { disk_name() } else { Some(below) };
            found.extend(disk.filter(|disk| !found.contains(disk)));
        }
        next += 1;
    }
    found.iter().map(|name| name.replace('!', "/")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::fake::FakeMachine;

    #[test]
    fn a_partition_below_a_volume_is_its_disk() {
        let machine = FakeMachine::new();
        machine.put_file("sys/devices/sda/sda2/partition", "2\n");
        for (link, target) in [
            ("dev/block/254:0", "../../devices/dm-0"),
            ("dev/block/8:2", "../../devices/sda/sda2"),
            ("class/block/dm-0", "../../devices/dm-0"),
            ("class/block/sda", "../../devices/sda"),
            ("class/block/sda2", "../../devices/sda/sda2"),
            ("devices/dm-0/slaves/sda2", "../../sda/sda2"),
        ] {
            machine.put_link(&format!("sys/{link}"), target);
        }
        let roots = machine.roots();
        assert_eq!(disks_of_device(&roots, (254, 0)), ["dm-0", "sda"]);
        assert_eq!(disks_of_device(&roots, (8, 2)), ["sda"]);
        assert!(disks_of_device(&roots, (0, 44)).is_empty());
    }

    #[test]
    fn open_files_of_this_process_are_listed() {
        let path = std::env::current_exe().unwrap();
        let [_once, _twice] = [0; 2].map(|_| std::fs::File::open(&path).unwrap());
        let (rows, _) = open_file_rows(&Roots::default(), Path::new("/proc/self"));
        let (path, bytes) = (path.display().to_string(), std::fs::metadata(&path).unwrap().len());
        let found: Vec<&FileRow> = rows.iter().filter(|row| row.path == path).collect();
        assert!(rows.len() <= MAX_NAMED_FILES && found.len() <= 1, "{rows:?}");
        if let Some(row) = found.first() {
            assert_eq!(row.bytes, Some(bytes));
        }
        assert!(rows.iter().all(|row| !row.path.starts_with("/proc")), "{rows:?}");
    }
}
