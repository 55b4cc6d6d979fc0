//! Runs: rows are read into memory, sorted, and written in order. Sorting moves small entries (the first eight bytes of
//! a key, and the row's number); the rows themselves move once, when they are written.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

use super::merge_plan::MergePlan;
use super::row_io::{ALIGN_BYTES, AlignedBuffer, PartialBlocks, RowFile, RowWriter, write_partial_blocks};
use super::rows::RowShape;
use super::{Progress, SortSteps};
use crate::clock::StepTime;
use crate::{WorkError, thread_error};

/// Entry of a row in memory for sorting: key prefix and row number.
type SortEntry = (u64, u32);

/// Returns the number of rows between two samples of a run's keys. With samples, a run can be cut by keys without
/// reading all of it.
pub fn rows_per_sample(row_bytes: usize) -> u64 {
    ((64 << 10) / row_bytes).max(1) as u64
}

/// A sorted run in a file.
#[derive(Clone, Debug)]
pub struct SortedRun {
    /// Index of the work file.
    pub file_index: usize,
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Number of rows.
    pub rows: u64,
    /// Key prefixes of its first row and of every [`rows_per_sample`]-th row after it.
    pub samples: Vec<u64>,
}

/// Rows of a run in memory.
pub struct RunBuffer {
    shape: RowShape,
    rows: AlignedBuffer,
    entries: Vec<SortEntry>,
}

impl RunBuffer {
    /// Allocates memory for `max_rows` rows.
    #[must_use]
    pub fn new(shape: RowShape, max_rows: u64) -> RunBuffer {
        let bytes = (max_rows as usize * shape.row_bytes).next_multiple_of(ALIGN_BYTES);
        RunBuffer { shape, rows: AlignedBuffer::new(bytes), entries: Vec::with_capacity(max_rows as usize) }
    }

    /// Reads rows of the source, of which the first must begin at a block boundary.
    fn read_rows(
        &mut self,
        source: RowFile<'_>,
        first: u64,
        rows: u64,
        request: usize,
        steps: &mut SortSteps,
    ) -> Result<(), WorkError> {
        let needed = rows as usize * self.shape.row_bytes;
        let requested = if source.direct.is_some() { needed.next_multiple_of(ALIGN_BYTES) } else { needed };
        let offset = first * self.shape.row_bytes as u64;
        let received = source.fill_buffer(offset, &mut self.rows.bytes_mut()[..requested], request, &mut steps.read)?;
        if received < needed {
            let missing = needed - received;
            let message = format!("{}: ended {missing} bytes early; something else changed it", source.path.display());
            return Err(WorkError::VerificationFailed(message));
        }
        Ok(())
    }

    /// Sorts the first `rows` rows with several threads.
    fn sort_rows(&mut self, rows: u64, threads: usize, steps: &mut SortSteps) -> Result<(), WorkError> {
        let RunBuffer { shape, rows: memory, entries } = self;
        let (shape, bytes) = (*shape, memory.bytes());
        let mut time = StepTime::default();
        let helpers_cpu_s = time.time_compute(|| {
            entries.clear();
            let numbered_rows = bytes.chunks_exact(shape.row_bytes).take(rows as usize).zip(0..);
            entries.extend(numbered_rows.map(|(row, number)| (shape.key_prefix(row), number)));
            EntrySorter { shape, bytes }.sort_entries(entries, threads)
        })?;
        steps.compute += StepTime { cpu_s: time.cpu_s + helpers_cpu_s, ..time.while_others_wait(threads) };
        Ok(())
    }

    fn row(&self, number: u32) -> &[u8] {
        let start = number as usize * self.shape.row_bytes;
        &self.rows.bytes()[start..start + self.shape.row_bytes]
    }

    /// Writes a range of the sorted rows.
    fn write_rows(
        &self,
        range: Range<usize>,
        mut writer: RowWriter<'_>,
        progress: &Progress,
        steps: &mut SortSteps,
    ) -> Result<PartialBlocks, WorkError> {
        let mut total_time = StepTime::default();
        let written = total_time.time_compute(|| {
            for entries in self.entries[range].chunks(STOP_CHECK_ROWS) {
                progress.add_rows(entries.len() as u64)?;
                entries.iter().try_for_each(|&(_, number)| writer.push_row(self.row(number)))?;
            }
            writer.finish_writing()
        });
        let (edges, time) = written?;
        steps.compute += total_time.minus_part(&time);
        steps.write += time;
        Ok(edges)
    }

    fn sample_keys(&self) -> Vec<u64> {
        self.entries.iter().step_by(rows_per_sample(self.shape.row_bytes) as usize).map(|entry| entry.0).collect()
    }
}

/// Number of rows after which writing checks whether to stop, and smallest number of rows that several threads sort.
const STOP_CHECK_ROWS: usize = 16_384;

/// Sorter of entries by the keys of their rows.
#[derive(Clone, Copy)]
struct EntrySorter<'a> {
    shape: RowShape,
    bytes: &'a [u8],
}

