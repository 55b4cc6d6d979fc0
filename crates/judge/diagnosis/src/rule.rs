//! What a rule pack says, as data. `docs/rules.md` is the grammar; the loader
//! ([`crate::load`]) turns text into these types and lets nothing wrong through.

use diskwright_base::DeviceClass;
use serde::{Deserialize, Serialize};

use crate::advice::Advice;
use crate::names::RuleCounter;

/// A set of rules by one authority.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pack {
    /// Id, the file's name without `.toml`.
    pub id: String,
    /// The authority.
    pub title: String,
    /// Where its limits come from.
    pub source: String,
    /// What it judges and what it cannot know.
    pub explain: String,
    /// Logical disks may stand in for physical ones that a log lacks.
    pub stand_ins: bool,
    /// File it was read from, as it was named.
    pub file: String,
    /// The rules, in the file's order.
    pub rules: Vec<Rule>,
    /// Advice texts that its rules name, each once.
    pub advice: Vec<Advice>,
}

impl Pack {
    /// A rule by id.
    pub fn rule(&self, id: &str) -> Option<&Rule> {
        self.rules.iter().find(|r| r.id == id)
    }
}

/// What a rule points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// Too little memory; first suspect, for paging masquerades as disk.
    Memory,
    /// Disks do not keep up, or make each request wait.
    Disk,
    /// Processors are full.
    Cpu,
    /// Processors are full of interrupts or of copying for I/O.
    Interrupts,
    /// The channel or link to the disks is full.
    Channel,
    /// The controller is full.
    Controller,
    /// The network is full or fails.
    Network,
    /// The program's own way of asking.
    Application,
    /// A limit that somebody set.
    Throttle,
    /// A remark, or nothing.
    None,
    /// Something waits or queues, and the log cannot say whether it matters; or too little could be judged.
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

    /// True where it names something that holds the machine back.
    pub fn blames(self) -> bool {
        !matches!(self, Bottleneck::None | Bottleneck::Unknown)
    }
}

/// How bad it is when a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; blames nothing.
    Info,
    /// A sign.
    Warning,
    /// A cause by itself.
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

    /// What a finding of this severity weighs, where its rule says nothing else.
    pub fn weight(self) -> f64 {
        match self {
            Severity::Info => 0.0,
            Severity::Warning => 0.6,
            Severity::Critical => 1.0,
        }
    }
}

/// Which instances of its object a rule is judged for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InstanceFilter {
    /// Devices with nothing below them.
    Leaf,
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
    pub const ALL: [(&str, InstanceFilter); 5] = [
        ("leaf", InstanceFilter::Leaf),
        ("set", InstanceFilter::Set),
        ("stacked", InstanceFilter::Stacked),
        ("all", InstanceFilter::All),
        ("total", InstanceFilter::Total),
    ];
}

/// What it means for a rule when a log has other counters of the rule's object
/// but lacks one that the rule needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Absent {
    /// Nobody can tell: the rule is unjudged.
    Unjudged,
    /// There is no such thing here (a limit that nobody set): nothing to judge.
    Inapplicable,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// Id, unique in the pack, such as `disk.queue-per-spindle`.
    pub id: String,
    /// Reads on in a sentence after the instance and a colon.
    pub title: String,
    /// Catalogue object, or `machine`.
    pub object: String,
    /// What it points at.
    pub bottleneck: Bottleneck,
    /// How bad it is.
    pub severity: Severity,
    /// What it weighs in the ranking, 0 to 2; the severity's weight where not given.
    pub weight: f64,
    /// Instances it is judged for.
    pub which: InstanceFilter,
    /// Only on devices of these classes; empty for any.
    pub classes: Vec<DeviceClass>,
    /// Never on devices of these classes.
    pub except_classes: Vec<DeviceClass>,
    /// Only for these server roles; empty for any.
    pub roles: Vec<String>,
    /// What a missing counter means.
    pub absent: Absent,
    /// Conditions that must all hold at a tick.
    pub all: Vec<Condition>,
    /// Conditions of which at least one must hold too, where there are any.
    pub any: Vec<Condition>,
    /// Ids of rules of this pack that set this one aside.
    pub none: Vec<String>,
    /// Only where the log has none of these counters; empty: everywhere.
    pub without: Vec<RuleCounter>,
    /// How long it must hold.
    pub sustained: Sustained,
    /// Counters shown beside the finding.
    pub evidence: Vec<RuleCounter>,
    /// Where it comes from.
    pub source: String,
    /// Why it means what it means.
    pub explain: String,
    /// Advice ids, in the authority's order.
    pub advice: Vec<String>,
    /// When it raises an alert; `None` for a rule of verdicts alone.
    pub alert: Option<AlertTerms>,
    /// Line of its `[[rule]]` in the file, from 1.
    pub line: usize,
}

