//! Planner: turns requests to an array into plans of member I/Os.
//!
//! These conditions hold for every plan ([`Planner::check_plan`] asserts them in debug builds):
//!
//! - Each I/O has blocks, and lies on a member of the array, within the member's used part.
//! - A read goes only to a member that can be read there; a write only to one that is in service there, or already
//!   rebuilt.
//! - The plan of a read has no writes, and writes wait only if there are reads to wait for.
//! - Blocks that cannot be served are counted in `lost_blocks`, at most once. With all members good, only the blocks
//!   beyond the array's end are counted.
//!
//! The planner sees no time. The history that it keeps between requests serves only the choice of a copy
//! ([`CopyChoice`]); a wrong guess there makes a slower plan, never a wrong one.

use super::geometry::{BlockMap, CopiesMap, ParityMap};
use super::parity_row_plan::{RowPlanner, RowSpan};
use super::plan::PlanList;
use super::{ArrayGeometry, ArrayState, MemberIo, MemberIoPart, MemberIoPlan, MemberSet};
use crate::io::Io;

/// A request to an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayRequest {
    /// First block.
    pub block: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// True for a write, false for a read.
    pub write: bool,
    /// Id of the requesting process, for [`CopyChoice::Process`].
    pub process_id: u32,
}

impl ArrayRequest {
    /// Makes a read by process 0.
    pub fn read(block: u64, blocks: u32) -> ArrayRequest {
        ArrayRequest { block, blocks, write: false, process_id: 0 }
    }

    /// Makes a write by process 0.
    pub fn write(block: u64, blocks: u32) -> ArrayRequest {
        ArrayRequest { write: true, ..ArrayRequest::read(block, blocks) }
    }
}

impl From<Io> for ArrayRequest {
    fn from(io: Io) -> ArrayRequest {
        ArrayRequest { write: io.write, ..ArrayRequest::read(io.first, io.blocks) }
    }
}

/// Choice of the copy for a read. A copy on a member that cannot serve is never chosen; the next one is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyChoice {
    /// The readable copies in turn.
    #[default]
    RoundRobin,
    /// The copy nearest to the arm of its member. An arm is assumed to stand where the last I/O planned ends, unless
    /// [`Planner::set_arm_position`] says otherwise.
    Nearest,
    /// As md with rotating members: the member of a mirror on which the read continues the last one; else the first
    /// idle member; else the copy nearest to where its member's last I/O ended (`read_balance` of drivers/md/raid1.c
    /// and, for near copies, raid10.c, which has no first step; positions change when an I/O completes,
    /// `update_head_pos`).
    /// Needs [`Planner::set_pending_ios`] and [`Planner::set_arm_position`].
    IdleOrNearest,
    /// The copy selected by the process id (btrfs).
    Process,
    /// The first copy; the others only when it fails.
    Primary,
    /// The copy whose member has the fewest pending I/Os (md, with flash), as set by [`Planner::set_pending_ios`].
    LeastBusy,
}

/// Method by which a write that covers only a part of a row updates the row's parity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParityUpdate {
    /// The method with the fewest I/Os; if equal, reconstructing, as md does.
    #[default]
    Fewest,
    /// As [`ParityUpdate::Fewest`] with all members good. With some lost, as Linux's md: it reads everything that a
    /// lost parity would be computed from, and modifies only if both parities are there (drivers/md/raid5.c,
    /// handle_stripe_dirtying and need_this_block of Linux 6.1).
    Md,
    /// By reading the data to be overwritten and the old parity, where possible: the textbook method.
    ReadModifyWrite,
    /// By reading the data that is not overwritten, where possible.
    Reconstruct,
}

/// Policy of an array's implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayPolicy {
    /// Choice of the copy for a read.
    pub read_from: CopyChoice,
    /// Method of updating parity.
    pub write_by: ParityUpdate,
    /// True if contiguous pieces of one request on a member become one I/O.
    pub join_ios: bool,
}

impl Default for ArrayPolicy {
    fn default() -> ArrayPolicy {
        ArrayPolicy { read_from: CopyChoice::default(), write_by: ParityUpdate::default(), join_ios: true }
    }
}

/// Turns requests to an array into plans. Holds the state of its members and the history needed for the choice of
/// copies; time plays no part.
#[derive(Clone, Debug)]
pub struct Planner {
    array: ArrayGeometry,
    policy: ArrayPolicy,
    /// State in which `failed` holds all members out of service, which may be more than failed.
    state: ArrayState,
    /// Number of the readable copy whose turn is next ([`CopyChoice::RoundRobin`]).
    next_copy: u16,
    /// Block on each member at which its arm stands.
    arm_positions: Box<[u64]>,
    /// End of the last read planned for each member.
    last_read_ends: Box<[u64]>,
    /// Number of I/Os that each member has in flight.
    pending_ios: Box<[u32]>,
}

