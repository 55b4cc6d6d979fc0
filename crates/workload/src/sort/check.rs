//! Reads what a sort wrote: the same rows, in order, and no others.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD};

use super::blocks::RowFile;
use super::rows::{OrderCheck, RowShape};
use super::source::read_parts;
use super::{Progress, SortSource};
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

/// Gives the result a name.
pub(super) fn keep(file: &File, name: &Path) -> Result<(), WorkError> {
    let open = diskwright_hostfiles::private::again(file.as_fd());
    rustix::fs::linkat(CWD, open, CWD, name, AtFlags::SYMLINK_FOLLOW).map_err(io(name, "cannot be made"))?;
    Ok(())
}
