//! Which files a log was made of, so that none is read into it twice by mistake. Each
//! import leaves a note with what the file is known by: its size, its beginning and its end.

use std::fs::{File, Metadata};
use std::os::unix::fs::FileExt;
use std::path::Path;

use diskwright_base::{Frame, Note};
use diskwright_datastore::{LogItem, LogReader, is_log};
use serde::{Deserialize, Serialize};

use super::Failure;

/// Bytes of a file's beginning and end that it is known by.
const PIECE: u64 = 64 << 10;

/// What a file is known by.
#[derive(Serialize, Deserialize)]
pub struct FileFingerprint {
    /// Its name as it was given.
    file: String,
    /// Its size as it lies there.
    bytes: u64,
    /// FNV-1a of its first and last bytes.
    head: u64,
    tail: u64,
}

impl FileFingerprint {
    /// Of a regular file that messages call so; nothing else can be known again.
    pub fn of(path: &Path, name: String) -> Option<FileFingerprint> {
        // opening a named pipe would take what is written to it from the reading
        path.metadata().ok().filter(Metadata::is_file)?;
        let file = File::open(path).ok()?;
        let found = file.metadata().ok().filter(|found| found.is_file() && found.len() > 0)?;
        let (head, tail) = ends(&file, found.len())?;
        Some(FileFingerprint { file: name, bytes: found.len(), head, tail })
    }

    /// As the note that an import leaves.
    pub fn note(&self, time_ns: i64) -> Result<Note, Failure> {
        Ok(Note::new(time_ns, Note::IMPORT, serde_json::to_string(self)?))
    }

    /// Whether a file begins with all that was read then.
    fn is_in(&self, file: &File, bytes: u64) -> bool {
        bytes >= self.bytes && ends(file, self.bytes) == Some((self.head, self.tail))
    }
}

/// Fails where the log in `to` has the file already, or what it held when it was shorter.
pub fn refuse_again(to: &Path, path: &Path, now: &FileFingerprint) -> Result<(), Failure> {
    let Some(earlier) = earlier(to, path, now)? else { return Ok(()) };
    let (file, to) = (&now.file, to.display());
    let what = match earlier.bytes == now.bytes {
        true if earlier.file == now.file => format!("{file} is already in {to}"),
        true => format!("{file} is already in {to}: it was imported as {}", earlier.file),
        false => format!(
            "{file} has grown since it was imported into {to}: importing it again would duplicate its earlier content"
        ),
    };
    Err(Failure::Failed(format!("{what}; import it into a new folder, or use --again")))
}

fn earlier(to: &Path, path: &Path, now: &FileFingerprint) -> Result<Option<FileFingerprint>, Failure> {
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
        let read = serde_json::from_str::<FileFingerprint>(&note.text).ok();
        if let Some(earlier) = read.filter(|earlier| earlier.is_in(&file, now.bytes)) {
            return Ok(Some(earlier));
        }
    }
    Ok(None)
}

/// Of the first `bytes` of a file, what their beginning and their end come to.
fn ends(file: &File, bytes: u64) -> Option<(u64, u64)> {
    let piece = |from: u64, to: u64| {
        let mut piece = vec![0; usize::try_from(to - from).ok()?];
        file.read_exact_at(&mut piece, from).ok()?;
        Some(fnv(&piece))
    };
    Some((piece(0, bytes.min(PIECE))?, piece(bytes.saturating_sub(PIECE), bytes)?))
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
