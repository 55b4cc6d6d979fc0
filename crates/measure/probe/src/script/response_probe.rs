//! Parser of Response Probe's scripts, as the documents below describe them: `.scr` names processes,
//! `.scp` the threads of a process, `.sct` the load of a thread. Sources: NT Resource Kit; Windows NT
//! Workstation 4.0 Resource Kit, ch. 11 ("Response Probe"); Blake, "Optimizing Windows NT",
//! appendix C ("Script Files").
//!
//! A thread runs in cycles: it thinks, accesses its file a number of times, and computes. An access
//! in RANDOM mode seeks once and then makes FILEACTION's series of reads and writes from there.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::{
    MAX_JOBS, Script, ScriptFile, ScriptFormat, ScriptJob, ScriptNote, TargetAmount, TransferLimit, script_error,
};
use crate::error::ProbeError;
use crate::pattern::{MixStep, NormalSpread, Pace, Pattern, Placement};

/// Thread parameters with a mean and a deviation.
const PAIR_PARAMETERS: &[&str] =
    &["THINKTIME", "CPUTIME", "CYCLEREADS", "FILESEEK", "DATAPAGE", "CODEPAGE", "FUNCTION"];
/// Thread parameters with one word.
const WORD_PARAMETERS: &[&str] = &["FILEACCESS", "FILEATTRIBUTE", "FILEACCESSMODE", "RECORDSIZE", "FILEACTION"];
/// Longest series of FILEACTION.
const MAX_ACTIONS: usize = 4096;
/// Largest record, bytes.
const MAX_RECORD_BYTES: u32 = 1 << 30;

/// Returns whether this is the first line of a script of any of the three kinds.
pub(super) fn is_script_line(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default().to_uppercase();
    let first = first.as_str();
    matches!(first, "REPEAT" | "PROCESS" | "THREAD")
        || PAIR_PARAMETERS.contains(&first)
        || WORD_PARAMETERS.contains(&first)
}

/// Parses a script of any of the three kinds, and the files that it names.
///
/// # Errors
/// The error gives file, line and item, and the expected input.
pub fn parse(path: &Path, text: &str, read: &dyn Fn(&Path) -> io::Result<String>) -> Result<Script, ProbeError> {
    let mut reader = ResponseProbeReader { read, files: Vec::new(), notes: Vec::new(), jobs: Vec::new() };
    let name = path.display().to_string();
    let has_word =
        |word: &str| numbered_words(text).any(|(_, words)| words.iter().any(|w| w.eq_ignore_ascii_case(word)));
    let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    reader.files.push(ScriptFile { path: name, text: text.to_owned() });
    match extension.as_deref() {
        Some("scr") => reader.read_process_list(path, text)?,
        Some("scp") => reader.read_thread_list(path, text, 1)?,
        Some("sct") => reader.read_thread_script(path, text, 1)?,
        _ if has_word("PROCESS") => reader.read_process_list(path, text)?,
        _ if has_word("THREAD") => reader.read_thread_list(path, text, 1)?,
        _ => reader.read_thread_script(path, text, 1)?,
    }
    let file = path.display().to_string();
    if reader.jobs.is_empty() {
        return Err(script_error(&file, 0, "the script names no thread".into()));
    }
    super::number_duplicate_names(&mut reader.jobs);
    Ok(Script {
        format: ScriptFormat::ResponseProbe,
        files: reader.files,
        rounds: vec![reader.jobs],
        notes: reader.notes,
    })
}

/// Iterates over the lines with content; gives the number and the words of each.
fn numbered_words(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let words = text.lines().enumerate().map(|(index, line)| (index + 1, line.split_whitespace().collect::<Vec<_>>()));
    words.filter(|(_, words)| words.first().is_some_and(|w| !w.starts_with('#')))
}

/// Reader of a script and the files that it names.
struct ResponseProbeReader<'a> {
    read: &'a dyn Fn(&Path) -> io::Result<String>,
    files: Vec<ScriptFile>,
    notes: Vec<ScriptNote>,
    jobs: Vec<ScriptJob>,
}

