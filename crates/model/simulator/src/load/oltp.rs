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

mod dirty;

use diskwright_base::Rng;

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};
use crate::load::place::PlaceGenerator;
use crate::load::tally::Operations;
use crate::load::{AccessPattern, Cause, DurationDistribution, LoadError, LoadRequest, Region, TargetPart};

use dirty::Dirty;

/// Size of a page.
const PAGE_BYTES: u64 = 8192;
const PAGE: u64 = PAGE_BYTES / BLOCK_BYTES;
const MOST_USERS: u32 = 1 << 20;
/// Largest database, pages (4 TiB); each page takes a bit of memory.
const MOST_PAGES: u64 = 1 << 29;
const TRANSACTION: usize = 0;
const CHECKPOINT: usize = 1;

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
    /// Share of them found in the buffer cache.
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
    /// Time from the end of a checkpoint to the next one, s; 0: no checkpoints.
    pub checkpoint_s: f64,
    /// Largest number of writes in flight of a checkpoint, and of the lazy writer.
    pub most_outstanding: u32,
    /// Largest write of neighbouring dirty pages together, bytes.
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
    began: Ns,
    /// Pages left to access, and how many of those to change.
    pages: u32,
    changes: u32,
    /// True while it waits for the log.
    commits: bool,
}

/// A transactional load in progress. Agents: the users, then the log writer, the checkpoint timer, the checkpoint's
/// writes, and the lazy writer's.
#[derive(Clone, Debug)]
pub struct Oltp {
    spec: OltpSpec,
    places: PlaceGenerator,
    data_first: u64,
    log_first: u64,
    log_blocks: u64,
    log_next: u64,
    dirty: Dirty,
    users: Vec<OltpUser>,
    /// Users whose commit waits for the log writer, and those whose commit is being written.
    committing: Vec<u32>,
    written: Vec<u32>,
    log_busy: bool,
    /// Next page of the running checkpoint, and its writes in flight.
    sweep: Option<u64>,
    sweep_out: u32,
    sweep_began: Ns,
    lazy_out: u32,
    operations: Vec<Operations>,
    over: u32,
    left: u64,
    dice: Rng,
}

impl Oltp {
    pub(super) fn new(spec: &OltpSpec, target_blocks: &[u64], rng: Rng) -> Result<Oltp, LoadError> {
        check(spec)?;
        let (data_first, data_blocks) = spec.data.stretch(target_blocks, "data")?;
        let (log_first, log_blocks) = spec.log.stretch(target_blocks, "log")?;
        let pages = data_blocks / PAGE;
        if !(1..=MOST_PAGES).contains(&pages) {
            return Err(LoadError::new("data", format!("{pages} pages of 8 KB; expected 1 to {MOST_PAGES}")));
        }
        if log_blocks * BLOCK_BYTES < spec.most_log_bytes {
            return Err(LoadError::new("log", "the area must hold the longest log write"));
        }
        Ok(Oltp {
            places: PlaceGenerator::new(&spec.access, (data_first, pages * PAGE), PAGE, PAGE, spec.users)?,
            data_first,
            log_first,
            log_blocks,
            log_next: 0,
            dirty: Dirty::new(pages),
            users: vec![OltpUser::default(); spec.users as usize],
            committing: Vec::with_capacity(spec.users as usize),
            written: Vec::with_capacity(spec.users as usize),
            log_busy: false,
            sweep: None,
            sweep_out: 0,
            sweep_began: 0,
            lazy_out: 0,
            operations: ["transaction", "checkpoint"].map(Operations::new).into(),
            over: 0,
            left: spec.most_operations.unwrap_or(u64::MAX),
            spec: spec.clone(),
            dice: rng,
        })
    }

    pub(super) fn next(&mut self, now: Ns, agent: u32, cause: Cause, requests: &mut Vec<LoadRequest>) {
        match agent.checked_sub(self.spec.users) {
            None if cause == Cause::Start => {
                self.begin(now, agent, requests);
                if agent == 0 && self.spec.checkpoint_s > 0.0 {
                    self.await_checkpoint(now, requests);
                }
            }
            None => self.go_on(now, agent, requests),
            Some(0) => self.log_written(now, requests),
            Some(1) => self.checkpoint(now, requests),
            Some(2) => {
                self.sweep_out -= 1;
                self.sweep(now, requests);
            }
            Some(_) => self.lazy_out -= 1,
        }
    }

    fn begin(&mut self, now: Ns, agent: u32, requests: &mut Vec<LoadRequest>) {
        if self.left == 0 {
            self.over += 1;
            return;
        }
        self.left -= 1;
        let time = now.saturating_add(self.spec.think.draw_ns(&mut self.dice));
        self.operations[TRANSACTION].totals.begun += 1;
        self.users[agent as usize] =
            OltpUser { began: time, pages: self.spec.pages, changes: self.spec.changed, commits: false };
        self.page(time, agent, requests);
    }

