//! State of a log's recorder, by the log's lock and its ledger.

use std::fs::TryLockError;
use std::path::Path;

use diskwright_hostfiles::private_files;

use crate::format::LOCK_FILE;
use crate::ledger::TickLedger;

/// State of the recorder of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecorderState {
    /// A recorder, or an import, holds the log's lock.
    Running,
    /// The last recorder exited cleanly, and no other runs.
    Ended,
    /// No process of this machine holds the lock, and the last recorder did not exit cleanly: it was killed, or it
    /// runs on another machine, whose locks are not visible here.
    Gone,
    /// Not known: the lock cannot be read, or there is none.
    Unknown,
}

/// Determines whether a recorder writes to the log in `dir`. Writes nothing and blocks no recorder.
#[must_use]
pub fn read_recorder_state(dir: &Path) -> RecorderState {
    // the shared lock is held only briefly: a starting recorder waits longer than that for it
    let is_locked =
        private_files::open_for_reading(&dir.join(LOCK_FILE)).ok().and_then(|file| match file.try_lock_shared() {
            Ok(()) => Some(false),
            Err(TryLockError::WouldBlock) => Some(true),
            Err(TryLockError::Error(_)) => None,
        });
    // the lock is read first: a recorder marks the ledger closed while it still holds the lock
    let is_closed = || TickLedger::read(dir).0.map(|ledger| ledger.closed);
    match is_locked {
        Some(true) => RecorderState::Running,
        _ => match (is_locked, is_closed()) {
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
    fn distinguishes_running_ended_and_killed_recorders() {
        let folder = std::env::temp_dir().join(format!("dwlog-recorder-{}", std::process::id()));
        let log = folder.join("log");
        assert_eq!(read_recorder_state(&log), RecorderState::Unknown, "no log");
        let writer = LogWriter::create_or_append(&log, WriterOptions::default()).expect("a log");
        assert_eq!(read_recorder_state(&log), RecorderState::Running);
        // a killed recorder leaves its files as they were, and a lock that no process holds
        let killed = folder.join("killed");
        std::fs::create_dir(&killed).expect("a folder");
        for file in std::fs::read_dir(&log).expect("a folder").map(|file| file.expect("a file")) {
            std::fs::copy(file.path(), killed.join(file.file_name())).expect("copied");
        }
        assert_eq!(read_recorder_state(&killed), RecorderState::Gone);
        std::fs::remove_file(killed.join(LOCK_FILE)).expect("removed");
        assert_eq!(read_recorder_state(&killed), RecorderState::Unknown, "its lock cannot be asked");
        drop(writer);
        let ended = read_recorder_state(&log);
        let again = LogWriter::create_or_append(&log, WriterOptions::default()).expect("the log again");
        assert_eq!((ended, read_recorder_state(&log)), (RecorderState::Ended, RecorderState::Running));
        drop(again);
        std::fs::remove_dir_all(&folder).expect("was there");
    }
}
