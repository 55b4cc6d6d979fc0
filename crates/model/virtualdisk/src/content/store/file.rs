//! Drives in one sparse file, one after another.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use diskwright_hostfiles::private_files;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;

use super::write_journal::{JournalWrite, WriteJournal};
use super::{ContentExtent, WriteSource, ZeroPolicy};
use crate::content::error::{self, AccessError, ContentError, ShortWrite};

/// Alignment of each drive's start, bytes.
const DRIVE_ALIGN_BYTES: u64 = 1 << 20;

/// Zeros, for filesystems without holes.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

fn io_error(error: AccessError) -> io::Error {
    match error {
        AccessError::Io(error) => error,
        AccessError::NoSpace => io::ErrorKind::StorageFull.into(),
        other => io::Error::other(other),
    }
}

/// The file, which no one else has open as content.
pub(in crate::content) struct FileStore {
    file: Arc<File>,
    starts: Vec<u64>,
    /// Offset of the ledger.
    ledger_start: u64,
    /// Journal after the ledger.
    journal: WriteJournal,
    /// Holes can be made, as far as is known.
    can_punch_holes: bool,
    /// Ranges can be zeroed with their space kept, as far as is known.
    can_zero_ranges: bool,
}

/// Returns the start of each drive, and the end of all of them, where a ledger of `ledger` bytes
/// begins.
fn drive_starts(bytes: &[u64], ledger: u64) -> Result<(Vec<u64>, u64), ContentError> {
    let (mut starts, mut end) = (Vec::new(), 0u64);
    for bytes in bytes {
        let start = end.next_multiple_of(DRIVE_ALIGN_BYTES);
        starts.push(start);
        let fits = start.checked_add(*bytes).filter(|end| *end <= i64::MAX as u64 - DRIVE_ALIGN_BYTES);
        end = fits.ok_or(ContentError::TooLarge)?;
    }
    if ledger > 0 {
        end = end.next_multiple_of(DRIVE_ALIGN_BYTES);
    }
    // half of the address range is enough, and no sum overflows
    if end > i64::MAX as u64 / 2 || ledger > i64::MAX as u64 / 2 {
        return Err(ContentError::TooLarge);
    }
    Ok((starts, end))
}

impl FileStore {
    /// Opens or creates the file, for drives of these sizes and a ledger after them. Also returns
    /// whether it had content before.
    pub fn open(path: &Path, bytes: &[u64], ledger: u64) -> Result<(FileStore, bool), ContentError> {
        let (starts, end) = drive_starts(bytes, ledger)?;
        let total_bytes = end + ledger;
        let error = |operation| move |reason| ContentError::File { path: path.to_owned(), operation, reason };
        // users who may not read the machine's disks must not read this one either
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(error("cannot be opened"))?;
        private_files::lock_file(&file).map_err(|e| match e {
            TryLockError::WouldBlock => ContentError::InUse(path.to_owned()),
            TryLockError::Error(reason) => error("cannot be locked")(reason),
        })?;
        let metadata = file.metadata().map_err(error("cannot be inspected"))?;
        if !metadata.is_file() {
            let reason = io::Error::other("it is not a regular file; name a regular file or a new one");
            return Err(error("cannot hold content")(reason));
        }
        let (found, journal) = (metadata.len(), WriteJournal::new(total_bytes));
        if found == 0 {
            file.set_len(total_bytes).map_err(error("cannot be extended to the size of the drives"))?;
        } else if found != total_bytes && !(ledger > 0 && journal.has_journal(&file)) {
            return Err(ContentError::OtherSize { path: path.to_owned(), found, expected: total_bytes });
        }
        Ok((
            FileStore {
                file: Arc::new(file),
                starts,
                ledger_start: end,
                journal,
                can_punch_holes: true,
                can_zero_ranges: true,
            },
            found > 0,
        ))
    }

    /// Repeats the journaled writes, which may not be done, and clears the journal.
    pub fn replay_journal(&mut self) -> io::Result<()> {
        let writes = self.journal.read_writes(&self.file)?;
        if let Err(full) = self.redo_writes(&writes) {
            if !error::is_full(&full) {
                return Err(full);
            }
            // its own space suffices for the writes in it
            self.journal.clear_journal(&self.file)?;
            let result = self.redo_writes(&writes);
            result
                .inspect_err(|_| drop(self.journal.save_writes(&self.file, writes.iter().map(JournalWrite::source))))?;
        }
        if !writes.is_empty() {
            self.file.sync_data()?;
        }
        match self.journal.clear_journal(&self.file) {
            // its writes are done, and the next journaled writes replace it
            Err(full) if error::is_full(&full) => Ok(()),
            result => result,
        }
    }

