//! What a reader reports when part of a log cannot be had.

use std::fmt;
use std::path::PathBuf;

/// How something was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Bytes that are no valid record; reading went on behind them.
    Damaged,
    /// The file stops inside a record. At the end of a log this is the
    /// unfinished last write of a recorder that lives or was killed.
    Unfinished,
    /// The file stops without its closing record: its recorder lives, was
    /// killed, or the end was cut off between two records.
    Unclosed,
    /// The records on both sides are sound, but ticks between them are gone
    /// (a deleted segment file, or a cut between two records).
    Missing,
}

/// One place where something was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// First byte that could not be used.
    pub offset: u64,
    /// How many bytes could not be used.
    pub bytes: u64,
    /// Ticks lost here, as the numbers of the next sound ticks tell; `None`
    /// where nothing follows that could tell.
    pub ticks: Option<u64>,
    /// Notes lost here, told in the same way.
    pub notes: Option<u64>,
    /// How it was lost.
    pub loss: Loss,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.loss {
            Loss::Damaged => "damaged",
            Loss::Unfinished => "unfinished record",
            Loss::Unclosed => "not closed",
            Loss::Missing => "ticks missing",
        };
        write!(f, "{}: byte {}: {what}, {} bytes", self.file.display(), self.offset, self.bytes)?;
        match self.ticks {
            Some(ticks) => write!(f, ", {ticks} ticks lost")?,
            None => write!(f, ", how many ticks is not known")?,
        }
        match self.notes {
            Some(0) | None => Ok(()),
            Some(notes) => write!(f, ", {notes} notes lost"),
        }
    }
}
