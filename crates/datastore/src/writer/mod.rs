//! The recorder's side of a log.

mod buffer;
mod bulk;
mod segment;
mod tail_file;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use diskwright_base::{Note, Schema, Tick};

use crate::codec;
use crate::error::StoreError;
use crate::format::{
    BLOCK, BlockHead, MAX_SERIES, MAX_TICKS, TAIL, close_record, open_record, segment_name, segment_number,
};
use crate::lock::Lock;
use crate::notes::{self, KEEP_EACH, KEEP_LATEST, REPEATED, StoredNote};
use crate::output::Fault;
use crate::recover::{self, TailContent};
use crate::retention;
use crate::schema::StoredSchema;
use crate::tail;
use buffer::Buffer;
use segment::Segment;
use tail_file::Tail;

/// How a log is written.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Ticks in a block: the more, the smaller the log and the larger the
    /// recorder's memory. Wide schemas get fewer.
    pub block_ticks: usize,
    /// Running time after which a new segment file begins.
    pub segment_span: Duration,
    /// Segments whose last tick is older than this are deleted.
    pub keep_age: Option<Duration>,
    /// The oldest segments are deleted when the log is larger than this, bytes.
    pub keep_bytes: Option<u64>,
    /// Tick times are rounded to this, nanoseconds; 1 keeps them as they are.
    /// A microsecond is far less than a tick's length is ever needed to, and
    /// digits that are mere chance cost as much as any others.
    pub time_unit_ns: u64,
    /// Kinds of notes whose newest is repeated in each segment.
    pub keep_latest: Vec<String>,
    /// Kinds of notes of which every different text is repeated in each segment.
    pub keep_each: Vec<String>,
    /// For bulk imports: ticks are not safe before their block is written,
    /// blocks are written quickly rather than as small as can be, and a full
    /// disk is an error. See [`WriterOptions::bulk`].
    pub bulk: bool,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        WriterOptions {
            block_ticks: 240,
            segment_span: Duration::from_secs(3600),
            keep_age: None,
            keep_bytes: None,
            time_unit_ns: 1000,
            keep_latest: vec![Note::TOPOLOGY.into(), Note::CEILINGS.into(), Note::SOURCE.into()],
            keep_each: vec![Note::UNSEEN.into()],
            bulk: false,
        }
    }
}

impl WriterOptions {
    /// Options for moving another tool's log into ours: long blocks, segments
    /// that end by their bytes alone, and times as they are.
    pub fn bulk() -> WriterOptions {
        WriterOptions {
            block_ticks: MAX_TICKS,
            segment_span: Duration::MAX,
            time_unit_ns: 1,
            bulk: true,
            ..WriterOptions::default()
        }
    }
}

/// What became of a tick or note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is in the log.
    Recorded,
    /// The disk does not take it. A tick is lost, a note is tried again; a
    /// note tells of the gap when recording goes on.
    Paused,
}

/// Most bytes of notes held in memory.
const MOST_NOTES: usize = 1 << 20;
/// Most different notes repeated in each segment.
const MOST_STANDING: usize = 64;
/// Largest segment, bytes.
const MOST_SEGMENT: u64 = 1 << 26;

/// A stretch that could not be recorded.
#[derive(Debug)]
struct Pause {
    since_ns: i64,
    elapsed_ns: u64,
    ticks: u64,
    reason: String,
}

/// Appends to a log. Dropping it is the same as [`Writer::close`], errors unseen.
#[derive(Debug)]
pub struct Writer {
    dir: PathBuf,
    options: WriterOptions,
    _lock: Lock,
    segment: Option<Segment>,
    tail: Option<Tail>,
    next: recover::Next,
    /// Schema of the ticks to come.
    stored: Option<StoredSchema>,
    buffer: Buffer,
    notes: Vec<StoredNote>,
    notes_bytes: usize,
    standing: Vec<Note>,
    pause: Option<Pause>,
    encoder: codec::Encoder,
    record: Vec<u8>,
    scratch: notes::Scratch,
}

