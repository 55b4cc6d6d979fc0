//! A byte range across a row of a parity level: the same range of each data unit and of each
//! parity.

use diskwright_simulator::BLOCK_BYTES;
use diskwright_simulator::array::{ArrayGeometry, MemberSet};

use super::WriteSource;
use super::copies::write_source;
use crate::content::error::AccessError;
use crate::content::gf256::{self, MAX_PARITIES, Matrix};
use crate::content::store::{Stores, ZeroPolicy};

/// Scratch memory, kept from request to request.
#[derive(Default)]
pub(super) struct ParityScratch {
    /// A range of each data unit.
    data: Vec<u8>,
    parity: [Vec<u8>; MAX_PARITIES],
    other: Vec<u8>,
}

/// A range of a row.
pub(super) struct RowStretch<'a> {
    pub array: &'a ArrayGeometry,
    pub drives: &'a [usize],
    pub row: u64,
    /// First byte, from the start of the unit.
    pub start: u64,
    pub len: usize,
    /// Members on which it is not good.
    pub lost: MemberSet,
    /// Writes are journaled first.
    pub journals_writes: bool,
}

/// Data units of a range that are written: from the first to the last, from a source that starts
/// with the first and continues with the next one unit further.
#[derive(Clone, Copy)]
pub(super) struct CoveredUnits<'a> {
    pub first: u16,
    pub last: u16,
    pub source: WriteSource<'a>,
    /// Offset of the first unit's bytes in the source.
    pub offset: u64,
    pub unit_bytes: u64,
}

impl<'a> CoveredUnits<'a> {
    fn contains(&self, unit: u16) -> bool {
        (self.first..=self.last).contains(&unit)
    }

    fn unit_count(&self) -> u16 {
        self.last - self.first + 1
    }

    fn source_for_unit(&self, unit: u16, len: usize) -> WriteSource<'a> {
        let position = self.offset + u64::from(unit - self.first) * self.unit_bytes;
        self.source.subrange(position, len as u64)
    }
}

