//! Plans for one row of a parity level: the member I/Os of a read or write of a part of the row, with all members good
//! or some lost.
//!
//! Ranges within a unit are blocks from its beginning. A write to several units updates the parity over the smallest
//! range that covers all of them (the whole unit, if it reaches from one unit into the next), in one I/O: fewer I/Os
//! for a few more blocks.

use super::geometry::ParityMap;
use super::layout::ParityRow;
use super::plan::{MemberIo, PlanList};
use super::planner::{ParityUpdate, member_io};
use super::{MemberIoPart, MemberIoPlan, MemberSet};

/// Part of a row that a request covers: data units `first` to `last`, from block `first_block` of the first up to
/// block `end_block` of the last, and everything between.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowSpan {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) first_block: u64,
    pub(super) end_block: u64,
}

/// A range of blocks within a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnitRange {
    from: u64,
    to: u64,
}

impl UnitRange {
    fn len(self) -> u64 {
        self.to - self.from
    }
}

impl RowSpan {
    fn unit_count(&self) -> u16 {
        self.last - self.first + 1
    }

    fn touches(&self, d: u16) -> bool {
        d >= self.first && d <= self.last
    }

    /// Returns the range that it covers of unit `d`, one of its units.
    #[inline]
    fn range_of_unit(&self, d: u16, unit: u64) -> UnitRange {
        UnitRange {
            from: if d == self.first { self.first_block } else { 0 },
            to: if d == self.last { self.end_block } else { unit },
        }
    }

    /// Returns the smallest range that covers the ranges of all its units.
    fn covering_range(&self, unit: u64) -> UnitRange {
        if self.first == self.last {
            UnitRange { from: self.first_block, to: self.end_block }
        } else {
            UnitRange { from: 0, to: unit }
        }
    }

    fn block_count(&self, unit: u64) -> u64 {
        (u64::from(self.last - self.first) * unit + self.end_block) - self.first_block
    }

    /// Returns the parts of the covering range that a span of several units does not cover: before its first piece and
    /// after its last.
    fn gaps_at_ends(&self, unit: u64) -> [Option<(u16, UnitRange)>; 2] {
        let several = self.first != self.last;
        [
            (several && self.first_block > 0).then_some((self.first, UnitRange { from: 0, to: self.first_block })),
            (several && self.end_block < unit).then_some((self.last, UnitRange { from: self.end_block, to: unit })),
        ]
    }
}

/// Method by which a write computes its new parity.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ParityMethod {
    /// From the overwritten old data and the old parity (read-modify-write).
    Modify,
    /// From the data that it does not overwrite (reconstruct-write).
    Reconstruct,
    /// From all survivors, because some of the needed data is lost.
    Recover,
}

/// Plans the part of a request in one row.
pub(super) struct RowPlanner {
    row: ParityRow,
    /// First block of the row on each member.
    row_start: u64,
    unit_blocks: u64,
    data_units: u16,
    parity_units: u16,
    span: RowSpan,
    lost: MemberSet,
}

impl RowPlanner {
    #[inline]
    pub(super) fn new(parity: &ParityMap, row: u64, unit: u64, span: RowSpan, lost: MemberSet) -> RowPlanner {
        let data_units = parity.data_units.divisor() as u16;
        debug_assert!(span.first <= span.last && span.last < data_units, "units {} to {}", span.first, span.last);
        debug_assert!(span.first_block < unit && (1..=unit).contains(&span.end_block), "not within their units");
        debug_assert!(span.first < span.last || span.first_block < span.end_block, "a span of no blocks");
        RowPlanner {
            row: parity.row_layout(row),
            row_start: row * unit,
            unit_blocks: unit,
            data_units,
            parity_units: parity.parity_units,
            span,
            lost,
        }
    }

    #[inline]
    fn data_io(&self, d: u16, range: UnitRange, write: bool) -> MemberIo {
        member_io(self.row.data_member(d), self.row_start + range.from, range.len(), write, MemberIoPart::Data)
    }

