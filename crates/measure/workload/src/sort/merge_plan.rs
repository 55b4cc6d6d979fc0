//! Plan of a sort: number of runs, runs merged at a time, passes, request sizes.
//!
//! The algorithm is that of the simulator's `sort` load (SAS 1998). Runs are as long as memory allows, and are written
//! to the work area; `memory / merge request - 1` runs are merged at a time; a run that is left over in a pass is not
//! copied. Each thread has its share of the memory, and forms and merges runs on its own.

use super::row_io::{ALIGN_BYTES, RowReader, RowWriter};
use super::rows::RowShape;
use crate::WorkError;

/// Memory for each row in addition to the row itself, bytes: first bytes of the key, and the row's number
/// ([`super::runs`]).
pub const ENTRY_BYTES: usize = 16;
/// Smallest default request of a merge, bytes.
const MIN_REQUEST_BYTES: usize = 16 << 10;
/// Largest default request, bytes.
const DEFAULT_REQUEST_BYTES: usize = 1 << 20;
/// Largest number of threads.
pub const MAX_THREADS: usize = 256;
/// Largest number of rows of a run: row numbers in memory have 32 bits.
const MAX_RUN_ROWS: u64 = u32::MAX as u64;
/// Largest number of runs, because each takes memory.
const MAX_RUNS: u64 = 1 << 20;

/// Size of a sort: data, memory, threads and requests.
#[derive(Clone, Copy, Debug)]
pub struct SortSize {
    /// Number of rows.
    pub rows: u64,
    /// Sizes of a row.
    pub shape: RowShape,
    /// Memory for rows and buffers, bytes.
    pub memory_bytes: u64,
    /// Number of threads.
    pub threads: usize,
    /// Request size for reading the source and for writing, bytes; 0 means a size that suits the memory.
    pub request_bytes: usize,
    /// Request size for reading runs, bytes; 0 means the largest size with which one pass suffices.
    pub merge_request_bytes: usize,
    /// Direct I/O, for which runs begin at block boundaries.
    pub direct: bool,
}

/// Plan of a merge sort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergePlan {
    /// Number of rows of each run except the last.
    pub run_rows: u64,
    /// Number of runs; one if everything fits into memory.
    pub runs: u64,
    /// Runs merged at a time.
    pub fan_in: u64,
    /// Number of merge passes over all data; 0 if everything fits into memory.
    pub passes: u32,
    /// Request size for reading the source and for writing, bytes.
    pub request_bytes: usize,
    /// Request size for reading runs, bytes.
    pub merge_request_bytes: usize,
    /// Number of threads used.
    pub threads: usize,
}

impl MergePlan {
    /// Plans a sort.
    ///
    /// # Errors
    /// When the options are impossible, or the memory is too small; the message says how much suffices.
    pub fn new(size: &SortSize) -> Result<MergePlan, WorkError> {
        size.shape.check_sizes().map_err(WorkError::Usage)?;
        let SortSize { rows, threads, .. } = *size;
        if rows == 0 || !(1..=MAX_THREADS).contains(&threads) {
            let message =
                format!("{rows} rows by {threads} threads; expected at least a row and 1 to {MAX_THREADS} threads");
            return Err(WorkError::Usage(message));
        }
        let threads = threads.min(rows.div_ceil(1024) as usize).max(1);
        let thread_memory = size.memory_bytes / threads as u64;
        let request = choose_request(size.request_bytes, thread_memory, "request")?;
        let bytes_per_row = size.shape.row_bytes as u64 + ENTRY_BYTES as u64;
        let writer_memory = RowWriter::memory_bytes(request) as u64;
        let rows_per_thread = thread_memory.saturating_sub(writer_memory) / bytes_per_row;
        // if everything fits, the threads share one buffer for rows
        let shared_rows = size.memory_bytes.saturating_sub(threads as u64 * writer_memory) / bytes_per_row;
        if shared_rows >= size.rows && size.rows <= MAX_RUN_ROWS {
            return Ok(MergePlan {
                run_rows: size.rows,
                runs: 1,
                fan_in: 1,
                passes: 0,
                request_bytes: request,
                merge_request_bytes: request,
                threads,
            });
        }
        let block_rows = if size.direct { rows_in_whole_blocks(size.shape.row_bytes) } else { 1 };
        let run_rows = rows_per_thread.min(MAX_RUN_ROWS) / block_rows * block_rows;
        if run_rows == 0 {
            let min_bytes = (block_rows * bytes_per_row + writer_memory) * threads as u64;
            return Err(memory_error(size, "a run", min_bytes));
        }
        let runs = size.rows.div_ceil(run_rows);
        if runs > MAX_RUNS {
            let remedy = if rows_per_thread > MAX_RUN_ROWS { "sort fewer rows" } else { "increase --memory" };
            return Err(WorkError::Usage(format!("{runs} runs; the limit is {MAX_RUNS}: {remedy}")));
        }
        MergePlan { run_rows, runs, fan_in: 0, passes: 0, request_bytes: request, merge_request_bytes: 0, threads }
            .with_merge_passes(size, thread_memory)
    }

