//! Reading the tail, after all segments.

use diskwright_base::Frame;

use super::{LogReader, ReadStage};
use crate::error::StoreError;
use crate::format::{MAX_CELLS, TAIL};
use crate::ledger::TickLedger;
use crate::recover::{self, TailContent};

impl LogReader {
    /// Reads the ledger, then the tail.
    pub(super) fn read_tail(&self) -> Result<(Option<TickLedger>, TailContent), StoreError> {
        let (ledger, _) = TickLedger::read(&self.path);
        Ok((ledger, recover::tail_of(&self.path, &self.places, self.account.tick.unwrap_or(0))?))
    }

    /// Reads the tail as it is now and continues with it.
    pub(super) fn leave_for_tail(&mut self) -> Result<(), StoreError> {
        let (ledger, content) = self.read_tail()?;
        self.ledger = ledger;
        self.enter_tail(content);
        Ok(())
    }

    /// Continues with this tail.
    pub(super) fn enter_tail(&mut self, content: TailContent) {
        let expected = self.account.note;
        let path = self.path.join(TAIL);
        let tick = self.account.tick.unwrap_or(0);
        if let Some(head) = content.head
            && content.ticks.iter().all(|t| t.number < tick)
        {
            // A tail without new ticks shows that no more ticks were in flight.
            let note = self.account.note.unwrap_or(0);
            self.account.size(&path, 0, head.next_tick.max(tick), note);
        }
        let new = content.notes.iter().filter(|(number, _)| expected.is_none_or(|e| *number >= e));
        self.flow.take(new.cloned());
        self.stage = ReadStage::Tail(Box::new(content), 0, 0);
    }

    /// Fills the frame with ticks of the tail that no block contains; returns
    /// false, and ends the stage, when none are left.
    pub(super) fn tail_step(&mut self, frame: &mut Frame) -> Result<bool, StoreError> {
        let ReadStage::Tail(content, done, cell) = &mut self.stage else { return Ok(false) };
        let (from, to) = (self.flow.from_ns, self.flow.to_ns);
        let mut filled: Option<u64> = None;
        let mut losses = Vec::new();
        let path = if self.is_dir { self.path.join(TAIL) } else { self.path.clone() };
        while let Some(entry) = content.ticks.get(*done).copied() {
            let width = entry.columns;
            if filled.is_some_and(|id| id != entry.schema) || filled.is_some() && frame.is_full() {
                break;
            }
            for (_, lost) in content.damages.extract_if(.., |(ticks, _)| *ticks <= *done) {
                self.account.lose(&path, lost.offset, lost.bytes, lost.loss);
            }
            *done += 1;
            if !content.has_cells(&entry) {
                continue;
            }
            let row = *cell..*cell + width;
            *cell = row.end;
            // If the schema is lost, so is the tick: the number of the next tick reveals it.
            let Some(schema) = content.schema(&entry).cloned() else { continue };
            let fresh = self.account.tick.is_none_or(|expected| entry.number >= expected);
            if fresh {
                let note = self.account.note.unwrap_or(0);
                self.account.size(&path, 0, entry.number, note);
                losses.extend(self.account.arrive(entry.tick.time_ns, entry.tick.time_ns));
                self.account.tick = Some(entry.number.saturating_add(1));
            }
            let is_wanted = entry.number >= self.from_tick && entry.tick.time_ns >= from && entry.tick.time_ns <= to;
            if !fresh || !is_wanted {
                continue;
            }
            if filled.is_none() {
                let capacity = (MAX_CELLS / width.max(1)).clamp(1, content.ticks.len() + 1 - *done);
                frame.reset(schema, capacity);
                filled = Some(entry.schema);
            }
            frame.push(entry.tick, &content.cells[row]);
        }
        if filled.is_none() {
            for (_, lost) in content.damages.drain(..) {
                self.account.lose(&path, lost.offset, lost.bytes, lost.loss);
            }
            self.stage = ReadStage::Rest;
        }
        self.tell(losses);
        Ok(filled.is_some())
    }
}