impl Planner {
    /// Creates a planner for an array with all members good.
    pub fn new(array: ArrayGeometry, policy: ArrayPolicy) -> Planner {
        let members = usize::from(array.member_count());
        Planner {
            array,
            policy,
            state: ArrayState::default(),
            next_copy: 0,
            arm_positions: vec![0; members].into(),
            last_read_ends: vec![0; members].into(),
            pending_ios: vec![0; members].into(),
        }
    }

    /// Geometry of the array.
    pub fn array(&self) -> &ArrayGeometry {
        &self.array
    }

    /// Policy of the array.
    pub fn policy(&self) -> ArrayPolicy {
        self.policy
    }

    /// State of the members, with all members out of service as failed.
    pub fn state(&self) -> ArrayState {
        self.state
    }

    /// Sets the failed members and the progress of a rebuild. Returns true if all data is still available. A member
    /// counts as failed until all of it is rebuilt; one that is rebuilding and has not failed is ignored.
    pub fn set_state(&mut self, state: ArrayState) -> bool {
        let failed = self.array.out_of_service(state.failed);
        let rebuilding = self.array.out_of_service(state.rebuilding).intersection(failed);
        // parity is rebuilt in whole rows only
        let good_below = match &self.array.block_map {
            BlockMap::Parity(_) => state.good_below - self.array.unit_divisor().remainder(state.good_below),
            _ => state.good_below,
        };
        let good_below = if rebuilding.is_empty() { 0 } else { good_below };
        self.state = ArrayState { failed, rebuilding, good_below };
        self.array.survives_failures(state.failed)
    }

    /// Notes that a planned I/O will move a member's arm: the best guess until [`Planner::set_arm_position`] is
    /// called. Policies that depend on actual completions ignore it.
    #[inline]
    fn note_planned_io(&mut self, member: u16, end: u64) {
        if self.policy.read_from != CopyChoice::IdleOrNearest {
            self.arm_positions[usize::from(member)] = end;
        }
    }

    /// Sets the position of a member's arm, a block on the member.
    pub fn set_arm_position(&mut self, member: u16, block: u64) {
        if let Some(position) = self.arm_positions.get_mut(usize::from(member)) {
            *position = block;
        }
    }

    /// Sets the number of I/Os that a member has in flight.
    pub fn set_pending_ios(&mut self, member: u16, ios: u32) {
        if let Some(pending) = self.pending_ios.get_mut(usize::from(member)) {
            *pending = ios;
        }
    }

    /// Plans a request. Blocks beyond the array's end, or on too many failed members, are counted in `lost_blocks`.
    pub fn plan_request(&mut self, request: ArrayRequest, plan: &mut MemberIoPlan) {
        let spans_rows = u64::from(request.blocks) >= self.array.row_blocks();
        plan.reset(self.array.member_count(), spans_rows && self.policy.join_ios);
        let blocks_left = self.array.capacity_blocks().saturating_sub(request.block);
        let blocks = u64::from(request.blocks).min(blocks_left);
        plan.lost_blocks = u64::from(request.blocks) - blocks;
        if blocks == 0 {
            return;
        }
        let range = BlockRange { block: request.block, blocks, write: request.write };
        match &self.array.block_map {
            BlockMap::Linear { .. } => self.plan_linear(range, plan),
            BlockMap::Copies(copies) => {
                let copies = *copies;
                self.plan_copies(copies, range, request.process_id, plan);
            }
            BlockMap::Parity(parity) if self.array.level() == super::ArrayLevel::Raid3 => {
                self.plan_synchronous(*parity, range, plan)
            }
            BlockMap::Parity(parity) => self.plan_parity(*parity, range, plan),
        }
        self.check_plan(request, plan);
    }

    /// Asserts in debug builds the conditions that the documentation of this module lists.
    #[inline]
    fn check_plan(&self, request: ArrayRequest, plan: &MemberIoPlan) {
        if !cfg!(debug_assertions) {
            return;
        }
        let beyond_end = (request.block + u64::from(request.blocks)).saturating_sub(self.array.capacity_blocks());
        assert!(plan.lost_blocks <= u64::from(request.blocks), "more blocks are lost than were requested: {plan:?}");
        assert!(!self.state.failed.is_empty() || plan.lost_blocks <= beyond_end, "lost without a failure: {plan:?}");
        assert!(request.write || plan.writes.is_empty(), "a read that writes: {plan:?}");
        assert!(plan.writes_after_reads.is_empty() || !plan.reads.is_empty(), "nothing to wait for: {plan:?}");
        // members of a linear array may differ in size
        let max_end = match &self.array.block_map {
            BlockMap::Linear { .. } => u64::MAX,
            BlockMap::Copies(_) | BlockMap::Parity(_) => self.array.member_blocks(),
        };
        for io in plan.iter() {
            let end = io.block + u64::from(io.blocks);
            assert!(io.member < self.array.member_count() && io.blocks > 0 && end <= max_end, "no such blocks: {io:?}");
            let lost =
                if io.write { self.state.members_not_to_write(io.block) } else { self.state.unreadable_members(end) };
            assert!(!lost.contains(io.member), "the member is out of service: {io:?}, {:?}", self.state);
        }
    }

