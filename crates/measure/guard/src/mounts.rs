//! Mounts in all visible mount namespaces.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use diskwright_counters::live::Roots;
use diskwright_counters::live::mountinfo::{self, Mount};

use crate::node::{DeviceNumber, sorted_names};

/// All mounts.
#[derive(Debug, Default)]
pub(crate) struct MountTable {
    /// Each mount; one of another namespace with a process that sees it.
    pub mounts: Vec<(Mount, Option<u32>)>,
    /// Device numbers of overlayfs.
    overlays: HashSet<DeviceNumber>,
    /// Device numbers of all mounted filesystems.
    mounted_devices: HashSet<DeviceNumber>,
    /// Ids of mounts on which any access can block for ever.
    remote_mounts: HashSet<u64>,
}

impl MountTable {
    /// Reads the mounts of all mount namespaces that processes of this machine are in.
    pub fn read(roots: &Roots) -> MountTable {
        let read_mounts = |path: &Path| mountinfo::parse_mounts(&fs::read(path).unwrap_or_default());
        let mut mounts: Vec<(Mount, Option<u32>)> =
            read_mounts(&roots.proc.join("self/mountinfo")).into_iter().map(|mount| (mount, None)).collect();
        let our_namespace = fs::read_link(roots.proc.join("self/ns/mnt"));
        let mut seen: HashSet<_> = our_namespace.into_iter().collect();
        for process in sorted_names(&roots.proc).iter().filter_map(|name| name.parse::<u32>().ok()) {
            let folder = roots.proc.join(process.to_string());
            if fs::read_link(folder.join("ns/mnt")).is_ok_and(|namespace| seen.insert(namespace)) {
                mounts.extend(read_mounts(&folder.join("mountinfo")).into_iter().map(|mount| (mount, Some(process))));
            }
        }
        MountTable::from_mounts(mounts)
    }

    fn from_mounts(mounts: Vec<(Mount, Option<u32>)>) -> MountTable {
        let select =
            |is_selected: fn(&Mount) -> bool| mounts.iter().map(|(mount, _)| mount).filter(move |m| is_selected(m));
        let overlays = select(|m| m.kind == "overlay").map(|m| m.device).collect();
        let mounted_devices = select(|_| true).map(|m| m.device).collect();
        let remote_mounts = select(Mount::is_remote).map(|m| m.id).collect();
        MountTable { mounts, overlays, mounted_devices, remote_mounts }
    }

    /// Iterates over the mounts in our namespace whose mount point is a folder of the path, including
    /// mounts that others cover.
    fn mounts_above<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Mount> {
        self.mounts
            .iter()
            .filter(|(_, process)| process.is_none())
            .map(|(mount, _)| mount)
            .filter(move |mount| mount.is_above(path))
    }

    /// Returns the mount on which a path in our namespace lies.
    fn mount_for_path<'a>(&'a self, path: &'a str) -> Option<&'a Mount> {
        // of several mounts at one point, the last covers the others
        self.mounts_above(path).max_by_key(|mount| mount.point.trim_end_matches('/').len())
    }

    /// Returns the filesystem on which a path in our namespace lies.
    pub fn filesystem_at(&self, path: &str) -> Option<DeviceNumber> {
        self.mount_for_path(path).map(|mount| mount.device)
    }

    /// Returns whether access to this path can block for ever, because its filesystem needs the
    /// response of a server.
    pub fn may_hang(&self, path: &str) -> bool {
        self.mount_for_path(path).is_some_and(Mount::is_remote)
    }

    /// Returns whether the mount with this id depends on a server that may hang.
    pub fn is_remote_mount(&self, id: u64) -> bool {
        self.remote_mounts.contains(&id)
    }

    /// Returns whether the mount with this id is of the filesystem with this device number.
    pub fn has_mount(&self, id: u64, device: DeviceNumber) -> bool {
        self.mounts.iter().any(|(mount, _)| mount.id == id && mount.device == device)
    }

    /// Returns whether the filesystem with this device number depends on a server that may hang.
    pub fn device_is_remote(&self, device: DeviceNumber) -> bool {
        !self.has_no_remote() && self.mounts.iter().any(|(mount, _)| mount.device == device && mount.is_remote())
    }

    /// Returns whether no mount depends on a server that may hang.
    pub fn has_no_remote(&self) -> bool {
        self.remote_mounts.is_empty()
    }

    /// Returns whether a filesystem shows files of other filesystems under its own numbers.
    pub fn have_stacks(&self) -> bool {
        !self.overlays.is_empty()
    }

    /// Returns whether a file of this filesystem may be another filesystem's file under a different
    /// number: overlayfs shows its own device, or one that no mount table has.
    pub fn may_be_stacked(&self, device: DeviceNumber) -> bool {
        !self.overlays.is_empty() && (self.overlays.contains(&device) || self.is_anonymous(device))
    }

    /// Returns whether a filesystem made up this device number and no mount table has it.
    fn is_anonymous(&self, device: DeviceNumber) -> bool {
        device.0 == 0 && !self.mounted_devices.contains(&device)
    }

    /// Returns whether a file of this filesystem can lie at a path, or once could.
    pub fn may_lie_at(&self, device: DeviceNumber, path: &str) -> bool {
        self.is_anonymous(device) || self.mounts_above(path).any(|mount| mount.device == device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(text: &str) -> MountTable {
        MountTable::from_mounts(
            mountinfo::parse_mounts(text.as_bytes()).into_iter().map(|mount| (mount, None)).collect(),
        )
    }

    #[test]
    fn the_table_knows_what_may_hang_or_lie_at_a_path() {
        let all = mounts(
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:40 / /run/disk rw - fuse.nbdfuse nbd rw\n\
             3 1 8:2 / /srv rw - ext4 /dev/sda2 rw\n",
        );
        assert!(all.may_hang("/run/disk/file") && !all.may_hang("/srv/x.img") && !all.may_hang("/run/diskette"));
        assert!(all.is_remote_mount(2) && !all.is_remote_mount(1) && !all.has_no_remote());
        assert!(all.may_lie_at((8, 1), "/run/disk/file") && !all.may_lie_at((8, 2), "/run/disk/file"));
        // a subvolume's number is in no table
        assert!(all.may_lie_at((0, 77), "/srv/x.img"));
        assert!(!all.may_be_stacked((0, 77)));
    }

    #[test]
    fn recognizes_numbers_that_overlays_make_up() {
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
        let all = MountTable::read(&Roots::from_root(folder.path()));
        assert_eq!(all.mounts.len(), 2);
        assert_eq!((all.mounts[1].0.device, all.mounts[1].1), ((8, 5), Some(11)));
    }
}
