//! Scripts of other tools: Response Probe's process and thread files, and the common core of fio's job
//! files. Each setting is applied, noted if it does not affect the load, or refused with file and line.
//! docs/probe-scripts.md lists every keyword.

pub mod fio;
pub mod response_probe;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::ProbeError;
use crate::facts::{ScriptFacts, ScriptFile, ScriptFormat, ScriptNote};
use crate::pattern::{NormalSpread, Pattern, Placement};

/// Largest script, bytes.
pub const MAX_SCRIPT_BYTES: usize = 1 << 20;
/// Largest number of jobs of a script: each is a thread.
pub const MAX_JOBS: usize = 512;
/// Time limit of a run that ends by its amount of data.
const UNLIMITED_DURATION: Duration = Duration::from_secs(100 * 86_400);

/// A part of a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TargetAmount {
    /// Bytes.
    Bytes(u64),
    /// A share of the target.
    Share(f64),
}

impl TargetAmount {
    /// Converts to bytes on a target of `target_bytes`.
    fn to_bytes_of(self, target_bytes: u64) -> u64 {
        match self {
            TargetAmount::Bytes(bytes) => bytes,
            TargetAmount::Share(share) => (target_bytes as f64 * share) as u64,
        }
    }
}

/// Amount of data after which a job ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TransferLimit {
    /// No limit: the job ends by time.
    None,
    /// A number of passes over its range.
    Passes(u64),
    /// A number of bytes.
    Bytes(u64),
}

/// A job: the load of one thread of the script.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptJob {
    /// Its name in the results.
    pub name: String,
    /// Name under which the jobs of a group are one line in the results.
    pub group: Option<String>,
    /// Path of its file.
    pub file: String,
    /// Size of that file if it must be created, bytes.
    pub file_bytes: Option<u64>,
    /// Its requests, without the range and limits, which the fields below give.
    pub pattern: Pattern,
    /// Start of its range.
    pub range_start: TargetAmount,
    /// Length of its range; up to the end of the target if `None`.
    pub range_length: Option<TargetAmount>,
    /// Response Probe's FILESEEK: mean and deviation of the random record from which accesses start.
    pub seek_records: Option<NormalSpread>,
    /// Amount of data after which it ends.
    pub limit: TransferLimit,
    /// Delay from the start of its round to its own start.
    pub start_delay: Duration,
    /// Duration; the user's setting if `None`.
    pub duration: Option<Duration>,
    /// Line in the script.
    pub line: usize,
}

/// The user's settings for times and seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptOptions {
    /// `--for`: overrides the duration of the script.
    pub duration: Option<Duration>,
    /// `--ramp`: overrides the ramp of the script.
    pub ramp: Option<Duration>,
    /// Duration of a run if neither the user nor the script gives one.
    pub default_duration: Duration,
    /// `--seed`, combined with the script's own seeds.
    pub seed: u64,
}

/// A file or device that a script needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptTarget {
    /// Path.
    pub path: PathBuf,
    /// A job writes to it.
    pub writes: bool,
    /// Required size, bytes; `None` if no job gives one.
    pub bytes: Option<u64>,
    /// Every job goes through the page cache.
    pub buffered: bool,
}

impl ScriptJob {
    /// Returns its file or device; see [`Script::required_targets`].
    pub fn path(&self, instead: Option<&Path>) -> PathBuf {
        let file = Path::new(&self.file);
        match instead {
            Some(folder) if folder.is_dir() => folder.join(file.file_name().unwrap_or(file.as_os_str())),
            Some(target) => target.to_owned(),
            None => file.to_owned(),
        }
    }

    /// Returns the job's pattern on a target of `target_bytes`.
    pub fn pattern_on_target(&self, target_bytes: u64, options: &ScriptOptions) -> Pattern {
        let mut pattern = self.pattern.clone();
        let sizes = pattern.sizes.iter().chain(&pattern.write_sizes);
        let smallest = sizes.map(|size| u64::from(size.0)).min().unwrap_or(1).max(1);
        pattern.from_bytes = match self.range_start {
            TargetAmount::Bytes(bytes) => bytes,
            // fio starts a share at a multiple of the smallest block
            TargetAmount::Share(_) => self.range_start.to_bytes_of(target_bytes) / smallest * smallest,
        };
        let up_to_end = target_bytes.saturating_sub(pattern.from_bytes);
        let range = self.range_length.map_or(up_to_end, |range| range.to_bytes_of(target_bytes));
        pattern.range_bytes = Some(range);
        if let Some(seek) = self.seek_records {
            let records = (range / u64::from(pattern.max_request_bytes()).max(1)).max(1) as f64;
            // factor by which Response Probe's deviation exceeds the given one; see `draw_bell_curve`
            let widening = (14.0f64 / 12.0).sqrt();
            let (mean, deviation) = (seek.mean / records, seek.deviation * widening / records);
            pattern.placement = Placement::Normal { mean: mean.clamp(0.0, 1.0), deviation };
        }
        let (duration, limit) = match (options.duration, self.duration, self.limit) {
            (Some(duration), ..) => (duration, TransferLimit::None),
            (None, Some(duration), limit) => (duration, limit),
            (None, None, TransferLimit::None) => (options.default_duration, TransferLimit::None),
            (None, None, limit) => (UNLIMITED_DURATION, limit),
        };
        pattern.duration = duration;
        pattern.max_bytes = match limit {
            TransferLimit::None => None,
            TransferLimit::Passes(passes) => Some(range.saturating_mul(passes)),
            TransferLimit::Bytes(bytes) => Some(bytes),
        };
        pattern.ramp = options.ramp.unwrap_or(pattern.ramp);
        // every job has its own seed, and `--seed` changes all of them
        pattern.seed = pattern.seed.wrapping_add(options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        pattern
    }

    /// Returns the size that its file must have, bytes; `None` if the script does not say.
    pub fn required_file_bytes(&self) -> Option<u64> {
        let TargetAmount::Bytes(from) = self.range_start else { return self.file_bytes };
        match (self.file_bytes, self.range_length) {
            (Some(bytes), _) => Some(bytes),
            (None, Some(TargetAmount::Bytes(range))) => from.checked_add(range),
            (None, _) => None,
        }
    }
}

/// A parsed script.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Format.
    pub format: ScriptFormat,
    /// Its files; the first is the one that the user named.
    pub files: Vec<ScriptFile>,
    /// Jobs that run at the same time, round by round.
    pub rounds: Vec<Vec<ScriptJob>>,
    /// Settings that are not applied.
    pub notes: Vec<ScriptNote>,
}

