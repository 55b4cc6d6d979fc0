//! Walks the files below a folder, in order of their names. Links are not followed.

use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;

use diskwright_datastore::is_log;

use super::Failure;

/// Maximum nesting of folders.
const MAX_DEPTH: usize = 24;
/// Maximum number of files and folders.
const MAX_ENTRIES: usize = 200_000;

/// Calls `each` with every file, and with every folder that is a Diskwright log.
pub fn walk_folder(path: &Path, each: &mut dyn FnMut(&Path) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut left = MAX_ENTRIES;
    walk_level(path, 0, &mut left, each)
}

fn walk_level(
    path: &Path,
    depth: usize,
    left: &mut usize,
    each: &mut dyn FnMut(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let error = |e: io::Error| Failure::Failed(format!("{}: {e}", path.display()));
    let mut entries: Vec<DirEntry> = fs::read_dir(path).and_then(Iterator::collect).map_err(error)?;
    entries.sort_by_key(DirEntry::file_name);
    *left = left.checked_sub(entries.len()).ok_or_else(|| {
        Failure::Failed(format!("{}: contains more than {MAX_ENTRIES} files; give a part of it", path.display()))
    })?;
    for entry in entries {
        let (kind, path) = (entry.file_type().map_err(error)?, entry.path());
        if kind.is_file() || kind.is_dir() && is_log(&path) {
            each(&path)?;
        } else if kind.is_dir() && depth < MAX_DEPTH {
            walk_level(&path, depth + 1, left, each)?;
        }
    }
    Ok(())
}
