//! From requests to plans.

use super::parity::{RowJob, RowSpan};
use super::place::{BlockMap, Copies, Parity};
use super::plan::PlanList;
use super::{ArrayGeometry, ArrayState, MemberIo, MemberIoPart, MemberIoPlan, Members};
use crate::io::Io;

/// A request to an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayRequest {
    /// First block.
    pub block: u64,
    /// Blocks.
    pub blocks: u32,
    /// Write; a read otherwise.
    pub write: bool,
    /// Who asks (a process id), for [`ReadFrom::Process`].
    pub who: u32,
}

impl ArrayRequest {
    /// A read by process 0.
    pub fn read(block: u64, blocks: u32) -> ArrayRequest {
        ArrayRequest { block, blocks, write: false, who: 0 }
    }

    /// A write by process 0.
    pub fn write(block: u64, blocks: u32) -> ArrayRequest {
        ArrayRequest { write: true, ..ArrayRequest::read(block, blocks) }
    }
}

impl From<Io> for ArrayRequest {
    fn from(io: Io) -> ArrayRequest {
        ArrayRequest { write: io.write, ..ArrayRequest::read(io.first, io.blocks) }
    }
}

/// Which copy a read goes to. A copy on a member that cannot serve is never
/// chosen; the next one is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The copies that can be read, in turn.
    #[default]
    RoundRobin,
    /// The copy whose member's arm was last sent nearest. Positions are those
    /// of the last I/O planned, unless [`Planner::moved`] tells better.
    Nearest,
    /// md with rotating members: a mirror's member on whom the read goes on
    /// behind the last one; else the first that has nothing to do; else the copy
    /// nearest to where its member's last I/O ended (`read_balance` of
    /// drivers/md/raid1.c and, for near copies, raid10.c, which has no first
    /// step; positions change when an I/O is done, `update_head_pos`). Needs
    /// [`Planner::pending`] and [`Planner::moved`].
    IdleOrNearest,
    /// The copy that the process id picks (btrfs).
    Process,
    /// The first copy; the others only when it fails.
    Primary,
    /// The copy whose member has the least to do (md, with flash), as
    /// [`Planner::pending`] was told.
    LeastBusy,
}

/// How a write that covers only part of a row updates its parity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteBy {
    /// What takes the fewest I/Os; of two equal, reconstructing, as md does.
    #[default]
    Fewest,
    /// As [`WriteBy::Fewest`] with all members well. With some lost as Linux's md: it gathers what a lost parity
    /// would be made of, and modifies only where both parities are there (drivers/md/raid5.c,
    /// handle_stripe_dirtying and need_this_block of Linux 6.1).
    Md,
    /// By reading what will be overwritten and the old parity, where possible:
    /// the textbook's way.
    ReadModifyWrite,
    /// By reading what will not be overwritten, where possible.
    Reconstruct,
}

/// What an array leaves to choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayPolicy {
    /// Which copy a read goes to.
    pub read_from: ReadFrom,
    /// How parity is updated.
    pub write_by: WriteBy,
    /// Whether pieces of one request that lie behind one another on a member
    /// become one I/O.
    pub join: bool,
}

impl Default for ArrayPolicy {
    fn default() -> ArrayPolicy {
        ArrayPolicy { read_from: ReadFrom::default(), write_by: WriteBy::default(), join: true }
    }
}

/// Turns requests to an array into plans. Holds the state of its members and
/// what the choice of copies needs to remember, and nothing of time.
#[derive(Clone, Debug)]
pub struct Planner {
    array: ArrayGeometry,
    policy: ArrayPolicy,
    /// `failed` here is who is out of service, which may be more than failed.
    state: ArrayState,
    turn: u16,
    positions: Box<[u64]>,
    /// Where the last read that was sent to each member ended.
    read_on: Box<[u64]>,
    pending: Box<[u32]>,
}

