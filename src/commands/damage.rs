//! Damage in the logs that a command reads. It is reported once on standard error, and in every answer as `damage[]`.

use diskwright_base::Note;
use diskwright_base::units::format_count;
use diskwright_datastore::{Damage, TrimSummary};
use serde_json::{Value, json};

use super::{Failure, output, time_argument};

/// Maximum number of lines on standard error.
const MAX_WARNING_LINES: usize = 20;
/// Maximum number of places that are stored; beyond it, only their sum is reported.
const MAX_PLACES: usize = 1000;

/// Places where data was lost.
#[derive(Default)]
pub struct Losses {
    places: Vec<Damage>,
    /// Number of further places.
    extra_places: u64,
    /// Number of ticks lost at further places, as far as it is known.
    extra_ticks: u64,
    /// True once the damage has been reported.
    is_reported: bool,
}

impl Losses {
    /// Records damage and returns the note for judges and pages.
    pub fn record_damage(&mut self, damage: Damage) -> Option<Note> {
        if self.is_reported {
            return gap_note(&damage);
        }
        if self.places.len() == MAX_PLACES {
            self.extra_places += 1;
            self.extra_ticks += damage.ticks.unwrap_or(0);
            return None;
        }
        let note = gap_note(&damage);
        self.places.push(damage);
        note
    }

    /// Reports the damage on standard error, once, however often the logs are read.
    pub fn report_losses(&mut self) {
        if std::mem::replace(&mut self.is_reported, true) || self.places.is_empty() {
            return;
        }
        for damage in self.places.iter().take(MAX_WARNING_LINES) {
            output::print_warning(damage);
        }
        let places = self.places.len() as u64 + self.extra_places;
        if places > MAX_WARNING_LINES as u64 {
            let further = places - MAX_WARNING_LINES as u64;
            let further = format_count(further, "more place is", "more places are");
            output::print_warning(format_args!("{further} damaged; in total {}", self.format_sum()));
        }
    }

    /// Formats `12 ticks are lost`; with "at least" if an unknown number was lost at some place.
    fn format_sum(&self) -> String {
        let ticks: u64 = self.places.iter().filter_map(|damage| damage.ticks).sum::<u64>() + self.extra_ticks;
        let has_unknown = self.places.iter().any(|damage| damage.ticks.is_none());
        match (ticks, has_unknown) {
            (0, true) => "an unknown number of ticks is lost".to_owned(),
            (ticks, true) => format!("at least {}", format_count(ticks, "tick is lost", "ticks are lost")),
            (ticks, false) => format_count(ticks, "tick is lost", "ticks are lost"),
        }
    }

    /// Fails if ticks are lost: for commands whose output replaces the log.
    pub fn require_none(&self) -> Result<(), Failure> {
        if self.extra_ticks == 0 && self.places.iter().all(|damage| damage.ticks == Some(0)) {
            return Ok(());
        }
        let sum = self.format_sum();
        Err(Failure::Failed(format!("all readable ticks were written, but {sum} (see --allow-damage)")))
    }

    /// Returns `damage[]` of an answer.
    pub fn to_json_entries(&self) -> Vec<Value> {
        let to_json = |damage: &Damage| {
            json!({
                "where": damage.describe_place(),
                "ticks_lost": damage.ticks,
                "because": damage.describe_cause(),
                "from": damage.after_ns.map(time_argument::rfc3339),
                "to": damage.before_ns.map(time_argument::rfc3339),
            })
        };
        let mut entries: Vec<Value> = self.places.iter().map(to_json).collect();
        if self.extra_places > 0 {
            let place = format!("{} further places", self.extra_places);
            entries.push(json!({
                "where": place,
                "ticks_lost": self.extra_ticks,
                "because": "too many to list",
                "from": null,
                "to": null,
            }));
        }
        entries
    }
}

/// Returns a gap note if ticks were lost.
fn gap_note(damage: &Damage) -> Option<Note> {
    let time_ns = damage.after_ns.or(damage.before_ns).unwrap_or(0);
    (damage.ticks != Some(0)).then(|| Note::new(time_ns, Note::GAP, format!("the log is damaged: {damage}")))
}

/// Returns `trimmed` of an answer.
pub fn trimmed_json(trimmed: Option<TrimSummary>) -> Value {
    trimmed.map_or(Value::Null, |trimmed| {
        json!({
            "segments": trimmed.segments,
            "ticks": trimmed.ticks,
            "bytes": trimmed.bytes,
            "from": trimmed.range.map(|range| time_argument::rfc3339(range.0)),
            "to": trimmed.range.map(|range| time_argument::rfc3339(range.1)),
        })
    })
}
