//! Rule packs as data. `docs/rules.md` describes the grammar; [`super::pack_reader`] turns text into these types
//! and rejects everything invalid.

use diskwright_base::{DeviceClass, EventKind};
use serde::{Deserialize, Serialize};

use crate::rules::advice::Advice;
use crate::rules::counter_names::RuleCounter;
use crate::rules::log_origin::LogOrigin;

/// A set of rules by one authority.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pack {
    /// Id, the file's name without `.toml`.
    pub id: String,
    /// The authority.
    pub title: String,
    /// Source of its limits.
    pub source: String,
    /// Description of what it judges and what it cannot know.
    pub explain: String,
    /// Logical disks may stand in for physical ones that a log lacks.
    pub stand_ins: bool,
    /// Its authority writes of Windows: remedies are explained in the words of that system.
    pub is_of_windows: bool,
    /// File that it was read from, as the caller named it.
    pub file: String,
    /// The rules, in the file's order.
    pub rules: Vec<Rule>,
    /// Advice texts that its rules name, each once.
    pub advice: Vec<Advice>,
}

impl Pack {
    /// A rule by id.
    pub fn find_rule(&self, id: &str) -> Option<&Rule> {
        self.rules.iter().find(|r| r.id == id)
    }
}

/// Bottleneck that a rule points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// Too little memory; the first suspect, because paging looks like a slow disk.
    Memory,
    /// Disks cannot keep up, or make each request wait.
    Disk,
    /// Processors are saturated.
    Cpu,
    /// Processors are saturated by interrupts or by copying for I/O.
    Interrupts,
    /// The channel or link to the disks is saturated.
    Channel,
    /// The controller is saturated.
    Controller,
    /// The network is saturated or fails.
    Network,
    /// The program's own I/O pattern.
    Application,
    /// A configured limit.
    Throttle,
    /// A remark, or nothing.
    None,
    /// Something waits or queues, and the log does not show whether that matters; or too little could be judged.
    Unknown,
}

impl Bottleneck {
    /// All, in the documents' order of suspicion; those that blame nothing last.
    pub const ALL: [Bottleneck; 11] = [
        Bottleneck::Memory,
        Bottleneck::Disk,
        Bottleneck::Cpu,
        Bottleneck::Interrupts,
        Bottleneck::Channel,
        Bottleneck::Controller,
        Bottleneck::Network,
        Bottleneck::Application,
        Bottleneck::Throttle,
        Bottleneck::None,
        Bottleneck::Unknown,
    ];

    /// True for what stores or carries data: a disk, channel or controller, or a limit of a disk itself, such as that
    /// of a volume. `object` is that of the leading finding: a cgroup at its limit is not short of disks.
    pub fn is_of_storage(self, object: &str) -> bool {
        match self {
            Bottleneck::Disk | Bottleneck::Channel | Bottleneck::Controller => true,
            Bottleneck::Throttle => object == "physical_disk",
            _ => false,
        }
    }

    /// Its name in rule packs and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Bottleneck::Memory => "memory",
            Bottleneck::Disk => "disk",
            Bottleneck::Cpu => "cpu",
            Bottleneck::Interrupts => "interrupts",
            Bottleneck::Channel => "channel",
            Bottleneck::Controller => "controller",
            Bottleneck::Network => "network",
            Bottleneck::Application => "application",
            Bottleneck::Throttle => "throttle",
            Bottleneck::None => "none",
            Bottleneck::Unknown => "unknown",
        }
    }

    /// True where it names a bottleneck (not `None` or `Unknown`).
    pub fn blames(self) -> bool {
        !matches!(self, Bottleneck::None | Bottleneck::Unknown)
    }
}

/// Severity of a rule that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; blames nothing.
    Info,
    /// A sign.
    Warning,
    /// Enough to be a bottleneck.
    Critical,
}

impl Severity {
    /// All, mildest first.
    pub const ALL: [Severity; 3] = [Severity::Info, Severity::Warning, Severity::Critical];

    /// Its name in rule packs and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }

    /// Weight of a finding of this severity, where its rule sets none.
    pub fn default_weight(self) -> f64 {
        match self {
            Severity::Info => 0.0,
            Severity::Warning => 0.6,
            Severity::Critical => 1.0,
        }
    }
}