impl EntrySorter<'_> {
    /// Orders by prefix, then by the rest of the key, then by the order in the source.
    #[inline]
    fn compare_entries(&self, a: &SortEntry, b: &SortEntry) -> Ordering {
        a.0.cmp(&b.0).then_with(|| self.key_rest(a).cmp(self.key_rest(b))).then(a.1.cmp(&b.1))
    }

    #[inline]
    fn key_rest(&self, entry: &SortEntry) -> &[u8] {
        let start = entry.1 as usize * self.shape.row_bytes;
        self.shape.key_rest(&self.bytes[start..start + self.shape.row_bytes])
    }

    /// Partitions the entries by rank, and sorts both sides in parallel. Returns the processor time of the threads that
    /// it started, s.
    fn sort_entries(self, entries: &mut [SortEntry], threads: usize) -> Result<f64, WorkError> {
        if threads < 2 || entries.len() < STOP_CHECK_ROWS {
            entries.sort_unstable_by(|a, b| self.compare_entries(a, b));
            return Ok(0.0);
        }
        let low_threads = threads / 2;
        let middle = entries.len() / threads * low_threads;
        let (low, _, high) = entries.select_nth_unstable_by(middle, |a, b| self.compare_entries(a, b));
        std::thread::scope(|scope| {
            let sort_low = move || -> Result<f64, WorkError> {
                let helpers_cpu_s = self.sort_entries(low, low_threads)?;
                Ok(helpers_cpu_s + crate::clock::thread_time().as_secs_f64())
            };
            let helper = std::thread::Builder::new().spawn_scoped(scope, sort_low).map_err(thread_error)?;
            let helpers_cpu_s = self.sort_entries(high, threads - low_threads)?;
            Ok(helpers_cpu_s + helper.join().expect("a sorting thread")?)
        })
    }
}

/// Shared parameters of the threads that form runs.
#[derive(Clone, Copy)]
pub struct RunFormer<'a> {
    /// Sizes of a row.
    pub shape: RowShape,
    /// Plan of the sort.
    pub plan: &'a MergePlan,
    /// Number of rows of the source.
    pub rows: u64,
    /// The source.
    pub source: RowFile<'a>,
    /// Progress and stop flag.
    pub progress: &'a Progress,
}

impl RunFormer<'_> {
    /// Returns the number of rows of a run.
    fn run_rows(&self, run: u64) -> u64 {
        debug_assert!(run < self.plan.runs, "run {run} of {}", self.plan.runs);
        self.plan.run_rows.min(self.rows - run * self.plan.run_rows)
    }

    /// Forms runs until none is left; they are distributed over the work files in rotation. `next_run` is shared by all
    /// threads. Returns the runs with their numbers.
    ///
    /// # Errors
    /// When reading or writing fails.
    pub fn form_runs(
        &self,
        next_run: &AtomicU64,
        files: &[RowFile<'_>],
    ) -> Result<(Vec<(u64, SortedRun)>, SortSteps), WorkError> {
        let mut memory = RunBuffer::new(self.shape, self.plan.run_rows);
        let (mut runs, mut steps) = (Vec::new(), SortSteps::default());
        loop {
            let run = next_run.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if run >= self.plan.runs {
                return Ok((runs, steps));
            }
            let rows = self.run_rows(run);
            memory.read_rows(self.source, run * self.plan.run_rows, rows, self.plan.request_bytes, &mut steps)?;
            self.progress.check_stop()?;
            memory.sort_rows(rows, 1, &mut steps)?;
            let file = (run % files.len() as u64) as usize;
            let offset = run / files.len() as u64 * self.plan.run_rows * self.shape.row_bytes as u64;
            let writer = RowWriter::open(files[file], offset, self.plan.request_bytes);
            let edges = memory.write_rows(0..rows as usize, writer, self.progress, &mut steps)?;
            assert!(edges.is_empty() || run + 1 == self.plan.runs, "a run that does not consist of whole blocks");
            write_partial_blocks(files[file], edges, &mut steps.write)?;
            runs.push((run, SortedRun { file_index: file, offset, rows, samples: memory.sample_keys() }));
        }
    }

    /// Sorts all rows in memory, and writes them to the target.
    ///
    /// # Errors
    /// When reading or writing fails.
    pub fn sort_in_memory(&self, target: RowFile<'_>) -> Result<SortSteps, WorkError> {
        let (rows, threads) = (self.rows as usize, self.plan.threads);
        let mut steps = SortSteps::default();
        let mut memory = RunBuffer::new(self.shape, self.rows);
        memory.read_rows(self.source, 0, self.rows, self.plan.request_bytes, &mut steps)?;
        steps.read = steps.read.while_others_wait(threads);
        self.progress.check_stop()?;
        memory.sort_rows(self.rows, threads, &mut steps)?;
        let memory = &memory;
        let write_part = |part: usize| {
            let range = rows * part / threads..rows * (part + 1) / threads;
            let mut steps = SortSteps::default();
            let writer = RowWriter::open(target, (range.start * self.shape.row_bytes) as u64, self.plan.request_bytes);
            memory.write_rows(range, writer, self.progress, &mut steps).map(|edges| (edges, steps))
        };
        let parts = super::run_on_threads(threads, write_part)?;
        let mut single_thread = StepTime::default();
        for (edges, part_steps) in parts {
            steps += part_steps;
            write_partial_blocks(target, edges, &mut single_thread)?;
        }
        steps.write += single_thread.while_others_wait(threads);
        Ok(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_sort_as_one_does_and_equal_keys_keep_their_order() {
        let shape = RowShape { row_bytes: 32, key_bytes: 9 };
        let rows = 100_000_u64;
        let mut memory = RunBuffer::new(shape, rows);
        let length = rows as usize * shape.row_bytes;
        shape.make_rows(3, 0, &mut memory.rows.bytes_mut()[..length]);
        // few keys, which agree in their first eight bytes
        for row in memory.rows.bytes_mut()[..length].chunks_exact_mut(32) {
            row[1..8].fill(b'x');
        }
        let mut order = |threads: usize| {
            memory.sort_rows(rows, threads, &mut SortSteps::default()).unwrap();
            memory.entries.clone()
        };
        let one = order(1);
        assert!([2, 3, 5].iter().all(|&threads| order(threads) == one));
        let mut expected: Vec<u32> = (0..rows as u32).collect();
        expected.sort_by(|&a, &b| memory.row(a)[..9].cmp(&memory.row(b)[..9]));
        assert!(one.iter().map(|entry| entry.1).eq(expected));
    }
}
