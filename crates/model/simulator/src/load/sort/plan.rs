//! Plan of a sort: its runs and merge passes, and the block addresses of each.

use crate::io::BLOCK_BYTES;
use crate::load::netbench::coprime;
use crate::load::{LoadError, Region, SortSpec};

/// Largest number of runs; their positions are kept in memory.
const MOST_RUNS: u64 = 1 << 20;

/// Sizes and positions, blocks.
#[derive(Clone, Debug)]
pub(super) struct SortPlan {
    /// Blocks of all data, and of each run but the last.
    blocks: u64,
    run: u64,
    pub(super) runs: u64,
    /// Runs merged at a time.
    pub(super) fan_in: u64,
    pub(super) io_blocks: u64,
    merge_blocks: u64,
    records_a_block: f64,
    pub(super) input: u64,
    pub(super) work: u64,
    pub(super) output: u64,
}

impl SortPlan {
    pub(super) fn new(spec: &SortSpec, target_blocks: &[u64]) -> Result<SortPlan, LoadError> {
        check(spec)?;
        let blocks = spec.data_bytes.div_ceil(BLOCK_BYTES);
        let io_blocks = spec.io_bytes / BLOCK_BYTES;
        // SAS 1998: (keys + record) x 1.1 x records
        let record_memory_bytes = (spec.record_bytes + spec.key_bytes) as f64 * spec.memory_factor;
        let blocks_in_memory =
            (spec.memory_bytes as f64 / record_memory_bytes * spec.record_bytes as f64 / BLOCK_BYTES as f64) as u64;
        let run = if blocks_in_memory >= blocks { blocks } else { blocks_in_memory / io_blocks * io_blocks };
        if run == 0 {
            let why = format!("{} bytes cannot hold a request of {} with its keys", spec.memory_bytes, spec.io_bytes);
            return Err(LoadError::new("memory_bytes", why));
        }
        let runs = blocks.div_ceil(run);
        if runs > MOST_RUNS {
            return Err(LoadError::new("memory_bytes", format!("{runs} runs; the limit is {MOST_RUNS}")));
        }
        // one buffer is for writing
        let fan_in = (spec.memory_bytes / spec.merge_bytes).saturating_sub(1);
        if runs > 1 && fan_in < 2 {
            let why = format!("a merge needs memory for three requests of {}: two reads and a write", spec.merge_bytes);
            return Err(LoadError::new("merge_bytes", why));
        }
        let place = |region: &Region, needed: u64, item: &str| {
            let (first, area_blocks) = region.stretch(target_blocks, item)?;
            let why = || LoadError::new(item, format!("{needed} blocks are needed; the area has {area_blocks}"));
            if area_blocks < needed { Err(why()) } else { Ok(first) }
        };
        let regions = if runs == 1 { 0 } else { u64::from(runs > fan_in) + 1 };
        Ok(SortPlan {
            blocks,
            run,
            runs,
            fan_in,
            io_blocks,
            merge_blocks: spec.merge_bytes / BLOCK_BYTES,
            records_a_block: BLOCK_BYTES as f64 / spec.record_bytes as f64,
            input: place(&spec.input, blocks, "input")?,
            work: place(&spec.work, blocks * regions, "work")?,
            output: place(&spec.output, blocks, "output")?,
        })
    }

    /// Returns true if all data fits into memory, so that no run is written.
    pub(super) fn in_memory(&self) -> bool {
        self.runs == 1
    }

    /// Offset of a run in the data, blocks.
    pub(super) fn run_first(&self, run: u64) -> u64 {
        run * self.run
    }

    /// Length of a run, blocks.
    pub(super) fn run_blocks(&self, run: u64) -> u64 {
        self.run.min(self.blocks - self.run_first(run))
    }

    /// Number of records in `blocks` blocks.
    pub(super) fn records(&self, blocks: u64) -> f64 {
        blocks as f64 * self.records_a_block
    }
}

fn check(spec: &SortSpec) -> Result<(), LoadError> {
    let sizes = [
        ("data_bytes", spec.data_bytes, 1 << 50),
        ("record_bytes", spec.record_bytes, 1 << 30),
        ("memory_bytes", spec.memory_bytes, 1 << 50),
        ("io_bytes", spec.io_bytes, 1 << 30),
        ("merge_bytes", spec.merge_bytes, 1 << 30),
    ];
    for (item, bytes, max) in sizes {
        if !(1..=max).contains(&bytes) {
            return Err(LoadError::new(item, format!("{bytes} bytes; expected 1 to {max}")));
        }
    }
    for (item, bytes) in [("io_bytes", spec.io_bytes), ("merge_bytes", spec.merge_bytes)] {
        if !bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(LoadError::new(item, format!("{bytes} bytes; expected a multiple of 512")));
        }
    }
    if spec.key_bytes > 1 << 30 {
        return Err(LoadError::new("key_bytes", "expected up to 1 GiB"));
    }
    if !(0.1..=100.0).contains(&spec.memory_factor) {
        return Err(LoadError::new("memory_factor", "expected a factor from 0.1 to 100"));
    }
    for (item, seconds) in [("compare_s", spec.compare_s), ("record_s", spec.record_s)] {
        if !(0.0..=1.0).contains(&seconds) {
            return Err(LoadError::new(item, "expected 0 to 1 s"));
        }
    }
    for (item, number) in [("processors", spec.processors), ("window", spec.window)] {
        if !(1..=1024).contains(&number) {
            return Err(LoadError::new(item, "expected 1 to 1024"));
        }
    }
    Ok(())
}

