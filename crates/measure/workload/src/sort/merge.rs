//! Merge of sorted runs: a loser tree over readers. A merge is cut into parts by ranges of keys, which several threads
//! merge at once.

use super::row_io::{PartialBlocks, RowFile, RowReader, RowWriter};
use super::rows::RowShape;
use super::runs::{SortedRun, rows_per_sample};
use super::{Progress, SortSteps};
use crate::WorkError;
use crate::clock::StepTime;

/// Number of rows after which a merge checks whether to stop.
const STOP_CHECK_ROWS: u64 = 16_384;

/// Tournament of readers (a loser tree: Knuth, "The Art of Computer Programming", volume 3, section 5.4.1).
///
/// The nodes are numbered as in a heap: those below node `n` are `2n` and `2n + 1`, node 1 is the final, and reader `r`
/// of `count` is the leaf `count + r`. Each inner node keeps the loser of its match, so that after the winner has
/// advanced, only the matches on its way to the final are played again.
struct LoserTree<'a> {
    shape: RowShape,
    readers: Vec<RowReader<'a>>,
    /// Prefix of each reader's current key; `None` for a reader at its end, which loses to all others.
    keys: Vec<Option<u64>>,
    /// Losers of nodes 1 to `count - 1`; entry 0 is not used.
    losers: Vec<u32>,
    /// Reader with the first row of all runs.
    winner: u32,
}

impl<'a> LoserTree<'a> {
    fn new(shape: RowShape, readers: Vec<RowReader<'a>>) -> LoserTree<'a> {
        assert!(!readers.is_empty(), "a merge of no runs");
        let keys = readers.iter().map(|reader| reader.current_row().map(|row| shape.key_prefix(row))).collect();
        let count = readers.len();
        let mut tree = LoserTree { shape, readers, keys, losers: vec![0; count], winner: 0 };
        // winners of all nodes, the leaves included; the matches are played from the leaves to the final
        let mut winners = vec![0; count];
        winners.extend(0..count as u32);
        for node in (1..count).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            (winners[node], tree.losers[node]) =
                if tree.is_before(left, right) { (left, right) } else { (right, left) };
        }
        tree.winner = winners[1];
        tree
    }

    /// Returns the node of a reader's first match.
    #[inline]
    fn first_match(&self, reader: u32) -> usize {
        (self.readers.len() + reader as usize) / 2
    }

    /// Returns true if the row of reader `a` comes before that of `b`. Equal keys keep the order of their runs.
    #[inline]
    fn is_before(&self, a: u32, b: u32) -> bool {
        match (self.keys[a as usize], self.keys[b as usize]) {
            (Some(x), Some(y)) if x != y => x < y,
            (Some(_), Some(_)) => self.is_before_by_full_key(a, b),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => a < b,
        }
    }

    /// Compares two rows with equal prefixes.
    #[cold]
    fn is_before_by_full_key(&self, a: u32, b: u32) -> bool {
        let key_rest = |reader: u32| self.readers[reader as usize].current_row().map(|row| self.shape.key_rest(row));
        key_rest(a).cmp(&key_rest(b)).then(a.cmp(&b)).is_lt()
    }

    /// Returns the first row of all runs; `None` once all rows were read.
    #[inline]
    fn first_row(&self) -> Option<&[u8]> {
        self.readers[self.winner as usize].current_row()
    }

    /// Advances past the first row.
    #[inline]
    fn advance_winner(&mut self) -> Result<(), WorkError> {
        let mut winner = self.winner;
        let reader = &mut self.readers[winner as usize];
        reader.advance_row()?;
        self.keys[winner as usize] = reader.current_row().map(|row| self.shape.key_prefix(row));
        let mut node = self.first_match(winner);
        while node > 0 {
            let loser = self.losers[node];
            debug_assert_ne!(loser, winner, "reader {winner} met itself in node {node}");
            if self.is_before(loser, winner) {
                self.losers[node] = winner;
                winner = loser;
            }
            node /= 2;
        }
        self.winner = winner;
        Ok(())
    }
}

/// A merge of some runs into one range of a file.
#[derive(Clone, Copy)]
pub struct MergeJob<'a> {
    /// Sizes of a row.
    pub shape: RowShape,
    /// Work files of the runs.
    pub files: &'a [RowFile<'a>],
    /// The runs, in the order of the source.
    pub runs: &'a [SortedRun],
    /// Target file of the rows.
    pub target: RowFile<'a>,
    /// Offset of the first byte in the target.
    pub offset: u64,
    /// Request size for reading runs, bytes.
    pub merge_request: usize,
    /// Request size for writing, bytes.
    pub request: usize,
    /// Number of threads.
    pub threads: usize,
    /// Progress and stop flag.
    pub progress: &'a Progress,
}

/// Result of a part of a merge.
struct MergedPart {
    /// Partial blocks at the ends of the part.
    edges: PartialBlocks,
    /// Samples of the keys.
    samples: Vec<u64>,
    steps: SortSteps,
}

