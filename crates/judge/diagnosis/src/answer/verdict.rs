//! The answer: the JSON contract `diskwright.verdict/1`, field by field.

use diskwright_base::catalogue::display_unit;
use diskwright_base::units::{format_significant, format_value};
use serde::Serialize;

use diskwright_base::capture::MomentCapture;
use diskwright_base::{Ceiling, DatabaseActivity};

pub use crate::answer::limits::volume_use::{CreditsLeft, InstanceUse, LimitUse, VolumeUse};
pub use crate::changes::{BeganKind, Beginning, Change, VerdictEvent, event_sentence};
pub use crate::culprits::{
    AttributionCertainty, Culprit, GrowingProgram, OperationRequesters, ProgramActivity, RequestingProgram, Sleep,
};
pub use crate::rules::bottleneck_proof::NextCommand;
use crate::rules::{Advice, Bottleneck, MissingCounters, Severity};
use crate::trends::Trend;

/// Verdict of one pack on a window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// `diskwright.verdict/1`.
    pub schema: &'static str,
    /// Id of the pack that judged.
    pub pack: String,
    /// Its title.
    pub pack_title: String,
    /// Name of the host; empty if the log does not have it.
    pub host: String,
    /// The bottleneck.
    pub bottleneck: Bottleneck,
    /// The instance that is the bottleneck; empty for the machine as a whole.
    pub instance: String,
    /// Confidence of the verdict, from 0 to 1.
    pub confidence: f64,
    /// The verdict in one sentence, or in one for each bottleneck.
    pub sentence: String,
    /// All bottlenecks, the first being `bottleneck`: each would be left if the others were taken away. Empty where
    /// nothing is blamed.
    pub bottlenecks: Vec<VerdictBottleneck>,
    /// What held it back until shortly before the judged time; only in live views, and missing where nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<EndedBottleneck>,
    /// Programs that were killed because memory ran out, filesystems that turned read-only or are full, and devices
    /// that failed, in the window, in order of time; empty for all packs but the first.
    pub events: Vec<VerdictEvent>,
    /// Rules that held, those of the bottleneck first.
    pub findings: Vec<Finding>,
    /// Rules that held for a stretch, but for too little of the window to be findings; longest first.
    pub episodes: Vec<Episode>,
    /// Timeline of the bottleneck. One phase where it did not change; empty for all packs but the first.
    pub phases: Vec<VerdictPhase>,
    /// Rules that held but are explained by another.
    pub set_aside: Vec<SetAsideFinding>,
    /// Every other bottleneck that the pack could judge, and why it is not this one.
    pub ruled_out: Vec<Exclusion>,
    /// Rules that could not be judged.
    pub unjudged: Vec<UnjudgedRule>,
    /// The counters that the unjudged rules lack, and how to record them next time.
    pub missing: MissingCounters,
    /// Commands whose output would tell what this log does not; empty for our own logs, and where nothing is open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub send_next: Vec<NextCommand>,
    /// The bottlenecks that findings point at, best score first.
    pub ranking: Vec<Rank>,
    /// Ceilings that probes measured of the devices in the window.
    pub ceilings: Vec<Ceiling>,
    /// Cloud volumes whose type is known, and how near each was to its limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeUse>,
    /// The instance of a cloud, and how near all its volumes were to its limits; missing where its type is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_instance: Option<InstanceUse>,
    /// Processes and cgroups that cause the bottleneck, where the log shows them.
    pub culprits: Vec<Culprit>,
    /// Blamed activity that belongs to no listed process, a sentence for each bottleneck that has such.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlisted: Vec<String>,
    /// Programs that sent requests to the blamed disk, by operation, from a trace of single requests; empty without
    /// one.
    #[serde(rename = "asked", default, skip_serializing_if = "Vec::is_empty")]
    pub requesters: Vec<OperationRequesters>,
    /// Database servers that were asked: who waited for what, statements, tables, locks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<DatabaseActivity>,
    /// Activity and waits of programs, with the next step to take; only where nothing is blamed.
    pub programs: Vec<ProgramActivity>,
    /// Remedies, cheapest first.
    pub advice: Vec<Advice>,
    /// Levels of latency, queue, load and pressure that stepped within the window, each with what began or stopped
    /// then; in order of time, empty for all packs but the first.
    pub changes: Vec<Change>,
    /// True where the log has tables of processes: only then can one be named that began.
    #[serde(skip)]
    pub has_process_tables: bool,
    /// Remarks of the log.
    pub notes: Vec<LogRemark>,
    /// What was saved at the beginning of alerts (`record --capture`), the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub captures: Vec<MomentCapture>,
    /// Limits of the verdict's certainty, a sentence each.
    pub certainty_limits: Vec<String>,
    /// Trends of the judged quantities, important ones first; empty for windows under an hour.
    pub trends: Vec<Trend>,
    /// Number of tests made to find the trends; significance is adjusted for that number.
    pub trend_questions: usize,
    /// The window.
    pub window: WatchWindow,
}

