//! Content of arrays: data, copies and parity on the members' stores.
//!
//! A member is good from its first byte up to some point: all of it normally, nothing if it has
//! failed, and the rebuilt part in between. Reads use the good parts, and reconstruct the rest;
//! writes keep the good parts (and the parity) up to date, and leave the rest alone.

mod copies;
mod parity;
mod repair;
mod row;

use std::collections::BTreeSet;

use diskwright_simulator::BLOCK_BYTES;
use diskwright_simulator::array::{ArrayGeometry, MemberSet};

use super::ledger::MemberStates;
use super::store::{ContentExtent, Stores, WriteSource};
use super::trouble::Trouble;
use row::ParityScratch;

/// Bytes of a member that are processed at a time: they stay in the processor's cache, and the
/// memory for them is bounded.
const CHUNK: u64 = 1 << 16;

/// Largest number of pieces that one query for holes examines.
const MOST_PIECES: usize = 4096;

/// Largest number of rows that are remembered as torn; with more, all count as torn.
const MOST_TORN: usize = 1 << 16;

/// An array and its members' state.
pub(super) struct ArrayContent {
    pub array: ArrayGeometry,
    /// Index of each member's store.
    drives: Vec<usize>,
    /// Bytes of each member that are used.
    sizes: Vec<u64>,
    /// Bytes from the beginning of each member that are good.
    good: Vec<u64>,
    rebuilding: MemberSet,
    /// All members are completely good.
    well: bool,
    torn: TornRows,
    scratch: ParityScratch,
}

/// Rows whose parity is not known to be right.
#[derive(Default)]
struct TornRows {
    rows: BTreeSet<u64>,
    all: bool,
}

impl TornRows {
    fn has(&self, row: u64) -> bool {
        self.all || !self.rows.is_empty() && self.rows.contains(&row)
    }

    fn forget(&mut self, rows: std::ops::Range<u64>) {
        while let Some(row) = self.rows.range(rows.clone()).next().copied() {
            self.rows.remove(&row);
        }
    }

    fn add(&mut self, row: u64) {
        self.all |= self.rows.len() >= MOST_TORN;
        if !self.all {
            self.rows.insert(row);
        }
    }
}

impl ArrayContent {
    /// Creates an array on these stores, of which it uses `sizes` bytes each; all members are good.
    pub fn new(array: ArrayGeometry, drives: Vec<usize>, sizes: Vec<u64>) -> ArrayContent {
        let good = vec![u64::MAX; drives.len()];
        ArrayContent {
            array,
            drives,
            sizes,
            good,
            rebuilding: MemberSet::NONE,
            well: true,
            torn: TornRows::default(),
            scratch: ParityScratch::default(),
        }
    }

    /// Returns its usable size, bytes.
    pub fn bytes(&self) -> u64 {
        self.array.capacity_blocks() * BLOCK_BYTES
    }

    /// Returns the members that are not good up to their byte `to`.
    #[inline]
    fn unreadable(&self, to: u64) -> MemberSet {
        if self.well {
            return MemberSet::NONE;
        }
        let positions = (0u16..).zip(&self.good);
        positions.filter(|(_, good)| **good < to).map(|(member, _)| member).collect()
    }

    /// Returns its members' state, to be saved.
    pub fn states(&self) -> MemberStates {
        let lost = self.failed().iter().map(|member| (member, self.good[usize::from(member)])).collect();
        let torn = self.torn.rows.iter().copied().collect();
        let (rebuilding, all_torn) = (self.rebuilding.iter().collect(), self.torn.all);
        MemberStates { lost, rebuilding, torn, all_torn }.bounded()
    }

    /// Restores a saved state.
    pub fn set_states(&mut self, states: &MemberStates) {
        // rebuilt parts of a parity level are good by whole rows
        let step = if self.array.parity_count() > 0 { self.unit() } else { BLOCK_BYTES };
        for (member, good) in &states.lost {
            if let Some(known) = self.good.get_mut(usize::from(*member)) {
                *known = good - good % step;
            }
        }
        self.rebuilding = states.rebuilding.iter().copied().collect();
        self.well = states.lost.is_empty();
        self.torn = TornRows { rows: states.torn.iter().copied().collect(), all: states.all_torn };
    }

