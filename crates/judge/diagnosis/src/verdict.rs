//! The answer: the JSON contract `diskwright.verdict/1`, field by field.

use serde::{Deserialize, Serialize};

use diskwright_base::{Ceiling, FileRow, ThreadRow};

use crate::advice::Advice;
use crate::origin::MissingCounters;
use crate::rule::{Bottleneck, Severity};
use crate::trends::model::Trend;

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
    /// The time line: what held the machine back when. One phase where it was
    /// the same all along; empty for other packs than the first.
    pub phases: Vec<VerdictPhase>,
    /// Rules that held but are explained by another.
    pub set_aside: Vec<SetAsideFinding>,
    /// Every other bottleneck that the pack could judge, and why it is not this one.
    pub ruled_out: Vec<Exclusion>,
    /// Rules that could not be judged.
    pub unjudged: Vec<UnjudgedRule>,
    /// The counters that they lack, and how to record them next time.
    pub missing: MissingCounters,
    /// The bottlenecks that findings speak for, most first.
    pub ranking: Vec<Rank>,
    /// What probes measured the devices of the window to do at most.
    pub ceilings: Vec<Ceiling>,
    /// Who does it, where that could be seen.
    pub culprits: Vec<Culprit>,
    /// Who asked the blamed disk for what, by a trace of single requests; empty without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<AskedOperation>,
    /// What programs do and wait for, and where to look next; only where nothing is blamed.
    pub programs: Vec<ProgramActivity>,
    /// What to do, cheapest first.
    pub advice: Vec<Advice>,
    /// Remarks of the log.
    pub notes: Vec<LogRemark>,
    /// What limits the certainty of all this.
    pub certainty_limits: Vec<String>,
    /// Where the judged quantities are heading, those that matter first; empty
    /// on windows under an hour.
    pub trends: Vec<Trend>,
    /// How many questions were asked of the log to find them; significance
    /// stands against that number.
    pub trend_questions: usize,
    /// What was watched.
    pub window: WatchWindow,
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
    /// Its mean over the whole window, held or not; `null` where there is none.
    pub mean: Option<f64>,
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
    /// The judged time: the window without what the log does not tell of this.
    pub judged_s: f64,
    /// The time at which it held, in sum.
    pub seconds: f64,
    /// The longest stretch of it.
    pub longest_s: f64,
    /// Start of that stretch, RFC 3339.
    pub longest_from: String,
    /// Stretches without a break.
    pub times: u64,
    /// Those stretches, in order; of more than 64 the closest are joined.
    pub stretches: Vec<HoldInterval>,
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

/// Share of a window that must have been judged for a share of it to be told as one of the window.
const NEARLY_ALL: f64 = 0.95;

impl Finding {
    /// The time that was judged, where that is clearly less than the window: the share is of that time alone.
    pub fn seen_s(&self, window_s: f64) -> Option<f64> {
        seen_s(self.judged_s, window_s)
    }
}

/// See [`Finding::seen_s`].
pub fn seen_s(judged_s: f64, window_s: f64) -> Option<f64> {
    (judged_s < NEARLY_ALL * window_s).then_some(judged_s)
}

/// A stretch of time at which a rule held.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HoldInterval {
    /// Start, RFC 3339.
    pub from: String,
    /// End, RFC 3339.
    pub to: String,
}

/// A counter beside a finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// Its id.
    pub counter: String,
    /// Mean while the rule held; `null` where the log lacks it.
    pub value: Option<f64>,
    /// Its largest value of a tick meanwhile.
    pub max: Option<f64>,
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
    /// The judged time.
    pub judged_s: f64,
    /// The longest stretch of it, seconds.
    pub longest_s: f64,
    /// Start of that stretch, RFC 3339 in UTC.
    pub from: String,
    /// Its end.
    pub to: String,
}

/// A stretch of the window with one answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerdictPhase {
    /// Start, RFC 3339.
    pub from: String,
    /// End, RFC 3339.
    pub to: String,
    /// Running time covered, seconds.
    pub seconds: f64,
    /// What held the machine back meanwhile.
    pub bottleneck: Bottleneck,
    /// Its instance; empty for the machine as a whole.
    pub instance: String,
    /// From 0 to 1.
    pub confidence: f64,
    /// The rule that told it; empty where nothing was blamed.
    pub rule: String,
    /// What that rule says; empty where nothing was blamed.
    pub title: String,
    /// The bookmark at its start; empty where there is none.
    pub bookmark: String,
}

/// A rule that held but is explained by another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetAsideFinding {
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
pub struct Exclusion {
    /// Which.
    pub bottleneck: Bottleneck,
    /// Why, in numbers against limits.
    pub because: String,
}

/// A rule that could not be judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnjudgedRule {
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
    /// Its busiest thread; `null` where it never used nearly a whole processor.
    #[serde(default)]
    pub thread: Option<ThreadRow>,
    /// What it had open on the blamed disk, or on disks that are not known; empty where that was not seen.
    #[serde(default)]
    pub files: Vec<FileRow>,
    /// What it did, with numbers.
    pub what: String,
}

/// One operation on a disk, and the programs that asked for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AskedOperation {
    /// The disk.
    pub device: String,
    /// `read`, `write`, `sync_write`, `flush`, `flush_call` or `discard`.
    pub operation: String,
    /// How many programs asked for it, by name.
    pub programs: usize,
    /// Requests of all of them.
    pub requests: u64,
    /// Seconds that they spent at the device, added up.
    pub device_s: f64,
    /// Those who asked, most time at the device first.
    pub askers: Vec<AskingProgram>,
    /// Where threads of the kernel asked for others: who wrote into memory meanwhile.
    pub dirtied_by: Vec<AskingProgram>,
    /// `sure`: who asked is whose work it is; `likely`: one program wrote nearly all; `guess`: several did, by their
    /// shares; `unknown`.
    pub sure: String,
}

/// A program that asked a disk, or dirtied what is written to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AskingProgram {
    /// Its name.
    pub name: String,
    /// Its share of the operation's time at the device, or of the bytes dirtied.
    pub share: f64,
    /// Requests; 0 of who dirtied.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
    /// A thread of the kernel, which asks for others.
    pub kernel: bool,
}

/// A program, and what it does and waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramActivity {
    /// Command name.
    pub name: String,
    /// Of the process that did most.
    pub pid: u32,
    /// How many processes of this name did anything.
    pub processes: u32,
    /// Processors used on average: 1 is one full processor.
    pub processor: f64,
    /// Share of the time in uninterruptible sleep or waiting for block I/O.
    pub blocked: f64,
    /// Where its threads slept when they were looked at, what says most first.
    pub sleeps: Vec<Sleep>,
    /// All that in words.
    pub what: String,
    /// Where to look next.
    pub next: String,
}

/// Threads of a program that sleep in one function of the kernel. Idle threads do, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sleep {
    /// `lock`, `disk`, `network`, `peer` (another process), `timer`, `child`, `events` or `other`.
    pub kind: String,
    /// The kernel's function.
    pub waits_in: String,
    /// How many, on average over the looks.
    pub threads: u32,
}

/// A note of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogRemark {
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
pub struct WatchWindow {
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