    /// Adds the merge passes, with `thread_memory` bytes for each thread.
    fn with_merge_passes(self, size: &SortSize, thread_memory: u64) -> Result<MergePlan, WorkError> {
        let row_bytes = size.shape.row_bytes;
        let reader_memory = |request: usize| RowReader::memory_bytes(row_bytes, request) as u64;
        let memory_for_readers = thread_memory.saturating_sub(RowWriter::memory_bytes(self.request_bytes) as u64);
        let fan_in = |request: usize| memory_for_readers / reader_memory(request);
        let merge_request = match size.merge_request_bytes {
            // the largest request that merges all runs in one pass, or the smallest
            0 => (0..16)
                .map(|halvings| (DEFAULT_REQUEST_BYTES >> halvings).max(MIN_REQUEST_BYTES))
                .find(|&request| fan_in(request) >= self.runs)
                .unwrap_or(MIN_REQUEST_BYTES),
            request => check_request(request, "merge-request")?,
        };
        let fan_in = fan_in(merge_request);
        if fan_in < 2 {
            let writer_memory = RowWriter::memory_bytes(self.request_bytes) as u64;
            let min_bytes = (2 * reader_memory(merge_request) + writer_memory) * self.threads as u64;
            return Err(memory_error(size, "a merge of two runs", min_bytes));
        }
        Ok(MergePlan { fan_in, merge_request_bytes: merge_request, passes: merge_passes(self.runs, fan_in), ..self })
    }

    /// Returns the memory that the sort takes, bytes: at most the limit, and no more than all rows need.
    #[must_use]
    pub fn memory_needed(&self, size: &SortSize) -> u64 {
        let rows = size.rows.saturating_mul((size.shape.row_bytes + ENTRY_BYTES) as u64);
        rows.saturating_add((self.threads * RowWriter::memory_bytes(self.request_bytes)) as u64).min(size.memory_bytes)
    }

    /// Returns the largest number of bytes that each of `folders` work folders needs. Runs are distributed in rotation.
    /// The runs that a pass has read are freed when the pass has ended; a file with a run that was not copied stays.
    #[must_use]
    pub fn space_per_folder(&self, rows: u64, row_bytes: usize, folders: usize) -> Vec<u64> {
        if self.passes == 0 {
            return vec![0; folders];
        }
        let align_bytes = ALIGN_BYTES as u64;
        let run_bytes =
            |rows: u64| rows.saturating_mul(row_bytes as u64).div_ceil(align_bytes).saturating_mul(align_bytes);
        // bytes of the files in order of creation, `folders` files for each pass; then the file and rows of each run
        let mut files = vec![0u64; folders];
        let mut runs: Vec<(usize, u64)> = Vec::new();
        assert_eq!(self.runs, rows.div_ceil(self.run_rows), "the plan of another number of rows");
        for run in 0..self.runs {
            let (file, rows) = ((run % folders as u64) as usize, self.run_rows.min(rows - run * self.run_rows));
            files[file] = files[file].saturating_add(run_bytes(rows));
            runs.push((file, rows));
        }
        let mut max_bytes = files.clone();
        for _ in 1..self.passes {
            let first_new = files.len();
            files.resize(first_new + folders, 0);
            let merged = runs.chunks(self.fan_in as usize).enumerate().map(|(number, group)| match group {
                [single_run] => *single_run,
                group => {
                    let (file, rows) = (first_new + number % folders, group.iter().map(|run| run.1).sum());
                    files[file] = files[file].saturating_add(run_bytes(rows));
                    (file, rows)
                }
            });
            runs = merged.collect();
            for (folder, max_bytes) in max_bytes.iter_mut().enumerate() {
                let current =
                    files.iter().skip(folder).step_by(folders).fold(0, |sum: u64, file| sum.saturating_add(*file));
                *max_bytes = (*max_bytes).max(current);
            }
            for file in (0..first_new).filter(|file| runs.iter().all(|run| run.0 != *file)) {
                files[file] = 0;
            }
        }
        max_bytes
    }
}

/// Returns the number of passes that merge `runs` runs into one.
fn merge_passes(mut runs: u64, fan_in: u64) -> u32 {
    let mut passes = 0;
    while runs > 1 {
        runs = runs.div_ceil(fan_in);
        passes += 1;
    }
    passes
}

