//! A log in memory: the frames and notes of another tool's log, read like a Diskwright log.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use diskwright_base::byte_size::parse_memory_size;
use diskwright_base::{Frame, Note, Schema, Tick};
use diskwright_datastore::{LogItem, WriterOptions};

use crate::IngestError;
use crate::log_writer::import_options;

/// Sets the memory that logs of other tools may take.
const MEMORY_LIMIT_VARIABLE: &str = "DISKWRIGHT_MEMORY_LIMIT";
/// Its default, bytes; what is beyond it is written into a temporary folder.
const DEFAULT_MEMORY_LIMIT_BYTES: usize = 64 << 20;
/// Ticks of a frame that is filled tick by tick.
const FRAME_TICKS: usize = 256;
/// Largest number of notes that wait for their frame, as in a Diskwright log.
const MAX_WAITING_NOTES: usize = 1024;

/// Memory that the logs of a command may take, bytes; clones share it.
#[derive(Clone)]
pub struct MemoryBudget(Arc<AtomicUsize>);

impl MemoryBudget {
    /// Returns a budget of `DISKWRIGHT_MEMORY_LIMIT`, or 64 MiB.
    ///
    /// # Errors
    /// When the variable holds no size.
    pub fn from_environment() -> Result<MemoryBudget, IngestError> {
        let Ok(text) = std::env::var(MEMORY_LIMIT_VARIABLE) else {
            return Ok(MemoryBudget::of_bytes(DEFAULT_MEMORY_LIMIT_BYTES));
        };
        let wrong = |error| IngestError::Usage(format!("{MEMORY_LIMIT_VARIABLE}: {error}"));
        Ok(MemoryBudget::of_bytes(usize::try_from(parse_memory_size(&text).map_err(wrong)?).unwrap_or(usize::MAX)))
    }

    /// Returns a budget of so many bytes.
    pub(crate) fn of_bytes(bytes: usize) -> MemoryBudget {
        MemoryBudget(Arc::new(AtomicUsize::new(bytes)))
    }

    /// True if nothing is left.
    pub(crate) fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Takes some of it; false if less is left.
    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A part of a log.
pub enum MemoryPiece {
    /// Ticks, oldest first.
    Frame(Frame),
    /// A note; those of a frame's time span come before it.
    Note(Note),
}

/// A log in memory.
pub struct MemoryLog {
    pieces: Vec<MemoryPiece>,
    /// The frame that is filled tick by tick.
    unfinished: Option<Frame>,
    /// All schemas, by a hash of their series: equal ones are one.
    schemas: HashMap<u64, Arc<Schema>>,
    /// The schema of the last frame, as it was given and as it is kept.
    last_schema: (Arc<Schema>, Arc<Schema>),
    range_ns: Option<(i64, i64)>,
    taken_bytes: usize,
    budget: MemoryBudget,
}

impl Drop for MemoryLog {
    fn drop(&mut self) {
        self.budget.give_back(self.taken_bytes);
    }
}

impl MemoryLog {
    /// Returns an empty log.
    pub fn new(budget: &MemoryBudget) -> MemoryLog {
        MemoryLog {
            pieces: Vec::new(),
            unfinished: None,
            schemas: HashMap::new(),
            last_schema: Default::default(),
            range_ns: None,
            taken_bytes: 0,
            budget: budget.clone(),
        }
    }

    /// First and last tick by time; `None` if there is none.
    pub fn range_ns(&self) -> Option<(i64, i64)> {
        self.range_ns
    }

    /// Takes memory for what is added next; false if the budget is spent.
    fn take_bytes(&mut self, bytes: usize) -> bool {
        let is_taken = self.budget.take(bytes);
        self.taken_bytes += if is_taken { bytes } else { 0 };
        is_taken
    }

