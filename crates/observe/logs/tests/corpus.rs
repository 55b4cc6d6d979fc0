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
    told: BTreeMap<String, u64>,
    /// Set where its times are counted, because it has none.
    is_counted: bool,
    error: Option<String>,
}

impl LogContent {
    /// Returns true where something is reported that the other does not report, or more often.
    fn tells_more_than(&self, other: &LogContent) -> bool {
        self.told.iter().any(|(because, times)| *times > other.told.get(because).copied().unwrap_or(0))
    }

    /// Returns the values of each series in order of time.
    fn in_order(&self) -> Vec<(&str, &str, u64)> {
        self.values.iter().map(|((counter, instance, _), (value, _))| (&**counter, &**instance, *value)).collect()
    }
}

fn content(name: &str, bytes: Vec<u8>) -> LogContent {
    let mut found = LogContent::default();
    let mut sink = |piece: LogPiece<'_>| {
        match piece {
            LogPiece::Note(note) if note.kind == Note::WARNING => {
                found.is_counted |= note.text.contains("counted");
                *found.told.entry(note.text).or_default() += 1;
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
                *found.told.entry(skipped.because).or_default() += skipped.times;
            }
        }
        Err(error) => found.error = Some(error.to_string()),
    }
    found
}

/// Expected effect of a mutation.
#[derive(Clone, Copy, PartialEq)]
enum Promise {
    /// The values are the same, and nothing need be reported.
    Same,
    /// The values are the same, and the line is reported.
    SameAndTold,
    /// The values are the same in order; their times may be known better.
    SameButTimes,
    /// The values may differ, if that is reported.
    Told,
}
use Promise::{Same, SameAndTold, SameButTimes, Told};

struct Mutation {
    name: &'static str,
    promise: Promise,
    /// Changes the file; `None` where that is not possible.
    apply: fn(&[u8]) -> Option<Vec<u8>>,
}

fn before(line: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    Some([line.as_bytes(), bytes].concat())
}

/// Removes one line, counted from the first.
fn without(lost: usize, bytes: &[u8]) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
    let kept = lines.iter().enumerate().filter(|(index, _)| *index != lost).flat_map(|(_, line)| line.to_vec());
    (lines.len() > lost + 1).then(|| kept.collect())
}

/// Replaces each line end.
fn ends(by: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?.replace("\r\n", "\n");
    Some(text.replace('\n', by).into_bytes())
}

fn wide(bytes: &[u8], mark: bool, unit: fn(u16) -> [u8; 2]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?;
    Some(mark.then_some(0xfeff).into_iter().chain(text.encode_utf16()).flat_map(unit).collect())
}

/// Puts a text before each line.
fn each(with: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?;
    Some(text.split_inclusive('\n').map(|line| with.to_owned() + line).collect::<String>().into_bytes())
}

/// Inserts a line behind the first half of the lines.
fn between(line: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
    let (first, second) = lines.split_at(lines.len() / 2);
    (lines.len() > 3).then(|| [&first.concat(), line.as_bytes(), &second.concat()].concat())
}

/// Repeats the first lines at the end, as where a tool was restarted.
fn again(bytes: &[u8]) -> Option<Vec<u8>> {
    let first = bytes.split_inclusive(|b| *b == b'\n').take(6).collect::<Vec<_>>().concat();
    Some([bytes, &first].concat())
}

/// Returns the length of the last line.
fn last_line(bytes: &[u8]) -> usize {
    let bare = bytes.trim_ascii_end();
    bare.len() - bare.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1)
}

/// Puts a machine before each line; `None` for a file with too few lines to recognise that.
fn hosted(bytes: &[u8]) -> Option<Vec<u8>> {
    let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
    each("db1: ", bytes).filter(|_| lines >= 4)
}

const KERNEL: &str = "[ 4711.250000] sd 0:0:0:0: [sda] tag#7 FAILED Result: hostbyte=DID_OK\n";
const SCRIPT: &str = "Script started on 2026-11-21 13:20:09+00:00 [TERM=\"xterm\"]\n\u{1b}]0;root@db1: ~\u{7}\
                      \u{1b}[?2004h[root@db1 ~]# cat log\r\n\u{1b}[?2004l\r";

