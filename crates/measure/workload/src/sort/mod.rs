//! External merge sort on real files, after SAS 1998 ("the sort"): rows come from a source, runs go to work folders,
//! and sorted rows go to a target. The result is read back and verified: order, number and checksum of the rows.
//!
//! [`rows`] defines a row, [`merge_plan`] plans the sort, and [`row_io`] reads and writes rows. [`runs`] and [`merge`]
//! are the two halves of the algorithm. [`source`] makes the rows, and [`verification`] verifies the result.

mod merge;
pub mod merge_plan;
pub mod row_io;
pub mod rows;
mod runs;
mod source;
mod verification;

use std::fs::File;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use diskwright_hostfiles::cgroup;
use serde::Serialize;

use crate::clock::StepTime;
use crate::files::{WorkFile, check_folder, check_free_space, open_direct};
use crate::{WorkError, io_error, thread_error};
use merge::MergeJob;
use merge_plan::{MergePlan, SortSize};
use row_io::RowFile;
use rows::RowShape;
use runs::{RunFormer, SortedRun};
pub use source::SortSource;

/// Options of a sort.
#[derive(Clone, Debug)]
pub struct SortOptions {
    /// Number of rows to make.
    pub rows: u64,
    /// Sizes of a row.
    pub shape: RowShape,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Number of threads.
    pub threads: usize,
    /// Folder in which the source is made, or an existing file of rows.
    pub source: PathBuf,
    /// Folders for runs, used in rotation.
    pub work_folders: Vec<PathBuf>,
    /// Folder for the result.
    pub target_folder: PathBuf,
    /// Direct I/O, which bypasses the file cache.
    pub direct: bool,
    /// Request size for reading the source and for writing, bytes; 0 means a size that suits the memory.
    pub request_bytes: usize,
    /// Request size for reading runs, bytes; 0 means the largest size with which one pass suffices.
    pub merge_request_bytes: usize,
    /// Sync the result to its device before the measured time ends.
    pub sync: bool,
    /// Seed of the rows.
    pub seed: u64,
    /// Name under which to keep the result.
    pub keep_as: Option<PathBuf>,
}

/// Times of a stage's steps, over all its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SortSteps {
    /// Reading.
    pub read: StepTime,
    /// Comparing rows and moving them in memory.
    pub compute: StepTime,
    /// Writing.
    pub write: StepTime,
}

impl AddAssign for SortSteps {
    fn add_assign(&mut self, other: SortSteps) {
        self.read += other.read;
        self.compute += other.compute;
        self.write += other.write;
    }
}

/// Time of a stage of the sort.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageTime {
    /// `in memory`, `form runs`, `merge 1`, …, `final merge`, `sync`.
    pub name: String,
    /// Elapsed time of the stage, s.
    pub wall_s: f64,
    /// Bytes read and written per second of elapsed time.
    pub bytes_per_s: f64,
    /// Steps of its threads.
    #[serde(flatten)]
    pub steps: SortSteps,
}

/// Result of a sort.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SortOutcome {
    /// Number of rows.
    pub rows: u64,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Bytes of the key.
    pub key_bytes: u64,
    /// Memory limit, bytes.
    pub memory_bytes: u64,
    /// Number of threads used.
    pub threads: usize,
    /// Number of runs; 1 if everything fitted into memory.
    pub runs: u64,
    /// Runs merged at a time.
    pub fan_in: u64,
    /// Number of merge passes.
    pub passes: u32,
    /// Request size for reading the source and for writing, bytes.
    pub request_bytes: u64,
    /// Request size for reading runs, bytes.
    pub merge_request_bytes: u64,
    /// Elapsed time from the first read of the source until the result is written (and synced), s.
    pub wall_s: f64,
    /// Processor time of the sort's threads, s.
    pub cpu_s: f64,
    /// Times of the stages.
    pub stages: Vec<StageTime>,
    /// True if the result was read back, and order, number and checksum of its rows are right.
    pub verified: bool,
}

/// Progress and stop flag of a sort, shared with its caller.
#[derive(Debug, Default)]
pub struct Progress {
    /// Rows written so far, in runs, passes and the result.
    pub rows: AtomicU64,
    /// Set to stop the sort.
    pub stop: Arc<AtomicBool>,
}

