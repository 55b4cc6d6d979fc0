//! Writing of the tail.

use std::path::PathBuf;

use crate::format::{HEAD_SPAN, HeadRecord, Role};
use crate::output::{RecordOutput, WriteFault};
use crate::recover::NextNumbers;
use crate::schema::StoredSchema;

/// The tail file.
#[derive(Debug)]
pub(super) struct Tail {
    out: RecordOutput,
    /// Id of the last schema in the file, if any.
    schema: Option<u64>,
    /// Length to which it is cut: after its head and, if there is one,
    /// the schema `base_schema_id`. So it always has a head.
    base: u64,
    base_schema: Option<u64>,
    /// Everything before this offset is in blocks.
    done: u64,
}

/// Largest tail that waits until its blocks are synced.
const MOST_WAITING: u64 = 1 << 24;

impl Tail {
    /// Creates the file, or empties the existing one.
    pub fn create(path: PathBuf, next: NextNumbers) -> Result<Tail, WriteFault> {
        let mut out = RecordOutput::create(path)?;
        let mut record = Vec::new();
        HeadRecord { role: Role::Tail, segment: next.segment, next_tick: next.tick, next_note: next.note }
            .write(&mut record);
        out.append(&record)?;
        Ok(Tail { out, schema: None, base: HEAD_SPAN, base_schema: None, done: 0 })
    }

    /// Ensures that the schema is the last one in the file, before ticks that use it.
    pub fn ready(&mut self, stored: &StoredSchema) -> Result<(), WriteFault> {
        if self.schema == Some(stored.id) {
            return Ok(());
        }
        let empty = self.out.end == self.base;
        if empty && self.base > HEAD_SPAN {
            self.out.cut(HEAD_SPAN)?;
            (self.base, self.base_schema) = (HEAD_SPAN, None);
        }
        self.out.append(&stored.record)?;
        self.schema = Some(stored.id);
        if empty {
            (self.base, self.base_schema) = (self.out.end, self.schema);
        }
        Ok(())
    }

    /// Appends a tick or a note.
    pub fn append(&mut self, record: &[u8]) -> Result<(), WriteFault> {
        self.out.append(record)
    }

    /// Notes that blocks contain all its ticks and notes. It is cut later, when the device has them.
    pub fn pass(&mut self) {
        self.done = self.out.end;
    }

    /// Returns true if all its ticks are in blocks, so that it may be cut.
    pub fn is_done(&self) -> bool {
        self.out.end > self.base && self.out.end == self.done
    }

    /// Returns true if it is too long to grow further.
    pub fn is_long(&self) -> bool {
        self.out.end > MOST_WAITING
    }

    /// Empties it, because blocks contain its ticks and notes.
    pub fn cut(&mut self) -> Result<(), WriteFault> {
        self.out.cut(self.base)?;
        self.schema = self.base_schema;
        Ok(())
    }

    /// The file.
    pub fn out(&self) -> &RecordOutput {
        &self.out
    }
}
