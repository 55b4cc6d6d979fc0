//! Writing of a log.

mod accounts;
mod bulk;
mod device_sync;
mod file_limit;
mod log_folder;
mod options;
mod segment_writer;
mod tail_file;
mod tick_buffer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskwright_base::units::format_count;
use diskwright_base::{Note, Schema, Tick};
use diskwright_hostfiles::disk_space;

use crate::codec;
use crate::error::StoreError;
use crate::format::{BLOCK_KIND, BlockHead, MAX_SERIES, TAIL_FILE, close_record, open_record, segment_file_name};
use crate::ledger::{LedgerFile, TickLedger, TrimSummary};
use crate::notes::{self, KEEP_EACH, KEEP_LATEST, REPEATED, StoredNote};
use crate::record_file::WriteFault;
use crate::recovery::{self, TailContent};
use crate::retention;
use crate::schema::StoredSchema;
use crate::segment_list;
use crate::tail;
use device_sync::DeviceSync;
use log_folder::LogFolder;
pub use options::{WriteOutcome, WriterOptions};
use segment_writer::SegmentWriter;
use tail_file::TailFile;
use tick_buffer::TickBuffer;

/// Largest total size of the notes held in memory, bytes.
const MAX_NOTES_BYTES: usize = 1 << 20;
/// Largest number of notes repeated in each segment.
const MAX_STANDING_NOTES: usize = 64;
/// Largest segment, bytes.
const MAX_SEGMENT_BYTES: u64 = 1 << 26;

/// A period that could not be recorded.
#[derive(Debug)]
struct Pause {
    since_ns: i64,
    elapsed_ns: u64,
    ticks: u64,
    reason: String,
}

/// Writer that appends to a log. Dropping it is the same as [`LogWriter::close`] with errors ignored.
#[derive(Debug)]
pub struct LogWriter {
    dir: PathBuf,
    options: WriterOptions,
    folder: LogFolder,
    ledger: TickLedger,
    ledger_file: LedgerFile,
    /// Removals counted in the ledger when this writer was created.
    trimmed_before: TrimSummary,
    /// Ticks that went with files, or the folder, that others removed during recording.
    removed_ticks: u64,
    /// Numbers of this log's ticks that no file of it has any more; `keep` does not count.
    missing_ticks: u64,
    ages: retention::SegmentAges,
    /// Segments to delete once the ledger that counts them is on the device.
    expired_segments: Vec<retention::ExpiredSegment>,
    device_sync: Option<DeviceSync>,
    segment: Option<SegmentWriter>,
    tail: Option<TailFile>,
    next_numbers: recovery::NextNumbers,
    /// Schema of the ticks to come.
    current_schema: Option<StoredSchema>,
    buffer: TickBuffer,
    notes: Vec<StoredNote>,
    notes_bytes: usize,
    standing_notes: Vec<Note>,
    pause: Option<Pause>,
    /// Kinds and texts of notes that are written as soon as the log accepts notes again.
    pending_notes: Vec<(&'static str, String)>,
    /// Messages for the user.
    remarks: Vec<String>,
    last_time_ns: i64,
    /// Largest file that this process may write.
    max_file_bytes: u64,
    encoder: codec::Encoder,
    record: Vec<u8>,
    notes_scratch: notes::NoteScratch,
}

impl LogWriter {
    /// Opens the log in `dir`, and creates directory and log if needed.
    /// Ticks that a killed recorder left in the tail are moved into a segment first.
    ///
    /// # Errors
    /// When another recorder has locked it, when `dir` contains files that are not a log,
    /// or when the operating system reports an error.
    pub fn create_or_append(dir: &Path, options: WriterOptions) -> Result<LogWriter, StoreError> {
        let folder = LogFolder::open_locked(dir)?;
        let segments = segment_list::list_segments(dir)?;
        let next_numbers = recovery::find_next_numbers(dir, &segments)?;
        let old_tail = recovery::read_tail_of_log(dir, &segments, next_numbers.tick)?;
        let (old_ledger, _) = TickLedger::read(dir);
        let to_store_error = |fault: WriteFault| fault.into_error(dir);
        let options = options::limit_options(options);
        let mut writer = LogWriter {
            ledger: old_ledger.unwrap_or(TickLedger::starting_at(0, log_folder::first_tick(dir, &segments, &old_tail))),
            ledger_file: LedgerFile::open(dir).map_err(to_store_error)?,
            removed_ticks: 0,
            missing_ticks: 0,
            trimmed_before: old_ledger.map(|ledger| ledger.trimmed).unwrap_or_default(),
            ages: retention::SegmentAges::default(),
            expired_segments: Vec::new(),
            device_sync: options.sync_every.map(DeviceSync::new),
            dir: dir.to_owned(),
            folder,
            segment: None,
            tail: None,
            next_numbers,
            current_schema: None,
            buffer: TickBuffer::new(options.block_ticks),
            notes: Vec::new(),
            notes_bytes: 0,
            standing_notes: Vec::new(),
            pause: None,
            pending_notes: Vec::new(),
            remarks: Vec::new(),
            last_time_ns: 0,
            max_file_bytes: disk_space::max_file_bytes().unwrap_or(u64::MAX),
            encoder: codec::Encoder::default(),
            record: Vec::new(),
            notes_scratch: notes::NoteScratch::default(),
            options,
        };
        writer.recover_tail(old_tail).map_err(to_store_error)?;
        writer.resume_from_ledger(old_ledger);
        Ok(writer)
    }

