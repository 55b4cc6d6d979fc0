//! An external sort (SAS 1998): runs are formed in memory, written to a work area, then merged into the output; if all
//! data fits into memory, there are no runs. One thread reads, sorts, merges and writes; others help it to compare. The
//! window limits how many requests the thread issues ahead.

mod plan;

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};
use crate::load::operation_totals::Operations;
use crate::load::{Cause, LoadError, LoadRequest, LoadSpan, Region, TargetPart};

use plan::{Merge, SortPlan};

/// Agents of a sort: the processor (which is started), reads, and writes.
const PROCESSOR_AGENT: u32 = 0;
const READ_AGENT: u32 = 1;
const WRITE_AGENT: u32 = 2;

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
    /// Processor time to move a record through memory, s; spent each time the record is read.
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
    /// Run being formed.
    run: u64,
    /// Blocks of this run read so far.
    blocks_read: u64,
    /// Blocks of this run written so far.
    blocks_written: u64,
    /// Reads in flight.
    reads_in_flight: u32,
    /// Writes in flight.
    writes_in_flight: u32,
    /// Blocks of each completed read that waits for the processor.
    ready_blocks: std::collections::VecDeque<u32>,
    /// Blocks of each read in flight, in order.
    reading_blocks: std::collections::VecDeque<u32>,
    /// Busy processors.
    busy_processors: u32,
    /// Blocks that they process.
    computing_blocks: u32,
    /// Merged blocks that are not yet written.
    pending_blocks: u64,
    merge: Option<Merge>,
    pass: u32,
    begin_ns: Ns,
    is_done: bool,
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
            blocks_read: 0,
            blocks_written: 0,
            reads_in_flight: 0,
            writes_in_flight: 0,
            ready_blocks: std::collections::VecDeque::new(),
            reading_blocks: std::collections::VecDeque::new(),
            busy_processors: 0,
            computing_blocks: 0,
            pending_blocks: 0,
            merge: None,
            pass: 0,
            begin_ns: 0,
            is_done: false,
            operations: vec![Operations::new("sort")],
        })
    }

    pub(super) fn next(&mut self, now: Ns, agent: u32, cause: Cause, requests: &mut Vec<LoadRequest>) {
        match (cause, agent) {
            (Cause::Start, _) => {
                self.begin_ns = now;
                self.operations[0].totals.begun += 1;
            }
            (_, READ_AGENT) => {
                debug_assert!(self.reads_in_flight > 0, "a read completes that was not in flight");
                self.reads_in_flight -= 1;
                self.ready_blocks.extend(self.reading_blocks.pop_front());
            }
            (_, WRITE_AGENT) => {
                debug_assert!(self.writes_in_flight > 0, "a write completes that was not in flight");
                self.writes_in_flight -= 1;
            }
            (_, PROCESSOR_AGENT) => {
                debug_assert!(self.busy_processors > 0, "a processor completes work that it did not do");
                self.busy_processors -= 1;
                if self.busy_processors == 0 {
                    self.finish_compute();
                }
            }
            _ => return,
        }
        while self.step_stage(now, requests) {}
    }

    /// Finishes a piece of processor work.
    fn finish_compute(&mut self) {
        match self.stage {
            SortStage::Fill
                if self.blocks_read == self.run_blocks()
                    && self.ready_blocks.is_empty()
                    && self.reads_in_flight == 0 =>
            {
                self.stage = SortStage::Sort;
            }
            SortStage::Sort => (self.stage, self.blocks_written) = (SortStage::Drain, 0),
            SortStage::Merge => self.pending_blocks += u64::from(std::mem::take(&mut self.computing_blocks)),
            _ => {}
        }
    }

    /// Takes one step that is possible now; returns false if there is none.
    fn step_stage(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) -> bool {
        match self.stage {
            SortStage::Fill => self.fill_run(now, requests),
            SortStage::Sort if self.busy_processors == 0 => self.begin_sort(now, requests),
            SortStage::Sort => false,
            SortStage::Drain => self.write_run(now, requests),
            SortStage::Merge => self.merge_runs(now, requests),
            SortStage::End => self.finish_sort(now),
        }
    }

    fn fill_run(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) -> bool {
        if self.blocks_read < self.run_blocks() && self.can_read() {
            let offset = self.plan.run_first_block(self.run) + self.blocks_read;
            let blocks = self.plan.io_blocks.min(self.run_blocks() - self.blocks_read) as u32;
            self.blocks_read += u64::from(blocks);
            self.issue_read(now, self.spec.input.target, self.plan.input_first_block + offset, blocks, requests);
            return true;
        }
        self.process_next_read(now, 0.0, requests)
    }

    /// Starts the processor on the next completed read.
    fn process_next_read(&mut self, now: Ns, compares: f64, requests: &mut Vec<LoadRequest>) -> bool {
        if self.busy_processors > 0 {
            return false;
        }
        let Some(blocks) = self.ready_blocks.pop_front() else { return false };
        let records = self.plan.record_count(u64::from(blocks));
        self.computing_blocks = blocks;
        self.begin_compute(now, records * (self.spec.record_s + compares * self.spec.compare_s), 1, requests);
        true
    }

    fn begin_sort(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) -> bool {
        let records = self.plan.record_count(self.run_blocks());
        let compares = records * records.max(1.0).log2();
        self.begin_compute(now, compares * self.spec.compare_s, self.spec.processors, requests);
        true
    }

    /// Starts work that is shared by `processors` processors.
    fn begin_compute(&mut self, now: Ns, seconds: f64, processors: u32, requests: &mut Vec<LoadRequest>) {
        let time_each = super::duration_distribution::seconds_to_ns(seconds / f64::from(processors));
        self.busy_processors = processors;
        requests.extend((0..processors).map(|_| LoadRequest::processor_time(now, PROCESSOR_AGENT, time_each)));
    }

    fn write_run(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) -> bool {
        let run_blocks = self.run_blocks();
        if self.blocks_written < run_blocks {
            if self.writes_in_flight >= self.spec.window {
                return false;
            }
            let blocks = self.plan.io_blocks.min(run_blocks - self.blocks_written) as u32;
            let offset = self.plan.run_first_block(self.run) + self.blocks_written;
            self.blocks_written += u64::from(blocks);
            let (target, base) = match self.plan.is_in_memory() {
                true => (self.spec.output.target, self.plan.output_first_block),
                false => (self.spec.work.target, self.plan.work_first_block),
            };
            self.issue_write(now, target, base + offset, blocks, requests);
            return true;
        }
        if self.must_wait_for_writes() {
            return false;
        }
        (self.run, self.blocks_read) = (self.run + 1, 0);
        if self.run < self.plan.runs {
            self.stage = SortStage::Fill;
        } else if self.plan.is_in_memory() {
            self.stage = SortStage::End;
        } else if self.writes_in_flight == 0 {
            self.record_span("runs", now);
            self.merge = Some(Merge::new(&self.plan));
            self.stage = SortStage::Merge;
        } else {
            // the last run is still being written: this stage is entered again when its writes complete
            self.run -= 1;
            return false;
        }
        true
    }

    fn merge_runs(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) -> bool {
        let Some(mut merge) = self.merge.take() else { return false };
        let stepped = self.merge_step(now, &mut merge, requests);
        self.merge = Some(merge);
        stepped
    }

    fn merge_step(&mut self, now: Ns, merge: &mut Merge, requests: &mut Vec<LoadRequest>) -> bool {
        let io = self.plan.io_blocks;
        let is_all_merged = merge.is_all_read()
            && self.reads_in_flight == 0
            && self.ready_blocks.is_empty()
            && self.busy_processors == 0;
        let has_write = self.pending_blocks >= io || (is_all_merged && self.pending_blocks > 0);
        if has_write && self.writes_in_flight < self.spec.window {
            let blocks = self.pending_blocks.min(io) as u32;
            self.pending_blocks -= u64::from(blocks);
            let (target, first) = merge.next_write(&self.plan, &self.spec, u64::from(blocks));
            self.issue_write(now, target, first, blocks, requests);
            return true;
        }
        if !merge.is_all_read() && self.can_read() {
            let (first, blocks) = merge.next_read(&self.plan);
            self.issue_read(now, self.spec.work.target, first, blocks, requests);
            return true;
        }
        if has_write {
            return false;
        }
        if is_all_merged && self.pending_blocks == 0 && self.writes_in_flight == 0 {
            return self.finish_group(now, merge);
        }
        self.process_next_read(now, f64::from(merge.fan_in()).log2(), requests)
    }

    /// Continues after a merged group with the next group, the next pass, or the end.
    fn finish_group(&mut self, now: Ns, merge: &mut Merge) -> bool {
        if merge.next_group(&self.plan) {
            return true;
        }
        self.pass += 1;
        self.record_span(&format!("merge {}", self.pass), now);
        if !merge.next_pass(&self.plan) {
            self.stage = SortStage::End;
        }
        true
    }

    fn finish_sort(&mut self, now: Ns) -> bool {
        if !self.is_done && self.writes_in_flight == 0 {
            self.is_done = true;
            if self.plan.is_in_memory() {
                self.record_span("in memory", now);
            }
            self.operations[0].record_done(self.begin_ns, now);
        }
        false
    }

    /// Returns true if a read may be issued; with a window of 1, nothing overlaps.
    fn can_read(&self) -> bool {
        let ahead = self.reads_in_flight + self.ready_blocks.len() as u32;
        let is_idle = self.busy_processors == 0 && self.writes_in_flight == 0;
        ahead < self.spec.window && (self.spec.window > 1 || is_idle)
    }

    fn must_wait_for_writes(&self) -> bool {
        self.spec.window == 1 && self.writes_in_flight > 0
    }

    fn run_blocks(&self) -> u64 {
        self.plan.run_blocks(self.run)
    }

    fn record_span(&mut self, name: &str, to: Ns) {
        let spans = &mut self.operations[0].spans;
        let from = spans.last().map_or(self.begin_ns, |span| span.to);
        spans.push(LoadSpan { name: name.to_owned(), from, to });
    }

    fn issue_read(&mut self, now: Ns, target: u16, first: u64, blocks: u32, requests: &mut Vec<LoadRequest>) {
        self.reads_in_flight += 1;
        self.reading_blocks.push_back(blocks);
        self.issue_request(now, READ_AGENT, target, Io::read(first, blocks), requests);
    }

    fn issue_write(&mut self, now: Ns, target: u16, first: u64, blocks: u32, requests: &mut Vec<LoadRequest>) {
        self.writes_in_flight += 1;
        self.issue_request(now, WRITE_AGENT, target, Io::write(first, blocks), requests);
    }

    fn issue_request(&mut self, now: Ns, agent: u32, target: u16, io: Io, requests: &mut Vec<LoadRequest>) {
        let totals = &mut self.operations[0].totals;
        totals.requests += 1;
        totals.bytes += u64::from(io.blocks) * BLOCK_BYTES;
        requests.push(LoadRequest { cached: self.spec.cached, ..LoadRequest::awaited_io(now, agent, target, io) });
    }

    pub(super) fn user_count(&self) -> u32 {
        1
    }

    pub(super) fn is_finished(&self) -> bool {
        self.is_done
    }

    pub(super) fn operations(&self) -> &[Operations] {
        &self.operations
    }

    pub(super) fn operations_mut(&mut self) -> &mut [Operations] {
        &mut self.operations
    }
}
