//! Content of the virtual disk: the bytes of every drive, in memory or in a file, and arrays on
//! them with real copies and real parity.
//!
//! ```text
//! Content -> array (copies, or parity by rows) -> store (one drive's bytes) -> memory or file
//!         \-> a drive by itself ----------------/
//! ```
//!
//! Nothing here knows about time: the server replies when the simulation says so.

mod array;
mod error;
pub mod gf256;
mod ledger;
mod ownership;
mod store;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use diskwright_simulator::BLOCK_BYTES;
use diskwright_simulator::array::{ArrayLevel, MemberSet};
use diskwright_simulator::system::{ArraySpec, System, WorkloadTarget};
use rustix::io::Errno;

use array::ArrayContent;
pub use error::{AccessError, ContentError};
use ledger::{ArrayLedger, ArrayShape, INTENT_BYTES, LedgerEntry, NO_INTENT};
pub use store::ContentExtent;
use store::{FileStore, MemoryStore, Stores, WriteSource, ZeroPolicy};

/// Storage of the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentBacking {
    /// In memory, allocated as it is written; lost when the program exits.
    Memory {
        /// Largest memory, bytes; no limit if `None`.
        max_bytes: Option<u64>,
    },
    /// In a sparse file, created if missing.
    File(PathBuf),
}

/// The content of a system's drives and arrays.
pub struct Content {
    stores: Stores,
    /// Size of each drive, bytes; `None` for those that belong to an array.
    drives: Vec<Option<u64>>,
    arrays: Vec<ArrayContent>,
    /// Shapes of the arrays.
    shapes: Vec<ArrayShape>,
    /// Size of the ledger in a file, bytes.
    ledger_bytes: u64,
    /// Error number of the first flush of the file that failed.
    sync_error: Arc<Mutex<Option<i32>>>,
}

/// Handle to flush the backing file from another thread.
#[derive(Clone, Debug)]
pub struct FlushHandle {
    file: Option<Arc<File>>,
    /// Shared by all handles.
    error: Arc<Mutex<Option<i32>>>,
}

impl FlushHandle {
    /// Waits until everything written before is on the backing disk. After a failure it never
    /// succeeds again.
    pub fn wait_for_flush(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| self.sync_once(|| file.sync_data()))
    }

    /// Flushes, unless a flush has failed before. The kernel reports a failure once and marks the
    /// pages that it could not write as clean: the next flush would succeed although the data are
    /// lost.
    fn sync_once(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        // kept locked: of two concurrent flushes, only one would see the error
        let mut failed = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = *failed {
            return Err(io::Error::from_raw_os_error(number));
        }
        sync().inspect_err(|error| *failed = Some(error.raw_os_error().unwrap_or(Errno::IO.raw_os_error())))
    }

    /// Returns whether there is anything to wait for.
    pub fn is_needed(&self) -> bool {
        self.file.is_some()
    }
}