impl Writer {
    /// Opens the log in `dir`, making directory and log where there are none.
    /// What a killed recorder left in the tail is moved into a segment first.
    ///
    /// # Errors
    /// When another recorder has it, when `dir` holds files that are no log,
    /// or when the system refuses.
    pub fn create_or_append(dir: &Path, options: WriterOptions) -> Result<Writer, StoreError> {
        refuse_foreign(dir)?;
        std::fs::create_dir_all(dir).map_err(|e| StoreError::io(dir, e))?;
        let lock = Lock::take(dir)?;
        let numbers = retention::segments(dir)?;
        let next = recover::next(dir, &numbers)?;
        let options = settle(options);
        let block_ticks = options.block_ticks;
        let mut writer = Writer {
            dir: dir.to_owned(),
            options,
            _lock: lock,
            segment: None,
            tail: None,
            next,
            stored: None,
            buffer: Buffer::new(block_ticks),
            notes: Vec::new(),
            notes_bytes: 0,
            standing: Vec::new(),
            pause: None,
            encoder: codec::Encoder::default(),
            record: Vec::new(),
            scratch: notes::Scratch::default(),
        };
        let left = recover::tail_of(dir)?;
        writer.take_over(left).map_err(|fault| fault.into_error(dir))?;
        Ok(writer)
    }

    /// Adds a tick; `row` has a cell a series of `schema`. When this returns
    /// [`State::Recorded`], the tick survives the death of the process (in
    /// bulk only once its block is written; [`Writer::flush`] sees to that).
    ///
    /// Ticks keep the order in which they are pushed, whatever their times
    /// are. Times may repeat. Where time goes back a new block begins, so a
    /// reader's window still finds every tick by its own time; a log whose
    /// times go back at every other tick is correct, but large and slow.
    ///
    /// # Errors
    /// When the log cannot be written for another reason than a full or
    /// failing disk (in bulk: for whatever reason), or the schema is too wide.
    ///
    /// # Panics
    /// When the row has another width than the schema: a mistake of the caller.
    pub fn push(&mut self, schema: &Arc<Schema>, tick: Tick, row: &[f64]) -> Result<State, StoreError> {
        assert_eq!(row.len(), schema.series.len(), "row width");
        let tick = rounded(tick, self.options.time_unit_ns);
        match self.advance(schema, tick, row) {
            Ok(()) => {}
            Err(Fault::Fatal(e)) => return Err(e),
            Err(Fault::Pause(e)) if self.options.bulk => return Err(StoreError::io(&self.dir, e)),
            Err(Fault::Pause(e)) => {
                let pause = self.pause.get_or_insert_with(|| Pause {
                    since_ns: tick.time_ns,
                    elapsed_ns: 0,
                    ticks: 0,
                    reason: e.to_string(),
                });
                pause.ticks += 1;
                pause.elapsed_ns = pause.elapsed_ns.saturating_add(tick.elapsed_ns);
                return Ok(State::Paused);
            }
        }
        if self.buffer.frame().is_full() {
            // Where this fails for want of space the tail has the ticks, and
            // the next push tries again.
            self.pausing(Writer::complete)?;
        }
        Ok(State::Recorded)
    }

    /// Adds a note.
    ///
    /// # Errors
    /// When the log cannot be written for another reason than a full or
    /// failing disk.
    pub fn note(&mut self, note: &Note) -> Result<State, StoreError> {
        let mut note = note.clone();
        let mut end = note.text.len().min(MOST_NOTES);
        while !note.text.is_char_boundary(end) {
            end -= 1;
        }
        note.text.truncate(end);
        let flags = self.stand(&note);
        let length = notes::plain_length(&note);
        if self.notes_bytes + length > MOST_NOTES && self.pausing(Writer::complete)? == State::Paused {
            return Ok(State::Paused);
        }
        self.notes.push(StoredNote { flags, note });
        self.notes_bytes += length;
        self.next.note += 1;
        self.pausing(|writer| writer.note_to_tail(writer.notes.len() - 1))
    }

    /// Writes what is held back as a block, however short, and waits until
    /// the device has it.
    ///
    /// # Errors
    /// As [`Writer::note`].
    pub fn flush(&mut self) -> Result<State, StoreError> {
        self.pausing(|writer| {
            writer.complete()?;
            writer.segment.as_ref().map_or(Ok(()), Segment::sync)
        })
    }

