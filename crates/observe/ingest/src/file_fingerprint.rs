//! Fingerprints of imported files, so that none is imported twice by mistake. Each import leaves a note with the file's
//! size, beginning and end.

use std::fs::{File, Metadata};
use std::os::unix::fs::FileExt;
use std::path::Path;

use diskwright_base::checksum::hash_fnv1a;
use diskwright_base::{Frame, Note};
use diskwright_datastore::{LogItem, LogReader, is_log};
use serde::{Deserialize, Serialize};

use crate::IngestError;

/// Bytes of a file's beginning and end that are hashed.
const FINGERPRINT_BYTES: u64 = 64 << 10;

/// Fingerprint of a file.
#[derive(Serialize, Deserialize)]
pub struct FileFingerprint {
    /// Its name as given.
    file: String,
    /// Its size on disk.
    bytes: u64,
    /// FNV-1a hash of its first [`FINGERPRINT_BYTES`].
    head: u64,
    /// FNV-1a hash of its last [`FINGERPRINT_BYTES`].
    tail: u64,
}

impl FileFingerprint {
    /// Fingerprint of a regular file, with the name for messages; other files cannot be recognized again.
    pub fn from_file(path: &Path, name: String) -> Option<FileFingerprint> {
        // opening a named pipe would consume data that the import needs
        path.metadata().ok().filter(Metadata::is_file)?;
        let file = File::open(path).ok()?;
        let metadata = file.metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() > 0)?;
        let (head, tail) = hash_ends(&file, metadata.len())?;
        Some(FileFingerprint { file: name, bytes: metadata.len(), head, tail })
    }

    /// Returns the note that an import leaves.
    pub(crate) fn to_import_note(&self, time_ns: i64) -> Result<Note, IngestError> {
        Ok(Note::new(time_ns, Note::IMPORT, serde_json::to_string(self)?))
    }

    /// True if a file of this size begins with the bytes that were imported.
    fn matches_start_of(&self, file: &File, bytes: u64) -> bool {
        bytes >= self.bytes && hash_ends(file, self.bytes) == Some((self.head, self.tail))
    }
}

/// Fails if the log in `to` already has the file, or a shorter version of it.
///
/// # Errors
/// When it has, or cannot be read.
pub fn refuse_repeated_import(to: &Path, path: &Path, fingerprint: &FileFingerprint) -> Result<(), IngestError> {
    let Some(earlier) = find_earlier_import(to, path, fingerprint)? else { return Ok(()) };
    let (file, to) = (&fingerprint.file, to.display());
    let finding = match earlier.bytes == fingerprint.bytes {
        true if earlier.file == fingerprint.file => format!("{file} is already in {to}"),
        true => format!("{file} is already in {to}: it was imported as {}", earlier.file),
        false => format!(
            "{file} has grown since it was imported into {to}: importing it again would duplicate its earlier content"
        ),
    };
    Err(IngestError::RepeatedImport { finding })
}

fn find_earlier_import(
    to: &Path,
    path: &Path,
    fingerprint: &FileFingerprint,
) -> Result<Option<FileFingerprint>, IngestError> {
    if !to.is_dir() || !is_log(to) {
        return Ok(None);
    }
    let Ok(file) = File::open(path) else { return Ok(None) };
    let mut reader = LogReader::open(to)?;
    let mut frame = Frame::default();
    while let Some(item) = reader.next(&mut frame)? {
        let LogItem::Note(note) = item else { continue };
        if note.kind != Note::IMPORT {
            continue;
        }
        let imported = serde_json::from_str::<FileFingerprint>(note.text()).ok();
        if let Some(earlier) = imported.filter(|earlier| earlier.matches_start_of(&file, fingerprint.bytes)) {
            return Ok(Some(earlier));
        }
    }
    Ok(None)
}

/// Hashes the beginning and the end of the first `bytes` of a file.
fn hash_ends(file: &File, bytes: u64) -> Option<(u64, u64)> {
    let hash_range = |from: u64, to: u64| {
        let mut piece = vec![0; usize::try_from(to - from).ok()?];
        file.read_exact_at(&mut piece, from).ok()?;
        Some(hash_fnv1a(&piece))
    };
    let head = hash_range(0, bytes.min(FINGERPRINT_BYTES))?;
    Some((head, hash_range(bytes.saturating_sub(FINGERPRINT_BYTES), bytes)?))
}
