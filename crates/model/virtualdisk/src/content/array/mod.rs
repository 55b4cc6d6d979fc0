//! Arrays by content: data, copies and parity on the members' stores.
//!
//! A member is good from its first byte up to some point: all of it where it is
//! well, nothing where it has failed, and what has been rebuilt in between.
//! Reads use what is good, and reconstruct the rest; writes keep what is good
//! (and the parity) as it should be, and leave the rest alone.

mod copies;
mod parity;
mod repair;
mod row;

use std::collections::BTreeSet;

use diskwright_simulator::BLOCK_BYTES;
use diskwright_simulator::array::{ArrayGeometry, Members};

use super::ledger::MemberStates;
use super::store::{ContentExtent, Stores, WriteSource};
use super::trouble::Trouble;
use row::ParityScratch;

/// Bytes of a member that are worked on at a time: what is computed stays in
/// the processor's cache, and the room for it is bounded.
const CHUNK: u64 = 1 << 16;

/// Pieces that one question for holes looks at.
const MOST_PIECES: usize = 4096;

/// Rows that are remembered as torn; with more, all are taken as torn.
const MOST_TORN: usize = 1 << 16;

/// An array and its members' state.
pub(super) struct ArrayContent {
    pub array: ArrayGeometry,
    /// The store of each member.
    drives: Vec<usize>,
    /// Bytes of each member that are used.
    sizes: Vec<u64>,
    /// Bytes from the beginning of each member that are good.
    good: Vec<u64>,
    rebuilding: Members,
    /// All members are good to their ends.
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
    /// An array on these stores, of which it uses so many bytes; all well.
    pub fn new(array: ArrayGeometry, drives: Vec<usize>, sizes: Vec<u64>) -> ArrayContent {
        let good = vec![u64::MAX; drives.len()];
        ArrayContent {
            array,
            drives,
            sizes,
            good,
            rebuilding: Members::NONE,
            well: true,
            torn: TornRows::default(),
            scratch: ParityScratch::default(),
        }
    }

    /// Bytes that it holds for its user.
    pub fn bytes(&self) -> u64 {
        self.array.blocks() * BLOCK_BYTES
    }

    /// Members that do not hold what they should up to byte `to` of theirs.
    #[inline]
    fn unreadable(&self, to: u64) -> Members {
        if self.well {
            return Members::NONE;
        }
        let positions = (0u16..).zip(&self.good);
        positions.filter(|(_, good)| **good < to).map(|(member, _)| member).collect()
    }

    /// Its members' state, to be kept.
    pub fn states(&self) -> MemberStates {
        let lost = self.failed().iter().map(|member| (member, self.good[usize::from(member)])).collect();
        let torn = self.torn.rows.iter().copied().collect();
        let (rebuilding, all_torn) = (self.rebuilding.iter().collect(), self.torn.all);
        MemberStates { lost, rebuilding, torn, all_torn }.bounded()
    }

    /// Takes a state that was kept.
    pub fn set_states(&mut self, states: &MemberStates) {
        // what is rebuilt of a parity level is good by whole rows
        let step = if self.array.parities() > 0 { self.unit() } else { BLOCK_BYTES };
        for (member, good) in &states.lost {
            if let Some(known) = self.good.get_mut(usize::from(*member)) {
                *known = good - good % step;
            }
        }
        self.rebuilding = states.rebuilding.iter().copied().collect();
        self.well = states.lost.is_empty();
        self.torn = TornRows { rows: states.torn.iter().copied().collect(), all: states.all_torn };
    }

    /// All members hold what they should.
    pub fn is_well(&self) -> bool {
        self.well
    }

    /// Whether it promises what it writes: a row of which a part is written tells nothing of
    /// what is lost.
    pub fn promises(&self) -> bool {
        !self.well && self.array.parities() > 0
    }

    /// Members whose data is lost, at least in part.
    pub fn failed(&self) -> Members {
        self.unreadable(u64::MAX)
    }

    /// Of those, the ones being rebuilt.
    pub fn rebuilding(&self) -> Members {
        self.rebuilding
    }

    /// Reads, as if `avoid` could not be read.
    #[inline]
    pub fn read(&mut self, stores: &Stores, from: u64, into: &mut [u8], avoid: Members) -> Result<(), Trouble> {
        let (mut position, mut left) = (from, into);
        while !left.is_empty() {
            let piece = self.piece(position, left.len() as u64)?;
            let (now, rest) = left.split_at_mut(piece.bytes as usize);
            if self.well && avoid.is_empty() {
                stores.read(self.drives[usize::from(piece.member)], piece.from, now)?;
            } else if self.array.parities() > 0 {
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
        if self.array.parities() > 0 {
            self.write_rows(stores, from, source)
        } else {
            self.write_copies(stores, from, source)
        }
    }

    /// The stretch that begins at `from`: a hole only where it reads as zeros.
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

    /// The piece of the first copy that begins at `at`.
    #[inline]
    fn piece(&self, offset: u64, bytes: u64) -> Result<BytePiece, Trouble> {
        self.copy(offset, bytes, 0)
    }

    /// The piece of a copy that begins at `at`.
    #[inline]
    fn copy(&self, offset: u64, bytes: u64, copy: u16) -> Result<BytePiece, Trouble> {
        let (block, skip) = (offset / BLOCK_BYTES, offset % BLOCK_BYTES);
        let blocks = (skip + bytes).div_ceil(BLOCK_BYTES);
        let beyond = || Trouble::OutOfRange { from: offset, to: offset + bytes, bytes: self.bytes() };
        let piece = self.array.map(block, blocks, copy).ok_or_else(beyond)?;
        let bytes = bytes.min(piece.blocks * BLOCK_BYTES - skip);
        Ok(BytePiece { member: piece.member, from: piece.block * BLOCK_BYTES + skip, bytes })
    }
}

/// Bytes that lie in one piece on a member.
#[derive(Clone, Copy, Debug)]
struct BytePiece {
    member: u16,
    from: u64,
    bytes: u64,
}
