//! Recorded ticks and notes, and how they are read. A log implements [`History`] where it is opened; a
//! [`RecentHistory`] keeps the ticks of a live sampler.

use std::collections::VecDeque;
use std::sync::Arc;

use diskwright_base::{Frame, LogPiece, Note, Schema, Tick};

/// A recording that can be read repeatedly.
pub trait History {
    /// Its first and last tick, nanoseconds since 1970 UTC; `None` where there is none yet.
    fn range(&self) -> Option<(i64, i64)>;

    /// Reads the frames and notes from one time to another, both included, oldest first. The newest notes that describe
    /// the machine are given even if they are older.
    ///
    /// # Errors
    /// What could not be read, in words.
    fn read(&self, from_ns: i64, to_ns: i64, each: &mut dyn FnMut(LogPiece<'_>)) -> Result<(), String>;

    /// Like [`History::read`], for callers that filter ticks by their times: the first frame may start earlier, where
    /// that saves a copy. Process tables are the largest notes: those after `processes_after` are given, and at least
    /// the newest one before it; with `None`, no process tables.
    ///
    /// # Errors
    /// What could not be read, in words.
    fn read_around(
        &self,
        (from_ns, to_ns): (i64, i64),
        processes_after: Option<i64>,
        each: &mut dyn FnMut(LogPiece<'_>),
    ) -> Result<(), String> {
        self.read(from_ns, to_ns, &mut |piece| match piece {
            LogPiece::Note(note) if note.kind == Note::PROCESSES && processes_after.is_none() => {}
            piece => each(piece),
        })
    }
}

/// Number of ticks in a block of memory.
const BLOCK_TICKS: usize = 60;
/// Largest delay of a note after its tick, nanoseconds: times of ticks are rounded.
const MAX_NOTE_DELAY_NS: i64 = 1_000_000;

/// The last ticks of a live machine, as many as fit into a memory limit.
#[derive(Debug)]
pub struct RecentHistory {
    blocks: VecDeque<Frame>,
    notes: VecDeque<Note>,
    /// The newest notes that describe the machine and have left `notes`, by kind.
    machine_notes: Vec<Note>,
    max_bytes: usize,
}

impl RecentHistory {
    /// Creates an empty history that keeps at most this many bytes of cells and notes.
    pub fn new(max_bytes: usize) -> RecentHistory {
        RecentHistory { blocks: VecDeque::new(), notes: VecDeque::new(), machine_notes: Vec::new(), max_bytes }
    }

    /// Adds a tick. Times keep rising: where the clock was set back, ticks that were recorded from that time on are
    /// dropped.
    pub fn push(&mut self, schema: &Arc<Schema>, tick: Tick, row: &[f64]) {
        self.forget_from(tick.time_ns);
        let fits = |block: &Frame| block.ticks().len() < BLOCK_TICKS && (Arc::ptr_eq(block.schema(), schema));
        if !self.blocks.back().is_some_and(fits) {
            self.blocks.push_back(Frame::new(schema.clone(), BLOCK_TICKS));
        }
        if let Some(block) = self.blocks.back_mut() {
            block.push(tick, row);
        }
        self.enforce_limit();
    }

    /// Drops ticks that end at this time or later; there are such ticks only after the clock was set back.
    fn forget_from(&mut self, time_ns: i64) {
        let last = self.blocks.back().and_then(|block| block.ticks().last());
        if last.is_some_and(|last| last.time_ns >= time_ns) {
            self.forget_notes_after(time_ns);
        }
        while let Some(last) = self.blocks.pop_back() {
            let kept = last.ticks().partition_point(|tick| tick.time_ns < time_ns);
            if kept == last.ticks().len() {
                self.blocks.push_back(last);
                break;
            }
            if kept > 0 {
                let mut part = Frame::new(last.schema().clone(), BLOCK_TICKS);
                part.append_ticks(&last, 0..kept);
                self.blocks.push_back(part);
                break;
            }
        }
    }

    /// Drops tables and alerts after this time, because the clock was set back to it. Notes that describe the machine
    /// are moved to this time; bookmarks stay.
    fn forget_notes_after(&mut self, time_ns: i64) {
        self.notes.retain_mut(|note| {
            if describes_machine(note) {
                note.time_ns = note.time_ns.min(time_ns);
            }
            note.time_ns <= time_ns.saturating_add(MAX_NOTE_DELAY_NS) || note.kind == Note::BOOKMARK
        });
    }

    /// Drops whole blocks of ticks before this time, with their notes.
    pub fn forget_before(&mut self, time_ns: i64) {
        while self.blocks.front().and_then(|block| block.ticks().last()).is_some_and(|tick| tick.time_ns < time_ns) {
            self.blocks.pop_front();
        }
        self.forget_notes(time_ns);
    }

    /// Adds a note.
    pub fn add_note(&mut self, note: Note) {
        self.notes.push_back(note);
    }

    /// Bytes of cells and notes.
    pub fn memory_bytes(&self) -> usize {
        let cells: usize = self.blocks.iter().map(|block| block.schema().series.len() * BLOCK_TICKS * 8).sum();
        cells + self.notes.iter().map(Note::content_bytes).sum::<usize>()
    }

    /// Drops the oldest blocks until the memory limit is kept.
    fn enforce_limit(&mut self) {
        while self.blocks.len() > 1 && self.memory_bytes() > self.max_bytes {
            self.blocks.pop_front();
            let from = self.blocks.front().and_then(|block| block.ticks().first()).map_or(i64::MIN, |t| t.time_ns);
            self.forget_notes(from);
        }
        debug_assert!(self.blocks.len() <= 1 || self.memory_bytes() <= self.max_bytes, "memory is limited");
    }

    /// Drops notes before this time; those that describe the machine stay.
    fn forget_notes(&mut self, from_ns: i64) {
        let mut index = 0;
        while let Some(note) = self.notes.get(index) {
            let stays = note.time_ns >= from_ns;
            // after the clock was set back, a bookmark may be newer than the notes that follow it, so it does not end
            // the search
            if stays && note.kind != Note::BOOKMARK {
                return;
            }
            if stays {
                index += 1;
            } else if let Some(note) = self.notes.remove(index).filter(describes_machine) {
                self.machine_notes.retain(|known| known.kind != note.kind);
                self.machine_notes.push(note);
            }
        }
    }
}

/// True for a note that describes the machine and holds until the next of its kind.
fn describes_machine(note: &Note) -> bool {
    [Note::TOPOLOGY, Note::CEILINGS, Note::SOURCE].contains(&note.kind.as_str())
}

impl History for RecentHistory {
    fn range(&self) -> Option<(i64, i64)> {
        let first = self.blocks.front()?.ticks().first()?;
        let last = self.blocks.back()?.ticks().last()?;
        assert!(first.time_ns <= last.time_ns, "times rise");
        Some((first.time_ns, last.time_ns))
    }

    fn read(&self, from_ns: i64, to_ns: i64, each: &mut dyn FnMut(LogPiece<'_>)) -> Result<(), String> {
        self.read_pieces(
            (from_ns, to_ns),
            RecentParts { begins_earlier: false, processes_after: Some(i64::MIN) },
            each,
        );
        Ok(())
    }

    fn read_around(
        &self,
        stretch: (i64, i64),
        processes_after: Option<i64>,
        each: &mut dyn FnMut(LogPiece<'_>),
    ) -> Result<(), String> {
        self.read_pieces(stretch, RecentParts { begins_earlier: true, processes_after }, each);
        Ok(())
    }
}

/// Parts of a stretch to be read.
#[derive(Clone, Copy)]
struct RecentParts {
    /// The first frame may be a whole block, with ticks before the stretch.
    begins_earlier: bool,
    /// Process tables after this time and the newest before it are read; `None` for no tables.
    processes_after: Option<i64>,
}

impl RecentHistory {
    /// Gives the notes and frames of a stretch in the order of time, after the newest notes that describe the machine.
    fn read_pieces(&self, (from_ns, to_ns): (i64, i64), parts: RecentParts, each: &mut dyn FnMut(LogPiece<'_>)) {
        let is_earlier = |note: &&Note| note.time_ns < from_ns && describes_machine(note);
        let mut descriptions: Vec<&Note> = Vec::new();
        for note in self.machine_notes.iter().chain(self.notes.iter().filter(is_earlier)) {
            descriptions.retain(|known| known.kind != note.kind);
            descriptions.push(note);
        }
        descriptions.into_iter().for_each(|note| each(LogPiece::Note(note.clone())));
        let is_inside = |note: &&Note| (from_ns..=to_ns).contains(&note.time_ns);
        let is_table = |note: &Note| note.kind == Note::PROCESSES;
        let newest_before = parts.processes_after.and_then(|after| {
            self.notes.iter().rev().filter(is_inside).find(|note| is_table(note) && note.time_ns <= after)
        });
        let is_newest = |note: &Note| newest_before.is_some_and(|newest| std::ptr::eq(newest, note));
        let is_after = |note: &Note| parts.processes_after.is_some_and(|after| note.time_ns > after);
        let is_wanted = |note: &&Note| is_inside(note) && (!is_table(note) || is_after(note) || is_newest(note));
        let mut notes = self.notes.iter().filter(is_wanted).peekable();
        for block in &self.blocks {
            let ticks = block.ticks();
            let (Some(first), Some(last)) = (ticks.first(), ticks.last()) else { continue };
            if last.time_ns < from_ns || first.time_ns > to_ns {
                continue;
            }
            while let Some(note) = notes.next_if(|note| note.time_ns <= last.time_ns) {
                each(LogPiece::Note(note.clone()));
            }
            let start = if parts.begins_earlier { 0 } else { ticks.partition_point(|tick| tick.time_ns < from_ns) };
            let end = ticks.partition_point(|tick| tick.time_ns <= to_ns).max(start);
            if end - start == ticks.len() {
                each(LogPiece::Frame(block));
                continue;
            }
            let mut part = Frame::new(block.schema().clone(), end - start);
            part.append_ticks(block, start..end);
            each(LogPiece::Frame(&part));
        }
        notes.for_each(|note| each(LogPiece::Note(note.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskwright_base::Series;

    fn schema(instance: &str) -> Arc<Schema> {
        let series = Series { counter: "physical_disk.reads".into(), instance: instance.into(), scale: 1.0 };
        Arc::new(Schema::new(vec![series]))
    }

    fn tick(second: i64) -> Tick {
        Tick { time_ns: second * 1_000_000_000, elapsed_ns: 1_000_000_000 }
    }

    /// Pieces that are read, as texts.
    fn read(history: &RecentHistory, from: i64, to: i64) -> Vec<String> {
        let mut found = Vec::new();
        let each = &mut |piece: LogPiece<'_>| match piece {
            LogPiece::Frame(frame) => {
                let cells = frame.column(0).iter().map(|cell| format!("{cell}"));
                found.push(cells.collect::<Vec<_>>().join(" "));
            }
            LogPiece::Note(note) => found.push(format!("{}:{}", note.kind, note.text())),
        };
        history.read(from * 1_000_000_000, to * 1_000_000_000, each).expect("memory can be read");
        found
    }

    #[test]
    fn a_stretch_is_read_in_order_with_what_describes_it() {
        let mut history = RecentHistory::new(1 << 20);
        let one = schema("sda");
        history.add_note(Note::new(0, Note::TOPOLOGY, "first"));
        for second in 0..100 {
            history.push(&one, tick(second), &[second as f64]);
        }
        history.add_note(Note::new(61_000_000_000, Note::BOOKMARK, "here"));
        assert_eq!(read(&history, 58, 62), ["topology:first", "58 59", "bookmark:here", "60 61 62"]);
        assert_eq!(read(&history, 3, 3), ["topology:first", "3"]);
        assert_eq!(history.range(), Some((0, 99_000_000_000)));
    }

    #[test]
    fn a_summing_reader_gets_whole_blocks_to_the_exact_end_and_no_tables_it_does_not_want() {
        let mut history = RecentHistory::new(1 << 20);
        let one = schema("sda");
        for second in 0..130 {
            if second % 5 == 0 && (90..=100).contains(&second) {
                history.add_note(Note::new(second * 1_000_000_000, Note::PROCESSES, "table"));
            }
            if second == 100 {
                history.add_note(Note::new(second * 1_000_000_000, Note::BOOKMARK, "here"));
            }
            history.push(&one, tick(second), &[second as f64]);
        }
        let around = |from: i64, to: i64, after: Option<i64>| {
            let (mut ticks, mut notes) = (Vec::new(), Vec::new());
            let each = &mut |piece: LogPiece<'_>| match piece {
                LogPiece::Frame(frame) => ticks.extend(frame.column(0).iter().map(|cell| *cell as i64)),
                LogPiece::Note(note) => notes.push(note.kind),
            };
            let stretch = (from * 1_000_000_000, to * 1_000_000_000);
            history.read_around(stretch, after.map(|second| second * 1_000_000_000), each).expect("memory can be read");
            (ticks, notes)
        };
        assert_eq!(around(90, 110, None), ((60..=110).collect(), vec![Note::BOOKMARK.to_owned()]));
        assert_eq!(around(125, 300, Some(125)), ((120..130).collect(), Vec::new()));
        // those after the moment, and the newest before it
        assert_eq!(around(90, 110, Some(96)).1, [Note::PROCESSES, Note::PROCESSES, Note::BOOKMARK]);
        assert_eq!(around(90, 110, Some(100)).1, [Note::PROCESSES, Note::BOOKMARK]);
    }

    #[test]
    fn a_device_that_comes_begins_a_block() {
        let mut history = RecentHistory::new(1 << 20);
        history.push(&schema("sda"), tick(1), &[1.0]);
        history.push(&schema("sdb"), tick(2), &[2.0]);
        assert_eq!(read(&history, 0, 9), ["1", "2"]);
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_rising_times() {
        let mut history = RecentHistory::new(1 << 20);
        let one = schema("sda");
        for second in 100..200 {
            history.push(&one, tick(second), &[second as f64]);
        }
        // into the middle of a block, then before all
        history.push(&one, tick(165), &[1.0]);
        history.push(&one, tick(166), &[2.0]);
        assert_eq!(history.range(), Some((100_000_000_000, 166_000_000_000)));
        assert_eq!(read(&history, 163, 199), ["163 164 1 2"]);
        history.push(&one, tick(50), &[3.0]);
        assert_eq!(read(&history, 0, 199), ["3"]);
        assert_eq!(history.range(), Some((50_000_000_000, 50_000_000_000)));
    }

    #[test]
    fn notes_of_a_repeated_time_are_dropped_and_the_topology_stays() {
        let mut history = RecentHistory::new(1 << 20);
        let one = schema("sda");
        history.add_note(Note::new(100_000_000_000, Note::TOPOLOGY, "disks"));
        for second in 100..110 {
            history.push(&one, tick(second), &[second as f64]);
        }
        history.add_note(Note::new(105_000_000_000, Note::PROCESSES, "of the first time"));
        history.add_note(Note::new(106_000_000_000, Note::BOOKMARK, "mine"));
        history.add_note(Note::new(50_000_000_000, Note::CLOCK, "set back"));
        history.push(&one, tick(50), &[1.0]);
        assert_eq!(read(&history, 50, 50), ["topology:disks", "clock:set back", "1"]);
        assert_eq!(read(&history, 51, 199), ["topology:disks", "bookmark:mine"]);
    }

    #[test]
    fn a_bookmark_of_a_time_that_comes_again_holds_up_no_other_note() {
        let mut history = RecentHistory::new(1 << 20);
        let one = schema("sda");
        history.push(&one, tick(1000), &[1.0]);
        history.add_note(Note::new(1_000_000_000_000, Note::BOOKMARK, "mine"));
        for second in 100..400 {
            history.add_note(Note::new(second * 1_000_000_000, Note::PROCESSES, "table"));
            history.push(&one, tick(second), &[1.0]);
        }
        history.forget_before(390_000_000_000);
        assert_eq!(history.notes.iter().filter(|note| note.kind == Note::PROCESSES).count(), 10);
        assert_eq!(history.notes.len(), 11);
    }

    #[test]
    fn the_oldest_go_and_the_topology_stays() {
        let mut history = RecentHistory::new(2 * BLOCK_TICKS * 8 + 100);
        let one = schema("sda");
        history.add_note(Note::new(0, Note::TOPOLOGY, "first"));
        history.add_note(Note::new(1, Note::BOOKMARK, "gone"));
        for second in 0..600 {
            history.push(&one, tick(second), &[0.0]);
        }
        assert!(history.memory_bytes() <= 2 * BLOCK_TICKS * 8 + 100, "{}", history.memory_bytes());
        assert_eq!(history.range(), Some((480_000_000_000, 599_000_000_000)));
        assert_eq!(read(&history, 599, 599), ["topology:first", "0"]);
    }
}
