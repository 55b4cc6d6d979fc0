//! The reader's side of a log: frames and notes of a window of time, beside a
//! live recorder too, in memory that does not depend on the log's length.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskwright_base::{Frame, Note, Schema};

use crate::account::Account;
use crate::blocks::{BlockPart, Blocks};
use crate::damage::{Damage, Loss};
use crate::error::StoreError;
use crate::flow::Flow;
use crate::format::{
    BLOCK, BLOCK_FIXED, BlockHead, END, End, HEAD, Head, Header, MARKS, MAX_CELLS, NOTES, PART, Role, SCHEMA, TAIL,
    segment_name, u16_at, u64_at,
};
use crate::notes;
use crate::recover::{self, TailContent};
use crate::retention;
use crate::schema::Schemas;
use crate::segment::{AHEAD, GLANCE, Peek, Scanner, Source};

/// What [`Reader::next`] came upon.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// The caller's frame has been filled.
    Frame,
    /// A note; those of a frame's stretch come before the frame.
    Note(Note),
    /// Something was lost here.
    Damage(Damage),
}

/// What is read next.
#[derive(Debug)]
enum Stage {
    Segments,
    /// The tail, and how many of its ticks and cells are done.
    Tail(Box<TailContent>, usize, usize),
    Rest,
}

/// What became of a record.
enum Taken {
    Frame,
    Other,
    Bad,
}

/// Reads a log from its start to its end.
#[derive(Debug)]
pub struct Reader {
    /// The log's directory, or the single file that is read.
    path: PathBuf,
    is_dir: bool,
    stage: Stage,
    segment: Option<Scanner>,
    number: u32,
    closed: bool,
    payload: Vec<u8>,
    blocks: Blocks,
    schemas: Schemas,
    account: Account,
    flow: Flow,
    ready: VecDeque<Item>,
}

impl Reader {
    /// Opens a log: its directory, or one of its files.
    ///
    /// # Errors
    /// When there is no log, or it was written by a later release, or the
    /// system refuses.
    pub fn open(path: &Path) -> Result<Reader, StoreError> {
        require_log(path)?;
        let is_dir = path.is_dir();
        let marks = path.join(MARKS);
        let marks = if is_dir && marks.exists() { Some(Scanner::open(&marks, AHEAD)?) } else { None };
        let mut reader = Reader::new(path, is_dir, marks);
        if !is_dir {
            reader.open_single()?;
        }
        Ok(reader)
    }

    /// Reads the bytes of one file, whatever they are; `name` stands in for
    /// its path in what is reported.
    ///
    /// # Errors
    /// When they were written by a later release.
    pub fn of_bytes(bytes: Vec<u8>, name: &Path) -> Result<Reader, StoreError> {
        let mut reader = Reader::new(name, false, None);
        let mut scanner = Scanner::new(Source::Bytes(bytes.clone()), name, AHEAD)?;
        match scanner.head()?.map(|head| head.role) {
            Some(Role::Tail) => reader.enter_tail(recover::read_tail(name, bytes)?),
            _ => reader.segment = Some(Scanner::new(Source::Bytes(bytes), name, AHEAD)?),
        }
        Ok(reader)
    }

    fn new(path: &Path, is_dir: bool, marks: Option<Scanner>) -> Reader {
        Reader {
            path: path.to_owned(),
            is_dir,
            stage: Stage::Segments,
            segment: None,
            number: 0,
            closed: false,
            payload: Vec::new(),
            blocks: Blocks::default(),
            schemas: Schemas::default(),
            account: Account::default(),
            flow: Flow::new(marks),
            ready: VecDeque::new(),
        }
    }

