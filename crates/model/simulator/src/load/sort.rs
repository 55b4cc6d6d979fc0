//! An external sort (SAS 1998): runs are formed in memory and written to a
//! work area, then merged into the output; where all fits into memory, there are
//! no runs. One thread reads, sorts, merges and writes, with others helping to
//! compare; the window says how many requests it lets go ahead of itself.

mod plan;

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};
use crate::load::tally::Operations;
use crate::load::{Cause, LoadError, LoadRequest, LoadSpan, Region, TargetPart};

use plan::{Merge, SortPlan};

/// Who computes (and is started), who reads, who writes.
const PROCESSOR: u32 = 0;
const READS: u32 = 1;
const WRITES: u32 = 2;

/// A sort.
#[derive(Clone, Debug, PartialEq)]
pub struct SortSpec {
    /// Data to sort, bytes.
    pub data_bytes: u64,
    /// One record, bytes.
    pub record_bytes: u64,
    /// Keys of a record, each rounded up to 8 bytes (SAS 1998); kept beside the record in memory.
    pub key_bytes: u64,
    /// Memory a record takes, against the sum of it and its keys; SAS 1998 says 1.1.
    pub memory_factor: f64,
    /// Memory for sorting, bytes (SORTSIZE in SAS 1998).
    pub memory_bytes: u64,
    /// Threads that sort runs together; SAS 1998's program has one.
    pub processors: u32,
    /// Processor time of a comparison, s.
    pub compare_s: f64,
    /// Processor time to move a record through memory, once for each time it is read, s.
    pub record_s: f64,
    /// The data, and where the result goes.
    pub input: Region,
    /// Where runs lie in between; twice the data where there are several passes.
    pub work: Region,
    /// The result.
    pub output: Region,
    /// Requests of reading input, of runs and of output, bytes.
    pub io_bytes: u64,
    /// Requests of reading a run while merging, bytes: the memory for sorting divided by it is how many are merged.
    pub merge_bytes: u64,
    /// Requests ahead and behind: 1 waits for each, 2 is double buffering.
    pub window: u32,
    /// Through the file cache.
    pub cached: bool,
}

impl Default for SortSpec {
    /// SAS 1998's 100 MB: records of 100 bytes with four keys of 8, 2 MB of
    /// memory, everything on the first target, through the file cache. The
    /// processor's times are of its 200 MHz Pentium Pro, by order of magnitude.
    fn default() -> SortSpec {
        let share = |from, to| Region { target: 0, part: TargetPart::Share { from, to } };
        SortSpec {
            data_bytes: 100_000_000,
            record_bytes: 100,
            key_bytes: 32,
            memory_factor: 1.1,
            memory_bytes: 2 << 20,
            processors: 1,
            compare_s: 1e-6,
            record_s: 1e-6,
            input: share(0.0, 0.25),
            work: share(0.25, 0.75),
            output: share(0.75, 1.0),
            io_bytes: 65_536,
            merge_bytes: 65_536,
            window: 1,
            cached: true,
        }
    }
}

/// What the sort is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SortStage {
    /// Reading a run into memory.
    Fill,
    /// Comparing.
    Sort,
    /// Writing a run.
    Drain,
    /// Reading, comparing and writing at once.
    Merge,
    /// Nothing more to do but wait for writes.
    End,
}

/// A sort in progress.
#[derive(Clone, Debug)]
pub struct SortLoad {
    spec: SortSpec,
    plan: SortPlan,
    stage: SortStage,
    /// Run that is formed, and its blocks read and written so far.
    run: u64,
    read: u64,
    written: u64,
    /// Requests under way; blocks read that wait for the processor, request by request.
    reads_out: u32,
    writes_out: u32,
    ready: std::collections::VecDeque<u32>,
    /// What a read under way brings, in order.
    reading: std::collections::VecDeque<u32>,
    /// Processors at work, and blocks they merge or take in.
    computing: u32,
    computed: u32,
    /// Blocks merged that are not yet written.
    pending: u64,
    merge: Option<Merge>,
    pass: u32,
    began: Ns,
    done: bool,
    operations: Vec<Operations>,
}

