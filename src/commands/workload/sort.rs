//! `workload sort`: one sort, several by amount of memory, or several by placement.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::Args;
use diskwright_base::byte_size::{ByteSize, parse_memory_size};
use diskwright_workload::files::find_shared_filesystem;
use diskwright_workload::sort::merge_plan::{ENTRY_BYTES, MAX_THREADS, MergePlan, SortSize, published_memory};
use diskwright_workload::sort::rows::RowShape;
use diskwright_workload::sort::{Progress, SortOptions, SortOutcome, SortSource, check_sort, run_sort};
use indicatif::ProgressBar;
use serde_json::json;

use super::{sort_screen, stop_flag, sweep_leftovers, update_bar_during, work_failure, workload_bar};
use crate::commands::{Failure, output, output_file};

/// Arguments of `workload sort`.
#[derive(Args)]
pub struct SortArguments {
    /// Number of rows to make and sort; by default 1000000
    #[arg(long, value_parser = parse_row_count, value_name = "ROWS")]
    rows: Option<u64>,
    /// Size of a row, including its line end
    #[arg(long, default_value = "100", value_parser = parse_memory_size, value_name = "SIZE")]
    row_size: u64,
    /// Size of the key at the beginning of each row
    #[arg(long, default_value = "10", value_parser = parse_memory_size, value_name = "SIZE")]
    key_size: u64,
    /// Memory for rows and buffers; several sizes (16M,64M,256M) are sorted one after another
    #[arg(long, default_value = "128M", value_parser = parse_memory_size, value_delimiter = ',', value_name = "SIZE,…")]
    memory: Vec<u64>,
    /// Folder in which to create the source, or an existing file of rows of equal length; by
    /// default the current folder
    #[arg(long, value_name = "DIR|FILE")]
    source: Option<PathBuf>,
    /// Folders for the runs, used in turn; by default that of the source
    #[arg(long, num_args = 1.., value_name = "DIR")]
    work: Vec<PathBuf>,
    /// Folder for the result; by default that of the source
    #[arg(long, value_name = "DIR")]
    target: Option<PathBuf>,
    /// Compare placements, one per folder given: everything in the first folder; runs in the
    /// second; also the result in the third; also runs in the second and fourth
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["source", "work", "target"], value_name = "DIR,…")]
    places: Vec<PathBuf>,
    /// Number of threads, which share the memory; by default one per processor, at most 256
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: Option<u32>,
    /// Use the file cache (the default)
    #[arg(long, conflicts_with = "direct")]
    buffered: bool,
    /// Bypass the file cache
    #[arg(long)]
    direct: bool,
    /// Size of requests that read the source and that write; by default a sixteenth of the memory, at most 1 MiB
    #[arg(long, value_parser = parse_memory_size, value_name = "SIZE")]
    request: Option<u64>,
    /// Size of requests that read runs; by default the largest that still allows a merge in one pass
    #[arg(long, value_parser = parse_memory_size, value_name = "SIZE")]
    merge_request: Option<u64>,
    /// Do not wait for the result to reach its device
    #[arg(long)]
    no_sync: bool,
    /// Seed for the rows; by default 1
    #[arg(long)]
    seed: Option<u64>,
    /// Keep the sorted rows in this file, which must not exist
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Write the chart of several sorts to this SVG file
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Default number of rows.
const DEFAULT_ROWS: u64 = 1_000_000;

/// Parses a number of rows: `1000000`, `10M` (millions).
fn parse_row_count(text: &str) -> Result<u64, String> {
    let (number, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let rows = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).filter(|rows| *rows > 0);
    rows.ok_or_else(|| format!("invalid number of rows `{text}`; expected a number such as 500000 or 10M"))
}

/// A sort that has run: one of several.
pub struct PlacedSort {
    /// Description: `64 MiB`, `2 places`.
    pub name: String,
    /// Its options.
    pub options: SortOptions,
    /// Its result.
    pub outcome: SortOutcome,
}

