//! A folder, tar or zip archive of logs given as one input (`why sosreport.tar.xz`): its files, those that are logs,
//! and those that are read as one log.

mod archive;
mod pasted_text;
mod walk;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use diskwright_base::text::is_same_host;
use diskwright_base::units::format_count;
use diskwright_datastore::is_log;
use diskwright_logs::{LogInput, ReadSummary, prometheus};

use super::foreign::ForeignOptions;
use super::merge::{self, MergeMember};
use super::temporary::TemporaryFolder;
use super::{Failure, foreign, output};

/// Maximum number of logs read from one bundle; each is open while they are joined.
const MAX_LOGS: usize = 900;

/// A log to read: a file, or several files that form one log.
pub struct GivenLog {
    /// Its path. It may be a Diskwright log.
    pub path: PathBuf,
    /// Its name in messages.
    pub name: String,
    /// True for a file of a bundle: if it cannot be read, the others still are.
    pub is_bundled: bool,
    /// Pages of metrics that are read as one log; empty for any other log.
    pages: Vec<(PathBuf, String)>,
    /// Temporary folders of the unpacked bundles that its files are from. They are removed with the last log that
    /// needs them.
    unpacked: Vec<Rc<TemporaryFolder>>,
    /// Its content, if it is not that of a file.
    held: Option<HeldContent>,
}

impl GivenLog {
    /// A log that the user named.
    fn given_directly(path: &Path) -> GivenLog {
        GivenLog {
            path: path.to_owned(),
            name: path.display().to_string(),
            is_bundled: false,
            pages: Vec::new(),
            unpacked: Vec::new(),
            held: None,
        }
    }

    /// Returns the options for reading it: what its command line says is added.
    pub fn reading_options(&self, reading: &ForeignOptions) -> ForeignOptions {
        match &self.held {
            Some(HeldContent::Section { interval, is_first_report_kept, .. }) => {
                reading.with_command(*interval, *is_first_report_kept)
            }
            _ => reading.clone(),
        }
    }

    /// True for a Diskwright log, and for a folder that must be one.
    pub fn is_ours(&self) -> bool {
        self.held.is_none() && (self.path.is_dir() || is_log(&self.path))
    }

    /// True for several files that are read as one log.
    pub fn has_several_files(&self) -> bool {
        !self.pages.is_empty()
    }

    /// Opens a log of another tool.
    pub fn open(&self) -> Result<LogInput, Failure> {
        match self.pages.is_empty() {
            _ if self.held.is_some() => pasted_text::open_held(self),
            true => Ok(LogInput::open_named(&self.path, &self.name)?),
            false => Ok(prometheus::open_joined(self.pages.clone())?),
        }
    }

    /// Paths and names of its files.
    pub fn input_files(&self) -> Vec<(PathBuf, String)> {
        if self.pages.is_empty() { vec![(self.path.clone(), self.name.clone())] } else { self.pages.clone() }
    }
}

/// Content of a log that is not that of a file.
enum HeldContent {
    /// Output of one tool, cut from a text.
    Section { text: Rc<str>, interval: Option<Duration>, is_first_report_kept: bool },
    /// Standard input or a pipe, which is read only once: all of it.
    Whole(Rc<[u8]>),
    /// The same, if it is too long to be held: opened, until it is read.
    Opened(RefCell<Option<LogInput>>),
}

/// A log that was found in a bundle.
struct FoundLog {
    path: PathBuf,
    /// Its name in messages.
    name: String,
    /// Id of its format.
    format: &'static str,
}

/// Contents of a bundle.
#[derive(Default)]
struct BundleContent {
    logs: Vec<FoundLog>,
    /// Number of files that are not logs.
    other_files: usize,
    /// Files that could not be examined, and why.
    refused: Vec<String>,
    /// Number of archives that were unpacked.
    archives: usize,
    /// Number of bytes written for all unpacked archives.
    bytes: u64,
    /// Temporary folder with the unpacked files.
    unpacked: Option<Rc<TemporaryFolder>>,
}

