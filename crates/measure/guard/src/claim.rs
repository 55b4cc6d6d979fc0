//! Asks the kernel whether anyone else uses a device or file.

use diskwright_hostfiles::private_files::proc_fd_path;
use std::fs::File;
use std::os::fd::AsRawFd;

use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;

/// Opens a block device exclusively. The kernel allows that only while no one else has it open
/// exclusively (filesystems, arrays, device mapper and swap all do), and as long as we have it,
/// none of them gets it.
///
/// # Errors
/// `EBUSY` if another user has it; otherwise the error of the system.
pub fn claim_exclusively(file: &OwnedFd, mode: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(proc_fd_path(file), mode | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty())
}

/// Signal sent when a lease must be given back; this one does nothing by default.
const HARMLESS_SIGNAL: i32 = libc::SIGURG;
/// `F_SETSIG` of fcntl(2).
const SET_SIGNAL: i32 = 10;

/// Returns whether anyone has a regular file open for writing: a process of any container, a loop
/// device, swap, a pool or a server of the kernel, by whatever path. `false` if the filesystem does
/// not support leases.
#[allow(unsafe_code, reason = "leases are taken by fcntl calls that no crate has as safe ones")]
pub(crate) fn has_writer(file: &File) -> bool {
    // a read lease is given if no one writes, and only to a reader
    let Ok(own) = File::open(proc_fd_path(file)) else { return false };
    let call = |command: i32, value: i32| {
        // SAFETY: F_SETSIG and F_SETLEASE take integers and touch no memory of ours.
        unsafe { libc::fcntl(own.as_raw_fd(), command, value) }
    };
    if call(SET_SIGNAL, HARMLESS_SIGNAL) != 0 {
        return false;
    }
    if call(libc::F_SETLEASE, libc::F_RDLCK) == 0 {
        call(libc::F_SETLEASE, libc::F_UNLCK);
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
