//! Transactions on SQL Server: users read random pages, most of them from the buffer cache, change some and commit.
//! A log writer writes the commits of all users in order, a lazy writer the dirty pages that are evicted, and a
//! periodic checkpoint all dirty pages.
//!
//! Pages are 8 KB, read and written one by one by worker threads, lazy writer and checkpoint (InfoStor 1999;
//! Microsoft, SQL Server 7.0 performance tuning, MSDN Library of April 2000). Log records are written sequentially,
//! whole sectors up to 60 KB at a time (Microsoft, TechEd 2006 DAT334, as quoted at
//! prodata.ie/2010/08/08/sql-io-characteristics; that table has data pages written up to 256 KB together, which
//! `most_write_bytes` allows for later versions). Writes of a checkpoint in flight: "max async I/O", 32 (InfoStor
//! 1999).

mod page_set;

use diskwright_base::Rng;

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};
use crate::load::operation_totals::Operations;
use crate::load::placement::PlaceGenerator;
use crate::load::{AccessPattern, Cause, DurationDistribution, LoadError, LoadRequest, Region, TargetPart};

use page_set::PageSet;

/// Size of a page.
const PAGE_BYTES: u64 = 8192;
const PAGE_BLOCKS: u64 = PAGE_BYTES / BLOCK_BYTES;
const MAX_USERS: u32 = 1 << 20;
/// Largest database, pages (4 TiB); each page takes a bit of memory.
const MAX_PAGES: u64 = 1 << 29;
const TRANSACTION_CLASS: usize = 0;
const CHECKPOINT_CLASS: usize = 1;

/// A transactional load.
#[derive(Clone, Debug, PartialEq)]
pub struct OltpSpec {
    /// Number of users.
    pub users: u32,
    /// Think time between a transaction's end and the next one.
    pub think: DurationDistribution,
    /// Area of the database.
    pub data: Region,
    /// Distribution of accesses over the pages.
    pub access: AccessPattern,
    /// Pages that a transaction accesses, one after another.
    pub pages: u32,
    /// Share of these pages found in the buffer cache.
    pub hit_share: f64,
    /// Number of these pages that a transaction changes.
    pub changed: u32,
    /// Size of the buffer cache, pages.
    pub buffers: u64,
    /// Processor time for each page.
    pub compute: DurationDistribution,
    /// Area of the log, written circularly.
    pub log: Region,
    /// Log record of a transaction that changes pages, bytes.
    pub log_bytes: u64,
    /// Largest log write, bytes.
    pub most_log_bytes: u64,
    /// Time from the end of a checkpoint to the next one, s; 0 means no checkpoints.
    pub checkpoint_s: f64,
    /// Largest number of writes that a checkpoint has in flight; the same for the lazy writer.
    pub most_outstanding: u32,
    /// Largest write of neighboring dirty pages together, bytes.
    pub most_write_bytes: u64,
    /// Number of transactions after which the load ends.
    pub most_operations: Option<u64>,
}

