//! Free space on a filesystem: our own output always leaves a reserve to other programs.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

use rustix::fs::{StatVfs, fstatvfs};

use crate::mounts::{holding, table};

/// Largest reserve that is kept free, bytes.
const MOST_RESERVE: u64 = 1 << 30;

/// Free space of a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Free for this user.
    pub free: u64,
    /// Part of it that stays free: a tenth of the filesystem, at most 1 GiB.
    pub reserve: u64,
}

impl DiskSpace {
    /// Space of the filesystem that holds an open file or folder.
    ///
    /// # Errors
    /// Where the system does not report it.
    pub fn of(file: impl AsFd) -> io::Result<DiskSpace> {
        Ok(DiskSpace::from(&fstatvfs(file)?))
    }

    /// Returns true if less than the reserve is free.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.free < self.reserve
    }
}

impl From<&StatVfs> for DiskSpace {
    fn from(stat: &StatVfs) -> DiskSpace {
        let size = stat.f_blocks.saturating_mul(stat.f_frsize);
        DiskSpace { free: stat.f_bavail.saturating_mul(stat.f_frsize), reserve: (size / 10).min(MOST_RESERVE) }
    }
}

/// Key that distinguishes filesystems: the device number. Subvolumes of btrfs have one each and share their space, so
/// for btrfs it is the name of the mounted device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilesystemKey {
    /// A device number.
    Device(u64),
    /// The mounted device (`/dev/sda1`).
    Source(String),
}

impl FilesystemKey {
    /// Key of the filesystem of a file or folder.
    ///
    /// # Errors
    /// Where the system does not report it.
    pub fn of(path: &Path) -> io::Result<FilesystemKey> {
        let device = fs::metadata(path)?.dev();
        // only filesystems without a single backing device (major 0) can have several device numbers
        if rustix::fs::major(device) == 0
            && let Some(source) = btrfs_source(&table("/proc/self/mountinfo"), &fs::canonicalize(path)?)
        {
            return Ok(FilesystemKey::Source(source));
        }
        Ok(FilesystemKey::Device(device))
    }
}

/// Returns the mounted device of the filesystem that holds a path, by the kernel's table, if it is btrfs.
fn btrfs_source(mountinfo: &str, path: &Path) -> Option<String> {
    holding(mountinfo, path).filter(|row| row.kind == "btrfs").map(|row| row.source.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subvolumes_of_btrfs_are_one_filesystem() {
        let mounts = "26 1 0:23 /@ / rw shared:1 - btrfs /dev/sda2 rw,subvol=/@\n\
                      40 26 0:24 /@home /home rw - btrfs /dev/sda2 rw,subvol=/@home\n\
                      41 26 0:30 / /data\\040x rw - btrfs /dev/sdb rw\n\
                      42 26 8:3 / /home/old rw - ext4 /dev/sda3 rw\n";
        let source = |path: &str| btrfs_source(mounts, Path::new(path));
        assert_eq!([source("/var/lib"), source("/home/me")], [Some("/dev/sda2".into()), Some("/dev/sda2".into())]);
        assert_eq!((source("/data x/a"), source("/home/old/b")), (Some("/dev/sdb".into()), None));
        let key = |path: &str| FilesystemKey::of(Path::new(path)).unwrap();
        assert!(key("/") == key("/.") && key("/") != key("/proc"));
        assert!(FilesystemKey::of(Path::new("/no/such/path")).is_err());
    }

    #[test]
    fn a_tenth_or_a_gibibyte_is_kept() {
        let room = DiskSpace::of(std::fs::File::open("/").unwrap()).unwrap();
        assert!(room.reserve <= MOST_RESERVE && room.free > 0);
        assert!(DiskSpace { free: 9, reserve: 10 }.is_used_up() && !DiskSpace { free: 10, reserve: 10 }.is_used_up());
    }
}
