//! Remedies: texts in `rules/advice.toml` that rules refer to by id.

mod actions;

use std::sync::OnceLock;

use diskwright_base::DeviceClass;
use serde::Serialize;

use crate::rules::log_origin::LogOrigin;
use crate::rules::pack_reader::DEVICE_CLASSES;
use diskwright_base::Problems;
use diskwright_base::toml_reader::{TomlFields, TomlSource};

pub(crate) use actions::{ActionFacts, fitting_actions, honors_priorities, is_batch_program, is_server_program};

/// One remedy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Id that rules name, such as `memory.add`.
    pub id: String,
    /// Text of the remedy.
    pub text: String,
    /// Modern equivalent of a historical remedy; empty where the text is modern.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub modern: String,
    /// Source of the remedy.
    pub source: String,
    /// Cost from 1 (a setting) to 9 (another machine).
    pub cost: u8,
    /// Command that does it; only of remedies that were made for this finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Command that takes it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
    /// Text for a log of Windows; `none` where the remedy does not exist there, absent where `text` is right.
    #[serde(skip_serializing)]
    pub windows: Option<String>,
    /// Text for a log of another Unix, in the same way.
    #[serde(skip_serializing)]
    pub unix: Option<String>,
    /// Condition on load and device.
    #[serde(skip_serializing)]
    pub when: AdviceCondition,
}

impl Advice {
    /// The remedy in words, with its command and the way back.
    pub fn sentence(&self) -> String {
        match (&self.command, &self.undo) {
            (None, _) => self.text.clone(),
            (Some(command), None) => format!("{} `{command}`", self.text),
            (Some(command), Some(undo)) => format!("{} `{command}` (back: `{undo}`)", self.text),
        }
    }

    /// The remedy in the words of the system that a log is of; `None` where it does not exist there.
    pub fn for_system(&self, source: LogOrigin) -> Option<Advice> {
        let own_text = match source {
            LogOrigin::Perfmon => &self.windows,
            LogOrigin::Unix => &self.unix,
            _ => &None,
        };
        match own_text.as_deref() {
            None => Some(self.clone()),
            Some("none") => None,
            Some(text) => Some(Advice { text: text.to_owned(), ..self.clone() }),
        }
    }
}

/// Condition of a remedy. The remedy is withheld only where a known fact contradicts the condition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdviceCondition {
    /// Only where at least a fifth of the requests or bytes have this direction.
    pub direction: Option<IoDirection>,
    /// Only where a request (of that direction, if one is given) has fewer bytes than this on average.
    pub size_below: Option<f64>,
    /// Only where a request has at least this many bytes on average.
    pub size_at_least: Option<f64>,
    /// Only where fewer requests than this are in flight.
    pub queue_below: Option<f64>,
    /// Only where at least this many requests are in flight.
    pub queue_at_least: Option<f64>,
    /// Only for devices of these classes; a device of unknown class matches none.
    pub classes: Vec<DeviceClass>,
    /// Never for devices of these classes.
    pub except_classes: Vec<DeviceClass>,
    /// Only for findings about these objects.
    pub objects: Vec<String>,
    /// Only where the device's write cache is not known to be on.
    pub write_cache_off: bool,
}

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoDirection {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// Known facts about the load and device of a finding.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadFacts<'a> {
    pub object: &'a str,
    pub class: Option<DeviceClass>,
    pub reads_per_s: Option<f64>,
    pub writes_per_s: Option<f64>,
    pub read_bytes_per_s: Option<f64>,
    pub write_bytes_per_s: Option<f64>,
    pub transfers_per_s: Option<f64>,
    pub bytes_per_s: Option<f64>,
    pub in_flight: Option<f64>,
    pub write_cache_on: bool,
}

/// Smallest share of the requests or bytes for a direction to count.
const MIN_DIRECTION_SHARE: f64 = 0.2;

impl LoadFacts<'_> {
    /// True unless hardly any requests or bytes are known to have this direction.
    fn has_direction(&self, direction: IoDirection) -> bool {
        let share = |reads: Option<f64>, writes: Option<f64>| {
            let (reads, writes) = (reads?, writes?);
            let in_direction = if direction == IoDirection::Read { reads } else { writes };
            (reads + writes > 0.0).then(|| in_direction / (reads + writes))
        };
        let shares = [share(self.reads_per_s, self.writes_per_s), share(self.read_bytes_per_s, self.write_bytes_per_s)];
        let mut known = shares.into_iter().flatten().peekable();
        known.peek().is_none() || known.any(|share| share >= MIN_DIRECTION_SHARE)
    }

    /// Mean bytes of a request, of one direction or of both.
    fn mean_request_bytes(&self, direction: Option<IoDirection>) -> Option<f64> {
        let (count, bytes) = match direction {
            Some(IoDirection::Read) => (self.reads_per_s?, self.read_bytes_per_s?),
            Some(IoDirection::Write) => (self.writes_per_s?, self.write_bytes_per_s?),
            None => match (self.reads_per_s, self.writes_per_s, self.read_bytes_per_s, self.write_bytes_per_s) {
                (Some(reads), Some(writes), Some(read), Some(written)) => (reads + writes, read + written),
                _ => (self.transfers_per_s?, self.bytes_per_s?),
            },
        };
        (count > 0.0).then(|| bytes / count)
    }
}

