//! Failure, replacement and rebuild of members, and scrubbing.

use std::ops::Range;

use diskwright_simulator::BLOCK_BYTES;
use diskwright_simulator::array::{MemberBlock, MemberSet};

use super::{ArrayContent, BytePiece, CHUNK};
use crate::content::store::{ContentExtent, Stores, ZeroPolicy};
use crate::content::trouble::Trouble;

impl ArrayContent {
    /// Returns the members that go out of service with one: in a mirror of stripe sets all of its
    /// set.
    pub fn with(&self, member: u16) -> Result<MemberSet, Trouble> {
        match member < self.array.member_count() {
            true => Ok(self.array.out_of_service(MemberSet::NONE.with_member(member))),
            false => Err(Trouble::NoSuchMember),
        }
    }

    /// Fails these members: nothing on them is good.
    pub fn fail(&mut self, members: MemberSet) {
        self.rebuilding = self.rebuilding.difference(members);
        self.well &= members.is_empty();
        members.iter().for_each(|member| self.good[usize::from(member)] = 0);
    }

    /// Discards the bytes of these members.
    pub fn clear(&self, stores: &mut Stores, members: MemberSet) -> Result<(), Trouble> {
        let all = |member: u16| (self.drives[usize::from(member)], self.sizes[usize::from(member)]);
        members.iter().map(all).try_for_each(|(drive, bytes)| stores.zero(drive, 0, bytes, ZeroPolicy::GiveBack))
    }

    /// Replaces these members by empty drives, to be rebuilt, if that is possible.
    pub fn replace(&mut self, members: MemberSet) -> Result<(), Trouble> {
        if !self.array.survives_failures(members.iter().fold(self.failed(), MemberSet::with_member)) {
            return Err(Trouble::LostData);
        }
        self.fail(members);
        self.rebuilding = members.iter().fold(self.rebuilding, MemberSet::with_member);
        Ok(())
    }

    /// Rebuilds the replaced members up to member block `blocks`. Parts already rebuilt are not
    /// rebuilt again.
    pub fn rebuilt(&mut self, stores: &mut Stores, blocks: u64) -> Result<(), Trouble> {
        let to = blocks.saturating_mul(BLOCK_BYTES);
        if self.array.parity_count() > 0 {
            let to = to.min(self.array.member_blocks() * BLOCK_BYTES);
            return self.rebuild_rows(stores, to - to % self.unit());
        }
        self.rebuilding.iter().try_for_each(|member| self.rebuild_copy(stores, member, to))
    }

    /// Rebuilds the rest, and marks the members as good.
    pub fn finish_rebuild(&mut self, stores: &mut Stores) -> Result<(), Trouble> {
        self.rebuilt(stores, u64::MAX)?;
        self.rebuilding.iter().for_each(|member| self.good[usize::from(member)] = u64::MAX);
        self.rebuilding = MemberSet::NONE;
        self.well = self.failed().is_empty();
        Ok(())
    }

    fn rebuild_rows(&mut self, stores: &mut Stores, to: u64) -> Result<(), Trouble> {
        let unit = self.unit();
        let good_ends = |of: &Self| of.rebuilding.iter().map(|m| of.good[usize::from(m)]).collect::<Vec<_>>();
        let Some(mut offset) = good_ends(self).into_iter().min() else { return Ok(()) };
        while offset < to {
            let lost = self.unreadable(offset + unit);
            let targets = lost.intersection(self.rebuilding);
            // up to this point the same members are lost
            let same_until =
                good_ends(self).into_iter().filter(|good| *good > offset).min().map_or(to, |good| good.min(to));
            let row = offset / unit;
            let (stretch, _) = self.stretch(row, 0, unit, lost);
            let hole = stretch.is_hole(stores, same_until - offset)?;
            let bytes = if hole >= unit {
                let bytes = hole - hole % unit;
                stretch.clear(stores, targets, bytes)?;
                bytes
            } else {
                self.rebuild_row(stores, row, lost, targets)?;
                unit
            };
            offset += bytes;
            targets.iter().for_each(|member| self.good[usize::from(member)] = offset);
        }
        Ok(())
    }

    fn rebuild_row(
        &mut self,
        stores: &mut Stores,
        row: u64,
        lost: MemberSet,
        targets: MemberSet,
    ) -> Result<(), Trouble> {
        let (unit, torn) = (self.unit(), self.torn.has(row));
        let mut from = 0;
        while from < unit {
            let (stretch, scratch) = self.stretch(row, from, unit - from, lost);
            if torn && stretch.any_data_lost() {
                return Err(Trouble::Torn(row));
            }
            stretch.renew(stores, scratch, targets)?;
            from += stretch.len as u64;
        }
        Ok(())
    }

