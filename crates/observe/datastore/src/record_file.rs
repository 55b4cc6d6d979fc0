//! Output files that contain whole records or nothing, also on a full disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskwright_hostfiles::private_files::{self, PrivateFileError};

use crate::error::StoreError;
use crate::recorder_lock::is_same_file;

/// Reason why a write failed.
#[derive(Debug)]
pub(crate) enum WriteFault {
    /// A later attempt may succeed: the disk is full, over quota, or failing, or descriptors are short.
    Pause(io::Error),
    /// A later attempt will fail too.
    Fatal(StoreError),
}

impl WriteFault {
    /// Classifies an error of the operating system.
    pub fn from_io(path: &Path, error: io::Error) -> WriteFault {
        const EIO: i32 = 5;
        const ENFILE: i32 = 23;
        const EMFILE: i32 = 24;
        let temporary = matches!(
            error.kind(),
            io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::ReadOnlyFilesystem
                // the limit of the process (`ulimit -f`), or of the filesystem
                | io::ErrorKind::FileTooLarge
                | io::ErrorKind::OutOfMemory
        );
        let is_short = matches!(error.raw_os_error(), Some(EIO | ENFILE | EMFILE));
        match temporary || is_short {
            true => WriteFault::Pause(error),
            false => WriteFault::Fatal(StoreError::from_io(path, error)),
        }
    }

    /// Classifies the reason why a file could not be opened.
    pub fn from_distrust(path: &Path, distrust: PrivateFileError) -> WriteFault {
        match distrust {
            PrivateFileError::Io { source, .. } => WriteFault::from_io(path, source),
            other => WriteFault::Fatal(StoreError::from_distrust(path, other)),
        }
    }

    /// Classifies an error of opening a log.
    pub fn from_store_error(error: StoreError) -> WriteFault {
        match error {
            StoreError::Io { path, source } => WriteFault::from_io(&path, source),
            other => WriteFault::Fatal(other),
        }
    }

    /// Converts to an error, for callers that cannot retry later.
    pub fn into_error(self, path: &Path) -> StoreError {
        match self {
            WriteFault::Pause(e) => StoreError::from_io(path, e),
            WriteFault::Fatal(e) => e,
        }
    }
}

/// A file of records, and the end of its last whole record.
#[derive(Debug)]
pub(crate) struct RecordFile {
    file: Arc<File>,
    pub path: PathBuf,
    pub end: u64,
}

impl RecordFile {
    /// Creates the file, or empties it if it exists.
    pub fn create(path: PathBuf) -> Result<RecordFile, WriteFault> {
        let file = private_files::create(&path).map_err(|e| WriteFault::from_distrust(&path, e))?;
        Ok(RecordFile { file: Arc::new(file), path, end: 0 })
    }

    /// Appends records. If that fails, none of their bytes remain.
    pub fn append(&mut self, records: &[u8]) -> Result<(), WriteFault> {
        match self.file.write_all_at(records, self.end) {
            Ok(()) => {
                self.end += records.len() as u64;
                Ok(())
            }
            Err(e) => {
                // If this fails too, a reader sees an unfinished record at the end
                // until the next append overwrites it.
                let _ = self.file.set_len(self.end);
                Err(WriteFault::from_io(&self.path, e))
            }
        }
    }

    /// Truncates the file to `end` bytes.
    pub fn truncate_to(&mut self, end: u64) -> Result<(), WriteFault> {
        self.file.set_len(end).map_err(|e| WriteFault::from_io(&self.path, e))?;
        self.end = end;
        Ok(())
    }

    /// The open file.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Returns true if the path now names another file, or none.
    pub fn is_file_replaced(&self) -> bool {
        !is_same_file(&self.file, &self.path)
    }
}