    fn redo_writes(&mut self, writes: &[JournalWrite]) -> io::Result<()> {
        for write in writes {
            match write.source() {
                (offset, WriteSource::Data(data)) => {
                    self.write_at(offset, data).map_err(|short| io_error(short.reason))?
                }
                (offset, WriteSource::Zeros(bytes, policy)) => {
                    self.write_zeros_at(offset, bytes, policy).map_err(io_error)?
                }
            }
        }
        Ok(())
    }

    /// Journals writes that belong together; see [`super::Stores::journal_writes`].
    pub fn journal_writes<'a>(
        &mut self,
        writes: impl Iterator<Item = (usize, u64, WriteSource<'a>)>,
    ) -> io::Result<()> {
        let starts = &self.starts;
        self.journal.save_writes(&self.file, writes.map(|(drive, from, source)| (starts[drive] + from, source)))
    }

    /// Returns the backing file.
    pub fn file_handle(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Reads from the ledger.
    pub fn read_ledger(&self, from: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, self.ledger_start + from)
    }

    /// Writes into the ledger.
    pub fn write_ledger(&self, from: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, self.ledger_start + from)
    }

    /// Writes into the ledger, completely or not at all.
    pub fn write_ledger_whole(&mut self, from: u64, data: &[u8]) -> io::Result<()> {
        let saved =
            self.journal.save_writes(&self.file, [(self.ledger_start + from, WriteSource::Data(data))].into_iter());
        // without space for the journal it is written anyway, and the earlier journal must not be
        // repeated
        saved.or_else(|_| self.journal.clear_journal(&self.file))?;
        self.write_ledger(from, data)
    }

    /// Reads bytes of a drive.
    pub fn read(&self, drive: usize, from: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.file.read_exact_at(into, self.starts[drive] + from).map_err(AccessError::Io)
    }

    /// Writes bytes. A killed program's write ends at a page boundary, which is a multiple of the
    /// sector.
    pub fn write(&mut self, drive: usize, from: u64, data: &[u8]) -> Result<(), ShortWrite> {
        self.write_at(self.starts[drive] + from, data)
    }

    fn write_at(&self, start: u64, data: &[u8]) -> Result<(), ShortWrite> {
        let mut written_bytes = 0;
        while written_bytes < data.len() {
            match self.file.write_at(&data[written_bytes..], start + written_bytes as u64) {
                Ok(0) => {
                    return Err(ShortWrite { written_bytes, reason: AccessError::Io(io::ErrorKind::WriteZero.into()) });
                }
                Ok(bytes) => written_bytes += bytes,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(ShortWrite { written_bytes, reason: e.into() }),
            }
        }
        Ok(())
    }

    /// Zeroes a range of a drive.
    pub fn write_zeros(&mut self, drive: usize, from: u64, bytes: u64, policy: ZeroPolicy) -> Result<(), AccessError> {
        self.write_zeros_at(self.starts[drive] + from, bytes, policy)
    }

    fn write_zeros_at(&mut self, start: u64, bytes: u64, policy: ZeroPolicy) -> Result<(), AccessError> {
        if bytes == 0 {
            return Ok(());
        }
        let (flags, is_supported) = match policy {
            ZeroPolicy::Deallocate => (FallocateFlags::PUNCH_HOLE, &mut self.can_punch_holes),
            ZeroPolicy::Allocate => (FallocateFlags::ZERO_RANGE, &mut self.can_zero_ranges),
        };
        let flags = flags | FallocateFlags::KEEP_SIZE;
        while *is_supported {
            match fallocate(&self.file, flags, start, bytes) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => *is_supported = false,
                Err(e) => return Err(AccessError::from(io::Error::from(e))),
            }
        }
        let mut remaining = bytes;
        while remaining > 0 {
            let part_bytes = remaining.min(ZEROS.len() as u64);
            self.write_at(start + bytes - remaining, &ZEROS[..part_bytes as usize])?;
            remaining -= part_bytes;
        }
        Ok(())
    }

    /// Returns the data or hole that begins at `from`, at most `bytes` long.
    pub fn extent_at(&self, drive: usize, from: u64, bytes: u64) -> Result<ContentExtent, AccessError> {
        let (start, data_extent) = (self.starts[drive] + from, ContentExtent { bytes, is_hole: false });
        // everything after the last data is a hole, for which the kernel returns ENXIO
        let next = |whence| match seek(&self.file, whence) {
            Ok(offset) => Ok(Some(offset.saturating_sub(start).min(bytes))),
            Err(Errno::NXIO) => Ok(Some(bytes)),
            // a filesystem without support: everything counts as data
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(None),
            Err(e) => Err(AccessError::from(io::Error::from(e))),
        };
        match next(SeekFrom::Data(start))? {
            None => Ok(data_extent),
            Some(0) => {
                Ok(next(SeekFrom::Hole(start))?.map_or(data_extent, |bytes| ContentExtent { bytes, is_hole: false }))
            }
            Some(bytes) => Ok(ContentExtent { bytes, is_hole: true }),
        }
    }
}
