//! The tail being written.

use std::path::PathBuf;

use crate::format::{HEAD_SPAN, HeadRecord, Role};
use crate::output::{RecordOutput, WriteFault};
use crate::recover::NextNumbers;
use crate::schema::StoredSchema;

/// The tail file.
#[derive(Debug)]
pub(super) struct Tail {
    out: RecordOutput,
    /// Schema that it ends with, if any.
    schema: Option<u64>,
    /// Where it is cut back to: behind its head and, where it has one there,
    /// this schema. So it is never without a head.
    base: u64,
    base_schema: Option<u64>,
    /// What stands before this is in blocks.
    done: u64,
}

/// Longest tail that waits for the device to have its blocks.
const MOST_WAITING: u64 = 1 << 24;

impl Tail {
    /// Makes the file, or empties the one that was taken over.
    pub fn create(path: PathBuf, next: NextNumbers) -> Result<Tail, WriteFault> {
        let mut out = RecordOutput::create(path)?;
        let mut record = Vec::new();
        HeadRecord { role: Role::Tail, segment: next.segment, next_tick: next.tick, next_note: next.note }
            .write(&mut record);
        out.append(&record)?;
        Ok(Tail { out, schema: None, base: HEAD_SPAN, base_schema: None, done: 0 })
    }

    /// Sees to it that the schema stands before the ticks that follow it.
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

    /// A block has its ticks and notes now; it is not cut before the device has that.
    pub fn pass(&mut self) {
        self.done = self.out.end;
    }

    /// True where all of it is in blocks, and it may be cut.
    pub fn is_done(&self) -> bool {
        self.out.end > self.base && self.out.end == self.done
    }

    /// True where it should not grow any more.
    pub fn is_long(&self) -> bool {
        self.out.end > MOST_WAITING
    }

    /// Empties it: a block has its ticks and notes now.
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
