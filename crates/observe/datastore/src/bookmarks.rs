//! Bookmarks, which any process may set at any time: each is one appending write of
//! whole records, so it needs no lock while a recorder runs.

use std::fs;
use std::io::Write;
use std::path::Path;

use diskwright_base::Note;
use diskwright_hostfiles::private_files;

use crate::error::StoreError;
use crate::format::{FileRole, HeadRecord, MARKS_FILE};
use crate::log_detection::require_log;
use crate::notes::{self, StoredNote};

/// Adds a bookmark to the log in `dir`, whether or not a recorder runs.
///
/// # Errors
/// When `dir` is not a log, or its bookmarks cannot be written.
pub fn add_bookmark(dir: &Path, note: &Note) -> Result<(), StoreError> {
    require_log(dir)?;
    private_files::check_folder_trust(dir).map_err(|e| StoreError::from_distrust(dir, e))?;
    let path = dir.join(MARKS_FILE);
    let to_store_error = |e| StoreError::from_io(&path, e);
    if !path.try_exists().map_err(to_store_error)? {
        create_marks_file(dir, &path)?;
    }
    let mut file = private_files::open_append(&path).map_err(|e| StoreError::from_distrust(&path, e))?;
    let length_before = file.metadata().map_err(to_store_error)?.len();
    let mut record = Vec::new();
    if length_before == 0 {
        // Two simultaneous first bookmarks both write a head; readers skip the second.
        write_marks_head(&mut record);
    }
    let mut end = note.text().len().min(notes::MAX_PLAIN_BYTES / 2);
    while !note.text().is_char_boundary(end) {
        end -= 1;
    }
    let note = Note::new(note.time_ns, &note.kind, &note.text()[..end]);
    notes::write(&mut record, &mut notes::NoteScratch::default(), 0, &[StoredNote { flags: 0, note }]);
    file.write_all(&record).and_then(|()| file.sync_data()).map_err(to_store_error)
}

fn write_marks_head(out: &mut Vec<u8>) {
    HeadRecord { role: FileRole::Marks, segment: 0, next_tick: 0, next_note: 0 }.write(out);
}

/// Creates the file together with its head, so that an empty file always means lost bookmarks.
fn create_marks_file(dir: &Path, path: &Path) -> Result<(), StoreError> {
    let temporary = dir.join(format!("{}.{}", MARKS_FILE, std::process::id()));
    let to_store_error = |e| StoreError::from_io(&temporary, e);
    let mut head = Vec::new();
    write_marks_head(&mut head);
    let mut file = private_files::create(&temporary).map_err(|e| StoreError::from_distrust(&temporary, e))?;
    file.write_all(&head).and_then(|()| file.sync_data()).map_err(to_store_error)?;
    // another process was quicker, or the filesystem cannot do this: the caller uses the file that exists
    if private_files::rename_if_free(&temporary, path).is_err() {
        fs::remove_file(&temporary).map_err(to_store_error)?;
    }
    Ok(())
}

/// Returns true if the bookmark file exists and is empty, without even a head.
pub(crate) fn is_empty_marks_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|file| file.is_file() && file.len() == 0)
}
