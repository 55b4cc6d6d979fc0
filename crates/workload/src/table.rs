//! A table on a file: bulk load (pages appended in large batches, each committed) and scan (large reads from begin to
//! end, each user from a place of its own).

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use diskwright_base::Rng;

use crate::files::WorkFile;
use crate::users::Work;
use crate::{WorkError, io, page};

/// Bytes of a page.
const PAGE: usize = 8192;

/// How a table is used.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// Bytes of the table; a load that reaches its end begins anew.
    pub bytes: u64,
    /// Bytes of a batch of a load, or of a read of a scan: whole pages.
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
        // whole batches, so that none ends within the table's end
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

    /// Reads a batch; the lowest version in it.
    fn read(&self, batch: u64, buffer: &mut [u8]) -> Result<u64, WorkError> {
        let first = batch * self.batch_pages;
        let read = self.file.file().read_exact_at(buffer, first * PAGE as u64);
        read.map_err(io(self.file.path(), "a batch cannot be read"))?;
        let check = |(bytes, number): (&[u8], u64)| {
            let wrong = |fault| WorkError::Wrong(format!("{}: page {number}: {fault}", self.file.path().display()));
            page::check(bytes, number).map_err(wrong)
        };
        buffer.chunks_exact(PAGE).zip(first..).map(check).try_fold(u64::MAX, |low, version| Ok(low.min(version?)))
    }
}

/// Appends batches and commits each.
pub struct BulkLoad {
    table: Table,
    next: AtomicU64,
}

impl BulkLoad {
    /// An empty table in a folder.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(options: &TableOptions, folder: &Path) -> Result<BulkLoad, WorkError> {
        Ok(BulkLoad { table: Table::create(options, folder)?, next: AtomicU64::new(0) })
    }

    /// Reads back all that was loaded.
    ///
    /// # Errors
    /// The first page that is not as it was written.
    pub fn verify(&self) -> Result<(), WorkError> {
        let loaded = self.next.load(Ordering::Relaxed).min(self.table.batches());
        let mut buffer = self.table.buffer();
        (0..loaded).try_for_each(|batch| self.table.read(batch, &mut buffer).map(|_| ()))
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
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.table.write(number % self.table.batches(), number / self.table.batches(), buffer)?;
        self.table.file.file().sync_data().map_err(io(self.table.file.path(), "a batch cannot be synced"))?;
        Ok((0, buffer.len() as u64))
    }
}

/// Reads a table from begin to end, again and again.
pub struct TableScan {
    table: Table,
}

/// Where a user of a scan is.
pub struct TableReader {
    next: u64,
    buffer: Vec<u8>,
}

impl TableScan {
    /// A full table in a folder, on its device and out of the file cache as far as the kernel allows.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(options: &TableOptions, folder: &Path) -> Result<TableScan, WorkError> {
        let table = Table::create(options, folder)?;
        let mut buffer = table.buffer();
        (0..table.batches()).try_for_each(|batch| table.write(batch, 0, &mut buffer))?;
        table.file.file().sync_all().map_err(io(folder, "the table cannot be synced"))?;
        // a wish that may be refused
        let _ = rustix::fs::fadvise(table.file.file(), 0, None, rustix::fs::Advice::DontNeed);
        Ok(TableScan { table })
    }
}

impl Work for TableScan {
    type User = TableReader;

    fn operations(&self) -> &'static [&'static str] {
        &["read"]
    }

    fn user(&self, number: usize) -> Result<TableReader, WorkError> {
        // users begin far from each other: the golden section of the table
        let next = (number as f64 * 0.618_034).fract() * self.table.batches() as f64;
        Ok(TableReader { next: next as u64, buffer: self.table.buffer() })
    }

    fn operate(&self, user: &mut TableReader, _: &mut Rng) -> Result<(usize, u64), WorkError> {
        self.table.read(user.next % self.table.batches(), &mut user.buffer)?;
        user.next += 1;
        Ok((0, user.buffer.len() as u64))
    }
}
