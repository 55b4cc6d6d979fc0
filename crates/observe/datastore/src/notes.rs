//! Encoding of notes as a record.
//!
//! Payload: number of the first note u64, length of the plain bytes u32,
//! compressed bytes. Plain bytes: for each note its flags, time (as the
//! difference from the note before), kind and text.

use diskwright_base::Note;

use crate::compression::{Packer, Unpacker};
use crate::format::{NOTES_KIND, close_record, open_record, u32_at, u64_at};
use crate::varint::{ByteCursor, put_text, put_varint, unzigzag, zigzag};

/// The newest note of this kind describes the machine: it is repeated at the
/// start of each segment.
pub(crate) const KEEP_LATEST: u8 = 1;
/// Every note of this kind with a different text describes the machine, and is repeated too.
pub(crate) const KEEP_EACH: u8 = 2;
/// A repetition, which a reader skips if it comes from the previous segment.
pub(crate) const REPEATED: u8 = 4;

/// Largest uncompressed size of a record's notes.
pub(crate) const MAX_PLAIN_BYTES: usize = 128 << 20;
/// Longest text of a note. A description of 100,000 devices needs about 25 MB.
pub(crate) const MAX_TEXT_BYTES: usize = 32 << 20;

/// Returns the note in a form that fits into a record. A text that is too long is truncated;
/// a JSON document, which would no longer parse, is replaced by a warning.
pub(crate) fn fit_note(note: &Note) -> Note {
    if note.text().len() <= MAX_TEXT_BYTES {
        // a log keeps text, so that a note equals itself when it is read back
        return Note::new(note.time_ns, &note.kind, note.text());
    }
    if note.text().starts_with(['{', '[']) {
        let (kind, length, limit) = (&note.kind, note.text().len(), MAX_TEXT_BYTES);
        let text = format!("a note ({kind}) of {length} bytes exceeds the limit of {limit} and is omitted");
        return Note::new(note.time_ns, Note::WARNING, text);
    }
    let limit = note.text().len().min(MAX_TEXT_BYTES);
    let end = (0..=limit).rev().find(|end| note.text().is_char_boundary(*end)).unwrap_or(0);
    Note::new(note.time_ns, &note.kind, &note.text()[..end])
}

/// A note with its flags (`KEEP_LATEST`, `KEEP_EACH`, `REPEATED`).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredNote {
    pub flags: u8,
    pub note: Note,
}

/// Returns an upper bound of a note's size before compression, bytes.
pub(crate) fn plain_length(note: &Note) -> usize {
    note.kind.len() + note.text().len() + 32
}

/// Reusable buffers for writing notes.
#[derive(Debug, Default)]
pub(crate) struct NoteScratch {
    plain: Vec<u8>,
    packer: Packer,
}

/// Appends the notes as a record; returns false if it would be too long.
pub(crate) fn write(out: &mut Vec<u8>, scratch: &mut NoteScratch, first: u64, notes: &[StoredNote]) -> bool {
    let plain = &mut scratch.plain;
    plain.clear();
    let mut previous_ns = 0i64;
    for StoredNote { flags, note } in notes {
        plain.push(*flags);
        put_varint(plain, zigzag(note.time_ns.wrapping_sub(previous_ns)));
        put_text(plain, &note.kind);
        put_text(plain, note.text());
        previous_ns = note.time_ns;
    }
    let start = open_record(out);
    out.extend_from_slice(&first.to_le_bytes());
    out.extend_from_slice(&(plain.len() as u32).to_le_bytes());
    scratch.packer.pack(plain, &[], out);
    close_record(out, start, NOTES_KIND)
}

/// Parses a payload into the number of the first note and the notes.
pub(crate) fn parse(payload: &[u8], unpacker: &mut Unpacker) -> Option<(u64, Vec<StoredNote>)> {
    let first = u64_at(payload, 0)?;
    let length = u32_at(payload, 8)? as usize;
    if length > MAX_PLAIN_BYTES {
        return None;
    }
    let plain = unpacker.unpack(&payload[12..], length, &[])?;
    let mut cursor = ByteCursor::new(plain);
    let mut notes = Vec::new();
    let mut previous_ns = 0i64;
    while !cursor.is_empty() {
        let flags = cursor.read_byte()?;
        previous_ns = previous_ns.wrapping_add(unzigzag(cursor.read_varint()?));
        let kind = cursor.read_text()?;
        let text = cursor.read_text()?;
        notes.push(StoredNote { flags, note: Note::new(previous_ns, kind, text) });
    }
    Some((first, notes))
}

/// Returns the number of the note after these; repetitions do not count.
pub(crate) fn number_after(first: u64, notes: &[StoredNote]) -> u64 {
    let counted = notes.iter().filter(|n| n.flags & REPEATED == 0).count();
    first.saturating_add(counted as u64)
}

/// Pairs the notes with their numbers; a repetition gets the number of the next note.
pub(crate) fn number_notes(first: u64, notes: Vec<StoredNote>) -> impl Iterator<Item = (u64, StoredNote)> {
    let mut next = first;
    notes.into_iter().map(move |stored| {
        let number = next;
        next = next.saturating_add(u64::from(stored.flags & REPEATED == 0));
        (number, stored)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::HEADER_BYTES;

    #[test]
    fn documents_are_stored_whole_or_not_at_all() {
        let document = format!("[{}0]", "\"ä disk\",".repeat(400_000));
        let kept = fit_note(&Note::new(5, Note::TOPOLOGY, document.clone()));
        assert!(kept.text() == document && kept.kind == Note::TOPOLOGY);
        let left_out = fit_note(&Note::new(5, Note::TOPOLOGY, format!("[{}]", " ".repeat(MAX_TEXT_BYTES))));
        assert_eq!((left_out.kind.as_str(), left_out.time_ns), (Note::WARNING, 5));
        assert!(left_out.text().contains("note (topology) of 33554434 bytes"));
        let plain = fit_note(&Note::new(5, Note::BOOKMARK, "ä".repeat(MAX_TEXT_BYTES / 2) + "ä"));
        assert_eq!((plain.kind.as_str(), plain.text().len()), (Note::BOOKMARK, MAX_TEXT_BYTES));
    }

    #[test]
    fn notes_round_trip() {
        let note = |time_ns, text: &str| StoredNote { flags: KEEP_EACH, note: Note::new(time_ns, Note::UNSEEN, text) };
        let notes = [note(5, "io of others"), note(-3, ""), note(i64::MIN, &"long ".repeat(1000)), note(i64::MAX, "ü")];
        let mut record = Vec::new();
        assert!(write(&mut record, &mut NoteScratch::default(), 77, &notes));
        assert!(record.len() < 200);
        assert_eq!(parse(&record[HEADER_BYTES..], &mut Unpacker::default()), Some((77, notes.to_vec())));
    }
}