impl Content {
    /// Creates the content of all drives and arrays of a system: zeros, or the content of an
    /// existing file. Members that the system marks as failed have failed.
    pub fn new(system: &System, backing: &ContentBacking) -> Result<Content, ContentError> {
        let count = system.drive_count();
        let sizes: Vec<u64> = (0..count).map(|drive| drive_bytes(system, drive)).collect();
        let mut drives: Vec<Option<u64>> = sizes.iter().copied().map(Some).collect();
        let mut arrays = Vec::new();
        for set in &system.arrays {
            arrays.push(build_array(system, set, &sizes, &mut drives)?);
            for spare in &set.spares {
                claim_drive(system, set, *spare, &mut drives)?;
            }
        }
        let (ledger, mut existed) = (ArrayLedger::required_bytes(&system.arrays), false);
        let stores = match backing {
            ContentBacking::Memory { max_bytes } => Stores::Memory(MemoryStore::new(&sizes, *max_bytes)?),
            ContentBacking::File(path) => {
                ownership::check_backing_file(path, ledger > 0)?;
                let (file, found) = FileStore::open(path, &sizes, ledger)?;
                ownership::mark_as_content(&file.file_handle());
                existed = found;
                Stores::File(file)
            }
        };
        let shapes = system.arrays.iter().map(ArrayShape::from_array).collect();
        let mut content = Content { stores, drives, arrays, shapes, ledger_bytes: ledger, sync_error: Arc::default() };
        match backing {
            ContentBacking::File(path) if existed => content.resume_arrays(system, path)?,
            _ => {
                for (index, set) in system.arrays.iter().enumerate() {
                    let failed = set.failed.iter().try_for_each(|member| content.fail_member(index, *member));
                    failed.map_err(|reason| ContentError::InitialState { array: set.name.clone(), reason })?;
                }
            }
        }
        if let ContentBacking::File(path) = backing {
            match content.save_states().and_then(|()| content.write_intent(&[0; INTENT_BYTES as usize])) {
                // keep the existing ledger: the next start repairs the write in progress once more
                Err(reason) if existed && error::is_full(&reason) => {}
                kept => kept.map_err(|reason| {
                    let operation = "the array metadata cannot be written";
                    ContentError::File { path: path.clone(), operation, reason }
                })?,
            }
        }
        Ok(content)
    }

    /// Restores arrays from the file's ledger, and repairs the write that was in progress.
    fn resume_arrays(&mut self, system: &System, path: &Path) -> Result<(), ContentError> {
        let Stores::File(file) = &mut self.stores else { return Ok(()) };
        if self.ledger_bytes == 0 {
            return Ok(());
        }
        let error = |reason| ContentError::File {
            path: path.to_owned(),
            operation: "the array metadata cannot be read",
            reason,
        };
        file.replay_journal().map_err(error)?;
        let (mut intent, mut text) = (NO_INTENT, vec![0; (self.ledger_bytes - INTENT_BYTES) as usize]);
        file.read_ledger(0, &mut intent).map_err(error)?;
        file.read_ledger(INTENT_BYTES, &mut text).map_err(error)?;
        let other_arrays = |difference| ContentError::OtherArrays { path: path.to_owned(), difference };
        let ledger = ArrayLedger::read(&text, &self.shapes).map_err(other_arrays)?;
        for (array, entry) in self.arrays.iter_mut().zip(&ledger.arrays) {
            array.set_member_states(&entry.state);
        }
        if let Some((index, bytes)) = ledger::decode_intent(&intent)
            && let Some(array) = self.arrays.get_mut(index)
        {
            let repaired = array.repair_interrupted_write(&mut self.stores, bytes);
            repaired
                .map_err(|reason| ContentError::InitialState { array: system.arrays[index].name.clone(), reason })?;
        }
        Ok(())
    }

    /// Records the write in progress, or that there is none, in a file with arrays.
    fn write_intent(&self, intent: &[u8]) -> io::Result<()> {
        match &self.stores {
            Stores::File(file) if self.ledger_bytes > 0 => file.write_ledger(0, intent),
            _ => Ok(()),
        }
    }

    /// Writes the arrays' states to a file when it is opened; a crash may leave them half written.
    fn save_states(&mut self) -> io::Result<()> {
        let text = self.encode_states()?;
        match &mut self.stores {
            Stores::File(file) if self.ledger_bytes > 0 => file.write_ledger(INTENT_BYTES, &text),
            _ => Ok(()),
        }
    }

    /// Writes the arrays' states to a file so that a crash leaves the old or the new ones, never a mixture.
    fn save_states_atomically(&mut self) -> io::Result<()> {
        let text = self.encode_states()?;
        match &mut self.stores {
            Stores::File(file) if self.ledger_bytes > 0 => file.write_ledger_whole(INTENT_BYTES, &text),
            _ => Ok(()),
        }
    }

