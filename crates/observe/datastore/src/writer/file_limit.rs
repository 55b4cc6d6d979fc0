//! A limit of this process for the size of files (`ulimit -f`): a file that would exceed it gives place to another, so
//! that recording continues. A limit that is too small for a block counts as a full disk.

use super::LogWriter;
use crate::record_file::WriteFault;

/// Largest part of a tick's record that is no cell, bytes.
const TICK_HEAD_BYTES: usize = 128;
/// Largest size of a cell in the tail, bytes.
const CELL_BYTES: usize = 10;

impl LogWriter {
    /// Empties the tail if a tick of so many cells might not fit into it: its ticks go into a block.
    pub(super) fn make_room_in_tail(&mut self, cells: usize) -> Result<(), WriteFault> {
        let bytes = (TICK_HEAD_BYTES + cells * CELL_BYTES) as u64;
        let end = self.tail.as_ref().map_or(0, |tail| tail.record_file().end);
        if end.saturating_add(bytes) <= self.max_file_bytes || self.buffer.frame().is_empty() {
            return Ok(());
        }
        self.write_block()?;
        // the tail is cut once its blocks are on the device
        if self.device_sync.is_some() { self.sync_now() } else { Ok(()) }
    }

    /// Begins another segment if the encoded block does not fit into this one.
    pub(super) fn make_room_in_segment(&mut self) -> Result<(), WriteFault> {
        let max_bytes = self.max_file_bytes;
        if self.segment.as_ref().is_some_and(|segment| segment.would_exceed(self.record.len(), max_bytes)) {
            self.end_segment()?;
            self.ensure_segment()?;
        }
        Ok(())
    }
}
