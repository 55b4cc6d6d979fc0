//! Reads a log: the frames and notes of a time window, also while a recorder
//! writes, in memory that does not depend on the log's length.

mod follow;
mod tail;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskwright_base::{Frame, Note, Schema};
use diskwright_hostfiles::bounded_file;

use crate::block_decoder::{BlockDecoder, BlockPart};
use crate::damage::{Damage, Loss};
use crate::error::StoreError;
use crate::format::{
    BLOCK_HEAD_BYTES, BLOCK_KIND, BlockHead, END_KIND, EndRecord, FileRole, HEAD_KIND, HEADER_BYTES, HeadRecord,
    MARKS_FILE, NOTES_KIND, PART_BYTES, RecordHeader, SCHEMA_KIND, TAIL_FILE, u16_at, u64_at,
};
use crate::ledger::{TickLedger, TrimSummary};
use crate::log_detection::require_log;
use crate::loss_account::LossAccount;
use crate::note_flow::NoteFlow;
use crate::notes;
use crate::record_scanner::{HEADER_READ_BYTES, Peek, READ_AHEAD_BYTES, RecordScanner, RecordSource};
use crate::recovery::{self, TailContent};
use crate::retention;
use crate::schema::SchemaCache;
use crate::segment_list::{self, SegmentFile};

pub use follow::{LogEnd, LogPosition};

/// Result of [`LogReader::next`].
#[derive(Clone, Debug, PartialEq)]
pub enum LogItem {
    /// The caller's frame was filled.
    Frame,
    /// A note; the notes of a frame's time span come before the frame.
    Note(Note),
    /// Something was lost here.
    Damage(Damage),
}

/// Part of the log that is read next.
#[derive(Debug)]
enum ReadStage {
    Segments,
    /// The tail, and how many of its ticks and cells were processed.
    Tail {
        content: Box<TailContent>,
        ticks_done: usize,
        cells_done: usize,
    },
    Finishing,
}

/// Result of processing a record.
enum RecordOutcome {
    Frame,
    NoFrame,
    Damaged,
}

/// Reads a log from its start to its end.
#[derive(Debug)]
pub struct LogReader {
    /// The log's directory, or the single file to read.
    path: PathBuf,
    is_dir: bool,
    stage: ReadStage,
    /// The segments known so far.
    segment_files: Vec<SegmentFile>,
    /// The segment that is read now, or was read last.
    current_file: Option<SegmentFile>,
    scanner: Option<RecordScanner>,
    /// True if the end record of the current segment was read.
    segment_closed: bool,
    /// Ticks before this number are skipped.
    first_wanted_tick: u64,
    /// The ledger, read before the first segment and again before the tail.
    ledger: Option<TickLedger>,
    payload: Vec<u8>,
    block_decoder: BlockDecoder,
    schemas: SchemaCache,
    account: LossAccount,
    note_flow: NoteFlow,
    ready_items: VecDeque<LogItem>,
}

impl LogReader {
    /// Opens a log: its directory, or one of its files.
    ///
    /// # Errors
    /// When there is no log, a later release wrote it, or the operating
    /// system reports an error.
    pub fn open(path: &Path) -> Result<LogReader, StoreError> {
        require_log(path)?;
        let mut reader = LogReader::new(path, path.is_dir());
        if reader.is_dir {
            reader.open_folder()?;
        } else {
            reader.open_single()?;
        }
        Ok(reader)
    }

    /// Creates a reader of the bytes of one file; `name` replaces its path in
    /// reports. Any bytes are accepted.
    ///
    /// # Errors
    /// When a later release wrote them.
    pub fn from_bytes(bytes: Vec<u8>, name: &Path) -> Result<LogReader, StoreError> {
        let mut reader = LogReader::new(name, false);
        let mut scanner = RecordScanner::new(RecordSource::Bytes(bytes.clone()), name, READ_AHEAD_BYTES)?;
        match scanner.read_head()?.map(|head| head.role) {
            Some(FileRole::Tail) => reader.start_tail(recovery::read_tail(name, bytes, 0)?),
            _ => reader.scanner = Some(RecordScanner::new(RecordSource::Bytes(bytes), name, READ_AHEAD_BYTES)?),
        }
        Ok(reader)
    }

