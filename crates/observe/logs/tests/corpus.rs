//! Every fixture, changed as logs are in practice: a line before it, a line lost, other line ends, another encoding,
//! terminal codes, a cut. The values read are the same, or the difference is reported; no value differs silently.
//!
//! `DISKWRIGHT_CORPUS=FOLDER` does the same to all files of a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use diskwright_base::Note;
use diskwright_logs::{LogInput, LogOptions, LogPiece};

/// Content of a log: values by series and time, and reports.
#[derive(Debug, Default)]
struct LogContent {
    format: &'static str,
    values: BTreeMap<(String, String, i64), (u64, u64)>,
    reports: BTreeMap<String, u64>,
    /// Set where its times are counted, because it has none.
    is_counted: bool,
    error: Option<String>,
}

impl LogContent {
    /// Returns true where something is reported that the other does not report, or more often.
    fn reports_more_than(&self, other: &LogContent) -> bool {
        self.reports.iter().any(|(because, times)| *times > other.reports.get(because).copied().unwrap_or(0))
    }

    /// Returns the values of each series in order of time.
    fn values_in_order(&self) -> Vec<(&str, &str, u64)> {
        self.values.iter().map(|((counter, instance, _), (value, _))| (&**counter, &**instance, *value)).collect()
    }
}

fn read_content(name: &str, bytes: Vec<u8>) -> LogContent {
    let mut found = LogContent::default();
    let mut sink = |piece: LogPiece<'_>| {
        match piece {
            LogPiece::Note(note) if note.kind == Note::WARNING => {
                found.is_counted |= note.text().contains("counted");
                *found.reports.entry(note.into_text()).or_default() += 1;
            }
            LogPiece::Note(_) => {}
            LogPiece::Frame(frame) => {
                for (column, series) in frame.schema().series.iter().enumerate() {
                    for (tick, value) in frame.ticks().iter().zip(frame.column(column)) {
                        let key = (series.counter.clone(), series.instance.clone(), tick.time_ns);
                        // compared bit by bit, gaps included
                        let value = if value.is_nan() { u64::MAX } else { (value * series.scale).to_bits() };
                        found.values.insert(key, (value, tick.elapsed_ns));
                    }
                }
            }
        }
        ControlFlow::Continue(())
    };
    let options = LogOptions { interval: Some(Duration::from_secs(1)), utc_offset_s: Some(0), ..LogOptions::default() };
    let read = LogInput::from_bytes(name, bytes)
        .and_then(|mut input| diskwright_logs::salvage(&mut input, &options, &mut sink));
    match read {
        Ok(summary) => {
            found.format = summary.format;
            for skipped in summary.skipped {
                *found.reports.entry(skipped.reason).or_default() += skipped.count;
            }
        }
        Err(error) => found.error = Some(error.to_string()),
    }
    found
}

/// Expected effect of a mutation.
#[derive(Clone, Copy, PartialEq)]
enum Expectation {
    /// The values are the same, and nothing need be reported.
    Same,
    /// The values are the same, and the line is reported.
    SameAndReported,
    /// The values are the same in order; their times may be known better.
    SameButTimes,
    /// The values may differ, if that is reported.
    Reported,
}
use Expectation::{Reported, Same, SameAndReported, SameButTimes};

struct Mutation {
    name: &'static str,
    expectation: Expectation,
    /// Changes the file; `None` where that is not possible.
    apply: fn(&[u8]) -> Option<Vec<u8>>,
}

fn prepend(line: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    Some([line.as_bytes(), bytes].concat())
}

/// Removes one line, counted from the first.
fn remove_line(lost: usize, bytes: &[u8]) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
    let kept = lines.iter().enumerate().filter(|(index, _)| *index != lost).flat_map(|(_, line)| line.to_vec());
    (lines.len() > lost + 1).then(|| kept.collect())
}

/// Replaces each line end.
fn replace_line_ends(by: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?.replace("\r\n", "\n");
    Some(text.replace('\n', by).into_bytes())
}

fn encode_utf16(bytes: &[u8], mark: bool, unit: fn(u16) -> [u8; 2]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?;
    Some(mark.then_some(0xfeff).into_iter().chain(text.encode_utf16()).flat_map(unit).collect())
}

/// Puts a text before each line.
fn prefix_lines(with: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?;
    Some(text.split_inclusive('\n').map(|line| with.to_owned() + line).collect::<String>().into_bytes())
}

/// Inserts a line behind the first half of the lines.
fn insert_in_middle(line: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
    let (first, second) = lines.split_at(lines.len() / 2);
    (lines.len() > 3).then(|| [&first.concat(), line.as_bytes(), &second.concat()].concat())
}

/// Repeats the first lines at the end, as where a tool was restarted.
fn repeat_head(bytes: &[u8]) -> Option<Vec<u8>> {
    let first = bytes.split_inclusive(|b| *b == b'\n').take(6).collect::<Vec<_>>().concat();
    Some([bytes, &first].concat())
}

