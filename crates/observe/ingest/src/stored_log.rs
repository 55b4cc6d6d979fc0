//! Where the content of an opened log is, and how it is read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskwright_base::Frame;
use diskwright_datastore::{LogItem, LogPosition, LogReader, StoreError};

use crate::IngestError;
use crate::memory_log::{MemoryLog, MemoryReader};
use crate::temporary::TemporaryFolder;

/// The content of a log; clones share it.
#[derive(Clone)]
pub enum StoredLog {
    /// A Diskwright log that is read where it is, and may grow.
    InPlace(PathBuf),
    /// A log in a temporary folder, which is removed with the last value.
    InFolder(Arc<TemporaryFolder>),
    /// A log in memory.
    InMemory(Arc<MemoryLog>),
}

impl StoredLog {
    /// Path of a log that is read where it is.
    pub fn path_in_place(&self) -> Option<&Path> {
        match self {
            StoredLog::InPlace(path) => Some(path),
            StoredLog::InFolder(_) | StoredLog::InMemory(_) => None,
        }
    }

    /// Opens it for one reading.
    pub fn open_reader(&self) -> Result<StoredReader, IngestError> {
        Ok(match self {
            StoredLog::InPlace(path) => StoredReader::Log(Box::new(LogReader::open(path)?)),
            StoredLog::InFolder(folder) => StoredReader::Log(Box::new(LogReader::open(folder.log_path())?)),
            StoredLog::InMemory(log) => StoredReader::Memory(MemoryReader::new(log)),
        })
    }
}

/// One reading of a log.
pub enum StoredReader {
    /// Of a Diskwright log.
    Log(Box<LogReader>),
    /// Of a log in memory.
    Memory(MemoryReader),
}

impl StoredReader {
    /// Limits reading to ticks and notes in a range.
    pub fn set_window(&mut self, from_ns: i64, to_ns: i64) {
        match self {
            StoredReader::Log(reader) => reader.set_window(from_ns, to_ns),
            StoredReader::Memory(reader) => reader.set_window(from_ns, to_ns),
        }
    }

    /// Skips the ticks before a number. A log in memory does not grow, so nobody has read a part of it.
    pub fn start_at_tick(&mut self, tick: u64) {
        if let StoredReader::Log(reader) = self {
            reader.start_at_tick(tick);
        }
    }

    /// Position behind what was read.
    pub fn position(&self) -> LogPosition {
        match self {
            StoredReader::Log(reader) => reader.position(),
            StoredReader::Memory(_) => LogPosition::default(),
        }
    }

    /// Returns the next frame, note or damage; `None` at the end. The content of `frame` is valid only if the result is
    /// [`LogItem::Frame`].
    pub fn next(&mut self, frame: &mut Frame) -> Result<Option<LogItem>, StoreError> {
        match self {
            StoredReader::Log(reader) => reader.next(frame),
            StoredReader::Memory(reader) => Ok(reader.next_item(frame)),
        }
    }
}