    fn new(path: &Path, is_dir: bool) -> LogReader {
        LogReader {
            path: path.to_owned(),
            is_dir,
            stage: ReadStage::Segments,
            segment_files: Vec::new(),
            current_file: None,
            scanner: None,
            segment_closed: false,
            first_wanted_tick: 0,
            ledger: None,
            payload: Vec::new(),
            block_decoder: BlockDecoder::default(),
            schemas: SchemaCache::default(),
            account: LossAccount::default(),
            note_flow: NoteFlow::new(None),
            ready_items: VecDeque::new(),
        }
    }

    fn open_folder(&mut self) -> Result<(), StoreError> {
        let marks = self.path.join(MARKS_FILE);
        match RecordScanner::open(&marks, READ_AHEAD_BYTES) {
            Ok(_) if crate::bookmarks::is_empty_marks_file(&marks) => {
                let damage = Damage::with_unknown_size(&marks, 0, 0, Loss::Emptied);
                self.ready_items.push_back(LogItem::Damage(Damage { ticks: Some(0), ..damage }));
            }
            Ok(scanner) => self.note_flow.marks = Some(scanner),
            Err(e) if e.is_not_found() => {}
            Err(StoreError::NotAFile(_)) => {
                let damage = Damage::with_unknown_size(&marks, 0, 0, Loss::Refused);
                self.ready_items.push_back(LogItem::Damage(Damage { ticks: Some(0), ..damage }));
            }
            Err(e) => return Err(e),
        }
        // The segments are listed first: a recorder writes the ledger before it deletes a segment.
        segment_list::add_new_segments(&self.path, &mut self.segment_files)?;
        let (ledger, damage) = TickLedger::read(&self.path);
        self.ready_items.extend(damage.map(LogItem::Damage));
        // Segment number 1 begins with the first tick.
        let has_first_segment = self.segment_files.first().is_none_or(|segment| segment.number == 1);
        let first_kept = ledger.and_then(|ledger| ledger.first_kept);
        self.account.next_tick = first_kept.or((has_first_segment && !self.segment_files.is_empty()).then_some(0));
        self.ledger = ledger;
        Ok(())
    }

    fn open_single(&mut self) -> Result<(), StoreError> {
        let head = RecordScanner::open_named(&self.path, HEADER_READ_BYTES)?.read_head()?;
        match head.map(|h| h.role) {
            Some(FileRole::Tail) => {
                let bytes = bounded_file::read_file(&self.path, recovery::MAX_TAIL_BYTES)
                    .map_err(|e| StoreError::from_io(&self.path, e))?;
                self.start_tail(recovery::read_tail(&self.path, bytes, 0)?);
            }
            Some(FileRole::Marks) => {
                self.note_flow.marks = Some(RecordScanner::open_named(&self.path, READ_AHEAD_BYTES)?);
                self.stage = ReadStage::Finishing;
            }
            _ => self.scanner = Some(RecordScanner::open_named(&self.path, READ_AHEAD_BYTES)?),
        }
        Ok(())
    }

    /// Returns what the retention limits removed from the log's start;
    /// `None` if nothing was removed, or there is no ledger.
    pub fn trim_summary(&self) -> Option<TrimSummary> {
        self.ledger.map(|ledger| ledger.trimmed).filter(|trimmed| trimmed.segments > 0)
    }

    /// Limits reading to ticks and notes from `from_ns` to `to_ns`, both included
    /// (nanoseconds since 1970 UTC). The newest notes that describe the
    /// machine are returned even if they are older.
    pub fn set_window(&mut self, from_ns: i64, to_ns: i64) {
        self.note_flow.from_ns = from_ns;
        self.note_flow.to_ns = to_ns;
    }

