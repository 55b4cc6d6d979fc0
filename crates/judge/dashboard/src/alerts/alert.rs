//! An alert: time, bottleneck, culprits, next step. The JSON contract `diskwright.alert/1`.

use diskwright_base::Note;
use diskwright_base::catalogue::display_unit;
use diskwright_base::timestamp::format_rfc3339;
use diskwright_diagnosis::{Bottleneck, Culprit, Severity};
use serde::{Deserialize, Serialize};

/// Name of the contract.
pub const SCHEMA: &str = "diskwright.alert/1";

/// Interval at which a lasting alert is written to the log again, nanoseconds: readers of a part of a log look back
/// this far for alerts that began before it.
pub const RESTATE_INTERVAL_NS: i64 = 600_000_000_000;

/// An alert: a rule held for its hold time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// `diskwright.alert/1`.
    pub schema: String,
    /// The rule's id.
    pub id: String,
    /// Severity of the most severe rule.
    pub severity: Severity,
    /// Bottleneck that it points at.
    pub bottleneck: Bottleneck,
    /// The device, filesystem or cgroup that it is about; empty for the machine.
    pub instance: String,
    /// Time at which the rule began to hold, RFC 3339 in UTC.
    pub begin: String,
    /// Time at which it ended; `null` while it lasts.
    pub end: Option<String>,
    /// The beginning as a number: nanoseconds since 1970 UTC.
    pub begin_ns: i64,
    /// The end as a number: nanoseconds since 1970 UTC.
    pub end_ns: Option<i64>,
    /// Time at which the alert was raised, the hold time after its beginning: nanoseconds since 1970 UTC.
    pub raised_ns: i64,
    /// The worst value.
    pub peak: AlertPeak,
    /// Further rules of the same cause that held meanwhile, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// The bottlenecks that alternated, the most frequent first; empty where one lasted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternated: Vec<AlternatedBottleneck>,
    /// Culprits, by the verdict on the time before it was raised.
    pub culprits: Vec<Culprit>,
    /// Description in one sentence.
    pub sentence: String,
    /// Next step; empty where none is known.
    #[serde(rename = "next")]
    pub next_step: String,
}

/// One of several bottlenecks that alternated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlternatedBottleneck {
    /// The bottleneck.
    pub bottleneck: Bottleneck,
    /// Its instance; empty for the machine.
    pub instance: String,
    /// Share of the verdicts that named it.
    pub share: f64,
}

/// The worst value of an alert so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlertPeak {
    /// The quantity in full.
    pub quantity: String,
    /// Its worst value; `null` where it is unknown.
    pub value: Option<f64>,
    /// The rule's limit; `null` where it is another counter.
    pub limit: Option<f64>,
    /// Unit of both.
    pub unit: String,
    /// Time of that value, RFC 3339 in UTC.
    pub time: String,
}

impl AlertPeak {
    /// Unit in which screens show the values; see [`display_unit`]. The unit of a formula of several counters stays as
    /// it is.
    pub fn display_unit(&self) -> &str {
        display_unit(&self.quantity, &self.unit)
    }
}

impl Alert {
    /// True until it ends.
    pub fn is_open(&self) -> bool {
        self.end_ns.is_none()
    }

    /// Sets its end.
    pub fn end_at(&mut self, time_ns: i64) {
        self.end_ns = Some(time_ns);
        self.end = Some(format_rfc3339(time_ns));
    }

    /// The note that keeps it in a log.
    pub fn to_log_note(&self, time_ns: i64) -> Note {
        let text = serde_json::to_string(self).expect("an alert is text and numbers");
        Note::new(time_ns, Note::ALERT, text)
    }

    /// True where both are the same alert at different times.
    pub fn is_same(&self, other: &Alert) -> bool {
        (self.begin_ns, &self.id, &self.instance) == (other.begin_ns, &other.id, &other.instance)
    }
}

/// Adds an alert's newest state to a list that has each alert once, sorted by its beginning.
pub fn merge_alert(alerts: &mut Vec<Alert>, alert: Alert) {
    match alerts.iter_mut().find(|known| known.is_same(&alert)) {
        // an ended alert stays ended, whichever note is read last
        Some(known) if alert.end_ns.is_some() || known.is_open() => *known = alert,
        Some(_) => {}
        None => {
            let index = alerts.partition_point(|known| known.begin_ns <= alert.begin_ns);
            alerts.insert(index, alert);
        }
    }
}

/// The alert of a note; `None` for other notes and for an unreadable one.
pub fn alert_from_note(note: &Note) -> Option<Alert> {
    (note.kind == Note::ALERT).then(|| serde_json::from_str(note.text()).ok()).flatten()
}