/// Expands paths to logs: files as they are, bundles to the logs in them.
pub fn expand_paths(paths: &[PathBuf]) -> Result<Vec<GivenLog>, Failure> {
    let mut logs = Vec::new();
    for path in paths {
        match read_bundle(path)? {
            None => {
                logs.push(GivenLog::given_directly(path));
            }
            Some(content) => logs.extend(bundle_logs(path, content)?),
        }
    }
    let may_be_pages = logs.len() > 1 && logs.iter().all(|log| log.pages.is_empty() && log.path.is_file());
    let files: Vec<(PathBuf, String)> = logs.iter().map(|log| (log.path.clone(), log.name.clone())).collect();
    if may_be_pages && prometheus::are_pages(&files) {
        // the first log reads the files of all others, so it keeps their folders
        let folders: Vec<Rc<TemporaryFolder>> = logs.drain(1..).flat_map(|log| log.unpacked).collect();
        logs[0].unpacked.extend(folders);
        logs[0].pages = files;
    }
    Ok(logs.into_iter().flat_map(pasted_text::split_log).collect())
}

/// Reads the contents of a bundle; `None` for a log, and for a path that opening it as a log will refuse.
fn read_bundle(path: &Path) -> Result<Option<BundleContent>, Failure> {
    if path.is_dir() {
        if is_log(path) {
            return Ok(None);
        }
        let mut content = BundleContent::default();
        walk::walk_folder(path, &mut |file| {
            let name = file.display().to_string();
            archive::classify_file(file.to_owned(), &name, &mut content, 0)
        })?;
        return Ok(Some(content));
    }
    if path == Path::new("-") || !path.is_file() || !archive::is_archive(path) {
        return Ok(None);
    }
    let mut content = BundleContent::default();
    let name = path.file_name().unwrap_or(path.as_os_str()).display().to_string();
    archive::classify_file(path.to_owned(), &name, &mut content, 0)?;
    Ok(Some(content))
}