impl Progress {
    /// Counts rows; fails if the sort shall stop.
    fn add_rows(&self, rows: u64) -> Result<(), WorkError> {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.check_stop()
    }

    fn check_stop(&self) -> Result<(), WorkError> {
        if self.stop.load(Ordering::Relaxed) { Err(WorkError::Stopped) } else { Ok(()) }
    }
}

/// Runs a job on each of several threads, of which the calling thread is the first; returns the results in their order,
/// or the first error.
fn run_on_threads<T: Send>(
    threads: usize,
    job: impl Fn(usize) -> Result<T, WorkError> + Sync,
) -> Result<Vec<T>, WorkError> {
    std::thread::scope(|scope| {
        let job = &job;
        let start = |number| std::thread::Builder::new().spawn_scoped(scope, move || job(number)).map_err(thread_error);
        let handles = (1..threads).map(start).collect::<Result<Vec<_>, _>>()?;
        let mut results = vec![job(0)];
        results.extend(handles.into_iter().map(|thread| thread.join().expect("a thread of the sort")));
        results.into_iter().collect()
    })
}

/// A work file, with a descriptor for direct I/O if requested.
struct OpenWorkFile {
    work: WorkFile,
    direct: Option<File>,
}

impl OpenWorkFile {
    fn create(folder: &Path, is_direct: bool) -> Result<OpenWorkFile, WorkError> {
        let work = WorkFile::create(folder)?;
        let direct = is_direct.then(|| work.open_direct()).transpose()?;
        Ok(OpenWorkFile { work, direct })
    }

    fn row_file(&self) -> RowFile<'_> {
        RowFile { cached: self.work.file(), direct: self.direct.as_ref(), path: self.work.path() }
    }
}

/// Plans a sort without running it.
///
/// # Errors
/// When the options contradict each other, or the memory is too small.
pub fn plan_sort(options: &SortOptions, rows: u64) -> Result<MergePlan, WorkError> {
    MergePlan::new(&sort_size(options, rows))
}

fn sort_size(options: &SortOptions, rows: u64) -> SortSize {
    SortSize {
        rows,
        shape: options.shape,
        memory_bytes: options.memory_bytes,
        threads: options.threads,
        request_bytes: options.request_bytes,
        merge_request_bytes: options.merge_request_bytes,
        direct: options.direct,
    }
}

/// Rejects a sort that needs more memory than is available: the kernel would kill this program, or others.
fn check_memory(needed: u64, available: Option<u64>) -> Result<(), WorkError> {
    match available.filter(|available| needed > *available) {
        None => Ok(()),
        Some(available) => Err(WorkError::Usage(format!(
            "--memory: the sort would take {needed} bytes of memory, but {available} are available to this program"
        ))),
    }
}

/// Rejects a sort for which there is too little space or memory, before anything is written; returns its plan.
///
/// # Errors
/// Names the folder, the bytes needed and the bytes free.
pub fn check_sort(options: &SortOptions) -> Result<MergePlan, WorkError> {
    let makes_source = options.source.is_dir();
    let rows = if makes_source { options.rows } else { SortSource::count_rows(&options.source, options.shape)? };
    if options.work_folders.is_empty() {
        return Err(WorkError::Usage("a sort needs a folder for its runs".into()));
    }
    let plan = plan_sort(options, rows)?;
    options.keep_as.as_ref().map_or(Ok(()), |name| verification::check_keep_name(name, &options.target_folder))?;
    // direct I/O rounds a file up to a whole block
    let data_bytes = rows.saturating_mul(options.shape.row_bytes as u64).saturating_add(row_io::ALIGN_BYTES as u64);
    let mut needs = vec![(options.target_folder.as_path(), data_bytes)];
    let work_bytes = plan.space_per_folder(rows, options.shape.row_bytes, options.work_folders.len());
    needs.extend(options.work_folders.iter().map(PathBuf::as_path).zip(work_bytes));
    if makes_source {
        needs.push((options.source.as_path(), data_bytes));
    }
    needs.iter().try_for_each(|(folder, _)| check_folder(folder))?;
    check_free_space(&needs)?;
    check_memory(plan.memory_needed(&sort_size(options, rows)), cgroup::available_memory_bytes(Path::new("/")))?;
    if options.direct {
        // a filesystem without direct I/O should make the sort fail now, not hours later
        needs.iter().try_for_each(|(folder, _)| OpenWorkFile::create(folder, true).map(drop))?;
        if !makes_source {
            let source = File::open(&options.source).map_err(io_error(&options.source, "cannot be opened"))?;
            open_direct(&source, &options.source)?;
        }
    }
    Ok(plan)
}

