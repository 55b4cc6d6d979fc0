//! The timeline: one quantity of the machine over time, and the marks on it.

use diskwright_base::Note;
use diskwright_base::capture::MomentCapture;
use diskwright_diagnosis::verdict::event_sentence;
use serde::Serialize;

use crate::alerts::Alert;

/// One quantity over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TimelineView {
    /// Counter id.
    pub counter: String,
    /// Title on the screen.
    pub title: String,
    /// Its unit.
    pub unit: String,
    /// Means, evenly spaced from the start of the timeline to its end; `null` is a gap.
    pub means: Vec<Option<f64>>,
    /// For each mean, the largest value of a tick in its time; `null` is a gap.
    #[serde(rename = "most")]
    pub max: Vec<Option<f64>>,
}

/// A marked time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimelineMark {
    /// Nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// `bookmark`, `gap`, `missed`, `clock`, `warning`, `event`, `capture` or `alert`.
    pub kind: String,
    /// The text.
    pub text: String,
}

impl TimelineMark {
    /// Marks the beginning of an alert.
    pub(crate) fn from_alert(alert: &Alert) -> TimelineMark {
        TimelineMark { time_ns: alert.begin_ns, kind: Note::ALERT.to_owned(), text: alert.sentence.clone() }
    }
}

/// Mark of a note that the timeline shows; `None` for other notes.
pub(crate) fn mark_from_note(note: &Note) -> Option<TimelineMark> {
    if note.kind == Note::EVENT {
        let event = note.read_event().ok()?;
        let time_ns = event.time_ns.unwrap_or(note.time_ns);
        return Some(TimelineMark { time_ns, kind: note.kind.clone(), text: event_sentence(&event) });
    }
    if note.kind == Note::CAPTURE {
        let capture: MomentCapture = serde_json::from_str(note.text()).ok()?;
        return Some(TimelineMark { time_ns: note.time_ns, kind: note.kind.clone(), text: capture.short_text() });
    }
    [Note::BOOKMARK, Note::GAP, Note::MISSED, Note::CLOCK, Note::WARNING]
        .contains(&note.kind.as_str())
        .then(|| TimelineMark { time_ns: note.time_ns, kind: note.kind.clone(), text: note.text().to_owned() })
}
