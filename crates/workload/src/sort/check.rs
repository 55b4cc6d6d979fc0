//! Reads what a sort wrote: the same rows, in order, and no others.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD};

use super::blocks::RowFile;
use super::rows::{OrderCheck, RowShape};
use super::source::read_parts;
use super::{Progress, SortSource};
use crate::files::leave_cache;
use crate::{WorkError, io};

/// Whether the result is the source in order.
pub(super) fn check(
    target: RowFile<'_>,
    shape: RowShape,
    source: &SortSource,
    progress: &Progress,
) -> Result<(), WorkError> {
    let length = target.cached.metadata().map_err(io(target.path, "cannot be examined"))?.len();
    let expected = source.rows() * shape.row as u64;
    if length != expected {
        return Err(WorkError::Wrong(format!("the result has {length} bytes; the source has {expected}")));
    }
    // from the device: what the file cache holds says nothing of it
    leave_cache(target.cached, target.path)?;
    let mut order = OrderCheck::new(shape);
    read_parts(target, shape, source.rows(), progress, |rows, _| {
        let wrong = |row| WorkError::Wrong(format!("row {row} of the result is out of order"));
        order.add(rows).map_err(wrong)
    })?;
    if order.sum != source.sum() {
        let why = "the rows of the result differ from those of the source: rows were lost, duplicated or changed";
        return Err(WorkError::Wrong(why.into()));
    }
    Ok(())
}

/// Whether the result can be given a name when it is there: after hours it would be too late.
pub(super) fn can_keep(name: &Path, target: &Path) -> Result<(), WorkError> {
    let refused = |why: &str| Err(WorkError::Usage(format!("--keep {}: {why}", name.display())));
    // a link is there, wherever it leads
    if std::fs::symlink_metadata(name).is_ok() {
        return refused("already exists");
    }
    let folder = name.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(found) = std::fs::metadata(folder) else { return refused("there is no such folder") };
    if name.file_name().is_none() || rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return refused("no file can be made there");
    }
    if found.dev() != std::fs::metadata(target).map_err(io(target, "cannot be examined"))?.dev() {
        let why = format!("the result stays where it was written, on the filesystem of {}", target.display());
        return refused(&format!("{why}; choose a name there, or another --target"));
    }
    Ok(())
}

/// Gives the result a name.
pub(super) fn keep(file: &File, name: &Path) -> Result<(), WorkError> {
    let open = diskwright_hostfiles::private::again(file.as_fd());
    rustix::fs::linkat(CWD, open, CWD, name, AtFlags::SYMLINK_FOLLOW).map_err(io(name, "cannot be made"))?;
    Ok(())
}