/// Runs a sort. The source was made before ([`SortSource::create_or_open`]), so that several sorts can share it.
///
/// # Errors
/// When there is too little space, a file fails, the sort is stopped, or the result is wrong.
pub fn run_sort(options: &SortOptions, source: &SortSource, progress: &Progress) -> Result<SortOutcome, WorkError> {
    let plan = plan_sort(options, source.row_count())?;
    let target = OpenWorkFile::create(&options.target_folder, options.direct)?;
    let direct_source = options.direct.then(|| open_direct(source.file(), source.path())).transpose()?;
    let source_file = RowFile { cached: source.file(), direct: direct_source.as_ref(), path: source.path() };
    let former =
        RunFormer { shape: options.shape, plan: &plan, rows: source.row_count(), source: source_file, progress };
    let started = Instant::now();
    let mut stages = StageTimes::default();
    if plan.runs == 1 {
        stages.time_stage("in memory", || former.sort_in_memory(target.row_file()).map(|steps| ((), steps)))?;
    } else {
        sort_externally(options, &former, &target, &mut stages)?;
    }
    if options.sync {
        stages.time_stage("sync", || {
            let mut steps = SortSteps::default();
            let synced = steps.write.time_io(|| target.work.file().sync_data().map(|()| 0));
            synced.map_err(io_error(&options.target_folder, "cannot be synced"))?;
            steps.write = steps.write.while_others_wait(plan.threads);
            Ok(((), steps))
        })?;
    }
    let wall_s = started.elapsed().as_secs_f64();
    verification::verify_result(target.row_file(), options.shape, source, progress)?;
    if let Some(name) = &options.keep_as {
        verification::link_result(target.work.file(), name)?;
    }
    Ok(build_outcome(options, &plan, source.row_count(), wall_s, stages.0))
}

/// Forms runs and merges them in as many passes as needed.
fn sort_externally(
    options: &SortOptions,
    former: &RunFormer<'_>,
    target: &OpenWorkFile,
    stages: &mut StageTimes,
) -> Result<(), WorkError> {
    let create_files = || {
        options
            .work_folders
            .iter()
            .map(|folder| OpenWorkFile::create(folder, options.direct))
            .collect::<Result<Vec<_>, _>>()
    };
    let (plan, mut files) = (former.plan, create_files()?);
    let mut runs = stages.time_stage("form runs", || {
        let (next_run, row_files) = (AtomicU64::new(0), row_files(&files));
        let results = run_on_threads(plan.threads, |_| former.form_runs(&next_run, &row_files))?;
        let (mut runs, mut steps) = (Vec::new(), SortSteps::default());
        for (thread_runs, thread_steps) in results {
            runs.extend(thread_runs);
            steps += thread_steps;
        }
        runs.sort_unstable_by_key(|(number, _)| *number);
        Ok((runs.into_iter().map(|(_, run)| run).collect::<Vec<SortedRun>>(), steps))
    })?;
    for pass in 1..plan.passes {
        let first_new = files.len();
        files.extend(create_files()?);
        runs = stages.time_stage(&format!("merge {pass}"), || merge_pass(former, &runs, &files, first_new))?;
        // a run that was not copied stays where it is; the space of all others is freed
        let is_unused = |number: &usize| *number < first_new && runs.iter().all(|run| run.file_index != *number);
        for file in (0..files.len()).filter(is_unused).map(|number| &files[number]) {
            file.work.file().set_len(0).map_err(io_error(file.work.path(), "cannot be emptied"))?;
        }
    }
    stages.time_stage("final merge", || {
        let row_files = row_files(&files);
        let job = new_merge_job(former, &row_files, &runs, target.row_file(), 0);
        job.run_merge(0).map(|(_, steps)| ((), steps))
    })
}

