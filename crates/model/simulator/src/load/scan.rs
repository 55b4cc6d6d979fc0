//! Decision support on SQL Server: queries that scan tables with several worker
//! threads, each reading extents ahead of the one it computes on.
//!
//! Pages are 8 KB and extents 64 KB, scans are read in extents, "max async I/O"
//! bounds what is outstanding against a file at 32 reads (InfoStor 1999; Microsoft,
//! SQL Server 7.0 performance tuning, "Advertised Disk Transfer Rates and SQL
//! Server", MSDN Library of April 2000: read-ahead in 64 KB, worker threads,
//! checkpoint and lazy writer in 8 KB). How many extents a thread lies ahead is not
//! said of that version; [`ScanSpec::ahead`] has no more than a guess.

use std::collections::VecDeque;

use diskwright_base::Rng;

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};
use crate::load::tally::Operations;
use crate::load::{Cause, DurationDistribution, LoadError, LoadRequest, Region, TargetPart};

const MOST_USERS: u32 = 1 << 16;
const MOST_WORKERS: u32 = 1 << 15;
const MOST_FILES: usize = 1024;

/// Users who ask query after query.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanSpec {
    /// How many.
    pub users: u32,
    /// Between an answer and the next query.
    pub think: DurationDistribution,
    /// Files of the database, filled evenly: extents go round them.
    pub files: Vec<Region>,
    /// What a query reads, bytes, from an extent drawn evenly on.
    pub query_bytes: u64,
    /// Worker threads that share a query, each with its own stretch of the table.
    pub degree: u32,
    /// Worker threads in all ("max worker threads", 255 in SQL Server 7.0); queries wait for one.
    pub workers: u32,
    /// One read, bytes.
    pub extent_bytes: u64,
    /// Extents that a thread has under way or waiting for it, besides the one it computes on.
    pub ahead: u32,
    /// Most reads outstanding against a file ("max async I/O").
    pub most_outstanding: u32,
    /// Processor time for an extent.
    pub compute: DurationDistribution,
    /// Ends when so many queries were begun.
    pub most_operations: Option<u64>,
}

impl Default for ScanSpec {
    /// One user, scans of 64 MiB by one thread over the first target.
    fn default() -> ScanSpec {
        ScanSpec {
            users: 1,
            think: DurationDistribution::NONE,
            files: vec![Region { target: 0, part: TargetPart::All }],
            query_bytes: 64 << 20,
            degree: 1,
            workers: 255,
            extent_bytes: 65_536,
            ahead: 8,
            most_outstanding: 32,
            compute: DurationDistribution::NONE,
            most_operations: None,
        }
    }
}