/// A bottleneck that ended before the judged time began.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EndedBottleneck {
    /// The bottleneck.
    pub bottleneck: Bottleneck,
    /// Its instance; empty for the machine as a whole.
    pub instance: String,
    /// When its last finding ended, RFC 3339.
    #[serde(rename = "at")]
    pub ended_at: String,
}

/// One of the bottlenecks of a window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerdictBottleneck {
    /// The bottleneck.
    pub bottleneck: Bottleneck,
    /// Its instance; empty for the machine as a whole.
    pub instance: String,
    /// Confidence, from 0 to 1.
    pub confidence: f64,
    /// It in one sentence.
    pub sentence: String,
    /// Ids of the rules that point at it, the leading one first.
    pub findings: Vec<String>,
    /// When it began within the window, RFC 3339; it lasts to the end. Missing where it was there from the start, and
    /// where the log does not show when it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// From when to when it was there, if it ended well before the window did; else missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was_there: Option<HoldInterval>,
    /// Positions of its findings in [`Verdict::findings`].
    #[serde(skip)]
    pub positions: Vec<usize>,
    /// Processes and cgroups that cause it, where the log shows them.
    pub culprits: Vec<Culprit>,
    /// How much of what is blamed belongs to no listed process, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlisted: Option<String>,
    /// Remedies against it, cheapest first.
    pub advice: Vec<Advice>,
}

impl Verdict {
    /// The findings to show as evidence: those of the listed bottlenecks, and remarks that blame nothing. Where nothing
    /// is blamed, all.
    pub fn evidence(&self) -> impl Iterator<Item = &Finding> {
        let is_listed = |index: usize| self.bottlenecks.iter().any(|listed| listed.positions.contains(&index));
        let is_evidence = move |(index, finding): &(usize, &Finding)| {
            self.bottlenecks.is_empty() || !finding.bottleneck.blames() || is_listed(*index)
        };
        self.findings.iter().enumerate().filter(is_evidence).map(|(_, finding)| finding)
    }

    /// True where other disks could mend a bottleneck; see [`Bottleneck::is_of_storage`].
    pub fn is_of_storage(&self, listed: &VerdictBottleneck) -> bool {
        let leading = listed.positions.first().and_then(|position| self.findings.get(*position));
        listed.bottleneck.is_of_storage(leading.map_or("", |finding| finding.object.as_str()))
    }

    /// Puts one of the bottlenecks first, so that of two that both persist, the same leads from window to window. It
    /// changes nothing where this one is not listed.
    pub fn put_first(&mut self, bottleneck: Bottleneck, instance: &str) {
        let is_wanted = |listed: &VerdictBottleneck| listed.bottleneck == bottleneck && listed.instance == instance;
        let Some(position) = self.bottlenecks.iter().position(is_wanted).filter(|position| *position > 0) else {
            return;
        };
        self.bottlenecks[..=position].rotate_right(1);
        self.follow_bottlenecks();
    }

