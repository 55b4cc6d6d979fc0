//! Passes over a whole array: rebuilding lost members onto spares, and scrubbing. A pass is a sequence of plans over
//! member blocks; the caller sets the pace ([`pause_ns`]).

use super::geometry::{BlockMap, CopiesMap};
use super::parity_row_plan::RowPlanner;
use super::plan::PlanList;
use super::planner::member_io;
use super::{ArrayState, MemberBlock, MemberIoPart, MemberIoPlan, MemberSet, Planner};
use crate::Ns;

/// Kind of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassKind {
    /// Reads the surviving members and rewrites the lost ones.
    Rebuild,
    /// Reads everything and compares.
    Scrub,
}

impl PassKind {
    /// Returns `rebuild` or `scrub`.
    pub fn name(self) -> &'static str {
        match self {
            PassKind::Rebuild => "rebuild",
            PassKind::Scrub => "scrub",
        }
    }
}

/// A pass over an array.
#[derive(Clone, Debug)]
pub struct RepairPass {
    kind: PassKind,
    targets: MemberSet,
    next_block: u64,
    end_block: u64,
    step_blocks: u64,
}

impl RepairPass {
    /// Creates a pass in steps of about `step_blocks` member blocks (rounded up to whole stripe units). A rebuild
    /// covers all members that are out of service in the planner's state.
    pub fn new(kind: PassKind, planner: &Planner, step_blocks: u64) -> RepairPass {
        let targets = if kind == PassKind::Rebuild { planner.state().failed } else { MemberSet::NONE };
        let step = RepairPass::align_step(planner, step_blocks);
        RepairPass { kind, targets, next_block: 0, end_block: planner.array().member_blocks(), step_blocks: step }
    }

    /// Creates a rebuild of these members only, beginning at member block `from`, below which they are good.
    pub fn rebuild_members(targets: MemberSet, planner: &Planner, step_blocks: u64, from: u64) -> RepairPass {
        let end = planner.array().member_blocks();
        let step = RepairPass::align_step(planner, step_blocks);
        RepairPass { kind: PassKind::Rebuild, targets, next_block: from.min(end), end_block: end, step_blocks: step }
    }

    fn align_step(planner: &Planner, step_blocks: u64) -> u64 {
        let array = planner.array();
        let whole_units = match &array.block_map {
            BlockMap::Parity(_) => true,
            BlockMap::Copies(_) => array.unit_blocks() < array.member_blocks(),
            BlockMap::Linear { .. } => false,
        };
        let step = step_blocks.clamp(1, u64::from(u32::MAX >> 1));
        if whole_units { step.next_multiple_of(array.unit_blocks()) } else { step }
    }

    /// Member blocks done or planned so far.
    pub fn planned_blocks(&self) -> u64 {
        self.next_block
    }

    /// Total member blocks.
    pub fn total_blocks(&self) -> u64 {
        self.end_block
    }

    /// Plans the next step. Returns false, and an empty plan, at the end.
    pub fn plan_next_step(&mut self, planner: &Planner, plan: &mut MemberIoPlan) -> bool {
        plan.reset(planner.array().member_count(), true);
        let blocks = self.step_blocks.min(self.end_block - self.next_block);
        if blocks == 0 || self.kind == PassKind::Rebuild && self.targets.is_empty() {
            return false;
        }
        let from = self.next_block;
        self.next_block += blocks;
        match (self.kind, &planner.array().block_map) {
            (_, BlockMap::Parity(parity)) => {
                let unit = planner.array().unit_blocks();
                for row in from / unit..self.next_block / unit {
                    let job = RowPlanner::for_whole_row(parity, row, unit, planner.state().failed);
                    match self.kind {
                        PassKind::Rebuild => job.plan_rebuild(self.targets, plan),
                        PassKind::Scrub => job.plan_scrub(plan),
                    }
                }
            }
            (PassKind::Scrub, _) => plan_reads_of_good_members(planner, from, blocks, plan),
            (PassKind::Rebuild, BlockMap::Copies(copies)) => self.plan_copies(planner, *copies, from, blocks, plan),
            (PassKind::Rebuild, BlockMap::Linear { .. }) => {
                plan.lost_blocks += u64::from(self.targets.count()) * blocks
            }
        }
        true
    }