impl SortArguments {
    fn sort_options(&self, memory: u64) -> Result<SortOptions, Failure> {
        let here = PathBuf::from(".");
        let source = self.source.clone().unwrap_or_else(|| here.clone());
        let folder = if source.is_dir() { source.clone() } else { parent_folder(&source) };
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        if !source.exists() {
            return Err(Failure::Usage(format!(
                "{}: there is no such folder or file",
                output::escape_name(source.display())
            )));
        }
        let made_rows_options = [("--rows", self.rows.is_some()), ("--seed", self.seed.is_some())];
        if let Some((option, _)) = made_rows_options.into_iter().find(|(_, is_given)| *is_given && !source.is_dir()) {
            let file = output::escape_name(source.display());
            return Err(Failure::Usage(format!("{option} goes with rows that are made; {file} has its own")));
        }
        Ok(SortOptions {
            rows: self.rows.unwrap_or(DEFAULT_ROWS),
            shape: RowShape { row_bytes: size(self.row_size), key_bytes: size(self.key_size) },
            memory_bytes: memory,
            threads: self.threads.map_or_else(default_threads, |threads| threads as usize),
            work_folders: if self.work.is_empty() { vec![folder.clone()] } else { self.work.clone() },
            target_folder: self.target.clone().unwrap_or(folder),
            source,
            direct: self.direct,
            request_bytes: size(self.request.unwrap_or(0)),
            merge_request_bytes: size(self.merge_request.unwrap_or(0)),
            sync: !self.no_sync,
            seed: self.seed.unwrap_or(1),
            keep_as: self.keep.clone(),
        })
    }

    /// Returns all requested sorts, with their names.
    fn planned_sorts(&self) -> Result<Vec<(String, SortOptions)>, Failure> {
        let sizes = self.memory.iter().map(|&bytes| (ByteSize::memory(bytes as f64).to_string(), bytes));
        if self.places.is_empty() {
            return sizes.map(|(name, bytes)| Ok((name, self.sort_options(bytes)?))).collect();
        }
        if self.memory.len() > 1 {
            return Err(Failure::Usage("--places takes one --memory".into()));
        }
        if self.places.len() > 4 {
            return Err(Failure::Usage("--places takes up to four folders".into()));
        }
        let folders: Vec<&Path> = self.places.iter().map(PathBuf::as_path).collect();
        if let Some((a, b)) = find_shared_filesystem(&folders).map_err(work_failure)? {
            let reason =
                format!("{} and {} are on the same filesystem, so they count as one place", a.display(), b.display());
            return Err(Failure::Usage(output::escape_name(reason)));
        }
        (1..=folders.len())
            .map(|count| Ok((place_count_name(count), self.placed_options(&folders[..count])?)))
            .collect()
    }

    fn placed_options(&self, folders: &[&Path]) -> Result<SortOptions, Failure> {
        let folder_at = |index: usize| folders[index.min(folders.len() - 1)].to_path_buf();
        let source = folders[0].to_path_buf();
        let work_folders = match folders.len() {
            4 => vec![folder_at(1), folder_at(3)],
            _ => vec![folder_at(1)],
        };
        let target = if folders.len() > 2 { folder_at(2) } else { source.clone() };
        let memory = self.memory.first().copied().unwrap_or_default();
        let options = SortArguments::sort_options(self, memory);
        Ok(SortOptions { source, work_folders, target_folder: target, ..options? })
    }
}

/// One thread per processor, up to the maximum of a sort.
fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS)
}

/// Returns this many threads, or fewer if a sort's memory is too small for the runs and merges of each.
fn max_threads_within(max_threads: usize, size: &SortSize) -> Option<u32> {
    let has_enough_memory = |threads: &usize| MergePlan::new(&SortSize { threads: *threads, ..*size }).is_ok();
    (1..=max_threads).rev().find(has_enough_memory).and_then(|threads| u32::try_from(threads).ok())
}

fn place_count_name(count: usize) -> String {
    if count == 1 { "1 place".into() } else { format!("{count} places") }
}