impl Default for OltpSpec {
    /// One user; ten pages a transaction, 90 % of them in the cache, two changed; data and log on the first target.
    fn default() -> OltpSpec {
        OltpSpec {
            users: 1,
            think: DurationDistribution::NONE,
            data: Region { target: 0, part: TargetPart::Share { from: 0.0, to: 0.9 } },
            access: AccessPattern::Uniform,
            pages: 10,
            hit_share: 0.9,
            changed: 2,
            buffers: 8192,
            compute: DurationDistribution::NONE,
            log: Region { target: 0, part: TargetPart::Share { from: 0.9, to: 1.0 } },
            log_bytes: 1024,
            most_log_bytes: 61_440,
            checkpoint_s: 60.0,
            most_outstanding: 32,
            most_write_bytes: PAGE_BYTES,
            most_operations: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct OltpUser {
    begin_ns: Ns,
    /// Pages left to access.
    pages_left: u32,
    /// How many of these pages are to be changed.
    changes_left: u32,
    /// True while it waits for the log.
    is_committing: bool,
}

/// A transactional load in progress. Agents: the users, then the log writer, the checkpoint timer, the checkpoint's
/// writes, and the lazy writer's.
#[derive(Clone, Debug)]
pub struct Oltp {
    spec: OltpSpec,
    places: PlaceGenerator,
    data_first_block: u64,
    log_first_block: u64,
    log_blocks: u64,
    log_next_block: u64,
    dirty: PageSet,
    users: Vec<OltpUser>,
    /// Users whose commit waits for the log writer.
    committing: Vec<u32>,
    /// Users whose commit is being written.
    log_writing: Vec<u32>,
    log_busy: bool,
    /// Next page of the running checkpoint.
    sweep_page: Option<u64>,
    /// Writes of the checkpoint in flight.
    sweep_in_flight: u32,
    sweep_begin_ns: Ns,
    lazy_in_flight: u32,
    operations: Vec<Operations>,
    finished_users: u32,
    transactions_left: u64,
    rng: Rng,
}

impl Oltp {
    pub(super) fn new(spec: &OltpSpec, target_blocks: &[u64], rng: Rng) -> Result<Oltp, LoadError> {
        check_limits(spec)?;
        let (data_first, data_blocks) = spec.data.resolve_blocks(target_blocks, "data")?;
        let (log_first, log_blocks) = spec.log.resolve_blocks(target_blocks, "log")?;
        let pages = data_blocks / PAGE_BLOCKS;
        if !(1..=MAX_PAGES).contains(&pages) {
            return Err(LoadError::new("data", format!("{pages} pages of 8 KiB; expected 1 to {MAX_PAGES}")));
        }
        if log_blocks * BLOCK_BYTES < spec.most_log_bytes {
            return Err(LoadError::new("log", "the area must hold the longest log write"));
        }
        Ok(Oltp {
            places: PlaceGenerator::new(
                &spec.access,
                (data_first, pages * PAGE_BLOCKS),
                PAGE_BLOCKS,
                PAGE_BLOCKS,
                spec.users,
            )?,
            data_first_block: data_first,
            log_first_block: log_first,
            log_blocks,
            log_next_block: 0,
            dirty: PageSet::new(pages),
            users: vec![OltpUser::default(); spec.users as usize],
            committing: Vec::with_capacity(spec.users as usize),
            log_writing: Vec::with_capacity(spec.users as usize),
            log_busy: false,
            sweep_page: None,
            sweep_in_flight: 0,
            sweep_begin_ns: 0,
            lazy_in_flight: 0,
            operations: ["transaction", "checkpoint"].map(Operations::new).into(),
            finished_users: 0,
            transactions_left: spec.most_operations.unwrap_or(u64::MAX),
            spec: spec.clone(),
            rng,
        })
    }

    pub(super) fn next(&mut self, now: Ns, agent: u32, cause: Cause, requests: &mut Vec<LoadRequest>) {
        match agent.checked_sub(self.spec.users) {
            None if cause == Cause::Start => {
                self.begin_transaction(now, agent, requests);
                if agent == 0 && self.spec.checkpoint_s > 0.0 {
                    self.schedule_checkpoint(now, requests);
                }
            }
            None => self.continue_transaction(now, agent, requests),
            Some(0) => self.finish_log_write(now, requests),
            Some(1) => self.begin_checkpoint(now, requests),
            Some(2) => {
                debug_assert!(self.sweep_in_flight > 0, "a checkpoint's write completes that was not in flight");
                self.sweep_in_flight -= 1;
                self.write_dirty_pages(now, requests);
            }
            Some(other) => {
                debug_assert!(other == 3, "there is no agent {agent}");
                debug_assert!(self.lazy_in_flight > 0, "a lazy write completes that was not in flight");
                self.lazy_in_flight -= 1;
            }
        }
    }

    fn begin_transaction(&mut self, now: Ns, agent: u32, requests: &mut Vec<LoadRequest>) {
        if self.transactions_left == 0 {
            self.finished_users += 1;
            return;
        }
        self.transactions_left -= 1;
        let time = now.saturating_add(self.spec.think.draw_ns(&mut self.rng));
        self.operations[TRANSACTION_CLASS].totals.begun += 1;
        self.users[agent as usize] = OltpUser {
            begin_ns: time,
            pages_left: self.spec.pages,
            changes_left: self.spec.changed,
            is_committing: false,
        };
        self.access_page(time, agent, requests);
    }

    /// Accesses the next page of a user's transaction.
    fn access_page(&mut self, time: Ns, agent: u32, requests: &mut Vec<LoadRequest>) {
        let first = self.places.draw(agent, PAGE_BLOCKS, &mut self.rng);
        let page = (first - self.data_first_block) / PAGE_BLOCKS;
        let user = &mut self.users[agent as usize];
        debug_assert!(user.pages_left > 0, "user {agent} accesses a page too many");
        // selection sampling: each remaining page is changed with probability changes left / pages left
        if self.rng.next_below(u64::from(user.pages_left)) < u64::from(user.changes_left) {
            user.changes_left -= 1;
            self.dirty.insert(page);
        }
        user.pages_left -= 1;
        let compute = self.spec.compute.draw_ns(&mut self.rng);
        if self.rng.next_bool(self.spec.hit_share) {
            requests.push(LoadRequest::processor_time(time, agent, compute));
            return;
        }
        self.count_request(TRANSACTION_CLASS, PAGE_BLOCKS);
        requests.push(LoadRequest {
            compute_ns: compute,
            ..LoadRequest::awaited_io(time, agent, self.spec.data.target, Io::read(first, PAGE_BLOCKS as u32))
        });
        self.evict_page(time, requests);
    }

    /// Evicts a page for the one that is read, and writes it if it is dirty.
    fn evict_page(&mut self, time: Ns, requests: &mut Vec<LoadRequest>) {
        let share = self.dirty.dirty_count() as f64 / self.spec.buffers as f64;
        if !self.rng.next_bool(share) || self.lazy_in_flight >= self.spec.most_outstanding {
            return;
        }
        let from = self.rng.next_below(self.dirty.page_count());
        let Some(page) = self.dirty.next_from(from).or_else(|| self.dirty.next_from(0)) else { return };
        self.dirty.remove(page);
        self.lazy_in_flight += 1;
        self.count_request(TRANSACTION_CLASS, PAGE_BLOCKS);
        let io = Io::write(self.data_first_block + page * PAGE_BLOCKS, PAGE_BLOCKS as u32);
        requests.push(LoadRequest::awaited_io(time, self.spec.users + 3, self.spec.data.target, io));
    }

    fn continue_transaction(&mut self, now: Ns, agent: u32, requests: &mut Vec<LoadRequest>) {
        let user = &mut self.users[agent as usize];
        if user.pages_left > 0 {
            self.access_page(now, agent, requests);
        } else if self.spec.changed > 0 && !user.is_committing {
            user.is_committing = true;
            self.committing.push(agent);
            self.write_log(now, requests);
        } else {
            self.operations[TRANSACTION_CLASS].record_done(user.begin_ns, now);
            self.begin_transaction(now, agent, requests);
        }
    }

    /// Writes the log records of all waiting users, up to the largest log write.
    fn write_log(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) {
        if self.log_busy || self.committing.is_empty() {
            return;
        }
        let max_records = (self.spec.most_log_bytes / self.spec.log_bytes).max(1) as usize;
        let record_count = max_records.min(self.committing.len());
        self.log_writing.extend(self.committing.drain(..record_count));
        let bytes = self.log_writing.len() as u64 * self.spec.log_bytes;
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        if self.log_next_block + blocks > self.log_blocks {
            self.log_next_block = 0;
        }
        let io = Io::write(self.log_first_block + self.log_next_block, blocks as u32);
        self.log_next_block += blocks;
        self.log_busy = true;
        self.count_request(TRANSACTION_CLASS, blocks);
        requests.push(LoadRequest::awaited_io(now, self.spec.users, self.spec.log.target, io));
    }

    fn finish_log_write(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) {
        self.log_busy = false;
        let mut written = std::mem::take(&mut self.log_writing);
        for agent in written.drain(..) {
            self.continue_transaction(now, agent, requests);
        }
        self.log_writing = written;
        self.write_log(now, requests);
    }

    fn schedule_checkpoint(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) {
        let wait = super::duration_distribution::seconds_to_ns(self.spec.checkpoint_s);
        if !self.is_finished() {
            requests.push(LoadRequest::alarm_at(now.saturating_add(wait), self.spec.users + 1));
        }
    }

    fn begin_checkpoint(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) {
        (self.sweep_page, self.sweep_begin_ns) = (Some(0), now);
        self.operations[CHECKPOINT_CLASS].totals.begun += 1;
        self.write_dirty_pages(now, requests);
    }

    /// Continues the checkpoint: writes dirty pages in address order, up to the limit of writes in flight.
    fn write_dirty_pages(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) {
        let Some(mut from) = self.sweep_page else { return };
        while self.sweep_in_flight < self.spec.most_outstanding {
            let Some(page) = self.dirty.next_from(from) else {
                if self.sweep_in_flight == 0 {
                    self.sweep_page = None;
                    self.operations[CHECKPOINT_CLASS].record_done(self.sweep_begin_ns, now);
                    self.schedule_checkpoint(now, requests);
                } else {
                    self.sweep_page = Some(self.dirty.page_count());
                }
                return;
            };
            let max_pages = self.spec.most_write_bytes / PAGE_BYTES;
            let mut end = page;
            while end - page < max_pages && self.dirty.contains(end) {
                self.dirty.remove(end);
                end += 1;
            }
            from = end;
            self.sweep_in_flight += 1;
            let blocks = (end - page) * PAGE_BLOCKS;
            self.count_request(CHECKPOINT_CLASS, blocks);
            let io = Io::write(self.data_first_block + page * PAGE_BLOCKS, blocks as u32);
            requests.push(LoadRequest::awaited_io(now, self.spec.users + 2, self.spec.data.target, io));
        }
        self.sweep_page = Some(from);
    }

    fn count_request(&mut self, class: usize, blocks: u64) {
        let totals = &mut self.operations[class].totals;
        totals.requests += 1;
        totals.bytes += blocks * BLOCK_BYTES;
    }

    pub(super) fn user_count(&self) -> u32 {
        self.spec.users
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished_users == self.spec.users
    }

    pub(super) fn operations(&self) -> &[Operations] {
        &self.operations
    }

    pub(super) fn operations_mut(&mut self) -> &mut [Operations] {
        &mut self.operations
    }
}

fn check_limits(spec: &OltpSpec) -> Result<(), LoadError> {
    let numbers = [
        ("users", u64::from(spec.users), 1, u64::from(MAX_USERS)),
        ("pages", u64::from(spec.pages), 1, 1 << 20),
        ("changed", u64::from(spec.changed), 0, u64::from(spec.pages)),
        ("buffers", spec.buffers, 1, 1 << 40),
        ("log_bytes", spec.log_bytes, 1, spec.most_log_bytes),
        ("most_log_bytes", spec.most_log_bytes, BLOCK_BYTES, 1 << 30),
        ("most_outstanding", u64::from(spec.most_outstanding), 1, 1 << 20),
        ("most_write_bytes", spec.most_write_bytes, PAGE_BYTES, 1 << 30),
    ];
    for (item, number, min, max) in numbers {
        if !(min..=max).contains(&number) {
            return Err(LoadError::new(item, format!("{number}; expected {min} to {max}")));
        }
    }
    if !(0.0..=1.0).contains(&spec.hit_share) {
        return Err(LoadError::new("hit_share", format!("{}; expected a share from 0 to 1", spec.hit_share)));
    }
    if !(0.0..=1e9).contains(&spec.checkpoint_s) {
        return Err(LoadError::new("checkpoint_s", "expected 0 to 1e9 s; 0 means none"));
    }
    spec.think.check_limits("think")?;
    spec.compute.check_limits("compute")
}