    /// Adds the ticks of a frame; false if there is no room for them.
    pub fn push_frame(&mut self, frame: &Frame) -> bool {
        self.finish_frame();
        let bytes = frame.ticks().len() * (size_of::<Tick>() + frame.schema().series.len() * size_of::<f64>());
        let Some(schema) = self.intern_schema(frame.schema()) else { return false };
        if !self.take_bytes(bytes) {
            return false;
        }
        // within a frame, times never go back
        for range in ascending_runs(frame.ticks()) {
            let mut part = Frame::new(Arc::clone(&schema), range.len());
            part.append_ticks(frame, range);
            self.add_frame(part);
        }
        true
    }

    /// Adds a tick; false if there is no room for it.
    pub fn push_tick(&mut self, schema: &Arc<Schema>, tick: Tick, row: &[f64]) -> bool {
        let Some(schema) = self.intern_schema(schema) else { return false };
        let fits = |frame: &Frame| {
            let is_after = frame.ticks().last().is_none_or(|last| last.time_ns <= tick.time_ns);
            !frame.is_full() && is_after && Arc::ptr_eq(frame.schema(), &schema)
        };
        if !self.unfinished.as_ref().is_some_and(fits) {
            self.finish_frame();
            if !self.take_bytes(FRAME_TICKS * (size_of::<Tick>() + size_of_val(row))) {
                return false;
            }
            self.unfinished = Some(Frame::new(schema, FRAME_TICKS));
        }
        if let Some(frame) = &mut self.unfinished {
            frame.push(tick, row);
        }
        true
    }

    /// Adds a note; false if there is no room for it.
    pub fn add_note(&mut self, note: &Note) -> bool {
        let is_taken = self.take_bytes(note.content_bytes() + size_of::<MemoryPiece>());
        if is_taken {
            self.pieces.push(MemoryPiece::Note(note.clone()));
        }
        is_taken
    }

    /// Ends the frame that is filled tick by tick.
    pub fn finish_frame(&mut self) {
        if let Some(frame) = self.unfinished.take() {
            self.add_frame(frame);
        }
    }

    /// All parts, in their order.
    pub fn pieces(&self) -> &[MemoryPiece] {
        &self.pieces
    }

    fn add_frame(&mut self, frame: Frame) {
        let (Some(first), Some(last)) = (frame.ticks().first(), frame.ticks().last()) else { return };
        let (from, to) = self.range_ns.unwrap_or((first.time_ns, last.time_ns));
        self.range_ns = Some((from.min(first.time_ns), to.max(last.time_ns)));
        self.pieces.push(MemoryPiece::Frame(frame));
    }

