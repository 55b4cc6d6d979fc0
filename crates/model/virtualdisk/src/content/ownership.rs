//! Checks whether a file may become a virtual disk's content: no one else uses it, and its data
//! were written by a virtual disk. Files with arrays show this by their ledger; the file of
//! standalone drives is a plain image, and has an extended attribute as a mark.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use diskwright_guard as guard;
use diskwright_hostfiles::private_files;
use rustix::fs::{SeekFrom, XattrFlags, fgetxattr, fsetxattr, seek};
use rustix::io::Errno;

use super::error::ContentError;

/// Extended attribute of a file that is a virtual disk's content.
const MARK_ATTRIBUTE: &str = "user.diskwright.disk";

/// Checks a file, or the path of a new one, before it is opened for writing.
pub fn check_backing_file(path: &Path, has_ledger: bool) -> Result<(), ContentError> {
    let error = |reason| ContentError::File { path: path.to_owned(), operation: "cannot be inspected", reason };
    let file = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => File::open(path).map_err(error)?,
        // a device, a pipe or a folder is refused when it is opened, a new file is created
        Ok(_) => return Ok(()),
        Err(reason) if reason.kind() == io::ErrorKind::NotFound => return Ok(guard::check_new(path)?),
        Err(reason) => return Err(error(reason)),
    };
    // another virtual disk gets its own error message
    if let Err(TryLockError::WouldBlock) = private_files::lock_file(&file) {
        return Err(ContentError::InUse(path.to_owned()));
    }
    file.unlock().map_err(error)?;
    guard::check_file(path)?;
    if has_ledger || is_empty(&file) || is_marked(&file) {
        return Ok(());
    }
    Err(ContentError::NotOurs(path.to_owned()))
}

/// Marks an open file as content; not every filesystem supports that.
pub fn mark_as_content(file: &File) {
    let _ = fsetxattr(file, MARK_ATTRIBUTE, b"1", XattrFlags::empty());
}

/// Returns whether nothing was ever written to it.
fn is_empty(file: &File) -> bool {
    seek(file, SeekFrom::Data(0)) == Err(Errno::NXIO)
}

/// Returns whether it has the mark, or is on a filesystem without extended attributes.
fn is_marked(file: &File) -> bool {
    !matches!(fgetxattr(file, MARK_ATTRIBUTE, &mut [0; 8]), Err(Errno::NODATA))
}
