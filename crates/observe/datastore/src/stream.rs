//! A log as a stream: what a recorder on another machine sends through a pipe, tick by tick.
//!
//! The stream has the records of `format.rs`: a head with the role of a tail, then schemas, ticks and notes in the
//! order in which they were recorded. Each record is complete when it is flushed, so a cut connection costs at most the
//! one in flight.

use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;

use diskwright_base::{Note, Schema, Tick};

use crate::compression::Unpacker;
use crate::error::StoreError;
use crate::format::{FileRole, HEAD_KIND, HEADER_BYTES, HeadRecord, NOTES_KIND, RecordHeader, SCHEMA_KIND, TICK_KIND};
use crate::notes::{self, NoteScratch, StoredNote};
use crate::schema::{SchemaCache, StoredSchema};
use crate::tail;

/// Largest number of notes that are sent in one record.
const MAX_NOTES_AT_ONCE: usize = 1 << 12;

/// Writes ticks and notes to a pipe or socket.
pub struct StreamWriter<W> {
    out: W,
    schema: Option<StoredSchema>,
    next_tick: u64,
    next_note: u64,
    record: Vec<u8>,
    scratch: NoteScratch,
}

impl<W: Write> StreamWriter<W> {
    /// Begins a stream.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(mut out: W) -> io::Result<StreamWriter<W>> {
        let mut record = Vec::new();
        HeadRecord { role: FileRole::Tail, segment: 0, next_tick: 0, next_note: 0 }.write(&mut record);
        out.write_all(&record)?;
        out.flush()?;
        Ok(StreamWriter { out, schema: None, next_tick: 0, next_note: 0, record, scratch: NoteScratch::default() })
    }

    /// Sends a tick; `row` has one cell for each series of `schema`.
    ///
    /// # Errors
    /// When the stream cannot be written, or the schema has more series than a log holds.
    ///
    /// # Panics
    /// When the row and the schema differ in width, which is a bug of the caller.
    pub fn push_tick(&mut self, schema: &Arc<Schema>, tick: Tick, row: &[f64]) -> io::Result<()> {
        assert_eq!(row.len(), schema.series.len(), "row width");
        self.record.clear();
        if !self.schema.as_ref().is_some_and(|known| Arc::ptr_eq(&known.schema, schema)) {
            let stored = StoredSchema::new(schema)
                .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "more series than a log holds"))?;
            self.record.extend_from_slice(&stored.record);
            self.schema = Some(stored);
        }
        let id = self.schema.as_ref().map_or(0, |stored| stored.id);
        tail::write_tick(&mut self.record, self.next_tick, id, &tick, row);
        self.next_tick += 1;
        self.send_record()
    }

    /// Sends notes.
    ///
    /// # Errors
    /// When the stream cannot be written.
    pub fn push_notes(&mut self, list: &[Note]) -> io::Result<()> {
        for chunk in list.chunks(MAX_NOTES_AT_ONCE) {
            let stored: Vec<StoredNote> =
                chunk.iter().map(|note| StoredNote { flags: 0, note: notes::fit_note(note) }).collect();
            self.record.clear();
            notes::write(&mut self.record, &mut self.scratch, self.next_note, &stored);
            self.next_note += stored.len() as u64;
            self.send_record()?;
        }
        Ok(())
    }

    fn send_record(&mut self) -> io::Result<()> {
        self.out.write_all(&self.record)?;
        self.out.flush()
    }
}

/// What a stream brings.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamItem {
    /// A tick with its cells.
    Tick {
        /// Their series.
        schema: Arc<Schema>,
        /// The time.
        tick: Tick,
        /// One cell for each series, unscaled; `NaN` is a gap.
        row: Vec<f64>,
    },
    /// A note.
    Note(Note),
}

/// Reads a stream. Nothing in it is trusted: lengths have limits, and checksums must be right.
pub struct StreamReader<R> {
    input: R,
    schemas: SchemaCache,
    unpacker: Unpacker,
    /// Notes of a record that were not taken yet, the last first.
    waiting_notes: Vec<Note>,
    payload: Vec<u8>,
}

impl<R: Read> StreamReader<R> {
    /// Reads the head of a stream.
    ///
    /// # Errors
    /// When it cannot be read, is no stream of a log, or was written by a later release.
    pub fn begin(mut input: R) -> io::Result<StreamReader<R>> {
        let mut payload = Vec::new();
        let kind = read_record(&mut input, &mut payload)?;
        let head = HeadRecord::parse(&payload, Path::new("stream"));
        let head = head.map_err(|error: StoreError| io::Error::new(ErrorKind::InvalidData, error))?;
        if kind != Some(HEAD_KIND) || head.is_none() {
            return Err(damaged("it does not begin like a log"));
        }
        let (schemas, unpacker, waiting_notes) = (SchemaCache::default(), Unpacker::default(), Vec::new());
        Ok(StreamReader { input, schemas, unpacker, waiting_notes, payload })
    }

    /// What the stream is read from.
    pub fn input(&mut self) -> &mut R {
        &mut self.input
    }