const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "a line of nohup before",
        promise: SameAndTold,
        apply: |b| before("nohup: ignoring input and appending output to 'nohup.out'\n", b),
    },
    Mutation {
        name: "a prompt before",
        promise: SameAndTold,
        apply: |b| before("[root@db1 ~]# vmstat -t 1 > log\n", b),
    },
    Mutation { name: "a short prompt before", promise: Same, apply: |b| before("# iostat -x 1\n", b) },
    Mutation {
        name: "a line of a login before",
        promise: SameAndTold,
        apply: |b| before("Last login: Sat Nov 21 13:20:09 2026 from 10.0.0.1\n", b),
    },
    Mutation {
        name: "OSWatcher's line before",
        promise: SameButTimes,
        apply: |b| before("zzz ***Sat Nov 21 13:20:09 UTC 2026\n", b),
    },
    Mutation { name: "a date before", promise: SameButTimes, apply: |b| before("Sa 21. Nov 13:20:09 UTC 2026\n", b) },
    Mutation { name: "blank lines before", promise: Same, apply: |b| before("\n\n\n", b) },
    Mutation { name: "sixty lines before", promise: SameAndTold, apply: |b| before(&"motd: be nice\n".repeat(60), b) },
    Mutation { name: "a session of script", promise: SameAndTold, apply: |b| before(SCRIPT, b) },
    Mutation { name: "a byte-order mark", promise: Same, apply: |b| before("\u{feff}", b) },
    Mutation { name: "the first line lost", promise: Told, apply: |b| without(0, b) },
    Mutation { name: "the second line lost", promise: Told, apply: |b| without(1, b) },
    Mutation { name: "the third line lost", promise: Told, apply: |b| without(2, b) },
    Mutation { name: "the fourth line lost", promise: Told, apply: |b| without(3, b) },
    Mutation { name: "carriage returns and line feeds", promise: Same, apply: |b| ends("\r\n", b) },
    Mutation { name: "two carriage returns and a line feed", promise: Same, apply: |b| ends("\r\r\n", b) },
    Mutation { name: "carriage returns alone", promise: Same, apply: |b| ends("\r", b) },
    Mutation { name: "every line end doubled", promise: Told, apply: |b| ends("\n\n", b) },
    Mutation { name: "UTF-16", promise: Same, apply: |b| wide(b, true, u16::to_le_bytes) },
    Mutation { name: "UTF-16 with the high byte first", promise: Same, apply: |b| wide(b, true, u16::to_be_bytes) },
    Mutation { name: "UTF-16 without a mark", promise: Same, apply: |b| wide(b, false, u16::to_le_bytes) },
    Mutation { name: "lines set in", promise: Same, apply: |b| each("    ", b) },
    Mutation { name: "tabs before each line", promise: Same, apply: |b| each("\t", b) },
    Mutation { name: "zeros of a crash between", promise: Told, apply: |b| between("\0\0\0\0\0\0\0\0", b) },
    Mutation { name: "a line of the kernel between", promise: Told, apply: |b| between(KERNEL, b) },
    Mutation { name: "a prompt between", promise: Told, apply: |b| between("[root@db1 ~]# uptime, date\n", b) },
    Mutation { name: "the log twice", promise: Told, apply: |b| Some([b, b].concat()) },
    Mutation { name: "the first lines once more", promise: Told, apply: |b| again(b) },
    Mutation { name: "colours", promise: Same, apply: |b| each("\u{1b}[0;32m\u{1b}[K", b) },
    Mutation { name: "a host before each line", promise: Same, apply: hosted },
    Mutation { name: "no end of the last line", promise: Told, apply: |b| Some(b.trim_ascii_end().to_vec()) },
    Mutation { name: "a digit lost at the end", promise: Told, apply: |b| cut(b, 1) },
    Mutation { name: "some bytes lost at the end", promise: Told, apply: |b| cut(b, 9) },
    Mutation { name: "a line lost at the end", promise: Told, apply: |b| cut(b, last_line(b)) },
    Mutation { name: "half a line lost at the end", promise: Told, apply: |b| cut(b, last_line(b) / 2) },
    Mutation { name: "the second half lost", promise: Told, apply: |b| cut(b, b.len() / 2) },
    Mutation { name: "the last third lost", promise: Told, apply: |b| cut(b, b.len() / 3) },
];