fn row_files(files: &[OpenWorkFile]) -> Vec<RowFile<'_>> {
    files.iter().map(OpenWorkFile::row_file).collect()
}

fn new_merge_job<'a>(
    former: &RunFormer<'a>,
    files: &'a [RowFile<'a>],
    runs: &'a [SortedRun],
    target: RowFile<'a>,
    offset: u64,
) -> MergeJob<'a> {
    let MergePlan { request_bytes: request, merge_request_bytes: merge_request, threads, .. } = *former.plan;
    MergeJob {
        shape: former.shape,
        files,
        runs,
        target,
        offset,
        merge_request,
        request,
        threads,
        progress: former.progress,
    }
}

/// Runs one of several merge passes: each group of runs becomes one run. The new runs are distributed in rotation over
/// the work files from `first_new` on.
fn merge_pass(
    former: &RunFormer<'_>,
    runs: &[SortedRun],
    files: &[OpenWorkFile],
    first_new: usize,
) -> Result<(Vec<SortedRun>, SortSteps), WorkError> {
    let row_files = row_files(files);
    let mut file_ends = vec![0; files.len() - first_new];
    let (mut merged, mut steps) = (Vec::new(), SortSteps::default());
    for (number, group) in runs.chunks(former.plan.fan_in as usize).enumerate() {
        if let [single_run] = group {
            merged.push(single_run.clone());
            continue;
        }
        let index = number % file_ends.len();
        let file = first_new + index;
        let job = new_merge_job(former, &row_files, group, row_files[file], file_ends[index]);
        let (run, run_steps) = job.run_merge(file)?;
        // the next run begins at a block boundary
        let bytes = run.rows * former.shape.row_bytes as u64;
        file_ends[index] += bytes.next_multiple_of(row_io::ALIGN_BYTES as u64);
        merged.push(run);
        steps += run_steps;
    }
    Ok((merged, steps))
}

/// Times of the stages completed so far.
#[derive(Default)]
struct StageTimes(Vec<StageTime>);

impl StageTimes {
    fn time_stage<T>(
        &mut self,
        name: &str,
        stage: impl FnOnce() -> Result<(T, SortSteps), WorkError>,
    ) -> Result<T, WorkError> {
        let started = Instant::now();
        let (result, steps) = stage()?;
        // during a very short stage the clock may not advance; this avoids a division by 0
        let wall_s = started.elapsed().as_secs_f64().max(1e-9);
        let bytes_per_s = (steps.read.bytes + steps.write.bytes) as f64 / wall_s;
        self.0.push(StageTime { name: name.into(), wall_s, bytes_per_s, steps });
        Ok(result)
    }
}

fn build_outcome(
    options: &SortOptions,
    plan: &MergePlan,
    rows: u64,
    wall_s: f64,
    stages: Vec<StageTime>,
) -> SortOutcome {
    let cpu_s = |stage: &StageTime| stage.steps.read.cpu_s + stage.steps.compute.cpu_s + stage.steps.write.cpu_s;
    SortOutcome {
        rows,
        row_bytes: options.shape.row_bytes as u64,
        key_bytes: options.shape.key_bytes as u64,
        memory_bytes: options.memory_bytes,
        threads: plan.threads,
        runs: plan.runs,
        fan_in: plan.fan_in,
        passes: plan.passes,
        request_bytes: plan.request_bytes as u64,
        merge_request_bytes: plan.merge_request_bytes as u64,
        wall_s,
        cpu_s: stages.iter().map(cpu_s).sum(),
        stages,
        verified: true,
    }
}

#[cfg(test)]
mod tests {
    use super::check_memory;

    #[test]
    fn rejects_unavailable_memory() {
        assert!(check_memory(5, Some(5)).is_ok() && check_memory(u64::MAX, None).is_ok());
        let error = check_memory(6, Some(5)).unwrap_err().to_string();
        assert!(error.contains("would take 6 bytes of memory, but 5 are available"), "{error}");
    }
}