/// Returns the smallest number of rows that fill whole blocks.
#[must_use]
pub fn rows_in_whole_blocks(row_bytes: usize) -> u64 {
    // Euclid's algorithm: `a` ends as the greatest common divisor
    let (mut a, mut b) = (ALIGN_BYTES, row_bytes);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    (ALIGN_BYTES / a) as u64
}

/// Returns the requested size, or the default for 0.
fn choose_request(requested: usize, memory: u64, name: &str) -> Result<usize, WorkError> {
    match requested {
        0 => Ok(default_request(memory)),
        requested => check_request(requested, name),
    }
}

/// Returns the default request for this memory, bytes: a sixteenth of it, so that most of it is for rows.
fn default_request(memory: u64) -> usize {
    (memory / 16).clamp(MIN_REQUEST_BYTES as u64, DEFAULT_REQUEST_BYTES as u64) as usize / ALIGN_BYTES * ALIGN_BYTES
}

fn check_request(request: usize, name: &str) -> Result<usize, WorkError> {
    if request.is_multiple_of(ALIGN_BYTES) && (ALIGN_BYTES..=1 << 28).contains(&request) {
        return Ok(request);
    }
    Err(WorkError::Usage(format!("--{name} {request}: expected a multiple of {ALIGN_BYTES} bytes, at most 256 MiB")))
}

fn memory_error(size: &SortSize, part: &str, min_bytes: u64) -> WorkError {
    let threads = if size.threads > 1 { format!(" by {} threads", size.threads) } else { String::new() };
    WorkError::Usage(format!("--memory {}: {part}{threads} needs at least {min_bytes} bytes", size.memory_bytes))
}

/// Returns the smallest memory in which `rows` rows are sorted without runs, bytes: the rows, an entry for each, and
/// the buffer of a writer for each thread. `request_bytes` is 0 for the default request.
#[must_use]
pub fn memory_in_place(rows: u64, row_bytes: usize, threads: usize, request_bytes: usize) -> u64 {
    let memory_for_rows = rows.saturating_mul((row_bytes + ENTRY_BYTES) as u64);
    let mut memory = memory_for_rows;
    loop {
        let request = if request_bytes == 0 { default_request(memory / threads as u64) } else { request_bytes };
        let needed = memory_for_rows.saturating_add((threads * RowWriter::memory_bytes(request)) as u64);
        // more memory means larger default requests, up to the maximum
        if needed <= memory {
            return memory;
        }
        memory = needed;
    }
}

