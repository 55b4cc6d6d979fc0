//! One recorder a log: a lock that the kernel drops when its holder dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::error::StoreError;
use crate::format::LOCK;

/// Holds the lock until dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of the log in `dir`, or says who has it.
    pub fn take(dir: &Path) -> Result<Lock, StoreError> {
        let path = dir.join(LOCK);
        let wrap = |e| StoreError::io(&path, e);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(wrap)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let read = Read::take(&mut file, 32).read_to_string(&mut text);
                let pid = read.ok().and_then(|_| text.trim().parse().ok());
                return Err(StoreError::LockHeld { dir: dir.to_owned(), pid });
            }
            Err(TryLockError::Error(e)) => return Err(wrap(e)),
        }
        // The pid is a courtesy to whoever comes second; a full disk may refuse it.
        let courtesy = file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0)));
        let _ = courtesy.and_then(|_| writeln!(file, "{}", std::process::id()));
        Ok(Lock { _file: file })
    }
}