    /// Encodes the arrays' states in the size of the ledger; empty without one.
    fn encode_states(&self) -> io::Result<Vec<u8>> {
        if !matches!(self.stores, Stores::File(_)) || self.ledger_bytes == 0 {
            return Ok(Vec::new());
        }
        let entry = |(shape, array): (&ArrayShape, &ArrayContent)| LedgerEntry {
            shape: shape.clone(),
            state: array.member_states(),
        };
        let ledger = ArrayLedger::new(self.shapes.iter().zip(&self.arrays).map(entry).collect());
        Ok(ledger.to_padded_json(self.ledger_bytes - INTENT_BYTES).ok_or(io::ErrorKind::FileTooLarge)?)
    }

    /// Returns the size of an array or a drive, bytes; 0 if it cannot be used by itself.
    pub fn target_bytes(&self, target: WorkloadTarget) -> u64 {
        match target {
            WorkloadTarget::Drive(drive) => self.drives.get(drive as usize).copied().flatten().unwrap_or(0),
            WorkloadTarget::Array(array) => self.arrays.get(array).map_or(0, ArrayContent::user_bytes),
        }
    }

    /// Returns the memory that the content uses, bytes; `None` for a file.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.stores.memory_bytes()
    }

    /// Reads bytes.
    #[inline]
    pub fn read(&mut self, target: WorkloadTarget, from: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.read_avoiding(target, from, into, MemberSet::NONE)
    }

    /// Reads as if these members of an array could not be read: their data come from the others. A
    /// standalone drive avoids nothing.
    #[inline]
    pub fn read_avoiding(
        &mut self,
        target: WorkloadTarget,
        from: u64,
        into: &mut [u8],
        avoid: MemberSet,
    ) -> Result<(), AccessError> {
        self.check_range(target, from, into.len() as u64)?;
        match target {
            WorkloadTarget::Drive(drive) => self.stores.read(drive as usize, from, into),
            WorkloadTarget::Array(array) => self.arrays[array].read(&self.stores, from, into, avoid),
        }
    }

    /// Writes bytes. After an error, each byte of the range is either old or new, and copies and
    /// parities agree with what is there.
    #[inline]
    pub fn write(&mut self, target: WorkloadTarget, from: u64, data: &[u8]) -> Result<(), AccessError> {
        self.write_source(target, from, WriteSource::Data(data))
    }

    /// Writes zeros, and allocates space for them in a file, so that they can be overwritten later.
    /// In memory they need none.
    pub fn write_zeros(&mut self, target: WorkloadTarget, from: u64, bytes: u64) -> Result<(), AccessError> {
        self.write_source(target, from, WriteSource::Zeros(bytes, ZeroPolicy::Allocate))
    }

    /// Trims a range: it reads as zeros, and its space is deallocated.
    pub fn trim(&mut self, target: WorkloadTarget, from: u64, bytes: u64) -> Result<(), AccessError> {
        self.write_source(target, from, WriteSource::Zeros(bytes, ZeroPolicy::Deallocate))
    }

    fn write_source(&mut self, target: WorkloadTarget, from: u64, source: WriteSource<'_>) -> Result<(), AccessError> {
        self.check_range(target, from, source.byte_count())?;
        match (target, source) {
            (WorkloadTarget::Array(array), _) => self.write_array(array, from, source),
            (WorkloadTarget::Drive(drive), WriteSource::Data(data)) => {
                Ok(self.stores.write(drive as usize, from, data)?)
            }
            (WorkloadTarget::Drive(drive), WriteSource::Zeros(bytes, policy)) => {
                self.stores.write_zeros(drive as usize, from, bytes, policy)
            }
        }
    }

    fn write_array(&mut self, index: usize, from: u64, source: WriteSource<'_>) -> Result<(), AccessError> {
        // with a member lost, parities and data are journaled row by row: nothing must be repaired
        let is_journaled = self.arrays[index].journals_writes();
        if !is_journaled {
            self.write_intent(&ledger::encode_intent(index, from..from + source.byte_count()))?;
        }
        let array = &mut self.arrays[index];
        let written = array.write(&mut self.stores, from, source);
        let all_members_good = array.has_all_members_good();
        if written.is_err() {
            self.save_states_atomically()?;
        }
        // with all members good a stale intent may stay: its repair would change nothing, and the next write replaces
        // it. With a member of a mirror lost, that repair could take back what has been rebuilt meanwhile
        if !all_members_good && !is_journaled {
            self.write_intent(&NO_INTENT)?;
        }
        written
    }

    /// Returns the extent that begins at `from`, at most `bytes` long: a hole if nothing is
    /// allocated and zeros are read. It may end before another kind begins; it has at least one
    /// byte if `bytes` is not 0.
    pub fn extent_at(&self, target: WorkloadTarget, from: u64, bytes: u64) -> Result<ContentExtent, AccessError> {
        self.check_range(target, from, bytes)?;
        match target {
            WorkloadTarget::Drive(drive) => self.stores.extent_at(drive as usize, from, bytes),
            WorkloadTarget::Array(array) => self.arrays[array].extent_at(&self.stores, from, bytes),
        }
    }

    /// Returns a handle to flush the backing file.
    pub fn flush_handle(&self) -> FlushHandle {
        FlushHandle { file: self.stores.file_handle(), error: Arc::clone(&self.sync_error) }
    }

    /// Fails a member of an array: its bytes are lost. In a mirror of stripe sets its whole set is
    /// out of service.
    pub fn fail_member(&mut self, array: usize, member: u16) -> Result<(), AccessError> {
        let members = self.array_and_stores(array)?.0.affected_members(member)?;
        self.array_and_stores(array)?.0.fail_members(members);
        self.drop_bytes(array, members)
    }

    /// Replaces a member by an empty drive, to be rebuilt by [`Content::rebuild_up_to`]; a good
    /// member is failed first. [`AccessError::LostData`] if nothing can be rebuilt.
    pub fn replace_member(&mut self, array: usize, member: u16) -> Result<(), AccessError> {
        let members = self.array_and_stores(array)?.0.affected_members(member)?;
        self.array_and_stores(array)?.0.replace_members(members)?;
        self.drop_bytes(array, members)
    }

    /// Records first that the members' bytes are lost, so that they never count as good, then drops
    /// them.
    fn drop_bytes(&mut self, array: usize, members: MemberSet) -> Result<(), AccessError> {
        // the last write is complete, so no row is torn
        self.write_intent(&NO_INTENT)?;
        self.save_states_atomically()?;
        let (array, stores) = self.array_and_stores(array)?;
        array.clear_members(stores, members)
    }

    /// Rebuilds the replaced members up to a block (of 512 bytes) of theirs. Call it in small
    /// steps; rebuilt parts are not rebuilt again, even if the number is smaller than before. After
    /// an error (a full disk, lost data) the rebuild keeps its progress.
    pub fn rebuild_up_to(&mut self, array: usize, good_below: u64) -> Result<(), AccessError> {
        let (content, stores) = self.array_and_stores(array)?;
        let result = content.rebuild_up_to(stores, good_below);
        self.save_states_atomically()?;
        result
    }

    /// Rebuilds the rest; the members are good then.
    pub fn finish_rebuild(&mut self, array: usize) -> Result<(), AccessError> {
        let (content, stores) = self.array_and_stores(array)?;
        let result = content.finish_rebuild(stores);
        // this also clears the journal: nothing is journaled from now on
        self.save_states_atomically()?;
        result
    }

    /// Returns the members of an array that are not completely good, and those of them that are
    /// being rebuilt.
    pub fn member_state(&self, array: usize) -> Option<(MemberSet, MemberSet)> {
        self.arrays.get(array).map(|array| (array.failed_members(), array.rebuilding_members()))
    }

    /// Reads the whole array and compares parities with data and copies with one another; returns
    /// how many ranges (of up to 64 KiB of a member) disagree. It blocks until it is done.
    pub fn scrub_array(&mut self, array: usize) -> Result<u64, AccessError> {
        let (array, stores) = self.array_and_stores(array)?;
        array.scrub_array(stores)
    }

    fn array_and_stores(&mut self, index: usize) -> Result<(&mut ArrayContent, &mut Stores), AccessError> {
        let array = self.arrays.get_mut(index).ok_or(AccessError::NoSuchTarget)?;
        Ok((array, &mut self.stores))
    }

    #[inline]
    fn check_range(&self, target: WorkloadTarget, from: u64, bytes: u64) -> Result<(), AccessError> {
        let target_bytes = self.target_bytes(target);
        match from.checked_add(bytes) {
            Some(to) if to <= target_bytes && target_bytes > 0 => Ok(()),
            _ if target_bytes == 0 => Err(AccessError::NoSuchTarget),
            to => Err(AccessError::OutOfRange { from, to: to.unwrap_or(u64::MAX), bytes: target_bytes }),
        }
    }
}

