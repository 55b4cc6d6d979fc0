//! Address mapping: from blocks of an array to its members, and from blocks of a member to their content.
//!
//! Units are numbered through the array (chunks) and down each member (rows). For copies this follows
//! `drivers/md/raid10.c` (near, far, offset), which is plain striping with one copy, and mirroring with one unit per
//! member; for parity it follows `drivers/md/raid5.c`.

use super::divide::FastDivisor;
use super::layout::ParityRow;
use super::{ArrayLayout, ArrayLevel, Members};

/// Geometry of an array, without state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayGeometry {
    level: ArrayLevel,
    members: u16,
    unit: FastDivisor,
    /// Whole units on each member.
    rows: u64,
    blocks: u64,
    row_blocks: u64,
    pub(super) map: BlockMap,
}

/// Placement of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BlockMap {
    /// Members end to end, by the end block of each.
    Linear {
        ends: Box<[u64]>,
    },
    Copies(Copies),
    Parity(Parity),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copies {
    pub(super) layout: ArrayLayout,
    pub(super) copies: u16,
    /// Units per row.
    width: FastDivisor,
    /// Rows between the copies of a far layout.
    stride: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parity {
    layout: ArrayLayout,
    /// Number of members, which is also the number of rows after which the placement repeats.
    n: FastDivisor,
    /// Data units per row.
    pub(super) k: FastDivisor,
    pub(super) p: u16,
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
    /// Unused rest at the end of the member.
    Unused,
}

impl BlockMap {
    pub(super) fn linear(members: &[u64]) -> BlockMap {
        let mut end = 0;
        let ends = members.iter().map(|blocks| {
            end += blocks;
            end
        });
        BlockMap::Linear { ends: ends.collect() }
    }

    pub(super) fn copies(layout: ArrayLayout, n: u16, copies: u16, rows: u64) -> BlockMap {
        let width = if layout == ArrayLayout::Split { n / copies } else { n };
        let stride = rows / u64::from(copies);
        BlockMap::Copies(Copies { layout, copies, width: FastDivisor::new(u64::from(width)), stride })
    }

    pub(super) fn parity(layout: ArrayLayout, n: u16, p: u16) -> BlockMap {
        BlockMap::Parity(Parity { layout, n: FastDivisor::new(u64::from(n)), k: FastDivisor::new(u64::from(n - p)), p })
    }
}

impl Copies {
    /// Number of data units in `rows` rows.
    fn chunks(&self, rows: u64) -> u64 {
        match self.layout {
            ArrayLayout::Near => rows * self.width.by() / u64::from(self.copies),
            ArrayLayout::Split => rows * self.width.by(),
            _ => self.stride * self.width.by(),
        }
    }

    /// Returns member and row of the first copy of a unit.
    #[inline]
    pub(super) fn first(&self, chunk: u64) -> (u16, u64) {
        let position = if self.layout == ArrayLayout::Near { chunk * u64::from(self.copies) } else { chunk };
        let (row, member) = self.width.split(position);
        let row = if self.layout == ArrayLayout::Offset { row * u64::from(self.copies) } else { row };
        (member as u16, row)
    }

    /// Returns member and row of another copy of the unit, given those of the first copy.
    #[inline]
    pub(super) fn nth(&self, (member, row): (u16, u64), copy: u16) -> (u16, u64) {
        let n = self.width.by() as u16;
        if self.layout == ArrayLayout::Split {
            return (member + copy * n, row);
        }
        let wraps = member + copy >= n;
        let member = if wraps { member + copy - n } else { member + copy };
        let row = match self.layout {
            // past the last member copies continue in the next row
            ArrayLayout::Near => row + u64::from(wraps),
            ArrayLayout::Offset => row + u64::from(copy),
            _ => row + u64::from(copy) * self.stride,
        };
        (member, row)
    }

    /// Returns member and row of a copy of a unit.
    #[inline]
    pub(super) fn place(&self, chunk: u64, copy: u16) -> (u16, u64) {
        self.nth(self.first(chunk), copy)
    }

    /// Returns the unit on a row of a member, and which copy of it. The unit may lie beyond the last unit of the array.
    fn unit(&self, member: u16, row: u64) -> (u64, u16) {
        let (n, copies, member) = (self.width.by(), u64::from(self.copies), u64::from(member));
        match self.layout {
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
                let copy = row / self.stride;
                // the rows after the last section are unused
                if copy >= copies {
                    return (u64::MAX, 0);
                }
                (row % self.stride * n + (member + n - copy) % n, copy as u16)
            }
        }
    }
}

impl Parity {
    #[inline]
    pub(super) fn row(&self, row: u64) -> ParityRow {
        ParityRow::new(self.layout, self.n.rest(row), self.n.by() as u16, self.p)
    }
}

impl ArrayGeometry {
    pub(super) fn with(level: ArrayLevel, members: u16, unit: u64, rows: u64, map: BlockMap) -> ArrayGeometry {
        let blocks = match &map {
            BlockMap::Linear { ends } => ends.last().copied().unwrap_or(0),
            BlockMap::Copies(copies) => copies.chunks(rows) * unit,
            BlockMap::Parity(parity) => rows * parity.k.by() * unit,
        };
        let row_blocks = match &map {
            BlockMap::Linear { .. } => blocks,
            BlockMap::Copies(Copies { layout: ArrayLayout::Near, copies, width, .. }) => {
                width.by() * unit / u64::from(*copies)
            }
            BlockMap::Copies(copies) => copies.width.by() * unit,
            BlockMap::Parity(parity) => parity.k.by() * unit,
        };
        ArrayGeometry { level, members, unit: FastDivisor::new(unit), rows, blocks, row_blocks, map }
    }

    /// Level of the array.
    pub fn level(&self) -> ArrayLevel {
        self.level
    }