/// Cuts bytes off the end, not counting blanks.
fn cut(bytes: &[u8], lost: usize) -> Option<Vec<u8>> {
    let bare = bytes.trim_ascii_end();
    Some(bare[..bare.len().checked_sub(lost)?].to_vec())
}

/// Formats that are not text: any change of lines damages them.
const BINARY: &[&str] = &["sa-binary", "pcp", "perfmon-blg"];

/// Finds what is wrong with the log that was read after a mutation.
fn wrong(original: &LogContent, changed: &LogContent, promise: Promise) -> Option<String> {
    if original.values == changed.values {
        let is_silent = promise == SameAndTold && !changed.tells_more_than(original);
        return is_silent.then(|| "the same values, but the line before was not told".to_owned());
    }
    if promise == SameButTimes && original.in_order() == changed.in_order() {
        return None;
    }
    // the values of a cut file must equal those of the complete one; gaps do not count
    let differs = |(key, value): &(&(String, String, i64), &(u64, u64))| {
        value.0 != u64::MAX && original.values.get(*key).map(|v| v.0) != Some(value.0)
    };
    let other = changed.values.iter().find(differs);
    let is_reported = changed.error.is_some() || changed.tells_more_than(original) || original.is_counted;
    let is_answered = other.is_none() || is_reported;
    if promise == Told && is_answered {
        return None;
    }
    let (had, has) = (original.values.len(), changed.values.len());
    Some(changed.error.clone().unwrap_or_else(|| format!("{had} values became {has}, another one is {other:?}")))
}

/// Reads a file's text as the readers get it: unpacked and converted to UTF-8.
fn text_of(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    LogInput::open(path).ok()?.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn judge(name: &str, bytes: &[u8]) -> Vec<String> {
    let original = content(name, bytes.to_vec());
    let is_binary = BINARY.contains(&original.format);
    if original.error.is_some() {
        return Vec::new();
    }
    let apply_mutation = |mutation: &Mutation| {
        let changed = content(name, (mutation.apply)(bytes)?);
        let promise = if is_binary { Told } else { mutation.promise };
        wrong(&original, &changed, promise).map(|fault| format!("{name}, {}: {fault}", mutation.name))
    };
    MUTATIONS.iter().filter_map(apply_mutation).collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
    found.sort();
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

#[test]
fn a_log_reads_the_same_whatever_stands_before_it() {
    let mut paths = Vec::new();
    files(&fixtures(), &mut paths);
    let mut formats = BTreeSet::new();
    let mut all = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = text_of(&path).unwrap();
        formats.insert(content(&name, bytes.clone()).format);
        all.extend(judge(&name, &bytes));
    }
    assert!(formats.len() >= 8, "only {formats:?} were read");
    assert!(all.is_empty(), "{} of them:\n{}", all.len(), all.join("\n"));
}

/// Largest file of a folder that is tried, bytes.
const LARGEST: u64 = 8 << 20;

#[test]
fn a_folder_of_real_files_does_so_too() {
    let Some(folder) = std::env::var_os("DISKWRIGHT_CORPUS") else { return };
    let mut paths = Vec::new();
    files(Path::new(&folder), &mut paths);
    let mut all = Vec::new();
    for path in paths.iter().filter(|path| path.metadata().is_ok_and(|m| m.len() <= LARGEST)) {
        let Some(bytes) = text_of(path) else { continue };
        all.extend(judge(&path.display().to_string(), &bytes));
    }
    assert!(all.is_empty(), "{} of {} files:\n{}", all.len(), paths.len(), all.join("\n"));
}
