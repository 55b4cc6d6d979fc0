//! Table workloads on a file: bulk load (pages appended in large batches, each committed) and scan (large sequential
//! reads, each user from its own starting point).

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use diskwright_base::Rng;

use crate::files::WorkFile;
use crate::users::Work;
use crate::{WorkError, check_stop, io_error, page};

/// Size of a page, bytes.
const PAGE_BYTES: usize = 8192;

/// Sizes of a table workload.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// Bytes of the table; a load that reaches its end starts over.
    pub table_bytes: u64,
    /// Bytes of a batch of a load, or of a read of a scan; rounded down to whole pages.
    pub batch_bytes: usize,
}

/// A table.
struct Table {
    file: WorkFile,
    pages: u64,
    batch_pages: u64,
}

impl Table {
    fn create(options: &TableOptions, folder: &Path) -> Result<Table, WorkError> {
        let (pages, batch_pages) = (options.table_bytes / PAGE_BYTES as u64, (options.batch_bytes / PAGE_BYTES) as u64);
        if batch_pages == 0 || pages < batch_pages || options.batch_bytes > 1 << 28 {
            let message = format!(
                "batches of {} bytes in a table of {}; expected 8 KiB to 256 MiB in a larger table",
                options.batch_bytes, options.table_bytes
            );
            return Err(WorkError::Usage(message));
        }
        // the table has whole batches, so that no batch extends beyond its end
        Ok(Table { file: WorkFile::create(folder)?, pages: pages / batch_pages * batch_pages, batch_pages })
    }

    fn batch_count(&self) -> u64 {
        self.pages / self.batch_pages
    }

    fn batch_buffer(&self) -> Vec<u8> {
        vec![0; self.batch_pages as usize * PAGE_BYTES]
    }

    fn write_batch(&self, batch: u64, version: u64, buffer: &mut [u8]) -> Result<(), WorkError> {
        let first = batch * self.batch_pages;
        buffer
            .chunks_exact_mut(PAGE_BYTES)
            .zip(first..)
            .for_each(|(bytes, number)| page::fill_page(bytes, number, version));
        let written = self.file.file().write_all_at(buffer, first * PAGE_BYTES as u64);
        written.map_err(io_error(self.file.path(), "a batch cannot be written"))
    }

    /// Reads a batch, and checks its pages against the version written last.
    fn read_batch(&self, batch: u64, version: u64, buffer: &mut [u8]) -> Result<(), WorkError> {
        let first = batch * self.batch_pages;
        let read = self.file.file().read_exact_at(buffer, first * PAGE_BYTES as u64);
        read.map_err(io_error(self.file.path(), "a batch cannot be read"))?;
        buffer.chunks_exact(PAGE_BYTES).zip(first..).try_for_each(|(bytes, number)| {
            let fault = match page::check_page(bytes, number) {
                Ok(found) if found == version => return Ok(()),
                Ok(found) => format!("version {found} of {version}: a write was lost"),
                Err(fault) => fault.to_string(),
            };
            Err(WorkError::VerificationFailed(format!("{}: page {number}: {fault}", self.file.path().display())))
        })
    }
}

/// Bulk load: appends batches and commits each.
pub struct BulkLoad {
    table: Table,
    next_batch: AtomicU64,
    /// Number of commits of each batch, which is its version; the lock is held while the batch is written.
    batch_versions: Vec<Mutex<u64>>,
}

