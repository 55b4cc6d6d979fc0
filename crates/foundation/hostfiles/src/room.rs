//! Room on a filesystem: what is written on the side leaves a reserve to everybody else.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

use rustix::fs::{StatVfs, fstatvfs};

use crate::mounts::{holding, table};

/// The most that is kept free.
const MOST_RESERVE: u64 = 1 << 30;

/// Room of a filesystem, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Free for this user.
    pub free: u64,
    /// Of that, what stays free: a tenth of the filesystem, 1 GiB at most.
    pub reserve: u64,
}

impl DiskSpace {
    /// Of the filesystem on which an open file or folder lies.
    ///
    /// # Errors
    /// Where the system does not tell.
    pub fn of(file: impl AsFd) -> io::Result<DiskSpace> {
        Ok(DiskSpace::from(&fstatvfs(file)?))
    }

    /// Whether the reserve is used up.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.free < self.reserve
    }
}

impl From<&StatVfs> for DiskSpace {
    fn from(told: &StatVfs) -> DiskSpace {
        let size = told.f_blocks.saturating_mul(told.f_frsize);
        DiskSpace { free: told.f_bavail.saturating_mul(told.f_frsize), reserve: (size / 10).min(MOST_RESERVE) }
    }
}

/// What tells filesystems apart: their device numbers. Subvolumes of btrfs have one each and share their room, so that
/// there it is the name of what is mounted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilesystemKey {
    /// A device number.
    Device(u64),
    /// What is mounted (`/dev/sda1`).
    Source(String),
}

impl FilesystemKey {
    /// Of the filesystem of a file or folder.
    ///
    /// # Errors
    /// Where the system does not tell.
    pub fn of(path: &Path) -> io::Result<FilesystemKey> {
        let device = fs::metadata(path)?.dev();
        // only filesystems without a device of their own can have several numbers
        if rustix::fs::major(device) == 0
            && let Some(source) = btrfs_source(&table("/proc/self/mountinfo"), &fs::canonicalize(path)?)
        {
            return Ok(FilesystemKey::Source(source));
        }
        Ok(FilesystemKey::Device(device))
    }
}

/// What is mounted where a path lies, by the kernel's table, if that is btrfs.
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