/// A run to be merged: its offset in the data, its length, the half of the work area that holds it, and the blocks
/// read of it.
#[derive(Clone, Copy, Debug)]
struct SortRun {
    first: u64,
    blocks: u64,
    half: u64,
    read: u64,
}

/// Merge in progress, group by group and pass by pass.
#[derive(Clone, Debug)]
pub(super) struct Merge {
    runs: Vec<SortRun>,
    /// Runs written by this pass so far.
    made: Vec<SortRun>,
    /// Index of the first run of the current group, and the number of runs in the group.
    group: usize,
    width: usize,
    /// Blocks read and written of the current group, and its total.
    read: u64,
    written: u64,
    all: u64,
    /// Number of the next turn: the runs of a group are read in turns, in a different order each round.
    turn: u64,
    last_pass: bool,
}

impl Merge {
    /// Begins the first pass.
    pub(super) fn first(plan: &SortPlan) -> Merge {
        let run = |number| SortRun { first: plan.run_first(number), blocks: plan.run_blocks(number), half: 0, read: 0 };
        let mut merge = Merge {
            runs: (0..plan.runs).map(run).collect(),
            made: Vec::new(),
            group: 0,
            width: 0,
            read: 0,
            written: 0,
            all: 0,
            turn: 0,
            last_pass: plan.runs <= plan.fan_in,
        };
        merge.open_group(plan);
        merge
    }

    fn open_group(&mut self, plan: &SortPlan) {
        let left = self.runs.len() - self.group;
        self.width = left.min(plan.fan_in as usize);
        let runs = &self.runs[self.group..self.group + self.width];
        self.all = runs.iter().map(|run| run.blocks).sum();
        (self.read, self.written, self.turn) = (0, 0, 0);
    }

    pub(super) fn all_read(&self) -> bool {
        self.read == self.all
    }

    /// Number of runs merged at this time.
    pub(super) fn fan_in(&self) -> u32 {
        self.width as u32
    }

    /// Returns the next read: first block and number of blocks.
    pub(super) fn place_read(&mut self, plan: &SortPlan) -> (u64, u32) {
        let width = self.width as u64;
        loop {
            // a different order each round: a step coprime to the width reaches every run, from a shifted start
            let (round, place) = (self.turn / width, self.turn % width);
            let position = (place * coprime(width) + round * 7) % width;
            self.turn += 1;
            let run = &mut self.runs[self.group + position as usize];
            let left = run.blocks - run.read;
            if left > 0 {
                let blocks = left.min(plan.merge_blocks);
                let first = plan.work + run.half * plan.blocks + run.first + run.read;
                run.read += blocks;
                self.read += blocks;
                return (first, blocks as u32);
            }
        }
    }

    /// Returns where the next blocks are written: target and first block.
    pub(super) fn place_written(&mut self, plan: &SortPlan, spec: &SortSpec, blocks: u64) -> (u16, u64) {
        let run = self.runs[self.group];
        let position = run.first + self.written;
        self.written += blocks;
        match self.last_pass {
            true => (spec.output.target, plan.output + position),
            false => (spec.work.target, plan.work + (1 - run.half) * plan.blocks + position),
        }
    }

    /// Goes on to the next group of this pass; returns false if there is none.
    pub(super) fn next_group(&mut self, plan: &SortPlan) -> bool {
        let first = self.runs[self.group];
        self.made.push(SortRun { first: first.first, blocks: self.all, half: 1 - first.half, read: 0 });
        self.group += self.width;
        // a single remaining run is not copied: it joins the next pass where it is
        if self.runs.len() - self.group == 1 {
            self.made.push(self.runs[self.group]);
            self.group += 1;
        }
        if self.group == self.runs.len() {
            return false;
        }
        self.open_group(plan);
        true
    }

    /// Goes on to the next pass; returns false if everything is merged.
    pub(super) fn next_pass(&mut self, plan: &SortPlan) -> bool {
        if self.last_pass {
            return false;
        }
        self.runs = std::mem::take(&mut self.made);
        self.group = 0;
        self.last_pass = self.runs.len() as u64 <= plan.fan_in;
        self.open_group(plan);
        true
    }
}