impl BulkLoad {
    /// Creates an empty table in a folder.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(options: &TableOptions, folder: &Path) -> Result<BulkLoad, WorkError> {
        let table = Table::create(options, folder)?;
        let batch_versions = (0..table.batch_count()).map(|_| Mutex::new(0)).collect();
        Ok(BulkLoad { table, next_batch: AtomicU64::new(0), batch_versions })
    }

    fn lock_batch(&self, batch: u64) -> MutexGuard<'_, u64> {
        // a panic elsewhere has ended the workload already
        self.batch_versions[batch as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads back everything that was loaded, from its device, and checks it.
    ///
    /// # Errors
    /// The first page that is not as it was written.
    pub fn verify_loaded(&self, stop: &AtomicBool) -> Result<(), WorkError> {
        self.table.file.sync_and_drop_cache()?;
        let mut buffer = self.table.batch_buffer();
        (0..self.table.batch_count()).try_for_each(|batch| {
            check_stop(stop)?;
            match *self.lock_batch(batch) {
                0 => Ok(()),
                version => self.table.read_batch(batch, version, &mut buffer),
            }
        })
    }
}

impl Work for BulkLoad {
    type User = Vec<u8>;

    fn operation_names(&self) -> &'static [&'static str] {
        &["batch"]
    }

    fn create_user(&self, _: usize) -> Result<Vec<u8>, WorkError> {
        Ok(self.table.batch_buffer())
    }

    fn run_operation(&self, buffer: &mut Vec<u8>, _: &mut Rng) -> Result<(usize, u64), WorkError> {
        let batch = self.next_batch.fetch_add(1, Ordering::Relaxed) % self.table.batch_count();
        let mut version = self.lock_batch(batch);
        self.table.write_batch(batch, *version + 1, buffer)?;
        self.table.file.file().sync_data().map_err(io_error(self.table.file.path(), "a batch cannot be synced"))?;
        *version += 1;
        Ok((0, buffer.len() as u64))
    }
}

/// Scan: reads a table from start to end, repeatedly.
pub struct TableScan {
    table: Table,
}

/// Position and buffer of a user of a scan.
pub struct TableReader {
    next_batch: u64,
    buffer: Vec<u8>,
}

impl TableScan {
    /// Creates a full table in a folder, on its device and dropped from the file cache as far as the kernel allows.
    ///
    /// # Errors
    /// When the file cannot be made, or the workload is stopped.
    pub fn create(options: &TableOptions, folder: &Path, stop: &AtomicBool) -> Result<TableScan, WorkError> {
        let table = Table::create(options, folder)?;
        let mut buffer = table.batch_buffer();
        (0..table.batch_count()).try_for_each(|batch| {
            check_stop(stop)?;
            table.write_batch(batch, 0, &mut buffer)
        })?;
        table.file.sync_and_drop_cache()?;
        Ok(TableScan { table })
    }
}

impl Work for TableScan {
    type User = TableReader;

    fn operation_names(&self) -> &'static [&'static str] {
        &["read"]
    }

    fn create_user(&self, number: usize) -> Result<TableReader, WorkError> {
        // steps of the golden section of the table keep the starting points of users far from each other
        let next_batch = (number as f64 * 0.618_034).fract() * self.table.batch_count() as f64;
        Ok(TableReader { next_batch: next_batch as u64, buffer: self.table.batch_buffer() })
    }

    fn run_operation(&self, user: &mut TableReader, _: &mut Rng) -> Result<(usize, u64), WorkError> {
        self.table.read_batch(user.next_batch % self.table.batch_count(), 0, &mut user.buffer)?;
        user.next_batch += 1;
        Ok((0, user.buffer.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_whose_last_write_was_lost_is_found() {
        let (folder, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
        let options = TableOptions { table_bytes: 256 << 10, batch_bytes: 64 << 10 };
        let load = BulkLoad::create(&options, folder.path()).unwrap();
        let (mut buffer, mut rng) = (load.create_user(0).unwrap(), Rng::new(1, 1));
        // each of four batches, and the first two once more
        for _ in 0..6 {
            load.run_operation(&mut buffer, &mut rng).unwrap();
        }
        load.verify_loaded(&stop).unwrap();
        // the older version is whole, and belongs there
        load.table.write_batch(1, 1, &mut buffer).unwrap();
        let error = load.verify_loaded(&stop).unwrap_err().to_string();
        assert!(error.contains("page 8: version 1 of 2: a write was lost"), "{error}");
    }
}