    /// Returns the smallest and largest tick time of the whole log, by the heads of its
    /// blocks; `None` if it has no tick.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn time_range(&self) -> Result<Option<(i64, i64)>, StoreError> {
        let mut range = None;
        let mut extend = |added: Option<(i64, i64)>| {
            range = match (range, added) {
                (Some((a, b)), Some((c, d))) => Some((i64::min(a, c), i64::max(b, d))),
                (a, b) => a.or(b),
            }
        };
        let tail = match &self.stage {
            ReadStage::Tail { content, .. } => content,
            _ if !self.is_dir => {
                extend(retention::file_time_range(RecordScanner::open_named(&self.path, HEADER_READ_BYTES)?)?);
                return Ok(range);
            }
            _ => {
                for segment in &self.segment_files {
                    match RecordScanner::open(&segment.path(&self.path), HEADER_READ_BYTES) {
                        Ok(scanner) => extend(retention::file_time_range(scanner)?),
                        Err(e) if e.is_not_found() => {}
                        Err(StoreError::NotAFile(_)) => {}
                        Err(e) => return Err(e),
                    }
                }
                // only the times of the ticks are needed, so no cells are read
                &recovery::read_tail_of_log(&self.path, &self.segment_files, u64::MAX)?
            }
        };
        tail.ticks.iter().for_each(|t| extend(Some((t.tick.time_ns, t.tick.time_ns))));
        Ok(range)
    }

    /// Returns the next frame, note or loss; `None` at the end of the log. The
    /// content of `frame` is valid only if the result is [`LogItem::Frame`].
    ///
    /// # Errors
    /// When a file cannot be read or a later release wrote it. Damage is
    /// returned as an item, not as an error.
    pub fn next(&mut self, frame: &mut Frame) -> Result<Option<LogItem>, StoreError> {
        loop {
            if let Some(item) = self.ready_items.pop_front() {
                return Ok(Some(item));
            }
            let filled = match &mut self.stage {
                ReadStage::Segments => self.read_from_segment(frame)?,
                ReadStage::Tail { .. } => self.read_from_tail(frame)?,
                ReadStage::Finishing => {
                    if let Some(ledger) = self.ledger.take().filter(|_| self.is_dir) {
                        self.account.finish_by_ledger(&self.path, &ledger);
                    }
                    let losses = self.account.release_rest();
                    self.queue_losses(losses);
                    self.queue_notes_until(i64::MAX)?;
                    if self.ready_items.is_empty() {
                        return Ok(None);
                    }
                    false
                }
            };
            if filled {
                self.queue_notes_until(frame.ticks().last().map_or(i64::MIN, |t| t.time_ns))?;
                self.ready_items.push_back(LogItem::Frame);
            }
        }
    }

    /// Queues losses, except those outside the window or among skipped ticks.
    fn queue_losses(&mut self, losses: Vec<Damage>) {
        if self.first_wanted_tick > 0 && self.account.next_tick.is_some_and(|next| next <= self.first_wanted_tick) {
            return;
        }
        let (from, to) = (self.note_flow.from_ns, self.note_flow.to_ns);
        let is_inside = |damage: &Damage| {
            let (after, before) = (damage.after_ns.unwrap_or(i64::MIN), damage.before_ns.unwrap_or(i64::MAX));
            // If the clock was set back, `after` is later than `before`.
            after.min(before) <= to && after.max(before) >= from
        };
        self.ready_items.extend(losses.into_iter().filter(is_inside).map(LogItem::Damage));
    }

    /// Queues the waiting notes up to `until_ns`, and the damages among the bookmarks.
    fn queue_notes_until(&mut self, until_ns: i64) -> Result<(), StoreError> {
        let notes = self.note_flow.release_until(until_ns)?;
        self.ready_items.extend(self.note_flow.damages.drain(..).map(LogItem::Damage));
        self.ready_items.extend(notes.into_iter().map(LogItem::Note));
        Ok(())
    }

    /// Reads one more record, or part of a block, from the segments; returns true if it filled the frame.
    fn read_from_segment(&mut self, frame: &mut Frame) -> Result<bool, StoreError> {
        if self.block_decoder.has_pending_part() {
            return Ok(self.block_decoder.next_part(frame, self.note_flow.from_ns, self.note_flow.to_ns));
        }
        let Some(scanner) = &mut self.scanner else {
            self.open_next_segment()?;
            return Ok(false);
        };
        let offset = scanner.offset();
        let header = match scanner.peek_record()? {
            Peek::Record(header) => header,
            Peek::End => {
                self.finish_segment(None)?;
                return Ok(false);
            }
            Peek::Lost { offset, bytes, loss } => {
                match loss {
                    Loss::Damaged => self.account.add_loss(scanner.path(), offset, bytes, loss),
                    _ => self.finish_segment(Some((offset, bytes)))?,
                }
                return Ok(false);
            }
        };
        match self.process_record(&header, offset, frame)? {
            RecordOutcome::Frame => return Ok(true),
            RecordOutcome::NoFrame => {}
            RecordOutcome::Damaged => {
                self.account.add_loss(&self.segment_path(), offset, header.record_bytes(), Loss::Damaged)
            }
        }
        Ok(false)
    }

    fn segment_path(&self) -> PathBuf {
        self.scanner.as_ref().map_or(self.path.clone(), |s| s.path().to_owned())
    }

    /// Sizes the losses before a sound record by the numbers in it.
    fn size_losses_at(&mut self, offset: u64, tick: u64, note: u64) {
        self.account.size_losses(&self.segment_path(), offset, tick, note);
    }

    /// Sizes the losses before a block by its numbers, and queues them with its times.
    fn size_losses_before_block(&mut self, offset: u64, head: &BlockHead) {
        self.size_losses_at(offset, head.first_tick, head.next_note);
        self.account.next_tick = Some(head.first_tick.saturating_add(head.ticks as u64));
        let losses = self.account.release_before(head.first_time_ns, head.last_time_ns);
        self.queue_losses(losses);
    }

    /// Reads and processes the record at the scanner's position.
    fn process_record(
        &mut self,
        header: &RecordHeader,
        offset: u64,
        frame: &mut Frame,
    ) -> Result<RecordOutcome, StoreError> {
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        let is_sound = match &mut self.scanner {
            Some(scanner) => scanner.read_payload(header)?.map(|bytes| payload.extend_from_slice(bytes)).is_some(),
            None => false,
        };
        let outcome = match (is_sound, header.kind) {
            (false, _) => Ok(RecordOutcome::Damaged),
            (_, HEAD_KIND) => self.process_head(&payload, offset),
            (_, BLOCK_KIND) => self.process_block(&payload, offset, frame),
            (_, SCHEMA_KIND) => Ok(self.process_schema(&payload)),
            (_, NOTES_KIND) => self.process_notes(&payload),
            (_, END_KIND) => Ok(self.process_end(&payload, offset)),
            // Unknown kinds come from a later release of the same version, and may be ignored.
            _ => Ok(RecordOutcome::NoFrame),
        };
        self.payload = payload;
        outcome
    }

    fn process_head(&mut self, payload: &[u8], offset: u64) -> Result<RecordOutcome, StoreError> {
        let Some(head) = HeadRecord::parse(payload, &self.segment_path())? else { return Ok(RecordOutcome::Damaged) };
        self.size_losses_at(offset, head.next_tick, head.next_note);
        Ok(RecordOutcome::NoFrame)
    }

    fn process_end(&mut self, payload: &[u8], offset: u64) -> RecordOutcome {
        let Some(end) = EndRecord::parse(payload) else { return RecordOutcome::Damaged };
        self.segment_closed = true;
        self.size_losses_at(offset, end.next_tick, self.account.next_note.unwrap_or(0));
        RecordOutcome::NoFrame
    }

    fn process_schema(&mut self, payload: &[u8]) -> RecordOutcome {
        if self.schemas.parse_and_add(payload) { RecordOutcome::NoFrame } else { RecordOutcome::Damaged }
    }

    fn process_notes(&mut self, payload: &[u8]) -> Result<RecordOutcome, StoreError> {
        let Some((first, notes)) = notes::parse(payload, &mut self.note_flow.unpacker) else {
            return Ok(RecordOutcome::Damaged);
        };
        if self.account.next_note.is_none_or(|expected| expected <= first) && !self.account.has_unsized_losses() {
            self.account.next_note = Some(notes::number_after(first, &notes).max(self.account.next_note.unwrap_or(0)));
        } else {
            // Losses before these notes are sized by the next block; the notes themselves are not lost.
            let counted = notes::number_after(0, &notes);
            self.account.next_note = self.account.next_note.map(|n| n.saturating_add(counted));
        }
        self.note_flow.add_notes(notes::number_notes(first, notes));
        if self.note_flow.is_crowded() {
            self.queue_notes_until(i64::MAX)?;
        }
        Ok(RecordOutcome::NoFrame)
    }

    fn process_block(&mut self, payload: &[u8], offset: u64, frame: &mut Frame) -> Result<RecordOutcome, StoreError> {
        let Some(head) = BlockHead::parse(payload) else { return Ok(RecordOutcome::Damaged) };
        let next_tick = head.first_tick.saturating_add(head.ticks as u64);
        let already_read = self.account.next_tick.unwrap_or(0).saturating_sub(head.first_tick);
        if already_read >= head.ticks as u64 {
            self.account.add_repetition(&self.segment_path(), offset, (HEADER_BYTES + payload.len()) as u64);
            return Ok(RecordOutcome::NoFrame);
        }
        if head.last_time_ns < self.note_flow.from_ns
            || head.first_time_ns > self.note_flow.to_ns
            || next_tick <= self.first_wanted_tick
        {
            self.size_losses_before_block(offset, &head);
            return Ok(RecordOutcome::NoFrame);
        }
        let Some((parts, code)) = payload[BLOCK_HEAD_BYTES..].split_at_checked(head.parts * PART_BYTES) else {
            return Ok(RecordOutcome::Damaged);
        };
        let Some(parts) = self.resolve_parts(parts, &head)? else { return Ok(RecordOutcome::Damaged) };
        let is_decoded = self.block_decoder.decode_block(&head, parts, code, frame);
        if !is_decoded {
            return Ok(RecordOutcome::Damaged);
        }
        let unwanted = self.first_wanted_tick.saturating_sub(head.first_tick);
        self.block_decoder.skip_first_ticks(already_read.max(unwanted) as usize);
        self.size_losses_before_block(offset, &head);
        self.account.next_tick = Some(next_tick);
        match self.block_decoder.next_part(frame, self.note_flow.from_ns, self.note_flow.to_ns) {
            true => Ok(RecordOutcome::Frame),
            false => Ok(RecordOutcome::NoFrame),
        }
    }

    /// Returns the schemas and tick counts of a block's parts; `None` if a schema is lost.
    fn resolve_parts(&mut self, parts: &[u8], head: &BlockHead) -> Result<Option<Vec<BlockPart>>, StoreError> {
        let mut found = Vec::new();
        for part in parts.chunks_exact(PART_BYTES) {
            let (Some(id), Some(ticks)) = (u64_at(part, 0), u16_at(part, 8)) else { return Ok(None) };
            let Some(schema) = self.find_schema(id)? else { return Ok(None) };
            found.push((schema, usize::from(ticks)));
        }
        let ticks: usize = found.iter().map(|(_, ticks)| ticks).sum();
        Ok(Some(found).filter(|_| ticks == head.ticks))
    }

    /// Finds a schema by its id: in the cache, or in any other file of the log if
    /// the copy before the block is damaged.
    fn find_schema(&mut self, id: u64) -> Result<Option<Arc<Schema>>, StoreError> {
        if let Some(schema) = self.schemas.get(id) {
            return Ok(Some(schema.clone()));
        }
        let mut files = vec![self.segment_path()];
        if self.is_dir {
            files.push(self.path.join(TAIL_FILE));
            files.extend(self.segment_files.iter().map(|segment| segment.path(&self.path)));
        }
        for file in files {
            let found = match RecordScanner::open(&file, HEADER_READ_BYTES) {
                Ok(scanner) => recovery::find_schema_in_file(scanner, id)?,
                Err(_) => None,
            };
            if let Some(schema) = found {
                self.schemas.add_schema(id, schema.clone());
                return Ok(Some(schema));
            }
        }
        Ok(None)
    }

    /// Returns the segment after the current one; looks for new segments if
    /// none is known.
    fn find_next_segment(&mut self) -> Result<Option<SegmentFile>, StoreError> {
        let next_segment =
            |reader: &LogReader| reader.segment_files.iter().find(|p| Some(*p) > reader.current_file.as_ref()).cloned();
        if let Some(segment) = next_segment(self) {
            return Ok(Some(segment));
        }
        segment_list::add_new_segments(&self.path, &mut self.segment_files)?;
        Ok(next_segment(self))
    }

    /// Opens the next segment that the window needs, or switches to the tail.
    fn open_next_segment(&mut self) -> Result<(), StoreError> {
        let Some(segment) = self.find_next_segment()? else { return self.switch_to_tail() };
        self.current_file = Some(segment.clone());
        self.segment_closed = false;
        let path = segment.path(&self.path);
        match RecordScanner::open(&path, READ_AHEAD_BYTES) {
            Ok(scanner) => {
                let is_skipped = self.skip_if_outside_window(&path)?;
                self.scanner = (!is_skipped).then_some(scanner);
            }
            // A recorder deleted it to stay within the retention limits.
            Err(e) if e.is_not_found() => self.account.forget_position(),
            Err(StoreError::NotAFile(_)) => self.account.add_loss(&path, 0, 0, Loss::Refused),
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// Skips a segment that lies wholly outside the window, by its first and last
    /// record: counts its ticks and returns true.
    fn skip_if_outside_window(&mut self, path: &Path) -> Result<bool, StoreError> {
        if self.note_flow.from_ns == i64::MIN && self.note_flow.to_ns == i64::MAX && self.first_wanted_tick == 0 {
            return Ok(false);
        }
        let mut scanner = RecordScanner::open(path, HEADER_READ_BYTES)?;
        let Some(head) = scanner.read_head()? else { return Ok(false) };
        let Some(end) = scanner.read_end_record()? else { return Ok(false) };
        let is_empty = end.min_time_ns > end.max_time_ns;
        let is_repeated = head.next_tick < self.account.next_tick.unwrap_or(0);
        let is_new = end.next_tick > self.first_wanted_tick;
        if is_empty
            || is_repeated
            || is_new && end.max_time_ns >= self.note_flow.from_ns && end.min_time_ns <= self.note_flow.to_ns
        {
            return Ok(false);
        }
        self.account.size_losses(path, 0, head.next_tick, head.next_note);
        let losses = self.account.release_before(end.min_time_ns, end.max_time_ns);
        self.queue_losses(losses);
        self.account.next_tick = Some(end.next_tick);
        self.account.next_note = None;
        Ok(true)
    }

    /// Handles the end of the current segment, as far as it is visible. `unfinished` is the offset and the length of an
    /// unfinished record at the end.
    fn finish_segment(&mut self, unfinished: Option<(u64, u64)>) -> Result<(), StoreError> {
        if self.is_dir {
            if self.find_next_segment()?.is_none() {
                return self.finish_newest_segment(unfinished);
            }
            if self.has_new_record()? {
                return Ok(());
            }
        }
        self.close_segment(unfinished);
        if !self.is_dir {
            self.stage = ReadStage::Finishing;
        }
        Ok(())
    }

    /// Returns true if the segment has another record since the last look.
    fn has_new_record(&mut self) -> Result<bool, StoreError> {
        let Some(scanner) = &mut self.scanner else { return Ok(false) };
        scanner.refresh_length()?;
        Ok(matches!(scanner.peek_record()?, Peek::Record(_)))
    }

    /// Switches from the newest segment to the tail. A recorder may be moving ticks from the tail
    /// to the segment, so the tail is read first: ticks that have left it are in the segment.
    fn finish_newest_segment(&mut self, unfinished: Option<(u64, u64)>) -> Result<(), StoreError> {
        let (ledger, content) = self.read_tail()?;
        if self.find_next_segment()?.is_some() || self.has_new_record()? {
            return Ok(());
        }
        self.ledger = ledger;
        self.close_segment(unfinished);
        self.start_tail(content);
        Ok(())
    }

    /// Closes the current segment and records a loss if it has no end record.
    fn close_segment(&mut self, unfinished: Option<(u64, u64)>) {
        let Some(scanner) = self.scanner.take() else { return };
        if self.segment_closed && unfinished.is_none() {
            return;
        }
        // Losses since the last block: without a ledger, the next recorder did not
        // know of them when it chose its numbers, so these numbers cannot size them.
        let is_counted = |tick: u64| self.ledger.is_some_and(|ledger| ledger.counted_from <= tick);
        if !self.account.next_tick.is_some_and(is_counted) {
            let losses = self.account.release_rest();
            self.queue_losses(losses);
        }
        match unfinished {
            Some((offset, bytes)) => self.account.add_loss(scanner.path(), offset, bytes, Loss::Unfinished),
            None => self.account.add_loss(scanner.path(), scanner.length(), 0, Loss::Unclosed),
        }
    }
}
