//! The tail being written.

use std::path::{Path, PathBuf};

use crate::format::{HEAD_SPAN, Head, Role};
use crate::output::{Fault, Output};
use crate::recover::Next;
use crate::schema::StoredSchema;

/// The tail file.
#[derive(Debug)]
pub(super) struct Tail {
    out: Output,
    /// Schema that it ends with, if any.
    schema: Option<u64>,
    /// Where it is cut back to: behind its head and, where it has one there,
    /// this schema. So it is never without a head.
    base: u64,
    base_schema: Option<u64>,
}

impl Tail {
    /// Makes the file, or empties the one that was taken over.
    pub fn create(path: PathBuf, next: Next) -> Result<Tail, Fault> {
        let mut out = Output::create(path)?;
        let mut record = Vec::new();
        Head { role: Role::Tail, segment: next.segment, next_tick: next.tick, next_note: next.note }.write(&mut record);
        out.append(&record)?;
        Ok(Tail { out, schema: None, base: HEAD_SPAN, base_schema: None })
    }

    /// Sees to it that the schema stands before the ticks that follow it.
    pub fn ready(&mut self, stored: &StoredSchema) -> Result<(), Fault> {
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
    pub fn append(&mut self, record: &[u8]) -> Result<(), Fault> {
        self.out.append(record)
    }

    /// Empties it: a block has its ticks and notes now.
    pub fn cut(&mut self) -> Result<(), Fault> {
        self.out.cut(self.base)?;
        self.schema = self.base_schema;
        Ok(())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.out.path
    }
}
