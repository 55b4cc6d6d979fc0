//! Remarks of the log that bear on the verdict's certainty, each text once.

use diskwright_base::Note;

use crate::missing::Source;

/// Texts kept of each kind; of more only the number is known.
const TEXTS: usize = 50;

/// Notes collected so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    pub list: Vec<Remark>,
    /// Gaps told, repeated ones too.
    pub gaps: u64,
    /// Notes beyond those kept.
    pub left_out: u64,
    /// What made the log; of several, the first that was not ours.
    pub source: Source,
}

/// A note's text and how often it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remark {
    /// Of the first, nanoseconds since 1970.
    pub time_ns: i64,
    pub kind: String,
    pub text: String,
    pub times: u64,
}

impl Notes {
    pub fn add(&mut self, note: &Note) {
        if note.kind == Note::SOURCE {
            if self.source == Source::Live {
                self.source = Source::of_format(&note.text);
            }
            return;
        }
        if note.kind == Note::GAP {
            self.gaps += 1;
        }
        let same = |r: &&mut Remark| r.kind == note.kind && r.text == note.text;
        if let Some(remark) = self.list.iter_mut().find(same) {
            remark.times += 1;
        } else if self.list.iter().filter(|r| r.kind == note.kind).count() < TEXTS {
            let (kind, text) = (note.kind.clone(), note.text.clone());
            self.list.push(Remark { time_ns: note.time_ns, kind, text, times: 1 });
        } else {
            self.left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_and_all_of_them_only_so_many() {
        let mut notes = Notes::default();
        for i in 0..1000 {
            notes.add(&Note::new(i, Note::GAP, "sda vanished"));
            notes.add(&Note::new(i, Note::WARNING, format!("warning {i}")));
        }
        assert_eq!(notes.gaps, 1000);
        assert_eq!(notes.list.len(), 1 + TEXTS);
        assert_eq!(notes.list[0].times, 1000);
        assert_eq!(notes.left_out, 1000 - TEXTS as u64);
    }
}
