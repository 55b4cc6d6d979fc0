//! `compare` of results of `probe`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use diskwright_report::probe::{NamedResult, compare as drawn};
use diskwright_results::compare::{ResultComparison, ResultFile, compare, words};
use diskwright_results::document::{ProbeDocument, is_result};

use super::{Failure, output, output_file};

/// What to do with the comparison.
pub struct CompareOptions<'a> {
    /// Everything, noise too.
    pub all: bool,
    /// A page to write.
    pub page: Option<&'a Path>,
    /// Print JSON.
    pub json: bool,
    /// Fail where something is worse by more than this share.
    pub most_worse: Option<f64>,
}

/// True for a file that says it is a result of `probe`, of whatever version.
pub fn is(path: &Path) -> bool {
    let mut head = Vec::new();
    // what is read of a pipe is lost to whoever reads the log in it; a folder cannot be read, and is a log
    if let Some(file) = path.is_file().then(|| File::open(path).ok()).flatten() {
        let _ = file.take(4096).read_to_end(&mut head);
    }
    is_result(&head)
}

/// Names for files beside each other: without folder and ending where that
/// tells them apart.
pub fn names(paths: &[PathBuf]) -> Vec<String> {
    let stem = |p: &PathBuf| p.file_stem().unwrap_or(p.as_os_str()).to_string_lossy().into_owned();
    let stems: Vec<String> = paths.iter().map(stem).collect();
    let is_double = |name: &String| stems.iter().filter(|s| *s == name).count() > 1;
    let name = |(path, stem): (&PathBuf, &String)| {
        if is_double(stem) { path.display().to_string() } else { stem.clone() }
    };
    paths.iter().zip(&stems).map(name).collect()
}

/// Reads result files.
pub fn read(paths: &[PathBuf]) -> Result<Vec<ProbeDocument>, Failure> {
    let one = |path: &PathBuf| {
        if !is(path) && path.exists() {
            let name = path.display();
            return Err(Failure::Failed(format!(
                "{name}: not a result of `probe`; results can only be compared with \
                                                results"
            )));
        }
        Ok(ProbeDocument::read(path)?)
    };
    paths.iter().map(one).collect()
}

/// Compares two sides of files.
pub fn run(before: &[PathBuf], after: &[PathBuf], asked: &CompareOptions<'_>) -> Result<(), Failure> {
    let all: Vec<PathBuf> = before.iter().chain(after).cloned().collect();
    let (documents, names) = (read(&all)?, names(&all));
    let files: Vec<String> = all.iter().map(|path| path.display().to_string()).collect();
    let filed: Vec<ResultFile<'_>> = files.iter().map(String::as_str).zip(&documents).collect();
    let (first, second) = filed.split_at(before.len());
    let comparison = compare(first, second);
    if let Some(file) = asked.page {
        let named: Vec<NamedResult<'_>> =
            names.iter().zip(&documents).map(|(name, document)| NamedResult { name, document }).collect();
        let html = drawn::page(&comparison, &named, env!("CARGO_PKG_VERSION"));
        output_file::write(file, html.as_bytes())?;
    }
    if asked.page.is_some_and(output_file::is_stdout) {
        // the page is the answer
    } else if asked.json {
        output::json(&comparison)?;
    } else {
        output::text(&drawn::screen(&comparison, asked.all, &output::wide_style()))?;
    }
    if comparison.counters.is_empty() {
        return Err(Failure::Failed(comparison.sentence.trim_end_matches('.').to_owned()));
    }
    asked.most_worse.map_or(Ok(()), |most| hold(&comparison, most))
}

/// Fails where a figure is worse beyond noise and by more than a share, and where none can be judged.
fn hold(comparison: &ResultComparison, most: f64) -> Result<(), Failure> {
    // a check that never fails is none
    if comparison.counters.iter().all(|r| r.noise.is_none()) {
        let reason = "no figure can be judged: single runs do not show noise; measure each side with --repeat 5";
        return Err(Failure::Failed(reason.into()));
    }
    let worse = comparison.counters.iter().filter(|r| r.noise == Some(false) && r.worse_by() > most);
    match worse.max_by(|a, b| a.worse_by().total_cmp(&b.worse_by())) {
        None => Ok(()),
        Some(row) => {
            let share = diskwright_base::units::display(row.worse_by(), "fraction");
            Err(Failure::Failed(format!("{}: {} is worse by {share}", row.instance, words(row.counter))))
        }
    }
}
