//! Walks the files below a folder, in order of their names. Links are not followed.

use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;

use diskwright_datastore::is_log;

use crate::IngestError;

/// Maximum nesting of folders.
const MAX_DEPTH: usize = 24;
/// Maximum number of files and folders.
const MAX_ENTRIES: usize = 200_000;

/// Calls `visit` with every file, and with every folder that is a Diskwright log.
pub fn walk_folder(path: &Path, visit: &mut dyn FnMut(&Path) -> Result<(), IngestError>) -> Result<(), IngestError> {
    let mut entries_left = MAX_ENTRIES;
    walk_level(path, 0, &mut entries_left, visit)
}

fn walk_level(
    path: &Path,
    depth: usize,
    entries_left: &mut usize,
    visit: &mut dyn FnMut(&Path) -> Result<(), IngestError>,
) -> Result<(), IngestError> {
    let error = |e: io::Error| IngestError::Refused(format!("{}: {e}", path.display()));
    let mut entries: Vec<DirEntry> = fs::read_dir(path).and_then(Iterator::collect).map_err(error)?;
    entries.sort_by_key(DirEntry::file_name);
    *entries_left = entries_left.checked_sub(entries.len()).ok_or_else(|| {
        IngestError::Refused(format!("{}: contains more than {MAX_ENTRIES} files; give a part of it", path.display()))
    })?;
    for entry in entries {
        let (kind, path) = (entry.file_type().map_err(error)?, entry.path());
        if kind.is_file() || kind.is_dir() && is_log(&path) {
            visit(&path)?;
        } else if kind.is_dir() && depth < MAX_DEPTH {
            walk_level(&path, depth + 1, entries_left, visit)?;
        }
    }
    Ok(())
}
