//! A byte range across a row of a parity level: the same range of each data unit and of each
//! parity.

use diskwright_simulator::BLOCK_BYTES;
use diskwright_simulator::array::{ArrayGeometry, MemberSet};

use super::WriteSource;
use super::copies::put;
use crate::content::galois::{self, MOST, Matrix};
use crate::content::store::{Stores, ZeroPolicy};
use crate::content::trouble::Trouble;

/// Scratch memory, kept from request to request.
#[derive(Default)]
pub(super) struct ParityScratch {
    /// A range of each data unit.
    data: Vec<u8>,
    parity: [Vec<u8>; MOST],
    other: Vec<u8>,
}

/// A range of a row.
pub(super) struct RowStretch<'a> {
    pub array: &'a ArrayGeometry,
    pub drives: &'a [usize],
    pub row: u64,
    /// First byte, from the start of the unit.
    pub from: u64,
    pub len: usize,
    /// Members on which it is not good.
    pub lost: MemberSet,
    /// Writes are journaled first.
    pub promises: bool,
}

/// Data units of a range that are written: from the first to the last, from a source that starts
/// with the first and continues with the next one unit further.
#[derive(Clone, Copy)]
pub(super) struct Cover<'a> {
    pub first: u16,
    pub last: u16,
    pub source: WriteSource<'a>,
    /// Offset of the first unit's bytes in the source.
    pub offset: u64,
    pub unit_bytes: u64,
}

impl<'a> Cover<'a> {
    fn has(&self, unit: u16) -> bool {
        (self.first..=self.last).contains(&unit)
    }

    fn count(&self) -> u16 {
        self.last - self.first + 1
    }

    fn of(&self, unit: u16, len: usize) -> WriteSource<'a> {
        let position = self.offset + u64::from(unit - self.first) * self.unit_bytes;
        self.source.part(position, len as u64)
    }
}