    #[inline]
    fn parity_io(&self, j: u16, range: UnitRange, write: bool) -> MemberIo {
        member_io(
            self.row.parity_member(j),
            self.row_start + range.from,
            range.len(),
            write,
            MemberIoPart::from_parity_index(j),
        )
    }

    fn is_data_lost(&self, d: u16) -> bool {
        self.lost.contains(self.row.data_member(d))
    }

    fn is_parity_lost(&self, j: u16) -> bool {
        self.lost.contains(self.row.parity_member(j))
    }

    fn has_too_many_lost(&self) -> bool {
        self.lost.count() > u32::from(self.parity_units)
    }

    #[inline]
    pub(super) fn plan_read(&self, plan: &mut MemberIoPlan) {
        for d in self.span.first..=self.span.last {
            plan.push(PlanList::Reads, self.data_io(d, self.span.range_of_unit(d, self.unit_blocks), false));
        }
    }

    /// Reads the good units, and for lost ones as many other units as needed: data first, then P, Q, R.
    pub(super) fn plan_degraded_read(&self, plan: &mut MemberIoPlan) {
        let touched = self.span.first..=self.span.last;
        let lost = touched.clone().filter(|d| self.is_data_lost(*d));
        let range = lost.map(|d| self.span.range_of_unit(d, self.unit_blocks)).reduce(join_ranges);
        let Some(range) = range else { return self.plan_read(plan) };
        if self.has_too_many_lost() {
            for d in touched {
                let piece = self.span.range_of_unit(d, self.unit_blocks);
                if self.is_data_lost(d) {
                    plan.lost_blocks += piece.len();
                } else {
                    plan.push(PlanList::Reads, self.data_io(d, piece, false));
                }
            }
            return;
        }
        self.plan_survivor_reads(range, true, plan);
        self.count_recovery_work(range.len(), plan);
    }

    /// Reads `range` of as many surviving units as there are data units. With `with_requested`, the same I/Os also read
    /// the surviving pieces that the request covers.
    fn plan_survivor_reads(&self, range: UnitRange, with_requested: bool, plan: &mut MemberIoPlan) {
        let mut needed = self.data_units;
        for d in (0..self.data_units).filter(|d| !self.is_data_lost(*d)) {
            let is_requested = with_requested && self.span.touches(d);
            let range = match is_requested {
                true => join_ranges(range, self.span.range_of_unit(d, self.unit_blocks)),
                false => range,
            };
            plan.push(PlanList::Reads, self.data_io(d, range, false));
            needed -= 1;
        }
        for j in (0..self.parity_units).filter(|j| !self.is_parity_lost(*j)).take(usize::from(needed)) {
            plan.push(PlanList::Reads, self.parity_io(j, range, false));
        }
    }

    /// Counts the work of recovering lost data: one unit by XOR if P is good, the others by multiplication.
    fn count_recovery_work(&self, blocks: u64, plan: &mut MemberIoPlan) {
        let lost = (0..self.data_units).filter(|d| self.is_data_lost(*d)).count() as u64;
        let by_xor = u64::from(lost > 0 && !self.is_parity_lost(0));
        plan.work.xor_blocks += by_xor * u64::from(self.data_units - 1) * blocks;
        plan.work.gf_mul_blocks += (lost - by_xor) * u64::from(self.data_units) * blocks;
    }

