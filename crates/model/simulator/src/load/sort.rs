//! An external sort (SAS 1998): runs are formed in memory, written to a work area, then merged into the output; if
//! all data fits into memory, there are no runs. One thread reads, sorts, merges and writes, with others helping to
//! compare; the window limits how many requests it issues ahead.

mod plan;

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};
use crate::load::tally::Operations;
use crate::load::{Cause, LoadError, LoadRequest, LoadSpan, Region, TargetPart};

use plan::{Merge, SortPlan};

/// Agents of a sort: the processor (which is started), reads, and writes.
const PROCESSOR: u32 = 0;
const READS: u32 = 1;
const WRITES: u32 = 2;

/// An external sort.
#[derive(Clone, Debug, PartialEq)]
pub struct SortSpec {
    /// Data to sort, bytes.
    pub data_bytes: u64,
    /// One record, bytes.
    pub record_bytes: u64,
    /// Size of a record's keys, each rounded up to 8 bytes (SAS 1998); kept beside the record in memory.
    pub key_bytes: u64,
    /// Memory per record, as a multiple of the size of the record and its keys; SAS 1998 says 1.1.
    pub memory_factor: f64,
    /// Memory for sorting, bytes (SORTSIZE in SAS 1998).
    pub memory_bytes: u64,
    /// Threads that sort runs together; SAS 1998's program has one.
    pub processors: u32,
    /// Processor time of a comparison, s.
    pub compare_s: f64,
    /// Processor time to move a record through memory, once for each time it is read, s.
    pub record_s: f64,
    /// Area of the input data.
    pub input: Region,
    /// Work area for the runs; twice the size of the data if there are several passes.
    pub work: Region,
    /// Area of the result.
    pub output: Region,
    /// Request size for reading input and for writing runs and output, bytes.
    pub io_bytes: u64,
    /// Request size for reading a run while merging, bytes; the memory for sorting divided by it gives the number of
    /// runs merged at a time.
    pub merge_bytes: u64,
    /// Requests in flight in each direction: 1 waits for each request, 2 is double buffering.
    pub window: u32,
    /// True if requests go through the file cache.
    pub cached: bool,
}

impl Default for SortSpec {
    /// The 100 MB sort of SAS 1998: records of 100 bytes with four keys of 8, 2 MB of memory, everything on the
    /// first target, through the file cache. The processor times are the order of magnitude of its 200 MHz
    /// Pentium Pro.
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

/// Stage of the sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SortStage {
    /// Reading a run into memory.
    Fill,
    /// Comparing the records of a run.
    Sort,
    /// Writing a run.
    Drain,
    /// Reading, comparing and writing at once.
    Merge,
    /// Waiting for the last writes.
    End,
}

/// A sort in progress.
#[derive(Clone, Debug)]
pub struct SortLoad {
    spec: SortSpec,
    plan: SortPlan,
    stage: SortStage,
    /// Run being formed, and its blocks read and written so far.
    run: u64,
    read: u64,
    written: u64,
    /// Requests in flight; blocks of each completed read that waits for the processor.
    reads_out: u32,
    writes_out: u32,
    ready: std::collections::VecDeque<u32>,
    /// Blocks of each read in flight, in order.
    reading: std::collections::VecDeque<u32>,
    /// Busy processors, and the blocks they process.
    computing: u32,
    computed: u32,
    /// Merged blocks that are not yet written.
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