    /// Returns whether all members are completely good.
    pub fn is_well(&self) -> bool {
        self.well
    }

    /// Returns whether writes must be journaled first: with a lost member, a partly written row
    /// cannot be reconstructed.
    pub fn promises(&self) -> bool {
        !self.well && self.array.parity_count() > 0
    }

    /// Returns the members whose data are lost, at least in part.
    pub fn failed(&self) -> MemberSet {
        self.unreadable(u64::MAX)
    }

    /// Returns the failed members that are being rebuilt.
    pub fn rebuilding(&self) -> MemberSet {
        self.rebuilding
    }

    /// Reads as if the members in `avoid` could not be read.
    #[inline]
    pub fn read(&mut self, stores: &Stores, from: u64, into: &mut [u8], avoid: MemberSet) -> Result<(), Trouble> {
        let (mut position, mut left) = (from, into);
        while !left.is_empty() {
            let piece = self.piece(position, left.len() as u64)?;
            let (now, rest) = left.split_at_mut(piece.bytes as usize);
            if self.well && avoid.is_empty() {
                stores.read(self.drives[usize::from(piece.member)], piece.from, now)?;
            } else if self.array.parity_count() > 0 {
                self.read_row(stores, position, piece, now, avoid)?;
            } else {
                self.read_copy(stores, position, now, avoid)?;
            }
            left = rest;
            position += piece.bytes;
        }
        Ok(())
    }

    /// Writes.
    pub fn write(&mut self, stores: &mut Stores, from: u64, source: WriteSource<'_>) -> Result<(), Trouble> {
        if self.array.parity_count() > 0 {
            self.write_rows(stores, from, source)
        } else {
            self.write_copies(stores, from, source)
        }
    }

    /// Returns the extent that begins at `from`: a hole only if it reads as zeros.
    pub fn extent(&self, stores: &Stores, from: u64, bytes: u64) -> Result<ContentExtent, Trouble> {
        let (mut position, end) = (from, from + bytes);
        let mut kind = None;
        for _ in 0..MOST_PIECES {
            if position >= end {
                break;
            }
            let piece = self.piece(position, end - position)?;
            let here = if self.good[usize::from(piece.member)] < piece.from + piece.bytes {
                ContentExtent { bytes: piece.bytes, hole: false }
            } else {
                stores.extent(self.drives[usize::from(piece.member)], piece.from, piece.bytes)?
            };
            if *kind.get_or_insert(here.hole) != here.hole {
                break;
            }
            position += here.bytes;
        }
        Ok(ContentExtent { bytes: position - from, hole: kind.unwrap_or(false) })
    }

    /// Returns the piece of the first copy that begins at `offset`.
    #[inline]
    fn piece(&self, offset: u64, bytes: u64) -> Result<BytePiece, Trouble> {
        self.copy(offset, bytes, 0)
    }

    /// Returns the piece of a copy that begins at `offset`.
    #[inline]
    fn copy(&self, offset: u64, bytes: u64, copy: u16) -> Result<BytePiece, Trouble> {
        let (block, skip) = (offset / BLOCK_BYTES, offset % BLOCK_BYTES);
        let blocks = (skip + bytes).div_ceil(BLOCK_BYTES);
        let beyond = || Trouble::OutOfRange { from: offset, to: offset + bytes, bytes: self.bytes() };
        let piece = self.array.map_block(block, blocks, copy).ok_or_else(beyond)?;
        let bytes = bytes.min(piece.blocks * BLOCK_BYTES - skip);
        Ok(BytePiece { member: piece.member, from: piece.block * BLOCK_BYTES + skip, bytes })
    }
}

/// Contiguous bytes on a member.
#[derive(Clone, Copy, Debug)]
struct BytePiece {
    member: u16,
    from: u64,
    bytes: u64,
}