/// Memory of a sweep, as shares of what the rows need: from several merge passes up to beyond the size where all rows
/// fit and the one that SAS 1998's formula gives.
const SWEEP_MEMORY_SHARES: [f64; 8] = [1.0 / 128.0, 1.0 / 32.0, 1.0 / 8.0, 0.25, 0.5, 0.9, 1.05, 1.25];

/// Runs the sweep of memory (one folder) or of placement (several) that `probe` offers as a suite.
pub fn run_sweep_suite(
    folders: &[PathBuf],
    data_bytes: u64,
    buffered: bool,
    seed: u64,
    json: bool,
) -> Result<(), Failure> {
    let shape = RowShape { row_bytes: 100, key_bytes: 10 };
    let rows = (data_bytes / shape.row_bytes as u64).max(1);
    let needed_bytes = (rows * (shape.row_bytes + ENTRY_BYTES) as u64)
        .max(published_memory(rows, shape.row_bytes, &[shape.key_bytes]) / 2);
    let memory_share = |share: f64| ((needed_bytes as f64 * share) as u64).max(1 << 20).next_multiple_of(1 << 16);
    let by_memory = folders.len() == 1;
    let mut memory: Vec<u64> =
        if by_memory { SWEEP_MEMORY_SHARES.map(memory_share).to_vec() } else { vec![memory_share(0.125)] };
    memory.dedup();
    // all sorts of a sweep use the same number of threads, limited by the smallest memory
    let smallest = memory.iter().copied().min().unwrap_or_default();
    let size = SortSize {
        rows,
        shape,
        memory_bytes: smallest,
        threads: 1,
        request_bytes: 0,
        merge_request_bytes: 0,
        direct: !buffered,
    };
    run(&SortArguments {
        rows: Some(rows),
        row_size: shape.row_bytes as u64,
        key_size: shape.key_bytes as u64,
        memory,
        source: folders.first().filter(|_| by_memory).cloned(),
        work: Vec::new(),
        target: None,
        places: if by_memory { Vec::new() } else { folders.to_vec() },
        threads: max_threads_within(default_threads(), &size),
        buffered,
        direct: !buffered,
        request: None,
        merge_request: None,
        no_sync: false,
        seed: Some(seed),
        keep: None,
        svg: None,
        json,
    })
}

fn parent_folder(file: &Path) -> PathBuf {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_path_buf()
}

/// Runs `workload sort`.
pub fn run(arguments: &SortArguments) -> Result<(), Failure> {
    let sorts = arguments.planned_sorts()?;
    if sorts.len() > 1 && arguments.keep.is_some() {
        return Err(Failure::Usage("--keep keeps the result of one sort, but several sorts are requested".into()));
    }
    arguments.svg.as_deref().map_or(Ok(()), output_file::check_writable)?;
    // every error is reported before anything is written
    for (_, options) in &sorts {
        // leftovers of killed work use the space that this sort needs
        let folders =
            options.work_folders.iter().chain([&options.source, &options.target_folder]).map(PathBuf::as_path);
        sweep_leftovers(&folders.collect::<Vec<_>>())?;
        check_sort(options).map_err(work_failure)?;
    }
    let runs = run_sorts(sorts)?;
    if let Some(path) = &arguments.svg {
        let picture = diskwright_report::curves::render_svg_file("Sort", &[sort_screen::sort_chart(&runs)]);
        output_file::write_file(path, picture.as_bytes())?;
    }
    if output_file::is_any_stdout(&arguments.svg) {
        return Ok(());
    }
    if arguments.json {
        output::print_json(&sort_document(&runs))
    } else {
        output::print_text(&sort_screen::draw_sorts(&runs))
    }
}

