//! Storage of the bytes of all drives: in memory or in one file. It knows nothing about arrays.

mod file;
mod memory;
mod write_journal;

use std::fs::File;
use std::sync::Arc;

pub(super) use file::FileStore;
pub(super) use memory::MemoryStore;

use super::error::{AccessError, ShortWrite};

/// A range of bytes from some offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentExtent {
    /// Its bytes.
    pub bytes: u64,
    /// Not allocated, which reads as zeros.
    pub is_hole: bool,
}

/// Treatment of the space of zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZeroPolicy {
    /// It is deallocated as far as possible.
    Deallocate,
    /// It is allocated in a file.
    Allocate,
}

/// Bytes to write.
#[derive(Clone, Copy)]
pub(super) enum WriteSource<'a> {
    Data(&'a [u8]),
    /// A number of zeros.
    Zeros(u64, ZeroPolicy),
}

impl<'a> WriteSource<'a> {
    /// Returns the number of bytes to write.
    pub fn byte_count(self) -> u64 {
        match self {
            WriteSource::Data(data) => data.len() as u64,
            WriteSource::Zeros(bytes, _) => bytes,
        }
    }

    /// Returns a part of it.
    pub fn subrange(self, from: u64, bytes: u64) -> WriteSource<'a> {
        match self {
            WriteSource::Data(data) => WriteSource::Data(&data[from as usize..(from + bytes) as usize]),
            WriteSource::Zeros(_, policy) => WriteSource::Zeros(bytes, policy),
        }
    }
}

/// The bytes of all drives, by their numbers. Callers keep inside the drives.
pub(super) enum Stores {
    Memory(MemoryStore),
    File(FileStore),
}

impl Stores {
    /// Reads bytes of a drive.
    #[inline]
    pub fn read(&self, drive: usize, from: u64, into: &mut [u8]) -> Result<(), AccessError> {
        match self {
            Stores::Memory(memory) => {
                memory.read(drive, from, into);
                Ok(())
            }
            Stores::File(file) => file.read(drive, from, into),
        }
    }

    /// Writes bytes to a drive.
    #[inline]
    pub fn write(&mut self, drive: usize, from: u64, data: &[u8]) -> Result<(), ShortWrite> {
        match self {
            Stores::Memory(memory) => memory.write(drive, from, data),
            Stores::File(file) => file.write(drive, from, data),
        }
    }

    /// Zeroes a range.
    pub fn write_zeros(&mut self, drive: usize, from: u64, bytes: u64, policy: ZeroPolicy) -> Result<(), AccessError> {
        match self {
            Stores::Memory(memory) => {
                memory.write_zeros(drive, from, bytes);
                Ok(())
            }
            Stores::File(file) => file.write_zeros(drive, from, bytes, policy),
        }
    }

    /// Journals the writes to drives that belong together: if this program is killed during them,
    /// the next one makes all of them. In memory there is no next one.
    pub fn journal_writes<'a>(
        &mut self,
        writes: impl Iterator<Item = (usize, u64, WriteSource<'a>)>,
    ) -> Result<(), AccessError> {
        match self {
            Stores::Memory(_) => Ok(()),
            Stores::File(file) => Ok(file.journal_writes(writes)?),
        }
    }

    /// Returns the extent that begins at `from`, at most `bytes` long.
    pub fn extent_at(&self, drive: usize, from: u64, bytes: u64) -> Result<ContentExtent, AccessError> {
        match self {
            Stores::Memory(memory) => Ok(memory.extent_at(drive, from, bytes)),
            Stores::File(file) => file.extent_at(drive, from, bytes),
        }
    }

    /// Returns whether there is memory to write `bytes` bytes on each drive. A file shows that only
    /// when it is written.
    pub fn has_room(&self, drives: impl Iterator<Item = usize> + Clone, from: u64, bytes: u64) -> bool {
        let Stores::Memory(memory) = self else { return true };
        let worst_case = MemoryStore::max_write_cost(bytes).saturating_mul(drives.clone().count() as u64);
        worst_case <= memory.remaining_bytes()
            || drives.map(|drive| memory.write_cost(drive, from, bytes)).sum::<u64>() <= memory.remaining_bytes()
    }

    /// Returns the memory used, bytes; `None` for a file.
    pub fn memory_bytes(&self) -> Option<u64> {
        match self {
            Stores::Memory(memory) => Some(memory.used_bytes()),
            Stores::File(_) => None,
        }
    }

    /// Returns the backing file, if the content is in one.
    pub fn file_handle(&self) -> Option<Arc<File>> {
        match self {
            Stores::Memory(_) => None,
            Stores::File(file) => Some(file.file_handle()),
        }
    }
}