/// A file: where it lies, and what waits for its turn.
#[derive(Clone, Debug)]
struct ScanFile {
    target: u16,
    first: u64,
    out: u32,
    waiting: VecDeque<(u32, u64)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ScanWorker {
    user: u32,
    /// Extents: the next to ask for, the one after the last, those read or under way, those that wait.
    next: u64,
    end: u64,
    out: u32,
    ready: u32,
    computing: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct ScanUser {
    began: Ns,
    first: u64,
    /// Worker threads still at it, and of the query those not yet begun.
    busy: u32,
}

/// Scans in progress. `who`: users, then of each worker one for reads of each file and one for the processor.
#[derive(Clone, Debug)]
pub struct Scan {
    spec: ScanSpec,
    files: Vec<ScanFile>,
    /// Extents of the database and of a query, blocks of an extent.
    extents: u64,
    query: u64,
    extent: u64,
    users: Vec<ScanUser>,
    workers: Vec<ScanWorker>,
    free: Vec<u32>,
    /// Users whose query waits for a thread.
    waiting: VecDeque<u32>,
    operations: Vec<Operations>,
    over: u32,
    left: u64,
    dice: Rng,
}

impl Scan {
    pub(super) fn new(spec: &ScanSpec, target_blocks: &[u64], dice: Rng) -> Result<Scan, LoadError> {
        check(spec)?;
        let extent = spec.extent_bytes / BLOCK_BYTES;
        let mut files = Vec::new();
        let mut least = u64::MAX;
        for file in &spec.files {
            let (first, blocks) = file.stretch(target_blocks, "files")?;
            least = least.min(blocks / extent);
            files.push(ScanFile { target: file.target, first, out: 0, waiting: VecDeque::new() });
        }
        let extents = least * files.len() as u64;
        let query = spec.query_bytes.div_ceil(spec.extent_bytes);
        if !(1..=extents).contains(&query) {
            let why = format!("{query} extents; the files have only {extents}");
            return Err(LoadError::new("query_bytes", why));
        }
        Ok(Scan {
            files,
            extents,
            query,
            extent,
            users: vec![ScanUser::default(); spec.users as usize],
            workers: vec![ScanWorker::default(); spec.workers as usize],
            free: (0..spec.workers).rev().collect(),
            waiting: VecDeque::new(),
            operations: vec![Operations::new("query")],
            over: 0,
            left: spec.most_operations.unwrap_or(u64::MAX),
            spec: spec.clone(),
            dice,
        })
    }

    pub(super) fn next(&mut self, now: Ns, who: u32, cause: Cause, asks: &mut Vec<LoadRequest>) {
        if let Some(thread) = who.checked_sub(self.spec.users) {
            let lanes = self.files.len() as u32 + 1;
            match (thread / lanes, (thread % lanes) as usize) {
                (worker, file) if file < self.files.len() => self.was_read(now, worker, file, asks),
                (worker, _) => self.computed(now, worker, asks),
            }
            return;
        }
        if cause == Cause::Start {
            self.think(now, who, asks);
        } else {
            self.begin(now, who, asks);
        }
    }

    fn think(&mut self, now: Ns, user: u32, asks: &mut Vec<LoadRequest>) {
        if self.left == 0 {
            self.over += 1;
            return;
        }
        self.left -= 1;
        asks.push(LoadRequest::alarm(now.saturating_add(self.spec.think.draw_ns(&mut self.dice)), user));
    }

    /// A user's query begins, or waits for a thread.
    fn begin(&mut self, now: Ns, user: u32, asks: &mut Vec<LoadRequest>) {
        self.operations[0].totals.begun += 1;
        let first = self.dice.below(self.extents - self.query + 1);
        self.users[user as usize] = ScanUser { began: now, first, busy: 0 };
        self.waiting.push_back(user);
        self.hand_out(now, asks);
    }

    /// Gives free threads to waiting queries: as many as each wants, or as there are.
    fn hand_out(&mut self, now: Ns, asks: &mut Vec<LoadRequest>) {
        while !self.free.is_empty() {
            let Some(user) = self.waiting.pop_front() else { return };
            let degree = u64::from(self.spec.degree).min(self.free.len() as u64).min(self.query);
            let first = self.users[user as usize].first;
            self.users[user as usize].busy = degree as u32;
            for part in 0..degree {
                let Some(worker) = self.free.pop() else { return };
                let border = |part: u64| first + self.query * part / degree;
                self.workers[worker as usize] =
                    ScanWorker { user, next: border(part), end: border(part + 1), ..ScanWorker::default() };
                self.read_ahead(now, worker, asks);
            }
        }
    }

    /// Asks for extents up to the distance that a thread lies ahead.
    fn read_ahead(&mut self, now: Ns, number: u32, asks: &mut Vec<LoadRequest>) {
        loop {
            let worker = &mut self.workers[number as usize];
            if worker.next == worker.end || worker.out + worker.ready >= self.spec.ahead {
                return;
            }
            let extent = worker.next;
            worker.next += 1;
            worker.out += 1;
            let file = self.file_of(extent);
            if self.files[file].out < self.spec.most_outstanding {
                self.request(now, number, extent, asks);
            } else {
                self.files[file].waiting.push_back((number, extent));
            }
        }
    }

    fn was_read(&mut self, now: Ns, number: u32, file: usize, asks: &mut Vec<LoadRequest>) {
        let worker = &mut self.workers[number as usize];
        worker.out -= 1;
        worker.ready += 1;
        self.files[file].out -= 1;
        if let Some((other, extent)) = self.files[file].waiting.pop_front() {
            self.request(now, other, extent, asks);
        }
        self.compute(now, number, asks);
    }

    fn file_of(&self, extent: u64) -> usize {
        (extent % self.files.len() as u64) as usize
    }

    fn request(&mut self, now: Ns, worker: u32, extent: u64, asks: &mut Vec<LoadRequest>) {
        let (number, lanes) = (self.file_of(extent), self.files.len() as u32 + 1);
        let file = &mut self.files[number];
        file.out += 1;
        let first = file.first + extent / u64::from(lanes - 1) * self.extent;
        let who = self.spec.users + worker * lanes + number as u32;
        let totals = &mut self.operations[0].totals;
        totals.requests += 1;
        totals.bytes += self.extent * BLOCK_BYTES;
        asks.push(LoadRequest::request(now, who, file.target, Io::read(first, self.extent as u32)));
    }

    fn compute(&mut self, now: Ns, number: u32, asks: &mut Vec<LoadRequest>) {
        let worker = &mut self.workers[number as usize];
        if worker.computing || worker.ready == 0 {
            return;
        }
        worker.ready -= 1;
        worker.computing = true;
        let compute = self.spec.compute.draw_ns(&mut self.dice);
        let lanes = self.files.len() as u32 + 1;
        asks.push(LoadRequest::processor(now, self.spec.users + number * lanes + lanes - 1, compute));
        self.read_ahead(now, number, asks);
    }

    fn computed(&mut self, now: Ns, number: u32, asks: &mut Vec<LoadRequest>) {
        let worker = &mut self.workers[number as usize];
        worker.computing = false;
        if worker.next < worker.end || worker.out + worker.ready > 0 {
            self.compute(now, number, asks);
            return;
        }
        let user = worker.user;
        self.free.push(number);
        let query = &mut self.users[user as usize];
        query.busy -= 1;
        if query.busy == 0 {
            self.operations[0].done(query.began, now);
            self.think(now, user, asks);
        }
        self.hand_out(now, asks);
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

fn check(spec: &ScanSpec) -> Result<(), LoadError> {
    let numbers = [
        ("users", spec.users, MOST_USERS),
        ("degree", spec.degree, MOST_WORKERS),
        ("workers", spec.workers, MOST_WORKERS),
        ("ahead", spec.ahead, 1 << 16),
        ("most_outstanding", spec.most_outstanding, 1 << 20),
    ];
    for (item, number, most) in numbers {
        if !(1..=most).contains(&number) {
            return Err(LoadError::new(item, format!("{number}; expected 1 to {most}")));
        }
    }
    if !(BLOCK_BYTES..=1 << 30).contains(&spec.extent_bytes) || !spec.extent_bytes.is_multiple_of(BLOCK_BYTES) {
        return Err(LoadError::new("extent_bytes", "expected a multiple of 512 bytes, from 512 to 1 GiB"));
    }
    if !(1..=MOST_FILES).contains(&spec.files.len()) {
        return Err(LoadError::new("files", format!("{} files; expected 1 to {MOST_FILES}", spec.files.len())));
    }
    spec.think.check("think")?;
    spec.compute.check("compute")
}