impl AdviceCondition {
    /// True unless a known fact contradicts the condition.
    pub(crate) fn matches_facts(&self, facts: &LoadFacts<'_>) -> bool {
        let size = facts.mean_request_bytes(self.direction);
        let is_below = |value: Option<f64>, limit: Option<f64>| limit.is_none_or(|l| value.is_none_or(|v| v < l));
        let is_at_least = |value: Option<f64>, limit: Option<f64>| limit.is_none_or(|l| value.is_none_or(|v| v >= l));
        let class = facts.class.unwrap_or(DeviceClass::Unknown);
        self.direction.is_none_or(|direction| facts.has_direction(direction))
            && is_below(size, self.size_below)
            && is_at_least(size, self.size_at_least)
            && is_below(facts.in_flight, self.queue_below)
            && is_at_least(facts.in_flight, self.queue_at_least)
            && (self.classes.is_empty() || self.classes.contains(&class))
            && !self.except_classes.contains(&class)
            && !(self.write_cache_off && facts.write_cache_on)
            && (self.objects.is_empty() || self.objects.iter().any(|object| object == facts.object))
    }
}

fn read_advice_condition(fields: &TomlFields<'_, '_>) -> AdviceCondition {
    let directions = [("read", IoDirection::Read), ("write", IoDirection::Write)];
    let number = |key| fields.read_number(key, 0.0, f64::MAX);
    let when = AdviceCondition {
        direction: fields.read_word("direction", &directions),
        size_below: number("size_below"),
        size_at_least: number("size_at_least"),
        queue_below: number("queue_below"),
        queue_at_least: number("queue_at_least"),
        classes: fields.read_words("classes", DEVICE_CLASSES),
        except_classes: fields.read_words("except_classes", DEVICE_CLASSES),
        write_cache_off: fields.read_bool("write_cache_off").unwrap_or(false),
        objects: fields.read_texts("objects").into_iter().map(|(object, _)| object.to_owned()).collect(),
    };
    fields.reject_unknown_keys();
    when
}

/// The built-in remedies.
///
/// # Panics
/// Where `rules/advice.toml` is wrong, which a test excludes.
pub fn builtin_advice() -> &'static [Advice] {
    static BUILTIN: OnceLock<Vec<Advice>> = OnceLock::new();
    BUILTIN.get_or_init(|| {
        let text = include_str!("../../../../../rules/advice.toml");
        load_advice("rules/advice.toml", text).unwrap_or_else(|error| panic!("{error}"))
    })
}

/// Reads a file that has only `[[advice]]` tables.
///
/// # Errors
/// Everything that is wrong, by line.
pub fn load_advice(file: &str, text: &str) -> Result<Vec<Advice>, Problems> {
    let source = TomlSource::new(file, text);
    let list = source.parse().map(|table| {
        let top = TomlFields::for_root_table(&source, &table);
        let list = read_advice_list(&top);
        top.reject_unknown_keys();
        list
    });
    source.into_result(list).map(|(list, _)| list)
}

/// Reads the `[[advice]]` tables of a file.
pub(crate) fn read_advice_list(top: &TomlFields<'_, '_>) -> Vec<Advice> {
    let mut list: Vec<Advice> = Vec::new();
    for value in top.read_tables("advice") {
        let Some(mut fields) = TomlFields::from_value(top.source, "advice", value) else { continue };
        let Some(advice) = read_advice(&mut fields) else { continue };
        if list.iter().any(|a| a.id == advice.id) {
            fields.report_problem("a second advice with this id");
        }
        list.push(advice);
    }
    list
}

fn read_advice(fields: &mut TomlFields<'_, '_>) -> Option<Advice> {
    let id = fields.require_text("id", "\"disk.spread\"");
    fields.item = id.map_or("advice".to_owned(), |id| format!("advice {id}"));
    let text = fields.require_text("text", "\"Add a disk.\"");
    let modern = fields.read_text("modern").unwrap_or_default().to_owned();
    let source = fields.require_text("source", "\"ours\"");
    if !fields.has_key("cost") {
        fields.report_missing("cost", "5");
    }
    let cost = fields.read_integer("cost", 1, 9);
    let own_text = |key: &'static str| fields.read_text(key).map(str::to_owned);
    let (windows, unix) = (own_text("windows"), own_text("unix"));
    let when = fields.read_table_same_item("when").map(|when| read_advice_condition(&when)).unwrap_or_default();
    fields.reject_unknown_keys();
    let (id, text, source) = (id?.to_owned(), text?.to_owned(), source?.to_owned());
    let cost = cost? as u8;
    Some(Advice { id, text, modern, source, cost, command: None, undo: None, windows, unix, when })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_texts_are_read() {
        assert!(builtin_advice().iter().any(|a| a.id == "memory.add"));
    }

    #[test]
    fn a_remedy_is_told_in_the_words_of_the_system() {
        let text = "[[advice]]\nid = \"a\"\ntext = \"t\"\nwindows = \"w\"\nunix = \"none\"\nsource = \"s\"\ncost = 1\n";
        let list = load_advice("rules/advice.toml", text).expect("valid");
        let text_of = |source| list[0].for_system(source).map(|advice| advice.text);
        assert_eq!(text_of(LogOrigin::Sysstat).as_deref(), Some("t"));
        assert_eq!(text_of(LogOrigin::Perfmon).as_deref(), Some("w"));
        assert_eq!(text_of(LogOrigin::Unix), None);
    }

    #[test]
    fn wrong_texts_are_refused_with_their_line() {
        let text = "[[advice]]\nid = \"a\"\ntext = \"t\"\nsource = \"s\"\ncost = 10\n";
        let error = load_advice("rules/advice.toml", text).unwrap_err();
        assert_eq!(
            error.to_string(),
            "rules/advice.toml:5: advice a: `cost` is 10; expected a whole number from 1 to 9"
        );
    }
}