    fn rebuild_copy(&mut self, stores: &mut Stores, member: u16, to: u64) -> Result<(), Trouble> {
        let index = usize::from(member);
        let to = to.min(self.sizes[index]);
        let mut buffer = Vec::new();
        while self.good[index] < to {
            let from = self.good[index];
            let block = from / BLOCK_BYTES;
            let MemberBlock::Data { block, copy } = self.array.content_of_member_block(member, block) else {
                // the rest of this unit holds no data
                self.good[index] = ((from / self.unit() + 1) * self.unit()).min(to);
                continue;
            };
            let (first, bytes) = (block * BLOCK_BYTES, to - from);
            let bytes = self.copy(first, bytes, copy)?.bytes;
            let source = self.source(first, bytes, member).ok_or(Trouble::LostData)?;
            let (target, drive) = (self.drives[index], self.drives[usize::from(source.member)]);
            let ContentExtent { bytes, hole } = stores.extent(drive, source.from, bytes.min(source.bytes))?;
            let bytes = if hole {
                stores.zero(target, from, bytes, ZeroPolicy::GiveBack)?;
                bytes
            } else {
                let bytes = bytes.min(CHUNK);
                buffer.resize(bytes as usize, 0);
                stores.read(drive, source.from, &mut buffer)?;
                stores.write(target, from, &buffer)?;
                bytes
            };
            self.good[index] += bytes;
        }
        Ok(())
    }

    /// Returns the longest good part of a copy that begins at byte `offset` of the array, on a
    /// member other than `not`.
    fn source(&self, offset: u64, bytes: u64, not: u16) -> Option<BytePiece> {
        let pieces = (0..self.array.copy_count()).filter_map(|copy| self.copy(offset, bytes, copy).ok());
        let good = |piece: BytePiece| BytePiece { bytes: self.good_up_to(piece), ..piece };
        pieces.filter(|piece| piece.member != not).map(good).filter(|p| p.bytes > 0).max_by_key(|p| p.bytes)
    }

    /// Makes copies and parity agree after a write that was in progress when its server ended; rows
    /// with lost data become torn.
    pub fn settle(&mut self, stores: &mut Stores, bytes: Range<u64>) -> Result<(), Trouble> {
        let end = bytes.end.min(self.bytes());
        if bytes.start >= end {
            return Ok(());
        }
        if self.array.parity_count() == 0 {
            self.agree_all(stores, bytes.start, end);
            return Ok(());
        }
        let row_bytes = self.array.row_blocks() * BLOCK_BYTES;
        for row in bytes.start / row_bytes..end.div_ceil(row_bytes) {
            let lost = self.unreadable((row + 1) * self.unit());
            let unit = self.unit();
            if self.stretch(row, 0, unit, lost).0.is_hole(stores, unit)? == unit {
                continue;
            }
            match self.mend(stores, row, lost) {
                // a full disk still serves its data
                Err(Trouble::Torn(_) | Trouble::NoSpace) => self.torn.add(row),
                other => other?,
            }
        }
        Ok(())
    }

    /// Compares everything that is good: parities with the data, copies with one another. Returns
    /// the number of ranges that disagree (each of up to 64 KiB of a member).
    pub fn scrub(&mut self, stores: &Stores) -> Result<u64, Trouble> {
        if self.array.parity_count() == 0 { self.scrub_copies(stores) } else { self.scrub_rows(stores) }
    }

    fn scrub_rows(&mut self, stores: &Stores) -> Result<u64, Trouble> {
        let (unit, end) = (self.unit(), self.array.member_blocks() * BLOCK_BYTES);
        let (mut offset, mut wrong) = (0, 0);
        while offset < end {
            let lost = self.unreadable(offset + unit);
            let (stretch, _) = self.stretch(offset / unit, 0, unit, lost);
            let hole = stretch.is_hole(stores, end - offset)?;
            if hole >= unit {
                // the hole is known only for this set of lost members
                offset += if lost.is_empty() { hole - hole % unit } else { unit };
                continue;
            }
            let mut from = 0;
            while from < unit {
                let (stretch, scratch) = self.stretch(offset / unit, from, unit - from, lost);
                wrong += stretch.wrong_parities(stores, scratch)?;
                from += stretch.len as u64;
            }
            offset += unit;
        }
        Ok(wrong)
    }

    fn scrub_copies(&self, stores: &Stores) -> Result<u64, Trouble> {
        let (mut offset, mut wrong) = (0, 0);
        let (mut first, mut other) = (Vec::new(), Vec::new());
        while offset < self.bytes() && self.array.copy_count() > 1 {
            let bytes = self.piece(offset, self.bytes() - offset)?.bytes;
            let extents = (0..self.array.copy_count()).map(|copy| {
                let piece = self.copy(offset, bytes, copy)?;
                stores.extent(self.drives[usize::from(piece.member)], piece.from, piece.bytes)
            });
            let extents = extents.collect::<Result<Vec<_>, _>>()?;
            if extents.iter().all(|extent| extent.hole) {
                offset += extents.iter().map(|extent| extent.bytes).min().unwrap_or(bytes);
                continue;
            }
            let bytes = bytes.min(CHUNK);
            first.clear();
            for copy in 0..self.array.copy_count() {
                let piece = self.copy(offset, bytes, copy)?;
                if self.good_up_to(piece) < bytes {
                    continue;
                }
                other.resize(bytes as usize, 0);
                stores.read(self.drives[usize::from(piece.member)], piece.from, &mut other)?;
                if first.is_empty() {
                    std::mem::swap(&mut first, &mut other);
                } else {
                    wrong += u64::from(first != other);
                }
            }
            offset += bytes;
        }
        Ok(wrong)
    }
}