    /// Ends the log in good order.
    ///
    /// # Errors
    /// As [`Writer::note`]; a full disk is an error here.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        let dir = self.dir.clone();
        let done = self.tell_of_pause().and_then(|()| self.complete()).and_then(|()| self.end_segment());
        done.map_err(|fault| fault.into_error(&dir))?;
        if let Some(tail) = self.tail.take() {
            std::fs::remove_file(tail.path()).map_err(|e| StoreError::io(tail.path(), e))?;
        }
        Ok(())
    }

    /// Runs a step that a full disk may hold up.
    fn pausing(&mut self, step: impl FnOnce(&mut Writer) -> Result<(), Fault>) -> Result<State, StoreError> {
        match step(self) {
            Ok(()) => Ok(State::Recorded),
            Err(Fault::Pause(e)) if self.options.bulk => Err(StoreError::io(&self.dir, e)),
            Err(Fault::Pause(_)) => Ok(State::Paused),
            Err(Fault::Fatal(e)) => Err(e),
        }
    }

    fn advance(&mut self, schema: &Arc<Schema>, tick: Tick, row: &[f64]) -> Result<(), Fault> {
        self.prepare(schema, &tick)?;
        if self.options.bulk {
            self.buffer.push(tick, row);
            self.next.tick += 1;
            return Ok(());
        }
        self.ready_tail()?;
        self.tell_of_pause()?;
        let (Some(stored), Some(tail)) = (&self.stored, &mut self.tail) else { return Ok(()) };
        self.record.clear();
        tail::write(&mut self.record, self.next.tick, stored.id, &tick, row);
        tail.append(&self.record)?;
        self.buffer.push(tick, row);
        self.next.tick += 1;
        Ok(())
    }

    /// Makes buffer and segment ready for a tick, if need be by writing what
    /// is held.
    fn prepare(&mut self, schema: &Arc<Schema>, tick: &Tick) -> Result<(), Fault> {
        if self.buffer.is_done_before(tick) {
            self.complete()?;
        }
        let same = |stored: &StoredSchema| Arc::ptr_eq(&stored.schema, schema) || stored.schema == *schema;
        if !self.stored.as_ref().is_some_and(same) {
            let series = schema.series.len();
            let too_wide = || Fault::Fatal(StoreError::TooWide { series, most: MAX_SERIES });
            self.stored = Some(StoredSchema::new(schema).ok_or_else(too_wide)?);
        }
        // A block may only have schemas that stand before it.
        self.ready_segment()?;
        let Some(stored) = &self.stored else { return Ok(()) };
        if !self.buffer.adopt(stored) {
            self.complete()?;
            self.ready_segment()?;
            if let Some(stored) = &self.stored {
                self.buffer.adopt(stored);
            }
        }
        Ok(())
    }

    /// Sees to it that there is a segment and that it has the schema.
    fn ready_segment(&mut self) -> Result<(), Fault> {
        if self.segment.is_none() {
            // What is held comes later in this segment, with numbers it has already.
            let next = recover::Next {
                segment: self.next.segment,
                tick: self.next.tick - self.buffer.frame().ticks().len() as u64,
                note: self.next.note - self.notes.len() as u64,
            };
            let repeat = |note: &Note| StoredNote { flags: self.flags(note) | REPEATED, note: note.clone() };
            let waiting = |note: &Note| self.notes.iter().any(|n| n.note == *note);
            let standing: Vec<_> = self.standing.iter().filter(|n| !waiting(n)).map(repeat).collect();
            let path = self.dir.join(segment_name(next.segment));
            self.segment = Some(Segment::create(path, next, &standing, &mut self.scratch)?);
            self.next.segment += 1;
        }
        match (&mut self.segment, &self.stored) {
            (Some(segment), Some(stored)) => segment.ready(stored),
            _ => Ok(()),
        }
    }

    /// Sees to it that there is a tail and that it has the schema.
    fn ready_tail(&mut self) -> Result<(), Fault> {
        if self.tail.is_none() {
            self.tail = Some(Tail::create(self.dir.join(TAIL), self.next)?);
        }
        match (&mut self.tail, &self.stored) {
            (Some(tail), Some(stored)) => tail.ready(stored),
            _ => Ok(()),
        }
    }

    fn note_to_tail(&mut self, index: usize) -> Result<(), Fault> {
        if self.options.bulk {
            return Ok(());
        }
        self.ready_tail()?;
        let number = self.next.note - (self.notes.len() - index) as u64;
        self.record.clear();
        notes::write(&mut self.record, &mut self.scratch, number, &self.notes[index..=index]);
        self.tail.as_mut().map_or(Ok(()), |tail| tail.append(&self.record))
    }

    /// Says in the log what a full disk cost, now that it takes things again.
    fn tell_of_pause(&mut self) -> Result<(), Fault> {
        let Some(pause) = &self.pause else { return Ok(()) };
        let seconds = pause.elapsed_ns as f64 * 1e-9;
        let text = format!("recording was paused for {seconds:.1} s, {} ticks are lost: {}", pause.ticks, pause.reason);
        let note = Note::new(pause.since_ns, Note::GAP, text);
        self.notes_bytes += notes::plain_length(&note);
        self.notes.push(StoredNote { flags: 0, note });
        self.next.note += 1;
        match self.note_to_tail(self.notes.len() - 1) {
            Ok(()) => {
                self.pause = None;
                Ok(())
            }
            Err(fault) => {
                self.notes.pop();
                self.next.note -= 1;
                Err(fault)
            }
        }
    }

    /// Writes the held notes and ticks to the segment.
    fn complete(&mut self) -> Result<(), Fault> {
        if self.buffer.frame().is_empty() && self.notes.is_empty() {
            return Ok(());
        }
        self.ready_segment()?;
        self.notes_record();
        self.block_record();
        let Some(segment) = &mut self.segment else { return Ok(()) };
        segment.append(&self.record, self.buffer.frame().ticks())?;
        self.buffer.clear();
        self.written()
    }

    /// Starts a record in the making with the held notes, if there are any.
    fn notes_record(&mut self) {
        self.record.clear();
        if !self.notes.is_empty() {
            let first = self.next.note - self.notes.len() as u64;
            notes::write(&mut self.record, &mut self.scratch, first, &self.notes);
        }
    }

    /// The segment has the held notes and ticks now.
    fn written(&mut self) -> Result<(), Fault> {
        self.notes.clear();
        self.notes_bytes = 0;
        if let Some(tail) = &mut self.tail {
            tail.cut()?;
        }
        let full = |s: &Segment| s.is_full(self.options.segment_span.as_nanos(), segment_bytes(&self.options));
        if self.segment.as_ref().is_some_and(full) { self.end_segment() } else { Ok(()) }
    }

    /// Appends the held ticks to the record in the making.
    fn block_record(&mut self) {
        let frame = self.buffer.frame();
        let (Some(first), Some(last)) = (frame.ticks().first(), frame.ticks().last()) else { return };
        let start = open_record(&mut self.record);
        let head = BlockHead {
            first_tick: self.next.tick - frame.ticks().len() as u64,
            from_ns: first.time_ns,
            to_ns: last.time_ns,
            next_note: self.next.note,
            ticks: frame.ticks().len(),
            columns: frame.schema().series.len(),
            parts: self.buffer.parts().len(),
        };
        head.write(&mut self.record);
        for part in self.buffer.parts() {
            self.record.extend_from_slice(&part.schema.to_le_bytes());
            self.record.extend_from_slice(&(part.ticks as u16).to_le_bytes());
        }
        match self.options.bulk {
            true => self.encoder.encode_plain(frame, 0..frame.ticks().len(), frame.ticks(), &mut self.record),
            false => self.encoder.encode(frame, &mut self.record),
        }
        let fits = close_record(&mut self.record, start, BLOCK);
        assert!(fits, "MOST_HELD cells at their worst are shorter than a record's most");
    }

    /// Closes the segment, if there is one, and deletes what is too old.
    fn end_segment(&mut self) -> Result<(), Fault> {
        let Some(segment) = &mut self.segment else { return Ok(()) };
        let newest = segment.close(self.next.tick)?;
        self.segment = None;
        let age = self.options.keep_age.map(|age| i64::try_from(age.as_nanos()).unwrap_or(i64::MAX));
        let keep_from = age.zip(newest).map(|(age, newest)| newest.saturating_sub(age));
        retention::trim(&self.dir, self.options.keep_bytes, keep_from).map_err(Fault::Fatal)
    }

    fn flags(&self, note: &Note) -> u8 {
        if self.options.keep_latest.contains(&note.kind) {
            KEEP_LATEST
        } else if self.options.keep_each.contains(&note.kind) {
            KEEP_EACH
        } else {
            0
        }
    }

    /// Keeps a note that later segments repeat, and gives its flags.
    fn stand(&mut self, note: &Note) -> u8 {
        let flags = self.flags(note);
        match flags {
            KEEP_LATEST => self.standing.retain(|n| n.kind != note.kind),
            KEEP_EACH => self.standing.retain(|n| n.kind != note.kind || n.text != note.text),
            _ => return flags,
        }
        if self.standing.len() == MOST_STANDING {
            self.standing.remove(0);
        }
        self.standing.push(note.clone());
        flags
    }

    /// Moves what a tail was left with into a new segment.
    fn take_over(&mut self, left: TailContent) -> Result<(), Fault> {
        for (number, stored) in &left.notes {
            if *number >= self.next.note {
                self.next.note = number.saturating_add(1);
                self.notes.push(stored.clone());
            }
        }
        let mut cells = left.cells.as_slice();
        for taken in &left.ticks {
            let (row, rest) = cells.split_at(taken.columns);
            cells = rest;
            let Some(schema) = left.schema(taken).filter(|_| taken.number >= self.next.tick) else { continue };
            if taken.number != self.next.tick {
                self.complete()?;
            }
            self.prepare(schema, &taken.tick)?;
            self.next.tick = taken.number.saturating_add(1);
            self.buffer.push(taken.tick, row);
        }
        self.complete()?;
        if self.options.bulk {
            return bulk::remove_tail(&self.dir);
        }
        // From here on the directory is a log, for whoever sets a bookmark.
        self.ready_tail()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Nobody is left to be told; whoever wants to know calls `close`.
        let _ = self.finish();
    }
}

