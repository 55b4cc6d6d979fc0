//! Changes that commands made to drives, and the requests that they affect.

use diskwright_base::Rng;
use diskwright_simulator::array::{ArrayGeometry, MemberSet};
use diskwright_simulator::{BLOCK_BYTES, Io};

use super::control::FailureScope;

/// Differences of a drive from its description.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveChange {
    /// Factor by which everything takes longer.
    pub factor: f64,
    /// It completes no requests.
    pub hangs: bool,
    /// Share of its reads that fail, 0 to 1.
    pub failing_reads: f64,
    /// Share of its writes that fail, 0 to 1.
    pub failing_writes: f64,
}

impl Default for DriveChange {
    fn default() -> DriveChange {
        DriveChange { factor: 1.0, hangs: false, failing_reads: 0.0, failing_writes: 0.0 }
    }
}

/// Changes of all drives.
pub struct DriveChanges {
    drives: Vec<DriveChange>,
    rng: Rng,
    /// Some drive's requests fail: otherwise requests need no check.
    any_fails: bool,
}

impl DriveChanges {
    /// Creates the record of drives that all behave as described; `seed` decides which requests
    /// fail later.
    pub fn new(drives: usize, seed: u64) -> DriveChanges {
        DriveChanges { drives: vec![DriveChange::default(); drives], rng: Rng::new(seed, 1 << 40), any_fails: false }
    }

    /// Returns the changes of a drive.
    pub fn drive_mut(&mut self, drive: u32) -> Option<&mut DriveChange> {
        self.drives.get_mut(drive as usize)
    }

    /// Resets a drive: a new drive in its place behaves as described.
    pub fn reset_drive(&mut self, drive: u32) {
        if let Some(change) = self.drive_mut(drive) {
            *change = DriveChange::default();
        }
        self.update_any_fails();
    }

    /// Makes a share of a drive's requests fail.
    pub fn set_failures(&mut self, drive: u32, share: f64, scope: FailureScope) {
        if let Some(change) = self.drive_mut(drive) {
            if scope != FailureScope::Writes {
                change.failing_reads = share;
            }
            if scope != FailureScope::Reads {
                change.failing_writes = share;
            }
        }
        self.update_any_fails();
    }

    fn update_any_fails(&mut self) {
        self.any_fails = self.drives.iter().any(|change| change.failing_reads > 0.0 || change.failing_writes > 0.0);
    }

    /// Returns true if all of a drive's requests fail.
    pub fn has_failed(&self, drive: u32) -> bool {
        let fails = |change: &DriveChange| change.failing_reads >= 1.0 && change.failing_writes >= 1.0;
        self.drives.get(drive as usize).is_some_and(fails)
    }

    /// Returns the drives that differ from their description.
    pub fn changed_drives(&self) -> impl Iterator<Item = (u32, &DriveChange)> {
        let numbered = (0..).zip(&self.drives);
        numbered.filter(|(_, change)| **change != DriveChange::default())
    }

    /// Returns true if any drive's requests are to fail.
    pub fn any_fails(&self) -> bool {
        self.any_fails
    }

    /// Decides whether a request of a drive fails.
    pub fn request_fails(&mut self, drive: u32, write: bool) -> bool {
        if !self.any_fails {
            return false;
        }
        let Some(change) = self.drives.get(drive as usize) else { return false };
        let share = if write { change.failing_writes } else { change.failing_reads };
        share > 0.0 && self.rng.next_bool(share)
    }

