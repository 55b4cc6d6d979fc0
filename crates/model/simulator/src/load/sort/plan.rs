//! Plan of a sort: its runs and merge passes, and the block addresses of each.

use crate::io::BLOCK_BYTES;
use crate::load::netbench::coprime_near_golden_section;
use crate::load::{LoadError, Region, SortSpec};

/// Largest number of runs; their positions are kept in memory.
const MAX_RUNS: u64 = 1 << 20;

/// Sizes and positions, blocks.
#[derive(Clone, Debug)]
pub(super) struct SortPlan {
    /// Blocks of all data.
    data_blocks: u64,
    /// Blocks of each run but the last.
    run_length_blocks: u64,
    pub(super) runs: u64,
    /// Runs merged at a time.
    pub(super) fan_in: u64,
    pub(super) io_blocks: u64,
    merge_blocks: u64,
    records_per_block: f64,
    pub(super) input_first_block: u64,
    pub(super) work_first_block: u64,
    pub(super) output_first_block: u64,
}

impl SortPlan {
    pub(super) fn new(spec: &SortSpec, target_blocks: &[u64]) -> Result<SortPlan, LoadError> {
        check_limits(spec)?;
        let blocks = spec.data_bytes.div_ceil(BLOCK_BYTES);
        let io_blocks = spec.io_bytes / BLOCK_BYTES;
        // SAS 1998: (keys + record) x 1.1 x records
        let record_memory_bytes = (spec.record_bytes + spec.key_bytes) as f64 * spec.memory_factor;
        let blocks_in_memory =
            (spec.memory_bytes as f64 / record_memory_bytes * spec.record_bytes as f64 / BLOCK_BYTES as f64) as u64;
        let run = if blocks_in_memory >= blocks { blocks } else { blocks_in_memory / io_blocks * io_blocks };
        if run == 0 {
            let reason =
                format!("{} bytes cannot hold a request of {} with its keys", spec.memory_bytes, spec.io_bytes);
            return Err(LoadError::new("memory_bytes", reason));
        }
        let runs = blocks.div_ceil(run);
        if runs > MAX_RUNS {
            return Err(LoadError::new("memory_bytes", format!("{runs} runs; the limit is {MAX_RUNS}")));
        }
        // one buffer is for writing
        let fan_in = (spec.memory_bytes / spec.merge_bytes).saturating_sub(1);
        if runs > 1 && fan_in < 2 {
            let reason =
                format!("a merge needs memory for three requests of {}: two reads and a write", spec.merge_bytes);
            return Err(LoadError::new("merge_bytes", reason));
        }
        let resolve_region = |region: &Region, needed: u64, item: &str| {
            let (first, area_blocks) = region.resolve_blocks(target_blocks, item)?;
            let too_small = || LoadError::new(item, format!("{needed} blocks are needed; the area has {area_blocks}"));
            if area_blocks < needed { Err(too_small()) } else { Ok(first) }
        };
        // several passes write alternately to two halves of the work area
        let work_halves = if runs == 1 { 0 } else { u64::from(runs > fan_in) + 1 };
        Ok(SortPlan {
            data_blocks: blocks,
            run_length_blocks: run,
            runs,
            fan_in,
            io_blocks,
            merge_blocks: spec.merge_bytes / BLOCK_BYTES,
            records_per_block: BLOCK_BYTES as f64 / spec.record_bytes as f64,
            input_first_block: resolve_region(&spec.input, blocks, "input")?,
            work_first_block: resolve_region(&spec.work, blocks * work_halves, "work")?,
            output_first_block: resolve_region(&spec.output, blocks, "output")?,
        })
    }

    /// Returns true if all data fits into memory, so that no run is written.
    pub(super) fn is_in_memory(&self) -> bool {
        self.runs == 1
    }

    /// Offset of a run in the data, blocks.
    pub(super) fn run_first_block(&self, run: u64) -> u64 {
        run * self.run_length_blocks
    }

    /// Length of a run, blocks.
    pub(super) fn run_blocks(&self, run: u64) -> u64 {
        self.run_length_blocks.min(self.data_blocks - self.run_first_block(run))
    }

    /// Number of records in `blocks` blocks.
    pub(super) fn record_count(&self, blocks: u64) -> f64 {
        blocks as f64 * self.records_per_block
    }
}