/// Sizes that agree with each other: what is deleted is whole segments, so
/// these must be small beside what is kept.
fn settle(mut options: WriterOptions) -> WriterOptions {
    options.block_ticks = options.block_ticks.clamp(1, MAX_TICKS);
    if let Some(age) = options.keep_age {
        options.segment_span = options.segment_span.min(age / 8);
    }
    options
}

/// The tick with its times rounded; a known length does not become 0.
fn rounded(tick: Tick, unit_ns: u64) -> Tick {
    let Some(unit) = i64::try_from(unit_ns).ok().filter(|unit| *unit > 1) else { return tick };
    let nearest = |time: i64| time.checked_add(unit / 2).map(|t| t.div_euclid(unit) * unit).unwrap_or(time);
    let elapsed_ns = match i64::try_from(tick.elapsed_ns) {
        Ok(elapsed) if elapsed > 0 => nearest(elapsed).max(unit) as u64,
        _ => tick.elapsed_ns,
    };
    Tick { time_ns: nearest(tick.time_ns), elapsed_ns }
}

fn segment_bytes(options: &WriterOptions) -> u64 {
    options.keep_bytes.map_or(MOST_SEGMENT, |most| (most / 8).clamp(1 << 12, MOST_SEGMENT))
}

/// Refuses a directory that holds anything but a log.
fn refuse_foreign(dir: &Path) -> Result<(), StoreError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(StoreError::io(dir, e)),
    };
    let mut foreign = None;
    for entry in entries {
        let name = entry.map_err(|e| StoreError::io(dir, e))?.file_name();
        let name = name.to_string_lossy();
        if segment_number(&name).is_some() {
            return Ok(());
        }
        let ours = [TAIL, crate::format::MARKS, crate::format::LOCK].contains(&&*name);
        foreign = foreign.or_else(|| (!ours).then(|| name.into_owned()));
    }
    match foreign {
        None => Ok(()),
        Some(found) => Err(StoreError::NotALog {
            path: dir.to_owned(),
            offset: 0,
            expected: "an empty directory or segment files (00000001.dwlog)",
            found: format!("`{found}`"),
        }),
    }
}