impl Rule {
    /// Every condition, those of `all` first.
    pub fn conditions(&self) -> impl Iterator<Item = &Condition> {
        self.all.iter().chain(&self.any)
    }
}

/// When a rule raises an alert, and when that ends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlertTerms {
    /// Seconds for which it must hold without a break.
    pub hold_s: f64,
    /// Conditions at which it ends; where there are none, it ends when the rule does not hold.
    pub clear: Vec<Condition>,
    /// Seconds for which it must have ended without a break.
    pub clear_hold_s: f64,
    /// Seconds after its end in which its cause raises no other.
    pub silence_s: f64,
}

/// How long a condition must hold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sustained {
    /// Share of the judged time.
    pub share: f64,
    /// Seconds in sum; capped at half of the window watched.
    pub at_least_s: f64,
    /// Seconds at a stretch, as alerts ask for them; capped like `at_least_s`.
    pub in_a_row_s: f64,
    /// Separate stretches.
    pub times: u64,
}

impl Sustained {
    /// Seconds asked for, in sum or at a stretch.
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
    /// What is compared.
    pub quantity: RuleQuantity,
    /// Over what span.
    pub over: ConditionSpan,
    /// How.
    pub compare: Comparator,
    /// With what.
    pub limit: RuleLimit,
}

impl Condition {
    /// True where the value is one of the whole window, known at its end.
    pub fn is_of_window(&self) -> bool {
        matches!(self.over, ConditionSpan::Steadiness | ConditionSpan::Trend)
            || self.quantity.names().any(RuleCounter::is_of_window)
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
    /// Divided among these.
    pub per: Option<QuantityDivisor>,
    /// Unit of the result.
    pub unit: String,
}

impl RuleQuantity {
    /// Every counter that it reads.
    pub fn names(&self) -> impl Iterator<Item = &RuleCounter> {
        let operands = [&self.times, &self.over].into_iter().filter_map(|o| match o {
            Some(Operand::Counter(name)) => Some(name),
            _ => None,
        });
        std::iter::once(&self.counter).chain(&self.plus).chain(&self.minus).chain(operands)
    }

    /// True where it is one counter as it stands.
    pub fn is_plain(&self) -> bool {
        self.plus.is_empty() && self.minus.is_empty() && self.times.is_none() && self.over.is_none()
    }

    /// The formula as people read it: `bytes_per_s / transfers_per_s`.
    pub fn text(&self) -> String {
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
            text += &format!(" x {}", times.text());
        }
        if let Some(over) = &self.over {
            text += &format!(" / {}", over.text());
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
    fn text(&self) -> String {
        match self {
            Operand::Number(number) => number.to_string(),
            Operand::Counter(name) => name.id.clone(),
        }
    }
}

/// What a quantity is divided among.
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

/// The span that a condition's value is of.
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

/// What a quantity is compared with.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RuleLimit {
    /// A number in the quantity's unit.
    Number(f64),
    /// A counter's value at the same tick, times a factor.
    Counter {
        /// The counter.
        counter: RuleCounter,
        /// The factor.
        times: f64,
    },
}
