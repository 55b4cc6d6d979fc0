//! What a reader reports when part of a log cannot be had.

use std::fmt;
use std::path::{Path, PathBuf};

use diskwright_base::units::plural;

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
    /// Ticks that were read already, in a copy of a segment.
    Repeated,
    /// A link, a pipe or a device in the place of a file; it is not read.
    Refused,
    /// A file of bookmarks that holds nothing: with the first one it got a head.
    Emptied,
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
    /// Wall time of the last tick before it, as far as there is one.
    pub after_ns: Option<i64>,
    /// Wall time of the first tick behind it, as far as there is one.
    pub before_ns: Option<i64>,
}

impl Damage {
    /// A loss whose size is not known yet.
    pub(crate) fn at(file: &Path, offset: u64, bytes: u64, loss: Loss) -> Damage {
        Damage { file: file.to_owned(), offset, bytes, ticks: None, notes: None, loss, after_ns: None, before_ns: None }
    }

    /// Where it is, for people.
    pub fn place(&self) -> String {
        match self.loss {
            Loss::Missing | Loss::Refused | Loss::Emptied => self.file.display().to_string(),
            _ => format!("{}: byte {}", self.file.display(), self.offset),
        }
    }

    /// What is wrong there, as a sentence.
    pub fn because(&self) -> String {
        let bytes = self.bytes;
        match self.loss {
            Loss::Damaged => plural(bytes, "byte is damaged", "bytes are damaged"),
            Loss::Unfinished => {
                format!("the file ends inside a record, after {} of it", plural(bytes, "byte", "bytes"))
            }
            Loss::Unclosed => "the file is truncated, or its recorder was killed".to_owned(),
            Loss::Missing => "ticks are missing here: a file was deleted or truncated".to_owned(),
            Loss::Repeated => format!("{bytes} bytes hold ticks that were already read (a copied file)"),
            Loss::Refused => "it is not a regular file or cannot be read, and is skipped".to_owned(),
            Loss::Emptied => "the bookmark file is empty; its bookmarks are lost".to_owned(),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.because())?;
        match self.ticks {
            Some(ticks) => write!(f, ", {} lost", plural(ticks, "tick", "ticks"))?,
            None => write!(f, ", an unknown number of ticks lost")?,
        }
        match self.notes {
            Some(0) | None => Ok(()),
            Some(notes) => write!(f, ", {} lost", plural(notes, "note", "notes")),
        }
    }
}
