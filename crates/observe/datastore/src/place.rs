//! Which device a log lies on.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use diskwright_hostfiles::mounts::{holding, unescaped_path};

use crate::error::StoreError;

/// Major and minor number of the device that bears `dir`, so that the caller
/// can warn when it is one of those measured. Of a filesystem with a number of
/// its own (btrfs) it is the device that was mounted, where the mount table
/// tells; the major number is 0 where there is no device (tmpfs, network).
///
/// # Errors
/// When `dir` cannot be looked at.
pub fn lies_on(dir: &Path) -> Result<(u32, u32), StoreError> {
    let device = std::fs::metadata(dir).map_err(|e| StoreError::io(dir, e))?.dev();
    let (major, minor) = split(device);
    if major > 0 {
        return Ok((major, minor));
    }
    let table = diskwright_hostfiles::mounts::table("/proc/self/mountinfo");
    let source = std::fs::canonicalize(dir).ok().and_then(|dir| mounted(&table, &dir));
    let bears = source.and_then(|source| std::fs::metadata(source).ok()).map(|file| split(file.rdev()));
    Ok(bears.filter(|(major, _)| *major > 0).unwrap_or((major, minor)))
}

/// What was mounted where `dir` lies, by a mount table (the last of those
/// mounted at the longest fitting path).
fn mounted(table: &str, dir: &Path) -> Option<PathBuf> {
    let source = holding(table, dir).map(|row| unescaped_path(row.source));
    source.filter(|source| source.starts_with("/dev"))
}

/// The kernel's 64-bit device number: 12 low bits of the major at bit 8, its
/// rest at bit 32; 8 low bits of the minor at bit 0, its rest at bit 12.
fn split(device: u64) -> (u32, u32) {
    let major = (device >> 8) & 0xfff | (device >> 32) & 0xffff_f000;
    let minor = device & 0xff | (device >> 12) & 0xffff_ff00;
    (major as u32, minor as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_split_as_the_kernel_joins_them() {
        assert_eq!(split(0xfe00), (254, 0));
        assert_eq!(split(0x0010_3105), (0x31, 261));
        assert_eq!(split(0x0000_1000_0010_0800), (0x1000 | 8, 256));
    }

    #[test]
    fn the_mount_table_tells_what_was_mounted() {
        let table = "22 1 0:26 / / rw - ext4 /dev/vda rw\n\
            30 22 0:40 /sub /srv/big\\040disk rw,relatime shared:7 - btrfs /dev/loop3 rw,subvol=/sub\n\
            31 22 0:41 / /run rw - tmpfs none rw\n";
        let of = |dir: &str| mounted(table, Path::new(dir));
        assert_eq!(of("/srv/big disk/log"), Some("/dev/loop3".into()));
        assert_eq!(of("/srv/big disks/log"), Some("/dev/vda".into()));
        assert_eq!(of("/run/log"), None);
    }

    #[test]
    fn a_directory_lies_where_the_system_says() {
        let dir = std::env::temp_dir();
        let (major, minor) = lies_on(&dir).expect("exists");
        let stat = std::process::Command::new("stat").args(["-c", "%d"]).arg(&dir).output();
        let Ok(stat) = stat else {
            eprintln!("skipped: no stat program");
            return;
        };
        let device: u64 = String::from_utf8_lossy(&stat.stdout).trim().parse().expect("a number");
        assert!(split(device) == (major, minor) || split(device).0 == 0);
    }
}
