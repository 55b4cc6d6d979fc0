//! Transaction workload: rows in pages of 8 KiB, chosen by Zipf's law, are read and changed, and each commit waits for
//! a log. The changes of a transaction are in the log before its commit completes, and in the pages afterwards;
//! simultaneous commits share one sync. At a checkpoint the pages are synced, and the log starts over.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use diskwright_base::Rng;
use diskwright_base::zipf::{Zipf, scatter_rank};

use crate::files::WorkFile;
use crate::users::Work;
use crate::{WorkError, check_stop, io_error, page};

/// Size of a page, bytes.
pub const PAGE_BYTES: usize = 8192;
/// Number of locks over the pages.
const LOCK_STRIPES: usize = 1024;
/// Size of a changed row in the log, bytes.
const RECORD_BYTES: usize = 128;
/// Largest number of pages that a transaction reads, because a transaction cannot be stopped.
const MAX_READS: u32 = 100_000;
/// Bytes of log between checkpoints.
const CHECKPOINT_INTERVAL_BYTES: u64 = 64 << 20;

/// Parameters of a database.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Bytes of all pages.
    pub data_bytes: u64,
    /// Number of pages that a transaction reads.
    pub reads: u32,
    /// Number of pages that an updating transaction changes.
    pub writes: u32,
    /// Share of transactions that change pages.
    pub write_share: f64,
    /// Exponent of Zipf's law, by which pages are chosen.
    pub skew: f64,
}

impl Default for DatabaseOptions {
    fn default() -> DatabaseOptions {
        DatabaseOptions { data_bytes: 256 << 20, reads: 4, writes: 2, write_share: 0.5, skew: 0.9 }
    }
}

/// State of the log. Its ends are bytes written since the workload began.
#[derive(Debug, Default)]
struct LogState {
    written_end: u64,
    synced_end: u64,
    /// A thread is syncing the log.
    is_syncing: bool,
    /// End of the log at the last checkpoint.
    checkpoint_end: u64,
    /// A sync has failed, so no further commit is safe.
    has_failed: bool,
}

/// A database.
pub struct Database {
    options: DatabaseOptions,
    pages: u64,
    zipf: Zipf,
    data: WorkFile,
    log: WorkFile,
    state: Mutex<LogState>,
    /// Notified after each sync of the log.
    synced: Condvar,
    /// Version of each page, in stripes, each of which is locked while one of its pages is used. Page `n` is entry
    /// `n / LOCK_STRIPES` of stripe `n % LOCK_STRIPES`.
    versions: Vec<Mutex<Vec<u32>>>,
}

fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // a panic elsewhere has ended the workload already
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Database {
    /// Creates the pages in one folder and the log in another.
    ///
    /// # Errors
    /// When the files cannot be made, or the workload is stopped.
    pub fn create(
        options: &DatabaseOptions,
        data: &Path,
        log: &Path,
        stop: &AtomicBool,
    ) -> Result<Database, WorkError> {
        let pages = options.data_bytes / PAGE_BYTES as u64;
        let DatabaseOptions { reads, writes, write_share, .. } = *options;
        if pages < LOCK_STRIPES as u64 || !(0.0..=1.0).contains(&write_share) || !(writes..=MAX_READS).contains(&reads)
        {
            let message = format!(
                "a database needs at least 8 MiB, a share of updates from 0 to 1, and up to {MAX_READS} reads, not \
                 fewer than writes"
            );
            return Err(WorkError::Usage(message));
        }
        let (data, log) = (WorkFile::create(data)?, WorkFile::create(log)?);
        let mut buffer = vec![0; PAGE_BYTES * 128];
        for first in (0..pages).step_by(128) {
            check_stop(stop)?;
            let count = (pages - first).min(128) as usize;
            let pages = buffer.chunks_exact_mut(PAGE_BYTES).take(count).zip(first..);
            pages.for_each(|(bytes, number)| page::fill_page(bytes, number, 0));
            let bytes = &buffer[..count * PAGE_BYTES];
            data.file()
                .write_all_at(bytes, first * PAGE_BYTES as u64)
                .map_err(io_error(data.path(), "pages cannot be written"))?;
        }
        data.file().sync_all().map_err(io_error(data.path(), "cannot be synced"))?;
        let stripe = |number: usize| Mutex::new(vec![0; (pages as usize - number).div_ceil(LOCK_STRIPES)]);
        Ok(Database {
            options: options.clone(),
            pages,
            zipf: Zipf::new(pages, options.skew),
            data,
            log,
            state: Mutex::default(),
            synced: Condvar::new(),
            versions: (0..LOCK_STRIPES).map(stripe).collect(),
        })
    }

    /// Returns the largest number of bytes of the pages and of the log.
    #[must_use]
    pub fn max_needed_bytes(options: &DatabaseOptions) -> (u64, u64) {
        (options.data_bytes, 2 * CHECKPOINT_INTERVAL_BYTES)
    }

    fn page_error(&self, number: u64, fault: impl std::fmt::Display) -> WorkError {
        WorkError::VerificationFailed(format!("{}: page {number}: {fault}", self.data.path().display()))
    }

    /// Reads a page whose stripe is locked, and checks it against the version written last.
    fn read_page(&self, number: u64, version: u32, buffer: &mut [u8]) -> Result<(), WorkError> {
        let result = self.data.file().read_exact_at(buffer, number * PAGE_BYTES as u64);
        result.map_err(io_error(self.data.path(), "a page cannot be read"))?;
        match page::check_page(buffer, number) {
            Ok(found) if found == u64::from(version) => Ok(()),
            Ok(found) => Err(self.page_error(number, format_args!("version {found} of {version}: a write was lost"))),
            Err(fault) => Err(self.page_error(number, fault)),
        }
    }

    /// Runs a transaction that only reads.
    fn run_query(&self, user: &mut DatabaseUser, rng: &mut Rng) -> Result<u64, WorkError> {
        for _ in 0..self.options.reads {
            let number = self.draw_page(rng);
            let versions = lock_ignoring_poison(&self.versions[number as usize % LOCK_STRIPES]);
            self.read_page(number, versions[number as usize / LOCK_STRIPES], &mut user.page)?;
        }
        Ok(u64::from(self.options.reads) * PAGE_BYTES as u64)
    }

    /// Runs a transaction that changes rows of some pages.
    fn run_update(&self, user: &mut DatabaseUser, rng: &mut Rng) -> Result<u64, WorkError> {
        let mut numbers: Vec<u64> = (0..self.options.reads).map(|_| self.draw_page(rng)).collect();
        numbers.sort_unstable_by_key(|number| (number % LOCK_STRIPES as u64, *number));
        numbers.dedup_by_key(|number| *number % LOCK_STRIPES as u64);
        // all transactions lock stripes in the same order, and each stripe once, which prevents deadlocks
        let mut stripes: Vec<_> = numbers
            .iter()
            .map(|number| lock_ignoring_poison(&self.versions[*number as usize % LOCK_STRIPES]))
            .collect();
        let changes = (self.options.writes as usize).min(numbers.len());
        let mut pages = vec![vec![0; PAGE_BYTES]; changes];
        for (index, number) in numbers.iter().enumerate() {
            let version = stripes[index][*number as usize / LOCK_STRIPES];
            let buffer = pages.get_mut(index).unwrap_or(&mut user.page);
            self.read_page(*number, version, buffer)?;
        }
        let mut records = Vec::with_capacity(changes * RECORD_BYTES);
        for (page, number) in pages.iter_mut().zip(&numbers) {
            // rows begin after the header of the page, which has 24 bytes
            let row = 24 + rng.next_below((PAGE_BYTES - 24 - RECORD_BYTES) as u64) as usize;
            page[row..row + 8].copy_from_slice(&rng.next_u64().to_le_bytes());
            records.extend_from_slice(&page[row..row + RECORD_BYTES - 8]);
            records.extend_from_slice(&number.to_le_bytes());
        }
        self.commit(&records)?;
        for (index, (page, number)) in pages.iter_mut().zip(&numbers).enumerate() {
            let version = &mut stripes[index][*number as usize / LOCK_STRIPES];
            page::stamp_page(page, *number, u64::from(*version) + 1);
            let result = self.data.file().write_all_at(page, number * PAGE_BYTES as u64);
            result.map_err(io_error(self.data.path(), "a page cannot be written"))?;
            *version += 1;
        }
        Ok(((numbers.len() + changes) * PAGE_BYTES) as u64 + records.len() as u64)
    }

    fn draw_page(&self, rng: &mut Rng) -> u64 {
        scatter_rank(self.zipf.draw_rank(rng), self.pages)
    }

    /// Appends records to the log, and waits until they are synced: by this thread, or by another thread's sync that
    /// began after they were written.
    fn commit(&self, records: &[u8]) -> Result<(), WorkError> {
        let mut state = lock_ignoring_poison(&self.state);
        let result = self.log.file().write_all_at(records, state.written_end % (2 * CHECKPOINT_INTERVAL_BYTES));
        result.map_err(io_error(self.log.path(), "the log cannot be written"))?;
        state.written_end += records.len() as u64;
        let commit_end = state.written_end;
        while state.synced_end < commit_end {
            if state.has_failed {
                return Err(WorkError::VerificationFailed("a sync of the log failed before this commit".into()));
            }
            if state.is_syncing {
                state = self.synced.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_syncing = true;
            let end = state.written_end;
            let is_checkpoint = end - state.checkpoint_end >= CHECKPOINT_INTERVAL_BYTES;
            drop(state);
            let result = self.sync_log(is_checkpoint);
            state = lock_ignoring_poison(&self.state);
            state.is_syncing = false;
            match &result {
                Ok(()) => state.synced_end = state.synced_end.max(end),
                Err(_) => state.has_failed = true,
            }
            if is_checkpoint {
                state.checkpoint_end = end;
            }
            self.synced.notify_all();
            result?;
        }
        Ok(())
    }

    /// Syncs the log, and at a checkpoint also the pages.
    fn sync_log(&self, is_checkpoint: bool) -> Result<(), WorkError> {
        self.log.file().sync_data().map_err(io_error(self.log.path(), "the log cannot be synced"))?;
        if is_checkpoint {
            self.data.file().sync_data().map_err(io_error(self.data.path(), "pages cannot be synced"))?;
        }
        Ok(())
    }

    /// Reads all pages from their device, and checks that each is intact, in its place, and of the expected version.
    ///
    /// # Errors
    /// The first faulty page.
    pub fn verify_pages(&self, stop: &AtomicBool) -> Result<(), WorkError> {
        self.data.sync_and_drop_cache()?;
        let mut bytes = vec![0; PAGE_BYTES];
        for number in 0..self.pages {
            check_stop(stop)?;
            let versions = lock_ignoring_poison(&self.versions[number as usize % LOCK_STRIPES]);
            self.read_page(number, versions[number as usize / LOCK_STRIPES], &mut bytes)?;
        }
        Ok(())
    }
}

/// State of one user of a database.
pub struct DatabaseUser {
    page: Vec<u8>,
}

impl Work for Database {
    type User = DatabaseUser;

    fn operation_names(&self) -> &'static [&'static str] {
        &["query", "update"]
    }

    fn create_user(&self, _: usize) -> Result<DatabaseUser, WorkError> {
        Ok(DatabaseUser { page: vec![0; PAGE_BYTES] })
    }

    fn run_operation(&self, user: &mut DatabaseUser, rng: &mut Rng) -> Result<(usize, u64), WorkError> {
        if rng.next_bool(self.options.write_share) {
            return self.run_update(user, rng).map(|bytes| (1, bytes));
        }
        self.run_query(user, rng).map(|bytes| (0, bytes))
    }
}