    pub(super) fn plan_write(&self, update: ParityUpdate, plan: &mut MemberIoPlan) {
        let (span, unit) = (self.span, self.unit_blocks);
        let gaps = span.gaps_at_ends(unit);
        let reconstruct = self.data_units - span.unit_count() + gaps.iter().flatten().count() as u16;
        let modify = span.unit_count() + self.parity_units;
        let method = match update {
            _ if reconstruct == 0 => ParityMethod::Reconstruct,
            ParityUpdate::ReadModifyWrite => ParityMethod::Modify,
            ParityUpdate::Reconstruct => ParityMethod::Reconstruct,
            ParityUpdate::Fewest | ParityUpdate::Md if modify < reconstruct => ParityMethod::Modify,
            ParityUpdate::Fewest | ParityUpdate::Md => ParityMethod::Reconstruct,
        };
        let covering = span.covering_range(unit);
        if method == ParityMethod::Modify {
            for d in span.first..=span.last {
                plan.push(PlanList::Reads, self.data_io(d, span.range_of_unit(d, unit), false));
            }
            for j in 0..self.parity_units {
                plan.push(PlanList::Reads, self.parity_io(j, covering, false));
            }
        } else {
            for d in (0..span.first).chain(span.last + 1..self.data_units) {
                plan.push(PlanList::Reads, self.data_io(d, covering, false));
            }
            for (d, gap) in gaps.into_iter().flatten() {
                plan.push(PlanList::Reads, self.data_io(d, gap, false));
            }
        }
        let list = if reconstruct == 0 { PlanList::Writes } else { PlanList::WritesAfterReads };
        for d in span.first..=span.last {
            plan.push(list, self.data_io(d, span.range_of_unit(d, unit), true));
        }
        for j in 0..self.parity_units {
            plan.push(list, self.parity_io(j, covering, true));
        }
        self.count_parity_work(method, 1, u64::from(self.parity_units - 1), plan);
    }

    /// Counts the work of computing new parity: `p` times P (0 or 1), and `others`.
    #[inline]
    fn count_parity_work(&self, method: ParityMethod, p: u64, others: u64, plan: &mut MemberIoPlan) {
        let (xor, gf_mul) = if method == ParityMethod::Modify {
            // the XOR or product of the old data is removed, that of the new data added
            let pieces = 2 * self.span.block_count(self.unit_blocks);
            (pieces, pieces)
        } else {
            let blocks = self.span.covering_range(self.unit_blocks).len();
            (u64::from(self.data_units - 1) * blocks, u64::from(self.data_units) * blocks)
        };
        plan.work.xor_blocks += p * xor;
        plan.work.gf_mul_blocks += others * gf_mul;
    }

    pub(super) fn plan_degraded_write(&self, update: ParityUpdate, plan: &mut MemberIoPlan) {
        if self.has_too_many_lost() {
            plan.lost_blocks += self.span.block_count(self.unit_blocks);
            return;
        }
        let (span, unit) = (self.span, self.unit_blocks);
        let covering = span.covering_range(unit);
        let parities = (0..self.parity_units).filter(|j| !self.is_parity_lost(*j));
        let good_parities = parities.clone().count() as u16;
        let (reads, method) = self.choose_degraded_method(update, good_parities);
        match method {
            // no parity to update: nothing to read
            _ if good_parities == 0 && update != ParityUpdate::Md => {}
            ParityMethod::Modify => {
                for d in span.first..=span.last {
                    plan.push(PlanList::Reads, self.data_io(d, span.range_of_unit(d, unit), false));
                }
                for j in parities.clone() {
                    plan.push(PlanList::Reads, self.parity_io(j, covering, false));
                }
            }
            ParityMethod::Reconstruct => {
                for d in (0..self.data_units).filter(|d| !span.touches(*d)) {
                    plan.push(PlanList::Reads, self.data_io(d, covering, false));
                }
                for (d, gap) in span.gaps_at_ends(unit).into_iter().flatten() {
                    plan.push(PlanList::Reads, self.data_io(d, gap, false));
                }
            }
            ParityMethod::Recover => {
                self.plan_survivor_reads(covering, false, plan);
                self.count_recovery_work(covering.len(), plan);
            }
        }
        let reads_first = reads > 0 && (good_parities > 0 || update == ParityUpdate::Md);
        let list = if reads_first { PlanList::WritesAfterReads } else { PlanList::Writes };
        for d in (span.first..=span.last).filter(|d| !self.is_data_lost(*d)) {
            plan.push(list, self.data_io(d, span.range_of_unit(d, unit), true));
        }
        for j in parities {
            plan.push(list, self.parity_io(j, covering, true));
        }
        if good_parities > 0 {
            let p = u64::from(!self.is_parity_lost(0));
            self.count_parity_work(method, p, u64::from(good_parities) - p, plan);
        }
    }