    fn plan_linear(&self, range: BlockRange, plan: &mut MemberIoPlan) {
        let BlockRange { mut block, mut blocks, write } = range;
        while let Some(piece) = self.array.map_block(block, blocks, 0) {
            if self.state.failed.contains(piece.member) {
                plan.lost_blocks += piece.blocks;
            } else {
                let list = if write { PlanList::Writes } else { PlanList::Reads };
                plan.push(list, member_io(piece.member, piece.block, piece.blocks, write, MemberIoPart::Data));
            }
            debug_assert!(piece.blocks > 0 && piece.blocks <= blocks, "a piece lies within the request");
            block += piece.blocks;
            blocks -= piece.blocks;
            if blocks == 0 {
                return;
            }
        }
    }

    fn plan_copies(&mut self, copies: CopiesMap, range: BlockRange, process_id: u32, plan: &mut MemberIoPlan) {
        let unit = self.array.unit_divisor();
        let (mut chunk, mut offset) = unit.div_rem(range.block);
        let mut blocks_left = range.blocks;
        while blocks_left > 0 {
            let blocks = blocks_left.min(unit.divisor() - offset);
            if range.write {
                self.plan_copy_writes(copies, chunk, offset, blocks, plan);
            } else if let Some((member, block)) = self.choose_copy(copies, chunk, offset, blocks, process_id) {
                plan.push(PlanList::Reads, member_io(member, block, blocks, false, MemberIoPart::Data));
                self.note_planned_io(member, block + blocks);
            } else {
                plan.lost_blocks += blocks;
            }
            blocks_left -= blocks;
            chunk += 1;
            offset = 0;
        }
    }

    fn plan_copy_writes(&mut self, copies: CopiesMap, chunk: u64, offset: u64, blocks: u64, plan: &mut MemberIoPlan) {
        let first = copies.locate_first_copy(chunk);
        let mut written = false;
        for copy in 0..copies.copies {
            let (member, row) = copies.locate_nth_copy(first, copy);
            let block = row * self.array.unit_blocks() + offset;
            if !self.state.members_not_to_write(block).contains(member) {
                plan.push(PlanList::Writes, member_io(member, block, blocks, true, MemberIoPart::Data));
                self.note_planned_io(member, block + blocks);
                written = true;
            }
        }
        if !written {
            plan.lost_blocks += blocks;
        }
    }

    /// Chooses the copy to read; returns its member and the block there, or `None` if no copy is readable.
    #[inline]
    fn choose_copy(
        &mut self,
        copies: CopiesMap,
        chunk: u64,
        offset: u64,
        blocks: u64,
        process_id: u32,
    ) -> Option<(u16, u64)> {
        let (state, unit, first) = (self.state, self.array.unit_blocks(), copies.locate_first_copy(chunk));
        let all_good = state.failed.is_empty();
        let locate = |copy| {
            let (member, row) = copies.locate_nth_copy(first, copy);
            (member, row * unit + offset)
        };
        let is_readable =
            |(member, block): &(u16, u64)| all_good || !state.unreadable_members(block + blocks).contains(*member);
        let count = copies.copies;
        let readable = || (0..count).map(locate).filter(is_readable);
        let preferred = match self.policy.read_from {
            _ if count == 1 => 0,
            CopyChoice::Nearest => {
                let distance = |(member, block): &(u16, u64)| self.arm_positions[usize::from(*member)].abs_diff(*block);
                return readable().min_by_key(distance);
            }
            CopyChoice::IdleOrNearest => {
                let (member, block) = self.choose_copy_as_md(readable())?;
                self.last_read_ends[usize::from(member)] = block + blocks;
                return Some((member, block));
            }
            CopyChoice::LeastBusy => {
                let pending = |(member, _): &(u16, u64)| self.pending_ios[usize::from(*member)];
                return readable().min_by_key(pending);
            }
            CopyChoice::Primary => 0,
            CopyChoice::Process => (process_id % u32::from(count)) as u16,
            CopyChoice::RoundRobin => {
                // the readable copies, each equally often
                let readable_count = if all_good { count } else { readable().count() as u16 };
                let turn = if self.next_copy < readable_count { self.next_copy } else { 0 };
                self.next_copy = turn + 1;
                return readable().nth(usize::from(turn));
            }
        };
        // the preferred copy, or the next readable one after it
        (preferred..count).chain(0..preferred).map(locate).find(is_readable)
    }

