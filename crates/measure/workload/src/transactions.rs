//! Transaction workload: rows of 8 KiB pages, chosen by Zipf's law, read and changed; a log that each commit waits for.
//! Changes of a transaction are in the log before its commit completes, and in the pages afterwards; simultaneous
//! commits share one sync. At a checkpoint the pages are synced, and the log starts over.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use diskwright_base::Rng;
use diskwright_base::zipf::{Zipf, scatter_rank};

use crate::files::WorkFile;
use crate::users::Work;
use crate::{WorkError, go_on, io, page};

/// Size of a page.
pub const PAGE: usize = 8192;
/// Number of locks over the pages.
const STRIPES: usize = 1024;
/// Size of a changed row in the log.
const RECORD: usize = 128;
/// Largest number of pages that a transaction reads; it cannot be stopped in between.
const MOST_READS: u32 = 100_000;
/// Bytes of log between checkpoints.
const CHECKPOINT: u64 = 64 << 20;

/// Parameters of a database.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Bytes of pages.
    pub bytes: u64,
    /// Pages that a transaction reads.
    pub reads: u32,
    /// Pages that an updating transaction changes.
    pub writes: u32,
    /// Share of transactions that change pages.
    pub write_share: f64,
    /// Exponent of Zipf's law.
    pub skew: f64,
}

impl Default for DatabaseOptions {
    fn default() -> DatabaseOptions {
        DatabaseOptions { bytes: 256 << 20, reads: 4, writes: 2, write_share: 0.5, skew: 0.9 }
    }
}

/// State of the log, in bytes: written, synced, and whether a thread is syncing.
#[derive(Debug, Default)]
struct LogState {
    end: u64,
    safe: u64,
    syncing: bool,
    /// End of the log at the last checkpoint.
    begin: u64,
    /// True after a failed sync: no further commit is safe.
    failed: bool,
}

