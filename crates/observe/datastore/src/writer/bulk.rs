//! Writing of whole frames, for imports. A frame that fills most of a block is
//! encoded directly, without a copy.

use std::ops::Range;
use std::path::Path;

use diskwright_base::{Frame, Tick};

use super::{LogWriter, round_times};
use crate::error::StoreError;
use crate::format::{BLOCK_KIND, BlockHead, MAX_BLOCK_TICKS, MAX_BUFFERED_CELLS, TAIL_FILE, close_record, open_record};
use crate::record_file::WriteFault;

impl LogWriter {
    /// Returns the number of ticks of `series` cells in one block. Frames of this
    /// length are the fastest to push; any other length works too.
    pub fn frame_ticks(&self, series: usize) -> usize {
        self.options.block_ticks.min(MAX_BUFFERED_CELLS / series.max(1)).clamp(1, MAX_BLOCK_TICKS)
    }

    /// Adds the ticks of a frame, in their order, with the rules for times of
    /// [`LogWriter::push`]. An unchanged schema should come in the
    /// same `Arc`: then its names are not compared.
    ///
    /// In bulk mode the writer buffers ticks that are too few for a block; if the
    /// process dies, only these are lost. Otherwise it records the frame tick by
    /// tick.
    ///
    /// # Errors
    /// When the log cannot be written, a full disk included, or the schema is
    /// too wide.
    pub fn push_frame(&mut self, frame: &Frame) -> Result<(), StoreError> {
        let dir = self.dir.clone();
        match self.options.bulk {
            true => self.push_bulk_frame(frame),
            false => self.push_tick_by_tick(frame),
        }
        .map_err(|fault| fault.into_error(&dir))
    }

    fn push_tick_by_tick(&mut self, frame: &Frame) -> Result<(), WriteFault> {
        let mut row = Vec::new();
        for (index, tick) in frame.ticks().iter().enumerate() {
            copy_row(frame, index, &mut row);
            self.last_time_ns = tick.time_ns;
            self.record_tick(frame.schema(), round_times(*tick, self.options.time_unit_ns), &row)?;
            if self.buffer.frame().is_full() {
                self.write_block()?;
            }
        }
        Ok(())
    }

    /// Adds a frame in bulk mode, split where time goes back.
    fn push_bulk_frame(&mut self, frame: &Frame) -> Result<(), WriteFault> {
        let ticks = frame.ticks();
        let (Some(first), Some(last)) = (ticks.first(), ticks.last()) else { return Ok(()) };
        self.write_pending_notes(first.time_ns)?;
        self.last_time_ns = last.time_ns;
        let mut start = 0;
        while start < ticks.len() {
            // Within a block, times never go back.
            let last_before_fall = ticks[start..].windows(2).position(|pair| pair[1].time_ns < pair[0].time_ns);
            let end = last_before_fall.map_or(ticks.len(), |index| start + index + 1);
            while start < end {
                start = self.push_some_ticks(frame, start..end)?;
            }
        }
        Ok(())
    }

    /// Adds some ticks from the start of the range; returns the index of the first that remains.
    fn push_some_ticks(&mut self, frame: &Frame, range: Range<usize>) -> Result<usize, WriteFault> {
        let max_ticks = self.frame_ticks(frame.schema().series.len());
        self.prepare_for_tick(frame.schema(), &round_times(frame.ticks()[range.start], self.options.time_unit_ns))?;
        let end = range.end.min(range.start + max_ticks);
        if self.buffer.frame().is_empty() && (end - range.start) * 2 >= max_ticks {
            self.write_block_directly(frame, range.start..end)?;
            return Ok(end);
        }
        let end = range.end.min(range.start + self.buffer.free_ticks());
        if self.buffer.has_one_schema() && self.options.time_unit_ns <= 1 {
            self.buffer.append_frame(frame, range.start..end);
        } else {
            let mut row = Vec::new();
            for index in range.start..end {
                copy_row(frame, index, &mut row);
                self.buffer.push(round_times(frame.ticks()[index], self.options.time_unit_ns), &row);
            }
        }
        self.next_numbers.tick += (end - range.start) as u64;
        if self.buffer.frame().is_full() {
            self.write_block()?;
        }
        Ok(end)
    }

    /// Writes a block directly from a frame; the buffer must be empty.
    fn write_block_directly(&mut self, frame: &Frame, range: Range<usize>) -> Result<(), WriteFault> {
        let unit = self.options.time_unit_ns;
        let ticks: Vec<Tick> = frame.ticks()[range.clone()].iter().map(|tick| round_times(*tick, unit)).collect();
        let (Some(first), Some(last), Some(stored)) = (ticks.first(), ticks.last(), &self.current_schema) else {
            return Ok(());
        };
        let id = stored.id;
        let head = BlockHead {
            first_tick: self.next_numbers.tick,
            first_time_ns: first.time_ns,
            last_time_ns: last.time_ns,
            next_note: self.next_numbers.note,
            ticks: ticks.len(),
            columns: frame.schema().series.len(),
            parts: 1,
        };
        self.encode_notes();
        let start = open_record(&mut self.record);
        head.write(&mut self.record);
        self.record.extend_from_slice(&id.to_le_bytes());
        self.record.extend_from_slice(&(ticks.len() as u16).to_le_bytes());
        self.encoder.encode_plain(frame, range, &ticks, &mut self.record);
        let fits = close_record(&mut self.record, start, BLOCK_KIND);
        assert!(fits, "a block of the largest number of buffered cells fits into a record");
        let Some(segment) = &mut self.segment else { return Ok(()) };
        segment.append(&self.record, &ticks)?;
        self.next_numbers.tick += ticks.len() as u64;
        self.finish_block()
    }
}

/// Copies the cells of one tick into `row`.
fn copy_row(frame: &Frame, index: usize, row: &mut Vec<f64>) {
    row.clear();
    row.extend((0..frame.schema().series.len()).map(|column| frame.column(column)[index]));
}

/// Removes the tail of an earlier recorder, whose ticks are in a block.
pub(super) fn remove_tail(dir: &Path) -> Result<(), WriteFault> {
    let path = dir.join(TAIL_FILE);
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(WriteFault::from_io(&path, e)),
        _ => Ok(()),
    }
}
