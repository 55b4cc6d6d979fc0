//! What a log is read as, whoever wrote it.

use crate::{Frame, Note};

/// What comes out of a log, in order of time.
pub enum LogPiece<'a> {
    /// Some ticks. What the catalogue does not know of another tool's log has an id of
    /// `foreign.` and the log's own name.
    Frame(&'a Frame),
    /// A note. The first of another tool's log is [`Note::SOURCE`]; a gap stands where
    /// something could not be read.
    Note(Note),
}
