//! Passes over a whole array: rebuilding lost members onto spares, and scrubbing. A pass is a sequence of plans over
//! member blocks; the caller sets the pace ([`pause_ns`]).

use super::parity::RowJob;
use super::place::{BlockMap, Copies};
use super::plan::PlanList;
use super::planner::io;
use super::{ArrayState, MemberBlock, MemberIoPart, MemberIoPlan, Members, Planner};
use crate::Ns;

/// Kind of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Reads the surviving members and rewrites the lost ones.
    Rebuild,
    /// Reads everything and compares.
    Scrub,
}

/// A pass over an array.
#[derive(Clone, Debug)]
pub struct Pass {
    task: Task,
    targets: Members,
    next: u64,
    end: u64,
    step: u64,
}

impl Pass {
    /// Creates a pass in steps of about `step_blocks` member blocks (rounded up to whole stripe units). A rebuild
    /// covers all members that are out of service in the planner's state.
    pub fn new(task: Task, planner: &Planner, step_blocks: u64) -> Pass {
        let targets = if task == Task::Rebuild { planner.state().failed } else { Members::NONE };
        let step = Pass::step(planner, step_blocks);
        Pass { task, targets, next: 0, end: planner.array().member_blocks(), step }
    }

    /// Creates a rebuild of these members only, from the member block on below which they are good.
    pub fn of_members(targets: Members, planner: &Planner, step_blocks: u64, from: u64) -> Pass {
        let end = planner.array().member_blocks();
        let step = Pass::step(planner, step_blocks);
        Pass { task: Task::Rebuild, targets, next: from.min(end), end, step }
    }

    fn step(planner: &Planner, step_blocks: u64) -> u64 {
        let array = planner.array();
        let whole_units = match &array.map {
            BlockMap::Parity(_) => true,
            BlockMap::Copies(_) => array.unit_blocks() < array.member_blocks(),
            BlockMap::Linear { .. } => false,
        };
        let step = step_blocks.clamp(1, u64::from(u32::MAX >> 1));
        if whole_units { step.next_multiple_of(array.unit_blocks()) } else { step }
    }

    /// Member blocks done or planned so far.
    pub fn done(&self) -> u64 {
        self.next
    }

    /// Total member blocks.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Plans the next step. Returns false, and an empty plan, at the end.
    pub fn next(&mut self, planner: &Planner, plan: &mut MemberIoPlan) -> bool {
        plan.start(planner.array().members(), true);
        let blocks = self.step.min(self.end - self.next);
        if blocks == 0 || self.task == Task::Rebuild && self.targets.is_empty() {
            return false;
        }
        let from = self.next;
        self.next += blocks;
        match (self.task, &planner.array().map) {
            (_, BlockMap::Parity(parity)) => {
                let unit = planner.array().unit_blocks();
                for row in from / unit..self.next / unit {
                    let job = RowJob::whole(parity, row, unit, planner.state().failed);
                    match self.task {
                        Task::Rebuild => job.rebuild(self.targets, plan),
                        Task::Scrub => job.check(plan),
                    }
                }
            }
            (Task::Scrub, _) => read_all(planner, from, blocks, plan),
            (Task::Rebuild, BlockMap::Copies(copies)) => self.copy(planner, *copies, from, blocks, plan),
            (Task::Rebuild, BlockMap::Linear { .. }) => plan.lost_blocks += u64::from(self.targets.count()) * blocks,
        }
        true
    }

    /// Returns the state to set when all steps planned so far are complete.
    pub fn state(&self, planner: &Planner) -> ArrayState {
        match self.task {
            Task::Scrub => planner.state(),
            Task::Rebuild if self.next >= self.end => {
                ArrayState { failed: planner.state().failed.less(self.targets), ..ArrayState::default() }
            }
            Task::Rebuild => ArrayState { rebuilding: self.targets, good_below: self.next, ..planner.state() },
        }
    }

    fn copy(&self, planner: &Planner, copies: Copies, from: u64, blocks: u64, plan: &mut MemberIoPlan) {
        let (array, lost) = (planner.array(), planner.state().failed);
        let unit = array.unit_blocks();
        for member in self.targets.iter() {
            let mut block_from = from;
            while block_from < from + blocks {
                let (row, offset) = array.unit().split(block_from);
                let piece = (unit - offset).min(from + blocks - block_from);
                if let MemberBlock::Data { block, copy } = array.place(member, row * unit) {
                    let source = (0..copies.copies).filter(|c| *c != copy).map(|c| copies.place(block / unit, c));
                    match source.into_iter().find(|(member, _)| !lost.contains(*member)) {
                        Some((other, row)) => {
                            plan.push(
                                PlanList::Reads,
                                io(other, row * unit + offset, piece, false, MemberIoPart::Data),
                            );
                            plan.push(PlanList::After, io(member, block_from, piece, true, MemberIoPart::Data));
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
fn read_all(planner: &Planner, from: u64, blocks: u64, plan: &mut MemberIoPlan) {
    for member in (0..planner.array().members()).filter(|m| !planner.state().failed.contains(*m)) {
        plan.push(PlanList::Reads, io(member, from, blocks, false, MemberIoPart::Data));
    }
}

/// Time from the start of a step to the start of the next that keeps a pass to a rate, ns; 0: no limit.
pub fn pause_ns(step_bytes: u64, max_bytes_per_s: f64) -> Ns {
    if max_bytes_per_s > 0.0 { (step_bytes as f64 / max_bytes_per_s * 1e9) as Ns } else { 0 }
}

/// Device of each member, and the available spares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spares {
    devices: Vec<u16>,
    spares: Vec<u16>,
}

impl Spares {
    /// Assigns members 0 to `members` - 1 to devices of the same number, and adds `spares` more devices after them.
    pub fn new(members: u16, spares: u16) -> Spares {
        let last = members.saturating_add(spares);
        Spares { devices: (0..members).collect(), spares: (members..last).rev().collect() }
    }

    /// Device of a member.
    pub fn device(&self, member: u16) -> Option<u16> {
        self.devices.get(usize::from(member)).copied()
    }

    /// Number of spares left.
    pub fn left(&self) -> usize {
        self.spares.len()
    }

    /// Replaces a member by a spare, if there is one, and returns the spare's device.
    pub fn replace(&mut self, member: u16) -> Option<u16> {
        let device = self.devices.get_mut(usize::from(member))?;
        *device = self.spares.pop()?;
        Some(*device)
    }
}
