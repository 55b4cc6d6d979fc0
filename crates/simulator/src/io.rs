//! What is asked of a drive, an array or a volume in the simulation.

/// Size of a block, bytes: drives of this family are addressed in 512.
pub use diskwright_base::units::BLOCK_BYTES;

/// One request: `blocks` blocks of 512 bytes from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Io {
    /// First block.
    pub first: u64,
    /// How many blocks; at least one.
    pub blocks: u32,
    /// True for a write.
    pub write: bool,
}

impl Io {
    /// A read.
    pub fn read(first: u64, blocks: u32) -> Io {
        Io { first, blocks, write: false }
    }

    /// A write.
    pub fn write(first: u64, blocks: u32) -> Io {
        Io { first, blocks, write: true }
    }

    /// The block after the last one.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(u64::from(self.blocks))
    }
}
