//! Levels without parity: every byte has one or more copies.

use diskwright_simulator::array::MemberSet;

use super::{ArrayContent, BytePiece, CHUNK, WriteSource};
use crate::content::store::{Stores, ZeroPolicy};
use crate::content::trouble::{ShortWrite, Trouble};

/// A range of zeros on a member that may still be extended by the next piece.
#[derive(Clone, Copy)]
pub(super) struct ZeroRun {
    from: u64,
    to: u64,
}

impl ArrayContent {
    /// Reads a piece from a good copy that is not to be avoided.
    pub(super) fn read_copy(
        &self,
        stores: &Stores,
        offset: u64,
        into: &mut [u8],
        avoid: MemberSet,
    ) -> Result<(), Trouble> {
        for copy in 0..self.array.copy_count() {
            let piece = self.copy(offset, into.len() as u64, copy)?;
            if self.good_up_to(piece) == piece.bytes && !avoid.contains(piece.member) {
                return stores.read(self.drives[usize::from(piece.member)], piece.from, into);
            }
        }
        Err(Trouble::LostData)
    }

    /// Returns how many bytes of a piece are good on its member.
    pub(super) fn good_up_to(&self, piece: BytePiece) -> u64 {
        self.good[usize::from(piece.member)].saturating_sub(piece.from).min(piece.bytes)
    }

    pub(super) fn write_copies(
        &mut self,
        stores: &mut Stores,
        from: u64,
        source: WriteSource<'_>,
    ) -> Result<(), Trouble> {
        let (mut offset, end) = (from, from + source.bytes());
        if let WriteSource::Zeros(_, policy) = source
            && self.well
        {
            return self.zero_copies(stores, offset, end, policy).inspect_err(|_| self.agree_all(stores, from, end));
        }
        while offset < end {
            let first = self.piece(offset, end - offset)?;
            let part = source.part(offset - from, first.bytes);
            if self.well && self.array.copy_count() == 1 {
                put(stores, self.drives[usize::from(first.member)], first.from, part)?;
            } else {
                self.write_piece(stores, offset, part)?;
            }
            offset += first.bytes;
        }
        Ok(())
    }

    /// Writes all copies of a piece: first the completely good ones, then the good part of those
    /// being rebuilt.
    fn write_piece(&mut self, stores: &mut Stores, offset: u64, source: WriteSource<'_>) -> Result<(), Trouble> {
        let copies = self.array.copy_count();
        let mut whole = 0;
        for copy in 0..copies {
            let piece = self.copy(offset, source.bytes(), copy)?;
            if self.good_up_to(piece) < piece.bytes {
                continue;
            }
            whole += 1;
            if let Err(short) = put(stores, self.drives[usize::from(piece.member)], piece.from, source) {
                self.agree(stores, offset, source.bytes(), copy, short.done as u64);
                return Err(short.why);
            }
        }
        if whole == 0 {
            return Err(Trouble::LostData);
        }
        if whole == copies {
            return Ok(());
        }
        for copy in 0..copies {
            let piece = self.copy(offset, source.bytes(), copy)?;
            let good = self.good_up_to(piece);
            if good > 0 && good < piece.bytes {
                let written = put(stores, self.drives[usize::from(piece.member)], piece.from, source.part(0, good));
                // the rebuild will write this part again
                written.inspect_err(|_| self.distrust(piece))?;
            }
        }
        Ok(())
    }

    /// Marks a member that is being rebuilt as good only up to this piece.
    fn distrust(&mut self, piece: BytePiece) {
        let good = &mut self.good[usize::from(piece.member)];
        *good = (*good).min(piece.from);
    }