    /// Waits for the next tick or note; `None` at the end of the stream.
    ///
    /// # Errors
    /// When the stream cannot be read, ends within a record (`UnexpectedEof`) or is damaged (`InvalidData`). What came
    /// before is whole.
    pub fn next_item(&mut self) -> io::Result<Option<StreamItem>> {
        loop {
            if let Some(note) = self.waiting_notes.pop() {
                return Ok(Some(StreamItem::Note(note)));
            }
            let Some(kind) = read_record(&mut self.input, &mut self.payload)? else { return Ok(None) };
            match kind {
                SCHEMA_KIND if self.schemas.parse_and_add(&self.payload) => {}
                SCHEMA_KIND => return Err(damaged("a list of series cannot be read")),
                NOTES_KIND => {
                    let (_, list) = notes::parse(&self.payload, &mut self.unpacker)
                        .ok_or_else(|| damaged("notes cannot be read"))?;
                    self.waiting_notes = list.into_iter().rev().map(|stored| stored.note).collect();
                }
                TICK_KIND => return self.read_tick().map(Some),
                // of a later release
                _ => {}
            }
        }
    }

    fn read_tick(&mut self) -> io::Result<StreamItem> {
        let mut row = Vec::new();
        let tick = tail::parse_tick(&self.payload, &mut row).ok_or_else(|| damaged("a tick cannot be read"))?;
        let schema = self.schemas.get(tick.schema_id).filter(|schema| schema.series.len() == row.len());
        let schema = Arc::clone(schema.ok_or_else(|| damaged("a tick has no list of its series"))?);
        Ok(StreamItem::Tick { schema, tick: tick.tick, row })
    }
}

fn damaged(because: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the stream is damaged: {because}"))
}

/// Reads a record and returns its kind; `None` at the end of the stream.
fn read_record(input: &mut impl Read, payload: &mut Vec<u8>) -> io::Result<Option<u8>> {
    let mut header = [0; HEADER_BYTES];
    let mut filled = 0;
    while filled < HEADER_BYTES {
        match input.read(&mut header[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let header = RecordHeader::parse(&header).ok_or_else(|| damaged("a header is wrong"))?;
    payload.clear();
    // grows with what arrives, and not with what the header promises
    input.by_ref().take(header.payload_bytes as u64).read_to_end(payload)?;
    if payload.len() < header.payload_bytes {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    if crc32fast::hash(payload) != header.payload_crc {
        return Err(damaged("a checksum is wrong"));
    }
    Ok(Some(header.kind))
}

#[cfg(test)]
mod tests {
    use diskwright_base::Series;

    use super::*;

    fn schema(names: &[&str]) -> Arc<Schema> {
        let series = |name: &&str| Series { counter: (*name).into(), instance: String::new(), scale: 1.0 };
        Arc::new(Schema::new(names.iter().map(series).collect()))
    }

    fn sent() -> (Vec<u8>, Vec<StreamItem>) {
        let (one, two) = (schema(&["a.b"]), schema(&["a.b", "a.c"]));
        let tick = |time_ns: i64| Tick { time_ns, elapsed_ns: 1_000_000_000 };
        let note = Note::new(7, Note::WARNING, "the disk is full");
        let mut out = Vec::new();
        let mut writer = StreamWriter::begin(&mut out).unwrap();
        writer.push_tick(&one, tick(1), &[1.5]).unwrap();
        writer.push_notes(std::slice::from_ref(&note)).unwrap();
        writer.push_tick(&one, tick(2), &[0.0]).unwrap();
        writer.push_tick(&two, tick(3), &[1.0, -2.0]).unwrap();
        let items = vec![
            StreamItem::Tick { schema: one.clone(), tick: tick(1), row: vec![1.5] },
            StreamItem::Note(note),
            StreamItem::Tick { schema: one, tick: tick(2), row: vec![0.0] },
            StreamItem::Tick { schema: two, tick: tick(3), row: vec![1.0, -2.0] },
        ];
        (out, items)
    }

    fn received(bytes: &[u8]) -> (Vec<StreamItem>, Option<ErrorKind>) {
        let mut list = Vec::new();
        let mut reader = match StreamReader::begin(bytes) {
            Ok(reader) => reader,
            Err(error) => return (list, Some(error.kind())),
        };
        loop {
            match reader.next_item() {
                Ok(Some(item)) => list.push(item),
                Ok(None) => return (list, None),
                Err(error) => return (list, Some(error.kind())),
            }
        }
    }

    #[test]
    fn what_is_sent_is_received() {
        let (bytes, items) = sent();
        assert_eq!(received(&bytes), (items, None));
    }

    #[test]
    fn a_cut_stream_keeps_what_arrived() {
        let (bytes, items) = sent();
        for end in 0..bytes.len() {
            let (list, error) = received(&bytes[..end]);
            assert_eq!(list, items[..list.len()], "{end}");
            assert!(
                error.is_none_or(|kind| matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::InvalidData)),
                "{end}"
            );
        }
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let (bytes, items) = sent();
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 0x55;
            let (list, error) = received(&changed);
            assert_eq!(error, Some(ErrorKind::InvalidData), "{place}");
            assert_eq!(list, items[..list.len()], "{place}");
        }
    }
}