    fn open_single(&mut self) -> Result<(), StoreError> {
        let head = Scanner::open(&self.path, GLANCE)?.head()?;
        match head.map(|h| h.role) {
            Some(Role::Tail) => {
                let bytes = std::fs::read(&self.path).map_err(|e| StoreError::io(&self.path, e))?;
                self.enter_tail(recover::read_tail(&self.path, bytes)?);
            }
            Some(Role::Marks) => {
                self.flow.marks = Some(Scanner::open(&self.path, AHEAD)?);
                self.stage = Stage::Rest;
            }
            _ => self.segment = Some(Scanner::open(&self.path, AHEAD)?),
        }
        Ok(())
    }

    /// Reads only ticks and notes from `from_ns` to `to_ns`, both included
    /// (nanoseconds since 1970 UTC). The newest notes that describe the
    /// machine come from before the window too.
    pub fn window(&mut self, from_ns: i64, to_ns: i64) {
        self.flow.from_ns = from_ns;
        self.flow.to_ns = to_ns;
    }

    /// Least and greatest tick time of the whole log, by the heads of its
    /// blocks; `None` where it has no tick.
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
            Stage::Tail(content, ..) => content,
            _ if !self.is_dir => {
                join(retention::times(&self.path)?);
                return Ok(span);
            }
            _ => {
                for number in retention::segments(&self.path)? {
                    join(retention::times(&self.path.join(segment_name(number)))?);
                }
                &recover::tail_of(&self.path)?
            }
        };
        tail.ticks.iter().for_each(|t| join(Some((t.tick.time_ns, t.tick.time_ns))));
        Ok(span)
    }

    /// The next frame, note or loss; `None` at the end of the log. The frame
    /// holds a stretch of ticks when the answer is [`Item::Frame`], and
    /// nothing of worth otherwise.
    ///
    /// # Errors
    /// When a file cannot be read or was written by a later release. What is
    /// damaged is an item, not an error.
    pub fn next(&mut self, frame: &mut Frame) -> Result<Option<Item>, StoreError> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            let filled = match &mut self.stage {
                Stage::Segments => self.segment_step(frame)?,
                Stage::Tail(..) => self.tail_step(frame)?,
                Stage::Rest => {
                    let losses = self.account.give_up();
                    self.ready.extend(losses.into_iter().map(Item::Damage));
                    self.release(i64::MAX)?;
                    if self.ready.is_empty() {
                        return Ok(None);
                    }
                    false
                }
            };
            if filled {
                self.release(frame.ticks().last().map_or(i64::MIN, |t| t.time_ns))?;
                self.ready.push_back(Item::Frame);
            }
        }
    }

    fn release(&mut self, until_ns: i64) -> Result<(), StoreError> {
        let notes = self.flow.release(until_ns)?;
        self.ready.extend(self.flow.damages.drain(..).map(Item::Damage));
        self.ready.extend(notes.into_iter().map(Item::Note));
        Ok(())
    }

    /// Reads on in the segments by a record; true when it filled the frame.
    fn segment_step(&mut self, frame: &mut Frame) -> Result<bool, StoreError> {
        if self.blocks.is_open() {
            return Ok(self.blocks.next_part(frame, self.flow.from_ns, self.flow.to_ns));
        }
        let Some(scanner) = &mut self.segment else {
            self.open_next()?;
            return Ok(false);
        };
        let offset = scanner.at();
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
            Taken::Frame => return Ok(true),
            Taken::Other => {}
            Taken::Bad => self.account.lose(&self.segment_path(), offset, header.span(), Loss::Damaged),
        }
        Ok(false)
    }

    fn segment_path(&self) -> PathBuf {
        self.segment.as_ref().map_or(self.path.clone(), |s| s.path().to_owned())
    }

    /// A sound record says what comes next; losses before it are sized by that.
    fn reach(&mut self, offset: u64, tick: u64, note: u64) {
        let told = self.account.reach(&self.segment_path(), offset, tick, note);
        self.ready.extend(told.into_iter().map(Item::Damage));
    }

    fn record(&mut self, header: &Header, offset: u64, frame: &mut Frame) -> Result<Taken, StoreError> {
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        let sound = match &mut self.segment {
            Some(scanner) => scanner.take(header)?.map(|bytes| payload.extend_from_slice(bytes)).is_some(),
            None => false,
        };
        let taken = match (sound, header.kind) {
            (false, _) => Ok(Taken::Bad),
            (_, HEAD) => self.head(&payload, offset),
            (_, BLOCK) => self.block(&payload, offset, frame),
            (_, SCHEMA) => Ok(self.schema(&payload)),
            (_, NOTES) => self.notes(&payload),
            (_, END) => Ok(self.end(&payload, offset)),
            // Kinds of a later release that kept the version can be done without.
            _ => Ok(Taken::Other),
        };
        self.payload = payload;
        taken
    }

    fn head(&mut self, payload: &[u8], offset: u64) -> Result<Taken, StoreError> {
        let Some(head) = Head::parse(payload, &self.segment_path())? else { return Ok(Taken::Bad) };
        self.reach(offset, head.next_tick, head.next_note);
        Ok(Taken::Other)
    }

    fn end(&mut self, payload: &[u8], offset: u64) -> Taken {
        let Some(end) = End::parse(payload) else { return Taken::Bad };
        self.closed = true;
        self.reach(offset, end.next_tick, self.account.note.unwrap_or(0));
        Taken::Other
    }

    fn schema(&mut self, payload: &[u8]) -> Taken {
        if self.schemas.learn(payload) { Taken::Other } else { Taken::Bad }
    }

    fn notes(&mut self, payload: &[u8]) -> Result<Taken, StoreError> {
        let Some((first, notes)) = notes::parse(payload, &mut self.flow.unpacker) else { return Ok(Taken::Bad) };
        if self.account.note.is_none_or(|expected| expected <= first) && !self.account.is_open() {
            self.account.note = Some(notes::after(first, &notes).max(self.account.note.unwrap_or(0)));
        } else {
            // Losses before this are sized by the next block; these are not lost.
            let counted = notes::after(0, &notes);
            self.account.note = self.account.note.map(|n| n + counted);
        }
        self.flow.take(notes);
        if self.flow.is_crowded() {
            self.release(i64::MAX)?;
        }
        Ok(Taken::Other)
    }

    fn block(&mut self, payload: &[u8], offset: u64, frame: &mut Frame) -> Result<Taken, StoreError> {
        let Some(head) = BlockHead::parse(payload) else { return Ok(Taken::Bad) };
        let next = head.first_tick.saturating_add(head.ticks as u64);
        if head.to_ns < self.flow.from_ns || head.from_ns > self.flow.to_ns {
            self.reach(offset, head.first_tick, head.next_note);
            self.account.tick = Some(next);
            return Ok(Taken::Other);
        }
        let Some((parts, code)) = payload[BLOCK_FIXED..].split_at_checked(head.parts * PART) else {
            return Ok(Taken::Bad);
        };
        let Some(parts) = self.parts_of(parts, &head)? else { return Ok(Taken::Bad) };
        let whole = self.blocks.decode(&head, parts, code, frame);
        if !whole {
            return Ok(Taken::Bad);
        }
        self.reach(offset, head.first_tick, head.next_note);
        self.account.tick = Some(next);
        match self.blocks.next_part(frame, self.flow.from_ns, self.flow.to_ns) {
            true => Ok(Taken::Frame),
            false => Ok(Taken::Other),
        }
    }

    /// The schemas and ticks of a block's parts; `None` where a schema is lost.
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

    /// A schema by its id: remembered, or from wherever else it stands when
    /// the one before the block is damaged.
    fn find_schema(&mut self, id: u64) -> Result<Option<Arc<Schema>>, StoreError> {
        if let Some(schema) = self.schemas.get(id) {
            return Ok(Some(schema.clone()));
        }
        let mut files = vec![self.segment_path()];
        if self.is_dir {
            files.push(self.path.join(TAIL));
            files.extend(retention::segments(&self.path)?.into_iter().map(|n| self.path.join(segment_name(n))));
        }
        for file in files.iter().filter(|file| file.exists()) {
            if let Some(schema) = recover::schema_of(file, id)? {
                self.schemas.add(id, schema.clone());
                return Ok(Some(schema));
            }
        }
        Ok(None)
    }

    /// Opens the next segment that the window needs, or goes on to the tail.
    fn open_next(&mut self) -> Result<(), StoreError> {
        let numbers = retention::segments(&self.path)?;
        let Some(&number) = numbers.iter().find(|n| **n > self.number) else {
            return self.leave_for_tail();
        };
        self.number = number;
        let path = self.path.join(segment_name(number));
        let limited = self.flow.from_ns != i64::MIN || self.flow.to_ns != i64::MAX;
        // The newest may be growing: its times are not settled.
        if limited && numbers.last() != Some(&number) {
            let outside =
                |span: Option<(i64, i64)>| span.is_none_or(|(a, b)| b < self.flow.from_ns || a > self.flow.to_ns);
            if retention::times(&path).is_ok_and(outside) {
                self.account.skip();
                return Ok(());
            }
        }
        match Scanner::open(&path, AHEAD) {
            Ok(scanner) => self.segment = Some(scanner),
            // Deleted by a recorder that keeps only so much.
            Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => self.account.skip(),
            Err(e) => return Err(e),
        }
        self.closed = false;
        Ok(())
    }

    /// Nothing more stands in this segment, as far as could be seen.
    fn end_of_segment(&mut self, unfinished: Option<(u64, u64)>) -> Result<(), StoreError> {
        if self.is_dir {
            let newest = retention::segments(&self.path)?.last().copied();
            if newest == Some(self.number) {
                return self.end_of_newest(unfinished);
            }
            if self.has_grown()? {
                return Ok(());
            }
        }
        self.leave_segment(unfinished);
        if !self.is_dir {
            self.stage = Stage::Rest;
        }
        Ok(())
    }

    /// True when the segment has got another record since it was looked at.
    fn has_grown(&mut self) -> Result<bool, StoreError> {
        let Some(scanner) = &mut self.segment else { return Ok(false) };
        scanner.refresh()?;
        Ok(matches!(scanner.peek()?, Peek::Record(_)))
    }

    /// A recorder may be moving ticks from the tail to the segment just now.
    /// So the tail is read first: what has left it by then is in the segment.
    fn end_of_newest(&mut self, unfinished: Option<(u64, u64)>) -> Result<(), StoreError> {
        let content = recover::tail_of(&self.path)?;
        let newest = retention::segments(&self.path)?.last().copied();
        if self.has_grown()? || newest != Some(self.number) {
            return Ok(());
        }
        self.leave_segment(unfinished);
        self.enter_tail(content);
        Ok(())
    }

    fn leave_segment(&mut self, unfinished: Option<(u64, u64)>) {
        let Some(scanner) = self.segment.take() else { return };
        if self.closed && unfinished.is_none() {
            return;
        }
        // Losses since the last block: the next recorder could not know of
        // them when it chose its numbers, so numbers cannot size them.
        let told = self.account.give_up();
        self.ready.extend(told.into_iter().map(Item::Damage));
        match unfinished {
            Some((offset, bytes)) => self.account.lose(scanner.path(), offset, bytes, Loss::Unfinished),
            None => self.account.lose(scanner.path(), scanner.length(), 0, Loss::Unclosed),
        }
    }

    fn leave_for_tail(&mut self) -> Result<(), StoreError> {
        let content = recover::tail_of(&self.path)?;
        self.enter_tail(content);
        Ok(())
    }

    fn enter_tail(&mut self, content: TailContent) {
        let expected = self.account.note;
        let path = self.path.join(TAIL);
        let tick = self.account.tick.unwrap_or(0);
        if let Some(head) = content.head
            && content.ticks.iter().all(|t| t.number < tick)
        {
            // A tail without news says that nothing more was under way.
            let note = self.account.note.unwrap_or(0);
            let told = self.account.reach(&path, 0, head.next_tick.max(tick), note);
            self.ready.extend(told.into_iter().map(Item::Damage));
        }
        let new = content.notes.iter().filter(|(number, _)| expected.is_none_or(|e| *number >= e));
        self.flow.take(new.map(|(_, stored)| stored.clone()));
        self.ready.extend(content.damages.iter().cloned().map(Item::Damage));
        self.stage = Stage::Tail(Box::new(content), 0, 0);
    }

    /// Fills the frame with ticks of the tail that no block has; false (and
    /// the stage ends) when there are none left.
    fn tail_step(&mut self, frame: &mut Frame) -> Result<bool, StoreError> {
        let Stage::Tail(content, done, cell) = &mut self.stage else { return Ok(false) };
        let (from, to) = (self.flow.from_ns, self.flow.to_ns);
        let mut filled: Option<u64> = None;
        let mut told = Vec::new();
        while let Some(taken) = content.ticks.get(*done).copied() {
            let width = taken.columns;
            if filled.is_some_and(|id| id != taken.schema) || filled.is_some() && frame.is_full() {
                break;
            }
            *done += 1;
            let row = *cell..*cell + width;
            *cell = row.end;
            // Where the schema is lost, the next tick tells that this one is.
            let Some(schema) = content.schema(&taken).cloned() else { continue };
            let fresh = self.account.tick.is_none_or(|expected| taken.number >= expected);
            if fresh {
                let note = self.account.note.unwrap_or(0);
                told.extend(self.account.reach(&self.path.join(TAIL), 0, taken.number, note));
                self.account.tick = Some(taken.number.saturating_add(1));
            }
            if !fresh || taken.tick.time_ns < from || taken.tick.time_ns > to {
                continue;
            }
            if filled.is_none() {
                let room = (MAX_CELLS / width.max(1)).clamp(1, content.ticks.len() + 1 - *done);
                frame.reset(schema, room);
                filled = Some(taken.schema);
            }
            frame.push(taken.tick, &content.cells[row]);
        }
        self.ready.extend(told.into_iter().map(Item::Damage));
        if filled.is_none() {
            self.stage = Stage::Rest;
        }
        Ok(filled.is_some())
    }
}

