//! Whether somebody adds to a log: its lock, and what its ledger says of the end.

use std::fs::TryLockError;
use std::path::Path;

use diskwright_hostfiles::private;

use crate::format::LOCK;
use crate::ledger::TickLedger;

/// Whether a recorder adds to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecorderState {
    /// It holds the log's lock; so does an import.
    Runs,
    /// The last one ended in good order, and there is no other.
    Ended,
    /// No process of this machine holds the lock, and the last recorder did not end in good order: it was killed, or
    /// it runs on another machine, whose locks cannot be seen here.
    Gone,
    /// It cannot be told: the lock cannot be read, or there is none.
    Unknown,
}

/// Whether a recorder adds to the log in `dir`. Writes nothing, and holds nobody up.
#[must_use]
pub fn recorder(dir: &Path) -> RecorderState {
    // readers share the lock for less than a moment, which is how long a recorder that begins waits for it
    let held = private::read(&dir.join(LOCK)).ok().and_then(|file| match file.try_lock_shared() {
        Ok(()) => Some(false),
        Err(TryLockError::WouldBlock) => Some(true),
        Err(TryLockError::Error(_)) => None,
    });
    // the lock first: a recorder writes that it ended while it still holds the lock
    let closed = || TickLedger::read(dir).0.map(|ledger| ledger.closed);
    match held {
        Some(true) => RecorderState::Runs,
        free => match (free, closed()) {
            (_, Some(true)) => RecorderState::Ended,
            (Some(_), Some(false)) => RecorderState::Gone,
            _ => RecorderState::Unknown,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogWriter, WriterOptions};

    #[test]
    fn a_recorder_that_runs_ended_or_was_killed_is_told_apart() {
        let folder = std::env::temp_dir().join(format!("dwlog-recorder-{}", std::process::id()));
        let log = folder.join("log");
        assert_eq!(recorder(&log), RecorderState::Unknown, "no log");
        let writer = LogWriter::create_or_append(&log, WriterOptions::default()).expect("a log");
        assert_eq!(recorder(&log), RecorderState::Runs);
        // what a killed recorder leaves: its files as they were, and a lock that nobody holds
        let killed = folder.join("killed");
        std::fs::create_dir(&killed).expect("a folder");
        for file in std::fs::read_dir(&log).expect("a folder").map(|file| file.expect("a file")) {
            std::fs::copy(file.path(), killed.join(file.file_name())).expect("copied");
        }
        assert_eq!(recorder(&killed), RecorderState::Gone);
        std::fs::remove_file(killed.join(LOCK)).expect("removed");
        assert_eq!(recorder(&killed), RecorderState::Unknown, "its lock cannot be asked");
        drop(writer);
        let ended = recorder(&log);
        let again = LogWriter::create_or_append(&log, WriterOptions::default()).expect("the log again");
        assert_eq!((ended, recorder(&log)), (RecorderState::Ended, RecorderState::Runs));
        drop(again);
        std::fs::remove_dir_all(&folder).expect("was there");
    }
}
