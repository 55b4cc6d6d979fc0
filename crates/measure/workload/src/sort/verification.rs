//! Verifies the result of a sort: it must have the rows of the source, in order, and no others. Also gives the result a
//! name, if it is to be kept.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, StatxFlags, statx};

use super::row_io::RowFile;
use super::rows::{OrderCheck, RowShape};
use super::source::read_parts;
use super::{Progress, SortSource};
use crate::files::sync_and_drop_cache;
use crate::{WorkError, io_error};

/// Verifies that the result consists of the rows of the source in order.
pub(super) fn verify_result(
    target: RowFile<'_>,
    shape: RowShape,
    source: &SortSource,
    progress: &Progress,
) -> Result<(), WorkError> {
    let length = target.cached.metadata().map_err(io_error(target.path, "cannot be examined"))?.len();
    let expected = source.row_count() * shape.row_bytes as u64;
    if length != expected {
        return Err(WorkError::VerificationFailed(format!("the result has {length} bytes; the source has {expected}")));
    }
    // read from the device: the content of the file cache would prove nothing about the device
    sync_and_drop_cache(target.cached, target.path)?;
    let mut order = OrderCheck::new(shape);
    read_parts(target, shape, source.row_count(), progress, |rows, _| {
        let order_error = |row| WorkError::VerificationFailed(format!("row {row} of the result is out of order"));
        order.check_rows(rows).map_err(order_error)
    })?;
    if order.sum != source.row_sum() {
        let message = "the rows of the result differ from those of the source: rows were lost, duplicated or changed";
        return Err(WorkError::VerificationFailed(message.into()));
    }
    Ok(())
}

/// Checks before the sort that the result can be given a name, so that this does not fail after hours.
pub(super) fn check_keep_name(name: &Path, target: &Path) -> Result<(), WorkError> {
    let refused = |why: &str| Err(WorkError::Usage(format!("--keep {}: {why}", name.display())));
    // also true for a dangling link
    if std::fs::symlink_metadata(name).is_ok() {
        return refused("already exists");
    }
    let folder = name.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(folder_metadata) = std::fs::metadata(folder) else { return refused("there is no such folder") };
    if name.file_name().is_none() || rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return refused("no file can be made there");
    }
    let target_metadata = std::fs::metadata(target).map_err(io_error(target, "cannot be examined"))?;
    let mounts = mount_id(folder).zip(mount_id(target));
    let is_same_filesystem = folder_metadata.dev() == target_metadata.dev();
    let Some(unshared) = describe_unshared(is_same_filesystem, mounts) else { return Ok(()) };
    let reason = format!("the result stays where it was written, {unshared} of {}", target.display());
    refused(&format!("{reason}; choose a name there, or another --target"))
}

/// Describes what a name and the result would have to share but do not; `None` if the result can get the name. The
/// kernel cannot link a file into another mount of its filesystem (a bind mount, a container's volume).
fn describe_unshared(is_same_filesystem: bool, mounts: Option<(u64, u64)>) -> Option<&'static str> {
    match mounts {
        _ if !is_same_filesystem => Some("on the filesystem"),
        Some((name, result)) if name != result => Some("in the mount"),
        _ => None,
    }
}

/// Returns the id of the mount of a path; `None` before Linux 5.8.
fn mount_id(path: &Path) -> Option<u64> {
    let status = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    StatxFlags::from_bits_retain(status.stx_mask).contains(StatxFlags::MNT_ID).then_some(status.stx_mnt_id)
}

/// Gives the result a name.
pub(super) fn link_result(file: &File, name: &Path) -> Result<(), WorkError> {
    let descriptor_path = diskwright_hostfiles::private_files::proc_fd_path(file.as_fd());
    rustix::fs::linkat(CWD, descriptor_path, CWD, name, AtFlags::SYMLINK_FOLLOW)
        .map_err(io_error(name, "cannot be made"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_a_name_only_in_the_mount_of_the_result() {
        let (folder, below) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        check_keep_name(&folder.path().join("rows"), below.path()).unwrap();
        assert!(mount_id(folder.path()).is_none_or(|own| mount_id(Path::new("/proc")) != Some(own)));
        let error = check_keep_name(&folder.path().join("rows"), Path::new("/proc")).unwrap_err().to_string();
        assert!(error.contains("on the filesystem of /proc; choose a name there"), "{error}");
        assert_eq!(describe_unshared(true, Some((31, 32))), Some("in the mount"));
        assert_eq!([Some((31, 31)), None].map(|mounts| describe_unshared(true, mounts)), [None; 2]);
    }
}
