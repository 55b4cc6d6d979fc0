//! Orders at an array are flushes and trims, which move no data. A flush goes to all present members, a trim to those
//! that hold the data. With parity, only full rows are trimmed, data and parity: after a trim of a part of a row, the
//! parity would be wrong.

use super::arrays::ArrayRun;
use super::job::{JobFlow, JobPurpose};
use super::path::PathStart;
use crate::Ns;
use crate::array::{ArrayRequest, MemberIoPlan, MemberSet};
use crate::io::Io;

/// Largest number of array blocks in one step of a trim (64 MB), so that its plan stays small.
const MAX_TRIM_STEP_BLOCKS: u64 = 1 << 17;

/// The same order for several members: the range at each, and the path to it.
pub(super) type MemberOrders = Vec<(Io, PathStart)>;

impl ArrayRun {
    /// Begins an order. Returns the orders for the members; `None` if the order is complete.
    pub fn begin_order(&mut self, now: Ns, job: u32, flow: &mut JobFlow) -> Option<MemberOrders> {
        self.meter.record_arrival(now);
        self.meter.record_start(now);
        let order = &mut flow.jobs[job];
        order.arrived_at_array_ns = now;
        if order.purpose == JobPurpose::Trim {
            order.io = self.align_trim(order.io);
            return self.continue_order(now, job, flow);
        }
        debug_assert!(order.purpose == JobPurpose::Flush, "a transfer is no order");
        let path = |member| (Io::read(0, 0), self.members[usize::from(member)]);
        Some(self.present_members().iter().map(path).collect())
    }

    /// Continues an order after the members have completed their parts. Returns the next orders for the members; `None`
    /// if the order is complete.
    pub fn continue_order(&mut self, now: Ns, job: u32, flow: &mut JobFlow) -> Option<MemberOrders> {
        let order = &mut flow.jobs[job];
        let left = order.io;
        if order.purpose == JobPurpose::Flush || left.blocks == 0 {
            self.meter.record_completion(now, order.arrived_at_array_ns);
            return None;
        }
        let step = self.next_trim_step(left);
        order.io = Io { first: step.end(), blocks: left.blocks - step.blocks, ..left };
        let mut plan = MemberIoPlan::new();
        self.planner.plan_request(ArrayRequest { write: true, ..ArrayRequest::from(step) }, &mut plan);
        let writes = plan.writes.iter().chain(&plan.writes_after_reads);
        Some(writes.map(|io| (io.to_io(), self.members[usize::from(io.member)])).collect())
    }

    /// Members that have a drive, including those being rebuilt.
    pub fn present_members(&self) -> MemberSet {
        let state = self.planner.state();
        (0..self.planner.array().member_count())
            .collect::<MemberSet>()
            .difference(state.failed.difference(state.rebuilding))
    }

    /// Granularity of trims, blocks.
    fn trim_unit_blocks(&self) -> u64 {
        let array = self.planner.array();
        if array.parity_count() > 0 { array.row_blocks() } else { 1 }
    }

    /// Shrinks a range to whole trim units within the array.
    fn align_trim(&self, io: Io) -> Io {
        let row = self.trim_unit_blocks();
        let end = io.end().min(self.planner.array().capacity_blocks()) / row * row;
        let first = io.first.min(end).next_multiple_of(row).min(end);
        Io { first, blocks: (end - first) as u32, write: true }
    }

    /// Returns as much of a trim as fits one plan.
    fn next_trim_step(&self, left: Io) -> Io {
        let row = self.trim_unit_blocks();
        let max_blocks = (MAX_TRIM_STEP_BLOCKS / row).max(1).saturating_mul(row);
        Io { blocks: u64::from(left.blocks).min(max_blocks) as u32, ..left }
    }
}