impl Planner {
    /// For an array with all members well.
    pub fn new(array: ArrayGeometry, policy: ArrayPolicy) -> Planner {
        let members = usize::from(array.members());
        let (positions, read_on) = (vec![0; members].into_boxed_slice(), vec![0; members].into_boxed_slice());
        let pending = vec![0; members].into_boxed_slice();
        Planner { array, policy, state: ArrayState::default(), turn: 0, positions, read_on, pending }
    }

    /// The array.
    pub fn array(&self) -> &ArrayGeometry {
        &self.array
    }

    /// The policy.
    pub fn policy(&self) -> ArrayPolicy {
        self.policy
    }

    /// The members' state, with everyone who is out of service as failed.
    pub fn state(&self) -> ArrayState {
        self.state
    }

    /// Sets which members have failed and how far a rebuild is. Says whether
    /// all data can still be had.
    pub fn set_state(&mut self, state: ArrayState) -> bool {
        let failed = self.array.out_of_service(state.failed);
        let rebuilding = self.array.out_of_service(state.rebuilding).and(failed);
        // parity is good by whole rows only
        let good_below = match &self.array.map {
            BlockMap::Parity(_) => state.good_below - self.array.unit().rest(state.good_below),
            _ => state.good_below,
        };
        let good_below = if rebuilding.is_empty() { 0 } else { good_below };
        self.state = ArrayState { failed, rebuilding, good_below };
        assert!(rebuilding.less(failed).is_empty(), "a member counts as failed until all of it is rebuilt");
        self.array.survives(state.failed)
    }

    /// An I/O that was planned will move a member's arm: what is known until
    /// [`Planner::moved`] tells better, but not to a policy that waits for that.
    #[inline]
    fn sent(&mut self, member: u16, end: u64) {
        if self.policy.read_from != ReadFrom::IdleOrNearest {
            self.positions[usize::from(member)] = end;
        }
    }

    /// Tells where the arm of a member is, a block on it.
    pub fn moved(&mut self, member: u16, block: u64) {
        if let Some(position) = self.positions.get_mut(usize::from(member)) {
            *position = block;
        }
    }

    /// Tells how many I/Os a member has outstanding.
    pub fn pending(&mut self, member: u16, ios: u32) {
        if let Some(pending) = self.pending.get_mut(usize::from(member)) {
            *pending = ios;
        }
    }

    /// Plans a request. What lies beyond the array's end, or on too many
    /// failed members, is counted in `lost_blocks`.
    pub fn plan(&mut self, request: ArrayRequest, plan: &mut MemberIoPlan) {
        let wide = u64::from(request.blocks) >= self.array.row_blocks();
        plan.start(self.array.members(), wide && self.policy.join);
        let room = self.array.blocks().saturating_sub(request.block);
        let blocks = u64::from(request.blocks).min(room);
        plan.lost_blocks = u64::from(request.blocks) - blocks;
        if blocks == 0 {
            return;
        }
        let part = BlockStretch { block: request.block, blocks, write: request.write };
        match &self.array.map {
            BlockMap::Linear { .. } => self.linear(part, plan),
            BlockMap::Copies(copies) => {
                let copies = *copies;
                self.copies(copies, part, request.who, plan);
            }
            BlockMap::Parity(parity) if self.array.level() == super::ArrayLevel::Raid3 => {
                self.together(*parity, part, plan)
            }
            BlockMap::Parity(parity) => self.parity(*parity, part, plan),
        }
        debug_assert!(plan.lost_blocks <= u64::from(request.blocks), "no more is lost than was asked for");
    }