/// Returns the length of the last line.
fn last_line_length(bytes: &[u8]) -> usize {
    let bare = bytes.trim_ascii_end();
    bare.len() - bare.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1)
}

/// Puts a machine before each line; `None` for a file with too few lines to recognize that.
fn prefix_host(bytes: &[u8]) -> Option<Vec<u8>> {
    let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
    prefix_lines("db1: ", bytes).filter(|_| lines >= 4)
}

const KERNEL_LINE: &str = "[ 4711.250000] sd 0:0:0:0: [sda] Write cache: enabled, no DPO or FUA\n";
const SCRIPT_HEAD: &str = "Script started on 2026-11-21 13:20:09+00:00 [TERM=\"xterm\"]\n\u{1b}]0;root@db1: ~\u{7}\
                      \u{1b}[?2004h[root@db1 ~]# cat log\r\n\u{1b}[?2004l\r";

const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "a line of nohup before",
        expectation: SameAndReported,
        apply: |b| prepend("nohup: ignoring input and appending output to 'nohup.out'\n", b),
    },
    Mutation {
        name: "a prompt before",
        expectation: SameAndReported,
        apply: |b| prepend("[root@db1 ~]# vmstat -t 1 > log\n", b),
    },
    Mutation { name: "a short prompt before", expectation: Same, apply: |b| prepend("# iostat -x 1\n", b) },
    Mutation {
        name: "a line of a login before",
        expectation: SameAndReported,
        apply: |b| prepend("Last login: Sat Nov 21 13:20:09 2026 from 10.0.0.1\n", b),
    },
    Mutation {
        name: "OSWatcher's line before",
        expectation: SameButTimes,
        apply: |b| prepend("zzz ***Sat Nov 21 13:20:09 UTC 2026\n", b),
    },
    Mutation {
        name: "a date before",
        expectation: SameButTimes,
        apply: |b| prepend("Sa 21. Nov 13:20:09 UTC 2026\n", b),
    },
    Mutation { name: "blank lines before", expectation: Same, apply: |b| prepend("\n\n\n", b) },
    Mutation {
        name: "sixty lines before",
        expectation: SameAndReported,
        apply: |b| prepend(&"motd: be nice\n".repeat(60), b),
    },
    Mutation { name: "a session of script", expectation: SameAndReported, apply: |b| prepend(SCRIPT_HEAD, b) },
    Mutation { name: "a byte-order mark", expectation: Same, apply: |b| prepend("\u{feff}", b) },
    Mutation { name: "the first line lost", expectation: Reported, apply: |b| remove_line(0, b) },
    Mutation { name: "the second line lost", expectation: Reported, apply: |b| remove_line(1, b) },
    Mutation { name: "the third line lost", expectation: Reported, apply: |b| remove_line(2, b) },
    Mutation { name: "the fourth line lost", expectation: Reported, apply: |b| remove_line(3, b) },
    Mutation { name: "carriage returns and line feeds", expectation: Same, apply: |b| replace_line_ends("\r\n", b) },
    Mutation {
        name: "two carriage returns and a line feed",
        expectation: Same,
        apply: |b| replace_line_ends("\r\r\n", b),
    },
    Mutation { name: "carriage returns alone", expectation: Same, apply: |b| replace_line_ends("\r", b) },
    Mutation { name: "every line end doubled", expectation: Reported, apply: |b| replace_line_ends("\n\n", b) },
    Mutation { name: "UTF-16", expectation: Same, apply: |b| encode_utf16(b, true, u16::to_le_bytes) },
    Mutation {
        name: "UTF-16 with the high byte first",
        expectation: Same,
        apply: |b| encode_utf16(b, true, u16::to_be_bytes),
    },
    Mutation { name: "UTF-16 without a mark", expectation: Same, apply: |b| encode_utf16(b, false, u16::to_le_bytes) },
    Mutation { name: "lines set in", expectation: Same, apply: |b| prefix_lines("    ", b) },
    Mutation { name: "tabs before each line", expectation: Same, apply: |b| prefix_lines("\t", b) },
    Mutation {
        name: "zeros of a crash between",
        expectation: Reported,
        apply: |b| insert_in_middle("\0\0\0\0\0\0\0\0", b),
    },
    Mutation {
        name: "a line of the kernel between",
        expectation: Reported,
        apply: |b| insert_in_middle(KERNEL_LINE, b),
    },
    Mutation {
        name: "a prompt between",
        expectation: Reported,
        apply: |b| insert_in_middle("[root@db1 ~]# uptime, date\n", b),
    },
    Mutation { name: "the log twice", expectation: Reported, apply: |b| Some([b, b].concat()) },
    Mutation { name: "the first lines once more", expectation: Reported, apply: |b| repeat_head(b) },
    Mutation { name: "colours", expectation: Same, apply: |b| prefix_lines("\u{1b}[0;32m\u{1b}[K", b) },
    Mutation { name: "a host before each line", expectation: Same, apply: prefix_host },
    Mutation { name: "no end of the last line", expectation: Reported, apply: |b| Some(b.trim_ascii_end().to_vec()) },
    Mutation { name: "a digit lost at the end", expectation: Reported, apply: |b| cut_bytes(b, 1) },
    Mutation { name: "some bytes lost at the end", expectation: Reported, apply: |b| cut_bytes(b, 9) },
    Mutation { name: "a line lost at the end", expectation: Reported, apply: |b| cut_bytes(b, last_line_length(b)) },
    Mutation {
        name: "half a line lost at the end",
        expectation: Reported,
        apply: |b| cut_bytes(b, last_line_length(b) / 2),
    },
    Mutation { name: "the second half lost", expectation: Reported, apply: |b| cut_bytes(b, b.len() / 2) },
    Mutation { name: "the last third lost", expectation: Reported, apply: |b| cut_bytes(b, b.len() / 3) },
];