/// Parses `REPEAT N` at the beginning of a line; returns N (1 without REPEAT) and the remaining words.
fn parse_repeat<'w>(file: &str, line: usize, words: &'w [&'w str]) -> Result<(u32, &'w [&'w str]), ProbeError> {
    if !words[0].eq_ignore_ascii_case("REPEAT") {
        return Ok((1, words));
    }
    let times = words.get(1).and_then(|n| n.parse().ok()).filter(|n| (1..=MAX_JOBS as u32).contains(n));
    match times {
        Some(times) if words.len() > 2 => Ok((times, &words[2..])),
        _ => {
            let because = format!("REPEAT: expected a number from 1 to {MAX_JOBS}, then the line to repeat");
            Err(script_error(file, line, because))
        }
    }
}

impl ResponseProbeReader<'_> {
    fn add_note(&mut self, file: &str, line: usize, text: String) {
        if !self.notes.iter().any(|n| n.file == file && n.line == line && n.text == text) {
            self.notes.push(ScriptNote { file: file.to_owned(), line, text });
        }
    }

    /// Reads a file that a line of the script `script` names, from the folder of that script. The name may
    /// have a DOS path, which is ignored, and any case.
    fn read_named_file(
        &mut self,
        script: &Path,
        line: usize,
        name: &str,
    ) -> Result<(std::path::PathBuf, String), ProbeError> {
        let file_name = name.rsplit('\\').next().unwrap_or(name);
        let folder = script.parent().unwrap_or(Path::new(""));
        let mut error = None;
        for variant in [file_name.to_owned(), file_name.to_lowercase(), file_name.to_uppercase()] {
            let path = folder.join(variant);
            match (self.read)(&path) {
                Ok(text) if text.len() > super::MAX_SCRIPT_BYTES => {
                    error = Some(io::Error::other("too large for a script"))
                }
                Ok(text) => {
                    let source = ScriptFile { path: path.display().to_string(), text: text.clone() };
                    if !self.files.contains(&source) {
                        self.files.push(source);
                    }
                    return Ok((path, text));
                }
                Err(e) => error = error.or(Some(e)),
            }
        }
        let because = error.map(|e| e.to_string()).unwrap_or_default();
        Err(script_error(
            &script.display().to_string(),
            line,
            format!("{name}: {because}; put it in the folder of this file"),
        ))
    }

    /// Reads a `.scr`: `[REPEAT n] PROCESS file.scp DataSize [CodePages] [ProcessName [Priority]]`.
    fn read_process_list(&mut self, path: &Path, text: &str) -> Result<(), ProbeError> {
        let file = path.display().to_string();
        for (line, words) in numbered_words(text) {
            let (times, words) = parse_repeat(&file, line, &words)?;
            if !words[0].eq_ignore_ascii_case("PROCESS") {
                let because = format!("expected `[REPEAT n] PROCESS file.scp DataSize …`, found `{}`", words[0]);
                return Err(script_error(&file, line, because));
            }
            let [_, description, pages, more @ ..] = words else {
                let because = "PROCESS: expected the name of a .scp and a number of data pages";
                return Err(script_error(&file, line, because.into()));
            };
            if pages.parse::<u64>().is_err() || more.len() > 3 {
                let because = format!(
                    "PROCESS: expected `file.scp DataSize [CodePages] [ProcessName [Priority]]`, found `{}`",
                    words[1..].join(" ")
                );
                return Err(script_error(&file, line, because));
            }
            self.add_note(&file, line, "data pages, process name and priority are ignored; they cause no I/O".into());
            let (path, text) = self.read_named_file(path, line, description)?;
            self.read_thread_list(&path, &text, times)?;
        }
        Ok(())
    }

    /// Reads a `.scp`: `[REPEAT n] THREAD file.sct [priority]`.
    fn read_thread_list(&mut self, path: &Path, text: &str, processes: u32) -> Result<(), ProbeError> {
        let file = path.display().to_string();
        if numbered_words(text).next().is_none() {
            return Err(script_error(&file, 0, "the script names no thread".into()));
        }
        for (line, words) in numbered_words(text) {
            let (times, words) = parse_repeat(&file, line, &words)?;
            if !words[0].eq_ignore_ascii_case("THREAD") || !(2..=3).contains(&words.len()) {
                let because = format!("expected `[REPEAT n] THREAD file.sct [priority]`, found `{}`", words.join(" "));
                return Err(script_error(&file, line, because));
            }
            if words.len() == 3 {
                self.add_note(
                    &file,
                    line,
                    format!("priority {} is ignored; all threads have the same priority", words[2]),
                );
            }
            let (path, text) = self.read_named_file(path, line, words[1])?;
            self.read_thread_script(&path, &text, times.saturating_mul(processes))?;
        }
        Ok(())
    }

    /// Reads a `.sct`, run by `times` threads.
    fn read_thread_script(&mut self, path: &Path, text: &str, times: u32) -> Result<(), ProbeError> {
        let file = path.display().to_string();
        if self.jobs.len() + times as usize > MAX_JOBS {
            return Err(script_error(&file, 0, format!("more than {MAX_JOBS} threads in all")));
        }
        let mut thread = ThreadScript { file: &file, ..ThreadScript::default() };
        for (line, words) in numbered_words(text) {
            if let Some(note) = thread.parse_line(line, &words)? {
                self.add_note(&file, line, note);
            }
        }
        let name = path.file_stem().map_or("thread".into(), |s| s.to_string_lossy().into_owned());
        let (job, notes) = thread.into_job(&name)?;
        for (line, text) in notes {
            self.add_note(&file, line, text);
        }
        for _ in 0..times {
            let mut thread_job = job.clone();
            thread_job.pattern.seed = self.jobs.len() as u64;
            thread_job.group = (times > 1).then(|| name.clone());
            self.jobs.push(thread_job);
        }
        Ok(())
    }
}