    /// Adds a tick; `row` has one cell per series of `schema`. When this returns
    /// [`WriteOutcome::Recorded`], the tick survives the death of the process (in
    /// bulk mode only once its block is written, which [`LogWriter::flush`] ensures).
    ///
    /// Ticks keep the order in which they are pushed, whatever their times
    /// are. Times may repeat. When time goes back a new block begins, so a
    /// reader's window still finds every tick by its own time; a log whose
    /// times go back at every other tick is correct, but large and slow.
    ///
    /// # Errors
    /// When the log cannot be written for another reason than a full or
    /// failing disk (in bulk mode: for any reason), or the schema is too wide.
    ///
    /// # Panics
    /// When the row and the schema differ in width, which is a bug of the caller.
    pub fn push(&mut self, schema: &Arc<Schema>, tick: Tick, row: &[f64]) -> Result<WriteOutcome, StoreError> {
        assert_eq!(row.len(), schema.series.len(), "row width");
        let tick = round_times(tick, self.options.time_unit_ns);
        self.last_time_ns = tick.time_ns;
        match self.record_tick(schema, tick, row) {
            Ok(()) => {}
            Err(WriteFault::Fatal(e)) => return Err(e),
            Err(WriteFault::Pause(e)) if self.options.bulk => return Err(StoreError::from_io(&self.dir, e)),
            Err(WriteFault::Pause(e)) => {
                let pause = self.pause.get_or_insert_with(|| Pause {
                    since_ns: tick.time_ns,
                    elapsed_ns: 0,
                    ticks: 0,
                    reason: e.to_string(),
                });
                pause.ticks += 1;
                pause.elapsed_ns = pause.elapsed_ns.saturating_add(tick.elapsed_ns);
                return Ok(WriteOutcome::Paused);
            }
        }
        if self.buffer.frame().is_full() {
            // If this fails because the disk is full, the ticks are in the tail,
            // and the next push tries again.
            self.run_pausable(LogWriter::write_block)?;
        }
        self.request_sync();
        Ok(WriteOutcome::Recorded)
    }

    /// Adds a note.
    ///
    /// # Errors
    /// When the log cannot be written for another reason than a full or
    /// failing disk.
    pub fn add_note(&mut self, note: &Note) -> Result<WriteOutcome, StoreError> {
        let mut note = notes::fit_note(note);
        // rounded like a tick's time, so that a note of the last tick is not after the log's end
        note.time_ns = round_to_unit(note.time_ns, self.options.time_unit_ns);
        let flags = self.keep_standing_note(&note);
        let length = notes::plain_length(&note);
        if self.notes_bytes + length > MAX_NOTES_BYTES
            && self.run_pausable(LogWriter::write_block)? == WriteOutcome::Paused
        {
            return Ok(WriteOutcome::Paused);
        }
        self.notes.push(StoredNote { flags, note });
        self.notes_bytes += length;
        self.next_numbers.note += 1;
        self.run_pausable(|writer| writer.write_note_to_tail(writer.notes.len() - 1))
    }

