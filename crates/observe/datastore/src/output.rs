//! Files being written: whole records or nothing, also on a full disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskwright_hostfiles::private::{self, Distrust};

use crate::error::StoreError;
use crate::lock::is_same;

/// Why something was not written.
#[derive(Debug)]
pub(crate) enum WriteFault {
    /// It may work later: the disk is full, over quota, or failing.
    Pause(io::Error),
    /// It will not.
    Fatal(StoreError),
}

impl WriteFault {
    /// Sorts an error of the operating system.
    pub fn sort(path: &Path, error: io::Error) -> WriteFault {
        const EIO: i32 = 5;
        let passing = matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem
        );
        match passing || error.raw_os_error() == Some(EIO) {
            true => WriteFault::Pause(error),
            false => WriteFault::Fatal(StoreError::io(path, error)),
        }
    }

    /// Sorts what kept a file from being opened.
    pub fn distrust(path: &Path, distrust: Distrust) -> WriteFault {
        match distrust {
            Distrust::Io { source, .. } => WriteFault::sort(path, source),
            other => WriteFault::Fatal(StoreError::distrust(path, other)),
        }
    }

    /// Sorts an error of opening a log.
    pub fn of(error: StoreError) -> WriteFault {
        match error {
            StoreError::Io { path, source } => WriteFault::sort(&path, source),
            other => WriteFault::Fatal(other),
        }
    }

    /// As an error, for callers that cannot wait.
    pub fn into_error(self, path: &Path) -> StoreError {
        match self {
            WriteFault::Pause(e) => StoreError::io(path, e),
            WriteFault::Fatal(e) => e,
        }
    }
}

/// A file of records and the end of its last whole one.
#[derive(Debug)]
pub(crate) struct RecordOutput {
    file: Arc<File>,
    pub path: PathBuf,
    pub end: u64,
}

impl RecordOutput {
    /// Makes the file, or empties it where it is there.
    pub fn create(path: PathBuf) -> Result<RecordOutput, WriteFault> {
        let file = private::create(&path).map_err(|e| WriteFault::distrust(&path, e))?;
        Ok(RecordOutput { file: Arc::new(file), path, end: 0 })
    }

    /// Appends records. When that fails nothing of them is left.
    pub fn append(&mut self, records: &[u8]) -> Result<(), WriteFault> {
        match self.file.write_all_at(records, self.end) {
            Ok(()) => {
                self.end += records.len() as u64;
                Ok(())
            }
            Err(e) => {
                // Should this fail too, the next append writes over the torn
                // part, and a reader takes it for an unfinished end.
                let _ = self.file.set_len(self.end);
                Err(WriteFault::sort(&self.path, e))
            }
        }
    }

    /// Cuts the file back.
    pub fn cut(&mut self, end: u64) -> Result<(), WriteFault> {
        self.file.set_len(end).map_err(|e| WriteFault::sort(&self.path, e))?;
        self.end = end;
        Ok(())
    }

    /// The open file.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// True where the path names another file by now, or none.
    pub fn is_lost(&self) -> bool {
        !is_same(&self.file, &self.path)
    }
}