impl RowStretch<'_> {
    fn data_unit_count(&self) -> u16 {
        self.array.member_count() - self.array.parity_count()
    }

    /// Returns its offset on each member.
    fn member_offset(&self) -> u64 {
        self.row * self.array.unit_blocks() * BLOCK_BYTES + self.start
    }

    /// Returns the member that holds a data unit of this row.
    fn data_member(&self, unit: u16) -> u16 {
        self.array.data_member(self.row, unit).unwrap_or_default()
    }

    fn parity_member(&self, parity: u16) -> u16 {
        self.array.parity_member(self.row, parity).unwrap_or_default()
    }

    fn drive_of_member(&self, member: u16) -> usize {
        self.drives[usize::from(member)]
    }

    fn is_data_lost(&self, unit: u16) -> bool {
        !self.lost.is_empty() && self.lost.contains(self.data_member(unit))
    }

    /// Iterates over the parities that are good.
    fn good_parities(&self) -> impl Iterator<Item = u16> + Clone + '_ {
        (0..self.array.parity_count()).filter(|j| self.lost.is_empty() || !self.lost.contains(self.parity_member(*j)))
    }

    /// Returns true if data of the row lies on a lost member.
    pub fn any_data_lost(&self) -> bool {
        !self.lost.is_empty() && (0..self.data_unit_count()).any(|d| self.is_data_lost(d))
    }

    /// Returns true if more members are lost than there are parities.
    pub fn too_many_lost(&self) -> bool {
        self.lost.count() > u32::from(self.array.parity_count())
    }

    /// Returns how many of `bytes` bytes are a hole on every good member; 0 if there is data at the
    /// start.
    pub fn hole_bytes(&self, stores: &Stores, bytes: u64) -> Result<u64, AccessError> {
        let mut hole_bytes = bytes;
        for member in (0..self.array.member_count()).filter(|m| !self.lost.contains(*m)) {
            let extent = stores.extent_at(self.drive_of_member(member), self.member_offset(), hole_bytes)?;
            if !extent.is_hole {
                return Ok(0);
            }
            hole_bytes = hole_bytes.min(extent.bytes);
        }
        Ok(hole_bytes)
    }

    /// Reads all data units into the scratch, and reconstructs the lost ones.
    pub fn gather_data(&self, stores: &Stores, scratch: &mut ParityScratch) -> Result<(), AccessError> {
        if self.too_many_lost() {
            return Err(AccessError::LostData);
        }
        let (len, k) = (self.len, usize::from(self.data_unit_count()));
        grow_buffer(&mut scratch.data, k * len);
        let mut lost = [0; MAX_PARITIES];
        let mut count = 0;
        for d in 0..k {
            let slot = &mut scratch.data[d * len..(d + 1) * len];
            if self.is_data_lost(d as u16) {
                slot.fill(0);
                lost[count] = d;
                count += 1;
            } else {
                stores.read(self.drive_of_member(self.data_member(d as u16)), self.member_offset(), slot)?;
            }
        }
        if count == 0 { Ok(()) } else { self.recover_lost_units(stores, scratch, &lost[..count]) }
    }

    /// Reconstructs the lost units from the others and as many parities: these parities, without
    /// the others' part, are sums of the lost units with known factors.
    fn recover_lost_units(
        &self,
        stores: &Stores,
        scratch: &mut ParityScratch,
        lost: &[usize],
    ) -> Result<(), AccessError> {
        let (len, lost_count) = (self.len, lost.len());
        let ParityScratch { data, parity, other } = scratch;
        let mut factors: Matrix = [[0; MAX_PARITIES]; MAX_PARITIES];
        grow_buffer(other, len);
        let mut used = 0;
        for (i, j) in self.good_parities().take(lost_count).enumerate() {
            let j = usize::from(j);
            used += 1;
            grow_buffer(&mut parity[i], len);
            horner_sum(j, &mut parity[i][..len], data.chunks_exact(len).take(usize::from(self.data_unit_count())));
            stores.read(self.drive_of_member(self.parity_member(j as u16)), self.member_offset(), &mut other[..len])?;
            gf256::xor_into(&mut parity[i][..len], &other[..len]);
            for (column, d) in lost.iter().enumerate() {
                factors[i][column] = gf256::parity_factor(j, *d);
            }
        }
        let inverse =
            gf256::invert_matrix(factors, lost_count).filter(|_| used == lost_count).ok_or(AccessError::LostData)?;
        for (d, row) in lost.iter().zip(inverse) {
            for (sum, factor) in parity.iter().zip(row).take(lost_count) {
                gf256::add_multiple(&mut data[d * len..(d + 1) * len], factor, &sum[..len]);
            }
        }
        Ok(())
    }

    /// Returns a data unit from the scratch memory.
    pub fn gathered_unit<'s>(&self, scratch: &'s ParityScratch, unit: u16) -> &'s [u8] {
        debug_assert!(unit < self.data_unit_count(), "unit {unit} of {}", self.data_unit_count());
        &scratch.data[usize::from(unit) * self.len..(usize::from(unit) + 1) * self.len]
    }

    /// Computes a parity of all gathered units.
    pub fn encode_parity<'s>(&self, scratch: &'s mut ParityScratch, parity: u16) -> &'s [u8] {
        let (len, j) = (self.len, usize::from(parity));
        grow_buffer(&mut scratch.parity[j], len);
        let units = scratch.data.chunks_exact(len).take(usize::from(self.data_unit_count()));
        horner_sum(j, &mut scratch.parity[j][..len], units);
        &scratch.parity[j][..len]
    }

    /// Counts the good members' parities that do not match the data.
    pub fn wrong_parities(&self, stores: &Stores, scratch: &mut ParityScratch) -> Result<u64, AccessError> {
        self.gather_data(stores, scratch)?;
        let mut wrong_parities = 0;
        for j in self.good_parities() {
            self.encode_parity(scratch, j);
            grow_buffer(&mut scratch.other, self.len);
            let other = &mut scratch.other[..self.len];
            stores.read(self.drive_of_member(self.parity_member(j)), self.member_offset(), other)?;
            wrong_parities += u64::from(*other != scratch.parity[usize::from(j)][..self.len]);
        }
        Ok(wrong_parities)
    }

    /// Writes the covered units, and the parities. If that fails, everything is restored, or the
    /// parities are recomputed from what is there. The flag of the error is true if that failed
    /// too.
    pub fn write(
        &self,
        stores: &mut Stores,
        scratch: &mut ParityScratch,
        cover: CoveredUnits<'_>,
    ) -> Result<(), (AccessError, bool)> {
        let intact = |reason| (reason, false);
        if self.too_many_lost() {
            return Err(intact(AccessError::LostData));
        }
        let degraded = self.any_data_lost();
        let parity_count = self.good_parities().count() as u16;
        let others = self.data_unit_count() - cover.unit_count();
        let is_covered_lost = degraded && (cover.first..=cover.last).any(|d| self.is_data_lost(d));
        let modifies = !is_covered_lost && (degraded || cover.unit_count() + parity_count <= others);
        if modifies {
            self.modify_parities(stores, scratch, cover).map_err(intact)?;
        } else {
            if degraded {
                self.gather_data(stores, scratch).map_err(intact)?;
            }
            self.reconstruct_parities(stores, scratch, cover, degraded).map_err(intact)?;
        }
        // check now whether memory is full: zeros have no pages yet, which undoing may need
        let units = (cover.first..=cover.last).filter(|d| !self.is_data_lost(*d)).map(|d| self.data_member(d));
        let members = units.chain(self.good_parities().map(|j| self.parity_member(j)));
        if !stores.has_room(members.map(|member| self.drive_of_member(member)), self.member_offset(), self.len as u64) {
            return Err(intact(AccessError::NoSpace));
        }
        if self.journals_writes {
            self.journal_writes(stores, scratch, cover).map_err(intact)?;
        }
        let mut written = [0; MAX_PARITIES];
        let result = self.write_parities_and_data(stores, scratch, cover, &mut written);
        result.map_err(|reason| {
            let undo = if !degraded {
                self.resync_parities(stores, scratch, written)
            } else {
                if modifies {
                    self.fold_changes(scratch, cover);
                }
                self.restore_old_bytes(stores, scratch, cover, modifies, written)
            };
            (reason, undo.is_err())
        })
    }

    /// Computes new parities from the old ones and the change of each covered unit, whose old bytes
    /// stay in the scratch.
    fn modify_parities(
        &self,
        stores: &Stores,
        scratch: &mut ParityScratch,
        cover: CoveredUnits<'_>,
    ) -> Result<(), AccessError> {
        let len = self.len;
        grow_buffer(&mut scratch.data, usize::from(cover.unit_count()) * len);
        for d in cover.first..=cover.last {
            let position = usize::from(d - cover.first) * len;
            stores.read(
                self.drive_of_member(self.data_member(d)),
                self.member_offset(),
                &mut scratch.data[position..position + len],
            )?;
        }
        for j in self.good_parities() {
            let parity = &mut scratch.parity[usize::from(j)];
            grow_buffer(parity, len);
            stores.read(self.drive_of_member(self.parity_member(j)), self.member_offset(), &mut parity[..len])?;
        }
        self.fold_changes(scratch, cover);
        Ok(())
    }

    /// Adds the change of each covered unit to each parity. Doing it twice undoes it.
    fn fold_changes(&self, scratch: &mut ParityScratch, cover: CoveredUnits<'_>) {
        let len = self.len;
        let ParityScratch { data, parity, other } = scratch;
        grow_buffer(other, len);
        for d in cover.first..=cover.last {
            let position = usize::from(d - cover.first) * len;
            let change = &mut other[..len];
            change.copy_from_slice(&data[position..position + len]);
            if let WriteSource::Data(new) = cover.source_for_unit(d, len) {
                gf256::xor_into(change, new);
            }
            for j in self.good_parities().map(usize::from) {
                gf256::add_multiple(&mut parity[j][..len], gf256::parity_factor(j, usize::from(d)), change);
            }
        }
    }

    /// Computes new parities from the covered units and the others, which are read or, if some are
    /// lost, gathered already.
    fn reconstruct_parities(
        &self,
        stores: &Stores,
        scratch: &mut ParityScratch,
        cover: CoveredUnits<'_>,
        gathered: bool,
    ) -> Result<(), AccessError> {
        let len = self.len;
        let ParityScratch { data, parity, other } = scratch;
        for j in self.good_parities().map(usize::from) {
            grow_buffer(&mut parity[j], len);
            parity[j][..len].fill(0);
        }
        grow_buffer(other, len);
        for d in (0..self.data_unit_count()).rev() {
            let unit = if cover.contains(d) {
                match cover.source_for_unit(d, len) {
                    WriteSource::Data(new) => Some(new),
                    WriteSource::Zeros(..) => None,
                }
            } else if gathered {
                Some(&data[usize::from(d) * len..(usize::from(d) + 1) * len])
            } else {
                stores.read(self.drive_of_member(self.data_member(d)), self.member_offset(), &mut other[..len])?;
                Some(&other[..len])
            };
            for j in self.good_parities().map(usize::from) {
                match unit {
                    Some(unit) => gf256::horner_step(j, &mut parity[j][..len], unit),
                    None => gf256::horner_step_zeros(j, &mut parity[j][..len]),
                }
            }
        }
        Ok(())
    }

    /// Journals everything that [`Self::write_parities_and_data`] writes.
    fn journal_writes(
        &self,
        stores: &mut Stores,
        scratch: &ParityScratch,
        cover: CoveredUnits<'_>,
    ) -> Result<(), AccessError> {
        let parity = |j: u16| WriteSource::Data(&scratch.parity[usize::from(j)][..self.len]);
        let parities = self
            .good_parities()
            .map(|j| (self.drive_of_member(self.parity_member(j)), self.member_offset(), parity(j)));
        let units = (cover.first..=cover.last).filter(|d| !self.is_data_lost(*d));
        let data = units.map(|d| {
            (self.drive_of_member(self.data_member(d)), self.member_offset(), cover.source_for_unit(d, self.len))
        });
        stores.journal_writes(parities.chain(data))
    }

    /// Writes the parities, then the data. `written` receives the bytes written to each parity.
    fn write_parities_and_data(
        &self,
        stores: &mut Stores,
        scratch: &ParityScratch,
        cover: CoveredUnits<'_>,
        written: &mut [usize; MAX_PARITIES],
    ) -> Result<(), AccessError> {
        for j in self.good_parities() {
            let parity = &scratch.parity[usize::from(j)][..self.len];
            let result = stores.write(self.drive_of_member(self.parity_member(j)), self.member_offset(), parity);
            written[usize::from(j)] = result.as_ref().map_or_else(|short| short.written_bytes, |()| self.len);
            result?;
        }
        for d in (cover.first..=cover.last).filter(|d| !self.is_data_lost(*d)) {
            write_source(
                stores,
                self.drive_of_member(self.data_member(d)),
                self.member_offset(),
                cover.source_for_unit(d, self.len),
            )?;
        }
        Ok(())
    }

    /// Recomputes the parities from the current data, as far as parities were written. Only wrong
    /// bytes are written: space for them exists even if the disk is full.
    pub fn resync_parities(
        &self,
        stores: &mut Stores,
        scratch: &mut ParityScratch,
        written: [usize; MAX_PARITIES],
    ) -> Result<(), AccessError> {
        self.gather_data(stores, scratch)?;
        for j in self.good_parities().filter(|j| written[usize::from(*j)] > 0) {
            self.encode_parity(scratch, j);
            let (drive, len) = (self.drive_of_member(self.parity_member(j)), written[usize::from(j)]);
            grow_buffer(&mut scratch.other, len);
            let (current, correct) = (&mut scratch.other[..len], &scratch.parity[usize::from(j)][..len]);
            stores.read(drive, self.member_offset(), current)?;
            let is_wrong = |index: &usize| current[*index] != correct[*index];
            if let (Some(first), Some(last)) = ((0..len).find(is_wrong), (0..len).rfind(is_wrong)) {
                stores.write(drive, self.member_offset() + first as u64, &correct[first..=last])?;
            }
        }
        Ok(())
    }

    /// Restores old data and old parities. The old data are in the scratch: those of the covered
    /// units after `modify`, together with the parities; those of all units otherwise.
    fn restore_old_bytes(
        &self,
        stores: &mut Stores,
        scratch: &mut ParityScratch,
        cover: CoveredUnits<'_>,
        modified: bool,
        written: [usize; MAX_PARITIES],
    ) -> Result<(), AccessError> {
        for d in (cover.first..=cover.last).filter(|d| !self.is_data_lost(*d)) {
            let slot = if modified { d - cover.first } else { d };
            let (drive, old) = (self.drive_of_member(self.data_member(d)), self.gathered_unit(scratch, slot));
            let mut current = vec![0; self.len];
            stores.read(drive, self.member_offset(), &mut current)?;
            // only what was written: there may be no space for the rest
            let last = current.iter().zip(old).rposition(|(current, old)| current != old);
            stores.write(drive, self.member_offset(), &old[..last.map_or(0, |last| last + 1)])?;
        }
        for j in self.good_parities() {
            if !modified {
                self.encode_parity(scratch, j);
            }
            let parity = &scratch.parity[usize::from(j)][..written[usize::from(j)]];
            stores.write(self.drive_of_member(self.parity_member(j)), self.member_offset(), parity)?;
        }
        Ok(())
    }

    /// Rewrites the units of these members: their data or parity from all gathered units.
    pub fn rebuild_members(
        &self,
        stores: &mut Stores,
        scratch: &mut ParityScratch,
        targets: MemberSet,
    ) -> Result<(), AccessError> {
        self.gather_data(stores, scratch)?;
        for d in (0..self.data_unit_count()).filter(|d| targets.contains(self.data_member(*d))) {
            stores.write(
                self.drive_of_member(self.data_member(d)),
                self.member_offset(),
                self.gathered_unit(scratch, d),
            )?;
        }
        for j in (0..self.array.parity_count()).filter(|j| targets.contains(self.parity_member(*j))) {
            self.encode_parity(scratch, j);
            stores.write(
                self.drive_of_member(self.parity_member(j)),
                self.member_offset(),
                &scratch.parity[usize::from(j)][..self.len],
            )?;
        }
        Ok(())
    }

    /// Zeroes the range on these members.
    pub fn clear(&self, stores: &mut Stores, targets: MemberSet, bytes: u64) -> Result<(), AccessError> {
        targets.iter().try_for_each(|member| {
            stores.write_zeros(self.drive_of_member(member), self.member_offset(), bytes, ZeroPolicy::Deallocate)
        })
    }
}

/// Computes the sum of units with the factors of a parity, by Horner's rule.
fn horner_sum<'u>(parity: usize, sum: &mut [u8], units: impl DoubleEndedIterator<Item = &'u [u8]>) {
    sum.fill(0);
    units.rev().for_each(|unit| gf256::horner_step(parity, sum, unit));
}

/// Extends a buffer to at least `len` bytes.
fn grow_buffer(buffer: &mut Vec<u8>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
}
