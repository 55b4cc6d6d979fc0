//! Decision support on SQL Server: queries that scan tables with several worker threads, each of which reads extents
//! ahead of the one it processes.
//!
//! Pages are 8 KB and extents 64 KB, scans read whole extents, "max async I/O" limits the reads in flight on a file
//! to 32 (InfoStor 1999; Microsoft, SQL Server 7.0 performance tuning, "Advertised Disk Transfer Rates and SQL
//! Server", MSDN Library of April 2000: read-ahead in 64 KB, worker threads, checkpoint and lazy writer in 8 KB).
//! The number of extents that a thread reads ahead is not documented for that version; [`ScanSpec::ahead`] is a guess.

use std::collections::VecDeque;

use diskwright_base::Rng;

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};
use crate::load::operation_totals::Operations;
use crate::load::{Cause, DurationDistribution, LoadError, LoadRequest, Region, TargetPart};

const MAX_USERS: u32 = 1 << 16;
const MAX_WORKERS: u32 = 1 << 15;
const MAX_FILES: usize = 1024;

/// A decision support load: users who run one query after another.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanSpec {
    /// Number of users.
    pub users: u32,
    /// Think time between a query's end and the next query.
    pub think: DurationDistribution,
    /// Files of the database, filled evenly: extents are striped over them.
    pub files: Vec<Region>,
    /// Bytes that a query reads, starting at an extent drawn uniformly.
    pub query_bytes: u64,
    /// Worker threads that share a query, each with its own section of the table.
    pub degree: u32,
    /// Total number of worker threads ("max worker threads", 255 in SQL Server 7.0); queries wait for a free one.
    pub workers: u32,
    /// Size of a read, bytes.
    pub extent_bytes: u64,
    /// Extents that a thread has in flight or has read and not yet processed, besides the one that it processes.
    pub ahead: u32,
    /// Largest number of reads in flight on a file ("max async I/O").
    pub most_outstanding: u32,
    /// Processor time per extent.
    pub compute: DurationDistribution,
    /// Number of queries after which the load ends.
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

