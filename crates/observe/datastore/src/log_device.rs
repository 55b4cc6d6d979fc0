//! Finds the device that holds a log.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use diskwright_hostfiles::mounts::{find_mount, unescape_path};

use crate::error::StoreError;

/// Returns the major and minor number of the device that holds `dir`, so that the caller
/// can warn if it is one of the measured devices. For a filesystem with an anonymous device
/// number (btrfs) it is the mounted device, if the mount table names it. The major number
/// is 0 where there is no device (tmpfs, network).
///
/// # Errors
/// When the metadata of `dir` cannot be read.
pub fn find_log_device(dir: &Path) -> Result<(u32, u32), StoreError> {
    let device = std::fs::metadata(dir).map_err(|e| StoreError::from_io(dir, e))?.dev();
    let (major, minor) = split_device_number(device);
    if major > 0 {
        return Ok((major, minor));
    }
    let table = diskwright_hostfiles::mounts::read_table("/proc/self/mountinfo");
    let source = std::fs::canonicalize(dir).ok().and_then(|dir| mounted_device(&table, &dir));
    let device_number =
        source.and_then(|source| std::fs::metadata(source).ok()).map(|file| split_device_number(file.rdev()));
    Ok(device_number.filter(|(major, _)| *major > 0).unwrap_or((major, minor)))
}

/// Finds the device mounted where `dir` lies in a mount table: the last one
/// mounted at the longest matching path.
fn mounted_device(table: &str, dir: &Path) -> Option<PathBuf> {
    let source = find_mount(table, dir).map(|row| unescape_path(row.source));
    source.filter(|source| source.starts_with("/dev"))
}

/// Splits the kernel's 64-bit device number into major and minor: the 12 low bits of the
/// major are at bit 8, the rest at bit 32; the 8 low bits of the minor at bit 0, the rest at bit 12.
fn split_device_number(device: u64) -> (u32, u32) {
    let major = (device >> 8) & 0xfff | (device >> 32) & 0xffff_f000;
    let minor = device & 0xff | (device >> 12) & 0xffff_ff00;
    (major as u32, minor as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_split_as_the_kernel_joins_them() {
        assert_eq!(split_device_number(0xfe00), (254, 0));
        assert_eq!(split_device_number(0x0010_3105), (0x31, 261));
        assert_eq!(split_device_number(0x0000_1000_0010_0800), (0x1000 | 8, 256));
    }

    #[test]
    fn finds_the_device_in_the_mount_table() {
        let table = "22 1 0:26 / / rw - ext4 /dev/vda rw\n\
            30 22 0:40 /sub /srv/big\\040disk rw,relatime shared:7 - btrfs /dev/loop3 rw,subvol=/sub\n\
            31 22 0:41 / /run rw - tmpfs none rw\n";
        let mounted_at = |dir: &str| mounted_device(table, Path::new(dir));
        assert_eq!(mounted_at("/srv/big disk/log"), Some("/dev/loop3".into()));
        assert_eq!(mounted_at("/srv/big disks/log"), Some("/dev/vda".into()));
        assert_eq!(mounted_at("/run/log"), None);
    }

    #[test]
    fn agrees_with_stat_about_the_device() {
        let dir = std::env::temp_dir();
        let (major, minor) = find_log_device(&dir).expect("exists");
        let stat = std::process::Command::new("stat").args(["-c", "%d"]).arg(&dir).output();
        let Ok(stat) = stat else {
            eprintln!("skipped: no stat program");
            return;
        };
        let device: u64 = String::from_utf8_lossy(&stat.stdout).trim().parse().expect("a number");
        assert!(split_device_number(device) == (major, minor) || split_device_number(device).0 == 0);
    }
}