/// Runs the sorts one after another; those with one source share it.
fn run_sorts(sorts: Vec<(String, SortOptions)>) -> Result<Vec<PlacedSort>, Failure> {
    let progress = Progress { stop: stop_flag()?, ..Progress::default() };
    let mut source: Option<(PathBuf, SortSource)> = None;
    let mut runs = Vec::new();
    for (name, options) in sorts {
        let shared = source.take().filter(|(path, _)| *path == options.source);
        let sort_source = match shared {
            Some((_, sort_source)) => sort_source,
            None => {
                let bar = workload_bar(BAR_TEMPLATE, "making rows", options.rows);
                let sort_source = SortSource::create_or_open(&options, &progress).map_err(work_failure)?;
                bar.finish_and_clear();
                sort_source
            }
        };
        sort_source.sync_and_drop_cache().map_err(work_failure)?;
        let outcome = sort_with_progress(&name, &options, &sort_source, &progress)?;
        source = Some((options.source.clone(), sort_source));
        runs.push(PlacedSort { name, options, outcome });
    }
    Ok(runs)
}

/// Runs a sort with a bar on a terminal.
fn sort_with_progress(
    name: &str,
    options: &SortOptions,
    source: &SortSource,
    progress: &Progress,
) -> Result<SortOutcome, Failure> {
    let plan = diskwright_workload::sort::plan_sort(options, source.row_count()).map_err(work_failure)?;
    progress.rows.store(0, Ordering::Relaxed);
    let bar = workload_bar(BAR_TEMPLATE, &format!("sorting, {name}"), source.row_count() * u64::from(1 + plan.passes));
    let update = |bar: &ProgressBar| bar.set_position(progress.rows.load(Ordering::Relaxed));
    update_bar_during(&bar, update, || run_sort(options, source, progress)).map_err(work_failure)
}

/// Template of the progress bars.
const BAR_TEMPLATE: &str = "{msg} {wide_bar} {percent:>3} %  {eta}";

fn sort_document(runs: &[PlacedSort]) -> serde_json::Value {
    let run = |run: &PlacedSort| {
        let names = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        let mut value = json!({
            "name": run.name,
            "source": run.options.source.display().to_string(),
            "work": names(&run.options.work_folders),
            "target": run.options.target_folder.display().to_string(),
            "direct": run.options.direct,
            "seed": run.options.seed,
        });
        let (value_fields, outcome) = (value.as_object_mut(), serde_json::to_value(&run.outcome));
        if let (Some(fields), Ok(serde_json::Value::Object(outcome_fields))) = (value_fields, outcome) {
            fields.extend(outcome_fields);
        }
        value
    };
    let published = runs.first().map(|run| sort_screen::formula_memory_bytes(&run.outcome));
    let needed = runs.first().map(sort_screen::needed_memory_bytes);
    json!({
        "schema": "diskwright.workload/1",
        "workload": "sort",
        "memory_in_place_bytes": published,
        "memory_needed_bytes": needed,
        "knee_bytes": sort_screen::find_knee(runs),
        "runs": runs.iter().map(run).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use diskwright_workload::sort::merge_plan::{MergePlan, SortSize};
    use diskwright_workload::sort::rows::RowShape;

    use super::{max_threads_within, parse_row_count};

    #[test]
    fn parses_row_counts() {
        assert_eq!(
            [parse_row_count("500000"), parse_row_count("10M"), parse_row_count("2k")],
            [Ok(500_000), Ok(10_000_000), Ok(2_000)]
        );
        for wrong in ["", "M", "0", "-1", "1.5M", "99999999999999999999G"] {
            assert!(parse_row_count(wrong).is_err(), "{wrong}");
        }
    }

    /// The smallest memory of the default sweep, 200 MB of rows: a direct run takes 1,024 rows and a writer, 136 KiB.
    #[test]
    fn sweep_uses_no_more_threads_than_its_smallest_memory_allows() {
        let shape = RowShape { row_bytes: 100, key_bytes: 10 };
        let (rows, memory) = (2_000_000, 1_835_008);
        let size = SortSize {
            rows,
            shape,
            memory_bytes: memory,
            threads: 64,
            request_bytes: 0,
            merge_request_bytes: 0,
            direct: true,
        };
        assert!(MergePlan::new(&size).is_err());
        assert_eq!([4, 64].map(|limit| max_threads_within(limit, &size)), [Some(4), Some(13)]);
        assert_eq!(max_threads_within(64, &SortSize { memory_bytes: 1000, ..size }), None);
    }
}