    /// Number of members.
    pub fn members(&self) -> u16 {
        self.members
    }

    /// Usable capacity in blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Stripe unit, blocks.
    pub fn unit_blocks(&self) -> u64 {
        self.unit.by()
    }

    #[inline]
    pub(super) fn unit(&self) -> FastDivisor {
        self.unit
    }

    /// Blocks used of each member (in a linear array: of the smallest).
    pub fn member_blocks(&self) -> u64 {
        self.rows * self.unit.by()
    }

    /// Number of copies of each block.
    pub fn copies(&self) -> u16 {
        match &self.map {
            BlockMap::Copies(copies) => copies.copies,
            _ => 1,
        }
    }

    /// Parity units per row.
    pub fn parities(&self) -> u16 {
        match &self.map {
            BlockMap::Parity(parity) => parity.p,
            _ => 0,
        }
    }

    /// Data blocks per row of stripe units: writes aligned to this, and a multiple of it, need no reads.
    #[inline]
    pub fn row_blocks(&self) -> u64 {
        self.row_blocks
    }

    /// Returns the position of copy `copy` of `block`, and how many blocks from there on, at most `blocks`, are
    /// contiguous on the same member. `None` beyond the end of the array or the last copy.
    #[inline]
    pub fn map(&self, block: u64, blocks: u64, copy: u16) -> Option<MemberPiece> {
        if block >= self.blocks || copy >= self.copies() {
            return None;
        }
        let blocks = blocks.min(self.blocks - block);
        match &self.map {
            BlockMap::Linear { ends } => {
                let member = ends.partition_point(|end| *end <= block);
                let start = if member == 0 { 0 } else { ends[member - 1] };
                let blocks = blocks.min(ends[member] - block);
                Some(MemberPiece { member: member as u16, block: block - start, blocks })
            }
            BlockMap::Copies(copies) => {
                let (chunk, offset) = self.unit.split(block);
                let (member, row) = copies.place(chunk, copy);
                let blocks = blocks.min(self.unit.by() - offset);
                Some(MemberPiece { member, block: row * self.unit.by() + offset, blocks })
            }
            BlockMap::Parity(parity) => {
                let (chunk, offset) = self.unit.split(block);
                let (row, data) = parity.k.split(chunk);
                let member = parity.row(row).data(data as u16);
                let blocks = blocks.min(self.unit.by() - offset);
                Some(MemberPiece { member, block: row * self.unit.by() + offset, blocks })
            }
        }
    }

    /// Returns the content of a block of a member: the inverse of [`ArrayGeometry::map`].
    pub fn place(&self, member: u16, block: u64) -> MemberBlock {
        if member >= self.members {
            return MemberBlock::Unused;
        }
        let unit = self.unit.by();
        let (row, offset) = self.unit.split(block);
        match &self.map {
            BlockMap::Linear { ends } => {
                let start = if member == 0 { 0 } else { ends[usize::from(member) - 1] };
                let inside = block < ends[usize::from(member)] - start;
                if inside { MemberBlock::Data { block: start + block, copy: 0 } } else { MemberBlock::Unused }
            }
            _ if row >= self.rows => MemberBlock::Unused,
            BlockMap::Copies(copies) => match copies.unit(member, row) {
                (chunk, copy) if chunk < copies.chunks(self.rows) => {
                    MemberBlock::Data { block: chunk * unit + offset, copy }
                }
                _ => MemberBlock::Unused,
            },
            BlockMap::Parity(parity) => match parity.row(row).unit(member) {
                Ok(data) => {
                    MemberBlock::Data { block: (row * parity.k.by() + u64::from(data)) * unit + offset, copy: 0 }
                }
                Err(parity) => MemberBlock::Parity { parity, row },
            },
        }
    }

    /// Returns the member of data unit `unit` of a row of a parity level. `None` if there is no such unit, and at other
    /// levels.
    #[inline]
    pub fn data_member(&self, row: u64, unit: u16) -> Option<u16> {
        match &self.map {
            BlockMap::Parity(parity) if u64::from(unit) < parity.k.by() => Some(parity.row(row).data(unit)),
            _ => None,
        }
    }

    /// Returns the member of parity `parity` (0 is P, 1 Q, 2 the third) of a row. `None` if there is none.
    #[inline]
    pub fn parity_member(&self, row: u64, parity: u16) -> Option<u16> {
        match &self.map {
            BlockMap::Parity(map) if parity < map.p => Some(map.row(row).parity(parity)),
            _ => None,
        }
    }

    /// Returns true if all data is still available with these members failed.
    pub fn survives(&self, failed: Members) -> bool {
        let failed = failed.within(self.members);
        match &self.map {
            BlockMap::Linear { .. } => failed.is_empty(),
            BlockMap::Parity(parity) => failed.count() <= u32::from(parity.p),
            BlockMap::Copies(copies) => {
                let failed = self.out_of_service(failed);
                // the placement repeats after as many units as there are members
                (0..u64::from(self.members))
                    .all(|chunk| (0..copies.copies).any(|copy| !failed.contains(copies.place(chunk, copy).0)))
            }
        }
    }

    /// Returns the members that cannot serve if these have failed: in a mirror of stripe sets, all members of each set
    /// that has lost one.
    pub fn out_of_service(&self, failed: Members) -> Members {
        let failed = failed.within(self.members);
        match &self.map {
            BlockMap::Copies(Copies { layout: ArrayLayout::Split, width, .. }) => {
                let width = width.by() as u16;
                let set = |member: u16| member / width;
                let lost = |member: &u16| (0..self.members).any(|m| failed.contains(m) && set(m) == set(*member));
                (0..self.members).filter(lost).collect()
            }
            _ => failed,
        }
    }
}
