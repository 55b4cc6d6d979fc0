//! Levels without parity: every byte has one or more copies.

use diskwright_simulator::array::MemberSet;

use super::{ArrayContent, BytePiece, CHUNK_BYTES, WriteSource};
use crate::content::error::{AccessError, ShortWrite};
use crate::content::store::{Stores, ZeroPolicy};

/// A range of zeros on a member that may still be extended by the next piece.
#[derive(Clone, Copy)]
pub(super) struct ZeroRun {
    from: u64,
    to: u64,
}

impl ZeroRun {
    fn write_zeros(self, stores: &mut Stores, drive: usize, policy: ZeroPolicy) -> Result<(), AccessError> {
        stores.write_zeros(drive, self.from, self.to - self.from, policy)
    }
}

impl ArrayContent {
    /// Reads a piece from a good copy that is not to be avoided.
    pub(super) fn read_copy(
        &self,
        stores: &Stores,
        offset: u64,
        into: &mut [u8],
        avoid: MemberSet,
    ) -> Result<(), AccessError> {
        for copy in 0..self.array.copy_count() {
            let piece = self.copy_piece(offset, into.len() as u64, copy)?;
            if self.good_up_to(piece) == piece.bytes && !avoid.contains(piece.member) {
                return stores.read(self.drives[usize::from(piece.member)], piece.from, into);
            }
        }
        Err(AccessError::LostData)
    }

    /// Returns how many bytes of a piece are good on its member.
    pub(super) fn good_up_to(&self, piece: BytePiece) -> u64 {
        self.good_bytes[usize::from(piece.member)].saturating_sub(piece.from).min(piece.bytes)
    }

    pub(super) fn write_copies(
        &mut self,
        stores: &mut Stores,
        from: u64,
        source: WriteSource<'_>,
    ) -> Result<(), AccessError> {
        let (mut offset, end) = (from, from + source.byte_count());
        if let WriteSource::Zeros(_, policy) = source
            && self.all_good
        {
            return self
                .zero_copies(stores, offset, end, policy)
                .inspect_err(|_| self.repair_copies_in_range(stores, from, end));
        }
        while offset < end {
            let first = self.first_copy_piece(offset, end - offset)?;
            let part = source.subrange(offset - from, first.bytes);
            if self.all_good && self.array.copy_count() == 1 {
                write_source(stores, self.drives[usize::from(first.member)], first.from, part)?;
            } else {
                self.write_piece(stores, offset, part)?;
            }
            offset += first.bytes;
        }
        Ok(())
    }

    /// Writes all copies of a piece: first the completely good ones, then the good part of those
    /// being rebuilt.
    fn write_piece(&mut self, stores: &mut Stores, offset: u64, source: WriteSource<'_>) -> Result<(), AccessError> {
        let copies = self.array.copy_count();
        let mut complete_copies = 0;
        for copy in 0..copies {
            let piece = self.copy_piece(offset, source.byte_count(), copy)?;
            if self.good_up_to(piece) < piece.bytes {
                continue;
            }
            complete_copies += 1;
            if let Err(short) = write_source(stores, self.drives[usize::from(piece.member)], piece.from, source) {
                self.repair_copies(stores, offset, source.byte_count(), copy, short.written_bytes as u64);
                return Err(short.reason);
            }
        }
        if complete_copies == 0 {
            return Err(AccessError::LostData);
        }
        if complete_copies == copies {
            return Ok(());
        }
        for copy in 0..copies {
            let piece = self.copy_piece(offset, source.byte_count(), copy)?;
            let good = self.good_up_to(piece);
            if good > 0 && good < piece.bytes {
                let written =
                    write_source(stores, self.drives[usize::from(piece.member)], piece.from, source.subrange(0, good));
                // the rebuild will write this part again
                written.inspect_err(|_| self.invalidate_from(piece))?;
            }
        }
        Ok(())
    }

    /// Marks a member that is being rebuilt as good only up to this piece.
    fn invalidate_from(&mut self, piece: BytePiece) {
        let good = &mut self.good_bytes[usize::from(piece.member)];
        *good = (*good).min(piece.from);
    }