    pub(super) fn next(&mut self, now: Ns, agent: u32, cause: Cause, requests: &mut Vec<LoadRequest>) {
        match (cause, agent) {
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
        while self.step(now, requests) {}
    }

    /// Finishes a piece of processor work.
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

    /// Takes one step that is possible now; returns false if there is none.
    fn step(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) -> bool {
        match self.stage {
            SortStage::Fill => self.fill(now, requests),
            SortStage::Sort if self.computing == 0 => self.sort(now, requests),
            SortStage::Sort => false,
            SortStage::Drain => self.drain(now, requests),
            SortStage::Merge => self.merge(now, requests),
            SortStage::End => self.end(now),
        }
    }

    fn fill(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) -> bool {
        if self.read < self.run_blocks() && self.may_read() {
            let offset = self.plan.run_first(self.run) + self.read;
            let blocks = self.plan.io_blocks.min(self.run_blocks() - self.read) as u32;
            self.read += u64::from(blocks);
            self.issue_read(now, self.spec.input.target, self.plan.input + offset, blocks, requests);
            return true;
        }
        self.take_in(now, 0.0, requests)
    }

    /// Starts the processor on the next completed read.
    fn take_in(&mut self, now: Ns, compares: f64, requests: &mut Vec<LoadRequest>) -> bool {
        if self.computing > 0 {
            return false;
        }
        let Some(blocks) = self.ready.pop_front() else { return false };
        let records = self.plan.records(u64::from(blocks));
        self.computed = blocks;
        self.compute(now, records * (self.spec.record_s + compares * self.spec.compare_s), 1, requests);
        true
    }

    fn sort(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) -> bool {
        let records = self.plan.records(self.run_blocks());
        let compares = records * records.max(1.0).log2();
        self.compute(now, compares * self.spec.compare_s, self.spec.processors, requests);
        true
    }

    /// Starts work that is shared by `processors` processors.
    fn compute(&mut self, now: Ns, seconds: f64, processors: u32, requests: &mut Vec<LoadRequest>) {
        let each = super::spell::ns(seconds / f64::from(processors));
        self.computing = processors;
        requests.extend((0..processors).map(|_| LoadRequest::processor(now, PROCESSOR, each)));
    }

    fn drain(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) -> bool {
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
            self.issue_write(now, target, base + offset, blocks, requests);
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
            // the last run is still being written: this stage is entered again when its writes complete
            self.run -= 1;
            return false;
        }
        true
    }

    fn merge(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) -> bool {
        let Some(mut merge) = self.merge.take() else { return false };
        let stepped = self.merge_step(now, &mut merge, requests);
        self.merge = Some(merge);
        stepped
    }

    fn merge_step(&mut self, now: Ns, merge: &mut Merge, requests: &mut Vec<LoadRequest>) -> bool {
        let io = self.plan.io_blocks;
        let last = merge.all_read() && self.reads_out == 0 && self.ready.is_empty() && self.computing == 0;
        let full = self.pending >= io || (last && self.pending > 0);
        if full && self.writes_out < self.spec.window {
            let blocks = self.pending.min(io) as u32;
            self.pending -= u64::from(blocks);
            let (target, first) = merge.place_written(&self.plan, &self.spec, u64::from(blocks));
            self.issue_write(now, target, first, blocks, requests);
            return true;
        }
        if !merge.all_read() && self.may_read() {
            let (first, blocks) = merge.place_read(&self.plan);
            self.issue_read(now, self.spec.work.target, first, blocks, requests);
            return true;
        }
        if full {
            return false;
        }
        if last && self.pending == 0 && self.writes_out == 0 {
            return self.merge_on(now, merge);
        }
        self.take_in(now, f64::from(merge.fan_in()).log2(), requests)
    }

    /// Goes on after a merged group: with the next group, the next pass, or the end.
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

    /// Returns true if a read may be issued; with a window of 1 nothing overlaps.
    fn may_read(&self) -> bool {
        let ahead = self.reads_out + self.ready.len() as u32;
        let is_idle = self.computing == 0 && self.writes_out == 0;
        ahead < self.spec.window && (self.spec.window > 1 || is_idle)
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

    fn issue_read(&mut self, now: Ns, target: u16, first: u64, blocks: u32, requests: &mut Vec<LoadRequest>) {
        self.reads_out += 1;
        self.reading.push_back(blocks);
        self.issue(now, READS, target, Io::read(first, blocks), requests);
    }

    fn issue_write(&mut self, now: Ns, target: u16, first: u64, blocks: u32, requests: &mut Vec<LoadRequest>) {
        self.writes_out += 1;
        self.issue(now, WRITES, target, Io::write(first, blocks), requests);
    }

    fn issue(&mut self, now: Ns, agent: u32, target: u16, io: Io, requests: &mut Vec<LoadRequest>) {
        let totals = &mut self.operations[0].totals;
        totals.requests += 1;
        totals.bytes += u64::from(io.blocks) * BLOCK_BYTES;
        requests.push(LoadRequest { cached: self.spec.cached, ..LoadRequest::request(now, agent, target, io) });
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
