//! Reading the tail, after all segments.

use diskwright_base::Frame;

use super::{LogReader, ReadStage};
use crate::error::StoreError;
use crate::format::{MAX_BLOCK_CELLS, TAIL_FILE};
use crate::ledger::TickLedger;
use crate::recovery::{self, TailContent};

impl LogReader {
    /// Reads the ledger, then the tail.
    pub(super) fn read_tail(&self) -> Result<(Option<TickLedger>, TailContent), StoreError> {
        let (ledger, _) = TickLedger::read(&self.path);
        Ok((ledger, recovery::read_tail_of_log(&self.path, &self.segment_files, self.account.next_tick.unwrap_or(0))?))
    }

    /// Reads the tail as it is now and continues with it.
    pub(super) fn switch_to_tail(&mut self) -> Result<(), StoreError> {
        let (ledger, content) = self.read_tail()?;
        self.ledger = ledger;
        self.start_tail(content);
        Ok(())
    }

    /// Continues with this tail.
    pub(super) fn start_tail(&mut self, content: TailContent) {
        let expected = self.account.next_note;
        let path = self.path.join(TAIL_FILE);
        let tick = self.account.next_tick.unwrap_or(0);
        if let Some(head) = content.head
            && content.ticks.iter().all(|t| t.number < tick)
        {
            // A tail without new ticks shows that no more ticks were in flight.
            let note = self.account.next_note.unwrap_or(0);
            self.account.size_losses(&path, 0, head.next_tick.max(tick), note);
        }
        let new_notes = content.notes.iter().filter(|(number, _)| expected.is_none_or(|e| *number >= e));
        self.note_flow.add_notes(new_notes.cloned());
        self.stage = ReadStage::Tail { content: Box::new(content), ticks_done: 0, cells_done: 0 };
    }

    /// Fills the frame with ticks of the tail that no block contains; returns
    /// false, and ends the stage, when none are left.
    pub(super) fn read_from_tail(&mut self, frame: &mut Frame) -> Result<bool, StoreError> {
        let ReadStage::Tail { content, ticks_done, cells_done } = &mut self.stage else { return Ok(false) };
        let (from, to) = (self.note_flow.from_ns, self.note_flow.to_ns);
        let mut frame_schema_id: Option<u64> = None;
        let mut losses = Vec::new();
        let path = if self.is_dir { self.path.join(TAIL_FILE) } else { self.path.clone() };
        while let Some(entry) = content.ticks.get(*ticks_done).copied() {
            let width = entry.columns;
            if frame_schema_id.is_some_and(|id| id != entry.schema_id || frame.is_full()) {
                break;
            }
            for (_, lost) in content.damages.extract_if(.., |(ticks, _)| *ticks <= *ticks_done) {
                self.account.add_loss(&path, lost.offset, lost.bytes, lost.loss);
            }
            *ticks_done += 1;
            if !content.has_cells(&entry) {
                continue;
            }
            let row = *cells_done..*cells_done + width;
            *cells_done = row.end;
            debug_assert!(row.end <= content.cells.len(), "ticks that no block contains have their cells");
            // If the schema is lost, so is the tick: the number of the next tick reveals it.
            let Some(schema) = content.schema(&entry).cloned() else { continue };
            let is_new = self.account.next_tick.is_none_or(|expected| entry.number >= expected);
            if is_new {
                let note = self.account.next_note.unwrap_or(0);
                self.account.size_losses(&path, 0, entry.number, note);
                losses.extend(self.account.release_before(entry.tick.time_ns, entry.tick.time_ns));
                self.account.next_tick = Some(entry.number.saturating_add(1));
            }
            let is_wanted =
                entry.number >= self.first_wanted_tick && entry.tick.time_ns >= from && entry.tick.time_ns <= to;
            if !is_new || !is_wanted {
                continue;
            }
            if frame_schema_id.is_none() {
                let capacity = (MAX_BLOCK_CELLS / width.max(1)).clamp(1, content.ticks.len() + 1 - *ticks_done);
                frame.reset(schema, capacity);
                frame_schema_id = Some(entry.schema_id);
            }
            frame.push(entry.tick, &content.cells[row]);
        }
        if frame_schema_id.is_none() {
            for (_, lost) in content.damages.drain(..) {
                self.account.add_loss(&path, lost.offset, lost.bytes, lost.loss);
            }
            self.stage = ReadStage::Finishing;
        }
        self.queue_losses(losses);
        Ok(frame_schema_id.is_some())
    }
}