    /// Among the methods that the lost members allow, chooses the one with the fewest reads; returns the number of
    /// reads and the method.
    fn choose_degraded_method(&self, by: ParityUpdate, good_parities: u16) -> (u16, ParityMethod) {
        let (span, unit) = (self.span, self.unit_blocks);
        let touched_lost = (span.first..=span.last).any(|d| self.is_data_lost(d));
        let untouched_lost = (0..self.data_units).any(|d| !span.touches(d) && self.is_data_lost(d));
        let gaps = span.gaps_at_ends(unit);
        let gap_lost = gaps.iter().flatten().any(|(d, _)| self.is_data_lost(*d));
        let all_parities_good = good_parities == self.parity_units;
        let modify = !touched_lost && (all_parities_good || by != ParityUpdate::Md);
        let modify = modify.then_some((span.unit_count() + good_parities, ParityMethod::Modify));
        let reads = self.data_units - span.unit_count() + gaps.iter().flatten().count() as u16;
        let reconstruct = (!untouched_lost && !gap_lost).then_some((reads, ParityMethod::Reconstruct));
        let requested = match by {
            ParityUpdate::Fewest | ParityUpdate::Md => None,
            _ if reconstruct.is_some_and(|(reads, _)| reads == 0) => reconstruct,
            ParityUpdate::ReadModifyWrite => modify,
            ParityUpdate::Reconstruct => reconstruct,
        };
        // min_by_key takes the first of equals: reconstructing before modifying
        let recover = (self.data_units, ParityMethod::Recover);
        let several_lost = self.lost.count() >= 2;
        if by == ParityUpdate::Md && several_lost && untouched_lost && (touched_lost || !all_parities_good) {
            return recover;
        }
        let methods = [reconstruct, modify, Some(recover)];
        requested.or_else(|| methods.into_iter().flatten().min_by_key(|(reads, _)| *reads)).unwrap_or(recover)
    }

    /// Reads the survivors of a whole row and rewrites the units of `targets`.
    pub(super) fn plan_rebuild(&self, targets: MemberSet, plan: &mut MemberIoPlan) {
        let full_unit = UnitRange { from: 0, to: self.unit_blocks };
        if self.has_too_many_lost() {
            plan.lost_blocks += u64::from(targets.count()) * self.unit_blocks;
            return;
        }
        self.plan_survivor_reads(full_unit, false, plan);
        self.count_recovery_work(self.unit_blocks, plan);
        for member in targets.iter() {
            match self.row.unit_on_member(member) {
                Ok(d) => plan.push(PlanList::WritesAfterReads, self.data_io(d, full_unit, true)),
                Err(j) => {
                    plan.push(PlanList::WritesAfterReads, self.parity_io(j, full_unit, true));
                    self.count_parity_work(ParityMethod::Reconstruct, u64::from(j == 0), u64::from(j > 0), plan);
                }
            }
        }
    }

    /// Reads a whole row and recomputes its parities for comparison.
    pub(super) fn plan_scrub(&self, plan: &mut MemberIoPlan) {
        let full_unit = UnitRange { from: 0, to: self.unit_blocks };
        for d in (0..self.data_units).filter(|d| !self.is_data_lost(*d)) {
            plan.push(PlanList::Reads, self.data_io(d, full_unit, false));
        }
        for j in (0..self.parity_units).filter(|j| !self.is_parity_lost(*j)) {
            plan.push(PlanList::Reads, self.parity_io(j, full_unit, false));
        }
        if self.lost.is_empty() {
            self.count_parity_work(ParityMethod::Reconstruct, 1, u64::from(self.parity_units - 1), plan);
        }
    }

    /// Creates a planner for a whole row.
    pub(super) fn for_whole_row(parity: &ParityMap, row: u64, unit: u64, lost: MemberSet) -> RowPlanner {
        let span = RowSpan { first: 0, last: parity.data_units.divisor() as u16 - 1, first_block: 0, end_block: unit };
        RowPlanner::new(parity, row, unit, span, lost)
    }
}

/// Returns the smallest range that covers both.
fn join_ranges(a: UnitRange, b: UnitRange) -> UnitRange {
    UnitRange { from: a.from.min(b.from), to: a.to.max(b.to) }
}