/// True where `path` is a log, or a file of one, by its content.
pub fn is_log(path: &Path) -> bool {
    require_log(path).is_ok()
}

/// How far into a file a first sound record is looked for.
const SEARCH: u64 = 1 << 20;

/// Refuses what is no log, with the place where that shows.
pub(crate) fn require_log(path: &Path) -> Result<(), StoreError> {
    let metadata = std::fs::metadata(path).map_err(|e| StoreError::io(path, e))?;
    if metadata.is_dir() {
        let named = !retention::segments(path)?.is_empty() || path.join(TAIL).exists();
        return named.then_some(()).ok_or_else(|| StoreError::NotALog {
            path: path.to_owned(),
            offset: 0,
            expected: "segment files (00000001.dwlog)",
            found: "none".into(),
        });
    }
    let mut scanner = Scanner::open(path, GLANCE)?;
    if scanner.head()?.is_some() {
        return Ok(());
    }
    scanner.limit(SEARCH);
    let found = match scanner.length() {
        0 => "an empty file".to_owned(),
        length if length < crate::format::HEAD_SPAN => format!("a file of {length} bytes"),
        _ => "other bytes".to_owned(),
    };
    // The head may be damaged and the rest sound.
    loop {
        match scanner.peek()? {
            Peek::Record(header) if scanner.take(&header)?.is_some() => return Ok(()),
            Peek::Record(_) | Peek::Lost { loss: Loss::Damaged, .. } => {}
            Peek::Lost { .. } | Peek::End => {
                let expected = "a head record (D1 5C 3A 7E … diskwright log)";
                return Err(StoreError::NotALog { path: path.to_owned(), offset: 0, expected, found });
            }
        }
    }
}