    /// Returns the known schema that equals this one; `None` if there is no room for it.
    fn intern_schema(&mut self, schema: &Arc<Schema>) -> Option<Arc<Schema>> {
        if Arc::ptr_eq(&self.last_schema.0, schema) {
            return Some(Arc::clone(&self.last_schema.1));
        }
        let mut hasher = DefaultHasher::new();
        schema.series.iter().for_each(|series| (&series.counter, &series.instance).hash(&mut hasher));
        let hash = hasher.finish();
        if let Some(known) = self.schemas.get(&hash).filter(|known| known == &schema) {
            // so that the next frame of this schema is recognized at once
            self.last_schema = (Arc::clone(schema), Arc::clone(known));
            return Some(Arc::clone(known));
        }
        let names_bytes = |series: &diskwright_base::Series| series.counter.len() + series.instance.len();
        let bytes: usize = schema.series.iter().map(|series| names_bytes(series) + size_of_val(series)).sum();
        if !self.take_bytes(bytes) {
            return None;
        }
        self.schemas.insert(hash, Arc::clone(schema));
        self.last_schema = (Arc::clone(schema), Arc::clone(schema));
        Some(Arc::clone(schema))
    }
}

/// Ranges of ticks in which time does not go back.
fn ascending_runs(ticks: &[Tick]) -> Vec<Range<usize>> {
    let falls = (1..ticks.len()).filter(|index| ticks[*index].time_ns < ticks[index - 1].time_ns);
    let mut starts: Vec<usize> = std::iter::once(0).chain(falls).collect();
    starts.push(ticks.len());
    starts.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// Reads a log in memory, in the order in which a Diskwright log is read.
pub struct MemoryReader {
    log: Arc<MemoryLog>,
    next_piece: usize,
    window: (i64, i64),
    /// Kinds of notes that describe the machine: of the first, the newest applies at the start of a window, of the
    /// second, each.
    keep_latest: Vec<String>,
    keep_each: Vec<String>,
    waiting_notes: Vec<Note>,
    ready_items: VecDeque<LogItem>,
    is_finished: bool,
}

impl MemoryReader {
    /// Returns a reader of the whole log.
    pub fn new(log: &Arc<MemoryLog>) -> MemoryReader {
        let WriterOptions { keep_latest, keep_each, .. } = import_options();
        MemoryReader {
            log: Arc::clone(log),
            next_piece: 0,
            window: (i64::MIN, i64::MAX),
            keep_latest,
            keep_each,
            waiting_notes: Vec::new(),
            ready_items: VecDeque::new(),
            is_finished: false,
        }
    }

    /// Limits reading to ticks and notes in a range; the newest notes that describe the machine are returned even if
    /// they are older.
    pub fn set_window(&mut self, from_ns: i64, to_ns: i64) {
        self.window = (from_ns, to_ns);
    }

    /// Returns the next frame or note; `None` at the end. The content of `frame` is valid only if the result is
    /// [`LogItem::Frame`].
    pub fn next_item(&mut self, frame: &mut Frame) -> Option<LogItem> {
        let log = Arc::clone(&self.log);
        loop {
            if let Some(item) = self.ready_items.pop_front() {
                return Some(item);
            }
            match log.pieces.get(self.next_piece) {
                Some(MemoryPiece::Note(note)) => self.queue_note(note),
                Some(MemoryPiece::Frame(stored)) => {
                    let is_inside = |tick: &Tick| (self.window.0..=self.window.1).contains(&tick.time_ns);
                    let first = stored.ticks().iter().position(is_inside);
                    let last = stored.ticks().iter().rposition(is_inside);
                    if let Some((first, last)) = first.zip(last) {
                        frame.reset(Arc::clone(stored.schema()), last + 1 - first);
                        frame.append_ticks(stored, first..last + 1);
                        self.release_notes(stored.ticks()[last].time_ns);
                        self.ready_items.push_back(LogItem::Frame);
                    }
                }
                None if self.is_finished => return None,
                None => {
                    self.is_finished = true;
                    self.release_notes(i64::MAX);
                }
            }
            self.next_piece += 1;
        }
    }

    fn queue_note(&mut self, note: &Note) {
        let (from_ns, to_ns) = self.window;
        let is_latest = self.keep_latest.contains(&note.kind);
        if note.time_ns < from_ns && (is_latest || self.keep_each.contains(&note.kind)) {
            // at the start of the window only the newest of its kind is wanted
            self.waiting_notes.retain(|n| !is_latest || n.kind != note.kind || n.time_ns >= from_ns);
        } else if !(from_ns..=to_ns).contains(&note.time_ns) {
            return;
        }
        self.waiting_notes.push(note.clone());
        if self.waiting_notes.len() >= MAX_WAITING_NOTES {
            self.release_notes(i64::MAX);
        }
    }

    /// Queues the waiting notes up to a time, oldest first.
    fn release_notes(&mut self, until_ns: i64) {
        let (mut due, later): (Vec<Note>, Vec<Note>) =
            std::mem::take(&mut self.waiting_notes).into_iter().partition(|note| note.time_ns <= until_ns);
        self.waiting_notes = later;
        due.sort_by_key(|note| note.time_ns);
        self.ready_items.extend(due.into_iter().map(LogItem::Note));
    }
}
