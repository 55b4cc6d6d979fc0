//! Bookmarks, set by anybody at any time: each is one appending write of
//! whole records, so no lock is needed beside a running recorder.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use diskwright_base::Note;

use crate::error::StoreError;
use crate::format::{Head, MARKS, Role};
use crate::notes::{self, StoredNote};
use crate::reader::require_log;

/// Adds a note to the log in `dir`, whether or not a recorder runs.
///
/// # Errors
/// When `dir` is no log, or its bookmarks cannot be written.
pub fn mark(dir: &Path, note: &Note) -> Result<(), StoreError> {
    require_log(dir)?;
    let path = dir.join(MARKS);
    let wrap = |e| StoreError::io(&path, e);
    let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(wrap)?;
    let before = file.metadata().map_err(wrap)?.len();
    let mut record = Vec::new();
    if before == 0 {
        // Two first marks at once both write a head; readers pass a second one over.
        Head { role: Role::Marks, segment: 0, next_tick: 0, next_note: 0 }.write(&mut record);
    }
    let mut note = note.clone();
    let mut end = note.text.len().min(notes::MOST_PLAIN / 2);
    while !note.text.is_char_boundary(end) {
        end -= 1;
    }
    note.text.truncate(end);
    notes::write(&mut record, &mut notes::Scratch::default(), 0, &[StoredNote { flags: 0, note }]);
    file.write_all(&record).map_err(wrap)
}