    /// Writes the held ticks and notes as a block, however short, and syncs it
    /// to the device.
    ///
    /// # Errors
    /// As [`LogWriter::add_note`].
    pub fn flush(&mut self) -> Result<WriteOutcome, StoreError> {
        self.run_pausable(|writer| {
            writer.write_block()?;
            writer.sync_now()
        })
    }

    /// Closes the log cleanly.
    ///
    /// # Errors
    /// As [`LogWriter::add_note`]; a full disk is an error here.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.finish()
    }

    /// Closes the log like [`LogWriter::close`], but keeps the writer, whose counts can
    /// still be read. A tick that is pushed later continues the log.
    ///
    /// # Errors
    /// As [`LogWriter::close`].
    pub fn finish(&mut self) -> Result<(), StoreError> {
        let dir = self.dir.clone();
        self.finish_log().map_err(|fault| fault.into_error(&dir))
    }

    fn finish_log(&mut self) -> Result<(), WriteFault> {
        // in bulk mode, notes alone have opened no file yet
        if self.segment.is_none() && self.tail.is_none() && self.notes.is_empty() {
            return Ok(());
        }
        match self.options.bulk {
            true => self.folder.require_in_place(&self.dir)?,
            false => self.restore_removed_files()?,
        }
        self.note_pause()?;
        self.write_pending_notes(self.last_time_ns)?;
        self.write_block()?;
        self.end_segment()?;
        self.ledger.closed = true;
        self.ledger.importing = false;
        self.write_ledger();
        if self.device_sync.is_some() {
            self.sync_now()?;
        }
        retention::delete_segments(std::mem::take(&mut self.expired_segments)).map_err(WriteFault::Fatal)?;
        if let Some(tail) = self.tail.take() {
            let path = &tail.record_file().path;
            std::fs::remove_file(path).map_err(|e| WriteFault::from_io(path, e))?;
        }
        Ok(())
    }

    /// Runs a step; a full or failing disk results in [`WriteOutcome::Paused`], except in bulk mode.
    fn run_pausable(
        &mut self,
        step: impl FnOnce(&mut LogWriter) -> Result<(), WriteFault>,
    ) -> Result<WriteOutcome, StoreError> {
        match step(self) {
            Ok(()) => Ok(WriteOutcome::Recorded),
            Err(WriteFault::Pause(e)) if self.options.bulk => Err(StoreError::from_io(&self.dir, e)),
            Err(WriteFault::Pause(_)) => Ok(WriteOutcome::Paused),
            Err(WriteFault::Fatal(e)) => Err(e),
        }
    }

    /// Records one tick in the tail and the buffer; in bulk mode only in the buffer.
    fn record_tick(&mut self, schema: &Arc<Schema>, tick: Tick, row: &[f64]) -> Result<(), WriteFault> {
        if !self.options.bulk {
            self.restore_removed_files()?;
            self.apply_sync_answer()?;
        }
        self.make_room_in_tail(row.len())?;
        self.prepare_for_tick(schema, &tick)?;
        if self.options.bulk {
            self.write_pending_notes(tick.time_ns)?;
            self.buffer.push(tick, row);
            self.next_numbers.tick += 1;
            return Ok(());
        }
        self.ensure_tail()?;
        self.note_pause()?;
        self.write_pending_notes(tick.time_ns)?;
        let (Some(stored), Some(tail)) = (&self.current_schema, &mut self.tail) else { return Ok(()) };
        self.record.clear();
        tail::write_tick(&mut self.record, self.next_numbers.tick, stored.id, &tick, row);
        tail.append(&self.record)?;
        self.buffer.push(tick, row);
        self.next_numbers.tick += 1;
        self.write_ledger();
        Ok(())
    }

