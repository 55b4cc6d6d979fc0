//! Where the bytes of all drives are: in memory or in one file. No arrays here.

mod file;
mod memory;

use std::fs::File;
use std::sync::Arc;

pub(super) use file::InFile;
pub(super) use memory::Memory;

use super::trouble::{Short, Trouble};

/// A stretch from a place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its bytes.
    pub bytes: u64,
    /// True where there is nothing, which reads as zeros.
    pub hole: bool,
}

/// What becomes of the room of zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// It is given back as far as possible.
    GiveBack,
    /// A file has it, also where it had none.
    Keep,
}

/// The bytes of all drives, by their numbers. Callers keep inside the drives.
pub(super) enum Stores {
    Memory(Memory),
    File(InFile),
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
    pub fn write(&mut self, drive: usize, from: u64, data: &[u8]) -> Result<(), Short> {
        match self {
            Stores::Memory(memory) => memory.write(drive, from, data),
            Stores::File(file) => file.write(drive, from, data),
        }
    }

    /// Makes them zeros.
    pub fn zero(&mut self, drive: usize, from: u64, bytes: u64, room: Room) -> Result<(), Trouble> {
        match self {
            Stores::Memory(memory) => {
                memory.zero(drive, from, bytes);
                Ok(())
            }
            Stores::File(file) => file.zero(drive, from, bytes, room),
        }
    }

    /// The stretch that begins at `from`, at most `bytes` long.
    pub fn extent(&self, drive: usize, from: u64, bytes: u64) -> Result<Extent, Trouble> {
        match self {
            Stores::Memory(memory) => Ok(memory.extent(drive, from, bytes)),
            Stores::File(file) => file.extent(drive, from, bytes),
        }
    }

    /// Whether there is room to write these stretches, of `bytes` on each drive.
    /// A file tells only when it is written.
    pub fn has_room(&self, drives: impl Iterator<Item = usize> + Clone, from: u64, bytes: u64) -> bool {
        let Stores::Memory(memory) = self else { return true };
        let most = Memory::most_cost(bytes).saturating_mul(drives.clone().count() as u64);
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