    /// Tells the bottlenecks as those of an earlier run: `run` names it, and `later` the run after it that shows none.
    /// Nothing is advised against what has gone.
    pub fn set_in_past(&mut self, run: &str, later: &str) {
        for (index, listed) in self.bottlenecks.iter_mut().enumerate() {
            // screens and pages show the sentences of the bottlenecks
            if index == 0 {
                listed.sentence = format!("No bottleneck any more in {later}. In {run}: {}", listed.sentence);
            }
            listed.advice.clear();
            listed.since = None;
        }
        self.follow_bottlenecks();
    }

    /// Sets the fields that repeat the bottlenecks in the order of these.
    pub(crate) fn follow_bottlenecks(&mut self) {
        let Some(first) = self.bottlenecks.first() else { return };
        (self.bottleneck, self.confidence) = (first.bottleneck, first.confidence);
        self.instance.clone_from(&first.instance);
        let sentences: Vec<&str> = self.bottlenecks.iter().map(|listed| listed.sentence.as_str()).collect();
        self.sentence = sentences.join(" Also: ");
        self.culprits.clear();
        self.advice.clear();
        self.unlisted = self.bottlenecks.iter().filter_map(|listed| listed.unlisted.clone()).collect();
        for listed in &self.bottlenecks {
            let is_known = |culprit: &&Culprit| {
                let mut known = self.culprits.iter();
                known.any(|other| (&other.kind, other.pid, &other.name) == (&culprit.kind, culprit.pid, &culprit.name))
            };
            let new: Vec<Culprit> = listed.culprits.iter().filter(|culprit| !is_known(culprit)).cloned().collect();
            self.culprits.extend(new);
            let new: Vec<Advice> = listed.advice.iter().filter(|a| !self.advice.contains(a)).cloned().collect();
            self.advice.extend(new);
        }
        self.sort_findings_by_bottleneck();
    }

    /// Sorts the findings by the bottleneck that they belong to; the others keep their order behind them.
    fn sort_findings_by_bottleneck(&mut self) {
        if self.bottlenecks.len() < 2 {
            return;
        }
        let rank = |index: usize| {
            let listed = self.bottlenecks.iter().position(|listed| listed.positions.contains(&index));
            listed.unwrap_or(self.bottlenecks.len())
        };
        let mut order: Vec<usize> = (0..self.findings.len()).collect();
        order.sort_by_key(|index| rank(*index));
        let mut new_positions = vec![0; order.len()];
        order.iter().enumerate().for_each(|(new, old)| new_positions[*old] = new);
        self.findings = order.iter().map(|index| self.findings[*index].clone()).collect();
        for position in self.bottlenecks.iter_mut().flat_map(|listed| &mut listed.positions) {
            *position = new_positions[*position];
        }
    }
}

/// Name of the contract.
pub const SCHEMA: &str = "diskwright.verdict/1";

