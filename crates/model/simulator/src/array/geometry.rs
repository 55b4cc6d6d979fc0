//! Address mapping: from blocks of an array to its members, and from blocks of a member to their content.
//!
//! Units are numbered along the array (chunks) and along each member (rows). The placement of copies follows
//! `drivers/md/raid10.c` (near, far, offset); with one copy it is plain striping, with one unit per member mirroring.
//! The placement of parity follows `drivers/md/raid5.c`.

use super::fast_divisor::FastDivisor;
use super::layout::ParityRow;
use super::{ArrayLayout, ArrayLevel, MemberSet};

/// Geometry of an array, without state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayGeometry {
    level: ArrayLevel,
    member_count: u16,
    unit_divisor: FastDivisor,
    /// Whole units on each member.
    rows: u64,
    capacity_blocks: u64,
    row_blocks: u64,
    pub(super) block_map: BlockMap,
}

/// Placement of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BlockMap {
    /// Members one after another, with the end block of each.
    Linear {
        ends: Box<[u64]>,
    },
    Copies(CopiesMap),
    Parity(ParityMap),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CopiesMap {
    pub(super) layout: ArrayLayout,
    pub(super) copies: u16,
    /// Units per row.
    width: FastDivisor,
    /// Rows between the copies of a far layout.
    copy_stride_rows: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ParityMap {
    layout: ArrayLayout,
    /// Number of members, which is also the number of rows after which the placement repeats.
    members: FastDivisor,
    /// Data units per row.
    pub(super) data_units: FastDivisor,
    pub(super) parity_units: u16,
}

/// Range of blocks that is contiguous on one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberPiece {
    /// Index of the member.
    pub member: u16,
    /// First block on the member.
    pub block: u64,
    /// Number of blocks.
    pub blocks: u64,
}

/// Content of a block of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberBlock {
    /// A block of the array.
    Data {
        /// Number of the block.
        block: u64,
        /// Number of the copy, from 0.
        copy: u16,
    },
    /// Parity.
    Parity {
        /// Number of the parity: 0 is P, 1 Q, 2 the third.
        parity: u16,
        /// Number of the row.
        row: u64,
    },
    /// Unused blocks at the end of the member.
    Unused,
}

impl BlockMap {
    pub(super) fn new_linear(members: &[u64]) -> BlockMap {
        let mut end = 0;
        let ends = members.iter().map(|blocks| {
            end += blocks;
            end
        });
        BlockMap::Linear { ends: ends.collect() }
    }

    pub(super) fn new_copies(layout: ArrayLayout, n: u16, copies: u16, rows: u64) -> BlockMap {
        let width = if layout == ArrayLayout::Split { n / copies } else { n };
        let stride = rows / u64::from(copies);
        BlockMap::Copies(CopiesMap {
            layout,
            copies,
            width: FastDivisor::new(u64::from(width)),
            copy_stride_rows: stride,
        })
    }

    pub(super) fn new_parity(layout: ArrayLayout, n: u16, p: u16) -> BlockMap {
        BlockMap::Parity(ParityMap {
            layout,
            members: FastDivisor::new(u64::from(n)),
            data_units: FastDivisor::new(u64::from(n - p)),
            parity_units: p,
        })
    }
}

impl CopiesMap {
    /// Number of data units in `rows` rows.
    fn data_units(&self, rows: u64) -> u64 {
        match self.layout {
            ArrayLayout::Near => rows * self.width.divisor() / u64::from(self.copies),
            ArrayLayout::Split => rows * self.width.divisor(),
            _ => self.copy_stride_rows * self.width.divisor(),
        }
    }

    /// Returns member and row of the first copy of a unit.
    #[inline]
    pub(super) fn locate_first_copy(&self, chunk: u64) -> (u16, u64) {
        let position = if self.layout == ArrayLayout::Near { chunk * u64::from(self.copies) } else { chunk };
        let (row, member) = self.width.div_rem(position);
        let row = if self.layout == ArrayLayout::Offset { row * u64::from(self.copies) } else { row };
        (member as u16, row)
    }

    /// Returns member and row of another copy of the unit, given those of the first copy.
    #[inline]
    pub(super) fn locate_nth_copy(&self, (member, row): (u16, u64), copy: u16) -> (u16, u64) {
        let n = self.width.divisor() as u16;
        if self.layout == ArrayLayout::Split {
            return (member + copy * n, row);
        }
        let wraps = member + copy >= n;
        let member = if wraps { member + copy - n } else { member + copy };
        let row = match self.layout {
            // past the last member copies continue in the next row
            ArrayLayout::Near => row + u64::from(wraps),
            ArrayLayout::Offset => row + u64::from(copy),
            _ => row + u64::from(copy) * self.copy_stride_rows,
        };
        (member, row)
    }