/// Instances of its object for which a rule is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InstanceFilter {
    /// Devices with nothing below them.
    Leaf,
    /// Those of them that are not known to be arrays.
    Single,
    /// Arrays.
    Set,
    /// Devices that stand on others.
    Stacked,
    /// Every instance.
    All,
    /// Once, on the sum or mean over the instances.
    Total,
}

impl InstanceFilter {
    /// All, for the loader and for lists.
    pub const ALL: [(&str, InstanceFilter); 6] = [
        ("leaf", InstanceFilter::Leaf),
        ("single", InstanceFilter::Single),
        ("set", InstanceFilter::Set),
        ("stacked", InstanceFilter::Stacked),
        ("all", InstanceFilter::All),
        ("total", InstanceFilter::Total),
    ];
}

/// Meaning of a missing counter, where a log has other counters of the rule's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Absent {
    /// Nothing is known: the rule is unjudged.
    Unjudged,
    /// The thing does not exist (such as a limit that is not set): there is nothing to judge.
    Inapplicable,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// Id, unique in the pack, such as `disk.queue-per-spindle`.
    pub id: String,
    /// Statement of the rule; it continues a sentence after the instance and a colon.
    pub title: String,
    /// Catalogue object, or `machine`.
    pub object: String,
    /// Bottleneck that it points at.
    pub bottleneck: Bottleneck,
    /// Severity.
    pub severity: Severity,
    /// Weight in the ranking, 0 to 2; the severity's weight where not given.
    pub weight: f64,
    /// It is on facts that only some tools print: a log without them is neither more nor less certain.
    pub optional: bool,
    /// It is on a state or a total since boot, which one look shows as well as many.
    pub lasting: bool,
    /// Largest confidence of a verdict that such rules alone give, 0 to 1.
    pub confidence: f64,
    /// Instances it is judged for.
    pub which: InstanceFilter,
    /// Only on devices of these classes; empty for any.
    pub classes: Vec<DeviceClass>,
    /// Never on devices of these classes.
    pub except_classes: Vec<DeviceClass>,
    /// Only for these server roles; empty for any.
    pub roles: Vec<String>,
    /// Never for these server roles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub except_roles: Vec<String>,
    /// Meaning of a missing counter.
    pub absent: Absent,
    /// Conditions that must all hold at a tick.
    pub all: Vec<Condition>,
    /// Conditions of which at least one must hold too, where there are any.
    pub any: Vec<Condition>,
    /// Ids of rules of this pack that set this one aside.
    pub none: Vec<String>,
    /// Applies only where the log has none of these counters; empty for everywhere.
    pub without: Vec<RuleCounter>,
    /// Time for which it must hold.
    pub sustained: Sustained,
    /// Counters shown with the finding.
    pub evidence: Vec<RuleCounter>,
    /// Source of the rule.
    pub source: String,
    /// Explanation of the rule.
    pub explain: String,
    /// Explanation in the words of Windows, for its logs; absent where `explain` is right there too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<String>,
    /// Advice ids, in the authority's order.
    pub advice: Vec<String>,
    /// Terms of its alert; `None` for a rule of verdicts only.
    pub alert: Option<AlertTerms>,
    /// Line of its `[[rule]]` in the file, from 1.
    pub line: usize,
}

impl Rule {
    /// Every condition, those of `all` first.
    pub fn conditions(&self) -> impl Iterator<Item = &Condition> {
        self.all.iter().chain(&self.any)
    }

    /// True where it depends on this role.
    pub fn names_role(&self, role: &str) -> bool {
        self.roles.iter().chain(&self.except_roles).any(|listed| listed == role)
    }

    /// True where it is judged for a machine in this role, or in none.
    pub fn is_for_role(&self, role: Option<&str>) -> bool {
        let is_named = |roles: &[String]| role.is_some_and(|role| roles.iter().any(|listed| listed == role));
        (self.roles.is_empty() || is_named(&self.roles)) && !is_named(&self.except_roles)
    }

    /// The explanation in the words of the system that a log is of.
    pub fn explain_for(&self, source: LogOrigin) -> &str {
        let own = self.windows.as_deref().filter(|_| source == LogOrigin::Perfmon);
        own.unwrap_or(&self.explain).trim()
    }
}

