//! Notes of the log that limit the verdict's certainty, each text once.

use std::collections::VecDeque;

use diskwright_base::capture::MomentCapture;
use diskwright_base::{Note, RecordingCost};

use crate::rules::LogOrigin;

/// Largest number of different texts kept of each kind; further ones are only counted.
const MAX_TEXTS_PER_KIND: usize = 50;

/// Largest number of bookmarks kept: a person set each of them, and looks for it.
const MAX_BOOKMARKS: usize = 100_000;

/// Largest number of captures kept: the latest.
const MAX_CAPTURES: usize = 8;

/// Kinds of notes that a verdict tells. Others have readers of their own, and some are long.
const TOLD_KINDS: [&str; 6] = [Note::GAP, Note::MISSED, Note::UNSEEN, Note::CLOCK, Note::WARNING, Note::BOOKMARK];

/// Notes collected so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogNotes {
    /// Notes of all other kinds, in the order of their first occurrence.
    pub remarks: Vec<NoteCount>,
    /// Bookmarks, each at its own time, in order of time.
    pub bookmarks: Vec<NoteCount>,
    /// What was saved at the beginning of alerts.
    pub captures: VecDeque<MomentCapture>,
    /// Number of gap notes, repeated ones included.
    pub gaps: u64,
    /// Ticks that the recorder missed.
    pub missed_ticks: u64,
    /// What recording cost.
    pub cost: RecordingCost,
    /// Notes beyond those kept.
    pub left_out: u64,
    /// The program that made the log; of several, the first that was not ours.
    pub source: LogOrigin,
    /// Number of logs whose source is known.
    pub source_count: u64,
    /// The log has neither times nor an interval: its reports were counted, a second each.
    pub counts_reports: bool,
    /// Rows of disks could not be read, so that nothing clears the disks.
    pub lacks_disk_rows: bool,
}

/// A note's text and the number of its occurrences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoteCount {
    /// Time of the first occurrence, nanoseconds since 1970.
    pub time_ns: i64,
    pub kind: String,
    pub text: String,
    pub times: u64,
}

impl LogNotes {
    /// Adds a note; notes that do not limit certainty are ignored.
    pub fn add_note(&mut self, note: &Note) {
        self.counts_reports |= note.kind == Note::WARNING && note.text().contains(Note::UNKNOWN_INTERVAL);
        self.lacks_disk_rows |= note.kind == Note::WARNING && note.text().contains(Note::DISK_ROWS_LEFT_OUT);
        if note.kind == Note::SOURCE {
            self.source_count += 1;
            if self.source == LogOrigin::Live {
                self.source = LogOrigin::from_format(note.text());
            }
            return;
        }
        if note.kind == Note::CAPTURE {
            // one that cannot be read was cut with its log, which says so
            self.captures.extend(serde_json::from_str::<MomentCapture>(note.text()).ok());
            self.captures.drain(..self.captures.len().saturating_sub(MAX_CAPTURES));
            return;
        }
        if note.kind == Note::COST {
            note.read_cost().into_iter().for_each(|cost| self.cost.add_cost(&cost));
            return;
        }
        if note.kind == Note::GAP {
            self.gaps += 1;
        }
        self.missed_ticks = self.missed_ticks.saturating_add(note.missed_ticks());
        if !TOLD_KINDS.contains(&note.kind.as_str()) {
            return;
        }
        if note.kind == Note::BOOKMARK && self.bookmarks.len() < MAX_BOOKMARKS {
            let (kind, text) = (note.kind.clone(), note.text().to_owned());
            let index = self.bookmarks.partition_point(|remark| remark.time_ns <= note.time_ns);
            return self.bookmarks.insert(index, NoteCount { time_ns: note.time_ns, kind, text, times: 1 });
        }
        let is_same = |r: &&mut NoteCount| r.kind == note.kind && r.text == note.text();
        if let Some(remark) = self.remarks.iter_mut().find(is_same) {
            remark.times += 1;
        } else if self.remarks.iter().filter(|r| r.kind == note.kind).count() < MAX_TEXTS_PER_KIND {
            let (kind, text) = (note.kind.clone(), note.text().to_owned());
            self.remarks.push(NoteCount { time_ns: note.time_ns, kind, text, times: 1 });
        } else {
            self.left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_commands_read_is_not_told() {
        let mut notes = LogNotes::default();
        for kind in ["host", "import", "alert", "end", "of a later version"] {
            notes.add_note(&Note::new(0, kind, "much"));
        }
        assert!(notes.remarks.is_empty() && notes.left_out == 0, "{notes:?}");
    }

    #[test]
    fn every_bookmark_is_kept() {
        let mut notes = LogNotes::default();
        (0..500).for_each(|i| notes.add_note(&Note::new(i, Note::BOOKMARK, "backup")));
        assert_eq!((notes.bookmarks.len(), notes.remarks.len(), notes.left_out), (500, 0, 0));
        assert!(notes.bookmarks.iter().enumerate().all(|(i, r)| r.time_ns == i as i64 && r.times == 1));
    }

    #[test]
    fn the_latest_captures_are_kept_and_broken_ones_are_not() {
        let mut notes = LogNotes::default();
        for number in 0..20 {
            let text = format!(r#"{{"alert": "a{number}", "blocked": {{"count": {number}}}}}"#);
            notes.add_note(&Note::new(number, Note::CAPTURE, text));
        }
        notes.add_note(&Note::new(21, Note::CAPTURE, "{\"alert\": "));
        assert_eq!((notes.captures.len(), notes.captures[7].blocked.count), (MAX_CAPTURES, 19));
        assert!(notes.remarks.is_empty(), "a capture is no remark");
    }

    #[test]
    fn a_text_is_kept_once_and_all_of_them_only_so_many() {
        let mut notes = LogNotes::default();
        for i in 0..1000 {
            notes.add_note(&Note::new(i, Note::GAP, "sda vanished"));
            notes.add_note(&Note::new(i, Note::WARNING, format!("warning {i}")));
        }
        assert_eq!(notes.gaps, 1000);
        assert_eq!(notes.remarks.len(), 1 + MAX_TEXTS_PER_KIND);
        assert_eq!(notes.remarks[0].times, 1000);
        assert_eq!(notes.left_out, 1000 - MAX_TEXTS_PER_KIND as u64);
    }
}