    /// Returns member and row of a copy of a unit.
    #[inline]
    pub(super) fn locate_copy(&self, chunk: u64, copy: u16) -> (u16, u64) {
        self.locate_nth_copy(self.locate_first_copy(chunk), copy)
    }

    /// Returns the unit on a row of a member, and the copy's number; `None` on rows that the layout leaves unused. The
    /// unit may lie beyond the last unit of the array.
    fn unit_at(&self, member: u16, row: u64) -> Option<(u64, u16)> {
        let (n, copies, member) = (self.width.divisor(), u64::from(self.copies), u64::from(member));
        let found = match self.layout {
            ArrayLayout::Near => {
                let position = row * n + member;
                (position / copies, (position % copies) as u16)
            }
            ArrayLayout::Split => (row * n + member % n, (member / n) as u16),
            ArrayLayout::Offset => {
                let copy = row % copies;
                (row / copies * n + (member + n - copy) % n, copy as u16)
            }
            _ => {
                let copy = row / self.copy_stride_rows;
                // the rows after the last section are unused
                if copy >= copies {
                    return None;
                }
                (row % self.copy_stride_rows * n + (member + n - copy) % n, copy as u16)
            }
        };
        Some(found)
    }
}

impl ParityMap {
    #[inline]
    pub(super) fn row_layout(&self, row: u64) -> ParityRow {
        ParityRow::new(self.layout, self.members.remainder(row), self.members.divisor() as u16, self.parity_units)
    }
}

impl ArrayGeometry {
    pub(super) fn from_map(level: ArrayLevel, members: u16, unit: u64, rows: u64, map: BlockMap) -> ArrayGeometry {
        let blocks = match &map {
            BlockMap::Linear { ends } => ends.last().copied().unwrap_or(0),
            BlockMap::Copies(copies) => copies.data_units(rows) * unit,
            BlockMap::Parity(parity) => rows * parity.data_units.divisor() * unit,
        };
        let row_blocks = match &map {
            BlockMap::Linear { .. } => blocks,
            BlockMap::Copies(CopiesMap { layout: ArrayLayout::Near, copies, width, .. }) => {
                width.divisor() * unit / u64::from(*copies)
            }
            BlockMap::Copies(copies) => copies.width.divisor() * unit,
            BlockMap::Parity(parity) => parity.data_units.divisor() * unit,
        };
        ArrayGeometry {
            level,
            member_count: members,
            unit_divisor: FastDivisor::new(unit),
            rows,
            capacity_blocks: blocks,
            row_blocks,
            block_map: map,
        }
    }

    /// Level of the array.
    pub fn level(&self) -> ArrayLevel {
        self.level
    }

    /// Number of members.
    pub fn member_count(&self) -> u16 {
        self.member_count
    }

    /// Usable capacity in blocks.
    pub fn capacity_blocks(&self) -> u64 {
        self.capacity_blocks
    }

    /// Stripe unit, blocks.
    pub fn unit_blocks(&self) -> u64 {
        self.unit_divisor.divisor()
    }

    #[inline]
    pub(super) fn unit_divisor(&self) -> FastDivisor {
        self.unit_divisor
    }

    /// Blocks used of each member (in a linear array: of the smallest).
    pub fn member_blocks(&self) -> u64 {
        self.rows * self.unit_divisor.divisor()
    }

    /// Number of copies of each block.
    pub fn copy_count(&self) -> u16 {
        match &self.block_map {
            BlockMap::Copies(copies) => copies.copies,
            _ => 1,
        }
    }

    /// Parity units per row.
    pub fn parity_count(&self) -> u16 {
        match &self.block_map {
            BlockMap::Parity(parity) => parity.parity_units,
            _ => 0,
        }
    }

    /// Data blocks per row of stripe units. A write that begins and ends at a multiple of this needs no reads.
    #[inline]
    pub fn row_blocks(&self) -> u64 {
        self.row_blocks
    }