/// Terms on which a rule raises an alert, and on which the alert ends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlertTerms {
    /// Seconds for which it must hold without a break.
    pub hold_s: f64,
    /// Conditions that end it; where there are none, it ends when the rule does not hold.
    pub clear: Vec<Condition>,
    /// Seconds for which these must hold without a break.
    pub clear_hold_s: f64,
    /// Seconds after its end in which the same cause raises no other alert.
    pub silence_s: f64,
    /// The events that it is about: they say what happened to whom.
    pub event: Option<EventKind>,
}

/// Time for which a rule must hold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sustained {
    /// Share of the judged time.
    pub share: f64,
    /// Seconds in total; capped at half of the window.
    pub at_least_s: f64,
    /// Seconds without a break, as alerts require them; capped like `at_least_s`.
    pub in_a_row_s: f64,
    /// Separate stretches.
    pub times: u64,
}

impl Sustained {
    /// Required seconds, in total or without a break, whichever is more.
    pub fn longest_s(&self) -> f64 {
        self.at_least_s.max(self.in_a_row_s)
    }
}

impl Default for Sustained {
    fn default() -> Self {
        Sustained { share: 0.5, at_least_s: 0.0, in_a_row_s: 0.0, times: 1 }
    }
}

/// One comparison of a quantity with a limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Condition {
    /// The compared quantity.
    pub quantity: RuleQuantity,
    /// Span of its value.
    pub over: ConditionSpan,
    /// The comparison.
    pub compare: Comparator,
    /// The limit.
    pub limit: RuleLimit,
}

impl Condition {
    /// True where the value is one of the whole window, known at its end.
    pub fn is_window_value(&self) -> bool {
        matches!(self.over, ConditionSpan::Steadiness | ConditionSpan::Trend)
            || self.quantity.counters().any(RuleCounter::is_window_value)
    }

    /// Text of the quantity with its span.
    pub fn quantity_text(&self) -> String {
        let text = self.quantity.formula_text();
        match self.over {
            ConditionSpan::Tick => text,
            ConditionSpan::Change { .. } => format!("change of {text}"),
            ConditionSpan::Step => format!("change from tick to tick of {text}"),
            ConditionSpan::Norm => format!("{text} over its own median of a day"),
            ConditionSpan::RunsOut => format!("time until {text} is used up"),
            ConditionSpan::Steadiness => format!("variation of {text}"),
            ConditionSpan::Trend => format!("trend of {text}"),
        }
    }

    /// Unit of the condition's value; relative values have none.
    pub fn unit(&self) -> String {
        match self.over {
            ConditionSpan::Tick => self.quantity.unit.clone(),
            ConditionSpan::RunsOut => "s".into(),
            _ => String::new(),
        }
    }

    /// The limit where it is a number; `None` where it is another counter.
    pub fn fixed_limit(&self) -> Option<f64> {
        match &self.limit {
            RuleLimit::Number(limit) | RuleLimit::EachDisk { each_disk: limit } => Some(*limit),
            RuleLimit::Counter { .. } => None,
        }
    }

    /// Text of the quantity, its limit where that is a number, and their unit.
    pub fn display_parts(&self) -> (String, Option<f64>, String) {
        (self.quantity_text(), self.fixed_limit(), self.unit())
    }
}

/// A quantity made of counters: `(counter + plus - minus) * times / over / per`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleQuantity {
    /// The first counter.
    pub counter: RuleCounter,
    /// Added.
    pub plus: Vec<RuleCounter>,
    /// Subtracted; the result is never below zero.
    pub minus: Vec<RuleCounter>,
    /// Factor.
    pub times: Option<Operand>,
    /// Divisor.
    pub over: Option<Operand>,
    /// Spindles or processors that it is divided among.
    pub per: Option<QuantityDivisor>,
    /// Unit of the result.
    pub unit: String,
}

impl RuleQuantity {
    /// Every counter that it reads.
    pub fn counters(&self) -> impl Iterator<Item = &RuleCounter> {
        let operands = [&self.times, &self.over].into_iter().filter_map(|o| match o {
            Some(Operand::Counter(name)) => Some(name),
            _ => None,
        });
        std::iter::once(&self.counter).chain(&self.plus).chain(&self.minus).chain(operands)
    }

