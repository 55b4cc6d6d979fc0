//! Requirements that vendors publish for the storage of their programs, and how a target meets them
//! (`probe for PROGRAM`).

use serde::{Deserialize, Serialize};

/// Weight of a requirement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequirementLevel {
    /// The vendor requires it.
    #[default]
    Required,
    /// The vendor recommends it, in general or for heavy use.
    Recommended,
    /// The vendor publishes no limit: the figure is measured and not judged.
    Unlimited,
}

/// How a quantity compares with its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// It must be less.
    Below,
    /// It must not be more.
    AtMost,
    /// It must not be less.
    AtLeast,
}

/// Publication of a requirement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequirementSource {
    /// Author and title.
    pub title: String,
    /// Address; empty if there is none.
    #[serde(default)]
    pub url: String,
    /// Date of the publication, or the version that it documents with the date on which it was read.
    pub date: String,
}

/// A requirement with what was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequirementResult {
    /// Id, unique in its program: `wal-fsync`.
    pub id: String,
    /// The quantity or property, in words.
    pub title: String,
    /// Weight.
    pub level: RequirementLevel,
    /// Device in a log; `None` for what was measured on the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The measured value, in `unit`; `None` if it is not known, or only within bounds.
    pub measured: Option<f64>,
    /// Lower bound of the value; `None` if none is known.
    pub measured_at_least: Option<f64>,
    /// Upper bound of the value; `None` if none is known.
    pub measured_at_most: Option<f64>,
    /// Property that was found instead of a value, such as a filesystem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// The limit, in `unit`; `None` for a property, and where no limit is published.
    pub limit: Option<f64>,
    /// How the value compares with the limit.
    pub limit_kind: Option<LimitKind>,
    /// Unit, by its name in the catalogue; empty for a property.
    pub unit: String,
    /// Distance from the limit as a share of the limit; negative if it is not met.
    pub margin: Option<f64>,
    /// Whether it is met; `None` if that is not known, or not judged.
    pub met: Option<bool>,
    /// Reason of the answer, a sentence.
    pub why: String,
    /// Name of the run with the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Publication of the requirement.
    pub source: RequirementSource,
    /// What this program decided itself because the vendor does not publish it: the load, for example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<String>,
}

/// Answer to the question whether storage is good enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Suitability {
    /// Everything that is required is met; if nothing is required, everything that is recommended.
    Yes,
    /// Something is not met.
    No,
    /// Something that decides could not be measured or is not in the log.
    #[default]
    Unknown,
    /// The vendor publishes no limit: nothing is judged.
    NotPublished,
}

/// The program that the storage is meant for, and the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramAnswer {
    /// Id on the command line: `etcd`.
    pub id: String,
    /// Name.
    pub title: String,
    /// The answer.
    pub answer: Suitability,
    /// Its reason, a sentence.
    pub because: String,
    /// What would tell more, a sentence each.
    pub more: Vec<String>,
}
