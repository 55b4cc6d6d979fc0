//! What is mounted, in every mount namespace that can be seen.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use diskwright_counters::live::Roots;
use diskwright_counters::live::mountinfo::{self, Mount};

use crate::node::{DeviceNumber, names};

/// All mounts.
#[derive(Debug, Default)]
pub(crate) struct MountTable {
    /// Each with a process that sees it, where we do not.
    pub all: Vec<(Mount, Option<u32>)>,
    overlays: HashSet<DeviceNumber>,
    known: HashSet<DeviceNumber>,
    /// Mounts on which a look can wait for ever.
    remote: HashSet<u64>,
}

impl MountTable {
    pub fn read(roots: &Roots) -> MountTable {
        let table = |path: &Path| mountinfo::parse(&fs::read(path).unwrap_or_default());
        let mut all: Vec<(Mount, Option<u32>)> =
            table(&roots.proc.join("self/mountinfo")).into_iter().map(|mount| (mount, None)).collect();
        let own = fs::read_link(roots.proc.join("self/ns/mnt"));
        let mut seen: HashSet<_> = own.into_iter().collect();
        for process in names(&roots.proc).iter().filter_map(|name| name.parse::<u32>().ok()) {
            let folder = roots.proc.join(process.to_string());
            if fs::read_link(folder.join("ns/mnt")).is_ok_and(|namespace| seen.insert(namespace)) {
                all.extend(table(&folder.join("mountinfo")).into_iter().map(|mount| (mount, Some(process))));
            }
        }
        MountTable::of(all)
    }

    fn of(all: Vec<(Mount, Option<u32>)>) -> MountTable {
        let of_kind = |wanted: fn(&Mount) -> bool| all.iter().map(|(mount, _)| mount).filter(move |m| wanted(m));
        let overlays = of_kind(|m| m.kind == "overlay").map(|m| m.device).collect();
        let known = of_kind(|_| true).map(|m| m.device).collect();
        let remote = of_kind(Mount::is_remote).map(|m| m.id).collect();
        MountTable { all, overlays, known, remote }
    }

    /// Mounts that a path of ours leads through, also those that others lie over.
    fn covering<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Mount> {
        self.all
            .iter()
            .filter(|(_, process)| process.is_none())
            .map(|(mount, _)| mount)
            .filter(move |mount| mount.is_above(path))
    }

    /// The mount that a path of ours lies on.
    fn mount_of<'a>(&'a self, path: &'a str) -> Option<&'a Mount> {
        // of those at one point the last lies over the others
        self.covering(path).max_by_key(|mount| mount.point.trim_end_matches('/').len())
    }

    /// The filesystem that a path of ours lies on.
    pub fn top(&self, path: &str) -> Option<DeviceNumber> {
        self.mount_of(path).map(|mount| mount.device)
    }

    /// Looking at what this path leads to can wait for ever: a server answers for it.
    pub fn may_hang(&self, path: &str) -> bool {
        self.mount_of(path).is_some_and(Mount::is_remote)
    }

    /// A mount of this number is served by somebody who may hang.
    pub fn is_remote(&self, id: u64) -> bool {
        self.remote.contains(&id)
    }

    /// A mount of this number is of this device.
    pub fn has(&self, id: u64, device: DeviceNumber) -> bool {
        self.all.iter().any(|(mount, _)| mount.id == id && mount.device == device)
    }

    /// A filesystem of this number is served by somebody who may hang.
    pub fn device_is_remote(&self, device: DeviceNumber) -> bool {
        !self.none_remote() && self.all.iter().any(|(mount, _)| mount.device == device && mount.is_remote())
    }

    /// No mount at all is served by somebody who may hang.
    pub fn none_remote(&self) -> bool {
        self.remote.is_empty()
    }

    /// There is a filesystem that shows files of others under its own numbers.
    pub fn have_stacks(&self) -> bool {
        !self.overlays.is_empty()
    }

    /// A file of this filesystem may be another filesystem's file under a number of
    /// its own: overlayfs shows its own device, or one that no table of mounts has.
    pub fn may_be_stacked(&self, device: DeviceNumber) -> bool {
        !self.overlays.is_empty() && (self.overlays.contains(&device) || self.is_anonymous(device))
    }

    /// A number that a filesystem made up and that no table of mounts shows.
    fn is_anonymous(&self, device: DeviceNumber) -> bool {
        device.0 == 0 && !self.known.contains(&device)
    }

    /// A file of this filesystem can lie where a path says, or said once.
    pub fn may_lie_at(&self, device: DeviceNumber, path: &str) -> bool {
        self.is_anonymous(device) || self.covering(path).any(|mount| mount.device == device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(text: &str) -> MountTable {
        MountTable::of(mountinfo::parse(text.as_bytes()).into_iter().map(|mount| (mount, None)).collect())
    }

    #[test]
    fn what_may_hang_or_lie_below_is_told_by_the_table() {
        let all = mounts(
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:40 / /run/disk rw - fuse.nbdfuse nbd rw\n\
             3 1 8:2 / /srv rw - ext4 /dev/sda2 rw\n",
        );
        assert!(all.may_hang("/run/disk/file") && !all.may_hang("/srv/x.img") && !all.may_hang("/run/diskette"));
        assert!(all.is_remote(2) && !all.is_remote(1) && !all.none_remote());
        assert!(all.may_lie_at((8, 1), "/run/disk/file") && !all.may_lie_at((8, 2), "/run/disk/file"));
        // a subvolume's number is in no table
        assert!(all.may_lie_at((0, 77), "/srv/x.img"));
        assert!(!all.may_be_stacked((0, 77)));
    }

    #[test]
    fn numbers_that_overlays_make_up_are_known() {
        let all = mounts("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:50 / /merged rw - overlay overlay rw\n");
        assert!(all.may_be_stacked((0, 50)) && all.may_be_stacked((0, 51)));
        assert!(!all.may_be_stacked((8, 1)));
    }

    #[test]
    fn mounts_of_other_namespaces_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
        for (process, namespace) in [("10", "mnt:[1]"), ("11", "mnt:[2]"), ("12", "mnt:[2]")] {
            write(&format!("proc/{process}/mountinfo"), "9 0 8:5 / /data rw - ext4 /dev/sda5 rw\n");
            fs::create_dir_all(folder.path().join(format!("proc/{process}/ns"))).unwrap();
            std::os::unix::fs::symlink(namespace, folder.path().join(format!("proc/{process}/ns/mnt"))).unwrap();
        }
        std::fs::create_dir_all(folder.path().join("proc/self/ns")).unwrap();
        std::os::unix::fs::symlink("mnt:[1]", folder.path().join("proc/self/ns/mnt")).unwrap();
        let all = MountTable::read(&Roots::under(folder.path()));
        assert_eq!(all.all.len(), 2);
        assert_eq!((all.all[1].0.device, all.all[1].1), ((8, 5), Some(11)));
    }
}
