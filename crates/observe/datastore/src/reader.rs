//! Reads a log: the frames and notes of a time window, also while a recorder
//! writes, in memory that does not depend on the log's length.

mod follow;
mod tail;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskwright_base::{Frame, Note, Schema};

use crate::account::Account;
use crate::blocks::{BlockPart, Blocks};
use crate::damage::{Damage, Loss};
use crate::error::StoreError;
use crate::flow::NoteFlow;
use crate::format::{
    BLOCK, BLOCK_FIXED, BlockHead, END, EndRecord, HEAD, HEADER, HeadRecord, MARKS, NOTES, PART, RecordHeader, Role,
    SCHEMA, TAIL, u16_at, u64_at,
};
use crate::ledger::{TickLedger, TrimSummary};
use crate::notes;
use crate::order::{self, SegmentPlace};
use crate::recognise::require_log;
use crate::recover::{self, TailContent};
use crate::retention;
use crate::schema::Schemas;
use crate::segment::{AHEAD, GLANCE, Peek, RecordScanner, SegmentSource};

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
    Tail(Box<TailContent>, usize, usize),
    Rest,
}

/// Result of processing a record.
enum RecordOutcome {
    Frame,
    Other,
    Bad,
}

/// Reads a log from its start to its end.
#[derive(Debug)]
pub struct LogReader {
    /// The log's directory, or the single file to read.
    path: PathBuf,
    is_dir: bool,
    stage: ReadStage,
    /// The segments known so far.
    places: Vec<SegmentPlace>,
    /// The segment that is read now, or was read last.
    place: Option<SegmentPlace>,
    segment: Option<RecordScanner>,
    /// True once the current segment's end record was read.
    closed: bool,
    /// Ticks before this number are skipped.
    from_tick: u64,
    /// The ledger, read before the first segment and again before the tail.
    ledger: Option<TickLedger>,
    payload: Vec<u8>,
    blocks: Blocks,
    schemas: Schemas,
    account: Account,
    flow: NoteFlow,
    ready: VecDeque<LogItem>,
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
    pub fn of_bytes(bytes: Vec<u8>, name: &Path) -> Result<LogReader, StoreError> {
        let mut reader = LogReader::new(name, false);
        let mut scanner = RecordScanner::new(SegmentSource::Bytes(bytes.clone()), name, AHEAD)?;
        match scanner.head()?.map(|head| head.role) {
            Some(Role::Tail) => reader.enter_tail(recover::read_tail(name, bytes, 0)?),
            _ => reader.segment = Some(RecordScanner::new(SegmentSource::Bytes(bytes), name, AHEAD)?),
        }
        Ok(reader)
    }

    fn new(path: &Path, is_dir: bool) -> LogReader {
        LogReader {
            path: path.to_owned(),
            is_dir,
            stage: ReadStage::Segments,
            places: Vec::new(),
            place: None,
            segment: None,
            closed: false,
            from_tick: 0,
            ledger: None,
            payload: Vec::new(),
            blocks: Blocks::default(),
            schemas: Schemas::default(),
            account: Account::default(),
            flow: NoteFlow::new(None),
            ready: VecDeque::new(),
        }
    }

    fn open_folder(&mut self) -> Result<(), StoreError> {
        let marks = self.path.join(MARKS);
        match RecordScanner::open(&marks, AHEAD) {
            Ok(_) if crate::marks::is_emptied(&marks) => {
                let damage = Damage::at(&marks, 0, 0, Loss::Emptied);
                self.ready.push_back(LogItem::Damage(Damage { ticks: Some(0), ..damage }));
            }
            Ok(scanner) => self.flow.marks = Some(scanner),
            Err(e) if e.is_absence() => {}
            Err(StoreError::NotAFile(_)) => {
                let damage = Damage::at(&marks, 0, 0, Loss::Refused);
                self.ready.push_back(LogItem::Damage(Damage { ticks: Some(0), ..damage }));
            }
            Err(e) => return Err(e),
        }
        // The segments are listed first: a recorder writes the ledger before it deletes a segment.
        order::refresh(&self.path, &mut self.places)?;
        let (ledger, damage) = TickLedger::read(&self.path);
        self.ready.extend(damage.map(LogItem::Damage));
        // Segment number 1 begins with the first tick.
        let begins_log = self.places.first().is_none_or(|place| place.number == 1);
        let first = ledger.and_then(|ledger| ledger.first);
        self.account.tick = first.or((begins_log && !self.places.is_empty()).then_some(0));
        self.ledger = ledger;
        Ok(())
    }

