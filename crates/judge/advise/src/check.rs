//! The table of checks: the checked setting, its good value, the reason, and the change. All of it is data in
//! `data/*.toml`; checks that a limit cannot express are functions with the same id in `judges`.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::host_tree::first_number;
use crate::role::ServerRole;

/// Severity of leaving a finding unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AdviceSeverity {
    /// Good to know.
    Info,
    /// Could be better.
    Notice,
    /// Costs speed, or hides information needed for finding causes.
    Warning,
    /// Data or the service is at risk.
    Critical,
}

/// Risk of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeRisk {
    /// It can be undone at once.
    Low,
    /// It can cost speed, memory or power elsewhere.
    Medium,
    /// It can cost data or cause an outage.
    High,
}

/// Object of a check, which is made once for each instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckObject {
    /// The whole host.
    Host,
    /// A disk that is no array, loop device or memory.
    Disk,
    /// A partition of a disk.
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

/// Condition on a file's value, for a check that consists of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckLimit {
    /// Exactly this number.
    Equals(String),
    /// One of these words; a word that is neither here nor in `others` is not understood.
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
    /// Id, such as `queue.scheduler`.
    pub id: String,
    /// Object of the check.
    pub object: CheckObject,
    /// Setting or state that is checked.
    pub what: String,
    /// The good value, in words.
    pub good: String,
    /// Reason for the check.
    pub reason: String,
    /// Source of the reason.
    pub source: String,
    /// Severity of a finding, unless the check decides otherwise.
    pub severity: AdviceSeverity,
    /// Bottlenecks that the setting may cause or relieve: where a verdict names one, its items come first.
    #[serde(default)]
    pub bears_on: Vec<String>,
    /// Risk of the change.
    pub risk: ChangeRisk,
    /// Possible harm of the change.
    pub risk_text: String,
    /// File that is judged, if a limit is the whole check.
    #[serde(default)]
    pub(crate) file: Option<String>,
    /// Condition on that file.
    #[serde(default)]
    pub(crate) limit: Option<CheckLimit>,
    /// Other words that the kernel writes into the file, if the limit is a choice of words.
    #[serde(default)]
    pub(crate) others: Vec<String>,
    /// Value to write if the limit is not met.
    #[serde(default)]
    pub(crate) value: Option<String>,
    /// File to write, below the root.
    #[serde(default)]
    pub knob: Option<String>,
    /// Change if no file is written: a command with `{instance}`, or an instruction.
    #[serde(default)]
    pub apply: Option<String>,
    /// How to revert that change.
    #[serde(default)]
    pub undo: Option<String>,
    /// How to prove the effect with `compare`.
    pub verify: String,
    /// Roles of hosts that it applies to; all if empty.
    #[serde(default)]
    pub roles: Vec<ServerRole>,
    /// True if `--apply` may make the change: one write reverts it, and it costs no data and causes no outage.
    #[serde(default)]
    pub harmless: bool,
    /// How to obtain the facts if they cannot be read.
    pub reach: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChecksFile {
    check: Vec<HostCheck>,
}

/// The files of the table.
const CHECK_FILES: &[(&str, &str)] = &[
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
    let read_checks = |(name, text): &(&str, &str)| -> Vec<HostCheck> {
        let file: ChecksFile = diskwright_base::toml_reader::read(name, text).unwrap_or_else(|wrong| panic!("{wrong}"));
        file.check
    };
    CHECK_FILES.iter().flat_map(read_checks).collect()
});

impl AdviceSeverity {
    /// Name in data and output.
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
    /// Name in data and output.
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
    /// Returns true if a text meets the limit; `None` if it is not understood: it is not a number where a number is
    /// needed, or a word that the kernel is not known to write.
    pub(crate) fn is_met_by(&self, text: &str, others: &[String]) -> Option<bool> {
        match self {
            CheckLimit::Equals(good) => (text == good || first_number(text).is_some()).then(|| text == good),
            CheckLimit::OneOf(good) => {
                let is_good = good.iter().any(|word| word == text);
                (is_good || others.iter().any(|word| word == text)).then_some(is_good)
            }
            CheckLimit::AtLeast(min) => first_number(text).map(|number| number >= *min),
            CheckLimit::AtMost(max) => first_number(text).map(|number| number <= *max),
        }
    }
}

/// Result of a check on one instance.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CheckOutcome {
    /// The check does not apply to the instance.
    Absent,
    /// No finding.
    Good,
    /// The check could not be made, and why.
    Unknown(String),
    /// A change is proposed.
    Proposed(Box<Proposal>),
}

/// A proposed change.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Proposal {
    /// Observed value.
    pub seen: String,
    /// Good value here, if it differs from the table's.
    pub good: Option<String>,
    /// Value to write into the knob.
    pub value: Option<String>,
    /// Files to write and their content, if the knob does not suffice.
    pub writes: Vec<(String, String)>,
    /// Severity, if it differs from the table's.
    pub severity: Option<AdviceSeverity>,
    /// Evidence in the log, and the share of time or work that it concerns.
    pub evidence: Option<(String, f64)>,
    /// Gain that a model predicts.
    pub gain: Option<crate::gain::ExpectedGain>,
    /// Command or instruction, if it differs from the table's.
    pub apply: Option<String>,
    /// How to revert it, if that differs from the table.
    pub undo: Option<String>,
    /// Instructions for making it permanent, if they are shorter than those for each file.
    pub lasting: Option<String>,
}

impl Proposal {
    /// Creates a proposal for an observed value.
    pub fn new(seen: impl Into<String>) -> Proposal {
        Proposal { seen: seen.into(), ..Proposal::default() }
    }

    /// Sets the good value.
    pub fn with_good(mut self, good: impl Into<String>) -> Proposal {
        self.good = Some(good.into());
        self
    }

    /// Sets the value to write.
    pub fn with_value(mut self, value: impl Into<String>) -> Proposal {
        self.value = Some(value.into());
        self
    }

    /// Sets the severity.
    pub fn with_severity(mut self, severity: AdviceSeverity) -> Proposal {
        self.severity = Some(severity);
        self
    }

    /// Sets the evidence in the log.
    pub fn with_evidence(mut self, evidence: Option<(String, f64)>) -> Proposal {
        self.evidence = evidence;
        self
    }

    /// Returns the proposal as the outcome of a check.
    pub fn into_outcome(self) -> CheckOutcome {
        CheckOutcome::Proposed(Box::new(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_is_complete() {
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
