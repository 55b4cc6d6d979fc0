//! A folder, tar or zip archive of logs given as one input (`why sosreport.tar.xz`): its files, those that are logs,
//! and those that are read as one log.

mod archive;
mod content;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use diskwright_base::units::format_count;
use diskwright_datastore::is_log;
use diskwright_logs::prometheus;

use crate::IngestError;
use crate::given_log::GivenLog;
use crate::report::Reporter;
use content::{BundleContent, FoundLog};

/// Maximum number of logs read from one bundle; each is open while they are joined.
const MAX_LOGS: usize = 900;

/// Returns the logs of a bundle; `None` for a log, and for a path that opening it as a log will refuse.
pub fn find_logs(path: &Path, reporter: &Reporter) -> Result<Option<Vec<GivenLog>>, IngestError> {
    read_bundle(path, reporter)?.map(|content| bundle_logs(path, content, reporter)).transpose()
}

/// Reads the contents of a bundle, as [`find_logs`].
fn read_bundle(path: &Path, reporter: &Reporter) -> Result<Option<BundleContent>, IngestError> {
    if path.is_dir() {
        if is_log(path) {
            return Ok(None);
        }
        let mut content = BundleContent::new(reporter);
        walk::walk_folder(path, &mut |file| {
            let name = file.display().to_string();
            archive::classify_file(file.to_owned(), &name, &mut content, 0)
        })?;
        return Ok(Some(content));
    }
    if path == Path::new("-") || !path.is_file() || !archive::is_archive(path) {
        return Ok(None);
    }
    let mut content = BundleContent::new(reporter);
    let name = path.file_name().unwrap_or(path.as_os_str()).display().to_string();
    archive::classify_file(path.to_owned(), &name, &mut content, 0)?;
    Ok(Some(content))
}

fn bundle_logs(path: &Path, content: BundleContent, reporter: &Reporter) -> Result<Vec<GivenLog>, IngestError> {
    let bundle = path.display();
    let BundleContent { mut logs, other_files, refused, unpacked, .. } = content;
    if let (true, 0, Some(reason)) = (logs.is_empty(), other_files, refused.first()) {
        return Err(IngestError::Refused(reason.clone()));
    }
    logs.sort_by(|a, b| a.name.cmp(&b.name));
    report_refused(&refused, reporter);
    if logs.is_empty() {
        let files = match other_files {
            0 => "it contains no files, and so no log".to_owned(),
            1 => "its only file is not a log".to_owned(),
            _ => format!("none of its {other_files} files is a log"),
        };
        let remark = if path.is_dir() { ", and it is not a Diskwright log" } else { "" };
        return Err(IngestError::Refused(format!("{bundle}: {files} that can be read (see `list formats`){remark}")));
    }
    // several files may be one log: only logs that are read count against the limit
    let logs = drop_duplicates(logs);
    if logs.len() > MAX_LOGS {
        let count = logs.len();
        return Err(IngestError::Refused(format!(
            "{bundle}: contains {count} logs; at most {MAX_LOGS} are read at once, so give a part of it"
        )));
    }
    let bundled_log = |path: PathBuf, name: String| GivenLog {
        path,
        name,
        is_bundled: true,
        pages: Vec::new(),
        unpacked: unpacked.iter().cloned().collect(),
        held: None,
    };
    report_contents(path, &logs, other_files, reporter);
    let (pages, logs): (Vec<_>, Vec<_>) = logs.into_iter().partition(|log| log.format == prometheus::TEXT.id);
    let mut bundled: Vec<GivenLog> = logs.into_iter().map(|log| bundled_log(log.path, log.name)).collect();
    let pages: Vec<(PathBuf, String)> = pages.into_iter().map(|log| (log.path, log.name)).collect();
    if let Some((path, name)) = pages.first().cloned() {
        let pages = if pages.len() > 1 { pages } else { Vec::new() };
        bundled.push(GivenLog { pages, ..bundled_log(path, name) });
    }
    Ok(bundled)
}

/// Warns about files of a bundle that could not be examined.
fn report_refused(refused: &[String], reporter: &Reporter) {
    const MAX_WARNINGS: usize = 5;
    for reason in refused.iter().take(MAX_WARNINGS) {
        reporter.warn(format_args!("{reason}"));
    }
    if refused.len() > MAX_WARNINGS {
        let more = format_count(refused.len() - MAX_WARNINGS, "more file", "more files");
        reporter.warn(format_args!("{more} could not be examined"));
    }
}

/// Reports which files of a bundle are read.
fn report_contents(path: &Path, logs: &[FoundLog], other_files: usize, reporter: &Reporter) {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    logs.iter().for_each(|log| *kinds.entry(log.format).or_default() += 1);
    let kinds: Vec<String> = kinds.iter().map(|(format, count)| format!("{count} {format}")).collect();
    let others = match other_files {
        0 => String::new(),
        1 => "; 1 other file is not a log".to_owned(),
        count => format!("; {count} other files are not logs"),
    };
    reporter.note(format_args!("{}: reads {}{others}", path.display(), kinds.join(", ")));
}

/// Drops logs that the bundle contains twice: the other files of a PCP archive, and sar's daily text beside the data
/// that it was made from.
fn drop_duplicates(logs: Vec<FoundLog>) -> Vec<FoundLog> {
    let mut archives = BTreeSet::new();
    let binary: BTreeSet<PathBuf> =
        logs.iter().filter(|log| log.format == "sa-binary").map(|log| log.path.clone()).collect();
    let mut kept = Vec::new();
    for log in logs {
        let is_duplicate = match log.format {
            "pcp" => diskwright_logs::pcp::archive_base(&log.path).is_some_and(|archive| !archives.insert(archive)),
            "sar-text" => sar_text_twin(&log.path).is_some_and(|twin| binary.contains(&twin)),
            _ => false,
        };
        if !is_duplicate {
            kept.push(log);
        }
    }
    kept
}

/// Path of `sa22` for `sar22`.
fn sar_text_twin(path: &Path) -> Option<PathBuf> {
    let day = path.file_name()?.to_str()?.strip_prefix("sar")?;
    day.bytes().all(|b| b.is_ascii_digit()).then(|| path.with_file_name(format!("sa{day}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_duplicated_logs_once() {
        let log = |name: &str, format| FoundLog { path: PathBuf::from(name), name: name.to_owned(), format };
        let logs = vec![
            log("p/20261121.0", "pcp"),
            log("p/20261121.index", "pcp"),
            log("p/20261121.meta.xz", "pcp"),
            log("p/20261122.0", "pcp"),
            log("sa/sa21", "sa-binary"),
            log("sa/sar21", "sar-text"),
            log("sa/sar20", "sar-text"),
            log("sa/sarah", "sar-text"),
        ];
        let kept: Vec<String> = drop_duplicates(logs).into_iter().map(|log| log.name).collect();
        assert_eq!(kept, ["p/20261121.0", "p/20261122.0", "sa/sa21", "sa/sar20", "sa/sarah"]);
    }

    #[test]
    fn files_of_one_log_count_once_against_the_limit() {
        let archives = MAX_LOGS / 3 + 1;
        let parts = ["0", "index", "meta"];
        let files = (0..archives).flat_map(|day| parts.map(|part| format!("p/{}.{part}", 20_260_000 + day)));
        let log = |name: String| FoundLog { path: PathBuf::from(&name), name, format: "pcp" };
        let reporter = Reporter::silent();
        let content = BundleContent { logs: files.map(log).collect(), ..BundleContent::new(&reporter) };
        assert_eq!(bundle_logs(Path::new("p"), content, &reporter).unwrap().len(), archives);
    }
}