    /// Returns the state to set when all steps planned so far are complete.
    pub fn state_after(&self, planner: &Planner) -> ArrayState {
        match self.kind {
            PassKind::Scrub => planner.state(),
            PassKind::Rebuild if self.next_block >= self.end_block => {
                ArrayState { failed: planner.state().failed.difference(self.targets), ..ArrayState::default() }
            }
            PassKind::Rebuild => {
                ArrayState { rebuilding: self.targets, good_below: self.next_block, ..planner.state() }
            }
        }
    }

    fn plan_copies(&self, planner: &Planner, copies: CopiesMap, from: u64, blocks: u64, plan: &mut MemberIoPlan) {
        let (array, lost) = (planner.array(), planner.state().failed);
        let unit = array.unit_blocks();
        for member in self.targets.iter() {
            let mut block_from = from;
            while block_from < from + blocks {
                let (row, offset) = array.unit_divisor().div_rem(block_from);
                let piece = (unit - offset).min(from + blocks - block_from);
                if let MemberBlock::Data { block, copy } = array.content_of_member_block(member, row * unit) {
                    let mut sources =
                        (0..copies.copies).filter(|c| *c != copy).map(|c| copies.locate_copy(block / unit, c));
                    match sources.find(|(member, _)| !lost.contains(*member)) {
                        Some((source, row)) => {
                            plan.push(
                                PlanList::Reads,
                                member_io(source, row * unit + offset, piece, false, MemberIoPart::Data),
                            );
                            plan.push(
                                PlanList::WritesAfterReads,
                                member_io(member, block_from, piece, true, MemberIoPart::Data),
                            );
                        }
                        None => plan.lost_blocks += piece,
                    }
                }
                block_from += piece;
            }
        }
    }
}

/// Reads a range of every good member.
fn plan_reads_of_good_members(planner: &Planner, from: u64, blocks: u64, plan: &mut MemberIoPlan) {
    for member in (0..planner.array().member_count()).filter(|m| !planner.state().failed.contains(*m)) {
        plan.push(PlanList::Reads, member_io(member, from, blocks, false, MemberIoPart::Data));
    }
}

/// Returns the time from the start of a step to the start of the next that keeps a pass to a rate, ns. A rate of 0
/// means no limit: the time is 0.
pub fn pause_ns(step_bytes: u64, max_bytes_per_s: f64) -> Ns {
    if max_bytes_per_s > 0.0 { (step_bytes as f64 / max_bytes_per_s * 1e9) as Ns } else { 0 }
}

/// The device of each member, and the spares left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SparePool {
    devices: Vec<u16>,
    spares: Vec<u16>,
}

impl SparePool {
    /// Assigns members 0 to `members` - 1 to devices of the same number, and adds `spares` more devices after them.
    pub fn new(members: u16, spares: u16) -> SparePool {
        let last = members.saturating_add(spares);
        SparePool { devices: (0..members).collect(), spares: (members..last).rev().collect() }
    }

    /// Device of a member.
    pub fn member_device(&self, member: u16) -> Option<u16> {
        self.devices.get(usize::from(member)).copied()
    }

    /// Number of spares left.
    pub fn spares_left(&self) -> usize {
        self.spares.len()
    }

    /// Replaces a member by a spare, if there is one, and returns the spare's device.
    pub fn replace_member(&mut self, member: u16) -> Option<u16> {
        let device = self.devices.get_mut(usize::from(member))?;
        *device = self.spares.pop()?;
        Some(*device)
    }
}
