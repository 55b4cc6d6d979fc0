//! The form in which every log is read, our own and other tools'.

use crate::{Frame, Note};

/// One item read from a log, in order of time.
pub enum LogPiece<'a> {
    /// Some ticks. A series of another tool's log that the catalogue does not know has the id
    /// `foreign.` and the log's own name.
    Frame(&'a Frame),
    /// A note. The first of another tool's log is [`Note::SOURCE`]; a gap marks a place
    /// that could not be read.
    Note(Note),
}