    /// Prepares buffer and segment for a tick, and writes the held block if
    /// needed.
    fn prepare_for_tick(&mut self, schema: &Arc<Schema>, tick: &Tick) -> Result<(), WriteFault> {
        if self.buffer.must_flush_before(tick) {
            self.write_block()?;
        }
        let is_same = |stored: &StoredSchema| Arc::ptr_eq(&stored.schema, schema) || stored.schema == *schema;
        let mut is_much_narrower = false;
        if !self.current_schema.as_ref().is_some_and(is_same) {
            let series = schema.series.len();
            is_much_narrower =
                self.current_schema.as_ref().is_some_and(|stored| stored.schema.series.len() / 2 > series);
            let too_wide = || WriteFault::Fatal(StoreError::TooWide { series, max: MAX_SERIES });
            self.current_schema = Some(StoredSchema::new(schema).ok_or_else(too_wide)?);
        }
        // The schemas of a block must precede it in the segment.
        self.ensure_segment()?;
        let Some(stored) = &self.current_schema else { return Ok(()) };
        if !self.buffer.set_schema(stored) {
            self.write_block()?;
            self.ensure_segment()?;
            if let Some(stored) = &self.current_schema {
                self.buffer.set_schema(stored);
            }
        }
        if is_much_narrower {
            // free the memory that the much wider schema needed
            (self.encoder, self.record) = (codec::Encoder::default(), Vec::new());
        }
        Ok(())
    }

    /// Ensures that there is a segment that contains the current schema.
    fn ensure_segment(&mut self) -> Result<(), WriteFault> {
        if self.segment.is_none() {
            // The held ticks and notes follow in this segment, and already have their numbers.
            let next = recovery::NextNumbers {
                segment: self.next_numbers.segment,
                tick: self.next_numbers.first_held_tick(self.buffer.frame().ticks().len()),
                note: self.next_numbers.first_held_note(self.notes.len()),
            };
            let repeat = |note: &Note| StoredNote { flags: self.note_flags(note) | REPEATED, note: note.clone() };
            let is_waiting = |note: &Note| self.notes.iter().any(|n| n.note == *note);
            let standing: Vec<_> = self.standing_notes.iter().filter(|n| !is_waiting(n)).map(repeat).collect();
            let path = self.dir.join(segment_file_name(next.segment));
            self.folder.release_descriptors();
            let mut segment = SegmentWriter::create(path, next, &standing, &mut self.notes_scratch)?;
            self.folder.retake_descriptor();
            // Ticks wait at a segment's start only if the one before was removed, together with its schemas.
            for stored in self.buffer.buffered_schemas().filter_map(StoredSchema::new) {
                segment.ensure_schema(&stored)?;
            }
            self.segment = Some(segment);
            self.next_numbers.segment += 1;
        }
        match (&mut self.segment, &self.current_schema) {
            (Some(segment), Some(stored)) => segment.ensure_schema(stored),
            _ => Ok(()),
        }
    }

    /// Ensures that there is a tail that contains the current schema.
    fn ensure_tail(&mut self) -> Result<(), WriteFault> {
        if self.tail.is_none() {
            self.tail = Some(TailFile::create(self.dir.join(TAIL_FILE), self.next_numbers)?);
        }
        match (&mut self.tail, &self.current_schema) {
            (Some(tail), Some(stored)) => tail.ensure_schema(stored),
            _ => Ok(()),
        }
    }

    /// Writes the held note with this index to the tail, except in bulk mode.
    fn write_note_to_tail(&mut self, index: usize) -> Result<(), WriteFault> {
        if self.options.bulk {
            return Ok(());
        }
        self.ensure_tail()?;
        let number = self.next_numbers.first_held_note(self.notes.len() - index);
        self.record.clear();
        notes::write(&mut self.record, &mut self.notes_scratch, number, &self.notes[index..=index]);
        self.tail.as_mut().map_or(Ok(()), |tail| tail.append(&self.record))
    }