    /// Accesses the next page of a user's transaction.
    fn page(&mut self, time: Ns, agent: u32, requests: &mut Vec<LoadRequest>) {
        let first = self.places.draw(agent, PAGE, &mut self.dice);
        let page = (first - self.data_first) / PAGE;
        let user = &mut self.users[agent as usize];
        // selection sampling: each remaining page is changed with probability changes left / pages left
        if self.dice.next_below(u64::from(user.pages)) < u64::from(user.changes) {
            user.changes -= 1;
            self.dirty.set(page);
        }
        user.pages -= 1;
        let compute = self.spec.compute.draw_ns(&mut self.dice);
        if self.dice.next_bool(self.spec.hit_share) {
            requests.push(LoadRequest::processor(time, agent, compute));
            return;
        }
        self.count(TRANSACTION, PAGE);
        requests.push(LoadRequest {
            compute,
            ..LoadRequest::request(time, agent, self.spec.data.target, Io::read(first, PAGE as u32))
        });
        self.give_way(time, requests);
    }

    /// Evicts a page for the one that is read, and writes it if it is dirty.
    fn give_way(&mut self, time: Ns, requests: &mut Vec<LoadRequest>) {
        let share = self.dirty.count() as f64 / self.spec.buffers as f64;
        if !self.dice.next_bool(share) || self.lazy_out >= self.spec.most_outstanding {
            return;
        }
        let from = self.dice.next_below(self.dirty.pages());
        let Some(page) = self.dirty.next(from).or_else(|| self.dirty.next(0)) else { return };
        self.dirty.clear(page);
        self.lazy_out += 1;
        self.count(TRANSACTION, PAGE);
        let io = Io::write(self.data_first + page * PAGE, PAGE as u32);
        requests.push(LoadRequest::request(time, self.spec.users + 3, self.spec.data.target, io));
    }

    fn go_on(&mut self, now: Ns, agent: u32, requests: &mut Vec<LoadRequest>) {
        let user = &mut self.users[agent as usize];
        if user.pages > 0 {
            self.page(now, agent, requests);
        } else if self.spec.changed > 0 && !user.commits {
            user.commits = true;
            self.committing.push(agent);
            self.log(now, requests);
        } else {
            self.operations[TRANSACTION].done(user.began, now);
            self.begin(now, agent, requests);
        }
    }

    /// Writes the log records of all waiting users, up to the largest log write.
    fn log(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) {
        if self.log_busy || self.committing.is_empty() {
            return;
        }
        let fit = (self.spec.most_log_bytes / self.spec.log_bytes).max(1) as usize;
        let now_written = fit.min(self.committing.len());
        self.written.extend(self.committing.drain(..now_written));
        let bytes = self.written.len() as u64 * self.spec.log_bytes;
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        if self.log_next + blocks > self.log_blocks {
            self.log_next = 0;
        }
        let io = Io::write(self.log_first + self.log_next, blocks as u32);
        self.log_next += blocks;
        self.log_busy = true;
        self.count(TRANSACTION, blocks);
        requests.push(LoadRequest::request(now, self.spec.users, self.spec.log.target, io));
    }

    fn log_written(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) {
        self.log_busy = false;
        let mut written = std::mem::take(&mut self.written);
        for agent in written.drain(..) {
            self.go_on(now, agent, requests);
        }
        self.written = written;
        self.log(now, requests);
    }

    fn await_checkpoint(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) {
        let wait = super::spell::ns(self.spec.checkpoint_s);
        if !self.finished() {
            requests.push(LoadRequest::alarm(now.saturating_add(wait), self.spec.users + 1));
        }
    }

    fn checkpoint(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) {
        (self.sweep, self.sweep_began) = (Some(0), now);
        self.operations[CHECKPOINT].totals.begun += 1;
        self.sweep(now, requests);
    }

    /// Goes on writing dirty pages in address order, as far as the limit of writes in flight allows.
    fn sweep(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) {
        let Some(mut from) = self.sweep else { return };
        while self.sweep_out < self.spec.most_outstanding {
            let Some(page) = self.dirty.next(from) else {
                if self.sweep_out == 0 {
                    self.sweep = None;
                    self.operations[CHECKPOINT].done(self.sweep_began, now);
                    self.await_checkpoint(now, requests);
                } else {
                    self.sweep = Some(self.dirty.pages());
                }
                return;
            };
            let max_pages = self.spec.most_write_bytes / PAGE_BYTES;
            let mut end = page;
            while end - page < max_pages && self.dirty.is(end) {
                self.dirty.clear(end);
                end += 1;
            }
            from = end;
            self.sweep_out += 1;
            let blocks = (end - page) * PAGE;
            self.count(CHECKPOINT, blocks);
            let io = Io::write(self.data_first + page * PAGE, blocks as u32);
            requests.push(LoadRequest::request(now, self.spec.users + 2, self.spec.data.target, io));
        }
        self.sweep = Some(from);
    }

    fn count(&mut self, class: usize, blocks: u64) {
        let totals = &mut self.operations[class].totals;
        totals.requests += 1;
        totals.bytes += blocks * BLOCK_BYTES;
    }

    pub(super) fn users(&self) -> u32 {
        self.spec.users
    }

    pub(super) fn finished(&self) -> bool {
        self.over == self.spec.users
    }

    pub(super) fn operations(&self) -> &[Operations] {
        &self.operations
    }

    pub(super) fn operations_mut(&mut self) -> &mut [Operations] {
        &mut self.operations
    }
}

fn check(spec: &OltpSpec) -> Result<(), LoadError> {
    let numbers = [
        ("users", u64::from(spec.users), 1, u64::from(MOST_USERS)),
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
    spec.think.check("think")?;
    spec.compute.check("compute")
}