/// Returns the memory to sort in place by SAS 1998, bytes: (sum of key lengths, each rounded up to 8 bytes, + record
/// length) x 1.1 x records. SAS published 171 MB for a data set of 100 MB, but not the inputs of that figure.
#[must_use]
pub fn published_memory(rows: u64, row_bytes: usize, keys: &[usize]) -> u64 {
    let key_bytes: usize = keys.iter().map(|key| key.next_multiple_of(8)).sum();
    (1.1 * (key_bytes + row_bytes) as f64 * rows as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: RowShape = RowShape { row_bytes: 100, key_bytes: 10 };

    fn plan_sort(rows: u64, memory: u64, threads: usize) -> Result<MergePlan, String> {
        let size = SortSize {
            rows,
            shape: SHAPE,
            memory_bytes: memory,
            threads,
            request_bytes: 0,
            merge_request_bytes: 0,
            direct: true,
        };
        MergePlan::new(&size).map_err(|error| error.to_string())
    }

    #[test]
    fn all_that_fits_is_sorted_in_memory() {
        let fits = plan_sort(1_000_000, 118 << 20, 1).unwrap();
        let size = |memory| SortSize {
            rows: 1_000_000,
            shape: SHAPE,
            memory_bytes: memory,
            threads: 1,
            request_bytes: 0,
            merge_request_bytes: 0,
            direct: true,
        };
        // 116 bytes a row and a writer's 1 MiB and a block, however much more it may take
        assert_eq!([118 << 20, 1 << 40].map(|memory| fits.memory_needed(&size(memory))), [117_052_672; 2]);
        assert_eq!(fits.memory_needed(&size(1 << 20)), 1 << 20);
        assert_eq!((fits.runs, fits.passes, fits.space_per_folder(1_000_000, 100, 2)), (1, 0, vec![0, 0]));
        let runs = plan_sort(1_000_000, 16 << 20, 1).unwrap();
        // 16 MiB less a writer's 1 MiB and a block, 116 bytes a row, whole blocks are 1024 rows
        assert_eq!(runs.run_rows, ((16 << 20) - (1 << 20) - 4096) / 116 / 1024 * 1024);
        assert_eq!((runs.runs, runs.passes), (8, 1));
        // the last run ends within a block
        assert_eq!(runs.space_per_folder(1_000_000, 100, 1), [100_000_000u64.next_multiple_of(4096)]);
        // each of two threads has half of it, with a writer's 512 KiB and a block: 66 x 1024 rows, 14.8 runs
        assert_eq!(plan_sort(1_000_000, 16 << 20, 2).unwrap().runs, 15);
    }

    #[test]
    fn memory_in_place_is_the_smallest_that_holds_all_rows() {
        for (rows, threads) in [(1_000_000, 1), (1_000_000, 8), (100_000, 3), (5_000, 2)] {
            let needed = memory_in_place(rows, 100, threads, 0);
            let runs = [needed, needed - 1].map(|memory| plan_sort(rows, memory, threads).unwrap().runs);
            assert!(runs[0] == 1 && runs[1] > 1, "{rows} by {threads}: {needed}, {runs:?}");
        }
        assert_eq!(memory_in_place(1_000_000, 100, 1, 0), 116_000_000 + (1 << 20) + 4096);
        assert_eq!(memory_in_place(1_000_000, 100, 2, 8192), 116_000_000 + 2 * (8192 + 4096));
    }

    #[test]
    fn a_run_has_no_more_rows_than_can_be_numbered() {
        let runs = plan_sort(5_000_000_000, 1 << 40, 1).unwrap();
        assert_eq!((runs.run_rows, runs.runs, runs.passes), (u64::from(u32::MAX) / 1024 * 1024, 2, 1));
    }

    #[test]
    fn little_memory_takes_more_passes_and_too_little_is_rejected() {
        let many = plan_sort(10_000_000, 1 << 20, 1).unwrap();
        assert!(many.passes == 2 && many.fan_in < many.runs, "{many:?}");
        // the runs being merged and the result exist at the same time
        let room = many.space_per_folder(10_000_000, 100, 1)[0];
        assert!((2_000_000_000..2_001_000_000).contains(&room), "{room}");
        let error = plan_sort(1_000_000, 60_000, 1).unwrap_err();
        assert!(error.contains("needs at least"), "{error}");
        // the memory stated in the message suffices
        let min_bytes: u64 = error.split_whitespace().rev().nth(1).unwrap().parse().unwrap();
        assert!(plan_sort(1_000_000, min_bytes, 1).is_ok() && plan_sort(1_000_000, min_bytes - 1, 1).is_err());
    }

    /// Plans runs of 4,096 rows of a byte: a block each.
    fn plan_of_blocks(runs: u64, fan_in: u64) -> MergePlan {
        let (request, merge_request, threads) = (ALIGN_BYTES, ALIGN_BYTES, 1);
        let passes = merge_passes(runs, fan_in);
        MergePlan {
            run_rows: ALIGN_BYTES as u64,
            runs,
            fan_in,
            passes,
            request_bytes: request,
            merge_request_bytes: merge_request,
            threads,
        }
    }

    #[test]
    fn folders_need_space_for_their_runs() {
        let blocks = |runs: u64, fan_in: u64, folders: usize| {
            let room = plan_of_blocks(runs, fan_in).space_per_folder(runs * ALIGN_BYTES as u64, 1, folders);
            room.into_iter().map(|bytes| bytes / ALIGN_BYTES as u64).collect::<Vec<_>>()
        };
        // three runs in two folders take two and one blocks, not one and a half each
        assert_eq!((blocks(3, 8, 2), blocks(4, 8, 2)), (vec![2, 1], vec![2, 2]));
        // 9 runs, two at a time: the ninth is not copied twice, so that the file of all nine stays during both passes
        assert_eq!(blocks(9, 2, 1), [9 + 8 + 8]);
        // without a single remaining run, at most two copies exist
        assert_eq!(blocks(8, 2, 1), [16]);
        assert_eq!(blocks(1, 2, 3), [0, 0, 0]);
    }

    #[test]
    fn passes_agree_with_hand_calculation() {
        assert_eq!(
            [merge_passes(1, 4), merge_passes(4, 4), merge_passes(5, 4), merge_passes(16, 4), merge_passes(17, 4)],
            [0, 1, 2, 2, 3]
        );
        assert_eq!(
            (
                rows_in_whole_blocks(100),
                rows_in_whole_blocks(128),
                rows_in_whole_blocks(4096),
                rows_in_whole_blocks(33)
            ),
            (1024, 32, 1, 4096)
        );
    }

    #[test]
    fn published_memory_follows_its_formula() {
        // four keys of 8 bytes, records of 100 bytes, a million of them
        assert_eq!(published_memory(1_000_000, 100, &[8, 8, 8, 8]), 145_200_000);
        assert_eq!(published_memory(1, 100, &[3, 9]), (1.1 * 124.0) as u64);
    }
}
