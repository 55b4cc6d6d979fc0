//! `compare` of results of `probe`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use diskwright_report::probe::{NamedResult, compare as drawn};
use diskwright_results::compare::{ResultComparison, ResultFile, compare_results, quantity_label};
use diskwright_results::document::{ProbeDocument, is_result};

use super::{Failure, output, output_file};

/// Options of the comparison.
pub struct CompareOptions<'a> {
    /// Also show differences within noise.
    pub all: bool,
    /// HTML page to write.
    pub page: Option<&'a Path>,
    /// Print JSON.
    pub json: bool,
    /// Fail if anything is worse by more than this share.
    pub max_worse: Option<f64>,
}

/// True for a file marked as a result of `probe`, of any version.
pub fn is_probe_result(path: &Path) -> bool {
    let mut head = Vec::new();
    // only a file is opened: the bytes read from a pipe would be missing for its next reader, and a folder is a log
    if let Some(file) = path.is_file().then(|| File::open(path).ok()).flatten() {
        let _ = file.take(4096).read_to_end(&mut head);
    }
    is_result(&head)
}

/// Names of files for display, without folder and extension if they stay distinct.
pub fn short_names(paths: &[PathBuf]) -> Vec<String> {
    let stem = |p: &PathBuf| p.file_stem().unwrap_or(p.as_os_str()).to_string_lossy().into_owned();
    let stems: Vec<String> = paths.iter().map(stem).collect();
    let is_ambiguous = |name: &String| stems.iter().filter(|s| *s == name).count() > 1;
    let name = |(path, stem): (&PathBuf, &String)| {
        if is_ambiguous(stem) { path.display().to_string() } else { stem.clone() }
    };
    paths.iter().zip(&stems).map(name).collect()
}

/// Reads result files.
pub fn read_results(paths: &[PathBuf]) -> Result<Vec<ProbeDocument>, Failure> {
    let read_result = |path: &PathBuf| {
        if !is_probe_result(path) && path.exists() {
            let name = path.display();
            let reason = "not a result of `probe`; results can only be compared with results";
            return Err(Failure::Failed(format!("{name}: {reason}")));
        }
        Ok(ProbeDocument::read(path)?)
    };
    paths.iter().map(read_result).collect()
}

/// Compares two sets of result files.
pub fn run(before: &[PathBuf], after: &[PathBuf], options: &CompareOptions<'_>) -> Result<(), Failure> {
    let paths: Vec<PathBuf> = before.iter().chain(after).cloned().collect();
    let (documents, names) = (read_results(&paths)?, short_names(&paths));
    let files: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let results: Vec<ResultFile<'_>> = files.iter().map(String::as_str).zip(&documents).collect();
    let (first, second) = results.split_at(before.len());
    let comparison = compare_results(first, second);
    if let Some(file) = options.page {
        let named_results: Vec<NamedResult<'_>> =
            names.iter().zip(&documents).map(|(name, document)| NamedResult { name, document }).collect();
        let html = drawn::render_page(&comparison, &named_results, env!("CARGO_PKG_VERSION"));
        output_file::write_file(file, html.as_bytes())?;
    }
    if options.page.is_some_and(output_file::is_stdout) {
        // the page replaces the printed answer
    } else if options.json {
        output::print_json(&comparison)?;
    } else {
        output::print_text(&drawn::render_screen(&comparison, options.all, &output::wide_table_style()))?;
    }
    if comparison.counters.is_empty() {
        return Err(Failure::Failed(comparison.sentence.trim_end_matches('.').to_owned()));
    }
    options.max_worse.map_or(Ok(()), |max_worse| check_max_worse(&comparison, max_worse))
}

/// Fails if a figure is worse beyond noise and by more than a share, or if no figure can be judged.
fn check_max_worse(comparison: &ResultComparison, max_worse: f64) -> Result<(), Failure> {
    // a check that can never fail is useless
    if comparison.counters.iter().all(|r| r.noise.is_none()) {
        let reason = "no figure can be judged: single runs do not show noise; measure each side with --repeat 5";
        return Err(Failure::Failed(reason.into()));
    }
    let worse = comparison.counters.iter().filter(|r| r.noise == Some(false) && r.worse_by() > max_worse);
    match worse.max_by(|a, b| a.worse_by().total_cmp(&b.worse_by())) {
        None => Ok(()),
        Some(row) => {
            let share = diskwright_base::units::format_value(row.worse_by(), "fraction");
            Err(Failure::Failed(format!("{}: {} is worse by {share}", row.instance, quantity_label(row.counter))))
        }
    }
}
