//! Circumstances in a result: the device, the machine, the script, the findings
//! of the suite, and the profile.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A device and the machine in which it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceFacts {
    /// Kernel name of the block device, or of the one below a file; empty
    /// if there is none (a network filesystem).
    pub name: String,
    /// Key by which it is recognized (see [`diskwright_base::ceiling::keys`]); for a file without a
    /// block device below, the key of its filesystem. Empty for memory.
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
    /// Largest number of requests that the block layer queues.
    pub queue_requests: Option<u32>,
    /// Largest request before the block layer splits it, bytes.
    pub max_request_bytes: Option<u64>,
    /// Type of the filesystem of a file.
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

/// Circumstances of the machine. Unreadable values are missing, never empty.
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

/// Format of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScriptFormat {
    /// fio's job file.
    Fio,
    /// Response Probe's `.scr`, `.scp` or `.sct`.
    ResponseProbe,
}

/// A script file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptFile {
    /// Path as the user named it.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// A setting of the script that is not applied, without effect on the load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptNote {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// Description.
    pub text: String,
}

/// The script in a result: enough to run it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptFacts {
    /// Format of the script.
    pub format: ScriptFormat,
    /// The files with their content.
    pub files: Vec<ScriptFile>,
    /// Settings that were not applied.
    pub notes: Vec<ScriptNote>,
}

/// A finding of a suite, as a sentence and as a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuiteRemark {
    /// Short name for programs: `knee_bytes`, `rotation_s`.
    pub id: String,
    /// Sentence for users.
    pub text: String,
    /// The number in it, if there is one.
    pub value: Option<f64>,
    /// Its unit, by its name in the catalogue.
    pub unit: Option<String>,
}

impl SuiteRemark {
    /// Returns the separator between the number and the sentence. A sentence that continues the number needs no colon
    /// (`6 of 15 runs`).
    pub fn separator(&self) -> &'static str {
        if self.text.starts_with("of ") { " " } else { ": " }
    }
}

/// Description of a suite for users.
#[derive(Clone, Copy, Debug)]
pub struct SuiteText {
    /// Name on the command line.
    pub id: &'static str,
    /// Measured quantity, in one line.
    pub title: &'static str,
    /// Explanation and origin.
    pub explain: &'static str,
    /// Description of a good result.
    pub good_result: &'static str,
}

/// Result of storing a measurement as the device's profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileUpdate {
    /// File in which it is stored; `null` if it is not.
    pub file: Option<String>,
    /// Reasons why it is not stored, or remarks about it.
    #[serde(rename = "because")]
    pub remarks: Vec<String>,
}

impl ProfileUpdate {
    /// Returns a sentence for users and the remarks; an empty sentence if there is nothing to report.
    pub fn describe_update(&self) -> (&'static str, &[String]) {
        let text = match (&self.file, self.remarks.as_slice()) {
            (Some(_), []) => "Saved as the device profile that `why` uses.",
            (Some(_), _) => "Saved as the device profile that `why` uses:",
            (None, []) => "",
            (None, _) => "Not saved as the device profile:",
        };
        (text, &self.remarks)
    }
}