/// Parameters of a `.sct` so far, some with their line.
#[derive(Default)]
struct ThreadScript<'a> {
    file: &'a str,
    /// Parameters with a mean and a deviation.
    pairs: Vec<(&'static str, NormalSpread)>,
    access: Option<(usize, String)>,
    random: Option<bool>,
    buffered: Option<bool>,
    record_bytes: Option<(usize, u32)>,
    actions: Vec<MixStep>,
    /// Parameters that were given.
    seen: Vec<&'static str>,
}

impl ThreadScript<'_> {
    fn error_at(&self, line: usize, because: String) -> ProbeError {
        script_error(self.file, line, because)
    }

    /// Parses a line; returns a note about it, if any.
    fn parse_line(&mut self, line: usize, words: &[&str]) -> Result<Option<String>, ProbeError> {
        let key = words[0].to_uppercase();
        let Some(&key) = PAIR_PARAMETERS.iter().chain(WORD_PARAMETERS).find(|k| **k == key) else {
            let known = [PAIR_PARAMETERS, WORD_PARAMETERS].concat().join(", ");
            return Err(self.error_at(line, format!("`{}` is not a parameter of a thread; expected {known}", words[0])));
        };
        if self.seen.contains(&key) {
            return Err(self.error_at(line, format!("{key} is given twice")));
        }
        self.seen.push(key);
        if PAIR_PARAMETERS.contains(&key) {
            return self.parse_pair(line, key, &words[1..]);
        }
        let [_, word] = words else {
            return Err(self.error_at(line, format!("{key}: expected one word, found {}", words.len() - 1)));
        };
        self.parse_word(line, key, word)
    }

    fn parse_pair(&mut self, line: usize, key: &'static str, words: &[&str]) -> Result<Option<String>, ProbeError> {
        let number = |word: &str| word.parse::<f64>().ok().filter(|n| (0.0..=1e12).contains(n));
        let pair = match words {
            [mean, deviation] => number(mean).zip(number(deviation)),
            _ => None,
        };
        let Some((mean, deviation)) = pair else {
            let because = format!("{key}: expected a mean and a standard deviation, two numbers of at least 0");
            return Err(self.error_at(line, because));
        };
        self.pairs.push((key, NormalSpread { mean, deviation }));
        let is_memory = matches!(key, "DATAPAGE" | "CODEPAGE" | "FUNCTION");
        Ok(is_memory.then(|| format!("{key} is ignored; memory accesses cause no I/O")))
    }

    fn parse_word(&mut self, line: usize, key: &'static str, word: &str) -> Result<Option<String>, ProbeError> {
        let upper = word.to_uppercase();
        match (key, upper.as_str()) {
            ("FILEACCESS", _) => {
                let last = word.rsplit('\\').next().unwrap_or(word);
                if last.is_empty() || last.contains('\0') {
                    return Err(self.error_at(line, format!("FILEACCESS: `{word}` does not name a file")));
                }
                self.access = Some((line, last.to_owned()));
                return Ok((last != word).then(|| format!("FILEACCESS: `{last}` in this folder replaces `{word}`")));
            }
            ("FILEATTRIBUTE", "RANDOM") => self.random = Some(true),
            ("FILEATTRIBUTE", "SEQUENTIAL") => self.random = Some(false),
            ("FILEATTRIBUTE", _) => {
                return Err(
                    self.error_at(line, format!("FILEATTRIBUTE: expected RANDOM or SEQUENTIAL, found `{word}`"))
                );
            }
            ("FILEACCESSMODE", "BUFFER" | "BUFFERED") => self.buffered = Some(true),
            ("FILEACCESSMODE", "UNBUFFER" | "UNBUFFERED") => self.buffered = Some(false),
            ("FILEACCESSMODE", "MAPPED" | "MAP") => {
                let because = "FILEACCESSMODE MAPPED reads by page faults, which the probe does not support; use \
                               BUFFER (through the cache) or UNBUFFER (past it)";
                return Err(self.error_at(line, because.into()));
            }
            ("FILEACCESSMODE", _) => {
                let because = format!("FILEACCESSMODE: expected BUFFER or UNBUFFER, found `{word}`");
                return Err(self.error_at(line, because));
            }
            ("RECORDSIZE", _) => {
                let Some(bytes) = word.parse().ok().filter(|b| (1..=MAX_RECORD_BYTES).contains(b)) else {
                    let because = format!("RECORDSIZE: expected 1 to {MAX_RECORD_BYTES} bytes, found `{word}`");
                    return Err(self.error_at(line, because));
                };
                self.record_bytes = Some((line, bytes));
            }
            _ => {
                let step = |c| match c {
                    'R' => Some(MixStep::Read),
                    'W' => Some(MixStep::Write),
                    _ => None,
                };
                let steps: Option<Vec<MixStep>> = upper.chars().map(step).collect();
                let because = || format!("FILEACTION: expected letters R and W, such as RRW, found `{word}`");
                self.actions = steps
                    .filter(|steps| !steps.is_empty() && steps.len() <= MAX_ACTIONS)
                    .ok_or_else(|| self.error_at(line, because()))?;
            }
        }
        Ok(None)
    }

    fn pair_value(&self, key: &str) -> Option<NormalSpread> {
        self.pairs.iter().find(|(k, _)| *k == key).map(|(_, spread)| *spread)
    }

    /// Returns the thread as a job, and notes.
    fn into_job(self, name: &str) -> Result<(ScriptJob, Vec<(usize, String)>), ProbeError> {
        let missing = |key: &str| script_error(self.file, 0, format!("{key} is missing"));
        let (line, access) = self.access.clone().ok_or_else(|| missing("FILEACCESS"))?;
        let random = self.random.ok_or_else(|| missing("FILEATTRIBUTE"))?;
        let buffered = self.buffered.ok_or_else(|| missing("FILEACCESSMODE"))?;
        let (record_line, record) = self.record_bytes.ok_or_else(|| missing("RECORDSIZE"))?;
        if self.actions.is_empty() {
            return Err(missing("FILEACTION"));
        }
        let mut notes = Vec::new();
        let pace = self.build_pace(&mut notes)?;
        let seek_records = match (random, self.pair_value("FILESEEK")) {
            (true, None) => return Err(missing("FILESEEK, which RANDOM needs,")),
            (true, seek) => seek,
            (false, _) => None,
        };
        // FILESEEK's mean is the middle of a RANDOM file
        let file_bytes = seek_records.map(|s| (s.mean * 2.0 * f64::from(record)) as u64).filter(|bytes| *bytes > 0);
        if let Some(bytes) = file_bytes {
            let text = format!("FILEACCESS: a missing file is created with {bytes} bytes, twice FILESEEK's mean");
            notes.push((line, text));
        }
        let series = self.actions.len();
        let reads = self.actions.iter().filter(|t| **t == MixStep::Read).count();
        let pattern = Pattern {
            name: name.to_owned(),
            // for RANDOM, `seek_records` replaces it
            placement: Placement::Sequential { streams: 1 },
            pace,
            read_share: reads as f64 / series as f64,
            read_write_order: self.actions.clone(),
            run_requests: if random { series as u32 } else { 1 },
            buffered,
            ..Pattern::random_reads(record, 1)
        };
        let job = ScriptJob {
            name: name.to_owned(),
            group: None,
            file: access,
            file_bytes,
            pattern,
            range_start: TargetAmount::Bytes(0),
            range_length: None,
            seek_records,
            limit: TransferLimit::None,
            start_delay: Duration::ZERO,
            duration: None,
            line: record_line,
        };
        Ok((job, notes))
    }

    /// Returns the thread's cycles as a pace.
    fn build_pace(&self, notes: &mut Vec<(usize, String)>) -> Result<Pace, ProbeError> {
        let mut value_or = |key: &str, spread: NormalSpread| {
            self.pair_value(key).unwrap_or_else(|| {
                notes.push((0, format!("{key} is missing; using {} {}", spread.mean, spread.deviation)));
                spread
            })
        };
        let reads = value_or("CYCLEREADS", NormalSpread::fixed(1.0));
        let (think, compute) =
            (value_or("THINKTIME", NormalSpread::default()), value_or("CPUTIME", NormalSpread::default()));
        let is_zero = |s: NormalSpread| s.mean == 0.0 && s.deviation == 0.0;
        if is_zero(reads) {
            let because = "CYCLEREADS 0 0: a thread without requests cannot be measured";
            return Err(script_error(self.file, 0, because.into()));
        }
        if is_zero(think) && is_zero(compute) {
            return Ok(Pace::Closed { depth: 1 });
        }
        let scaled =
            |s: NormalSpread, factor: f64| NormalSpread { mean: s.mean * factor, deviation: s.deviation * factor };
        Ok(Pace::Cycles {
            users: 1,
            // scripts give times in milliseconds
            think_s: scaled(think, 1e-3),
            requests: scaled(reads, self.actions.len() as f64),
            compute_s: scaled(compute, 1e-3),
        })
    }
}
