//! Plans for one row of a parity level: the member I/Os of a read or write of part of it, with all members good or
//! some lost.
//!
//! Ranges within a unit are blocks from its beginning. A write to several units updates the parity over the smallest
//! range that covers all of them (the whole unit, if it reaches from one unit into the next), in one I/O: fewer I/Os
//! for a few more blocks.

use super::layout::ParityRow;
use super::place::Parity;
use super::plan::{MemberIo, PlanList};
use super::planner::{WriteBy, io};
use super::{MemberIoPart, MemberIoPlan, Members};

/// Part of a row that a request covers: data units `first` to `last`, from block `first_block` of the first up to
/// block `end_block` of the last, and everything between.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowSpan {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) lo: u64,
    pub(super) hi: u64,
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
    fn count(&self) -> u16 {
        self.last - self.first + 1
    }

    fn touches(&self, d: u16) -> bool {
        d >= self.first && d <= self.last
    }

    /// Returns the range that it covers of unit `d`, one of its units.
    #[inline]
    fn piece(&self, d: u16, unit: u64) -> UnitRange {
        UnitRange { from: if d == self.first { self.lo } else { 0 }, to: if d == self.last { self.hi } else { unit } }
    }

    /// Returns the smallest range that covers the ranges of all its units.
    fn hull(&self, unit: u64) -> UnitRange {
        if self.first == self.last { UnitRange { from: self.lo, to: self.hi } } else { UnitRange { from: 0, to: unit } }
    }

    fn blocks(&self, unit: u64) -> u64 {
        (u64::from(self.last - self.first) * unit + self.hi) - self.lo
    }

    /// Returns the parts of the covering range that a span of several units does not cover: before the first piece
    /// and behind the last.
    fn gaps(&self, unit: u64) -> [Option<(u16, UnitRange)>; 2] {
        let several = self.first != self.last;
        [
            (several && self.lo > 0).then_some((self.first, UnitRange { from: 0, to: self.lo })),
            (several && self.hi < unit).then_some((self.last, UnitRange { from: self.hi, to: unit })),
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
pub(super) struct RowJob {
    row: ParityRow,
    /// First block of the row on each member.
    base: u64,
    unit: u64,
    k: u16,
    p: u16,
    span: RowSpan,
    lost: Members,
}

impl RowJob {
    #[inline]
    pub(super) fn new(parity: &Parity, row: u64, unit: u64, span: RowSpan, lost: Members) -> RowJob {
        let (k, p) = (parity.k.by() as u16, parity.p);
        RowJob { row: parity.row(row), base: row * unit, unit, k, p, span, lost }
    }

    #[inline]
    fn data(&self, d: u16, range: UnitRange, write: bool) -> MemberIo {
        io(self.row.data(d), self.base + range.from, range.len(), write, MemberIoPart::Data)
    }

    #[inline]
    fn parity(&self, j: u16, range: UnitRange, write: bool) -> MemberIo {
        io(self.row.parity(j), self.base + range.from, range.len(), write, MemberIoPart::parity(j))
    }

    fn data_lost(&self, d: u16) -> bool {
        self.lost.contains(self.row.data(d))
    }

    fn parity_lost(&self, j: u16) -> bool {
        self.lost.contains(self.row.parity(j))
    }

    fn too_many_lost(&self) -> bool {
        self.lost.count() > u32::from(self.p)
    }

    #[inline]
    pub(super) fn read(&self, plan: &mut MemberIoPlan) {
        for d in self.span.first..=self.span.last {
            plan.push(PlanList::Reads, self.data(d, self.span.piece(d, self.unit), false));
        }
    }

    /// Reads the good units, and for lost ones as many other units as needed: data first, then P, Q, R.
    pub(super) fn read_degraded(&self, plan: &mut MemberIoPlan) {
        let touched = self.span.first..=self.span.last;
        let lost = touched.clone().filter(|d| self.data_lost(*d));
        let range = lost.map(|d| self.span.piece(d, self.unit)).reduce(join);
        let Some(range) = range else { return self.read(plan) };
        if self.too_many_lost() {
            for d in touched {
                let piece = self.span.piece(d, self.unit);
                if self.data_lost(d) {
                    plan.lost_blocks += piece.len();
                } else {
                    plan.push(PlanList::Reads, self.data(d, piece, false));
                }
            }
            return;
        }
        self.read_survivors(range, true, plan);
        self.count_recovery(range.len(), plan);
    }

    /// Reads `range` of as many surviving units as there are data units. With `wanted`, the same I/Os also read the
    /// request's own pieces.
    fn read_survivors(&self, range: UnitRange, wanted: bool, plan: &mut MemberIoPlan) {
        let mut needed = self.k;
        for d in (0..self.k).filter(|d| !self.data_lost(*d)) {
            let own = wanted && self.span.touches(d);
            let range = if own { join(range, self.span.piece(d, self.unit)) } else { range };
            plan.push(PlanList::Reads, self.data(d, range, false));
            needed -= 1;
        }
        for j in (0..self.p).filter(|j| !self.parity_lost(*j)).take(usize::from(needed)) {
            plan.push(PlanList::Reads, self.parity(j, range, false));
        }
    }

    /// Counts the work of recovering lost data: one unit by XOR if P is good, the others by multiplication.
    fn count_recovery(&self, blocks: u64, plan: &mut MemberIoPlan) {
        let lost = (0..self.k).filter(|d| self.data_lost(*d)).count() as u64;
        let by_xor = u64::from(lost > 0 && !self.parity_lost(0));
        plan.work.xor_blocks += by_xor * u64::from(self.k - 1) * blocks;
        plan.work.galois_blocks += (lost - by_xor) * u64::from(self.k) * blocks;
    }

    pub(super) fn write(&self, by: WriteBy, plan: &mut MemberIoPlan) {
        let (span, unit) = (self.span, self.unit);
        let gaps = span.gaps(unit);
        let reconstruct = self.k - span.count() + gaps.iter().flatten().count() as u16;
        let modify = span.count() + self.p;
        let method = match by {
            _ if reconstruct == 0 => ParityMethod::Reconstruct,
            WriteBy::ReadModifyWrite => ParityMethod::Modify,
            WriteBy::Reconstruct => ParityMethod::Reconstruct,
            WriteBy::Fewest | WriteBy::Md if modify < reconstruct => ParityMethod::Modify,
            WriteBy::Fewest | WriteBy::Md => ParityMethod::Reconstruct,
        };
        let hull = span.hull(unit);
        if method == ParityMethod::Modify {
            for d in span.first..=span.last {
                plan.push(PlanList::Reads, self.data(d, span.piece(d, unit), false));
            }
            for j in 0..self.p {
                plan.push(PlanList::Reads, self.parity(j, hull, false));
            }
        } else {
            for d in (0..span.first).chain(span.last + 1..self.k) {
                plan.push(PlanList::Reads, self.data(d, hull, false));
            }
            for (d, gap) in gaps.into_iter().flatten() {
                plan.push(PlanList::Reads, self.data(d, gap, false));
            }
        }
        let list = if reconstruct == 0 { PlanList::Writes } else { PlanList::After };
        for d in span.first..=span.last {
            plan.push(list, self.data(d, span.piece(d, unit), true));
        }
        for j in 0..self.p {
            plan.push(list, self.parity(j, hull, true));
        }
        self.count_work(method, 1, u64::from(self.p - 1), plan);
    }

    /// Counts the work of computing new parity: `p` times P (0 or 1), and `others`.
    #[inline]
    fn count_work(&self, method: ParityMethod, p: u64, others: u64, plan: &mut MemberIoPlan) {
        let (xor, gf_mul) = if method == ParityMethod::Modify {
            // the old data is folded out, the new data in
            let pieces = 2 * self.span.blocks(self.unit);
            (pieces, pieces)
        } else {
            let blocks = self.span.hull(self.unit).len();
            (u64::from(self.k - 1) * blocks, u64::from(self.k) * blocks)
        };
        plan.work.xor_blocks += p * xor;
        plan.work.galois_blocks += others * gf_mul;
    }

    pub(super) fn write_degraded(&self, by: WriteBy, plan: &mut MemberIoPlan) {
        if self.too_many_lost() {
            plan.lost_blocks += self.span.blocks(self.unit);
            return;
        }
        let (span, unit) = (self.span, self.unit);
        let hull = span.hull(unit);
        let parities = (0..self.p).filter(|j| !self.parity_lost(*j));
        let alive = parities.clone().count() as u16;
        let (reads, method) = self.degraded_way(by, alive);
        match method {
            // no parity to update: nothing to read
            _ if alive == 0 && by != WriteBy::Md => {}
            ParityMethod::Modify => {
                for d in span.first..=span.last {
                    plan.push(PlanList::Reads, self.data(d, span.piece(d, unit), false));
                }
                for j in parities.clone() {
                    plan.push(PlanList::Reads, self.parity(j, hull, false));
                }
            }
            ParityMethod::Reconstruct => {
                for d in (0..self.k).filter(|d| !span.touches(*d)) {
                    plan.push(PlanList::Reads, self.data(d, hull, false));
                }
                for (d, gap) in span.gaps(unit).into_iter().flatten() {
                    plan.push(PlanList::Reads, self.data(d, gap, false));
                }
            }
            ParityMethod::Recover => {
                self.read_survivors(hull, false, plan);
                self.count_recovery(hull.len(), plan);
            }
        }
        let reads_first = reads > 0 && (alive > 0 || by == WriteBy::Md);
        let list = if reads_first { PlanList::After } else { PlanList::Writes };
        for d in (span.first..=span.last).filter(|d| !self.data_lost(*d)) {
            plan.push(list, self.data(d, span.piece(d, unit), true));
        }
        for j in parities {
            plan.push(list, self.parity(j, hull, true));
        }
        if alive > 0 {
            let p = u64::from(!self.parity_lost(0));
            self.count_work(method, p, u64::from(alive) - p, plan);
        }
    }

    /// Chooses the method with the fewest reads of those that the lost members allow, and returns its reads and the
    /// method; `alive` parities are good.
    fn degraded_way(&self, by: WriteBy, alive: u16) -> (u16, ParityMethod) {
        let (span, unit) = (self.span, self.unit);
        let touched_lost = (span.first..=span.last).any(|d| self.data_lost(d));
        let untouched_lost = (0..self.k).any(|d| !span.touches(d) && self.data_lost(d));
        let gaps = span.gaps(unit);
        let gap_lost = gaps.iter().flatten().any(|(d, _)| self.data_lost(*d));
        let all_parities_good = alive == self.p;
        let modify = !touched_lost && (all_parities_good || by != WriteBy::Md);
        let modify = modify.then_some((span.count() + alive, ParityMethod::Modify));
        let rebuilt = self.k - span.count() + gaps.iter().flatten().count() as u16;
        let reconstruct = (!untouched_lost && !gap_lost).then_some((rebuilt, ParityMethod::Reconstruct));
        let requested = match by {
            WriteBy::Fewest | WriteBy::Md => None,
            _ if reconstruct.is_some_and(|(reads, _)| reads == 0) => reconstruct,
            WriteBy::ReadModifyWrite => modify,
            WriteBy::Reconstruct => reconstruct,
        };
        // min_by_key takes the first of equals: reconstructing before modifying
        let recover = (self.k, ParityMethod::Recover);
        let several_lost = self.lost.count() >= 2;
        if by == WriteBy::Md && several_lost && untouched_lost && (touched_lost || !all_parities_good) {
            return recover;
        }
        let ways = [reconstruct, modify, Some(recover)];
        requested.or_else(|| ways.into_iter().flatten().min_by_key(|(reads, _)| *reads)).unwrap_or(recover)
    }

    /// Reads the survivors of a whole row and rewrites the units of `targets`.
    pub(super) fn rebuild(&self, targets: Members, plan: &mut MemberIoPlan) {
        let full_unit = UnitRange { from: 0, to: self.unit };
        if self.too_many_lost() {
            plan.lost_blocks += u64::from(targets.count()) * self.unit;
            return;
        }
        self.read_survivors(full_unit, false, plan);
        self.count_recovery(self.unit, plan);
        for member in targets.iter() {
            match self.row.unit(member) {
                Ok(d) => plan.push(PlanList::After, self.data(d, full_unit, true)),
                Err(j) => {
                    plan.push(PlanList::After, self.parity(j, full_unit, true));
                    self.count_work(ParityMethod::Reconstruct, u64::from(j == 0), u64::from(j > 0), plan);
                }
            }
        }
    }

    /// Reads a whole row and recomputes its parities for comparison.
    pub(super) fn check(&self, plan: &mut MemberIoPlan) {
        let full_unit = UnitRange { from: 0, to: self.unit };
        for d in (0..self.k).filter(|d| !self.data_lost(*d)) {
            plan.push(PlanList::Reads, self.data(d, full_unit, false));
        }
        for j in (0..self.p).filter(|j| !self.parity_lost(*j)) {
            plan.push(PlanList::Reads, self.parity(j, full_unit, false));
        }
        if self.lost.is_empty() {
            self.count_work(ParityMethod::Reconstruct, 1, u64::from(self.p - 1), plan);
        }
    }

    /// Creates a planner for a whole row.
    pub(super) fn whole(parity: &Parity, row: u64, unit: u64, lost: Members) -> RowJob {
        let span = RowSpan { first: 0, last: parity.k.by() as u16 - 1, lo: 0, hi: unit };
        RowJob::new(parity, row, unit, span, lost)
    }
}

/// Returns the smallest range that covers both.
fn join(a: UnitRange, b: UnitRange) -> UnitRange {
    UnitRange { from: a.from.min(b.from), to: a.to.max(b.to) }
}
