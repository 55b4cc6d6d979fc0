//! Scripts of other tools as runs of ours: Response Probe's thread and process
//! files, and the common core of fio's job files. What a script asks for is
//! done, or refused with file and line; what makes no difference to the load
//! is noted. docs/probe-scripts.md has every keyword.

pub mod fio;
pub mod response_probe;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::ProbeError;
use crate::facts::{ScriptFacts, ScriptFile, ScriptFormat, ScriptNote};
use crate::pattern::{NormalSpread, Pattern, Placement};

/// Largest script, bytes.
pub const MOST_BYTES: usize = 1 << 20;
/// Most jobs of a script: each is a thread.
pub const MOST_JOBS: usize = 512;
/// What a run lasts whose end is that all was asked for.
const NO_END: Duration = Duration::from_secs(100 * 86_400);

/// A part of a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TargetAmount {
    /// Bytes.
    Bytes(u64),
    /// A share of the target.
    Share(f64),
}

impl TargetAmount {
    /// Bytes of a target of so many.
    fn of(self, room: u64) -> u64 {
        match self {
            TargetAmount::Bytes(bytes) => bytes,
            TargetAmount::Share(share) => (room as f64 * share) as u64,
        }
    }
}

/// When a job has asked for enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Total {
    /// Never: time ends it.
    None,
    /// So many times its range.
    Passes(u64),
    /// So many bytes.
    Bytes(u64),
}

/// One job: what a thread of the script does.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptJob {
    /// Its name in the results.
    pub name: String,
    /// Jobs with the same group are one line in the results.
    pub group: Option<String>,
    /// The file it works on.
    pub file: String,
    /// Size of that file where it has to be made, bytes.
    pub file_bytes: Option<u64>,
    /// What it asks; its range and its end come from the fields below.
    pub pattern: Pattern,
    /// Where its range begins.
    pub from: TargetAmount,
    /// How long its range is; up to the end otherwise.
    pub range: Option<TargetAmount>,
    /// Response Probe's FILESEEK, records: a random place around one.
    pub seek_records: Option<NormalSpread>,
    /// When it has asked for enough.
    pub total: Total,
    /// Time from the start of its round to its own.
    pub after: Duration,
    /// Time it lasts; what the user says otherwise.
    pub lasts: Option<Duration>,
    /// Where it stands.
    pub line: usize,
}

/// What the user says about times and seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptOptions {
    /// `--for`: instead of what the script says.
    pub lasts: Option<Duration>,
    /// `--ramp`: likewise.
    pub ramp: Option<Duration>,
    /// Time of a run of which neither says it.
    pub usual: Duration,
    /// `--seed`, taken together with the script's own.
    pub seed: u64,
}

/// A file or device that a script needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptTarget {
    /// Where it is.
    pub path: PathBuf,
    /// A job writes to it.
    pub writes: bool,
    /// Size that it has to have; `None` where no job says.
    pub bytes: Option<u64>,
    /// Every job goes through the page cache.
    pub buffered: bool,
}

impl ScriptJob {
    /// The file or device it works on; see [`Script::wanted`].
    pub fn path(&self, instead: Option<&Path>) -> PathBuf {
        let own = Path::new(&self.file);
        match instead {
            Some(folder) if folder.is_dir() => folder.join(own.file_name().unwrap_or(own.as_os_str())),
            Some(target) => target.to_owned(),
            None => own.to_owned(),
        }
    }

    /// The job's pattern on a target of so many bytes.
    pub fn on(&self, room: u64, wishes: &ScriptOptions) -> Pattern {
        let mut pattern = self.pattern.clone();
        let all = pattern.sizes.iter().chain(&pattern.write_sizes);
        let smallest = all.map(|size| u64::from(size.0)).min().unwrap_or(1).max(1);
        pattern.from_bytes = match self.from {
            TargetAmount::Bytes(bytes) => bytes,
            // fio begins a share at a multiple of the smallest block
            TargetAmount::Share(_) => self.from.of(room) / smallest * smallest,
        };
        let rest = room.saturating_sub(pattern.from_bytes);
        let range = self.range.map_or(rest, |range| range.of(room));
        pattern.range_bytes = Some(range);
        if let Some(seek) = self.seek_records {
            let records = (range / u64::from(pattern.largest()).max(1)).max(1) as f64;
            // Response Probe's bell is this much wider than the deviation it is given
            let wider = (14.0f64 / 12.0).sqrt();
            let (mean, deviation) = (seek.mean / records, seek.deviation * wider / records);
            pattern.placement = Placement::Normal { mean: mean.clamp(0.0, 1.0), deviation };
        }
        let (lasts, total) = match (wishes.lasts, self.lasts, self.total) {
            (Some(lasts), ..) => (lasts, Total::None),
            (None, Some(lasts), total) => (lasts, total),
            (None, None, Total::None) => (wishes.usual, Total::None),
            (None, None, total) => (NO_END, total),
        };
        pattern.lasts = lasts;
        pattern.most_bytes = match total {
            Total::None => None,
            Total::Passes(passes) => Some(range.saturating_mul(passes)),
            Total::Bytes(bytes) => Some(bytes),
        };
        pattern.ramp = wishes.ramp.unwrap_or(pattern.ramp);
        // the seed of every job is another, and `--seed` makes all of them others
        pattern.seed = pattern.seed.wrapping_add(wishes.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        pattern
    }

    /// Bytes that its file has to have; `None` where the script does not say.
    pub fn needs(&self) -> Option<u64> {
        let TargetAmount::Bytes(from) = self.from else { return self.file_bytes };
        match (self.file_bytes, self.range) {
            (Some(bytes), _) => Some(bytes),
            (None, Some(TargetAmount::Bytes(range))) => from.checked_add(range),
            (None, _) => None,
        }
    }
}

/// A script that was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Whose.
    pub format: ScriptFormat,
    /// Its files, the first being the one that was named.
    pub files: Vec<ScriptFile>,
    /// Jobs that run at the same time, round by round.
    pub rounds: Vec<Vec<ScriptJob>>,
    /// What is not done as it says.
    pub notes: Vec<ScriptNote>,
}