    fn linear(&self, part: BlockStretch, plan: &mut MemberIoPlan) {
        let BlockStretch { mut block, mut blocks, write } = part;
        while let Some(piece) = self.array.map(block, blocks, 0) {
            if self.state.failed.contains(piece.member) {
                plan.lost_blocks += piece.blocks;
            } else {
                let list = if write { PlanList::Writes } else { PlanList::Reads };
                plan.push(list, io(piece.member, piece.block, piece.blocks, write, MemberIoPart::Data));
            }
            debug_assert!(piece.blocks > 0 && piece.blocks <= blocks, "a piece is a part of the request");
            block += piece.blocks;
            blocks -= piece.blocks;
            if blocks == 0 {
                return;
            }
        }
    }

    fn copies(&mut self, copies: Copies, part: BlockStretch, who: u32, plan: &mut MemberIoPlan) {
        let unit = self.array.unit();
        let (mut chunk, mut offset) = unit.split(part.block);
        let mut left = part.blocks;
        while left > 0 {
            let blocks = left.min(unit.by() - offset);
            if part.write {
                self.write_copies(copies, chunk, offset, blocks, plan);
            } else if let Some((member, block)) = self.choose(copies, chunk, offset, blocks, who) {
                plan.push(PlanList::Reads, io(member, block, blocks, false, MemberIoPart::Data));
                self.sent(member, block + blocks);
            } else {
                plan.lost_blocks += blocks;
            }
            left -= blocks;
            chunk += 1;
            offset = 0;
        }
    }

    fn write_copies(&mut self, copies: Copies, chunk: u64, offset: u64, blocks: u64, plan: &mut MemberIoPlan) {
        let first = copies.first(chunk);
        let mut written = false;
        for copy in 0..copies.copies {
            let (member, row) = copies.nth(first, copy);
            let block = row * self.array.unit_blocks() + offset;
            if !self.state.unwritten(block).contains(member) {
                plan.push(PlanList::Writes, io(member, block, blocks, true, MemberIoPart::Data));
                self.sent(member, block + blocks);
                written = true;
            }
        }
        if !written {
            plan.lost_blocks += blocks;
        }
    }

    /// Member and block there of the copy to read.
    #[inline]
    fn choose(&mut self, copies: Copies, chunk: u64, offset: u64, blocks: u64, who: u32) -> Option<(u16, u64)> {
        let (state, unit, first) = (self.state, self.array.unit_blocks(), copies.first(chunk));
        let all_well = state.failed.is_empty();
        let place_of = |copy| {
            let (member, row) = copies.nth(first, copy);
            (member, row * unit + offset)
        };
        let well = |(member, block): &(u16, u64)| all_well || !state.unreadable(block + blocks).contains(*member);
        let count = copies.copies;
        let wanted = match self.policy.read_from {
            _ if count == 1 => 0,
            ReadFrom::Nearest => {
                let way = |(member, block): &(u16, u64)| self.positions[usize::from(*member)].abs_diff(*block);
                return (0..count).map(place_of).filter(well).min_by_key(way);
            }
            ReadFrom::IdleOrNearest => {
                let place = self.as_md_chooses((0..count).map(place_of).filter(well))?;
                self.read_on[usize::from(place.0)] = place.1 + blocks;
                return Some(place);
            }
            ReadFrom::LeastBusy => {
                let pending = |(member, _): &(u16, u64)| self.pending[usize::from(*member)];
                return (0..count).map(place_of).filter(well).min_by_key(pending);
            }
            ReadFrom::Primary => 0,
            ReadFrom::Process => (who % u32::from(count)) as u16,
            ReadFrom::RoundRobin => {
                // those that can be read, each as often as another
                let left = if all_well { count } else { (0..count).map(place_of).filter(well).count() as u16 };
                let turn = if self.turn < left { self.turn } else { 0 };
                self.turn = turn + 1;
                return (0..count).map(place_of).filter(well).nth(usize::from(turn));
            }
        };
        let place = place_of(wanted);
        if well(&place) {
            return Some(place);
        }
        (wanted + 1..count).chain(0..wanted).map(place_of).find(well)
    }