/// A database.
pub struct Database {
    options: DatabaseOptions,
    pages: u64,
    zipf: Zipf,
    data: WorkFile,
    log: WorkFile,
    state: Mutex<LogState>,
    synced: Condvar,
    /// Version of each page, in stripes that are locked for a change.
    versions: Vec<Mutex<Vec<u32>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
        let pages = options.bytes / PAGE as u64;
        let DatabaseOptions { reads, writes, write_share, .. } = *options;
        if pages < STRIPES as u64 || !(0.0..=1.0).contains(&write_share) || !(writes..=MOST_READS).contains(&reads) {
            let why = format!(
                "a database needs at least 8 MiB, a share of updates from 0 to 1, and up to {MOST_READS} reads, not \
                 fewer than writes"
            );
            return Err(WorkError::Usage(why));
        }
        let (data, log) = (WorkFile::create(data)?, WorkFile::create(log)?);
        let mut part = vec![0; PAGE * 128];
        for first in (0..pages).step_by(128) {
            go_on(stop)?;
            let count = (pages - first).min(128) as usize;
            let pages = part.chunks_exact_mut(PAGE).take(count).zip(first..);
            pages.for_each(|(bytes, number)| page::make(bytes, number, 0));
            let bytes = &part[..count * PAGE];
            data.file().write_all_at(bytes, first * PAGE as u64).map_err(io(data.path(), "pages cannot be written"))?;
        }
        data.file().sync_all().map_err(io(data.path(), "cannot be synced"))?;
        let stripe = |number: usize| Mutex::new(vec![0; (pages as usize - number).div_ceil(STRIPES)]);
        Ok(Database {
            options: options.clone(),
            pages,
            zipf: Zipf::new(pages, options.skew),
            data,
            log,
            state: Mutex::default(),
            synced: Condvar::new(),
            versions: (0..STRIPES).map(stripe).collect(),
        })
    }

    /// Returns the largest number of bytes of the pages and of the log.
    #[must_use]
    pub fn needed(options: &DatabaseOptions) -> (u64, u64) {
        (options.bytes, 2 * CHECKPOINT)
    }

    fn fault(&self, number: u64, fault: impl std::fmt::Display) -> WorkError {
        WorkError::Wrong(format!("{}: page {number}: {fault}", self.data.path().display()))
    }

    /// Reads a page whose stripe is locked, and checks it against the version written last.
    fn read(&self, number: u64, version: u32, into: &mut [u8]) -> Result<(), WorkError> {
        let result = self.data.file().read_exact_at(into, number * PAGE as u64);
        result.map_err(io(self.data.path(), "a page cannot be read"))?;
        match page::check(into, number) {
            Ok(found) if found == u64::from(version) => Ok(()),
            Ok(found) => Err(self.fault(number, format_args!("version {found} of {version}: a write was lost"))),
            Err(fault) => Err(self.fault(number, fault)),
        }
    }

    /// Runs a transaction that only reads.
    fn query(&self, user: &mut DatabaseUser, rng: &mut Rng) -> Result<u64, WorkError> {
        for _ in 0..self.options.reads {
            let number = self.draw(rng);
            let versions = lock(&self.versions[number as usize % STRIPES]);
            self.read(number, versions[number as usize / STRIPES], &mut user.page)?;
        }
        Ok(u64::from(self.options.reads) * PAGE as u64)
    }

    /// Runs a transaction that changes rows of some pages.
    fn change(&self, user: &mut DatabaseUser, rng: &mut Rng) -> Result<u64, WorkError> {
        let mut numbers: Vec<u64> = (0..self.options.reads).map(|_| self.draw(rng)).collect();
        numbers.sort_unstable_by_key(|number| (number % STRIPES as u64, *number));
        numbers.dedup_by_key(|number| *number % STRIPES as u64);
        // all transactions lock stripes in the same order, which prevents deadlocks
        let mut stripes: Vec<_> =
            numbers.iter().map(|number| lock(&self.versions[*number as usize % STRIPES])).collect();
        let changes = (self.options.writes as usize).min(numbers.len());
        let mut pages = vec![vec![0; PAGE]; changes];
        for (index, number) in numbers.iter().enumerate() {
            let version = stripes[index][*number as usize / STRIPES];
            let into = pages.get_mut(index).unwrap_or(&mut user.page);
            self.read(*number, version, into)?;
        }
        let mut records = Vec::with_capacity(changes * RECORD);
        for (page, number) in pages.iter_mut().zip(&numbers) {
            let row = 24 + rng.next_below((PAGE - 24 - RECORD) as u64) as usize;
            page[row..row + 8].copy_from_slice(&rng.next_u64().to_le_bytes());
            records.extend_from_slice(&page[row..row + RECORD - 8]);
            records.extend_from_slice(&number.to_le_bytes());
        }
        self.commit(&records)?;
        for (index, (page, number)) in pages.iter_mut().zip(&numbers).enumerate() {
            let version = &mut stripes[index][*number as usize / STRIPES];
            page::stamp(page, *number, u64::from(*version) + 1);
            let result = self.data.file().write_all_at(page, number * PAGE as u64);
            result.map_err(io(self.data.path(), "a page cannot be written"))?;
            *version += 1;
        }
        Ok(((numbers.len() + changes) * PAGE) as u64 + records.len() as u64)
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        scatter_rank(self.zipf.draw_rank(rng), self.pages)
    }

    /// Appends records to the log, and waits until they are synced: by this thread, or by another thread's sync that
    /// began after they were written.
    fn commit(&self, records: &[u8]) -> Result<(), WorkError> {
        let mut state = lock(&self.state);
        let result = self.log.file().write_all_at(records, state.end % (2 * CHECKPOINT));
        result.map_err(io(self.log.path(), "the log cannot be written"))?;
        state.end += records.len() as u64;
        let own = state.end;
        while state.safe < own {
            if state.failed {
                return Err(WorkError::Wrong("a sync of the log failed before this commit".into()));
            }
            if state.syncing {
                state = self.synced.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.syncing = true;
            let (end, checkpoint) = (state.end, state.end - state.begin >= CHECKPOINT);
            drop(state);
            let result = self.sync(checkpoint);
            state = lock(&self.state);
            state.syncing = false;
            match &result {
                Ok(()) => state.safe = state.safe.max(end),
                Err(_) => state.failed = true,
            }
            if checkpoint {
                state.begin = end;
            }
            self.synced.notify_all();
            result?;
        }
        Ok(())
    }

    fn sync(&self, checkpoint: bool) -> Result<(), WorkError> {
        self.log.file().sync_data().map_err(io(self.log.path(), "the log cannot be synced"))?;
        if checkpoint {
            self.data.file().sync_data().map_err(io(self.data.path(), "pages cannot be synced"))?;
        }
        Ok(())
    }

    /// Reads all pages from their device, and checks that each is intact, in its place, and of the expected version.
    ///
    /// # Errors
    /// The first faulty page.
    pub fn verify(&self, stop: &AtomicBool) -> Result<(), WorkError> {
        self.data.leave_cache()?;
        let mut bytes = vec![0; PAGE];
        for number in 0..self.pages {
            go_on(stop)?;
            let versions = lock(&self.versions[number as usize % STRIPES]);
            self.read(number, versions[number as usize / STRIPES], &mut bytes)?;
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

    fn operations(&self) -> &'static [&'static str] {
        &["query", "update"]
    }

    fn user(&self, _: usize) -> Result<DatabaseUser, WorkError> {
        Ok(DatabaseUser { page: vec![0; PAGE] })
    }

    fn operate(&self, user: &mut DatabaseUser, rng: &mut Rng) -> Result<(usize, u64), WorkError> {
        if rng.next_bool(self.options.write_share) {
            return self.change(user, rng).map(|bytes| (1, bytes));
        }
        self.query(user, rng).map(|bytes| (0, bytes))
    }
}
