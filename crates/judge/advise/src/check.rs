//! The table of checks: what is looked at, what is good, why, and how to change it. All of it is
//! data in `data/*.toml`; what a limit cannot say is a function of the same id in `judges`.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::role::ServerRole;
use crate::tree::first_number;

/// How bad it is to leave it as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AdviceSeverity {
    /// Good to know.
    Info,
    /// Could be better.
    Notice,
    /// Costs speed or blinds whoever looks for the cause.
    Warning,
    /// Data or the service are at risk.
    Critical,
}

/// How far a change can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeRisk {
    /// Undone in a moment.
    Low,
    /// Can cost speed, memory or power elsewhere.
    Medium,
    /// Can cost data or an outage.
    High,
}

/// What a check is about; it is made once for each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckObject {
    /// The whole host.
    Host,
    /// A disk that is no array, loop device or memory.
    Disk,
    /// A partition of one.
    Partition,
    /// An array of md.
    Md,
    /// A device of the device mapper.
    Mapped,
    /// A mounted local filesystem.
    Filesystem,
    /// A control group.
    Cgroup,
}

/// What a file's value is held against, where that is all.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckLimit {
    /// Exactly this number.
    Equals(String),
    /// One of these; anything but them and `others` is not understood.
    OneOf(Vec<String>),
    /// This number or more.
    AtLeast(f64),
    /// This number or less.
    AtMost(f64),
}

/// A check.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCheck {
    /// `queue.scheduler`.
    pub id: String,
    /// What it is made for.
    pub object: CheckObject,
    /// What is looked at.
    pub what: String,
    /// The good value, in words.
    pub good: String,
    /// Why.
    pub reason: String,
    /// Where that is from.
    pub source: String,
    /// How bad the other case is, where the check does not say otherwise.
    pub severity: AdviceSeverity,
    /// How risky the change is.
    pub risk: ChangeRisk,
    /// What can go wrong.
    pub risk_text: String,
    /// The file that is judged, where a limit says all.
    #[serde(default)]
    pub(crate) file: Option<String>,
    #[serde(default)]
    pub(crate) limit: Option<CheckLimit>,
    /// The other words that the kernel writes there, where the limit is one of some words.
    #[serde(default)]
    pub(crate) others: Vec<String>,
    /// What is written where a limit is broken.
    #[serde(default)]
    pub(crate) value: Option<String>,
    /// The file that is written, below the root.
    #[serde(default)]
    pub knob: Option<String>,
    /// What to do where no file is written: a command with `{instance}`, or an instruction.
    #[serde(default)]
    pub apply: Option<String>,
    /// How to take that back.
    #[serde(default)]
    pub undo: Option<String>,
    /// How `compare` proves it.
    pub verify: String,
    /// Whose role it is for; all, where empty.
    #[serde(default)]
    pub roles: Vec<ServerRole>,
    /// May be applied by `--apply`: it is undone by one write, and costs neither data nor an outage.
    #[serde(default)]
    pub harmless: bool,
    /// What would reach it where it cannot be read.
    pub reach: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChecksFile {
    check: Vec<HostCheck>,
}

/// The files of the table.
const FILES: &[(&str, &str)] = &[
    ("queue.toml", include_str!("data/queue.toml")),
    ("memory.toml", include_str!("data/memory.toml")),
    ("host.toml", include_str!("data/host.toml")),
    ("link.toml", include_str!("data/link.toml")),
    ("limits.toml", include_str!("data/limits.toml")),
    ("devices.toml", include_str!("data/devices.toml")),
    ("health.toml", include_str!("data/health.toml")),
];

/// All checks, in the order of the files.
pub static CHECKS: LazyLock<Vec<HostCheck>> = LazyLock::new(|| {
    let read = |(name, text): &(&str, &str)| -> Vec<HostCheck> {
        let file: ChecksFile = diskwright_base::toml_reader::read(name, text).unwrap_or_else(|wrong| panic!("{wrong}"));
        file.check
    };
    FILES.iter().flat_map(read).collect()
});

impl AdviceSeverity {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AdviceSeverity::Info => "info",
            AdviceSeverity::Notice => "notice",
            AdviceSeverity::Warning => "warning",
            AdviceSeverity::Critical => "critical",
        }
    }
}