    fn open_single(&mut self) -> Result<(), StoreError> {
        let head = RecordScanner::open_named(&self.path, GLANCE)?.head()?;
        match head.map(|h| h.role) {
            Some(Role::Tail) => {
                let bytes = std::fs::read(&self.path).map_err(|e| StoreError::io(&self.path, e))?;
                self.enter_tail(recover::read_tail(&self.path, bytes, 0)?);
            }
            Some(Role::Marks) => {
                self.flow.marks = Some(RecordScanner::open_named(&self.path, AHEAD)?);
                self.stage = ReadStage::Rest;
            }
            _ => self.segment = Some(RecordScanner::open_named(&self.path, AHEAD)?),
        }
        Ok(())
    }

    /// Returns what the retention limits removed from the log's start;
    /// `None` if nothing was removed, or there is no ledger.
    pub fn trimmed(&self) -> Option<TrimSummary> {
        self.ledger.map(|ledger| ledger.trimmed).filter(|trimmed| trimmed.segments > 0)
    }

    /// Limits reading to ticks and notes from `from_ns` to `to_ns`, both included
    /// (nanoseconds since 1970 UTC). The newest notes that describe the
    /// machine are returned even if they are older.
    pub fn window(&mut self, from_ns: i64, to_ns: i64) {
        self.flow.from_ns = from_ns;
        self.flow.to_ns = to_ns;
    }

