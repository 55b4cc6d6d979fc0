//! Which device a log lies on.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::StoreError;

/// Major and minor number of the device that bears `dir`, so that the caller
/// can warn when it is one of those measured. The major number is 0 where the
/// filesystem has no single device (btrfs, tmpfs, network).
///
/// # Errors
/// When `dir` cannot be looked at.
pub fn lies_on(dir: &Path) -> Result<(u32, u32), StoreError> {
    let device = std::fs::metadata(dir).map_err(|e| StoreError::io(dir, e))?.dev();
    Ok(split(device))
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
    fn a_directory_lies_where_the_system_says() {
        let dir = std::env::temp_dir();
        let (major, minor) = lies_on(&dir).expect("exists");
        let stat = std::process::Command::new("stat").args(["-c", "%d"]).arg(&dir).output();
        let Ok(stat) = stat else {
            eprintln!("skipped: no stat program");
            return;
        };
        let device: u64 = String::from_utf8_lossy(&stat.stdout).trim().parse().expect("a number");
        assert_eq!(split(device), (major, minor));
    }
}