    /// Returns the position of copy `copy` of `block`, and how many blocks from there on, at most `blocks`, are
    /// contiguous on the same member. `None` beyond the end of the array or the last copy.
    #[inline]
    pub fn map_block(&self, block: u64, blocks: u64, copy: u16) -> Option<MemberPiece> {
        if block >= self.capacity_blocks || copy >= self.copy_count() {
            return None;
        }
        let blocks = blocks.min(self.capacity_blocks - block);
        match &self.block_map {
            BlockMap::Linear { ends } => {
                let member = ends.partition_point(|end| *end <= block);
                let start = if member == 0 { 0 } else { ends[member - 1] };
                let blocks = blocks.min(ends[member] - block);
                Some(MemberPiece { member: member as u16, block: block - start, blocks })
            }
            BlockMap::Copies(copies) => {
                let (chunk, offset) = self.unit_divisor.div_rem(block);
                let (member, row) = copies.locate_copy(chunk, copy);
                let blocks = blocks.min(self.unit_divisor.divisor() - offset);
                Some(MemberPiece { member, block: row * self.unit_divisor.divisor() + offset, blocks })
            }
            BlockMap::Parity(parity) => {
                let (chunk, offset) = self.unit_divisor.div_rem(block);
                let (row, data) = parity.data_units.div_rem(chunk);
                let member = parity.row_layout(row).data_member(data as u16);
                let blocks = blocks.min(self.unit_divisor.divisor() - offset);
                Some(MemberPiece { member, block: row * self.unit_divisor.divisor() + offset, blocks })
            }
        }
    }

    /// Returns the content of a block of a member: the inverse of [`ArrayGeometry::map_block`].
    pub fn content_of_member_block(&self, member: u16, block: u64) -> MemberBlock {
        if member >= self.member_count {
            return MemberBlock::Unused;
        }
        let unit = self.unit_divisor.divisor();
        let (row, offset) = self.unit_divisor.div_rem(block);
        match &self.block_map {
            BlockMap::Linear { ends } => {
                let start = if member == 0 { 0 } else { ends[usize::from(member) - 1] };
                let is_inside = block < ends[usize::from(member)] - start;
                if is_inside { MemberBlock::Data { block: start + block, copy: 0 } } else { MemberBlock::Unused }
            }
            _ if row >= self.rows => MemberBlock::Unused,
            BlockMap::Copies(copies) => match copies.unit_at(member, row) {
                Some((chunk, copy)) if chunk < copies.data_units(self.rows) => {
                    MemberBlock::Data { block: chunk * unit + offset, copy }
                }
                _ => MemberBlock::Unused,
            },
            BlockMap::Parity(parity) => match parity.row_layout(row).unit_on_member(member) {
                Ok(data) => MemberBlock::Data {
                    block: (row * parity.data_units.divisor() + u64::from(data)) * unit + offset,
                    copy: 0,
                },
                Err(parity) => MemberBlock::Parity { parity, row },
            },
        }
    }

    /// Returns the member of data unit `unit` of a row of a parity level. `None` if there is no such unit, and at other
    /// levels.
    #[inline]
    pub fn data_member(&self, row: u64, unit: u16) -> Option<u16> {
        match &self.block_map {
            BlockMap::Parity(parity) if u64::from(unit) < parity.data_units.divisor() => {
                Some(parity.row_layout(row).data_member(unit))
            }
            _ => None,
        }
    }

    /// Returns the member of parity `parity` (0 is P, 1 Q, 2 the third) of a row. `None` if there is none.
    #[inline]
    pub fn parity_member(&self, row: u64, parity: u16) -> Option<u16> {
        match &self.block_map {
            BlockMap::Parity(map) if parity < map.parity_units => Some(map.row_layout(row).parity_member(parity)),
            _ => None,
        }
    }

    /// Returns true if all data is still available with these members failed.
    pub fn survives_failures(&self, failed: MemberSet) -> bool {
        let failed = failed.below(self.member_count);
        match &self.block_map {
            BlockMap::Linear { .. } => failed.is_empty(),
            BlockMap::Parity(parity) => failed.count() <= u32::from(parity.parity_units),
            BlockMap::Copies(copies) => {
                let failed = self.out_of_service(failed);
                // the placement repeats after as many units as there are members
                (0..u64::from(self.member_count))
                    .all(|chunk| (0..copies.copies).any(|copy| !failed.contains(copies.locate_copy(chunk, copy).0)))
            }
        }
    }

    /// Returns the members that cannot serve if these have failed: in a mirror of stripe sets, all members of each set
    /// that has lost one.
    pub fn out_of_service(&self, failed: MemberSet) -> MemberSet {
        let failed = failed.below(self.member_count);
        match &self.block_map {
            BlockMap::Copies(CopiesMap { layout: ArrayLayout::Split, width, .. }) => {
                let width = width.divisor() as u16;
                let set_index = |member: u16| member / width;
                let is_set_lost = |member: &u16| {
                    (0..self.member_count).any(|m| failed.contains(m) && set_index(m) == set_index(*member))
                };
                (0..self.member_count).filter(is_set_lost).collect()
            }
            _ => failed,
        }
    }
}