/// Cuts bytes off the end, not counting blanks.
fn cut_bytes(bytes: &[u8], lost: usize) -> Option<Vec<u8>> {
    let bare = bytes.trim_ascii_end();
    Some(bare[..bare.len().checked_sub(lost)?].to_vec())
}

/// Formats that are not text: any change of lines damages them.
const BINARY_FORMATS: &[&str] = &["sa-binary", "pcp", "perfmon-blg"];

/// Finds what is wrong with the log that was read after a mutation.
fn find_fault(original: &LogContent, changed: &LogContent, promise: Expectation) -> Option<String> {
    if original.values == changed.values {
        let is_silent = promise == SameAndReported && !changed.reports_more_than(original);
        return is_silent.then(|| "the same values, but the line before was not reported".to_owned());
    }
    if promise == SameButTimes && original.values_in_order() == changed.values_in_order() {
        return None;
    }
    // the values of a cut file must equal those of the complete one; gaps do not count
    let differs = |(key, value): &(&(String, String, i64), &(u64, u64))| {
        value.0 != u64::MAX && original.values.get(*key).map(|v| v.0) != Some(value.0)
    };
    let other = changed.values.iter().find(differs);
    let is_reported = changed.error.is_some() || changed.reports_more_than(original) || original.is_counted;
    let is_answered = other.is_none() || is_reported;
    if promise == Reported && is_answered {
        return None;
    }
    let (had, has) = (original.values.len(), changed.values.len());
    Some(changed.error.clone().unwrap_or_else(|| format!("{had} values became {has}, another one is {other:?}")))
}

/// Reads a file's text as the readers get it: unpacked and converted to UTF-8.
fn read_unpacked(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    LogInput::open(path).ok()?.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn check_mutations(name: &str, bytes: &[u8]) -> Vec<String> {
    let original = read_content(name, bytes.to_vec());
    let is_binary = BINARY_FORMATS.contains(&original.format);
    if original.error.is_some() {
        return Vec::new();
    }
    let apply_mutation = |mutation: &Mutation| {
        let changed = read_content(name, (mutation.apply)(bytes)?);
        let promise = if is_binary { Reported } else { mutation.expectation };
        find_fault(&original, &changed, promise).map(|fault| format!("{name}, {}: {fault}", mutation.name))
    };
    MUTATIONS.iter().filter_map(apply_mutation).collect()
}

fn list_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() { list_files(&path, found) } else { found.push(path) }
    }
    found.sort();
}

fn fixture_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

#[test]
fn every_fixture_survives_every_mutation() {
    let mut paths = Vec::new();
    list_files(&fixture_folder(), &mut paths);
    let mut formats = BTreeSet::new();
    let mut all = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = read_unpacked(&path).unwrap();
        formats.insert(read_content(&name, bytes.clone()).format);
        all.extend(check_mutations(&name, &bytes));
    }
    assert!(formats.len() >= 8, "only {formats:?} were read");
    assert!(all.is_empty(), "{} of them:\n{}", all.len(), all.join("\n"));
}

/// Largest file of a folder that is tried, bytes.
const MAX_FILE_BYTES: u64 = 8 << 20;

#[test]
fn a_folder_of_real_files_survives_every_mutation() {
    let Some(folder) = std::env::var_os("DISKWRIGHT_CORPUS") else { return };
    let mut paths = Vec::new();
    list_files(Path::new(&folder), &mut paths);
    let mut all = Vec::new();
    for path in paths.iter().filter(|path| path.metadata().is_ok_and(|m| m.len() <= MAX_FILE_BYTES)) {
        let Some(bytes) = read_unpacked(path) else { continue };
        all.extend(check_mutations(&path.display().to_string(), &bytes));
    }
    assert!(all.is_empty(), "{} of {} files:\n{}", all.len(), paths.len(), all.join("\n"));
}
