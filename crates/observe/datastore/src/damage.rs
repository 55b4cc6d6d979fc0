//! Reports of the parts of a log that could not be read.

use std::fmt;
use std::path::{Path, PathBuf};

use diskwright_base::units::format_count;

/// Kind of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Bytes that are not a valid record; reading continued after them.
    Damaged,
    /// The file ends inside a record. At the end of a log this is the
    /// unfinished last write of a recorder that still runs or was killed.
    Unfinished,
    /// The file ends without its end record: its recorder still runs, was
    /// killed, or the file was truncated between two records.
    Unclosed,
    /// The records on both sides are sound, but ticks between them are gone
    /// (a deleted segment file, or a cut between two records).
    Missing,
    /// Ticks that were already read, in a copy of a segment.
    Repeated,
    /// A link, pipe or device where a file is expected; it is not read.
    Refused,
    /// An empty bookmark file: it lost its content, because the first bookmark wrote a head.
    Emptied,
}

/// One place where something was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// Offset of the first unusable byte.
    pub offset: u64,
    /// Number of unusable bytes.
    pub bytes: u64,
    /// Ticks lost here, by the numbers of the next sound ticks; `None` if
    /// no sound record follows.
    pub ticks: Option<u64>,
    /// Notes lost here, counted in the same way.
    pub notes: Option<u64>,
    /// Kind of the loss.
    pub loss: Loss,
    /// Wall time of the last tick before the loss, if there is one.
    pub after_ns: Option<i64>,
    /// Wall time of the first tick after the loss, if there is one.
    pub before_ns: Option<i64>,
}

impl Damage {
    /// Creates a loss whose size in ticks and notes is not known yet.
    pub(crate) fn with_unknown_size(file: &Path, offset: u64, bytes: u64, loss: Loss) -> Damage {
        Damage { file: file.to_owned(), offset, bytes, ticks: None, notes: None, loss, after_ns: None, before_ns: None }
    }

    /// Describes the place: the file, and the byte if there is one.
    pub fn describe_place(&self) -> String {
        match self.loss {
            Loss::Missing | Loss::Refused | Loss::Emptied => self.file.display().to_string(),
            _ => format!("{}: byte {}", self.file.display(), self.offset),
        }
    }

    /// Describes the cause in words.
    pub fn describe_cause(&self) -> String {
        let bytes = self.bytes;
        match self.loss {
            Loss::Damaged => format_count(bytes, "byte is damaged", "bytes are damaged"),
            Loss::Unfinished => {
                format!("the file ends inside a record, after {} of it", format_count(bytes, "byte", "bytes"))
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
        write!(f, "{}: {}", self.describe_place(), self.describe_cause())?;
        match self.ticks {
            Some(ticks) => write!(f, ", {} lost", format_count(ticks, "tick", "ticks"))?,
            None => write!(f, ", an unknown number of ticks lost")?,
        }
        match self.notes {
            Some(0) | None => Ok(()),
            Some(notes) => write!(f, ", {} lost", format_count(notes, "note", "notes")),
        }
    }
}