impl MergeJob<'_> {
    /// Merges the runs; returns the resulting run, which lies in work file number `file`, and the times.
    ///
    /// # Errors
    /// When reading or writing fails.
    pub fn run_merge(&self, file: usize) -> Result<(SortedRun, SortSteps), WorkError> {
        let mut single_thread = SortSteps::default();
        let cuts = self.cut_runs(&mut single_thread)?;
        let mut steps = SortSteps::default();
        let rows_before = |part: usize| cuts[part].iter().sum::<u64>();
        let parts = super::run_on_threads(self.threads, |part| {
            self.merge_part(&cuts[part], &cuts[part + 1], rows_before(part))
        })?;
        let rows = rows_before(self.threads);
        let mut run = SortedRun { file_index: file, offset: self.offset, rows, samples: Vec::new() };
        for part in parts {
            steps += part.steps;
            run.samples.extend(part.samples);
            super::row_io::write_partial_blocks(self.target, part.edges, &mut single_thread.write)?;
        }
        steps.read += single_thread.read.while_others_wait(self.threads);
        steps.write += single_thread.write.while_others_wait(self.threads);
        Ok((run, steps))
    }

    /// Cuts the runs into parts. Returns the first row of each run for each part, and at last the end of each run. Rows
    /// with equal prefixes belong to the same part, so that the order between parts is certain.
    fn cut_runs(&self, steps: &mut SortSteps) -> Result<Vec<Vec<u64>>, WorkError> {
        let mut keys: Vec<u64> = self.runs.iter().flat_map(|run| run.samples.iter().copied()).collect();
        assert!(!keys.is_empty(), "every run has a sample of its first row");
        keys.sort_unstable();
        let mut cuts = vec![vec![0; self.runs.len()]];
        for part in 1..self.threads {
            let key = keys[keys.len() * part / self.threads];
            let cut: Result<Vec<u64>, _> =
                self.runs.iter().map(|run| self.find_first_at_least(run, key, steps)).collect();
            cuts.push(cut?);
        }
        cuts.push(self.runs.iter().map(|run| run.rows).collect());
        // if a part began before the end of the previous part, rows would be merged twice
        let is_ascending = |pair: &[Vec<u64>]| pair[0].iter().zip(&pair[1]).all(|(from, to)| from <= to);
        assert!(cuts.windows(2).all(is_ascending), "the parts of a merge overlap: {cuts:?}");
        Ok(cuts)
    }

    /// Finds the first row of a run whose prefix is at least a key.
    fn find_first_at_least(&self, run: &SortedRun, key: u64, steps: &mut SortSteps) -> Result<u64, WorkError> {
        let samples_before = run.samples.partition_point(|sample| *sample < key) as u64;
        if samples_before == 0 {
            return Ok(0);
        }
        // the row comes after the last sample below the key, and is at the latest the next sample
        let sample_rows = rows_per_sample(self.shape.row_bytes);
        let first = (samples_before - 1) * sample_rows;
        let end = (samples_before * sample_rows).min(run.rows);
        debug_assert!(first < end, "row {first} of a run of {} rows", run.rows);
        let row_bytes = self.shape.row_bytes as u64;
        let (from, to) = (run.offset + first * row_bytes, run.offset + end * row_bytes);
        let mut reader =
            RowReader::open(self.files[run.file_index], self.shape.row_bytes, from, to, self.merge_request)?;
        let mut number = first;
        while let Some(row) = reader.current_row()
            && self.shape.key_prefix(row) < key
        {
            number += 1;
            reader.advance_row()?;
        }
        steps.read += reader.time;
        Ok(number)
    }

    /// Merges one part: the rows from `from` to `to` of each run, before which the target has `rows_before` rows.
    fn merge_part(&self, from: &[u64], to: &[u64], rows_before: u64) -> Result<MergedPart, WorkError> {
        let row_bytes = self.shape.row_bytes as u64;
        let mut total_time = StepTime::default();
        let mut read_time = StepTime::default();
        let merged = total_time.time_compute(|| {
            let open_reader = |(number, run): (usize, &SortedRun)| {
                let (from, to) = (run.offset + from[number] * row_bytes, run.offset + to[number] * row_bytes);
                RowReader::open(self.files[run.file_index], self.shape.row_bytes, from, to, self.merge_request)
            };
            let readers: Result<Vec<_>, _> = self.runs.iter().enumerate().map(open_reader).collect();
            let mut tree = LoserTree::new(self.shape, readers?);
            let writer = RowWriter::open(self.target, self.offset + rows_before * row_bytes, self.request);
            let merged = self.merge_rows(&mut tree, writer, rows_before);
            tree.readers.iter().for_each(|reader| read_time += reader.time);
            merged
        });
        let (edges, samples, write) = merged?;
        let compute = total_time.minus_part(&read_time).minus_part(&write);
        Ok(MergedPart { edges, samples, steps: SortSteps { read: read_time, compute, write } })
    }

    /// Merges all rows of the tree into the writer; returns partial blocks, samples and the time of writing.
    fn merge_rows(
        &self,
        tree: &mut LoserTree<'_>,
        mut writer: RowWriter<'_>,
        rows_before: u64,
    ) -> Result<(PartialBlocks, Vec<u64>, StepTime), WorkError> {
        let sample_rows = rows_per_sample(self.shape.row_bytes);
        let (mut samples, mut number) = (Vec::new(), rows_before);
        let mut reported = number;
        while let Some(row) = tree.first_row() {
            if number.is_multiple_of(sample_rows) {
                samples.push(self.shape.key_prefix(row));
            }
            writer.push_row(row)?;
            tree.advance_winner()?;
            number += 1;
            if number - reported == STOP_CHECK_ROWS {
                self.progress.add_rows(STOP_CHECK_ROWS)?;
                reported = number;
            }
        }
        self.progress.add_rows(number - reported)?;
        let (edges, write) = writer.finish_writing()?;
        Ok((edges, samples, write))
    }
}
