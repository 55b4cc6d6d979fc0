//! One recorder per log: a lock that the kernel drops when its holder dies.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use diskwright_hostfiles::private_files;

use crate::error::StoreError;
use crate::format::LOCK_FILE;

/// Returns true if `path` still names the open file, and also if that
/// cannot be determined.
pub(crate) fn is_same_file(file: &File, path: &Path) -> bool {
    let Ok(open_file) = file.metadata() else { return true };
    match std::fs::symlink_metadata(path) {
        Ok(named_file) => (named_file.dev(), named_file.ino()) == (open_file.dev(), open_file.ino()),
        Err(e) => !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

/// Lock of a log, held until dropped.
#[derive(Debug)]
pub(crate) struct RecorderLock {
    file: File,
    path: PathBuf,
}

impl RecorderLock {
    /// Acquires the lock of the log in `dir`; the error contains the holder's pid.
    pub fn acquire_lock(dir: &Path) -> Result<RecorderLock, StoreError> {
        let path = dir.join(LOCK_FILE);
        let to_store_error = |e| StoreError::from_io(&path, e);
        let mut file = private_files::open(&path).map_err(|e| StoreError::from_distrust(&path, e))?;
        match private_files::lock_file(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let read = Read::take(&mut file, 32).read_to_string(&mut text);
                let pid = read.ok().and_then(|_| text.trim().parse().ok());
                return Err(StoreError::LockHeld { dir: dir.to_owned(), pid });
            }
            Err(TryLockError::Error(e)) => return Err(to_store_error(e)),
        }
        // The pid only serves the next recorder's error message; a full disk may refuse it.
        let truncated = file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0)));
        let _ = truncated.and_then(|_| writeln!(file, "{}", std::process::id()));
        Ok(RecorderLock { file, path })
    }

    /// Returns true if the log's lock file was replaced or removed.
    pub fn is_file_replaced(&self) -> bool {
        !is_same_file(&self.file, &self.path)
    }
}
