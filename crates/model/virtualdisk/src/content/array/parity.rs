//! Levels with parity: requests are processed row by row.

use diskwright_simulator::BLOCK_BYTES;
use diskwright_simulator::array::MemberSet;

use super::row::{CoveredUnits, ParityScratch, RowStretch};
use super::{ArrayContent, BytePiece, CHUNK_BYTES, WriteSource};
use crate::content::error::AccessError;
use crate::content::gf256::MAX_PARITIES;
use crate::content::store::{Stores, ZeroPolicy};

impl ArrayContent {
    /// Returns the size of a stripe unit, bytes.
    pub(super) fn unit_bytes(&self) -> u64 {
        self.array.unit_blocks() * BLOCK_BYTES
    }

    /// Returns the data size of a row, bytes.
    fn row_bytes(&self) -> u64 {
        self.array.row_blocks() * BLOCK_BYTES
    }

    /// Returns the members that are not good in a row. Rebuilt parts are good by whole rows.
    fn lost_members(&self, row: u64) -> MemberSet {
        if self.all_good { MemberSet::NONE } else { self.members_lost_before((row + 1) * self.unit_bytes()) }
    }

    /// Returns a range of a row, and the scratch memory.
    pub(super) fn row_stretch(
        &mut self,
        row: u64,
        from: u64,
        len: u64,
        lost: MemberSet,
    ) -> (RowStretch<'_>, &mut ParityScratch) {
        debug_assert!(from + len <= self.unit_bytes(), "{len} bytes from {from} on leave their units");
        let len = len.min(CHUNK_BYTES) as usize;
        let journals_writes = self.journals_writes();
        (
            RowStretch { array: &self.array, drives: &self.drives, row, start: from, len, lost, journals_writes },
            &mut self.scratch,
        )
    }

    /// Reads a piece, which lies in one data unit, if some member is lost or avoided.
    pub(super) fn read_row(
        &mut self,
        stores: &Stores,
        offset: u64,
        piece: BytePiece,
        into: &mut [u8],
        avoid: MemberSet,
    ) -> Result<(), AccessError> {
        let (unit, row_bytes) = (self.unit_bytes(), self.row_bytes());
        let (row, data_unit) = (offset / row_bytes, (offset % row_bytes / unit) as u16);
        let lost = avoid.below(self.array.member_count()).iter().fold(self.lost_members(row), MemberSet::with_member);
        if !lost.contains(piece.member) {
            return stores.read(self.drives[usize::from(piece.member)], piece.from, into);
        }
        if self.torn_rows.contains(row) {
            return Err(AccessError::Torn(row));
        }
        let mut from = piece.from % unit;
        for part in into.chunks_mut(CHUNK_BYTES as usize) {
            let (stretch, scratch) = self.row_stretch(row, from, part.len() as u64, lost);
            stretch.gather_data(stores, scratch)?;
            part.copy_from_slice(stretch.gathered_unit(scratch, data_unit));
            from += part.len() as u64;
        }
        Ok(())
    }

    pub(super) fn write_rows(
        &mut self,
        stores: &mut Stores,
        from: u64,
        source: WriteSource<'_>,
    ) -> Result<(), AccessError> {
        let (row_bytes, end) = (self.row_bytes(), from + source.byte_count());
        let mut index = from;
        while index < end {
            let (row, inside) = (index / row_bytes, index % row_bytes);
            let whole_rows = if inside == 0 { (end - index) / row_bytes } else { 0 };
            if let WriteSource::Zeros(_, policy) = source
                && whole_rows > 0
                && self.zero_rows(stores, row, whole_rows, policy)?
            {
                index += whole_rows * row_bytes;
                continue;
            }
            let bytes = (row_bytes - inside).min(end - index);
            self.write_row(stores, row, inside, source.subrange(index - from, bytes))?;
            index += bytes;
        }
        Ok(())
    }

    /// Zeroes whole rows: the parities of zeros are zeros, so all members are zeroed. Returns false
    /// if too much is lost to do so.
    fn zero_rows(&mut self, stores: &mut Stores, row: u64, rows: u64, policy: ZeroPolicy) -> Result<bool, AccessError> {
        let lost = self.members_lost_before((row + rows) * self.unit_bytes());
        if lost.count() > u32::from(self.array.parity_count()) {
            return Ok(false);
        }
        let unit = self.unit_bytes();
        if self.journals_writes() {
            let zeros = WriteSource::Zeros(rows * unit, policy);
            stores.journal_writes(self.drives.iter().map(|drive| (*drive, row * unit, zeros)))?;
        }
        for drive in &self.drives {
            let zeroed = stores.write_zeros(*drive, row * unit, rows * unit, policy);
            zeroed.inspect_err(|_| (row..row + rows).for_each(|row| self.torn_rows.add_row(row)))?;
        }
        self.torn_rows.remove_range(row..row + rows);
        Ok(true)
    }

    /// Writes a part of a row, starting at byte `inside` of its data.
    fn write_row(
        &mut self,
        stores: &mut Stores,
        row: u64,
        inside: u64,
        source: WriteSource<'_>,
    ) -> Result<(), AccessError> {
        let lost = self.lost_members(row);
        // a complete write needs no old data
        let is_whole_row = inside == 0 && source.byte_count() == self.row_bytes();
        if !is_whole_row && self.torn_rows.contains(row) {
            self.repair_parity(stores, row, lost)?;
        }
        let (unit, last_byte) = (self.unit_bytes(), inside + source.byte_count() - 1);
        let (first, start_in_unit) = (inside / unit, inside % unit);
        let (last, end_in_unit) = (last_byte / unit, last_byte % unit + 1);
        // between two cuts, the same units are covered
        let cuts = if first == last {
            [start_in_unit, end_in_unit, end_in_unit, end_in_unit]
        } else {
            [0, start_in_unit.min(end_in_unit), start_in_unit.max(end_in_unit), unit]
        };
        debug_assert!(cuts.is_sorted() && cuts[3] <= unit, "the cuts {cuts:?} do not ascend within a unit of {unit}");
        for (from, to) in cuts.iter().zip(&cuts[1..]) {
            let (first, last) =
                (first + u64::from(*from < start_in_unit), last - u64::from(*from >= end_in_unit && last > 0));
            let mut position = *from;
            while position < *to && first <= last {
                let offset = first * unit + position - inside;
                let cover = CoveredUnits { first: first as u16, last: last as u16, source, offset, unit_bytes: unit };
                let (stretch, scratch) = self.row_stretch(row, position, to - position, lost);
                position += stretch.len as u64;
                if let Err((reason, torn)) = stretch.write(stores, scratch, cover) {
                    if torn {
                        self.torn_rows.add_row(row);
                    }
                    return Err(reason);
                }
            }
        }
        if is_whole_row {
            self.torn_rows.remove_range(row..row + 1);
        }
        Ok(())
    }

    /// Recomputes the parity of a torn row if all its data are good.
    pub(super) fn repair_parity(&mut self, stores: &mut Stores, row: u64, lost: MemberSet) -> Result<(), AccessError> {
        let unit = self.unit_bytes();
        let mut from = 0;
        while from < unit {
            let (stretch, scratch) = self.row_stretch(row, from, unit - from, lost);
            if stretch.any_data_lost() {
                return Err(AccessError::Torn(row));
            }
            stretch.resync_parities(stores, scratch, [stretch.len; MAX_PARITIES])?;
            from += stretch.len as u64;
        }
        self.torn_rows.remove_range(row..row + 1);
        Ok(())
    }
}