/// A rule that held at an instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The rule's id.
    pub rule: String,
    /// Statement of the rule, without the instance.
    pub title: String,
    /// Bottleneck that the rule points at.
    pub bottleneck: Bottleneck,
    /// Severity.
    pub severity: Severity,
    /// Weight in the ranking.
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
    /// Limit that the value is compared with.
    pub limit: f64,
    /// Unit of value and limit.
    pub unit: String,
    /// Disks behind the device, if the limit is the rule's own for one disk times their number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_disks: Option<f64>,
    /// Origin of a limit that a probe measured or a cloud sets, in words with numbers; `null` where the limit is the
    /// rule's own.
    pub limit_from: Option<String>,
    /// Share of the judged time at which the rule held.
    pub share: f64,
    /// Share of the judged time in which the condition that has `value` held, if that is less than `share`: the
    /// condition is one of several alternatives, and at other times another one held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_share: Option<f64>,
    /// The judged time, seconds: the window without the time for which the log has no data on this rule; with `since`,
    /// the time from then on.
    pub judged_s: f64,
    /// Where it began within the window and lasts to its end: when, RFC 3339. Share and judged time are those since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The time for which it held, in total, seconds.
    pub seconds: f64,
    /// The longest stretch for which it held without a break, seconds.
    pub longest_s: f64,
    /// Start of that stretch, RFC 3339.
    pub longest_from: String,
    /// Number of stretches for which it held without a break.
    pub times: u64,
    /// Those stretches, in order; if there are more than 64, the closest are joined.
    pub stretches: Vec<HoldInterval>,
    /// Start of the first tick at which it held, RFC 3339.
    pub from: String,
    /// End of the last tick at which it held, RFC 3339.
    pub to: String,
    /// Explanation of the rule.
    pub explain: String,
    /// Source of the rule.
    pub source: String,
    /// Further counters, averaged over the time for which it held.
    pub evidence: Vec<Evidence>,
    /// Advice ids, in the authority's order.
    pub advice: Vec<String>,
    /// The leading quantity over the whole window in at most 60 points, `null` for a gap.
    pub series: Vec<Option<f64>>,
}

/// Smallest judged share of a window at which shares of the judged time are reported as shares of the window.
const MIN_WHOLE_WINDOW_SHARE: f64 = 0.95;

impl Finding {
    /// Share of the judged time in which the condition that has `value` held: the share to print beside the value.
    pub fn share_of_value(&self) -> f64 {
        self.value_share.unwrap_or(self.share)
    }

    /// Unit in which screens show the values; see [`display_unit`].
    pub fn display_unit(&self) -> &str {
        display_unit(&self.counter, &self.unit)
    }

    /// Formats a value of the finding's unit for screens.
    pub fn format_value(&self, value: f64) -> String {
        format_value(value, self.display_unit())
    }

    /// Limit of one disk and the number of disks, where the limit is their product: `2 for each of 10 disks`.
    pub fn each_disk_text(&self) -> Option<String> {
        let disks = self.limit_disks?;
        Some(format!("{} for each of {} disks", format_significant(self.limit / disks), format_significant(disks)))
    }

    /// The judged time, seconds, where it is clearly less than the window: the share is then one of that time.
    pub fn seen_s(&self, window_s: f64) -> Option<f64> {
        seen_s(self.judged_s, window_s)
    }
}

/// The judged time, where it is clearly less than the window; see [`Finding::seen_s`].
pub fn seen_s(judged_s: f64, window_s: f64) -> Option<f64> {
    (judged_s < MIN_WHOLE_WINDOW_SHARE * window_s).then_some(judged_s)
}

/// A stretch of time at which a rule held.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HoldInterval {
    /// Start, RFC 3339.
    pub from: String,
    /// End, RFC 3339.
    pub to: String,
}

/// A counter shown with a finding.
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

impl Evidence {
    /// Unit in which screens show the values; see [`display_unit`].
    pub fn display_unit(&self) -> &str {
        display_unit(&self.counter, &self.unit)
    }
}

/// A rule that held for a stretch, but for too little of the window to be a finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Episode {
    /// The rule's id.
    pub rule: String,
    /// Statement of the rule.
    pub title: String,
    /// Bottleneck that the rule points at.
    pub bottleneck: Bottleneck,
    /// The object.
    pub object: String,
    /// Its instance.
    pub instance: String,
    /// Share of the judged time for which it held in total.
    pub share: f64,
    /// The judged time, seconds.
    pub judged_s: f64,
    /// The longest stretch for which it held, seconds.
    pub longest_s: f64,
    /// Start of that stretch, RFC 3339 in UTC.
    pub from: String,
    /// Its end.
    pub to: String,
}