impl RowStretch<'_> {
    fn k(&self) -> u16 {
        self.array.member_count() - self.array.parity_count()
    }

    /// Returns its offset on each member.
    fn at(&self) -> u64 {
        self.row * self.array.unit_blocks() * BLOCK_BYTES + self.from
    }

    /// Returns the member that holds a data unit of this row.
    fn data(&self, unit: u16) -> u16 {
        self.array.data_member(self.row, unit).unwrap_or_default()
    }

    fn parity(&self, parity: u16) -> u16 {
        self.array.parity_member(self.row, parity).unwrap_or_default()
    }

    fn drive(&self, member: u16) -> usize {
        self.drives[usize::from(member)]
    }

    fn data_lost(&self, unit: u16) -> bool {
        !self.lost.is_empty() && self.lost.contains(self.data(unit))
    }

    /// Iterates over the parities that are good.
    fn parities(&self) -> impl Iterator<Item = u16> + Clone + '_ {
        (0..self.array.parity_count()).filter(|j| self.lost.is_empty() || !self.lost.contains(self.parity(*j)))
    }

    /// Returns true if data of the row lies on a lost member.
    pub fn any_data_lost(&self) -> bool {
        !self.lost.is_empty() && (0..self.k()).any(|d| self.data_lost(d))
    }

    /// Returns true if more members are lost than there are parities.
    pub fn too_many_lost(&self) -> bool {
        self.lost.count() > u32::from(self.array.parity_count())
    }

    /// Returns how many of `bytes` bytes are a hole on every good member; 0 if there is data at the
    /// start.
    pub fn is_hole(&self, stores: &Stores, bytes: u64) -> Result<u64, Trouble> {
        let mut hole_bytes = bytes;
        for member in (0..self.array.member_count()).filter(|m| !self.lost.contains(*m)) {
            let extent = stores.extent(self.drive(member), self.at(), hole_bytes)?;
            if !extent.hole {
                return Ok(0);
            }
            hole_bytes = hole_bytes.min(extent.bytes);
        }
        Ok(hole_bytes)
    }

    /// Reads all data units into the scratch, and reconstructs the lost ones.
    pub fn gather(&self, stores: &Stores, scratch: &mut ParityScratch) -> Result<(), Trouble> {
        if self.too_many_lost() {
            return Err(Trouble::LostData);
        }
        let (len, k) = (self.len, usize::from(self.k()));
        grow(&mut scratch.data, k * len);
        let mut lost = [0; MOST];
        let mut count = 0;
        for d in 0..k {
            let slot = &mut scratch.data[d * len..(d + 1) * len];
            if self.data_lost(d as u16) {
                slot.fill(0);
                lost[count] = d;
                count += 1;
            } else {
                stores.read(self.drive(self.data(d as u16)), self.at(), slot)?;
            }
        }
        if count == 0 { Ok(()) } else { self.recover(stores, scratch, &lost[..count]) }
    }

    /// Reconstructs the lost units from the others and as many parities: these parities, without
    /// the others' part, are sums of the lost units with known factors.
    fn recover(&self, stores: &Stores, scratch: &mut ParityScratch, lost: &[usize]) -> Result<(), Trouble> {
        let (len, lost_count) = (self.len, lost.len());
        let ParityScratch { data, parity, other } = scratch;
        let mut factors: Matrix = [[0; MOST]; MOST];
        grow(other, len);
        let mut used = 0;
        for (i, j) in self.parities().take(lost_count).enumerate() {
            let j = usize::from(j);
            used += 1;
            grow(&mut parity[i], len);
            horner(j, &mut parity[i][..len], data.chunks_exact(len).take(usize::from(self.k())));
            stores.read(self.drive(self.parity(j as u16)), self.at(), &mut other[..len])?;
            galois::add(&mut parity[i][..len], &other[..len]);
            for (column, d) in lost.iter().enumerate() {
                factors[i][column] = galois::factor(j, *d);
            }
        }
        let inverse = galois::invert(factors, lost_count).filter(|_| used == lost_count).ok_or(Trouble::LostData)?;
        for (d, row) in lost.iter().zip(inverse) {
            for (sum, factor) in parity.iter().zip(row).take(lost_count) {
                galois::add_times(&mut data[d * len..(d + 1) * len], factor, &sum[..len]);
            }
        }
        Ok(())
    }

    /// Returns a data unit from the scratch memory.
    pub fn gathered<'s>(&self, scratch: &'s ParityScratch, unit: u16) -> &'s [u8] {
        &scratch.data[usize::from(unit) * self.len..(usize::from(unit) + 1) * self.len]
    }

    /// Computes a parity of all gathered units.
    pub fn encode<'s>(&self, scratch: &'s mut ParityScratch, parity: u16) -> &'s [u8] {
        let (len, j) = (self.len, usize::from(parity));
        grow(&mut scratch.parity[j], len);
        let units = scratch.data.chunks_exact(len).take(usize::from(self.k()));
        horner(j, &mut scratch.parity[j][..len], units);
        &scratch.parity[j][..len]
    }

    /// Counts the good members' parities that do not match the data.
    pub fn wrong_parities(&self, stores: &Stores, scratch: &mut ParityScratch) -> Result<u64, Trouble> {
        self.gather(stores, scratch)?;
        let mut wrong = 0;
        for j in self.parities() {
            self.encode(scratch, j);
            grow(&mut scratch.other, self.len);
            let other = &mut scratch.other[..self.len];
            stores.read(self.drive(self.parity(j)), self.at(), other)?;
            wrong += u64::from(*other != scratch.parity[usize::from(j)][..self.len]);
        }
        Ok(wrong)
    }

    /// Writes the covered units, and the parities. If that fails, everything is restored, or the
    /// parities are recomputed from what is there. The flag of the error is true if that failed
    /// too.
    pub fn write(
        &self,
        stores: &mut Stores,
        scratch: &mut ParityScratch,
        cover: Cover<'_>,
    ) -> Result<(), (Trouble, bool)> {
        let intact = |why| (why, false);
        if self.too_many_lost() {
            return Err(intact(Trouble::LostData));
        }
        let degraded = self.any_data_lost();
        let alive = self.parities().count() as u16;
        let others = self.k() - cover.count();
        let covered_lost = degraded && (cover.first..=cover.last).any(|d| self.data_lost(d));
        let modify = !covered_lost && (degraded || cover.count() + alive <= others);
        if modify {
            self.modify(stores, scratch, cover).map_err(intact)?;
        } else {
            if degraded {
                self.gather(stores, scratch).map_err(intact)?;
            }
            self.reconstruct(stores, scratch, cover, degraded).map_err(intact)?;
        }
        // check now whether memory is full: zeros have no pages yet, which undoing may need
        let units = (cover.first..=cover.last).filter(|d| !self.data_lost(*d)).map(|d| self.data(d));
        let members = units.chain(self.parities().map(|j| self.parity(j)));
        if !stores.has_room(members.map(|member| self.drive(member)), self.at(), self.len as u64) {
            return Err(intact(Trouble::NoSpace));
        }
        if self.promises {
            self.promise(stores, scratch, cover).map_err(intact)?;
        }
        let mut written = [0; MOST];
        let put = self.put_all(stores, scratch, cover, &mut written);
        put.map_err(|why| {
            let undone = if !degraded {
                self.resync(stores, scratch, written)
            } else {
                if modify {
                    self.fold_changes(scratch, cover);
                }
                self.undo(stores, scratch, cover, modify, written)
            };
            (why, undone.is_err())
        })
    }

    /// Computes new parities from the old ones and the change of each covered unit, whose old bytes
    /// stay in the scratch.
    fn modify(&self, stores: &Stores, scratch: &mut ParityScratch, cover: Cover<'_>) -> Result<(), Trouble> {
        let len = self.len;
        grow(&mut scratch.data, usize::from(cover.count()) * len);
        for d in cover.first..=cover.last {
            let position = usize::from(d - cover.first) * len;
            stores.read(self.drive(self.data(d)), self.at(), &mut scratch.data[position..position + len])?;
        }
        for j in self.parities() {
            let parity = &mut scratch.parity[usize::from(j)];
            grow(parity, len);
            stores.read(self.drive(self.parity(j)), self.at(), &mut parity[..len])?;
        }
        self.fold_changes(scratch, cover);
        Ok(())
    }

    /// Adds the change of each covered unit to each parity. Doing it twice undoes it.
    fn fold_changes(&self, scratch: &mut ParityScratch, cover: Cover<'_>) {
        let len = self.len;
        let ParityScratch { data, parity, other } = scratch;
        grow(other, len);
        for d in cover.first..=cover.last {
            let position = usize::from(d - cover.first) * len;
            let change = &mut other[..len];
            change.copy_from_slice(&data[position..position + len]);
            if let WriteSource::Data(new) = cover.of(d, len) {
                galois::add(change, new);
            }
            for j in self.parities().map(usize::from) {
                galois::add_times(&mut parity[j][..len], galois::factor(j, usize::from(d)), change);
            }
        }
    }

    /// Computes new parities from the covered units and the others, which are read or, if some are
    /// lost, gathered already.
    fn reconstruct(
        &self,
        stores: &Stores,
        scratch: &mut ParityScratch,
        cover: Cover<'_>,
        gathered: bool,
    ) -> Result<(), Trouble> {
        let len = self.len;
        let ParityScratch { data, parity, other } = scratch;
        for j in self.parities().map(usize::from) {
            grow(&mut parity[j], len);
            parity[j][..len].fill(0);
        }
        grow(other, len);
        for d in (0..self.k()).rev() {
            let unit = if cover.has(d) {
                match cover.of(d, len) {
                    WriteSource::Data(new) => Some(new),
                    WriteSource::Zeros(..) => None,
                }
            } else if gathered {
                Some(&data[usize::from(d) * len..(usize::from(d) + 1) * len])
            } else {
                stores.read(self.drive(self.data(d)), self.at(), &mut other[..len])?;
                Some(&other[..len])
            };
            for j in self.parities().map(usize::from) {
                match unit {
                    Some(unit) => galois::step(j, &mut parity[j][..len], unit),
                    None => galois::step_zeros(j, &mut parity[j][..len]),
                }
            }
        }
        Ok(())
    }

    /// Journals everything that [`Self::write_parities_and_data`] writes.
    fn promise(&self, stores: &mut Stores, scratch: &ParityScratch, cover: Cover<'_>) -> Result<(), Trouble> {
        let parity = |j: u16| WriteSource::Data(&scratch.parity[usize::from(j)][..self.len]);
        let parities = self.parities().map(|j| (self.drive(self.parity(j)), self.at(), parity(j)));
        let units = (cover.first..=cover.last).filter(|d| !self.data_lost(*d));
        let data = units.map(|d| (self.drive(self.data(d)), self.at(), cover.of(d, self.len)));
        stores.promise(parities.chain(data))
    }

    /// Writes the parities, then the data. `written` receives the bytes written to each parity.
    fn put_all(
        &self,
        stores: &mut Stores,
        scratch: &ParityScratch,
        cover: Cover<'_>,
        written: &mut [usize; MOST],
    ) -> Result<(), Trouble> {
        for j in self.parities() {
            let parity = &scratch.parity[usize::from(j)][..self.len];
            let done = stores.write(self.drive(self.parity(j)), self.at(), parity);
            written[usize::from(j)] = done.as_ref().map_or_else(|short| short.done, |()| self.len);
            done?;
        }
        for d in (cover.first..=cover.last).filter(|d| !self.data_lost(*d)) {
            put(stores, self.drive(self.data(d)), self.at(), cover.of(d, self.len))?;
        }
        Ok(())
    }

    /// Recomputes the parities from the current data, as far as parities were written. Only wrong
    /// bytes are written: space for them exists even if the disk is full.
    pub fn resync(
        &self,
        stores: &mut Stores,
        scratch: &mut ParityScratch,
        written: [usize; MOST],
    ) -> Result<(), Trouble> {
        self.gather(stores, scratch)?;
        for j in self.parities().filter(|j| written[usize::from(*j)] > 0) {
            self.encode(scratch, j);
            let (drive, len) = (self.drive(self.parity(j)), written[usize::from(j)]);
            grow(&mut scratch.other, len);
            let (there, right) = (&mut scratch.other[..len], &scratch.parity[usize::from(j)][..len]);
            stores.read(drive, self.at(), there)?;
            let wrong = |index: &usize| there[*index] != right[*index];
            if let (Some(first), Some(last)) = ((0..len).find(wrong), (0..len).rfind(wrong)) {
                stores.write(drive, self.at() + first as u64, &right[first..=last])?;
            }
        }
        Ok(())
    }

    /// Restores old data and old parities. The old data are in the scratch: those of the covered
    /// units after `modify`, together with the parities; those of all units otherwise.
    fn undo(
        &self,
        stores: &mut Stores,
        scratch: &mut ParityScratch,
        cover: Cover<'_>,
        modified: bool,
        written: [usize; MOST],
    ) -> Result<(), Trouble> {
        for d in (cover.first..=cover.last).filter(|d| !self.data_lost(*d)) {
            let slot = if modified { d - cover.first } else { d };
            let (drive, old) = (self.drive(self.data(d)), self.gathered(scratch, slot));
            let mut there = vec![0; self.len];
            stores.read(drive, self.at(), &mut there)?;
            // only what was written: there may be no space for the rest
            let last = there.iter().zip(old).rposition(|(there, old)| there != old);
            stores.write(drive, self.at(), &old[..last.map_or(0, |last| last + 1)])?;
        }
        for j in self.parities() {
            if !modified {
                self.encode(scratch, j);
            }
            let parity = &scratch.parity[usize::from(j)][..written[usize::from(j)]];
            stores.write(self.drive(self.parity(j)), self.at(), parity)?;
        }
        Ok(())
    }

    /// Rewrites the units of these members: their data or parity from all gathered units.
    pub fn renew(&self, stores: &mut Stores, scratch: &mut ParityScratch, targets: MemberSet) -> Result<(), Trouble> {
        self.gather(stores, scratch)?;
        for d in (0..self.k()).filter(|d| targets.contains(self.data(*d))) {
            stores.write(self.drive(self.data(d)), self.at(), self.gathered(scratch, d))?;
        }
        for j in (0..self.array.parity_count()).filter(|j| targets.contains(self.parity(*j))) {
            self.encode(scratch, j);
            stores.write(self.drive(self.parity(j)), self.at(), &scratch.parity[usize::from(j)][..self.len])?;
        }
        Ok(())
    }

    /// Zeroes the range on these members.
    pub fn clear(&self, stores: &mut Stores, targets: MemberSet, bytes: u64) -> Result<(), Trouble> {
        targets.iter().try_for_each(|member| stores.zero(self.drive(member), self.at(), bytes, ZeroPolicy::GiveBack))
    }
}

/// Computes the sum of units with the factors of a parity, by Horner's rule.
fn horner<'u>(parity: usize, sum: &mut [u8], units: impl DoubleEndedIterator<Item = &'u [u8]>) {
    sum.fill(0);
    units.rev().for_each(|unit| galois::step(parity, sum, unit));
}

/// Extends a buffer to at least `len` bytes.
fn grow(buffer: &mut Vec<u8>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
}
