//! The answer: the JSON contract `diskwright.verdict/1`, field by field.

use serde::{Deserialize, Serialize};

use diskwright_base::Ceiling;

use crate::advice::Advice;
use crate::missing::Missing;
use crate::rule::{Bottleneck, Severity};
use crate::trends::Trend;

/// What one pack says of a window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// `diskwright.verdict/1`.
    pub schema: &'static str,
    /// Id of the pack that judged.
    pub pack: String,
    /// Its title.
    pub pack_title: String,
    /// Host, where the log says; else empty.
    pub host: String,
    /// What holds the machine back.
    pub bottleneck: Bottleneck,
    /// The instance that is the bottleneck; empty for the machine as a whole.
    pub instance: String,
    /// From 0 to 1.
    pub confidence: f64,
    /// The verdict in one sentence.
    pub sentence: String,
    /// Rules that held, the telling ones first.
    pub findings: Vec<Finding>,
    /// What held for a stretch, but not for enough of the window to be a
    /// finding: worth a look of its own. Longest first.
    pub episodes: Vec<Episode>,
    /// Rules that held but are explained by another.
    pub set_aside: Vec<SetAside>,
    /// Every other bottleneck that the pack could judge, and why it is not this one.
    pub ruled_out: Vec<RuledOut>,
    /// Rules that could not be judged.
    pub unjudged: Vec<Unjudged>,
    /// The counters that they lack, and how to record them next time.
    pub missing: Missing,
    /// The bottlenecks that findings speak for, most first.
    pub ranking: Vec<Rank>,
    /// What probes measured the devices of the window to do at most.
    pub ceilings: Vec<Ceiling>,
    /// Who does it, where that could be seen.
    pub culprits: Vec<Culprit>,
    /// What to do, cheapest first.
    pub advice: Vec<Advice>,
    /// Remarks of the log.
    pub notes: Vec<Remark>,
    /// What limits the certainty of all this.
    pub certainty_limits: Vec<String>,
    /// Where the judged quantities are heading, those that matter first; empty
    /// on windows under an hour.
    pub trends: Vec<Trend>,
    /// How many questions were asked of the log to find them; significance
    /// stands against that number.
    pub trend_questions: usize,
    /// What was watched.
    pub window: Span,
}

/// Name of the contract.
pub const SCHEMA: &str = "diskwright.verdict/1";

/// A rule that held at an instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The rule's id.
    pub rule: String,
    /// What it says, without the instance.
    pub title: String,
    /// What it points at.
    pub bottleneck: Bottleneck,
    /// How bad it is.
    pub severity: Severity,
    /// What it weighs in the ranking.
    pub weight: f64,
    /// Object of the rule.
    pub object: String,
    /// Instance; empty for the machine.
    pub instance: String,
    /// The leading counter's id.
    pub counter: String,
    /// The leading quantity in full, such as `physical_disk.avg_queue_length per spindle`.
    pub quantity: String,
    /// Its mean over the ticks at which the rule held, weighted by its kind.
    pub value: f64,
    /// `above`, `at_least`, `below` or `at_most`.
    pub compare: &'static str,
    /// What it is compared with.
    pub limit: f64,
    /// Unit of value and limit.
    pub unit: String,
    /// Where the limit comes from, in words with numbers, where a probe
    /// measured it; `null` where it is the rule's own.
    pub limit_from: Option<String>,
    /// Share of the judged time at which the rule held.
    pub share: f64,
    /// That time, in sum.
    pub seconds: f64,
    /// The longest stretch of it.
    pub longest_s: f64,
    /// When it began to hold, RFC 3339.
    pub from: String,
    /// When it last held, RFC 3339.
    pub to: String,
    /// Why it means what it means.
    pub explain: String,
    /// Where the rule comes from.
    pub source: String,
    /// Further counters while it held.
    pub evidence: Vec<Evidence>,
    /// Advice ids, in the authority's order.
    pub advice: Vec<String>,
    /// The leading quantity over the whole window in at most 60 points, `null` for a gap.
    pub series: Vec<Option<f64>>,
}

/// A counter beside a finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// Its id.
    pub counter: String,
    /// Mean while the rule held; `null` where the log lacks it.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: String,
}

/// A stretch in which a rule held that did not hold for enough of the window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Episode {
    /// The rule's id.
    pub rule: String,
    /// What it says.
    pub title: String,
    /// What it would blame.
    pub bottleneck: Bottleneck,
    /// The object.
    pub object: String,
    /// Its instance.
    pub instance: String,
    /// Share of the judged time at which it held in all.
    pub share: f64,
    /// The longest stretch of it, seconds.
    pub longest_s: f64,
    /// Start of that stretch, RFC 3339 in UTC.
    pub from: String,
    /// Its end.
    pub to: String,
}

/// A rule that held but is explained by another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetAside {
    /// The rule's id.
    pub rule: String,
    /// What it would have said.
    pub title: String,
    /// What it would have pointed at.
    pub bottleneck: Bottleneck,
    /// Instance; empty for the machine.
    pub instance: String,
    /// Why it is set aside.
    pub because: String,
}

/// A bottleneck that it is not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuledOut {
    /// Which.
    pub bottleneck: Bottleneck,
    /// Why, in numbers against limits.
    pub because: String,
}

/// A rule that could not be judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unjudged {
    /// The rule's id.
    pub rule: String,
    /// What it would point at.
    pub bottleneck: Bottleneck,
    /// Counters that the log lacks, or that had nothing but gaps.
    pub missing: Vec<String>,
}

/// How much speaks for a bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rank {
    /// Which.
    pub bottleneck: Bottleneck,
    /// The strongest finding's weight and share, and a little for each further rule.
    pub score: f64,
    /// Rules that speak for it, strongest first.
    pub findings: Vec<String>,
}

/// Who does it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Culprit {
    /// `process` or `cgroup`.
    pub kind: String,
    /// Process id; `null` for a cgroup.
    pub pid: Option<u32>,
    /// Command name, or the cgroup's path.
    pub name: String,
    /// The process's cgroup.
    pub cgroup: String,
    /// How many processes of this name in this cgroup; `pid` is that of the one
    /// that did most. 0 for a cgroup.
    pub processes: u32,
    /// Share of what all processes did in this matter; `null` for a cgroup.
    pub share: Option<f64>,
    /// What it did, with numbers.
    pub what: String,
}

/// A note of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// When it first came, RFC 3339.
    pub time: String,
    /// `gap`, `clock`, `warning`, `unseen` or `bookmark`.
    pub kind: String,
    /// The text.
    pub text: String,
    /// How often it came.
    pub times: u64,
}

/// The window that was watched.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Span {
    /// Start, RFC 3339.
    pub from: String,
    /// End, RFC 3339.
    pub to: String,
    /// Running time covered, without suspension.
    pub seconds: f64,
    /// Ticks.
    pub ticks: u64,
    /// Gaps that the log tells of.
    pub gaps: u64,
}
