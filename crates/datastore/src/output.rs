//! Files being written: whole records or nothing, also on a full disk.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// Why something was not written.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It may work later: the disk is full, over quota, or failing.
    Pause(io::Error),
    /// It will not.
    Fatal(StoreError),
}

impl Fault {
    /// Sorts an error of the operating system.
    pub fn sort(path: &Path, error: io::Error) -> Fault {
        const EIO: i32 = 5;
        let passing = matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem
        );
        match passing || error.raw_os_error() == Some(EIO) {
            true => Fault::Pause(error),
            false => Fault::Fatal(StoreError::io(path, error)),
        }
    }

    /// As an error, for callers that cannot wait.
    pub fn into_error(self, path: &Path) -> StoreError {
        match self {
            Fault::Pause(e) => StoreError::io(path, e),
            Fault::Fatal(e) => e,
        }
    }
}

/// A file of records and the end of its last whole one.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    pub path: PathBuf,
    pub end: u64,
}

impl Output {
    /// Makes the file, or empties it where it is there.
    pub fn create(path: PathBuf) -> Result<Output, Fault> {
        let opened = OpenOptions::new().write(true).create(true).truncate(true).open(&path);
        let file = opened.map_err(|e| Fault::sort(&path, e))?;
        Ok(Output { file, path, end: 0 })
    }

    /// Appends records. When that fails nothing of them is left.
    pub fn append(&mut self, records: &[u8]) -> Result<(), Fault> {
        match self.file.write_all_at(records, self.end) {
            Ok(()) => {
                self.end += records.len() as u64;
                Ok(())
            }
            Err(e) => {
                // Should this fail too, the next append writes over the torn
                // part, and a reader takes it for an unfinished end.
                let _ = self.file.set_len(self.end);
                Err(Fault::sort(&self.path, e))
            }
        }
    }

    /// Cuts the file back.
    pub fn cut(&mut self, end: u64) -> Result<(), Fault> {
        self.file.set_len(end).map_err(|e| Fault::sort(&self.path, e))?;
        self.end = end;
        Ok(())
    }

    /// Waits until the device has it.
    pub fn sync(&self) -> Result<(), Fault> {
        self.file.sync_data().map_err(|e| Fault::sort(&self.path, e))
    }
}
