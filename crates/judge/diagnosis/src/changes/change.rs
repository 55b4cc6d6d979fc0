//! A change of level, as verdicts report it.

use diskwright_base::ProcessPlace;
use diskwright_base::catalogue::display_unit;
use diskwright_base::counter_ids::pressure;
use diskwright_base::timestamp::format_rfc3339;
use serde::{Serialize, Serializer};

use crate::rules::Bottleneck;

/// A change of level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// When, RFC 3339.
    #[serde(rename = "at", serialize_with = "serialize_time")]
    pub time_ns: i64,
    /// When the level returned, RFC 3339; `null` where it lasts until the end of the window.
    #[serde(rename = "until", serialize_with = "serialize_optional_time")]
    pub until_ns: Option<i64>,
    /// The counter's id.
    pub counter: String,
    /// How texts call it: `latency`.
    #[serde(skip)]
    pub word: &'static str,
    /// Its instance; empty for the machine.
    pub instance: String,
    /// Unit of both values.
    pub unit: String,
    /// Mean before the change, from the change before it or the beginning of the window.
    pub before: f64,
    /// Mean after it, until the next change or the end of the window.
    pub after: f64,
    /// Time within which it is known when the change was, seconds.
    pub precision_s: f64,
    /// P-value: the probability that noise alone gives such a change anywhere in the log.
    pub significance: f64,
    /// What began at that moment, what does most first; empty where nothing that was recorded did.
    pub began: Vec<Beginning>,
    /// What stopped at that moment.
    pub ended: Vec<Beginning>,
}

/// Something that began or stopped.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beginning {
    /// Its kind.
    pub kind: BeganKind,
    /// The process, unit, mount point, array, or the bookmark's text.
    pub name: String,
    /// Process id.
    pub pid: Option<u32>,
    /// Command line of the process, secrets masked.
    pub command_line: Option<String>,
    /// Unit, container, pod or machine of the process.
    #[serde(flatten)]
    pub place: ProcessPlace,
    /// What it began or ceased to do, in words: `began to read, 52 MB/s`.
    pub what: String,
    /// Start of the time in which it began or stopped, RFC 3339: of processes, it is known by their tables.
    #[serde(serialize_with = "serialize_time")]
    pub from: i64,
    /// End of that time.
    #[serde(serialize_with = "serialize_time")]
    pub to: i64,
}

/// Kind of a beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BeganKind {
    /// A process.
    Process,
    /// A unit or another cgroup.
    Unit,
    /// A mount.
    Mount,
    /// A resync, check or scrub.
    Resync,
    /// A bookmark of `mark`.
    Bookmark,
    /// A limit of a cgroup.
    Limit,
}

impl Change {
    /// Unit in which screens show the values; see [`display_unit`].
    pub fn display_unit(&self) -> &str {
        display_unit(&self.counter, &self.unit)
    }

    /// True where the level rose.
    pub fn is_rise(&self) -> bool {
        self.after > self.before
    }

    /// True for a change of what is blamed, or of the pressure on it.
    pub fn bears_on(&self, bottleneck: Bottleneck, instance: &str) -> bool {
        let object = self.counter.split_once('.').map_or("", |(object, _)| object);
        match bottleneck {
            _ if !self.instance.is_empty() => self.instance == instance,
            Bottleneck::Interrupts if object == "interrupts" => true,
            Bottleneck::Cpu | Bottleneck::Interrupts => {
                matches!(object, "system" | "processor") || self.counter == pressure::CPU_SOME
            }
            Bottleneck::Memory => object == "paging" || self.counter == pressure::MEMORY_SOME,
            _ => self.counter == pressure::IO_SOME,
        }
    }

    /// True where another change was at the same moment, as far as both are known.
    pub fn is_at_same_moment(&self, other: &Change) -> bool {
        let precision_s = self.precision_s.max(other.precision_s);
        (self.time_ns.abs_diff(other.time_ns) as f64) <= 2.0 * precision_s * 1e9
    }
}

fn serialize_time<S: Serializer>(time_ns: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    format_rfc3339(*time_ns).serialize(serializer)
}

fn serialize_optional_time<S: Serializer>(time_ns: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    time_ns.map(format_rfc3339).serialize(serializer)
}
