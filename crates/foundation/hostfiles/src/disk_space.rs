//! Free space on a filesystem: our own output always leaves a reserve to other programs.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

use rustix::fs::{StatVfs, fstatvfs};
use rustix::process::{Resource, getrlimit};

use crate::mounts::{find_mount, read_table};

/// Largest reserve that is kept free, bytes.
const MAX_RESERVE_BYTES: u64 = 1 << 30;

/// Largest file that this process may write, bytes; `None` without a limit (`ulimit -f`).
#[must_use]
pub fn max_file_bytes() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

/// Free space of a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Free for this user.
    pub free_bytes: u64,
    /// Space that our own output leaves free: a tenth of the filesystem, at most 1 GiB.
    pub reserve_bytes: u64,
}

impl DiskSpace {
    /// Space of the filesystem that holds an open file or folder.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn for_file(file: impl AsFd) -> io::Result<DiskSpace> {
        Ok(DiskSpace::from(&fstatvfs(file)?))
    }

    /// Returns true if less than the reserve is free.
    #[must_use]
    pub fn is_reserve_used(&self) -> bool {
        self.free_bytes < self.reserve_bytes
    }
}

impl From<&StatVfs> for DiskSpace {
    fn from(stat: &StatVfs) -> DiskSpace {
        let size = stat.f_blocks.saturating_mul(stat.f_frsize);
        DiskSpace {
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            reserve_bytes: (size / 10).min(MAX_RESERVE_BYTES),
        }
    }
}

/// Key that distinguishes filesystems: the device number. Each subvolume of btrfs has its own, although all share the
/// same space, so for btrfs the key is the name of the mounted device.
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
    /// If the system does not report it.
    pub fn for_path(path: &Path) -> io::Result<FilesystemKey> {
        let device = fs::metadata(path)?.dev();
        // only filesystems without a single backing device (major 0) can have several device numbers
        if rustix::fs::major(device) == 0
            && let Some(source) = btrfs_source(&read_table("/proc/self/mountinfo"), &fs::canonicalize(path)?)
        {
            return Ok(FilesystemKey::Source(source));
        }
        Ok(FilesystemKey::Device(device))
    }
}

/// Returns the mounted device of the filesystem that holds a path, by the kernel's table, if it is btrfs.
fn btrfs_source(mountinfo: &str, path: &Path) -> Option<String> {
    find_mount(mountinfo, path).filter(|row| row.kind == "btrfs").map(|row| row.source.to_owned())
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
        let key = |path: &str| FilesystemKey::for_path(Path::new(path)).unwrap();
        assert!(key("/") == key("/.") && key("/") != key("/proc"));
        assert!(FilesystemKey::for_path(Path::new("/no/such/path")).is_err());
    }

    #[test]
    fn the_reserve_is_a_tenth_or_a_gibibyte() {
        let room = DiskSpace::for_file(std::fs::File::open("/").unwrap()).unwrap();
        assert!(room.reserve_bytes <= MAX_RESERVE_BYTES && room.free_bytes > 0);
        assert!(
            DiskSpace { free_bytes: 9, reserve_bytes: 10 }.is_reserve_used()
                && !DiskSpace { free_bytes: 10, reserve_bytes: 10 }.is_reserve_used()
        );
    }
}