/// A part of the window with one bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerdictPhase {
    /// Start, RFC 3339.
    pub from: String,
    /// End, RFC 3339.
    pub to: String,
    /// Running time covered, seconds.
    pub seconds: f64,
    /// Bottleneck of that time.
    pub bottleneck: Bottleneck,
    /// Its instance; empty for the machine as a whole.
    pub instance: String,
    /// Confidence of that answer, from 0 to 1.
    pub confidence: f64,
    /// Id of the leading rule; empty where nothing was blamed.
    pub rule: String,
    /// Statement of that rule; empty where nothing was blamed.
    pub title: String,
    /// The bookmark at its start; empty where there is none.
    pub bookmark: String,
    /// The other bottlenecks of that time: each would be left if the others were taken away.
    pub also: Vec<PhaseBottleneck>,
}

/// A bottleneck of a phase beside its first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseBottleneck {
    /// The bottleneck.
    pub bottleneck: Bottleneck,
    /// Its instance; empty for the machine as a whole.
    pub instance: String,
    /// Confidence, from 0 to 1.
    pub confidence: f64,
    /// Id of the leading rule.
    pub rule: String,
    /// Statement of that rule.
    pub title: String,
}

/// A rule that held but is explained by another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetAsideFinding {
    /// The rule's id.
    pub rule: String,
    /// Statement of the rule.
    pub title: String,
    /// Bottleneck that the rule points at.
    pub bottleneck: Bottleneck,
    /// Instance; empty for the machine.
    pub instance: String,
    /// Reason for setting it aside.
    pub because: String,
}

/// A bottleneck that was ruled out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Exclusion {
    /// The bottleneck.
    pub bottleneck: Bottleneck,
    /// Reason, in numbers against limits.
    pub because: String,
}

/// A rule that could not be judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnjudgedRule {
    /// The rule's id.
    pub rule: String,
    /// Bottleneck that the rule points at.
    pub bottleneck: Bottleneck,
    /// Counters that the log lacks, or that have only gaps; the latter with the remark `(gaps only)`.
    pub missing: Vec<String>,
    /// True where the counters were recorded and have only gaps.
    #[serde(skip)]
    pub has_only_gaps: bool,
}

impl UnjudgedRule {
    /// Counters that were not recorded.
    pub fn unrecorded_counters(&self) -> impl Iterator<Item = &str> {
        self.missing.iter().map(String::as_str).filter(|_| !self.has_only_gaps)
    }
}

/// Score of a bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rank {
    /// The bottleneck.
    pub bottleneck: Bottleneck,
    /// Score of the strongest finding, plus a tenth of the score of each further rule.
    pub score: f64,
    /// Rules that point at it, strongest first.
    pub findings: Vec<String>,
}

/// A note of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogRemark {
    /// Time of the first occurrence, RFC 3339.
    pub time: String,
    /// `gap`, `missed`, `clock`, `warning`, `unseen` or `bookmark`.
    pub kind: String,
    /// The text.
    pub text: String,
    /// Number of occurrences.
    pub times: u64,
}

/// The judged window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WatchWindow {
    /// Start, RFC 3339; `null` in JSON where the log has no date.
    #[serde(serialize_with = "serialize_date")]
    pub from: String,
    /// End, RFC 3339; `null` in JSON where the log has no date.
    #[serde(serialize_with = "serialize_date")]
    pub to: String,
    /// Running time covered, without suspension, seconds.
    pub seconds: f64,
    /// Number of ticks.
    pub ticks: u64,
    /// Number of gaps noted in the log.
    pub gaps: u64,
    /// Ticks that were due while the machine ran and that the recorder missed.
    pub ticks_missed: u64,
    /// Number of reports of a log without times and interval: seconds then mean reports. `None` where time is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reports: Option<u64>,
    /// False where the log has no date, so that its times are counted from 1970.
    #[serde(skip)]
    pub is_dated: bool,
}

/// Year from which logs without dates are counted.
const COUNTED_YEAR: &str = "1970-";

/// Writes a time, or `null` for one that was only counted.
fn serialize_date<S: serde::Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if text.starts_with(COUNTED_YEAR) { serializer.serialize_none() } else { serializer.serialize_str(text) }
}