impl ChangeRisk {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ChangeRisk::Low => "low",
            ChangeRisk::Medium => "medium",
            ChangeRisk::High => "high",
        }
    }
}

impl CheckLimit {
    /// Whether a text keeps it; `None` where it is no number and one is needed, or none of the words that the kernel
    /// writes there.
    pub(crate) fn holds(&self, text: &str, others: &[String]) -> Option<bool> {
        match self {
            CheckLimit::Equals(good) => (text == good || first_number(text).is_some()).then(|| text == good),
            CheckLimit::OneOf(good) => {
                let is_good = good.iter().any(|one| one == text);
                (is_good || others.iter().any(|one| one == text)).then_some(is_good)
            }
            CheckLimit::AtLeast(least) => first_number(text).map(|number| number >= *least),
            CheckLimit::AtMost(most) => first_number(text).map(|number| number <= *most),
        }
    }
}

/// What a check says of one instance.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CheckOutcome {
    /// There is nothing here that it could be about.
    Absent,
    /// All is well.
    Good,
    /// It cannot be told, and why.
    Unknown(String),
    /// Something is worth changing.
    Proposed(Box<Proposal>),
}

/// What is worth changing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Proposal {
    /// What was seen.
    pub seen: String,
    /// The good value here, where it is not the table's.
    pub good: Option<String>,
    /// What to write into the knob.
    pub value: Option<String>,
    /// Files to write, where it is not the knob alone.
    pub writes: Vec<(String, String)>,
    /// How bad, where it is not as the table says.
    pub severity: Option<AdviceSeverity>,
    /// What the log shows of it, and the share of time or work that it concerns.
    pub evidence: Option<(String, f64)>,
    /// What a model predicts.
    pub gain: Option<crate::gain::ExpectedGain>,
    /// The command or instruction, where it is not the table's.
    pub apply: Option<String>,
    /// What takes it back, where it is not the table's.
    pub undo: Option<String>,
    /// What makes it last, where that is said in fewer words than the files.
    pub lasting: Option<String>,
}

impl Proposal {
    /// A proposal that says what was seen.
    pub fn new(seen: impl Into<String>) -> Proposal {
        Proposal { seen: seen.into(), ..Proposal::default() }
    }

    pub fn good(mut self, good: impl Into<String>) -> Proposal {
        self.good = Some(good.into());
        self
    }

    pub fn value(mut self, value: impl Into<String>) -> Proposal {
        self.value = Some(value.into());
        self
    }

    pub fn severity(mut self, severity: AdviceSeverity) -> Proposal {
        self.severity = Some(severity);
        self
    }

    pub fn evidence(mut self, evidence: Option<(String, f64)>) -> Proposal {
        self.evidence = evidence;
        self
    }

    pub fn propose(self) -> CheckOutcome {
        CheckOutcome::Proposed(Box::new(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_can_be_told() {
        let mut ids: Vec<&str> = CHECKS.iter().map(|check| check.id.as_str()).collect();
        ids.sort_unstable();
        ids.windows(2).for_each(|pair| assert_ne!(pair[0], pair[1]));
        for check in CHECKS.iter() {
            let id = &check.id;
            assert!(check.limit.is_some() == check.file.is_some(), "{id}: a limit needs a file");
            assert!(check.limit.is_none() || check.knob.is_none() || check.value.is_some(), "{id}: a value is missing");
            let has_words = matches!(check.limit, Some(CheckLimit::OneOf(_)));
            assert!(has_words != check.others.is_empty(), "{id}: which words mean the contrary?");
            assert!(check.knob.is_some() || check.apply.is_some(), "{id}: nothing says what to do");
            assert!(!check.harmless || check.knob.is_some() && check.risk == ChangeRisk::Low, "{id}: harmless?");
            assert!(check.knob.is_some() == check.undo.is_none() || check.knob.is_none(), "{id}: a knob undoes itself");
            for text in [&check.reason, &check.risk_text, &check.verify, &check.reach, &check.good] {
                assert!(text.ends_with('.') || text == &check.good, "{id}: `{text}` is no sentence");
            }
            assert!(!check.source.is_empty() && !check.what.is_empty(), "{id}");
        }
    }
}
