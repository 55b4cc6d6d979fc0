//! Notes that the sampler collects. A problem that recurs at every tick is noted once per minute, with a count: a note
//! for each tick and each of a thousand disks would hide all others.

use std::collections::HashMap;

use diskwright_base::Note;
use diskwright_base::units::format_count;

/// Shortest time between two notes with the same key, nanoseconds.
const QUIET_NS: i64 = 60_000_000_000;
/// Largest number of keys that are remembered; beyond it the oldest is forgotten.
const MAX_REMEMBERED: usize = 4096;

/// Collector of notes.
#[derive(Debug, Default)]
pub(crate) struct NoteCollector {
    list: Vec<Note>,
    history: HashMap<String, NoteHistory>,
}

#[derive(Clone, Copy, Debug)]
struct NoteHistory {
    time_ns: i64,
    suppressed: u64,
}

impl NoteCollector {
    /// Adds a note without a limit on repetitions.
    pub fn push(&mut self, time_ns: i64, kind: &str, text: impl Into<String>) {
        self.push_note(Note::new(time_ns, kind, text));
    }

    /// Adds a note without a limit on repetitions.
    pub fn push_note(&mut self, note: Note) {
        self.list.push(note);
    }

    /// Adds a note unless one with this key was added within the last minute.
    pub fn push_limited(&mut self, time_ns: i64, kind: &str, key: &str, text: impl FnOnce() -> String) {
        let suppressed_count = match self.history.get_mut(key) {
            // the wall clock may have been stepped back, so the distance counts either way
            Some(previous) if (time_ns - previous.time_ns).abs() < QUIET_NS => {
                previous.suppressed += 1;
                return;
            }
            Some(previous) => previous.suppressed,
            None => 0,
        };
        if self.history.len() >= MAX_REMEMBERED
            && let Some(oldest) =
                self.history.iter().min_by_key(|(_, history)| history.time_ns).map(|(key, _)| key.clone())
        {
            self.history.remove(&oldest);
        }
        self.history.insert(key.to_owned(), NoteHistory { time_ns, suppressed: 0 });
        let mut text = text();
        if suppressed_count > 0 {
            let times = format_count(suppressed_count, "more time", "more times");
            text.push_str(&format!(" (and {times} since the last note)"));
        }
        self.push(time_ns, kind, text);
    }

    /// Removes the collected notes one by one, oldest first; keeps the memory.
    pub fn drain_notes(&mut self) -> impl Iterator<Item = Note> {
        self.list.drain(..)
    }

    /// Returns and removes the collected notes.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_note_appears_once_a_minute_with_a_count() {
        let mut notes = NoteCollector::default();
        for second in 0..=60 {
            notes.push_limited(second * 1_000_000_000, Note::GAP, "k", || "trouble".into());
        }
        let texts: Vec<String> = notes.take_notes().into_iter().map(Note::into_text).collect();
        assert_eq!(texts, ["trouble", "trouble (and 59 more times since the last note)"]);
        assert!(notes.take_notes().is_empty());
    }

    #[test]
    fn the_history_stays_bounded() {
        let mut notes = NoteCollector::default();
        for i in 0..10_000 {
            notes.push_limited(i, Note::GAP, &format!("k{i}"), String::new);
        }
        assert_eq!(notes.history.len(), MAX_REMEMBERED);
    }
}
