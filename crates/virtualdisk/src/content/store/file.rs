//! Drives in one sparse file, one behind the other.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;

use super::{Extent, Room};
use crate::content::trouble::{ContentError, Short, Trouble};

/// Each drive begins at a multiple of this, bytes.
const ALIGN: u64 = 1 << 20;

/// Zeros, for file systems that make no holes.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// The file, which nobody else has open for content.
pub(in crate::content) struct InFile {
    file: Arc<File>,
    starts: Vec<u64>,
    /// Where the ledger begins.
    end: u64,
    /// Whether holes can be made, as far as is known.
    punches: bool,
    /// Whether stretches can be made zeros that keep their room.
    zeroes: bool,
}

/// Where each drive begins, and where all of them end: where so many bytes
/// of a ledger begin.
fn starts(bytes: &[u64], ledger: u64) -> Result<(Vec<u64>, u64), ContentError> {
    let (mut starts, mut end) = (Vec::new(), 0u64);
    for bytes in bytes {
        let start = end.next_multiple_of(ALIGN);
        starts.push(start);
        let fits = start.checked_add(*bytes).filter(|end| *end <= i64::MAX as u64 - ALIGN);
        end = fits.ok_or(ContentError::TooLarge)?;
    }
    if ledger > 0 {
        end = end.next_multiple_of(ALIGN);
    }
    // half of what can be addressed is enough, and no sum overflows
    if end > i64::MAX as u64 / 2 || ledger > i64::MAX as u64 / 2 {
        return Err(ContentError::TooLarge);
    }
    Ok((starts, end))
}

impl InFile {
    /// Opens the file, or makes it, for drives of so many bytes and a ledger
    /// behind them. Says whether something was in it before.
    pub fn open(path: &Path, bytes: &[u64], ledger: u64) -> Result<(InFile, bool), ContentError> {
        let (starts, end) = starts(bytes, ledger)?;
        let all = end + ledger;
        let error = |what| move |why| ContentError::File { path: path.to_owned(), what, why };
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = options.map_err(error("cannot be opened"))?;
        file.try_lock().map_err(|e| match e {
            TryLockError::WouldBlock => ContentError::InUse(path.to_owned()),
            TryLockError::Error(why) => error("cannot be locked")(why),
        })?;
        let metadata = file.metadata().map_err(error("cannot be looked at"))?;
        if !metadata.is_file() {
            let why = io::Error::other("it is no regular file; name one, or a new one");
            return Err(error("cannot hold content")(why));
        }
        let found = metadata.len();
        if found == 0 {
            file.set_len(all).map_err(error("cannot be made as long as the drives"))?;
        } else if found != all {
            return Err(ContentError::OtherSize { path: path.to_owned(), found, wanted: all });
        }
        Ok((InFile { file: Arc::new(file), starts, end, punches: true, zeroes: true }, found > 0))
    }

    pub fn handle(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Reads from the ledger.
    pub fn read_ledger(&self, from: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, self.end + from)
    }

    /// Writes into the ledger.
    pub fn write_ledger(&self, from: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, self.end + from)
    }

    pub fn read(&self, drive: usize, from: u64, into: &mut [u8]) -> Result<(), Trouble> {
        self.file.read_exact_at(into, self.starts[drive] + from).map_err(Trouble::Io)
    }

    pub fn write(&mut self, drive: usize, from: u64, data: &[u8]) -> Result<(), Short> {
        let (start, mut done) = (self.starts[drive] + from, 0);
        while done < data.len() {
            match self.file.write_at(&data[done..], start + done as u64) {
                Ok(0) => return Err(Short { done, why: Trouble::Io(io::ErrorKind::WriteZero.into()) }),
                Ok(bytes) => done += bytes,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Short { done, why: e.into() }),
            }
        }
        Ok(())
    }

    pub fn zero(&mut self, drive: usize, from: u64, bytes: u64, room: Room) -> Result<(), Trouble> {
        if bytes == 0 {
            return Ok(());
        }
        let start = self.starts[drive] + from;
        let (flags, can) = match room {
            Room::GiveBack => (FallocateFlags::PUNCH_HOLE, &mut self.punches),
            Room::Keep => (FallocateFlags::ZERO_RANGE, &mut self.zeroes),
        };
        let flags = flags | FallocateFlags::KEEP_SIZE;
        while *can {
            match fallocate(&self.file, flags, start, bytes) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => *can = false,
                Err(e) => return Err(Trouble::from(io::Error::from(e))),
            }
        }
        let mut left = bytes;
        while left > 0 {
            let now = left.min(ZEROS.len() as u64);
            self.write(drive, from + bytes - left, &ZEROS[..now as usize])?;
            left -= now;
        }
        Ok(())
    }

    pub fn extent(&self, drive: usize, from: u64, bytes: u64) -> Result<Extent, Trouble> {
        let (start, all) = (self.starts[drive] + from, Extent { bytes, hole: false });
        // everything behind the last data is a hole, which the kernel calls ENXIO
        let next = |whence| match seek(&self.file, whence) {
            Ok(at) => Ok(Some(at.saturating_sub(start).min(bytes))),
            Err(Errno::NXIO) => Ok(Some(bytes)),
            // a file system that does not know: all is data
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(None),
            Err(e) => Err(Trouble::from(io::Error::from(e))),
        };
        match next(SeekFrom::Data(start))? {
            None => Ok(all),
            Some(0) => Ok(next(SeekFrom::Hole(start))?.map_or(all, |bytes| Extent { bytes, hole: false })),
            Some(bytes) => Ok(Extent { bytes, hole: true }),
        }
    }
}
