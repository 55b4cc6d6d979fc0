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

use super::error::AccessError;
use super::ledger::MemberStates;
use super::store::{ContentExtent, Stores, WriteSource};
use row::ParityScratch;

/// Bytes of a member that are processed at a time: they stay in the processor's cache, and the
/// memory for them is bounded.
const CHUNK_BYTES: u64 = 1 << 16;

/// Largest number of pieces that one query for holes examines.
const MAX_EXTENT_PIECES: usize = 4096;

/// Largest number of rows that are remembered as torn; with more, all count as torn.
const MAX_TORN_ROWS: usize = 1 << 16;

/// An array and its members' state.
pub(super) struct ArrayContent {
    pub array: ArrayGeometry,
    /// Index of each member's store.
    drives: Vec<usize>,
    /// Bytes of each member that are used.
    used_bytes: Vec<u64>,
    /// Bytes from the beginning of each member that are good.
    good_bytes: Vec<u64>,
    rebuilding: MemberSet,
    /// All members are completely good.
    all_good: bool,
    torn_rows: TornRows,
    scratch: ParityScratch,
}

/// Rows whose parity is not known to be right.
#[derive(Default)]
struct TornRows {
    rows: BTreeSet<u64>,
    all_torn: bool,
}

impl TornRows {
    fn contains(&self, row: u64) -> bool {
        self.all_torn || !self.rows.is_empty() && self.rows.contains(&row)
    }

    fn remove_range(&mut self, rows: std::ops::Range<u64>) {
        while let Some(row) = self.rows.range(rows.clone()).next().copied() {
            self.rows.remove(&row);
        }
    }

    fn add_row(&mut self, row: u64) {
        self.all_torn |= self.rows.len() >= MAX_TORN_ROWS;
        if !self.all_torn {
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
            used_bytes: sizes,
            good_bytes: good,
            rebuilding: MemberSet::NONE,
            all_good: true,
            torn_rows: TornRows::default(),
            scratch: ParityScratch::default(),
        }
    }

    /// Returns its usable size, bytes.
    pub fn user_bytes(&self) -> u64 {
        self.array.capacity_blocks() * BLOCK_BYTES
    }

    /// Returns the members that are not good up to their byte `to`.
    #[inline]
    fn members_lost_before(&self, to: u64) -> MemberSet {
        if self.all_good {
            return MemberSet::NONE;
        }
        let positions = (0u16..).zip(&self.good_bytes);
        positions.filter(|(_, good)| **good < to).map(|(member, _)| member).collect()
    }

    /// Returns its members' state, to be saved.
    pub fn member_states(&self) -> MemberStates {
        let lost = self.failed_members().iter().map(|member| (member, self.good_bytes[usize::from(member)])).collect();
        let torn = self.torn_rows.rows.iter().copied().collect();
        let (rebuilding, all_torn) = (self.rebuilding.iter().collect(), self.torn_rows.all_torn);
        MemberStates { lost, rebuilding, torn, all_torn }.with_bounded_torn_rows()
    }

    /// Restores a saved state.
    pub fn set_member_states(&mut self, states: &MemberStates) {
        // rebuilt parts of a parity level are good by whole rows
        let step = if self.array.parity_count() > 0 { self.unit_bytes() } else { BLOCK_BYTES };
        for (member, good) in &states.lost {
            if let Some(known) = self.good_bytes.get_mut(usize::from(*member)) {
                *known = good - good % step;
            }
        }
        self.rebuilding = states.rebuilding.iter().copied().collect();
        self.all_good = states.lost.is_empty();
        self.torn_rows = TornRows { rows: states.torn.iter().copied().collect(), all_torn: states.all_torn };
    }

    /// Returns whether all members are completely good.
    pub fn has_all_members_good(&self) -> bool {
        self.all_good
    }

    /// Returns whether writes must be journaled first: with a lost member, a partly written row
    /// cannot be reconstructed.
    pub fn journals_writes(&self) -> bool {
        !self.all_good && self.array.parity_count() > 0
    }

    /// Returns the members whose data are lost, at least in part.
    pub fn failed_members(&self) -> MemberSet {
        self.members_lost_before(u64::MAX)
    }

    /// Returns the failed members that are being rebuilt.
    pub fn rebuilding_members(&self) -> MemberSet {
        self.rebuilding
    }

    /// Reads as if the members in `avoid` could not be read.
    #[inline]
    pub fn read(&mut self, stores: &Stores, from: u64, into: &mut [u8], avoid: MemberSet) -> Result<(), AccessError> {
        let (mut position, mut remaining) = (from, into);
        while !remaining.is_empty() {
            let piece = self.first_copy_piece(position, remaining.len() as u64)?;
            let (part, rest) = remaining.split_at_mut(piece.bytes as usize);
            if self.all_good && avoid.is_empty() {
                stores.read(self.drives[usize::from(piece.member)], piece.from, part)?;
            } else if self.array.parity_count() > 0 {
                self.read_row(stores, position, piece, part, avoid)?;
            } else {
                self.read_copy(stores, position, part, avoid)?;
            }
            remaining = rest;
            position += piece.bytes;
        }
        Ok(())
    }

    /// Writes.
    pub fn write(&mut self, stores: &mut Stores, from: u64, source: WriteSource<'_>) -> Result<(), AccessError> {
        if self.array.parity_count() > 0 {
            self.write_rows(stores, from, source)
        } else {
            self.write_copies(stores, from, source)
        }
    }

    /// Returns the extent that begins at `from`: a hole only if it reads as zeros.
    pub fn extent_at(&self, stores: &Stores, from: u64, bytes: u64) -> Result<ContentExtent, AccessError> {
        let (mut position, end) = (from, from + bytes);
        let mut kind = None;
        for _ in 0..MAX_EXTENT_PIECES {
            if position >= end {
                break;
            }
            let piece = self.first_copy_piece(position, end - position)?;
            let extent = if self.good_bytes[usize::from(piece.member)] < piece.from + piece.bytes {
                ContentExtent { bytes: piece.bytes, is_hole: false }
            } else {
                stores.extent_at(self.drives[usize::from(piece.member)], piece.from, piece.bytes)?
            };
            if *kind.get_or_insert(extent.is_hole) != extent.is_hole {
                break;
            }
            position += extent.bytes;
        }
        Ok(ContentExtent { bytes: position - from, is_hole: kind.unwrap_or(false) })
    }

    /// Returns the piece of the first copy that begins at `offset`.
    #[inline]
    fn first_copy_piece(&self, offset: u64, bytes: u64) -> Result<BytePiece, AccessError> {
        self.copy_piece(offset, bytes, 0)
    }

    /// Returns the piece of a copy that begins at `offset`.
    #[inline]
    fn copy_piece(&self, offset: u64, bytes: u64, copy: u16) -> Result<BytePiece, AccessError> {
        let (block, skip) = (offset / BLOCK_BYTES, offset % BLOCK_BYTES);
        let blocks = (skip + bytes).div_ceil(BLOCK_BYTES);
        let beyond = || AccessError::OutOfRange { from: offset, to: offset + bytes, bytes: self.user_bytes() };
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
