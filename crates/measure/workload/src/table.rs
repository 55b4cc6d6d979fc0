//! Table workloads on a file: bulk load (pages appended in large batches, each committed) and scan (large sequential
//! reads, each user from its own starting point).

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use diskwright_base::Rng;

use crate::files::WorkFile;
use crate::users::Work;
use crate::{WorkError, go_on, io, page};

/// Size of a page.
const PAGE: usize = 8192;

/// Sizes of a table workload.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// Bytes of the table; a load that reaches its end starts over.
    pub bytes: u64,
    /// Bytes of a batch of a load, or of a read of a scan; whole pages.
    pub batch: usize,
}

/// A table.
struct Table {
    file: WorkFile,
    pages: u64,
    batch_pages: u64,
}

impl Table {
    fn create(options: &TableOptions, folder: &Path) -> Result<Table, WorkError> {
        let (pages, batch_pages) = (options.bytes / PAGE as u64, (options.batch / PAGE) as u64);
        if batch_pages == 0 || pages < batch_pages || options.batch > 1 << 28 {
            let why = format!(
                "batches of {} bytes in a table of {}; expected 8 KiB to 256 MiB in a larger table",
                options.batch, options.bytes
            );
            return Err(WorkError::Usage(why));
        }
        // whole batches, so that none extends beyond the table's end
        Ok(Table { file: WorkFile::create(folder)?, pages: pages / batch_pages * batch_pages, batch_pages })
    }

    fn batches(&self) -> u64 {
        self.pages / self.batch_pages
    }

    fn buffer(&self) -> Vec<u8> {
        vec![0; self.batch_pages as usize * PAGE]
    }

    fn write(&self, batch: u64, version: u64, buffer: &mut [u8]) -> Result<(), WorkError> {
        let first = batch * self.batch_pages;
        buffer.chunks_exact_mut(PAGE).zip(first..).for_each(|(bytes, number)| page::make(bytes, number, version));
        let wrote = self.file.file().write_all_at(buffer, first * PAGE as u64);
        wrote.map_err(io(self.file.path(), "a batch cannot be written"))
    }

    /// Reads a batch, and checks its pages against the version written last.
    fn read(&self, batch: u64, version: u64, buffer: &mut [u8]) -> Result<(), WorkError> {
        let first = batch * self.batch_pages;
        let read = self.file.file().read_exact_at(buffer, first * PAGE as u64);
        read.map_err(io(self.file.path(), "a batch cannot be read"))?;
        buffer.chunks_exact(PAGE).zip(first..).try_for_each(|(bytes, number)| {
            let wrong = match page::check(bytes, number) {
                Ok(found) if found == version => return Ok(()),
                Ok(found) => format!("version {found} of {version}: a write was lost"),
                Err(fault) => fault.to_string(),
            };
            Err(WorkError::Wrong(format!("{}: page {number}: {wrong}", self.file.path().display())))
        })
    }
}

/// Bulk load: appends batches and commits each.
pub struct BulkLoad {
    table: Table,
    next: AtomicU64,
    /// Number of commits of each batch, which is its version; the lock is held while the batch is written.
    loaded: Vec<Mutex<u64>>,
}

impl BulkLoad {
    /// Creates an empty table in a folder.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(options: &TableOptions, folder: &Path) -> Result<BulkLoad, WorkError> {
        let table = Table::create(options, folder)?;
        let loaded = (0..table.batches()).map(|_| Mutex::new(0)).collect();
        Ok(BulkLoad { table, next: AtomicU64::new(0), loaded })
    }

    fn loaded(&self, batch: u64) -> MutexGuard<'_, u64> {
        // a panic elsewhere has ended the workload already
        self.loaded[batch as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads back and checks everything that was loaded, from its device.
    ///
    /// # Errors
    /// The first page that is not as it was written.
    pub fn verify(&self, stop: &AtomicBool) -> Result<(), WorkError> {
        self.table.file.leave_cache()?;
        let mut buffer = self.table.buffer();
        (0..self.table.batches()).try_for_each(|batch| {
            go_on(stop)?;
            match *self.loaded(batch) {
                0 => Ok(()),
                version => self.table.read(batch, version, &mut buffer),
            }
        })
    }
}

impl Work for BulkLoad {
    type User = Vec<u8>;

    fn operations(&self) -> &'static [&'static str] {
        &["batch"]
    }

    fn user(&self, _: usize) -> Result<Vec<u8>, WorkError> {
        Ok(self.table.buffer())
    }

    fn operate(&self, buffer: &mut Vec<u8>, _: &mut Rng) -> Result<(usize, u64), WorkError> {
        let batch = self.next.fetch_add(1, Ordering::Relaxed) % self.table.batches();
        let mut loaded = self.loaded(batch);
        self.table.write(batch, *loaded + 1, buffer)?;
        self.table.file.file().sync_data().map_err(io(self.table.file.path(), "a batch cannot be synced"))?;
        *loaded += 1;
        Ok((0, buffer.len() as u64))
    }
}

/// Scan: reads a table from start to end, repeatedly.
pub struct TableScan {
    table: Table,
}

/// Position and buffer of a user of a scan.
pub struct TableReader {
    next: u64,
    buffer: Vec<u8>,
}

impl TableScan {
    /// Creates a full table in a folder, on its device and dropped from the file cache as far as the kernel allows.
    ///
    /// # Errors
    /// When the file cannot be made, or the workload is stopped.
    pub fn create(options: &TableOptions, folder: &Path, stop: &AtomicBool) -> Result<TableScan, WorkError> {
        let table = Table::create(options, folder)?;
        let mut buffer = table.buffer();
        (0..table.batches()).try_for_each(|batch| {
            go_on(stop)?;
            table.write(batch, 0, &mut buffer)
        })?;
        table.file.leave_cache()?;
        Ok(TableScan { table })
    }
}

impl Work for TableScan {
    type User = TableReader;

    fn operations(&self) -> &'static [&'static str] {
        &["read"]
    }

    fn user(&self, number: usize) -> Result<TableReader, WorkError> {
        // golden section of the table, so that users start far from each other
        let next = (number as f64 * 0.618_034).fract() * self.table.batches() as f64;
        Ok(TableReader { next: next as u64, buffer: self.table.buffer() })
    }

    fn operate(&self, user: &mut TableReader, _: &mut Rng) -> Result<(usize, u64), WorkError> {
        self.table.read(user.next % self.table.batches(), 0, &mut user.buffer)?;
        user.next += 1;
        Ok((0, user.buffer.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_whose_last_write_was_lost_is_found() {
        let (folder, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
        let options = TableOptions { bytes: 256 << 10, batch: 64 << 10 };
        let load = BulkLoad::create(&options, folder.path()).unwrap();
        let (mut buffer, mut rng) = (load.user(0).unwrap(), Rng::new(1, 1));
        // each of four batches, and the first two once more
        for _ in 0..6 {
            load.operate(&mut buffer, &mut rng).unwrap();
        }
        load.verify(&stop).unwrap();
        // the older version is whole, and belongs there
        load.table.write(1, 1, &mut buffer).unwrap();
        let error = load.verify(&stop).unwrap_err().to_string();
        assert!(error.contains("page 8: version 1 of 2: a write was lost"), "{error}");
    }
}