    /// Returns the smallest and largest tick time of the whole log, by the heads of its
    /// blocks; `None` if it has no tick.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn range(&self) -> Result<Option<(i64, i64)>, StoreError> {
        let mut span = None;
        let mut join = |other: Option<(i64, i64)>| {
            span = match (span, other) {
                (Some((a, b)), Some((c, d))) => Some((i64::min(a, c), i64::max(b, d))),
                (a, b) => a.or(b),
            }
        };
        let tail = match &self.stage {
            ReadStage::Tail(content, ..) => content,
            _ if !self.is_dir => {
                join(retention::times(RecordScanner::open_named(&self.path, GLANCE)?)?);
                return Ok(span);
            }
            _ => {
                for place in &self.places {
                    match RecordScanner::open(&place.path(&self.path), GLANCE) {
                        Ok(scanner) => join(retention::times(scanner)?),
                        Err(e) if e.is_absence() => {}
                        Err(StoreError::NotAFile(_)) => {}
                        Err(e) => return Err(e),
                    }
                }
                // only the times of the ticks are needed, so no cells are read
                &recover::tail_of(&self.path, &self.places, u64::MAX)?
            }
        };
        tail.ticks.iter().for_each(|t| join(Some((t.tick.time_ns, t.tick.time_ns))));
        Ok(span)
    }

    /// Returns the next frame, note or loss; `None` at the end of the log. The
    /// content of `frame` is valid only if the result is [`LogItem::Frame`].
    ///
    /// # Errors
    /// When a file cannot be read or a later release wrote it. Damage is
    /// returned as an item, not as an error.
    pub fn next(&mut self, frame: &mut Frame) -> Result<Option<LogItem>, StoreError> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            let filled = match &mut self.stage {
                ReadStage::Segments => self.segment_step(frame)?,
                ReadStage::Tail(..) => self.tail_step(frame)?,
                ReadStage::Rest => {
                    if let Some(ledger) = self.ledger.take().filter(|_| self.is_dir) {
                        self.account.end(&self.path, &ledger);
                    }
                    let losses = self.account.give_up();
                    self.tell(losses);
                    self.release(i64::MAX)?;
                    if self.ready.is_empty() {
                        return Ok(None);
                    }
                    false
                }
            };
            if filled {
                self.release(frame.ticks().last().map_or(i64::MIN, |t| t.time_ns))?;
                self.ready.push_back(LogItem::Frame);
            }
        }
    }

    /// Queues losses, except those outside the window or among skipped ticks.
    fn tell(&mut self, losses: Vec<Damage>) {
        if self.from_tick > 0 && self.account.tick.is_some_and(|next| next <= self.from_tick) {
            return;
        }
        let (from, to) = (self.flow.from_ns, self.flow.to_ns);
        let inside = |damage: &Damage| {
            let (after, before) = (damage.after_ns.unwrap_or(i64::MIN), damage.before_ns.unwrap_or(i64::MAX));
            // If the clock was set back, `after` is later than `before`.
            after.min(before) <= to && after.max(before) >= from
        };
        self.ready.extend(losses.into_iter().filter(inside).map(LogItem::Damage));
    }

    /// Queues the waiting notes up to `until_ns`, and the damages among the bookmarks.
    fn release(&mut self, until_ns: i64) -> Result<(), StoreError> {
        let notes = self.flow.release(until_ns)?;
        self.ready.extend(self.flow.damages.drain(..).map(LogItem::Damage));
        self.ready.extend(notes.into_iter().map(LogItem::Note));
        Ok(())
    }

    /// Reads one more record, or part of a block, from the segments; returns true if it filled the frame.
    fn segment_step(&mut self, frame: &mut Frame) -> Result<bool, StoreError> {
        if self.blocks.is_open() {
            return Ok(self.blocks.next_part(frame, self.flow.from_ns, self.flow.to_ns));
        }
        let Some(scanner) = &mut self.segment else {
            self.open_next()?;
            return Ok(false);
        };
        let offset = scanner.offset();
        let header = match scanner.peek()? {
            Peek::Record(header) => header,
            Peek::End => {
                self.end_of_segment(None)?;
                return Ok(false);
            }
            Peek::Lost { offset, bytes, loss } => {
                match loss {
                    Loss::Damaged => self.account.lose(scanner.path(), offset, bytes, loss),
                    _ => self.end_of_segment(Some((offset, bytes)))?,
                }
                return Ok(false);
            }
        };
        match self.record(&header, offset, frame)? {
            RecordOutcome::Frame => return Ok(true),
            RecordOutcome::Other => {}
            RecordOutcome::Bad => self.account.lose(&self.segment_path(), offset, header.span(), Loss::Damaged),
        }
        Ok(false)
    }

    fn segment_path(&self) -> PathBuf {
        self.segment.as_ref().map_or(self.path.clone(), |s| s.path().to_owned())
    }

    /// Sizes the losses before a sound record by the numbers in it.
    fn reach(&mut self, offset: u64, tick: u64, note: u64) {
        self.account.size(&self.segment_path(), offset, tick, note);
    }

    /// Sizes the losses before a block by its numbers, and queues them with its times.
    fn reach_block(&mut self, offset: u64, head: &BlockHead) {
        self.reach(offset, head.first_tick, head.next_note);
        self.account.tick = Some(head.first_tick.saturating_add(head.ticks as u64));
        let losses = self.account.arrive(head.from_ns, head.to_ns);
        self.tell(losses);
    }

    /// Reads and processes the record at the scanner's position.
    fn record(&mut self, header: &RecordHeader, offset: u64, frame: &mut Frame) -> Result<RecordOutcome, StoreError> {
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        let sound = match &mut self.segment {
            Some(scanner) => scanner.take(header)?.map(|bytes| payload.extend_from_slice(bytes)).is_some(),
            None => false,
        };
        let outcome = match (sound, header.kind) {
            (false, _) => Ok(RecordOutcome::Bad),
            (_, HEAD) => self.head(&payload, offset),
            (_, BLOCK) => self.block(&payload, offset, frame),
            (_, SCHEMA) => Ok(self.schema(&payload)),
            (_, NOTES) => self.notes(&payload),
            (_, END) => Ok(self.end(&payload, offset)),
            // Unknown kinds come from a later release of the same version, and may be ignored.
            _ => Ok(RecordOutcome::Other),
        };
        self.payload = payload;
        outcome
    }

    fn head(&mut self, payload: &[u8], offset: u64) -> Result<RecordOutcome, StoreError> {
        let Some(head) = HeadRecord::parse(payload, &self.segment_path())? else { return Ok(RecordOutcome::Bad) };
        self.reach(offset, head.next_tick, head.next_note);
        Ok(RecordOutcome::Other)
    }

    fn end(&mut self, payload: &[u8], offset: u64) -> RecordOutcome {
        let Some(end) = EndRecord::parse(payload) else { return RecordOutcome::Bad };
        self.closed = true;
        self.reach(offset, end.next_tick, self.account.note.unwrap_or(0));
        RecordOutcome::Other
    }

    fn schema(&mut self, payload: &[u8]) -> RecordOutcome {
        if self.schemas.learn(payload) { RecordOutcome::Other } else { RecordOutcome::Bad }
    }

    fn notes(&mut self, payload: &[u8]) -> Result<RecordOutcome, StoreError> {
        let Some((first, notes)) = notes::parse(payload, &mut self.flow.unpacker) else {
            return Ok(RecordOutcome::Bad);
        };
        if self.account.note.is_none_or(|expected| expected <= first) && !self.account.is_open() {
            self.account.note = Some(notes::after(first, &notes).max(self.account.note.unwrap_or(0)));
        } else {
            // Losses before these notes are sized by the next block; the notes themselves are not lost.
            let counted = notes::after(0, &notes);
            self.account.note = self.account.note.map(|n| n + counted);
        }
        self.flow.take(notes::numbered(first, notes));
        if self.flow.is_crowded() {
            self.release(i64::MAX)?;
        }
        Ok(RecordOutcome::Other)
    }

    fn block(&mut self, payload: &[u8], offset: u64, frame: &mut Frame) -> Result<RecordOutcome, StoreError> {
        let Some(head) = BlockHead::parse(payload) else { return Ok(RecordOutcome::Bad) };
        let next = head.first_tick.saturating_add(head.ticks as u64);
        let already_read = self.account.tick.unwrap_or(0).saturating_sub(head.first_tick);
        if already_read >= head.ticks as u64 {
            self.account.repeat(&self.segment_path(), offset, (HEADER + payload.len()) as u64);
            return Ok(RecordOutcome::Other);
        }
        if head.to_ns < self.flow.from_ns || head.from_ns > self.flow.to_ns || next <= self.from_tick {
            self.reach_block(offset, &head);
            return Ok(RecordOutcome::Other);
        }
        let Some((parts, code)) = payload[BLOCK_FIXED..].split_at_checked(head.parts * PART) else {
            return Ok(RecordOutcome::Bad);
        };
        let Some(parts) = self.parts_of(parts, &head)? else { return Ok(RecordOutcome::Bad) };
        let decoded = self.blocks.decode(&head, parts, code, frame);
        if !decoded {
            return Ok(RecordOutcome::Bad);
        }
        let unwanted = self.from_tick.saturating_sub(head.first_tick);
        self.blocks.leave_out(already_read.max(unwanted) as usize);
        self.reach_block(offset, &head);
        self.account.tick = Some(next);
        match self.blocks.next_part(frame, self.flow.from_ns, self.flow.to_ns) {
            true => Ok(RecordOutcome::Frame),
            false => Ok(RecordOutcome::Other),
        }
    }

    /// Returns the schemas and tick counts of a block's parts; `None` if a schema is lost.
    fn parts_of(&mut self, parts: &[u8], head: &BlockHead) -> Result<Option<Vec<BlockPart>>, StoreError> {
        let mut found = Vec::new();
        for part in parts.chunks_exact(PART) {
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
            files.push(self.path.join(TAIL));
            files.extend(self.places.iter().map(|place| place.path(&self.path)));
        }
        for file in files {
            let found = match RecordScanner::open(&file, GLANCE) {
                Ok(scanner) => recover::schema_of(scanner, id)?,
                Err(_) => None,
            };
            if let Some(schema) = found {
                self.schemas.add(id, schema.clone());
                return Ok(Some(schema));
            }
        }
        Ok(None)
    }

    /// Returns the segment after the current one; looks for new segments if
    /// none is known.
    fn following(&mut self) -> Result<Option<SegmentPlace>, StoreError> {
        let next_segment =
            |reader: &LogReader| reader.places.iter().find(|p| Some(*p) > reader.place.as_ref()).cloned();
        if let Some(place) = next_segment(self) {
            return Ok(Some(place));
        }
        order::refresh(&self.path, &mut self.places)?;
        Ok(next_segment(self))
    }

    /// Opens the next segment that the window needs, or switches to the tail.
    fn open_next(&mut self) -> Result<(), StoreError> {
        let Some(place) = self.following()? else { return self.leave_for_tail() };
        self.place = Some(place.clone());
        self.closed = false;
        let path = place.path(&self.path);
        match RecordScanner::open(&path, AHEAD) {
            Ok(_) if self.is_outside(&path)? => {}
            Ok(scanner) => self.segment = Some(scanner),
            // A recorder deleted it to stay within the retention limits.
            Err(e) if e.is_absence() => self.account.skip(),
            Err(StoreError::NotAFile(_)) => self.account.lose(&path, 0, 0, Loss::Refused),
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// Returns true if a segment lies wholly outside the window, by its first and
    /// last record. Its ticks are then counted, and it is not read.
    fn is_outside(&mut self, path: &Path) -> Result<bool, StoreError> {
        if self.flow.from_ns == i64::MIN && self.flow.to_ns == i64::MAX && self.from_tick == 0 {
            return Ok(false);
        }
        let mut scanner = RecordScanner::open(path, GLANCE)?;
        let Some(head) = scanner.head()? else { return Ok(false) };
        let Some(end) = scanner.closing()? else { return Ok(false) };
        let empty = end.least_ns > end.most_ns;
        let repeated = head.next_tick < self.account.tick.unwrap_or(0);
        let is_new = end.next_tick > self.from_tick;
        if empty || repeated || is_new && end.most_ns >= self.flow.from_ns && end.least_ns <= self.flow.to_ns {
            return Ok(false);
        }
        self.account.size(path, 0, head.next_tick, head.next_note);
        let losses = self.account.arrive(end.least_ns, end.most_ns);
        self.tell(losses);
        self.account.tick = Some(end.next_tick);
        self.account.note = None;
        Ok(true)
    }

    /// Handles the end of the current segment, as far as it can be seen.
    fn end_of_segment(&mut self, unfinished: Option<(u64, u64)>) -> Result<(), StoreError> {
        if self.is_dir {
            if self.following()?.is_none() {
                return self.end_of_newest(unfinished);
            }
            if self.has_grown()? {
                return Ok(());
            }
        }
        self.leave_segment(unfinished);
        if !self.is_dir {
            self.stage = ReadStage::Rest;
        }
        Ok(())
    }

    /// Returns true if the segment has another record since the last look.
    fn has_grown(&mut self) -> Result<bool, StoreError> {
        let Some(scanner) = &mut self.segment else { return Ok(false) };
        scanner.refresh()?;
        Ok(matches!(scanner.peek()?, Peek::Record(_)))
    }

    /// Switches from the newest segment to the tail. A recorder may be moving ticks from the tail
    /// to the segment, so the tail is read first: ticks that have left it are in the segment.
    fn end_of_newest(&mut self, unfinished: Option<(u64, u64)>) -> Result<(), StoreError> {
        let (ledger, content) = self.read_tail()?;
        if self.following()?.is_some() || self.has_grown()? {
            return Ok(());
        }
        self.ledger = ledger;
        self.leave_segment(unfinished);
        self.enter_tail(content);
        Ok(())
    }

    /// Closes the current segment and records a loss if it has no end record.
    fn leave_segment(&mut self, unfinished: Option<(u64, u64)>) {
        let Some(scanner) = self.segment.take() else { return };
        if self.closed && unfinished.is_none() {
            return;
        }
        // Losses since the last block: without a ledger the next recorder did not
        // know of them when it chose its numbers, so these numbers cannot size them.
        let counted = |tick: u64| self.ledger.is_some_and(|ledger| ledger.begins <= tick);
        if !self.account.tick.is_some_and(counted) {
            let losses = self.account.give_up();
            self.tell(losses);
        }
        match unfinished {
            Some((offset, bytes)) => self.account.lose(scanner.path(), offset, bytes, Loss::Unfinished),
            None => self.account.lose(scanner.path(), scanner.length(), 0, Loss::Unclosed),
        }
    }
}