/// Access of a script to files and environment variables.
pub struct ScriptEnvironment<'a> {
    /// Reads the text of a file that it names.
    pub read_file: &'a dyn Fn(&Path) -> std::io::Result<String>,
    /// Looks up an environment variable.
    pub env_variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Script {
    /// Parses a script; its format follows from its file name extension or its content.
    ///
    /// # Errors
    /// The error gives file, line and item, and the expected input.
    pub fn parse(path: &Path, text: &str, environment: &ScriptEnvironment<'_>) -> Result<Script, ProbeError> {
        let file = path.display().to_string();
        if text.len() > MAX_SCRIPT_BYTES {
            return Err(script_error(
                &file,
                0,
                format!("the file is larger than {MAX_SCRIPT_BYTES} bytes, the limit for a script"),
            ));
        }
        match detect_format(path, text) {
            Some(ScriptFormat::Fio) => fio::parse(&file, text, environment.env_variable),
            Some(ScriptFormat::ResponseProbe) => response_probe::parse(path, text, environment.read_file),
            None => {
                let because = "not a known script: its first line is neither a fio `[section]` nor a word of \
                               Response Probe (THREAD, PROCESS or a parameter such as FILEACCESS)";
                Err(script_error(&file, 0, because.into()))
            }
        }
    }

    /// Returns the part that is kept in the result.
    pub fn facts(&self) -> ScriptFacts {
        ScriptFacts { format: self.format, files: self.files.clone(), notes: self.notes.clone() }
    }

    /// Returns the files and devices of its jobs, in the order in which they are named. `instead`
    /// is a file or device for all of them, or a folder for their files.
    pub fn required_targets(&self, instead: Option<&Path>) -> Vec<ScriptTarget> {
        let mut targets: Vec<ScriptTarget> = Vec::new();
        for job in self.jobs() {
            let path = job.path(instead);
            let index = targets.iter().position(|w| w.path == path).unwrap_or_else(|| {
                targets.push(ScriptTarget { path, writes: false, bytes: None, buffered: true });
                targets.len() - 1
            });
            let target = &mut targets[index];
            target.writes |= job.pattern.has_writes();
            target.buffered &= job.pattern.buffered;
            // a job that uses a share of the file, or all of it, takes the size that other jobs require
            target.bytes = target.bytes.max(job.required_file_bytes());
        }
        targets
    }

    /// Iterates over all jobs of all rounds.
    pub fn jobs(&self) -> impl Iterator<Item = &ScriptJob> {
        self.rounds.iter().flatten()
    }
}

/// Creates an error at a line of a script; line 0 stands for the whole file.
pub(crate) fn script_error(file: &str, line: usize, because: String) -> ProbeError {
    ProbeError::Script { file: file.to_owned(), line, because }
}

/// Detects the format of a script.
fn detect_format(path: &Path, text: &str) -> Option<ScriptFormat> {
    match path.extension().map(|e| e.to_string_lossy().to_lowercase()).as_deref() {
        Some("fio" | "ini" | "job") => return Some(ScriptFormat::Fio),
        Some("sct" | "scp" | "scr") => return Some(ScriptFormat::ResponseProbe),
        _ => {}
    }
    let is_content = |line: &&str| !line.is_empty() && !line.starts_with(['#', ';']);
    let first = text.lines().map(str::trim).find(is_content)?;
    if first.starts_with('[') {
        return Some(ScriptFormat::Fio);
    }
    response_probe::is_script_line(first).then_some(ScriptFormat::ResponseProbe)
}

/// Appends a number to the names of jobs that have the same name.
fn number_duplicate_names(jobs: &mut [ScriptJob]) {
    let names: Vec<String> = jobs.iter().map(|j| j.name.clone()).collect();
    for (index, job) in jobs.iter_mut().enumerate() {
        if names.iter().filter(|n| **n == names[index]).count() > 1 {
            let number = names[..=index].iter().filter(|n| **n == names[index]).count();
            job.name = format!("{}-{number}", names[index]);
        }
        job.pattern.name.clone_from(&job.name);
    }
}