    /// Adds a note about the pause that a full disk caused, if there was one.
    fn note_pause(&mut self) -> Result<(), WriteFault> {
        let Some(pause) = &self.pause else { return Ok(()) };
        let seconds = pause.elapsed_ns as f64 * 1e-9;
        let lost = format_count(pause.ticks, "tick is lost", "ticks are lost");
        let text = format!("recording was paused for {seconds:.1} s, {lost}: {}", pause.reason);
        let note = Note::new(pause.since_ns, Note::GAP, text);
        self.add_own_note(note)?;
        self.pause = None;
        Ok(())
    }

    /// Writes the notes that wait, with this time.
    fn write_pending_notes(&mut self, time_ns: i64) -> Result<(), WriteFault> {
        while let Some((kind, text)) = self.pending_notes.first() {
            let note = Note::new(time_ns, kind, text.clone());
            self.add_own_note(note)?;
            self.pending_notes.remove(0);
        }
        Ok(())
    }

    /// Adds a note of the writer itself; if the write fails, the note is not kept.
    fn add_own_note(&mut self, note: Note) -> Result<(), WriteFault> {
        let flags = self.keep_standing_note(&note);
        self.notes_bytes += notes::plain_length(&note);
        self.notes.push(StoredNote { flags, note });
        self.next_numbers.note += 1;
        self.write_note_to_tail(self.notes.len() - 1).inspect_err(|_| {
            self.notes.pop();
            self.next_numbers.note -= 1;
        })
    }

    /// Writes the held notes and ticks to the segment.
    fn write_block(&mut self) -> Result<(), WriteFault> {
        if self.buffer.frame().is_empty() && self.notes.is_empty() {
            return Ok(());
        }
        self.ensure_segment()?;
        self.encode_notes();
        self.encode_block();
        self.make_room_in_segment()?;
        let Some(segment) = &mut self.segment else { return Ok(()) };
        segment.append(&self.record, self.buffer.frame().ticks())?;
        self.buffer.clear();
        self.finish_block()
    }

    /// Clears `record` and encodes the held notes into it, if there are any.
    fn encode_notes(&mut self) {
        self.record.clear();
        if !self.notes.is_empty() {
            let first = self.next_numbers.first_held_note(self.notes.len());
            notes::write(&mut self.record, &mut self.notes_scratch, first, &self.notes);
        }
    }

    /// Completes the writing of a block: the segment contains the held notes and ticks now.
    fn finish_block(&mut self) -> Result<(), WriteFault> {
        self.notes.clear();
        self.notes_bytes = 0;
        self.mark_tail_in_blocks()?;
        if self.options.bulk {
            self.folder.require_in_place(&self.dir)?;
            self.write_ledger();
        }
        let is_full =
            |s: &SegmentWriter| s.is_full(self.options.segment_span.as_nanos(), max_segment_bytes(&self.options));
        if self.segment.as_ref().is_some_and(is_full) { self.end_segment() } else { Ok(()) }
    }

    /// Appends the held ticks to `record` as a block.
    fn encode_block(&mut self) {
        let frame = self.buffer.frame();
        let (Some(first), Some(last)) = (frame.ticks().first(), frame.ticks().last()) else { return };
        let start = open_record(&mut self.record);
        let head = BlockHead {
            first_tick: self.next_numbers.first_held_tick(frame.ticks().len()),
            first_time_ns: first.time_ns,
            last_time_ns: last.time_ns,
            next_note: self.next_numbers.note,
            ticks: frame.ticks().len(),
            columns: frame.schema().series.len(),
            parts: self.buffer.parts().len(),
        };
        head.write(&mut self.record);
        for part in self.buffer.parts() {
            self.record.extend_from_slice(&part.schema_id.to_le_bytes());
            self.record.extend_from_slice(&(part.ticks as u16).to_le_bytes());
        }
        match self.options.bulk {
            true => self.encoder.encode_plain(frame, 0..frame.ticks().len(), frame.ticks(), &mut self.record),
            false => self.encoder.encode(frame, &mut self.record),
        }
        let fits = close_record(&mut self.record, start, BLOCK_KIND);
        assert!(fits, "a block of the largest number of buffered cells fits into a record");
    }

