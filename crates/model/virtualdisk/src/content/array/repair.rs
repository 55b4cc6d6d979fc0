//! Failure, replacement and rebuild of members, and scrubbing.

use std::ops::Range;

use diskwright_simulator::BLOCK_BYTES;
use diskwright_simulator::array::{MemberBlock, MemberSet};

use super::{ArrayContent, BytePiece, CHUNK_BYTES};
use crate::content::error::AccessError;
use crate::content::store::{ContentExtent, Stores, ZeroPolicy};

impl ArrayContent {
    /// Returns the members that go out of service with one: in a mirror of stripe sets all of its
    /// set.
    pub fn affected_members(&self, member: u16) -> Result<MemberSet, AccessError> {
        match member < self.array.member_count() {
            true => Ok(self.array.out_of_service(MemberSet::NONE.with_member(member))),
            false => Err(AccessError::NoSuchMember),
        }
    }

    /// Fails these members: nothing on them is good.
    pub fn fail_members(&mut self, members: MemberSet) {
        self.rebuilding = self.rebuilding.difference(members);
        self.all_good &= members.is_empty();
        members.iter().for_each(|member| self.good_bytes[usize::from(member)] = 0);
    }

    /// Discards the bytes of these members.
    pub fn clear_members(&self, stores: &mut Stores, members: MemberSet) -> Result<(), AccessError> {
        let used_range = |member: u16| (self.drives[usize::from(member)], self.used_bytes[usize::from(member)]);
        members
            .iter()
            .map(used_range)
            .try_for_each(|(drive, bytes)| stores.write_zeros(drive, 0, bytes, ZeroPolicy::Deallocate))
    }

    /// Replaces these members by empty drives, to be rebuilt, if that is possible.
    pub fn replace_members(&mut self, members: MemberSet) -> Result<(), AccessError> {
        if !self.array.survives_failures(members.iter().fold(self.failed_members(), MemberSet::with_member)) {
            return Err(AccessError::LostData);
        }
        self.fail_members(members);
        self.rebuilding = members.iter().fold(self.rebuilding, MemberSet::with_member);
        Ok(())
    }

    /// Rebuilds the replaced members up to member block `blocks`. Parts already rebuilt are not
    /// rebuilt again.
    pub fn rebuild_up_to(&mut self, stores: &mut Stores, blocks: u64) -> Result<(), AccessError> {
        let to = blocks.saturating_mul(BLOCK_BYTES);
        if self.array.parity_count() > 0 {
            let to = to.min(self.array.member_blocks() * BLOCK_BYTES);
            return self.rebuild_rows(stores, to - to % self.unit_bytes());
        }
        self.rebuilding.iter().try_for_each(|member| self.rebuild_copy(stores, member, to))
    }

    /// Rebuilds the rest, and marks the members as good.
    pub fn finish_rebuild(&mut self, stores: &mut Stores) -> Result<(), AccessError> {
        self.rebuild_up_to(stores, u64::MAX)?;
        self.rebuilding.iter().for_each(|member| self.good_bytes[usize::from(member)] = u64::MAX);
        self.rebuilding = MemberSet::NONE;
        self.all_good = self.failed_members().is_empty();
        Ok(())
    }

    fn rebuild_rows(&mut self, stores: &mut Stores, to: u64) -> Result<(), AccessError> {
        let unit = self.unit_bytes();
        let good_ends = |of: &Self| of.rebuilding.iter().map(|m| of.good_bytes[usize::from(m)]).collect::<Vec<_>>();
        let Some(mut offset) = good_ends(self).into_iter().min() else { return Ok(()) };
        while offset < to {
            let lost = self.members_lost_before(offset + unit);
            let targets = lost.intersection(self.rebuilding);
            // up to this point the same members are lost
            let same_until =
                good_ends(self).into_iter().filter(|good| *good > offset).min().map_or(to, |good| good.min(to));
            let row = offset / unit;
            let (stretch, _) = self.row_stretch(row, 0, unit, lost);
            let hole = stretch.hole_bytes(stores, same_until - offset)?;
            let bytes = if hole >= unit {
                let bytes = hole - hole % unit;
                stretch.clear(stores, targets, bytes)?;
                bytes
            } else {
                self.rebuild_row(stores, row, lost, targets)?;
                unit
            };
            offset += bytes;
            targets.iter().for_each(|member| self.good_bytes[usize::from(member)] = offset);
        }
        Ok(())
    }

    fn rebuild_row(
        &mut self,
        stores: &mut Stores,
        row: u64,
        lost: MemberSet,
        targets: MemberSet,
    ) -> Result<(), AccessError> {
        let (unit, torn) = (self.unit_bytes(), self.torn_rows.contains(row));
        let mut from = 0;
        while from < unit {
            let (stretch, scratch) = self.row_stretch(row, from, unit - from, lost);
            if torn && stretch.any_data_lost() {
                return Err(AccessError::Torn(row));
            }
            stretch.rebuild_members(stores, scratch, targets)?;
            from += stretch.len as u64;
        }
        Ok(())
    }