fn check_limits(spec: &SortSpec) -> Result<(), LoadError> {
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

/// A run to be merged.
#[derive(Clone, Copy, Debug)]
struct SortRun {
    /// Offset in the data.
    first_block: u64,
    /// Length.
    blocks: u64,
    /// Half of the work area that holds the run.
    work_half: u64,
    /// Blocks read so far.
    blocks_read: u64,
}

/// Merge in progress, group by group and pass by pass.
#[derive(Clone, Debug)]
pub(super) struct Merge {
    runs: Vec<SortRun>,
    /// Runs written by this pass so far.
    merged_runs: Vec<SortRun>,
    /// Index of the first run of the current group.
    group_start: usize,
    /// Number of runs in the group.
    group_width: usize,
    /// Blocks of the group read so far.
    blocks_read: u64,
    /// Blocks of the group written so far.
    blocks_written: u64,
    /// Blocks of the group.
    group_blocks: u64,
    /// Number of the next turn: the runs of a group are read in turns, in a different order each round.
    next_turn: u64,
    is_last_pass: bool,
}

impl Merge {
    /// Begins the first pass.
    pub(super) fn new(plan: &SortPlan) -> Merge {
        let run = |number| SortRun {
            first_block: plan.run_first_block(number),
            blocks: plan.run_blocks(number),
            work_half: 0,
            blocks_read: 0,
        };
        let mut merge = Merge {
            runs: (0..plan.runs).map(run).collect(),
            merged_runs: Vec::new(),
            group_start: 0,
            group_width: 0,
            blocks_read: 0,
            blocks_written: 0,
            group_blocks: 0,
            next_turn: 0,
            is_last_pass: plan.runs <= plan.fan_in,
        };
        merge.open_group(plan);
        merge
    }

    fn open_group(&mut self, plan: &SortPlan) {
        let left = self.runs.len() - self.group_start;
        self.group_width = left.min(plan.fan_in as usize);
        let runs = &self.runs[self.group_start..self.group_start + self.group_width];
        self.group_blocks = runs.iter().map(|run| run.blocks).sum();
        (self.blocks_read, self.blocks_written, self.next_turn) = (0, 0, 0);
    }

    pub(super) fn is_all_read(&self) -> bool {
        self.blocks_read == self.group_blocks
    }

    /// Number of runs merged at this time.
    pub(super) fn fan_in(&self) -> u32 {
        self.group_width as u32
    }

    /// Returns the next read: first block and number of blocks.
    pub(super) fn next_read(&mut self, plan: &SortPlan) -> (u64, u32) {
        let width = self.group_width as u64;
        assert!(self.blocks_read < self.group_blocks, "all of the group is read");
        loop {
            // a different order each round: a step coprime to the width reaches every run, from a shifted start
            let (round, turn) = (self.next_turn / width, self.next_turn % width);
            let position = (turn * coprime_near_golden_section(width) + round * 7) % width;
            self.next_turn += 1;
            let run = &mut self.runs[self.group_start + position as usize];
            let left = run.blocks - run.blocks_read;
            if left > 0 {
                let blocks = left.min(plan.merge_blocks);
                let first =
                    plan.work_first_block + run.work_half * plan.data_blocks + run.first_block + run.blocks_read;
                run.blocks_read += blocks;
                self.blocks_read += blocks;
                return (first, blocks as u32);
            }
        }
    }

    /// Returns where the next blocks are written: target and first block.
    pub(super) fn next_write(&mut self, plan: &SortPlan, spec: &SortSpec, blocks: u64) -> (u16, u64) {
        let run = self.runs[self.group_start];
        let position = run.first_block + self.blocks_written;
        self.blocks_written += blocks;
        match self.is_last_pass {
            true => (spec.output.target, plan.output_first_block + position),
            false => (spec.work.target, plan.work_first_block + (1 - run.work_half) * plan.data_blocks + position),
        }
    }

    /// Continues with the next group of this pass; returns false if there is none.
    pub(super) fn next_group(&mut self, plan: &SortPlan) -> bool {
        let first = self.runs[self.group_start];
        self.merged_runs.push(SortRun {
            first_block: first.first_block,
            blocks: self.group_blocks,
            work_half: 1 - first.work_half,
            blocks_read: 0,
        });
        self.group_start += self.group_width;
        // a single remaining run is not copied: the next pass reads it from where it is
        if self.runs.len() - self.group_start == 1 {
            self.merged_runs.push(self.runs[self.group_start]);
            self.group_start += 1;
        }
        if self.group_start == self.runs.len() {
            return false;
        }
        self.open_group(plan);
        true
    }

    /// Continues with the next pass; returns false if everything is merged.
    pub(super) fn next_pass(&mut self, plan: &SortPlan) -> bool {
        if self.is_last_pass {
            return false;
        }
        self.runs = std::mem::take(&mut self.merged_runs);
        self.group_start = 0;
        self.is_last_pass = self.runs.len() as u64 <= plan.fan_in;
        self.open_group(plan);
        true
    }
}
