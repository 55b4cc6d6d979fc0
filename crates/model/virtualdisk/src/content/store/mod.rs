//! Where the bytes of all drives are: in memory or in one file. No arrays here.

mod file;
mod journal;
mod memory;

use std::fs::File;
use std::sync::Arc;

pub(super) use file::FileStore;
pub(super) use memory::MemoryStore;

use super::trouble::{ShortWrite, Trouble};

/// A stretch from a place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentExtent {
    /// Its bytes.
    pub bytes: u64,
    /// True where there is nothing, which reads as zeros.
    pub hole: bool,
}

/// What becomes of the room of zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZeroPolicy {
    /// It is given back as far as possible.
    GiveBack,
    /// A file has it, also where it had none.
    Keep,
}

/// What is to be written.
#[derive(Clone, Copy)]
pub(super) enum WriteSource<'a> {
    Data(&'a [u8]),
    /// So many zeros.
    Zeros(u64, ZeroPolicy),
}

impl<'a> WriteSource<'a> {
    pub fn bytes(self) -> u64 {
        match self {
            WriteSource::Data(data) => data.len() as u64,
            WriteSource::Zeros(bytes, _) => bytes,
        }
    }

    /// A part of it.
    pub fn part(self, from: u64, bytes: u64) -> WriteSource<'a> {
        match self {
            WriteSource::Data(data) => WriteSource::Data(&data[from as usize..(from + bytes) as usize]),
            WriteSource::Zeros(_, room) => WriteSource::Zeros(bytes, room),
        }
    }
}

/// The bytes of all drives, by their numbers. Callers keep inside the drives.
pub(super) enum Stores {
    Memory(MemoryStore),
    File(FileStore),
}

impl Stores {
    #[inline]
    pub fn read(&self, drive: usize, from: u64, into: &mut [u8]) -> Result<(), Trouble> {
        match self {
            Stores::Memory(memory) => {
                memory.read(drive, from, into);
                Ok(())
            }
            Stores::File(file) => file.read(drive, from, into),
        }
    }

    #[inline]
    pub fn write(&mut self, drive: usize, from: u64, data: &[u8]) -> Result<(), ShortWrite> {
        match self {
            Stores::Memory(memory) => memory.write(drive, from, data),
            Stores::File(file) => file.write(drive, from, data),
        }
    }

    /// Makes them zeros.
    pub fn zero(&mut self, drive: usize, from: u64, bytes: u64, room: ZeroPolicy) -> Result<(), Trouble> {
        match self {
            Stores::Memory(memory) => {
                memory.zero(drive, from, bytes);
                Ok(())
            }
            Stores::File(file) => file.zero(drive, from, bytes, room),
        }
    }

    /// Says what will be written to drives, as one thing: should this program be killed on the
    /// way, the next one does all of it. In memory there is no next one.
    pub fn promise<'a>(&mut self, writes: impl Iterator<Item = (usize, u64, WriteSource<'a>)>) -> Result<(), Trouble> {
        match self {
            Stores::Memory(_) => Ok(()),
            Stores::File(file) => Ok(file.promise(writes)?),
        }
    }

    /// The stretch that begins at `from`, at most `bytes` long.
    pub fn extent(&self, drive: usize, from: u64, bytes: u64) -> Result<ContentExtent, Trouble> {
        match self {
            Stores::Memory(memory) => Ok(memory.extent(drive, from, bytes)),
            Stores::File(file) => file.extent(drive, from, bytes),
        }
    }

    /// Whether there is room to write these stretches, of `bytes` on each drive.
    /// A file tells only when it is written.
    pub fn has_room(&self, drives: impl Iterator<Item = usize> + Clone, from: u64, bytes: u64) -> bool {
        let Stores::Memory(memory) = self else { return true };
        let most = MemoryStore::most_cost(bytes).saturating_mul(drives.clone().count() as u64);
        most <= memory.left() || drives.map(|drive| memory.cost(drive, from, bytes)).sum::<u64>() <= memory.left()
    }

    /// Bytes of memory taken; `None` for a file.
    pub fn memory_bytes(&self) -> Option<u64> {
        match self {
            Stores::Memory(memory) => Some(memory.used()),
            Stores::File(_) => None,
        }
    }

    pub fn file(&self) -> Option<Arc<File>> {
        match self {
            Stores::Memory(_) => None,
            Stores::File(file) => Some(file.handle()),
        }
    }
}
