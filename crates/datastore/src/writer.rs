//! The recorder's side of a log.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use diskwright_base::{Frame, Note, Schema, Tick};

use crate::codec;
use crate::error::StoreError;
use crate::format::{
    BLOCK, BlockHead, End, HEAD_SPAN, Head, MAX_SERIES, MAX_TICKS, Role, TAIL, close_record, open_record, segment_name,
    segment_number,
};
use crate::lock::Lock;
use crate::notes::{self, KEEP_EACH, KEEP_LATEST, REPEATED, StoredNote};
use crate::output::{Fault, Output};
use crate::recover::{self, TailContent};
use crate::retention;
use crate::schema::StoredSchema;
use crate::tail;

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
    /// Kinds of notes whose newest is repeated in each segment.
    pub keep_latest: Vec<String>,
    /// Kinds of notes of which every different text is repeated in each segment.
    pub keep_each: Vec<String>,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        WriterOptions {
            block_ticks: 120,
            segment_span: Duration::from_secs(3600),
            keep_age: None,
            keep_bytes: None,
            keep_latest: vec![Note::TOPOLOGY.into()],
            keep_each: vec![Note::UNSEEN.into()],
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

/// Most cells held in memory for a block (8 bytes each).
const MOST_HELD: usize = 1 << 19;
/// Most bytes of notes held in memory.
const MOST_NOTES: usize = 1 << 20;
/// Most different notes repeated in each segment.
const MOST_STANDING: usize = 64;
/// Largest segment, bytes.
const MOST_SEGMENT: u64 = 1 << 26;

/// The segment being written.
#[derive(Debug)]
struct Segment {
    out: Output,
    /// The schema that its blocks follow now.
    schema: Option<StoredSchema>,
    covered_ns: u64,
    least_ns: i64,
    most_ns: i64,
}

impl Segment {
    /// Behind its blocks a schema stands a second time, so that no single
    /// damage can make all of them unreadable.
    fn repeat_schema(&self, out: &mut Vec<u8>) {
        if let Some(stored) = &self.schema {
            out.extend_from_slice(&stored.record);
        }
    }
}

/// The tail being written.
#[derive(Debug)]
struct Tail {
    out: Output,
    /// Schema that it ends with, if any.
    schema: Option<u64>,
    /// Where it is cut back to: behind its head and, where it has one there,
    /// this schema. So it is never without a head.
    base: u64,
    base_schema: Option<u64>,
}

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
    schema: Option<StoredSchema>,
    next: recover::Next,
    frame: Frame,
    notes: Vec<StoredNote>,
    notes_bytes: usize,
    standing: Vec<Note>,
    pause: Option<Pause>,
    encoder: codec::Encoder,
    record: Vec<u8>,
    plain: Vec<u8>,
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
        let mut writer = Writer {
            dir: dir.to_owned(),
            options: settle(options),
            _lock: lock,
            segment: None,
            tail: None,
            schema: None,
            next,
            frame: Frame::default(),
            notes: Vec::new(),
            notes_bytes: 0,
            standing: Vec::new(),
            pause: None,
            encoder: codec::Encoder::default(),
            record: Vec::new(),
            plain: Vec::new(),
        };
        let left = recover::tail_of(dir)?;
        writer.take_over(left).map_err(|fault| fault.into_error(dir))?;
        Ok(writer)
    }

    /// Adds a tick; `row` has a cell a series of `schema`. When this returns
    /// [`State::Recorded`], the tick survives the death of the process.
    ///
    /// # Errors
    /// When the log cannot be written for another reason than a full or
    /// failing disk, or the schema is too wide.
    pub fn push(&mut self, schema: &Arc<Schema>, tick: Tick, row: &[f64]) -> Result<State, StoreError> {
        match self.advance(schema, tick, row) {
            Ok(()) => {}
            Err(Fault::Fatal(e)) => return Err(e),
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
        if self.frame.is_full() {
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
            writer.segment.as_ref().map_or(Ok(()), |segment| segment.out.sync())
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
            std::fs::remove_file(&tail.out.path).map_err(|e| StoreError::io(&tail.out.path, e))?;
        }
        Ok(())
    }

    /// Runs a step that a full disk may hold up.
    fn pausing(&mut self, step: impl FnOnce(&mut Writer) -> Result<(), Fault>) -> Result<State, StoreError> {
        match step(self) {
            Ok(()) => Ok(State::Recorded),
            Err(Fault::Pause(_)) => Ok(State::Paused),
            Err(Fault::Fatal(e)) => Err(e),
        }
    }

    fn advance(&mut self, schema: &Arc<Schema>, tick: Tick, row: &[f64]) -> Result<(), Fault> {
        let same = self.schema.as_ref().is_some_and(|s| Arc::ptr_eq(&s.schema, schema) || s.schema == *schema);
        let falls = self.frame.ticks().last().is_some_and(|last| tick.time_ns < last.time_ns);
        if !same || falls || self.frame.is_full() {
            self.complete()?;
        }
        if !same {
            self.adopt(schema)?;
        }
        self.ready_segment()?;
        self.ready_tail()?;
        self.tell_of_pause()?;
        let Some(id) = self.schema.as_ref().map(|s| s.id) else { return Ok(()) };
        self.record.clear();
        tail::write(&mut self.record, self.next.tick, id, &tick, row);
        if let Some(tail) = &mut self.tail {
            tail.out.append(&self.record)?;
        }
        self.frame.push(tick, row);
        self.next.tick += 1;
        Ok(())
    }

    /// Takes another schema; the frame must be empty.
    fn adopt(&mut self, schema: &Arc<Schema>) -> Result<(), Fault> {
        let series = schema.series.len();
        let too_wide = || Fault::Fatal(StoreError::TooWide { series, most: MAX_SERIES });
        let stored = StoredSchema::new(schema).ok_or_else(too_wide)?;
        let ticks = self.options.block_ticks.min(MOST_HELD / series.max(1));
        self.frame.reset(schema.clone(), ticks);
        self.schema = Some(stored);
        Ok(())
    }

    /// Sees to it that there is a segment and that it has the schema.
    fn ready_segment(&mut self) -> Result<(), Fault> {
        if let Some(segment) = &mut self.segment {
            if let Some(stored) = &self.schema
                && segment.schema.as_ref().is_none_or(|s| s.id != stored.id)
            {
                self.record.clear();
                segment.repeat_schema(&mut self.record);
                self.record.extend_from_slice(&stored.record);
                segment.out.append(&self.record)?;
                segment.schema = Some(stored.clone());
            }
            return Ok(());
        }
        self.record.clear();
        let next = self.next;
        // What is held comes later in this segment, with numbers it has already.
        let next_note = next.note - self.notes.len() as u64;
        let next_tick = next.tick - self.frame.ticks().len() as u64;
        Head { role: Role::Segment, segment: next.segment, next_tick, next_note }.write(&mut self.record);
        if let Some(stored) = &self.schema {
            self.record.extend_from_slice(&stored.record);
        }
        if !self.standing.is_empty() {
            let repeat = |note: &Note| StoredNote { flags: self.flags(note) | REPEATED, note: note.clone() };
            let waiting = |note: &Note| self.notes.iter().any(|n| n.note == *note);
            let notes: Vec<StoredNote> = self.standing.iter().filter(|n| !waiting(n)).map(repeat).collect();
            notes::write(&mut self.record, &mut self.plain, next_note, &notes);
        }
        let mut out = Output::create(self.dir.join(segment_name(next.segment)))?;
        if let Err(fault) = out.append(&self.record) {
            // An empty file is left where even this fails; readers pass it over.
            let _ = std::fs::remove_file(&out.path);
            return Err(fault);
        }
        self.next.segment += 1;
        self.segment =
            Some(Segment { out, schema: self.schema.clone(), covered_ns: 0, least_ns: i64::MAX, most_ns: i64::MIN });
        Ok(())
    }

    /// Sees to it that there is a tail and that it has the schema.
    fn ready_tail(&mut self) -> Result<(), Fault> {
        if self.tail.is_none() {
            let out = Output::create(self.dir.join(TAIL))?;
            self.tail = Some(Tail { out, schema: None, base: 0, base_schema: None });
        }
        let Some(tail) = &mut self.tail else { return Ok(()) };
        if tail.out.end == 0 {
            self.record.clear();
            let (segment, next_tick, next_note) = (self.next.segment, self.next.tick, self.next.note);
            Head { role: Role::Tail, segment, next_tick, next_note }.write(&mut self.record);
            tail.out.append(&self.record)?;
            tail.base = tail.out.end;
        }
        let Some(stored) = self.schema.as_ref().filter(|stored| tail.schema != Some(stored.id)) else {
            return Ok(());
        };
        let empty = tail.out.end == tail.base;
        if empty && tail.base > HEAD_SPAN {
            tail.out.cut(HEAD_SPAN)?;
            (tail.base, tail.base_schema) = (HEAD_SPAN, None);
        }
        tail.out.append(&stored.record)?;
        tail.schema = Some(stored.id);
        if empty {
            (tail.base, tail.base_schema) = (tail.out.end, tail.schema);
        }
        Ok(())
    }

    /// Empties the tail: a block has its ticks and notes now.
    fn cut_tail(&mut self) -> Result<(), Fault> {
        let Some(tail) = &mut self.tail else { return Ok(()) };
        tail.out.cut(tail.base)?;
        tail.schema = tail.base_schema;
        Ok(())
    }

    fn note_to_tail(&mut self, index: usize) -> Result<(), Fault> {
        self.ready_tail()?;
        let number = self.next.note - (self.notes.len() - index) as u64;
        self.record.clear();
        notes::write(&mut self.record, &mut self.plain, number, &self.notes[index..=index]);
        match &mut self.tail {
            Some(tail) => tail.out.append(&self.record),
            None => Ok(()),
        }
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
        if self.frame.is_empty() && self.notes.is_empty() {
            return Ok(());
        }
        self.ready_segment()?;
        self.record.clear();
        if !self.notes.is_empty() {
            let first = self.next.note - self.notes.len() as u64;
            notes::write(&mut self.record, &mut self.plain, first, &self.notes);
        }
        self.block_record();
        let Some(segment) = &mut self.segment else { return Ok(()) };
        segment.out.append(&self.record)?;
        if let (Some(first), Some(last)) = (self.frame.ticks().first(), self.frame.ticks().last()) {
            segment.least_ns = segment.least_ns.min(first.time_ns);
            segment.most_ns = segment.most_ns.max(last.time_ns);
        }
        let elapsed = |sum: u64, tick: &Tick| sum.saturating_add(tick.elapsed_ns);
        segment.covered_ns = self.frame.ticks().iter().fold(segment.covered_ns, elapsed);
        let full = u128::from(segment.covered_ns) >= self.options.segment_span.as_nanos();
        let full = full || segment.out.end >= segment_bytes(&self.options);
        self.frame.clear();
        self.notes.clear();
        self.notes_bytes = 0;
        self.cut_tail()?;
        if full { self.end_segment() } else { Ok(()) }
    }

    /// Appends the frame to the record in the making.
    fn block_record(&mut self) {
        let ticks = self.frame.ticks();
        let (Some(first), Some(last), Some(stored)) = (ticks.first(), ticks.last(), &self.schema) else { return };
        let start = open_record(&mut self.record);
        let head = BlockHead {
            first_tick: self.next.tick - ticks.len() as u64,
            from_ns: first.time_ns,
            to_ns: last.time_ns,
            schema: stored.id,
            next_note: self.next.note,
            ticks: ticks.len(),
            columns: self.frame.schema().series.len(),
        };
        head.write(&mut self.record);
        self.encoder.encode(&self.frame, &mut self.record);
        let fits = close_record(&mut self.record, start, BLOCK);
        assert!(fits, "MOST_HELD cells at their worst are shorter than a record's most");
    }

    /// Closes the segment, if there is one, and deletes what is too old.
    fn end_segment(&mut self) -> Result<(), Fault> {
        let Some(segment) = &mut self.segment else { return Ok(()) };
        self.record.clear();
        segment.repeat_schema(&mut self.record);
        let (least_ns, most_ns) = (segment.least_ns, segment.most_ns);
        End { next_tick: self.next.tick, least_ns, most_ns }.write(&mut self.record);
        segment.out.append(&self.record)?;
        self.segment = None;
        let age = self.options.keep_age.map(|age| i64::try_from(age.as_nanos()).unwrap_or(i64::MAX));
        let keep_from = age.filter(|_| least_ns <= most_ns).map(|age| most_ns.saturating_sub(age));
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
            let same = self.schema.as_ref().is_some_and(|s| s.id == taken.schema);
            let falls = self.frame.ticks().last().is_some_and(|last| taken.tick.time_ns < last.time_ns);
            let skips = taken.number != self.next.tick;
            if !same || falls || skips || self.frame.is_full() {
                self.complete()?;
            }
            if !same {
                self.adopt(schema)?;
            }
            self.next.tick = taken.number.saturating_add(1);
            self.frame.push(taken.tick, row);
        }
        self.complete()?;
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