    fn rebuild_copy(&mut self, stores: &mut Stores, member: u16, to: u64) -> Result<(), AccessError> {
        let index = usize::from(member);
        let to = to.min(self.used_bytes[index]);
        let mut buffer = Vec::new();
        while self.good_bytes[index] < to {
            let from = self.good_bytes[index];
            let block = from / BLOCK_BYTES;
            let MemberBlock::Data { block, copy } = self.array.content_of_member_block(member, block) else {
                // the rest of this unit holds no data
                self.good_bytes[index] = ((from / self.unit_bytes() + 1) * self.unit_bytes()).min(to);
                continue;
            };
            let (first, bytes) = (block * BLOCK_BYTES, to - from);
            let bytes = self.copy_piece(first, bytes, copy)?.bytes;
            let source = self.best_source(first, bytes, member).ok_or(AccessError::LostData)?;
            let (target, drive) = (self.drives[index], self.drives[usize::from(source.member)]);
            let ContentExtent { bytes, is_hole: hole } =
                stores.extent_at(drive, source.from, bytes.min(source.bytes))?;
            let bytes = if hole {
                stores.write_zeros(target, from, bytes, ZeroPolicy::Deallocate)?;
                bytes
            } else {
                let bytes = bytes.min(CHUNK_BYTES);
                buffer.resize(bytes as usize, 0);
                stores.read(drive, source.from, &mut buffer)?;
                stores.write(target, from, &buffer)?;
                bytes
            };
            self.good_bytes[index] += bytes;
        }
        Ok(())
    }

    /// Returns the longest good part of a copy that begins at byte `offset` of the array, on a
    /// member other than `not`.
    fn best_source(&self, offset: u64, bytes: u64, not: u16) -> Option<BytePiece> {
        let pieces = (0..self.array.copy_count()).filter_map(|copy| self.copy_piece(offset, bytes, copy).ok());
        let good = |piece: BytePiece| BytePiece { bytes: self.good_up_to(piece), ..piece };
        pieces.filter(|piece| piece.member != not).map(good).filter(|p| p.bytes > 0).max_by_key(|p| p.bytes)
    }

    /// Makes copies and parity agree after a write that was in progress when its server ended; rows
    /// with lost data become torn.
    pub fn repair_interrupted_write(&mut self, stores: &mut Stores, bytes: Range<u64>) -> Result<(), AccessError> {
        let end = bytes.end.min(self.user_bytes());
        if bytes.start >= end {
            return Ok(());
        }
        if self.array.parity_count() == 0 {
            self.repair_copies_in_range(stores, bytes.start, end);
            return Ok(());
        }
        let row_bytes = self.array.row_blocks() * BLOCK_BYTES;
        for row in bytes.start / row_bytes..end.div_ceil(row_bytes) {
            let lost = self.members_lost_before((row + 1) * self.unit_bytes());
            let unit = self.unit_bytes();
            if self.row_stretch(row, 0, unit, lost).0.hole_bytes(stores, unit)? == unit {
                continue;
            }
            match self.repair_parity(stores, row, lost) {
                // a full disk still serves its data
                Err(AccessError::Torn(_) | AccessError::NoSpace) => self.torn_rows.add_row(row),
                other => other?,
            }
        }
        Ok(())
    }

    /// Compares everything that is good: parities with the data, copies with one another. Returns
    /// the number of ranges that disagree (each of up to 64 KiB of a member).
    pub fn scrub_array(&mut self, stores: &Stores) -> Result<u64, AccessError> {
        if self.array.parity_count() == 0 { self.scrub_copies(stores) } else { self.scrub_rows(stores) }
    }

    fn scrub_rows(&mut self, stores: &Stores) -> Result<u64, AccessError> {
        let (unit, end) = (self.unit_bytes(), self.array.member_blocks() * BLOCK_BYTES);
        let (mut offset, mut wrong) = (0, 0);
        while offset < end {
            let lost = self.members_lost_before(offset + unit);
            let (stretch, _) = self.row_stretch(offset / unit, 0, unit, lost);
            let hole = stretch.hole_bytes(stores, end - offset)?;
            if hole >= unit {
                // the hole is known only for this set of lost members
                offset += if lost.is_empty() { hole - hole % unit } else { unit };
                continue;
            }
            let mut from = 0;
            while from < unit {
                let (stretch, scratch) = self.row_stretch(offset / unit, from, unit - from, lost);
                wrong += stretch.wrong_parities(stores, scratch)?;
                from += stretch.len as u64;
            }
            offset += unit;
        }
        Ok(wrong)
    }

    fn scrub_copies(&self, stores: &Stores) -> Result<u64, AccessError> {
        let (mut offset, mut wrong) = (0, 0);
        let (mut first, mut other) = (Vec::new(), Vec::new());
        while offset < self.user_bytes() && self.array.copy_count() > 1 {
            let bytes = self.first_copy_piece(offset, self.user_bytes() - offset)?.bytes;
            let extents = (0..self.array.copy_count()).map(|copy| {
                let piece = self.copy_piece(offset, bytes, copy)?;
                stores.extent_at(self.drives[usize::from(piece.member)], piece.from, piece.bytes)
            });
            let extents = extents.collect::<Result<Vec<_>, _>>()?;
            if extents.iter().all(|extent| extent.is_hole) {
                offset += extents.iter().map(|extent| extent.bytes).min().unwrap_or(bytes);
                continue;
            }
            let bytes = bytes.min(CHUNK_BYTES);
            first.clear();
            for copy in 0..self.array.copy_count() {
                let piece = self.copy_piece(offset, bytes, copy)?;
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