/// A file: its position, and the reads (worker, extent) that wait for the limit of reads in flight.
#[derive(Clone, Debug)]
struct ScanFile {
    target: u16,
    first_block: u64,
    in_flight: u32,
    waiting: VecDeque<(u32, u64)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ScanWorker {
    user: u32,
    /// Next extent to read.
    next_extent: u64,
    /// End of the worker's section.
    end_extent: u64,
    /// Number of reads in flight or queued.
    reads_in_flight: u32,
    /// Number of extents read and not yet processed.
    extents_ready: u32,
    computing: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct ScanUser {
    begin_ns: Ns,
    first_extent: u64,
    /// Worker threads still working on the query.
    busy_workers: u32,
}

/// A decision support load in progress. Agents: the users, then for each worker one per file for its reads and one
/// for the processor.
#[derive(Clone, Debug)]
pub struct Scan {
    spec: ScanSpec,
    files: Vec<ScanFile>,
    /// Size of the database in extents.
    database_extents: u64,
    /// Size of a query in extents.
    query_extents: u64,
    /// Size of an extent in blocks.
    extent_blocks: u64,
    users: Vec<ScanUser>,
    workers: Vec<ScanWorker>,
    free_workers: Vec<u32>,
    /// Users whose query waits for a free worker.
    waiting: VecDeque<u32>,
    operations: Vec<Operations>,
    finished_users: u32,
    queries_left: u64,
    rng: Rng,
}

impl Scan {
    pub(super) fn new(spec: &ScanSpec, target_blocks: &[u64], rng: Rng) -> Result<Scan, LoadError> {
        check_limits(spec)?;
        let extent = spec.extent_bytes / BLOCK_BYTES;
        let mut files = Vec::new();
        let mut min_extents = u64::MAX;
        for file in &spec.files {
            let (first, blocks) = file.resolve_blocks(target_blocks, "files")?;
            min_extents = min_extents.min(blocks / extent);
            files.push(ScanFile { target: file.target, first_block: first, in_flight: 0, waiting: VecDeque::new() });
        }
        let extents = min_extents * files.len() as u64;
        let query = spec.query_bytes.div_ceil(spec.extent_bytes);
        if !(1..=extents).contains(&query) {
            let reason = format!("{query} extents; the files have only {extents}");
            return Err(LoadError::new("query_bytes", reason));
        }
        Ok(Scan {
            files,
            database_extents: extents,
            query_extents: query,
            extent_blocks: extent,
            users: vec![ScanUser::default(); spec.users as usize],
            workers: vec![ScanWorker::default(); spec.workers as usize],
            free_workers: (0..spec.workers).rev().collect(),
            waiting: VecDeque::new(),
            operations: vec![Operations::new("query")],
            finished_users: 0,
            queries_left: spec.most_operations.unwrap_or(u64::MAX),
            spec: spec.clone(),
            rng,
        })
    }

    pub(super) fn next(&mut self, now: Ns, agent: u32, cause: Cause, requests: &mut Vec<LoadRequest>) {
        if let Some(thread) = agent.checked_sub(self.spec.users) {
            let agents_per_worker = self.files.len() as u32 + 1;
            debug_assert!(thread / agents_per_worker < self.spec.workers, "there is no agent {agent}");
            match (thread / agents_per_worker, (thread % agents_per_worker) as usize) {
                (worker, file) if file < self.files.len() => self.finish_read(now, worker, file, requests),
                (worker, _) => self.finish_compute(now, worker, requests),
            }
            return;
        }
        if cause == Cause::Start {
            self.schedule_query(now, agent, requests);
        } else {
            self.begin_query(now, agent, requests);
        }
    }

    fn schedule_query(&mut self, now: Ns, user: u32, requests: &mut Vec<LoadRequest>) {
        if self.queries_left == 0 {
            self.finished_users += 1;
            return;
        }
        self.queries_left -= 1;
        requests.push(LoadRequest::alarm_at(now.saturating_add(self.spec.think.draw_ns(&mut self.rng)), user));
    }

    /// Begins a user's query, or queues it for a worker.
    fn begin_query(&mut self, now: Ns, user: u32, requests: &mut Vec<LoadRequest>) {
        self.operations[0].totals.begun += 1;
        let first = self.rng.next_below(self.database_extents - self.query_extents + 1);
        self.users[user as usize] = ScanUser { begin_ns: now, first_extent: first, busy_workers: 0 };
        self.waiting.push_back(user);
        self.assign_workers(now, requests);
    }

    /// Assigns free workers to waiting queries: up to the degree of parallelism each.
    fn assign_workers(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) {
        while !self.free_workers.is_empty() {
            let Some(user) = self.waiting.pop_front() else { return };
            let degree = u64::from(self.spec.degree).min(self.free_workers.len() as u64).min(self.query_extents);
            let first = self.users[user as usize].first_extent;
            self.users[user as usize].busy_workers = degree as u32;
            for part in 0..degree {
                let Some(worker) = self.free_workers.pop() else { return };
                let section_start = |part: u64| first + self.query_extents * part / degree;
                self.workers[worker as usize] = ScanWorker {
                    user,
                    next_extent: section_start(part),
                    end_extent: section_start(part + 1),
                    ..ScanWorker::default()
                };
                self.read_ahead(now, worker, requests);
            }
        }
    }

    /// Issues reads up to a worker's read-ahead distance.
    fn read_ahead(&mut self, now: Ns, number: u32, requests: &mut Vec<LoadRequest>) {
        loop {
            let worker = &mut self.workers[number as usize];
            if worker.next_extent == worker.end_extent
                || worker.reads_in_flight + worker.extents_ready >= self.spec.ahead
            {
                return;
            }
            let extent = worker.next_extent;
            worker.next_extent += 1;
            worker.reads_in_flight += 1;
            let file = self.file_index(extent);
            if self.files[file].in_flight < self.spec.most_outstanding {
                self.issue_read(now, number, extent, requests);
            } else {
                self.files[file].waiting.push_back((number, extent));
            }
        }
    }

    fn finish_read(&mut self, now: Ns, number: u32, file: usize, requests: &mut Vec<LoadRequest>) {
        let worker = &mut self.workers[number as usize];
        debug_assert!(worker.reads_in_flight > 0, "a read of worker {number} completes that was not in flight");
        worker.reads_in_flight -= 1;
        worker.extents_ready += 1;
        self.files[file].in_flight -= 1;
        if let Some((waiting_worker, extent)) = self.files[file].waiting.pop_front() {
            self.issue_read(now, waiting_worker, extent, requests);
        }
        self.begin_compute(now, number, requests);
    }

    fn file_index(&self, extent: u64) -> usize {
        (extent % self.files.len() as u64) as usize
    }

    fn issue_read(&mut self, now: Ns, worker: u32, extent: u64, requests: &mut Vec<LoadRequest>) {
        let (number, agents_per_worker) = (self.file_index(extent), self.files.len() as u32 + 1);
        let file = &mut self.files[number];
        file.in_flight += 1;
        let first = file.first_block + extent / u64::from(agents_per_worker - 1) * self.extent_blocks;
        let agent = self.spec.users + worker * agents_per_worker + number as u32;
        let totals = &mut self.operations[0].totals;
        totals.requests += 1;
        totals.bytes += self.extent_blocks * BLOCK_BYTES;
        requests.push(LoadRequest::awaited_io(now, agent, file.target, Io::read(first, self.extent_blocks as u32)));
    }

    fn begin_compute(&mut self, now: Ns, number: u32, requests: &mut Vec<LoadRequest>) {
        let worker = &mut self.workers[number as usize];
        if worker.computing || worker.extents_ready == 0 {
            return;
        }
        worker.extents_ready -= 1;
        worker.computing = true;
        let compute = self.spec.compute.draw_ns(&mut self.rng);
        let agents_per_worker = self.files.len() as u32 + 1;
        let agent = self.spec.users + number * agents_per_worker + agents_per_worker - 1;
        requests.push(LoadRequest::processor_time(now, agent, compute));
        self.read_ahead(now, number, requests);
    }

    fn finish_compute(&mut self, now: Ns, number: u32, requests: &mut Vec<LoadRequest>) {
        let worker = &mut self.workers[number as usize];
        worker.computing = false;
        if worker.next_extent < worker.end_extent || worker.reads_in_flight + worker.extents_ready > 0 {
            self.begin_compute(now, number, requests);
            return;
        }
        let user = worker.user;
        self.free_workers.push(number);
        let query = &mut self.users[user as usize];
        debug_assert!(query.busy_workers > 0, "the query of user {user} has no worker");
        query.busy_workers -= 1;
        if query.busy_workers == 0 {
            self.operations[0].record_done(query.begin_ns, now);
            self.schedule_query(now, user, requests);
        }
        self.assign_workers(now, requests);
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

fn check_limits(spec: &ScanSpec) -> Result<(), LoadError> {
    let numbers = [
        ("users", spec.users, MAX_USERS),
        ("degree", spec.degree, MAX_WORKERS),
        ("workers", spec.workers, MAX_WORKERS),
        ("ahead", spec.ahead, 1 << 16),
        ("most_outstanding", spec.most_outstanding, 1 << 20),
    ];
    for (item, number, max) in numbers {
        if !(1..=max).contains(&number) {
            return Err(LoadError::new(item, format!("{number}; expected 1 to {max}")));
        }
    }
    if !(BLOCK_BYTES..=1 << 30).contains(&spec.extent_bytes) || !spec.extent_bytes.is_multiple_of(BLOCK_BYTES) {
        return Err(LoadError::new("extent_bytes", "expected a multiple of 512 bytes, from 512 to 1 GiB"));
    }
    if !(1..=MAX_FILES).contains(&spec.files.len()) {
        return Err(LoadError::new("files", format!("{} files; expected 1 to {MAX_FILES}", spec.files.len())));
    }
    spec.think.check_limits("think")?;
    spec.compute.check_limits("compute")
}
