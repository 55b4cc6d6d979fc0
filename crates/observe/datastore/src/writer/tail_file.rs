//! Writing of the tail.

use std::path::PathBuf;

use crate::format::{FileRole, HEAD_RECORD_BYTES, HeadRecord};
use crate::record_file::{RecordFile, WriteFault};
use crate::recovery::NextNumbers;
use crate::schema::StoredSchema;

/// The tail file.
#[derive(Debug)]
pub(super) struct TailFile {
    out: RecordFile,
    /// Id of the last schema in the file, if any.
    last_schema_id: Option<u64>,
    /// Length to which the file is cut: after its head and, if there is one,
    /// the schema `base_schema_id`. So the file always has a head.
    base_end: u64,
    base_schema_id: Option<u64>,
    /// Everything before this offset is in blocks.
    in_blocks_end: u64,
}

/// Largest tail that waits until its blocks are synced.
const MAX_UNSYNCED_BYTES: u64 = 1 << 24;

impl TailFile {
    /// Creates the file, or empties the existing one.
    pub fn create(path: PathBuf, next: NextNumbers) -> Result<TailFile, WriteFault> {
        let mut out = RecordFile::create(path)?;
        let mut record = Vec::new();
        HeadRecord { role: FileRole::Tail, segment: next.segment, next_tick: next.tick, next_note: next.note }
            .write(&mut record);
        out.append(&record)?;
        Ok(TailFile { out, last_schema_id: None, base_end: HEAD_RECORD_BYTES, base_schema_id: None, in_blocks_end: 0 })
    }

    /// Ensures that the schema is the last one in the file, before ticks that use it.
    pub fn ensure_schema(&mut self, stored: &StoredSchema) -> Result<(), WriteFault> {
        if self.last_schema_id == Some(stored.id) {
            return Ok(());
        }
        let has_no_ticks = self.out.end == self.base_end;
        if has_no_ticks && self.base_end > HEAD_RECORD_BYTES {
            self.out.truncate_to(HEAD_RECORD_BYTES)?;
            (self.base_end, self.base_schema_id) = (HEAD_RECORD_BYTES, None);
        }
        self.out.append(&stored.record)?;
        self.last_schema_id = Some(stored.id);
        if has_no_ticks {
            (self.base_end, self.base_schema_id) = (self.out.end, self.last_schema_id);
        }
        Ok(())
    }

    /// Appends a tick or a note.
    pub fn append(&mut self, record: &[u8]) -> Result<(), WriteFault> {
        self.out.append(record)
    }

    /// Records that blocks contain all its ticks and notes. The file is cut later, when the device has the blocks.
    pub fn mark_all_in_blocks(&mut self) {
        self.in_blocks_end = self.out.end;
    }

    /// Returns true if all ticks of the file are in blocks, so that it may be cut.
    pub fn is_all_in_blocks(&self) -> bool {
        self.out.end > self.base_end && self.out.end == self.in_blocks_end
    }

    /// Returns true if the file is too long to grow further.
    pub fn exceeds_limit(&self) -> bool {
        self.out.end > MAX_UNSYNCED_BYTES
    }

    /// Removes all ticks and notes, because blocks contain them.
    pub fn cut_to_base(&mut self) -> Result<(), WriteFault> {
        self.out.truncate_to(self.base_end)?;
        self.last_schema_id = self.base_schema_id;
        Ok(())
    }

    /// The file.
    pub fn record_file(&self) -> &RecordFile {
        &self.out
    }
}
