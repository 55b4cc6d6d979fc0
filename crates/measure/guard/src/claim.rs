//! Asks the kernel whether anyone else uses a device or file.

use diskwright_hostfiles::private_files::proc_fd_path;
use std::fs::File;
use std::os::fd::AsRawFd;

use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;

/// Opens a block device exclusively. The kernel allows that only while nothing else has it open
/// exclusively, as filesystems, arrays, the device mapper and swap do. None of them can claim it
/// until the returned descriptor is closed.
///
/// # Errors
/// `EBUSY` if another user has claimed it; otherwise the error of open(2).
pub fn claim_exclusively(file: &OwnedFd, mode: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(proc_fd_path(file), mode | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty())
}

/// Signal sent when a lease must be given back. SIGURG is ignored by default.
const HARMLESS_SIGNAL: i32 = libc::SIGURG;
/// `F_SETSIG` of fcntl(2).
const SET_SIGNAL: i32 = 10;

/// Returns whether anything has a regular file open for writing, by any path: a process of any
/// container, a loop device, swap, a pool or a server of the kernel. `false` if the filesystem does
/// not support leases.
#[allow(unsafe_code, reason = "leases are taken by fcntl calls that no crate has as safe ones")]
pub(crate) fn has_writer(file: &File) -> bool {
    // the kernel grants a read lease only while nothing has the file open for writing, and only on a
    // descriptor that is open for reading
    let Ok(reader) = File::open(proc_fd_path(file)) else { return false };
    let set = |command: i32, value: i32| {
        // SAFETY: F_SETSIG and F_SETLEASE take integers and touch no memory of ours.
        unsafe { libc::fcntl(reader.as_raw_fd(), command, value) }
    };
    if set(SET_SIGNAL, HARMLESS_SIGNAL) != 0 {
        return false;
    }
    if set(libc::F_SETLEASE, libc::F_RDLCK) == 0 {
        set(libc::F_SETLEASE, libc::F_UNLCK);
        return false;
    }
    std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_known_to_the_kernel() {
        let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "text").unwrap();
        let file = File::open(&path).unwrap();
        assert!(!has_writer(&file));
        let reader = File::open(&path).unwrap();
        assert!(!has_writer(&file), "a reader is no writer");
        drop(reader);
        std::fs::hard_link(&path, folder.path().join("second")).unwrap();
        let writer = File::options().append(true).open(folder.path().join("second")).unwrap();
        if !has_writer(&file) {
            return eprintln!("skipped: the filesystem gives no leases");
        }
        drop(writer);
        assert!(!has_writer(&file));
    }
}