    /// Returns the members of an array on which a request fails. Reads are assumed to go to the
    /// first copy, writes to all copies and to the parities of their rows.
    pub fn failing_members(&mut self, array: &ArrayGeometry, drives: &[u32], io: &Io) -> MemberSet {
        let mut failing = MemberSet::NONE;
        if !self.any_fails {
            return failing;
        }
        let copies = if io.write { array.copy_count() } else { 1 };
        for copy in 0..copies {
            let mut block = io.first;
            while let Some(piece) =
                array.map_block(block, io.end().saturating_sub(block), copy).filter(|p| p.blocks > 0)
            {
                let drive = drives.get(usize::from(piece.member));
                if drive.is_some_and(|drive| self.request_fails(*drive, io.write)) {
                    failing = failing.with_member(piece.member);
                }
                block += piece.blocks;
            }
        }
        if io.write && io.blocks > 0 && array.parity_count() > 0 {
            let row_blocks = array.row_blocks();
            for row in io.first / row_blocks..io.end().div_ceil(row_blocks) {
                for member in (0..array.parity_count()).filter_map(|parity| array.parity_member(row, parity)) {
                    if drives.get(usize::from(member)).is_some_and(|drive| self.request_fails(*drive, true)) {
                        failing = failing.with_member(member);
                    }
                }
            }
        }
        failing
    }
}

/// Returns the blocks that a range of bytes touches.
pub fn to_block_range(offset: u64, bytes: u64, write: bool) -> Io {
    let first = offset / BLOCK_BYTES;
    let end = offset.saturating_add(bytes).div_ceil(BLOCK_BYTES);
    Io { first, blocks: u32::try_from(end - first).unwrap_or(u32::MAX), write }
}

#[cfg(test)]
mod tests {
    use diskwright_simulator::array::{ArrayDescription, ArrayLevel};

    use super::*;

    #[test]
    fn only_requests_on_a_failing_member_fail() {
        let array = ArrayGeometry::new(&ArrayDescription::new(ArrayLevel::Raid0, 4, 1 << 12, 128)).expect("valid");
        let drives = [7, 8, 9, 10];
        let mut changes = DriveChanges::new(11, 1);
        assert_eq!(changes.failing_members(&array, &drives, &Io::read(0, 4096)), MemberSet::NONE);
        changes.set_failures(9, 1.0, FailureScope::Reads);
        assert_eq!(changes.failing_members(&array, &drives, &Io::read(0, 256)), MemberSet::NONE);
        assert_eq!(changes.failing_members(&array, &drives, &Io::read(0, 257)), MemberSet::NONE.with_member(2));
        assert_eq!(changes.failing_members(&array, &drives, &Io::write(0, 257)), MemberSet::NONE);
        changes.set_failures(9, 0.5, FailureScope::All);
        let hits = (0..1000).filter(|_| changes.request_fails(9, true)).count();
        assert!((400..600).contains(&hits), "{hits}");
        assert_eq!(changes.changed_drives().count(), 1);
        changes.reset_drive(9);
        assert_eq!(changes.changed_drives().count(), 0);
    }

    #[test]
    fn a_write_fails_on_the_members_of_its_parity_too() {
        let array = ArrayGeometry::new(&ArrayDescription::new(ArrayLevel::Raid5, 3, 1 << 12, 128)).expect("valid");
        let parity = array.parity_member(0, 0).expect("there");
        let data = array.map_block(0, 8, 0).expect("there").member;
        let drives = [4, 5, 6];
        let mut changes = DriveChanges::new(7, 1);
        changes.set_failures(drives[usize::from(parity)], 1.0, FailureScope::All);
        assert_ne!(parity, data);
        assert_eq!(changes.failing_members(&array, &drives, &Io::read(0, 8)), MemberSet::NONE);
        assert_eq!(changes.failing_members(&array, &drives, &Io::write(0, 8)), MemberSet::NONE.with_member(parity));
        // in the next row this member holds data that the write does not touch
        let next = array.parity_member(1, 0).expect("there");
        let io = Io::write(256, 8);
        let touched = array.map_block(256, 8, 0).expect("there").member;
        let expected =
            if touched == parity || next == parity { MemberSet::NONE.with_member(parity) } else { MemberSet::NONE };
        assert_eq!(changes.failing_members(&array, &drives, &io), expected);
    }

    #[test]
    fn converts_bytes_to_blocks() {
        assert_eq!(to_block_range(0, 512, false), Io::read(0, 1));
        assert_eq!(to_block_range(511, 2, true), Io::write(0, 2));
        assert_eq!(to_block_range(u64::MAX - 1, 1 << 40, true).blocks, 1);
    }
}