impl SortLoad {
    pub(super) fn new(spec: &SortSpec, target_blocks: &[u64]) -> Result<SortLoad, LoadError> {
        let plan = SortPlan::new(spec, target_blocks)?;
        Ok(SortLoad {
            spec: spec.clone(),
            plan,
            stage: SortStage::Fill,
            run: 0,
            read: 0,
            written: 0,
            reads_out: 0,
            writes_out: 0,
            ready: std::collections::VecDeque::new(),
            reading: std::collections::VecDeque::new(),
            computing: 0,
            computed: 0,
            pending: 0,
            merge: None,
            pass: 0,
            began: 0,
            done: false,
            operations: vec![Operations::new("sort")],
        })
    }

    pub(super) fn next(&mut self, now: Ns, who: u32, cause: Cause, asks: &mut Vec<LoadRequest>) {
        match (cause, who) {
            (Cause::Start, _) => {
                self.began = now;
                self.operations[0].totals.begun += 1;
            }
            (_, READS) => {
                self.reads_out -= 1;
                self.ready.extend(self.reading.pop_front());
            }
            (_, WRITES) => self.writes_out -= 1,
            (_, PROCESSOR) => {
                self.computing -= 1;
                if self.computing == 0 {
                    self.computed();
                }
            }
            _ => return,
        }
        while self.step(now, asks) {}
    }

    /// The processor has done its piece.
    fn computed(&mut self) {
        match self.stage {
            SortStage::Fill if self.read == self.run_blocks() && self.ready.is_empty() && self.reads_out == 0 => {
                self.stage = SortStage::Sort;
            }
            SortStage::Sort => (self.stage, self.written) = (SortStage::Drain, 0),
            SortStage::Merge => self.pending += u64::from(std::mem::take(&mut self.computed)),
            _ => {}
        }
    }

    /// Does one thing that can be done now; false where there is none.
    fn step(&mut self, now: Ns, asks: &mut Vec<LoadRequest>) -> bool {
        match self.stage {
            SortStage::Fill => self.fill(now, asks),
            SortStage::Sort if self.computing == 0 => self.sort(now, asks),
            SortStage::Sort => false,
            SortStage::Drain => self.drain(now, asks),
            SortStage::Merge => self.merge(now, asks),
            SortStage::End => self.end(now),
        }
    }

    fn fill(&mut self, now: Ns, asks: &mut Vec<LoadRequest>) -> bool {
        if self.read < self.run_blocks() && self.may_read() {
            let offset = self.plan.run_first(self.run) + self.read;
            let blocks = self.plan.io_blocks.min(self.run_blocks() - self.read) as u32;
            self.read += u64::from(blocks);
            self.issue_read(now, self.spec.input.target, self.plan.input + offset, blocks, asks);
            return true;
        }
        self.take_in(now, 0.0, asks)
    }

    /// Starts the processor on the next request that was read.
    fn take_in(&mut self, now: Ns, compares: f64, asks: &mut Vec<LoadRequest>) -> bool {
        if self.computing > 0 {
            return false;
        }
        let Some(blocks) = self.ready.pop_front() else { return false };
        let records = self.plan.records(u64::from(blocks));
        self.computed = blocks;
        self.compute(now, records * (self.spec.record_s + compares * self.spec.compare_s), 1, asks);
        true
    }

    fn sort(&mut self, now: Ns, asks: &mut Vec<LoadRequest>) -> bool {
        let records = self.plan.records(self.run_blocks());
        let compares = records * records.max(1.0).log2();
        self.compute(now, compares * self.spec.compare_s, self.spec.processors, asks);
        true
    }

    /// Work that so many processors share.
    fn compute(&mut self, now: Ns, seconds: f64, processors: u32, asks: &mut Vec<LoadRequest>) {
        let each = super::spell::ns(seconds / f64::from(processors));
        self.computing = processors;
        asks.extend((0..processors).map(|_| LoadRequest::processor(now, PROCESSOR, each)));
    }

    fn drain(&mut self, now: Ns, asks: &mut Vec<LoadRequest>) -> bool {
        let all = self.run_blocks();
        if self.written < all {
            if self.writes_out >= self.spec.window {
                return false;
            }
            let blocks = self.plan.io_blocks.min(all - self.written) as u32;
            let offset = self.plan.run_first(self.run) + self.written;
            self.written += u64::from(blocks);
            let (target, base) = match self.plan.in_memory() {
                true => (self.spec.output.target, self.plan.output),
                false => (self.spec.work.target, self.plan.work),
            };
            self.issue_write(now, target, base + offset, blocks, asks);
            return true;
        }
        if self.waits_for_writes() {
            return false;
        }
        (self.run, self.read) = (self.run + 1, 0);
        if self.run < self.plan.runs {
            self.stage = SortStage::Fill;
        } else if self.plan.in_memory() {
            self.stage = SortStage::End;
        } else if self.writes_out == 0 {
            self.span("runs", now);
            self.merge = Some(Merge::first(&self.plan));
            self.stage = SortStage::Merge;
        } else {
            // the last runs are on their way; merging begins when they lie there
            self.run -= 1;
            return false;
        }
        true
    }

