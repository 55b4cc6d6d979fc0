//! What a result says of its circumstances: the device, the machine, the script, what
//! the suite found out, and what became of the profile.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A device and the machine that it was measured in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceFacts {
    /// Kernel name of the block device, of the one below a file too; empty
    /// where there is none (a network filesystem).
    pub name: String,
    /// What it is known again by (see [`diskwright_base::ceiling::keys`]); of a file without a
    /// block device below, what its filesystem is known by. Empty for memory.
    pub key: String,
    /// Model.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Size, bytes.
    pub bytes: Option<u64>,
    /// `rotational`, `flash`, `nvme`, `virtual`, `network`, `memory`, `unknown`.
    pub class: String,
    /// Active I/O scheduler.
    pub scheduler: Option<String>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Requests that the block layer queues at most.
    pub queue_requests: Option<u32>,
    /// Largest request before the block layer splits it, bytes.
    pub max_request_bytes: Option<u64>,
    /// Filesystem of a file: type, where it is mounted, its options.
    pub filesystem: Option<String>,
    /// Mount point.
    pub mount: Option<String>,
    /// Mount options.
    pub options: Option<String>,
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Online processors.
    pub processors: u32,
}

/// Circumstances. What could not be read is missing, never empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeMachine {
    /// Model of the first processor.
    pub processor: Option<String>,
    /// Its frequency governor.
    pub governor: Option<String>,
    /// Physical memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Settings of the device's queue, by the names and in the units of the
    /// kernel's `/sys/block/NAME/queue`: `read_ahead_kb`, `nr_requests`, …
    pub queue: BTreeMap<String, String>,
    /// The cgroup that the probe ran in.
    pub cgroup: Option<String>,
    /// Limits of I/O on that cgroup and those above it, as the kernel prints
    /// them: `/a io.max: 8:0 rbps=1048576`.
    pub io_limits: Vec<String>,
}

/// Whose script it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScriptFormat {
    /// fio's job file.
    Fio,
    /// Response Probe's `.scr`, `.scp` or `.sct`.
    ResponseProbe,
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptFile {
    /// As it was named.
    pub path: String,
    /// What it said.
    pub text: String,
}

/// Something that is not done as the script says, and makes no other load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptNote {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What it is.
    pub text: String,
}

/// What a result keeps of its script: enough to run it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptFacts {
    /// Whose it is.
    pub format: ScriptFormat,
    /// The files and what they say.
    pub files: Vec<ScriptFile>,
    /// What was not done as they say.
    pub notes: Vec<ScriptNote>,
}

/// Something that a suite found out, in words and as a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuiteRemark {
    /// Short name for programs: `knee_bytes`, `rotation_s`.
    pub id: String,
    /// The sentence.
    pub text: String,
    /// The number in it, where there is one.
    pub value: Option<f64>,
    /// Its unit, as the catalogue names units.
    pub unit: Option<String>,
}

impl SuiteRemark {
    /// What stands between the number and the sentence: one that goes on from it needs no colon (`6 of 15 runs`).
    pub fn between(&self) -> &'static str {
        if self.text.starts_with("of ") { " " } else { ": " }
    }
}

/// What a suite is, for people.
#[derive(Clone, Copy, Debug)]
pub struct SuiteText {
    /// Name on the command line.
    pub id: &'static str,
    /// What it measures, in a line.
    pub title: &'static str,
    /// What it shows, and where it is from.
    pub explain: &'static str,
    /// What a good result looks like.
    pub good: &'static str,
}

/// What became of a measurement as the device's profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileUpdate {
    /// Where it is kept; `null` where it is not.
    pub file: Option<String>,
    /// Why it is not kept, or what is to be said of it.
    pub because: Vec<String>,
}

impl ProfileUpdate {
    /// The same for people: a sentence, and what is to be said of it. No sentence where there is nothing to say.
    pub fn words(&self) -> (&'static str, &[String]) {
        let said = match (&self.file, self.because.as_slice()) {
            (Some(_), []) => "Saved as the device profile that `why` uses.",
            (Some(_), _) => "Saved as the device profile that `why` uses:",
            (None, []) => "",
            (None, _) => "Not saved as the device profile:",
        };
        (said, &self.because)
    }
}
