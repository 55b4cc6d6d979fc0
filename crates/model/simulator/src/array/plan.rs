//! A plan: the member I/Os of one request, and what they cost to compute.

use crate::io::Io;

/// What a member I/O carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MemberIoPart {
    /// Data, or a copy of it.
    Data,
    /// The XOR of the row's data.
    P,
    /// The second parity.
    Q,
    /// The third parity.
    R,
}

impl MemberIoPart {
    /// Parity unit j.
    pub(super) fn parity(j: u16) -> MemberIoPart {
        [MemberIoPart::P, MemberIoPart::Q, MemberIoPart::R][usize::from(j.min(2))]
    }
}

/// One I/O of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberIo {
    /// First block on the member.
    pub block: u64,
    /// Blocks.
    pub blocks: u32,
    /// Position of the member.
    pub member: u16,
    /// Write; a read otherwise.
    pub write: bool,
    /// What it carries.
    pub part: MemberIoPart,
}

impl MemberIo {
    /// What its member is asked for.
    #[inline]
    pub fn io(&self) -> Io {
        Io { first: self.block, blocks: self.blocks, write: self.write }
    }
}

/// What a plan computes, in blocks folded into a parity. Times the block size
/// and the cost of a byte, it is the time of the parity engine or the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParityWork {
    /// Blocks folded in by XOR (P).
    pub xor_blocks: u64,
    /// Blocks multiplied and folded in (Q and the third parity).
    pub galois_blocks: u64,
}

/// The member I/Os of one request. A plan is a buffer to be used again and
/// again: once it has grown to the largest request, nothing is allocated.
///
/// `reads` and `writes` may start at once; `after` may start when all of
/// `reads` are done (and the work is), and never before. The request is done
/// when all are. A read request has `reads` only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberIoPlan {
    /// Reads: what was asked for, or what the parity needs.
    pub reads: Vec<MemberIo>,
    /// Writes that wait for nothing.
    pub writes: Vec<MemberIo>,
    /// Writes that wait for the reads.
    pub after: Vec<MemberIo>,
    /// What has to be computed: for a write before `after` and the parities of
    /// `writes`; for a degraded read when it has read.
    pub work: ParityWork,
    /// Blocks of the request that cannot be served: too many members failed.
    pub lost_blocks: u64,
    /// First I/O of each list in which the last I/O of a member may be joined.
    pub(super) joined: JoinIndex,
}

/// Where the last I/O of each member stands in a list, for joining pieces that
/// lie behind one another. Numbers of older plans are out of date by `stamp`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JoinIndex {
    stamp: u32,
    on: bool,
    last: Vec<(u32, u32)>,
}

/// The lists of a plan.
#[derive(Clone, Copy)]
pub(super) enum PlanList {
    Reads,
    Writes,
    After,
}

const LISTS: usize = 3;

impl MemberIoPlan {
    /// An empty plan.
    pub fn new() -> MemberIoPlan {
        MemberIoPlan::default()
    }

    /// Member I/Os in all.
    pub fn ios(&self) -> usize {
        self.reads.len() + self.writes.len() + self.after.len()
    }

    /// All member I/Os: reads, writes, then the writes after the reads.
    pub fn all(&self) -> impl Iterator<Item = &MemberIo> {
        self.reads.iter().chain(&self.writes).chain(&self.after)
    }

    /// Blocks that move between members and whoever computes.
    pub fn blocks(&self) -> u64 {
        self.all().map(|io| u64::from(io.blocks)).sum()
    }

    /// Empties it. With `join`, pieces that lie behind one another on a
    /// member become one I/O.
    #[inline]
    pub(super) fn start(&mut self, members: u16, join: bool) {
        self.reads.clear();
        self.writes.clear();
        self.after.clear();
        self.work = ParityWork::default();
        self.lost_blocks = 0;
        self.joined.on = join;
        if join {
            self.start_joining(members);
        }
    }

    fn start_joining(&mut self, members: u16) {
        let joined = &mut self.joined;
        joined.stamp = joined.stamp.wrapping_add(1);
        let wanted = usize::from(members) * LISTS;
        if joined.stamp == 0 || joined.last.len() != wanted {
            joined.last.clear();
            joined.last.resize(wanted, (0, 0));
            joined.stamp = 1;
        }
    }

    #[inline]
    pub(super) fn push(&mut self, list: PlanList, io: MemberIo) {
        let ios = match list {
            PlanList::Reads => &mut self.reads,
            PlanList::Writes => &mut self.writes,
            PlanList::After => &mut self.after,
        };
        if self.joined.on {
            let last = &mut self.joined.last[usize::from(io.member) * LISTS + list as usize];
            if last.0 == self.joined.stamp
                && let Some(before) = ios.get_mut(last.1 as usize)
                && before.block + u64::from(before.blocks) == io.block
                && let Some(blocks) = before.blocks.checked_add(io.blocks)
            {
                before.blocks = blocks;
                // a stretch of data and parity counts as data
                if before.part != io.part {
                    before.part = MemberIoPart::Data;
                }
                return;
            }
            *last = (self.joined.stamp, ios.len() as u32);
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
    fn what_lies_behind_one_another_is_joined() {
        let io = |member, block, blocks| MemberIo { block, blocks, member, write: false, part: MemberIoPart::Data };
        let mut plan = MemberIoPlan::new();
        for _ in 0..2 {
            plan.start(2, true);
            for (member, block) in [(0, 0), (1, 0), (0, 8), (1, 9), (0, 16)] {
                plan.push(PlanList::Reads, io(member, block, 8));
            }
            assert_eq!(plan.reads, [io(0, 0, 24), io(1, 0, 8), io(1, 9, 8)]);
        }
        plan.start(2, false);
        plan.push(PlanList::Reads, io(0, 0, 8));
        plan.push(PlanList::Reads, io(0, 8, 8));
        assert_eq!(plan.ios(), 2);
    }
}