    /// Closes the segment, if there is one, and deletes segments beyond the retention limits.
    fn end_segment(&mut self) -> Result<(), WriteFault> {
        let Some(segment) = &mut self.segment else { return Ok(()) };
        segment.close(self.next_numbers.first_held_tick(self.buffer.frame().ticks().len()))?;
        if let (Some(sync), Some(segment)) = (&mut self.device_sync, &self.segment) {
            sync.add_closed_file(segment.record_file());
        }
        self.segment = None;
        self.expire_segments()
    }

    /// Flags of a note by its kind.
    fn note_flags(&self, note: &Note) -> u8 {
        if self.options.keep_latest.contains(&note.kind) {
            KEEP_LATEST
        } else if self.options.keep_each.contains(&note.kind) {
            KEEP_EACH
        } else {
            0
        }
    }

    /// Keeps the note if later segments must repeat it, and returns its flags.
    fn keep_standing_note(&mut self, note: &Note) -> u8 {
        let flags = self.note_flags(note);
        match flags {
            KEEP_LATEST => self.standing_notes.retain(|n| n.kind != note.kind),
            KEEP_EACH => self.standing_notes.retain(|n| n.kind != note.kind || n.text() != note.text()),
            _ => return flags,
        }
        if self.standing_notes.len() == MAX_STANDING_NOTES {
            self.standing_notes.remove(0);
        }
        self.standing_notes.push(note.clone());
        flags
    }

    /// Moves the ticks and notes of the last recorder's tail into a new segment.
    fn recover_tail(&mut self, old_tail: TailContent) -> Result<(), WriteFault> {
        for (number, stored) in &old_tail.notes {
            if *number >= self.next_numbers.note {
                self.next_numbers.note = number.saturating_add(1);
                self.notes.push(stored.clone());
            }
        }
        let mut cells = old_tail.cells.as_slice();
        for tail_tick in old_tail.ticks.iter().filter(|tail_tick| old_tail.has_cells(tail_tick)) {
            let (row, later_cells) = cells.split_at(tail_tick.columns);
            cells = later_cells;
            let is_new = tail_tick.number >= self.next_numbers.tick;
            let Some(schema) = old_tail.schema(tail_tick).filter(|_| is_new) else { continue };
            if tail_tick.number != self.next_numbers.tick {
                self.write_block()?;
            }
            self.prepare_for_tick(schema, &tail_tick.tick)?;
            self.next_numbers.tick = tail_tick.number.saturating_add(1);
            self.buffer.push(tail_tick.tick, row);
        }
        self.write_block()?;
        if self.device_sync.is_some() {
            // The old tail is removed only when its ticks are on the device.
            self.sync_now()?;
        }
        if self.options.bulk {
            return bulk::remove_tail(&self.dir);
        }
        // From here on the directory counts as a log, so that bookmarks can be set.
        self.ensure_tail()
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        // `drop` cannot report errors; callers that need them call `close`.
        let _ = self.finish();
    }
}

/// Rounds a tick's times; a length above 0 stays above 0.
fn round_times(tick: Tick, unit_ns: u64) -> Tick {
    let elapsed_ns = match i64::try_from(tick.elapsed_ns) {
        Ok(elapsed) if elapsed > 0 => round_to_unit(elapsed, unit_ns).max(unit_ns as i64) as u64,
        _ => tick.elapsed_ns,
    };
    Tick { time_ns: round_to_unit(tick.time_ns, unit_ns), elapsed_ns }
}

/// Rounds a time to the nearest multiple of the unit.
fn round_to_unit(time: i64, unit_ns: u64) -> i64 {
    let Some(unit) = i64::try_from(unit_ns).ok().filter(|unit| *unit > 1) else { return time };
    time.checked_add(unit / 2).map_or(time, |t| t.div_euclid(unit) * unit)
}

/// Largest size of a segment: an eighth of the bytes to keep, within limits.
fn max_segment_bytes(options: &WriterOptions) -> u64 {
    options.keep_bytes.map_or(MAX_SEGMENT_BYTES, |keep_bytes| (keep_bytes / 8).clamp(1 << 12, MAX_SEGMENT_BYTES))
}
