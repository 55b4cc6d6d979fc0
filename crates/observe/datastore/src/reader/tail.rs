//! The reader's way through the tail, behind all segments.

use diskwright_base::Frame;

use super::{LogReader, ReadStage};
use crate::error::StoreError;
use crate::format::{MAX_CELLS, TAIL};
use crate::ledger::TickLedger;
use crate::recover::{self, TailContent};

impl LogReader {
    /// The tail, and the ledger as it was before.
    pub(super) fn read_tail(&self) -> Result<(Option<TickLedger>, TailContent), StoreError> {
        let (ledger, _) = TickLedger::read(&self.path);
        Ok((ledger, recover::tail_of(&self.path, &self.places, self.account.tick.unwrap_or(0))?))
    }

    pub(super) fn leave_for_tail(&mut self) -> Result<(), StoreError> {
        let (ledger, content) = self.read_tail()?;
        self.ledger = ledger;
        self.enter_tail(content);
        Ok(())
    }

    pub(super) fn enter_tail(&mut self, content: TailContent) {
        let expected = self.account.note;
        let path = self.path.join(TAIL);
        let tick = self.account.tick.unwrap_or(0);
        if let Some(head) = content.head
            && content.ticks.iter().all(|t| t.number < tick)
        {
            // A tail without news says that nothing more was under way.
            let note = self.account.note.unwrap_or(0);
            self.account.size(&path, 0, head.next_tick.max(tick), note);
        }
        let new = content.notes.iter().filter(|(number, _)| expected.is_none_or(|e| *number >= e));
        self.flow.take(new.cloned());
        self.stage = ReadStage::Tail(Box::new(content), 0, 0);
    }

    /// Fills the frame with ticks of the tail that no block has; false (and
    /// the stage ends) when there are none left.
    pub(super) fn tail_step(&mut self, frame: &mut Frame) -> Result<bool, StoreError> {
        let ReadStage::Tail(content, done, cell) = &mut self.stage else { return Ok(false) };
        let (from, to) = (self.flow.from_ns, self.flow.to_ns);
        let mut filled: Option<u64> = None;
        let mut told = Vec::new();
        let path = if self.is_dir { self.path.join(TAIL) } else { self.path.clone() };
        while let Some(taken) = content.ticks.get(*done).copied() {
            let width = taken.columns;
            if filled.is_some_and(|id| id != taken.schema) || filled.is_some() && frame.is_full() {
                break;
            }
            for (_, lost) in content.damages.extract_if(.., |(ticks, _)| *ticks <= *done) {
                self.account.lose(&path, lost.offset, lost.bytes, lost.loss);
            }
            *done += 1;
            if !content.has_cells(&taken) {
                continue;
            }
            let row = *cell..*cell + width;
            *cell = row.end;
            // Where the schema is lost, the next tick tells that this one is.
            let Some(schema) = content.schema(&taken).cloned() else { continue };
            let fresh = self.account.tick.is_none_or(|expected| taken.number >= expected);
            if fresh {
                let note = self.account.note.unwrap_or(0);
                self.account.size(&path, 0, taken.number, note);
                told.extend(self.account.arrive(taken.tick.time_ns, taken.tick.time_ns));
                self.account.tick = Some(taken.number.saturating_add(1));
            }
            let is_wanted = taken.number >= self.from_tick && taken.tick.time_ns >= from && taken.tick.time_ns <= to;
            if !fresh || !is_wanted {
                continue;
            }
            if filled.is_none() {
                let room = (MAX_CELLS / width.max(1)).clamp(1, content.ticks.len() + 1 - *done);
                frame.reset(schema, room);
                filled = Some(taken.schema);
            }
            frame.push(taken.tick, &content.cells[row]);
        }
        if filled.is_none() {
            for (_, lost) in content.damages.drain(..) {
                self.account.lose(&path, lost.offset, lost.bytes, lost.loss);
            }
            self.stage = ReadStage::Rest;
        }
        self.tell(told);
        Ok(filled.is_some())
    }
}