    /// [`ReadFrom::IdleOrNearest`], of the copies that can be read.
    fn as_md_chooses(&self, copies: impl Iterator<Item = (u16, u64)> + Clone) -> Option<(u16, u64)> {
        let mirror = self.array.level() == super::ArrayLevel::Raid1;
        let goes_on = |(member, block): &(u16, u64)| {
            let member = usize::from(*member);
            mirror && (self.read_on[member] == *block || self.positions[member] == *block)
        };
        let way = |(member, block): &(u16, u64)| match self.pending[usize::from(*member)] {
            0 => 0,
            _ => self.positions[usize::from(*member)].abs_diff(*block),
        };
        copies.clone().find(goes_on).or_else(|| copies.min_by_key(way))
    }

    /// All members move together (RAID 3): each does its share of the whole.
    fn together(&self, parity: Parity, part: BlockStretch, plan: &mut MemberIoPlan) {
        let (k, p) = (parity.k.by(), parity.p);
        let (from, to) = (part.block / k, (part.block + part.blocks).div_ceil(k));
        let (row, blocks) = (parity.row(0), to - from);
        let lost = if part.write { self.state.unwritten(from) } else { self.state.unreadable(to) };
        if lost.count() > u32::from(p) {
            plan.lost_blocks += part.blocks;
            return;
        }
        let list = if part.write { PlanList::Writes } else { PlanList::Reads };
        let data = (0..k as u16).map(|d| (row.data(d), MemberIoPart::Data));
        let parities = (0..p).map(|j| (row.parity(j), MemberIoPart::parity(j)));
        let recover = (0..k as u16).any(|d| lost.contains(row.data(d)));
        let needed = if part.write { usize::from(p) + k as usize } else { k as usize };
        for (member, what) in data.chain(parities).filter(|(m, _)| !lost.contains(*m)).take(needed) {
            plan.push(list, io(member, from, blocks, part.write, what));
        }
        if part.write || recover {
            plan.work.xor_blocks += (k - 1) * blocks;
        }
    }

    fn parity(&self, parity: Parity, part: BlockStretch, plan: &mut MemberIoPlan) {
        let unit = self.array.unit();
        let (chunk, lo) = unit.split(part.block);
        let (last_chunk, hi) = unit.split(part.block + part.blocks - 1);
        let (mut row, first) = parity.k.split(chunk);
        let (last_row, last) = parity.k.split(last_chunk);
        let (mut first, mut lo) = (first as u16, lo);
        let end = parity.k.by() as u16 - 1;
        loop {
            let ends = row == last_row;
            let (last, hi) = if ends { (last as u16, hi + 1) } else { (end, unit.by()) };
            let span = RowSpan { first, last, lo, hi };
            let lost = self.row_lost(row, part.write);
            let job = RowJob::new(&parity, row, unit.by(), span, lost);
            match (part.write, lost.is_empty()) {
                (false, true) => job.read(plan),
                (false, false) => job.read_degraded(plan),
                (true, true) => job.write(self.policy.write_by, plan),
                (true, false) => job.write_degraded(self.policy.write_by, plan),
            }
            if ends {
                return;
            }
            (row, first, lo) = (row + 1, 0, 0);
        }
    }

    #[inline]
    fn row_lost(&self, row: u64, write: bool) -> Members {
        if self.state.failed.is_empty() {
            return Members::NONE;
        }
        let unit = self.array.unit_blocks();
        if write { self.state.unwritten(row * unit) } else { self.state.unreadable((row + 1) * unit) }
    }
}

/// The part of a request that lies inside the array.
#[derive(Clone, Copy)]
struct BlockStretch {
    block: u64,
    blocks: u64,
    write: bool,
}

/// A member I/O; no piece is longer than the request, whose length fits.
#[inline]
pub(super) fn io(member: u16, block: u64, blocks: u64, write: bool, part: MemberIoPart) -> MemberIo {
    MemberIo { block, blocks: u32::try_from(blocks).unwrap_or(u32::MAX), member, write, part }
}