/// What a script can ask its surroundings for.
pub struct ScriptEnvironment<'a> {
    /// Text of a file that it names.
    pub read: &'a dyn Fn(&Path) -> std::io::Result<String>,
    /// A variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Script {
    /// Understands a script, by its name's ending or by what it says.
    ///
    /// # Errors
    /// With file, line and item, and what would be right.
    pub fn parse(path: &Path, text: &str, around: &ScriptEnvironment<'_>) -> Result<Script, ProbeError> {
        let file = path.display().to_string();
        if text.len() > MOST_BYTES {
            return Err(wrong(&file, 0, format!("the file is larger than {MOST_BYTES} bytes, the limit for a script")));
        }
        match format(path, text) {
            Some(ScriptFormat::Fio) => fio::parse(&file, text, around.variable),
            Some(ScriptFormat::ResponseProbe) => response_probe::parse(path, text, around.read),
            None => {
                let because = "not a known script: its first line is neither a fio `[section]` nor a word of \
                               Response Probe (THREAD, PROCESS or a parameter such as FILEACCESS)";
                Err(wrong(&file, 0, because.into()))
            }
        }
    }

    /// What a result keeps of it.
    pub fn facts(&self) -> ScriptFacts {
        ScriptFacts { format: self.format, files: self.files.clone(), notes: self.notes.clone() }
    }

    /// The files and devices that its jobs work on, in the order in which they
    /// are named; `instead` is a file or device for all of them, or a folder
    /// for their files.
    pub fn wanted(&self, instead: Option<&Path>) -> Vec<ScriptTarget> {
        let mut all: Vec<ScriptTarget> = Vec::new();
        for job in self.jobs() {
            let path = job.path(instead);
            let index = all.iter().position(|w| w.path == path).unwrap_or_else(|| {
                all.push(ScriptTarget { path, writes: false, bytes: None, buffered: true });
                all.len() - 1
            });
            let wanted = &mut all[index];
            wanted.writes |= job.pattern.writes();
            wanted.buffered &= job.pattern.buffered;
            // a job that wants a share of the file, or all of it, takes what the others make
            wanted.bytes = wanted.bytes.max(job.needs());
        }
        all
    }

    /// All jobs of all rounds.
    pub fn jobs(&self) -> impl Iterator<Item = &ScriptJob> {
        self.rounds.iter().flatten()
    }
}

/// An error at a line of a script; line 0 is the file as a whole.
pub(crate) fn wrong(file: &str, line: usize, because: String) -> ProbeError {
    ProbeError::Script { file: file.to_owned(), line, because }
}

/// Which format a script has.
fn format(path: &Path, text: &str) -> Option<ScriptFormat> {
    match path.extension().map(|e| e.to_string_lossy().to_lowercase()).as_deref() {
        Some("fio" | "ini" | "job") => return Some(ScriptFormat::Fio),
        Some("sct" | "scp" | "scr") => return Some(ScriptFormat::ResponseProbe),
        _ => {}
    }
    let said = |line: &&str| !line.is_empty() && !line.starts_with(['#', ';']);
    let first = text.lines().map(str::trim).find(said)?;
    if first.starts_with('[') {
        return Some(ScriptFormat::Fio);
    }
    response_probe::begins(first).then_some(ScriptFormat::ResponseProbe)
}

/// Gives jobs of one name numbers.
fn unique(jobs: &mut [ScriptJob]) {
    let names: Vec<String> = jobs.iter().map(|j| j.name.clone()).collect();
    for (index, job) in jobs.iter_mut().enumerate() {
        if names.iter().filter(|n| **n == names[index]).count() > 1 {
            let number = names[..=index].iter().filter(|n| **n == names[index]).count();
            job.name = format!("{}-{number}", names[index]);
        }
        job.pattern.name.clone_from(&job.name);
    }
}
