//! Where joined logs are written.

use std::sync::Arc;

use diskwright_base::{Frame, Note, Schema, Tick};
use diskwright_datastore::LogWriter;

use crate::IngestError;
use crate::piece_store::PieceStore;

/// Destination of joined logs.
pub enum MergeOutput<'a> {
    /// A log that stays.
    Log(&'a mut LogWriter),
    /// A log that goes with the command.
    Store(&'a mut PieceStore),
}

impl MergeOutput<'_> {
    /// Adds a tick.
    pub fn push_tick(&mut self, schema: &Arc<Schema>, tick: Tick, row: &[f64]) -> Result<(), IngestError> {
        match self {
            MergeOutput::Log(writer) => Ok(writer.push(schema, tick, row).map(drop)?),
            MergeOutput::Store(store) => store.push_tick(schema, tick, row),
        }
    }

    /// Adds the ticks of a frame.
    pub fn push_frame(&mut self, frame: &Frame) -> Result<(), IngestError> {
        match self {
            MergeOutput::Log(writer) => Ok(writer.push_frame(frame)?),
            MergeOutput::Store(store) => store.push_frame(frame),
        }
    }

    /// Adds a note.
    pub fn add_note(&mut self, note: &Note) -> Result<(), IngestError> {
        match self {
            MergeOutput::Log(writer) => Ok(writer.add_note(note).map(drop)?),
            MergeOutput::Store(store) => store.add_note(note),
        }
    }
}