    /// Makes the copies agree again, old or new, after a write of all copies that failed in copy
    /// `failed` after `done` bytes. Space for everything written is allocated already, so that it
    /// can be written again.
    fn repair_copies(&mut self, stores: &mut Stores, offset: u64, bytes: u64, failed: u16, done: u64) {
        let mut pieces = Vec::new();
        for copy in 0..self.array.copy_count() {
            let Ok(piece) = self.copy_piece(offset, bytes, copy) else { continue };
            if self.good_up_to(piece) == bytes {
                pieces.push((copy, piece));
            } else {
                self.invalidate_from(piece);
            }
        }
        // copies before:       new new new new
        // copy `failed`:       new new|old old      `done` is at the bar
        // copies after it:     old old old old
        //
        // up to `done` the next copy has the old bytes; without one, all copies have the new bytes there. After `done`
        // the failed copy itself has the old bytes
        let old_before = pieces.iter().find(|(copy, _)| *copy > failed).map(|(_, piece)| *piece);
        let old_after = pieces.iter().find(|(copy, _)| *copy == failed).map(|(_, piece)| *piece);
        let written: Vec<BytePiece> =
            pieces.iter().filter(|(copy, _)| *copy <= failed).map(|(_, piece)| *piece).collect();
        if let Some(old) = old_before {
            self.copy_to_others(stores, old, &written, 0, done);
        }
        if let Some(old) = old_after {
            self.copy_to_others(stores, old, &written, done, bytes);
        }
    }

    /// Makes all copies in a range equal to the last good one.
    pub(super) fn repair_copies_in_range(&mut self, stores: &mut Stores, from: u64, end: u64) {
        let mut offset = from;
        while offset < end {
            let Ok(BytePiece { bytes, .. }) = self.first_copy_piece(offset, end - offset) else { return };
            let copies = (0..self.array.copy_count()).filter_map(|copy| self.copy_piece(offset, bytes, copy).ok());
            let is_readable = |piece: &BytePiece| self.good_up_to(*piece) == bytes;
            let (mut pieces, parts): (Vec<_>, Vec<_>) = copies.partition(is_readable);
            parts.into_iter().for_each(|piece| self.invalidate_from(piece));
            if let Some(last) = pieces.pop() {
                self.copy_to_others(stores, last, &pieces, 0, bytes);
            }
            offset += bytes;
        }
    }

    /// Copies bytes `from` to `to` of one piece to the others.
    fn copy_to_others(&self, stores: &mut Stores, source_piece: BytePiece, targets: &[BytePiece], from: u64, to: u64) {
        let drive = |piece: &BytePiece| self.drives[usize::from(piece.member)];
        let (mut offset, mut data) = (from, Vec::new());
        while offset < to {
            let Ok(extent) = stores.extent_at(drive(&source_piece), source_piece.from + offset, to - offset) else {
                return;
            };
            let bytes = if extent.is_hole { extent.bytes } else { extent.bytes.min(CHUNK_BYTES) };
            data.resize(if extent.is_hole { 0 } else { bytes as usize }, 0);
            if stores.read(drive(&source_piece), source_piece.from + offset, &mut data).is_err() {
                // what cannot be read cannot be copied; the rest of the range still can
                offset += bytes;
                continue;
            }
            for piece in targets {
                let write = if extent.is_hole {
                    WriteSource::Zeros(bytes, ZeroPolicy::Deallocate)
                } else {
                    WriteSource::Data(&data)
                };
                // if that fails nothing more can be done: reads use the first copy as before
                let _ = write_source(stores, drive(piece), piece.from + offset, write);
            }
            offset += bytes;
        }
    }

    /// Writes zeros to all copies, in as few ranges per member as possible.
    fn zero_copies(&mut self, stores: &mut Stores, from: u64, end: u64, policy: ZeroPolicy) -> Result<(), AccessError> {
        let mut runs: Vec<Option<ZeroRun>> = vec![None; self.drives.len()];
        for copy in 0..self.array.copy_count() {
            let mut offset = from;
            while offset < end {
                let BytePiece { member, from, bytes } = self.copy_piece(offset, end - offset, copy)?;
                offset += bytes;
                let member = usize::from(member);
                if let Some(run) = &mut runs[member]
                    && run.to == from
                {
                    run.to += bytes;
                    continue;
                }
                if let Some(finished) = runs[member].replace(ZeroRun { from, to: from + bytes }) {
                    finished.write_zeros(stores, self.drives[member], policy)?;
                }
            }
        }
        for (member, run) in runs.into_iter().enumerate() {
            if let Some(run) = run {
                run.write_zeros(stores, self.drives[member], policy)?;
            }
        }
        Ok(())
    }
}

/// Writes data or zeros to a range of a store.
#[inline]
pub(super) fn write_source(
    stores: &mut Stores,
    drive: usize,
    from: u64,
    source: WriteSource<'_>,
) -> Result<(), ShortWrite> {
    match source {
        WriteSource::Data(data) => stores.write(drive, from, data),
        WriteSource::Zeros(bytes, policy) => {
            stores.write_zeros(drive, from, bytes, policy).map_err(|reason| ShortWrite { written_bytes: 0, reason })
        }
    }
}