    /// Makes the copies agree again, old or new, after a write of all copies that failed in copy
    /// `failed` after `done` bytes. Space for everything written is allocated already, so that it
    /// can be written again.
    fn agree(&mut self, stores: &mut Stores, offset: u64, bytes: u64, failed: u16, done: u64) {
        let mut pieces = Vec::new();
        for copy in 0..self.array.copy_count() {
            let Ok(piece) = self.copy(offset, bytes, copy) else { continue };
            if self.good_up_to(piece) == bytes {
                pieces.push((copy, piece));
            } else {
                self.distrust(piece);
            }
        }
        // after `done` the old bytes are still on the copy that failed; before it, on the next
        let old_after = pieces.iter().find(|(copy, _)| *copy == failed).map(|(_, piece)| *piece);
        let old_before = pieces.iter().find(|(copy, _)| *copy > failed).map(|(_, piece)| *piece);
        for (old, from, to) in [(old_before, 0, done), (old_after, done, bytes)] {
            let others = pieces.iter().filter(|(copy, _)| *copy <= failed).map(|(_, piece)| *piece);
            if let Some(old) = old {
                self.spread(stores, old, &others.collect::<Vec<_>>(), from, to);
            }
        }
    }

    /// Makes all copies in a range equal to the last good one.
    pub(super) fn agree_all(&mut self, stores: &mut Stores, from: u64, end: u64) {
        let mut offset = from;
        while offset < end {
            let Ok(BytePiece { bytes, .. }) = self.piece(offset, end - offset) else { return };
            let copies = (0..self.array.copy_count()).filter_map(|copy| self.copy(offset, bytes, copy).ok());
            let whole = |piece: &BytePiece| self.good_up_to(*piece) == bytes;
            let (mut pieces, parts): (Vec<_>, Vec<_>) = copies.partition(whole);
            parts.into_iter().for_each(|piece| self.distrust(piece));
            if let Some(last) = pieces.pop() {
                self.spread(stores, last, &pieces, 0, bytes);
            }
            offset += bytes;
        }
    }

    /// Copies bytes `from` to `to` of one piece to the others.
    fn spread(&self, stores: &mut Stores, source_piece: BytePiece, targets: &[BytePiece], from: u64, to: u64) {
        let drive = |piece: &BytePiece| self.drives[usize::from(piece.member)];
        let (mut offset, mut data) = (from, Vec::new());
        while offset < to {
            let Ok(extent) = stores.extent(drive(&source_piece), source_piece.from + offset, to - offset) else {
                return;
            };
            let bytes = if extent.hole { extent.bytes } else { extent.bytes.min(CHUNK) };
            data.resize(if extent.hole { 0 } else { bytes as usize }, 0);
            let read = stores.read(drive(&source_piece), source_piece.from + offset, &mut data);
            for piece in targets.iter().filter(|_| read.is_ok()) {
                let write = if extent.hole {
                    WriteSource::Zeros(bytes, ZeroPolicy::GiveBack)
                } else {
                    WriteSource::Data(&data)
                };
                let again = put(stores, drive(piece), piece.from + offset, write);
                // if that fails nothing more can be done: reads use the first copy as before
                drop(again);
            }
            offset += bytes;
        }
    }

    /// Writes zeros to all copies, in as few ranges per member as possible.
    fn zero_copies(&mut self, stores: &mut Stores, from: u64, end: u64, policy: ZeroPolicy) -> Result<(), Trouble> {
        let mut runs: Vec<Option<ZeroRun>> = vec![None; self.drives.len()];
        for copy in 0..self.array.copy_count() {
            let mut offset = from;
            while offset < end {
                let BytePiece { member, from, bytes } = self.copy(offset, end - offset, copy)?;
                offset += bytes;
                let member = usize::from(member);
                match &mut runs[member] {
                    Some(run) if run.to == from => run.to += bytes,
                    run => {
                        let before = run.replace(ZeroRun { from, to: from + bytes });
                        if let Some(ZeroRun { from, to }) = before {
                            stores.zero(self.drives[member], from, to - from, policy)?;
                        }
                    }
                }
            }
        }
        for (member, run) in runs.into_iter().enumerate() {
            if let Some(ZeroRun { from, to }) = run {
                stores.zero(self.drives[member], from, to - from, policy)?;
            }
        }
        Ok(())
    }
}

/// Writes data or zeros to a range of a store.
#[inline]
pub(super) fn put(stores: &mut Stores, drive: usize, from: u64, source: WriteSource<'_>) -> Result<(), ShortWrite> {
    match source {
        WriteSource::Data(data) => stores.write(drive, from, data),
        WriteSource::Zeros(bytes, policy) => {
            stores.zero(drive, from, bytes, policy).map_err(|why| ShortWrite { done: 0, why })
        }
    }
}
