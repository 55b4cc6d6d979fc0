//! Follows a growing log by the numbers of its ticks and notes, in the order in which they were written. Times cannot
//! be used: if the clock is set back, later ticks have earlier times.

use super::{LogReader, ReadStage};
use crate::error::StoreError;
use crate::format::{BLOCK_KIND, BlockHead};
use crate::record_scanner::{HEADER_READ_BYTES, Peek, RecordScanner};
use crate::recovery;
use crate::tail::TailTick;

/// Position up to which a log was read: the numbers of the next tick and note.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPosition {
    /// Number of the next tick.
    pub tick: u64,
    /// Number of the next note.
    pub note: u64,
}

/// Current end of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// Number of the tick after the last one.
    pub next_tick: u64,
    /// Wall time of the tick that was written last, which is not the largest if the clock was set back. `None` if
    /// there is no tick.
    pub time_ns: Option<i64>,
}

impl LogReader {
    /// Skips the ticks before this number, whatever their times.
    pub fn start_at_tick(&mut self, tick: u64) {
        self.first_wanted_tick = tick;
    }

    /// Continues where an earlier reader of the same log ended: returns every tick and note written since, once.
    /// Bookmarks are left out, because they have no position in that order.
    pub fn resume_from(&mut self, position: LogPosition) {
        self.first_wanted_tick = position.tick;
        self.note_flow.from_note = position.note;
        self.note_flow.marks = None;
    }

    /// Returns the position reached, valid once [`LogReader::next`] has returned `None`.
    pub fn position(&self) -> LogPosition {
        LogPosition {
            tick: self.account.next_tick.unwrap_or(0).max(self.first_wanted_tick),
            note: self.note_flow.next_note.max(self.note_flow.from_note),
        }
    }

    /// Returns where the log ended when it was opened. `known` is an earlier result, which is reused if no ticks
    /// were added.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn log_end(&self, known: LogEnd) -> Result<LogEnd, StoreError> {
        let counted = self.ledger.map_or(0, |ledger| ledger.next_tick);
        if let Some(last) = self.last_tail_tick()? {
            let next_tick = counted.max(last.number.saturating_add(1));
            return Ok(LogEnd { next_tick, time_ns: Some(last.tick.time_ns) });
        }
        let next_tick = counted.max(self.query_newest_segment(next_tick_number)?.unwrap_or(0));
        if next_tick == known.next_tick && known.time_ns.is_some() {
            return Ok(known);
        }
        Ok(LogEnd { next_tick, time_ns: self.query_newest_segment(last_tick_time)? })
    }

    fn last_tail_tick(&self) -> Result<Option<TailTick>, StoreError> {
        match &self.stage {
            ReadStage::Tail { content, .. } => Ok(content.ticks.last().copied()),
            _ if !self.is_dir => Ok(None),
            // only numbers and times are needed, so no cells are read
            _ => Ok(recovery::read_tail_of_log(&self.path, &self.segment_files, u64::MAX)?.ticks.last().copied()),
        }
    }

    /// Calls `query` on the segments, newest first, until it returns a value.
    fn query_newest_segment<T>(
        &self,
        query: impl Fn(RecordScanner) -> Result<Option<T>, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        if !self.is_dir {
            return query(RecordScanner::open_named(&self.path, HEADER_READ_BYTES)?);
        }
        for segment in self.segment_files.iter().rev() {
            let found = match RecordScanner::open(&segment.path(&self.path), HEADER_READ_BYTES) {
                Ok(scanner) => query(scanner)?,
                Err(StoreError::NotAFile(_)) => None,
                Err(e) if e.is_not_found() => None,
                Err(e) => return Err(e),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// Returns the number of the tick after the last one of a segment.
fn next_tick_number(mut scanner: RecordScanner) -> Result<Option<u64>, StoreError> {
    if let Some(end) = scanner.read_end_record()? {
        return Ok(Some(end.next_tick));
    }
    let head = find_last_block(scanner)?;
    Ok(head.map(|head| head.first_tick.saturating_add(head.ticks as u64)))
}

/// Returns the wall time of the last tick of a segment.
fn last_tick_time(scanner: RecordScanner) -> Result<Option<i64>, StoreError> {
    Ok(find_last_block(scanner)?.map(|head| head.last_time_ns))
}

fn find_last_block(mut scanner: RecordScanner) -> Result<Option<BlockHead>, StoreError> {
    let mut last = None;
    loop {
        match scanner.peek_record()? {
            Peek::Record(header) if header.kind == BLOCK_KIND => {
                if let Some(head) = scanner.read_payload(&header)?.and_then(BlockHead::parse) {
                    last = Some(head);
                }
            }
            Peek::Record(header) => scanner.skip_record(&header),
            Peek::Lost { loss: crate::Loss::Damaged, .. } => {}
            Peek::Lost { .. } | Peek::End => return Ok(last),
        }
    }
}
