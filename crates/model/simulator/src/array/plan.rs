//! Plan of a request: its member I/Os, and the work to compute parity.

use crate::io::Io;

/// Content of a member I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MemberIoPart {
    /// Data, or a copy of it.
    Data,
    /// The first parity, the XOR of the row's data.
    P,
    /// The second parity.
    Q,
    /// The third parity.
    R,
}

impl MemberIoPart {
    /// Returns the part for parity unit `j`.
    pub(super) fn from_parity_index(j: u16) -> MemberIoPart {
        [MemberIoPart::P, MemberIoPart::Q, MemberIoPart::R][usize::from(j.min(2))]
    }
}

/// An I/O to one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberIo {
    /// First block on the member.
    pub block: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// Index of the member.
    pub member: u16,
    /// True for a write, false for a read.
    pub write: bool,
    /// Content of the I/O.
    pub part: MemberIoPart,
}

impl MemberIo {
    /// Converts to the request to the member.
    #[inline]
    pub fn to_io(&self) -> Io {
        Io { first: self.block, blocks: self.blocks, write: self.write }
    }
}

/// Parity computation of a plan, in blocks folded into a parity. Multiplied by the block size and the cost of a byte,
/// it is the time of the parity engine or the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParityWork {
    /// Blocks folded in by XOR (P).
    pub xor_blocks: u64,
    /// Blocks multiplied and folded in (Q and the third parity).
    pub gf_mul_blocks: u64,
}

/// Member I/Os of one request. A plan is a reusable buffer: once it has grown to the largest request, nothing is
/// allocated.
///
/// `reads` and `writes` may start at once; `writes_after_reads` may start when all of `reads` are complete (and the
/// work is), never before. The request is complete when all I/Os are. A read request has `reads` only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberIoPlan {
    /// Reads: the requested blocks, or those needed for the parity.
    pub reads: Vec<MemberIo>,
    /// Writes that may start at once.
    pub writes: Vec<MemberIo>,
    /// Writes that wait for the reads.
    pub writes_after_reads: Vec<MemberIo>,
    /// Parity computation: for a write, before `writes_after_reads` and the parities of `writes`; for a degraded read,
    /// after its reads.
    pub work: ParityWork,
    /// Blocks of the request that cannot be served: too many members failed.
    pub lost_blocks: u64,
    /// Last I/O of each member in each list, for joining contiguous pieces.
    pub(super) join_index: JoinIndex,
}

/// Index of the last I/O of each member in each list, for joining contiguous pieces. Entries of older plans are
/// invalidated by `stamp`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JoinIndex {
    stamp: u32,
    is_enabled: bool,
    /// Stamp of the plan, and position of the I/O in its list.
    last_ios: Vec<(u32, u32)>,
}

/// The lists of a plan.
#[derive(Clone, Copy)]
pub(super) enum PlanList {
    Reads,
    Writes,
    WritesAfterReads,
}

const LIST_COUNT: usize = 3;

impl MemberIoPlan {
    /// Creates an empty plan.
    pub fn new() -> MemberIoPlan {
        MemberIoPlan::default()
    }

    /// Total number of member I/Os.
    pub fn io_count(&self) -> usize {
        self.reads.len() + self.writes.len() + self.writes_after_reads.len()
    }

    /// Iterates over all member I/Os: reads, writes, then the writes after the reads.
    pub fn iter(&self) -> impl Iterator<Item = &MemberIo> {
        self.reads.iter().chain(&self.writes).chain(&self.writes_after_reads)
    }

    /// Total blocks transferred to and from members.
    pub fn total_blocks(&self) -> u64 {
        self.iter().map(|io| u64::from(io.blocks)).sum()
    }

    /// Empties the plan. With `join`, contiguous pieces on a member become one I/O.
    #[inline]
    pub(super) fn reset(&mut self, members: u16, join: bool) {
        self.reads.clear();
        self.writes.clear();
        self.writes_after_reads.clear();
        self.work = ParityWork::default();
        self.lost_blocks = 0;
        self.join_index.is_enabled = join;
        if join {
            self.start_joining(members);
        }
    }

    fn start_joining(&mut self, members: u16) {
        let index = &mut self.join_index;
        index.stamp = index.stamp.wrapping_add(1);
        let entry_count = usize::from(members) * LIST_COUNT;
        // after the stamp has wrapped around, entries of old plans would look current
        if index.stamp == 0 || index.last_ios.len() != entry_count {
            index.last_ios.clear();
            index.last_ios.resize(entry_count, (0, 0));
            index.stamp = 1;
        }
    }

    #[inline]
    pub(super) fn push(&mut self, list: PlanList, io: MemberIo) {
        let ios = match list {
            PlanList::Reads => &mut self.reads,
            PlanList::Writes => &mut self.writes,
            PlanList::WritesAfterReads => &mut self.writes_after_reads,
        };
        if self.join_index.is_enabled {
            let last = &mut self.join_index.last_ios[usize::from(io.member) * LIST_COUNT + list as usize];
            if last.0 == self.join_index.stamp
                && let Some(before) = ios.get_mut(last.1 as usize)
                && before.block + u64::from(before.blocks) == io.block
                && let Some(blocks) = before.blocks.checked_add(io.blocks)
            {
                before.blocks = blocks;
                // a joined I/O of data and parity counts as data
                if before.part != io.part {
                    before.part = MemberIoPart::Data;
                }
                return;
            }
            *last = (self.join_index.stamp, ios.len() as u32);
        }
        ios.push(io);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_io_is_small() {
        assert_eq!(std::mem::size_of::<MemberIo>(), 16);
    }

    #[test]
    fn joins_contiguous_ios() {
        let io = |member, block, blocks| MemberIo { block, blocks, member, write: false, part: MemberIoPart::Data };
        let mut plan = MemberIoPlan::new();
        for _ in 0..2 {
            plan.reset(2, true);
            for (member, block) in [(0, 0), (1, 0), (0, 8), (1, 9), (0, 16)] {
                plan.push(PlanList::Reads, io(member, block, 8));
            }
            assert_eq!(plan.reads, [io(0, 0, 24), io(1, 0, 8), io(1, 9, 8)]);
        }
        plan.reset(2, false);
        plan.push(PlanList::Reads, io(0, 0, 8));
        plan.push(PlanList::Reads, io(0, 8, 8));
        assert_eq!(plan.io_count(), 2);
    }
}
