//! Room on a filesystem: what is written on the side leaves a reserve to everybody else.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{StatVfs, fstatvfs};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_or_a_gibibyte_is_kept() {
        let room = DiskSpace::of(std::fs::File::open("/").unwrap()).unwrap();
        assert!(room.reserve <= MOST_RESERVE && room.free > 0);
        assert!(DiskSpace { free: 9, reserve: 10 }.is_used_up() && !DiskSpace { free: 10, reserve: 10 }.is_used_up());
    }
}
