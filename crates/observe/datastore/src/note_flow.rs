//! Order in which a reader returns notes: those of a frame's time span before the
//! frame, bookmarks included. At the start of a window it also returns older
//! notes that describe the machine.

use diskwright_base::Note;

use crate::compression::Unpacker;
use crate::damage::{Damage, Loss};
use crate::error::StoreError;
use crate::format::NOTES_KIND;
use crate::notes::{self, KEEP_EACH, KEEP_LATEST, REPEATED, StoredNote};
use crate::record_scanner::{Peek, RecordScanner};

/// Largest number of notes that wait for their frame.
const MAX_WAITING_NOTES: usize = 1024;
/// Largest number of remembered notes that describe the machine.
const MAX_STANDING_NOTES: usize = 256;

/// Queue of the notes that the reader still has to return.
#[derive(Debug)]
pub(crate) struct NoteFlow {
    pub from_ns: i64,
    pub to_ns: i64,
    /// Notes before this number, and repetitions, were returned by an earlier reader; 0 if there was none.
    pub from_note: u64,
    /// Number after the last note that was added.
    pub next_note: u64,
    pub marks: Option<RecordScanner>,
    /// The next bookmarks, already read.
    next_marks: Vec<Note>,
    /// Notes that currently describe the machine, for recognizing repetitions.
    standing_notes: Vec<StoredNote>,
    waiting_notes: Vec<Note>,
    /// Losses among the bookmarks.
    pub damages: Vec<Damage>,
    pub unpacker: Unpacker,
}

impl NoteFlow {
    /// Creates an empty queue for all times.
    pub fn new(marks: Option<RecordScanner>) -> NoteFlow {
        NoteFlow {
            from_ns: i64::MIN,
            to_ns: i64::MAX,
            from_note: 0,
            next_note: 0,
            marks,
            next_marks: Vec::new(),
            standing_notes: Vec::new(),
            waiting_notes: Vec::new(),
            damages: Vec::new(),
            unpacker: Unpacker::default(),
        }
    }

    /// Adds the notes of a record, with their numbers.
    pub fn add_notes(&mut self, notes: impl IntoIterator<Item = (u64, StoredNote)>) {
        for (number, stored) in notes {
            let StoredNote { flags, note } = stored;
            let is_repeated = flags & REPEATED != 0;
            if !is_repeated {
                self.next_note = self.next_note.max(number.saturating_add(1));
            }
            if self.from_note > 0 && (is_repeated || number < self.from_note) {
                continue;
            }
            let is_latest = flags & KEEP_LATEST != 0;
            let is_standing = is_latest || flags & KEEP_EACH != 0;
            if is_standing {
                let is_known = self.standing_notes.iter().any(|s| s.note == note);
                if is_known && is_repeated {
                    continue;
                }
                self.standing_notes.retain(|s| s.note.kind != note.kind || !is_latest && s.note.text() != note.text());
                if self.standing_notes.len() == MAX_STANDING_NOTES {
                    self.standing_notes.remove(0);
                }
                self.standing_notes.push(StoredNote { flags, note: note.clone() });
            }
            if note.time_ns < self.from_ns && is_standing {
                // At the start of the window only the newest of its kind is wanted.
                self.waiting_notes.retain(|n| !is_latest || n.kind != note.kind || n.time_ns >= self.from_ns);
            } else if note.time_ns < self.from_ns || note.time_ns > self.to_ns {
                continue;
            }
            self.waiting_notes.push(note);
        }
    }

    /// Returns true if too many notes wait, so that they should be returned without a frame.
    pub fn is_crowded(&self) -> bool {
        self.waiting_notes.len() >= MAX_WAITING_NOTES
    }

    /// Removes and returns the notes up to `until_ns`, oldest first.
    pub fn release_until(&mut self, until_ns: i64) -> Result<Vec<Note>, StoreError> {
        let (mut out, later) = std::mem::take(&mut self.waiting_notes).into_iter().partition(|n| n.time_ns <= until_ns);
        self.waiting_notes = later;
        self.release_marks(until_ns, &mut out)?;
        out.sort_by_key(|note: &Note| note.time_ns);
        Ok(out)
    }

    fn release_marks(&mut self, until_ns: i64, out: &mut Vec<Note>) -> Result<(), StoreError> {
        loop {
            let (from, to) = (self.from_ns, self.to_ns);
            let (released, later): (Vec<Note>, Vec<Note>) =
                self.next_marks.drain(..).partition(|note| note.time_ns <= until_ns);
            out.extend(released.into_iter().filter(|n| n.time_ns >= from && n.time_ns <= to));
            self.next_marks = later;
            if !self.next_marks.is_empty() || !self.read_next_marks()? {
                return Ok(());
            }
        }
    }

    /// Reads the next record of bookmarks; returns false at their end.
    fn read_next_marks(&mut self) -> Result<bool, StoreError> {
        let Some(scanner) = &mut self.marks else { return Ok(false) };
        let file = scanner.path().to_owned();
        let damage =
            |offset, bytes, loss| Damage { ticks: Some(0), ..Damage::with_unknown_size(&file, offset, bytes, loss) };
        loop {
            let offset = scanner.offset();
            match scanner.peek_record()? {
                Peek::Record(header) => {
                    let notes = match (scanner.read_payload(&header)?, header.kind) {
                        (Some(payload), NOTES_KIND) => notes::parse(payload, &mut self.unpacker),
                        (Some(_), _) => continue,
                        (None, _) => None,
                    };
                    match notes {
                        Some((_, notes)) => {
                            self.next_marks.extend(notes.into_iter().map(|stored| stored.note));
                            return Ok(true);
                        }
                        None => self.damages.push(damage(offset, header.record_bytes(), Loss::Damaged)),
                    }
                }
                Peek::Lost { offset, bytes, loss } => {
                    self.damages.push(damage(offset, bytes, loss));
                    if loss != Loss::Damaged {
                        self.marks = None;
                        return Ok(false);
                    }
                }
                Peek::End => return Ok(false),
            }
        }
    }
}