/// Checks whether a text is a valid ledger of a backing file for these sets.
pub fn check_ledger(text: &[u8], sets: &[ArraySpec]) -> Result<(), String> {
    ArrayLedger::read(text, &sets.iter().map(ArrayShape::from_array).collect::<Vec<_>>()).map(|_| ())
}

/// Returns the size of an array or a drive of a system, bytes.
///
/// # Errors
/// With an array that is invalid.
pub fn target_bytes(system: &System, target: WorkloadTarget) -> Result<u64, ContentError> {
    match target {
        WorkloadTarget::Drive(drive) => Ok(drive_bytes(system, drive)),
        WorkloadTarget::Array(index) => system.arrays.get(index).map_or(Ok(0), |set| {
            let array =
                system.array_geometry(set).map_err(|reason| ContentError::Array { array: set.name.clone(), reason })?;
            Ok(array.capacity_blocks().saturating_mul(BLOCK_BYTES))
        }),
    }
}

fn drive_bytes(system: &System, drive: u32) -> u64 {
    system.drive_blocks(drive).unwrap_or(0).saturating_mul(BLOCK_BYTES)
}

/// Creates an array on its drives, which nothing else may use.
fn build_array(
    system: &System,
    set: &ArraySpec,
    sizes: &[u64],
    drives: &mut [Option<u64>],
) -> Result<ArrayContent, ContentError> {
    let array = system.array_geometry(set).map_err(|reason| ContentError::Array { array: set.name.clone(), reason })?;
    for drive in &set.members {
        claim_drive(system, set, *drive, drives)?;
    }
    let stores: Vec<usize> = set.members.iter().map(|drive| *drive as usize).collect();
    let max_blocks = match set.level {
        ArrayLevel::Linear => set.member_blocks.unwrap_or(u64::MAX),
        _ => array.member_blocks(),
    };
    let used = stores.iter().map(|drive| sizes[*drive].min(max_blocks.saturating_mul(BLOCK_BYTES))).collect();
    Ok(ArrayContent::new(array, stores, used))
}

/// Claims a drive for a set.
fn claim_drive(system: &System, set: &ArraySpec, drive: u32, drives: &mut [Option<u64>]) -> Result<(), ContentError> {
    let claimed = drives.get_mut(drive as usize).and_then(Option::take);
    let shared = || ContentError::Shared { drive: system.drive_name(drive), array: set.name.clone() };
    claimed.map(|_| ()).ok_or_else(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failed_flush_none_succeeds() {
        for (number, reported) in [(Some(28), 28), (Some(5), 5), (None, 5)] {
            let error = Arc::default();
            let [here, there] = [(); 2].map(|()| FlushHandle { file: None, error: Arc::clone(&error) });
            assert!(here.sync_once(|| Ok(())).is_ok() && there.sync_once(|| Ok(())).is_ok());
            let fails = || Err(number.map_or(io::ErrorKind::Other.into(), io::Error::from_raw_os_error));
            assert!(here.sync_once(fails).is_err());
            // also the last flush, which the server makes by another handle
            for sync in [&here, &there] {
                let error = sync.sync_once(|| Ok(())).expect_err("the data that failed are lost");
                assert_eq!(error.raw_os_error(), Some(reported));
            }
        }
    }
}
