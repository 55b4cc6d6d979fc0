//! Reading logs for the commands: what was named on the command line, the
//! window asked for, and one loop over everything in it.

use std::path::{Path, PathBuf};

use clap::Args;
use diskwright_base::{Frame, Note};
use diskwright_datastore::{Damage, Item, Reader};

use super::{Failure, when};

/// The stretch of a log that a command looks at.
#[derive(Args, Clone, Default)]
pub struct Window {
    /// Start: 2026-11-21T22:15:00Z, "2026-11-21 22:15", 22:15, or -10m (before the log's end)
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    from: Option<String>,
    /// End, written like --from
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    to: Option<String>,
}

impl Window {
    /// True when neither end is given.
    pub fn is_whole(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }
}

/// Logs opened for reading, with the window in nanoseconds since 1970 UTC.
pub struct Logs {
    paths: Vec<PathBuf>,
    /// First and last moment that will be read.
    pub range: (i64, i64),
}

/// What a log holds, in the order in which it is read.
pub enum Piece<'a> {
    /// Some ticks.
    Frame(&'a Frame),
    /// A note.
    Note(Note),
    /// Something that could not be read.
    Damage(Damage),
}

impl Logs {
    /// Opens every log once, to learn its times.
    pub fn open(paths: &[PathBuf], window: &Window) -> Result<Logs, Failure> {
        let mut whole: Option<(i64, i64)> = None;
        for path in paths {
            let range = Reader::open(path)?.range()?;
            let (first, last) = range.ok_or_else(|| Failure::Failed(format!("{}: no tick in it", path.display())))?;
            whole = Some(whole.map_or((first, last), |(a, b)| (a.min(first), b.max(last))));
        }
        let (first, last) = whole.ok_or_else(|| Failure::Usage("no log named".into()))?;
        let from = window.from.as_deref().map(|t| when::parse(t, last)).transpose()?;
        let to = window.to.as_deref().map(|t| when::parse(t, last)).transpose()?;
        let range = (from.unwrap_or(first).max(first), to.unwrap_or(last).min(last));
        if range.0 > range.1 {
            let held = format!("{} to {}", when::rfc3339(first), when::rfc3339(last));
            return Err(Failure::Usage(format!("nothing between --from and --to: the log holds {held}")));
        }
        Ok(Logs { paths: paths.to_vec(), range })
    }

    /// Reads everything in the window, log after log.
    pub fn read(&self, mut each: impl FnMut(Piece<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
        for path in &self.paths {
            self.read_one(path, &mut each)?;
        }
        Ok(())
    }

    fn read_one(&self, path: &Path, each: &mut impl FnMut(Piece<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut reader = Reader::open(path)?;
        reader.window(self.range.0, self.range.1);
        let mut frame = Frame::default();
        while let Some(item) = reader.next(&mut frame)? {
            match item {
                Item::Frame => each(Piece::Frame(&frame))?,
                Item::Note(note) => each(Piece::Note(note))?,
                Item::Damage(damage) => each(Piece::Damage(damage))?,
            }
        }
        Ok(())
    }
}

/// Says on standard error what was lost; the answer goes on with the rest.
pub fn tell_damage(damage: &Damage) {
    eprintln!("diskwright: {damage}");
}