    /// True where it is a single counter without arithmetic.
    pub fn is_plain(&self) -> bool {
        self.plus.is_empty() && self.minus.is_empty() && self.times.is_none() && self.over.is_none()
    }

    /// The formula as text: `bytes_per_s / transfers_per_s`.
    pub fn formula_text(&self) -> String {
        let mut text = self.counter.id.clone();
        for name in &self.plus {
            text += &format!(" + {}", name.id);
        }
        for name in &self.minus {
            text += &format!(" - {}", name.id);
        }
        let sum = !self.plus.is_empty() || !self.minus.is_empty();
        if sum && (self.times.is_some() || self.over.is_some() || self.per.is_some()) {
            text = format!("({text})");
        }
        if let Some(times) = &self.times {
            text += &format!(" x {}", times.operand_text());
        }
        if let Some(over) = &self.over {
            text += &format!(" / {}", over.operand_text());
        }
        match self.per {
            Some(per) => text + " per " + per.name(),
            None => text,
        }
    }
}

/// A factor or divisor.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Operand {
    /// A number.
    Number(f64),
    /// A counter's value.
    Counter(RuleCounter),
}

impl Operand {
    fn operand_text(&self) -> String {
        match self {
            Operand::Number(number) => number.to_string(),
            Operand::Counter(name) => name.id.clone(),
        }
    }
}

/// Number that a quantity is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QuantityDivisor {
    /// Leaves under the device, or all of the machine.
    Spindle,
    /// Processors.
    Processor,
}

impl QuantityDivisor {
    /// Its name in rule packs.
    pub fn name(self) -> &'static str {
        match self {
            QuantityDivisor::Spindle => "spindle",
            QuantityDivisor::Processor => "processor",
        }
    }
}

/// Span over which a condition's value is computed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConditionSpan {
    /// Each tick.
    Tick,
    /// Each tick, relative to the mean of the window's first part.
    Change {
        /// That part, as a share of the window.
        share: f64,
    },
    /// Each tick, relative to the tick before.
    Step,
    /// Each tick, relative to its own median of the last day.
    Norm,
    /// Seconds until the quantity is used up, by its trend.
    RunsOut,
    /// Coefficient of variation over the ticks at which the other conditions hold.
    Steadiness,
    /// Slope a day over those ticks, relative to their mean.
    Trend,
}

/// The comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparator {
    /// Greater than the limit.
    Above,
    /// Greater or equal.
    AtLeast,
    /// Less than the limit.
    Below,
    /// Less or equal.
    AtMost,
}

impl Comparator {
    /// All, for the loader.
    pub const ALL: [(&str, Comparator); 4] = [
        ("above", Comparator::Above),
        ("at_least", Comparator::AtLeast),
        ("below", Comparator::Below),
        ("at_most", Comparator::AtMost),
    ];

    /// Its name in rule packs and in JSON.
    pub fn name(self) -> &'static str {
        Comparator::ALL.iter().find(|(_, compare)| *compare == self).map_or("", |(name, _)| name)
    }

    /// Compares; false where either is `NaN`.
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Comparator::Above => value > limit,
            Comparator::AtLeast => value >= limit,
            Comparator::Below => value < limit,
            Comparator::AtMost => value <= limit,
        }
    }

    /// True where large values are the bad ones.
    pub fn is_upper(self) -> bool {
        matches!(self, Comparator::Above | Comparator::AtLeast)
    }
}

/// Limit of a condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RuleLimit {
    /// A number in the quantity's unit.
    Number(f64),
    /// A number for each disk behind the device: an array of ten may have ten times as many requests in flight.
    EachDisk {
        /// The number, in the quantity's unit.
        each_disk: f64,
    },
    /// A counter's value at the same tick, times a factor.
    Counter {
        /// The counter.
        counter: RuleCounter,
        /// The factor.
        times: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stores_or_carries_data_is_of_storage() {
        let is_disks =
            |object: &str| Bottleneck::ALL.into_iter().filter(|b| b.is_of_storage(object)).collect::<Vec<_>>();
        assert_eq!(is_disks("cgroup"), [Bottleneck::Disk, Bottleneck::Channel, Bottleneck::Controller]);
        // a cloud volume at its cap
        assert!(is_disks("physical_disk").contains(&Bottleneck::Throttle));
    }
}