    fn merge(&mut self, now: Ns, asks: &mut Vec<LoadRequest>) -> bool {
        let Some(mut merge) = self.merge.take() else { return false };
        let went_on = self.merge_step(now, &mut merge, asks);
        self.merge = Some(merge);
        went_on
    }

    fn merge_step(&mut self, now: Ns, merge: &mut Merge, asks: &mut Vec<LoadRequest>) -> bool {
        let io = self.plan.io_blocks;
        let last = merge.all_read() && self.reads_out == 0 && self.ready.is_empty() && self.computing == 0;
        let full = self.pending >= io || (last && self.pending > 0);
        if full && self.writes_out < self.spec.window {
            let blocks = self.pending.min(io) as u32;
            self.pending -= u64::from(blocks);
            let (target, first) = merge.place_written(&self.plan, &self.spec, u64::from(blocks));
            self.issue_write(now, target, first, blocks, asks);
            return true;
        }
        if !merge.all_read() && self.may_read() {
            let (first, blocks) = merge.place_read(&self.plan);
            self.issue_read(now, self.spec.work.target, first, blocks, asks);
            return true;
        }
        if full {
            return false;
        }
        if last && self.pending == 0 && self.writes_out == 0 {
            return self.merge_on(now, merge);
        }
        self.take_in(now, f64::from(merge.fan_in()).log2(), asks)
    }

    /// A group is merged: the next one, the next pass, or the end.
    fn merge_on(&mut self, now: Ns, merge: &mut Merge) -> bool {
        if merge.next_group(&self.plan) {
            return true;
        }
        self.pass += 1;
        self.span(&format!("merge {}", self.pass), now);
        if !merge.next_pass(&self.plan) {
            self.stage = SortStage::End;
        }
        true
    }

    fn end(&mut self, now: Ns) -> bool {
        if !self.done && self.writes_out == 0 {
            self.done = true;
            if self.plan.in_memory() {
                self.span("in memory", now);
            }
            self.operations[0].done(self.began, now);
        }
        false
    }

    /// Without a window everything waits for everything.
    fn may_read(&self) -> bool {
        let ahead = self.reads_out + self.ready.len() as u32;
        let alone = self.computing == 0 && self.writes_out == 0;
        ahead < self.spec.window && (self.spec.window > 1 || alone)
    }

    fn waits_for_writes(&self) -> bool {
        self.spec.window == 1 && self.writes_out > 0
    }

    fn run_blocks(&self) -> u64 {
        self.plan.run_blocks(self.run)
    }

    fn span(&mut self, name: &str, to: Ns) {
        let spans = &mut self.operations[0].spans;
        let from = spans.last().map_or(self.began, |span| span.to);
        spans.push(LoadSpan { name: name.to_owned(), from, to });
    }

    fn issue_read(&mut self, now: Ns, target: u16, first: u64, blocks: u32, asks: &mut Vec<LoadRequest>) {
        self.reads_out += 1;
        self.reading.push_back(blocks);
        self.issue(now, READS, target, Io::read(first, blocks), asks);
    }

    fn issue_write(&mut self, now: Ns, target: u16, first: u64, blocks: u32, asks: &mut Vec<LoadRequest>) {
        self.writes_out += 1;
        self.issue(now, WRITES, target, Io::write(first, blocks), asks);
    }

    fn issue(&mut self, now: Ns, who: u32, target: u16, io: Io, asks: &mut Vec<LoadRequest>) {
        let totals = &mut self.operations[0].totals;
        totals.requests += 1;
        totals.bytes += u64::from(io.blocks) * BLOCK_BYTES;
        asks.push(LoadRequest { cached: self.spec.cached, ..LoadRequest::request(now, who, target, io) });
    }

    pub(super) fn users(&self) -> u32 {
        1
    }

    pub(super) fn finished(&self) -> bool {
        self.done
    }

    pub(super) fn operations(&self) -> &[Operations] {
        &self.operations
    }

    pub(super) fn operations_mut(&mut self) -> &mut [Operations] {
        &mut self.operations
    }
}
