//! Damage in logs: the places, and how many ticks were lost.

use diskwright_base::Note;
use diskwright_base::units::format_count;
use diskwright_datastore::Damage;

use crate::report::Reporter;

/// Maximum number of warnings.
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

    /// Reports the damage once, however often the logs are read.
    pub fn report_losses(&mut self, reporter: &Reporter) {
        if std::mem::replace(&mut self.is_reported, true) || self.places.is_empty() {
            return;
        }
        for damage in self.places.iter().take(MAX_WARNING_LINES) {
            reporter.warn(damage);
        }
        let places = self.places.len() as u64 + self.extra_places;
        if places > MAX_WARNING_LINES as u64 {
            let further = places - MAX_WARNING_LINES as u64;
            let further = format_count(further, "more place is", "more places are");
            reporter.warn(format_args!("{further} damaged; in total {}", self.format_sum()));
        }
    }

    /// Formats `12 ticks are lost`; with "at least" if an unknown number was lost at some place.
    pub fn format_sum(&self) -> String {
        let ticks: u64 = self.places.iter().filter_map(|damage| damage.ticks).sum::<u64>() + self.extra_ticks;
        let has_unknown = self.places.iter().any(|damage| damage.ticks.is_none());
        match (ticks, has_unknown) {
            (0, true) => "an unknown number of ticks is lost".to_owned(),
            (ticks, true) => format!("at least {}", format_count(ticks, "tick is lost", "ticks are lost")),
            (ticks, false) => format_count(ticks, "tick is lost", "ticks are lost"),
        }
    }

    /// The places that are stored.
    pub fn places(&self) -> &[Damage] {
        &self.places
    }

    /// Number of places that are not stored, and of the ticks that are known to be lost there.
    pub fn unlisted_places_and_ticks(&self) -> (u64, u64) {
        (self.extra_places, self.extra_ticks)
    }

    /// True if no tick is lost.
    pub fn has_no_lost_ticks(&self) -> bool {
        self.extra_ticks == 0 && self.places.iter().all(|damage| damage.ticks == Some(0))
    }
}

/// Returns a gap note if ticks were lost.
fn gap_note(damage: &Damage) -> Option<Note> {
    let time_ns = damage.after_ns.or(damage.before_ns).unwrap_or(0);
    (damage.ticks != Some(0)).then(|| Note::new(time_ns, Note::GAP, format!("the log is damaged: {damage}")))
}