fn bundle_logs(path: &Path, content: BundleContent) -> Result<Vec<GivenLog>, Failure> {
    let bundle = path.display();
    let BundleContent { mut logs, other_files, refused, unpacked, .. } = content;
    if let (true, 0, Some(reason)) = (logs.is_empty(), other_files, refused.first()) {
        return Err(Failure::Failed(reason.clone()));
    }
    logs.sort_by(|a, b| a.name.cmp(&b.name));
    report_refused(&refused);
    if logs.is_empty() {
        let files = match other_files {
            0 => "it contains no files, and so no log".to_owned(),
            1 => "its only file is not a log".to_owned(),
            _ => format!("none of its {other_files} files is a log"),
        };
        let remark = if path.is_dir() { ", and it is not a Diskwright log" } else { "" };
        return Err(Failure::Failed(format!("{bundle}: {files} that can be read (see `list formats`){remark}")));
    }
    // several files may be one log: only logs that are read count against the limit
    let logs = drop_duplicates(logs);
    if logs.len() > MAX_LOGS {
        let count = logs.len();
        return Err(Failure::Failed(format!(
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
    report_contents(path, &logs, other_files);
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
fn report_refused(refused: &[String]) {
    const MAX_WARNINGS: usize = 5;
    for reason in refused.iter().take(MAX_WARNINGS) {
        output::print_warning(format_args!("{reason}"));
    }
    if refused.len() > MAX_WARNINGS {
        let more = format_count(refused.len() - MAX_WARNINGS, "more file", "more files");
        output::print_warning(format_args!("{more} could not be examined"));
    }
}

/// Reports which files of a bundle are read.
fn report_contents(path: &Path, logs: &[FoundLog], other_files: usize) {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    logs.iter().for_each(|log| *kinds.entry(log.format).or_default() += 1);
    let kinds: Vec<String> = kinds.iter().map(|(format, count)| format!("{count} {format}")).collect();
    let others = match other_files {
        0 => String::new(),
        1 => "; 1 other file is not a log".to_owned(),
        count => format!("; {count} other files are not logs"),
    };
    output::print_note(format_args!("{}: reads {}{others}", path.display(), kinds.join(", ")));
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

/// Reports that a log of a bundle could not be read; the others are read without it.
pub fn report_left_out(reason: &str) {
    output::print_warning(format_args!("{reason} (left out)"));
}

/// Skipped parts of a bundle's logs. Each reason is reported once, because many logs of a tool have the same.
#[derive(Default)]
pub struct BundleSkips {
    /// The first log with each reason, and how often it occurred.
    reasons: BTreeMap<String, (String, u64)>,
}

impl BundleSkips {
    /// Reports skipped parts of a log that was given directly; collects those of a bundle's logs.
    pub fn add_summary(&mut self, log: &GivenLog, summary: &ReadSummary) {
        if !log.is_bundled {
            return foreign::report_skipped(Path::new(&log.name), summary);
        }
        for skip in &summary.skipped {
            let first = || (format!("{}: {}", log.name, skip.context), 0);
            self.reasons.entry(skip.reason.clone()).or_insert_with(first).1 += skip.count;
        }
    }

    /// Reports the collected reasons, the most frequent first.
    pub fn report_skips(self) {
        const MAX_REASONS: usize = 8;
        let mut reasons: Vec<_> = self.reasons.into_iter().collect();
        reasons.sort_by_key(|(_, (_, times))| std::cmp::Reverse(*times));
        for (because, (first, times)) in reasons.iter().take(MAX_REASONS) {
            let times = if *times > 1 { format!(" ({times} times in all)") } else { String::new() };
            output::print_warning(format_args!("{first}: {because}{times}"));
        }
        if reasons.len() > MAX_REASONS {
            let more = format_count(reasons.len() - MAX_REASONS, "more reason", "more reasons");
            output::print_warning(format_args!("{more}; `import --json` lists them"));
        }
    }
}

/// Marks logs of machines other than the one that is read: the machine of a log that was given directly, else the one
/// with the longest logs. A warning names the other machines. Without a bundle, no log is marked.
pub fn mark_other_machines(members: &[MergeMember]) -> Result<Vec<bool>, Failure> {
    let mut is_other_machine = vec![false; members.len()];
    if !members.iter().any(|member| member.is_bundled) {
        return Ok(is_other_machine);
    }
    let hosts: Vec<Option<String>> =
        members.iter().map(|member| merge::find_host(&member.path)).collect::<Result<_, Failure>>()?;
    let length = |member: &MergeMember| member.range_ns.1.abs_diff(member.range_ns.0);
    let recorded = |host: &str| -> u64 {
        let is_same = |name: &Option<String>| name.as_deref().is_some_and(|name| is_same_host(host, name));
        members.iter().zip(&hosts).filter(|(_, name)| is_same(name)).map(|(member, _)| length(member)).sum()
    };
    let host_given_directly =
        hosts.iter().zip(members).find_map(|(host, member)| host.as_deref().filter(|_| !member.is_bundled));
    let longest = || hosts.iter().flatten().max_by_key(|host| recorded(host)).map(String::as_str);
    let Some(chosen) = host_given_directly.or_else(longest) else { return Ok(is_other_machine) };
    let mut left_out: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (index, host) in hosts.iter().enumerate().filter_map(|(index, host)| Some((index, host.as_deref()?))) {
        if members[index].is_bundled && !is_same_host(chosen, host) {
            is_other_machine[index] = true;
            left_out.entry(host).or_default().push(&members[index].name);
        }
    }
    for (host, names) in left_out {
        let logs = if names.len() == 1 { "its log".to_owned() } else { format!("{} logs", names.len()) };
        output::print_warning(format_args!(
            "the logs are of several machines: {chosen} is read, {host} is not ({logs}, such as {}); to read it, use \
             --host {host}",
            names[0]
        ));
    }
    Ok(is_other_machine)
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
        let content = BundleContent { logs: files.map(log).collect(), ..BundleContent::default() };
        assert_eq!(bundle_logs(Path::new("p"), content).unwrap().len(), archives);
    }

    #[test]
    fn pages_of_several_archives_keep_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        let pack = |name: &str| {
            let page = b"# TYPE node_load1 gauge\nnode_load1 0.5\n";
            let mut header = tar::Header::new_gnu();
            header.set_size(page.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            let mut archive = tar::Builder::new(Vec::new());
            archive.append_data(&mut header, "metrics.prom", &page[..]).unwrap();
            let path = folder.path().join(name);
            std::fs::write(&path, archive.into_inner().unwrap()).unwrap();
            path
        };
        let logs = expand_paths(&[pack("a.tar"), pack("b.tar")]).unwrap();
        let files = logs[0].input_files();
        assert_eq!((logs.len(), files.len()), (1, 2));
        assert!(files.iter().all(|(path, _)| path.is_file()), "{files:?}");
    }
}