    /// Chooses among the readable copies by [`CopyChoice::IdleOrNearest`].
    fn choose_copy_as_md(&self, copies: impl Iterator<Item = (u16, u64)> + Clone) -> Option<(u16, u64)> {
        let is_mirror = self.array.level() == super::ArrayLevel::Raid1;
        let is_sequential = |(member, block): &(u16, u64)| {
            let member = usize::from(*member);
            is_mirror && (self.last_read_ends[member] == *block || self.arm_positions[member] == *block)
        };
        let distance = |(member, block): &(u16, u64)| match self.pending_ios[usize::from(*member)] {
            0 => 0,
            _ => self.arm_positions[usize::from(*member)].abs_diff(*block),
        };
        copies.clone().find(is_sequential).or_else(|| copies.min_by_key(distance))
    }

    /// Plans a request for members that work together (RAID 3): each does its share of the request.
    fn plan_synchronous(&self, parity: ParityMap, range: BlockRange, plan: &mut MemberIoPlan) {
        let (data_count, parity_count) = (parity.data_units.divisor(), parity.parity_units);
        let (from, to) = (range.block / data_count, (range.block + range.blocks).div_ceil(data_count));
        let (row, blocks) = (parity.row_layout(0), to - from);
        let lost = if range.write { self.state.members_not_to_write(from) } else { self.state.unreadable_members(to) };
        if lost.count() > u32::from(parity_count) {
            plan.lost_blocks += range.blocks;
            return;
        }
        let list = if range.write { PlanList::Writes } else { PlanList::Reads };
        let data_members = || (0..data_count as u16).map(|unit| row.data_member(unit));
        let data = data_members().map(|member| (member, MemberIoPart::Data));
        let parities = (0..parity_count).map(|unit| (row.parity_member(unit), MemberIoPart::from_parity_index(unit)));
        // a read needs as many members as hold data: a parity stands in for each that is lost
        let needed = if range.write { usize::from(parity_count) + data_count as usize } else { data_count as usize };
        for (member, content) in data.chain(parities).filter(|(member, _)| !lost.contains(*member)).take(needed) {
            plan.push(list, member_io(member, from, blocks, range.write, content));
        }
        let is_data_lost = data_members().any(|member| lost.contains(member));
        if range.write || is_data_lost {
            plan.work.xor_blocks += (data_count - 1) * blocks;
        }
    }

    fn plan_parity(&self, parity: ParityMap, range: BlockRange, plan: &mut MemberIoPlan) {
        debug_assert!(range.blocks > 0, "a request of no blocks has no last one");
        let unit = self.array.unit_divisor();
        let (first_chunk, first_block) = unit.div_rem(range.block);
        let (last_chunk, last_block) = unit.div_rem(range.block + range.blocks - 1);
        let (first_row, first_unit) = parity.data_units.div_rem(first_chunk);
        let (last_row, last_unit) = parity.data_units.div_rem(last_chunk);
        // the first row begins and the last one ends within a unit; those between are whole
        let row_end_unit = parity.data_units.divisor() as u16 - 1;
        for row in first_row..=last_row {
            let (first, first_block) = if row == first_row { (first_unit as u16, first_block) } else { (0, 0) };
            let (last, end_block) =
                if row == last_row { (last_unit as u16, last_block + 1) } else { (row_end_unit, unit.divisor()) };
            let span = RowSpan { first, last, first_block, end_block };
            let lost = self.lost_members_of_row(row, range.write);
            let job = RowPlanner::new(&parity, row, unit.divisor(), span, lost);
            match (range.write, lost.is_empty()) {
                (false, true) => job.plan_read(plan),
                (false, false) => job.plan_degraded_read(plan),
                (true, true) => job.plan_write(self.policy.write_by, plan),
                (true, false) => job.plan_degraded_write(self.policy.write_by, plan),
            }
        }
    }

    #[inline]
    fn lost_members_of_row(&self, row: u64, write: bool) -> MemberSet {
        if self.state.failed.is_empty() {
            return MemberSet::NONE;
        }
        let unit = self.array.unit_blocks();
        if write {
            self.state.members_not_to_write(row * unit)
        } else {
            self.state.unreadable_members((row + 1) * unit)
        }
    }
}

/// Part of a request that lies inside the array.
#[derive(Clone, Copy)]
struct BlockRange {
    block: u64,
    blocks: u64,
    write: bool,
}

/// Makes a member I/O. A piece is at most as long as a request, a stripe unit or the step of a pass, and each of them
/// is below 2^32 blocks.
#[inline]
pub(super) fn member_io(member: u16, block: u64, blocks: u64, write: bool, part: MemberIoPart) -> MemberIo {
    MemberIo { block, blocks: u32::try_from(blocks).expect("below 2^32 blocks"), member, write, part }
}
